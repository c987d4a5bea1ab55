/*-------------------------------------------------------------------------
 *
 * fetch.c
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
 *	  taken after the match (blocks.c), and rows come before their entries: no
 *	  block that a fresh entry names can lie behind it.
 *
 * Nothing is concluded from the visibility map.
 *
 * While tuples of a block are delivered, the pin alone keeps them in place; only
 * testing their visibility needs the lock (visible.c).  Predicate locks on tuples
 * are taken with that test, those on the index before the match (keys.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/prefetch.h"
#include "blocks.h"
#include "fetch.h"
#include "visible.h"

struct GjFetch
{
	GjFetchBlock block;			/* being delivered */
	Buffer		buffer;			/* its pin */

	Relation	heap;
	Snapshot	snapshot;
	GjBlocks   *blocks;

	/* To recheck the key: one of a set, or one that small rows have.  NULL: the caller does. */
	GjKeyReader *key_reader;
	const GjKeySet *keys;
	GjSmallSide *small;

	GjFetchStats stats;
};

static bool load_block(GjFetch *fetch);
static void drop_unwanted(GjFetch *fetch);
static void find_partners(GjFetch *fetch);

/*
 * Make a fetch for one heap and snapshot
 */
GjFetch *
GjFetchCreate(MemoryContext parent, Relation heap, Snapshot snapshot)
{
	GjFetch    *fetch = MemoryContextAllocZero(parent, sizeof(GjFetch));

	fetch->heap = heap;
	fetch->snapshot = snapshot;
	fetch->blocks = GjBlocksCreate(parent, heap);
	fetch->buffer = InvalidBuffer;
	return fetch;
}

/*
 * Have the fetch recheck the keys, from the next start on, so that a tuple which is
 * not wanted never gets into a slot.  False if it cannot do that, since the key is an
 * expression.  Reader and set must live as long as tuples are fetched.
 */
bool
GjFetchFilter(GjFetch *fetch, GjKeyReader *reader, const GjKeySet *keys)
{
	if (reader->attno == 0)
		return false;
	fetch->key_reader = reader;
	fetch->keys = keys;
	fetch->small = NULL;
	return true;
}

/*
 * Have the fetch look up the keys in a small side's current batch, likewise
 */
bool
GjFetchJoin(GjFetch *fetch, GjKeyReader *reader, GjSmallSide *small)
{
	if (reader->attno == 0)
		return false;
	fetch->key_reader = reader;
	fetch->keys = NULL;
	fetch->small = small;
	return true;
}

/*
 * The small rows that have the key of the tuple that was delivered last
 */
GjSmallRow *
GjFetchPartners(const GjFetch *fetch)
{
	return fetch->block.partners[fetch->block.next - 1];
}

/*
 * Begin to deliver the tuples of a set, which must live until the fetch is reset.
 * Call it after the match: it takes the heap's length.
 */
void
GjFetchStart(GjFetch *fetch, GjTidSet *tids)
{
	GjFetchReset(fetch);
	GjBlocksStart(fetch->blocks, tids);
}

/*
 * The block being delivered, which the next load fills anew
 */
GjFetchBlock *
GjFetchGetBlock(GjFetch *fetch)
{
	return &fetch->block;
}

/*
 * Fetch the tuples of the next block that has some; false, and all is let go, at the end
 */
bool
GjFetchLoad(GjFetch *fetch)
{
	do
	{
		if (!load_block(fetch))
		{
			GjFetchReset(fetch);
			return false;
		}
	} while (fetch->block.ntuples == 0);
	return true;
}

/*
 * Put the next visible tuple into the slot; false, and an empty slot, at the end
 */
bool
GjFetchNext(GjFetch *fetch, TupleTableSlot *slot)
{
	GjFetchBlock *block = &fetch->block;

	if (block->next >= block->ntuples && !GjFetchLoad(fetch))
	{
		ExecClearTuple(slot);
		return false;
	}
	ExecStoreBufferHeapTuple(&block->tuples[block->next++], slot, fetch->buffer);
	return true;
}

/*
 * Fill a virtual slot from the next tuple, and say where that lies; false if there is none,
 * or it is not as the fill expects: then GjFetchNext() delivers it
 */
bool
GjFetchFill(GjFetch *fetch, const GjFill *fill, TupleTableSlot *slot, ItemPointerData *place)
{
	GjFetchBlock *block = &fetch->block;
	HeapTuple	tuple;

	if (block->next >= block->ntuples && !GjFetchLoad(fetch))
		return false;
	tuple = &block->tuples[block->next];
	if (!GjFillFits(fill, tuple->t_data))
		return false;
	block->next++;

	GjFillFromTuple(fill, tuple->t_data, slot);
	*place = tuple->t_self;
	return true;
}

/*
 * Let go of the set and of the pins
 */
void
GjFetchReset(GjFetch *fetch)
{
	if (BufferIsValid(fetch->buffer))
		ReleaseBuffer(fetch->buffer);
	fetch->buffer = InvalidBuffer;
	GjBlocksReset(fetch->blocks);
	fetch->block.ntuples = 0;
	fetch->block.next = 0;
}

void
GjFetchFree(GjFetch *fetch)
{
	GjFetchReset(fetch);
	pfree(fetch->blocks);
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
 * Take the next block and find its visible tuples; false if there is no more block
 */
static bool
load_block(GjFetch *fetch)
{
	GjFetchBlock *block = &fetch->block;
	const GjTidBlock *tids;
	Buffer		buffer;

	CHECK_FOR_INTERRUPTS();

	tids = GjBlocksNext(fetch->blocks, &buffer);
	if (tids == NULL)
		return false;
	if (BufferIsValid(fetch->buffer))
		ReleaseBuffer(fetch->buffer);
	fetch->buffer = buffer;

	block->next = 0;
	block->ntuples = 0;			/* should the test fail with an error */
	block->ntuples = GjCollectVisible(fetch->heap, buffer, fetch->snapshot, tids,
									  block->tuples);
	if (tids->lossy)
		fetch->stats.lossy_blocks++;
	else
		fetch->stats.exact_blocks++;
	fetch->stats.tuples += block->ntuples;
	GjCountHeapFetches(fetch->heap, block->ntuples);
	if (fetch->keys != NULL)
		drop_unwanted(fetch);
	else if (fetch->small != NULL)
		find_partners(fetch);
	return true;
}

/*
 * Recheck the keys of a block's tuples
 */
static void
drop_unwanted(GjFetch *fetch)
{
	GjFetchBlock *block = &fetch->block;
	int64		keys[MaxHeapTuplesPerPage];
	bool		isnull[MaxHeapTuplesPerPage];
	int			kept = 0;

	GjReadTupleKeys(fetch->key_reader, RelationGetDescr(fetch->heap), block->tuples,
					block->ntuples, keys, isnull);
	for (int i = 0; i < block->ntuples; i++)
	{
		if (isnull[i] ? !fetch->keys->nulls : !GjKeySetContains(fetch->keys, keys[i]))
			continue;
		if (kept < i)
			block->tuples[kept] = block->tuples[i];
		kept++;
	}
	fetch->stats.rechecked += block->ntuples - kept;
	block->ntuples = kept;
}

/*
 * Look up the keys of a block's tuples and drop those that have no partners
 *
 * First all keys are read, so that the cells of the hash table come from memory at the
 * same time, then all are looked up, and the small rows come.
 */
static void
find_partners(GjFetch *fetch)
{
	GjFetchBlock *block = &fetch->block;
	int64		keys[MaxHeapTuplesPerPage];
	bool		isnull[MaxHeapTuplesPerPage];
	int			kept = 0;

	GjReadTupleKeys(fetch->key_reader, RelationGetDescr(fetch->heap), block->tuples,
					block->ntuples, keys, isnull);
	for (int i = 0; i < block->ntuples; i++)
	{
		if (!isnull[i])
			GjSmallPrefetch(fetch->small, keys[i]);
	}
	for (int i = 0; i < block->ntuples; i++)
	{
		GjSmallRow *partners = isnull[i] ? NULL : GjSmallLookup(fetch->small, keys[i]);

		if (partners == NULL)
			continue;
		GjPrefetch(partners);
		block->partners[kept] = partners;
		if (kept < i)
			block->tuples[kept] = block->tuples[i];
		kept++;
	}
	fetch->stats.rechecked += block->ntuples - kept;
	block->ntuples = kept;
}
