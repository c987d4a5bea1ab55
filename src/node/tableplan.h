/*-------------------------------------------------------------------------
 *
 * tableplan.h
 *	  Common part of the plans of all nodes that scan a table by an index: the first items of
 *	  their private data and of their expressions.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODE_TABLEPLAN_H
#define GPUJOIN_NODE_TABLEPLAN_H

/* First indexes into custom_private */
typedef enum GjTablePrivate
{
	GJ_TABLE_INDEX_OID,			/* Oid list of one item */
	GJ_TABLE_KEY_ATTNO,			/* Integer: heap attribute that is the key, 0 for an expression */
	GJ_TABLE_INDEX_ONLY,		/* Boolean: may rows come from the index alone? */
	GJ_TABLE_ATTNOS,			/* int list: heap attributes that such rows contain */
	GJ_TABLE_FILTER_PLAN,		/* filters that entries are tested by: node/filterplan.h */
	GJ_TABLE_PRIVATE_COUNT
} GjTablePrivate;

/* First indexes into custom_exprs */
typedef enum GjTableExprs
{
	GJ_TABLE_KEY,				/* the key, as defined in the index */
	GJ_TABLE_PREDICATE,			/* list: predicate that is tested before the key is read */
	GJ_TABLE_FILTERS,			/* list: clauses that entries, and then rows of the table, are
								 * tested by; they are not among the plan's quals */
	GJ_TABLE_FILTER_VALUES,		/* list: the values of the filter plan */
	GJ_TABLE_EXPRS_COUNT
} GjTableExprs;

#endif							/* GPUJOIN_NODE_TABLEPLAN_H */
