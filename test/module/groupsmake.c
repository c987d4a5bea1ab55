/*-------------------------------------------------------------------------
 *
 * groupsmake.c
 *	  Test of groups and aggregates: random rows, of kinds likely to expose errors.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "groupstest.h"

#define NTYPES					(GJ_VALUE_FLOAT8 + 1)

/* Special floats: zeros, NaNs, values that overflow */
typedef struct FloatKind
{
	int			percent;		/* percentage of special values */
	int			nvalues;
	double		values[8];
} FloatKind;

static const FloatKind float_kinds[] = {
	{0, 1, {0.0}},
	{100, 2, {0.0, -0.0}},
	{30, 2, {NAN, 1.0}},
	{100, 8, {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0, -1.0, 0.1}},
	{100, 4, {1e30, -1e30, 1e-300, 1e150}},
	{40, 4, {1.7e308, -1.7e308, 3e38, -3e38}},
	{1, 2, {1.7e308, 1e300}},
	{1, 2, {3e38, INFINITY}}
};

static void make_column(TestColumn *column, pg_prng_state *prng, GjValueType type, int nrows,
						const FloatKind *floats);
static void make_runs(Test *test, pg_prng_state *prng);
static void make_agg(GjAggSpec *agg, const Test *test, pg_prng_state *prng);
static void find_groups(Test *test);

static const Test *sorted_test;

void
GjMakeGroupsTest(Test *test, pg_prng_state *prng)
{
	static const Size limits[] = {1, 100 * 1024, 1024 * 1024, (Size) 1 << 30};
	bool		has_float = random_below(prng, 2) == 0;

	test->nrows = random_below(prng, 10) == 0 ? 0 : random_below(prng, MAX_ROWS) + 1;
	test->memory_limit = limits[random_below(prng, lengthof(limits))];
	test->ncolumns = random_below(prng, MAX_COLUMNS - 1) + 2;
	for (int i = 0; i < test->ncolumns; i++)
	{
		GjValueType type = random_below(prng, has_float ? NTYPES : GJ_VALUE_FLOAT4);

		/* The last one is for filters */
		if (i == test->ncolumns - 1)
			type = GJ_VALUE_BOOL;
		test->columns[i] = palloc0(sizeof(TestColumn));
		make_column(test->columns[i], prng, type, test->nrows,
					&float_kinds[random_below(prng, lengthof(float_kinds))]);
	}
	if (random_below(prng, 3) == 0)
	{
		uint32		most = has_float || random_below(prng, 2) == 0 ? 4 : PG_UINT32_MAX;

		test->weights = palloc((test->nrows + 1) * sizeof(uint32));
		for (int i = 0; i < test->nrows; i++)
			test->weights[i] = (uint32) (pg_prng_uint64(prng) % most) + 1;
	}
	for (int n = random_below(prng, 4); n > 0; n--)
	{
		int			column = random_below(prng, test->ncolumns);

		if (test->columns[column]->type < GJ_VALUE_FLOAT4)
			test->groupings[test->ngroupings++] =
				(GjGroupSpec) {test->columns[column]->type, column};
	}
	if (random_below(prng, 3) == 0)
		make_runs(test, prng);
	test->naggs = random_below(prng, MAX_AGGS);
	for (int i = 0; i < test->naggs; i++)
		make_agg(&test->aggs[i], test, prng);
	find_groups(test);
}

/*
 * Give most rows the key of the previous row
 */
static void
make_runs(Test *test, pg_prng_state *prng)
{
	int			length = random_below(prng, 100) + 1;

	for (int row = 1; row < test->nrows; row++)
	{
		if (random_below(prng, length) == 0)
			continue;
		for (int i = 0; i < test->ngroupings; i++)
		{
			TestColumn *column = test->columns[test->groupings[i].column];

			column->ints[row] = column->ints[row - 1];
			column->nulls[row] = column->nulls[row - 1];
		}
	}
}

/*
 * Make one aggregate of each kind over floats of each kind, because an overflow hides the results
 * of others
 */
void
GjMakeFloatTest(Test *test, pg_prng_state *prng, int number)
{
	int			most = number % 2 == 0 ? 3 : 200;
	GjValueType type = GJ_VALUE_FLOAT4 + number / 2 % 2;
	GjAggKind	kind = GJ_AGG_SUM + number / 4 % 4;
	const FloatKind *floats = &float_kinds[number / 16 % lengthof(float_kinds)];

	test->nrows = random_below(prng, most) + 1;
	test->memory_limit = 1;
	test->ncolumns = 2;
	for (int i = 0; i < test->ncolumns; i++)
	{
		test->columns[i] = palloc0(sizeof(TestColumn));
		make_column(test->columns[i], prng, i == 0 ? type : GJ_VALUE_BOOL, test->nrows, floats);
	}
	if (random_below(prng, 3) == 0)
	{
		test->weights = palloc(test->nrows * sizeof(uint32));
		for (int i = 0; i < test->nrows; i++)
			test->weights[i] = random_below(prng, 3) + 1;
	}
	test->ngroupings = random_below(prng, 2);
	test->groupings[0] = (GjGroupSpec) {GJ_VALUE_BOOL, 1};
	test->naggs = 1;
	test->aggs[0] = (GjAggSpec) {kind, type, 0, -1};
	find_groups(test);
}

static void
make_column(TestColumn *column, pg_prng_state *prng, GjValueType type, int nrows,
			const FloatKind *floats)
{
	static const uint16 widths[NTYPES] = {1, 2, 4, 8, 4, 4, 8};
	static const int64 lows[NTYPES] = {0, PG_INT16_MIN, PG_INT32_MIN, PG_INT64_MIN, 0, 0, 0};
	static const int64 highs[NTYPES] = {1, PG_INT16_MAX, PG_INT32_MAX, PG_INT64_MAX,
	PG_UINT32_MAX, 0, 0};
	static const uint64 spans[] = {1, 2, 40, 3000, 100000, PG_UINT64_MAX};
	int			nulls = random_below(prng, 5) * random_below(prng, 2);
	int			first_null = random_below(prng, nrows + 1);
	uint64		span = spans[random_below(prng, lengthof(spans))];
	uint64		range = (uint64) highs[type] - (uint64) lows[type];
	int64		base = lows[type];
	bool		is_extreme = random_below(prng, 4) == 0;
	int			walk = random_below(prng, 8);

	column->type = type;
	column->width = widths[type];
	if (type < GJ_VALUE_FLOAT4 && random_below(prng, 3) == 0)
	{
		while (column->width < 8 && random_below(prng, 2) == 0)
			column->width *= 2;
	}
	if (span <= range)
		base += (int64) (pg_prng_uint64(prng) % (range - span + 1));
	else
		span = range + 1;		/* 0 means all of uint64 */
	if (random_below(prng, 3) == 0 && highs[type] - 2000 > (int64) span)
		base = 2000;
	for (int i = 0; i < nrows; i++)
	{
		uint64		random = pg_prng_uint64(prng);

		column->ints[i] = (int64) ((uint64) base + (span == 0 ? random : random % span));
		/* Ascending or descending from row to row, up to 7 * MAX_ROWS from 0 */
		if (walk < 2 && highs[type] > 7 * MAX_ROWS)
			column->ints[i] = walk == 0 ? i * 7 : (nrows - i) / 2;
		else if (is_extreme)
			column->ints[i] = (random & 1) ? highs[type] - (int64) ((random >> 1) % 2) :
				lows[type] + (int64) ((random >> 1) % 2);
		if (random % 100 < floats->percent)
			column->floats[i] = floats->values[(random >> 8) % floats->nvalues];
		else
			column->floats[i] = pg_prng_double(prng) * 1000 - 300;
		if (type == GJ_VALUE_FLOAT4)
			column->floats[i] = (float4) column->floats[i];
		column->nulls[i] = (nulls == 1 && random_below(prng, 5) == 0) ||
			(nulls == 2 && random_below(prng, 500) == 0) || nulls == 3 ||
			(nulls == 4 && i >= first_null && random_below(prng, 2) == 0);
		column->has_nulls |= column->nulls[i];
	}
}

static void
make_agg(GjAggSpec *agg, const Test *test, pg_prng_state *prng)
{
	for (;;)
	{
		GjAggKind	kind = random_below(prng, GJ_AGG_BOOL_OR + 2);
		int			column = random_below(prng, test->ncolumns);
		GjValueType type = test->columns[column]->type;
		bool		is_float = type >= GJ_VALUE_FLOAT4;
		bool		is_number = type != GJ_VALUE_BOOL && type != GJ_VALUE_OID;

		if ((kind == GJ_AGG_SUM || kind == GJ_AGG_AVG) && !is_number)
			continue;
		if ((kind == GJ_AGG_MIN || kind == GJ_AGG_MAX) && type == GJ_VALUE_BOOL)
			continue;
		if ((kind == GJ_AGG_BOOL_AND || kind == GJ_AGG_BOOL_OR) && type != GJ_VALUE_BOOL)
			continue;
		if (kind == GJ_AGG_COUNT_DISTINCT && is_float)
			continue;
		if (kind > GJ_AGG_BOOL_OR)
		{
			if (test->ngroupings == 0)
				continue;
			*agg = (GjAggSpec) {GJ_AGG_ONE_ROW, type, column, -1};
			return;
		}
		*agg = (GjAggSpec) {kind, type, kind == GJ_AGG_COUNT_ROWS ? -1 : column,
		random_below(prng, 3) == 0 ? test->ncolumns - 1 : -1};
		return;
	}
}

static int
compare_keys(const void *a, const void *b)
{
	int			x = *(const int *) a;
	int			y = *(const int *) b;

	for (int i = 0; i < sorted_test->ngroupings; i++)
	{
		const TestColumn *column = sorted_test->columns[sorted_test->groupings[i].column];

		if (column->nulls[x] != column->nulls[y])
			return column->nulls[x] ? 1 : -1;
		if (!column->nulls[x] && column->ints[x] != column->ints[y])
			return column->ints[x] < column->ints[y] ? -1 : 1;
	}
	return 0;
}

static int
compare_rows(const void *a, const void *b)
{
	int			result = compare_keys(a, b);

	/* Within a group, keep the order of rows, because sums of floats depend on it */
	return result != 0 ? result : *(const int *) a - *(const int *) b;
}

static void
find_groups(Test *test)
{
	sorted_test = test;
	for (int i = 0; i < test->nrows; i++)
		test->order[i] = i;
	qsort(test->order, test->nrows, sizeof(int), compare_rows);
	for (int i = 0; i < test->nrows; i++)
	{
		if (i == 0 || compare_keys(&test->order[i - 1], &test->order[i]) != 0)
			test->firsts[test->ngroups++] = i;
	}
	if (test->ngroupings == 0)
		test->ngroups = 1;
	test->firsts[test->ngroups] = test->nrows;
}
