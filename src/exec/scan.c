/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  GpuScan: the rows of one table whose key is in a set that is known when the
 *	  scan starts.
 *
 * The life of a scan: evaluate the values into a key set, once; match it against
 * the index; fetch block by block; test the key of each fetched tuple against the
 * set (not by the array clause, which would walk the array for each row); leave the
 * other clauses and the projection to ExecScan().  scanmatch.c has the first two.
 *
 * Nothing is searched before the first tuple is wanted: EXPLAIN, a branch that is
 * never executed and the initialisation for EvalPlanQual cost nothing, and params
 * have their values by then.
 *
 * Where the index has every column that the plan needs, the match delivers entries, and
 * those of all-visible pages are rows without a fetch (indexonly.c).  They come
 * first, in a virtual slot of the table's shape; then what is left is fetched.
 *
 * A rescan that changes none of the params in the key clauses delivers the same
 * TIDs again, unless these were filtered by params that have changed.  That is right only
 * because the snapshot of a scan never changes while it lives.
 *
 * A plan for ORDER BY ... LIMIT has its rows come in order: ordered.c delivers them.
 *
 * EvalPlanQual puts a newer version of a row in place of ours.  Its key may have
 * changed, so the recheck method tests it against the key set; that copy of the
 * node never searches.
 *
 * Scanning backward is not offered, as a bitmap heap scan does not: a cursor that
 * asks for SCROLL gets a Material node on top, which costs one copy of the rows
 * that are fetched, while going back through blocks would need a second visibility
 * test of each.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/gpujoin.h"
#include "base/nodes.h"
#include "cursor.h"
#include "scan.h"

static Node *create_state(CustomScan *plan);
static void begin_scan(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *exec_scan(CustomScanState *node);
static TupleTableSlot *next_ordered(GjScanState *scan);
static const GjFill *entry_fill(const GjTableScan *table);
static TupleTableSlot *next_tuple(ScanState *node);
static bool go_on_with_entries(GjScanState *scan);
static TupleTableSlot *next_fetched(GjScanState *scan);
static bool recheck_tuple(ScanState *node, TupleTableSlot *slot);
static void drop_results(CustomScanState *node);
static void rescan(CustomScanState *node);
static void shutdown_scan(CustomScanState *node);
static void end_scan(CustomScanState *node);
static void explain_scan(CustomScanState *node, List *ancestors, ExplainState *es);

static CustomScanMethods plan_methods = {
	.CustomName = GJ_SCAN_NAME,
	.CreateCustomScanState = create_state,
};

static const CustomExecMethods exec_methods = {
	.CustomName = GJ_SCAN_NAME,
	.BeginCustomScan = begin_scan,
	.ExecCustomScan = exec_scan,
	.EndCustomScan = end_scan,
	.ReScanCustomScan = rescan,
	.EstimateDSMCustomScan = GjParallelEstimate,
	.InitializeDSMCustomScan = GjParallelInit,
	.ReInitializeDSMCustomScan = GjParallelReset,
	.InitializeWorkerCustomScan = GjParallelAttach,
	.ShutdownCustomScan = shutdown_scan,
	.ExplainCustomScan = explain_scan,
};

void
GjExecScanInit(void)
{
	GjNodeRegister(&plan_methods);
}

static Node *
create_state(CustomScan *plan)
{
	GjScanState *scan = (GjScanState *) newNode(sizeof(GjScanState), T_CustomScanState);

	scan->table.css.methods = &exec_methods;
	return (Node *) scan;
}

static void
begin_scan(CustomScanState *node, EState *estate, int eflags)
{
	GjScanState *scan = (GjScanState *) node;
	GjTableScan *table = &scan->table;

	GjTableScanInitSlots(table);
	if (GjTableScanGetPrivate(table, GJ_SCAN_ORDER) != NIL)
		node->ss.ps.scanopsfixed = false;	/* rows that were sorted come in another slot */
	ExecAssignScanProjectionInfo(&node->ss);
	GjTableScanInitQual(table);
	scan->program = GjKeyProgramInit(GjTableScanGetPrivate(table, GJ_SCAN_KEY_PLAN),
									 (List *) GjTableScanGetExpr(table, GJ_SCAN_VALUES),
									 &node->ss.ps);

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	GjTableScanOpen(table, node->ss.ps.ps_ProjInfo != NULL, drop_results);
	table->tuple_fill = GjFillTupleScan(&node->ss, false);
	table->array_fill = GjFillTupleScan(&node->ss, true);
	node->ss.ss_ScanTupleSlot->tts_tableOid = RelationGetRelid(node->ss.ss_currentRelation);
	scan->ordered = GjOrderedCreate(scan);
}

static TupleTableSlot *
exec_scan(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;
	GjTableScan *table = &scan->table;
	TupleTableSlot *slot = node->ss.ps.ps_ResultTupleSlot;
	ItemPointerData place;
	uint64		entry;

	if (table->target_fill != NULL && GjIndexOnlyNext(table->index_only, &entry))
	{
		GjFillFromEntry(table->target_fill, entry, slot);
		if (scan->cursor != GJ_CURSOR_NONE)
			GjNoteEntry(&node->ss, scan->cursor, GjIndexOnlyTid(table->index_only, entry));
		return slot;
	}
	if (table->tuple_fill != NULL && table->tids != NULL && table->filtered &&
		GjFetchFill(table->fetch, table->tuple_fill, slot, &place))
	{
		GjNotePlace(&node->ss, &place);
		return slot;
	}
	if (scan->ordered == NULL)
		return ExecScan(&node->ss, next_tuple, recheck_tuple);
	return next_ordered(scan);
}

/*
 * Return the next row in the order that is wanted.  Rows that are sorted have passed the quals
 * before.
 */
static TupleTableSlot *
next_ordered(GjScanState *scan)
{
	if (!GjOrderedIsRest(scan->ordered))
	{
		TupleTableSlot *slot = ExecScan(&scan->table.css.ss, next_tuple, recheck_tuple);

		if (!TupIsNull(slot) || !GjOrderedSortRest(scan))
			return slot;
	}
	return GjOrderedNextSorted(scan);
}

bool
GjIsScan(const PlanState *node)
{
	return IsA(node, CustomScanState) &&
		((const CustomScanState *) node)->methods == &exec_methods;
}

/*
 * For who takes rows as arrays: make the next result rows ready, be they entries or tuples.
 * False: the next row, should there be one, comes from the executor.
 */
bool
GjScanLoad(PlanState *ps, GjReadyRows *ready)
{
	GjScanState *scan = (GjScanState *) castNode(CustomScanState, ps);
	GjTableScan *table = &scan->table;

	if (scan->ordered != NULL)
		return false;
	if (table->tids == NULL && !GjIndexOnlyIsStarted(table->index_only))
		GjScanStart(scan);
	do
	{
		if (table->tids == NULL)
		{
			GjIndexOnlyChunk *chunk = GjIndexOnlyGetChunk(table->index_only);

			*ready = (GjReadyRows) {.fill = entry_fill(table),.chunk = chunk};
			if (ready->fill == NULL)
				return false;
			if (chunk->next < chunk->nrows || GjIndexOnlyLoad(table->index_only))
				return true;
			GjScanStartFetch(scan, GjIndexOnlyRest(table->index_only));
		}
		if (table->array_fill == NULL || !table->filtered)
			return false;
		*ready = (GjReadyRows) {
			.fill = table->array_fill,.block = GjFetchGetBlock(table->fetch),
			.desc = RelationGetDescr(table->css.ss.ss_currentRelation)
		};
		if (ready->block->next < ready->block->ntuples || GjFetchLoad(table->fetch))
			return true;
	} while (go_on_with_entries(scan));
	return false;
}

/*
 * What makes result rows of entries; NULL: there is more to do
 */
static const GjFill *
entry_fill(const GjTableScan *table)
{
	const PlanState *ps = &table->css.ss.ps;

	if (table->target_fill == NULL && table->filter_is_all && ps->ps_ProjInfo == NULL)
		return table->row_fill;
	return table->target_fill;
}

/*
 * Access method of ExecScan(): return the next tuple whose key is wanted
 */
static TupleTableSlot *
next_tuple(ScanState *node)
{
	GjScanState *scan = (GjScanState *) node;

	return scan->ordered != NULL ? GjOrderedNext(scan) : GjScanNext(scan);
}

/*
 * Return the next tuple whose key is wanted, in no order: in the scan slot if an entry has it, else
 * in the slot for heap tuples
 */
TupleTableSlot *
GjScanNext(GjScanState *scan)
{
	ScanState  *node = &scan->table.css.ss;
	GjTableScan *table = &scan->table;
	TupleTableSlot *slot;

	if (table->tids == NULL && !GjIndexOnlyIsStarted(table->index_only))
		GjScanStart(scan);
	do
	{
		if (table->tids == NULL)
		{
			uint64		entry;

			if (GjIndexOnlyNext(table->index_only, &entry))
			{
				GjFillFromEntry(table->row_fill, entry, node->ss_ScanTupleSlot);
				if (scan->cursor != GJ_CURSOR_NONE)
					GjNoteEntry(node, scan->cursor, GjIndexOnlyTid(table->index_only, entry));
				return node->ss_ScanTupleSlot;
			}
			GjScanStartFetch(scan, GjIndexOnlyRest(table->index_only));
		}
		slot = next_fetched(scan);
	} while (TupIsNull(slot) && go_on_with_entries(scan));

	/* a cursor that goes on with another partition stands on none of our rows any more */
	if (TupIsNull(slot))
		ExecClearTuple(node->ss_ScanTupleSlot);
	return slot;
}

/* Go on with entries, should there be more since not all that is for the heap fitted in memory */
static bool
go_on_with_entries(GjScanState *scan)
{
	if (!GjTableScanContinue(&scan->table))
		return false;
	scan->table.tids = NULL;
	GjNoteNoPlace(&scan->table.css.ss);
	return true;
}

static TupleTableSlot *
next_fetched(GjScanState *scan)
{
	GjTableScan *table = &scan->table;
	TupleTableSlot *slot = table->heap_slot;

	while (GjFetchNext(table->fetch, slot))
	{
		if (table->filtered || GjScanWants(scan, slot))
		{
			if (table->index_only != NULL)
				GjNotePlace(&table->css.ss, &slot->tts_tid);
			return slot;
		}

		GjFetchGetStats(table->fetch)->rechecked++;
		ResetExprContext(table->css.ss.ps.ps_ExprContext);
	}
	return slot;
}

/*
 * Recheck method of ExecScan(), for EvalPlanQual
 */
static bool
recheck_tuple(ScanState *node, TupleTableSlot *slot)
{
	GjScanState *scan = (GjScanState *) node;

	if (scan->table.keys == NULL)
		GjScanMakeKeys(scan);
	return GjScanWants(scan, slot);
}

bool
GjScanWants(GjScanState *scan, TupleTableSlot *slot)
{
	GjTableScan *table = &scan->table;
	int64		key;

	if (!GjRowHasKey(&table->key_reader, table->css.ss.ps.ps_ExprContext, slot))
		return false;
	if (!GjReadKey(&table->key_reader, table->css.ss.ps.ps_ExprContext, slot, &key))
		return table->keys->nulls;
	return GjKeySetContains(table->keys, key);
}

/*
 * Search, and begin to deliver
 */
void
GjScanStart(GjScanState *scan)
{
	GjTableScan *table = &scan->table;
	GjTidSet   *tids;

	if (table->keys == NULL)
		GjScanMakeKeys(scan);
	scan->cursor = GjCursorOf(table->css.ss.ps.state);
	tids = GjScanMatch(scan);
	if (tids != NULL)
		GjScanStartFetch(scan, tids);
	else
		GjNoteNoPlace(&table->css.ss);
}

void
GjScanStartFetch(GjScanState *scan, GjTidSet *tids)
{
	GjTableScan *table = &scan->table;

	table->tids = tids;
	table->filtered = GjFetchFilter(table->fetch, &table->key_reader, table->keys);
	GjFetchStart(table->fetch, tids);
}

/*
 * Forget keys and TIDs; the next tuple that is wanted makes new ones
 */
static void
drop_results(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;
	GjTableScan *table = &scan->table;

	GjFetchReset(table->fetch);
	if (table->index_only != NULL)
		GjIndexOnlyReset(table->index_only);
	if (scan->ordered != NULL)
		GjOrderedReset(scan->ordered);
	GjEntryFilterReset(table->entry_filter);	/* its params may have changed, too */
	table->keys = NULL;
	table->tids = NULL;
	table->all_tids = false;
	MemoryContextReset(table->context);
	GjKeysRelease(&scan->key_user);
}

/*
 * A share of the TIDs is delivered once.  Within EvalPlanQual, params get new values
 * without a word in chgParam.
 */
static void
rescan(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;
	GjTableScan *table = &scan->table;

	ExecScanReScan(&node->ss);

	if (table->shared != NULL || node->ss.ps.state->es_epq_active != NULL ||
		bms_overlap(node->ss.ps.chgParam, GjKeyProgramParams(scan->program)))
		drop_results(node);
	else
		GjTableScanRefilter(table);
	if (scan->ordered != NULL)
		GjOrderedRestart(scan->ordered);
	else if (GjIndexOnlyIsStarted(table->index_only))
	{
		GjFetchReset(table->fetch);
		table->tids = NULL;
		GjIndexOnlyRestart(table->index_only);
	}
	else if (table->tids != NULL)
		GjFetchStart(table->fetch, table->tids);
}

/*
 * Enough rows have been returned for now, or there are no more
 */
static void
shutdown_scan(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;

	if (scan->table.index_only != NULL)
		GjCursorRests(&node->ss, scan->cursor);
	GjParallelShutdown(node);
}

static void
end_scan(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;

	if (scan->ordered != NULL)
		GjOrderedEndSort(scan->ordered);
	GjTableScanEnd(&scan->table);
	GjKeysEnd(&scan->key_user);
}

static void
explain_scan(CustomScanState *node, List *ancestors, ExplainState *es)
{
	GjScanState *scan = (GjScanState *) node;
	GjTableScan *table = &scan->table;

	GjTableScanExplainIndex(table, es);
	GjExplainKeyCondition(node, ancestors, es,
						  GjKeyPlanClauses(GjTableScanGetPrivate(table, GJ_SCAN_KEY_PLAN),
										   (List *) GjTableScanGetExpr(table, GJ_SCAN_VALUES),
										   (Expr *) GjTableScanGetExpr(table, GJ_TABLE_KEY)));
	GjTableScanExplainFilter(table, ancestors, es);
	if (GjTableScanGetPrivate(table, GJ_SCAN_ORDER) != NIL)
		GjExplainOrder(node, ancestors, es, GjTableScanGetPrivate(table, GJ_SCAN_ORDER),
					   (List *) GjTableScanGetExpr(table, GJ_SCAN_SORT_COLUMNS),
					   table->stats.searches == 0 ? NULL : GjOrderedGetStats(scan->ordered),
					   &table->stats);
	GjTableScanExplain(table, es);
}
