/*-------------------------------------------------------------------------
 *
 * fold.c
 *	  Making a run of what has been inserted, and now and then one run of all.
 *
 * Inserted rows are in the delta, in no order: a search reads all of it.  A minor fold sorts the
 * delta's entries and writes them as a small run.  A middle fold merges them with the youngest
 * small runs, where there are five of about their size, or where no more runs can be listed: so
 * small runs remain few, and an entry is mostly written again as part of something much bigger.  A
 * major fold merges them with all runs.  What is merged loses its deleted slots.  VACUUM folds
 * when it has deleted what is dead, autovacuum's ANALYZE does, too (a table that only grows is
 * rarely vacuumed), and gpujoin_fold() on demand.
 *
 * The lock: ShareUpdateExclusiveLock on the table.  So neither another fold nor a deletion is
 * under way, CREATE INDEX CONCURRENTLY's included; queries and insertions are.
 *
 * The steps, each a WAL record of its own, or many:
 *
 *	  0. An unfinished run of a fold that did not come to its end is given up.
 *	  1. Rotate: the delta becomes the previous one, lanes open their next pages in a new one.
 *	  2. Close: each lane that still fills a page of the previous delta loses it.
 *	  3. Begin: draw the run's number, fold_run.
 *	  4. Write the run's pages, onto free pages or at the end of the file.
 *	  5. Publish: list the run, and no more the previous delta and the runs that are merged in it.
 *	  6. Enter the freed pages in the free space map.
 *
 * Why nothing is lost.  All entries that the new run shall have are on pages that nobody changes
 * from step 2 on: rows come to a delta's page through a lane that has it open, and a lane is closed
 * with its tail page locked, when no row is on its way; deletions are locked out.  Until step 5 the
 * metapage lists those pages, so they are what everybody reads, and nobody takes them for another
 * use; from step 5 on it lists the run that has the same entries.  Generic WAL makes step 5 one
 * change of one page.  An entry is in exactly one place of those that a state lists, or on a
 * tail.
 *
 * An error, a crash or a promotion after step 1 leaves a previous delta.  It is read as before,
 * and the next fold begins with it.  After step 3 it leaves fold_run and pages with its number as
 * well: nobody reads them, nobody takes them.  Step 0 of the next fold makes them free, and looks
 * through the file for them.  Numbers are never drawn twice, so that an old page is never taken
 * for one of a later run.  After step 5, what the free space map has not learned a deletion finds,
 * which reads all pages, or a major fold that wonders how little of the file is in use.
 *
 * What readers must do.  Step 5 makes pages free that a reader may be about to read, and raises
 * list_version.  A reader takes its list from one state of the metapage, after it has read the
 * tails, and looks at list_version when it has read the last page: if that has changed, it begins
 * anew (pages/read.c).  A fold moves entries towards runs only, never back; so does a flush of a
 * tail.  Hence who reads tails, then the delta, then runs, meets each entry at least once.
 *
 * Standbys replay the same records in the same order: the pages before the metapage that lists
 * them, and that before a page is used anew.  So their readers follow the same rule.
 *
 * Before a major fold writes, runs of which nothing lives any more are dropped, in a change of
 * their own, so that their pages can be used: an index of which each row is updated between two
 * VACUUMs does not need room for three times its entries.
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

#include "base/compat.h"
#include "base/step.h"
#include "mirror/mirror.h"
#include "am.h"
#include "foldparts.h"

/* VACUUM folds a delta from so many data pages on */
#define MINOR_PAGES				64

/* A call draws no more numbers, with a delta that is left over: two for runs, one for a delta */
#define FOLD_NUMBERS			3

/*
 * So many runs of about a delta's size are merged with it.  With three, entries are in bigger runs
 * sooner, and searches, which find few of them side by side there, take longer on average.
 */
#define MERGED_RUNS				5

typedef enum FoldKind
{
	FOLD_NOTHING,
	FOLD_DELTA,					/* minor or middle */
	FOLD_MAJOR
} FoldKind;

/* Blocks to be entered in the free space map */
typedef struct Freed
{
	BlockNumber *blocks;
	uint64		n;
	uint64		room;
} Freed;

static inline uint64 count_alive(const GjRun *run);
static bool has_few_numbers(const GjFold *fold);
static void forget_unfinished(GjFold *fold);
static FoldKind choose(const GjFold *fold, GjFoldMode mode);
static int	first_merged(const GjFold *fold);
static void fold_once(GjFold *fold, FoldKind kind);
static void drop_dead_runs(GjFold *fold);
static void take_delta(GjFold *fold);
static void write_run(GjFold *fold, int first, GjRun *run, BlockNumber *end);
static uint64 count_entries(const GjFold *fold, int first);
static void publish(GjFold *fold, int first, const GjRun *run, BlockNumber end);
static bool is_mostly_free(const GjFold *fold);
static void find_free_pages(GjFold *fold);
static BlockNumber *make_room(Freed *freed, uint64 n);
static void free_run(GjFold *fold, Freed *freed, const GjRun *run);
static void free_delta(GjFold *fold, Freed *freed);
static void enter_freed(GjFold *fold, Freed *freed);

/*
 * Fold an index, if it is worth it or wished
 *
 * The caller holds ShareUpdateExclusiveLock on the table.
 */
void
GjFoldIndex(Relation index, GjFoldMode mode, BufferAccessStrategy strategy, GjFoldStats *stats)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gpujoin fold",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	GjFold		fold = {.index = index, .strategy = strategy, .stats = stats};
	bool		left_over;
	FoldKind	kind;

	memset(stats, 0, sizeof(*stats));
	GjIndexGetInfo(index, &fold.info);
	GjIndexGetState(index, &fold.state);
	if (mode == GJ_FOLD_IF_WORTH_IT && has_few_numbers(&fold))
	{
		MemoryContextSwitchTo(old);
		MemoryContextDelete(context);
		return;
	}
	forget_unfinished(&fold);

	/* a delta that is left over is folded first, then perhaps the one after it */
	left_over = fold.state.deltas[1].run != 0;
	kind = choose(&fold, mode);
	if (kind != FOLD_NOTHING)
		fold_once(&fold, kind);
	if (left_over)
	{
		GjIndexGetState(index, &fold.state);
		kind = choose(&fold, mode);
		if (kind != FOLD_NOTHING)
			fold_once(&fold, kind);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/*
 * Have numbers for runs and deltas been used up, but for those of a last fold or two?  VACUUM has
 * to go on then, without an error that it would meet each time.
 */
static bool
has_few_numbers(const GjFold *fold)
{
	if (fold->state.next_run < GJ_MAX_RUN_NUMBER - FOLD_NUMBERS)
		return false;
	ereport(WARNING,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("index \"%s\" has been folded too often",
					RelationGetRelationName(fold->index)),
			 errdetail("New entries stay unsorted, and searches become slower."),
			 errhint("REINDEX it.")));
	return true;
}

/*
 * Make the pages free of a run that a fold has not published
 */
static void
forget_unfinished(GjFold *fold)
{
	if (fold->state.fold_run == 0)
		return;
	GjProgressBegin(RelationGetRelid(fold->index));
	GjFoldForget(fold->index);
	GjStep("forgotten");
	GjIndexGetState(fold->index, &fold->state);
	find_free_pages(fold);
	GjProgressEnd();
}

/*
 * Decide which fold is worth it
 *
 * A major fold rewrites all.  It waits until the small runs have as many entries as the base run,
 * or a quarter of its slots are dead: searches read these for nothing.  If it would be so with the
 * delta, that is merged as well, and need not be written twice.
 */
static FoldKind
choose(const GjFold *fold, GjFoldMode mode)
{
	const GjIndexState *state = &fold->state;
	BlockNumber delta_pages = state->deltas[0].data_pages;
	bool		left_over = state->deltas[1].run != 0;
	uint64		base = state->nruns > 0 ? state->runs[0].entries : 0;
	uint64		loose = 0;		/* entries of small runs, and four times the dead slots */
	uint64		delta;

	for (int i = 0; i < state->nruns; i++)
		loose += 4 * state->runs[i].dead + (i > 0 ? state->runs[i].entries : 0);

	if (mode == GJ_FOLD_ALL && (left_over || delta_pages > 0 || loose > 0))
		return FOLD_MAJOR;
	if (loose > base)
		return FOLD_MAJOR;
	if (!left_over && delta_pages < (mode == GJ_FOLD_IF_WORTH_IT ? MINOR_PAGES : 1))
		return FOLD_NOTHING;
	if (left_over)
		delta_pages = state->deltas[1].data_pages;
	delta = (uint64) delta_pages * fold->info.slots;
	return loose + delta > base ? FOLD_MAJOR : FOLD_DELTA;
}

static inline uint64
count_alive(const GjRun *run)
{
	return run->entries - run->dead;
}

/*
 * From which run on are all merged with the previous delta?  The base run is not.
 *
 * If the list of runs is full, one is in any case, and with it all that are not much bigger.
 * Otherwise the list would stay full, and every fold write the youngest run again.
 */
static int
first_merged(const GjFold *fold)
{
	const GjIndexState *state = &fold->state;
	uint64		size = (uint64) state->deltas[1].data_pages * fold->info.slots;
	int			first = state->nruns;
	int			least = first < GJ_MAX_RUNS ? MERGED_RUNS : 1;

	for (;;)
	{
		int			i = first;

		while (i > 1 && count_alive(&state->runs[i - 1]) <= 2 * size)
			i--;
		if (first - i < least && first < GJ_MAX_RUNS)
			return first;
		i = Min(i, first - 1);
		while (first > i)
			size += count_alive(&state->runs[--first]);
	}
}

static void
fold_once(GjFold *fold, FoldKind kind)
{
	GjRun		run;
	BlockNumber end;

	GjProgressBegin(RelationGetRelid(fold->index));
	if (kind == FOLD_MAJOR)
	{
		drop_dead_runs(fold);
		if (is_mostly_free(fold))
			find_free_pages(fold);
	}
	take_delta(fold);
	if (fold->state.deltas[1].run != 0 || (kind == FOLD_MAJOR && fold->state.nruns > 0))
	{
		int			first = kind == FOLD_MAJOR ? 0 : first_merged(fold);

		write_run(fold, first, &run, &end);
		publish(fold, first, &run, end);
		fold->stats->folds++;
	}
	GjProgressEnd();
}

/*
 * Drop the runs of which nothing lives
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

		if (run->dead < run->entries)
			alive[nalive++] = *run;
		else
			free_run(fold, &freed, run);
	}
	if (nalive == fold->state.nruns)
		return;
	GjRunsPublish(fold->index, alive, nalive, 0, false);
	GjStep("dropped");
	enter_freed(fold, &freed);
	GjIndexGetState(fold->index, &fold->state);
}

/*
 * See to it that what is to be folded is in the previous delta, and that nobody adds to it
 */
static void
take_delta(GjFold *fold)
{
	if (fold->state.deltas[1].run == 0)
	{
		if (fold->state.deltas[0].list_pages == 0)
			return;
		GjDeltaRotate(fold->index);
		GjStep("rotated");
	}
	for (int lane = 0; lane < fold->info.nlanes; lane++)
	{
		GjLaneClose(fold->index, lane);
		GjStep("closing");
	}
	GjIndexGetState(fold->index, &fold->state);
}

/*
 * Write a run of the previous delta's entries and of those of the runs from the first one on
 */
static void
write_run(GjFold *fold, int first, GjRun *run, BlockNumber *end)
{
	uint64		change;
	uint32		number = GjFoldBegin(fold->index, &change);
	GjRunWriter *writer;
	GjFoldRows	rows;
	uint64		written = 0;
	uint64		reported = 0;	/* of these, when a test was last told */

	GjStep("begun");
	writer = GjRunWriterBegin(fold->index, &fold->info, number, change, false);
	GjFoldOpenSources(fold, first);
	GjProgressPhaseBegin(GJ_PROGRESS_WRITING, count_entries(fold, first));
	GjStep("sorted");
	while (GjFoldNextRows(fold, &rows))
	{
		if (rows.words != NULL)
			GjRunWriterAddWords(writer, rows.form, rows.words, rows.n);
		else
			GjRunWriterAddSlots(writer, rows.page, rows.slot, rows.n);
		written += rows.n;
		if (written - reported > fold->info.slots)
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
 * About how many entries the run will have?  Those of the delta are counted as if its pages were
 * full.
 */
static uint64
count_entries(const GjFold *fold, int first)
{
	uint64		n = (uint64) fold->ndelta_blocks * fold->info.slots;

	for (int i = first; i < fold->state.nruns; i++)
		n += count_alive(&fold->state.runs[i]);
	return n;
}

/*
 * Publish the run, and make free what it replaces
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
	GjRunsPublish(fold->index, runs, nruns, end, true);
	GjStep("published");
	enter_freed(fold, &freed);
}

/* Pages that are free, or become so ------------------------------------------------- */

/*
 * Is so much of the file free that it should have been used, had the free space map known?
 *
 * It does not after a crash.
 */
static bool
is_mostly_free(const GjFold *fold)
{
	BlockNumber length = GjIndexGetLength(fold->index);
	uint64		pages = length - fold->info.first_data;
	uint64		nfree = GjListsCountFree(&fold->state, &fold->info, length);

	return nfree > 2 * (pages - nfree);
}

/*
 * Look through the file for pages that are free, and enter them in the free space map
 */
static void
find_free_pages(GjFold *fold)
{
	BlockNumber nblocks = GjIndexGetLength(fold->index);

	GjProgressPhaseBegin(GJ_PROGRESS_LOOKING, nblocks - fold->info.first_data);
	for (BlockNumber block = fold->info.first_data; block < nblocks; block++)
	{
		Buffer		buffer;
		Page		page;
		GjPageOwner owner;

		GjVacuumDelayPoint();
		GjProgressDone(block - fold->info.first_data);
		buffer = ReadBufferExtended(fold->index, MAIN_FORKNUM, block, RBM_NORMAL, fold->strategy);
		page = BufferGetPage(buffer);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		if (!GjPageIsUnused(page))
			(void) GjPageCheckKind(fold->index, buffer);
		owner = GjPageGetOwner(&fold->state, page);
		UnlockReleaseBuffer(buffer);
		if (owner == GJ_OWNER_NOBODY)
			RecordFreeIndexPage(fold->index, block);
	}
	IndexFreeSpaceMapVacuum(fold->index);
}

static BlockNumber *
make_room(Freed *freed, uint64 n)
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
	BlockNumber *blocks = make_room(freed, (uint64) run->data_pages + run->directory_pages);

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
	blocks = make_room(freed, fold->ndelta_blocks);
	memcpy(blocks, fold->delta_blocks, fold->ndelta_blocks * sizeof(BlockNumber));
	blocks = make_room(freed, delta->list_pages);
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
