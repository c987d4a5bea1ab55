/*-------------------------------------------------------------------------
 *
 * scanplan.h
 *	  GpuScan: what its planner's side and its executor's side agree on.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODE_SCANPLAN_H
#define GPUJOIN_NODE_SCANPLAN_H

#include "tableplan.h"

/* Name of the node: finds the executor's methods */
#define GJ_SCAN_NAME			"GpuScan"

/*
 * custom_private of a GpuScan plan: a list indexed by GjTablePrivate and these.  Expressions are
 * never here (setrefs.c would not see them) but in custom_exprs.
 */
typedef enum GjScanPrivate
{
	GJ_SCAN_KEY_PLAN = GJ_TABLE_PRIVATE_COUNT,	/* the conditions on the key: node/keyplan.h */
	GJ_SCAN_PARTITIONS,			/* Oid list: partitioned tables, from the top down, invalid if
								 * the key does not divide them, each followed by the
								 * partition that the table is or belongs to */
	GJ_SCAN_ORDER,				/* list of int lists, one a sort column of rows that come in
								 * order: GjScanOrder */
	GJ_SCAN_BOUND,				/* Integer: so many of them are expected to be wanted */
	GJ_SCAN_PRIVATE_COUNT
} GjScanPrivate;

/* custom_exprs of a GpuScan plan: a list indexed by GjTableExprs and these */
typedef enum GjScanExprs
{
	GJ_SCAN_VALUES = GJ_TABLE_EXPRS_COUNT,	/* list: the values of the key plan's sources */
	GJ_SCAN_SORT_COLUMNS,		/* list of Vars: GJ_SCAN_ORDER, for EXPLAIN */
	GJ_SCAN_EXPRS_COUNT
} GjScanExprs;

/* A batch of rows in order may take this part of the memory; the rest is for what it is selected
 * from */
#define GJ_ORDER_MEMORY_PART	4

/* A sort column: a list indexed by these */
typedef enum GjScanOrder
{
	GJ_ORDER_ATTNO,				/* of the table; the index has it */
	GJ_ORDER_DESCENDING,
	GJ_ORDER_NULLS_FIRST,
	GJ_ORDER_COUNT
} GjScanOrder;

#endif							/* GPUJOIN_NODE_SCANPLAN_H */
