/*-------------------------------------------------------------------------
 *
 * lists.c
 *	  Which pages hold an index's entries, and how readers know that they still do.
 *
 * The metapage lists runs and deltas.  A run's pages are found by its directory, a delta's by its
 * list pages; and each page says to which run or delta it belongs.  A page lives if its number is
 * one that the metapage lists, or is fold_run, that of the run that is being written.  All others
 * are free, and who needs a page takes one of them.  So the record of the metapage that publishes
 * a new run frees all that it replaces, at the same moment.
 *
 * Numbers are drawn from next_run, and none is drawn twice.  Hence, for a state of the metapage
 * that was read at some time, and a page that is locked afterwards:
 *
 *	  - a page with a number that the state lists belonged to that run or delta then;
 *	  - a number below next_run that it does not list was dead then, and is so for ever: the page
 *		is free, until somebody who has locked it exclusively puts it to use;
 *	  - a number from next_run on is younger than the state.
 *
 * Readers lock one page at a time.  So a page may have been freed, and used anew, since its reader
 * read the metapage.  Whoever publishes raises list_version.  A reader looks at it again when it
 * has read all pages: if it has not changed, all of them lived all the time, as nobody takes a page
 * that lives.  If it has changed, the reader forgets what it has found and begins again.  What it
 * met meanwhile means nothing: a page that is not what its list says is an error only if
 * list_version is the same.
 *
 * Each change to a page draws a number from the metapage's sequence, and so does whoever publishes
 * or gives up a run, before a run's pages are written with the number drawn for them.  So between
 * the last change to a page that dies and the first one to what it becomes there is always a
 * number that is no page's: a copy of the index needs it (mirror/push.c).
 *
 * Beginning an own delta, with the one before to be folded, frees nothing and does not raise it.
 * Rows that are moved to the new one after the state was read were on tail pages until then, which
 * readers read before the metapage.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "pages.h"

static void check_run(Relation index, const GjMetaPageData *meta, const GjRun *run);
static void check_delta(Relation index, const GjMetaPageData *meta, const GjDelta *delta);
static bool read_list(Relation index, const GjIndexState *state, const GjDelta *delta,
					  BlockNumber nblocks, BlockNumber *blocks);
static void copy_list_page(Relation index, Buffer buffer, BlockNumber first_data,
						   BlockNumber nblocks, int count, BlockNumber *blocks);

/*
 * Check what a metapage says of runs and deltas
 */
void
GjListsCheck(Relation index, const GjMetaPageData *meta)
{
	uint32		numbers[GJ_MAX_ALIVE];
	int			count = 0;

	if (meta->nruns > GJ_MAX_RUNS || meta->next_run > GJ_MAX_RUN_NUMBER + 1 ||
		meta->list_version == 0 || meta->delta.run == 0)
		GjReportCorruption(index, GJ_META_BLOCK, "The metapage's list of runs is damaged.");

	for (int i = 0; i < meta->nruns; i++)
	{
		check_run(index, meta, &meta->runs[i]);
		numbers[count++] = meta->runs[i].run;
	}
	check_delta(index, meta, &meta->delta);
	numbers[count++] = meta->delta.run;
	if (meta->previous.run != 0)
	{
		check_delta(index, meta, &meta->previous);
		numbers[count++] = meta->previous.run;
	}
	if (meta->fold_run != 0)
		numbers[count++] = meta->fold_run;

	for (int i = 0; i < count; i++)
	{
		bool		wrong = numbers[i] == 0 || numbers[i] >= meta->next_run;

		for (int other = 0; other < i; other++)
			wrong |= numbers[other] == numbers[i];
		if (wrong)
			GjReportCorruption(index, GJ_META_BLOCK, "A run's number is impossible.");
	}
}

static void
check_run(Relation index, const GjMetaPageData *meta, const GjRun *run)
{
	if (run->height < 1 || run->height > GJ_MAX_HEIGHT ||
		run->root < meta->first_data || run->root >= meta->min_blocks ||
		run->data_pages < 1 || run->directory_pages < run->height ||
		(uint64) run->data_pages + run->directory_pages > meta->min_blocks - meta->first_data ||
		run->entries < 1 || run->entries > (uint64) run->data_pages * meta->slots ||
		run->dead > run->entries || run->min_key > run->max_key ||
		run->published > meta->sequence)
		GjReportCorruption(index, GJ_META_BLOCK,
						   "The metapage's description of a run is damaged.");
}

/*
 * All list pages but the last one are full
 */
static void
check_delta(Relation index, const GjMetaPageData *meta, const GjDelta *delta)
{
	uint64		most = (uint64) delta->list_pages * GJ_LIST_BLOCKS;
	bool		wrong;

	if (delta->list_pages == 0)
		wrong = delta->data_pages != 0 || BlockNumberIsValid(delta->head);
	else
		wrong = delta->data_pages > most || delta->data_pages + GJ_LIST_BLOCKS < most ||
			(uint64) delta->data_pages + delta->list_pages > meta->min_blocks - meta->first_data ||
			delta->head < meta->first_data || delta->head >= meta->min_blocks;
	if (wrong)
		GjReportCorruption(index, GJ_META_BLOCK,
						   "The metapage's description of a delta is damaged.");
}

/*
 * Tell to which of the lists a page belongs that was locked after the state had been read
 *
 * The page is all zeroes, or has been checked.
 */
GjPageOwner
GjPageGetOwner(const GjIndexState *state, Page page)
{
	uint32		run;

	if (GjPageIsUnused(page))
		return GJ_OWNER_NOBODY;

	run = GjPageGetOpaque(page)->run;
	if (run >= state->next_run)
		return GJ_OWNER_LATER;
	for (int i = 0; i < state->nruns; i++)
	{
		if (state->runs[i].run == run)
			return GJ_OWNER_RUN;
	}
	for (int i = 0; i < lengthof(state->deltas); i++)
	{
		if (state->deltas[i].run != 0 && state->deltas[i].run == run)
			return GJ_OWNER_DELTA;
	}
	return run == state->fold_run && run != 0 ? GJ_OWNER_FOLD : GJ_OWNER_NOBODY;
}

/*
 * List the numbers below next_run that are not dead; returns how many
 */
int
GjListsGetAlive(const GjIndexState *state, uint32 *numbers)
{
	int			count = 0;

	for (int i = 0; i < state->nruns; i++)
		numbers[count++] = state->runs[i].run;
	for (int i = 0; i < lengthof(state->deltas); i++)
	{
		if (state->deltas[i].run != 0)
			numbers[count++] = state->deltas[i].run;
	}
	if (state->fold_run != 0)
		numbers[count++] = state->fold_run;
	return count;
}

/*
 * About how many pages are free, of a file of that length?  What a fold is writing counts as free.
 */
uint64
GjListsCountFree(const GjIndexState *state, const GjIndexInfo *info, BlockNumber length)
{
	uint64		all = length - info->first_data;
	uint64		alive = 0;

	for (int i = 0; i < state->nruns; i++)
		alive += (uint64) state->runs[i].data_pages + state->runs[i].directory_pages;
	for (int i = 0; i < lengthof(state->deltas); i++)
		alive += (uint64) state->deltas[i].data_pages + state->deltas[i].list_pages;
	return all - Min(alive, all);
}

/*
 * Have pages been freed since the state was read?
 */
bool
GjListsMoved(Relation index, const GjIndexState *state)
{
	Buffer		metabuf = ReadBuffer(index, GJ_META_BLOCK);
	GjMetaPage	meta;
	bool		moved;

	LockBuffer(metabuf, BUFFER_LOCK_SHARE);
	GjPageCheck(index, metabuf, GJ_PAGE_META);
	meta = GjPageGetMeta(BufferGetPage(metabuf));
	moved = meta->list_version != state->list_version || meta->build_id != state->build_id;
	UnlockReleaseBuffer(metabuf);
	return moved;
}

/*
 * Get the data pages of the deltas, as they were when the state was read; false if the lists have
 * moved since
 *
 * True does not say that they have not: whoever reads the pages looks again afterwards.
 */
bool
GjDeltaGetBlocks(Relation index, const GjIndexState *state, BlockNumber **blocks,
				 BlockNumber *nblocks)
{
	BlockNumber length = GjIndexGetLength(index);
	uint64		count = 0;

	for (int i = 0; i < lengthof(state->deltas); i++)
	{
		if (state->deltas[i].run != 0)
			count += state->deltas[i].data_pages;
	}
	*blocks = MemoryContextAllocHuge(CurrentMemoryContext, Max(count, 1) * sizeof(BlockNumber));
	*nblocks = 0;
	for (int i = 0; i < lengthof(state->deltas); i++)
	{
		const GjDelta *delta = &state->deltas[i];

		if (delta->run == 0 || delta->data_pages == 0)
			continue;
		if (!read_list(index, state, delta, length, *blocks + *nblocks))
		{
			pfree(*blocks);
			*blocks = NULL;
			*nblocks = 0;
			return false;
		}
		*nblocks += delta->data_pages;
	}
	return true;
}

/*
 * Get the list pages of a delta that nobody changes
 */
void
GjDeltaGetLists(Relation index, const GjDelta *delta, BlockNumber *blocks)
{
	BlockNumber block = delta->head;

	for (BlockNumber i = 0; i < delta->list_pages; i++)
	{
		Buffer		buffer = ReadBuffer(index, block);

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		GjPageCheck(index, buffer, GJ_PAGE_LIST);
		blocks[i] = block;
		block = GjPageGetList(BufferGetPage(buffer))->previous;
		UnlockReleaseBuffer(buffer);
	}
}

/*
 * Copy the blocks that a delta had, from its last list page back to the first
 *
 * The last one may have got more since.  There may be a later one, too, that was still unknown.
 */
static bool
read_list(Relation index, const GjIndexState *state, const GjDelta *delta, BlockNumber nblocks,
		  BlockNumber *blocks)
{
	BlockNumber block = delta->head;
	GjIndexInfo info;

	GjIndexGetInfo(index, &info);
	for (BlockNumber i = delta->list_pages; i-- > 0;)
	{
		BlockNumber first = i * GJ_LIST_BLOCKS;
		Buffer		buffer;
		Page		page;

		if (block < info.first_data || block >= nblocks)
			GjReportCorruption(index, GJ_META_BLOCK, "A list of data pages ends too early.");
		buffer = ReadBuffer(index, block);
		page = BufferGetPage(buffer);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		if (GjPageIsUnused(page) || GjPageCheckKind(index, buffer) != GJ_PAGE_LIST ||
			GjPageGetOpaque(page)->run != delta->run)
		{
			UnlockReleaseBuffer(buffer);
			if (GjListsMoved(index, state))
				return false;
			GjReportCorruption(index, block, "The page is not of the list that it is in.");
		}
		copy_list_page(index, buffer, info.first_data, nblocks,
					   Min(delta->data_pages - first, GJ_LIST_BLOCKS), blocks + first);
		block = GjPageGetList(page)->previous;
		UnlockReleaseBuffer(buffer);
	}
	if (BlockNumberIsValid(block))
		GjReportCorruption(index, delta->head, "A list of data pages has too many of them.");
	return true;
}

static void
copy_list_page(Relation index, Buffer buffer, BlockNumber first_data, BlockNumber nblocks,
			   int count, BlockNumber *blocks)
{
	Page		page = BufferGetPage(buffer);

	if (GjPageGetOpaque(page)->used < count)
		GjReportCorruption(index, BufferGetBlockNumber(buffer),
						   "A list has fewer data pages than the metapage counts.");
	memcpy(blocks, GjPageGetList(page)->blocks, count * sizeof(BlockNumber));
	for (int i = 0; i < count; i++)
	{
		if (blocks[i] < first_data || blocks[i] >= nblocks)
			GjReportCorruption(index, BufferGetBlockNumber(buffer),
							   "A list names a data page that does not exist.");
	}
}
