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
	Cost		cost_with;		/* and with it; 0: not reckoned */
	bool		has_index;		/* the column is the key of an index of ours already */
	const char *refused;		/* why it would not pay; NULL: it would */
} GjAdvice;

/* advise.c: which indexes would pay for a query?  A list of GjAdvice. */
extern List *GjAdviseQuery(Query *query, const char *text);

/* newindex.c: what a query costs with indexes (GjNewIndex) or without (NIL); how large one is */
extern Cost GjNewIndexCost(const Query *query, const char *text, const List *indexes);
extern int64 GjNewIndexSize(const GjNewIndex *index);

/* hooks.c */
extern void GjPlanInit(void);

/* cost.c: the access method's cost estimate, by which its indexes are known, too */
extern void gjcostestimate(PlannerInfo *root, IndexPath *path, double loop_count,
						   Cost *startup, Cost *total, Selectivity *selectivity,
						   double *correlation, double *pages);

#endif							/* GPUJOIN_PLAN_H */
