/*-------------------------------------------------------------------------
 *
 * keyplan.h
 *	  A key condition as the planner hands it to the executor: sources of keys,
 *	  and how their sets are combined.
 *
 * A source is one comparison of the key with something that is the same for each
 * row.  It yields the set of keys for which the comparison is true.  A tree of AND
 * and OR combines the sets: where only "true" counts, as in WHERE, a NULL result is
 * as good as false, so AND is the intersection and OR the union.
 *
 * A set is a list of keys or the complement of one, and says apart whether rows
 * with a NULL key are wanted (sets/keyset.h).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODE_KEYPLAN_H
#define GPUJOIN_NODE_KEYPLAN_H

#include "nodes/pg_list.h"
#include "nodes/primnodes.h"

/* What a source compares */
typedef enum GjSourceKind
{
	GJ_SOURCE_VALUE,			/* key = value */
	GJ_SOURCE_ARRAY,			/* key = ANY (array) */
	GJ_SOURCE_NOT_VALUE,		/* key <> value */
	GJ_SOURCE_NOT_ARRAY,		/* key <> ALL (array) */
	GJ_SOURCE_NULL,				/* key IS NULL AND value; the value is a boolean */
	GJ_SOURCE_NULL_IN_ARRAY		/* key IS NULL AND the array has a NULL, or may have: see
								 * plan/conditions.c */
} GjSourceKind;

/* How a value of the source becomes a key */
typedef enum GjConversion
{
	GJ_CONVERT_PROC,			/* the operator class's support function */
	GJ_CONVERT_NUMERIC,			/* key::numeric is compared: integral values only */
	GJ_CONVERT_FLOAT8			/* key::float8 is compared: the integers that become it */
} GjConversion;

/* One step of the tree, in prefix order; AND and OR are followed by their operands */
typedef enum GjKeyStep
{
	GJ_STEP_SOURCE,				/* the next source */
	GJ_STEP_AND,				/* then, as the next integer, how many operands */
	GJ_STEP_OR
} GjKeyStep;

/*
 * A key plan is a list indexed by these.  The values of the sources stand elsewhere,
 * where the planner adjusts expressions, in the same order.
 */
typedef enum GjKeyPlanPart
{
	GJ_KEY_PLAN_STEPS,			/* int list: the tree */
	GJ_KEY_PLAN_KINDS,			/* int list, one a source: GjSourceKind */
	GJ_KEY_PLAN_CONVERSIONS,	/* int list, one a source: GjConversion */
	GJ_KEY_PLAN_PROCS,			/* Oid list, one a source: key extraction, or invalid */
	GJ_KEY_PLAN_OPERATORS,		/* Oid list, one a source: for EXPLAIN, or invalid */
	GJ_KEY_PLAN_CASTS,			/* Oid list, one a source: the key's cast, or invalid */
	GJ_KEY_PLAN_COUNT
} GjKeyPlanPart;

#endif							/* GPUJOIN_NODE_KEYPLAN_H */
