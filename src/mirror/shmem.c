/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  The shared memory of this folder: the table of mirrors, and that of what was done with
 *	  indexes (usage.c).  And what becomes of a process's entries when it ends.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "base/gpujoin.h"
#include "table.h"
#include "usage.h"

#define MIRROR_TRANCHE			"gpujoin_mirrors"

GjMirrorTable *gj_mirrors = NULL;

static shmem_request_hook_type previous_request_hook = NULL;
static shmem_startup_hook_type previous_startup_hook = NULL;

static Size table_size(void);
static void request_shmem(void);
static void startup_shmem(void);
static void startup_table(void);
static void abandon_at_exit(int code, Datum arg);

/*
 * See to it that what is dropped is forgotten; and request shared memory, and have the tables made,
 * if the library is being preloaded
 */
void
GjMirrorInit(void)
{
	GjDroppedInit();
	if (!process_shared_preload_libraries_in_progress)
		return;

	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
}

static Size
table_size(void)
{
	return add_size(offsetof(GjMirrorTable, entries),
					mul_size(gj_max_mirrors, sizeof(GjMirrorEntry)));
}

static void
request_shmem(void)
{
	if (previous_request_hook)
		previous_request_hook();
	RequestAddinShmemSpace(table_size());
	RequestNamedLWLockTranche(MIRROR_TRANCHE, 1);
	GjUsageRequestShmem();
}

static void
startup_shmem(void)
{
	if (previous_startup_hook)
		previous_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	startup_table();
	GjUsageStartupShmem();
	LWLockRelease(AddinShmemInitLock);
}

static void
startup_table(void)
{
	bool		found;

	gj_mirrors = ShmemInitStruct("gpujoin mirrors", table_size(), &found);
	if (found)
		return;
	memset(gj_mirrors, 0, table_size());
	gj_mirrors->lock = &GetNamedLWLockTranche(MIRROR_TRANCHE)->lock;
	gj_mirrors->size = gj_max_mirrors;
	for (int i = 0; i < gj_max_mirrors; i++)
	{
		pg_atomic_init_u64(&gj_mirrors->entries[i].matches, 0);
		pg_atomic_init_u64(&gj_mirrors->entries[i].last_used, 0);
	}
}

/*
 * Tell whether there is a table
 */
bool
GjMirrorTableExists(void)
{
	return gj_mirrors != NULL;
}

/*
 * Return the number of entries that GjMirrorGet() can be asked for
 */
int
GjMirrorTableSize(void)
{
	return gj_mirrors == NULL ? 0 : gj_mirrors->size;
}

/*
 * Give up all that this process owns.  May be called at any time.
 */
void
GjMirrorAbandon(void)
{
	if (gj_mirrors == NULL)
		return;
	for (int place = 0; place < gj_mirrors->high; place++)
		GjMirrorAbandonEntry(place);
}

/*
 * Tell the launcher that there is something to do
 */
void
GjLauncherWake(void)
{
	LWLockAcquire(gj_mirrors->lock, LW_SHARED);
	if (gj_mirrors->launcher != NULL && gj_mirrors->launcher != MyLatch)
		SetLatch(gj_mirrors->launcher);
	LWLockRelease(gj_mirrors->lock);
}

/*
 * See to it that this process gives up what it owns when it ends
 */
void
GjMirrorExitHook(void)
{
	static bool registered = false;

	if (!registered)
		before_shmem_exit(abandon_at_exit, (Datum) 0);
	registered = true;
}

static void
abandon_at_exit(int code, Datum arg)
{
	GjMirrorAbandon();
}
