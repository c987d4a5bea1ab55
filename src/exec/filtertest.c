/*-------------------------------------------------------------------------
 *
 * filtertest.c
 *	  A test of one column against something that is the same for each entry.
 *
 * A comparison of integers, dates and the like becomes a range that a value is in or is not.
 * One of floating-point numbers is made in double precision, into which both types go without
 * loss; NaN equals itself and is greater than all others, as everywhere in PostgreSQL.  The
 * elements of an array become a set of keys.
 *
 * The loops have no branches, so that the compiler can take several values at a time.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/tupmacs.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

#include "exec/filtertest.h"

/* With so few elements each is compared with all values at a time */
#define FEW_ELEMENTS			8

/* Elements between two looks for an interrupt */
#define INTERRUPT_INTERVAL		65536

static bool is_float(Oid type);
static void compare_integer(GjColumnTest *test, GjFilterOperator operator, int64 value);
static void compare_float(GjColumnTest *test, GjFilterOperator operator, double value);
static void get_limits(Oid type, int64 *min, int64 *max);
static int64 read_integer(Oid type, Datum value);
static double read_float(Oid type, Datum value);
static int64 float_key(double value);
static bool add_elements(GjColumnTest *test, Oid element_type, ArrayType *array);
static void add_element(GjColumnTest *test, Oid element_type, Datum value);
static void run_range(const GjColumnTest *test, const GjBatchColumn *column, int n,
					  uint8 *results);
static void run_float(const GjColumnTest *test, const GjBatchColumn *column, int n,
					  uint8 *results);
static void run_listed(const GjColumnTest *test, const GjBatchColumn *column, int n,
					   uint8 *results);
static void run_few(const GjColumnTest *test, const GjBatchColumn *column, int n,
					uint8 *results);
static int64 get_key(Oid type, const GjBatchColumn *column, int i);

static bool
is_float(Oid type)
{
	return type == FLOAT4OID || type == FLOAT8OID;
}

/*
 * column operator value
 */
void
GjTestCompare(GjColumnTest *test, Oid type, GjFilterOperator operator, Oid value_type,
			  Datum value, bool isnull)
{
	test->type = type;
	test->yes = GJ_RESULT_TRUE;
	test->no = GJ_RESULT_FALSE;
	if (isnull)
		GjTestConstant(test, value, true);
	else if (is_float(type))
		compare_float(test, operator, read_float(value_type, value));
	else
		compare_integer(test, operator, read_integer(value_type, value));
}

static inline void
negate(GjColumnTest *test)
{
	test->yes = GJ_RESULT_FALSE;
	test->no = GJ_RESULT_TRUE;
}

/*
 * The range of values of the column's type that satisfy it; the value may be out of that range
 */
static void
compare_integer(GjColumnTest *test, GjFilterOperator operator, int64 value)
{
	int64		min;
	int64		max;
	bool		empty;

	get_limits(test->type, &min, &max);
	test->kind = GJ_TEST_RANGE;
	test->low = min;
	test->high = max;
	switch (operator)
	{
		case GJ_FILTER_LT:
			empty = value <= min;
			if (!empty)
				test->high = Min(max, value - 1);
			break;
		case GJ_FILTER_LE:
			empty = value < min;
			test->high = Min(max, value);
			break;
		case GJ_FILTER_GT:
			empty = value >= max;
			if (!empty)
				test->low = Max(min, value + 1);
			break;
		case GJ_FILTER_GE:
			empty = value > max;
			test->low = Max(min, value);
			break;
		default:
			empty = value < min || value > max;
			test->low = test->high = value;
			break;
	}
	if (operator == GJ_FILTER_NE)
		negate(test);
	if (empty)
	{
		test->kind = GJ_TEST_SAME;
		test->yes = test->no;
	}
}

/*
 * C's comparisons are false if one side is NaN
 */
static void
compare_float(GjColumnTest *test, GjFilterOperator operator, double value)
{
	bool		negated = operator == GJ_FILTER_GE || operator == GJ_FILTER_GT ||
		operator == GJ_FILTER_NE;
	bool		nan = isnan(value);

	test->number = value;
	switch (operator)
	{
		case GJ_FILTER_LT:
		case GJ_FILTER_GE:
			/* less than NaN is all but NaN */
			test->kind = nan ? GJ_TEST_NAN : GJ_TEST_LESS;
			negated ^= nan;
			break;
		case GJ_FILTER_LE:
		case GJ_FILTER_GT:
			test->kind = nan ? GJ_TEST_SAME : GJ_TEST_LESS_EQUAL;
			break;
		default:
			test->kind = nan ? GJ_TEST_NAN : GJ_TEST_EQUAL;
			break;
	}
	if (negated)
		negate(test);
}

/*
 * column = ANY (array).  Elements that the column's type cannot have are left out.
 */
void
GjTestAny(GjColumnTest *test, MemoryContext context, Oid type, Oid element_type, Datum array,
		  bool isnull)
{
	ArrayType  *elements;

	test->type = type;
	if (isnull)
	{
		GjTestConstant(test, array, true);
		return;
	}
	elements = DatumGetArrayTypeP(array);
	if (ArrayGetNItems(ARR_NDIM(elements), ARR_DIMS(elements)) == 0)
	{
		GjTestConstant(test, BoolGetDatum(false), false);
		return;
	}
	test->kind = GJ_TEST_LISTED;
	test->set = GjKeySetCreate(context, sizeof(int64));
	test->yes = GJ_RESULT_TRUE;
	test->no = add_elements(test, element_type, elements) ? GJ_RESULT_NULL : GJ_RESULT_FALSE;
	GjKeySetFinish(test->set);
}

/*
 * Returns whether there is a NULL among the elements
 */
static bool
add_elements(GjColumnTest *test, Oid element_type, ArrayType *array)
{
	int			nelems = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	char	   *element = ARR_DATA_PTR(array);
	bits8	   *not_null = ARR_NULLBITMAP(array);
	bool		has_nulls = false;
	int16		typlen;
	bool		typbyval;
	char		typalign;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &typbyval, &typalign);
	for (int i = 0; i < nelems; i++)
	{
		if (i % INTERRUPT_INTERVAL == 0)
			CHECK_FOR_INTERRUPTS();
		if (not_null != NULL && (not_null[i / 8] & (1 << (i % 8))) == 0)
		{
			has_nulls = true;
			continue;
		}
		add_element(test, element_type, fetch_att(element, typbyval, typlen));
		element = att_addlength_pointer(element, typlen, element);
		element = (char *) att_align_nominal(element, typalign);
	}
	return has_nulls;
}

static void
add_element(GjColumnTest *test, Oid element_type, Datum value)
{
	int64		min;
	int64		max;
	int64		key;

	if (is_float(test->type))
	{
		GjKeySetAdd(test->set, float_key(read_float(element_type, value)));
		return;
	}
	get_limits(test->type, &min, &max);
	key = read_integer(element_type, value);
	if (key >= min && key <= max)
		GjKeySetAdd(test->set, key);
}

/*
 * A boolean column, itself
 */
void
GjTestTrue(GjColumnTest *test)
{
	test->kind = GJ_TEST_RANGE;
	test->type = BOOLOID;
	test->low = test->high = false;
	negate(test);
}

/*
 * A boolean that is the same for each entry
 */
void
GjTestConstant(GjColumnTest *test, Datum value, bool isnull)
{
	test->kind = GJ_TEST_CONSTANT;
	test->yes = isnull ? GJ_RESULT_NULL :
		DatumGetBool(value) ? GJ_RESULT_TRUE : GJ_RESULT_FALSE;
}

/* Values ------------------------------------------------------------------------- */

/*
 * What a type that is compared as integers can have
 */
static void
get_limits(Oid type, int64 *min, int64 *max)
{
	switch (type)
	{
		case BOOLOID:
			*min = false;
			*max = true;
			break;
		case INT2OID:
			*min = PG_INT16_MIN;
			*max = PG_INT16_MAX;
			break;
		case INT4OID:
		case DATEOID:
			*min = PG_INT32_MIN;
			*max = PG_INT32_MAX;
			break;
		case OIDOID:
			*min = 0;
			*max = PG_UINT32_MAX;
			break;
		default:
			*min = PG_INT64_MIN;
			*max = PG_INT64_MAX;
			break;
	}
}

static int64
read_integer(Oid type, Datum value)
{
	switch (type)
	{
		case BOOLOID:
			return DatumGetBool(value);
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
		case DATEOID:
			return DatumGetInt32(value);
		case OIDOID:
			return DatumGetObjectId(value);
		default:
			return DatumGetInt64(value);
	}
}

static double
read_float(Oid type, Datum value)
{
	return type == FLOAT4OID ? DatumGetFloat4(value) : DatumGetFloat8(value);
}

/*
 * A number's bits, with equal ones for equal numbers
 */
static int64
float_key(double value)
{
	union
	{
		double		number;
		int64		bits;
	}			both;

	both.number = isnan(value) ? NAN : value == 0.0 ? 0.0 : value;
	return both.bits;
}

/* Running a test ------------------------------------------------------------------ */

/*
 * Test n values of a column, which a constant does not need
 */
void
GjTestRun(const GjColumnTest *test, const GjBatchColumn *column, int n, uint8 *results)
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
run_range(const GjColumnTest *test, const GjBatchColumn *column, int n, uint8 *results)
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
run_float(const GjColumnTest *test, const GjBatchColumn *column, int n, uint8 *results)
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
run_listed(const GjColumnTest *test, const GjBatchColumn *column, int n, uint8 *results)
{
	if (test->set->nkeys <= FEW_ELEMENTS && !is_float(test->type))
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
run_few(const GjColumnTest *test, const GjBatchColumn *column, int n, uint8 *results)
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
			return float_key(((const float4 *) column->values)[i]);
		case FLOAT8OID:
			return float_key(((const float8 *) column->values)[i]);
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
