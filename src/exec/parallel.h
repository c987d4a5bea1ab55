/*-------------------------------------------------------------------------
 *
 * parallel.h
 *	  One match for all processes of a parallel plan: found once, fetched by all.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_PARALLEL_H
#define GPUJOIN_EXEC_PARALLEL_H

#include "access/parallel.h"

#include "tablescan.h"

/*
 * Find what has table->keys: all of it, or this process's share.  NULL: rows come from
 * table->index_only, from these columns; else the TIDs that are to be fetched, or none.  A share
 * delivers its blocks once, and is good until it is reset or shut down.  The keys must live until
 * index_only is reset.
 *
 * can_share: the match answers for all that the node will ask for in this execution.
 * If it does not in the process that comes first, this process does all.
 */
extern GjTidSet *GjParallelMatch(GjTableScan *table, uint64 columns, Size limit, bool can_share);

/* The methods of a parallel-aware node */
extern Size GjParallelEstimate(CustomScanState *node, ParallelContext *pcxt);
extern void GjParallelInit(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void GjParallelReset(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void GjParallelAttach(CustomScanState *node, shm_toc *toc, void *shared);
extern void GjParallelShutdown(CustomScanState *node);

#endif							/* GPUJOIN_EXEC_PARALLEL_H */
