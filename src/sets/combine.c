/*-------------------------------------------------------------------------
 *
 * combine.c
 *	  Intersection and union of key sets, complements included; parts of lists.
 *
 * With A and B for the listed keys and ' for "all others":
 *
 *	  A and B	=  A without what B does not list		keep_keys
 *	  A and B'	=  A without what B lists				keep_keys
 *	  A' and B	=  B without what A lists				take_keys
 *	  A' and B'	=  (A and all that B lists)'			merge_keys
 *
 *	  A' or B'	=  (A without what B does not list)'	keep_keys
 *	  A' or B	=  (A without what B lists)'			keep_keys
 *	  A or B'	=  (B without what A lists)'			take_keys
 *	  A or B	=  A and all that B lists				merge_keys
 *
 * NULL keys are no part of any of these: they are wanted by both, or by one.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "keyset.h"

/* Keys between two looks at interrupts */
#define GJ_KEYS_PER_CHECK		((uint64) 1 << 16)

static void keep_keys(GjKeySet *set, const GjKeySet *other, bool wanted);
static void take_keys(GjKeySet *set, const GjKeySet *other);
static void merge_keys(GjKeySet *set, const GjKeySet *other);

/*
 * Want what both want
 */
void
GjKeySetIntersect(GjKeySet *set, const GjKeySet *other)
{
	set->nulls = set->nulls && other->nulls;

	if (!set->complement)
		keep_keys(set, other, true);
	else if (other->complement)
		merge_keys(set, other);
	else
		take_keys(set, other);
}

/*
 * Want what one of them wants
 */
void
GjKeySetUnite(GjKeySet *set, const GjKeySet *other)
{
	set->nulls = set->nulls || other->nulls;

	if (set->complement)
		keep_keys(set, other, false);
	else if (!other->complement)
		merge_keys(set, other);
	else
		take_keys(set, other);
}

/*
 * A finished set of n of a list's keys, from the first one on, which are not copied: the
 * list must live as long
 */
GjKeySet *
GjKeySetSlice(MemoryContext parent, const GjKeySet *set, uint64 first, uint64 n)
{
	GjKeySet   *slice = GjKeySetCreate(parent, set->key_width);

	Assert(!set->complement && first + n <= set->nkeys);
	slice->keys = set->keys + first;
	slice->nkeys = slice->capacity = n;
	GjKeySetFinish(slice);
	return slice;
}

/*
 * Keep those listed keys that other wants, or those that it does not
 */
static void
keep_keys(GjKeySet *set, const GjKeySet *other, bool wanted)
{
	uint64		kept = 0;

	for (uint64 i = 0; i < set->nkeys; i++)
	{
		if (i % GJ_KEYS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (GjKeySetContains(other, set->keys[i]) == wanted)
			set->keys[kept++] = set->keys[i];
	}
	if (kept < set->nkeys)
	{
		set->nkeys = kept;
		GjKeySetFinish(set);
	}
}

/*
 * List what other lists and set does not; what was a complement is none then, and
 * the other way round
 */
static void
take_keys(GjKeySet *set, const GjKeySet *other)
{
	uint64		capacity = Max(other->nkeys, 1);
	int64	   *keys = MemoryContextAllocHuge(set->context, capacity * sizeof(int64));
	uint64		taken = 0;

	for (uint64 i = 0; i < other->nkeys; i++)
	{
		if (i % GJ_KEYS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (!GjKeySetLists(set, other->keys[i]))
			keys[taken++] = other->keys[i];
	}
	if (set->keys != NULL)
		pfree(set->keys);
	set->keys = keys;
	set->nkeys = taken;
	set->capacity = capacity;
	set->complement = !set->complement;
	GjKeySetFinish(set);
}

/*
 * List also what other lists
 */
static void
merge_keys(GjKeySet *set, const GjKeySet *other)
{
	if (other->nkeys == 0)
		return;
	for (uint64 i = 0; i < other->nkeys; i++)
		GjKeySetAdd(set, other->keys[i]);
	GjKeySetFinish(set);
}
