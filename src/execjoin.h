/*-------------------------------------------------------------------------
 *
 * execjoin.h
 *	  State of a running GpuJoin.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXECJOIN_H
#define GPUJOIN_EXECJOIN_H

#include "joinplan.h"

/* What comes next */
typedef enum GjJoinPhase
{
	GJ_PHASE_COLLECT,				/* run the small side */
	GJ_PHASE_BATCH,				/* take a batch, search the index for it */
	GJ_PHASE_BIG_ROW,				/* fetch a big row, find its partners */
	GJ_PHASE_PAIRS,				/* return pairs of the big row */
	GJ_PHASE_UNMATCHED,			/* return the batch's small rows that had no match */
	GJ_PHASE_DONE
} GjJoinPhase;

typedef struct GjJoinState
{
	CustomScanState css;		/* first */
	GjJoinPhase	phase;
	GjJoinKind	kind;
	MemoryContext context;		/* TIDs and keys */

	/* The big side */
	Relation	big;
	Relation	index;
	GjKeyReader key_reader;
	GjTidSet   *tids;			/* of the current batch; NULL: not searched for */
	GjFetch    *fetch;
	TupleTableSlot *big_slot;
	ExprContext *big_context;	/* per-tuple memory lives as long as a big row */
	ProjectionInfo *big_projection; /* big_slot to the joined slot's big columns */
	int			nbig;			/* how many of these */

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
	GjJoinReport report;
} GjJoinState;

/* execjoinrows.c */
extern TupleTableSlot *GjExecJoin(CustomScanState *node);
extern void GjJoinDropTids(GjJoinState *state);

#endif							/* GPUJOIN_EXECJOIN_H */
