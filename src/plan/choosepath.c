/*-------------------------------------------------------------------------
 *
 * choosepath.c
 *	  GpuAlternative paths: a GpuScan and PostgreSQL's index scan, index-only scan or
 *	  bitmap scan for one condition, of which the execution takes one.
 *
 * The length of an array is not known when a generic plan is made, nor that of one
 * which a subquery collects.  PostgreSQL assumes 10 elements; a btree is the right
 * choice then.  If there are 10,000, it takes ten times as long as we do.  No
 * assumption is right for both.  So where PostgreSQL's path rests on that guess, both
 * plans are kept, together with the number of keys from which on ours is the cheaper
 * one, for a search on the CPU and for one on a device.  The executor counts the keys
 * and looks whether there is a device (exec/alternative.c).
 *
 * The path costs what PostgreSQL's does, less a trifle: for as many keys as it was
 * costed for, it is that one.
 *
 * Both costs are compared by the formulas, with PostgreSQL's in proportion to the
 * keys, as its cost of an index scan for an array about is.
 *
 * Who takes rows as arrays pays less for those that ours finds; so for an aggregate the numbers of
 * keys are reckoned again.
 *
 * A path whose order the query may want is kept beside the alternative, which has none.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/value.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "base/nodes.h"
#include "node/alternative.h"
#include "planner.h"

/* custom_private of a path: a list indexed by these.  custom_paths: ours, the other. */
typedef enum GjAlternativePathPrivate
{
	GJ_ALTERNATIVE_PATH_INDEX,	/* IndexOptInfo */
	GJ_ALTERNATIVE_PATH_CPU_KEYS,	/* Integer: from so many keys on ours is cheaper */
	GJ_ALTERNATIVE_PATH_DEVICE_KEYS,	/* Integer: the same, if a device searches */
	GJ_ALTERNATIVE_PATH_INPUT,	/* GjCostInput, no Node: of what these were reckoned */
	GJ_ALTERNATIVE_PATH_COUNT
} GjAlternativePathPrivate;

/* PostgreSQL's assumption (estimate_array_length) */
#define GUESSED_KEYS			10.0

/* Tells the path from the one that it contains */
#define TRIFLE					0.9999

static Path *keep(RelOptInfo *rel, Path *stock);
static Path *find_guessed_path(RelOptInfo *rel, List *conditions);
static IndexPath *get_index_path(Path *path);
static bool rests_on_guess(IndexPath *path, List *conditions);
static bool condition_is_unknown(GjKeyNode *node);
static int	count_min_keys(PlannerInfo *root, const GjCostInput *input, const Path *stock,
						   bool device, Cost saved);
static bool is_cheaper(PlannerInfo *root, const GjCostInput *input, const Path *stock,
					   bool device, double nkeys, Cost saved);
static Plan *plan_alternative(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
							  List *tlist, List *clauses, List *custom_plans);

const CustomPathMethods GjAlternativePathMethods = {
	.CustomName = GJ_ALTERNATIVE_NAME,
	.PlanCustomPath = plan_alternative,
};

/*
 * Offer a choice between our path and the cheapest other one, if the latter rests on a guess;
 * our path becomes part of it
 */
void
GjAddAlternativePath(PlannerInfo *root, const GjCostInput *input, List *conditions,
					 CustomPath *ours)
{
	RelOptInfo *rel = input->rel;
	Path	   *stock = find_guessed_path(rel, conditions);
	GjCostInput *kept;
	CustomPath *path;
	int			cpu_keys;
	int			device_keys;

	if (gj_force || stock == NULL)
		return;

	cpu_keys = count_min_keys(root, input, stock, false, 0.0);
	device_keys = count_min_keys(root, input, stock, true, 0.0);
	if (cpu_keys == PG_INT32_MAX && device_keys == PG_INT32_MAX)
		return;

	GjCostSearch(root, input, &ours->path.startup_cost, &ours->path.total_cost);
	ours->path.total_cost += ours->path.startup_cost;

	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.parallel_safe = ours->path.parallel_safe && stock->parallel_safe;
	path->path.rows = rel->rows;
	path->path.startup_cost = stock->startup_cost * TRIFLE;
	path->path.total_cost = stock->total_cost * TRIFLE;
	GjPathInheritDisabled(&path->path, stock);
	path->methods = &GjAlternativePathMethods;
	path->custom_paths = list_make2(ours, keep(rel, stock));
	kept = palloc(sizeof(GjCostInput));
	*kept = *input;
	path->custom_private = list_make4(input->index, makeInteger(cpu_keys),
									  makeInteger(device_keys), kept);
	Assert(list_length(path->custom_private) == GJ_ALTERNATIVE_PATH_COUNT);

	GjOfferNote(path);
	add_path(rel, &path->path);
}

/*
 * Keep a path from being freed with the others of the relation: by add_path(), which finds that it
 * is no better than this, or by pg_hint_plan, which begins anew.  add_path() spares index paths;
 * of these a copy will do.
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
 * Do both plans have indexes that the planner still lists?
 */
bool
GjAlternativeIsListed(const RelOptInfo *rel, const CustomPath *path)
{
	return list_member_ptr(rel->indexlist,
						   list_nth(path->custom_private, GJ_ALTERNATIVE_PATH_INDEX)) &&
		list_member_ptr(rel->indexlist, get_index_path(lsecond(path->custom_paths))->indexinfo);
}

/*
 * The same choice for who pays so much less for each row that our path finds
 */
CustomPath *
GjAlternativeForArrays(PlannerInfo *root, const CustomPath *path, Cost saved)
{
	const GjCostInput *input = list_nth(path->custom_private, GJ_ALTERNATIVE_PATH_INPUT);
	const Path *stock = lsecond(path->custom_paths);
	CustomPath *copy = makeNode(CustomPath);

	*copy = *path;
	copy->custom_private =
		list_make4(input->index,
				   makeInteger(count_min_keys(root, input, stock, false, saved)),
				   makeInteger(count_min_keys(root, input, stock, true, saved)),
				   unconstify(GjCostInput *, input));
	return copy;
}

/*
 * Return the cheapest path of the table, if it is an index scan, index-only or not, or a bitmap
 * scan for an array of unknown length
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
 * Return the path of the one index that a path uses; NULL if it is of another kind
 */
static IndexPath *
get_index_path(Path *path)
{
	if (IsA(path, BitmapHeapPath))
		path = ((BitmapHeapPath *) path)->bitmapqual;
	return IsA(path, IndexPath) ? (IndexPath *) path : NULL;
}

/*
 * Return the cheapest path of a relation that is not ours; NULL if there is none
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
			(cheapest == NULL || path->total_cost < cheapest->total_cost))
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
 * Return the number of keys from which on our path is the cheaper one; PG_INT32_MAX if it
 * never is, as far as can be told
 */
static int
count_min_keys(PlannerInfo *root, const GjCostInput *input, const Path *stock, bool device,
			   Cost saved)
{
	int			high = 1;
	int			low;

	while (!is_cheaper(root, input, stock, device, high, saved))
	{
		if (high >= GJ_MAX_ALTERNATIVE_KEYS)
			return PG_INT32_MAX;
		high *= 2;
	}
	low = high / 2;

	while (high - low > 1)
	{
		int			middle = low + (high - low) / 2;

		if (is_cheaper(root, input, stock, device, middle, saved))
			high = middle;
		else
			low = middle;
	}
	return high;
}

static bool
is_cheaper(PlannerInfo *root, const GjCostInput *input, const Path *stock, bool device,
		   double nkeys, Cost saved)
{
	GjCostInput scaled = *input;
	Cost		startup;
	Cost		run;

	scaled.nkeys = nkeys;
	scaled.nmatches = input->nmatches * nkeys / Max(input->nkeys, 1.0);
	GjCostSearchBy(root, &scaled, device, &startup, &run);
	run -= saved * scaled.nmatches * (1.0 - scaled.filtered);
	return startup + run < stock->total_cost * nkeys / GUESSED_KEYS;
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
	double		share;
	List	   *values;
	List	   *key_plan = GjMakeKeyPlan(list_nth(ours->custom_private, GJ_SCAN_PATH_CONDITIONS),
										 &values);

	scan->scan.plan.targetlist = tlist;
	scan->scan.scanrelid = rel->relid;
	scan->flags = path->flags;
	scan->methods = GjNodeMethods(GJ_ALTERNATIVE_NAME);
	scan->custom_plans = custom_plans;
	scan->custom_exprs = list_make1(values);
	scan->custom_private = list_make5(list_make1_oid(index->indexoid), key_plan,
									  list_nth(path->custom_private,
											   GJ_ALTERNATIVE_PATH_CPU_KEYS),
									  list_nth(path->custom_private,
											   GJ_ALTERNATIVE_PATH_DEVICE_KEYS),
									  GjFindPartitions(root, rel, index, &share));
	Assert(list_length(scan->custom_private) == GJ_ALTERNATIVE_PRIVATE_COUNT);

	return &scan->scan.plan;
}
