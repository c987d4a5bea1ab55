/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  The planner: its hooks, the cost of a bitmap scan, notes about choices, and what the
 *	  advisor adds.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PLAN_H
#define GPUJOIN_PLAN_H

#include "access/htup.h"
#include "nodes/params.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

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

/*
 * choice.c: notes about the planner's choices, a list of GjChoice.  Conditions show the parameters
 * of a query that is planned with assumed values, not the values.
 */
extern bool GjChoiceStart(ParamListInfo assumed);
extern List *GjChoiceStop(void);

/* What the advisor adds to the planning of its own queries (advisor/newindex.c) */
typedef struct GjPlanAdditions
{
	/* indexes that do not exist, before the table's indexes are looked at */
	void		(*add_indexes) (PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel);
	/* notes of a table, when its conditions are known */
	void		(*note_table) (PlannerInfo *root, RelOptInfo *rel);
} GjPlanAdditions;

/* hooks.c; the additions are NULL unless the advisor is planning a query */
extern const GjPlanAdditions *GjPlanAdded;
extern void GjPlanInit(void);

/* keyshare.c: the number of keys that an array of unknown length is assumed to have */
extern double GjAssumedKeys(double ndistinct);

/* Average width, in statistics, of strings that nearly all have an image: 7 bytes and a header */
#define GJ_IMAGE_WIDTH			8

/* words.c: can nearly all texts of a column be packed, by its statistics? */
extern bool GjTextsArePacked(HeapTuple statistics);

/* cost.c: the access method's cost estimate, which also identifies its indexes */
extern void gjcostestimate(PlannerInfo *root, IndexPath *path, double loop_count,
						   Cost *startup, Cost *total, Selectivity *selectivity,
						   double *correlation, double *pages);

#endif							/* GPUJOIN_PLAN_H */
