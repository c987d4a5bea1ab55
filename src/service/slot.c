/*-------------------------------------------------------------------------
 *
 * slot.c
 *	  Request slots of a device: which backend owns which slot, and when a slot may be reused.
 *
 * A slot comes with a chunk of the arena that the device writes to.  So a slot whose client has
 * left must stay out of use until no more writes can happen: until the helper has ended the
 * request, or the helper itself has died and been waited for.  The life of a slot:
 *
 *	  free -> used			GjSlotAcquire(): a new generation
 *	  used -> free			GjSlotRelease(): nothing was posted
 *							GjSlotAbandon(): the request is final, or the helper given up
 *	  used -> abandoned		GjSlotAbandon(): otherwise (cancelled, the backend ends)
 *	  abandoned -> free		the request is final (noticed by the supervisor, which the helper
 *							rings, or by a backend that needs a slot), or the helper given up
 *
 * A helper is given up in one step (GjSlotsStop): the service stops giving out slots, the epoch
 * moves on, abandoned slots become free.  The helper may still be alive for a moment.  But no
 * backend gets a slot before the next helper serves, and that one is not started before the old
 * one has been waited for.
 *
 * The lock is held for a few instructions, never while waiting.  Slots need not be assigned
 * fairly: there are as many as the number of backends likely to search at the same time.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "utils/timestamp.h"

#include "base/compat.h"
#include "shared.h"

/* How long a client waits for a slot, in milliseconds, and how many times */
#define GJ_SLOT_WAIT_MS			10
#define GJ_SLOT_WAITS			2

static bool is_final(const GjService *service, int slot, uint32 generation);
static int	pop_slot(GjService *service, uint32 *generation, uint32 *epoch);
static void free_slot(GjServiceShared *shared, int slot);
static void free_abandoned(GjService *service);
static void ring(uint32 *bell, const uint32 *sleeping);

/*
 * Make all slots free; called while shared memory is being created.
 */
void
GjSlotsInit(GjService *service)
{
	GjServiceShared *shared = service->shared;

	shared->first_free = -1;
	pg_atomic_write_u32(&shared->nused, shared->nslots);
	memset(shared->slots, 0, sizeof(GjServiceSlot) * shared->nslots);
	for (int i = shared->nslots - 1; i >= 0; i--)
		free_slot(shared, i);
}

/*
 * Get a slot for a new request; returns -1 and sets *why_not if none is available.
 */
int
GjSlotAcquire(GjService *service, uint32 *generation, uint32 *epoch,
			  GjServiceResult *why_not)
{
	GjServiceShared *shared = service->shared;
	int			slot = -1;

	for (int i = 0; i <= GJ_SLOT_WAITS; i++)
	{
		bool		serving;

		if (i > 0)
		{
			ConditionVariablePrepareToSleep(&shared->slot_freed);
			ConditionVariableTimedSleep(&shared->slot_freed, GJ_SLOT_WAIT_MS,
										GjWaitEventSlot());
			ConditionVariableCancelSleep();
		}
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		serving = shared->serving;
		if (serving)
			slot = pop_slot(service, generation, epoch);
		LWLockRelease(shared->lock);
		if (slot >= 0)
			return slot;
		if (!serving)
		{
			*why_not = GJ_SERVICE_UNAVAILABLE;
			return -1;
		}
	}
	*why_not = GJ_SERVICE_BUSY;
	return -1;
}

/*
 * Release a slot whose request was never posted.
 */
void
GjSlotRelease(GjService *service, int slot)
{
	GjServiceShared *shared = service->shared;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	Assert(shared->slots[slot].state == GJ_SLOT_USED);
	free_slot(shared, slot);
	LWLockRelease(shared->lock);
	ConditionVariableSignal(&shared->slot_freed);
}

/*
 * Leave a slot.  It is free at once if its request is final or the helper was given up; otherwise
 * tell the helper that no client waits for it any longer.  Raises no error.
 */
void
GjSlotAbandon(GjService *service, int slot, uint32 epoch)
{
	GjServiceShared *shared = service->shared;
	gjp_message *message = GjMessage(service, slot);
	GjServiceSlot *entry = &shared->slots[slot];
	bool		left = false;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&shared->epoch) == epoch &&
		!is_final(service, slot, entry->generation))
	{
		/*
		 * The helper will ring the supervisor when it is done.  It may have finished before it
		 * could see this, so look again.
		 */
		__atomic_store_n(&message->cancelled, entry->generation, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		left = !is_final(service, slot, entry->generation);
	}
	if (left)
		entry->state = GJ_SLOT_ABANDONED;
	else
		free_slot(shared, slot);
	LWLockRelease(shared->lock);

	if (left)
		GjDoorbellRing(service, -1);
	else
		ConditionVariableSignal(&shared->slot_freed);
}

/*
 * Return true if the helper will not touch the request any more
 */
static bool
is_final(const GjService *service, int slot, uint32 generation)
{
	uint32		state = gjp_read_word(&GjMessage(service, slot)->state, generation);

	return state == GJP_DONE || state == GJP_FAILED;
}

/*
 * Start giving out slots, for a helper that is ready.
 */
void
GjSlotsServe(GjService *service)
{
	GjServiceShared *shared = service->shared;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->serving = true;
	LWLockRelease(shared->lock);
}

/*
 * Give the helper up: stop giving out slots, start a new epoch, and wake all waiting clients so
 * that they notice.
 */
void
GjSlotsStop(GjService *service)
{
	GjServiceShared *shared = service->shared;
	uint32		epoch;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->serving = false;
	epoch = pg_atomic_read_u32(&shared->epoch) + 1;
	pg_atomic_write_u32(&shared->epoch, epoch == 0 ? 1 : epoch);
	for (int i = 0; i < shared->nslots; i++)
	{
		if (shared->slots[i].state == GJ_SLOT_ABANDONED)
			free_slot(shared, i);
		else if (shared->slots[i].state == GJ_SLOT_USED)
			ring(&GjMessage(service, i)->bell, &GjMessage(service, i)->sleeping);
	}
	LWLockRelease(shared->lock);
	ConditionVariableBroadcast(&shared->slot_freed);
}

/*
 * Free the abandoned slots whose requests have ended.
 */
void
GjSlotsFree(GjService *service)
{
	GjServiceShared *shared = service->shared;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	free_abandoned(service);
	LWLockRelease(shared->lock);
	ConditionVariableBroadcast(&shared->slot_freed);
}

/*
 * Wake the helper, to look at the slot of a new request, or, if slot is -1, at the requests it
 * already knows.
 */
void
GjDoorbellRing(const GjService *service, int slot)
{
	gjp_control *control = GjControl(service);

	if (slot >= 0)
		__atomic_or_fetch(&control->posted[slot / 64], UINT64CONST(1) << (slot % 64),
						  __ATOMIC_SEQ_CST);
	ring(&control->doorbell, &control->sleeping);
}

/* Ring a bell, and wake whoever sleeps on it */
static void
ring(uint32 *bell, const uint32 *sleeping)
{
	__atomic_add_fetch(bell, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(sleeping, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Take a free slot for this backend.  The caller must hold the lock. */
static int
pop_slot(GjService *service, uint32 *generation, uint32 *epoch)
{
	GjServiceShared *shared = service->shared;
	GjServiceSlot *entry;
	int			slot;

	if (shared->first_free < 0)
		free_abandoned(service);
	slot = shared->first_free;
	if (slot < 0)
		return -1;
	entry = &shared->slots[slot];
	shared->first_free = entry->next_free;
	entry->state = GJ_SLOT_USED;
	pg_atomic_fetch_add_u32(&shared->nused, 1);
	if (++entry->generation == 0)
		entry->generation = 1;
	*generation = entry->generation;
	*epoch = pg_atomic_read_u32(&shared->epoch);
	return slot;
}

/* Put a slot on the free list.  The caller must hold the lock. */
static void
free_slot(GjServiceShared *shared, int slot)
{
	GjServiceSlot *entry = &shared->slots[slot];

	entry->state = GJ_SLOT_FREE;
	pg_atomic_fetch_sub_u32(&shared->nused, 1);
	entry->next_free = shared->first_free;
	shared->first_free = slot;
}

/* Free all abandoned slots that the helper is done with.  The caller must hold the lock. */
static void
free_abandoned(GjService *service)
{
	GjServiceShared *shared = service->shared;

	for (int i = 0; i < shared->nslots; i++)
	{
		if (shared->slots[i].state == GJ_SLOT_ABANDONED &&
			is_final(service, i, shared->slots[i].generation))
			free_slot(shared, i);
	}
}
