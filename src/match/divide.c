/*-------------------------------------------------------------------------
 *
 * divide.c
 *	  Dividing a match of entries among processes, by pages of the index.
 *
 * A device is asked for all keys by one process, and what it finds is divided (sets/entryshare.c),
 * or by each process for keys of its own (ranges.c).  The CPU's answer is divided
 * before it is found: the process that comes first reads the vacuum epoch, searches the tail
 * pages and looks how long the index is, and then all processes take data pages, a few at a
 * time, until there are none left.  As search.c wants it, each data page is read after all
 * tail pages.
 *
 * What was on a tail page may have moved to a data page by the time that is read.  The
 * hits on tail pages go to the process that found them, and all processes leave such
 * TIDs out of what they find on data pages.  (A search by one process does it the other
 * way round: it knows what it has met.)
 *
 * No row comes twice, though no process knows what others have found.  A row that the
 * snapshot sees has one entry, from before the match until long after it: VACUUM may not
 * remove it meanwhile, which on a standby it only does once the snapshot is gone.  That
 * entry is on a data page, which one process searches, or on a tail page, or moves from one
 * to the other.  Two different entries of one TID are of two rows, of which neither is
 * seen: the first one was removed during the match, and the second row was inserted later.
 * If both are looked for in the heap, nothing is found.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "parts.h"


/* As many pages as take much longer to search than to take */
#define STEPS_PER_PROCESS		16
#define MIN_STEP_PAGES			4
#define MAX_STEP_PAGES			512

static bool take_pages(GjEntryMatch *match);

/*
 * Prepare shared memory: nothing has been found
 */
void
GjFindShareInit(GjSharedFind *found)
{
	memset(found, 0, sizeof(GjSharedFind));
	found->search.tails = InvalidDsaPointer;
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
	if (DsaPointerIsValid(found->search.tails))
		dsa_free(area, found->search.tails);
	GjFindShareInit(found);
}

/*
 * Let other processes take part in a match that was begun here, of which nothing has been taken
 * yet: all search together, even if a device was to be asked for pieces
 */
void
GjSearchShare(GjSharedSearch *shared, dsa_area *area, GjEntryMatch *match, int nprocesses)
{
	int			ntails = match->tails.nrows;

	/* the tail pages were searched for what all are going to search the data pages for */
	Assert(match->phase == GJ_ENTRIES_DONE || match->wanted == match->keys);
	shared->vacuum_epoch = match->vacuum_epoch;
	shared->first = match->next;
	shared->npages = match->phase == GJ_ENTRIES_DONE ? 0 : match->end - match->next;
	shared->step = Min(Max(shared->npages / nprocesses / STEPS_PER_PROCESS, MIN_STEP_PAGES),
					   MAX_STEP_PAGES);
	if (ntails > 0)
	{
		uint64	   *tids;

		shared->tails = dsa_allocate(area, ntails * sizeof(uint64));
		tids = dsa_get_address(area, shared->tails);
		for (int i = 0; i < ntails; i++)
			tids[i] = GjTailHitTid(&match->tails, &match->info, i);
	}
	shared->ntails = ntails;

	match->shared = shared;
	match->shared_tails = match->tail_tids;
	match->end = match->next;
	match->phase = GJ_ENTRIES_SEARCH;
}

/*
 * Take part in a match that another process has begun.  The key set must live as long as
 * the match.  What it takes is allocated in the current memory context.
 */
void
GjSearchJoin(GjSharedSearch *shared, dsa_area *area, GjEntryMatch *match, Relation index,
			 const GjKeySet *keys)
{
	memset(match, 0, sizeof(*match));
	match->index = index;
	match->keys = keys;
	GjIndexGetInfo(index, &match->info);
	match->vacuum_epoch = shared->vacuum_epoch;
	match->shared = shared;
	if (shared->ntails > 0)
		match->shared_tails = GjFewTidsCreate(CurrentMemoryContext,
											  dsa_get_address(area, shared->tails),
											  shared->ntails);
}

/*
 * Get this process's next piece; false if there are no more.  A piece may be empty.
 */
bool
GjSearchNext(GjEntryMatch *match, GjEntrySet *piece, GjMatchStats *stats)
{
	GjMatchTarget target = {NULL, piece};

	if (match->tails.nrows > 0)
	{
		GjTailHitsAdd(&match->tails, &match->info, target, stats);
		GjEntrySetFinish(piece);
		return true;
	}
	if (match->next == match->end && !take_pages(match))
		return false;

	match->next = GjSearchBlocks(match->index, &match->info, match->keys, match->next,
								 match->end, match->shared->npages, target, stats);
	GjEntrySetEndBulk(piece);
	if (match->shared_tails != NULL)
		stats->tids -= GjEntrySetDrop(piece, match->shared_tails);
	return true;
}

static bool
take_pages(GjEntryMatch *match)
{
	GjSharedSearch *shared = match->shared;
	uint64		first;
	uint64		end;

	if (!GjTakeStep(&shared->next, shared->step, shared->npages, &first, &end))
		return false;
	match->next = shared->first + (BlockNumber) first;
	match->end = shared->first + (BlockNumber) end;
	return true;
}
