/*-------------------------------------------------------------------------
 *
 * execjoin.c
 *	  GpuJoin, a node of the executor: beginning, rescan, end.
 *
 * How it makes its rows, and why they are the right ones, is in execjoinrows.c.
 *
 * Nothing that the small side gave is evaluated again in a rescan, unless a
 * parameter on which it depends has changed.  If all was one batch, the TIDs are
 * kept for rescans too: the snapshot is the same, and what the index has gained or
 * lost since then is invisible to it, or is sorted out in the fetch.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "compat.h"
#include "execjoin.h"
#include "gpujoin.h"

static Node *create_join_state(CustomScan *scan);
static void begin_join(CustomScanState *node, EState *estate, int eflags);
static void begin_small(GjJoinState *state, EState *estate, int eflags);
static int	find_value_column(GjJoinState *state, Expr *value);
static void begin_big(GjJoinState *state, EState *estate, int eflags);
static void begin_joined(GjJoinState *state);
static void rescan_join(CustomScanState *node);
static bool small_is_stale(GjJoinState *state, PlanState *small_plan);
static void end_join(CustomScanState *node);
static void explain_join(CustomScanState *node, List *ancestors, ExplainState *es);

const CustomScanMethods GjJoinPlanMethods = {
	.CustomName = "GpuJoin",
	.CreateCustomScanState = create_join_state,
};

static const CustomExecMethods join_exec_methods = {
	.CustomName = "GpuJoin",
	.BeginCustomScan = begin_join,
	.ExecCustomScan = GjExecJoin,
	.EndCustomScan = end_join,
	.ReScanCustomScan = rescan_join,
	.ExplainCustomScan = explain_join,
};

/*
 * Parallel workers read plans by the name of their methods: every process registers
 */
void
GjExecJoinInit(void)
{
	RegisterCustomScanMethods(&GjJoinPlanMethods);
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
 * Neither searches nor reads anything: EXPLAIN comes here too
 */
static void
begin_join(CustomScanState *node, EState *estate, int eflags)
{
	GjJoinState *state = (GjJoinState *) node;

	state->joined = node->ss.ss_ScanTupleSlot;
	state->context = AllocSetContextCreate(estate->es_query_cxt, "gpujoin join",
										   ALLOCSET_DEFAULT_SIZES);
	begin_small(state, estate, eflags);
	begin_big(state, estate, eflags);
	begin_joined(state);
	state->phase = GJ_PHASE_COLLECT;
}

static void
begin_small(GjJoinState *state, EState *estate, int eflags)
{
	CustomScan *scan = (CustomScan *) state->css.ss.ps.plan;
	List	   *procs = list_nth(scan->custom_private, GJ_JOIN_VALUE_PROC);
	bool		has_quals = list_nth(scan->custom_exprs, GJ_JOIN_QUALS) != NULL;
	Expr	   *value = list_nth(scan->custom_exprs, GJ_JOIN_VALUE_EXPR);
	GjSmallPolicy policy = {
		.keep_null_keys = GjJoinKeepsUnmatched(state->kind),
		.one_per_key = state->kind == GJ_JOIN_SEMI && !has_quals,
		.whole_keys = state->kind == GJ_JOIN_SEMI,
	};
	PlanState  *small_plan;

	/* It is read forwards, once: rescans get what was collected */
	eflags &= ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	small_plan = ExecInitNode(linitial(scan->custom_plans), estate, eflags);
	state->css.custom_ps = list_make1(small_plan);
	Assert(ExecGetResultType(small_plan)->natts + state->nbig ==
		   state->joined->tts_tupleDescriptor->natts);

	fmgr_info_cxt(linitial_oid(procs), &state->value_proc, estate->es_query_cxt);
	state->value_column = find_value_column(state, value);
	state->value_expr = ExecInitExpr(value, &state->css.ss.ps);
	state->small = GjSmallCreate(estate->es_query_cxt, ExecGetResultType(small_plan),
								 policy, GjWorkMemory());
	state->report.small = GjSmallGetStats(state->small);
}

/*
 * If the small side's value is one of its columns, say which
 */
static int
find_value_column(GjJoinState *state, Expr *value)
{
	Var		   *var;

	while (IsA(value, RelabelType))
		value = ((RelabelType *) value)->arg;

	var = (Var *) value;
	if (!IsA(var, Var) || var->varno != INDEX_VAR || var->varattno <= state->nbig)
		return -1;
	return var->varattno - state->nbig - 1;
}

/*
 * The big table's columns are put into the joined slot by a projection, which knows
 * system columns and whole rows, and deforms no more than is needed.
 *
 * It must not be told that it belongs to this node: it would take the node's scan
 * slot, which is virtual, for its input, and not deform at all.
 */
static void
begin_big(GjJoinState *state, EState *estate, int eflags)
{
	CustomScan *scan = (CustomScan *) state->css.ss.ps.plan;
	List	   *columns = list_copy_head(scan->custom_scan_tlist, state->nbig);
	Index		big_rti = ((Var *) linitial_node(TargetEntry, columns)->expr)->varno;
	List	   *index_oid = list_nth(scan->custom_private, GJ_JOIN_INDEX_OID);
	AttrNumber	key_attno = intVal(list_nth(scan->custom_private, GJ_JOIN_KEY_ATTNO));

	state->big = ExecOpenScanRelation(estate, big_rti, eflags);
	state->index = GjOpenIndex(estate, big_rti, linitial_oid(index_oid));
	GjInitKeyReader(&state->key_reader, state->index, key_attno,
					list_nth(scan->custom_exprs, GJ_JOIN_KEY_EXPR), &state->css.ss.ps);

	state->big_slot = table_slot_create(state->big, &estate->es_tupleTable);
	state->big_context = CreateExprContext(estate);
	state->big_context->ecxt_scantuple = state->big_slot;
	state->big_projection = ExecBuildProjectionInfo(columns, state->big_context, state->joined,
													NULL, RelationGetDescr(state->big));
	state->fetch = GjFetchCreate(estate->es_query_cxt, state->big, estate->es_snapshot);
	state->report.fetch = GjFetchGetStats(state->fetch);
}

/*
 * Core leaves out the projection if the target is the joined row itself; here it is
 * always done (execjoinrows.c says why).
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
}

/*
 * Start over.  The small plan is told what has changed; if that does not concern
 * it, what it gave is used again.
 */
static void
rescan_join(CustomScanState *node)
{
	GjJoinState *state = (GjJoinState *) node;
	PlanState  *small_plan = linitial(node->custom_ps);

	ExecClearTuple(state->joined);
	ExecClearTuple(state->big_slot);
	GjFetchReset(state->fetch);
	if (node->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(small_plan, node->ss.ps.chgParam);

	if (state->phase == GJ_PHASE_COLLECT)
		return;
	if (!small_is_stale(state, small_plan))
	{
		GjSmallRewind(state->small);
		state->phase = GJ_PHASE_BATCH;
		return;
	}

	/* With changed parameters the plan rescans itself when it is run */
	if (small_plan->chgParam == NULL)
		ExecReScan(small_plan);
	GjSmallReset(state->small);
	GjJoinDropTids(state);
	state->phase = GJ_PHASE_COLLECT;
}

/*
 * Must the small side be collected again?  An expression that makes its keys may
 * have a parameter that the plan below does not know.
 */
static bool
small_is_stale(GjJoinState *state, PlanState *small_plan)
{
	return small_plan->chgParam != NULL ||
		(state->css.ss.ps.chgParam != NULL && state->value_column < 0);
}

static void
end_join(CustomScanState *node)
{
	GjJoinState *state = (GjJoinState *) node;

	ExecClearTuple(state->joined);
	ExecClearTuple(state->big_slot);
	GjFetchFree(state->fetch);
	GjJoinDropTids(state);
	GjSmallFree(state->small);
	MemoryContextDelete(state->context);
	index_close(state->index, NoLock);
	ExecEndNode(linitial(node->custom_ps));
}

static void
explain_join(CustomScanState *node, List *ancestors, ExplainState *es)
{
	GjExplainJoin(node, ancestors, es, &((GjJoinState *) node)->report);
}
