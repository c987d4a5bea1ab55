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
 * A set keeps its excluded keys (keyset.h) as long as nothing else restricts them: with many of
 * them, looking up a key is quicker than bisecting the intervals between them.
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

/* Intervals that are made from another form of a set, or from two sets */
typedef struct Intervals
{
	GjInterval *items;
	uint64		n;
} Intervals;

static bool ascend(const GjKeySet *set);
static void add_listed(GjKeySet *set);
static void join_adjacent(GjKeySet *set);
static void intervals_take(GjKeySet *set, const Intervals *taken);
static Intervals read_set(const GjKeySet *set, MemoryContext context);
static Intervals list_gaps(const GjKeySet *set, MemoryContext context, int64 low, int64 high);
static Intervals intervals_allocate(MemoryContext context, uint64 n);

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
}

/*
 * Finish a set that has intervals.  Listed keys, which must be sorted, become intervals, too.
 */
void
GjIntervalsFinish(GjKeySet *set)
{
	Assert(set->nintervals > 0 && !set->complement && set->exact == NULL);
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
	if (set->complement)
	{
		Intervals	gaps = list_gaps(set, result->context, low, high);

		intervals_take(result, &gaps);
		return result;
	}
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

	if (set->nintervals == 1)
		return key >= set->min_key && key <= set->max_key;
	return key >= set->min_key && GjIntervalsSeek(set, &at, key, &wanted) && wanted == key;
}

/*
 * Reduce a set to the keys that another one wants, too.  At least one has intervals, and neither is
 * a list.
 */
void
GjIntervalsIntersect(GjKeySet *set, const GjKeySet *other)
{
	Intervals	a = read_set(set, set->context);
	Intervals	b = read_set(other, set->context);
	Intervals	both = intervals_allocate(set->context, a.n + b.n);
	uint64		j = 0;

	for (uint64 i = 0; i < a.n && j < b.n;)
	{
		GjInterval	common = {Max(a.items[i].low, b.items[j].low),
		Min(a.items[i].high, b.items[j].high)};

		if ((i + j) % INTERVALS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (common.low <= common.high)
			both.items[both.n++] = common;
		if (a.items[i].high < b.items[j].high)
			i++;
		else
			j++;
	}
	intervals_take(set, &both);
	pfree(a.items);
	pfree(b.items);
}

/*
 * Extend a set to the keys that another one wants.  At least one has intervals, and neither is a
 * complement.
 */
void
GjIntervalsUnite(GjKeySet *set, const GjKeySet *other)
{
	Intervals	a = read_set(set, set->context);
	Intervals	b = read_set(other, set->context);
	Intervals	all = intervals_allocate(set->context, a.n + b.n);

	for (uint64 i = 0, j = 0; i < a.n || j < b.n;)
	{
		if ((i + j) % INTERVALS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (j == b.n || (i < a.n && a.items[i].low <= b.items[j].low))
			all.items[all.n++] = a.items[i++];
		else
			all.items[all.n++] = b.items[j++];
	}
	intervals_take(set, &all);
	pfree(a.items);
	pfree(b.items);
}

/*
 * Forget the intervals; the set becomes an empty list
 */
void
GjIntervalsForget(GjKeySet *set)
{
	if (set->intervals != NULL)
		pfree(set->intervals);
	set->intervals = NULL;
	set->nintervals = set->interval_capacity = 0;
	set->probe = GJ_PROBE_EMPTY;
}

/*
 * Replace what the set wants by these intervals, which are its own
 */
static void
intervals_take(GjKeySet *set, const Intervals *taken)
{
	GjIntervalsForget(set);
	if (set->listed != NULL)
		pfree(set->listed);
	set->listed = NULL;
	set->nlisted = set->capacity = 0;
	set->complement = false;
	set->intervals = taken->items;
	set->nintervals = taken->n;
	set->interval_capacity = taken->n + 1;
	GjKeySetFinish(set);
}

/*
 * Return what a finished set wants as intervals
 */
static Intervals
read_set(const GjKeySet *set, MemoryContext context)
{
	Intervals	result;

	if (set->complement && set->key_width == sizeof(int32))
		return list_gaps(set, context, PG_INT32_MIN, PG_INT32_MAX);
	if (set->complement)
		return list_gaps(set, context, PG_INT64_MIN, PG_INT64_MAX);
	result = intervals_allocate(context, set->nlisted + set->nintervals);
	for (uint64 i = 0; i < set->nlisted; i++)
		result.items[result.n++] = (GjInterval) {set->listed[i], set->listed[i]};
	if (set->nintervals > 0)
		memcpy(result.items + result.n, set->intervals, set->nintervals * sizeof(GjInterval));
	result.n += set->nintervals;
	return result;
}

/*
 * Return the intervals between the keys that a set excludes, from low to high
 */
static Intervals
list_gaps(const GjKeySet *set, MemoryContext context, int64 low, int64 high)
{
	uint64		first = GjKeySetLowerBoundIn(set, 0, set->nlisted, low);
	uint64		end = GjKeySetLowerBoundIn(set, first, set->nlisted, high);
	Intervals	result = intervals_allocate(context, end - first + 1);

	for (uint64 i = first; i < end; i++)
	{
		int64		excluded = set->listed[i];

		if (i % INTERVALS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (low < excluded)
			result.items[result.n++] = (GjInterval) {low, excluded - 1};
		low = excluded + 1;
	}
	if (end == set->nlisted || set->listed[end] != high)
		result.items[result.n++] = (GjInterval) {low, high};
	else if (low < high)
		result.items[result.n++] = (GjInterval) {low, high - 1};
	return result;
}

static Intervals
intervals_allocate(MemoryContext context, uint64 n)
{
	return (Intervals) {MemoryContextAllocHuge(context, (n + 1) * sizeof(GjInterval)), 0};
}
