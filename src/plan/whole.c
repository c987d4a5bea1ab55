/*-------------------------------------------------------------------------
 *
 * whole.c
 *	  Queries without a condition on the key: all of an index in place of its table.
 *
 * An index is a column store of its table, and aggregates read it much faster than rows.  So an
 * index that has all columns of a query is searched for all of its keys: the condition is the one
 * that "key IS NOT NULL" asks for (rows/source.c).  Nothing compares codes then, so this works for
 * each operator class, also if the index has only hashes of its keys, unless the query needs them.
 *
 * The index must have an entry for each row that the query needs.  If it stores NULL keys, it has
 * all of them, and the condition is "key IS NOT NULL OR key IS NULL".  Otherwise it has none for a
 * row with a NULL in the key column.  NULL keys are not searched, and not needed, as there is no
 * such row
 *
 *	- if the column is NOT NULL, and was so before all snapshots were taken (eligible.c);
 *	- if the query says "key IS NOT NULL".
 *
 * And such rows do not matter to a query without GROUP BY and DISTINCT each of whose aggregates has
 * the key as an argument, and a strict transition function: PostgreSQL does not call it if an
 * argument is NULL.  Then the rows of a scan are not those of the table, so such a scan must be an
 * input of aggregates only, as it is: see below.
 *
 * A partial index has the rows that the query needs if eligible.c says so: their conditions imply
 * the predicate.
 *
 * For rows themselves a sequential scan is better.  So the path is offered to aggregates and SELECT
 * DISTINCT (aggpath.c, distinctpath.c), but not added to the paths of its table, unless it returns
 * the first rows of an order, for which scanpath.c has the reasons.  This is done for a query of
 * one table only: a join restricts its tables by keys of the others.
 *
 * All queries of tables that have an index of ours come here, so cheap tests are first.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_aggregate.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "planner.h"

static bool lacks_no_row(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
						 RestrictInfo **rinfo);
static bool ignores_null_keys(PlannerInfo *root, const IndexOptInfo *index);
static bool aggregate_is_strict(const Aggref *aggref, Index varno, AttrNumber attno);

/*
 * Return true if the query reads this table, or the one that it is a part of, and nothing else; and
 * locks and changes no row
 */
bool
GjIsOnlyTable(PlannerInfo *root, const RelOptInfo *rel)
{
	return root->parse->commandType == CMD_SELECT && root->parse->rowMarks == NIL &&
		bms_equal(IS_OTHER_REL(rel) ? rel->top_parent_relids : rel->relids, root->all_baserels);
}

/*
 * Return true if the query makes groups or aggregates of rows, or distinct rows
 */
bool
GjWantsGroups(PlannerInfo *root)
{
	const Query *parse = root->parse;

	return (parse->hasAggs || parse->groupClause != NIL || parse->distinctClause != NIL) &&
		parse->groupingSets == NIL && !parse->hasTargetSRFs && !parse->hasDistinctOn;
}

/*
 * Make the condition that the whole index satisfies, for a query that has no other one that the
 * index answers; returns NIL if it lacks rows that matter
 *
 * If reasons are wanted, *refused becomes the reason.
 */
List *
GjFoldWhole(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, const char **refused)
{
	RestrictInfo *rinfo = NULL;
	GjKeyCondition *condition;

	bool		nulls = !lacks_no_row(root, rel, index, &rinfo);

	if (nulls && !GjIndexHasNulls(index))
	{
		*refused = "no condition on its key, which may be NULL: it has no entries of such rows "
			"until it is rebuilt";
		return NIL;
	}
	/* rows that come from the table are tested by the code of their key before anything else */
	if (root->qual_security_level > 0 && !GjIndexIsHarmless(index))
	{
		*refused = "no condition on its key, which must not be read before a security barrier";
		return NIL;
	}

	condition = palloc0(sizeof(GjKeyCondition));
	condition->rinfo = rinfo;
	condition->exact = true;
	condition->node = GjMakeWholeNode(nulls);
	return list_make1(condition);
}

/*
 * Return true if these conditions are those of a whole index
 */
bool
GjIsWhole(List *conditions)
{
	const GjKeyNode *node = ((GjKeyCondition *) linitial(conditions))->node;

	if (node->step == GJ_STEP_OR)
		node = linitial(node->operands);
	return list_length(conditions) == 1 && node->step == GJ_STEP_SOURCE &&
		node->source.kind == GJ_SOURCE_NOT_NULL;
}

/*
 * Return true if a path reads a whole index, and is only the input of aggregates
 */
bool
GjPathIsForGroups(const CustomPath *path)
{
	return path->methods == &GjScanPathMethods && path->path.pathkeys == NIL &&
		GjIsWhole(list_nth(path->custom_private, GJ_SCAN_PATH_CONDITIONS));
}

/*
 * Return true if the index has an entry with a key for each row that matters to the query; *rinfo
 * becomes the clause that says so, if there is one
 */
static bool
lacks_no_row(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, RestrictInfo **rinfo)
{
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		NullTest   *test = (NullTest *) lfirst_node(RestrictInfo, lc)->clause;

		if (IsA(test, NullTest) && test->nulltesttype == IS_NOT_NULL && !test->argisrow &&
			match_index_to_operand((Node *) test->arg, 0, index) &&
			restriction_is_securely_promotable(lfirst(lc), rel))
		{
			*rinfo = lfirst(lc);
			return true;
		}
	}
	if (index->indexkeys[0] <= 0)
		return false;
	return ignores_null_keys(root, index) ||
		GjColumnIsNeverNull(planner_rt_fetch(rel->relid, root)->relid, index->indexkeys[0]);
}

/*
 * Return true if rows with a NULL key do not matter to the query
 */
static bool
ignores_null_keys(PlannerInfo *root, const IndexOptInfo *index)
{
	const Query *parse = root->parse;
	Index		varno = index->rel->relid;
	AttrNumber	attno = index->indexkeys[0];
	List	   *used;
	ListCell   *lc;

	if (!parse->hasAggs || parse->groupClause != NIL || parse->distinctClause != NIL)
		return false;
	while (GjFindInParent(root, &varno, &attno))
		;
	if (attno <= 0)
		return false;

	used = pull_var_clause((Node *) list_make2(root->processed_tlist, parse->havingQual),
						   PVC_INCLUDE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
						   PVC_INCLUDE_PLACEHOLDERS);
	foreach(lc, used)
	{
		if (!IsA(lfirst(lc), Aggref) || !aggregate_is_strict(lfirst(lc), varno, attno))
			return false;
	}
	return true;
}

/*
 * Return true if an aggregate has the column as an argument, and ignores rows in which it is NULL
 */
static bool
aggregate_is_strict(const Aggref *aggref, Index varno, AttrNumber attno)
{
	HeapTuple	tuple;
	Oid			transition;
	ListCell   *lc;

	if (aggref->aggkind != AGGKIND_NORMAL || aggref->agglevelsup > 0)
		return false;
	foreach(lc, aggref->args)
	{
		const TargetEntry *argument = lfirst_node(TargetEntry, lc);
		const Var  *column = (const Var *) argument->expr;

		/* ORDER BY may have added more than the aggregate's arguments */
		if (foreach_current_index(lc) < list_length(aggref->aggargtypes) && IsA(column, Var) &&
			column->varno == varno && column->varattno == attno && column->varlevelsup == 0)
			break;
	}
	if (lc == NULL)
		return false;
	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
	transition = ((Form_pg_aggregate) GETSTRUCT(tuple))->aggtransfn;
	ReleaseSysCache(tuple);
	return func_strict(transition);
}
