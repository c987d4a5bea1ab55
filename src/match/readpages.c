/*-------------------------------------------------------------------------
 *
 * readpages.c
 *	  Reading data pages whose numbers are known.
 *
 * A page is matched in place under its share lock, for half a microsecond at most: copying it
 * first would take longer.  No page is locked while another one is.  The next page is pinned
 * meanwhile, and what will be looked at first is on its way into the cache: a quarter of the
 * time.  Where pages lie in consecutive buffers, the buffer table is not asked
 * (base/buffers.c).
 *
 * Where pages have to come from disk, those that follow are asked for ahead (readahead.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/prefetch.h"
#include "search.h"

static void match_page(GjSearch *search, Buffer buffer, const GjChosenPage *chosen,
					   const GjPageLimits *limits, GjMatchTarget target, GjMatchStats *stats);

/*
 * Read the chosen pages; false if one of them is not any more what the state says
 *
 * Then what was found is to be forgotten.  If it is true, that is still to be confirmed by
 * GjListsMoved().
 */
bool
GjReadChosen(GjSearch *search, const GjPageLimits *limits, GjMatchTarget target,
			 GjMatchStats *stats)
{
	Buffer		next = search->nchosen > 0 ?
		GjReadChosenPage(search, 0, InvalidBuffer) : InvalidBuffer;
	Buffer		found = InvalidBuffer;	/* where the next page but one probably is */

	for (int i = 0; i < search->nchosen; i++)
	{
		const GjChosenPage *chosen = &search->chosen[i];
		Buffer		buffer = next;

		CHECK_FOR_INTERRUPTS();
		if (i + 1 < search->nchosen)
		{
			const GjChosenPage *following = chosen + 1;

			next = GjReadChosenPage(search, i + 1, found);
			found = i + 2 < search->nchosen ?
				GjGuessFind(chosen[2].guess, chosen[2].block) : InvalidBuffer;
			if (GjHasFewKeys(search->keys, following))
				GjPrefetchSorted(BufferGetPage(next), search->info, search->keys, following,
								 target);
			else
				GjPrefetchKeys(BufferGetPage(next), search->info);
		}

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		if (!GjIsListed(search, buffer, chosen))
		{
			UnlockReleaseBuffer(buffer);
			if (i + 1 < search->nchosen)
				ReleaseBuffer(next);
			GjReadAheadEnd(search);
			if (GjListsMoved(search->index, &search->state))
				return false;
			GjReportCorruption(search->index, chosen->block,
							   "The page is not of the run or list that it is in.");
		}
		match_page(search, buffer, chosen, limits, target, stats);
		UnlockReleaseBuffer(buffer);
	}
	search->nread += search->nchosen;
	return true;
}

/*
 * Pin a chosen page
 *
 * As scans of a heap do, one that has read many pages uses few buffers from then on: it must not
 * drive all else out of shared buffers.
 */
Buffer
GjReadChosenPage(GjSearch *search, int i, Buffer found)
{
	const GjChosenPage *chosen = &search->chosen[i];
	int64		nread = pgBufferUsage.shared_blks_read;
	Buffer		buffer;

	if (search->strategy == NULL && search->nread > NBuffers / 4 &&
		!RelationUsesLocalBuffers(search->index))
		search->strategy = GetAccessStrategy(BAS_BULKREAD);
	buffer = GjReadAheadTake(search, i);
	if (BufferIsValid(buffer))
		return buffer;
	chosen->guess->strategy = search->strategy;
	buffer = GjGuessRead(chosen->guess, chosen->block, found);
	if (pgBufferUsage.shared_blks_read != nread)
		GjReadAheadFrom(search, i + 1);
	return buffer;
}

/*
 * Is a locked page of the run, or of a delta, that it should be of?
 */
bool
GjIsListed(const GjSearch *search, Buffer buffer, const GjChosenPage *chosen)
{
	Page		page = BufferGetPage(buffer);

	if (GjPageIsUnused(page) || GjPageCheckKind(search->index, buffer) != GJ_PAGE_DATA)
		return false;
	if (chosen->run != 0)
		return GjPageGetOpaque(page)->run == chosen->run;
	return GjPageGetOwner(&search->state, page) == GJ_OWNER_DELTA;
}

static void
match_page(GjSearch *search, Buffer buffer, const GjChosenPage *chosen,
		   const GjPageLimits *limits, GjMatchTarget target, GjMatchStats *stats)
{
	Page		page = BufferGetPage(buffer);
	GjPageLimits some = *limits;
	bool		possible;

	stats->pages++;
	stats->entries += GjPageGetOpaque(page)->used;
	stats->run_pages_read++;
	some.bounded = GjPlaceIsBefore(&chosen->first, &limits->from) ||
		GjPlaceIsBefore(&limits->end, &chosen->next);
	if (some.bounded || !GjHasFewKeys(search->keys, chosen))
		possible = GjMatchPage(page, search->info, search->keys, &some, NULL, target, stats);
	else
		possible = GjMatchSorted(page, search->info, search->keys, chosen, target, stats);
	if (!possible)
		GjReportCorruption(search->index, chosen->block, "An entry has an impossible TID.");
}

/*
 * Search the blocks from start to before end for entries of runs and deltas, whichever they are of
 */
void
GjSearchBlocks(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
			   const GjIndexState *state, BlockNumber start, BlockNumber end,
			   GjMatchTarget target, GjMatchStats *stats)
{
	for (BlockNumber block = start; block < end; block++)
	{
		Buffer		buffer = ReadBuffer(index, block);
		Page		page = BufferGetPage(buffer);

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		if (!GjPageIsUnused(page) && GjPageCheckKind(index, buffer) == GJ_PAGE_DATA)
		{
			GjPageOwner owner = GjPageGetOwner(state, page);

			stats->entries += GjPageGetOpaque(page)->used;
			if ((owner == GJ_OWNER_RUN || owner == GJ_OWNER_DELTA) &&
				!GjMatchPage(page, info, keys, NULL, NULL, target, stats))
				GjReportCorruption(index, block, "An entry has an impossible TID.");
		}
		stats->pages++;
		UnlockReleaseBuffer(buffer);
	}
}
