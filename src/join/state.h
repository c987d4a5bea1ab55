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

/* What a join did so far, besides the scans */
typedef struct GjJoinReport
{
	const GjSmallStats *small;
	GjSmallStats workers;		/* the largest of parallel workers' small sides, once known */
	uint64		removed_above;	/* result rows that the other quals removed */
} GjJoinReport;

/* What comes next */
typedef enum GjJoinPhase
{
	GJ_PHASE_COLLECT,				/* run the small side */
	GJ_PHASE_BATCH,				/* take a batch */
	GJ_PHASE_TABLE,				/* begin with a table of the big side */
	GJ_PHASE_DIRECT,			/* return what its entries make, the short way */
	GJ_PHASE_BIG_ROW,				/* get a big row that has partners */
	GJ_PHASE_PAIRS,				/* return pairs of the big row */
	GJ_PHASE_UNMATCHED,			/* return the batch's small rows that had no match */
	GJ_PHASE_DONE
} GjJoinPhase;

typedef struct GjJoinDirect GjJoinDirect;

struct GjJoinState
{
	CustomScanState css;		/* first */
	GjJoinPhase	phase;
	GjJoinKind	kind;

	/* The big side: its tables, scanned one after another */
	GjJoinScanState **scans;
	int			nscans;
	int			current;		/* nscans: all are done with the batch */
	GjJoinScanState *scan;		/* the current one, once begun */
	MemoryContext context;		/* of the keys */
	GjKeySet   *keys;			/* of the batch; NULL: not made yet */
	List	   *partitions;		/* of each table, where keys tell the table, else NIL */
	GjKeyRouter router;
	GjKeyRoutes *routes;		/* of the keys, if there are partitions */
	int			nbig;			/* how many columns of the joined row are of this side */

	/* The small side */
	GjSmallSide *small;
	FmgrInfo	value_proc;
	int			value_column;	/* of the small plan's output, or -1: evaluate */
	ExprState  *value_expr;
	GjSmallRow *pair;			/* next partner of the big row */
	GjSmallRow *unmatched;		/* next small row to look at */
	uint64		nmatched;		/* small rows of the batch that are marked */

	/* The joined row */
	TupleTableSlot *joined;
	ExprState  *joinquals;
	ExprState  *otherquals;
	GjJoinDirect *direct;		/* the short way; NULL: not possible */
	GjJoinScanState *direct_scan;	/* during GJ_PHASE_DIRECT */
	GjJoinReport report;
	struct GjSharedSmall *shared;	/* in parallel: what workers report */
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
