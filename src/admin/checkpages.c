/*-------------------------------------------------------------------------
 *
 * checkpages.c
 *	  gpujoin_check(): what each page says by itself.
 *
 * Pages of runs and deltas that are dead, or not alive yet, need only be pages.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/tid.h"
#include "check.h"

static void note_page(GjCheckState *state, BlockNumber block, Page page, GjPageKind kind);
static void check_data(GjCheckState *state, BlockNumber block, Page page);
static void check_list(GjCheckState *state, BlockNumber block, Page page);
static void check_entry(GjCheckState *state, BlockNumber block, GjPageOpaque opaque,
						const char *row);

void
GjCheckTail(GjCheckState *state, BlockNumber block)
{
	Buffer		buffer = ReadBuffer(state->index, block);
	Page		page = BufferGetPage(buffer);
	GjPageOpaque opaque;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	GjPageCheck(state->index, buffer, GJ_PAGE_TAIL);
	opaque = GjPageGetOpaque(page);
	if (opaque->used > state->info.tail_rows)
		GjReportCorruption(state->index, block, "A tail page has too many rows.");
	if ((char *) page + ((PageHeader) page)->pd_lower !=
		GjTailRow(page, &state->info, opaque->used))
		GjReportCorruption(state->index, block,
						   "A tail page's end does not agree with its number of rows.");
	for (int row = 0; row < opaque->used; row++)
		check_entry(state, block, opaque, GjTailRow(page, &state->info, row));
	UnlockReleaseBuffer(buffer);
}

/*
 * Check a page from first_data on, and note whose it is
 */
void
GjCheckPage(GjCheckState *state, BlockNumber block)
{
	Buffer		buffer = ReadBufferExtended(state->index, MAIN_FORKNUM, block, RBM_NORMAL, NULL);
	Page		page = BufferGetPage(buffer);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (GjPageIsUnused(page))
	{
		/* what has cut the file may have filled it up, too */
		if (block + 1 == state->min_blocks)
			GjReportCorruption(state->index, block,
							   "The last page that the metapage counts is all zeroes.");
		state->free_pages++;
	}
	else
	{
		GjPageKind	kind = GjPageCheckKind(state->index, buffer);
		GjPageOwner owner = GjPageGetOwner(&state->now, page);

		if (kind < GJ_PAGE_DATA || kind > GJ_PAGE_LIST)
			GjReportCorruption(state->index, block, "The page is of a kind that is not for here.");
		if (owner == GJ_OWNER_RUN || owner == GJ_OWNER_DELTA)
			note_page(state, block, page, kind);
		state->free_pages += owner == GJ_OWNER_NOBODY;
		state->max_change = Max(state->max_change, GjPageGetOpaque(page)->change);
		if (GjPageGetOpaque(page)->run > state->max_run)
		{
			state->max_run = GjPageGetOpaque(page)->run;
			state->max_run_block = block;
		}
	}
	UnlockReleaseBuffer(buffer);
}

/*
 * Check a page that lives
 */
static void
note_page(GjCheckState *state, BlockNumber block, Page page, GjPageKind kind)
{
	GjPageOpaque opaque = GjPageGetOpaque(page);
	GjCheckedPage *checked = &state->pages[block];

	checked->run = opaque->run;
	checked->is_data = kind == GJ_PAGE_DATA;
	checked->is_late = opaque->change > state->now.sequence;
	state->end_in_use = block + 1;
	if (kind == GJ_PAGE_DATA)
		check_data(state, block, page);
	else if (kind == GJ_PAGE_LIST)
		check_list(state, block, page);
	else
		GjCheckLower(state, block, page, GjPageGetDirectory(page) + 1);
}

static void
check_data(GjCheckState *state, BlockNumber block, Page page)
{
	GjPageOpaque opaque = GjPageGetOpaque(page);
	uint32	   *used = GjDataUsed(page, &state->info);
	int			count = 0;

	GjCheckLower(state, block, page, (char *) page + state->info.arrays_end);
	for (int word = 0; word < state->info.words; word++)
		count += pg_popcount32(used[word]);
	if (count != opaque->used)
		GjReportCorruption(state->index, block,
						   "A data page's count does not agree with its bitmap.");

	for (int slot = 0; slot < state->info.slots; slot++)
	{
		char		row[GJ_MAX_ROW_WIDTH];

		if ((used[slot / GJ_SLOTS_PER_WORD] & GjSlotBit(slot)) == 0)
			continue;
		GjRowFromSlot(page, &state->info, slot, row);
		check_entry(state, block, opaque, row);
	}
	state->free_slots += state->info.slots - count;
}

static void
check_list(GjCheckState *state, BlockNumber block, Page page)
{
	if ((char *) page + ((PageHeader) page)->pd_lower != GjListEnd(page))
		GjReportCorruption(state->index, block,
						   "A list page's end does not agree with its number of elements.");
}

static void
check_entry(GjCheckState *state, BlockNumber block, GjPageOpaque opaque, const char *row)
{
	const GjIndexInfo *info = &state->info;
	ItemPointerData tid;
	int64		key = GjRowGetKey(info, row, &tid);

	if (!GjTidIsPossible(&tid))
		GjReportCorruption(state->index, block, "An entry has an impossible TID.");
	if (key < opaque->min_key || key > opaque->max_key)
		GjReportCorruption(state->index, block,
						   "An entry's key is outside the bounds of its page.");
	for (int i = 0; i < info->nincluded; i++)
	{
		static const char zeroes[sizeof(Datum)] = {0};
		const GjIncludedColumn *column = &info->included[i];

		if ((row[info->row_nulls_offset + i / 8] & (1 << (i % 8))) != 0 &&
			memcmp(row + column->row_offset, zeroes, column->width) != 0)
			GjReportCorruption(state->index, block,
							   "An included value is marked NULL but is not zero.");
	}
	state->nentries++;
	if (state->filter)
		bloom_add_element(state->filter, (unsigned char *) unconstify(char *, row),
						  info->row_width);
}
