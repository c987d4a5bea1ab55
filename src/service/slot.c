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
 * The number of slots in use also decides whether the CPU makes a small search: "The queue", at the
 * end of this file.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/pg_prng.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "shared.h"

/* How long a client waits for a slot, in milliseconds, and how many times */
#define GJ_SLOT_WAIT_MS			10
#define GJ_SLOT_WAITS			2

/*
 * The queue: after many requests at once, there is one for GJ_QUEUE_US microseconds.  A window
 * lasts at least GJ_WINDOW_US and GJ_WINDOW_CYCLES average cycles, of at most GJ_MAX_CYCLE_US
 * each.  At its end the limit changes by a factor of up to 2, in search of the ratio GJ_RATIO
 * between the cycles of both sides: less than 1, since a request also delays those behind it.  A
 * window in which a side has had no cycle by GJ_MAX_WINDOW_US is dropped: the session may have
 * ended.
 */
#define GJ_QUEUE_US				INT64CONST(1000000)
#define GJ_WINDOW_US			INT64CONST(50000)
#define GJ_WINDOW_CYCLES		16
#define GJ_MAX_WINDOW_US		INT64CONST(20000000)
#define GJ_MAX_CYCLE_US			INT64CONST(1000000)
#define GJ_RATIO				0.75
#define GJ_FIRST_OCTAVE			2.0
#define GJ_MIN_OCTAVE			(-9.0)	/* a limit of 0: one search in a window */
#define GJ_MAX_OCTAVE			8.0

/* A limit has a fraction: a search is below it at random */
#define GJ_LIMIT_UNIT			256

static bool is_final(int slot, uint32 generation);
static int	pop_slot(uint32 *generation, uint32 *epoch);
static void free_slot(int slot);
static void free_abandoned(void);
static void ring(uint32 *bell, const uint32 *sleeping);
static void init_queue(GjServiceQueue *queue);
static double mean_cycle(GjServiceQueue *queue, int side);
static void adjust_limit(GjServiceQueue *queue, uint32 nrequests);

/*
 * Make all slots free; called while shared memory is being created.
 */
void
GjSlotsInit(void)
{
	gj_service->first_free = -1;
	init_queue(&gj_service->queue);
	pg_atomic_init_u32(&gj_service->nrequests, gj_service->nslots);
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
	pg_atomic_fetch_add_u32(&gj_service->nrequests, 1);
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
	pg_atomic_fetch_sub_u32(&gj_service->nrequests, 1);
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

/*-------------------------------------------------------------------------
 * The queue: which small searches a device makes, and which the CPU
 *
 * The helper has one thread.  A request costs its session processor time, too, and the helper
 * competes for a processor with sessions that search by themselves.  So the machine and the load
 * decide whether most searches a second are made by the device, by the CPU or by both.
 *
 * Therefore we measure.  A closed loop makes more searches if its cycles are shorter: the time
 * from one small search of a process to its next one.  This includes all waiting for a processor,
 * most of which is not in the search itself.  All other work of the sessions counts for both sides
 * alike.  There is a limit to the number of requests that a device may have when a small search is
 * made; with more, the CPU makes it.  After each window the limit is lowered if the ratio of the
 * device's average cycle to the CPU's exceeds GJ_RATIO, and otherwise raised.  All processes see
 * the current number of requests, so they do not choose the same side at once.  Each side gets at
 * least one search in a window, which shows when the load has changed.
 *
 * Searches a second with an H100 and 16 processors (2026-11-28; single runs of 2 to 3 s), 1,000
 * keys and 20,000 of 20 million rows: the device alone, the CPU alone, and both with several
 * ratios.  With a lower ratio, the helper gets just as many requests as it needs; but with many
 * clients, more sessions search then, and the helper has to wait for a processor.
 *
 *	  clients	device	   CPU		0.5	   0.75		  1		1.5
 *		   64	14,787	16,727	 16,069	 19,106	 19,057	 19,607
 *		   32			17,095	 19,785	 24,915	 24,272	 23,532
 *		   16	14,503	18,822	 24,327	 20,548	 18,185	 15,149
 *			8	14,347	 8,792	 16,859	 15,393	 14,862	 14,640
 *			4	13,418			 13,734	 12,458	 13,388	 13,094
 *
 * There is no queue, and the device makes all searches, unless it had GJ_MIN_QUEUE requests at
 * once within the last second: they are few if the CPU makes most searches.  Other requests, of
 * big searches and loads, count as requests, but are never left to the CPU.  If the device stops
 * answering, the limit stays, which also limits the number of processes that wait for it.
 *
 * Any process reads and writes all fields at any time: the worst result is a wrong step.
 *-------------------------------------------------------------------------
 */

static void
init_queue(GjServiceQueue *queue)
{
	pg_atomic_init_u64(&queue->until, 0);
	pg_atomic_init_u32(&queue->limit, (uint32) (exp2(GJ_FIRST_OCTAVE) * GJ_LIMIT_UNIT));
	pg_atomic_init_u64(&queue->began, 0);
	for (int side = 0; side < 2; side++)
	{
		pg_atomic_init_u32(&queue->nsearches[side], 0);
		pg_atomic_init_u32(&queue->ncycles[side], 0);
		pg_atomic_init_u64(&queue->cycles_us[side], 0);
	}
	queue->octave = GJ_FIRST_OCTAVE;
}

/*
 * Return true if the device has enough requests, and the CPU should make a small search
 */
bool
GjServiceIsQueued(void)
{
	static int64 last = 0;		/* time of this process' last search in a queue, or 0 ... */
	static int	side = 0;		/* ... and its side: 0 device, 1 CPU */
	GjServiceQueue *queue;
	uint32		nrequests;
	uint64		began;
	int64		now;
	int64		us;
	bool		is_full;

	if (gj_service == NULL)
		return false;
	queue = &gj_service->queue;
	nrequests = pg_atomic_read_u32(&gj_service->nrequests);
	now = GetCurrentTimestamp();
	us = (int64) pg_atomic_read_u64(&queue->until) - now;
	if (nrequests >= GJ_MIN_QUEUE)
		pg_atomic_write_u64(&queue->until, (uint64) (now + GJ_QUEUE_US));
	else if (us <= 0 || us > GJ_QUEUE_US)	/* over, or the clock was set back */
	{
		last = 0;
		return false;
	}

	if (last != 0 && now > last)
	{
		pg_atomic_fetch_add_u64(&queue->cycles_us[side], Min(now - last, GJ_MAX_CYCLE_US));
		pg_atomic_fetch_add_u32(&queue->ncycles[side], 1);
	}
	last = now;

	began = pg_atomic_read_u64(&queue->began);
	us = now - (int64) began;
	is_full = us >= GJ_WINDOW_US &&
		us >= GJ_WINDOW_CYCLES * Max(mean_cycle(queue, 0), mean_cycle(queue, 1));
	if ((is_full || us >= GJ_MAX_WINDOW_US || us < 0) &&
		pg_atomic_compare_exchange_u64(&queue->began, &began, (uint64) now))
	{
		if (is_full)
			adjust_limit(queue, nrequests);
		for (int i = 0; i < 2; i++)
		{
			pg_atomic_write_u32(&queue->nsearches[i], 0);
			pg_atomic_write_u32(&queue->ncycles[i], 0);
			pg_atomic_write_u64(&queue->cycles_us[i], 0);
		}
	}

	if (pg_atomic_read_u32(&queue->nsearches[1]) == 0)
		side = 1;
	else if (pg_atomic_read_u32(&queue->nsearches[0]) == 0)
		side = 0;
	else
		side = nrequests * GJ_LIMIT_UNIT + pg_prng_uint32(&pg_global_prng_state) % GJ_LIMIT_UNIT >=
			pg_atomic_read_u32(&queue->limit);
	pg_atomic_fetch_add_u32(&queue->nsearches[side], 1);
	return side == 1;
}

/* Return the average cycle of a side in this window, or infinity before the first one */
static double
mean_cycle(GjServiceQueue *queue, int side)
{
	uint32		ncycles = pg_atomic_read_u32(&queue->ncycles[side]);

	return ncycles == 0 ? INFINITY :
		(double) pg_atomic_read_u64(&queue->cycles_us[side]) / ncycles;
}

/* Adjust the limit at the end of a window */
static void
adjust_limit(GjServiceQueue *queue, uint32 nrequests)
{
	double		step = log2(GJ_RATIO * mean_cycle(queue, 1) / mean_cycle(queue, 0)) / 2.0;
	double		octave = queue->octave + Max(Min(step, 1.0), -1.0);

	/* if the CPU got only its one search, a higher limit makes no difference */
	if (pg_atomic_read_u32(&queue->nsearches[1]) <= 1)
		octave = Min(octave, log2(nrequests + 2.0));
	queue->octave = Max(Min(octave, GJ_MAX_OCTAVE), GJ_MIN_OCTAVE);
	pg_atomic_write_u32(&queue->limit, (uint32) (exp2(queue->octave) * GJ_LIMIT_UNIT));
}
