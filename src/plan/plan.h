/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  The planner: its hooks, the cost of a bitmap scan, notes about choices, and planning
 *	  with indexes that do not exist.
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

/* An index that does not exist, with which a query can be planned (newindex.c) */
typedef struct GjNewIndex
{
	Oid			table;			/* if partitioned, each partition has such an index */
	AttrNumber	key;
	Bitmapset  *included;		/* numbers of the INCLUDE columns */
} GjNewIndex;

/* A query that is planned several times (advise/price.c) */
typedef struct GjTrial
{
	const Query *query;
	const char *text;
	ParamListInfo params;		/* values for arrays of unknown length only */
} GjTrial;

/* The planner's choice about one index in one place of a query */
typedef struct GjChoice
{
	Oid			relation;
	Oid			index;			/* InvalidOid if the table has no index of ours */
	const char *node;			/* GpuScan, GpuJoin, or above one of these GpuAgg or Partial
								 * GpuAgg; NULL if neither of the first two was offered */
	const char *condition;		/* condition that the index would answer, or NULL */
	bool		chosen;
	const char *reason;			/* reason why not, if not chosen */
	Cost		cost;			/* of our path, or 0 */
	Cost		other_cost;		/* of the cheapest other path in that place, or 0 */
} GjChoice;

/* choice.c: notes about the planner's choices, a list of GjChoice */
extern bool GjChoiceStart(void);
extern List *GjChoiceStop(void);

/* newindex.c: planning a query as if it had other indexes (GjNewIndex) */
extern PlannedStmt *GjNewIndexPlan(const GjTrial *trial, const List *indexes);
extern int64 GjNewIndexSize(const GjNewIndex *index);
extern bool GjNewIndexFits(const GjNewIndex *index);
extern Oid	GjNewIndexClass(Oid table, AttrNumber attno);

/* scanpath.c: the number of keys that an array of unknown length is assumed to have */
extern double GjAssumedKeys(double ndistinct);

/* hooks.c; the hook is called for each table that is planned, if it is set */
extern void (*GjNoteTableHook) (PlannerInfo *root, RelOptInfo *rel);
extern void GjPlanInit(void);

/* cost.c: the access method's cost estimate, which also identifies its indexes */
extern void gjcostestimate(PlannerInfo *root, IndexPath *path, double loop_count,
						   Cost *startup, Cost *total, Selectivity *selectivity,
						   double *correlation, double *pages);

#endif							/* GPUJOIN_PLAN_H */
