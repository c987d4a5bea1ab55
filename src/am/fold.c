/*-------------------------------------------------------------------------
 *
 * fold.c
 *	  Folding: turn inserted rows into a small run.
 *
 * Inserted rows are in the delta, in no order, so every search reads all of it.  A minor fold
 * sorts the delta's entries and writes them as a small run.  A middle fold merges them with the
 * youngest small runs, if there are five of about their size, or if the list of runs is full: so
 * small runs remain few, and an entry is usually rewritten only as part of something much
 * bigger.  A flush, the fold of a background worker, leaves that to merges in steps while the list
 * has room.  Merging drops deleted slots.  VACUUM folds after deleting dead entries, autovacuum's
 * ANALYZE also does (a table that only grows is rarely vacuumed), gpujoin_fold() on demand, a
 * background worker while rows are inserted, and for a temporary table the insertion itself.
 * Afterwards big runs may be merged in steps; each step takes the fold lock again: merge.c.
 *
 * The fold lock: a fold holds it exclusively from its first step to its last one, and so does a
 * bulk deletion (vacuum.c).  So neither another fold nor a deletion runs at the same time,
 * including that of CREATE INDEX CONCURRENTLY; queries and insertions do.  But a flush that sorts
 * rows releases it meanwhile: see "Sorting without the fold lock".  No fold waits for the lock:
 * if another process has it, VACUUM and ANALYZE leave the fold to a later one, and gpujoin_fold()
 * tries again, after a sleep without locks (admin/command.c).  The lock of the table would not do,
 * because VACUUM holds that while it reads the heap, too.  A VACUUM whose cost is limited does not
 * sleep while it holds the fold lock, but afterwards.
 *
 * The steps, each one or more WAL records of its own:
 *
 *	  0. Discard the unfinished run of an earlier fold that failed.
 *	  1. Rotate: the delta becomes the previous one, lanes open their next pages in a new one.
 *	  2. Close: each lane that still fills a page of the previous delta gives it up.
 *	  3. Begin: draw the run's number, fold_run.
 *	  4. Write the run's pages, onto free pages or at the end of the file.
 *	  5. Publish: list the run, and remove the previous delta and the merged runs from the list.
 *	  6. Enter the freed pages in the free space map.
 *
 * Why nothing is lost.  All entries of the new run are on pages that do not change from step 2
 * on: rows are added to a delta page only through a lane that has it open, and a lane is closed
 * with its tail page locked, when no row is being moved; deletions are locked out.  Until step 5
 * the metapage lists those pages, so all readers use them, and they cannot be reused; from step 5
 * on it lists the run, which has the same entries.  Generic WAL makes step 5 one change of one
 * page.  So an entry is in exactly one of the places that a state lists, or on a tail.
 *
 * An error, a crash or a promotion after step 1 leaves a previous delta.  It is read as before,
 * and the next fold begins with it.  After step 3 it also leaves fold_run and pages with its
 * number: they are neither read nor reused.  Step 0 of the next fold scans the file for them and
 * frees them.  Numbers are never reused, so that an old page is never mistaken for one of a later
 * run.  If we crash after step 5, freed pages missing from the free space map are found by the
 * next bulk deletion, which reads every page.
 *
 * Step 5 frees pages that a reader may be about to read, and increments list_version, by which
 * the reader notices it: lemma L1 of src/README.  A fold moves entries towards runs only, never
 * back, and so does the flush of a tail; lemma L2 relies on that.  Standbys replay the same records
 * in the same order: the pages before the metapage that lists them, and the metapage before a page
 * is reused (lemma L9).
 *
 * Before a fold writes, runs without live entries are dropped, in a change of their own.
 *
 * The part of NULL keys (pages/format.h) is folded after the other one, in the same steps, except
 * by a flush: no search of keys reads its delta.
 *
 * A merge in steps may be under way between two folds.  A fold neither merges nor drops its
 * sources, and the pages that it has written are not free.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/indexfsm.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/step.h"
#include "stats/stats.h"
#include "am.h"
#include "fold.h"

/* Minimum number of data pages for which VACUUM folds a delta */
#define MINOR_PAGES				64

/*
 * Maximum number of numbers that a call draws for each part, with a leftover delta: two for runs,
 * one for a delta
 */
#define FOLD_NUMBERS			(2 * 3)

/*
 * A fold of NULL keys merges the runs that have at most this many times as many entries as those
 * that it rewrites anyway
 */
#define NULL_RUN_FACTOR			8

/*
 * Number of runs of about a delta's size that are merged with it.  With three, entries move to
 * bigger runs sooner, but searches, which find few of them next to each other there, take longer
 * on average.
 */
#define MERGED_RUNS				5

/*
 * Size of the runs that a flush merges, in units of the delta that is worth a flush.  Merges take
 * care of bigger ones.
 */
#define FLUSH_UNITS				8

/* VACUUM's folds merge runs of at most this part of the size of a flush */
#define VACUUM_PART				4

/* Blocks to enter in the free space map */
typedef struct Freed
{
	BlockNumber *blocks;
	uint64		n;
	uint64		room;
} Freed;

/* The rows of a delta, sorted while the fold lock was not held */
typedef struct SortedDelta
{
	GjRowSort  *sort;			/* NULL if nothing has been sorted */
	uint32		run;			/* the delta */
	BlockNumber *blocks;		/* its pages */
	BlockNumber nblocks;
	uint64	   *changes;		/* change counter of each page when it was read */
} SortedDelta;

static bool lock_to_fold(GjFold *fold, SortedDelta *sorted);
static void fold_locked(GjFold *fold, SortedDelta *sorted);
static bool has_few_numbers(const GjFold *fold);
static void sort_delta_ahead(GjFold *fold, SortedDelta *sorted);
static bool get_delta_page(const GjFold *fold, const SortedDelta *sorted, BlockNumber i,
						   uint64 *change, char *copy);
static void read_lists(GjFold *fold);
static void fold_part(GjFold *fold, SortedDelta *sorted);
static int	first_merged_nulls(const GjFold *fold);
static void use_sorted(GjFold *fold, SortedDelta *sorted);
static bool is_still_sorted(const GjFold *fold, const SortedDelta *sorted);
static void forget_unfinished(GjFold *fold);
static void drop_dead_runs(GjFold *fold);
static bool is_worth_it(const GjFold *fold);
static int	first_merged(const GjFold *fold);
static bool may_merge(const GjFold *fold, int i, uint64 size, bool is_full);
static uint64 most_merged(const GjFold *fold);
static void fold_once(GjFold *fold, SortedDelta *sorted);
static void take_delta(GjFold *fold);
static void write_folded(GjFold *fold, int first, GjRun *run, BlockNumber *end);
static uint64 count_entries(const GjFold *fold, int first);
static void publish(GjFold *fold, int first, const GjRun *run, BlockNumber end);
static void find_free_pages(GjFold *fold);
static void look_for_free(Relation index, const GjIndexState *state, BlockNumber block,
						  BufferAccessStrategy strategy);
static BlockNumber *reserve_freed(Freed *freed, uint64 n);
static void free_run(GjFold *fold, Freed *freed, const GjRun *run);
static void free_delta(GjFold *fold, Freed *freed);
static void enter_freed(GjFold *fold, Freed *freed);

/*
 * Fold an index, if it is worthwhile or requested; returns false if another process has the fold
 * lock
 *
 * The caller must hold AccessShareLock on the table and RowExclusiveLock on the index.
 */
bool
GjFoldIndex(Relation index, GjFoldMode mode, BufferAccessStrategy strategy, GjFoldStats *stats)
{
	TimestampTz began = GetCurrentTimestamp();
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gpujoin fold",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	GjFold		fold = {.index = index,.strategy = strategy,.mode = mode,.stats = stats};
	SortedDelta sorted = {NULL};
	bool		is_locked;

	memset(stats, 0, sizeof(*stats));
	is_locked = lock_to_fold(&fold, &sorted);
	if (is_locked)
	{
		fold_locked(&fold, &sorted);
		GjFoldUnlock(index, ExclusiveLock);
	}
	if (sorted.sort != NULL)
		GjRowSortEnd(sorted.sort);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (!is_locked)
		return false;
	GjVacuumSleep();
	if (mode == GJ_FOLD_IF_WORTH_IT || (mode == GJ_FOLD_FLUSH && RelationUsesLocalBuffers(index)))
		GjMergeRuns(index, mode, strategy, stats);
	if (stats->folds > 0)
		GjFoldCount(index, stats, GetCurrentTimestamp() - began);
	return true;
}

/*
 * Add folds or merges to the counters of the index
 */
void
GjFoldCount(Relation index, const GjFoldStats *stats, int64 us)
{
	GjIndexUse	use = {0};

	use.n[GJ_USE_FOLDS] = stats->folds;
	use.n[GJ_USE_FOLDED] = stats->entries;
	use.n[GJ_USE_FOLD_PAGES] = stats->pages;
	use.n[GJ_USE_FOLD_US] = Max(us, 0);
	GjUsageMakeRoom(RelationGetRelid(index));
	GjUsageAdd(RelationGetRelid(index), &use);
}

/*
 * Get the fold lock, and perhaps sort the delta before; returns false if another process has it
 */
static bool
lock_to_fold(GjFold *fold, SortedDelta *sorted)
{
	Relation	index = fold->index;

	GjIndexGetInfo(index, &fold->info);
	fold->flush_pages = GjIndexFoldPages(index);
	if (!GjFoldTryLock(index, ExclusiveLock))
		return false;
	/* without INCLUDE columns, entries are usually words, which are sorted while being written */
	if (fold->mode != GJ_FOLD_FLUSH || fold->info.nincluded == 0)
		return true;
	GjIndexGetState(index, &fold->state);
	if (has_few_numbers(fold) || !is_worth_it(fold))
		return true;
	GjProgressBegin(RelationGetRelid(index));
	take_delta(fold);
	GjFoldUnlock(index, ExclusiveLock);
	sort_delta_ahead(fold, sorted);
	GjStep("sorted ahead");
	GjProgressEnd();
	return GjFoldTryLock(index, ExclusiveLock);
}

/*
 * Fold an index under the fold lock
 */
static void
fold_locked(GjFold *fold, SortedDelta *sorted)
{
	read_lists(fold);
	if ((fold->mode == GJ_FOLD_IF_WORTH_IT || fold->mode == GJ_FOLD_FLUSH) &&
		has_few_numbers(fold))
	{
		ereport(WARNING,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index \"%s\" has been folded too often",
						RelationGetRelationName(fold->index)),
				 errdetail("New entries stay unsorted, and searches become slower."),
				 errhint("REINDEX it.")));
		return;
	}
	forget_unfinished(fold);
	fold_part(fold, sorted);
	if (fold->info.stores_nulls && fold->mode != GJ_FOLD_FLUSH)
	{
		GjInfoTurnToNulls(&fold->info);
		read_lists(fold);
		fold_part(fold, NULL);
	}
}

/*
 * Read the lists of the part that is folded
 */
static void
read_lists(GjFold *fold)
{
	GjIndexGetPart(fold->index, fold->info.of_nulls, &fold->state);
}

/*
 * Fold one part of an index.  Of NULL keys, nothing is sorted.
 */
static void
fold_part(GjFold *fold, SortedDelta *sorted)
{
	bool		left_over = fold->state.deltas[1].run != 0;
	bool		is_due = is_worth_it(fold);

	drop_dead_runs(fold);

	/* fold a leftover delta first, then perhaps the one after it, which is another flush's */
	if (is_due)
		fold_once(fold, sorted);
	if (left_over && fold->mode != GJ_FOLD_FLUSH)
	{
		read_lists(fold);
		if (is_worth_it(fold))
			fold_once(fold, sorted);
	}
}

/*
 * Return true if only enough numbers for runs and deltas are left for one or two last folds.
 * VACUUM must then go on without folding, rather than raise an error every time.
 */
static bool
has_few_numbers(const GjFold *fold)
{
	return fold->state.next_run >= GJ_MAX_RUN_NUMBER - FOLD_NUMBERS;
}

/*
 * Free the pages of a run that a fold did not publish.  A flush leaves it to its caller to enter
 * them in the free space map, for which the whole file must be read.
 */
static void
forget_unfinished(GjFold *fold)
{
	if (fold->state.fold_run == 0)
		return;
	GjProgressBegin(RelationGetRelid(fold->index));
	GjFoldForget(fold->index);
	GjStep("forgotten");
	read_lists(fold);
	if (fold->mode == GJ_FOLD_FLUSH)
		fold->stats->forgotten = true;
	else
		find_free_pages(fold);
	GjProgressEnd();
}

/*
 * Drop the runs that have no live entries, so that the fold can use their pages
 *
 * Otherwise an index whose rows are all updated between two VACUUMs would need room for three times
 * its entries.
 */
static void
drop_dead_runs(GjFold *fold)
{
	GjRun		alive[GJ_MAX_RUNS];
	int			nalive = 0;
	Freed		freed = {NULL};

	for (int i = 0; i < fold->state.nruns; i++)
	{
		const GjRun *run = &fold->state.runs[i];

		if (run->dead < run->entries || GjRunIsSource(run))
			alive[nalive++] = *run;
		else
			free_run(fold, &freed, run);
	}
	if (nalive == fold->state.nruns)
		return;
	GjRunsPublish(fold->index, fold->info.of_nulls, alive, nalive, 0, false);
	GjStep("dropped");
	enter_freed(fold, &freed);
	read_lists(fold);
}

/*
 * Return true if the delta is to be folded.  A small one is, too, if runs are dropped or merged: an
 * index of a few pages, all of whose rows are updated between two VACUUMs, should not grow.
 */
static bool
is_worth_it(const GjFold *fold)
{
	const GjIndexState *state = &fold->state;
	BlockNumber least = fold->mode == GJ_FOLD_IF_WORTH_IT ? MINOR_PAGES : 1;
	bool		left_over = state->deltas[1].run != 0;

	if (fold->mode == GJ_FOLD_FLUSH)
		return left_over || state->deltas[0].data_pages >= Max(fold->flush_pages, 1);
	if (GjMergeAllIsDue(state))
		least = fold->info.of_nulls ? 0 : 1;
	return left_over || state->deltas[0].data_pages >= least;
}

/*
 * Return the first of the runs of NULL keys to merge with the previous delta.  No search reads them
 * in an order, and no merge in steps rewrites them; so the fold keeps them few and of their dead
 * entries less than a quarter.
 */
static int
first_merged_nulls(const GjFold *fold)
{
	const GjIndexState *state = &fold->state;
	uint64		size = (uint64) state->deltas[1].data_pages * fold->info.plain_slots;
	int			first = state->nruns;

	if (GjMergeAllIsDue(state))
		return 0;
	while (first > 0 && (first == GJ_MAX_NULL_RUNS ||
						 GjRunCountAlive(&state->runs[first - 1]) <= NULL_RUN_FACTOR * size))
		size += GjRunCountAlive(&state->runs[--first]);
	return first;
}

/*
 * Return the first of the runs to merge with the previous delta.  The base run is not merged,
 * unless a flush finds it as small as the others, nor are those that a merge reads.  None of these
 * is in the last place of the list.  A flush merges only if no worker has merged in steps, although
 * the list has got that long: of several workers one does not merge, or they are behind.
 *
 * If the list of runs is full, at least one is merged, and with it all that are not much bigger.
 * Otherwise the list would stay full, and every fold would rewrite the youngest run.
 */
static int
first_merged(const GjFold *fold)
{
	const GjIndexState *state = &fold->state;
	uint64		size = (uint64) state->deltas[1].data_pages * fold->info.plain_slots;
	int			first = state->nruns;
	bool		is_full = first == GJ_MAX_RUNS;
	int			usual = fold->mode == GJ_FOLD_FLUSH ? GJ_MANY_RUNS : MERGED_RUNS;
	int			least = is_full ? 1 : usual;

	for (;;)
	{
		int			i = first;

		while (may_merge(fold, i - 1, 2 * size, is_full))
			i--;
		if (first - i < least && first < GJ_MAX_RUNS)
			return first;
		i = Min(i, first - 1);
		while (first > i)
			size += GjRunCountAlive(&state->runs[--first]);
	}
}

/*
 * Return true if a run may be merged with the delta, and with younger runs, if it has no more
 * entries than size
 */
static bool
may_merge(const GjFold *fold, int i, uint64 size, bool is_full)
{
	int			oldest = fold->mode == GJ_FOLD_FLUSH && !is_full ? 0 : 1;
	uint64		alive;

	if (i < oldest || GjRunIsSource(&fold->state.runs[i]))
		return false;
	alive = GjRunCountAlive(&fold->state.runs[i]);
	return alive <= size && (is_full || alive <= most_merged(fold));
}

/*
 * Return the number of entries of the biggest run that this fold may merge, unless the list has no
 * room
 *
 * A flush leaves bigger runs to merges.  VACUUM leaves nearly all to the flushes of a worker, if
 * the index may have one: merging would make it take longer than the insertions deserve.
 */
static uint64
most_merged(const GjFold *fold)
{
	uint64		unit = (uint64) fold->flush_pages * fold->info.plain_slots;

	if (fold->mode == GJ_FOLD_FLUSH)
		return FLUSH_UNITS * unit;
	if (fold->mode == GJ_FOLD_IF_WORTH_IT && unit > 0 && gj_fold_workers > 0)
		return unit / VACUUM_PART;
	return PG_UINT64_MAX;
}

static void
fold_once(GjFold *fold, SortedDelta *sorted)
{
	GjRun		run;
	BlockNumber end;

	GjProgressBegin(RelationGetRelid(fold->index));
	take_delta(fold);
	if (fold->state.deltas[1].run != 0)
	{
		int			first = fold->info.of_nulls ? first_merged_nulls(fold) : first_merged(fold);

		use_sorted(fold, sorted);
		write_folded(fold, first, &run, &end);
		publish(fold, first, &run, end);
		fold->stats->folds++;
	}
	GjProgressEnd();
}

/*
 * Make sure that the entries to fold are in the previous delta, and that no more are added to it
 */
static void
take_delta(GjFold *fold)
{
	if (fold->state.deltas[1].run == 0)
	{
		if (fold->state.deltas[0].list_pages == 0 && !fold->info.of_nulls)
			return;
		GjDeltaRotate(fold->index, fold->info.of_nulls);
		GjStep("rotated");
	}
	for (int lane = 0; lane < fold->info.nlanes; lane++)
	{
		GjLaneClose(fold->index, fold->info.first_lane + lane);
		GjStep("closing");
	}
	read_lists(fold);
}

/*
 * Write a run of the entries of the previous delta and of the runs from the given one on
 */
static void
write_folded(GjFold *fold, int first, GjRun *run, BlockNumber *end)
{
	uint64		change;
	uint32		number = GjFoldBegin(fold->index, &change);
	GjRunWriter *writer;
	GjFoldRows	rows;
	bool		merged[GJ_MAX_RUNS];
	uint64		written = 0;
	uint64		reported = 0;	/* entries at the last test step */

	GjStep("begun");
	writer = GjRunWriterBegin(fold->index, &fold->info, number, change, false);
	for (int i = 0; i < fold->state.nruns; i++)
		merged[i] = i >= first;
	GjRunWriterBind(writer, &fold->state, merged);
	GjFoldOpenSources(fold, first);
	GjProgressPhaseBegin(GJ_PROGRESS_WRITING, count_entries(fold, first));
	GjStep("sorted");
	while (GjFoldNextRows(fold, &rows))
	{
		GjFoldWriteRows(writer, &rows);
		written += rows.n;
		if (written - reported > fold->info.plain_slots)
		{
			GjProgressDone(written);
			GjStep("writing");
			reported = written;
		}
	}
	fold->stats->entries += written;
	GjFoldCloseSources(fold);
	*end = GjRunWriterEnd(writer, run);
	fold->stats->pages += run->data_pages + run->directory_pages;
	GjStep("written");
}

/*
 * Estimate the number of entries of the run.  The delta's pages are counted as full.
 */
static uint64
count_entries(const GjFold *fold, int first)
{
	uint64		n = (uint64) fold->ndelta_blocks * fold->info.plain_slots;

	for (int i = first; i < fold->state.nruns; i++)
		n += GjRunCountAlive(&fold->state.runs[i]);
	return n;
}

/*
 * Publish the run, and free the pages that it replaces
 */
static void
publish(GjFold *fold, int first, const GjRun *run, BlockNumber end)
{
	GjRun		runs[GJ_MAX_RUNS];
	int			nruns = 0;
	Freed		freed = {NULL};

	for (int i = 0; i < fold->state.nruns; i++)
	{
		if (i >= first)
			free_run(fold, &freed, &fold->state.runs[i]);
		else
			runs[nruns++] = fold->state.runs[i];
	}
	free_delta(fold, &freed);
	if (run->entries > 0)
		runs[nruns++] = *run;
	GjRunsPublish(fold->index, fold->info.of_nulls, runs, nruns, end, true);
	GjStep("published");
	enter_freed(fold, &freed);
}

/*-------------------------------------------------------------------------
 * Sorting without the fold lock
 *
 * Half of the time of a flush that sorts rows is that of the sort.  So it releases the fold lock
 * after step 2, sorts the previous delta, and gets the lock again.
 *
 * The result is used only if, under the lock, each page is found as it was read: the delta is still
 * the previous one, so that its pages have been its own since (L1; numbers are never used twice),
 * and their change counters are the same.  Rows are not added to it after step 2, and a deletion
 * draws a new number for each page that it changes.  So the sorted rows are the entries that the
 * pages have now, and the fold continues as if it had sorted them now.  Otherwise it sorts again.
 * Another fold or a deletion in between finds what an interrupted fold leaves.
 *
 * The index cannot be rebuilt meanwhile, because table and index stay locked.
 *-------------------------------------------------------------------------
 */

/*
 * Sort the rows of the previous delta, unless its pages turn out to be another's
 */
static void
sort_delta_ahead(GjFold *fold, SortedDelta *sorted)
{
	GjIndexState state = fold->state;
	GjRowSort  *sort;

	state.deltas[0].run = 0;
	sorted->run = state.deltas[1].run;
	if (sorted->run == 0 ||
		!GjDeltaGetBlocks(fold->index, &state, &sorted->blocks, &sorted->nblocks))
		return;
	GjProgressPhaseBegin(GJ_PROGRESS_SORTING, sorted->nblocks);
	sorted->changes = palloc(Max(sorted->nblocks, 1) * sizeof(uint64));
	sort = GjRowSortBegin(&fold->info, GjVacuumMemory());
	for (BlockNumber i = 0; i < sorted->nblocks; i++)
	{
		PGAlignedBlock copy;

		CHECK_FOR_INTERRUPTS();
		GjProgressDone(i);
		if (!get_delta_page(fold, sorted, i, &sorted->changes[i], copy.data))
		{
			GjRowSortEnd(sort);
			return;
		}
		GjRowSortAddPage(sort, (Page) copy.data);
	}
	GjRowSortPerform(sort);
	sorted->sort = sort;
}

/*
 * Get the change counter of a page, and a copy of it unless that is NULL; returns false if the page
 * does not belong to the delta
 */
static bool
get_delta_page(const GjFold *fold, const SortedDelta *sorted, BlockNumber i, uint64 *change,
			   char *copy)
{
	Buffer		buffer = ReadBufferExtended(fold->index, MAIN_FORKNUM, sorted->blocks[i],
											RBM_NORMAL, fold->strategy);
	Page		page = BufferGetPage(buffer);
	bool		is_delta;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	is_delta = !GjPageIsUnused(page) &&
		GjPageCheckKind(fold->index, buffer) == GJ_PAGE_DATA &&
		GjPageGetOpaque(page)->run == sorted->run;
	if (is_delta)
		*change = GjPageGetOpaque(page)->change;
	if (is_delta && copy != NULL)
	{
		GjPlainDemand(fold->index, sorted->blocks[i], page);
		memcpy(copy, page, BLCKSZ);
	}
	UnlockReleaseBuffer(buffer);
	return is_delta;
}

/*
 * Pass the sorted rows to the fold if they are the entries of the previous delta; otherwise discard
 * them
 */
static void
use_sorted(GjFold *fold, SortedDelta *sorted)
{
	fold->sorted = NULL;
	if (sorted == NULL || sorted->sort == NULL)
		return;
	if (is_still_sorted(fold, sorted))
		fold->sorted = sorted->sort;
	else
		GjRowSortEnd(sorted->sort);
	sorted->sort = NULL;
}

static bool
is_still_sorted(const GjFold *fold, const SortedDelta *sorted)
{
	if (sorted->run != fold->state.deltas[1].run)
		return false;
	for (BlockNumber i = 0; i < sorted->nblocks; i++)
	{
		uint64		change;

		if (!get_delta_page(fold, sorted, i, &change, NULL) || change != sorted->changes[i])
			return false;
	}
	return true;
}

/* Free pages ------------------------------------------------------------------------ */

/*
 * Scan the file for free pages, and enter them in the free space map
 */
static void
find_free_pages(GjFold *fold)
{
	BlockNumber nblocks = GjIndexGetLength(fold->index);

	GjProgressPhaseBegin(GJ_PROGRESS_LOOKING, nblocks - fold->info.first_data);
	for (BlockNumber block = fold->info.first_data; block < nblocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		GjProgressDone(block - fold->info.first_data);
		look_for_free(fold->index, &fold->state, block, fold->strategy);
	}
	IndexFreeSpaceMapVacuum(fold->index);
}

/*
 * Enter a page in the free space map, if it is free
 */
static void
look_for_free(Relation index, const GjIndexState *state, BlockNumber block,
			  BufferAccessStrategy strategy)
{
	Buffer		buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	Page		page = BufferGetPage(buffer);
	GjPageOwner owner;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!GjPageIsUnused(page))
		(void) GjPageCheckKind(index, buffer);
	owner = GjPageGetOwner(state, page);
	UnlockReleaseBuffer(buffer);
	if (owner == GJ_OWNER_NOBODY)
		RecordFreeIndexPage(index, block);
}

/*
 * Scan a part of the file, n blocks from *next on, for free pages, and advance *next; returns false
 * after the last block
 *
 * This needs no fold lock: the free space map is a hint, and a process that takes a page from it
 * tests the page.
 */
bool
GjFoldFindFree(Relation index, BlockNumber *next, BlockNumber n, BufferAccessStrategy strategy)
{
	BlockNumber nblocks = GjIndexGetLength(index);
	GjIndexState state;
	GjIndexInfo info;
	BlockNumber end;

	GjIndexGetInfo(index, &info);
	GjIndexGetState(index, &state);
	*next = Max(*next, info.first_data);
	end = Min(nblocks, *next + n);
	for (; *next < end; (*next)++)
	{
		CHECK_FOR_INTERRUPTS();
		look_for_free(index, &state, *next, strategy);
	}
	if (end == nblocks)
		IndexFreeSpaceMapVacuum(index);
	return end < nblocks;
}

static BlockNumber *
reserve_freed(Freed *freed, uint64 n)
{
	BlockNumber *more;

	if (freed->n + n > freed->room)
	{
		freed->room = freed->n + n;
		if (freed->blocks == NULL)
			freed->blocks = MemoryContextAllocHuge(CurrentMemoryContext,
												   freed->room * sizeof(BlockNumber));
		else
			freed->blocks = repalloc_huge(freed->blocks, freed->room * sizeof(BlockNumber));
	}
	more = freed->blocks + freed->n;
	freed->n += n;
	return more;
}

static void
free_run(GjFold *fold, Freed *freed, const GjRun *run)
{
	BlockNumber *blocks = reserve_freed(freed, (uint64) run->data_pages + run->directory_pages);

	if (!GjRunGetBlocks(fold->index, run, blocks))
		GjReportCorruption(fold->index, run->root, "A directory has a page of something else.");
}

static void
free_delta(GjFold *fold, Freed *freed)
{
	const GjDelta *delta = &fold->state.deltas[1];
	BlockNumber *blocks;

	if (delta->run == 0)
		return;
	blocks = reserve_freed(freed, fold->ndelta_blocks);
	memcpy(blocks, fold->delta_blocks, fold->ndelta_blocks * sizeof(BlockNumber));
	blocks = reserve_freed(freed, delta->list_pages);
	GjDeltaGetLists(fold->index, delta, blocks);
}

static void
enter_freed(GjFold *fold, Freed *freed)
{
	GjProgressPhaseBegin(GJ_PROGRESS_FREEING, freed->n);
	for (uint64 i = 0; i < freed->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		GjProgressDone(i);
		RecordFreeIndexPage(fold->index, freed->blocks[i]);
	}
	IndexFreeSpaceMapVacuum(fold->index);
	if (freed->blocks != NULL)
		pfree(freed->blocks);
}
