/*-------------------------------------------------------------------------
 *
 * tablescan.c
 *	  A table that is scanned by its index: what GpuScan and GpuJoinScan have in common.
 *
 * The life of it: slots are prepared when the node begins, the rest is opened unless it is a
 * mere EXPLAIN; the node sets keys and asks for a match (parallel.c), of TIDs or of entries.
 * Where the index has every column that the plan needs, rows of all-visible pages come from
 * entries, without a fetch (indexonly.c).  They come first; then what is left is fetched.
 * Of what is found, entries that do not pass the filters that an entry can be tested by are
 * dropped first (match/stream.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "parser/parsetree.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/nodes.h"
#include "node/joinplan.h"
#include "node/scanplan.h"
#include "tablescan.h"

static bool is_index_only(const GjTableScan *table);
static void init_filter(GjTableScan *table);
static void open_index_only(GjTableScan *table, bool to_target);
static void measure(GjTableScan *table, GjIndexUse *use);
static void end_after_error(void *arg);
static bool add_groups(PlanState *node, void *ngroups);
static void count_begin(GjTableScan *table);
static void count_end(GjTableScan *table);

/*
 * Open the index for a scan of the table at scanrelid
 *
 * The executor locks tables, not indexes.  With the table's own lock mode no
 * conflict can arise that the table's lock did not bring to light.
 */
Relation
GjOpenIndex(EState *estate, Index scanrelid, Oid index_oid)
{
	return index_open(index_oid, exec_rt_fetch(scanrelid, estate)->rellockmode);
}

/*
 * Give the node a slot of the table's type: the scan slot, or for an index-only scan, whose
 * scan slot is a virtual one of the table's shape, another.  Then expressions must be ready for
 * both.
 *
 * Core made the scan slot a virtual one and compiled the expressions for it, that is,
 * without the step that takes a heap tuple apart: the caller does that again.  Subplans
 * would be listed twice for EXPLAIN.
 */
void
GjTableScanInitSlots(GjTableScan *table)
{
	ScanState  *ss = &table->css.ss;
	EState	   *estate = ss->ps.state;
	TupleDesc	desc = RelationGetDescr(ss->ss_currentRelation);
	const TupleTableSlotOps *ops = table_slot_callbacks(ss->ss_currentRelation);

	ss->ps.subPlan = NIL;
	if (!is_index_only(table))
	{
		ExecInitScanTupleSlot(estate, ss, desc, ops);
		table->heap_slot = ss->ss_ScanTupleSlot;
		return;
	}
	ExecInitScanTupleSlot(estate, ss, desc, &TTSOpsVirtual);
	ss->ps.scanopsfixed = false;
	table->heap_slot = ExecInitExtraTupleSlot(estate, desc, ops);
}

/*
 * Prepare the test of rows that come from the table: by the filters of entries, then by all others
 */
void
GjTableScanInitQual(GjTableScan *table)
{
	PlanState  *ps = &table->css.ss.ps;
	List	   *filters = (List *) GjTableScanGetExpr(table, GJ_TABLE_FILTERS);

	ps->qual = ExecInitQual(list_concat_copy(filters, ps->plan->qual), ps);
}

static bool
is_index_only(const GjTableScan *table)
{
	return boolVal(GjTableScanGetPrivate(table, GJ_TABLE_INDEX_ONLY));
}

/*
 * Open the index, and prepare matches and fetches.  to_target: rows go to slots of the target
 * list.  The expressions are ready.
 */
void
GjTableScanOpen(GjTableScan *table, bool to_target, void (*forget) (CustomScanState *node))
{
	ScanState  *ss = &table->css.ss;
	EState	   *estate = ss->ps.state;
	List	   *index_oid = GjTableScanGetPrivate(table, GJ_TABLE_INDEX_OID);

	table->index = GjOpenIndex(estate, ((Scan *) ss->ps.plan)->scanrelid,
							   linitial_oid(index_oid));
	GjInitKeyReader(&table->key_reader, table->index,
					intVal(GjTableScanGetPrivate(table, GJ_TABLE_KEY_ATTNO)),
					(Expr *) GjTableScanGetExpr(table, GJ_TABLE_KEY),
					(List *) GjTableScanGetExpr(table, GJ_TABLE_PREDICATE), &ss->ps);
	table->context = AllocSetContextCreate(estate->es_query_cxt, "gpujoin results",
										   ALLOCSET_DEFAULT_SIZES);
	table->fetch = GjFetchCreate(estate->es_query_cxt, ss->ss_currentRelation,
								 estate->es_snapshot);
	table->forget = forget;
	init_filter(table);
	if (is_index_only(table))
		open_index_only(table, to_target);
	count_begin(table);
}

static void
init_filter(GjTableScan *table)
{
	PlanState  *ps = &table->css.ss.ps;

	table->entry_filter = GjEntryFilterInit(GjTableScanGetPrivate(table, GJ_TABLE_FILTER_PLAN),
											(List *)
											GjTableScanGetExpr(table, GJ_TABLE_FILTER_VALUES),
											ps);
	table->filter_is_all = ps->plan->qual == NIL;
}

/*
 * Entries go into the scan slot or, where no filter needs the row there, since all were tested
 * on the entry, and nothing is computed, straight into a slot of the target list.
 */
static void
open_index_only(GjTableScan *table, bool to_target)
{
	Scan	   *plan = (Scan *) table->css.ss.ps.plan;

	table->index_only = GjIndexOnlyCreate(&table->css.ss, table->index);
	GjIndexOnlyFilter(table->index_only, table->entry_filter);
	table->row_fill = GjFillEntryRow(table->index, plan,
									 GjTableScanGetPrivate(table, GJ_TABLE_ATTNOS));
	GjIndexOnlyFeed(table->index_only, table->row_fill);
	if (to_target && table->filter_is_all)
		table->target_fill = GjFillTarget(table->row_fill, plan->plan.targetlist,
										  plan->scanrelid);
	if (table->target_fill != NULL)
		GjIndexOnlyFeed(table->index_only, table->target_fill);
}

/*
 * Return a request for the TIDs of the keys: of all entries, or of those that pass the filter
 */
GjEntryRequest
GjTableScanRequest(GjTableScan *table, Size limit)
{
	GjEntryRequest request = {
		.heap = table->css.ss.ss_currentRelation,
		.index = table->index,
		.snapshot = table->css.ss.ps.state->es_snapshot,
		.keys = table->keys,
		.parent = table->context,
		.limit = limit,
		.stats = &table->stats,
	};

	if (!table->all_tids)
		request.test = GjEntryFilterGetTest(table->entry_filter);
	if (table->index_only != NULL)
		request.ntids = &GjIndexOnlyGetStats(table->index_only)->heap_fetches;
	return request;
}

/*
 * For a rescan that changes none of the keys.  If the filter of entries has other params, entries
 * that are kept are filtered anew.  Filtered TIDs are dropped for those of all entries, which will
 * do for all params that are still to come.
 */
void
GjTableScanRefilter(GjTableScan *table)
{
	if (!bms_overlap(table->css.ss.ps.chgParam, GjEntryFilterParams(table->entry_filter)))
		return;
	GjEntryFilterReset(table->entry_filter);
	if (table->tids == NULL || table->all_tids || GjIndexOnlyIsStarted(table->index_only))
		return;
	table->forget(&table->css);
	table->all_tids = true;
}

/*
 * Go on with entries after the last fetched tuple; false if there are no more.  There are if
 * not all that is for the heap fitted in memory.  Slots that point into a heap page must have
 * been cleared.
 */
bool
GjTableScanContinue(GjTableScan *table)
{
	if (!GjIndexOnlyIsStarted(table->index_only))
		return false;
	GjFetchReset(table->fetch);
	return GjIndexOnlyContinue(table->index_only);
}

/*
 * Let go of the heap page
 */
void
GjTableScanClear(GjTableScan *table)
{
	ExecClearTuple(table->css.ss.ss_ScanTupleSlot);
	ExecClearTuple(table->heap_slot);
	GjFetchReset(table->fetch);
}

void
GjTableScanEnd(GjTableScan *table)
{
	if (table->index == NULL)
		return;
	GjTableScanClear(table);
	count_end(table);
	GjFetchFree(table->fetch);
	if (table->index_only != NULL)
		GjIndexOnlyReset(table->index_only);
	MemoryContextDelete(table->context);
	index_close(table->index, NoLock);
}

/*-------------------------------------------------------------------------
 * Counting
 *
 * Counting for an index what a scan of its table has done (stats/usage.c).
 *
 * Each process adds what it has done itself, once, when the node ends; after an error, when the
 * query's memory goes.  The node's statistics would say it, but for EXPLAIN workers hand theirs
 * over to the leader, where they are not to be counted again.  So whoever moves statistics holds
 * the count meanwhile: what was done remains, and what then stands there is taken from it.
 *-------------------------------------------------------------------------
 */

/*
 * Begin to count, at the end of opening a scan
 */
static void
count_begin(GjTableScan *table)
{
	GjUsageMakeRoom(RelationGetRelid(table->index));
	table->counted_index = RelationGetRelid(table->index);
	table->at_end.func = end_after_error;
	table->at_end.arg = table;
	MemoryContextRegisterResetCallback(table->css.ss.ps.state->es_query_cxt, &table->at_end);
}

/*
 * Keep what has been done until here: the statistics will be changed
 */
void
GjCountHold(GjTableScan *table)
{
	GjIndexUse	now;

	measure(table, &now);
	for (int i = 0; i < GJ_USE_COUNT; i++)
		table->moved.n[i] += now.n[i];
}

/*
 * They have been changed: what they say now is not what this process has done
 */
void
GjCountRelease(GjTableScan *table)
{
	GjIndexUse	now;

	measure(table, &now);
	for (int i = 0; i < GJ_USE_COUNT; i++)
		table->moved.n[i] -= now.n[i];
}

/*
 * Find out what the statistics say
 */
static void
measure(GjTableScan *table, GjIndexUse *use)
{
	const GjFetchStats *fetch = GjFetchGetStats(table->fetch);

	GjMatchStatsToUse(&table->stats, use);
	use->n[GJ_USE_HEAP_BLOCKS] = fetch->exact_blocks + fetch->lossy_blocks;
	use->n[GJ_USE_HEAP_FETCHES] = fetch->tuples;
	use->n[GJ_USE_GROUPS] = 0;
}

/*
 * A node above has made groups of the rows of the scans below this one: count them for each of
 * their indexes
 */
void
GjCountGroups(PlanState *node, uint64 ngroups)
{
	if (ngroups > 0)
		(void) add_groups(node, &ngroups);
}

static bool
add_groups(PlanState *node, void *ngroups)
{
	if (IsA(node, CustomScanState))
	{
		const CustomScanMethods *methods = castNode(CustomScan, node->plan)->methods;
		GjTableScan *table = (GjTableScan *) node;

		if ((methods == GjNodeMethods(GJ_SCAN_NAME) ||
			 methods == GjNodeMethods(GJ_JOIN_SCAN_NAME)) &&
			table->used)
			table->moved.n[GJ_USE_GROUPS] += *(uint64 *) ngroups;
	}
	return planstate_tree_walker(node, add_groups, ngroups);
}

/*
 * Add what was done to what is counted for the index.  The fetch is still there.
 */
static void
count_end(GjTableScan *table)
{
	Oid			index = table->counted_index;

	if (!OidIsValid(index))
		return;
	table->counted_index = InvalidOid;
	GjCountHold(table);
	if (table->used)
		GjUsageAdd(index, &table->moved);
}

static void
end_after_error(void *arg)
{
	count_end(arg);
}
