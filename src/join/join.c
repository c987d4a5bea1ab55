/*-------------------------------------------------------------------------
 *
 * join.c
 *	  GpuJoin, an executor node: startup, rescan, shutdown.
 *
 * See pairs.c for how it produces its rows, and why the result is correct.
 *
 * A rescan does not evaluate the small side again, unless a parameter on which it depends has
 * changed.  If everything fit in one batch and the big side is one table, the TIDs are kept for
 * rescans too: the snapshot is the same, so changes of the index since then are invisible to it,
 * or are filtered out by the fetch.  If there are several tables, each is searched again, because
 * keeping the TIDs of all of them could take many times the allowed memory.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "storage/spin.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/region.h"
#include "base/settings.h"
#include "node/scanplan.h"
#include "join.h"

/* Small-side statistics reported by workers: the maximum of each */
typedef struct GjSharedSmall
{
	slock_t		mutex;
	GjSmallStats small;
} GjSharedSmall;

static Node *create_join_state(CustomScan *scan);
static void begin_join(CustomScanState *node, EState *estate, int eflags);
static void begin_small(GjJoinState *state, EState *estate, int eflags);
static void begin_parts(GjJoinState *state);
static bool tests_entries(const CustomScan *plan);
static int	find_value_column(const GjJoinState *state, Expr *value);
static ExprState *init_list(const GjJoinState *state, PlanState *small_plan);
static void begin_scans(GjJoinState *state, EState *estate, int eflags);
static void begin_joined(GjJoinState *state);
static void rescan_join(CustomScanState *node);
static void rescan_scans(GjJoinState *state);
static bool small_is_stale(GjJoinState *state, PlanState *small_plan);
static void end_join(CustomScanState *node);
static Size estimate_dsm(CustomScanState *node, ParallelContext *pcxt);
static void initialize_dsm(CustomScanState *node, ParallelContext *pcxt, void *shared);
static void initialize_worker(CustomScanState *node, shm_toc *toc, void *shared);
static void shutdown_join(CustomScanState *node);
static void raise_stats(GjSmallStats *stats, const GjSmallStats *other);
static void explain_join(CustomScanState *node, List *ancestors, ExplainState *es);
static const char *join_type_name(GjJoinKind kind);

static CustomScanMethods join_plan_methods = {
	.CustomName = GJ_JOIN_NAME,
	.CreateCustomScanState = create_join_state,
};

static const CustomExecMethods join_exec_methods = {
	.CustomName = GJ_JOIN_NAME,
	.BeginCustomScan = begin_join,
	.ExecCustomScan = GjExecJoin,
	.EndCustomScan = end_join,
	.ReScanCustomScan = rescan_join,
	.EstimateDSMCustomScan = estimate_dsm,
	.InitializeDSMCustomScan = initialize_dsm,
	.InitializeWorkerCustomScan = initialize_worker,
	.ShutdownCustomScan = shutdown_join,
	.ExplainCustomScan = explain_join,
};

/*
 * Register the methods in every process, because parallel workers look up plans by the name of
 * their methods
 */
void
GjExecJoinInit(void)
{
	GjNodeRegister(&join_plan_methods, &GjJoinRowMethods);
	GjNodeRegister(&GjJoinScanPlanMethods, NULL);
}

static Node *
create_join_state(CustomScan *scan)
{
	GjJoinState *state = (GjJoinState *) newNode(sizeof(GjJoinState), T_CustomScanState);

	Assert(list_length(scan->custom_private) == GJ_JOIN_PRIVATE_COUNT);
	Assert(list_length(scan->custom_exprs) == GJ_JOIN_EXPRS_COUNT);

	state->css.methods = &join_exec_methods;
	state->kind = intVal(list_nth(scan->custom_private, GJ_JOIN_KIND));
	state->nbig = intVal(list_nth(scan->custom_private, GJ_JOIN_BIG_COLUMNS));
	return (Node *) state;
}

/*
 * Start up, without searching or reading anything: EXPLAIN calls this, too
 */
static void
begin_join(CustomScanState *node, EState *estate, int eflags)
{
	GjJoinState *state = (GjJoinState *) node;

	if (!(eflags & EXEC_FLAG_EXPLAIN_ONLY))
		GjKeepFreedMemory();
	state->joined = node->ss.ss_ScanTupleSlot;
	state->context = AllocSetContextCreate(estate->es_query_cxt, "gpujoin join keys",
										   ALLOCSET_DEFAULT_SIZES);
	begin_small(state, estate, eflags);
	begin_scans(state, estate, eflags);
	begin_joined(state);
	state->phase = GJ_PHASE_COLLECT;
}

static void
begin_small(GjJoinState *state, EState *estate, int eflags)
{
	CustomScan *scan = (CustomScan *) state->css.ss.ps.plan;
	List	   *codec = list_nth(scan->custom_private, GJ_JOIN_CODEC);
	bool		has_quals = list_nth(scan->custom_exprs, GJ_JOIN_QUALS) != NULL;
	Expr	   *value = list_nth(scan->custom_exprs, GJ_JOIN_VALUE_EXPR);
	GjSmallPolicy policy = {
		.keep_null_keys = GjJoinKeepsUnmatched(state->kind),
		.one_per_key = state->kind == GJ_JOIN_SEMI && !has_quals,
		.whole_keys = state->kind == GJ_JOIN_SEMI,
		.expected = ((Plan *) linitial(scan->custom_plans))->plan_rows,
	};
	PlanState  *small_plan;

	/* The small plan is read forwards, once: rescans use the collected rows */
	eflags &= ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	small_plan = ExecInitNode(linitial(scan->custom_plans), estate, eflags);
	state->css.custom_ps = list_make1(small_plan);
	Assert(ExecGetResultType(small_plan)->natts + state->nbig ==
		   state->joined->tts_tupleDescriptor->natts);

	if (!GjCodecInit(&state->codec, linitial_oid(codec), lsecond_oid(codec), lthird_oid(codec),
					 OidIsValid(lfourth_oid(codec))))
		elog(ERROR, "missing key extraction function for type %u", lsecond_oid(codec));
	state->conversion = intVal(list_nth(scan->custom_private, GJ_JOIN_CONVERSION));
	state->value_column = find_value_column(state, value);
	state->list = init_list(state, small_plan);
	state->small = GjSmallCreate(estate->es_query_cxt, ExecGetResultType(small_plan),
								 policy, get_hash_memory_limit(), &state->small_stats);
	begin_parts(state);
}

/*
 * Prepare the further equalities, whose sides are parts of the key.  If the index has rests, the
 * equality of the keys is the first, and compares these; if it has hashes, it compares the keys.
 */
static void
begin_parts(GjJoinState *state)
{
	CustomScan *scan = (CustomScan *) state->css.ss.ps.plan;
	List	   *operators = list_nth(scan->custom_private, GJ_JOIN_PART_OPERATORS);
	GjExactPart *parts = palloc_array(GjExactPart, list_length(operators));
	ListCell   *opno,
			   *collation;

	forboth(opno, operators,
			collation, (List *) list_nth(scan->custom_private, GJ_JOIN_PART_COLLATIONS))
	{
		if (!GjExactPartInit(&parts[state->nparts++], lfirst_oid(opno), lfirst_oid(collation),
							 InvalidOid))
			elog(ERROR, "operator %u cannot compare parts of a key", lfirst_oid(opno));
	}
	if (GjCodecHasPairs(&state->codec))
		GjExactPartUseRest(&parts[0]);
	if (state->nparts > 0)
		GjSmallSetParts(state->small, list_nth(scan->custom_private, GJ_JOIN_PART_COLUMNS), parts,
						GjCodecHasPairs(&state->codec) ? &state->codec : NULL,
						state->conversion, state->nparts == 1 &&
						(GjCodecHasPairs(&state->codec) || GjCodecMayHash(&state->codec)),
						state->codec.kind == GJ_CODEC_HASH && tests_entries(scan));
}

/*
 * Return true if a scan of the big side tests entries by the parts that they have
 */
static bool
tests_entries(const CustomScan *plan)
{
	ListCell   *lc;

	for_each_from(lc, plan->custom_plans, 1)
	{
		List	   *filter = list_nth(lfirst_node(CustomScan, lc)->custom_private,
									  GJ_TABLE_FILTER_PLAN);

		if (filter != NIL && list_nth(filter, GJ_FILTER_PLAN_PARTS) != NIL)
			return true;
	}
	return false;
}

/*
 * Return the column of the small plan's output that is the small side's value
 */
static int
find_value_column(const GjJoinState *state, Expr *value)
{
	Var		   *var = GjStripRelabel(value);

	if (!IsA(var, Var) || var->varno != INDEX_VAR || var->varattno <= state->nbig)
		elog(ERROR, "the value of a join's key is not a column of the small side");
	return var->varattno - state->nbig - 1;
}

/*
 * Prepare the array whose elements are the small rows, if the plan is a scan of unnest(array) and
 * nothing else, and an element is the key.  Otherwise return NULL.
 *
 * A subquery below the array would be prepared twice, so it must be a constant or a parameter.
 */
static ExprState *
init_list(const GjJoinState *state, PlanState *small_plan)
{
	const FunctionScan *scan = (const FunctionScan *) small_plan->plan;
	TupleDesc	columns = ExecGetResultType(small_plan);
	const FuncExpr *function;
	Node	   *array;

	if (!IsA(scan, FunctionScan) || scan->funcordinality || list_length(scan->functions) != 1 ||
		small_plan->qual != NULL || small_plan->ps_ProjInfo != NULL ||
		columns->natts != 1 || state->value_column != 0)
		return NULL;
	function = (const FuncExpr *) linitial_node(RangeTblFunction, scan->functions)->funcexpr;
	if (!IsA(function, FuncExpr) || function->funcid != F_UNNEST_ANYARRAY)
		return NULL;
	array = linitial(function->args);
	if (get_element_type(exprType(array)) != TupleDescAttr(columns, 0)->atttypid)
		return NULL;
	array = GjStripRelabel(array);
	if (!IsA(array, Const) && !IsA(array, Param))
		return NULL;
	return ExecInitExpr((Expr *) array, small_plan);
}

/*
 * Start the scans of the big side, which are the plans after the first one
 */
static void
begin_scans(GjJoinState *state, EState *estate, int eflags)
{
	CustomScan *plan = (CustomScan *) state->css.ss.ps.plan;
	List	   *plans = plan->custom_plans;

	state->partitions = list_nth(plan->custom_private, GJ_JOIN_PARTITIONS);
	state->router.estate = estate;
	state->nscans = list_length(plans) - 1;
	state->scans = palloc_array(GjJoinScanState *, state->nscans);
	for (int i = 0; i < state->nscans; i++)
	{
		PlanState  *scan = ExecInitNode(list_nth(plans, i + 1), estate, eflags);

		state->scans[i] = (GjJoinScanState *) castNode(CustomScanState, scan);
		Assert(((CustomScan *) scan->plan)->methods == &GjJoinScanPlanMethods);
		GjJoinScanAttach(state->scans[i], state->joined);
		if (state->scans[i]->table.index != NULL)
			GjTableScanCheckRests(&state->scans[i]->table, GjCodecHasPairs(&state->codec));
		state->css.custom_ps = lappend(state->css.custom_ps, scan);
	}
}

/*
 * Prepare the joined row.  Core omits the projection if the target list is the joined row itself;
 * we always project (pairs.c explains why).
 */
static void
begin_joined(GjJoinState *state)
{
	ScanState  *ss = &state->css.ss;
	List	   *exprs = ((CustomScan *) ss->ps.plan)->custom_exprs;

	if (ss->ps.ps_ProjInfo == NULL)
		ExecAssignProjectionInfo(&ss->ps, state->joined->tts_tupleDescriptor);

	ss->ps.ps_ExprContext->ecxt_scantuple = state->joined;
	state->joinquals = ExecInitQual(list_nth(exprs, GJ_JOIN_QUALS), &ss->ps);
	state->otherquals = ExecInitQual(list_nth(exprs, GJ_JOIN_OTHER_QUALS), &ss->ps);
	GjJoinDirectInit(state);
}

/*
 * Start over.  The small plan is told which parameters have changed; if it does not depend on
 * them, its rows are used again.
 */
static void
rescan_join(CustomScanState *node)
{
	GjJoinState *state = (GjJoinState *) node;
	PlanState  *small_plan = linitial(node->custom_ps);

	ExecClearTuple(state->joined);
	state->batch_rows.nrows = state->batch_rows.next = 0;
	state->ask_again = NULL;
	if (node->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(small_plan, node->ss.ps.chgParam);
	rescan_scans(state);

	if (state->phase == GJ_PHASE_COLLECT)
		return;
	if (!small_is_stale(state, small_plan))
	{
		GjSmallRewind(state->small);
		state->phase = GJ_PHASE_BATCH;
		return;
	}

	/* if parameters have changed, the plan rescans itself when it is run */
	if (small_plan->chgParam == NULL)
		ExecReScan(small_plan);
	GjSmallReset(state->small);
	GjJoinForgetBatch(state);
	state->phase = GJ_PHASE_COLLECT;
}

/*
 * Rescan the scans, whose filters may have parameters.  If there are several, a scan that was
 * interrupted forgets its results, because the keys that it uses may have been replaced for
 * another one.
 */
static void
rescan_scans(GjJoinState *state)
{
	for (int i = 0; i < state->nscans; i++)
	{
		PlanState  *scan = &state->scans[i]->table.css.ss.ps;

		if (state->css.ss.ps.chgParam != NULL)
			UpdateChangedParamSet(scan, state->css.ss.ps.chgParam);
		ExecReScan(scan);
		if (state->nscans > 1)
			GjJoinScanForget(state->scans[i]);
	}
}

/*
 * Return true if the small side must be collected again.  Within EvalPlanQual, rows and parameters
 * are replaced without setting chgParam.
 */
static bool
small_is_stale(GjJoinState *state, PlanState *small_plan)
{
	return small_plan->chgParam != NULL || state->css.ss.ps.state->es_epq_active != NULL;
}

static void
end_join(CustomScanState *node)
{
	GjJoinState *state = (GjJoinState *) node;

	ListCell   *lc;

	ExecClearTuple(state->joined);
	GjSmallFree(state->small);
	GjKeyRouterClose(&state->router);
	MemoryContextDelete(state->context);
	foreach(lc, node->custom_ps)
		ExecEndNode(lfirst(lc));
}

/*
 * In a parallel plan, each process has its own small side, and only the scans share data.  For
 * EXPLAIN, workers report how large their small sides were.
 */
static Size
estimate_dsm(CustomScanState *node, ParallelContext *pcxt)
{
	return sizeof(GjSharedSmall);
}

static void
initialize_dsm(CustomScanState *node, ParallelContext *pcxt, void *area)
{
	GjSharedSmall *shared = area;

	memset(shared, 0, sizeof(GjSharedSmall));
	SpinLockInit(&shared->mutex);
	initialize_worker(node, pcxt->toc, shared);
}

static void
initialize_worker(CustomScanState *node, shm_toc *toc, void *shared)
{
	((GjJoinState *) node)->shared = shared;
}

static void
shutdown_join(CustomScanState *node)
{
	GjJoinState *state = (GjJoinState *) node;
	GjSharedSmall *shared = state->shared;

	if (shared == NULL)
		return;

	SpinLockAcquire(&shared->mutex);
	if (IsParallelWorker())
		raise_stats(&shared->small, &state->small_stats);
	else
		raise_stats(&state->workers, &shared->small);
	SpinLockRelease(&shared->mutex);
	state->shared = NULL;
}

static void
raise_stats(GjSmallStats *stats, const GjSmallStats *other)
{
	stats->rows = Max(stats->rows, other->rows);
	stats->batches = Max(stats->batches, other->batches);
	stats->peak_memory = Max(stats->peak_memory, other->peak_memory);
}

static void
explain_join(CustomScanState *node, List *ancestors, ExplainState *es)
{
	const GjJoinState *state = (const GjJoinState *) node;
	const CustomScan *scan = (const CustomScan *) node->ss.ps.plan;
	const GjSmallStats *small = &state->small_stats;
	const GjSmallStats *workers = &state->workers;
	GjJoinReport report = {
		.join_type = join_type_name(state->kind),
		.key_quals = list_nth(scan->custom_exprs, GJ_JOIN_KEY_QUALS),
		.joinquals = list_nth(scan->custom_exprs, GJ_JOIN_QUALS),
		.otherquals = list_nth(scan->custom_exprs, GJ_JOIN_OTHER_QUALS),
		.removed = state->removed,
		.small_rows = Max(small->rows, workers->rows),
		.batches = Max(small->batches, workers->batches),
		.peak_memory = Max(small->peak_memory, workers->peak_memory),
	};

	GjExplainJoin(node, ancestors, es, &report);
}

/*
 * Return the name that PostgreSQL shows for a hash join whose hashed side is the right one
 */
static const char *
join_type_name(GjJoinKind kind)
{
	switch (kind)
	{
		case GJ_JOIN_INNER:
			return "Inner";
		case GJ_JOIN_SEMI:
			return "Semi";
		case GJ_JOIN_RIGHT_SEMI:
			return "Right Semi";
		case GJ_JOIN_RIGHT:
			return "Right";
		case GJ_JOIN_RIGHT_ANTI:
			return "Right Anti";
	}
	return "???";
}
