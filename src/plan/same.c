/*-------------------------------------------------------------------------
 *
 * same.c
 *	  Would each process of a parallel plan get the same rows or values?
 *
 * In a parallel join each process reads the small side by itself, while the big side is searched
 * for the keys of one of them (exec/tablescan.c): rows whose keys another process did not collect
 * would be lost.  PostgreSQL calls a plan parallel-safe if it has no side effects and may be run
 * in a worker.  That does not imply the same rows in each process.  They may differ if something
 * depends on
 *
 *	- the time or place of evaluation: volatile functions, such as clock_timestamp() or
 *	  gen_random_uuid(); TABLESAMPLE, which may use a random seed; foreign tables, which ignore our
 *	  snapshot; xmax, which other transactions write while we read
 *	- the order of rows, which with synchronized scans depends on what other processes read: LIMIT
 *	  (also with ORDER BY, as there may be ties), DISTINCT ON, window functions, aggregates like
 *	  array_agg or a sum of floats; WITH ORDINALITY, and several set-returning functions side by
 *	  side; the value that represents a group of equal values, if these can be distinguished, like
 *	  1.0 and 1.00
 *
 * We test everything that the small side is planned from: the clauses and targets of its tables,
 * and all of its subqueries, including those in expressions.  We also test clauses that it shares
 * with other tables, so we may refuse too much.  We treat expressions that we cannot analyze as
 * different; then a single process executes the join.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_proc.h"
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

static bool table_may_differ(PlannerInfo *root, Index rti);
static bool source_may_differ(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);
static bool order_may_differ(Node *node, void *context);
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
 * Return true if each process that runs a path of this relation gets the same rows
 */
bool
GjRowsAreSameEverywhere(PlannerInfo *root, const RelOptInfo *rel)
{
	for (Index rti = 1; rti < root->simple_rel_array_size; rti++)
	{
		RelOptInfo *table = root->simple_rel_array[rti];

		/* one of the relation's tables, or a partition or child of one */
		if (table != NULL &&
			(bms_is_member(table->relid, rel->relids) ||
			 (!bms_is_empty(table->top_parent_relids) &&
			  bms_is_subset(table->top_parent_relids, rel->relids))) &&
			table_may_differ(root, rti))
			return false;
	}
	return !equalities_may_differ(root, rel);
}

/*
 * Return true if each process gets the same values when it evaluates the operands of these clauses
 */
bool
GjValuesAreSameEverywhere(PlannerInfo *root, List *rinfos)
{
	return !expr_may_differ(root, (Node *) GjBareClauses(rinfos));
}

/*
 * Return true if processes may read different rows from a table, or compute different values from
 * them
 */
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
 * Return true if processes may read different rows, before filters
 *
 * A UNION ALL has no plan of its own, but its members have.
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
			return expr_may_differ(root, (Node *) rte->functions) ||
				((rte->funcordinality || list_length(rte->functions) > 1) &&
				 order_may_differ((Node *) rte->functions, NULL));
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
 * Return true if set-returning functions in these expressions may return their rows in another
 * order, so that they get other numbers, or other rows of another function beside them
 *
 * A function that is not immutable may read tables.  The result of a stable one, which we take to
 * be the same in all processes, is a set: its order is nowhere promised.
 */
static bool
order_may_differ(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && ((FuncExpr *) node)->funcretset &&
		func_volatile(((FuncExpr *) node)->funcid) != PROVOLATILE_IMMUTABLE)
		return true;
	if (IsA(node, OpExpr) && ((OpExpr *) node)->opretset &&
		op_volatile(((OpExpr *) node)->opno) != PROVOLATILE_IMMUTABLE)
		return true;
	return expression_tree_walker(node, order_may_differ, context);
}

/*
 * Return true if a member of one of the relation's equivalence classes may differ
 *
 * The planner has split clauses into these classes, to join or compare any two of their members.
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
 * Return true if processes that run this subquery, which has been planned, may get different rows
 */
static bool
query_may_differ(PlannerInfo *root)
{
	Query	   *query = root->parse;
	ListCell   *lc;

	if (limit_needed(query) || groups_may_differ(query) ||
		(query->hasTargetSRFs && order_may_differ((Node *) query->targetList, NULL)) ||
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
 * Return true if the order of rows decides which of several equal rows is returned
 */
static bool
groups_may_differ(const Query *query)
{
	SetOperationStmt *setop = (SetOperationStmt *) query->setOperations;

	/* all queries in a tree of set operations have the same columns */
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

/*
 * Return true if equal values of one of these sort or group clauses may be distinguishable
 */
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
 * Return true unless equal values are known to be indistinguishable
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
 * Return true if an expression contains something that makes values differ and that
 * contain_volatile_functions() does not find
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
			return true;		/* those that matter have been planned */
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

/*
 * Return true if processes may get different results from a subplan
 */
static bool
subplan_may_differ(PlannerInfo *root, const SubPlan *subplan)
{
	return query_may_differ(list_nth(root->glob->subroots, subplan->plan_id - 1));
}

/*
 * Return true if a parameter may have different values in different processes
 *
 * A subquery that returns one value is evaluated above the Gather node, which passes the value to
 * all processes.  That does not hold for a subquery within a subquery that is itself below the
 * Gather node.
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
 * Return true if the result may depend on the order of rows; that of counts, exact sums, minimum
 * and maximum does not
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
