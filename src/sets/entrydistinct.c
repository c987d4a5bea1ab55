/*-------------------------------------------------------------------------
 *
 * entrydistinct.c
 *	  Entries that come in any order: each TID once.
 *
 * Nothing is put in order.  Nearly all entries of a set come from one place that has none twice,
 * its bulk, and a few from elsewhere.  These are looked for among the others (fewtids.c), and
 * those that are there leave.  The bulk stays where it is.
 *
 * If they are not few, or there is no bulk, the TIDs alone are sorted, to see which are there
 * twice: again these are few, if there are any at all.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "base/radix.h"
#include "entryset.h"

/* Others than the bulk's are few up to such a part of it, or so many */
#define FEW_SHARE				8
#define FEW_ENTRIES				1024

/* Sorting takes so many bytes for each entry */
#define SORT_BYTES				(2 * sizeof(uint64))

static void drop_others(GjEntrySet *set);
static void drop_doubles(GjEntrySet *set);
static uint64 *list_doubles(const GjEntrySet *set, uint64 *ndoubles, uint64 *nsurplus);
static void drop_from_column(GjEntryColumn *column, const uint64 *places, uint64 n,
							 uint64 nentries);
static void drop_from_array(void *array, int width, const uint64 *places, uint64 n,
							uint64 nentries);

/* Allocate n elements, however many, in the set's context */
#define alloc_huge(set, type, n) \
	((type *) MemoryContextAllocHuge((set)->context, Max(n, 1) * sizeof(type)))

/*
 * Keep one entry of each TID.  False, and the set is as it was, if there is not the memory.
 */
bool
GjEntrySetMakeDistinct(GjEntrySet *set)
{
	uint64		nothers = set->nentries - set->nbulk;

	if (nothers == 0)
		return true;
	if (nothers <= Max(set->nbulk / FEW_SHARE, FEW_ENTRIES))
		drop_others(set);
	else if (!set->piecewise &&
			 set->nentries * (set->entry_bytes + SORT_BYTES) > set->memory_limit)
		return false;
	else
		drop_doubles(set);
	set->nbulk = set->nentries;
	return true;
}

/*
 * Drop all entries that have one of these TIDs; returns how many
 */
uint64
GjEntrySetDrop(GjEntrySet *set, const GjFewTids *few)
{
	uint64	   *places = NULL;
	uint64		ndropped = 0;
	uint64		capacity = 0;
	uint64		at = 0;
	uint64		which;

	for (; GjFewTidsNext(few, set->tids, set->nentries, &at, &which); at++)
	{
		if (ndropped == capacity)
		{
			capacity = Max(2 * capacity, 64);
			places = places == NULL ? alloc_huge(set, uint64, capacity) :
				repalloc_huge(places, capacity * sizeof(uint64));
		}
		places[ndropped++] = at;
	}
	if (places == NULL)
		return 0;
	GjEntrySetDropPlaces(set, places, ndropped);
	set->nbulk = Min(set->nbulk, set->nentries);
	pfree(places);
	return ndropped;
}

/*
 * Of the entries behind the bulk, drop those whose TID the bulk has, or one before them
 */
static void
drop_others(GjEntrySet *set)
{
	uint64		nothers = set->nentries - set->nbulk;
	const uint64 *others = set->tids + set->nbulk;
	GjFewTids  *few = GjFewTidsCreate(set->context, others, nothers);
	bool	   *met = alloc_huge(set, bool, nothers);
	uint64	   *places = alloc_huge(set, uint64, nothers);
	uint64		ndropped = 0;
	uint64		which;

	memset(met, 0, nothers);
	for (uint64 at = 0; GjFewTidsNext(few, set->tids, set->nbulk, &at, &which); at++)
		met[which] = true;
	for (uint64 i = 0; i < nothers; i++)
	{
		uint64		first = GjFewTidsFind(few, others[i]);

		places[ndropped] = set->nbulk + i;
		ndropped += met[first] || first != i;
	}
	GjEntrySetDropPlaces(set, places, ndropped);
	pfree(places);
	pfree(met);
	GjFewTidsFree(few);
}

/*
 * Of all entries, drop those whose TID one before them has
 */
static void
drop_doubles(GjEntrySet *set)
{
	uint64		ndoubles;
	uint64		nsurplus;
	uint64	   *doubles = list_doubles(set, &ndoubles, &nsurplus);
	GjFewTids  *few;
	bool	   *met;
	uint64	   *places;
	uint64		ndropped = 0;
	uint64		which;

	if (ndoubles > 0)
	{
		few = GjFewTidsCreate(set->context, doubles, ndoubles);
		met = alloc_huge(set, bool, ndoubles);
		memset(met, 0, ndoubles);
		places = alloc_huge(set, uint64, nsurplus);
		for (uint64 at = 0; GjFewTidsNext(few, set->tids, set->nentries, &at, &which); at++)
		{
			if (met[which])
				places[ndropped++] = at;
			met[which] = true;
		}
		Assert(ndropped == nsurplus);
		GjEntrySetDropPlaces(set, places, ndropped);
		pfree(places);
		pfree(met);
		GjFewTidsFree(few);
	}
	pfree(doubles);
}

/*
 * List the TIDs that several entries have, each once, and count the entries that are too many
 */
static uint64 *
list_doubles(const GjEntrySet *set, uint64 *ndoubles, uint64 *nsurplus)
{
	uint64		n = set->nentries;
	uint64	   *tids = alloc_huge(set, uint64, n);
	uint64	   *scratch = alloc_huge(set, uint64, n);
	uint64	   *sorted;
	uint64		kept = 0;

	memcpy(tids, set->tids, n * sizeof(uint64));
	sorted = radix_sort(tids, scratch, n);
	pfree(sorted == tids ? scratch : tids);

	*nsurplus = 0;
	for (uint64 i = 1; i < n; i++)
	{
		uint64		tid = sorted[i];

		if (tid != sorted[i - 1])
			continue;
		(*nsurplus)++;
		if (kept == 0 || sorted[kept - 1] != tid)
			sorted[kept++] = tid;
	}
	*ndoubles = kept;
	return sorted;
}

/*
 * Take out the entries at these places, which ascend
 */
void
GjEntrySetDropPlaces(GjEntrySet *set, const uint64 *places, uint64 n)
{
	if (n == 0)
		return;
	drop_from_array(set->tids, sizeof(uint64), places, n, set->nentries);
	drop_from_column(&set->keys, places, n, set->nentries);
	for (int i = 0; i < set->nincluded; i++)
		drop_from_column(&set->included[i], places, n, set->nentries);
	set->nentries -= n;
}

static void
drop_from_column(GjEntryColumn *column, const uint64 *places, uint64 n, uint64 nentries)
{
	if (column->width == 0)
		return;
	drop_from_array(column->values, column->width, places, n, nentries);
	if (column->has_nulls)
		drop_from_array(column->nulls, 1, places, n, nentries);
}

/*
 * Move what lies between the gaps, and behind the last one, together
 */
static void
drop_from_array(void *array, int width, const uint64 *places, uint64 n, uint64 nentries)
{
	char	   *to = (char *) array + places[0] * width;

	CHECK_FOR_INTERRUPTS();
	for (uint64 i = 0; i < n; i++)
	{
		uint64		first = places[i] + 1;
		uint64		end = i + 1 < n ? places[i + 1] : nentries;
		Size		bytes = (end - first) * width;

		memmove(to, (char *) array + first * width, bytes);
		to += bytes;
	}
}
