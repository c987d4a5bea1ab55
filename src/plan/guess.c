/*-------------------------------------------------------------------------
 *
 * guess.c
 *	  Arrays of unknown length: the cost of paths of ours beside PostgreSQL's, which rests on a
 *	  guess.
 *
 * When a generic plan is made, the length of an array parameter is not known; nor is that of an
 * array which a subquery collects.  PostgreSQL assumes 10 elements, and a look-up of each in a
 * btree.  With 10,000 elements that takes ten times as long as GpuScan; with one to ten, GpuScan
 * is as fast, though its formulas charge more; only beside many rows that are not sorted yet do the
 * first statements of a session take longer.  So if PostgreSQL's path rests on that guess, and
 * ours is the cheaper one for as many keys as we expect (gpujoin.assumed_keys), we offer it for
 * slightly less than PostgreSQL's, whose cost we assume to be proportional to the number of keys.
 * Where ours is the dearer one for so many keys, it keeps its own cost.
 *
 * A join with rows that unnest() makes of parameters rests on the same guess.  If PostgreSQL looks
 * these rows up in an index, one by one, our GpuJoin is offered for slightly less.  The planner
 * calls our hook for each order of a join's sides, and each time the nested loop may be a cheaper
 * one.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"

#include "base/compat.h"
#include "base/settings.h"
#include "node/scanplan.h"
#include "planner.h"

/* The least part of PostgreSQL's cost for which ours is offered; add_path() ignores 1 % */
#define LEAST_PART				0.9

static IndexPath *get_index_path(Path *path);
static bool takes_unknown_arrays(PlannerInfo *root, const RelOptInfo *small);
static bool is_unknown_array(Node *expr);
static bool is_loop_over(const Path *path, const RelOptInfo *small);

/*
 * Return a copy of the cheapest path of a table that is not ours, if it scans a single index, so
 * that its cost may rest on the guess; otherwise NULL
 *
 * add_path() may free the path when the first of our indexes is considered.
 */
Path *
GjKeepIndexPath(const RelOptInfo *rel)
{
	Path	   *cheapest = gj_force ? NULL : GjCheapestOther(rel);
	Path	   *copy = NULL;

	if (cheapest != NULL && get_index_path(cheapest) != NULL)
	{
		Size		size = IsA(cheapest, IndexPath) ? sizeof(IndexPath) : sizeof(BitmapHeapPath);

		copy = palloc(size);
		memcpy(copy, cheapest, size);
	}
	return copy;
}

/*
 * Set the costs of a path of ours slightly below those of another one, which rests on the guess, if
 * ours costs less for as many keys as we expect, or rows of unnest(): so much then.  Returns true
 * if they were set.
 *
 * The cheaper path of two of ours remains the cheaper one.  The share of the cost before the first
 * row remains, too: for LIMIT, looking up one key after another is often better than a search of
 * all.
 */
bool
GjUndercut(CustomPath *ours, Cost cost, const Path *guessed, double nkeys)
{
	double		part = cost / (guessed->total_cost * nkeys / GJ_FEWEST_ASSUMED_KEYS);
	Cost		total = guessed->total_cost * (LEAST_PART + (1.0 - LEAST_PART) * part);

	if (part >= 1.0 || ours->path.total_cost <= total)
		return false;
	ours->path.startup_cost *= total / ours->path.total_cost;
	ours->path.total_cost = total;
	return true;
}

/*
 * Do the same for a path in an order, with the other one below a Sort if it has another order
 */
void
GjUndercutSorted(PlannerInfo *root, CustomPath *ours, Path *guessed, double nkeys)
{
	if (!pathkeys_contained_in(ours->path.pathkeys, guessed->pathkeys))
		guessed = (Path *) create_sort_path(root, ours->path.parent, guessed, ours->path.pathkeys,
											root->limit_tuples);
	(void) GjUndercut(ours, ours->path.total_cost, guessed, nkeys);
}

/*
 * Return the path of the only index that a path uses; NULL for other kinds of paths
 */
static IndexPath *
get_index_path(Path *path)
{
	if (IsA(path, BitmapHeapPath))
		path = ((BitmapHeapPath *) path)->bitmapqual;
	return IsA(path, IndexPath) ? (IndexPath *) path : NULL;
}

/*
 * Return true if a path looks up an array of unknown length that is among the conditions
 */
bool
GjRestsOnGuess(Path *path, List *conditions)
{
	ListCell   *lc;

	foreach(lc, get_index_path(path)->indexclauses)
	{
		RestrictInfo *rinfo = lfirst_node(IndexClause, lc)->rinfo;
		ListCell   *lc2;

		foreach(lc2, conditions)
		{
			GjKeyCondition *condition = lfirst(lc2);
			const GjKeyNode *node = condition->node;

			if (condition->rinfo == rinfo && node->step == GJ_STEP_SOURCE &&
				node->source.kind == GJ_SOURCE_ARRAY && GjSourceIsUnknown(&node->source))
				return true;
		}
	}
	return false;
}

/*
 * Return the cheapest path of a relation that is not ours, nor a scan of our index, or NULL
 */
Path *
GjCheapestOther(const RelOptInfo *rel)
{
	Path	   *cheapest = NULL;
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);
		IndexPath  *scan = get_index_path(path);

		if (path->param_info == NULL && !GjPathIsOurs(path) &&
			(scan == NULL || !GjIndexIsOurs(scan->indexinfo)) &&
			(cheapest == NULL || GjIsCheaper(path, cheapest)))
			cheapest = path;
	}
	return cheapest;
}

/*
 * Offer a GpuJoin that was offered for a relation again, below the cost of the cheapest other path,
 * if both take rows of unnest() whose number is not known
 */
void
GjUndercutLoop(PlannerInfo *root, RelOptInfo *joinrel)
{
	CustomPath *ours = gj_force ? NULL : GjOfferFind(joinrel, false);
	const Path *stock = GjCheapestOther(joinrel);
	const GjJoinCandidate *join;

	if (ours == NULL || stock == NULL || ours->methods != &GjJoinPathMethods ||
		!(enable_nestloop || enable_hashjoin || enable_mergejoin))
		return;
	join = linitial(ours->custom_private);
	if (!is_loop_over(stock, join->small) || !takes_unknown_arrays(root, join->small))
		return;
	if (!GjUndercut(ours, GjJoinCostOf(root, join, gj_assumed_keys), stock, gj_assumed_keys))
		return;
	GjOfferNote(ours);
	add_path(joinrel, &ours->path);
}

/*
 * Return true if PostgreSQL guesses the lengths of the arrays that make the rows of a join's small
 * side: parameters that unnest() takes, in FROM, or as columns of a subquery without tables
 */
static bool
takes_unknown_arrays(PlannerInfo *root, const RelOptInfo *small)
{
	RangeTblEntry *rte = IS_SIMPLE_REL(small) ? planner_rt_fetch(small->relid, root) : NULL;
	bool		found = false;
	ListCell   *lc;

	if (rte == NULL || small->baserestrictinfo != NIL)
		return false;
	if (rte->rtekind == RTE_FUNCTION)
	{
		foreach(lc, rte->functions)
			found |= is_unknown_array(lfirst_node(RangeTblFunction, lc)->funcexpr);
	}
	else if (rte->rtekind == RTE_SUBQUERY && small->subroot != NULL)
	{
		const Query *query = small->subroot->parse;

		foreach(lc, query->rtable)
		{
			if (lfirst_node(RangeTblEntry, lc)->rtekind != RTE_RESULT)
				return false;
		}
		foreach(lc, query->targetList)
			found |= is_unknown_array((Node *) lfirst_node(TargetEntry, lc)->expr);
	}
	return found;
}

static bool
is_unknown_array(Node *expr)
{
	const FuncExpr *function = (const FuncExpr *) expr;
	Node	   *array;

	if (!IsA(expr, FuncExpr) || function->funcid != F_UNNEST_ANYARRAY)
		return false;
	array = GjStripRelabel(linitial(function->args));
	return IsA(array, Param) && ((Param *) array)->paramkind == PARAM_EXTERN;
}

/*
 * Return true if a path is a nested loop whose inner side looks up each row of a relation, perhaps
 * after duplicates have been removed
 */
static bool
is_loop_over(const Path *path, const RelOptInfo *small)
{
	const JoinPath *join = (const JoinPath *) path;

	return IsA(path, NestPath) && bms_equal(join->outerjoinpath->parent->relids, small->relids) &&
		bms_overlap(PATH_REQ_OUTER(join->innerjoinpath), small->relids);
}
