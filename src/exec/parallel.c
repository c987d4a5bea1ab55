/*-------------------------------------------------------------------------
 *
 * parallel.c
 *	  Sharing a match among the processes of a parallel plan.
 *
 * The process that comes first searches the index and puts the TIDs, in heap order,
 * into the plan's shared memory; the others wait for that, and then all take blocks
 * until there are no more (sets/share.c).  For index-only answers it finds out how the rest
 * is done, and all do it: each asks a device for the entries of some keys (match/divide.c);
 * or they take from what a device has found for one of them (sets/share.c); or they
 * search the index on the CPU (match/divide.c).
 *
 * Why each row comes once: the processes have the same snapshot, the TIDs are
 * those of one search under it, and each block is taken by one process, which takes
 * all that the block has; match/divide.c say it of what all do.  Each process
 * rechecks keys against a set that it has made itself: plans are made only where all of these
 * sets are equal (plan/same.c).
 *
 * A match can be shared if it answers for the whole execution of the node.  The match
 * of one batch of a join does not: the batches of two processes need not be cut at the
 * same places.  So, if the process that comes first has more than one batch, it does
 * all of the work, and the others nothing; and where another came first and shared its
 * match, a process with several batches takes no part in it.  The process that shared
 * it never stops taking blocks before there are no more, so that nothing is left over.
 *
 * Who waits for whom: those who come later for the one that searches.  It waits for no
 * process of the plan, since it returns no row before it has shared the result.  If
 * it fails, it is the leader, whose end is that of its workers, or its error reaches
 * the leader, which waits interruptibly like everybody here.
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

#include "storage/condition_variable.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

#include "base/compat.h"
#include "parallel.h"

/* Long enough for every name and every reason that there is */
#define DEVICE_NAME_BYTES		128
#define REASON_BYTES			256

typedef enum SharePhase
{
	PHASE_NEW,					/* nobody was here yet */
	PHASE_MATCHING,				/* the first one searches */
	PHASE_SHARED,				/* what it has found is there */
	PHASE_ONE_FOR_ALL			/* the first one does all of it */
} SharePhase;

/* What a process has to do about a match */
typedef enum Role
{
	ROLE_ALONE,					/* all of it, for itself */
	ROLE_FIRST,					/* search, and publish what was found */
	ROLE_OTHER,					/* take from what was published */
	ROLE_NONE					/* nothing: another process does all */
} Role;

typedef struct GjSharedMatch
{
	slock_t		mutex;			/* of phase */
	SharePhase	phase;

	LWLock		lock;			/* of all up to reason */
	GjMatchStats match;			/* of the workers, not yet added to the leader's */
	GjFetchStats fetch;
	GjIndexOnlyStats index_only;
	char		device[DEVICE_NAME_BYTES];	/* instead of match.device and match.reason; */
	char		reason[REASON_BYTES];	/* empty: none */

	int			nprocesses;		/* planned, with the leader */
	ConditionVariable matched;
	GjSharedFind found;			/* valid in PHASE_SHARED */
} GjSharedMatch;

static GjTidSet *match_tids(GjTableScan *table, Size limit, bool can_share);
static GjTidSet *match_entries(GjTableScan *table, uint64 columns, Size limit, bool can_share);
static Role take_role(GjTableScan *table, bool can_share);
static SharePhase begin(GjTableScan *table, bool can_share);
static SharePhase wait_for_match(GjSharedMatch *shared);
static SharePhase get_phase(GjSharedMatch *shared);
static void publish(GjSharedMatch *shared);
static GjSharePart get_part(GjTableScan *table);
static void share_tids(GjTableScan *table, Size limit);
static GjTidSet *open_tids(GjTableScan *table);
static void share_is_over(GjTableScan *table);
static void report_progress(void *table);
static void report_match(GjSharedMatch *shared, GjMatchStats *stats);
static void collect_reports(GjTableScan *table);
static void move_fetch_stats(GjFetchStats *to, GjFetchStats *from);
static void move_index_only_stats(GjIndexOnlyStats *to, GjIndexOnlyStats *from);

/*
 * Entries are asked for where they will do.  What they are filtered by may have changed.
 */
GjTidSet *
GjParallelMatch(GjTableScan *table, uint64 columns, Size limit, bool can_share)
{
	GjEntryFilterReset(table->entry_filter);
	table->used = true;
	if (table->index_only != NULL && !table->keys->nulls &&
		GjIndexOnlyIsPossible(table->index_only))
		return match_entries(table, columns, limit, can_share);
	return match_tids(table, limit, can_share);
}

/*
 * Find out what to fetch, by a search if nobody has done it yet
 */
static GjTidSet *
match_tids(GjTableScan *table, Size limit, bool can_share)
{
	switch (take_role(table, can_share))
	{
		case ROLE_ALONE:
			return GjTableScanSearch(table, limit);
		case ROLE_NONE:
			return GjTidSetCreateView(table->context, NULL, 0, NULL);
		case ROLE_FIRST:
			share_tids(table, limit);
			break;
		case ROLE_OTHER:
			break;
	}
	return open_tids(table);
}

/*
 * The same for a match of entries.  NULL: rows come from index_only, which has been started; if
 * the index is not complete, TIDs are what a search finds.
 */
static GjTidSet *
match_entries(GjTableScan *table, uint64 columns, Size limit, bool can_share)
{
	GjIndexOnly *io = table->index_only;
	const GjKeySet *keys = table->keys;
	MemoryContext context = table->context;
	GjMatchStats *stats = &table->stats;
	GjSharePart part = get_part(table);

	switch (take_role(table, can_share))
	{
		case ROLE_ALONE:
			if (!GjIndexOnlyIsComplete(io))
				return GjTableScanSearch(table, limit);
			GjIndexOnlyStart(io, keys, columns, context, limit, stats);
			return NULL;
		case ROLE_NONE:
			return GjTidSetCreateView(context, NULL, 0, NULL);
		case ROLE_FIRST:
			if (!GjIndexOnlyIsComplete(io))
			{
				share_tids(table, limit);
				break;
			}
			if (GjIndexOnlyDivide(io, keys, columns, context, limit, stats, &part))
			{
				publish(table->shared);
				GjIndexOnlyJoin(io, keys, columns, context, limit, stats, &part);
				break;
			}
			GjIndexOnlyStart(io, keys, columns, context, limit * part.nprocesses, stats);
			GjIndexOnlyShare(io, &part, limit);
			publish(table->shared);
			break;
		case ROLE_OTHER:
			if (part.found->kind != GJ_SHARED_TIDS)
				GjIndexOnlyJoin(io, keys, columns, context, limit, stats, &part);
			break;
	}
	return part.found->kind == GJ_SHARED_TIDS ? open_tids(table) : NULL;
}

static GjSharePart
get_part(GjTableScan *table)
{
	GjSharePart part = {.area = table->css.ss.ps.state->es_query_dsa,
	.progress = report_progress,.arg = table};

	if (table->shared != NULL)
	{
		part.found = &table->shared->found;
		part.nprocesses = table->shared->nprocesses;
	}
	return part;
}

/*
 * Search, with the memory of all processes, as for a hash table that they share
 */
static void
share_tids(GjTableScan *table, Size limit)
{
	GjSharePart part = get_part(table);
	GjTidSet   *set = GjTableScanSearch(table, limit * part.nprocesses);

	part.found->kind = GJ_SHARED_TIDS;
	GjTidsShare(&part.found->tids, part.area, set, part.nprocesses);
	GjTidSetFree(set);
	publish(table->shared);
}

static GjTidSet *
open_tids(GjTableScan *table)
{
	GjSharePart part = get_part(table);

	if (part.found->kind != GJ_SHARED_TIDS)
		elog(ERROR, "a shared match has entries where TIDs are wanted");
	return GjTidsOpenShared(table->context, &part.found->tids, part.area, part.progress,
							part.arg);
}

/*
 * Find out what this process has to do; waits while another one searches
 */
static Role
take_role(GjTableScan *table, bool can_share)
{
	if (table->shared == NULL || table->alone)
		return ROLE_ALONE;

	switch (begin(table, can_share))
	{
		case PHASE_NEW:
			return ROLE_FIRST;
		case PHASE_MATCHING:
			return can_share && wait_for_match(table->shared) == PHASE_SHARED ?
				ROLE_OTHER : ROLE_NONE;
		case PHASE_SHARED:
			return can_share ? ROLE_OTHER : ROLE_NONE;
		case PHASE_ONE_FOR_ALL:
			break;
	}
	return table->alone ? ROLE_ALONE : ROLE_NONE;
}

/*
 * Enter.  PHASE_NEW: this process is the first, and has to publish what it finds.
 */
static SharePhase
begin(GjTableScan *table, bool can_share)
{
	GjSharedMatch *shared = table->shared;
	SharePhase	phase;

	SpinLockAcquire(&shared->mutex);
	phase = shared->phase;
	if (phase == PHASE_NEW && can_share)
		shared->phase = PHASE_MATCHING;
	else if (phase == PHASE_NEW)
	{
		phase = shared->phase = PHASE_ONE_FOR_ALL;
		table->alone = true;
	}
	SpinLockRelease(&shared->mutex);
	return phase;
}

static SharePhase
wait_for_match(GjSharedMatch *shared)
{
	ConditionVariablePrepareToSleep(&shared->matched);
	while (get_phase(shared) == PHASE_MATCHING)
		ConditionVariableSleep(&shared->matched, GjWaitEventSharedMatch());
	ConditionVariableCancelSleep();
	return get_phase(shared);
}

static SharePhase
get_phase(GjSharedMatch *shared)
{
	SharePhase	phase;

	SpinLockAcquire(&shared->mutex);
	phase = shared->phase;
	SpinLockRelease(&shared->mutex);
	return phase;
}

/*
 * Let the others go on: what they wait for is in shared memory
 */
static void
publish(GjSharedMatch *shared)
{
	SpinLockAcquire(&shared->mutex);
	shared->phase = PHASE_SHARED;
	SpinLockRelease(&shared->mutex);
	ConditionVariableBroadcast(&shared->matched);
}

/*
 * How much shared memory a node needs besides what it finds
 */
Size
GjParallelEstimate(CustomScanState *node, ParallelContext *pcxt)
{
	return sizeof(GjSharedMatch);
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
	SpinLockInit(&shared->mutex);
	/* wait events show it as what it is part of: the parallel query's shared memory */
	LWLockInitialize(&shared->lock, LWTRANCHE_PARALLEL_QUERY_DSA);
	shared->phase = PHASE_NEW;
	shared->nprocesses = pcxt->nworkers + 1;
	ConditionVariableInit(&shared->matched);
	GjFindShareInit(&shared->found);
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
	table->alone = false;
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
	GjFindUnshare(&shared->found, node->ss.ps.state->es_query_dsa);
	shared->phase = PHASE_NEW;
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
}

static void
share_is_over(GjTableScan *table)
{
	table->alone = false;
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
