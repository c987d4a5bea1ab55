/*-------------------------------------------------------------------------
 *
 * heap.c
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
 *	  taken after the match, and rows come before their entries: no
 *	  block that a fresh entry names can lie behind it.
 *
 * Nothing is concluded from the visibility map.
 *
 * While tuples of a block are delivered, the pin alone keeps them in place; only
 * testing their visibility needs the lock.  Predicate locks on tuples
 * are taken with that test, those on the index before the match (keyreader.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "base/buffers.h"
#include "base/compat.h"
#include "base/prefetch.h"
#include "rows.h"

typedef struct GjBlocks GjBlocks;

struct GjFetch
{
	GjRowBatch	batch;			/* the current block */
	Buffer		buffer;			/* its pin */

	Relation	heap;
	Snapshot	snapshot;
	GjBlocks   *blocks;

	/* The recheck of keys, by a set or by a look-up */
	GjKeyReader *key_reader;	/* NULL: the caller rechecks */
	const GjKeySet *keys;
	GjRowLookup lookup;
	void	   *lookup_arg;

	GjFetchStats stats;

	/* Arrays of the batch */
	HeapTupleData tuples[MaxHeapTuplesPerPage];
	uint16		rows[MaxHeapTuplesPerPage];
	void	   *partners[MaxHeapTuplesPerPage];
};

/* Blocks in the ring, a power of two; how many of them are pinned at most */
#define RING_BLOCKS				8
#define MAX_PINNED				4

/* Which block's tuples are asked for, when the first one is delivered */
#define TUPLES_AHEAD			2

/* Blocks found in memory, one after the other, until prefetching stops */
#define STOP_AFTER_HITS			128

/* A block whose turn comes soon */
typedef struct ComingBlock
{
	GjTidBlock	tids;
	Buffer		guess;			/* whose line pointers were asked for, or InvalidBuffer */
	Buffer		buffer;			/* once it is pinned */
	OffsetNumber offsets[MaxHeapTuplesPerPage];
} ComingBlock;

struct GjBlocks
{
	Relation	heap;
	GjTidSet   *tids;			/* NULL: all blocks are taken off */
	BlockNumber nblocks;		/* of the heap, after the match */
	GjGuess		guess;

	/*
	 * The next blocks, a ring, of which the first ones are pinned.  It grows block by
	 * block to its limit, since a query with a LIMIT may be done after a few tuples.
	 */
	ComingBlock ring[RING_BLOCKS];
	int			first;
	int			ncoming;
	int			npinned;
	int			target;			/* to be pinned */
	int			limit;			/* of target */

	/*
	 * While blocks come from disk, how far reading ahead is in front of the last
	 * block taken, in blocks, and how far it may get.
	 */
	int			hits;			/* blocks found in memory since the last that was not */
	int			prefetch_ahead;
	int			prefetch_target;
	int			prefetch_maximum;
};

/* Where the line pointers of most pages are, page header included */
#define POINTER_BYTES			512

static bool load_block(GjFetch *fetch);
static int	recheck_keys(GjFetch *fetch, int ntuples);
static int	find_in_set(const GjKeySet *set, const GjRowKeys *keys, uint16 *rows);
static int	max_pinned(Relation heap);
static void fill_ring(GjBlocks *blocks);
static bool take_block(GjBlocks *blocks);
static void pin_block(GjBlocks *blocks);
static ComingBlock *coming_at(GjBlocks *blocks, int ahead);
static void start_prefetch(GjBlocks *blocks);
static void follow_prefetch(GjBlocks *blocks);
static void prefetch(GjBlocks *blocks);
static int	collect_chains(Relation heap, Buffer buffer, Snapshot snapshot,
						   const GjTidBlock *tids, HeapTuple tuples);
static int	collect_roots(Relation heap, Page page, const GjTidBlock *tids, HeapTuple tuples);
static int	collect_whole_block(Relation heap, Buffer buffer, Snapshot snapshot,
								BlockNumber block, bool all_visible, HeapTuple tuples);
static bool is_visible(Relation heap, Buffer buffer, Snapshot snapshot, HeapTuple tuple);
static GjBlocks *blocks_create(MemoryContext parent, Relation heap);
static void blocks_start(GjBlocks *blocks, GjTidSet *tids);
static const GjTidBlock *blocks_next(GjBlocks *blocks, Buffer *buffer);
static void blocks_reset(GjBlocks *blocks);
static int	collect_visible(Relation heap, Buffer buffer, Snapshot snapshot,
							const GjTidBlock *tids, HeapTuple tuples);
static void prefetch_line_pointers(Buffer buffer, const GjTidBlock *tids);
static void prefetch_tuples(Buffer buffer, const GjTidBlock *tids);

/*
 * Make a fetch for one heap and snapshot
 */
GjFetch *
GjFetchCreate(MemoryContext parent, Relation heap, Snapshot snapshot)
{
	GjFetch    *fetch = MemoryContextAllocZero(parent, sizeof(GjFetch));

	fetch->heap = heap;
	fetch->snapshot = snapshot;
	fetch->blocks = blocks_create(parent, heap);
	fetch->buffer = InvalidBuffer;
	fetch->batch.tuples = fetch->tuples;
	fetch->batch.rows = fetch->rows;
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
	fetch->batch.partners = NULL;
	return true;
}

/*
 * Have the fetch look up the keys, likewise, and drop the tuples whose key is not found
 */
bool
GjFetchLookup(GjFetch *fetch, GjKeyReader *reader, GjRowLookup lookup, void *arg)
{
	if (reader->attno == 0)
		return false;
	fetch->key_reader = reader;
	fetch->keys = NULL;
	fetch->lookup = lookup;
	fetch->lookup_arg = arg;
	fetch->batch.partners = fetch->partners;
	return true;
}

/*
 * Begin to deliver the tuples of a set, which must live until the fetch is reset.
 * Call it after the match: it takes the heap's length.
 */
void
GjFetchStart(GjFetch *fetch, GjTidSet *tids)
{
	GjFetchReset(fetch);
	blocks_start(fetch->blocks, tids);
}

/*
 * Return the batch that each load fills
 */
GjRowBatch *
GjFetchGetBatch(GjFetch *fetch)
{
	return &fetch->batch;
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
	} while (fetch->batch.nrows == 0);
	return true;
}

/*
 * Put the next visible tuple into the slot; false, and an empty slot, at the end
 */
bool
GjFetchNext(GjFetch *fetch, TupleTableSlot *slot)
{
	GjRowBatch *batch = &fetch->batch;

	if (batch->next >= batch->nrows && !GjFetchLoad(fetch))
	{
		ExecClearTuple(slot);
		return false;
	}
	ExecStoreBufferHeapTuple(&fetch->tuples[fetch->rows[batch->next++]], slot, fetch->buffer);
	return true;
}

/*
 * Fill a virtual slot from the next tuple, and return the tuple's TID in place.  Returns false at
 * the end, or if the tuple does not have the columns where the fill expects them: then
 * GjFetchNext() returns it.
 */
bool
GjFetchFill(GjFetch *fetch, const GjFill *fill, TupleTableSlot *slot, ItemPointerData *place)
{
	GjRowBatch *batch = &fetch->batch;
	HeapTuple	tuple;

	if (batch->next >= batch->nrows && !GjFetchLoad(fetch))
		return false;
	tuple = &fetch->tuples[fetch->rows[batch->next]];
	if (!GjFillFits(fill, tuple->t_data))
		return false;
	batch->next++;

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
	blocks_reset(fetch->blocks);
	fetch->batch.nrows = 0;
	fetch->batch.next = 0;
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
	GjRowBatch *batch = &fetch->batch;
	const GjTidBlock *tids;
	Buffer		buffer;
	int			ntuples;

	CHECK_FOR_INTERRUPTS();

	tids = blocks_next(fetch->blocks, &buffer);
	if (tids == NULL)
		return false;
	if (BufferIsValid(fetch->buffer))
		ReleaseBuffer(fetch->buffer);
	fetch->buffer = buffer;

	batch->next = 0;
	batch->nrows = 0;			/* in case the test raises an error */
	ntuples = collect_visible(fetch->heap, buffer, fetch->snapshot, tids, fetch->tuples);
	for (int i = 0; i < ntuples; i++)
		fetch->rows[i] = i;
	if (tids->lossy)
		fetch->stats.lossy_blocks++;
	else
		fetch->stats.exact_blocks++;
	fetch->stats.tuples += ntuples;
	GjCountHeapFetches(fetch->heap, ntuples);
	batch->nrows = fetch->key_reader == NULL ? ntuples : recheck_keys(fetch, ntuples);
	return true;
}

/*
 * Recheck the keys of a block's tuples.  Select the wanted ones, and return their number.
 */
static int
recheck_keys(GjFetch *fetch, int ntuples)
{
	int64		codes[MaxHeapTuplesPerPage];
	bool		nulls[MaxHeapTuplesPerPage];
	GjRowKeys	keys = {.n = ntuples,.codes = codes,.nulls = nulls};
	int			n;

	GjReadTupleKeys(fetch->key_reader, RelationGetDescr(fetch->heap), fetch->tuples, ntuples,
					codes, nulls);
	if (fetch->keys != NULL)
		n = find_in_set(fetch->keys, &keys, fetch->rows);
	else
		n = fetch->lookup(fetch->lookup_arg, &keys, fetch->rows, fetch->partners);
	fetch->stats.rechecked += ntuples - n;
	return n;
}

/*
 * List the keys that a set has, and return their number
 */
static int
find_in_set(const GjKeySet *set, const GjRowKeys *keys, uint16 *rows)
{
	int			n = 0;

	for (int i = 0; i < keys->n; i++)
	{
		if (keys->nulls[i] ? set->nulls : GjKeySetContains(set, keys->codes[i]))
			rows[n++] = i;
	}
	return n;
}

/*-------------------------------------------------------------------------
 * Blocks
 *
 * The heap blocks of a TID set, in order, each pinned when its turn comes and on
 * its way into the processor's cache before.
 *
 * A fetch from memory spends most of its time waiting for cache lines, unless it asks
 * for them early.  A block goes through a ring, and is touched at three points of it,
 * each time to ask for what the next touch reads:
 *
 *	taken off the set	ask for the buffer's header and for the line pointers, where the
 *						buffer can be guessed (base/buffers.c); nothing is pinned, and
 *						nothing of the page is read
 *	pinned				where the guess failed, ask for the line pointers now
 *	soon delivered		ask for the tuples to which the line pointers lead
 *
 * From disk, blocks are asked for by PrefetchBuffer(), as bitmap heap scans do it, further
 * and further ahead of what has been taken, and only after a block was not in memory.
 *-------------------------------------------------------------------------
 */

static GjBlocks *
blocks_create(MemoryContext parent, Relation heap)
{
	GjBlocks   *blocks = MemoryContextAllocZero(parent, sizeof(GjBlocks));

	blocks->heap = heap;
	return blocks;
}

/*
 * Begin with the blocks of a set.  To be called after the match, since it reads the heap's length.
 */
static void
blocks_start(GjBlocks *blocks, GjTidSet *tids)
{
	blocks_reset(blocks);

	blocks->tids = tids;
	blocks->nblocks = RelationGetNumberOfBlocks(blocks->heap);
	blocks->target = 0;
	blocks->limit = max_pinned(blocks->heap);
	GjGuessStart(&blocks->guess, blocks->heap, NULL);
	GjTidSetRewind(tids);
	start_prefetch(blocks);
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
	return Max(1, Min(MAX_PINNED, NBuffers / MaxBackends / MAX_PINNED));
}

static const GjTidBlock *
blocks_next(GjBlocks *blocks, Buffer *buffer)
{
	ComingBlock *next;

	fill_ring(blocks);
	if (blocks->npinned == 0)
		return NULL;
	if (blocks->npinned > 1)
	{
		ComingBlock *soon = coming_at(blocks, Min(blocks->npinned - 1, TUPLES_AHEAD));

		prefetch_tuples(soon->buffer, &soon->tids);
	}

	next = coming_at(blocks, 0);
	blocks->first = (blocks->first + 1) % RING_BLOCKS;
	blocks->ncoming--;
	blocks->npinned--;
	*buffer = next->buffer;
	return &next->tids;
}

static void
blocks_reset(GjBlocks *blocks)
{
	while (blocks->npinned > 0)
		ReleaseBuffer(coming_at(blocks, --blocks->npinned)->buffer);
	blocks->ncoming = 0;
	blocks->tids = NULL;
}

/*
 * Take and pin blocks until there are enough or no more
 */
static void
fill_ring(GjBlocks *blocks)
{
	if (blocks->target < blocks->limit)
		blocks->target++;
	while (blocks->npinned < blocks->target)
	{
		while (blocks->ncoming < blocks->target * RING_BLOCKS / MAX_PINNED)
		{
			if (!take_block(blocks))
				break;
		}
		if (blocks->npinned == blocks->ncoming)
			return;
		pin_block(blocks);
	}
}

/*
 * Take the next block off the set; false if there is none
 */
static bool
take_block(GjBlocks *blocks)
{
	ComingBlock *coming = coming_at(blocks, blocks->ncoming);
	GjTidBlock *tids = &coming->tids;

	/* Blocks ascend: behind the first one past the end there are only more */
	if (blocks->tids == NULL || !GjTidSetNextBlock(blocks->tids, tids) ||
		tids->block >= blocks->nblocks)
	{
		blocks->tids = NULL;
		return false;
	}
	if (!tids->lossy)
		memcpy(coming->offsets, tids->offsets, tids->noffsets * sizeof(OffsetNumber));
	tids->offsets = coming->offsets;
	blocks->ncoming++;
	follow_prefetch(blocks);

	coming->guess = GjGuessFind(&blocks->guess, tids->block);
	if (BufferIsValid(coming->guess))
		prefetch_line_pointers(coming->guess, tids);
	return true;
}

/*
 * Pin the first block of the ring that is not pinned
 */
static void
pin_block(GjBlocks *blocks)
{
	ComingBlock *coming = coming_at(blocks, blocks->npinned);
	int64		read = pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;

	coming->buffer = GjGuessRead(&blocks->guess, coming->tids.block, coming->guess);
	blocks->npinned++;
	if (coming->buffer != coming->guess)
		prefetch_line_pointers(coming->buffer, &coming->tids);

	if (pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read != read)
		blocks->hits = 0;
	else if (blocks->hits < STOP_AFTER_HITS)
		blocks->hits++;
	prefetch(blocks);
}

/*
 * The block that is so far from being delivered
 */
static ComingBlock *
coming_at(GjBlocks *blocks, int ahead)
{
	return &blocks->ring[(blocks->first + ahead) % RING_BLOCKS];
}

/*
 * effective_io_concurrency may be changed between two starts.  Nothing is asked for
 * before a block was not in memory: asking costs as much as finding it there.
 */
static void
start_prefetch(GjBlocks *blocks)
{
	blocks->hits = STOP_AFTER_HITS;
	blocks->prefetch_ahead = 0;
	blocks->prefetch_target = 0;
	blocks->prefetch_maximum =
		get_tablespace_io_concurrency(blocks->heap->rd_rel->reltablespace);
}

/*
 * Keep the prefetch cursor at the block that was taken off the set, or ahead of it
 */
static void
follow_prefetch(GjBlocks *blocks)
{
	if (blocks->prefetch_ahead > 0)
		blocks->prefetch_ahead--;
	else if (blocks->prefetch_maximum > 0)
		GjTidSetFollow(blocks->tids);
}

/*
 * Ask for the blocks that come next, further and further ahead, unless all blocks
 * are found in memory
 */
static void
prefetch(GjBlocks *blocks)
{
	if (blocks->hits >= STOP_AFTER_HITS || blocks->tids == NULL)
	{
		blocks->prefetch_target = 0;
		return;
	}
	blocks->prefetch_target = Min(Max(blocks->prefetch_target * 2, 1), blocks->prefetch_maximum);

	while (blocks->prefetch_ahead < blocks->prefetch_target)
	{
		BlockNumber ahead;

		if (!GjTidSetPeekBlock(blocks->tids, &ahead) || ahead >= blocks->nblocks)
		{
			/* The end: stop asking, and stop following */
			blocks->prefetch_maximum = 0;
			return;
		}
		blocks->prefetch_ahead++;
		PrefetchBuffer(blocks->heap, MAIN_FORKNUM, ahead);
	}
}

/*-------------------------------------------------------------------------
 * Visible tuples
 *
 * The candidates of one heap block that a snapshot sees.
 *
 * On a page that is marked all-visible, every tuple is visible to every snapshot,
 * so that none need be tested.  That is the page's own flag, read under the page's
 * lock, and the rule by which PostgreSQL's sequential scans go; as there, it is not
 * trusted under a snapshot that was taken during recovery.  A TID whose line pointer
 * was used again since the match is no exception: had the row that took the place
 * been inserted after the snapshot was taken, the snapshot would have kept the page
 * from being marked.
 *
 * A serializable transaction must look at each tuple and lock it, all-visible or
 * not; core's functions do that.
 *-------------------------------------------------------------------------
 */

static inline void
fill_tuple(HeapTuple tuple, Oid relid, Page page, ItemId item, BlockNumber block,
		   OffsetNumber offset)
{
	tuple->t_data = (HeapTupleHeader) PageGetItem(page, item);
	tuple->t_len = ItemIdGetLength(item);
	tuple->t_tableOid = relid;
	ItemPointerSet(&tuple->t_self, block, offset);
}

/*
 * Find the visible tuples among the candidates of a block
 */
static int
collect_visible(Relation heap, Buffer buffer, Snapshot snapshot, const GjTidBlock *tids,
				HeapTuple tuples)
{
	Page		page = BufferGetPage(buffer);
	bool		all_visible;
	int			n;

	heap_page_prune_opt(heap, buffer);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	all_visible = PageIsAllVisible(page) && !snapshot->takenDuringRecovery &&
		!CheckForSerializableConflictOutNeeded(heap, snapshot);
	if (tids->lossy)
		n = collect_whole_block(heap, buffer, snapshot, tids->block, all_visible, tuples);
	else if (all_visible)
		n = collect_roots(heap, page, tids, tuples);
	else
		n = collect_chains(heap, buffer, snapshot, tids, tuples);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return n;
}

/*
 * Of each chain whose root is a candidate, take the member that is visible
 *
 * heap_hot_search_buffer() takes the predicate locks.  Chains share no member, so
 * the tuples are no more than a page has.
 */
static int
collect_chains(Relation heap, Buffer buffer, Snapshot snapshot, const GjTidBlock *tids,
			   HeapTuple tuples)
{
	int			n = 0;

	for (int i = 0; i < tids->noffsets; i++)
	{
		ItemPointerData tid;

		ItemPointerSet(&tid, tids->block, tids->offsets[i]);
		if (heap_hot_search_buffer(&tid, heap, buffer, snapshot, &tuples[n], NULL, true))
			n++;
	}
	return n;
}

/*
 * Collect the candidates of an all-visible page: there, a chain has a single member.  Its root
 * is that member or redirects to it.
 */
static int
collect_roots(Relation heap, Page page, const GjTidBlock *tids, HeapTuple tuples)
{
	OffsetNumber last = PageGetMaxOffsetNumber(page);
	Oid			relid = RelationGetRelid(heap);
	int			n = 0;

	for (int i = 0; i < tids->noffsets; i++)
	{
		OffsetNumber offset = tids->offsets[i];
		HeapTuple	tuple = &tuples[n];
		bool		redirected = false;
		ItemId		item;

		if (offset > last)
			break;
		item = PageGetItemId(page, offset);
		if (ItemIdIsRedirected(item))
		{
			redirected = true;
			offset = ItemIdGetRedirect(item);
			if (offset < FirstOffsetNumber || offset > last)
				continue;
			item = PageGetItemId(page, offset);
		}
		if (!ItemIdIsNormal(item))
			continue;

		fill_tuple(tuple, relid, page, item, tids->block, offset);
		if (redirected || !HeapTupleIsHeapOnly(tuple))
			n++;
	}
	return n;
}

/*
 * Take each visible tuple of a block whose offsets are not known.  As all are looked at,
 * chains need not be followed.
 */
static int
collect_whole_block(Relation heap, Buffer buffer, Snapshot snapshot, BlockNumber block,
					bool all_visible, HeapTuple tuples)
{
	Page		page = BufferGetPage(buffer);
	OffsetNumber last = PageGetMaxOffsetNumber(page);
	Oid			relid = RelationGetRelid(heap);
	int			n = 0;

	for (OffsetNumber offset = FirstOffsetNumber; offset <= last; offset++)
	{
		ItemId		item = PageGetItemId(page, offset);

		if (!ItemIdIsNormal(item))
			continue;
		fill_tuple(&tuples[n], relid, page, item, block, offset);
		if (all_visible || is_visible(heap, buffer, snapshot, &tuples[n]))
			n++;
	}
	return n;
}

/*
 * Test a tuple, and do what a serializable transaction has to do about it
 */
static bool
is_visible(Relation heap, Buffer buffer, Snapshot snapshot, HeapTuple tuple)
{
	bool		visible = HeapTupleSatisfiesVisibility(tuple, snapshot, buffer);

	if (visible)
		PredicateLockTID(heap, &tuple->t_self, snapshot, HeapTupleHeaderGetXmin(tuple->t_data));
	HeapCheckForSerializableConflictOut(visible, heap, tuple, buffer, snapshot);
	return visible;
}

/*
 * Ask for the page's header and the line pointers of the candidates.  The page
 * may be changed meanwhile: nothing is read.
 */
static void
prefetch_line_pointers(Buffer buffer, const GjTidBlock *tids)
{
	Page		page = BufferGetPage(buffer);

	GjPrefetch(page);
	for (int i = 0; i < tids->noffsets; i++)
		GjPrefetch(PageGetItemId(page, tids->offsets[i]));
	if (tids->lossy)
		GjPrefetchRange((char *) page + GJ_CACHE_LINE, POINTER_BYTES - GJ_CACHE_LINE);
}

/*
 * Ask for the candidates' tuples, first and last line, as long as they are short.
 * The page may be changed meanwhile, or a line pointer redirect: then other lines
 * come, which does no harm.
 */
static void
prefetch_tuples(Buffer buffer, const GjTidBlock *tids)
{
	Page		page = BufferGetPage(buffer);

	for (int i = 0; i < tids->noffsets; i++)
	{
		ItemId		item = PageGetItemId(page, tids->offsets[i]);
		char	   *tuple = (char *) page + ItemIdGetOffset(item);

		GjPrefetch(tuple);
		GjPrefetch(tuple + Min(ItemIdGetLength(item), GJ_CACHE_LINE));
	}
}
