/*-------------------------------------------------------------------------
 *
 * aggbuild.c
 *	  Build the plan of a GpuAgg path (agg.c).
 *
 * A batch has the columns of the child that are needed, and behind them what is computed from
 * these for each row: FILTER conditions, and arguments of aggregates that are expressions.
 * Such an expression stands in custom_exprs, where core adjusts it and sees its parameters.
 * There its Vars become columns of the node's own row, as custom_scan_tlist describes it; so
 * that has all of them, besides the groups' columns and the aggregates.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/fmgroids.h"

#include "base/nodes.h"
#include "agg.h"
#include "choice.h"

/* A plan in the making */
typedef struct Building
{
	const GjAggQuery *query;
	List	   *child_tlist;
	List	   *inputs;			/* Expr: the batch's columns that the child brings */
	List	   *columns;		/* int: which of the child's each is */
	List	   *types;			/* int: GjValueType of each column */
	List	   *computed;		/* Expr: the columns behind them */
	List	   *conditions;		/* int: for each of these, the column that must be true, or -1 */
} Building;

static Plan *plan_agg(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
					  List *clauses, List *custom_plans);
static void add_inputs(Building *building, Expr *expr);
static int	find_input(const Building *building, Expr *expr);
static int	find_column(Building *building, Expr *expr, int condition);
static void add_type(Building *building, Expr *expr);
static List *list_groupings(Building *building);
static List *list_aggregates(Building *building);
static List *describe_row(const Building *building);
static List *list_row_inputs(const Building *building, List *row);
static List *list_coded(const GjAggQuery *query);

const CustomPathMethods GjAggPathMethods = {
	.CustomName = GJ_AGG_NAME,
	.PlanCustomPath = plan_agg,
};

const CustomPathMethods GjPartialAggPathMethods = {
	.CustomName = GJ_PARTIAL_AGG_NAME,
	.PlanCustomPath = plan_agg,
};

/*
 * PlanCustomPath
 */
static Plan *
plan_agg(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
		 List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	GjAggQuery *query = list_nth(path->custom_private, GJ_AGG_PATH_QUERY);
	Building	building = {
		.query = query,
		.child_tlist = ((Plan *) linitial(custom_plans))->targetlist,
	};
	List	   *groupings;
	List	   *aggregates;
	ListCell   *lc;

	GjChoiceAggregateTaken(path);
	GjAggShowReadCost(linitial(path->custom_paths), linitial(custom_plans));
	foreach(lc, query->groupings)
		add_inputs(&building, lfirst(lc));
	foreach(lc, query->aggregates)
	{
		add_inputs(&building, GjAggregateArgument(lfirst_node(Aggref, lc)));
		add_inputs(&building, lfirst_node(Aggref, lc)->aggfilter);
	}
	groupings = list_groupings(&building);
	aggregates = list_aggregates(&building);

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = query->having;
	scan->custom_scan_tlist = describe_row(&building);
	scan->custom_exprs = copyObject(building.computed);
	scan->custom_plans = custom_plans;
	scan->custom_private = list_make4(building.columns, building.types, groupings, aggregates);
	scan->custom_private = lappend(scan->custom_private, building.conditions);
	scan->custom_private = lappend(scan->custom_private,
								   list_row_inputs(&building, scan->custom_scan_tlist));
	scan->custom_private = lappend(scan->custom_private,
								   makeInteger((int) Min(query->ngroups, INT_MAX)));
	scan->custom_private = lappend(scan->custom_private, list_coded(query));
	Assert(list_length(scan->custom_private) == GJ_AGG_PRIVATE_COUNT);
	scan->flags = path->flags;
	scan->methods = GjNodeMethods(path->methods->CustomName);
	return &scan->scan.plan;
}

/*
 * Have a batch bring an expression, if the child does, or else the columns of which it is made
 */
static void
add_inputs(Building *building, Expr *expr)
{
	TargetEntry *entry;
	ListCell   *lc;

	if (expr == NULL || find_input(building, expr) >= 0)
		return;
	entry = tlist_member(expr, building->child_tlist);
	if (entry != NULL)
	{
		building->inputs = lappend(building->inputs, expr);
		building->columns = lappend_int(building->columns, entry->resno);
		if (list_member(building->query->coded, expr))
			building->types = lappend_int(building->types, GJ_VALUE_INT4);
		else
			add_type(building, expr);
		return;
	}
	if (IsA(expr, Var))
		elog(ERROR, "a GpuAgg's input lacks a column");
	foreach(lc, pull_var_clause((Node *) expr, 0))
		add_inputs(building, lfirst(lc));
}

/*
 * Which column of a batch is this, from 0?  -1: none that the child brings.
 */
static int
find_input(const Building *building, Expr *expr)
{
	ListCell   *lc;

	foreach(lc, building->inputs)
	{
		if (equal(lfirst(lc), expr))
			return foreach_current_index(lc);
	}
	return -1;
}

static void
add_type(Building *building, Expr *expr)
{
	GjValueType type = GJ_VALUE_BOOL;

	if (!GjValueTypeOf(exprType((Node *) expr), &type))
		elog(ERROR, "a GpuAgg does not know a column's type");
	building->types = lappend_int(building->types, type);
}

/*
 * Which column is an expression, that may have to be computed?  Where it is an aggregate's
 * argument, it is needed only where the condition is true, and may fail elsewhere.
 */
static int
find_column(Building *building, Expr *expr, int condition)
{
	int			n = expr == NULL ? -1 : find_input(building, expr);
	ListCell   *lc;
	ListCell   *lc2;

	if (expr == NULL || n >= 0)
		return n;
	n = list_length(building->columns);
	forboth(lc, building->computed, lc2, building->conditions)
	{
		if (equal(lfirst(lc), expr) && lfirst_int(lc2) == condition)
			return n;
		n++;
	}
	building->computed = lappend(building->computed, expr);
	building->conditions = lappend_int(building->conditions, condition);
	add_type(building, expr);
	return n;
}

static List *
list_groupings(Building *building)
{
	List	   *groupings = NIL;
	ListCell   *lc;

	foreach(lc, building->query->groupings)
		groupings = lappend_int(groupings, find_input(building, lfirst(lc)));
	return groupings;
}

static List *
list_aggregates(Building *building)
{
	List	   *aggregates = NIL;
	ListCell   *lc;

	foreach(lc, building->query->aggregates)
	{
		Aggref	   *aggref = lfirst_node(Aggref, lc);
		int			filter = find_column(building, aggref->aggfilter, -1);
		int			argument = find_column(building, GjAggregateArgument(aggref), filter);
		GjAggKind	kind = GJ_AGG_COUNT_ROWS;

		GjAggregateOf(aggref, &kind);
		/* PostgreSQL takes one state for both, which is avg()'s (aggpartial.c) */
		if (building->query->is_partial && aggref->aggfnoid == F_SUM_INT8)
			kind = GJ_AGG_AVG;
		aggregates = lappend_int(aggregates, kind);
		aggregates = lappend_int(aggregates, argument);
		aggregates = lappend_int(aggregates, filter);
	}
	return aggregates;
}

/*
 * The node's own row: group columns, then aggregates, then what else is needed to compute
 * columns of a batch
 */
static List *
describe_row(const Building *building)
{
	List	   *exprs = list_concat_copy(building->query->groupings, building->query->aggregates);
	List	   *tlist = NIL;
	ListCell   *lc;

	exprs = list_concat_unique(exprs, pull_var_clause((Node *) building->computed, 0));
	foreach(lc, exprs)
		tlist = lappend(tlist, makeTargetEntry(copyObject((Expr *) lfirst(lc)),
											   list_length(tlist) + 1, NULL, false));
	return tlist;
}

/*
 * For each column of that row, which one of a batch it is, or -1
 */
static List *
list_row_inputs(const Building *building, List *row)
{
	List	   *inputs = NIL;
	ListCell   *lc;

	foreach(lc, row)
		inputs = lappend_int(inputs, find_input(building, lfirst_node(TargetEntry, lc)->expr));
	return inputs;
}

/*
 * The group columns for whose values numbers are taken
 */
static List *
list_coded(const GjAggQuery *query)
{
	List	   *coded = NIL;
	ListCell   *lc;

	foreach(lc, query->groupings)
	{
		if (list_member(query->coded, lfirst(lc)))
			coded = lappend_int(coded, foreach_current_index(lc));
	}
	return coded;
}
