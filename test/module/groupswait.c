/*-------------------------------------------------------------------------
 *
 * groupswait.c
 *	  Test of groups whose rows hardly ever repeat and are therefore buffered with their
 *	  aggregates: the results must be those of looking each row up at once.
 *
 * The comparison run uses count(DISTINCT), for which no row is buffered.  Rows with sums of
 * floats must not be buffered: these depend on the order of the rows.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "groupstest.h"

typedef struct Pattern
{
	int			nrows;
	int			every;			/* one row in "every" repeats */
	int			new_until;		/* from this row on, all repeat */
	int			nulls_from;		/* some of these keys have a NULL */
	int			no_values_from; /* some of these rows have no values for the aggregates */
	int			run;			/* number of adjacent rows with the same key */
	bool		is_weighted;
	bool		is_partial;
	bool		is_expected;	/* is every row expected to form a group? */
	Size		memory_limit;
} Pattern;

/*
 * Multiplying by SCATTER destroys the order of keys; multiplying by GATHER, its inverse, restores
 * it
 */
#define SCATTER					((uint32) 2654435761U)
#define GATHER					((uint32) 244002641U)

enum
{
	KEY, OTHER_KEY, INT2, INT4, INT8, FLOAT8, FILTER, NCOLUMNS
};

static const GjGroupSpec groupings[] = {{GJ_VALUE_INT4, KEY}, {GJ_VALUE_INT4, OTHER_KEY}};
static const GjAggSpec aggs[] = {
	{GJ_AGG_COUNT_ROWS, 0, -1, -1},
	{GJ_AGG_COUNT, GJ_VALUE_INT4, INT4, -1},
	{GJ_AGG_SUM, GJ_VALUE_INT2, INT2, -1},
	{GJ_AGG_SUM, GJ_VALUE_INT4, INT4, -1},
	{GJ_AGG_SUM, GJ_VALUE_INT8, INT8, -1},
	{GJ_AGG_AVG, GJ_VALUE_INT4, INT4, -1},
	{GJ_AGG_AVG, GJ_VALUE_INT8, INT8, FILTER},
	{GJ_AGG_MIN, GJ_VALUE_INT4, INT4, FILTER},
	{GJ_AGG_MAX, GJ_VALUE_INT2, INT2, -1},
	{GJ_AGG_MIN, GJ_VALUE_FLOAT8, FLOAT8, -1},
	{GJ_AGG_MAX, GJ_VALUE_FLOAT8, FLOAT8, -1},
	{GJ_AGG_BOOL_OR, GJ_VALUE_BOOL, FILTER, -1},
	{GJ_AGG_ONE_ROW, GJ_VALUE_INT4, INT4, -1},
	{GJ_AGG_ONE_ROW, GJ_VALUE_INT8, INT8, -1},
	{GJ_AGG_COUNT_DISTINCT, GJ_VALUE_INT2, INT2, -1},
	{GJ_AGG_SUM, GJ_VALUE_FLOAT8, FLOAT8, -1},
	{GJ_AGG_AVG, GJ_VALUE_FLOAT8, FLOAT8, -1}
};

/* Selections of aggregates */
typedef struct Aggs
{
	int			first;
	int			n;
} Aggs;

#define WAITING					((Aggs) {0, 14})
#define AT_ONCE					((Aggs) {0, 15})
#define FLOATS					((Aggs) {15, 2})
#define FLOATS_AT_ONCE			((Aggs) {14, 3})

#define HAS_DISTINCT(some)		((some).first + (some).n > 14 && (some).first <= 14)

#define FIRST					((int) lengthof(groupings))

static int *
make_ids(const Pattern *pattern, pg_prng_state *prng)
{
	int		   *ids = palloc(pattern->nrows * sizeof(int));

	for (int i = 0; i < pattern->nrows; i++)
	{
		int			at = i / pattern->run;
		bool		repeats = i >= pattern->new_until || at % pattern->every == pattern->every - 1;

		if (i % pattern->run > 0)
			ids[i] = ids[i - 1];
		else
			ids[i] = repeats ? random_below(prng, Min(i, pattern->new_until) / pattern->run) : at;
	}
	return ids;
}

/* Get the first row of each key; -1 if it has none */
static int *
find_firsts(const Pattern *pattern, const int *ids)
{
	int		   *firsts = palloc(pattern->nrows * sizeof(int));

	memset(firsts, -1, pattern->nrows * sizeof(int));
	for (int row = pattern->nrows - 1; row >= 0; row--)
		firsts[ids[row]] = row;
	return firsts;
}

static void
put_row(const Pattern *pattern, int row, int id, GjBatchColumn *columns, int at)
{
	static const double floats[] = {0.0, -0.0, -NAN, 0.1, 1e17, -1e17, -INFINITY};
	bool		is_null = row >= pattern->no_values_from && row % 3 == 0;

	((uint32 *) columns[KEY].values)[at] = (uint32) id * SCATTER;
	((bool *) columns[OTHER_KEY].nulls)[at] = id >= pattern->nulls_from && id % 3 == 0;
	((int32 *) columns[OTHER_KEY].values)[at] = columns[OTHER_KEY].nulls[at] ? 0 : id % 7;
	((int16 *) columns[INT2].values)[at] = row % 1000 - 600;
	((int32 *) columns[INT4].values)[at] = row * 7919;
	((bool *) columns[INT4].nulls)[at] = is_null;
	((int64 *) columns[INT8].values)[at] = row % 2 == 0 ? PG_INT64_MAX - row : row - PG_INT64_MAX;
	((double *) columns[FLOAT8].values)[at] = floats[id % 2 == 0 ? row % 7 : 3 + row % 3];
	((bool *) columns[FLOAT8].nulls)[at] = is_null;
	((bool *) columns[FILTER].values)[at] = row / 5 % 3 == 0;
}

/*
 * The groups are partial, and no more of them fit: add up their counts
 */
static void
flush(GjGroups *groups, int64 *counts)
{
	Datum	   *values;
	bool	   *isnull;

	GjGroupsFinish(groups);
	while (GjGroupsNext(groups, &values, &isnull))
		counts[DatumGetUInt32(values[0]) * GATHER] += DatumGetInt64(values[FIRST]);
	GjGroupsBegin(groups);
}

static void
add_rows(const Pattern *pattern, const int *ids, GjGroups *groups, int64 *counts)
{
	static const uint16 widths[NCOLUMNS] = {4, 4, 2, 4, 8, 8, 1};
	GjBatchColumn columns[NCOLUMNS] = {{0}};
	uint32		weights[GJ_BATCH_ROWS];
	GjBatch		batch = {0, pattern->is_weighted ? weights : NULL, columns};

	for (int i = 0; i < NCOLUMNS; i++)
	{
		columns[i].values = palloc(GJ_BATCH_ROWS * sizeof(int64));
		columns[i].nulls = palloc0(GJ_BATCH_ROWS);
		columns[i].width = widths[i];
	}
	for (int row = 0; row < pattern->nrows; row += batch.nrows)
	{
		batch.nrows = Min(Min(GJ_BATCH_ROWS - row % 7, 1 + row / 3), pattern->nrows - row);
		for (int i = 0; i < batch.nrows; i++)
		{
			put_row(pattern, row + i, ids[row + i], columns, i);
			weights[i] = (row + i) % 5 + 1;
		}
		if (pattern->is_partial && !GjGroupsMakeRoom(groups))
			flush(groups, counts);
		GjGroupsAdd(groups, &batch);
	}
}

/* Hash the results, except the one that prevents buffering */
static uint64
digest(Aggs some, const Datum *values, const bool *isnull)
{
	uint64		hash = 1;

	for (int i = FIRST; i < FIRST + some.n; i++)
	{
		GjAggSpec	agg = aggs[some.first + i - FIRST];
		bool		is_numeric = agg.type == GJ_VALUE_INT8 ? agg.kind == GJ_AGG_SUM ||
			agg.kind == GJ_AGG_AVG : agg.type == GJ_VALUE_INT4 && agg.kind == GJ_AGG_AVG;
		Pointer		numeric = DatumGetPointer(values[i]);
		uint64		part = isnull[i] ? 0 : values[i];

		if (agg.kind == GJ_AGG_COUNT_DISTINCT)
			continue;
		if (is_numeric && !isnull[i])
			part = DatumGetUInt64(hash_any_extended((unsigned char *) numeric,
													VARSIZE_ANY(numeric), 0));
		hash = hash_combine64(hash, part);
	}
	return hash;
}

/*
 * Get the digest of each group; with enough memory they come in the order in which they were
 * first seen.  Partial groups come several times: return counts of them instead.
 */
static uint64 *
get_results(const Pattern *pattern, const int *ids, Aggs some)
{
	MemoryContext results = AllocSetContextCreate(CurrentMemoryContext, "results",
												  ALLOCSET_DEFAULT_SIZES);
	GjGroups   *groups = GjGroupsCreate(CurrentMemoryContext, pattern->memory_limit,
										pattern->is_partial && !HAS_DISTINCT(some),
										lengthof(groupings), groupings, some.n,
										aggs + some.first);
	uint64	   *digests = palloc0(pattern->nrows * sizeof(uint64));
	int		   *firsts = find_firsts(pattern, ids);
	int			last = -1;
	Datum	   *values;
	bool	   *isnull;
	MemoryContext old;

	GjGroupsExpect(groups, pattern->is_expected ? pattern->nrows : 0);
	GjGroupsBegin(groups);
	add_rows(pattern, ids, groups, (int64 *) digests);
	GjGroupsFinish(groups);
	old = MemoryContextSwitchTo(results);
	do
	{
		CHECK_FOR_INTERRUPTS();
		for (; GjGroupsNext(groups, &values, &isnull); MemoryContextReset(results))
		{
			uint32		id = DatumGetUInt32(values[0]) * GATHER;

			if (id >= pattern->nrows || isnull[0] ||
				isnull[1] != (id >= pattern->nulls_from && id % 3 == 0) ||
				(!isnull[1] && DatumGetInt32(values[1]) != id % 7) ||
				(!pattern->is_partial && digests[id] != 0))
				elog(ERROR, "groups: %u of rows that wait comes twice, or is wrong", id);
			if (pattern->memory_limit == (Size) 1 << 30 && firsts[id] <= last)
				elog(ERROR, "groups: %u of rows that wait comes in the wrong place", id);
			last = firsts[id];
			digests[id] = pattern->is_partial ? digests[id] + DatumGetInt64(values[FIRST]) :
				digest(some, values, isnull);
		}
	} while (GjGroupsNextPass(groups));
	MemoryContextSwitchTo(old);

	if (GjGroupsGetStats(groups)->peak_memory > pattern->memory_limit)
		elog(ERROR, "groups: %zu bytes for rows that wait",
			 GjGroupsGetStats(groups)->peak_memory);
	GjGroupsFree(groups);
	return digests;
}

static void
compare(const Pattern *pattern, const uint64 *waited, const uint64 *at_once)
{
	for (int id = 0; id < pattern->nrows; id++)
	{
		if (waited[id] != at_once[id])
			elog(ERROR, "groups: %d of rows that wait is missing, or its results are wrong", id);
	}
}

static void
check_pattern(const Pattern *pattern, pg_prng_state *prng)
{
	int		   *ids = make_ids(pattern, prng);

	compare(pattern, get_results(pattern, ids, WAITING), get_results(pattern, ids, AT_ONCE));
	if (pattern->run > 1)
		compare(pattern, get_results(pattern, ids, FLOATS),
				get_results(pattern, ids, FLOATS_AT_ONCE));
}

void
GjCheckWaitingGroups(void)
{
	const int	never = 1000000;
	const Size	much = (Size) 1 << 30;
	const Pattern patterns[] = {
		{80000, never, never, never, never, 1, false, false, false, much},
		{80000, 20, never, never, never, 1, false, false, true, much},
		{80000, 2, never, never, never, 1, false, false, false, much},
		{120000, 20, 60000, never, 100000, 1, false, false, true, much},
		{80000, 20, never, 40000, 60000, 1, true, false, false, much},
		{80000, 20, 50000, never, 0, 1, true, false, true, much},
		{500000, 20, 420000, never, 300000, 20, true, false, false, much},
		{120000, 20, never, 90000, 40000, 1, false, false, true, (Size) 12 << 20},
		{120000, 20, never, never, never, 1, true, true, true, (Size) 12 << 20},
		{120000, 3, never, never, 0, 1, false, true, false, (Size) 12 << 20},
		{300000, 20, 70000, never, never, 1, false, true, false, (Size) 24 << 20}
	};
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "waiting selftest",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	pg_prng_state prng;

	pg_prng_seed(&prng, 29);
	for (int i = 0; i < lengthof(patterns); i++)
	{
		check_pattern(&patterns[i], &prng);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
