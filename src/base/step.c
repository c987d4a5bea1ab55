/*-------------------------------------------------------------------------
 *
 * step.c
 *	  Actions of gpujoin.debug_step at named steps of a change to an index, or of a search.
 *
 *	error	fails, as if out of memory or disk space
 *	wait	waits for an advisory lock, while no page is locked
 *	crash	writes all WAL, which a commit or the WAL writer may do at any time, and ends the
 *			process like a power failure: the server recovers, with just this step done
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "step.h"

#ifdef GPUJOIN_STEPS

/* Advisory lock that "wait" waits for */
#define STEP_LOCK				INT64CONST(1313)

char	   *gj_debug_step = NULL;

/*
 * Flush all WAL that has been inserted
 *
 * At the border of two pages the position for the next record is behind a page header that has not
 * been written yet, and waiting for that would be an error.
 */
static void
flush_wal(void)
{
	XLogRecPtr	end = GetXLogInsertRecPtr();
	uint64		offset = end % XLOG_BLCKSZ;

	if (offset == SizeOfXLogShortPHD || offset == SizeOfXLogLongPHD)
		end -= offset;
	XLogFlush(end);
}

void
GjStepReached(const char *name)
{
	int			length = strlen(name);
	const char *what = gj_debug_step + length;

	if (strncmp(gj_debug_step, name, length) != 0)
		return;
	CHECK_FOR_INTERRUPTS();
	if (strcmp(what, " error") == 0)
		elog(ERROR, "failed at step \"%s\", as it was to", name);
	if (strcmp(what, " wait") == 0)
	{
		DirectFunctionCall1(pg_advisory_lock_shared_int8, Int64GetDatum(STEP_LOCK));
		DirectFunctionCall1(pg_advisory_unlock_shared_int8, Int64GetDatum(STEP_LOCK));
	}
	if (strcmp(what, " crash") == 0)
	{
		flush_wal();
		(void) kill(MyProcPid, SIGKILL);
	}
}

#endif							/* GPUJOIN_STEPS */
