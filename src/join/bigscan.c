/*-------------------------------------------------------------------------
 *
 * bigscan.c
 *	  GpuJoinScan: one table of a GpuJoin's big side.
 *
 * The join passes the keys for which to search the index, and then fetches one row after another
 * that has partners on the small side and passes the table's filters.  The row's columns are
 * stored directly in the joined slot, which belongs to the join: nothing is copied or allocated
 * for a row.
 *
 * The first test of a fetched row is the lookup of its key, because it stands for the clause that
 * the index answers, and eliminates most rows that do not belong here.  The filters follow, in
 * the order that security levels require; then, in the join, clauses that refer to both sides.
 *
 * If the join's clauses are several equalities, and the index has their columns, entries without
 * partners are dropped before that: the table of small rows is the exact table of the entry filter
 * (rows/filter.c).  match/stream.c has the proof that no row is lost.
 *
 * If the index has all columns that are needed, rows of all-visible pages come from entries, and
 * are looked up by the entry's key; the other rows follow from the heap, by the key of the tuple
 * (rows/rows.c).
 *
 * Core's executor never requests a row from this node.
 *
 * EvalPlanQual runs the join again for a row that a concurrent update has changed: the tables
 * that participate with one given row, or with none, are marked by their range table index.  Such
 * a table is not searched; the row comes from ExecScan(), as for core's scans, and has its key
 * looked up like any other.  Tables that are not marked are searched, under the query's snapshot.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "base/settings.h"
#include "join.h"

static Node *create_scan_state(CustomScan *plan);
static void big_begin_scan(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *big_exec_scan(CustomScanState *node);
static bool is_replaced(const GjJoinScanState *scan);
static GjSmallRow *next_row(GjJoinScanState *scan, GjSmallSide *small);
static GjSmallRow *next_replaced_row(GjJoinScanState *scan, GjSmallSide *small);
static TupleTableSlot *no_row(ScanState *node);
static bool any_row(ScanState *node, TupleTableSlot *slot);
static GjSmallRow *big_find_partners(GjJoinScanState *scan, GjSmallSide *small,
									 TupleTableSlot *slot);
static uint64 entries_columns(const GjJoinScanState *scan);
static void forget_rows(CustomScanState *node);
static void big_rescan(CustomScanState *node);
static void big_end_scan(CustomScanState *node);
static void big_explain_scan(CustomScanState *node, List *ancestors, ExplainState *es);

CustomScanMethods GjJoinScanPlanMethods = {
	.CustomName = GJ_JOIN_SCAN_NAME,
	.CreateCustomScanState = create_scan_state,
};

static const CustomExecMethods scan_exec_methods = {
	.CustomName = GJ_JOIN_SCAN_NAME,
	.BeginCustomScan = big_begin_scan,
	.ExecCustomScan = big_exec_scan,
	.EndCustomScan = big_end_scan,
	.ReScanCustomScan = big_rescan,
	.EstimateDSMCustomScan = GjParallelEstimate,
	.InitializeDSMCustomScan = GjParallelInit,
	.ReInitializeDSMCustomScan = GjParallelReset,
	.InitializeWorkerCustomScan = GjParallelAttach,
	.ShutdownCustomScan = GjParallelShutdown,
	.ExplainCustomScan = big_explain_scan,
};

static Node *
create_scan_state(CustomScan *plan)
{
	GjJoinScanState *scan = (GjJoinScanState *) newNode(sizeof(GjJoinScanState),
														T_CustomScanState);

	Assert(list_length(plan->custom_private) == GJ_TABLE_PRIVATE_COUNT);
	scan->table.css.methods = &scan_exec_methods;
	return (Node *) scan;
}

static void
big_begin_scan(CustomScanState *node, EState *estate, int eflags)
{
	GjJoinScanState *scan = (GjJoinScanState *) node;
	PlanState  *ps = &node->ss.ps;

	GjTableScanInitSlots(&scan->table);
	ps->ps_ProjInfo = NULL;
	GjTableScanInitQual(&scan->table);
	ps->ps_ExprContext->ecxt_scantuple = node->ss.ss_ScanTupleSlot;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	GjTableScanOpen(&scan->table, true, forget_rows);
	GjKeyReaderSetParts(&scan->table.key_reader, scan->table.index,
						(List *) GjTableScanGetExpr(&scan->table, GJ_JOIN_SCAN_PARTS));
}

/*
 * Set the slot whose first columns receive the rows' columns
 *
 * A projection can handle system columns, whole-row references and expressions of a UNION ALL,
 * and deforms no more of a tuple than necessary.
 */
void
GjJoinScanAttach(GjJoinScanState *scan, TupleTableSlot *joined)
{
	PlanState  *ps = &scan->table.css.ss.ps;
	TupleDesc	row = scan->table.css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;

	scan->projection = ExecBuildProjectionInfo(ps->plan->targetlist, ps->ps_ExprContext, joined,
											   ps, row);
}

static TupleTableSlot *
big_exec_scan(CustomScanState *node)
{
	elog(ERROR, "GpuJoinScan gives its rows to a GpuJoin only");
	return NULL;
}

/*
 * Return true if no search is needed, because it was done before for the current batch, or
 * because EvalPlanQual supplies the row
 */
bool
GjJoinScanIsReady(const GjJoinScanState *scan)
{
	return GjRowsIsOpen(scan->table.rows) || is_replaced(scan);
}

static bool
is_replaced(const GjJoinScanState *scan)
{
	EPQState   *epq = scan->table.css.ss.ps.state->es_epq_active;
	Index		scanrelid = ((Scan *) scan->table.css.ss.ps.plan)->scanrelid;

	return epq != NULL &&
		(epq->relsubs_done[scanrelid - 1] || epq->relsubs_slot[scanrelid - 1] != NULL ||
		 epq->relsubs_rowmark[scanrelid - 1] != NULL);
}

/*
 * Search the index for the keys of a batch, or get a share of the results of another process.
 * tuples has the batch's keys with their parts, or is NULL; it must live until the results are
 * forgotten.  all_keys is true if there is no other batch; lookup is true if the partners of a row
 * are needed, and not only the fact that it has any.
 */
void
GjJoinScanMatch(GjJoinScanState *scan, const GjKeySet *keys, GjExact *tuples, bool all_keys,
				bool lookup)
{
	GjTableScan *table = &scan->table;

	Assert(!GjRowsIsOpen(table->rows));
	scan->lookup = lookup;
	table->keys = keys;
	if (table->test != NULL)
		GjEntryFilterSetExact(table->entry_filter, keys, tuples);
	GjParallelMatch(table, entries_columns(scan), get_hash_memory_limit() / 2, all_keys);
	table->keys = NULL;
}

/*
 * Start with the first row found. filter is the batch's key set if it is enough that a tuple has
 * one of its keys, whichever small rows have it; it must remain valid during the scan.
 */
void
GjJoinScanStart(GjJoinScanState *scan, GjSmallSide *small, const GjKeySet *filter)
{
	GjRowProbe	probe = {.keys = filter,.lookup = GjSmallLookupRows,.arg = small,
		.entries = scan->lookup};

	if (is_replaced(scan))
		ExecScanReScan(&scan->table.css.ss);
	else
		GjRowsStart(scan->table.rows, &probe);
}

/*
 * Store the next row that has partners and passes the filters in the joined slot, and return its
 * partners.  Returns NULL at the end, and in front of entries that the fast path takes
 * (GjJoinScanHasEntries).
 */
GjSmallRow *
GjJoinScanNext(GjJoinScanState *scan, GjSmallSide *small)
{
	GjInstrumentation *instrument = scan->table.css.ss.ps.instrument;
	GjSmallRow *partners;

	if (instrument == NULL)
		return next_row(scan, small);

	InstrStartNode(instrument);
	partners = next_row(scan, small);
	InstrStopNode(instrument, partners != NULL ? 1.0 : GjJoinScanHasEntries(scan) ?
				  GjRowsGetBatch(scan->table.rows)->nrows : 0.0);
	return partners;
}

static GjSmallRow *
next_row(GjJoinScanState *scan, GjSmallSide *small)
{
	GjTableScan *table = &scan->table;
	PlanState  *ps = &table->css.ss.ps;
	GjRowBatch *batch = GjRowsGetBatch(table->rows);

	if (is_replaced(scan))
		return next_replaced_row(scan, small);

	while (batch->next < batch->nrows || GjRowsNext(table->rows, true) != NULL)
	{
		int			row = batch->next;
		bool		is_entry = batch->tuples == NULL;
		TupleTableSlot *slot = is_entry ? table->css.ss.ss_ScanTupleSlot : table->heap_slot;
		GjSmallRow *partners = batch->partners != NULL ? batch->partners[row] : NULL;

		if (GjJoinScanHasEntries(scan))
			break;
		batch->next++;
		if (is_entry && table->target_shape != NULL)
		{
			GjFillFromEntry(table->target_shape, GjRowEntry(batch, row),
							scan->projection->pi_state.resultslot);
			return partners;
		}
		if (is_entry)
			GjFillFromEntry(table->row_shape, GjRowEntry(batch, row), slot);
		else
			GjRowStore(batch, row, slot);
		ResetExprContext(ps->ps_ExprContext);
		ps->ps_ExprContext->ecxt_scantuple = slot;
		if (partners == NULL)
			partners = big_find_partners(scan, small, slot);
		if (partners == NULL)
			continue;
		if ((is_entry && table->filter_is_all) || ExecQual(ps->qual, ps->ps_ExprContext))
		{
			ExecProject(scan->projection);
			return partners;
		}
		InstrCountFiltered1(ps, 1);
	}
	ExecClearTuple(table->heap_slot);
	return NULL;
}

/*
 * Do the same for the row that EvalPlanQual supplies, if any; ExecScan() tests the filters and
 * returns it once.  Its slot may be different from ours.
 */
static GjSmallRow *
next_replaced_row(GjJoinScanState *scan, GjSmallSide *small)
{
	ExprContext *econtext = scan->table.css.ss.ps.ps_ExprContext;
	TupleTableSlot *slot = ExecScan(&scan->table.css.ss, no_row, any_row);
	GjSmallRow *partners;

	if (TupIsNull(slot))
		return NULL;

	partners = big_find_partners(scan, small, slot);
	if (partners != NULL)
	{
		econtext->ecxt_scantuple = slot;
		ExecProject(scan->projection);
		econtext->ecxt_scantuple = scan->table.css.ss.ss_ScanTupleSlot;
	}
	return partners;
}

static TupleTableSlot *
no_row(ScanState *node)
{
	return ExecClearTuple(node->ss_ScanTupleSlot);
}

static bool
any_row(ScanState *node, TupleTableSlot *slot)
{
	return true;
}

static GjSmallRow *
big_find_partners(GjJoinScanState *scan, GjSmallSide *small, TupleTableSlot *slot)
{
	GjTableScan *table = &scan->table;
	ExprContext *econtext = table->css.ss.ps.ps_ExprContext;
	GjSmallRow *partners = NULL;
	Datum		parts[INDEX_MAX_KEYS];
	int64		key;
	bool		isnull;

	if (GjReadKey(&table->key_reader, econtext, slot, &key, &isnull) && !isnull &&
		GjReadParts(&table->key_reader, slot, key, parts))
		partners = GjSmallLookup(small, key, parts);

	if (partners == NULL)
		GjRowsGetStats(table->rows)->rechecked++;
	return partners;
}

/*
 * Forget the results, after the scan has been stopped
 */
void
GjJoinScanForget(GjJoinScanState *scan)
{
	GjRowsClose(scan->table.rows);
	if (scan->own_keys != NULL)
		GjKeySetFree(scan->own_keys);
	scan->table.all_tids = false;
	scan->own_keys = NULL;
}

/*
 * Forget the process's share of the TIDs, because it is being freed, or the next execution will
 * get another one
 */
static void
forget_rows(CustomScanState *node)
{
	GjJoinScanState *scan = (GjJoinScanState *) node;

	GjTableScanStop(&scan->table);
	GjJoinScanForget(scan);
}

/*
 * Rescan.  The join decides whether results are used again, except for a share, and for rows of
 * which a device has made groups: these cannot be used again.  Within EvalPlanQual, parameters
 * change without setting chgParam.
 */
static void
big_rescan(CustomScanState *node)
{
	GjJoinScanState *scan = (GjJoinScanState *) node;

	GjTableScanStop(&scan->table);
	if (scan->table.shared != NULL || node->ss.ps.state->es_epq_active != NULL ||
		GjRowsAreReduced(scan->table.rows))
		GjJoinScanForget(scan);
	else
		GjTableScanRefilter(&scan->table);
	ExecScanReScan(&node->ss);
}

static void
big_end_scan(CustomScanState *node)
{
	GjTableScanEnd((GjTableScan *) node);
}

static void
big_explain_scan(CustomScanState *node, List *ancestors, ExplainState *es)
{
	GjTableReport report = {0};

	GjExplainTable((GjTableScan *) node, ancestors, es, &report);
}

/*
 * Return the columns that entries must have, once it is known whether partners will be looked up
 */
static uint64
entries_columns(const GjJoinScanState *scan)
{
	const GjTableScan *table = &scan->table;
	const GjRowShape *shape = scan->direct_shape != NULL ? scan->direct_shape :
		table->target_shape != NULL ? table->target_shape : table->row_shape;

	return (shape != NULL ? shape->columns : 0) |
		(scan->lookup ? GJ_ENTRY_KEY | GjKeyReaderPartColumns(&table->key_reader) : 0);
}
