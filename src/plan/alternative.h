/*-------------------------------------------------------------------------
 *
 * alternative.h
 *	  Paths of GpuAlternative, of two plans between which the execution chooses.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PLAN_ALTERNATIVE_H
#define GPUJOIN_PLAN_ALTERNATIVE_H

#include "node/alternative.h"
#include "planner.h"

/* custom_private of a path: a list indexed by these.  custom_paths: ours, the other. */
typedef enum GjAlternativePathPrivate
{
	GJ_ALTERNATIVE_PATH_INDEX,	/* IndexOptInfo */
	GJ_ALTERNATIVE_PATH_CPU_KEYS,	/* Integer: from so many keys on ours is cheaper */
	GJ_ALTERNATIVE_PATH_DEVICE_KEYS,	/* Integer: the same, if a device searches */
	GJ_ALTERNATIVE_PATH_INPUT,	/* GjCostInput, no Node: of what these were reckoned */
	GJ_ALTERNATIVE_PATH_COUNT
} GjAlternativePathPrivate;

/* alternative.c */
extern const CustomPathMethods GjAlternativePathMethods;
extern void GjAddAlternativePath(PlannerInfo *root, const GjCostInput *input, List *conditions,
								 CustomPath *ours);
extern bool GjAlternativeIsListed(const RelOptInfo *rel, const CustomPath *path);
extern CustomPath *GjAlternativeForArrays(PlannerInfo *root, const CustomPath *path, Cost saved);

#endif							/* GPUJOIN_PLAN_ALTERNATIVE_H */
