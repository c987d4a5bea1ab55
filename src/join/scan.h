/*-------------------------------------------------------------------------
 *
 * scan.h
 *	  One table of a GpuJoin's big side, while it is scanned.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_JOIN_SCAN_H
#define GPUJOIN_JOIN_SCAN_H

#include "exec/exec.h"

/*
 * A plan node of its own, but rows are taken from it by the join above, through
 * the functions below.  Its scan slot holds the row of the table; its expression
 * context has that row, and its per-tuple memory lives as long.
 */
typedef struct GjJoinScanState
{
	GjTableScan		table;			/* first; its tids are of the current batch, its keys are set
								 * during a match, its target is the joined slot */
	GjKeySet   *own_keys;		/* freed with what was found for them; NULL: the join's */
	bool		fetching;		/* tuples are; entries, if any, are done */
	GjFill	   *direct_fill;	/* to the join's result slot; NULL: there is more to do */
	bool		lookup;			/* entries' partners are wanted */
	GjSmallRow **partners;		/* of the rows in the chunk */
	GjFetchBlock *block;		/* of the fetch */
	bool		joined;			/* the fetch looks up the keys; if it filters by them instead,
								 * any partner is as good as another */
	const GjKeySet *filter;		/* by this set; NULL: it must not */
	ProjectionInfo *projection; /* scan slot to the joined slot's big columns */
} GjJoinScanState;

/* scan.c */
extern CustomScanMethods GjJoinScanPlanMethods;

extern void GjJoinScanAttach(GjJoinScanState *scan, TupleTableSlot *joined);
extern bool GjJoinScanIsReady(const GjJoinScanState *scan);
extern bool GjJoinScanIsMatching(const GjJoinScanState *scan);
extern void GjJoinScanMatch(GjJoinScanState *scan, const GjKeySet *keys, bool all_keys,
							bool lookup);
extern void GjJoinScanStart(GjJoinScanState *scan, GjSmallSide *small, const GjKeySet *filter);
extern void GjJoinScanFetchRest(GjJoinScanState *scan, GjSmallSide *small);
extern GjSmallRow *GjJoinScanNext(GjJoinScanState *scan, GjSmallSide *small);
extern bool GjJoinScanContinue(GjJoinScanState *scan);
extern void GjJoinScanStop(GjJoinScanState *scan);
extern void GjJoinScanDropTids(GjJoinScanState *scan);

/* entries.c */
extern uint64 GjJoinEntriesColumns(const GjJoinScanState *scan);
extern bool GjJoinHasEntries(const GjJoinScanState *scan);
extern bool GjJoinEntriesLoad(GjJoinScanState *scan, GjSmallSide *small);
extern GjSmallRow *GjJoinEntriesNext(GjJoinScanState *scan, GjSmallSide *small);

#endif							/* GPUJOIN_JOIN_SCAN_H */
