/*-------------------------------------------------------------------------
 *
 * columntest.h
 *	  Tests of one column of entries: comparisons with a value or a list.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ROWS_COLUMNTEST_H
#define GPUJOIN_ROWS_COLUMNTEST_H

#include "node/scanplan.h"
#include "rows.h"

/* Result of a test for one entry: a bit for TRUE and one for FALSE */
#define GJ_RESULT_NULL			0
#define GJ_RESULT_TRUE			1
#define GJ_RESULT_FALSE			2

typedef enum GjTestKind
{
	GJ_TEST_CONSTANT,			/* the result is yes for each entry */
	GJ_TEST_SAME,				/* the result is yes for each entry whose column is not NULL */
	GJ_TEST_RANGE,				/* low <= column <= high */
	GJ_TEST_LESS,				/* column < number */
	GJ_TEST_LESS_EQUAL,			/* column <= number */
	GJ_TEST_EQUAL,				/* column = number */
	GJ_TEST_NAN,				/* column is not a number */
	GJ_TEST_LISTED,				/* column is in the set */
	GJ_TEST_PAIR,				/* column = low, and its second word = high */
	GJ_TEST_PAIRS				/* column and its second word are in the table */
} GjTestKind;

typedef struct GjColumnTest
{
	GjTestKind	kind;
	Oid			type;			/* type as which the column is compared */
	uint8		yes;			/* result if the test holds */
	uint8		no;				/* result if it does not hold */
	int64		low;
	int64		high;
	double		number;
	uint8		stored_scale;	/* of a numeric column, whose values are words */
	int64		ignored;		/* bits of second words that are not compared */
	GjKeySet   *set;			/* elements; GjFloatKey() of floating-point numbers */
	GjExact    *pairs;			/* elements of two words: a code and a part */
} GjColumnTest;

extern void GjTestRun(const GjColumnTest *test, const GjBatchColumn *column,
					  const GjBatchColumn *second, int n, uint8 *pg_restrict results);
extern bool GjTestForDevice(gjd_filter *filter, int column, int second,
							const GjColumnTest *test, uint8 wanted);
extern bool GjTestNullForDevice(gjd_filter *filter, int column, bool isnull);
extern void GjTestCompare(GjColumnTest *test, Oid type, GjFilterOperator operator,
						  Oid value_type, Datum value, bool isnull);
extern void GjTestAny(GjColumnTest *test, MemoryContext context, Oid type, Oid element_type,
					  Datum array, bool isnull);
extern void GjTestConstant(GjColumnTest *test, Datum value, bool isnull);

#endif							/* GPUJOIN_ROWS_COLUMNTEST_H */
