/*-------------------------------------------------------------------------
 *
 * liststats.c
 *	  Statistics with which PostgreSQL estimates a long list of constants faster.
 *
 * PostgreSQL estimates "column = ANY (list)" one constant at a time.  For each it looks up the
 * column's statistics, unpacks the most common values, and compares them all: of 2 ms that 4,000
 * constants take from their text to the plan, that is 1 ms.  The estimates are then added up.
 *
 * The hook for statistics does the same once for the list, with a hash table of the common values.
 * It then lets PostgreSQL take the column for a unique one, of a table with so many rows that each
 * constant's estimate, one row, is the mean of all.  So the sum, which is all that the planner
 * keeps, does not change, except for rounding.
 *
 * That must not serve another estimate.  It is done only
 *
 *	  * while the list's own estimate is missing (RestrictInfo.norm_selec), and
 *	  * if no other condition of the table uses the column, the table has no extended
 *		statistics, and no OR spans it and other tables: then it is the list's estimate that
 *		asks.  Joins and groups are estimated after all lists.
 *
 * An estimate can make a plan slow; it cannot make an answer wrong.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/plancat.h"
#include "optimizer/restrictinfo.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "base/settings.h"
#include "planner.h"

/* With fewer constants, the hash table is not worth its set-up */
#define MIN_CONSTANTS			64

/* A list whose constants are being estimated */
typedef struct CurrentList
{
	RestrictInfo *clause;		/* NULL: none */
	RangeTblEntry *rte;
	AttrNumber	attno;
	RelOptInfo	table;			/* the one with so many rows; none: the column's statistics */
} CurrentList;

/* A most common value */
typedef struct CommonValue
{
	Datum		value;
	float4		frequency;
	uint32		hash;
	char		status;
} CommonValue;

/* How values are hashed and compared */
typedef struct Comparison
{
	FmgrInfo	hash;
	FmgrInfo	equal;
	Oid			collation;
} Comparison;

static CurrentList current;

static get_relation_stats_hook_type prev_get_relation_stats_hook = NULL;

static bool give_statistics(PlannerInfo *root, RangeTblEntry *rte, AttrNumber attno,
							VariableStatData *vardata);
static void start_list(PlannerInfo *root, RangeTblEntry *rte, AttrNumber attno);
static RelOptInfo *find_relation(PlannerInfo *root, const RangeTblEntry *rte);
static void forget_list(void *unused);
static bool is_key_of_ours(const RelOptInfo *rel, AttrNumber attno);
static RestrictInfo *find_list(const RelOptInfo *rel, AttrNumber attno);
static bool asks_alone(const RestrictInfo *list, const RelOptInfo *rel, AttrNumber attno);
static bool is_long_list(const RestrictInfo *clause, AttrNumber attno);
static double condense(HeapTuple stats, const ScalarArrayOpExpr *list, RelOptInfo *rel);
static double mean_selectivity(VariableStatData *vardata, const ScalarArrayOpExpr *list,
							   Comparison *comparison);
static bool constants_are_equal(Comparison *comparison, Datum a, Datum b);

#define SH_PREFIX common
#define SH_ELEMENT_TYPE CommonValue
#define SH_KEY_TYPE Datum
#define SH_KEY value
#define SH_HASH_KEY(tb, key) \
	DatumGetUInt32(FunctionCall1Coll(&((Comparison *) (tb)->private_data)->hash, \
									 ((Comparison *) (tb)->private_data)->collation, key))
#define SH_EQUAL(tb, a, b) constants_are_equal((Comparison *) (tb)->private_data, a, b)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, cell) (cell)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/*
 * Install the hook
 */
void
GjListStatsInit(void)
{
	prev_get_relation_stats_hook = get_relation_stats_hook;
	get_relation_stats_hook = give_statistics;
}

/*
 * get_relation_stats_hook: give the statistics of a list while it is estimated
 *
 * This is called for each constant, so it must be quick.  Nothing in *vardata is read: the cost
 * estimates of some access methods call the hook, too, and leave most of it undefined.
 */
static bool
give_statistics(PlannerInfo *root, RangeTblEntry *rte, AttrNumber attno, VariableStatData *vardata)
{
	if (prev_get_relation_stats_hook != NULL &&
		prev_get_relation_stats_hook(root, rte, attno, vardata))
		return true;
	if (!gj_enabled)
		return false;

	if (current.clause == NULL || current.rte != rte || current.attno != attno ||
		current.clause->norm_selec >= 0)
		start_list(root, rte, attno);
	if (current.clause == NULL || current.table.tuples == 0)
		return false;

	vardata->statsTuple = NULL;
	vardata->freefunc = NULL;
	vardata->isunique = true;
	vardata->rel = &current.table;
	return true;
}

/*
 * Set "current" to the list on a column that is estimated next, if there is one
 *
 * A list that must be estimated with the column's own statistics is set, too, with no statistics:
 * so the next constant does not look again.
 */
static void
start_list(PlannerInfo *root, RangeTblEntry *rte, AttrNumber attno)
{
	RelOptInfo *rel = find_relation(root, rte);
	RestrictInfo *clause;
	MemoryContextCallback *callback;
	HeapTuple	stats;

	current.clause = NULL;
	if (rel == NULL || !is_key_of_ours(rel, attno))
		return;
	clause = find_list(rel, attno);
	if (clause == NULL)
		return;

	/* Whatever ends the planning of this query forgets the list, too */
	callback = palloc(sizeof(MemoryContextCallback));
	callback->func = forget_list;
	callback->arg = NULL;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);

	current.clause = clause;
	current.rte = rte;
	current.attno = attno;
	current.table = *rel;
	current.table.tuples = 0;
	if (!asks_alone(clause, rel, attno))
		return;

	stats = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(rte->relid), Int16GetDatum(attno),
							BoolGetDatum(rte->inh));
	if (!HeapTupleIsValid(stats))
		return;
	current.table.tuples = condense(stats, (ScalarArrayOpExpr *) clause->clause, rel);
	ReleaseSysCache(stats);
}

/*
 * Return the table that an entry of the range table is, or NULL if it is none that is planned
 *
 * Partitions are planned in order, so the search begins where the last one ended; any other place
 * would do.
 */
static RelOptInfo *
find_relation(PlannerInfo *root, const RangeTblEntry *rte)
{
	static int	at = 0;

	for (int n = 0; n < root->simple_rel_array_size; n++, at++)
	{
		if (at >= root->simple_rel_array_size)
			at = 0;
		if (root->simple_rte_array[at] == rte)
			return root->simple_rel_array[at];
	}
	return NULL;
}

/*
 * Forget the list: the memory of its query is freed
 */
static void
forget_list(void *unused)
{
	current.clause = NULL;
}

/*
 * Return true if a table has an index of ours whose key is a column
 */
static bool
is_key_of_ours(const RelOptInfo *rel, AttrNumber attno)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		const IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

		if (GjIndexIsOurs(index) && index->indexkeys[0] == attno)
			return true;
	}
	return false;
}

/*
 * Return the list of constants on a column that has not been estimated yet, or NULL
 */
static RestrictInfo *
find_list(const RelOptInfo *rel, AttrNumber attno)
{
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		RestrictInfo *clause = lfirst_node(RestrictInfo, lc);

		if (is_long_list(clause, attno))
			return clause;
	}
	return NULL;
}

/*
 * Return true if only the list asks for the column's statistics until it has its estimate
 */
static bool
asks_alone(const RestrictInfo *list, const RelOptInfo *rel, AttrNumber attno)
{
	ListCell   *lc;

	if (rel->statlist != NIL)
		return false;
	foreach(lc, rel->baserestrictinfo)
	{
		RestrictInfo *clause = lfirst_node(RestrictInfo, lc);
		Bitmapset  *columns = NULL;

		if (clause == list)
			continue;
		pull_varattnos((Node *) clause->clause, rel->relid, &columns);
		if (bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, columns))
			return false;
	}
	foreach(lc, rel->joininfo)
	{
		if (restriction_is_or_clause(lfirst_node(RestrictInfo, lc)))
			return false;
	}
	return true;
}

/*
 * Return true if a condition is "column = ANY (list)" with many constants, and not estimated yet
 */
static bool
is_long_list(const RestrictInfo *clause, AttrNumber attno)
{
	const ScalarArrayOpExpr *list = (const ScalarArrayOpExpr *) clause->clause;
	const Var  *column;
	Node	   *array;

	if (clause->norm_selec >= 0 || !IsA(list, ScalarArrayOpExpr) || !list->useOr)
		return false;
	column = GjStripRelabel(linitial(list->args));
	if (!IsA(column, Var) || column->varattno != attno)
		return false;

	array = lsecond(list->args);
	return IsA(array, Const) && GjEstimateArrayLength(NULL, array) >= MIN_CONSTANTS;
}

/*
 * Return as many rows as make one the mean of the estimates of a list's constants, or 0 if that is
 * not possible
 *
 * It is done only for the equality of a type that can be hashed.  That function must be leakproof;
 * otherwise, whether PostgreSQL looks at the common values depends on the user's privileges.  It
 * does not look at those of a unique column.
 */
static double
condense(HeapTuple stats, const ScalarArrayOpExpr *list, RelOptInfo *rel)
{
	const Var  *column = GjStripRelabel(linitial(list->args));
	TypeCacheEntry *type = lookup_type_cache(column->vartype, TYPECACHE_EQ_OPR_FINFO |
											 TYPECACHE_HASH_PROC_FINFO);
	VariableStatData own = {0};
	Comparison	comparison;
	double		selectivity;

	if (list->opno != type->eq_opr || !OidIsValid(type->hash_proc) ||
		get_oprrest(list->opno) != F_EQSEL || !get_func_leakproof(type->eq_opr_finfo.fn_oid) ||
		has_unique_index(rel, column->varattno))
		return 0;
	comparison.hash = type->hash_proc_finfo;
	comparison.equal = type->eq_opr_finfo;
	comparison.collation = list->inputcollid;

	own.var = (Node *) column;
	own.rel = rel;
	own.vartype = own.atttype = column->vartype;
	own.atttypmod = column->vartypmod;
	own.statsTuple = stats;
	own.acl_ok = true;
	selectivity = mean_selectivity(&own, list, &comparison);
	return selectivity > 0 ? 1.0 / selectivity : 0;
}

/*
 * Return the mean of the estimates of a list's constants, or 0 if PostgreSQL would not add them up
 */
static double
mean_selectivity(VariableStatData *vardata, const ScalarArrayOpExpr *list, Comparison *comparison)
{
	ArrayType  *array = DatumGetArrayTypeP(((Const *) lsecond(list->args))->constvalue);
	common_hash *commons;
	AttStatsSlot slot = {0};
	Datum	   *values;
	bool	   *nulls;
	int			n;
	double		sum = 0.0;
	double		uncommon = -1.0;
	int			constants = 0;
	int16		length;
	bool		by_value;
	char		align;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, align, &values, &nulls, &n);

	get_attstatsslot(&slot, vardata->statsTuple, STATISTIC_KIND_MCV, InvalidOid,
					 ATTSTATSSLOT_VALUES | ATTSTATSSLOT_NUMBERS);
	commons = common_create(CurrentMemoryContext, slot.nvalues, comparison);
	for (int i = 0; i < slot.nvalues; i++)
	{
		bool		found;
		CommonValue *common = common_insert(commons, slot.values[i], &found);

		if (!found)
			common->frequency = slot.numbers[i];
	}

	for (int i = 0; i < n; i++)
	{
		CommonValue *common;

		if (nulls[i])
			continue;			/* estimated as 0 without a look at statistics */
		constants++;
		common = common_lookup(commons, values[i]);
		if (common != NULL)
			sum += common->frequency;
		else
		{
			if (uncommon < 0)
				uncommon = var_eq_const(vardata, list->opno, list->inputcollid, values[i], false,
										true, false);
			sum += uncommon;
		}
	}
	common_destroy(commons);
	free_attstatsslot(&slot);
	pfree(values);
	pfree(nulls);
	return constants > 0 && sum <= 1.0 ? sum / constants : 0.0;
}

/*
 * Return true if two values are equal
 */
static bool
constants_are_equal(Comparison *comparison, Datum a, Datum b)
{
	return DatumGetBool(FunctionCall2Coll(&comparison->equal, comparison->collation, a, b));
}
