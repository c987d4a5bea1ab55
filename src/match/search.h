/*-------------------------------------------------------------------------
 *
 * search.h
 *	  The state of the CPU's search; private to search.c and the files that implement its
 *	  steps: runs.c, readpages.c, hits.c.
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

/* Maximum number of pages that are chosen before any of them is read */
#define GJ_MAX_CHOSEN			512

/* A data page to read */
typedef struct GjChosenPage
{
	BlockNumber block;
	uint32		run;			/* the run that it belongs to; 0: a delta */
	GjGuess    *guess;

	/* Of a run only */
	GjPlace		first;			/* its first entry, */
	GjPlace		next;			/* and the first entry of the next page */
	uint64		key;			/* position of the first listed key that can be on it */
} GjChosenPage;

/* Further conditions on a page's entries whose keys match */
typedef struct GjPageLimits
{
	bool		bounded;		/* only entries with places from "from" to before "end" */
	GjPlace		from;
	GjPlace		end;
	const GjFewTids *known;		/* of deltas: TIDs of entries to skip, or NULL */
} GjPageLimits;

/* Position of the search in a run */
typedef struct GjRunCursor
{
	GjRunReader reader;
	GjGuess		guess;
	bool		at_page;		/* on a page that may have a hit; false at the end of the run */
	uint64		key;			/* position of the first listed key that can be on it */
} GjRunCursor;

struct GjSearch
{
	Relation	index;
	const GjIndexInfo *info;
	const GjKeySet *keys;
	MemoryContext context;		/* for all allocations of the search */
	Size		limit;			/* memory limit for hits of tails and deltas */
	GjPlace		next;			/* entries with places before this have been delivered */
	GjPlace		end;			/* entries with places from here on are not wanted */

	/* State for choosing and reading pages */
	GjIndexState state;
	BufferAccessStrategy strategy;	/* NULL until the search has read many pages */
	BlockNumber nread;			/* number of pages read */

	/* The collection: hits of tails and deltas */
	bool		has_tails;		/* the tails have been searched for the next collection */
	bool		collected;
	bool		counted;		/* for EXPLAIN: the pages of all runs have been counted */
	GjPlace		hits_end;		/* first place of the next collection, or end */
	GjTailHits	tails;
	GjGuess		guess;			/* for pages of deltas */
	GjEntrySet *hits;			/* hits in memory; NULL if only TIDs are wanted */
	uint64		ndelivered;		/* number of hits in memory already delivered */
	struct GjSpill *spill;		/* the other hits; NULL if all are in memory */

	/* Runs */
	bool		opened;			/* each run of the state has an open cursor */
	GjRunCursor cursors[GJ_MAX_RUNS];
	uint64		key;			/* position of the first listed key that is not below next */
	int			nchosen;

	/* Reading ahead */
	int			nasked;			/* number of chosen pages requested from disk */
	struct ReadStream *stream;	/* for the other chosen pages, or NULL */
	int64		nread_before;	/* pages that the process had read from disk before the stream */
	bool		was_cold;		/* the last stream read pages from disk */

	GjChosenPage chosen[GJ_MAX_CHOSEN]; /* last, since it need not be cleared */
};

/* runs.c: choosing the pages of runs that may have a hit */
extern void GjRunsOpen(GjSearch *search, GjMatchStats *stats);
extern void GjRunsClose(GjSearch *search);
extern bool GjRunsChoose(GjSearch *search, uint64 room, GjPlace *end);
extern int	GjRunsDivide(GjSearch *search, int most, GjPlace *starts);

/* Prefetch a page's header and its special space, without reading the header to locate that */
#define GjPrefetchEnds(page) \
	(GjPrefetch(page), \
	 GjPrefetch((char *) (page) + BLCKSZ - MAXALIGN(sizeof(GjPageOpaqueData))))

/*
 * Prefetch the keys of a page.  A pin is enough, because the addresses depend on the
 * index only, not on the page's contents.  Inline, because gcc drops calls of a function
 * that only prefetches, as it considers it to have no effect.
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

/* readpages.c: give up the pages that have been read ahead */
extern void GjReadAheadEnd(GjSearch *search);

/* hits.c: add the hits of a locked data page; false if an entry has an impossible TID */
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
