/*-------------------------------------------------------------------------
 *
 * buffers.h
 *	  Guess which shared buffer holds a block of a heap or an index.
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
	BufferAccessStrategy strategy;	/* NULL for the default strategy */
	bool		possible;		/* is the relation in shared buffers, not in session-local ones? */
	int			trust;			/* number of failed guesses still allowed; 0: do not guess */
	BlockNumber block;			/* the last block found or read, */
	Buffer		buffer;			/* and its buffer */
} GjGuess;

extern void GjGuessStart(GjGuess *guess, Relation rel, BufferAccessStrategy strategy);

/*
 * Find the buffer where the block probably is, after that of the last block, and prefetch its
 * header.  Returns InvalidBuffer if there is no good guess.  Blocks must ascend.
 */
extern Buffer GjGuessFind(GjGuess *guess, BlockNumber block);

/* ReadBufferExtended(), without the hash table lookup if the block is in buffer "found" */
extern Buffer GjGuessRead(GjGuess *guess, BlockNumber block, Buffer found);

#endif							/* GPUJOIN_BASE_BUFFERS_H */
