/*-------------------------------------------------------------------------
 *
 * indexonlyshare.c
 *	  Index-only answers in parallel plans: the process that comes first decides how the
 *	  entries are divided, and begins; the others join it.
 *
 * By ranges of keys (match/ranges.c), if nearly all of the heap is all-visible and a device
 * can answer; else by heap blocks, what a device has found (sets/entryshare.c); or by places in
 * the index, what the CPU is to find (match/divide.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/rel.h"

#include "entryvisible.h"
#include "indexonlystate.h"
#include "search.h"

static void join_search(GjIndexOnly *io, const GjKeySet *keys, GjSharedSearch *search);
static void join_ranges(GjIndexOnly *io, const GjKeySet *keys, GjSharedRanges *ranges);

/*
 * Find out whether all processes should have a device find entries for some of the keys
 * each.  If so, they can join; else nothing is shared yet, nor started.
 */
bool
GjIndexOnlyDivide(GjIndexOnly *io, const GjKeySet *keys, uint64 columns, MemoryContext parent,
				  Size limit, GjMatchStats *stats, const GjSharePart *part)
{
	GjSharedFind *found = part->found;

	if (!GjHeapIsMostlyVisible(io->heap))
		return false;
	GjIndexOnlyPrepare(io, columns, parent, limit, stats);
	if (!GjExecShareRanges(&found->ranges, io->index, io->snapshot, keys,
						   GjEntrySetCapacity(io->whole), part->nprocesses, stats))
		return false;
	found->kind = GJ_SHARED_RANGES;
	found->columns = columns;
	return true;
}

/*
 * Let other processes take part in the match that has been started here.  If all that was
 * found is for the heap, it is shared as such, and nothing is started any more.
 */
void
GjIndexOnlyShare(GjIndexOnly *io, const GjSharePart *part, Size limit)
{
	GjSharedFind *found = part->found;

	if (io->plain != NULL)
	{
		found->kind = GJ_SHARED_TIDS;
		GjTidsShare(&found->tids, part->area, io->plain, part->nprocesses);
		io->stats.heap_fetches += GjTidSetCount(io->plain);
		GjIndexOnlyReset(io);
		return;
	}

	if (io->match.phase == GJ_ENTRIES_AT_ONCE)
	{
		found->kind = GJ_SHARED_ENTRIES;
		found->vacuum_epoch = io->match.vacuum_epoch;
		GjEntriesShare(&found->entries, part->area, io->whole, part->nprocesses);
		GjIndexOnlyMakePiece(io);
	}
	else
	{
		if (io->match.phase == GJ_ENTRIES_ASK)
			GjIndexOnlyMakePiece(io);
		found->kind = GJ_SHARED_SEARCH;
		GjSearchShare(&found->search, &io->match, part->nprocesses, io->match_stats);
	}
	found->columns = io->columns;
	io->part = *part;
	io->limit = limit;
}

/*
 * Take part in a match of entries that another process has shared
 */
void
GjIndexOnlyJoin(GjIndexOnly *io, const GjKeySet *keys, uint64 columns, MemoryContext parent,
				Size limit, GjMatchStats *stats, const GjSharePart *part)
{
	GjSharedFind *found = part->found;

	if (found->columns != columns)
		elog(ERROR, "the processes of a plan need different columns of index \"%s\"",
			 RelationGetRelationName(io->index));
	GjIndexOnlyPrepare(io, columns, parent, limit, stats);
	switch (found->kind)
	{
		case GJ_SHARED_RANGES:
			join_ranges(io, keys, &found->ranges);
			break;
		case GJ_SHARED_SEARCH:
			GjIndexOnlyMakePiece(io);
			join_search(io, keys, &found->search);
			break;
		case GJ_SHARED_ENTRIES:
			GjIndexOnlyMakePiece(io);
			io->match.vacuum_epoch = found->vacuum_epoch;
			break;
		case GJ_SHARED_TIDS:
			Assert(false);
			break;
	}
	io->part = *part;
}

static void
join_search(GjIndexOnly *io, const GjKeySet *keys, GjSharedSearch *search)
{
	MemoryContext old = MemoryContextSwitchTo(io->context);

	GjSearchJoin(search, &io->match, io->index, keys, io->limit);
	MemoryContextSwitchTo(old);
}

static void
join_ranges(GjIndexOnly *io, const GjKeySet *keys, GjSharedRanges *ranges)
{
	MemoryContext old = MemoryContextSwitchTo(io->context);

	GjRangesJoin(ranges, &io->match, io->index, keys, GjEntrySetCapacity(io->whole),
				 io->limit);
	MemoryContextSwitchTo(old);
	GjIndexOnlyDeliver(io, io->whole);
}
