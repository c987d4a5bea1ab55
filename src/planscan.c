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
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"

#include "alternative.h"
#include "compat.h"
#include "gpujoin.h"
#include "plan.h"
#include "planchoice.h"

static bool is_hopeless(RelOptInfo *rel, IndexOptInfo *index);
static bool has_array_to_count(List *rinfos);
static List *fold_clauses(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
						  List *rinfos);
static List *get_rinfos(List *conditions, bool exact_only);
static void add_scan_path(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
						  List *conditions);
static void add_path_with_workers(PlannerInfo *root, GjCostInput *input, List *conditions,
								  List *attnos, int workers);
static CustomPath *make_path(const GjCostInput *input, List *conditions, List *attnos,
							 int workers);
static List *drop_bitmap_paths(List *paths, IndexOptInfo *index);
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

	GjChoiceExamine(root, rel, rte);
	if (rel->baserestrictinfo == NIL || !bms_is_empty(rel->lateral_relids) ||
		!GjRelationEligible(root, rel, rte))
		return;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		List	   *conditions;

		if (!GjIndexEligible(index) || is_hopeless(rel, index))
			continue;
		conditions = fold_clauses(root, rel, index, rel->baserestrictinfo);
		if (conditions != NIL)
			add_scan_path(root, rel, index, conditions);
	}
}

/*
 * Does a search for one key cost more than some path that is there already?  So it is where
 * a btree has the row that is asked for, and such queries are planned more often than
 * any others.  Not where a path that costs more may be an alternative for the execution.
 */
static bool
is_hopeless(RelOptInfo *rel, IndexOptInfo *index)
{
	Cost		least;
	ListCell   *lc;

	if (gj_force || GjChoiceIsNoted() || has_array_to_count(rel->baserestrictinfo))
		return false;

	least = GjCostMatch(index, 1.0, 0.0);
	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info == NULL && path->total_cost < least && !GjPathIsDisabled(path))
			return true;
	}
	return false;
}

static bool
has_array_to_count(List *rinfos)
{
	ListCell   *lc;

	foreach(lc, rinfos)
	{
		ScalarArrayOpExpr *clause = (ScalarArrayOpExpr *) lfirst_node(RestrictInfo, lc)->clause;

		if (IsA(clause, ScalarArrayOpExpr) && !IsA(lsecond(clause->args), Const))
			return true;
	}
	return false;
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
	GjCostInput input = {.rel = rel,.index = index};
	List	   *filters = list_difference_ptr(rel->baserestrictinfo,
											  get_rinfos(conditions, true));
	Selectivity selectivity = GjEstimateConditions(root, rel, index, conditions, &input.nkeys);
	List	   *attnos;
	ListCell   *lc;
	int			workers = 0;

	GjFindPartitions(root, rel, index, &input.key_share);

	/* A partial index holds fewer rows than its table: no more TIDs than entries */
	input.nmatches = Min(selectivity * rel->tuples, index->tuples);
	input.complement = true;
	foreach(lc, conditions)
		input.complement &= GjNodeIsComplement(((GjKeyCondition *) lfirst(lc))->node);
	cost_qual_eval(&input.quals, filters, root);
	input.index_only = GjIndexOnlyCovers(rel, index, filters, &attnos);
	input.filtered = GjFilterShare(root, rel, index, filters);
	if (rel->consider_parallel)
		workers = GjCountWorkers(&input);

	rel->pathlist = drop_bitmap_paths(rel->pathlist, index);
	GjAddAlternativePath(root, &input, conditions, make_path(&input, conditions, attnos, 0));
	add_path_with_workers(root, &input, conditions, attnos, 0);
	if (workers > 0)
	{
		rel->partial_pathlist = drop_bitmap_paths(rel->partial_pathlist, index);
		add_path_with_workers(root, &input, conditions, attnos, workers);
	}
}

/*
 * Add a path for one process, or one that is shared with so many workers
 */
static void
add_path_with_workers(PlannerInfo *root, GjCostInput *input, List *conditions, List *attnos,
					  int workers)
{
	CustomPath *path = make_path(input, conditions, attnos, workers);
	RelOptInfo *rel = input->rel;
	Cost		startup;
	Cost		run;

	input->workers = workers;
	GjCostSearch(root, input, &startup, &run);
	startup += rel->reltarget->cost.startup;
	run += rel->reltarget->cost.per_tuple * path->path.rows;

	if (workers > 0)
		GjAddPartialPath(rel, path, startup, run);
	else
		GjAddPath(root, rel, path, startup, run);
}

static CustomPath *
make_path(const GjCostInput *input, List *conditions, List *attnos, int workers)
{
	CustomPath *path = makeNode(CustomPath);
	RelOptInfo *rel = input->rel;

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.parallel_aware = workers > 0;
	path->path.parallel_safe = rel->consider_parallel;
	path->path.parallel_workers = workers;
	path->path.rows = clamp_row_est(rel->rows / GjParallelDivisor(workers));
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &GjScanPathMethods;
	path->custom_private = list_make5(input->index, get_rinfos(conditions, false), conditions,
									  makeBoolean(input->index_only), attnos);
	Assert(list_length(path->custom_private) == GJ_SCAN_PATH_COUNT);
	return path;
}

/*
 * Drop the bitmap heap scans that have this index alone as their source: they do the
 * same search and fetch, but take the TIDs through a hash table and recheck by the
 * array clause.  As the same blocks are read, the costs differ by less than what makes
 * add_path() see a difference.
 */
static List *
drop_bitmap_paths(List *paths, IndexOptInfo *index)
{
	ListCell   *lc;

	foreach(lc, paths)
	{
		BitmapHeapPath *path = lfirst(lc);

		if (IsA(path, BitmapHeapPath) && path->path.param_info == NULL &&
			IsA(path->bitmapqual, IndexPath) &&
			((IndexPath *) path->bitmapqual)->indexinfo == index)
			paths = foreach_delete_current(paths, lc);
	}
	return paths;
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
	List	   *conditions = list_nth(path->custom_private, GJ_SCAN_PATH_CONDITIONS);
	List	   *filters = list_difference_ptr(clauses, get_rinfos(conditions, true));
	List	   *key_plan;
	List	   *values;
	List	   *filter_values;
	double		share;

	GjChoiceTaken(path);
	key_plan = GjMakeKeyPlan(conditions, &values);

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = extract_actual_clauses(filters, false);
	scan->scan.scanrelid = rel->relid;
	scan->flags = path->flags;
	scan->methods = &GjScanPlanMethods;
	scan->custom_private = list_make5(list_make1_oid(index->indexoid), key_plan,
									  makeInteger(index->indexkeys[0]),
									  list_nth(path->custom_private, GJ_SCAN_PATH_INDEX_ONLY),
									  list_nth(path->custom_private, GJ_SCAN_PATH_ATTNOS));
	scan->custom_private = lappend(scan->custom_private,
								   GjFindPartitions(root, rel, index, &share));
	scan->custom_private = lappend(scan->custom_private,
								   GjMakeFilterPlan(index, rel->relid, scan->scan.plan.qual,
													&filter_values));
	Assert(list_length(scan->custom_private) == GJ_SCAN_PRIVATE_COUNT);
	scan->custom_exprs = list_make3(values, index_key(index), filter_values);
	Assert(list_length(scan->custom_exprs) == GJ_SCAN_EXPRS_COUNT);

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
