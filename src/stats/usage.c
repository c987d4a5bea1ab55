/*-------------------------------------------------------------------------
 *
 * usage.c
 *	  Usage counters of indexes, collected by the processes that search.
 *
 * A table in shared memory has an entry for each index that has been searched or folded since the
 * server's start.  A process adds its counts when a scan ends, also after an error: one look-up,
 * and a spinlock for the time that it takes to add some twenty numbers.  The number of answers by
 * a device, and by each fallback reason, are counted only here: totals for the server are sums
 * over all entries.
 *
 * The size is fixed.  If the table is full when a scan begins, a sixteenth of its entries are
 * given up, those of the least recently used indexes.  Their counters are added to "others",
 * like those of indexes that are dropped or reset, and those of a scan that finds no room when
 * it ends; so the sum never decreases.  Nothing is kept across restarts.
 *
 * Without preloading there is no shared memory.  Then each process has a table of its own, and
 * shows only its own counts.
 *
 * An index is identified by its OID, in its database.  Its entry is removed when the transaction
 * that drops it commits, so that another index that gets the same OID starts at
 * zero.  If the drop is not seen, on a standby or after PREPARE TRANSACTION, the functions that
 * show the table hide the entry, and it is given up eventually.
 *
 * An entry also remembers when a fold worker was requested for its index (request.c in pages/), and
 * since when the index has been waiting for one.  While it waits it is not given up, unless the
 * index is dropped.
 *
 * At the end are names and texts of the reasons why a device did not answer.
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
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/settings.h"
#include "stats.h"

#define USAGE_TRANCHE			"gpujoin_usage"

/* Maximum number of indexes, in all databases: 1.5 MB */
#define MAX_ENTRIES				4096

/* Interval of attempts to start a worker for a waiting index, and when they end */
#define RETRY_MS				5000
#define GIVE_UP_MS				3600000

/* Time for which a request counts: it takes less to start a worker */
#define ASKED_MS				5000

/* A full table gives up one in this many entries */
#define EVICTED_PART			16

typedef struct UsageKey
{
	Oid			database;
	Oid			index;
} UsageKey;

typedef struct UsageEntry
{
	UsageKey	key;			/* first */
	slock_t		mutex;			/* protects the fields below; the table's lock is held, too */
	TimestampTz since;
	TimestampTz last_used;		/* start of the last statement that searched it, or 0 */
	TimestampTz last_fold;		/* end of the last fold, or 0 */
	GjIndexUse	use;

	/* changed with the table's lock held exclusively */
	TimestampTz waiting_since;	/* first refused request for a fold worker, or 0 */
	TimestampTz tried_at;		/* last attempt to start one since then, or 0 */
	TimestampTz asked_at;		/* last request, or 0 if a worker has come since */
} UsageEntry;

typedef struct UsageTable
{
	LWLock	   *lock;			/* held only briefly; NULL if the table is private to the process */
	GjIndexUse	others;			/* counts of indexes without an entry; protected by the lock */
	uint64		evicted;		/* number of entries given up because the table was full */
	TimestampTz since;
	uint32		nwaiting;		/* number of entries that wait for a fold worker */
} UsageTable;

/* An entry that may be given up, as it was when we read it */
typedef struct Unused
{
	UsageKey	key;
	TimestampTz last_used;
} Unused;

static UsageTable *usage = NULL;	/* NULL if not preloaded and nothing has been counted yet */
static HTAB *entries = NULL;

/* OIDs, allocated in TopTransactionContext */
static List *dropped_indexes = NIL;
static List *dropped_databases = NIL;

/* The index that DROP INDEX CONCURRENTLY is about to delete */
static Oid	dropped_concurrently = InvalidOid;

static object_access_hook_type previous_access_hook = NULL;

/* In the order of GjFallback: a name for views, a text for EXPLAIN */
static const struct
{
	const char *name;
	const char *text;
}			fallbacks[GJ_FALLBACK_COUNT] =
{
	{"none", "the device answered"},
	{"no_keys", "there is no key to search for"},
	{"not_preloaded", "gpujoin is not in shared_preload_libraries"},
	{"service", "the device service is not available, see pg_stat_gpujoin"},
	{"temporary", "the index is temporary"},
	{"small", "the index is too small to be worth it"},
	{"few_keys", "the CPU finds so few keys before a request would reach the device"},
	{"no_mirror", "the index is not loaded, and gpujoin.auto_load is off"},
	{"loading", "the index is being loaded"},
	{"behind", "the mirror is too far behind the index"},
	{"no_memory", "there is not enough device memory"},
	{"too_big", "gpujoin.device_memory is too small for the index"},
	{"table_full", "there are gpujoin.max_mirrors mirrors already"},
	{"busy", "all request slots are in use"},
	{"gone", "the mirror was dropped in the meantime"},
	{"failed", "the device did not answer"},
	{"not_in", "the keys are those of no list"},
	{"partial", "the index is partial, on an expression, and the scan a bitmap scan"},
	{"too_many", "there are more entries than fit in memory"},
	{"vacuumed", "VACUUM has been there since the mirror was made"},
	{"incomplete", "the index may lack rows that the snapshot sees"},
	{"null_keys", "rows with a NULL key are wanted"}
};

static void usage_request_shmem(void);
static void usage_startup_shmem(void);
static void lock_table(LWLockMode mode);
static void unlock_table(void);
static UsageEntry *find_or_enter(const UsageKey *key);
static bool is_full_without(Oid index);
static void evict(void);
static int	list_unused(Unused *unused);
static int	compare_times(const void *a, const void *b);
static void usage_give_up(UsageEntry *entry);
static void set_waiting(UsageEntry *entry, TimestampTz since);
static void add(GjIndexUse *sum, const GjIndexUse *use);
static void see_drop(ObjectAccessType access, Oid class_oid, Oid object_oid, int sub_id,
					 void *arg);
static void see_index_drop(Oid index, const ObjectAccessDrop *drop);
static void usage_at_transaction_end(XactEvent event, void *arg);
static void take_concurrently(void);
static List *keep_missing(List *oids, int cache);
static void usage_forget_dropped(void);
static void usage_forget(Oid database, Oid index);

/*
 * Install the hooks that track dropped objects, and have the table created in shared memory if the
 * library is being preloaded
 */
void
GjUsageInit(void)
{
	RegisterXactCallback(usage_at_transaction_end, NULL);
	previous_access_hook = object_access_hook;
	object_access_hook = see_drop;
	(void) GjAtServerStart(usage_request_shmem, usage_startup_shmem);
}

static void
usage_request_shmem(void)
{
	RequestAddinShmemSpace(add_size(sizeof(UsageTable),
									hash_estimate_size(MAX_ENTRIES, sizeof(UsageEntry))));
	RequestNamedLWLockTranche(USAGE_TRANCHE, 1);
}

/*
 * Create the table, or attach to it
 */
static void
usage_startup_shmem(void)
{
	HASHCTL		info = {.keysize = sizeof(UsageKey),.entrysize = sizeof(UsageEntry)};
	bool		found;

	usage = ShmemInitStruct("gpujoin usage", sizeof(UsageTable), &found);
	entries = GjShmemInitHash("gpujoin usage by index", MAX_ENTRIES, &info,
							  HASH_ELEM | HASH_BLOBS);
	if (!found)
	{
		memset(usage, 0, sizeof(UsageTable));
		usage->lock = &GetNamedLWLockTranche(USAGE_TRANCHE)->lock;
		usage->since = GetCurrentTimestamp();
	}
}

/*
 * Make sure that a table exists; without shared memory, create one for this process.  It is not
 * allocated with palloc(), because the counts of a failed query are added while the transaction
 * is aborted, when nothing may fail.
 */
void
GjUsagePrepare(void)
{
	HASHCTL		info = {.keysize = sizeof(UsageKey),.entrysize = sizeof(UsageEntry),
	.alloc = GjHashMalloc};
	static UsageTable table;

	if (usage != NULL)
		return;
	entries = hash_create("gpujoin usage by index", 64, &info,
						  HASH_ELEM | HASH_BLOBS | HASH_ALLOC);
	table.since = GetCurrentTimestamp();
	usage = &table;
}

static void
lock_table(LWLockMode mode)
{
	if (usage->lock != NULL)
		LWLockAcquire(usage->lock, mode);
}

static void
unlock_table(void)
{
	if (usage->lock != NULL)
		LWLockRelease(usage->lock);
}

/*
 * Add counts for an index of this database, after GjUsageMakeRoom().  Raises no errors, and
 * makes no room.
 */
void
GjUsageAdd(Oid index, const GjIndexUse *use)
{
	UsageKey	key = {.database = MyDatabaseId,.index = index};
	TimestampTz now = use->n[GJ_USE_FOLDS] > 0 ? GetCurrentTimestamp() : 0;
	UsageEntry *entry;

	lock_table(LW_SHARED);
	entry = hash_search(entries, &key, HASH_FIND, NULL);
	if (entry == NULL)
	{
		unlock_table();
		lock_table(LW_EXCLUSIVE);
		entry = find_or_enter(&key);
	}
	if (entry != NULL)
	{
		SpinLockAcquire(&entry->mutex);
		add(&entry->use, use);
		if (use->n[GJ_USE_FOLDS] > 0)
			entry->last_fold = now;
		else if (use->n[GJ_USE_REQUESTS] == 0)
			entry->last_used = GetCurrentStatementStartTimestamp();
		SpinLockRelease(&entry->mutex);
	}
	else
		add(&usage->others, use);
	unlock_table();
}

/*
 * Find or create an entry.  The lock is held exclusively.  Returns NULL if there is no room.
 */
static UsageEntry *
find_or_enter(const UsageKey *key)
{
	HASHACTION	action = hash_get_num_entries(entries) < MAX_ENTRIES ? HASH_ENTER_NULL : HASH_FIND;
	bool		found;
	UsageEntry *entry = hash_search(entries, key, action, &found);

	if (entry == NULL || found)
		return entry;
	SpinLockInit(&entry->mutex);
	entry->since = GetCurrentStatementStartTimestamp();
	entry->last_used = entry->last_fold = 0;
	entry->waiting_since = entry->tried_at = entry->asked_at = 0;
	memset(&entry->use, 0, sizeof(GjIndexUse));
	return entry;
}

/*
 * Make room for an index of this database, for which counts will be added.  This is done now
 * because entries cannot be given up at the end of a scan, which may have failed.
 */
void
GjUsageMakeRoom(Oid index)
{
	GjUsagePrepare();
	if (hash_get_num_entries(entries) >= MAX_ENTRIES && is_full_without(index))
		evict();
}

/*
 * Return true if the table is full, and has no entry for the index
 */
static bool
is_full_without(Oid index)
{
	UsageKey	key = {.database = MyDatabaseId,.index = index};
	bool		result;

	lock_table(LW_SHARED);
	result = hash_get_num_entries(entries) >= MAX_ENTRIES &&
		hash_search(entries, &key, HASH_FIND, NULL) == NULL;
	unlock_table();
	return result;
}

/*
 * Give up the least recently used entries.  They are determined without the lock; entries used
 * meanwhile are kept.
 */
static void
evict(void)
{
	Unused	   *unused = palloc(MAX_ENTRIES * sizeof(Unused));
	int			n = list_unused(unused);

	qsort(unused, n, sizeof(Unused), compare_times);
	lock_table(LW_EXCLUSIVE);
	for (int i = 0; i < n / EVICTED_PART; i++)
	{
		UsageEntry *entry = hash_search(entries, &unused[i].key, HASH_FIND, NULL);

		if (entry == NULL || entry->last_used != unused[i].last_used ||
			entry->waiting_since != 0)
			continue;
		usage_give_up(entry);
		usage->evicted++;
	}
	unlock_table();
	pfree(unused);
}

/*
 * Copy all entries' keys and times; returns their number, or 0 if there is room by now
 */
static int
list_unused(Unused *unused)
{
	HASH_SEQ_STATUS seq;
	UsageEntry *entry;
	int			n = 0;

	lock_table(LW_SHARED);
	if (hash_get_num_entries(entries) < MAX_ENTRIES)
	{
		unlock_table();
		return 0;
	}
	hash_seq_init(&seq, entries);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		if (n == MAX_ENTRIES)
			continue;
		unused[n].key = entry->key;
		SpinLockAcquire(&entry->mutex);
		unused[n++].last_used = entry->last_used;
		SpinLockRelease(&entry->mutex);
	}
	unlock_table();
	return n;
}

static int
compare_times(const void *a, const void *b)
{
	TimestampTz x = ((const Unused *) a)->last_used;
	TimestampTz y = ((const Unused *) b)->last_used;

	return x < y ? -1 : x > y;
}

/*
 * Remove an entry, adding its counts to the others.  The lock is held exclusively.
 */
static void
usage_give_up(UsageEntry *entry)
{
	UsageKey	key = entry->key;

	add(&usage->others, &entry->use);
	set_waiting(entry, 0);
	hash_search(entries, &key, HASH_REMOVE, NULL);
}

static void
add(GjIndexUse *sum, const GjIndexUse *use)
{
	for (int i = 0; i < GJ_USE_COUNT; i++)
		sum->n[i] += use->n[i];
}

/*
 * Reset the counters of an index of this database, or, with InvalidOid, of all indexes in all
 * databases
 */
void
GjUsageReset(Oid index)
{
	UsageKey	key = {.database = MyDatabaseId,.index = index};
	TimestampTz now = GetCurrentTimestamp();
	HASH_SEQ_STATUS seq;
	UsageEntry *entry;

	GjUsagePrepare();
	lock_table(LW_EXCLUSIVE);
	if (OidIsValid(index))
	{
		entry = hash_search(entries, &key, HASH_FIND, NULL);
		if (entry != NULL)
		{
			add(&usage->others, &entry->use);
			memset(&entry->use, 0, sizeof(GjIndexUse));
			entry->since = now;
		}
	}
	else
	{
		hash_seq_init(&seq, entries);
		while ((entry = hash_seq_search(&seq)) != NULL)
		{
			if (entry->waiting_since == 0)
				usage_give_up(entry);
			else
			{
				memset(&entry->use, 0, sizeof(GjIndexUse));
				entry->since = now;
			}
		}
		memset(&usage->others, 0, sizeof(GjIndexUse));
		usage->evicted = 0;
		usage->since = now;
	}
	unlock_table();
}

/*
 * Get the sum of all counters
 */
void
GjUsageSum(GjIndexUse *sum, TimestampTz *since)
{
	HASH_SEQ_STATUS seq;
	UsageEntry *entry;

	GjUsagePrepare();
	lock_table(LW_SHARED);
	*sum = usage->others;
	*since = usage->since;
	hash_seq_init(&seq, entries);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		SpinLockAcquire(&entry->mutex);
		add(sum, &entry->use);
		SpinLockRelease(&entry->mutex);
	}
	unlock_table();
}

/*
 * Copy the table into the current memory context: first "others", without an index, then an
 * element for each entry; returns the number of elements
 */
int
GjUsageCopy(GjUsage **copy)
{
	/* allocate the maximum size if there is one: we must not allocate under the lock */
	HASH_SEQ_STATUS seq;
	UsageEntry *entry;
	int			most;
	int			n = 1;

	GjUsagePrepare();
	most = 1 + (usage->lock != NULL ? MAX_ENTRIES : (int) hash_get_num_entries(entries));
	*copy = palloc(most * sizeof(GjUsage));
	lock_table(LW_SHARED);
	(*copy)[0] = (GjUsage) {
		.since = usage->since,.use = usage->others
	};
	hash_seq_init(&seq, entries);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		GjUsage    *one = &(*copy)[n];

		if (n == most)
			continue;
		one->database = entry->key.database;
		one->index = entry->key.index;
		SpinLockAcquire(&entry->mutex);
		one->since = entry->since;
		one->last_used = entry->last_used;
		one->last_fold = entry->last_fold;
		one->use = entry->use;
		SpinLockRelease(&entry->mutex);
		n++;
	}
	unlock_table();
	return n;
}

/*
 * Return the number of entries given up because the table was full
 */
uint64
GjUsageEvicted(void)
{
	uint64		evicted;

	GjUsagePrepare();
	lock_table(LW_SHARED);
	evicted = usage->evicted;
	unlock_table();
	return evicted;
}

/*
 * Return true if no process has requested a fold worker for an index of this database just now, and
 * remember that this process does; before this, GjUsageMakeRoom() has been called
 */
bool
GjUsageAskOnce(Oid index)
{
	UsageKey	key = {.database = MyDatabaseId,.index = index};
	TimestampTz now = GetCurrentTimestamp();
	UsageEntry *entry;
	bool		is_first;

	lock_table(LW_EXCLUSIVE);
	entry = find_or_enter(&key);
	is_first = entry == NULL || TimestampDifferenceExceeds(entry->asked_at, now, ASKED_MS);
	if (entry != NULL && is_first)
		entry->asked_at = now;
	unlock_table();
	return is_first;
}

/*
 * Remember whether an index of this database waits for a fold worker; if it does not, a worker has
 * come
 */
void
GjUsageSetWaiting(Oid index, bool waits)
{
	UsageKey	key = {.database = MyDatabaseId,.index = index};
	TimestampTz now = GetCurrentTimestamp();
	UsageEntry *entry;

	GjUsagePrepare();
	lock_table(LW_EXCLUSIVE);
	entry = waits ? find_or_enter(&key) : hash_search(entries, &key, HASH_FIND, NULL);
	if (entry != NULL && (!waits || entry->waiting_since == 0))
		set_waiting(entry, waits ? now : 0);
	if (entry != NULL && !waits)
		entry->asked_at = 0;
	unlock_table();
}

static void
set_waiting(UsageEntry *entry, TimestampTz since)
{
	usage->nwaiting += (since != 0) - (entry->waiting_since != 0);
	entry->waiting_since = since;
	entry->tried_at = 0;
}

/*
 * Return true if an index seems to wait for a fold worker.  No lock is taken.
 */
bool
GjUsageIsWaiting(void)
{
	return usage != NULL && ((volatile UsageTable *) usage)->nwaiting > 0;
}

/*
 * Get the index, of any database, that has been waiting longest for a fold worker, except those for
 * which a start was tried within RETRY_MS; returns false if no index is waiting
 */
bool
GjUsageTakeWaiting(Oid *database, Oid *index)
{
	TimestampTz now = GetCurrentTimestamp();
	UsageEntry *found = NULL;
	HASH_SEQ_STATUS seq;
	UsageEntry *entry;

	if (!GjUsageIsWaiting())
		return false;
	lock_table(LW_EXCLUSIVE);
	hash_seq_init(&seq, entries);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		if (entry->waiting_since == 0)
			continue;
		if (TimestampDifferenceExceeds(entry->waiting_since, now, GIVE_UP_MS))
			set_waiting(entry, 0);
		else if (TimestampDifferenceExceeds(entry->tried_at, now, RETRY_MS) &&
				 (found == NULL || entry->waiting_since < found->waiting_since))
			found = entry;
	}
	if (found != NULL)
	{
		found->tried_at = now;
		*database = found->key.database;
		*index = found->key.index;
	}
	unlock_table();
	return found != NULL;
}

/*-------------------------------------------------------------------------
 * Dropped indexes and databases
 *
 * A hook records what is about to be dropped.  Whether it is actually dropped is known only when
 * the transaction commits, because a subtransaction may be rolled back.  The catalogs can be
 * read just before the commit; the counters are given up just after it.  DROP INDEX CONCURRENTLY
 * commits several transactions, and the last one deletes the index, so we look for the index
 * before each commit.
 *-------------------------------------------------------------------------
 */

/*
 * object_access_hook: record an index or a database that is about to be dropped
 */
static void
see_drop(ObjectAccessType access, Oid class_oid, Oid object_oid, int sub_id, void *arg)
{
	MemoryContext old;

	if (previous_access_hook)
		previous_access_hook(access, class_oid, object_oid, sub_id, arg);
	if (access != OAT_DROP || sub_id != 0 || !IsTransactionState() || usage == NULL)
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
usage_at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			take_concurrently();
			dropped_indexes = keep_missing(dropped_indexes, RELOID);
			dropped_databases = keep_missing(dropped_databases, DATABASEOID);
			return;
		case XACT_EVENT_COMMIT:
			usage_forget_dropped();
			break;
		case XACT_EVENT_ABORT:
			dropped_concurrently = InvalidOid;
			break;
		case XACT_EVENT_PREPARE:
			break;
		default:
			return;
	}
	dropped_indexes = dropped_databases = NIL;
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
usage_forget_dropped(void)
{
	ListCell   *lc;

	foreach(lc, dropped_indexes)
		usage_forget(MyDatabaseId, lfirst_oid(lc));
	foreach(lc, dropped_databases)
		usage_forget(lfirst_oid(lc), InvalidOid);
}

/*
 * Remove an index that was dropped, or, with InvalidOid, all indexes of a database
 */
static void
usage_forget(Oid database, Oid index)
{
	HASH_SEQ_STATUS seq;
	UsageEntry *entry;

	if (usage == NULL)
		return;
	lock_table(LW_EXCLUSIVE);
	if (OidIsValid(index))
	{
		UsageKey	key = {.database = database,.index = index};

		entry = hash_search(entries, &key, HASH_FIND, NULL);
		if (entry != NULL)
			usage_give_up(entry);
	}
	else
	{
		hash_seq_init(&seq, entries);
		while ((entry = hash_seq_search(&seq)) != NULL)
		{
			if (entry->key.database == database)
				usage_give_up(entry);
		}
	}
	unlock_table();
}

/*
 * Return the name of a reason
 */
const char *
GjFallbackName(GjFallback why)
{
	return fallbacks[why].name;
}

/*
 * Return the text of a reason
 */
const char *
GjFallbackText(GjFallback why)
{
	return fallbacks[why].text;
}
