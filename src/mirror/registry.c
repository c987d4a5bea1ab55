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
 * loader, and pinned mirrors, are remembered in that case, and tried again.
 *
 * Exactly one entry refers to a column in device memory, from its creation to its end, and an
 * entry with a column does not become EMPTY before the service has confirmed that the column is
 * gone.  So no column is forgotten.
 *
 * Entries whose column is of another epoch than the device's have lost it: the device memory is
 * gone as a whole, and nothing is left to free.
 *
 * An index may have several entries, each with a column on another device and a promise of its own:
 * copies of each other (place.c).
 *
 * The sections below take requests for mirrors, set up the shared memory, define a mirror's key,
 * and request mirrors for indexes that a transaction has built.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/settings.h"
#include "table.h"

#define MIRROR_TRANCHE			"gpujoin_mirrors"

/* A load that failed for a temporary reason is retried after this time */
#define FIRST_RETRY_MS			1000

/* Maximum delay */
#define MAX_RETRY_MS			60000

/* A request that is not pinned is given up after this many failures, about five minutes */
#define MAX_TRIES				10

/* An index to load, or, with index = InvalidOid, a change of options */
typedef struct Wish
{
	SubTransactionId subid;
	Oid			index;
	GjMirrorKey key;
	bool		pinned;
} Wish;

static void set_promise(GjMirror *mirror, const GjIndexState *state);
static bool mirror_is_free(const GjMirror *mirror);
static bool is_replaceable(const GjMirror *mirror);
static Size table_size(void);
static void request_shmem(void);
static void startup_shmem(void);
static void abandon_at_exit(int code, Datum arg);
static bool get_database_made(Oid database, Oid tablespace, uint64 *made);
static GjMirror *lock_own(int place);
static void unlock_and_wake(bool to_do);
static void give_up(GjMirror *mirror, GjFallback why, int retry_ms);
static bool counts_on_loader(const GjMirror *mirror);
static void want_again(int place);
static void add_wish(Oid index, const GjMirrorKey *key, bool pinned);
static void at_transaction_end(XactEvent event, void *arg);
static void at_subtransaction_end(SubXactEvent event, SubTransactionId subid,
								  SubTransactionId parent, void *arg);
static void fulfil(void);
static void see_alter(ObjectAccessType access, Oid class_oid, Oid object_oid, int sub_id,
					  void *arg);
static void look_for_marked(Oid database);
static GjMirror *find_entry(const GjMirrorKey *key, int *place);
static bool is_of(const GjMirror *mirror, const GjMirrorKey *key);
static bool is_for(const GjMirror *mirror, int device);
static GjMirror *find_free_entry(int *place);
static void start_load(GjMirror *mirror, const GjMirrorKey *key, Oid index, bool pinned,
					   int target);
static void note_copies(const GjMirrorKey *key);
static bool is_stale(const GjMirror *mirror);
static void wake_launcher(void);

GjMirrorTable *gj_mirrors = NULL;

static List *wishes = NIL;		/* allocated in TopTransactionContext */
static object_access_hook_type previous_access_hook = NULL;

/* Reading ------------------------------------------------------------------------ */

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
 * READY means that the column exists now, as far as we know.  If "place" is not -1, and the entry
 * there is of this key and READY, then it is that one, even if another device has a copy.
 */
int
GjMirrorFind(const GjMirrorKey *key, int place, GjMirror *mirror)
{
	GjMirror   *entry = place >= 0 ? &gj_mirrors->entries[place].mirror : NULL;

	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	if (entry == NULL || !is_of(entry, key) || entry->state != GJ_MIRROR_READY || is_stale(entry))
		entry = find_entry(key, &place);
	if (entry != NULL && is_stale(entry))
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

		found = mirror->state == GJ_MIRROR_READY && !is_stale(mirror) &&
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
	{
		pg_atomic_write_u64(&gj_mirrors->entries[place].matches, 0);
	}
}

/* Claiming ------------------------------------------------------------------------- */

/*
 * Become the process that loads a mirror, on any device or on this one
 *
 * Returns GJ_FALLBACK_NONE if *place is the caller's to load or, if it is -1, the mirror is
 * ready; otherwise the reason why not.
 */
GjFallback
GjMirrorClaimLoad(const GjMirrorKey *key, Oid index, bool pinned, int device, int *place)
{
	GjFallback	result = GJ_FALLBACK_NONE;
	GjMirror   *mirror;

	GjMirrorExitHook();
	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	mirror = GjMirrorFindOn(key, device, place);
	if (mirror != NULL && mirror->state == GJ_MIRROR_READY && !is_stale(mirror))
		*place = -1;
	else if (mirror != NULL && mirror->owner != 0)
		result = GJ_FALLBACK_LOADING;
	else
	{
		if (mirror == NULL)
			mirror = find_free_entry(place);
		if (mirror == NULL)
			result = GJ_FALLBACK_TABLE_FULL;
		else
			start_load(mirror, key, index, pinned, device);
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
		start_load(mirror, &mirror->key, mirror->index, mirror->pinned, mirror->target);
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
	mine = entry->state == GJ_MIRROR_READY && entry->owner == 0 && !is_stale(entry) &&
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
	Assert(mirror->state == GJ_MIRROR_LOADING || mirror->state == GJ_MIRROR_READY);
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
		wake_launcher();
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
 * Drop the mirrors of an index, on any device or on this one; with any_build, also those of other
 * builds in its file
 *
 * Returns true if there was one.  Its memory is freed by GjMirrorCollect().
 */
bool
GjMirrorDrop(const GjMirrorKey *key, bool any_build, int device)
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
			(!any_build && mirror->key.build_id != key->build_id) || !is_for(mirror, device))
			continue;
		found |= mirror->state == GJ_MIRROR_READY || mirror->state == GJ_MIRROR_LOADING;
		GjMirrorDropEntry(mirror);
	}
	LWLockRelease(gj_mirrors->lock);
	return found;
}

/*-------------------------------------------------------------------------
 * Requests
 *
 * Ask for a load, give up for some time, try again.
 *
 * An entry of the table that waits for a loader is WANTED.  A load that fails leaves it REFUSED,
 * with the reason and the time of the next attempt; the delay doubles with each failure.  After
 * that time, a query that misses the mirror may try again; the loader does so by itself if it
 * was asked before (wanted), and without limit if the index has the reloption preload (pinned).
 * So no request is lost because of a failure, and a permanent failure occurs at most once a
 * minute.
 *-------------------------------------------------------------------------
 */

/*
 * Request a mirror from the loader, on any device or on this one
 *
 * Returns the reason to report while there is no mirror.  Raises no error, so it may be called
 * when a transaction has just committed.
 */
GjFallback
GjMirrorWant(const GjMirrorKey *key, Oid index, bool pinned, bool modest, int device)
{
	GjFallback	result = GJ_FALLBACK_LOADING;
	bool		asked = false;
	GjMirror   *mirror;
	int			place;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	mirror = GjMirrorFindOn(key, device, &place);
	if (mirror != NULL)
		mirror->pinned |= pinned;
	else
		mirror = find_free_entry(&place);

	if (mirror == NULL)
		result = GJ_FALLBACK_TABLE_FULL;
	else if (mirror->state == GJ_MIRROR_REFUSED &&
			 memcmp(&mirror->key, key, sizeof(GjMirrorKey)) == 0 &&
			 GetCurrentTimestamp() < mirror->retry_at)
	{
		mirror->wanted |= !modest;
		result = mirror->refusal;
	}
	else if (mirror->owner == 0 &&
			 (mirror->state != GJ_MIRROR_READY || is_stale(mirror)))
	{
		asked = mirror->state != GJ_MIRROR_WANTED;
		start_load(mirror, key, index, pinned, device);
		mirror->owner = 0;
		mirror->state = GJ_MIRROR_WANTED;
		mirror->wanted = true;
		mirror->modest = modest;
	}
	unlock_and_wake(asked);
	return result;
}

/*
 * For the owner: record that the load has failed.  retry_ms is the delay before the second
 * attempt; 0 means the default.
 */
void
GjMirrorRefuse(int place, GjFallback why, int retry_ms)
{
	GjMirror   *mirror = lock_own(place);

	Assert(mirror->state == GJ_MIRROR_LOADING);
	give_up(mirror, why, retry_ms);
	unlock_and_wake(mirror->state == GJ_MIRROR_DROPPED);
}

/*
 * For the owner: forget the request, because the index does not exist any more or is not worth a
 * retry
 */
void
GjMirrorForget(int place)
{
	GjMirror   *mirror = lock_own(place);

	Assert(mirror->state == GJ_MIRROR_LOADING);
	mirror->owner = 0;
	GjMirrorDropEntry(mirror);
	unlock_and_wake(mirror->state == GJ_MIRROR_DROPPED);
}

/*
 * Lock the table to change an entry that this process owns
 */
static GjMirror *
lock_own(int place)
{
	GjMirror   *mirror = &gj_mirrors->entries[place].mirror;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	Assert(mirror->owner == MyProcPid);
	return mirror;
}

/*
 * Unlock the table, and wake the launcher if it has work to do
 */
static void
unlock_and_wake(bool to_do)
{
	LWLockRelease(gj_mirrors->lock);
	if (to_do)
		wake_launcher();
}

/*
 * Give up an entry that this process owns, in any state, because it was interrupted or ends
 */
void
GjMirrorAbandonEntry(int place)
{
	GjMirror   *mirror = &gj_mirrors->entries[place].mirror;
	bool		to_do = false;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	if (mirror->owner == MyProcPid)
	{
		if (mirror->state == GJ_MIRROR_LOADING && counts_on_loader(mirror))
			give_up(mirror, GJ_FALLBACK_LOADING, 0);
		else
		{
			mirror->owner = 0;
			if (mirror->state == GJ_MIRROR_LOADING || mirror->doomed)
				GjMirrorDropEntry(mirror);
		}
		to_do = mirror->state == GJ_MIRROR_DROPPED || is_stale(mirror);
	}
	unlock_and_wake(to_do);
}

/*
 * Request a mirror again whose column the service does not know any more, although the device has
 * not lost its memory as a whole
 */
void
GjMirrorGone(int place, const GjServiceColumn *column)
{
	GjMirror   *mirror = &gj_mirrors->entries[place].mirror;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	if (mirror->state == GJ_MIRROR_READY && mirror->owner == 0 && GjMirrorHasColumn(mirror) &&
		memcmp(&mirror->column, column, sizeof(GjServiceColumn)) == 0)
		want_again(place);
	LWLockRelease(gj_mirrors->lock);
}

/*
 * Pin or unpin the mirrors of an index, after the index's reloption was changed
 */
void
GjMirrorSetPinned(const GjMirrorKey *key, bool pinned)
{
	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	for (int place = 0; place < gj_mirrors->high; place++)
	{
		if (is_of(&gj_mirrors->entries[place].mirror, key))
			gj_mirrors->entries[place].mirror.pinned = pinned;
	}
	LWLockRelease(gj_mirrors->lock);
}

/*
 * Repeat requests, in the launcher: those that were given up and whose delay is over, and those
 * for mirrors that were lost with a device's memory.  Mirrors that did not fit are tried again
 * on a new device.
 */
void
GjMirrorRetry(bool new_device)
{
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	for (int place = 0; place < gj_mirrors->high; place++)
	{
		GjMirror   *mirror = &gj_mirrors->entries[place].mirror;

		if (mirror->owner != 0)
			continue;
		if (mirror->state == GJ_MIRROR_READY && is_stale(mirror))
			want_again(place);
		else if (mirror->state == GJ_MIRROR_DROPPED && is_stale(mirror))
			memset(mirror, 0, sizeof(GjMirror));
		else if (mirror->state == GJ_MIRROR_REFUSED &&
				 ((mirror->retry_at <= now && counts_on_loader(mirror)) ||
				  (new_device && mirror->refusal == GJ_FALLBACK_NO_MEMORY)))
			mirror->state = GJ_MIRROR_WANTED;
	}
	LWLockRelease(gj_mirrors->lock);
}

/*
 * Drop an entry whose load has failed, and record when to retry.  Needs the lock.
 *
 * An entry that has a column keeps it until the service has confirmed that the column is gone,
 * so the record needs another entry in that case.  If none is available, the record is lost; a
 * query will make a new request.
 */
static void
give_up(GjMirror *mirror, GjFallback why, int retry_ms)
{
	GjMirror	failed = *mirror;
	GjMirror   *note;
	int			place;

	mirror->owner = 0;
	GjMirrorDropEntry(mirror);
	if (failed.doomed)
		return;
	note = mirror->state == GJ_MIRROR_EMPTY ? mirror : find_free_entry(&place);
	if (note == NULL)
		return;

	if (retry_ms == 0)
		retry_ms = FIRST_RETRY_MS;
	for (int i = 0; i < failed.tries && retry_ms < MAX_RETRY_MS; i++)
		retry_ms *= 2;
	start_load(note, &failed.key, failed.index, failed.pinned, failed.target);
	note->owner = 0;
	note->state = GJ_MIRROR_REFUSED;
	note->refusal = why;
	note->wanted = failed.wanted;
	note->modest = failed.modest;
	note->tries = failed.tries + 1;
	note->retry_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
												 Min(retry_ms, MAX_RETRY_MS));
}

/*
 * Return true if the loader will retry by itself.  It does not if memory is short: a query will
 * show whether the mirror is still worthwhile.
 */
static bool
counts_on_loader(const GjMirror *mirror)
{
	if (mirror->pinned)
		return true;
	return mirror->wanted && mirror->tries < MAX_TRIES &&
		mirror->refusal != GJ_FALLBACK_NO_MEMORY && mirror->refusal != GJ_FALLBACK_TOO_BIG;
}

/*
 * Handle the loss of the entry's column: if no other device has the mirror, it is loaded again,
 * on any device.  Needs the lock.
 */
static void
want_again(int place)
{
	GjMirror   *mirror = &gj_mirrors->entries[place].mirror;

	Assert(mirror->state == GJ_MIRROR_READY && mirror->owner == 0);
	if (GjMirrorHasCopy(place))
	{
		memset(mirror, 0, sizeof(GjMirror));
		return;
	}
	start_load(mirror, &mirror->key, mirror->index, mirror->pinned, GJ_ANY_DEVICE);
	mirror->owner = 0;
	mirror->state = GJ_MIRROR_WANTED;
	mirror->wanted = true;
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
 * Find an entry by key, ignoring dropped ones.  If there are several, on different devices, choose
 * one for a request.  Needs the lock.
 */
static GjMirror *
find_entry(const GjMirrorKey *key, int *place)
{
	GjMirror   *best = NULL;

	for (int i = 0; i < gj_mirrors->high; i++)
	{
		GjMirror   *mirror = &gj_mirrors->entries[i].mirror;

		if (!is_of(mirror, key) || (best != NULL && !GjMirrorIsBetter(mirror, best)))
			continue;
		best = mirror;
		*place = i;
		if (!mirror->copied)
			break;
	}
	return best;
}

/*
 * Find an entry by key that is, or is to be, on a device.  Needs the lock.
 */
GjMirror *
GjMirrorFindOn(const GjMirrorKey *key, int device, int *place)
{
	if (device == GJ_ANY_DEVICE)
		return find_entry(key, place);
	for (int i = 0; i < gj_mirrors->high; i++)
	{
		GjMirror   *mirror = &gj_mirrors->entries[i].mirror;

		if (is_of(mirror, key) && is_for(mirror, device))
		{
			*place = i;
			return mirror;
		}
	}
	return NULL;
}

/*
 * Return true if another device has the entry's mirror, too.  Needs the lock.
 */
bool
GjMirrorHasCopy(int place)
{
	const GjMirror *mirror = &gj_mirrors->entries[place].mirror;

	for (int i = 0; i < gj_mirrors->high && mirror->copied; i++)
	{
		const GjMirror *other = &gj_mirrors->entries[i].mirror;

		if (i != place && other->state == GJ_MIRROR_READY && !is_stale(other) && !other->doomed &&
			memcmp(&other->key, &mirror->key, sizeof(GjMirrorKey)) == 0)
			return true;
	}
	return false;
}

static bool
is_of(const GjMirror *mirror, const GjMirrorKey *key)
{
	return mirror->key.build_id == key->build_id &&
		mirror->state != GJ_MIRROR_EMPTY && mirror->state != GJ_MIRROR_DROPPED &&
		memcmp(&mirror->key, key, sizeof(GjMirrorKey)) == 0;
}

static bool
is_for(const GjMirror *mirror, int device)
{
	if (device == GJ_ANY_DEVICE)
		return true;
	return GjMirrorHasColumn(mirror) ? (int) mirror->column.device == device :
		mirror->target == device;
}

/*
 * Find an entry that can be used for another mirror, or NULL.  Needs the lock.
 *
 * If no entry is free, reuse one that is not essential: the record of a failed load for a query,
 * the wish of a build, or a mirror that was lost with the device's memory.
 */
static GjMirror *
find_free_entry(int *place)
{
	for (int pass = 0; pass < 2; pass++)
	{
		for (int i = 0; i < gj_mirrors->size; i++)
		{
			GjMirror   *mirror = &gj_mirrors->entries[i].mirror;

			if (pass == 0 ? mirror_is_free(mirror) : is_replaceable(mirror))
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
mirror_is_free(const GjMirror *mirror)
{
	return mirror->state == GJ_MIRROR_EMPTY ||
		(mirror->state == GJ_MIRROR_DROPPED && mirror->owner == 0 && is_stale(mirror));
}

static bool
is_replaceable(const GjMirror *mirror)
{
	if (mirror->owner != 0 || mirror->pinned)
		return false;
	return (mirror->state == GJ_MIRROR_REFUSED && !mirror->wanted) ||
		(mirror->state == GJ_MIRROR_WANTED && mirror->modest) || is_stale(mirror);
}

/*
 * Make this process the owner and loader of an entry.  Records of failed loads of the same index
 * are kept.  Needs the lock.
 */
static void
start_load(GjMirror *mirror, const GjMirrorKey *key, Oid index, bool pinned, int target)
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
	mirror->target = target;
	mirror->state = GJ_MIRROR_LOADING;
	mirror->owner = MyProcPid;
	if (GjServiceDevices() > 1)
		note_copies(&mirror->key);
}

/*
 * Mark the entries of an index as copies if there are several.  Needs the lock.
 */
static void
note_copies(const GjMirrorKey *key)
{
	int			n = 0;

	for (int i = 0; i < gj_mirrors->high; i++)
		n += is_of(&gj_mirrors->entries[i].mirror, key);
	for (int i = 0; i < gj_mirrors->high && n > 1; i++)
	{
		if (is_of(&gj_mirrors->entries[i].mirror, key))
			gj_mirrors->entries[i].mirror.copied = true;
	}
}

/*
 * Return true if the entry has lost its column.  Needs the lock.
 */
static bool
is_stale(const GjMirror *mirror)
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
 * If the library is being preloaded, have the table created in shared memory, and install the
 * hooks that request mirrors when a transaction commits
 */
void
GjMirrorInit(void)
{
	if (!GjAtServerStart(request_shmem, startup_shmem) || gj_device == GJ_DEVICE_NONE)
		return;

	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
	previous_access_hook = object_access_hook;
	object_access_hook = see_alter;
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
	RequestAddinShmemSpace(table_size());
	RequestNamedLWLockTranche(MIRROR_TRANCHE, 1);
}

static void
startup_shmem(void)
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
		pg_atomic_init_u32(&gj_mirrors->entries[i].waits, 0);
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
static void
wake_launcher(void)
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
 * A key identifies the contents of an index, and tells whether they still exist.
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

/*-------------------------------------------------------------------------
 * Indexes built in this transaction
 *
 * Changes of indexes by a transaction take effect on mirrors when it commits.
 *
 * An index that was built (CREATE INDEX, REINDEX, TRUNCATE, VACUUM FULL, CLUSTER, ALTER TABLE)
 * is loaded by a loader as soon as other transactions can see it, if gpujoin.auto_load was on or
 * it has the reloption preload.  No query has requested it yet: without preload, the load takes
 * only memory that is free, and is done only if the index is large enough for a device to be
 * used at all.
 *
 * ALTER INDEX ... SET (preload) calls no function of an access method.  A hook detects that a
 * gpujoin index was altered, and then the database is searched again for marked indexes.
 *
 * Both are remembered with their subtransaction, acted upon when the transaction has committed,
 * and forgotten when it has not: a rollback leaves nothing behind.  After a commit no error may
 * be raised and no catalog read, so all information is collected before.  A prepared transaction
 * is committed by a session that does not have this information.  Its indexes are loaded for a
 * query, or after the next start of the server.  The same holds for a standby, where no index is
 * built.
 *-------------------------------------------------------------------------
 */

/*
 * Drop the mirror of an index that is about to be built: the file's contents are gone
 */
void
GjMirrorRelationRebuilt(Relation index)
{
	GjMirrorKey key;

	GjMirrorKeyOf(index, 0, &key);
	if (GjMirrorDrop(&key, true, GJ_ANY_DEVICE))
		wake_launcher();
}

/*
 * Record that this transaction has built an index
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
 * Request mirrors of the indexes that the transaction has built, after it has committed
 *
 * An index that it built twice, or dropped again, is requested under a key that no loader will
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
			(void) GjMirrorWant(&wish->key, wish->index, wish->pinned, !wish->pinned,
								GJ_ANY_DEVICE);
		else
			altered = true;
	}
	if (altered)
		look_for_marked(MyDatabaseId);
}

/*
 * object_access_hook: record that a gpujoin index was altered
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

/*
 * Have a database searched for indexes marked with preload.  Raises no error.
 */
static void
look_for_marked(Oid database)
{
	bool		asked = false;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	gj_mirrors->preloaded = false;
	for (int i = 0; i < gj_mirrors->npreload && !asked; i++)
		asked = gj_mirrors->preload[i] == database;
	if (!asked && gj_mirrors->npreload < GJ_PRELOAD_REQUESTS)
		gj_mirrors->preload[gj_mirrors->npreload++] = database;
	else if (!asked)
		gj_mirrors->preload_all = true;
	LWLockRelease(gj_mirrors->lock);
	wake_launcher();
}
