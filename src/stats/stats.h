/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  Statistics shared by all processes: usage counters of indexes with the reasons why a device
 *	  did not answer, and the progress of folds.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_STATS_H
#define GPUJOIN_STATS_H

#include "datatype/timestamp.h"

/* Reason why a match was not answered by a device.  Names and texts: usage.c */
typedef enum GjFallback
{
	GJ_FALLBACK_NONE,			/* answered by a device */
	GJ_FALLBACK_NO_KEYS,		/* no keys to search for; not counted */
	GJ_FALLBACK_NOT_PRELOADED,	/* no shared memory */
	GJ_FALLBACK_SERVICE,		/* the service has no device, or not now */
	GJ_FALLBACK_TEMPORARY,
	GJ_FALLBACK_SMALL,
	GJ_FALLBACK_FEW_KEYS,		/* for these the CPU is faster */
	GJ_FALLBACK_NO_MIRROR,
	GJ_FALLBACK_LOADING,
	GJ_FALLBACK_BEHIND,
	GJ_FALLBACK_NO_MEMORY,
	GJ_FALLBACK_TOO_BIG,
	GJ_FALLBACK_TABLE_FULL,
	GJ_FALLBACK_BUSY,
	GJ_FALLBACK_GONE,
	GJ_FALLBACK_FAILED,
	GJ_FALLBACK_INTERVALS,		/* NOT IN, a range, all keys: a device supports only lists */
	GJ_FALLBACK_PARTIAL,		/* a bitmap scan that must not see rows of another predicate */
	GJ_FALLBACK_TOO_MANY,		/* the device's answer was too large */
	GJ_FALLBACK_VACUUMED,		/* the device's answer was too old */
	GJ_FALLBACK_INCOMPLETE,		/* the heap is read, because the index may lack rows */
	GJ_FALLBACK_NULL_KEYS		/* the heap is read, because the index lacks NULL keys */
} GjFallback;

#define GJ_FALLBACK_COUNT		(GJ_FALLBACK_NULL_KEYS + 1)

/* Counters for each index */
typedef enum GjUseCounter
{
	GJ_USE_SEARCHES,
	GJ_USE_KEYS,
	GJ_USE_PAGES_READ,			/* on the CPU */
	GJ_USE_PAGES_SKIPPED,
	GJ_USE_PAGES_PUSHED,		/* to a device, to synchronize a mirror */
	GJ_USE_TIDS,				/* matching TIDs */
	GJ_USE_HEAP_BLOCKS,
	GJ_USE_HEAP_FETCHES,		/* rows */
	GJ_USE_GROUPS,				/* made by GpuAgg nodes from rows found with the index */
	GJ_USE_REDUCTIONS,			/* searches in which a device added rows up */
	GJ_USE_REDUCED_ROWS,
	GJ_USE_REDUCED_GROUPS,		/* into which it added them */
	GJ_USE_REDUCE_FAILURES,		/* attempts that did not succeed */
	GJ_USE_NOT_SENT,			/* matching entries that a device did not send, because it had added
								 * them up, or because they came after the first ones of an order */
	GJ_USE_LEFT_OUT,			/* pages that it left to the CPU meanwhile */
	GJ_USE_SEARCH_US,			/* total time of searches, in all processes */
	GJ_USE_WAIT_US,				/* the part of it spent waiting for a device */
	GJ_USE_DEVICE_US,			/* the part of that in which the device's process worked */
	GJ_USE_FOLDS,				/* first of the counters that searches do not add to */
	GJ_USE_FOLDED,				/* entries written by folds */
	GJ_USE_FOLD_PAGES,			/* pages written by folds */
	GJ_USE_FOLD_US,				/* total time of folds */
	GJ_USE_REQUESTS,			/* requests for a fold worker */
	GJ_USE_REFUSED,				/* requests for which there was no worker */
	GJ_USE_ANSWERED				/* first of the counters of answers, by GjFallback */
} GjUseCounter;

#define GJ_USE_COUNT			(GJ_USE_ANSWERED + GJ_FALLBACK_COUNT)

typedef struct GjIndexUse
{
	uint64		n[GJ_USE_COUNT];
} GjIndexUse;

/* Counters of an index, or of all indexes that have no entry of their own */
typedef struct GjUsage
{
	Oid			database;
	Oid			index;			/* InvalidOid for the others */
	TimestampTz since;
	TimestampTz last_used;		/* 0 for the others, and before the first search */
	TimestampTz last_fold;		/* 0 for the others, and before the first fold */
	GjIndexUse	use;
} GjUsage;

typedef enum GjProgressPhase
{
	GJ_PROGRESS_CLOSING,
	GJ_PROGRESS_LOOKING,
	GJ_PROGRESS_SORTING,
	GJ_PROGRESS_WRITING,
	GJ_PROGRESS_FREEING
} GjProgressPhase;

/* A fold in progress */
typedef struct GjProgress
{
	int			pid;
	Oid			database;
	Oid			index;
	const char *phase;
	const char *unit;			/* unit of done and total; NULL if nothing is counted */
	uint64		done;
	uint64		total;
} GjProgress;

/* usage.c: counters of indexes */
extern void GjUsageInit(void);
extern void GjUsagePrepare(void);
extern void GjUsageMakeRoom(Oid index);
extern void GjUsageAdd(Oid index, const GjIndexUse *use);
extern void GjUsageReset(Oid index);
extern void GjUsageSum(GjIndexUse *sum, TimestampTz *since);
extern int	GjUsageCopy(GjUsage **copy);
extern uint64 GjUsageEvicted(void);
extern bool GjUsageAskOnce(Oid index);
extern void GjUsageSetWaiting(Oid index, bool waits);
extern bool GjUsageIsWaiting(void);
extern bool GjUsageTakeWaiting(Oid *database, Oid *index);

/* usage.c: names and texts of fallback reasons */
extern const char *GjFallbackName(GjFallback why);
extern const char *GjFallbackText(GjFallback why);

/* progress.c: progress of folds */
extern void GjProgressInit(void);
extern void GjProgressBegin(Oid index);
extern void GjProgressPhaseBegin(GjProgressPhase phase, uint64 total);
extern void GjProgressDone(uint64 done);
extern void GjProgressEnd(void);
extern int	GjProgressSlots(void);
extern bool GjProgressGet(int place, GjProgress *progress);

#endif							/* GPUJOIN_STATS_H */
