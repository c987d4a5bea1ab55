/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  GpuScan: the rows of one table whose key is in a set that is known when the
 *	  scan starts.
 *
 * The life of a scan: evaluate the values into a key set, once; match it against
 * the index; fetch block by block; test the key of each fetched tuple against the
 * set (not by the array clause, which would walk the array for each row); leave the
 * other clauses and the projection to ExecScan().  scan.c has the first two.
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
static const GjKeySet *share_keys(GjScanState *scan);
static bool is_asked_for(const EState *estate);
static bool is_sorted(const PlanState *node);
static bool may_ask(PlanState *node, void *context);
static bool calls_unknown(Node *node, void *context);
static bool is_unknown(Oid function, void *context);
static void follow_chain(ScanState *node, ItemPointerData *tid);
static GjTidSet *scan_match(GjScanState *scan);
static void cursor_rests(ScanState *node, GjCursor cursor);

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
	tids = scan_match(scan);
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
		cursor_rests(&node->ss, scan->cursor);
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
 * What a GpuScan asks its index: for which keys, and with how much memory.
 *
 * The values of the key conditions are evaluated once, into a set.  Scans of other
 * partitions that ask for the same keys share it, and each takes the part that its
 * table can have (source.c).  Within EvalPlanQual, where params get other values
 * without a word, a scan makes a set of its own.
 *
 * In a parallel plan it may be another process that searches (parallel.c).
 *-------------------------------------------------------------------------
 */

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
static GjTidSet *
scan_match(GjScanState *scan)
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

/*-------------------------------------------------------------------------
 * Cursors
 *
 * Where the row lies on which a cursor stands.
 *
 * UPDATE and DELETE ... WHERE CURRENT OF a cursor take the TID of the scan's last row and go
 * to that tuple.  The TID of an index entry is that of the root of a HOT chain.  Pruning may
 * have made the root a mere redirection, at which there is no tuple to update.  (PostgreSQL's
 * index-only scans pass on the entry's TID nevertheless, and no row is updated.)
 *
 * So, where somebody may ask, the chain is followed.  Not when he asks: he reads the TID in the
 * scan slot, and nothing of ours is called.  Between two FETCHes it is the last row that he can
 * ask for; the executor shuts its nodes down whenever it has returned as many rows as were wanted,
 * and then that row's chain is followed.  This comes too late for a function in the query, which
 * may ask for the row that is just being made: where there is a volatile one, or one that users
 * have made and that may call such a one, also by a domain, the chain of each row is followed.
 * That takes ten times as long as the row itself, and who reads a million rows through a cursor,
 * as postgres_fdw does, would pay it for each.
 *
 * Where nobody can ask, nothing is noted: even the entry's TID alone would be an eighth of the
 * time of a count.  Nobody can ask
 *
 *	- without a portal that has a name: an ordinary SELECT has one without.  (A client that
 *	  speaks the protocol itself can suspend that and ask by the empty name: an error);
 *	- of the portal that EXECUTE makes for a prepared statement.  It is not visible, and has a
 *	  name that is made up.  (Who guesses it within a function of the query: the same error);
 *	- for scans that are not of the portal's own query, like those in functions it calls;
 *	- below a Sort, where PostgreSQL looks for no scan;
 *	- on a standby, where nothing can be written in a transaction, not even after promotion.
 *-------------------------------------------------------------------------
 */

/*
 * When may somebody ask where this query's rows lie?  Called while the query runs.
 */
GjCursor
GjCursorOf(const EState *estate)
{
	if (!is_asked_for(estate) || is_sorted(ActivePortal->queryDesc->planstate))
		return GJ_CURSOR_NONE;
	if ((estate->es_top_eflags & EXEC_FLAG_BACKWARD) != 0 ||
		estate->es_plannedstmt->subplans != NIL ||
		may_ask(ActivePortal->queryDesc->planstate, NULL))
		return GJ_CURSOR_RUNS;
	return GJ_CURSOR_RESTS;
}

static bool
is_asked_for(const EState *estate)
{
	return ActivePortal != NULL && ActivePortal->name[0] != '\0' && ActivePortal->visible &&
		ActivePortal->queryDesc != NULL && ActivePortal->queryDesc->estate == estate &&
		!RecoveryInProgress();
}

/*
 * Return true if the rows of a query come from a Sort, so that the cursor stands on none of a table
 */
static bool
is_sorted(const PlanState *node)
{
	while (IsA(node, LimitState))
		node = outerPlanState(node);
	return IsA(node, SortState) || IsA(node, IncrementalSortState);
}

/*
 * Is there a function that may ask in what the plan computes of rows?  Nodes that compute more,
 * joins and aggregates, have no row of a table on which a cursor could stand.
 */
static bool
may_ask(PlanState *node, void *context)
{
	return calls_unknown((Node *) node->plan->targetlist, NULL) ||
		calls_unknown((Node *) node->plan->qual, NULL) ||
		(IsA(node, CustomScanState) &&
		 calls_unknown((Node *) ((CustomScan *) node->plan)->custom_exprs, NULL)) ||
		planstate_tree_walker(node, may_ask, context);
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
 * A function that users have made may call a volatile one, whatever it is itself.
 */
static bool
is_unknown(Oid function, void *context)
{
	return function >= FirstNormalObjectId || func_volatile(function) == PROVOLATILE_VOLATILE;
}

/*
 * Note where the row lies that has come from an entry with this packed TID
 */
void
GjNoteEntry(ScanState *node, GjCursor cursor, uint64 tid)
{
	ItemPointerData place;

	if (cursor == GJ_CURSOR_NONE)
		return;
	ItemPointerSet(&place, GjPackedBlock(tid), GjPackedOffset(tid));
	if (cursor == GJ_CURSOR_RUNS)
		follow_chain(node, &place);
	GjNotePlace(node, &place);
}

/*
 * Find the row on which the cursor rests now
 */
static void
cursor_rests(ScanState *node, GjCursor cursor)
{
	TupleTableSlot *slot = node->ss_ScanTupleSlot;

	if (cursor == GJ_CURSOR_RESTS && !TTS_EMPTY(slot) && ItemPointerIsValid(&slot->tts_tid))
		follow_chain(node, &slot->tts_tid);
}

/*
 * For rows whose places are not noted: who asks nevertheless shall get an error, and not the
 * impression that there is no row.
 */
void
GjNoteNoPlace(ScanState *node)
{
	ItemPointerData nowhere;

	ItemPointerSetInvalid(&nowhere);
	GjNotePlace(node, &nowhere);
}

/*
 * Go from the root of a HOT chain to the member that the snapshot sees.  If it sees none, or the
 * TID is that of a member already, it stays what it is.
 */
static void
follow_chain(ScanState *node, ItemPointerData *tid)
{
	Relation	heap = node->ss_currentRelation;
	Buffer		buffer = ReadBuffer(heap, ItemPointerGetBlockNumber(tid));
	HeapTupleData tuple;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	heap_hot_search_buffer(tid, heap, buffer, node->ps.state->es_snapshot, &tuple, NULL, true);
	UnlockReleaseBuffer(buffer);
}
