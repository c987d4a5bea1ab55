/*-------------------------------------------------------------------------
 *
 * tidarray.c
 *	  A TID set as an array of packed TIDs: filling it, checking what comes, putting
 *	  it in order.
 *
 * TIDs come in any order and are sorted once, at the end: a million in 6 to 8 ms.  Where they
 * come in heap order, as from an index fresh from its build, that is seen: what was added so far
 * is a strictly ascending prefix and a rest.  A short rest (rows from tail pages, a few reused
 * slots) is sorted and merged into the prefix; otherwise all is sorted.  Duplicates, which a
 * search that runs beside insertions and a reused TID may bring, are neighbours then and leave.
 *
 * The memory limit covers the array and what sorting it takes.
 *
 * A device delivers millions of TIDs in an instant, and touching memory for the
 * first time takes longer than writing to it.  So a large array is made of huge
 * pages where the system has them, and nothing looks at what is not yet written.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "base/prefetch.h"
#include "base/radix.h"
#include "base/region.h"
#include "tidsetparts.h"

#define GJ_TIDSET_MIN_CAPACITY	((uint64) 1024)

/* A rest of up to one in so many is merged, a longer one makes all be sorted */
#define GJ_TIDSET_MERGE_SHARE	4

/* TIDs that are copied and checked while they are in the cache */
#define GJ_TIDSET_PIECE			2048

#if defined(__x86_64__) && defined(__GNUC__)
#define GJ_TARGET_AVX2 __attribute__((target("avx2")))
#endif

static bool check_packed(GjTidSet *set, uint64 n);
static uint64 count_unordered(const GjTidSet *set);
static void put_in_order(GjTidSet *set);
static void merge_rest(GjTidSet *set, const uint64 *rest, uint64 nrest);
static void drop_duplicates(GjTidSet *set);

/*
 * Ask for the TIDs of all words with hits, so that their cache misses overlap.  A
 * match has read the keys of the page, not its TIDs; this is two thirds of the
 * time of adding them.  Inline, since gcc drops calls of a function that only
 * prefetches: it takes it for one without effect.
 */
static pg_attribute_always_inline void
prefetch_tids(const ItemPointerData *tids, const uint32 *hits, int n_words)
{
	for (int word = 0; word < n_words; word++)
	{
		if (hits[word] != 0)
			GjPrefetchRange(&tids[word * GJ_TIDSET_WORD_TIDS],
							GJ_TIDSET_WORD_TIDS * sizeof(*tids));
	}
}

/*
 * Make room for n more TIDs; false if the memory limit does not allow it.
 */
bool
GjTidArrayReserve(GjTidSet *set, uint64 n)
{
	uint64		needed = set->ntids + n;
	uint64		limit = set->memory_limit / sizeof(uint64) - count_unordered(set);
	Size		size;

	if (needed > limit)
		return false;
	if (needed <= set->capacity)
		return true;
	set->capacity = Max(Max(needed, GJ_TIDSET_MIN_CAPACITY), Min(set->capacity * 2, limit));
	size = set->capacity * sizeof(uint64);
	if (set->tids == NULL)
		set->tids = MemoryContextAllocHuge(set->context, size);
	else
		set->tids = repalloc_huge(set->tids, size);
	GjAskForHugePages(set->tids, size);
	return true;
}

/*
 * GjTidSetAdd() for a set that has room in its array.
 */
bool
GjTidArrayAdd(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits, int n_words)
{
	uint64		last;
	uint64	   *out;
	bool		ascending;
	bool		possible = true;

	out = set->tids + set->ntids;
	last = (set->ntids > 0) ? out[-1] : 0;
	ascending = (set->nascending == set->ntids);

	prefetch_tids(tids, hits, n_words);

	/* Two words at a time: the end of a run of bits is a branch hard to predict */
	for (int word = 0; word < n_words; word += 2)
	{
		const ItemPointerData *base = &tids[word * GJ_TIDSET_WORD_TIDS];
		uint64		left = hits[word];

		if (word + 1 < n_words)
			left |= (uint64) hits[word + 1] << GJ_TIDSET_WORD_TIDS;
		for (; left != 0; left &= left - 1)
		{
			uint64		tid = GjPackTid(&base[pg_rightmost_one_pos64(left)]);

			ascending &= (tid > last);
			possible &= ((OffsetNumber) (GjPackedOffset(tid) - 1) < MaxHeapTuplesPerPage);
			last = tid;
			*out++ = tid;
		}
	}

	set->ntids = out - set->tids;
	if (ascending)
		set->nascending = set->ntids;
	return possible;
}

/*
 * GjTidSetAddPacked() for a set that has room in its array.
 */
bool
GjTidArrayAddPacked(GjTidSet *set, const uint64 *tids, uint64 n)
{
	for (uint64 done = 0; done < n; done += GJ_TIDSET_PIECE)
	{
		uint64		piece = Min(n - done, GJ_TIDSET_PIECE);

		memcpy(set->tids + set->ntids, tids + done, piece * sizeof(uint64));
		if (!check_packed(set, piece))
			return false;
		set->ntids += piece;
	}
	return true;
}

/*
 * GjTidSetAddOne() for a set that has room in its array.
 */
void
GjTidArrayAddOne(GjTidSet *set, const ItemPointerData *tid)
{
	uint64		packed = GjPackTid(tid);

	if (set->nascending == set->ntids &&
		(set->ntids == 0 || packed > set->tids[set->ntids - 1]))
		set->nascending++;
	set->tids[set->ntids++] = packed;
}

/*
 * GjTidSetFinish() for a set that is an array.
 */
void
GjTidArrayFinish(GjTidSet *set)
{
	if (set->nascending < set->ntids)
	{
		put_in_order(set);
		drop_duplicates(set);
	}
	set->count = set->ntids;
}

/*
 * Is this a TID such as a heap tuple can have?
 *
 * Without branches and comparisons, which would take longer than the copying: what is wrong sets
 * bits above the 48 that a TID has, be it the TID itself, a negative number or a carry.
 */
static pg_attribute_always_inline uint64
what_is_wrong(uint64 tid)
{
	uint64		offset = tid & 0xFFFF;

	/* no TID, no block, no offset, an offset beyond the page's end */
	return tid | (tid + 0x10000) | (offset - 1) | ((uint64) MaxHeapTuplesPerPage - offset);
}

/*
 * Are all of these n TIDs such; do they ascend strictly, from above last?
 */
static pg_attribute_always_inline bool
look_at(const uint64 *tids, uint64 n, uint64 last, bool *ascending)
{
	uint64		impossible = 0;
	uint64		descending = tids[0] - last - 1;

	for (uint64 i = 0; i < n; i++)
		impossible |= what_is_wrong(tids[i]);
	for (uint64 i = 1; i < n; i++)
		descending |= tids[i] - tids[i - 1] - 1;
	*ascending = (descending >> 48) == 0;
	return (impossible >> 48) == 0;
}

/* The same for processors that can do twice as much at a time */
#ifdef GJ_TARGET_AVX2
GJ_TARGET_AVX2 static bool
look_at_avx2(const uint64 *tids, uint64 n, uint64 last, bool *ascending)
{
	return look_at(tids, n, last, ascending);
}
#endif

/*
 * Look at n packed TIDs, at least one: can all be a heap tuple's?  If so, do they ascend
 * strictly, the first from above last?
 */
static bool
check_order(const uint64 *tids, uint64 n, uint64 last, bool *ascending)
{
#ifdef GJ_TARGET_AVX2
	if (__builtin_cpu_supports("avx2"))
		return look_at_avx2(tids, n, last, ascending);
#endif
	return look_at(tids, n, last, ascending);
}

/*
 * The same of TIDs that are in any order: which one is the highest?
 */
static pg_attribute_always_inline bool
find_highest(const uint64 *tids, uint64 n, uint64 *highest)
{
	uint64		impossible = 0;
	int64		most = (int64) *highest;	/* signed, since processors compare such */

	for (uint64 i = 0; i < n; i++)
	{
		impossible |= what_is_wrong(tids[i]);
		most = Max(most, (int64) tids[i]);
	}
	*highest = (uint64) most;
	return (impossible >> 48) == 0;
}

#ifdef GJ_TARGET_AVX2
GJ_TARGET_AVX2 static bool
find_highest_avx2(const uint64 *tids, uint64 n, uint64 *highest)
{
	return find_highest(tids, n, highest);
}
#endif

/*
 * Look at n packed TIDs: can all be a heap tuple's?  If so, *highest is raised to the highest.
 */
bool
GjCheckPackedTids(const uint64 *tids, uint64 n, uint64 *highest)
{
#ifdef GJ_TARGET_AVX2
	if (__builtin_cpu_supports("avx2"))
		return find_highest_avx2(tids, n, highest);
#endif
	return find_highest(tids, n, highest);
}

/* Look at the n TIDs behind the array's last: valid, and still ascending? */
static bool
check_packed(GjTidSet *set, uint64 n)
{
	const uint64 *tids = set->tids + set->ntids;
	uint64		last = (set->ntids > 0) ? tids[-1] : 0;
	bool		ascending;
	bool		valid = check_order(tids, n, last, &ascending);

	if (valid && ascending && set->nascending == set->ntids)
		set->nascending = set->ntids + n;
	return valid;
}

/* How many TIDs of the array, its last ones, must be sorted */
static uint64
count_unordered(const GjTidSet *set)
{
	uint64		rest = set->ntids - set->nascending;

	return (rest > set->ntids / GJ_TIDSET_MERGE_SHARE) ? set->ntids : rest;
}

/* Sort the array, which does not ascend throughout */
static void
put_in_order(GjTidSet *set)
{
	uint64		n = count_unordered(set);
	uint64		nprefix = set->ntids - n;
	uint64	   *rest = set->tids + nprefix;
	uint64	   *scratch = MemoryContextAllocHuge(set->context, n * sizeof(uint64));
	uint64	   *sorted;

	GjAskForHugePages(scratch, n * sizeof(uint64));
	sorted = radix_sort(rest, scratch, n);
	if (nprefix == 0 && sorted == scratch)
	{
		scratch = set->tids;
		set->tids = sorted;
		set->capacity = n;
	}
	else if (nprefix > 0)
	{
		if (sorted != scratch)
			memcpy(scratch, rest, n * sizeof(uint64));
		merge_rest(set, scratch, n);
	}
	pfree(scratch);
	set->nascending = set->ntids;
}

/* Merge rest[] with the array's prefix, from the upper end down: none is overwritten */
static void
merge_rest(GjTidSet *set, const uint64 *rest, uint64 nrest)
{
	uint64	   *tids = set->tids;
	uint64		nprefix = set->ntids - nrest;
	uint64		out = set->ntids;

	while (nrest > 0)
	{
		if (nprefix > 0 && tids[nprefix - 1] > rest[nrest - 1])
			tids[--out] = tids[--nprefix];
		else
			tids[--out] = rest[--nrest];
	}
}

/* Keep one of equal neighbours */
static void
drop_duplicates(GjTidSet *set)
{
	uint64	   *tids = set->tids;
	uint64		kept = 1;

	for (uint64 i = 1; i < set->ntids; i++)
	{
		tids[kept] = tids[i];
		kept += (tids[i] != tids[kept - 1]);
	}
	set->ntids = kept;
	set->nascending = kept;
}
