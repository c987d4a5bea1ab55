/*-------------------------------------------------------------------------
 *
 * foldrows.c
 *	  The rows that a fold writes, in order: the previous delta's, sorted, merged with those of
 *	  runs.
 *
 * None of these pages changes while the fold is under way (fold.c).  So what is found on a page
 * that a list or a directory names must be what they say; everything else is corruption.  So are
 * rows of a run that do not ascend: one such row is hard to find, but in the new run it could stand
 * where a page begins, and keep searches from many others.
 *
 * All sources give pages: the sort, too, puts its rows on one, in private memory.  So a fold of the
 * delta alone copies whole pages, and a merge copies stretches of them.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "postmaster/autovacuum.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/tid.h"
#include "mirror/mirror.h"
#include "foldparts.h"

typedef struct GjFoldSource
{
	bool		ended;
	GjPlace		place;			/* of the row at hand */
	GjRowSort  *sort;			/* of the delta's rows; NULL: a run */
	GjRunReader reader;
	int			slot;			/* of the row at hand */
	int			nslots;			/* up to the page's last row */
	int			gap;			/* the first slot behind the one at hand that is not used */
	GjPlace		last;			/* no row that comes is before this one */
	PGAlignedBlock page;		/* the sort's rows, or a copy of the run's page */
} GjFoldSource;

static void list_delta(GjFold *fold);
static void open_delta(GjFold *fold, GjFoldSource *source);
static void open_run(GjFold *fold, GjFoldSource *source, const GjRun *run);
static void advance(GjFold *fold, GjFoldSource *source, int n);
static bool next_page(GjFold *fold, GjFoldSource *source);
static void skip_gap(const GjFold *fold, GjFoldSource *source);
static bool next_run_page(GjFold *fold, GjFoldSource *source);
static void check_order(const GjFold *fold, GjFoldSource *source);
static int	find_stretch(const GjFold *fold, const GjFoldSource *source, const GjPlace *limit);
static inline GjPlace place_of_slot(const GjFold *fold, const GjFoldSource *source, int slot);
static void copy_data_page(GjFold *fold, BlockNumber block, uint32 run, char *copy);
static int	next_used_slot(const GjFold *fold, Page page, int slot);
static int	count_slots(const GjFold *fold, Page page);

/*
 * Begin to read the previous delta, if there is one, and the runs from the given one on
 */
void
GjFoldOpenSources(GjFold *fold, int first_run)
{
	int			nruns = fold->state.nruns;

	list_delta(fold);
	if (GjFoldOpenWords(fold, first_run))
		return;
	fold->sources = palloc((nruns - first_run + 1) * sizeof(GjFoldSource));
	fold->nsources = 0;
	fold->at = -1;
	if (fold->state.deltas[1].run != 0)
		open_delta(fold, &fold->sources[fold->nsources++]);
	for (int i = first_run; i < nruns; i++)
		open_run(fold, &fold->sources[fold->nsources++], &fold->state.runs[i]);
}

static inline bool
precedes(const GjPlace *a, const GjPlace *b)
{
	return a->key < b->key || (a->key == b->key && a->tid < b->tid);
}

/*
 * Get the next rows, good until the next call; false when there are no more
 *
 * They are as many as stand side by side in one source, before those of all others.
 */
bool
GjFoldNextRows(GjFold *fold, GjFoldRows *rows)
{
	GjFoldSource *first = NULL;
	const GjPlace *limit = NULL;

	if (fold->words != NULL)
		return GjFoldNextWords(fold, rows);
	if (fold->at >= 0)
		advance(fold, &fold->sources[fold->at], fold->given);
	for (int i = 0; i < fold->nsources; i++)
	{
		GjFoldSource *source = &fold->sources[i];

		if (source->ended)
			continue;
		if (first == NULL || precedes(&source->place, &first->place))
		{
			limit = first == NULL ? NULL : &first->place;
			first = source;
			fold->at = i;
		}
		else if (limit == NULL || precedes(&source->place, limit))
			limit = &source->place;
	}
	if (first == NULL)
		return false;

	rows->page = (Page) first->page.data;
	rows->slot = first->slot;
	rows->n = find_stretch(fold, first, limit);
	rows->words = NULL;
	fold->given = rows->n;
	return true;
}

/*
 * Free what the sources have
 */
void
GjFoldCloseSources(GjFold *fold)
{
	if (fold->words != NULL)
	{
		GjFoldCloseWords(fold);
		return;
	}
	for (int i = 0; i < fold->nsources; i++)
	{
		GjFoldSource *source = &fold->sources[i];

		if (source->sort != NULL)
			GjRowSortEnd(source->sort);
		else
			GjRunReaderEnd(&source->reader);
	}
	pfree(fold->sources);
}

/*
 * List the previous delta's data pages, if there is one, without the current one's
 */
static void
list_delta(GjFold *fold)
{
	GjIndexState state = fold->state;

	state.deltas[0].run = 0;
	if (!GjDeltaGetBlocks(fold->index, &state, &fold->delta_blocks, &fold->ndelta_blocks))
		GjReportCorruption(fold->index, GJ_META_BLOCK, "Another fold is under way.");
}

static void
open_delta(GjFold *fold, GjFoldSource *source)
{
	PGAlignedBlock copy;

	GjProgressPhaseBegin(GJ_PROGRESS_SORTING, fold->ndelta_blocks);
	source->sort = GjRowSortBegin(&fold->info, GjFoldMemory());
	for (BlockNumber i = 0; i < fold->ndelta_blocks; i++)
	{
		GjVacuumDelayPoint();
		GjProgressDone(i);
		copy_data_page(fold, fold->delta_blocks[i], fold->state.deltas[1].run, copy.data);
		GjRowSortAddPage(source->sort, (Page) copy.data);
	}
	GjRowSortPerform(source->sort);
	source->slot = source->nslots = source->gap = 0;
	advance(fold, source, 0);
}

/*
 * As much again as VACUUM may use for dead tuples
 */
Size
GjFoldMemory(void)
{
	int			kilobytes = maintenance_work_mem;

	if (MyBackendType == B_AUTOVAC_WORKER && autovacuum_work_mem != -1)
		kilobytes = autovacuum_work_mem;
	return (Size) kilobytes * 1024;
}

static void
open_run(GjFold *fold, GjFoldSource *source, const GjRun *run)
{
	source->sort = NULL;
	GjRunReaderBegin(&source->reader, fold->index, run);
	source->slot = source->nslots = source->gap = 0;
	source->last = (GjPlace) {PG_INT64_MIN, 0};
	advance(fold, source, 0);
}

/*
 * Go on by n rows that stand side by side, or to the first one
 */
static void
advance(GjFold *fold, GjFoldSource *source, int n)
{
	source->slot += n;
	if (source->slot == source->gap && source->gap < source->nslots)
		skip_gap(fold, source);
	while (source->slot >= source->nslots)
	{
		source->ended = !next_page(fold, source);
		if (source->ended)
			return;
	}
	source->ended = false;
	source->place = place_of_slot(fold, source, source->slot);
}

/*
 * Go to the first row of the next page, if it has any; false: there is no page
 */
static bool
next_page(GjFold *fold, GjFoldSource *source)
{
	if (source->sort == NULL)
		return next_run_page(fold, source);
	GjDataInit((Page) source->page.data, &fold->info, 0);
	source->slot = 0;
	source->nslots = GjRowSortNextPage(source->sort, (Page) source->page.data);
	source->gap = source->nslots;
	return source->nslots > 0;
}

/*
 * Go on to the first slot that is used, of which there is one, and see where the next gap is
 */
static void
skip_gap(const GjFold *fold, GjFoldSource *source)
{
	Page		page = (Page) source->page.data;
	const uint32 *used = GjDataUsed(page, &fold->info);

	source->slot = next_used_slot(fold, page, source->slot);
	source->gap = source->slot + 1;
	while (source->gap < source->nslots)
	{
		int			bit = source->gap % GJ_SLOTS_PER_WORD;
		uint32		unused = ~used[source->gap / GJ_SLOTS_PER_WORD] >> bit;

		if (unused != 0)
		{
			source->gap += pg_rightmost_one_pos32(unused);
			break;
		}
		source->gap += GJ_SLOTS_PER_WORD - bit;
	}
	source->gap = Min(source->gap, source->nslots);
}

static bool
next_run_page(GjFold *fold, GjFoldSource *source)
{
	Page		page = (Page) source->page.data;

	GjVacuumDelayPoint();
	if (!GjRunReaderNext(&source->reader))
	{
		if (source->reader.moved)
			GjReportCorruption(fold->index, source->reader.block,
							   "A directory has a page of something else.");
		return false;
	}
	copy_data_page(fold, source->reader.block, source->reader.run.run, source->page.data);
	source->nslots = count_slots(fold, page);
	source->slot = 0;
	if (source->nslots > 0)
		skip_gap(fold, source);
	check_order(fold, source);
	return true;
}

/*
 * Do rows ascend, from a place on?  It becomes that of the last one.
 */
static pg_attribute_always_inline bool
rows_ascend(const char *keys, int width, const ItemPointerData *tids, int n, GjPlace *last)
{
	int64		last_key = last->key;
	uint64		last_tid = last->tid;
	bool		ascend = true;

	for (int i = 0; i < n; i++)
	{
		int64		key = width == sizeof(int32) ? ((const int32 *) keys)[i] :
			((const int64 *) keys)[i];
		uint64		tid = GjPackTid(&tids[i]);

		ascend &= (last_key < key) | ((last_key == key) & (last_tid <= tid));
		last_key = key;
		last_tid = tid;
	}
	*last = (GjPlace) {last_key, last_tid};
	return ascend;
}

/*
 * See to it that a run's rows ascend.  Deleted ones keep their places among the others, and
 * searches rely on that, too.
 */
static void
check_order(const GjFold *fold, GjFoldSource *source)
{
	const GjIndexInfo *info = &fold->info;
	const char *keys = GjDataKeys(source->page.data, info);
	const ItemPointerData *tids = GjDataTids(source->page.data, info);
	bool		ascend = info->key_width == sizeof(int32) ?
		rows_ascend(keys, sizeof(int32), tids, source->nslots, &source->last) :
		rows_ascend(keys, sizeof(int64), tids, source->nslots, &source->last);

	if (!ascend)
		GjReportCorruption(fold->index, source->reader.block,
						   "The entries of a run are not in order.");
}

/*
 * How many slots, from the one at hand on, are used and before a limit?
 *
 * In a merge few are, as a rule, so it looks further with steps that grow.
 */
static int
find_stretch(const GjFold *fold, const GjFoldSource *source, const GjPlace *limit)
{
	int			low = source->slot + 1; /* all slots below are before the limit */
	int			high = source->gap;
	int			step = 1;

	if (limit == NULL)
		return high - source->slot;
	while (low < high)
	{
		int			at = Min(low + step, high) - 1;
		GjPlace		place = place_of_slot(fold, source, at);

		if (precedes(&place, limit))
		{
			low = at + 1;
			step *= 2;
		}
		else
		{
			high = at;
			step = Max((high - low) / 2, 1);
		}
	}
	return low - source->slot;
}

static inline GjPlace
place_of_slot(const GjFold *fold, const GjFoldSource *source, int slot)
{
	Page		page = (Page) source->page.data;
	GjPlace		place = {GjDataGetKey(page, &fold->info, slot),
	GjPackTid(&GjDataTids(page, &fold->info)[slot])};

	return place;
}

static void
copy_data_page(GjFold *fold, BlockNumber block, uint32 run, char *copy)
{
	Buffer		buffer = GjFoldLockPage(fold, block, run);

	memcpy(copy, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
}

/*
 * Lock a data page in share mode, after a check that it is of the run or delta that names it
 */
Buffer
GjFoldLockPage(const GjFold *fold, BlockNumber block, uint32 run)
{
	Buffer		buffer = ReadBufferExtended(fold->index, MAIN_FORKNUM, block, RBM_NORMAL,
											fold->strategy);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	GjPageCheck(fold->index, buffer, GJ_PAGE_DATA);
	if (GjPageGetOpaque(BufferGetPage(buffer))->run != run)
		GjReportCorruption(fold->index, block, "A data page is of another run than its directory.");
	return buffer;
}

/*
 * Find the first used slot at or behind a slot; -1: there is none
 */
static int
next_used_slot(const GjFold *fold, Page page, int slot)
{
	const uint32 *used = GjDataUsed(page, &fold->info);

	for (int word = slot / GJ_SLOTS_PER_WORD; word < fold->info.words; word++)
	{
		uint32		rest = used[word];

		if (word == slot / GJ_SLOTS_PER_WORD)
			rest &= ~(uint32) 0 << (slot % GJ_SLOTS_PER_WORD);
		if (rest != 0)
			return word * GJ_SLOTS_PER_WORD + pg_rightmost_one_pos32(rest);
	}
	return -1;
}

/*
 * Count the slots up to the last one in use
 */
static int
count_slots(const GjFold *fold, Page page)
{
	const uint32 *used = GjDataUsed(page, &fold->info);
	int			words = fold->info.words;

	while (words > 0 && used[words - 1] == 0)
		words--;
	return words == 0 ? 0 :
		(words - 1) * GJ_SLOTS_PER_WORD + pg_leftmost_one_pos32(used[words - 1]) + 1;
}
