/*-------------------------------------------------------------------------
 *
 * search.h
 *	  The match that a scan asks for, under its snapshot.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_SEARCH_H
#define GPUJOIN_EXEC_SEARCH_H

#include "match/match.h"
#include "rows/rows.h"

extern void GjExecMatch(Relation heap, Relation index, Snapshot snapshot, const GjKeySet *keys,
						GjTidSet *tids, GjMatchStats *stats);
extern void GjExecMatchAll(Relation heap, Snapshot snapshot, GjTidSet *tids,
						   GjMatchStats *stats);
extern GjEntrySet *GjExecCreateEntries(Relation index, MemoryContext parent, Size limit,
									   uint64 columns);
extern void GjExecMatchEntries(GjEntryMatch *match, Relation index, Snapshot snapshot,
							   const GjKeySet *keys, GjEntrySet *whole,
							   GjMatchStats *stats);
extern bool GjExecShareRanges(GjSharedRanges *shared, Relation index, Snapshot snapshot,
							  const GjKeySet *keys, uint64 capacity, int nprocesses,
							  GjMatchStats *stats);

/* filteredmatch.c */
extern int	GjFilterEntries(GjEntryFilter *filter, const GjEntrySet *set, uint64 first, int n,
							uint16 *rows);
extern GjTidSet *GjExecMatchFiltered(Relation heap, Relation index, Snapshot snapshot,
									 const GjKeySet *keys, GjEntryFilter *filter,
									 MemoryContext parent, Size limit, GjMatchStats *stats);

#endif							/* GPUJOIN_EXEC_SEARCH_H */
