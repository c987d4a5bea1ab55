/*
 * bench_device.cu
 *	  Kernel times of the device library over the floor, against CUB and the seed's brute force.
 *
 * One JSON line a measurement. The floor is a kernel that reads the same keys and does nothing
 * with them, measured in the same run. "Cold" means that 512 MB are written between two runs. All
 * times are medians. Answers are checked, against a binary search, before anything is timed.
 *
 *	bench_device [rows-in-millions ...]		default: 20 200 1000
 *
 * With GPUJOIN_BENCH_REDUCTIONS in the environment, only bench_device_reduce.cu runs, with
 * GPUJOIN_BENCH_MANY only the loads and requests of 20 M rows.
 */
#include "bench_device.cuh"

#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

using namespace gjd;
using namespace bench;

/* ---- rivals -------------------------------------------------------------------------------- */

/* Reads all keys as the match does, and keeps the compiler from optimizing the reads away. */
template <class Key>
__global__ void __launch_bounds__(1024)
floor_kernel(const __grid_constant__ column_view column, uint32_t *sink)
{
	using vector = typename key_vector<Key>::type;
	constexpr int vectors = tile_rows / 32 * sizeof(Key) / 16;
	uint32_t lane = threadIdx.x % 32;
	uint32_t stride = gridDim.x * (blockDim.x / 32);
	Key folded = 0;

	for (uint64_t tile = threadIdx.x / 32 * gridDim.x + blockIdx.x; tile < column.tiles;
		 tile += stride)
	{
		const char *extent = column.extents[tile / column.tiles_per_extent];
		const vector *from =
			(const vector *) (extent +
							  tile % column.tiles_per_extent * tile_rows * sizeof(Key)) + lane;

#pragma unroll
		for (int i = 0; i < vectors; i++)
		{
			vector v = __ldcs(from + i * 32);

			for (uint32_t j = 0; j < key_vector<Key>::keys; j++)
				folded ^= key_vector<Key>::get(v, j);
		}
	}
	if (folded == (Key) 0x5bd1e995)
		*sink = 1;
}

/* The work of a straightforward port: every row against every key of the set. */
template <class Key>
__global__ void
brute_force_kernel(const Key *keys, uint64_t rows, const Key *set, uint32_t count, uint8_t *flags)
{
	uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x;
	bool hit = false;

	if (i >= rows)
		return;
	for (uint32_t k = 0; k < count; k++)
		hit |= keys[i] == set[k];
	flags[i] = hit;
}

/* For CUB: returns true if the key at this position is in the set. It uses a bitmap if the span
 * allows that. */
template <class Key>
struct in_set
{
	const Key *keys;
	bucket_table<Key> table;
	const uint32_t *bitmap; /* use the table if NULL */
	Key least;
	uint32_t limit;

	__device__ bool
	operator()(uint32_t position) const
	{
		Key key = keys[position];

		if (bitmap == nullptr)
			return table.contains(key);

		uint32_t index = span_index(key, least, limit);

		return (int32_t) bit_to_top(__ldg(bitmap + (index >> 5)), index) < 0;
	}
};

/* ---- one configuration --------------------------------------------------------------------- */

struct position_iterator
{
	using value_type = uint32_t;
	using difference_type = ptrdiff_t;
	using pointer = const uint32_t *;
	using reference = uint32_t;
	using iterator_category = std::random_access_iterator_tag;
	uint32_t at;

	__host__ __device__ uint32_t operator[](ptrdiff_t i) const { return at + (uint32_t) i; }
	__host__ __device__ uint32_t operator*() const { return at; }
	__host__ __device__ position_iterator operator+(ptrdiff_t i) const
	{
		return position_iterator{at + (uint32_t) i};
	}
};

template <class Key>
static double
time_cub_select(setup &s, bool cold)
{
	gjd_keyset *keyset = s.keyset;
	const Key *keys = (const Key *) s.flat;
	bool span = keyset->strategy == GJD_BY_SPAN;
	uint64_t limit = (uint64_t) keyset->greatest - (uint64_t) keyset->least + 1;
	in_set<Key> predicate = {keys, table_of<Key>(keyset), span ? keyset->parts.filter : nullptr,
							 (Key) keyset->least, (uint32_t) limit};
	uint32_t *positions = (uint32_t *) s.space;
	uint64_t *selected = (uint64_t *) (s.space + s.rows * 4);
	void *temporary = s.space + s.rows * 4 + 256;
	size_t bytes = 0;

	if (!span && keyset->parts.table == nullptr)
		return 0;
	cub::DeviceSelect::If(nullptr, bytes, position_iterator{0}, positions, selected, (int) s.rows,
						  predicate, s.stream);
	return time_it(s, cold, [&] {
		check(cub::DeviceSelect::If(temporary, bytes, position_iterator{0}, positions, selected,
									(int) s.rows, predicate, s.stream),
			  "CUB");
	});
}

template <class Key>
static double
time_floor(setup &s, bool cold)
{
	double best = 1e30;

	for (uint32_t threads : {512, 1024})
		for (uint32_t a : {1024, 2048})
			best = std::min(best, time_it(s, cold, [&] {
								floor_kernel<Key><<<s.processors * (a / threads), threads, 0,
													s.stream>>>(view_of(s.column),
																(uint32_t *) s.space);
							}));
	return best;
}

template <class Key>
static void
measure(setup &s, const char *span, double matching, bool rivals)
{
	match_output to_bitmap = {s.bitmap, s.tile_start, s.totals, 0};
	match_output to_count = {nullptr, nullptr, s.totals, 0};
	gather_job job = {s.column, GJD_POSITIONS, s.bitmap, s.tile_start, s.tiles, {}};
	uint64_t *list = (uint64_t *) s.space;

	if (!check_answer<Key>(s))
	{
		printf("{\"error\": \"wrong answer\", \"rows\": %llu, \"keys\": %llu}\n",
			   (unsigned long long) s.rows, (unsigned long long) s.keyset->count);
		exit(1);
	}
	for (bool cold : {true, false})
	{
		double floor_ms = time_floor<Key>(s, cold);
		result r = {span, matching, cold, floor_ms};

		print(s, r, "floor", floor_ms);
		print(s, r, "bitmap", time_it(s, cold, [&] {
				  launch_match(s.column, s.keyset, to_bitmap);
			  }));
		print(s, r, "count", time_it(s, cold, [&] {
				  launch_match(s.column, s.keyset, to_count);
			  }));
		print(s, r, "positions", time_it(s, cold, [&] {
				  launch_match(s.column, s.keyset, to_bitmap);
				  launch_tile_scan(s.device, s.tile_start, s.tiles, s.scan_space, s.scan_bytes);
				  launch_gather(job, 0, s.rows, list, nullptr);
			  }));
		if (rivals && cold)
			print(s, r, "cub select", time_cub_select<Key>(s, cold));
	}
}

/* Pages in key order: the time of a match from its first kernel to its last. */
template <class Key>
static void
measure_in_order(setup &s, uint64_t keys, double matching)
{
	uint64_t expected = s.fill_in_order<Key>(keys, matching);
	match_output out = {s.bitmap, s.tile_start, s.totals, 0,
						s.tile_list, (uint32_t *) (s.totals + 2)};
	gather_job job = {s.column, GJD_POSITIONS, s.bitmap, s.tile_start, s.tiles, {}};
	uint64_t found;

	for (bool cold : {true, false})
	{
		double floor_ms = time_floor<Key>(s, cold);
		result r = {"in order", matching, cold, floor_ms};
		auto match = [&](bool gathering) {
			check(cudaMemsetAsync(s.totals, 0, 64, s.stream), "clear");
			launch_skip(s.column, s.keyset, out);
			launch_match(s.column, s.keyset, out);
			if (!gathering)
				return;
			launch_tile_scan(s.device, s.tile_start, s.tiles, s.scan_space, s.scan_bytes);
			launch_gather(job, 0, s.rows, (uint64_t *) s.space, nullptr);
		};

		print(s, r, "bitmap", time_it(s, cold, [&] { match(false); }));
		print(s, r, "positions", time_it(s, cold, [&] { match(true); }));
		check(cudaMemcpy(&found, s.tile_start + s.tiles, 8, cudaMemcpyDefault), "check");
		if (found != expected)
		{
			printf("{\"error\": \"wrong answer in order\", \"rows\": %llu, \"found\": %llu, "
				   "\"expected\": %llu}\n",
				   (unsigned long long) s.rows, (unsigned long long) found,
				   (unsigned long long) expected);
			exit(1);
		}
	}
}

template <class Key>
static void
measure_rivals_without_set(setup &s)
{
	result r = {"dense", 0.05, true, time_floor<Key>(s, true)};
	size_t bytes = 0;
	uint64_t *numbers = (uint64_t *) s.space;

	if (s.rows <= 20000000)
	{
		uint32_t blocks = (uint32_t) ((s.rows + 255) / 256);

		print(s, r, "brute force", time_it(s, true, [&] {
				  brute_force_kernel<Key><<<blocks, 256, 0, s.stream>>>(
					  (const Key *) s.flat, s.rows, (const Key *) s.keyset->parts.keys,
					  (uint32_t) s.keyset->count, (uint8_t *) s.space);
			  }));
	}
	cub::DeviceScan::ExclusiveSum(nullptr, bytes, (uint32_t *) s.flat, numbers, (int) s.rows);
	print(s, r, "cub scan of all rows", time_it(s, true, [&] {
			  cub::DeviceScan::ExclusiveSum(s.space + s.rows * 8, bytes, (uint32_t *) s.flat,
											(uint32_t *) numbers, (int) s.rows, s.stream);
		  }));
	print(s, r, "scan of tiles", time_it(s, true, [&] {
			  launch_tile_scan(s.device, s.tile_start, s.tiles, s.scan_space, s.scan_bytes);
		  }));
}

template <class Key>
static void
run_rows(gjd_device *device, uint64_t rows, bool all)
{
	setup s(device, rows, sizeof(Key));
	struct
	{
		uint64_t keys;
		bool dense;
		double matching;
		bool rivals;
	} const cases[] = {{4, false, 0.001, false},	  {4000, true, 0.05, true},
					   {4000, true, 0.001, false},	  {4000, false, 0.001, true},
					   {100000, false, 0.001, true},  {1000000, false, 0.001, true},
					   {4000000, false, 0.001, false}, {4000, false, 0.05, true},
					   {100000, false, 0.05, false},  {1000000, false, 0.05, false}};

	for (const auto &c : cases)
	{
		if (!all && (c.keys == 4 || c.keys == 4000000))
			continue;
		s.fill<Key>(c.keys, c.dense, c.matching);
		measure<Key>(s, c.dense ? "dense" : "wide", c.matching, c.rivals);
		if (c.dense && c.rivals)
			measure_rivals_without_set<Key>(s);
	}
	for (double matching : {0.05, 0.001})
		measure_in_order<Key>(s, 4000, matching);
}

int
main(int argc, char **argv)
{
	gjd_open_params params = {sizeof(params), 0, nullptr, 0, 0};
	const gjd_api *api = gjd_get_api(GJD_API_VERSION);
	gjd_device *device;
	gjd_error error;
	const char *defaults[] = {"", "20", "200", "1000"};
	bool given = argc > 1;
	int n = given ? argc : 4;

	params.memory_budget = (uint64_t) 20 << 30;
	if (api->device_open(&params, &device, &error) != GJD_OK)
	{
		fprintf(stderr, "%s\n", error.message);
		return 1;
	}
	try
	{
		for (int i = 1; i < n && getenv("GPUJOIN_BENCH_REDUCTIONS") == nullptr &&
			 getenv("GPUJOIN_BENCH_MANY") == nullptr; i++)
		{
			uint64_t rows = strtoull(given ? argv[i] : defaults[i], nullptr, 10) * 1000000;

			run_rows<int32_t>(device, rows, true);
			if (rows == 200000000)
				run_rows<int64_t>(device, rows, false);
		}
		measure_requests(api, device);
	}
	catch (const failure &f)
	{
		report_failure(f, &error);
		fprintf(stderr, "%s\n", error.message);
		return 1;
	}
	return 0;
}
