/*-------------------------------------------------------------------------
 *
 * check.c
 *	  gpujoin_check(): does an index keep its promises?  gpujoin_index_info():
 *	  what is in it?
 *
 * The check may run beside readers and writers: it holds AccessShareLock, as a
 * query does, and looks at one page at a time under a share lock.  What two pages
 * say of each other is compared only where the order of reading makes that safe.
 *
 * The check against the heap, which heapallindexed asks for, is in checkheap.c.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/index.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "base/tid.h"
#include "check.h"

PG_FUNCTION_INFO_V1(gpujoin_check);
PG_FUNCTION_INFO_V1(gpujoin_index_info);

static void check_meta(GjCheckState *state);
static void check_journal(GjCheckState *state);
static void check_tail(GjCheckState *state, BlockNumber block);
static void check_data(GjCheckState *state, BlockNumber block);
static void check_entry(GjCheckState *state, BlockNumber block, GjPageOpaque opaque,
						const char *row);

/*
 * gpujoin_check(index regclass, heapallindexed boolean) returns bigint
 *
 * Verifies an index; returns the number of entries it verified, or raises
 * ERRCODE_INDEX_CORRUPTED.
 */
Datum
gpujoin_check(PG_FUNCTION_ARGS)
{
	GjCheckState state = {0};

	state.index = GjOpenManagedIndex(PG_GETARG_OID(0));
	if (PG_GETARG_BOOL(1))
		GjCheckAgainstHeap(&state);
	else
		GjCheckPages(&state);
	index_close(state.index, AccessShareLock);
	PG_RETURN_INT64(state.nentries);
}

/*
 * gpujoin_index_info(index regclass): returns figures of an index, for which it reads it whole
 */
Datum
gpujoin_index_info(PG_FUNCTION_ARGS)
{
	GjCheckState state = {0};
	GjIndexState now;
	TupleDesc	tupdesc;
	Datum		values[12];
	bool		nulls[12] = {false};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	state.index = GjOpenManagedIndex(PG_GETARG_OID(0));
	GjCheckPages(&state);
	GjIndexGetState(state.index, &now);

	values[0] = Int64GetDatum(state.nblocks);
	values[1] = Int64GetDatum(state.nentries);
	values[2] = Int64GetDatum(state.free_slots);
	values[3] = Int64GetDatum(state.empty_pages + state.zero_pages);
	values[4] = Int32GetDatum(state.info.slots);
	values[5] = Int32GetDatum(state.info.key_width);
	values[6] = Int32GetDatum(state.info.nlanes);
	values[7] = Int32GetDatum(now.nopen);
	values[8] = Int64GetDatum((int64) now.sequence);
	values[9] = Int64GetDatum((int64) now.vacuum_epoch);
	values[10] = Int32GetDatum(GJ_FORMAT_VERSION);
	values[11] = Int32GetDatum(state.info.nincluded);
	index_close(state.index, AccessShareLock);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}

/*
 * Check each page by itself, tails first
 */
void
GjCheckPages(GjCheckState *state)
{
	check_meta(state);
	for (int lane = 0; lane < state->info.nlanes; lane++)
		check_tail(state, GJ_FIRST_TAIL_BLOCK + lane);

	state->nblocks = GjIndexGetLength(state->index);
	for (BlockNumber block = state->info.first_data; block < state->nblocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		check_data(state, block);
	}
	check_journal(state);
}

/*
 * Check the metapage, and that the file has all the blocks that it counts
 */
static void
check_meta(GjCheckState *state)
{
	(void) GjIndexGetLength(state->index);
	GjIndexGetInfo(state->index, &state->info);
	GjIndexGetState(state->index, &state->now);
	state->min_blocks = state->now.min_blocks;
}

/*
 * Check the journal and the open pages, both under the metapage's lock
 *
 * Lock order is journal before metapage, which is also what holds them together.
 * Runs last: no page can carry a larger change counter than the sequence now.
 */
static void
check_journal(GjCheckState *state)
{
	Buffer		journalbuf = ReadBuffer(state->index, GJ_JOURNAL_BLOCK);
	Buffer		metabuf = ReadBuffer(state->index, GJ_META_BLOCK);
	GjJournalEntry *ring;
	GjMetaPage	meta;
	uint64		previous;

	LockBuffer(journalbuf, BUFFER_LOCK_SHARE);
	GjPageCheck(state->index, journalbuf, GJ_PAGE_JOURNAL);
	LockBuffer(metabuf, BUFFER_LOCK_SHARE);
	GjMetaCheck(state->index, metabuf);
	meta = GjPageGetMeta(BufferGetPage(metabuf));
	ring = GjPageGetJournal(BufferGetPage(journalbuf));

	if (state->end_in_use > meta->min_blocks)
		GjReportCorruption(state->index, GJ_META_BLOCK,
						   "The metapage counts fewer pages than are in use.");
	if (state->max_change > meta->sequence)
		GjReportCorruption(state->index, GJ_META_BLOCK,
						   "A page has a later change counter than the metapage.");
	for (int lane = 0; lane < meta->nlanes; lane++)
	{
		BlockNumber block = meta->lanes[lane].open_block;

		if (BlockNumberIsValid(block) && (block < meta->first_data || block >= meta->min_blocks))
			GjReportCorruption(state->index, GJ_META_BLOCK,
							   "A lane has a block open that does not exist.");
		for (int other = 0; other < lane; other++)
		{
			if (BlockNumberIsValid(block) && meta->lanes[other].open_block == block)
				GjReportCorruption(state->index, GJ_META_BLOCK,
								   "Two lanes have the same block open.");
		}
	}

	previous = meta->journal_floor;
	for (uint32 i = 0; i < meta->journal_used; i++)
	{
		uint32		at = (meta->journal_next + 2 * GJ_JOURNAL_ENTRIES - meta->journal_used + i) %
			GJ_JOURNAL_ENTRIES;
		GjJournalEntry *entry = &ring[at];

		if (entry->sequence <= previous || entry->sequence > meta->sequence)
			GjReportCorruption(state->index, GJ_JOURNAL_BLOCK,
							   "The journal's sequence numbers do not ascend.");
		if (entry->start < meta->first_data || entry->end <= entry->start ||
			entry->end > meta->min_blocks)
			GjReportCorruption(state->index, GJ_JOURNAL_BLOCK,
							   "A journal entry names blocks that do not exist.");
		if (entry->kind != GJ_JOURNAL_OPENED && entry->kind != GJ_JOURNAL_DELETED)
			GjReportCorruption(state->index, GJ_JOURNAL_BLOCK,
							   "A journal entry is of an unknown kind.");
		previous = entry->sequence;
	}
	UnlockReleaseBuffer(metabuf);
	UnlockReleaseBuffer(journalbuf);
}

static void
check_tail(GjCheckState *state, BlockNumber block)
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

static void
check_data(GjCheckState *state, BlockNumber block)
{
	Buffer		buffer = ReadBufferExtended(state->index, MAIN_FORKNUM, block, RBM_NORMAL, NULL);
	Page		page = BufferGetPage(buffer);
	GjPageOpaque opaque;
	uint32	   *used;
	int			count = 0;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (GjPageIsUnused(page))
	{
		/* what has cut the file may have filled it up, too */
		if (block + 1 == state->min_blocks)
			GjReportCorruption(state->index, block,
							   "The last page that the metapage counts is all zeroes.");
		state->zero_pages++;
		UnlockReleaseBuffer(buffer);
		return;
	}
	opaque = GjPageGetOpaque(page);
	if (GjPageCheckKind(state->index, buffer) != GJ_PAGE_DATA ||
		GjPageGetOwner(&state->now, page) == GJ_OWNER_NOBODY)
	{
		state->end_in_use = block + 1;
		UnlockReleaseBuffer(buffer);
		return;
	}
	used = GjDataUsed(page, &state->info);
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
	state->empty_pages += (count == 0);
	state->max_change = Max(state->max_change, opaque->change);
	state->end_in_use = block + 1;
	UnlockReleaseBuffer(buffer);
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
