/*-------------------------------------------------------------------------
 *
 * wish.c
 *	  Which mirrors shall be loaded: asking for them, giving up for a while, trying again.
 *
 * An entry of the table that waits for a loader is WANTED.  A load that fails leaves it
 * REFUSED, with the reason and the time before which nobody tries again; that time doubles
 * with each failure.  When it is over, a query that misses the mirror may try; the loader does
 * so by itself if it was asked before (wanted), and for as long as it takes if the index has
 * the reloption preload (pinned).  So nobody's wish is forgotten because of a fault, and no
 * fault that stays is met more often than once a minute.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "base/gpujoin.h"
#include "table.h"

/* A load that failed for a reason that may pass is tried again after this time */
#define FIRST_RETRY_MS			1000

/* The wait doubles up to this */
#define MAX_RETRY_MS			60000

/* A wish that is not pinned is given up after so many failures, some five minutes */
#define MAX_TRIES				10

static GjMirror *lock_own(int place);
static void unlock_and_wake(bool to_do);
static void give_up(GjMirror *mirror, GjFallback why, int retry_ms);
static bool counts_on_loader(const GjMirror *mirror);
static void want_again(GjMirror *mirror);

/*
 * Ask the loader for a mirror
 *
 * Returns the reason to give for doing without it meanwhile.  Raises no error, so it may be
 * called when a transaction has just committed.
 */
GjFallback
GjMirrorWant(const GjMirrorKey *key, Oid index, bool pinned, bool modest)
{
	GjFallback	result = GJ_FALLBACK_LOADING;
	bool		asked = false;
	GjMirror   *mirror;
	int			place;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	mirror = GjMirrorFindEntry(key, &place);
	if (mirror != NULL)
		mirror->pinned |= pinned;
	else
		mirror = GjMirrorFindFreeEntry(&place);

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
			 (mirror->state != GJ_MIRROR_READY || GjMirrorIsStale(mirror)))
	{
		asked = mirror->state != GJ_MIRROR_WANTED;
		GjMirrorStartLoad(mirror, key, index, pinned);
		mirror->owner = 0;
		mirror->state = GJ_MIRROR_WANTED;
		mirror->wanted = true;
		mirror->modest = modest;
	}
	unlock_and_wake(asked);
	return result;
}

/*
 * For the owner: note that the load has failed.  retry_ms is the time before the second try;
 * 0 stands for the usual one.
 */
void
GjMirrorRefuse(int place, GjFallback why, int retry_ms)
{
	GjMirror   *mirror = lock_own(place);

	give_up(mirror, why, retry_ms);
	unlock_and_wake(mirror->state == GJ_MIRROR_DROPPED);
}

/*
 * For the owner: forget what was to be loaded, as it is not there any more, or not worth a try
 */
void
GjMirrorForget(int place)
{
	GjMirror   *mirror = lock_own(place);

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
 * Unlock the table, and wake the launcher if there is something to do for it
 */
static void
unlock_and_wake(bool to_do)
{
	LWLockRelease(gj_mirrors->lock);
	if (to_do)
		GjLauncherWake();
}

/*
 * Give up an entry that this process owns, in any state: it was interrupted, or it ends
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
		to_do = mirror->state == GJ_MIRROR_DROPPED || GjMirrorIsStale(mirror);
	}
	unlock_and_wake(to_do);
}

/*
 * Want a mirror again whose column the service does not know any more, although it has not
 * lost its memory as a whole
 */
void
GjMirrorGone(int place, const GjServiceColumn *column)
{
	GjMirror   *mirror = &gj_mirrors->entries[place].mirror;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	if (mirror->state == GJ_MIRROR_READY && mirror->owner == 0 && GjMirrorHasColumn(mirror) &&
		memcmp(&mirror->column, column, sizeof(GjServiceColumn)) == 0)
		want_again(mirror);
	LWLockRelease(gj_mirrors->lock);
}

/*
 * Pin a mirror or not, after the index's reloption was changed
 */
void
GjMirrorSetPinned(const GjMirrorKey *key, bool pinned)
{
	GjMirror   *mirror;
	int			place;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	mirror = GjMirrorFindEntry(key, &place);
	if (mirror != NULL)
		mirror->pinned = pinned;
	LWLockRelease(gj_mirrors->lock);
}

/*
 * Ask again, as the launcher, for what had to be given up and whose time has come, and for all
 * that was lost with the device's memory.  What did not fit is tried again on a new device.
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
		if (mirror->state == GJ_MIRROR_READY && GjMirrorIsStale(mirror))
			want_again(mirror);
		else if (mirror->state == GJ_MIRROR_DROPPED && GjMirrorIsStale(mirror))
			memset(mirror, 0, sizeof(GjMirror));
		else if (mirror->state == GJ_MIRROR_REFUSED &&
				 ((mirror->retry_at <= now && counts_on_loader(mirror)) ||
				  (new_device && mirror->refusal == GJ_FALLBACK_NO_MEMORY)))
			mirror->state = GJ_MIRROR_WANTED;
	}
	LWLockRelease(gj_mirrors->lock);
}

/*
 * Drop an entry whose load has failed, and note when to try again.  Needs the lock.
 *
 * An entry that has a column keeps it until the service has confirmed that it is gone, so
 * the note then needs another entry.  If there is none, it is lost; a query will ask anew.
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
	note = mirror->state == GJ_MIRROR_EMPTY ? mirror : GjMirrorFindFreeEntry(&place);
	if (note == NULL)
		return;

	if (retry_ms == 0)
		retry_ms = FIRST_RETRY_MS;
	for (int i = 0; i < failed.tries && retry_ms < MAX_RETRY_MS; i++)
		retry_ms *= 2;
	GjMirrorStartLoad(note, &failed.key, failed.index, failed.pinned);
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
 * Will the loader try again by itself?  Not where memory is short: a query will say whether the
 * mirror is still worth having.
 */
static bool
counts_on_loader(const GjMirror *mirror)
{
	if (mirror->pinned)
		return true;
	return mirror->wanted && mirror->tries < MAX_TRIES &&
		mirror->refusal != GJ_FALLBACK_NO_MEMORY && mirror->refusal != GJ_FALLBACK_TOO_BIG;
}

/* The entry has lost its column.  Needs the lock. */
static void
want_again(GjMirror *mirror)
{
	GjMirrorStartLoad(mirror, &mirror->key, mirror->index, mirror->pinned);
	mirror->owner = 0;
	mirror->state = GJ_MIRROR_WANTED;
	mirror->wanted = true;
}
