/*-------------------------------------------------------------------------
 *
 * evict.c
 *	  Freeing the device memory of mirrors that are not wanted any more.
 *
 * DROP, TRUNCATE, REINDEX, a rollback of any of them and DROP DATABASE tell nobody, or
 * tell too early: what a callback says may be rolled back, lost, or happen on another
 * server.  So the file system is asked: an index whose file is gone, or cut to nothing
 * (which is what PostgreSQL leaves of a dropped file until the next checkpoint), is no
 * more (registry.c).  The launcher looks every few seconds, whoever needs memory looks before.
 *
 * The one case that a file does not show, because it keeps its name, is TRUNCATE of a
 * table that the same transaction has made: there the index is built anew, and gjbuild()
 * says so.  If that were lost, the mirror would stand there unused until somebody needs
 * its memory: it carries the old build id, so no query can match against it.
 *
 * Two steps: marking an entry as dropped, under the table's lock; then telling the
 * service, without it.  Whoever is interrupted between leaves the second to others.
 *
 * When the device is full, mirrors go for others.  Memory does not come free at once: the
 * service may have no slot for the request, or a match may be reading the column.  So it is
 * counted how much has been given up, no more is given up than is needed, and then waited
 * for a moment.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "table.h"

/*
 * A load in passing leaves alone what was used within the last minute: two indexes of
 * which the device holds one would drive each other out with every query.
 */
#define RECENT_USE_MS			60000

/* How long to wait for memory that was given up */
#define WAIT_STEP_MS			10
#define WAIT_STEPS_QUERY		10
#define WAIT_STEPS_LOADER		100
#define WAIT_STEPS_COMMAND		500

static int	find_victim(GjLoadMode mode, uint64 *evictable);
static bool drop_victim(GjLoadMode mode, int *place, GjMirror *victim);
static uint64 dropped_bytes(void);
static bool wait_for_memory(GjMirrorRoom *room);
static pg_noinline void collect_dropped(void);
static bool claim_dropped(int *place, GjServiceColumn *column);
static void forget_dropped(int place);

/*
 * Make room for a column for which the service has no memory
 *
 * Returns whether trying again has a point.  What is counted here is about: the service has
 * the last word.  Mirrors are dropped only if that can be enough, so none is dropped in vain.
 */
bool
GjMirrorMakeRoom(GjMirrorRoom *room)
{
	GjServiceStatus status;
	uint64		evictable;
	GjMirror	victim;
	int			place;

	GjServiceGetStatus(&status);
	if (!room->begun)
	{
		room->begun = true;
		GjMirrorSweep();
		room->held = status.memory_columns;
		room->evicted = dropped_bytes();
	}

	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	(void) find_victim(room->mode, &evictable);
	LWLockRelease(gj_mirrors->lock);
	if (room->held + room->bytes > status.memory_columns_limit + room->evicted + evictable)
		return false;

	while (room->held + room->bytes > status.memory_columns_limit + room->evicted)
	{
		if (!drop_victim(room->mode, &place, &victim))
			return false;
		room->evicted += victim.bytes;
	}
	GjMirrorCollect();
	return wait_for_memory(room);
}

/*
 * Drop the mirror that was not used for longest, and free its memory and its entry
 *
 * Returns false if there is none that may go, or if it could not be freed yet.  Talks to the
 * service.
 */
bool
GjMirrorEvict(GjLoadMode mode)
{
	GjMirror	victim;
	GjMirror	now;
	int			place;

	if (!drop_victim(mode, &place, &victim))
		return false;
	GjMirrorCollect();
	return !GjMirrorGet(place, &now, NULL) ||
		memcmp(&now.column, &victim.column, sizeof(GjServiceColumn)) != 0;
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
	if (gj_mirrors == NULL)
		return;

	GjMirrorExitHook();
	PG_TRY();
	{
		collect_dropped();
	}
	PG_CATCH();
	{
		GjMirrorAbandon();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* A function of its own, since it has variables that a jump out of it may spoil */
static pg_noinline void
collect_dropped(void)
{
	GjServiceColumn column;
	int			place;

	while (claim_dropped(&place, &column))
	{
		GjServiceResult result = GjServiceColumnDrop(&column);

		if (result != GJ_SERVICE_OK && result != GJ_SERVICE_GONE)
		{
			GjMirrorAbandonEntry(place);
			break;
		}
		forget_dropped(place);
	}
}

/*
 * Drop the mirrors of files that are gone
 */
void
GjMirrorSweep(void)
{
	if (gj_mirrors == NULL)
		return;

	for (int place = 0; place < gj_mirrors->high; place++)
	{
		GjMirror	copy;

		if (!GjMirrorGet(place, &copy, NULL) || copy.state == GJ_MIRROR_DROPPED ||
			copy.owner != 0)
			continue;
		if (GjMirrorIsGone(&copy.key))
			GjMirrorDrop(&copy.key, false);
	}
}

/*
 * Find the mirror that may be evicted and has not been used for longest, or -1; also adds up
 * what all that may be evicted hold.  Needs the lock.
 */
static int
find_victim(GjLoadMode mode, uint64 *evictable)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz oldest = 0;
	int			victim = -1;

	*evictable = 0;
	if (mode == GJ_LOAD_AT_BUILD)
		return -1;
	for (int place = 0; place < gj_mirrors->high; place++)
	{
		GjMirrorEntry *entry = &gj_mirrors->entries[place];
		GjMirror   *mirror = &entry->mirror;
		TimestampTz used = (TimestampTz) pg_atomic_read_u64(&entry->last_used);

		if (mirror->state != GJ_MIRROR_READY || mirror->owner != 0 || mirror->pinned ||
			!GjMirrorHasColumn(mirror))
			continue;
		if (mode != GJ_LOAD_BY_SUPERUSER &&
			!TimestampDifferenceExceeds(used, now, RECENT_USE_MS))
			continue;
		*evictable += mirror->bytes;
		if (victim < 0 || used < oldest)
		{
			victim = place;
			oldest = used;
		}
	}
	return victim;
}

/*
 * Drop the mirror that has not been used for longest; its memory is freed later
 */
static bool
drop_victim(GjLoadMode mode, int *place, GjMirror *victim)
{
	uint64		evictable;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	*place = find_victim(mode, &evictable);
	if (*place >= 0)
	{
		*victim = gj_mirrors->entries[*place].mirror;
		GjMirrorDropEntry(&gj_mirrors->entries[*place].mirror);
	}
	LWLockRelease(gj_mirrors->lock);
	return *place >= 0;
}

/* What dropped mirrors still hold */
static uint64
dropped_bytes(void)
{
	uint64		bytes = 0;

	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	for (int place = 0; place < gj_mirrors->high; place++)
	{
		const GjMirror *mirror = &gj_mirrors->entries[place].mirror;

		if (mirror->state == GJ_MIRROR_DROPPED && GjMirrorHasColumn(mirror))
			bytes += mirror->bytes;
	}
	LWLockRelease(gj_mirrors->lock);
	return bytes;
}

/*
 * Wait for memory that is on its way to be free: a step, but for the first time; false if
 * that has been going on for too long.
 */
static bool
wait_for_memory(GjMirrorRoom *room)
{
	int			most = WAIT_STEPS_LOADER;

	if (room->mode == GJ_LOAD_BY_QUERY)
		most = WAIT_STEPS_QUERY;
	else if (room->mode == GJ_LOAD_BY_OWNER || room->mode == GJ_LOAD_BY_SUPERUSER)
		most = WAIT_STEPS_COMMAND;
	if (room->waits > most)
		return false;
	if (room->waits++ > 0)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 WAIT_STEP_MS, GjWaitEventLoad());
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/*
 * Become the one that frees a dropped mirror's column
 */
static bool
claim_dropped(int *place, GjServiceColumn *column)
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
		*place = i;
		found = true;
	}
	LWLockRelease(gj_mirrors->lock);
	return found;
}

static void
forget_dropped(int place)
{
	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	Assert(gj_mirrors->entries[place].mirror.owner == MyProcPid);
	memset(&gj_mirrors->entries[place].mirror, 0, sizeof(GjMirror));
	LWLockRelease(gj_mirrors->lock);
}
