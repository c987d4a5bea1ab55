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

#include "nodes/pathnodes.h"

/* hooks.c */
extern void GjPlanInit(void);

/* cost.c: the access method's cost estimate, by which its indexes are known, too */
extern void gjcostestimate(PlannerInfo *root, IndexPath *path, double loop_count,
						   Cost *startup, Cost *total, Selectivity *selectivity,
						   double *correlation, double *pages);

#endif							/* GPUJOIN_PLAN_H */
