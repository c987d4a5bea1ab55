/*-------------------------------------------------------------------------
 *
 * parallel.h
 *	  One match for all processes of a parallel plan: found once, fetched by all.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_PARALLEL_H
#define GPUJOIN_EXEC_PARALLEL_H

#include "access/parallel.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"

#include "match/match.h"
#include "fetch.h"
#include "indexonly.h"

/*
 * A node's part in a parallel plan, in its state in each process.  The node sets what
 * is set here when it begins.
 */
typedef struct GjShare
{
	struct GjSharedMatch *shared;	/* in the plan's shared memory; NULL: not in parallel */
	bool		alone;			/* shared, but this process does all of it */
	GjFetch    *fetch;			/* set: what delivers the rows, with its counters */
	GjMatchStats *stats;		/* set: of this process's matches */
	GjIndexOnlyStats *index_only;	/* set: of its index-only answers; NULL: it has none */
	void		(*forget) (CustomScanState *node);	/* set: drop the TIDs, and whatever has
													 * been made of them */
} GjShare;

/* What the state of a node that shares its match begins with */
typedef struct GjSharingState
{
	CustomScanState css;
	GjShare		share;
} GjSharingState;

/* Finds the TIDs, in no more than limit bytes */
typedef GjTidSet *(*GjMatchFunction) (CustomScanState *node, Size limit);

/*
 * The TIDs that this process is to fetch: all, its share of them, or none.  A share
 * delivers its blocks once, and is good until it is reset or shut down.
 *
 * can_share: the match answers for all that the node will ask for in this execution.
 * If it does not in the process that comes first, this process does all.
 */
extern GjTidSet *GjShareMatch(CustomScanState *node, MemoryContext context, Size limit,
							  bool can_share, GjMatchFunction match);

/*
 * The same for index-only answers from these columns.  NULL: rows come from io, all of them
 * or this process's share; else TIDs are to be fetched as above, which are what match finds
 * if the index is not complete.  The keys must live until io is reset.
 */
extern GjTidSet *GjShareEntries(CustomScanState *node, GjIndexOnly *io, const GjKeySet *keys,
								uint64 columns, MemoryContext context, Size limit,
								bool can_share, GjMatchFunction match);

/* The methods of a parallel-aware node */
extern Size GjShareEstimate(CustomScanState *node, ParallelContext *pcxt);
extern void GjShareInit(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void GjShareReset(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void GjShareAttach(CustomScanState *node, shm_toc *toc, void *shared);
extern void GjShareShutdown(CustomScanState *node);

#endif							/* GPUJOIN_EXEC_PARALLEL_H */
