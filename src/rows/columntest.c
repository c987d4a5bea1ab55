/*-------------------------------------------------------------------------
 *
 * columntest.c
 *	  Tests of one column of entries: comparisons with a value or a list.
 *
 * filter.c combines these tests.  A test is made of the value when it has been evaluated, and then
 * run on the columns of batches.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type_d.h"
#include "utils/fmgrprotos.h"

#include "base/arrays.h"
#include "pages/pages.h"
#include "columntest.h"

/* Up to this number of elements, each is compared with all values in a loop */
#define FEW_ELEMENTS			8

/* The elements of an array that go into a test's set */
typedef struct Elements
{
	GjColumnTest *test;
	Oid			type;
} Elements;

static void run_range(const GjColumnTest *test, const GjBatchColumn *column, int n,
					  uint8 *pg_restrict results);
static void run_float(const GjColumnTest *test, const GjBatchColumn *column, int n,
					  uint8 *pg_restrict results);
static void run_listed(const GjColumnTest *test, const GjBatchColumn *column, int n,
					   uint8 *pg_restrict results);
static void run_few(const GjColumnTest *test, const GjBatchColumn *column, int n,
					uint8 *pg_restrict results);
static void run_pair(const GjColumnTest *test, const char *firsts, const char *seconds, int n,
					 uint8 *results);
static void test_find_pairs(GjExact *pairs, int n, const int64 *firsts, const int64 *seconds,
							uint8 *results);
static int64 get_key(Oid type, const GjBatchColumn *column, int i);
static bool test_add(gjd_filter *filter, int column, gjd_test test, int64 low, int64 high);
static inline bool may_lack(Oid type);
static bool test_add_range(gjd_filter *filter, int column, bool lacks, int64 low, int64 high);
static void compare_integer(GjColumnTest *test, GjFilterOperator operator, int64 value);
static void compare_pair(GjColumnTest *test, GjFilterOperator operator, Datum value);
static void read_words(const GjColumnTest *test, Datum value, int64 *words);
static void compare_numeric(GjColumnTest *test, GjFilterOperator operator, Datum value);
static void compare_float(GjColumnTest *test, GjFilterOperator operator, double value);
static void get_limits(Oid type, int64 *min, int64 *max);
static int64 read_integer(Oid type, Datum value);
static double read_float(Oid type, Datum value);
static void test_add_element(void *destination, Datum value);
static int64 test_read_numeric(const GjColumnTest *test, Datum value, bool *is_exact);

/*
 * Return true if the type is compared in double precision
 */
static inline bool
GjIsFloat(Oid type)
{
	return type == FLOAT4OID || type == FLOAT8OID;
}

/*
 * Return true if values of a type are two words
 */
static inline bool
has_pairs(Oid type)
{
	return type == UUIDOID || type == TEXTOID || type == BPCHAROID;
}

/*
 * Return the bits of a number, normalized so that equal numbers have equal bits
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

/*-------------------------------------------------------------------------
 * Runs of values
 *
 * Loops that test one column of all entries.
 *
 * They have no branches, so that the compiler can process several values at a time.
 *-------------------------------------------------------------------------
 */

/*
 * Test n values of a column, and their second words, if they have any.  A constant test does not
 * read them.
 */
void
GjTestRun(const GjColumnTest *test, const GjBatchColumn *column, const GjBatchColumn *second, int n,
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
		case GJ_TEST_PAIR:
		case GJ_TEST_PAIRS:
			run_pair(test, column->values, second->values, n, results);
			break;
	}
	if (column->nulls != NULL)
	{
		for (int i = 0; i < n; i++)
			results[i] &= column->nulls[i] == 0 ? 0xFF : GJ_RESULT_NULL;
	}
}

/*
 * Test a range with one comparison of unsigned integers: values below low wrap around to values
 * above the span.  This works for signed integers as well.
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

	GJ_BY_WIDTH(column->width, RUN_RANGE);
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
	if (GjKeySetCount(test->set) <= FEW_ELEMENTS && !GjIsFloat(test->type))
	{
		run_few(test, column, n, results);
		return;
	}
	for (int i = 0; i < n; i++)
		results[i] = GjKeySetContains(test->set, get_key(test->type, column, i)) ? test->yes
			: test->no;
}

#define RUN_FEW(type) \
	do { \
		const type	key = (type) GjKeySetAt(test->set, k); \
		for (int i = 0; i < n; i++) \
			results[i] |= ((const type *) column->values)[i] == key; \
	} while (0)

/*
 * Compare each element with all values.  Elements are values that the column can have, so they fit
 * its width.
 */
static void
run_few(const GjColumnTest *test, const GjBatchColumn *column, int n,
		uint8 *pg_restrict results)
{
	const uint8 no = test->no;
	const uint8 change = test->yes ^ test->no;

	memset(results, 0, n);
	for (uint64 k = 0; k < GjKeySetCount(test->set); k++)
		GJ_BY_WIDTH(column->width, RUN_FEW);
	for (int i = 0; i < n; i++)
		results[i] = no ^ (results[i] != 0 ? change : 0);
}

/*
 * Compare values of two words with one, or look them up
 */
static void
run_pair(const GjColumnTest *test, const char *firsts, const char *seconds, int n, uint8 *results)
{
	if (test->kind == GJ_TEST_PAIR)
		GjPairIsEqual(firsts, seconds, n, test->low, test->high, test->ignored, results);
	else if (test->ignored == 0)
		test_find_pairs(test->pairs, n, (const int64 *) firsts, (const int64 *) seconds, results);
	else
	{
		int64		compared[GJ_BATCH_ROWS] = {0};

		for (int i = 0; i < n; i++)
			compared[i] = ((const int64 *) seconds)[i] & ~test->ignored;
		test_find_pairs(test->pairs, n, (const int64 *) firsts, compared, results);
	}
	for (int i = 0; i < n; i++)
		results[i] = results[i] != 0 ? test->yes : test->no;
}

/*
 * Set a byte for each of n pairs that is in the table, and clear it for the others
 */
static void
test_find_pairs(GjExact *pairs, int n, const int64 *firsts, const int64 *seconds, uint8 *results)
{
	const Datum *parts = (const Datum *) seconds;
	uint32		numbers[GJ_BATCH_ROWS];

	Assert(n <= GJ_BATCH_ROWS);
	GjExactFindMany(pairs, n, firsts, &parts, numbers);
	for (int i = 0; i < n; i++)
		results[i] = numbers[i] != GJ_EXACT_NONE;
}

/*
 * Return a value in the form in which it would be in a set
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

/*-------------------------------------------------------------------------
 * Filters of a device
 *
 * Tests of columns that a device performs.
 *
 * If one entry in a hundred passes, most of the time would be spent on sending the others.  A
 * device supports conditions on values as signed integers (cuda/border/gpujoin_shapes.h), and does
 * not send entries that fail any of them.
 *
 * Claim: it drops only entries that do not pass.  A device tests the same data that it would send:
 * key and columns of one state of an entry in the index (match/device.c), with the bits that they
 * have there.  So it does not matter where an entry is dropped, and the proof at the head of
 * match/stream.c applies here, too.  A condition holds for the values that pass the test, and for
 * no others: tests of integers have been converted to ranges, within the limits of the column's
 * type; dates and timestamps are integers with the same order, including infinity; a boolean is 0
 * or 1.  An oid has no sign, so it is not tested.
 *
 * An absent value has the lowest word (GJ_ABSENT), and so have the second words of those that have
 * two; it passes all conditions, as its row must be read.  "word = 5" is sent as two conditions:
 * word <= 5, and not between the word after the lowest one and 4.  The second word of the empty
 * text is the lowest one, too; the first one tells it from others.
 *
 * Only a reduction (match/reduce.c) relies on it, and only if all parts of the filter are sent.
 * Entries that arrive are tested again, by all conditions; those from other sources (tail pages,
 * missing pages of a mirror, the CPU's pieces) have not been tested before.  An answer of TIDs
 * alone is not filtered: it may be outdated.
 *-------------------------------------------------------------------------
 */

/*
 * Add a condition under which the test of a column has the wanted result, TRUE or FALSE.  second is
 * the column with the second words of its values, or 0.  Returns false if no such condition exists,
 * or if there is no room for it.
 */
bool
GjTestForDevice(gjd_filter *filter, int column, int second, const GjColumnTest *test, uint8 wanted)
{
	bool		lacks = may_lack(test->type);

	switch (test->kind)
	{
		case GJ_TEST_CONSTANT:
			return test->yes == wanted || test_add(filter, 0, GJD_BETWEEN, 1, 0);
		case GJ_TEST_SAME:
			if (test->yes == wanted)
				return test_add(filter, column, GJD_IS_NOT_NULL, 0, 0);
			return lacks ? test_add(filter, column, GJD_BETWEEN, GJ_ABSENT, GJ_ABSENT) :
				test_add(filter, 0, GJD_BETWEEN, 1, 0);
		case GJ_TEST_RANGE:
			if (test->type == OIDOID)
				return false;
			if (test->yes != wanted)
				return test_add(filter, column, GJD_OUTSIDE, test->low, test->high);
			return test_add_range(filter, column, lacks, test->low, test->high);
		case GJ_TEST_PAIR:
			return test->yes == wanted &&
				test_add_range(filter, column, lacks, test->low, test->low) &&
				test_add_range(filter, second, lacks, test->high, test->high | test->ignored);
		case GJ_TEST_LESS:
		case GJ_TEST_LESS_EQUAL:
		case GJ_TEST_EQUAL:
		case GJ_TEST_NAN:
		case GJ_TEST_LISTED:
		case GJ_TEST_PAIRS:
			break;
	}
	return false;
}

/*
 * Add a condition that the column is NULL, or that it is not
 */
bool
GjTestNullForDevice(gjd_filter *filter, int column, bool isnull)
{
	return test_add(filter, column, isnull ? GJD_IS_NULL : GJD_IS_NOT_NULL, 0, 0);
}

/*
 * Return true if an entry may lack the words of a value of this type, as far as is known here
 */
static inline bool
may_lack(Oid type)
{
	return type == NUMERICOID || type == TEXTOID || type == BPCHAROID;
}

/*
 * Add the conditions that a value is in a range, or, with lacks, that it is absent
 */
static bool
test_add_range(gjd_filter *filter, int column, bool lacks, int64 low, int64 high)
{
	if (!lacks)
		return test_add(filter, column, GJD_BETWEEN, low, high);
	return (low == GJ_ABSENT || test_add(filter, column, GJD_OUTSIDE, GJ_ABSENT + 1, low - 1)) &&
		test_add(filter, column, GJD_BETWEEN, GJ_ABSENT, high);
}

static bool
test_add(gjd_filter *filter, int column, gjd_test test, int64 low, int64 high)
{
	gjd_condition *condition = &filter->conditions[filter->n];

	if (filter->n == GJD_MAX_CONDITIONS)
		return false;
	*condition = (gjd_condition) {.column = column,.test = test,.low = low,.high = high};
	filter->n++;
	return true;
}

/*-------------------------------------------------------------------------
 * Tests of entries
 *
 * Create the tests of columns.
 *
 * A comparison of integers, dates and the like is converted to a range.  Floating-point numbers are
 * compared in double precision, to which both types are converted without loss; NaN equals itself
 * and is greater than all others, as everywhere in PostgreSQL.  The elements of an array are
 * converted to a set of keys.
 *-------------------------------------------------------------------------
 */

/*
 * Make a test for: column operator value
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
	else if (has_pairs(type))
		compare_pair(test, operator, value);
	else if (GjIsFloat(type))
		compare_float(test, operator, read_float(value_type, value));
	else if (type == NUMERICOID)
		compare_numeric(test, operator, value);
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
 * Make a test for the range of values of the column's type that satisfy the comparison.  The value
 * itself may be outside of the type's limits.
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
 * Make a test for a uuid or a text.  The operator is = or <>: the planner takes no other.  A text
 * without words equals only absent ones, which are not decided here.
 */
static void
compare_pair(GjColumnTest *test, GjFilterOperator operator, Datum value)
{
	int64		words[2];

	Assert(operator == GJ_FILTER_EQ || operator == GJ_FILTER_NE);
	read_words(test, value, words);
	test->kind = GJ_TEST_PAIR;
	test->low = words[0];
	test->high = words[1];
	if (operator == GJ_FILTER_NE)
		negate(test);
}

/*
 * Get the words of a value, without those bits of the second one that are not compared.
 *
 * The blanks at the end of a bpchar mean nothing, and neither do those of a column that is cast to
 * text, but those of a text do: then the first word becomes that of no value.
 */
static void
read_words(const GjColumnTest *test, Datum value, int64 *words)
{
	if (test->type == UUIDOID)
		GjWordsOfUuid(DatumGetPointer(value), words);
	else if (test->type == BPCHAROID)
		GjWordsOfTrimmed(value, words);
	else
	{
		struct varlena *text = PG_DETOAST_DATUM_PACKED(value);
		int			length = VARSIZE_ANY_EXHDR(text);

		GjWordsOfText(PointerGetDatum(text), false, words);
		if (test->ignored != 0 && length > 0 && VARDATA_ANY(text)[length - 1] == ' ')
			words[0] = GJ_ABSENT;
	}
	words[1] &= ~test->ignored;
}

/*
 * Make a test of the words of a numeric column.  A value with more digits than these is between two
 * words.
 */
static void
compare_numeric(GjColumnTest *test, GjFilterOperator operator, Datum value)
{
	bool		is_exact;
	int64		word = test_read_numeric(test, value, &is_exact);

	if (!is_exact)
	{
		if (operator == GJ_FILTER_LT)
			operator = GJ_FILTER_LE;
		else if (operator == GJ_FILTER_GE)
			operator = GJ_FILTER_GT;
		else if (operator == GJ_FILTER_EQ || operator == GJ_FILTER_NE)
			word = GJ_WORD_LIMIT;	/* no column has it */
	}
	compare_integer(test, operator, word);
}

/*
 * Make a test of floating-point numbers.  C's comparisons are false if one side is NaN.
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
			/* all values except NaN are less than NaN */
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
 * Make a test for: column = ANY (array).  Elements that the column's type cannot have are left out.
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
	if (has_pairs(type))
	{
		GjExactPart part = {0};

		GjExactPartUseRest(&part);
		test->pairs = GjExactCreate(context, 1, &part, false, 0);
	}
	else
		test->set = GjKeySetCreate(context, sizeof(int64));
	test->kind = has_pairs(type) ? GJ_TEST_PAIRS : GJ_TEST_LISTED;
	test->yes = GJ_RESULT_TRUE;
	test->no = GjForEachElement(elements, test_add_element, &(Elements) {test, element_type}) ?
		GJ_RESULT_NULL : GJ_RESULT_FALSE;
	if (!has_pairs(type))
		GjKeySetFinish(test->set);
}

static void
test_add_element(void *destination, Datum value)
{
	GjColumnTest *test = ((Elements *) destination)->test;
	Oid			element_type = ((Elements *) destination)->type;
	bool		is_exact = true;
	int64		min;
	int64		max;
	int64		key;

	if (has_pairs(test->type))
	{
		int64		words[2];

		read_words(test, value, words);
		GjExactListPairs(test->pairs, 1, &words[0], &words[1]);
		return;
	}
	if (GjIsFloat(test->type))
	{
		GjKeySetAdd(test->set, GjFloatKey(read_float(element_type, value)));
		return;
	}
	get_limits(test->type, &min, &max);
	key = test->type == NUMERICOID ? test_read_numeric(test, value, &is_exact) :
		read_integer(element_type, value);
	if (is_exact && key >= min && key <= max)
		GjKeySetAdd(test->set, key);
}

/*
 * Return the greatest word that is not above a numeric, and set whether it equals it; for numbers
 * beyond all words see GjNumericFloor()
 */
static int64
test_read_numeric(const GjColumnTest *test, Datum value, bool *is_exact)
{
	GjNumericParts parts;

	GjNumericRead(PG_DETOAST_DATUM_PACKED(value), &parts);
	return GjNumericFloor(&parts, test->stored_scale, is_exact);
}

/*
 * Make a test whose result is the same for each entry
 */
void
GjTestConstant(GjColumnTest *test, Datum value, bool isnull)
{
	test->kind = GJ_TEST_CONSTANT;
	test->yes = isnull ? GJ_RESULT_NULL :
		DatumGetBool(value) ? GJ_RESULT_TRUE : GJ_RESULT_FALSE;
}

/*
 * Get the limits of a type that is compared as integers
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
		case NUMERICOID:
			*min = 1 - GJ_WORD_LIMIT;
			*max = GJ_WORD_LIMIT - 1;
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
