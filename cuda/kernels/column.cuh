/*
 * column.cuh
 *	  A column as kernels see it.
 *
 * An extent holds, one array after another, the keys, TID blocks, TID offsets and validity bits
 * of its pages, then the bitmaps of NULLs and the values of carried columns, and the bounds of
 * the keys of each strip of each page (border/layout.h). Its rows are a whole number of tiles, and
 * unwritten memory is zero, so a kernel may read any tile of an extent in full.
 */
#ifndef GPUJOIN_CUDA_KERNELS_COLUMN_CUH
#define GPUJOIN_CUDA_KERNELS_COLUMN_CUH

#include "objects.cuh"

namespace gjd
{

constexpr uint32_t tile_rows = 1024;
constexpr uint32_t tile_words = tile_rows / 32;

struct column_view
{
	char *const *extents;
	uint64_t tiles;
	uint32_t tiles_per_extent;
	uint64_t blocks_at, offsets_at, valid_at, bounds_at; /* offsets in an extent */
	uint32_t slots, strips;								 /* of a page */
};

/* Bounds of the valid keys of a strip; if it has none, least is above greatest. */
template <class Key>
struct key_bounds
{
	Key least, greatest;
};

inline column_view
view_of(const gjd_column *column)
{
	uint64_t rows = (uint64_t) column->pages_per_extent * column->shape.slots;
	uint64_t used = column->pages * column->shape.slots;

	return column_view{column->extent_table,
					   (used + tile_rows - 1) / tile_rows,
					   (uint32_t) (rows / tile_rows),
					   rows * column->shape.key_bytes,
					   rows * (column->shape.key_bytes + 4),
					   rows * (column->shape.key_bytes + 6),
					   layout_bounds_at(&column->shape, rows),
					   column->shape.slots,
					   gjd_strips(column->shape.slots)};
}

/* A step of a given number of tiles, decomposed so that walking needs no division. */
struct tile_stride
{
	uint32_t tiles, extents, within, tiles_per_extent;

	__device__
	tile_stride(uint32_t tiles, uint32_t tiles_per_extent)
		: tiles(tiles),
		  extents(tiles / tiles_per_extent),
		  within(tiles % tiles_per_extent),
		  tiles_per_extent(tiles_per_extent)
	{
	}
};

/* Position of a tile. */
struct tile_cursor
{
	uint64_t tile;
	uint32_t extent, within;

	__device__
	tile_cursor(uint64_t first, uint32_t tiles_per_extent)
		: tile(first),
		  extent((uint32_t) (first / tiles_per_extent)),
		  within((uint32_t) (first % tiles_per_extent))
	{
	}

	__device__ void
	advance(const tile_stride &stride)
	{
		tile += stride.tiles;
		extent += stride.extents;
		within += stride.within;
		if (within >= stride.tiles_per_extent)
		{
			within -= stride.tiles_per_extent;
			extent++;
		}
	}
};

}  // namespace gjd

#endif
