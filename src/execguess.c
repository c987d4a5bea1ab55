/*-------------------------------------------------------------------------
 *
 * execguess.c
 *	  In which buffer is a heap block?
 *
 * ReadBuffer() finds it in a hash table that all processes share: a lock, and a chain
 * through memory of which nothing is in the processor's cache.  For a table in memory of
 * which nearly every block is wanted, that takes longer than all else there is to do for
 * a block.  But buffers are handed out in order, and a table is mostly written and read in
 * order, so that long runs of its blocks lie in consecutive buffers.  So, once two blocks
 * have been found at the same distance from their numbers, the next ones are looked for
 * there; the first that is elsewhere ends it.  Where blocks lie in no order, nothing is
 * ever guessed, which costs nothing.
 *
 * Why that is safe: ReadRecentBuffer() pins the buffer only if it holds the very block,
 * valid, as tested under the lock of the buffer's header.  Otherwise ReadBuffer() does it.
 *
 * ReadRecentBuffer() does not say that the buffer has been used, and a buffer that is
 * never used by others would soon be given away.  So a buffer whose usage count is low is
 * left to ReadBuffer(), which raises it.  The count is read without a lock, as a hint.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "compat.h"
#include "execguess.h"

/* A buffer that survives so many rounds of the clock is in no danger */
#define SAFE_USAGE_COUNT		(BM_MAX_USAGE_COUNT - 2)

static bool is_in_use(Buffer buffer);

void
GjGuessStart(GjGuess *guess, Relation heap)
{
	guess->heap = heap;
	guess->possible = !RelationUsesLocalBuffers(heap);
	guess->confirmed = false;
}

Buffer
GjGuessBuffer(const GjGuess *guess, BlockNumber block)
{
	int64		buffer = guess->distance + block;

	if (!guess->confirmed || buffer < 1 || buffer > NBuffers)
		return InvalidBuffer;
	return (Buffer) buffer;
}

Buffer
GjGuessRead(GjGuess *guess, BlockNumber block, bool *hit)
{
	int64		read = pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;
	Buffer		buffer = GjGuessBuffer(guess, block);

	if (BufferIsValid(buffer) && is_in_use(buffer) &&
		ReadRecentBuffer(GjRelationLocator(guess->heap), MAIN_FORKNUM, block, buffer))
	{
		GjCountBufferHit(guess->heap);
		*hit = true;
		return buffer;
	}

	buffer = ReadBuffer(guess->heap, block);
	guess->confirmed = guess->possible && guess->distance == (int64) buffer - block;
	guess->distance = (int64) buffer - block;
	*hit = pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read == read;
	return buffer;
}

static bool
is_in_use(Buffer buffer)
{
	uint32		state = pg_atomic_read_u32(&GetBufferDescriptor(buffer - 1)->state);

	return BUF_STATE_GET_USAGECOUNT(state) >= SAFE_USAGE_COUNT;
}

void
GjPrefetchDescriptor(Buffer buffer)
{
	__builtin_prefetch(GetBufferDescriptor(buffer - 1), 1);
}
