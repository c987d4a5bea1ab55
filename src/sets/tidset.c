/*-------------------------------------------------------------------------
 *
 * tidset.c
 *	  Collecting TIDs from index pages and devices, and handing them out by heap
 *	  block.
 *
 * A set is an array (tidset.c) while it fits in its memory limit.  One that would
 * exceed it moves to a TIDBitmap (tidset.c; for the moment of the move, both
 * exist) and stays there.
 *
 * What must hold: no TID that was added is missing from what comes out, unless
 * its whole block is delivered as lossy.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "base/prefetch.h"
#include "base/radix.h"
#include "base/region.h"
#include "tidset.h"

#define GJ_TIDSET_WORD_TIDS		32

/* TIDs that go to a TIDBitmap in one call */
#define GJ_TIDSET_BATCH			1024

struct GjTidSet
{
	MemoryContext context;		/* all below lives here */
	Size		memory_limit;

	/* The array; NULL once there is a bitmap */
	uint64	   *tids;			/* packed */
	uint64		ntids;
	uint64		capacity;
	uint64		nascending;		/* the first so many ascend strictly */

	TIDBitmap  *bitmap;			/* NULL while all fits the array */

	/* A view: the array is somebody else's, and this gets the next one */
	GjTidSource source;
	void	   *source_state;

	/* Valid once finished */
	uint64		count;
	bool		lossy;

	/* Cursors: over the array, or over the bitmap (begun when first used) */
	uint64		next;
	uint64		peek;
	GjBitmapIterator *next_iterator;
	GjBitmapIterator *peek_iterator;

	OffsetNumber offsets[MaxHeapTuplesPerPage];
};

#define GJ_TIDSET_MIN_MEMORY	((Size) 64 * 1024)

/* One in so many is room for what is found beside what was expected */
#define GJ_TIDSET_SPARE_SHARE	64

#define GJ_TIDSET_MIN_CAPACITY	((uint64) 1024)

/* A rest of up to one in so many is merged, a longer one makes all be sorted */
#define GJ_TIDSET_MERGE_SHARE	4

/* TIDs that are copied and checked while they are in the cache */
#define GJ_TIDSET_PIECE			2048

#if defined(__x86_64__) && defined(__GNUC__)
#define GJ_TARGET_AVX2 __attribute__((target("avx2")))
#endif

static bool get_more(GjTidSet *set);
static bool has_room(GjTidSet *set, uint64 n);
static bool check_packed(GjTidSet *set, uint64 n);
static uint64 count_unordered(const GjTidSet *set);
static void put_in_order(GjTidSet *set);
static void merge_rest(GjTidSet *set, const uint64 *rest, uint64 nrest);
static void drop_duplicates(GjTidSet *set);
static bool tid_array_reserve(GjTidSet *set, uint64 n);
static bool tid_array_add(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits,
						  int n_words);
static bool tid_array_add_packed(GjTidSet *set, const uint64 *tids, uint64 n);
static void tid_array_add_one(GjTidSet *set, const ItemPointerData *tid);
static void tid_array_finish(GjTidSet *set);
static void tid_bitmap_start(GjTidSet *set);
static bool tid_bitmap_add(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits,
						   int n_words);
static bool tid_bitmap_add_packed(GjTidSet *set, const uint64 *tids, uint64 n);
static void tid_bitmap_add_blocks(GjTidSet *set, BlockNumber nblocks);
static void tid_bitmap_add_one(GjTidSet *set, const ItemPointerData *tid);
static void tid_bitmap_finish(GjTidSet *set);
static bool tid_bitmap_step(GjTidSet *set, GjBitmapIterator **iterator, BlockNumber *block,
							OffsetNumber *offsets, int *noffsets);
static void tid_bitmap_rewind(GjTidSet *set);

/*
 * Create an empty set in a memory context of its own below parent.
 */
GjTidSet *
GjTidSetCreate(MemoryContext parent, Size memory_limit)
{
	MemoryContext context = AllocSetContextCreate(parent, "gpujoin TID set",
												  ALLOCSET_DEFAULT_SIZES);
	GjTidSet   *set = MemoryContextAllocZero(context, sizeof(GjTidSet));

	set->context = context;
	set->memory_limit = Max(memory_limit, GJ_TIDSET_MIN_MEMORY);
	return set;
}

/*
 * Make room for n TIDs, which will probably come, and some more.  A wrong guess takes memory up
 * to the limit, and nothing else.
 */
void
GjTidSetExpect(GjTidSet *set, uint64 n)
{
	if (set->bitmap == NULL && n <= set->memory_limit / sizeof(uint64))
		(void) tid_array_reserve(set, n + n / GJ_TIDSET_SPARE_SHARE);
}

/*
 * Add those of n_words * 32 TIDs whose bit is set in hits[].  False, and the set is
 * of no use any more, if one of them cannot be a heap tuple's.
 */
bool
GjTidSetAdd(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits, int n_words)
{
	if (!has_room(set, (uint64) n_words * GJ_TIDSET_WORD_TIDS))
		return tid_bitmap_add(set, tids, hits, n_words);
	return tid_array_add(set, tids, hits, n_words);
}

/*
 * Add n TIDs that come packed, as block << 16 | offset, from memory that somebody else may
 * write to.  False, with a part of them added, if one cannot be a heap tuple's.
 */
bool
GjTidSetAddPacked(GjTidSet *set, const uint64 *tids, uint64 n)
{
	if (!has_room(set, n))
		return tid_bitmap_add_packed(set, tids, n);
	return tid_array_add_packed(set, tids, n);
}

/*
 * Add one TID, which must be possible.
 */
void
GjTidSetAddOne(GjTidSet *set, const ItemPointerData *tid)
{
	if (has_room(set, 1))
		tid_array_add_one(set, tid);
	else
		tid_bitmap_add_one(set, tid);
}

/*
 * Add whole blocks, from the heap's first on
 */
void
GjTidSetAddBlocks(GjTidSet *set, BlockNumber nblocks)
{
	if (set->bitmap == NULL)
		tid_bitmap_start(set);
	tid_bitmap_add_blocks(set, nblocks);
}

/*
 * Put the TIDs in heap order, each once.  No TID may be added later.
 */
void
GjTidSetFinish(GjTidSet *set)
{
	if (set->bitmap != NULL)
		tid_bitmap_finish(set);
	else
		tid_array_finish(set);
	GjTidSetRewind(set);
}

/*
 * Count the distinct TIDs of a finished set; a lossy block counts as one.
 */
uint64
GjTidSetCount(const GjTidSet *set)
{
	return set->count;
}

/*
 * Does a finished set have blocks of which the offsets are not known?
 */
bool
GjTidSetIsLossy(const GjTidSet *set)
{
	return set->lossy;
}

/*
 * Get the TIDs of a finished set, packed, in heap order; false, and none of them, if they are no
 * array.
 */
bool
GjTidSetGetArray(const GjTidSet *set, const uint64 **tids, uint64 *ntids)
{
	bool		is_array = set->bitmap == NULL;

	*tids = is_array ? set->tids : NULL;
	*ntids = is_array ? set->ntids : 0;
	return is_array;
}

/*
 * Get the next heap block with its candidates.
 *
 * If an index page is damaged, a block may have more TIDs than a heap page can
 * hold tuples; the surplus comes as the same block again.
 */
bool
GjTidSetNextBlock(GjTidSet *set, GjTidBlock *out)
{
	const uint64 *tids;
	int			n = 0;

	out->offsets = set->offsets;
	if (set->bitmap != NULL)
	{
		if (!tid_bitmap_step(set, &set->next_iterator, &out->block, set->offsets, &n))
			return false;
		out->lossy = (n < 0);
		out->noffsets = Max(n, 0);
		return true;
	}

	if (set->next >= set->ntids && !get_more(set))
		return false;
	tids = set->tids;
	out->block = GjPackedBlock(tids[set->next]);
	do
	{
		set->offsets[n++] = GjPackedOffset(tids[set->next++]);
	} while (n < MaxHeapTuplesPerPage && set->next < set->ntids &&
			 GjPackedBlock(tids[set->next]) == out->block);
	out->lossy = (set->offsets[0] == InvalidOffsetNumber);
	out->noffsets = out->lossy ? 0 : n;
	return true;
}

/* Have a view's source give the next TIDs; false: there are none, or it is no view */
static bool
get_more(GjTidSet *set)
{
	const uint64 *tids = NULL;

	if (set->source == NULL)
		return false;
	set->next = set->peek = set->ntids = 0;
	if (!set->source(set->source_state, &tids, &set->ntids))
		return false;
	set->tids = unconstify(uint64 *, tids);
	return true;
}

/*
 * Get the next heap block of a second cursor, which runs ahead for prefetching.
 */
bool
GjTidSetPeekBlock(GjTidSet *set, BlockNumber *block)
{
	int			noffsets;

	if (set->bitmap != NULL)
		return tid_bitmap_step(set, &set->peek_iterator, block, NULL, &noffsets);

	if (set->peek >= set->ntids)
		return false;
	*block = GjPackedBlock(set->tids[set->peek]);
	do
	{
		set->peek++;
	} while (set->peek < set->ntids && GjPackedBlock(set->tids[set->peek]) == *block);
	return true;
}

/*
 * Keep the second cursor from falling behind: to be called with each block that the first
 * one delivers while the second is not used.
 */
void
GjTidSetFollow(GjTidSet *set)
{
	BlockNumber block;

	if (set->bitmap != NULL)
		(void) GjTidSetPeekBlock(set, &block);
	else
		set->peek = Max(set->peek, set->next);
}

/*
 * Start both cursors of a finished set again.  A view goes on with what comes next.
 */
void
GjTidSetRewind(GjTidSet *set)
{
	set->next = 0;
	set->peek = 0;
	if (set->source != NULL)
		set->ntids = 0;
	tid_bitmap_rewind(set);
}

/*
 * Create a set that delivers the TIDs of a source, once: it cannot be rewound.  The
 * source has a state of the given size, zeroed, which lives as long as the set.  Without
 * a source the set is empty.
 */
GjTidSet *
GjTidSetCreateView(MemoryContext parent, GjTidSource source, Size state_size, void **state)
{
	GjTidSet   *set = GjTidSetCreate(parent, 0);

	set->source = source;
	if (state_size > 0)
		*state = set->source_state = MemoryContextAllocZero(set->context, state_size);
	return set;
}

/*
 * Free the set with all it has.
 */
void
GjTidSetFree(GjTidSet *set)
{
	/* The context has everything, a TIDBitmap's hash table included */
	MemoryContextDelete(set->context);
}

/*
 * Make room for n more TIDs in the array; false: they go to the bitmap, which there is then
 */
static bool
has_room(GjTidSet *set, uint64 n)
{
	if (set->bitmap != NULL)
		return false;
	if (tid_array_reserve(set, n))
		return true;
	tid_bitmap_start(set);
	return false;
}

/*-------------------------------------------------------------------------
 * The array
 *
 * A TID set as an array of packed TIDs: filling it, checking what comes, putting
 * it in order.
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
 *-------------------------------------------------------------------------
 */

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
static bool
tid_array_reserve(GjTidSet *set, uint64 n)
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
static bool
tid_array_add(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits, int n_words)
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
static bool
tid_array_add_packed(GjTidSet *set, const uint64 *tids, uint64 n)
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
static void
tid_array_add_one(GjTidSet *set, const ItemPointerData *tid)
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
static void
tid_array_finish(GjTidSet *set)
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

/*-------------------------------------------------------------------------
 * The bitmap
 *
 * A TID set that is too large for its array: a TIDBitmap, whose pages may
 * become lossy.
 *-------------------------------------------------------------------------
 */

/*
 * Move all TIDs from the array to a new TIDBitmap.
 */
static void
tid_bitmap_start(GjTidSet *set)
{
	ItemPointerData batch[GJ_TIDSET_BATCH];
	MemoryContext old = MemoryContextSwitchTo(set->context);
	int			n = 0;

	set->bitmap = tbm_create(set->memory_limit, NULL);
	for (uint64 i = 0; i < set->ntids; i++)
	{
		ItemPointerSet(&batch[n], GjPackedBlock(set->tids[i]), GjPackedOffset(set->tids[i]));
		if (++n == GJ_TIDSET_BATCH || i + 1 == set->ntids)
		{
			CHECK_FOR_INTERRUPTS();
			tbm_add_tuples(set->bitmap, batch, n, true);
			n = 0;
		}
	}
	MemoryContextSwitchTo(old);

	if (set->tids != NULL)
		pfree(set->tids);
	set->tids = NULL;
	set->ntids = 0;
	set->nascending = 0;
	set->capacity = 0;
}

/*
 * GjTidSetAdd() for a set that has a bitmap.
 */
static bool
tid_bitmap_add(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits, int n_words)
{
	for (int word = 0; word < n_words; word++)
	{
		ItemPointerData batch[GJ_TIDSET_WORD_TIDS];
		int			n = 0;

		for (uint32 left = hits[word]; left != 0; left &= left - 1)
		{
			batch[n] = tids[word * GJ_TIDSET_WORD_TIDS + pg_rightmost_one_pos32(left)];
			if (!GjTidIsPossible(&batch[n]))
				return false;
			n++;
		}
		if (n > 0)
			tbm_add_tuples(set->bitmap, batch, n, true);
	}
	return true;
}

static inline bool
is_heap_tid(uint64 packed)
{
	return (packed >> 16) <= MaxBlockNumber &&
		(OffsetNumber) (GjPackedOffset(packed) - 1) < MaxHeapTuplesPerPage;
}

/*
 * GjTidSetAddPacked() for a set that has a bitmap.
 */
static bool
tid_bitmap_add_packed(GjTidSet *set, const uint64 *tids, uint64 n)
{
	ItemPointerData batch[GJ_TIDSET_BATCH];

	while (n > 0)
	{
		int			size = (int) Min(n, GJ_TIDSET_BATCH);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < size; i++)
		{
			uint64		packed = *(const volatile uint64 *) &tids[i];

			if (!is_heap_tid(packed))
				return false;
			ItemPointerSet(&batch[i], GjPackedBlock(packed), GjPackedOffset(packed));
		}
		tbm_add_tuples(set->bitmap, batch, size, true);
		tids += size;
		n -= size;
	}
	return true;
}

/*
 * GjTidSetAddBlocks() for a set that has a bitmap.
 */
static void
tid_bitmap_add_blocks(GjTidSet *set, BlockNumber nblocks)
{
	for (BlockNumber block = 0; block < nblocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		tbm_add_page(set->bitmap, block);
	}
}

/*
 * GjTidSetAddOne() for a set that has a bitmap.
 */
static void
tid_bitmap_add_one(GjTidSet *set, const ItemPointerData *tid)
{
	tbm_add_tuples(set->bitmap, unconstify(ItemPointerData *, tid), 1, true);
}

/*
 * Look once through the bitmap for what a finished set must know.
 */
static void
tid_bitmap_finish(GjTidSet *set)
{
	BlockNumber block;
	int			noffsets;

	set->count = 0;
	set->lossy = false;
	while (tid_bitmap_step(set, &set->next_iterator, &block, set->offsets, &noffsets))
	{
		CHECK_FOR_INTERRUPTS();
		if (noffsets < 0)
			set->lossy = true;
		set->count += (noffsets < 0) ? 1 : noffsets;
	}
}

/*
 * Step one of the cursors over the bitmap, beginning it if it is new.
 */
static bool
tid_bitmap_step(GjTidSet *set, GjBitmapIterator **iterator, BlockNumber *block,
				OffsetNumber *offsets, int *noffsets)
{
	if (*iterator == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(set->context);

		*iterator = GjBitmapBegin(set->bitmap);
		MemoryContextSwitchTo(old);
	}
	return GjBitmapNext(*iterator, block, offsets, noffsets);
}

/*
 * End both cursors; they begin anew when they are next used.
 */
static void
tid_bitmap_rewind(GjTidSet *set)
{
	if (set->next_iterator != NULL)
		GjBitmapEnd(set->next_iterator);
	if (set->peek_iterator != NULL)
		GjBitmapEnd(set->peek_iterator);
	set->next_iterator = NULL;
	set->peek_iterator = NULL;
}
