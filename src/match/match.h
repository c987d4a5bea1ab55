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
 * rechecks the key (lemma L8 of src/README).  A match of entries (stream.h) also
 * delivers the keys and INCLUDE columns that these TIDs have in the index, for
 * callers that can avoid the fetch; each of these keys is in the set.
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
#include "utils/uuid.h"

#include "base/settings.h"
#include "mirror/mirror.h"
#include "node/keyplan.h"
#include "pages/pages.h"
#include "sets/sets.h"
#include "stream.h"

/* Statistics of a match, for EXPLAIN; summed over rescans and batches */
typedef struct GjMatchStats
{
	uint64		searches;		/* number of matches */
	uint64		keys;			/* distinct keys searched for */
	uint64		ranges;			/* intervals of keys searched for */
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
	uint64		limited;		/* matching entries that a device did not send, because they are not
								 * among the first ones of an order, or filtered */
	uint64		pieces;			/* answers of a device to parts of a match */
	uint64		reductions;		/* matches in which a device made groups of rows */
	uint64		reduce_failures;	/* attempts that failed or were repeated */
	uint64		reduced_rows;	/* rows in these groups */
	uint64		reduced_groups;
	uint64		reduced_bytes;	/* size of the groups that a device sent */
	uint64		left_out;		/* pages that the mirror lacked, or that were too new for it */
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

/*
 * A scan that searches again has filters of unsorted pages: for so few keys it never asks a device
 */
#define GJ_FEW_KEYS				8

/* match.c */
extern void GjMatch(Relation index, const GjKeySet *keys, bool may_be_stale, GjSearchMemo *memo,
					GjTidSet *tids, GjMatchStats *stats);
extern void GjMatchNulls(Relation index, GjTidSet *tids, GjMatchStats *stats);
extern bool GjIndexStoresNulls(Relation index);
extern GjSearchMemo *GjSearchMemoCreate(MemoryContext context);
extern void GjMatchStatsAdd(GjMatchStats *sum, const GjMatchStats *stats);
extern void GjMatchStatsFallback(GjMatchStats *stats, GjFallback why);
extern void GjMatchStatsToUse(const GjMatchStats *stats, GjIndexUse *use);

/*
 * Return true if the device and reason of stats should replace those of sum: the last match wins,
 * but a match that had to do without a device takes precedence.
 */
static inline bool
GjMatchStatsTells(const GjMatchStats *sum, const GjMatchStats *stats)
{
	return stats->reason != NULL || (stats->searches > 0 && sum->reason == NULL);
}

/* slice.c: the wanted keys in slices, for rows in the order of the key */
typedef struct GjSlices
{
	Relation	index;
	const GjKeySet *keys;
	bool		descending;
	bool		nulls_first;	/* does the slice of NULL keys come first? */
	bool		nulls_left;		/* is it left? */
	bool		keys_left;		/* is a wanted key left? */
	bool		is_left;		/* is either of these left? */
	int64		low;			/* if a key is left, none of these is beyond these, */
	int64		high;			/* and the one at which the next slice begins is wanted */
} GjSlices;

extern void GjSlicesBegin(GjSlices *slices, Relation index, const GjKeySet *keys, bool descending,
						  bool nulls_first);
extern GjKeySet *GjSlicesNext(GjSlices *slices, MemoryContext context, uint64 wanted, bool exact);
extern double GjSlicesLeft(const GjSlices *slices);

/* Estimates that the planner shares: divide.c */
extern double GjCountRanges(double nkeys, double nmatches, double nentries, int nprocesses);

/*
 * Return the cost of a request to a device that has nentries entries, in the planner's units
 */
static inline double
GjRequestCost(double nentries)
{
	return gj_device_setup_cost + nentries * gj_device_search_cost;
}

/*
 * Return true if the CPU finds this many keys before a request would reach a device, so that none
 * is made, whatever the device has to search then
 *
 * On an H200 and 16 processors, look-ups in one run of 20 M entries, a second (device, CPU): 8,468
 * and 13,291 of 8 keys by one session, 10,116 and 11,216 of 32 keys; 102,840 and 119,195 of 32 keys
 * by 64 sessions (test/bench/results/2026-11-28-nvidia-h200-few-keys.md).
 */
static inline bool
GjAreFewKeys(double nkeys, double nruns, double unsorted_pages)
{
	return (nkeys * nruns + unsorted_pages / 2.0) * 3.0 <= gj_device_setup_cost;
}

/* values.c: conversion of values to keys */
typedef struct GjConverter
{
	GjConversion how;
	GjCodec		codec;			/* GJ_CONVERT_CODEC */
	const GjExactPart *part;	/* if codes need proof: how values or rests are compared; NULL if
								 * the caller does not need the set's exact table */
	bool		values_last;	/* do arrays live as long as the set? */
} GjConverter;

extern void GjAddDatumKeys(GjKeySet *set, GjConverter *converter, Datum value, bool isnull,
						   bool is_array);
extern bool GjCodesOfValue(GjConversion how, GjCodec *codec, Datum value, int64 *first,
						   int64 *last);
extern bool GjUuidOfText(Datum datum, pg_uuid_t *uuid);

/* snapshot.c: before a search */
extern bool GjIndexIsComplete(Relation index, Snapshot snapshot);
extern void GjPredicateLock(Relation index, Snapshot snapshot);

/* If more of a heap's pages than this are not all-visible, a match is shared by heap blocks */
#define GJ_MAX_HEAP_PART		0.1

/* visible.c: which entries are rows, without a visit to the heap */
extern bool GjEntriesMayBeRows(Snapshot snapshot);

/* visible.c: the visibility map, for many TIDs in any order */
typedef struct GjVisibleMap GjVisibleMap;

extern GjVisibleMap *GjVisibleMapCreate(MemoryContext context, Relation heap, Size limit);
extern int	GjVisibleMapSort(GjVisibleMap *map, const uint64 *tids, int n, uint64 highest,
							 uint16 *rows, uint64 *rest, int *nrest);
extern bool GjVisibleMapCopy(GjVisibleMap *map, uint64 *visible_below, const uint8 **bytes,
							 uint64 *nbytes);
extern uint64 GjVisibleMapReads(const GjVisibleMap *map);
extern void GjVisibleMapForget(GjVisibleMap *map);
extern int	GjVisibleMapTest(Relation heap, const uint64 *tids, int n, bool *visible);

#endif							/* GPUJOIN_MATCH_H */
