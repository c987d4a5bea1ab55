/*-------------------------------------------------------------------------
 *
 * groupstiming.c
 *	  Test of groups and aggregates: timings for a million rows.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "utils/memutils.h"

#include "groupstest.h"

typedef struct Timing
{
	const char *name;
	Size		memory_limit;
	int			ngroupings;
	GjGroupSpec groupings[6];
	int			naggs;
	GjAggSpec	aggs[3];
	double		expected;		/* groups */
} Timing;

/* Timing: a million rows, with the columns that the timings name by number */
#define TIMED_ROWS				1000000
#define TIMED_COLUMNS			10
#define TIMED_RUNS				15

static int64
timed_value(int column, pg_prng_state *prng, int row)
{
	uint64		random = pg_prng_uint64(prng);

	switch (column)
	{
		case 0:					/* a year */
			return 1980 + (int64) (random % 40);
		case 1:					/* one of 4,000 keys, far apart */
			return (int64) (random % 4000) * 1237 + 5;
		case 2:					/* one of 50,000 companies */
			return (int64) (random % 50000);
		case 3:					/* unique */
			return row;
		case 4:					/* a 64-bit number */
			return (int64) (random >> 3);
		case 7:					/* unique, in no order */
			return (int32) ((uint32) row * UINT64CONST(2654435761));
		default:
			return (int64) (random % 100000);
	}
}

/* Processor time, because the machine may be busy with other work */
static double
processor_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000.0 + now.tv_nsec / 1000000.0;
}

static void
time_groups(const Timing *timing, GjBatchColumn *columns)
{
	double		best = 1e9;
	double		best_delivery = 1e9;
	GjGroups   *groups = NULL;
	Datum	   *values;
	bool	   *isnull;

	for (int i = 0; i < TIMED_RUNS; i++)
	{
		double		start = processor_ms();

		groups = GjGroupsCreate(CurrentMemoryContext, timing->memory_limit, false,
								timing->ngroupings, timing->groupings, timing->naggs,
								timing->aggs);
		GjGroupsExpect(groups, timing->expected);
		GjGroupsBegin(groups);
		for (int row = 0; row < TIMED_ROWS; row += GJ_BATCH_ROWS)
		{
			GjBatchColumn now[TIMED_COLUMNS];
			GjBatch		batch = {Min(GJ_BATCH_ROWS, TIMED_ROWS - row), NULL, now};

			for (int j = 0; j < TIMED_COLUMNS; j++)
			{
				now[j] = columns[j];
				now[j].values += (Size) row * columns[j].width;
			}
			GjGroupsAdd(groups, &batch);
		}
		GjGroupsFinish(groups);
		best = Min(best, processor_ms() - start);

		start = processor_ms();
		do
		{
			while (GjGroupsNext(groups, &values, &isnull))
				;
		} while (GjGroupsNextPass(groups));
		best_delivery = Min(best_delivery, processor_ms() - start);
		if (i < TIMED_RUNS - 1)
			GjGroupsFree(groups);
	}
	elog(NOTICE, "%-28s %7.2f ms, delivery %6.2f ms, " UINT64_FORMAT " groups, %zu kB",
		 timing->name, best, best_delivery, GjGroupsGetStats(groups)->groups,
		 GjGroupsGetStats(groups)->peak_memory / 1024);
	GjGroupsFree(groups);
}

void
GjTimeGroups(const char *pattern)
{
	static const Timing timings[] = {
		{"count", (Size) 1 << 30, 0, {{0}}, 1, {{GJ_AGG_COUNT_ROWS, 0, -1, -1}}},
		{"sum int4", (Size) 1 << 30, 0, {{0}}, 1, {{GJ_AGG_SUM, GJ_VALUE_INT4, 2, -1}}},
		{"sum int8", (Size) 1 << 30, 0, {{0}}, 1, {{GJ_AGG_SUM, GJ_VALUE_INT8, 4, -1}}},
		{"min int4", (Size) 1 << 30, 0, {{0}}, 1, {{GJ_AGG_MIN, GJ_VALUE_INT4, 2, -1}}},
		{"avg float8", (Size) 1 << 30, 0, {{0}}, 1, {{GJ_AGG_AVG, GJ_VALUE_FLOAT8, 9, -1}}},
		{"sum float8", (Size) 1 << 30, 0, {{0}}, 1, {{GJ_AGG_SUM, GJ_VALUE_FLOAT8, 9, -1}}},
		{"max float8", (Size) 1 << 30, 0, {{0}}, 1, {{GJ_AGG_MAX, GJ_VALUE_FLOAT8, 9, -1}}},
		{"count distinct", (Size) 1 << 30, 0, {{0}}, 1,
		{{GJ_AGG_COUNT_DISTINCT, GJ_VALUE_INT4, 2, -1}}},
		{"count distinct int8", (Size) 1 << 30, 0, {{0}}, 1,
		{{GJ_AGG_COUNT_DISTINCT, GJ_VALUE_INT8, 4, -1}}},
		{"by year, count", (Size) 1 << 30, 1, {{GJ_VALUE_INT4, 0}}, 1,
		{{GJ_AGG_COUNT_ROWS, 0, -1, -1}}},
		{"by year, count sum", (Size) 1 << 30, 1, {{GJ_VALUE_INT4, 0}}, 2,
		{{GJ_AGG_COUNT_ROWS, 0, -1, -1}, {GJ_AGG_SUM, GJ_VALUE_INT4, 2, -1}}},
		{"by key, count", (Size) 1 << 30, 1, {{GJ_VALUE_INT4, 1}}, 1,
		{{GJ_AGG_COUNT_ROWS, 0, -1, -1}}},
		{"by key, count sum", (Size) 1 << 30, 1, {{GJ_VALUE_INT4, 1}}, 2,
		{{GJ_AGG_COUNT_ROWS, 0, -1, -1}, {GJ_AGG_SUM, GJ_VALUE_INT4, 2, -1}}},
		{"by year, count distinct", (Size) 1 << 30, 1, {{GJ_VALUE_INT4, 0}}, 1,
		{{GJ_AGG_COUNT_DISTINCT, GJ_VALUE_INT4, 2, -1}}},
		{"by year and key, sum", (Size) 1 << 30, 2, {{GJ_VALUE_INT4, 0}, {GJ_VALUE_INT4, 1}}, 1,
		{{GJ_AGG_SUM, GJ_VALUE_INT4, 2, -1}}},
		{"distinct two, a million", (Size) 1 << 30, 2, {{GJ_VALUE_INT4, 2}, {GJ_VALUE_INT4, 3}}, 0},
		{"by two, count, a million", (Size) 1 << 30, 2, {{GJ_VALUE_INT4, 2}, {GJ_VALUE_INT4, 3}}, 1,
		{{GJ_AGG_COUNT_ROWS, 0, -1, -1}}},
		{"two, a million expected", (Size) 1 << 30, 2,
		{{GJ_VALUE_INT4, 2}, {GJ_VALUE_INT4, 3}}, 1, {{GJ_AGG_COUNT_ROWS, 0, -1, -1}}, 1000000},
		{"scattered million, distinct", (Size) 1 << 30, 2,
		{{GJ_VALUE_INT4, 2}, {GJ_VALUE_INT4, 7}}, 0, {{0}}, 1000000},
		{"scattered million, two", (Size) 1 << 30, 2,
		{{GJ_VALUE_INT4, 2}, {GJ_VALUE_INT4, 7}}, 2,
		{{GJ_AGG_COUNT_ROWS, 0, -1, -1}, {GJ_AGG_SUM, GJ_VALUE_INT4, 0, -1}}, 1000000},
		{"two, a million, 4 MB", (Size) 4 << 20, 2,
		{{GJ_VALUE_INT4, 2}, {GJ_VALUE_INT4, 3}}, 1, {{GJ_AGG_COUNT_ROWS, 0, -1, -1}}, 1000000},
		{"two, a million, 64 kB", (Size) 64 << 10, 2,
		{{GJ_VALUE_INT4, 2}, {GJ_VALUE_INT4, 3}}, 1, {{GJ_AGG_COUNT_ROWS, 0, -1, -1}}, 1000000},
		{"distinct six", (Size) 1 << 30, 6, {{GJ_VALUE_INT4, 2}, {GJ_VALUE_INT4, 3},
		{GJ_VALUE_INT4, 0}, {GJ_VALUE_INT4, 1}, {GJ_VALUE_INT4, 5}, {GJ_VALUE_INT4, 6}}, 0},
		{"six distinct, 32 MB", (Size) 32 << 20, 6, {{GJ_VALUE_INT4, 2}, {GJ_VALUE_INT4, 3},
		{GJ_VALUE_INT4, 0}, {GJ_VALUE_INT4, 1}, {GJ_VALUE_INT4, 5}, {GJ_VALUE_INT4, 6}}, 0},
		{"distinct unique int8", (Size) 1 << 30, 1, {{GJ_VALUE_INT8, 4}}, 0},
		{"distinct unique int4", (Size) 1 << 30, 1, {{GJ_VALUE_INT4, 3}}, 0}
	};
	GjBatchColumn columns[TIMED_COLUMNS];
	pg_prng_state prng;

	pg_prng_seed(&prng, 7);
	for (int i = 0; i < TIMED_COLUMNS; i++)
	{
		char	   *values = MemoryContextAllocHuge(CurrentMemoryContext,
													TIMED_ROWS * sizeof(int64));

		columns[i] = (GjBatchColumn) {values, NULL, i == 4 || i == 9 ? 8 : 4};
		for (int row = 0; row < TIMED_ROWS; row++)
		{
			int64		value = timed_value(i, &prng, row);

			if (i == 9)
				((float8 *) values)[row] = value * 0.01;
			else if (i == 4)
				((int64 *) values)[row] = value;
			else
				((int32 *) values)[row] = (int32) value;
		}
	}
	for (int i = 0; i < lengthof(timings); i++)
	{
		if (strstr(timings[i].name, pattern) != NULL || strcmp(pattern, "all") == 0)
			time_groups(&timings[i], columns);
	}
}
