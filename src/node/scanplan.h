/*-------------------------------------------------------------------------
 *
 * scanplan.h
 *	  GpuScan: the interface between its planner and executor parts.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODE_SCANPLAN_H
#define GPUJOIN_NODE_SCANPLAN_H

#include "tableplan.h"

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
	GJ_SCAN_PRIVATE_COUNT
} GjScanPrivate;

/* Indexes into the custom_exprs list of a GpuScan plan, after those of GjTableExprs */
typedef enum GjScanExprs
{
	GJ_SCAN_VALUES = GJ_TABLE_EXPRS_COUNT,	/* list: the values of the key plan's sources */
	GJ_SCAN_PARTS,				/* list of Vars: the columns of tuples but the key */
	GJ_SCAN_SORT_COLUMNS,		/* list of Vars: GJ_SCAN_ORDER, for EXPLAIN */
	GJ_SCAN_EXPRS_COUNT
} GjScanExprs;

/*
 * Fraction of the memory for a batch of ordered rows; the rest is for the rows to select from
 */
#define GJ_ORDER_MEMORY_PART	4

/* Indexes into the int list of a sort column */
typedef enum GjScanOrder
{
	GJ_ORDER_ATTNO,				/* of the table; the index contains it */
	GJ_ORDER_DESCENDING,
	GJ_ORDER_NULLS_FIRST,
	GJ_ORDER_COUNT
} GjScanOrder;

#endif							/* GPUJOIN_NODE_SCANPLAN_H */
