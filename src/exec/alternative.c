/*-------------------------------------------------------------------------
 *
 * alternative.c
 *	  GpuAlternative: run a GpuScan or PostgreSQL's index scan, whichever suits the
 *	  number of keys.
 *
 * Both children are plans for the same rows and the same target list, so whichever
 * runs gives the right answer, and the choice may rest on what can change at any
 * time.  It is made when the first tuple is wanted, and again when a parameter of the
 * key condition has changed.  The set that was made to count the keys is our child's, too
 * (source.c).
 *
 * What counts are all keys, also those that only other partitions can have: PostgreSQL's
 * index scan looks for them, too.  Where no key can be in the table, ours finds that out
 * without a search.
 *
 * Rows with a NULL key are in no index of ours: if they are wanted, which turns out
 * only here, it is the other plan's turn.
 *
 * What stands above sees the child's slots as they are.  A cursor that WHERE CURRENT
 * OF refers to looks into the scan slot of this node, which is therefore the child's.  Of
 * an index-only scan core asks the node itself where the row is; its slot does not say,
 * until it is told here.
 *
 * EvalPlanQual: both children can take a replaced row; ours does.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "executor/executor.h"
#include "utils/memutils.h"

#include "base/gpujoin.h"
#include "base/nodes.h"
#include "mirror/mirror.h"
#include "node/alternative.h"
#include "pages/pages.h"
#include "rows/rows.h"
#include "exec.h"

typedef struct GjAlternativeState
{
	CustomScanState css;		/* must be first */
	Relation	index;			/* NULL in a mere EXPLAIN */
	GjKeyProgram *program;
	GjKeyUser	key_user;		/* of the keys for which the choice was made */
	PlanState  *ours;
	PlanState  *other;
	PlanState  *chosen;			/* one of these, or NULL: not chosen yet */
	IndexOnlyScanState *index_only; /* PostgreSQL's, if that is what runs */
	TupleTableSlot *scan_slot;	/* this node's own */
} GjAlternativeState;

static Node *create_state(CustomScan *plan);
static void begin(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *exec(CustomScanState *node);
static PlanState *choose(GjAlternativeState *alternative);
static bool are_keys_for_us(GjAlternativeState *alternative);
static void use_scan_slot(GjAlternativeState *alternative);
static void note_place(GjAlternativeState *alternative);
static void rescan(CustomScanState *node);
static void end(CustomScanState *node);
static void explain(CustomScanState *node, List *ancestors, ExplainState *es);
static Node *get_private(GjAlternativeState *alternative, GjAlternativePrivate item);

static CustomScanMethods plan_methods = {
	.CustomName = GJ_ALTERNATIVE_NAME,
	.CreateCustomScanState = create_state,
};

static const CustomExecMethods exec_methods = {
	.CustomName = GJ_ALTERNATIVE_NAME,
	.BeginCustomScan = begin,
	.ExecCustomScan = exec,
	.EndCustomScan = end,
	.ReScanCustomScan = rescan,
	.ExplainCustomScan = explain,
};

void
GjExecAlternativeInit(void)
{
	GjNodeRegister(&plan_methods);
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
begin(CustomScanState *node, EState *estate, int eflags)
{
	GjAlternativeState *alternative = (GjAlternativeState *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	alternative->ours = ExecInitNode(linitial(plan->custom_plans), estate, eflags);
	alternative->other = ExecInitNode(lsecond(plan->custom_plans), estate, eflags);
	node->custom_ps = list_make2(alternative->ours, alternative->other);
	alternative->scan_slot = node->ss.ss_ScanTupleSlot;

	/* slots are the child's, of whatever kind */
	node->ss.ps.resultopsset = true;
	node->ss.ps.resultopsfixed = false;

	alternative->program =
		GjKeyProgramInit((List *) get_private(alternative, GJ_ALTERNATIVE_KEY_PLAN),
						 linitial(plan->custom_exprs), &node->ss.ps);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	alternative->index =
		GjOpenIndex(estate, plan->scan.scanrelid,
					linitial_oid((List *) get_private(alternative, GJ_ALTERNATIVE_INDEX_OID)));
}

bool
GjIsAlternative(const PlanState *node)
{
	return IsA(node, CustomScanState) &&
		((const CustomScanState *) node)->methods == &exec_methods;
}

/*
 * The child that gives the rows, chosen now if it is not yet
 */
PlanState *
GjAlternativeChild(PlanState *node)
{
	GjAlternativeState *alternative = (GjAlternativeState *) castNode(CustomScanState, node);

	if (alternative->chosen == NULL)
	{
		alternative->chosen = choose(alternative);
		use_scan_slot(alternative);
	}
	return alternative->chosen;
}

static TupleTableSlot *
exec(CustomScanState *node)
{
	GjAlternativeState *alternative = (GjAlternativeState *) node;
	TupleTableSlot *slot;

	slot = ExecProcNode(GjAlternativeChild(&node->ss.ps));
	if (alternative->index_only != NULL && !TupIsNull(slot))
		note_place(alternative);
	return slot;
}

/*
 * gpujoin.enabled is looked at, too: a plan may be older than its setting
 */
static PlanState *
choose(GjAlternativeState *alternative)
{
	if (alternative->css.ss.ps.state->es_epq_active != NULL)
		return alternative->ours;
	return gj_enabled && are_keys_for_us(alternative) ? alternative->ours : alternative->other;
}

static bool
are_keys_for_us(GjAlternativeState *alternative)
{
	PlanState  *ps = &alternative->css.ss.ps;
	GjAlternativePrivate limit = GjMirrorIsResident(alternative->index) ?
		GJ_ALTERNATIVE_DEVICE_KEYS : GJ_ALTERNATIVE_CPU_KEYS;
	GjKeyRequest request = {
		.key_plan = (List *) get_private(alternative, GJ_ALTERNATIVE_KEY_PLAN),
		.values = linitial(((CustomScan *) ps->plan)->custom_exprs),
		.program = alternative->program,
		.econtext = ps->ps_ExprContext,
		.key_width = GjIndexKeyWidth(alternative->index),
	};
	const GjKeySet *whole;

	whole = GjKeysTake(&alternative->key_user, ps->state, &request);
	return !whole->nulls && !whole->complement &&
		(whole->nkeys >= intVal(get_private(alternative, limit)) ||
		 GjKeysAreElsewhere(&alternative->key_user,
							(List *) get_private(alternative, GJ_ALTERNATIVE_PARTITIONS)));
}

/*
 * The scan slot of the child that runs, below the node for a one-time filter, if there
 * is one
 */
static void
use_scan_slot(GjAlternativeState *alternative)
{
	PlanState  *child = alternative->chosen;

	alternative->index_only = NULL;
	while (IsA(child, ResultState) && outerPlanState(child) != NULL)
		child = outerPlanState(child);
	if (!IsA(child, ResultState))
		alternative->css.ss.ss_ScanTupleSlot = ((ScanState *) child)->ss_ScanTupleSlot;
	if (IsA(child, IndexOnlyScanState))
		alternative->index_only = (IndexOnlyScanState *) child;
}

/*
 * Where the row is that an index-only scan has returned
 */
static void
note_place(GjAlternativeState *alternative)
{
	TupleTableSlot *slot = alternative->css.ss.ss_ScanTupleSlot;

	slot->tts_tid = alternative->index_only->ioss_ScanDesc->xs_heaptid;
	slot->tts_tableOid = RelationGetRelid(alternative->css.ss.ss_currentRelation);
}

/*
 * Children whose parameters have changed are begun anew when they are asked for a tuple
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
		bms_overlap(changed, GjKeyProgramParams(alternative->program)))
		alternative->chosen = NULL;
}

static void
end(CustomScanState *node)
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

	GjExplainAlternative(es, intVal(get_private(alternative, GJ_ALTERNATIVE_CPU_KEYS)),
						 intVal(get_private(alternative, GJ_ALTERNATIVE_DEVICE_KEYS)));
}

static Node *
get_private(GjAlternativeState *alternative, GjAlternativePrivate item)
{
	CustomScan *plan = (CustomScan *) alternative->css.ss.ps.plan;

	Assert(list_length(plan->custom_private) == GJ_ALTERNATIVE_PRIVATE_COUNT);
	return list_nth(plan->custom_private, item);
}
