/*-------------------------------------------------------------------------
 *
 * tidshare.h
 *	  A finished TID set in memory that several processes share: each takes blocks
 *	  until there are no more.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_TIDSHARE_H
#define GPUJOIN_SETS_TIDSHARE_H

#include "port/atomics.h"
#include "utils/dsa.h"

#include "tidset.h"

/* Filled by one process, then read-only but for the cursor */
typedef struct GjSharedTids
{
	dsa_pointer words;			/* packed TIDs, or a bit for each block */
	uint64		nwords;
	bool		lossy;			/* bits: offsets are not known */
	uint64		step;			/* words that are taken at a time */
	pg_atomic_uint64 next;		/* first word that nobody has taken */
} GjSharedTids;

extern void GjTidsShareInit(GjSharedTids *shared);
extern void GjTidsShare(GjSharedTids *shared, dsa_area *area, GjTidSet *set, int nprocesses);
extern void GjTidsUnshare(GjSharedTids *shared, dsa_area *area);

/*
 * A set that delivers the blocks that this process takes; once, so it cannot be
 * rewound.  Before each step it calls progress(arg), if that is not NULL.
 */
extern GjTidSet *GjTidsOpenShared(MemoryContext parent, GjSharedTids *shared, dsa_area *area,
								  void (*progress) (void *arg), void *arg);

/*
 * The dividing alone: of n things; and of an array that is ordered by ranges of 2^range_bits heap
 * blocks
 */
extern bool GjTakeStep(pg_atomic_uint64 *next, uint64 step, uint64 n, uint64 *first,
					   uint64 *end);

#endif							/* GPUJOIN_SETS_TIDSHARE_H */
