/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  How far folds are: each process reports its own, anybody can look.
 *
 * PostgreSQL has views of progress for its own commands only.  A fold is a part of VACUUM or of
 * ANALYZE, or gpujoin_fold(), so it has a place here.  (A load has one in the table of mirrors.)
 * Where a fold ends with an error, the end of the transaction or subtransaction is its end
 * (dropped.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "usage.h"

/* In the order of GjProgressPhase: the name, and in what is counted */
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
 * Prepare shared memory
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
 * This process begins to fold an index
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
 * It comes to another phase, in which there is so much to do
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
 * So much of it is done
 */
void
GjProgressDone(uint64 done)
{
	if (my_slot != NULL)
		pg_atomic_write_u64(&my_slot->done, done);
}

/*
 * It folds no more, if it did
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
 * Get what is known of the fold in a slot; false: there is none.  Slots are numbered from 0 up to
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
