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
 * Where pages have to come from disk, those that follow are asked for ahead (readpages.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/prefetch.h"
#include "search.h"

static void match_page(GjSearch *search, Buffer buffer, const GjChosenPage *chosen,
					   const GjPageLimits *limits, GjMatchTarget target, GjMatchStats *stats);
static Buffer read_ahead_take(GjSearch *search, int i);
static void read_ahead_from(GjSearch *search, int from);

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
	buffer = read_ahead_take(search, i);
	if (BufferIsValid(buffer))
		return buffer;
	chosen->guess->strategy = search->strategy;
	buffer = GjGuessRead(chosen->guess, chosen->block, found);
	if (pgBufferUsage.shared_blks_read != nread)
		read_ahead_from(search, i + 1);
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

/*-------------------------------------------------------------------------
 * Reading ahead
 *
 * Having the chosen pages that come next on their way from disk.
 *
 * For an index in memory that would cost a lookup a page for nothing, and what base/buffers.c
 * saves.  So it begins once a page has not been there.
 *
 * Where the server has read streams, one reads the rest of the chosen pages: neighbours together,
 * from 18 on while others are matched.  If one was needed, so will be one for the pages that are
 * chosen next, until such a stream has read nothing.  A stream pins pages ahead; all are taken from
 * it, unless the search begins anew.
 *
 * Where it has none, the operating system is asked for the pages that follow, unless they are
 * neighbours, which its own read-ahead serves.
 *-------------------------------------------------------------------------
 */

#ifdef GJ_HAVE_READ_STREAMS

static void begin_stream(GjSearch *search, int from);
static BlockNumber next_chosen(ReadStream *stream, void *arg, void *buffer_data);

/*
 * Take a chosen page from the stream; InvalidBuffer if there is none
 */
static Buffer
read_ahead_take(GjSearch *search, int i)
{
	Buffer		buffer;

	if (i == 0 && search->was_cold)
		begin_stream(search, 0);
	if (search->stream == NULL)
		return InvalidBuffer;
	buffer = read_stream_next_buffer(search->stream, NULL);
	Assert(BufferGetBlockNumber(buffer) == search->chosen[i].block);
	if (i + 1 == search->nchosen)
	{
		search->was_cold = pgBufferUsage.shared_blks_read != search->nread_before;
		GjReadAheadEnd(search);
	}
	return buffer;
}

/*
 * A page was not in shared buffers: those from here on may not be either
 */
static void
read_ahead_from(GjSearch *search, int from)
{
	if (from + 1 < search->nchosen)
		begin_stream(search, from);
}

/*
 * Give up what has been read ahead
 */
void
GjReadAheadEnd(GjSearch *search)
{
	if (search->stream != NULL)
		read_stream_end(search->stream);
	search->stream = NULL;
}

static void
begin_stream(GjSearch *search, int from)
{
	Assert(search->stream == NULL);
	search->nasked = from;
	search->nread_before = pgBufferUsage.shared_blks_read;
	search->stream = read_stream_begin_relation(GJ_READ_STREAM_OF_ALL, search->strategy,
												search->index, MAIN_FORKNUM, next_chosen, search,
												0);
}

static BlockNumber
next_chosen(ReadStream *stream, void *arg, void *buffer_data)
{
	GjSearch   *search = arg;

	return search->nasked < search->nchosen ? search->chosen[search->nasked++].block :
		InvalidBlockNumber;
}

#else

/* So many pages are asked for ahead */
#define AHEAD					32

Buffer
read_ahead_take(GjSearch *search, int i)
{
	return InvalidBuffer;
}

void
read_ahead_from(GjSearch *search, int from)
{
#ifdef USE_PREFETCH
	int			end = Min(from - 1 + AHEAD, search->nchosen);

	if (effective_io_concurrency == 0)
		return;
	from = Max(from, search->nasked);
	for (int i = from; i < end; i++)
	{
		if (search->chosen[i].block != search->chosen[i - 1].block + 1)
			(void) PrefetchBuffer(search->index, MAIN_FORKNUM, search->chosen[i].block);
	}
	search->nasked = Max(end, from);
#endif
}

void
GjReadAheadEnd(GjSearch *search)
{
}

#endif							/* GJ_HAVE_READ_STREAMS */
