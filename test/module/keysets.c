/*-------------------------------------------------------------------------
 *
 * keysets.c
 *	  Test of sets/keyset.c: combinations of random sets against the definition of
 *	  AND and OR, key by key.  Part of gpujoin_kernel_selftest().
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

static GjKeySet *random_set(pg_prng_state *prng, int key_width, int64 factor);
static void check_combination(const GjKeySet *a, const GjKeySet *b, const GjKeySet *result,
							  bool is_union, int64 factor);

/*
 * Intersect and unite small sets and complements of small sets, in each combination
 */
void
GjTestKeySetCombinations(pg_prng_state *prng, int key_width)
{
	for (int i = 0; i < COMBINATIONS; i++)
	{
		int64		factor = (i % 4 < 2) ? 1 : WIDE_FACTOR;
		GjKeySet   *a = random_set(prng, key_width, factor);
		GjKeySet   *b = random_set(prng, key_width, factor);
		bool		is_union = (i % 2 == 0);
		GjKeySet   *result = GjKeySetCreate(CurrentMemoryContext, key_width);

		for (uint64 k = 0; k < GjKeySetCount(a); k++)
			GjKeySetAdd(result, GjKeySetAt(a, k));
		result->complement = a->complement;
		result->nulls = a->nulls;
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

static GjKeySet *
random_set(pg_prng_state *prng, int key_width, int64 factor)
{
	GjKeySet   *set = GjKeySetCreate(CurrentMemoryContext, key_width);
	int			nkeys = (int) (pg_prng_uint64(prng) % SMALL_SPAN);

	for (int i = 0; i < nkeys; i++)
		GjKeySetAdd(set, (int64) (pg_prng_uint64(prng) % SMALL_SPAN) * factor);
	set->complement = pg_prng_uint64(prng) % 2 == 0;
	set->nulls = pg_prng_uint64(prng) % 2 == 0;
	GjKeySetFinish(set);
	return set;
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
		int64		key = i * factor;
		bool		in_a = GjKeySetContains(a, key);
		bool		in_b = GjKeySetContains(b, key);

		if (GjKeySetContains(result, key) != (is_union ? in_a || in_b : in_a && in_b))
			elog(ERROR, "combination of key sets is wrong for key " INT64_FORMAT, key);
	}
}
