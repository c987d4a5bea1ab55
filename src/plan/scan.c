/*-------------------------------------------------------------------------
 *
 * scan.c
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

#include "base/compat.h"
#include "base/gpujoin.h"
#include "base/nodes.h"
#include "node/scanplan.h"
#include "alternative.h"
#include "choice.h"
#include "planner.h"

static const char *consider_index(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index);
static bool is_hopeless(RelOptInfo *rel, IndexOptInfo *index);
static bool has_array_to_count(List *rinfos);
static List *fold_clauses(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
						  const char **refused);
static List *get_rinfos(List *conditions, bool exact_only);
static void add_scan_path(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
						  List *conditions);
static double count_per_row(PlannerInfo *root, const GjCostInput *input, List *clauses);
static Cost add_path_with_workers(PlannerInfo *root, GjCostInput *input, List *conditions,
								  List *attnos, int workers, Cost alone);
static CustomPath *make_path(const GjCostInput *input, List *conditions, List *attnos,
							 int workers);
static void add_ordered_path(PlannerInfo *root, GjCostInput *input, List *conditions,
							 List *attnos);
static List *drop_bitmap_paths(List *paths, IndexOptInfo *index);
static Plan *plan_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
					   List *tlist, List *clauses, List *custom_plans);

const CustomPathMethods GjScanPathMethods = {
	.CustomName = GJ_SCAN_NAME,
	.PlanCustomPath = plan_scan,
};

/*
 * Offer a scan through each index of ours that some restriction of the table names
 */
void
GjAddScanPaths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	const char *table_refused = NULL;
	bool		has_index = false;
	ListCell   *lc;

	if (!GjIsUserTable(rte) || (rel->baserestrictinfo == NIL && !GjChoiceIsNoted()))
		return;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		const char *refused;

		if (!GjIndexIsOurs(index))
			continue;
		if (!has_index)
			table_refused = GjRefuseTable(rel, rte, gj_force ? 0 : gj_min_rows);
		has_index = true;
		refused = table_refused ? table_refused : consider_index(root, rel, index);
		if (refused != NULL)
			GjChoiceRefused(rte->relid, index->indexoid, refused);
	}
	if (!has_index)
		GjChoiceRefused(rte->relid, InvalidOid, "the table has no gpujoin index");
}

/*
 * Offer a scan through an index, or say why not
 */
static const char *
consider_index(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index)
{
	const char *refused = GjRefuseIndex(index);
	List	   *conditions;

	if (refused != NULL || is_hopeless(rel, index))
		return refused;

	refused = GjChoiceNoCondition(root, index);
	conditions = fold_clauses(root, rel, index, &refused);
	if (conditions == NIL)
		return refused;
	add_scan_path(root, rel, index, conditions);
	return NULL;
}

/*
 * Does a search for one key cost more than some path that is there already?
 *
 * That is so where a btree has the row that is asked for, and such queries are planned more
 * often than any others.  False where both paths may go into a GpuAlternative.
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
 * Fold those of the table's clauses that say something about the index's key
 */
static List *
fold_clauses(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, const char **refused)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		GjKeyCondition *condition = GjFoldClause(root, rel, index,
												 lfirst_node(RestrictInfo, lc), refused);

		if (condition != NULL)
			result = lappend(result, condition);
	}
	return result;
}

/*
 * List the clauses that conditions were made of; with exact_only, those of which nothing is
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
	/* of baserestrictinfo, a partial index's predicate or not: GjRefuseIndex() says why */
	List	   *filters = list_difference_ptr(rel->baserestrictinfo,
											  get_rinfos(conditions, true));
	Selectivity selectivity = GjEstimateConditions(root, rel, index, conditions, &input.nkeys);
	List	   *attnos;
	ListCell   *lc;
	int			workers = 0;
	Cost		alone;

	GjFindPartitions(root, rel, index, &input.key_share);

	/* A partial index holds fewer rows than its table: no more TIDs than entries */
	input.nmatches = Min(selectivity * rel->tuples, index->tuples);
	input.complement = true;
	foreach(lc, conditions)
		input.complement &= GjNodeIsComplement(((GjKeyCondition *) lfirst(lc))->node);
	cost_qual_eval(&input.quals, filters, root);
	input.index_only = GjIndexOnlyCovers(rel, index, filters, &attnos);
	input.filtered = GjFilterShare(root, rel, index, filters, &input.filter_cost);
	input.per_row = count_per_row(root, &input, list_difference_ptr(filters,
																	get_rinfos(conditions, false)));
	if (rel->consider_parallel &&
		GjValuesAreSameEverywhere(root, get_rinfos(conditions, false)) &&
		GjValuesAreSameEverywhere(root, GjFilterClauses(rel, index, filters)))
		workers = GjCountWorkers(&input);

	rel->pathlist = drop_bitmap_paths(rel->pathlist, index);
	GjAddAlternativePath(root, &input, conditions, make_path(&input, conditions, attnos, 0));
	alone = add_path_with_workers(root, &input, conditions, attnos, 0, 0.0);
	add_ordered_path(root, &input, conditions, attnos);
	if (workers > 0)
	{
		rel->partial_pathlist = drop_bitmap_paths(rel->partial_pathlist, index);
		(void) add_path_with_workers(root, &input, conditions, attnos, workers, alone);
	}
}

/*
 * How many entries that pass filters of entries lead to one row, if that has to pass all of these
 * clauses?  By their selectivity alone: PostgreSQL may take other numbers of keys for granted than
 * we do, so its number of rows says nothing of that.
 */
static double
count_per_row(PlannerInfo *root, const GjCostInput *input, List *clauses)
{
	double		rows = clauselist_selectivity(root, clauses, 0, JOIN_INNER, NULL);
	double		entries = 1.0 - input->filtered;

	return Max(entries / Max(rows, 1.0 / Max(input->rel->tuples, 1.0)), 1.0);
}

/*
 * Add a path for one process, or for one with workers, given the cost of the former; return its
 * cost without the charge for workers
 */
static Cost
add_path_with_workers(PlannerInfo *root, GjCostInput *input, List *conditions, List *attnos,
					  int workers, Cost alone)
{
	CustomPath *path = make_path(input, conditions, attnos, workers);
	RelOptInfo *rel = input->rel;
	Cost		startup;
	Cost		run;

	input->workers = workers;
	GjCostSearch(root, input, &startup, &run);
	intVal(list_nth(path->custom_private, GJ_SCAN_PATH_CHARGED)) =
		(int) Min(GjCostReturned(input), INT_MAX);
	startup += rel->reltarget->cost.startup;
	run += rel->reltarget->cost.per_tuple * path->path.rows;

	if (workers > 0)
		GjAddPartialPath(root, rel, path, startup, run, alone,
						 GjCostUnit(rel, input->index_only));
	else
		GjAddPath(root, rel, path, startup, run);
	return startup + run;
}

/*
 * Add a path that gives rows in the order that the query wants, if it wants few
 */
static void
add_ordered_path(PlannerInfo *root, GjCostInput *input, List *conditions, List *attnos)
{
	List	   *order;
	List	   *pathkeys = GjOrderPathkeys(root, input->index, &order);
	RelOptInfo *rel = input->rel;
	double		bound;
	CustomPath *path;
	Cost		startup;
	Cost		run;

	if (pathkeys == NIL)
		return;

	bound = GjOrderBound(root, input->per_row);
	path = make_path(input, conditions, attnos, 0);
	path->path.pathkeys = pathkeys;
	lfirst(list_nth_cell(path->custom_private, GJ_SCAN_PATH_ORDER)) = order;
	lfirst(list_nth_cell(path->custom_private, GJ_SCAN_PATH_BOUND)) = makeInteger((int) bound);

	GjCostOrdered(root, input, bound,
				  GjOrderEntryBytes(rel, order, input->index_only ? attnos : NIL), &startup, &run);
	startup += rel->reltarget->cost.startup;
	run += rel->reltarget->cost.per_tuple * path->path.rows;
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
	path->custom_private = lappend(lappend(path->custom_private, NIL), makeInteger(0));
	path->custom_private = lappend(path->custom_private, makeInteger(0));
	Assert(list_length(path->custom_private) == GJ_SCAN_PATH_COUNT);
	return path;
}

/*
 * List the clauses that the index does not answer by its keys
 */
List *
GjScanPathFilters(const CustomPath *path)
{
	List	   *conditions = list_nth(path->custom_private, GJ_SCAN_PATH_CONDITIONS);

	return list_difference_ptr(path->path.parent->baserestrictinfo,
							   get_rinfos(conditions, true));
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
 * PlanCustomPath: make the plan.  The clauses come in the order in which they have to be
 * tested.  They are all that the table has, what a partial index's predicate implies
 * included: GjRefuseIndex().
 */
static Plan *
plan_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
		  List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	IndexOptInfo *index = list_nth(path->custom_private, GJ_SCAN_PATH_INDEX);
	List	   *conditions = list_nth(path->custom_private, GJ_SCAN_PATH_CONDITIONS);
	List	   *filters = list_difference_ptr(clauses, get_rinfos(conditions, true));
	List	   *order = list_nth(path->custom_private, GJ_SCAN_PATH_ORDER);
	List	   *key_plan;
	List	   *values;
	List	   *quals = extract_actual_clauses(filters, false);
	List	   *filter_plan;
	List	   *filter_values;
	double		share;

	GjChoiceTaken(path);
	key_plan = GjMakeKeyPlan(conditions, &values);

	scan->scan.plan.targetlist = tlist;
	scan->scan.scanrelid = rel->relid;
	scan->flags = path->flags;
	scan->methods = GjNodeMethods(GJ_SCAN_NAME);
	filter_plan = GjMakeFilterPlan(index, rel->relid, &quals, &filters, &filter_values);
	scan->scan.plan.qual = quals;
	scan->custom_exprs = list_make5(GjIndexKeyExpr(index), GjKeyPredicate(index), filters,
									filter_values, values);
	scan->custom_exprs = lappend(scan->custom_exprs, GjOrderColumns(index, order));
	Assert(list_length(scan->custom_exprs) == GJ_SCAN_EXPRS_COUNT);
	scan->custom_private = list_make5(list_make1_oid(index->indexoid),
									  makeInteger(index->indexkeys[0]),
									  list_nth(path->custom_private, GJ_SCAN_PATH_INDEX_ONLY),
									  list_nth(path->custom_private, GJ_SCAN_PATH_ATTNOS),
									  filter_plan);
	scan->custom_private = lappend(scan->custom_private, key_plan);
	scan->custom_private = lappend(scan->custom_private,
								   GjFindPartitions(root, rel, index, &share));
	scan->custom_private = lappend(lappend(scan->custom_private, order),
								   list_nth(path->custom_private, GJ_SCAN_PATH_BOUND));
	Assert(list_length(scan->custom_private) == GJ_SCAN_PRIVATE_COUNT);

	return &scan->scan.plan;
}
