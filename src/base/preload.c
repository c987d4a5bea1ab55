/*-------------------------------------------------------------------------
 *
 * preload.c
 *	  What preloading the library adds to the server's start: its shared memory.
 *
 * PostgreSQL calls one hook when all libraries have been loaded, to learn how much memory they
 * need, and another one to have it initialized.  The subsystems register a pair of functions for
 * this, which are called in the order of registration, after the hooks of libraries that were
 * loaded before.
 *
 * The postmaster initializes the memory at its start, and again whenever it restarts after a crash
 * of a child: then shared memory is new, but the process's own variables have kept their values.
 * Other processes inherit the pointers by fork.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "settings.h"

#define MAX_PARTS				8

typedef struct Part
{
	void		(*request) (void);	/* NULL if no memory is needed */
	void		(*start) (void);
} Part;

static Part parts[MAX_PARTS];
static int	nparts = 0;
static shmem_request_hook_type previous_request_hook = NULL;
static shmem_startup_hook_type previous_startup_hook = NULL;

static void request_all(void);
static void preload_start_all(void);

/*
 * Register a function that requests shared memory, or NULL, and one that initializes it, which is
 * called while AddinShmemInitLock is held.  Returns false, and does nothing, unless the library is
 * being preloaded.
 */
bool
GjAtServerStart(void (*request) (void), void (*start) (void))
{
	if (!process_shared_preload_libraries_in_progress)
		return false;

	if (nparts == 0)
	{
		previous_request_hook = shmem_request_hook;
		shmem_request_hook = request_all;
		previous_startup_hook = shmem_startup_hook;
		shmem_startup_hook = preload_start_all;
	}
	Assert(nparts < MAX_PARTS);
	parts[nparts].request = request;
	parts[nparts++].start = start;
	return true;
}

static void
request_all(void)
{
	if (previous_request_hook)
		previous_request_hook();
	for (int i = 0; i < nparts; i++)
	{
		if (parts[i].request != NULL)
			parts[i].request();
	}
}

static void
preload_start_all(void)
{
	if (previous_startup_hook)
		previous_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < nparts; i++)
		parts[i].start();
	LWLockRelease(AddinShmemInitLock);
}
