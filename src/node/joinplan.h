/*-------------------------------------------------------------------------
 *
 * joinplan.h
 *	  What the parts of GpuJoin agree on: what a path is made of, what a plan
 *	  carries to the executor, what that reports to EXPLAIN.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODE_JOINPLAN_H
#define GPUJOIN_NODE_JOINPLAN_H

#include "tableplan.h"

/* Names of the nodes: find the executor's methods */
#define GJ_JOIN_NAME			"GpuJoin"
#define GJ_JOIN_SCAN_NAME		"GpuJoinScan"

/*
 * What is returned.  "Right" as in EXPLAIN of a hash join: the side that was
 * collected, here the small one, is the one whose rows are kept.
 */
typedef enum GjJoinKind
{
	GJ_JOIN_INNER,				/* each pair that matches */
	GJ_JOIN_SEMI,				/* each big row that has a match, once */
	GJ_JOIN_RIGHT_SEMI,			/* each small row that has a match, once */
	GJ_JOIN_RIGHT,				/* each pair, and each small row without a match */
	GJ_JOIN_RIGHT_ANTI			/* each small row without a match */
} GjJoinKind;

/* Are small rows returned that have no match, those with a NULL key included? */
#define GjJoinKeepsUnmatched(kind) \
	((kind) == GJ_JOIN_RIGHT || (kind) == GJ_JOIN_RIGHT_ANTI)

/* Must it be known which small rows have had a match? */
#define GjJoinMarksSmall(kind) \
	((kind) == GJ_JOIN_RIGHT_SEMI || GjJoinKeepsUnmatched(kind))

/* custom_private of a plan: a list indexed by these */
typedef enum GjJoinPrivate
{
	GJ_JOIN_KIND,				/* Integer: GjJoinKind */
	GJ_JOIN_BIG_COLUMNS,		/* Integer: how many columns of custom_scan_tlist, from
								 * the first on, are of the big side; at least one */
	GJ_JOIN_VALUE_PROC,			/* Oid list of one: key extraction of the small side */
	GJ_JOIN_PARTITIONS,			/* where keys tell the partition of the first level: for each
								 * table an Oid list as GJ_SCAN_PARTITIONS */
	GJ_JOIN_PRIVATE_COUNT
} GjJoinPrivate;

/* custom_exprs of a plan: a list indexed by these */
typedef enum GjJoinExprs
{
	GJ_JOIN_KEY_QUALS,			/* list of one: the clause that the indexes answer */
	GJ_JOIN_VALUE_EXPR,			/* its side of the small side */
	GJ_JOIN_QUALS,				/* list: decide whether a pair matches */
	GJ_JOIN_OTHER_QUALS,		/* list: decide which result rows, also those without a
								 * match, are returned */
	GJ_JOIN_EXPRS_COUNT
} GjJoinExprs;

/*
 * custom_plans of a plan: the small side's plan, then one GpuJoinScan for each
 * table of the big side.  That has the table's filters as its qual and the joined
 * row's big columns, in their order, as its target list; node/tableplan.h has the rest.
 */

#endif							/* GPUJOIN_NODE_JOINPLAN_H */
