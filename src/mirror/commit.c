/*-------------------------------------------------------------------------
 *
 * commit.c
 *	  What a transaction has done to indexes, and what that means for mirrors when it
 *	  commits.
 *
 * An index that was built (CREATE INDEX, REINDEX, TRUNCATE, VACUUM FULL, CLUSTER, ALTER TABLE)
 * is loaded by a loader as soon as others can see it, if gpujoin.auto_load was on or it has the
 * reloption preload.  Nobody has asked for it yet: without preload it takes only memory that is
 * free, and only if it is big enough that a device would be asked at all.
 *
 * ALTER INDEX ... SET (preload) calls nothing of an access method.  A hook sees that some index
 * of ours was altered, and the marked indexes of the database are looked for anew.
 *
 * Both are remembered with their subtransaction, acted upon when the transaction has committed,
 * and forgotten when it has not: a rollback leaves nothing behind.  After a commit no error may
 * be raised and no catalog read; hence all that is needed is found out before.  A prepared
 * transaction is committed by a session that knows nothing of it: there a query, or the next
 * start of the server, has to do.  The same goes for a standby, where nothing is built.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/gpujoin.h"
#include "table.h"

/* An index to load, or, with index = InvalidOid, that options were changed */
typedef struct Wish
{
	SubTransactionId subid;
	Oid			index;
	GjMirrorKey key;
	bool		pinned;
} Wish;

static List *wishes = NIL;		/* in TopTransactionContext */
static object_access_hook_type previous_access_hook = NULL;

static void add_wish(Oid index, const GjMirrorKey *key, bool pinned);
static void at_transaction_end(XactEvent event, void *arg);
static void at_subtransaction_end(SubXactEvent event, SubTransactionId subid,
								  SubTransactionId parent, void *arg);
static void fulfil(void);
static void see_alter(ObjectAccessType access, Oid class_oid, Oid object_oid, int sub_id,
					  void *arg);

/*
 * Set the hooks, if the library is being preloaded: otherwise there are no mirrors
 */
void
GjMirrorCommitInit(void)
{
	if (!process_shared_preload_libraries_in_progress || gj_device == GJ_DEVICE_NONE)
		return;

	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
	previous_access_hook = object_access_hook;
	object_access_hook = see_alter;
}

/*
 * Drop the mirror of an index that is about to be built: the file's contents are gone
 */
void
GjMirrorRelationRebuilt(Relation index)
{
	GjMirrorKey key;

	GjMirrorKeyOf(index, 0, &key);
	if (GjMirrorDrop(&key, true))
		GjLauncherWake();
}

/*
 * Remember that this transaction has built an index
 */
void
GjMirrorRelationBuilt(Relation index)
{
	bool		pinned = GjIndexIsPreloaded(index);
	GjIndexState state;
	GjMirrorKey key;

	if (!GjMirrorTableExists() || gj_device == GJ_DEVICE_NONE ||
		RelationUsesLocalBuffers(index))
		return;
	if (!pinned && (!gj_auto_load || !GjServiceReady(NULL) ||
					RelationGetNumberOfBlocks(index) < GJ_MIN_DEVICE_BLOCKS))
		return;
	GjIndexGetState(index, &state);
	GjMirrorKeyOf(index, state.build_id, &key);
	add_wish(RelationGetRelid(index), &key, pinned);
}

static void
add_wish(Oid index, const GjMirrorKey *key, bool pinned)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	Wish	   *wish = palloc0(sizeof(Wish));

	wish->subid = GetCurrentSubTransactionId();
	wish->index = index;
	if (key != NULL)
		wish->key = *key;
	wish->pinned = pinned;
	wishes = lappend(wishes, wish);
	MemoryContextSwitchTo(old);
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			fulfil();
			wishes = NIL;
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			wishes = NIL;
			break;
		default:
			break;
	}
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId subid, SubTransactionId parent,
					  void *arg)
{
	ListCell   *lc;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	foreach(lc, wishes)
	{
		Wish	   *wish = lfirst(lc);

		if (wish->subid != subid)
			continue;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			wish->subid = parent;
		else
			wishes = foreach_delete_current(wishes, lc);
	}
}

/*
 * Ask for mirrors of what the transaction has built, after it has committed
 *
 * An index that it built twice, or dropped again, is wanted under a key that no loader will
 * find; the loader then forgets it.
 */
static void
fulfil(void)
{
	bool		altered = false;
	ListCell   *lc;

	foreach(lc, wishes)
	{
		const Wish *wish = lfirst(lc);

		if (OidIsValid(wish->index))
			(void) GjMirrorWant(&wish->key, wish->index, wish->pinned, !wish->pinned);
		else
			altered = true;
	}
	if (altered)
		GjMirrorLookForMarked(MyDatabaseId);
}

/*
 * object_access_hook: was one of our indexes altered?
 */
static void
see_alter(ObjectAccessType access, Oid class_oid, Oid object_oid, int sub_id, void *arg)
{
	HeapTuple	tuple;

	if (previous_access_hook)
		previous_access_hook(access, class_oid, object_oid, sub_id, arg);
	if (access != OAT_POST_ALTER || class_oid != RelationRelationId || sub_id != 0 ||
		!IsNormalProcessingMode() || !IsTransactionState() || gj_mirrors == NULL)
		return;

	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(object_oid));
	if (!HeapTupleIsValid(tuple))
		return;
	if (((Form_pg_class) GETSTRUCT(tuple))->relkind == RELKIND_INDEX &&
		((Form_pg_class) GETSTRUCT(tuple))->relam == get_am_oid(GJ_NAME, true))
		add_wish(InvalidOid, NULL, false);
	ReleaseSysCache(tuple);
}
