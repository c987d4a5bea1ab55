/*-------------------------------------------------------------------------
 *
 * planscan.c
 *	  GpuScan paths and plans: restriction clauses on one table that say which
 *	  keys are wanted.
 *
 * All clauses that one index answers are used together: the sets are intersected
 * when the scan starts.  The other clauses filter, in the order that security
 * levels ask for.  The plan has no parameters from a join (a nested loop that
 * searched the whole index for each outer row would be no gain; GpuJoin is what
 * joins are for), so nothing has to be rewritten for a partition either.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/value.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"

#include "plan.h"

static List *find_key_clauses(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index);
static bool is_key_clause(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
						  RestrictInfo *rinfo, GjClause *clause);
static void add_scan_path(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
						  List *key_rinfos);
static void drop_bitmap_path(RelOptInfo *rel, IndexOptInfo *index);
static void cost_scan(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
					  List *key_rinfos, Cost *startup, Cost *run);
static Plan *plan_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
					   List *tlist, List *clauses, List *custom_plans);
static void set_key_clauses(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
							List *key_rinfos, CustomScan *scan);

const CustomPathMethods GjScanPathMethods = {
	.CustomName = "GpuScan",
	.PlanCustomPath = plan_scan,
};

/*
 * Offer a scan through each index of ours that some restriction of the table names
 */
void
GjAddScanPaths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	ListCell   *lc;

	if (rel->baserestrictinfo == NIL || !bms_is_empty(rel->lateral_relids) ||
		!GjRelationEligible(root, rel, rte))
		return;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		List	   *key_rinfos;

		if (!GjIndexEligible(index))
			continue;
		key_rinfos = find_key_clauses(root, rel, index);
		if (key_rinfos != NIL)
			add_scan_path(root, rel, index, key_rinfos);
	}
}

static List *
find_key_clauses(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		GjClause	clause;

		if (is_key_clause(root, rel, index, rinfo, &clause))
			result = lappend(result, rinfo);
	}
	return result;
}

/*
 * Does the index answer this restriction, with a value that needs no other table?
 */
static bool
is_key_clause(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
			  RestrictInfo *rinfo, GjClause *clause)
{
	return GjClauseMatches(root, rel, index, rinfo, clause) &&
		bms_is_empty(pull_varnos(root, (Node *) clause->value_expr));
}

static void
add_scan_path(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, List *key_rinfos)
{
	CustomPath *path = makeNode(CustomPath);
	Cost		startup;
	Cost		run;

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.parallel_safe = rel->consider_parallel;
	path->path.rows = rel->rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &GjScanPathMethods;
	path->custom_private = list_make2(index, key_rinfos);
	Assert(list_length(path->custom_private) == GJ_SCAN_PATH_COUNT);

	cost_scan(root, rel, index, key_rinfos, &startup, &run);
	startup += rel->reltarget->cost.startup;
	run += rel->reltarget->cost.per_tuple * rel->rows;

	drop_bitmap_path(rel, index);
	GjAddPath(rel, path, startup, run);
}

/*
 * Drop the bitmap heap scan that has this index alone as its source, if it is not
 * parallel: it does the same search and fetch, but takes the TIDs through a hash
 * table and rechecks by the array clause.  As the same blocks are read, the costs
 * differ by less than what makes add_path() see a difference.
 */
static void
drop_bitmap_path(RelOptInfo *rel, IndexOptInfo *index)
{
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		BitmapHeapPath *path = lfirst(lc);

		if (IsA(path, BitmapHeapPath) && path->path.param_info == NULL &&
			path->path.parallel_workers == 0 && IsA(path->bitmapqual, IndexPath) &&
			((IndexPath *) path->bitmapqual)->indexinfo == index)
			rel->pathlist = foreach_delete_current(rel->pathlist, lc);
	}
}

/*
 * A partial index holds fewer rows than its table: no more TIDs than entries
 */
static void
cost_scan(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, List *key_rinfos,
		  Cost *startup, Cost *run)
{
	GjCostInput input = {.rel = rel,.index = index};
	Selectivity selectivity;
	ListCell   *lc;

	foreach(lc, key_rinfos)
	{
		GjClause	clause;

		is_key_clause(root, rel, index, lfirst(lc), &clause);
		input.nkeys += GjClauseKeys(root, &clause);
	}
	selectivity = clauselist_selectivity(root, key_rinfos, 0, JOIN_INNER, NULL);
	input.nmatches = Min(selectivity * rel->tuples, index->tuples);
	cost_qual_eval(&input.quals, list_difference_ptr(rel->baserestrictinfo, key_rinfos), root);

	GjCostSearch(root, &input, startup, run);
}

/*
 * PlanCustomPath: clauses come in the order in which they have to be tested
 */
static Plan *
plan_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
		  List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	IndexOptInfo *index = list_nth(path->custom_private, GJ_SCAN_PATH_INDEX);
	List	   *key_rinfos = list_nth(path->custom_private, GJ_SCAN_PATH_CLAUSES);

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = extract_actual_clauses(list_difference_ptr(clauses, key_rinfos),
												  false);
	scan->scan.scanrelid = rel->relid;
	scan->flags = path->flags;
	scan->methods = &GjScanPlanMethods;
	set_key_clauses(root, rel, index, key_rinfos, scan);

	return &scan->scan.plan;
}

/*
 * Put the key clauses into the plan, taken apart: the values are evaluated once a
 * scan, and a long constant array is kept only once.
 */
static void
set_key_clauses(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
				List *key_rinfos, CustomScan *scan)
{
	List	   *kinds = NIL;
	List	   *procs = NIL;
	List	   *operators = NIL;
	GjClause	clause = {0};
	ListCell   *lc;

	foreach(lc, key_rinfos)
	{
		if (!is_key_clause(root, rel, index, lfirst(lc), &clause))
			elog(ERROR, "clause of a GpuScan path does not match its index any more");

		kinds = lappend_int(kinds, clause.is_array);
		procs = lappend_oid(procs, clause.key_proc);
		operators = lappend_oid(operators, clause.opno);
		scan->custom_exprs = lappend(scan->custom_exprs, clause.value_expr);
	}
	scan->custom_exprs = lappend(scan->custom_exprs, clause.key_expr);
	scan->custom_private = list_make5(list_make1_oid(index->indexoid), kinds, procs, operators,
									  makeInteger(index->indexkeys[0]));
	Assert(list_length(scan->custom_private) == GJ_SCAN_PRIVATE_COUNT);
}
