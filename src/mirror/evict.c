/*-------------------------------------------------------------------------
 *
 * evict.c
 *	  Freeing the device memory of mirrors that are not needed any more.
 *
 * DROP, TRUNCATE, REINDEX, a rollback of any of them and DROP DATABASE notify no process, or
 * notify it too early: a notification by a callback may be rolled back, lost, or concern another
 * server.  So we check the file system: an index is gone if its file is missing or empty
 * (PostgreSQL leaves a dropped file empty until the next checkpoint); see registry.c.  The
 * launcher checks every few seconds, and a process that needs memory checks first.
 *
 * One case does not show in the file system, because the file keeps its name: TRUNCATE of a
 * table created in the same transaction.  It builds the index again, and gjbuild() reports that.
 * If the report were lost, the mirror would remain, unused, until its memory is needed: it has
 * the old build id, so no query can match against it.
 *
 * There are two steps: mark an entry as dropped, with the table's lock; then tell the service,
 * without the lock.  If a process is interrupted between them, other processes do the second
 * step.
 *
 * When a device is full, mirrors on it are evicted in favor of others.  Memory is not freed at
 * once: the service may have no slot for the request, or a match may be reading the column.  So
 * we count how much has been given up, give up no more than needed, and then wait for a moment.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "table.h"

/*
 * A load for a query spares mirrors used within the last minute: otherwise two indexes of which
 * the device can hold only one would evict each other with every query.
 */
#define RECENT_USE_MS			60000

/* How long to wait for memory that was given up */
#define WAIT_STEP_MS			10
#define WAIT_STEPS_QUERY		10
#define WAIT_STEPS_LOADER		100
#define WAIT_STEPS_COMMAND		500

static int	find_victim(int device, GjLoadMode mode, uint64 *evictable);
static bool is_on(const GjMirror *mirror, int device);
static bool drop_victim(int device, GjLoadMode mode, int *place, GjMirror *victim);
static uint64 dropped_bytes(int device);
static bool wait_for_memory(GjMirrorRoom *room);
static pg_noinline void collect_dropped(void);
static bool claim_dropped(int *place, GjServiceColumn *column);
static void forget_dropped(int place);

/*
 * Make room for a column for which the service has no memory
 *
 * Returns true if the caller should try again.  The amounts counted here are estimates: the
 * service decides.  Mirrors are dropped only if that can free enough memory, so none is dropped
 * in vain.
 */
bool
GjMirrorMakeRoom(GjMirrorRoom *room)
{
	GjServiceStatus status;
	uint64		evictable;
	GjMirror	victim;
	int			place;

	GjServiceGetStatus(room->device, &status);
	if (!room->begun)
	{
		room->begun = true;
		GjMirrorSweep();
		room->held = status.memory_columns;
		room->evicted = dropped_bytes(room->device);
	}

	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	(void) find_victim(room->device, room->mode, &evictable);
	LWLockRelease(gj_mirrors->lock);
	if (room->held + room->bytes > status.memory_columns_limit + room->evicted + evictable)
		return false;

	while (room->held + room->bytes > status.memory_columns_limit + room->evicted)
	{
		if (!drop_victim(room->device, room->mode, &place, &victim))
			return false;
		room->evicted += victim.bytes;
	}
	GjMirrorCollect();
	return wait_for_memory(room);
}

/*
 * Drop the least recently used mirror, and free its memory and its entry
 *
 * Returns false if no mirror may be dropped, or if it could not be freed yet.  Sends requests to
 * the service.
 */
bool
GjMirrorEvict(GjLoadMode mode)
{
	GjMirror	victim;
	GjMirror	now;
	int			place;

	if (!drop_victim(GJ_ANY_DEVICE, mode, &place, &victim))
		return false;
	GjMirrorCollect();
	return !GjMirrorGet(place, &now, NULL) ||
		memcmp(&now.column, &victim.column, sizeof(GjServiceColumn)) != 0;
}

/*
 * Free the columns of all dropped mirrors
 *
 * Sends a request to the service for each column.  Columns that it cannot free now stay in the
 * table.
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

/* A separate function, because it has variables that a longjmp may clobber */
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
			GjMirrorDrop(&copy.key, false, GJ_ANY_DEVICE);
	}
}

/*
 * Find the mirror to evict from a device, or -1; also add up the memory of all mirrors that may be
 * evicted.  Needs the lock.
 *
 * Those that another device has as well are evicted first, whatever their use, then the least
 * recently used one.
 */
static int
find_victim(int device, GjLoadMode mode, uint64 *evictable)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz oldest = 0;
	bool		is_copy = false;
	int			victim = -1;

	*evictable = 0;
	if (mode == GJ_LOAD_AT_BUILD)
		return -1;
	for (int place = 0; place < gj_mirrors->high; place++)
	{
		GjMirrorEntry *entry = &gj_mirrors->entries[place];
		GjMirror   *mirror = &entry->mirror;
		TimestampTz used = (TimestampTz) pg_atomic_read_u64(&entry->last_used);
		bool		copied;

		if (mirror->state != GJ_MIRROR_READY || mirror->owner != 0 ||
			!GjMirrorHasColumn(mirror) || !is_on(mirror, device))
			continue;
		copied = GjMirrorHasCopy(place);
		if (mirror->pinned && !copied)
			continue;
		if (mode != GJ_LOAD_BY_SUPERUSER && !copied &&
			!TimestampDifferenceExceeds(used, now, RECENT_USE_MS))
			continue;
		*evictable += mirror->bytes;
		if (victim < 0 || copied > is_copy || (copied == is_copy && used < oldest))
		{
			victim = place;
			oldest = used;
			is_copy = copied;
		}
	}
	return victim;
}

static bool
is_on(const GjMirror *mirror, int device)
{
	return device == GJ_ANY_DEVICE || (int) mirror->column.device == device;
}

/*
 * Drop the mirror to evict; its memory is freed later
 */
static bool
drop_victim(int device, GjLoadMode mode, int *place, GjMirror *victim)
{
	uint64		evictable;

	LWLockAcquire(gj_mirrors->lock, LW_EXCLUSIVE);
	*place = find_victim(device, mode, &evictable);
	if (*place >= 0)
	{
		*victim = gj_mirrors->entries[*place].mirror;
		GjMirrorDropEntry(&gj_mirrors->entries[*place].mirror);
	}
	LWLockRelease(gj_mirrors->lock);
	return *place >= 0;
}

/* Return the memory of a device that dropped mirrors still hold */
static uint64
dropped_bytes(int device)
{
	uint64		bytes = 0;

	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	for (int place = 0; place < gj_mirrors->high; place++)
	{
		const GjMirror *mirror = &gj_mirrors->entries[place].mirror;

		if (mirror->state == GJ_MIRROR_DROPPED && GjMirrorHasColumn(mirror) &&
			is_on(mirror, device))
			bytes += mirror->bytes;
	}
	LWLockRelease(gj_mirrors->lock);
	return bytes;
}

/*
 * Wait one step for memory that is about to be freed, except on the first call; returns false
 * after too many steps
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
 * Become the process that frees a dropped mirror's column
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
	Assert(gj_mirrors->entries[place].mirror.owner == MyProcPid &&
		   gj_mirrors->entries[place].mirror.state == GJ_MIRROR_DROPPED);
	memset(&gj_mirrors->entries[place].mirror, 0, sizeof(GjMirror));
	LWLockRelease(gj_mirrors->lock);
}
