/*-------------------------------------------------------------------------
 *
 * bitmap.c
 *	  Where core need not think of bitmap scans of our indexes.
 *
 * Tools write chains of hundreds of "key = value" with OR between them.  Core considers
 * a bitmap scan for each arm and each index that answers it.  GpuScan makes one set of
 * all arms (conditions.c); a search of the whole index for each would be the worst of all
 * plans, and looking at a thousand of them takes a fifth of the time of planning.  So
 * where a query has such a chain, the index is taken for one that has no bitmap scans,
 * for this query: what that may cost is a BitmapAnd or BitmapOr with other conditions.
 *
 * This is done when a table's indexes are collected, before its clauses are sorted out:
 * hence the look at the query's tree, in which a partition's columns are those of the
 * table that the query names.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"

#include "planner.h"

/* Arms of the form "key = value" from which on one set is better than bitmaps, surely */
#define LONG_CHAIN				32

static bool has_long_chain(Node *jointree, Index varno, AttrNumber attno);
static bool is_long_chain(Node *qual, Index varno, AttrNumber attno);
static bool find_in_query(PlannerInfo *root, Index *varno, AttrNumber *attno);

/*
 * Keep core from making bitmap scans of those of our indexes whose key is in a long OR chain
 */
void
GjHideFromChains(PlannerInfo *root, RelOptInfo *rel)
{
	ListCell   *lc;

	/* CREATE INDEX and CLUSTER ask what they cost with a query of nothing */
	if (root->parse->jointree == NULL)
		return;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		AttrNumber	attno = index->indexkeys[0];
		Index		varno = rel->relid;

		if (GjIndexIsOurs(index) && find_in_query(root, &varno, &attno) &&
			has_long_chain((Node *) root->parse->jointree, varno, attno))
			index->amhasgetbitmap = false;
	}
}

/*
 * Turn a column of a partition or child into that of the table which the query names; false
 * if that has no such column, or it is an expression
 */
static bool
find_in_query(PlannerInfo *root, Index *varno, AttrNumber *attno)
{
	while (*attno > 0 && root->append_rel_array != NULL &&
		   root->append_rel_array[*varno] != NULL)
	{
		AppendRelInfo *appinfo = root->append_rel_array[*varno];

		*varno = appinfo->parent_relid;
		*attno = *attno <= appinfo->num_child_cols ? appinfo->parent_colnos[*attno - 1] : 0;
	}
	return *attno > 0;
}

static bool
has_long_chain(Node *jointree, Index varno, AttrNumber attno)
{
	List	   *parts = NIL;
	Node	   *quals = NULL;
	ListCell   *lc;

	if (IsA(jointree, FromExpr))
	{
		parts = ((FromExpr *) jointree)->fromlist;
		quals = ((FromExpr *) jointree)->quals;
	}
	else if (IsA(jointree, JoinExpr))
	{
		parts = list_make2(((JoinExpr *) jointree)->larg, ((JoinExpr *) jointree)->rarg);
		quals = ((JoinExpr *) jointree)->quals;
	}

	/* the planner has made lists of the quals by now */
	if (quals != NULL && IsA(quals, List))
	{
		foreach(lc, (List *) quals)
		{
			if (is_long_chain(lfirst(lc), varno, attno))
				return true;
		}
	}
	foreach(lc, parts)
	{
		if (has_long_chain(lfirst(lc), varno, attno))
			return true;
	}
	return false;
}

static bool
is_long_chain(Node *qual, Index varno, AttrNumber attno)
{
	int			narms = 0;
	ListCell   *lc;

	if (!is_orclause(qual) || list_length(((BoolExpr *) qual)->args) < LONG_CHAIN)
		return false;

	foreach(lc, ((BoolExpr *) qual)->args)
	{
		OpExpr	   *arm = lfirst(lc);
		ListCell   *lc2;

		if (!IsA(arm, OpExpr))
			continue;
		foreach(lc2, arm->args)
		{
			Var		   *var = lfirst(lc2);

			narms += IsA(var, Var) && var->varno == varno && var->varattno == attno;
		}
	}
	return narms >= LONG_CHAIN;
}
