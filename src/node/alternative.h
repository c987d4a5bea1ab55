/*-------------------------------------------------------------------------
 *
 * alternative.h
 *	  GpuAlternative: the interface between its planner and executor parts.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODE_ALTERNATIVE_H
#define GPUJOIN_NODE_ALTERNATIVE_H

/* Name of the node, by which the executor finds its methods */
#define GJ_ALTERNATIVE_NAME		"GpuAlternative"

/* Maximum number of keys looked up when the plans are compared */
#define GJ_MAX_ALTERNATIVE_KEYS	(1 << 24)

/*
 * Indexes into the custom_private list of a plan. custom_exprs is a list of one item, the list of
 * the key plan's values, or, of a join, which has no relation, of the arrays that are counted.
 * custom_plans holds our plan, then the other one.
 */
typedef enum GjAlternativePrivate
{
	GJ_ALTERNATIVE_INDEX_OID,	/* Oid list of one item; of a join: NIL, like the key plan */
	GJ_ALTERNATIVE_KEY_PLAN,	/* keyplan.h */
	GJ_ALTERNATIVE_CPU_KEYS,	/* Integer; of a join: number of rows */
	GJ_ALTERNATIVE_DEVICE_KEYS, /* Integer */
	GJ_ALTERNATIVE_PARTITIONS,	/* like GJ_SCAN_PARTITIONS */
	GJ_ALTERNATIVE_PRIVATE_COUNT
} GjAlternativePrivate;

#endif							/* GPUJOIN_NODE_ALTERNATIVE_H */
