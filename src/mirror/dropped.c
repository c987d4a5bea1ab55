/*-------------------------------------------------------------------------
 *
 * dropped.c
 *	  Removing the usage counters of dropped indexes and databases.
 *
 * A hook records what is about to be dropped.  Whether it is actually dropped is known only when
 * the transaction commits, because a subtransaction may be rolled back.  The catalogs can be
 * read just before the commit; the counters are given up just after it.  DROP INDEX CONCURRENTLY
 * commits several transactions, and the last one deletes the index, so we look for the index
 * before each commit.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "usage.h"

/* OIDs, allocated in TopTransactionContext */
static List *dropped_indexes = NIL;
static List *dropped_databases = NIL;

/* The index that DROP INDEX CONCURRENTLY is about to delete */
static Oid	dropped_concurrently = InvalidOid;

static object_access_hook_type previous_access_hook = NULL;

static void see_drop(ObjectAccessType access, Oid class_oid, Oid object_oid, int sub_id,
					 void *arg);
static void see_index_drop(Oid index, const ObjectAccessDrop *drop);
static void at_transaction_end(XactEvent event, void *arg);
static void at_subtransaction_end(SubXactEvent event, SubTransactionId subid,
								  SubTransactionId parent, void *arg);
static void take_concurrently(void);
static List *keep_missing(List *oids, int cache);
static void forget_dropped(void);

/*
 * Install the hooks
 */
void
GjDroppedInit(void)
{
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
	previous_access_hook = object_access_hook;
	object_access_hook = see_drop;
}

/*
 * object_access_hook: record an index or a database that is about to be dropped
 */
static void
see_drop(ObjectAccessType access, Oid class_oid, Oid object_oid, int sub_id, void *arg)
{
	MemoryContext old;

	if (previous_access_hook)
		previous_access_hook(access, class_oid, object_oid, sub_id, arg);
	if (access != OAT_DROP || sub_id != 0 || !IsTransactionState() || gj_usage == NULL)
		return;

	old = MemoryContextSwitchTo(TopTransactionContext);
	if (class_oid == RelationRelationId && get_rel_relkind(object_oid) == RELKIND_INDEX)
		see_index_drop(object_oid, arg);
	else if (class_oid == DatabaseRelationId)
		dropped_databases = lappend_oid(dropped_databases, object_oid);
	MemoryContextSwitchTo(old);
}

static void
see_index_drop(Oid index, const ObjectAccessDrop *drop)
{
	if (drop->dropflags & PERFORM_DELETION_CONCURRENTLY)
		dropped_concurrently = index;
	else
		dropped_indexes = lappend_oid(dropped_indexes, index);
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			take_concurrently();
			dropped_indexes = keep_missing(dropped_indexes, RELOID);
			dropped_databases = keep_missing(dropped_databases, DATABASEOID);
			return;
		case XACT_EVENT_COMMIT:
			forget_dropped();
			break;
		case XACT_EVENT_ABORT:
			dropped_concurrently = InvalidOid;
			break;
		case XACT_EVENT_PREPARE:
			break;
		default:
			return;
	}
	GjProgressEnd();
	dropped_indexes = dropped_databases = NIL;
}

/*
 * End the progress report of a fold in a subtransaction that has failed
 */
static void
at_subtransaction_end(SubXactEvent event, SubTransactionId subid, SubTransactionId parent,
					  void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		GjProgressEnd();
}

/*
 * Record the index of DROP INDEX CONCURRENTLY if this transaction has deleted it
 */
static void
take_concurrently(void)
{
	MemoryContext old;

	if (!OidIsValid(dropped_concurrently) ||
		SearchSysCacheExists1(RELOID, ObjectIdGetDatum(dropped_concurrently)))
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	dropped_indexes = lappend_oid(dropped_indexes, dropped_concurrently);
	MemoryContextSwitchTo(old);
	dropped_concurrently = InvalidOid;
}

/*
 * Keep the OIDs that this transaction does not find any more
 */
static List *
keep_missing(List *oids, int cache)
{
	ListCell   *lc;

	foreach(lc, oids)
	{
		if (SearchSysCacheExists1(cache, ObjectIdGetDatum(lfirst_oid(lc))))
			oids = foreach_delete_current(oids, lc);
	}
	return oids;
}

static void
forget_dropped(void)
{
	ListCell   *lc;

	foreach(lc, dropped_indexes)
		GjUsageForget(MyDatabaseId, lfirst_oid(lc));
	foreach(lc, dropped_databases)
		GjUsageForget(lfirst_oid(lc), InvalidOid);
}
