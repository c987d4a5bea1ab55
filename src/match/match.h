/*-------------------------------------------------------------------------
 *
 * match.h
 *	  The interface for scans: find the entries of an index whose keys are in a
 *	  set.
 *
 * The CPU, which searches the index pages, or a device that holds a mirror of
 * them delivers a superset of the TIDs of all rows that are visible to a snapshot
 * taken before the call and have such a key.  The caller must drop the other TIDs
 * (of dead rows, or reused by other rows): it fetches under its snapshot and
 * rechecks the key.  A match of entries also delivers the keys and INCLUDE columns
 * that these TIDs have in the index, for callers that can avoid the fetch
 * (exec/indexonly.c); each of these keys is in the set.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MATCH_H
#define GPUJOIN_MATCH_H

#include "portability/instr_time.h"
#include "storage/block.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "mirror/mirror.h"
#include "node/keyplan.h"
#include "pages/pages.h"
#include "sets/sets.h"

/* Statistics of a match, for EXPLAIN; summed over rescans and batches */
typedef struct GjMatchStats
{
	uint64		searches;		/* number of matches */
	uint64		keys;			/* distinct keys searched for */
	uint64		keys_elsewhere; /* keys not searched for: only other partitions can have them */
	uint64		entries;		/* index entries searched */
	uint64		device_entries; /* of these, by a device */
	bool		stale;			/* TIDs may belong to other rows by now: always recheck the key */
	bool		outdated;		/* last match is outdated, even if vacuum epoch is unchanged */
	uint64		pages;			/* index pages read on the CPU, except directories and lists */
	uint64		delta_pages;	/* of these, pages of deltas */
	uint64		run_pages_read; /* of these, pages of runs */
	uint64		run_pages;		/* all pages of the runs */
	int			runs;			/* maximum number of runs that a search found */
	uint64		pages_pushed;	/* pages sent to a device to bring its mirror up to date */
	uint64		tids;			/* matching TIDs */
	uint64		filtered;		/* entries dropped by the caller's filter or the set's test */
	uint64		device_filter;	/* parts of the filter that a device tested: see GjEntrySet */
	uint64		pieces;			/* answers of a device to parts of a match */
	instr_time	set_elapsed;	/* time to build the key sets: kept by the caller */
	instr_time	elapsed;		/* time to search */
	double		request_ms;		/* of it, answered requests to a device */
	double		set_ms;			/* of these, the device's process: receiving the key set, */
	double		kernel_ms;		/* matching, */
	double		transfer_ms;	/* and sending TIDs */
	const char *device;			/* last device that answered, e.g. "CPU (AVX-512)" */
	const char *reason;			/* why the GPU did not answer; NULL if it did */
	uint32		answers[GJ_FALLBACK_COUNT]; /* number of answers by a device, or by the reason
											 * for none; a search in parts may add several */
} GjMatchStats;

/* Hits on tail pages, kept until the data pages are done */
typedef struct GjTailHits
{
	char	   *rows;			/* in the format of the page */
	int			nrows;
	uint64		sequence;		/* sequence of the metapage, read before; 0: unknown */
} GjTailHits;

/* A range of keys, divided among requests to a device (stream.c) */
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

/* Source of the next piece of a match of entries */
typedef enum GjEntryPhase
{
	GJ_ENTRIES_SEARCH,			/* the CPU, page by page */
	GJ_ENTRIES_ASK,				/* a device, one range of keys at a time */
	GJ_ENTRIES_AT_ONCE,			/* none: a device has found all entries; they are in a
								 * finished set, outdated or not */
	GJ_ENTRIES_DONE				/* none: all pieces have been delivered */
} GjEntryPhase;

/* State of a match of entries */
typedef struct GjEntryMatch
{
	Relation	index;
	const GjKeySet *keys;
	MemoryContext context;		/* for all allocations of the match */
	GjIndexInfo info;
	uint64		vacuum_epoch;	/* read before any entry was found */
	GjEntryPhase phase;
	bool		refused;		/* a device did not answer for a piece: do not ask again */
	const char *reason;			/* why the CPU found some entries; NULL if it found none */
	GjPieces	pieces;

	/* The CPU's part of the match */
	const GjKeySet *wanted;		/* keys, or those that a device has left; NULL until known */
	bool		tails_known;	/* the tails have been searched for the wanted keys */
	GjTailHits	tails;			/* their hits, found before a device was asked */
	Size		limit;			/* memory limit */
	struct GjSearch *search;	/* NULL until begun */

	/* For a match that several processes share */
	struct GjSharedSearch *shared;	/* source of further intervals of places (divide.c) */
	struct GjSharedRanges *ranges;	/* source of further ranges of keys (divide.c) */
} GjEntryMatch;

/* match.c */
extern void GjMatch(Relation index, const GjKeySet *keys, GjTidSet *tids, GjMatchStats *stats);
extern void GjMatchFresh(Relation index, const GjKeySet *keys, GjTidSet *tids,
						 GjMatchStats *stats);
extern bool GjMatchStatsTells(const GjMatchStats *sum, const GjMatchStats *stats);
extern void GjMatchStatsAdd(GjMatchStats *sum, const GjMatchStats *stats);
extern void GjMatchStatsFallback(GjMatchStats *stats, GjFallback why);
extern void GjMatchStatsToUse(const GjMatchStats *stats, GjIndexUse *use);

/* stream.c */
extern void GjEntryMatchBegin(GjEntryMatch *match, Relation index, const GjKeySet *keys,
							  GjEntrySet *whole, GjMatchStats *stats);
extern bool GjEntryMatchAsk(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats);
extern void GjEntryMatchRefuse(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats);
extern bool GjEntryMatchNext(GjEntryMatch *match, GjEntrySet *piece, GjMatchStats *stats);
extern void GjEntryMatchEnd(GjEntryMatch *match);
extern double GjRequestCost(double nentries);

/* values.c: conversion of values to keys */
typedef struct GjConverter
{
	GjConversion how;
	FmgrInfo	proc;			/* GJ_CONVERT_PROC: the operator class's support function */
} GjConverter;

extern void GjConvertToKeys(GjKeySet *set, GjConverter *converter, Datum value);
extern void GjAddDatumKeys(GjKeySet *set, GjConverter *converter, Datum value, bool isnull,
						   bool is_array);

/* complete.c */
extern bool GjIndexIsComplete(Relation index, Snapshot snapshot);

/* visible.c: which entries are rows, without a visit to the heap */
extern bool GjEntriesMayBeRows(Snapshot snapshot);
extern bool GjHeapIsMostlyVisible(Relation heap);
extern bool GjEpochHasMoved(Relation index, Snapshot snapshot, uint64 epoch);

/* visible.c: the visibility map, for many TIDs in any order */
typedef struct GjVisibleMap GjVisibleMap;

extern GjVisibleMap *GjVisibleMapCreate(MemoryContext context, Relation heap, Size limit);
extern int	GjVisibleMapSort(GjVisibleMap *map, const uint64 *tids, int n, uint64 highest,
							 uint16 *rows, uint64 *rest, int *nrest);
extern uint64 GjVisibleMapReads(const GjVisibleMap *map);
extern void GjVisibleMapForget(GjVisibleMap *map);
extern int	GjVisibleMapTest(Relation heap, const uint64 *tids, int n, bool *visible);

/* Dividing a match among processes ------------------------------------------------ */

/* A match of entries on the CPU; processes take intervals of places, one at a time */
#define GJ_MAX_STEPS			256

typedef struct GjSharedSearch
{
	uint64		vacuum_epoch;	/* read before any entry was found */
	int			nsteps;
	GjPlace		starts[GJ_MAX_STEPS];	/* the first place of each interval, which ends where
										 * the next one begins; the last one is open-ended */
	pg_atomic_uint64 next;		/* first interval that no process has taken */
} GjSharedSearch;

/* If more of a heap's pages than this are not all-visible, a match is shared by heap blocks */
#define GJ_MAX_HEAP_PART		0.1

/* A match of entries by a device; processes take ranges of the keys, one at a time */
#define GJ_MAX_RANGES			256

typedef struct GjSharedRanges
{
	uint64		vacuum_epoch;	/* read before any entry was found */
	double		key_entries;	/* average number of entries of a key */
	uint64		index_entries;	/* estimated number of entries of the index */
	int			nprocesses;		/* planned number, including the leader */
	int			nranges;
	int64		starts[GJ_MAX_RANGES];	/* the first key of each range, except that the first
										 * and the last range are open-ended */
	pg_atomic_uint64 next;		/* first range that no process has taken */
} GjSharedRanges;

typedef enum GjSharedKind
{
	GJ_SHARED_TIDS,				/* TIDs to fetch from the heap */
	GJ_SHARED_ENTRIES,			/* entries found all at once */
	GJ_SHARED_RANGES,			/* entries still to be found by a device */
	GJ_SHARED_SEARCH			/* entries still to be found by the CPU */
} GjSharedKind;

typedef struct GjSharedFind
{
	GjSharedKind kind;
	uint64		vacuum_epoch;	/* of entries: read before they were found */
	uint64		columns;		/* the index columns that the entries have */
	GjSharedTids tids;
	GjSharedEntries entries;
	GjSharedRanges ranges;
	GjSharedSearch search;
} GjSharedFind;

/* Parameters of a process that takes part in a match */
typedef struct GjSharePart
{
	GjSharedFind *found;
	dsa_area   *area;
	int			nprocesses;		/* planned number, including the leader */
	void		(*progress) (void *arg);	/* called before each step */
	void	   *arg;
} GjSharePart;

/* divide.c */
extern void GjFindShareInit(GjSharedFind *found);
extern void GjFindUnshare(GjSharedFind *found, dsa_area *area);

extern void GjSearchShare(GjSharedSearch *shared, GjEntryMatch *match, int nprocesses,
						  GjMatchStats *stats);
extern void GjSearchJoin(GjSharedSearch *shared, GjEntryMatch *match, Relation index,
						 const GjKeySet *keys, Size limit);
extern bool GjRangesShare(GjSharedRanges *shared, Relation index, const GjKeySet *keys,
						  uint64 capacity, int nprocesses, GjMatchStats *stats);
extern void GjRangesJoin(GjSharedRanges *shared, GjEntryMatch *match, Relation index,
						 const GjKeySet *keys, uint64 capacity, Size limit);
extern bool GjRangesTake(GjEntryMatch *match);
extern double GjCountRanges(double nkeys, double nmatches, double nentries, int nprocesses);

#endif							/* GPUJOIN_MATCH_H */
