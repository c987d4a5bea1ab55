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
#include "utils/rel.h"

#include "am/am.h"
#include "base/compat.h"
#include "mirror/mirror.h"

PG_FUNCTION_INFO_V1(gpujoin_load);
PG_FUNCTION_INFO_V1(gpujoin_unload);

/* Interval of checks whether the device is ready, or another process's load has ended */
#define LOAD_POLL_MS			20

PG_FUNCTION_INFO_V1(gpujoin_fold);

static uint64 load_index(Oid index_oid);
static void wait_a_moment(void);
static bool unload_index(Oid index_oid);
static void report_failure(Relation index, GjFallback why);
static const char *advice(GjFallback why, const char *reason);
static void report_no_memory(Relation index, GjFallback why);
static uint64 fold_index(Oid index_oid, bool complete);

/*
 * gpujoin_load(regclass): load an index, or those of all partitions, onto the device and wait
 * until they are there
 *
 * Returns the device memory that they take.
 */
Datum
gpujoin_load(PG_FUNCTION_ARGS)
{
	uint64		bytes = 0;
	ListCell   *lc;

	foreach(lc, GjListManagedIndexes(PG_GETARG_OID(0)))
		bytes += load_index(lfirst_oid(lc));
	PG_RETURN_INT64((int64) bytes);
}

static uint64
load_index(Oid index_oid)
{
	Relation	index = GjOpenManagedIndex(index_oid);
	GjLoadMode	mode = superuser() ? GJ_LOAD_BY_SUPERUSER : GJ_LOAD_BY_OWNER;
	GjIndexState state;
	GjMirrorKey key;
	GjMirror	mirror;
	GjFallback	result;

	for (;;)
	{
		while (GjServiceIsStarting())
			wait_a_moment();
		result = GjMirrorLoad(index, mode);
		if (result != GJ_FALLBACK_LOADING)
			break;
		wait_a_moment();
	}
	if (result != GJ_FALLBACK_NONE)
		report_failure(index, result);

	GjIndexGetState(index, &state);
	GjMirrorKeyOf(index, state.build_id, &key);
	if (GjMirrorFind(&key, &mirror) < 0)
		mirror.bytes = 0;
	relation_close(index, NoLock);
	return mirror.bytes;
}

static void
wait_a_moment(void)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 LOAD_POLL_MS, GjWaitEventLoad());
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * gpujoin_unload(regclass): free the device memory of an index, or of the indexes of all
 * partitions; returns true if there was any
 *
 * A mirror that another process is loading is freed when the load ends.
 */
Datum
gpujoin_unload(PG_FUNCTION_ARGS)
{
	bool		found = false;
	ListCell   *lc;

	foreach(lc, GjListManagedIndexes(PG_GETARG_OID(0)))
		found |= unload_index(lfirst_oid(lc));
	PG_RETURN_BOOL(found);
}

static bool
unload_index(Oid index_oid)
{
	Relation	index = GjOpenManagedIndex(index_oid);
	GjMirrorKey key;
	bool		found;

	GjMirrorKeyOf(index, 0, &key);
	found = GjMirrorDrop(&key, true);
	GjMirrorCollect();
	relation_close(index, NoLock);
	return found;
}

/*
 * Raise an error that says why an index could not be loaded, and what may help
 */
static void
report_failure(Relation index, GjFallback why)
{
	const char *reason = GjFallbackText(why);
	const char *hint;

	switch (why)
	{
		case GJ_FALLBACK_NO_MEMORY:
		case GJ_FALLBACK_TOO_BIG:
			report_no_memory(index, why);
			break;
		case GJ_FALLBACK_SERVICE:
			(void) GjServiceReady(&reason);
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
report_no_memory(Relation index, GjFallback why)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);
	GjServiceStatus status;
	GjIndexInfo info;
	uint64		bytes;

	GjIndexGetInfo(index, &info);
	GjServiceGetStatus(&status);
	bytes = GjMirrorBytes(&info, Max(nblocks, info.first_data) - info.first_data);
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("could not load index \"%s\": %s", RelationGetRelationName(index),
					GjFallbackText(why)),
			 errdetail("It needs " UINT64_FORMAT " MB.  Of " UINT64_FORMAT " MB of device memory, "
					   UINT64_FORMAT " MB are for mirrors, and " UINT64_FORMAT
					   " MB of these are in use.",
					   bytes >> 20, status.memory_budget >> 20,
					   status.memory_columns_limit >> 20, status.memory_columns >> 20),
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
	Relation	index;
	GjFoldStats stats;

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("recovery is in progress"),
				 errhint("An index can only be folded on the primary server.")));

	index = GjOpenManagedIndex(index_oid);
	LockRelationOid(index_oid, RowExclusiveLock);

	GjFoldIndex(index, complete ? GJ_FOLD_ALL : GJ_FOLD_DELTA, NULL, &stats);
	relation_close(index, NoLock);
	return stats.pages;
}
