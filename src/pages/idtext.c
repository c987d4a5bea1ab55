/*-------------------------------------------------------------------------
 *
 * idtext.c
 *	  Packing the texts that applications use as ids into a code and a rest, two words that an index
 *	  stores, and from which the text can be restored.
 *
 * A text is packed if it has one of these forms.  The form decides the upper byte of the code, here
 * written without its sign, so that codes of different forms differ:
 *
 *	  upper byte	form													values
 *	  00 to 3F		none of these: the code is a hash (codec.c)
 *	  40 to 7F		uuid, 36 characters in lower case, of the RFC's variant	2^126
 *	  80 to BF		nanoid: 21 characters of base64url						2^126
 *	  C0 to CF		ulid: 26 characters of Crockford's base32, upper case	2^124
 *	  D0 to DF		the same in lower case, with at least one letter		< 2^124
 *	  E0 to F0		cuid: "c" and 24 digits of base 36, in lower case		36^24
 *	  F1 to FD		cuid2: a letter and 23 digits of base 36, likewise		26 * 36^23
 *	  FE			up to 15 bytes, none of which is zero					2^120
 *	  FF			ObjectId: 24 hexadecimal digits in lower case			2^96
 *
 * Packing is injective.  A form is recognized by the length, except that 24 hexadecimal digits are
 * no cuid2, and 26 decimal digits are no ulid in lower case; so each text has at most one form.
 * The texts of a form are numbered: their digits, to the base of the form, are a number of 128
 * bits with its two halves, HIGH and LOW.  Characters that all texts of the form share are left
 * out: the dashes and the variant of a uuid, the first letter of a cuid.  An ulid's time must be
 * less than 2^44 ms, which ends in 2527.  A number does not need the bits that tell the form:
 * those of a cuid are below 36^24, whose upper half is less than 17 * 2^56, and those of a cuid2
 * are below 26 * 36^23, less than 13 * 2^120.  A byte that is zero is not in a text, and ends one
 * that is shorter than 15.
 *
 * The rest is LOW.  The code is HIGH, with the form's upper byte added, and with some of its lower
 * bits mixed with LOW: for one LOW, different HIGHs have different codes, as mixing is an XOR.
 * Which bits are mixed depends only on bits that are not: on the upper byte, and on the version of
 * a uuid.  So the mixing can be undone, and code and rest together tell the text.
 *
 * Mixing makes the code nearly unique, whichever part of an id an application counts in.  The upper
 * bits keep their order: uuids of versions 6 and 7, ulids, cuids and ObjectIds begin with a time,
 * and applications look up their newest rows, which then are on few pages.
 *
 * Codes and rests are on disk: nothing here may change for a text that is packed.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bswap.h"

#include "pages.h"

/* The first of a form's upper bytes */
#define FORM_UUID				0x40
#define FORM_NANOID				0x80
#define FORM_ULID				0xC0
#define FORM_LOWER_ULID			0xD0
#define FORM_CUID				0xE0
#define FORM_CUID2				0xF1
#define FORM_BYTES				0xFE
#define FORM_OBJECT_ID			0xFF
#define FORM_SHIFT				56

/* Lengths of the texts */
#define UUID_LENGTH				GJ_IDTEXT_MAX
#define NANOID_LENGTH			21
#define ULID_LENGTH				26
#define CUID_LENGTH				25
#define HEX_LENGTH				24	/* of a cuid2, too */
#define MAX_BYTES				15

/* The two upper bits of the lower half of a uuid are its variant; the rest has two others there */
#define VARIANT_SHIFT			62
#define VARIANT_RFC				2
#define VARIANT_BITS			2

/* The version of a uuid, as it is in a code */
#define VERSION_SHIFT			(12 - VARIANT_BITS)

/* Number of digits of base 36 that fit 32 bits, and the number that has one more */
#define GROUP_DIGITS			6
#define GROUP_BASE				UINT64CONST(2176782336)

/* A number of 128 bits */
typedef struct Number
{
	uint64		high;
	uint64		low;
} Number;

/* Digits of some base, and the value of each byte as one: -1 if it is none */
typedef struct Alphabet
{
	const char *digits;
	int8		values[256];
} Alphabet;

static Alphabet base36 = {"0123456789abcdefghijklmnopqrstuvwxyz"};
static Alphabet hexadecimal = {"0123456789abcdef"};
static Alphabet base64url = {"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"};
static Alphabet upper_base32 = {"0123456789ABCDEFGHJKMNPQRSTVWXYZ"};
static Alphabet lower_base32 = {"0123456789abcdefghjkmnpqrstvwxyz"};

static void prepare_alphabets(void);
static void prepare_alphabet(Alphabet *alphabet);
static bool number_text(const char *bytes, int length, Number *number);
static bool number_uuid(const char *bytes, Number *number);
static bool number_ulid(const char *bytes, Number *number);
static bool number_bytes(const char *bytes, int length, Number *number);
static bool number_object_id(const char *bytes, Number *number);
static bool number_base36(const char *bytes, int first, int form, Number *number);
static bool read_digits(const Alphabet *alphabet, int width, const char *bytes, int n,
						Number *number);
static uint64 mixed_bits(uint64 high);
static void print_uuid(Number number, char *bytes);
static int	print_bytes(Number number, char *bytes);
static void print_object_id(Number number, char *bytes);
static void print_base36(Number number, int first, int form, char *bytes);
static void print_digits(const Alphabet *alphabet, int width, Number number, char *bytes, int n);

/*
 * Pack a text into a code and a rest.  Returns false, and sets neither, if it has none of the
 * forms.
 */
bool
GjIdTextPack(const char *bytes, int length, int64 *code, int64 *rest)
{
	Number		number = {0};

	prepare_alphabets();
	if (!number_text(bytes, length, &number))
		return false;
	*rest = (int64) number.low;
	number.high ^= GjMixStored(number.low) & mixed_bits(number.high);
	*code = (int64) (number.high ^ UINT64CONST(0x8000000000000000));
	return true;
}

static inline void
prepare_alphabets(void)
{
	static bool prepared = false;

	if (likely(prepared))
		return;
	prepare_alphabet(&base36);
	prepare_alphabet(&hexadecimal);
	prepare_alphabet(&base64url);
	prepare_alphabet(&upper_base32);
	prepare_alphabet(&lower_base32);
	prepared = true;
}

static void
prepare_alphabet(Alphabet *alphabet)
{
	memset(alphabet->values, -1, sizeof(alphabet->values));
	for (int i = 0; alphabet->digits[i] != '\0'; i++)
		alphabet->values[(uint8) alphabet->digits[i]] = i;
}

/*
 * Recognize the form of a text, and number it; the number includes the form's upper byte
 */
static bool
number_text(const char *bytes, int length, Number *number)
{
	if (length <= MAX_BYTES)
		return number_bytes(bytes, length, number);
	switch (length)
	{
		case UUID_LENGTH:
			return number_uuid(bytes, number);
		case ULID_LENGTH:
			return number_ulid(bytes, number);
		case CUID_LENGTH:
			return bytes[0] == 'c' && number_base36(bytes + 1, 0, FORM_CUID, number);
		case HEX_LENGTH:
			return number_object_id(bytes, number) ||
				(bytes[0] >= 'a' && number_base36(bytes, 'a', FORM_CUID2, number));
		case NANOID_LENGTH:
			if (!read_digits(&base64url, 6, bytes, NANOID_LENGTH, number))
				return false;
			number->high |= (uint64) FORM_NANOID << FORM_SHIFT;
			return true;
		default:
			return false;
	}
}

static bool
number_uuid(const char *bytes, Number *number)
{
	Number		uuid = {0};

	if (bytes[8] != '-' || bytes[13] != '-' || bytes[18] != '-' || bytes[23] != '-' ||
		!read_digits(&hexadecimal, 4, bytes, 8, &uuid) ||
		!read_digits(&hexadecimal, 4, bytes + 9, 4, &uuid) ||
		!read_digits(&hexadecimal, 4, bytes + 14, 4, &uuid) ||
		!read_digits(&hexadecimal, 4, bytes + 19, 4, &uuid) ||
		!read_digits(&hexadecimal, 4, bytes + 24, 12, &uuid) ||
		uuid.low >> VARIANT_SHIFT != VARIANT_RFC)
		return false;
	number->high = (uint64) FORM_UUID << FORM_SHIFT | uuid.high >> VARIANT_BITS;
	number->low = uuid.high << VARIANT_SHIFT | (uuid.low << VARIANT_BITS) >> VARIANT_BITS;
	return true;
}

static bool
number_ulid(const char *bytes, Number *number)
{
	uint64		form = FORM_ULID;

	if (!read_digits(&upper_base32, 5, bytes, ULID_LENGTH, number))
	{
		*number = (Number) {0};
		form = FORM_LOWER_ULID;
		if (!read_digits(&lower_base32, 5, bytes, ULID_LENGTH, number))
			return false;
	}

	/* the first digit has been shifted out of the number */
	if (bytes[0] != '0' || number->high >> 60 != 0)
		return false;
	number->high |= form << FORM_SHIFT;
	return true;
}

/*
 * The bytes follow the form's, and are filled up with zeroes
 */
static bool
number_bytes(const char *bytes, int length, Number *number)
{
	unsigned char all[1 + MAX_BYTES] = {FORM_BYTES};

	if (memchr(bytes, 0, length) != NULL)
		return false;
	memcpy(all + 1, bytes, length);
	memcpy(&number->high, all, sizeof(uint64));
	memcpy(&number->low, all + sizeof(uint64), sizeof(uint64));
	number->high = pg_ntoh64(number->high);
	number->low = pg_ntoh64(number->low);
	return true;
}

/*
 * Below the first 32 bits, which are a time, the upper half has 24 that are zero
 */
static bool
number_object_id(const char *bytes, Number *number)
{
	Number		id = {0};

	if (!read_digits(&hexadecimal, 4, bytes, HEX_LENGTH, &id))
		return false;
	number->high = (uint64) FORM_OBJECT_ID << FORM_SHIFT | id.high << 24;
	number->low = id.low;
	return true;
}

/*
 * Number 24 digits of base 36; the first of them must be at least the byte "first", if that is not
 * 0, and counts from there
 */
static bool
number_base36(const char *bytes, int first, int form, Number *number)
{
	uint64		words[4] = {0};	/* of 32 bits, from the lowest one up */
	int			least = first == 0 ? 0 : base36.values[first];
	int			bad = 0;

	for (int at = 0; at < HEX_LENGTH; at += GROUP_DIGITS)
	{
		uint64		carry = 0;

		for (int i = at; i < at + GROUP_DIGITS; i++)
		{
			int			value = base36.values[(uint8) bytes[i]] - (i == 0 ? least : 0);

			bad |= value;
			carry = carry * 36 + (uint64) value;
		}
		for (int i = 0; i < lengthof(words); i++)
		{
			carry += words[i] * GROUP_BASE;
			words[i] = carry & PG_UINT32_MAX;
			carry >>= 32;
		}
	}
	if (bad < 0)
		return false;
	number->high = (words[3] << 32 | words[2]) + ((uint64) form << FORM_SHIFT);
	number->low = words[1] << 32 | words[0];
	return true;
}

/*
 * Append the digits of a base that is a power of two to a number: width bits each
 */
static inline bool
read_digits(const Alphabet *alphabet, int width, const char *bytes, int n, Number *number)
{
	int			bad = 0;

	for (int i = 0; i < n; i++)
	{
		int			value = alphabet->values[(uint8) bytes[i]];

		bad |= value;
		number->high = number->high << width | number->low >> (64 - width);
		number->low = number->low << width | (uint64) (value & 0x3F);
	}
	return bad >= 0;
}

/*
 * Return which bits of an upper half are mixed with the lower one.  They depend only on the other
 * bits, so unpacking finds the same ones.
 */
static uint64
mixed_bits(uint64 high)
{
	int			form = high >> FORM_SHIFT;
	int			version = high >> VERSION_SHIFT & 0xF;

	if (form < FORM_NANOID)
		return version == 6 || version == 7 ? 0x3FF : 0x3FFFFFFF & ~(0xF << VERSION_SHIFT);
	if (form == FORM_OBJECT_ID)
		return 0xFFFFFF;
	if (form >= FORM_ULID && form < FORM_CUID2)
		return 0xFFFF;			/* what follows the time */
	return 0xFFFFFFFF;
}

/*
 * Restore the text of a code that is not a hash, and its rest.  Returns its length, at most
 * GJ_IDTEXT_MAX.
 */
int
GjIdTextUnpack(int64 code, int64 rest, char *bytes)
{
	Number		number = {(uint64) code ^ UINT64CONST(0x8000000000000000), (uint64) rest};
	int			form = number.high >> FORM_SHIFT;

	Assert(!GjCodeIsHash(code));
	number.high ^= GjMixStored(number.low) & mixed_bits(number.high);
	if (form < FORM_NANOID)
	{
		print_uuid(number, bytes);
		return UUID_LENGTH;
	}
	if (form < FORM_ULID)
	{
		print_digits(&base64url, 6, number, bytes, NANOID_LENGTH);
		return NANOID_LENGTH;
	}
	if (form < FORM_CUID)
	{
		number.high &= (UINT64CONST(1) << 60) - 1;
		print_digits(form < FORM_LOWER_ULID ? &upper_base32 : &lower_base32, 5, number, bytes,
					 ULID_LENGTH);
		return ULID_LENGTH;
	}
	if (form < FORM_CUID2)
	{
		bytes[0] = 'c';
		print_base36(number, 0, FORM_CUID, bytes + 1);
		return CUID_LENGTH;
	}
	if (form < FORM_BYTES)
	{
		print_base36(number, 'a', FORM_CUID2, bytes);
		return HEX_LENGTH;
	}
	if (form == FORM_BYTES)
		return print_bytes(number, bytes);
	print_object_id(number, bytes);
	return HEX_LENGTH;
}

static void
print_uuid(Number number, char *bytes)
{
	Number		upper = {0, number.high << VARIANT_BITS | number.low >> VARIANT_SHIFT};
	Number		lower = {0, (uint64) VARIANT_RFC << VARIANT_SHIFT |
	(number.low << VARIANT_BITS) >> VARIANT_BITS};

	print_digits(&hexadecimal, 4, upper, bytes + 2, 16);
	memmove(bytes, bytes + 2, 8);
	bytes[8] = '-';
	memmove(bytes + 9, bytes + 10, 4);
	bytes[13] = '-';
	print_digits(&hexadecimal, 4, lower, bytes + 20, 16);
	bytes[18] = '-';
	memmove(bytes + 19, bytes + 20, 4);
	bytes[23] = '-';
}

static int
print_bytes(Number number, char *bytes)
{
	char		all[1 + MAX_BYTES];

	number.high = pg_hton64(number.high);
	number.low = pg_hton64(number.low);
	memcpy(all, &number.high, sizeof(uint64));
	memcpy(all + sizeof(uint64), &number.low, sizeof(uint64));
	memcpy(bytes, all + 1, MAX_BYTES);
	return strnlen(bytes, MAX_BYTES);
}

static void
print_object_id(Number number, char *bytes)
{
	number.high = number.high >> 24 & PG_UINT32_MAX;
	print_digits(&hexadecimal, 4, number, bytes, HEX_LENGTH);
}

/*
 * Print a number as 24 digits of base 36.  The first of them counts from the byte "first", if that
 * is not 0.
 */
static void
print_base36(Number number, int first, int form, char *bytes)
{
	uint64		high = number.high - ((uint64) form << FORM_SHIFT);
	uint64		words[4] = {number.low & PG_UINT32_MAX, number.low >> 32,
	high & PG_UINT32_MAX, high >> 32};

	for (int at = HEX_LENGTH - GROUP_DIGITS; at >= 0; at -= GROUP_DIGITS)
	{
		uint64		group = 0;

		for (int i = lengthof(words) - 1; i >= 0; i--)
		{
			group = group << 32 | words[i];
			words[i] = group / GROUP_BASE;
			group %= GROUP_BASE;
		}
		for (int i = at + GROUP_DIGITS - 1; i >= at; i--)
		{
			bytes[i] = base36.digits[group % 36];
			group /= 36;
		}
	}
	if (first != 0)
		bytes[0] = first + (strchr(base36.digits, bytes[0]) - base36.digits);
}

static inline void
print_digits(const Alphabet *alphabet, int width, Number number, char *bytes, int n)
{
	for (int i = n - 1; i >= 0; i--)
	{
		bytes[i] = alphabet->digits[number.low & ((1 << width) - 1)];
		number.low = number.low >> width | number.high << (64 - width);
		number.high >>= width;
	}
}
