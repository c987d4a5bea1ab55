/*-------------------------------------------------------------------------
 *
 * aggnode.h
 *	  The state of a GpuAgg node, and what it shares in a parallel plan.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_AGGNODE_H
#define GPUJOIN_AGGNODE_H

#include "nodes/execnodes.h"
#include "nodes/extensible.h"

#include "compute.h"
#include "groups.h"
#include "reader.h"

typedef struct GjAggStats
{
	GjGroupsStats groups;
	GjReaderStats reader;
	uint64		flushes;		/* of partial groups, before all rows were read */
} GjAggStats;

/* In the plan's shared memory */
typedef struct GjAggShare GjAggShare;

typedef struct GjAggState
{
	CustomScanState css;		/* first */
	PlanState  *child;
	GjReader   *reader;
	GjCompute  *compute;		/* what is computed for each row; NULL: nothing is */
	GjGroups   *groups;			/* NULL in a mere EXPLAIN */
	bool		filled;			/* the groups of this pass are there */
	bool		begun;			/* some pass is */
	bool		is_plain;		/* the result is made of the groups' columns alone */

	List	   *coded;			/* int: group columns of which the groups have codes */

	/* One that is partial */
	bool		is_partial;
	bool		ended;			/* all rows have been read */
	uint64		flushes;
	GjAggShare *share;			/* NULL: no parallel plan is running */
	GjAggStats	workers;		/* what they have counted */
} GjAggState;

/* aggshare.c */
extern Size GjAggEstimateShare(CustomScanState *node, ParallelContext *pcxt);
extern void GjAggInitShare(CustomScanState *node, ParallelContext *pcxt, void *area);
extern void GjAggResetShare(CustomScanState *node, ParallelContext *pcxt, void *area);
extern void GjAggAttachShare(CustomScanState *node, shm_toc *toc, void *area);
extern void GjAggShutdown(CustomScanState *node);
extern GjAggStats GjAggGetStats(const GjAggState *agg);

#endif							/* GPUJOIN_AGGNODE_H */
