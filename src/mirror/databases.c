/*-------------------------------------------------------------------------
 *
 * databases.c
 *	  The launcher's memory: databases where loaders have something to do, or have failed.
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
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/gpujoin.h"
#include "launcher.h"
#include "table.h"

/* How long a database waits where a loader failed, doubled each time up to the second */
#define FIRST_RETRY_MS			2000
#define MAX_RETRY_MS			60000

/*
 * List all databases but templates that nobody can connect to; or only those that allow
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
 * Find a database among those that need attention; NULL if it is not there
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
 * Choose a database where there is something to do now; NULL if there is none
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

	/* nothing is wanted where a loader failed once: no need to remember that */
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
 * Let a database wait where a loader has failed, or could not be sent
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
 * Is the database among those listed?
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
 * Note that a database needs no attention any more
 */
void
GjDatabaseForget(GjDatabases *databases, GjDatabase *database)
{
	databases->list = list_delete_ptr(databases->list, database);
	pfree(database);
}
