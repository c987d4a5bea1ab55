/*-------------------------------------------------------------------------
 *
 * blocks.h
 *	  The heap blocks of a TID set, in order, each pinned when its turn comes and on
 *	  its way into the processor's cache before.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_BLOCKS_H
#define GPUJOIN_EXEC_BLOCKS_H

#include "nodes/memnodes.h"
#include "storage/buf.h"
#include "utils/relcache.h"

#include "sets/sets.h"

typedef struct GjBlocks GjBlocks;

extern GjBlocks *GjBlocksCreate(MemoryContext parent, Relation heap);

/* Begin with a set's first block; the set must live until the reset */
extern void GjBlocksStart(GjBlocks *blocks, GjTidSet *tids);

/*
 * Take the next block; NULL if there is none.  The pin is the caller's to release.  The
 * candidates are good until the next call.
 */
extern const GjTidBlock *GjBlocksNext(GjBlocks *blocks, Buffer *buffer);

/* Let go of the set and of the pins */
extern void GjBlocksReset(GjBlocks *blocks);

#endif							/* GPUJOIN_EXEC_BLOCKS_H */
