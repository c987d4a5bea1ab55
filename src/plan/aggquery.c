/*-------------------------------------------------------------------------
 *
 * aggquery.c
 *	  Can GpuAgg compute what a query asks for?
 *
 * It groups by values that are equal just when their bits are: integers, dates, times and
 * booleans, by the default equality of their types.  A column of a join's small side may have
 * another type that can be hashed: rows are grouped by a number for each of its values
 * (agg/reader.c).  It computes the built-in aggregates that groups.h lists, of columns.
 * Whatever else a query asks for is left to PostgreSQL.
 *
 * Rows are grouped by what GROUP BY has, and by each other column that is used outside of
 * aggregates: PostgreSQL has found that these depend on the primary key that GROUP BY names,
 * so that they make no further groups.
 *
 * Group columns and aggregates are told by their expressions, and two that are equal are one.  So
 * nothing in them may be volatile.  What decides which rows there are may be, for the child's rows
 * are read once.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "planner.h"

static void read_groups(PlannerInfo *root, RelOptInfo *grouped, List *having, GjAggQuery *query);
static void read_distinct(PlannerInfo *root, PathTarget *target, GjAggQuery *query);
static void read_clauses(List *clauses, List *tlist, GjAggQuery *query);
static void check_groupings(GjAggQuery *query);
static bool refuse(GjAggQuery *query, const char *reason);
static bool read_expr(Node *node, GjAggQuery *query);
static bool add_grouping(GjAggQuery *query, Expr *expr);
static bool is_encodable(Expr *expr);
static const char *aggregate_problem(const Aggref *aggref);
static const char *say(const Aggref *aggref, const char *problem);
static const char *computation_problem(Expr *expr);
static bool encodes(const GjAggQuery *query, const Path *child);
static bool takes_from(const GjAggQuery *query, const PathTarget *target);
static bool has_expr(const PathTarget *target, Expr *expr);

/*
 * Read what a step of the query computes: groups, or SELECT DISTINCT.  Returns its target.
 */
PathTarget *
GjAggReadQuery(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input, RelOptInfo *output,
			   void *extra, GjAggQuery *query)
{
	memset(query, 0, sizeof(GjAggQuery));
	if (stage == UPPERREL_GROUP_AGG)
	{
		read_groups(root, output, (List *) ((GroupPathExtraData *) extra)->havingQual, query);
		return output->reltarget;
	}
	Assert(stage == UPPERREL_DISTINCT);
	read_distinct(root, input->reltarget, query);
	return input->reltarget;
}

/*
 * Read what is to be computed for GROUP BY, aggregates and HAVING
 */
static void
read_groups(PlannerInfo *root, RelOptInfo *grouped, List *having, GjAggQuery *query)
{
	Query	   *parse = root->parse;

	query->having = having;
	if (parse->groupingSets != NIL)
		query->refused = "grouping sets";
	else if (parse->hasTargetSRFs)
		query->refused = "a set-returning function in the target list";
	else
	{
		read_clauses(parse->groupClause, root->processed_tlist, query);
		(void) (read_expr((Node *) grouped->reltarget->exprs, query) ||
				read_expr((Node *) having, query));
		check_groupings(query);
	}
}

/*
 * Read what is to be computed for SELECT DISTINCT of a target
 */
static void
read_distinct(PlannerInfo *root, PathTarget *target, GjAggQuery *query)
{
	Query	   *parse = root->parse;

	query->is_distinct = true;
	if (parse->hasDistinctOn)
		query->refused = "DISTINCT ON";
	else if (parse->hasAggs || parse->groupClause != NIL || parse->groupingSets != NIL ||
			 parse->havingQual != NULL || parse->hasWindowFuncs || parse->hasTargetSRFs)
		query->refused = "DISTINCT above another computation";
	else
	{
		read_clauses(parse->distinctClause, root->processed_tlist, query);
		(void) read_expr((Node *) target->exprs, query);
		check_groupings(query);
	}
}

static void
read_clauses(List *clauses, List *tlist, GjAggQuery *query)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		Expr	   *expr = (Expr *) get_sortgroupclause_expr(clause, tlist);
		TypeCacheEntry *type = lookup_type_cache(exprType((Node *) expr), TYPECACHE_EQ_OPR);

		if (type->eq_opr != clause->eqop)
			refuse(query, "groups by another than the type's default equality");
		else if (!add_grouping(query, expr))
			return;
	}
}

static void
check_groupings(GjAggQuery *query)
{
	if (contain_subplans((Node *) query->groupings))
		refuse(query, "a subplan makes the values that rows are grouped by");
	if (contain_volatile_functions((Node *) query->groupings))
		refuse(query, "a volatile function makes the values that rows are grouped by");
}

/* Say why it cannot be done; the first reason stays.  True, which ends a walk. */
static bool
refuse(GjAggQuery *query, const char *reason)
{
	if (query->refused == NULL)
		query->refused = reason;
	return true;
}

/*
 * Collect aggregates and columns; true: it cannot be done
 */
static bool
read_expr(Node *node, GjAggQuery *query)
{
	if (query->refused != NULL)
		return true;
	if (node == NULL || list_member(query->groupings, node))
		return false;
	if (IsA(node, Aggref))
	{
		const char *problem = aggregate_problem((Aggref *) node);

		if (problem != NULL)
			return refuse(query, problem);
		query->aggregates = list_append_unique(query->aggregates, node);
		return false;
	}
	if (IsA(node, Var))
		return ((Var *) node)->varlevelsup > 0 || !add_grouping(query, (Expr *) node);
	if (IsA(node, PlaceHolderVar) || IsA(node, GroupingFunc))
		return refuse(query, "a value that an outer join or grouping sets make");
	return expression_tree_walker(node, read_expr, query);
}

static bool
add_grouping(GjAggQuery *query, Expr *expr)
{
	GjValueType type;

	if (is_encodable(expr))
		query->coded = list_append_unique(query->coded, expr);
	else if (!GjValueTypeOf(exprType((Node *) expr), &type) ||
			 type == GJ_VALUE_FLOAT4 || type == GJ_VALUE_FLOAT8)
	{
		refuse(query, "a group column's type, whose equality is not that of bits");
		return false;
	}
	query->groupings = list_append_unique(query->groupings, expr);
	return true;
}

/*
 * A column for whose values numbers can be taken, since nothing else can: then an aggregate or
 * a filter cannot want the values themselves
 */
static bool
is_encodable(Expr *expr)
{
	GjValueType type;
	TypeCacheEntry *entry;

	if (!IsA(expr, Var) || GjValueTypeOf(((Var *) expr)->vartype, &type))
		return false;
	entry = lookup_type_cache(((Var *) expr)->vartype, TYPECACHE_EQ_OPR | TYPECACHE_HASH_PROC);
	return OidIsValid(entry->eq_opr) && OidIsValid(entry->hash_proc);
}

/*
 * Are the columns that must have numbers those of the child's small side?  It must fit in memory,
 * as all of its values do so then.
 */
static bool
encodes(const GjAggQuery *query, const Path *child)
{
	const GjJoinCandidate *cand;
	ListCell   *lc;

	if (query->coded == NIL)
		return true;
	while (IsA(child, ProjectionPath))
		child = ((const ProjectionPath *) child)->subpath;
	if (!IsA(child, CustomPath) || ((const CustomPath *) child)->methods != &GjJoinPathMethods)
		return false;
	cand = list_nth(((const CustomPath *) child)->custom_private, GJ_JOIN_PATH_CANDIDATE);
	foreach(lc, query->coded)
	{
		if (!bms_is_member(lfirst_node(Var, lc)->varno, cand->small->relids))
			return false;
	}
	return cand->nbatches <= 1.0;
}

/*
 * Say why an aggregate cannot be computed; NULL: it can
 */
static const char *
aggregate_problem(const Aggref *aggref)
{
	GjAggKind	kind;
	GjValueType type;
	Expr	   *argument;
	const char *problem;

	if (aggref->agglevelsup > 0 || aggref->aggsplit != AGGSPLIT_SIMPLE)
		return "an aggregate of another query level";
	if (!GjAggregateOf(aggref, &kind))
		return say(aggref, " is not computed by gpujoin");
	if (aggref->aggorder != NIL)
		return say(aggref, " with ORDER BY is not computed by gpujoin");
	if (aggref->aggdistinct != NIL)
	{
		SortGroupClause *clause = linitial_node(SortGroupClause, aggref->aggdistinct);
		Oid			argtype = linitial_oid(aggref->aggargtypes);

		if (kind != GJ_AGG_COUNT_DISTINCT || !GjValueTypeOf(argtype, &type) ||
			type == GJ_VALUE_FLOAT4 || type == GJ_VALUE_FLOAT8 ||
			lookup_type_cache(argtype, TYPECACHE_EQ_OPR)->eq_opr != clause->eqop)
			return say(aggref, " with DISTINCT is not computed by gpujoin");
	}
	argument = GjAggregateArgument(aggref);
	if (argument != NULL && !GjValueTypeOf(exprType((Node *) argument), &type))
		return say(aggref, " is not computed by gpujoin");
	problem = computation_problem(aggref->aggfilter);
	if (problem == NULL)
		problem = computation_problem(argument);
	return problem == NULL ? NULL : say(aggref, problem);
}

/*
 * Make a reason of an aggregate's name, the types of its arguments, and what is wrong with it
 */
static const char *
say(const Aggref *aggref, const char *problem)
{
	StringInfoData types;
	ListCell   *lc;

	if (!GjChoiceIsNoted())
		return problem;
	initStringInfo(&types);
	foreach(lc, aggref->aggargtypes)
		appendStringInfo(&types, "%s%s", types.len > 0 ? ", " : "",
						 format_type_be(lfirst_oid(lc)));
	return GjChoiceFormat("the aggregate %s(%s)%s", get_func_name(aggref->aggfnoid),
						  aggref->aggstar ? "*" : types.data, problem);
}

/*
 * Say why an expression cannot be computed for each row of a batch; NULL: it can, or there is none
 */
static const char *
computation_problem(Expr *expr)
{
	GjValueType type;
	ListCell   *lc;

	if (expr == NULL)
		return NULL;
	if (contain_volatile_functions((Node *) expr))
		return " has a volatile function";
	if (contain_subplans((Node *) expr))
		return " has a subplan";
	foreach(lc, pull_var_clause((Node *) expr, PVC_INCLUDE_PLACEHOLDERS))
	{
		const Var  *column = lfirst(lc);

		if (!IsA(column, Var))
			return " reads a value that an outer join makes";
		if (!GjValueTypeOf(column->vartype, &type))
			return GjChoiceFormat(" reads a column of type %s, which gpujoin does not compute with",
								  GjChoiceIsNoted() ? format_type_be(column->vartype) : "");
	}
	return NULL;
}

/*
 * The argument of an aggregate; NULL if it has none, or one that is never NULL and only
 * counted
 */
Expr *
GjAggregateArgument(const Aggref *aggref)
{
	Expr	   *argument;

	if (aggref->args == NIL)
		return NULL;
	argument = linitial_node(TargetEntry, aggref->args)->expr;
	if (aggref->aggfnoid == F_COUNT_ANY && aggref->aggdistinct == NIL && IsA(argument, Const) &&
		!((Const *) argument)->constisnull)
		return NULL;
	return argument;
}

/*
 * Say why a child's rows cannot be grouped for this query; returns NULL if they can
 */
const char *
GjAggRefuseInput(const GjAggQuery *query, const Path *child)
{
	if (!takes_from(query, child->pathtarget))
		return "what is grouped or aggregated is computed above an Append";
	if (!encodes(query, child))
		return "a group column's type, whose equality is not that of bits";
	return NULL;
}

/*
 * Does the target have all that is grouped by and aggregated?
 */
static bool
takes_from(const GjAggQuery *query, const PathTarget *target)
{
	ListCell   *lc;

	foreach(lc, query->groupings)
	{
		if (!list_member(target->exprs, lfirst(lc)))
			return false;
	}
	foreach(lc, query->aggregates)
	{
		Aggref	   *aggref = lfirst_node(Aggref, lc);

		if (!has_expr(target, GjAggregateArgument(aggref)) || !has_expr(target, aggref->aggfilter))
			return false;
	}
	return true;
}

/*
 * Does the target have an expression, or all columns of which it is made?
 */
static bool
has_expr(const PathTarget *target, Expr *expr)
{
	return list_member(target->exprs, expr) ||
		list_difference(pull_var_clause((Node *) expr, 0), target->exprs) == NIL;
}

/*
 * How are the bits of a type's values to be understood?  False: they are not values of which
 * GpuAgg knows.
 */
bool
GjValueTypeOf(Oid type, GjValueType *value_type)
{
	static const struct
	{
		Oid			type;
		GjValueType value_type;
	}			types[] = {
		{BOOLOID, GJ_VALUE_BOOL},
		{INT2OID, GJ_VALUE_INT2},
		{INT4OID, GJ_VALUE_INT4},
		{INT8OID, GJ_VALUE_INT8},
		{OIDOID, GJ_VALUE_OID},
		{FLOAT4OID, GJ_VALUE_FLOAT4},
		{FLOAT8OID, GJ_VALUE_FLOAT8},
		{DATEOID, GJ_VALUE_INT4},
		{TIMESTAMPOID, GJ_VALUE_INT8},
		{TIMESTAMPTZOID, GJ_VALUE_INT8},
	};

	for (int i = 0; i < lengthof(types); i++)
	{
		if (types[i].type != type)
			continue;
		*value_type = types[i].value_type;
		return true;
	}
	return false;
}

/*
 * Which aggregate is it?  False: none that GpuAgg computes.
 */
bool
GjAggregateOf(const Aggref *aggref, GjAggKind *kind)
{
	switch (aggref->aggfnoid)
	{
		case F_COUNT_:
			*kind = GJ_AGG_COUNT_ROWS;
			return true;
		case F_COUNT_ANY:
			*kind = aggref->aggdistinct != NIL ? GJ_AGG_COUNT_DISTINCT :
				GjAggregateArgument(aggref) == NULL ? GJ_AGG_COUNT_ROWS : GJ_AGG_COUNT;
			return true;
		case F_SUM_INT2:
		case F_SUM_INT4:
		case F_SUM_INT8:
		case F_SUM_FLOAT4:
		case F_SUM_FLOAT8:
			*kind = GJ_AGG_SUM;
			return true;
		case F_AVG_INT2:
		case F_AVG_INT4:
		case F_AVG_INT8:
		case F_AVG_FLOAT4:
		case F_AVG_FLOAT8:
			*kind = GJ_AGG_AVG;
			return true;
		case F_MIN_INT2:
		case F_MIN_INT4:
		case F_MIN_INT8:
		case F_MIN_OID:
		case F_MIN_FLOAT4:
		case F_MIN_FLOAT8:
		case F_MIN_DATE:
		case F_MIN_TIMESTAMP:
		case F_MIN_TIMESTAMPTZ:
			*kind = GJ_AGG_MIN;
			return true;
		case F_MAX_INT2:
		case F_MAX_INT4:
		case F_MAX_INT8:
		case F_MAX_OID:
		case F_MAX_FLOAT4:
		case F_MAX_FLOAT8:
		case F_MAX_DATE:
		case F_MAX_TIMESTAMP:
		case F_MAX_TIMESTAMPTZ:
			*kind = GJ_AGG_MAX;
			return true;
		case F_BOOL_AND:
		case F_EVERY:
			*kind = GJ_AGG_BOOL_AND;
			return true;
		case F_BOOL_OR:
			*kind = GJ_AGG_BOOL_OR;
			return true;
		default:
			return false;
	}
}
