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

/* Name of the node: finds the executor's methods */
#define GJ_SCAN_NAME			"GpuScan"

/*
 * custom_private of a GpuScan plan: a list indexed by these.  Expressions are
 * never here (setrefs.c would not see them) but in custom_exprs.
 */
typedef enum GjScanPrivate
{
	GJ_SCAN_INDEX_OID,			/* Oid list of one */
	GJ_SCAN_KEY_PLAN,			/* the conditions on the key: node/keyplan.h */
	GJ_SCAN_KEY_ATTNO,			/* Integer: heap attribute that is the key, 0: expression */
	GJ_SCAN_INDEX_ONLY,			/* Boolean: may rows come from the index alone? */
	GJ_SCAN_ATTNOS,				/* int list: heap attributes they then have */
	GJ_SCAN_PARTITIONS,			/* Oid list: partitioned tables, from the top down, invalid if
								 * the key does not divide them, each followed by the
								 * partition that the table is or belongs to */
	GJ_SCAN_PRIVATE_COUNT
} GjScanPrivate;

/* custom_exprs of a GpuScan plan: a list indexed by these */
typedef enum GjScanExprs
{
	GJ_SCAN_VALUES,				/* list: the values of the key plan's sources */
	GJ_SCAN_KEY,				/* the key, as the index has it */
	GJ_SCAN_PREDICATE,			/* list: GjKeyPredicate() */
	GJ_SCAN_EXPRS_COUNT
} GjScanExprs;

#endif							/* GPUJOIN_NODE_SCANPLAN_H */
