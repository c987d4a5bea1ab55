/*-------------------------------------------------------------------------
 *
 * advise.c
 *	  Which new indexes would pay for a query?
 *
 * The query is planned as it is.  Meanwhile is noted, for each of its tables, which columns
 * stand in conditions, one of which might be the key, and which columns are wanted at all,
 * which might be included: at that time the planner has views, subqueries, row security and
 * what follows from equalities behind it, and so has one list for all of them.  Then the query
 * is planned once more for each key.  Whether a new index can be used, and what
 * it saves, is the planner's answer alone.
 *
 * The costs of all these plans rest on the same number of keys: an array of unknown length has
 * values (assumed.c).
 *
 * Each key is tried without INCLUDE and, if the other columns that the query wants of the table
 * can be stored, with all of these, so that the heap may be left out; else with those of
 * them that filter or sort.  Columns are included only if that saves more than a tenth again:
 * they make the index larger.  Those that the statement updates are not: it could never be a HOT
 * update again.  Where an index of ours has the key already, the new one has its columns, too, and
 * can replace it.
 *
 * Of several tables' indexes, the one that saves most comes first.  Each further one must save more
 * than a tenth of what the query costs with those before.  The costs that are reported are those
 * with one index alone; two that pay only together are not found.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "advise.h"
#include "base/gpujoin.h"
#include "planner.h"

/* What a query wants of a table; numbers of columns are those of the table that it names */
typedef struct Wish
{
	Oid			table;
	double		tuples;			/* of the table, or of its largest partition */
	Bitmapset  *keys;			/* columns in conditions */
	Bitmapset  *sets;			/* of them, those that are compared with a set or joined */
	Bitmapset  *helpful;		/* columns that filter or sort */
	Bitmapset  *wanted;			/* all columns */
	Bitmapset  *updated;		/* columns that the statement updates */
	bool		has_others;		/* system columns or whole rows are wanted, too */
} Wish;

/* The wishes of a query that is being planned as it is, and where they are kept */
static const GjTrial *wishing = NULL;
static MemoryContext wishes_context = NULL;
static List *wishes = NIL;

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
static GjAdvice *advise_key(const GjTrial *trial, const Wish *wish, AttrNumber key, Cost cost);
static GjAdvice *refuse_type(const Wish *wish, AttrNumber key, Cost cost);
static Bitmapset *columns_to_include(const Wish *wish, AttrNumber key);
static void judge_together(const GjTrial *trial, const List *advice);
static int	compare_costs(const ListCell *a, const ListCell *b);
static const char *refuse(const Wish *wish, const GjAdvice *advice, bool has_index);
static Oid	find_index(const GjNewIndex *wanted, Bitmapset **included);

/*
 * Say for each table of a query which new index would pay most, or why none would: one entry
 * for the former, one for each column in a condition for the latter
 *
 * An error if the user may not run the query.  The locks are those of its plan.
 */
List *
GjAdviseQuery(const Query *query, const char *text)
{
	List	   *result = NIL;
	GjTrial    *trial = GjTrialMake(query, text);
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
 * Plan the query as it is; returns what it wants
 *
 * The planner may be about to evaluate a function, for somebody else's wishes, and this be called
 * in that: those are kept meanwhile.
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
		*cost = GjTrialStart(trial);
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
 * Note what the query wants of a table, if somebody asks
 *
 * A partitioned table comes itself, with its conditions, and its partitions are there only to be
 * counted.  Other children, of inheritance or UNION ALL, stand for themselves.
 */
void
GjAdviseNoteTable(PlannerInfo *root, RelOptInfo *rel)
{
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
	RangeTblEntry *named;
	Wish	   *wish;

	if (wishing == NULL || root->glob->boundParams != wishing->params ||
		!GjNewIndexPlansWithout(root) || rte->rtekind != RTE_RELATION ||
		(rte->inh && rte->relkind != RELKIND_PARTITIONED_TABLE) ||
		(!rte->inh && !GjIsUserTable(rte)))
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
 * Note the columns of a table.  A clause of a join is in joininfo, or has become an equivalence
 * class.
 */
static void
note_columns(PlannerInfo *root, RelOptInfo *rel, Wish *wish)
{
	MemoryContext old = MemoryContextSwitchTo(wishes_context);
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

	add_columns((Node *) filters, rel->relid, &wish->keys, &ignored);
	add_columns((Node *) joins, rel->relid, &wish->keys, &ignored);
	add_equal_columns(root->eq_classes, true, rel->relid, &wish->keys);
	add_set_columns((Node *) filters, rel->relid, &wish->sets);
	add_equal_columns(root->eq_classes, true, rel->relid, &wish->sets);
	add_columns((Node *) filters, rel->relid, &wish->helpful, &ignored);
	add_equal_columns(sort_classes(root), false, rel->relid, &wish->helpful);
	if (rel->relid == root->parse->resultRelation)
		add_updated_columns(root, &wish->updated);
	add_columns((Node *) filters, rel->relid, &wish->wanted, &wish->has_others);
	add_columns((Node *) rel->reltarget->exprs, rel->relid, &wish->wanted, &wish->has_others);
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
 * Add the columns that stand in equivalence classes; if joined, in those of several tables
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
 * Add the columns of column = ANY (array)
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
 * Add the columns of the result relation to which the statement assigns values
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
 * Find the key that saves most, or say of each why it would not do
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
		else if (best == NULL || advice->cost_with < best->cost_with)
			best = advice;
	}
	return best ? list_make1(best) : refused;
}

/*
 * Refuse indexes that would save little where others are
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
			with = GjNewIndexCost(trial, lappend(list_copy(indexes), &next->index));
		if (indexes == NIL || with <= cost * (1.0 - GJ_ADVISE_LEAST_SAVING))
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

	advice->index = wide;
	advice->cost_now = cost;
	advice->assumed = GjAssumedText(trial);
	advice->replaces = find_index(&wide, &existing);
	if (wish->tuples >= gj_min_rows)
	{
		advice->cost_with = GjNewIndexCost(trial, list_make1(&advice->index));
		wide.included = columns_to_include(wish, key);
	}
	if (wide.included != NULL && !bms_is_subset(wide.included, existing))
	{
		Bitmapset  *all = bms_union(wide.included, existing);
		Cost		with;

		if (bms_num_members(all) <= GJ_MAX_INCLUDED)
			wide.included = all;
		with = GjNewIndexCost(trial, list_make1(&wide));
		if (with < advice->cost_with * (1.0 - GJ_ADVISE_LEAST_SAVING))
		{
			advice->index = wide;
			advice->cost_with = with;
		}
	}
	advice->refused = refuse(wish, advice, OidIsValid(advice->replaces) &&
							 bms_is_subset(advice->index.included, existing));
	return advice;
}

/*
 * Say that a column's type has no operator class of ours
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
 * Return the columns to be included beside a key: all that the query wants, if that can be
 */
static Bitmapset *
columns_to_include(const Wish *wish, AttrNumber key)
{
	Bitmapset  *others = bms_del_member(bms_copy(wish->wanted), key);
	Bitmapset  *result = NULL;
	Relation	table = table_open(wish->table, NoLock);
	int			attno = -1;

	while ((attno = bms_next_member(others, attno)) >= 0)
	{
		if (GjCanInclude(TupleDescAttr(RelationGetDescr(table), attno - 1)) &&
			!bms_is_member(attno, wish->updated))
			result = bms_add_member(result, attno);
	}
	table_close(table, NoLock);

	if (wish->has_others || bms_num_members(others) > bms_num_members(result) ||
		bms_num_members(result) > GJ_MAX_INCLUDED)
		result = bms_int_members(result, wish->helpful);
	return bms_num_members(result) > GJ_MAX_INCLUDED ? NULL : result;
}

/*
 * Say why an index would not pay; NULL if it would
 */
static const char *
refuse(const Wish *wish, const GjAdvice *advice, bool has_index)
{
	if (wish->tuples < gj_min_rows)
		return psprintf("the table has about %.0f rows, fewer than gpujoin.min_rows (%d)",
						wish->tuples, gj_min_rows);
	if (has_index)
		return "the column has a gpujoin index already";
	if (advice->cost_with <= advice->cost_now * (1.0 - GJ_ADVISE_LEAST_SAVING))
		return NULL;
	if (advice->cost_with < advice->cost_now)
		return "it would save less than a tenth of the cost";
	return "the plan without it stays cheaper";
}

/*
 * Find an index of ours with this key, of several one with the most columns, and these; returns
 * InvalidOid if there is none
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
