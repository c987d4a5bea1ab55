/*-------------------------------------------------------------------------
 *
 * planjoin.c
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
 *
 * Where rows are changed or locked, what EvalPlanQual needs of either side (TIDs, whole
 * rows) is in the join's target like any other column, and each table's scan can take a
 * replaced row (execjoinscan.c).
 *
 * In an outer join the ON clauses decide whether a row has a match and the others
 * whether it is returned; both kinds are kept apart up to the executor.  The
 * index's clause must be one of ON.
 *
 * The big side may be a partitioned table, a table with children or a UNION ALL:
 * then the small side is joined with one table after another (planjointables.c).
 *
 * Nothing here is parameterised by another relation, so core never has to translate
 * a path for a child; a partition-wise join asks for a path of its own.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/selfuncs.h"

#include "compat.h"
#include "exec.h"
#include "gpujoin.h"
#include "joinplan.h"
#include "plan.h"

/* Bytes that a collected row takes besides its columns */
#define SMALL_ROW_OVERHEAD		80

static bool join_is_eligible(PlannerInfo *root, RelOptInfo *joinrel, JoinType jointype,
							 JoinPathExtraData *extra);
static bool changes_rows(PlannerInfo *root);
static void consider_sides(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *big,
						   RelOptInfo *small, GjJoinKind kind, List *restrictlist);
static bool is_smaller(const RelOptInfo *small, const RelOptInfo *big);
static bool sides_are_eligible(PlannerInfo *root, GjJoinCandidate *cand);
static bool needs_placeholder_of(PlannerInfo *root, List *exprs, RelOptInfo *big);
static bool clause_joins_sides(const GjJoinCandidate *cand, RestrictInfo *rinfo);
static bool choose_scans(PlannerInfo *root, GjJoinCandidate *cand);
static void add_join_path(PlannerInfo *root, GjJoinCandidate *cand);
static Path *parallel_small_path(const GjJoinCandidate *cand);
static int	count_workers(const GjJoinCandidate *cand);
static void add_path_with_workers(PlannerInfo *root, GjJoinCandidate *cand);
static List *copy_scans(List *scans);
static void cost_join(PlannerInfo *root, GjJoinCandidate *cand, Cost *startup, Cost *run);
static Selectivity key_selectivity(PlannerInfo *root, const GjJoinCandidate *cand);
static double cost_collect(const GjJoinCandidate *cand, Cost *cost);

/*
 * Offer the ways in which one side of this join can be the big table
 *
 * The hook is called with either order of an inner join, so that each call has to
 * try one side only.
 */
void
GjAddJoinPaths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
			   RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra)
{
	List	   *clauses = extra->restrictlist;

	if (!join_is_eligible(root, joinrel, jointype, extra))
		return;

	switch (jointype)
	{
		case JOIN_INNER:
			consider_sides(root, joinrel, innerrel, outerrel, GJ_JOIN_INNER, clauses);
			break;
		case JOIN_SEMI:
			consider_sides(root, joinrel, outerrel, innerrel, GJ_JOIN_SEMI, clauses);
			consider_sides(root, joinrel, innerrel, outerrel, GJ_JOIN_RIGHT_SEMI, clauses);
			break;
		case JOIN_LEFT:
			consider_sides(root, joinrel, innerrel, outerrel, GJ_JOIN_RIGHT, clauses);
			break;
		case JOIN_ANTI:
			consider_sides(root, joinrel, innerrel, outerrel, GJ_JOIN_RIGHT_ANTI, clauses);
			break;
		default:
			break;
	}
}

/*
 * Is it a join that this node can run, whichever side is the big one?
 *
 * A semijoin may come as an inner join when a side has been made unique; that is
 * for core's own nodes.
 */
static bool
join_is_eligible(PlannerInfo *root, RelOptInfo *joinrel, JoinType jointype,
				 JoinPathExtraData *extra)
{
	ListCell   *lc;

	if (changes_rows(root) &&
		planner_rt_fetch(root->parse->resultRelation, root)->inh)
		return false;
	if (!bms_is_empty(joinrel->lateral_relids) || extra->sjinfo->jointype != jointype)
		return false;

	foreach(lc, extra->restrictlist)
	{
		if (lfirst_node(RestrictInfo, lc)->pseudoconstant)
			return false;
	}
	return true;
}

static bool
changes_rows(PlannerInfo *root)
{
	return root->parse->commandType != CMD_SELECT && root->parse->commandType != CMD_INSERT;
}

/*
 * Offer a path for each clause that could be the one that the indexes answer
 */
static void
consider_sides(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *big,
			   RelOptInfo *small, GjJoinKind kind, List *restrictlist)
{
	GjJoinCandidate cand = {.joinrel = joinrel,.big = big,.small = small,.kind = kind,
	.restrictlist = restrictlist};
	ListCell   *lc;

	if (!is_smaller(small, big) || !sides_are_eligible(root, &cand))
		return;

	foreach(lc, restrictlist)
	{
		cand.rinfo = lfirst_node(RestrictInfo, lc);

		if (!clause_joins_sides(&cand, cand.rinfo))
			continue;
		if (cand.tables == NIL)
			cand.tables = GjJoinTables(root, big);
		if (cand.tables == NIL)
			return;
		if (choose_scans(root, &cand))
			add_join_path(root, &cand);
	}
}

/*
 * Is the small side smaller than the big one?  If it is not, there is nothing to select,
 * and a join of many tables of one size is planned without looking at each pair.
 */
static bool
is_smaller(const RelOptInfo *small, const RelOptInfo *big)
{
	return gj_force || small->rows < Max(big->tuples, big->rows);
}

static bool
sides_are_eligible(PlannerInfo *root, GjJoinCandidate *cand)
{
	RelOptInfo *big = cand->big;

	if (!IS_SIMPLE_REL(big) || !bms_is_empty(big->lateral_relids) || IS_DUMMY_REL(big))
		return false;
	if ((changes_rows(root) || root->rowMarks != NIL) &&
		planner_rt_fetch(big->relid, root)->rtekind != RTE_RELATION)
		return false;
	if (IS_DUMMY_REL(cand->small) || cand->small->cheapest_total_path == NULL ||
		!bms_is_empty(PATH_REQ_OUTER(cand->small->cheapest_total_path)))
		return false;

	return !GjJoinKeepsUnmatched(cand->kind) ||
		(!needs_placeholder_of(root, cand->joinrel->reltarget->exprs, big) &&
		 !needs_placeholder_of(root, extract_actual_clauses(cand->restrictlist, false), big));
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
 * Does this clause compare something of the big side with something of the small
 * side?  Which index may answer it is looked at only then.
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
	cand->small_path = cand->small->cheapest_total_path;
	cand->workers = 0;
	add_path_with_workers(root, cand);

	cand->small_path = parallel_small_path(cand);
	if (cand->small_path != NULL)
		cand->workers = count_workers(cand);
	if (cand->workers > 0)
		add_path_with_workers(root, cand);
}

/*
 * A path of the small side that each process of a parallel plan can run, if such a plan
 * could be.  Not where it must be known which small rows had a match: no process sees all
 * big rows.
 */
static Path *
parallel_small_path(const GjJoinCandidate *cand)
{
	if (GjJoinMarksSmall(cand->kind) || cand->nbatches > 1.0 ||
		!cand->joinrel->consider_parallel || !cand->big->consider_parallel)
		return NULL;
	if (cand->small->cheapest_total_path->parallel_safe)
		return cand->small->cheapest_total_path;
	return get_cheapest_parallel_safe_total_inner(cand->small->pathlist);
}

/*
 * As many workers as the fetch from the largest table would have
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
 * Add a path for one process, or one that is shared with so many workers
 */
static void
add_path_with_workers(PlannerInfo *root, GjJoinCandidate *cand)
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
	cost_join(root, cand, &startup, &run);
	*kept = *cand;
	path->custom_private = list_make1(kept);
	Assert(list_length(path->custom_private) == GJ_JOIN_PATH_COUNT);

	if (cand->workers > 0)
		GjAddPartialPath(joinrel, path, startup, run);
	else
		GjAddPath(root, joinrel, path, startup, run);
}

/*
 * Each path has costs of its own in its scans
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

/*
 * The cost of the join:
 *
 *	  small side		its path, then what a hash join charges to build its table;
 *						where it exceeds the memory limit, a sort besides
 *	  batches			each searches the index anew: a match a batch
 *	  big rows			GjCostSearch, over all tables and batches
 *	  pairs				the join quals on each pair with equal keys
 *	  result			cpu_tuple_cost and the target list
 *
 * In a parallel plan each process collects the small side; what is done for each big row,
 * pair and result row is divided.
 */
static void
cost_join(PlannerInfo *root, GjJoinCandidate *cand, Cost *startup, Cost *run)
{
	PathTarget *target = cand->joinrel->reltarget;
	double		divisor = GjParallelDivisor(cand->workers);
	double		pairs;
	QualCost	joinquals;
	ListCell   *lc;

	cand->selectivity = key_selectivity(root, cand);
	cand->nkeys = estimate_num_groups(root, list_make1(cand->key.value_expr),
									  cand->small->rows, NULL, NULL);
	cand->nbatches = cost_collect(cand, startup);
	cand->by_key = GjJoinIsByKey(root, cand);
	*run = 0.0;

	/* No row comes before the first table has been searched; the others come later */
	foreach(lc, cand->scans)
	{
		GjJoinScan *scan = lfirst(lc);

		GjJoinCostScan(root, cand, scan);
		if (lc == list_head(cand->scans))
			*startup += scan->startup;
		else
			*run += scan->startup;
		*run += scan->run;
	}

	pairs = clamp_row_est(cand->big->rows * cand->small->rows * cand->selectivity);
	cost_qual_eval(&joinquals, list_difference_ptr(cand->restrictlist,
												   list_make1(cand->rinfo)), root);
	*startup += joinquals.startup + target->cost.startup;
	*run += pairs / divisor * (joinquals.per_tuple + cpu_operator_cost) +
		cand->joinrel->rows / divisor * (cpu_tuple_cost + target->cost.per_tuple);
}

/*
 * Estimate what share of all pairs has equal keys, whatever the join's type makes
 * of them.
 */
static Selectivity
key_selectivity(PlannerInfo *root, const GjJoinCandidate *cand)
{
	SpecialJoinInfo sjinfo;

	memset(&sjinfo, 0, sizeof(sjinfo));
	sjinfo.type = T_SpecialJoinInfo;
	sjinfo.min_lefthand = sjinfo.syn_lefthand = cand->small->relids;
	sjinfo.min_righthand = sjinfo.syn_righthand = cand->big->relids;
	sjinfo.jointype = JOIN_INNER;

	return clauselist_selectivity(root, list_make1(cand->rinfo), 0, JOIN_INNER, &sjinfo);
}

/*
 * The cost of the small side, and into how many batches it will fall
 */
static double
cost_collect(const GjJoinCandidate *cand, Cost *cost)
{
	double		rows = cand->small->rows;
	double		bytes = rows * (MAXALIGN(cand->small->reltarget->width) + SMALL_ROW_OVERHEAD);
	double		nbatches = ceil(bytes / GjWorkMemory());

	*cost = cand->small_path->total_cost +
		rows * (cpu_operator_cost + cpu_tuple_cost);
	if (nbatches > 1.0)
		*cost += 2.0 * rows * log2(Max(rows, 2.0)) * cpu_operator_cost +
			2.0 * bytes / BLCKSZ * seq_page_cost;
	return Max(nbatches, 1.0);
}
