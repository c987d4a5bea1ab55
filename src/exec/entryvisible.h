/*-------------------------------------------------------------------------
 *
 * entryvisible.h
 *	  The test that makes rows of index entries.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_ENTRYVISIBLE_H
#define GPUJOIN_EXEC_ENTRYVISIBLE_H

#include "utils/relcache.h"
#include "utils/snapshot.h"

extern bool GjEntriesMayBeRows(Snapshot snapshot);
extern bool GjHeapIsMostlyVisible(Relation heap);
extern int	GjEntriesTestMap(Relation heap, const uint64 *tids, int n, uint16 *rows,
							 uint64 *rest, int *nrest);
extern int	GjEntriesTestEach(Relation heap, const uint64 *tids, int n, bool *visible);
extern bool GjEpochHasMoved(Relation index, Snapshot snapshot, uint64 epoch);

#endif							/* GPUJOIN_EXEC_ENTRYVISIBLE_H */
