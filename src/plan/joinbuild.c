/*-------------------------------------------------------------------------
 *
 * joinbuild.c
 *	  Build the plan of a GpuJoin path (join.c).
 *
 * A join has no scan relation, so all expressions of the node are over a joined row
 * that custom_scan_tlist describes; setrefs.c turns their Vars into columns of it.
 * Expressions stand in custom_exprs and the plan's qual only, since what stands in
 * custom_private is adjusted by nobody.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"

#include "base/compat.h"
#include "base/nodes.h"
#include "joinpath.h"
#include "choice.h"

#define PULL_ALL_VARS \
	(PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS | PVC_RECURSE_PLACEHOLDERS)

static Plan *plan_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
					   List *clauses, List *custom_plans);
static Expr *key_qual(const GjJoinCandidate *cand);
static List *partitions(PlannerInfo *root, const GjJoinCandidate *cand);
static void split_join_clauses(PlannerInfo *root, const GjJoinCandidate *cand,
							   List **joinquals, List **otherquals);
static List *big_columns(const GjJoinCandidate *cand, List *needed);
static List *build_scan_tlist(List *columns, Plan *small_plan);
static bool has_column(List *columns, const Var *var);
static Node *match_scan_tlist(Node *node, List *scan_tlist);

const CustomPathMethods GjJoinPathMethods = {
	.CustomName = GJ_JOIN_NAME,
	.PlanCustomPath = plan_join,
};

/*
 * PlanCustomPath: make the plan.  The target list may be empty, then core puts its own there
 * later.  In either case it can use no more than the path's target.
 */
static Plan *
plan_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
		  List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	GjJoinCandidate *cand = list_nth(path->custom_private, GJ_JOIN_PATH_CANDIDATE);
	List	   *columns;
	List	   *exprs;
	List	   *joinquals;
	List	   *otherquals;
	ListCell   *lc;

	GjChoiceTaken(path);
	split_join_clauses(root, cand, &joinquals, &otherquals);
	exprs = list_make4(list_make1(key_qual(cand)), cand->key.value, joinquals,
					   otherquals);
	Assert(list_length(exprs) == GJ_JOIN_EXPRS_COUNT);

	/* The target comes first: its Vars are those that the nodes above know */
	columns = big_columns(cand, list_make3(path->path.pathtarget->exprs, tlist, exprs));
	scan->custom_scan_tlist = build_scan_tlist(columns, linitial(custom_plans));
	foreach(lc, cand->scans)
		custom_plans = lappend(custom_plans, GjPlanJoinScan(root, cand, lfirst(lc), columns));

	scan->scan.plan.targetlist = tlist;
	scan->custom_exprs = (List *) match_scan_tlist((Node *) exprs, scan->custom_scan_tlist);
	scan->custom_plans = custom_plans;
	scan->custom_private = list_make4(makeInteger(cand->kind),
									  makeInteger(list_length(columns)),
									  list_make1_oid(cand->key.key_proc),
									  partitions(root, cand));
	Assert(list_length(scan->custom_private) == GJ_JOIN_PRIVATE_COUNT);
	scan->flags = path->flags;
	scan->methods = GjNodeMethods(GJ_JOIN_NAME);

	return &scan->scan.plan;
}

/*
 * Write the clause that the indexes answer, for EXPLAIN: over the big side, with the key on
 * the left, however the query or the planner wrote it
 */
static Expr *
key_qual(const GjJoinCandidate *cand)
{
	OpExpr	   *written = castNode(OpExpr, cand->rinfo->clause);

	return make_opclause(cand->key.opno, BOOLOID, false, GjJoinKeyExpr(cand),
						 cand->key.value, written->opcollid, written->inputcollid);
}

/*
 * List the partitions that each table belongs to, if the join goes by partitions; else NIL
 */
static List *
partitions(PlannerInfo *root, const GjJoinCandidate *cand)
{
	List	   *result = NIL;
	ListCell   *lc;

	if (!cand->by_key)
		return NIL;
	foreach(lc, cand->tables)
		result = lappend(result, GjJoinPartitions(root, lfirst(lc), cand->big));
	return result;
}

/*
 * Separate the clauses that decide on a match from those that decide on a result row
 */
static void
split_join_clauses(PlannerInfo *root, const GjJoinCandidate *cand,
				   List **joinquals, List **otherquals)
{
	List	   *rinfos = list_difference_ptr(cand->restrictlist, list_make1(cand->rinfo));

	rinfos = GjOrderClauses(root, rinfos);
	if (GjJoinKeepsUnmatched(cand->kind))
		extract_actual_join_clauses(rinfos, cand->joinrel->relids, joinquals, otherquals);
	else
	{
		*joinquals = extract_actual_clauses(rinfos, false);
		*otherquals = NIL;
	}
}

/*
 * List the Vars of the big side that anything needs; there is one at least, in the
 * clause that the indexes answer.  The tables' filters are tested before the joined row
 * is made.
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
 * Describe the joined row: the columns of the big side, then the small plan's
 * output as it is
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
 * Write Vars as the joined row's description has them
 *
 * Since PostgreSQL 16 a Var says which outer joins may have made it NULL.  ON
 * clauses have it without the mark of their own join, the target with it; a scan's
 * expressions must match its description exactly, in which a column stands once.
 */
static Node *
match_scan_tlist(Node *node, List *scan_tlist)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		Var		   *var = (Var *) node;
		ListCell   *lc;

		foreach(lc, scan_tlist)
		{
			Var		   *other = (Var *) lfirst_node(TargetEntry, lc)->expr;

			if (IsA(other, Var) && other->varno == var->varno &&
				other->varattno == var->varattno && var->varlevelsup == 0)
				return copyObject((Node *) other);
		}
	}
	return expression_tree_mutator(node, match_scan_tlist, (void *) scan_tlist);
}
