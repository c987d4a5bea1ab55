/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  Progress of folds: each process reports its own, all processes can read them.
 *
 * PostgreSQL has progress views for its own commands only.  A fold is a part of VACUUM or
 * ANALYZE, or is run by gpujoin_fold(), so it is reported here.  (The progress of loads is in
 * the table of mirrors.) If a fold ends with an error, its report ends with the transaction or
 * subtransaction (dropped.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "usage.h"

/* In the order of GjProgressPhase: the name, and the unit of progress */
static const struct
{
	const char *name;
	const char *unit;
}			phases[] =
{
	{"closing pages", NULL},
	{"looking for free pages", "pages"},
	{"sorting inserted entries", "pages"},
	{"writing run", "entries"},
	{"freeing pages", "pages"}
};

static GjProgressSlot *my_slot = NULL;

/*
 * Initialize shared memory
 */
void
GjProgressInit(void)
{
	for (int i = 0; i < GJ_PROGRESS_SLOTS; i++)
	{
		pg_atomic_init_u32(&gj_usage->progress[i].phase, 0);
		pg_atomic_init_u64(&gj_usage->progress[i].done, 0);
		pg_atomic_init_u64(&gj_usage->progress[i].total, 0);
	}
}

/*
 * Start reporting that this process folds an index
 */
void
GjProgressBegin(Oid index)
{
	if (gj_usage == NULL || gj_usage->lock == NULL)
		return;
	GjProgressEnd();
	LWLockAcquire(gj_usage->lock, LW_EXCLUSIVE);
	for (int i = 0; i < GJ_PROGRESS_SLOTS && my_slot == NULL; i++)
	{
		if (gj_usage->progress[i].pid == 0)
			my_slot = &gj_usage->progress[i];
	}
	if (my_slot != NULL)
	{
		my_slot->pid = MyProcPid;
		my_slot->database = MyDatabaseId;
		my_slot->index = index;
	}
	LWLockRelease(gj_usage->lock);
	GjProgressPhaseBegin(GJ_PROGRESS_CLOSING, 0);
}

/*
 * Enter another phase, with the total amount of its work
 */
void
GjProgressPhaseBegin(GjProgressPhase phase, uint64 total)
{
	if (my_slot == NULL)
		return;
	pg_atomic_write_u64(&my_slot->done, 0);
	pg_atomic_write_u64(&my_slot->total, total);
	pg_atomic_write_u32(&my_slot->phase, phase);
}

/*
 * Report the amount of work done in this phase
 */
void
GjProgressDone(uint64 done)
{
	if (my_slot != NULL)
		pg_atomic_write_u64(&my_slot->done, done);
}

/*
 * End the report, if there is one
 */
void
GjProgressEnd(void)
{
	if (my_slot == NULL)
		return;
	LWLockAcquire(gj_usage->lock, LW_EXCLUSIVE);
	my_slot->pid = 0;
	LWLockRelease(gj_usage->lock);
	my_slot = NULL;
}

/*
 * Get the report in a slot; returns false if the slot is free.  Slots are numbered from 0 up to
 * GjProgressSlots().
 */
bool
GjProgressGet(int place, GjProgress *progress)
{
	GjProgressSlot *slot = &gj_usage->progress[place];
	uint32		phase;

	LWLockAcquire(gj_usage->lock, LW_SHARED);
	progress->pid = slot->pid;
	progress->database = slot->database;
	progress->index = slot->index;
	phase = pg_atomic_read_u32(&slot->phase);
	progress->done = pg_atomic_read_u64(&slot->done);
	progress->total = pg_atomic_read_u64(&slot->total);
	LWLockRelease(gj_usage->lock);
	progress->phase = phases[phase].name;
	progress->unit = phases[phase].unit;
	return progress->pid != 0;
}

int
GjProgressSlots(void)
{
	return gj_usage != NULL && gj_usage->lock != NULL ? GJ_PROGRESS_SLOTS : 0;
}
