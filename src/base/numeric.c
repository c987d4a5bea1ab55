/*-------------------------------------------------------------------------
 *
 * numeric.c
 *	  Numerics as integers, and back.
 *
 * An INCLUDE column of numerics is an array of words of 8 bytes, and aggregates add these words.  A
 * column has two scales: the display scale D and the stored scale S, at most D.  The word of a
 * value is value * 10^S.  A value has a word only if
 *
 *	- its own display scale is D, so that the word tells the value and the way it is shown, and
 *	- value * 10^S is an integer between -2^62 and 2^62, both excluded.
 *
 * Each other value is *absent*: NaN, the infinities, 1.5 where D is 2, what is too big or too
 * precise.  In an index its word is GJ_ABSENT, which no value has, and a scan that needs the
 * column reads the row from the table: rows/rows.c.  The type's own scale plays no part, because
 * ALTER TABLE can remove it, as in numeric(12,2) to numeric, without a new index; then 1.5 and
 * 1.50 are in one column.
 *
 * So equal words are equal numerics, shown alike, and the order of words is that of the values.
 *
 * A numeric is read as PostgreSQL stores it: a header, with or without a weight of its own, and
 * digits of base 10,000.  A restored numeric has the bits that PostgreSQL itself would give it: a
 * short header, and no zero digits at either end.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"

#include "numeric.h"

/* The parts of a numeric on disk */
#define DIGIT_BASE				10000
#define DIGIT_DECIMALS			4
#define SIGN_MASK				0xC000
#define LONG_NEGATIVE			0x4000
#define LONG_SCALE_MASK			0x3FFF
#define SHORT_FORM				0x8000
#define SPECIAL					0xC000	/* NaN and infinities */
#define NEGATIVE_INFINITY		0xF000
#define SHORT_NEGATIVE			0x2000
#define SHORT_SCALE_MASK		0x1F80
#define SHORT_SCALE_SHIFT		7
#define SHORT_WEIGHT_SIGN		0x0040
#define SHORT_WEIGHT_MASK		0x003F

#define WORD_LIMIT				((uint64) GJ_WORD_LIMIT)

#define MAX_DIGITS				10	/* five on each side of the decimal point */

static const uint64 powers[GJ_MAX_STORED_SCALE + 1] = {
	UINT64CONST(1), UINT64CONST(10), UINT64CONST(100), UINT64CONST(1000), UINT64CONST(10000),
	UINT64CONST(100000), UINT64CONST(1000000), UINT64CONST(10000000), UINT64CONST(100000000),
	UINT64CONST(1000000000), UINT64CONST(10000000000), UINT64CONST(100000000000),
	UINT64CONST(1000000000000), UINT64CONST(10000000000000), UINT64CONST(100000000000000),
	UINT64CONST(1000000000000000), UINT64CONST(10000000000000000),
	UINT64CONST(100000000000000000), UINT64CONST(1000000000000000000)
};

static bool truncate(const GjNumericParts *parts, int scale, uint64 *size, bool *is_exact);
static bool scale_up(uint64 *value, int decimals);
static int	split_word(uint64 word, int scale, int16 *digits);

/*
 * Split a numeric into its parts.  The value need not be aligned, but must not be toasted.
 */
void
GjNumericRead(const struct varlena *value, GjNumericParts *parts)
{
	const char *bytes = VARDATA_ANY(value);
	int			length = VARSIZE_ANY_EXHDR(value);
	uint16		header;

	memcpy(&header, bytes, sizeof(header));
	bytes += sizeof(header);
	length -= sizeof(header);
	parts->is_special = (header & SIGN_MASK) == SPECIAL;
	parts->is_negative = (header & NEGATIVE_INFINITY) == NEGATIVE_INFINITY;
	if ((header & SIGN_MASK) == SHORT_FORM)
	{
		parts->is_negative = (header & SHORT_NEGATIVE) != 0;
		parts->display_scale = (header & SHORT_SCALE_MASK) >> SHORT_SCALE_SHIFT;
		parts->weight = header & SHORT_WEIGHT_MASK;
		if (header & SHORT_WEIGHT_SIGN)
			parts->weight |= ~SHORT_WEIGHT_MASK;
	}
	else if (!parts->is_special)
	{
		int16		weight;

		memcpy(&weight, bytes, sizeof(weight));
		bytes += sizeof(weight);
		length -= sizeof(weight);
		parts->is_negative = (header & SIGN_MASK) == LONG_NEGATIVE;
		parts->display_scale = header & LONG_SCALE_MASK;
		parts->weight = weight;
	}
	parts->digits = bytes;
	parts->ndigits = length / (int) sizeof(int16);
}

/*
 * Return the word of a numeric, or GJ_ABSENT.  Leaves nothing allocated.
 */
int64
GjNumericToWord(Datum value, int display_scale, int stored_scale)
{
	struct varlena *original = (struct varlena *) DatumGetPointer(value);
	struct varlena *plain = PG_DETOAST_DATUM_PACKED(value);
	GjNumericParts parts;
	int64		word = GJ_ABSENT;

	GjNumericRead(plain, &parts);
	if (parts.is_special || parts.display_scale != display_scale ||
		!GjNumericScale(&parts, stored_scale, &word))
		word = GJ_ABSENT;
	if (plain != original)
		pfree(plain);
	return word;
}

/*
 * Multiply a numeric, which is not special, by a power of ten.  Returns false if the result is no
 * integer between the limits of words.
 */
bool
GjNumericScale(const GjNumericParts *parts, int scale, int64 *word)
{
	bool		is_exact;
	uint64		size;

	if (!truncate(parts, scale, &size, &is_exact) || !is_exact)
		return false;
	*word = parts->is_negative ? -(int64) size : (int64) size;
	return true;
}

/*
 * Multiply a numeric by a power of ten, and return the greatest integer that is not above the
 * result, or the limit of words that is next to it.  Sets whether it is the result.  NaN is above
 * all words, and never equal to one.
 */
int64
GjNumericFloor(const GjNumericParts *parts, int scale, bool *is_exact)
{
	uint64		size;

	if (parts->is_special || !truncate(parts, scale, &size, is_exact))
	{
		*is_exact = true;
		return parts->is_negative ? -GJ_WORD_LIMIT : GJ_WORD_LIMIT;
	}
	return !parts->is_negative ? (int64) size : -(int64) size - !*is_exact;
}

/*
 * Multiply a numeric by a power of ten, and return the integer part without its sign, and whether
 * that is all.  Returns false if it is not between the limits of words.
 *
 * decimals is the exponent of the last digit that has been added, after the multiplication.
 */
static bool
truncate(const GjNumericParts *parts, int scale, uint64 *size, bool *is_exact)
{
	uint64		sum = 0;
	int			decimals = 0;

	*is_exact = true;
	for (int i = 0; i < parts->ndigits; i++)
	{
		int16		digit;

		memcpy(&digit, parts->digits + i * sizeof(digit), sizeof(digit));
		decimals = DIGIT_DECIMALS * (parts->weight - i) + scale;
		if (decimals >= 0)
		{
			if (!scale_up(&sum, DIGIT_DECIMALS))
				return false;
			sum += digit;
		}
		else if (decimals > -DIGIT_DECIMALS)
		{
			uint64		divisor = powers[-decimals];

			if (!scale_up(&sum, DIGIT_DECIMALS + decimals))
				return false;
			sum += digit / divisor;
			*is_exact &= digit % divisor == 0;
			decimals = 0;
		}
		else
		{
			*is_exact &= digit == 0;
			decimals = 0;
		}
	}
	*size = sum;
	return scale_up(size, decimals) && *size < WORD_LIMIT;
}

/*
 * Multiply by a power of ten, unless the result reaches the limit of words
 */
static bool
scale_up(uint64 *value, int decimals)
{
	if (*value == 0)
		return true;
	if (decimals > GJ_MAX_STORED_SCALE || *value >= WORD_LIMIT / powers[decimals] + 1)
		return false;
	*value *= powers[decimals];
	return true;
}

/*
 * Make the numeric of a word, or of any other integer but the smallest one, in a buffer of
 * GJ_NUMERIC_BYTES, which must be aligned as an int
 */
void
GjNumericOfWord(int64 word, int display_scale, int stored_scale, char *buffer)
{
	int16		digits[MAX_DIGITS];
	int			weight = split_word(word < 0 ? -(uint64) word : (uint64) word, stored_scale,
									digits);
	int			first = 0;
	int			end = MAX_DIGITS;
	uint16		header;

	while (first < end && digits[first] == 0)
		first++;
	while (end > first && digits[end - 1] == 0)
		end--;
	weight = first == end ? 0 : weight - first;
	header = SHORT_FORM | display_scale << SHORT_SCALE_SHIFT |
		(word < 0 ? SHORT_NEGATIVE : 0) |
		(weight < 0 ? SHORT_WEIGHT_SIGN : 0) | (weight & SHORT_WEIGHT_MASK);
	SET_VARSIZE(buffer, VARHDRSZ + sizeof(header) + (end - first) * sizeof(int16));
	memcpy(VARDATA(buffer), &header, sizeof(header));
	memcpy(VARDATA(buffer) + sizeof(header), digits + first, (end - first) * sizeof(int16));
}

/*
 * Split an integer, divided by a power of ten, into digits of base 10,000, highest first.  Returns
 * the weight of the first one.
 */
static int
split_word(uint64 word, int scale, int16 *digits)
{
	uint64		whole = word / powers[scale];
	uint64		fraction = word % powers[scale];
	int			middle = MAX_DIGITS / 2;

	for (int i = middle - 1; i >= 0; i--)
	{
		digits[i] = (int16) (whole % DIGIT_BASE);
		whole /= DIGIT_BASE;
	}
	for (int i = middle; i < MAX_DIGITS; i++)
	{
		int			decimals = scale - DIGIT_DECIMALS * (i - middle + 1);

		if (decimals >= 0)
			digits[i] = (int16) (fraction / powers[decimals] % DIGIT_BASE);
		else if (decimals > -DIGIT_DECIMALS)
			digits[i] = (int16) (fraction % powers[DIGIT_DECIMALS + decimals] *
								 powers[-decimals]);
		else
			digits[i] = 0;
	}
	return middle - 1;
}
