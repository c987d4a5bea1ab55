/*-------------------------------------------------------------------------
 *
 * entryvisible.h
 *	  When index entries are rows.
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
extern bool GjEpochHasMoved(Relation index, Snapshot snapshot, uint64 epoch);

#endif							/* GPUJOIN_EXEC_ENTRYVISIBLE_H */
