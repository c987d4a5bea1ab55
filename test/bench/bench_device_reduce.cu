/*
 * bench_device_reduce.cu
 *	  Reductions and limits: the time of their kernels after a scan, against CUB on equal input, and
 *	  whole requests through the interface.
 *
 * The column is in key order, with three carried columns of four bytes at random: a year (25
 * values), a number below a million, and any number. "bytes" is what a reduction must read: the
 * heap block and the wanted values of each matching row, and each tile's count. "share" is bytes
 * over time as a share of 4.8 TB/s. CUB gets the matching rows' keys and values as arrays; the
 * time to gather them is a line of its own. Groups by two columns are compared with CUB and, if
 * GPUJOIN_CUCO is defined, with cuCollections, both of which get the two values packed into one
 * word of 64 bits.
 */
#include "bench_device.cuh"

#ifdef GPUJOIN_CUCO
#include "bench_device_cuco.cuh"
#endif

#include <cub/device/device_histogram.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_select.cuh>

#include <time.h>

namespace bench
{

namespace
{

constexpr double peak_bytes_a_ms = 4.8e9;
constexpr uint32_t year = 1, number = 2, anything = 3; /* columns */

__global__ void
fill_values_kernel(const column_view column, uint64_t rows, uint64_t years_at, uint64_t numbers_at,
				   uint64_t anything_at)
{
	uint64_t stride = (uint64_t) gridDim.x * blockDim.x;
	uint64_t rows_per_extent = (uint64_t) column.tiles_per_extent * tile_rows;

	for (uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += stride)
	{
		char *extent = column.extents[i / rows_per_extent];
		uint64_t row = i % rows_per_extent;
		uint64_t r = mix(i + 77);

		((uint32_t *) (extent + column.blocks_at))[row] = (uint32_t) (i / 157);
		((uint16_t *) (extent + column.offsets_at))[row] = (uint16_t) (i % 157 + 1);
		((int32_t *) (extent + years_at))[row] = 2000 + (int32_t) (r % 25);
		((int32_t *) (extent + numbers_at))[row] = (int32_t) (r / 32 % 1000000);
		((int32_t *) (extent + anything_at))[row] = (int32_t) (r >> 32);
	}
}

struct bed
{
	setup &s;
	uint64_t rows; /* that match */
	uint64_t *slots, *sums, *elements;
	uint32_t *weights; /* of keys */
	reduction_counters *counters;
	char *top;
	match_output out;

	bed(setup &s, double matching) : s(s)
	{
		const gjd_shape &shape = s.column->shape;
		uint64_t per = (uint64_t) s.column->pages_per_extent * shape.slots;

		rows = s.fill_in_order<int32_t>(4000, matching);
		fill_values_kernel<<<s.processors * 8, 256, 0, s.stream>>>(
			view_of(s.column), s.rows, layout_carried_at(&shape, per, 0),
			layout_carried_at(&shape, per, 1), layout_carried_at(&shape, per, 2));
		check(cudaMalloc(&slots, (rows + 1) * 16), "memory");
		check(cudaMalloc(&sums, (64 << 20) + rows * 32), "memory");
		check(cudaMalloc(&elements, (64 << 20) + rows * 48), "memory");
		check(cudaMalloc(&weights, 4000 * sizeof(uint32_t)), "memory");
		check(cudaMalloc(&counters, sizeof(*counters)), "memory");
		check(cudaMalloc(&top, top_space_bytes()), "memory");
		out = {s.bitmap, s.tile_start, s.totals, s.tiles, s.tile_list,
			   (uint32_t *) (s.totals + 2)};
		std::vector<uint32_t> values;

		for (uint32_t i = 0; i < 4000; i++)
			values.push_back(1 + i % 3);
		check(cudaMemcpyAsync(weights, values.data(), values.size() * sizeof(uint32_t),
							  cudaMemcpyDefault, s.stream),
			  "fill");
		check(cudaStreamSynchronize(s.stream), "fill");
	}

	~bed()
	{
		for (void *p : {(void *) slots, (void *) sums, (void *) elements, (void *) weights,
						(void *) counters, (void *) top})
			cudaFree(p);
	}

	/* The scan, after which the kernels to be timed find its result where a match has it: in L2 */
	void
	scan()
	{
		check(cudaMemsetAsync(s.totals, 0, 64, s.stream), "clear");
		check(cudaMemsetAsync(counters, 0, sizeof(*counters), s.stream), "clear");
		launch_skip(s.column, s.keyset, out);
		launch_match(s.column, s.keyset, out);
	}

	/* Median time of work after a scan, which comes after writing 512 MB. */
	template <class Work>
	double
	time(Work work)
	{
		std::vector<float> times;
		cudaEvent_t begin, end;

		check(cudaEventCreate(&begin), "event");
		check(cudaEventCreate(&end), "event");
		for (int i = 0; i <= repeats; i++)
		{
			float ms;

			check(cudaMemsetAsync(s.flush, i, flush_bytes, s.stream), "flush");
			scan();
			check(cudaEventRecord(begin, s.stream), "event");
			work();
			check(cudaEventRecord(end, s.stream), "event");
			check(cudaEventSynchronize(end), "benchmark kernel");
			check(cudaEventElapsedTime(&ms, begin, end), "event");
			if (i > 0)
				times.push_back(ms);
		}
		cudaEventDestroy(begin);
		cudaEventDestroy(end);
		std::sort(times.begin(), times.end());
		return times[times.size() / 2];
	}

	void
	print(const char *what, uint64_t bytes, double ms)
	{
		const char *commit = getenv("GPUJOIN_COMMIT");

		printf("{\"device\": \"%s\", \"commit\": \"%s\", \"what\": \"%s\", \"rows\": %llu, "
			   "\"matching\": %llu, \"bytes\": %llu, \"ms\": %.4f, \"share\": %.3f}\n",
			   s.device->properties.name, commit ? commit : "", what,
			   (unsigned long long) s.rows, (unsigned long long) rows, (unsigned long long) bytes,
			   ms, (double) bytes / ms / peak_bytes_a_ms);
		fflush(stdout);
	}
};

gjd_reduction
reduction(uint32_t grouping, uint32_t column, int64_t least, uint64_t span, bool with_sum)
{
	gjd_reduction asked = {};

	asked.struct_size = sizeof(asked);
	asked.grouping = grouping;
	asked.column = column;
	asked.least = least;
	asked.span = span;
	asked.n_aggregates = with_sum;
	asked.aggregates[0] = {GJD_SUM, anything};
	asked.bound = UINT64_MAX;
	asked.visible_below = UINT32_MAX / 4 * 4;
	return asked;
}

/* Groups by columns, with a room that the caller fills in */
gjd_reduction
by_columns(std::vector<uint32_t> columns, bool with_sum)
{
	gjd_reduction asked = reduction(GJD_BY_COLUMNS, 0, 0, 0, with_sum);

	asked.n_columns = (uint32_t) columns.size();
	std::copy(columns.begin(), columns.end(), asked.columns);
	return asked;
}

/* Groups by keys with weights, which are on the device already */
gjd_reduction
by_key_weighted()
{
	static const uint32_t none = 0;
	gjd_reduction asked = reduction(GJD_BY_KEY, 0, 0, 0, true);

	asked.n_keys = 4000;
	asked.weights = &none;
	return asked;
}

struct reduction_case
{
	const char *name;
	gjd_reduction asked;
	uint32_t value_bytes; /* bytes of a row in addition to its block */
};

std::vector<reduction_case>
reduction_cases()
{
	return {{"count", reduction(GJD_ONE_GROUP, 0, 0, 0, false), 0},
			{"sum", reduction(GJD_ONE_GROUP, 0, 0, 0, true), 4},
			{"count and sum by key", reduction(GJD_BY_KEY, 0, 0, 0, true), 8},
			{"count by year", reduction(GJD_BY_VALUE, year, 2000, 25, false), 4},
			{"count and sum by year", reduction(GJD_BY_VALUE, year, 2000, 25, true), 8},
			{"count by one of a million", reduction(GJD_BY_VALUE, number, 0, 1000000, false), 4},
			{"count distinct of a million", reduction(GJD_DISTINCT, number, 0, 1000000, false), 4},
			{"count and sum by key, with weights", by_key_weighted(), 8},
			{"columns: count and sum by year", by_columns({year}, true), 8},
			{"columns: count and sum by one of a million", by_columns({number}, true), 8},
			{"columns: count and sum by year and number", by_columns({year, number}, true), 12},
			{"columns: distinct key, year", by_columns({0, year}, false), 8},
			{"columns: distinct year, number", by_columns({year, number}, false), 8},
			{"columns: distinct key, year, number, any",
			 by_columns({0, year, number, anything}, false), 16}};
}

void
reduce_rows(bed &b)
{
	gjd_filter none = {};
	setup &s = b.s;

	for (const reduction_case &c : reduction_cases())
	{
		gjd_reduction asked = c.asked;

		if (asked.grouping == GJD_BY_COLUMNS)
			asked.room = b.rows;

		reduction_job job = {};
		uint64_t places = group_places(s.keyset, asked);
		uint64_t clear = places * reduction_sum_words(asked, s.column->shape) * 8;
		reduction_counters found;
		uint64_t bytes = b.rows * (4 + c.value_bytes) + s.tiles * 8;

		job.column = s.column;
		job.keyset = s.keyset;
		job.asked = &asked;
		job.filter = &none;
		job.sums = b.sums;
		job.elements = b.elements;
		job.counters = b.counters;
		job.slots = b.slots;
		job.weights = asked.weights != nullptr ? b.weights : nullptr;

		double ms = b.time([&] {
			check(cudaMemsetAsync(b.sums, 0, clear, s.stream), "clear");
			if (asked.grouping == GJD_BY_COLUMNS)
				check(cudaMemsetAsync(b.slots, 0, places * 8, s.stream), "clear");
			launch_reduction(job, b.out, s.totals + 3);
		});

		check(cudaMemcpy(&found, b.counters, sizeof(found), cudaMemcpyDefault), "check");
		if (found.rows != b.rows)
		{
			printf("{\"error\": \"wrong count\", \"what\": \"%s\", \"found\": %llu}\n", c.name,
				   found.rows);
			exit(1);
		}
		b.print(c.name, bytes, ms);
	}
	for (uint32_t column : {year, number, anything})
	{
		gjd_top top = {100, column, GJD_DESCENDING};
		char name[40];

		snprintf(name, sizeof(name), "first 100 by column %u", column);
		b.print(name, b.rows * 16 + s.tiles * 32,
				b.time([&] { launch_top(s.column, top, b.out, b.top); }));
	}
}

/* CUB on arrays of keys, years, numbers and values to sum up. */
void
reduce_with_cub(bed &b)
{
	setup &s = b.s;
	const gjd_shape &shape = s.column->shape;
	gjd_want want = {7, 1};
	gjd_entry_layout at;
	gather_job job = {s.column, GJD_ENTRIES, s.bitmap, s.tile_start, s.tiles, want};
	uint64_t n = b.rows;
	char *entries, *space, *outputs;
	size_t most = 0;

	gjd_entry_layout_of(&shape, want, n, &at);
	check(cudaMalloc(&entries, at.bytes), "memory");
	check(cudaMalloc(&outputs, n * 24 + 4096), "memory");
	b.print("gather entries", n * (6 + 16) + s.tiles * 8, b.time([&] {
				launch_tile_scan(s.device, s.tile_start, s.tiles, s.scan_space, s.scan_bytes);
				launch_gather(job, 0, n, entries, &at);
			}));

	const int32_t *keys = (const int32_t *) (entries + at.keys_at);
	const int32_t *years = (const int32_t *) (entries + at.column_at[0]);
	const int32_t *numbers = (const int32_t *) (entries + at.column_at[1]);
	const int32_t *values = (const int32_t *) (entries + at.column_at[2]);
	int32_t *keys_out = (int32_t *) outputs;
	int32_t *values_out = (int32_t *) (outputs + n * 4);
	int64_t *sums = (int64_t *) (outputs + n * 8);
	uint64_t *count = (uint64_t *) (outputs + n * 24);
	int length = (int) n;
	for (bool sizing : {true, false})
	{
		size_t bytes = most;
		void *at_work = nullptr;
		auto step = [&](const char *name, uint64_t moved, auto work) {
			if (sizing)
			{
				bytes = 0;
				work();
				most = std::max(most, bytes);
			}
			else
				b.print(name, moved, b.time(work));
		};

		if (!sizing)
		{
			check(cudaMalloc(&space, most), "memory");
			at_work = space;
		}
		step("CUB sum", n * 4, [&] {
			cub::DeviceReduce::Reduce(at_work, bytes, values, sums, length,
									  cuda::std::plus<int64_t>{}, (int64_t) 0, s.stream);
		});
		step("CUB sum by key, in order", n * 8, [&] {
			cub::DeviceReduce::ReduceByKey(at_work, bytes, keys, keys_out, values, sums, count,
										   cuda::std::plus<int64_t>{}, length, s.stream);
		});
		step("CUB sort by key", n * 16, [&] {
			cub::DeviceRadixSort::SortPairs(at_work, bytes, keys, keys_out, values, values_out,
											length, 0, 32, s.stream);
		});
		step("CUB sort by year (5 bits)", n * 16, [&] {
			cub::DeviceRadixSort::SortPairs(at_work, bytes, years, keys_out, values, values_out,
											length, 0, 5, s.stream);
		});
		step("CUB histogram by year", n * 4, [&] {
			cub::DeviceHistogram::HistogramEven(at_work, bytes, years, (int *) sums, 26, 2000,
												2025, length, s.stream);
		});
		step("CUB histogram of a million", n * 4, [&] {
			cub::DeviceHistogram::HistogramEven(at_work, bytes, numbers, (int *) sums, 1000001, 0,
												1000000, length, s.stream);
		});
		step("CUB sort of a million (20 bits)", n * 8, [&] {
			cub::DeviceRadixSort::SortKeys(at_work, bytes, numbers, keys_out, length, 0, 20,
										   s.stream);
		});
		step("CUB sort of any number", n * 8, [&] {
			cub::DeviceRadixSort::SortKeysDescending(at_work, bytes, values, keys_out, length, 0,
													 32, s.stream);
		});
	}
	for (void *p : {(void *) entries, (void *) space, (void *) outputs})
		cudaFree(p);
}

/* ---- groups by two columns ------------------------------------------------------------------ */

__global__ void
pack_kernel(const int32_t *years, const int32_t *numbers, uint64_t n, uint64_t *packed)
{
	uint64_t stride = (uint64_t) gridDim.x * blockDim.x;

	for (uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
		packed[i] = (uint64_t) (uint32_t) years[i] << 32 | (uint32_t) numbers[i];
}

/* Groups by year and number, given arrays: one of packed words, and one of values. */
void
group_packed(bed &b)
{
	setup &s = b.s;
	gjd_want want = {7, 0};
	gjd_entry_layout at;
	gather_job job = {s.column, GJD_ENTRIES, s.bitmap, s.tile_start, s.tiles, want};
	uint64_t n = b.rows;
	int length = (int) n;
	char *entries, *space;
	uint64_t *packed, *sorted, *distinct;
	int32_t *sorted_values;
	int64_t *sums;
	size_t sizes[3] = {};

	gjd_entry_layout_of(&s.column->shape, want, n, &at);
	check(cudaMalloc(&entries, at.bytes), "memory");
	check(cudaMalloc(&packed, n * 36 + 64), "memory");
	sorted = packed + n;
	distinct = sorted + n;
	sums = (int64_t *) (distinct + n);
	sorted_values = (int32_t *) (sums + n);

	const int32_t *years = (const int32_t *) (entries + at.column_at[0]);
	const int32_t *numbers = (const int32_t *) (entries + at.column_at[1]);
	const int32_t *values = (const int32_t *) (entries + at.column_at[2]);
	uint64_t *count = s.totals + 5;

	b.print("gather and pack two columns, values", n * (6 + 12) + n * 8 + s.tiles * 8, b.time([&] {
				launch_tile_scan(s.device, s.tile_start, s.tiles, s.scan_space, s.scan_bytes);
				launch_gather(job, 0, n, entries, &at);
				pack_kernel<<<s.processors * 8, 256, 0, s.stream>>>(years, numbers, n, packed);
			}));

	auto sort_pairs = [&](void *work, size_t &bytes) {
		cub::DeviceRadixSort::SortPairs(work, bytes, packed, sorted, values, sorted_values, length,
										0, 43, s.stream);
	};
	auto reduce = [&](void *work, size_t &bytes) {
		cub::DeviceReduce::ReduceByKey(work, bytes, sorted, distinct, sorted_values, sums, count,
									   cuda::std::plus<int64_t>{}, length, s.stream);
	};
	auto sort_keys = [&](void *work, size_t &bytes) {
		cub::DeviceRadixSort::SortKeys(work, bytes, packed, sorted, length, 0, 43, s.stream);
	};
	auto unique = [&](void *work, size_t &bytes) {
		cub::DeviceSelect::Unique(work, bytes, sorted, distinct, count, length, s.stream);
	};

	sort_pairs(nullptr, sizes[0]);
	reduce(nullptr, sizes[1]);
	unique(nullptr, sizes[2]);

	size_t most = std::max({sizes[0], sizes[1], sizes[2]});

	check(cudaMalloc(&space, most), "memory");
	b.print("CUB sort (43 bits) and sum by two columns", n * 12, b.time([&] {
				sort_pairs(space, most);
				reduce(space, most);
			}));
	b.print("CUB sort (43 bits) and unique of two columns", n * 8, b.time([&] {
				sort_keys(space, most);
				unique(space, most);
			}));
#ifdef GPUJOIN_CUCO
	cuco_groups with_cuco(packed, values, n, s.stream);

	b.print("cuCollections static_map: sum by two columns", n * 12, b.time([&] {
				with_cuco.add_up();
			}));
	b.print("cuCollections static_map: distinct of two columns", n * 8, b.time([&] {
				with_cuco.insert();
			}));
#endif
	for (void *p : {(void *) entries, (void *) packed, (void *) space})
		cudaFree(p);
}

double
now_ms()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec * 1e3 + (double) t.tv_nsec / 1e6;
}

/* Times requests by the host's clock, from the keys to the groups or entries in the caller's
 * memory. */
void
request(const gjd_api *api, bed &b, char *arena, const char *name, gjd_match_params params,
		const gjd_reduction *asked)
{
	std::vector<int64_t> keys;
	std::vector<double> times;
	uint64_t distinct = (uint64_t) (b.s.rows / (b.rows / 4000));

	for (uint64_t i = 0; i < 4000; i++)
		keys.push_back((int64_t) (i * distinct / 4000));
	for (int i = 0; i < 100; i++)
	{
		gjd_keyset_params set = {sizeof(set), 4, keys.data(), keys.size(), GJD_BY_AUTO,
								nullptr};
		gjd_reduction reduction = asked != nullptr ? *asked : gjd_reduction{};
		std::vector<uint32_t> weights(reduction.n_keys, 1);
		gjd_match_state state = {};
		gjd_keyset *keyset;
		gjd_match *match;
		double begin = now_ms();

		params.struct_size = sizeof(params);
		params.what = GJD_ENTRIES;
		params.any_order = 1;
		if (asked != nullptr)
		{
			if (reduction.grouping == GJD_BY_COLUMNS)
				reduction.room = b.rows;
			if (reduction.weights != nullptr)
				reduction.weights = weights.data();
			reduction.first_groups = arena;
			reduction.first_capacity = 8192;
			params.reduction = &reduction;
		}
		params.first_buffer = arena + (1 << 20);
		params.first_capacity = asked != nullptr || params.top.limit > 0 ? 8192 : 1 << 20;
		check(api->keyset_create(b.s.device, &set, &keyset, nullptr) == GJD_OK ? cudaSuccess
																			   : cudaErrorUnknown,
			  "request");
		check(api->match_begin(b.s.column, keyset, &params, &match, nullptr) == GJD_OK
				  ? cudaSuccess
				  : cudaErrorUnknown,
			  "request");
		do
			while (api->match_poll(match, &state, nullptr) == GJD_PENDING)
				;
		while (!state.ready);
		times.push_back(now_ms() - begin);
		while (api->match_end(match, nullptr) == GJD_PENDING)
			;
		api->keyset_destroy(keyset, nullptr);
	}
	std::sort(times.begin(), times.end());
	char what[80];

	snprintf(what, sizeof(what), "request: %s", name);
	b.print(what, 0, times[times.size() / 2]);
}

}  // namespace

void
measure_reductions(const gjd_api *api, gjd_device *device, char *arena)
{
	for (uint64_t rows : {20000000, 200000000})
	{
		setup s(device, rows, 4, 3);
		bed b(s, 0.05);

		b.print("scan", b.rows * 4, time_it(s, true, [&] { b.scan(); }));
		reduce_rows(b);
		reduce_with_cub(b);
		group_packed(b);
		for (const reduction_case &c : reduction_cases())
			request(api, b, arena, c.name, gjd_match_params{}, &c.asked);

		gjd_match_params params = {};

		params.want = {4, 1};
		if (rows <= 20000000)
			request(api, b, arena, "entries with a key and a value", params, nullptr);
		params.top = {100, number, GJD_DESCENDING};
		request(api, b, arena, "first 100 by a number", params, nullptr);
	}
}

}  // namespace bench
