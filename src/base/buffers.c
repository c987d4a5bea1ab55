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
 * runs of its blocks lie in consecutive buffers.  So, once two blocks have been found at the
 * same distance from their numbers, the next ones are looked for there; the first that is
 * elsewhere ends it.  Where blocks lie in no order, nothing is ever guessed, which costs
 * nothing.
 *
 * Why that is safe: ReadRecentBuffer() pins the buffer only if it holds the very block,
 * valid, as tested under the lock of the buffer's header.  Otherwise it is read as usual.
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

static Buffer find_buffer(const GjGuess *guess, BlockNumber block);
static bool is_in_use(Buffer buffer);

void
GjGuessStart(GjGuess *guess, Relation rel, BufferAccessStrategy strategy)
{
	guess->rel = rel;
	guess->strategy = strategy;
	guess->possible = !RelationUsesLocalBuffers(rel);
	guess->confirmed = false;
	guess->distance = 0;
}

static Buffer
find_buffer(const GjGuess *guess, BlockNumber block)
{
	int64		buffer = guess->distance + block;

	if (!guess->confirmed || buffer < 1 || buffer > NBuffers)
		return InvalidBuffer;
	return (Buffer) buffer;
}

Buffer
GjGuessRead(GjGuess *guess, BlockNumber block)
{
	Buffer		buffer = find_buffer(guess, block);

	if (BufferIsValid(buffer) && is_in_use(buffer) &&
		ReadRecentBuffer(GjRelationLocator(guess->rel), MAIN_FORKNUM, block, buffer))
	{
		GjCountBufferHit(guess->rel);
		return buffer;
	}

	buffer = ReadBufferExtended(guess->rel, MAIN_FORKNUM, block, RBM_NORMAL, guess->strategy);
	guess->confirmed = guess->possible && guess->distance == (int64) buffer - block;
	guess->distance = (int64) buffer - block;
	return buffer;
}

static bool
is_in_use(Buffer buffer)
{
	uint32		state = pg_atomic_read_u32(&GetBufferDescriptor(buffer - 1)->state);

	return BUF_STATE_GET_USAGECOUNT(state) >= SAFE_USAGE_COUNT;
}

/*
 * Ask for the header of the block's buffer, which is read when the buffer is pinned
 */
Buffer
GjGuessPrefetch(const GjGuess *guess, BlockNumber block)
{
	Buffer		buffer = find_buffer(guess, block);

	if (BufferIsValid(buffer))
		GjPrefetchForWrite(GetBufferDescriptor(buffer - 1));
	return buffer;
}
