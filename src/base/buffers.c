/*-------------------------------------------------------------------------
 *
 * buffers.c
 *	  Guess which shared buffer holds a block of a heap or an index.
 *
 * ReadBuffer() looks a block up in a shared hash table: it takes a lock and follows a chain
 * through memory that is not in the processor's cache.  For a cached table of which nearly every
 * block is wanted, that takes longer than everything else done for a block; for an index page,
 * half as long as searching the page.  But buffers are handed out in order, and a relation is
 * mostly written and read in order, so long runs of its blocks lie in ascending buffers: adjacent
 * ones, or, if several sessions were active at that time, ones interleaved with buffers of other
 * relations.  The buffers' headers ascend as well and name the blocks.  So, once a block has been
 * found a few buffers after the previous one, we look for the next blocks there.  If the blocks
 * are in no order, we soon stop.
 *
 * This is safe because ReadRecentBuffer() pins the buffer only if it holds exactly that block and
 * is valid, which it tests under the lock of the buffer's header.  Otherwise the block is read as
 * usual.  Looking at headers without a lock can at worst give a wrong guess.
 *
 * ReadRecentBuffer() does not raise the buffer's usage count, and a buffer that no one else uses
 * would soon be evicted.  So a buffer with a low usage count is read as usual, which raises the
 * count as far as the strategy allows.  The count is read without a lock, as a hint.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "buffers.h"
#include "compat.h"
#include "prefetch.h"

/* A buffer that survives this many rounds of the clock sweep is in no danger */
#define SAFE_USAGE_COUNT		(BM_MAX_USAGE_COUNT - 2)

/* Maximum distance, in buffers, for each block since the previous one, and in total */
#define MOST_BUFFERS_A_BLOCK	16
#define MOST_BUFFERS			128

/* Number of consecutive failed guesses after which we stop guessing */
#define MOST_VAIN				3

static int64 last_place(const GjGuess *guess, BlockNumber block);
static bool has_block(const GjGuess *guess, Buffer buffer, BlockNumber block);
static void learn(GjGuess *guess, BlockNumber block, Buffer buffer);
static bool is_in_use(Buffer buffer);

void
GjGuessStart(GjGuess *guess, Relation rel, BufferAccessStrategy strategy)
{
	guess->rel = rel;
	guess->strategy = strategy;
	guess->possible = !RelationUsesLocalBuffers(rel);
	guess->trust = 0;
	guess->block = InvalidBlockNumber;
	guess->buffer = InvalidBuffer;
}

Buffer
GjGuessFind(GjGuess *guess, BlockNumber block)
{
	int64		last;

	if (guess->trust == 0 || block <= guess->block)
		return InvalidBuffer;

	last = last_place(guess, block);
	for (int64 buffer = (int64) guess->buffer + (block - guess->block); buffer <= last; buffer++)
	{
		if (!has_block(guess, (Buffer) buffer, block))
			continue;
		GjPrefetchForWrite(GetBufferDescriptor(buffer - 1));
		guess->trust = MOST_VAIN;
		guess->block = block;
		guess->buffer = (Buffer) buffer;
		return guess->buffer;
	}
	guess->trust--;
	return InvalidBuffer;
}

/*
 * Get the last buffer in which to look for a block that follows the last one found
 */
static int64
last_place(const GjGuess *guess, BlockNumber block)
{
	int64		most = Min((int64) (block - guess->block) * MOST_BUFFERS_A_BLOCK, MOST_BUFFERS);

	return Min((int64) guess->buffer + Max(most, block - guess->block), NBuffers);
}

static bool
has_block(const GjGuess *guess, Buffer buffer, BlockNumber block)
{
	const BufferTag *tag = &GetBufferDescriptor(buffer - 1)->tag;

	return tag->blockNum == block && tag->forkNum == MAIN_FORKNUM &&
		GjBufferTagFile(tag) == GjRelationFile(guess->rel);
}

Buffer
GjGuessRead(GjGuess *guess, BlockNumber block, Buffer found)
{
	Buffer		buffer;

	/* Another block may have been read since; continue the search from there. */
	if (!BufferIsValid(found))
		found = GjGuessFind(guess, block);
	if (BufferIsValid(found) && is_in_use(found) &&
		ReadRecentBuffer(GjRelationLocator(guess->rel), MAIN_FORKNUM, block, found))
	{
		GjCountBufferHit(guess->rel);
		return found;
	}

	buffer = ReadBufferExtended(guess->rel, MAIN_FORKNUM, block, RBM_NORMAL, guess->strategy);
	if (guess->possible)
		learn(guess, block, buffer);
	return buffer;
}

/*
 * Learn that a block was read elsewhere, or without a guess.  If later blocks have been found by
 * guessing meanwhile, keep their position.
 */
static void
learn(GjGuess *guess, BlockNumber block, Buffer buffer)
{
	if (guess->trust > 0 && block <= guess->block)
		return;
	if (BufferIsValid(guess->buffer) && block > guess->block && buffer > guess->buffer &&
		buffer <= last_place(guess, block))
		guess->trust = MOST_VAIN;
	guess->block = block;
	guess->buffer = buffer;
}

static bool
is_in_use(Buffer buffer)
{
	uint32		state = pg_atomic_read_u32(&GetBufferDescriptor(buffer - 1)->state);

	return BUF_STATE_GET_USAGECOUNT(state) >= SAFE_USAGE_COUNT;
}
