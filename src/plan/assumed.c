/*-------------------------------------------------------------------------
 *
 * assumed.c
 *	  Values for arrays whose length is not known: gpujoin_advise() and
 *	  gpujoin_explain_choice() plan "key = ANY ($1)" with them.
 *
 * For such an array PostgreSQL assumes ten elements and we assume gpujoin.assumed_keys.  Costs
 * that rest on different numbers cannot be compared, and what most clients send is planned with
 * its values anyway.  So the parameter gets an array of as many keys as we assume, and all plans,
 * PostgreSQL's own included, are costed for that.
 *
 * Selectivity functions look at the values.  They are taken from the column's statistics: of the
 * most common values as large a share as these have among all distinct values, the rest from the
 * histogram.  So a key matches as many rows as an average one, and partitions are pruned as they
 * would be.  Where the user must not see these values, as behind a view, or without statistics,
 * small integers are used.
 *
 * An array that only unnest() gets needs no values but a length.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parsetree.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/selfuncs.h"

#include "advise.h"
#include "base/compat.h"
#include "base/gpujoin.h"
#include "planner.h"

/* More values take the planner seconds; a larger array is costed for this number */
#define MOST_VALUES		100000

/* As many parameters as a client can send */
#define MOST_PARAMS		PG_UINT16_MAX

/* Where an array's values are from; the last is the best */
typedef enum Origin
{
	FROM_NOWHERE,				/* it has none, but a length */
	FROM_COLUMN,				/* a column without statistics */
	FROM_PARTITION,				/* or one of a partition or child */
	FROM_TABLE
} Origin;

/* A parameter that is an array of unknown length */
typedef struct Array
{
	int			param;
	Oid			type;
	Oid			element;
	Origin		origin;
	int			nvalues;
	Datum		value;
} Array;

/* A column's values that ANALYZE has kept */
typedef struct KnownValues
{
	AttStatsSlot common;
	AttStatsSlot histogram;
	int			ncommon;		/* of the array's values, those from the first */
} KnownValues;

/* The arrays of a query that is being planned for them, and where they are kept */
static const GjTrial *noting = NULL;
static MemoryContext arrays_context = NULL;
static List *arrays = NIL;

static PlannedStmt *note_arrays(GjTrial *trial);
static Node *put_params(Node *node, void *params);
static bool find_unnest(Node *node, void *ignored);
static bool find_comparison(Node *node, void *root);
static Param *get_param(Node *array);
static Array *add_array(const Param *param);
static void take_values(PlannerInfo *root, Var *column, Array *array);
static bool may_see_values(PlannerInfo *root, const VariableStatData *variable);
static double count_distinct(PlannerInfo *root, VariableStatData *variable);
static bool make_values(VariableStatData *variable, double ndistinct, Oid type, Oid element,
						int nvalues, Datum *values);
static Datum known_value(const KnownValues *known, int i, int nvalues);
static bool convert(Datum value, Oid from, Oid to, Datum *result);
static bool make_integer(int64 value, Oid type, Datum *result);
static bool get_integer(Datum value, Oid type, int64 *result);
static Datum make_array(const Datum *values, bool *nulls, int nvalues, Oid element);
static ParamListInfo make_params(void);

/*
 * Make a trial of a query, with nothing known of its parameters
 */
GjTrial *
GjTrialMake(const Query *query, const char *text)
{
	GjTrial    *trial = palloc(sizeof(GjTrial));

	trial->query = query;
	trial->text = text;
	trial->params = makeParamList(0);
	return trial;
}

/*
 * Give values to the parameters that are arrays of unknown length, and return what the query then
 * costs as it is.  An error if the user may not run it.
 */
Cost
GjTrialStart(GjTrial *trial)
{
	PlannedStmt *plan = note_arrays(trial);

	GjCheckMayRead(plan);
	return trial->params->numParams == 0 ? plan->planTree->total_cost : GjNewIndexCost(trial, NIL);
}

/*
 * Plan a query, as it is and with nothing known of its parameters, and give values to those that
 * are arrays of unknown length
 *
 * This may be called by a function that the planner evaluates for another trial: the arrays of that
 * one are kept meanwhile.
 */
static PlannedStmt *
note_arrays(GjTrial *trial)
{
	const GjTrial *old_noting = noting;
	MemoryContext old_context = arrays_context;
	List	   *old_arrays = arrays;
	PlannedStmt *plan;

	PG_TRY();
	{
		noting = trial;
		arrays_context = CurrentMemoryContext;
		arrays = NIL;
		(void) query_tree_walker(unconstify(Query *, trial->query), find_unnest, NULL, 0);
		plan = GjNewIndexPlan(trial, NIL);
		trial->params = make_params();
	}
	PG_FINALLY();
	{
		noting = old_noting;
		arrays_context = old_context;
		arrays = old_arrays;
	}
	PG_END_TRY();
	return plan;
}

/*
 * Say which parameters have values, and how many; NULL if none has
 */
const char *
GjAssumedText(const GjTrial *trial)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < trial->params->numParams; i++)
	{
		const ParamExternData *param = &trial->params->params[i];

		if (OidIsValid(param->ptype))
		{
			ArrayType  *array = DatumGetArrayTypeP(param->value);

			appendStringInfo(&text, text.len == 0 ? "with %d keys in $%d" : ", %d in $%d",
							 ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)), i + 1);
		}
	}
	return text.len == 0 ? NULL : text.data;
}

/*
 * Put the parameters into the place of their values, if the query is planned with assumed ones
 */
Node *
GjAssumedHide(PlannerInfo *root, Node *expr)
{
	return GjNewIndexPlansWithout(root) ? put_params(expr, root->glob->boundParams) : expr;
}

static Node *
put_params(Node *node, void *params)
{
	const ParamListInfo list = params;

	if (node == NULL)
		return NULL;
	for (int i = 0; IsA(node, Const) && i < list->numParams; i++)
	{
		const Const *value = (const Const *) node;
		Param	   *param;

		if (value->constisnull || list->params[i].ptype != value->consttype ||
			!datumIsEqual(value->constvalue, list->params[i].value, false, -1))
			continue;
		param = makeNode(Param);
		param->paramkind = PARAM_EXTERN;
		param->paramid = i + 1;
		param->paramtype = value->consttype;
		param->paramtypmod = value->consttypmod;
		param->paramcollid = value->constcollid;
		param->location = -1;
		return (Node *) param;
	}
	return expression_tree_mutator(node, put_params, params);
}

/*
 * Note the arrays with which a table's columns are compared, if they are wanted
 */
void
GjAssumeNoteTable(PlannerInfo *root, RelOptInfo *rel)
{
	MemoryContext old;
	ListCell   *lc;

	if (noting == NULL || root->glob->boundParams != noting->params ||
		rel->rtekind != RTE_RELATION)
		return;

	old = MemoryContextSwitchTo(arrays_context);
	foreach(lc, rel->baserestrictinfo)
		(void) find_comparison((Node *) lfirst_node(RestrictInfo, lc)->clause, root);
	foreach(lc, rel->joininfo)
		(void) find_comparison((Node *) lfirst_node(RestrictInfo, lc)->clause, root);
	MemoryContextSwitchTo(old);
}

static bool
find_unnest(Node *node, void *ignored)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, find_unnest, ignored, 0);
	if (IsA(node, FuncExpr) && ((FuncExpr *) node)->funcid == F_UNNEST_ANYARRAY)
	{
		Param	   *param = get_param(linitial(((FuncExpr *) node)->args));

		if (param != NULL)
		{
			Array	   *array = add_array(param);
			int			nvalues = Min(gj_assumed_keys, MOST_VALUES);
			bool	   *nulls = palloc(sizeof(bool) * nvalues);

			memset(nulls, true, sizeof(bool) * nvalues);
			array->nvalues = nvalues;
			array->value = make_array(palloc0(sizeof(Datum) * nvalues), nulls, nvalues,
									  array->element);
		}
	}
	return expression_tree_walker(node, find_unnest, ignored);
}

/*
 * Find column = ANY (parameter) and column <> ALL (parameter) in a clause
 */
static bool
find_comparison(Node *node, void *root)
{
	if (node == NULL)
		return false;
	if (IsA(node, ScalarArrayOpExpr))
	{
		ScalarArrayOpExpr *expr = (ScalarArrayOpExpr *) node;
		Node	   *column = strip_implicit_coercions(linitial(expr->args));
		Param	   *param = get_param(lsecond(expr->args));

		if (param != NULL && IsA(column, Var) && ((Var *) column)->varlevelsup == 0)
			take_values(root, (Var *) column, add_array(param));
	}
	return expression_tree_walker(node, find_comparison, root);
}

/*
 * Return an array as a parameter, or NULL if it is something else
 */
static Param *
get_param(Node *array)
{
	Param	   *param;

	while (IsA(array, ArrayCoerceExpr) || IsA(array, RelabelType))
		array = IsA(array, RelabelType) ? (Node *) ((RelabelType *) array)->arg :
			(Node *) ((ArrayCoerceExpr *) array)->arg;
	param = (Param *) array;
	return IsA(param, Param) && param->paramkind == PARAM_EXTERN && param->paramid > 0 &&
		param->paramid <= MOST_PARAMS &&
		OidIsValid(get_element_type(param->paramtype)) ? param : NULL;
}

static Array *
add_array(const Param *param)
{
	Array	   *array;
	ListCell   *lc;

	foreach(lc, arrays)
	{
		array = lfirst(lc);
		if (array->param == param->paramid)
			return array;
	}
	array = palloc0(sizeof(Array));
	array->param = param->paramid;
	array->type = param->paramtype;
	array->element = get_element_type(param->paramtype);
	arrays = lappend(arrays, array);
	return array;
}

/*
 * Give an array values of a column, if it has none that are better
 *
 * Often a partitioned table has no statistics, but its partitions do: then the one decides for
 * which most keys are assumed.
 */
static void
take_values(PlannerInfo *root, Var *column, Array *array)
{
	VariableStatData variable;
	Origin		origin;
	double		ndistinct;
	int			nvalues;
	Datum	   *values;

	examine_variable(root, (Node *) column, 0, &variable);
	variable.acl_ok = variable.acl_ok && may_see_values(root, &variable);
	ndistinct = count_distinct(root, &variable);
	nvalues = (int) Min(GjAssumedKeys(ndistinct), MOST_VALUES);
	values = palloc0(sizeof(Datum) * nvalues);
	origin = !HeapTupleIsValid(variable.statsTuple) ? FROM_COLUMN :
		IS_OTHER_REL(variable.rel) ? FROM_PARTITION : FROM_TABLE;
	if ((origin > array->origin ||
		 (origin == FROM_PARTITION && origin == array->origin && nvalues > array->nvalues)) &&
		make_values(&variable, ndistinct, column->vartype, array->element, nvalues, values))
	{
		array->origin = origin;
		array->nvalues = nvalues;
		array->value = make_array(values, NULL, nvalues, array->element);
	}
	ReleaseVariableStats(variable);
}

/*
 * Return true if nothing but the user's own rights lets the planner use the values in a column's
 * statistics
 *
 * A selectivity function keeps them to itself, and so the planner may use what the owner of a view
 * may read.  A parameter's value can be passed to any function in the query.
 */
static bool
may_see_values(PlannerInfo *root, const VariableStatData *variable)
{
	const RelOptInfo *rel = variable->rel;

	return rel != NULL && planner_rt_fetch(rel->relid, root)->rtekind == RTE_RELATION &&
		(!OidIsValid(rel->userid) || rel->userid == GetUserId());
}

/*
 * Return the number of a column's distinct values
 *
 * If that is known as a share of the rows, add up those of all partitions: for the planner, a
 * partitioned table has only the rows that pass the conditions.
 */
static double
count_distinct(PlannerInfo *root, VariableStatData *variable)
{
	RelOptInfo *rel = variable->rel;
	double		tuples = 0.0;
	bool		isdefault;
	double		share;

	share = HeapTupleIsValid(variable->statsTuple) ?
		-((Form_pg_statistic) GETSTRUCT(variable->statsTuple))->stadistinct : 0.0;
	if (share <= 0.0 || !planner_rt_fetch(rel->relid, root)->inh)
		return get_variable_numdistinct(variable, &isdefault);
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *child = root->simple_rel_array[i];

		if (child != NULL && IS_OTHER_REL(child) && !planner_rt_fetch(i, root)->inh &&
			bms_is_member(rel->relid, child->top_parent_relids))
			tuples += child->tuples;
	}
	return clamp_row_est(share * tuples);
}

/*
 * Make values of the array's type, from those that are known of the column if that can be; false:
 * there are no values of this type that would do
 */
static bool
make_values(VariableStatData *variable, double ndistinct, Oid type, Oid element, int nvalues,
			Datum *values)
{
	KnownValues known = {0};
	bool		readable = HeapTupleIsValid(variable->statsTuple) && variable->acl_ok;
	bool		made = true;

	if (readable)
	{
		(void) get_attstatsslot(&known.common, variable->statsTuple, STATISTIC_KIND_MCV,
								InvalidOid, ATTSTATSSLOT_VALUES);
		(void) get_attstatsslot(&known.histogram, variable->statsTuple,
								STATISTIC_KIND_HISTOGRAM, InvalidOid, ATTSTATSSLOT_VALUES);
	}
	known.ncommon = known.histogram.nvalues == 0 ? nvalues :
		(int) Min(nvalues, rint(nvalues * known.common.nvalues / Max(ndistinct, 1.0)));
	for (int i = 0; made && i < nvalues; i++)
	{
		bool		is_known = known.common.nvalues + known.histogram.nvalues > 0 &&
			convert(known_value(&known, i, nvalues), type, element, &values[i]);

		made = is_known || make_integer(i + 1, element, &values[i]);
	}
	return made;
}

/*
 * Return one of the values that are known, evenly from all of a kind
 */
static Datum
known_value(const KnownValues *known, int i, int nvalues)
{
	const AttStatsSlot *slot = i < known->ncommon ? &known->common : &known->histogram;
	int			first = i < known->ncommon ? 0 : known->ncommon;
	int			wanted = i < known->ncommon ? known->ncommon : nvalues - known->ncommon;

	return slot->values[(int64) (i - first) * slot->nvalues / wanted];
}

/*
 * Convert a value; false: it cannot be done without the risk of an error
 */
static bool
convert(Datum value, Oid from, Oid to, Datum *result)
{
	int64		integer;

	*result = value;
	if (from == to || IsBinaryCoercible(from, to))
		return true;
	return get_integer(value, from, &integer) && make_integer(integer, to, result);
}

/*
 * Make a value of a type that is an integer; false: it is none, or the value is too large for it
 */
static bool
make_integer(int64 value, Oid type, Datum *result)
{
	switch (type)
	{
		case INT2OID:
			*result = Int16GetDatum((int16) value);
			return value >= PG_INT16_MIN && value <= PG_INT16_MAX;
		case INT4OID:
		case DATEOID:
			*result = Int32GetDatum((int32) value);
			return value >= PG_INT32_MIN && value <= PG_INT32_MAX;
		case OIDOID:
			*result = ObjectIdGetDatum((Oid) value);
			return value >= 0 && value <= PG_UINT32_MAX;
		case INT8OID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			*result = Int64GetDatum(value);
			return true;
		default:
			return false;
	}
}

static bool
get_integer(Datum value, Oid type, int64 *result)
{
	switch (type)
	{
		case INT2OID:
			*result = DatumGetInt16(value);
			return true;
		case INT4OID:
			*result = DatumGetInt32(value);
			return true;
		case OIDOID:
			*result = DatumGetObjectId(value);
			return true;
		case INT8OID:
			*result = DatumGetInt64(value);
			return true;
		default:
			return false;
	}
}

static Datum
make_array(const Datum *values, bool *nulls, int nvalues, Oid element)
{
	int			dims[1] = {nvalues};
	int			bounds[1] = {1};
	int16		length;
	bool		by_value;
	char		align;

	get_typlenbyvalalign(element, &length, &by_value, &align);
	return PointerGetDatum(construct_md_array(unconstify(Datum *, values), nulls, 1, dims, bounds,
											  element, length, by_value, align));
}

/*
 * List all parameters; those that have values are taken for constants
 */
static ParamListInfo
make_params(void)
{
	ParamListInfo params;
	int			n = 0;
	ListCell   *lc;

	foreach(lc, arrays)
	{
		const Array *array = lfirst(lc);

		if (array->nvalues > 0)
			n = Max(n, array->param);
	}
	params = makeParamList(n);
	memset(params->params, 0, sizeof(ParamExternData) * n);
	foreach(lc, arrays)
	{
		const Array *array = lfirst(lc);
		ParamExternData *param;

		if (array->nvalues == 0)
			continue;
		param = &params->params[array->param - 1];
		param->value = array->value;
		param->isnull = false;
		param->pflags = PARAM_FLAG_CONST;
		param->ptype = array->type;
	}
	return params;
}
