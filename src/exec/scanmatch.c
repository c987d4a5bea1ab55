/*-------------------------------------------------------------------------
 *
 * scanmatch.c
 *	  What a GpuScan asks its index: for which keys, and with how much memory.
 *
 * The values of the key conditions are evaluated once, into a set.  Scans of other
 * partitions that ask for the same keys share it, and each takes the part that its
 * table can have (keyshare.c).  Within EvalPlanQual, where params get other values
 * without a word, a scan makes a set of its own.
 *
 * In a parallel plan it may be another process that searches (parallel.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"

#include "base/gpujoin.h"
#include "pages/pages.h"
#include "scan.h"

static const GjKeySet *share_keys(GjScanState *scan);

/*
 * Make the set of keys, from this scan's own values or with the others of the query
 */
void
GjScanMakeKeys(GjScanState *scan)
{
	GjTableScan *table = &scan->table;
	instr_time	start;
	instr_time	end;

	INSTR_TIME_SET_CURRENT(start);
	if (table->css.ss.ps.state->es_epq_active != NULL)
		table->keys = GjKeyProgramRun(scan->program, table->css.ss.ps.ps_ExprContext,
									  table->context, GjIndexKeyWidth(table->index));
	else
		table->keys = share_keys(scan);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_ACCUM_DIFF(table->stats.set_elapsed, end, start);
}

static const GjKeySet *
share_keys(GjScanState *scan)
{
	GjTableScan *table = &scan->table;
	GjKeyRequest request = {
		.key_plan = GjTableScanGetPrivate(table, GJ_SCAN_KEY_PLAN),
		.values = (List *) GjTableScanGetExpr(table, GJ_SCAN_VALUES),
		.program = scan->program,
		.econtext = table->css.ss.ps.ps_ExprContext,
		.key_width = GjIndexKeyWidth(table->index),
	};

	GjKeysTake(&scan->key_user, table->css.ss.ps.state, &request);
	return GjKeysPart(&scan->key_user, GjTableScanGetPrivate(table, GJ_SCAN_PARTITIONS),
					  table->context);
}

/*
 * Begin to search for the keys.  Returns the TIDs that were found; NULL if the index-only
 * answer has begun instead.
 */
GjTidSet *
GjScanMatch(GjScanState *scan)
{
	GjTableScan *table = &scan->table;
	uint64		columns = table->row_fill != NULL ? table->row_fill->columns : 0;

	return GjParallelMatch(table, columns, GjScanMemory(scan), true);
}

/*
 * What the keys leave of the memory
 */
Size
GjScanMemory(const GjScanState *scan)
{
	Size		limit = GjWorkMemory();
	Size		used = GjKeySetMemory(scan->table.keys);

	return used < limit / 2 ? limit - used : limit / 2;
}
