/*-------------------------------------------------------------------------
 *
 * tableplan.h
 *	  What the plans of all nodes carry that scan a table by an index: the first items of
 *	  their private data and of their expressions.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODE_TABLEPLAN_H
#define GPUJOIN_NODE_TABLEPLAN_H

/* custom_private begins with these */
typedef enum GjTablePrivate
{
	GJ_TABLE_INDEX_OID,			/* Oid list of one */
	GJ_TABLE_KEY_ATTNO,			/* Integer: heap attribute that is the key, 0: expression */
	GJ_TABLE_INDEX_ONLY,		/* Boolean: may rows come from the index alone? */
	GJ_TABLE_ATTNOS,			/* int list: heap attributes they then have */
	GJ_TABLE_FILTER_PLAN,		/* the filters that entries are tested by: node/filterplan.h */
	GJ_TABLE_PRIVATE_COUNT
} GjTablePrivate;

/* custom_exprs begins with these */
typedef enum GjTableExprs
{
	GJ_TABLE_KEY,				/* the key, as the index has it */
	GJ_TABLE_PREDICATE,			/* list: GjKeyPredicate() */
	GJ_TABLE_FILTERS,			/* list: clauses that entries are tested by, and rows of the table
								 * again; they are not among the plan's quals */
	GJ_TABLE_FILTER_VALUES,		/* list: the values of the filter plan */
	GJ_TABLE_EXPRS_COUNT
} GjTableExprs;

#endif							/* GPUJOIN_NODE_TABLEPLAN_H */
