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

#include "base/compat.h"
#include "rows/rows.h"
#include "indexonly.h"
#include "parallel.h"
#include "tablescan.h"

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

#endif							/* GPUJOIN_EXEC_H */
