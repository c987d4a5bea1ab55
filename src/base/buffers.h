/*-------------------------------------------------------------------------
 *
 * buffers.h
 *	  In which buffer is a block of a heap or an index?
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BASE_BUFFERS_H
#define GPUJOIN_BASE_BUFFERS_H

#include "storage/block.h"
#include "storage/buf.h"
#include "storage/bufmgr.h"
#include "utils/relcache.h"

typedef struct GjGuess
{
	Relation	rel;
	BufferAccessStrategy strategy;	/* NULL: the usual one */
	bool		possible;		/* the relation is in shared buffers, not in a session's own */
	bool		confirmed;		/* the last block was where the guess would have been */
	int64		distance;		/* from the number of the last block to its buffer */
} GjGuess;

extern void GjGuessStart(GjGuess *guess, Relation rel, BufferAccessStrategy strategy);

/* ReadBufferExtended(), without the search if the guess is right */
extern Buffer GjGuessRead(GjGuess *guess, BlockNumber block);

/* Ask for the header of the buffer where the block probably is; which, or InvalidBuffer */
extern Buffer GjGuessPrefetch(const GjGuess *guess, BlockNumber block);

#endif							/* GPUJOIN_BASE_BUFFERS_H */
