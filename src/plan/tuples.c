/*-------------------------------------------------------------------------
 *
 * tuples.c
 *	  Find lists of tuples in a clause: (a, b) IN ((1, 2), (3, 4)), one of whose columns is an
 *	  index's key.
 *
 * PostgreSQL's parser, and most ORMs, write such a list as an OR of ANDs.  An arm is a tuple if it
 * compares each of some columns with a value that is the same for each row, and all arms must
 * compare the same columns.  All tuples go into one exact table (sets/exact.c), which proves the
 * whole clause for a row, so that the clause need not be tested again.
 *
 * An arm may compare one of the columns with an array: a = 1 AND b = ANY ($1) is a tuple for each
 * element.  With two arrays, the tuples might not fit in memory.
 *
 * Arms may have different operators for one column, since integers of different widths do:
 * (1, 3000000000) makes the second column's operator int8 = int8, and (1, 2) int8 = int4.  Values
 * of such a column are converted to int8.  Other operators must be the same in each arm.
 *
 * If the index stores hashes of its keys, then the key is compared like the other columns.  It must
 * be a column, too.
 *
 * NULLs.  All operators are strict, so an arm with a NULL value is true for no row, and a row with
 * a NULL in one of the columns satisfies no arm.  Leaving both out has the same effect.
 *
 * Other clauses are not handled here, but by conditions.c; for an OR of which only some operands
 * are tuples, it finds the keys, and each row is tested by the clause.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_opfamily_d.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "sets/sets.h"
#include "planner.h"

/* Maximum number of columns of a tuple */
#define MAX_COLUMNS				8

/* A column of the tuples */
typedef struct Column
{
	Expr	   *expr;			/* as the first arm has it: a column of the table, or the key */
	AttrNumber	attno;			/* 0: the key is an expression */
	Oid			opno;			/* with the column on the left */
	Oid			collation;
	bool		is_mixed;		/* do arms have different operators, all of integers? */
	List	   *values;			/* the value of each plain arm */
} Column;

/* How values of a type are stored */
typedef struct ValueType
{
	int16		length;
	bool		byval;
} ValueType;

/* An arm that compares a column with an array */
typedef struct ArrayArm
{
	Expr	   *values[MAX_COLUMNS];
	int			array;			/* the column that is compared with an array */
} ArrayArm;

typedef struct Finder
{
	RelOptInfo *rel;
	IndexOptInfo *index;
	int			first_part;		/* first column that an exact table compares: 1, or 0 if keys are
								 * hashed */
	int			ncolumns;
	Column		columns[MAX_COLUMNS];	/* the key is the first */
	List	   *array_arms;
	AttrNumber	attno;			/* column of the comparison that was read last; 0: the key */
	bool		passes_barrier; /* are rows looked up that a security barrier hides? */
} Finder;

static bool add_arm(Finder *finder, Node *arm, bool is_first);
static bool read_cast(Finder *finder, Node *clause, GjComparison *comparison);
static Expr *to_bpchar(Expr *value, Oid collation);
static bool is_column(void *finder, Node *expr);
static bool is_cast_column(void *finder, Node *expr);
static int	tuple_find_column(Finder *finder, const GjComparison *comparison, bool is_first);
static bool tuple_same_operator(Column *column, const GjComparison *comparison);
static bool is_integer_equality(Oid opno);
static bool put_key_first(Finder *finder);
static bool settle_operators(Finder *finder);
static Expr *to_int8(Expr *value);
static GjTuples *make_tuples(Finder *finder);
static GjTuples *make_array_tuples(Finder *finder, const ArrayArm *arm);
static GjTuples *create_tuples(Finder *finder);
static Expr *make_values(Finder *finder, int column, List *values);
static double count_distinct(const Expr *array);
static int	tuple_compare_bytes(const void *a, const void *b, void *arg);
static bool parts_are_usable(const GjTuples *tuples);

/*
 * Return the tuples of an OR: a list of GjTuples with the same columns; NIL if it is not a list of
 * tuples that the index can search for
 */
List *
GjFindTuples(RelOptInfo *rel, IndexOptInfo *index, RestrictInfo *rinfo)
{
	BoolExpr   *clause = castNode(BoolExpr, rinfo->clause);
	Finder		finder = {.rel = rel,.index = index,.first_part = GjIndexIsHashed(index) ? 0 : 1,
	.passes_barrier = GjPassesBarrier(rinfo, rel)};
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, clause->args)
	{
		if (!add_arm(&finder, lfirst(lc), foreach_current_index(lc) == 0))
			return NIL;
	}
	if (!put_key_first(&finder) || !settle_operators(&finder))
		return NIL;

	if (finder.columns[0].values != NIL)
		result = list_make1(make_tuples(&finder));
	foreach(lc, finder.array_arms)
		result = lappend(result, make_array_tuples(&finder, lfirst(lc)));
	foreach(lc, result)
	{
		if (!parts_are_usable(lfirst(lc)))
			return NIL;
	}
	return result;
}

/*
 * Add an arm of the OR.  Returns false if it is not a tuple of the same columns.
 */
static bool
add_arm(Finder *finder, Node *arm, bool is_first)
{
	Expr	   *values[MAX_COLUMNS] = {NULL};
	List	   *args;
	int			array = -1;
	ListCell   *lc;

	if (!is_andclause(arm))
		return false;
	args = ((BoolExpr *) arm)->args;
	if (list_length(args) > MAX_COLUMNS ||
		(!is_first && list_length(args) != finder->ncolumns))
		return false;

	foreach(lc, args)
	{
		GjComparison comparison;
		int			column;

		if (!read_cast(finder, lfirst(lc), &comparison) &&
			(!GjReadComparison(lfirst(lc), is_column, finder, &comparison) ||
			 (comparison.is_array && !comparison.is_any)))
			return false;
		column = tuple_find_column(finder, &comparison, is_first);
		if (column < 0 || values[column] != NULL || (comparison.is_array && array >= 0))
			return false;
		values[column] = comparison.value;
		if (comparison.is_array)
			array = column;
	}

	if (array >= 0)
	{
		ArrayArm   *array_arm = palloc(sizeof(ArrayArm));

		memcpy(array_arm->values, values, sizeof(values));
		array_arm->array = array;
		finder->array_arms = lappend(finder->array_arms, array_arm);
		return true;
	}
	for (int i = 0; i < finder->ncolumns; i++)
		finder->columns[i].values = lappend(finder->columns[i].values, values[i]);
	return true;
}

/*
 * Read a comparison of a bpchar column that is cast to text, because some drivers send all
 * parameters as text
 *
 * The cast removes trailing blanks.  So the column is equal to a text that ends in no blank if and
 * only if it is equal to the same bytes as a bpchar, under a deterministic collation; no column is
 * equal to a text that ends in a blank, which is therefore replaced by NULL.
 */
static bool
read_cast(Finder *finder, Node *clause, GjComparison *comparison)
{
	if (!GjReadComparison(clause, is_cast_column, finder, comparison) ||
		comparison->is_array || comparison->opno != TextEqualOperator ||
		!OidIsValid(comparison->collation) ||
		!get_collation_isdeterministic(comparison->collation))
		return false;
	comparison->column = linitial(castNode(FuncExpr, GjStripRelabel(comparison->column))->args);
	comparison->value = to_bpchar(comparison->value, comparison->collation);
	comparison->opno = BpcharEqualOperator;
	return true;
}

/*
 * Convert a text to a bpchar, or to NULL if it ends in a blank
 */
static Expr *
to_bpchar(Expr *value, Oid collation)
{
	Expr	   *null = (Expr *) makeNullConst(BPCHAROID, -1, collation);
	Expr	   *trimmed;
	CaseWhen   *when;
	CaseExpr   *result;

	if (IsA(value, Const))
	{
		const Const *constant = (const Const *) value;
		text	   *bytes = constant->constisnull ? NULL : DatumGetTextPP(constant->constvalue);
		int			length = bytes == NULL ? 0 : VARSIZE_ANY_EXHDR(bytes);

		if (bytes == NULL || (length > 0 && VARDATA_ANY(bytes)[length - 1] == ' '))
			return null;
		return (Expr *) makeConst(BPCHAROID, -1, collation, -1, PointerGetDatum(bytes), false,
								  false);
	}

	/* CASE WHEN rtrim(value) = value THEN value::bpchar END */
	trimmed = (Expr *) makeFuncExpr(F_RTRIM_TEXT, TEXTOID, list_make1(value), collation, collation,
									COERCE_EXPLICIT_CALL);
	when = makeNode(CaseWhen);
	when->expr = make_opclause(TextEqualOperator, BOOLOID, false, trimmed, copyObject(value),
							   InvalidOid, collation);
	set_opfuncid((OpExpr *) when->expr);
	when->result = (Expr *) makeRelabelType(copyObject(value), BPCHAROID, -1, collation,
											COERCE_EXPLICIT_CAST);
	when->location = -1;
	result = makeNode(CaseExpr);
	result->casetype = BPCHAROID;
	result->casecollid = collation;
	result->args = list_make1(when);
	result->defresult = null;
	result->location = -1;
	return (Expr *) result;
}

/*
 * Return true if an expression is a column of the table, or the index's key
 */
static bool
is_column(void *arg, Node *expr)
{
	Finder	   *finder = arg;
	Var		   *var = GjStripRelabel(expr);

	finder->attno = 0;
	if (!IsA(var, Var))
		return finder->index->indexkeys[0] == 0 &&
			match_index_to_operand(expr, 0, finder->index);
	finder->attno = var->varattno;
	return var->varno == finder->rel->relid && var->varlevelsup == 0 && var->varattno > 0;
}

/*
 * Return true if an expression is a column of the table, cast from bpchar to text
 */
static bool
is_cast_column(void *finder, Node *expr)
{
	FuncExpr   *cast = GjStripRelabel(expr);

	return IsA(cast, FuncExpr) && cast->funcid == F_TEXT_BPCHAR &&
		is_column(finder, linitial(cast->args)) && ((Finder *) finder)->attno > 0;
}

/*
 * Return the number of the column that a comparison is about; -1 if it is none of the tuples'
 * columns, or if the tuples compare it by another operator
 */
static int
tuple_find_column(Finder *finder, const GjComparison *comparison, bool is_first)
{
	Column	   *column;

	for (int i = 0; i < finder->ncolumns; i++)
	{
		if (finder->columns[i].attno == finder->attno)
			return tuple_same_operator(&finder->columns[i], comparison) ? i : -1;
	}
	if (!is_first)
		return -1;

	column = &finder->columns[finder->ncolumns];
	column->expr = (Expr *) comparison->column;
	column->attno = finder->attno;
	column->opno = comparison->opno;
	column->collation = comparison->collation;
	return finder->ncolumns++;
}

static bool
tuple_same_operator(Column *column, const GjComparison *comparison)
{
	if (comparison->opno == column->opno)
		return comparison->collation == column->collation;
	if (!is_integer_equality(column->opno) || !is_integer_equality(comparison->opno))
		return false;
	column->is_mixed = true;
	return true;
}

static bool
is_integer_equality(Oid opno)
{
	return get_op_opfamily_strategy(opno, INTEGER_BTREE_FAM_OID) == BTEqualStrategyNumber;
}

/*
 * Make the index's key the first column.  Returns false if it is none of the columns.
 */
static bool
put_key_first(Finder *finder)
{
	if (finder->ncolumns < 2)
		return false;
	for (int i = 0; i < finder->ncolumns; i++)
	{
		Column		key = finder->columns[i];
		ListCell   *lc;

		if (key.attno != finder->index->indexkeys[0])
			continue;
		finder->columns[i] = finder->columns[0];
		finder->columns[0] = key;
		foreach(lc, finder->array_arms)
		{
			ArrayArm   *arm = lfirst(lc);
			Expr	   *value = arm->values[i];

			arm->values[i] = arm->values[0];
			arm->values[0] = value;
			arm->array = arm->array == i ? 0 : arm->array == 0 ? i : arm->array;
		}
		return true;
	}
	return false;
}

/*
 * Give each column one operator.  Returns false if a column that an exact table compares has one
 * that it cannot use.
 */
static bool
settle_operators(Finder *finder)
{
	for (int i = 0; i < finder->ncolumns; i++)
	{
		Column	   *column = &finder->columns[i];
		GjExactPart part;
		ListCell   *lc;

		if (column->is_mixed)
		{
			Oid			left_type;
			Oid			right_type;

			if (finder->array_arms != NIL)
				return false;
			op_input_types(column->opno, &left_type, &right_type);
			column->opno = get_opfamily_member(INTEGER_BTREE_FAM_OID, left_type, INT8OID,
											   BTEqualStrategyNumber);
			foreach(lc, column->values)
				lfirst(lc) = to_int8(lfirst(lc));
		}
		if (i >= finder->first_part &&
			(!GjExactPartInit(&part, column->opno, column->collation, InvalidOid) ||
			 (finder->passes_barrier && !GjHashIsHarmless(part.row_hash.fn_oid))))
			return false;
	}
	return true;
}

/*
 * Convert an integer to int8
 */
static Expr *
to_int8(Expr *value)
{
	Oid			type = exprType((Node *) value);
	Const	   *constant = (Const *) value;
	int64		number = 0;

	if (type == INT8OID)
		return value;
	if (!IsA(value, Const))
		return (Expr *) makeFuncExpr(type == INT4OID ? F_INT8_INT4 : F_INT8_INT2, INT8OID,
									 list_make1(value), InvalidOid, InvalidOid,
									 COERCE_IMPLICIT_CAST);
	if (!constant->constisnull)
		number = type == INT4OID ? DatumGetInt32(constant->constvalue) :
			DatumGetInt16(constant->constvalue);
	return (Expr *) makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(number),
							  constant->constisnull, FLOAT8PASSBYVAL);
}

/*
 * Make the tuples of the arms without an array
 */
static GjTuples *
make_tuples(Finder *finder)
{
	GjTuples   *tuples = create_tuples(finder);
	Expr	   *keys = make_values(finder, 0, finder->columns[0].values);

	tuples->key.value = keys;
	for (int i = finder->first_part; i < finder->ncolumns; i++)
		tuples->arrays = lappend(tuples->arrays, i == 0 ? keys :
								 make_values(finder, i, finder->columns[i].values));
	tuples->nkeys = count_distinct(keys);
	return tuples;
}

/*
 * Make the tuples of an arm with an array
 */
static GjTuples *
make_array_tuples(Finder *finder, const ArrayArm *arm)
{
	GjTuples   *tuples = create_tuples(finder);

	tuples->is_product = true;
	for (int i = 0; i < finder->ncolumns; i++)
	{
		Expr	   *array = i == arm->array ? arm->values[i] :
			make_values(finder, i, list_make1(arm->values[i]));

		if (i == 0)
		{
			tuples->key.value = array;
			tuples->nkeys = arm->array == 0 ? 0.0 : 1.0;
		}
		if (i >= finder->first_part)
			tuples->arrays = lappend(tuples->arrays, array);
	}
	return tuples;
}

/*
 * Create tuples without values
 */
static GjTuples *
create_tuples(Finder *finder)
{
	GjTuples   *tuples = palloc0(sizeof(GjTuples));

	tuples->key = (GjComparison) {.opno = finder->columns[0].opno,
		.collation = finder->columns[0].collation,.is_array = true,.is_any = true
	};
	tuples->key_is_part = finder->first_part == 0;
	for (int i = finder->first_part; i < finder->ncolumns; i++)
	{
		const Column *column = &finder->columns[i];

		tuples->columns = lappend(tuples->columns, column->expr);
		tuples->operators = lappend_oid(tuples->operators, column->opno);
		tuples->collations = lappend_oid(tuples->collations, column->collation);
	}
	return tuples;
}

static Expr *
make_values(Finder *finder, int column, List *values)
{
	Oid			left_type;
	Oid			type;

	op_input_types(finder->columns[column].opno, &left_type, &type);
	return GjMakeArray(type, values);
}

/*
 * Return the number of values in an array that differ in their bytes, if the values are known;
 * otherwise the number of all values
 */
static double
count_distinct(const Expr *expr)
{
	const Const *constant = (const Const *) expr;
	ArrayType  *array;
	ValueType	type;
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int			ndistinct = 0;
	char		align;

	if (!IsA(expr, Const))
		return list_length(castNode(ArrayExpr, expr)->elements);

	array = DatumGetArrayTypeP(constant->constvalue);
	get_typlenbyvalalign(ARR_ELEMTYPE(array), &type.length, &type.byval, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), type.length, type.byval, align, &values, &nulls,
					  &n);
	for (int i = 0; i < n; i++)
	{
		if (!nulls[i])
			values[ndistinct++] = values[i];
	}
	n = ndistinct;
	ndistinct = 0;
	qsort_arg(values, n, sizeof(Datum), tuple_compare_bytes, &type);
	for (int i = 0; i < n; i++)
		ndistinct += i == 0 || tuple_compare_bytes(&values[i], &values[i - 1], &type) != 0;
	pfree(values);
	pfree(nulls);
	return ndistinct;
}

static int
tuple_compare_bytes(const void *a, const void *b, void *arg)
{
	const ValueType *type = arg;
	Datum		left = *(const Datum *) a;
	Datum		right = *(const Datum *) b;
	Size		left_size;
	Size		right_size;
	int			result;

	if (type->byval)
		return left < right ? -1 : left > right;
	left_size = datumGetSize(left, false, type->length);
	right_size = datumGetSize(right, false, type->length);
	result = memcmp(DatumGetPointer(left), DatumGetPointer(right), Min(left_size, right_size));
	return result != 0 ? result : left_size < right_size ? -1 : left_size > right_size;
}

/*
 * Return true if the columns that an exact table compares are columns of the table, and their
 * values are the same for each row, so that they can be evaluated before the scan
 */
static bool
parts_are_usable(const GjTuples *tuples)
{
	ListCell   *lc;

	foreach(lc, tuples->columns)
	{
		if (!IsA((Node *) GjStripRelabel(lfirst(lc)), Var))
			return false;
	}
	foreach(lc, tuples->arrays)
	{
		if (!GjIsSameForRows(lfirst(lc)))
			return false;
	}
	return true;
}
