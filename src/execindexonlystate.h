/*-------------------------------------------------------------------------
 *
 * execindexonlystate.h
 *	  The state of an index-only answer; for execindexonly.c and execindexonlyshare.c only.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXECINDEXONLYSTATE_H
#define GPUJOIN_EXECINDEXONLYSTATE_H

#include "exec.h"

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
	MemoryContext context;		/* of all that follows; NULL: not started */
	Size		limit;
	uint64		columns;		/* wanted, a bit each as in GjEntryFill */
	GjMatchStats *match_stats;
	GjEntryMatch match;
	GjEntrySet *whole;			/* for a device's answer, at once or divided */
	GjEntrySet *piece;			/* for the CPU's, piece by piece, or others' */
	GjEntrySet *entries;		/* one of the two */
	uint64		position;		/* in it, behind the last chunk */
	int			npieces;		/* so far */
	bool		certain;		/* the epoch has not moved yet */
	GjTidSet   *rest;			/* TIDs for the heap */
	bool		rest_is_plain;	/* the set's own: all that was found is outdated */
	uint64		nrest;			/* in it: not yet distinct */
	bool		rest_is_next;	/* no more entries, for good or before it has been fetched */
	bool		rest_is_last;	/* for good */
	GjSharePart part;			/* in a shared match; found is NULL if it is not shared */
	GjIndexOnlyStats stats;
};

/* execindexonly.c: make a set for what is to be found; make one for pieces of it instead */
extern void GjIndexOnlyPrepare(GjIndexOnly *io, uint64 columns, MemoryContext parent, Size limit,
							   GjMatchStats *stats);
extern void GjIndexOnlyMakePiece(GjIndexOnly *io);

/* deliver these entries from the first one on */
extern void GjIndexOnlyDeliver(GjIndexOnly *io, GjEntrySet *entries);

#endif							/* GPUJOIN_EXECINDEXONLYSTATE_H */
