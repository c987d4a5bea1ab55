/*-------------------------------------------------------------------------
 *
 * rewrite.c
 *	  The planner hook: rewrite a query to an equivalent one that our nodes answer better.
 *
 * Some forms cannot be answered once the planner has begun, because it has made a relation of each
 * subquery by then.  So we change the query tree before.  Four forms are rewritten, and the
 * comment above each of them says why the answer is the same:
 *
 *	- x IN (SELECT unnest(array)) becomes x = ANY (array)
 *	- a long list of constants becomes an array
 *	- OFFSET 0 is removed from a subquery that is only aggregated
 *	- the keys of a table are pushed into a subquery that it is joined with, below GROUP BY,
 *	  DISTINCT or window functions; the query is planned in both forms, and the cheaper plan is
 *	  taken
 *
 * They depend on values but for the last one: of constants, or of parameters as far as the plan is
 * made for them.  A generic plan is made for none, so its query keeps its form.
 *
 * The planner may change its argument, so callers that need the query again pass a copy, and the
 * hook may change it, too.  The last form is a copy, because the original is planned as well.
 * Other planner hooks see the query after the change, and are called twice if it is planned twice.
 * The last form is not passed to Citus, whose planner refuses some queries.
 *
 * A query is only rewritten if its table has an index of ours, but for OFFSET 0 on the column that
 * is compared.  The rewritten query is equivalent without that index, too, so a plan
 * that is kept remains right if the index is dropped.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_class_d.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc_d.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/settings.h"
#include "planner.h"

/* A subquery whose rows depend on those with the same key only, and the table that it joins */
typedef struct Groups
{
	Index		rti;			/* of the subquery */
	bool		is_left;		/* is it the right side of a left join? */
	List	   *clauses;		/* of that join */
	OpExpr	   *clause;			/* of the join with the table; or NULL */
	Index		table;
	Var		   *key;			/* the table's column */
	Query	   *query;			/* the subquery, or one in it, that reads the big table */
	Node	   *column;			/* the key there */
	bool		is_kept;		/* does PostgreSQL plan one of them by itself? */
} Groups;

/* State of the search for them in a query */
typedef struct Search
{
	Query	   *query;
	Bitmapset  *tables;			/* range table entries that no outer join makes NULL */
	List	   *filters;		/* conditions that each row of the query passes */
	List	   *groups;			/* Groups */
} Search;

/* The columns of a range table entry, and what takes their place */
typedef struct Substitution
{
	Index		varno;
	Node	   *expr;
} Substitution;

/* With fewer constants, looking for an index takes longer than what is saved */
#define LONG_LIST				32

static planner_hook_type prev_planner_hook = NULL;

static PlannedStmt *rewrite_plan_query(GJ_PLANNER_ARGUMENTS);
static PlannedStmt *plan_as_is(GJ_PLANNER_ARGUMENTS);
static PlannedStmt *plan_cheaper(Query *other, GJ_PLANNER_ARGUMENTS);
static void rewrite_query(Query *query, ParamListInfo params);
static bool rewrite_walker(Node *node, void *params);
static void rewrite_jointree(Query *query, Node *node, ParamListInfo params);
static Node *rewrite_condition(Query *query, Node *condition, ParamListInfo params);
static Node *list_of_subquery(Query *query, SubLink *sublink, ParamListInfo params);
static Node *array_of_unnest(const Query *subquery);
static void make_array(Query *query, ScalarArrayOpExpr *any);
static bool is_plain_query(const Query *query);
static bool is_known(Node *array, ParamListInfo params);
static bool parameter_value(const Param *param, ParamListInfo params, Datum *value, bool *isnull);
static void drop_offset(Query *query, ParamListInfo params);
static bool only_aggregates(const Query *query);
static bool only_renames(const Query *subquery);
static bool is_zero(Node *offset, ParamListInfo params);
static Query *push_keys(Query *query);
static bool has_groups(Query *query);
static bool push_into_groups(Query *query);
static Query *subquery_by_key(const Query *query, Index rti);
static Query *get_subquery(const Query *query, const RangeTblEntry *rte);
static bool locks_rows(Node *node, void *context);
static void search_jointree(Search *search, Node *node);
static void rewrite_add_groups(Search *search, Index rti, bool is_left, Node *quals);
static void rewrite_find_table(const Search *search, Groups *groups);
static bool joins_table(const Search *search, Groups *groups, OpExpr *op, bool is_turned);
static Node *find_key_column(Groups *groups, AttrNumber attno, const OpExpr *op);
static bool is_kept(const Query *query);
static bool is_made_by(List *clauses, const TargetEntry *key, const OpExpr *op);
static bool are_equalities(Oid opno, Oid eqop);
static bool rows_are_same_twice(const RangeTblEntry *rte);
static bool has_virtual_columns(Oid relid);
static Node *filter_column(const Search *search, const Groups *groups);
static bool equality_is_of_bits(Var *key);
static Node *test_keys(const Search *search, const Groups *groups);
static Query *select_keys(const Search *search, const Groups *groups);
static Node *substitute(Node *node, Substitution *map);
static bool may_not_move(Node *node, void *table);
static bool rewrite_may_fail(Oid function, void *context);
static Var *plain_column(Node *expr);
static bool has_our_index(const Query *query, const Var *column);
static bool table_has_our_index(Oid relid, AttrNumber attno);

/*
 * Install the hook, before those that are installed already
 */
void
GjRewriteInit(void)
{
	prev_planner_hook = planner_hook;
	planner_hook = rewrite_plan_query;
}

static PlannedStmt *
rewrite_plan_query(GJ_PLANNER_ARGUMENTS)
{
	PlannedStmt *plan;
	Query	   *other = NULL;

	if (gj_enabled)
	{
		rewrite_query(query, params);
		if (GetConfigOption("citus.shard_count", true, false) == NULL)
			other = push_keys(query);
	}
	plan = other == NULL ? plan_as_is(GJ_PLANNER_PASSED) : plan_cheaper(other, GJ_PLANNER_PASSED);
	GjChoicePlanned(plan, params);
	if (params == NULL)
		GjGenericPrice(plan);
	return plan;
}

static PlannedStmt *
plan_as_is(GJ_PLANNER_ARGUMENTS)
{
	return prev_planner_hook ? prev_planner_hook(GJ_PLANNER_PASSED) :
		standard_planner(GJ_PLANNER_PASSED);
}

/*
 * Plan two forms of a query, and return the cheaper plan, with the notes about it
 */
static PlannedStmt *
plan_cheaper(Query *other, GJ_PLANNER_ARGUMENTS)
{
	List	   *before = GjChoiceSwap(NIL);
	PlannedStmt *plan = plan_as_is(GJ_PLANNER_PASSED);
	List	   *notes = GjChoiceSwap(NIL);
	PlannedStmt *other_plan;
	bool		is_cheaper;

	query = other;
	other_plan = plan_as_is(GJ_PLANNER_PASSED);
	is_cheaper = GjIsCheaper(other_plan->planTree, plan->planTree);
	if (is_cheaper)
		notes = GjChoiceSwap(NIL);
	/* a copy of the notes would be in the caller's memory context */
	(void) GjChoiceSwap(before == NIL ? notes : list_concat(before, notes));
	return is_cheaper ? other_plan : plan;
}

/*
 * Rewrite a query and all queries in it
 */
static void
rewrite_query(Query *query, ParamListInfo params)
{
	ListCell   *lc;

	check_stack_depth();
	if (query->commandType == CMD_UTILITY)
		return;
	drop_offset(query, params);

	if (query->jointree != NULL && query->commandType != CMD_MERGE)
		rewrite_jointree(query, (Node *) query->jointree, params);

	/* other expressions are looked into only if there are subqueries in them */
	if (query->hasSubLinks)
	{
		(void) query_tree_walker(query, rewrite_walker, params, 0);
		return;
	}
	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_SUBQUERY)
			rewrite_query(rte->subquery, params);
	}
	foreach(lc, query->cteList)
		rewrite_query(castNode(Query, lfirst_node(CommonTableExpr, lc)->ctequery), params);
}

static bool
rewrite_walker(Node *node, void *params)
{
	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, rewrite_walker, params);
	rewrite_query((Query *) node, params);
	return false;
}

/*-------------------------------------------------------------------------
 * IN (SELECT unnest(array))
 *
 * x = ANY (array) is true for the same x: unnest() returns the elements of an array of any number
 * of dimensions, which are those that ANY compares, by the same operator.  How often an element
 * occurs does not matter.  The two forms differ where one is false and the other NULL, for an array
 * that is NULL.  WHERE and ON take NULL for false, and so do AND and OR there; below anything else,
 * such as NOT, we leave the subquery alone.
 *
 * The array is a constant or parameters, so nothing in it is computed more or less often.
 * PostgreSQL tests a list of constants by a hash table, but searches an array that it does not know
 * as a whole for each row; so an array that the plan does not know remains a subquery.
 *
 * We answer the subquery's form as a join, too, but not in an UPDATE or DELETE of a partitioned
 * table, nor below OR; and a join takes more time.
 *-------------------------------------------------------------------------
 */

static void
rewrite_jointree(Query *query, Node *node, ParamListInfo params)
{
	ListCell   *lc;

	check_stack_depth();
	if (IsA(node, FromExpr))
	{
		FromExpr   *from = (FromExpr *) node;

		from->quals = rewrite_condition(query, from->quals, params);
		foreach(lc, from->fromlist)
			rewrite_jointree(query, lfirst(lc), params);
	}
	else if (IsA(node, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) node;

		join->quals = rewrite_condition(query, join->quals, params);
		rewrite_jointree(query, join->larg, params);
		rewrite_jointree(query, join->rarg, params);
	}
}

static Node *
rewrite_condition(Query *query, Node *condition, ParamListInfo params)
{
	ListCell   *lc;

	if (condition == NULL)
		return NULL;
	check_stack_depth();
	if (IsA(condition, SubLink))
		return list_of_subquery(query, (SubLink *) condition, params);
	if (IsA(condition, ScalarArrayOpExpr))
		make_array(query, (ScalarArrayOpExpr *) condition);
	if (is_andclause(condition) || is_orclause(condition))
	{
		foreach(lc, ((BoolExpr *) condition)->args)
			lfirst(lc) = rewrite_condition(query, lfirst(lc), params);
	}
	return condition;
}

/*
 * Return the list that a subquery is, or the subquery itself.  Opens the table's indexes last.
 */
static Node *
list_of_subquery(Query *query, SubLink *sublink, ParamListInfo params)
{
	OpExpr	   *test = (OpExpr *) sublink->testexpr;
	ScalarArrayOpExpr *any;
	Node	   *key;
	Node	   *array;
	Node	   *value;
	Oid			type;
	Oid			cast;

	if (sublink->subLinkType != ANY_SUBLINK || test == NULL || !IsA(test, OpExpr) ||
		list_length(test->args) != 2)
		return (Node *) sublink;
	value = GjStripRelabel(lsecond(test->args));
	type = get_array_type(exprType(lsecond(test->args)));
	array = array_of_unnest(castNode(Query, sublink->subselect));
	if (!IsA(value, Param) || ((Param *) value)->paramkind != PARAM_SUBLINK ||
		!OidIsValid(type) || array == NULL || !is_known(array, params) ||
		get_element_type(exprType(array)) != exprType(value) ||
		getBaseType(exprType(value)) != exprType(value))
		return (Node *) sublink;
	key = GjReadCast(linitial(test->args), &cast);
	if (!has_our_index(query, plain_column(key != NULL ? key : linitial(test->args))))
		return (Node *) sublink;

	if (exprType(array) != type)
		array = (Node *) makeRelabelType((Expr *) array, type, -1,
										 exprCollation(lsecond(test->args)),
										 COERCE_IMPLICIT_CAST);
	any = makeNode(ScalarArrayOpExpr);
	any->opno = test->opno;
	any->useOr = true;
	any->inputcollid = test->inputcollid;
	any->args = list_make2(linitial(test->args), array);
	any->location = test->location;
	set_sa_opfuncid(any);
	return (Node *) any;
}

/*
 * Return the array whose elements are the rows of a subquery, which does nothing else; or NULL
 */
static Node *
array_of_unnest(const Query *subquery)
{
	Node	   *expr;

	if (!is_plain_query(subquery) || subquery->limitOffset != NULL ||
		subquery->jointree->quals != NULL || list_length(subquery->targetList) != 1)
		return NULL;
	expr = (Node *) linitial_node(TargetEntry, subquery->targetList)->expr;
	if (subquery->rtable != NIL)
	{
		RangeTblEntry *rte = linitial_node(RangeTblEntry, subquery->rtable);

		if (list_length(subquery->rtable) != 1 || rte->rtekind != RTE_FUNCTION ||
			rte->funcordinality || list_length(rte->functions) != 1 ||
			subquery->hasTargetSRFs || !IsA(expr, Var) || ((Var *) expr)->varattno != 1 ||
			((Var *) expr)->varlevelsup > 0)
			return NULL;
		expr = linitial_node(RangeTblFunction, rte->functions)->funcexpr;
	}
	if (!IsA(expr, FuncExpr) || ((FuncExpr *) expr)->funcid != F_UNNEST_ANYARRAY)
		return NULL;
	return linitial(((FuncExpr *) expr)->args);
}

/*-------------------------------------------------------------------------
 * Lists of constants
 *
 * x IN (1, 2, 3) is x = ANY (ARRAY[1, 2, 3]).  The planner makes an array of such a list, too, but
 * only after it has looked at each constant several times, and by the executor.  That takes a tenth
 * of the time from a list of 4,000 constants to the answer.  The array is the same.  A list with a
 * NULL, or of a column that is cast, is left alone.
 *-------------------------------------------------------------------------
 */
static void
make_array(Query *query, ScalarArrayOpExpr *any)
{
	ArrayExpr  *list = lsecond(any->args);
	int			n = IsA(list, ArrayExpr) && !list->multidims ? list_length(list->elements) : 0;
	Datum	   *values;
	int16		length;
	bool		by_value;
	char		align;
	ListCell   *lc;

	if (n < LONG_LIST || !has_our_index(query, plain_column(linitial(any->args))))
		return;
	values = palloc_array(Datum, n);
	foreach(lc, list->elements)
	{
		const Const *constant = lfirst(lc);

		if (!IsA(constant, Const) || constant->constisnull)
			return;
		values[foreach_current_index(lc)] = constant->constvalue;
	}
	get_typlenbyvalalign(list->element_typeid, &length, &by_value, &align);
	lsecond(any->args) = makeConst(list->array_typeid, exprTypmod((Node *) list),
								   list->array_collid, -1,
								   PointerGetDatum(construct_array(values, n, list->element_typeid,
																   length, by_value, align)),
								   false, false);
}

/*
 * Return true if a query only joins and filters rows, and computes columns; it may have an OFFSET
 */
static bool
is_plain_query(const Query *query)
{
	return query->commandType == CMD_SELECT && !query->hasAggs && !query->hasWindowFuncs &&
		!query->hasModifyingCTE && query->cteList == NIL && query->groupClause == NIL &&
		query->groupingSets == NIL && query->havingQual == NULL &&
		query->distinctClause == NIL && query->sortClause == NIL && query->limitCount == NULL &&
		query->rowMarks == NIL && query->setOperations == NULL;
}

/*
 * Return true if an array will be a constant in the plan
 */
static bool
is_known(Node *array, ParamListInfo params)
{
	Datum		value;
	bool		isnull;
	ListCell   *lc;

	switch (nodeTag(array))
	{
		case T_Const:
			return true;
		case T_Param:
			return parameter_value((Param *) array, params, &value, &isnull);
		case T_RelabelType:
			return is_known((Node *) ((RelabelType *) array)->arg, params);
		case T_ArrayExpr:
			foreach(lc, ((ArrayExpr *) array)->elements)
			{
				if (!is_known(lfirst(lc), params))
					return false;
			}
			return true;
		default:
			return false;
	}
}

/*
 * Find the value of a parameter; returns false if the plan is to be good for others, too
 */
static bool
parameter_value(const Param *param, ParamListInfo params, Datum *value, bool *isnull)
{
	ParamExternData workspace;
	ParamExternData *found;

	if (params == NULL || param->paramkind != PARAM_EXTERN || param->paramid <= 0 ||
		param->paramid > params->numParams)
		return false;
	found = params->paramFetch != NULL ?
		params->paramFetch(params, param->paramid, true, &workspace) :
		&params->params[param->paramid - 1];
	if (found->ptype != param->paramtype || !(found->pflags & PARAM_FLAG_CONST))
		return false;
	*value = found->value;
	*isnull = found->isnull;
	return true;
}

/*-------------------------------------------------------------------------
 * OFFSET 0
 *
 * Some clients limit each query by parameters, and send OFFSET 0 for no limit.  It keeps a subquery
 * from being merged with the query around it, which then aggregates the subquery's rows one by one.
 * People also write it to have a condition or an expression computed where it is written.  So it
 * is removed only if none can move: the outer query aggregates the subquery's rows, all at once,
 * and does nothing else, and the subquery's columns are plain ones, of a query without functions
 * that are volatile, an order, or locks of rows.
 *-------------------------------------------------------------------------
 */

static void
drop_offset(Query *query, ParamListInfo params)
{
	RangeTblEntry *rte;

	if (!only_aggregates(query) || !IsA(linitial(query->jointree->fromlist), RangeTblRef))
		return;
	rte = rt_fetch(((RangeTblRef *) linitial(query->jointree->fromlist))->rtindex,
				   query->rtable);
	if (rte->rtekind == RTE_SUBQUERY && !rte->lateral && !rte->security_barrier &&
		rte->subquery->limitOffset != NULL && is_zero(rte->subquery->limitOffset, params) &&
		only_renames(rte->subquery))
		rte->subquery->limitOffset = NULL;
}

/*
 * Return true if all that a query does is to aggregate the rows of one source, as a whole
 */
static bool
only_aggregates(const Query *query)
{
	return query->hasAggs && query->commandType == CMD_SELECT && query->jointree != NULL &&
		list_length(query->jointree->fromlist) == 1 && query->jointree->quals == NULL &&
		query->groupClause == NIL && query->groupingSets == NIL && query->havingQual == NULL &&
		query->distinctClause == NIL && !query->hasWindowFuncs && !query->hasTargetSRFs &&
		query->rowMarks == NIL && query->setOperations == NULL;
}

/*
 * Return true if a subquery filters and joins tables of ours, and its columns are theirs
 */
static bool
only_renames(const Query *subquery)
{
	ListCell   *lc;

	if (!is_plain_query(subquery) || subquery->hasTargetSRFs ||
		contain_volatile_functions((Node *) subquery))
		return false;
	foreach(lc, subquery->targetList)
	{
		Node	   *expr = (Node *) lfirst_node(TargetEntry, lc)->expr;

		if (!IsA(expr, Var) && !IsA(expr, Const))
			return false;
	}
	foreach(lc, subquery->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_RELATION && table_has_our_index(rte->relid, InvalidAttrNumber))
			return true;
	}
	return false;
}

/*
 * Return true if an OFFSET is known to be 0, or NULL, which is the same
 */
static bool
is_zero(Node *offset, ParamListInfo params)
{
	Datum		value = (Datum) 0;
	bool		isnull = false;
	Oid			type;

	if (IsA(offset, FuncExpr) && (((FuncExpr *) offset)->funcid == F_INT8_INT4 ||
								  ((FuncExpr *) offset)->funcid == F_INT8_INT2))
		offset = linitial(((FuncExpr *) offset)->args);
	type = exprType(offset);
	if (IsA(offset, Const))
	{
		value = ((Const *) offset)->constvalue;
		isnull = ((Const *) offset)->constisnull;
	}
	else if (!IsA(offset, Param) ||
			 !parameter_value((Param *) offset, params, &value, &isnull))
		return false;
	if (isnull)
		return true;
	return type == INT8OID ? DatumGetInt64(value) == 0 :
		type == INT4OID ? DatumGetInt32(value) == 0 :
		type == INT2OID && DatumGetInt16(value) == 0;
}

/*-------------------------------------------------------------------------
 * Groups that are joined
 *
 * FROM c LEFT JOIN (SELECT key, count(*) FROM big GROUP BY key) g ON g.key = c.id WHERE ...
 *
 * computes the groups of all rows of the big table, but only those count whose key is an id of c.
 * So its rows are restricted to these:
 *
 * ... WHERE big.key IN (SELECT id FROM c WHERE ...) GROUP BY key
 *
 * or, if a condition of the query is on c.id alone, by that condition, on big.key.  The same is
 * done below DISTINCT, DISTINCT ON and window functions that have the key among their columns.
 *
 * Why the answer is the same:
 *
 *	- The join is an inner one, or a left one with the groups on the right, and c is not on a side
 *	  that an outer join makes NULL.  So a row of the subquery counts only where it meets a row of
 *	  c that passes the conditions.
 *	- The join's operator is strict, so rows whose key an outer join has made NULL do not count,
 *	  however many there are.  Groups, distinct rows and partitions of windows are made by an
 *	  equality of its operator family, with its collation.  So if one row's key equals an id, the
 *	  keys of all rows that are grouped with it do, even if they can be told apart.  A group is
 *	  complete, or has no row.  That holds for each subquery on the way to the big table.
 *	- The semi join's ids are a superset of those that the query joins: a condition that must not
 *	  be moved is left out.  Both scans of c see the same rows: those of one snapshot, in a table,
 *	  which is not a foreign one, and which the query does not lock.
 *	- A condition on c.id alone is a condition on big.key only for types whose equal values
 *	  are the same.
 *	- The subquery, which may be a WITH query, is used once.  It has nothing that sees other
 *	  groups: no aggregates of all rows, LIMIT, grouping sets, volatile functions, or rows that it
 *	  locks.  HAVING and ON may remain as they are.
 *
 * The operator and the conditions that are moved are evaluated for values for which PostgreSQL
 * might not evaluate them, of rows that it might have filtered out before.  So they may only
 * consist of columns, constants, parameters and leakproof functions, which raise no errors and
 * reveal nothing to a user who must not see a row.  For the same reason views that are security
 * barriers, and tables with row-level security, are left alone.  An error that PostgreSQL would
 * raise in a group that meets no row is not raised.
 *
 * If c is not restricted, the groups of all rows may be cheaper.  So the query is planned in both
 * forms.
 *-------------------------------------------------------------------------
 */

/*
 * Return a copy of the query with the keys of other tables pushed into groups, its own and those of
 * its subqueries, or NULL if it has no such groups
 */
static Query *
push_keys(Query *query)
{
	Query	   *copy;

	if ((query->commandType != CMD_SELECT && query->commandType != CMD_INSERT) ||
		query->hasModifyingCTE || !has_groups(query))
		return NULL;
	copy = copyObject(query);
	return push_into_groups(copy) ? copy : NULL;
}

/*
 * Return true if there may be groups in a query or its subqueries
 */
static bool
has_groups(Query *query)
{
	for (Index rti = 1; rti <= list_length(query->rtable); rti++)
	{
		const RangeTblEntry *rte = rt_fetch(rti, query->rtable);
		const Query *subquery = get_subquery(query, rte);

		if ((subquery != NULL && is_kept(subquery) && subquery_by_key(query, rti) != NULL) ||
			(rte->rtekind == RTE_SUBQUERY && has_groups(rte->subquery)))
			return true;
	}
	for (int i = 0; i < list_length(query->cteList); i++)
	{
		CommonTableExpr *cte = list_nth(query->cteList, i);

		if (has_groups(castNode(Query, cte->ctequery)))
			return true;
	}
	return false;
}

/*
 * Push keys into the groups of a query and its subqueries; return true if there were any
 */
static bool
push_into_groups(Query *query)
{
	Search		search = {.query = query};
	bool		is_changed = false;
	ListCell   *lc;

	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		is_changed |= rte->rtekind == RTE_SUBQUERY && push_into_groups(rte->subquery);
	}
	foreach(lc, query->cteList)
		is_changed |= push_into_groups(castNode(Query, lfirst_node(CommonTableExpr, lc)->ctequery));
	if (query->commandType != CMD_SELECT || query->rowMarks != NIL ||
		query->setOperations != NULL || query->jointree == NULL)
		return is_changed;

	search_jointree(&search, (Node *) query->jointree);
	foreach(lc, search.groups)
	{
		Groups	   *groups = lfirst(lc);
		Node	   *test;

		rewrite_find_table(&search, groups);
		if (groups->clause == NULL)
			continue;
		test = filter_column(&search, groups);
		if (test == NULL)
		{
			test = test_keys(&search, groups);
			groups->query->hasSubLinks = true;
		}
		groups->query->jointree->quals = make_and_qual(groups->query->jointree->quals, test);
		is_changed = true;
	}
	return is_changed;
}

/*
 * Return a query's subquery if its rows may depend on those with the same key only; else NULL
 */
static Query *
subquery_by_key(const Query *query, Index rti)
{
	const RangeTblEntry *rte = rt_fetch(rti, query->rtable);
	Query	   *subquery = get_subquery(query, rte);

	return subquery != NULL && !rte->lateral && !rte->security_barrier &&
		subquery->commandType == CMD_SELECT && subquery->groupingSets == NIL &&
		(subquery->groupClause != NIL || (!subquery->hasAggs && subquery->havingQual == NULL)) &&
		!subquery->hasTargetSRFs && subquery->cteList == NIL && !subquery->hasModifyingCTE &&
		subquery->limitOffset == NULL && subquery->limitCount == NULL &&
		subquery->setOperations == NULL && subquery->jointree->fromlist != NIL &&
		!locks_rows((Node *) subquery, NULL) && !contain_volatile_functions((Node *) subquery) ?
		subquery : NULL;
}

/*
 * Return the query of a range table entry, which may be a WITH query that is used once
 */
static Query *
get_subquery(const Query *query, const RangeTblEntry *rte)
{
	ListCell   *lc;

	if (rte->rtekind == RTE_SUBQUERY)
		return rte->subquery;
	foreach(lc, rte->rtekind == RTE_CTE && rte->ctelevelsup == 0 ? query->cteList : NIL)
	{
		CommonTableExpr *cte = lfirst(lc);

		if (strcmp(cte->ctename, rte->ctename) == 0)
			return cte->cterefcount == 1 && !cte->cterecursive &&
				cte->ctematerialized != CTEMaterializeAlways ?
				castNode(Query, cte->ctequery) : NULL;
	}
	return NULL;
}

/*
 * Return true if a query or one in it locks rows
 */
static bool
locks_rows(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return ((Query *) node)->rowMarks != NIL ||
			query_tree_walker((Query *) node, locks_rows, context, 0);
	return expression_tree_walker(node, locks_rows, context);
}

/*
 * Collect the tables, conditions and groups of a part of the jointree that no outer join makes NULL
 */
static void
search_jointree(Search *search, Node *node)
{
	ListCell   *lc;

	if (IsA(node, RangeTblRef))
	{
		Index		rti = ((RangeTblRef *) node)->rtindex;

		search->tables = bms_add_member(search->tables, rti);
		rewrite_add_groups(search, rti, false, NULL);
	}
	else if (IsA(node, FromExpr))
	{
		FromExpr   *from = (FromExpr *) node;

		foreach(lc, from->fromlist)
			search_jointree(search, lfirst(lc));
		search->filters = list_concat(search->filters,
									  make_ands_implicit((Expr *) from->quals));
	}
	else
	{
		JoinExpr   *join = castNode(JoinExpr, node);

		if (join->jointype != JOIN_INNER && join->jointype != JOIN_LEFT)
			return;
		search_jointree(search, join->larg);
		if (join->jointype == JOIN_INNER)
		{
			search_jointree(search, join->rarg);
			search->filters = list_concat(search->filters,
										  make_ands_implicit((Expr *) join->quals));
		}
		else if (IsA(join->rarg, RangeTblRef))
			rewrite_add_groups(search, ((RangeTblRef *) join->rarg)->rtindex, true, join->quals);
	}
}

static void
rewrite_add_groups(Search *search, Index rti, bool is_left, Node *quals)
{
	Groups	   *groups;

	if (get_subquery(search->query, rt_fetch(rti, search->query->rtable)) == NULL)
		return;
	groups = palloc0(sizeof(Groups));
	groups->rti = rti;
	groups->is_left = is_left;
	groups->clauses = make_ands_implicit((Expr *) quals);
	search->groups = lappend(search->groups, groups);
}

/*
 * Find a table that is joined by the key
 */
static void
rewrite_find_table(const Search *search, Groups *groups)
{
	ListCell   *lc;

	foreach(lc, groups->is_left ? groups->clauses : search->filters)
	{
		OpExpr	   *op = lfirst(lc);

		if (IsA(op, OpExpr) && list_length(op->args) == 2 &&
			(joins_table(search, groups, op, false) || joins_table(search, groups, op, true)))
			return;
	}
}

/*
 * If a clause compares a column of the groups, on the right if it is turned, with a table's column,
 * set the groups' table
 */
static bool
joins_table(const Search *search, Groups *groups, OpExpr *op, bool is_turned)
{
	Var		   *column = plain_column(is_turned ? lsecond(op->args) : linitial(op->args));
	Var		   *key = plain_column(is_turned ? linitial(op->args) : lsecond(op->args));

	if (column == NULL || key == NULL || column->varno != groups->rti ||
		!bms_is_member(key->varno, search->tables) ||
		!rows_are_same_twice(rt_fetch(key->varno, search->query->rtable)))
		return false;
	groups->query = subquery_by_key(search->query, groups->rti);
	if (groups->query == NULL)
		return false;
	groups->is_kept = false;
	groups->column = find_key_column(groups, column->varattno, op);
	if (groups->column == NULL || !groups->is_kept)
		return false;
	groups->clause = op;
	groups->table = key->varno;
	groups->key = key;
	return true;
}

/*
 * Return the column of a table with an index of ours that a column of groups->query is, and set
 * groups->query to the query, it or one in it, that reads the table.  Return NULL for any other
 * column, and if rows might be grouped of which the clause selects only some.
 */
static Node *
find_key_column(Groups *groups, AttrNumber attno, const OpExpr *op)
{
	Query	   *query = groups->query;
	const TargetEntry *key = get_tle_by_resno(query->targetList, attno);
	Node	   *column = GjGroupedExpr(query, (Node *) key->expr);
	Var		   *var = plain_column(column);
	Query	   *subquery;
	ListCell   *lc;

	if (var == NULL || !op_strict(op->opno) || may_not_move((Node *) op, NULL) ||
		(OidIsValid(op->inputcollid) && op->inputcollid != exprCollation(column)) ||
		(query->groupClause != NIL && !is_made_by(query->groupClause, key, op)) ||
		(query->distinctClause != NIL && !is_made_by(query->distinctClause, key, op)))
		return NULL;
	foreach(lc, query->windowClause)
	{
		if (!is_made_by(lfirst_node(WindowClause, lc)->partitionClause, key, op))
			return NULL;
	}
	groups->is_kept |= is_kept(query);

	subquery = subquery_by_key(query, var->varno);
	if (subquery != NULL)
	{
		groups->query = subquery;
		return find_key_column(groups, var->varattno, op);
	}
	return has_our_index(query, var) ? column : NULL;
}

/*
 * Return true for a subquery that PostgreSQL does not join as its tables
 */
static bool
is_kept(const Query *query)
{
	return query->groupClause != NIL || query->distinctClause != NIL || query->hasWindowFuncs;
}

/*
 * Return true if clauses, such as those of GROUP BY, have the key, and an equality that finds equal
 * only what the operator does
 */
static bool
is_made_by(List *clauses, const TargetEntry *key, const OpExpr *op)
{
	SortGroupClause *clause = key->ressortgroupref == 0 ? NULL :
		get_sortgroupref_clause_noerr(key->ressortgroupref, clauses);

	return clause != NULL && are_equalities(op->opno, clause->eqop);
}

/*
 * Return true if two operators are the equalities of one btree operator family
 */
static bool
are_equalities(Oid opno, Oid eqop)
{
	List	   *families = get_mergejoin_opfamilies(eqop);
	ListCell   *lc;

	foreach(lc, get_mergejoin_opfamilies(opno))
	{
		if (list_member_oid(families, lfirst_oid(lc)))
			return true;
	}
	return false;
}

/*
 * Return true if two scans of a table within a query see the same rows.  Those of a foreign table,
 * which may be a child of any table, have snapshots of their own.  Virtual columns are expressions,
 * which may not be moved.
 */
static bool
rows_are_same_twice(const RangeTblEntry *rte)
{
	return rte->rtekind == RTE_RELATION && rte->tablesample == NULL &&
		rte->securityQuals == NIL &&
		(rte->relkind == RELKIND_RELATION || rte->relkind == RELKIND_MATVIEW) &&
		!(rte->inh && has_subclass(rte->relid)) && !has_virtual_columns(rte->relid);
}

static bool
has_virtual_columns(Oid relid)
{
	Relation	table = table_open(relid, NoLock);
	bool		result = GjHasVirtualColumns(RelationGetDescr(table));

	table_close(table, NoLock);
	return result;
}

/*
 * Make a condition on the group column of those that are on the table's key alone, if any; else
 * return NULL
 */
static Node *
filter_column(const Search *search, const Groups *groups)
{
	Substitution map = {groups->table, groups->column};
	List	   *result = NIL;
	ListCell   *lc;

	if (!IsA(groups->column, Var) || exprType(groups->column) != groups->key->vartype ||
		exprCollation(groups->column) != groups->key->varcollid ||
		!equality_is_of_bits(groups->key))
		return NULL;
	foreach(lc, search->filters)
	{
		Node	   *filter = lfirst(lc);
		Bitmapset  *columns = NULL;
		int			attno;

		if (may_not_move(filter, &map.varno))
			continue;
		pull_varattnos(filter, groups->table, &columns);
		if (bms_get_singleton_member(columns, &attno) &&
			attno == groups->key->varattno - FirstLowInvalidHeapAttributeNumber)
			result = lappend(result, substitute(filter, &map));
	}
	return result == NIL ? NULL : (Node *) make_ands_explicit(result);
}

/*
 * Return true if two values that are equal cannot be told apart
 */
static bool
equality_is_of_bits(Var *key)
{
	switch (key->vartype)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case UUIDOID:
		case DATEOID:
			return true;
		case TEXTOID:
		case VARCHAROID:
			return OidIsValid(key->varcollid) &&
				get_collation_isdeterministic(key->varcollid);
		default:
			return false;
	}
}

/*
 * Make the condition that the group column equals one of the table's keys
 */
static Node *
test_keys(const Search *search, const Groups *groups)
{
	SubLink    *sublink = makeNode(SubLink);
	Param	   *param = makeNode(Param);
	Substitution column = {groups->rti, groups->column};
	Substitution key = {groups->table, (Node *) param};
	Node	   *test;

	param->paramkind = PARAM_SUBLINK;
	param->paramid = 1;
	param->paramtype = groups->key->vartype;
	param->paramtypmod = groups->key->vartypmod;
	param->paramcollid = groups->key->varcollid;
	param->location = -1;

	/* the key first: the subquery's range table has numbers of its own */
	test = substitute((Node *) groups->clause, &key);
	sublink->subLinkType = ANY_SUBLINK;
	sublink->testexpr = substitute(test, &column);
	sublink->operName = list_make1(makeString("="));
	sublink->subselect = (Node *) select_keys(search, groups);
	sublink->location = -1;
	return (Node *) sublink;
}

/*
 * Make the query of a table's keys, restricted by the conditions on it alone that may be moved
 */
static Query *
select_keys(const Search *search, const Groups *groups)
{
	Query	   *keys = makeNode(Query);
	RangeTblRef *ref = makeNode(RangeTblRef);
	Index		table = groups->table;
	List	   *quals = NIL;
	ListCell   *lc;

	foreach(lc, search->filters)
	{
		if (!may_not_move(lfirst(lc), &table))
			quals = lappend(quals, copyObject(lfirst(lc)));
	}
	ref->rtindex = 1;
	keys->commandType = CMD_SELECT;
	keys->canSetTag = true;
	GjCopyTable(keys, search->query, rt_fetch(table, search->query->rtable));
	keys->jointree = makeFromExpr(list_make1(ref),
								  quals == NIL ? NULL : (Node *) make_ands_explicit(quals));
	keys->targetList = list_make1(makeTargetEntry((Expr *) copyObject(groups->key), 1,
												  pstrdup("key"), false));
	ChangeVarNodes((Node *) keys->targetList, table, 1, 0);
	ChangeVarNodes((Node *) keys->jointree->quals, table, 1, 0);
	return keys;
}

static Node *
substitute(Node *node, Substitution *map)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == map->varno)
		return copyObject(map->expr);
	return expression_tree_mutator(node, substitute, map);
}

/*
 * Return true if an expression may raise an error, give another result elsewhere, or use columns of
 * other range table entries than *table, unless that is NULL
 */
static bool
may_not_move(Node *node, void *table)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			return ((Var *) node)->varlevelsup > 0 ||
				(table != NULL && ((Var *) node)->varno != *(Index *) table);
		case T_Param:
			return ((Param *) node)->paramkind != PARAM_EXTERN;
		case T_Const:
			return false;
		case T_List:
		case T_RelabelType:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_ArrayExpr:
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_ScalarArrayOpExpr:
			return check_functions_in_node(node, rewrite_may_fail, NULL) ||
				expression_tree_walker(node, may_not_move, table);
		default:
			return true;
	}
}

static bool
rewrite_may_fail(Oid function, void *context)
{
	return !get_func_leakproof(function) || func_volatile(function) == PROVOLATILE_VOLATILE;
}

/*
 * Return the column of this query that an expression is, perhaps relabeled; or NULL
 */
static Var *
plain_column(Node *expr)
{
	Var		   *var = GjStripRelabel(expr);

	return IsA(var, Var) && var->varlevelsup == 0 && var->varattno > 0 ? var : NULL;
}

/*
 * Return true if a column, unless NULL, is a table's that has an index of ours that begins with it
 */
static bool
has_our_index(const Query *query, const Var *column)
{
	RangeTblEntry *rte;

	if (column == NULL)
		return false;
	rte = rt_fetch(column->varno, query->rtable);
	return rte->rtekind == RTE_RELATION && table_has_our_index(rte->relid, column->varattno);
}

/*
 * Return true if a table has an index of ours that begins with a column, or with any
 */
static bool
table_has_our_index(Oid relid, AttrNumber attno)
{
	Relation	table = table_open(relid, AccessShareLock);
	bool		found = false;
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(table))
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		found |= index->rd_indam->amcostestimate == gjcostestimate &&
			(attno == InvalidAttrNumber || index->rd_index->indkey.values[0] == attno);
		index_close(index, AccessShareLock);
	}
	table_close(table, AccessShareLock);
	return found;
}
