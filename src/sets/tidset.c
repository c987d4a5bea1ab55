/*-------------------------------------------------------------------------
 *
 * tidset.c
 *	  Collecting TIDs from index pages and devices, and handing them out by heap
 *	  block.
 *
 * A set is an array (tidarray.c) while it fits in its memory limit.  One that would
 * exceed it moves to a TIDBitmap (tidbitmap.c; for the moment of the move, both
 * exist) and stays there.
 *
 * What must hold: no TID that was added is missing from what comes out, unless
 * its whole block is delivered as lossy.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "tidsetparts.h"

#define GJ_TIDSET_MIN_MEMORY	((Size) 64 * 1024)

/* One in so many is room for what is found beside what was expected */
#define GJ_TIDSET_SPARE_SHARE	64

static bool get_more(GjTidSet *set);
static bool has_room(GjTidSet *set, uint64 n);

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
		(void) GjTidArrayReserve(set, n + n / GJ_TIDSET_SPARE_SHARE);
}

/*
 * Add those of n_words * 32 TIDs whose bit is set in hits[].  False, and the set is
 * of no use any more, if one of them cannot be a heap tuple's.
 */
bool
GjTidSetAdd(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits, int n_words)
{
	if (!has_room(set, (uint64) n_words * GJ_TIDSET_WORD_TIDS))
		return GjTidBitmapAdd(set, tids, hits, n_words);
	return GjTidArrayAdd(set, tids, hits, n_words);
}

/*
 * Add n TIDs that come packed, as block << 16 | offset, from memory that somebody else may
 * write to.  False, with a part of them added, if one cannot be a heap tuple's.
 */
bool
GjTidSetAddPacked(GjTidSet *set, const uint64 *tids, uint64 n)
{
	if (!has_room(set, n))
		return GjTidBitmapAddPacked(set, tids, n);
	return GjTidArrayAddPacked(set, tids, n);
}

/*
 * Add one TID, which must be possible.
 */
void
GjTidSetAddOne(GjTidSet *set, const ItemPointerData *tid)
{
	if (has_room(set, 1))
		GjTidArrayAddOne(set, tid);
	else
		GjTidBitmapAddOne(set, tid);
}

/*
 * Add whole blocks, from the heap's first on
 */
void
GjTidSetAddBlocks(GjTidSet *set, BlockNumber nblocks)
{
	if (set->bitmap == NULL)
		GjTidBitmapStart(set);
	GjTidBitmapAddBlocks(set, nblocks);
}

/*
 * Put the TIDs in heap order, each once.  No TID may be added later.
 */
void
GjTidSetFinish(GjTidSet *set)
{
	if (set->bitmap != NULL)
		GjTidBitmapFinish(set);
	else
		GjTidArrayFinish(set);
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
		if (!GjTidBitmapStep(set, &set->next_iterator, &out->block, set->offsets, &n))
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
		return GjTidBitmapStep(set, &set->peek_iterator, block, NULL, &noffsets);

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
	GjTidBitmapRewind(set);
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
	if (GjTidArrayReserve(set, n))
		return true;
	GjTidBitmapStart(set);
	return false;
}
