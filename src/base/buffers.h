/*-------------------------------------------------------------------------
 *
 * buffers.h
 *	  Remember which shared buffer holds a block of a heap or an index.
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

extern void GjBuffersInit(void);

/* Prefetch the memory that GjBufferRecall() reads */
extern void GjBufferExpect(Relation rel, BlockNumber block);

/*
 * Return the buffer where the block probably is, and prefetch its header; or InvalidBuffer if that
 * is not known
 */
extern Buffer GjBufferRecall(Relation rel, BlockNumber block);

/*
 * ReadBufferExtended(), without the lookup in the hash table of buffers if the block is in the
 * recalled buffer.  If that is InvalidBuffer, it is recalled here.  The strategy is NULL for the
 * default one.
 */
extern Buffer GjBufferRead(Relation rel, BlockNumber block, Buffer recalled,
						   BufferAccessStrategy strategy);

/*
 * Pin a page of the visibility map, the first of whose blocks is given; returns InvalidBuffer if it
 * does not exist
 */
extern Buffer GjBufferReadVisible(Relation heap, BlockNumber page, BlockNumber first);

/* Remember that a pinned buffer has the block */
extern void GjBufferNote(Relation rel, BlockNumber block, Buffer buffer);

#endif							/* GPUJOIN_BASE_BUFFERS_H */
