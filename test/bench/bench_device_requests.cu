/*
 * bench_device_requests.cu
 *	  Whole requests through the interface, timed by the host's clock: a small one from the
 *	  keys to the first TID, the transfer of a large result into host memory, the load of a
 *	  column.
 */
#include "bench_device.cuh"

#include <sys/mman.h>
#include <time.h>

namespace bench
{

namespace
{

double
now_ms()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec * 1e3 + (double) t.tv_nsec / 1e6;
}

constexpr uint64_t arena_bytes = 256 << 20;
constexpr uint64_t chunk_bytes = 16 << 20;

struct timing
{
	std::vector<double> ms;

	double
	at(double share)
	{
		std::sort(ms.begin(), ms.end());
		return ms[(size_t) (share * (double) (ms.size() - 1))];
	}
};

void
must(gjd_status status)
{
	if (status != GJD_OK)
		throw_status(status, "request failed");
}

/* Times a request from its keys to its TIDs: everything that a backend would wait for, except its
 * own wakeup. */
void
small_requests(const gjd_api *api, setup &s, char *arena, gjd_what what, const char *name)
{
	std::vector<int64_t> keys;
	timing whole;
	uint64_t count = 0;

	for (int64_t k = 0; k < 4000; k++)
		keys.push_back(k * 20);
	for (int i = 0; i < 500; i++)
	{
		gjd_keyset_params set = {sizeof(set), 4, keys.data(), keys.size(), GJD_BY_AUTO,
								nullptr};
		gjd_match_params params = {sizeof(params), what, arena, 65536, {}, 0, 0, {}, nullptr, {}};
		gjd_keyset *keyset;
		gjd_match *match;
		gjd_match_state state;
		gjd_status status;
		double begin = now_ms();

		must(api->keyset_create(s.device, &set, &keyset, nullptr));
		must(api->match_begin(s.column, keyset, &params, &match, nullptr));
		while ((status = api->match_poll(match, &state, nullptr)) == GJD_PENDING)
			;
		must(status);
		whole.ms.push_back(now_ms() - begin);
		count = state.count;
		while (api->match_end(match, nullptr) == GJD_PENDING)
			;
		must(api->keyset_destroy(keyset, nullptr));
	}
	printf("{\"device\": \"%s\", \"what\": \"request: %s\", \"rows\": %llu, \"keys\": 4000, "
		   "\"matches\": %llu, \"ms\": %.4f, \"p99_ms\": %.4f}\n",
		   s.device->properties.name, name, (unsigned long long) s.rows,
		   (unsigned long long) count, whole.at(0.5), whole.at(0.99));
}

/*
 * Many requests in progress at all times, as those of as many clients: TIDs, or a sum without
 * groups. In batches, those that begin in one round over all of them are started together.
 */
void
many_requests(const gjd_api *api, setup &s, char *arena, int lanes, bool sums, bool in_batches)
{
	constexpr int most_lanes = 64;
	constexpr int total = 20000;
	const uint64_t n_keys = sums ? 1000 : 4000;
	std::vector<int64_t> keys;
	gjd_match *matches[most_lanes] = {};
	gjd_reduction asked = {};
	gjd_batch_info before = {}, info = {};
	int begun = 0;
	int done = 0;
	double begin = now_ms();

	must(api->batch_begin(s.device, nullptr));
	must(api->batch_end(s.device, &before, nullptr));
	info = before;
	begin = now_ms();
	asked.struct_size = sizeof(asked);
	asked.grouping = GJD_ONE_GROUP;
	asked.n_aggregates = 1;
	asked.aggregates[0] = {GJD_SUM, 0};
	asked.bound = UINT64_MAX;
	asked.visible_below = UINT32_MAX / 4 * 4;
	for (int64_t k = 0; k < (int64_t) n_keys; k++)
		keys.push_back(k * (int64_t) (997000 / n_keys));
	while (done < total)
	{
		if (in_batches)
			must(api->batch_begin(s.device, nullptr));
		for (int i = 0; i < lanes; i++)
		{
			gjd_match_state state;

			if (matches[i] != nullptr)
			{
				if (api->match_poll(matches[i], &state, nullptr) == GJD_PENDING ||
					api->match_end(matches[i], nullptr) == GJD_PENDING)
					continue;
				matches[i] = nullptr;
				done++;
			}
			if (begun < total)
			{
				gjd_keyset_params set = {sizeof(set), 4, keys.data(), keys.size(), GJD_BY_AUTO,
								nullptr};
				gjd_match_params params = {sizeof(params), sums ? GJD_ENTRIES : GJD_TIDS,
										   arena + (uint64_t) i * (2 << 20), sums ? 8u : 65536u, {},
										   sums, 0, {}, sums ? &asked : nullptr, {}};
				gjd_keyset *keyset;

				asked.first_groups = arena + (uint64_t) i * (2 << 20) + (1 << 20);
				asked.first_capacity = 1;
				must(api->keyset_create(s.device, &set, &keyset, nullptr));
				must(api->match_begin(s.column, keyset, &params, &matches[i], nullptr));
				must(api->keyset_destroy(keyset, nullptr));
				begun++;
			}
		}
		if (in_batches)
			must(api->batch_end(s.device, &info, nullptr));
	}

	double ms = now_ms() - begin;

	printf("{\"device\": \"%s\", \"what\": \"requests: %d at once, %s%s\", \"rows\": %llu, "
		   "\"keys\": %llu, \"requests_per_s\": %.0f, \"a_batch\": %.1f}\n",
		   s.device->properties.name, lanes, sums ? "sum" : "TIDs", in_batches ? ", batches" : "",
		   (unsigned long long) s.rows, (unsigned long long) n_keys, total / ms * 1e3,
		   info.batches > before.batches ? (double) (info.matches - before.matches) /
											   (double) (info.batches - before.batches)
										 : 1.0);
}

/* Fetches one result in chunks that cycle through the arena. Returns its items. */
uint64_t
fetch(const gjd_api *api, setup &s, char *arena, const gjd_match_params &params, uint64_t room,
	  timing &whole, timing &copying)
{
	gjd_match *match;
	gjd_match_state state;
	gjd_status status;
	uint64_t slot = 0;
	double begin = now_ms();

	must(api->match_begin(s.column, s.keyset, &params, &match, nullptr));
	while ((status = api->match_poll(match, &state, nullptr)) == GJD_PENDING)
		;
	must(status);

	double ready = now_ms();

	while (state.delivered < state.items)
	{
		gjd_chunk chunk;

		if (state.begun < state.items &&
			api->match_next(match, arena + slot * chunk_bytes, room, &chunk, nullptr) == GJD_OK &&
			chunk.items > 0)
			slot = (slot + 1) % (arena_bytes / chunk_bytes);
		status = api->match_poll(match, &state, nullptr);
		if (status != GJD_PENDING)
			must(status);
	}
	whole.ms.push_back(now_ms() - begin);
	copying.ms.push_back(now_ms() - ready);
	while (api->match_end(match, nullptr) == GJD_PENDING)
		;
	return state.items;
}

/* A large result: TIDs, or entries with their keys and all carried columns. */
void
large_result(const gjd_api *api, setup &s, char *arena, gjd_what what)
{
	const gjd_shape &shape = s.column->shape;
	gjd_want want = {(1u << shape.n_carried) - 1, 1};
	gjd_match_params params = {sizeof(params), what, nullptr, 0, want, 0, 0, {}, nullptr, {}};
	gjd_entry_layout one;
	uint64_t room = chunk_bytes / 8;
	uint64_t bytes = 8;
	uint64_t items = 0;
	timing whole, copying;

	if (what == GJD_ENTRIES)
	{
		gjd_entry_layout_of(&shape, want, 1, &one);
		room = gjd_entry_room(&shape, want, chunk_bytes);
		bytes = one.item_bytes;
	}
	for (int i = 0; i < 7; i++)
		items = fetch(api, s, arena, params, room, whole, copying);
	bytes *= items;
	printf("{\"device\": \"%s\", \"what\": \"large result: %s\", \"rows\": %llu, "
		   "\"carried\": %u, \"matches\": %llu, \"bytes\": %llu, \"ms\": %.3f, "
		   "\"copy_ms\": %.3f, \"gb_s\": %.1f, \"copy_gb_s\": %.1f}\n",
		   s.device->properties.name, what == GJD_ENTRIES ? "entries" : "TIDs",
		   (unsigned long long) s.rows, shape.n_carried, (unsigned long long) items,
		   (unsigned long long) bytes, whole.at(0.5), copying.at(0.5),
		   (double) bytes / whole.at(0.5) / 1e6, (double) bytes / copying.at(0.5) / 1e6);
}

/* The device's time to gather entries from an existing bitmap. */
void
gather_entries(setup &s)
{
	const gjd_shape &shape = s.column->shape;
	gjd_want want = {(1u << shape.n_carried) - 1, 1};
	gather_job job = {s.column, GJD_ENTRIES, s.bitmap, s.tile_start, s.tiles, want};
	match_output out = {s.bitmap, s.tile_start, s.totals, 0};
	gjd_entry_layout layout;
	uint64_t items;
	double ms;

	launch_match(s.column, s.keyset, out);
	launch_tile_scan(s.device, s.tile_start, s.tiles, s.scan_space, s.scan_bytes);
	check(cudaStreamSynchronize(s.stream), "gather");
	check(cudaMemcpy(&items, s.tile_start + s.tiles, 8, cudaMemcpyDefault), "gather");
	gjd_entry_layout_of(&shape, want, items, &layout);
	ms = time_it(s, true, [&] { launch_gather(job, 0, items, s.space, &layout); });
	printf("{\"device\": \"%s\", \"what\": \"gather: entries\", \"rows\": %llu, "
		   "\"carried\": %u, \"matches\": %llu, \"bytes\": %llu, \"ms\": %.4f, "
		   "\"gb_s\": %.1f}\n",
		   s.device->properties.name, (unsigned long long) s.rows, shape.n_carried,
		   (unsigned long long) items, (unsigned long long) items * layout.item_bytes, ms,
		   (double) items * layout.item_bytes / ms / 1e6);
}

/* The device's time for a filter that all matches pass; and a request that no match passes. */
void
filter_entries(const gjd_api *api, setup &s, char *arena)
{
	const gjd_shape &shape = s.column->shape;
	gjd_want want = {(1u << shape.n_carried) - 1, 1};
	gjd_match_params params = {sizeof(params), GJD_ENTRIES, nullptr, 0, want, 1, 0, {}, nullptr,
							   {}};
	match_output out = {s.bitmap, s.tile_start, s.totals, s.tiles};
	gjd_filter filter = {1, 0, {{1, GJD_BETWEEN, 0, 0}}};
	uint64_t matches;
	timing whole, copying;
	double ms;

	check(cudaMemset(s.totals, 0, 8), "filter");
	launch_match(s.column, s.keyset, out);
	launch_conditions(s.column, filter, out, s.totals);
	check(cudaStreamSynchronize(s.stream), "filter");
	check(cudaMemcpy(&matches, s.totals, 8, cudaMemcpyDefault), "filter");
	ms = time_it(s, true, [&] { launch_conditions(s.column, filter, out, s.totals); });
	params.filter = filter;
	params.filter.conditions[0].test = GJD_OUTSIDE;
	for (int i = 0; i < 7; i++)
		fetch(api, s, arena, params, 1, whole, copying);
	printf("{\"device\": \"%s\", \"what\": \"filter: entries\", \"rows\": %llu, "
		   "\"carried\": %u, \"matches\": %llu, \"ms\": %.4f, \"request_ms\": %.3f}\n",
		   s.device->properties.name, (unsigned long long) s.rows, shape.n_carried,
		   (unsigned long long) matches, ms, whole.at(0.5));
}

/* Pushes page images, prepared beforehand, until they are applied. */
void
load(const gjd_api *api, gjd_device *device, char *arena)
{
	constexpr uint64_t pages = 25000;
	uint64_t bytes = gjd_image_bytes(800, 4);
	uint64_t fit = arena_bytes / bytes;
	gjd_column_params params = {sizeof(params), 4, 800, 0, pages, 0, {}};
	gjd_column *column;
	uint64_t ticket = 0;
	double begin = now_ms();

	must(api->column_create(device, &params, &column, nullptr));
	for (uint64_t page = 0; page < pages;)
	{
		std::vector<gjd_page_head> heads;
		uint64_t accepted;

		for (uint64_t p = page; p < pages && heads.size() < 1000; p++)
			heads.push_back({p, 1});
		gjd_status status = api->column_write_pages(column, heads.data(),
													arena + page % (fit - 1000) * bytes,
													heads.size(), &accepted, &ticket, nullptr);

		if (status != GJD_PENDING)
			must(status);
		page += accepted;
	}
	while (api->column_destroy(column, nullptr) == GJD_PENDING)
		;
	double ms = now_ms() - begin;

	printf("{\"device\": \"%s\", \"what\": \"load\", \"rows\": %llu, \"bytes\": %llu, "
		   "\"ms\": %.2f, \"gb_s\": %.1f}\n",
		   device->properties.name, (unsigned long long) pages * 800,
		   (unsigned long long) (pages * bytes), ms, (double) (pages * bytes) / ms / 1e6);
}

}  // namespace

void
measure_requests(const gjd_api *api, gjd_device *device)
{
	char *arena = (char *) mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE,
								MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	must(api->host_register(device, arena, arena_bytes, nullptr));
	if (getenv("GPUJOIN_BENCH_MANY") == nullptr)
		measure_reductions(api, device, arena);
	if (getenv("GPUJOIN_BENCH_REDUCTIONS") != nullptr) /* nothing else */
	{
		must(api->host_unregister(device, arena, nullptr));
		return;
	}
	load(api, device, arena);
	{
		setup s(device, 20000000, 4);

		s.fill<int32_t>(4000, true, 0.001);
		small_requests(api, s, arena, GJD_COUNT, "count");
		small_requests(api, s, arena, GJD_TIDS, "TIDs");
		s.fill_in_order<int32_t>(1000, 0.001);
		for (int lanes : {1, 8, 16, 64})
			for (bool sums : {false, true})
				for (bool in_batches : {false, true})
					many_requests(api, s, arena, lanes, sums, in_batches);
	}
	if (getenv("GPUJOIN_BENCH_MANY") != nullptr)
	{
		must(api->host_unregister(device, arena, nullptr));
		return;
	}
	for (uint64_t rows : {200000000, 1000000000})
	{
		setup s(device, rows, 4);

		s.fill<int32_t>(4000, true, 0.05);
		large_result(api, s, arena, GJD_TIDS);
	}
	for (uint32_t carried : {1, 5})
	{
		setup s(device, 20000000, 4, carried);

		s.fill<int32_t>(4000, true, 0.05);
		gather_entries(s);
		filter_entries(api, s, arena);
		large_result(api, s, arena, GJD_ENTRIES);
	}
	must(api->host_unregister(device, arena, nullptr));
}

}  // namespace bench
