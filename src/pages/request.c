/*-------------------------------------------------------------------------
 *
 * request.c
 *	  Asking for a background worker that folds an index: am/worker.c.
 *
 * A process that meets many unsorted pages asks: an insertion that has opened a page of the delta,
 * once the delta has GjIndexFoldPages(), and a search that has read twice as many, in case the
 * insertions' requests were lost.  VACUUM asks if a merge is due (am/merge.c).  A request registers
 * a dynamic background worker, also without preloading.  It never waits, and does not fail if the
 * lock table is full: it only tries locks (GjLockTry()).  If there is no room for a worker, a
 * counter tells, and VACUUM folds later.
 *
 * At most one worker folds an index: it holds the index's worker lock.  All workers of the server
 * have numbers, below gpujoin.fold_workers, which are locks, too.  A request is dropped if the
 * index has a worker, or no number is free.  To test that, it takes the lock in share mode for a
 * moment; a worker that starts just then tries again.
 *
 * It takes a worker some 10 ms to start and get its lock.  Of all sessions that meet the unsorted
 * pages meanwhile, one registers a worker: the time of the last request is in shared memory, until
 * a worker has come (stats/usage.c).  Without preloading, each session knows only its own requests;
 * so at first only few insertions ask (ASKING_PAGES), from twice the pages on all of them.
 *
 * A process repeats its request for the same delta after 1 s, 2 s, 4 s, and so on up to 60 s.
 * But there may be no further insertion.  So a request that is refused, because all numbers or all
 * of the server's worker processes are taken, is remembered (stats/usage.c), and repeated by others
 * (GjFoldRepeat()): by workers while they sleep and when they end, by the launcher, and by any
 * process that uses one of our indexes.  A worker that has got its index's lock and a number ends
 * the waiting.  An idle worker ends if a request waits for its number.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "stats/stats.h"
#include "pages.h"

/* Delays before a request is repeated */
#define FIRST_DELAY_MS			1000
#define MAX_DELAY_MS			60000

/* Minimum delay between two times that a process repeats other processes' requests */
#define REPEAT_MS				1000

/* Number of pages, of those from one flush's worth to two, whose opening makes an insertion ask */
#define ASKING_PAGES			8

/* Number of deltas for which a process knows when it asked; others take the place of the oldest */
#define REMEMBERED				16

typedef struct Asked
{
	uint64		build_id;
	uint32		delta;
	int			delay;			/* ms */
	TimestampTz next;			/* no request before this time */
} Asked;

static Asked asked[REMEMBERED];
static uint32 nasked = 0;

static bool may_have_worker(Relation index);
static bool request_worker(Relation index, bool merges);
static bool is_time(const GjIndexState *state);
static bool lock_is_free(const LOCKTAG *tag);
static bool has_free_number(bool merges);
static bool start_worker(Oid database, Oid index);

/*
 * Request a worker if the delta has at least this many times GjIndexFoldPages(), or, with a factor
 * of 0, for a merge.  Returns true if one is started that will do it.
 *
 * The state is a recent one.  No page must be locked.
 */
bool
GjFoldRequest(Relation index, const GjIndexState *state, int factor)
{
	uint64		unsorted = GjStateUnsorted(state);
	BlockNumber fold_pages;

	if (GjUsageIsWaiting())
		GjFoldRepeat(false);
	/* most searches end here, without the index's length */
	if (unsorted < (uint64) factor || !may_have_worker(index))
		return false;
	fold_pages = GjIndexFoldPages(index);
	if (unsorted < (uint64) fold_pages * factor ||
		(factor == 1 && unsorted < 2 * (uint64) fold_pages &&
		 unsorted % Max(1, fold_pages / ASKING_PAGES) != 0))
		return false;
	return (factor == 0 || is_time(state)) && !GjFoldHasWorker(index) &&
		request_worker(index, factor == 0);
}

/*
 * Return true if a worker may be started for an index by this process
 */
static bool
may_have_worker(Relation index)
{
	return IsUnderPostmaster && !IsBinaryUpgrade && !IsParallelWorker() &&
		!RecoveryInProgress() && gj_fold_workers > 0 && !RelationUsesLocalBuffers(index) &&
		!GjRelationIsNew(index) && GjIndexFoldPages(index) > 0;
}

/*
 * Have a worker started, for a merge or for a flush.  The latter is repeated if it is refused;
 * VACUUM merges by itself then.
 */
static bool
request_worker(Relation index, bool merges)
{
	GjIndexUse	use = {0};
	bool		is_started;

	GjUsageMakeRoom(RelationGetRelid(index));
	if (!GjUsageAskOnce(RelationGetRelid(index)) && !merges)
		return false;
	use.n[GJ_USE_REQUESTS] = 1;
	is_started = has_free_number(merges) && start_worker(MyDatabaseId, RelationGetRelid(index));
	use.n[GJ_USE_REFUSED] = is_started ? 0 : 1;
	GjUsageAdd(RelationGetRelid(index), &use);
	if (!is_started && !merges)
		GjUsageSetWaiting(RelationGetRelid(index), true);
	return is_started;
}

/*
 * Repeat a refused request, of any process and database, if there is room for a worker now
 *
 * A process does so once in REPEAT_MS, or at once if it has made room.
 */
void
GjFoldRepeat(bool at_once)
{
	static TimestampTz next = 0;
	TimestampTz now;
	Oid			database;
	Oid			index;

	if (!IsUnderPostmaster || !GjUsageIsWaiting())
		return;
	now = GetCurrentTimestamp();
	if (now < next && !at_once)
		return;
	next = TimestampTzPlusMilliseconds(now, REPEAT_MS);
	if (has_free_number(false) && GjUsageTakeWaiting(&database, &index))
		(void) start_worker(database, index);
}

/*
 * Return true if a request waits, and all numbers are taken
 */
bool
GjFoldNumberIsWanted(void)
{
	return GjUsageIsWaiting() && !has_free_number(false);
}

/*
 * Return true if a worker is folding an index
 */
bool
GjFoldHasWorker(Relation index)
{
	LOCKTAG		tag;

	GjFoldTag(GJ_LOCK_WORKER, RelationGetRelid(index), &tag);
	return !lock_is_free(&tag);
}

/*
 * Get the tag of a lock of an index of this database, or of a number, which is the same in all
 * databases
 *
 * These are user locks: a process that exits outside of a transaction releases no others, and the
 * locks of PostgreSQL's own access methods are not touched.  PostgreSQL's functions use user locks
 * of another type.
 */
void
GjFoldTag(GjFoldLockKind kind, uint32 index_or_number, LOCKTAG *tag)
{
	tag->locktag_field1 = kind == GJ_LOCK_NUMBER ? InvalidOid : MyDatabaseId;
	tag->locktag_field2 = index_or_number;
	tag->locktag_field3 = GJ_MAGIC;
	tag->locktag_field4 = kind;
	tag->locktag_type = LOCKTAG_USERLOCK;
	tag->locktag_lockmethodid = USER_LOCKMETHOD;
}

/*
 * Return true if a process wants to drop or copy this database
 *
 * DROP DATABASE and CREATE DATABASE ... TEMPLATE lock the database and then wait a few seconds
 * for its sessions to end; no other command holds that lock for long.
 */
bool
GjDatabaseIsWanted(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	if (!GjLockTry(&tag, RowExclusiveLock, true))
		return true;
	LockRelease(&tag, RowExclusiveLock, true);
	return false;
}

/*
 * Return true if this process has not asked for the same delta just now
 */
static bool
is_time(const GjIndexState *state)
{
	TimestampTz now = GetCurrentTimestamp();
	Asked	   *one = NULL;

	for (int i = 0; i < Min(nasked, REMEMBERED) && one == NULL; i++)
	{
		if (asked[i].build_id == state->build_id && asked[i].delta == state->deltas[0].run)
			one = &asked[i];
	}
	if (one == NULL)
	{
		one = &asked[nasked++ % REMEMBERED];
		*one = (Asked) {state->build_id, state->deltas[0].run, FIRST_DELAY_MS};
	}
	else if (now < one->next)
		return false;
	else
		one->delay = Min(2 * one->delay, MAX_DELAY_MS);
	one->next = TimestampTzPlusMilliseconds(now, one->delay);
	return true;
}

/*
 * Return true if no process has the lock, not even this one.  The launcher asks outside of a
 * transaction, so the lock is taken for the session.
 */
static bool
lock_is_free(const LOCKTAG *tag)
{
	/* a process's locks do not conflict with each other */
	if (GjLockIsHeld(tag, ExclusiveLock) || !GjLockTry(tag, ShareLock, true))
		return false;
	LockRelease(tag, ShareLock, true);
	return true;
}

/*
 * Return true if a worker could get a number, with which it merges if that is wanted
 */
static bool
has_free_number(bool merges)
{
	for (int number = 0; number < gj_fold_workers; number++)
	{
		LOCKTAG		tag;

		if (merges && !GjFoldNumberMerges(number))
			continue;
		GjFoldTag(GJ_LOCK_NUMBER, number, &tag);
		if (lock_is_free(&tag))
			return true;
	}
	return false;
}

/*
 * Register a worker; returns false if max_worker_processes are registered already
 */
static bool
start_worker(Oid database, Oid index)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION |
		GJ_WORKER_IS_INTERRUPTIBLE;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, GJ_NAME, BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "GjFoldWorkerMain", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "gpujoin fold worker", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN, "gpujoin fold worker for index %u", index);
	worker.bgw_main_arg = ObjectIdGetDatum(index);
	memcpy(worker.bgw_extra, &database, sizeof(Oid));
	return RegisterDynamicBackgroundWorker(&worker, NULL);
}
