/*-------------------------------------------------------------------------
 *
 * loader.c
 *	  A loader: a background worker that loads the mirrors wanted in one database, and ends.
 *
 * It may be told to search for indexes with the reloption preload first.  It gives way to DROP,
 * TRUNCATE, DROP DATABASE and similar commands (load.c), and never waits for a lock.  Loads that
 * it cannot do now are retried later (wish.c).  It reports success only when it has finished;
 * otherwise the launcher treats it as failed.
 *
 * The last section is the launcher's list of databases.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/lmgr.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/gpujoin.h"
#include "launcher.h"
#include "table.h"

/* Delay for a database after a loader has failed; doubled each time up to MAX_RETRY_MS */
#define FIRST_RETRY_MS			2000
#define MAX_RETRY_MS			60000

static bool want_marked_indexes(void);
static bool has_pages(char persistence);
static bool want_index(Oid index_oid);
static Relation open_if_free(Oid index_oid, bool *is_locked);
static void load_wanted(int place, const GjMirror *wanted);
static void log_refusal(Relation index, int tries, GjFallback why);

void
GjLoaderMain(Datum arg)
{
	Oid			database = DatumGetObjectId(arg);
	GjLoaderTask task;
	GjMirror	wanted;
	bool		looked = false;
	int			place;

	memcpy(&task, MyBgworkerEntry->bgw_extra, sizeof(task));
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);

	if (task.marked)
	{
		StartTransactionCommand();
		looked = want_marked_indexes();
		CommitTransactionCommand();
	}
	while (GjMirrorClaimWanted(database, &place, &wanted))
	{
		CHECK_FOR_INTERRUPTS();
		StartTransactionCommand();
		load_wanted(place, &wanted);
		CommitTransactionCommand();
	}

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	gj_mirrors->task_done = task.number;
	if (looked)
		gj_mirrors->task_looked = task.number;
	LWLockRelease(gj_mirrors->lock);
}

/*
 * Request all indexes of this database that have the reloption preload
 *
 * Returns false if an index could not be checked.
 */
static bool
want_marked_indexes(void)
{
	Oid			am = get_am_oid(GJ_NAME, true);
	List	   *indexes = NIL;
	bool		complete = true;
	ListCell   *lc;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	if (!OidIsValid(am))
		return true;
	(void) GetTransactionSnapshot();
	rel = table_open(RelationRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (form->relam == am && form->relkind == RELKIND_INDEX &&
			has_pages(form->relpersistence))
			indexes = lappend_oid(indexes, form->oid);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);

	foreach(lc, indexes)
		complete &= want_index(lfirst_oid(lc));
	return complete;
}

/*
 * Return true if an index has pages that we can read.  A standby has none of unlogged indexes.
 */
static bool
has_pages(char persistence)
{
	return persistence == RELPERSISTENCE_PERMANENT ||
		(persistence == RELPERSISTENCE_UNLOGGED && !RecoveryInProgress());
}

/*
 * Request an index if it is marked; also set whether its mirror, if any, is pinned
 *
 * Returns false if the index must be checked again, because it is locked or not valid yet.
 */
static bool
want_index(Oid index_oid)
{
	bool		is_locked;
	Relation	index = open_if_free(index_oid, &is_locked);
	bool		done = true;
	GjIndexState state;
	GjMirrorKey key;

	if (index == NULL)
		return !is_locked;
	if (GjRelationIsIndex(index) && index->rd_index->indisvalid)
	{
		GjIndexGetState(index, &state);
		GjMirrorKeyOf(index, state.build_id, &key);
		if (!GjIndexIsPreloaded(index))
			GjMirrorSetPinned(&key, false);
		else
		{
			while (GjMirrorWant(&key, index_oid, true, false) == GJ_FALLBACK_TABLE_FULL)
			{
				done = GjMirrorEvict(GJ_LOAD_BY_LOADER);
				if (!done)
					break;
			}
		}
	}
	relation_close(index, AccessShareLock);
	return done;
}

/*
 * Open an index unless another process has locked it; returns NULL in that case, and if it is
 * gone
 *
 * One loader serves the whole server and owns an entry of the table while it works, so it must
 * not wait for a lock whose owner may wait for that entry.
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
 * Load an index whose entry this process owns, if it still is the index that was requested
 */
static void
load_wanted(int place, const GjMirror *wanted)
{
	bool		is_locked;
	Relation	index = open_if_free(wanted->index, &is_locked);
	bool		is_right = false;

	if (index != NULL && GjRelationIsIndex(index) && !RelationUsesLocalBuffers(index))
	{
		GjIndexState state;
		GjMirrorKey key;

		GjIndexGetState(index, &state);
		GjMirrorKeyOf(index, state.build_id, &key);
		is_right = memcmp(&key, &wanted->key, sizeof(key)) == 0;
	}

	/* CREATE INDEX CONCURRENTLY makes an index valid some time after building it */
	if (is_locked || (is_right && !index->rd_index->indisvalid))
		GjMirrorRefuse(place, GJ_FALLBACK_LOADING, 0);
	else if (is_right)
	{
		GjFallback	result = GjMirrorLoadClaimed(index, place, wanted->modest ?
												 GJ_LOAD_AT_BUILD : GJ_LOAD_BY_LOADER);

		if (result != GJ_FALLBACK_NONE)
			log_refusal(index, wanted->tries, result);
	}
	else
		GjMirrorForget(place);
	if (index != NULL)
		relation_close(index, AccessShareLock);
}

/*
 * Log once that a pinned index cannot be loaded for a permanent reason
 */
static void
log_refusal(Relation index, int tries, GjFallback why)
{
	if (!GjIndexIsPreloaded(index) || tries > 0 ||
		(why != GJ_FALLBACK_NO_MEMORY && why != GJ_FALLBACK_TOO_BIG))
		return;
	ereport(LOG,
			(errmsg("could not load index \"%s\", which has the option \"preload\": %s",
					RelationGetRelationName(index), GjFallbackText(why)),
			 errhint("Raise gpujoin.device_memory, or unload other indexes.")));
}

/*-------------------------------------------------------------------------
 * Databases with marked indexes
 *
 * The launcher's memory: databases where loaders have something to do, or have failed.
 *-------------------------------------------------------------------------
 */

/*
 * List all databases except templates that do not allow connections; or only those that allow
 * connections
 */
List *
GjDatabaseList(GjDatabases *databases, bool only_open)
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
GjDatabase *
GjDatabaseFind(GjDatabases *databases, Oid oid)
{
	ListCell   *lc;

	foreach(lc, databases->list)
	{
		GjDatabase *database = lfirst(lc);

		if (database->oid == oid)
			return database;
	}
	return NULL;
}

/*
 * Find a database, or add it to those that need attention
 */
GjDatabase *
GjDatabaseNeed(GjDatabases *databases, Oid oid)
{
	GjDatabase *database = GjDatabaseFind(databases, oid);

	if (database == NULL)
	{
		database = palloc0(sizeof(GjDatabase));
		database->oid = oid;
		databases->list = lappend(databases->list, database);
	}
	return database;
}

/*
 * Choose a database that has work to do now; returns NULL if no database has
 */
GjDatabase *
GjDatabaseChoose(GjDatabases *databases, TimestampTz now)
{
	GjMirror	mirror;
	ListCell   *lc;

	foreach(lc, databases->list)
	{
		GjDatabase *database = lfirst(lc);

		if (database->marked && database->not_before <= now)
			return database;
	}
	for (int place = 0; place < gj_mirrors->high; place++)
	{
		GjDatabase *database;

		if (!GjMirrorGet(place, &mirror, NULL) || mirror.state != GJ_MIRROR_WANTED ||
			mirror.owner != 0)
			continue;
		database = GjDatabaseNeed(databases, mirror.key.database);
		if (database->not_before <= now)
			return database;
	}

	/* forget databases where a loader failed earlier, but nothing is wanted now */
	foreach(lc, databases->list)
	{
		GjDatabase *database = lfirst(lc);

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
void
GjDatabasePostpone(GjDatabase *database)
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
bool
GjDatabaseIsListed(GjDatabases *databases, Oid oid, bool only_open)
{
	List	   *list = GjDatabaseList(databases, only_open);
	bool		found = list_member_oid(list, oid);

	list_free(list);
	return found;
}

/*
 * Remove a database that needs no attention any more
 */
void
GjDatabaseForget(GjDatabases *databases, GjDatabase *database)
{
	databases->list = list_delete_ptr(databases->list, database);
	pfree(database);
}
