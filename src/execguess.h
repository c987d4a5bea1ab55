/*-------------------------------------------------------------------------
 *
 * execguess.h
 *	  In which buffer is a heap block?
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXECGUESS_H
#define GPUJOIN_EXECGUESS_H

#include "storage/block.h"
#include "storage/buf.h"
#include "utils/relcache.h"

typedef struct GjGuess
{
	Relation	heap;
	bool		possible;		/* the heap is in shared buffers, not in a session's own */
	bool		confirmed;		/* the last block was where the guess would have been */
	int64		distance;		/* from the number of the last block to its buffer */
} GjGuess;

extern void GjGuessStart(GjGuess *guess, Relation heap);

/* The buffer where the block probably is, for looking ahead; or InvalidBuffer */
extern Buffer GjGuessBuffer(const GjGuess *guess, BlockNumber block);

/* ReadBuffer(), without the search if the guess is right; *hit: it was in memory */
extern Buffer GjGuessRead(GjGuess *guess, BlockNumber block, bool *hit);

/* Ask for the buffer's header, which is read when the buffer is pinned */
extern void GjPrefetchDescriptor(Buffer buffer);

#endif							/* GPUJOIN_EXECGUESS_H */
