/*-------------------------------------------------------------------------
 *
 * entries.c
 *	  Rows of a GpuJoinScan that come from index entries.
 *
 * They are loaded one chunk at a time (exec/indexonly.c), and the keys of a chunk are looked up
 * together.  Then each row is stored in the joined slot separately; or, if the join can do
 * without that, directly in the result (direct.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"

#include "node/joinplan.h"
#include "scan.h"

static bool load_rows(GjJoinScanState *scan, GjSmallSide *small);
static void find_partners(GjJoinScanState *scan, GjSmallSide *small, GjIndexOnlyChunk *chunk);

/*
 * Return the columns that entries must have, once it is known whether partners will be looked up
 */
uint64
GjJoinEntriesColumns(const GjJoinScanState *scan)
{
	const GjTableScan *table = &scan->table;
	const GjFill *fill = scan->direct_fill != NULL ? scan->direct_fill :
		table->target_fill != NULL ? table->target_fill : table->row_fill;

	return (fill != NULL ? fill->columns : 0) | GjEntryFilterColumns(table->entry_filter) |
		(scan->lookup ? GJ_ENTRY_KEY : 0);
}

/*
 * Return the partners of the next row that does not need the heap
 */
GjSmallRow *
GjJoinEntriesNext(GjJoinScanState *scan, GjSmallSide *small)
{
	GjTableScan *table = &scan->table;
	PlanState  *ps = &table->css.ss.ps;
	GjIndexOnlyChunk *chunk = GjIndexOnlyGetChunk(table->index_only);

	while (chunk->next < chunk->nrows || load_rows(scan, small))
	{
		GjSmallRow *partners = scan->partners[chunk->next];
		uint64		entry = chunk->first + chunk->rows[chunk->next++];

		if (table->target_fill != NULL)
		{
			GjFillFromEntry(table->target_fill, entry, scan->projection->pi_state.resultslot);
			return partners;
		}
		GjFillFromEntry(table->row_fill, entry, table->css.ss.ss_ScanTupleSlot);
		ResetExprContext(ps->ps_ExprContext);
		ps->ps_ExprContext->ecxt_scantuple = table->css.ss.ss_ScanTupleSlot;
		if (table->filter_is_all || ExecQual(ps->qual, ps->ps_ExprContext))
		{
			ExecProject(scan->projection);
			return partners;
		}
		InstrCountFiltered1(ps, 1);
	}
	return NULL;
}

static bool
load_rows(GjJoinScanState *scan, GjSmallSide *small)
{
	if (!GjJoinEntriesLoad(scan, small))
		return false;
	GjIndexOnlyPrefetch(scan->table.index_only);
	return true;
}

/*
 * Return true if the next rows are entries.  They precede the rows that are fetched from the
 * heap.
 */
bool
GjJoinHasEntries(const GjJoinScanState *scan)
{
	return GjIndexOnlyIsStarted(scan->table.index_only) && !scan->fetching;
}

/*
 * Load the next entries that are rows, with their partners if these are needed.  Returns false at
 * the end.
 */
bool
GjJoinEntriesLoad(GjJoinScanState *scan, GjSmallSide *small)
{
	GjIndexOnlyChunk *chunk = GjIndexOnlyGetChunk(scan->table.index_only);

	while (GjIndexOnlyLoad(scan->table.index_only))
	{
		if (scan->lookup)
			find_partners(scan, small, chunk);
		if (chunk->nrows > 0)
			return true;
	}
	return false;
}

/*
 * Look up the keys of a chunk's rows, and drop any rows that have no partners
 */
static void
find_partners(GjJoinScanState *scan, GjSmallSide *small, GjIndexOnlyChunk *chunk)
{
	int64		codes[GJ_CHUNK_ENTRIES];
	GjRowKeys	keys = {.n = chunk->nrows,.codes = codes};

	GjIndexOnlyKeys(scan->table.index_only, codes);
	chunk->nrows = GjSmallLookupRows(small, &keys, chunk->rows, scan->partners);
}
