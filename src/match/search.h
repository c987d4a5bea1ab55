/*-------------------------------------------------------------------------
 *
 * search.h
 *	  Functions and types that the files of a match share, among them the state of the CPU's
 *	  search.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MATCH_SEARCH_H
#define GPUJOIN_MATCH_SEARCH_H

#include <math.h>

#include "optimizer/optimizer.h"
#include "port/atomics.h"
#include "storage/bufmgr.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"

#include "base/buffers.h"
#include "base/prefetch.h"
#include "pages/pages.h"
#include "match.h"

/* Destination of hits: TIDs only, or entries */
typedef struct GjMatchTarget
{
	GjTidSet   *tids;
	GjEntrySet *entries;		/* if tids is NULL */
} GjMatchTarget;

/* match.c */
extern GjKeySet *GjMakeAllCodes(MemoryContext parent, const GjIndexInfo *info);

/* Begin the statistics of a match: the CPU answers, unless a device is recorded later */
static inline void
GjMatchStatsBegin(GjMatchStats *stats)
{
	stats->device = GjKernelName();
	stats->reason = NULL;
	stats->outdated = false;
}

/* Add the time since start to the search time */
static inline void
GjMatchStatsElapse(GjMatchStats *stats, instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_ACCUM_DIFF(stats->elapsed, now, start);
}

/* Count a match that has been made, or begun, with the time since start */
static inline void
GjMatchStatsEnd(GjMatchStats *stats, const GjKeySet *keys, instr_time start)
{
	GjMatchStatsElapse(stats, start);
	stats->searches++;
	stats->keys += GjKeySetCount(keys);
	stats->ranges += keys->nintervals;
	stats->keys_elsewhere += keys->elsewhere;
}

/* Hits on tail pages, kept until the data pages are done */
typedef struct GjTailHits
{
	char	   *rows;			/* in the format of the page */
	int			nrows;
	bool		empty;			/* no tail had any row */
	bool		counted;		/* the metapage was read before, with these counters: always if
								 * GjSearchTailsCounted() has found hits */
	uint64		sequence;
	uint64		vacuum_epoch;
} GjTailHits;

/* search.c: rows that have not been moved to a data page yet */
extern void GjSearchTails(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						  GjTailHits *hits, GjMatchStats *stats);
extern void GjSearchTailsCounted(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
								 GjTailHits *hits, GjMatchStats *stats);
extern void GjTailHitsForget(GjTailHits *hits);

/*
 * search.c: the CPU's answer, in pieces, read directly from the pages.  The head of search.c proves
 * that no entry is missing and none comes twice.
 */
typedef struct GjSearch GjSearch;

/* A place after all possible places */
#define GjLastPlace				((GjPlace) {PG_INT64_MAX, PG_UINT64_MAX})

extern GjSearch *GjSearchBegin(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
							   Size limit, GjTailHits *tails, GjSearchMemo *memo);
extern void GjSearchTurnTo(GjSearch *search, const GjPlace *from, const GjPlace *end);
extern bool GjSearchPiece(GjSearch *search, GjEntrySet *piece, GjMatchStats *stats);
extern void GjSearchTids(GjSearch *search, GjTidSet *tids, GjMatchStats *stats);
extern int	GjSearchDivide(GjSearch *search, int nprocesses, int most, GjPlace *starts,
						   GjMatchStats *stats);
extern void GjSearchEnd(GjSearch *search);

/* readpages.c: pages that changed since a mirror was made, whatever they belong to */
extern void GjSearchBlocks(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						   const GjIndexState *state, BlockNumber start, BlockNumber end,
						   GjMatchTarget target, GjMatchStats *stats);

/* takehits.c: copy entries of pages, and rows of tail pages, into a set */
extern bool GjEntrySetAddHits(GjEntrySet *set, Page page, const GjIndexInfo *info,
							  const uint16 *slots, int n);
extern bool GjEntrySetAddSlots(GjEntrySet *set, Page page, const GjIndexInfo *info, int first,
							   int n);
extern void GjEntrySetAddRow(GjEntrySet *set, const GjIndexInfo *info, const char *row);
extern void GjPagePackTids(Page page, const GjIndexInfo *info, int first, int n, uint64 *to);

/*
 * Return true if the null flags of a column must be read: a rest is never NULL
 */
static inline bool
GjColumnMayHaveNulls(const GjIndexInfo *info, int i, const GjEntryColumn *column)
{
	return !info->has_rests || i != info->nvalues || column->has_nulls;
}

/* State of a match against a mirror: device.c, reduce.c */
typedef struct GjDeviceMatch
{
	Relation	index;
	const GjIndexInfo *info;
	const GjKeySet *keys;
	GjMatchTarget target;
	const uint64 *epoch;		/* vacuum epoch that the mirror must have, or NULL */
	GjMatchStats *stats;
	GjIndexJournal journal;
	GjMirror	mirror;			/* as of step 4 of device.c */
	int			place;
	GjMirrorLag lag;
	const char *why;			/* specific text for the reason, or NULL */
} GjDeviceMatch;

extern GjFallback GjMirrorReach(GjDeviceMatch *match, bool may_sync);
extern void GjMirrorNoteAnswer(GjDeviceMatch *match, const GjServiceMatchInfo *info);
extern void GjMirrorSearchLag(GjDeviceMatch *match);
extern GjFallback GjMirrorNoteRefusal(GjDeviceMatch *match, GjServiceResult result);

/* reduce.c */
extern bool GjMirrorReduce(const GjEntryRequest *request, const GjIndexInfo *info,
						   GjEntrySet *rest, uint64 *epoch, const GjKeySet **left);

/* stream.c */
extern bool GjIndexIsCurrent(Relation index, Snapshot snapshot, uint64 epoch);

/* device.c: a device's answer */
typedef struct GjMirrorFound
{
	uint64		matches;		/* number of the mirror's entries that have one of the keys */
	uint64		entries;		/* number of all its entries */
} GjMirrorFound;

extern bool GjMirrorMayMatch(GjMatchStats *stats);
extern bool GjMirrorMatch(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						  GjMatchTarget target, const uint64 *epoch, GjMatchStats *stats);
extern bool GjMirrorCount(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						  const uint64 *epoch, GjMatchStats *stats, GjMirrorFound *found);

/*-------------------------------------------------------------------------
 * A match that several processes share
 *-------------------------------------------------------------------------
 */

/* A search on the CPU; processes take intervals of places, one at a time */
#define GJ_MAX_STEPS			256

/* More steps shorten the time in which some processes are idle at the end */
#define GJ_STEPS_PER_PROCESS	16

typedef struct GjSharedPlaces
{
	int			nsteps;
	GjPlace		starts[GJ_MAX_STEPS];	/* the first place of each interval, which ends where
										 * the next one begins; the last one is open-ended */
	pg_atomic_uint64 next;		/* first interval that no process has taken */
} GjSharedPlaces;

/* Requests to a device; processes take ranges of the keys, one at a time */
#define GJ_MAX_RANGES			256

typedef struct GjSharedRanges
{
	double		key_entries;	/* average number of entries of a key */
	uint64		index_entries;	/* estimated number of entries of the index */
	int			nprocesses;		/* planned number, including the leader */
	int			nranges;
	int64		starts[GJ_MAX_RANGES];	/* the first key of each range, except that the first
										 * and the last range are open-ended */
	pg_atomic_uint64 next;		/* first range that no process has taken */
} GjSharedRanges;

/* A range of keys that a process has taken */
typedef struct GjKeyRange
{
	uint64		first;			/* positions in the list of keys */
	uint64		end;
	double		expected;		/* estimated number of entries that have these keys */
} GjKeyRange;

/* A range of keys, divided among requests to a device */
typedef struct GjPieces
{
	uint64		end;			/* position after the last of these keys */
	uint64		next;			/* first key of the next request */
	uint64		step;			/* number of keys in the next request; 0: no request */
	double		expected;		/* estimated entries of the keys from next on */
	uint64		target;			/* number of entries that an answer should have */
	uint64		capacity;		/* maximum number of entries in an answer */
	double		max_requests;	/* with more requests to come, the CPU is quicker */
} GjPieces;

/*
 * Return true if a request should be made, for the next "step" keys
 */
static inline bool
GjPiecesGoOn(const GjPieces *pieces)
{
	return pieces->step > 0 && pieces->expected <= pieces->max_requests * pieces->target;
}

/* A process's part in a match */
typedef enum GjShareRole
{
	GJ_ROLE_ALONE,				/* do all of it, for this process only */
	GJ_ROLE_FIRST,				/* search, and publish the result */
	GJ_ROLE_OTHER,				/* take steps of the published match */
	GJ_ROLE_NONE				/* do nothing: another process does all of it */
} GjShareRole;

typedef enum GjSharePhase
{
	GJ_SHARE_NEW,				/* no process has come yet */
	GJ_SHARE_MATCHING,			/* the first process searches */
	GJ_SHARE_READY,				/* the match is published */
	GJ_SHARE_ONE_FOR_ALL		/* the first process does all of the work */
} GjSharePhase;

typedef enum GjSharedKind
{
	GJ_SHARED_TIDS,				/* TIDs to fetch from the heap */
	GJ_SHARED_ENTRIES,			/* entries found all at once */
	GJ_SHARED_RANGES,			/* entries still to be found by a device */
	GJ_SHARED_PLACES			/* entries still to be found by the CPU */
} GjSharedKind;

struct GjSharedFind
{
	slock_t		mutex;			/* protects phase */
	GjSharePhase phase;
	int			nprocesses;		/* planned number, including the leader */
	ConditionVariable matched;	/* signaled when phase is no longer GJ_SHARE_MATCHING */

	/* Set by the first process, valid in GJ_SHARE_READY */
	GjSharedKind kind;
	uint64		vacuum_epoch;	/* of entries: read before they were found */
	uint64		columns;		/* of entries: as in GjEntryRequest */
	GjSharedTids tids;
	GjSharedEntries entries;
	GjSharedRanges ranges;
	GjSharedPlaces places;
	pg_atomic_uint32 nulls;		/* processes that have ended their steps: the first one searches for
								 * NULL keys, if these are wanted */
};

/* divide.c: the keys of a match in parts */
extern void GjPiecesBegin(GjPieces *pieces, uint64 first, uint64 end, uint64 capacity,
						  double max_requests, double expected);
extern void GjPiecesTook(GjPieces *pieces, uint64 nfound);
extern void GjPiecesDivide(GjPieces *pieces, uint64 nfound);
extern GjShareRole GjShareEnter(GjShare *share, bool whole);
extern void GjSharePublish(GjSharedFind *shared);
extern bool GjRangesShare(GjSharedRanges *shared, const GjEntryRequest *request,
						  uint64 capacity, int nprocesses, uint64 *epoch);
extern bool GjRangesTake(GjSharedRanges *shared, const GjKeySet *keys, bool many,
						 GjKeyRange *range);

/*
 * Return the number of requests up to which a device is quicker than the CPU, by the planner's
 * costs (plan/cost.c)
 */
static inline double
GjMaxRequests(Relation index, uint64 nentries)
{
	double		request = GjRequestCost(nentries);
	double		search = gj_setup_cost + nentries * gj_search_cost +
		RelationGetNumberOfBlocks(index) * seq_page_cost;

	return gj_force || request <= 0 ? INFINITY : search / request;
}

/*-------------------------------------------------------------------------
 * The state of the CPU's search, for search.c and the files that implement its steps: runs.c and
 * readpages.c.  It is opaque to all others, which have only a pointer.
 *-------------------------------------------------------------------------
 */

/* Maximum number of pages that are chosen before any of them is read */
#define GJ_MAX_CHOSEN			512

/* A data page to read */
typedef struct GjChosenPage
{
	BlockNumber block;
	uint32		run;			/* the run that it belongs to; 0: a delta */
	Buffer		recalled;		/* the buffer where it probably is, or InvalidBuffer */

	/* Of a run only */
	GjPlace		first;			/* its first entry, */
	GjPlace		next;			/* and the first entry of the next page, or the end of the run */
	const GjKeySet *keys;		/* the wanted keys that may be in the run */
	uint64		key;			/* position of the first key or interval that can be on the page */
	int64		wanted;			/* first wanted key that can be on the page */
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
	bool		at_page;		/* on a page that may have a hit; false at the end of the run */
	const GjKeySet *keys;		/* the listed keys that may be in the run, or NULL */
	uint64		key;			/* position of the first one that can be on the page */
	int64		wanted;			/* first wanted key that can be on the page */
} GjRunCursor;

struct GjSearch
{
	Relation	index;
	const GjIndexInfo *info;
	const GjKeySet *keys;
	MemoryContext context;		/* for all allocations of the search */
	Size		limit;			/* memory limit for hits of tails and deltas */
	GjSearchMemo *memo;			/* what earlier searches have found out, or NULL */
	bool		has_epoch;
	uint64		vacuum_epoch;	/* once has_epoch is set: read before any entry was found */
	GjPlace		next;			/* entries with places before this have been delivered */
	GjPlace		end;			/* entries with places from here on are not wanted */

	/* State for choosing and reading pages */
	BufferAccessStrategy strategy;	/* NULL until the search has read many pages */
	BlockNumber nread;			/* number of pages read */

	/* The collection: hits of tails and deltas */
	bool		has_tails;		/* the tails have been searched for the next collection */
	bool		collected;
	bool		counted;		/* for EXPLAIN: the pages of all runs have been counted */
	GjPlace		hits_end;		/* first place of the next collection, or end */
	GjTailHits	tails;
	GjEntrySet *hits;			/* hits in memory; NULL if only TIDs are wanted */
	uint64		ndelivered;		/* number of hits in memory already delivered */
	GjEntrySpill *spill;		/* the other hits; NULL if all are in memory */

	/* Runs */
	bool		opened;			/* each run of the state has an open cursor */
	int			most_slots;		/* of a page of any run */
	uint64		key;			/* position of the first listed key that is not below next */
	int			nchosen;
	int			room;			/* number of pages for which "chosen" has room */
	GjChosenPage *chosen;

	/* Reading ahead */
	int			nasked;			/* number of chosen pages requested from disk */
	struct ReadStream *stream;	/* for the other chosen pages, or NULL */
	int64		nread_before;	/* pages that the process had read from disk before the stream */
	bool		was_cold;		/* the last stream read pages from disk */

	/* The last narrow page that was read, by which others are prefetched: they may differ */
	int			narrow_slots;	/* its slots; 0 if none was read */

	/* Set before they are read, so they need not be cleared */
	GjNarrowColumn narrow[GJ_MAX_COLUMNS];	/* its columns */
	GjIndexState state;			/* the lists of step 2 */
	GjRunCursor cursors[GJ_MAX_RUNS];
};

/* search.c */
extern void GjSearchMakeRoom(GjSearch *search, int n);

/* filters.c */
extern void GjFilterDeltas(const GjSearch *search, BlockNumber *blocks, BlockNumber *nblocks);
extern void GjFilterRuns(const GjSearch *search);
extern const GjKeySet *GjFilterRunKeys(const GjSearch *search, int i);

/* runs.c: choosing the pages of runs that may have a hit */
extern void GjRunsOpen(GjSearch *search, GjMatchStats *stats);
extern void GjRunsClose(GjSearch *search);
extern bool GjRunsChoose(GjSearch *search, uint64 room, GjPlace *end);

/* readpages.c */
extern bool GjReadChosen(GjSearch *search, const GjPageLimits *limits, GjMatchTarget target,
						 GjMatchStats *stats);
extern bool GjReadDeltas(GjSearch *search, const GjPageLimits *limits, GjMatchTarget target,
						 GjMatchStats *stats);

#endif							/* GPUJOIN_MATCH_SEARCH_H */
