/*-------------------------------------------------------------------------
 *
 * agg.c
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
#include "nodes/value.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "utils/selfuncs.h"

#include "agg.h"
#include "alternative.h"
#include "base/compat.h"
#include "base/gpujoin.h"
#include "choice.h"
#include "joinpath.h"
#include "planner.h"

/* A column of a row that comes in an array, in operators */
#define COLUMN_OPERATIONS		0.1

/* Bytes that a row takes on disk besides its columns */
#define ROW_OVERHEAD			5.0

/* Bytes that a group takes besides its columns and states */
#define GROUP_OVERHEAD			16.0
#define STATE_BYTES				24.0

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
	switch (stage)
	{
		case UPPERREL_GROUP_AGG:
			target = output->reltarget;
			GjAggReadGroups(root, output, (List *) ((GroupPathExtraData *) extra)->havingQual,
							query);
			break;
		case UPPERREL_DISTINCT:
			target = input->reltarget;
			GjAggReadDistinct(root, target, query);
			break;
		default:
			return;
	}
	if (!gj_aggregate)
		query->refused = "gpujoin.aggregate is off";
	if (query->refused == NULL || GjChoiceIsNoted())
	{
		add_path_for(root, input, output, target, query);
		GjAddParallelAggPath(root, input, output, target, query);
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
	if (refused == NULL && !GjAggTakesFrom(query, child->pathtarget))
		refused = "what is grouped or aggregated is computed above an Append";
	if (refused == NULL && !GjAggEncodes(query, child))
		refused = "a group column's type, whose equality is not that of bits";
	if (refused != NULL)
	{
		GjChoiceAggregate(GjAggPathMethods.CustomName, child, NULL, output, refused);
		return;
	}

	path = GjAggMakePath(root, query, output, target, child);
	GjChoiceAggregate(GjAggPathMethods.CustomName, child, &path->path, output, NULL);
	if (gj_force)
		output->pathlist = NIL;
	add_path(output, &path->path);
}

/*
 * Make a path that groups a child's rows
 */
CustomPath *
GjAggMakePath(PlannerInfo *root, GjAggQuery *query, RelOptInfo *output, PathTarget *target,
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
	path->methods = query->is_partial ? &GjPartialAggPathMethods : &GjAggPathMethods;
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
	if (cheapest != NULL && GjAggGivesBatches(cheapest))
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
	AppendPath *found = GjAggFindAppend(rel, false);
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
	return GjAggGivesBatches(&append->path) ? &append->path : NULL;
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

	if (offered != NULL && (gj_force || GjAggReadCost(&offered->path) < GjAggReadCost(path)))
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
AppendPath *
GjAggFindAppend(const RelOptInfo *rel, bool is_partial)
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
bool
GjAggGivesBatches(Path *path)
{
	ListCell   *lc;

	path = strip_projection(path);
	if (IsA(path, SubqueryScanPath) && path->parent->baserestrictinfo == NIL)
		path = strip_projection(((SubqueryScanPath *) path)->subpath);
	if (IsA(path, AppendPath))
	{
		foreach(lc, ((AppendPath *) path)->subpaths)
		{
			if (GjAggGivesBatches(lfirst(lc)))
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
Cost
GjAggReadCost(Path *path)
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
void
GjAggShowReadCost(Path *path, Plan *plan)
{
	ListCell   *lc;
	ListCell   *lc2;

	plan->total_cost = GjAggReadCost(path);
	path = strip_projection(path);
	if (IsA(path, AppendPath) && IsA(plan, Append))
	{
		forboth(lc, ((AppendPath *) path)->subpaths, lc2, ((Append *) plan)->appendplans)
			GjAggShowReadCost(lfirst(lc), lfirst(lc2));
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

double
GjAggEstimateGroups(PlannerInfo *root, const GjAggQuery *query, double rows)
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
	double		ngroups = GjAggEstimateGroups(root, query, rows);
	int			ncolumns = list_length(query->groupings) + list_length(query->aggregates);
	double		group_bytes = GROUP_OVERHEAD + STATE_BYTES * list_length(query->aggregates) +
		sizeof(int64) * list_length(query->groupings);
	Cost		startup;
	Cost		run;

	query->ngroups = ngroups;
	startup = GjAggReadCost(input) +
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
