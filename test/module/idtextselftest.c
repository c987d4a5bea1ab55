/*-------------------------------------------------------------------------
 *
 * idtextselftest.c
 *	  Texts that are packed into a code and a rest (pages/idtext.c): which ones are, and that each
 *	  is restored.
 *
 * The forms are described here once more, in another way.  Texts of each form are random, from a
 * fixed seed, and then changed a little, so that many of them just miss the form.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "pages/pages.h"

/* Longest text that is tried, and room for it */
#define MAX_TEXT				40

#define BASE64URL	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
#define LETTERS		"abcdefghijklmnopqrstuvwxyz"
#define UPPER32		"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
#define LOWER32		"0123456789abcdefghjkmnpqrstvwxyz"
#define HEX			"0123456789abcdef"
#define BASE36		"0123456789" LETTERS

/*
 * Templates of the forms: H, L, 3, 6, U and l are digits of the alphabets above, V is a variant,
 * F a digit below 16, and others are themselves
 */
static const char *const forms[] = {
	"HHHHHHHH-HHHH-HHHH-VHHH-HHHHHHHHHHHH", "HHHHHHHH-HHHH-7HHH-VHHH-HHHHHHHHHHHH",
	"666666666666666666666", "0FUUUUUUUUUUUUUUUUUUUUUUUU", "0fllllllllllllllllllllllll",
	"c333333333333333333333333", "L33333333333333333333333", "HHHHHHHHHHHHHHHHHHHHHHHH",
	"*", "**", "*******", "********", "**************", "***************",
};

/* Texts that begin with a time, in digits from the second number on up to before the third */
static const struct
{
	const char *form;
	int			begin;
	int			end;
	const char *digits;
} times[] = {
	{"HHHHHHHH-HHHH-7HHH-VHHH-HHHHHHHHHHHH", 0, 8, HEX},
	{"HHHHHHHH-HHHH-7HHH-VHHH-HHHHHHHHHHHH", 9, 13, HEX},
	{"0FUUUUUUUUUUUUUUUUUUUUUUUU", 2, 10, UPPER32},
	{"0fllllllllllllllllllllllll", 2, 10, LOWER32},
	{"c333333333333333333333333", 1, 6, BASE36},	/* the order is not strict below */
	{"HHHHHHHHHHHHHHHHHHHHHHHH", 0, 8, HEX},
};

PG_FUNCTION_INFO_V1(gpujoin_idtext_selftest);
PG_FUNCTION_INFO_V1(gpujoin_test_pack);
PG_FUNCTION_INFO_V1(gpujoin_test_unpack);

static bool
consists_of(const char *bytes, int n, const char *digits)
{
	for (int i = 0; i < n; i++)
	{
		if (bytes[i] == '\0' || strchr(digits, bytes[i]) == NULL)
			return false;
	}
	return true;
}

/*
 * Return true if a text has one of the forms
 */
static bool
has_form(const char *bytes, int length)
{
	switch (length)
	{
		case 36:
			for (int i = 0; i < length; i++)
			{
				if (!consists_of(bytes + i, 1, i == 8 || i == 13 || i == 18 || i == 23 ? "-" :
								 i == 19 ? "89ab" : HEX))
					return false;
			}
			return true;
		case 26:
			return bytes[0] == '0' && consists_of(bytes + 1, 1, HEX "ABCDEF") &&
				(consists_of(bytes, length, UPPER32) || consists_of(bytes, length, LOWER32));
		case 25:
			return bytes[0] == 'c' && consists_of(bytes, length, BASE36);
		case 24:
			return consists_of(bytes, length, HEX) ||
				(consists_of(bytes, 1, LETTERS) && consists_of(bytes, length, BASE36));
		case 21:
			return consists_of(bytes, length, BASE64URL);
		default:
			return length <= 15 && memchr(bytes, 0, length) == NULL;
	}
}

/*
 * Check a text.  Returns true, with its code, if it has been packed.
 */
static bool
check_text(const char *bytes, int length, int64 *code)
{
	char		restored[GJ_IDTEXT_MAX];
	char		copy[MAX_TEXT];
	int64		rest;
	bool		packed;

	/* the text must not be read beyond its end */
	memset(copy, 'a', sizeof(copy));
	memcpy(copy, bytes, length);
	packed = GjIdTextPack(copy, length, code, &rest);
	if (packed != has_form(bytes, length))
		elog(ERROR, "\"%.*s\" is %s", length, bytes, packed ? "packed" : "not packed");
	if (packed && (GjCodeIsHash(*code) || GjIdTextUnpack(*code, rest, restored) != length ||
				   memcmp(restored, bytes, length) != 0))
		elog(ERROR, "\"%.*s\" is not restored", length, bytes);
	return packed;
}

static char
random_of(pg_prng_state *prng, const char *digits)
{
	return digits[pg_prng_uint64_range(prng, 0, strlen(digits) - 1)];
}

/*
 * Make a text of a form; returns its length
 */
static int
make_text(pg_prng_state *prng, const char *form, char *bytes)
{
	int			length = strlen(form);

	for (int i = 0; i < length; i++)
	{
		switch (form[i])
		{
			case 'H':
				bytes[i] = random_of(prng, HEX);
				break;
			case 'L':
				bytes[i] = random_of(prng, LETTERS);
				break;
			case '3':
				bytes[i] = random_of(prng, BASE36);
				break;
			case '6':
				bytes[i] = random_of(prng, BASE64URL);
				break;
			case 'U':
				bytes[i] = random_of(prng, UPPER32);
				break;
			case 'l':
				bytes[i] = random_of(prng, LOWER32);
				break;
			case 'V':
				bytes[i] = random_of(prng, "89ab");
				break;
			case 'F':
				bytes[i] = random_of(prng, "0123456789ABCDEF");
				break;
			case 'f':
				bytes[i] = random_of(prng, HEX);
				break;
			case '*':
				bytes[i] = (char) pg_prng_uint64_range(prng, 1, 255);
				break;
			default:
				bytes[i] = form[i];
				break;
		}
	}
	return length;
}

/*
 * Change a text a little, mostly so that it keeps its characters; returns its length
 */
static int
change_text(pg_prng_state *prng, char *bytes, int length)
{
	int			i = (int) pg_prng_uint64_range(prng, 0, length - 1);

	switch (pg_prng_uint64_range(prng, 0, 6))
	{
		case 0:
			bytes[i] = pg_toupper((unsigned char) bytes[i]);
			return length;
		case 1:
			bytes[i] = pg_tolower((unsigned char) bytes[i]);
			return length;
		case 2:
			memmove(bytes + i, bytes + i + 1, length - i - 1);
			return length - 1;
		case 3:
			memmove(bytes + i + 1, bytes + i, length - i);
			return length + 1;
		case 4:
			bytes[i] = random_of(prng, BASE64URL);
			return length;
		case 5:
			bytes[0] = random_of(prng, BASE36);
			return length;
		default:
			bytes[i] = (char) pg_prng_uint32(prng);
			return length;
	}
}

/*
 * Check that of two texts of one form, the one with the later time has the greater code
 */
static void
check_times(pg_prng_state *prng)
{
	for (int i = 0; i < lengthof(times); i++)
	{
		const char *digits = times[i].digits;
		char		early[MAX_TEXT];
		char		late[MAX_TEXT];
		int			length = make_text(prng, times[i].form, early);
		int			from = (int) pg_prng_uint64_range(prng, times[i].begin, times[i].end - 1);
		const char *digit = strchr(digits, early[from]);
		int64		code;
		int64		late_code;

		(void) make_text(prng, times[i].form, late);
		memcpy(late, early, from);
		if (digit[1] == '\0')
			continue;
		late[from] = digit[1];
		/* without a letter, an ulid is one in upper case */
		early[length - 1] = late[length - 1] = times[i].form[length - 1] == 'l' ? 'z' : '0';
		if (!check_text(early, length, &code) || !check_text(late, length, &late_code) ||
			code >= late_code)
			elog(ERROR, "\"%.*s\" is not before \"%.*s\"", length, early, length, late);
	}
}

/*
 * Check a text with each byte in each place
 */
static int64
check_bytes(const char *text, int length)
{
	char		bytes[MAX_TEXT];
	int64		code;

	memcpy(bytes, text, length);
	for (int i = 0; i < length; i++)
	{
		for (int byte = 0; byte < 256; byte++)
		{
			bytes[i] = (char) byte;
			(void) check_text(bytes, length, &code);
		}
		bytes[i] = text[i];
	}
	return length * 256;
}

/*
 * Check many texts of each form; returns the number of checks
 */
Datum
gpujoin_idtext_selftest(PG_FUNCTION_ARGS)
{
	pg_prng_state prng;
	int64		nchecks = 0;
	int64		code;

	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to run this test")));
	pg_prng_seed(&prng, 20);
	for (int i = 0; i < 65536; i++)
		(void) check_text((char[]) {(char) i, (char) (i >> 8)}, i < 256 ? 1 : 2, &code);
	(void) check_text("", 0, &code);
	for (int64 round = 0; round < PG_GETARG_INT64(0); round++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < lengthof(forms); i++)
		{
			char		bytes[MAX_TEXT];
			int			length = make_text(&prng, forms[i], bytes);

			if (!check_text(bytes, length, &code))
				elog(ERROR, "\"%.*s\" is not packed", length, bytes);
			if (round < 20)
				nchecks += check_bytes(bytes, length);
			for (int changes = 0; changes < 2 && length > 0; changes++)
			{
				length = change_text(&prng, bytes, length);
				(void) check_text(bytes, length, &code);
			}
			nchecks += 3;	/* about */
		}
		check_times(&prng);
	}
	PG_RETURN_INT64(nchecks);
}

/*
 * Return the code and the rest of a text; NULL if it is not packed
 */
Datum
gpujoin_test_pack(PG_FUNCTION_ARGS)
{
	text	   *value = PG_GETARG_TEXT_PP(0);
	Datum		values[2];
	bool		nulls[2] = {false, false};
	TupleDesc	desc;
	int64		code;
	int64		rest;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!GjIdTextPack(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value), &code, &rest))
		PG_RETURN_NULL();
	values[0] = Int64GetDatum(code);
	values[1] = Int64GetDatum(rest);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, nulls)));
}

/*
 * Return the text of a code and a rest
 */
Datum
gpujoin_test_unpack(PG_FUNCTION_ARGS)
{
	char		bytes[GJ_IDTEXT_MAX];
	int64		code = PG_GETARG_INT64(0);

	if (GjCodeIsHash(code))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text_with_len(bytes, GjIdTextUnpack(code, PG_GETARG_INT64(1),
																	bytes)));
}
