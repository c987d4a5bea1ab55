/*-------------------------------------------------------------------------
 *
 * intervals.c
 *	  Key sets that are intervals of codes, as BETWEEN asks for them.
 *
 * The intervals of a finished set ascend, and between two of them is at least one key that is in
 * neither.  So the first interval whose upper end is not below a key decides whether the key is
 * wanted, and an interval that contains the first and the last key of a page contains all of them.
 *
 * Both ends belong to an interval, so that every integer can be one, and nothing is reserved.  To
 * make an interval of key < value, the caller subtracts one, unless there is no smaller integer.
 *
 * NOT IN asks for the intervals between the excluded keys.  The set keeps these, too, as a list
 * that is looked up in place of many intervals, which would have to be bisected.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "keyset.h"

#define MIN_CAPACITY			8

/* Number of intervals between checks for interrupts */
#define INTERVALS_PER_CHECK		((uint64) 1 << 16)

static bool ascend(const GjKeySet *set);
static void add_listed(GjKeySet *set);
static void join_adjacent(GjKeySet *set);

#define ST_SORT sort_intervals
#define ST_ELEMENT_TYPE GjInterval
#define ST_COMPARE(a, b) ((a)->low < (b)->low ? -1 : (a)->low > (b)->low)
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/*
 * Add the keys from low to high to a set that is not finished.  Values that the index cannot store
 * are left out, as in GjKeySetAdd().  Does nothing if low is above high.
 */
void
GjKeySetAddInterval(GjKeySet *set, int64 low, int64 high)
{
	if (set->key_width == sizeof(int32))
	{
		low = Max(low, PG_INT32_MIN);
		high = Min(high, PG_INT32_MAX);
	}
	if (low > high)
		return;
	if (set->nintervals == set->interval_capacity)
	{
		Size		capacity = Max(set->interval_capacity * 2, MIN_CAPACITY);

		set->intervals = set->intervals == NULL ?
			MemoryContextAllocHuge(set->context, capacity * sizeof(GjInterval)) :
			repalloc_huge(set->intervals, capacity * sizeof(GjInterval));
		set->interval_capacity = capacity;
	}
	set->intervals[set->nintervals++] = (GjInterval) {low, high};
	set->excluded = NULL;
}

/*
 * Finish a set of listed keys as the set of all others
 */
void
GjKeySetExclude(GjKeySet *set)
{
	GjKeySet   *excluded = GjKeySetCreate(set->context, set->key_width);
	int64		low = PG_INT64_MIN;

	excluded->listed = set->listed;
	excluded->nlisted = set->nlisted;
	excluded->spread = set->spread;
	GjKeySetFinish(excluded);
	GjKeySetPrepare(excluded);
	set->listed = NULL;
	set->nlisted = set->capacity = 0;
	for (uint64 i = 0; i < excluded->nlisted; i++)
	{
		int64		key = excluded->listed[i];

		if (i % INTERVALS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (low < key)
			GjKeySetAddInterval(set, low, key - 1);
		if (key < PG_INT64_MAX)
			low = key + 1;
	}
	if (excluded->nlisted == 0 || excluded->max_key < PG_INT64_MAX)
		GjKeySetAddInterval(set, low, PG_INT64_MAX);
	set->excluded = excluded;
	GjKeySetFinish(set);
}

/*
 * Finish a set that has intervals.  Listed keys, which must be sorted, become intervals, too.
 */
void
GjIntervalsFinish(GjKeySet *set)
{
	Assert(set->nintervals > 0 && set->exact == NULL);
	if (set->nlisted > 0)
		add_listed(set);
	if (!ascend(set))
		sort_intervals(set->intervals, set->nintervals);
	join_adjacent(set);
	set->probe = GJ_PROBE_INTERVALS;
	set->min_key = set->intervals[0].low;
	set->max_key = set->intervals[set->nintervals - 1].high;
}

static bool
ascend(const GjKeySet *set)
{
	for (uint64 i = 1; i < set->nintervals; i++)
	{
		if (set->intervals[i - 1].low > set->intervals[i].low)
			return false;
	}
	return true;
}

static void
add_listed(GjKeySet *set)
{
	for (uint64 i = 0; i < set->nlisted; i++)
	{
		if (i % INTERVALS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		GjKeySetAddInterval(set, set->listed[i], set->listed[i]);
	}
	pfree(set->listed);
	set->listed = NULL;
	set->nlisted = set->capacity = 0;
}

/*
 * Make one interval of those that overlap, or that no key separates
 */
static void
join_adjacent(GjKeySet *set)
{
	uint64		last = 0;

	for (uint64 i = 1; i < set->nintervals; i++)
	{
		GjInterval *before = &set->intervals[last];

		if (before->high == PG_INT64_MAX || set->intervals[i].low <= before->high + 1)
			before->high = Max(before->high, set->intervals[i].high);
		else
			set->intervals[++last] = set->intervals[i];
	}
	set->nintervals = last + 1;
}

/*
 * Find the first wanted key that is not below this one, as GjKeySetSeek() does; *at is the position
 * of its interval
 */
bool
GjIntervalsSeek(const GjKeySet *set, uint64 *at, int64 key, int64 *wanted)
{
	uint64		low = *at;
	uint64		high;
	uint64		step = 1;

	while (low + step < set->nintervals && set->intervals[low + step].high < key)
	{
		low += step;
		step *= 2;
	}
	high = Min(low + step, set->nintervals);
	while (low < high)
	{
		uint64		middle = low + (high - low) / 2;

		if (set->intervals[middle].high < key)
			low = middle + 1;
		else
			high = middle;
	}
	*at = low;
	if (low == set->nintervals)
		return false;
	*wanted = Max(set->intervals[low].low, key);
	return true;
}

/*
 * Find the last wanted key that is not above this one; returns false if there is none
 */
bool
GjIntervalsSeekBack(const GjKeySet *set, int64 key, int64 *wanted)
{
	uint64		low = 0;
	uint64		high = set->nintervals;

	while (low < high)
	{
		uint64		middle = low + (high - low) / 2;

		if (set->intervals[middle].low <= key)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return false;
	*wanted = Min(set->intervals[low - 1].high, key);
	return true;
}

/*
 * Create a finished set of the keys from low to high that another set, which is no list, wants.  It
 * takes the memory and the time for these, however many there are elsewhere.
 */
GjKeySet *
GjKeySetBetween(MemoryContext parent, const GjKeySet *set, int64 low, int64 high)
{
	GjKeySet   *result = GjKeySetCreate(parent, set->key_width);
	uint64		at = 0;
	int64		wanted;

	Assert(!GjKeySetIsList(set) && set->exact == NULL && low <= high);
	if (GjIntervalsSeek(set, &at, low, &wanted))
	{
		for (; at < set->nintervals && set->intervals[at].low <= high; at++)
		{
			if (at % INTERVALS_PER_CHECK == 0)
				CHECK_FOR_INTERRUPTS();
			GjKeySetAddInterval(result, Max(low, set->intervals[at].low),
								Min(high, set->intervals[at].high));
		}
	}
	GjKeySetFinish(result);
	return result;
}

/*
 * Return true if an interval contains the key
 */
bool
GjIntervalsContain(const GjKeySet *set, int64 key)
{
	uint64		at = 0;
	int64		wanted;

	if (key < set->min_key || key > set->max_key)
		return false;
	if (set->excluded != NULL)
		return !GjKeySetContains(set->excluded, key);
	return set->nintervals == 1 || (GjIntervalsSeek(set, &at, key, &wanted) && wanted == key);
}
