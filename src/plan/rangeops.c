/*-------------------------------------------------------------------------
 *
 * rangeops.c
 *	  Which comparisons of the key ask for a range of its codes.
 *
 * An index has codes, and a range of values is a range of codes only if both have the same order.
 * An operator family tells which values are equal, not their order: codes of oids and enums are not
 * in that of their types, codes of uuids are mixed, those of texts and numerics are images or
 * hashes, and anybody can make an operator class with a key function of their own.  So we accept
 * nothing but PostgreSQL's own comparison functions, of types whose codes are made by our own
 * functions and are the values themselves.
 *
 * A date counts days, a timestamp microseconds, and a timestamp with time zone those of another
 * zone.  So comparisons between these are refused, although PostgreSQL's btrees have them.
 *
 * Integers of different sizes have the same codes.  A cast of the key to a longer integer does not
 * change it, either; other casts are refused.  A bound may be outside of what the key can hold
 * (rows/source.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "pages/pages.h"
#include "planner.h"

/* Comparison functions of two types */
typedef struct RangeFunctions
{
	Oid			left;
	Oid			right;
	Oid			functions[4];	/* in the order of kinds[] */
} RangeFunctions;

static const GjSourceKind kinds[] = {
	GJ_SOURCE_BELOW, GJ_SOURCE_AT_MOST, GJ_SOURCE_AT_LEAST, GJ_SOURCE_ABOVE
};

static const RangeFunctions range_functions[] = {
	{INT2OID, INT2OID, {F_INT2LT, F_INT2LE, F_INT2GE, F_INT2GT}},
	{INT2OID, INT4OID, {F_INT24LT, F_INT24LE, F_INT24GE, F_INT24GT}},
	{INT2OID, INT8OID, {F_INT28LT, F_INT28LE, F_INT28GE, F_INT28GT}},
	{INT4OID, INT2OID, {F_INT42LT, F_INT42LE, F_INT42GE, F_INT42GT}},
	{INT4OID, INT4OID, {F_INT4LT, F_INT4LE, F_INT4GE, F_INT4GT}},
	{INT4OID, INT8OID, {F_INT48LT, F_INT48LE, F_INT48GE, F_INT48GT}},
	{INT8OID, INT2OID, {F_INT82LT, F_INT82LE, F_INT82GE, F_INT82GT}},
	{INT8OID, INT4OID, {F_INT84LT, F_INT84LE, F_INT84GE, F_INT84GT}},
	{INT8OID, INT8OID, {F_INT8LT, F_INT8LE, F_INT8GE, F_INT8GT}},
	{DATEOID, DATEOID, {F_DATE_LT, F_DATE_LE, F_DATE_GE, F_DATE_GT}},
	{TIMESTAMPOID, TIMESTAMPOID,
	{F_TIMESTAMP_LT, F_TIMESTAMP_LE, F_TIMESTAMP_GE, F_TIMESTAMP_GT}},
	{TIMESTAMPTZOID, TIMESTAMPTZOID,
	{F_TIMESTAMPTZ_LT, F_TIMESTAMPTZ_LE, F_TIMESTAMPTZ_GE, F_TIMESTAMPTZ_GT}},
};

static bool cast_keeps_key(Oid key_type, Oid cast, Oid left);
static bool has_values_as_codes(const IndexOptInfo *index, Oid type);
static bool is_ordering(Oid opno);
static bool range_is_time(Oid type);

/*
 * Return true if an operator, with the key or a cast of it on the left, asks for a range that the
 * index answers; then fill in the comparison and the conversion of its right side to a key
 *
 * If it is another comparison of order, *why becomes the reason why it is not answered.
 */
bool
GjFindRange(const IndexOptInfo *index, Oid opno, GjSource *source, const char **why)
{
	Oid			key_type = index->opcintype[0];
	Oid			function = get_opcode(opno);
	Oid			left;
	Oid			right;

	for (int i = 0; i < lengthof(range_functions); i++)
	{
		const RangeFunctions *types = &range_functions[i];

		for (int k = 0; k < lengthof(kinds); k++)
		{
			if (types->functions[k] != function ||
				!cast_keeps_key(key_type, source->cast, types->left) ||
				!has_values_as_codes(index, key_type) || !has_values_as_codes(index, types->right))
				continue;
			source->kind = kinds[k];
			source->conversion = GJ_CONVERT_CODEC;
			source->value_type = types->right;
			source->family = index->opfamily[0];
			source->collation = index->indexcollations[0];
			return true;
		}
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
range_is_time(Oid type)
{
	return type == DATEOID || type == TIMESTAMPOID || type == TIMESTAMPTZOID;
}
