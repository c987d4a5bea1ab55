/*-------------------------------------------------------------------------
 *
 * price.c
 *	  Which new indexes would pay off for a query?
 *
 * The query is first planned as it is.  Meanwhile we note, for each of its tables, the columns in
 * conditions, one of which might be the key, and all needed columns, which might be included.  At
 * that time the planner has already expanded views, subqueries and row security, and has derived
 * conditions from equalities, so one list covers all of them.  Then the query is planned once more
 * for each key.  The planner alone decides whether a new index can be used, and what it saves.
 *
 * The costs of all these plans rest on the same number of keys: arrays of unknown length get
 * values (see "Arrays of unknown length").
 *
 * Each key is tried without INCLUDE and, if the other columns that the query needs of the table
 * can be stored, with all of them, so that the heap may not be needed; otherwise with those of
 * them that filter or sort.  If the query names the table several times, the columns of each place
 * are tried by themselves first: an index serves only places that have a condition on its key.
 * Columns are included only if that saves another tenth of the cost, because they make the index
 * larger.  Columns that the statement updates are never included: its updates would no longer be
 * HOT.  If an index of ours has the same key, the new one also gets its columns, and can replace
 * it.
 *
 * Of the indexes on several tables, the one that saves most comes first.  Each further one must
 * save more than a tenth of the remaining cost.  The reported costs are those with one index
 * alone; we do not find two indexes that pay off only together.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type_d.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "parser/parse_coerce.h"
#include "parser/parsetree.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"

#include "advisor.h"
#include "base/compat.h"
#include "base/settings.h"
#include "pages/pages.h"

/* Minimum saving, as a fraction of a query's cost */
#define LEAST_SAVING			0.1

/* A key that serves other queries, too, may cost this much more */
#define BETTER_KEY				2.0

/* Maximum number of assumed values; more would take the planner seconds */
#define MOST_VALUES		100000

/* Maximum number of parameters that a client can send */
#define MOST_PARAMS		PG_UINT16_MAX

/* Needs of a query for a table; column numbers are those of the table that the query names */
typedef struct Wish
{
	Oid			table;
	double		tuples;			/* of the table, or of its largest partition */
	Bitmapset  *keys;			/* columns in conditions */
	Bitmapset  *sets;			/* those of keys that are compared with a set or joined */
	Bitmapset  *updated;		/* columns that the statement updates */
	List	   *places;			/* the places of the query that name the table: Place */
} Wish;

/* Needs of one place of a query that names a table */
typedef struct Place
{
	Bitmapset  *keys;			/* columns in conditions */
	Bitmapset  *helpful;		/* columns that filter or sort */
	Bitmapset  *wanted;			/* all needed columns */
	bool		has_others;		/* true if system columns or whole rows are also needed */
} Place;

/* Source of an array's values, in ascending order of quality */
typedef enum Origin
{
	FROM_NOWHERE,				/* no values, only a length */
	FROM_COLUMN,				/* a column without statistics */
	FROM_PARTITION,				/* statistics of a partition or child */
	FROM_TABLE					/* statistics of a table */
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

/* A column's values in its statistics */
typedef struct KnownValues
{
	AttStatsSlot common;
	AttStatsSlot histogram;
	int			ncommon;		/* number of the array's values to take from common */
} KnownValues;

/* The needs of a query that is being planned as it is, and their memory context */
static const GjTrial *wishing = NULL;
static MemoryContext wishes_context = NULL;
static List *wishes = NIL;

/* The arrays of a query that is being planned to find them, and their memory context */
static const GjTrial *noting = NULL;
static MemoryContext arrays_context = NULL;
static List *arrays = NIL;

static List *note_wishes(GjTrial *trial, Cost *cost);
static Wish *find_wish(Oid table);
static Index named_table(PlannerInfo *root, Index relid);
static void note_columns(PlannerInfo *root, RelOptInfo *rel, Wish *wish);
static void add_columns(Node *exprs, Index relid, Bitmapset **columns, bool *has_others);
static void add_equal_columns(List *classes, bool joined, Index relid, Bitmapset **columns);
static List *sort_classes(PlannerInfo *root);
static void add_set_columns(Node *filters, Index relid, Bitmapset **columns);
static bool find_sets(Node *node, void *columns);
static void add_updated_columns(PlannerInfo *root, Bitmapset **columns);
static List *advise_table(const GjTrial *trial, const Wish *wish, Cost cost);
static bool is_better(const Wish *wish, const GjAdvice *one, const GjAdvice *other);
static GjAdvice *advise_key(const GjTrial *trial, const Wish *wish, AttrNumber key, Cost cost);
static GjAdvice *refuse_type(const Wish *wish, AttrNumber key, Cost cost);
static void try_columns(const GjTrial *trial, GjAdvice *advice, const Bitmapset *columns,
						const Bitmapset *existing);
static List *list_columns(const Wish *wish, AttrNumber key);
static int	compare_sizes(const ListCell *a, const ListCell *b);
static Bitmapset *columns_to_include(const Wish *wish, const Place *place, AttrNumber key);
static void judge_together(const GjTrial *trial, const List *advice);
static int	compare_costs(const ListCell *a, const ListCell *b);
static const char *refuse(const Wish *wish, const GjAdvice *advice, bool has_index);
static Oid	find_index(const GjNewIndex *wanted, Bitmapset **included);
static void note_wishes_for(PlannerInfo *root, RelOptInfo *rel);
static void note_comparisons(PlannerInfo *root, RelOptInfo *rel);
static GjTrial *make_trial(const Query *query, const char *text);
static Cost start_trial(GjTrial *trial);
static Cost plan_cost(const GjTrial *trial, const List *indexes);
static const char *text_of_arrays(const GjTrial *trial);
static PlannedStmt *note_arrays(GjTrial *trial);
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
 * List, for each table of a query, the new index that would pay off most, or why none would: one
 * entry for the former, an entry for each column in a condition for the latter
 *
 * Raises an error if the user may not run the query.  Takes the same locks as a plan.
 */
List *
GjAdviseQuery(const Query *query, const char *text)
{
	List	   *result = NIL;
	GjTrial    *trial = make_trial(query, text);
	Cost		cost;
	ListCell   *lc;

	foreach(lc, note_wishes(trial, &cost))
	{
		CHECK_FOR_INTERRUPTS();
		result = list_concat(result, advise_table(trial, lfirst(lc), cost));
	}
	judge_together(trial, result);
	return result;
}

/*
 * Plan the query as it is, and return its needs
 *
 * This may be called by a function that the planner evaluates for another call: the needs of that
 * one are saved and restored.
 */
static List *
note_wishes(GjTrial *trial, Cost *cost)
{
	const GjTrial *old_wishing = wishing;
	MemoryContext old_context = wishes_context;
	List	   *old_wishes = wishes;
	List	   *volatile result = NIL;

	PG_TRY();
	{
		wishing = trial;
		wishes_context = CurrentMemoryContext;
		wishes = NIL;
		*cost = start_trial(trial);
		result = wishes;
	}
	PG_FINALLY();
	{
		wishing = old_wishing;
		wishes_context = old_context;
		wishes = old_wishes;
	}
	PG_END_TRY();
	return result;
}

/*
 * Note the query's needs for a table, if they are wanted
 *
 * A partitioned table comes itself, with its conditions; its partitions are only counted.  Other
 * children, of inheritance or UNION ALL, are tables in their own right.
 */
static void
note_wishes_for(PlannerInfo *root, RelOptInfo *rel)
{
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
	RangeTblEntry *named;
	Wish	   *wish;

	if (wishing == NULL || root->glob->boundParams != wishing->params ||
		rte->rtekind != RTE_RELATION ||
		(rte->inh ? rte->relkind != RELKIND_PARTITIONED_TABLE : IsCatalogRelationOid(rte->relid)))
		return;

	named = planner_rt_fetch(named_table(root, rel->relid), root);
	wish = find_wish(named->relid);
	if (rte->relkind == RELKIND_RELATION || rte->relkind == RELKIND_MATVIEW)
		wish->tuples = Max(wish->tuples, rel->tuples);
	if (named == rte)
		note_columns(root, rel, wish);
}

static Wish *
find_wish(Oid table)
{
	MemoryContext old;
	Wish	   *wish;
	ListCell   *lc;

	foreach(lc, wishes)
	{
		wish = lfirst(lc);
		if (wish->table == table)
			return wish;
	}
	old = MemoryContextSwitchTo(wishes_context);
	wish = palloc0(sizeof(Wish));
	wish->table = table;
	wishes = lappend(wishes, wish);
	MemoryContextSwitchTo(old);
	return wish;
}

/*
 * Go up from a partition to the table that the query names
 */
static Index
named_table(PlannerInfo *root, Index relid)
{
	AppendRelInfo *appinfo;

	while (root->append_rel_array != NULL &&
		   (appinfo = root->append_rel_array[relid]) != NULL)
	{
		RangeTblEntry *parent = planner_rt_fetch(appinfo->parent_relid, root);

		if (parent->rtekind != RTE_RELATION || parent->relkind != RELKIND_PARTITIONED_TABLE)
			break;
		relid = appinfo->parent_relid;
	}
	return relid;
}

/*
 * Note the columns of a table.  A join clause is in joininfo, or has become an equivalence class.
 */
static void
note_columns(PlannerInfo *root, RelOptInfo *rel, Wish *wish)
{
	MemoryContext old = MemoryContextSwitchTo(wishes_context);
	Place	   *place = palloc0(sizeof(Place));
	List	   *filters = extract_actual_clauses(rel->baserestrictinfo, false);
	List	   *joins = NIL;
	bool		ignored;
	ListCell   *lc;

	foreach(lc, rel->joininfo)
	{
		RestrictInfo *join = lfirst_node(RestrictInfo, lc);

		joins = lappend(joins, join->clause);
		if (join->mergeopfamilies != NIL)
			add_columns((Node *) join->clause, rel->relid, &wish->sets, &ignored);
	}

	add_columns((Node *) filters, rel->relid, &place->keys, &ignored);
	add_columns((Node *) joins, rel->relid, &place->keys, &ignored);
	add_equal_columns(root->eq_classes, true, rel->relid, &place->keys);
	wish->keys = bms_add_members(wish->keys, place->keys);
	add_set_columns((Node *) filters, rel->relid, &wish->sets);
	add_equal_columns(root->eq_classes, true, rel->relid, &wish->sets);
	add_columns((Node *) filters, rel->relid, &place->helpful, &ignored);
	add_equal_columns(sort_classes(root), false, rel->relid, &place->helpful);
	if (rel->relid == root->parse->resultRelation)
		add_updated_columns(root, &wish->updated);
	add_columns((Node *) filters, rel->relid, &place->wanted, &place->has_others);
	add_columns((Node *) rel->reltarget->exprs, rel->relid, &place->wanted, &place->has_others);
	wish->places = lappend(wish->places, place);
	MemoryContextSwitchTo(old);
}

static void
add_columns(Node *exprs, Index relid, Bitmapset **columns, bool *has_others)
{
	Bitmapset  *used = NULL;
	int			member = -1;

	pull_varattnos(exprs, relid, &used);
	while ((member = bms_next_member(used, member)) >= 0)
	{
		AttrNumber	attno = member + FirstLowInvalidHeapAttributeNumber;

		if (attno > 0)
			*columns = bms_add_member(*columns, attno);
		else
			*has_others = true;
	}
}

/*
 * Add the columns in equivalence classes; if joined, only from classes that cover several tables
 */
static void
add_equal_columns(List *classes, bool joined, Index relid, Bitmapset **columns)
{
	ListCell   *lc;

	foreach(lc, classes)
	{
		EquivalenceClass *ec = lfirst(lc);
		bool		ignored;
		ListCell   *lc2;

		if (joined && bms_membership(ec->ec_relids) != BMS_MULTIPLE)
			continue;
		foreach(lc2, ec->ec_members)
		{
			EquivalenceMember *member = lfirst(lc2);

			if (!member->em_is_child && bms_is_member(relid, member->em_relids))
				add_columns((Node *) member->em_expr, relid, columns, &ignored);
		}
	}
}

static List *
sort_classes(PlannerInfo *root)
{
	List	   *classes = NIL;
	ListCell   *lc;

	foreach(lc, root->query_pathkeys)
		classes = lappend(classes, lfirst_node(PathKey, lc)->pk_eclass);
	return classes;
}

/*
 * Add the columns in column = ANY (array)
 */
static void
add_set_columns(Node *filters, Index relid, Bitmapset **columns)
{
	List	   *exprs = NIL;
	bool		ignored;

	(void) find_sets(filters, &exprs);
	add_columns((Node *) exprs, relid, columns, &ignored);
}

static bool
find_sets(Node *node, void *columns)
{
	if (node == NULL)
		return false;
	if (IsA(node, ScalarArrayOpExpr))
	{
		const ScalarArrayOpExpr *expr = (const ScalarArrayOpExpr *) node;
		Node	   *column = strip_implicit_coercions(linitial(expr->args));

		if (expr->useOr && IsA(column, Var) && op_hashjoinable(expr->opno, exprType(column)))
			*(List **) columns = lappend(*(List **) columns, column);
	}
	return expression_tree_walker(node, find_sets, columns);
}

/*
 * Add the columns of the result relation that the statement assigns
 */
static void
add_updated_columns(PlannerInfo *root, Bitmapset **columns)
{
	List	   *attnos = list_copy(root->update_colnos);
	ListCell   *lc;

	foreach(lc, root->parse->mergeActionList)
		attnos = list_concat(attnos, lfirst_node(MergeAction, lc)->updateColnos);
	foreach(lc, attnos)
		*columns = bms_add_member(*columns, lfirst_int(lc));
}

/*
 * Find the key that saves most, or for each key the reason why it would not pay off
 *
 * Of two keys that save about as much, one that is compared with sets, or joined, is the better
 * one: it serves more queries than a column of which the query wants a range.  A column that the
 * statement assigns is taken only if no other pays off: each update would make new entries, which
 * no cost contains.
 */
static List *
advise_table(const GjTrial *trial, const Wish *wish, Cost cost)
{
	GjAdvice   *best = NULL;
	List	   *refused = NIL;
	int			key = -1;

	while ((key = bms_next_member(wish->keys, key)) >= 0)
	{
		GjAdvice   *advice;

		if (OidIsValid(GjNewIndexClass(wish->table, key)))
			advice = advise_key(trial, wish, key, cost);
		else if (bms_is_member(key, wish->sets))
			advice = refuse_type(wish, key, cost);
		else
			continue;
		if (advice->refused != NULL)
			refused = lappend(refused, advice);
		else if (best == NULL || is_better(wish, advice, best))
			best = advice;
	}
	return best ? list_make1(best) : refused;
}

static bool
is_better(const Wish *wish, const GjAdvice *one, const GjAdvice *other)
{
	bool		one_is_set = bms_is_member(one->index.key, wish->sets);
	bool		other_is_set = bms_is_member(other->index.key, wish->sets);
	bool		one_changes = bms_is_member(one->index.key, wish->updated);
	bool		other_changes = bms_is_member(other->index.key, wish->updated);

	if (one_changes != other_changes)
		return other_changes;
	return one->cost_with * (one_is_set ? 1.0 : BETTER_KEY) <
		other->cost_with * (other_is_set ? 1.0 : BETTER_KEY);
}

/*
 * Refuse indexes that save little in addition to others
 */
static void
judge_together(const GjTrial *trial, const List *advice)
{
	List	   *proposed = NIL;
	List	   *indexes = NIL;
	Cost		cost = 0.0;
	ListCell   *lc;

	foreach(lc, advice)
	{
		if (((GjAdvice *) lfirst(lc))->refused == NULL)
			proposed = lappend(proposed, lfirst(lc));
	}
	list_sort(proposed, compare_costs);
	foreach(lc, proposed)
	{
		GjAdvice   *next = lfirst(lc);
		Cost		with = next->cost_with;

		CHECK_FOR_INTERRUPTS();
		if (indexes != NIL)
			with = plan_cost(trial, lappend(list_copy(indexes), &next->index));
		if (indexes == NIL || with <= cost * (1.0 - LEAST_SAVING))
		{
			indexes = lappend(indexes, &next->index);
			cost = with;
		}
		else
			next->refused = "beside another index proposed here, it would save less than a tenth";
	}
}

static int
compare_costs(const ListCell *a, const ListCell *b)
{
	Cost		left = ((const GjAdvice *) lfirst(a))->cost_with;
	Cost		right = ((const GjAdvice *) lfirst(b))->cost_with;

	return left < right ? -1 : left > right ? 1 : 0;
}

static GjAdvice *
advise_key(const GjTrial *trial, const Wish *wish, AttrNumber key, Cost cost)
{
	GjAdvice   *advice = palloc0(sizeof(GjAdvice));
	GjNewIndex	wide = {.table = wish->table,.key = key};
	Bitmapset  *existing = NULL;
	ListCell   *lc;

	advice->index = wide;
	advice->cost_now = cost;
	advice->assumed = text_of_arrays(trial);
	advice->replaces = find_index(&wide, &existing);
	if (wish->tuples >= *gj->min_rows)
	{
		advice->cost_with = plan_cost(trial, list_make1(&advice->index));
		foreach(lc, list_columns(wish, key))
			try_columns(trial, advice, lfirst(lc), existing);
	}
	advice->refused = refuse(wish, advice, OidIsValid(advice->replaces) &&
							 bms_is_subset(advice->index.included, existing));
	return advice;
}

/*
 * Use an index that also has these columns, if that saves enough
 */
static void
try_columns(const GjTrial *trial, GjAdvice *advice, const Bitmapset *columns,
			const Bitmapset *existing)
{
	GjNewIndex	wide = advice->index;
	GjNewIndex	all = advice->index;
	Cost		with;

	wide.included = bms_copy(columns);
	if (bms_is_subset(columns, existing))
		return;
	all.included = bms_union(columns, existing);
	if (GjNewIndexFits(&all))
		wide = all;
	with = plan_cost(trial, list_make1(&wide));
	if (with < advice->cost_with * (1.0 - LEAST_SAVING))
	{
		advice->index = wide;
		advice->cost_with = with;
	}
}

/*
 * Refuse a column whose type has no operator class of ours
 */
static GjAdvice *
refuse_type(const Wish *wish, AttrNumber key, Cost cost)
{
	GjAdvice   *advice = palloc0(sizeof(GjAdvice));

	advice->index.table = wish->table;
	advice->index.key = key;
	advice->cost_now = cost;
	advice->refused = psprintf("columns of type %s cannot be keys of gpujoin indexes",
							   format_type_be(get_atttype(wish->table, key)));
	return advice;
}

/*
 * List the sets of columns to try beside a key: those for each place that has a condition on the
 * key, the smallest first, and those for all of these
 */
static List *
list_columns(const Wish *wish, AttrNumber key)
{
	List	   *result = NIL;
	GjNewIndex	all = {.table = wish->table,.key = key};
	ListCell   *lc;

	foreach(lc, wish->places)
	{
		const Place *place = lfirst(lc);
		Bitmapset  *columns;

		if (!bms_is_member(key, place->keys))
			continue;
		columns = columns_to_include(wish, place, key);
		if (columns == NULL || (result != NIL && bms_equal(columns, all.included)))
			continue;
		result = lappend(result, columns);
		all.included = bms_union(all.included, columns);
	}
	list_sort(result, compare_sizes);
	if (list_length(result) > 1 && GjNewIndexFits(&all))
		result = lappend(result, all.included);
	return result;
}

static int
compare_sizes(const ListCell *a, const ListCell *b)
{
	return bms_num_members(lfirst(a)) - bms_num_members(lfirst(b));
}

/*
 * Return the columns to include beside a key for one place: all needed columns, if possible
 */
static Bitmapset *
columns_to_include(const Wish *wish, const Place *place, AttrNumber key)
{
	Bitmapset  *others = bms_del_member(bms_copy(place->wanted), key);
	Bitmapset  *result = NULL;
	GjNewIndex	index = {.table = wish->table,.key = key};
	Relation	table = table_open(wish->table, NoLock);
	int			attno = -1;

	while ((attno = bms_next_member(others, attno)) >= 0)
	{
		if (gj->can_include(TupleDescAttr(RelationGetDescr(table), attno - 1)) &&
			!bms_is_member(attno, wish->updated))
			result = bms_add_member(result, attno);
	}
	table_close(table, NoLock);

	index.included = result;
	if (place->has_others || bms_num_members(others) > bms_num_members(result) ||
		!GjNewIndexFits(&index))
		index.included = bms_int_members(result, place->helpful);
	return GjNewIndexFits(&index) ? index.included : NULL;
}

/*
 * Return the reason why an index would not pay off, or NULL
 */
static const char *
refuse(const Wish *wish, const GjAdvice *advice, bool has_index)
{
	if (wish->tuples < *gj->min_rows)
		return psprintf("the table has about %.0f rows, fewer than gpujoin.min_rows (%d)",
						wish->tuples, *gj->min_rows);
	if (has_index)
		return "the column has a gpujoin index already";
	if (advice->cost_with <= advice->cost_now * (1.0 - LEAST_SAVING))
		return NULL;
	if (advice->cost_with < advice->cost_now)
		return "it would save less than a tenth of the cost";
	return "the plan without it stays cheaper";
}

/*
 * Find an index of ours with this key, of several one with the most columns, which *included
 * becomes; returns InvalidOid if no such index exists
 */
static Oid
find_index(const GjNewIndex *wanted, Bitmapset **included)
{
	Relation	rel = table_open(wanted->table, NoLock);
	Oid			am = get_index_am_oid(GJ_NAME, false);
	Oid			result = InvalidOid;
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		const int2vector *columns = &index->rd_index->indkey;
		Bitmapset  *others = NULL;

		for (int i = 1; i < columns->dim1; i++)
			others = bms_add_member(others, columns->values[i]);
		if (index->rd_rel->relam == am && index->rd_index->indisvalid &&
			columns->values[0] == wanted->key && RelationGetIndexPredicate(index) == NIL &&
			(!OidIsValid(result) || bms_num_members(others) > bms_num_members(*included)))
		{
			result = RelationGetRelid(index);
			*included = others;
		}
		index_close(index, AccessShareLock);
	}
	table_close(rel, NoLock);
	return result;
}

/*-------------------------------------------------------------------------
 * Arrays of unknown length
 *
 * gpujoin_propose() and gpujoin_explain_choice() plan "key = ANY ($1)" with assumed values.
 *
 * For such an array PostgreSQL assumes ten elements, and we assume gpujoin.assumed_keys.  Costs
 * that rest on different numbers cannot be compared, and most queries that clients send are
 * planned with their values anyway.  So the parameter gets an array of as many keys as we assume,
 * and all plans, including PostgreSQL's own, are costed for that array.
 *
 * Selectivity functions look at the values.  We take them from the column's statistics: the
 * fraction taken from the most common values is their fraction among all distinct values, and the
 * rest comes from the histogram.  So a key matches as many rows as an average one, and partitions
 * are pruned realistically.  If the user must not see these values, as behind a view, or if there
 * are no statistics, we use small integers.
 *
 * An array that is only an argument of unnest() needs no values but a length.
 *-------------------------------------------------------------------------
 */

/*
 * Return the cost of a query with an index.  Raises an error if the user may not run the query.
 */
Cost
GjPriceIndex(const Query *query, const char *text, GjNewIndex *index)
{
	GjTrial    *trial = make_trial(query, text);

	(void) start_trial(trial);
	return plan_cost(trial, list_make1(index));
}

/*
 * Make a trial of a query, with values for the parameters that are arrays of unknown length.
 * Raises an error if the user may not run the query.
 */
GjTrial *
GjTrialStart(const Query *query, const char *text)
{
	GjTrial    *trial = make_trial(query, text);

	(void) start_trial(trial);
	return trial;
}

/*
 * Note the query's needs for a table, and the arrays with which the table's columns are compared,
 * while a query is planned for that purpose
 */
void
GjTrialNote(PlannerInfo *root, RelOptInfo *rel)
{
	note_wishes_for(root, rel);
	note_comparisons(root, rel);
}

/*
 * Make a trial of a query, without values for parameters
 */
static GjTrial *
make_trial(const Query *query, const char *text)
{
	GjTrial    *trial = palloc(sizeof(GjTrial));

	trial->query = query;
	trial->text = text;
	trial->params = makeParamList(0);
	return trial;
}

/*
 * Assign values to the parameters that are arrays of unknown length, and return the cost of the
 * query as it is.  Raises an error if the user may not run the query.
 */
static Cost
start_trial(GjTrial *trial)
{
	PlannedStmt *plan = note_arrays(trial);

	GjCheckMayRead(plan);
	return trial->params->numParams == 0 ? plan->planTree->total_cost : plan_cost(trial, NIL);
}

/*
 * Return the cost of a query with these indexes (GjNewIndex), or with NIL as it is
 */
static Cost
plan_cost(const GjTrial *trial, const List *indexes)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gpujoin plan",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Cost		cost = GjNewIndexPlan(trial, indexes)->planTree->total_cost;

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return cost;
}

/*
 * Plan a query as it is, without values for parameters, and assign values to those that are arrays
 * of unknown length
 *
 * This may be called by a function that the planner evaluates for another trial: the arrays of
 * that one are saved and restored.
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
 * Describe the number of values of each parameter; returns NULL if no parameter has any
 */
static const char *
text_of_arrays(const GjTrial *trial)
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
 * Note the arrays with which a table's columns are compared, if they are wanted
 */
static void
note_comparisons(PlannerInfo *root, RelOptInfo *rel)
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
			int			nvalues = Min(*gj->assumed_keys, MOST_VALUES);
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
 * Return the parameter that an array is, or NULL
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
 * Take an array's values from a column, unless it already has better ones
 *
 * Often a partitioned table has no statistics, but its partitions do: then use the partition for
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
	nvalues = (int) Min(gj->assume_keys(ndistinct), MOST_VALUES);
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
 * Return true if the user's own rights allow the use of the values in a column's statistics
 *
 * Selectivity functions do not disclose values, so the planner may use values that only a view's
 * owner may read.  But a parameter's value can be passed to any function in the query.
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
 * If the statistics have it as a fraction of the rows, add up the rows of all partitions: the
 * planner counts only those rows of a partitioned table that satisfy the conditions.
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
 * Make values of the array's element type, from the column's known values if possible; returns
 * false if there are no suitable values of this type
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
 * Return one of the known values, spread evenly over each kind
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
 * Convert a value; returns false if that might raise an error
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
 * Make a value of an integer type; returns false for other types, and if the value is too large
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
 * Make the list of all parameters; the planner treats those with values as constants
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
