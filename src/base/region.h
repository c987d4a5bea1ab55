/*-------------------------------------------------------------------------
 *
 * region.h
 *	  Large pieces of memory that are cheap to touch for the first time.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BASE_REGION_H
#define GPUJOIN_BASE_REGION_H

#include "nodes/memnodes.h"
#include "utils/palloc.h"

/* A region; all zero if nothing is allocated */
typedef struct GjRegion
{
	char	   *start;			/* maximally aligned */
	Size		size;
	void	   *chunk;			/* the chunk as allocated */
} GjRegion;

extern void GjRegionAllocate(GjRegion *region, MemoryContext context, Size size);
extern void GjRegionResize(GjRegion *region, Size size);
extern void GjRegionGrow(GjRegion *region, MemoryContext context, Size used, Size size);
extern void GjRegionTouch(const GjRegion *region);
extern void GjAskForHugePages(void *memory, Size size);
extern void GjKeepFreedMemory(void);

static inline void
GjRegionFree(GjRegion *region)
{
	if (region->chunk != NULL)
		pfree(region->chunk);
	memset(region, 0, sizeof(GjRegion));
}

#endif							/* GPUJOIN_BASE_REGION_H */
