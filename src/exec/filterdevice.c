/*-------------------------------------------------------------------------
 *
 * filterdevice.c
 *	  A test of one column, for a device.
 *
 * Where one entry in a hundred passes, most of the time goes into sending those that do not.  A
 * device knows conditions on values as signed integers (cuda/border/gpujoin_shapes.h), and keeps
 * back what does not satisfy all of them.
 *
 * Claim: it keeps back only what does not pass.  What a device tests is what it would send: key and
 * columns of one state of an entry that is in the index (match/device.c), with the bits that they
 * have there.  So it does not matter where an entry is dropped, and the proof at the head of
 * filteredmatch.c is that of this, too.  A condition holds for all that passes the test: tests
 * of integers are ranges already when they get here, within what the column's type can have; a date
 * and a timestamp are integers that compare as such, infinity included; a boolean is 0 or 1.  An
 * oid is not, as it has no sign.
 *
 * Nobody relies on it either.  All entries are tested again, by all conditions; those that come
 * from elsewhere (tail pages, pages that a mirror lacks, the CPU's pieces) have not been tested
 * before.  An answer of TIDs alone is not filtered: it may be outdated.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "filtertest.h"

static bool add(gjd_filter *filter, int column, gjd_test test, int64 low, int64 high);

/*
 * Add a condition under which the test of a column has the result that is wanted, TRUE or FALSE;
 * false: there is none, or no room for it
 */
bool
GjTestForDevice(gjd_filter *filter, int column, const GjColumnTest *test, uint8 wanted)
{
	switch (test->kind)
	{
		case GJ_TEST_CONSTANT:
			return test->yes == wanted || add(filter, 0, GJD_BETWEEN, 1, 0);
		case GJ_TEST_SAME:
			if (test->yes == wanted)
				return add(filter, column, GJD_IS_NOT_NULL, 0, 0);
			return add(filter, 0, GJD_BETWEEN, 1, 0);
		case GJ_TEST_RANGE:
			if (test->type == OIDOID)
				return false;
			return add(filter, column, test->yes == wanted ? GJD_BETWEEN : GJD_OUTSIDE,
					   test->low, test->high);
		case GJ_TEST_LESS:
		case GJ_TEST_LESS_EQUAL:
		case GJ_TEST_EQUAL:
		case GJ_TEST_NAN:
		case GJ_TEST_LISTED:
			break;
	}
	return false;
}

/*
 * The same for a test whether the column is NULL
 */
bool
GjTestNullForDevice(gjd_filter *filter, int column, bool isnull)
{
	return add(filter, column, isnull ? GJD_IS_NULL : GJD_IS_NOT_NULL, 0, 0);
}

static bool
add(gjd_filter *filter, int column, gjd_test test, int64 low, int64 high)
{
	gjd_condition *condition = &filter->conditions[filter->n];

	if (filter->n == GJD_MAX_CONDITIONS)
		return false;
	*condition = (gjd_condition) {.column = column,.test = test,.low = low,.high = high};
	filter->n++;
	return true;
}
