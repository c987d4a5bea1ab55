/*-------------------------------------------------------------------------
 *
 * joinplan.c
 *	  Make the plan of a GpuJoin path.
 *
 * A join has no scan relation, so all expressions of the node are over a joined row, which
 * custom_scan_tlist describes; setrefs.c turns their Vars into columns of it.  Expressions are
 * only in custom_exprs and in the plan's qual, because core does not adjust those in
 * custom_private.
 *
 * A plan node for each table (GpuJoinScan) is a child of the join's.  So core adjusts its
 * expressions like those of any scan, and EXPLAIN shows it.  We make these nodes here and not from
 * paths: core would put a gating node on top of a scan that has pseudoconstant filters, and the
 * join must have access to the scan itself.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/appendinfo.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "base/compat.h"
#include "base/nodes.h"
#include "planner.h"

#define PULL_ALL_VARS \
	(PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS | PVC_RECURSE_PLACEHOLDERS)

static Plan *plan_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
					   List *clauses, List *custom_plans);
static Expr *key_qual(const GjJoinCandidate *cand);
static List *part_quals(const GjJoinCandidate *cand);
static List *plan_codec(const GjJoinCandidate *cand);
static List *plan_parts(const GjJoinCandidate *cand, int nbig, List *columns);
static bool is_same_column(const Var *a, const Var *b);
static List *partitions(PlannerInfo *root, const GjJoinCandidate *cand);
static void split_join_clauses(PlannerInfo *root, const GjJoinCandidate *cand,
							   List **joinquals, List **otherquals);
static List *big_columns(const GjJoinCandidate *cand, List *needed);
static List *build_scan_tlist(List *columns, Plan *small_plan);
static bool has_column(List *columns, const Var *var);
static bool goes_before(PlannerInfo *root, RestrictInfo *a, RestrictInfo *b);
static List *order_clauses(PlannerInfo *root, List *rinfos);
static Node *translate(PlannerInfo *root, Node *node, Index relid, RelOptInfo *big);
static List *table_partitions(PlannerInfo *root, RelOptInfo *table, RelOptInfo *big);
static Plan *plan_join_scan(PlannerInfo *root, const GjJoinCandidate *cand,
							const GjJoinScan *scan, List *columns);

const CustomPathMethods GjJoinPathMethods = {
	.CustomName = GJ_JOIN_NAME,
	.PlanCustomPath = plan_join,
};

/*
 * PlanCustomPath: make the plan
 *
 * The target list may be empty; then core sets its own later.  In either case it uses only columns
 * of the path's target.
 */
static Plan *
plan_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
		  List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	GjJoinCandidate *cand = linitial(path->custom_private);
	List	   *columns;
	List	   *scan_columns;
	List	   *exprs;
	List	   *joinquals;
	List	   *otherquals;
	ListCell   *lc;

	GjChoiceTaken(path);
	split_join_clauses(root, cand, &joinquals, &otherquals);
	exprs = list_make4(lcons(key_qual(cand), part_quals(cand)), cand->value, joinquals,
					   otherquals);
	Assert(list_length(exprs) == GJ_JOIN_EXPRS_COUNT);

	/* The target comes first: the nodes above use its Vars */
	columns = big_columns(cand, list_make3(path->path.pathtarget->exprs, tlist, exprs));
	scan->custom_scan_tlist = build_scan_tlist(columns, linitial(custom_plans));
	foreach(lc, cand->scans)
		custom_plans = lappend(custom_plans, plan_join_scan(root, cand, lfirst(lc), columns));

	scan->scan.plan.targetlist = tlist;
	scan_columns = get_tlist_exprs(scan->custom_scan_tlist, true);
	scan->custom_exprs = (List *) GjMatchColumns((Node *) exprs, scan_columns);
	scan->custom_plans = custom_plans;
	scan->custom_private = list_make4(makeInteger(cand->kind),
									  makeInteger(list_length(columns)),
									  plan_codec(cand), makeInteger(cand->key.conversion));
	scan->custom_private = lappend(scan->custom_private, partitions(root, cand));
	scan->custom_private = list_concat(scan->custom_private,
									   plan_parts(cand, list_length(columns), scan_columns));
	Assert(list_length(scan->custom_private) == GJ_JOIN_PRIVATE_COUNT);
	scan->flags = path->flags;
	scan->methods = GjNodeMethods(GJ_JOIN_NAME);

	return &scan->scan.plan;
}

/*
 * Return the clause that the indexes answer, for EXPLAIN: over the big side, with the key on the
 * left
 */
static Expr *
key_qual(const GjJoinCandidate *cand)
{
	OpExpr	   *written = castNode(OpExpr, cand->rinfo->clause);

	return make_opclause(cand->key.opno, BOOLOID, false, GjJoinKeyExpr(cand),
						 cand->key.value, written->opcollid, written->inputcollid);
}

/*
 * Return the further equalities that the look-up tests, for EXPLAIN, with the big side on the left
 */
static List *
part_quals(const GjJoinCandidate *cand)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, cand->parts)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		OpExpr	   *written = castNode(OpExpr, rinfo->clause);
		bool		is_turned = bms_equal(rinfo->right_relids, cand->big->relids);
		GjComparison part;

		if (rinfo == cand->rinfo)
			continue;
		(void) GjReadJoinPart(cand, rinfo, &part);
		result = lappend(result, make_opclause(part.opno, BOOLOID, false,
											   list_nth(written->args, is_turned ? 1 : 0),
											   list_nth(written->args, is_turned ? 0 : 1),
											   written->opcollid, written->inputcollid));
	}
	return result;
}

/*
 * Return how the small side's values, or what they are converted to, become codes
 */
static List *
plan_codec(const GjJoinCandidate *cand)
{
	const IndexOptInfo *index = ((GjJoinScan *) linitial(cand->scans))->index;

	Oid			type = cand->key.conversion == GJ_CONVERT_CODEC ? cand->key.value_type :
		index->opcintype[0];

	return list_make4_oid(index->opfamily[0], type, index->indexcollations[0],
						  GjIndexRestProc(index));
}

/*
 * Return the last items of the private data: the operators, collations and small columns of the
 * parts.  Of the joined row's columns, the first nbig are the big side's.
 */
static List *
plan_parts(const GjJoinCandidate *cand, int nbig, List *columns)
{
	List	   *operators = NIL;
	List	   *collations = NIL;
	List	   *numbers = NIL;
	ListCell   *lc;

	foreach(lc, cand->parts)
	{
		GjComparison part;
		int			number = nbig;

		if (!GjReadJoinPart(cand, lfirst_node(RestrictInfo, lc), &part))
			elog(ERROR, "a clause is not a part of a join's key");
		part.value = (Expr *) GjMatchColumns((Node *) part.value, columns);
		while (number < list_length(columns) && !equal(list_nth(columns, number), part.value))
			number++;
		if (number == list_length(columns))
			elog(ERROR, "a part of a join's key is not a column of the small side");
		operators = lappend_oid(operators, part.opno);
		collations = lappend_oid(collations, part.collation);
		numbers = lappend_int(numbers, number - nbig);
	}
	return list_make3(operators, collations, numbers);
}

/*
 * List the partitions that each table belongs to, if the join uses partitions; else return NIL
 */
static List *
partitions(PlannerInfo *root, const GjJoinCandidate *cand)
{
	List	   *result = NIL;
	ListCell   *lc;

	if (!cand->by_key)
		return NIL;
	foreach(lc, cand->tables)
		result = lappend(result, table_partitions(root, lfirst(lc), cand->big));
	return result;
}

/*
 * Separate the clauses that decide about matches from those that decide about result rows
 */
static void
split_join_clauses(PlannerInfo *root, const GjJoinCandidate *cand,
				   List **joinquals, List **otherquals)
{
	List	   *rinfos = list_difference_ptr(cand->restrictlist, GjJoinTested(cand));

	rinfos = order_clauses(root, rinfos);
	if (GjJoinKeepsUnmatched(cand->kind))
		extract_actual_join_clauses(rinfos, cand->joinrel->relids, joinquals, otherquals);
	else
	{
		*joinquals = extract_actual_clauses(rinfos, false);
		*otherquals = NIL;
	}
}

/*
 * List the needed Vars of the big side; there is at least one, in the clause that the indexes
 * answer
 *
 * The tables' filters are tested before the joined row is formed.
 */
static List *
big_columns(const GjJoinCandidate *cand, List *needed)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) needed, PULL_ALL_VARS))
	{
		Var		   *var = lfirst_node(Var, lc);

		if (var->varno == cand->big->relid && !has_column(columns, var))
			columns = lappend(columns, var);
	}
	Assert(columns != NIL);
	return columns;
}

static bool
has_column(List *columns, const Var *var)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		if (lfirst_node(Var, lc)->varattno == var->varattno)
			return true;
	}
	return false;
}

/*
 * Describe the joined row: the columns of the big side, then the small plan's output
 */
static List *
build_scan_tlist(List *columns, Plan *small_plan)
{
	List	   *tlist = NIL;
	ListCell   *lc;

	foreach(lc, columns)
		tlist = lappend(tlist, makeTargetEntry(copyObject(lfirst(lc)), list_length(tlist) + 1,
											   NULL, false));
	foreach(lc, small_plan->targetlist)
	{
		Expr	   *expr = copyObject(lfirst_node(TargetEntry, lc)->expr);

		tlist = lappend(tlist, makeTargetEntry(expr, list_length(tlist) + 1, NULL, false));
	}
	return tlist;
}

/*
 * Replace Vars by those of a row's columns, and expressions by columns that have their values
 *
 * Since PostgreSQL 16 a Var says which outer joins may have made it NULL.  In ON clauses it lacks
 * the mark of their own join, in the target it has it; a scan's expressions must match its
 * description exactly, which contains each column once.
 */
Node *
GjMatchColumns(Node *node, List *columns)
{
	ListCell   *lc;

	if (node == NULL)
		return NULL;
	foreach(lc, columns)
	{
		Node	   *column = lfirst(lc);

		if (IsA(node, Var) ? IsA(column, Var) && is_same_column((Var *) node, (Var *) column) :
			equal(node, column))
			return copyObject(column);
	}
	return expression_tree_mutator(node, GjMatchColumns, (void *) columns);
}

static bool
is_same_column(const Var *a, const Var *b)
{
	return a->varno == b->varno && a->varattno == b->varattno && a->varlevelsup == 0;
}

/*
 * Translate an expression over the big side for one of its tables, a level at a time
 */
static Node *
translate(PlannerInfo *root, Node *node, Index relid, RelOptInfo *big)
{
	AppendRelInfo *appinfo;

	if (relid == big->relid)
		return node;

	appinfo = root->append_rel_array[relid];
	return adjust_appendrel_attrs(root, translate(root, node, appinfo->parent_relid, big),
								  1, &appinfo);
}

/*
 * Translate a clause of the join for one of the big side's tables
 */
RestrictInfo *
GjJoinClauseOf(PlannerInfo *root, RestrictInfo *rinfo, RelOptInfo *table, RelOptInfo *big)
{
	return (RestrictInfo *) translate(root, (Node *) rinfo, table->relid, big);
}

/*
 * List the partitions from the big side down to a table, in the plan's format (node/scanplan.h);
 * the key determines the first level
 */
static List *
table_partitions(PlannerInfo *root, RelOptInfo *table, RelOptInfo *big)
{
	List	   *partitions = NIL;

	for (Index relid = table->relid; relid != big->relid;)
	{
		AppendRelInfo *appinfo = root->append_rel_array[relid];
		bool		first = appinfo->parent_relid == big->relid;

		partitions = lcons_oid(planner_rt_fetch(relid, root)->relid, partitions);
		partitions = lcons_oid(first ? appinfo->parent_reloid : InvalidOid, partitions);
		relid = appinfo->parent_relid;
	}
	return partitions;
}

/*
 * Make the plan of one scan; columns are the big side's Vars in the joined row
 *
 * All of the table's own clauses are tested, including those that a partial index's predicate
 * implies: see GjRefuseIndex().
 */
static Plan *
plan_join_scan(PlannerInfo *root, const GjJoinCandidate *cand, const GjJoinScan *scan,
			   List *columns)
{
	CustomScan *plan = makeNode(CustomScan);
	RelOptInfo *table = scan->table;
	List	   *filters = GjBareClauses(order_clauses(root, table->baserestrictinfo));
	List	   *tlist = NIL;
	List	   *attnos = NIL;
	List	   *parts;
	bool		index_only;
	ListCell   *lc;

	columns = copyObject(columns);
	foreach(lc, columns)
		GjVarAtScan(lfirst_node(Var, lc));
	foreach(lc, (List *) translate(root, (Node *) columns, table->relid, cand->big))
		tlist = lappend(tlist, makeTargetEntry(lfirst(lc), list_length(tlist) + 1,
											   NULL, false));

	parts = copyObject(scan->tuples->columns);
	foreach(lc, parts)
		GjVarAtScan(lfirst_node(Var, lc));
	index_only = scan->index_only &&
		GjIndexOnlyHas(scan->index, table->relid, list_make3(tlist, filters, parts), &attnos);

	plan->scan.plan.startup_cost = scan->startup;
	plan->scan.plan.total_cost = scan->startup + scan->run;
	plan->scan.plan.plan_rows = scan->rows;
	plan->scan.plan.plan_width = table->reltarget->width;
	plan->scan.plan.parallel_aware = cand->workers > 0;
	plan->scan.plan.parallel_safe = table->consider_parallel;
	plan->scan.plan.targetlist = tlist;
	plan->scan.scanrelid = table->relid;
	plan->custom_relids = bms_copy(table->relids);
	GjPlanTable(plan, scan->index, copyObject(filters), scan->entry_parts, index_only, attnos);
	plan->custom_exprs = lappend(plan->custom_exprs, parts);
	Assert(list_length(plan->custom_exprs) == GJ_JOIN_SCAN_EXPRS_COUNT);
	plan->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	plan->methods = GjNodeMethods(GJ_JOIN_SCAN_NAME);

	return &plan->scan.plan;
}

/*-------------------------------------------------------------------------
 * Clauses
 *
 * Determine the order in which the nodes of a GpuJoin test their clauses.
 *-------------------------------------------------------------------------
 */

/*
 * Sort clauses into the order in which they must be tested
 *
 * Security levels come first, then cost.  Core lets a leakproof clause pass a barrier; here it
 * keeps its place.  The sort is stable.
 */
static List *
order_clauses(PlannerInfo *root, List *rinfos)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, rinfos)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		int			pos = list_length(result);

		while (pos > 0 && goes_before(root, rinfo, list_nth(result, pos - 1)))
			pos--;
		result = list_insert_nth(result, pos, rinfo);
	}
	return result;
}

static bool
goes_before(PlannerInfo *root, RestrictInfo *a, RestrictInfo *b)
{
	QualCost	cost_a;
	QualCost	cost_b;

	if (a->security_level != b->security_level)
		return a->security_level < b->security_level;

	cost_qual_eval_node(&cost_a, (Node *) a, root);
	cost_qual_eval_node(&cost_b, (Node *) b, root);
	return cost_a.per_tuple < cost_b.per_tuple;
}

/*
 * List the clauses without their RestrictInfos, including pseudoconstant ones: no other node tests
 * them
 */
List *
GjBareClauses(List *rinfos)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, rinfos)
		result = lappend(result, lfirst_node(RestrictInfo, lc)->clause);
	return result;
}
