/*-------------------------------------------------------------------------
 *
 * execjoinscan.h
 *	  One table of a GpuJoin's big side, while it is scanned.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXECJOINSCAN_H
#define GPUJOIN_EXECJOINSCAN_H

#include "exec.h"
#include "execparallel.h"
#include "exec/filter.h"
#include "smallside.h"

/*
 * A plan node of its own, but rows are taken from it by the join above, through
 * the functions below.  Its scan slot holds the row of the table; its expression
 * context has that row, and its per-tuple memory lives as long.
 */
typedef struct GjJoinScanState
{
	CustomScanState css;		/* first, and the share second: execparallel.h */
	GjShare		share;
	Relation	index;			/* NULL in a mere EXPLAIN */
	GjKeyReader key_reader;
	GjEntryFilter *entry_filter;	/* what entries have to pass; NULL: nothing */
	bool		unfiltered;		/* the TIDs are to be those of all entries, all the same */
	bool		filter_is_all;	/* it has all filters of the plan, if there are any */
	GjIndexOnly *index_only;	/* NULL: the plan needs the heap */
	GjTidSet   *tids;			/* of the current batch; NULL: not searched for, or not so */
	MemoryContext context;		/* of what is found */
	const GjKeySet *keys;		/* during a match */
	GjKeySet   *own_keys;		/* freed with what was found for them; NULL: the join's */
	TupleTableSlot *heap_slot;	/* for fetched tuples; with index_only not the scan slot */
	bool		fetching;		/* tuples are; entries, if any, are done */
	GjEntryFill *row_fill;		/* entries to the scan slot */
	GjEntryFill *joined_fill;	/* to the joined slot; NULL: there is more to do */
	GjEntryFill *direct_fill;	/* to the join's result slot; NULL: there is more to do */
	bool		lookup;			/* entries' partners are wanted */
	GjSmallRow **partners;		/* of the rows in the chunk */
	GjFetch    *fetch;
	GjTupleFill *tuple_fill;	/* fetched tuples to the join's result slot; NULL: there is
								 * more to do */
	GjFetchBlock *block;		/* of the fetch */
	bool		joined;			/* the fetch looks up the keys */
	bool		filtered;		/* it only tests them: any partner is as good as another */
	const GjKeySet *filter;		/* by this set; NULL: it must not */
	ProjectionInfo *projection; /* scan slot to the joined slot's big columns */
	GjMatchStats stats;
} GjJoinScanState;

extern void GjJoinScanAttach(GjJoinScanState *scan, TupleTableSlot *joined);
extern bool GjJoinScanIsReady(const GjJoinScanState *scan);
extern bool GjJoinScanIsMatching(const GjJoinScanState *scan);
extern void GjJoinScanMatch(GjJoinScanState *scan, const GjKeySet *keys, bool all_keys,
							bool lookup);
extern void GjJoinScanStart(GjJoinScanState *scan, GjSmallSide *small, const GjKeySet *filter);
extern GjSmallRow *GjJoinScanNext(GjJoinScanState *scan, GjSmallSide *small);
extern bool GjJoinScanContinue(GjJoinScanState *scan);
extern void GjJoinScanStop(GjJoinScanState *scan);
extern void GjJoinScanDropTids(GjJoinScanState *scan);

/* execjoinentries.c */
extern void GjJoinEntriesInit(GjJoinScanState *scan);
extern void GjJoinEntriesMatch(GjJoinScanState *scan, Size limit, bool all_keys, bool lookup,
							   GjMatchFunction search);
extern bool GjJoinHasEntries(const GjJoinScanState *scan);
extern bool GjJoinEntriesLoad(GjJoinScanState *scan, GjSmallSide *small);
extern GjSmallRow *GjJoinEntriesNext(GjJoinScanState *scan, GjSmallSide *small);

#endif							/* GPUJOIN_EXECJOINSCAN_H */
