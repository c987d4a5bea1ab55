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

/* With as many rows, a tile is visited word by word; with fewer, its rows are listed first. */
constexpr uint32_t visit_dense_rows = 256;

/*
 * The number of blocks of gather_threads threads for a kernel that visits rows: as many as the
 * device can hold at once, since each can visit any number of tiles. Asking for it takes
 * microseconds, so it is kept.
 */
struct visit_grid
{
	int ordinal = -1;
	uint32_t shared, resident;

	template <class Kernel>
	uint32_t
	blocks(const gjd_device *device, Kernel kernel, uint32_t shared_bytes, uint64_t tiles)
	{
		uint64_t warps = policy::gather_threads / 32;

		if (ordinal != device->ordinal || shared != shared_bytes)
		{
			int found;

			check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
					  &found, kernel, (int) policy::gather_threads, shared_bytes),
				  "could not size a launch");
			ordinal = device->ordinal;
			shared = shared_bytes;
			resident = (uint32_t) (found * device->properties.multiProcessorCount);
		}
		return (uint32_t) std::max<uint64_t>(
			1, std::min<uint64_t>(resident, (tiles + warps - 1) / warps));
	}
};

/* Shared memory of a warp */
struct visit_space
{
	uint32_t kept[tile_words]; /* a bit for each row of its tile */
	uint16_t list[visit_dense_rows];
};

/* Asks for the values of a column in a tile, to be read soon: a line is 128 bytes. */
__device__ inline void
prefetch_column(const placed_column &column, const char *extent, uint32_t row, uint32_t lane)
{
	const char *values = extent + column.values_at + (uint64_t) row * column.bytes;

	for (uint32_t at = lane * 128; at < tile_rows * column.bytes; at += 32 * 128)
		asm volatile("prefetch.global.L2 [%0];" ::"l"(values + at));
}

/*
 * Calls visit(extent, number of the extent, row in it, active) for all rows in the bitmap, 32 of
 * them at a time, so that adjacent lanes read adjacent values; all lanes call it, also those that
 * are not active. Before that, calls prepare(extent, first row) for each tile with many rows. With
 * rewriting, the rows for which visit returns false are removed from the bitmap, and the tiles are
 * counted again. If a tile's count is zero, its bitmap is undefined (skip.cu) and not read.
 *
 * A warp takes a tile at a time, and adjacent tiles go to different warps: where the column is in
 * key order, the tiles with matches are adjacent and full. It looks at the counts of its next 32
 * tiles at once.
 */
template <bool rewriting, class Prepare, class Visit>
__device__ inline void
visit_rows(const column_view &column, uint32_t *bitmap, uint64_t *tile_count, visit_space &space,
		   Prepare &&prepare, Visit &&visit)
{
	uint32_t lane = threadIdx.x % 32;
	uint64_t warps = (uint64_t) gridDim.x * blockDim.x / 32;
	uint64_t warp = (uint64_t) threadIdx.x / 32 * gridDim.x + blockIdx.x;

	for (uint64_t base = warp; base < column.tiles; base += 32 * warps)
	{
		uint64_t its = base + lane * warps;
		uint32_t its_count = its < column.tiles ? (uint32_t) tile_count[its] : 0;

		for (uint32_t left = __ballot_sync(all_lanes, its_count != 0); left != 0; left &= left - 1)
		{
			uint32_t turn = (uint32_t) __ffs((int) left) - 1;
			uint64_t tile = base + turn * warps;
			uint32_t count = __shfl_sync(all_lanes, its_count, turn);
			uint32_t extent_number = (uint32_t) (tile / column.tiles_per_extent);
			const char *extent = column.extents[extent_number];
			uint32_t first = (uint32_t) (tile % column.tiles_per_extent) * tile_rows;
			uint32_t word = bitmap[tile * tile_words + lane];
			uint32_t kept_word = 0;

			if (count >= visit_dense_rows)
			{
				prepare(extent, first);
				for (uint32_t i = 0; i < tile_words; i++)
				{
					uint32_t bits = __shfl_sync(all_lanes, word, i);

					if (bits == 0)
						continue;

					bool active = (bits >> lane & 1) != 0;
					bool kept = visit(extent, extent_number, first + i * 32 + lane, active);
					uint32_t all_kept = __ballot_sync(all_lanes, active && kept);

					if (lane == i)
						kept_word = all_kept;
				}
			}
			else
			{
				uint32_t total;
				uint32_t rank = sum_before(__popc(word), lane, &total);

				if (rewriting)
					space.kept[lane] = 0;
				for (uint32_t bits = word; bits != 0; bits &= bits - 1)
					space.list[rank++] = (uint16_t) (lane * 32 + __ffs((int) bits) - 1);
				__syncwarp();
				for (uint32_t i = 0; i < total; i += 32)
				{
					bool active = i + lane < total;
					uint32_t row = space.list[active ? i + lane : 0];
					bool kept = visit(extent, extent_number, first + row, active);

					if (rewriting && active && kept)
						atomicOr(&space.kept[row / 32], 1u << row % 32);
				}
				__syncwarp();
				if (rewriting)
					kept_word = space.kept[lane];
			}
			if (rewriting)
			{
				uint32_t rows = __reduce_add_sync(all_lanes, __popc(kept_word));

				bitmap[tile * tile_words + lane] = kept_word;
				if (lane == 0)
					tile_count[tile] = rows;
			}
		}
	}
}

}  // namespace gjd

#endif
