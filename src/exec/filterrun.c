/*-------------------------------------------------------------------------
 *
 * filterrun.c
 *	  A test of one column against something that is the same for each entry: the loops.
 *
 * They have no branches, so that the compiler can take several values at a time.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "filtertest.h"

/* With so few elements each is compared with all values at a time */
#define FEW_ELEMENTS			8

static void run_range(const GjColumnTest *test, const GjBatchColumn *column, int n,
					  uint8 *pg_restrict results);
static void run_float(const GjColumnTest *test, const GjBatchColumn *column, int n,
					  uint8 *pg_restrict results);
static void run_listed(const GjColumnTest *test, const GjBatchColumn *column, int n,
					   uint8 *pg_restrict results);
static void run_few(const GjColumnTest *test, const GjBatchColumn *column, int n,
					uint8 *pg_restrict results);
static int64 get_key(Oid type, const GjBatchColumn *column, int i);

/*
 * Test n values of a column, which a constant does not need
 */
void
GjTestRun(const GjColumnTest *test, const GjBatchColumn *column, int n,
		  uint8 *pg_restrict results)
{
	switch (test->kind)
	{
		case GJ_TEST_CONSTANT:
			memset(results, test->yes, n);
			return;
		case GJ_TEST_SAME:
			memset(results, test->yes, n);
			break;
		case GJ_TEST_RANGE:
			run_range(test, column, n, results);
			break;
		case GJ_TEST_LESS:
		case GJ_TEST_LESS_EQUAL:
		case GJ_TEST_EQUAL:
		case GJ_TEST_NAN:
			run_float(test, column, n, results);
			break;
		case GJ_TEST_LISTED:
			run_listed(test, column, n, results);
			break;
	}
	if (column->nulls != NULL)
	{
		for (int i = 0; i < n; i++)
			results[i] &= column->nulls[i] == 0 ? 0xFF : GJ_RESULT_NULL;
	}
}

/*
 * One comparison of unsigned integers: what lies below low wraps round to above high.  It
 * does so for signed integers as well.
 */
#define RUN_RANGE(type) \
	do { \
		const type *values = (const type *) column->values; \
		const type	low = (type) test->low; \
		const type	span = (type) ((uint64) test->high - (uint64) test->low); \
		for (int i = 0; i < n; i++) \
			results[i] = no ^ ((type) (values[i] - low) <= span ? change : 0); \
	} while (0)

static void
run_range(const GjColumnTest *test, const GjBatchColumn *column, int n,
		  uint8 *pg_restrict results)
{
	const uint8 no = test->no;
	const uint8 change = test->yes ^ test->no;

	switch (column->width)
	{
		case 1:
			RUN_RANGE(uint8);
			break;
		case 2:
			RUN_RANGE(uint16);
			break;
		case 4:
			RUN_RANGE(uint32);
			break;
		default:
			RUN_RANGE(uint64);
			break;
	}
}

#define RUN_FLOAT_LOOP(type, condition) \
	do { \
		for (int i = 0; i < n; i++) \
		{ \
			double		value = ((const type *) column->values)[i]; \
			results[i] = no ^ ((condition) ? change : 0); \
		} \
	} while (0)

#define RUN_FLOAT(condition) \
	do { \
		if (column->width == sizeof(float4)) \
			RUN_FLOAT_LOOP(float4, condition); \
		else \
			RUN_FLOAT_LOOP(float8, condition); \
	} while (0)

static void
run_float(const GjColumnTest *test, const GjBatchColumn *column, int n,
		  uint8 *pg_restrict results)
{
	const uint8 no = test->no;
	const uint8 change = test->yes ^ test->no;
	const double number = test->number;

	if (test->kind == GJ_TEST_LESS)
		RUN_FLOAT(value < number);
	else if (test->kind == GJ_TEST_LESS_EQUAL)
		RUN_FLOAT(value <= number);
	else if (test->kind == GJ_TEST_EQUAL)
		RUN_FLOAT(value == number);
	else
		RUN_FLOAT(value != value);
}

static void
run_listed(const GjColumnTest *test, const GjBatchColumn *column, int n,
		   uint8 *pg_restrict results)
{
	if (test->set->nkeys <= FEW_ELEMENTS && !GjIsFloat(test->type))
	{
		run_few(test, column, n, results);
		return;
	}
	for (int i = 0; i < n; i++)
		results[i] = GjKeySetLists(test->set, get_key(test->type, column, i)) ? test->yes
			: test->no;
}

#define RUN_FEW(type) \
	do { \
		const type	key = (type) test->set->keys[k]; \
		for (int i = 0; i < n; i++) \
			results[i] |= ((const type *) column->values)[i] == key; \
	} while (0)

/*
 * The elements are values that the column can have, and so as wide as that
 */
static void
run_few(const GjColumnTest *test, const GjBatchColumn *column, int n,
		uint8 *pg_restrict results)
{
	const uint8 no = test->no;
	const uint8 change = test->yes ^ test->no;

	memset(results, 0, n);
	for (uint64 k = 0; k < test->set->nkeys; k++)
	{
		switch (column->width)
		{
			case 1:
				RUN_FEW(uint8);
				break;
			case 2:
				RUN_FEW(uint16);
				break;
			case 4:
				RUN_FEW(uint32);
				break;
			default:
				RUN_FEW(uint64);
				break;
		}
	}
	for (int i = 0; i < n; i++)
		results[i] = no ^ (results[i] != 0 ? change : 0);
}

/*
 * A value as it would be in a set
 */
static int64
get_key(Oid type, const GjBatchColumn *column, int i)
{
	switch (type)
	{
		case FLOAT4OID:
			return GjFloatKey(((const float4 *) column->values)[i]);
		case FLOAT8OID:
			return GjFloatKey(((const float8 *) column->values)[i]);
		case OIDOID:
			return ((const uint32 *) column->values)[i];
		default:
			break;
	}
	switch (column->width)
	{
		case 1:
			return ((const uint8 *) column->values)[i];
		case 2:
			return ((const int16 *) column->values)[i];
		case 4:
			return ((const int32 *) column->values)[i];
		default:
			return ((const int64 *) column->values)[i];
	}
}
