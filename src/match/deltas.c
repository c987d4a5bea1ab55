/*-------------------------------------------------------------------------
 *
 * deltas.c
 *	  Reading the pages of deltas, all of which a search looks at.
 *
 * What a page takes is not work but memory: its keys, which are known to be needed as soon as it
 * is pinned, and then what else its hits consist of, which is known when the keys have been looked
 * up.  So each page goes through three steps, and three pages are on their way at a time:
 *
 *	  pin	and have the keys on their way,
 *	  look	which slots have a hit, and have these on their way,
 *	  take	the hits.
 *
 * A page is locked to look, and again to take.  No page is locked while another one is.  Between
 * the two, rows may come to it, VACUUM may delete some, or a fold may be published and somebody
 * take the page for another use.  Each of these gives the page another change counter.  If it is
 * the same, so is the page, and what was seen on it still is there; else it is looked at again
 * under the second lock, as if it had not been before.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "search.h"

/* A step is so many pages ahead of the last one */
#define PINNED_AHEAD			2
#define LOOKED_AHEAD			1

/* A page on its way */
typedef struct DeltaPage
{
	Buffer		buffer;
	uint64		change;			/* the page's change counter when it was looked at, */
	GjPlace		end;			/* and where hits ended that were wanted */
	uint32		nhits;
	uint32		hits[GJ_MAX_WORDS];
} DeltaPage;

typedef struct DeltaReader
{
	GjSearch   *search;
	const GjPageLimits *limits;
	GjMatchTarget target;
	GjMatchStats *stats;
	DeltaPage	pages[PINNED_AHEAD + 1];	/* a ring */
	Buffer		found;			/* where the page to be pinned next probably is */
	int			npinned;		/* of the chosen pages, so many have gone through a step */
	int			nlooked;
	int			ntaken;
	int			lost;			/* the one that is not of a delta any more */
} DeltaReader;

static bool go_through(DeltaReader *reader);
static void pin_page(DeltaReader *reader);
static bool look_at(DeltaReader *reader);
static bool find_hits(DeltaReader *reader, int i);
static uint32 find_wanted(DeltaReader *reader, Page page, DeltaPage *to);
static bool take_from(DeltaReader *reader);

static inline DeltaPage *
page_of(DeltaReader *reader, int i)
{
	return &reader->pages[i % lengthof(reader->pages)];
}

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
	DeltaReader reader;

	reader.search = search;
	reader.limits = limits;
	reader.target = target;
	reader.stats = stats;
	reader.found = InvalidBuffer;
	reader.npinned = reader.nlooked = reader.ntaken = 0;

	if (go_through(&reader))
	{
		search->nread += search->nchosen;
		return true;
	}
	for (int i = reader.ntaken; i < reader.npinned; i++)
		ReleaseBuffer(page_of(&reader, i)->buffer);
	GjReadAheadEnd(search);
	if (!GjListsMoved(search->index, &search->state))
		GjReportCorruption(search->index, search->chosen[reader.lost].block,
						   "The page is not of the run or list that it is in.");
	return false;
}

/*
 * Take all pages through all steps; false if one is not of a delta any more
 */
static bool
go_through(DeltaReader *reader)
{
	int			n = reader->search->nchosen;

	for (; reader->ntaken < n; reader->ntaken++)
	{
		CHECK_FOR_INTERRUPTS();
		while (reader->npinned < Min(reader->ntaken + PINNED_AHEAD + 1, n))
			pin_page(reader);
		while (reader->nlooked < Min(reader->ntaken + LOOKED_AHEAD + 1, n))
		{
			if (!look_at(reader))
				return false;
		}
		if (!take_from(reader))
			return false;
	}
	return true;
}

static void
pin_page(DeltaReader *reader)
{
	GjSearch   *search = reader->search;
	int			i = reader->npinned++;
	Buffer		buffer = GjReadChosenPage(search, i, reader->found);

	page_of(reader, i)->buffer = buffer;
	GjPrefetchKeys(BufferGetPage(buffer), search->info);
	reader->found = InvalidBuffer;
	if (i + 1 < search->nchosen)
		reader->found = GjGuessFind(search->chosen[i + 1].guess, search->chosen[i + 1].block);
}

/*
 * Find the hits of the next page, and have them on their way
 */
static bool
look_at(DeltaReader *reader)
{
	GjMatchStats *stats = reader->stats;
	DeltaPage  *page = page_of(reader, reader->nlooked);
	bool		listed;

	LockBuffer(page->buffer, BUFFER_LOCK_SHARE);
	listed = find_hits(reader, reader->nlooked);
	if (listed)
	{
		stats->pages++;
		stats->delta_pages++;
		stats->entries += GjPageGetOpaque(BufferGetPage(page->buffer))->used;
		if (page->nhits > 0)
			GjPrefetchHits(BufferGetPage(page->buffer), reader->search->info, page->hits,
						   reader->target);
	}
	LockBuffer(page->buffer, BUFFER_LOCK_UNLOCK);
	reader->nlooked++;
	return listed;
}

/*
 * Find the hits of a locked page; false if it is not of a delta any more
 */
static bool
find_hits(DeltaReader *reader, int i)
{
	GjSearch   *search = reader->search;
	DeltaPage  *to = page_of(reader, i);
	Page		page = BufferGetPage(to->buffer);

	if (!GjIsListed(search, to->buffer, &search->chosen[i]))
	{
		reader->lost = i;
		return false;
	}
	to->change = GjPageGetOpaque(page)->change;
	to->end = search->hits_end;
	to->nhits = find_wanted(reader, page, to);
	return true;
}

/*
 * Which of its entries are wanted?  Some may have come from tail pages after these were searched.
 */
static uint32
find_wanted(DeltaReader *reader, Page page, DeltaPage *to)
{
	GjSearch   *search = reader->search;
	GjPageOpaque opaque = GjPageGetOpaque(page);
	GjPageLimits limits = *reader->limits;

	limits.end = to->end;
	if (opaque->max_key < limits.from.key || opaque->min_key > limits.end.key)
		return 0;
	limits.bounded = opaque->min_key <= limits.from.key || opaque->max_key >= limits.end.key;
	if (opaque->change <= search->tails.sequence)
		limits.known = NULL;
	return GjFindHits(page, search->info, search->keys, &limits, to->hits);
}

/*
 * Take the next page's hits
 */
static bool
take_from(DeltaReader *reader)
{
	GjSearch   *search = reader->search;
	int			i = reader->ntaken;
	DeltaPage  *from = page_of(reader, i);
	Page		page = BufferGetPage(from->buffer);
	bool		possible = true;

	/* what has come to the page since it was looked at need not be found: search.c */
	if (from->nhits > 0)
	{
		LockBuffer(from->buffer, BUFFER_LOCK_SHARE);
		if ((GjPageGetOpaque(page)->change != from->change ||
			 GjPlaceIsBefore(&search->hits_end, &from->end)) && !find_hits(reader, i))
		{
			LockBuffer(from->buffer, BUFFER_LOCK_UNLOCK);
			return false;
		}
		if (from->nhits > 0)
			possible = GjTakeHits(page, search->info, from->hits, from->nhits, reader->target,
								  reader->stats);
		LockBuffer(from->buffer, BUFFER_LOCK_UNLOCK);
	}
	ReleaseBuffer(from->buffer);
	if (!possible)
		GjReportCorruption(search->index, search->chosen[i].block,
						   "An entry has an impossible TID.");
	if (reader->target.entries != NULL)
		GjSearchLimitHits(search);
	return true;
}
