/*-------------------------------------------------------------------------
 *
 * same.c
 *	  Would each process of a parallel plan come to the same rows or values?
 *
 * In a parallel join each process runs the small side for itself, while the big side is
 * searched for the keys of one of them (exec/parallel.c): rows whose keys another process has
 * not collected would be lost.  PostgreSQL calls a plan safe to be run in each of several
 * processes, if it has no side effects and may be run in a worker.  That it gives the same
 * rows in each, it does not say.  It does not where something depends on
 *
 *	- when or where it is evaluated: volatile functions, as clock_timestamp() or
 *	  gen_random_uuid(); TABLESAMPLE, which takes a random seed, or may; foreign tables, which
 *	  know no snapshot of ours; xmax, which others write while we read
 *	- the order in which rows come, which with synchronized scans depends on what others
 *	  read: LIMIT (with ORDER BY, too, as there may be ties), DISTINCT ON, window functions,
 *	  aggregates as array_agg or a sum of floats; which of several equal values stands for
 *	  a group, if they can be told apart, as 1.0 and 1.00 can
 *
 * It is asked for what the small side is planned of: the clauses and targets of its tables,
 * and all of its subqueries, those that are expressions included.  Clauses that it shares with
 * other tables are looked at, too, which may refuse too much.  What cannot be judged, counts as
 * different: then one process does the join.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type_d.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "planner.h"

static bool belongs_to(const RelOptInfo *table, const RelOptInfo *rel);
static bool table_may_differ(PlannerInfo *root, Index rti);
static bool source_may_differ(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);
static bool equalities_may_differ(PlannerInfo *root, const RelOptInfo *rel);
static bool query_may_differ(PlannerInfo *root);
static bool groups_may_differ(const Query *query);
static bool any_may_differ(List *clauses, List *tlist);
static bool equals_may_differ(Oid type, Oid collation);
static bool expr_may_differ(PlannerInfo *root, Node *expr);
static bool may_differ_walker(Node *node, void *context);
static bool subplan_may_differ(PlannerInfo *root, const SubPlan *subplan);
static bool param_may_differ(PlannerInfo *root, const Param *param);
static bool aggregate_may_differ(const Aggref *aggregate);

/*
 * Would each process that runs a path of this relation get the same rows?
 */
bool
GjRowsAreSameEverywhere(PlannerInfo *root, const RelOptInfo *rel)
{
	for (Index rti = 1; rti < root->simple_rel_array_size; rti++)
	{
		RelOptInfo *table = root->simple_rel_array[rti];

		if (table != NULL && belongs_to(table, rel) && table_may_differ(root, rti))
			return false;
	}
	return !equalities_may_differ(root, rel);
}

/*
 * Would each process that evaluates what these clauses compare with get the same values?
 */
bool
GjValuesAreSameEverywhere(PlannerInfo *root, List *rinfos)
{
	return !expr_may_differ(root, (Node *) GjBareClauses(rinfos));
}

/*
 * Is it one of the relation's tables, or a partition or child of one?
 */
static bool
belongs_to(const RelOptInfo *table, const RelOptInfo *rel)
{
	return bms_is_member(table->relid, rel->relids) ||
		(!bms_is_empty(table->top_parent_relids) &&
		 bms_is_subset(table->top_parent_relids, rel->relids));
}

static bool
table_may_differ(PlannerInfo *root, Index rti)
{
	RelOptInfo *rel = root->simple_rel_array[rti];

	return source_may_differ(root, rel, root->simple_rte_array[rti]) ||
		expr_may_differ(root, (Node *) GjBareClauses(rel->baserestrictinfo)) ||
		expr_may_differ(root, (Node *) GjBareClauses(rel->joininfo)) ||
		expr_may_differ(root, (Node *) rel->reltarget->exprs);
}

/*
 * May processes read different rows, before anything is filtered?  A UNION ALL has no plan of
 * its own, but its members have.
 */
static bool
source_may_differ(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	switch (rte->rtekind)
	{
		case RTE_RELATION:
			return rte->tablesample != NULL || rel->fdwroutine != NULL;
		case RTE_SUBQUERY:
			return rel->subroot != NULL && query_may_differ(rel->subroot);
		case RTE_FUNCTION:
			return expr_may_differ(root, (Node *) rte->functions);
		case RTE_TABLEFUNC:
			return expr_may_differ(root, (Node *) rte->tablefunc);
		case RTE_VALUES:
			return expr_may_differ(root, (Node *) rte->values_lists);
		case RTE_RESULT:
			return false;
		default:
			return true;
	}
}

/*
 * Clauses that the planner has taken apart into classes of equal expressions, to join or
 * compare any two of these
 */
static bool
equalities_may_differ(PlannerInfo *root, const RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, root->eq_classes)
	{
		EquivalenceClass *ec = lfirst(lc);
		ListCell   *lc2;

		if (ec->ec_has_volatile || !bms_overlap(ec->ec_relids, rel->relids))
			continue;
		foreach(lc2, ec->ec_members)
		{
			if (expr_may_differ(root, (Node *) ((EquivalenceMember *) lfirst(lc2))->em_expr))
				return true;
		}
	}
	return false;
}

/*
 * Would each process that runs this subquery, which has been planned, get the same rows?
 */
static bool
query_may_differ(PlannerInfo *root)
{
	Query	   *query = root->parse;
	ListCell   *lc;

	if (limit_needed(query) || groups_may_differ(query) ||
		contain_volatile_functions((Node *) query) ||
		query_tree_walker(query, may_differ_walker, root,
						  QTW_IGNORE_RC_SUBQUERIES | QTW_IGNORE_JOINALIASES))
		return true;

	foreach(lc, root->init_plans)
	{
		if (subplan_may_differ(root, lfirst(lc)))
			return true;
	}
	for (Index rti = 1; rti < root->simple_rel_array_size; rti++)
	{
		if (root->simple_rel_array[rti] != NULL && table_may_differ(root, rti))
			return true;
	}
	return false;
}

/*
 * Does the order of rows decide which of several equal rows is returned?
 */
static bool
groups_may_differ(const Query *query)
{
	SetOperationStmt *setop = (SetOperationStmt *) query->setOperations;

	/* all of a tree of set operations have the same columns */
	if (setop != NULL)
	{
		ListCell   *type,
				   *collation;

		forboth(type, setop->colTypes, collation, setop->colCollations)
		{
			if (equals_may_differ(lfirst_oid(type), lfirst_oid(collation)))
				return true;
		}
	}
	return query->hasDistinctOn || query->hasWindowFuncs ||
		any_may_differ(query->groupClause, query->targetList) ||
		any_may_differ(query->distinctClause, query->targetList);
}

static bool
any_may_differ(List *clauses, List *tlist)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		Node	   *expr = get_sortgroupclause_expr(lfirst_node(SortGroupClause, lc), tlist);

		if (equals_may_differ(exprType(expr), exprCollation(expr)))
			return true;
	}
	return false;
}

/*
 * Can two equal values be told apart?  Not of those types that are known here.
 */
static bool
equals_may_differ(Oid type, Oid collation)
{
	switch (type)
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case UUIDOID:
			return false;
		case TEXTOID:
		case VARCHAROID:
			return !OidIsValid(collation) || !get_collation_isdeterministic(collation);
		default:
			return !type_is_enum(type);
	}
}

static bool
expr_may_differ(PlannerInfo *root, Node *expr)
{
	return contain_volatile_functions(expr) || may_differ_walker(expr, root);
}

/*
 * Is there something else in the expression that makes values differ, which
 * contain_volatile_functions() does not see?
 */
static bool
may_differ_walker(Node *node, void *context)
{
	PlannerInfo *root = context;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			return ((Var *) node)->varattno == MaxTransactionIdAttributeNumber ||
				((Var *) node)->varattno == MaxCommandIdAttributeNumber;
		case T_Param:
			return param_may_differ(root, (Param *) node);
		case T_Query:
			return true;		/* all that matter have been planned */
		case T_Aggref:
			if (aggregate_may_differ((Aggref *) node))
				return true;
			break;
		case T_SubPlan:
			if (subplan_may_differ(root, (SubPlan *) node))
				return true;
			break;
		default:
			break;
	}
	return expression_tree_walker(node, may_differ_walker, context);
}

static bool
subplan_may_differ(PlannerInfo *root, const SubPlan *subplan)
{
	return query_may_differ(list_nth(root->glob->subroots, subplan->plan_id - 1));
}

/*
 * May a parameter have different values in different processes?
 *
 * A subquery that gives one value is evaluated above the Gather, which hands the value to all
 * processes; but not one that belongs to a subquery which is itself below the Gather.
 */
static bool
param_may_differ(PlannerInfo *root, const Param *param)
{
	if (!GJ_INITPLANS_BELOW_GATHER || param->paramkind != PARAM_EXEC)
		return false;

	for (; root->parent_root != NULL; root = root->parent_root)
	{
		ListCell   *lc;

		foreach(lc, root->init_plans)
		{
			SubPlan    *subplan = lfirst(lc);

			if (list_member_int(subplan->setParam, param->paramid))
				return subplan_may_differ(root, subplan);
		}
	}
	return false;
}

/*
 * Does the result depend on the order of rows?  Not that of counts and exact sums, nor a
 * minimum or maximum.
 */
static bool
aggregate_may_differ(const Aggref *aggregate)
{
	HeapTuple	tuple;
	bool		has_order;

	switch (aggregate->aggfnoid)
	{
		case F_COUNT_:
		case F_COUNT_ANY:
		case F_SUM_INT2:
		case F_SUM_INT4:
		case F_SUM_INT8:
		case F_AVG_INT2:
		case F_AVG_INT4:
		case F_AVG_INT8:
			return false;
	}
	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate->aggfnoid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggregate->aggfnoid);
	has_order = OidIsValid(((Form_pg_aggregate) GETSTRUCT(tuple))->aggsortop);
	ReleaseSysCache(tuple);
	return !has_order || equals_may_differ(aggregate->aggtype, aggregate->aggcollid);
}
