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
#include "nodes/nodeFuncs.h"
#include "storage/bufmgr.h"
#include "tcop/pquery.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/gpujoin.h"
#include "base/nodes.h"
#include "pages/pages.h"
#include "exec.h"

static Node *create_state(CustomScan *plan);
static void begin_scan(CustomScanState *node, EState *estate, int eflags);
static GjFill *fill_from_tuples(const ScanState *scan, bool to_arrays);
static TupleTableSlot *exec_scan(CustomScanState *node);
static inline bool fill_from_next(GjScanState *scan, TupleTableSlot *slot);
static inline uint64 entry_tid(const GjTableScan *table, uint64 entry);
static GjRowBatch *next_batch(PlanState *node, bool want_partners);
static const GjFill *entry_fill(const GjTableScan *table);
static TupleTableSlot *next_tuple(ScanState *node);
static void start_fetch(GjScanState *scan, GjTidSet *tids);
static bool continue_with_entries(GjScanState *scan);
static TupleTableSlot *next_fetched(GjScanState *scan);
static bool recheck_tuple(ScanState *node, TupleTableSlot *slot);
static void drop_results(CustomScanState *node);
static void rescan(CustomScanState *node);
static void shutdown_scan(CustomScanState *node);
static void end_scan(CustomScanState *node);
static void explain_scan(CustomScanState *node, List *ancestors, ExplainState *es);
static const GjKeySet *share_keys(GjScanState *scan);
static void make_keys(GjScanState *scan);
static GjCursor find_cursor(const EState *estate);
static bool is_named_portal(const EState *estate);
static bool is_sorted(const PlanState *node);
static bool calls_unknown_in(PlanState *node, void *context);
static bool calls_unknown(Node *node, void *context);
static bool is_unknown(Oid function, void *context);
static GjTidSet *scan_match(GjScanState *scan);
static void settle_cursor(ScanState *node, GjCursor cursor);

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

static const GjRowMethods row_methods = {
	.next_batch = next_batch,
};

void
GjExecScanInit(void)
{
	GjNodeRegister(&plan_methods, &row_methods);
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
		node->ss.ps.scanopsfixed = false;	/* sorted rows are in another slot */
	ExecAssignScanProjectionInfo(&node->ss);
	GjTableScanInitQual(table);
	scan->program = GjKeyProgramInit(GjTableScanGetPrivate(table, GJ_SCAN_KEY_PLAN),
									 (List *) GjTableScanGetExpr(table, GJ_SCAN_VALUES),
									 &node->ss.ps);

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	GjTableScanOpen(table, node->ss.ps.ps_ProjInfo != NULL, drop_results);
	table->tuple_fill = fill_from_tuples(&node->ss, false);
	table->array_fill = fill_from_tuples(&node->ss, true);
	node->ss.ss_ScanTupleSlot->tts_tableOid = RelationGetRelid(node->ss.ss_currentRelation);
	scan->ordered = GjOrderedCreate(scan);
}

/*
 * Prepare filling the scan's result slot, or arrays, from tuples.  Returns NULL if the result needs
 * more work.  EvalPlanQual supplies its own rows; without a projection the result slot is another.
 */
static GjFill *
fill_from_tuples(const ScanState *scan, bool to_arrays)
{
	const Scan *plan = (const Scan *) scan->ps.plan;
	GjFill	   *fill;

	if (scan->ps.qual != NULL || scan->ps.state->es_epq_active != NULL)
		return NULL;
	if (scan->ps.ps_ProjInfo == NULL && !to_arrays)
		return NULL;
	fill = GjFillTupleRow(RelationGetDescr(scan->ss_currentRelation), plan->plan.targetlist,
						  plan->scanrelid, to_arrays);
	return fill->noutputs == list_length(plan->plan.targetlist) ? fill : NULL;
}

static TupleTableSlot *
exec_scan(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;
	GjTableScan *table = &scan->table;
	TupleTableSlot *slot = node->ss.ps.ps_ResultTupleSlot;
	uint64		entry;

	if (table->target_fill != NULL && GjIndexOnlyNext(table->index_only, &entry))
	{
		GjFillFromEntry(table->target_fill, entry, slot);
		if (scan->cursor != GJ_CURSOR_NONE)
			GjNoteEntry(&node->ss, scan->cursor, entry_tid(table, entry));
		return slot;
	}
	if (table->tuple_fill != NULL && table->tids != NULL && table->filtered &&
		fill_from_next(scan, slot))
		return slot;
	if (scan->ordered == NULL)
		return ExecScan(&node->ss, next_tuple, recheck_tuple);
	return GjOrderedNext(scan, recheck_tuple);
}

/*
 * Fill the result slot from the next fetched tuple.  Returns false at the end, or if the tuple does
 * not have its columns where the fill expects them.
 */
static inline bool
fill_from_next(GjScanState *scan, TupleTableSlot *slot)
{
	GjTableScan *table = &scan->table;
	GjRowBatch *batch = table->fetched;
	const HeapTupleData *tuple;

	if (batch->next >= batch->nrows && !GjFetchLoad(table->fetch))
		return false;
	tuple = GjRowTuple(batch, batch->next);
	if (!GjFillFits(table->tuple_fill, tuple->t_data))
		return false;
	batch->next++;
	GjFillFromTuple(table->tuple_fill, tuple->t_data, slot);
	GjNotePlace(&table->css.ss, &tuple->t_self);
	return true;
}

/*
 * Method of GjRowMethods
 */
static GjRowBatch *
next_batch(PlanState *node, bool want_partners)
{
	GjScanState *scan = (GjScanState *) castNode(CustomScanState, node);
	GjTableScan *table = &scan->table;
	GjRowBatch *batch;

	if (scan->ordered != NULL)
		return NULL;
	if (table->tids == NULL && !GjIndexOnlyIsStarted(table->index_only))
		GjScanStart(scan, NULL);
	do
	{
		if (table->tids == NULL)
		{
			batch = GjIndexOnlyGetBatch(table->index_only);
			batch->shape = entry_fill(table);
			if (batch->shape == NULL)
				return NULL;
			if (batch->next < batch->nrows || GjIndexOnlyLoad(table->index_only, false))
				return batch;
			start_fetch(scan, GjIndexOnlyRest(table->index_only));
		}
		if (table->array_fill == NULL || !table->filtered)
			return NULL;
		batch = table->fetched;
		batch->shape = table->array_fill;
		if (batch->next < batch->nrows || GjFetchLoad(table->fetch))
			return batch;
	} while (continue_with_entries(scan));
	return NULL;
}

/*
 * Return the packed TID of an entry
 */
static inline uint64
entry_tid(const GjTableScan *table, uint64 entry)
{
	return GjIndexOnlyGetBatch(table->index_only)->entries->tids[entry];
}

/*
 * Return the fill that turns entries into result rows, or NULL if more work is needed
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
 * Access method of ExecScan()
 */
static TupleTableSlot *
next_tuple(ScanState *node)
{
	return GjScanNext((GjScanState *) node);
}

/*
 * Return the next tuple whose key is in the set, in no order: in the scan slot if it comes from an
 * entry, otherwise in the slot for heap tuples
 */
TupleTableSlot *
GjScanNext(GjScanState *scan)
{
	ScanState  *node = &scan->table.css.ss;
	GjTableScan *table = &scan->table;
	TupleTableSlot *slot;

	if (table->tids == NULL && !GjIndexOnlyIsStarted(table->index_only))
		GjScanStart(scan, NULL);
	do
	{
		if (table->tids == NULL)
		{
			uint64		entry;

			if (GjIndexOnlyNext(table->index_only, &entry))
			{
				GjFillFromEntry(table->row_fill, entry, node->ss_ScanTupleSlot);
				if (scan->cursor != GJ_CURSOR_NONE)
					GjNoteEntry(node, scan->cursor, entry_tid(table, entry));
				return node->ss_ScanTupleSlot;
			}
			start_fetch(scan, GjIndexOnlyRest(table->index_only));
		}
		slot = next_fetched(scan);
	} while (TupIsNull(slot) && continue_with_entries(scan));

	/* a cursor that continues with another partition is no longer on a row of ours */
	if (TupIsNull(slot))
		ExecClearTuple(node->ss_ScanTupleSlot);
	return slot;
}

/*
 * Continue with entries after the fetched tuples.  There are more if the TIDs to be fetched did
 * not fit in memory.
 */
static bool
continue_with_entries(GjScanState *scan)
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
	return isnull ? table->keys->nulls : GjKeySetContains(table->keys, key);
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
 * Start to return rows: the tuples with these TIDs, or, if tids is NULL, the rows that a search
 * finds
 */
void
GjScanStart(GjScanState *scan, GjTidSet *tids)
{
	if (tids == NULL)
	{
		GjScanPrepare(scan);
		tids = scan_match(scan);
	}
	if (tids != NULL)
		start_fetch(scan, tids);
	else
		GjNoteNoPlace(&scan->table.css.ss);
}

static void
start_fetch(GjScanState *scan, GjTidSet *tids)
{
	GjTableScan *table = &scan->table;

	table->tids = tids;
	table->filtered = GjFetchStart(table->fetch, tids, &(GjRowProbe) {.keys = table->keys});
}

/*
 * Forget keys and TIDs.  The next request for a tuple makes new ones.
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
	GjEntryFilterReset(table->entry_filter);	/* its parameters may have changed, too */
	table->keys = NULL;
	table->tids = NULL;
	table->all_tids = false;
	MemoryContextReset(table->context);
	GjKeysRelease(&scan->key_user);
}

/*
 * Rescan.  A process's share of the TIDs can be used only once.  Within EvalPlanQual, parameters
 * change without setting chgParam.
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
		GjIndexOnlyRestart(table->index_only, NULL, NULL);
	}
	else if (table->tids != NULL)
		start_fetch(scan, table->tids);
}

/*
 * Shut down: the executor has got as many rows as it wants for now
 */
static void
shutdown_scan(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;

	if (scan->table.index_only != NULL)
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
	GjKeysEnd(&scan->key_user);
}

static void
explain_scan(CustomScanState *node, List *ancestors, ExplainState *es)
{
	GjScanState *scan = (GjScanState *) node;
	GjTableScan *table = &scan->table;
	GjTableReport report = {
		.key_quals = GjKeyPlanClauses(GjTableScanGetPrivate(table, GJ_SCAN_KEY_PLAN),
									  (List *) GjTableScanGetExpr(table, GJ_SCAN_VALUES),
									  (Expr *) GjTableScanGetExpr(table, GJ_TABLE_KEY)),
		.order = GjTableScanGetPrivate(table, GJ_SCAN_ORDER),
		.sort_columns = (List *) GjTableScanGetExpr(table, GJ_SCAN_SORT_COLUMNS),
	};

	if (report.order != NIL && table->stats.searches > 0)
		report.ordered = GjOrderedGetStats(scan->ordered);
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
	return GjKeyRoutesTake(scan->key_user.routes,
						   GjTableScanGetPrivate(table, GJ_SCAN_PARTITIONS), table->context);
}

/*
 * Start to search for the keys.  Returns the TIDs found, or NULL if rows come from entries.
 */
static GjTidSet *
scan_match(GjScanState *scan)
{
	GjTableScan *table = &scan->table;
	uint64		columns = table->row_fill != NULL ? table->row_fill->columns : 0;

	return GjParallelMatch(table, columns, GjScanMemory(scan), true);
}

/*
 * Return the memory that the keys leave for the match
 */
Size
GjScanMemory(const GjScanState *scan)
{
	Size		limit = GjWorkMemory();
	Size		used = GjKeySetMemory(scan->table.keys);

	return used < limit / 2 ? limit - used : limit / 2;
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
 * constraint may, too), we follow the chain of each row.  That takes ten times as long as returning
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
 *	- below a Sort, where PostgreSQL does not look for a scan;
 *	- on a standby, where a transaction cannot write anything, not even after promotion.
 *-------------------------------------------------------------------------
 */

/*
 * Return when the positions of this query's rows may be used.  Called while the query runs.
 */
static GjCursor
find_cursor(const EState *estate)
{
	if (!is_named_portal(estate) || is_sorted(ActivePortal->queryDesc->planstate))
		return GJ_CURSOR_NONE;
	if ((estate->es_top_eflags & EXEC_FLAG_BACKWARD) != 0 ||
		estate->es_plannedstmt->subplans != NIL ||
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
 * Return true if the rows of a query come from a Sort, so that the cursor is not on a table's row
 */
static bool
is_sorted(const PlanState *node)
{
	while (IsA(node, LimitState))
		node = outerPlanState(node);
	return IsA(node, SortState) || IsA(node, IncrementalSortState);
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
