/*-------------------------------------------------------------------------
 *
 * comparison.c
 *	  Comparisons of a column with a value: which side is the column, what the operator means, and
 *	  whether it asks for a range of an index's codes.
 *
 * Operators are recognized by their place in the btree operator family of the column's type, not by
 * their names.
 *
 * An index has codes, and a range of values is a range of codes only if both have the same order.
 * An operator family tells which values are equal, not their order: codes of oids and enums are not
 * in that of their types, codes of uuids are mixed, those of texts and numerics are images or
 * hashes, and a user's operator class may have a key function of its own.  So we accept nothing but
 * PostgreSQL's own comparison functions, of types whose codes are made by our own functions and are
 * the values themselves.
 *
 * A date counts days, a timestamp microseconds, and a timestamp with time zone those of another
 * zone.  So comparisons between these are refused, although PostgreSQL's btrees have them.
 *
 * Integers of different sizes have the same codes.  A cast of the key to a longer integer does not
 * change it, either; other casts are refused.  A bound may be outside of the key's type
 * (rows/source.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/transam.h"
#include "catalog/pg_type_d.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "pages/pages.h"
#include "planner.h"

static bool types_are_known(Oid left, Oid right);
static bool cast_keeps_key(Oid key_type, Oid cast, Oid left);
static bool has_values_as_codes(const IndexOptInfo *index, Oid type);
static bool is_ordering(Oid opno);
static bool has_range(Oid type);
static bool range_is_time(Oid type);

/*
 * Read a clause as a comparison of a column with a value, in either order, or with an array
 *
 * The caller decides what a column is, and asks the left side first.
 */
bool
GjReadComparison(Node *clause, bool (*is_column) (void *reader, Node *expr), void *reader,
				 GjComparison *comparison)
{
	List	   *args;

	if (IsA(clause, OpExpr))
	{
		const OpExpr *op = (const OpExpr *) clause;

		args = op->args;
		*comparison = (GjComparison) {.opno = op->opno,.collation = op->inputcollid};
	}
	else if (IsA(clause, ScalarArrayOpExpr))
	{
		const ScalarArrayOpExpr *op = (const ScalarArrayOpExpr *) clause;

		args = op->args;
		*comparison = (GjComparison) {.opno = op->opno,.collation = op->inputcollid,
		.is_array = true,.is_any = op->useOr};
	}
	else
		return false;

	if (list_length(args) != 2)
		return false;
	comparison->column = linitial(args);
	comparison->value = lsecond(args);
	if (is_column(reader, linitial(args)))
		return true;
	if (comparison->is_array || !is_column(reader, lsecond(args)))
		return false;
	comparison->column = lsecond(args);
	comparison->value = linitial(args);
	comparison->opno = get_commutator(comparison->opno);
	comparison->is_turned = true;
	return OidIsValid(comparison->opno);
}

/*
 * Determine the comparison and the types of an operator, by its place in the btree operator family
 * of the left type.  Returns false if it is not one of those that we know.
 */
bool
GjFindOperator(Oid opno, Oid *left, Oid *right, GjFilterOperator *operator)
{
	static const GjFilterOperator operators[] = {GJ_FILTER_LT, GJ_FILTER_LE, GJ_FILTER_EQ,
	GJ_FILTER_GE, GJ_FILTER_GT};
	Oid			equality = InvalidOid;
	Oid			family;
	int			strategy;

	op_input_types(opno, left, right);
	if (!types_are_known(*left, *right))
		return false;
	family = lookup_type_cache(*left, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
	strategy = get_op_opfamily_strategy(opno, family);
	if (strategy == 0)
		equality = get_negator(opno);
	if (OidIsValid(equality) &&
		get_op_opfamily_strategy(equality, family) == BTEqualStrategyNumber)
		*operator = GJ_FILTER_NE;
	else if (strategy != 0)
		*operator = operators[strategy - 1];
	else
		return false;
	return true;
}

/*
 * Return true if we can compare these types: equal types, and different integers or floating-point
 * numbers
 */
static bool
types_are_known(Oid left, Oid right)
{
	switch (left)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
			return right == INT2OID || right == INT4OID || right == INT8OID;
		case FLOAT4OID:
		case FLOAT8OID:
			return right == FLOAT4OID || right == FLOAT8OID;
		case BOOLOID:
		case OIDOID:
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case UUIDOID:
		case NUMERICOID:
		case TEXTOID:
		case BPCHAROID:
			return left == right;
		default:
			return false;
	}
}

/*
 * Return true if an operator, with the key or a cast of it on the left, asks for a range that the
 * index answers; then fill in the comparison and the conversion of its right side to a key
 *
 * If it is another comparison of order, *why becomes the reason why it is not answered.
 */
bool
GjFindRange(const IndexOptInfo *index, Oid opno, GjSource *source, const char **why)
{
	static const GjSourceKind kinds[] = {
		[GJ_FILTER_LT] = GJ_SOURCE_BELOW,[GJ_FILTER_LE] = GJ_SOURCE_AT_MOST,
		[GJ_FILTER_GE] = GJ_SOURCE_AT_LEAST,[GJ_FILTER_GT] = GJ_SOURCE_ABOVE
	};
	Oid			key_type = index->opcintype[0];
	GjFilterOperator operator;
	Oid			left;
	Oid			right;

	if (opno < FirstNormalObjectId && GjFindOperator(opno, &left, &right, &operator) &&
		operator != GJ_FILTER_EQ && operator != GJ_FILTER_NE && has_range(left) &&
		cast_keeps_key(key_type, source->cast, left) &&
		has_values_as_codes(index, key_type) && has_values_as_codes(index, right))
	{
		source->kind = kinds[operator];
		source->conversion = GJ_CONVERT_CODEC;
		source->value_type = right;
		return true;
	}

	if (!GjChoiceIsNoted() || !is_ordering(opno))
		return false;
	op_input_types(opno, &left, &right);
	if (range_is_time(left) && range_is_time(right) && left != right)
		*why = "compares the key with a time of another unit or zone";
	else if (OidIsValid(source->cast))
		*why = "casts the key, and is a range";
	else
		*why = "is a range, and the index does not keep the order of the key's type";
	return false;
}

/*
 * Return true if the key itself, or its cast if there is one, is the operator's left side
 */
static bool
cast_keeps_key(Oid key_type, Oid cast, Oid left)
{
	switch (cast)
	{
		case InvalidOid:
			return left == key_type;
		case F_INT4_INT2:
		case F_INT8_INT2:
			return key_type == INT2OID && left == get_func_rettype(cast);
		case F_INT8_INT4:
			return key_type == INT4OID && left == INT8OID;
		default:
			return false;
	}
}

/*
 * Return true if our own function makes the codes of this type in the index's operator family
 */
static bool
has_values_as_codes(const IndexOptInfo *index, Oid type)
{
	GjCodec		codec;

	return GjCodecInit(&codec, index->opfamily[0], type, index->indexcollations[0], false) &&
		codec.keeps_value;
}

/*
 * Return true if the operator is estimated like a comparison of order
 */
static bool
is_ordering(Oid opno)
{
	Oid			estimator = get_oprrest(opno);

	return estimator == F_SCALARLTSEL || estimator == F_SCALARLESEL ||
		estimator == F_SCALARGESEL || estimator == F_SCALARGTSEL;
}

static bool
has_range(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID || range_is_time(type);
}

static bool
range_is_time(Oid type)
{
	return type == DATEOID || type == TIMESTAMPOID || type == TIMESTAMPTZOID;
}
