/*-------------------------------------------------------------------------
 *
 * generic.c
 *	  What a generic plan costs, for the plan cache.
 *
 * An array of unknown length is assumed to have gpujoin.assumed_keys elements, so that a plan is
 * chosen that serves long lists, too.  The plan cache compares its cost with the costs of custom
 * plans, which are for the arrays that were sent.  If those were shorter, it would plan every
 * execution, though the generic plan is the same plan.  Planning a list of ten keys takes as long
 * as executing it.
 *
 * So the cost of a generic plan is lowered after it has been chosen, to that for the ten elements
 * that PostgreSQL assumes.  The plan cache keeps it if the custom plans cost more than that, as it
 * does with a btree.  Nothing but costs is changed, and only those of a scan and of the nodes above
 * it that read it once, to its end, and nothing else: a chain.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"

#include "base/compat.h"
#include "base/nodes.h"
#include "base/settings.h"
#include "node/scanplan.h"
#include "planner.h"

static bool has_client_value(Node *node, void *context);
static Plan *only_child(Plan *plan);

/*
 * Estimate which fraction of its cost a scan would not have if its array of unknown length had as
 * many elements as PostgreSQL assumes; returns 0 if it has no such array
 */
double
GjGenericExcess(PlannerInfo *root, const GjCostInput *input, List *conditions, Cost cost)
{
	const GjKeyNode *node = ((GjKeyCondition *) linitial(conditions))->node;
	GjCostInput few = *input;
	Cost		startup;
	Cost		run;

	if (list_length(conditions) != 1 || node->step != GJ_STEP_SOURCE ||
		node->source.tuples != NULL || !GjSourceIsUnknown(&node->source) ||
		!has_client_value((Node *) node->source.value, NULL) ||
		input->nkeys <= GJ_FEWEST_ASSUMED_KEYS)
		return 0;

	few.nkeys = GJ_FEWEST_ASSUMED_KEYS;
	few.nmatches *= few.nkeys / input->nkeys;
	GjCostSearch(root, &few, &startup, &run);
	return startup + run < cost ? 1.0 - (startup + run) / cost : 0.0;
}

/*
 * Return true if an expression has a parameter that the client sets.  In a custom plan it is a
 * constant.
 */
static bool
has_client_value(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
		return ((Param *) node)->paramkind == PARAM_EXTERN;
	return expression_tree_walker(node, has_client_value, context);
}

/*
 * Lower the cost of a generic plan if its array has an unknown length
 */
void
GjGenericPrice(PlannedStmt *planned)
{
	Plan	   *scan = planned->planTree;
	Cost		excess;

	while (scan != NULL && !(IsA(scan, CustomScan) &&
							 ((CustomScan *) scan)->methods == GjNodeMethods(GJ_SCAN_NAME)))
		scan = only_child(scan);
	if (scan == NULL)
		return;

	excess = scan->total_cost * 1e-6 *
		intVal(list_nth(((CustomScan *) scan)->custom_private, GJ_SCAN_EXCESS));
	for (Plan *plan = planned->planTree; plan != NULL; plan = only_child(plan))
	{
		plan->total_cost = Max(plan->total_cost - excess, 0.0);
		plan->startup_cost = Min(plan->startup_cost, plan->total_cost);
	}
}

/*
 * Return the child that a node reads once, to its end, if it has no other; otherwise NULL
 */
static Plan *
only_child(Plan *plan)
{
	if (IsA(plan, CustomScan))
	{
		List	   *children = ((CustomScan *) plan)->custom_plans;

		return list_length(children) == 1 ? linitial(children) : NULL;
	}
	if (IsA(plan, Limit) || innerPlan(plan) != NULL)
		return NULL;
	return outerPlan(plan);
}
