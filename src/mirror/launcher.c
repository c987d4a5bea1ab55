/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The launcher: has mirrors made without a query waiting for it.
 *
 * A background worker that is connected to no database, so that it is in nobody's way; it holds
 * no lock and no transaction but while it lists the databases.  It
 *
 *	  - has all indexes marked with the reloption preload looked for, in each database after a
 *		start of the server, and in one where an index was altered;
 *	  - starts a loader (loader.c) for whatever is wanted in a database, one at a time;
 *	  - has loaded again what was lost with the device's memory, and what could not be loaded
 *		(wish.c);
 *	  - looks every few seconds, and when the configuration is reloaded, for mirrors of
 *		indexes that are no more, and frees them.
 *
 * A database in which a loader fails, because it could not connect, was terminated or met an
 * error, is tried again after a time that doubles with each failure.  Others do not wait for it.
 * No loader is sent where no connection is allowed.  A reload of the configuration ends all
 * waiting.
 *
 * All of this is for comfort: without it queries load small indexes themselves, and search on
 * the CPU otherwise.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "cuda/border/gpujoin_device.h"
#include "launcher.h"
#include "table.h"

#define LAUNCHER_RESTART_S		5

/* How often the launcher looks around */
#define TICK_MS					1000
#define SWEEP_MS				5000

/* Between two loaders */
#define NEXT_LOADER_MS			100

/* What the launcher has in hand */
typedef struct Launcher
{
	uint32		epoch;			/* of the device's memory when last seen */
	GjDatabases databases;		/* those that need attention */
	BackgroundWorkerHandle *loader; /* the running one, or NULL */
	Oid			loading;		/* its database */
	GjLoaderTask task;			/* its task */
	TimestampTz next_sweep;
	TimestampTz next_loader;	/* not before this time, for whatever database */
} Launcher;

static void describe_worker(BackgroundWorker *worker, const char *function, const char *type,
							int restart_time);
static void launcher_exit(int code, Datum arg);
static void reload(Launcher *launcher);
static long launcher_step(Launcher *launcher);
static bool see_device(Launcher *launcher);
static bool is_loader_running(Launcher *launcher);
static void judge_loader(Launcher *launcher);
static void collect_requests(Launcher *launcher);
static void start_loader(Launcher *launcher, GjDatabase *database);

/*
 * Have the launcher started, if the library is being preloaded
 */
void
GjLauncherInit(void)
{
	BackgroundWorker worker;

	if (!process_shared_preload_libraries_in_progress || gj_device == GJ_DEVICE_NONE)
		return;

	describe_worker(&worker, "GjLauncherMain", "gpujoin launcher", LAUNCHER_RESTART_S);
	strlcpy(worker.bgw_name, worker.bgw_type, BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

/*
 * Fill in what the launcher and the loaders have in common as background workers
 */
static void
describe_worker(BackgroundWorker *worker, const char *function, const char *type, int restart_time)
{
	memset(worker, 0, sizeof(*worker));
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_ConsistentState;
	worker->bgw_restart_time = restart_time;
	strlcpy(worker->bgw_library_name, GJ_NAME, BGW_MAXLEN);
	strlcpy(worker->bgw_function_name, function, BGW_MAXLEN);
	strlcpy(worker->bgw_type, type, BGW_MAXLEN);
}

/*
 * Have the marked indexes of a database looked for.  Raises no error.
 */
void
GjMirrorLookForMarked(Oid database)
{
	bool		asked = false;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	gj_mirrors->preloaded = false;
	for (int i = 0; i < gj_mirrors->npreload && !asked; i++)
		asked = gj_mirrors->preload[i] == database;
	if (!asked && gj_mirrors->npreload < GJ_PRELOAD_REQUESTS)
		gj_mirrors->preload[gj_mirrors->npreload++] = database;
	else if (!asked)
		gj_mirrors->preload_all = true;
	LWLockRelease(gj_mirrors->lock);
	GjLauncherWake();
}

void
GjLauncherMain(Datum arg)
{
	Launcher	launcher = {0};

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	launcher.databases.context = AllocSetContextCreate(TopMemoryContext, "gpujoin launcher",
													   ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(launcher.databases.context);
	before_shmem_exit(launcher_exit, (Datum) 0);
	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	gj_mirrors->launcher = MyLatch;
	/* also after the end of a launcher that had more in hand than it had done */
	if (!gj_mirrors->preloaded)
		gj_mirrors->preload_all = true;
	LWLockRelease(gj_mirrors->lock);

	while (!ShutdownRequestPending)
	{
		long		pause;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
			reload(&launcher);
		pause = launcher_step(&launcher);

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 pause, GjWaitEventLauncher());
		ResetLatch(MyLatch);
	}

	/* not 0, which would mean never to start again: the server may be staying */
	proc_exit(1);
}

static void
launcher_exit(int code, Datum arg)
{
	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	gj_mirrors->launcher = NULL;
	LWLockRelease(gj_mirrors->lock);
}

static void
reload(Launcher *launcher)
{
	ListCell   *lc;

	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	launcher->next_sweep = 0;
	foreach(lc, launcher->databases.list)
		((GjDatabase *) lfirst(lc))->not_before = 0;
}

/*
 * Do what can be done without waiting; returns the ms after which to look again
 */
static long
launcher_step(Launcher *launcher)
{
	TimestampTz now = GetCurrentTimestamp();
	const char *why_not;
	GjDatabase *database;

	/* with or without a device: wishes for what is no more have no end otherwise */
	if (now >= launcher->next_sweep)
	{
		GjMirrorSweep();
		launcher->next_sweep = TimestampTzPlusMilliseconds(now, SWEEP_MS);
	}
	if (!GjServiceReady(&why_not))
		return TICK_MS;

	GjMirrorRetry(see_device(launcher));
	GjMirrorCollect();
	if (is_loader_running(launcher))
		return TICK_MS;
	judge_loader(launcher);
	collect_requests(launcher);
	if (now < launcher->next_loader)
		return NEXT_LOADER_MS;
	database = GjDatabaseChoose(&launcher->databases, now);
	if (database != NULL)
	{
		launcher->next_loader = TimestampTzPlusMilliseconds(now, NEXT_LOADER_MS);
		start_loader(launcher, database);
	}
	return TICK_MS;
}

/*
 * Is the device another one, or has it lost its memory?  Warns if it has no room at all.
 */
static bool
see_device(Launcher *launcher)
{
	GjServiceStatus status;

	if (launcher->epoch == GjServiceEpoch())
		return false;
	launcher->epoch = GjServiceEpoch();
	GjServiceGetStatus(&status);
	if (status.memory_columns_limit < GJD_EXTENT_BYTES)
		ereport(WARNING,
				(errmsg("gpujoin.device_memory leaves no room for mirrors: "
						"all searches will be done by the CPU"),
				 errdetail("Of " UINT64_FORMAT " MB of device memory, " UINT64_FORMAT
						   " MB are kept for results; a mirror takes at least "
						   UINT64_FORMAT " MB.",
						   status.memory_budget >> 20,
						   (status.memory_budget - status.memory_columns_limit) >> 20,
						   (uint64) (GJD_EXTENT_BYTES >> 20)),
				 errhint("Raise gpujoin.device_memory.")));
	return true;
}

static bool
is_loader_running(Launcher *launcher)
{
	pid_t		pid;

	if (launcher->loader == NULL)
		return false;
	if (GetBackgroundWorkerPid(launcher->loader, &pid) != BGWH_STOPPED)
		return true;
	pfree(launcher->loader);
	launcher->loader = NULL;
	return false;
}

/*
 * See whether the loader that has ended did its task
 */
static void
judge_loader(Launcher *launcher)
{
	GjDatabase *database = GjDatabaseFind(&launcher->databases, launcher->loading);
	bool		done;

	launcher->loading = InvalidOid;
	if (database == NULL)
		return;
	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	done = gj_mirrors->task_done == launcher->task.number &&
		(!launcher->task.marked || gj_mirrors->task_looked == launcher->task.number);
	LWLockRelease(gj_mirrors->lock);
	if (!done)
		GjDatabasePostpone(database);
	else
		GjDatabaseForget(&launcher->databases, database);
}

/*
 * Take over what others have asked for, and note in shared memory when all of it is done
 */
static void
collect_requests(Launcher *launcher)
{
	Oid			requests[GJ_PRELOAD_REQUESTS];
	bool		to_do = false;
	bool		all;
	int			n;
	ListCell   *lc;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	n = gj_mirrors->npreload;
	all = gj_mirrors->preload_all;
	memcpy(requests, gj_mirrors->preload, n * sizeof(Oid));
	foreach(lc, launcher->databases.list)
		to_do |= ((GjDatabase *) lfirst(lc))->marked;
	if (n == 0 && !all && !to_do)
		gj_mirrors->preloaded = true;
	gj_mirrors->npreload = 0;
	gj_mirrors->preload_all = false;
	LWLockRelease(gj_mirrors->lock);

	for (int i = 0; i < n; i++)
		GjDatabaseNeed(&launcher->databases, requests[i])->marked = true;
	if (all)
	{
		List	   *databases = GjDatabaseList(&launcher->databases, false);

		foreach(lc, databases)
			GjDatabaseNeed(&launcher->databases, lfirst_oid(lc))->marked = true;
		list_free(databases);
	}
}

/*
 * Send a loader; where that is not possible now, the database has to wait
 */
static void
start_loader(Launcher *launcher, GjDatabase *database)
{
	BackgroundWorker worker;

	if (!GjDatabaseIsListed(&launcher->databases, database->oid, true))
	{
		database->marked &= GjDatabaseIsListed(&launcher->databases, database->oid, false);
		GjDatabasePostpone(database);
		return;
	}

	launcher->loading = database->oid;
	/* drawn there, because the loader of a launcher before this one may still be at work */
	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	if (++gj_mirrors->task_sent == 0)
		gj_mirrors->task_sent = 1;
	launcher->task.number = gj_mirrors->task_sent;
	LWLockRelease(gj_mirrors->lock);
	launcher->task.marked = database->marked;

	describe_worker(&worker, "GjLoaderMain", "gpujoin loader", BGW_NEVER_RESTART);
	snprintf(worker.bgw_name, BGW_MAXLEN, "gpujoin loader for database %u", database->oid);
	worker.bgw_main_arg = ObjectIdGetDatum(database->oid);
	memcpy(worker.bgw_extra, &launcher->task, sizeof(launcher->task));
	worker.bgw_notify_pid = MyProcPid;
	if (!RegisterDynamicBackgroundWorker(&worker, &launcher->loader))
	{
		launcher->loader = NULL;
		launcher->loading = InvalidOid;
		GjDatabasePostpone(database);
	}
}
