/*-------------------------------------------------------------------------
 *
 * distinct.c
 *	  SELECT DISTINCT that removes nothing, since the rows are distinct anyway.
 *
 * Rows of one table differ in the columns of a unique key.  If these are among the columns
 * of SELECT DISTINCT, there is nothing to remove, and a scan's rows are the result.  A join
 * with a small side returns a row once for each partner.  Where nothing of the partners is in
 * the target, it does not matter how many there are: as a semijoin the join returns each row
 * once.  That is what SELECT DISTINCT p.* FROM small JOIN p asks for.
 *
 * A key is an immediate unique index on columns that are NOT NULL, without a predicate or with
 * one that the query implies.  The index must tell apart what DISTINCT tells apart: its
 * operator family has DISTINCT's equality, and its collation the same notion of equal.
 *
 * The plan is right as long as the index is there: whatever takes away the key invalidates
 * the table's plans.  But a snapshot that is older than the key may see rows that had to go
 * before the key could be made.  So the transactions that made it must have ended before any
 * snapshot that is in use here.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/transam.h"
#include "catalog/pg_am_d.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "agg.h"
#include "base/compat.h"
#include "joinpath.h"

static bool is_plain(const Query *parse);
static RelOptInfo *find_table(PlannerInfo *root, RelOptInfo *input, const CustomPath *path);
static bool as_semijoin(PlannerInfo *root, RelOptInfo *input, CustomPath *path);
static bool has_key(PlannerInfo *root, const RelOptInfo *table);
static bool is_key(PlannerInfo *root, const RelOptInfo *table, const IndexOptInfo *index);
static bool is_old(TransactionId since);
static TransactionId index_since(Oid index_oid);
static bool tells_apart(PlannerInfo *root, const RelOptInfo *table, const IndexOptInfo *index,
						int column);
static bool collations_agree(Oid one, Oid other);

/*
 * A path for the input's rows of which SELECT DISTINCT removes none; NULL if none is known
 */
Path *
GjFindDistinctPath(PlannerInfo *root, RelOptInfo *input)
{
	CustomPath *path = is_plain(root->parse) ? GjOfferFind(input, false) : NULL;
	RelOptInfo *table;

	if (path == NULL)
		return NULL;
	table = find_table(root, input, path);
	if (table == NULL || planner_rt_fetch(table->relid, root)->inh || !has_key(root, table))
		return NULL;
	if (table != input && !as_semijoin(root, input, path))
		return NULL;
	return GjPathWithTarget(root, &path->path, input->reltarget);
}

/*
 * Are the rows to be made distinct those of scans and joins?
 */
static bool
is_plain(const Query *parse)
{
	return !parse->hasDistinctOn && !parse->hasAggs && parse->groupClause == NIL &&
		parse->groupingSets == NIL && parse->havingQual == NULL && !parse->hasWindowFuncs &&
		!parse->hasTargetSRFs;
}

/*
 * The table whose rows the path returns, each once, or would as a semijoin
 */
static RelOptInfo *
find_table(PlannerInfo *root, RelOptInfo *input, const CustomPath *path)
{
	const GjJoinCandidate *cand;

	if (IS_SIMPLE_REL(input))
		return input;
	if (path->methods != &GjJoinPathMethods)
		return NULL;
	cand = list_nth(path->custom_private, GJ_JOIN_PATH_CANDIDATE);
	return cand->kind == GJ_JOIN_INNER || cand->kind == GJ_JOIN_SEMI ? cand->big : NULL;
}

/*
 * Make a join's path that of a semijoin, whose rows are big rows; false: something of the small
 * side is wanted, or it matters how often something is computed
 */
static bool
as_semijoin(PlannerInfo *root, RelOptInfo *input, CustomPath *path)
{
	const GjJoinCandidate *cand = list_nth(path->custom_private, GJ_JOIN_PATH_CANDIDATE);
	GjJoinCandidate *semi;
	double		rows = 0.0;
	ListCell   *lc;

	if (cand->kind == GJ_JOIN_SEMI)
		return true;
	if (!bms_is_subset(pull_varnos(root, (Node *) input->reltarget->exprs), cand->big->relids) ||
		contain_volatile_functions((Node *) input->reltarget->exprs) ||
		contain_volatile_functions((Node *) root->parse->jointree))
		return false;

	semi = palloc(sizeof(GjJoinCandidate));
	*semi = *cand;
	semi->kind = GJ_JOIN_SEMI;
	path->custom_private = list_make1(semi);
	Assert(list_length(path->custom_private) == GJ_JOIN_PATH_COUNT);
	foreach(lc, cand->scans)
		rows += ((GjJoinScan *) lfirst(lc))->rows;
	path->path.rows = Min(path->path.rows, rows);
	return true;
}

/*
 * Does a key of the table tell the rows of SELECT DISTINCT apart?
 */
static bool
has_key(PlannerInfo *root, const RelOptInfo *table)
{
	ListCell   *lc;

	foreach(lc, table->indexlist)
	{
		if (is_key(root, table, lfirst_node(IndexOptInfo, lc)))
			return true;
	}
	return false;
}

static bool
is_key(PlannerInfo *root, const RelOptInfo *table, const IndexOptInfo *index)
{
	Oid			relid = planner_rt_fetch(table->relid, root)->relid;

	if (!index->unique || !index->immediate || index->relam != BTREE_AM_OID ||
		index->hypothetical || (index->indpred != NIL && !index->predOK))
		return false;
	for (int i = 0; i < index->nkeycolumns; i++)
	{
		TransactionId since;

		if (index->indexkeys[i] <= 0 || !tells_apart(root, table, index, i) ||
			!GjColumnIsNotNull(relid, index->indexkeys[i], &since) || !is_old(since))
			return false;
	}
	return is_old(index_since(index->indexoid));
}

/*
 * Had the transaction ended before the oldest snapshot that is in use here was taken?
 */
static bool
is_old(TransactionId since)
{
	return TransactionIdPrecedes(since, TransactionXmin);
}

/*
 * The transaction that made the index what it is; the planner holds a lock on its table
 */
static TransactionId
index_since(Oid index_oid)
{
	Relation	index = RelationIdGetRelation(index_oid);
	TransactionId since;

	if (!RelationIsValid(index))
		elog(ERROR, "could not open index with OID %u", index_oid);
	since = HeapTupleHeaderGetXmin(index->rd_indextuple->t_data);
	RelationClose(index);
	return since;
}

/*
 * Is the index's column one of SELECT DISTINCT's, and are values equal to the index that are
 * equal to that?
 */
static bool
tells_apart(PlannerInfo *root, const RelOptInfo *table, const IndexOptInfo *index, int column)
{
	ListCell   *lc;

	foreach(lc, root->parse->distinctClause)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		Var		   *var = (Var *) get_sortgroupclause_expr(clause, root->processed_tlist);

		if (IsA(var, Var) && var->varlevelsup == 0 && var->varno == table->relid &&
			var->varattno == index->indexkeys[column] &&
			get_op_opfamily_strategy(clause->eqop,
									 index->opfamily[column]) == BTEqualStrategyNumber &&
			collations_agree(var->varcollid, index->indexcollations[column]))
			return true;
	}
	return false;
}

static bool
collations_agree(Oid one, Oid other)
{
	return one == other ||
		(OidIsValid(one) && get_collation_isdeterministic(one) &&
		 OidIsValid(other) && get_collation_isdeterministic(other));
}
