/*-------------------------------------------------------------------------
 *
 * preload.c
 *	  Having mirrors made without a query waiting for it: the launcher, and the
 *	  loaders that it starts.
 *
 * The launcher is a background worker that is connected to no database, so that it is in
 * nobody's way; it holds no lock and no transaction but while it lists the databases.  It
 *
 *	  - asks once after a start of the server for all indexes marked with the reloption
 *		preload, by sending a loader into each database;
 *	  - asks again for all mirrors that there were when the device has lost its memory;
 *	  - starts a loader for whatever is wanted in a database, one at a time;
 *	  - looks every few seconds, and when the configuration is reloaded, for mirrors of
 *		indexes that are no more, and frees them.
 *
 * A loader is connected to one database, loads what is wanted there and ends.  It gives
 * way to DROP, TRUNCATE, DROP DATABASE and the like (mirrorload.c).  What it cannot load
 * it does not try again; a query that misses the mirror will ask anew.
 *
 * All of this is for comfort: without it queries load small indexes themselves, and
 * search on the CPU otherwise.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "gpujoin.h"
#include "mirrortable.h"

#define LAUNCHER_RESTART_S		5

/* How often the launcher looks around */
#define TICK_MS					1000
#define SWEEP_MS				5000

/* A loader that cannot connect ends at once: the next one waits, the same one longer */
#define NEXT_LOADER_MS			100
#define SAME_LOADER_MS			2000

/* bgw_extra of a loader */
typedef struct LoaderTask
{
	bool		marked;			/* ask for all marked indexes first */
} LoaderTask;

/* What the launcher has in hand */
typedef struct Launcher
{
	MemoryContext context;
	uint32		epoch;			/* of the device's memory when last seen */
	List	   *to_preload;		/* databases still to be looked into */
	BackgroundWorkerHandle *loader; /* the running one, or NULL */
	TimestampTz next_sweep;
	Oid			last_wanted;	/* database of the last loader that was wanted */
	TimestampTz next_loader;	/* not before this time, for whatever database */
	TimestampTz same_loader;	/* not before this time, for the same one */
} Launcher;

static void launcher_exit(int code, Datum arg);
static void launcher_step(Launcher *launcher);
static bool is_loader_running(Launcher *launcher);
static List *list_databases(MemoryContext context);
static Oid	find_wanted_database(Oid but_for);
static void start_loader(Launcher *launcher, Oid database, bool marked);
static void want_marked_indexes(void);
static Relation open_if_free(Oid index_oid, bool *is_locked);
static void want_index(Oid index_oid);
static void load_wanted(int slot, const GjMirror *wanted);

/*
 * Have the launcher started, if the library is being preloaded
 */
void
GjPreloadInit(void)
{
	BackgroundWorker worker;

	if (!process_shared_preload_libraries_in_progress || gj_device == GJ_DEVICE_NONE)
		return;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = LAUNCHER_RESTART_S;
	strlcpy(worker.bgw_library_name, GJ_NAME, BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "GjLauncherMain", BGW_MAXLEN);
	strlcpy(worker.bgw_name, "gpujoin launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "gpujoin launcher", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

/*
 * Tell the launcher that there is something to do
 */
void
GjPreloadWake(void)
{
	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	if (gj_mirrors->launcher != NULL && gj_mirrors->launcher != MyLatch)
		SetLatch(gj_mirrors->launcher);
	LWLockRelease(gj_mirrors->lock);
}

/* The launcher ------------------------------------------------------------------------ */

void
GjLauncherMain(Datum arg)
{
	Launcher	launcher = {0};

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	launcher.context = AllocSetContextCreate(TopMemoryContext, "gpujoin launcher",
											 ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(launcher.context);
	before_shmem_exit(launcher_exit, (Datum) 0);
	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	gj_mirrors->launcher = MyLatch;
	LWLockRelease(gj_mirrors->lock);

	while (!ShutdownRequestPending)
	{
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			launcher.next_sweep = 0;
		}
		launcher_step(&launcher);

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 TICK_MS, PG_WAIT_EXTENSION);
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

/*
 * Do what can be done without waiting
 */
static void
launcher_step(Launcher *launcher)
{
	const char *why_not;
	TimestampTz now = GetCurrentTimestamp();
	Oid			database;

	if (!GjServiceReady(&why_not))
		return;

	if (launcher->epoch != GjServiceEpoch())
	{
		launcher->epoch = GjServiceEpoch();
		GjMirrorRequeue();
	}
	if (now >= launcher->next_sweep)
	{
		GjMirrorSweep();
		launcher->next_sweep = TimestampTzPlusMilliseconds(now, SWEEP_MS);
	}
	GjMirrorCollect();
	GjMirrorRetry();

	if (is_loader_running(launcher))
		return;
	if (!gj_mirrors->preloaded)
	{
		launcher->to_preload = list_databases(launcher->context);
		gj_mirrors->preloaded = true;
	}
	if (launcher->to_preload != NIL)
	{
		database = linitial_oid(launcher->to_preload);
		launcher->to_preload = list_delete_first(launcher->to_preload);
		start_loader(launcher, database, true);
		return;
	}
	if (now < launcher->next_loader)
		return;
	database = find_wanted_database(now < launcher->same_loader ?
									launcher->last_wanted : InvalidOid);
	if (OidIsValid(database))
	{
		launcher->last_wanted = database;
		launcher->next_loader = TimestampTzPlusMilliseconds(now, NEXT_LOADER_MS);
		launcher->same_loader = TimestampTzPlusMilliseconds(now, SAME_LOADER_MS);
		start_loader(launcher, database, false);
	}
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

static List *
list_databases(MemoryContext context)
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

		if (!form->datallowconn)
			continue;
#ifdef DATCONNLIMIT_INVALID_DB
		if (form->datconnlimit == DATCONNLIMIT_INVALID_DB)
			continue;
#endif
		old = MemoryContextSwitchTo(context);
		result = lappend_oid(result, form->oid);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	return result;
}

/*
 * Find a database, but for one, of which a mirror is wanted
 */
static Oid
find_wanted_database(Oid but_for)
{
	GjMirror	mirror;

	for (int slot = 0; slot < gj_mirrors->high; slot++)
	{
		if (GjMirrorGet(slot, &mirror, NULL) && mirror.state == GJ_MIRROR_WANTED &&
			mirror.owner == 0 && mirror.key.database != but_for)
			return mirror.key.database;
	}
	return InvalidOid;
}

/*
 * Start a loader; without a free worker slot it is tried again at the next tick
 */
static void
start_loader(Launcher *launcher, Oid database, bool marked)
{
	BackgroundWorker worker;
	LoaderTask	task = {.marked = marked};

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, GJ_NAME, BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "GjLoaderMain", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN, "gpujoin loader for database %u", database);
	strlcpy(worker.bgw_type, "gpujoin loader", BGW_MAXLEN);
	worker.bgw_main_arg = ObjectIdGetDatum(database);
	memcpy(worker.bgw_extra, &task, sizeof(task));
	worker.bgw_notify_pid = MyProcPid;
	if (RegisterDynamicBackgroundWorker(&worker, &launcher->loader))
		return;

	launcher->loader = NULL;
	if (marked)
		launcher->to_preload = lappend_oid(launcher->to_preload, database);
}

/* A loader ---------------------------------------------------------------------------- */

void
GjLoaderMain(Datum arg)
{
	Oid			database = DatumGetObjectId(arg);
	LoaderTask	task;
	GjMirror	wanted;
	int			slot;

	memcpy(&task, MyBgworkerEntry->bgw_extra, sizeof(task));
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);

	if (task.marked)
	{
		StartTransactionCommand();
		want_marked_indexes();
		CommitTransactionCommand();
	}
	while (GjMirrorClaimWanted(database, &slot, &wanted))
	{
		CHECK_FOR_INTERRUPTS();
		StartTransactionCommand();
		load_wanted(slot, &wanted);
		CommitTransactionCommand();
	}
}

/*
 * Ask for all indexes of this database that have the reloption preload
 */
static void
want_marked_indexes(void)
{
	Oid			am = get_am_oid(GJ_NAME, true);
	List	   *indexes = NIL;
	ListCell   *lc;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	if (!OidIsValid(am))
		return;
	(void) GetTransactionSnapshot();
	rel = table_open(RelationRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (form->relam == am && form->relkind == RELKIND_INDEX &&
			form->relpersistence != RELPERSISTENCE_TEMP)
			indexes = lappend_oid(indexes, form->oid);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);

	foreach(lc, indexes)
		want_index(lfirst_oid(lc));
}

/*
 * Open an index unless somebody has it locked; NULL then, and if it is gone
 *
 * One loader serves the whole server and holds an entry of the table while it works: it
 * must not wait for a lock whose owner may wait for that entry.
 */
static Relation
open_if_free(Oid index_oid, bool *is_locked)
{
	Relation	index;

	*is_locked = !ConditionalLockRelationOid(index_oid, AccessShareLock);
	if (*is_locked)
		return NULL;
	index = try_relation_open(index_oid, NoLock);
	if (index == NULL)
		UnlockRelationOid(index_oid, AccessShareLock);
	return index;
}

/*
 * What is locked now is loaded when a query first wants it
 */
static void
want_index(Oid index_oid)
{
	bool		is_locked;
	Relation	index = open_if_free(index_oid, &is_locked);

	if (index == NULL)
		return;
	if (GjRelationIsIndex(index) && GjIndexIsPreloaded(index) && index->rd_index->indisvalid)
	{
		GjIndexState state;
		GjMirrorKey key;

		GjIndexGetState(index, &state);
		GjMirrorKeyOf(index, state.build_id, &key);
		(void) GjMirrorWant(&key, index_oid, true);
	}
	relation_close(index, AccessShareLock);
}

/*
 * Load an index, if it still is what was wanted; its entry is ours
 */
static void
load_wanted(int slot, const GjMirror *wanted)
{
	bool		is_locked;
	Relation	index = open_if_free(wanted->index, &is_locked);
	bool		is_right = false;

	if (index != NULL && GjRelationIsIndex(index) && index->rd_index->indisvalid &&
		!RelationUsesLocalBuffers(index))
	{
		GjIndexState state;
		GjMirrorKey key;

		GjIndexGetState(index, &state);
		GjMirrorKeyOf(index, state.build_id, &key);
		is_right = memcmp(&key, &wanted->key, sizeof(key)) == 0;
	}
	if (is_right)
		(void) GjMirrorLoadClaimed(index, slot, GJ_LOAD_BY_LOADER);
	else if (is_locked)
		GjMirrorRefuse(slot, GJ_FALLBACK_LOADING, GJ_MIRROR_GAVE_WAY_MS);
	else
		GjMirrorAbandonEntry(slot);
	if (index != NULL)
		relation_close(index, AccessShareLock);
}
