/*-------------------------------------------------------------------------
 *
 * insert.c
 *	  Inserting one entry.
 *
 * Why rows go through tail pages: rows are stored back to back there, so a row takes 64 bytes of
 * WAL and little time: GjTailAppend() makes a record of the two places that it changes.  On a data
 * page it would change an array for each column, a bitmap, and the metapage; that is done only
 * once every 64 rows, when a full tail is moved to a data page.  Measured: INSERT ... SELECT of
 * half a million random keys takes 0.4 times the processor time that it takes with a btree instead.
 *
 * There are several lanes (reloption lanes), and one for NULL keys.  A backend has a preferred one
 * and uses another one whose tail page is not locked at the moment, so that inserters rarely wait.
 * A row is added to the tail page; a full tail is flushed to the lane's open data page; when that
 * is full, the lane gets another one, either a free page or a new one, which is entered in the
 * delta's list.  From time to time the list needs a page, too.
 *
 * Free pages are left to the next fold while they are few compared to the base run: the fold
 * needs as many as the delta has.  The file reaches the same length in the end, but a page is
 * added here, once for hundreds of inserted rows, and not in VACUUM, where adding pages would be
 * a considerable part of the work.
 *
 * A page is found, or added to the file, before any page is locked.  When the lane is locked
 * again, the situation may have changed, so every decision is made again under the locks.  The
 * free space map is only a hint: the page itself tells whether it is free (pages/read.c).  If a
 * page that was found is not needed in the end, VACUUM will find it again.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "storage/indexfsm.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/step.h"
#include "am.h"

/* What a statement keeps about an index, which nobody can rebuild meanwhile */
typedef struct InsertCache
{
	GjIndexInfo parts[2];		/* its description, of the part of keys and of that of NULL keys */
	GjCodec		codec;			/* of its keys */
} InsertCache;

static InsertCache *get_cache(Relation index, struct IndexInfo *indexInfo);
static void insert_row(Relation index, const GjIndexInfo *info, const char *row);
static void request_fold(Relation index);
static Buffer lock_tail(Relation index, const GjIndexInfo *info, int *lane);
static void check_tail(Relation index, const GjIndexInfo *info, Buffer tail);
static bool make_tail_room(Relation index, const GjIndexInfo *info, int lane, Buffer tail,
						   Buffer *candidate);
static Buffer lock_open_page(Relation index, int lane);
static Buffer open_page(Relation index, const GjIndexInfo *info, int lane, Buffer candidate);
static bool lock_candidate(Relation index, const GjIndexState *state, Buffer candidate);
static Buffer lock_list(Relation index, const GjIndexState *state, Buffer candidate);
static Buffer find_candidate(Relation index, const GjIndexInfo *info);
static bool is_left_to_fold(Relation index, const GjIndexInfo *info);
static Buffer extend_index(Relation index);

/*
 * Insert the entry of one heap tuple
 */
bool
gjinsert(Relation index, Datum *values, bool *isnull, ItemPointer heap_tid,
		 Relation heap, IndexUniqueCheck checkUnique, bool indexUnchanged,
		 struct IndexInfo *indexInfo)
{
	InsertCache *cache = get_cache(index, indexInfo);
	const GjIndexInfo *info = &cache->parts[isnull[0]];
	char		row[GJ_MAX_ROW_WIDTH];
	int64		code = 0;
	int64		rest = 0;

	if (!isnull[0])
		code = GjPairOf(&cache->codec, values[0], &rest);
	else if (!info->stores_nulls)
		return false;
	GjRowForm(info, code, rest, heap_tid, values + 1, isnull + 1, row);
	insert_row(index, info, row);
	return false;
}

static InsertCache *
get_cache(Relation index, struct IndexInfo *indexInfo)
{
	InsertCache *cache = indexInfo->ii_AmCache;
	MemoryContext old;

	if (cache != NULL)
		return cache;
	old = MemoryContextSwitchTo(indexInfo->ii_Context);
	cache = palloc(sizeof(InsertCache));
	GjIndexGetInfo(index, &cache->parts[0]);
	cache->parts[1] = cache->parts[0];
	if (cache->parts[0].stores_nulls)
		GjInfoTurnToNulls(&cache->parts[1]);
	GjCodecInitIndex(&cache->codec, index);
	indexInfo->ii_AmCache = cache;
	MemoryContextSwitchTo(old);
	return cache;
}

static void
insert_row(Relation index, const GjIndexInfo *info, const char *row)
{
	Buffer		candidate = InvalidBuffer;
	int			lane = info->first_lane + MyProcPid % info->nlanes;
	bool		looked = false;

	for (;;)
	{
		Buffer		tail = lock_tail(index, info, &lane);

		if (make_tail_room(index, info, lane, tail, &candidate))
		{
			GjTailAppend(index, info, tail, row);
			UnlockReleaseBuffer(tail);
			break;
		}
		UnlockReleaseBuffer(tail);
		candidate = find_candidate(index, info);
		looked = true;
	}

	/* another backend of the lane may have been faster; VACUUM will find the page */
	if (BufferIsValid(candidate))
		ReleaseBuffer(candidate);
	if (looked)
		request_fold(index);
}

/*
 * Request a fold if the delta, to which a page has been added, is large enough.  No worker can read
 * a temporary table, so its index is folded here, by the rules of the worker.
 */
static void
request_fold(Relation index)
{
	GjIndexState state;
	GjFoldStats stats;
	BlockNumber pages;

	GjIndexGetState(index, &state);
	if (!RelationUsesLocalBuffers(index))
	{
		(void) GjFoldRequest(index, &state, 1);
		return;
	}
	pages = GjIndexFoldPages(index);
	if (pages > 0 && GjStateUnsorted(&state) >= pages)
		(void) GjFoldIndex(index, GJ_FOLD_FLUSH, NULL, &stats);
}

/*
 * Lock the tail page of the lane, or of another lane whose tail page is not locked
 */
static Buffer
lock_tail(Relation index, const GjIndexInfo *info, int *lane)
{
	Buffer		tail;

	for (int i = 0; i < info->nlanes; i++)
	{
		int			other = info->first_lane + (*lane - info->first_lane + i) % info->nlanes;

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
 * Check a tail page: with one row too many, we would write into the page's special space
 */
static void
check_tail(Relation index, const GjIndexInfo *info, Buffer tail)
{
	GjPageCheck(index, tail, GJ_PAGE_TAIL);
	if (GjPageGetOpaque(BufferGetPage(tail))->used > info->tail_rows)
		GjReportCorruption(index, BufferGetBlockNumber(tail), "A tail page has too many rows.");
}

/*
 * Make sure that the locked tail has room for a row
 *
 * Returns false if another page is needed.  By then the candidate has been used, or was of no
 * use, and has been released and cleared.
 */
static bool
make_tail_room(Relation index, const GjIndexInfo *info, int lane, Buffer tail, Buffer *candidate)
{
	Buffer		data;

	if (GjPageGetOpaque(BufferGetPage(tail))->used < info->tail_rows)
		return true;

	data = lock_open_page(index, lane);
	if (BufferIsValid(data) && GjDataIsFull(BufferGetPage(data), info))
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
 * Lock the data page that the lane fills, or return InvalidBuffer if it has none
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
	GjPlainDemand(index, block, BufferGetPage(data));
	if (GjPageGetOpaque(BufferGetPage(data))->run != run)
		GjReportCorruption(index, block, "A lane has a page open that is of another delta.");
	return data;
}

/*
 * Make the candidate the lane's open page, and return it locked.  Returns InvalidBuffer if that
 * was not possible, perhaps because the candidate was first needed for the delta's list.
 */
static Buffer
open_page(Relation index, const GjIndexInfo *info, int lane, Buffer candidate)
{
	GjIndexState state;
	Buffer		list;
	bool		opened = false;

	GjIndexGetPart(index, info->of_nulls, &state);
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
		(void) GjListAdd(index, info->of_nulls, candidate, &state.deltas[0]);
	if (opened)
		return candidate;
	UnlockReleaseBuffer(candidate);
	return InvalidBuffer;
}

/*
 * Lock a candidate, if it is free; otherwise return false with the page unlocked
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
 * Lock the delta's last list page, if it exists and has room
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
 * Find a page that appears to be free, and return it pinned but not locked
 */
static Buffer
find_candidate(Relation index, const GjIndexInfo *info)
{
	BlockNumber block;

	if (is_left_to_fold(index, info))
		return extend_index(index);
	block = GetFreeIndexPage(index);

	/* after a crash the map may list blocks that the file has lost */
	if (!BlockNumberIsValid(block) ||
		block < info->first_data || block >= GjIndexGetLength(index))
		return extend_index(index);
	GjStep("found");
	return ReadBuffer(index, block);
}

/*
 * Return true if free pages should be left to the next fold
 *
 * Count free pages and the delta together: if all rows are updated between two folds, there are
 * as many as the base run has, and the file would grow by half.
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
extend_index(Relation index)
{
	Buffer		buffer;

	GjAddBlocks(index, &buffer, 1);
	GjStep("extended");
	return buffer;
}
