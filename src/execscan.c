/*-------------------------------------------------------------------------
 *
 * execscan.c
 *	  GpuScan: the rows of one table whose key is in a set that is known when the
 *	  scan starts.
 *
 * The life of a scan: evaluate the values into a key set, once; match it against
 * the index; fetch block by block; test the key of each fetched tuple against the
 * set (not by the array clause, which would walk the array for each row); leave the
 * other clauses and the projection to ExecScan().  Other scans of the query that ask for
 * the same keys share the set; a partition takes what it can have of it (execkeyshare.c).
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
 * TIDs again.  That is right only because the snapshot of a scan never changes
 * while it lives.
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
#include "exec.h"
#include "execindexonly.h"
#include "execkeyshare.h"
#include "execparallel.h"
#include "gpujoin.h"
#include "plan.h"

typedef struct GjScanState
{
	CustomScanState css;		/* first, and the share second: execparallel.h */
	GjShare		share;
	Relation	index;			/* NULL in a mere EXPLAIN */
	GjKeyProgram *program;		/* the conditions on the key */
	GjKeyReader key_reader;

	/* Made when first needed, dropped with context when params change */
	MemoryContext context;
	const GjKeySet *keys;		/* what the key user has, or a part of it */
	GjTidSet   *tids;			/* what is fetched; NULL: not known yet */

	GjKeyUser	key_user;
	GjIndexOnly *index_only;	/* NULL: the plan needs the heap */
	TupleTableSlot *heap_slot;	/* for fetched tuples; with index_only not the scan slot */
	GjEntryFill *row_fill;		/* of its scan slot */
	GjEntryFill *target_fill;	/* of the result slot; NULL: there is more to do */
	GjTupleFill *tuple_fill;	/* the same for fetched tuples */
	GjFetch    *fetch;
	bool		filtered;		/* the fetch rechecks the keys */
	bool		is_cursor;		/* somebody may ask where a row lies */
	GjMatchStats stats;
} GjScanState;

static Node *create_state(CustomScan *plan);
static void begin_scan(CustomScanState *node, EState *estate, int eflags);
static void use_heap_slot(GjScanState *scan, EState *estate);
static void begin_index_only(GjScanState *scan);
static bool is_index_only(CustomScan *plan);
static TupleTableSlot *exec_scan(CustomScanState *node);
static TupleTableSlot *next_tuple(ScanState *node);
static void note_place(GjScanState *scan, const ItemPointerData *tid);
static void note_no_place(GjScanState *scan);
static void note_entry(GjScanState *scan, uint64 entry);
static bool go_on_with_entries(GjScanState *scan);
static TupleTableSlot *next_fetched(GjScanState *scan);
static bool recheck_tuple(ScanState *node, TupleTableSlot *slot);
static bool has_wanted_key(GjScanState *scan, TupleTableSlot *slot);
static void start(GjScanState *scan);
static void start_fetch(GjScanState *scan, GjTidSet *tids);
static void build_key_set(GjScanState *scan);
static const GjKeySet *share_keys(GjScanState *scan);
static Size search_memory(GjScanState *scan);
static GjTidSet *search_tids(CustomScanState *node, Size limit);
static void drop_results(CustomScanState *node);
static void rescan(CustomScanState *node);
static void end_scan(CustomScanState *node);
static void explain_scan(CustomScanState *node, List *ancestors, ExplainState *es);
static List *get_private(CustomScan *plan, GjScanPrivate item);
static Node *get_expr(CustomScan *plan, GjScanExprs item);

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
	scan->program = GjKeyProgramInit(get_private(plan, GJ_SCAN_KEY_PLAN),
									 (List *) get_expr(plan, GJ_SCAN_VALUES), &node->ss.ps);

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	scan->index = GjOpenIndex(estate, plan->scan.scanrelid,
							  linitial_oid(get_private(plan, GJ_SCAN_INDEX_OID)));
	GjInitKeyReader(&scan->key_reader, scan->index,
					intVal(list_nth(plan->custom_private, GJ_SCAN_KEY_ATTNO)),
					(Expr *) get_expr(plan, GJ_SCAN_KEY), &node->ss.ps);
	scan->context = AllocSetContextCreate(estate->es_query_cxt, "GpuScan results",
										  ALLOCSET_DEFAULT_SIZES);
	scan->fetch = GjFetchCreate(estate->es_query_cxt, node->ss.ss_currentRelation,
								estate->es_snapshot);
	scan->share = (GjShare) {.fetch = scan->fetch,.stats = &scan->stats,.forget = drop_results};
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
 * Filters need the row as a scan tuple; without any, a target list of plain columns is
 * filled from the entry at once.
 */
static void
begin_index_only(GjScanState *scan)
{
	PlanState  *ps = &scan->css.ss.ps;
	CustomScan *plan = (CustomScan *) ps->plan;

	scan->index_only = GjIndexOnlyCreate(&scan->css.ss, scan->index);
	scan->share.index_only = GjIndexOnlyGetStats(scan->index_only);
	scan->row_fill = GjEntryFillRow(scan->index, &plan->scan, get_private(plan, GJ_SCAN_ATTNOS));
	GjIndexOnlyFeed(scan->index_only, scan->row_fill);
	if (ps->qual == NULL && ps->ps_ProjInfo != NULL)
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
			note_entry(scan, entry);
		return slot;
	}
	if (scan->tuple_fill != NULL && scan->tids != NULL && scan->filtered &&
		GjFetchFill(scan->fetch, scan->tuple_fill, slot, &place))
	{
		note_place(scan, &place);
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
					note_entry(scan, entry);
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
			note_no_place(scan);
		}
	}
	return scan->tids == NULL;
}

/*
 * WHERE CURRENT OF a cursor looks for the row's place in the scan slot, which must not
 * seem empty, whichever slot has the row.  Its values, if any, are then not looked at.  If
 * entries are put there later, they find it ready for values.
 */
static void
note_place(GjScanState *scan, const ItemPointerData *tid)
{
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;

	if (scan->index_only != NULL)
		GjReadySlot(slot);
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_tid = *tid;
}

/*
 * What a cursor has (execcursor.c).  For each of the other entries it would be an eighth of
 * the time of a count.
 */
static void
note_entry(GjScanState *scan, uint64 entry)
{
	uint64		tid = GjIndexOnlyTid(scan->index_only, entry);
	ItemPointerData place;

	ItemPointerSet(&place, (BlockNumber) (tid >> 16), (OffsetNumber) tid);
	GjFollowChain(scan->css.ss.ss_currentRelation, scan->css.ss.ps.state->es_snapshot, &place);
	note_place(scan, &place);
}

/*
 * Who asks nevertheless shall get an error, and not the impression that there is no row
 */
static void
note_no_place(GjScanState *scan)
{
	ItemPointerData nowhere;

	ItemPointerSetInvalid(&nowhere);
	note_place(scan, &nowhere);
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
				note_place(scan, &slot->tts_tid);
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
		build_key_set(scan);
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
		build_key_set(scan);
	scan->is_cursor = GjIsCursor(scan->css.ss.ps.state);

	if (scan->index_only != NULL && !scan->keys->nulls &&
		GjIndexOnlyIsPossible(scan->index_only))
		tids = GjShareEntries(&scan->css, scan->index_only, scan->keys, scan->row_fill->columns,
							  scan->context, search_memory(scan), true, search_tids);
	else
		tids = GjShareMatch(&scan->css, scan->context, search_memory(scan), true, search_tids);
	if (tids != NULL)
		start_fetch(scan, tids);
	else
		note_no_place(scan);
}

static void
start_fetch(GjScanState *scan, GjTidSet *tids)
{
	scan->tids = tids;
	scan->filtered = GjFetchFilter(scan->fetch, &scan->key_reader, scan->keys);
	GjFetchStart(scan->fetch, tids);
}

static void
build_key_set(GjScanState *scan)
{
	instr_time	start;
	instr_time	end;

	INSTR_TIME_SET_CURRENT(start);
	if (scan->css.ss.ps.state->es_epq_active != NULL)
		scan->keys = GjKeyProgramRun(scan->program, scan->css.ss.ps.ps_ExprContext,
									 scan->context, GjIndexKeyWidth(scan->index));
	else
		scan->keys = share_keys(scan);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_ACCUM_DIFF(scan->stats.set_elapsed, end, start);
}

static const GjKeySet *
share_keys(GjScanState *scan)
{
	CustomScan *plan = (CustomScan *) scan->css.ss.ps.plan;
	GjKeyRequest request = {
		.key_plan = get_private(plan, GJ_SCAN_KEY_PLAN),
		.values = (List *) get_expr(plan, GJ_SCAN_VALUES),
		.program = scan->program,
		.econtext = scan->css.ss.ps.ps_ExprContext,
		.key_width = GjIndexKeyWidth(scan->index),
	};

	GjKeysTake(&scan->key_user, scan->css.ss.ps.state, &request);
	return GjKeysPart(&scan->key_user, get_private(plan, GJ_SCAN_PARTITIONS), scan->context);
}

/*
 * What the keys leave of the memory
 */
static Size
search_memory(GjScanState *scan)
{
	Size		limit = GjWorkMemory();
	Size		used = GjKeySetMemory(scan->keys);

	return used < limit / 2 ? limit - used : limit / 2;
}

/*
 * Find the TIDs of the keys
 */
static GjTidSet *
search_tids(CustomScanState *node, Size limit)
{
	GjScanState *scan = (GjScanState *) node;
	Snapshot	snapshot = node->ss.ps.state->es_snapshot;
	GjTidSet   *tids = GjTidSetCreate(scan->context, limit);

	if (scan->keys->nulls)
		GjExecMatchAll(node->ss.ss_currentRelation, snapshot, tids, &scan->stats);
	else
		GjExecMatch(node->ss.ss_currentRelation, scan->index, snapshot, scan->keys, tids,
					&scan->stats);
	if (scan->index_only != NULL)
		GjIndexOnlyGetStats(scan->index_only)->heap_fetches += GjTidSetCount(tids);
	return tids;
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
	else if (GjIndexOnlyIsStarted(scan->index_only))
	{
		GjFetchReset(scan->fetch);
		scan->tids = NULL;
		GjIndexOnlyRestart(scan->index_only);
	}
	else if (scan->tids != NULL)
		GjFetchStart(scan->fetch, scan->tids);
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

	GjExplainIndex(es, linitial_oid(get_private(plan, GJ_SCAN_INDEX_OID)));
	GjExplainKeyCondition(node, ancestors, es,
						  GjKeyPlanClauses(get_private(plan, GJ_SCAN_KEY_PLAN),
										   (List *) get_expr(plan, GJ_SCAN_VALUES),
										   (Expr *) get_expr(plan, GJ_SCAN_KEY)));
	if (is_index_only(plan))
		GjExplainIndexOnly(es, scan->stats.searches == 0 ? NULL :
						   GjIndexOnlyGetStats(scan->index_only));
	if (scan->fetch != NULL)
		GjExplainMatch(es, &scan->stats, GjFetchGetStats(scan->fetch));
}

/*
 * A list in the plan's private data
 */
static List *
get_private(CustomScan *plan, GjScanPrivate item)
{
	Assert(list_length(plan->custom_private) == GJ_SCAN_PRIVATE_COUNT);
	return (List *) list_nth(plan->custom_private, item);
}

/*
 * One of the plan's expressions, or a list of such
 */
static Node *
get_expr(CustomScan *plan, GjScanExprs item)
{
	Assert(list_length(plan->custom_exprs) == GJ_SCAN_EXPRS_COUNT);
	return list_nth(plan->custom_exprs, item);
}
