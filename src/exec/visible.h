/*-------------------------------------------------------------------------
 *
 * visible.h
 *	  The candidates of one pinned heap block: those that the snapshot sees.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_VISIBLE_H
#define GPUJOIN_EXEC_VISIBLE_H

#include "access/htup.h"
#include "storage/buf.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "sets/sets.h"

/*
 * Fill tuples[], which has room for MaxHeapTuplesPerPage, and return how many there
 * are.  They point into the page and are good while it is pinned.  Takes and
 * releases the block's lock, and the predicate locks of serializable transactions.
 */
extern int	GjCollectVisible(Relation heap, Buffer buffer, Snapshot snapshot,
							 const GjTidBlock *tids, HeapTuple tuples);

/* Ask for what GjCollectVisible() will read, of a block that is pinned but not locked */
extern void GjPrefetchLinePointers(Buffer buffer, const GjTidBlock *tids);
extern void GjPrefetchTuples(Buffer buffer, const GjTidBlock *tids);

#endif							/* GPUJOIN_EXEC_VISIBLE_H */
