/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  GpuScan: the rows of one table whose key is in a set that is known when the scan starts.
 *
 * A scan evaluates the values of its conditions into a set of keys, once, and matches the set
 * against the index.  It fetches the matching rows block by block, and looks up the key of each
 * fetched tuple in the set; the array clause itself would search the array for each row.  The
 * other clauses and the projection are left to ExecScan().
 *
 * Nothing is searched before the first tuple is requested.  So EXPLAIN, a branch that is never
 * executed and initialization for EvalPlanQual cost nothing, and parameters are set when they are
 * evaluated.
 *
 * If the index has every column that the plan needs, the match returns entries, and entries of
 * all-visible pages are rows without a fetch (rows/rows.c).  They come first, in a virtual slot of
 * the table's shape, and then the rows that must be fetched.
 *
 * A rescan that does not change a parameter of the key conditions uses the same TIDs again, unless
 * they were filtered by a parameter that has changed.  This is correct because a scan's snapshot
 * never changes.
 *
 * With ORDER BY ... LIMIT, ordered.c returns the rows.
 *
 * EvalPlanQual replaces the current row by a newer version, whose key may be different, so the
 * recheck method looks it up in the set.  The copy of the node that EvalPlanQual runs never
 * searches.
 *
 * Like a bitmap heap scan, the node does not support backward scans: a cursor declared with SCROLL
 * gets a Material node above, which copies each row that is fetched.  Going back through blocks
 * would need a second visibility check of each row.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "catalog/pg_proc.h"
#include "executor/execdesc.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "tcop/pquery.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/nodes.h"
#include "base/settings.h"
#include "pages/pages.h"
#include "exec.h"

static Node *scan_create_state(CustomScan *plan);
static void begin_scan(CustomScanState *node, EState *estate, int eflags);
static GjRowShape *shape_of_tuples(const ScanState *scan, bool to_arrays);
static TupleTableSlot *exec_scan(CustomScanState *node);
static inline bool needs_no_test(const ScanState *scan);
static GjRowShape *shape_for_slots(GjScanState *scan);
static GjRowShape *shape_for_arrays(GjScanState *scan);
static TupleTableSlot *exec_entries(CustomScanState *node);
static inline TupleTableSlot *take_entry(GjScanState *scan, GjRowBatch *batch);
static TupleTableSlot *take_any_entry(GjScanState *scan, GjRowBatch *batch);
static inline TupleTableSlot *take_tuple(GjScanState *scan, GjRowBatch *batch);
static bool scan_load_rows(GjScanState *scan, bool by_row);
static inline void note_entry(GjScanState *scan, const GjRowBatch *batch, int row);
static GjRowBatch *next_batch(PlanState *node, bool want_partners);
static bool scan_reduce(PlanState *node, GjReduceRequest *request);
static void next_states(PlanState *node, GjReduceRequest *request);
static const GjRowShape *entry_shape(const GjTableScan *table);
static bool recheck_tuple(ScanState *node, TupleTableSlot *slot);
static void drop_results(CustomScanState *node);
static void scan_rescan(CustomScanState *node);
static void shutdown_scan(CustomScanState *node);
static void end_scan(CustomScanState *node);
static void explain_scan(CustomScanState *node, List *ancestors, ExplainState *es);
static void make_keys(GjScanState *scan);
static GjCursor find_cursor(const EState *estate);
static bool is_named_portal(const EState *estate);
static bool hides_scan(const PlanState *node);
static bool calls_unknown_in(PlanState *node, void *context);
static bool calls_unknown(Node *node, void *context);
static bool is_unknown(Oid function, void *context);
static void settle_cursor(ScanState *node, GjCursor cursor);

static CustomScanMethods plan_methods = {
	.CustomName = GJ_SCAN_NAME,
	.CreateCustomScanState = scan_create_state,
};

static const CustomExecMethods exec_methods = {
	.CustomName = GJ_SCAN_NAME,
	.BeginCustomScan = begin_scan,
	.ExecCustomScan = exec_scan,
	.EndCustomScan = end_scan,
	.ReScanCustomScan = scan_rescan,
	.EstimateDSMCustomScan = GjParallelEstimate,
	.InitializeDSMCustomScan = GjParallelInit,
	.ReInitializeDSMCustomScan = GjParallelReset,
	.InitializeWorkerCustomScan = GjParallelAttach,
	.ShutdownCustomScan = shutdown_scan,
	.ExplainCustomScan = explain_scan,
};

static CustomExecMethods entry_methods; /* the same, with exec_entries() */

static const GjRowMethods row_methods = {
	.next_batch = next_batch,
	.reduce = scan_reduce,
	.next_states = next_states,
};

void
GjExecScanInit(void)
{
	GjNodeRegister(&plan_methods, &row_methods);
	entry_methods = exec_methods;
	entry_methods.ExecCustomScan = exec_entries;
}

static Node *
scan_create_state(CustomScan *plan)
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
		node->ss.ps.scanopsfixed = false;	/* sorted rows are in another slot */
	ExecAssignScanProjectionInfo(&node->ss);
	GjTableScanInitQual(table);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		GjTableScanOpen(table, node->ss.ps.ps_ProjInfo != NULL, drop_results);
	scan->program = GjKeyProgramInit(GjTableScanGetPrivate(table, GJ_SCAN_KEY_PLAN),
									 (Expr *) GjTableScanGetExpr(table, GJ_SCAN_CONDITION),
									 &node->ss.ps, table->index, &table->key_reader.codec);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	GjTableScanCheckRests(table, GjKeyProgramHasRests(scan->program));
	if (table->target_shape != NULL && table->target_shape->nmade == 0)
		node->methods = &entry_methods;
	GjKeyReaderSetParts(&table->key_reader, table->index,
						(List *) GjTableScanGetExpr(table, GJ_SCAN_PARTS));
	scan->fills_slots = node->ss.ps.ps_ProjInfo != NULL && needs_no_test(&node->ss);
	node->ss.ss_ScanTupleSlot->tts_tableOid = RelationGetRelid(node->ss.ss_currentRelation);
	scan->ordered = GjOrderedCreate(scan);
}

/*
 * Return what fills the scan's result slot from tuples, or NULL if the result needs more work.
 * Without a projection the result slot is another one.
 */
static GjRowShape *
shape_for_slots(GjScanState *scan)
{
	GjTableScan *table = &scan->table;

	if (scan->fills_slots && table->tuple_shape == NULL)
	{
		table->tuple_shape = shape_of_tuples(&table->css.ss, false);
		scan->fills_slots = table->tuple_shape != NULL;
	}
	return table->tuple_shape;
}

/*
 * Return what fills arrays from tuples, or NULL.  Few scans have a batch consumer.
 */
static GjRowShape *
shape_for_arrays(GjScanState *scan)
{
	GjTableScan *table = &scan->table;

	if (!scan->knows_arrays && needs_no_test(&table->css.ss))
		table->array_shape = shape_of_tuples(&table->css.ss, true);
	scan->knows_arrays = true;
	return table->array_shape;
}

/*
 * Return true if rows of the scan are results as they are.  EvalPlanQual supplies its own rows.
 */
static inline bool
needs_no_test(const ScanState *scan)
{
	return scan->ps.qual == NULL && scan->ps.state->es_epq_active == NULL;
}

/*
 * Prepare filling the scan's result slot, or arrays, from tuples, when the first ones have come.
 * Returns NULL if the result needs more work.
 */
static GjRowShape *
shape_of_tuples(const ScanState *scan, bool to_arrays)
{
	const Scan *plan = (const Scan *) scan->ps.plan;
	MemoryContext old = MemoryContextSwitchTo(scan->ps.state->es_query_cxt);
	GjRowShape *shape;

	shape = GjShapeOfTuples(RelationGetDescr(scan->ss_currentRelation), plan->plan.targetlist,
							plan->scanrelid, to_arrays);
	MemoryContextSwitchTo(old);
	return shape->noutputs == list_length(plan->plan.targetlist) ? shape : NULL;
}

/*
 * Return the next row of a plan whose entries may be result rows.  A function of its own, since the
 * other cases would add instructions to each entry.
 */
static TupleTableSlot *
exec_entries(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;
	GjRowBatch *batch = GjRowsGetBatch(scan->table.rows);

	if (batch->next < batch->nrows && scan->direct != NULL)
		return take_entry(scan, batch);
	return exec_scan(node);
}

/*
 * Return the result row of the batch's next entry, except values that are made
 */
static inline TupleTableSlot *
take_entry(GjScanState *scan, GjRowBatch *batch)
{
	TupleTableSlot *slot = scan->table.css.ss.ps.ps_ResultTupleSlot;
	int			row = batch->next++;

	GjFillPlain(scan->direct, GjRowEntry(batch, row), slot);
	if (scan->cursor != GJ_CURSOR_NONE)
		note_entry(scan, batch, row);
	return slot;
}

/*
 * Return the result row of the batch's next entry
 */
static TupleTableSlot *
take_any_entry(GjScanState *scan, GjRowBatch *batch)
{
	const GjRowShape *shape = scan->direct;
	uint64		entry = GjRowEntry(batch, batch->next);
	TupleTableSlot *slot = take_entry(scan, batch);

	if (shape->nmade > 0)
		GjFillMade(shape, entry, slot);
	return slot;
}

static TupleTableSlot *
exec_scan(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;
	GjTableScan *table = &scan->table;
	GjRowBatch *batch = GjRowsGetBatch(table->rows);

	if (scan->ordered != NULL)
		return GjOrderedNext(scan, recheck_tuple);
	if ((scan->fills_slots || table->target_shape != NULL) &&
		(batch->next < batch->nrows || scan_load_rows(scan, true)))
	{
		if (scan->direct != NULL)
			return take_any_entry(scan, batch);
		if (batch->tuples != NULL && batch->rechecked && shape_for_slots(scan) != NULL &&
			GjShapeFits(table->tuple_shape, GjRowTuple(batch, batch->next)->t_data))
			return take_tuple(scan, batch);
	}
	return ExecScan(&node->ss, (ExecScanAccessMtd) GjScanNext, recheck_tuple);
}

/*
 * Return the result row of the batch's next tuple
 */
static inline TupleTableSlot *
take_tuple(GjScanState *scan, GjRowBatch *batch)
{
	TupleTableSlot *slot = scan->table.css.ss.ps.ps_ResultTupleSlot;
	const HeapTupleData *tuple = GjRowTuple(batch, batch->next++);

	GjFillFromTuple(scan->table.tuple_shape, tuple->t_data, slot);
	GjNotePlace(&scan->table.css.ss, &tuple->t_self);
	return slot;
}

/*
 * Load the next rows of a scan that has been started.  Returns false at the end.
 */
static bool
scan_load_rows(GjScanState *scan, bool by_row)
{
	GjTableScan *table = &scan->table;
	GjRowBatch *batch = GjRowsNext(table->rows, by_row);

	scan->direct = NULL;
	if (batch == NULL)
		return false;
	if (batch->tuples == NULL)
	{
		scan->direct = table->target_shape;
		ExecClearTuple(table->heap_slot);	/* release the block before */
		if (by_row)
			GjNoteNoPlace(&table->css.ss);
	}
	return true;
}

static inline void
note_entry(GjScanState *scan, const GjRowBatch *batch, int row)
{
	GjNoteEntry(&scan->table.css.ss, scan->cursor, batch->entries->tids[GjRowEntry(batch, row)]);
}

/*
 * Method of GjRowMethods
 */
static GjRowBatch *
next_batch(PlanState *node, bool want_partners)
{
	GjScanState *scan = (GjScanState *) castNode(CustomScanState, node);
	GjTableScan *table = &scan->table;
	GjRowBatch *batch = GjRowsGetBatch(table->rows);
	const GjRowShape *entries = entry_shape(table);

	if (scan->ordered != NULL)
		return NULL;
	if (!GjRowsIsOpen(table->rows))
		GjScanStart(scan);
	if (batch->next >= batch->nrows && !scan_load_rows(scan, entries == NULL))
		return NULL;
	batch->shape = batch->tuples == NULL ? entries : shape_for_arrays(scan);
	return batch->shape != NULL && batch->rechecked ? batch : NULL;
}

/*
 * Method of GjRowMethods: search for the keys, as a reduction if possible
 */
static bool
scan_reduce(PlanState *node, GjReduceRequest *request)
{
	GjScanState *scan = (GjScanState *) castNode(CustomScanState, node);
	GjTableScan *table = &scan->table;

	if (scan->ordered != NULL || request->by_partner || GjRowsIsOpen(table->rows))
		return false;
	GjScanPrepare(scan);
	if (!GjReduceProve(table, table->keys->exact, request) ||
		!GjReducePrepare(table, entry_shape(table), request))
		return false;
	table->reduction = &request->reduction;
	GjScanStart(scan);
	table->reduction = NULL;
	return GjRowsAreReduced(table->rows);
}

static void
next_states(PlanState *node, GjReduceRequest *request)
{
	GjReduceNext(request);
}

/*
 * Return the shape that turns entries into result rows, or NULL if more work is needed
 */
static const GjRowShape *
entry_shape(const GjTableScan *table)
{
	const PlanState *ps = &table->css.ss.ps;

	if (table->target_shape == NULL && table->filter_is_all && ps->ps_ProjInfo == NULL)
		return table->row_shape;
	return table->target_shape;
}

/*
 * Return the next tuple whose key is in the set, in no order: in the scan slot if it comes from an
 * entry, otherwise in the slot for heap tuples
 */
TupleTableSlot *
GjScanNext(GjScanState *scan)
{
	GjTableScan *table = &scan->table;
	ScanState  *node = &table->css.ss;
	GjRowBatch *batch = GjRowsGetBatch(table->rows);
	TupleTableSlot *slot = table->heap_slot;

	if (!GjRowsIsOpen(table->rows))
		GjScanStart(scan);
	while (batch->next < batch->nrows || scan_load_rows(scan, true))
	{
		int			row = batch->next++;

		if (batch->tuples == NULL)
		{
			GjFillFromEntry(table->row_shape, GjRowEntry(batch, row), node->ss_ScanTupleSlot);
			if (scan->cursor != GJ_CURSOR_NONE)
				note_entry(scan, batch, row);
			return node->ss_ScanTupleSlot;
		}
		GjRowStore(batch, row, slot);
		if (batch->rechecked || GjScanWants(scan, slot))
		{
			if (table->row_shape != NULL)
				GjNotePlace(node, &slot->tts_tid);
			return slot;
		}
		GjRowsGetStats(table->rows)->rechecked++;
		ResetExprContext(node->ps.ps_ExprContext);
	}

	/* a cursor that continues with another partition is no longer on a row of ours */
	ExecClearTuple(node->ss_ScanTupleSlot);
	return ExecClearTuple(slot);
}

/*
 * Recheck method of ExecScan(), for EvalPlanQual
 */
static bool
recheck_tuple(ScanState *node, TupleTableSlot *slot)
{
	GjScanState *scan = (GjScanState *) node;

	if (scan->table.keys == NULL)
		make_keys(scan);
	return GjScanWants(scan, slot);
}

/*
 * Return true if the key of the tuple in the slot is in the set
 */
bool
GjScanWants(GjScanState *scan, TupleTableSlot *slot)
{
	GjTableScan *table = &scan->table;
	int64		key;
	bool		isnull;

	if (!GjReadKey(&table->key_reader, table->css.ss.ps.ps_ExprContext, slot, &key, &isnull))
		return false;
	return isnull ? table->keys->nulls :
		GjRowIsListed(&table->key_reader, table->keys, slot, key);
}

/*
 * Make the keys, and find out when a cursor's position may be used
 */
void
GjScanPrepare(GjScanState *scan)
{
	if (scan->table.keys == NULL)
		make_keys(scan);
	scan->cursor = find_cursor(scan->table.css.ss.ps.state);
}

/*
 * Start to return rows: those that are open, or those that a search finds
 */
void
GjScanStart(GjScanState *scan)
{
	GjTableScan *table = &scan->table;

	if (!GjRowsIsOpen(table->rows))
	{
		GjScanPrepare(scan);
		GjParallelMatch(table, table->row_shape != NULL ? table->row_shape->columns : 0,
						GjScanMemory(scan), true);
	}
	GjRowsStart(table->rows, &(GjRowProbe) {.keys = table->keys});
}

/*
 * Forget keys and TIDs.  The next request for a tuple makes new ones.
 */
static void
drop_results(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;
	GjTableScan *table = &scan->table;

	GjRowsClose(table->rows);
	if (scan->ordered != NULL)
		GjOrderedReset(scan->ordered);
	if (table->test != NULL)
		GjEntryFilterReset(table->entry_filter);	/* its parameters may have changed, too */
	table->keys = NULL;
	table->all_tids = false;
	MemoryContextReset(table->context);
	GjKeysForget(scan->program);
}

/*
 * Rescan.  A process's share of the TIDs can be used only once, and so can groups that a device has
 * made.  Within EvalPlanQual, parameters change without setting chgParam.
 */
static void
scan_rescan(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;
	GjTableScan *table = &scan->table;

	ExecScanReScan(&node->ss);
	if (scan->ordered != NULL)
		GjOrderedRestart(scan);

	if (table->shared != NULL || node->ss.ps.state->es_epq_active != NULL ||
		GjRowsAreReduced(table->rows) ||
		bms_overlap(node->ss.ps.chgParam, GjKeyProgramParams(scan->program)))
		drop_results(node);
	else
		GjTableScanRefilter(table);
	if (GjRowsIsOpen(table->rows))
		GjScanStart(scan);
}

/*
 * Shut down: the executor has got as many rows as it wants for now
 */
static void
shutdown_scan(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;

	if (scan->table.row_shape != NULL)
		settle_cursor(&node->ss, scan->cursor);
	GjParallelShutdown(node);
}

static void
end_scan(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;

	if (scan->ordered != NULL)
		GjOrderedReset(scan->ordered);
	GjTableScanEnd(&scan->table);
	GjKeysEnd(scan->program);
}

static void
explain_scan(CustomScanState *node, List *ancestors, ExplainState *es)
{
	GjScanState *scan = (GjScanState *) node;
	GjTableScan *table = &scan->table;
	GjTableReport report = {
		.key_quals = list_make1(GjTableScanGetExpr(table, GJ_SCAN_CONDITION)),
		.order = GjTableScanGetPrivate(table, GJ_SCAN_ORDER),
		.sort_columns = (List *) GjTableScanGetExpr(table, GJ_SCAN_SORT_COLUMNS),
	};

	if (report.order != NIL && table->stats.searches > 0)
		report.ordered = &scan->order_stats;
	GjExplainTable(table, ancestors, es, &report);
}

/*-------------------------------------------------------------------------
 * The match
 *
 * The values of the key conditions are evaluated once, into a set.  Scans of other partitions with
 * the same conditions share it, and each uses the subset that its table can have (source.c).
 * Within EvalPlanQual, where parameters change without setting chgParam, a scan makes a set of its
 * own.
 *
 * In a parallel plan, another process may do the search (tablescan.c).
 *-------------------------------------------------------------------------
 */

/*
 * Make the set of keys, shared with other scans of the query if possible
 */
static void
make_keys(GjScanState *scan)
{
	GjTableScan *table = &scan->table;
	instr_time	start;
	instr_time	end;

	INSTR_TIME_SET_CURRENT(start);
	if (table->css.ss.ps.state->es_epq_active != NULL)
		table->keys = GjKeyProgramRun(scan->program, table->context);
	else
		table->keys = GjKeysTake(scan->program, GjTableScanGetPrivate(table, GJ_SCAN_PARTITIONS),
								 table->context);
	if (table->test != NULL)
		GjEntryFilterSetExact(table->entry_filter, table->keys, table->keys->entry_exact != NULL ?
							  table->keys->entry_exact : table->keys->exact);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_ACCUM_DIFF(table->stats.set_elapsed, end, start);
}

/*
 * Return the memory that the keys leave for the match
 */
Size
GjScanMemory(const GjScanState *scan)
{
	return GjMemoryLeft(get_hash_memory_limit(), GjKeySetMemory(scan->table.keys));
}

/*-------------------------------------------------------------------------
 * Cursors
 *
 * UPDATE and DELETE ... WHERE CURRENT OF a cursor read the TID of the scan's current row and
 * change the tuple at that TID.  An index entry has the TID of the root of a HOT chain.  Pruning
 * may have turned the root into a redirection, at which there is no tuple to update.  (PostgreSQL's
 * index-only scans pass on the entry's TID anyway, and no row is updated.)
 *
 * So we follow the chain if the position may be used.  We cannot do this on demand, because core
 * reads the TID from the scan slot without calling us.  Between two FETCHes, only the last row's
 * position can be used.  The executor shuts its nodes down each time it has returned the requested
 * number of rows, and at that point we follow the last row's chain.  This is too late for a
 * function in the query that uses the position of the row that is being computed.  If the query
 * has a volatile function, or a user-defined one, which may call a volatile function (a domain's
 * constraint may, too), we follow the chain of each row.  That takes 20 times as long as returning
 * the row; clients that read a million rows through a cursor, like postgres_fdw, must not pay for
 * it.
 *
 * If the position cannot be used, we do not even record the entry's TID, which would take an
 * eighth of the time of a count.  It cannot be used
 *
 *	- if the portal has no name: an ordinary SELECT has none.  (A client that uses the protocol
 *	  directly can suspend this portal and refer to it by the empty name: it gets an error);
 *	- if the portal is that of an EXECUTE of a prepared statement.  It is invisible, and its
 *	  name is made up.  (A function of the query that guesses the name gets the same error);
 *	- in scans that are not part of the portal's own query, as in functions that it calls;
 *	- below a Sort, or the Material node that a cursor needs to go backwards, where PostgreSQL
 *	  does not look for a scan;
 *	- on a standby, where a transaction cannot write anything, not even after promotion.
 *-------------------------------------------------------------------------
 */

/*
 * Return when the positions of this query's rows may be used.  Called while the query runs.
 */
static GjCursor
find_cursor(const EState *estate)
{
	if (!is_named_portal(estate) || hides_scan(ActivePortal->queryDesc->planstate))
		return GJ_CURSOR_NONE;
	if (estate->es_plannedstmt->subplans != NIL ||
		calls_unknown_in(ActivePortal->queryDesc->planstate, NULL))
		return GJ_CURSOR_RUNS;
	return GJ_CURSOR_RESTS;
}

static bool
is_named_portal(const EState *estate)
{
	return ActivePortal != NULL && ActivePortal->name[0] != '\0' && ActivePortal->visible &&
		ActivePortal->queryDesc != NULL && ActivePortal->queryDesc->estate == estate &&
		!RecoveryInProgress();
}

/*
 * Return true if the rows of a query come from a node that keeps them, so that the cursor is not on
 * a table's row.  Wherever the executor may have to go backwards, a node keeps the rows of our
 * scans, none of which does, though it need not be the topmost one; and the executor does not shut
 * nodes down at the end of a FETCH.
 */
static bool
hides_scan(const PlanState *node)
{
	while (IsA(node, LimitState))
		node = outerPlanState(node);
	return IsA(node, SortState) || IsA(node, IncrementalSortState) || IsA(node, MaterialState);
}

/*
 * Return true if the expressions of the plan call a function that may use the cursor.  Only
 * target lists, quals and custom_exprs matter: above nodes with other expressions, joins and
 * aggregates, no cursor is on a table's row.
 */
static bool
calls_unknown_in(PlanState *node, void *context)
{
	return calls_unknown((Node *) node->plan->targetlist, NULL) ||
		calls_unknown((Node *) node->plan->qual, NULL) ||
		(IsA(node, CustomScanState) &&
		 calls_unknown((Node *) ((CustomScan *) node->plan)->custom_exprs, NULL)) ||
		planstate_tree_walker(node, calls_unknown_in, context);
}

static bool
calls_unknown(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, CoerceToDomain) || check_functions_in_node(node, is_unknown, context))
		return true;
	return expression_tree_walker(node, calls_unknown, context);
}

/*
 * Return true if the function is volatile, or user-defined: then it may call a volatile one
 */
static bool
is_unknown(Oid function, void *context)
{
	return function >= FirstNormalObjectId || func_volatile(function) == PROVOLATILE_VOLATILE;
}

/*
 * Record the position of a row from an entry with this packed TID
 */
void
GjNoteEntry(ScanState *node, GjCursor cursor, uint64 tid)
{
	ItemPointerData place;

	if (cursor == GJ_CURSOR_NONE)
		return;
	ItemPointerSet(&place, GjPackedBlock(tid), GjPackedOffset(tid));
	if (cursor == GJ_CURSOR_RUNS)
		GjFollowChain(node->ss_currentRelation, node->ps.state->es_snapshot, &place);
	GjNotePlace(node, &place);
}

/*
 * Follow the chain of the last row, which is the cursor's
 */
static void
settle_cursor(ScanState *node, GjCursor cursor)
{
	TupleTableSlot *slot = node->ss_ScanTupleSlot;

	if (cursor == GJ_CURSOR_RESTS && !TTS_EMPTY(slot) && ItemPointerIsValid(&slot->tts_tid))
		GjFollowChain(node->ss_currentRelation, node->ps.state->es_snapshot, &slot->tts_tid);
}
