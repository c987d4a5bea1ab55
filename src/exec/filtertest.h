/*-------------------------------------------------------------------------
 *
 * filtertest.h
 *	  A test of one column against something that is the same for each entry.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_FILTERTEST_H
#define GPUJOIN_EXEC_FILTERTEST_H

#include <math.h>

#include "catalog/pg_type_d.h"

#include "node/filterplan.h"
#include "sets/sets.h"

/* The result of a test for one entry: a bit for TRUE, one for FALSE */
#define GJ_RESULT_NULL			0
#define GJ_RESULT_TRUE			1
#define GJ_RESULT_FALSE			2

typedef enum GjTestKind
{
	GJ_TEST_CONSTANT,			/* the same for each entry: yes */
	GJ_TEST_SAME,				/* the same for each entry whose column is not NULL: yes */
	GJ_TEST_RANGE,				/* low <= column <= high */
	GJ_TEST_LESS,				/* column < number */
	GJ_TEST_LESS_EQUAL,			/* column <= number */
	GJ_TEST_EQUAL,				/* column = number */
	GJ_TEST_NAN,				/* column is not a number */
	GJ_TEST_LISTED				/* column is in the set */
} GjTestKind;

typedef struct GjColumnTest
{
	GjTestKind	kind;
	Oid			type;			/* as which the column is compared */
	uint8		yes;			/* the result where it holds, */
	uint8		no;				/* and where not */
	int64		low;
	int64		high;
	double		number;
	GjKeySet   *set;			/* for floating-point numbers, of their bits */
} GjColumnTest;

/*
 * Is it compared in double precision?
 */
static inline bool
GjIsFloat(Oid type)
{
	return type == FLOAT4OID || type == FLOAT8OID;
}

/*
 * A number's bits, with equal ones for equal numbers
 */
static inline int64
GjFloatKey(double value)
{
	union
	{
		double		number;
		int64		bits;
	}			both;

	both.number = isnan(value) ? NAN : value == 0.0 ? 0.0 : value;
	return both.bits;
}

#endif							/* GPUJOIN_EXEC_FILTERTEST_H */
