/*-------------------------------------------------------------------------
 *
 * scan.h
 *	  One table of a GpuJoin's big side, during a scan.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_JOIN_SCAN_H
#define GPUJOIN_JOIN_SCAN_H

#include "exec/exec.h"

/*
 * State of a GpuJoinScan.  It is a separate plan node, but the join above takes its rows through
 * the functions below.  Its scan slot holds the row of the table; its expression context refers
 * to that row, and its per-tuple memory lasts as long.
 */
typedef struct GjJoinScanState
{
	GjTableScan		table;			/* must be first; its tids belong to the current batch, its
									 * keys are set during a match, its target is the joined slot */
	GjKeySet   *own_keys;		/* keys of this table alone, freed with the results for them;
								 * NULL if the join's are used */
	bool		fetching;		/* are rows being fetched from the heap, after any entries? */
	GjFill	   *direct_fill;	/* fills the join's result slot from entries; NULL if more work
								 * is needed */
	bool		lookup;			/* are the partners of entries needed? */
	void	  **partners;		/* partners of the chunk's rows: GjSmallRow */
	GjFetchBlock *block;		/* current block of the fetch */
	bool		joined;			/* does the fetch look up the keys?  If it only filters by them,
								 * any partner will do */
	const GjKeySet *filter;		/* set by which the fetch filters, or NULL */
	ProjectionInfo *projection; /* from the scan slot to the joined slot's big columns */
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
