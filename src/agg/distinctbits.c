/*-------------------------------------------------------------------------
 *
 * distinctbits.c
 *	  What count(DISTINCT) has seen, without groups and of values that are close together: a
 *	  bit for each.
 *
 * Numbers of companies or of days need a few kilobytes, which stay in the cache, and no hash.
 * The bits cover the range that has been seen, until that is too wide; then the values go to
 * the hash table for good.
 *
 * A value is told by its bits as a signed integer of its width, whatever its type: all that
 * matters is which are the same.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "groupparts.h"

/* The widest range: half a megabyte */
#define GJ_MAX_BITS				((uint64) 1 << 22)

#define GJ_FIRST_BITS			((uint64) 1 << 12)

#define WORD_BITS				64

static int	add_from(GjDistinct *set, const GjAggInput *input, int row, int64 *count);
static void find_range(const GjDistinct *set, const GjAggInput *input, int64 *low, int64 *high);
static bool cover(GjDistinct *set, int64 low, int64 high);
static uint64 most_bits(const GjDistinct *set);
static void move_to(GjDistinct *set, int64 low, uint64 nbits);

/*
 * Add values of rows and count those that are new; false if their range is too wide: then some may
 * have been added, which does no harm to who adds all of them again.
 */
bool
GjBitsAdd(GjDistinct *set, const GjAggInput *input, int64 *count)
{
	int			row = 0;
	int64		low;
	int64		high;

	while ((row = add_from(set, input, row, count)) < input->nrows)
	{
		find_range(set, input, &low, &high);
		if (!cover(set, low, high))
			return false;
	}
	return true;
}

#define ADD(type) \
	do { \
		const type *values = (const type *) input->values; \
		for (; row < nrows; row++) \
		{ \
			uint64		at = (uint64) values[row] - low; \
			uint64		bit = (uint64) 1 << (at % WORD_BITS); \
			if (unlikely(at >= nbits)) \
				break; \
			nnew += (words[at / WORD_BITS] & bit) == 0; \
			words[at / WORD_BITS] |= bit; \
		} \
	} while (0)

/*
 * Add values from a row on; returns the first one that there is no bit for, or the number of rows.
 * To find their range first would take longer.
 */
static int
add_from(GjDistinct *set, const GjAggInput *input, int row, int64 *count)
{
	uint64	   *words = (uint64 *) set->bits.start;
	const uint64 low = (uint64) set->bits_low;
	const uint64 nbits = set->nbits;
	const int	nrows = input->nrows;
	int64		nnew = 0;

	switch (set->width)
	{
		case sizeof(int8):
			ADD(int8);
			break;
		case sizeof(int16):
			ADD(int16);
			break;
		case sizeof(int32):
			ADD(int32);
			break;
		default:
			ADD(int64);
			break;
	}
	*count += nnew;
	return row;
}

#define ADD_COVERED(type) \
	do { \
		const type *values = (const type *) input->values; \
		for (int i = 0; i < input->nrows; i++) \
		{ \
			uint64		at = (uint64) values[i] - (uint64) set->bits_low; \
			uint64		bit = (uint64) 1 << (at % WORD_BITS); \
			rest[nrest] = i; \
			if (at >= set->nbits) \
				nrest++; \
			else \
			{ \
				nnew += (words[at / WORD_BITS] & bit) == 0; \
				words[at / WORD_BITS] |= bit; \
			} \
		} \
	} while (0)

/*
 * Add those values that there are bits for.  rest[]: the rows of the others; returns how many.
 */
int
GjBitsAddCovered(GjDistinct *set, const GjAggInput *input, int64 *count, uint16 *rest)
{
	uint64	   *words = (uint64 *) set->bits.start;
	int64		nnew = 0;
	int			nrest = 0;

	switch (set->width)
	{
		case sizeof(int8):
			ADD_COVERED(int8);
			break;
		case sizeof(int16):
			ADD_COVERED(int16);
			break;
		case sizeof(int32):
			ADD_COVERED(int32);
			break;
		default:
			ADD_COVERED(int64);
			break;
	}
	*count += nnew;
	return nrest;
}

#define FIND_RANGE(type) \
	do { \
		const type *values = (const type *) input->values; \
		type		lowest = values[0]; \
		type		highest = values[0]; \
		for (int i = 1; i < input->nrows; i++) \
		{ \
			lowest = Min(lowest, values[i]); \
			highest = Max(highest, values[i]); \
		} \
		*low = lowest; \
		*high = highest; \
	} while (0)

static void
find_range(const GjDistinct *set, const GjAggInput *input, int64 *low, int64 *high)
{
	switch (set->width)
	{
		case sizeof(int8):
			FIND_RANGE(int8);
			break;
		case sizeof(int16):
			FIND_RANGE(int16);
			break;
		case sizeof(int32):
			FIND_RANGE(int32);
			break;
		default:
			FIND_RANGE(int64);
			break;
	}
}

/*
 * So many bits there may be: half of the memory's, as they are there twice while they move
 */
static uint64
most_bits(const GjDistinct *set)
{
	return Max(GJ_FIRST_BITS, Min(GJ_MAX_BITS, set->room * BITS_PER_BYTE / 2));
}

/*
 * See that there are bits for a range; false if there would have to be too many
 */
static bool
cover(GjDistinct *set, int64 low, int64 high)
{
	uint64		nbits = GJ_FIRST_BITS;
	uint64		needed;

	if (set->nbits > 0)
	{
		int64		last = set->bits_low + (int64) (set->nbits - 1);

		if (low >= set->bits_low && high <= last)
			return true;
		low = Min(low, set->bits_low);
		high = Max(high, last);
	}

	/* one less than their number, which may not fit */
	needed = (uint64) high - (uint64) low;
	if (needed >= most_bits(set) / 2)
		return false;
	while (nbits <= needed * 2)
		nbits *= 2;

	/* with as much room on either side, within the range of the type, and whole words moved */
	low -= (int64) Min((nbits - needed) / 2, (uint64) low - (uint64) PG_INT64_MIN);
	low = Min(low, PG_INT64_MAX - (int64) (nbits - 1));
	move_to(set, low, nbits);
	return true;
}

/*
 * Have bits for another range, which contains the old one
 */
static void
move_to(GjDistinct *set, int64 low, uint64 nbits)
{
	GjRegion	old = set->bits;
	const uint64 *from = (const uint64 *) old.start;
	int64		old_low = set->bits_low;
	uint64		nwords = set->nbits / WORD_BITS;
	uint64	   *to;

	GjRegionAllocate(&set->bits, set->context, nbits / BITS_PER_BYTE);
	memset(set->bits.start, 0, set->bits.size);
	set->bits_low = low;
	set->nbits = nbits;

	to = (uint64 *) set->bits.start;
	for (uint64 i = 0; i < nwords; i++)
	{
		for (uint64 word = from[i]; word != 0; word &= word - 1)
		{
			uint64		at = (uint64) old_low - (uint64) low + i * WORD_BITS +
				pg_rightmost_one_pos64(word);

			to[at / WORD_BITS] |= (uint64) 1 << (at % WORD_BITS);
		}
	}
	GjRegionFree(&old);
}

/*
 * How many bits are set
 */
uint64
GjBitsCount(const GjDistinct *set)
{
	const uint64 *words = (const uint64 *) set->bits.start;
	uint64		n = 0;

	for (uint64 i = 0; i < set->nbits / WORD_BITS; i++)
		n += pg_popcount64(words[i]);
	return n;
}

/*
 * Get the next value from the one at *at on, which is set behind it; false: there is none
 */
bool
GjBitsNext(const GjDistinct *set, uint64 *at, int64 *value)
{
	const uint64 *words = (const uint64 *) set->bits.start;

	for (; *at < set->nbits; ++*at)
	{
		if ((words[*at / WORD_BITS] >> (*at % WORD_BITS) & 1) == 0)
			continue;
		*value = set->bits_low + (int64) (*at)++;
		return true;
	}
	return false;
}

/*
 * Forget all values
 */
void
GjBitsFree(GjDistinct *set)
{
	GjRegionFree(&set->bits);
	set->nbits = 0;
}
