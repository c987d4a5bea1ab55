/*-------------------------------------------------------------------------
 *
 * exectids.c
 *	  From TIDs to tuples: a heap block at a time, in heap order.
 *
 * A match hands out TIDs long before they are used, without a pin on the index
 * that would hold VACUUM back.  That is safe because
 *
 *	- the snapshot is an MVCC snapshot and was taken before the match.  A TID whose
 *	  row was dead and whose line pointer was used again since then leads to a row
 *	  that this snapshot cannot see;
 *	- the caller rechecks the key, so that a TID which leads to a visible row with
 *	  another key (an entry left behind) does no harm, and the TID set gives each
 *	  TID once, so that two entries for one TID do none either;
 *	- an entry names the root of a HOT chain.  The chain is followed to the member
 *	  that the snapshot sees; it has the indexed key, or the update that made it
 *	  would not have been a HOT update.  A TID that meanwhile names a member in the
 *	  middle of a chain gives nothing, so no row comes twice;
 *	- a TID past the end of the heap is of rows that VACUUM cut off.  The length is
 *	  taken after the match, and rows come before their entries: no block that a
 *	  fresh entry names can lie behind it.
 *
 * Nothing is concluded from the visibility map.
 *
 * While tuples of a block are delivered, the pin alone keeps them in place; only
 * testing their visibility needs the lock.  Predicate locks on tuples are taken
 * with that test, those on the index before the match (execkey.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "exec.h"

/* Where the line pointers of most pages are, page header included */
#define POINTER_BYTES			512
#define CACHE_LINE_BYTES		64

struct GjFetch
{
	Relation	heap;
	Snapshot	snapshot;
	GjTidSet   *tids;
	BlockNumber nblocks;		/* of the heap, after the match */

	/* The block being delivered: its pin and its visible candidates */
	Buffer		buffer;
	int			ntuples;
	int			next;

	/*
	 * How far prefetching is ahead, in blocks, and how far it may get.  The
	 * target grows from none to the maximum, since a query with a LIMIT may be
	 * done after a few tuples.
	 */
	int			prefetch_ahead;
	int			prefetch_target;
	int			prefetch_maximum;

	GjFetchStats stats;
	HeapTupleData tuples[MaxHeapTuplesPerPage];
};

static bool load_block(GjFetch *fetch);
static void collect_chains(GjFetch *fetch, const GjTidBlock *block);
static void collect_whole_block(GjFetch *fetch, BlockNumber block);
static void start_prefetch(GjFetch *fetch);
static void follow_prefetch(GjFetch *fetch, BlockNumber block);
static void prefetch(GjFetch *fetch, BlockNumber block);

/*
 * Make a fetch for one heap and snapshot
 */
GjFetch *
GjFetchCreate(MemoryContext parent, Relation heap, Snapshot snapshot)
{
	GjFetch    *fetch = MemoryContextAllocZero(parent, sizeof(GjFetch));

	fetch->heap = heap;
	fetch->snapshot = snapshot;
	fetch->buffer = InvalidBuffer;
	return fetch;
}

/*
 * Begin to deliver the tuples of a set, which must live until the fetch is reset.
 * Call it after the match: it takes the heap's length.
 */
void
GjFetchStart(GjFetch *fetch, GjTidSet *tids)
{
	GjFetchReset(fetch);

	fetch->tids = tids;
	fetch->nblocks = RelationGetNumberOfBlocks(fetch->heap);
	GjTidSetRewind(tids);
	start_prefetch(fetch);
}

/*
 * Put the next visible tuple into the slot; false, and an empty slot, at the end
 */
bool
GjFetchNext(GjFetch *fetch, TupleTableSlot *slot)
{
	while (fetch->next >= fetch->ntuples)
	{
		if (fetch->tids == NULL || !load_block(fetch))
		{
			ExecClearTuple(slot);
			GjFetchReset(fetch);
			return false;
		}
	}

	pgstat_count_heap_fetch(fetch->heap);
	fetch->stats.tuples++;
	ExecStoreBufferHeapTuple(&fetch->tuples[fetch->next++], slot, fetch->buffer);
	return true;
}

/*
 * Let go of the set and of the pin
 */
void
GjFetchReset(GjFetch *fetch)
{
	if (BufferIsValid(fetch->buffer))
		ReleaseBuffer(fetch->buffer);
	fetch->buffer = InvalidBuffer;
	fetch->tids = NULL;
	fetch->ntuples = 0;
	fetch->next = 0;
}

void
GjFetchFree(GjFetch *fetch)
{
	GjFetchReset(fetch);
	pfree(fetch);
}

/*
 * Counters, summed up over all starts
 */
GjFetchStats *
GjFetchGetStats(GjFetch *fetch)
{
	return &fetch->stats;
}

/*
 * Pin the next block and find its visible tuples; false if there is no more block
 */
static bool
load_block(GjFetch *fetch)
{
	GjTidBlock	block;

	CHECK_FOR_INTERRUPTS();

	/* Blocks ascend: behind the first one past the end there are only more */
	if (!GjTidSetNextBlock(fetch->tids, &block) || block.block >= fetch->nblocks)
		return false;

	follow_prefetch(fetch, block.block);
	fetch->buffer = ReleaseAndReadBuffer(fetch->buffer, fetch->heap, block.block);
	heap_page_prune_opt(fetch->heap, fetch->buffer);

	fetch->ntuples = 0;
	fetch->next = 0;
	LockBuffer(fetch->buffer, BUFFER_LOCK_SHARE);
	if (block.lossy)
		collect_whole_block(fetch, block.block);
	else
		collect_chains(fetch, &block);
	LockBuffer(fetch->buffer, BUFFER_LOCK_UNLOCK);

	prefetch(fetch, block.block);
	return true;
}

/*
 * Of each chain whose root is a candidate, take the member that is visible
 *
 * heap_hot_search_buffer() takes the predicate locks.  Chains share no member, so
 * the tuples are no more than a page has.
 */
static void
collect_chains(GjFetch *fetch, const GjTidBlock *block)
{
	Page		page = BufferGetPage(fetch->buffer);

	fetch->stats.exact_blocks++;

	/*
	 * Most of the time goes into waiting for tuple headers to come from memory:
	 * have all of them on their way first.  Where a line pointer redirects, some
	 * other line comes, which does no harm.
	 */
	for (int i = 0; i < block->noffsets; i++)
	{
		if (block->offsets[i] <= PageGetMaxOffsetNumber(page))
			__builtin_prefetch((char *) page +
							   ItemIdGetOffset(PageGetItemId(page, block->offsets[i])));
	}

	for (int i = 0; i < block->noffsets; i++)
	{
		HeapTuple	tuple = &fetch->tuples[fetch->ntuples];
		ItemPointerData tid;

		ItemPointerSet(&tid, block->block, block->offsets[i]);
		if (heap_hot_search_buffer(&tid, fetch->heap, fetch->buffer, fetch->snapshot,
								   tuple, NULL, true))
			fetch->ntuples++;
	}
}

/*
 * Offsets are not known: take each visible tuple.  As all are looked at, chains
 * need not be followed.
 */
static void
collect_whole_block(GjFetch *fetch, BlockNumber block)
{
	Page		page = BufferGetPage(fetch->buffer);
	OffsetNumber last = PageGetMaxOffsetNumber(page);

	fetch->stats.lossy_blocks++;

	for (OffsetNumber offset = FirstOffsetNumber; offset <= last; offset++)
	{
		ItemId		item = PageGetItemId(page, offset);
		HeapTuple	tuple = &fetch->tuples[fetch->ntuples];
		bool		visible;

		if (!ItemIdIsNormal(item))
			continue;

		tuple->t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple->t_len = ItemIdGetLength(item);
		tuple->t_tableOid = RelationGetRelid(fetch->heap);
		ItemPointerSet(&tuple->t_self, block, offset);

		visible = HeapTupleSatisfiesVisibility(tuple, fetch->snapshot, fetch->buffer);
		if (visible)
			PredicateLockTID(fetch->heap, &tuple->t_self, fetch->snapshot,
							 HeapTupleHeaderGetXmin(tuple->t_data));
		HeapCheckForSerializableConflictOut(visible, fetch->heap, tuple, fetch->buffer,
											fetch->snapshot);
		if (visible)
			fetch->ntuples++;
	}
}

/*
 * effective_io_concurrency may be changed between two starts
 */
static void
start_prefetch(GjFetch *fetch)
{
	fetch->prefetch_ahead = 0;
	fetch->prefetch_target = -1;
	fetch->prefetch_maximum =
		get_tablespace_io_concurrency(fetch->heap->rd_rel->reltablespace);
}

/*
 * A block was taken off the set: keep the prefetch cursor at it or ahead of it
 */
static void
follow_prefetch(GjFetch *fetch, BlockNumber block)
{
	BlockNumber peeked;

	if (fetch->prefetch_ahead > 0)
		fetch->prefetch_ahead--;
	else if (fetch->prefetch_maximum > 0)
		GjTidSetPeekBlock(fetch->tids, &peeked);

	if (fetch->prefetch_target < 1)
		fetch->prefetch_target++;
	else
		fetch->prefetch_target *= 2;
	fetch->prefetch_target = Min(fetch->prefetch_target, fetch->prefetch_maximum);
}

/*
 * Ask for the blocks that come next, now that this one was read
 */
static void
prefetch(GjFetch *fetch, BlockNumber block)
{
	while (fetch->prefetch_ahead < fetch->prefetch_target)
	{
		BlockNumber ahead;
		PrefetchBufferResult result;

		if (!GjTidSetPeekBlock(fetch->tids, &ahead) || ahead >= fetch->nblocks)
		{
			/* The end: stop asking, and stop following */
			fetch->prefetch_maximum = 0;
			fetch->prefetch_target = 0;
			return;
		}
		fetch->prefetch_ahead++;
		result = PrefetchBuffer(fetch->heap, MAIN_FORKNUM, ahead);

		/* If it is in memory, have its line pointers come from there; no pin needed */
		if (BufferIsValid(result.recent_buffer))
		{
			char	   *page = BufferGetPage(result.recent_buffer);

			for (int offset = 0; offset < POINTER_BYTES; offset += CACHE_LINE_BYTES)
				__builtin_prefetch(page + offset);
		}
	}
}
