/*-------------------------------------------------------------------------
 *
 * tablescan.h
 *	  A table that is scanned by its index.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_TABLESCAN_H
#define GPUJOIN_EXEC_TABLESCAN_H

#include "nodes/execnodes.h"
#include "nodes/extensible.h"

#include "match/match.h"
#include "node/tableplan.h"
#include "rows/rows.h"
#include "indexonly.h"

/*
 * A table that is scanned by its index: what the states of GpuScan and GpuJoinScan begin with
 */
typedef struct GjTableScan
{
	CustomScanState css;		/* first */
	Relation	index;			/* NULL in a mere EXPLAIN */
	GjKeyReader key_reader;
	MemoryContext context;		/* of what is found */
	const GjKeySet *keys;		/* that are searched for */
	GjTidSet   *tids;			/* what is fetched; NULL: not known yet, or not so */
	GjIndexOnly *index_only;	/* NULL: the plan needs the heap */
	TupleTableSlot *heap_slot;	/* for fetched tuples; with index_only not the scan slot */
	GjFetch    *fetch;
	bool		filtered;		/* the fetch rechecks the keys */
	GjFill	   *row_fill;		/* entries to the scan slot */
	GjFill	   *target_fill;	/* to a slot of the target list; NULL: there is more to do */
	GjFill	   *tuple_fill;		/* fetched tuples to the result slot; NULL likewise */
	GjFill	   *array_fill;		/* to arrays of the result's columns; NULL likewise */
	GjMatchStats stats;

	/* What index entries are tested by, before they become rows or TIDs (filter.h) */
	GjEntryFilter *entry_filter;	/* NULL: nothing */
	bool		filter_is_all;	/* an entry that passes satisfies all quals of the plan */
	bool		all_tids;		/* TIDs are to be those of all entries, all the same */

	/* What was done with the index, to be added to what is counted for it (tablescan.c) */
	Oid			counted_index;	/* InvalidOid: it has been added */
	bool		used;			/* this process has asked for a match */
	GjIndexUse	moved;			/* to be added to what the statistics say; modulo 2^64 */
	MemoryContextCallback at_end;

	/* The part in a parallel plan (parallel.c) */
	struct GjSharedMatch *shared;	/* in the plan's shared memory; NULL: not in parallel */
	GjShare		share;			/* this process's part of the match */
	void		(*forget) (CustomScanState *node);	/* drop the TIDs, and whatever has been
													 * made of them */
} GjTableScan;

extern Relation GjOpenIndex(EState *estate, Index scanrelid, Oid index_oid);

/* tablescan.c */
extern void GjCountHold(GjTableScan *table);
extern void GjCountRelease(GjTableScan *table);
extern void GjCountGroups(PlanState *node, uint64 ngroups);

extern void GjTableScanInitSlots(GjTableScan *table);
extern void GjTableScanInitQual(GjTableScan *table);
extern void GjTableScanOpen(GjTableScan *table, bool to_target,
							void (*forget) (CustomScanState *node));
extern GjEntryRequest GjTableScanRequest(GjTableScan *table, Size limit);
extern void GjTableScanRefilter(GjTableScan *table);
extern bool GjTableScanContinue(GjTableScan *table);
extern void GjTableScanClear(GjTableScan *table);
extern void GjTableScanEnd(GjTableScan *table);

/* One of the lists in the plan's private data */
static inline List *
GjTableScanGetPrivate(const GjTableScan *table, int item)
{
	const CustomScan *plan = (const CustomScan *) table->css.ss.ps.plan;

	Assert(list_length(plan->custom_private) >= GJ_TABLE_PRIVATE_COUNT);
	return (List *) list_nth(plan->custom_private, item);
}

/* One of the plan's expressions, or a list of such */
static inline Node *
GjTableScanGetExpr(const GjTableScan *table, int item)
{
	const CustomScan *plan = (const CustomScan *) table->css.ss.ps.plan;

	Assert(list_length(plan->custom_exprs) >= GJ_TABLE_EXPRS_COUNT);
	return list_nth(plan->custom_exprs, item);
}

#endif							/* GPUJOIN_EXEC_TABLESCAN_H */
