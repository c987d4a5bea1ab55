/*-------------------------------------------------------------------------
 *
 * subquery.c
 *	  Let a subquery with OFFSET 0 be run in parallel, if it has a scan or join of ours.
 *
 * OFFSET 0 is how one keeps a subquery apart from the query around it.  It limits nothing,
 * and when the planner is done with the subquery it knows that: there are paths that can be
 * shared among processes.  But whether the query above may share them was decided before,
 * when the 0 was still an expression that had to be looked at, and any OFFSET forbids it.
 * Then a Gather has to hand each of a million rows to one process, which aggregates them
 * all, where each process could have aggregated its own.
 *
 * So, when the subquery's paths are made, the decision is made again, by the tests that
 * PostgreSQL makes for a subquery without OFFSET: nothing that this level computes from the
 * subquery's rows, or filters them by, may be unsafe in a worker, and the subquery must have
 * paths that can be shared.  Subqueries in which nothing is of ours stay as they were.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "optimizer/clauses.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"

#include "base/compat.h"
#include "planner.h"

static bool is_unlimited_after_all(const RelOptInfo *rel);
static bool rows_are_parallel_safe(PlannerInfo *root, const RelOptInfo *rel);
static bool has_path_of_ours(const Path *path);
static bool is_trivial_target(const RelOptInfo *rel);

/*
 * Add the parallel paths that PostgreSQL left out because the subquery has an OFFSET
 */
void
GjAddSubqueryPaths(PlannerInfo *root, RelOptInfo *rel)
{
	RelOptInfo *final;
	ListCell   *lc;

	if (rel->consider_parallel || !root->glob->parallelModeOK || rel->subroot == NULL ||
		rel->reloptkind != RELOPT_BASEREL || IS_DUMMY_REL(rel) ||
		!bms_is_empty(rel->lateral_relids) || !is_unlimited_after_all(rel) ||
		!rows_are_parallel_safe(root, rel))
		return;

	final = fetch_upper_rel(rel->subroot, UPPERREL_FINAL, NULL);
	foreach(lc, final->partial_pathlist)
	{
		Path	   *path = lfirst(lc);
		List	   *pathkeys;

		if (!has_path_of_ours(path))
			continue;
		rel->consider_parallel = true;
		pathkeys = convert_subquery_pathkeys(root, rel, path->pathkeys,
											 make_tlist_from_pathtarget(path->pathtarget));
		add_partial_path(rel, (Path *) GjSubqueryScanPath(root, rel, path,
														  is_trivial_target(rel), pathkeys));
	}
}

/*
 * Does the subquery have an OFFSET or LIMIT, but none that limits anything?
 */
static bool
is_unlimited_after_all(const RelOptInfo *rel)
{
	Query	   *query = rel->subroot->parse;

	return (query->limitOffset != NULL || query->limitCount != NULL) && !limit_needed(query);
}

static bool
rows_are_parallel_safe(PlannerInfo *root, const RelOptInfo *rel)
{
	return is_parallel_safe(root, (Node *) rel->baserestrictinfo) &&
		is_parallel_safe(root, (Node *) rel->reltarget->exprs);
}

/*
 * Is one of our paths in it, where the path is divided among processes?
 */
static bool
has_path_of_ours(const Path *path)
{
	ListCell   *lc;

	switch (nodeTag(path))
	{
		case T_ProjectionPath:
			return has_path_of_ours(((const ProjectionPath *) path)->subpath);
		case T_SubqueryScanPath:
			return has_path_of_ours(((const SubqueryScanPath *) path)->subpath);
		case T_NestPath:
		case T_MergePath:
		case T_HashPath:
			return has_path_of_ours(((const JoinPath *) path)->outerjoinpath) ||
				has_path_of_ours(((const JoinPath *) path)->innerjoinpath);
		case T_AppendPath:
			foreach(lc, ((const AppendPath *) path)->subpaths)
			{
				if (has_path_of_ours(lfirst(lc)))
					return true;
			}
			return false;
		default:
			return GjPathIsOurs(path);
	}
}

/*
 * Are the subquery's rows wanted as they are?
 */
static bool
is_trivial_target(const RelOptInfo *rel)
{
	ListCell   *lc;

	if (list_length(rel->reltarget->exprs) != list_length(rel->subroot->parse->targetList))
		return false;
	foreach(lc, rel->reltarget->exprs)
	{
		Var		   *var = lfirst(lc);

		if (!IsA(var, Var) || var->varno != rel->relid ||
			var->varattno != foreach_current_index(lc) + 1)
			return false;
	}
	return true;
}
