/*-------------------------------------------------------------------------
 *
 * foldtree.c
 *	  The tree that clauses are folded into (fold.c), and how it is written
 *	  into a plan.
 *
 * Tools write chains of hundreds of "key = value".  Operands of an OR that differ in
 * the value only become one array here, so that the plan is short and all of them
 * are evaluated and converted in one go.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

#include "planner.h"

static GjKeyNode *make_node(GjKeyStep step, List *operands);
static List *merge_values(List *operands);
static bool has_same_comparison(const GjKeyNode *a, const GjKeyNode *b);
static GjKeyNode *make_array_source(List *nodes);
static Expr *make_array(Oid type, List *nodes);
static void add_step(GjKeyNode *node, List **lists, List **values);

/*
 * Make a leaf
 */
GjKeyNode *
GjMakeSource(const GjSource *source)
{
	GjKeyNode  *node = palloc0(sizeof(GjKeyNode));

	node->step = GJ_STEP_SOURCE;
	node->source = *source;
	return node;
}

static GjKeyNode *
make_node(GjKeyStep step, List *operands)
{
	GjKeyNode  *node;

	if (list_length(operands) == 1)
		return linitial(operands);

	node = palloc0(sizeof(GjKeyNode));
	node->step = step;
	node->operands = operands;
	return node;
}

GjKeyNode *
GjMakeAnd(List *operands)
{
	return make_node(GJ_STEP_AND, operands);
}

GjKeyNode *
GjMakeOr(List *operands)
{
	return make_node(GJ_STEP_OR, merge_values(operands));
}

/*
 * Of an OR's operands, make those that are "key = value" by the same operator one
 * array
 */
static List *
merge_values(List *operands)
{
	GjKeyNode  *first = NULL;
	List	   *values = NIL;
	List	   *others = NIL;
	ListCell   *lc;

	foreach(lc, operands)
	{
		GjKeyNode  *node = lfirst(lc);

		if (node->step == GJ_STEP_SOURCE && node->source.kind == GJ_SOURCE_VALUE &&
			(first == NULL || has_same_comparison(node, first)))
		{
			first = first ? first : node;
			values = lappend(values, node);
		}
		else
			others = lappend(others, node);
	}
	if (list_length(values) < 2)
		return operands;
	return lcons(make_array_source(values), others);
}

static bool
has_same_comparison(const GjKeyNode *a, const GjKeyNode *b)
{
	return a->source.opno == b->source.opno && a->source.cast == b->source.cast;
}

static GjKeyNode *
make_array_source(List *nodes)
{
	GjKeyNode  *first = linitial(nodes);
	GjSource	source = first->source;

	source.kind = GJ_SOURCE_ARRAY;
	source.value = make_array(source.value_type, nodes);
	return GjMakeSource(&source);
}

/*
 * Make an array of the sources' values, a constant if they all are
 */
static Expr *
make_array(Oid type, List *nodes)
{
	int			nelems = 0;
	Datum	   *elems = palloc(list_length(nodes) * sizeof(Datum));
	bool	   *nulls = palloc(list_length(nodes) * sizeof(bool));
	int			bounds[1] = {1};
	ArrayExpr  *array = makeNode(ArrayExpr);
	ArrayType  *constant;
	ListCell   *lc;
	int16		typlen;
	bool		typbyval;
	char		typalign;

	foreach(lc, nodes)
	{
		GjKeyNode  *node = lfirst(lc);
		Const	   *value = (Const *) node->source.value;

		array->elements = lappend(array->elements, value);
		if (IsA(value, Const))
		{
			elems[nelems] = value->constvalue;
			nulls[nelems++] = value->constisnull;
		}
	}
	if (nelems < list_length(nodes))
	{
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
 * Write conditions, all of which are to hold, as a key plan; their values go to *values
 */
List *
GjMakeKeyPlan(List *conditions, List **values)
{
	List	   *lists[GJ_KEY_PLAN_COUNT] = {NIL};
	List	   *key_plan = NIL;
	List	   *nodes = NIL;
	ListCell   *lc;

	foreach(lc, conditions)
		nodes = lappend(nodes, ((GjKeyCondition *) lfirst(lc))->node);

	*values = NIL;
	add_step(GjMakeAnd(nodes), lists, values);

	for (int i = 0; i < GJ_KEY_PLAN_COUNT; i++)
		key_plan = lappend(key_plan, lists[i]);
	return key_plan;
}

static void
add_step(GjKeyNode *node, List **lists, List **values)
{
	const GjSource *source = &node->source;
	ListCell   *lc;

	lists[GJ_KEY_PLAN_STEPS] = lappend_int(lists[GJ_KEY_PLAN_STEPS], node->step);
	if (node->step != GJ_STEP_SOURCE)
	{
		lists[GJ_KEY_PLAN_STEPS] = lappend_int(lists[GJ_KEY_PLAN_STEPS],
											   list_length(node->operands));
		foreach(lc, node->operands)
			add_step(lfirst(lc), lists, values);
		return;
	}

	lists[GJ_KEY_PLAN_KINDS] = lappend_int(lists[GJ_KEY_PLAN_KINDS], source->kind);
	lists[GJ_KEY_PLAN_CONVERSIONS] = lappend_int(lists[GJ_KEY_PLAN_CONVERSIONS],
												 source->conversion);
	lists[GJ_KEY_PLAN_PROCS] = lappend_oid(lists[GJ_KEY_PLAN_PROCS], source->key_proc);
	lists[GJ_KEY_PLAN_OPERATORS] = lappend_oid(lists[GJ_KEY_PLAN_OPERATORS], source->opno);
	lists[GJ_KEY_PLAN_CASTS] = lappend_oid(lists[GJ_KEY_PLAN_CASTS], source->cast);
	*values = lappend(*values, source->value);
}
