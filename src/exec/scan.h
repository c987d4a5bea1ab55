/*-------------------------------------------------------------------------
 *
 * scan.h
 *	  A GpuScan, while it is executed.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_SCAN_H
#define GPUJOIN_EXEC_SCAN_H

#include "node/scanplan.h"
#include "exec.h"
#include "keyshare.h"
#include "parallel.h"

typedef struct GjScanState
{
	CustomScanState css;		/* first, and the share second: parallel.h */
	GjShare		share;
	Relation	index;			/* NULL in a mere EXPLAIN */
	GjKeyProgram *program;		/* the conditions on the key */
	GjKeyReader key_reader;

	/* Made when first needed, dropped with context when params change */
	MemoryContext context;
	const GjKeySet *keys;		/* what the key user has, or a part of it */
	GjTidSet   *tids;			/* what is fetched; NULL: not known yet */

	GjKeyUser	key_user;
	GjIndexOnly *index_only;	/* NULL: the plan needs the heap */
	TupleTableSlot *heap_slot;	/* for fetched tuples; with index_only not the scan slot */
	GjFill	   *row_fill;		/* of its scan slot */
	GjFill	   *target_fill;	/* of the result slot; NULL: there is more to do */
	GjFill	   *tuple_fill;	/* the same for fetched tuples */
	GjFetch    *fetch;
	bool		filtered;		/* the fetch rechecks the keys */
	bool		is_cursor;		/* somebody may ask where a row lies */
	GjMatchStats stats;
} GjScanState;

/* scanmatch.c: what a scan asks its index */
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

#endif							/* GPUJOIN_EXEC_SCAN_H */
