/*-------------------------------------------------------------------------
 *
 * alternative.h
 *	  GpuAlternative: what its planner's side and its executor's side agree on.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODE_ALTERNATIVE_H
#define GPUJOIN_NODE_ALTERNATIVE_H

#include "plan/plan.h"

/* More keys are not looked for when the plans are compared */
#define GJ_MAX_ALTERNATIVE_KEYS	(1 << 24)

/* custom_private of a path: a list indexed by these.  custom_paths: ours, the other. */
typedef enum GjAlternativePathPrivate
{
	GJ_ALTERNATIVE_PATH_INDEX,	/* IndexOptInfo */
	GJ_ALTERNATIVE_PATH_CPU_KEYS,	/* Integer: from so many keys on ours is cheaper */
	GJ_ALTERNATIVE_PATH_DEVICE_KEYS,	/* Integer: the same, if a device searches */
	GJ_ALTERNATIVE_PATH_COUNT
} GjAlternativePathPrivate;

/*
 * custom_private of a plan: a list indexed by these.  custom_exprs: a list of one, the
 * list of the key plan's values.  custom_plans: ours, the other.
 */
typedef enum GjAlternativePrivate
{
	GJ_ALTERNATIVE_INDEX_OID,	/* Oid list of one */
	GJ_ALTERNATIVE_KEY_PLAN,	/* keyplan.h */
	GJ_ALTERNATIVE_CPU_KEYS,	/* Integer */
	GJ_ALTERNATIVE_DEVICE_KEYS, /* Integer */
	GJ_ALTERNATIVE_PARTITIONS,	/* as GJ_SCAN_PARTITIONS */
	GJ_ALTERNATIVE_PRIVATE_COUNT
} GjAlternativePrivate;

/* plan/alternative.c */
extern const CustomPathMethods GjAlternativePathMethods;
extern void GjAddAlternativePath(PlannerInfo *root, const GjCostInput *input, List *conditions,
								 CustomPath *ours);

/* exec/alternative.c */
extern const CustomScanMethods GjAlternativePlanMethods;

#endif							/* GPUJOIN_NODE_ALTERNATIVE_H */
