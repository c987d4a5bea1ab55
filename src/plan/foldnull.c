/*-------------------------------------------------------------------------
 *
 * foldnull.c
 *	  Fold "key IS NULL AND condition".
 *
 * A row-independent condition beside "key IS NULL" (as in what the Entity Framework
 * writes, key = ANY ($1) OR (key IS NULL AND array_position($1, NULL) IS NOT NULL))
 * is a source, too: our indexes do not have such rows, so the scan reads the whole
 * table if the condition turns out to be true.  That is right, and rare.  A plain
 * "key IS NULL" asks for them always: nothing is offered then.
 *
 * Such a condition is looked at before the scan, though PostgreSQL looks at it only
 * when it meets a NULL key.  So it must be one that nobody can tell has been looked at:
 * it cannot fail, and no subquery is run for it, which could also write.  array_position()
 * can fail, with a multidimensional array: the scan looks into the array by itself, takes
 * such a one for one that may have a NULL, and the whole clause is tested on each row
 * besides.  The array may be any expression, if keys are taken from the same one.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/fmgroids.h"

#include "planner.h"

static bool is_null_key(Node *test, IndexOptInfo *index);
static Expr *array_searched_for_null(Node *condition);
static bool array_is_harmless(PlannerInfo *root, Expr *array, List *siblings);
static bool cannot_fail(PlannerInfo *root, Node *condition);
static bool all_cannot_fail(PlannerInfo *root, List *conditions);
static bool runs_subquery(PlannerInfo *root, const Param *param);

/*
 * Fold an AND that has "key IS NULL" among conditions that are the same for each row;
 * NULL if it is none, or they may not be evaluated before the scan
 *
 * siblings are the operands of the OR that it stands in.  exact becomes false if the clause
 * is to be tested on each row besides.
 */
GjKeyNode *
GjFoldNullKey(PlannerInfo *root, IndexOptInfo *index, BoolExpr *expr, List *siblings,
			  bool *exact)
{
	GjSource	source = {.kind = GJ_SOURCE_NULL};
	List	   *conditions = NIL;
	ListCell   *lc;

	foreach(lc, expr->args)
	{
		if (!is_null_key(lfirst(lc), index))
			conditions = lappend(conditions, lfirst(lc));
	}
	if (conditions == NIL || list_length(conditions) == list_length(expr->args))
		return NULL;

	source.value = list_length(conditions) == 1 ?
		array_searched_for_null(linitial(conditions)) : NULL;
	if (source.value != NULL && array_is_harmless(root, source.value, siblings))
	{
		source.kind = GJ_SOURCE_NULL_IN_ARRAY;
		*exact = false;
		return GjMakeSource(&source);
	}

	if (!all_cannot_fail(root, conditions))
		return NULL;
	source.value = make_ands_explicit(conditions);
	return GjMakeSource(&source);
}

static bool
is_null_key(Node *test, IndexOptInfo *index)
{
	NullTest   *null_test = (NullTest *) test;

	return IsA(test, NullTest) && null_test->nulltesttype == IS_NULL &&
		!null_test->argisrow && match_index_to_operand((Node *) null_test->arg, 0, index);
}

/*
 * Return the array of array_position(array, NULL) IS NOT NULL; NULL if it is something else
 */
static Expr *
array_searched_for_null(Node *condition)
{
	NullTest   *test = (NullTest *) condition;
	FuncExpr   *call;
	Const	   *wanted;

	if (!IsA(test, NullTest) || test->nulltesttype != IS_NOT_NULL || test->argisrow ||
		!IsA(test->arg, FuncExpr))
		return NULL;

	call = (FuncExpr *) test->arg;
	if (call->funcid != F_ARRAY_POSITION_ANYCOMPATIBLEARRAY_ANYCOMPATIBLE)
		return NULL;
	wanted = lsecond(call->args);
	return IsA(wanted, Const) && wanted->constisnull ? linitial(call->args) : NULL;
}

/*
 * Is this an array that cannot fail, or one from which keys are taken anyway?
 */
static bool
array_is_harmless(PlannerInfo *root, Expr *array, List *siblings)
{
	ListCell   *lc;

	foreach(lc, siblings)
	{
		ScalarArrayOpExpr *any = lfirst(lc);

		if (IsA(any, ScalarArrayOpExpr) && equal(lsecond(any->args), array))
			return true;
	}
	return cannot_fail(root, (Node *) array);
}

/*
 * Is this an expression of parameters and constants that can be evaluated at any time?
 */
static bool
cannot_fail(PlannerInfo *root, Node *condition)
{
	switch (nodeTag(condition))
	{
		case T_Const:
			return true;
		case T_Param:
			return !runs_subquery(root, (Param *) condition);
		case T_RelabelType:
			return cannot_fail(root, (Node *) ((RelabelType *) condition)->arg);
		case T_NullTest:
			return cannot_fail(root, (Node *) ((NullTest *) condition)->arg);
		case T_BooleanTest:
			return cannot_fail(root, (Node *) ((BooleanTest *) condition)->arg);
		case T_BoolExpr:
			return all_cannot_fail(root, ((BoolExpr *) condition)->args);
		case T_ArrayExpr:
			return !((ArrayExpr *) condition)->multidims &&
				all_cannot_fail(root, ((ArrayExpr *) condition)->elements);
		default:
			return false;
	}
}

static bool
all_cannot_fail(PlannerInfo *root, List *conditions)
{
	ListCell   *lc;

	foreach(lc, conditions)
	{
		if (!cannot_fail(root, lfirst(lc)))
			return false;
	}
	return true;
}

/*
 * Does an uncorrelated subquery compute this, when its value is first wanted?
 *
 * It is one of this query level, or of one above whose condition was pushed down to here.
 * Other parameters of the executor have their values before a scan starts.
 */
static bool
runs_subquery(PlannerInfo *root, const Param *param)
{
	if (param->paramkind != PARAM_EXEC)
		return false;
	for (; root != NULL; root = root->parent_root)
	{
		ListCell   *lc;

		foreach(lc, root->init_plans)
		{
			if (list_member_int(lfirst_node(SubPlan, lc)->setParam, param->paramid))
				return true;
		}
	}
	return false;
}
