/*-------------------------------------------------------------------------
 *
 * choicejoin.c
 *	  Why a join could not use an index, for gpujoin_explain_choice() (choicenotes.c).
 *
 * When a table was looked at alone, nothing could be said of an index whose key only
 * joins name.  Here that is made up for, where GpuJoin is not offered: the tests of
 * join.c are asked again, one after the other.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"

#include "choice.h"
#include "joinpath.h"
#include "planner.h"

static void examine_side(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *big,
						 RelOptInfo *small, const char *refused, List *restrictlist);
static void examine_table(PlannerInfo *root, RelOptInfo *table, RelOptInfo *big,
						  const char *refused, List *restrictlist);
static bool is_offered(PlannerInfo *root, List *tables);
static List *list_tables(PlannerInfo *root, RelOptInfo *big);
static const char *refuse_join(PlannerInfo *root, RelOptInfo *joinrel);
static const char *refuse_small(RelOptInfo *big, RelOptInfo *small);
static const char *refuse_clause(PlannerInfo *root, RelOptInfo *table, IndexOptInfo *index,
								 RestrictInfo *rinfo);
static bool has_key_as_side(IndexOptInfo *index, Expr *clause);

/*
 * Note why the indexes of either side cannot answer this join
 *
 * Each join comes with both orders of its sides; a mirrored type (JOIN_RIGHT) has
 * nothing new.  An inner join is looked at as join.c does, one side a call.
 */
void
GjChoiceExamineJoin(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
					RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra)
{
	const char *refused = NULL;
	bool		try_outer = true;

	if (!GjChoiceIsNoted() || extra->sjinfo->jointype != jointype)
		return;

	switch (jointype)
	{
		case JOIN_INNER:
			try_outer = false;
			break;
		case JOIN_SEMI:
			break;
		case JOIN_LEFT:
			refused = "the join also returns its rows without a match (LEFT, RIGHT)";
			break;
		case JOIN_ANTI:
			refused = "the join returns its rows without a match (NOT EXISTS)";
			break;
		case JOIN_FULL:
			refused = "the join is a FULL join, which returns all of its rows";
			examine_side(root, joinrel, innerrel, outerrel, refused, extra->restrictlist);
			return;
		default:
			return;
	}

	if (try_outer)
		examine_side(root, joinrel, outerrel, innerrel, refused, extra->restrictlist);
	examine_side(root, joinrel, innerrel, outerrel, NULL, extra->restrictlist);
}

/*
 * Examine one side as the big one; refused is what is against it already
 */
static void
examine_side(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *big, RelOptInfo *small,
			 const char *refused, List *restrictlist)
{
	List	   *tables;
	ListCell   *lc;

	if (!IS_SIMPLE_REL(big))
		return;
	tables = list_tables(root, big);
	if (is_offered(root, tables))
		return;
	if (refused == NULL)
		refused = refuse_join(root, joinrel);
	if (refused == NULL)
		refused = refuse_small(big, small);

	foreach(lc, tables)
		examine_table(root, lfirst(lc), big, refused, restrictlist);
}

/*
 * Was a GpuJoin offered?  It is noted with one of its tables.
 */
static bool
is_offered(PlannerInfo *root, List *tables)
{
	ListCell   *lc;

	foreach(lc, tables)
	{
		RelOptInfo *table = lfirst(lc);
		Oid			relid = planner_rt_fetch(table->relid, root)->relid;
		ListCell   *lc2;

		foreach(lc2, table->indexlist)
		{
			if (GjChoiceFind(relid, lfirst_node(IndexOptInfo, lc2)->indexoid,
							 GjJoinPathMethods.CustomName) != NULL)
				return true;
		}
	}
	return false;
}

/*
 * Put a better reason in the place of "no condition on its key"
 */
static void
examine_table(PlannerInfo *root, RelOptInfo *table, RelOptInfo *big, const char *refused,
			  List *restrictlist)
{
	Oid			relid = planner_rt_fetch(table->relid, root)->relid;
	ListCell   *lc;

	foreach(lc, table->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		GjChoice   *choice = GjChoiceFind(relid, index->indexoid, NULL);
		ListCell   *lc2;

		if (choice == NULL || strcmp(choice->reason, GJ_CHOICE_NO_CONDITION) != 0)
			continue;

		foreach(lc2, restrictlist)
		{
			RestrictInfo *rinfo = GjJoinClauseOf(root, lfirst_node(RestrictInfo, lc2), table,
												 big);

			if (GjChoiceHasKey(rinfo, index))
				choice->reason = GjChoiceText(refused ? refused :
											  refuse_clause(root, table, index, rinfo));
		}
	}
}

/*
 * The tables that a side stands for: itself, or those below it
 */
static List *
list_tables(PlannerInfo *root, RelOptInfo *big)
{
	List	   *tables = NIL;

	if (!planner_rt_fetch(big->relid, root)->inh)
		return list_make1(big);

	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *rel = root->simple_rel_array[i];

		if (rel != NULL && rel->reloptkind == RELOPT_OTHER_MEMBER_REL &&
			bms_equal(rel->top_parent_relids, big->relids))
			tables = lappend(tables, rel);
	}
	return tables;
}

static const char *
refuse_join(PlannerInfo *root, RelOptInfo *joinrel)
{
	if (root->parse->commandType != CMD_SELECT && root->parse->commandType != CMD_INSERT &&
		planner_rt_fetch(root->parse->resultRelation, root)->inh)
		return "a join that changes a partitioned table, or one with children, is not offered";
	if (!bms_is_empty(joinrel->lateral_relids))
		return "the join refers to other tables (LATERAL)";
	return NULL;
}

static const char *
refuse_small(RelOptInfo *big, RelOptInfo *small)
{
	if (GjJoinIsSmaller(small, big))
		return NULL;
	return psprintf("the other side of the join has about %.0f rows, no fewer than this table",
					small->rows);
}

/*
 * Why does the index not answer this clause, in which its key is?
 */
static const char *
refuse_clause(PlannerInfo *root, RelOptInfo *table, IndexOptInfo *index, RestrictInfo *rinfo)
{
	const char *what = GjChoiceRefuseClause(table, rinfo);
	GjSource	clause;

	if (what == NULL && GjFoldJoinClause(root, table, index, rinfo, 
						 bms_difference(root->all_baserels, table->relids), &clause))
		what = IS_OTHER_REL(table) ?
			"would do, but not each partition or child has an index that answers it" :
			"would do, but not in a join of this form";
	if (what == NULL && !has_key_as_side(index, rinfo->clause))
		what = "has the key within an expression";
	if (what == NULL && bms_is_subset(table->relids, rinfo->left_relids) &&
		bms_is_subset(table->relids, rinfo->right_relids))
		what = "compares the key with what depends on the same row";
	return GjChoiceSay(root, rinfo, what ? what : GJ_CHOICE_UNKNOWN_FORM);
}

/*
 * Is the key alone on a side of this comparison?  True of what is no comparison, too, of
 * which that cannot be said.
 */
static bool
has_key_as_side(IndexOptInfo *index, Expr *clause)
{
	return !is_opclause(clause) || list_length(((OpExpr *) clause)->args) != 2 ||
		match_index_to_operand(get_leftop(clause), 0, index) ||
		match_index_to_operand(get_rightop(clause), 0, index);
}
