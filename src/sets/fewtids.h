/*-------------------------------------------------------------------------
 *
 * fewtids.h
 *	  A few TIDs that are looked for among many.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_FEWTIDS_H
#define GPUJOIN_SETS_FEWTIDS_H

#include "nodes/memnodes.h"

typedef struct GjFewTids GjFewTids;

/* Doubles are allowed */
extern GjFewTids *GjFewTidsCreate(MemoryContext context, const uint64 *tids, uint64 n);

/* Where a TID first was in that array; -1: nowhere */
extern int64 GjFewTidsFind(const GjFewTids *few, uint64 tid);

extern void GjFewTidsFree(GjFewTids *few);

#endif							/* GPUJOIN_SETS_FEWTIDS_H */
