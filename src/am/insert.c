/*-------------------------------------------------------------------------
 *
 * insert.c
 *	  Adding one entry.
 *
 * Why rows come through tail pages: generic WAL finds out what changed by comparing the page
 * before and after byte by byte, about 1 ns a byte: 7 us for a full page, several times what a
 * btree insertion costs.  Only what lies between pd_lower and pd_upper is left out.  On a tail
 * page rows lie one behind the other, and pd_lower ends behind the last: with at most 64 rows an
 * insertion compares 300 bytes on average.  To move a full tail to a data page compares a whole
 * page, but once for 64 rows.  Measured: INSERT ... SELECT of a million random keys takes 0.6
 * times as long as with a btree instead.
 *
 * There are several lanes (reloption lanes).  A backend has a preferred one and takes another
 * whose tail page is free at the moment, so that inserters rarely wait.  A row goes to the tail
 * page; a full tail is flushed to the lane's open data page; when that is full, the lane gets
 * another one, which is entered into the delta's list: a page that is free, or a new one.  Now and
 * then the list needs a page, too.
 *
 * Free pages are left to the next fold while they are few beside the base run: it needs as many as
 * the delta has.  The file becomes as long in the end, but a page is added here, beside hundreds of
 * rows that are inserted, and not in VACUUM, of which it would be a good part.
 *
 * A page is found, or added to the file, before any page is locked.  By the
 * time the lane is locked again things may have changed, so every step is decided
 * anew under the locks.  The free space map is a hint: whether a page is free, it says itself
 * (pages/read.c).  One that was found and is of no use in the end is found again by VACUUM.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/indexfsm.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/step.h"
#include "am.h"


static void insert_row(Relation index, const GjIndexInfo *info, const char *row);
static Buffer lock_tail(Relation index, const GjIndexInfo *info, int *lane);
static void check_tail(Relation index, const GjIndexInfo *info, Buffer tail);
static bool make_room(Relation index, const GjIndexInfo *info, int lane, Buffer tail,
					  Buffer *candidate);
static Buffer lock_open_page(Relation index, int lane);
static Buffer open_page(Relation index, const GjIndexInfo *info, int lane, Buffer candidate);
static bool lock_candidate(Relation index, const GjIndexState *state, Buffer candidate);
static Buffer lock_list(Relation index, const GjIndexState *state, Buffer candidate);
static Buffer find_candidate(Relation index, const GjIndexInfo *info);
static bool is_left_to_fold(Relation index, const GjIndexInfo *info);
static Buffer add_block(Relation index);

/*
 * Insert the entry of one heap tuple
 */
bool
gjinsert(Relation index, Datum *values, bool *isnull, ItemPointer heap_tid,
		 Relation heap, IndexUniqueCheck checkUnique, bool indexUnchanged,
		 struct IndexInfo *indexInfo)
{
	GjIndexInfo info;
	char		row[GJ_MAX_ROW_WIDTH];

	if (isnull[0])
		return false;

	GjIndexGetInfo(index, &info);
	GjRowForm(&info, GjKeyFromDatum(index_getprocinfo(index, 1, GJ_KEY_PROC), values[0]),
			  heap_tid, values + 1, isnull + 1, row);
	insert_row(index, &info, row);
	return false;
}

static void
insert_row(Relation index, const GjIndexInfo *info, const char *row)
{
	Buffer		candidate = InvalidBuffer;
	int			lane = MyProcPid % info->nlanes;

	for (;;)
	{
		Buffer		tail = lock_tail(index, info, &lane);

		if (make_room(index, info, lane, tail, &candidate))
		{
			GjTailAppend(index, info, tail, row);
			UnlockReleaseBuffer(tail);
			break;
		}
		UnlockReleaseBuffer(tail);
		candidate = find_candidate(index, info);
	}

	/* another backend of the lane may have been quicker; VACUUM will find the page */
	if (BufferIsValid(candidate))
		ReleaseBuffer(candidate);
}

/*
 * Lock the tail page of the lane, or of another one if that is free
 */
static Buffer
lock_tail(Relation index, const GjIndexInfo *info, int *lane)
{
	Buffer		tail;

	for (int i = 0; i < info->nlanes; i++)
	{
		int			other = (*lane + i) % info->nlanes;

		tail = ReadBuffer(index, GJ_FIRST_TAIL_BLOCK + other);
		if (ConditionalLockBuffer(tail))
		{
			*lane = other;
			check_tail(index, info, tail);
			return tail;
		}
		ReleaseBuffer(tail);
	}

	tail = ReadBuffer(index, GJ_FIRST_TAIL_BLOCK + *lane);
	LockBuffer(tail, BUFFER_LOCK_EXCLUSIVE);
	check_tail(index, info, tail);
	return tail;
}

/*
 * Check a tail page: a row more than fits would be written over the page's special space
 */
static void
check_tail(Relation index, const GjIndexInfo *info, Buffer tail)
{
	GjPageCheck(index, tail, GJ_PAGE_TAIL);
	if (GjPageGetOpaque(BufferGetPage(tail))->used > info->tail_rows)
		GjReportCorruption(index, BufferGetBlockNumber(tail), "A tail page has too many rows.");
}

/*
 * See to it that the locked tail has room for a row
 *
 * Returns false if another page is needed; the candidate has been used, or was of no use, and is
 * released and cleared.
 */
static bool
make_room(Relation index, const GjIndexInfo *info, int lane, Buffer tail, Buffer *candidate)
{
	Buffer		data;

	if (GjPageGetOpaque(BufferGetPage(tail))->used < info->tail_rows)
		return true;

	data = lock_open_page(index, lane);
	if (BufferIsValid(data) && GjPageGetOpaque(BufferGetPage(data))->used >= info->slots)
	{
		UnlockReleaseBuffer(data);
		data = InvalidBuffer;
	}
	if (!BufferIsValid(data))
	{
		if (BufferIsValid(*candidate))
			data = open_page(index, info, lane, *candidate);
		*candidate = InvalidBuffer;
		if (!BufferIsValid(data))
			return false;
	}

	GjTailFlush(index, info, tail, data);
	UnlockReleaseBuffer(data);
	return true;
}

/*
 * Lock the data page that the lane fills; InvalidBuffer if it has none
 */
static Buffer
lock_open_page(Relation index, int lane)
{
	uint32		run;
	BlockNumber block = GjLaneGetOpenBlock(index, lane, &run);
	Buffer		data;

	if (!BlockNumberIsValid(block))
		return InvalidBuffer;
	data = ReadBuffer(index, block);
	LockBuffer(data, BUFFER_LOCK_EXCLUSIVE);
	GjPageCheck(index, data, GJ_PAGE_DATA);
	if (GjPageGetOpaque(BufferGetPage(data))->run != run)
		GjReportCorruption(index, block, "A lane has a page open that is of another delta.");
	return data;
}

/*
 * Have the lane fill the candidate, and return it locked; InvalidBuffer if that was not possible,
 * perhaps because the delta's list needed a page first, and has it now
 */
static Buffer
open_page(Relation index, const GjIndexInfo *info, int lane, Buffer candidate)
{
	GjIndexState state;
	Buffer		list;
	bool		opened = false;

	GjIndexGetState(index, &state);
	if (!lock_candidate(index, &state, candidate))
	{
		ReleaseBuffer(candidate);
		return InvalidBuffer;
	}

	list = lock_list(index, &state, candidate);
	if (BufferIsValid(list))
	{
		opened = GjLaneSwitch(index, info, lane, candidate, list);
		UnlockReleaseBuffer(list);
	}
	else
		(void) GjListAdd(index, candidate, &state.deltas[0]);
	if (opened)
		return candidate;
	UnlockReleaseBuffer(candidate);
	return InvalidBuffer;
}

/*
 * Lock a candidate, if it is free; if not, unlock it and return false
 *
 * Two backends may have found the same page, or one that a lane has open, perhaps our own.  So
 * this must not wait for the lock.
 */
static bool
lock_candidate(Relation index, const GjIndexState *state, Buffer candidate)
{
	Page		page = BufferGetPage(candidate);

	if (!ConditionalLockBuffer(candidate))
		return false;
	if (!GjPageIsUnused(page))
		(void) GjPageCheckKind(index, candidate);
	if (GjPageGetOwner(state, page) == GJ_OWNER_NOBODY)
		return true;
	LockBuffer(candidate, BUFFER_LOCK_UNLOCK);
	return false;
}

/*
 * Lock the delta's last list page, if there is one, and it has room
 */
static Buffer
lock_list(Relation index, const GjIndexState *state, Buffer candidate)
{
	const GjDelta *delta = &state->deltas[0];
	Buffer		list;
	Page		page;
	bool		of_delta;

	if (!BlockNumberIsValid(delta->head))
		return InvalidBuffer;
	if (delta->head == BufferGetBlockNumber(candidate))
		GjReportCorruption(index, delta->head, "The page is not of the list that it is in.");

	list = ReadBuffer(index, delta->head);
	page = BufferGetPage(list);
	LockBuffer(list, BUFFER_LOCK_EXCLUSIVE);
	of_delta = GjPageCheckKind(index, list) == GJ_PAGE_LIST &&
		GjPageGetOpaque(page)->run == delta->run;
	if (!of_delta && !GjListsMoved(index, state))
		GjReportCorruption(index, delta->head, "The page is not of the list that it is in.");
	if (of_delta && GjPageGetOpaque(page)->used < GJ_LIST_BLOCKS)
		return list;
	UnlockReleaseBuffer(list);
	return InvalidBuffer;
}

/*
 * Find a page that is free, as it seems, pinned but not locked
 */
static Buffer
find_candidate(Relation index, const GjIndexInfo *info)
{
	BlockNumber block;

	if (is_left_to_fold(index, info))
		return add_block(index);
	block = GetFreeIndexPage(index);

	/* after a crash the map may know blocks that the file has lost */
	if (!BlockNumberIsValid(block) ||
		block < info->first_data || block >= GjIndexGetLength(index))
		return add_block(index);
	GjStep("found");
	return ReadBuffer(index, block);
}

/*
 * Are free pages to be left to the next fold?
 *
 * Free pages and the delta together: where all rows are updated between two folds, there are as
 * many as the base run has, and the file would become half as long again.
 */
static bool
is_left_to_fold(Relation index, const GjIndexInfo *info)
{
	BlockNumber length = GjIndexGetLength(index);
	GjIndexState state;
	uint64		loose;

	GjIndexGetState(index, &state);
	if (state.nruns == 0)
		return false;
	loose = GjListsCountFree(&state, info, length) + state.deltas[0].data_pages;
	return loose <= state.runs[0].data_pages / 2;
}

/*
 * Add an all-zero block to the index
 */
static Buffer
add_block(Relation index)
{
	Buffer		buffer;

	GjAddBlocks(index, &buffer, 1);
	GjStep("extended");
	return buffer;
}
