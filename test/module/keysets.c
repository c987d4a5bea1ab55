/*-------------------------------------------------------------------------
 *
 * keysets.c
 *	  Test of sets/keyset.c and sets/intervals.c: combinations of random sets against the
 *	  definition of AND and OR, key by key, and the intervals of one set against each end of
 *	  these.  Part of gpujoin_kernel_selftest().
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sets/sets.h"
#include "keysets.h"

#define COMBINATIONS			400

/* Keys are multiples of a factor: narrow sets have bitmaps, wide ones hash tables */
#define SMALL_SPAN				40
#define WIDE_FACTOR				((int64) 1 << 22)

static void add_all(GjKeySet *set, const GjKeySet *other);
static GjKeySet *random_set(pg_prng_state *prng, int key_width, int64 factor);
static int64 random_end(pg_prng_state *prng, int64 factor, int64 outermost);
static void check_combination(const GjKeySet *a, const GjKeySet *b, const GjKeySet *result,
							  bool is_union, int64 factor);
static void check_null_or_excluded(void);
static void check_seek(const GjKeySet *set, int64 key);
static void check_apart(const GjKeySet *set);

/*
 * Intersect and unite small sets, all other keys than those of small sets, and intervals, in each
 * combination
 */
void
GjTestKeySetCombinations(pg_prng_state *prng, int key_width)
{
	check_null_or_excluded();
	for (int i = 0; i < COMBINATIONS; i++)
	{
		int64		factor = (i % 4 < 2) ? 1 : WIDE_FACTOR;
		GjKeySet   *a = random_set(prng, key_width, factor);
		GjKeySet   *b = random_set(prng, key_width, factor);
		bool		is_union = (i % 2 == 0);
		GjKeySet   *result = GjKeySetCreate(CurrentMemoryContext, key_width);

		add_all(result, a->excluded != NULL ? a->excluded : a);
		result->nulls = a->nulls;
		if (a->excluded != NULL)
			GjKeySetExclude(result);
		else
			GjKeySetFinish(result);

		if (is_union)
			GjKeySetUnite(result, b);
		else
			GjKeySetIntersect(result, b);
		check_combination(a, b, result, is_union, factor);
		GjKeySetFree(a);
		GjKeySetFree(b);
		GjKeySetFree(result);
	}
}

static void
add_all(GjKeySet *set, const GjKeySet *other)
{
	for (uint64 k = 0; k < GjKeySetCount(other); k++)
		GjKeySetAdd(set, GjKeySetAt(other, k));
	for (uint64 k = 0; k < other->nintervals; k++)
		GjKeySetAddInterval(set, other->intervals[k].low, other->intervals[k].high);
}

static GjKeySet *
random_set(pg_prng_state *prng, int key_width, int64 factor)
{
	GjKeySet   *set = GjKeySetCreate(CurrentMemoryContext, key_width);
	int			nkeys = (int) (pg_prng_uint64(prng) % SMALL_SPAN);

	for (int i = 0; i < nkeys; i++)
		GjKeySetAdd(set, (int64) (pg_prng_uint64(prng) % SMALL_SPAN) * factor);
	if (pg_prng_uint64(prng) % 2 == 0)
	{
		for (int i = (int) (pg_prng_uint64(prng) % 4); i >= 0; i--)
			GjKeySetAddInterval(set, random_end(prng, factor, PG_INT64_MIN),
								random_end(prng, factor, PG_INT64_MAX));
	}
	set->nulls = pg_prng_uint64(prng) % 2 == 0;
	if (set->nintervals == 0 && pg_prng_uint64(prng) % 2 == 0)
		GjKeySetExclude(set);
	else
		GjKeySetFinish(set);
	return set;
}

/* Return an end of an interval: a key, one beside it, or the outermost integer */
static int64
random_end(pg_prng_state *prng, int64 factor, int64 outermost)
{
	int64		key = (int64) (pg_prng_uint64(prng) % SMALL_SPAN) * factor;
	int			kind = (int) (pg_prng_uint64(prng) % 8);

	return kind == 0 ? outermost : kind < 4 ? key + kind - 2 : key;
}

static void
check_combination(const GjKeySet *a, const GjKeySet *b, const GjKeySet *result, bool is_union,
				  int64 factor)
{
	bool		nulls = is_union ? a->nulls || b->nulls : a->nulls && b->nulls;

	if (result->nulls != nulls)
		elog(ERROR, "combination of key sets is wrong for NULL");

	for (int64 i = -1; i <= SMALL_SPAN; i++)
	{
		for (int64 key = i * factor - 2; key <= i * factor + 2; key++)
		{
			bool		in_a = GjKeySetContains(a, key);
			bool		in_b = GjKeySetContains(b, key);

			if (GjKeySetContains(result, key) != (is_union ? in_a || in_b : in_a && in_b))
				elog(ERROR, "combination of key sets is wrong for key " INT64_FORMAT, key);
			check_seek(result, key);
		}
	}
	check_apart(result);
}

/*
 * A union of NOT IN with IS NULL must have the list of excluded keys, whichever comes first
 */
static void
check_null_or_excluded(void)
{
	for (int first = 0; first <= 1; first++)
	{
		GjKeySet   *sets[2];

		for (int i = 0; i < 2; i++)
			sets[i] = GjKeySetCreate(CurrentMemoryContext, sizeof(int64));
		GjKeySetAdd(sets[first], 5);
		GjKeySetAdd(sets[first], 7);
		GjKeySetExclude(sets[first]);
		sets[1 - first]->nulls = true;
		GjKeySetFinish(sets[1 - first]);
		GjKeySetUnite(sets[0], sets[1]);
		GjKeySetFree(sets[1]);
		sets[1] = GjKeySetCreate(CurrentMemoryContext, sizeof(int64));
		GjKeySetAdd(sets[1], 6);	/* probably in memory of the one that was freed */
		if (!sets[0]->nulls || sets[0]->excluded == NULL || sets[0]->nintervals != 3 ||
			GjKeySetContains(sets[0], 7) || !GjKeySetContains(sets[0], 6))
			elog(ERROR, "union of NOT IN with IS NULL is wrong, or not looked up by its list");
		for (int i = 0; i < 2; i++)
			GjKeySetFree(sets[i]);
	}
}

/*
 * The first wanted key that is not below this one must be wanted, and be this one if that is
 */
static void
check_seek(const GjKeySet *set, int64 key)
{
	uint64		at = 0;
	int64		wanted;

	if (!GjKeySetSeek(set, &at, key, &wanted))
	{
		if (GjKeySetContains(set, key) || (!GjKeySetIsEmpty(set) && set->max_key >= key))
			elog(ERROR, "no wanted key was found from " INT64_FORMAT " on", key);
	}
	else if (wanted < key || !GjKeySetContains(set, wanted) ||
			 GjKeySetContains(set, key) != (wanted == key))
		elog(ERROR, "a wrong key was found from " INT64_FORMAT " on", key);
}

/*
 * Intervals must ascend, and a key must be between two of them
 */
static void
check_apart(const GjKeySet *set)
{
	for (uint64 i = 0; i < set->nintervals; i++)
	{
		const GjInterval *interval = &set->intervals[i];

		if (interval->low > interval->high ||
			(i > 0 && interval->low - 1 <= set->intervals[i - 1].high))
			elog(ERROR, "intervals of a key set are not apart");
	}
	if (set->nintervals > 0 ? GjKeySetCount(set) > 0 : set->excluded != NULL)
		elog(ERROR, "a key set has intervals and another form");
}
