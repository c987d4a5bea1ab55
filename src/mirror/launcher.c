/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The launcher: starts the loading of mirrors, so that no query has to wait for it.
 *
 * This is a background worker without a database connection, so that it does not block commands
 * on databases; it holds no lock and no transaction except while it lists the databases.  It
 *
 *	  - has each database searched for indexes with the reloption preload after a start of the
 *		server, and again if an index there was altered;
 *	  - starts a loader (loader.c) for mirrors wanted in a database, one at a time;
 *	  - has mirrors loaded again that were lost with the device's memory, or that could not be
 *		loaded (registry.c);
 *	  - repeats requests for fold workers that were refused (GjFoldRepeat() in pages/);
 *	  - looks every few seconds, and when the configuration is reloaded, for mirrors of indexes
 *		that do not exist any more, and frees them.
 *
 * If a loader fails in a database, because it could not connect, was terminated or had an error,
 * the launcher tries again after a delay that doubles with each failure.  Other databases do not
 * wait for it.  No loader is started in databases that do not allow connections.  A reload of
 * the configuration ends all delays.
 *
 * None of this is essential: without it, queries load small indexes themselves, and otherwise
 * search on the CPU.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/settings.h"
#include "cuda/border/gpujoin_device.h"
#include "table.h"

#define LAUNCHER_RESTART_S		5

/* Intervals between checks */
#define TICK_MS					1000
#define SWEEP_MS				5000

/* Delay between two loaders */
#define NEXT_LOADER_MS			100

/* Delay for a database after a loader has failed; doubled each time up to MAX_RETRY_MS */
#define FIRST_RETRY_MS			2000
#define MAX_RETRY_MS			60000

/* A database that needs attention */
typedef struct Database
{
	Oid			oid;
	bool		marked;			/* true if marked indexes must be searched for */
	int			failures;		/* number of consecutive failures of loaders */
	TimestampTz not_before;
} Database;

typedef struct Databases
{
	MemoryContext context;
	List	   *list;			/* of Database */
} Databases;

/* State of the launcher */
typedef struct Launcher
{
	uint32		epochs[GJ_MAX_DEVICES]; /* of the devices' memory when last seen */
	Databases	databases;		/* databases that need attention */
	BackgroundWorkerHandle *loader; /* the running one, or NULL */
	Oid			loading;		/* database of that loader */
	GjLoaderTask task;			/* task of that loader */
	TimestampTz next_sweep;
	TimestampTz next_loader;	/* earliest start of the next one, in any database */
} Launcher;

static void describe_worker(BackgroundWorker *worker, const char *function, const char *type,
							int restart_time);
static void launcher_exit(int code, Datum arg);
static void reload_launcher(Launcher *launcher);
static long launcher_step(Launcher *launcher);
static bool see_devices(Launcher *launcher);
static bool see_device(Launcher *launcher, int device);
static bool is_loader_running(Launcher *launcher);
static void judge_loader(Launcher *launcher);
static void collect_requests(Launcher *launcher);
static void start_loader(Launcher *launcher, Database *database);
static List *list_databases(Databases *databases, bool only_open);
static Database *find_database(Databases *databases, Oid oid);
static Database *need_database(Databases *databases, Oid oid);
static Database *choose_database(Databases *databases, TimestampTz now);
static void postpone(Database *database);
static bool is_listed_database(Databases *databases, Oid oid, bool only_open);
static void forget_database(Databases *databases, Database *database);

/*
 * Register the launcher, if the library is being preloaded
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
 * Fill in the properties that the launcher and the loaders share as background workers
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
	/* also if a previous launcher has ended with work left */
	if (!gj_mirrors->preloaded)
		gj_mirrors->preload_all = true;
	LWLockRelease(gj_mirrors->lock);

	while (!ShutdownRequestPending)
	{
		long		pause;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
			reload_launcher(&launcher);
		pause = launcher_step(&launcher);

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 pause, GjWaitEventLauncher());
		ResetLatch(MyLatch);
	}

	/* not 0, which would prevent a restart: the server may keep running */
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
reload_launcher(Launcher *launcher)
{
	ListCell   *lc;

	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	launcher->next_sweep = 0;
	foreach(lc, launcher->databases.list)
		((Database *) lfirst(lc))->not_before = 0;
}

/*
 * Do all work that needs no waiting; returns the delay in ms until the next call
 */
static long
launcher_step(Launcher *launcher)
{
	TimestampTz now = GetCurrentTimestamp();
	const char *why_not;
	Database   *database;

	GjFoldRepeat(false);
	/* also without a device: otherwise wishes for dropped indexes would never end */
	if (now >= launcher->next_sweep)
	{
		GjMirrorSweep();
		launcher->next_sweep = TimestampTzPlusMilliseconds(now, SWEEP_MS);
	}
	if (!GjServiceReady(&why_not))
		return TICK_MS;

	GjMirrorRetry(see_devices(launcher));
	GjMirrorCollect();
	if (is_loader_running(launcher))
		return TICK_MS;
	judge_loader(launcher);
	collect_requests(launcher);
	if (now < launcher->next_loader)
		return NEXT_LOADER_MS;
	database = choose_database(&launcher->databases, now);
	if (database != NULL)
	{
		launcher->next_loader = TimestampTzPlusMilliseconds(now, NEXT_LOADER_MS);
		start_loader(launcher, database);
	}
	return TICK_MS;
}

/*
 * Return true if a device that is ready is a different one, or has lost its memory
 */
static bool
see_devices(Launcher *launcher)
{
	bool		is_new = false;

	for (int device = 0; device < GjServiceDevices(); device++)
		is_new |= GjServiceDeviceReady(device, NULL) && see_device(launcher, device);
	return is_new;
}

/*
 * Return true if this device is a different one, or has lost its memory.  Warns if it has no room
 * at all.
 */
static bool
see_device(Launcher *launcher, int device)
{
	GjServiceStatus status;

	if (launcher->epochs[device] == GjServiceEpoch(device))
		return false;
	launcher->epochs[device] = GjServiceEpoch(device);
	GjServiceGetStatus(device, &status);
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
 * Check whether the loader that has ended did its task
 */
static void
judge_loader(Launcher *launcher)
{
	Database   *database = find_database(&launcher->databases, launcher->loading);
	bool		done;

	launcher->loading = InvalidOid;
	if (database == NULL)
		return;
	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	done = gj_mirrors->task_done == launcher->task.number &&
		(!launcher->task.marked || gj_mirrors->task_looked == launcher->task.number);
	LWLockRelease(gj_mirrors->lock);
	if (!done)
		postpone(database);
	else
		forget_database(&launcher->databases, database);
}

/*
 * Accept requests of other processes, and record in shared memory when all of them are done
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
		to_do |= ((Database *) lfirst(lc))->marked;
	if (n == 0 && !all && !to_do)
		gj_mirrors->preloaded = true;
	gj_mirrors->npreload = 0;
	gj_mirrors->preload_all = false;
	LWLockRelease(gj_mirrors->lock);

	for (int i = 0; i < n; i++)
		need_database(&launcher->databases, requests[i])->marked = true;
	if (all)
	{
		List	   *databases = list_databases(&launcher->databases, false);

		foreach(lc, databases)
			need_database(&launcher->databases, lfirst_oid(lc))->marked = true;
		list_free(databases);
	}
}

/*
 * Start a loader; if that is not possible now, the database has to wait
 */
static void
start_loader(Launcher *launcher, Database *database)
{
	BackgroundWorker worker;

	if (!is_listed_database(&launcher->databases, database->oid, true))
	{
		database->marked &= is_listed_database(&launcher->databases, database->oid, false);
		postpone(database);
		return;
	}

	launcher->loading = database->oid;
	/* numbered in shared memory, because a previous launcher's loader may still be running */
	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	if (++gj_mirrors->task_sent == 0)
		gj_mirrors->task_sent = 1;
	launcher->task.number = gj_mirrors->task_sent;
	LWLockRelease(gj_mirrors->lock);
	launcher->task.marked = database->marked;

	describe_worker(&worker, "GjLoaderMain", "gpujoin loader", BGW_NEVER_RESTART);
	worker.bgw_flags |= GJ_WORKER_IS_INTERRUPTIBLE;
	snprintf(worker.bgw_name, BGW_MAXLEN, "gpujoin loader for database %u", database->oid);
	worker.bgw_main_arg = ObjectIdGetDatum(database->oid);
	memcpy(worker.bgw_extra, &launcher->task, sizeof(launcher->task));
	worker.bgw_notify_pid = MyProcPid;
	if (!RegisterDynamicBackgroundWorker(&worker, &launcher->loader))
	{
		launcher->loader = NULL;
		launcher->loading = InvalidOid;
		postpone(database);
	}
}

/*-------------------------------------------------------------------------
 * Databases that need attention
 *
 * A database needs attention if loaders have work there, or have failed there.
 *-------------------------------------------------------------------------
 */

/*
 * List all databases except templates that do not allow connections; or only those that allow
 * connections
 */
static List *
list_databases(Databases *databases, bool only_open)
{
	List	   *result = NIL;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext old;

		if (!form->datallowconn && (only_open || form->datistemplate))
			continue;
#ifdef DATCONNLIMIT_INVALID_DB
		if (form->datconnlimit == DATCONNLIMIT_INVALID_DB)
			continue;
#endif
		old = MemoryContextSwitchTo(databases->context);
		result = lappend_oid(result, form->oid);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(databases->context);
	return result;
}

/*
 * Find a database among those that need attention; returns NULL if it is not there
 */
static Database *
find_database(Databases *databases, Oid oid)
{
	ListCell   *lc;

	foreach(lc, databases->list)
	{
		Database   *database = lfirst(lc);

		if (database->oid == oid)
			return database;
	}
	return NULL;
}

/*
 * Find a database, or add it to those that need attention
 */
static Database *
need_database(Databases *databases, Oid oid)
{
	Database   *database = find_database(databases, oid);

	if (database == NULL)
	{
		database = palloc0(sizeof(Database));
		database->oid = oid;
		databases->list = lappend(databases->list, database);
	}
	return database;
}

/*
 * Choose a database that has work to do now; returns NULL if no database has
 */
static Database *
choose_database(Databases *databases, TimestampTz now)
{
	GjMirror	mirror;
	ListCell   *lc;

	foreach(lc, databases->list)
	{
		Database   *database = lfirst(lc);

		if (database->marked && database->not_before <= now)
			return database;
	}
	for (int place = 0; place < gj_mirrors->high; place++)
	{
		Database   *database;

		if (!GjMirrorGet(place, &mirror, NULL) || mirror.state != GJ_MIRROR_WANTED ||
			mirror.owner != 0)
			continue;
		database = need_database(databases, mirror.key.database);
		if (database->not_before <= now)
			return database;
	}

	/* forget databases where a loader failed earlier, but nothing is wanted now */
	foreach(lc, databases->list)
	{
		Database   *database = lfirst(lc);

		if (database->marked || database->not_before > now)
			continue;
		databases->list = foreach_delete_current(databases->list, lc);
		pfree(database);
	}
	return NULL;
}

/*
 * Delay work in a database where a loader has failed, or could not be started
 */
static void
postpone(Database *database)
{
	int			delay = FIRST_RETRY_MS;

	for (int i = 0; i < database->failures && delay < MAX_RETRY_MS; i++)
		delay *= 2;
	database->failures++;
	database->not_before = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
													   Min(delay, MAX_RETRY_MS));
}

/*
 * Return true if the database is listed
 */
static bool
is_listed_database(Databases *databases, Oid oid, bool only_open)
{
	List	   *list = list_databases(databases, only_open);
	bool		found = list_member_oid(list, oid);

	list_free(list);
	return found;
}

/*
 * Remove a database that needs no attention any more
 */
static void
forget_database(Databases *databases, Database *database)
{
	databases->list = list_delete_ptr(databases->list, database);
	pfree(database);
}
