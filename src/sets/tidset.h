/*-------------------------------------------------------------------------
 *
 * tidset.h
 *	  The matching TIDs: collected in any order, delivered by block in heap order, each TID once.
 *
 * TIDs are stored in an array while they fit in the memory limit; if they do not, in a
 * TIDBitmap, whose pages may become lossy.  Then every tuple of the block is a candidate, and
 * the recheck of the key decides.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_TIDSET_H
#define GPUJOIN_SETS_TIDSET_H

#include "nodes/memnodes.h"
#include "storage/off.h"

#include "base/tid.h"

typedef struct GjTidSet GjTidSet;

/* Candidates of a heap block */
typedef struct GjTidBlock
{
	BlockNumber block;
	bool		lossy;			/* true if the offsets are not known: all tuples of the block are
								 * candidates */
	int			noffsets;		/* at most MaxHeapTuplesPerPage; 0 when lossy */
	const OffsetNumber *offsets;	/* ascending; valid until the next call */
} GjTidBlock;

/*
 * Source of a view's TIDs, which are stored elsewhere: points *tids to the next ones, in heap
 * order, packed as block << 16 | offset, with offset 0 for a lossy block.  They must remain
 * valid until the next call.  Returns false if none are left.
 */
typedef bool (*GjTidSource) (void *state, const uint64 **tids, uint64 *ntids);

extern GjTidSet *GjTidSetCreate(MemoryContext parent, Size memory_limit);
extern void GjTidSetExpect(GjTidSet *set, uint64 n);
extern bool GjTidSetAdd(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits,
						int n_words);
extern bool GjTidSetAddPacked(GjTidSet *set, const uint64 *tids, uint64 n);
extern void GjTidSetAddOne(GjTidSet *set, const ItemPointerData *tid);
extern void GjTidSetAddBlocks(GjTidSet *set, BlockNumber nblocks);	/* the first nblocks */
extern void GjTidSetFinish(GjTidSet *set);
extern uint64 GjTidSetCount(const GjTidSet *set);	/* distinct TIDs; a lossy block counts as 1 */
extern bool GjTidSetIsLossy(const GjTidSet *set);
extern void GjTidSetProve(GjTidSet *set, bool proved);	/* rows need no recheck: rows/heap.c */
extern bool GjTidSetIsProved(const GjTidSet *set);
extern bool GjTidSetGetArray(const GjTidSet *set, const uint64 **tids, uint64 *ntids);
extern bool GjTidSetNextBlock(GjTidSet *set, GjTidBlock *out);
extern bool GjTidSetPeekBlock(GjTidSet *set, BlockNumber *block);	/* a separate cursor that runs
																	 * ahead, for prefetching */
extern void GjTidSetFollow(GjTidSet *set);
extern void GjTidSetRewind(GjTidSet *set);
extern GjTidSet *GjTidSetCreateView(MemoryContext parent, GjTidSource source, Size state_size,
									void **state);
extern void GjTidSetFree(GjTidSet *set);

/* For callers that keep packed TIDs together with other data */
extern bool GjCheckPackedTids(const uint64 *tids, uint64 n, uint64 *highest);

#endif							/* GPUJOIN_SETS_TIDSET_H */
