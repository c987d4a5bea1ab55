/*-------------------------------------------------------------------------
 *
 * aggpath.c
 *	  GpuAgg paths: GROUP BY, aggregates and SELECT DISTINCT over paths of ours.
 *
 * A GpuAgg takes the rows of a GpuScan, GpuJoin or GpuAlternative as arrays where they come
 * from index entries or nothing is left to do to a tuple, and one by one else.  It is offered
 * wherever one of these was offered for its input, if it can compute all that is asked for
 * (aggquery.c).
 *
 * Costs: a row that stock PostgreSQL aggregates is charged cpu_tuple_cost by the node that
 * returns it, and cpu_operator_cost for each column that is hashed and each aggregate.  A row
 * of an array is not returned by anybody, in a join neither by the scan nor by the join, and was
 * measured at 1 to 5 ns a column, a tenth of an operator.  Groups are charged what PostgreSQL
 * charges.
 *
 * Of a partitioned table or a UNION ALL, the rows of all parts go into the same groups: the
 * child is an Append, from which arrays are taken as well (agg/reader.c).  So run-time pruning
 * stays the Append's.  It has, for each part, the path that is cheapest for an aggregate.
 * Nothing is offered for the parts of a partition-wise aggregation.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "executor/nodeHash.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "port/pg_bitutils.h"
#include "utils/fmgroids.h"
#include "utils/selfuncs.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "base/nodes.h"
#include "planner.h"

/* A column of a row that comes in an array, in operators */
#define COLUMN_OPERATIONS		0.1

/* Bytes that a row takes on disk besides its columns */
#define ROW_OVERHEAD			5.0

/* Bytes that a group takes besides its columns and states */
#define GROUP_OVERHEAD			16.0
#define STATE_BYTES				24.0

/* custom_private of a path: a list indexed by these; a path is never copied */
typedef enum GjAggPathPrivate
{
	GJ_AGG_PATH_QUERY,			/* GjAggQuery, no Node */
	GJ_AGG_PATH_COUNT
} GjAggPathPrivate;

/* A plan in the making */
typedef struct Building
{
	const GjAggQuery *query;
	List	   *child_tlist;
	List	   *inputs;			/* Expr: the batch's columns that the child brings */
	List	   *columns;		/* int: which of the child's each is */
	List	   *types;			/* int: GjValueType of each column */
	List	   *computed;		/* Expr: the columns behind them */
	List	   *conditions;		/* int: for each of these, the column that must be true, or -1 */
} Building;

/* The parts of an Append: those that one process scans, and those that all divide */
typedef struct Parts
{
	List	   *whole;
	List	   *divided;
} Parts;

static bool add_distinct_path(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output);
static void add_path_for(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output,
						 PathTarget *target, GjAggQuery *query);
static Path *find_input(PlannerInfo *root, RelOptInfo *input);
static Path *append_parts(PlannerInfo *root, RelOptInfo *rel);
static List *list_parts(PlannerInfo *root, RelOptInfo *rel);
static Path *choose_part(PlannerInfo *root, Path *path);
static Path *strip_projection(Path *path);
static bool gives_arrays(Path *path);
static Path *for_arrays(PlannerInfo *root, CustomPath *path);
static Cost saved_per_row(void);
static Cost array_cost(Path *path);
static Cost scan_cost(const GjJoinScan *scan);
static Cost compute_cost(PlannerInfo *root, const GjAggQuery *query);
static Cost spill_cost(double rows, double row_bytes, double group_bytes);
static void cost_path(PlannerInfo *root, GjAggQuery *query, Path *input, CustomPath *path);
static Plan *plan_agg(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
					  List *clauses, List *custom_plans);
static void add_inputs(Building *building, Expr *expr);
static int	find_argument(const Building *building, Expr *expr);
static int	find_column(Building *building, Expr *expr, int condition);
static void add_type(Building *building, Expr *expr);
static List *list_groupings(Building *building);
static List *list_aggregates(Building *building);
static List *describe_row(const Building *building);
static List *list_row_inputs(const Building *building, List *row);
static List *list_coded(const GjAggQuery *query);
static void force(Path *path, double gathered);
static Path *find_divided_input(PlannerInfo *root, RelOptInfo *input);
static Path *append_divided_parts(PlannerInfo *root, RelOptInfo *rel);
static bool list_divided_parts(PlannerInfo *root, RelOptInfo *rel, Parts *parts);
static bool list_found_parts(PlannerInfo *root, AppendPath *append, Parts *parts);
static bool add_part(PlannerInfo *root, Path *divided, Path *whole, Parts *parts);
static bool is_ours(const Path *path);
static Path *cheaper(PlannerInfo *root, Path *path, bool is_partial);
static int	count_workers(const Parts *parts);
static const char *find_problem(PlannerInfo *root, const GjAggQuery *query, const Path *child);
static GjAggQuery *make_partial(const GjAggQuery *query);
static PathTarget *make_target(PlannerInfo *root, const PathTarget *grouped, List *clauses,
							   const GjAggQuery *partial);
static Path *finish(PlannerInfo *root, const GjAggQuery *query, RelOptInfo *input,
					RelOptInfo *output, PathTarget *target, Path *gather);
static CustomPath *agg_make_path(PlannerInfo *root, GjAggQuery *query, RelOptInfo *output,
								 PathTarget *target, Path *child);
static AppendPath *agg_find_append(const RelOptInfo *rel, bool is_partial);
static bool agg_gives_batches(Path *path);
static Cost agg_read_cost(Path *path);
static void agg_show_read_cost(Path *path, Plan *plan);
static double agg_estimate_groups(PlannerInfo *root, const GjAggQuery *query, double rows);
static void add_parallel_agg_path(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output,
								  PathTarget *target, const GjAggQuery *query);

const CustomPathMethods GjAggPathMethods = {
	.CustomName = GJ_AGG_NAME,
	.PlanCustomPath = plan_agg,
};

static const CustomPathMethods partial_agg_methods = {
	.CustomName = GJ_PARTIAL_AGG_NAME,
	.PlanCustomPath = plan_agg,
};

/*
 * Offer a GpuAgg for a step of the query above scans and joins: the body of the hook
 */
void
GjAddUpperPaths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
				RelOptInfo *output, void *extra)
{
	GjAggQuery *query;
	PathTarget *target;

	if ((stage != UPPERREL_GROUP_AGG && stage != UPPERREL_DISTINCT) ||
		IS_OTHER_REL(output) || IS_OTHER_REL(input) || IS_DUMMY_REL(input))
		return;
	if (!gj_aggregate && !GjChoiceIsNoted())
		return;
	if (gj_aggregate && stage == UPPERREL_DISTINCT && add_distinct_path(root, input, output))
		return;
	query = palloc(sizeof(GjAggQuery));
	target = GjAggReadQuery(root, stage, input, output, extra, query);
	if (!gj_aggregate)
		query->refused = "gpujoin.aggregate is off";
	if (query->refused == NULL || GjChoiceIsNoted())
	{
		add_path_for(root, input, output, target, query);
		add_parallel_agg_path(root, input, output, target, query);
	}
}

/*
 * Offer a path whose rows are distinct as they are; false: there is none
 */
static bool
add_distinct_path(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output)
{
	Path	   *path = GjFindDistinctPath(root, input);

	if (path == NULL)
		return false;
	if (gj_force)
		output->pathlist = NIL;
	add_path(output, path);
	return true;
}

static void
add_path_for(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output, PathTarget *target,
			 GjAggQuery *query)
{
	CustomPath *path;
	Path	   *child = find_input(root, input);
	const char *refused = query->refused;

	if (child == NULL)
		return;
	if (refused == NULL)
		refused = GjAggRefuseInput(query, child);
	if (refused != NULL)
	{
		GjChoiceAggregate(GjAggPathMethods.CustomName, child, NULL, output, refused);
		return;
	}

	path = agg_make_path(root, query, output, target, child);
	GjChoiceAggregate(GjAggPathMethods.CustomName, child, &path->path, output, NULL);
	if (gj_force)
		output->pathlist = NIL;
	add_path(output, &path->path);
}

/*
 * Make a path that groups a child's rows
 */
static CustomPath *
agg_make_path(PlannerInfo *root, GjAggQuery *query, RelOptInfo *output, PathTarget *target,
			  Path *child)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = output;
	path->path.pathtarget = target;
	path->path.parallel_safe = output->consider_parallel && child->parallel_safe;
	path->path.parallel_aware = query->is_partial;
	path->path.parallel_workers = query->is_partial ? child->parallel_workers : 0;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = query->is_partial ? &partial_agg_methods : &GjAggPathMethods;
	path->custom_paths = list_make1(child);
	path->custom_private = list_make1(query);
	Assert(list_length(path->custom_private) == GJ_AGG_PATH_COUNT);
	GjPathInheritDisabled(&path->path, child);
	cost_path(root, query, child, path);
	return path;
}

/*
 * The path of ours that gives the input's rows, with the target that the input has by now;
 * NULL if there is none
 *
 * A subquery's is that of PostgreSQL's choice, which was made when it was planned.
 */
static Path *
find_input(PlannerInfo *root, RelOptInfo *input)
{
	CustomPath *offered = GjOfferFind(input, false);
	Path	   *cheapest = input->cheapest_total_path;
	Path	   *append;

	if (offered != NULL)
		return GjPathWithTarget(root, for_arrays(root, offered), input->reltarget);
	append = append_parts(root, input);
	if (append != NULL)
		return append;
	if (cheapest == NULL)
		cheapest = input->pathlist == NIL ? NULL : linitial(input->pathlist);
	if (cheapest != NULL && agg_gives_batches(cheapest))
		return cheapest;
	return NULL;
}

/*
 * The parts of a partitioned table, a table with children or a UNION ALL, one after another;
 * NULL if it has none of ours, or is none of these
 *
 * Columns have the same places in the parts' targets and in the whole's.  Of a partitioned
 * relation, the parts have got the target that the whole has by now.  Of others they have not:
 * then it is computed above the Append, and the aggregates take their columns from below.
 */
static Path *
append_parts(PlannerInfo *root, RelOptInfo *rel)
{
	AppendPath *found = agg_find_append(rel, false);
	PathTarget *target = rel->reltarget;
	List	   *parts = NIL;
	AppendPath *append;
	ListCell   *lc;

	if (IS_PARTITIONED_REL(rel))
		parts = list_parts(root, rel);
	else if (found != NULL)
	{
		target = found->path.pathtarget;
		foreach(lc, found->subpaths)
			parts = lappend(parts, choose_part(root, lfirst(lc)));
	}
	if (parts == NIL)
		return NULL;
	append = create_append_path(root, rel, parts, NIL, NIL, NULL, 0, false, -1);
	append->path.pathtarget = target;
	return agg_gives_batches(&append->path) ? &append->path : NULL;
}

static List *
list_parts(PlannerInfo *root, RelOptInfo *rel)
{
	List	   *parts = NIL;

	for (int i = 0; i < rel->nparts; i++)
	{
		RelOptInfo *part = rel->part_rels[i];

		if (part == NULL || IS_DUMMY_REL(part))
			continue;
		if (IS_PARTITIONED_REL(part))
			parts = list_concat(parts, list_parts(root, part));
		else
			parts = lappend(parts, choose_part(root, part->cheapest_total_path));
	}
	return parts;
}

/*
 * A path that gives the same rows and is cheaper for an aggregate, if one was offered
 */
static Path *
choose_part(PlannerInfo *root, Path *path)
{
	CustomPath *offered = GjOfferFind(path->parent, false);

	if (offered != NULL && (gj_force || agg_read_cost(&offered->path) < agg_read_cost(path)))
		return GjPathWithTarget(root, for_arrays(root, offered), path->pathtarget);
	return path;
}

/*
 * If the execution chooses between two paths, let it know that rows of ours cost less
 */
static Path *
for_arrays(PlannerInfo *root, CustomPath *path)
{
	if (path->methods == &GjAlternativePathMethods && gives_arrays(linitial(path->custom_paths)))
		path = GjAlternativeForArrays(root, path, saved_per_row());
	return &path->path;
}

/*
 * Find an Append among a relation's paths, or among those that each process takes a part of
 */
static AppendPath *
agg_find_append(const RelOptInfo *rel, bool is_partial)
{
	ListCell   *lc;

	foreach(lc, is_partial ? rel->partial_pathlist : rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (IsA(path, ProjectionPath))
			path = ((ProjectionPath *) path)->subpath;
		if (IsA(path, AppendPath) &&
			(is_partial || (!path->parallel_aware && PATH_REQ_OUTER(path) == NULL)))
			return (AppendPath *) path;
	}
	return NULL;
}

/*
 * Have a path return these columns.  All of ours can.
 */
Path *
GjPathWithTarget(PlannerInfo *root, Path *path, PathTarget *target)
{
	if (equal(path->pathtarget->exprs, target->exprs))
	{
		path->pathtarget = target;
		return path;
	}
	return (Path *) create_projection_path(root, path->parent, path, target);
}

static Path *
strip_projection(Path *path)
{
	while (IsA(path, ProjectionPath) && ((ProjectionPath *) path)->dummypp)
		path = ((ProjectionPath *) path)->subpath;
	return path;
}

/*
 * Does a path of ours give the rows, as far as the planner can tell?
 */
static bool
agg_gives_batches(Path *path)
{
	ListCell   *lc;

	path = strip_projection(path);
	if (IsA(path, SubqueryScanPath) && path->parent->baserestrictinfo == NIL)
		path = strip_projection(((SubqueryScanPath *) path)->subpath);
	if (IsA(path, AppendPath))
	{
		foreach(lc, ((AppendPath *) path)->subpaths)
		{
			if (agg_gives_batches(lfirst(lc)))
				return true;
		}
	}
	return IsA(path, CustomPath) &&
		(GjPathIsOurs(path) || ((CustomPath *) path)->methods == &GjAggPathMethods ||
		 ((CustomPath *) path)->methods == &GjAlternativePathMethods);
}

/*
 * Do its rows come from index entries, so that nobody returns them one by one?  They do where
 * no filter needs a row.
 */
static bool
gives_arrays(Path *path)
{
	CustomPath *custom = (CustomPath *) strip_projection(path);
	GjJoinCandidate *cand;
	ListCell   *lc;

	if (!IsA(custom, CustomPath))
		return false;
	if (custom->methods == &GjScanPathMethods)
		return boolVal(list_nth(custom->custom_private, GJ_SCAN_PATH_INDEX_ONLY)) &&
			GjFilterTakesAll(custom->path.parent,
							 list_nth(custom->custom_private, GJ_SCAN_PATH_INDEX),
							 GjScanPathFilters(custom));
	if (custom->methods != &GjJoinPathMethods)
		return false;
	cand = list_nth(custom->custom_private, GJ_JOIN_PATH_CANDIDATE);
	foreach(lc, cand->scans)
	{
		const GjJoinScan *scan = lfirst(lc);

		if (!scan->index_only ||
			!GjFilterTakesAll(scan->table, scan->index, scan->table->baserestrictinfo))
			return false;
	}
	return true;
}

/* Costs ---------------------------------------------------------------------------- */

/*
 * What a row costs less if nobody returns it
 */
static Cost
saved_per_row(void)
{
	return cpu_tuple_cost * (1.0 - COLUMN_OPERATIONS);
}

/*
 * What it costs to read all rows, if those that come in arrays need not be returned
 */
static Cost
agg_read_cost(Path *path)
{
	Cost		saved = array_cost(path) * (1.0 - COLUMN_OPERATIONS);

	return gj_force ? path->total_cost : Max(path->total_cost - saved, path->startup_cost);
}

/*
 * Set the costs of a plan below a GpuAgg, and of those below it, to what the GpuAgg was charged
 * for reading its rows, so that the costs that EXPLAIN shows add up
 *
 * The plan has been chosen already, so this changes no choice.
 */
static void
agg_show_read_cost(Path *path, Plan *plan)
{
	ListCell   *lc;
	ListCell   *lc2;

	plan->total_cost = agg_read_cost(path);
	path = strip_projection(path);
	if (IsA(path, AppendPath) && IsA(plan, Append))
	{
		forboth(lc, ((AppendPath *) path)->subpaths, lc2, ((Append *) plan)->appendplans)
			agg_show_read_cost(lfirst(lc), lfirst(lc2));
	}
	else if (gives_arrays(path) && ((CustomPath *) path)->methods == &GjJoinPathMethods &&
			 !gj_force)
	{
		List	   *scans = ((GjJoinCandidate *) list_nth(((CustomPath *) path)->custom_private,
														  GJ_JOIN_PATH_CANDIDATE))->scans;
		List	   *plans = ((CustomScan *) plan)->custom_plans;	/* the small side's first */

		Assert(list_length(plans) == list_length(scans) + 1);
		foreach(lc, scans)
		{
			Plan	   *scan_plan = list_nth(plans, foreach_current_index(lc) + 1);
			Cost		saved = scan_cost(lfirst(lc)) * (1.0 - COLUMN_OPERATIONS);

			scan_plan->total_cost = Max(scan_plan->total_cost - saved, scan_plan->startup_cost);
		}
	}
}

/*
 * What is charged for returning rows that come in arrays: in a join, by the scans, too, and for
 * looking each of them up
 */
static Cost
array_cost(Path *path)
{
	CustomPath *custom = (CustomPath *) strip_projection(path);
	Cost		cost = 0.0;
	ListCell   *lc;

	if (IsA(path, AppendPath))
	{
		foreach(lc, ((AppendPath *) path)->subpaths)
			cost += array_cost(lfirst(lc));
		return cost;
	}
	if (!gives_arrays(path))
		return 0.0;
	if (custom->methods == &GjScanPathMethods)
		return intVal(list_nth(custom->custom_private, GJ_SCAN_PATH_CHARGED)) * cpu_tuple_cost;
	cost = path->rows * cpu_tuple_cost;
	foreach(lc, ((GjJoinCandidate *) list_nth(custom->custom_private,
											  GJ_JOIN_PATH_CANDIDATE))->scans)
		cost += scan_cost(lfirst(lc));
	return cost;
}

/*
 * Return the part of array_cost() that belongs to one scan of a join
 */
static Cost
scan_cost(const GjJoinScan *scan)
{
	return scan->rows * (cpu_tuple_cost + cpu_operator_cost);
}

static double
agg_estimate_groups(PlannerInfo *root, const GjAggQuery *query, double rows)
{
	if (query->groupings == NIL)
		return 1.0;
	return estimate_num_groups(root, query->groupings, rows, NULL, NULL);
}

/*
 * What is computed for each row: FILTER conditions, and arguments that are expressions
 */
static Cost
compute_cost(PlannerInfo *root, const GjAggQuery *query)
{
	QualCost	cost;
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, query->aggregates)
	{
		exprs = lappend(exprs, lfirst_node(Aggref, lc)->aggfilter);
		exprs = lappend(exprs, GjAggregateArgument(lfirst_node(Aggref, lc)));
	}
	cost_qual_eval_node(&cost, (Node *) exprs, root);
	return cost.per_tuple;
}

/*
 * What it costs to write rows of groups for which there is no memory, and to read them again:
 * pages as PostgreSQL counts them for its own hash table, and a row for each time it is written
 */
static Cost
spill_cost(double rows, double row_bytes, double group_bytes)
{
	double		limit = get_hash_memory_limit();
	double		passes = ceil(group_bytes / limit);
	double		parts = Max(4.0, Min(limit / 8 / BLCKSZ, 64.0));
	double		times = passes > 1.0 ? ceil(log(passes) / log(parts)) : 0.0;
	double		pages = rows * row_bytes / BLCKSZ;

	return times * (2.0 * pages * (random_page_cost + seq_page_cost) + rows * cpu_tuple_cost);
}

/*
 * All rows are read before the first group is returned
 */
static void
cost_path(PlannerInfo *root, GjAggQuery *query, Path *input, CustomPath *path)
{
	double		rows = input->rows;
	double		ngroups = agg_estimate_groups(root, query, rows);
	int			ncolumns = list_length(query->groupings) + list_length(query->aggregates);
	double		group_bytes = GROUP_OVERHEAD + STATE_BYTES * list_length(query->aggregates) +
		sizeof(int64) * list_length(query->groupings);
	Cost		startup;
	Cost		run;

	query->ngroups = ngroups;
	startup = agg_read_cost(input) +
		rows * ncolumns * COLUMN_OPERATIONS * cpu_operator_cost + rows * compute_cost(root, query);
	if (!query->is_partial)
		startup += spill_cost(rows, ROW_OVERHEAD + sizeof(int64) * ncolumns, ngroups * group_bytes);
	else if (ngroups * group_bytes > get_hash_memory_limit())
		ngroups = rows;			/* when memory is full, groups are returned before they are whole */
	run = ngroups * (cpu_tuple_cost + cpu_operator_cost * list_length(query->aggregates));

	path->path.rows = ngroups;
	if (query->having != NIL)
	{
		QualCost	quals;

		cost_qual_eval(&quals, query->having, root);
		startup += quals.startup;
		run += ngroups * quals.per_tuple;
		path->path.rows = clamp_row_est(ngroups * clauselist_selectivity(root, query->having, 0,
																		 JOIN_INNER, NULL));
	}
	path->path.startup_cost = startup + path->path.pathtarget->cost.startup;
	path->path.total_cost = path->path.startup_cost + run +
		path->path.pathtarget->cost.per_tuple * path->path.rows;
}

/*-------------------------------------------------------------------------
 * Building paths and plans
 *
 * Build the plan of a GpuAgg path (agg.c).
 *
 * A batch has the columns of the child that are needed, and behind them what is computed from
 * these for each row: FILTER conditions, and arguments of aggregates that are expressions.
 * Such an expression stands in custom_exprs, where core adjusts it and sees its parameters.
 * There its Vars become columns of the node's own row, as custom_scan_tlist describes it; so
 * that has all of them, besides the groups' columns and the aggregates.
 *-------------------------------------------------------------------------
 */

/*
 * PlanCustomPath
 */
static Plan *
plan_agg(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
		 List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	GjAggQuery *query = list_nth(path->custom_private, GJ_AGG_PATH_QUERY);
	Building	building = {
		.query = query,
		.child_tlist = ((Plan *) linitial(custom_plans))->targetlist,
	};
	List	   *groupings;
	List	   *aggregates;
	ListCell   *lc;

	GjChoiceTaken(path);
	agg_show_read_cost(linitial(path->custom_paths), linitial(custom_plans));
	foreach(lc, query->groupings)
		add_inputs(&building, lfirst(lc));
	foreach(lc, query->aggregates)
	{
		add_inputs(&building, GjAggregateArgument(lfirst_node(Aggref, lc)));
		add_inputs(&building, lfirst_node(Aggref, lc)->aggfilter);
	}
	groupings = list_groupings(&building);
	aggregates = list_aggregates(&building);

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = query->having;
	scan->custom_scan_tlist = describe_row(&building);
	scan->custom_exprs = copyObject(building.computed);
	scan->custom_plans = custom_plans;
	scan->custom_private = list_make4(building.columns, building.types, groupings, aggregates);
	scan->custom_private = lappend(scan->custom_private, building.conditions);
	scan->custom_private = lappend(scan->custom_private,
								   list_row_inputs(&building, scan->custom_scan_tlist));
	scan->custom_private = lappend(scan->custom_private,
								   makeInteger((int) Min(query->ngroups, INT_MAX)));
	scan->custom_private = lappend(scan->custom_private, list_coded(query));
	Assert(list_length(scan->custom_private) == GJ_AGG_PRIVATE_COUNT);
	scan->flags = path->flags;
	scan->methods = GjNodeMethods(path->methods->CustomName);
	return &scan->scan.plan;
}

/*
 * Have a batch bring an expression, if the child does, or else the columns of which it is made
 */
static void
add_inputs(Building *building, Expr *expr)
{
	TargetEntry *entry;
	ListCell   *lc;

	if (expr == NULL || find_argument(building, expr) >= 0)
		return;
	entry = tlist_member(expr, building->child_tlist);
	if (entry != NULL)
	{
		building->inputs = lappend(building->inputs, expr);
		building->columns = lappend_int(building->columns, entry->resno);
		if (list_member(building->query->coded, expr))
			building->types = lappend_int(building->types, GJ_VALUE_INT4);
		else
			add_type(building, expr);
		return;
	}
	if (IsA(expr, Var))
		elog(ERROR, "a GpuAgg's input lacks a column");
	foreach(lc, pull_var_clause((Node *) expr, 0))
		add_inputs(building, lfirst(lc));
}

/*
 * Which column of a batch is this, from 0?  -1: none that the child brings.
 */
static int
find_argument(const Building *building, Expr *expr)
{
	ListCell   *lc;

	foreach(lc, building->inputs)
	{
		if (equal(lfirst(lc), expr))
			return foreach_current_index(lc);
	}
	return -1;
}

static void
add_type(Building *building, Expr *expr)
{
	GjValueType type = GJ_VALUE_BOOL;

	if (!GjValueTypeOf(exprType((Node *) expr), &type))
		elog(ERROR, "a GpuAgg does not know a column's type");
	building->types = lappend_int(building->types, type);
}

/*
 * Which column is an expression, that may have to be computed?  Where it is an aggregate's
 * argument, it is needed only where the condition is true, and may fail elsewhere.
 */
static int
find_column(Building *building, Expr *expr, int condition)
{
	int			n = expr == NULL ? -1 : find_argument(building, expr);
	ListCell   *lc;
	ListCell   *lc2;

	if (expr == NULL || n >= 0)
		return n;
	n = list_length(building->columns);
	forboth(lc, building->computed, lc2, building->conditions)
	{
		if (equal(lfirst(lc), expr) && lfirst_int(lc2) == condition)
			return n;
		n++;
	}
	building->computed = lappend(building->computed, expr);
	building->conditions = lappend_int(building->conditions, condition);
	add_type(building, expr);
	return n;
}

static List *
list_groupings(Building *building)
{
	List	   *groupings = NIL;
	ListCell   *lc;

	foreach(lc, building->query->groupings)
		groupings = lappend_int(groupings, find_argument(building, lfirst(lc)));
	return groupings;
}

static List *
list_aggregates(Building *building)
{
	List	   *aggregates = NIL;
	ListCell   *lc;

	foreach(lc, building->query->aggregates)
	{
		Aggref	   *aggref = lfirst_node(Aggref, lc);
		int			filter = find_column(building, aggref->aggfilter, -1);
		int			argument = find_column(building, GjAggregateArgument(aggref), filter);
		GjAggKind	kind = GJ_AGG_COUNT_ROWS;

		GjAggregateOf(aggref, &kind);
		/* PostgreSQL takes one state for both, which is avg()'s (aggpartial.c) */
		if (building->query->is_partial && aggref->aggfnoid == F_SUM_INT8)
			kind = GJ_AGG_AVG;
		aggregates = lappend_int(aggregates, kind);
		aggregates = lappend_int(aggregates, argument);
		aggregates = lappend_int(aggregates, filter);
	}
	return aggregates;
}

/*
 * The node's own row: group columns, then aggregates, then what else is needed to compute
 * columns of a batch
 */
static List *
describe_row(const Building *building)
{
	List	   *exprs = list_concat_copy(building->query->groupings, building->query->aggregates);
	List	   *tlist = NIL;
	ListCell   *lc;

	exprs = list_concat_unique(exprs, pull_var_clause((Node *) building->computed, 0));
	foreach(lc, exprs)
		tlist = lappend(tlist, makeTargetEntry(copyObject((Expr *) lfirst(lc)),
											   list_length(tlist) + 1, NULL, false));
	return tlist;
}

/*
 * For each column of that row, which one of a batch it is, or -1
 */
static List *
list_row_inputs(const Building *building, List *row)
{
	List	   *inputs = NIL;
	ListCell   *lc;

	foreach(lc, row)
		inputs = lappend_int(inputs, find_argument(building, lfirst_node(TargetEntry, lc)->expr));
	return inputs;
}

/*
 * The group columns for whose values numbers are taken
 */
static List *
list_coded(const GjAggQuery *query)
{
	List	   *coded = NIL;
	ListCell   *lc;

	foreach(lc, query->groupings)
	{
		if (list_member(query->coded, lfirst(lc)))
			coded = lappend_int(coded, foreach_current_index(lc));
	}
	return coded;
}

/*-------------------------------------------------------------------------
 * Parallel plans
 *
 * GpuAgg in parallel plans: partial groups below Gather, which PostgreSQL finishes above.
 *
 * The processes divide the input's rows, as its scans and joins do anyway, and each groups its
 * share.  What a process returns for a group are its aggregates' states, in PostgreSQL's own
 * formats: so PostgreSQL's Finalize Aggregate combines them and has the results, the errors and
 * HAVING.  Of SELECT DISTINCT there is nothing to combine, and its own node drops what two
 * processes have both found.  A group goes through Gather once for each process that has rows
 * of it; so this pays where groups are few and rows are many, and the costs say so.
 *
 * count(DISTINCT) has no states.  It would need none if each group were whole in one process;
 * but how the processes divide rows is found out when they run (exec/parallel.c).
 *
 * The hook for upper relations is not called for partial groups, so the whole plan is made here,
 * up to the node that finishes.
 *-------------------------------------------------------------------------
 */

/*
 * Offer a parallel plan for groups, aggregates or distinct rows of an input that is divided
 */
static void
add_parallel_agg_path(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output,
					  PathTarget *target, const GjAggQuery *query)
{
	const char *node = partial_agg_methods.CustomName;
	PathTarget *states = target;
	const char *refused;
	GjAggQuery *partial;
	CustomPath *path;
	Path	   *gather;
	Path	   *finished;
	Path	   *child;
	double		rows;

	if (!input->consider_parallel || !output->consider_parallel ||
		(child = find_divided_input(root, input)) == NULL)
		return;
	refused = find_problem(root, query, child);
	if (refused != NULL)
	{
		GjChoiceAggregate(node, child, NULL, output, refused);
		return;
	}

	partial = make_partial(query);
	if (!query->is_distinct)
		states = make_target(root, target, root->parse->groupClause, partial);
	path = agg_make_path(root, partial, output, states, child);
	rows = path->path.rows * path->path.parallel_workers;
	gather = (Path *) create_gather_path(root, output, &path->path, states, NULL, &rows);
	finished = finish(root, query, input, output, target, gather);
	if (gj_force)
		force(finished, rows);
	GjChoiceAggregate(node, child, finished, output, NULL);
	add_path(output, finished);
}

/*
 * With gpujoin.force, a parallel plan is taken where being parallel costs nothing
 */
static void
force(Path *path, double gathered)
{
	Cost		cost = parallel_setup_cost + parallel_tuple_cost * gathered;

	path->startup_cost = path->startup_cost * GJ_FORCED_COST_SCALE + cost;
	path->total_cost = path->total_cost * GJ_FORCED_COST_SCALE + cost;
}

/* The input ------------------------------------------------------------------------ */

/*
 * A path of ours that several processes divide, with the target that the input has by now;
 * NULL if there is none
 */
static Path *
find_divided_input(PlannerInfo *root, RelOptInfo *input)
{
	CustomPath *offered = GjOfferFind(input, true);
	Path	   *append;

	if (offered != NULL)
		return GjPathWithTarget(root, &offered->path, input->reltarget);
	append = append_divided_parts(root, input);
	if (append != NULL)
		return append;
	if (input->partial_pathlist != NIL && agg_gives_batches(linitial(input->partial_pathlist)))
		return linitial(input->partial_pathlist);
	return NULL;
}

/*
 * The parts of a partitioned table, a table with children or a UNION ALL, as in a serial plan
 * (agg.c): divided where they can be; one that cannot is scanned by one process, while others
 * are at other parts
 */
static Path *
append_divided_parts(PlannerInfo *root, RelOptInfo *rel)
{
	AppendPath *found = agg_find_append(rel, true);
	PathTarget *target = rel->reltarget;
	Parts		parts = {NIL, NIL};
	AppendPath *append;
	int			workers;

	if (IS_PARTITIONED_REL(rel))
	{
		if (!list_divided_parts(root, rel, &parts))
			return NULL;
	}
	else if (found == NULL || !list_found_parts(root, found, &parts))
		return NULL;
	else
		target = found->path.pathtarget;

	workers = count_workers(&parts);
	if (workers == 0)
		return NULL;
	append = create_append_path(root, rel, parts.whole, parts.divided, NIL, NULL, workers,
								enable_parallel_append, -1);
	append->path.pathtarget = target;
	return agg_gives_batches(&append->path) ? &append->path : NULL;
}

static bool
list_divided_parts(PlannerInfo *root, RelOptInfo *rel, Parts *parts)
{
	for (int i = 0; i < rel->nparts; i++)
	{
		RelOptInfo *part = rel->part_rels[i];
		bool		listed;

		if (part == NULL || IS_DUMMY_REL(part))
			continue;
		if (IS_PARTITIONED_REL(part))
			listed = list_divided_parts(root, part, parts);
		else
			listed = add_part(root,
							  part->partial_pathlist ? linitial(part->partial_pathlist) : NULL,
							  part->cheapest_total_path, parts);
		if (!listed)
			return false;
	}
	return true;
}

static bool
list_found_parts(PlannerInfo *root, AppendPath *append, Parts *parts)
{
	ListCell   *lc;

	foreach(lc, append->subpaths)
	{
		Path	   *path = lfirst(lc);
		bool		is_divided = foreach_current_index(lc) >= append->first_partial_path;

		if (!add_part(root, is_divided ? path : NULL, is_divided ? NULL : path, parts))
			return false;
	}
	return true;
}

/*
 * Add the best path for a part, given PostgreSQL's, each of which may be NULL; return false if
 * neither can be used.
 *
 * As PostgreSQL does, let one process scan a part where that is cheaper than its share.  But of two
 * paths of ours take the divided one: of the other, the Append would divide all of the cost among
 * the workers, pages included (cost.c).
 */
static bool
add_part(PlannerInfo *root, Path *divided, Path *whole, Parts *parts)
{
	bool		is_whole = enable_parallel_append && whole != NULL && whole->parallel_safe;

	if (divided == NULL && !is_whole)
		return false;
	if (divided != NULL)
		divided = cheaper(root, divided, true);
	if (is_whole)
		whole = cheaper(root, whole, false);
	if (divided == NULL ||
		(is_whole && !(is_ours(divided) && is_ours(whole)) &&
		 agg_read_cost(whole) < agg_read_cost(divided)))
		parts->whole = lappend(parts->whole, whole);
	else
		parts->divided = lappend(parts->divided, divided);
	return true;
}

static bool
is_ours(const Path *path)
{
	if (IsA(path, ProjectionPath))
		path = ((const ProjectionPath *) path)->subpath;
	return GjPathIsOurs(path);
}

/*
 * A path of ours for the same rows, if it is cheaper for an aggregate
 */
static Path *
cheaper(PlannerInfo *root, Path *path, bool is_partial)
{
	CustomPath *offered = GjOfferFind(path->parent, is_partial);

	if (offered == NULL || !offered->path.parallel_safe ||
		(!gj_force && agg_read_cost(&offered->path) >= agg_read_cost(path)))
		return path;
	return GjPathWithTarget(root, &offered->path, path->pathtarget);
}

/*
 * As many workers as the part with the most has; for many parts, as many as PostgreSQL takes
 */
static int
count_workers(const Parts *parts)
{
	int			nparts = list_length(parts->whole) + list_length(parts->divided);
	int			workers = 0;
	ListCell   *lc;

	foreach(lc, parts->divided)
		workers = Max(workers, ((Path *) lfirst(lc))->parallel_workers);
	if (enable_parallel_append && nparts > 0)
		workers = Max(workers, pg_leftmost_one_pos32(nparts) + 1);
	return Min(workers, max_parallel_workers_per_gather);
}

/* The plan above ------------------------------------------------------------------- */

/*
 * Why groups cannot be made in parts; NULL: they can
 */
static const char *
find_problem(PlannerInfo *root, const GjAggQuery *query, const Path *child)
{
	if (query->refused != NULL)
		return query->refused;
	if (root->hasNonPartialAggs || root->hasNonSerialAggs)
		return "an aggregate with DISTINCT, which has no partial states";
	return GjAggRefuseInput(query, child);
}

/*
 * The same without HAVING, and with states instead of results
 */
static GjAggQuery *
make_partial(const GjAggQuery *query)
{
	GjAggQuery *partial = palloc(sizeof(GjAggQuery));
	ListCell   *lc;

	*partial = *query;
	partial->is_partial = true;
	partial->having = NIL;
	partial->aggregates = NIL;
	foreach(lc, query->aggregates)
	{
		Aggref	   *aggref = makeNode(Aggref);

		*aggref = *lfirst_node(Aggref, lc);
		mark_partial_aggref(aggref, AGGSPLIT_INITIAL_SERIAL);
		partial->aggregates = lappend(partial->aggregates, aggref);
	}
	return partial;
}

/*
 * What the processes return: group columns, under the numbers by which GROUP BY finds them, and
 * states
 */
static PathTarget *
make_target(PlannerInfo *root, const PathTarget *grouped, List *clauses,
			const GjAggQuery *partial)
{
	PathTarget *target = create_empty_pathtarget();
	ListCell   *lc;

	foreach(lc, grouped->exprs)
	{
		Index		ref = get_pathtarget_sortgroupref(grouped, foreach_current_index(lc));

		if (ref != 0 && get_sortgroupref_clause_noerr(ref, clauses) != NULL)
			add_column_to_pathtarget(target, lfirst(lc), ref);
	}
	add_new_columns_to_pathtarget(target, partial->groupings);
	add_new_columns_to_pathtarget(target, partial->aggregates);
	return set_pathtarget_cost_width(root, target);
}

/*
 * Have PostgreSQL put together what the processes return
 */
static Path *
finish(PlannerInfo *root, const GjAggQuery *query, RelOptInfo *input, RelOptInfo *output,
	   PathTarget *target, Path *gather)
{
	Query	   *parse = root->parse;
	AggClauseCosts costs = {0};
	double		ngroups = agg_estimate_groups(root, query, input->rows);

	if (query->is_distinct)
		return (Path *) create_agg_path(root, output, gather, target, AGG_HASHED,
										AGGSPLIT_SIMPLE, parse->distinctClause, NIL, NULL,
										ngroups);
	get_agg_clause_costs(root, AGGSPLIT_FINAL_DESERIAL, &costs);
	return (Path *) create_agg_path(root, output, gather, target,
									parse->groupClause != NIL ? AGG_HASHED : AGG_PLAIN,
									AGGSPLIT_FINAL_DESERIAL, parse->groupClause,
									query->having, &costs, ngroups);
}
