/*-------------------------------------------------------------------------
 *
 * tidsetparts.h
 *	  Inside of a TID set: its two forms, and what its files use of each other.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_TIDSETPARTS_H
#define GPUJOIN_SETS_TIDSETPARTS_H

#include "base/compat.h"
#include "tidset.h"

#define GJ_TIDSET_WORD_TIDS		32

/* TIDs that go to a TIDBitmap in one call */
#define GJ_TIDSET_BATCH			1024

struct GjTidSet
{
	MemoryContext context;		/* all below lives here */
	Size		memory_limit;

	/* The array; NULL once there is a bitmap */
	uint64	   *tids;			/* packed */
	uint64		ntids;
	uint64		capacity;
	uint64		nascending;		/* the first so many ascend strictly */

	TIDBitmap  *bitmap;			/* NULL while all fits the array */

	/* A view: the array is somebody else's, and this gets the next one */
	GjTidSource source;
	void	   *source_state;

	/* Valid once finished */
	uint64		count;
	bool		lossy;

	/* Cursors: over the array, or over the bitmap (begun when first used) */
	uint64		next;
	uint64		peek;
	GjBitmapIterator *next_iterator;
	GjBitmapIterator *peek_iterator;

	OffsetNumber offsets[MaxHeapTuplesPerPage];
};

/* tidarray.c */
extern bool GjTidArrayReserve(GjTidSet *set, uint64 n); /* false: the limit is reached */
extern bool GjTidArrayAdd(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits,
						  int n_words);
extern bool GjTidArrayAddPacked(GjTidSet *set, const uint64 *tids, uint64 n);
extern void GjTidArrayAddOne(GjTidSet *set, const ItemPointerData *tid);
extern void GjTidArrayFinish(GjTidSet *set);

/* tidbitmap.c */
extern void GjTidBitmapStart(GjTidSet *set);
extern bool GjTidBitmapAdd(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits,
						   int n_words);
extern bool GjTidBitmapAddPacked(GjTidSet *set, const uint64 *tids, uint64 n);
extern void GjTidBitmapAddOne(GjTidSet *set, const ItemPointerData *tid);
extern void GjTidBitmapAddBlocks(GjTidSet *set, BlockNumber nblocks);
extern void GjTidBitmapFinish(GjTidSet *set);
extern bool GjTidBitmapStep(GjTidSet *set, GjBitmapIterator **iterator, BlockNumber *block,
							OffsetNumber *offsets, int *noffsets);
extern void GjTidBitmapRewind(GjTidSet *set);

#endif							/* GPUJOIN_SETS_TIDSETPARTS_H */
