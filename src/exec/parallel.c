/*-------------------------------------------------------------------------
 *
 * parallel.c
 *	  Sharing a match among the processes of a parallel plan.
 *
 * match/divide.c describes how the processes share a match.  Here is the shared memory, and what
 * becomes of the statistics.
 *
 * What workers have counted gets to the leader through the same shared memory: with
 * each step, and when the node is shut down, which precedes the end of a worker's
 * rows.  The leader adds it up in its own shutdown; where it stops the workers before
 * they have come to their end, what they have counted since the last step is missing.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"

#include "base/compat.h"
#include "parallel.h"

/* Long enough for every name and every reason that there is */
#define DEVICE_NAME_BYTES		128
#define REASON_BYTES			256

/* In shared memory, followed by what match/divide.c needs */
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
 * Search the index for the keys, or get a part of what another process has found.  Requests entries
 * if they can be rows.  Returns the TIDs to be fetched; or NULL if rows come from index_only, which
 * has been started.  The values that entries are filtered by may have changed.
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
	request.entries = GjIndexOnlyIsPossible(table->index_only);
	request.columns = columns;
	return GjIndexOnlyStart(table->index_only, &request);
}

/*
 * How much shared memory a node needs besides what it finds
 */
Size
GjParallelEstimate(CustomScanState *node, ParallelContext *pcxt)
{
	return MAXALIGN(sizeof(GjSharedMatch)) + GjShareBytes();
}

/*
 * The leader makes the shared part.  It may make another one later, if it is told to
 * shut down and then to start over.
 */
void
GjParallelInit(CustomScanState *node, ParallelContext *pcxt, void *area)
{
	GjSharedMatch *shared = area;

	/* without dynamic shared memory there are no workers, and nothing to share with */
	if (node->ss.ps.state->es_query_dsa == NULL)
		return;

	memset(shared, 0, sizeof(GjSharedMatch));
	/* wait events show it as what it is part of: the parallel query's shared memory */
	LWLockInitialize(&shared->lock, LWTRANCHE_PARALLEL_QUERY_DSA);
	GjShareInit(get_find(shared), pcxt->nworkers + 1);
	GjParallelAttach(node, pcxt->toc, shared);
}

/*
 * A process begins to take part
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
 * The leader makes ready for another execution.  There are no workers now, and what it
 * has of the TIDs itself must not be used any more.
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
 * The node will not be asked for rows any more, and the shared memory may go away.  A
 * worker hands over what it has counted, the leader takes it.
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
 * Hand over what a worker has counted so far
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
 * Texts are copied: a pointer means nothing to another process.  The lock is held.
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
 * In the leader, add what the workers have counted to this process's counters
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
