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
 * columns are those of the entries, as in GjEntryRequest.  can_share is true if this execution
 * searches for no other keys; if it is false in the first process, that process does all of the work.
 * The keys must live until index_only is reset.  A share of TIDs can be fetched once, until it is
 * reset or shut down.
 */
extern GjTidSet *GjParallelMatch(GjTableScan *table, uint64 columns, Size limit, bool can_share);

/* The methods of a parallel-aware node */
extern Size GjParallelEstimate(CustomScanState *node, ParallelContext *pcxt);
extern void GjParallelInit(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void GjParallelReset(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void GjParallelAttach(CustomScanState *node, shm_toc *toc, void *shared);
extern void GjParallelShutdown(CustomScanState *node);

#endif							/* GPUJOIN_EXEC_PARALLEL_H */
