/*-------------------------------------------------------------------------
 *
 * aggpath.c
 *	  GpuAgg paths: GROUP BY, aggregates and SELECT DISTINCT over paths of ours.
 *
 * A GpuAgg reads the rows of a GpuScan or GpuJoin in batches if they come from index entries or if
 * nothing remains to be done to a tuple, and one by one otherwise.  We offer it wherever one of
 * these was offered for its input, if it can compute everything that the query asks for
 * (aggquery.c).
 *
 * Costs: PostgreSQL charges a row cpu_tuple_cost for the node that returns it, and
 * cpu_operator_cost for each column that is hashed and for each aggregate.  Rows that are read in
 * batches are not charged for being returned, not even by the scans of a join, and a column of
 * such a row counts as a tenth of an operator: it was measured at 1 to 5 ns.  Groups are charged
 * as in PostgreSQL.  Rows that a device can reduce (exec/reduction.c) are free, except for the
 * request.  So a plan of one process, for which the device reduces them, wins over a parallel
 * plan, to which it would deliver them.
 *
 * The rows of all parts of a partitioned table or a UNION ALL go into the same groups: the child
 * is an Append, which can also be read in batches (agg/reader.c).  So the Append does run-time
 * pruning.  It has, for each part, the path that is cheapest for an aggregate.  We offer nothing
 * for the parts of a partition-wise aggregation.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "executor/nodeHash.h"
#include "nodes/value.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "port/pg_bitutils.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "base/compat.h"
#include "base/settings.h"
#include "match/match.h"
#include "service/service.h"
#include "planner.h"

/* Cost of a column of a batch, in operators */
#define COLUMN_OPERATIONS		0.1

/* Bytes of a row on disk in addition to its columns */
#define ROW_OVERHEAD			5.0

/* Bytes of a group in addition to its columns and states, and of a state */
#define GROUP_OVERHEAD			16.0
#define STATE_BYTES				24.0

/* The parts of an Append: those that one process scans, and those that all processes share */
typedef struct Parts
{
	List	   *whole;
	List	   *divided;
} Parts;

static void keep_from_workers(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output);
static Path *find_grouped(Path *path);
static void add_path_for(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output,
						 PathTarget *target, GjAggQuery *query);
static Path *find_input(PlannerInfo *root, RelOptInfo *input);
static Path *append_parts(PlannerInfo *root, RelOptInfo *rel);
static List *list_parts(PlannerInfo *root, RelOptInfo *rel);
static Path *strip_projection(Path *path);
static bool gives_arrays(Path *path);
static void show_at_most(Plan *plan, Cost cost);
static Cost array_cost(Path *path);
static Cost scan_cost(const GjJoinScan *scan);
static double rows_charged(const CustomPath *path);
static Cost reduced_cost(const GjAggQuery *query, Path *path);
static Cost request_cost(const CustomPath *path);
static double reduced_share(const GjAggQuery *query, Path *path);
static double share_on_device(const IndexOptInfo *index);
static double share_of_scans(const GjJoinCandidate *cand);
static Index named_table(const CustomPath *path, const RelOptInfo *rel);
static const GjJoinCandidate *candidate_of(const CustomPath *path);
static const IndexOptInfo *index_of(const CustomPath *path);
static bool is_reducible(const GjAggQuery *query, const Aggref *aggref, Index table);
static Cost compute_cost(PlannerInfo *root, const GjAggQuery *query);
static Cost spill_cost(double rows, double row_bytes, double group_bytes);
static void cost_path(PlannerInfo *root, GjAggQuery *query, Path *input, CustomPath *path);
static Path *find_divided_input(PlannerInfo *root, RelOptInfo *input);
static Path *append_divided_parts(PlannerInfo *root, RelOptInfo *rel);
static bool list_divided_parts(PlannerInfo *root, RelOptInfo *rel, Parts *parts);
static bool list_found_parts(PlannerInfo *root, AppendPath *append, Parts *parts);
static bool aggpath_add_part(PlannerInfo *root, Path *divided, Path *whole, Parts *parts);
static bool is_ours(const Path *path);
static Path *cheaper(PlannerInfo *root, Path *path, bool is_partial, bool in_parallel);
static int	count_workers(const Parts *parts);
static GjAggQuery *make_partial(const GjAggQuery *query);
static PathTarget *make_target(PlannerInfo *root, const GjAggQuery *partial);
static Path *finish(PlannerInfo *root, const GjAggQuery *query, RelOptInfo *input,
					RelOptInfo *output, PathTarget *target, Path *gather);
static CustomPath *agg_make_path(PlannerInfo *root, GjAggQuery *query, RelOptInfo *output,
								 PathTarget *target, Path *child);
static AppendPath *agg_find_append(const RelOptInfo *rel, bool is_partial);
static bool agg_gives_batches(Path *path);
static Cost agg_read_cost(Path *path);
static double agg_estimate_groups(PlannerInfo *root, const GjAggQuery *query, double rows);
static void add_parallel_agg_path(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output,
								  PathTarget *target, GjAggQuery *query);

/*
 * Offer a GpuAgg for a step of the query above scans and joins: the body of the hook
 */
void
GjAddUpperPaths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
				RelOptInfo *output, void *extra)
{
	GjAggQuery *query;
	PathTarget *target;

	if ((stage != UPPERREL_GROUP_AGG && stage != UPPERREL_DISTINCT) || IS_DUMMY_REL(input))
		return;
	if (IS_OTHER_REL(output) || IS_OTHER_REL(input))
	{
		if (IS_OTHER_REL(input) && !gj_force)
			keep_from_workers(root, input, output);
		return;
	}
	if (!gj_aggregate && !GjChoiceIsNoted())
		return;
	if (gj_aggregate && stage == UPPERREL_DISTINCT && GjAddDistinctPath(root, input, output))
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
 * Let no worker group the rows of a whole part if starting workers takes longer
 *
 * In a partition-wise aggregation, PostgreSQL's Parallel Append takes a part's non-partial path if
 * that is cheaper than its partial path, and divides all of its cost among the workers, including
 * that of cached pages (cost.c).  So grouping twelve partitions, which took 4 ms in one process,
 * took 25 ms with two workers.  Here we compare processor time only, which we estimate as two
 * cpu_tuple_cost for each row that our path finds and returns.
 */
static void
keep_from_workers(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output)
{
	const RelOptInfo *top = IS_SIMPLE_REL(input) ?
		find_base_rel(root, bms_singleton_member(input->top_parent_relids)) :
		find_join_rel(root, input->top_parent_relids);
	double		nprocesses = max_parallel_workers_per_gather + 1.0;
	ListCell   *lc;

	foreach(lc, output->pathlist)
	{
		Path	   *path = lfirst(lc);
		Path	   *ours = find_grouped(path);
		Cost		whole;

		if (ours == NULL || top == NULL)
			continue;
		whole = path->total_cost - ours->total_cost +
			ours->rows * 2.0 * cpu_tuple_cost * GjCostUnit(input, gives_arrays(ours));
		whole *= Max(top->rows / Max(input->rows, 1.0), 1.0);
		if (whole * (1.0 - 1.0 / nprocesses) < parallel_setup_cost * nprocesses)
			path->parallel_safe = false;
	}
}

/*
 * Return the path of ours whose rows a path of PostgreSQL's groups, or NULL
 */
static Path *
find_grouped(Path *path)
{
	if (IsA(path, ProjectionPath))
		return find_grouped(((ProjectionPath *) path)->subpath);
	if (IsA(path, AggPath))
		return find_grouped(((AggPath *) path)->subpath);
	if (IsA(path, GroupPath))
		return find_grouped(((GroupPath *) path)->subpath);
	if (IsA(path, SortPath))
		return find_grouped(((SortPath *) path)->subpath);
	return GjPathIsOurs(path) ? path : NULL;
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
		refused = GjAggRefuseInput(root, query, child);
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
	path->methods = query->is_partial ? &GjPartialAggPathMethods : &GjAggPathMethods;
	path->custom_paths = list_make1(child);
	path->custom_private = list_make1(query);
	GjPathInheritDisabled(&path->path, child);
	cost_path(root, query, child, path);
	return path;
}

/*
 * Return the path of ours for the input's rows, with the input's current target, or NULL
 *
 * For a subquery, that is PostgreSQL's choice, which was made when it was planned.
 */
static Path *
find_input(PlannerInfo *root, RelOptInfo *input)
{
	CustomPath *offered = GjOfferFind(input, false);
	Path	   *cheapest = input->cheapest_total_path;
	Path	   *append;

	if (offered != NULL)
		return GjPathWithTarget(root, &offered->path, input->reltarget);
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
 * Return an Append of the parts of a partitioned table, a table with children or a UNION ALL; NULL
 * if it has no part of ours, or is something else
 *
 * Columns have the same positions in the targets of the parts and of the whole.  The parts of a
 * partitioned relation already have the target of the whole.  Other parts have not: then the
 * target is computed above the Append, and the aggregates use the columns below it.
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
			parts = lappend(parts, cheaper(root, lfirst(lc), false, false));
	}
	if (parts == NIL)
		return NULL;
	append = GjCreateAppendPath(root, rel, parts, NIL, 0, false);
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
			parts = lappend(parts, cheaper(root, part->cheapest_total_path, false, false));
	}
	return parts;
}

/*
 * Find an Append among a relation's paths, or among its partial paths
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

static Path *
strip_projection(Path *path)
{
	while (IsA(path, ProjectionPath) && ((ProjectionPath *) path)->dummypp)
		path = ((ProjectionPath *) path)->subpath;
	return path;
}

/*
 * Return true if a path of ours returns the rows, as far as the planner can tell
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
		(GjPathIsOurs(path) || ((CustomPath *) path)->methods == &GjAggPathMethods);
}

/*
 * Return true if the path's rows come from index entries, so that no node returns them one by one
 *
 * That is the case if no filter needs a row of the table.
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
	cand = linitial(custom->custom_private);
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
 * Return the cost of reading all rows, without the charge for returning rows of batches
 */
static Cost
agg_read_cost(Path *path)
{
	Cost		saved = array_cost(path) * (1.0 - COLUMN_OPERATIONS);

	return gj_force ? path->total_cost : Max(path->total_cost - saved, path->startup_cost);
}

/*
 * Set the costs of a plan below a GpuAgg, and of those of its children that belong to it, to the
 * charge for reading its rows, except those that a device reduces, so that the costs in EXPLAIN add
 * up
 *
 * The plan has already been chosen, so this changes no choice.
 */
void
GjAggShowCost(const GjAggQuery *query, Path *path, Plan *plan)
{
	Cost		reduced = reduced_cost(query, path);
	ListCell   *lc;
	ListCell   *lc2;

	plan->total_cost = agg_read_cost(path);
	show_at_most(plan, reduced);
	path = strip_projection(path);
	if (IsA(path, AppendPath) && IsA(plan, Append))
	{
		forboth(lc, ((AppendPath *) path)->subpaths, lc2, ((Append *) plan)->appendplans)
			GjAggShowCost(query, lfirst(lc), lfirst(lc2));
	}
	else if (gives_arrays(path) && ((CustomPath *) path)->methods == &GjJoinPathMethods)
	{
		List	   *scans = candidate_of((CustomPath *) path)->scans;
		List	   *plans = ((CustomScan *) plan)->custom_plans;	/* the small side's first */

		Assert(list_length(plans) == list_length(scans) + 1);
		for (int i = 0; i < list_length(scans) && !gj_force; i++)
		{
			Plan	   *scan_plan = list_nth(plans, i + 1);
			Cost		saved = scan_cost(list_nth(scans, i)) * (1.0 - COLUMN_OPERATIONS);

			scan_plan->total_cost = Max(scan_plan->total_cost - saved, scan_plan->startup_cost);
		}
		foreach(lc, plans)
			show_at_most(lfirst(lc), reduced);
	}
}

static void
show_at_most(Plan *plan, Cost cost)
{
	plan->total_cost = Min(plan->total_cost, cost);
	plan->startup_cost = Min(plan->startup_cost, plan->total_cost);
}

/*
 * Return the charge for returning rows that come in batches: in a join, also by the scans, and for
 * looking up each row
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
	cost = rows_charged(custom) * cpu_tuple_cost;
	if (custom->methods == &GjScanPathMethods)
		return cost;
	foreach(lc, candidate_of(custom)->scans)
		cost += scan_cost(lfirst(lc));
	return cost;
}

/*
 * Return the number of rows for which a GpuScan or GpuJoin is charged: for an array of unknown
 * length, not the few that PostgreSQL expects.  So a generic plan costs what a custom plan costs
 * for an array of the assumed length, and the query is not planned again for each execution.
 */
static double
rows_charged(const CustomPath *path)
{
	if (path->methods == &GjScanPathMethods)
		return intVal(list_nth(path->custom_private, GJ_SCAN_PATH_CHARGED));
	return path->path.rows;
}

/*
 * Return the part of array_cost() that belongs to one scan of a join
 */
static Cost
scan_cost(const GjJoinScan *scan)
{
	return scan->rows * (cpu_tuple_cost + cpu_operator_cost);
}

/*
 * Return agg_read_cost() of a path if a device reduces some of its rows (exec/reduction.c): these
 * are neither delivered nor returned, but their groups are delivered.  The parts of an Append are
 * reduced one after another.
 */
static Cost
reduced_cost(const GjAggQuery *query, Path *path)
{
	double		share = reduced_share(query, path);
	double		rows;
	Cost		cost = agg_read_cost(path);
	const CustomPath *custom = (const CustomPath *) strip_projection(path);
	ListCell   *lc;

	if (share <= 0.0)
		return cost;
	if (IsA(custom, AppendPath))
	{
		Cost		parts = 0.0;

		foreach(lc, ((const AppendPath *) custom)->subpaths)
		{
			cost -= agg_read_cost(lfirst(lc));
			parts += reduced_cost(query, lfirst(lc));
		}
		/* the Append's own cost is for each row that it returns */
		return parts + Max(cost, 0.0) * (1.0 - share);
	}
	rows = rows_charged(custom) * share;
	if (query->groupings != NIL)
		cost += Min(query->ngroups, rows) * gj_tid_cost;
	cost -= rows * gj_tid_cost + array_cost(path) * COLUMN_OPERATIONS * share;
	return Max(cost, request_cost(custom));
}

/*
 * Return the cost of the requests that a GpuScan or GpuJoin makes, without that of their results
 */
static Cost
request_cost(const CustomPath *path)
{
	const GjJoinCandidate *cand = candidate_of(path);
	Cost		cost = 0.0;
	ListCell   *lc;

	if (cand == NULL)
		return GjRequestCost(index_of(path)->tuples);
	foreach(lc, cand->scans)
		cost += GjRequestCost(((const GjJoinScan *) lfirst(lc))->index->tuples);
	return cost * cand->nbatches;
}

/*
 * Return the fraction of a path's rows that a device can probably reduce: those on all-visible
 * pages, if it has a mirror of the index, and all groups and aggregates are of a kind that it can
 * compute.  Groups of several columns must be fewer than half of the rows (exec/reduction.c).  A
 * join searches each of its tables for each batch of small rows.
 */
static double
reduced_share(const GjAggQuery *query, Path *path)
{
	const CustomPath *custom = (const CustomPath *) strip_projection(path);
	const GjJoinCandidate *cand;
	double		nsearches = 1.0;
	Relids		small = NULL;
	Index		table;
	int			ncolumns = 0;
	List	   *columns;
	ListCell   *lc;

	if (IsA(custom, AppendPath))
	{
		double		rows = 0.0;

		foreach(lc, ((const AppendPath *) custom)->subpaths)
			rows += ((Path *) lfirst(lc))->rows * reduced_share(query, lfirst(lc));
		return Min(rows / Max(custom->path.rows, 1.0), 1.0);
	}
	if (!gj_device_aggregate || gj_force || query->is_partial || IsolationIsSerializable() ||
		!gives_arrays(path) || (GjServiceCapabilities() & GJD_CAN_REDUCE) == 0)
		return 0.0;
	cand = candidate_of(custom);
	if (cand != NULL)
	{
		if (IS_OTHER_REL(cand->small) ||
			(cand->kind != GJ_JOIN_INNER && cand->kind != GJ_JOIN_SEMI))
			return 0.0;
		small = cand->small->relids;
		nsearches = cand->nbatches * list_length(cand->scans);
	}
	if (rows_charged(custom) < gj_reduce_rows * nsearches ||
		(custom->methods == &GjScanPathMethods && !GjScanPathHasList(custom)))
		return 0.0;

	table = named_table(custom, index_of(custom)->rel);
	columns = list_concat_copy(query->groupings, query->others);
	foreach(lc, columns)
	{
		if (!IsA(lfirst(lc), Var))
			return 0.0;
		if (bms_is_member(lfirst_node(Var, lc)->varno, small))
			continue;
		if (lfirst_node(Var, lc)->varno != table || !get_typbyval(lfirst_node(Var, lc)->vartype))
			return 0.0;
		ncolumns++;
	}
	if (ncolumns > 0 && list_length(columns) > 1 &&
		(ncolumns >= GJD_MAX_GROUP_COLUMNS || query->ngroups > path->rows / 2 ||
		 (GjServiceCapabilities() & GJD_CAN_GROUP_BY_COLUMNS) == 0))
		return 0.0;
	foreach(lc, query->aggregates)
	{
		if (!is_reducible(query, lfirst_node(Aggref, lc), table))
			return 0.0;
	}
	return cand == NULL ? share_on_device(index_of(custom)) : share_of_scans(cand);
}

/*
 * Return the fraction of a table's rows that are on all-visible pages; or 0 without a mirror, or if
 * the device cannot prove keys
 */
static double
share_on_device(const IndexOptInfo *index)
{
	bool		can_prove = !GjIndexIsHashed(index) ||
		(OidIsValid(GjIndexRestProc(index)) &&
		 (GjServiceCapabilities() & GJD_CAN_PROVE_RESTS) != 0);

	return can_prove && GjIndexIsResident(index) ? index->rel->allvisfrac : 0.0;
}

static double
share_of_scans(const GjJoinCandidate *cand)
{
	double		rows = 0.0;
	double		reduced = 0.0;
	ListCell   *lc;

	foreach(lc, cand->scans)
	{
		const GjJoinScan *scan = lfirst(lc);

		rows += scan->rows;
		reduced += scan->rows * share_on_device(scan->index);
	}
	return reduced / Max(rows, 1.0);
}

/*
 * Return the table to which the query's columns belong: that of the relation, or for a part of an
 * Append, its parent, if the part returns plain columns; otherwise 0
 */
static Index
named_table(const CustomPath *path, const RelOptInfo *rel)
{
	ListCell   *lc;

	if (rel->top_parent_relids == NULL)
		return rel->relid;
	foreach(lc, path->path.pathtarget->exprs)
	{
		if (!IsA(lfirst(lc), Var))
			return 0;
	}
	return bms_singleton_member(rel->top_parent_relids);
}

/*
 * Return the candidate of a GpuJoin, or NULL for a GpuScan
 */
static const GjJoinCandidate *
candidate_of(const CustomPath *path)
{
	return path->methods == &GjScanPathMethods ? NULL :
		linitial(path->custom_private);
}

/*
 * Return the index of a GpuScan, or that of a GpuJoin's first table
 */
static const IndexOptInfo *
index_of(const CustomPath *path)
{
	const GjJoinCandidate *cand = candidate_of(path);

	return cand == NULL ? list_nth(path->custom_private, GJ_SCAN_PATH_INDEX) :
		((const GjJoinScan *) linitial(cand->scans))->index;
}

/*
 * Return true if a device can compute the aggregate, whose argument must be a column of the table:
 * agg/reduced.c
 */
static bool
is_reducible(const GjAggQuery *query, const Aggref *aggref, Index table)
{
	const Var  *argument = (const Var *) GjAggregateArgument(aggref);

	if (aggref->aggfilter != NULL)
		return false;
	if (aggref->aggdistinct != NIL &&
		(query->groupings != NIL || list_length(query->aggregates) > 1))
		return false;
	if (argument == NULL)
		return true;
	return IsA(argument, Var) && argument->varno == table && argument->vartype != OIDOID &&
		get_typbyval(argument->vartype) &&
		argument->vartype != FLOAT4OID && argument->vartype != FLOAT8OID;
}

static double
agg_estimate_groups(PlannerInfo *root, const GjAggQuery *query, double rows)
{
	if (query->groupings == NIL)
		return 1.0;
	return estimate_num_groups(root, query->groupings, rows, NULL, NULL);
}

/*
 * Return the cost of computing FILTER conditions, and arguments that are expressions, for a row
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
 * Return the cost of writing the rows of groups that do not fit in memory, and of reading them
 * again
 *
 * Pages are charged as for PostgreSQL's own hash table, and a row each time that it is written.
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
 * Set the costs of a path.  All rows are read before the first group is returned.
 */
static void
cost_path(PlannerInfo *root, GjAggQuery *query, Path *input, CustomPath *path)
{
	double		rows = input->rows;
	double		ngroups = agg_estimate_groups(root, query, rows);
	int			nvalues = list_length(query->groupings) + list_length(query->others);
	int			ncolumns = nvalues + list_length(query->aggregates);
	double		group_bytes = GROUP_OVERHEAD + STATE_BYTES * list_length(query->aggregates) +
		sizeof(int64) * nvalues;
	Cost		startup;
	Cost		run;

	query->ngroups = ngroups;
	startup = reduced_cost(query, input) +
		rows * (1.0 - reduced_share(query, input)) * ncolumns *
		COLUMN_OPERATIONS * cpu_operator_cost +
		rows * compute_cost(root, query);
	if (!query->is_partial)
		startup += spill_cost(rows, ROW_OVERHEAD + sizeof(int64) * ncolumns, ngroups * group_bytes);
	else if (ngroups * group_bytes > get_hash_memory_limit())
		ngroups = rows;			/* when memory is full, incomplete groups are returned */
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
 * Parallel plans
 *
 * GpuAgg in parallel plans: partial groups below Gather, which PostgreSQL combines above.
 *
 * The processes share the input's rows, as its scans and joins do in any case, and each groups its
 * own rows.  For each group a process returns the states of its aggregates, in PostgreSQL's own
 * formats; so PostgreSQL's Finalize Aggregate combines them, and computes the results, the errors
 * and HAVING.  For SELECT DISTINCT no states are combined, and PostgreSQL's own node removes the
 * duplicates that two processes have found.  A group passes through Gather once for each process
 * that has rows of it.  So this pays off if groups are few and rows are many, as the costs show.
 *
 * count(DISTINCT) has no states.  It would need none if each group were complete in one process;
 * but the processes share the rows dynamically (exec/tablescan.c).
 *
 * The hook for upper relations is not called for partial groups, so we make the whole plan here,
 * up to the node that combines them.
 *-------------------------------------------------------------------------
 */

/*
 * Offer a parallel plan for groups, aggregates or distinct rows of a partial input
 */
static void
add_parallel_agg_path(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output,
					  PathTarget *target, GjAggQuery *query)
{
	const char *node = GjPartialAggPathMethods.CustomName;
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
	refused = query->refused;
	if (refused == NULL && (root->hasNonPartialAggs || root->hasNonSerialAggs))
		refused = "an aggregate with DISTINCT, which has no partial states";
	if (refused == NULL)
		refused = GjAggRefuseInput(root, query, child);
	if (refused != NULL)
	{
		GjChoiceAggregate(node, child, NULL, output, refused);
		return;
	}

	partial = make_partial(query);
	if (!query->is_distinct)
		states = make_target(root, partial);
	path = agg_make_path(root, partial, output, states, child);
	rows = path->path.rows * path->path.parallel_workers;
	gather = (Path *) create_gather_path(root, output, &path->path, states, NULL, &rows);
	finished = finish(root, query, input, output, target, gather);
	if (gj_force)
	{
		/* scale all costs down except the additional cost of being parallel */
		Cost		cost = parallel_setup_cost + parallel_tuple_cost * rows;

		finished->startup_cost = finished->startup_cost * GJ_FORCED_COST_SCALE + cost;
		finished->total_cost = finished->total_cost * GJ_FORCED_COST_SCALE + cost;
	}
	GjChoiceAggregate(node, child, finished, output, NULL);
	add_path(output, finished);
}

/* The input ------------------------------------------------------------------------ */

/*
 * Return a partial path of ours, with the input's current target, or NULL
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
 * Return a parallel Append of the parts of a partitioned table, a table with children or a UNION
 * ALL
 *
 * Processes share the parts that have partial paths; each of the others is scanned by one process,
 * while other processes scan other parts.
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
	append = GjCreateAppendPath(root, rel, parts.whole, parts.divided, workers,
								enable_parallel_append);
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
			listed = aggpath_add_part(root, part->partial_pathlist ?
									  linitial(part->partial_pathlist) : NULL,
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

		if (!aggpath_add_part(root, is_divided ? path : NULL, is_divided ? NULL : path, parts))
			return false;
	}
	return true;
}

/*
 * Add the best path for a part, given PostgreSQL's paths, each of which may be NULL; returns false
 * if neither can be used
 *
 * As PostgreSQL does, let one process scan a part if that is cheaper than its share.  But of two
 * paths of ours choose the partial one: the Append would divide all of the other's cost among the
 * workers, including its pages (cost.c).
 */
static bool
aggpath_add_part(PlannerInfo *root, Path *divided, Path *whole, Parts *parts)
{
	bool		is_whole = enable_parallel_append && whole != NULL && whole->parallel_safe;

	if (divided == NULL && !is_whole)
		return false;
	if (divided != NULL)
		divided = cheaper(root, divided, true, true);
	if (is_whole)
		whole = cheaper(root, whole, false, true);
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
 * Return a path of ours for the same rows if it is cheaper for an aggregate, in a parallel plan or
 * not; else this path
 */
static Path *
cheaper(PlannerInfo *root, Path *path, bool is_partial, bool in_parallel)
{
	CustomPath *offered = GjOfferFind(path->parent, is_partial);

	if (offered == NULL || (in_parallel && !offered->path.parallel_safe) ||
		(!gj_force && agg_read_cost(&offered->path) >= agg_read_cost(path)))
		return path;
	return GjPathWithTarget(root, &offered->path, path->pathtarget);
}

/*
 * Return the maximum number of workers of a part; for many parts, as many as PostgreSQL uses
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
 * Copy a query without HAVING, with states instead of results
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
 * Return the target of the processes: group columns, with the numbers by which GROUP BY refers to
 * them, columns of one row, and states
 */
static PathTarget *
make_target(PlannerInfo *root, const GjAggQuery *partial)
{
	PathTarget *target = create_empty_pathtarget();
	ListCell   *lc;

	foreach(lc, GjGroupClause(root))
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);

		add_column_to_pathtarget(target, (Expr *) get_sortgroupclause_expr(clause,
																		   root->processed_tlist),
								 clause->tleSortGroupRef);
	}
	add_new_columns_to_pathtarget(target, partial->groupings);
	add_new_columns_to_pathtarget(target, partial->others);
	add_new_columns_to_pathtarget(target, partial->aggregates);
	return set_pathtarget_cost_width(root, target);
}

/*
 * Return PostgreSQL's path that combines the rows of the processes
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
									AGGSPLIT_FINAL_DESERIAL, GjGroupClause(root),
									query->having, &costs, ngroups);
}
