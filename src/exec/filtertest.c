/*-------------------------------------------------------------------------
 *
 * filtertest.c
 *	  A test of one column against something that is the same for each entry: making it.
 *
 * A comparison of integers, dates and the like becomes a range that a value is in or is not.
 * One of floating-point numbers is made in double precision, into which both types go without
 * loss; NaN equals itself and is greater than all others, as everywhere in PostgreSQL.  The
 * elements of an array become a set of keys.  filterrun.c has the loops.
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

#include "filtertest.h"

/* Elements between two looks for an interrupt */
#define INTERRUPT_INTERVAL		65536

static void compare_integer(GjColumnTest *test, GjFilterOperator operator, int64 value);
static void compare_float(GjColumnTest *test, GjFilterOperator operator, double value);
static void get_limits(Oid type, int64 *min, int64 *max);
static int64 read_integer(Oid type, Datum value);
static double read_float(Oid type, Datum value);
static bool add_elements(GjColumnTest *test, Oid element_type, ArrayType *array);
static void add_element(GjColumnTest *test, Oid element_type, Datum value);

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
	else if (GjIsFloat(type))
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

	if (GjIsFloat(test->type))
	{
		GjKeySetAdd(test->set, GjFloatKey(read_float(element_type, value)));
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
