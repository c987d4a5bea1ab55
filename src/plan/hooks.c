/*-------------------------------------------------------------------------
 *
 * hooks.c
 *	  The doors into the planner, and the two switches that stand beside them.
 *
 * gpujoin.enabled = off takes our indexes out of the planner's list of a table's
 * indexes, so that no path of any kind, a bitmap path included, can use one.  A
 * prohibitive cost would not do: a path made expensive still wins where all
 * others are disabled.
 *
 * gpujoin.force (for tests) leaves our paths alone in the lists where there are
 * some, and costs them so low that whatever is planned above prefers them.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#include "utils/varlena.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "agg.h"
#include "choice.h"
#include "planner.h"

static get_relation_info_hook_type prev_get_relation_info_hook = NULL;
static set_rel_pathlist_hook_type prev_set_rel_pathlist_hook = NULL;
static set_join_pathlist_hook_type prev_set_join_pathlist_hook = NULL;
static create_upper_paths_hook_type prev_create_upper_paths_hook = NULL;

void		(*GjNoteTableHook) (PlannerInfo *root, RelOptInfo *rel) = NULL;

static void require_citus_first(void);
static void hide_indexes(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel);
static void add_scan_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte);
static void add_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
						   RelOptInfo *innerrel, JoinType jointype,
						   JoinPathExtraData *extra);
static void add_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
							RelOptInfo *output, void *extra);
static void force_paths(RelOptInfo *rel);
static void set_costs(CustomPath *path, Cost startup, Cost run);
static List *list_our_paths(List *paths);

/*
 * Install the hooks, in front of those that are there
 */
void
GjPlanInit(void)
{
	if (process_shared_preload_libraries_in_progress)
		require_citus_first();

	prev_get_relation_info_hook = get_relation_info_hook;
	get_relation_info_hook = hide_indexes;
	prev_set_rel_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = add_scan_paths;
	prev_set_join_pathlist_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = add_join_paths;
	prev_create_upper_paths_hook = create_upper_paths_hook;
	create_upper_paths_hook = add_upper_paths;
}

/*
 * Citus replaces the planner's hooks and does not call those that it finds: loaded after us, it
 * would leave our indexes without use, and gpujoin.enabled without effect.  It is there before us
 * if there is a planner_hook: Citus sets one, and does not follow others who do.
 */
static void
require_citus_first(void)
{
	List	   *libraries;
	ListCell   *lc;

	if (planner_hook != NULL ||
		!SplitDirectoriesString(pstrdup(shared_preload_libraries_string), ',', &libraries))
		return;
	foreach(lc, libraries)
	{
		if (strcmp(lfirst(lc), "citus") == 0)
			ereport(ERROR,
					(errcode(ERRCODE_CONFIG_FILE_ERROR),
					 errmsg("citus must come before gpujoin in shared_preload_libraries"),
					 errdetail("It replaces the planner's hooks of libraries that come before "
							   "it.")));
	}
}

/*
 * Look at the indexes of a table
 *
 * Hide ours while gpujoin is off, and where snapshots may expire: searches do
 * not test the pages they read for that.
 */
static void
hide_indexes(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	ListCell   *lc;

	if (prev_get_relation_info_hook)
		prev_get_relation_info_hook(root, relid, inhparent, rel);
	GjNewIndexAdd(root, relid, inhparent, rel);

	if (gj_enabled && !GjOldSnapshotsExpire())
	{
		GjNoteIndexes(rel);
		GjHideFromChains(root, rel);
		return;
	}

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

		if (!GjIndexIsOurs(index))
			continue;
		GjChoiceHidden(relid, index);
		rel->indexlist = foreach_delete_current(rel->indexlist, lc);
	}
}

static void
add_scan_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (prev_set_rel_pathlist_hook)
		prev_set_rel_pathlist_hook(root, rel, rti, rte);
	if (GjNoteTableHook)
		GjNoteTableHook(root, rel);

	if (!gj_enabled)
		return;

	GjAddScanPaths(root, rel, rti, rte);
	if (rte->rtekind == RTE_SUBQUERY)
		GjAddSubqueryPaths(root, rel);
	force_paths(rel);
}

static void
add_join_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
			   RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra)
{
	if (prev_set_join_pathlist_hook)
		prev_set_join_pathlist_hook(root, joinrel, outerrel, innerrel, jointype, extra);

	if (!gj_enabled)
		return;

	GjAddJoinPaths(root, joinrel, outerrel, innerrel, jointype, extra);
	force_paths(joinrel);
}

static void
add_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
				RelOptInfo *output, void *extra)
{
	if (prev_create_upper_paths_hook)
		prev_create_upper_paths_hook(root, stage, input, output, extra);

	if (gj_enabled)
		GjAddUpperPaths(root, stage, input, output, extra);
}

/*
 * Give a path of ours its costs and add it to the relation
 */
void
GjAddPath(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, Cost startup, Cost run)
{
	set_costs(path, startup, run);
	GjChoiceOffered(root, rel, path);
	GjOfferNote(path);
	if (gj_force)
	{
		rel->pathlist = list_our_paths(rel->pathlist);
		rel->partial_pathlist = list_our_paths(rel->partial_pathlist);
	}
	add_path(rel, &path->path);
}

/*
 * Do the same with a partial path, and charge it for its workers (cost.c), given the cost of the
 * path for one process, and the time that a unit of both takes
 */
void
GjAddPartialPath(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, Cost startup, Cost run,
				 Cost alone, double unit)
{
	Cost		workers = GjCostWorkers(root, rel, path->path.parallel_workers, unit, alone,
										startup + run);
	Cost		total = startup + run + workers;

	startup = Min(Max(startup + workers, 0.0), total);
	set_costs(path, startup, total - startup);
	GjOfferNote(path);
	if (gj_force)
		rel->partial_pathlist = list_our_paths(rel->partial_pathlist);
	add_partial_path(rel, &path->path);
}

static void
set_costs(CustomPath *path, Cost startup, Cost run)
{
	double		scale = gj_force ? GJ_FORCED_COST_SCALE : 1.0;

	path->path.startup_cost = startup * scale;
	path->path.total_cost = (startup + run) * scale;
}

/*
 * Under gpujoin.force, drop other paths of a relation that has a path of ours
 *
 * Ours have no parameters, so that set_cheapest() finds what it needs.  Core asks
 * the join hook once for each pair of inputs and goes on adding paths in between:
 * each call cleans up behind the last.
 */
static void
force_paths(RelOptInfo *rel)
{
	List	   *ours;

	if (!gj_force)
		return;

	ours = list_our_paths(rel->pathlist);
	if (ours != NIL)
	{
		rel->pathlist = ours;
		rel->partial_pathlist = list_our_paths(rel->partial_pathlist);
	}
}

static List *
list_our_paths(List *paths)
{
	List	   *ours = NIL;
	ListCell   *lc;

	foreach(lc, paths)
	{
		if (GjPathIsOurs(lfirst(lc)))
			ours = lappend(ours, lfirst(lc));
	}
	return ours;
}

bool
GjPathIsOurs(const Path *path)
{
	return IsA(path, CustomPath) &&
		(((const CustomPath *) path)->methods == &GjScanPathMethods ||
		 ((const CustomPath *) path)->methods == &GjJoinPathMethods);
}
