/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  What the planner does by itself: its hooks, and what a bitmap scan costs.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PLAN_H
#define GPUJOIN_PLAN_H

#include "access/attnum.h"
#include "nodes/params.h"
#include "nodes/pathnodes.h"

/* An index that does not exist: with it a query may be planned (newindex.c) */
typedef struct GjNewIndex
{
	Oid			table;			/* if it is partitioned, each partition would have one */
	AttrNumber	key;
	Bitmapset  *included;		/* the numbers of the columns in INCLUDE */
} GjNewIndex;

/* What such an index would bring a query (advise.c) */
typedef struct GjAdvice
{
	GjNewIndex	index;
	Cost		cost_now;		/* of the query, without it */
	Cost		cost_with;		/* and with it; 0: not estimated */
	Oid			replaces;		/* an index of ours with the same key, or invalid */
	const char *refused;		/* why it would not pay; NULL: it would */
	const char *assumed;		/* what the costs rest on, or NULL */
} GjAdvice;

/* A query that is planned several times (assumed.c) */
typedef struct GjTrial
{
	const Query *query;
	const char *text;
	ParamListInfo params;		/* with values for arrays of unknown length, none for others */
} GjTrial;

/* What became of one index in one place of a query */
typedef struct GjChoice
{
	Oid			relation;
	Oid			index;			/* invalid: the table has none of ours */
	const char *node;			/* GpuScan, GpuJoin, or above one of these GpuAgg, Partial
								 * GpuAgg; NULL: neither of the first two was offered */
	const char *condition;		/* that the index would answer; NULL: not known */
	bool		chosen;
	const char *reason;			/* why not */
	Cost		cost;			/* of our path, or 0 */
	Cost		other_cost;		/* of the cheapest other path there, or 0 */
} GjChoice;

/* choice.c: what the planner thinks of a query's indexes, a list of GjChoice */
extern bool GjChoiceStart(void);
extern List *GjChoiceStop(void);
extern void GjChoiceNote(const Query *query, const char *text);

/* advise.c: which indexes would pay for a query?  A list of GjAdvice. */
extern List *GjAdviseQuery(const Query *query, const char *text);

/* assumed.c */
extern GjTrial *GjTrialMake(const Query *query, const char *text);
extern Cost GjTrialStart(GjTrial *trial);

/* newindex.c: what a query costs with indexes (GjNewIndex) or without (NIL); how large one is */
extern Cost GjNewIndexCost(const GjTrial *trial, const List *indexes);
extern int64 GjNewIndexSize(const GjNewIndex *index);

/* hooks.c */
extern void GjPlanInit(void);

/* cost.c: the access method's cost estimate, by which its indexes are known, too */
extern void gjcostestimate(PlannerInfo *root, IndexPath *path, double loop_count,
						   Cost *startup, Cost *total, Selectivity *selectivity,
						   double *correlation, double *pages);

#endif							/* GPUJOIN_PLAN_H */
