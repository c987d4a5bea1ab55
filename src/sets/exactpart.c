/*-------------------------------------------------------------------------
 *
 * exactpart.c
 *	  How the values of a part of the exact table are compared: as words, as bytes, or by functions
 *	  of their types (exact.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/hash.h"
#include "catalog/pg_type.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "exact.h"

static bool is_enum_or_plain(Oid type);
static bool is_word(Oid row_type, Oid value_type);
static bool find_functions(GjExactPart *part, Oid equality, Oid family, Oid row_type,
						   Oid value_type);

/*
 * Prepare a part whose row's value is on the left of an operator and an element's on the right.  If
 * it is the key of an index, the index's operator family has the operator and all functions.
 * Otherwise the default hash operator family of the left type must have them; returns false if it
 * has not, or if they cannot be used.
 */
bool
GjExactPartInit(GjExactPart *part, Oid equality, Oid collation, Oid index_family)
{
	Oid			family = index_family;
	Oid			row_type;
	Oid			value_type;

	memset(part, 0, sizeof(GjExactPart));
	op_input_types(equality, &row_type, &value_type);
	part->row_length = get_typlen(row_type);
	get_typlenbyval(value_type, &part->value_length, &part->value_byval);
	part->collation = collation;
	if (!OidIsValid(index_family))
	{
		if (!is_enum_or_plain(row_type) || !is_enum_or_plain(value_type))
			return false;
		family = lookup_type_cache(row_type, TYPECACHE_HASH_OPFAMILY)->hash_opf;
		if (!OidIsValid(family) || !op_strict(equality) ||
			get_op_opfamily_strategy(equality, family) != HTEqualStrategyNumber)
			return false;
		part->is_word = is_word(row_type, value_type);
		if (part->is_word)
			return true;

		/*
		 * Values that are equal under the collation may have different hashes.  "name" ignores the
		 * collation; char(n) hashes trailing blanks before PostgreSQL 16, but we hash texts.
		 */
		if (OidIsValid(collation) && !get_collation_isdeterministic(collation) &&
			row_type != value_type)
			return false;
	}
	return find_functions(part, equality, family, row_type, value_type);
}

/*
 * Have a part for keys compare their rests, as pages/codec.c makes them.  Keys of variable length
 * have a rest unless their code is a hash: then the part is the key.
 */
void
GjExactPartUseRest(GjExactPart *part)
{
	if (part->row_length == -1)
		part->is_rest = true;
	else
		*part = (GjExactPart) {.is_word = true,.row_length = sizeof(int64),
		.value_length = sizeof(int64),.value_byval = true};
}

/*
 * Return false for arrays, records and ranges: whether their values can be hashed depends on the
 * types inside, and an array of arrays has no type.
 */
static bool
is_enum_or_plain(Oid type)
{
	return type == ANYENUMOID || (type != RECORDOID && !IsPolymorphicType(type));
}

/*
 * Return true if values of these types are equal, by the operators of the default family, if and
 * only if their bits are, sign-extended to 64
 */
static bool
is_word(Oid row_type, Oid value_type)
{
	switch (row_type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
			return value_type == INT2OID || value_type == INT4OID || value_type == INT8OID;
		case BOOLOID:
		case CHAROID:
		case OIDOID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return value_type == row_type;
		default:
			return false;
	}
}

/*
 * Look up the functions of a family that compare and hash Datums.  Returns false if one is missing.
 */
static bool
find_functions(GjExactPart *part, Oid equality, Oid family, Oid row_type, Oid value_type)
{
	Oid			same = get_opfamily_member(family, value_type, value_type, HTEqualStrategyNumber);
	Oid			row_hash = get_opfamily_proc(family, row_type, row_type, HASHEXTENDED_PROC);
	Oid			value_hash = get_opfamily_proc(family, value_type, value_type, HASHEXTENDED_PROC);

	if (!OidIsValid(same) || !OidIsValid(row_hash) || !OidIsValid(value_hash))
		return false;
	fmgr_info(get_opcode(equality), &part->equal);
	fmgr_info(get_opcode(same), &part->same);
	fmgr_info(row_hash, &part->row_hash);
	fmgr_info(value_hash, &part->value_hash);
	if (part->equal.fn_oid == F_BPCHAREQ && part->same.fn_oid == F_BPCHAREQ)
	{
		part->is_padded = true;
		fmgr_info(F_TEXTEQ, &part->equal);
		fmgr_info(F_TEXTEQ, &part->same);
		fmgr_info(F_HASHTEXTEXTENDED, &part->row_hash);
		fmgr_info(F_HASHTEXTEXTENDED, &part->value_hash);
	}
	part->is_uuid = part->equal.fn_oid == F_UUID_EQ && part->same.fn_oid == F_UUID_EQ;
	part->is_bytes = part->equal.fn_oid == part->same.fn_oid &&
		(part->same.fn_oid == F_BYTEAEQ ||
		 (part->same.fn_oid == F_TEXTEQ && OidIsValid(part->collation) &&
		  get_collation_isdeterministic(part->collation)));
	return true;
}
