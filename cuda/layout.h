/*
 * layout.h
 *	  How a column lies in its extents. Plain C, shared by both libraries so that they run out of
 *	  memory at the same page.
 *
 * An extent holds whole pages, and of them a multiple of LAYOUT_PAGE_GROUP: 128 pages of 32 or more
 * slots are a multiple of 4096 rows, so kernels cut an extent into whole tiles and need no code
 * for a partial one.
 */
#ifndef GPUJOIN_LAYOUT_H
#define GPUJOIN_LAYOUT_H

#include "gpujoin_device.h"

#define LAYOUT_PAGE_GROUP 128u

/* Device bytes of one page: keys, TID blocks, TID offsets, validity bits. */
static inline uint64_t
layout_page_bytes(uint32_t slots, uint32_t key_bytes)
{
	return (uint64_t) slots * (key_bytes + 6) + slots / 8;
}

/* Extents of wide pages are several of the smallest kind, so that one group always fits. */
static inline uint64_t
layout_extent_bytes(uint32_t slots, uint32_t key_bytes)
{
	uint64_t group = layout_page_bytes(slots, key_bytes) * LAYOUT_PAGE_GROUP;

	return (group + GJD_EXTENT_BYTES - 1) / GJD_EXTENT_BYTES * GJD_EXTENT_BYTES;
}

static inline uint32_t
layout_pages_per_extent(uint32_t slots, uint32_t key_bytes)
{
	uint64_t pages = layout_extent_bytes(slots, key_bytes) / layout_page_bytes(slots, key_bytes);

	return (uint32_t) (pages / LAYOUT_PAGE_GROUP * LAYOUT_PAGE_GROUP);
}

/* What columns may take of a budget of whole extents. */
static inline uint64_t
layout_columns_limit(uint64_t budget, uint64_t scratch_reserve)
{
	uint64_t reserve = scratch_reserve;

	if (reserve == 0)
	{
		reserve = budget / 16;
		if (reserve < ((uint64_t) 64 << 20))
			reserve = (uint64_t) 64 << 20;
		if (reserve > ((uint64_t) 4 << 30))
			reserve = (uint64_t) 4 << 30;
	}
	if (reserve >= budget)
		return 0;
	return (budget - reserve) / GJD_EXTENT_BYTES * GJD_EXTENT_BYTES;
}

#endif
