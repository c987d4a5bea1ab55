/*-------------------------------------------------------------------------
 *
 * entryfilter.c
 *	  Which filters of a table can be tested on index entries, and whether the entries have all
 *	  columns that are needed.
 *
 * The executor removes entries before it reads the visibility map or the heap (rows/filter.c).  A
 * clause qualifies if it consists of comparisons of one column of the index each with a value that
 * is the same for each row, of IN lists, tests for NULL, and boolean columns; these may be
 * combined by AND, OR, NOT and IS [NOT] TRUE, FALSE or UNKNOWN.
 *
 * Entries may belong to rows that are dead or invisible to the query, and they are tested before
 * other clauses.  So an operator must neither fail nor disclose its arguments: it must be
 * immutable and leakproof, and belong to the btree family of a built-in type.  For the same reason
 * security barriers do not matter here: core, too, evaluates leakproof clauses first.  PostgreSQL
 * does not mark the comparisons of numerics as leakproof.  We compare integers in their place,
 * which neither fails nor discloses anything, but we respect the mark: such a clause does not
 * qualify if the table has security barriers.  The same holds for the cast from bpchar to text.
 *
 * The value that a column is compared with is evaluated once for each scan, as in PostgreSQL's
 * index scans.  That must not raise an error that the clause itself would not raise: in "x = 0 OR
 * c = 1 / x", the value 1 / x is not evaluated if x is 0.  So a value that can fail is accepted
 * only if the clause evaluates it for each row.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/pg_proc_d.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "node/scanplan.h"
#include "sets/sets.h"
#include "planner.h"

/* Cost of comparing a byte of a column; a look-up in a longer list counts as LOOK_UP_BYTES */
#define TEST_BYTE_COST			2.2e-5
#define LOOK_UP_BYTES			64.0
#define FEW_LISTED				8.0

/*
 * Cost of looking up an entry's tuple, and of each part of it: 22 ns for one part, between the two
 * scales of cost.c, as look-ups in a btree on all columns compete, and scans
 */
#define TUPLE_COST				0.007
#define PART_COST				0.003

/* Result of looking up an operator */
typedef struct OperatorNote
{
	Oid			opno;			/* InvalidOid if unused */
	bool		known;			/* true for a comparison that we can evaluate */
	Oid			left;
	Oid			right;
	GjFilterOperator operator;
} OperatorNote;

/* State of making a filter plan */
typedef struct Maker
{
	const IndexOptInfo *index;
	Index		varno;
	List	   *steps;
	int			column;			/* of the index, that was found last */
	int			ncolumns;		/* number of columns added */
	Cost		cost;			/* cost of testing an entry */

	/* the last operators looked up: long OR chains have only one or two */
	OperatorNote notes[2];
	int			next_note;
} Maker;

static double share_passing(Selectivity selectivity, double absent, double *lacking);
static List *used_columns(const RelOptInfo *rel, List *rinfos);
static List *find_clauses(RelOptInfo *rel, const IndexOptInfo *index, List *rinfos,
						  Cost *per_entry);
static bool add_clause(Maker *maker, Expr *expr);
static bool entry_add(Maker *maker, Expr *expr, bool always);
static bool add_bool(Maker *maker, BoolExpr *expr, bool always);
static bool add_null_test(Maker *maker, NullTest *test, bool always);
static bool add_comparison(Maker *maker, Expr *clause, bool always);
static bool find_compared(void *maker, Node *expr);
static FuncExpr *get_cast(Node *expr);
static bool has_values(const Maker *maker, Node *compared, Oid type, Oid collation);
static Cost test_cost(int width, double nvalues);
static double count_elements(Expr *array);
static bool entry_add_column(Maker *maker, Expr *expr);
static bool entry_add_value(Maker *maker, Expr *expr, bool always);
static void entry_add_step(Maker *maker, int step);
static bool entry_find_column(Maker *maker, void *expr);
static bool entry_value_is_usable(Expr *expr, bool always);
static bool entry_look_up_operator(Maker *maker, Oid opno, Oid *left, Oid *right,
								   GjFilterOperator *operator);
static bool entry_find_operator(const Maker *maker, Oid opno, Oid *left, Oid *right,
								GjFilterOperator *operator);
static bool has_no_barrier(const RelOptInfo *rel);
static bool tells_keys(PlannerInfo *root, const IndexOptInfo *index);
static int	index_column(const IndexOptInfo *index, AttrNumber attno);
static List *make_filter_plan(const IndexOptInfo *index, Index varno, List **quals,
							  List *parts, List **filters);

/*
 * Return true if all clauses can be tested on entries
 */
bool
GjFilterTakesAll(RelOptInfo *rel, const IndexOptInfo *index, List *rinfos)
{
	Cost		per_entry;

	return list_length(find_clauses(rel, index, rinfos, &per_entry)) == list_length(rinfos);
}

/*
 * Estimate the fraction of the index's entries that clauses remove, as far as they can be tested on
 * entries; *clauses become those that can be, and *per_entry the cost of their tests
 *
 * Entries that lack a value of a clause remain.  *lacking is the fraction of all entries that lack
 * some value which the scan needs, and becomes that of the remaining ones.
 */
Selectivity
GjFilterShare(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index, List *rinfos,
			  double *lacking, List **clauses, Cost *per_entry)
{
	Selectivity selectivity;
	double		absent;

	*clauses = find_clauses(rel, index, rinfos, per_entry);
	if (*clauses == NIL)
		return 0.0;
	selectivity = clauselist_selectivity(root, *clauses, rel->relid, JOIN_INNER, NULL);
	absent = GjWordsLacking(root, rel, index, used_columns(rel, *clauses));
	return 1.0 - share_passing(selectivity, absent, lacking);
}

/*
 * Return the fraction of entries that pass a test of this selectivity, including those that lack
 * the value to be tested; *lacking as in GjFilterShare()
 */
static double
share_passing(Selectivity selectivity, double absent, double *lacking)
{
	double		passing = absent + (1.0 - absent) * selectivity;

	if (absent > 0.0)
		*lacking = 1.0 - selectivity * (1.0 - Max(*lacking, absent)) / passing;
	return passing;
}

/*
 * Charge for testing entries by tuples whose columns the index has; selectivity is the fraction of
 * the entries with a listed key that are in a tuple
 */
void
GjChargeParts(PlannerInfo *root, GjCostInput *input, const GjTuples *tuples,
			  Selectivity selectivity)
{
	List	   *attnos;
	double		absent;

	(void) GjIndexOnlyHas(input->index, input->rel->relid, tuples->columns, &attnos);
	absent = GjWordsLacking(root, input->rel, input->index, attnos);
	input->filtered = 1.0 - (1.0 - input->filtered) *
		share_passing(selectivity, absent, &input->lacking);
	input->filter_cost += TUPLE_COST + list_length(tuples->columns) * PART_COST;
}

/*
 * List the attributes of a table that clauses use
 */
static List *
used_columns(const RelOptInfo *rel, List *rinfos)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, rinfos)
	{
		Bitmapset  *used = NULL;
		int			member = -1;

		pull_varattnos((Node *) lfirst_node(RestrictInfo, lc)->clause, rel->relid, &used);
		while ((member = bms_next_member(used, member)) >= 0)
			result = lappend_int(result, member + FirstLowInvalidHeapAttributeNumber);
	}
	return result;
}

/*
 * List the clauses that can be tested on an entry of the index, and compute the cost of testing one
 */
static List *
find_clauses(RelOptInfo *rel, const IndexOptInfo *index, List *rinfos, Cost *per_entry)
{
	List	   *result = NIL;
	Maker		maker = {.index = index,.varno = rel->relid};
	ListCell   *lc;

	foreach(lc, rinfos)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (!rinfo->pseudoconstant && add_clause(&maker, rinfo->clause))
			result = lappend(result, rinfo);
	}
	*per_entry = maker.cost;
	return result;
}

/*
 * Add a whole clause, or nothing.  A clause without a column does not qualify.
 */
static bool
add_clause(Maker *maker, Expr *expr)
{
	int			nsteps = list_length(maker->steps);
	int			ncolumns = maker->ncolumns;
	Cost		cost = maker->cost;

	if (entry_add(maker, expr, true) && maker->ncolumns > ncolumns)
		return true;
	maker->steps = list_truncate(maker->steps, nsteps);
	maker->cost = cost;
	return false;
}

/*
 * Add an expression; returns false, possibly with a part of it added, if that is not possible
 *
 * always is true if the clause evaluates the expression for each row.
 */
static bool
entry_add(Maker *maker, Expr *expr, bool always)
{
	check_stack_depth();
	if (IsA(expr, BoolExpr))
		return add_bool(maker, (BoolExpr *) expr, always);
	if (IsA(expr, BooleanTest))
	{
		entry_add_step(maker, GJ_STEP_TRUTH);
		return entry_add(maker, ((BooleanTest *) expr)->arg, always);
	}
	if (IsA(expr, NullTest) && add_null_test(maker, (NullTest *) expr, always))
		return true;
	return add_comparison(maker, expr, always) || entry_add_column(maker, expr) ||
		entry_add_value(maker, expr, always);
}

/*
 * Add AND, OR or NOT.  The operands after the first are not always evaluated.
 */
static bool
add_bool(Maker *maker, BoolExpr *expr, bool always)
{
	ListCell   *lc;

	entry_add_step(maker, expr->boolop == AND_EXPR ? GJ_STEP_AND :
				   expr->boolop == OR_EXPR ? GJ_STEP_OR : GJ_STEP_NOT);
	foreach(lc, expr->args)
	{
		if (!entry_add(maker, lfirst(lc), always && lc == list_head(expr->args)))
			return false;
	}
	return true;
}

static bool
add_null_test(Maker *maker, NullTest *test, bool always)
{
	if (test->argisrow || !entry_find_column(maker, test->arg))
		return false;
	if (test->nulltesttype == IS_NOT_NULL)
		entry_add_step(maker, GJ_STEP_NOT);
	entry_add_step(maker, GJ_STEP_NULL);
	entry_add_step(maker, maker->column);
	maker->ncolumns++;
	return true;
}

/*
 * Add "column operator value", column = ANY (array), or its negation, column <> ALL (array)
 */
static bool
add_comparison(Maker *maker, Expr *clause, bool always)
{
	GjComparison comparison;
	GjFilterOperator operator;
	Oid			left;
	Oid			right;

	if (!GjReadComparison((Node *) clause, find_compared, maker, &comparison) ||
		!entry_value_is_usable(comparison.value, always) ||
		!entry_look_up_operator(maker, comparison.opno, &left, &right, &operator) ||
		(comparison.is_array && operator != (comparison.is_any ? GJ_FILTER_EQ : GJ_FILTER_NE)) ||
		!has_values(maker, comparison.column, left, comparison.collation))
		return false;

	if (comparison.is_array && !comparison.is_any)
		entry_add_step(maker, GJ_STEP_NOT);
	entry_add_step(maker, comparison.is_array ? GJ_STEP_ANY : GJ_STEP_COMPARE);
	entry_add_step(maker, maker->column);
	entry_add_step(maker, left);
	entry_add_step(maker, right);
	entry_add_step(maker, comparison.is_turned ? 0 : 1);
	entry_add_step(maker, operator);
	maker->cost += test_cost(get_typlen(left),
							 comparison.is_array ? count_elements(comparison.value) : 1.0);
	maker->ncolumns++;
	return true;
}

/*
 * Find the column of a comparison.  A bpchar may be cast to text, as PostgreSQL does to compare it
 * with a text.
 */
static bool
find_compared(void *maker, Node *expr)
{
	FuncExpr   *cast = get_cast(expr);

	return entry_find_column(maker, cast == NULL ? expr : linitial(cast->args));
}

/*
 * Return the cast from bpchar to text, or NULL
 */
static FuncExpr *
get_cast(Node *expr)
{
	FuncExpr   *cast = GjStripRelabel(expr);

	return IsA(cast, FuncExpr) && cast->funcid == F_TEXT_BPCHAR ? cast : NULL;
}

/*
 * Return true if the words of the column tell whether values of this type are equal.  Those of
 * texts do not if the collation treats different bytes as equal.
 */
static bool
has_values(const Maker *maker, Node *compared, Oid type, Oid collation)
{
	bool		is_cast = get_cast(compared) != NULL;

	if (is_cast && !has_no_barrier(maker->index->rel))
		return false;			/* the cast is not leakproof */
	if (type != TEXTOID && type != BPCHAROID)
		return true;
	return get_collation_isdeterministic(collation) &&
		GjColumnHasWords(maker->index, maker->column, is_cast || type == BPCHAROID);
}

/*
 * Return the cost of comparing a value of width bytes with nvalues others.  Values whose width
 * varies have words.
 */
static Cost
test_cost(int width, double nvalues)
{
	if (width < 0)
		width = sizeof(int64);
	return TEST_BYTE_COST * (nvalues <= FEW_LISTED ? nvalues * width : LOOK_UP_BYTES);
}

/*
 * Return the number of elements of an array; infinity if it is not known
 */
static double
count_elements(Expr *array)
{
	const Const *constant = (const Const *) array;
	ArrayType  *elements;

	if (!IsA(array, Const) || constant->constisnull)
		return get_float8_infinity();
	elements = DatumGetArrayTypeP(constant->constvalue);
	return ArrayGetNItems(ARR_NDIM(elements), ARR_DIMS(elements));
}

/*
 * Add a boolean column, which is a condition by itself
 */
static bool
entry_add_column(Maker *maker, Expr *expr)
{
	if (exprType((Node *) expr) != BOOLOID || !entry_find_column(maker, expr))
		return false;
	entry_add_step(maker, GJ_STEP_COLUMN);
	entry_add_step(maker, maker->column);
	maker->ncolumns++;
	return true;
}

/*
 * Add a condition that is the same for each row, as in "$1 IS NULL OR c = $1"
 */
static bool
entry_add_value(Maker *maker, Expr *expr, bool always)
{
	if (exprType((Node *) expr) != BOOLOID || !entry_value_is_usable(expr, always))
		return false;
	entry_add_step(maker, GJ_STEP_VALUE);
	return true;
}

static void
entry_add_step(Maker *maker, int step)
{
	maker->steps = lappend_int(maker->steps, step);
}

/*
 * Return true if an expression is a column of the table that the index stores unchanged
 *
 * The column may be relabeled as a binary-compatible type.
 */
static bool
entry_find_column(Maker *maker, void *expr)
{
	const IndexOptInfo *index = maker->index;
	Var		   *var = GjStripRelabel(expr);

	if (var == NULL || !IsA(var, Var) || var->varno != maker->varno || var->varlevelsup != 0 ||
		var->varattno <= 0)
		return false;
	for (int i = 0; i < index->ncolumns; i++)
	{
		if (index->indexkeys[i] != var->varattno)
			continue;
		if (i == 0 && !GjIndexKeepsValues(index))
			continue;
		maker->column = i;
		return true;
	}
	return false;
}

/*
 * Return true if an expression can be evaluated when the scan starts
 */
static bool
entry_value_is_usable(Expr *expr, bool always)
{
	return GjIsSameForRows((Node *) expr) && (always || !GjMayFail((Node *) expr, NULL));
}

/*
 * Determine the comparison and the types of an operator, and remember the result
 */
static bool
entry_look_up_operator(Maker *maker, Oid opno, Oid *left, Oid *right, GjFilterOperator *operator)
{
	OperatorNote *note = &maker->notes[0];

	if (note->opno != opno)
		note = &maker->notes[1];
	if (note->opno != opno)
	{
		note = &maker->notes[maker->next_note];
		maker->next_note = 1 - maker->next_note;
		note->opno = opno;
		note->known = entry_find_operator(maker, opno, &note->left, &note->right, &note->operator);
	}
	*left = note->left;
	*right = note->right;
	*operator = note->operator;
	return note->known;
}

static bool
entry_find_operator(const Maker *maker, Oid opno, Oid *left, Oid *right, GjFilterOperator *operator)
{
	Oid			function = get_opcode(opno);

	if (!GjFindOperator(opno, left, right, operator) || !OidIsValid(function) ||
		!(get_func_leakproof(function) ||
		  (*left == NUMERICOID && has_no_barrier(maker->index->rel))) ||
		func_volatile(function) != PROVOLATILE_IMMUTABLE)
		return false;

	/* pairs of words are only tested for equality */
	return (*left != UUIDOID && *left != TEXTOID && *left != BPCHAROID) ||
		*operator == GJ_FILTER_EQ || *operator == GJ_FILTER_NE;
}

/*
 * Return true if none of a table's clauses must be evaluated before others
 */
static bool
has_no_barrier(const RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		if (lfirst_node(RestrictInfo, lc)->security_level > 0)
			return false;
	}
	return true;
}

/*-------------------------------------------------------------------------
 * Index-only answers
 *
 * Test whether an index of ours has all columns that a query needs of a table.
 *
 * If it does, rows on all-visible pages need not be read from the heap (match/stream.c).  The
 * columns needed are those that leave the scan (reltarget) and those that filters use.  The
 * conditions on the key need no column: a match is exact if the index has the values, and rows
 * that are read from the heap have all attributes.
 *
 * The key can be returned as a column's value only if the column itself is indexed and the
 * operator class stores it unchanged, or as a code and a rest.  Our own operator classes do; we
 * know nothing about the key functions of others.  INCLUDE columns are stored unchanged.  If codes
 * have rests, a search also finds entries with the same code and another rest: these are dropped
 * by a filter, or have no partner in a join.
 *
 * If the index has hashes of its keys, but images of nearly all, as the caller says, then entries
 * with an image can be rows: the image proves that the key is listed.  The scan reads the rows of
 * the others from the heap (rows/rows.c).  The key's value cannot be returned.  The same is done
 * for an index of texts in which the codes of a few keys are hashes; the values of these can be
 * returned, because their rows come from the heap.
 *
 * System columns are not in the index.  This excludes tables that are updated or whose rows are
 * locked: their plans need ctid.
 *
 * In a serializable transaction every row is read from the heap (match/visible.c), so plans made
 * in one are neither offered nor costed as index-only.  A cached plan may be executed at another
 * isolation level than it was made for: correctness is decided at execution, only speed is decided
 * here.
 *-------------------------------------------------------------------------
 */

/*
 * Return true if a scan can be answered from the index alone; attnos become the attributes that it
 * needs, in ascending order
 *
 * filters are the clauses that the scan tests.
 */
bool
GjIndexOnlyCovers(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index, List *filters,
				  bool has_images, List **attnos)
{
	List	   *exprs = list_copy(rel->reltarget->exprs);
	ListCell   *lc;

	*attnos = NIL;
	if (!enable_indexonlyscan || IsolationIsSerializable() || index->indexkeys[0] == 0)
		return false;

	foreach(lc, filters)
		exprs = lappend(exprs, lfirst_node(RestrictInfo, lc)->clause);
	return GjIndexOnlyHas(index, rel->relid, exprs, attnos) &&
		(has_images ? !list_member_int(*attnos, index->indexkeys[0]) : tells_keys(root, index));
}

/*
 * Return true if an index has the keys, or nearly all: if its class packs texts into codes and
 * rests, nearly all known values of the column must have a form that can be packed
 *
 * The others are read from the heap, one by one, so this decides only about speed.
 */
static bool
tells_keys(PlannerInfo *root, const IndexOptInfo *index)
{
	VariableStatData variable;
	bool		result;

	if (!OidIsValid(GjIndexRestProc(index)))
		return GjIndexKeepsValues(index);
	if (index->opcintype[0] != TEXTOID)
		return true;
	examine_variable(root, (Node *) linitial_node(TargetEntry, index->indextlist)->expr, 0,
					 &variable);
	result = !HeapTupleIsValid(variable.statsTuple) || GjTextsArePacked(variable.statsTuple);
	ReleaseVariableStats(variable);
	return result;
}

/*
 * Return true if an index has all attributes of its table that these expressions use
 */
bool
GjIndexOnlyHas(IndexOptInfo *index, Index varno, List *exprs, List **attnos)
{
	Bitmapset  *used = NULL;
	int			member = -1;

	*attnos = NIL;
	pull_varattnos((Node *) exprs, varno, &used);
	while ((member = bms_next_member(used, member)) >= 0)
	{
		AttrNumber	attno = member + FirstLowInvalidHeapAttributeNumber;

		if (attno <= 0 || index_column(index, attno) < 0)
			return false;
		*attnos = lappend_int(*attnos, attno);
	}
	return true;
}

/*
 * List the index's columns that prove, with the code, that an entry is listed, so that entries can
 * be tested; NIL if they cannot be or need not be
 *
 * Codes that have rests are proved by these, which are behind the other columns of the index.  All
 * further parts of tuples must be in the index.  They must be integers, uuids, texts or bpchars
 * that are equal if their bytes are, or the like: no function may be called, since entries include
 * rows that the query must not see.
 */
List *
GjFilterParts(const IndexOptInfo *index, const GjTuples *tuples)
{
	List	   *result = NIL;
	ListCell   *column,
			   *opno,
			   *collation;

	/* codes of tuples are keys, as entries have them */
	if (OidIsValid(GjIndexRestProc(index)))
		result = list_make1_int(index->ncolumns);
	if (tuples == NULL)
		return result;
	forthree(column, tuples->columns, opno, tuples->operators, collation, tuples->collations)
	{
		Var		   *var = GjStripRelabel(lfirst(column));
		GjExactPart part;
		int			position;

		if (tuples->key_is_part && foreach_current_index(column) == 0)
			continue;
		if (!IsA(var, Var) ||
			!GjExactPartInit(&part, lfirst_oid(opno), lfirst_oid(collation), InvalidOid) ||
			!GjExactPartIsBits(&part))
			return NIL;
		position = index_column(index, var->varattno);
		if (position < 1 ||
			(part.is_bytes && !GjColumnHasWords(index, position, false) &&
			 !(part.is_padded && GjColumnHasWords(index, position, true))))
			return NIL;
		result = lappend_int(result, position);
	}
	return result;
}

/*
 * Return the position of an attribute in the index, from 0; -1 if it is not there
 */
static int
index_column(const IndexOptInfo *index, AttrNumber attno)
{
	for (int i = 0; i < index->ncolumns; i++)
	{
		if (index->indexkeys[i] == attno)
			return i;
	}
	return -1;
}

/*-------------------------------------------------------------------------
 * Plans
 *
 * The common part of the plans of all nodes that scan a table by an index.
 *-------------------------------------------------------------------------
 */

/*
 * Fill in the common part of the plans of GpuScan and GpuJoinScan (node/scanplan.h)
 *
 * quals are the clauses to be tested, parts the columns of the index by which entries are looked
 * up in the exact table (GjFilterParts), attnos the attributes of rows that come from the index
 * alone.
 */
void
GjPlanTable(CustomScan *scan, IndexOptInfo *index, List *quals, List *parts, bool index_only,
			List *attnos)
{
	Index		varno = scan->scan.scanrelid;
	List	   *filters;
	List	   *filter_plan = make_filter_plan(index, varno, &quals, parts, &filters);
	Expr	   *key = copyObject(linitial_node(TargetEntry, index->indextlist)->expr);

	/*
	 * The predicate of a partial index is tested before a row's key is read, if the key is an
	 * expression, which may fail for other rows.  Reading a column never fails.
	 */
	List	   *predicate = index->indexkeys[0] == 0 ? copyObject(index->indpred) : NIL;

	scan->scan.plan.qual = quals;
	scan->custom_exprs = list_make3(key, predicate, filters);
	Assert(list_length(scan->custom_exprs) == GJ_TABLE_EXPRS_COUNT);
	scan->custom_private = list_make5(list_make1_oid(index->indexoid),
									  makeInteger(index->indexkeys[0]), makeBoolean(index_only),
									  attnos, filter_plan);
	Assert(list_length(scan->custom_private) == GJ_TABLE_PRIVATE_COUNT);
}

/*
 * Make a plan of those of a scan's quals that can be tested on entries, and move these from quals
 * to filters
 *
 * Rows from the table are also tested by filters, before quals.  The order does not matter to
 * security barriers, because filters are leakproof.
 */
static List *
make_filter_plan(const IndexOptInfo *index, Index varno, List **quals, List *parts,
				 List **filters)
{
	Maker		maker = {.index = index,.varno = varno};
	List	   *rest = NIL;
	ListCell   *lc;

	*filters = NIL;
	foreach(lc, *quals)
	{
		if (add_clause(&maker, lfirst(lc)))
			*filters = lappend(*filters, lfirst(lc));
		else
			rest = lappend(rest, lfirst(lc));
	}
	*quals = rest;
	return *filters == NIL && parts == NIL ? NIL : list_make2(maker.steps, parts);
}
