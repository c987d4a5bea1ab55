/*-------------------------------------------------------------------------
 *
 * planjoinbuild.c
 *	  Build the plan of a GpuJoin path (planjoin.c).
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

#include "compat.h"
#include "joinplan.h"

#define PULL_ALL_VARS \
	(PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS | PVC_RECURSE_PLACEHOLDERS)

static Plan *plan_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
					   List *clauses, List *custom_plans);
static void recover_candidate(PlannerInfo *root, CustomPath *path, GjJoinCandidate *cand);
static Expr *key_qual(const GjClause *key);
static List *order_clauses(PlannerInfo *root, List *rinfos);
static bool goes_before(PlannerInfo *root, RestrictInfo *a, RestrictInfo *b);
static List *bare_clauses(List *rinfos);
static void split_join_clauses(PlannerInfo *root, const GjJoinCandidate *cand,
							   List **joinquals, List **otherquals);
static List *build_scan_tlist(Index big_rti, List *needed, Plan *small_plan, int *nbig);
static bool tlist_has_var(List *tlist, const Var *var);
static Node *match_scan_tlist(Node *node, List *scan_tlist);

const CustomPathMethods GjJoinPathMethods = {
	.CustomName = "GpuJoin",
	.PlanCustomPath = plan_join,
};

/*
 * PlanCustomPath: the target list may be empty, then core puts its own there later.
 * In either case it can use no more than the path's target.
 */
static Plan *
plan_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
		  List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	GjJoinCandidate cand = {0};
	List	   *filters;
	List	   *exprs;
	List	   *joinquals;
	List	   *otherquals;
	List	   *needed;
	int			nbig;

	recover_candidate(root, path, &cand);
	split_join_clauses(root, &cand, &joinquals, &otherquals);
	exprs = list_make5(list_make1(key_qual(&cand.key)), cand.key.key_expr, cand.key.value_expr,
					   joinquals, otherquals);
	Assert(list_length(exprs) == GJ_JOIN_EXPRS_COUNT);
	filters = bare_clauses(order_clauses(root, cand.big->baserestrictinfo));

	/* The target comes first: its Vars are those that the nodes above know */
	needed = list_make4(path->path.pathtarget->exprs, tlist, exprs, filters);
	scan->custom_scan_tlist = build_scan_tlist(cand.big->relid, needed,
											   linitial(custom_plans), &nbig);

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = (List *) match_scan_tlist((Node *) filters, scan->custom_scan_tlist);
	scan->custom_exprs = (List *) match_scan_tlist((Node *) exprs, scan->custom_scan_tlist);
	scan->custom_plans = custom_plans;
	scan->custom_private = list_make5(list_make1_oid(cand.index->indexoid),
									  makeInteger(cand.kind), makeInteger(nbig),
									  makeInteger(cand.index->indexkeys[0]),
									  list_make1_oid(cand.key.key_proc));
	Assert(list_length(scan->custom_private) == GJ_JOIN_PRIVATE_COUNT);
	scan->flags = path->flags;
	scan->methods = &GjJoinPlanMethods;

	return &scan->scan.plan;
}

static void
recover_candidate(PlannerInfo *root, CustomPath *path, GjJoinCandidate *cand)
{
	List	   *private = path->custom_private;

	cand->joinrel = path->path.parent;
	cand->big = list_nth(private, GJ_JOIN_PATH_BIG);
	cand->small = ((Path *) linitial(path->custom_paths))->parent;
	cand->index = list_nth(private, GJ_JOIN_PATH_INDEX);
	cand->restrictlist = list_nth(private, GJ_JOIN_PATH_RESTRICTLIST);
	cand->kind = intVal(list_nth(private, GJ_JOIN_PATH_KIND));

	if (!GjJoinClauseMatches(root, cand, list_nth(private, GJ_JOIN_PATH_KEY)))
		elog(ERROR, "key clause of a GpuJoin path does not match its index any more");
}

/*
 * The clause that the index answers, for EXPLAIN: with the key on the left, however
 * the query or the planner wrote it
 */
static Expr *
key_qual(const GjClause *key)
{
	OpExpr	   *written = castNode(OpExpr, key->rinfo->clause);

	return make_opclause(key->opno, BOOLOID, false, key->key_expr, key->value_expr,
						 written->opcollid, written->inputcollid);
}

/*
 * Sort clauses into the order in which they have to be tested
 *
 * Security barriers go first of all, then what is cheap.  Core lets a leakproof
 * clause pass a barrier; here it keeps its place.  Insertion keeps the order of
 * equals.
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
 * Pseudoconstant clauses are kept: nobody else tests them
 */
static List *
bare_clauses(List *rinfos)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, rinfos)
		result = lappend(result, lfirst_node(RestrictInfo, lc)->clause);
	return result;
}

/*
 * Tell the clauses that decide on a match from those that decide on a result row
 */
static void
split_join_clauses(PlannerInfo *root, const GjJoinCandidate *cand,
				   List **joinquals, List **otherquals)
{
	List	   *rinfos = list_difference_ptr(cand->restrictlist, list_make1(cand->key.rinfo));

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
 * Describe the joined row: the columns of the big table that anything needs, then
 * the small plan's output as it is.
 *
 * The first column is of the big table in any case (the key's side of its clause
 * has one), which is how the executor learns the table's range table index: only
 * expressions are adjusted when range tables are merged.
 */
static List *
build_scan_tlist(Index big_rti, List *needed, Plan *small_plan, int *nbig)
{
	List	   *tlist = NIL;
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) needed, PULL_ALL_VARS))
	{
		Var		   *var = lfirst_node(Var, lc);

		if (var->varno == big_rti && !tlist_has_var(tlist, var))
			tlist = lappend(tlist, makeTargetEntry((Expr *) copyObject(var),
												   list_length(tlist) + 1, NULL, false));
	}
	*nbig = list_length(tlist);
	Assert(*nbig > 0);

	foreach(lc, small_plan->targetlist)
	{
		Expr	   *expr = copyObject(lfirst_node(TargetEntry, lc)->expr);

		tlist = lappend(tlist, makeTargetEntry(expr, list_length(tlist) + 1, NULL, false));
	}
	return tlist;
}

static bool
tlist_has_var(List *tlist, const Var *var)
{
	ListCell   *lc;

	foreach(lc, tlist)
	{
		Var		   *other = (Var *) lfirst_node(TargetEntry, lc)->expr;

		if (IsA(other, Var) && other->varno == var->varno && other->varattno == var->varattno)
			return true;
	}
	return false;
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
