/*-------------------------------------------------------------------------
 *
 * codec.c
 *	  How the values of an indexed type become codes, the integers that an index stores and
 *	  compares.
 *
 * All codes are compared as int64.  An operator class has one of two kinds of codecs.
 *
 * A *key* is made by support function 1, and tells the whole value: values of any two types of a
 * family are equal if and only if their keys are, which is what makes int4 = int8 work.  Integers
 * and dates are their own keys.  An oid, or an enum, is treated as the int4 with the same bits, so
 * that it fits four bytes: the mapping is one to one, and nothing here depends on order.
 *
 * A *hash* is made by support function 2, an extended hash function of the type, and tells only
 * that values with different hashes are not equal.  Support function 3, which is optional, returns
 * an *image* of those values that fit a code: two values with one image are equal, and a value has
 * an image if and only if all values that equal it have this image.  Images and hashes are
 * different integers: images are -2^62 or more, and the hash of a value is reduced to the 62 bits
 * below. A search that finds a hash must compare the values themselves (sets/exact.c).
 *
 * Support function 4 makes a type of 16 bytes, uuid, a *pair* of its code and a rest of 8 bytes,
 * which the index stores beside it.  The rest is the lower half of the uuid, and the code the upper
 * one, mixed with the rest: for one rest, different upper halves have different codes.  So two
 * uuids are equal if and only if both their codes and their rests are, and a uuid can be restored
 * from them.  The code alone proves nothing, like a hash, but is nearly unique, wherever an
 * application counts.  It keeps the order of its upper bits: versions 6 and 7 begin with a time,
 * and applications look up their newest rows, which then are on few pages.  An index that was built
 * before its class had function 4 has no rests, and stores hashes.
 *
 * Texts that applications use as ids are pairs, too, under an operator class of their own
 * (idtext.c): code and rest together tell the text.  Others, which do not fit, have hashes as
 * codes, and zero as rests.  Such a code is below -2^62, as without pairs, so an entry tells
 * whether it proves its key.  Equality is that of bytes, so a nondeterministic collation is
 * refused.
 *
 * A hash depends on the collation, if the type has any.  Images exist only under deterministic
 * collations, under which strings are equal if and only if their bytes are.
 *
 * Hashes are on disk.  PostgreSQL keeps its hash functions as they are, for the sake of hash
 * indexes and of tables that are partitioned by hash, but it did change hashbpcharextended() in
 * version 16: so char(n) has a function here.  A nondeterministic collation's hash changes with the
 * ICU library.  So the metapage has an identity of the codec: the hash of a sample, and the version
 * of a nondeterministic collation.  Preparing a codec for an index compares it.  There is no sample
 * of a type that we know no value of: the hash function of a user's type must never change, as for
 * a hash index.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/hash.h"
#include "access/htup_details.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type_d.h"
#include "common/hashfn.h"
#include "common/int.h"
#include "parser/parse_coerce.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/uuid.h"
#include "utils/varlena.h"

#include "base/compat.h"
#include "base/settings.h"
#include "pages.h"

PG_FUNCTION_INFO_V1(gpujoin_key_int2);
PG_FUNCTION_INFO_V1(gpujoin_key_int4);
PG_FUNCTION_INFO_V1(gpujoin_key_int8);
PG_FUNCTION_INFO_V1(gpujoin_key_oid);
PG_FUNCTION_INFO_V1(gpujoin_hash_bpchar);
PG_FUNCTION_INFO_V1(gpujoin_hash_bytea);
PG_FUNCTION_INFO_V1(gpujoin_hash_uuid);
PG_FUNCTION_INFO_V1(gpujoin_rest_uuid);
PG_FUNCTION_INFO_V1(gpujoin_rest_text);
PG_FUNCTION_INFO_V1(gpujoin_image_text);
PG_FUNCTION_INFO_V1(gpujoin_image_bpchar);
PG_FUNCTION_INFO_V1(gpujoin_image_numeric);

/* Number of bytes that an image of a string has room for, beside its length */
#define IMAGE_BYTES				7

/* The version of a uuid is the 4 bits from this one of its upper half on; all but 6 and 7 */
#define VERSION_SHIFT			12
#define VERSION_BIT				(UINT64CONST(1) << VERSION_SHIFT)
#define OTHER_VERSIONS			14

/* Numerics on disk, as PostgreSQL stores them: a header, then digits of base 10,000 */
#define NUMERIC_BASE			10000
#define NUMERIC_SIGN_MASK		0xC000
#define NUMERIC_LONG_NEGATIVE	0x4000
#define NUMERIC_SHORT			0x8000
#define NUMERIC_SPECIAL			0xC000	/* NaN and infinities */
#define NUMERIC_SHORT_NEGATIVE	0x2000
#define NUMERIC_WEIGHT_SIGN		0x0040
#define NUMERIC_WEIGHT_MASK		0x003F

/* Weight of the first digit of 2^63 */
#define NUMERIC_INT8_WEIGHT		4

static void init_new(GjCodec *codec, Relation index);
static bool makes_keys(Relation index);
static bool init_own(GjCodec *codec, Relation index, bool has_rests);
static bool init_pair(GjCodec *codec, Oid family, Oid type);
static bool is_own_equality(Oid family, Oid type);
static void init_key(GjCodec *codec);
static int64 compute(GjCodec *codec, Datum value);
static bool find_image(GjCodec *codec, Datum value, int64 *image);
static int64 hash_code(GjCodec *codec, Datum value);
static bool pack_text(Datum value, int64 *code, int64 *rest);
static int64 hash_value(GjCodec *codec, Datum value);
static uint64 get_identity(GjCodec *codec, Oid type);
static uint64 hash_pair(GjCodec *codec, Datum value);
static Datum make_sample(Oid type);
static bool is_text_type(Oid type);
static bool is_deterministic(Oid collation);
static inline int64 code_of_uuid(const pg_uuid_t *uuid, int64 rest);
static inline int64 rest_of_uuid(const pg_uuid_t *uuid);
static inline uint64 mix_upper(uint64 high, uint64 mixed, int turn);
static int64 image_of_bytes(const char *bytes, int length);
static bool numeric_image(const char *bytes, int length, int64 *image);

/*
 * Prepare converting values of a type to codes of an operator family under a collation; returns
 * false if the family has no function for the type
 *
 * has_rests says whether the index stores the rests of its keys.  Uses the current memory context.
 */
bool
GjCodecInit(GjCodec *codec, Oid family, Oid type, Oid collation, bool has_rests)
{
	Oid			key_proc = get_opfamily_proc(family, type, type, GJ_KEY_PROC);
	Oid			hash_proc = get_opfamily_proc(family, type, type, GJ_HASH_PROC);
	Oid			image_proc;

	memset(codec, 0, sizeof(*codec));
	codec->collation = collation;
	if (has_rests)
		return init_pair(codec, family, type);
	if (OidIsValid(key_proc) && !OidIsValid(hash_proc))
	{
		fmgr_info(key_proc, &codec->proc);
		init_key(codec);
		return true;
	}
	if (!OidIsValid(hash_proc) || OidIsValid(key_proc))
		return false;
	codec->kind = GJ_CODEC_HASH;
	codec->hashes_bytes = hash_proc == F_HASHTEXTEXTENDED && OidIsValid(collation) &&
		is_deterministic(collation);
	fmgr_info(hash_proc, &codec->proc);
	image_proc = get_opfamily_proc(family, type, type, GJ_IMAGE_PROC);
	if (OidIsValid(image_proc) && is_deterministic(collation))
		fmgr_info(image_proc, &codec->image);
	return true;
}

/*
 * Return true if the class of an index makes keys, according to the relation cache.  There its
 * functions are found in a fraction of the time; but it does not notice that a class with hashes
 * has got another function.
 */
static bool
makes_keys(Relation index)
{
	return OidIsValid(index_getprocid(index, 1, GJ_KEY_PROC)) &&
		!OidIsValid(index_getprocid(index, 1, GJ_HASH_PROC)) &&
		!OidIsValid(index_getprocid(index, 1, GJ_REST_PROC));
}

/*
 * Prepare converting values of an index's own type; like GjCodecInit()
 */
static bool
init_own(GjCodec *codec, Relation index, bool has_rests)
{
	Oid			collation = index->rd_indcollation[0];

	if (has_rests || !makes_keys(index))
		return GjCodecInit(codec, index->rd_opfamily[0], index->rd_opcintype[0], collation,
						   has_rests);
	memset(codec, 0, sizeof(*codec));
	codec->collation = collation;
	fmgr_info_copy(&codec->proc, index_getprocinfo(index, 1, GJ_KEY_PROC), CurrentMemoryContext);
	init_key(codec);
	return true;
}

/*
 * Return true if new indexes on a type with this operator family have rests
 */
bool
GjCodecHasRests(Oid family, Oid type)
{
	return OidIsValid(get_opfamily_proc(family, type, type, GJ_REST_PROC));
}

/*
 * Have the codec make codes and rests, if the family has our own functions for these: only of them
 * we know that both together determine the value.  Returns false if it does not.
 */
static bool
init_pair(GjCodec *codec, Oid family, Oid type)
{
	Oid			rest_proc = get_opfamily_proc(family, type, type, GJ_REST_PROC);
	Oid			hash_proc = get_opfamily_proc(family, type, type, GJ_HASH_PROC);

	if (!OidIsValid(rest_proc) || !OidIsValid(hash_proc))
		return false;
	fmgr_info(rest_proc, &codec->proc);
	if (type == UUIDOID && codec->proc.fn_addr == gpujoin_rest_uuid)
	{
		codec->kind = GJ_CODEC_UUID;
		return true;
	}
	if (type != TEXTOID || codec->proc.fn_addr != gpujoin_rest_text ||
		!is_deterministic(codec->collation))
		return false;
	codec->kind = GJ_CODEC_TEXT;
	fmgr_info(hash_proc, &codec->proc);
	return true;
}

static void
init_key(GjCodec *codec)
{
	if (codec->proc.fn_addr == gpujoin_key_int4)
		codec->kind = GJ_CODEC_INT4;
	else if (codec->proc.fn_addr == gpujoin_key_int8)
		codec->kind = GJ_CODEC_INT8;
	else
		codec->kind = GJ_CODEC_KEY;
	codec->keeps_value = codec->kind != GJ_CODEC_KEY ||
		codec->proc.fn_addr == gpujoin_key_int2 || codec->proc.fn_addr == gpujoin_key_oid;
}

/*
 * Prepare converting values of an index's key to codes
 *
 * Raises an error if the index's hashes are not those that the codec computes.
 */
void
GjCodecInitIndex(GjCodec *codec, Relation index)
{
	GjIndexInfo info;

	init_new(codec, index);
	if (codec->kind != GJ_CODEC_HASH && !GjCodecHasPairs(codec))
		return;
	GjIndexGetInfo(index, &info);
	if (GjCodecHasPairs(codec) && !info.has_rests)
		(void) init_own(codec, index, false);
	if (info.hash_identity == get_identity(codec, index->rd_opcintype[0]))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("index \"%s\" was built with another hash function or collation version",
					RelationGetRelationName(index)),
			 errhint("REINDEX the index.")));
}

/*
 * Prepare converting values of the key of an index that is being built; raises an error if its
 * operator class is not valid
 */
static void
init_new(GjCodec *codec, Relation index)
{
	Oid			family = index->rd_opfamily[0];
	Oid			type = index->rd_opcintype[0];
	bool		has_rests = !makes_keys(index) && GjCodecHasRests(family, type);
	const char *problem = NULL;

	if (!init_own(codec, index, false))
		problem = "It must have either support function 1 or support function 2.";
	else if (codec->kind == GJ_CODEC_HASH ? GjIndexKeyWidth(index) != sizeof(int64) :
			 GjIndexKeyWidth(index) != sizeof(int32) && GjIndexKeyWidth(index) != sizeof(int64))
		problem = codec->kind == GJ_CODEC_HASH ?
			"Its support function 2 needs STORAGE int8." :
			"It must store keys as 4 or 8 bytes.";
	else if (has_rests && type == TEXTOID && !is_deterministic(index->rd_indcollation[0]))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the operator class of index \"%s\" does not support nondeterministic "
						"collations", RelationGetRelationName(index)),
				 errhint("Use operator class text_ops.")));
	else if (has_rests && (codec->kind != GJ_CODEC_HASH ||
						   !init_own(codec, index, true)))
		problem = "Its support function 4 is not one of gpujoin's for this type.";
	else if (has_rests && !is_own_equality(family, type))
		problem = "Its support function 4 needs the type's own equality.";
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("the operator class of index \"%s\" is not valid",
						RelationGetRelationName(index)),
				 errdetail_internal("%s", problem)));
}

/*
 * Return true if a family's equality for a type that has rests is PostgreSQL's, which compares all
 * bytes
 */
static bool
is_own_equality(Oid family, Oid type)
{
	Oid			equality = get_opfamily_member(family, type, type, GJ_EQUAL_STRATEGY);

	return OidIsValid(equality) &&
		get_opcode(equality) == (type == UUIDOID ? F_UUID_EQ : F_TEXTEQ);
}

/*
 * Return the number by which the metapage of a new index identifies the codec; 0 if codes
 * determine the keys
 */
uint64
GjCodecIdentity(Relation index, bool *has_rests)
{
	GjCodec		codec;

	init_new(&codec, index);
	*has_rests = GjCodecHasPairs(&codec);
	return codec.kind == GJ_CODEC_HASH || GjCodecHasPairs(&codec) ?
		get_identity(&codec, index->rd_opcintype[0]) : 0;
}

/*
 * Return true if an operator class for one type is meant for columns of another type
 *
 * A type that is binary compatible with text gets the class of text if it has none.  If it has
 * operators of its own, as citext has, they do not use such an index; if not, as Orafce's varchar2,
 * they are those of text.
 */
bool
GjClassIsOfType(Oid class_type, Oid column_type)
{
	Oid			type = getBaseType(column_type);
	struct catclist *own;
	bool		has_own;

	if (class_type != TEXTOID || type == TEXTOID || type == VARCHAROID)
		return true;
	own = SearchSysCacheList3(OPERNAMENSP, CStringGetDatum("="), ObjectIdGetDatum(type),
							  ObjectIdGetDatum(type));
	has_own = own->n_members > 0;
	ReleaseSysCacheList(own);
	return !has_own;
}

/*
 * Convert a value to its code by the support functions.  Leaves nothing allocated.
 */
int64
GjCodeCompute(GjCodec *codec, Datum value)
{
	int64		rest;

	return GjCodecHasPairs(codec) ? GjPairCompute(codec, value, &rest) : compute(codec, value);
}

/*
 * Call the support functions.  They may leave garbage, such as a detoasted value, for each row, so
 * it goes to a context of the codec, which is reset at once.
 */
static int64
compute(GjCodec *codec, Datum value)
{
	MemoryContext old;
	int64		code;

	if (codec->scratch == NULL)
		codec->scratch = AllocSetContextCreate(codec->proc.fn_mcxt, "gpujoin codec",
											   ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(codec->scratch);
	if (codec->kind == GJ_CODEC_KEY)
		code = DatumGetInt64(FunctionCall1Coll(&codec->proc, codec->collation, value));
	else if (!OidIsValid(codec->image.fn_oid) || !find_image(codec, value, &code))
		code = hash_code(codec, value);
	MemoryContextSwitchTo(old);
	if (!codec->scratch->isReset)
		MemoryContextReset(codec->scratch);
	return code;
}

/*
 * Return the code of a value, and its rest, for a codec that has pairs.  Leaves nothing allocated.
 */
int64
GjPairCompute(GjCodec *codec, Datum value, int64 *rest)
{
	int64		code;

	Assert(GjCodecHasPairs(codec));
	if (codec->kind == GJ_CODEC_UUID)
	{
		*rest = rest_of_uuid(DatumGetUUIDP(value));
		return code_of_uuid(DatumGetUUIDP(value), *rest);
	}
	if (pack_text(value, &code, rest))
		return code;
	*rest = 0;
	return compute(codec, value);
}

/*
 * Compute the codes and rests of n uuids that follow each other
 */
void
GjPairsOfUuids(const char *uuids, int n, int64 *codes, int64 *rests)
{
	for (int i = 0; i < n; i++)
	{
		const pg_uuid_t *uuid = (const pg_uuid_t *) uuids + i;

		rests[i] = rest_of_uuid(uuid);
		codes[i] = code_of_uuid(uuid, rests[i]);
	}
}

/*
 * Return what tells a value from others of its code: its rest; or the value itself, if it has none
 */
Datum
GjProofOf(GjCodec *codec, int64 code, Datum value)
{
	int64		rest;

	if (!GjCodeHasRest(codec, code))
		return value;
	if (codec->kind == GJ_CODEC_UUID)
		return Int64GetDatum(rest_of_uuid(DatumGetUUIDP(value)));
	(void) GjPairCompute(codec, value, &rest);
	return Int64GetDatum(rest);
}

static int64
hash_code(GjCodec *codec, Datum value)
{
	return PG_INT64_MIN + (int64) ((uint64) hash_value(codec, value) >> 2);
}

/*
 * Pack a text, if it has a form that can be.  A long one is not even read.
 */
static bool
pack_text(Datum value, int64 *code, int64 *rest)
{
	struct varlena *plain;
	bool		packed;

	if (toast_raw_datum_size(value) - VARHDRSZ > GJ_IDTEXT_MAX)
		return false;
	plain = PG_DETOAST_DATUM_PACKED(value);
	packed = GjIdTextPack(VARDATA_ANY(plain), VARSIZE_ANY_EXHDR(plain), code, rest);
	if ((Pointer) plain != DatumGetPointer(value))
		pfree(plain);
	return packed;
}

static bool
find_image(GjCodec *codec, Datum value, int64 *image)
{
	LOCAL_FCINFO(fcinfo, 1);

	InitFunctionCallInfoData(*fcinfo, &codec->image, 1, codec->collation, NULL, NULL);
	fcinfo->args[0].value = value;
	fcinfo->args[0].isnull = false;
	*image = DatumGetInt64(FunctionCallInvoke(fcinfo));
	if (fcinfo->isnull)
		return false;
	if (GjCodeIsHash(*image))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("an image is out of range"),
				 errdetail("Support function 3 must return NULL, or at least -2^62.")));
	return true;
}

/*
 * Hash a value; under a deterministic collation a text as hashtextextended() does, without a call
 */
static int64
hash_value(GjCodec *codec, Datum value)
{
	struct varlena *text;
	uint64		hash;

	if (codec->hashes_bytes)
	{
		text = PG_DETOAST_DATUM_PACKED(value);
		hash = hash_bytes_extended((const unsigned char *) VARDATA_ANY(text),
								   VARSIZE_ANY_EXHDR(text), 0);
		if ((Pointer) text != DatumGetPointer(value))
			pfree(text);
		return (int64) hash;
	}
	return DatumGetInt64(FunctionCall2Coll(&codec->proc, codec->collation, value,
										   Int64GetDatum(0)));
}

/*
 * Identify the codec by the hash of a sample, whether it has images, and the version of its
 * collation, if the hash depends on that.  Never 0.
 */
static uint64
get_identity(GjCodec *codec, Oid type)
{
	Datum		sample = make_sample(type);
	uint64		identity = OidIsValid(codec->image.fn_oid) ? 1 : 2;

	if (codec->kind == GJ_CODEC_UUID)
		return hash_pair(codec, sample);
	if (codec->kind == GJ_CODEC_TEXT)
		identity = hash_pair(codec, CStringGetTextDatum("0192f3a4-5b6c-7d8e-9f01-23456789abcd"));
	if (sample != (Datum) 0)
		identity = hash_combine64(identity, (uint64) hash_value(codec, sample));
	if (!is_deterministic(codec->collation))
	{
		LOCAL_FCINFO(fcinfo, 1);
		Datum		version;

		InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
		fcinfo->args[0].value = ObjectIdGetDatum(codec->collation);
		fcinfo->args[0].isnull = false;
		version = pg_collation_actual_version(fcinfo);
		if (!fcinfo->isnull)
		{
			char	   *name = TextDatumGetCString(version);

			identity = hash_combine64(identity, hash_bytes_extended((unsigned char *) name,
																	strlen(name), 0));
		}
	}
	return identity != 0 ? identity : 1;
}

/*
 * Combine code and rest to a number that is not 0
 */
static uint64
hash_pair(GjCodec *codec, Datum value)
{
	int64		rest;
	int64		code = GjPairCompute(codec, value, &rest);

	return hash_combine64((uint64) code, (uint64) rest) | 1;
}

/*
 * Return a value of the type; 0 if we know of none
 */
static Datum
make_sample(Oid type)
{
	if (is_text_type(type) || type == BPCHAROID)
		return CStringGetTextDatum("Sample of gpujoin  ");
	switch (type)
	{
		case BYTEAOID:
			return CStringGetTextDatum("Sample of gpujoin  ");	/* has the same form */
		case NUMERICOID:
			return DirectFunctionCall3(numeric_in, CStringGetDatum("-1234567.8900"),
									   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
		case UUIDOID:
			return DirectFunctionCall1(uuid_in,
									   CStringGetDatum("0192f3a4-5b6c-7d8e-9f01-23456789abcd"));
		case INETOID:
			return DirectFunctionCall1(inet_in, CStringGetDatum("192.168.25.7/24"));
		default:
			return (Datum) 0;
	}
}

/*
 * Return true for text, and for types that are binary compatible with it, such as citext
 */
static bool
is_text_type(Oid type)
{
	return type == TEXTOID || (get_typlen(type) == -1 && IsBinaryCoercible(type, TEXTOID));
}

static bool
is_deterministic(Oid collation)
{
	return !OidIsValid(collation) || get_collation_isdeterministic(collation);
}

/*-------------------------------------------------------------------------
 * Support functions
 *-------------------------------------------------------------------------
 */

Datum
gpujoin_key_int2(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(PG_GETARG_INT16(0));
}

/* int4 and date */
Datum
gpujoin_key_int4(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(PG_GETARG_INT32(0));
}

/* int8, timestamp and timestamptz */
Datum
gpujoin_key_int8(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(PG_GETARG_INT64(0));
}

/* oid and enums */
Datum
gpujoin_key_oid(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int32) PG_GETARG_OID(0));
}

/*
 * char(n): what the = operator compares is the string without trailing blanks
 */
Datum
gpujoin_hash_bpchar(PG_FUNCTION_ARGS)
{
	BpChar	   *value = PG_GETARG_BPCHAR_PP(0);
	int			length = bpchartruelen(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));
	text	   *trimmed = cstring_to_text_with_len(VARDATA_ANY(value), length);
	Datum		hash = DirectFunctionCall2Coll(hashtextextended, PG_GET_COLLATION(),
											   PointerGetDatum(trimmed), PG_GETARG_DATUM(1));

	pfree(trimmed);
	PG_FREE_IF_COPY(value, 0);
	PG_RETURN_DATUM(hash);
}

/* PostgreSQL has this function for bytea only from version 18 on */
Datum
gpujoin_hash_bytea(PG_FUNCTION_ARGS)
{
	bytea	   *value = PG_GETARG_BYTEA_PP(0);
	Datum		hash = hash_any_extended((unsigned char *) VARDATA_ANY(value),
										 VARSIZE_ANY_EXHDR(value), PG_GETARG_INT64(1));

	PG_FREE_IF_COPY(value, 0);
	PG_RETURN_DATUM(hash);
}

/*
 * uuid, in network byte order: the upper half, whose lower bits are mixed with the lower half
 *
 * Of versions 6 and 7 the lower 16 bits are mixed: the version itself and 12 bits that follow the
 * time in its common form.  Of others 32 bits are, because some applications count in the upper
 * half and others in the lower one.
 */
Datum
gpujoin_hash_uuid(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *uuid = PG_GETARG_UUID_P(0);
	uint64		high;
	uint64		low;
	uint64		mask;

	/* a hash with a seed is not stored: it is for tables in memory */
	if (PG_GETARG_INT64(1) != 0)
		return DirectFunctionCall2(uuid_hash_extended, PG_GETARG_DATUM(0), PG_GETARG_DATUM(1));

	memcpy(&high, uuid->data, sizeof(high));
	memcpy(&low, uuid->data + sizeof(high), sizeof(low));
	high = pg_ntoh64(high);
	low = GjMixStored(pg_ntoh64(low));
	mask = (high >> 12 & 0xF) == 6 || (high >> 12 & 0xF) == 7 ? 0xFFFF : 0xFFFFFFFF;

	low ^= GjMixStored(high & mask);
	PG_RETURN_INT64((int64) ((high & ~mask) | (low & mask)));
}

/*
 * The rest of a uuid is its lower half.  Only indexes without rests use the function above.
 */
Datum
gpujoin_rest_uuid(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(rest_of_uuid(PG_GETARG_UUID_P(0)));
}

static inline int64
rest_of_uuid(const pg_uuid_t *uuid)
{
	uint64		low;

	memcpy(&low, uuid->data + sizeof(low), sizeof(low));
	return (int64) pg_ntoh64(low);
}

/*
 * The rest of a text that is packed; 0 for others, whose code is a hash
 */
Datum
gpujoin_rest_text(PG_FUNCTION_ARGS)
{
	int64		code;
	int64		rest;

	PG_RETURN_INT64(pack_text(PG_GETARG_DATUM(0), &code, &rest) ? rest : 0);
}

/*
 * The code of a uuid with this rest, so that codes are sorted like the upper bits of uuids
 */
static inline int64
code_of_uuid(const pg_uuid_t *uuid, int64 rest)
{
	uint64		high;

	memcpy(&high, uuid->data, sizeof(high));
	high = mix_upper(pg_ntoh64(high), GjMixStored((uint64) rest), 1);
	return (int64) (high ^ UINT64CONST(0x8000000000000000));
}

/*
 * Restore the bytes of a uuid from its code and rest
 */
void
GjUuidOfPair(int64 code, int64 rest, char *bytes)
{
	uint64		high = mix_upper((uint64) code ^ UINT64CONST(0x8000000000000000),
								 GjMixStored((uint64) rest), -1);
	uint64		low = pg_hton64((uint64) rest);

	high = pg_hton64(high);
	memcpy(bytes, &high, sizeof(high));
	memcpy(bytes + sizeof(high), &low, sizeof(low));
}

/*
 * Return the first or the second word, for a word of 1 or 2, that the uuid would have in an INCLUDE
 * column (wide.c)
 */
int64
GjWordOfPair(int64 code, int64 rest, int word)
{
	const uint64 sign = UINT64CONST(0x8000000000000000);

	if (word == 2)
		return (int64) ((uint64) rest ^ sign);
	return (int64) (mix_upper((uint64) code ^ sign, GjMixStored((uint64) rest), -1) ^ sign);
}

/*
 * Mix the upper half of a uuid with its mixed rest; or undo that, if turn is -1
 *
 * Of versions 6 and 7 the 12 bits below the version are mixed, which follow the time in its common
 * form.  Of others the lower 32 bits are, because some applications count in the upper half and
 * others in the lower one.  The 4 bits that are the version must not become 6 or 7 there: they are
 * one of the 14 others, and are turned by a number of these.
 */
static pg_attribute_always_inline uint64
mix_upper(uint64 high, uint64 mixed, int turn)
{
	int			version = high >> VERSION_SHIFT & 0xF;
	int			by = (mixed >> 32) % OTHER_VERSIONS;

	if (version == 6 || version == 7)
		return high ^ (mixed & (VERSION_BIT - 1));

	version -= version > 7 ? 2 : 0;
	version = (version + (turn > 0 ? by : OTHER_VERSIONS - by)) % OTHER_VERSIONS;
	version += version > 5 ? 2 : 0;
	high ^= mixed & 0xFFFFFFFF;
	return (high & ~(0xF * VERSION_BIT)) | (uint64) version << VERSION_SHIFT;
}

/*
 * text, varchar and bytea: strings of at most 7 bytes
 */
Datum
gpujoin_image_text(PG_FUNCTION_ARGS)
{
	struct varlena *value;

	if (toast_raw_datum_size(PG_GETARG_DATUM(0)) - VARHDRSZ > IMAGE_BYTES)
		PG_RETURN_NULL();
	value = PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(0));
	PG_RETURN_INT64(image_of_bytes(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)));
}

Datum
gpujoin_image_bpchar(PG_FUNCTION_ARGS)
{
	BpChar	   *value = PG_GETARG_BPCHAR_PP(0);
	int			length = bpchartruelen(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));

	if (length > IMAGE_BYTES)
		PG_RETURN_NULL();
	PG_RETURN_INT64(image_of_bytes(VARDATA_ANY(value), length));
}

/*
 * Return the bytes, filled up with zeroes, and their number below them
 */
static int64
image_of_bytes(const char *bytes, int length)
{
	uint64		image = 0;

	memcpy(&image, bytes, length);
	return (int64) (pg_ntoh64(image) >> 8 << 3 | length);
}

/*
 * Integral numerics from -2^62 up to 2^63 - 1, whatever their display scale
 */
Datum
gpujoin_image_numeric(PG_FUNCTION_ARGS)
{
	struct varlena *value = PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(0));
	int64		image;

	if (!numeric_image(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value), &image))
		PG_RETURN_NULL();
	PG_RETURN_INT64(image);
}

/*
 * Read an integer from the contents of a numeric, which need not be aligned
 *
 * This is the recheck of each row, for which PostgreSQL's own cast, and a comparison that proves it
 * exact, would take far longer.
 */
static bool
numeric_image(const char *bytes, int length, int64 *image)
{
	uint16		header;
	int16		weight;
	bool		negative;
	int			ndigits;
	int64		result = 0;

	memcpy(&header, bytes, sizeof(header));
	bytes += sizeof(header);
	length -= sizeof(header);
	if ((header & NUMERIC_SIGN_MASK) == NUMERIC_SPECIAL)
		return false;
	if ((header & NUMERIC_SIGN_MASK) == NUMERIC_SHORT)
	{
		negative = (header & NUMERIC_SHORT_NEGATIVE) != 0;
		weight = header & NUMERIC_WEIGHT_MASK;
		if (header & NUMERIC_WEIGHT_SIGN)
			weight |= ~NUMERIC_WEIGHT_MASK;
	}
	else
	{
		negative = (header & NUMERIC_SIGN_MASK) == NUMERIC_LONG_NEGATIVE;
		memcpy(&weight, bytes, sizeof(weight));
		bytes += sizeof(weight);
		length -= sizeof(weight);
	}

	/* the value is the sum of digit i * 10,000^(weight - i), in the range of int64 up to 2^63 */
	ndigits = length / (int) sizeof(int16);
	for (int i = 0; i < Max(ndigits, weight + 1); i++)
	{
		int16		digit = 0;

		if (i < ndigits)
			memcpy(&digit, bytes + i * sizeof(digit), sizeof(digit));
		if (i > weight)
		{
			if (digit != 0)
				return false;
			continue;
		}
		if (ndigits == 0)
			break;
		if (weight > NUMERIC_INT8_WEIGHT ||
			pg_mul_s64_overflow(result, NUMERIC_BASE, &result) ||
			pg_sub_s64_overflow(result, digit, &result))
			return false;
	}

	/* negative numbers have the greater range, so the sum was subtracted */
	if (!negative && result == PG_INT64_MIN)
		return false;
	*image = negative ? result : -result;
	return !GjCodeIsHash(*image);
}
