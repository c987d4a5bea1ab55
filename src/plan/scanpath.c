/*-------------------------------------------------------------------------
 *
 * scanpath.c
 *	  GpuScan paths and plans: restriction clauses on one table that determine which keys are
 *	  wanted.
 *
 * All clauses that one index answers are used together: the sets are intersected when the scan
 * starts.  The other clauses filter, in the order that security levels require.  The plan has no
 * parameters from a join: a nested loop that searched the whole index for each outer row would
 * gain nothing, and GpuJoin handles joins.  So paths need not be rewritten for partitions either.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/prep.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "base/nodes.h"
#include "base/settings.h"
#include "match/match.h"
#include "node/scanplan.h"
#include "pages/pages.h"
#include "sets/sets.h"
#include "planner.h"

/* Number of rows that we assume to be wanted if the query does not say so */
#define UNKNOWN_LIMIT			200.0

/* Maximum number of entries prepared at once */
#define MAX_BOUND				1000000.0

/* Spare entries, for those that turn out not to be visible; a further slice costs little */
#define SPARE_PART				1.25
#define SPARE_ROWS				16.0
#define SPARE_ROWS_OF_SLICE		3.0

/* Cost of a Bitmap Index Scan node in operators, without its search */
#define BITMAP_NODE_OPERATIONS	4000.0

/* Maximum number of a key's rows, before filters, for which PostgreSQL's own index scan does */
#define FEW_CHANGED_ROWS		32.0

/* The bits of a numeric's typmod that are its scale */
#define NUMERIC_SCALE_BITS		0x7FF

/* What a query wants of all rows of a table (whole.c) */
typedef enum WholeUse
{
	USE_NONE,
	USE_GROUPS,					/* groups or aggregates of them, or distinct rows */
	USE_FIRST					/* the first ones in an order */
} WholeUse;

/* Forms of a set (sets/keyset.h), the strongest first: an intersection has the first one's */
typedef enum SetForm
{
	SET_LIST,
	SET_INTERVALS,
	SET_ALL						/* intervals that lack few keys */
} SetForm;

static const char *consider_index(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
								  WholeUse use, Path *stock);
static bool whole_may_do(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, WholeUse use,
						 const char **refused);
static bool index_has_columns(RelOptInfo *rel, IndexOptInfo *index);
static bool is_hopeless(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index);
static bool has_unknown_array(List *rinfos);
static bool is_run_again(const PlannerInfo *root, const Param *param);
static bool has_outer_value(Node *node, void *root);
static List *fold_clauses(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
						  const char **refused);
static GjKeyCondition *find_tuples(List *conditions);
static bool has_images(PlannerInfo *root, const IndexOptInfo *index);
static void charge_tuples(PlannerInfo *root, GjCostInput *input, GjKeyCondition *condition,
						  Selectivity selectivity);
static List *get_rinfos(List *conditions, bool exact_only);
static void add_scan_path(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
						  List *conditions, Path *stock);
static double count_per_row(PlannerInfo *root, const GjCostInput *input, List *clauses);
static Cost path_add_with_workers(PlannerInfo *root, GjCostInput *input, List *conditions,
								  List *attnos, int workers, Cost alone);
static bool undercut(CustomPath *path, const GjCostInput *input, Cost *startup, Cost *run);
static CustomPath *make_path(const GjCostInput *input, List *conditions, List *attnos,
							 int workers);
static CustomPath *make_ordered_path(PlannerInfo *root, const GjCostInput *input,
									 List *conditions, List *attnos);
static bool use_index_scan(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index);
static IndexPath *find_index_path(const RelOptInfo *rel, const IndexOptInfo *index);
static List *drop_bitmap_paths(List *paths, IndexOptInfo *index);
static void charge_bitmap_scans(RelOptInfo *rel);
static List *take_bitmaps(List **paths);
static int	count_bitmap_scans(const Path *path);
static Plan *plan_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
					   List *tlist, List *clauses, List *custom_plans);
static List *part_columns(GjKeyCondition *condition);
static bool is_ordered_by_key(PlannerInfo *root, IndexOptInfo *index);
static List *order_pathkeys(PlannerInfo *root, IndexOptInfo *index, bool sliced, List **order);
static double order_bound(PlannerInfo *root, double per_row, bool sliced);
static Size order_entry_bytes(const IndexOptInfo *index, List *order, List *kept);
static AttrNumber order_attno(const IndexOptInfo *index, const List *item);
static List *order_columns(IndexOptInfo *index, List *order);
static bool wants_few(PlannerInfo *root);
static int	path_find_column(PlannerInfo *root, IndexOptInfo *index, PathKey *pathkey);
static Size get_width(const RelOptInfo *rel, AttrNumber attno);
static SetForm node_form(GjKeyNode *node);

const CustomPathMethods GjScanPathMethods = {
	.CustomName = GJ_SCAN_NAME,
	.PlanCustomPath = plan_scan,
};

/*
 * Offer a scan through each index of ours that a restriction of the table refers to
 */
void
GjAddScanPaths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	const char *table_refused = NULL;
	bool		has_index = false;
	WholeUse	use = USE_NONE;
	Path	   *stock = NULL;
	ListCell   *lc;

	if (wants_few(root))
		use = USE_FIRST;
	else if (GjIsOnlyTable(root, rel) && GjWantsGroups(root))
		use = USE_GROUPS;
	if (!GjIsUserTable(rte) ||
		(rel->baserestrictinfo == NIL && use == USE_NONE && !GjChoiceIsNoted()))
		return;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		const char *refused;

		if (!GjIndexIsOurs(index) ||
			(rel->baserestrictinfo == NIL && !GjChoiceIsNoted() &&
			 !whole_may_do(root, rel, index, use, &refused)))
			continue;
		if (!has_index)
		{
			table_refused = GjRefuseTable(root, rel, rte, gj_force ? 0 : gj_min_rows);
			stock = GjKeepIndexPath(rel);
		}
		has_index = true;
		refused = table_refused ? table_refused :
			consider_index(root, rel, index, use, stock);
		if (refused != NULL)
			GjChoiceRefused(rte->relid, index->indexoid, refused);
	}
	if (!has_index)
		GjChoiceRefused(rte->relid, InvalidOid, "the table has no gpujoin index");
}

/*
 * Offer a scan through an index, or return the reason why not
 */
static const char *
consider_index(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, WholeUse use,
			   Path *stock)
{
	const char *refused = GjRefuseIndex(index);
	List	   *conditions;

	if (refused != NULL || is_hopeless(root, rel, index))
		return refused;
	if (!gj_force && use_index_scan(root, rel, index))
		return "it changes or locks few rows of one key, so PostgreSQL scans the index itself";

	refused = GjChoiceNoCondition(root, index);
	conditions = fold_clauses(root, rel, index, &refused);
	if (conditions == NIL && whole_may_do(root, rel, index, use, &refused))
		conditions = GjFoldWhole(root, rel, index, &refused);
	if (conditions == NIL)
		return refused;
	add_scan_path(root, rel, index, conditions, stock);
	return NULL;
}

/*
 * Return true if the whole index may do for what the query wants of all rows.  The test is cheap.
 */
static bool
whole_may_do(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, WholeUse use,
			 const char **refused)
{
	List	   *order;

	if (use == USE_FIRST)
		return is_ordered_by_key(root, index) ||
			(GjIsOnlyTable(root, rel) && order_pathkeys(root, index, false, &order) != NIL);
	if (use == USE_GROUPS && !index_has_columns(rel, index))
		*refused = "no condition on its key, and it lacks a column of the query";
	else if (use == USE_GROUPS)
		return true;
	return false;
}

/*
 * Return true if the index has all columns that the query needs of the table
 */
static bool
index_has_columns(RelOptInfo *rel, IndexOptInfo *index)
{
	List	   *exprs = list_copy(rel->reltarget->exprs);
	List	   *attnos;
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
		exprs = lappend(exprs, lfirst_node(RestrictInfo, lc)->clause);
	return GjIndexOnlyHas(index, rel->relid, exprs, &attnos);
}

/*
 * Return true if a search for one key costs more than some existing path
 *
 * That is the case if a btree finds the wanted row, and such queries are planned more often than
 * any others.  Return false if there is an array of unknown length (guess.c).
 */
static bool
is_hopeless(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index)
{
	bool		again = is_run_again(root, NULL);
	Cost		least = DBL_MAX;
	ListCell   *lc;

	if (gj_force || GjChoiceIsNoted() || has_unknown_array(rel->baserestrictinfo))
		return false;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info == NULL && !GjPathIsDisabled(path))
			least = Min(least, path->total_cost);
	}
	/* the first test does not read the index */
	return least < GjCostLeastMatch(again) || least < GjCostMatch(index, 1.0, 0.0, again);
}

static bool
has_unknown_array(List *rinfos)
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
 * Return true if a query is planned as a part of another one that runs it for each of its rows;
 * given a parameter, only if its value is of such a row
 */
static bool
is_run_again(const PlannerInfo *root, const Param *param)
{
	ListCell   *lc;

	/* while a subquery is planned, the queries around it list what it needs of their rows */
	for (root = root->parent_root; root != NULL; root = root->parent_root)
	{
		foreach(lc, root->plan_params)
		{
			if (param == NULL || lfirst_node(PlannerParamItem, lc)->paramId == param->paramid)
				return true;
		}
	}
	return false;
}

/*
 * Return true if an expression has a value of a row of the queries around it
 */
static bool
has_outer_value(Node *node, void *root)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
		return ((Param *) node)->paramkind == PARAM_EXEC && is_run_again(root, (Param *) node);
	return expression_tree_walker(node, has_outer_value, root);
}

/*
 * Fold the table's clauses that restrict the index's key; for hashed keys, only the first one (see
 * conditions.c)
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

		/* a set has the tuples of one clause; another one remains a filter */
		if (condition != NULL && (condition->tuples == NULL || find_tuples(result) == NULL))
			result = lappend(result, condition);
		if (condition != NULL && GjIndexIsHashed(index))
			break;
	}
	return result;
}

/*
 * Return the condition that is a list of tuples, or NULL
 */
static GjKeyCondition *
find_tuples(List *conditions)
{
	ListCell   *lc;

	foreach(lc, conditions)
	{
		GjKeyCondition *condition = lfirst(lc);

		if (condition->tuples != NULL)
			return condition;
	}
	return NULL;
}

/*
 * List the clauses from which conditions were made; with exact_only, those that need not be tested
 * again
 */
static List *
get_rinfos(List *conditions, bool exact_only)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, conditions)
	{
		GjKeyCondition *condition = lfirst(lc);

		if (condition->rinfo != NULL && (condition->exact || !exact_only))
			result = lappend(result, condition->rinfo);
	}
	return result;
}

static void
add_scan_path(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, List *conditions,
			  Path *stock)
{
	GjCostInput input = {.rel = rel,.index = index};
	/* from baserestrictinfo, even for a partial index: see GjRefuseIndex() */
	List	   *filters = list_difference_ptr(rel->baserestrictinfo,
											  get_rinfos(conditions, true));
	Selectivity null_share;
	Selectivity selectivity = GjEstimateConditions(root, index, conditions, &input.nkeys,
												   &null_share);
	GjKeyCondition *tuples = find_tuples(conditions);
	bool		whole = GjIsWhole(conditions);
	List	   *entry_filters;
	List	   *attnos;
	ListCell   *lc;
	int			workers = 0;
	CustomPath *ordered;
	Cost		alone;

	GjFindPartitions(root, rel, index, &input.key_share);

	/* A partial index holds fewer rows than its table: no more TIDs than entries */
	input.nmatches = Min(selectivity * rel->tuples, index->tuples);
	input.nulls = Min(null_share * rel->tuples, input.nmatches);
	input.all = true;
	input.unlisted = true;
	foreach(lc, conditions)
	{
		SetForm		form = node_form(((GjKeyCondition *) lfirst(lc))->node);

		input.all &= form == SET_ALL;
		input.unlisted &= form != SET_LIST;
	}
	input.again = input.nkeys <= GJ_FEW_KEYS && !input.unlisted &&
		has_outer_value((Node *) GjBareClauses(get_rinfos(conditions, false)), root);
	cost_qual_eval(&input.quals, filters, root);
	/* nothing has to prove that an entry of a whole index is wanted */
	input.index_only = GjIndexOnlyCovers(root, rel, index, filters,
										 whole || has_images(root, index), &attnos) ||
		(whole && GjIndexOnlyCovers(root, rel, index, filters, false, &attnos));
	if (input.index_only)
		input.lacking = GjWordsLacking(root, rel, index, attnos);
	input.index_only &= gj_force || input.lacking <= GJ_MOST_LACKING;
	if (whole && !input.index_only && !wants_few(root))
		return;
	input.filtered = GjFilterShare(root, rel, index, filters, &input.lacking, &entry_filters,
								   &input.filter_cost);
	input.per_row = count_per_row(root, &input, list_difference_ptr(filters,
																	get_rinfos(conditions, false)));
	if (tuples != NULL)
		charge_tuples(root, &input, tuples, selectivity);
	if (rel->consider_parallel &&
		GjValuesAreSameEverywhere(root, get_rinfos(conditions, false)) &&
		GjValuesAreSameEverywhere(root, entry_filters))
		workers = GjCountWorkers(&input);

	if (tuples != NULL)
		charge_bitmap_scans(rel);
	if (!whole)					/* of which only an offer may be added in their place */
		rel->pathlist = drop_bitmap_paths(rel->pathlist, index);
	ordered = make_ordered_path(root, &input, conditions, attnos);
	if (whole && ordered != NULL && !GjIsOnlyTable(root, rel))
	{
		GjAddPath(root, rel, ordered, ordered->path.startup_cost,
				  ordered->path.total_cost - ordered->path.startup_cost);
		return;
	}
	if (stock != NULL && !whole && GjRestsOnGuess(stock, conditions))
		input.guessed = stock;
	if (input.guessed != NULL && ordered != NULL)
		GjUndercutSorted(root, ordered, input.guessed, input.nkeys);
	alone = path_add_with_workers(root, &input, conditions, attnos, 0, 0.0);
	if (ordered != NULL)
		GjAddPath(root, rel, ordered, ordered->path.startup_cost,
				  ordered->path.total_cost - ordered->path.startup_cost);
	if (workers > 0)
	{
		if (!whole)
			rel->partial_pathlist = drop_bitmap_paths(rel->partial_pathlist, index);
		(void) path_add_with_workers(root, &input, conditions, attnos, workers, alone);
	}
}

/*
 * Return true if an index of hashed keys has images of nearly all of them: of whole numbers, and of
 * short strings
 */
static bool
has_images(PlannerInfo *root, const IndexOptInfo *index)
{
	Oid			family = index->opfamily[0];
	Oid			type = index->opcintype[0];
	Oid			collation = index->indexcollations[0];
	Var		   *key = (Var *) linitial_node(TargetEntry, index->indextlist)->expr;
	int32		typmod = exprTypmod((Node *) key);
	int32		width;

	if (!IsA(key, Var) || !OidIsValid(get_opfamily_proc(family, type, type, GJ_IMAGE_PROC)) ||
		(OidIsValid(collation) && !get_collation_isdeterministic(collation)))
		return false;
	if (type == NUMERICOID)
		return typmod >= (int32) VARHDRSZ && ((typmod - VARHDRSZ) & NUMERIC_SCALE_BITS) == 0;
	width = get_attavgwidth(planner_rt_fetch(key->varno, root)->relid, key->varattno);
	return width > 0 && width <= GJ_IMAGE_WIDTH;
}

/*
 * Change the input of the cost formulas for a list of tuples: its keys find more entries than rows
 *
 * If the index has the other columns, entries are tested by them.  Otherwise the heap is read.
 */
static void
charge_tuples(PlannerInfo *root, GjCostInput *input, GjKeyCondition *condition,
			  Selectivity selectivity)
{
	Selectivity rows = clause_selectivity(root, (Node *) condition->rinfo, 0, JOIN_INNER, NULL);
	Selectivity share = Min(rows / Max(selectivity, DBL_MIN), 1.0);
	int			nparts = list_length(condition->tuples->columns);

	if (GjFilterParts(input->index, condition->tuples) != NIL)
	{
		GjChargeParts(root, input, condition->tuples, share);
		return;
	}
	input->index_only = false;
	input->quals.per_tuple += 2.0 * nparts * cpu_operator_cost;
	input->per_row /= Max(share, 1.0 / Max(input->rel->tuples, 1.0));
}

/*
 * Estimate the number of entries, after filters of entries, for each row that satisfies all of
 * these clauses
 *
 * Use the selectivity of the clauses alone: PostgreSQL's row count may be based on another number
 * of keys.
 */
static double
count_per_row(PlannerInfo *root, const GjCostInput *input, List *clauses)
{
	double		rows = clauselist_selectivity(root, clauses, 0, JOIN_INNER, NULL);
	double		entries = 1.0 - input->filtered;

	return Max(entries / Max(rows, 1.0 / Max(input->rel->tuples, 1.0)), 1.0);
}

/*
 * Add a path for one process, or for several, given the cost of the former; returns the path's
 * cost without the charge for workers
 */
static Cost
path_add_with_workers(PlannerInfo *root, GjCostInput *input, List *conditions, List *attnos,
					  int workers, Cost alone)
{
	CustomPath *path = make_path(input, conditions, attnos, workers);
	RelOptInfo *rel = input->rel;
	Cost		startup;
	Cost		run;
	Cost		searched;
	Cost		total;

	input->workers = workers;
	GjCostSearch(root, input, &startup, &run);
	intVal(list_nth(path->custom_private, GJ_SCAN_PATH_CHARGED)) =
		(int) Min(GjCostReturned(input) * (1.0 - input->lacking), INT_MAX);
	searched = startup + run;
	startup += rel->reltarget->cost.startup;
	run += rel->reltarget->cost.per_tuple * path->path.rows;
	total = startup + run;

	if (workers > 0)
		GjAddPartialPath(root, rel, path, startup, run, alone,
						 GjCostUnit(rel, input->index_only));
	else
	{
		if (!undercut(path, input, &startup, &run))
			intVal(list_nth(path->custom_private, GJ_SCAN_PATH_EXCESS)) =
				(int) (1e6 * GjGenericExcess(root, input, conditions, searched));
		GjAddPath(root, rel, path, startup, run);
	}
	return total;
}

/*
 * Lower the costs of a path whose array has an unknown length, if that is to be done (guess.c).
 * They do not depend on the number of rows then.  Returns true if it was done.
 */
static bool
undercut(CustomPath *path, const GjCostInput *input, Cost *startup, Cost *run)
{
	path->path.startup_cost = *startup;
	path->path.total_cost = *startup + *run;
	if (input->guessed == NULL ||
		!GjUndercut(path, path->path.total_cost, input->guessed, input->nkeys))
		return false;
	*startup = path->path.startup_cost;
	*run = path->path.total_cost - *startup;
	intVal(list_nth(path->custom_private, GJ_SCAN_PATH_CHARGED)) = 0;
	return true;
}

/*
 * Make a path that returns rows in the order that the query wants, if it wants few rows, or return
 * NULL
 */
static CustomPath *
make_ordered_path(PlannerInfo *root, const GjCostInput *input, List *conditions, List *attnos)
{
	GjCostInput ordered = *input;
	List	   *order;
	List	   *pathkeys;
	RelOptInfo *rel = input->rel;
	List	   *columns = NIL;
	ListCell   *lc;
	double		bound;
	CustomPath *path;
	Cost		run;

	ordered.sliced = input->unlisted && is_ordered_by_key(root, input->index);
	if (ordered.sliced)
	{
		ordered.per_key = GjKeyShare(root, input->index) * input->index->tuples;
		ordered.again = has_outer_value((Node *) GjBareClauses(get_rinfos(conditions, false)),
										root);
	}
	pathkeys = order_pathkeys(root, input->index, ordered.sliced, &order);
	if (pathkeys == NIL)
		return NULL;

	foreach(lc, order)
		columns = lappend_int(columns, order_attno(input->index, lfirst(lc)));
	ordered.strays = GjWordsLacking(root, rel, input->index, columns);
	bound = order_bound(root, input->per_row, ordered.sliced);
	path = make_path(input, conditions, attnos, 0);
	path->path.pathkeys = pathkeys;
	lfirst(list_nth_cell(path->custom_private, GJ_SCAN_PATH_ORDER)) = order;
	lfirst(list_nth_cell(path->custom_private, GJ_SCAN_PATH_BOUND)) = makeInteger((int) bound);

	GjCostOrdered(root, &ordered, bound,
				  order_entry_bytes(input->index, order, input->index_only ? attnos : NIL),
				  &path->path.startup_cost, &run);
	path->path.startup_cost += rel->reltarget->cost.startup;
	path->path.total_cost = path->path.startup_cost + run +
		rel->reltarget->cost.per_tuple * path->path.rows;
	return path;
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
	path->custom_private = lappend(lappend(path->custom_private, makeInteger(0)), makeInteger(0));
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
 * Leave the table to PostgreSQL's own index scan if it looks for few rows of one key, to change or
 * to lock them.  Returns false if it does not.
 *
 * That scan is started in fewer steps than ours, and a foreign key's trigger makes one for each
 * row: a cascade to two rows took 111,200 instructions instead of 115,600, one to ten rows 151,400
 * instead of 159,100.  For many rows ours is faster, as it fetches several pages together; but what
 * is done with each row takes longer than that.  Where the rows are only read, few of them are
 * enough to make ours the faster one.
 */
static bool
use_index_scan(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index)
{
	PlanRowMark *mark = get_plan_rowmark(root->rowMarks, rel->relid);
	bool		is_changed = bms_is_member(rel->relid, root->all_result_relids) ||
		(mark != NULL && RowMarkRequiresRowShareLock(mark->markType));
	IndexPath  *path;

	if (!index->amhasgettuple || !is_changed ||
		(path = find_index_path(rel, index)) == NULL ||
		path->indexselectivity * rel->tuples > FEW_CHANGED_ROWS)
		return false;
	rel->pathlist = drop_bitmap_paths(rel->pathlist, index);
	if (!list_member_ptr(rel->pathlist, path))
		add_path(rel, &path->path);
	return true;
}

/*
 * Return PostgreSQL's path that searches an index for one key; NULL if it has none.  It is part of
 * its bitmap scan, which may have taken its place.
 */
static IndexPath *
find_index_path(const RelOptInfo *rel, const IndexOptInfo *index)
{
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (IsA(path, BitmapHeapPath))
			path = ((BitmapHeapPath *) path)->bitmapqual;
		if (IsA(path, IndexPath) && path->param_info == NULL &&
			((IndexPath *) path)->indexinfo == index)
		{
			List	   *clauses = ((IndexPath *) path)->indexclauses;

			return list_length(clauses) == 1 &&
				IsA(linitial_node(IndexClause, clauses)->rinfo->clause, OpExpr) ?
				(IndexPath *) path : NULL;
		}
	}
	return NULL;
}

/*
 * Remove the bitmap heap scans that use only this index
 *
 * They do the same search and fetch, but put the TIDs into a hash table and recheck by the array
 * clause.  As they read the same blocks, the difference in cost is too small for add_path().
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
 * Charge the bitmap paths of a table, for which there is a list of tuples, for their nodes
 *
 * An index of all columns of the tuples is searched by one Bitmap Index Scan for each tuple, below
 * a BitmapOr.  PostgreSQL charges each for the pages that it reads, 4.4 units, but not for making
 * the node and opening the index: 300 pairs took 8.0 ms of processor time, 1,000 29.8 ms, 30 us
 * each, while 4.4 units of such a search take 3.  We charge less than the difference.
 */
static void
charge_bitmap_scans(RelOptInfo *rel)
{
	ListCell   *lc;
	List	   *bitmaps = take_bitmaps(&rel->pathlist);

	foreach(lc, bitmaps)
		add_path(rel, lfirst(lc));
	bitmaps = take_bitmaps(&rel->partial_pathlist);
	foreach(lc, bitmaps)
		add_partial_path(rel, lfirst(lc));
}

/*
 * Remove the bitmap paths with several scans from a list, and charge them
 */
static List *
take_bitmaps(List **paths)
{
	List	   *bitmaps = NIL;
	ListCell   *lc;

	foreach(lc, *paths)
	{
		BitmapHeapPath *path = lfirst(lc);
		int			nscans = IsA(path, BitmapHeapPath) ? count_bitmap_scans(path->bitmapqual) : 0;
		Cost		nodes = nscans * BITMAP_NODE_OPERATIONS * cpu_operator_cost;

		if (nscans < 2 || path->path.param_info != NULL)
			continue;
		path->path.startup_cost += nodes;
		path->path.total_cost += nodes;
		bitmaps = lappend(bitmaps, path);
		*paths = foreach_delete_current(*paths, lc);
	}
	return bitmaps;
}

static int
count_bitmap_scans(const Path *path)
{
	List	   *members = NIL;
	int			count = 0;
	ListCell   *lc;

	if (IsA(path, BitmapOrPath))
		members = ((const BitmapOrPath *) path)->bitmapquals;
	else if (IsA(path, BitmapAndPath))
		members = ((const BitmapAndPath *) path)->bitmapquals;
	else
		return 1;
	foreach(lc, members)
		count += count_bitmap_scans(lfirst(lc));
	return count;
}

/*
 * PlanCustomPath: make the plan
 *
 * The clauses come in the order in which they must be tested.  They are all of the table's
 * clauses, including those that a partial index's predicate implies: see GjRefuseIndex().
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
	GjKeyCondition *tuples;
	List	   *key_plan;
	Expr	   *condition;
	double		share;

	GjChoiceTaken(path);
	key_plan = GjMakeKeyPlan(conditions, index, &condition);

	scan->scan.plan.targetlist = tlist;
	scan->scan.scanrelid = rel->relid;
	scan->flags = path->flags;
	scan->methods = GjNodeMethods(GJ_SCAN_NAME);
	tuples = find_tuples(conditions);
	GjPlanTable(scan, index, extract_actual_clauses(filters, false),
				GjScanPathHasList(path) ?
				GjFilterParts(index, tuples != NULL ? tuples->tuples : NULL) : NIL,
				boolVal(list_nth(path->custom_private, GJ_SCAN_PATH_INDEX_ONLY)),
				list_nth(path->custom_private, GJ_SCAN_PATH_ATTNOS));
	scan->custom_exprs = lappend(scan->custom_exprs, condition);
	scan->custom_exprs = lappend(scan->custom_exprs, part_columns(tuples));
	scan->custom_exprs = lappend(scan->custom_exprs, order_columns(index, order));
	Assert(list_length(scan->custom_exprs) == GJ_SCAN_EXPRS_COUNT);
	scan->custom_private = lappend(scan->custom_private, key_plan);
	scan->custom_private = lappend(scan->custom_private,
								   GjFindPartitions(root, rel, index, &share));
	scan->custom_private = lappend(lappend(scan->custom_private, order),
								   list_nth(path->custom_private, GJ_SCAN_PATH_BOUND));
	scan->custom_private = lappend(scan->custom_private,
								   list_nth(path->custom_private, GJ_SCAN_PATH_EXCESS));
	Assert(list_length(scan->custom_private) == GJ_SCAN_PRIVATE_COUNT);
	return &scan->scan.plan;
}

/*
 * Return the columns of the tuples but the key, without RelabelType
 */
static List *
part_columns(GjKeyCondition *condition)
{
	List	   *result = NIL;
	ListCell   *lc;

	if (condition == NULL)
		return NIL;
	foreach(lc, condition->tuples->columns)
		result = lappend(result, copyObject(GjStripRelabel(lfirst(lc))));
	return result;
}

/*-------------------------------------------------------------------------
 * Rows in order
 *
 * For ORDER BY ... LIMIT, determine in which order a scan can return its rows, and how many are
 * wanted.
 *
 * We make no upper path.  The table's scan has pathkeys, like an index scan, and PostgreSQL adds
 * the nodes above it: locking rows, the limit itself, further sort columns (Incremental Sort),
 * other partitions (MergeAppend), and min() and max() as a LIMIT 1.
 *
 * The scan can sort by leading columns of the order that are in the index and whose types compare
 * like integers or floats, or that are uuids or numerics in INCLUDE.  We offer this only if few
 * rows are wanted, so that each can be fetched by itself; costs decide.
 *
 * The number of wanted rows is a hint.  The scan continues as long as it is asked for rows.
 *-------------------------------------------------------------------------
 */

/*
 * Return the leading pathkeys of the query by which entries of the index can be sorted
 *
 * *order is set to the value of GJ_SCAN_ORDER.  Slices of the keys are not ordered by numerics,
 * which entries may lack: PostgreSQL sorts the rows of each key by them.
 */
static List *
order_pathkeys(PlannerInfo *root, IndexOptInfo *index, bool sliced, List **order)
{
	List	   *pathkeys = NIL;
	ListCell   *lc;

	*order = NIL;
	if (!wants_few(root))
		return NIL;
	foreach(lc, root->query_pathkeys)
	{
		PathKey    *pathkey = lfirst_node(PathKey, lc);
		int			column = path_find_column(root, index, pathkey);

		if (column < 0 || (sliced && get_atttype(planner_rt_fetch(index->rel->relid, root)->relid,
												 index->indexkeys[column]) == NUMERICOID))
			break;
		pathkeys = lappend(pathkeys, pathkey);
		*order = lappend(*order, list_make3_int(column, GjPathKeyIsDescending(pathkey),
												pathkey->pk_nulls_first));
	}
	return pathkeys;
}

/*
 * Return true if the query's order is that of the key, first of all, and codes are in that order:
 * then a scan for anything but a list of keys searches slices of them (exec/ordered.c)
 */
static bool
is_ordered_by_key(PlannerInfo *root, IndexOptInfo *index)
{
	GjSortKind	kind;

	return wants_few(root) &&
		GjTypeSorts(index->opcintype[0], &kind) && kind == GJ_SORT_SIGNED &&
		GjIndexKeepsValues(index) &&
		path_find_column(root, index, linitial(root->query_pathkeys)) == 0;
}

/*
 * Return true if the query wants few of the rows in its order
 *
 * Grouping and the like, which have orders of their own, take all rows.
 */
static bool
wants_few(PlannerInfo *root)
{
	Query	   *parse = root->parse;

	return root->query_pathkeys != NIL && root->tuple_fraction > 0.0 &&
		parse->groupClause == NIL && parse->groupingSets == NIL && !parse->hasAggs &&
		parse->distinctClause == NIL && !parse->hasWindowFuncs && !root->hasHavingQual;
}

/*
 * Return the index's column that a pathkey sorts by, or -1
 */
static int
path_find_column(PlannerInfo *root, IndexOptInfo *index, PathKey *pathkey)
{
	EquivalenceClass *ec = pathkey->pk_eclass;
	ListCell   *lc;

	if (ec->ec_has_volatile)
		return -1;
	foreach(lc, index->indextlist)
	{
		int			column = foreach_current_index(lc);
		Var		   *var = (Var *) lfirst_node(TargetEntry, lc)->expr;
		GjSortKind	kind;

		/* the cheaper tests first: every ORDER BY with a LIMIT comes here */
		if (!IsA(var, Var) || var->varattno <= 0 ||
			find_ec_member_matching_expr(ec, (Expr *) var, index->rel->relids) == NULL)
			continue;
		/* the key need not be the indexed value */
		if ((column == 0 && !GjIndexKeepsValues(index)) || !GjTypeSorts(var->vartype, &kind) ||
			lookup_type_cache(var->vartype, TYPECACHE_BTREE_OPFAMILY)->btree_opf !=
			pathkey->pk_opfamily)
			continue;
		if (column != 0 || (kind != GJ_SORT_UUID && kind != GJ_SORT_NUMERIC))
			return column;
	}
	return -1;
}

/*
 * Return the number of entries to prepare first, given the number of entries for each row
 *
 * That is the number of entries for the wanted rows, if the rows that filters remove are spread
 * evenly, and some more for rows that are dead or have no join partner.
 */
static double
order_bound(PlannerInfo *root, double per_row, bool sliced)
{
	double		spare = sliced ? SPARE_ROWS_OF_SLICE : SPARE_ROWS;
	double		wanted = root->limit_tuples > 0.0 ? root->limit_tuples : UNKNOWN_LIMIT;

	if (root->parse->limitOption == LIMIT_OPTION_WITH_TIES)
		wanted *= 2.0;
	return Min(wanted * per_row * SPARE_PART + spare, MAX_BOUND);
}

/*
 * Estimate the memory for an entry while it is sorted; kept are the attributes that rows take from
 * entries
 */
static Size
order_entry_bytes(const IndexOptInfo *index, List *order, List *kept)
{
	const RelOptInfo *rel = index->rel;
	int			nwords = 1;		/* the TID */
	Size		bytes = 0;
	ListCell   *lc;

	foreach(lc, order)
		nwords += get_width(rel, order_attno(index, lfirst(lc))) > sizeof(uint32) ? 2 : 1;
	foreach(lc, kept)
		bytes += get_width(rel, lfirst_int(lc)) + 1;
	return GjTopEntryBytes(nwords, bytes);
}

/*
 * Return the table's attribute that is a sort column
 */
static AttrNumber
order_attno(const IndexOptInfo *index, const List *item)
{
	return index->indexkeys[list_nth_int(item, GJ_ORDER_COLUMN)];
}

static Size
get_width(const RelOptInfo *rel, AttrNumber attno)
{
	int32		width = rel->attr_widths[attno - rel->min_attr];

	return width > 0 ? width : sizeof(int64);
}

/*
 * Return the sort columns as expressions, for EXPLAIN
 */
static List *
order_columns(IndexOptInfo *index, List *order)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, order)
	{
		TargetEntry *entry = list_nth_node(TargetEntry, index->indextlist,
										   list_nth_int(lfirst(lc), GJ_ORDER_COLUMN));

		columns = lappend(columns, copyObject(entry->expr));
	}
	return columns;
}

/*
 * Return the form of the resulting set
 *
 * An intersection with a list is a list, and a union with nearly all keys has nearly all.
 */
static SetForm
node_form(GjKeyNode *node)
{
	GjSourceKind kind = node->source.kind;
	SetForm		result = node->step == GJ_STEP_AND ? SET_ALL : SET_LIST;
	ListCell   *lc;

	if (node->step == GJ_STEP_SOURCE && GjSourceIsRange(kind))
		return SET_INTERVALS;
	if (node->step == GJ_STEP_SOURCE)
		return kind == GJ_SOURCE_NOT_VALUE || kind == GJ_SOURCE_NOT_ARRAY ||
			kind == GJ_SOURCE_NOT_NULL ? SET_ALL : SET_LIST;

	foreach(lc, node->operands)
	{
		SetForm		form = node_form(lfirst(lc));

		result = node->step == GJ_STEP_AND ? Min(result, form) : Max(result, form);
	}
	return result;
}

/*
 * Return true if the keys that a GpuScan searches for are a list
 */
bool
GjScanPathHasList(const CustomPath *path)
{
	ListCell   *lc;

	foreach(lc, (List *) list_nth(path->custom_private, GJ_SCAN_PATH_CONDITIONS))
	{
		if (node_form(((GjKeyCondition *) lfirst(lc))->node) == SET_LIST)
			return true;
	}
	return false;
}
