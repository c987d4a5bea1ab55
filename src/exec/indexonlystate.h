/*-------------------------------------------------------------------------
 *
 * indexonlystate.h
 *	  The state of an index-only answer; for indexonly.c and indexonlyshare.c only.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_INDEXONLYSTATE_H
#define GPUJOIN_EXEC_INDEXONLYSTATE_H

#include "match/match.h"
#include "indexonly.h"
#include "visiblemap.h"

/* What comes next */
typedef enum GjIndexOnlyPhase
{
	GJ_INDEX_ONLY_OFF,			/* nothing: no match has been started */
	GJ_INDEX_ONLY_ENTRIES,		/* entries */
	GJ_INDEX_ONLY_REST,			/* the rest, and entries again when it has been fetched */
	GJ_INDEX_ONLY_LAST_REST		/* the rest, and then nothing */
} GjIndexOnlyPhase;

struct GjIndexOnly
{
	GjIndexOnlyChunk chunk;		/* must be first */

	Relation	heap;
	Relation	index;
	Snapshot	snapshot;
	List	   *fills;			/* of the slots that entries are put into */
	struct GjEntryFilter *filter;	/* what entries have to pass; NULL: nothing */

	/* The match that is being delivered */
	MemoryContext parent;
	MemoryContext context;		/* of all that follows */
	GjIndexOnlyPhase phase;
	Size		limit;
	uint64		columns;		/* wanted, a bit each as in GjFill */
	GjMatchStats *match_stats;
	GjEntryMatch match;
	GjEntrySet *whole;			/* for a device's answer, at once or divided */
	GjEntrySet *piece;			/* for the CPU's, piece by piece, or others' */
	GjEntrySet *entries;		/* one of the two */
	uint64		position;		/* in it, behind the last chunk */
	int			npieces;		/* so far */
	GjVisibleMap *map;			/* what has been read of it since the entries were found */
	uint64		nproved;		/* reads of it behind which the epoch has been read, too */
	bool		certain;		/* the epoch has not moved yet */
	GjTidSet   *plain;			/* the rest if all that was found is outdated: the set's own */
	GjTidSet   *rest;			/* TIDs for the heap, else; NULL: none so far */
	uint64		nrest;			/* in it: not yet distinct */
	GjSharePart part;			/* in a shared match; found is NULL if it is not shared */
	GjIndexOnlyStats stats;
};

/* indexonly.c: make a set for what is to be found; make one for pieces of it instead */
extern void GjIndexOnlyPrepare(GjIndexOnly *io, uint64 columns, MemoryContext parent, Size limit,
							   GjMatchStats *stats);
extern void GjIndexOnlyMakePiece(GjIndexOnly *io);

/* deliver these entries from the first one on */
extern void GjIndexOnlyDeliver(GjIndexOnly *io, GjEntrySet *entries);

#endif							/* GPUJOIN_EXEC_INDEXONLYSTATE_H */
