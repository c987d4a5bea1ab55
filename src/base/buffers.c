/*-------------------------------------------------------------------------
 *
 * buffers.c
 *	  In which buffer is a block of a heap or an index?
 *
 * ReadBuffer() finds it in a hash table that all processes share: a lock, and a chain
 * through memory of which nothing is in the processor's cache.  For a table in memory of
 * which nearly every block is wanted, that takes longer than all else there is to do for
 * a block; for a page of an index that is searched, half as long as the search.  But buffers
 * are handed out in order, and a relation is mostly written and read in order, so that long
 * runs of its blocks lie in ascending buffers: one behind the other, or, where several
 * sessions were at work at that time, with some of other relations in between.  The buffers'
 * headers lie in ascending order, too, and say what is in them.  So, once a block was found a
 * few buffers behind the one before, the next ones are looked for there.  Where blocks lie in no
 * order, that soon ends.
 *
 * Why that is safe: ReadRecentBuffer() pins the buffer only if it holds the very block,
 * valid, as tested under the lock of the buffer's header.  Otherwise it is read as usual.
 * That headers are looked at without a lock gives a wrong guess at worst.
 *
 * ReadRecentBuffer() does not say that the buffer has been used, and a buffer that is
 * never used by others would soon be given away.  So a buffer whose usage count is low is
 * read as usual, which raises it, so far as the strategy allows.  The count is read without
 * a lock, as a hint.
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

/* A buffer that survives so many rounds of the clock is in no danger */
#define SAFE_USAGE_COUNT		(BM_MAX_USAGE_COUNT - 2)

/* How many buffers a block may be behind the one before it, and behind one much before it */
#define MOST_BUFFERS_A_BLOCK	16
#define MOST_BUFFERS			128

/* How many blocks are looked for in vain, one after the other, until that ends */
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
 * The last buffer in which a block is looked for that comes behind the last one
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

	/* Another one may have been read since, from which the search goes on */
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
 * A block was not where it was looked for, or not looked for.  Blocks further on may have been
 * found meanwhile, which counts more.
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
