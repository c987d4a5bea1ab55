/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  A background worker that flushes an index while rows are inserted, so that searches never
 *	  read many unsorted pages, and merges its runs.
 *
 * It is started by a request (pages/request.c) and belongs to one index.  It works in units, each
 * a transaction of its own without a snapshot.  A unit tries to lock the table, the index, and
 * folds (am.h), and performs a flush if one is due: GJ_FOLD_FLUSH of fold.c, which takes a
 * fraction of a second.  The worker never waits for any of these locks, and between two units it
 * has none of them, so a process that waits for one gets it; a process that waits for a lock on
 * the table or the index keeps the worker from getting its own.  When no flush is due, a unit is a
 * step of a merge (merge.c), if one is worthwhile.  Between two steps the worker pauses as
 * autovacuum does.  Of several workers the one with number 0 does not merge, so that one is left
 * for flushes of other indexes.  A worker ends if the database is to be dropped or copied.
 *
 * Why it is safe: a unit is a fold, or a step of a merge, and has the locks of one (fold.c,
 * merge.c).  Nothing else is kept from one unit to the next but statistics: the index is opened
 * and its state is read each time.  So whatever happens in between, an error, or the end of the
 * process, leaves at most what an interrupted fold or merge leaves.  Nothing is lost if a worker
 * does not start: its work is done by the next one, or by VACUUM.
 *
 * The worker ends when no flush is to be expected within STAY_MS.  While it lives it holds the
 * worker lock of its index and a number, so that there is one worker for each index, and at most
 * gpujoin.fold_workers.  After an error it gives up the number, but keeps the worker lock for a
 * while: otherwise it would be started again at once, and fail again.  Whenever it sleeps, and when
 * it ends, it repeats requests of other indexes that were refused, and it does not stay if one of
 * them waits for a number.
 *
 * It acts as the owner of the table, in a security-restricted operation, although a fold calls no
 * function of a user.  Settings of the database that limit time do not apply.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/step.h"
#include "stats/stats.h"
#include "am.h"

/* Interval at which the index is examined while no flush is due */
#define LOOK_MS					200

/* Time between two samples, from which the growth of the delta is estimated */
#define SAMPLE_MS				1000

/* The worker stays if a flush will be due within this time */
#define STAY_MS					10000

/* Delays before another attempt to get locks, and the time after which the worker gives up */
#define FIRST_BUSY_MS			100
#define MAX_BUSY_MS				5000
#define GIVE_UP_MS				300000

/* Time for which no other worker is started after an error */
#define PAUSE_MS				60000

/* Attempts to get the worker lock, which a request may hold for a moment, and their interval */
#define LOCK_TRIES				5
#define LOCK_RETRY_MS			10

/* Do not pause between flushes if the index has this many times the pages that are worth one */
#define BEHIND_FACTOR			2

/* Blocks to look for free pages in one unit */
#define LOOK_BLOCKS				2048

typedef enum UnitResult
{
	UNIT_DONE,					/* did some work: there may be more */
	UNIT_IDLE,					/* nothing is due */
	UNIT_BUSY,					/* a lock was not available */
	UNIT_LAST					/* the index is no longer to be folded by a worker */
} UnitResult;

typedef struct Worker
{
	Oid			index;
	int			number;			/* -1: none */
	BufferAccessStrategy strategy;

	uint64		build_id;		/* of the index in the last unit */
	uint64		flush_pages;	/* number of unsorted pages from which on a flush is due */
	uint64		unsorted;		/* unsorted pages after the last unit */
	uint64		sample;			/* an earlier number of unsorted pages */
	TimestampTz sampled_at;
	bool		is_looking;		/* true while an unfinished run's pages are being looked for */
	BlockNumber next_block;		/* next block to look at */
	bool		was_behind;		/* true once the log has said so */

	bool		may_merge;		/* false if no merge was worthwhile after the last flush */
	GjMerge    *merge;			/* the merge in progress, or NULL */
	bool		is_merged;		/* true if only pages are left to be freed */
	int64		merge_us;		/* duration of its steps */
	long		pause_ms;		/* pause after the last step, for its cost */
} Worker;

extern PGDLLEXPORT void GjFoldWorkerMain(Datum arg);

static void set_up(void);
static bool take_locks(Worker *worker);
static bool take_number(Worker *worker);
static void release_number(Worker *worker);
static void work(Worker *worker);
static UnitResult try_unit(Worker *worker);
static UnitResult perform_unit(Worker *worker);
static UnitResult open_index(Worker *worker, Relation *index);
static UnitResult fold_as_owner(Worker *worker, Relation index);
static UnitResult flush(Worker *worker, Relation index);
static UnitResult use_time(Worker *worker, Relation index);
static UnitResult advance_merge(Worker *worker, Relation index);
static void leave_merge(Worker *worker);
static long cost_delay(const BufferUsage *before, int64 images);
static bool is_needed(Worker *worker);
static void take_sample(Worker *worker);
static bool worker_is_behind(Worker *worker);
static bool sleep_for(long ms);

/*
 * The worker's main function; its argument is the index's OID
 */
void
GjFoldWorkerMain(Datum arg)
{
	Worker		worker = {.index = DatumGetObjectId(arg),.number = -1};

	set_up();
	MemoryContextSwitchTo(TopMemoryContext);
	if (!take_locks(&worker))
		return;
	worker.strategy = GetAccessStrategy(BAS_VACUUM);
	worker.may_merge = true;
	work(&worker);
	leave_merge(&worker);
	release_number(&worker);
	GjFoldRepeat(true);
}

static void
set_up(void)
{
	static const char *const timeouts[] = {GJ_TIMEOUT_SETTINGS};
	Oid			database;

	memcpy(&database, MyBgworkerEntry->bgw_extra, sizeof(Oid));
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);
	for (int i = 0; i < lengthof(timeouts); i++)
		SetConfigOption(timeouts[i], "0", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET,
					PGC_S_OVERRIDE);
	SetConfigOption("application_name", MyBgworkerEntry->bgw_name, PGC_USERSET, PGC_S_SESSION);
}

/*
 * Get the worker lock and a number, as session locks; returns false if another worker has the
 * index, or there are enough of them
 */
static bool
take_locks(Worker *worker)
{
	int			tries = 0;
	LOCKTAG		tag;

	GjFoldTag(GJ_LOCK_WORKER, worker->index, &tag);
	while (!GjLockTry(&tag, ExclusiveLock, true))
	{
		if (++tries == LOCK_TRIES || !sleep_for(LOCK_RETRY_MS))
		{
			GjUsageSetWaiting(worker->index, false);
			return false;
		}
	}
	if (take_number(worker))
	{
		GjUsageSetWaiting(worker->index, false);
		return true;
	}
	GjUsageSetWaiting(worker->index, true);
	return false;
}

static bool
take_number(Worker *worker)
{
	/* number 0, which does not merge, is the last choice */
	for (int number = gj_fold_workers - 1; number >= 0; number--)
	{
		LOCKTAG		tag;

		GjFoldTag(GJ_LOCK_NUMBER, number, &tag);
		if (!GjLockTry(&tag, ExclusiveLock, true))
			continue;
		worker->number = number;
		return true;
	}
	return false;
}

static void
release_number(Worker *worker)
{
	LOCKTAG		tag;

	if (worker->number < 0)
		return;
	GjFoldTag(GJ_LOCK_NUMBER, worker->number, &tag);
	LockRelease(&tag, ExclusiveLock, true);
	worker->number = -1;
}

/*
 * Perform units until none is to be expected
 */
static void
work(Worker *worker)
{
	long		busy_ms = 0;
	long		waited_ms = 0;

	for (;;)
	{
		TimestampTz began = GetCurrentTimestamp();
		UnitResult	result = try_unit(worker);
		long		ms = LOOK_MS;

		switch (result)
		{
			case UNIT_LAST:
				return;
			case UNIT_BUSY:
				busy_ms = busy_ms == 0 ? FIRST_BUSY_MS : Min(2 * busy_ms, MAX_BUSY_MS);
				ms = busy_ms;
				waited_ms += ms;
				if (waited_ms > GIVE_UP_MS)
					return;
				break;
			case UNIT_IDLE:
				if (!is_needed(worker) || GjFoldNumberIsWanted())
					return;
				break;
			case UNIT_DONE:
				busy_ms = waited_ms = 0;
				take_sample(worker);
				/* leave half of the time to others that want the fold lock */
				ms = Max(1, (long) (GetCurrentTimestamp() - began) / 1000);
				ms = worker_is_behind(worker) ? 1 : Max(ms, worker->pause_ms);
				break;
		}
		if (!sleep_for(ms) || worker->number >= gj_fold_workers)
			return;
	}
}

/*
 * Perform a unit.  After an error, wait, and return UNIT_LAST.
 */
static UnitResult
try_unit(Worker *worker)
{
	MemoryContext context = CurrentMemoryContext;
	volatile UnitResult result = UNIT_LAST;
	volatile bool failed = false;

	PG_TRY();
	{
		result = perform_unit(worker);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		EmitErrorReport();
		leave_merge(worker);
		AbortOutOfAnyTransaction();
		FlushErrorState();
		failed = true;
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	pgstat_report_activity(STATE_IDLE, NULL);
	if (!failed)
		return result;

	release_number(worker);
	(void) sleep_for(PAUSE_MS);
	return UNIT_LAST;
}

static UnitResult
perform_unit(Worker *worker)
{
	Relation	index;
	UnitResult	result;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	result = open_index(worker, &index);
	if (index != NULL)
	{
		result = fold_as_owner(worker, index);
		relation_close(index, NoLock);
	}
	CommitTransactionCommand();
	pgstat_report_stat(false);
	return result;
}

/*
 * Lock the table and the index, if no process waits for or has a lock that conflicts, and open the
 * index; sets it to NULL if it cannot be folded now, or not any longer
 */
static UnitResult
open_index(Worker *worker, Relation *index)
{
	Oid			heap_oid = IndexGetRelation(worker->index, true);

	*index = NULL;
	if (!OidIsValid(heap_oid))
		return UNIT_LAST;
	if (!ConditionalLockRelationOid(heap_oid, AccessShareLock) ||
		!ConditionalLockRelationOid(worker->index, RowExclusiveLock))
		return UNIT_BUSY;
	if (IndexGetRelation(worker->index, true) != heap_oid)
		return UNIT_LAST;
	*index = try_relation_open(worker->index, NoLock);
	if (*index != NULL && GjRelationIsIndex(*index) && (*index)->rd_index->indisready &&
		(*index)->rd_index->indislive && !RelationUsesLocalBuffers(*index))
		return UNIT_DONE;
	if (*index != NULL)
		relation_close(*index, NoLock);
	*index = NULL;
	return UNIT_LAST;
}

static UnitResult
fold_as_owner(Worker *worker, Relation index)
{
	int			nest_level = NewGUCNestLevel();
	UnitResult	result;
	Oid			user;
	int			context;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(index->rd_rel->relowner, context | SECURITY_RESTRICTED_OPERATION);
	GjRestrictSearchPath();
	result = flush(worker, index);
	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(user, context);
	return result;
}

/*
 * Flush the index if that is due, or do something else
 */
static UnitResult
flush(Worker *worker, Relation index)
{
	GjFoldStats stats;
	GjIndexState state;
	const char *schema;
	const char *name;

	worker->flush_pages = GjIndexFoldPages(index);
	if (worker->flush_pages == 0)
		return UNIT_LAST;
	GjIndexGetState(index, &state);
	if (state.build_id != worker->build_id)
		worker->is_looking = false;
	worker->build_id = state.build_id;
	worker->unsorted = GjStateUnsorted(&state);
	worker->pause_ms = 0;
	if (state.deltas[1].run == 0 && worker->unsorted < worker->flush_pages)
		return use_time(worker, index);

	schema = get_namespace_name(RelationGetNamespace(index));
	name = quote_qualified_identifier(schema, RelationGetRelationName(index));
	pgstat_report_activity(STATE_RUNNING, psprintf("flush of index %s", name));
	/* from here on, VACUUM may remove rows that have died meanwhile */
	InvalidateCatalogSnapshot();
	if (!GjFoldIndex(index, GJ_FOLD_FLUSH, worker->strategy, &stats))
		return UNIT_BUSY;
	if (stats.forgotten)
	{
		worker->is_looking = true;
		worker->next_block = 0;
	}
	GjIndexGetState(index, &state);
	worker->unsorted = GjStateUnsorted(&state);
	ereport(DEBUG1,
			(errmsg_internal("flushed index \"%s\": " UINT64_FORMAT " entries, " UINT64_FORMAT
							 " pages", RelationGetRelationName(index), stats.entries,
							 stats.pages)));
	worker->may_merge = true;
	if (stats.folds > 0 || stats.forgotten)
		return UNIT_DONE;
	/* another process was faster, or there are no numbers for runs left */
	return worker->unsorted < worker->flush_pages ? UNIT_IDLE : UNIT_LAST;
}

/*
 * While no flush is due, perform a step of a merge, or look for some of the free pages of an
 * unfinished fold
 */
static UnitResult
use_time(Worker *worker, Relation index)
{
	UnitResult	result = UNIT_IDLE;

	if (GjFoldNumberMerges(worker->number))
		result = advance_merge(worker, index);
	if (result == UNIT_IDLE && worker->is_looking)
	{
		worker->is_looking = GjFoldFindFree(index, &worker->next_block, LOOK_BLOCKS,
											worker->strategy);
		return UNIT_DONE;
	}
	return result;
}

/*
 * Begin a merge if one is worthwhile, or perform its next step
 */
static UnitResult
advance_merge(Worker *worker, Relation index)
{
	BufferUsage before = pgBufferUsage;
	int64		images = pgWalUsage.wal_fpi;
	TimestampTz began = GetCurrentTimestamp();

	if (worker->merge == NULL && !worker->may_merge)
		return UNIT_IDLE;
	if (worker->merge != NULL && worker->is_merged)
	{
		if (GjMergeFree(worker->merge, index))
			return UNIT_DONE;
		leave_merge(worker);
		return UNIT_DONE;
	}

	pgstat_report_activity(STATE_RUNNING, psprintf("merge of index %s",
												   RelationGetRelationName(index)));
	InvalidateCatalogSnapshot();
	if (!GjFoldTryLock(index, ExclusiveLock))
		return UNIT_BUSY;
	if (worker->merge == NULL)
	{
		bool		is_busy;

		worker->merge = GjMergeBegin(index, GJ_FOLD_FLUSH, worker->strategy, &is_busy);
		worker->may_merge = worker->merge != NULL;
		worker->is_merged = false;
		worker->merge_us = 0;
	}
	else
		worker->is_merged = !GjMergeStep(worker->merge, index);
	GjFoldUnlock(index, ExclusiveLock);
	worker->merge_us += GetCurrentTimestamp() - began;
	if (worker->is_merged && GjMergeGetStats(worker->merge)->folds > 0)
		GjFoldCount(index, GjMergeGetStats(worker->merge), worker->merge_us);
	worker->pause_ms = cost_delay(&before, images);
	return worker->merge != NULL ? UNIT_DONE : UNIT_IDLE;
}

static void
leave_merge(Worker *worker)
{
	if (worker->merge != NULL)
		GjMergeLeave(worker->merge);
	worker->merge = NULL;
}

/*
 * Return the pause, in milliseconds, that autovacuum would have made for the use of buffers since.
 * Each page that was written counts as dirtied, even if it had not been clean.
 */
static long
cost_delay(const BufferUsage *before, int64 images)
{
	int64		dirtied = pgBufferUsage.shared_blks_dirtied - before->shared_blks_dirtied;
	double		delay = autovacuum_vac_cost_delay;
	int			limit = autovacuum_vac_cost_limit;
	double		cost;

	if (delay < 0)
		delay = VacuumCostDelay;
	if (limit <= 0)
		limit = VacuumCostLimit;
	cost = (double) (pgBufferUsage.shared_blks_hit - before->shared_blks_hit) * VacuumCostPageHit +
		(double) (pgBufferUsage.shared_blks_read - before->shared_blks_read) * VacuumCostPageMiss +
		(double) Max(dirtied, pgWalUsage.wal_fpi - images) * VacuumCostPageDirty;
	return (long) (delay * cost / limit);
}

/*
 * Return true if a flush is due, or will be soon if the number of unsorted pages grows as it did
 * since the last sample
 */
static bool
is_needed(Worker *worker)
{
	TimestampTz elapsed = GetCurrentTimestamp() - worker->sampled_at;
	uint64		grown = worker->unsorted - Min(worker->sample, worker->unsorted);

	if (elapsed < SAMPLE_MS * INT64CONST(1000))
		return true;
	take_sample(worker);
	return worker->unsorted >= worker->flush_pages ||
		worker->unsorted + grown * STAY_MS * 1000 / elapsed >= worker->flush_pages;
}

static void
take_sample(Worker *worker)
{
	worker->sample = worker->unsorted;
	worker->sampled_at = GetCurrentTimestamp();
}

/*
 * Return true if rows are inserted faster than the worker sorts them, and log that once
 */
static bool
worker_is_behind(Worker *worker)
{
	if (worker->unsorted < BEHIND_FACTOR * worker->flush_pages)
		return false;
	if (!worker->was_behind)
		ereport(LOG,
				(errmsg("index %u is behind: rows are inserted faster than a worker sorts them",
						worker->index),
				 errdetail("It has " UINT64_FORMAT " pages of unsorted rows.",
						   worker->unsorted)));
	worker->was_behind = true;
	return true;
}

/*
 * Sleep, and reload the configuration if requested; returns false if the worker must end because
 * a process waits for the database
 */
static bool
sleep_for(long ms)
{
	while (ms > 0)
	{
		long		part = Min(ms, LOOK_MS);

		if (GjDatabaseIsWanted())
			return false;
		GjFoldRepeat(false);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, part,
						 GjWaitEventFoldWorker());
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		ms -= part;
	}
	return true;
}
