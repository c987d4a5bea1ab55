/*-------------------------------------------------------------------------
 *
 * tidbitmap.c
 *	  A TID set that is too large for its array: a TIDBitmap, whose pages may
 *	  become lossy.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "tidsetparts.h"

/*
 * Move all TIDs from the array to a new TIDBitmap.
 */
void
GjTidBitmapStart(GjTidSet *set)
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
bool
GjTidBitmapAdd(GjTidSet *set, const ItemPointerData *tids, const uint32 *hits, int n_words)
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
bool
GjTidBitmapAddPacked(GjTidSet *set, const uint64 *tids, uint64 n)
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
void
GjTidBitmapAddBlocks(GjTidSet *set, BlockNumber nblocks)
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
void
GjTidBitmapAddOne(GjTidSet *set, const ItemPointerData *tid)
{
	tbm_add_tuples(set->bitmap, unconstify(ItemPointerData *, tid), 1, true);
}

/*
 * Look once through the bitmap for what a finished set must know.
 */
void
GjTidBitmapFinish(GjTidSet *set)
{
	BlockNumber block;
	int			noffsets;

	set->count = 0;
	set->lossy = false;
	while (GjTidBitmapStep(set, &set->next_iterator, &block, set->offsets, &noffsets))
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
bool
GjTidBitmapStep(GjTidSet *set, GjBitmapIterator **iterator, BlockNumber *block,
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
void
GjTidBitmapRewind(GjTidSet *set)
{
	if (set->next_iterator != NULL)
		GjBitmapEnd(set->next_iterator);
	if (set->peek_iterator != NULL)
		GjBitmapEnd(set->peek_iterator);
	set->next_iterator = NULL;
	set->peek_iterator = NULL;
}
