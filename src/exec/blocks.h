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

#endif							/* GPUJOIN_EXEC_BLOCKS_H */
