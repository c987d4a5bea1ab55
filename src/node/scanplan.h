/*-------------------------------------------------------------------------
 *
 * scanplan.h
 *	  Nodes that scan a table by an index: the interface between their planner and executor parts.
 *
 * The first part is common to the plans of GpuScan and of the scans of a GpuJoin.  Then come the
 * filters of their entries, and what only a GpuScan has.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODE_SCANPLAN_H
#define GPUJOIN_NODE_SCANPLAN_H

#include "keyplan.h"

/* First indexes into custom_private */
typedef enum GjTablePrivate
{
	GJ_TABLE_INDEX_OID,			/* Oid list of one item */
	GJ_TABLE_KEY_ATTNO,			/* Integer: heap attribute that is the key, 0 for an expression */
	GJ_TABLE_INDEX_ONLY,		/* Boolean: may rows come from the index alone? */
	GJ_TABLE_ATTNOS,			/* int list: heap attributes that such rows contain */
	GJ_TABLE_FILTER_PLAN,		/* filters that entries are tested by: GjFilterPlanPart */
	GJ_TABLE_PRIVATE_COUNT
} GjTablePrivate;

/* First indexes into custom_exprs */
typedef enum GjTableExprs
{
	GJ_TABLE_KEY,				/* the key, as defined in the index */
	GJ_TABLE_PREDICATE,			/* list: predicate that is tested before the key is read */
	GJ_TABLE_FILTERS,			/* list: clauses that entries, and then rows of the table, are
								 * tested by; they are not among the plan's quals */
	GJ_TABLE_EXPRS_COUNT
} GjTableExprs;

/*
 * Comparisons of a column with a value, in a filter of index entries: clauses that can be evaluated
 * on the columns of an entry.  The values do not depend on the row.
 */
typedef enum GjFilterOperator
{
	GJ_FILTER_LT,
	GJ_FILTER_LE,
	GJ_FILTER_EQ,
	GJ_FILTER_GE,
	GJ_FILTER_GT,
	GJ_FILTER_NE
} GjFilterOperator;

/*
 * Indexes into a filter plan, which is NIL if nothing can be filtered
 */
typedef enum GjFilterPlanPart
{
	GJ_FILTER_PLAN_STEPS,		/* int list: steps of the clauses of GJ_TABLE_FILTERS */
	GJ_FILTER_PLAN_PARTS,		/* int list: the columns that with the key must form a tuple of the
								 * scan's set, in the order of the tuple; or NIL */
	GJ_FILTER_PLAN_COUNT
} GjFilterPlanPart;

/* Name of the node, by which the executor finds its methods */
#define GJ_SCAN_NAME			"GpuScan"

/*
 * Indexes into the custom_private list of a GpuScan plan, after those of GjTablePrivate.
 * Expressions must be in custom_exprs, because setrefs.c does not adjust them here.
 */
typedef enum GjScanPrivate
{
	GJ_SCAN_KEY_PLAN = GJ_TABLE_PRIVATE_COUNT,	/* the conditions on the key: node/keyplan.h */
	GJ_SCAN_PARTITIONS,			/* Oid list: partitioned tables, from the top down, invalid if
								 * the key does not partition them, each followed by the
								 * partition that the table is or belongs to */
	GJ_SCAN_ORDER,				/* list of int lists, one for each sort column of ordered rows:
								 * GjScanOrder */
	GJ_SCAN_BOUND,				/* Integer: number of ordered rows expected to be fetched */
	GJ_SCAN_EXCESS,				/* Integer: millionths of the cost that are for more elements of an
								 * array than PostgreSQL assumes (plan/generic.c) */
	GJ_SCAN_PRIVATE_COUNT
} GjScanPrivate;

/* Indexes into the custom_exprs list of a GpuScan plan, after those of GjTableExprs */
typedef enum GjScanExprs
{
	GJ_SCAN_CONDITION = GJ_TABLE_EXPRS_COUNT,	/* of the key plan, with the key on the left */
	GJ_SCAN_PARTS,				/* list of Vars: the columns of tuples but the key */
	GJ_SCAN_SORT_COLUMNS,		/* list of Vars: GJ_SCAN_ORDER, for EXPLAIN */
	GJ_SCAN_EXPRS_COUNT
} GjScanExprs;

/*
 * Fraction of the memory for a batch of ordered rows; the rest is for the rows to select from
 */
#define GJ_ORDER_MEMORY_PART	4

/*
 * Number of entries in the first slice of the keys, for each row that is expected to be fetched, if
 * rows are ordered by the key
 */
#define GJ_SLICE_SPARE			2

/* Indexes into the int list of a sort column */
typedef enum GjScanOrder
{
	GJ_ORDER_COLUMN,			/* of the index, from 0, as a key's column may be in INCLUDE, too */
	GJ_ORDER_DESCENDING,
	GJ_ORDER_NULLS_FIRST,
	GJ_ORDER_COUNT
} GjScanOrder;

/*
 * Return an expression below casts that change nothing
 */
static inline void *
GjStripRelabel(void *expr)
{
	while (expr != NULL && IsA(expr, RelabelType))
		expr = ((RelabelType *) expr)->arg;
	return expr;
}

#endif							/* GPUJOIN_NODE_SCANPLAN_H */
