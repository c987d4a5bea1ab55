/*-------------------------------------------------------------------------
 *
 * repeat.c
 *	  Do the same rows come when a path is run again?
 *
 * Groups that do not fit into memory are made in several passes, each of which takes the rows
 * of its own groups (groups.h).  A row that comes in one pass and not in another, or with
 * another value, may be in two groups then, or in none.  It does not matter in which order rows
 * come.
 *
 * Of a scan or a join, what the query's level computes and tests decides; a join's small side
 * is collected once.  Of a subquery, that of its own level decides as well.  What else there is,
 * as a subquery with a LIMIT, whose rows are those that come first, is not looked into: it must
 * be kept (Material) where it is to be read again.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"

#include "agg.h"
#include "alternative.h"
#include "planner.h"

static bool repeats(Node *node);
static bool subquery_repeats(PlannerInfo *root);

/*
 * Do the same rows, grouped by the same values, come of this level when they are read again?
 * Subplans are not looked into.  Policies are conditions as well, and not yet among the others.
 */
bool
GjQueryRepeats(PlannerInfo *root)
{
	ListCell   *lc;

	foreach(lc, root->parse->rtable)
	{
		if (!repeats((Node *) lfirst_node(RangeTblEntry, lc)->securityQuals))
			return false;
	}
	return repeats((Node *) root->parse->jointree) &&
		!contain_volatile_functions((Node *) root->processed_tlist);
}

static bool
repeats(Node *node)
{
	return !contain_volatile_functions(node) && !contain_subplans(node);
}

/*
 * Does a path return the same rows again, if its own level does?
 */
bool
GjPathRepeats(Path *path)
{
	CustomPath *custom = (CustomPath *) path;
	ListCell   *lc;

	switch (nodeTag(path))
	{
		case T_ProjectionPath:
			return GjPathRepeats(((ProjectionPath *) path)->subpath);
		case T_SubqueryScanPath:
			return subquery_repeats(path->parent->subroot) &&
				GjPathRepeats(((SubqueryScanPath *) path)->subpath);
		case T_AppendPath:
			foreach(lc, ((AppendPath *) path)->subpaths)
			{
				if (!GjPathRepeats(lfirst(lc)))
					return false;
			}
			return true;
		case T_Path:
			return path->pathtype == T_SeqScan;
		case T_IndexPath:
		case T_BitmapHeapPath:
		case T_TidPath:
		case T_TidRangePath:
		case T_MaterialPath:
			return true;
		case T_CustomPath:
			return GjPathIsOurs(path) || custom->methods == &GjAggPathMethods ||
				custom->methods == &GjAlternativePathMethods;
		default:
			return false;
	}
}

static bool
subquery_repeats(PlannerInfo *root)
{
	Query	   *parse = root->parse;

	return GjQueryRepeats(root) && repeats((Node *) root->processed_tlist) &&
		repeats(parse->havingQual) && !limit_needed(parse) && !parse->hasWindowFuncs &&
		!parse->hasDistinctOn;
}
