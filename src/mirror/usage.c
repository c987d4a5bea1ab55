/*-------------------------------------------------------------------------
 *
 * usage.c
 *	  Usage counters of indexes, collected by the processes that search.
 *
 * A table in shared memory has an entry for each index that has been searched since the server's
 * start.  A process adds its counts when a scan ends, also after an error: one look-up, and a
 * spinlock for the time that it takes to add some twenty numbers.  The number of answers by a
 * device, and by each fallback reason, are counted only here: totals for the server are sums
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
 * that drops it commits (dropped.c), so that another index that gets the same OID starts at
 * zero.  If the drop is not seen, on a standby or after PREPARE TRANSACTION, the functions that
 * show the table hide the entry, and it is given up eventually.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "usage.h"

#define USAGE_TRANCHE			"gpujoin_usage"

/* Maximum number of indexes, in all databases: 1.5 MB */
#define MAX_ENTRIES				4096

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
	TimestampTz last_used;		/* start of the last statement that used it */
	GjIndexUse	use;
} UsageEntry;

/* An entry that may be given up, as it was when we read it */
typedef struct Unused
{
	UsageKey	key;
	TimestampTz last_used;
} Unused;

GjUsageTable *gj_usage = NULL;

static HTAB *entries = NULL;

static void lock_table(LWLockMode mode);
static void unlock_table(void);
static UsageEntry *find_or_enter(const UsageKey *key);
static bool is_full_without(Oid index);
static void evict(void);
static int	list_unused(Unused *unused);
static int	compare_times(const void *a, const void *b);
static void give_up(UsageEntry *entry);
static void add(GjIndexUse *sum, const GjIndexUse *use);

/*
 * Request memory for the table, while the library is being preloaded
 */
void
GjUsageRequestShmem(void)
{
	RequestAddinShmemSpace(add_size(sizeof(GjUsageTable),
									hash_estimate_size(MAX_ENTRIES, sizeof(UsageEntry))));
	RequestNamedLWLockTranche(USAGE_TRANCHE, 1);
}

/*
 * Create the table, or attach to it.  AddinShmemInitLock is held.
 */
void
GjUsageStartupShmem(void)
{
	HASHCTL		info = {.keysize = sizeof(UsageKey),.entrysize = sizeof(UsageEntry)};
	bool		found;

	gj_usage = ShmemInitStruct("gpujoin usage", sizeof(GjUsageTable), &found);
	entries = ShmemInitHash("gpujoin usage by index", MAX_ENTRIES, MAX_ENTRIES, &info,
							HASH_ELEM | HASH_BLOBS);
	if (!found)
	{
		memset(gj_usage, 0, sizeof(GjUsageTable));
		gj_usage->lock = &GetNamedLWLockTranche(USAGE_TRANCHE)->lock;
		gj_usage->since = GetCurrentTimestamp();
		GjProgressInit();
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
	.alloc = malloc};
	static GjUsageTable table;

	if (gj_usage != NULL)
		return;
	entries = hash_create("gpujoin usage by index", 64, &info,
						  HASH_ELEM | HASH_BLOBS | HASH_ALLOC);
	table.since = GetCurrentTimestamp();
	gj_usage = &table;
}

static void
lock_table(LWLockMode mode)
{
	if (gj_usage->lock != NULL)
		LWLockAcquire(gj_usage->lock, mode);
}

static void
unlock_table(void)
{
	if (gj_usage->lock != NULL)
		LWLockRelease(gj_usage->lock);
}

/*
 * Add counts for an index of this database, after GjUsageMakeRoom().  Raises no errors, and
 * makes no room.
 */
void
GjUsageAdd(Oid index, const GjIndexUse *use)
{
	UsageKey	key = {.database = MyDatabaseId,.index = index};
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
		entry->last_used = GetCurrentStatementStartTimestamp();
		SpinLockRelease(&entry->mutex);
	}
	else
		add(&gj_usage->others, use);
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
	entry->since = entry->last_used = GetCurrentStatementStartTimestamp();
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

		if (entry == NULL || entry->last_used != unused[i].last_used)
			continue;
		give_up(entry);
		gj_usage->evicted++;
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
give_up(UsageEntry *entry)
{
	UsageKey	key = entry->key;

	add(&gj_usage->others, &entry->use);
	hash_search(entries, &key, HASH_REMOVE, NULL);
}

static void
add(GjIndexUse *sum, const GjIndexUse *use)
{
	for (int i = 0; i < GJ_USE_COUNT; i++)
		sum->n[i] += use->n[i];
}

/*
 * Remove an index that was dropped, or, with InvalidOid, all indexes of a database
 */
void
GjUsageForget(Oid database, Oid index)
{
	HASH_SEQ_STATUS seq;
	UsageEntry *entry;

	if (gj_usage == NULL)
		return;
	lock_table(LW_EXCLUSIVE);
	if (OidIsValid(index))
	{
		UsageKey	key = {.database = database,.index = index};

		entry = hash_search(entries, &key, HASH_FIND, NULL);
		if (entry != NULL)
			give_up(entry);
	}
	else
	{
		hash_seq_init(&seq, entries);
		while ((entry = hash_seq_search(&seq)) != NULL)
		{
			if (entry->key.database == database)
				give_up(entry);
		}
	}
	unlock_table();
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
			add(&gj_usage->others, &entry->use);
			memset(&entry->use, 0, sizeof(GjIndexUse));
			entry->since = now;
		}
	}
	else
	{
		hash_seq_init(&seq, entries);
		while ((entry = hash_seq_search(&seq)) != NULL)
			give_up(entry);
		memset(&gj_usage->others, 0, sizeof(GjIndexUse));
		gj_usage->evicted = 0;
		gj_usage->since = now;
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
	*sum = gj_usage->others;
	*since = gj_usage->since;
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
	most = 1 + (gj_usage->lock != NULL ? MAX_ENTRIES : (int) hash_get_num_entries(entries));
	*copy = palloc(most * sizeof(GjUsage));
	lock_table(LW_SHARED);
	(*copy)[0] = (GjUsage) {
		.since = gj_usage->since,.use = gj_usage->others
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
	evicted = gj_usage->evicted;
	unlock_table();
	return evicted;
}
