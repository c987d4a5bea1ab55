/*-------------------------------------------------------------------------
 *
 * vacuum.c
 *	  Deleting the entries of dead tuples.
 *
 * Every entry that was in the index when the deletion began must be shown to the
 * callback, or a heap tuple's place would be used again while an entry still points
 * at it.  Entries move once in their life, from a tail page to a data page.  So tail
 * pages come first, and only then the number of blocks is read: an entry that left
 * its tail before we looked there stands on a data page below that number, and what
 * a data page holds stays there.  Entries made later than that are of tuples made
 * later, which this VACUUM does not remove.
 *
 * Only one deletion runs at a time (VACUUM and CREATE INDEX CONCURRENTLY both take
 * ShareUpdateExclusiveLock on the table), and only a deletion frees slots.  So a
 * slot seen used under a share lock still holds the same entry when the page is
 * locked exclusively, and the callback runs without any lock.
 *
 * Slots are freed in place.  Data pages with at least a sixteenth of their slots free go into
 * the free space map, which is a hint: who takes a page from it looks again, with the page
 * locked (insert.c).  Ten rounds of updating every row with a VACUUM after each leave an index of
 * twice its fresh size: the new versions of one round need room beside the old ones.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "storage/freespace.h"
#include "storage/indexfsm.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "am.h"

typedef struct GjVacuumState
{
	IndexVacuumInfo *vacuum;
	GjIndexInfo info;
	IndexBulkDeleteResult *stats;
	IndexBulkDeleteCallback callback;
	void	   *callback_state;
} GjVacuumState;

static void clean_tail(GjVacuumState *state, BlockNumber block);
static void clean_data(GjVacuumState *state, BlockNumber block);
static int	find_dead(GjVacuumState *state, Page page, uint32 *dead);
static void note_free_space(GjVacuumState *state, Buffer buffer);

/*
 * Delete the entries whose TIDs the callback wants gone
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

	/* what is counted here is of this pass alone, but for what was removed */
	stats->num_index_tuples = 0;
	stats->pages_newly_deleted = 0;
	stats->pages_free = 0;

	for (int lane = 0; lane < state.info.nlanes; lane++)
		clean_tail(&state, GJ_FIRST_TAIL_BLOCK + lane);

	nblocks = GjIndexGetLength(info->index);
	for (BlockNumber block = state.info.first_data; block < nblocks; block++)
	{
		GjVacuumDelayPoint();
		clean_data(&state, block);
	}

	/* before the caller may make the dead tuples' places free: exec/entryvisible.c */
	GjEpochRaise(info->index);

	stats->num_pages = nblocks;
	return stats;
}

/*
 * Finish a VACUUM
 */
IndexBulkDeleteResult *
gjvacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	/* no deletion, no news: the table's own count of tuples is better than ours */
	if (info->analyze_only || stats == NULL)
		return stats;

	IndexFreeSpaceMapVacuum(info->index);
	return stats;
}

/*
 * Delete from a tail page
 *
 * The callback runs under the page lock here, because rows may leave a tail at any
 * other time; there are only a few dozen.
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
		if (state->callback(&tid, state->callback_state))
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
 * Delete from a data page
 */
static void
clean_data(GjVacuumState *state, BlockNumber block)
{
	Relation	index = state->vacuum->index;
	Buffer		buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL,
											state->vacuum->strategy);
	PGAlignedBlock copy;
	uint32		dead[GJ_MAX_WORDS] = {0};

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!GjPageIsUnused(BufferGetPage(buffer)))
		GjPageCheck(index, buffer, GJ_PAGE_DATA);
	memcpy(copy.data, BufferGetPage(buffer), BLCKSZ);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);

	if (!GjPageIsUnused((Page) copy.data))
	{
		int			ndead = find_dead(state, (Page) copy.data, dead);

		if (ndead > 0)
		{
			LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
			GjDataDelete(index, &state->info, buffer, dead);
			LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		}
		state->stats->tuples_removed += ndead;
		state->stats->num_index_tuples +=
			GjPageGetOpaque((Page) copy.data)->used - ndead;
	}
	note_free_space(state, buffer);
	ReleaseBuffer(buffer);
}

/*
 * Ask the callback about each entry of a page copy; returns how many are dead
 */
static int
find_dead(GjVacuumState *state, Page page, uint32 *dead)
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
			if (state->callback(&tids[word * GJ_SLOTS_PER_WORD + bit],
								state->callback_state))
			{
				dead[word] |= (uint32) 1 << bit;
				ndead++;
			}
		}
	}
	return ndead;
}

/*
 * Enter a page with enough free slots into the free space map
 */
static void
note_free_space(GjVacuumState *state, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	int			nfree = 0;
	bool		is_open = false;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (GjPageIsUnused(page))
		nfree = state->info.slots;
	else
	{
		nfree = state->info.slots - GjPageGetOpaque(page)->used;
		is_open = (GjPageGetOpaque(page)->flags & GJ_PAGE_OPEN) != 0;
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);

	if (is_open)
		return;
	if (nfree == state->info.slots)
		state->stats->pages_free++;
	if (nfree >= GjReusableSlots(&state->info))
		RecordPageWithFreeSpace(state->vacuum->index, BufferGetBlockNumber(buffer),
								GjSlotsToSpace(&state->info, nfree));
}
