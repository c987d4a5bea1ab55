/*-------------------------------------------------------------------------
 *
 * alternative.c
 *	  GpuAlternative: run a GpuScan or PostgreSQL's index scan, depending on the number of keys, or
 *	  a GpuJoin or PostgreSQL's nested loop, depending on the number of rows of the small side.
 *
 * Both children are plans for the same rows and the same target list.  So the answer does not
 * depend on the choice, which may rest on facts that can change at any time.  The choice is made
 * when the first tuple is requested, and again when a parameter of the key condition has changed.
 * The set that is built to count the keys is also used by our child (source.c).
 *
 * The number of keys includes those that only other partitions can have, because PostgreSQL's
 * index scan would look for them, too.  If the table can have none of the keys, ours finds that
 * out without a search.
 *
 * In a join, the arrays that unnest() makes rows of are parameters of the statement, so they are
 * counted at once, and do not change.
 *
 * Rows with a NULL key are in none of our indexes.  If they are wanted, which is only known here,
 * the other plan is chosen.
 *
 * Nodes above get the child's slots as they are.  WHERE CURRENT OF a cursor reads the scan slot of
 * this node, so it is replaced by the child's.  For an index-only scan, core reads the position of
 * the row from the scan's state instead; the slot does not have it until we set it here.  A Sort
 * has no position; so if it was chosen, core must not find the table here, and raises the error
 * that it raises for PostgreSQL's plan.
 *
 * EvalPlanQual: both children can handle a replaced row; ours is used.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "executor/executor.h"
#include "utils/array.h"
#include "utils/memutils.h"

#include "base/nodes.h"
#include "base/settings.h"
#include "mirror/mirror.h"
#include "pages/pages.h"
#include "rows/rows.h"
#include "exec.h"

typedef struct GjAlternativeState
{
	CustomScanState css;		/* must be first */
	Relation	index;			/* NULL in EXPLAIN without ANALYZE, and in a join */
	List	   *arrays;			/* of a join, which has no index and no keys: ExprState of each */
	GjKeyProgram *program;
	GjKeyUser	key_user;		/* use of the keys for which the choice was made */
	PlanState  *ours;
	PlanState  *other;
	PlanState  *chosen;			/* one of these, or NULL if not chosen yet */
	IndexOnlyScanState *index_only; /* the other plan's scan if that was chosen, or NULL */
	TupleTableSlot *scan_slot;	/* this node's own */
	Relation	table;			/* likewise */
} GjAlternativeState;

static Node *create_state(CustomScan *plan);
static void alternative_begin(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *exec(CustomScanState *node);
static PlanState *get_child(PlanState *node);
static PlanState *alternative_choose(GjAlternativeState *alternative);
static bool is_join(const GjAlternativeState *alternative);
static bool are_keys_for_us(GjAlternativeState *alternative);
static bool are_rows_for_us(GjAlternativeState *alternative);
static void use_scan_slot(GjAlternativeState *alternative);
static void note_place(GjAlternativeState *alternative);
static void rescan(CustomScanState *node);
static void alternative_end(CustomScanState *node);
static void explain(CustomScanState *node, List *ancestors, ExplainState *es);
static Node *get_private(GjAlternativeState *alternative, GjAlternativePrivate item);

static CustomScanMethods plan_methods = {
	.CustomName = GJ_ALTERNATIVE_NAME,
	.CreateCustomScanState = create_state,
};

static const CustomExecMethods exec_methods = {
	.CustomName = GJ_ALTERNATIVE_NAME,
	.BeginCustomScan = alternative_begin,
	.ExecCustomScan = exec,
	.EndCustomScan = alternative_end,
	.ReScanCustomScan = rescan,
	.ExplainCustomScan = explain,
};

static const GjRowMethods row_methods = {
	.below = get_child,
};

void
GjExecAlternativeInit(void)
{
	GjNodeRegister(&plan_methods, &row_methods);
}

static Node *
create_state(CustomScan *plan)
{
	GjAlternativeState *alternative = (GjAlternativeState *)
		newNode(sizeof(GjAlternativeState), T_CustomScanState);

	alternative->css.methods = &exec_methods;
	return (Node *) alternative;
}

static void
alternative_begin(CustomScanState *node, EState *estate, int eflags)
{
	GjAlternativeState *alternative = (GjAlternativeState *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	alternative->ours = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	alternative->other = ExecInitNode(lsecond(plan->custom_plans), estate, eflags);
	node->custom_ps = list_make2(alternative->ours, alternative->other);
	alternative->scan_slot = node->ss.ss_ScanTupleSlot;
	alternative->table = node->ss.ss_currentRelation;

	/* the children's slots may be of any kind */
	node->ss.ps.resultopsset = true;
	node->ss.ps.resultopsfixed = false;

	if (is_join(alternative))
	{
		alternative->arrays = ExecInitExprList(linitial(plan->custom_exprs), &node->ss.ps);
		return;
	}
	alternative->program =
		GjKeyProgramInit((List *) get_private(alternative, GJ_ALTERNATIVE_KEY_PLAN),
						 linitial(plan->custom_exprs), &node->ss.ps, NULL, NULL);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	alternative->index =
		GjOpenIndex(estate, plan->scan.scanrelid,
					linitial_oid((List *) get_private(alternative, GJ_ALTERNATIVE_INDEX_OID)));
}

/*
 * Return the child that returns the rows, and choose it first if necessary
 */
static PlanState *
get_child(PlanState *node)
{
	GjAlternativeState *alternative = (GjAlternativeState *) castNode(CustomScanState, node);

	if (alternative->chosen == NULL)
	{
		alternative->chosen = alternative_choose(alternative);
		if (!is_join(alternative))
			use_scan_slot(alternative);
	}
	return alternative->chosen;
}

static TupleTableSlot *
exec(CustomScanState *node)
{
	GjAlternativeState *alternative = (GjAlternativeState *) node;
	TupleTableSlot *slot;

	slot = ExecProcNode(get_child(&node->ss.ps));
	if (alternative->index_only != NULL && !TupIsNull(slot))
		note_place(alternative);
	return slot;
}

/*
 * Choose a child.  gpujoin.enabled may have changed since the plan was made.
 */
static PlanState *
alternative_choose(GjAlternativeState *alternative)
{
	if (alternative->css.ss.ps.state->es_epq_active != NULL)
		return alternative->ours;
	return gj_enabled && (is_join(alternative) ? are_rows_for_us(alternative) :
						  are_keys_for_us(alternative)) ? alternative->ours : alternative->other;
}

static bool
is_join(const GjAlternativeState *alternative)
{
	return ((const Scan *) alternative->css.ss.ps.plan)->scanrelid == 0;
}

/*
 * Return true if unnest() makes enough rows for our join, as many as the longest array has
 * elements
 */
static bool
are_rows_for_us(GjAlternativeState *alternative)
{
	ExprContext *econtext = alternative->css.ss.ps.ps_ExprContext;
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	int			nrows = 0;
	ListCell   *lc;

	foreach(lc, alternative->arrays)
	{
		bool		isnull;
		Datum		value = ExecEvalExpr((ExprState *) lfirst(lc), econtext, &isnull);

		if (!isnull)
		{
			AnyArrayType *array = DatumGetAnyArrayP(value);

			nrows = Max(nrows, ArrayGetNItems(AARR_NDIM(array), AARR_DIMS(array)));
		}
	}
	MemoryContextSwitchTo(old);
	ResetExprContext(econtext);
	return nrows >= intVal(get_private(alternative, GJ_ALTERNATIVE_CPU_KEYS));
}

static bool
are_keys_for_us(GjAlternativeState *alternative)
{
	PlanState  *ps = &alternative->css.ss.ps;
	GjAlternativePrivate limit = GjMirrorIsResident(alternative->index) ?
		GJ_ALTERNATIVE_DEVICE_KEYS : GJ_ALTERNATIVE_CPU_KEYS;
	GjKeyRequest request = {
		.program = alternative->program,
		.econtext = ps->ps_ExprContext,
		.key_width = GjIndexKeyWidth(alternative->index),
	};
	const GjKeySet *whole;

	whole = GjKeysTake(&alternative->key_user, ps->state, &request);
	return !whole->nulls && GjKeySetIsList(whole) &&
		(GjKeySetCount(whole) >= intVal(get_private(alternative, limit)) ||
		 GjKeyRoutesAreElsewhere(alternative->key_user.routes,
								 (List *) get_private(alternative, GJ_ALTERNATIVE_PARTITIONS)));
}

/*
 * Use the scan slot of the chosen child, which may be below a Result with a one-time filter
 */
static void
use_scan_slot(GjAlternativeState *alternative)
{
	PlanState  *child = alternative->chosen;

	alternative->index_only = NULL;
	while (IsA(child, ResultState) && outerPlanState(child) != NULL)
		child = outerPlanState(child);
	alternative->css.ss.ss_currentRelation = IsA(child, SortState) ? NULL : alternative->table;
	if (!IsA(child, ResultState))
		alternative->css.ss.ss_ScanTupleSlot = ((ScanState *) child)->ss_ScanTupleSlot;
	if (IsA(child, IndexOnlyScanState))
		alternative->index_only = (IndexOnlyScanState *) child;
}

/*
 * Record the position of the row that an index-only scan has returned
 */
static void
note_place(GjAlternativeState *alternative)
{
	TupleTableSlot *slot = alternative->css.ss.ss_ScanTupleSlot;

	slot->tts_tid = alternative->index_only->ioss_ScanDesc->xs_heaptid;
	slot->tts_tableOid = RelationGetRelid(alternative->css.ss.ss_currentRelation);
}

/*
 * Rescan.  A child whose parameters have changed is rescanned when it is run.
 */
static void
rescan(CustomScanState *node)
{
	GjAlternativeState *alternative = (GjAlternativeState *) node;
	Bitmapset  *changed = node->ss.ps.chgParam;

	if (changed != NULL)
	{
		UpdateChangedParamSet(alternative->ours, changed);
		UpdateChangedParamSet(alternative->other, changed);
	}
	if (alternative->chosen != NULL && alternative->chosen->chgParam == NULL)
		ExecReScan(alternative->chosen);
	if (node->ss.ps.state->es_epq_active != NULL ||
		(!is_join(alternative) &&
		 bms_overlap(changed, GjKeyProgramParams(alternative->program))))
		alternative->chosen = NULL;
}

static void
alternative_end(CustomScanState *node)
{
	GjAlternativeState *alternative = (GjAlternativeState *) node;

	node->ss.ss_ScanTupleSlot = alternative->scan_slot;
	ExecEndNode(alternative->ours);
	ExecEndNode(alternative->other);
	GjKeysEnd(&alternative->key_user);
	if (alternative->index != NULL)
		index_close(alternative->index, NoLock);
}

static void
explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	GjAlternativeState *alternative = (GjAlternativeState *) node;

	GjExplainAlternative(es, is_join(alternative),
						 intVal(get_private(alternative, GJ_ALTERNATIVE_CPU_KEYS)),
						 intVal(get_private(alternative, GJ_ALTERNATIVE_DEVICE_KEYS)));
}

static Node *
get_private(GjAlternativeState *alternative, GjAlternativePrivate item)
{
	CustomScan *plan = (CustomScan *) alternative->css.ss.ps.plan;

	Assert(list_length(plan->custom_private) == GJ_ALTERNATIVE_PRIVATE_COUNT);
	return list_nth(plan->custom_private, item);
}
