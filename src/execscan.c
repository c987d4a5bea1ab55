/*-------------------------------------------------------------------------
 *
 * execscan.c
 *	  GpuScan: the rows of one table whose key is in a set that is known when the
 *	  scan starts.
 *
 * The life of a scan: evaluate the values into a key set, once; match it against
 * the index; fetch block by block; test the key of each fetched tuple against the
 * set (not by the array clause, which would walk the array for each row); leave the
 * other clauses and the projection to ExecScan().  execscanmatch.c has the first two.
 *
 * Nothing is searched before the first tuple is wanted: EXPLAIN, a branch that is
 * never executed and the initialisation for EvalPlanQual cost nothing, and params
 * have their values by then.
 *
 * Where the index has every column that the plan needs, the match delivers entries, and
 * those of all-visible pages are rows without a fetch (execindexonly.c).  They come
 * first, in a virtual slot of the table's shape; then what is left is fetched.
 *
 * A rescan that changes none of the params in the key clauses delivers the same
 * TIDs again, unless these were filtered by params that have changed.  That is right only
 * because the snapshot of a scan never changes while it lives.
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

#include "access/genam.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am.h"
#include "execcursor.h"
#include "execscan.h"
#include "gpujoin.h"

static Node *create_state(CustomScan *plan);
static void begin_scan(CustomScanState *node, EState *estate, int eflags);
static void use_heap_slot(GjScanState *scan, EState *estate);
static void begin_index_only(GjScanState *scan);
static bool is_index_only(CustomScan *plan);
static TupleTableSlot *exec_scan(CustomScanState *node);
static TupleTableSlot *next_tuple(ScanState *node);
static bool go_on_with_entries(GjScanState *scan);
static TupleTableSlot *next_fetched(GjScanState *scan);
static bool recheck_tuple(ScanState *node, TupleTableSlot *slot);
static bool has_wanted_key(GjScanState *scan, TupleTableSlot *slot);
static void start(GjScanState *scan);
static void start_fetch(GjScanState *scan, GjTidSet *tids);
static void drop_results(CustomScanState *node);
static void rescan(CustomScanState *node);
static void refilter(GjScanState *scan);
static void end_scan(CustomScanState *node);
static void explain_scan(CustomScanState *node, List *ancestors, ExplainState *es);

const CustomScanMethods GjScanPlanMethods = {
	.CustomName = "GpuScan",
	.CreateCustomScanState = create_state,
};

static const CustomExecMethods exec_methods = {
	.CustomName = "GpuScan",
	.BeginCustomScan = begin_scan,
	.ExecCustomScan = exec_scan,
	.EndCustomScan = end_scan,
	.ReScanCustomScan = rescan,
	.EstimateDSMCustomScan = GjShareEstimate,
	.InitializeDSMCustomScan = GjShareInit,
	.ReInitializeDSMCustomScan = GjShareReset,
	.InitializeWorkerCustomScan = GjShareAttach,
	.ShutdownCustomScan = GjShareShutdown,
	.ExplainCustomScan = explain_scan,
};

/*
 * Every process that may be handed a plan has to know the node by name, parallel
 * workers included.
 */
void
GjExecScanInit(void)
{
	RegisterCustomScanMethods(&GjScanPlanMethods);
}

static Node *
create_state(CustomScan *plan)
{
	GjScanState *scan = (GjScanState *) newNode(sizeof(GjScanState), T_CustomScanState);

	scan->css.methods = &exec_methods;
	return (Node *) scan;
}

static void
begin_scan(CustomScanState *node, EState *estate, int eflags)
{
	GjScanState *scan = (GjScanState *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	use_heap_slot(scan, estate);
	scan->program = GjKeyProgramInit(GjScanGetPrivate(plan, GJ_SCAN_KEY_PLAN),
									 (List *) GjScanGetExpr(plan, GJ_SCAN_VALUES),
									 &node->ss.ps);

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	scan->index = GjOpenIndex(estate, plan->scan.scanrelid,
							  linitial_oid(GjScanGetPrivate(plan, GJ_SCAN_INDEX_OID)));
	GjInitKeyReader(&scan->key_reader, scan->index,
					intVal(list_nth(plan->custom_private, GJ_SCAN_KEY_ATTNO)),
					(Expr *) GjScanGetExpr(plan, GJ_SCAN_KEY), &node->ss.ps);
	scan->context = AllocSetContextCreate(estate->es_query_cxt, "GpuScan results",
										  ALLOCSET_DEFAULT_SIZES);
	scan->fetch = GjFetchCreate(estate->es_query_cxt, node->ss.ss_currentRelation,
								estate->es_snapshot);
	scan->share = (GjShare) {.fetch = scan->fetch,.stats = &scan->stats,.forget = drop_results};
	scan->entry_filter = GjEntryFilterInit(GjScanGetPrivate(plan, GJ_SCAN_FILTER_PLAN),
									 (List *) GjScanGetExpr(plan, GJ_SCAN_FILTER_VALUES),
									 &node->ss.ps);
	scan->tuple_fill = GjTupleFillScan(&node->ss);
	node->ss.ss_ScanTupleSlot->tts_tableOid = RelationGetRelid(node->ss.ss_currentRelation);
	if (is_index_only(plan))
		begin_index_only(scan);
}

/*
 * Core made the scan slot a virtual one and compiled the expressions for it, that
 * is, without the step that takes a heap tuple apart.  Do both again for the slot
 * type of the table.  Subplans would be listed twice for EXPLAIN.
 *
 * An index-only scan keeps a virtual one and has another for fetched tuples: expressions
 * must be ready for both.
 */
static void
use_heap_slot(GjScanState *scan, EState *estate)
{
	ScanState  *ss = &scan->css.ss;

	scan->heap_slot = GjInitScanSlots(ss, is_index_only((CustomScan *) ss->ps.plan));
	ss->ps.subPlan = NIL;
	ExecAssignScanProjectionInfo(ss);
	ss->ps.qual = ExecInitQual(ss->ps.plan->qual, &ss->ps);
}

/*
 * Filters need the row as a scan tuple, unless they were all tested on the entry; without any, a
 * target list of plain columns is filled from the entry at once.
 */
static void
begin_index_only(GjScanState *scan)
{
	PlanState  *ps = &scan->css.ss.ps;
	CustomScan *plan = (CustomScan *) ps->plan;

	scan->index_only = GjIndexOnlyCreate(&scan->css.ss, scan->index);
	GjIndexOnlyFilter(scan->index_only, scan->entry_filter);
	scan->share.index_only = GjIndexOnlyGetStats(scan->index_only);
	scan->row_fill = GjEntryFillRow(scan->index, &plan->scan,
									GjScanGetPrivate(plan, GJ_SCAN_ATTNOS));
	GjIndexOnlyFeed(scan->index_only, scan->row_fill);
	if (GjEntryFilterIsAll(GjScanGetPrivate(plan, GJ_SCAN_FILTER_PLAN), plan->scan.plan.qual) &&
		ps->ps_ProjInfo != NULL)
		scan->target_fill = GjEntryFillTarget(scan->row_fill, plan->scan.plan.targetlist,
											  plan->scan.scanrelid);
	if (scan->target_fill != NULL)
		GjIndexOnlyFeed(scan->index_only, scan->target_fill);
}

static bool
is_index_only(CustomScan *plan)
{
	return boolVal(list_nth(plan->custom_private, GJ_SCAN_INDEX_ONLY));
}

static TupleTableSlot *
exec_scan(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;
	TupleTableSlot *slot = node->ss.ps.ps_ResultTupleSlot;
	ItemPointerData place;
	uint64		entry;

	if (scan->target_fill != NULL && GjIndexOnlyNext(scan->index_only, &entry))
	{
		GjEntryFillSlot(scan->target_fill, entry, slot);
		if (scan->is_cursor)
			GjNoteEntry(&node->ss, GjIndexOnlyTid(scan->index_only, entry));
		return slot;
	}
	if (scan->tuple_fill != NULL && scan->tids != NULL && scan->filtered &&
		GjFetchFill(scan->fetch, scan->tuple_fill, slot, &place))
	{
		GjNotePlace(&node->ss, &place);
		return slot;
	}
	return ExecScan(&node->ss, next_tuple, recheck_tuple);
}

/*
 * Access method of ExecScan(): the next tuple whose key is wanted
 */
static TupleTableSlot *
next_tuple(ScanState *node)
{
	GjScanState *scan = (GjScanState *) node;
	TupleTableSlot *slot;

	if (scan->tids == NULL && !GjIndexOnlyIsStarted(scan->index_only))
		start(scan);
	do
	{
		if (scan->tids == NULL)
		{
			uint64		entry;

			if (GjIndexOnlyNext(scan->index_only, &entry))
			{
				GjEntryFillSlot(scan->row_fill, entry, node->ss_ScanTupleSlot);
				if (scan->is_cursor)
					GjNoteEntry(node, GjIndexOnlyTid(scan->index_only, entry));
				return node->ss_ScanTupleSlot;
			}
			start_fetch(scan, GjIndexOnlyRest(scan->index_only));
		}
		slot = next_fetched(scan);
	} while (TupIsNull(slot) && go_on_with_entries(scan));

	/* a cursor that goes on with another partition stands on none of our rows any more */
	if (TupIsNull(slot))
		ExecClearTuple(node->ss_ScanTupleSlot);
	return slot;
}

/* Are there more entries, since not all that is for the heap fitted in memory? */
static bool
go_on_with_entries(GjScanState *scan)
{
	if (GjIndexOnlyIsStarted(scan->index_only))
	{
		GjFetchReset(scan->fetch);
		if (GjIndexOnlyContinue(scan->index_only))
		{
			scan->tids = NULL;
			GjNoteNoPlace(&scan->css.ss);
		}
	}
	return scan->tids == NULL;
}

static TupleTableSlot *
next_fetched(GjScanState *scan)
{
	TupleTableSlot *slot = scan->heap_slot;

	while (GjFetchNext(scan->fetch, slot))
	{
		if (scan->filtered || has_wanted_key(scan, slot))
		{
			if (scan->index_only != NULL)
				GjNotePlace(&scan->css.ss, &slot->tts_tid);
			return slot;
		}

		GjFetchGetStats(scan->fetch)->rechecked++;
		ResetExprContext(scan->css.ss.ps.ps_ExprContext);
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

	if (scan->keys == NULL)
		GjScanMakeKeys(scan);
	return has_wanted_key(scan, slot);
}

static bool
has_wanted_key(GjScanState *scan, TupleTableSlot *slot)
{
	int64		key;

	if (!GjReadKey(&scan->key_reader, scan->css.ss.ps.ps_ExprContext, slot, &key))
		return scan->keys->nulls;
	return GjKeySetContains(scan->keys, key);
}

/*
 * Search, and begin to deliver
 */
static void
start(GjScanState *scan)
{
	GjTidSet   *tids;

	if (scan->keys == NULL)
		GjScanMakeKeys(scan);
	scan->is_cursor = GjIsCursor(scan->css.ss.ps.state);
	tids = GjScanMatch(scan);
	if (tids != NULL)
		start_fetch(scan, tids);
	else
		GjNoteNoPlace(&scan->css.ss);
}

static void
start_fetch(GjScanState *scan, GjTidSet *tids)
{
	scan->tids = tids;
	scan->filtered = GjFetchFilter(scan->fetch, &scan->key_reader, scan->keys);
	GjFetchStart(scan->fetch, tids);
}

/*
 * Forget keys and TIDs; the next tuple that is wanted makes new ones
 */
static void
drop_results(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;

	GjFetchReset(scan->fetch);
	if (scan->index_only != NULL)
		GjIndexOnlyReset(scan->index_only);
	scan->keys = NULL;
	scan->tids = NULL;
	scan->unfiltered = false;
	MemoryContextReset(scan->context);
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

	ExecScanReScan(&node->ss);

	if (scan->share.shared != NULL || node->ss.ps.state->es_epq_active != NULL ||
		bms_overlap(node->ss.ps.chgParam, GjKeyProgramParams(scan->program)))
		drop_results(node);
	else if (bms_overlap(node->ss.ps.chgParam, GjEntryFilterParams(scan->entry_filter)))
		refilter(scan);
	if (GjIndexOnlyIsStarted(scan->index_only))
	{
		GjFetchReset(scan->fetch);
		scan->tids = NULL;
		GjIndexOnlyRestart(scan->index_only);
	}
	else if (scan->tids != NULL)
		GjFetchStart(scan->fetch, scan->tids);
}

/*
 * The filter of entries has other params, the keys are the same: entries that are kept are
 * filtered anew.  Filtered TIDs are dropped for those of all entries, which will do for all
 * params that are still to come.
 */
static void
refilter(GjScanState *scan)
{
	GjEntryFilterReset(scan->entry_filter);
	if (scan->tids == NULL || scan->unfiltered || GjIndexOnlyIsStarted(scan->index_only))
		return;
	drop_results(&scan->css);
	scan->unfiltered = true;
}

static void
end_scan(CustomScanState *node)
{
	GjScanState *scan = (GjScanState *) node;

	if (scan->index == NULL)
		return;

	ExecClearTuple(node->ss.ss_ScanTupleSlot);
	ExecClearTuple(scan->heap_slot);
	GjFetchFree(scan->fetch);
	MemoryContextDelete(scan->context);
	GjKeysEnd(&scan->key_user);
	index_close(scan->index, NoLock);
}

static void
explain_scan(CustomScanState *node, List *ancestors, ExplainState *es)
{
	GjScanState *scan = (GjScanState *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	GjExplainIndex(es, linitial_oid(GjScanGetPrivate(plan, GJ_SCAN_INDEX_OID)));
	GjExplainKeyCondition(node, ancestors, es,
						  GjKeyPlanClauses(GjScanGetPrivate(plan, GJ_SCAN_KEY_PLAN),
										   (List *) GjScanGetExpr(plan, GJ_SCAN_VALUES),
										   (Expr *) GjScanGetExpr(plan, GJ_SCAN_KEY)));
	GjExplainIndexFilter(node, ancestors, es, GjScanGetPrivate(plan, GJ_SCAN_FILTER_PLAN),
						 &scan->stats);
	if (is_index_only(plan))
		GjExplainIndexOnly(es, scan->stats.searches == 0 ? NULL :
						   GjIndexOnlyGetStats(scan->index_only));
	if (scan->fetch != NULL)
		GjExplainMatch(es, &scan->stats, GjFetchGetStats(scan->fetch));
}
