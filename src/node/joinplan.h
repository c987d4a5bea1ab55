/*-------------------------------------------------------------------------
 *
 * joinplan.h
 *	  The interface between the parts of GpuJoin: the contents of a path, of a plan for the
 *	  executor, and of the data for EXPLAIN.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODE_JOINPLAN_H
#define GPUJOIN_NODE_JOINPLAN_H

#include "scanplan.h"

/* Names of the nodes, by which the executor finds their methods */
#define GJ_JOIN_NAME			"GpuJoin"
#define GJ_JOIN_SCAN_NAME		"GpuJoinScan"

/*
 * Which rows are returned.  "Right" as in EXPLAIN of a hash join: the side that was collected,
 * here the small one, is the one whose rows are kept.
 */
typedef enum GjJoinKind
{
	GJ_JOIN_INNER,				/* each pair that matches */
	GJ_JOIN_SEMI,				/* each big row that has a match, once */
	GJ_JOIN_RIGHT_SEMI,			/* each small row that has a match, once */
	GJ_JOIN_RIGHT,				/* each pair, and each small row without a match */
	GJ_JOIN_RIGHT_ANTI			/* each small row without a match */
} GjJoinKind;

/* Return true if small rows without a match are returned, those with a NULL key included. */
#define GjJoinKeepsUnmatched(kind) \
	((kind) == GJ_JOIN_RIGHT || (kind) == GJ_JOIN_RIGHT_ANTI)

/* Return true if we must track which small rows have had a match. */
#define GjJoinMarksSmall(kind) \
	((kind) == GJ_JOIN_RIGHT_SEMI || GjJoinKeepsUnmatched(kind))

/* Indexes into the custom_private list of a plan */
typedef enum GjJoinPrivate
{
	GJ_JOIN_KIND,				/* Integer: GjJoinKind */
	GJ_JOIN_BIG_COLUMNS,		/* Integer: number of columns of custom_scan_tlist, from the
								 * first on, that belong to the big side; at least one */
	GJ_JOIN_CODEC,				/* Oid list: operator family, type of the small side's values or
								 * what they are converted to, the index's collation, the support
								 * function of rests, or invalid if the index has none */
	GJ_JOIN_CONVERSION,			/* Integer: GjConversion of the small side's values */
	GJ_JOIN_PARTITIONS,			/* where keys determine the partition of the first level: for
								 * each table an Oid list like GJ_SCAN_PARTITIONS */
	GJ_JOIN_PART_OPERATORS,		/* Oid list: equality of each part, with the big side on the left */
	GJ_JOIN_PART_COLLATIONS,	/* Oid list */
	GJ_JOIN_PART_COLUMNS,		/* int list: the part in the small plan's output, from 0 */
	GJ_JOIN_PRIVATE_COUNT
} GjJoinPrivate;

/* Indexes into the custom_exprs list of a plan */
typedef enum GjJoinExprs
{
	GJ_JOIN_KEY_QUALS,			/* list: the clause that the indexes answer, then further
								 * equalities, whose sides are parts of the key */
	GJ_JOIN_VALUE_EXPR,			/* the small side's operand of that clause: one of its columns,
								 * perhaps relabeled */
	GJ_JOIN_QUALS,				/* list: conditions for a pair to match */
	GJ_JOIN_OTHER_QUALS,		/* list: conditions for a result row, even one without a match,
								 * to be returned */
	GJ_JOIN_EXPRS_COUNT
} GjJoinExprs;

/* Index into the custom_exprs list of a GpuJoinScan plan, after those of GjTableExprs */
typedef enum GjJoinScanExprs
{
	GJ_JOIN_SCAN_PARTS = GJ_TABLE_EXPRS_COUNT,	/* list of Vars: the parts of the key */
	GJ_JOIN_SCAN_EXPRS_COUNT
} GjJoinScanExprs;

/*
 * custom_plans of a plan: the small side's plan, then one GpuJoinScan for each table of the big
 * side.  The latter has the table's filters as its qual and the joined row's big columns, in
 * their order, as its target list; see node/scanplan.h for the rest.
 */

#endif							/* GPUJOIN_NODE_JOINPLAN_H */
