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

/* Size of a huge page, and the least size of a region that uses them */
#define GJ_HUGE_PAGE			((Size) 2 * 1024 * 1024)
#define GJ_HUGE_REGION			(2 * GJ_HUGE_PAGE)

/* A region; all zero if nothing is allocated */
typedef struct GjRegion
{
	char	   *start;			/* maximally aligned */
	Size		size;
	void	   *chunk;			/* the chunk as allocated */
} GjRegion;

/* GjRegionAllocate() of a large region, aligned and in huge pages */
extern void GjRegionAllocateHuge(GjRegion *region, MemoryContext context, Size size);
extern void GjRegionResize(GjRegion *region, Size size);
extern void GjRegionGrow(GjRegion *region, MemoryContext context, Size used, Size size);
extern void GjRegionTouch(const GjRegion *region);
extern void GjAskForHugePages(void *memory, Size size);
extern void GjKeepFreedMemory(void);

/*
 * Allocate any number of bytes.  Small regions are allocated without alignment.
 */
static inline void
GjRegionAllocate(GjRegion *region, MemoryContext context, Size size)
{
	if (size < GJ_HUGE_REGION)
	{
		region->size = size;
		region->start = region->chunk = MemoryContextAllocHuge(context, size);
	}
	else
		GjRegionAllocateHuge(region, context, size);
}

/* Free the region, if it is allocated */
static inline void
GjRegionFree(GjRegion *region)
{
	if (region->chunk != NULL)
		pfree(region->chunk);
	memset(region, 0, sizeof(GjRegion));
}

#endif							/* GPUJOIN_BASE_REGION_H */
