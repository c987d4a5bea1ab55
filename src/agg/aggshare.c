/*-------------------------------------------------------------------------
 *
 * aggshare.c
 *	  What the processes of a parallel GpuAgg have counted, added up for EXPLAIN.
 *
 * Nothing else is shared: each process groups the rows that its child gives it.  A worker hands
 * over its counters when its node is shut down, which precedes the end of its rows; the leader
 * takes them when its own is.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "storage/spin.h"

#include "aggnode.h"

struct GjAggShare
{
	slock_t		mutex;
	GjAggStats	stats;			/* of the workers, not yet added to the leader's */
};

static void add_stats(GjAggStats *to, const GjAggStats *from);

Size
GjAggEstimateShare(CustomScanState *node, ParallelContext *pcxt)
{
	return sizeof(GjAggShare);
}

void
GjAggInitShare(CustomScanState *node, ParallelContext *pcxt, void *area)
{
	GjAggShare *share = area;

	memset(share, 0, sizeof(GjAggShare));
	SpinLockInit(&share->mutex);
	GjAggAttachShare(node, pcxt->toc, area);
}

/*
 * Before another execution: what was counted stays
 */
void
GjAggResetShare(CustomScanState *node, ParallelContext *pcxt, void *area)
{
}

void
GjAggAttachShare(CustomScanState *node, shm_toc *toc, void *area)
{
	((GjAggState *) node)->share = area;
}

/*
 * The shared memory may go away
 */
void
GjAggShutdown(CustomScanState *node)
{
	GjAggState *agg = (GjAggState *) node;
	GjAggShare *share = agg->share;
	GjAggStats	own;

	if (share == NULL)
		return;
	own = GjAggGetStats(agg);
	SpinLockAcquire(&share->mutex);
	if (IsParallelWorker())
		add_stats(&share->stats, &own);
	else
	{
		add_stats(&agg->workers, &share->stats);
		memset(&share->stats, 0, sizeof(GjAggStats));
	}
	SpinLockRelease(&share->mutex);
	agg->share = NULL;
}

/*
 * What this process has counted, and as leader its workers, too
 */
GjAggStats
GjAggGetStats(const GjAggState *agg)
{
	GjAggStats	stats = {
		.groups = *GjGroupsGetStats(agg->groups),
		.reader = *GjReaderGetStats(agg->reader),
		.flushes = agg->flushes,
	};

	add_stats(&stats, &agg->workers);
	return stats;
}

static void
add_stats(GjAggStats *to, const GjAggStats *from)
{
	to->groups.rows += from->groups.rows;
	to->groups.groups += from->groups.groups;
	to->groups.passes += from->groups.passes;
	to->groups.disk_size += from->groups.disk_size;
	to->groups.peak_memory = Max(to->groups.peak_memory, from->groups.peak_memory);
	to->reader.batches += from->reader.batches;
	to->reader.array_rows += from->reader.array_rows;
	to->reader.slot_rows += from->reader.slot_rows;
	to->flushes += from->flushes;
}
