/*-------------------------------------------------------------------------
 *
 * groupsorder.c
 *	  Test of groups of rows ordered by a column, entirely or up to some row: each group must
 *	  occur once, with all its rows.
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
	int			run;			/* number of rows with one value */
	int			others;			/* number of values of the other column */
	int			begins_anew;	/* the order starts over at this row */
	int			null_at;		/* this row's value is NULL */
	bool		is_wide;		/* does the ordered column have 8 bytes? */
	Size		memory_limit;
} Pattern;

/* Get the number of a row's group: NULLs come after all others */
static int
group_of(const Pattern *pattern, int row)
{
	int			value = (row < pattern->begins_anew ? row : row - pattern->begins_anew) /
		pattern->run;

	if (row == pattern->null_at)
		value = pattern->nrows / pattern->run + 1;
	return value * pattern->others +
		(int) ((uint64) row * UINT64CONST(0x9E3779B97F4A7C15) >> 40) % pattern->others;
}

static void
add_rows(const Pattern *pattern, GjGroups *groups)
{
	int64		wide[GJ_BATCH_ROWS];
	int32		narrow[GJ_BATCH_ROWS];
	int32		other[GJ_BATCH_ROWS];
	uint8		nulls[GJ_BATCH_ROWS];
	GjBatchColumn columns[2] = {{(char *) other, NULL, 4}};
	GjBatch		batch = {0, NULL, columns};

	columns[1] = pattern->is_wide ? (GjBatchColumn) {(char *) wide, nulls, 8} :
		(GjBatchColumn) {(char *) narrow, nulls, 4};
	for (int row = 0; row < pattern->nrows; row += batch.nrows)
	{
		batch.nrows = Min(Min(GJ_BATCH_ROWS, 1 + row / 3), pattern->nrows - row);
		if (row < pattern->begins_anew) /* with a new batch: the order within a batch never
										 * descends */
			batch.nrows = Min(batch.nrows, pattern->begins_anew - row);
		for (int i = 0; i < batch.nrows; i++)
		{
			int			group = group_of(pattern, row + i);

			/* from the lowest number to above zero */
			nulls[i] = row + i == pattern->null_at;
			wide[i] = nulls[i] ? 0 : PG_INT64_MIN + group / pattern->others * INT64CONST(15);
			narrow[i] = nulls[i] ? 0 : group / pattern->others - 1000;
			other[i] = group % pattern->others;
		}
		GjGroupsAdd(groups, &batch);
	}
}

static int
delivered_group(const Pattern *pattern, const Datum *values, const bool *isnull)
{
	int64		value = isnull[1] ? pattern->nrows / pattern->run + 1 :
		pattern->is_wide ? (DatumGetInt64(values[1]) - PG_INT64_MIN) / 15 :
		(int64) DatumGetInt32(values[1]) + 1000;

	return (int) value * pattern->others + DatumGetInt32(values[0]);
}

static void
check_pattern(const Pattern *pattern, int naggs)
{
	const GjGroupSpec groupings[] = {{GJ_VALUE_INT4, 0},
	{pattern->is_wide ? GJ_VALUE_INT8 : GJ_VALUE_INT4, 1}};
	static const GjAggSpec aggs[] = {{GJ_AGG_COUNT_ROWS, 0, -1, -1}};
	GjGroups   *groups = GjGroupsCreate(CurrentMemoryContext, pattern->memory_limit, false,
										2, groupings, naggs, aggs);
	int			most = (pattern->nrows / pattern->run + 2) * pattern->others;
	int		   *nrows = palloc0(most * sizeof(int));
	Datum	   *values;
	bool	   *isnull;

	for (int row = 0; row < pattern->nrows; row++)
		nrows[group_of(pattern, row)]++;
	GjGroupsBegin(groups);
	add_rows(pattern, groups);
	GjGroupsFinish(groups);
	do
	{
		CHECK_FOR_INTERRUPTS();
		while (GjGroupsNext(groups, &values, &isnull))
		{
			int			group = delivered_group(pattern, values, isnull);

			if (group < 0 || group >= most || nrows[group] == 0 ||
				(naggs > 0 && DatumGetInt64(values[2]) != nrows[group]))
				elog(ERROR, "groups: %d of ordered rows comes twice, or is wrong", group);
			nrows[group] = 0;
		}
	} while (GjGroupsNextPass(groups));

	for (int i = 0; i < most; i++)
	{
		if (nrows[i] != 0)
			elog(ERROR, "groups: %d of ordered rows is missing", i);
	}
	if (GjGroupsGetStats(groups)->peak_memory > pattern->memory_limit ||
		(GjGroupsGetStats(groups)->passes > 1) != (pattern->memory_limit < 10 << 20))
		elog(ERROR, "groups: " UINT64_FORMAT " passes, %zu bytes",
			 GjGroupsGetStats(groups)->passes, GjGroupsGetStats(groups)->peak_memory);
	GjGroupsFree(groups);
}

void
GjCheckOrderedGroups(void)
{
	static const Pattern patterns[] = {
		{300000, 1, 4, 1000000, -1, false, (Size) 1 << 30},
		{300000, 250, 50, 1000000, -1, false, (Size) 1 << 30},
		{300000, 250, 10000, 1000000, -1, true, (Size) 1 << 30},
		{300000, 300000, 200000, 1000000, -1, false, (Size) 1 << 30},
		{300000, 20000, 100000, 1000000, -1, true, (Size) 1 << 30},
		{300000, 250, 1000, 150000, -1, false, (Size) 1 << 30},
		{300000, 250, 1000, 280000, -1, true, (Size) 1 << 30},
		{300000, 250, 1000, 1000000, 200000, false, (Size) 1 << 30},
		{300000, 250, 1000, 1000000, 200000, true, (Size) 1 << 30},
		{300000, 250, 1000, 1000000, -1, false, (Size) 4 << 20},
		{300000, 250, 1000, 200000, 250000, true, (Size) 4 << 20}
	};
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "order selftest",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	for (int i = 0; i < lengthof(patterns); i++)
	{
		for (int naggs = 0; naggs < 2; naggs++)
		{
			check_pattern(&patterns[i], naggs);
			MemoryContextReset(context);
		}
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
