/*-------------------------------------------------------------------------
 *
 * deltas.c
 *	  Reading the pages of deltas, all of which a search looks at.
 *
 * What a page takes is not so much work as memory, so that is asked for ahead, a little at a time
 * (sets/kernels.c): the next page's ends as soon as it is pinned, its keys while those of this page
 * are looked up, and what hits consist of while others are found (pagematch.c).  No page is locked
 * while another one is.
 *
 * Pages with 14 hits each, of which 42 lines were read, took 0.7 us, 0.4 of which that memory takes
 * without any work.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "search.h"

static Buffer pin_page(GjSearch *search, int i, Buffer *found);
static bool read_page(GjSearch *search, int i, Buffer buffer, Buffer next,
					  const GjPageLimits *limits, GjMatchTarget target, GjMatchStats *stats);
static bool match_page(GjSearch *search, Page page, Buffer next, const GjPageLimits *limits,
					   GjMatchTarget target, GjMatchStats *stats);

/*
 * Read the chosen pages, which are of deltas; false if one of them is not any more
 *
 * Then what was found is to be forgotten.  If it is true, that is still to be confirmed by
 * GjListsMoved().
 */
bool
GjReadDeltas(GjSearch *search, const GjPageLimits *limits, GjMatchTarget target,
			 GjMatchStats *stats)
{
	Buffer		found = InvalidBuffer;	/* where the page to be pinned next probably is */
	Buffer		next = search->nchosen > 0 ? pin_page(search, 0, &found) : InvalidBuffer;

	for (int i = 0; i < search->nchosen; i++)
	{
		Buffer		buffer = next;
		bool		listed;

		CHECK_FOR_INTERRUPTS();
		next = i + 1 < search->nchosen ? pin_page(search, i + 1, &found) : InvalidBuffer;
		listed = read_page(search, i, buffer, next, limits, target, stats);
		ReleaseBuffer(buffer);
		if (listed)
			continue;

		if (BufferIsValid(next))
			ReleaseBuffer(next);
		GjReadAheadEnd(search);
		if (!GjListsMoved(search->index, &search->state))
			GjReportCorruption(search->index, search->chosen[i].block,
							   "The page is not of the run or list that it is in.");
		return false;
	}
	search->nread += search->nchosen;
	return true;
}

static Buffer
pin_page(GjSearch *search, int i, Buffer *found)
{
	Buffer		buffer = GjReadChosenPage(search, i, *found);

	GjPrefetchEnds(BufferGetPage(buffer));
	*found = InvalidBuffer;
	if (i + 1 < search->nchosen)
		*found = GjGuessFind(search->chosen[i + 1].guess, search->chosen[i + 1].block);
	return buffer;
}

/*
 * Take a page's hits; false if it is not of a delta any more
 */
static bool
read_page(GjSearch *search, int i, Buffer buffer, Buffer next, const GjPageLimits *limits,
		  GjMatchTarget target, GjMatchStats *stats)
{
	Page		page = BufferGetPage(buffer);
	bool		possible = true;
	bool		listed;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	listed = GjIsListed(search, buffer, &search->chosen[i]);
	if (listed)
	{
		stats->pages++;
		stats->delta_pages++;
		stats->entries += GjPageGetOpaque(page)->used;
		possible = match_page(search, page, next, limits, target, stats);
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);

	if (!possible)
		GjReportCorruption(search->index, search->chosen[i].block,
						   "An entry has an impossible TID.");
	if (target.entries != NULL)
		GjSearchSpillHits(search);
	return listed;
}

/*
 * Which of its entries are wanted?  Some may have come from tail pages after these were searched.
 */
static bool
match_page(GjSearch *search, Page page, Buffer next, const GjPageLimits *limits,
		   GjMatchTarget target, GjMatchStats *stats)
{
	GjPageOpaque opaque = GjPageGetOpaque(page);
	GjPageLimits some = *limits;

	if (opaque->max_key < some.from.key || opaque->min_key > some.end.key)
		return true;
	some.bounded = opaque->min_key <= some.from.key || opaque->max_key >= some.end.key;
	if (opaque->change <= search->tails.sequence)
		some.known = NULL;
	return GjMatchPage(page, search->info, search->keys, &some,
					   BufferIsValid(next) ? BufferGetPage(next) : NULL, target, stats);
}
