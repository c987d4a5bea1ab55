/*-------------------------------------------------------------------------
 *
 * choosepath.c
 *	  GpuAlternative paths: a GpuScan and PostgreSQL's index scan, index-only scan or bitmap
 *	  scan for the same condition, or a GpuJoin and PostgreSQL's nested loop.  The executor chooses
 *	  one of the two.
 *
 * When a generic plan is made, the length of an array parameter is not known; nor is that of an
 * array which a subquery collects.  PostgreSQL assumes 10 elements, for which a btree is the right
 * choice.  With 10,000 elements it takes ten times as long as GpuScan.  No assumption is right for
 * both.  So if PostgreSQL's path rests on that guess, we keep both plans, together with the number
 * of keys from which ours is cheaper, for a search on the CPU and for a search on a device.  The
 * executor counts the keys and checks whether there is a device (exec/alternative.c).
 *
 * The path costs slightly less than PostgreSQL's: for the number of keys that PostgreSQL assumes,
 * that path is the one that is executed.
 *
 * We compare both costs by the formulas, and assume that PostgreSQL's cost is proportional to the
 * number of keys, as its cost of an index scan for an array nearly is.
 *
 * Rows from our path cost batch consumers less, so for an aggregate we compute the numbers of keys
 * again.
 *
 * If the query wants few rows in an order that our scan can produce, we offer a second alternative
 * in that order: our ordered scan, or PostgreSQL's path, below a Sort if it has another order.
 * Otherwise a Sort above the alternative would take all rows.
 *
 * A join with rows that unnest() makes of parameters rests on the same guess.  If PostgreSQL looks
 * these rows up in an index, one by one, the alternative has its nested loop and our GpuJoin, and
 * the executor counts the arrays' elements.  The planner calls our hook for each order of a join's
 * sides, and each time the nested loop may be a cheaper one.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/value.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"

#include "base/compat.h"
#include "base/nodes.h"
#include "base/settings.h"
#include "node/scanplan.h"
#include "planner.h"

/* Indexes into the custom_private list of a path; custom_paths has our path, then the other one */
typedef enum GjAlternativePathPrivate
{
	GJ_ALTERNATIVE_PATH_INDEX,	/* IndexOptInfo */
	GJ_ALTERNATIVE_PATH_CPU_KEYS,	/* Integer: minimum number of keys for which ours is cheaper */
	GJ_ALTERNATIVE_PATH_DEVICE_KEYS,	/* Integer: the same, if a device searches */
	GJ_ALTERNATIVE_PATH_INPUT,	/* GjCostInput from which these were computed, not a Node; for a
								 * join, the arrays that are counted */
	GJ_ALTERNATIVE_PATH_COUNT
} GjAlternativePathPrivate;

/* PostgreSQL's assumption (estimate_array_length) */
#define GUESSED_KEYS			10.0

/* Paths whose costs are compared for a number of keys, or of rows of a join's small side */
typedef struct Comparison
{
	PlannerInfo *root;
	const GjCostInput *input;	/* of our scan, */
	const GjJoinCandidate *join;	/* or of our join */
	const Path *stock;			/* for GUESSED_KEYS */
	Cost		saved;			/* of each row that our scan returns */
} Comparison;

/* Cost factor by which the path differs from the one that it contains */
#define TRIFLE					0.9999

static CustomPath *make_alternative(RelOptInfo *rel, CustomPath *ours, Path *stock);
static void add_in_order(PlannerInfo *root, const CustomPath *alternative,
						 const CustomPath *ordered);
static bool target_has(const RelOptInfo *rel, List *pathkeys);
static Path *keep(RelOptInfo *rel, Path *stock);
static Path *find_guessed_path(RelOptInfo *rel, List *conditions);
static IndexPath *get_index_path(Path *path);
static bool rests_on_guess(IndexPath *path, List *conditions);
static bool condition_is_unknown(GjKeyNode *node);
static List *list_unknown_arrays(PlannerInfo *root, RelOptInfo *small);
static List *add_unknown_arrays(List *arrays, Node *expr);
static bool is_loop_over(const Path *path, const RelOptInfo *small);
static int	count_min_keys(const Comparison *comparison, bool device);
static bool is_cheaper(const Comparison *comparison, bool device, double nkeys);
static Plan *plan_alternative(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
							  List *tlist, List *clauses, List *custom_plans);

const CustomPathMethods GjAlternativePathMethods = {
	.CustomName = GJ_ALTERNATIVE_NAME,
	.PlanCustomPath = plan_alternative,
};

/*
 * Offer a choice between our path and the cheapest other one, if the latter rests on a guess; our
 * path becomes part of it.  If there is an ordered path of ours for the same rows, offer a choice
 * in that order, too.
 */
void
GjAddAlternativePath(PlannerInfo *root, const GjCostInput *input, List *conditions,
					 CustomPath *ours, const CustomPath *ordered)
{
	RelOptInfo *rel = input->rel;
	Path	   *stock = find_guessed_path(rel, conditions);
	Comparison	comparison = {.root = root,.input = input,.stock = stock};
	CustomPath *path;
	GjCostInput *kept;
	int			cpu_keys;
	int			device_keys;

	if (gj_force || stock == NULL)
		return;

	cpu_keys = count_min_keys(&comparison, false);
	device_keys = count_min_keys(&comparison, true);
	if (cpu_keys == PG_INT32_MAX && device_keys == PG_INT32_MAX)
		return;

	GjCostSearch(root, input, &ours->path.startup_cost, &ours->path.total_cost);
	ours->path.total_cost += ours->path.startup_cost;

	path = make_alternative(rel, ours, keep(rel, stock));
	kept = palloc(sizeof(GjCostInput));
	*kept = *input;
	path->custom_private = list_make4(input->index, makeInteger(cpu_keys),
									  makeInteger(device_keys), kept);
	Assert(list_length(path->custom_private) == GJ_ALTERNATIVE_PATH_COUNT);
	GjOfferNote(path);
	if (ordered != NULL && target_has(rel, ordered->path.pathkeys))
		add_in_order(root, path, ordered);
	add_path(rel, &path->path);
}

/*
 * Make a path that chooses between two others at execution, by the number of keys or rows
 */
static CustomPath *
make_alternative(RelOptInfo *rel, CustomPath *ours, Path *stock)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.parallel_safe = ours->path.parallel_safe && stock->parallel_safe;
	path->path.rows = rel->rows;
	path->path.startup_cost = stock->startup_cost * TRIFLE;
	path->path.total_cost = stock->total_cost * TRIFLE;
	GjPathInheritDisabled(&path->path, stock);
	path->methods = &GjAlternativePathMethods;
	path->custom_paths = list_make2(ours, stock);
	return path;
}

/*
 * Offer the same choice in an order, with the same numbers of keys: our ordered scan costs no more
 * than the other one of ours, and PostgreSQL's path with a Sort no less than without
 *
 * It is not offered to aggregates (GjOfferNote), which want no order.
 */
static void
add_in_order(PlannerInfo *root, const CustomPath *alternative, const CustomPath *ordered)
{
	RelOptInfo *rel = alternative->path.parent;
	Path	   *stock = lsecond(alternative->custom_paths);
	CustomPath *ours = palloc(sizeof(CustomPath));	/* add_path() may free the other one */
	CustomPath *path = palloc(sizeof(CustomPath));

	*ours = *ordered;
	if (!pathkeys_contained_in(ours->path.pathkeys, stock->pathkeys))
		stock = (Path *) create_sort_path(root, rel, stock, ours->path.pathkeys,
										  root->limit_tuples);
	*path = *alternative;
	path->path.pathkeys = ours->path.pathkeys;
	path->path.startup_cost = stock->startup_cost * TRIFLE;
	path->path.total_cost = stock->total_cost * TRIFLE;
	path->custom_paths = list_make2(ours, stock);
	add_path(rel, &path->path);
}

/*
 * Return true if a Sort of the relation's rows needs no further column for these pathkeys: the
 * alternative returns its children's rows as they are
 */
static bool
target_has(const RelOptInfo *rel, List *pathkeys)
{
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, pathkeys)
	{
		bool		found = false;

		foreach(lc2, rel->reltarget->exprs)
			found |= find_ec_member_matching_expr(lfirst_node(PathKey, lc)->pk_eclass,
												  lfirst(lc2), rel->relids) != NULL;
		if (!found)
			return false;
	}
	return true;
}

/*
 * Protect a path from being freed with the others of the relation: by add_path(), which finds it
 * no better than the alternative, or by pg_hint_plan, which starts over.  add_path() does not free
 * index paths; for these a copy suffices.
 */
static Path *
keep(RelOptInfo *rel, Path *stock)
{
	IndexPath  *copy;

	if (!IsA(stock, IndexPath))
	{
		rel->pathlist = list_delete_ptr(rel->pathlist, stock);
		return stock;
	}
	copy = palloc(sizeof(IndexPath));
	*copy = *(IndexPath *) stock;
	return &copy->path;
}

/*
 * Return true if the planner still lists the indexes of both plans
 */
bool
GjAlternativeIsListed(const RelOptInfo *rel, const CustomPath *path)
{
	Assert(path->path.pathkeys == NIL); /* with an order, the other path may be a Sort */
	return list_member_ptr(rel->indexlist,
						   list_nth(path->custom_private, GJ_ALTERNATIVE_PATH_INDEX)) &&
		list_member_ptr(rel->indexlist, get_index_path(lsecond(path->custom_paths))->indexinfo);
}

/*
 * Return a copy of a choice for a batch consumer, for which each row of our path costs this much
 * less, except rows that are read from the table because their entries lack a value
 */
CustomPath *
GjAlternativeForArrays(PlannerInfo *root, const CustomPath *path, Cost saved)
{
	const GjCostInput *input = list_nth(path->custom_private, GJ_ALTERNATIVE_PATH_INPUT);
	Comparison	comparison = {.root = root,.input = input,.stock = lsecond(path->custom_paths),
	.saved = saved * (1.0 - input->lacking)};
	CustomPath *copy = makeNode(CustomPath);

	*copy = *path;
	copy->custom_private =
		list_make4(input->index, makeInteger(count_min_keys(&comparison, false)),
				   makeInteger(count_min_keys(&comparison, true)),
				   unconstify(GjCostInput *, input));
	return copy;
}

/*
 * Offer a choice between a GpuJoin that was offered for a relation and the cheapest other path, if
 * both take rows of unnest() whose number is not known
 *
 * Aggregates are offered the GpuJoin itself (GjOfferFind), or take this choice as it is.
 */
void
GjAddJoinAlternative(PlannerInfo *root, RelOptInfo *joinrel)
{
	CustomPath *ours = gj_force ? NULL : GjOfferFind(joinrel, false);
	Comparison	comparison = {.root = root};
	List	   *arrays;
	CustomPath *path;
	NestPath   *stock;
	int			rows;

	if (ours == NULL || ours->methods != &GjJoinPathMethods)
		return;
	comparison.join = list_nth(ours->custom_private, GJ_JOIN_PATH_CANDIDATE);
	comparison.stock = GjCheapestOther(joinrel);
	arrays = list_unknown_arrays(root, comparison.join->small);
	if (arrays == NIL || comparison.stock == NULL ||
		!is_loop_over(comparison.stock, comparison.join->small))
		return;
	rows = count_min_keys(&comparison, false);
	if (rows == PG_INT32_MAX)
		return;

	/* add_path() may free the other one */
	stock = palloc(sizeof(NestPath));
	*stock = *(const NestPath *) comparison.stock;
	path = make_alternative(joinrel, ours, (Path *) stock);
	path->custom_private = list_make4(NULL, makeInteger(rows), makeInteger(rows), arrays);
	add_path(joinrel, &path->path);
}

/*
 * List the arrays that make the rows of a join's small side, if PostgreSQL guesses their lengths:
 * parameters that unnest() takes, in FROM, or as all columns of a subquery without tables
 *
 * Both plans contain the subquery, which is planned once.  This is safe without tables, for which
 * setrefs.c would change what the copies share.
 */
static List *
list_unknown_arrays(PlannerInfo *root, RelOptInfo *small)
{
	RangeTblEntry *rte = IS_SIMPLE_REL(small) ? planner_rt_fetch(small->relid, root) : NULL;
	List	   *arrays = NIL;
	ListCell   *lc;

	if (rte == NULL || small->baserestrictinfo != NIL)
		return NIL;
	if (rte->rtekind == RTE_FUNCTION)
	{
		foreach(lc, rte->functions)
			arrays = add_unknown_arrays(arrays, lfirst_node(RangeTblFunction, lc)->funcexpr);
	}
	else if (rte->rtekind == RTE_SUBQUERY && small->subroot != NULL)
	{
		const Query *query = small->subroot->parse;

		foreach(lc, query->rtable)
		{
			if (lfirst_node(RangeTblEntry, lc)->rtekind != RTE_RESULT)
				return NIL;
		}
		if (query->hasSubLinks || query->setOperations != NULL || query->cteList != NIL)
			return NIL;
		foreach(lc, query->targetList)
			arrays = add_unknown_arrays(arrays, (Node *) lfirst_node(TargetEntry, lc)->expr);
	}
	return arrays;
}

static List *
add_unknown_arrays(List *arrays, Node *expr)
{
	const FuncExpr *function = (const FuncExpr *) expr;
	Node	   *array;

	if (!IsA(expr, FuncExpr) || function->funcid != F_UNNEST_ANYARRAY)
		return arrays;
	array = GjStripRelabel(linitial(function->args));
	return IsA(array, Param) && ((Param *) array)->paramkind == PARAM_EXTERN ?
		lappend(arrays, array) : arrays;
}

/*
 * Return true if a path is a nested loop whose inner side looks up each row of a relation, perhaps
 * after duplicates have been removed
 */
static bool
is_loop_over(const Path *path, const RelOptInfo *small)
{
	const JoinPath *join = (const JoinPath *) path;

	return IsA(path, NestPath) && bms_equal(join->outerjoinpath->parent->relids, small->relids) &&
		bms_overlap(PATH_REQ_OUTER(join->innerjoinpath), small->relids);
}

/*
 * Return the cheapest path of the table if it is an index scan, index-only scan or bitmap scan for
 * an array of unknown length, or NULL
 */
static Path *
find_guessed_path(RelOptInfo *rel, List *conditions)
{
	Path	   *cheapest = GjCheapestOther(rel);
	IndexPath  *index_path = cheapest == NULL ? NULL : get_index_path(cheapest);

	if (index_path == NULL || GjIndexIsOurs(index_path->indexinfo) ||
		!rests_on_guess(index_path, conditions))
		return NULL;
	return cheapest;
}

/*
 * Return the path of the only index that a path uses; NULL for other kinds of paths
 */
static IndexPath *
get_index_path(Path *path)
{
	if (IsA(path, BitmapHeapPath))
		path = ((BitmapHeapPath *) path)->bitmapqual;
	return IsA(path, IndexPath) ? (IndexPath *) path : NULL;
}

/*
 * Return the cheapest path of a relation that is not ours, or NULL
 */
Path *
GjCheapestOther(const RelOptInfo *rel)
{
	Path	   *cheapest = NULL;
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info == NULL && !GjPathIsOurs(path) &&
			(cheapest == NULL || GjIsCheaper(path, cheapest)))
			cheapest = path;
	}
	return cheapest;
}

static bool
rests_on_guess(IndexPath *path, List *conditions)
{
	ListCell   *lc;

	foreach(lc, path->indexclauses)
	{
		RestrictInfo *rinfo = lfirst_node(IndexClause, lc)->rinfo;
		ListCell   *lc2;

		foreach(lc2, conditions)
		{
			GjKeyCondition *condition = lfirst(lc2);

			if (condition->rinfo == rinfo && condition_is_unknown(condition->node))
				return true;
		}
	}
	return false;
}

static bool
condition_is_unknown(GjKeyNode *node)
{
	return node->step == GJ_STEP_SOURCE && node->source.kind == GJ_SOURCE_ARRAY &&
		GjSourceIsUnknown(&node->source);
}

/*
 * Return the number of keys from which our path is cheaper, or PG_INT32_MAX
 */
static int
count_min_keys(const Comparison *comparison, bool device)
{
	int			high = 1;
	int			low;

	while (!is_cheaper(comparison, device, high))
	{
		if (high >= GJ_MAX_ALTERNATIVE_KEYS)
			return PG_INT32_MAX;
		high *= 2;
	}
	low = high / 2;

	while (high - low > 1)
	{
		int			middle = low + (high - low) / 2;

		if (is_cheaper(comparison, device, middle))
			high = middle;
		else
			low = middle;
	}
	return high;
}

static bool
is_cheaper(const Comparison *comparison, bool device, double nkeys)
{
	const GjCostInput *input = comparison->input;
	Cost		stock = comparison->stock->total_cost * nkeys / GUESSED_KEYS;
	GjCostInput scaled;
	Cost		startup;
	Cost		run;

	if (comparison->join != NULL)
		return GjJoinCostOf(comparison->root, comparison->join, nkeys) < stock;
	scaled = *input;
	scaled.nkeys = nkeys;
	scaled.nmatches = input->nmatches * nkeys / Max(input->nkeys, 1.0);
	GjCostSearchBy(comparison->root, &scaled, device, &startup, &run);
	run -= comparison->saved * scaled.nmatches * (1.0 - scaled.filtered);
	return startup + run < stock;
}

/*
 * PlanCustomPath: make the plan; it has no quals, since its children test all clauses
 */
static Plan *
plan_alternative(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
				 List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	IndexOptInfo *index = list_nth(path->custom_private, GJ_ALTERNATIVE_PATH_INDEX);
	CustomPath *ours = linitial(path->custom_paths);
	List	   *index_oid = NIL;
	List	   *key_plan = NIL;
	List	   *partitions = NIL;
	Expr	   *condition;
	double		share;

	scan->scan.plan.targetlist = tlist;
	if (index == NULL)
	{
		scan->custom_scan_tlist = copyObject(tlist);
		condition = list_nth(path->custom_private, GJ_ALTERNATIVE_PATH_INPUT);
	}
	else
	{
		scan->scan.scanrelid = rel->relid;
		index_oid = list_make1_oid(index->indexoid);
		key_plan = GjMakeKeyPlan(list_nth(ours->custom_private, GJ_SCAN_PATH_CONDITIONS), index,
								 &condition);
		partitions = GjFindPartitions(root, rel, index, &share);
	}
	scan->flags = path->flags;
	scan->methods = GjNodeMethods(GJ_ALTERNATIVE_NAME);
	scan->custom_plans = custom_plans;
	scan->custom_exprs = list_make1(condition);
	scan->custom_private = list_make5(index_oid, key_plan,
									  list_nth(path->custom_private,
											   GJ_ALTERNATIVE_PATH_CPU_KEYS),
									  list_nth(path->custom_private,
											   GJ_ALTERNATIVE_PATH_DEVICE_KEYS), partitions);
	Assert(list_length(scan->custom_private) == GJ_ALTERNATIVE_PRIVATE_COUNT);

	return &scan->scan.plan;
}
