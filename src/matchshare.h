/*-------------------------------------------------------------------------
 *
 * matchshare.h
 *	  A match in memory that several processes share: what one of them has found, or
 *	  the search that all of them do together.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MATCHSHARE_H
#define GPUJOIN_MATCHSHARE_H

#include "entryshare.h"
#include "match.h"
#include "tidshare.h"

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

typedef enum GjSharedKind
{
	GJ_SHARED_TIDS,				/* to be fetched from the heap */
	GJ_SHARED_ENTRIES,			/* found all at once */
	GJ_SHARED_SEARCH			/* entries that are still to be found */
} GjSharedKind;

typedef struct GjSharedFind
{
	GjSharedKind kind;
	uint64		vacuum_epoch;	/* of entries: read before they were found */
	uint64		columns;		/* which columns of the index these have */
	GjSharedTids tids;
	GjSharedEntries entries;
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

extern void GjFindShareInit(GjSharedFind *found);
extern void GjFindUnshare(GjSharedFind *found, dsa_area *area);

extern void GjSearchShare(GjSharedSearch *shared, dsa_area *area, GjEntryMatch *match,
						  int nprocesses);
extern void GjSearchJoin(GjSharedSearch *shared, dsa_area *area, GjEntryMatch *match,
						 Relation index, const GjKeySet *keys);

#endif							/* GPUJOIN_MATCHSHARE_H */
