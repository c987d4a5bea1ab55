/*-------------------------------------------------------------------------
 *
 * ordered.h
 *	  Rows of a GpuScan in an order, for ORDER BY ... LIMIT.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_ORDERED_H
#define GPUJOIN_EXEC_ORDERED_H

#include "executor/tuptable.h"
#include "utils/tuplesort.h"

#include "indexonly.h"

typedef struct GjOrdered GjOrdered;
struct GjScanState;

typedef struct GjOrderedStats
{
	uint64		batches;
	uint64		rows;			/* entries that were put in order and kept, of all batches */
	uint64		sorts;			/* times that the rows after the last batch were sorted */
	uint64		sorted;			/* rows of these */
	TuplesortInstrumentation sort;	/* what the last sort took, if there was one */
} GjOrderedStats;

extern GjOrdered *GjOrderedCreate(struct GjScanState *scan);
extern TupleTableSlot *GjOrderedNext(struct GjScanState *scan);
extern bool GjOrderedSortRest(struct GjScanState *scan);
extern bool GjOrderedIsRest(const GjOrdered *ordered);
extern void GjOrderedRestart(GjOrdered *ordered);
extern void GjOrderedReset(GjOrdered *ordered);
extern const GjOrderedStats *GjOrderedGetStats(const GjOrdered *ordered);

/* ordered.c */
extern TupleTableSlot *GjOrderedNextSorted(struct GjScanState *scan);
extern void GjOrderedEndSort(GjOrdered *ordered);

#endif							/* GPUJOIN_EXEC_ORDERED_H */
