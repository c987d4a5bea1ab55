/*-------------------------------------------------------------------------
 *
 * search.h
 *	  The state of the CPU's search; for search.c and its steps only: runs.c, search.c,
 *	  readpages.c, hits.c.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MATCH_SEARCH_H
#define GPUJOIN_MATCH_SEARCH_H

#include "base/buffers.h"
#include "base/prefetch.h"
#include "pages/pages.h"
#include "parts.h"

/* Most pages that are chosen before any of them is read */
#define GJ_MAX_CHOSEN			512

/* A data page that is to be read */
typedef struct GjChosenPage
{
	BlockNumber block;
	uint32		run;			/* that it is of; 0: of a delta */
	GjGuess    *guess;

	/* Of a run only */
	GjPlace		first;			/* its first entry, */
	GjPlace		next;			/* and the first one behind it */
	uint64		key;			/* position of the first listed key that can be on it */
} GjChosenPage;

/* Which entries of a page are wanted, among those whose key is */
typedef struct GjPageLimits
{
	bool		bounded;		/* only those of places from the first one to before the other */
	GjPlace		from;
	GjPlace		end;
	const GjFewTids *known;		/* of deltas: none with one of these TIDs; NULL: there are none */
} GjPageLimits;

/* Where the search is in a run */
typedef struct GjRunCursor
{
	GjRunReader reader;
	GjGuess		guess;
	bool		at_page;		/* at one that may have what is wanted; false: there is no more */
	uint64		key;			/* position of the first listed key that can be on it */
} GjRunCursor;

struct GjSearch
{
	Relation	index;
	const GjIndexInfo *info;
	const GjKeySet *keys;
	MemoryContext context;		/* of all that it takes */
	Size		limit;			/* of the memory for hits of tails and deltas */
	GjPlace		next;			/* what has a place before this has been delivered */
	GjPlace		end;			/* what has one from here on is not asked for */

	/* By which pages are read */
	GjIndexState state;
	BufferAccessStrategy strategy;	/* once it has read many of them; NULL before */
	BlockNumber nread;			/* pages */

	/* What tails and deltas have, found in one go */
	bool		has_tails;		/* the tails have been searched for the next collection */
	bool		collected;
	bool		counted;		/* for EXPLAIN: the pages of all runs */
	GjPlace		hits_end;		/* the first place of the next collection, or end */
	GjTailHits	tails;
	GjGuess		guess;			/* for pages of deltas */
	GjEntrySet *hits;			/* those in memory; NULL if only TIDs are wanted */
	uint64		ndelivered;		/* number of these that have been delivered */
	GjEntrySpill *spill;		/* the other hits; NULL if all are in memory */

	/* Runs */
	bool		opened;			/* there is a cursor for each run of the state */
	GjRunCursor cursors[GJ_MAX_RUNS];
	uint64		key;			/* position of the first listed key that is not below next */
	int			nchosen;

	/* Reading ahead */
	int			nasked;			/* for so many of the chosen pages the disk has been asked */
	struct ReadStream *stream;	/* of the rest of them; NULL: there is none */
	int64		nread_before;	/* pages that the process had read from disk before it */
	bool		was_cold;		/* the last stream has read some */

	GjChosenPage chosen[GJ_MAX_CHOSEN]; /* last, since it need not be cleared */
};

static inline bool
GjPlaceIsBefore(const GjPlace *a, const GjPlace *b)
{
	return a->key < b->key || (a->key == b->key && a->tid < b->tid);
}

/* runs.c: pages of runs that may have what is wanted */
extern void GjRunsOpen(GjSearch *search, GjMatchStats *stats);
extern void GjRunsClose(GjSearch *search);
extern bool GjRunsChoose(GjSearch *search, uint64 room, GjPlace *end);
extern int	GjRunsDivide(GjSearch *search, int most, GjPlace *starts);

/* A page's header and special space, of which the header need not be asked where it is */
#define GjPrefetchEnds(page) \
	(GjPrefetch(page), \
	 GjPrefetch((char *) (page) + BLCKSZ - MAXALIGN(sizeof(GjPageOpaqueData))))

/*
 * Have the keys of a page on their way from memory.  Needs a pin only: addresses
 * depend on the index, not on what is on the page.  Inline, since gcc drops calls of
 * a function that only prefetches: it takes it for one without effect.
 */
static pg_attribute_always_inline void
GjPrefetchKeys(Page page, const GjIndexInfo *info)
{
	GjPrefetchEnds(page);
	GjPrefetchRange(GjDataUsed(page, info), info->words * sizeof(uint32));
	GjPrefetchRange(GjDataKeys(page, info), info->slots * info->key_width);
}

/* readpages.c */
extern bool GjReadChosen(GjSearch *search, const GjPageLimits *limits, GjMatchTarget target,
						 GjMatchStats *stats);
extern Buffer GjReadChosenPage(GjSearch *search, int i, Buffer found);
extern bool GjIsListed(const GjSearch *search, Buffer buffer, const GjChosenPage *chosen);

/* readpages.c; pages are taken in their order, and read by who gets an invalid buffer */
extern void GjReadAheadEnd(GjSearch *search);

/* hits.c: the hits of a locked data page; false if an entry has an impossible TID */
extern bool GjMatchPage(Page page, const GjIndexInfo *info, const GjKeySet *keys,
						const GjPageLimits *limits, Page following, GjMatchTarget target,
						GjMatchStats *stats);
extern bool GjMatchSorted(Page page, const GjIndexInfo *info, const GjKeySet *keys,
						  const GjChosenPage *chosen, GjMatchTarget target,
						  GjMatchStats *stats);
extern void GjPrefetchSorted(Page page, const GjIndexInfo *info, const GjKeySet *keys,
							 const GjChosenPage *chosen, GjMatchTarget target);
extern bool GjHasFewKeys(const GjKeySet *keys, const GjChosenPage *chosen);

#endif							/* GPUJOIN_MATCH_SEARCH_H */
