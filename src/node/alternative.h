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

/* Name of the node: finds the executor's methods */
#define GJ_ALTERNATIVE_NAME		"GpuAlternative"

/* More keys are not looked for when the plans are compared */
#define GJ_MAX_ALTERNATIVE_KEYS	(1 << 24)

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

#endif							/* GPUJOIN_NODE_ALTERNATIVE_H */
