/*-------------------------------------------------------------------------
 *
 * usage.h
 *	  Usage counters and progress reports in shared memory: for this folder only.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MIRROR_USAGE_H
#define GPUJOIN_MIRROR_USAGE_H

#include "port/atomics.h"
#include "storage/lwlock.h"

#include "mirror.h"

/* Maximum number of folds that are reported; others are done without a report */
#define GJ_PROGRESS_SLOTS		64

/* A fold in progress.  Its process writes without the lock, except for pid. */
typedef struct GjProgressSlot
{
	int			pid;			/* protected by the lock; 0 if the slot is free */
	Oid			database;
	Oid			index;
	pg_atomic_uint32 phase;
	pg_atomic_uint64 done;
	pg_atomic_uint64 total;
} GjProgressSlot;

typedef struct GjUsageTable
{
	LWLock	   *lock;			/* held only briefly; NULL if the table is private to the process */
	GjIndexUse	others;			/* counts of indexes without an entry; protected by the lock */
	uint64		evicted;		/* number of entries given up because the table was full */
	TimestampTz since;
	GjProgressSlot progress[GJ_PROGRESS_SLOTS];
} GjUsageTable;

extern GjUsageTable *gj_usage;	/* NULL if not preloaded and nothing has been counted yet */

/* usage.c; the first two are called by registry.c */
extern void GjUsageRequestShmem(void);
extern void GjUsageStartupShmem(void);
extern void GjUsageForget(Oid database, Oid index);

/* dropped.c */
extern void GjDroppedInit(void);

/* progress.c */
extern void GjProgressInit(void);

#endif							/* GPUJOIN_MIRROR_USAGE_H */
