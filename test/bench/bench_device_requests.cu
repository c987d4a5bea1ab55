/*
 * bench_device_requests.cu
 *	  Whole requests through the border, timed by the host's clock: a small one from the keys to
 *	  the first TID, a large result on its way into host memory, the load of a column.
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

/* Keys in, TIDs out: everything that a backend would wait for, apart from its own wakeup. */
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
		gjd_keyset_params set = {sizeof(set), 4, keys.data(), keys.size(), GJD_BY_AUTO};
		gjd_match_params params = {sizeof(params), what, arena, 65536};
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

/* Sixteen requests under way all the time. */
void
many_requests(const gjd_api *api, setup &s, char *arena)
{
	constexpr int lanes = 16;
	constexpr int total = 4000;
	std::vector<int64_t> keys;
	gjd_match *matches[lanes] = {};
	int begun = 0;
	int done = 0;
	double begin = now_ms();

	for (int64_t k = 0; k < 4000; k++)
		keys.push_back(k * 20);
	while (done < total)
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
				gjd_keyset_params set = {sizeof(set), 4, keys.data(), keys.size(), GJD_BY_AUTO};
				gjd_match_params params = {sizeof(params), GJD_TIDS,
										   arena + (uint64_t) i * (8 << 20), 65536};
				gjd_keyset *keyset;

				must(api->keyset_create(s.device, &set, &keyset, nullptr));
				must(api->match_begin(s.column, keyset, &params, &matches[i], nullptr));
				must(api->keyset_destroy(keyset, nullptr));
				begun++;
			}
		}

	double ms = now_ms() - begin;

	printf("{\"device\": \"%s\", \"what\": \"requests: 16 at once, TIDs\", \"rows\": %llu, "
		   "\"keys\": 4000, \"requests_per_s\": %.0f}\n",
		   s.device->properties.name, (unsigned long long) s.rows, total / ms * 1e3);
}

/* One large result, in chunks that go round the arena. */
void
large_result(const gjd_api *api, setup &s, char *arena)
{
	timing whole, copying;
	uint64_t items = 0;

	for (int i = 0; i < 7; i++)
	{
		gjd_match_params params = {sizeof(params), GJD_TIDS, nullptr, 0};
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
				api->match_next(match, arena + slot * chunk_bytes, chunk_bytes / 8, &chunk,
								nullptr) == GJD_OK && chunk.items > 0)
				slot = (slot + 1) % (arena_bytes / chunk_bytes);
			status = api->match_poll(match, &state, nullptr);
			if (status != GJD_PENDING)
				must(status);
		}
		whole.ms.push_back(now_ms() - begin);
		copying.ms.push_back(now_ms() - ready);
		items = state.items;
		while (api->match_end(match, nullptr) == GJD_PENDING)
			;
	}
	printf("{\"device\": \"%s\", \"what\": \"large result\", \"rows\": %llu, \"matches\": %llu, "
		   "\"bytes\": %llu, \"ms\": %.3f, \"copy_ms\": %.3f, \"gb_s\": %.1f, "
		   "\"copy_gb_s\": %.1f}\n",
		   s.device->properties.name, (unsigned long long) s.rows, (unsigned long long) items,
		   (unsigned long long) items * 8, whole.at(0.5), copying.at(0.5),
		   (double) items * 8 / whole.at(0.5) / 1e6, (double) items * 8 / copying.at(0.5) / 1e6);
}

/* Pushes page images, made beforehand, until they are applied. */
void
load(const gjd_api *api, gjd_device *device, char *arena)
{
	constexpr uint64_t pages = 25000;
	uint64_t bytes = gjd_image_bytes(800, 4);
	uint64_t fit = arena_bytes / bytes;
	gjd_column_params params = {sizeof(params), 4, 800, 0, pages};
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
	load(api, device, arena);
	{
		setup s(device, 20000000, 4);

		s.fill<int32_t>(4000, true, 0.001);
		small_requests(api, s, arena, GJD_COUNT, "count");
		small_requests(api, s, arena, GJD_TIDS, "TIDs");
		many_requests(api, s, arena);
	}
	for (uint64_t rows : {200000000, 1000000000})
	{
		setup s(device, rows, 4);

		s.fill<int32_t>(4000, true, 0.05);
		large_result(api, s, arena);
	}
	must(api->host_unregister(device, arena, nullptr));
}

}  // namespace bench
