/*-------------------------------------------------------------------------
 *
 * mirrorclean.c
 *	  Freeing the device memory of mirrors that are not wanted any more.
 *
 * DROP, TRUNCATE, REINDEX, a rollback of any of them and DROP DATABASE tell nobody, or
 * tell too early: what a callback says may be rolled back, lost, or happen on another
 * server.  So the file system is asked: an index whose file is gone, or cut to nothing
 * (which is what PostgreSQL leaves of a dropped file until the next checkpoint), is no
 * more.  The launcher looks every few seconds, whoever needs memory looks before.
 *
 * The one case that a file does not show, because it keeps its name, is TRUNCATE of a
 * table that the same transaction has made: there the index is built anew, and gjbuild()
 * says so.  If that were lost, the mirror would stand there unused until somebody needs
 * its memory: it carries the old build id, so no query can match against it.
 *
 * Two steps: marking an entry as dropped, under the table's lock; then telling the
 * service, without it.  Whoever is interrupted between leaves the second to others.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "gpujoin.h"
#include "mirrortable.h"

/*
 * A load in passing leaves alone what was used within the last minute: two indexes of
 * which the device holds one would drive each other out with every query.
 */
#define RECENT_USE_MS			60000

static GjMirror *find_victim(GjLoadMode mode, uint64 *evictable);
static bool claim_dropped(int *slot, GjServiceColumn *column);
static void forget_dropped(int slot);
static bool is_file_gone(const GjMirrorKey *key);

/*
 * The index is about to be built: what was in its file is no more
 */
void
GjMirrorRelationRebuilt(Relation index)
{
	GjMirrorKey key;

	GjMirrorKeyOf(index, 0, &key);
	if (GjMirrorDrop(&key, true))
		GjPreloadWake();
}

/*
 * Could there be room for a column, if mirrors were evicted?
 *
 * About: the service has the last word.  Here is decided only whether dropping mirrors
 * has a point, so that nothing is dropped in vain.
 */
bool
GjMirrorCanMakeRoom(uint64 bytes, GjLoadMode mode)
{
	GjServiceStatus status;
	uint64		evictable;

	GjServiceGetStatus(&status);
	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	(void) find_victim(mode, &evictable);
	LWLockRelease(gj_mirrors->lock);

	return bytes <= status.memory_columns_limit &&
		status.memory_columns + bytes <= status.memory_columns_limit + evictable;
}

/*
 * Drop the mirror that was not used for longest, and free its memory
 *
 * Returns false if there is none that may go.  Talks to the service.
 */
bool
GjMirrorEvict(GjLoadMode mode)
{
	GjMirror   *victim;
	uint64		evictable;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	victim = find_victim(mode, &evictable);
	if (victim != NULL)
		GjMirrorDropEntry(victim);
	LWLockRelease(gj_mirrors->lock);

	if (victim != NULL)
		GjMirrorCollect();
	return victim != NULL;
}

/*
 * Free the columns of all dropped mirrors
 *
 * Talks to the service, about one column after the other.  What it cannot free now stays
 * in the table.
 */
void
GjMirrorCollect(void)
{
	GjServiceColumn column;
	int			slot;

	if (gj_mirrors == NULL)
		return;

	GjMirrorExitHook();
	PG_TRY();
	{
		while (claim_dropped(&slot, &column))
		{
			GjServiceResult result = GjServiceColumnDrop(&column);

			if (result != GJ_SERVICE_OK && result != GJ_SERVICE_GONE)
			{
				GjMirrorAbandonEntry(slot);
				break;
			}
			forget_dropped(slot);
		}
	}
	PG_CATCH();
	{
		GjMirrorAbandon();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * Drop the mirrors of files that are gone
 */
void
GjMirrorSweep(void)
{
	if (gj_mirrors == NULL)
		return;

	for (int slot = 0; slot < gj_mirrors->high; slot++)
	{
		GjMirror	copy;

		if (!GjMirrorGet(slot, &copy, NULL) || copy.state == GJ_MIRROR_DROPPED ||
			copy.owner != 0)
			continue;
		if (is_file_gone(&copy.key))
			GjMirrorDrop(&copy.key, false);
	}
}

/*
 * The device's memory was lost: have again what was there
 */
void
GjMirrorRequeue(void)
{
	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	for (int slot = 0; slot < gj_mirrors->high; slot++)
	{
		GjMirror   *mirror = &gj_mirrors->entries[slot].mirror;

		if (mirror->owner != 0 || GjMirrorHasColumn(mirror))
			continue;
		if (mirror->state == GJ_MIRROR_DROPPED ||
			(mirror->state == GJ_MIRROR_READY && !gj_auto_load && !mirror->pinned))
			memset(mirror, 0, sizeof(GjMirror));
		else if (mirror->state == GJ_MIRROR_READY || mirror->state == GJ_MIRROR_REFUSED)
		{
			mirror->state = GJ_MIRROR_WANTED;
			memset(&mirror->column, 0, sizeof(GjServiceColumn));
		}
	}
	LWLockRelease(gj_mirrors->lock);
}

/*
 * Ask again for what a loader had to give up, and for what was marked by its user
 */
void
GjMirrorRetry(void)
{
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	for (int slot = 0; slot < gj_mirrors->high; slot++)
	{
		GjMirror   *mirror = &gj_mirrors->entries[slot].mirror;

		if (mirror->state == GJ_MIRROR_REFUSED && mirror->owner == 0 &&
			mirror->retry_at <= now &&
			(mirror->pinned || mirror->refusal == GJ_FALLBACK_LOADING))
			mirror->state = GJ_MIRROR_WANTED;
	}
	LWLockRelease(gj_mirrors->lock);
}

/*
 * The mirror that may be evicted and was not used for longest, or NULL; and what all
 * that may be evicted hold.  Needs the lock.
 */
static GjMirror *
find_victim(GjLoadMode mode, uint64 *evictable)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz oldest = 0;
	GjMirror   *victim = NULL;

	*evictable = 0;
	for (int slot = 0; slot < gj_mirrors->high; slot++)
	{
		GjMirrorEntry *entry = &gj_mirrors->entries[slot];
		GjMirror   *mirror = &entry->mirror;
		TimestampTz used = (TimestampTz) pg_atomic_read_u64(&entry->last_used);

		if (mirror->state != GJ_MIRROR_READY || mirror->owner != 0 || mirror->pinned ||
			!GjMirrorHasColumn(mirror))
			continue;
		if (mode != GJ_LOAD_BY_COMMAND &&
			!TimestampDifferenceExceeds(used, now, RECENT_USE_MS))
			continue;
		*evictable += mirror->bytes;
		if (victim == NULL || used < oldest)
		{
			victim = mirror;
			oldest = used;
		}
	}
	return victim;
}

/*
 * Become the one that frees a dropped mirror's column
 */
static bool
claim_dropped(int *slot, GjServiceColumn *column)
{
	bool		found = false;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	for (int i = 0; i < gj_mirrors->high && !found; i++)
	{
		GjMirror   *mirror = &gj_mirrors->entries[i].mirror;

		if (mirror->state != GJ_MIRROR_DROPPED || mirror->owner != 0)
			continue;
		if (!GjMirrorHasColumn(mirror))
		{
			memset(mirror, 0, sizeof(GjMirror));
			continue;
		}
		mirror->owner = MyProcPid;
		*column = mirror->column;
		*slot = i;
		found = true;
	}
	LWLockRelease(gj_mirrors->lock);
	return found;
}

static void
forget_dropped(int slot)
{
	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	Assert(gj_mirrors->entries[slot].mirror.owner == MyProcPid);
	memset(&gj_mirrors->entries[slot].mirror, 0, sizeof(GjMirror));
	LWLockRelease(gj_mirrors->lock);
}

static bool
is_file_gone(const GjMirrorKey *key)
{
	char		path[MAXPGPATH];
	struct stat st;

	GjRelationPath(key->database, key->tablespace, key->file, path);
	if (stat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR;
	return st.st_size == 0;
}
