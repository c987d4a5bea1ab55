/*-------------------------------------------------------------------------
 *
 * order.c
 *	  ORDER BY ... LIMIT: which order a scan can give its rows in, and how many are wanted.
 *
 * No upper path is made: the table's scan has pathkeys, as an index scan has, and PostgreSQL adds
 * what belongs above it: locking rows, the limit itself, further sort columns (Incremental Sort),
 * other partitions (MergeAppend), and min() and max() as a LIMIT 1.
 *
 * The order can be given as far as its columns are in the index and of types that are compared as
 * integers or floats are.  It is offered only where few rows are wanted, so that each can be
 * fetched by itself; costs decide.
 *
 * How many rows are wanted is a hint.  The scan goes on as long as it is asked.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "node/scanplan.h"
#include "sets/sets.h"
#include "planner.h"

/* Rows that are expected to be wanted if the query does not say it */
#define UNKNOWN_LIMIT			200.0

/* More are not prepared at once, whatever the limit */
#define MAX_BOUND				1000000.0

/* Candidates that turn out not to be visible are hoped to be fewer than these */
#define SPARE_PART				1.25
#define SPARE_ROWS				16.0

static bool wants_few(PlannerInfo *root);
static int	find_column(PlannerInfo *root, IndexOptInfo *index, PathKey *pathkey);
static bool is_default_order(PathKey *pathkey, Oid type);
static Size get_width(const RelOptInfo *rel, AttrNumber attno);

/*
 * How much of the order that the query wants can entries of the index be put in?  Returns these
 * pathkeys and fills order: GJ_SCAN_ORDER
 */
List *
GjOrderPathkeys(PlannerInfo *root, IndexOptInfo *index, List **order)
{
	List	   *pathkeys = NIL;
	ListCell   *lc;

	*order = NIL;
	if (!wants_few(root))
		return NIL;
	foreach(lc, root->query_pathkeys)
	{
		PathKey    *pathkey = lfirst_node(PathKey, lc);
		int			column = find_column(root, index, pathkey);

		if (column < 0)
			break;
		pathkeys = lappend(pathkeys, pathkey);
		*order = lappend(*order, list_make3_int(index->indexkeys[column],
												GjPathKeyIsDescending(pathkey),
												pathkey->pk_nulls_first));
	}
	return pathkeys;
}

/*
 * Does the query want few of the rows that come in its order?  Groups and the like, which want
 * orders of their own, take all.
 */
static bool
wants_few(PlannerInfo *root)
{
	Query	   *parse = root->parse;

	return root->query_pathkeys != NIL && root->tuple_fraction > 0.0 &&
		parse->groupClause == NIL && parse->groupingSets == NIL && !parse->hasAggs &&
		parse->distinctClause == NIL && !parse->hasWindowFuncs && !root->hasHavingQual;
}

/*
 * The index's column that the pathkey sorts by; -1 if there is none that will do
 */
static int
find_column(PlannerInfo *root, IndexOptInfo *index, PathKey *pathkey)
{
	EquivalenceClass *ec = pathkey->pk_eclass;
	ListCell   *lc;

	if (ec->ec_has_volatile)
		return -1;
	foreach(lc, index->indextlist)
	{
		int			column = foreach_current_index(lc);
		Var		   *var = (Var *) lfirst_node(TargetEntry, lc)->expr;
		GjSortKind	kind;

		/* the key may be kept as something else */
		if (!IsA(var, Var) || var->varattno <= 0 || (column == 0 && !GjIndexKeepsValues(index)) ||
			!GjTypeSorts(var->vartype, &kind) || !is_default_order(pathkey, var->vartype))
			continue;
		if (find_ec_member_matching_expr(ec, (Expr *) var, index->rel->relids) != NULL)
			return column;
	}
	return -1;
}

static bool
is_default_order(PathKey *pathkey, Oid type)
{
	return lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf == pathkey->pk_opfamily;
}

/*
 * How many entries should be prepared at first, if so many lead to one row?  As many as have the
 * rows that are wanted, if those that filters remove are spread evenly, and some more for rows
 * that are dead or join nothing.
 */
double
GjOrderBound(PlannerInfo *root, double per_row)
{
	double		wanted = root->limit_tuples > 0.0 ? root->limit_tuples : UNKNOWN_LIMIT;

	if (root->parse->limitOption == LIMIT_OPTION_WITH_TIES)
		wanted *= 2.0;
	return Min(wanted * per_row * SPARE_PART + SPARE_ROWS, MAX_BOUND);
}

/*
 * Estimate the share of a table's rows that are taken in order.  Of a table that is joined,
 * PostgreSQL says only how many rows of the join are wanted.
 */
double
GjOrderTaken(PlannerInfo *root, const RelOptInfo *rel)
{
	double		rows = root->limit_tuples > 0.0 ? root->limit_tuples : root->tuple_fraction;

	if (root->limit_tuples <= 0.0 && root->tuple_fraction < 1.0)
		return root->tuple_fraction;
	return Min(rows / Max(rel->rows, 1.0), 1.0);
}

/*
 * Estimate the memory that an entry takes while it is put in order; kept are the attributes that
 * rows have from entries
 */
Size
GjOrderEntryBytes(const RelOptInfo *rel, List *order, List *kept)
{
	int			nwords = 1;		/* the TID */
	Size		bytes = 0;
	ListCell   *lc;

	foreach(lc, order)
	{
		nwords += get_width(rel, list_nth_int(lfirst(lc), GJ_ORDER_ATTNO)) > sizeof(uint32) ? 2 : 1;
	}
	foreach(lc, kept)
		bytes += get_width(rel, lfirst_int(lc)) + 1;
	return GjTopEntryBytes(nwords, bytes);
}

static Size
get_width(const RelOptInfo *rel, AttrNumber attno)
{
	int32		width = rel->attr_widths[attno - rel->min_attr];

	return width > 0 ? width : sizeof(int64);
}

/*
 * The sort columns as expressions, for EXPLAIN
 */
List *
GjOrderColumns(IndexOptInfo *index, List *order)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, order)
	{
		AttrNumber	attno = list_nth_int(lfirst(lc), GJ_ORDER_ATTNO);
		ListCell   *lc2;

		foreach(lc2, index->indextlist)
		{
			Var		   *var = (Var *) lfirst_node(TargetEntry, lc2)->expr;

			if (IsA(var, Var) && var->varattno == attno)
			{
				columns = lappend(columns, copyObject(var));
				break;
			}
		}
	}
	return columns;
}
