/*-------------------------------------------------------------------------
 *
 * analyze.c
 *	  Building a query from a statement's text, in which parameters stand for
 *	  unknown values.
 *
 * Parameters get the types that their contexts require.  Some contexts require none, although the
 * constants that pg_stat_statements has replaced had types: ARRAY[$1, $2], VALUES ($1), ($2),
 * generate_series($1, $2), unnest($1) and current_date - $1.  If the text cannot be analyzed
 * otherwise, we assume that these parameters are integers.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "parser/parse_type.h"
#include "tcop/tcopprot.h"

#include "advise.h"

/* Maximum number of parameters of a statement that a client sends */
#define MAX_PARAMS				65535

/* The types of a query's parameters */
typedef struct ParamTypes
{
	Oid		   *types;
	int			n;
} ParamTypes;

static void unwrap(RawStmt *raw, ParamTypes *params);
static bool is_planned(const Node *statement);
static void refuse(const char *caller);
static bool find_parameter(Node *node, void *ignored);
static void make_room(ParamTypes *params);
static bool guess_types(Node *node, void *params);
static bool is_minus(const A_Expr *expr);
static void guess_call(const FuncCall *call, ParamTypes *params);
static void guess_list(const List *nodes, Oid type, ParamTypes *params);

/*
 * Build a query from a text; raises an error if the planner does not handle it.  With guesses,
 * parameters of unknown type are integers.  caller is the name of the SQL function.
 */
Query *
GjAnalyze(const char *text, bool guesses, const char *caller)
{
	List	   *raw = pg_parse_query(text);
	ParamTypes	params = {0};
	Query	   *query;
	List	   *queries;

	if (list_length(raw) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("%s takes one statement", caller)));
	unwrap(linitial(raw), &params);
	if (!is_planned(linitial_node(RawStmt, raw)->stmt))
		refuse(caller);
	if (guesses)
	{
		make_room(&params);
		(void) guess_types(linitial_node(RawStmt, raw)->stmt, &params);
	}
	/* pg_analyze_and_rewrite_varparams() would require a type for each */
	query = parse_analyze_varparams(linitial(raw), text, &params.types, &params.n, NULL);
	if (query->commandType == CMD_UTILITY)
		refuse(caller);
	queries = pg_rewrite_query(query);
	if (list_length(queries) != 1 || linitial_node(Query, queries)->commandType == CMD_UTILITY)
		ereport(ERROR,
				(errcode(GJ_NOT_PLANNED),
				 errmsg("%s does not take a statement that rules replace or add others to",
						caller)));
	return linitial(queries);
}

/*
 * Return true if one of a text's statements has a parameter and can be planned
 */
bool
GjHasParameters(const char *text)
{
	ListCell   *lc;

	if (strchr(text, '$') == NULL)
		return false;
	foreach(lc, pg_parse_query(text))
	{
		Node	   *statement = lfirst_node(RawStmt, lc)->stmt;

		if (is_planned(statement) && find_parameter(statement, NULL))
			return true;
	}
	return false;
}

static bool
find_parameter(Node *node, void *ignored)
{
	return node != NULL && (IsA(node, ParamRef) ||
							raw_expression_tree_walker(node, find_parameter, ignored));
}

static bool
is_planned(const Node *statement)
{
	return IsA(statement, SelectStmt) || IsA(statement, InsertStmt) ||
		IsA(statement, UpdateStmt) || IsA(statement, DeleteStmt) || IsA(statement, MergeStmt);
}

static void
refuse(const char *caller)
{
	ereport(ERROR,
			(errcode(GJ_NOT_PLANNED),
			 errmsg("%s takes a SELECT, INSERT, UPDATE, DELETE or MERGE", caller)));
}

/*
 * Extract the query from PREPARE, which is the text of an EXECUTE, and from DECLARE CURSOR
 */
static void
unwrap(RawStmt *raw, ParamTypes *params)
{
	ListCell   *lc;

	if (IsA(raw->stmt, DeclareCursorStmt))
		raw->stmt = ((DeclareCursorStmt *) raw->stmt)->query;
	else if (IsA(raw->stmt, PrepareStmt))
	{
		PrepareStmt *prepare = (PrepareStmt *) raw->stmt;

		params->types = palloc(sizeof(Oid) * (1 + list_length(prepare->argtypes)));
		foreach(lc, prepare->argtypes)
			params->types[params->n++] = typenameTypeId(NULL, lfirst_node(TypeName, lc));
		raw->stmt = prepare->query;
	}
}

/*
 * Allocate the types of all parameters that a statement can have
 */
static void
make_room(ParamTypes *params)
{
	Oid		   *types = palloc0(sizeof(Oid) * MAX_PARAMS);

	for (int i = 0; i < Min(params->n, MAX_PARAMS); i++)
		types[i] = params->types[i];
	params->types = types;
	params->n = MAX_PARAMS;
}

/*
 * Assign types to the parameters whose contexts do not determine them
 */
static bool
guess_types(Node *node, void *params)
{
	ListCell   *lc;

	if (node == NULL)
		return false;
	if (IsA(node, A_ArrayExpr))
		guess_list(((A_ArrayExpr *) node)->elements, INT4OID, params);
	else if (IsA(node, A_Expr) && is_minus((A_Expr *) node))
		guess_list(list_make1(((A_Expr *) node)->rexpr), INT4OID, params);
	else if (IsA(node, FuncCall))
		guess_call((FuncCall *) node, params);
	else if (IsA(node, SelectStmt))
	{
		foreach(lc, ((SelectStmt *) node)->valuesLists)
			guess_list(lfirst(lc), INT4OID, params);
	}
	return raw_expression_tree_walker(node, guess_types, params);
}

static bool
is_minus(const A_Expr *expr)
{
	return expr->kind == AEXPR_OP && strcmp(strVal(llast(expr->name)), "-") == 0;
}

static void
guess_call(const FuncCall *call, ParamTypes *params)
{
	const char *name = strVal(llast(call->funcname));

	if (strcmp(name, "generate_series") == 0)
		guess_list(call->args, INT4OID, params);
	else if (strcmp(name, "unnest") == 0)
		guess_list(call->args, INT4ARRAYOID, params);
}

static void
guess_list(const List *nodes, Oid type, ParamTypes *params)
{
	ListCell   *lc;

	foreach(lc, nodes)
	{
		int			number = IsA(lfirst(lc), ParamRef) ? ((ParamRef *) lfirst(lc))->number : 0;

		if (number > 0 && number <= params->n && !OidIsValid(params->types[number - 1]))
			params->types[number - 1] = type;
	}
}
