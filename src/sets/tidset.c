/*-------------------------------------------------------------------------
 *
 * tidset.c
 *	  Collecting TIDs from index pages and devices, and delivering them by heap block.
 *
 * A set is an array while it fits in its memory limit.  If it would exceed the limit, it is
 * moved to a TIDBitmap, and stays there; during the move, both exist.  Sections below have the
 * functions for each form.
 *
 * Invariant: each TID that was added is delivered, or its whole block is delivered as lossy.
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

/* Number of TIDs that go to a TIDBitmap in one call */
#define GJ_TIDSET_BATCH			1024

struct GjTidSet
{
	MemoryContext context;		/* owns all memory below */
	Size		memory_limit;

	/* The array; NULL once the set has a bitmap */
	uint64	   *tids;			/* packed */
	uint64		ntids;
	uint64		capacity;
	uint64		nascending;		/* length of the strictly ascending prefix */

	TIDBitmap  *bitmap;			/* NULL while the array has all TIDs */

	/* A view: the array belongs to the source, which returns the next one when called */
	GjTidSource source;
	void	   *source_state;

	/* Valid once finished */
	uint64		count;
	bool		lossy;

	bool		proved;			/* have all TIDs but those of lossy blocks a listed key? */

	/* Cursors: over the array, or over the bitmap (started at first use) */
	uint64		next;
	uint64		peek;
	GjBitmapIterator *next_iterator;
	GjBitmapIterator *peek_iterator;

	OffsetNumber offsets[MaxHeapTuplesPerPage];
};

#define GJ_TIDSET_MIN_MEMORY	((Size) 64 * 1024)

/* One in this many is extra room for TIDs beyond the expected ones */
#define GJ_TIDSET_SPARE_SHARE	64

/* Fits the first block of the memory context */
#define GJ_TIDSET_MIN_CAPACITY	((uint64) 512)

/* An unordered part of at most one in this many is merged; if it is longer, all are sorted */
#define GJ_TIDSET_MERGE_SHARE	4

/* Number of TIDs that are copied and then checked while they are in the cache */
#define GJ_TIDSET_PIECE			2048

#if defined(__x86_64__) && defined(__GNUC__)
#define GJ_TARGET_AVX2 __attribute__((target("avx2")))
#endif

static bool get_more(GjTidSet *set);
static bool has_room(GjTidSet *set, uint64 n);
static bool check_packed(GjTidSet *set, uint64 n);
static uint64 count_unordered(const GjTidSet *set);
static void tids_put_in_order(GjTidSet *set);
static void merge_rest(GjTidSet *set, const uint64 *rest, uint64 nrest);
static void drop_duplicates(GjTidSet *set);
static bool tid_array_reserve(GjTidSet *set, uint64 n);
static bool tid_array_add(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits,
						  int n_words);
static bool tid_array_add_packed(GjTidSet *set, const uint64 *tids, uint64 n);
static void tid_bitmap_start(GjTidSet *set);
static bool tid_bitmap_add(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits,
						   int n_words);
static bool tid_bitmap_add_packed(GjTidSet *set, const uint64 *tids, uint64 n);
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
 * Make room for n expected TIDs, and some more.  An estimate that is too high takes memory up to
 * the limit, and has no other effect.
 */
void
GjTidSetExpect(GjTidSet *set, uint64 n)
{
	if (set->bitmap == NULL && n <= set->memory_limit / sizeof(uint64))
		(void) tid_array_reserve(set, n + n / GJ_TIDSET_SPARE_SHARE);
}

/*
 * Add those of n_words * 32 TIDs whose bits are set in hits[].  Returns false if one of them
 * cannot belong to a heap tuple; the set must not be used then.
 */
bool
GjTidSetAdd(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits, int n_words)
{
	if (!has_room(set, (uint64) n_words * GJ_TIDSET_WORD_TIDS))
		return tid_bitmap_add(set, tids, hits, n_words);
	return tid_array_add(set, tids, hits, n_words);
}

/*
 * Add n packed TIDs (block << 16 | offset) from memory that other processes may write to.
 * Returns false, with a part of them added, if one cannot belong to a heap tuple.
 */
bool
GjTidSetAddPacked(GjTidSet *set, const uint64 *tids, uint64 n)
{
	if (!has_room(set, n))
		return tid_bitmap_add_packed(set, tids, n);
	return tid_array_add_packed(set, tids, n);
}

/*
 * Add one TID, which must be valid
 */
void
GjTidSetAddOne(GjTidSet *set, const ItemPointerData *tid)
{
	uint64		packed = GjPackTid(tid);

	if (!has_room(set, 1))
	{
		tbm_add_tuples(set->bitmap, unconstify(ItemPointerData *, tid), 1, true);
		return;
	}
	if (set->nascending == set->ntids &&
		(set->ntids == 0 || packed > set->tids[set->ntids - 1]))
		set->nascending++;
	set->tids[set->ntids++] = packed;
}

/*
 * Add whole blocks, the first nblocks of the heap
 */
void
GjTidSetAddBlocks(GjTidSet *set, BlockNumber nblocks)
{
	if (set->bitmap == NULL)
		tid_bitmap_start(set);
	for (BlockNumber block = 0; block < nblocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		tbm_add_page(set->bitmap, block);
	}
}

/*
 * Sort the TIDs in heap order and remove duplicates.  No TID may be added later.
 */
void
GjTidSetFinish(GjTidSet *set)
{
	if (set->bitmap != NULL)
		tid_bitmap_finish(set);
	else
	{
		if (set->nascending < set->ntids)
		{
			tids_put_in_order(set);
			drop_duplicates(set);
		}
		set->count = set->ntids;
	}
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
 * Return true if a finished set has blocks whose offsets are not known
 */
bool
GjTidSetIsLossy(const GjTidSet *set)
{
	return set->lossy;
}

void
GjTidSetProve(GjTidSet *set, bool proved)
{
	set->proved = proved;
}

bool
GjTidSetIsProved(const GjTidSet *set)
{
	return set->proved;
}

/*
 * Get the packed TIDs of a finished set, in heap order; returns false, without TIDs, if they are
 * not in an array
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
 * If an index page is damaged, a block may have more TIDs than a heap page can hold tuples; the
 * rest is returned as the same block again.
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

/* Get the next TIDs from a view's source; returns false if none are left, or if it is no view */
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
 * Get the next heap block of a second cursor, which runs ahead for prefetching
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
 * Keep the second cursor from falling behind.  Must be called with each block that the first
 * cursor delivers while the second is not used.
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
 * Restart both cursors of a finished set.  A view continues with its next TIDs.
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
 * Create a set that delivers the TIDs of a source once: it cannot be rewound.  The source has a
 * zeroed state of the given size, which lives as long as the set.  Without a source the set is
 * empty.
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
 * Free the set and all its memory
 */
void
GjTidSetFree(GjTidSet *set)
{
	/* The context owns everything, including a TIDBitmap's hash table */
	MemoryContextDelete(set->context);
}

/*
 * Make room for n more TIDs in the array; returns false if they must go to the bitmap, which
 * exists then
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
 * Store a TID set as an array of packed TIDs: fill the array, check the TIDs that arrive, sort
 * them.
 *
 * TIDs arrive in any order and are sorted once, at the end: a million in 6 to 8 ms.  If they
 * arrive in heap order, as from a freshly built index, this is detected: the TIDs added so far
 * consist of a strictly ascending prefix and a rest.  A short rest (rows from tail pages, a few
 * reused slots) is sorted and merged into the prefix; otherwise all are sorted.  Duplicates, which
 * a search concurrent with insertions and a reused TID may cause, are adjacent then and removed.
 *
 * The memory limit covers the array and the memory for sorting it.
 *
 * A device delivers millions of TIDs in an instant, and touching memory for the
 * first time takes longer than writing to it.  So a large array is made of huge
 * pages where the system has them, and nothing looks at what is not yet written.
 *-------------------------------------------------------------------------
 */

/*
 * Prefetch the TIDs of all words with hits, so that their cache misses overlap.  A match has
 * read the page's keys, but not its TIDs; these misses are two thirds of the time of adding
 * them.
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
 * Make room for n more TIDs; returns false if the memory limit does not allow it
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

	/* Two words at a time: the end of a loop over set bits is hard to predict */
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
 * Return zero in the bits above 48 if a heap tuple can have this TID.
 *
 * This has no branches or comparisons, which would take longer than the copying: an invalid TID
 * sets bits above the 48 of a TID, through the TID itself, a negative number or a carry.
 */
static pg_attribute_always_inline uint64
what_is_wrong(uint64 tid)
{
	uint64		offset = tid & 0xFFFF;

	/* TID out of range, invalid block, offset zero, offset beyond the page's end */
	return tid | (tid + 0x10000) | (offset - 1) | ((uint64) MaxHeapTuplesPerPage - offset);
}

/*
 * Return true if all n TIDs are valid; set *ascending to whether they ascend strictly, all above
 * last
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

/* Likewise for processors with AVX2 */
#ifdef GJ_TARGET_AVX2
GJ_TARGET_AVX2 static bool
look_at_avx2(const uint64 *tids, uint64 n, uint64 last, bool *ascending)
{
	return look_at(tids, n, last, ascending);
}
#endif

/*
 * Likewise for TIDs in any order: find the highest one
 */
static pg_attribute_always_inline bool
find_highest(const uint64 *tids, uint64 n, uint64 *highest)
{
	uint64		impossible = 0;
	int64		most = (int64) *highest;	/* signed, because that is what vector instructions
											 * compare */

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
 * Return true if all n packed TIDs can belong to heap tuples, and raise *highest to the highest
 * of them
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

/* Validate the n TIDs after the array's last one, and see whether they still ascend */
static bool
check_packed(GjTidSet *set, uint64 n)
{
	const uint64 *tids = set->tids + set->ntids;
	uint64		last = (set->ntids > 0) ? tids[-1] : 0;
	bool		ascending;
	bool		valid;

#ifdef GJ_TARGET_AVX2
	if (__builtin_cpu_supports("avx2"))
		valid = look_at_avx2(tids, n, last, &ascending);
	else
#endif
		valid = look_at(tids, n, last, &ascending);
	if (valid && ascending && set->nascending == set->ntids)
		set->nascending = set->ntids + n;
	return valid;
}

/* Return the number of TIDs, at the end of the array, that must be sorted */
static uint64
count_unordered(const GjTidSet *set)
{
	uint64		rest = set->ntids - set->nascending;

	return (rest > set->ntids / GJ_TIDSET_MERGE_SHARE) ? set->ntids : rest;
}

/* Sort the array, which is not in ascending order */
static void
tids_put_in_order(GjTidSet *set)
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

/* Merge rest[] with the array's prefix, starting at the upper end so that no TID is overwritten */
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

/* Keep one of each group of equal neighbors */
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

			if (what_is_wrong(packed) >> 48 != 0)
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
 * Scan the bitmap to compute the properties of a finished set
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
 * Advance one of the cursors over the bitmap, starting it if necessary
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
 * End both cursors; they start over at their next use
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
