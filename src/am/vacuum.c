/*-------------------------------------------------------------------------
 *
 * vacuum.c
 *	  Deleting the entries of dead tuples.
 *
 * Every entry that was in the index when the deletion began must be shown to the callback:
 * lemma L5 of src/README, which index-only answers rely on, and VACUUM itself require that no
 * entry points to a line pointer that becomes free.  The order is that of lemma L2: the tail
 * pages, then the state of the metapage and the number of blocks, then the data pages below that
 * number, of the runs and deltas that the state lists.  The list version need not be compared,
 * because only one deletion or fold runs at a time: a deletion waits for the fold lock (am.h), and
 * holds it from before it reads the tails until it has raised the epoch.  Entries added later
 * belong to tuples inserted later, which this VACUUM does not remove.  Because flushes wait
 * meanwhile, the deletion does not sleep, as the limits of VACUUM's cost demand, until it has
 * released the lock.
 *
 * Pages are read in file order.  Pages of dead runs are skipped, and so are those of a run that a
 * fold has left unfinished: its entries are elsewhere, too.  The pages of a merge in steps are
 * visited like the listed ones, before the epoch is raised: its entries are elsewhere, too, but the
 * merge continues, and lists these pages in the end.  A page that is reused after we have passed it
 * only receives rows that we have seen on a tail, or newer ones.
 *
 * Only a deletion removes entries from a live page.  So a slot that was in use under a share lock
 * still holds the same entry when the page is locked exclusively, and the callback runs without
 * any lock.
 *
 * Freed slots stay free, except on a page that a lane still fills; a fold drops them.  Free pages
 * are entered in the free space map, which is a hint: a backend that takes a page from it checks
 * again, with the page locked.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "storage/indexfsm.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/step.h"
#include "base/tid.h"
#include "am.h"

typedef struct GjVacuumState
{
	IndexVacuumInfo *vacuum;
	GjIndexInfo info;
	GjIndexState now;			/* state after the tails were read */
	IndexBulkDeleteResult *stats;
	IndexBulkDeleteCallback callback;
	void	   *callback_state;
} GjVacuumState;

static void clean_tail(GjVacuumState *state, BlockNumber block);
static void clean_data(GjVacuumState *state, BlockNumber block);
static int	find_dead(GjVacuumState *state, BlockNumber block, Page page, uint32 *dead);
static bool is_dead(const GjVacuumState *state, BlockNumber block, ItemPointerData *tid);
static void delete_dead(GjVacuumState *state, Buffer buffer, Page copy, GjPageOwner owner);

/*
 * Delete the entries whose TIDs the callback reports as dead
 */
IndexBulkDeleteResult *
gjbulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
			 IndexBulkDeleteCallback callback, void *callback_state)
{
	GjVacuumState state;
	BlockNumber nblocks;

	if (stats == NULL)
		stats = palloc0(sizeof(IndexBulkDeleteResult));
	state.vacuum = info;
	state.stats = stats;
	state.callback = callback;
	state.callback_state = callback_state;
	GjIndexGetInfo(info->index, &state.info);

	/* these counters are per pass, except for the number of removed tuples */
	stats->num_index_tuples = 0;
	stats->pages_newly_deleted = 0;
	stats->pages_free = 0;

	GjFoldLock(info->index);
	for (int lane = 0; lane < state.info.nlanes; lane++)
		clean_tail(&state, GJ_FIRST_TAIL_BLOCK + lane);
	GjStep("tails cleaned");

	GjIndexGetState(info->index, &state.now);
	nblocks = GjIndexGetLength(info->index);
	for (BlockNumber block = state.info.first_data; block < nblocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		clean_data(&state, block);
	}

	GjStep("cleaned");
	/* do this before the caller can free the dead tuples' line pointers: match/visible.c */
	GjEpochRaise(info->index);
	GjFoldUnlock(info->index);
	GjVacuumSleep();

	stats->num_pages = nblocks;
	return stats;
}

/*
 * Make the pauses that the cost of VACUUM's work demands, after work under the fold lock, during
 * which it did not sleep: vacuum_delay_point() sleeps for a part of a large cost only
 */
void
GjVacuumSleep(void)
{
	int			cost = VacuumCostBalance;

	while (VacuumCostActive && cost > 0)
	{
		VacuumCostBalance = Min(cost, Max(GjVacuumCostLimit, 1));
		cost -= VacuumCostBalance;
		GjVacuumDelayPoint();
	}
}

/*
 * Finish a VACUUM or an ANALYZE: fold if it is worthwhile and no other process does
 *
 * A manual ANALYZE should compute statistics and nothing else; autovacuum has the time, and it
 * rarely vacuums a table that only grows.
 */
IndexBulkDeleteResult *
gjvacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	GjFoldStats fold;

	if (info->analyze_only && MyBackendType != B_AUTOVAC_WORKER)
		return stats;

	GjFoldIndex(info->index, GJ_FOLD_IF_WORTH_IT, info->strategy, &fold);
	if (fold.folds > 0)
		ereport(info->message_level,
				(errmsg("index \"%s\": folded " UINT64_FORMAT " entries into " UINT64_FORMAT
						" pages", RelationGetRelationName(info->index), fold.entries,
						fold.pages)));

	/* without a deletion, the table's own tuple count is better than ours */
	if (stats == NULL)
		return NULL;
	GjStep("vacuumed");
	stats->num_pages = RelationGetNumberOfBlocks(info->index);
	IndexFreeSpaceMapVacuum(info->index);
	return stats;
}

/*
 * Delete from a tail page
 *
 * Here the callback runs under the page lock, because rows may leave a tail at any other time;
 * there are only a few dozen.
 */
static void
clean_tail(GjVacuumState *state, BlockNumber block)
{
	Relation	index = state->vacuum->index;
	Buffer		tail = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL,
										  state->vacuum->strategy);
	Page		page = BufferGetPage(tail);
	uint32		dead[GJ_MAX_WORDS] = {0};
	int			ndead = 0;
	int			nrows;

	LockBuffer(tail, BUFFER_LOCK_EXCLUSIVE);
	GjPageCheck(index, tail, GJ_PAGE_TAIL);
	nrows = GjPageGetOpaque(page)->used;
	for (int row = 0; row < nrows; row++)
	{
		ItemPointerData tid;

		(void) GjTailGetRow(page, &state->info, row, &tid);
		if (is_dead(state, block, &tid))
		{
			dead[row / GJ_SLOTS_PER_WORD] |= (uint32) 1 << (row % GJ_SLOTS_PER_WORD);
			ndead++;
		}
	}
	if (ndead > 0)
		GjTailDelete(index, &state->info, tail, dead);
	UnlockReleaseBuffer(tail);

	state->stats->tuples_removed += ndead;
	state->stats->num_index_tuples += nrows - ndead;
}

/*
 * Delete from a page of any kind
 */
static void
clean_data(GjVacuumState *state, BlockNumber block)
{
	Relation	index = state->vacuum->index;
	Buffer		buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL,
											state->vacuum->strategy);
	Page		page = BufferGetPage(buffer);
	GjPageKind	kind = 0;
	GjPageOwner owner;
	PGAlignedBlock copy;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!GjPageIsUnused(page))
		kind = GjPageCheckKind(index, buffer);
	owner = GjPageGetOwner(&state->now, page);
	if (kind == GJ_PAGE_DATA)
		memcpy(copy.data, page, BLCKSZ);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);

	if (owner == GJ_OWNER_NOBODY)
	{
		RecordFreeIndexPage(index, block);
		GjStep("freed");
		state->stats->pages_free++;
	}
	else if (owner != GJ_OWNER_FOLD && kind == GJ_PAGE_DATA)
		delete_dead(state, buffer, (Page) copy.data, owner);
	ReleaseBuffer(buffer);
}

/*
 * Delete from a data page.  Entries on pages that a merge has written are in its sources, too,
 * which the statistics count.
 */
static void
delete_dead(GjVacuumState *state, Buffer buffer, Page copy, GjPageOwner owner)
{
	uint32		dead[GJ_MAX_WORDS] = {0};
	int			ndead = find_dead(state, BufferGetBlockNumber(buffer), copy, dead);

	if (ndead > 0)
	{
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		if (owner == GJ_OWNER_MERGE)
			GjMergeDelete(state->vacuum->index, &state->info, buffer, dead);
		else
			GjDataDelete(state->vacuum->index, &state->info, buffer, dead);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	}
	if (owner == GJ_OWNER_MERGE)
		return;
	state->stats->tuples_removed += ndead;
	state->stats->num_index_tuples += GjPageGetOpaque(copy)->used - ndead;
}

/*
 * Call the callback for each entry of a page copy.  Returns the number of dead ones.
 */
static int
find_dead(GjVacuumState *state, BlockNumber block, Page page, uint32 *dead)
{
	uint32	   *used = GjDataUsed(page, &state->info);
	ItemPointerData *tids = GjDataTids(page, &state->info);
	int			ndead = 0;

	for (int word = 0; word < state->info.words; word++)
	{
		uint32		rest = used[word];

		while (rest != 0)
		{
			int			bit = pg_rightmost_one_pos32(rest);

			rest &= rest - 1;
			if (is_dead(state, block, &tids[word * GJ_SLOTS_PER_WORD + bit]))
			{
				dead[word] |= (uint32) 1 << bit;
				ndead++;
			}
		}
	}
	return ndead;
}

/*
 * Call the callback for one entry.  It must not be called for TIDs that no heap can have.
 */
static bool
is_dead(const GjVacuumState *state, BlockNumber block, ItemPointerData *tid)
{
	if (!GjTidIsPossible(tid))
		GjReportCorruption(state->vacuum->index, block, "An entry has an impossible TID.");
	return state->callback(tid, state->callback_state);
}
