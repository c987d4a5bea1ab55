/*-------------------------------------------------------------------------
 *
 * state.h
 *	  State of a running GpuJoin.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_JOIN_STATE_H
#define GPUJOIN_JOIN_STATE_H

#include "exec/exec.h"
#include "node/joinplan.h"
#include "join.h"
#include "scan.h"

/* Statistics of a join, except for its scans */
typedef struct GjJoinReport
{
	const GjSmallStats *small;
	GjSmallStats workers;		/* maximum of the parallel workers' statistics, once known */
	uint64		removed_above;	/* result rows removed by the other quals */
} GjJoinReport;

/* The next step */
typedef enum GjJoinPhase
{
	GJ_PHASE_COLLECT,				/* run the small side */
	GJ_PHASE_BATCH,				/* begin a batch */
	GJ_PHASE_TABLE,				/* begin a table of the big side */
	GJ_PHASE_DIRECT,			/* return rows built from its entries, on the fast path */
	GJ_PHASE_BIG_ROW,				/* get a big row that has partners */
	GJ_PHASE_PAIRS,				/* return pairs of the big row */
	GJ_PHASE_UNMATCHED,			/* return the batch's small rows that had no match */
	GJ_PHASE_DONE
} GjJoinPhase;

typedef struct GjJoinDirect GjJoinDirect;

struct GjJoinState
{
	CustomScanState css;		/* must be first */
	GjJoinPhase	phase;
	GjJoinKind	kind;

	/* The big side: its tables, scanned one after another */
	GjJoinScanState **scans;
	int			nscans;
	int			current;		/* number of the current table; nscans: the batch is finished */
	GjJoinScanState *scan;		/* scan of the current table, once started */
	MemoryContext context;		/* holds the keys */
	GjKeySet   *keys;			/* keys of the batch; NULL until they are built */
	List	   *partitions;		/* partitions of each table, or NIL if keys do not determine the
								 * table */
	GjKeyRouter router;
	GjKeyRoutes *routes;		/* routes of the keys, if there are partitions */
	int			nbig;			/* number of columns of the joined row that are from the big side */

	/* The small side */
	GjSmallSide *small;
	FmgrInfo	value_proc;
	int			value_column;	/* column of the small plan's output, or -1: evaluate value_expr */
	ExprState  *value_expr;
	GjSmallRow *pair;			/* next partner of the big row */
	GjSmallRow *unmatched;		/* next small row to look at */
	uint64		nmatched;		/* number of marked small rows of the batch */

	/* The joined row */
	TupleTableSlot *joined;
	ExprState  *joinquals;
	ExprState  *otherquals;
	GjJoinDirect *direct;		/* for the fast path; NULL if it cannot be used */
	GjJoinScanState *direct_scan;	/* during GJ_PHASE_DIRECT */
	GjJoinReport report;
	struct GjSharedSmall *shared;	/* workers' reports in a parallel plan */
};

/* rows.c */
extern TupleTableSlot *GjExecJoin(CustomScanState *node);
extern void GjJoinForgetBatch(GjJoinState *state);

/* direct.c */
extern void GjJoinDirectInit(GjJoinState *state);
extern bool GjJoinWantsPartners(const GjJoinState *state);
extern bool GjJoinNeedsPartners(const GjJoinState *state, const GjJoinScanState *scan);
extern TupleTableSlot *GjJoinNextDirect(GjJoinState *state);
extern bool GjJoinEntriesAreReady(GjJoinState *state, GjReadyRows *ready, bool *partners);
extern bool GjJoinTuplesAreReady(GjJoinState *state, GjReadyRows *ready, bool *partners);
extern TupleTableSlot *GjJoinNextTuple(GjJoinState *state, GjJoinScanState *scan);

/* explain.c */
extern void GjExplainJoin(CustomScanState *node, List *ancestors, ExplainState *es,
						  const GjJoinReport *report);

#endif							/* GPUJOIN_JOIN_STATE_H */
