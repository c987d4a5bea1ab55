/*-------------------------------------------------------------------------
 *
 * keyplan.h
 *	  A condition on the key, as the planner hands it to the executor: sources of keys, and
 *	  how their sets are combined.
 *
 * A source is one comparison of the key with a value that does not depend on the row.  It yields
 * the set of keys for which the comparison is true.  A tree of AND and OR combines the sets: as
 * in WHERE, a NULL result counts as false, so AND is the intersection and OR the union.
 *
 * Sources of tuples restrict further columns, too.  The only step that combines them with other
 * sources is AND, with sources that are no tuples; all of them have the same columns.
 *
 * A set is a list of keys, or intervals, and records separately whether rows with a NULL key are
 * wanted (sets/keyset.h).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODE_KEYPLAN_H
#define GPUJOIN_NODE_KEYPLAN_H

#include "nodes/pg_list.h"
#include "nodes/primnodes.h"

/* Comparison made by a source */
typedef enum GjSourceKind
{
	GJ_SOURCE_VALUE,			/* key = value */
	GJ_SOURCE_ARRAY,			/* key = ANY (array) */
	GJ_SOURCE_NOT_VALUE,		/* key <> value */
	GJ_SOURCE_NOT_ARRAY,		/* key <> ALL (array) */
	GJ_SOURCE_NULL,				/* key IS NULL AND value; the value is a boolean */
	GJ_SOURCE_NULL_IN_ARRAY,	/* key IS NULL AND the array has a NULL, or may have: the array is
								 * the second operand (plan/conditions.c) */
	GJ_SOURCE_TUPLES,			/* ROW(key, column, ...) = ANY (unnest(array, ...)): one of the
								 * tuples that equal positions of the arrays form */
	GJ_SOURCE_PRODUCT,			/* key = ANY (array) AND column = ANY (array) ... */
	GJ_SOURCE_BELOW,			/* key < value */
	GJ_SOURCE_AT_MOST,			/* key <= value */
	GJ_SOURCE_AT_LEAST,			/* key >= value */
	GJ_SOURCE_ABOVE,			/* key > value */
	GJ_SOURCE_NOT_NULL			/* key IS NOT NULL: all keys, whatever the value is */
} GjSourceKind;

/* Return true for a comparison that a range of keys satisfies */
static inline bool
GjSourceIsRange(GjSourceKind kind)
{
	return kind >= GJ_SOURCE_BELOW && kind <= GJ_SOURCE_ABOVE;
}

/* How a value of the source is converted to a key */
typedef enum GjConversion
{
	GJ_CONVERT_CODEC,			/* the codec of the index's operator class */
	GJ_CONVERT_NUMERIC,			/* key::numeric is compared: integral values only */
	GJ_CONVERT_FLOAT8,			/* key::float8 is compared: all integers that convert to it */
	GJ_CONVERT_TEXT_INTEGER,	/* key::text is compared: the integer with this text */
	GJ_CONVERT_TEXT_UUID,		/* key::text is compared: the uuid with this text */
	GJ_CONVERT_TEXT_BPCHAR		/* key::text is compared: the char(n) with this text */
} GjConversion;

/*
 * A step of a condition on the key, or of a filter of entries (node/scanplan.h)
 *
 * The condition itself is an expression of PostgreSQL's, among those that the planner adjusts.
 * Each step says what one of its subexpressions means to us, in prefix order; integers may follow.
 * Columns are those of the index, from 0: the key, then the INCLUDE columns.
 */
typedef enum GjStep
{
	GJ_STEP_AND,
	GJ_STEP_OR,
	GJ_STEP_SOURCE,				/* GjSourceKind, GjConversion, type of the value or of the array's
								 * elements, operator; either may be invalid */
	GJ_STEP_NOT,				/* of the operand; or of the next step, for the same expression */
	GJ_STEP_TRUTH,				/* a BooleanTest */
	GJ_STEP_COMPARE,			/* column, its type, type of the value, which operand the value is,
								 * GjFilterOperator */
	GJ_STEP_ANY,				/* the same: is the column equal to any of the array? */
	GJ_STEP_NULL,				/* column: is it NULL? */
	GJ_STEP_COLUMN,				/* column, a boolean: its value */
	GJ_STEP_VALUE				/* the expression, a boolean, is a value */
} GjStep;

/* State of reading steps */
typedef struct GjStepReader
{
	List	   *steps;			/* int list */
	int			next;
} GjStepReader;

static inline int
GjNextStep(GjStepReader *reader)
{
	return list_nth_int(reader->steps, reader->next++);
}

/*
 * Return the operands of an expression; NIL for a test for NULL, which has no value
 */
static inline List *
GjOperandsOf(Expr *expr)
{
	switch (nodeTag(expr))
	{
		case T_OpExpr:
			return ((OpExpr *) expr)->args;
		case T_ScalarArrayOpExpr:
			return ((ScalarArrayOpExpr *) expr)->args;
		case T_BoolExpr:
			return ((BoolExpr *) expr)->args;
		default:
			return NIL;
	}
}

/*
 * Indexes into a key plan, which is a list
 */
typedef enum GjKeyPlanPart
{
	GJ_KEY_PLAN_STEPS,			/* int list */
	GJ_KEY_PLAN_CODEC,			/* Oid list: the index's operator family, its collation, the
								 * support function of rests, or invalid if the index has none */
	GJ_KEY_PLAN_PART_OPERATORS, /* Oid list, for each column of tuples but the key, and also for
								 * the key if its codes are hashes: the equality operator, with
								 * the column on the left; NIL without tuples */
	GJ_KEY_PLAN_PART_COLLATIONS,	/* Oid list: their collations, or invalid */
	GJ_KEY_PLAN_COUNT
} GjKeyPlanPart;

#endif							/* GPUJOIN_NODE_KEYPLAN_H */
