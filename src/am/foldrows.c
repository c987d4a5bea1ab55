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
	const char *row;			/* the row at hand, of a sort */
	GjRunReader reader;
	int			slot;			/* of the row at hand, on a copy of the run's page */
	GjPlace		last;			/* no row that comes is before this one */
	PGAlignedBlock page;
} GjFoldSource;

static void open_delta(GjFold *fold, GjFoldSource *source);
static Size sort_memory(void);
static void add_page(GjFold *fold, GjRowSort *sort, Page page);
static void open_run(GjFold *fold, GjFoldSource *source, const GjRun *run);
static void advance(GjFold *fold, GjFoldSource *source, int n);
static void advance_in_run(GjFold *fold, GjFoldSource *source, int n);
static inline void check_order(const GjFold *fold, GjFoldSource *source, const GjPlace *place);
static int	find_stretch(const GjFold *fold, GjFoldSource *source, const GjPlace *limit);
static inline GjPlace place_of_slot(const GjFold *fold, Page page, int slot);
static void copy_data_page(GjFold *fold, BlockNumber block, uint32 run, char *copy);
static int	next_used_slot(const GjFold *fold, Page page, int slot);

/*
 * Begin to read the previous delta, if there is one, and so many of the runs
 */
void
GjFoldOpenSources(GjFold *fold, int nruns)
{
	fold->sources = palloc((nruns + 1) * sizeof(GjFoldSource));
	fold->nsources = 0;
	fold->at = -1;
	if (fold->state.deltas[1].run != 0)
		open_delta(fold, &fold->sources[fold->nsources++]);
	for (int i = 0; i < nruns; i++)
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
 * From a run come as many as stand side by side and before those of all others.
 */
bool
GjFoldNextRows(GjFold *fold, GjFoldRows *rows)
{
	GjFoldSource *first = NULL;
	const GjPlace *limit = NULL;

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

	rows->row = first->sort != NULL ? first->row : NULL;
	rows->page = (Page) first->page.data;
	rows->slot = first->slot;
	rows->n = first->sort != NULL ? 1 : find_stretch(fold, first, limit);
	fold->given = rows->n;
	return true;
}

/*
 * Free what the sources have
 */
void
GjFoldCloseSources(GjFold *fold)
{
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

static void
open_delta(GjFold *fold, GjFoldSource *source)
{
	GjIndexState state = fold->state;
	PGAlignedBlock copy;

	/* without the current one */
	state.deltas[0].run = 0;
	if (!GjDeltaGetBlocks(fold->index, &state, &fold->delta_blocks, &fold->ndelta_blocks))
		GjReportCorruption(fold->index, GJ_META_BLOCK, "Another fold is under way.");

	GjProgressPhaseBegin(GJ_PROGRESS_SORTING, fold->ndelta_blocks);
	source->sort = GjRowSortBegin(&fold->info, sort_memory());
	for (BlockNumber i = 0; i < fold->ndelta_blocks; i++)
	{
		GjVacuumDelayPoint();
		GjProgressDone(i);
		copy_data_page(fold, fold->delta_blocks[i], state.deltas[1].run, copy.data);
		add_page(fold, source->sort, (Page) copy.data);
	}
	GjRowSortPerform(source->sort);
	advance(fold, source, 0);
}

/*
 * As much again as VACUUM may use for dead tuples
 */
static Size
sort_memory(void)
{
	int			kilobytes = maintenance_work_mem;

	if (MyBackendType == B_AUTOVAC_WORKER && autovacuum_work_mem != -1)
		kilobytes = autovacuum_work_mem;
	return (Size) kilobytes * 1024;
}

static void
add_page(GjFold *fold, GjRowSort *sort, Page page)
{
	char		row[GJ_MAX_ROW_WIDTH];

	for (int slot = next_used_slot(fold, page, 0); slot >= 0;
		 slot = next_used_slot(fold, page, slot + 1))
	{
		GjRowFromSlot(page, &fold->info, slot, row);
		GjRowSortAdd(sort, row);
	}
}

static void
open_run(GjFold *fold, GjFoldSource *source, const GjRun *run)
{
	source->sort = NULL;
	GjRunReaderBegin(&source->reader, fold->index, run);
	source->slot = -1;
	source->last = (GjPlace) {PG_INT64_MIN, 0};
	advance(fold, source, 0);
}

/*
 * Go on by n rows, or to the first one
 */
static void
advance(GjFold *fold, GjFoldSource *source, int n)
{
	if (source->sort == NULL)
		advance_in_run(fold, source, n);
	else
	{
		ItemPointerData tid;

		source->row = GjRowSortNext(source->sort);
		source->ended = source->row == NULL;
		if (source->ended)
			return;
		source->place.key = GjRowGetKey(&fold->info, source->row, &tid);
		source->place.tid = GjPackTid(&tid);
	}
}

static void
advance_in_run(GjFold *fold, GjFoldSource *source, int n)
{
	Page		page = (Page) source->page.data;

	if (source->slot >= 0)
		source->slot = next_used_slot(fold, page, source->slot + n);
	while (source->slot < 0)
	{
		GjVacuumDelayPoint();
		if (!GjRunReaderNext(&source->reader))
		{
			if (source->reader.moved)
				GjReportCorruption(fold->index, source->reader.block,
								   "A directory has a page of something else.");
			source->ended = true;
			return;
		}
		copy_data_page(fold, source->reader.block, source->reader.run.run, source->page.data);
		source->slot = next_used_slot(fold, page, 0);
	}
	source->ended = false;
	source->place = place_of_slot(fold, page, source->slot);
	check_order(fold, source, &source->place);
}

/*
 * See to it that a run's rows ascend
 */
static inline void
check_order(const GjFold *fold, GjFoldSource *source, const GjPlace *place)
{
	if (precedes(place, &source->last))
		GjReportCorruption(fold->index, source->reader.block,
						   "The entries of a run are not in order.");
	source->last = *place;
}

/*
 * How many slots, from the one at hand on, are used and before a limit?  Few, as a rule.
 */
static int
find_stretch(const GjFold *fold, GjFoldSource *source, const GjPlace *limit)
{
	Page		page = (Page) source->page.data;
	const uint32 *used = GjDataUsed(page, &fold->info);
	int			slot = source->slot + 1;

	while (slot < fold->info.slots && (used[slot / GJ_SLOTS_PER_WORD] & GjSlotBit(slot)) != 0)
	{
		GjPlace		place = place_of_slot(fold, page, slot);

		if (limit != NULL && !precedes(&place, limit))
			break;
		check_order(fold, source, &place);
		slot++;
	}
	return slot - source->slot;
}

static inline GjPlace
place_of_slot(const GjFold *fold, Page page, int slot)
{
	GjPlace		place = {GjDataGetKey(page, &fold->info, slot),
	GjPackTid(&GjDataTids(page, &fold->info)[slot])};

	return place;
}

/*
 * Copy a data page, after a check that it is of the run or delta that names it
 */
static void
copy_data_page(GjFold *fold, BlockNumber block, uint32 run, char *copy)
{
	Buffer		buffer = ReadBufferExtended(fold->index, MAIN_FORKNUM, block, RBM_NORMAL,
											fold->strategy);
	Page		page = BufferGetPage(buffer);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	GjPageCheck(fold->index, buffer, GJ_PAGE_DATA);
	if (GjPageGetOpaque(page)->run != run)
		GjReportCorruption(fold->index, block, "A data page is of another run than its directory.");
	memcpy(copy, page, BLCKSZ);
	UnlockReleaseBuffer(buffer);
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
