/*-------------------------------------------------------------------------
 *
 * divide.c
 *	  Dividing a match of entries among processes, by places.
 *
 * A device is asked for all keys by one process, and what it finds is divided (sets/entryshare.c),
 * or by each process for keys of its own (ranges.c).  The CPU's answer is divided
 * before it is found: the process that comes first reads the vacuum epoch, and looks into the
 * directories of the runs for places that divide what is to be read into intervals of as many pages
 * each.  Then all processes take intervals, one at a time, until there are none left.
 *
 * Each interval is a search of its own, for the entries between two places, of tails and deltas as
 * of runs (search.c).  Nothing that a process has found does another one need to know.
 *
 * Why each row comes once.  All intervals together are all places, and each is taken by one
 * process, by raising a counter in shared memory.  A row that the snapshot sees has one entry,
 * from before the match until long after it, which has one place, wherever VACUUM's folds move
 * it.  So it is in one interval, and the search of that finds it once.  The snapshot is the same
 * in all processes, and was taken before any of the searches.
 *
 * Two different entries of one TID, of two rows with different keys, may be in two intervals: one
 * process finds the first one, then VACUUM removes it, the TID is used again, and another process
 * finds the second.  By the vacuum epoch, which was read by the process that came first, before
 * anything was found, entries.c shows that neither is a row of the answer.
 *
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "parts.h"


/* The more there are, the shorter is the time in which some processes are idle at the end */
#define STEPS_PER_PROCESS		16

/*
 * Prepare shared memory: nothing has been found
 */
void
GjFindShareInit(GjSharedFind *found)
{
	memset(found, 0, sizeof(GjSharedFind));
	pg_atomic_init_u64(&found->search.next, 0);
	pg_atomic_init_u64(&found->ranges.next, 0);
	GjTidsShareInit(&found->tids);
	GjEntriesShareInit(&found->entries);
}

/*
 * Free the shared memory; no process may still be reading
 */
void
GjFindUnshare(GjSharedFind *found, dsa_area *area)
{
	GjTidsUnshare(&found->tids, area);
	GjEntriesUnshare(&found->entries, area);
	GjFindShareInit(found);
}

/*
 * Let other processes take part in a match that was begun here, of which nothing has been taken
 * yet: all search together, even if a device was to be asked for pieces
 */
void
GjSearchShare(GjSharedSearch *shared, GjEntryMatch *match, int nprocesses, GjMatchStats *stats)
{
	shared->vacuum_epoch = match->vacuum_epoch;
	shared->nsteps = 0;
	if (match->phase != GJ_ENTRIES_DONE)
	{
		MemoryContext old = MemoryContextSwitchTo(match->context);
		GjSearch   *search = GjSearchBegin(match->index, &match->info, match->keys, 0, NULL);

		shared->nsteps = GjSearchDivide(search, nprocesses,
										Min(nprocesses * STEPS_PER_PROCESS, GJ_MAX_STEPS),
										shared->starts, stats);
		GjSearchEnd(search);
		MemoryContextSwitchTo(old);
	}
	GjTailHitsForget(&match->tails);
	match->tails_known = false;
	match->wanted = match->keys;
	match->shared = shared;
	match->phase = GJ_ENTRIES_SEARCH;
}

/*
 * Take part in a match that another process has begun, with so much memory.  The key set must
 * live as long as the match.  What it takes is allocated in the current memory context, also
 * later.
 */
void
GjSearchJoin(GjSharedSearch *shared, GjEntryMatch *match, Relation index, const GjKeySet *keys,
			 Size limit)
{
	memset(match, 0, sizeof(*match));
	match->index = index;
	match->keys = match->wanted = keys;
	match->context = CurrentMemoryContext;
	match->limit = limit;
	GjIndexGetInfo(index, &match->info);
	match->vacuum_epoch = shared->vacuum_epoch;
	match->shared = shared;
}

/*
 * Turn to the next interval; false if all are taken
 */
bool
GjSearchTake(GjEntryMatch *match)
{
	GjSharedSearch *shared = match->shared;
	const GjPlace last = GjLastPlace;
	uint64		step;
	uint64		next;

	if (!GjTakeStep(&shared->next, 1, shared->nsteps, &step, &next))
		return false;
	GjSearchTurnTo(match->search, &shared->starts[step],
				   next < shared->nsteps ? &shared->starts[next] : &last);
	return true;
}
