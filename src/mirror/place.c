/*-------------------------------------------------------------------------
 *
 * place.c
 *	  Which device a mirror is on, and copies of it on further devices.
 *
 * A mirror is loaded on the device that has most memory left.  If the requests for it have to wait
 * for others, it is loaded a second time, on a device that has room and fewer requests; nothing is
 * evicted for that.  The entries are equals: each has its own promise, a request goes to the one
 * with fewer of them, and any of them is evicted before a mirror that has no copy
 * (evict.c).  If a device is lost, its copies are forgotten, and mirrors without a copy are loaded
 * on another device.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"

#include "base/settings.h"
#include "table.h"

/* A request has to wait if its device has this many others */
#define MANY_REQUESTS			6

/* A copy is made if that many more requests had to wait than had not */
#define MANY_WAITS				64

static int64 get_room(int device);
static int	get_use(const GjMirror *mirror);
static int	choose_device(const GjMirror *mirror);

/*
 * List the devices on which a mirror can be loaded: the target, or those that are ready, beginning
 * with the one that has most memory left; returns their number
 */
int
GjMirrorListDevices(int target, int *devices)
{
	int64		rooms[GJ_MAX_DEVICES];
	int			n = 0;

	if (target != GJ_ANY_DEVICE || GjServiceDevices() == 1)
	{
		devices[0] = Max(target, 0);
		return 1;
	}
	for (int device = 0; device < GjServiceDevices(); device++)
	{
		int64		room;
		int			at;

		if (!GjServiceDeviceReady(device, NULL))
			continue;
		room = get_room(device);
		for (at = n++; at > 0 && rooms[at - 1] < room; at--)
		{
			rooms[at] = rooms[at - 1];
			devices[at] = devices[at - 1];
		}
		rooms[at] = room;
		devices[at] = device;
	}
	return n;
}

/*
 * Return how much memory for mirrors a device has left
 */
static int64
get_room(int device)
{
	GjServiceStatus status;
	int64		room;

	GjServiceGetStatus(device, &status);
	room = (int64) status.memory_columns_limit;
	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	for (int place = 0; place < gj_mirrors->high; place++)
	{
		const GjMirror *mirror = &gj_mirrors->entries[place].mirror;

		if (mirror->state != GJ_MIRROR_EMPTY && GjMirrorHasColumn(mirror) &&
			(int) mirror->column.device == device)
			room -= (int64) mirror->bytes;
	}
	LWLockRelease(gj_mirrors->lock);
	return room;
}

/*
 * Return true if a request should rather go to this entry than to the other one of the same index:
 * to a device that is ready, and for which fewer requests wait
 *
 * Processes that look at the same time must not all choose the same device, whose answers would
 * make them choose at the same time again: so the shorter queue is only chosen more often.
 */
bool
GjMirrorIsBetter(const GjMirror *mirror, const GjMirror *other)
{
	int			use = get_use(mirror);
	int			other_use = get_use(other);
	double		waiting;
	double		other_waiting;

	if (use != 2 || other_use != 2)
		return use > other_use;
	waiting = GjServiceWaiting(mirror->column.device) + 1;
	other_waiting = GjServiceWaiting(other->column.device) + 1;
	return pg_prng_double(&pg_global_prng_state) * (waiting * waiting +
													other_waiting * other_waiting) <
		other_waiting * other_waiting;
}

static int
get_use(const GjMirror *mirror)
{
	if (mirror->state != GJ_MIRROR_READY || !GjMirrorHasColumn(mirror))
		return 0;
	return GjServiceDeviceReady(mirror->column.device, NULL) ? 2 : 1;
}

/*
 * Note that a device is about to be asked for a mirror, which is the entry at this place; have a
 * copy made if requests for it have often had to wait
 */
void
GjMirrorRequested(int place, const GjMirror *mirror)
{
	pg_atomic_uint32 *waits = &gj_mirrors->entries[place].waits;
	uint32		n;
	int			device;

	if (GjServiceDevices() == 1)
		return;
	n = pg_atomic_read_u32(waits);
	if (GjServiceWaiting(mirror->column.device) < MANY_REQUESTS)
	{
		if (n > 0)
			pg_atomic_write_u32(waits, n - 1);
		return;
	}
	pg_atomic_write_u32(waits, n + 1);
	if (n < MANY_WAITS || !gj_auto_load)
		return;
	pg_atomic_write_u32(waits, 0);
	device = choose_device(mirror);
	if (device != GJ_ANY_DEVICE)
		(void) GjMirrorWant(&mirror->key, mirror->index, mirror->pinned, true, device);
}

/*
 * Choose a device for a copy: the one with most room of those that have enough and fewer requests.
 * Returns GJ_ANY_DEVICE if there is none.
 */
static int
choose_device(const GjMirror *mirror)
{
	int			devices[GJ_MAX_DEVICES];
	int			n = GjMirrorListDevices(GJ_ANY_DEVICE, devices);

	for (int i = 0; i < n; i++)
	{
		bool		has_one;
		int			place;

		LWLockAcquire(gj_mirrors->lock, LW_SHARED);
		has_one = GjMirrorFindOn(&mirror->key, devices[i], &place) != NULL;
		LWLockRelease(gj_mirrors->lock);
		if (!has_one && get_room(devices[i]) >= (int64) mirror->bytes &&
			GjServiceWaiting(devices[i]) < GjServiceWaiting(mirror->column.device))
			return devices[i];
	}
	return GJ_ANY_DEVICE;
}
