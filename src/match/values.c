/*-------------------------------------------------------------------------
 *
 * values.c
 *	  Converting values of a condition to keys: exactly the keys that the condition's
 *	  operator considers equal to the value.  The values are a list's, or those of a join's small
 *	  rows.
 *
 * A comparison within the operator family uses the family's support function.  For
 * others, PostgreSQL casts the key: "k IN (1.0, 2.5)" is k::numeric = ANY (numeric[]).
 *
 *	  numeric	The cast is exact, so a value is equal to at most one integer; none
 *				if it is not integral, NaN, infinite or beyond bigint.
 *	  float8	From 2^53 on, the cast rounds to the nearest float8.  Below, exactly one
 *				integer is cast to a given float8.  From there to 2^63, the integers within half of
 *				the distance to the neighboring float8 may be: 512 at most on either side.  We cast
 *				and compare each, so the rounding is that of the cast itself.  An index with 4-byte
 *				keys drops what it cannot hold.  A cast preserves order, so these integers are
 *				consecutive.
 *
 *	  text		Drivers send all parameters as text, and then cast the column.  Under a
 *				deterministic collation a text is equal to the text of an integer or a uuid if
 *				and only if it has the same bytes: so it must be exactly what the output function
 *				prints.  Anything else, such as a uuid in upper case, is equal to no key.  The
 *				text of a char(n) has no trailing blanks, so a text that has any is equal to none;
 *				any other is equal to the char(n) of the same bytes, and bpchareq() says so, too.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/int.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/uuid.h"

#include "base/arrays.h"
#include "pages/pages.h"
#include "match.h"

/* The text of a uuid has this length, and dashes before these of its bytes */
#define UUID_TEXT_LENGTH		36
#define UUID_HAS_DASH(byte)		((byte) == 4 || (byte) == 6 || (byte) == 8 || (byte) == 10)

/* float8 represents every integer up to this absolute value */
#define FLOAT8_EXACT			9007199254740992.0	/* 2^53 */
#define FLOAT8_INT8_END			9223372036854775808.0	/* 2^63 */

/* Number of uuids whose codes are computed together */
#define UUIDS_AT_ONCE			256

/* Destination of the keys of an array's elements, or of a single value */
typedef struct Destination
{
	GjKeySet   *set;
	GjConverter *converter;
	ArrayType  *array;			/* NULL for a single value */
	MemoryContext own;			/* memory of a detoasted array, or NULL */
	const char *kept;			/* the array that the exact table refers to, or NULL */
	uint64		n;				/* number of elements */
} Destination;

static ArrayType *read_array(Destination *to, Datum value);
static void add_element_code(void *destination, Datum element);
static void add_element_proved(void *destination, Datum element);
static void add_element_keys(void *destination, Datum element);
static void add_uuids(Destination *to);
static void convert_to_keys(Destination *to, Datum value);
static void add_proved(Destination *to, Datum value, bool is_element);
static void make_exact(Destination *to);
static Datum keep_array(Destination *to, Datum element);
static bool find_integers(GjConversion how, Datum value, int64 *first, int64 *last);
static bool is_text_of_integer(const text *value, int64 *key);
static bool read_uuid(const char *digits, pg_uuid_t *uuid);
static int	hex_digit(char c);
static bool is_text_of_bpchar(const text *value);
static bool numeric_key(Datum value, int64 *key);
static bool numeric_is_within_int8(Datum value);
static bool float8_keys(float8 value, int64 *first, int64 *last);

/*
 * Add the keys of a value, or of each element of an array.  A NULL, as the value,
 * the array or an element, equals nothing and adds nothing.
 */
void
GjAddDatumKeys(GjKeySet *set, GjConverter *converter, Datum value, bool isnull, bool is_array)
{
	Destination to;

	if (isnull)
		return;

	to.set = set;
	to.converter = converter;
	to.own = NULL;
	to.kept = NULL;
	to.array = is_array ? read_array(&to, value) : NULL;
	to.n = is_array ? ArrayGetNItems(ARR_NDIM(to.array), ARR_DIMS(to.array)) : 1;
	if (is_array)
		GjKeySetReserve(set, to.n);
	if (!is_array)
		convert_to_keys(&to, value);
	else if (converter->how != GJ_CONVERT_CODEC)
		(void) GjForEachElement(to.array, add_element_keys, &to);
	else if (converter->part == NULL)
		(void) GjForEachElement(to.array, add_element_code, &to);
	else if (converter->codec.kind == GJ_CODEC_UUID && !ARR_HASNULL(to.array))
		add_uuids(&to);
	else
		(void) GjForEachElement(to.array, add_element_proved, &to);
}

/*
 * Return the array, detoasted.  If the exact table may refer to its elements, a detoasted array
 * gets a memory context of its own, so that it need not be copied again (keep_array()).
 */
static ArrayType *
read_array(Destination *to, Datum value)
{
	const GjExactPart *part = to->converter->part;
	MemoryContext old = CurrentMemoryContext;
	ArrayType  *array;

	if (part != NULL && !part->value_byval && VARATT_IS_EXTENDED(DatumGetPointer(value)))
	{
		to->own = AllocSetContextCreate(old, "gpujoin list", ALLOCSET_SMALL_SIZES);
		MemoryContextSwitchTo(to->own);
	}
	array = DatumGetArrayTypeP(value);
	MemoryContextSwitchTo(old);
	return array;
}

/* Most lists: the code is all that is needed, so the compiler makes one loop of this */
static void
add_element_code(void *destination, Datum element)
{
	Destination *to = destination;

	GjKeySetAdd(to->set, GjCodeOf(&to->converter->codec, element));
}

/* The code may have to be proved: the value is an element of the exact table, too */
static void
add_element_proved(void *destination, Datum element)
{
	add_proved(destination, element, true);
}

/* The same for all elements, which are uuids */
static void
add_uuids(Destination *to)
{
	const char *uuids = ARR_DATA_PTR(to->array);
	int64		codes[UUIDS_AT_ONCE];
	int64		rests[UUIDS_AT_ONCE];

	for (uint64 first = 0; first < to->n; first += UUIDS_AT_ONCE)
	{
		int			n = (int) Min(to->n - first, UUIDS_AT_ONCE);

		CHECK_FOR_INTERRUPTS();
		make_exact(to);
		GjPairsOfUuids(uuids + first * UUID_LEN, n, codes, rests);
		for (int i = 0; i < n; i++)
			GjKeySetAdd(to->set, codes[i]);
		GjExactListPairs(to->set->exact, n, codes, rests);
	}
}

static void
add_element_keys(void *destination, Datum element)
{
	convert_to_keys(destination, element);
}

/*
 * Add the keys that equal a value, which is not NULL
 *
 * May leak allocations into the caller's memory context.
 */
static void
convert_to_keys(Destination *to, Datum value)
{
	GjConverter *converter = to->converter;
	int64		key;
	int64		last;
	pg_uuid_t	uuid;

	switch (converter->how)
	{
		case GJ_CONVERT_CODEC:
			add_proved(to, value, false);
			break;
		case GJ_CONVERT_TEXT_UUID:
			if (GjUuidOfText(value, &uuid))
				add_proved(to, UUIDPGetDatum(&uuid), false);
			break;
		case GJ_CONVERT_TEXT_BPCHAR:
			if (is_text_of_bpchar(DatumGetTextPP(value)))
				add_proved(to, value, to->array != NULL);
			break;
		default:
			if (!find_integers(converter->how, value, &key, &last))
				break;
			for (; key < last; key++)
				GjKeySetAdd(to->set, key);
			GjKeySetAdd(to->set, key);
			break;
	}
}

/*
 * Find the codes of the keys that equal a value, which is not NULL: those from *first to *last.
 * Returns false if no key equals it.  Keys that are not int8 equal a value beyond 2^53 in no case,
 * so a value has one code.
 *
 * May leak allocations into the caller's memory context.
 */
bool
GjCodesOfValue(GjConversion how, GjCodec *codec, Datum value, int64 *first, int64 *last)
{
	pg_uuid_t	uuid;

	switch (how)
	{
		case GJ_CONVERT_CODEC:
			break;
		case GJ_CONVERT_TEXT_UUID:
			if (!GjUuidOfText(value, &uuid))
				return false;
			value = UUIDPGetDatum(&uuid);
			break;
		case GJ_CONVERT_TEXT_BPCHAR:
			if (!is_text_of_bpchar(DatumGetTextPP(value)))
				return false;
			break;
		default:
			return find_integers(how, value, first, last) &&
				(codec->kind == GJ_CODEC_INT8 || *first == (int32) *first);
	}
	*first = *last = GjCodeOf(codec, value);
	return true;
}

/*
 * Find the integers that equal a value when they are cast
 */
static bool
find_integers(GjConversion how, Datum value, int64 *first, int64 *last)
{
	if (how == GJ_CONVERT_FLOAT8)
		return float8_keys(DatumGetFloat8(value), first, last);
	if (how == GJ_CONVERT_NUMERIC ? !numeric_key(value, first) :
		!is_text_of_integer(DatumGetTextPP(value), first))
		return false;
	*last = *first;
	return true;
}

/*
 * Add the code of a value, and what proves it with the code, if that alone does not
 */
static void
add_proved(Destination *to, Datum value, bool is_element)
{
	GjKeySet   *set = to->set;
	GjConverter *converter = to->converter;
	Datum		proof;
	int64		code = GjCodeAndProof(&converter->codec, value, &proof);

	GjKeySetAdd(set, code);
	if (converter->part == NULL || !GjCodeNeedsProof(&converter->codec, code))
		return;
	make_exact(to);
	if (is_element && !converter->part->value_byval &&
		!GjExactPartHasWord(converter->part, code))
		proof = keep_array(to, proof);
	GjExactList(set->exact, code, &proof, is_element);
}

/*
 * Make the exact table, unless it is there
 *
 * Codes of uuids, and hashes, are spread.  Those of packed texts need not be: then sorting by upper
 * bits gives up, and all bits are used; the exact table hashes the rest, too.
 */
static void
make_exact(Destination *to)
{
	GjKeySet   *set = to->set;

	if (set->exact != NULL)
		return;
	set->exact = GjExactCreate(set->context, 1, to->converter->part, true, to->n);
	set->spread = true;
}

/*
 * Return an element of the array, or of a copy of it, that lives as long as the exact table
 *
 * Copying the whole array takes less time and memory than copying each element.
 */
static Datum
keep_array(Destination *to, Datum element)
{
	MemoryContext context = GetMemoryChunkContext(to->set->exact);

	if (to->kept == NULL && to->own != NULL)
		MemoryContextSetParent(to->own, context);
	if (to->kept == NULL)
		to->kept = to->own != NULL || to->converter->values_last ? (char *) to->array :
			memcpy(MemoryContextAllocHuge(context, VARSIZE(to->array)), to->array,
				   VARSIZE(to->array));
	return PointerGetDatum(to->kept + ((char *) DatumGetPointer(element) - (char *) to->array));
}

/*
 * Return true if a text is what an integer is printed as, and set key to the integer
 */
static bool
is_text_of_integer(const text *value, int64 *key)
{
	const char *digits = VARDATA_ANY(value);
	int			length = VARSIZE_ANY_EXHDR(value);
	bool		negative = length > 0 && digits[0] == '-';
	int64		result = 0;

	digits += negative;
	length -= negative;
	if (length == 0 || (digits[0] == '0' && (length > 1 || negative)))
		return false;

	/* negative numbers have the greater range */
	for (int i = 0; i < length; i++)
	{
		if (digits[i] < '0' || digits[i] > '9' ||
			pg_mul_s64_overflow(result, 10, &result) ||
			pg_sub_s64_overflow(result, digits[i] - '0', &result))
			return false;
	}
	if (!negative && result == PG_INT64_MIN)
		return false;
	*key = negative ? result : -result;
	return true;
}

/*
 * Return true if a text is what a uuid is printed as, and set *uuid to it
 */
bool
GjUuidOfText(Datum datum, pg_uuid_t *uuid)
{
	text	   *value = DatumGetTextPP(datum);
	bool		found = VARSIZE_ANY_EXHDR(value) == UUID_TEXT_LENGTH &&
		read_uuid(VARDATA_ANY(value), uuid);

	/* free at once: a join does not */
	if ((Pointer) value != DatumGetPointer(datum))
		pfree(value);
	return found;
}

static bool
read_uuid(const char *digits, pg_uuid_t *uuid)
{
	for (int i = 0; i < UUID_LEN; i++)
	{
		int			high;
		int			low;

		if (UUID_HAS_DASH(i) && *digits++ != '-')
			return false;
		high = hex_digit(*digits++);
		low = hex_digit(*digits++);
		if (high < 0 || low < 0)
			return false;
		uuid->data[i] = (unsigned char) (high << 4 | low);
	}
	return true;
}

/*
 * Return the value of a hexadecimal digit in lower case; -1 if it is no such digit
 */
static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * Return true if a text can be that of a char(n)
 */
static bool
is_text_of_bpchar(const text *value)
{
	int			length = VARSIZE_ANY_EXHDR(value);

	return length == 0 || VARDATA_ANY(value)[length - 1] != ' ';
}

/*
 * Return true if an integer equals the numeric, and set key to it
 */
static bool
numeric_key(Datum value, int64 *key)
{
	Numeric		numeric = DatumGetNumeric(value);
	Numeric		rounded;
	bool		equal;

	if (numeric_is_nan(numeric) || numeric_is_inf(numeric) ||
		!numeric_is_within_int8(NumericGetDatum(numeric)))
		return false;

	*key = DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(numeric)));
	rounded = int64_to_numeric(*key);
	equal = DatumGetBool(DirectFunctionCall2(numeric_eq, NumericGetDatum(numeric),
											 NumericGetDatum(rounded)));

	/* free at once: an array may have millions of elements */
	pfree(rounded);
	if ((Pointer) numeric != DatumGetPointer(value))
		pfree(numeric);
	return equal;
}

/*
 * Return true if a numeric can be cast to int8 without an error
 */
static bool
numeric_is_within_int8(Datum value)
{
	static Numeric low = NULL;
	static Numeric high = NULL;

	if (high == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		low = int64_to_numeric(PG_INT64_MIN);
		high = int64_to_numeric(PG_INT64_MAX);
		MemoryContextSwitchTo(old);
	}
	return DatumGetBool(DirectFunctionCall2(numeric_ge, value, NumericGetDatum(low))) &&
		DatumGetBool(DirectFunctionCall2(numeric_le, value, NumericGetDatum(high)));
}

/*
 * Find the integers whose cast to float8 gives this value
 */
static bool
float8_keys(float8 value, int64 *first, int64 *last)
{
	if (isnan(value) || value < -FLOAT8_INT8_END || value > FLOAT8_INT8_END ||
		value != rint(value))
		return false;
	if (fabs(value) < FLOAT8_EXACT)
	{
		*first = *last = (int64) value;
		return true;
	}

	/* the neighbors on either side are integers, or outside the range of int64 */
	*first = value <= -FLOAT8_INT8_END ? PG_INT64_MIN : (int64) nextafter(value, -HUGE_VAL);
	*last = nextafter(value, HUGE_VAL) >= FLOAT8_INT8_END ?
		PG_INT64_MAX : (int64) nextafter(value, HUGE_VAL);

	while ((float8) *first != value)
		(*first)++;
	while ((float8) *last != value)
		(*last)--;
	return true;
}
