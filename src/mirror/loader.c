/*-------------------------------------------------------------------------
 *
 * loader.c
 *	  A loader: a background worker that loads the mirrors wanted in one database, and ends.
 *
 * It may be told to search for indexes with the reloption preload first.  It gives way to DROP,
 * TRUNCATE, DROP DATABASE and similar commands (load.c), and never waits for a lock.  Loads that
 * it cannot do now are retried later (registry.c).  It reports success only when it has finished;
 * otherwise the launcher treats it as failed.
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
#include "commands/defrem.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/settings.h"
#include "table.h"

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
			while (GjMirrorWant(&key, index_oid, true, false,
								GJ_ANY_DEVICE) == GJ_FALLBACK_TABLE_FULL)
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
