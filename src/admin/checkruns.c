/*-------------------------------------------------------------------------
 *
 * checkruns.c
 *	  gpujoin_check(): do directories and lists name the pages that there are, each once, and
 *	  are the entries of a run in order?
 *
 * The pages of a run stand still while it lives.  A delta may grow: then a page that its list has
 * not got was changed after the list had been read.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/tid.h"
#include "check.h"

/* A run on its way through its directory */
typedef struct RunCheck
{
	GjCheckState *state;
	const GjRun *run;
	int			number;			/* among the runs */
	BlockNumber data_pages;		/* met so far */
	BlockNumber directory_pages;
	GjPlace		last;			/* the last entry so far */
} RunCheck;

static void check_run(GjCheckState *state, int number);
static void check_directory(RunCheck *check, BlockNumber block, int level, const GjPlace *first);
static GjDirectory *copy_directory(RunCheck *check, BlockNumber block, int level, int *n);
static void check_run_page(RunCheck *check, BlockNumber block, const GjPlace *first);
static void check_order(RunCheck *check, BlockNumber block, Page page, const GjPlace *first);
static void check_delta(GjCheckState *state, const GjDelta *delta);
static void check_open_pages(GjCheckState *state);
static void check_all_named(GjCheckState *state);
static bool name_page(GjCheckState *state, BlockNumber by, BlockNumber block, uint32 run,
					  bool is_data);

static inline bool
precedes(const GjPlace *a, const GjPlace *b)
{
	return a->key < b->key || (a->key == b->key && a->tid < b->tid);
}

static inline bool
is_equal(const GjPlace *a, const GjPlace *b)
{
	return a->key == b->key && a->tid == b->tid;
}

/*
 * Compare the lists of state->now with the pages that have been met.  Ends early if the lists
 * move.
 */
void
GjCheckLists(GjCheckState *state)
{
	for (int i = 0; i < state->now.nruns && !state->moved; i++)
		check_run(state, i);
	for (int i = 0; i < lengthof(state->now.deltas) && !state->moved; i++)
	{
		if (state->now.deltas[i].run != 0)
			check_delta(state, &state->now.deltas[i]);
	}
	if (!state->moved)
		check_open_pages(state);
	if (!state->moved)
		check_all_named(state);
}

static void
check_run(GjCheckState *state, int number)
{
	const GjRun *run = &state->now.runs[number];
	RunCheck	check = {state, run, number};

	check.last.key = PG_INT64_MIN;
	if (name_page(state, GJ_META_BLOCK, run->root, run->run, false))
		check_directory(&check, run->root, run->height - 1, NULL);
	if (state->moved)
		return;
	if (check.data_pages != run->data_pages || check.directory_pages != run->directory_pages)
		GjCheckWrong(state, GJ_META_BLOCK, "The metapage miscounts the pages of a run.");
	else if (check.last.key != run->max_key)
		GjCheckWrong(state, GJ_META_BLOCK, "A run's largest key is not what the metapage says.");
}

/*
 * Check a page of the directory, which has been named by what is above it, and all below
 */
static void
check_directory(RunCheck *check, BlockNumber block, int level, const GjPlace *first)
{
	GjCheckState *state = check->state;
	int			n;
	GjDirectory *directory = copy_directory(check, block, level, &n);

	check->directory_pages++;
	for (int i = 0; directory != NULL && i < n && !state->moved; i++)
	{
		GjPlace		place = {directory->keys[i], GjPackTid(&directory->tids[i])};

		if (i == 0 && first == NULL && place.key != check->run->min_key)
			GjCheckWrong(state, block, "A run's smallest key is not what the metapage says.");
		if (i == 0 && first != NULL && !is_equal(&place, first))
			GjCheckWrong(state, block,
						 "A directory page does not begin where the one above it says.");
		if (state->moved ||
			!name_page(state, block, directory->blocks[i], check->run->run, level == 0))
			break;
		if (level > 0)
			check_directory(check, directory->blocks[i], level - 1, &place);
		else
			check_run_page(check, directory->blocks[i], &place);
	}
	if (directory != NULL)
		pfree(directory);
}

/*
 * Copy a directory page, NULL if the lists have moved
 */
static GjDirectory *
copy_directory(RunCheck *check, BlockNumber block, int level, int *n)
{
	GjCheckState *state = check->state;
	GjDirectory *directory = palloc(sizeof(GjDirectory));
	Buffer		buffer = ReadBuffer(state->index, block);
	Page		page = BufferGetPage(buffer);

	CHECK_FOR_INTERRUPTS();
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (GjPageCheckKind(state->index, buffer) != GJ_PAGE_DIRECTORY ||
		GjPageGetOpaque(page)->run != check->run->run)
		GjCheckWrong(state, block, "The page is not of the directory that it is in.");
	else if (GjPageGetDirectory(page)->level != level || GjPageGetOpaque(page)->used < 1)
		GjReportCorruption(state->index, block, "A directory page is not what its place says.");
	memcpy(directory, GjPageGetDirectory(page), sizeof(GjDirectory));
	*n = GjPageGetOpaque(page)->used;
	UnlockReleaseBuffer(buffer);
	if (!state->moved)
		return directory;
	pfree(directory);
	return NULL;
}

static void
check_run_page(RunCheck *check, BlockNumber block, const GjPlace *first)
{
	GjCheckState *state = check->state;
	Buffer		buffer = ReadBuffer(state->index, block);
	Page		page = BufferGetPage(buffer);

	CHECK_FOR_INTERRUPTS();
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (GjPageCheckKind(state->index, buffer) != GJ_PAGE_DATA ||
		GjPageGetOpaque(page)->run != check->run->run)
		GjCheckWrong(state, block, "The page is not of the run that it is in.");
	else
		check_order(check, block, page, first);
	UnlockReleaseBuffer(buffer);
}

/*
 * Check the order of a page's entries, of those that were deleted, too.  All pages of a run were
 * full once, but for the last one.
 */
static void
check_order(RunCheck *check, BlockNumber block, Page page, const GjPlace *first)
{
	GjCheckState *state = check->state;
	const GjIndexInfo *info = &state->info;
	const uint32 *used = GjDataUsed(page, info);
	uint64		before = (uint64) check->data_pages++ * info->slots;
	int			n = before < check->run->entries ?
		(int) Min(check->run->entries - before, info->slots) : 0;

	for (int slot = 0; slot < info->slots; slot++)
	{
		GjPlace		place;

		if (slot >= n)
		{
			if (used[slot / GJ_SLOTS_PER_WORD] & GjSlotBit(slot))
				GjReportCorruption(state->index, block, "A run has more entries than it should.");
			continue;
		}
		place.key = GjDataGetKey(page, info, slot);
		place.tid = GjPackTid(&GjDataTids(page, info)[slot]);
		if (slot == 0 && !is_equal(&place, first))
			GjReportCorruption(state->index, block,
							   "A data page does not begin where the directory says.");
		if (precedes(&place, &check->last))
			GjReportCorruption(state->index, block, "The entries of a run are not in order.");
		check->last = place;
	}
	state->run_entries[check->number] += GjPageGetOpaque(page)->used;
}

static void
check_delta(GjCheckState *state, const GjDelta *delta)
{
	GjIndexState alone = state->now;
	BlockNumber *blocks;
	BlockNumber nblocks;
	BlockNumber nlists = 0;
	BlockNumber nold = 0;

	alone.deltas[0] = *delta;
	alone.deltas[1].run = 0;
	if (!GjDeltaGetBlocks(state->index, &alone, &blocks, &nblocks))
	{
		state->moved = true;
		return;
	}
	for (BlockNumber i = 0; i < nblocks; i++)
	{
		if (!name_page(state, delta->head, blocks[i], delta->run, true))
			break;
	}
	pfree(blocks);

	for (BlockNumber block = state->info.first_data; block < state->nblocks; block++)
	{
		const GjCheckedPage *page = &state->pages[block];

		if (page->run != delta->run || page->is_data)
			continue;
		nlists++;
		nold += !page->is_late;
	}
	if (nold > delta->list_pages || nlists < delta->list_pages)
		GjCheckWrong(state, GJ_META_BLOCK, "The metapage miscounts the list pages of a delta.");
}

/*
 * Check that the pages which lanes have open are of a delta's list
 */
static void
check_open_pages(GjCheckState *state)
{
	for (int i = 0; i < state->now.nopen && !state->moved; i++)
	{
		const GjCheckedPage *page = &state->pages[state->now.open_blocks[i]];

		if (!page->named || (page->run != state->now.deltas[0].run &&
							 page->run != state->now.deltas[1].run))
			GjCheckWrong(state, state->now.open_blocks[i],
						 "A lane has a page open that is of no delta.");
	}
}

/*
 * Check that no page says that it belongs to a run or delta which does not know of it
 */
static void
check_all_named(GjCheckState *state)
{
	for (BlockNumber block = state->info.first_data; block < state->nblocks; block++)
	{
		const GjCheckedPage *page = &state->pages[block];
		bool		of_run = false;

		if (page->run == 0 || page->named)
			continue;
		for (int i = 0; i < state->now.nruns; i++)
			of_run |= state->now.runs[i].run == page->run;
		if (of_run || (page->is_data && !page->is_late))
			GjCheckWrong(state, block, "The page is in no directory and no list.");
	}
}

/*
 * Note that a directory or list names a page; false if it must not
 */
static bool
name_page(GjCheckState *state, BlockNumber by, BlockNumber block, uint32 run, bool is_data)
{
	GjCheckedPage *page;

	if (block < state->info.first_data || block >= state->nblocks)
	{
		GjCheckWrong(state, by, "A directory or list names a page that does not exist.");
		return false;
	}
	page = &state->pages[block];
	if (page->run != run || page->is_data != is_data)
	{
		GjCheckWrong(state, block, "The page is not of the directory or list that names it.");
		return false;
	}
	if (page->named)
	{
		GjCheckWrong(state, block, "The page is named twice by directories or lists.");
		return false;
	}
	page->named = true;
	return true;
}
