/*-------------------------------------------------------------------------
 *
 * tidset.c
 *	  Collecting TIDs from index pages, ordering them, handing them out by heap
 *	  block.
 *
 * A TID is packed into a uint64 whose order is heap order.  Index entries stand
 * mostly in heap order themselves, so that it pays to know how far: what was
 * added so far is a strictly ascending prefix and a rest.  A short rest (rows from
 * tail pages, a few reused slots) is sorted and merged into the prefix; otherwise
 * all is sorted.  Duplicates, which a search that runs beside insertions and a
 * reused TID may bring, are neighbours then and leave.
 *
 * The memory limit covers the array and what sorting it takes.  A set that would
 * exceed it moves to a TIDBitmap (for the moment of the move, both exist) and
 * stays there.
 *
 * What must hold: no TID that was added is missing from what comes out, unless
 * its whole block is delivered as lossy.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "compat.h"
#include "radix.h"
#include "tidset.h"

#define GJ_TIDSET_MIN_MEMORY	((Size) 64 * 1024)
#define GJ_TIDSET_MIN_CAPACITY	((uint64) 1024)
#define GJ_TIDSET_WORD_TIDS		32

/* A rest of up to one in so many is merged, a longer one makes all be sorted */
#define GJ_TIDSET_MERGE_SHARE	4

/* TIDs that are copied and checked while they are in the cache */
#define GJ_TIDSET_PIECE			4096

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

static bool reserve(GjTidSet *set, uint64 n);
static bool check_packed(GjTidSet *set, uint64 n);
static bool add_packed_to_bitmap(GjTidSet *set, const uint64 *tids, uint64 n);
static uint64 count_unordered(const GjTidSet *set);
static void move_to_bitmap(GjTidSet *set);
static bool add_to_bitmap(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits,
						  int n_words);
static void put_in_order(GjTidSet *set);
static void merge_rest(GjTidSet *set, const uint64 *rest, uint64 nrest);
static void drop_duplicates(GjTidSet *set);
static void count_bitmap(GjTidSet *set);
static bool step_bitmap(GjTidSet *set, GjBitmapIterator **iterator, BlockNumber *block,
						OffsetNumber *offsets, int *noffsets);

static inline uint64
pack_tid(const ItemPointerData *tid)
{
	return ((uint64) tid->ip_blkid.bi_hi << 32) | ((uint64) tid->ip_blkid.bi_lo << 16) |
		tid->ip_posid;
}

static inline BlockNumber
packed_block(uint64 packed)
{
	return (BlockNumber) (packed >> 16);
}

static inline OffsetNumber
packed_offset(uint64 packed)
{
	return (OffsetNumber) packed;
}

/*
 * Ask for the TIDs of all words with hits, so that their cache misses overlap.  A
 * match has read the keys of the page, not its TIDs; this is two thirds of the
 * time of adding them.  Inline, since gcc drops calls of a function that only
 * prefetches: it takes it for one without effect.
 */
static pg_attribute_always_inline void
prefetch_tids(const ItemPointerData *tids, const uint32 *hits, int n_words)
{
#ifdef __GNUC__
	for (int word = 0; word < n_words; word++)
	{
		const char *first = (const char *) &tids[word * GJ_TIDSET_WORD_TIDS];

		for (int i = 0; hits[word] != 0 && i < GJ_TIDSET_WORD_TIDS * sizeof(*tids); i += 64)
			__builtin_prefetch(first + i);
	}
#endif
}

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
 * Add those of n_words * 32 TIDs whose bit is set in hits[].  False, and the set is
 * of no use any more, if one of them cannot be a heap tuple's.
 */
bool
GjTidSetAdd(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits, int n_words)
{
	uint64		last;
	uint64	   *out;
	bool		ascending;
	bool		possible = true;

	if (!reserve(set, (uint64) n_words * GJ_TIDSET_WORD_TIDS))
		return add_to_bitmap(set, tids, hits, n_words);

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
			uint64		tid = pack_tid(&base[pg_rightmost_one_pos64(left)]);

			ascending &= (tid > last);
			possible &= ((OffsetNumber) (packed_offset(tid) - 1) < MaxHeapTuplesPerPage);
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
 * Add n TIDs that come packed, as block << 16 | offset, from memory that somebody else may
 * write to.  False, with a part of them added, if one cannot be a heap tuple's.
 */
bool
GjTidSetAddPacked(GjTidSet *set, const uint64 *tids, uint64 n)
{
	/* Room for all at once: growing step by step would move and touch memory again and again */
	if (!reserve(set, n))
		return add_packed_to_bitmap(set, tids, n);
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
 * Add one TID, which must be possible.
 */
void
GjTidSetAddOne(GjTidSet *set, const ItemPointerData *tid)
{
	uint64		packed = pack_tid(tid);

	if (!reserve(set, 1))
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
 * Put the TIDs in heap order, each once.  No TID may be added later.
 */
void
GjTidSetFinish(GjTidSet *set)
{
	if (set->bitmap != NULL)
		count_bitmap(set);
	else
	{
		if (set->nascending < set->ntids)
		{
			put_in_order(set);
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
 * Does a finished set have blocks of which the offsets are not known?
 */
bool
GjTidSetIsLossy(const GjTidSet *set)
{
	return set->lossy;
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
	const uint64 *tids = set->tids;
	int			n = 0;

	out->offsets = set->offsets;
	if (set->bitmap != NULL)
	{
		if (!step_bitmap(set, &set->next_iterator, &out->block, set->offsets, &n))
			return false;
		out->lossy = (n < 0);
		out->noffsets = Max(n, 0);
		return true;
	}

	if (set->next >= set->ntids)
		return false;
	out->block = packed_block(tids[set->next]);
	do
	{
		set->offsets[n++] = packed_offset(tids[set->next++]);
	} while (n < MaxHeapTuplesPerPage && set->next < set->ntids &&
			 packed_block(tids[set->next]) == out->block);
	out->lossy = false;
	out->noffsets = n;
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
		return step_bitmap(set, &set->peek_iterator, block, NULL, &noffsets);

	if (set->peek >= set->ntids)
		return false;
	*block = packed_block(set->tids[set->peek]);
	do
	{
		set->peek++;
	} while (set->peek < set->ntids && packed_block(set->tids[set->peek]) == *block);
	return true;
}

/*
 * Start both cursors of a finished set again.
 */
void
GjTidSetRewind(GjTidSet *set)
{
	set->next = 0;
	set->peek = 0;
	if (set->next_iterator != NULL)
		GjBitmapEnd(set->next_iterator);
	if (set->peek_iterator != NULL)
		GjBitmapEnd(set->peek_iterator);
	set->next_iterator = NULL;
	set->peek_iterator = NULL;
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

/* Make room for n more TIDs in the array; false: they go to the bitmap */
static bool
reserve(GjTidSet *set, uint64 n)
{
	uint64		needed = set->ntids + n;
	uint64		limit;

	if (set->bitmap != NULL)
		return false;
	limit = set->memory_limit / sizeof(uint64) - count_unordered(set);
	if (needed > set->capacity || needed > limit)
	{
		if (needed > limit)
		{
			move_to_bitmap(set);
			return false;
		}
		set->capacity = Max(Max(needed, GJ_TIDSET_MIN_CAPACITY), Min(set->capacity * 2, limit));
		if (set->tids == NULL)
			set->tids = MemoryContextAllocHuge(set->context, set->capacity * sizeof(uint64));
		else
			set->tids = repalloc_huge(set->tids, set->capacity * sizeof(uint64));
	}
	return true;
}

static inline bool
is_heap_tid(uint64 packed)
{
	return (packed >> 16) <= MaxBlockNumber &&
		(OffsetNumber) (packed_offset(packed) - 1) < MaxHeapTuplesPerPage;
}

/* Look at the n TIDs behind the array's last: valid, and still ascending? */
static bool
check_packed(GjTidSet *set, uint64 n)
{
	const uint64 *tids = set->tids + set->ntids;
	bool		valid = true;
	bool		ascending = (set->nascending == set->ntids) &&
		(set->ntids == 0 || tids[0] > tids[-1]);

	for (uint64 i = 0; i < n; i++)
		valid &= is_heap_tid(tids[i]);
	for (uint64 i = 1; i < n; i++)
		ascending &= (tids[i] > tids[i - 1]);
	if (valid && ascending)
		set->nascending = set->ntids + n;
	return valid;
}

/* GjTidSetAddPacked() for a set that has a bitmap */
static bool
add_packed_to_bitmap(GjTidSet *set, const uint64 *tids, uint64 n)
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
			ItemPointerSet(&batch[i], packed_block(packed), packed_offset(packed));
		}
		tbm_add_tuples(set->bitmap, batch, size, true);
		tids += size;
		n -= size;
	}
	return true;
}

/* How many TIDs of the array, its last ones, must be sorted */
static uint64
count_unordered(const GjTidSet *set)
{
	uint64		rest = set->ntids - set->nascending;

	return (rest > set->ntids / GJ_TIDSET_MERGE_SHARE) ? set->ntids : rest;
}

/* Move all TIDs from the array to a new TIDBitmap */
static void
move_to_bitmap(GjTidSet *set)
{
	ItemPointerData batch[GJ_TIDSET_BATCH];
	MemoryContext old = MemoryContextSwitchTo(set->context);
	int			n = 0;

	set->bitmap = tbm_create(set->memory_limit, NULL);
	for (uint64 i = 0; i < set->ntids; i++)
	{
		ItemPointerSet(&batch[n], packed_block(set->tids[i]), packed_offset(set->tids[i]));
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

/* GjTidSetAdd() for a set that has a bitmap */
static bool
add_to_bitmap(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits, int n_words)
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

/* Sort the array, which does not ascend throughout */
static void
put_in_order(GjTidSet *set)
{
	uint64		n = count_unordered(set);
	uint64		nprefix = set->ntids - n;
	uint64	   *rest = set->tids + nprefix;
	uint64	   *scratch = MemoryContextAllocHuge(set->context, n * sizeof(uint64));
	uint64	   *sorted = radix_sort(rest, scratch, n);

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

/* Look once through the bitmap for what a finished set must know */
static void
count_bitmap(GjTidSet *set)
{
	BlockNumber block;
	int			noffsets;

	set->count = 0;
	set->lossy = false;
	while (step_bitmap(set, &set->next_iterator, &block, set->offsets, &noffsets))
	{
		CHECK_FOR_INTERRUPTS();
		if (noffsets < 0)
			set->lossy = true;
		set->count += (noffsets < 0) ? 1 : noffsets;
	}
}

/* Step one of the cursors over the bitmap, beginning it if it is new */
static bool
step_bitmap(GjTidSet *set, GjBitmapIterator **iterator, BlockNumber *block,
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
