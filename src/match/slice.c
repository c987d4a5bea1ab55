/*-------------------------------------------------------------------------
 *
 * slice.c
 *	  Cutting the wanted keys into slices, for rows in the order of the key.
 *
 * A scan that returns rows in the order of the key, and is asked for few of them, must not find all
 * entries first.  So the wanted keys are cut into slices, each of which is an interval of codes, in
 * the order of the scan, and a slice is a match of its own.  The scan says how many entries a slice
 * should have.  The directories of the runs tell how far away they end; unsorted entries are not
 * considered.
 *
 * Claim: each wanted key is in exactly one slice, and all keys of a slice come before those of the
 * next one.  A slice has the wanted keys between its ends, the first of which is the first wanted
 * key that no slice before had; and nothing else depends on where the other end is.  So it does not
 * matter whether the directories are those of the current runs, nor how the keys are spread.  A
 * slice never divides the entries of one key.  NULL keys, if they are wanted, are a slice of their
 * own, the first or the last one, as the order demands.
 *
 * The end of a slice is estimated as if keys were spread evenly between two pages of a run.  After
 * a slice without entries, the next one ends where a page does.  The first key of each run is in
 * the metapage, so a first slice for one row takes no directory.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "search.h"

/* Each slice that had no key has this many times as many entries as the one before */
#define EMPTY_GROWTH			4

/* The first slice for no more entries, as LIMIT 1 wants them, has the first key of a run only */
#define FEW_WANTED				8

static bool skip_unwanted(GjSlices *slices);
static GjKeySet *next_keys(GjSlices *slices, MemoryContext context, uint64 wanted, bool exact);
static uint64 find_end(const GjSlices *slices, double wanted, bool exact);
static uint64 find_end_in(const GjSlices *slices, const GjRun *run, double wanted, bool exact);

/*
 * Begin to cut a finished set that is no list; the index and the set must live as long as the
 * slices.  The codes of the index must be in the order of its keys.
 */
void
GjSlicesBegin(GjSlices *slices, Relation index, const GjKeySet *keys, bool descending,
			  bool nulls_first)
{
	bool		is_narrow = keys->key_width == sizeof(int32);

	Assert(!GjKeySetIsList(keys));
	*slices = (GjSlices) {.index = index,.keys = keys,.descending = descending,
		.nulls_first = nulls_first,.nulls_left = keys->nulls,
		.low = is_narrow ? PG_INT32_MIN : PG_INT64_MIN,
		.high = is_narrow ? PG_INT32_MAX : PG_INT64_MAX};
	slices->keys_left = skip_unwanted(slices);
	slices->is_left = slices->keys_left || slices->nulls_left;
}

/*
 * Move the first end of the keys that are left to the first wanted key; returns false if none of
 * them is wanted
 */
static bool
skip_unwanted(GjSlices *slices)
{
	const GjKeySet *keys = slices->keys;
	uint64		at = 0;

	if (slices->descending)
		return GjIntervalsSeekBack(keys, slices->high, &slices->high);
	return GjKeySetSeek(keys, &at, slices->low, &slices->low);
}

/*
 * Create the set of the next slice's keys, which are at least one, or of the NULL keys, below a
 * context.  Returns NULL if no key is left.
 *
 * exact is true if the slice before had no entry.
 */
GjKeySet *
GjSlicesNext(GjSlices *slices, MemoryContext context, uint64 wanted, bool exact)
{
	GjKeySet   *slice = NULL;

	if (!slices->nulls_left || !slices->nulls_first)
		slice = next_keys(slices, context, wanted, exact);
	if (slice == NULL && slices->nulls_left)
	{
		slice = GjKeySetCreate(context, slices->keys->key_width);
		slice->nulls = true;
		GjKeySetFinish(slice);
		slices->nulls_left = false;
	}
	slices->is_left = slices->keys_left || slices->nulls_left;
	return slice;
}

/*
 * Create the set of the next slice of keys; returns NULL if none is left
 */
static GjKeySet *
next_keys(GjSlices *slices, MemoryContext context, uint64 wanted, bool exact)
{
	for (double n = (double) wanted; slices->keys_left; n *= EMPTY_GROWTH)
	{
		uint64		end = find_end(slices, n, exact);
		int64		low = slices->descending ? (int64) ((uint64) slices->high - end) : slices->low;
		int64		high = slices->descending ? slices->high : (int64) ((uint64) slices->low + end);
		GjKeySet   *slice = GjKeySetBetween(context, slices->keys, low, high);

		CHECK_FOR_INTERRUPTS();
		slices->keys_left = slices->descending ? low > slices->low : high < slices->high;
		if (slices->keys_left && slices->descending)
			slices->high = low - 1;
		else if (slices->keys_left)
			slices->low = high + 1;
		slices->keys_left = slices->keys_left && skip_unwanted(slices);
		if (!GjKeySetIsEmpty(slice))
			return slice;
		GjKeySetFree(slice);
		exact = true;
	}
	return NULL;
}

/*
 * Return the distance of the slice's last key from its first one, in the direction of the scan: at
 * most that of the last key that is left
 */
static uint64
find_end(const GjSlices *slices, double wanted, bool exact)
{
	uint64		end = (uint64) slices->high - (uint64) slices->low;
	GjIndexState state;

	GjIndexGetState(slices->index, &state);
	for (int i = 0; i < state.nruns; i++)
		end = Min(end, find_end_in(slices, &state.runs[i], wanted, exact));
	return end;
}

/*
 * Return the distance at which a run has the wanted number of entries, or the largest integer if it
 * has fewer
 */
static uint64
find_end_in(const GjSlices *slices, const GjRun *run, double wanted, bool exact)
{
	bool		descending = slices->descending;
	double		entries = GjRunPageEntries(run);
	double		full = Min(ceil(wanted / entries), (double) run->data_pages);
	GjPlace		start = {Max(slices->low, run->min_key), 0};
	uint64		page = 0;
	uint64		there;
	int64		key;
	int64		bound;
	uint64		nkeys;
	double		share;
	bool		is_last;

	if (slices->low > run->max_key || slices->high < run->min_key)
		return PG_UINT64_MAX;
	if (wanted <= FEW_WANTED && descending && slices->high >= run->max_key)
		return (uint64) slices->high - (uint64) run->max_key;
	if (wanted <= FEW_WANTED && !descending && slices->low <= run->min_key)
		return (uint64) run->min_key - (uint64) slices->low;
	if (descending)
		start = (GjPlace) {Min(slices->high, run->max_key), PG_UINT64_MAX};
	if (run->data_pages > 0 &&
		(descending ? slices->high >= run->max_key : slices->low <= run->min_key))
		page = descending ? run->data_pages - 1 : 0;
	else if (!GjRunFindPage(slices->index, run, &start, &page, &key))
		return PG_UINT64_MAX;

	/* go on to the beginning of a page, or to the end of the run */
	is_last = descending ? page <= (uint64) full : page + 1 + (uint64) full >= run->data_pages;
	there = descending ? page - (uint64) full : page + 1 + (uint64) full;
	bound = descending ? run->min_key : run->max_key;
	if (!is_last && !GjRunFindPage(slices->index, run, NULL, &there, &bound))
		return PG_UINT64_MAX;
	if (is_last)
		there = descending ? 0 : run->data_pages;

	share = wanted / ((descending ? page + 1 - there : there - page) * entries);
	if (is_last && share >= 1.0)
		return PG_UINT64_MAX;
	nkeys = descending ? (uint64) start.key - (uint64) bound : (uint64) bound - (uint64) start.key;
	if (share < 1.0 && !exact)
		nkeys = Min(nkeys, (uint64) ceil(nkeys * share));
	else if (is_last)
		return PG_UINT64_MAX;

	/* the key at the bound belongs to the next slice, if there is one before it */
	return (descending ? (uint64) slices->high - (uint64) start.key :
			(uint64) start.key - (uint64) slices->low) + Max(nkeys, 1) - 1;
}

/*
 * Estimate the number of sorted entries that have the keys which are left
 */
double
GjSlicesLeft(const GjSlices *slices)
{
	double		entries = 0.0;
	GjIndexState state;

	GjIndexGetState(slices->index, &state);
	for (int i = 0; slices->nulls_left && i < state.nall - state.nruns; i++)
		entries += state.runs[state.nruns + i].entries;
	for (int i = 0; slices->keys_left && i < state.nruns; i++)
	{
		GjPlace		low = {slices->low, 0};
		GjPlace		high = {slices->high, PG_UINT64_MAX};
		uint64		first = 0;
		uint64		last = 0;
		int64		key;

		if (slices->low <= state.runs[i].max_key && slices->high >= state.runs[i].min_key &&
			GjRunFindPage(slices->index, &state.runs[i], &low, &first, &key) &&
			GjRunFindPage(slices->index, &state.runs[i], &high, &last, &key))
			entries += ((double) (last - first) + 1.0) * GjRunPageEntries(&state.runs[i]);
	}
	return entries;
}
