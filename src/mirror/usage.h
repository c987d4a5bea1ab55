/*-------------------------------------------------------------------------
 *
 * usage.h
 *	  What is counted and reported in shared memory: for this folder only.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MIRROR_USAGE_H
#define GPUJOIN_MIRROR_USAGE_H

#include "port/atomics.h"
#include "storage/lwlock.h"

#include "mirror.h"

/* Folds under way that can be seen; others are made unseen */
#define GJ_PROGRESS_SLOTS		64

/* A fold under way.  Who makes it writes without the lock, but for pid. */
typedef struct GjProgressSlot
{
	int			pid;			/* under the lock; 0: the slot is free */
	Oid			database;
	Oid			index;
	pg_atomic_uint32 phase;
	pg_atomic_uint64 done;
	pg_atomic_uint64 total;
} GjProgressSlot;

typedef struct GjUsageTable
{
	LWLock	   *lock;			/* NULL: a process's own; for moments only */
	GjIndexUse	others;			/* of indexes that have no entry, under the lock */
	uint64		evicted;		/* entries given up, as there were too many */
	TimestampTz since;
	GjProgressSlot progress[GJ_PROGRESS_SLOTS];
} GjUsageTable;

extern GjUsageTable *gj_usage;	/* NULL: not preloaded, and nothing has been counted yet */

/* usage.c; the first two for registry.c */
extern void GjUsageRequestShmem(void);
extern void GjUsageStartupShmem(void);
extern void GjUsageForget(Oid database, Oid index);

/* dropped.c */
extern void GjDroppedInit(void);

/* progress.c */
extern void GjProgressInit(void);

#endif							/* GPUJOIN_MIRROR_USAGE_H */
