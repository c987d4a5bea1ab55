/*-------------------------------------------------------------------------
 *
 * tablescan.c
 *	  A table that is scanned by its index: what GpuScan and GpuJoinScan have in common.
 *
 * Slots are prepared when the node begins; the rest is opened unless the query is only explained.
 * The node sets the keys, requests a match, and takes the rows from the stream that this opens
 * (rows/rows.c).  If the index has every column that the plan needs, rows of all-visible pages come
 * from entries, without a fetch.  Entries that fail a filter on their columns are dropped before
 * (match/stream.c).
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
#include "storage/lwlock.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/nodes.h"
#include "node/joinplan.h"
#include "node/scanplan.h"
#include "exec.h"

/* Long enough for each name and each reason */
#define DEVICE_NAME_BYTES		128
#define REASON_BYTES			256

/* In shared memory, followed by the state of match/divide.c */
typedef struct GjSharedMatch
{
	LWLock		lock;			/* protects all fields */
	GjMatchStats match;			/* statistics of workers, not yet added to the leader's */
	GjRowsStats rows;
	char		device[DEVICE_NAME_BYTES];	/* instead of match.device and match.reason; empty if
											 * these are NULL */
	char		reason[REASON_BYTES];
} GjSharedMatch;

static bool is_index_only(const GjTableScan *table);
static void open_index_only(GjTableScan *table, bool to_target);
static void table_measure(GjTableScan *table, GjIndexUse *use);
static void end_after_error(void *arg);
static bool add_groups(PlanState *node, void *ngroups);
static void count_begin(GjTableScan *table);
static void count_end(GjTableScan *table);
static void count_hold(GjTableScan *table);
static void count_release(GjTableScan *table);
static GjSharedFind *get_find(GjSharedMatch *shared);
static void share_is_over(GjTableScan *table);
static void report_progress(void *table);
static void report_match(GjSharedMatch *shared, GjMatchStats *stats);
static void collect_reports(GjTableScan *table);
static void move_rows_stats(GjRowsStats *to, GjRowsStats *from);

/*
 * Give the node a slot of the table's type.  This is the scan slot, except for an index-only scan:
 * its scan slot is virtual, with the table's columns, and expressions must work with both slots.
 *
 * Core has made the scan slot virtual and compiled the expressions for it, without the step that
 * deforms a heap tuple.  So the caller compiles them again; the list of subplans is cleared,
 * because EXPLAIN would show each of them twice.
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
		GjInitScanTupleSlot(estate, ss, desc, ops);
		table->heap_slot = ss->ss_ScanTupleSlot;
		return;
	}
	GjInitScanTupleSlot(estate, ss, desc, &TTSOpsVirtual);
	ss->ps.scanopsfixed = false;
	table->heap_slot = ExecInitExtraTupleSlot(estate, desc, ops);
}

/*
 * Prepare the quals for rows that come from the heap: the filters of entries, then all others
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
 * Open the index, and prepare matches and fetches.  to_target is true if rows are stored in slots
 * of the target list's type.
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
	table->forget = forget;
	table->entry_filter = GjEntryFilterInit(table->index,
											GjTableScanGetPrivate(table, GJ_TABLE_FILTER_PLAN),
											(List *) GjTableScanGetExpr(table, GJ_TABLE_FILTERS),
											&ss->ps);
	table->test = GjEntryFilterGetTest(table->entry_filter);
	table->filter_is_all = ss->ps.plan->qual == NIL;
	table->rows = GjRowsCreate(ss, table->index, &table->key_reader, table->test);
	if (is_index_only(table))
		open_index_only(table, to_target);
	count_begin(table);
}

/*
 * Raise an error if the index stores its keys in another form than the plan expects: such a plan
 * should have been made again
 */
void
GjTableScanCheckRests(const GjTableScan *table, bool expected)
{
	if (GjCodecHasPairs(&table->key_reader.codec) != expected)
		elog(ERROR, "index \"%s\" has been rebuilt in another form since the query was planned",
			 RelationGetRelationName(table->index));
}

/*
 * Prepare rows from entries.  They are stored in the scan slot; or directly in a slot of the target
 * list's type, if all filters are tested on the entry and the target list consists of columns.
 */
static void
open_index_only(GjTableScan *table, bool to_target)
{
	Scan	   *plan = (Scan *) table->css.ss.ps.plan;

	table->row_shape = GjShapeOfEntries(table->index, table->key_reader.codec.kind, plan,
										GjTableScanGetPrivate(table, GJ_TABLE_ATTNOS));
	GjRowsFeed(table->rows, table->row_shape);
	if (to_target && table->filter_is_all)
		table->target_shape = GjShapeOfTarget(table->row_shape, plan->plan.targetlist,
											  plan->scanrelid);
	if (table->target_shape != NULL)
		GjRowsFeed(table->rows, table->target_shape);
}

/*
 * Return a request for the TIDs of the keys: of all entries, or of those that pass the filter.  A
 * reduction's list of keys with their rests takes its part of the memory limit.
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

	if (table->stats.searches > 0)
		request.memo = GjTableScanMemo(table);
	if (table->reduction != NULL && table->reduction->proofs != NULL)
		request.limit = GjMemoryLeft(limit, table->reduction->proofs->memory);
	if (!table->all_tids)
		request.test = table->test;
	if (table->row_shape != NULL)
		request.ntids = &GjRowsGetStats(table->rows)->heap_fetches;
	return request;
}

/*
 * Return the memo of the scan's searches, for one that is not the last
 */
GjSearchMemo *
GjTableScanMemo(GjTableScan *table)
{
	if (table->memo == NULL)
		table->memo = GjSearchMemoCreate(table->css.ss.ps.state->es_query_cxt);
	return table->memo;
}

/*
 * Search the index for the keys, or take a part of the results of another process.  Requests
 * entries if they can be rows.  The values that entries are filtered by may have changed.
 *
 * columns are those of the entries, as in GjEntryRequest, but for those of the filter.  can_share
 * is true if this execution searches for no other keys; if it is false in the first process, that
 * process does all of the work.  If the answer is entries, the keys must live until the rows are
 * closed.  A share of TIDs can be fetched once, until it is reset or shut down.
 */
void
GjParallelMatch(GjTableScan *table, uint64 columns, Size limit, bool can_share)
{
	GjEntryRequest request = GjTableScanRequest(table, limit);

	if (table->test != NULL)
		GjEntryFilterReset(table->entry_filter);
	table->used = true;
	request.whole = can_share;
	request.share = &table->share;
	if (table->row_shape != NULL)
	{
		request.entries = GjEntriesMayBeRows(request.snapshot);
		request.columns = columns | (table->test != NULL ? table->test->columns : 0);
		/* rows/rows.c distinguishes images from hashes, which are below all images */
		if (GjCodecMayHash(&table->key_reader.codec) && GjKeySetCount(table->keys) > 0 &&
			GjCodeIsHash(table->keys->min_key))
			request.columns |= GJ_ENTRY_KEY;
	}
	request.reduction = table->reduction;
	GjRowsOpen(table->rows, &request);
}

/*
 * Prepare for a rescan that searches for the same keys.  If parameters of the entry filter have
 * changed, entries that are kept are filtered again.  TIDs that were filtered are dropped, and
 * those of all entries are searched, since they remain valid for all later values of the
 * parameters.
 */
void
GjTableScanRefilter(GjTableScan *table)
{
	if (!bms_overlap(table->css.ss.ps.chgParam, GjEntryFilterParams(table->entry_filter)))
		return;
	GjEntryFilterReset(table->entry_filter);
	if (!GjRowsIsOpen(table->rows) || table->all_tids || GjRowsHasEntries(table->rows))
		return;
	table->forget(&table->css);
	table->all_tids = true;
}

/*
 * Stop returning rows, and release the heap page.  The results are kept.
 */
void
GjTableScanStop(GjTableScan *table)
{
	ExecClearTuple(table->css.ss.ss_ScanTupleSlot);
	ExecClearTuple(table->heap_slot);
	GjRowsStop(table->rows);
}

void
GjTableScanEnd(GjTableScan *table)
{
	if (table->index == NULL)
		return;
	GjTableScanStop(table);
	count_end(table);
	GjRowsClose(table->rows);
	MemoryContextDelete(table->context);
	index_close(table->index, NoLock);
}

/*-------------------------------------------------------------------------
 * Counting
 *
 * Add the work of a scan to the usage counters of its index (stats/usage.c).
 *
 * Each process adds its own work, once: when the node ends, or, after an error, when the query's
 * memory is freed.  The node's statistics contain this work.  But for EXPLAIN, workers pass
 * theirs to the leader, which must not count them again.  So statistics are moved between
 * count_hold() and count_release(): the former adds the statistics to a sum, the latter subtracts
 * the statistics that are left after the move.
 *-------------------------------------------------------------------------
 */

/*
 * Begin to count, after a scan has been opened
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
 * Add the statistics to the sum, because they will be changed
 */
static void
count_hold(GjTableScan *table)
{
	GjIndexUse	now = {0};

	table_measure(table, &now);
	for (int i = 0; i < GJ_USE_COUNT; i++)
		table->moved.n[i] += now.n[i];
}

/*
 * Subtract the changed statistics from the sum
 */
static void
count_release(GjTableScan *table)
{
	GjIndexUse	now = {0};

	table_measure(table, &now);
	for (int i = 0; i < GJ_USE_COUNT; i++)
		table->moved.n[i] -= now.n[i];
}

/*
 * Get the work from the statistics
 */
static void
table_measure(GjTableScan *table, GjIndexUse *use)
{
	const GjRowsStats *rows = GjRowsGetStats(table->rows);

	GjMatchStatsToUse(&table->stats, use);
	use->n[GJ_USE_HEAP_BLOCKS] = rows->exact_blocks + rows->lossy_blocks;
	use->n[GJ_USE_HEAP_FETCHES] = rows->tuples;
	use->n[GJ_USE_GROUPS] = 0;
}

/*
 * Count groups that were made of the rows of the scans below a node, for each of their indexes
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
 * Add the work to the counters of the index.  The stream must still exist.
 */
static void
count_end(GjTableScan *table)
{
	Oid			index = table->counted_index;

	if (!OidIsValid(index))
		return;
	table->counted_index = InvalidOid;
	count_hold(table);
	if (table->used)
		GjUsageAdd(index, &table->moved);
}

static void
end_after_error(void *arg)
{
	count_end(arg);
}

/*-------------------------------------------------------------------------
 * Parallel plans
 *
 * match/divide.c describes how processes share a match.  This section sets up the shared memory,
 * and passes the statistics of workers to the leader.
 *
 * Workers report their statistics through the same shared memory: with each step, and when the
 * node is shut down, which precedes the end of a worker's rows.  The leader adds them to its own in
 * its shutdown.  If it stops the workers before they have finished, their counts since the last
 * step are missing.
 *-------------------------------------------------------------------------
 */

/*
 * Return the size of the shared memory of a node, without its results
 */
Size
GjParallelEstimate(CustomScanState *node, ParallelContext *pcxt)
{
	return MAXALIGN(sizeof(GjSharedMatch)) + GjShareBytes();
}

/*
 * As the leader, initialize the shared memory.  That may happen again later, if the node is shut
 * down and then started over.
 */
void
GjParallelInit(CustomScanState *node, ParallelContext *pcxt, void *area)
{
	GjSharedMatch *shared = area;

	/* without dynamic shared memory there are no workers */
	if (node->ss.ps.state->es_query_dsa == NULL)
		return;

	memset(shared, 0, sizeof(GjSharedMatch));
	/* wait events show it as part of the parallel query's shared memory */
	LWLockInitialize(&shared->lock, LWTRANCHE_PARALLEL_QUERY_DSA);
	GjShareInit(get_find(shared), pcxt->nworkers + 1);
	GjParallelAttach(node, pcxt->toc, shared);
}

/*
 * Attach a process to the shared memory
 */
void
GjParallelAttach(CustomScanState *node, shm_toc *toc, void *shared)
{
	GjTableScan *table = (GjTableScan *) node;

	table->shared = shared;
	table->share = (GjShare) {
		.found = get_find(shared),.area = node->ss.ps.state->es_query_dsa,
		.progress = report_progress,.arg = table
	};
}

static GjSharedFind *
get_find(GjSharedMatch *shared)
{
	return (GjSharedFind *) ((char *) shared + MAXALIGN(sizeof(GjSharedMatch)));
}

/*
 * As the leader, prepare for another execution.  There are no workers now, and the leader's own
 * TIDs must no longer be used.
 */
void
GjParallelReset(CustomScanState *node, ParallelContext *pcxt, void *area)
{
	GjSharedMatch *shared = area;

	if (node->ss.ps.state->es_query_dsa == NULL)
		return;
	share_is_over((GjTableScan *) node);
	GjShareReset(get_find(shared), node->ss.ps.state->es_query_dsa);
	shared->match.reason = NULL;
}

/*
 * Shut down: no more rows are requested, and the shared memory may be freed.  A worker reports its
 * statistics, the leader collects them.
 */
void
GjParallelShutdown(CustomScanState *node)
{
	GjTableScan *table = (GjTableScan *) node;

	if (table->shared == NULL)
		return;

	share_is_over(table);
	if (IsParallelWorker())
		report_progress(table);
	else
		collect_reports(table);
	table->shared = NULL;
	table->share.found = NULL;
}

static void
share_is_over(GjTableScan *table)
{
	table->share.alone = false;
	table->forget(&table->css);
}

/*
 * As a worker, report the statistics since the last report
 */
static void
report_progress(void *arg)
{
	GjTableScan *table = arg;
	GjSharedMatch *shared = table->shared;

	if (!IsParallelWorker())
		return;
	count_hold(table);
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	report_match(shared, &table->stats);
	move_rows_stats(&shared->rows, GjRowsGetStats(table->rows));
	LWLockRelease(&shared->lock);
	count_release(table);
}

/*
 * Add to the shared statistics of matches.  Texts are copied, as another process could not use a
 * pointer.  The lock is held.
 */
static void
report_match(GjSharedMatch *shared, GjMatchStats *stats)
{
	if (GjMatchStatsTells(&shared->match, stats))
	{
		strlcpy(shared->device, stats->device != NULL ? stats->device : "", DEVICE_NAME_BYTES);
		strlcpy(shared->reason, stats->reason != NULL ? stats->reason : "", REASON_BYTES);
	}
	GjMatchStatsAdd(&shared->match, stats);
	memset(stats, 0, sizeof(GjMatchStats));
}

/*
 * As the leader, add the statistics of workers to this process's
 */
static void
collect_reports(GjTableScan *table)
{
	GjSharedMatch *shared = table->shared;
	GjRowsStats rows = {0};
	GjMatchStats match;
	char		device[DEVICE_NAME_BYTES];
	char		reason[REASON_BYTES];
	MemoryContext context = GetMemoryChunkContext(table->rows);

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	move_rows_stats(&rows, &shared->rows);
	match = shared->match;
	memset(&shared->match, 0, sizeof(GjMatchStats));
	memcpy(device, shared->device, DEVICE_NAME_BYTES);
	memcpy(reason, shared->reason, REASON_BYTES);
	LWLockRelease(&shared->lock);

	count_hold(table);
	move_rows_stats(GjRowsGetStats(table->rows), &rows);
	match.device = device[0] != '\0' ? MemoryContextStrdup(context, device) : NULL;
	match.reason = reason[0] != '\0' ? MemoryContextStrdup(context, reason) : NULL;
	GjMatchStatsAdd(&table->stats, &match);
	count_release(table);
}

static void
move_rows_stats(GjRowsStats *to, GjRowsStats *from)
{
	to->rows += from->rows;
	to->heap_fetches += from->heap_fetches;
	to->absent += from->absent;
	to->exact_blocks += from->exact_blocks;
	to->lossy_blocks += from->lossy_blocks;
	to->tuples += from->tuples;
	to->rechecked += from->rechecked;
	memset(from, 0, sizeof(GjRowsStats));
}
