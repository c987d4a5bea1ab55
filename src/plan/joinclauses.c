/*-------------------------------------------------------------------------
 *
 * joinclauses.c
 *	  The order in which the nodes of a GpuJoin test their clauses.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "optimizer/cost.h"

#include "joinpath.h"

static bool goes_before(PlannerInfo *root, RestrictInfo *a, RestrictInfo *b);

/*
 * Sort clauses into the order in which they have to be tested
 *
 * Security barriers go first of all, then what is cheap.  Core lets a leakproof
 * clause pass a barrier; here it keeps its place.  Insertion keeps the order of
 * equals.
 */
List *
GjOrderClauses(PlannerInfo *root, List *rinfos)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, rinfos)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		int			pos = list_length(result);

		while (pos > 0 && goes_before(root, rinfo, list_nth(result, pos - 1)))
			pos--;
		result = list_insert_nth(result, pos, rinfo);
	}
	return result;
}

static bool
goes_before(PlannerInfo *root, RestrictInfo *a, RestrictInfo *b)
{
	QualCost	cost_a;
	QualCost	cost_b;

	if (a->security_level != b->security_level)
		return a->security_level < b->security_level;

	cost_qual_eval_node(&cost_a, (Node *) a, root);
	cost_qual_eval_node(&cost_b, (Node *) b, root);
	return cost_a.per_tuple < cost_b.per_tuple;
}

/*
 * List the bare clauses, pseudoconstant ones included: nobody else tests them
 */
List *
GjBareClauses(List *rinfos)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, rinfos)
		result = lappend(result, lfirst_node(RestrictInfo, lc)->clause);
	return result;
}
