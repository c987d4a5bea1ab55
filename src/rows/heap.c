/*-------------------------------------------------------------------------
 *
 * heap.c
 *	  From TIDs to tuples, block by block, in heap order; the keys of tuples.
 *
 * A match hands out TIDs long before they are used, without a pin on the index that would hold
 * VACUUM back.  That is safe by lemma L8 of src/README, which requires that
 *
 *	- the snapshot is an MVCC snapshot and was taken before the match,
 *	- the key is rechecked,
 *	- the TID set returns each TID once, and its HOT chain is followed to the member that the
 *	  snapshot sees,
 *	- the heap's length is read after the match, where a block may be past the end.
 *
 * The key need not be rechecked if each TID is of an entry whose code and rest were found in the
 * exact table.  Such entries are tested only if they are certain, so one with the TID of a row that
 * the snapshot sees is the row's own (L7) and has its key (L4).  All rows of a lossy block are
 * rechecked, and all of a snapshot taken during recovery.
 *
 * Nothing is concluded from the visibility map.
 *
 * While the tuples of a block are used, the pin alone keeps them in place; the lock is needed only
 * to test their visibility.  Predicate locks on tuples are taken during that test, those on the
 * index before the match (match/stream.c).
 *
 * A batch has the tuples of several blocks, because often a block has only one: looking up keys is
 * bound by memory latency, so several should be looked up together.  A query with a LIMIT may need
 * only a few tuples, so the first batch is of one block, and the next one of two.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "executor/executor.h"
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
#include "pages/pages.h"
#include "rows.h"

typedef struct GjBlocks GjBlocks;

/* Size of the ring, a power of two, and the maximum number of pinned blocks in it */
#define RING_BLOCKS				16
#define MAX_PINNED				4

/*
 * Maximum number of blocks whose tuples are in one batch.  If a process has more than eight pins,
 * PostgreSQL looks them up in a hash table.
 */
#define BATCH_BLOCKS			4

/* With fewer recalled blocks that are not pinned, further ones are recalled */
#define FEW_RECALLED			2

/* Distance, in blocks, from the current block to that whose tuples are prefetched */
#define TUPLES_AHEAD			2

/* Number of consecutive blocks found in memory after which reading ahead stops */
#define STOP_AFTER_HITS			128

struct GjFetch
{
	GjRowBatch *batch;

	Relation	heap;
	Snapshot	snapshot;
	GjBlocks   *blocks;
	bool		only_reads;		/* may reading set bits of the visibility map? */
	Buffer		map_page;		/* pinned page of the visibility map, or InvalidBuffer */

	GjKeyReader *key_reader;
	GjRowProbe	probe;
	bool		proved;			/* do the TIDs prove the keys of rows? */

	GjRowsStats *stats;

	HeapTupleData row;			/* result of GjFetchRow() */

	/* The blocks of the batch, with a pin each */
	Buffer		pinned[BATCH_BLOCKS];
	int			npinned;
	int			most;			/* number of blocks that the next batch may have */

	/* Arrays of the batch, which need not be cleared */
	HeapTupleData tuples[MaxHeapTuplesPerPage];
	Buffer		buffers[MaxHeapTuplesPerPage];
	uint16		rows[MaxHeapTuplesPerPage];
	void	   *partners[MaxHeapTuplesPerPage];

	Datum		keys[MaxHeapTuplesPerPage]; /* the tuples' keys, unless these are integers */
};

/* A block in the ring */
typedef struct ComingBlock
{
	GjTidBlock	tids;
	Buffer		recalled;		/* the buffer where it probably is, or InvalidBuffer */
	Buffer		buffer;			/* valid once it is pinned */
	OffsetNumber offsets[MaxHeapTuplesPerPage];
} ComingBlock;

struct GjBlocks
{
	Relation	heap;
	GjTidSet   *tids;			/* NULL once all of its blocks have been in the ring */
	BlockNumber nblocks;		/* lower bound of the heap's length, for GjIsPastHeap() */

	/*
	 * The ring of the next blocks.  The first npinned of them are pinned, and the first nrecalled
	 * ones prefetched.  It grows to its limit, since a query with a LIMIT may need only a few
	 * tuples.
	 */
	int			first;
	int			ncoming;
	int			nrecalled;
	int			npinned;
	int			target;			/* number of blocks to be pinned */
	int			limit;			/* maximum of target */

	/*
	 * While blocks come from disk: distance, in blocks, of reading ahead from the last block put
	 * into the ring, and limits of that distance.
	 */
	int			hits;			/* number of blocks found in memory since the last read from disk */
	int			prefetch_ahead;
	int			prefetch_target;
	int			prefetch_maximum;	/* -1: not looked up */

	ComingBlock ring[RING_BLOCKS];	/* need not be cleared */
};

/* Size of the page header and the line pointers in most pages */
#define POINTER_BYTES			512

/* Bytes of a tuple that are prefetched */
#define TUPLE_BYTES				256

static bool load_blocks(GjFetch *fetch);
static bool load_block(GjFetch *fetch, int *ntuples);
static void release_blocks(GjFetch *fetch);
static bool search_chain(Relation heap, Buffer buffer, Snapshot snapshot, ItemPointer tid,
						 HeapTuple tuple);
static int	recheck_keys(GjFetch *fetch, int ntuples);
static void read_tuple_keys(GjFetch *fetch, int ntuples, int64 *codes, bool *isnull);
static int	find_in_set(GjFetch *fetch, const GjRowKeys *keys);
static int	drop_strangers(GjFetch *fetch, const int64 *codes, const bool *nulls, int n);
static int	fetch_drop_unlisted(GjFetch *fetch, const int64 *codes, int n);
static int	find_with_parts(GjFetch *fetch, GjRowKeys *keys, bool *nulls);
static bool fetch_read_parts(GjFetch *fetch, int row, int64 code, Datum *values, int stride);
static int	max_pinned(Relation heap, int most);
static void fill_ring(GjBlocks *blocks);
static void recall_blocks(GjBlocks *blocks);
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
static bool fetch_is_visible(Relation heap, Buffer buffer, Snapshot snapshot, HeapTuple tuple);
static GjBlocks *blocks_create(MemoryContext parent, Relation heap);
static void blocks_start(GjBlocks *blocks, GjTidSet *tids);
static const GjTidBlock *blocks_next(GjBlocks *blocks, int room, Buffer *buffer);
static void blocks_reset(GjBlocks *blocks);
static int	collect_visible(Relation heap, Buffer buffer, Snapshot snapshot,
							const GjTidBlock *tids, HeapTuple tuples);
static void prune(GjFetch *fetch, Buffer buffer);
static void prefetch_line_pointers(Buffer buffer, const GjTidBlock *tids);
static void prefetch_tuples(Buffer buffer, const GjTidBlock *tids);

/*
 * Create a fetch for the table and the snapshot of a node.  Each load fills the batch, and adds to
 * the counters.
 */
GjFetch *
GjFetchCreate(MemoryContext parent, const ScanState *node, GjKeyReader *reader,
			  GjRowBatch *batch, GjRowsStats *stats)
{
	GjFetch    *fetch = MemoryContextAlloc(parent, sizeof(GjFetch));

	memset(fetch, 0, offsetof(GjFetch, tuples));
	fetch->heap = node->ss_currentRelation;
	fetch->snapshot = node->ps.state->es_snapshot;
	fetch->only_reads = GjOnlyReads(node);
	fetch->key_reader = reader;
	fetch->blocks = blocks_create(parent, fetch->heap);
	fetch->batch = batch;
	fetch->stats = stats;
	return fetch;
}

/*
 * Start to fetch the tuples of a set, which must live until the fetch is reset.  Must be called
 * after the match, because it reads the heap's length.
 *
 * The keys are rechecked by the probe, so that unwanted tuples are never stored in a slot, unless
 * the key is an expression: then the batch says that the caller must recheck each tuple.  The
 * probe's set and argument must live as long as tuples are fetched.
 */
void
GjFetchStart(GjFetch *fetch, GjTidSet *tids, const GjRowProbe *probe)
{
	GjRowBatch *batch = fetch->batch;

	GjFetchReset(fetch);
	fetch->probe = *probe;
	batch->rechecked = fetch->key_reader->attno != 0;
	fetch->proved = GjTidSetIsProved(tids) && probe->keys != NULL &&
		fetch->key_reader->nparts == 0 && !GjCodecMayHash(&fetch->key_reader->codec) &&
		!fetch->snapshot->takenDuringRecovery;
	batch->tuples = fetch->tuples;
	batch->buffers = fetch->buffers;
	batch->rows = fetch->rows;
	batch->partners = batch->rechecked && probe->keys == NULL ? fetch->partners : NULL;
	blocks_start(fetch->blocks, tids);
	fetch->most = 1;
}

/*
 * Load the tuples of the next blocks, until there are any.  At the end, returns false and releases
 * everything.
 */
bool
GjFetchLoad(GjFetch *fetch)
{
	do
	{
		if (!load_blocks(fetch))
		{
			GjFetchReset(fetch);
			return false;
		}
	} while (fetch->batch->nrows == 0);
	return true;
}

/*
 * Fetch the visible member of the HOT chain at a TID into the slot.  Returns false if no member is
 * visible.
 */
bool
GjFetchRow(GjFetch *fetch, ItemPointer tid, TupleTableSlot *slot)
{
	Buffer		buffer = ReadBuffer(fetch->heap, ItemPointerGetBlockNumber(tid));
	bool		found;

	prune(fetch, buffer);
	found = search_chain(fetch->heap, buffer, fetch->snapshot, tid, &fetch->row);
	if (found)
		ExecStoreBufferHeapTuple(&fetch->row, slot, buffer);
	ReleaseBuffer(buffer);

	fetch->stats->exact_blocks++;
	fetch->stats->tuples += found;
	GjCountHeapFetches(fetch->heap, found);
	return found;
}

/*
 * Change the TID of the root of a HOT chain to that of the visible member.  It remains unchanged if
 * no member is visible, or if it already is the TID of a member.
 */
void
GjFollowChain(Relation heap, Snapshot snapshot, ItemPointer tid)
{
	Buffer		buffer = ReadBuffer(heap, ItemPointerGetBlockNumber(tid));
	HeapTupleData tuple;

	search_chain(heap, buffer, snapshot, tid, &tuple);
	ReleaseBuffer(buffer);
}

/*
 * Search a HOT chain of a pinned block.  The TID is changed if a visible member is found.
 */
static bool
search_chain(Relation heap, Buffer buffer, Snapshot snapshot, ItemPointer tid, HeapTuple tuple)
{
	bool		found;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	found = heap_hot_search_buffer(tid, heap, buffer, snapshot, tuple, NULL, true);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return found;
}

/*
 * Let PostgreSQL prune a pinned block, and mark it in the visibility map if the query only reads
 * the table
 */
static void
prune(GjFetch *fetch, Buffer buffer)
{
	GjPrune(fetch->heap, buffer, &fetch->map_page, fetch->only_reads);
}

/*
 * Forget the set, and release the pins
 */
void
GjFetchReset(GjFetch *fetch)
{
	release_blocks(fetch);
	blocks_reset(fetch->blocks);
	if (BufferIsValid(fetch->map_page))
		ReleaseBuffer(fetch->map_page);
	fetch->map_page = InvalidBuffer;
}

/*
 * Forget the batch, and release its blocks
 */
static void
release_blocks(GjFetch *fetch)
{
	while (fetch->npinned > 0)
		ReleaseBuffer(fetch->pinned[--fetch->npinned]);
	fetch->batch->nrows = 0;
	fetch->batch->next = 0;
}

/*
 * Take the next blocks and find their visible tuples that are wanted.  Returns false if no block is
 * left.
 */
static bool
load_blocks(GjFetch *fetch)
{
	GjRowBatch *batch = fetch->batch;
	uint64		nlossy = fetch->stats->lossy_blocks;
	int			ntuples = 0;

	release_blocks(fetch);
	while (fetch->npinned < fetch->most && load_block(fetch, &ntuples))
		;
	if (fetch->npinned == 0)
		return false;
	fetch->most = Min(fetch->most * 2, max_pinned(fetch->heap, BATCH_BLOCKS));
	for (int i = 0; i < ntuples; i++)
		fetch->rows[i] = i;
	batch->nrows = !batch->rechecked || (fetch->proved && fetch->stats->lossy_blocks == nlossy) ?
		ntuples : recheck_keys(fetch, ntuples);
	return true;
}

/*
 * Add the visible tuples of the next block.  Returns false after the last block, or if the next one
 * may have more tuples than fit.
 */
static bool
load_block(GjFetch *fetch, int *ntuples)
{
	const GjTidBlock *tids;
	Buffer		buffer;
	int			n;

	CHECK_FOR_INTERRUPTS();

	tids = blocks_next(fetch->blocks, MaxHeapTuplesPerPage - *ntuples, &buffer);
	if (tids == NULL)
		return false;
	fetch->pinned[fetch->npinned++] = buffer;
	prune(fetch, buffer);
	n = collect_visible(fetch->heap, buffer, fetch->snapshot, tids, fetch->tuples + *ntuples);
	for (int i = 0; i < n; i++)
		fetch->buffers[*ntuples + i] = buffer;
	*ntuples += n;
	if (tids->lossy)
		fetch->stats->lossy_blocks++;
	else
		fetch->stats->exact_blocks++;
	fetch->stats->tuples += n;
	GjCountHeapFetches(fetch->heap, n);
	return true;
}

/*
 * Recheck the keys of the tuples.  Select the wanted ones, and return their number.
 */
static int
recheck_keys(GjFetch *fetch, int ntuples)
{
	int64		codes[MaxHeapTuplesPerPage];
	bool		nulls[MaxHeapTuplesPerPage];
	GjRowKeys	keys = {.n = ntuples,.codes = codes,.nulls = nulls};
	int			n;

	read_tuple_keys(fetch, ntuples, codes, nulls);
	if (fetch->probe.keys != NULL)
	{
		n = find_in_set(fetch, &keys);
		if (fetch->probe.keys->exact != NULL)
			n = fetch->key_reader->nparts == 0 ?
				drop_strangers(fetch, codes, nulls, n) : fetch_drop_unlisted(fetch, codes, n);
	}
	else if (fetch->key_reader->nparts > 0)
		n = find_with_parts(fetch, &keys, nulls);
	else
		n = fetch->probe.lookup(fetch->probe.arg, &keys, fetch->rows, fetch->partners);
	fetch->stats->rechecked += ntuples - n;
	return n;
}

/*
 * Select the tuples whose keys the set has, and return their number.  A tuple that will be looked
 * up in the exact table need not be looked up here, too, if the set has the codes of all elements.
 */
static int
find_in_set(GjFetch *fetch, const GjRowKeys *keys)
{
	const GjKeySet *set = fetch->probe.keys;
	const GjKeyReader *reader = fetch->key_reader;
	bool		has_all = set->exact != NULL && !set->narrowed;
	bool		all_proved = has_all && reader->nparts > 0;
	int			n = 0;

	for (int i = 0; i < keys->n; i++)
	{
		if (keys->nulls[i] ? set->nulls :
			all_proved || (has_all && GjCodeNeedsProof(&reader->codec, keys->codes[i])) ||
			GjKeySetContains(set, keys->codes[i]))
			fetch->rows[n++] = i;
	}
	return n;
}

/*
 * Drop those of n selected tuples whose key has the code of a listed value but is another value.
 * Returns the number of the others.  codes[] and nulls[] are those of all tuples of the block.
 */
static int
drop_strangers(GjFetch *fetch, const int64 *codes, const bool *nulls, int n)
{
	Datum		values[MaxHeapTuplesPerPage];
	int64		hashes[MaxHeapTuplesPerPage];
	uint32		numbers[MaxHeapTuplesPerPage];
	const Datum *parts[1] = {values};
	GjCodec    *codec = &fetch->key_reader->codec;
	int			nhashes = 0;
	int			at = 0;
	int			nkept = 0;

	for (int i = 0; i < n; i++)
	{
		int			row = fetch->rows[i];

		if (nulls[row] || !GjCodeNeedsProof(codec, codes[row]))
			continue;
		hashes[nhashes] = codes[row];
		values[nhashes++] = GjProofOf(codec, codes[row], fetch->keys[row]);
	}
	GjExactFindMany(fetch->probe.keys->exact, nhashes, hashes, parts, numbers);

	for (int i = 0; i < n; i++)
	{
		int			row = fetch->rows[i];

		if (nulls[row] || !GjCodeNeedsProof(codec, codes[row]) || numbers[at++] != GJ_EXACT_NONE)
			fetch->rows[nkept++] = row;
	}
	return nkept;
}

/*
 * Keep those of n selected tuples whose columns are an element of the set's exact table, and return
 * their number.  codes[] has the keys of all tuples of the block.
 */
static int
fetch_drop_unlisted(GjFetch *fetch, const int64 *codes, int n)
{
	int			nparts = fetch->key_reader->nparts;
	Datum	   *values = palloc(n * nparts * sizeof(Datum));
	const Datum *arrays[INDEX_MAX_KEYS];
	int64		selected[MaxHeapTuplesPerPage];
	uint32		numbers[MaxHeapTuplesPerPage];
	int			nread = 0;
	int			nlisted = 0;

	for (int i = 0; i < nparts; i++)
		arrays[i] = values + i * n;
	for (int i = 0; i < n; i++)
	{
		if (!fetch_read_parts(fetch, fetch->rows[i], codes[fetch->rows[i]], values + nread, n))
			continue;
		selected[nread] = codes[fetch->rows[i]];
		fetch->rows[nread++] = fetch->rows[i];
	}
	GjExactFindMany(fetch->probe.keys->exact, nread, selected, arrays, numbers);
	for (int i = 0; i < nread; i++)
	{
		if (numbers[i] != GJ_EXACT_NONE)
			fetch->rows[nlisted++] = fetch->rows[i];
	}
	pfree(values);
	return nlisted;
}

/*
 * Look up the keys and parts of tuples
 */
static int
find_with_parts(GjFetch *fetch, GjRowKeys *keys, bool *nulls)
{
	int			nparts = fetch->key_reader->nparts;
	Datum	   *values = palloc0(keys->n * nparts * sizeof(Datum));
	const Datum *arrays[INDEX_MAX_KEYS];
	int			nfound;

	for (int i = 0; i < nparts; i++)
		arrays[i] = values + i * keys->n;
	for (int i = 0; i < keys->n; i++)
	{
		if (!nulls[i])
			nulls[i] = !fetch_read_parts(fetch, i, keys->codes[i], values + i, keys->n);
	}
	keys->parts = arrays;
	nfound = fetch->probe.lookup(fetch->probe.arg, keys, fetch->rows, fetch->partners);
	pfree(values);
	return nfound;
}

/*
 * Read the parts of a tuple, whose key has been read and has this code, into values[0],
 * values[stride], ...  Returns false if one is NULL.
 */
static bool
fetch_read_parts(GjFetch *fetch, int row, int64 code, Datum *values, int stride)
{
	GjKeyReader *reader = fetch->key_reader;

	for (int i = 0; i < reader->nparts; i++)
	{
		bool		isnull = false;

		if (reader->parts[i] == reader->attno && reader->place.attno == 0)
			values[i * stride] = fetch->keys[row];
		else
			values[i * stride] = heap_getattr(&fetch->tuples[row], reader->parts[i],
											  RelationGetDescr(fetch->heap), &isnull);
		if (isnull)
			return false;
	}
	if (reader->has_rests)
		values[0] = GjProofOf(&reader->codec, code, values[0]);
	return true;
}

/*-------------------------------------------------------------------------
 * Blocks
 *
 * Visit the heap blocks of a TID set in order.  Each is prefetched into the processor's cache, then
 * pinned.
 *
 * A fetch from memory spends most of its time waiting for cache lines, unless they are prefetched.
 * A block moves through a ring, and each step prefetches the memory that the next step reads:
 *
 *	put into the ring	prefetch the entry of the map of buffers (base/buffers.c)
 *	recalled			with the others in the ring, prefetch the buffer's header and the line
 *						pointers; nothing is pinned, and no part of the page is read
 *	pinned				if it is in another buffer, prefetch the line pointers now
 *	almost current		prefetch the tuples that the line pointers refer to
 *
 * Blocks on disk are read ahead by PrefetchBuffer(), as in bitmap heap scans, at a growing distance
 * from the current block.  Reading ahead starts only after a block was not in memory.
 *-------------------------------------------------------------------------
 */

static GjBlocks *
blocks_create(MemoryContext parent, Relation heap)
{
	GjBlocks   *blocks = MemoryContextAlloc(parent, sizeof(GjBlocks));

	memset(blocks, 0, offsetof(GjBlocks, ring));
	blocks->heap = heap;
	return blocks;
}

/*
 * Start with the blocks of a set, after the match
 */
static void
blocks_start(GjBlocks *blocks, GjTidSet *tids)
{
	blocks_reset(blocks);

	blocks->tids = tids;
	blocks->target = 0;
	blocks->limit = max_pinned(blocks->heap, MAX_PINNED);
	GjTidSetRewind(tids);
	start_prefetch(blocks);
}

/*
 * Return how many of these blocks may be pinned.  No process should pin more than its share of the
 * buffers, and a query may have many scans.  Temporary tables have few buffers.
 */
static int
max_pinned(Relation heap, int most)
{
	return RelationUsesLocalBuffers(heap) ? 1 :
		Max(1, Min(most, NBuffers / MaxBackends / MAX_PINNED));
}

/*
 * Return the next block, with a pin that is the caller's.  Returns NULL after the last block, or if
 * the next one may have more tuples than there is room for.
 */
static const GjTidBlock *
blocks_next(GjBlocks *blocks, int room, Buffer *buffer)
{
	ComingBlock *next = coming_at(blocks, 0);

	fill_ring(blocks);
	if (blocks->npinned == 0 ||
		(next->tids.lossy ? MaxHeapTuplesPerPage : next->tids.noffsets) > room)
		return NULL;
	if (blocks->npinned > 1)
	{
		ComingBlock *soon = coming_at(blocks, Min(blocks->npinned - 1, TUPLES_AHEAD));

		prefetch_tuples(soon->buffer, &soon->tids);
	}

	blocks->first = (blocks->first + 1) % RING_BLOCKS;
	blocks->ncoming--;
	blocks->nrecalled--;
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
	blocks->nrecalled = 0;
	blocks->tids = NULL;
}

/*
 * Put blocks into the ring and pin them until the target is reached or no block is left
 */
static void
fill_ring(GjBlocks *blocks)
{
	if (blocks->target < blocks->limit)
		blocks->target++;
	while (blocks->npinned < blocks->target)
	{
		if (blocks->nrecalled - blocks->npinned < FEW_RECALLED)
			recall_blocks(blocks);
		if (blocks->nrecalled == blocks->npinned)
			recall_blocks(blocks);
		if (blocks->npinned == blocks->nrecalled)
			return;
		pin_block(blocks);
	}
}

/*
 * Recall the buffers of the blocks in the ring, and put further blocks into it
 */
static void
recall_blocks(GjBlocks *blocks)
{
	int			from = blocks->nrecalled;

	for (; blocks->nrecalled < blocks->ncoming; blocks->nrecalled++)
	{
		ComingBlock *coming = coming_at(blocks, blocks->nrecalled);

		coming->recalled = GjBufferRecall(blocks->heap, coming->tids.block);
	}
	for (int i = from; i < blocks->nrecalled; i++)
	{
		ComingBlock *coming = coming_at(blocks, i);

		if (BufferIsValid(coming->recalled))
			prefetch_line_pointers(coming->recalled, &coming->tids);
	}
	while (blocks->ncoming < blocks->target * RING_BLOCKS / MAX_PINNED && take_block(blocks))
		;
}

/*
 * Put the next block of the set into the ring.  Returns false if no block is left.
 */
static bool
take_block(GjBlocks *blocks)
{
	ComingBlock *coming = coming_at(blocks, blocks->ncoming);
	GjTidBlock *tids = &coming->tids;

	/* Blocks ascend, so all blocks after the first one past the end are also past it */
	if (blocks->tids == NULL || !GjTidSetNextBlock(blocks->tids, tids) ||
		GjIsPastHeap(blocks->heap, &blocks->nblocks, tids->block))
	{
		blocks->tids = NULL;
		return false;
	}
	if (!tids->lossy)
		memcpy(coming->offsets, tids->offsets, tids->noffsets * sizeof(OffsetNumber));
	tids->offsets = coming->offsets;
	blocks->ncoming++;
	follow_prefetch(blocks);
	GjBufferExpect(blocks->heap, tids->block);
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

	coming->buffer = GjBufferRead(blocks->heap, coming->tids.block, coming->recalled, NULL);
	blocks->npinned++;
	if (coming->buffer != coming->recalled)
		prefetch_line_pointers(coming->buffer, &coming->tids);

	if (pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read != read)
		blocks->hits = 0;
	else if (blocks->hits < STOP_AFTER_HITS)
		blocks->hits++;
	prefetch(blocks);
}

/*
 * Return the block at this distance from the next one
 */
static ComingBlock *
coming_at(GjBlocks *blocks, int ahead)
{
	return &blocks->ring[(blocks->first + ahead) % RING_BLOCKS];
}

/*
 * Prepare for reading ahead.  No block is requested before one is found missing in memory: a
 * request costs as much as finding the block.
 */
static void
start_prefetch(GjBlocks *blocks)
{
	blocks->hits = STOP_AFTER_HITS;
	blocks->prefetch_ahead = 0;
	blocks->prefetch_target = 0;
	blocks->prefetch_maximum = -1;
}

/*
 * Keep the prefetch cursor at the last block put into the ring, or ahead of it
 */
static void
follow_prefetch(GjBlocks *blocks)
{
	if (blocks->prefetch_ahead > 0)
		blocks->prefetch_ahead--;
	else if (blocks->prefetch_maximum != 0)
		GjTidSetFollow(blocks->tids);
}

/*
 * Read ahead the next blocks, at a growing distance, unless all blocks are found in memory
 */
static void
prefetch(GjBlocks *blocks)
{
	if (blocks->hits >= STOP_AFTER_HITS || blocks->tids == NULL)
	{
		blocks->prefetch_target = 0;
		return;
	}
	if (blocks->prefetch_maximum < 0)
		blocks->prefetch_maximum =
			get_tablespace_io_concurrency(blocks->heap->rd_rel->reltablespace);
	blocks->prefetch_target = Min(Max(blocks->prefetch_target * 2, 1), blocks->prefetch_maximum);

	while (blocks->prefetch_ahead < blocks->prefetch_target)
	{
		BlockNumber ahead;

		if (!GjTidSetPeekBlock(blocks->tids, &ahead) ||
			GjIsPastHeap(blocks->heap, &blocks->nblocks, ahead))
		{
			/* the end: stop reading ahead, and stop following */
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
 * Find the candidates of one heap block that a snapshot sees.
 *
 * On a page that is marked all-visible, every tuple is visible to every snapshot, so that tuples
 * need not be tested.  This relies on the page's own flag, read under the page's lock, as
 * sequential scans do; as there, the flag is not trusted under a snapshot that was taken during
 * recovery.  A TID whose line pointer has been reused since the match is no exception: if the new
 * row had been inserted after the snapshot was taken, the snapshot would have prevented the page
 * from being marked.
 *
 * A serializable transaction must test and lock each tuple, all-visible or not; core's functions do
 * that.
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
 * Collect the visible member of each chain whose root is a candidate
 *
 * heap_hot_search_buffer() takes the predicate locks.  Chains share no member, so the tuples fit in
 * an array for one page.
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
 * Collect the candidates of an all-visible page.  There, a chain has a single member, and its root
 * either is that member or redirects to it.
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
 * Collect each visible tuple of a block whose offsets are not known.  All tuples are tested, so
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
		if (all_visible || fetch_is_visible(heap, buffer, snapshot, &tuples[n]))
			n++;
	}
	return n;
}

/*
 * Return true if the tuple is visible, after the checks and locks for serializable transactions
 */
static bool
fetch_is_visible(Relation heap, Buffer buffer, Snapshot snapshot, HeapTuple tuple)
{
	bool		visible = HeapTupleSatisfiesVisibility(tuple, snapshot, buffer);

	if (visible)
		PredicateLockTID(heap, &tuple->t_self, snapshot, HeapTupleHeaderGetXmin(tuple->t_data));
	HeapCheckForSerializableConflictOut(visible, heap, tuple, buffer, snapshot);
	return visible;
}

/*
 * Prefetch the page's header and the line pointers of the candidates.  The page may change at any
 * time, so nothing is read.
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
 * Prefetch the candidates' tuples, up to a limit: a key behind other columns is further than the
 * first cache line.  The page may change at any time, and a line pointer may redirect: then other
 * lines are prefetched, which does no harm.
 */
static void
prefetch_tuples(Buffer buffer, const GjTidBlock *tids)
{
	Page		page = BufferGetPage(buffer);

	for (int i = 0; i < tids->noffsets; i++)
	{
		ItemId		item = PageGetItemId(page, tids->offsets[i]);
		const char *tuple = (char *) page + ItemIdGetOffset(item);
		Size		length = ItemIdGetLength(item);

		GjPrefetch(tuple);
		if (length <= GJ_CACHE_LINE)
			GjPrefetch(tuple + length);
		else
			GjPrefetchRange(tuple + GJ_CACHE_LINE, Min(length, TUPLE_BYTES) - GJ_CACHE_LINE);
	}
}

/*-------------------------------------------------------------------------
 * Keys
 *
 * The keys of fetched tuples.
 *-------------------------------------------------------------------------
 */

/*
 * Prepare reading the key of heap tuples of a scan's table.  The key is an attribute; or, if attno
 * is 0, the indexed expression, for rows that satisfy the predicate.
 */
void
GjInitKeyReader(GjKeyReader *reader, Relation index, AttrNumber attno, Expr *expr,
				List *predicate, PlanState *parent)
{
	reader->attno = attno;
	reader->expr = attno == 0 ? ExecInitExpr(expr, parent) : NULL;
	reader->predicate = attno == 0 ? ExecInitQual(predicate, parent) : NULL;
	GjCodecInitIndex(&reader->codec, index);
	reader->place.attno = 0;
	if (reader->codec.keeps_value)
		GjTupleFindPlace(RelationGetDescr(((ScanState *) parent)->ss_currentRelation), attno,
						 &reader->place);
}

/*
 * Read the key of the tuple in the slot.  Returns false if the row is not one of the index's; then
 * no key is read.
 *
 * An indexed expression may raise an error for rows that the index does not contain, for example
 * 1 / x without WHERE x <> 0.  We meet such rows: a mirror's TID may now belong to one, a lossy
 * block may contain them, the whole heap may be returned as a match, and EvalPlanQual's row may be
 * one.  The predicate follows from the query's conditions, so those rows are not wanted.  It was
 * computed for each of them when they were inserted, before any security barrier, so computing it
 * leaks nothing.
 *
 * An expression leaves its garbage in the per-tuple memory of econtext.
 */
bool
GjReadKey(GjKeyReader *reader, ExprContext *econtext, TupleTableSlot *slot, int64 *key,
		  bool *isnull)
{
	Datum		value;

	if (reader->attno != 0)
		value = slot_getattr(slot, reader->attno, isnull);
	else
	{
		econtext->ecxt_scantuple = slot;
		if (!ExecQual(reader->predicate, econtext))
			return false;
		value = ExecEvalExprSwitchContext(reader->expr, econtext, isnull);
	}
	if (!*isnull)
		*key = GjCodeOf(&reader->codec, value);
	reader->value = value;
	return true;
}

/*
 * Have the reader read these columns of the table, too, which are parts of the key
 *
 * If the index has rests, the first column is the key, and its part is the rest, which is behind
 * the other columns of the index; the whole key, if that is in INCLUDE, too, is not the part.
 */
void
GjKeyReaderSetParts(GjKeyReader *reader, Relation index, List *columns)
{
	GjIndexInfo info;
	ListCell   *lc;

	if (columns == NIL)
		return;
	GjIndexGetInfo(index, &info);
	reader->has_rests = GjCodecHasPairs(&reader->codec);
	reader->parts = palloc_array(AttrNumber, list_length(columns));
	reader->entry_parts = palloc_array(int, list_length(columns));
	reader->entry_seconds = palloc0_array(int, list_length(columns));
	reader->entry_kinds = palloc0_array(GjColumnKind, list_length(columns));
	foreach(lc, columns)
	{
		AttrNumber	attno = lfirst_node(Var, lc)->varattno;
		int			column = index->rd_index->indnatts - 1;

		while (column >= 0 && index->rd_index->indkey.values[column] != attno)
			column--;
		if (reader->has_rests && reader->nparts == 0)
			column = GjIndexSecondColumn(&info, 0);
		else if (column > 0)
		{
			reader->entry_seconds[reader->nparts] = info.included[column - 1].second;
			reader->entry_kinds[reader->nparts] = info.included[column - 1].kind;
		}
		reader->parts[reader->nparts] = attno;
		reader->entry_parts[reader->nparts++] = column;
	}
}

/*
 * Return the columns of the index that are parts, as bits like those of GjRowShape
 */
uint64
GjKeyReaderPartColumns(const GjKeyReader *reader)
{
	uint64		columns = 0;

	for (int i = 0; i < reader->nparts; i++)
	{
		if (reader->entry_parts[i] >= 0)
			columns |= GJ_ENTRY_KEY << reader->entry_parts[i];
		if (reader->entry_seconds[i] != 0)
			columns |= GJ_ENTRY_KEY << reader->entry_seconds[i];
	}
	return columns;
}

/*
 * Read the parts of the tuple in the slot, whose key GjReadKey() has just read.  Returns false if
 * one is NULL.
 */
bool
GjReadParts(GjKeyReader *reader, TupleTableSlot *slot, int64 key, Datum *values)
{
	for (int i = 0; i < reader->nparts; i++)
	{
		bool		isnull;

		values[i] = slot_getattr(slot, reader->parts[i], &isnull);
		if (isnull)
			return false;
	}
	if (reader->has_rests)
		values[0] = GjProofOf(&reader->codec, key, values[0]);
	return true;
}

/*
 * Return true if the tuple in the slot, whose key GjReadKey() has just read, is in the set
 */
bool
GjRowIsListed(GjKeyReader *reader, const GjKeySet *set, TupleTableSlot *slot, int64 key)
{
	Datum		values[INDEX_MAX_KEYS];

	if (!GjKeySetContains(set, key))
		return false;
	if (set->exact == NULL)
		return true;
	if (reader->nparts == 0)
	{
		if (!GjCodeNeedsProof(&reader->codec, key))
			return true;
		values[0] = GjProofOf(&reader->codec, key, reader->value);
		return GjExactFind(set->exact, key, values) != GJ_EXACT_NONE;
	}
	return GjReadParts(reader, slot, key, values) &&
		GjExactFind(set->exact, key, values) != GJ_EXACT_NONE;
}

/*
 * Read the keys of a block's tuples, and compute their codes.  The key must be an attribute.
 */
static void
read_tuple_keys(GjFetch *fetch, int ntuples, int64 *codes, bool *isnull)
{
	GjKeyReader *reader = fetch->key_reader;
	const GjTuplePlace place = reader->place;
	HeapTuple	tuples = fetch->tuples;

	for (int i = 0; i < ntuples; i++)
	{
		if (likely(place.attno != 0 && GjTupleHasPlace(tuples[i].t_data, place.attno)))
		{
			codes[i] = DatumGetInt64(fetch_att(GjTupleAt(tuples[i].t_data, &place), true,
											   place.width));
			isnull[i] = false;
			continue;
		}
		fetch->keys[i] = heap_getattr(&tuples[i], reader->attno, RelationGetDescr(fetch->heap),
									  &isnull[i]);
		if (!isnull[i])
			codes[i] = GjCodeOf(&reader->codec, fetch->keys[i]);
	}
}
