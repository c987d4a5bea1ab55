/*-------------------------------------------------------------------------
 *
 * joinpath.c
 *	  GpuJoin paths: recognize small JOIN big ON big.key = small.k.
 *
 * A GpuJoin replaces a join and the scan of the big table, so it must test everything that these
 * two would have tested: every restriction of the big table (including pseudoconstant ones, for
 * which core makes a gating node only above scans that it plans itself) and every clause of the
 * join.  It omits the clause that the index answers, because looking up the big row in the table
 * of small rows tests the same.  It also omits further equalities of a column of the big table
 * with a column of the small side if the small rows can be looked up by these, too: the default
 * hash operator family must have the operator (sets/exact.c), and the clause and the family's hash
 * function may be evaluated as early as the key's clause.  Entries are tested by them, too, if the
 * index has their columns.
 *
 * We do not offer:
 *
 *	- Joins of an UPDATE, DELETE or MERGE of a partitioned table or one with children: there the
 *	  column that identifies the row to be changed belongs to no table (ROWID_VAR), and cannot be
 *	  part of a joined row's description.
 *	- A UNION ALL as the big side if rows are locked or changed: EvalPlanQual keeps a row of the
 *	  whole, but the scan of one of its tables must know which row is its own.
 *	- JOIN_UNIQUE_OUTER and JOIN_UNIQUE_INNER, in which the caller has to make a side unique; FULL
 *	  joins, and those that keep big rows without a match.
 *	- Joins with an unresolved lateral reference, and with pseudoconstant join clauses.
 *	- Outer and anti joins whose clauses or target have a placeholder that needs the big table.
 *	  Its value must become NULL for rows without a match, but GpuJoin would compute it above the
 *	  join.  In other joins, the value is the same above and below.
 *	- Sides from which a column of type record is needed, like the one that SEARCH BREADTH FIRST
 *	  adds to a recursive query.  EXPLAIN finds the names of such a column's fields in the plan
 *	  that computes it.  In a joined row it finds only the row's description; it then prints a
 *	  wrong name, or fails if assertions are enabled.  Whole rows are not affected, because their
 *	  fields are those of the range table entry.
 *
 * If rows are changed or locked, the columns that EvalPlanQual needs of either side (TIDs, whole
 * rows) are in the join's target like any other column, and each table's scan can return a
 * replaced row (join/bigscan.c).
 *
 * In an outer join the ON clauses decide whether a row has a match, and the others whether it is
 * returned; the two kinds remain separate up to the executor.  The index's clause must be one of
 * ON.
 *
 * The big side may be a partitioned table, a table with children or a UNION ALL: then the small
 * side is joined with one table after another (see "The big side").
 *
 * No path is parameterized by another relation, so core never has to translate a path for a child;
 * a partition-wise join asks for a path of its own.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>
#include <math.h>
#include "miscadmin.h"

#include "catalog/pg_class_d.h"
#include "catalog/pg_type_d.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "base/compat.h"
#include "base/settings.h"
#include "sets/sets.h"
#include "planner.h"

/* Bytes of a collected row in addition to its columns */
#define SMALL_ROW_OVERHEAD		80

/* Additional cost of a pair that a further join clause removes */
#define DROPPED_PAIR_COST		0.2

static const char *refuse_join(PlannerInfo *root, RelOptInfo *joinrel, List *restrictlist);
static bool changes_rows(PlannerInfo *root);
static void add_paths_of_groups(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *big,
								RelOptInfo *small, List *restrictlist);
static void correct_loops(PlannerInfo *root, const GjJoinCandidate *cand, List **paths,
						  void (*add) (RelOptInfo *, Path *));
static Cost groups_cost(const GjJoinCandidate *cand);
static void consider_side(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *big,
						  RelOptInfo *small, GjJoinKind kind, List *restrictlist,
						  const char *refused);
static const char *refuse_sides(PlannerInfo *root, const GjJoinCandidate *cand);
static void joinpath_add(PlannerInfo *root, GjJoinCandidate *cand);
static bool has_record_column(const RelOptInfo *rel);
static bool needs_placeholder_of(PlannerInfo *root, List *exprs, RelOptInfo *big);
static bool choose_scans(PlannerInfo *root, GjJoinCandidate *cand);
static void add_join_path(PlannerInfo *root, GjJoinCandidate *cand);
static Path *parallel_small_path(PlannerInfo *root, const GjJoinCandidate *cand);
static bool filters_are_same(PlannerInfo *root, const GjJoinCandidate *cand);
static int	joinpath_count_workers(const GjJoinCandidate *cand);
static Cost add_path_with_workers(PlannerInfo *root, GjJoinCandidate *cand, Cost alone);
static double cost_unit(const GjJoinCandidate *cand);
static List *copy_scans(List *scans);
static double cost_collect(const GjJoinCandidate *cand, Cost *cost);
static Selectivity pair_selectivity(PlannerInfo *root, const GjJoinCandidate *cand,
									List *clauses);
static void correct_for_cast(PlannerInfo *root, GjJoinCandidate *cand);
static Cost dropped_pairs_cost(PlannerInfo *root, const GjJoinCandidate *cand);
static void joinpath_count_keys(PlannerInfo *root, GjJoinCandidate *cand);
static double expect_keys(const GjJoinCandidate *cand, double ntuples);
static List *list_of_values(const GjJoinCandidate *cand);
static bool has_index_lookups(const GjJoinCandidate *cand);
static void cost_scan(PlannerInfo *root, const GjJoinCandidate *cand, GjJoinScan *scan);
static void cost_way(PlannerInfo *root, const GjJoinCandidate *cand, GjJoinScan *scan);
static void join_cost(PlannerInfo *root, GjJoinCandidate *cand, Cost *startup, Cost *run);
static bool add_tables(PlannerInfo *root, RelOptInfo *rel, List **tables);
static bool has_eligible_index(const RelOptInfo *rel);
static bool is_eligible(const IndexOptInfo *index);
static bool add_members(PlannerInfo *root, RelOptInfo *rel, List **tables);
static void keep_smaller(GjJoinScan **scan, RelOptInfo *table, IndexOptInfo *index,
						 const GjSource *key);
static bool is_same_key(const GjSource *a, const IndexOptInfo *of_a, const GjSource *b,
						const IndexOptInfo *of_b);
static bool has_same_class(const IndexOptInfo *a, const IndexOptInfo *b);
static bool scan_answers(PlannerInfo *root, const GjJoinCandidate *cand, IndexOptInfo *index,
						 RelOptInfo *table, GjSource *key);
static bool is_like_first(PlannerInfo *root, const GjJoinCandidate *cand,
						  const IndexOptInfo *index, const RelOptInfo *table);
static List *joinpath_list_tables(PlannerInfo *root, RelOptInfo *big);
static bool is_by_key(PlannerInfo *root, const GjJoinCandidate *cand);
static GjJoinScan *choose_scan(PlannerInfo *root, const GjJoinCandidate *cand,
							   RelOptInfo *table);

/*
 * Offer paths with either side of this join as the big one
 *
 * The hook is called with both orders of an inner join, so each call has to try one side only.  A
 * semijoin may come as an inner join if a side has been made unique; that is for core's own nodes.
 */
void
GjAddJoinPaths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
			   RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra)
{
	List	   *clauses = extra->restrictlist;
	const char *refused;

	if (extra->sjinfo->jointype != jointype)
		return;
	if (GjIsOfGroups(joinrel))
	{
		if (jointype == JOIN_INNER)
			add_paths_of_groups(root, joinrel, innerrel, outerrel, clauses);
		return;
	}

	refused = refuse_join(root, joinrel, clauses);
	switch (jointype)
	{
		case JOIN_INNER:
			consider_side(root, joinrel, innerrel, outerrel, GJ_JOIN_INNER, clauses, refused);
			break;
		case JOIN_SEMI:
			consider_side(root, joinrel, outerrel, innerrel, GJ_JOIN_SEMI, clauses, refused);
			consider_side(root, joinrel, innerrel, outerrel, GJ_JOIN_RIGHT_SEMI, clauses,
						  refused);
			break;
		case JOIN_LEFT:
			consider_side(root, joinrel, innerrel, outerrel, GJ_JOIN_RIGHT, clauses, refused);
			GjChoiceJoinRefused(root, outerrel, innerrel, clauses,
								"the join also returns its rows without a match (LEFT, RIGHT)");
			break;
		case JOIN_ANTI:
			consider_side(root, joinrel, innerrel, outerrel, GJ_JOIN_RIGHT_ANTI, clauses,
						  refused);
			GjChoiceJoinRefused(root, outerrel, innerrel, clauses,
								"the join returns its rows without a match (NOT EXISTS)");
			break;
		case JOIN_FULL:
			GjChoiceJoinRefused(root, innerrel, outerrel, clauses,
								"the join is a FULL join, which returns all of its rows");
			break;
		default:
			break;
	}
}

/*
 * Offer a path for a join with groups of rows of the small side, which PostgreSQL 19 makes before
 * the join if that saves pairs.  Their aggregates are columns of the small plan like any other.
 *
 * Groups of the big side are no rows of its table.  Nor do we offer parallel paths, in which each
 * process would group all small rows.  gpujoin.force asks for a join of all rows.
 */
static void
add_paths_of_groups(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *big, RelOptInfo *small,
					List *restrictlist)
{
	GjJoinCandidate cand = {.joinrel = joinrel,.big = big,.small = small,.kind = GJ_JOIN_INNER,
	.restrictlist = restrictlist};

	if (gj_force || GjIsOfGroups(big) || refuse_join(root, joinrel, restrictlist) != NULL ||
		refuse_sides(root, &cand) != NULL)
		return;
	cand.tables = joinpath_list_tables(root, big);
	if (cand.tables == NIL)
		return;
	correct_loops(root, &cand, &joinrel->pathlist, add_path);
	correct_loops(root, &cand, &joinrel->partial_pathlist, add_partial_path);
	joinpath_add(root, &cand);
}

/*
 * Correct the costs of nested loops that search an index of the big table for each group
 *
 * PostgreSQL makes one path of such an index, for all joins.  Its cost is that of one search of as
 * many as there are rows of the small side, so that most pages seem to be cached already.
 */
static void
correct_loops(PlannerInfo *root, const GjJoinCandidate *cand, List **paths,
			  void (*add) (RelOptInfo *, Path *))
{
	List	   *corrected = NIL;
	ListCell   *lc;

	foreach(lc, *paths)
	{
		JoinPath   *path = lfirst(lc);
		IndexPath	search;

		if (!IsA(path, NestPath) || path->outerjoinpath->parent != cand->small ||
			path->innerjoinpath->parent != cand->big || !IsA(path->innerjoinpath, IndexPath))
			continue;
		search = *(IndexPath *) path->innerjoinpath;
		cost_index(&search, root, Max(path->outerjoinpath->rows, 1.0), false);
		path->path.total_cost += groups_cost(cand) + path->outerjoinpath->rows *
			(search.path.total_cost - path->innerjoinpath->total_cost);
		corrected = lappend(corrected, path);
		*paths = foreach_delete_current(*paths, lc);
	}
	foreach(lc, corrected)
		add(cand->joinrel, lfirst(lc));
}

/*
 * Return what to charge for groups of the small side in addition to PostgreSQL's cost
 *
 * Compared with what other nodes take for their costs, PostgreSQL's aggregates take several times
 * as long: 20,000 rows 5 ms for 170 units, GpuAgg ten times as many rows 1.5 ms for 150.
 */
static Cost
groups_cost(const GjJoinCandidate *cand)
{
	const Path *path = cand->small->cheapest_total_path;

	return GjIsOfGroups(cand->small) && IsA(path, AggPath) ?
		3.0 * (path->total_cost - ((const AggPath *) path)->subpath->total_cost) : 0.0;
}

/*
 * Return the reason why this node cannot run the join, whichever side is the big one; NULL if it
 * can
 */
static const char *
refuse_join(PlannerInfo *root, RelOptInfo *joinrel, List *restrictlist)
{
	ListCell   *lc;

	if (changes_rows(root) &&
		planner_rt_fetch(root->parse->resultRelation, root)->inh)
		return "a join that changes a partitioned table, or one with children, is not offered";
	if (!bms_is_empty(joinrel->lateral_relids))
		return "the join refers to other tables (LATERAL)";

	foreach(lc, restrictlist)
	{
		if (lfirst_node(RestrictInfo, lc)->pseudoconstant)
			return "the join has a condition that depends on no row";
	}
	return NULL;
}

static bool
changes_rows(PlannerInfo *root)
{
	return root->parse->commandType != CMD_SELECT && root->parse->commandType != CMD_INSERT;
}

/*
 * Consider a side as the big one, unless the join has already been refused
 */
static void
consider_side(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *big, RelOptInfo *small,
			  GjJoinKind kind, List *restrictlist, const char *refused)
{
	GjJoinCandidate cand = {.joinrel = joinrel,.big = big,.small = small,.kind = kind,
	.restrictlist = restrictlist};

	if (refused == NULL)
		refused = refuse_sides(root, &cand);
	if (refused == NULL)
		joinpath_add(root, &cand);
	GjChoiceJoinRefused(root, big, small, restrictlist, refused);
}

/*
 * Return the reason why we cannot join these sides, or why it is not worthwhile; NULL if we can
 *
 * If the small side is not smaller than the big one, no rows are saved.  Test that first, so that
 * a join of many tables of the same size is planned without examining each pair.
 */
static const char *
refuse_sides(PlannerInfo *root, const GjJoinCandidate *cand)
{
	RelOptInfo *big = cand->big;
	RelOptInfo *small = cand->small;

	if (!gj_force && small->rows >= Max(big->tuples, big->rows))
		return GjChoiceFormat("the other side of the join has about %.0f rows, "
							  "no fewer than this table", small->rows);
	if (!IS_SIMPLE_REL(big))
		return "the big side is a join itself";
	if (!bms_is_empty(big->lateral_relids))
		return "the table refers to others (LATERAL)";
	if ((changes_rows(root) || root->rowMarks != NIL) &&
		planner_rt_fetch(big->relid, root)->rtekind != RTE_RELATION)
		return "a UNION ALL is not joined where rows are changed or locked";
	if (IS_DUMMY_REL(big) || IS_DUMMY_REL(small))
		return "the query's conditions exclude all rows of a side";
	if (small->cheapest_total_path == NULL ||
		!bms_is_empty(PATH_REQ_OUTER(small->cheapest_total_path)))
		return "the other side of the join refers to other tables (LATERAL)";
	if (has_record_column(big) || has_record_column(small))
		return "a column of type record is wanted";
	if (GjJoinKeepsUnmatched(cand->kind) &&
		(needs_placeholder_of(root, cand->joinrel->reltarget->exprs, big) ||
		 needs_placeholder_of(root, extract_actual_clauses(cand->restrictlist, false), big)))
		return "an expression over the table has to be NULL where there is no match";
	return NULL;
}

/*
 * Offer a path for each clause that the indexes might answer
 */
static void
joinpath_add(PlannerInfo *root, GjJoinCandidate *cand)
{
	ListCell   *lc,
			   *scan;

	foreach(lc, cand->restrictlist)
	{
		cand->rinfo = lfirst_node(RestrictInfo, lc);

		if (!GjClauseJoinsSides(cand, cand->rinfo))
			continue;
		if (cand->tables == NIL)
			cand->tables = joinpath_list_tables(root, cand->big);
		if (cand->tables == NIL)
			return;
		if (!choose_scans(root, cand))
			continue;
		GjFindJoinValue(cand);
		cand->parts = GjFindJoinParts(root, cand);
		if (GjIndexIsHashed(((GjJoinScan *) linitial(cand->scans))->index) &&
			!list_member_ptr(cand->parts, cand->rinfo))
			continue;
		foreach(scan, cand->scans)
			GjFindJoinTuples(root, cand, lfirst(scan));
		add_join_path(root, cand);
	}
}

/*
 * Return true if a column of type record is needed of this side, other than the whole row
 */
static bool
has_record_column(const RelOptInfo *rel)
{
	List	   *vars = pull_var_clause((Node *) rel->reltarget->exprs,
									   PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
									   PVC_RECURSE_PLACEHOLDERS);
	ListCell   *lc;

	foreach(lc, vars)
	{
		Var		   *var = lfirst_node(Var, lc);

		if (var->vartype == RECORDOID && var->varattno != InvalidAttrNumber)
			return true;
	}
	return false;
}

/*
 * Return true if these expressions have a placeholder that is computed from the big table
 */
static bool
needs_placeholder_of(PlannerInfo *root, List *exprs, RelOptInfo *big)
{
	List	   *vars = pull_var_clause((Node *) exprs,
									   PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
									   PVC_INCLUDE_PLACEHOLDERS);
	ListCell   *lc;

	foreach(lc, vars)
	{
		Node	   *node = lfirst(lc);

		if (IsA(node, PlaceHolderVar) &&
			(bms_overlap(((PlaceHolderVar *) node)->phrels, big->relids) ||
			 bms_overlap(pull_varnos(root, node), big->relids)))
			return true;
	}
	return false;
}

/*
 * Return true if a clause compares an expression over the big side with one over the small side.
 * Indexes are examined for such clauses only.
 */
bool
GjClauseJoinsSides(const GjJoinCandidate *cand, RestrictInfo *rinfo)
{
	if (GjJoinKeepsUnmatched(cand->kind) &&
		RINFO_IS_PUSHED_DOWN(rinfo, cand->joinrel->relids))
		return false;

	return (bms_equal(rinfo->left_relids, cand->big->relids) &&
			!bms_is_empty(rinfo->right_relids) &&
			bms_is_subset(rinfo->right_relids, cand->small->relids)) ||
		(bms_equal(rinfo->right_relids, cand->big->relids) &&
		 !bms_is_empty(rinfo->left_relids) &&
		 bms_is_subset(rinfo->left_relids, cand->small->relids));
}

/*
 * Choose an index of each table that answers the clause
 */
static bool
choose_scans(PlannerInfo *root, GjJoinCandidate *cand)
{
	ListCell   *lc;

	cand->scans = NIL;
	foreach(lc, cand->tables)
	{
		GjJoinScan *scan = choose_scan(root, cand, lfirst_node(RelOptInfo, lc));

		if (scan == NULL)
			return false;
		if (cand->scans == NIL)
			cand->key = scan->key;
		cand->scans = lappend(cand->scans, scan);
	}
	return true;
}

static void
add_join_path(PlannerInfo *root, GjJoinCandidate *cand)
{
	Cost		alone;

	cand->small_path = GjJoinSmallPath(root, cand, cand->small->cheapest_total_path);
	cand->workers = 0;
	alone = add_path_with_workers(root, cand, 0.0);

	cand->small_path = parallel_small_path(root, cand);
	if (cand->small_path != NULL)
		cand->workers = joinpath_count_workers(cand);
	if (cand->workers > 0)
		(void) add_path_with_workers(root, cand, alone);
}

/*
 * Return a path of the small side that each process of a parallel plan can run; NULL if the join
 * cannot be parallel
 *
 * It cannot be parallel if we must know which small rows had a match, because no process sees all
 * big rows; if processes might collect different rows, or if one process would filter entries for
 * the others by values that differ.
 */
static Path *
parallel_small_path(PlannerInfo *root, const GjJoinCandidate *cand)
{
	Path	   *path;

	if (GjJoinMarksSmall(cand->kind) || cand->nbatches > 1.0 || GjIsOfGroups(cand->joinrel) ||
		!cand->joinrel->consider_parallel || !cand->big->consider_parallel ||
		!GjRowsAreSameEverywhere(root, cand->small) || !filters_are_same(root, cand))
		return NULL;
	path = cand->small->cheapest_total_path;
	if (!path->parallel_safe)
		path = get_cheapest_parallel_safe_total_inner(cand->small->pathlist);
	return path == NULL ? NULL : GjJoinSmallPath(root, cand, path);
}

static bool
filters_are_same(PlannerInfo *root, const GjJoinCandidate *cand)
{
	ListCell   *lc;

	foreach(lc, cand->scans)
	{
		const GjJoinScan *scan = lfirst(lc);

		if (!GjValuesAreSameEverywhere(root, scan->filters) ||
			(scan->other != NULL && !GjValuesAreSameEverywhere(root, scan->other->filters)))
			return false;
	}
	return true;
}

/*
 * Return the number of workers for fetching from the largest table
 */
static int
joinpath_count_workers(const GjJoinCandidate *cand)
{
	int			workers = 0;
	ListCell   *lc;

	foreach(lc, cand->scans)
	{
		GjJoinScan *scan = lfirst(lc);
		GjCostInput input = {.rel = scan->table,.index = scan->index,
			.nmatches = scan->nmatches,.filtered = scan->filtered,
		.index_only = scan->index_only,.lacking = scan->lacking};

		workers = Max(workers, GjCountWorkers(&input));
	}
	return workers;
}

/*
 * Add a path for one process, or for several, given the cost of the former; returns the path's
 * cost without the charge for workers
 */
static Cost
add_path_with_workers(PlannerInfo *root, GjJoinCandidate *cand, Cost alone)
{
	CustomPath *path = makeNode(CustomPath);
	GjJoinCandidate *kept = palloc(sizeof(GjJoinCandidate));
	RelOptInfo *joinrel = cand->joinrel;
	Cost		startup;
	Cost		run;

	path->path.pathtype = T_CustomScan;
	path->path.parent = joinrel;
	path->path.pathtarget = joinrel->reltarget;
	path->path.parallel_aware = cand->workers > 0;
	path->path.parallel_safe = joinrel->consider_parallel && cand->big->consider_parallel &&
		cand->small_path->parallel_safe;
	path->path.parallel_workers = cand->workers;
	path->path.rows = clamp_row_est(joinrel->rows / GjParallelDivisor(cand->workers));
	GjPathInheritDisabled(&path->path, cand->small_path);
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &GjJoinPathMethods;
	path->custom_paths = list_make1(cand->small_path);

	cand->scans = copy_scans(cand->scans);
	cand->selectivity = pair_selectivity(root, cand, list_make1(cand->rinfo));
	cand->tuple_selectivity = pair_selectivity(root, cand, GjJoinTested(cand));
	if (OidIsValid(cand->key.cast))
		correct_for_cast(root, cand);
	joinpath_count_keys(root, cand);
	join_cost(root, cand, &startup, &run);
	/* pg_hint_plan disables all joins if its hints forbid to join these two sides first */
	if (!enable_nestloop && !enable_hashjoin && !enable_mergejoin && !gj_force)
		GjPathDisable(&path->path, &startup);
	*kept = *cand;
	path->custom_private = list_make1(kept);

	if (cand->workers > 0)
		GjAddPartialPath(root, joinrel, path, startup, run, alone, cost_unit(cand));
	else
		GjAddPath(root, joinrel, path, startup, run);
	return startup + run;
}

/*
 * Return the time that a unit of the join's cost takes (cost.c), averaged over the big rows
 */
static double
cost_unit(const GjJoinCandidate *cand)
{
	double		rows = 0.0;
	double		time = 0.0;
	ListCell   *lc;

	foreach(lc, cand->scans)
	{
		const GjJoinScan *scan = lfirst(lc);

		rows += scan->rows;
		time += scan->rows * GjCostUnit(scan->table, scan->index_only);
	}
	return time / Max(rows, 1.0);
}

/*
 * Copy the scans, because each path stores its costs in them
 */
static List *
copy_scans(List *scans)
{
	List	   *copies = NIL;
	ListCell   *lc;

	foreach(lc, scans)
	{
		GjJoinScan *copy = palloc(sizeof(GjJoinScan));

		*copy = *(GjJoinScan *) lfirst(lc);
		copies = lappend(copies, copy);
	}
	return copies;
}

/*-------------------------------------------------------------------------
 * The big side
 *
 * Find the tables of the big side, and a scan for each of them.
 *
 * The big side is an ordinary table, or a partitioned table, a table with children, or a UNION ALL
 * of tables that was pulled up.  The latter consist of their leaves, which core has already found:
 * those that pruning or constraints exclude have no RelOptInfo or are dummies.  We translate the
 * parent's columns and clauses for each leaf, as core does for an Append: columns and clauses by
 * translating their Vars (so that dropped columns, different column orders, whole rows and
 * expressions of a UNION ALL are handled), and filters by using the leaf's own list, which
 * contains the parent's filters with their security levels.  In SQL, row security and privileges
 * belong to the parent; they are in that list or were checked with the parent's range table entry.
 *
 * Each leaf must have an index of ours that answers the clause; a join with a leaf that has no
 * such index is left to core.
 *-------------------------------------------------------------------------
 */

/*
 * List the tables of the big side; returns NIL if we cannot scan one of them, or if they are too
 * small together
 */
static List *
joinpath_list_tables(PlannerInfo *root, RelOptInfo *big)
{
	List	   *tables = NIL;
	double		rows = 0.0;
	ListCell   *lc;

	if (!add_tables(root, big, &tables))
		return NIL;

	foreach(lc, tables)
		rows += lfirst_node(RelOptInfo, lc)->tuples;
	return gj_force || rows >= gj_min_rows ? tables : NIL;
}

static bool
add_tables(PlannerInfo *root, RelOptInfo *rel, List **tables)
{
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);

	if (IS_DUMMY_REL(rel))
		return true;
	if (rte->inh)
		return add_members(root, rel, tables);
	if (!GjIsUserTable(rte) || !has_eligible_index(rel) ||
		GjRefuseTable(root, rel, rte, 0) != NULL)
		return false;

	*tables = lappend(*tables, rel);
	return true;
}

static bool
has_eligible_index(const RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		if (is_eligible(lfirst_node(IndexOptInfo, lc)))
			return true;
	}
	return false;
}

/*
 * Return true for an index of ours that has all rows that the query may return
 */
static bool
is_eligible(const IndexOptInfo *index)
{
	return GjIndexIsOurs(index) && GjRefuseIndex(index) == NULL;
}

static bool
add_members(PlannerInfo *root, RelOptInfo *rel, List **tables)
{
	ListCell   *lc;

	if (rel->part_rels != NULL)
	{
		for (int i = 0; i < rel->nparts; i++)
		{
			if (rel->part_rels[i] != NULL && !add_tables(root, rel->part_rels[i], tables))
				return false;
		}
		return true;
	}

	foreach(lc, root->append_rel_list)
	{
		AppendRelInfo *appinfo = lfirst_node(AppendRelInfo, lc);

		if (appinfo->parent_relid == rel->relid &&
			!add_tables(root, find_base_rel(root, appinfo->child_relid), tables))
			return false;
	}
	return true;
}

/*
 * Return true if the key determines the partition of the big side
 */
static bool
is_by_key(PlannerInfo *root, const GjJoinCandidate *cand)
{
	RelOptInfo *big = cand->big;
	Var		   *key = GjOnlyPartitionKey(big);
	ListCell   *lc;

	if (planner_rt_fetch(big->relid, root)->relkind != RELKIND_PARTITIONED_TABLE ||
		key == NULL || !equal(key, GjJoinKeyExpr(cand)))
		return false;

	foreach(lc, cand->scans)
	{
		if (!GjIndexKeepsValues(((GjJoinScan *) lfirst(lc))->index))
			return false;
	}
	return true;
}

/*
 * Choose how to scan a table for the candidate's clause; returns NULL if no index answers it
 *
 * The smallest of several indexes is best, as each is read from end to end; but a bigger one may
 * make the heap unnecessary.  Then keep both, and let costs decide.
 */
static GjJoinScan *
choose_scan(PlannerInfo *root, const GjJoinCandidate *cand, RelOptInfo *table)
{
	GjJoinScan *scan = NULL;
	GjJoinScan *covering = NULL;
	ListCell   *lc;

	foreach(lc, table->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		GjSource	key;
		List	   *attnos;
		double		lacking;

		if (!is_eligible(index) || !scan_answers(root, cand, index, table, &key))
			continue;
		keep_smaller(&scan, table, index, &key);
		if (!GjIndexOnlyCovers(root, table, index, table->baserestrictinfo, false, &attnos))
			continue;
		lacking = GjWordsLacking(root, table, index, attnos);
		if (lacking > GJ_MOST_LACKING && !gj_force)
			continue;
		keep_smaller(&covering, table, index, &key);
		if (covering->index == index)
			covering->lacking = lacking;
	}
	if (covering == NULL)
		return scan;

	covering->index_only = true;
	if (covering->index == scan->index)
		return covering;
	if (is_same_key(&covering->key, covering->index, &scan->key, scan->index))
		scan->other = covering;
	return scan;
}

static void
keep_smaller(GjJoinScan **scan, RelOptInfo *table, IndexOptInfo *index, const GjSource *key)
{
	if (*scan != NULL && (*scan)->index->pages <= index->pages)
		return;
	if (*scan == NULL)
		*scan = palloc0(sizeof(GjJoinScan));
	(*scan)->table = table;
	(*scan)->index = index;
	(*scan)->key = *key;
}

/*
 * Return true if the index answers the clause with the same operator and codec as the other
 * tables' indexes.  The keys of the small side are computed only once.  A float8 may equal several
 * keys, but a small row has one mark (joinpart.c).
 */
static bool
scan_answers(PlannerInfo *root, const GjJoinCandidate *cand, IndexOptInfo *index,
			 RelOptInfo *table, GjSource *key)
{
	const char *refused;

	*key = cand->key;
	if (is_like_first(root, cand, index, table))
		return true;
	return GjFoldJoinClause(root, table, index,
							GjJoinClauseOf(root, cand->rinfo, table, cand->big),
							cand->small->relids, key, &refused) &&
		!(GjJoinMarksSmall(cand->kind) && key->cast == F_FLOAT8_INT8) &&
		(cand->scans == NIL ||
		 is_same_key(&cand->key, ((GjJoinScan *) linitial(cand->scans))->index, key, index));
}

/*
 * Return true if the index has the same column of the big side as the first table's, and the same
 * operators: of hundreds of partitions, one is examined
 */
static bool
is_like_first(PlannerInfo *root, const GjJoinCandidate *cand, const IndexOptInfo *index,
			  const RelOptInfo *table)
{
	const GjJoinScan *first = cand->scans == NIL ? NULL : linitial(cand->scans);
	AttrNumber	column = GjColumnOfParent(root, cand->big, table, index->indexkeys[0]);

	return first != NULL && column != InvalidAttrNumber &&
		column == GjColumnOfParent(root, cand->big, first->table, first->index->indexkeys[0]) &&
		has_same_class(index, first->index) && !GjPassesBarrier(cand->rinfo, table) &&
		!GjIndexIsHashed(index);
}

static bool
is_same_key(const GjSource *a, const IndexOptInfo *of_a, const GjSource *b,
			const IndexOptInfo *of_b)
{
	return a->opno == b->opno && a->value_type == b->value_type &&
		a->conversion == b->conversion && a->cast == b->cast && has_same_class(of_a, of_b) &&
		GjIndexRestProc(of_a) == GjIndexRestProc(of_b);
}

static bool
has_same_class(const IndexOptInfo *a, const IndexOptInfo *b)
{
	return a->opfamily[0] == b->opfamily[0] && a->opcintype[0] == b->opcintype[0] &&
		a->indexcollations[0] == b->indexcollations[0];
}

/*-------------------------------------------------------------------------
 * Costs
 *
 * Estimate the cost of a GpuJoin: its small side, the scans of its tables, and the pairs.
 *-------------------------------------------------------------------------
 */

/*
 * Estimate the cost of the join:
 *
 *	  small side		its path, and the hash table as in a hash join; also a sort
 *						if it exceeds the memory limit
 *	  batches			each searches the index again: one match for each
 *	  big rows			GjCostSearch, over all tables and batches
 *	  pairs				the join quals on each pair with equal keys; if these quals remove
 *						pairs, see dropped_pairs_cost()
 *	  result			cpu_tuple_cost and the target list, for no more rows than there are pairs:
 *						PostgreSQL often estimates more for a semijoin by several columns
 *
 * All rows of a cursor share the cost of the small side and of the match (cost.c).
 *
 * In a parallel plan each process collects the small side; the work for each big row, pair and
 * result row is divided.
 */
static void
join_cost(PlannerInfo *root, GjJoinCandidate *cand, Cost *startup, Cost *run)
{
	PathTarget *target = cand->joinrel->reltarget;
	double		divisor = GjParallelDivisor(cand->workers);
	double		pairs;
	double		results;
	List	   *others;
	QualCost	joinquals;
	ListCell   *lc;

	cand->nbatches = cost_collect(cand, startup);
	cand->by_key = is_by_key(root, cand);
	*run = 0.0;

	/* No row is returned before the first table has been searched; the others are searched later */
	foreach(lc, cand->scans)
	{
		GjJoinScan *scan = lfirst(lc);

		cost_scan(root, cand, scan);
		if (lc == list_head(cand->scans))
			*startup += scan->startup;
		else
			*run += scan->startup;
		*run += scan->run;
	}

	pairs = clamp_row_est(cand->big->rows * cand->small->rows * cand->tuple_selectivity);
	others = list_difference_ptr(cand->restrictlist, GjJoinTested(cand));
	cost_qual_eval(&joinquals, others, root);
	*startup += joinquals.startup + target->cost.startup;
	*run += dropped_pairs_cost(root, cand) / divisor;
	results = pairs + (GjJoinKeepsUnmatched(cand->kind) ? cand->small->rows : 0.0);
	*run += pairs / divisor * (joinquals.per_tuple + cpu_operator_cost) +
		Min(results, cand->joinrel->rows) / divisor * (cpu_tuple_cost + target->cost.per_tuple);
	if (GjIsForCursor(root))
	{
		*run += *startup - cand->small_path->startup_cost;
		*startup = cand->small_path->startup_cost;
	}
}

/*
 * Estimate the numbers of distinct keys of the small side, and of distinct keys with their parts
 *
 * PostgreSQL assumes 200 values of a column without statistics, and more tuples, for which it
 * charges its own plans.  Expect as many keys as that number of tuples has at random.
 */
static void
joinpath_count_keys(PlannerInfo *root, GjJoinCandidate *cand)
{
	VariableStatData value;

	cand->nkeys = estimate_num_groups(root, list_make1(cand->key.value), cand->small->rows,
									  NULL, NULL);
	cand->ntuples = cand->nkeys;
	if (cand->parts == NIL)
		return;
	cand->ntuples = estimate_num_groups(root, list_of_values(cand), cand->small->rows,
										NULL, NULL);
	examine_variable(root, (Node *) cand->key.value, 0, &value);
	if (!HeapTupleIsValid(value.statsTuple))
		cand->nkeys = Max(cand->nkeys, expect_keys(cand, cand->ntuples));
	ReleaseVariableStats(value);
}

/*
 * Return the number of keys that tuples are expected to have if each has one of the big side's keys
 * at random
 */
static double
expect_keys(const GjJoinCandidate *cand, double ntuples)
{
	return (1.0 - pow(1.0 - cand->selectivity, ntuples)) / Max(cand->selectivity, DBL_MIN);
}

/*
 * Estimate the cost of a join whose path has been made, as if the small side had this many rows,
 * all with different tuples
 */
Cost
GjJoinCostOf(PlannerInfo *root, const GjJoinCandidate *cand, double rows)
{
	GjJoinCandidate scaled = *cand;
	RelOptInfo	small = *cand->small;
	Path		small_path = *cand->small_path;
	Cost		startup;
	Cost		run;

	small_path.total_cost *= rows / Max(small.rows, 1.0);
	small.rows = rows;
	scaled.small = &small;
	scaled.small_path = &small_path;
	scaled.scans = copy_scans(cand->scans);
	scaled.ntuples = rows;
	scaled.nkeys = expect_keys(cand, rows);
	join_cost(root, &scaled, &startup, &run);
	return startup + run;
}

/*
 * List the small side's values of the key and the parts
 */
static List *
list_of_values(const GjJoinCandidate *cand)
{
	List	   *values = list_make1(cand->key.value);
	ListCell   *lc;

	foreach(lc, cand->parts)
	{
		GjComparison part;

		(void) GjReadJoinPart(cand, lfirst_node(RestrictInfo, lc), &part);
		values = list_append_unique(values, part.value);
	}
	return values;
}

/*
 * Estimate the fraction of all pairs for which join clauses are true, whatever the join's type
 */
static Selectivity
pair_selectivity(PlannerInfo *root, const GjJoinCandidate *cand, List *clauses)
{
	SpecialJoinInfo sjinfo;

	memset(&sjinfo, 0, sizeof(sjinfo));
	sjinfo.type = T_SpecialJoinInfo;
	sjinfo.min_lefthand = sjinfo.syn_lefthand = cand->small->relids;
	sjinfo.min_righthand = sjinfo.syn_righthand = cand->big->relids;
	sjinfo.jointype = JOIN_INNER;

	return clauselist_selectivity(root, clauses, 0, JOIN_INNER, &sjinfo);
}

/*
 * Estimate the fractions again if the key is cast.  PostgreSQL has no statistics on the cast and
 * assumes 200 values, but the key has as many different ones, because the cast preserves equality.
 */
static void
correct_for_cast(PlannerInfo *root, GjJoinCandidate *cand)
{
	Selectivity guessed = cand->selectivity;
	VariableStatData key;
	Oid			cast;
	bool		is_default;

	examine_variable(root, GjReadCast((Node *) GjJoinKeyExpr(cand), &cast), 0, &key);
	cand->selectivity = Min(guessed, 1.0 / get_variable_numdistinct(&key, &is_default));
	cand->tuple_selectivity *= cand->selectivity / Max(guessed, DBL_MIN);
	ReleaseVariableStats(key);
}

/*
 * Estimate the additional cost of the pairs that the other join clauses remove.  Looking up rows
 * that the index has found by the key alone removes such pairs, too, unless their entries have
 * been tested.
 *
 * A nested loop whose inner side is an index scan by all of the clauses never forms these pairs.
 * PostgreSQL charges each of its look-ups for pages from disk.  In memory such a unit of cost
 * takes a quarter of the time of a unit charged for tuples, which makes removed pairs look too
 * cheap in comparison: 3,000 look-ups took 9.8 ms and 149,000 pairs of 1 M rows 21.9 ms, estimated
 * at 18,500 and 10,900.  If no such nested loop competes, add nothing.
 */
static Cost
dropped_pairs_cost(PlannerInfo *root, const GjJoinCandidate *cand)
{
	const GjJoinScan *scan = linitial(cand->scans);
	double		fetched = scan->index_only ? 1.0 - scan->table->allvisfrac : 1.0;
	bool		by_entries = scan->entry_parts != NIL;
	double		pairs = cand->big->rows * cand->small->rows *
		(by_entries ? cand->tuple_selectivity : cand->selectivity);
	List	   *others = list_difference_ptr(cand->restrictlist, by_entries ?
											 GjJoinTested(cand) : list_make1(cand->rinfo));

	if (others == NIL || !has_index_lookups(cand))
		return 0.0;
	return DROPPED_PAIR_COST * fetched * pairs *
		(1.0 - pair_selectivity(root, cand, others));
}

/*
 * Return true if a nested loop that looks up small rows in an index is among the join's paths
 */
static bool
has_index_lookups(const GjJoinCandidate *cand)
{
	ListCell   *lc;

	foreach(lc, cand->joinrel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (IsA(path, NestPath) && PATH_REQ_OUTER(((JoinPath *) path)->innerjoinpath) != NULL)
			return true;
	}
	return false;
}

/*
 * Estimate the cost of the small side; returns the number of its batches
 */
static double
cost_collect(const GjJoinCandidate *cand, Cost *cost)
{
	double		rows = cand->small->rows;
	double		bytes = rows * (MAXALIGN(cand->small->reltarget->width) + SMALL_ROW_OVERHEAD);
	double		nbatches = ceil(bytes / get_hash_memory_limit());

	*cost = cand->small_path->total_cost + groups_cost(cand) +
		rows * (cpu_operator_cost + cpu_tuple_cost);
	if (nbatches > 1.0)
		*cost += 2.0 * rows * log2(Max(rows, 2.0)) * cpu_operator_cost +
			2.0 * bytes / BLCKSZ * seq_page_cost;
	return Max(nbatches, 1.0);
}

/*
 * Estimate the cost of a scan over all batches, and its number of rows; of two ways to scan,
 * choose the cheaper one
 */
static void
cost_scan(PlannerInfo *root, const GjJoinCandidate *cand, GjJoinScan *scan)
{
	GjJoinScan	this;

	cost_way(root, cand, scan);
	if (scan->other == NULL)
		return;
	cost_way(root, cand, scan->other);
	if (scan->other->startup + scan->other->run >= scan->startup + scan->run)
		return;

	/* keep both: a parallel plan chooses again */
	this = *scan;
	*scan = *this.other;
	scan->other = palloc(sizeof(GjJoinScan));
	*scan->other = this;
}

/*
 * Estimate one way to scan
 *
 * We assume that matches are spread evenly over the big side's rows.  If the key determines the
 * partition, a table is not searched if no key belongs to it; n keys hit one of p tables with
 * probability 1 - (1 - 1/p)^n.
 */
static void
cost_way(PlannerInfo *root, const GjJoinCandidate *cand, GjJoinScan *scan)
{
	RelOptInfo *table = scan->table;
	double		share = Min(1.0, cand->nkeys * cand->selectivity);
	GjCostInput input = {.rel = table,.index = scan->index,.nkeys = cand->nkeys,
		.nmatches = Min(table->tuples * share, scan->index->tuples),
		.quals = table->baserestrictcost,.workers = cand->workers,
	.index_only = scan->index_only,.lacking = scan->lacking};
	double		searched = cand->by_key ?
		1.0 - pow(1.0 - 1.0 / list_length(cand->tables), cand->nkeys) : 1.0;

	input.filtered = GjFilterShare(root, table, scan->index, table->baserestrictinfo,
								   &input.lacking, &scan->filters, &input.filter_cost);
	if (scan->entry_parts != NIL)
		GjChargeParts(root, &input, scan->tuples,
					  Min(cand->ntuples * cand->tuple_selectivity / Max(share, DBL_MIN), 1.0));
	scan->nmatches = input.nmatches;
	scan->filtered = input.filtered;
	input.searched = searched;
	GjCostSearch(root, &input, &scan->startup, &scan->run);
	if (cand->nbatches > 1.0)
		scan->run += searched * (cand->nbatches - 1.0) *
			GjCostMatch(scan->index, cand->nkeys / cand->nbatches,
						input.nmatches / cand->nbatches, false);
	scan->rows = clamp_row_est(table->rows * share / GjParallelDivisor(cand->workers));
}
