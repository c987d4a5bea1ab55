/*-------------------------------------------------------------------------
 *
 * keyclause.c
 *	  Write conditions on the key into a plan (node/keyplan.h): as PostgreSQL's own expression, from
 *	  which EXPLAIN shows them and the executor takes the values, and as steps for each part of it.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_operator_d.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "planner.h"

static Expr *add_step(GjKeyNode *node, Expr *key, List **steps);
static Expr *tuples_clause(const GjSource *source, Expr *key);
static Expr *make_any(Oid opno, Expr *left, Expr *array, bool is_any);
static Expr *make_null_test(Expr *arg, NullTestType type);
static Expr *cast_key(Expr *key, Oid cast);

/*
 * Make an array of values; a constant if all of them are
 */
Expr *
GjMakeArray(Oid declared, List *values)
{
	/* of a polymorphic operator, such as the one of enums, all values have the column's type */
	Oid			type = !IsPolymorphicType(declared) ? declared :
		exprType(linitial(values));
	int			nelems = 0;
	Datum	   *elems = palloc(list_length(values) * sizeof(Datum));
	bool	   *nulls = palloc(list_length(values) * sizeof(bool));
	int			bounds[1] = {1};
	ArrayExpr  *array = makeNode(ArrayExpr);
	ArrayType  *constant;
	ListCell   *lc;
	int16		typlen;
	bool		typbyval;
	char		typalign;

	foreach(lc, values)
	{
		Const	   *value = lfirst(lc);

		if (IsA(value, Const))
		{
			elems[nelems] = value->constvalue;
			nulls[nelems++] = value->constisnull;
		}
	}
	if (nelems < list_length(values))
	{
		array->elements = values;
		array->array_typeid = get_array_type(type);
		array->element_typeid = type;
		array->location = -1;
		return &array->xpr;
	}

	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	constant = construct_md_array(elems, nulls, 1, &nelems, bounds, type, typlen, typbyval,
								  typalign);
	return (Expr *) makeConst(get_array_type(type), -1, InvalidOid, -1,
							  PointerGetDatum(constant), false, false);
}

/*
 * Represent conditions, all of which must hold, as a key plan; *condition becomes its condition
 */
List *
GjMakeKeyPlan(List *conditions, const IndexOptInfo *index, Expr **condition)
{
	List	   *lists[GJ_KEY_PLAN_COUNT] = {NIL};
	List	   *key_plan = NIL;
	GjKeyNode	all = {.step = GJ_STEP_AND};
	ListCell   *lc;

	foreach(lc, conditions)
		all.operands = lappend(all.operands, ((GjKeyCondition *) lfirst(lc))->node);

	*condition = add_step(list_length(conditions) == 1 ? linitial(all.operands) : &all,
						  linitial_node(TargetEntry, index->indextlist)->expr,
						  &lists[GJ_KEY_PLAN_STEPS]);
	lists[GJ_KEY_PLAN_CODEC] = list_make3_oid(index->opfamily[0], index->indexcollations[0],
											  GjIndexRestProc(index));
	foreach(lc, conditions)
	{
		const GjTuples *tuples = ((GjKeyCondition *) lfirst(lc))->tuples;

		if (tuples == NULL)
			continue;
		lists[GJ_KEY_PLAN_PART_OPERATORS] = tuples->operators;
		lists[GJ_KEY_PLAN_PART_COLLATIONS] = tuples->collations;
	}

	for (int i = 0; i < GJ_KEY_PLAN_COUNT; i++)
		key_plan = lappend(key_plan, lists[i]);
	return key_plan;
}

/*
 * Add the steps of a node, and return the condition that they belong to
 */
static Expr *
add_step(GjKeyNode *node, Expr *key, List **steps)
{
	const GjSource *source = &node->source;
	List	   *operands = NIL;
	ListCell   *lc;

	*steps = lappend_int(*steps, node->step);
	if (node->step == GJ_STEP_SOURCE)
	{
		*steps = lappend_int(lappend_int(*steps, source->kind), source->conversion);
		*steps = lappend_int(lappend_int(*steps, source->value_type), source->opno);
		return GjSourceClause(source, key);
	}
	foreach(lc, node->operands)
		operands = lappend(operands, add_step(lfirst(lc), key, steps));
	return makeBoolExpr(node->step == GJ_STEP_AND ? AND_EXPR : OR_EXPR, operands, -1);
}

/*
 * Return the condition that is a source of an index with this key
 */
Expr *
GjSourceClause(const GjSource *source, Expr *key)
{
	Expr	   *value = source->value;
	Expr	   *test;

	key = cast_key(key, source->cast);
	switch (source->kind)
	{
		case GJ_SOURCE_ARRAY:
		case GJ_SOURCE_NOT_ARRAY:
			return make_any(source->opno, key, value, source->kind == GJ_SOURCE_ARRAY);
		case GJ_SOURCE_TUPLES:
		case GJ_SOURCE_PRODUCT:
			return tuples_clause(source, key);
		case GJ_SOURCE_NOT_NULL:
			return make_null_test(key, IS_NOT_NULL);
		case GJ_SOURCE_NULL:
		case GJ_SOURCE_NULL_IN_ARRAY:
			test = make_null_test(key, IS_NULL);
			return value == NULL ? test : makeBoolExpr(AND_EXPR, list_make2(test, value), -1);
		default:
			return make_opclause(source->opno, BOOLOID, false, key, value, InvalidOid, InvalidOid);
	}
}

static Expr *
tuples_clause(const GjSource *source, Expr *key)
{
	const GjTuples *tuples = source->tuples;
	int			key_parts = tuples->key_is_part ? 1 : 0;
	List	   *arrays = list_copy_tail(tuples->arrays, key_parts);
	List	   *columns = list_make1(key);
	List	   *clauses = list_make1(make_any(source->opno, key, source->value, true));
	RowExpr    *row;

	for (int i = key_parts; i < list_length(tuples->columns); i++)
	{
		columns = lappend(columns, GjStripRelabel(list_nth(tuples->columns, i)));
		clauses = lappend(clauses, make_any(list_nth_oid(tuples->operators, i), llast(columns),
											list_nth(arrays, i - key_parts), true));
	}
	if (source->kind == GJ_SOURCE_PRODUCT)
		return makeBoolExpr(AND_EXPR, clauses, -1);

	row = makeNode(RowExpr);
	row->args = columns;
	row->row_typeid = RECORDOID;
	row->row_format = COERCE_IMPLICIT_CAST;
	row->location = -1;
	return make_any(RECORD_EQ_OP, &row->xpr,
					(Expr *) makeFuncExpr(F_UNNEST_ANYARRAY, RECORDARRAYOID,
										  lcons(source->value, arrays), InvalidOid, InvalidOid,
										  COERCE_EXPLICIT_CALL), true);
}

/*
 * Make left = ANY (array), or left <> ALL (array)
 */
static Expr *
make_any(Oid opno, Expr *left, Expr *array, bool is_any)
{
	ScalarArrayOpExpr *any = makeNode(ScalarArrayOpExpr);

	any->opno = opno;
	any->opfuncid = get_opcode(opno);
	any->useOr = is_any;
	any->args = list_make2(left, array);
	any->location = -1;
	return &any->xpr;
}

static Expr *
make_null_test(Expr *arg, NullTestType type)
{
	NullTest   *test = makeNode(NullTest);

	test->arg = arg;
	test->nulltesttype = type;
	test->location = -1;
	return &test->xpr;
}

/*
 * Cast a key by a function, or as text by its output function
 */
static Expr *
cast_key(Expr *key, Oid cast)
{
	CoerceViaIO *coerce;

	if (!OidIsValid(cast))
		return key;
	if (get_func_rettype(cast) != CSTRINGOID)
		return (Expr *) makeFuncExpr(cast, get_func_rettype(cast), list_make1(key), InvalidOid,
									 InvalidOid, COERCE_EXPLICIT_CAST);
	coerce = makeNode(CoerceViaIO);
	coerce->arg = key;
	coerce->resulttype = TEXTOID;
	coerce->coerceformat = COERCE_EXPLICIT_CAST;
	coerce->location = -1;
	return &coerce->xpr;
}
