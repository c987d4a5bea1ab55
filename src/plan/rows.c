/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  How many keys the conditions of a scan bring, and what share of the rows they
 *	  take.
 *
 * PostgreSQL's own estimate of the clauses is used wherever it means something: it
 * knows the common values one by one, and is there already.  It does not where the
 * clause casts the key (no statistics), where only a part of the clause is a condition
 * on the key, and for an array whose length is not known before the execution, for
 * which PostgreSQL assumes 10 elements.  Then each key is taken for an average one:
 *
 *	  share of a key	= (1 - null fraction) / distinct values
 *	  union				= the sum, at most all
 *	  intersection		= the smallest
 *
 * An array of unknown length is assumed to have gpujoin.assumed_keys elements, but to
 * ask for no more than a tenth of the distinct values: few queries want all of a
 * column that has few.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_statistic.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "planner.h"

/* PostgreSQL's assumption, and ours for columns with few values */
#define FEWEST_ASSUMED_KEYS		10.0
#define ASSUMED_SHARE			0.1

/* What is known of the key */
typedef struct KeyStatistics
{
	double		share;			/* of all rows, an average key has */
	double		not_null;		/* share of rows with a key at all */
	double		assumed_keys;
} KeyStatistics;

static bool estimate_is_ours(GjKeyNode *node);
static bool array_is_unknown(Node *array);
static void get_key_statistics(PlannerInfo *root, IndexOptInfo *index, KeyStatistics *key);
static double count_keys(PlannerInfo *root, GjKeyNode *node, const KeyStatistics *key);
static double count_source_keys(PlannerInfo *root, const GjSource *source,
								const KeyStatistics *key);
static Selectivity estimate_node(PlannerInfo *root, GjKeyNode *node, const KeyStatistics *key);
static Selectivity estimate_source(PlannerInfo *root, const GjSource *source,
								   const KeyStatistics *key);

/*
 * Estimate the share of the table's rows that satisfy all conditions, and the number of keys
 */
Selectivity
GjEstimateConditions(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
					 List *conditions, double *nkeys)
{
	KeyStatistics key;
	List	   *rinfos = NIL;
	Selectivity ours = 1.0;
	ListCell   *lc;

	get_key_statistics(root, index, &key);

	*nkeys = 0;
	foreach(lc, conditions)
	{
		GjKeyCondition *condition = lfirst(lc);

		*nkeys += count_keys(root, condition->node, &key);
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
 * Is there something in it that PostgreSQL can only guess?
 */
static bool
estimate_is_ours(GjKeyNode *node)
{
	ListCell   *lc;

	if (node->step == GJ_STEP_SOURCE)
		return OidIsValid(node->source.cast) || GjSourceIsUnknown(&node->source);

	foreach(lc, node->operands)
	{
		if (estimate_is_ours(lfirst(lc)))
			return true;
	}
	return false;
}

/*
 * Is it an array whose length is known only when the plan is executed?
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

	key->share = key->not_null / Max(ndistinct, 1.0);
	key->assumed_keys = GjAssumedKeys(ndistinct);
}

/*
 * Return the number of keys that an array of unknown length is assumed to have for a column with so
 * many distinct values
 */
double
GjAssumedKeys(double ndistinct)
{
	return Min(gj_assumed_keys, Max(ndistinct * ASSUMED_SHARE, FEWEST_ASSUMED_KEYS));
}

static double
count_keys(PlannerInfo *root, GjKeyNode *node, const KeyStatistics *key)
{
	double		nkeys = 0;
	ListCell   *lc;

	if (node->step == GJ_STEP_SOURCE)
		return count_source_keys(root, &node->source, key);

	foreach(lc, node->operands)
		nkeys += count_keys(root, lfirst(lc), key);
	return nkeys;
}

static double
count_source_keys(PlannerInfo *root, const GjSource *source, const KeyStatistics *key)
{
	if (GjSourceIsUnknown(source))
		return key->assumed_keys;
	if (source->kind == GJ_SOURCE_ARRAY || source->kind == GJ_SOURCE_NOT_ARRAY)
		return GjEstimateArrayLength(root, (Node *) source->value);
	return 1.0;
}

static Selectivity
estimate_node(PlannerInfo *root, GjKeyNode *node, const KeyStatistics *key)
{
	Selectivity sum = 0.0;
	Selectivity smallest = 1.0;
	ListCell   *lc;

	if (node->step == GJ_STEP_SOURCE)
		return estimate_source(root, &node->source, key);

	foreach(lc, node->operands)
	{
		Selectivity operand = estimate_node(root, lfirst(lc), key);

		sum += operand;
		smallest = Min(smallest, operand);
	}
	return node->step == GJ_STEP_AND ? smallest : Min(sum, 1.0);
}

/*
 * Estimate one source.  One of rows with a NULL key is taken to be empty, as it nearly always is.
 */
static Selectivity
estimate_source(PlannerInfo *root, const GjSource *source, const KeyStatistics *key)
{
	Selectivity listed = Min(count_source_keys(root, source, key) * key->share, key->not_null);

	switch (source->kind)
	{
		case GJ_SOURCE_VALUE:
		case GJ_SOURCE_ARRAY:
			return listed;
		case GJ_SOURCE_NOT_VALUE:
		case GJ_SOURCE_NOT_ARRAY:
			return key->not_null - listed;
		case GJ_SOURCE_NULL:
		case GJ_SOURCE_NULL_IN_ARRAY:
			return 0.0;
	}
	return 1.0;
}

/*
 * Will the resulting set be the complement of a list?  An intersection with a list is a list.
 */
bool
GjNodeIsComplement(GjKeyNode *node)
{
	bool		result = node->step == GJ_STEP_AND;
	ListCell   *lc;

	if (node->step == GJ_STEP_SOURCE)
		return node->source.kind == GJ_SOURCE_NOT_VALUE ||
			node->source.kind == GJ_SOURCE_NOT_ARRAY;

	foreach(lc, node->operands)
	{
		if (GjNodeIsComplement(lfirst(lc)) != result)
			return !result;
	}
	return result;
}

/*
 * Return the correlation of the key with the place of the rows, as ANALYZE has found it
 */
double
GjKeyCorrelation(PlannerInfo *root, IndexOptInfo *index)
{
	TargetEntry *column = linitial_node(TargetEntry, index->indextlist);
	VariableStatData variable;
	AttStatsSlot slot;
	double		correlation = 0.0;

	examine_variable(root, (Node *) column->expr, 0, &variable);
	if (HeapTupleIsValid(variable.statsTuple) &&
		get_attstatsslot(&slot, variable.statsTuple, STATISTIC_KIND_CORRELATION, InvalidOid,
						 ATTSTATSSLOT_NUMBERS))
	{
		if (slot.nnumbers == 1)
			correlation = slot.numbers[0];
		free_attstatsslot(&slot);
	}
	ReleaseVariableStats(variable);
	return correlation;
}
