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
#include "nodes/plannodes.h"

/* An index that does not exist: with it a query may be planned (newindex.c) */
typedef struct GjNewIndex
{
	Oid			table;			/* if it is partitioned, each partition would have one */
	AttrNumber	key;
	Bitmapset  *included;		/* the numbers of the columns in INCLUDE */
} GjNewIndex;

/* A query that is planned several times (advise/price.c) */
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

/* newindex.c: planning a query as if it had other indexes (GjNewIndex) */
extern PlannedStmt *GjNewIndexPlan(const GjTrial *trial, const List *indexes);
extern int64 GjNewIndexSize(const GjNewIndex *index);
extern Oid	GjNewIndexClass(Oid table, AttrNumber attno);

/* scanpath.c: the number of keys that an array of unknown length is assumed to have */
extern double GjAssumedKeys(double ndistinct);

/* hooks.c; the hook is called for each table that is planned, if it is set */
extern void (*GjNoteTableHook) (PlannerInfo *root, RelOptInfo *rel);
extern void GjPlanInit(void);

/* cost.c: the access method's cost estimate, by which its indexes are known, too */
extern void gjcostestimate(PlannerInfo *root, IndexPath *path, double loop_count,
						   Cost *startup, Cost *total, Selectivity *selectivity,
						   double *correlation, double *pages);

#endif							/* GPUJOIN_PLAN_H */
