/*-------------------------------------------------------------------------
 *
 * aggplan.h
 *	  GpuAgg: the interface between its planner and executor parts.
 *
 * A GpuAgg has one child plan, whose rows it groups and aggregates.  They come in batches of
 * columns: first the needed columns of the child, then those computed from them by custom_exprs.
 * Its own row, described by custom_scan_tlist, has the grouping columns, then the aggregates,
 * then other columns, whose values are those of one row of the group, and last those that only
 * custom_exprs need.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_AGGPLAN_H
#define GPUJOIN_AGGPLAN_H

#define GJ_AGG_NAME				"GpuAgg"

/* Below Gather: aggregates are states that a node above combines, and groups may occur twice */
#define GJ_PARTIAL_AGG_NAME		"Partial GpuAgg"

/* Aggregates.  The results are PostgreSQL's own, in type, value, NULL and error. */
typedef enum GjAggKind
{
	GJ_AGG_COUNT_ROWS,			/* count(*) */
	GJ_AGG_COUNT,				/* count(c) */
	GJ_AGG_COUNT_DISTINCT,		/* count(DISTINCT c) */
	GJ_AGG_SUM,
	GJ_AGG_AVG,
	GJ_AGG_MIN,
	GJ_AGG_MAX,
	GJ_AGG_BOOL_AND,
	GJ_AGG_BOOL_OR,
	GJ_AGG_FORM,				/* not of the query: the form of a group's value, see
								 * GjColumnPart */
	GJ_AGG_ONE_ROW,				/* not of the query: the value of the group's first row; all
								 * columns of this kind have those of the same row */

	/* Aggregates of values of two words; c has the first ones, the column after it the second */
	GJ_AGG_COUNT_PAIRS,			/* count(DISTINCT c) */
	GJ_AGG_MIN_PAIR,
	GJ_AGG_MAX_PAIR
} GjAggKind;

/* Interpretation of the bits of a value; date is int4, timestamp[tz] is int8 */
typedef enum GjValueType
{
	GJ_VALUE_BOOL,
	GJ_VALUE_INT2,
	GJ_VALUE_INT4,
	GJ_VALUE_INT8,
	GJ_VALUE_OID,				/* unsigned four bytes */
	GJ_VALUE_FLOAT4,
	GJ_VALUE_FLOAT8,
	GJ_VALUE_NUMERIC			/* eight bytes, see base/numeric.c; only an argument */
} GjValueType;

/* A GjValueType in a plan, with the two scales of a numeric column */
#define GJ_TYPE_WITH_SCALES(type, display_scale, stored_scale) \
	((int) (type) | (display_scale) << 8 | (stored_scale) << 16)
#define GJ_TYPE_OF(item)			((GjValueType) ((item) & 0xFF))
#define GJ_DISPLAY_SCALE_OF(item)	((item) >> 8 & 0xFF)
#define GJ_STORED_SCALE_OF(item)	((item) >> 16 & 0xFF)

/* A part of a column of the child that is a column of the batch, in the same integer */
typedef enum GjColumnPart
{
	GJ_WHOLE,
	GJ_UUID_FIRST,				/* the words of a uuid: pages/wide.c */
	GJ_UUID_SECOND,
	GJ_TEXT_FIRST,				/* the words of a text */
	GJ_TEXT_SECOND,

	/* The words of a bpchar without trailing blanks, and its form: int4, its length in bytes */
	GJ_BPCHAR_FIRST,
	GJ_BPCHAR_SECOND,
	GJ_BPCHAR_FORM,

	/*
	 * A numeric that forms groups is a word that is the same for equal values, and its form: int4,
	 * its own display scale, or NULL if that is the column's
	 */
	GJ_NUMERIC_KEY,
	GJ_NUMERIC_FORM
} GjColumnPart;

#define GJ_TYPE_OF_PART(type, part)	((int) (type) | (part) << 24)
#define GJ_PART_OF(item)			((GjColumnPart) ((item) >> 24 & 0xF))

/* Indexes into the custom_private list of a plan */
typedef enum GjAggPrivate
{
	GJ_AGG_COLUMNS,				/* int list: attributes of the child that a batch contains */
	GJ_AGG_TYPES,				/* int list: GjValueType of each of them, with scales, and of each
								 * computed column */
	GJ_AGG_GROUPINGS,			/* int list: columns of the batch by which rows are grouped; two if
								 * they have the words of a uuid or text */
	GJ_AGG_AGGREGATES,			/* int list, for each aggregate: kind, column and filter (columns
								 * of the batch, or -1); before them the forms of groupings, in
								 * their order; after them the columns of one row, uuids twice */
	GJ_AGG_CONDITIONS,			/* int list: for each computed column, an earlier column that
								 * must be true for it to be computed, or -1 */
	GJ_AGG_INPUTS,				/* int list: for each column of the node's own row, the column of
								 * the batch, or -1 */
	GJ_AGG_COLUMNS_MADE,		/* Integer: number of these columns, but those for custom_exprs */
	GJ_AGG_EXPECTED,			/* Integer: number of groups that the planner expects */
	GJ_AGG_CODED,				/* int list: columns of the node's own row, from 0, whose values
								 * a batch encodes as numbers (agg/reader.c) */
	GJ_AGG_PRIVATE_COUNT
} GjAggPrivate;

#endif							/* GPUJOIN_AGGPLAN_H */
