/*-------------------------------------------------------------------------
 *
 * wish.c
 *	  Requests for mirrors: asking for a load, giving up for some time, trying again.
 *
 * An entry of the table that waits for a loader is WANTED.  A load that fails leaves it REFUSED,
 * with the reason and the time of the next attempt; the delay doubles with each failure.  After
 * that time, a query that misses the mirror may try again; the loader does so by itself if it
 * was asked before (wanted), and without limit if the index has the reloption preload (pinned).
 * So no request is lost because of a failure, and a permanent failure occurs at most once a
 * minute.
 *
 * The last section requests mirrors for indexes that a transaction has built.
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
#include "utils/timestamp.h"

#include "base/gpujoin.h"
#include "table.h"

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

static GjMirror *lock_own(int place);
static void unlock_and_wake(bool to_do);
static void give_up(GjMirror *mirror, GjFallback why, int retry_ms);
static bool counts_on_loader(const GjMirror *mirror);
static void want_again(GjMirror *mirror);
static void add_wish(Oid index, const GjMirrorKey *key, bool pinned);
static void at_transaction_end(XactEvent event, void *arg);
static void at_subtransaction_end(SubXactEvent event, SubTransactionId subid,
								  SubTransactionId parent, void *arg);
static void fulfil(void);
static void see_alter(ObjectAccessType access, Oid class_oid, Oid object_oid, int sub_id,
					  void *arg);

static List *wishes = NIL;		/* allocated in TopTransactionContext */
static object_access_hook_type previous_access_hook = NULL;

/*
 * Request a mirror from the loader
 *
 * Returns the reason to report while there is no mirror.  Raises no error, so it may be called
 * when a transaction has just committed.
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
 * For the owner: record that the load has failed.  retry_ms is the delay before the second
 * attempt; 0 means the default.
 */
void
GjMirrorRefuse(int place, GjFallback why, int retry_ms)
{
	GjMirror   *mirror = lock_own(place);

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
		GjLauncherWake();
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
		to_do = mirror->state == GJ_MIRROR_DROPPED || GjMirrorIsStale(mirror);
	}
	unlock_and_wake(to_do);
}

/*
 * Request a mirror again whose column the service does not know any more, although it has not
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
 * Pin or unpin a mirror, after the index's reloption was changed
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
 * Repeat requests, in the launcher: those that were given up and whose delay is over, and those
 * for mirrors that were lost with the device's memory.  Mirrors that did not fit are tried again
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

/* Handle the loss of the entry's column.  Needs the lock. */
static void
want_again(GjMirror *mirror)
{
	GjMirrorStartLoad(mirror, &mirror->key, mirror->index, mirror->pinned);
	mirror->owner = 0;
	mirror->state = GJ_MIRROR_WANTED;
	mirror->wanted = true;
}

/*-------------------------------------------------------------------------
 * Indexes built in this transaction
 *
 * What a transaction has done to indexes, and what that means for mirrors when it
 * commits.
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
 * be raised and no catalog read; hence all that is needed is found out before.  A prepared
 * transaction is committed by a session that knows nothing of it: there a query, or the next
 * start of the server, has to do.  The same goes for a standby, where nothing is built.
 *-------------------------------------------------------------------------
 */

/*
 * Install the hooks, if the library is being preloaded: otherwise there are no mirrors
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
			(void) GjMirrorWant(&wish->key, wish->index, wish->pinned, !wish->pinned);
		else
			altered = true;
	}
	if (altered)
		GjMirrorLookForMarked(MyDatabaseId);
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
