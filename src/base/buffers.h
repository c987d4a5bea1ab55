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
	int			trust;			/* how many may be looked for in vain; 0: none is looked for */
	BlockNumber block;			/* the last one that was found or read, */
	Buffer		buffer;			/* and where */
} GjGuess;

extern void GjGuessStart(GjGuess *guess, Relation rel, BufferAccessStrategy strategy);

/*
 * Find the buffer where the block probably is, behind that of the last one, and ask for its
 * header; InvalidBuffer if it is not there.  Blocks must ascend.
 */
extern Buffer GjGuessFind(GjGuess *guess, BlockNumber block);

/* ReadBufferExtended(), without a search if the block is where it has been found */
extern Buffer GjGuessRead(GjGuess *guess, BlockNumber block, Buffer found);

#endif							/* GPUJOIN_BASE_BUFFERS_H */
