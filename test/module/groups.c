/*-------------------------------------------------------------------------
 *
 * groups.c
 *	  Test of groups and aggregates over columns, against the simplest possible code.
 *
 * Random rows of all types, with NULLs, weights and filters, go to a set of groups, with much
 * memory and with so little that there are many passes.  The expected result is computed group by
 * group from sorted rows, with PostgreSQL's own functions.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "groupstest.h"

#define TESTS					250
#define FLOAT_TESTS				1000

static uint64 check_test(Test *test, pg_prng_state *prng);
static bool run_test(Test *test, GjGroups *groups, pg_prng_state *prng, bool fails);
static void check_groups(const Test *test, GjGroups *groups, bool *delivered);
static void add_rows(const Test *test, GjGroups *groups, pg_prng_state *prng);
static int	find_group(const Test *test, const Datum *values, const bool *isnull);
static void check_many_groups(int many, int length, Size memory_limit, uint64 min_passes);
static void check_limited_groups(void);
static void check_late_nulls(Size memory_limit);
static uint64 count_groups(GjGroups *groups);
static void check_many_values(int many, Size memory_limit, int ngroups);

PG_FUNCTION_INFO_V1(gpujoin_groups_selftest);
PG_FUNCTION_INFO_V1(gpujoin_test_int8_state);

/*
 * Return the partial state of sum() and avg() of some int8s, which PostgreSQL's own nodes combine
 */
Datum
gpujoin_test_int8_state(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	GjAggSpec	average = {GJ_AGG_AVG, GJ_VALUE_INT8, 0, -1};
	GjBatchColumn column = {.values = ARR_DATA_PTR(array),.width = sizeof(int64)};
	GjBatch		batch = {.nrows = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)),
	.columns = &column};
	GjGroups   *groups = GjGroupsCreate(CurrentMemoryContext, (Size) 1 << 20, true, 0, NULL, 1,
										&average);
	Datum	   *values;
	bool	   *isnull;

	GjGroupsBegin(groups);
	if (batch.nrows > 0 && GjGroupsMakeRoom(groups))
		GjGroupsAdd(groups, &batch);
	GjGroupsFinish(groups);
	if (GjGroupsNext(groups, &values, &isnull) != 1 || isnull[0])
		elog(ERROR, "groups: no state");
	PG_RETURN_DATUM(values[0]);
}

/*
 * Compare random groups with the expected ones; returns the number of results compared.  If the
 * argument is true, report timings instead.
 */
Datum
gpujoin_groups_selftest(PG_FUNCTION_ARGS)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "groups selftest",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	pg_prng_state prng;
	uint64		ncompared = 0;

	if (VARSIZE_ANY_EXHDR(PG_GETARG_TEXT_PP(0)) > 0)
	{
		GjTimeGroups(text_to_cstring(PG_GETARG_TEXT_PP(0)));
		PG_RETURN_INT64(0);
	}
	pg_prng_seed(&prng, 42);
	for (int i = 0; i < TESTS + FLOAT_TESTS; i++)
	{
		Test	   *test = palloc0(sizeof(Test));

		CHECK_FOR_INTERRUPTS();
		if (i < TESTS)
			GjMakeGroupsTest(test, &prng);
		else
			GjMakeFloatTest(test, &prng, i);
		ncompared += check_test(test, &prng);
		MemoryContextReset(context);
	}
	check_many_groups(1000000, 1, (Size) 1 << 30, 1);
	check_many_groups(1000000, 1, (Size) 32 << 20, 4);
	check_many_groups(100000, 1, 1, 50);
	check_many_groups(5000, 32, 1, 2);
	check_limited_groups();
	for (Size limit = (Size) 1 << 20; limit <= (Size) 8 << 20; limit += (Size) 1 << 18)
		check_late_nulls(limit);
	GjCheckDistinctGroups();
	GjCheckBits();
	GjCheckOrderedGroups();
	GjCheckWaitingGroups();
	check_many_values(300000, 1, 0);
	check_many_values(300000, 1, 3);
	check_many_values(300000, 2 * 1024 * 1024, 0);
	check_many_values(300000, 2 * 1024 * 1024, 2000);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	PG_RETURN_INT64((int64) ncompared);
}

/*
 * Run a test twice: the second time with the state left by the first
 */
static uint64
check_test(Test *test, pg_prng_state *prng)
{
	MemoryContext context = CurrentMemoryContext;
	GjGroups   *groups = GjGroupsCreate(context, test->memory_limit, false, test->ngroupings,
										test->groupings, test->naggs, test->aggs);
	bool		fails = !GjExpectAll(test);

	for (int i = 0; i < 2; i++)
	{
		if (run_test(test, groups, prng, fails) == fails)
			elog(ERROR, "groups: %s", fails ? "no error" : "an error");
		MemoryContextSwitchTo(context);
	}
	if (!fails && GjGroupsGetStats(groups)->groups != 2 * test->ngroups)
		elog(ERROR, "groups: " UINT64_FORMAT " are counted, not two times %d",
			 GjGroupsGetStats(groups)->groups, test->ngroups);
	GjGroupsFree(groups);
	return (uint64) test->ngroups * (test->naggs + test->ngroupings);
}

/*
 * Run a test, and check all groups, unless it is expected to fail; returns false after an
 * overflow
 */
static bool
run_test(Test *test, GjGroups *groups, pg_prng_state *prng, bool fails)
{
	MemoryContext context = CurrentMemoryContext;
	bool	   *delivered = palloc0(test->ngroups + 1);
	volatile bool failed = false;

	PG_TRY();
	{
		GjGroupsBegin(groups);
		add_rows(test, groups, prng);
		GjGroupsFinish(groups);
		do
		{
			if (fails)
				continue;
			check_groups(test, groups, delivered);
			if (GjGroupsRewind(groups))
			{
				memset(delivered, 0, test->ngroups);
				check_groups(test, groups, delivered);
			}
		} while (GjGroupsNextPass(groups));
	}
	PG_CATCH();
	{
		failed = GjIsOverflow(context);
	}
	PG_END_TRY();

	for (int i = 0; !failed && i < test->ngroups; i++)
	{
		if (!delivered[i])
			elog(ERROR, "groups: a group is missing");
	}
	return !failed;
}

static bool
is_same(const GjAggSpec *agg, Datum a, Datum b)
{
	if ((agg->kind == GJ_AGG_AVG && agg->type < GJ_VALUE_FLOAT4) ||
		(agg->kind == GJ_AGG_SUM && agg->type == GJ_VALUE_INT8))
		return strcmp(DatumGetCString(DirectFunctionCall1(numeric_out, a)),
					  DatumGetCString(DirectFunctionCall1(numeric_out, b))) == 0;
	if (agg->kind == GJ_AGG_AVG || agg->type == GJ_VALUE_FLOAT8)
		return a == b || (isnan(DatumGetFloat8(a)) && isnan(DatumGetFloat8(b)));
	if (agg->type == GJ_VALUE_FLOAT4)
		return a == b || (isnan(DatumGetFloat4(a)) && isnan(DatumGetFloat4(b)));
	return a == b;
}

static void
check_groups(const Test *test, GjGroups *groups, bool *delivered)
{
	Datum	   *values;
	bool	   *isnull;

	while (GjGroupsNext(groups, &values, &isnull))
	{
		int			group = find_group(test, values, isnull);

		if (delivered[group])
			elog(ERROR, "groups: a group comes twice");
		delivered[group] = true;
		for (int i = 0; i < test->naggs; i++)
		{
			bool		null_expected;
			Datum		expected = GjExpect(test, &test->aggs[i], group, &null_expected);
			int			at = test->ngroupings + i;

			if (isnull[at] != null_expected ||
				(!null_expected && !is_same(&test->aggs[i], values[at], expected)))
				elog(ERROR, "groups: aggregate %d of type %d is wrong", test->aggs[i].kind,
					 test->aggs[i].type);
		}
	}
}

static void
put_value(char *values, int at, const TestColumn *column, int row)
{
	float4		single = (float4) column->floats[row];

	if (column->nulls[row])
		memset(values + at * column->width, 0, column->width);
	else if (column->type == GJ_VALUE_FLOAT4)
		((float4 *) values)[at] = single;
	else if (column->type == GJ_VALUE_FLOAT8)
		((float8 *) values)[at] = column->floats[row];
	else if (column->width == 1)
		((int8 *) values)[at] = (int8) column->ints[row];
	else if (column->width == 2)
		((int16 *) values)[at] = (int16) column->ints[row];
	else if (column->width == 4)
		((int32 *) values)[at] = (int32) column->ints[row];
	else if (column->type == GJ_VALUE_OID)
		((int64 *) values)[at] = (int32) column->ints[row];
	else
		((int64 *) values)[at] = column->ints[row];
}

static void
add_rows(const Test *test, GjGroups *groups, pg_prng_state *prng)
{
	GjBatchColumn columns[MAX_COLUMNS];
	GjBatch		batch = {0, NULL, columns};
	int			most = random_below(prng, 2) == 0 ? GJ_BATCH_ROWS :
		random_below(prng, GJ_BATCH_ROWS) + 1;

	for (int row = 0; row < test->nrows; row += batch.nrows)
	{
		batch.nrows = Min(test->nrows - row, most);
		if (test->weights != NULL)
			batch.weights = test->weights + row;
		for (int i = 0; i < test->ncolumns; i++)
		{
			const TestColumn *column = test->columns[i];
			char	   *values = palloc(GJ_BATCH_ROWS * sizeof(int64));
			uint8	   *nulls = palloc(GJ_BATCH_ROWS);

			for (int j = 0; j < batch.nrows; j++)
			{
				put_value(values, j, column, row + j);
				nulls[j] = column->nulls[row + j];
			}
			columns[i] = (GjBatchColumn) {values, column->has_nulls ? nulls : NULL,
			column->width};
		}
		GjGroupsAdd(groups, &batch);
		for (int i = 0; i < test->ncolumns; i++)
			pfree(unconstify(char *, columns[i].values));
	}
}

/* Compare a group's key with the delivered one: returns -1, 0 or 1 */
static int
compare_group(const Test *test, int group, const Datum *values, const bool *isnull)
{
	int			row = test->order[test->firsts[group]];

	for (int i = 0; i < test->ngroupings; i++)
	{
		const TestColumn *column = test->columns[test->groupings[i].column];
		int64		value = column->type == GJ_VALUE_OID ? (int64) DatumGetObjectId(values[i]) :
			column->type == GJ_VALUE_BOOL ? (int64) DatumGetBool(values[i]) :
			DatumGetInt64(values[i]);

		if (column->nulls[row] != isnull[i])
			return column->nulls[row] ? 1 : -1;
		if (!isnull[i] && column->ints[row] != value)
			return column->ints[row] < value ? -1 : 1;
	}
	return 0;
}

static int
find_group(const Test *test, const Datum *values, const bool *isnull)
{
	int			low = 0;
	int			high = test->ngroups;

	if (test->ngroupings == 0)
		return 0;
	while (low < high)
	{
		int			middle = (low + high) / 2;
		int			order = compare_group(test, middle, values, isnull);

		if (order == 0)
			return middle;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	elog(ERROR, "groups: a group that is none");
}

/*
 * Many groups of two columns, each of which occurs twice, in stretches of "length" equal rows
 */
static void
check_many_groups(int many, int length, Size memory_limit, uint64 min_passes)
{
	static const GjGroupSpec groupings[] = {{GJ_VALUE_INT4, 0}, {GJ_VALUE_INT8, 1}};
	static const GjAggSpec aggs[] = {
		{GJ_AGG_COUNT_ROWS, 0, -1, -1},
		{GJ_AGG_SUM, GJ_VALUE_INT4, 0, -1},
		{GJ_AGG_COUNT_DISTINCT, GJ_VALUE_INT8, 2, -1}
	};
	GjGroups   *groups = GjGroupsCreate(CurrentMemoryContext, memory_limit, false, 2, groupings,
										3, aggs);
	int32		first[GJ_BATCH_ROWS];
	int64		second[GJ_BATCH_ROWS];
	int64		third[GJ_BATCH_ROWS];
	GjBatchColumn columns[3] = {{(char *) first, NULL, 4}, {(char *) second, NULL, 8},
	{(char *) third, NULL, 8}};
	GjBatch		batch = {0, NULL, columns};
	uint8	   *seen = palloc0(many);
	int			nrows = 2 * many * length;
	uint64		ngroups = 0;
	Datum	   *values;
	bool	   *isnull;

	GjGroupsBegin(groups);
	for (int row = 0; row < nrows; row += batch.nrows)
	{
		batch.nrows = Min(GJ_BATCH_ROWS, nrows - row);
		for (int i = 0; i < batch.nrows; i++)
		{
			first[i] = (row + i) / length % many;
			second[i] = (int64) first[i] << 20;
			third[i] = row + i;
		}
		GjGroupsAdd(groups, &batch);
	}
	GjGroupsFinish(groups);
	do
	{
		CHECK_FOR_INTERRUPTS();
		while (GjGroupsNext(groups, &values, &isnull))
		{
			int32		group = DatumGetInt32(values[0]);

			if (group < 0 || group >= many || seen[group]++ ||
				DatumGetInt64(values[1]) != (int64) group << 20 ||
				DatumGetInt64(values[2]) != 2 * length ||
				DatumGetInt64(values[3]) != 2 * length * (int64) group ||
				DatumGetInt64(values[4]) != 2 * length)
				elog(ERROR, "groups: one of many is wrong");
			ngroups++;
		}
	} while (GjGroupsNextPass(groups));

	if (ngroups != many || GjGroupsGetStats(groups)->groups != many ||
		GjGroupsGetStats(groups)->rows != nrows ||
		GjGroupsGetStats(groups)->passes < min_passes)
		elog(ERROR, "groups: " UINT64_FORMAT " of many, " UINT64_FORMAT " passes", ngroups,
			 GjGroupsGetStats(groups)->passes);
	if (memory_limit > 1 && GjGroupsGetStats(groups)->peak_memory > memory_limit)
		elog(ERROR, "groups: %zu bytes", GjGroupsGetStats(groups)->peak_memory);
	GjGroupsFree(groups);
	pfree(seen);
}

/* Make keys that are all different, in no order */
static void
make_keys(int64 *keys, int row, int n)
{
	for (int i = 0; i < n; i++)
		keys[i] = (int64) ((uint64) (row + i) * UINT64CONST(0x9E3779B97F4A7C15));
}

/*
 * More groups than a pass may have, with memory for all of them: the remaining rows are spilled
 */
static void
check_limited_groups(void)
{
	static const GjGroupSpec grouping = {GJ_VALUE_INT8, 0};
	static const GjAggSpec agg = {GJ_AGG_COUNT_ROWS, 0, -1, -1};
	const int	many = 100 * GJ_BATCH_ROWS;
	GjGroups   *groups = GjGroupsCreate(CurrentMemoryContext, (Size) 1 << 30, false, 1, &grouping,
										1, &agg);
	int64		keys[GJ_BATCH_ROWS];
	GjBatchColumn column = {(char *) keys, NULL, 8};
	GjBatch		batch = {GJ_BATCH_ROWS, NULL, &column};

	GjGroupsLimit(groups, 5000);
	GjGroupsBegin(groups);
	for (int row = 0; row < 2 * many; row += GJ_BATCH_ROWS)
	{
		make_keys(keys, row % many, GJ_BATCH_ROWS);
		GjGroupsAdd(groups, &batch);
	}
	GjGroupsFinish(groups);
	if (count_groups(groups) != many || GjGroupsGetStats(groups)->passes < many / 5000)
		elog(ERROR, "groups: there are " UINT64_FORMAT " in " UINT64_FORMAT " passes",
			 GjGroupsGetStats(groups)->groups, GjGroupsGetStats(groups)->passes);
	GjGroupsFree(groups);
}

/*
 * The first NULLs, in keys and arguments, after the groups have taken all of their memory
 */
static void
check_late_nulls(Size memory_limit)
{
	static const GjGroupSpec grouping = {GJ_VALUE_INT8, 0};
	static const GjAggSpec agg = {GJ_AGG_MAX, GJ_VALUE_INT8, 1, -1};
	const int	many = memory_limit / 16 / GJ_BATCH_ROWS * GJ_BATCH_ROWS;
	GjGroups   *groups = GjGroupsCreate(CurrentMemoryContext, memory_limit, false, 1, &grouping,
										1, &agg);
	int64		keys[GJ_BATCH_ROWS];
	uint8		nulls[GJ_BATCH_ROWS];
	GjBatchColumn columns[2] = {{(char *) keys, NULL, 8}, {(char *) keys, NULL, 8}};
	GjBatch		batch = {GJ_BATCH_ROWS, NULL, columns};

	GjGroupsBegin(groups);
	for (int row = 0; row < many; row += GJ_BATCH_ROWS)
	{
		make_keys(keys, row, GJ_BATCH_ROWS);
		GjGroupsAdd(groups, &batch);
	}
	memset(keys, 0, sizeof(keys));
	memset(nulls, 1, sizeof(nulls));
	columns[0].nulls = columns[1].nulls = nulls;
	GjGroupsAdd(groups, &batch);
	GjGroupsFinish(groups);
	if (GjGroupsGetStats(groups)->passes > 1 || !GjGroupsGetStats(groups)->disk_size)
		elog(ERROR, "groups: nothing had to be spilled");
	if (count_groups(groups) != many + 1)
		elog(ERROR, "groups: there are " UINT64_FORMAT, GjGroupsGetStats(groups)->groups);
	if (GjGroupsGetStats(groups)->peak_memory > memory_limit)
		elog(ERROR, "groups: %zu bytes were taken, not %zu", GjGroupsGetStats(groups)->peak_memory,
			 memory_limit);
	GjGroupsFree(groups);
}

/*
 * Go through all groups of all passes
 */
static uint64
count_groups(GjGroups *groups)
{
	Datum	   *values;
	bool	   *isnull;
	uint64		n = 0;

	do
	{
		while (GjGroupsNext(groups, &values, &isnull))
			n++;
	} while (GjGroupsNextPass(groups));
	return n;
}

/*
 * Many values of few groups, each of which occurs twice: their sets are spilled again and again
 */
static void
check_many_values(int many, Size memory_limit, int ngroups)
{
	static const GjGroupSpec groupings[] = {{GJ_VALUE_INT4, 0}};
	static const GjAggSpec aggs[] = {
		{GJ_AGG_COUNT_DISTINCT, GJ_VALUE_INT4, 1, -1},
		{GJ_AGG_COUNT_DISTINCT, GJ_VALUE_INT8, 2, -1}
	};
	GjGroups   *groups = GjGroupsCreate(CurrentMemoryContext, memory_limit, false,
										ngroups > 0 ? 1 : 0, groupings, 2, aggs);
	int32		first[GJ_BATCH_ROWS];
	int32		second[GJ_BATCH_ROWS];
	int64		third[GJ_BATCH_ROWS];
	GjBatchColumn columns[3] = {{(char *) first, NULL, 4}, {(char *) second, NULL, 4},
	{(char *) third, NULL, 8}};
	GjBatch		batch = {0, NULL, columns};
	int64		total[2] = {0};
	Datum	   *values;
	bool	   *isnull;
	int			at = ngroups > 0 ? 1 : 0;

	GjGroupsBegin(groups);
	for (int row = 0; row < 2 * many; row += batch.nrows)
	{
		batch.nrows = Min(GJ_BATCH_ROWS, 2 * many - row);
		for (int i = 0; i < batch.nrows; i++)
		{
			int			value = (row + i) % many;

			first[i] = value % Max(ngroups, 1);
			second[i] = value * 5000 - many;
			third[i] = (int64) value << 30;
		}
		GjGroupsAdd(groups, &batch);
	}
	GjGroupsFinish(groups);
	do
	{
		while (GjGroupsNext(groups, &values, &isnull))
		{
			total[0] += DatumGetInt64(values[at]);
			total[1] += DatumGetInt64(values[at + 1]);
		}
	} while (GjGroupsNextPass(groups));

	if (total[0] != many || total[1] != many)
		elog(ERROR, "groups: " INT64_FORMAT " and " INT64_FORMAT " of %d values", total[0],
			 total[1], many);
	if (GjGroupsGetStats(groups)->disk_size == 0)
		elog(ERROR, "groups: %d values were not spilled", many);
	if (memory_limit > 1 && GjGroupsGetStats(groups)->peak_memory > memory_limit)
		elog(ERROR, "groups: %zu bytes for values", GjGroupsGetStats(groups)->peak_memory);
	GjGroupsFree(groups);
}
