/*-------------------------------------------------------------------------
 *
 * visiblemap.h
 *	  The visibility map, asked for many TIDs in any order.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_VISIBLEMAP_H
#define GPUJOIN_EXEC_VISIBLEMAP_H

#include "nodes/memnodes.h"
#include "utils/relcache.h"

typedef struct GjVisibleMap GjVisibleMap;

/* What is copied of the map takes up to so much memory */
extern GjVisibleMap *GjVisibleMapCreate(MemoryContext context, Relation heap, Size limit);

/*
 * Sort TIDs into those on all-visible blocks, whose numbers are put into rows[] and whose count
 * is returned, and the others, which are put into rest[].  None is above highest.  The map is
 * read now, or has been since it was last forgotten.
 */
extern int	GjVisibleMapSort(GjVisibleMap *map, const uint64 *tids, int n, uint64 highest,
							 uint16 *rows, uint64 *rest, int *nrest);

/* How often has the map been read? */
extern uint64 GjVisibleMapReads(const GjVisibleMap *map);

/* Forget what has been read.  What is found later must be tested by what is read later. */
extern void GjVisibleMapForget(GjVisibleMap *map);

/* The same for few: is each on an all-visible block?  Returns how many are. */
extern int	GjVisibleMapTest(Relation heap, const uint64 *tids, int n, bool *visible);

#endif							/* GPUJOIN_EXEC_VISIBLEMAP_H */
