/*-------------------------------------------------------------------------
 *
 * tidshare.h
 *	  A finished TID set in memory shared by several processes, each of which takes blocks until
 *	  all are taken.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_TIDSHARE_H
#define GPUJOIN_SETS_TIDSHARE_H

#include "port/atomics.h"
#include "utils/dsa.h"

#include "tidset.h"

/* Filled by one process, then read-only except for the cursor */
typedef struct GjSharedTids
{
	dsa_pointer words;			/* packed TIDs, or one bit per block */
	uint64		nwords;
	bool		lossy;			/* true if words are bits: offsets are not known */
	uint64		step;			/* number of words taken at a time */
	pg_atomic_uint64 next;		/* first word not taken yet */
} GjSharedTids;

extern void GjTidsShareInit(GjSharedTids *shared);
extern void GjTidsShare(GjSharedTids *shared, dsa_area *area, GjTidSet *set, int nprocesses);
extern void GjTidsUnshare(GjSharedTids *shared, dsa_area *area);

/*
 * Create a set that delivers the blocks taken by this process, once: it cannot be rewound.
 * Calls progress(arg) before each step, unless it is NULL.
 */
extern GjTidSet *GjTidsOpenShared(MemoryContext parent, GjSharedTids *shared, dsa_area *area,
								  void (*progress) (void *arg), void *arg);

/*
 * Take a step of n elements, for callers that divide other things
 */
extern bool GjTakeStep(pg_atomic_uint64 *next, uint64 step, uint64 n, uint64 *first,
					   uint64 *end);

#endif							/* GPUJOIN_SETS_TIDSHARE_H */
