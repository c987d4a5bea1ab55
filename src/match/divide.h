/*-------------------------------------------------------------------------
 *
 * divide.h
 *	  A match in memory that several processes share: what one of them has found, or
 *	  the search that all of them do together.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MATCH_DIVIDE_H
#define GPUJOIN_MATCH_DIVIDE_H

#include "sets/entryshare.h"
#include "sets/tidshare.h"
#include "match.h"

/* A match of entries that the CPU makes: pages are taken, a few at a time */
typedef struct GjSharedSearch
{
	uint64		vacuum_epoch;	/* read before anything was found */
	BlockNumber first;			/* data pages from here on, */
	BlockNumber npages;			/* so many */
	uint64		step;			/* pages that are taken at a time */
	int			ntails;			/* hits on tail pages, which the process has that found them: */
	dsa_pointer tails;			/* their TIDs, packed */
	pg_atomic_uint64 next;		/* first page that nobody has taken, counted from first */
} GjSharedSearch;

/* A match of entries that a device makes: ranges of the keys are taken, one at a time */
#define GJ_MAX_RANGES			256

typedef struct GjSharedRanges
{
	uint64		vacuum_epoch;	/* read before anything was found */
	double		key_entries;	/* that a key has, on average */
	uint64		index_entries;	/* all that the index has, as far as is known */
	int			nprocesses;		/* planned, with the leader */
	int			nranges;
	int64		starts[GJ_MAX_RANGES];	/* the first key of each but the first range, which has
										 * all before the second one's; so the last all above */
	pg_atomic_uint64 next;		/* first range that nobody has taken */
} GjSharedRanges;

typedef enum GjSharedKind
{
	GJ_SHARED_TIDS,				/* to be fetched from the heap */
	GJ_SHARED_ENTRIES,			/* found all at once */
	GJ_SHARED_RANGES,			/* entries that are still to be found, by a device, */
	GJ_SHARED_SEARCH			/* or on the CPU */
} GjSharedKind;

typedef struct GjSharedFind
{
	GjSharedKind kind;
	uint64		vacuum_epoch;	/* of entries: read before they were found */
	uint64		columns;		/* which columns of the index these have */
	GjSharedTids tids;
	GjSharedEntries entries;
	GjSharedRanges ranges;
	GjSharedSearch search;
} GjSharedFind;

/* What a process needs to take its part */
typedef struct GjSharePart
{
	GjSharedFind *found;
	dsa_area   *area;
	int			nprocesses;		/* planned, with the leader */
	void		(*progress) (void *arg);	/* called before each step */
	void	   *arg;
} GjSharePart;

/* divide.c */
extern void GjFindShareInit(GjSharedFind *found);
extern void GjFindUnshare(GjSharedFind *found, dsa_area *area);

extern void GjSearchShare(GjSharedSearch *shared, dsa_area *area, GjEntryMatch *match,
						  int nprocesses);
extern void GjSearchJoin(GjSharedSearch *shared, dsa_area *area, GjEntryMatch *match,
						 Relation index, const GjKeySet *keys);

/* ranges.c */
extern bool GjRangesShare(GjSharedRanges *shared, Relation index, const GjKeySet *keys,
						  uint64 capacity, int nprocesses, GjMatchStats *stats);
extern void GjRangesJoin(GjSharedRanges *shared, GjEntryMatch *match, Relation index,
						 const GjKeySet *keys, uint64 capacity);
extern bool GjRangesTake(GjEntryMatch *match);
extern double GjCountRanges(double nkeys, double nmatches, double nentries, int nprocesses);

#endif							/* GPUJOIN_MATCH_DIVIDE_H */
