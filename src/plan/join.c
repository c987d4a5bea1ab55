/*-------------------------------------------------------------------------
 *
 * join.c
 *	  Recognise small JOIN big ON big.key = small.k, offer GpuJoin paths.
 *
 * A GpuJoin replaces a join and the scan of the big table, so it answers for all
 * that these two would have tested: every restriction of the big table (also the
 * pseudoconstant ones, for which core makes a gating node only above the scan that
 * it plans itself) and every clause of the join.  The clause that the index answers
 * is left out, since the look-up in the table of small rows tests just that.
 *
 * What is not offered, and why:
 *
 *	- Joins of an UPDATE, DELETE or MERGE of a partitioned table or one with children:
 *	  what identifies a row to be changed is a column of no table there (ROWID_VAR),
 *	  which a description of the joined row cannot have.
 *	- A UNION ALL as the big side where rows are locked or changed: EvalPlanQual keeps a
 *	  row of the whole, but a scan of one of its tables must know which is its own.
 *	- JOIN_UNIQUE_OUTER and JOIN_UNIQUE_INNER: there the caller has to make a side
 *	  unique.  FULL joins, and those that keep big rows without a match.
 *	- Joins with a lateral reference left open, and pseudoconstant join clauses.
 *	- Outer and anti joins whose clauses or target have a placeholder that needs
 *	  the big table.  Such a value has to become NULL where there is no match, but
 *	  here it would be computed above the join.  In other joins, the same value
 *	  comes out above and below.
 *	- Sides of which a column of type record is wanted, as SEARCH BREADTH FIRST adds one to a
 *	  recursive query.  What the fields of such a column are called, EXPLAIN finds in the
 *	  plan that computes it.  From a joined row it looks no further than the description of
 *	  that, and gives up: it prints a wrong name, or fails where assertions are enabled.
 *	  Whole rows are no trouble, their fields are those of the range table entry.
 *
 * Where rows are changed or locked, what EvalPlanQual needs of either side (TIDs, whole
 * rows) is in the join's target like any other column, and each table's scan can take a
 * replaced row (join/scan.c).
 *
 * In an outer join the ON clauses decide whether a row has a match and the others
 * whether it is returned; both kinds are kept apart up to the executor.  The
 * index's clause must be one of ON.
 *
 * The big side may be a partitioned table, a table with children or a UNION ALL:
 * then the small side is joined with one table after another (jointables.c).
 *
 * Nothing here is parameterised by another relation, so core never has to translate
 * a path for a child; a partition-wise join asks for a path of its own.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "choice.h"
#include "joinpath.h"
#include "planner.h"

static const char *refuse_join(PlannerInfo *root, RelOptInfo *joinrel, List *restrictlist);
static bool changes_rows(PlannerInfo *root);
static void consider_side(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *big,
						  RelOptInfo *small, GjJoinKind kind, List *restrictlist,
						  const char *refused);
static const char *refuse_sides(PlannerInfo *root, const GjJoinCandidate *cand);
static void add_join_paths(PlannerInfo *root, GjJoinCandidate *cand);
static bool has_record_column(const RelOptInfo *rel);
static bool needs_placeholder_of(PlannerInfo *root, List *exprs, RelOptInfo *big);
static bool clause_joins_sides(const GjJoinCandidate *cand, RestrictInfo *rinfo);
static bool choose_scans(PlannerInfo *root, GjJoinCandidate *cand);
static void add_join_path(PlannerInfo *root, GjJoinCandidate *cand);
static Path *parallel_small_path(PlannerInfo *root, const GjJoinCandidate *cand);
static bool filters_are_same(PlannerInfo *root, const GjJoinCandidate *cand);
static int	count_workers(const GjJoinCandidate *cand);
static Cost add_path_with_workers(PlannerInfo *root, GjJoinCandidate *cand, Cost alone);
static double cost_unit(const GjJoinCandidate *cand);
static bool joins_are_disabled(void);
static List *copy_scans(List *scans);

/*
 * Offer the ways in which one side of this join can be the big table
 *
 * The hook is called with either order of an inner join, so that each call has to
 * try one side only.  A semijoin may come as an inner join when a side has been made unique;
 * that is for core's own nodes.
 */
void
GjAddJoinPaths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
			   RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra)
{
	List	   *clauses = extra->restrictlist;
	const char *refused;

	if (extra->sjinfo->jointype != jointype)
		return;

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
 * Say why this node cannot run the join, whichever side is the big one; NULL if it can
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
 * Consider a side as the big one, unless the join was refused before
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
		add_join_paths(root, &cand);
	GjChoiceJoinRefused(root, big, small, restrictlist, refused);
}

/*
 * Say why these sides cannot be joined by us, or why it is not worth it; NULL if nothing is
 * against it
 *
 * If the small side is not smaller than the big one, there is nothing to select.  That is
 * tested first, so that a join of many tables of one size is planned without looking at each
 * pair.
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
 * Offer a path for each clause that could be the one that the indexes answer
 */
static void
add_join_paths(PlannerInfo *root, GjJoinCandidate *cand)
{
	ListCell   *lc;

	foreach(lc, cand->restrictlist)
	{
		cand->rinfo = lfirst_node(RestrictInfo, lc);

		if (!clause_joins_sides(cand, cand->rinfo))
			continue;
		if (cand->tables == NIL)
			cand->tables = GjJoinTables(root, cand->big);
		if (cand->tables == NIL)
			return;
		if (choose_scans(root, cand))
			add_join_path(root, cand);
	}
}

/*
 * Is a column of type record wanted of this side, the whole row apart?
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
 * Is there a placeholder in these expressions that is computed from the big table?
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
 * Does this clause compare something of the big side with something of the small side?
 * Only if it does are the indexes looked at.
 */
static bool
clause_joins_sides(const GjJoinCandidate *cand, RestrictInfo *rinfo)
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
		GjJoinScan *scan = GjJoinChooseScan(root, cand, lfirst_node(RelOptInfo, lc));

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

	cand->small_path = cand->small->cheapest_total_path;
	cand->workers = 0;
	alone = add_path_with_workers(root, cand, 0.0);

	cand->small_path = parallel_small_path(root, cand);
	if (cand->small_path != NULL)
		cand->workers = count_workers(cand);
	if (cand->workers > 0)
		(void) add_path_with_workers(root, cand, alone);
}

/*
 * Return a path of the small side that each process of a parallel plan can run; NULL if the
 * join cannot be parallel.  It cannot where one must know which small rows had a match, since
 * no process sees all big rows, nor where processes might collect different rows, or filter
 * entries for others by values that these have not.
 */
static Path *
parallel_small_path(PlannerInfo *root, const GjJoinCandidate *cand)
{
	if (GjJoinMarksSmall(cand->kind) || cand->nbatches > 1.0 ||
		!cand->joinrel->consider_parallel || !cand->big->consider_parallel ||
		!GjRowsAreSameEverywhere(root, cand->small) || !filters_are_same(root, cand))
		return NULL;
	if (cand->small->cheapest_total_path->parallel_safe)
		return cand->small->cheapest_total_path;
	return get_cheapest_parallel_safe_total_inner(cand->small->pathlist);
}

static bool
filters_are_same(PlannerInfo *root, const GjJoinCandidate *cand)
{
	ListCell   *lc;

	foreach(lc, cand->scans)
	{
		const GjJoinScan *scan = lfirst(lc);
		List	   *clauses = scan->table->baserestrictinfo;

		if (!GjValuesAreSameEverywhere(root, GjFilterClauses(scan->table, scan->index, clauses)))
			return false;
		if (scan->other != NULL &&
			!GjValuesAreSameEverywhere(root, GjFilterClauses(scan->table, scan->other->index,
															 clauses)))
			return false;
	}
	return true;
}

/*
 * Return the number of workers that the largest table's fetch would have
 */
static int
count_workers(const GjJoinCandidate *cand)
{
	int			workers = 0;
	ListCell   *lc;

	foreach(lc, cand->scans)
	{
		GjJoinScan *scan = lfirst(lc);
		GjCostInput input = {.rel = scan->table,.index = scan->index,
			.nmatches = scan->nmatches,.filtered = scan->filtered,
		.index_only = scan->index_only};

		workers = Max(workers, GjCountWorkers(&input));
	}
	return workers;
}

/*
 * Add a path for one process, or for one with workers, given the cost of the former; return its
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
	GjJoinCost(root, cand, &startup, &run);
	if (joins_are_disabled())
		GjPathDisable(&path->path, &startup);
	*kept = *cand;
	path->custom_private = list_make1(kept);
	Assert(list_length(path->custom_private) == GJ_JOIN_PATH_COUNT);

	if (cand->workers > 0)
		GjAddPartialPath(root, joinrel, path, startup, run, alone, cost_unit(cand));
	else
		GjAddPath(root, joinrel, path, startup, run);
	return startup + run;
}

/*
 * Return the time that a unit of the join's cost takes (cost.c), on average over the big rows
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
 * Are joins of all kinds disabled?  So pg_hint_plan lets the planner know that it should not join
 * these two, where a hint says in which order tables are to be joined.
 */
static bool
joins_are_disabled(void)
{
	return !enable_nestloop && !enable_hashjoin && !enable_mergejoin && !gj_force;
}

/*
 * Copy the scans, as each path keeps costs of its own in them
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
