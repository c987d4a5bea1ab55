/*-------------------------------------------------------------------------
 *
 * readpages.c
 *	  Reading data pages whose numbers are known.
 *
 * A page is matched in place under its share lock, for half a microsecond at most: copying it
 * first would take longer.  No page is locked while another one is.  Meanwhile the next page is
 * pinned, and the memory that will be read first is prefetched, which saves a quarter of the
 * time.  If pages are in consecutive buffers, the buffer table is not searched
 * (base/buffers.c).
 *
 * If pages must be read from disk, the following ones are read ahead ("Reading ahead" below).
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
 * Read the chosen pages of runs.  Returns false if one of them does not belong to its run any
 * longer; the caller must then forget the hits.
 *
 * If the result is true, the caller must still check GjListsMoved() before it trusts the hits.
 */
bool
GjReadChosen(GjSearch *search, const GjPageLimits *limits, GjMatchTarget target,
			 GjMatchStats *stats)
{
	Buffer		next = search->nchosen > 0 ?
		GjReadChosenPage(search, 0, InvalidBuffer) : InvalidBuffer;
	Buffer		found = InvalidBuffer;	/* probable buffer of the next page but one */

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
 * Like a scan of a heap, a search that has read many pages uses a small ring of buffers from then
 * on, so that it does not evict everything else from shared buffers.
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
 * Return true if a locked page belongs to the run, or to a delta, for which it was chosen
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
 * Search the blocks from start to before end for entries of any run or delta
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
 * Read the next chosen pages from disk ahead of their use.
 *
 * For an index in memory that would waste a lookup per page, and lose the savings of
 * base/buffers.c.  So it begins once a page was not in shared buffers.
 *
 * If the server has read streams, a stream reads the rest of the chosen pages: adjacent pages
 * together, and from version 18 on while others are matched.  If a search needed a stream, it
 * starts one for the pages that are chosen next, too, until a stream has read no page from disk.
 * A stream pins pages ahead; the search takes all of them, unless it starts over.
 *
 * Otherwise, we ask the operating system to prefetch the following pages, except adjacent ones,
 * which its own read-ahead covers.
 *-------------------------------------------------------------------------
 */

#ifdef GJ_HAVE_READ_STREAMS

static void begin_stream(GjSearch *search, int from);
static BlockNumber next_chosen(ReadStream *stream, void *arg, void *buffer_data);

/*
 * Take a chosen page from the stream; returns InvalidBuffer if no stream is open
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
 * Begin to read ahead, since a page was not in shared buffers, and the following ones may not be
 * either
 */
static void
read_ahead_from(GjSearch *search, int from)
{
	if (from + 1 < search->nchosen)
		begin_stream(search, from);
}

/*
 * Give up the pages that have been read ahead
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

/* Number of pages to prefetch */
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
