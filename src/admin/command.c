/*-------------------------------------------------------------------------
 *
 * command.c
 *	  gpujoin_load() and gpujoin_unload().
 *
 * The owner of a table may have its indexes mirrored.  All users share the device memory: if it is
 * short, an owner's command evicts the same mirrors as a query, those that were not used within
 * the last minute; only a superuser's command evicts mirrors in use.
 *
 * While a device is still being opened, a query does not use it, but a command waits for it: users
 * that load an index just after the server has started expect the index to be loaded.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "am/am.h"
#include "base/compat.h"
#include "base/step.h"
#include "mirror/mirror.h"

PG_FUNCTION_INFO_V1(gpujoin_load);
PG_FUNCTION_INFO_V1(gpujoin_unload);

/*
 * Interval of checks whether the device is ready, another process's load has ended, or a lock of
 * folds is free
 */
#define POLL_MS					20

PG_FUNCTION_INFO_V1(gpujoin_fold);

/* The fold of an index, between two units */
typedef struct FoldTask
{
	Oid			index;
	GjFoldMode	mode;
	bool		is_folded;		/* the delta */
	int			merges;			/* begun */
	GjMerge    *merge;			/* begun and not left yet, or NULL */
	bool		is_merged;		/* only pages are left to be freed */
	int			steps;			/* of the merge */
	int64		merge_us;		/* duration of its steps */
	uint64		pages;			/* written */
} FoldTask;

/* Outcome of a unit */
typedef enum FoldUnit
{
	UNIT_DONE,					/* there is more to do */
	UNIT_BUSY,					/* another process has the fold lock */
	UNIT_MERGING,				/* another process merges the runs */
	UNIT_LAST
} FoldUnit;

static int	get_device(FunctionCallInfo fcinfo);
static uint64 load_index(Oid index_oid, int device);
static void wait_a_moment(uint32 event);
static bool unload_index(Oid index_oid, int device);
static void report_failure(Relation index, int device, GjFallback why);
static const char *advice(GjFallback why, const char *reason);
static void report_no_memory(Relation index, int device, GjFallback why);
static uint64 fold_index(Oid index_oid, bool complete);
static void fold_in_units(FoldTask *task);
static FoldUnit command_perform_unit(FoldTask *task);
static FoldUnit fold_delta(FoldTask *task, Relation index);
static FoldUnit command_merge(FoldTask *task, Relation index);
static FoldUnit merge_step(FoldTask *task, Relation index);
static void command_leave_merge(FoldTask *task);
static bool has_relation_lock(void);

/*
 * gpujoin_load(regclass, device): load an index, or those of all partitions, onto a device, or that
 * device, and wait until they are there
 *
 * Returns the device memory that they take.
 */
Datum
gpujoin_load(PG_FUNCTION_ARGS)
{
	int			device = get_device(fcinfo);
	uint64		bytes = 0;
	ListCell   *lc;

	foreach(lc, GjListManagedIndexes(PG_GETARG_OID(0)))
		bytes += load_index(lfirst_oid(lc), device);
	PG_RETURN_INT64((int64) bytes);
}

/*
 * Get the device that the second argument names, or GJ_ANY_DEVICE if there is none
 */
static int
get_device(FunctionCallInfo fcinfo)
{
	int			device;

	if (PG_NARGS() < 2)
		return GJ_ANY_DEVICE;
	device = PG_GETARG_INT32(1);
	if (device < 0 || device >= GjServiceDevices())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no device %d", device),
				 errdetail("Devices are numbered from 0, in the order of gpujoin.gpu; there are "
						   "%d.", GjServiceDevices())));
	return device;
}

static uint64
load_index(Oid index_oid, int device)
{
	Relation	index = GjOpenManagedIndex(index_oid);
	GjLoadMode	mode = superuser() ? GJ_LOAD_BY_SUPERUSER : GJ_LOAD_BY_OWNER;
	GjIndexState state;
	GjMirrorKey key;
	GjMirror	mirror;
	GjFallback	result;

	for (;;)
	{
		while (GjServiceIsStarting(device))
			wait_a_moment(GjWaitEventLoad());
		result = GjMirrorLoad(index, device, mode);
		if (result != GJ_FALLBACK_LOADING)
			break;
		wait_a_moment(GjWaitEventLoad());
	}
	if (result != GJ_FALLBACK_NONE)
		report_failure(index, device, result);

	GjIndexGetState(index, &state);
	GjMirrorKeyOf(index, state.build_id, &key);
	if (GjMirrorFind(&key, -1, &mirror) < 0)
		mirror.bytes = 0;
	relation_close(index, NoLock);
	return mirror.bytes;
}

static void
wait_a_moment(uint32 event)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, POLL_MS, event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * gpujoin_unload(regclass, device): free the memory of an index, or of the indexes of all
 * partitions, on all devices, or that device; returns true if there was any
 *
 * A mirror that another process is loading is freed when the load ends.
 */
Datum
gpujoin_unload(PG_FUNCTION_ARGS)
{
	int			device = get_device(fcinfo);
	bool		found = false;
	ListCell   *lc;

	foreach(lc, GjListManagedIndexes(PG_GETARG_OID(0)))
		found |= unload_index(lfirst_oid(lc), device);
	PG_RETURN_BOOL(found);
}

static bool
unload_index(Oid index_oid, int device)
{
	Relation	index = GjOpenManagedIndex(index_oid);
	GjMirrorKey key;
	bool		found;

	GjMirrorKeyOf(index, 0, &key);
	found = GjMirrorDrop(&key, true, device);
	GjMirrorCollect();
	relation_close(index, NoLock);
	return found;
}

/*
 * Raise an error that says why an index could not be loaded, and what may help
 */
static void
report_failure(Relation index, int device, GjFallback why)
{
	const char *reason = GjFallbackText(why);
	const char *hint;

	switch (why)
	{
		case GJ_FALLBACK_NO_MEMORY:
		case GJ_FALLBACK_TOO_BIG:
			report_no_memory(index, device, why);
			break;
		case GJ_FALLBACK_SERVICE:
			if (device == GJ_ANY_DEVICE)
				(void) GjServiceReady(&reason);
			else
				(void) GjServiceDeviceReady(device, &reason);
			break;
		case GJ_FALLBACK_FAILED:
			reason = GjServiceLastError();
			break;
		default:
			break;
	}
	hint = advice(why, reason);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("could not load index \"%s\": %s", RelationGetRelationName(index), reason),
			 hint ? errhint("%s", hint) : 0));
}

/* Return a hint, or NULL */
static const char *
advice(GjFallback why, const char *reason)
{
	switch (why)
	{
		case GJ_FALLBACK_NOT_PRELOADED:
		case GJ_FALLBACK_SERVICE:
			return GjServiceHint(reason);
		case GJ_FALLBACK_TABLE_FULL:
			return "Raise gpujoin.max_mirrors, or unload another index.";
		case GJ_FALLBACK_BUSY:
			return "Raise gpujoin.max_requests, or try again when fewer searches are under way.";
		default:
			return NULL;
	}
}

static void
report_no_memory(Relation index, int device, GjFallback why)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);
	GjServiceStatus sum = {0};
	GjIndexInfo info;
	GjIndexState state;
	uint64		bytes;

	GjIndexGetInfo(index, &info);
	GjIndexGetState(index, &state);
	for (int i = 0; i < GjServiceDevices(); i++)
	{
		GjServiceStatus status;

		if (device != GJ_ANY_DEVICE && device != i)
			continue;
		GjServiceGetStatus(i, &status);
		sum.memory_budget += status.memory_budget;
		sum.memory_columns_limit += status.memory_columns_limit;
		sum.memory_columns += status.memory_columns;
	}
	bytes = GjMirrorBytes(&info, GjMirrorSlots(&info, &state),
						  Max(nblocks, info.first_data) - info.first_data);
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("could not load index \"%s\": %s", RelationGetRelationName(index),
					GjFallbackText(why)),
			 errdetail("It needs " UINT64_FORMAT " MB.  Of " UINT64_FORMAT " MB of device memory, "
					   UINT64_FORMAT " MB are for mirrors, and " UINT64_FORMAT
					   " MB of these are in use.",
					   bytes >> 20, sum.memory_budget >> 20,
					   sum.memory_columns_limit >> 20, sum.memory_columns >> 20),
			 why == GJ_FALLBACK_TOO_BIG ? errhint("Raise gpujoin.device_memory.") :
			 superuser() ?
			 errhint("Raise gpujoin.device_memory, or unload an index with the option "
					 "\"preload\".") :
			 errhint("Mirrors used within the last minute, and those of indexes with the option "
					 "\"preload\", are not evicted.")));
}

/*-------------------------------------------------------------------------
 * Folds
 *
 * gpujoin_fold(): fold an index without waiting for VACUUM.
 *
 * Only the table's owner may call it.  Its locks on table and index conflict neither with VACUUM
 * nor with CREATE INDEX; but bulk deletions and folds of an index take turns.
 *
 * It works in units, as a worker does (am/worker.c): the delta is folded, a merge is begun, a step
 * of it is performed, some freed pages are entered in the free space map.  Each unit locks the
 * table and the index, and releases them at its end.  So a process that waits for a lock on the
 * table gets it soon.  A unit only tries to get the fold lock, and the merge lock.  If another
 * process has one of them, we sleep, without our locks, and try again:
 *
 *	- The holder of the fold lock has all locks of relations that it needs until it releases it
 *	  (am/am.h).  So it does not wait for us, whatever this transaction has locked before.
 *	- A process that merges needs a lock on the table for each step, so it may wait for one that
 *	  waits for us.  We wait for its merge only if this process has no lock of any relation left;
 *	  otherwise we say that another process merges.
 *
 * Nor do we ever wait in the lock manager for an autovacuum, which PostgreSQL would then cancel.
 *-------------------------------------------------------------------------
 */

/*
 * gpujoin_fold(regclass, complete): fold an index, or those of all partitions; returns how many
 * pages were written
 */
Datum
gpujoin_fold(PG_FUNCTION_ARGS)
{
	uint64		pages = 0;
	ListCell   *lc;

	foreach(lc, GjListManagedIndexes(PG_GETARG_OID(0)))
		pages += fold_index(lfirst_oid(lc), PG_GETARG_BOOL(1));
	PG_RETURN_INT64((int64) pages);
}

static uint64
fold_index(Oid index_oid, bool complete)
{
	FoldTask   *task = palloc0(sizeof(FoldTask));

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("recovery is in progress"),
				 errhint("An index can only be folded on the primary server.")));
	task->index = index_oid;
	task->mode = complete ? GJ_FOLD_ALL : GJ_FOLD_DELTA;
	PG_TRY();
	{
		fold_in_units(task);
	}
	PG_CATCH();
	{
		command_leave_merge(task);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return task->pages;
}

static void
fold_in_units(FoldTask *task)
{
	for (;;)
	{
		FoldUnit	unit = command_perform_unit(task);

		if (unit == UNIT_LAST)
			break;
		if (unit == UNIT_MERGING && has_relation_lock())
		{
			ereport(NOTICE,
					(errmsg("another process merges index \"%s\"", get_rel_name(task->index)),
					 errdetail("New rows have been sorted.  The rest is left to that process, "
							   "which may have to wait for tables locked by this transaction."),
					 errhint("Call the function in a transaction of its own.")));
			break;
		}
		if (unit != UNIT_DONE)
			wait_a_moment(GjWaitEventFoldLock());
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Perform a unit, with locks on table and index that are released afterwards
 */
static FoldUnit
command_perform_unit(FoldTask *task)
{
	Relation	index;
	Oid			heap_oid;
	FoldUnit	unit;

	if (task->merge != NULL && !task->is_merged)
	{
		GjStep("merge paused");
		if (task->steps++ == 2)
			GjStep("two steps");
	}
	index = GjOpenManagedIndex(task->index);
	heap_oid = index->rd_index->indrelid;
	LockRelationOid(task->index, RowExclusiveLock);
	unit = task->is_folded ? command_merge(task, index) : fold_delta(task, index);
	UnlockRelationOid(task->index, RowExclusiveLock);
	relation_close(index, AccessShareLock);
	UnlockRelationOid(heap_oid, AccessShareLock);
	return unit;
}

static FoldUnit
fold_delta(FoldTask *task, Relation index)
{
	GjFoldStats stats;

	if (!GjFoldIndex(index, GJ_FOLD_DELTA, NULL, &stats))
		return UNIT_BUSY;
	task->is_folded = true;
	task->pages += stats.pages;
	return UNIT_DONE;
}

/*
 * Begin a merge if one is requested or worthwhile, or go on with it
 */
static FoldUnit
command_merge(FoldTask *task, Relation index)
{
	bool		is_busy;

	if (task->is_merged)
	{
		if (!GjMergeFree(task->merge, index))
			command_leave_merge(task);
		return UNIT_DONE;
	}
	if (task->merge != NULL)
		return merge_step(task, index);
	if (task->merges == GJ_MERGE_ROUNDS)
		return UNIT_LAST;
	if (!GjFoldTryLock(index, ExclusiveLock))
		return UNIT_BUSY;
	task->merge = GjMergeBegin(index, task->mode, NULL, &is_busy);
	GjFoldUnlock(index, ExclusiveLock);
	if (task->merge == NULL)
		return is_busy && task->mode == GJ_FOLD_ALL ? UNIT_MERGING : UNIT_LAST;
	task->merges++;
	return UNIT_DONE;
}

static FoldUnit
merge_step(FoldTask *task, Relation index)
{
	TimestampTz began = GetCurrentTimestamp();
	const GjFoldStats *stats = GjMergeGetStats(task->merge);

	if (GjMergeFindRoom(task->merge, index))
		return UNIT_DONE;
	if (!GjFoldTryLock(index, ExclusiveLock))
		return UNIT_BUSY;
	task->is_merged = !GjMergeStep(task->merge, index);
	GjFoldUnlock(index, ExclusiveLock);
	task->merge_us += GetCurrentTimestamp() - began;
	if (task->is_merged && stats->folds > 0)
	{
		GjFoldCount(index, stats, task->merge_us);
		task->pages += stats->pages;
	}
	return UNIT_DONE;
}

static void
command_leave_merge(FoldTask *task)
{
	if (task->merge != NULL)
		GjMergeLeave(task->merge);
	task->merge = NULL;
	task->is_merged = false;
	task->merge_us = 0;
	task->steps = 0;
}

/*
 * Return true if this process has a lock on any relation
 */
static bool
has_relation_lock(void)
{
	LockData   *locks = GetLockStatusData();

	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];

		if (lock->pid == MyProcPid && lock->holdMask != 0 &&
			lock->locktag.locktag_type == LOCKTAG_RELATION)
			return true;
	}
	return false;
}
