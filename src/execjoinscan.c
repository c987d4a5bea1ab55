/*-------------------------------------------------------------------------
 *
 * execjoinscan.c
 *	  GpuJoinScan: one table of a GpuJoin's big side.
 *
 * The join says for which keys to search the index, and then asks for one row after
 * another that has partners on the small side and passes the table's filters.  The
 * row's columns are put straight into the joined slot, which is the join's: nothing
 * is copied or allocated for a row.
 *
 * In the order of a fetched row's tests, the look-up of its key is the first, since
 * it stands for the clause that the index answers and most rows that should not be
 * here fail it.  The filters follow, in the order that security levels ask for; then,
 * in the join, clauses that see both sides.
 *
 * Where the index has every column that is needed, rows of all-visible pages come from
 * entries, and are looked up by the entry's key; the others follow from the heap, by the
 * key of the tuple (execindexonly.c).
 *
 * Core's executor never asks this node for a row.
 *
 * EvalPlanQual runs the join again for a row that a concurrent update has changed: the
 * tables that take part with one given row, or with none, are marked by their range
 * table index.  Such a table is not searched; the row comes from ExecScan(), as for
 * core's scans, and has its key looked up like any other.  Tables that are not marked
 * are searched, under the query's snapshot.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "nodes/value.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "am.h"
#include "execjoinscan.h"
#include "gpujoin.h"
#include "joinplan.h"

static Node *create_scan_state(CustomScan *plan);
static void begin_scan(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *exec_scan(CustomScanState *node);
static bool is_replaced(const GjJoinScanState *scan);
static GjTidSet *search(CustomScanState *node, Size limit);
static bool is_index_only(CustomScan *plan);
static List *filter_plan(CustomScan *plan);
static void start_fetch(GjJoinScanState *scan, GjSmallSide *small, GjTidSet *tids);
static GjSmallRow *next_row(GjJoinScanState *scan, GjSmallSide *small);
static GjSmallRow *next_replaced_row(GjJoinScanState *scan, GjSmallSide *small);
static TupleTableSlot *no_row(ScanState *node);
static bool any_row(ScanState *node, TupleTableSlot *slot);
static GjSmallRow *next_fetched(GjJoinScanState *scan, GjSmallSide *small);
static GjSmallRow *find_partners(GjJoinScanState *scan, GjSmallSide *small,
								 TupleTableSlot *slot);
static void forget_tids(CustomScanState *node);
static void rescan(CustomScanState *node);
static void refilter(GjJoinScanState *scan);
static void end_scan(CustomScanState *node);
static void explain_scan(CustomScanState *node, List *ancestors, ExplainState *es);

const CustomScanMethods GjJoinScanPlanMethods = {
	.CustomName = "GpuJoinScan",
	.CreateCustomScanState = create_scan_state,
};

static const CustomExecMethods scan_exec_methods = {
	.CustomName = "GpuJoinScan",
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

static Node *
create_scan_state(CustomScan *plan)
{
	GjJoinScanState *scan = (GjJoinScanState *) newNode(sizeof(GjJoinScanState),
														T_CustomScanState);

	Assert(list_length(plan->custom_private) == GJ_JOIN_SCAN_PRIVATE_COUNT);
	scan->css.methods = &scan_exec_methods;
	return (Node *) scan;
}

/*
 * Core made the scan slot a virtual one and compiled the filters for it: do both
 * again for the slot type of the table.  Subplans would be listed twice for EXPLAIN.
 */
static void
begin_scan(CustomScanState *node, EState *estate, int eflags)
{
	GjJoinScanState *scan = (GjJoinScanState *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	Relation	heap = node->ss.ss_currentRelation;
	bool		index_only = is_index_only(plan);
	List	   *index_oid = list_nth(plan->custom_private, GJ_JOIN_SCAN_INDEX_OID);
	AttrNumber	key_attno = intVal(list_nth(plan->custom_private, GJ_JOIN_SCAN_KEY_ATTNO));

	scan->heap_slot = GjInitScanSlots(&node->ss, index_only);
	node->ss.ps.subPlan = NIL;
	node->ss.ps.ps_ProjInfo = NULL;
	node->ss.ps.qual = ExecInitQual(plan->scan.plan.qual, &node->ss.ps);
	node->ss.ps.ps_ExprContext->ecxt_scantuple = node->ss.ss_ScanTupleSlot;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	scan->index = GjOpenIndex(estate, plan->scan.scanrelid, linitial_oid(index_oid));
	GjInitKeyReader(&scan->key_reader, scan->index, key_attno, linitial(plan->custom_exprs),
					&node->ss.ps);
	scan->context = AllocSetContextCreate(estate->es_query_cxt, "gpujoin join scan",
										  ALLOCSET_DEFAULT_SIZES);
	scan->fetch = GjFetchCreate(estate->es_query_cxt, heap, estate->es_snapshot);
	scan->block = GjFetchGetBlock(scan->fetch);
	scan->share = (GjShare) {.fetch = scan->fetch,.stats = &scan->stats,.forget = forget_tids};
	scan->entry_filter = GjEntryFilterInit(filter_plan(plan), lsecond(plan->custom_exprs),
										   &node->ss.ps);
	scan->filter_is_all = GjEntryFilterIsAll(filter_plan(plan), plan->scan.plan.qual);
	if (index_only)
		GjJoinEntriesInit(scan);
}

static bool
is_index_only(CustomScan *plan)
{
	return boolVal(list_nth(plan->custom_private, GJ_JOIN_SCAN_INDEX_ONLY));
}

static List *
filter_plan(CustomScan *plan)
{
	return list_nth(plan->custom_private, GJ_JOIN_SCAN_FILTER_PLAN);
}

/*
 * Say where the rows' columns are to be put: into the first ones of this slot
 *
 * A projection knows system columns, whole rows and what a UNION ALL computes, and
 * deforms no more of a tuple than is needed.
 */
void
GjJoinScanAttach(GjJoinScanState *scan, TupleTableSlot *joined)
{
	PlanState  *ps = &scan->css.ss.ps;
	TupleDesc	row = scan->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;

	scan->projection = ExecBuildProjectionInfo(ps->plan->targetlist, ps->ps_ExprContext, joined,
											   ps, row);
}

static TupleTableSlot *
exec_scan(CustomScanState *node)
{
	elog(ERROR, "GpuJoinScan gives its rows to a GpuJoin only");
	return NULL;
}

/*
 * Is there nothing to search for, since that was done for the current batch before, or
 * EvalPlanQual gives the row?
 */
bool
GjJoinScanIsReady(const GjJoinScanState *scan)
{
	return GjIndexOnlyIsStarted(scan->index_only) || scan->tids != NULL || is_replaced(scan);
}

/*
 * May the match go on while rows are delivered, so that it needs its keys until what was
 * found is dropped?
 */
bool
GjJoinScanIsMatching(const GjJoinScanState *scan)
{
	return GjIndexOnlyIsStarted(scan->index_only);
}

static bool
is_replaced(const GjJoinScanState *scan)
{
	EPQState   *epq = scan->css.ss.ps.state->es_epq_active;
	Index		scanrelid = ((Scan *) scan->css.ss.ps.plan)->scanrelid;

	return epq != NULL &&
		(epq->relsubs_done[scanrelid - 1] || epq->relsubs_slot[scanrelid - 1] != NULL ||
		 epq->relsubs_rowmark[scanrelid - 1] != NULL);
}

/*
 * Search the index for the keys of a batch, or get a share of what another process has
 * found.  all_keys: there is no other batch.  lookup: a row's partners are asked for; else
 * the join knows that there is one.
 */
void
GjJoinScanMatch(GjJoinScanState *scan, const GjKeySet *keys, bool all_keys, bool lookup)
{
	Size		limit = GjWorkMemory() / 2;

	Assert(scan->tids == NULL);
	GjEntryFilterReset(scan->entry_filter);
	scan->keys = keys;
	if (scan->index_only != NULL && GjIndexOnlyIsPossible(scan->index_only))
		GjJoinEntriesMatch(scan, limit, all_keys, lookup, search);
	else
		scan->tids = GjShareMatch(&scan->css, scan->context, limit, all_keys, search);
	scan->keys = NULL;
}

static GjTidSet *
search(CustomScanState *node, Size limit)
{
	GjJoinScanState *scan = (GjJoinScanState *) node;
	Relation	heap = node->ss.ss_currentRelation;
	Snapshot	snapshot = node->ss.ps.state->es_snapshot;
	GjTidSet   *tids;

	if (scan->entry_filter != NULL && !scan->unfiltered)
		tids = GjExecMatchFiltered(heap, scan->index, snapshot, scan->keys,
								   scan->entry_filter, scan->context, limit, &scan->stats);
	else
	{
		tids = GjTidSetCreate(scan->context, limit);
		GjExecMatch(heap, scan->index, snapshot, scan->keys, tids, &scan->stats);
	}
	if (scan->index_only != NULL)
		GjIndexOnlyGetStats(scan->index_only)->heap_fetches += GjTidSetCount(tids);
	return tids;
}

/*
 * Begin with the first of the rows that were found.  filter: the batch's keys, if a tuple
 * need only have one of them, whichever small row has it, too; they must live on.
 */
void
GjJoinScanStart(GjJoinScanState *scan, GjSmallSide *small, const GjKeySet *filter)
{
	scan->filter = filter;
	if (is_replaced(scan))
		ExecScanReScan(&scan->css.ss);
	else if (GjIndexOnlyIsStarted(scan->index_only))
		GjIndexOnlyRestart(scan->index_only);
	else
		start_fetch(scan, small, scan->tids);
}

static void
start_fetch(GjJoinScanState *scan, GjSmallSide *small, GjTidSet *tids)
{
	scan->fetching = true;
	scan->filtered = scan->filter != NULL &&
		GjFetchFilter(scan->fetch, &scan->key_reader, scan->filter);
	scan->joined = !scan->filtered && GjFetchJoin(scan->fetch, &scan->key_reader, small);
	GjFetchStart(scan->fetch, tids);
}

/*
 * Put the next row that has partners and passes the filters into the joined slot and
 * return its partners; NULL at the end
 */
GjSmallRow *
GjJoinScanNext(GjJoinScanState *scan, GjSmallSide *small)
{
	Instrumentation *instrument = scan->css.ss.ps.instrument;
	GjSmallRow *partners;

	if (instrument == NULL)
		return next_row(scan, small);

	InstrStartNode(instrument);
	partners = next_row(scan, small);
	InstrStopNode(instrument, partners == NULL ? 0.0 : 1.0);
	return partners;
}

static GjSmallRow *
next_row(GjJoinScanState *scan, GjSmallSide *small)
{
	GjSmallRow *partners;

	if (is_replaced(scan))
		return next_replaced_row(scan, small);

	if (GjJoinHasEntries(scan))
	{
		partners = GjJoinEntriesNext(scan, small);
		if (partners != NULL)
			return partners;
		start_fetch(scan, small, GjIndexOnlyRest(scan->index_only));
	}
	return next_fetched(scan, small);
}

static GjSmallRow *
next_fetched(GjJoinScanState *scan, GjSmallSide *small)
{
	PlanState  *ps = &scan->css.ss.ps;
	TupleTableSlot *slot = scan->heap_slot;

	while (GjFetchNext(scan->fetch, slot))
	{
		GjSmallRow *partners;

		ResetExprContext(ps->ps_ExprContext);
		ps->ps_ExprContext->ecxt_scantuple = slot;
		partners = scan->joined ? GjFetchPartners(scan->fetch) : find_partners(scan, small, slot);
		if (partners == NULL)
			continue;
		if (!ExecQual(ps->qual, ps->ps_ExprContext))
		{
			InstrCountFiltered1(ps, 1);
			continue;
		}
		ExecProject(scan->projection);
		return partners;
	}
	return NULL;
}

/*
 * The same with the row that EvalPlanQual gives, if any; ExecScan() tests the filters
 * and gives it once.  The slot may be another than ours.
 */
static GjSmallRow *
next_replaced_row(GjJoinScanState *scan, GjSmallSide *small)
{
	ExprContext *econtext = scan->css.ss.ps.ps_ExprContext;
	TupleTableSlot *slot = ExecScan(&scan->css.ss, no_row, any_row);
	GjSmallRow *partners;

	if (TupIsNull(slot))
		return NULL;

	partners = find_partners(scan, small, slot);
	if (partners != NULL)
	{
		econtext->ecxt_scantuple = slot;
		ExecProject(scan->projection);
		econtext->ecxt_scantuple = scan->css.ss.ss_ScanTupleSlot;
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
find_partners(GjJoinScanState *scan, GjSmallSide *small, TupleTableSlot *slot)
{
	GjSmallRow *partners = NULL;
	int64		key;

	if (GjReadKey(&scan->key_reader, scan->css.ss.ps.ps_ExprContext, slot, &key))
		partners = GjSmallLookup(small, key);

	if (partners == NULL)
		GjFetchGetStats(scan->fetch)->rechecked++;
	return partners;
}

/*
 * After the last row: are there more entries?  So it is where not all that is for the heap
 * fitted in memory.  The joined slot, which may point into a heap page, must have been
 * cleared.
 */
bool
GjJoinScanContinue(GjJoinScanState *scan)
{
	if (!GjIndexOnlyIsStarted(scan->index_only))
		return false;
	GjFetchReset(scan->fetch);
	if (!GjIndexOnlyContinue(scan->index_only))
		return false;
	scan->fetching = false;
	return true;
}

/*
 * Let go of the heap page.  The joined slot, which may point into it, must have been
 * cleared; the TIDs stay.
 */
void
GjJoinScanStop(GjJoinScanState *scan)
{
	ExecClearTuple(scan->css.ss.ss_ScanTupleSlot);
	ExecClearTuple(scan->heap_slot);
	GjFetchReset(scan->fetch);
	scan->fetching = false;
}

/*
 * Forget what was found, after a stop
 */
void
GjJoinScanDropTids(GjJoinScanState *scan)
{
	if (scan->index_only != NULL)
		GjIndexOnlyReset(scan->index_only);
	if (scan->tids != NULL)
		GjTidSetFree(scan->tids);
	if (scan->own_keys != NULL)
		GjKeySetFree(scan->own_keys);
	scan->tids = NULL;
	scan->own_keys = NULL;
	scan->unfiltered = false;
}

/*
 * The process's share of the TIDs is no more: there, or for the next execution
 */
static void
forget_tids(CustomScanState *node)
{
	GjJoinScanState *scan = (GjJoinScanState *) node;

	GjJoinScanStop(scan);
	GjJoinScanDropTids(scan);
}

/*
 * The join decides whether what was found is used again; a share cannot be.  Within
 * EvalPlanQual params change without a word in chgParam.
 */
static void
rescan(CustomScanState *node)
{
	GjJoinScanState *scan = (GjJoinScanState *) node;

	GjJoinScanStop(scan);
	if (scan->share.shared != NULL || node->ss.ps.state->es_epq_active != NULL)
		GjJoinScanDropTids(scan);
	else if (bms_overlap(node->ss.ps.chgParam, GjEntryFilterParams(scan->entry_filter)))
		refilter(scan);
	ExecScanReScan(&node->ss);
}

/*
 * The filter of entries has other params: entries that are kept are filtered anew.  Filtered
 * TIDs are dropped for those of all entries, which will do for all params that are still to come.
 */
static void
refilter(GjJoinScanState *scan)
{
	GjEntryFilterReset(scan->entry_filter);
	if (scan->tids == NULL || scan->unfiltered || GjIndexOnlyIsStarted(scan->index_only))
		return;
	GjJoinScanDropTids(scan);
	scan->unfiltered = true;
}

static void
end_scan(CustomScanState *node)
{
	GjJoinScanState *scan = (GjJoinScanState *) node;

	if (scan->index == NULL)
		return;

	GjJoinScanStop(scan);
	GjFetchFree(scan->fetch);
	MemoryContextDelete(scan->context);
	index_close(scan->index, NoLock);
}

static void
explain_scan(CustomScanState *node, List *ancestors, ExplainState *es)
{
	GjJoinScanState *scan = (GjJoinScanState *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	GjExplainIndex(es, linitial_oid(list_nth(plan->custom_private, GJ_JOIN_SCAN_INDEX_OID)));
	GjExplainIndexFilter(node, ancestors, es, filter_plan(plan), &scan->stats);
	if (is_index_only(plan))
		GjExplainIndexOnly(es, scan->stats.searches == 0 ? NULL :
						   GjIndexOnlyGetStats(scan->index_only));
	if (scan->fetch != NULL)
		GjExplainMatch(es, &scan->stats, GjFetchGetStats(scan->fetch));
}
