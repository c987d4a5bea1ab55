/*-------------------------------------------------------------------------
 *
 * filterplan.h
 *	  A filter of index entries as the planner hands it to the executor: clauses that can be
 *	  decided by what an entry has.
 *
 * The steps are a tree in prefix order.  Columns are those of the index, from 0: the key, then
 * the INCLUDE columns.  What a column is compared with is the same for each row; it stands
 * elsewhere, where the planner adjusts expressions, in the order of the steps that take one.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODE_FILTERPLAN_H
#define GPUJOIN_NODE_FILTERPLAN_H

#include "nodes/pg_list.h"

/* One step; what follows it in the list of steps stands behind it */
typedef enum GjFilterStep
{
	GJ_FILTER_AND,				/* how many operands; these */
	GJ_FILTER_OR,				/* the same */
	GJ_FILTER_NOT,				/* the operand */
	GJ_FILTER_TRUTH,			/* BoolTestType that the operand is put to; the operand */
	GJ_FILTER_COMPARE,			/* column, its type, type of the value, GjFilterOperator; takes a
								 * value */
	GJ_FILTER_ANY,				/* column, its type, type of the elements: is it equal to any?
								 * Takes an array */
	GJ_FILTER_NULL,				/* column: is it NULL? */
	GJ_FILTER_COLUMN,			/* column, a boolean, itself */
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
 * A filter plan is a list indexed by these, or NIL: nothing can be filtered.  The operands of the
 * AND at the top are the clauses of GJ_TABLE_FILTERS, in that order.
 */
typedef enum GjFilterPlanPart
{
	GJ_FILTER_PLAN_STEPS,		/* int list: the tree, AND at the top */
	GJ_FILTER_PLAN_COUNT
} GjFilterPlanPart;

#endif							/* GPUJOIN_NODE_FILTERPLAN_H */
