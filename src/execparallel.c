/*-------------------------------------------------------------------------
 *
 * execparallel.c
 *	  Sharing a match among the processes of a parallel plan.
 *
 * The process that comes first searches the index and puts the TIDs, in heap order,
 * into the plan's shared memory; the others wait for that, and then all take blocks
 * until there are no more (tidshare.c).
 *
 * Why each row comes once: the processes have the same snapshot, the TIDs are
 * those of one search under it, and each block is taken by one process, which takes
 * all that the block has.  Each process rechecks keys against a set that it has made
 * itself: what makes it is parallel-safe, so that all sets are equal, as the filters
 * of a parallel sequential scan are.
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
#include "storage/spin.h"

#include "compat.h"
#include "execparallel.h"
#include "tidshare.h"

/* Long enough for every name and every reason that there is */
#define DEVICE_NAME_BYTES		128
#define REASON_BYTES			256

typedef enum SharePhase
{
	PHASE_NEW,					/* nobody was here yet */
	PHASE_MATCHING,				/* the first one searches */
	PHASE_SHARED,				/* the TIDs are there */
	PHASE_ONE_FOR_ALL			/* the first one does all of it */
} SharePhase;

typedef struct GjSharedMatch
{
	slock_t		mutex;			/* of all up to nprocesses */
	SharePhase	phase;
	GjMatchStats match;			/* of the workers, not yet added to the leader's */
	GjFetchStats fetch;
	char		device[DEVICE_NAME_BYTES];	/* instead of match.device and match.reason; */
	char		reason[REASON_BYTES];	/* empty: none */

	int			nprocesses;		/* planned, with the leader */
	ConditionVariable matched;
	GjSharedTids tids;			/* valid in PHASE_SHARED */
} GjSharedMatch;

static SharePhase begin(GjShare *share, bool can_share);
static SharePhase wait_for_match(GjSharedMatch *shared);
static SharePhase get_phase(GjSharedMatch *shared);
static void publish(GjShare *share, dsa_area *area, GjTidSet *set);
static void share_is_over(CustomScanState *node);
static GjShare *get_share(CustomScanState *node);
static void report_progress(void *share);
static void report_match(GjSharedMatch *shared, GjMatchStats *stats);
static void collect_reports(GjShare *share);
static void move_fetch_stats(GjFetchStats *to, GjFetchStats *from);

/*
 * Find out what to fetch, by a search if nobody has done it yet
 */
GjTidSet *
GjShareMatch(CustomScanState *node, MemoryContext context, Size limit, bool can_share,
			 GjMatchFunction match)
{
	GjShare    *share = get_share(node);
	dsa_area   *area = node->ss.ps.state->es_query_dsa;
	GjSharedMatch *shared = share->shared;

	if (shared == NULL || share->alone)
		return match(node, limit);

	switch (begin(share, can_share))
	{
		case PHASE_NEW:
			/* The memory of all processes, as for a hash table that they share */
			publish(share, area, match(node, limit * shared->nprocesses));
			break;
		case PHASE_MATCHING:
			if (!can_share || wait_for_match(shared) != PHASE_SHARED)
				return GjTidSetCreateView(context, NULL, 0, NULL);
			break;
		case PHASE_SHARED:
			if (!can_share)
				return GjTidSetCreateView(context, NULL, 0, NULL);
			break;
		case PHASE_ONE_FOR_ALL:
			if (share->alone)
				return match(node, limit);
			return GjTidSetCreateView(context, NULL, 0, NULL);
	}
	return GjTidsOpenShared(context, &shared->tids, area, report_progress, share);
}

/*
 * Enter.  PHASE_NEW: this process is the first, and has to publish what it finds.
 */
static SharePhase
begin(GjShare *share, bool can_share)
{
	GjSharedMatch *shared = share->shared;
	SharePhase	phase;

	SpinLockAcquire(&shared->mutex);
	phase = shared->phase;
	if (phase == PHASE_NEW && can_share)
		shared->phase = PHASE_MATCHING;
	else if (phase == PHASE_NEW)
	{
		phase = shared->phase = PHASE_ONE_FOR_ALL;
		share->alone = true;
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
 * Share what was found, and let go of it here
 */
static void
publish(GjShare *share, dsa_area *area, GjTidSet *set)
{
	GjSharedMatch *shared = share->shared;

	GjTidsShare(&shared->tids, area, set, shared->nprocesses);
	GjTidSetFree(set);

	SpinLockAcquire(&shared->mutex);
	shared->phase = PHASE_SHARED;
	SpinLockRelease(&shared->mutex);
	ConditionVariableBroadcast(&shared->matched);
}

/*
 * How much shared memory a node needs besides the TIDs
 */
Size
GjShareEstimate(CustomScanState *node, ParallelContext *pcxt)
{
	return sizeof(GjSharedMatch);
}

/*
 * The leader makes the shared part.  It may make another one later, if it is told to
 * shut down and then to start over.
 */
void
GjShareInit(CustomScanState *node, ParallelContext *pcxt, void *area)
{
	GjSharedMatch *shared = area;

	memset(shared, 0, sizeof(GjSharedMatch));
	SpinLockInit(&shared->mutex);
	shared->phase = PHASE_NEW;
	shared->nprocesses = pcxt->nworkers + 1;
	ConditionVariableInit(&shared->matched);
	GjTidsShareInit(&shared->tids);
	GjShareAttach(node, pcxt->toc, shared);
}

/*
 * A process begins to take part
 */
void
GjShareAttach(CustomScanState *node, shm_toc *toc, void *shared)
{
	GjShare    *share = get_share(node);

	share->shared = shared;
	share->alone = false;
}

/*
 * The leader makes ready for another execution.  There are no workers now, and what it
 * has of the TIDs itself must not be used any more.
 */
void
GjShareReset(CustomScanState *node, ParallelContext *pcxt, void *area)
{
	GjSharedMatch *shared = area;

	share_is_over(node);
	GjTidsUnshare(&shared->tids, node->ss.ps.state->es_query_dsa);
	shared->phase = PHASE_NEW;
}

/*
 * The node will not be asked for rows any more, and the shared memory may go away.  A
 * worker hands over what it has counted, the leader takes it.
 */
void
GjShareShutdown(CustomScanState *node)
{
	GjShare    *share = get_share(node);

	if (share->shared == NULL)
		return;

	share_is_over(node);
	if (IsParallelWorker())
		report_progress(share);
	else
		collect_reports(share);
	share->shared = NULL;
}

static void
share_is_over(CustomScanState *node)
{
	GjShare    *share = get_share(node);

	share->alone = false;
	share->forget(node);
}

static GjShare *
get_share(CustomScanState *node)
{
	return &((GjSharingState *) node)->share;
}

/*
 * Hand over what a worker has counted so far
 */
static void
report_progress(void *arg)
{
	GjShare    *share = arg;
	GjSharedMatch *shared = share->shared;

	if (!IsParallelWorker())
		return;
	report_match(shared, share->stats);
	SpinLockAcquire(&shared->mutex);
	move_fetch_stats(&shared->fetch, GjFetchGetStats(share->fetch));
	SpinLockRelease(&shared->mutex);
}

/*
 * Texts are copied: a pointer means nothing to another process
 */
static void
report_match(GjSharedMatch *shared, GjMatchStats *stats)
{
	SpinLockAcquire(&shared->mutex);
	if (stats->searches > 0)
	{
		strlcpy(shared->device, stats->device != NULL ? stats->device : "", DEVICE_NAME_BYTES);
		strlcpy(shared->reason, stats->reason != NULL ? stats->reason : "", REASON_BYTES);
	}
	GjMatchStatsAdd(&shared->match, stats);
	SpinLockRelease(&shared->mutex);
	memset(stats, 0, sizeof(GjMatchStats));
}

/*
 * In the leader, add what the workers have counted to this process's counters
 */
static void
collect_reports(GjShare *share)
{
	GjSharedMatch *shared = share->shared;
	GjFetchStats fetch = {0};
	GjMatchStats match;
	char		device[DEVICE_NAME_BYTES];
	char		reason[REASON_BYTES];
	MemoryContext context = GetMemoryChunkContext(share->fetch);

	SpinLockAcquire(&shared->mutex);
	move_fetch_stats(&fetch, &shared->fetch);
	match = shared->match;
	memset(&shared->match, 0, sizeof(GjMatchStats));
	memcpy(device, shared->device, DEVICE_NAME_BYTES);
	memcpy(reason, shared->reason, REASON_BYTES);
	SpinLockRelease(&shared->mutex);

	move_fetch_stats(GjFetchGetStats(share->fetch), &fetch);
	match.device = device[0] != '\0' ? MemoryContextStrdup(context, device) : NULL;
	match.reason = reason[0] != '\0' ? MemoryContextStrdup(context, reason) : NULL;
	GjMatchStatsAdd(share->stats, &match);
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
