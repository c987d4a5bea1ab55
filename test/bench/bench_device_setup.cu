/*
 * bench_device_setup.cu
 *	  See bench_device.cuh. Columns are filled on the device, which takes no time even for a
 *	  billion rows.
 */
#include "bench_device.cuh"

namespace bench
{

namespace
{

template <class Key>
struct fill_job
{
	char *const *extents;
	uint64_t rows, rows_per_extent, blocks_at, offsets_at, valid_at;
	const Key *set;
	uint32_t count;
	bool dense;
	uint32_t threshold; /* the share of rows that match, in units of 2^-32 */
	Key *flat;
};

/* Keys that do not match: outside the set's span if it is dense, anywhere else if not. */
template <class Key>
__global__ void
fill_kernel(fill_job<Key> job)
{
	uint64_t stride = (uint64_t) gridDim.x * blockDim.x;

	for (uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x; i < job.rows; i += stride)
	{
		uint64_t r = mix(i);
		char *extent = job.extents[i / job.rows_per_extent];
		uint64_t row = i % job.rows_per_extent;
		Key key = job.dense ? (Key) (dense_span + (int64_t) (r % 3000000)) : (Key) mix(r);

		if ((uint32_t) r < job.threshold)
			key = job.set[mix(r + 1) % job.count];
		((Key *) extent)[row] = key;
		if (job.flat != nullptr)
			job.flat[i] = key;
		((uint32_t *) (extent + job.blocks_at))[row] = (uint32_t) (i / 157);
		((uint16_t *) (extent + job.offsets_at))[row] = (uint16_t) (i % 157 + 1);
		if (i % 32 == 0)
			((uint32_t *) (extent + job.valid_at))[row / 32] = 0xffffffffu;
	}
}

/* Row i has key i * distinct / rows; a page's first thread writes its bounds. */
template <class Key>
__global__ void
fill_in_order_kernel(const column_view column, uint64_t rows, uint64_t distinct, Key *flat)
{
	uint64_t stride = (uint64_t) gridDim.x * blockDim.x;
	uint64_t rows_per_extent = (uint64_t) column.tiles_per_extent * tile_rows;

	for (uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += stride)
	{
		char *extent = column.extents[i / rows_per_extent];
		uint64_t row = i % rows_per_extent;
		uint64_t last = min(i + column.slots, rows) - 1;

		((Key *) extent)[row] = flat[i] = (Key) (i * distinct / rows);
		if (row % column.slots == 0)
			((page_bounds<Key> *) (extent + column.bounds_at))[row / column.slots] =
				{(Key) (i * distinct / rows), (Key) (last * distinct / rows)};
		if (i % 32 == 0)
			((uint32_t *) (extent + column.valid_at))[row / 32] = 0xffffffffu;
	}
}

/* Counts matches by binary search, and rows whose bit in the result is wrong. */
template <class Key>
__global__ void
check_kernel(const Key *flat, uint64_t rows, const Key *set, uint32_t count,
			 const uint32_t *bitmap, unsigned long long *totals)
{
	uint64_t stride = (uint64_t) gridDim.x * blockDim.x;

	for (uint64_t i = (uint64_t) blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += stride)
	{
		uint32_t low = 0;
		uint32_t high = count;
		Key key = flat[i];

		while (low < high)
		{
			uint32_t mid = low + (high - low) / 2;

			if (set[mid] < key)
				low = mid + 1;
			else
				high = mid;
		}
		bool hit = low < count && set[low] == key;

		if (hit != (bitmap[i / 32] >> i % 32 & 1))
			atomicAdd(totals + 1, 1ull);
		if (hit)
			atomicAdd(totals + 2, 1ull);
	}
}

std::vector<int64_t>
make_set(uint64_t count, bool dense, uint32_t key_bytes)
{
	std::vector<int64_t> keys;

	for (uint64_t i = 0; keys.size() < count; i++)
	{
		uint64_t r = mix(i * 7 + 1);
		int64_t key = dense ? (int64_t) (r % dense_span) : (int64_t) r;

		keys.push_back(key_bytes == 4 ? (int32_t) key : key);
		if (keys.size() == count)
		{
			std::sort(keys.begin(), keys.end());
			keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
		}
	}
	return keys;
}

}  // namespace

setup::setup(gjd_device *device, uint64_t rows, uint32_t key_bytes, uint32_t carried)
	: device(device), stream(device->execute),
	  processors((uint32_t) device->properties.multiProcessorCount), key_bytes(key_bytes),
	  rows(rows)
{
	uint32_t slots = slots_of(key_bytes);
	gjd_shape shape = {key_bytes, slots, carried, 0, {}};

	std::fill_n(shape.carried_bytes, carried, 4);
	column = create_column(device, shape, (rows + slots - 1) / slots);
	column->pages = (rows + slots - 1) / slots;
	tiles = view_of(column).tiles;
	scan_bytes = scan_space_bytes(tiles);
	check(cudaMalloc(&flat, rows * key_bytes), "memory");
	check(cudaMalloc(&space, rows * 8 + (64 << 20)), "memory");
	check(cudaMalloc(&flush, flush_bytes), "memory");
	check(cudaMalloc(&bitmap, tiles * 128), "memory");
	check(cudaMalloc(&tile_start, (tiles + 1) * 8), "memory");
	check(cudaMemset(tile_start, 0, (tiles + 1) * 8), "memory");
	check(cudaMalloc(&totals, 64), "memory");
	check(cudaMalloc(&scan_space, scan_bytes), "memory");
	check(cudaMalloc(&tile_list, tiles * 4), "memory");
}

setup::~setup()
{
	cudaStreamSynchronize(stream);
	if (keyset)
		destroy_keyset(keyset);
	destroy_column(column);
	for (void *p : {(void *) flat, (void *) space, (void *) flush, (void *) bitmap,
					(void *) tile_start, (void *) totals, scan_space, (void *) tile_list})
		cudaFree(p);
}

template <class Key>
void
setup::fill(uint64_t count, bool dense, double matching)
{
	std::vector<int64_t> keys = make_set(count, dense, key_bytes);
	std::vector<Key> narrow(keys.begin(), keys.end());
	gjd_keyset_params params = {sizeof(params), key_bytes, keys.data(), keys.size(), GJD_BY_AUTO,
								nullptr};
	column_view view = view_of(column);
	Key *on_device;

	check(cudaStreamSynchronize(stream), "fill");
	if (keyset)
		destroy_keyset(keyset);
	keyset = create_keyset(device, &params);
	check(cudaMalloc(&on_device, narrow.size() * sizeof(Key)), "memory");
	check(cudaMemcpy(on_device, narrow.data(), narrow.size() * sizeof(Key), cudaMemcpyDefault),
		  "fill");

	fill_job<Key> job = {view.extents,
						 rows,
						 (uint64_t) view.tiles_per_extent * tile_rows,
						 view.blocks_at,
						 view.offsets_at,
						 view.valid_at,
						 on_device,
						 (uint32_t) narrow.size(),
						 dense,
						 (uint32_t) (matching * 4294967296.0),
						 (Key *) flat};

	fill_kernel<Key><<<processors * 8, 256, 0, stream>>>(job);
	check(cudaStreamSynchronize(stream), "fill");
	/* The sorted keys are kept after the list space, for the check. */
	check(cudaMemcpy(space, on_device, narrow.size() * sizeof(Key), cudaMemcpyDefault), "fill");
	cudaFree(on_device);
}

template <class Key>
uint64_t
setup::fill_in_order(uint64_t count, double matching)
{
	uint64_t distinct = (uint64_t) (count / matching);
	std::vector<int64_t> keys;
	uint64_t found = 0;

	for (uint64_t i = 0; i < count; i++)
	{
		uint64_t key = i * distinct / count;

		keys.push_back((int64_t) key);
		found += ((key + 1) * rows + distinct - 1) / distinct;
		found -= (key * rows + distinct - 1) / distinct;
	}

	gjd_keyset_params params = {sizeof(params), key_bytes, keys.data(), keys.size(), GJD_BY_AUTO,
								nullptr};

	check(cudaStreamSynchronize(stream), "fill");
	if (keyset)
		destroy_keyset(keyset);
	keyset = create_keyset(device, &params);
	fill_in_order_kernel<Key><<<processors * 8, 256, 0, stream>>>(view_of(column), rows, distinct,
																  (Key *) flat);
	check(cudaStreamSynchronize(stream), "fill");
	return found;
}

/* Must be called right after fill(), because it uses the keys that fill() has left. */
template <class Key>
bool
check_answer(setup &s)
{
	match_output to_bitmap = {s.bitmap, s.tile_start, s.totals, 0};
	match_output to_count = {nullptr, nullptr, s.totals, 0};
	uint64_t totals[3], listed;

	check(cudaMemsetAsync(s.totals, 0, 64, s.stream), "check");
	check(cudaMemsetAsync(s.bitmap, 0x5a, s.tiles * 128, s.stream), "check");
	launch_match(s.column, s.keyset, to_bitmap);
	launch_match(s.column, s.keyset, to_count);
	check_kernel<Key><<<s.processors * 8, 256, 0, s.stream>>>(
		(const Key *) s.flat, s.rows, (const Key *) s.space, (uint32_t) s.keyset->count, s.bitmap,
		(unsigned long long *) s.totals);
	launch_tile_scan(s.device, s.tile_start, s.tiles, s.scan_space, s.scan_bytes);
	check(cudaStreamSynchronize(s.stream), "check");
	check(cudaMemcpy(totals, s.totals, sizeof(totals), cudaMemcpyDefault), "check");
	check(cudaMemcpy(&listed, s.tile_start + s.tiles, 8, cudaMemcpyDefault), "check");
	return totals[1] == 0 && totals[0] == totals[2] && listed == totals[2] && listed > 0;
}

template void setup::fill<int32_t>(uint64_t, bool, double);
template void setup::fill<int64_t>(uint64_t, bool, double);
template uint64_t setup::fill_in_order<int32_t>(uint64_t, double);
template uint64_t setup::fill_in_order<int64_t>(uint64_t, double);
template bool check_answer<int32_t>(setup &);
template bool check_answer<int64_t>(setup &);

/* ---- output -------------------------------------------------------------------------------- */

const char *
name_of(gjd_strategy strategy)
{
	static const char *const names[] = {"auto",		"constants",   "span",		   "one bit",
										"two bits", "global span", "global bloom", "search",
										"nothing"};

	return names[strategy];
}

void
print(const setup &s, const result &r, const char *what, double ms)
{
	const char *commit = getenv("GPUJOIN_COMMIT");

	printf("{\"device\": \"%s\", \"commit\": \"%s\", \"rows\": %llu, \"key_bytes\": %u, "
		   "\"keys\": %llu, \"span\": \"%s\", \"matching\": %g, \"l2\": \"%s\", "
		   "\"strategy\": \"%s\", \"what\": \"%s\", \"bytes\": %llu, \"ms\": %.4f, "
		   "\"floor_ms\": %.4f, \"ratio\": %.3f}\n",
		   s.device->properties.name, commit ? commit : "", (unsigned long long) s.rows,
		   s.key_bytes, (unsigned long long) s.keyset->count, r.span, r.matching,
		   r.cold ? "cold" : "warm", name_of(s.keyset->strategy), what,
		   (unsigned long long) (s.rows * s.key_bytes), ms, r.floor_ms, ms / r.floor_ms);
	fflush(stdout);
}

}  // namespace bench
