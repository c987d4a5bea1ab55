/*-------------------------------------------------------------------------
 *
 * keyshare.c
 *	  How many keys the conditions of a scan have, and which share of the rows.
 *
 * We use PostgreSQL's own estimate of the clauses where it is meaningful: it considers the most
 * common values, and has been computed already.  It is not meaningful if the clause casts the key
 * (no statistics), if only a part of the clause is a condition on the key, and for an array whose
 * length is not known before execution, for which PostgreSQL assumes 10 elements.  Then we treat
 * each key as an average one:
 *
 *	  share of a key	= (1 - null fraction) / distinct values
 *	  union				= the sum, at most all
 *	  intersection		= the smallest
 *
 * An array of unknown length is assumed to have gpujoin.assumed_keys elements, but at most a tenth
 * of the distinct values: few queries want all of a column that has few values.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "base/compat.h"
#include "base/settings.h"
#include "planner.h"

/* Fraction of a column's values that an array of unknown length is assumed to have */
#define ASSUMED_SHARE			0.1

/* Statistics of the key */
typedef struct KeyStatistics
{
	double		share;			/* fraction of the rows that an average key has */
	double		not_null;		/* fraction of the rows that have a key */
	double		assumed_keys;	/* assumed length of arrays of unknown length */
	Expr	   *column;			/* the indexed column or expression */
} KeyStatistics;

static bool wants_nulls(const GjKeyNode *node);
static bool estimate_is_ours(GjKeyNode *node);
static bool array_is_unknown(Node *array);
static void get_key_statistics(PlannerInfo *root, IndexOptInfo *index, KeyStatistics *key);
static double path_count_keys(PlannerInfo *root, GjKeyNode *node, const KeyStatistics *key);
static double count_source_keys(PlannerInfo *root, const GjSource *source,
								const KeyStatistics *key);
static Selectivity estimate_node(PlannerInfo *root, GjKeyNode *node, const KeyStatistics *key);
static Selectivity estimate_source(PlannerInfo *root, const GjSource *source,
								   const KeyStatistics *key);

/*
 * Estimate the fraction of the table's rows that satisfy all conditions, that of the rows with a
 * NULL key among them, and the number of keys
 */
Selectivity
GjEstimateConditions(PlannerInfo *root, IndexOptInfo *index, List *conditions, double *nkeys,
					 Selectivity *nulls)
{
	KeyStatistics key;
	List	   *rinfos = NIL;
	Selectivity ours = 1.0;
	ListCell   *lc;

	get_key_statistics(root, index, &key);

	*nkeys = 0;
	*nulls = 1.0 - key.not_null;
	foreach(lc, conditions)
	{
		GjKeyCondition *condition = lfirst(lc);

		if (!wants_nulls(condition->node))
			*nulls = 0.0;
		*nkeys += path_count_keys(root, condition->node, &key);
		if (!condition->exact || estimate_is_ours(condition->node))
			ours = Min(ours, estimate_node(root, condition->node, &key));
		else
			rinfos = lappend(rinfos, condition->rinfo);
	}
	if (rinfos == NIL)
		return ours;
	return Min(ours, clauselist_selectivity(root, rinfos, 0, JOIN_INNER, NULL));
}

/*
 * Return true if rows with a NULL key are expected to satisfy a condition (see estimate_source())
 */
static bool
wants_nulls(const GjKeyNode *node)
{
	bool		all = node->step == GJ_STEP_AND;
	ListCell   *lc;

	if (node->step == GJ_STEP_SOURCE)
		return node->source.kind == GJ_SOURCE_NULL && node->source.value == NULL;

	foreach(lc, node->operands)
	{
		if (wants_nulls(lfirst(lc)) != all)
			return !all;
	}
	return all;
}

/*
 * Return true if a condition contains parts that PostgreSQL can only guess
 */
static bool
estimate_is_ours(GjKeyNode *node)
{
	ListCell   *lc;

	if (node->step == GJ_STEP_SOURCE)
		return (OidIsValid(node->source.cast) && !GjSourceIsRange(node->source.kind)) ||
			node->source.kind == GJ_SOURCE_NOT_NULL || node->source.tuples != NULL ||
			GjSourceIsUnknown(&node->source);

	foreach(lc, node->operands)
	{
		if (estimate_is_ours(lfirst(lc)))
			return true;
	}
	return false;
}

/*
 * Return true if a source is an array whose length is known only at execution
 */
bool
GjSourceIsUnknown(const GjSource *source)
{
	return (source->kind == GJ_SOURCE_ARRAY || source->kind == GJ_SOURCE_NOT_ARRAY) &&
		array_is_unknown((Node *) source->value);
}

static bool
array_is_unknown(Node *array)
{
	while (IsA(array, ArrayCoerceExpr))
		array = (Node *) ((ArrayCoerceExpr *) array)->arg;
	return !IsA(array, Const) &&
		!(IsA(array, ArrayExpr) && !((ArrayExpr *) array)->multidims);
}

static void
get_key_statistics(PlannerInfo *root, IndexOptInfo *index, KeyStatistics *key)
{
	TargetEntry *column = linitial_node(TargetEntry, index->indextlist);
	VariableStatData variable;
	double		ndistinct;
	bool		isdefault;

	examine_variable(root, (Node *) column->expr, 0, &variable);
	ndistinct = get_variable_numdistinct(&variable, &isdefault);
	key->not_null = 1.0;
	if (HeapTupleIsValid(variable.statsTuple))
		key->not_null -= ((Form_pg_statistic) GETSTRUCT(variable.statsTuple))->stanullfrac;
	ReleaseVariableStats(variable);

	key->column = column->expr;
	key->share = key->not_null / Max(ndistinct, 1.0);
	key->assumed_keys = GjAssumedKeys(ndistinct);
}

/*
 * Return the fraction of the rows that an average key has
 */
Selectivity
GjKeyShare(PlannerInfo *root, IndexOptInfo *index)
{
	KeyStatistics key;

	get_key_statistics(root, index, &key);
	return key.share;
}

/*
 * Return the assumed length of an array of unknown length, given the number of distinct values of
 * the column
 */
double
GjAssumedKeys(double ndistinct)
{
	return Min(gj_assumed_keys, Max(ndistinct * ASSUMED_SHARE, GJ_FEWEST_ASSUMED_KEYS));
}

static double
path_count_keys(PlannerInfo *root, GjKeyNode *node, const KeyStatistics *key)
{
	double		nkeys = 0;
	ListCell   *lc;

	if (node->step == GJ_STEP_SOURCE)
		return count_source_keys(root, &node->source, key);

	foreach(lc, node->operands)
		nkeys += path_count_keys(root, lfirst(lc), key);
	return nkeys;
}

static double
count_source_keys(PlannerInfo *root, const GjSource *source, const KeyStatistics *key)
{
	if (source->tuples != NULL && source->tuples->nkeys > 0.0)
		return source->tuples->nkeys;
	if (source->tuples != NULL && array_is_unknown((Node *) source->value))
		return key->assumed_keys;
	if (GjSourceIsUnknown(source))
		return key->assumed_keys;
	if (source->tuples != NULL || source->kind == GJ_SOURCE_ARRAY ||
		source->kind == GJ_SOURCE_NOT_ARRAY)
		return GjEstimateArrayLength(root, (Node *) source->value);
	return 1.0;
}

static Selectivity
estimate_node(PlannerInfo *root, GjKeyNode *node, const KeyStatistics *key)
{
	Selectivity sum = 0.0;
	Selectivity smallest = 1.0;
	List	   *ranges = NIL;
	ListCell   *lc;

	if (node->step == GJ_STEP_SOURCE)
		return estimate_source(root, &node->source, key);

	foreach(lc, node->operands)
	{
		GjKeyNode  *operand = lfirst(lc);
		Selectivity share;

		if (node->step == GJ_STEP_AND && GjSourceIsRange(operand->source.kind))
		{
			ranges = lappend(ranges, GjSourceClause(&operand->source, key->column));
			continue;
		}
		share = estimate_node(root, operand, key);
		sum += share;
		smallest = Min(smallest, share);
	}
	if (ranges != NIL)
		smallest = Min(smallest, clauselist_selectivity(root, ranges, 0, JOIN_INNER, NULL));
	return node->step == GJ_STEP_AND ? smallest : Min(sum, 1.0);
}

/*
 * Estimate one source.  If a condition decides whether rows with a NULL key are wanted, they are
 * assumed not to be, as they nearly always are not.
 */
static Selectivity
estimate_source(PlannerInfo *root, const GjSource *source, const KeyStatistics *key)
{
	Selectivity listed = Min(count_source_keys(root, source, key) * key->share, key->not_null);

	switch (source->kind)
	{
		case GJ_SOURCE_VALUE:
		case GJ_SOURCE_ARRAY:
		case GJ_SOURCE_TUPLES:
		case GJ_SOURCE_PRODUCT:
			return listed;
		case GJ_SOURCE_NOT_VALUE:
		case GJ_SOURCE_NOT_ARRAY:
			return key->not_null - listed;
		case GJ_SOURCE_NOT_NULL:
			return key->not_null;
		case GJ_SOURCE_NULL:
			return source->value == NULL ? 1.0 - key->not_null : 0.0;
		case GJ_SOURCE_NULL_IN_ARRAY:
			return 0.0;
		case GJ_SOURCE_BELOW:
		case GJ_SOURCE_AT_MOST:
		case GJ_SOURCE_AT_LEAST:
		case GJ_SOURCE_ABOVE:
			/* of a part of a condition, PostgreSQL has no estimate yet */
			return clause_selectivity(root, (Node *) GjSourceClause(source, key->column), 0,
									  JOIN_INNER, NULL);
	}
	return 1.0;
}
