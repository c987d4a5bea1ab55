/*-------------------------------------------------------------------------
 *
 * early.c
 *	  Whether the values that a filter compares columns with can be evaluated before the first entry
 *	  arrives.
 *
 * Without entries they must not be evaluated if that might raise an error, just as the executor
 * evaluates a filter only if it has a row.  But a device needs the values with the request.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "rows.h"

static bool tells_time(Node *node);
static bool is_of_time(Oid function);

/*
 * Return true if evaluating a value could fail.  A param alone cannot.  The planner has evaluated
 * what has no param, to estimate how many rows pass; but a stable function may fail when a cached
 * plan is executed again, unless only the time has changed.
 */
bool
GjValueMayFail(Node *value)
{
	while (IsA(value, RelabelType))
		value = (Node *) ((RelabelType *) value)->arg;
	return !IsA(value, Param) && !tells_time(value);
}

/*
 * Return true if the expression has nothing but constants, the time, and functions that do not
 * fail as time goes by: "now() - interval '1 day'", "current_date"
 */
static bool
tells_time(Node *node)
{
	List	   *args;
	ListCell   *lc;

	switch (nodeTag(node))
	{
		case T_Const:
		case T_SQLValueFunction:
			return true;
		case T_RelabelType:
			return tells_time((Node *) ((RelabelType *) node)->arg);
		case T_FuncExpr:
			if (!is_of_time(((FuncExpr *) node)->funcid))
				return false;
			args = ((FuncExpr *) node)->args;
			break;
		case T_OpExpr:
			if (!is_of_time(get_opcode(((OpExpr *) node)->opno)))
				return false;
			args = ((OpExpr *) node)->args;
			break;
		default:
			return false;
	}
	foreach(lc, args)
	{
		if (!tells_time(lfirst(lc)))
			return false;
	}
	return true;
}

static bool
is_of_time(Oid function)
{
	switch (function)
	{
		case F_NOW:
		case F_TRANSACTION_TIMESTAMP:
		case F_STATEMENT_TIMESTAMP:
		case F_DATE_TIMESTAMPTZ:
		case F_TIMESTAMP_TIMESTAMPTZ:
		case F_TIMESTAMP_DATE:
		case F_TIMESTAMPTZ_DATE:
		case F_TIMESTAMPTZ_TIMESTAMP:
		case F_DATE_PLI:
		case F_DATE_MII:
		case F_DATE_PL_INTERVAL:
		case F_DATE_MI_INTERVAL:
		case F_TIMESTAMP_PL_INTERVAL:
		case F_TIMESTAMP_MI_INTERVAL:
		case F_TIMESTAMPTZ_PL_INTERVAL:
		case F_TIMESTAMPTZ_MI_INTERVAL:
		case F_DATE_TRUNC_TEXT_TIMESTAMP:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ:
			return true;
		default:
			return false;
	}
}

/*
 * Add the executor's parameters in an expression to a Bitmapset *
 */
bool
GjCollectParams(Node *node, void *params)
{
	Bitmapset **set = params;

	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		*set = bms_add_member(*set, ((Param *) node)->paramid);
	return expression_tree_walker(node, GjCollectParams, params);
}
