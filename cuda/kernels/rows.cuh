/*
 * rows.cuh
 *	  The rows that a scan has found, as later kernels see them: visits of all of them, and the
 *	  values that they have.
 */
#ifndef GPUJOIN_CUDA_KERNELS_ROWS_CUH
#define GPUJOIN_CUDA_KERNELS_ROWS_CUH

#include "compact.cuh"

#include <algorithm>

namespace gjd
{

/* ---- values -------------------------------------------------------------------------------- */

/* A column, 0 being the key and carried column c being c + 1, and its offsets in an extent */
struct placed_column
{
	uint64_t values_at, nulls_at; /* nulls_at is 0 if the column is never NULL */
	uint32_t bytes;
};

inline placed_column
place_column(const gjd_column *column, uint32_t number)
{
	const gjd_shape &shape = column->shape;
	uint64_t rows = (uint64_t) column->pages_per_extent * shape.slots;

	if (number == 0)
		return placed_column{0, 0, shape.key_bytes};
	return placed_column{layout_carried_at(&shape, rows, number - 1),
						 gjd_column_is_nullable(&shape, number)
							 ? layout_nulls_at(&shape, rows, number - 1)
							 : 0,
						 shape.carried_bytes[number - 1]};
}

__device__ inline int64_t
value_of(const placed_column &column, const char *extent, uint64_t row)
{
	const char *values = extent + column.values_at;

	switch (column.bytes)
	{
		case 8:
			return __ldg((const int64_t *) values + row);
		case 4:
			return __ldg((const int32_t *) values + row);
		case 2:
			return __ldg((const int16_t *) values + row);
		default:
			return __ldg((const signed char *) values + row);
	}
}

__device__ inline bool
is_null(const placed_column &column, const char *extent, uint64_t row)
{
	return column.nulls_at != 0 &&
		   (__ldg((const uint32_t *) (extent + column.nulls_at) + row / 32) >> row % 32 & 1) != 0;
}

/* ---- conditions ---------------------------------------------------------------------------- */

struct placed_condition
{
	placed_column column;
	int64_t low, high;
	uint32_t test;
};

struct placed_filter
{
	uint32_t n;
	placed_condition conditions[GJD_MAX_CONDITIONS];
};

inline placed_filter
place_filter(const gjd_column *column, const gjd_filter &filter)
{
	placed_filter placed = {filter.n, {}};

	for (uint32_t i = 0; i < filter.n; i++)
	{
		const gjd_condition &from = filter.conditions[i];

		placed.conditions[i] = {place_column(column, from.column), from.low, from.high, from.test};
	}
	return placed;
}

__device__ inline bool
holds(const placed_condition &condition, const char *extent, uint64_t row)
{
	bool null = is_null(condition.column, extent, row);

	if (condition.test == GJD_IS_NULL || condition.test == GJD_IS_NOT_NULL)
		return null == (condition.test == GJD_IS_NULL);
	if (null)
		return false;

	int64_t value = value_of(condition.column, extent, row);
	bool between = value >= condition.low && value <= condition.high;

	return between == (condition.test == GJD_BETWEEN);
}

/* ---- visits -------------------------------------------------------------------------------- */

constexpr uint32_t visit_tile_lanes = 8; /* lanes that share a tile: usually it has few matches */
constexpr uint32_t visit_tiles = 32 / visit_tile_lanes;
constexpr uint32_t visit_rows_listed = 1024;

/* Returns the number of blocks of gather_threads threads to visit the rows of some tiles. */
inline uint32_t
visit_blocks(const gjd_device *device, uint64_t tiles)
{
	uint64_t most = (uint64_t) device->properties.multiProcessorCount * policy::visit_blocks;
	uint64_t needed = (tiles * visit_tile_lanes + policy::gather_threads - 1) /
					  policy::gather_threads;

	return (uint32_t) std::max<uint64_t>(1, std::min(most, needed));
}

/* Shared memory of a warp */
struct visit_space
{
	uint4 kept[32]; /* a bit for each row of its tiles */
	uint16_t list[visit_rows_listed];
};

/*
 * Calls visit(extent, number of the extent, row in it, active) for all rows in the bitmap. A warp
 * takes four tiles at a time, lists their rows, and visits 32 of them at once, so that adjacent
 * lanes read adjacent values; all lanes call it, also those that are not active. With rewriting,
 * the rows for which it returns false are removed from the bitmap, and the tiles are counted
 * again. If a tile's count is zero, its bitmap is undefined (skip.cu) and not read.
 */
template <bool rewriting, class Visit>
__device__ inline void
visit_rows(const column_view &column, uint32_t *bitmap, uint64_t *tile_count, visit_space &space,
		   Visit &&visit)
{
	uint32_t lane = threadIdx.x % 32;
	uint64_t warp = ((uint64_t) blockIdx.x * blockDim.x + threadIdx.x) / 32;
	uint64_t warps = (uint64_t) gridDim.x * blockDim.x / 32;

	for (uint64_t base = warp * visit_tiles; base < column.tiles; base += warps * visit_tiles)
	{
		uint64_t tile = base + lane / visit_tile_lanes;
		uint32_t count = tile < column.tiles ? (uint32_t) tile_count[tile] : 0;
		uint4 loaded = {0, 0, 0, 0};

		if (__ballot_sync(all_lanes, count != 0) == 0)
			continue;

		/* an extent has a multiple of four tiles */
		uint4 *words_at = (uint4 *) (bitmap + base * tile_words) + lane;
		uint32_t extent_number = (uint32_t) (base / column.tiles_per_extent);
		const char *extent = column.extents[extent_number];
		uint32_t first = (uint32_t) (base % column.tiles_per_extent) * tile_rows;

		if (count != 0)
			loaded = *words_at;
		if (rewriting)
			space.kept[lane] = uint4{0, 0, 0, 0};

		uint32_t words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
		uint32_t total = __popc(words[0]) + __popc(words[1]) + __popc(words[2]) + __popc(words[3]);
		uint32_t rank = sum_before(total, lane, &total);

		for (uint32_t listed = 0; listed < total; listed += visit_rows_listed)
		{
			uint32_t n = min(total - listed, visit_rows_listed);

#pragma unroll
			for (uint32_t i = 0; i < 4; i++)
				for (; words[i] != 0 && rank < listed + visit_rows_listed;
					 words[i] &= words[i] - 1)
					space.list[rank++ - listed] =
						(uint16_t) (lane * 128 + i * 32 + __ffs((int) words[i]) - 1);
			__syncwarp();
			for (uint32_t i = 0; i < n; i += 32)
			{
				bool active = i + lane < n;
				uint32_t row = space.list[active ? i + lane : 0];
				bool kept = visit(extent, extent_number, first + row, active);

				if (rewriting && active && kept)
					atomicOr((uint32_t *) space.kept + row / 32, 1u << row % 32);
			}
			__syncwarp();
		}
		if (rewriting)
		{
			uint4 kept = space.kept[lane];
			uint32_t left = __popc(kept.x) + __popc(kept.y) + __popc(kept.z) + __popc(kept.w);

			for (uint32_t apart = visit_tile_lanes / 2; apart > 0; apart /= 2)
				left += __shfl_xor_sync(all_lanes, left, apart);
			if (count != 0)
				*words_at = kept;
			if (count != 0 && lane % visit_tile_lanes == 0)
				tile_count[tile] = left;
			__syncwarp();
		}
	}
}

}  // namespace gjd

#endif
