/*-------------------------------------------------------------------------
 *
 * parallel.c
 *	  Sharing a match among the processes of a parallel plan.
 *
 * match/divide.c describes how the processes share a match.  This file sets up the shared memory,
 * and passes the statistics of workers to the leader.
 *
 * Workers report their statistics through the same shared memory: with each step, and when the
 * node is shut down, which precedes the end of a worker's rows.  The leader adds them to its own in
 * its shutdown.  If it stops the workers before they have finished, their counts since the last
 * step are missing.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"

#include "base/compat.h"
#include "exec.h"

/* Long enough for each name and each reason */
#define DEVICE_NAME_BYTES		128
#define REASON_BYTES			256

/* In shared memory, followed by the state of match/divide.c */
typedef struct GjSharedMatch
{
	LWLock		lock;			/* protects all fields */
	GjMatchStats match;			/* statistics of workers, not yet added to the leader's */
	GjFetchStats fetch;
	GjIndexOnlyStats index_only;
	char		device[DEVICE_NAME_BYTES];	/* instead of match.device and match.reason; empty if
											 * these are NULL */
	char		reason[REASON_BYTES];
} GjSharedMatch;

static GjSharedFind *get_find(GjSharedMatch *shared);
static void share_is_over(GjTableScan *table);
static void report_progress(void *table);
static void report_match(GjSharedMatch *shared, GjMatchStats *stats);
static void collect_reports(GjTableScan *table);
static void move_fetch_stats(GjFetchStats *to, GjFetchStats *from);
static void move_index_only_stats(GjIndexOnlyStats *to, GjIndexOnlyStats *from);

/*
 * Search the index for the keys, or take a part of the results of another process.  Requests
 * entries if they can be rows.  Returns the TIDs to be fetched; or NULL if rows come from
 * index_only, which has been started.  The values that entries are filtered by may have changed.
 */
GjTidSet *
GjParallelMatch(GjTableScan *table, uint64 columns, Size limit, bool can_share)
{
	GjEntryRequest request = GjTableScanRequest(table, limit);
	GjTidSet   *tids;

	GjEntryFilterReset(table->entry_filter);
	table->used = true;
	request.whole = can_share;
	request.share = &table->share;
	if (table->index_only == NULL)
	{
		(void) GjEntriesOpen(&request, &tids);
		return tids;
	}
	request.entries = GjEntriesMayBeRows(request.snapshot);
	request.columns = columns;
	return GjIndexOnlyStart(table->index_only, &request);
}

/*
 * Return the size of the shared memory of a node, without its results
 */
Size
GjParallelEstimate(CustomScanState *node, ParallelContext *pcxt)
{
	return MAXALIGN(sizeof(GjSharedMatch)) + GjShareBytes();
}

/*
 * As the leader, initialize the shared memory.  That may happen again later, if the node is shut
 * down and then started over.
 */
void
GjParallelInit(CustomScanState *node, ParallelContext *pcxt, void *area)
{
	GjSharedMatch *shared = area;

	/* without dynamic shared memory there are no workers */
	if (node->ss.ps.state->es_query_dsa == NULL)
		return;

	memset(shared, 0, sizeof(GjSharedMatch));
	/* wait events show it as part of the parallel query's shared memory */
	LWLockInitialize(&shared->lock, LWTRANCHE_PARALLEL_QUERY_DSA);
	GjShareInit(get_find(shared), pcxt->nworkers + 1);
	GjParallelAttach(node, pcxt->toc, shared);
}

/*
 * Attach a process to the shared memory
 */
void
GjParallelAttach(CustomScanState *node, shm_toc *toc, void *shared)
{
	GjTableScan *table = (GjTableScan *) node;

	table->shared = shared;
	table->share = (GjShare) {
		.found = get_find(shared),.area = node->ss.ps.state->es_query_dsa,
		.progress = report_progress,.arg = table
	};
}

static GjSharedFind *
get_find(GjSharedMatch *shared)
{
	return (GjSharedFind *) ((char *) shared + MAXALIGN(sizeof(GjSharedMatch)));
}

/*
 * As the leader, prepare for another execution.  There are no workers now, and the leader's own
 * TIDs must no longer be used.
 */
void
GjParallelReset(CustomScanState *node, ParallelContext *pcxt, void *area)
{
	GjSharedMatch *shared = area;

	if (node->ss.ps.state->es_query_dsa == NULL)
		return;
	share_is_over((GjTableScan *) node);
	GjShareReset(get_find(shared), node->ss.ps.state->es_query_dsa);
	shared->match.reason = NULL;
}

/*
 * Shut down: no more rows are requested, and the shared memory may be freed.  A worker reports its
 * statistics, the leader collects them.
 */
void
GjParallelShutdown(CustomScanState *node)
{
	GjTableScan *table = (GjTableScan *) node;

	if (table->shared == NULL)
		return;

	share_is_over(table);
	if (IsParallelWorker())
		report_progress(table);
	else
		collect_reports(table);
	table->shared = NULL;
	table->share.found = NULL;
}

static void
share_is_over(GjTableScan *table)
{
	table->share.alone = false;
	table->forget(&table->css);
}

/*
 * As a worker, report the statistics since the last report
 */
static void
report_progress(void *arg)
{
	GjTableScan *table = arg;
	GjSharedMatch *shared = table->shared;

	if (!IsParallelWorker())
		return;
	GjCountHold(table);
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	report_match(shared, &table->stats);
	move_fetch_stats(&shared->fetch, GjFetchGetStats(table->fetch));
	if (table->index_only != NULL)
		move_index_only_stats(&shared->index_only, GjIndexOnlyGetStats(table->index_only));
	LWLockRelease(&shared->lock);
	GjCountRelease(table);
}

/*
 * Add to the shared statistics of matches.  Texts are copied, as another process could not use a
 * pointer.  The lock is held.
 */
static void
report_match(GjSharedMatch *shared, GjMatchStats *stats)
{
	if (GjMatchStatsTells(&shared->match, stats))
	{
		strlcpy(shared->device, stats->device != NULL ? stats->device : "", DEVICE_NAME_BYTES);
		strlcpy(shared->reason, stats->reason != NULL ? stats->reason : "", REASON_BYTES);
	}
	GjMatchStatsAdd(&shared->match, stats);
	memset(stats, 0, sizeof(GjMatchStats));
}

/*
 * As the leader, add the statistics of workers to this process's
 */
static void
collect_reports(GjTableScan *table)
{
	GjSharedMatch *shared = table->shared;
	GjFetchStats fetch = {0};
	GjIndexOnlyStats index_only = {0};
	GjMatchStats match;
	char		device[DEVICE_NAME_BYTES];
	char		reason[REASON_BYTES];
	MemoryContext context = GetMemoryChunkContext(table->fetch);

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	move_fetch_stats(&fetch, &shared->fetch);
	move_index_only_stats(&index_only, &shared->index_only);
	match = shared->match;
	memset(&shared->match, 0, sizeof(GjMatchStats));
	memcpy(device, shared->device, DEVICE_NAME_BYTES);
	memcpy(reason, shared->reason, REASON_BYTES);
	LWLockRelease(&shared->lock);

	GjCountHold(table);
	move_fetch_stats(GjFetchGetStats(table->fetch), &fetch);
	if (table->index_only != NULL)
		move_index_only_stats(GjIndexOnlyGetStats(table->index_only), &index_only);
	match.device = device[0] != '\0' ? MemoryContextStrdup(context, device) : NULL;
	match.reason = reason[0] != '\0' ? MemoryContextStrdup(context, reason) : NULL;
	GjMatchStatsAdd(&table->stats, &match);
	GjCountRelease(table);
}

static void
move_fetch_stats(GjFetchStats *to, GjFetchStats *from)
{
	to->exact_blocks += from->exact_blocks;
	to->lossy_blocks += from->lossy_blocks;
	to->tuples += from->tuples;
	to->rechecked += from->rechecked;
	memset(from, 0, sizeof(GjFetchStats));
}

static void
move_index_only_stats(GjIndexOnlyStats *to, GjIndexOnlyStats *from)
{
	to->rows += from->rows;
	to->heap_fetches += from->heap_fetches;
	memset(from, 0, sizeof(GjIndexOnlyStats));
}
