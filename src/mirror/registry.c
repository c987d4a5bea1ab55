/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  The table of mirrors in shared memory: finding, claiming and finishing entries.
 *
 * An entry's life cycle:
 *
 *	  EMPTY -> WANTED -> LOADING -> READY -> DROPPED -> EMPTY
 *
 * One lock guards the table; it is held only briefly.  Work that takes longer (a load, a
 * synchronization, freeing a column) is done by the entry's owner, a backend whose pid is stored
 * in the entry.  Other processes never wait for an owner: if an entry has one, they match
 * against the mirror as it is, or search on the CPU.  An owner that fails, is cancelled or ends
 * gives up its entries (GjMirrorAbandon): a half-loaded mirror is dropped; one that was being
 * synchronized is still as good as before, since its sequence has not advanced.  Requests to the
 * loader, and pinned mirrors, are remembered in that case, and tried again: wish.c.
 *
 * Exactly one entry refers to a column in device memory, from its creation to its end, and an
 * entry with a column does not become EMPTY before the service has confirmed that the column is
 * gone.  So no column is forgotten.
 *
 * Entries whose column is of another epoch than the service's have lost it: the device memory is
 * gone as a whole, and nothing is left to free.
 *
 * The sections below set up the shared memory, and define a mirror's key.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "table.h"

/* Reading ------------------------------------------------------------------------ */

#define MIRROR_TRANCHE			"gpujoin_mirrors"

static void set_promise(GjMirror *mirror, const GjIndexState *state);
static bool is_free(const GjMirror *mirror);
static bool is_replaceable(const GjMirror *mirror);
static Size table_size(void);
static void request_shmem(void);
static void startup_shmem(void);
static void startup_table(void);
static void abandon_at_exit(int code, Datum arg);
static bool get_database_made(Oid database, Oid tablespace, uint64 *made);

GjMirrorTable *gj_mirrors = NULL;

static shmem_request_hook_type previous_request_hook = NULL;
static shmem_startup_hook_type previous_startup_hook = NULL;

/*
 * Copy an entry; returns false if it is empty
 */
bool
GjMirrorGet(int place, GjMirror *mirror, GjMirrorUse *use)
{
	GjMirrorEntry *entry = &gj_mirrors->entries[place];

	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	*mirror = entry->mirror;
	LWLockRelease(gj_mirrors->lock);
	if (use != NULL)
	{
		use->matches = pg_atomic_read_u64(&entry->matches);
		use->last_used = (TimestampTz) pg_atomic_read_u64(&entry->last_used);
	}
	return mirror->state != GJ_MIRROR_EMPTY;
}

/*
 * Find and copy an entry by key, in any state but DROPPED; returns -1 if not found
 *
 * READY means that the column exists now, as far as we know.
 */
int
GjMirrorFind(const GjMirrorKey *key, GjMirror *mirror)
{
	GjMirror   *entry;
	int			place;

	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	entry = GjMirrorFindEntry(key, &place);
	if (entry != NULL && GjMirrorIsStale(entry))
		entry = NULL;
	if (entry != NULL)
		*mirror = *entry;
	LWLockRelease(gj_mirrors->lock);
	return entry == NULL ? -1 : place;
}

/*
 * Return true if a device holds the index, as far as can be determined without reading the
 * index; so the build id is not compared
 */
bool
GjMirrorIsResident(Relation index)
{
	GjMirrorKey key;
	bool		found = false;

	if (gj_mirrors == NULL || RelationUsesLocalBuffers(index))
		return false;

	GjMirrorKeyOf(index, 0, &key);
	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	for (int i = 0; i < gj_mirrors->high && !found; i++)
	{
		GjMirror   *mirror = &gj_mirrors->entries[i].mirror;

		found = mirror->state == GJ_MIRROR_READY && !GjMirrorIsStale(mirror) &&
			memcmp(&mirror->key, &key, offsetof(GjMirrorKey, build_id)) == 0;
	}
	LWLockRelease(gj_mirrors->lock);
	return found;
}

/*
 * Count a match that used a mirror
 */
void
GjMirrorUsed(int place)
{
	GjMirrorEntry *entry = &gj_mirrors->entries[place];

	pg_atomic_fetch_add_u64(&entry->matches, 1);
	pg_atomic_write_u64(&entry->last_used, (uint64) GetCurrentTimestamp());
}

/*
 * Reset the match counters of mirrors
 */
void
GjMirrorStatsReset(void)
{
	if (gj_mirrors == NULL)
		return;
	for (int place = 0; place < gj_mirrors->size; place++)
		pg_atomic_write_u64(&gj_mirrors->entries[place].matches, 0);
}

/* Claiming ------------------------------------------------------------------------- */

/*
 * Become the process that loads a mirror
 *
 * Returns GJ_FALLBACK_NONE if *place is the caller's to load or, if it is -1, the mirror is
 * ready; otherwise the reason why not.
 */
GjFallback
GjMirrorClaimLoad(const GjMirrorKey *key, Oid index, bool pinned, int *place)
{
	GjFallback	result = GJ_FALLBACK_NONE;
	GjMirror   *mirror;

	GjMirrorExitHook();
	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	mirror = GjMirrorFindEntry(key, place);
	if (mirror != NULL && mirror->state == GJ_MIRROR_READY && !GjMirrorIsStale(mirror))
		*place = -1;
	else if (mirror != NULL && mirror->owner != 0)
		result = GJ_FALLBACK_LOADING;
	else
	{
		if (mirror == NULL)
			mirror = GjMirrorFindFreeEntry(place);
		if (mirror == NULL)
			result = GJ_FALLBACK_TABLE_FULL;
		else
			GjMirrorStartLoad(mirror, key, index, pinned);
	}
	LWLockRelease(gj_mirrors->lock);
	return result;
}

/*
 * Become the process that loads a mirror that is wanted in this database
 */
bool
GjMirrorClaimWanted(Oid database, int *place, GjMirror *copy)
{
	bool		found = false;
	bool		modest;

	GjMirrorExitHook();
	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	for (int i = 0; i < gj_mirrors->high && !found; i++)
	{
		GjMirror   *mirror = &gj_mirrors->entries[i].mirror;

		if (mirror->state != GJ_MIRROR_WANTED || mirror->owner != 0 ||
			mirror->key.database != database)
			continue;
		modest = mirror->modest;
		GjMirrorStartLoad(mirror, &mirror->key, mirror->index, mirror->pinned);
		mirror->modest = modest;
		*place = i;
		*copy = *mirror;
		found = true;
	}
	LWLockRelease(gj_mirrors->lock);
	return found;
}

/*
 * Become the process that synchronizes a mirror; *mirror is the entry that was found, and is
 * updated.  Returns false if another process is synchronizing it already, or if it has changed.
 */
bool
GjMirrorClaimSync(int place, GjMirror *mirror)
{
	GjMirror   *entry = &gj_mirrors->entries[place].mirror;
	bool		mine;

	GjMirrorExitHook();
	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	mine = entry->state == GJ_MIRROR_READY && entry->owner == 0 && !GjMirrorIsStale(entry) &&
		memcmp(&entry->key, &mirror->key, sizeof(GjMirrorKey)) == 0;
	if (mine)
	{
		entry->owner = MyProcPid;
		entry->doomed = false;
		entry->pages_done = 0;
		*mirror = *entry;
	}
	LWLockRelease(gj_mirrors->lock);
	return mine;
}

/* For the owner ---------------------------------------------------------------------- */

/*
 * Record the column that the owner has created
 */
void
GjMirrorSetColumn(int place, const GjServiceColumn *column, BlockNumber pages, uint64 bytes)
{
	GjMirror   *mirror = &gj_mirrors->entries[place].mirror;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	Assert(mirror->owner == MyProcPid);
	mirror->column = *column;
	mirror->pages = pages;
	mirror->bytes = bytes;
	LWLockRelease(gj_mirrors->lock);
}

/*
 * Report progress; only for display, so no lock is taken
 */
void
GjMirrorSetProgress(int place, BlockNumber pages_done)
{
	((volatile GjMirror *) &gj_mirrors->entries[place].mirror)->pages_done = pages_done;
}

/*
 * Finish a load or synchronization: the mirror has all changes up to state, which was read
 * before any page.  state is NULL if the lists have changed meanwhile, so that the mirror cannot
 * be used yet.
 */
void
GjMirrorFinish(int place, const GjIndexState *state, BlockNumber pages, uint64 bytes,
			   uint64 pushed, uint64 entries)
{
	GjMirror   *mirror = &gj_mirrors->entries[place].mirror;
	bool		to_free;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	Assert(mirror->owner == MyProcPid);
	mirror->owner = 0;
	mirror->tries = 0;
	if (state != NULL)
		set_promise(mirror, state);
	else
		mirror->list_version = 0;
	mirror->pages = pages;
	mirror->bytes = bytes;
	mirror->pages_pushed += pushed;
	mirror->entries = entries;
	if (mirror->state == GJ_MIRROR_LOADING)
	{
		mirror->state = GJ_MIRROR_READY;
		mirror->loaded_at = GetCurrentTimestamp();
		pg_atomic_write_u64(&gj_mirrors->entries[place].matches, 0);
		pg_atomic_write_u64(&gj_mirrors->entries[place].last_used,
							(uint64) mirror->loaded_at);
	}
	else
		mirror->syncs++;
	to_free = mirror->doomed;
	if (to_free)
		GjMirrorDropEntry(mirror);
	LWLockRelease(gj_mirrors->lock);

	if (to_free)
		GjLauncherWake();
}

/*
 * Record the state that the mirror has copied.  Needs the lock.
 */
static void
set_promise(GjMirror *mirror, const GjIndexState *state)
{
	mirror->list_version = state->list_version;
	mirror->sequence = state->sequence;
	mirror->vacuum_epoch = state->vacuum_epoch;
	mirror->nopen = state->nopen;
	memcpy(mirror->open_blocks, state->open_blocks, state->nopen * sizeof(BlockNumber));
	mirror->next_run = state->next_run;
	mirror->nalive = GjListsGetAlive(state, mirror->alive);
}

/* For all processes ------------------------------------------------------------------ */

/*
 * Drop the mirror of an index; with any_build, also those of other builds in its file
 *
 * Returns true if there was one.  Its memory is freed by GjMirrorCollect().
 */
bool
GjMirrorDrop(const GjMirrorKey *key, bool any_build)
{
	bool		found = false;

	if (gj_mirrors == NULL)
		return false;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	for (int i = 0; i < gj_mirrors->high; i++)
	{
		GjMirror   *mirror = &gj_mirrors->entries[i].mirror;

		if (mirror->state == GJ_MIRROR_EMPTY || mirror->state == GJ_MIRROR_DROPPED ||
			memcmp(&mirror->key, key, offsetof(GjMirrorKey, build_id)) != 0 ||
			(!any_build && mirror->key.build_id != key->build_id))
			continue;
		found |= mirror->state == GJ_MIRROR_READY || mirror->state == GJ_MIRROR_LOADING;
		GjMirrorDropEntry(mirror);
	}
	LWLockRelease(gj_mirrors->lock);
	return found;
}

/* Helpers --------------------------------------------------------------------------- */

/*
 * Drop an entry, or make its owner drop it; it is not found any more.  Needs the lock.
 */
void
GjMirrorDropEntry(GjMirror *mirror)
{
	if (mirror->owner != 0)
		mirror->doomed = true;
	else if (GjMirrorHasColumn(mirror))
		mirror->state = GJ_MIRROR_DROPPED;
	else
		memset(mirror, 0, sizeof(GjMirror));
}

/*
 * Find an entry by key, ignoring dropped ones.  Needs the lock.
 */
GjMirror *
GjMirrorFindEntry(const GjMirrorKey *key, int *place)
{
	for (int i = 0; i < gj_mirrors->high; i++)
	{
		GjMirror   *mirror = &gj_mirrors->entries[i].mirror;

		if (mirror->key.build_id == key->build_id &&
			mirror->state != GJ_MIRROR_EMPTY && mirror->state != GJ_MIRROR_DROPPED &&
			memcmp(&mirror->key, key, sizeof(GjMirrorKey)) == 0)
		{
			*place = i;
			return mirror;
		}
	}
	return NULL;
}

/*
 * Find an entry that can be used for another mirror, or NULL.  Needs the lock.
 *
 * If no entry is free, reuse one that is not essential: the record of a failed load for a query,
 * the wish of a build, or a mirror that was lost with the device's memory.
 */
GjMirror *
GjMirrorFindFreeEntry(int *place)
{
	for (int pass = 0; pass < 2; pass++)
	{
		for (int i = 0; i < gj_mirrors->size; i++)
		{
			GjMirror   *mirror = &gj_mirrors->entries[i].mirror;

			if (pass == 0 ? is_free(mirror) : is_replaceable(mirror))
			{
				gj_mirrors->high = Max(gj_mirrors->high, i + 1);
				*place = i;
				return mirror;
			}
		}
	}
	return NULL;
}

static bool
is_free(const GjMirror *mirror)
{
	return mirror->state == GJ_MIRROR_EMPTY ||
		(mirror->state == GJ_MIRROR_DROPPED && mirror->owner == 0 && GjMirrorIsStale(mirror));
}

static bool
is_replaceable(const GjMirror *mirror)
{
	if (mirror->owner != 0 || mirror->pinned)
		return false;
	return (mirror->state == GJ_MIRROR_REFUSED && !mirror->wanted) ||
		(mirror->state == GJ_MIRROR_WANTED && mirror->modest) || GjMirrorIsStale(mirror);
}

/*
 * Make this process the owner and loader of an entry.  Records of failed loads of the same index
 * are kept.  Needs the lock.
 */
void
GjMirrorStartLoad(GjMirror *mirror, const GjMirrorKey *key, Oid index, bool pinned)
{
	GjMirrorKey kept = *key;	/* a copy, because it may point into the entry */
	bool		same = memcmp(&mirror->key, key, sizeof(GjMirrorKey)) == 0;
	bool		wanted = same && mirror->wanted;
	int			tries = same ? mirror->tries : 0;

	memset(mirror, 0, sizeof(GjMirror));
	mirror->key = kept;
	mirror->index = index;
	mirror->pinned = pinned;
	mirror->wanted = wanted;
	mirror->tries = tries;
	mirror->state = GJ_MIRROR_LOADING;
	mirror->owner = MyProcPid;
}

/*
 * Return true if the entry has lost its column.  Needs the lock.
 */
bool
GjMirrorIsStale(const GjMirror *mirror)
{
	return (mirror->state == GJ_MIRROR_READY || mirror->state == GJ_MIRROR_DROPPED) &&
		!GjMirrorHasColumn(mirror);
}

/*-------------------------------------------------------------------------
 * Shared memory
 *
 * Create the table of mirrors.  Give up a process's entries when it ends.
 *-------------------------------------------------------------------------
 */

/*
 * If the library is being preloaded, request shared memory and arrange for the table to be
 * created
 */
void
GjMirrorInit(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
}

static Size
table_size(void)
{
	return add_size(offsetof(GjMirrorTable, entries),
					mul_size(gj_max_mirrors, sizeof(GjMirrorEntry)));
}

static void
request_shmem(void)
{
	if (previous_request_hook)
		previous_request_hook();
	RequestAddinShmemSpace(table_size());
	RequestNamedLWLockTranche(MIRROR_TRANCHE, 1);
}

static void
startup_shmem(void)
{
	if (previous_startup_hook)
		previous_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	startup_table();
	LWLockRelease(AddinShmemInitLock);
}

static void
startup_table(void)
{
	bool		found;

	gj_mirrors = ShmemInitStruct("gpujoin mirrors", table_size(), &found);
	if (found)
		return;
	memset(gj_mirrors, 0, table_size());
	gj_mirrors->lock = &GetNamedLWLockTranche(MIRROR_TRANCHE)->lock;
	gj_mirrors->size = gj_max_mirrors;
	for (int i = 0; i < gj_max_mirrors; i++)
	{
		pg_atomic_init_u64(&gj_mirrors->entries[i].matches, 0);
		pg_atomic_init_u64(&gj_mirrors->entries[i].last_used, 0);
	}
}

/*
 * Return true if the table exists
 */
bool
GjMirrorTableExists(void)
{
	return gj_mirrors != NULL;
}

/*
 * Return the number of entries that GjMirrorGet() can be called for
 */
int
GjMirrorTableSize(void)
{
	return gj_mirrors == NULL ? 0 : gj_mirrors->size;
}

/*
 * Give up all entries that this process owns.  May be called at any time.
 */
void
GjMirrorAbandon(void)
{
	if (gj_mirrors == NULL)
		return;
	for (int place = 0; place < gj_mirrors->high; place++)
		GjMirrorAbandonEntry(place);
}

/*
 * Notify the launcher of new work
 */
void
GjLauncherWake(void)
{
	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	if (gj_mirrors->launcher != NULL && gj_mirrors->launcher != MyLatch)
		SetLatch(gj_mirrors->launcher);
	LWLockRelease(gj_mirrors->lock);
}

/*
 * Make sure that this process gives up its entries when it ends
 */
void
GjMirrorExitHook(void)
{
	static bool registered = false;

	if (!registered)
		before_shmem_exit(abandon_at_exit, (Datum) 0);
	registered = true;
}

static void
abandon_at_exit(int code, Datum arg)
{
	GjMirrorAbandon();
}

/*-------------------------------------------------------------------------
 * Keys of mirrors
 *
 * What a mirror is a copy of, and whether that still exists.
 *
 * A mirror is proved fresh by a sequence number of the index (match/device.c).  For this, both
 * must have the same history: the numbers of an index with another history prove nothing.  So
 * the key has everything that distinguishes histories:
 *
 *	  build id		each build of an index starts a new history
 *	  file			a copy of a database has files with the same names and build ids, but a
 *					history of its own from then on, so database and tablespace are part of the
 *					name
 *	  database		can be created a second time, from the same template and with the same OID
 *					(CREATE DATABASE ... OID), within moments.  Its file PG_VERSION is written
 *					when a database's directory is created, also by replay, and never again: its
 *					time and its inode distinguish the databases
 *
 * A process stays in one database, which cannot be dropped or moved meanwhile, on a standby
 * either: looking at that file once is enough.
 *-------------------------------------------------------------------------
 */

/*
 * Build the key for the contents of an index's file
 */
void
GjMirrorKeyOf(Relation index, uint64 build_id, GjMirrorKey *key)
{
	static uint64 made = 0;

	/* if the file cannot be read, do not share mirrors with other processes */
	if (made == 0 && !get_database_made(MyDatabaseId, MyDatabaseTableSpace, &made))
		made = (uint64) GetCurrentTimestamp();

	memset(key, 0, sizeof(GjMirrorKey));
	key->database = GjRelationDatabase(index);
	key->database_tablespace = MyDatabaseTableSpace;
	key->database_made = made;
	key->tablespace = GjRelationTablespace(index);
	key->file = GjRelationFile(index);
	key->build_id = build_id;
}

/*
 * Return true if the file is gone, or if its name belongs to another database by now.  An empty
 * file counts as gone, because PostgreSQL leaves a dropped file empty until the next checkpoint.
 * Any process may call this.
 */
bool
GjMirrorIsGone(const GjMirrorKey *key)
{
	char		path[MAXPGPATH];
	struct stat st;
	uint64		made;

	GjRelationPath(key->database, key->tablespace, key->file, path);
	if (stat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR;
	if (st.st_size == 0)
		return true;
	if (!get_database_made(key->database, key->database_tablespace, &made))
		return errno == ENOENT || errno == ENOTDIR;
	return made != key->database_made;
}

/*
 * Get a number that distinguishes the database that has this OID now from earlier ones; returns
 * false, with errno, if no database has it
 */
static bool
get_database_made(Oid database, Oid tablespace, uint64 *made)
{
	char	   *folder = GetDatabasePath(database, tablespace);
	char		path[MAXPGPATH];
	struct stat st;

	snprintf(path, sizeof(path), "%s/PG_VERSION", folder);
	pfree(folder);
	if (stat(path, &st) < 0)
		return false;
	*made = ((uint64) st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec) ^
		((uint64) st.st_ino * UINT64CONST(0x9E3779B97F4A7C15));
	return true;
}
