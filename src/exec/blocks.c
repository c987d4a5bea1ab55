/*-------------------------------------------------------------------------
 *
 * blocks.c
 *	  The heap blocks of a TID set, in order, each pinned when its turn comes and on
 *	  its way into the processor's cache before.
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

#include "base/buffers.h"
#include "blocks.h"
#include "visible.h"

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

static int	max_pinned(Relation heap);
static void fill_ring(GjBlocks *blocks);
static bool take_block(GjBlocks *blocks);
static void pin_block(GjBlocks *blocks);
static ComingBlock *coming_at(GjBlocks *blocks, int ahead);
static void start_prefetch(GjBlocks *blocks);
static void follow_prefetch(GjBlocks *blocks);
static void prefetch(GjBlocks *blocks);

GjBlocks *
GjBlocksCreate(MemoryContext parent, Relation heap)
{
	GjBlocks   *blocks = MemoryContextAllocZero(parent, sizeof(GjBlocks));

	blocks->heap = heap;
	return blocks;
}

/*
 * Begin with the blocks of a set.  To be called after the match, since it reads the heap's length.
 */
void
GjBlocksStart(GjBlocks *blocks, GjTidSet *tids)
{
	GjBlocksReset(blocks);

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

const GjTidBlock *
GjBlocksNext(GjBlocks *blocks, Buffer *buffer)
{
	ComingBlock *next;

	fill_ring(blocks);
	if (blocks->npinned == 0)
		return NULL;
	if (blocks->npinned > 1)
	{
		ComingBlock *soon = coming_at(blocks, Min(blocks->npinned - 1, TUPLES_AHEAD));

		GjPrefetchTuples(soon->buffer, &soon->tids);
	}

	next = coming_at(blocks, 0);
	blocks->first = (blocks->first + 1) % RING_BLOCKS;
	blocks->ncoming--;
	blocks->npinned--;
	*buffer = next->buffer;
	return &next->tids;
}

void
GjBlocksReset(GjBlocks *blocks)
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
		GjPrefetchLinePointers(coming->guess, tids);
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
		GjPrefetchLinePointers(coming->buffer, &coming->tids);

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
