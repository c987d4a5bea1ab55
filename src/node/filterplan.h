/*-------------------------------------------------------------------------
 *
 * filterplan.h
 *	  A filter of index entries, as the planner hands it to the executor: clauses that can be
 *	  evaluated on the columns of an entry.
 *
 * The steps are a tree in prefix order.  Columns are those of the index, from 0: the key, then
 * the INCLUDE columns.  The values that columns are compared with do not depend on the row; they
 * are stored elsewhere, where the planner adjusts expressions, in the order of the steps that
 * take one.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODE_FILTERPLAN_H
#define GPUJOIN_NODE_FILTERPLAN_H

#include "nodes/pg_list.h"

/* One step; its operands follow it in the list of steps */
typedef enum GjFilterStep
{
	GJ_FILTER_AND,				/* number of operands; the operands */
	GJ_FILTER_OR,				/* the same */
	GJ_FILTER_NOT,				/* the operand */
	GJ_FILTER_TRUTH,			/* BoolTestType applied to the operand; the operand */
	GJ_FILTER_COMPARE,			/* column, its type, type of the value, GjFilterOperator; takes a
								 * value */
	GJ_FILTER_ANY,				/* column, its type, type of the elements: is it equal to any of
								 * them?  Takes an array */
	GJ_FILTER_NULL,				/* column: is it NULL? */
	GJ_FILTER_COLUMN,			/* column, a boolean: its value */
	GJ_FILTER_VALUE				/* takes a boolean */
} GjFilterStep;

/* Comparisons of a column with a value */
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
 * Indexes into a filter plan, which is NIL if nothing can be filtered.  The operands of the AND
 * at the top are the clauses of GJ_TABLE_FILTERS, in that order.
 */
typedef enum GjFilterPlanPart
{
	GJ_FILTER_PLAN_STEPS,		/* int list: the tree, AND at the top; or NIL */
	GJ_FILTER_PLAN_PARTS,		/* int list: the columns that with the key must form a tuple of the
								 * scan's set, in the order of the tuple; or NIL */
	GJ_FILTER_PLAN_COUNT
} GjFilterPlanPart;

#endif							/* GPUJOIN_NODE_FILTERPLAN_H */
