/*-------------------------------------------------------------------------
 *
 * execscan.h
 *	  A GpuScan, while it is executed.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXECSCAN_H
#define GPUJOIN_EXECSCAN_H

#include "exec.h"
#include "execkeyshare.h"
#include "execparallel.h"
#include "plan.h"
#include "exec/filter.h"

typedef struct GjScanState
{
	CustomScanState css;		/* first, and the share second: execparallel.h */
	GjShare		share;
	Relation	index;			/* NULL in a mere EXPLAIN */
	GjKeyProgram *program;		/* the conditions on the key */
	GjKeyReader key_reader;

	/* Made when first needed, dropped with context when params change */
	MemoryContext context;
	const GjKeySet *keys;		/* what the key user has, or a part of it */
	GjTidSet   *tids;			/* what is fetched; NULL: not known yet */

	GjKeyUser	key_user;
	GjEntryFilter *entry_filter;	/* what entries have to pass; NULL: nothing */
	bool		unfiltered;		/* the TIDs are to be those of all entries, all the same */
	GjIndexOnly *index_only;	/* NULL: the plan needs the heap */
	TupleTableSlot *heap_slot;	/* for fetched tuples; with index_only not the scan slot */
	GjEntryFill *row_fill;		/* of its scan slot */
	GjEntryFill *target_fill;	/* of the result slot; NULL: there is more to do */
	GjTupleFill *tuple_fill;	/* the same for fetched tuples */
	GjFetch    *fetch;
	bool		filtered;		/* the fetch rechecks the keys */
	bool		is_cursor;		/* somebody may ask where a row lies */
	GjMatchStats stats;
} GjScanState;

/* execscanmatch.c: what a scan asks its index */
extern void GjScanMakeKeys(GjScanState *scan);
extern GjTidSet *GjScanMatch(GjScanState *scan);

/* A list in the plan's private data */
static inline List *
GjScanGetPrivate(const CustomScan *plan, GjScanPrivate item)
{
	Assert(list_length(plan->custom_private) == GJ_SCAN_PRIVATE_COUNT);
	return (List *) list_nth(plan->custom_private, item);
}

/* One of the plan's expressions, or a list of such */
static inline Node *
GjScanGetExpr(const CustomScan *plan, GjScanExprs item)
{
	Assert(list_length(plan->custom_exprs) == GJ_SCAN_EXPRS_COUNT);
	return list_nth(plan->custom_exprs, item);
}

#endif							/* GPUJOIN_EXECSCAN_H */
