/*-------------------------------------------------------------------------
 *
 * slot.c
 *	  Request slots: which backend owns which slot, and when a slot may be reused.
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

static bool is_final(int slot, uint32 generation);
static int	pop_slot(uint32 *generation, uint32 *epoch);
static void free_slot(int slot);
static void free_abandoned(void);
static void ring(uint32 *bell, const uint32 *sleeping);

/*
 * Make all slots free; called while shared memory is being created.
 */
void
GjSlotsInit(void)
{
	gj_service->first_free = -1;
	memset(gj_service->slots, 0, sizeof(GjServiceSlot) * gj_service->nslots);
	for (int i = gj_service->nslots - 1; i >= 0; i--)
		free_slot(i);
}

/*
 * Get a slot for a new request; returns -1 and sets *why_not if none is available.
 */
int
GjSlotAcquire(uint32 *generation, uint32 *epoch, GjServiceResult *why_not)
{
	int			slot = -1;

	for (int i = 0; i <= GJ_SLOT_WAITS; i++)
	{
		bool		serving;

		if (i > 0)
		{
			ConditionVariablePrepareToSleep(&gj_service->slot_freed);
			ConditionVariableTimedSleep(&gj_service->slot_freed, GJ_SLOT_WAIT_MS,
										GjWaitEventSlot());
			ConditionVariableCancelSleep();
		}
		LWLockAcquire(gj_service->lock, LW_EXCLUSIVE);
		serving = gj_service->serving;
		if (serving)
			slot = pop_slot(generation, epoch);
		LWLockRelease(gj_service->lock);
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
GjSlotRelease(int slot)
{
	LWLockAcquire(gj_service->lock, LW_EXCLUSIVE);
	Assert(gj_service->slots[slot].state == GJ_SLOT_USED);
	free_slot(slot);
	LWLockRelease(gj_service->lock);
	ConditionVariableSignal(&gj_service->slot_freed);
}

/*
 * Leave a slot.  It is free at once if its request is final or the helper was given up; otherwise
 * tell the helper that no client waits for it any longer.  Raises no error.
 */
void
GjSlotAbandon(int slot, uint32 epoch)
{
	gjp_message *message = GjMessage(slot);
	GjServiceSlot *entry = &gj_service->slots[slot];
	bool		left = false;

	LWLockAcquire(gj_service->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&gj_service->epoch) == epoch &&
		!is_final(slot, entry->generation))
	{
		/*
		 * The helper will ring the supervisor when it is done.  It may have finished before it
		 * could see this, so look again.
		 */
		__atomic_store_n(&message->cancelled, entry->generation, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		left = !is_final(slot, entry->generation);
	}
	if (left)
		entry->state = GJ_SLOT_ABANDONED;
	else
		free_slot(slot);
	LWLockRelease(gj_service->lock);

	if (left)
		GjDoorbellRing(-1);
	else
		ConditionVariableSignal(&gj_service->slot_freed);
}

/*
 * Return true if the helper will not touch the request any more
 */
static bool
is_final(int slot, uint32 generation)
{
	uint32		state = gjp_read_word(&GjMessage(slot)->state, generation);

	return state == GJP_DONE || state == GJP_FAILED;
}

/*
 * Start giving out slots, for a helper that is ready.
 */
void
GjSlotsServe(void)
{
	LWLockAcquire(gj_service->lock, LW_EXCLUSIVE);
	gj_service->serving = true;
	LWLockRelease(gj_service->lock);
}

/*
 * Give the helper up: stop giving out slots, start a new epoch, and wake all waiting clients so
 * that they notice.
 */
void
GjSlotsStop(void)
{
	uint32		epoch;

	LWLockAcquire(gj_service->lock, LW_EXCLUSIVE);
	gj_service->serving = false;
	epoch = pg_atomic_read_u32(&gj_service->epoch) + 1;
	pg_atomic_write_u32(&gj_service->epoch, epoch == 0 ? 1 : epoch);
	for (int i = 0; i < gj_service->nslots; i++)
	{
		if (gj_service->slots[i].state == GJ_SLOT_ABANDONED)
			free_slot(i);
		else if (gj_service->slots[i].state == GJ_SLOT_USED)
			ring(&GjMessage(i)->bell, &GjMessage(i)->sleeping);
	}
	LWLockRelease(gj_service->lock);
	ConditionVariableBroadcast(&gj_service->slot_freed);
}

/*
 * Free the abandoned slots whose requests have ended.
 */
void
GjSlotsFree(void)
{
	LWLockAcquire(gj_service->lock, LW_EXCLUSIVE);
	free_abandoned();
	LWLockRelease(gj_service->lock);
	ConditionVariableBroadcast(&gj_service->slot_freed);
}

/*
 * Wake the helper, to look at the slot of a new request, or, if slot is -1, at the requests it
 * already knows.
 */
void
GjDoorbellRing(int slot)
{
	gjp_control *control = GjControl();

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
pop_slot(uint32 *generation, uint32 *epoch)
{
	GjServiceSlot *entry;
	int			slot;

	if (gj_service->first_free < 0)
		free_abandoned();
	slot = gj_service->first_free;
	if (slot < 0)
		return -1;
	entry = &gj_service->slots[slot];
	gj_service->first_free = entry->next_free;
	entry->state = GJ_SLOT_USED;
	if (++entry->generation == 0)
		entry->generation = 1;
	*generation = entry->generation;
	*epoch = pg_atomic_read_u32(&gj_service->epoch);
	return slot;
}

/* Put a slot on the free list.  The caller must hold the lock. */
static void
free_slot(int slot)
{
	GjServiceSlot *entry = &gj_service->slots[slot];

	entry->state = GJ_SLOT_FREE;
	entry->next_free = gj_service->first_free;
	gj_service->first_free = slot;
}

/* Free all abandoned slots that the helper is done with.  The caller must hold the lock. */
static void
free_abandoned(void)
{
	for (int i = 0; i < gj_service->nslots; i++)
	{
		if (gj_service->slots[i].state == GJ_SLOT_ABANDONED &&
			is_final(i, gj_service->slots[i].generation))
			free_slot(i);
	}
}
