/*-------------------------------------------------------------------------
 *
 * table.h
 *	  A scan's table: its index, its slots, and the match that a scan asks for.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_TABLE_H
#define GPUJOIN_EXEC_TABLE_H

#include "nodes/execnodes.h"

#include "match/match.h"

extern Relation GjOpenIndex(EState *estate, Index scanrelid, Oid index_oid);
extern void GjExecMatch(Relation heap, Relation index, Snapshot snapshot, const GjKeySet *keys,
						GjTidSet *tids, GjMatchStats *stats);
extern void GjExecMatchAll(Relation heap, Snapshot snapshot, GjTidSet *tids,
						   GjMatchStats *stats);
extern void GjExecMatchEntries(GjEntryMatch *match, Relation index, Snapshot snapshot,
							   const GjKeySet *keys, GjEntrySet *whole,
							   GjMatchStats *stats);
extern bool GjExecShareRanges(GjSharedRanges *shared, Relation index, Snapshot snapshot,
							  const GjKeySet *keys, uint64 capacity, int nprocesses,
							  GjMatchStats *stats);
extern TupleTableSlot *GjInitScanSlots(ScanState *node, bool index_only);

#endif							/* GPUJOIN_EXEC_TABLE_H */
