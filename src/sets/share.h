/*-------------------------------------------------------------------------
 *
 * share.h
 *	  Finished sets of TIDs and of entries in memory shared by several processes, each of which
 *	  takes pieces until all are taken.
 *
 * Life cycle: Init() without contents; Share() fills the memory, in one process; then it is
 * read-only, except for the cursor; Unshare() frees it, when no process reads it any more.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_SHARE_H
#define GPUJOIN_SETS_SHARE_H

#include "port/atomics.h"
#include "utils/dsa.h"

#include "entryset.h"
#include "tidset.h"

/* Contents of a shared set */
typedef enum GjShareState
{
	GJ_SHARE_EMPTY,				/* not filled yet, freed, or a set without elements */
	GJ_SHARE_TIDS,				/* packed TIDs */
	GJ_SHARE_BLOCKS,			/* one bit for each heap block, since offsets are not known */
	GJ_SHARE_ENTRIES			/* arrays of entries */
} GjShareState;

typedef struct GjSharedTids
{
	GjShareState state;			/* EMPTY, TIDS or BLOCKS */
	dsa_pointer words;			/* packed TIDs, or bits */
	uint64		nwords;
	uint64		step;			/* number of words taken at a time */
	pg_atomic_uint64 next;		/* first word not taken yet */
} GjSharedTids;

typedef struct GjSharedEntries
{
	GjShareState state;			/* EMPTY or ENTRIES */
	dsa_pointer memory;			/* of all arrays */
	uint64		nentries;
	int			range_bits;		/* entries are ordered by ranges of 2^range_bits heap blocks */
	bool		has_nulls[GJ_MAX_INCLUDED]; /* as in GjEntryColumn */
	uint64		step;			/* number of entries taken at a time */
	pg_atomic_uint64 next;		/* first entry not taken yet */
} GjSharedEntries;

extern void GjTidsShareInit(GjSharedTids *shared);
extern void GjTidsShare(GjSharedTids *shared, dsa_area *area, GjTidSet *set, int nprocesses);
extern void GjTidsUnshare(GjSharedTids *shared, dsa_area *area);

/*
 * Create a set that delivers the blocks taken by this process, once: it cannot be rewound.
 * Calls progress(arg) before each step, unless it is NULL.
 */
extern GjTidSet *GjTidsOpenShared(MemoryContext parent, GjSharedTids *shared, dsa_area *area,
								  void (*progress) (void *arg), void *arg);

extern void GjEntriesShareInit(GjSharedEntries *shared);
extern void GjEntriesShare(GjSharedEntries *shared, dsa_area *area, const GjEntrySet *set,
						   int nprocesses);
extern void GjEntriesUnshare(GjSharedEntries *shared, dsa_area *area);

/*
 * Point the view to the next entries, with the columns of the set that was shared.  The view has
 * no other contents, and entries must not be added to it.  Returns false if all entries are
 * taken.
 */
extern bool GjEntriesTake(GjSharedEntries *shared, dsa_area *area, GjEntrySet *view);

/*
 * Take a step of n elements, for callers that divide other things
 */
extern bool GjTakeStep(pg_atomic_uint64 *next, uint64 step, uint64 n, uint64 *first,
					   uint64 *end);

#endif							/* GPUJOIN_SETS_SHARE_H */
