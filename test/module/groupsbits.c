/*-------------------------------------------------------------------------
 *
 * groupsbits.c
 *	  Test of count(DISTINCT) of values that are given as bits, and of others that come as rows.
 *
 * Ranges of bits overlap or not, begin anywhere, and may be too wide for the memory; rows are
 * inside of them, near, or far away.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "groupstest.h"

#define MANY_VALUES				40000
#define MOST_WORDS				1024
#define WORD_BITS				64

/* The values that have been added, with repetitions */
typedef struct Added
{
	int64		values[2 * MANY_VALUES];
	int			n;
} Added;

static int
compare_values(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return (x > y) - (x < y);
}

static int64
count_values(Added *added)
{
	int64		n = 0;

	qsort(added->values, added->n, sizeof(int64), compare_values);
	for (int i = 0; i < added->n; i++)
		n += i == 0 || added->values[i] != added->values[i - 1];
	return n;
}

static void
add_rows(GjGroups *groups, const int64 *values, int nvalues)
{
	GjBatchColumn column = {.width = sizeof(int64)};
	GjBatch		batch = {.columns = &column};

	for (int first = 0; first < nvalues; first += batch.nrows)
	{
		column.values = (const char *) (values + first);
		batch.nrows = Min(GJ_BATCH_ROWS, nvalues - first);
		GjGroupsAdd(groups, &batch);
	}
}

/*
 * Add a range of bits, or the same values as rows if the groups want that.  Returns true if bits
 * have been added.
 */
static bool
add_bits(GjGroups *groups, Added *added, int64 low, uint64 nwords, pg_prng_state *prng)
{
	uint64		words[MOST_WORDS] = {0};
	int			first = added->n;

	for (int i = random_below(prng, 3000); i >= 0; i--)
	{
		uint64		at = pg_prng_uint64(prng) % (nwords * WORD_BITS);

		/* no value is above the greatest */
		at = Min(at, (uint64) PG_INT64_MAX - (uint64) low);
		words[at / WORD_BITS] |= UINT64CONST(1) << at % WORD_BITS;
		added->values[added->n++] = (int64) ((uint64) low + at);
	}
	if (GjGroupsAddBits(groups, low, words, nwords))
		return true;
	add_rows(groups, added->values + first, added->n - first);
	return false;
}

static void
add_some_rows(GjGroups *groups, Added *added, int64 low, int64 reach, pg_prng_state *prng)
{
	int			first = added->n;

	for (int i = random_below(prng, 3000); i > 0; i--)
	{
		uint64		away = pg_prng_uint64(prng) % (2 * reach);

		added->values[added->n++] = (int64) ((uint64) low + away - (uint64) reach);
	}
	add_rows(groups, added->values + first, added->n - first);
}

/*
 * Add bits and rows, and compare the number of values.  Returns how often bits have been added.
 */
static int
check(GjValueType type, Size memory_limit, pg_prng_state *prng)
{
	GjAggSpec	agg = {GJ_AGG_COUNT_DISTINCT, type, 0, -1};
	GjGroups   *groups = GjGroupsCreate(CurrentMemoryContext, memory_limit, false, 0, NULL, 1,
										&agg);
	int64		limit = type == GJ_VALUE_INT4 ? PG_INT32_MAX : PG_INT64_MAX;
	int64		lows[] = {0, 1000, -limit, limit - 40000, limit - 63};
	int64		low = lows[random_below(prng, type == GJ_VALUE_INT4 ? 3 : 5)];
	int64		reach = random_below(prng, 2) == 0 ? 100000 : 10000000;
	Added	   *added = palloc0(sizeof(Added));
	int			with_bits = 0;
	Datum	   *values;
	bool	   *isnull;

	GjGroupsBegin(groups);
	for (int i = random_below(prng, 4); i >= 0; i--)
	{
		int64		from = low + random_below(prng, 3) * (low > limit / 2 ? 1 : 30011);

		with_bits += add_bits(groups, added, from, 1 + random_below(prng, MOST_WORDS), prng);
	}
	for (int i = random_below(prng, 3); i > 0; i--)
	{
		if (low > -limit && low < limit / 2)
			add_some_rows(groups, added, low, reach, prng);
	}
	GjGroupsFinish(groups);
	if (!GjGroupsNext(groups, &values, &isnull) ||
		DatumGetInt64(values[0]) != count_values(added) ||
		GjGroupsGetStats(groups)->peak_memory > Max(memory_limit, (Size) 256 * 1024))
		elog(ERROR, "groups: " INT64_FORMAT " values, not " INT64_FORMAT ", in %zu bytes",
			 DatumGetInt64(values[0]), count_values(added),
			 GjGroupsGetStats(groups)->peak_memory);
	GjGroupsFree(groups);
	pfree(added);
	return with_bits;
}

void
GjCheckBits(void)
{
	static const Size limits[] = {1, 64 * 1024, 1024 * 1024, 64 * 1024 * 1024};
	pg_prng_state prng;
	int			with_bits = 0;

	pg_prng_seed(&prng, 5);
	for (int i = 0; i < 400; i++)
		with_bits += check(i % 2 == 0 ? GJ_VALUE_INT8 : GJ_VALUE_INT4, limits[i / 2 % 4], &prng);
	if (with_bits < 200)
		elog(ERROR, "groups: bits have been added only %d times", with_bits);
}
