/*-------------------------------------------------------------------------
 *
 * fewtids.h
 *	  A small collection of TIDs to look up among many.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_FEWTIDS_H
#define GPUJOIN_SETS_FEWTIDS_H

#include "nodes/memnodes.h"

typedef struct GjFewTids GjFewTids;

/* Duplicates are allowed */
extern GjFewTids *GjFewTidsCreate(MemoryContext context, const uint64 *tids, uint64 n);

/* Return the first position of a TID in that array, or -1 if it is not there */
extern int64 GjFewTidsFind(const GjFewTids *few, uint64 tid);

extern void GjFewTidsFree(GjFewTids *few);

#endif							/* GPUJOIN_SETS_FEWTIDS_H */
