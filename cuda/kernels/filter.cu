/*
 * filter.cu
 *	  Removes rows that fail a filter from the bitmap, and recounts the tiles.
 *
 * It runs between the scan and the sums, on the result of the scan: of a tile without matches
 * only the count is read, and carried columns are read only in matching rows. Each lane tests the
 * rows of its own words: usually a tile has few matches, and if it has many, adjacent rows of a
 * lane share the loaded cache lines.
 */
#include "kernels.cuh"
#include "rows.cuh"

#include <algorithm>

namespace gjd
{

namespace
{

constexpr uint32_t tile_lanes = 8; /* lanes that share a tile */
constexpr uint32_t lane_words = tile_words / tile_lanes;
constexpr uint32_t tiles_a_warp = 32 / tile_lanes;
constexpr uint32_t blocks_a_processor = 8;

static_assert(lane_words == 4, "a lane loads its words as one vector");

/* Returns the bits of a word, given its first row, that pass. */
__device__ inline uint32_t
passing(const placed_filter &filter, const char *extent, uint64_t row, uint32_t word)
{
	for (uint32_t left = word; left != 0; left &= left - 1)
	{
		uint32_t bit = (uint32_t) __ffs((int) left) - 1;
		bool passes = true;

		for (uint32_t i = 0; i < filter.n && passes; i++)
			passes = holds(filter.conditions[i], extent, row + bit);
		if (!passes)
			word &= ~(1u << bit);
	}
	return word;
}

/*
 * A warp takes four tiles at a time, which lie in one extent, eight lanes each. If a tile's count
 * is zero, its bitmap is undefined (skip.cu) and not read.
 */
__global__ void __launch_bounds__(policy::gather_threads)
filter_kernel(const __grid_constant__ column_view column,
			  const __grid_constant__ placed_filter filter, uint32_t *bitmap,
			  uint64_t *tile_count, uint64_t *matched)
{
	uint32_t lane = threadIdx.x % 32;
	uint64_t warp = ((uint64_t) blockIdx.x * blockDim.x + threadIdx.x) / 32;
	uint64_t warps = (uint64_t) gridDim.x * blockDim.x / 32;
	uint32_t seen = 0; /* a warp sees fewer than 2^32 rows of any column that fits on a card */

	for (uint64_t base = warp * tiles_a_warp; base < column.tiles; base += warps * tiles_a_warp)
	{
		uint64_t tile = base + lane / tile_lanes;
		uint32_t count = tile < column.tiles ? (uint32_t) tile_count[tile] : 0;
		uint32_t left = 0;

		if (__ballot_sync(all_lanes, count != 0) == 0)
			continue;
		if (count != 0)
		{
			const char *extent = column.extents[base / column.tiles_per_extent];
			uint64_t row = base % column.tiles_per_extent * tile_rows + lane * lane_words * 32;
			uint4 *at = (uint4 *) (bitmap + base * tile_words) + lane;
			uint4 words = *at;

			words.x = passing(filter, extent, row, words.x);
			words.y = passing(filter, extent, row + 32, words.y);
			words.z = passing(filter, extent, row + 64, words.z);
			words.w = passing(filter, extent, row + 96, words.w);
			*at = words;
			left = __popc(words.x) + __popc(words.y) + __popc(words.z) + __popc(words.w);
		}
		for (uint32_t apart = tile_lanes / 2; apart > 0; apart /= 2)
			left += __shfl_xor_sync(all_lanes, left, apart);
		if (lane % tile_lanes == 0 && count != 0)
		{
			tile_count[tile] = left;
			seen += count;
		}
	}
	seen = __reduce_add_sync(all_lanes, seen);
	if (lane == 0 && seen > 0)
		atomicAdd((unsigned long long *) matched, (unsigned long long) seen);
}

}  // namespace

void
launch_conditions(const gjd_column *column, const gjd_filter &filter, const match_output &out,
				  uint64_t *matched)
{
	gjd_device *device = column->device;
	column_view view = view_of(column);
	uint64_t most = (uint64_t) device->properties.multiProcessorCount * blocks_a_processor;
	uint64_t needed;

	view.tiles = out.tiles;
	if (view.tiles == 0)
		return;
	settle(device);
	needed = (view.tiles * tile_lanes + policy::gather_threads - 1) / policy::gather_threads;
	filter_kernel<<<(uint32_t) std::min(most, needed), policy::gather_threads, 0,
					device->execute>>>(view, place_filter(column, filter), out.bitmap,
									   out.tile_count, matched);
	check_launch(device->execute, "could not filter matches");
}

}  // namespace gjd
