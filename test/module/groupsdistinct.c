/*-------------------------------------------------------------------------
 *
 * groupsdistinct.c
 *	  Test of groups without aggregates: each distinct row must be delivered once.
 *
 * Most rows are new; some, or all from some row on, repeat earlier ones; NULLs may begin late.
 * Some tests have little memory, so that rows are spilled.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "groupstest.h"

typedef struct Pattern
{
	int			nrows;
	int			every;			/* one row in "every" repeats */
	int			new_until;		/* from this row on, all repeat */
	int			nulls_from;		/* from this row on, some are NULL */
	Size		memory_limit;
	uint64		min_passes;
} Pattern;

/* Rows as generated: the value, twice, and one more if the second column is NULL */
typedef struct Rows
{
	int		   *ids;
	int		   *firsts;			/* the distinct rows, in order of their first occurrence */
	int			nfirsts;
} Rows;

static void
make_rows(const Pattern *pattern, Rows *rows, pg_prng_state *prng)
{
	bool	   *seen = palloc0(2 * pattern->nrows);

	rows->ids = palloc(pattern->nrows * sizeof(int));
	rows->firsts = palloc(pattern->nrows * sizeof(int));
	rows->nfirsts = 0;
	for (int i = 0; i < pattern->nrows; i++)
	{
		bool		repeats = i >= pattern->new_until || i % pattern->every == pattern->every - 1;
		int			id = 2 * (repeats ? random_below(prng, Min(i, pattern->new_until)) : i) +
			(i >= pattern->nulls_from && i % 3 == 0);

		rows->ids[i] = id;
		if (!seen[id])
			rows->firsts[rows->nfirsts++] = id;
		seen[id] = true;
	}
	pfree(seen);
}

static void
add_rows(const Pattern *pattern, const Rows *rows, GjGroups *groups)
{
	int64		first[GJ_BATCH_ROWS];
	int64		second[GJ_BATCH_ROWS];
	uint8		nulls[GJ_BATCH_ROWS];
	GjBatchColumn columns[2] = {{(char *) first, NULL, 8}, {(char *) second, nulls, 8}};
	GjBatch		batch = {0, NULL, columns};

	for (int row = 0; row < pattern->nrows; row += batch.nrows)
	{
		batch.nrows = Min(Min(GJ_BATCH_ROWS, 1 + row / 3), pattern->nrows - row);
		for (int i = 0; i < batch.nrows; i++)
		{
			int			id = rows->ids[row + i];

			first[i] = id / 2;
			nulls[i] = id % 2;
			second[i] = nulls[i] ? 0 : -(id / 2);
		}
		GjGroupsAdd(groups, &batch);
	}
}

static void
check_pass(const Pattern *pattern, const Rows *rows, GjGroups *groups, bool *delivered)
{
	bool		in_order = pattern->min_passes == 1;
	int			n = 0;
	Datum	   *values;
	bool	   *isnull;

	while (GjGroupsNext(groups, &values, &isnull))
	{
		int			id = 2 * (int) DatumGetInt64(values[0]) + isnull[1];

		if (id < 0 || id >= 2 * pattern->nrows || delivered[id] ||
			(!isnull[1] && DatumGetInt64(values[1]) != -(id / 2)))
			elog(ERROR, "groups: %d comes twice, or is wrong", id);
		if (in_order && rows->firsts[n++] != id)
			elog(ERROR, "groups: %d comes in the wrong place", id);
		delivered[id] = true;
	}
}

static void
check_pattern(const Pattern *pattern, pg_prng_state *prng)
{
	static const GjGroupSpec groupings[] = {{GJ_VALUE_INT8, 0}, {GJ_VALUE_INT8, 1}};
	GjGroups   *groups = GjGroupsCreate(CurrentMemoryContext, pattern->memory_limit, false,
										2, groupings, 0, NULL);
	Rows		rows;
	bool	   *delivered = palloc0(2 * pattern->nrows);

	make_rows(pattern, &rows, prng);
	GjGroupsBegin(groups);
	add_rows(pattern, &rows, groups);
	GjGroupsFinish(groups);
	do
	{
		CHECK_FOR_INTERRUPTS();
		check_pass(pattern, &rows, groups, delivered);
	} while (GjGroupsNextPass(groups));

	for (int i = 0; i < rows.nfirsts; i++)
	{
		if (!delivered[rows.firsts[i]])
			elog(ERROR, "groups: %d is missing", rows.firsts[i]);
	}
	if (GjGroupsGetStats(groups)->groups != rows.nfirsts ||
		GjGroupsGetStats(groups)->passes < pattern->min_passes ||
		GjGroupsGetStats(groups)->peak_memory > pattern->memory_limit)
		elog(ERROR, "groups: " UINT64_FORMAT " are distinct, of %d, " UINT64_FORMAT
			 " passes, %zu bytes", GjGroupsGetStats(groups)->groups, rows.nfirsts,
			 GjGroupsGetStats(groups)->passes, GjGroupsGetStats(groups)->peak_memory);
	GjGroupsFree(groups);
}

void
GjCheckDistinctGroups(void)
{
	static const Pattern patterns[] = {
		{300000, 1000000, 1000000, 1000000, (Size) 1 << 30, 1},
		{700000, 20, 1000000, 1000000, (Size) 1 << 30, 1},
		{300000, 2, 1000000, 1000000, (Size) 1 << 30, 1},
		{300000, 20, 150000, 1000000, (Size) 1 << 30, 1},
		{300000, 20, 20000, 1000000, (Size) 1 << 30, 1},
		{300000, 20, 1000000, 100000, (Size) 1 << 30, 1},
		{300000, 20, 1000000, 1000000, (Size) 4 << 20, 2},
		{300000, 20, 150000, 1000000, (Size) 4 << 20, 2},
		{300000, 20, 1000000, 100000, (Size) 4 << 20, 2}
	};
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "distinct selftest",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	pg_prng_state prng;

	pg_prng_seed(&prng, 12);
	for (int i = 0; i < lengthof(patterns); i++)
	{
		check_pattern(&patterns[i], &prng);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
