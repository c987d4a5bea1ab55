/*-------------------------------------------------------------------------
 *
 * fetch.h
 *	  TIDs to tuples.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_FETCH_H
#define GPUJOIN_EXEC_FETCH_H

#include "executor/tuptable.h"
#include "utils/snapshot.h"

#include "sets/sets.h"
#include "keys.h"
#include "fill.h"

/*
 * TIDs become tuples a heap block at a time, following HOT chains under
 * the snapshot.  Does not own the TID set.  Delivers a superset as regards the
 * key: the caller rechecks it, unless GjFetchFilter() or GjFetchLookup() says that it is
 * done here.
 * The tuple in the slot is good until the next call; at the end the slot is cleared.
 */
typedef struct GjFetch GjFetch;

/* What has been fetched from a block: the caller may take it from here, one by one */
typedef struct GjFetchBlock
{
	int			ntuples;
	int			next;			/* to be taken */
	HeapTupleData tuples[MaxHeapTuplesPerPage];
	void	   *partners[MaxHeapTuplesPerPage]; /* of the tuples, with GjFetchLookup() */
} GjFetchBlock;

typedef struct GjFetchStats
{
	uint64		exact_blocks;	/* heap blocks with known offsets */
	uint64		lossy_blocks;	/* heap blocks looked at whole */
	uint64		tuples;			/* visible tuples, a block's all at once */
	uint64		rechecked;		/* of these, removed by the key recheck (by whoever does it) */
} GjFetchStats;

extern GjFetch *GjFetchCreate(MemoryContext parent, Relation heap, Snapshot snapshot);
extern bool GjFetchFilter(GjFetch *fetch, GjKeyReader *reader, const GjKeySet *keys);
extern bool GjFetchLookup(GjFetch *fetch, GjKeyReader *reader, GjRowLookup lookup, void *arg);
extern void *GjFetchPartners(const GjFetch *fetch);
extern GjFetchBlock *GjFetchGetBlock(GjFetch *fetch);
extern bool GjFetchLoad(GjFetch *fetch);
extern void GjFetchStart(GjFetch *fetch, GjTidSet *tids);
extern bool GjFetchNext(GjFetch *fetch, TupleTableSlot *slot);
extern bool GjFetchFill(GjFetch *fetch, const GjFill *fill, TupleTableSlot *slot,
						ItemPointerData *place);
extern void GjFetchReset(GjFetch *fetch);	/* drops pins; TID set may go */
extern void GjFetchFree(GjFetch *fetch);
extern GjFetchStats *GjFetchGetStats(GjFetch *fetch);

#endif							/* GPUJOIN_EXEC_FETCH_H */
