/*-------------------------------------------------------------------------
 *
 * collisions.c
 *	  Test of hash tables with keys that were chosen to collide.
 *
 * The keys of a test have the same lower 32 bits of a table's hash under one seed.  If that is the
 * seed that the table is going to draw, its runs must be bounded all the same, by other seeds; if
 * it is not, no other seed may be needed.  Either way no key may be lost or come twice.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "groups/groups.h"
#include "sets/sets.h"

#define KEYS					40000
#define SAME_HASH				UINT64CONST(0x1234)
#define GOLDEN					UINT64CONST(0x9E3779B97F4A7C15)

/* The use of the keys in a test */
typedef enum CollisionKind
{
	COLLIDE_GROUPS,				/* they form groups, */
	COLLIDE_GROUPS_IN_ORDER,	/* behind a column in whose order they come */
	COLLIDE_DISTINCT,			/* they are counted, */
	COLLIDE_DISTINCT_BY_GROUP,	/* in a single group, */
	COLLIDE_DISTINCT_PAIRS		/* as first words of two */
} CollisionKind;

PG_FUNCTION_INFO_V1(gpujoin_collision_selftest);

/*
 * Return the number by which a multiplication by an odd one is undone
 */
static uint64
inverse(uint64 odd)
{
	uint64		result = odd;

	for (int i = 0; i < 6; i++)
		result *= 2 - odd * result;
	return result;
}

/*
 * Return the key with a hash of the map, which is its upper half
 */
static int64
key_of_map(uint64 seed, uint64 number)
{
	uint64		h = SAME_HASH << 32 | number;

	h *= inverse(UINT64CONST(0xD6E8FEB86659FD93));
	h ^= h >> 32;
	h *= inverse(GOLDEN);
	h ^= h >> 32;
	return (int64) (h ^ seed);
}

/*
 * Undo a step of the hash of words: return the hash before the step, mixed with the word
 */
static uint64
undo_step(uint64 h)
{
	h ^= h >> 29 ^ h >> 58;
	return h * inverse(GOLDEN);
}

/*
 * Return the first word of a record whose hash has these lower bits and this number above them
 */
static int64
key_of_record(uint64 seed, uint64 number, int nothers, const uint64 *others)
{
	uint64		h = number << 32 | SAME_HASH;

	h ^= h >> 32;
	h *= inverse(UINT64CONST(0xBF58476D1CE4E5B9));
	for (int i = nothers - 1; i >= 0; i--)
		h = undo_step(h) ^ others[i];
	return (int64) (undo_step(h) ^ seed);
}

/*
 * Have the process draw known seeds, and return the first or a later one of them
 */
static uint64
next_seed(uint64 test, int nth)
{
	pg_prng_state state;
	uint64		seed = 0;

	pg_prng_seed(&pg_global_prng_state, test);
	state = pg_global_prng_state;
	for (int i = 0; i <= nth; i++)
		seed = pg_prng_uint64(&state);
	return seed;
}

static void
check_reseeds(const char *what, int kind, bool is_known, uint64 nreseeds)
{
	if (is_known ? nreseeds == 0 || nreseeds > 2 : nreseeds != 0)
		elog(ERROR, "collisions: %s %d: " UINT64_FORMAT " seeds are replaced, although the seed "
			 "is %s", what, kind, nreseeds, is_known ? "known" : "not known");
}

static void
check_map(bool is_known)
{
	uint64		seed = next_seed(1, 0);
	GjKeyMap   *map = GjKeyMapCreate(CurrentMemoryContext, 10);
	uint64		at = 0;
	uint64		n = 0;
	uint64		run = 0;
	uint64		longest = 0;

	for (uint64 i = 0; i < KEYS; i++)
	{
		int64		key = key_of_map(is_known ? seed : 0, i);

		if (GjKeyMapFind(map, key) != NULL)
			elog(ERROR, "collisions: a key is found before it is added");
		GjKeyMapAdd(map, key)->value = (void *) (uintptr_t) (i + 1);
	}
	for (uint64 i = 0; i < KEYS; i++)
	{
		if (GjKeyMapFind(map, key_of_map(is_known ? seed : 0, i)) != (void *) (uintptr_t) (i + 1))
			elog(ERROR, "collisions: a key is lost");
	}
	while (GjKeyMapNext(map, &at) != NULL)
		n++;
	if (n != KEYS || map->nkeys != KEYS)
		elog(ERROR, "collisions: there are " UINT64_FORMAT " keys", n);
	for (uint64 i = 0; i <= map->mask; i++)
	{
		run = map->cells[i].value == NULL ? 0 : run + 1;
		longest = Max(longest, run);
	}
	if (longest > GJ_MAX_RUN)
		elog(ERROR, "collisions: a run of " UINT64_FORMAT " cells", longest);
	check_reseeds("map", 0, is_known, map->seed.nreplaced);
}

static void
check_groups(CollisionKind kind, bool is_known)
{
	static const GjGroupSpec key = {GJ_VALUE_INT8, 0};
	static const GjGroupSpec columns[] = {{GJ_VALUE_INT8, 0}, {GJ_VALUE_INT8, 1}};
	static const GjGroupSpec only = {GJ_VALUE_INT8, 2};
	GjAggSpec	distinct = {kind == COLLIDE_DISTINCT_PAIRS ? GJ_AGG_COUNT_PAIRS :
	GJ_AGG_COUNT_DISTINCT, GJ_VALUE_INT8, 0, -1};
	bool		is_distinct = kind >= COLLIDE_DISTINCT;
	uint64		seed = next_seed(1, 0);
	GjGroups   *groups = GjGroupsCreate(CurrentMemoryContext, (Size) 64 << 20, false,
										kind == COLLIDE_GROUPS_IN_ORDER ? 2 :
										kind == COLLIDE_GROUPS ||
										kind == COLLIDE_DISTINCT_BY_GROUP ? 1 : 0,
										kind == COLLIDE_GROUPS_IN_ORDER ? columns :
										kind == COLLIDE_GROUPS ? &key : &only,
										is_distinct, &distinct);
	int64		words[3][GJ_BATCH_ROWS];
	GjBatchColumn arrays[] = {{(char *) words[0], NULL, 8}, {(char *) words[1], NULL, 8},
	{(char *) words[2], NULL, 8}};
	GjBatch		batch = {0, NULL, arrays};
	uint64		others[] = {kind == COLLIDE_DISTINCT_PAIRS ? 7 : 1, 1};
	int			nothers = kind == COLLIDE_DISTINCT_PAIRS ? 2 : kind == COLLIDE_DISTINCT_BY_GROUP ||
		kind == COLLIDE_GROUPS_IN_ORDER ? 1 : 0;
	uint64		n = 0;
	Datum	   *values;
	bool	   *isnull;

	if (kind == COLLIDE_GROUPS_IN_ORDER)
		others[0] = 7;
	GjGroupsBegin(groups);
	for (int round = 0; round < 2; round++)
	{
		for (uint64 row = 0; row < KEYS; row += batch.nrows)
		{
			CHECK_FOR_INTERRUPTS();
			batch.nrows = (int) Min(GJ_BATCH_ROWS, KEYS - row);
			for (int i = 0; i < batch.nrows; i++)
			{
				words[0][i] = key_of_record(is_known ? seed : 0, row + i, nothers, others);
				words[1][i] = kind == COLLIDE_DISTINCT_PAIRS || kind == COLLIDE_GROUPS_IN_ORDER ?
					7 : 0;
				words[2][i] = 5;
			}
			GjGroupsAdd(groups, &batch);
		}
	}
	GjGroupsFinish(groups);
	while (GjGroupsNext(groups, &values, &isnull))
		n = is_distinct ? (uint64) DatumGetInt64(values[kind == COLLIDE_DISTINCT_BY_GROUP]) : n + 1;
	if (n != KEYS || GjGroupsGetStats(groups)->passes != 1)
		elog(ERROR, "collisions: kind %d: " UINT64_FORMAT " of %d keys", kind, n, KEYS);
	check_reseeds("groups", kind, is_known, GjGroupsGetStats(groups)->reseeds);
	GjGroupsFree(groups);
}

Datum
gpujoin_collision_selftest(PG_FUNCTION_ARGS)
{
	pg_prng_state before = pg_global_prng_state;
	int			ntests = 0;

	for (int is_known = 0; is_known < 2; is_known++)
	{
		check_map(is_known);
		for (CollisionKind kind = COLLIDE_GROUPS; kind <= COLLIDE_DISTINCT_PAIRS; kind++)
			check_groups(kind, is_known);
		ntests += COLLIDE_DISTINCT_PAIRS + 2;
	}
	pg_global_prng_state = before;
	PG_RETURN_INT64(ntests);
}
