/*-------------------------------------------------------------------------
 *
 * merge.c
 *	  Merging runs in steps: several runs become one, of any size, while folds and deletions go on.
 *
 * A fold holds the fold lock while it writes a run and lists it (fold.c), so it must be short.  A
 * merge holds the lock only for one step at a time, about 50 ms; between two of them the delta may
 * be folded, VACUUM may delete entries, and rows with the TIDs of deleted ones may be inserted.
 * All runs are merged when the small ones have twice as many entries as the base run, or a quarter
 * of the slots is dead; the youngest ones when thirteen are listed.
 *
 * The merge lock: a process that merges holds a user lock (pages/request.c) for the session,
 * because a worker uses one transaction for each step.  The lock shows that the process is alive:
 * it is released when the process ends, however that happens.  It is only tried; it comes before
 * the fold lock.
 *
 * Workers and gpujoin_fold() lock the table and the index for each step anew, and sleep without
 * these locks.  So whoever waits for a lock on the table gets it after a step.  VACUUM, which keeps
 * its lock, merges only what takes no longer than a flush, or what no worker merges.
 *
 *	  Begin		draw the number of the run, merge_run, and mark its sources, by one record.
 *				Nothing else merges or drops a source (fold.c).
 *	  Step		draw a sequence number; seek in the sources to the last place written; write
 *				whole pages.  The process remembers that place, and what the directory needs.
 *	  End		write the rest of the directory; list the run in place of its sources, by one
 *				record.
 *	  Free		enter the freed pages in the free space map, without the fold lock, in slices.
 *
 * If merge_run is set and no process has the merge lock, its process has died: the next one forgets
 * the run and starts over with another number.  Nothing but time is lost: the sources are listed
 * until the end.  The next deletion, which reads all pages, finds the free ones.
 *
 * Why no entry is lost, duplicated or revived.  Readers use the listed runs only, and the last
 * record replaces the sources by a run with the same entries (L1 and L2 hold as for a fold). The
 * entries are the same for these reasons:
 *
 *	- No entry is added to a source, and only a deletion removes any.  A step reads the sources
 *	  under the fold lock, which deletions need; so it writes exactly the entries that they have at
 *	  that time, from the last place on.
 *	- Places never change (L3), and no two entries of an index have the same one at the same
 *	  time.  So the steps write each entry once: the earlier ones up to the place, the later
 *	  ones after it.
 *	- A deletion removes an entry from the sources and from the pages of merge_run before it
 *	  raises the epoch and releases the lock.  No entry is kept in memory over a released lock.
 *	  So when its TID can be used again, the entry is nowhere, and L5 and L6 hold.
 *	- Pages of merge_run are not free (GjPageGetOwner).  Pages of a forgotten one are, and its
 *	  number is not used again: they are never mistaken for those of a later merge.
 *	- An index that has been rebuilt has another build id; then the merge is void.
 *	- An error ends the merge, because a part of a step may have been written: GjMergeLeave().
 *
 * test/model/merge.c tries all orders of these steps; its mutants leave out one rule each.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/indexfsm.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/step.h"
#include "stats/stats.h"
#include "am.h"
#include "fold.h"

/* Approximate duration of a step, and maximum number of data pages that it writes */
#define STEP_MS					50
#define STEP_PAGES				1024

/* VACUUM itself merges the runs of an index of up to this number of data pages */
#define SMALL_PAGES				512

/* Minimum number of small runs to merge */
#define LEAST_RUNS				3

/* Numbers of runs that a merge leaves to folds */
#define SPARED_NUMBERS			8

/* Number of pages that are entered in the free space map at a time */
#define FREE_SLICE				4096

struct GjMerge
{
	MemoryContext context;
	BufferAccessStrategy strategy;	/* for reading pages; may be NULL */
	LOCKTAG		lock;			/* the merge lock */
	uint64		build_id;
	uint32		run;			/* 0 when it has been listed, or if the merge is void */
	GjRunWriter *writer;
	bool		has_room;		/* the free space map lists the free pages, or lacks few */
	BlockNumber next_block;		/* to be looked at for that */
	bool		has_place;		/* false before the first page */
	GjPlace		place;			/* of the last entry written */
	uint64		total;			/* estimated number of entries */
	GjFoldStats stats;
	BlockNumber *freed;			/* to be entered in the free space map, from the next one on */
	uint64		nfreed;
	uint64		next_freed;
};

static GjMerge *begin_merge(Relation index, GjFoldMode mode, const LOCKTAG *lock,
							BufferAccessStrategy strategy);
static int	choose_sources(const GjIndexState *state, GjFoldMode mode, bool *is_source);
static int	choose_youngest(const GjIndexState *state, int n, bool *is_source);
static void remember_run(GjMerge *merge, Relation index, const GjRun *run);
static bool is_valid(const GjMerge *merge, const GjIndexState *state);
static void keep_sources(GjIndexState *state);
static bool write_pages(GjMerge *merge, GjFold *fold);
static void end_merge(GjMerge *merge, Relation index, const GjIndexState *sources);
static bool is_left_to_worker(Relation index, GjFoldMode mode);
static void run_to_end(GjMerge *merge, Relation index);
static void run_steps(GjMerge *merge, Relation index);
static bool is_mostly_free(Relation index);

/*
 * Begin a merge of runs, if it is worthwhile or requested
 *
 * The caller holds the fold lock.  Returns NULL if there is nothing to do, or if another process is
 * merging; *is_busy tells which.  The merge lives until GjMergeLeave(), over transactions.
 */
GjMerge *
GjMergeBegin(Relation index, GjFoldMode mode, BufferAccessStrategy strategy, bool *is_busy)
{
	GjIndexState state;
	bool		is_source[GJ_MAX_RUNS];
	LOCKTAG		lock;
	GjMerge    *merge = NULL;

	*is_busy = false;
	GjIndexGetState(index, &state);
	if (state.merge_run == 0 && choose_sources(&state, mode, is_source) == 0)
		return NULL;
	GjFoldTag(GJ_LOCK_MERGE, RelationGetRelid(index), &lock);
	if (GjLockIsHeld(&lock, ExclusiveLock) || !GjLockTry(&lock, ExclusiveLock, true))
	{
		*is_busy = true;
		return NULL;
	}
	PG_TRY();
	{
		merge = begin_merge(index, mode, &lock, strategy);
	}
	PG_CATCH();
	{
		(void) LockRelease(&lock, ExclusiveLock, true);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (merge == NULL)
		(void) LockRelease(&lock, ExclusiveLock, true);
	return merge;
}

/*
 * Write pages of the merged run; the last step lists the run in place of its sources.  Returns
 * false when nothing is left to write.
 *
 * The caller holds the fold lock.  After an error the merge cannot go on.
 */
bool
GjMergeStep(GjMerge *merge, Relation index)
{
	MemoryContext context;
	MemoryContext old;
	GjFold		fold = {.index = index, .strategy = merge->strategy, .stats = &merge->stats};
	bool		is_done;

	GjIndexGetInfo(index, &fold.info);
	GjIndexGetState(index, &fold.state);
	if (!is_valid(merge, &fold.state))
		merge->run = 0;
	if (merge->run == 0)
		return false;

	GjProgressBegin(RelationGetRelid(index));
	GjProgressPhaseBegin(GJ_PROGRESS_WRITING, merge->total);
	context = AllocSetContextCreate(merge->context, "gpujoin merge step", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);
	keep_sources(&fold.state);
	fold.after = merge->has_place ? &merge->place : NULL;
	GjRunWriterContinue(merge->writer, index, GjMergeDrawChange(index));
	GjStep("merge step");
	is_done = write_pages(merge, &fold);
	if (is_done)
		end_merge(merge, index, &fold.state);
	else
		merge->has_place = GjRunWriterPause(merge->writer, &merge->place);
	GjStep("merge written");
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return !is_done;
}

/*
 * Before the first step, look for some of the free pages if most of the file is free: these would
 * have been reused if the free space map had listed them, which may be incomplete after a crash.
 * Returns false if no more are to be looked for.
 *
 * The caller need not hold the fold lock.
 */
bool
GjMergeFindRoom(GjMerge *merge, Relation index)
{
	if (merge->has_room)
		return false;
	if (merge->next_block == 0 && !is_mostly_free(index))
		merge->has_room = true;
	else
		merge->has_room = !GjFoldFindFree(index, &merge->next_block, FREE_SLICE, merge->strategy);
	return !merge->has_room;
}

/*
 * Return true if more than two thirds of the file is free
 */
static bool
is_mostly_free(Relation index)
{
	BlockNumber length = GjIndexGetLength(index);
	GjIndexInfo info;
	GjIndexState state;
	uint64		pages;
	uint64		nfree;

	GjIndexGetInfo(index, &info);
	GjIndexGetState(index, &state);
	pages = length - info.first_data;
	nfree = GjListsCountFree(&state, &info, length);
	return nfree > 2 * (pages - nfree);
}

/*
 * Enter some of the freed pages in the free space map; returns false if no more are left
 *
 * The caller need not hold the fold lock: the map is a hint.
 */
bool
GjMergeFree(GjMerge *merge, Relation index)
{
	uint64		last = Min(merge->nfreed, merge->next_freed + FREE_SLICE);
	GjIndexState state;

	if (merge->nfreed == 0)
		return false;
	GjIndexGetState(index, &state);
	if (state.build_id == merge->build_id)
	{
		GjStep("merge freeing");
		for (; merge->next_freed < last; merge->next_freed++)
		{
			CHECK_FOR_INTERRUPTS();
			RecordFreeIndexPage(index, merge->freed[merge->next_freed]);
		}
		if (last < merge->nfreed)
			return true;
		IndexFreeSpaceMapVacuum(index);
	}
	merge->nfreed = merge->next_freed = 0;
	return false;
}

/*
 * Return what the merge has written
 */
const GjFoldStats *
GjMergeGetStats(const GjMerge *merge)
{
	return &merge->stats;
}

/*
 * Leave a merge, finished or not: release the merge lock and the memory
 *
 * This must be called after an error, too, because the lock survives the end of a transaction,
 * while the merge cannot go on.
 */
void
GjMergeLeave(GjMerge *merge)
{
	if (GjLockIsHeld(&merge->lock, ExclusiveLock))
		(void) LockRelease(&merge->lock, ExclusiveLock, true);
	GjProgressEnd();
	MemoryContextDelete(merge->context);
}

/*
 * Merge runs, if it is worthwhile or requested, without a pause, unless this is VACUUM and a worker
 * can do it; adds to the statistics
 *
 * The caller holds ShareUpdateExclusiveLock on the table, unless that is temporary, and
 * RowExclusiveLock on the index.  If another process has the fold lock or merges, nothing is begun.
 */
void
GjMergeRuns(Relation index, GjFoldMode mode, BufferAccessStrategy strategy, GjFoldStats *stats)
{
	if (is_left_to_worker(index, mode))
		return;
	for (int round = 0; round < GJ_MERGE_ROUNDS; round++)
	{
		GjMerge    *merge;
		bool		is_busy;

		if (!GjFoldTryLock(index, ExclusiveLock))
			return;
		merge = GjMergeBegin(index, mode, strategy, &is_busy);
		GjFoldUnlock(index, ExclusiveLock);
		if (merge == NULL)
			return;
		run_to_end(merge, index);
		stats->folds += merge->stats.folds;
		stats->entries += merge->stats.entries;
		stats->pages += merge->stats.pages;
		GjMergeLeave(merge);
	}
}

/*
 * Return true if VACUUM should leave a merge to a worker: to the one that the index has, or to one
 * that is started for a merge that is due.  Not all workers merge, and there may be no room for
 * one, so VACUUM merges if the list of runs is full.  It also merges the runs of a small index,
 * which takes no longer than a flush.
 */
static bool
is_left_to_worker(Relation index, GjFoldMode mode)
{
	GjIndexState state;
	bool		is_source[GJ_MAX_RUNS];
	uint64		pages = 0;

	if (mode != GJ_FOLD_IF_WORTH_IT || GjIndexFoldPages(index) == 0 || gj_fold_workers == 0)
		return false;
	GjIndexGetState(index, &state);
	for (int i = 0; i < state.nruns; i++)
		pages += state.runs[i].data_pages;
	if (pages <= SMALL_PAGES)
		return false;
	if (GjFoldHasWorker(index))
		return state.nruns < GJ_MAX_RUNS;
	return (state.merge_run == 0 && choose_sources(&state, mode, is_source) == 0) ||
		GjFoldRequest(index, &state, 0);
}

static void
run_to_end(GjMerge *merge, Relation index)
{
	PG_TRY();
	{
		run_steps(merge, index);
	}
	PG_CATCH();
	{
		GjMergeLeave(merge);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

static void
run_steps(GjMerge *merge, Relation index)
{
	bool		has_more = true;

	while (GjMergeFindRoom(merge, index))
		GjVacuumDelayPoint();
	while (has_more)
	{
		GjVacuumSleep();
		CHECK_FOR_INTERRUPTS();
		GjFoldLock(index);
		has_more = GjMergeStep(merge, index);
		GjFoldUnlock(index, ExclusiveLock);
	}
	while (GjMergeFree(merge, index))
		;
}

/* Begin ------------------------------------------------------------------------------ */

/*
 * Begin a merge under the fold lock and the merge lock
 */
static GjMerge *
begin_merge(Relation index, GjFoldMode mode, const LOCKTAG *lock, BufferAccessStrategy strategy)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gpujoin merge",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	GjMerge    *merge = palloc0(sizeof(GjMerge));
	bool		is_source[GJ_MAX_RUNS];
	GjIndexState state;
	GjIndexInfo info;

	merge->context = context;
	merge->strategy = strategy;
	merge->lock = *lock;
	GjIndexGetInfo(index, &info);
	GjIndexGetState(index, &state);
	merge->build_id = state.build_id;
	if (state.merge_run != 0)
	{
		GjMergeForget(index);
		GjStep("merge forgotten");
		GjIndexGetState(index, &state);
	}
	if (choose_sources(&state, mode, is_source) > 0)
	{
		merge->run = GjMergeAnnounce(index, is_source);
		merge->writer = GjRunWriterBegin(index, &info, merge->run, 0, false);
		for (int i = 0; i < state.nruns; i++)
		{
			if (is_source[i])
				merge->total += GjRunCountAlive(&state.runs[i]);
		}
		GjRunWriterBind(merge->writer, &state, is_source);
		GjStep("merge begun");
	}
	MemoryContextSwitchTo(old);
	if (merge->run == 0)
	{
		MemoryContextDelete(context);
		return NULL;
	}
	MemoryContextSetParent(context, TopMemoryContext);
	return merge;
}

/*
 * Choose the runs to merge; returns their number
 *
 * The run in the last place of the list is never chosen: then a fold in the meantime finds either
 * room in the list, or a youngest run to merge the delta with.
 */
static int
choose_sources(const GjIndexState *state, GjFoldMode mode, bool *is_source)
{
	int			n = Min(state->nruns, GJ_MAX_RUNS - 1);

	memset(is_source, 0, GJ_MAX_RUNS * sizeof(bool));
	if (mode != GJ_FOLD_ALL && state->next_run > GJ_MAX_RUN_NUMBER - SPARED_NUMBERS)
		return 0;
	if (mode == GJ_FOLD_ALL ? n > 1 || (n == 1 && state->runs[0].dead > 0) :
		GjMergeAllIsDue(state))
	{
		memset(is_source, true, n * sizeof(bool));
		return n;
	}
	if (mode != GJ_FOLD_ALL && state->nruns >= GJ_MANY_RUNS)
		return choose_youngest(state, n, is_source);
	return 0;
}

/*
 * Choose the youngest of the first n runs, and older ones up to the first that is more than twice
 * as big as each of these.  The base run is not one of them.
 *
 * So the runs of equal flushes are first merged twelve at a time, then eleven, ten and so on, as
 * merged runs take more and more places of the list, and merged again only after about 75 flushes.
 */
static int
choose_youngest(const GjIndexState *state, int n, bool *is_source)
{
	uint64		largest = 0;
	int			chosen = 0;

	while (n > 1 && (chosen < LEAST_RUNS || GjRunCountAlive(&state->runs[n - 1]) <= 2 * largest))
	{
		n--;
		largest = Max(largest, GjRunCountAlive(&state->runs[n]));
		is_source[n] = true;
		chosen++;
	}
	return chosen;
}

/*
 * Remember the pages of a run, which will be free
 */
static void
remember_run(GjMerge *merge, Relation index, const GjRun *run)
{
	uint64		n = (uint64) run->data_pages + run->directory_pages;
	Size		size = (merge->nfreed + n) * sizeof(BlockNumber);

	if (merge->freed == NULL)
		merge->freed = MemoryContextAllocHuge(merge->context, size);
	else
		merge->freed = repalloc_huge(merge->freed, size);
	if (!GjRunGetBlocks(index, run, merge->freed + merge->nfreed))
		GjReportCorruption(index, run->root, "A directory has a page of something else.");
	merge->nfreed += n;
}

/* Steps ------------------------------------------------------------------------------ */

/*
 * Return true if the merge can go on: the index has not been rebuilt, and no process has forgotten
 * the merge
 */
static bool
is_valid(const GjMerge *merge, const GjIndexState *state)
{
	return state->build_id == merge->build_id && state->merge_run == merge->run;
}

/*
 * Remove everything from a state but the sources
 */
static void
keep_sources(GjIndexState *state)
{
	int			n = 0;

	for (int i = 0; i < state->nruns; i++)
	{
		if (GjRunIsSource(&state->runs[i]))
			state->runs[n++] = state->runs[i];
	}
	state->nruns = state->nall = n;
	for (int i = 0; i < lengthof(state->deltas); i++)
		state->deltas[i].run = state->other_deltas[i].run = 0;
}

/*
 * Write pages until the time is over, or there are enough; returns true if the sources have no more
 * entries
 *
 * At least one whole page is written.  Tests have steps of one page.
 */
static bool
write_pages(GjMerge *merge, GjFold *fold)
{
	uint64		least = 2 * GJ_MAX_SLOTS;
	uint64		most = STEP_PAGES * (uint64) fold->info.plain_slots;
	uint64		written = 0;
	uint64		next = least;	/* number of entries after which to look at the clock */
	bool		is_done = true;
	instr_time	began;
	GjFoldRows	rows;

	INSTR_TIME_SET_CURRENT(began);
	GjFoldOpenSources(fold, 0);
	while (GjFoldNextRows(fold, &rows))
	{
		instr_time	now;

		GjFoldWriteRows(merge->writer, &rows);
		written += rows.n;
		if (written < next)
			continue;
		next += fold->info.plain_slots;
		GjProgressDone(merge->stats.entries + written);
		GjStep("merging");
		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, began);
		if (written >= most || INSTR_TIME_GET_MILLISEC(now) >= STEP_MS || GjStepsAreShort())
		{
			is_done = false;
			break;
		}
	}
	GjFoldCloseSources(fold);
	merge->stats.entries += written;
	return is_done;
}

/*
 * Finish the run, and list it in place of its sources
 */
static void
end_merge(GjMerge *merge, Relation index, const GjIndexState *sources)
{
	BlockNumber last;
	GjRun		run;

	last = GjRunWriterEnd(merge->writer, &run);
	merge->writer = NULL;
	GjStep("merge complete");
	for (int i = 0; i < sources->nruns; i++)
		remember_run(merge, index, &sources->runs[i]);
	GjMergePublish(index, &run, last);
	merge->run = 0;
	merge->stats.folds = 1;
	merge->stats.entries = run.entries;
	merge->stats.pages = run.data_pages + run.directory_pages;
	GjStep("merge published");
}
