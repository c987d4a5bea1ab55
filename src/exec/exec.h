/*-------------------------------------------------------------------------
 *
 * exec.h
 *	  GpuScan and GpuAlternative, and the scan of a table that GpuJoin uses, too; EXPLAIN.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_H
#define GPUJOIN_EXEC_H

#include "access/parallel.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"

#include "base/compat.h"
#include "match/match.h"
#include "node/tableplan.h"
#include "rows/rows.h"

/* A table that is scanned by its index: the beginning of the states of GpuScan and GpuJoinScan */
typedef struct GjTableScan
{
	CustomScanState css;		/* must be first */
	Relation	index;			/* NULL in EXPLAIN without ANALYZE */
	GjKeyReader key_reader;
	MemoryContext context;		/* memory of the results */
	const GjKeySet *keys;		/* keys to search for */
	GjTidSet   *tids;			/* TIDs to fetch; NULL before a search, or if rows come from
								 * entries */
	GjIndexOnly *index_only;	/* NULL if the plan needs the heap */
	TupleTableSlot *heap_slot;	/* slot for fetched tuples; without index_only the scan slot */
	GjFetch    *fetch;
	GjRowBatch *fetched;		/* the fetch's batch */
	bool		filtered;		/* does the fetch recheck the keys? */
	GjFill	   *row_fill;		/* from entries to the scan slot */
	GjFill	   *target_fill;	/* from entries to the target list; NULL if it needs more work */
	GjFill	   *tuple_fill;		/* from fetched tuples to the result slot; NULL likewise */
	GjFill	   *array_fill;		/* from fetched tuples to arrays; NULL likewise */
	GjMatchStats stats;

	/* The filter of index entries, before they become rows or TIDs */
	GjEntryFilter *entry_filter;	/* NULL if there is no filter */
	bool		filter_is_all;	/* does an entry that passes satisfy all quals of the plan? */
	bool		all_tids;		/* are TIDs of all entries needed, whether they pass or not? */

	/* Use of the index, to be added to its usage counters (tablescan.c) */
	Oid			counted_index;	/* InvalidOid once it has been added */
	bool		used;			/* has this process requested a match? */
	GjIndexUse	moved;			/* difference from the statistics, modulo 2^64 */
	MemoryContextCallback at_end;

	/* Shared state in a parallel plan (parallel.c) */
	struct GjSharedMatch *shared;	/* in the plan's shared memory, or NULL */
	GjShare		share;			/* this process's part of the match */
	void		(*forget) (CustomScanState *node);	/* frees the TIDs and everything made from
													 * them */
} GjTableScan;

/* Facts about a scan of a table for EXPLAIN, in addition to those in its GjTableScan */
typedef struct GjTableReport
{
	List	   *key_quals;		/* clauses that the index answers; NIL in a join's scan */
	List	   *order;			/* GJ_SCAN_ORDER, or NIL */
	List	   *sort_columns;	/* expressions of the order */
	const struct GjOrderedStats *ordered;	/* NULL if no search was made */
} GjTableReport;

/* Facts about a join */
typedef struct GjJoinReport
{
	const char *join_type;
	List	   *key_quals;		/* clause that the indexes answer */
	List	   *joinquals;		/* conditions for a pair to match */
	List	   *otherquals;		/* conditions for a result row to be returned */
	uint64		removed;		/* result rows removed by otherquals */
	uint64		small_rows;
	uint64		batches;		/* batches of the small side */
	Size		peak_memory;	/* bytes of the largest batch */
} GjJoinReport;

/* Facts about groups and aggregates */
typedef struct GjAggReport
{
	List	   *group_keys;		/* expressions, or NIL */
	bool		is_partial;
	bool		has_counters;	/* has the node been started?  Without it, the rest is not set */
	uint64		groups;
	uint64		batches;
	uint64		array_rows;		/* rows read as arrays */
	uint64		slot_rows;		/* rows read one by one */
	uint64		passes;
	uint64		flushes;		/* times that partial groups were returned before all rows were
								 * read */
	Size		peak_memory;	/* in bytes */
	uint64		disk_size;		/* in bytes */
} GjAggReport;

/* tablescan.c */
extern Relation GjOpenIndex(EState *estate, Index scanrelid, Oid index_oid);
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

/* parallel.c */

/*
 * Search for table->keys, or take this process's share of the results of another process.  Returns
 * the TIDs to be fetched, or NULL if rows come from entries with these columns, as in
 * GjEntryRequest.  can_share is true if this execution searches for no other keys; if it is false
 * in the first process, that process does all of the work.  The keys must live until index_only is
 * reset.  A share of TIDs can be fetched once, until it is reset or shut down.
 */
extern GjTidSet *GjParallelMatch(GjTableScan *table, uint64 columns, Size limit, bool can_share);

/* The methods of a parallel-aware node */
extern Size GjParallelEstimate(CustomScanState *node, ParallelContext *pcxt);
extern void GjParallelInit(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void GjParallelReset(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void GjParallelAttach(CustomScanState *node, shm_toc *toc, void *shared);
extern void GjParallelShutdown(CustomScanState *node);

/* explain.c */
extern void GjExplainTable(GjTableScan *table, List *ancestors, ExplainState *es,
						   const GjTableReport *report);
extern void GjExplainJoin(CustomScanState *node, List *ancestors, ExplainState *es,
						  const GjJoinReport *report);
extern void GjExplainAgg(CustomScanState *node, List *ancestors, ExplainState *es,
						 const GjAggReport *report);
extern void GjExplainAlternative(ExplainState *es, int cpu_keys, int device_keys);

/* scan.c */
extern void GjExecScanInit(void);

/* alternative.c */
extern void GjExecAlternativeInit(void);

/* Return one of the lists in the plan's private data */
static inline List *
GjTableScanGetPrivate(const GjTableScan *table, int item)
{
	const CustomScan *plan = (const CustomScan *) table->css.ss.ps.plan;

	Assert(list_length(plan->custom_private) >= GJ_TABLE_PRIVATE_COUNT);
	return (List *) list_nth(plan->custom_private, item);
}

/* Return one of the plan's expressions, or a list of them */
static inline Node *
GjTableScanGetExpr(const GjTableScan *table, int item)
{
	const CustomScan *plan = (const CustomScan *) table->css.ss.ps.plan;

	Assert(list_length(plan->custom_exprs) >= GJ_TABLE_EXPRS_COUNT);
	return list_nth(plan->custom_exprs, item);
}

#endif							/* GPUJOIN_EXEC_H */
