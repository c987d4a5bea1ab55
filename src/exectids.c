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
 * testing their visibility needs the lock (execvisible.c).  Predicate locks on tuples
 * are taken with that test, those on the index before the match (execkey.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "exec.h"
#include "execvisible.h"

/* Blocks that are pinned ahead; a power of two */
#define MAX_PINNED_AHEAD		4

/* Blocks found in memory, one after the other, until prefetching stops */
#define STOP_AFTER_HITS			128

/* A block whose turn comes soon: pinned, its memory on its way into the cache */
typedef struct PinnedBlock
{
	Buffer		buffer;
	GjTidBlock	tids;
	OffsetNumber offsets[MaxHeapTuplesPerPage];
} PinnedBlock;

struct GjFetch
{
	Relation	heap;
	Snapshot	snapshot;
	GjTidSet   *tids;			/* NULL: all blocks are taken off */
	BlockNumber nblocks;		/* of the heap, after the match */

	/* To recheck the key: one of a set, or one that small rows have.  NULL: the caller does. */
	GjKeyReader *key_reader;
	const GjKeySet *keys;
	GjSmallSide *small;

	/* The block being delivered: its pin and its visible candidates */
	Buffer		buffer;
	int			ntuples;
	int			next;

	/*
	 * The next blocks, a ring.  It grows block by block to its limit, since a query
	 * with a LIMIT may be done after a few tuples.
	 */
	PinnedBlock pinned[MAX_PINNED_AHEAD];
	int			pinned_first;
	int			npinned;
	int			pinned_target;
	int			pinned_limit;

	/*
	 * While blocks come from disk, how far reading ahead is in front of the last
	 * pinned one, in blocks, and how far it may get.
	 */
	int			hits;			/* blocks found in memory since the last that was not */
	int			prefetch_ahead;
	int			prefetch_target;
	int			prefetch_maximum;

	GjFetchStats stats;
	HeapTupleData tuples[MaxHeapTuplesPerPage];
	GjSmallRow *partners[MaxHeapTuplesPerPage]; /* of the tuples, if small is set */
};

static bool load_block(GjFetch *fetch);
static void drop_unwanted(GjFetch *fetch);
static void find_partners(GjFetch *fetch);
static void pin_ahead(GjFetch *fetch);
static bool pin_block(GjFetch *fetch);
static Buffer read_block(GjFetch *fetch, BlockNumber block);
static PinnedBlock *pinned_at(GjFetch *fetch, int ahead);
static int	max_pinned(Relation heap);
static void start_prefetch(GjFetch *fetch);
static void follow_prefetch(GjFetch *fetch);
static void prefetch(GjFetch *fetch);

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
	fetch->small = small;
	return true;
}

/*
 * The small rows that have the key of the tuple that was delivered last
 */
GjSmallRow *
GjFetchPartners(const GjFetch *fetch)
{
	return fetch->partners[fetch->next - 1];
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
	fetch->pinned_target = 0;
	fetch->pinned_limit = max_pinned(fetch->heap);
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
		if (!load_block(fetch))
		{
			ExecClearTuple(slot);
			GjFetchReset(fetch);
			return false;
		}
	}

	ExecStoreBufferHeapTuple(&fetch->tuples[fetch->next++], slot, fetch->buffer);
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
	while (fetch->npinned > 0)
		ReleaseBuffer(pinned_at(fetch, --fetch->npinned)->buffer);
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
 * Take the next block and find its visible tuples; false if there is no more block
 */
static bool
load_block(GjFetch *fetch)
{
	PinnedBlock *pinned;

	CHECK_FOR_INTERRUPTS();

	pin_ahead(fetch);
	if (fetch->npinned == 0)
		return false;
	if (fetch->npinned > 1)
		GjPrefetchTuples(pinned_at(fetch, 1)->buffer, &pinned_at(fetch, 1)->tids);

	pinned = pinned_at(fetch, 0);
	if (BufferIsValid(fetch->buffer))
		ReleaseBuffer(fetch->buffer);
	fetch->buffer = pinned->buffer;
	fetch->pinned_first = (fetch->pinned_first + 1) % MAX_PINNED_AHEAD;
	fetch->npinned--;

	fetch->next = 0;
	fetch->ntuples = 0;			/* should the test fail with an error */
	fetch->ntuples = GjCollectVisible(fetch->heap, fetch->buffer, fetch->snapshot,
									  &pinned->tids, fetch->tuples);
	if (pinned->tids.lossy)
		fetch->stats.lossy_blocks++;
	else
		fetch->stats.exact_blocks++;
	fetch->stats.tuples += fetch->ntuples;
	GjCountHeapFetches(fetch->heap, fetch->ntuples);
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
	TupleDesc	desc = RelationGetDescr(fetch->heap);
	int			kept = 0;

	for (int i = 0; i < fetch->ntuples; i++)
	{
		int64		key;
		bool		wanted = fetch->keys->nulls;

		if (GjReadTupleKey(fetch->key_reader, &fetch->tuples[i], desc, &key))
			wanted = GjKeySetContains(fetch->keys, key);
		if (!wanted)
			continue;
		if (kept < i)
			fetch->tuples[kept] = fetch->tuples[i];
		kept++;
	}
	fetch->stats.rechecked += fetch->ntuples - kept;
	fetch->ntuples = kept;
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
	TupleDesc	desc = RelationGetDescr(fetch->heap);
	int64		keys[MaxHeapTuplesPerPage];
	int			nkeys = 0;
	int			kept = 0;

	for (int i = 0; i < fetch->ntuples; i++)
	{
		if (!GjReadTupleKey(fetch->key_reader, &fetch->tuples[i], desc, &keys[nkeys]))
			continue;
		GjSmallPrefetch(fetch->small, keys[nkeys]);
		if (nkeys < i)
			fetch->tuples[nkeys] = fetch->tuples[i];
		nkeys++;
	}
	for (int i = 0; i < nkeys; i++)
	{
		GjSmallRow *partners = GjSmallLookup(fetch->small, keys[i]);

		if (partners == NULL)
			continue;
		__builtin_prefetch(partners);
		fetch->partners[kept] = partners;
		if (kept < i)
			fetch->tuples[kept] = fetch->tuples[i];
		kept++;
	}
	fetch->stats.rechecked += fetch->ntuples - kept;
	fetch->ntuples = kept;
}

/*
 * Pin blocks until there are enough or no more
 *
 * A block is touched three times, each time to ask for what the next touch needs:
 * when it is pinned, for its line pointers; when it is the next but one, for its
 * tuples; then it is delivered.  Otherwise most of the time of a fetch in memory
 * goes into waiting for one cache line after the other.
 */
static void
pin_ahead(GjFetch *fetch)
{
	if (fetch->pinned_target < fetch->pinned_limit)
		fetch->pinned_target++;
	while (fetch->npinned < fetch->pinned_target)
	{
		if (!pin_block(fetch))
			return;
	}
}

/*
 * Pin the next block of the set; false if there is none
 */
static bool
pin_block(GjFetch *fetch)
{
	PinnedBlock *pinned = pinned_at(fetch, fetch->npinned);
	GjTidBlock *tids = &pinned->tids;

	/* Blocks ascend: behind the first one past the end there are only more */
	if (fetch->tids == NULL || !GjTidSetNextBlock(fetch->tids, tids) ||
		tids->block >= fetch->nblocks)
	{
		fetch->tids = NULL;
		return false;
	}
	if (!tids->lossy)
		memcpy(pinned->offsets, tids->offsets, tids->noffsets * sizeof(OffsetNumber));
	tids->offsets = pinned->offsets;

	follow_prefetch(fetch);
	pinned->buffer = read_block(fetch, tids->block);
	fetch->npinned++;
	prefetch(fetch);
	GjPrefetchLinePointers(pinned->buffer, tids);
	return true;
}

/*
 * Read a block, and find out whether it was in memory
 */
static Buffer
read_block(GjFetch *fetch, BlockNumber block)
{
	int64		read = pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;
	Buffer		buffer = ReadBuffer(fetch->heap, block);

	if (pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read != read)
		fetch->hits = 0;
	else if (fetch->hits < STOP_AFTER_HITS)
		fetch->hits++;
	return buffer;
}

/*
 * The pinned block that is so far from being delivered
 */
static PinnedBlock *
pinned_at(GjFetch *fetch, int ahead)
{
	return &fetch->pinned[(fetch->pinned_first + ahead) % MAX_PINNED_AHEAD];
}

/*
 * How many blocks may be pinned ahead
 *
 * No process should pin more than its share of the buffers, and a query may have
 * many scans.  Of the few buffers for temporary tables, none is taken beyond need.
 */
static int
max_pinned(Relation heap)
{
	if (RelationUsesLocalBuffers(heap))
		return 1;
	return Max(1, Min(MAX_PINNED_AHEAD, NBuffers / MaxBackends / MAX_PINNED_AHEAD));
}

/*
 * effective_io_concurrency may be changed between two starts.  Nothing is asked for
 * before a block was not in memory: asking costs as much as finding it there.
 */
static void
start_prefetch(GjFetch *fetch)
{
	fetch->hits = STOP_AFTER_HITS;
	fetch->prefetch_ahead = 0;
	fetch->prefetch_target = 0;
	fetch->prefetch_maximum =
		get_tablespace_io_concurrency(fetch->heap->rd_rel->reltablespace);
}

/*
 * A block was taken off the set: keep the prefetch cursor at it or ahead of it
 */
static void
follow_prefetch(GjFetch *fetch)
{
	BlockNumber peeked;

	if (fetch->prefetch_ahead > 0)
		fetch->prefetch_ahead--;
	else if (fetch->prefetch_maximum > 0)
		GjTidSetPeekBlock(fetch->tids, &peeked);
}

/*
 * Ask for the blocks that come next, further and further ahead, unless all blocks
 * are found in memory
 */
static void
prefetch(GjFetch *fetch)
{
	if (fetch->hits >= STOP_AFTER_HITS)
	{
		fetch->prefetch_target = 0;
		return;
	}
	fetch->prefetch_target = Min(Max(fetch->prefetch_target * 2, 1), fetch->prefetch_maximum);

	while (fetch->prefetch_ahead < fetch->prefetch_target)
	{
		BlockNumber ahead;

		if (!GjTidSetPeekBlock(fetch->tids, &ahead) || ahead >= fetch->nblocks)
		{
			/* The end: stop asking, and stop following */
			fetch->prefetch_maximum = 0;
			return;
		}
		fetch->prefetch_ahead++;
		PrefetchBuffer(fetch->heap, MAIN_FORKNUM, ahead);
	}
}
