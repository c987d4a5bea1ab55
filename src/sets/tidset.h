/*-------------------------------------------------------------------------
 *
 * tidset.h
 *	  The matching TIDs: collected in any order, delivered block by block in
 *	  heap order, each TID once.
 *
 * While they fit in the memory limit they are an array; beyond it they become a
 * TIDBitmap, whose pages may turn lossy: then every tuple of the block is a
 * candidate and the key recheck, which a caller does anyway, decides.
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

/* One heap block's worth of candidates */
typedef struct GjTidBlock
{
	BlockNumber block;
	bool		lossy;			/* offsets unknown: look at each tuple of the block */
	int			noffsets;		/* at most MaxHeapTuplesPerPage; 0 when lossy */
	const OffsetNumber *offsets;	/* ascending; valid until the next call */
} GjTidBlock;

/*
 * Where a view of TIDs that lie elsewhere gets them: points tids to the next ones, in
 * heap order, packed as block << 16 | offset, and an offset of 0 for a lossy block.
 * They must stay until the next call.  False: there are no more.
 */
typedef bool (*GjTidSource) (void *state, const uint64 **tids, uint64 *ntids);

extern GjTidSet *GjTidSetCreate(MemoryContext parent, Size memory_limit);
extern void GjTidSetExpect(GjTidSet *set, uint64 n);
extern bool GjTidSetAdd(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits,
						int n_words);
extern bool GjTidSetAddPacked(GjTidSet *set, const uint64 *tids, uint64 n);
extern void GjTidSetAddOne(GjTidSet *set, const ItemPointerData *tid);
extern void GjTidSetAddBlocks(GjTidSet *set, BlockNumber nblocks);	/* the first so many, whole */
extern void GjTidSetFinish(GjTidSet *set);
extern uint64 GjTidSetCount(const GjTidSet *set);	/* distinct TIDs; a lossy block counts 1 */
extern bool GjTidSetIsLossy(const GjTidSet *set);
extern bool GjTidSetGetArray(const GjTidSet *set, const uint64 **tids, uint64 *ntids);
extern bool GjTidSetNextBlock(GjTidSet *set, GjTidBlock *out);
extern bool GjTidSetPeekBlock(GjTidSet *set, BlockNumber *block);	/* for prefetch: a cursor
																	 * of its own, ahead */
extern void GjTidSetFollow(GjTidSet *set);
extern void GjTidSetRewind(GjTidSet *set);
extern GjTidSet *GjTidSetCreateView(MemoryContext parent, GjTidSource source, Size state_size,
									void **state);
extern void GjTidSetFree(GjTidSet *set);

/* tidset.c: for who keeps packed TIDs beside other things */
extern bool GjCheckPackedTids(const uint64 *tids, uint64 n, uint64 *highest);

#endif							/* GPUJOIN_SETS_TIDSET_H */
