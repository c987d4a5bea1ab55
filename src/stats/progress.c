/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  Progress of folds: each process reports its own, all processes can read them.
 *
 * PostgreSQL has progress views for its own commands only.  A fold is a part of VACUUM or
 * ANALYZE, or is run by gpujoin_fold(), so it is reported here.  (The progress of loads is in
 * the table of mirrors.) If a fold ends with an error, its report ends with the transaction or
 * subtransaction.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#include "base/compat.h"
#include "base/settings.h"
#include "stats.h"

/* Maximum number of folds that are reported; others are done without a report */
#define SLOTS					64

/* A fold in progress.  Its process writes without the lock, except for pid. */
typedef struct ProgressSlot
{
	int			pid;			/* protected by the table's mutex; 0 if the slot is free */
	Oid			database;
	Oid			index;
	pg_atomic_uint32 phase;
	pg_atomic_uint64 done;
	pg_atomic_uint64 total;
} ProgressSlot;

typedef struct ProgressTable
{
	slock_t		mutex;
	ProgressSlot slots[SLOTS];
} ProgressTable;

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

static ProgressTable *table = NULL; /* NULL unless preloaded */
static ProgressSlot *my_slot = NULL;

static void progress_request_shmem(void);
static void progress_startup_shmem(void);
static void progress_at_transaction_end(XactEvent event, void *arg);
static void progress_at_subtransaction_end(SubXactEvent event, SubTransactionId subid,
										   SubTransactionId parent, void *arg);

/*
 * Install the hooks.  Progress is reported only if the library is being preloaded.
 */
void
GjProgressInit(void)
{
	if (!GjAtServerStart(progress_request_shmem, progress_startup_shmem))
		return;
	RegisterXactCallback(progress_at_transaction_end, NULL);
	RegisterSubXactCallback(progress_at_subtransaction_end, NULL);
}

static void
progress_request_shmem(void)
{
	RequestAddinShmemSpace(sizeof(ProgressTable));
}

static void
progress_startup_shmem(void)
{
	bool		found;

	table = ShmemInitStruct("gpujoin progress", sizeof(ProgressTable), &found);
	if (!found)
	{
		memset(table, 0, sizeof(ProgressTable));
		SpinLockInit(&table->mutex);
		for (int i = 0; i < SLOTS; i++)
		{
			pg_atomic_init_u32(&table->slots[i].phase, 0);
			pg_atomic_init_u64(&table->slots[i].done, 0);
			pg_atomic_init_u64(&table->slots[i].total, 0);
		}
	}
}

static void
progress_at_transaction_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		GjProgressEnd();
}

/*
 * End the report of a fold in a subtransaction that has failed
 */
static void
progress_at_subtransaction_end(SubXactEvent event, SubTransactionId subid, SubTransactionId parent,
							   void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		GjProgressEnd();
}

/*
 * Start reporting that this process folds an index
 */
void
GjProgressBegin(Oid index)
{
	if (table == NULL)
		return;
	GjProgressEnd();
	SpinLockAcquire(&table->mutex);
	for (int i = 0; i < SLOTS && my_slot == NULL; i++)
	{
		if (table->slots[i].pid == 0)
			my_slot = &table->slots[i];
	}
	if (my_slot != NULL)
	{
		my_slot->pid = MyProcPid;
		my_slot->database = MyDatabaseId;
		my_slot->index = index;
	}
	SpinLockRelease(&table->mutex);
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
	SpinLockAcquire(&table->mutex);
	my_slot->pid = 0;
	SpinLockRelease(&table->mutex);
	my_slot = NULL;
}

/*
 * Get the report in a slot; returns false if the slot is free.  Slots are numbered from 0 up to
 * GjProgressSlots().
 */
bool
GjProgressGet(int place, GjProgress *progress)
{
	ProgressSlot *slot = &table->slots[place];
	uint32		phase;

	SpinLockAcquire(&table->mutex);
	progress->pid = slot->pid;
	progress->database = slot->database;
	progress->index = slot->index;
	phase = pg_atomic_read_u32(&slot->phase);
	progress->done = pg_atomic_read_u64(&slot->done);
	progress->total = pg_atomic_read_u64(&slot->total);
	SpinLockRelease(&table->mutex);
	progress->phase = phases[phase].name;
	progress->unit = phases[phase].unit;
	return progress->pid != 0;
}

int
GjProgressSlots(void)
{
	return table != NULL ? SLOTS : 0;
}
