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

static List *fold_clauses(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
						  List *rinfos);
static List *get_rinfos(List *conditions, bool exact_only);
static void add_scan_path(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
						  List *conditions);
static void drop_bitmap_path(RelOptInfo *rel, IndexOptInfo *index);
static void cost_scan(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
					  List *conditions, List *filters, bool index_only, Cost *startup,
					  Cost *run);
static Plan *plan_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
					   List *tlist, List *clauses, List *custom_plans);
static Expr *index_key(IndexOptInfo *index);

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
		List	   *conditions;

		if (!GjIndexEligible(index))
			continue;
		conditions = fold_clauses(root, rel, index, rel->baserestrictinfo);
		if (conditions != NIL)
			add_scan_path(root, rel, index, conditions);
	}
}

/*
 * Those of the clauses that say something about the index's key, as conditions on it
 */
static List *
fold_clauses(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, List *rinfos)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, rinfos)
	{
		GjKeyCondition *condition = GjFoldClause(root, rel, index, lfirst_node(RestrictInfo, lc));

		if (condition != NULL)
			result = lappend(result, condition);
	}
	return result;
}

/*
 * The clauses that conditions were made of; on demand, only those of which nothing is
 * left to be tested
 */
static List *
get_rinfos(List *conditions, bool exact_only)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, conditions)
	{
		GjKeyCondition *condition = lfirst(lc);

		if (condition->exact || !exact_only)
			result = lappend(result, condition->rinfo);
	}
	return result;
}

static void
add_scan_path(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, List *conditions)
{
	CustomPath *path = makeNode(CustomPath);
	List	   *filters = list_difference_ptr(rel->baserestrictinfo,
											  get_rinfos(conditions, true));
	List	   *attnos;
	bool		index_only = GjIndexOnlyCovers(rel, index, filters, &attnos);
	Cost		startup;
	Cost		run;

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.parallel_safe = rel->consider_parallel;
	path->path.rows = rel->rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &GjScanPathMethods;
	path->custom_private = list_make4(index, get_rinfos(conditions, false),
									  makeBoolean(index_only), attnos);
	Assert(list_length(path->custom_private) == GJ_SCAN_PATH_COUNT);

	cost_scan(root, rel, index, conditions, filters, index_only, &startup, &run);
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
cost_scan(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, List *conditions,
		  List *filters, bool index_only, Cost *startup, Cost *run)
{
	GjCostInput input = {.rel = rel,.index = index,.index_only = index_only};
	Selectivity selectivity = GjEstimateConditions(root, rel, index, conditions, &input.nkeys);
	ListCell   *lc;

	input.nmatches = Min(selectivity * rel->tuples, index->tuples);
	input.complement = true;
	foreach(lc, conditions)
		input.complement &= GjNodeIsComplement(((GjKeyCondition *) lfirst(lc))->node);
	cost_qual_eval(&input.quals, filters, root);

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
	List	   *conditions = fold_clauses(root, rel, index,
										  list_nth(path->custom_private, GJ_SCAN_PATH_CLAUSES));
	List	   *filters = list_difference_ptr(clauses, get_rinfos(conditions, true));
	List	   *key_plan;
	List	   *values;

	key_plan = GjMakeKeyPlan(conditions, &values);

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = extract_actual_clauses(filters, false);
	scan->scan.scanrelid = rel->relid;
	scan->flags = path->flags;
	scan->methods = &GjScanPlanMethods;
	scan->custom_exprs = list_make2(values, index_key(index));
	Assert(list_length(scan->custom_exprs) == GJ_SCAN_EXPRS_COUNT);
	scan->custom_private = list_make5(list_make1_oid(index->indexoid), key_plan,
									  makeInteger(index->indexkeys[0]),
									  list_nth(path->custom_private, GJ_SCAN_PATH_INDEX_ONLY),
									  list_nth(path->custom_private, GJ_SCAN_PATH_ATTNOS));
	Assert(list_length(scan->custom_private) == GJ_SCAN_PRIVATE_COUNT);

	return &scan->scan.plan;
}

/*
 * The indexed column or expression
 */
static Expr *
index_key(IndexOptInfo *index)
{
	return copyObject(linitial_node(TargetEntry, index->indextlist)->expr);
}
