/*-------------------------------------------------------------------------
 *
 * aggparallel.c
 *	  GpuAgg in parallel plans: partial groups below Gather, which PostgreSQL finishes above.
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
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "port/pg_bitutils.h"

#include "agg.h"
#include "base/gpujoin.h"
#include "choice.h"
#include "planner.h"

/* The parts of an Append: those that one process scans, and those that all divide */
typedef struct Parts
{
	List	   *whole;
	List	   *divided;
} Parts;

static void force(Path *path, double gathered);
static Path *find_input(PlannerInfo *root, RelOptInfo *input);
static Path *append_parts(PlannerInfo *root, RelOptInfo *rel);
static bool list_parts(PlannerInfo *root, RelOptInfo *rel, Parts *parts);
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

/*
 * Offer a parallel plan for groups, aggregates or distinct rows of an input that is divided
 */
void
GjAddParallelAggPath(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output,
					 PathTarget *target, const GjAggQuery *query)
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
		(child = find_input(root, input)) == NULL)
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
	path = GjAggMakePath(root, partial, output, states, child);
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
find_input(PlannerInfo *root, RelOptInfo *input)
{
	CustomPath *offered = GjOfferFind(input, true);
	Path	   *append;

	if (offered != NULL)
		return GjPathWithTarget(root, &offered->path, input->reltarget);
	append = append_parts(root, input);
	if (append != NULL)
		return append;
	if (input->partial_pathlist != NIL && GjAggGivesBatches(linitial(input->partial_pathlist)))
		return linitial(input->partial_pathlist);
	return NULL;
}

/*
 * The parts of a partitioned table, a table with children or a UNION ALL, as in a serial plan
 * (agg.c): divided where they can be; one that cannot is scanned by one process, while others
 * are at other parts
 */
static Path *
append_parts(PlannerInfo *root, RelOptInfo *rel)
{
	AppendPath *found = GjAggFindAppend(rel, true);
	PathTarget *target = rel->reltarget;
	Parts		parts = {NIL, NIL};
	AppendPath *append;
	int			workers;

	if (IS_PARTITIONED_REL(rel))
	{
		if (!list_parts(root, rel, &parts))
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
	return GjAggGivesBatches(&append->path) ? &append->path : NULL;
}

static bool
list_parts(PlannerInfo *root, RelOptInfo *rel, Parts *parts)
{
	for (int i = 0; i < rel->nparts; i++)
	{
		RelOptInfo *part = rel->part_rels[i];
		bool		listed;

		if (part == NULL || IS_DUMMY_REL(part))
			continue;
		if (IS_PARTITIONED_REL(part))
			listed = list_parts(root, part, parts);
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
		 GjAggReadCost(whole) < GjAggReadCost(divided)))
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
		(!gj_force && GjAggReadCost(&offered->path) >= GjAggReadCost(path)))
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
	if (!GjAggTakesFrom(query, child->pathtarget))
		return "what is grouped or aggregated is computed above an Append";
	if (!GjAggEncodes(query, child))
		return "a group column's type, whose equality is not that of bits";
	return NULL;
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
	double		ngroups = GjAggEstimateGroups(root, query, input->rows);

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
