/*-------------------------------------------------------------------------
 *
 * radix.h
 *	  Sorting of uint64 arrays, for key sets and TID sets.
 *
 * Both sort plain integers, often a million of them, that differ in few bits: keys of a narrow
 * range, TIDs of one heap (offsets use nine bits of sixteen).  So this is a radix sort from the
 * lowest digit up that considers only bits in which values differ: three passes for a million
 * TIDs.
 *
 * Digits are no longer than the number of passes requires: with nine bits instead of eleven, a
 * pass takes a third less time, because there are fewer places to write to.
 *
 * This is a header because it consists of static functions only.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BASE_RADIX_H
#define GPUJOIN_BASE_RADIX_H

#include "miscadmin.h"
#include "port/pg_bitutils.h"

/* Longest digit: 2048 counters are 16 kB; they and the heads of as many runs stay in L2 */
#define GJ_RADIX_BITS			11
#define GJ_RADIX_DIGITS			(1 << GJ_RADIX_BITS)

/* For fewer values, clearing the counters would cost more than sorting */
#define GJ_RADIX_MIN			64

/* Bits by which values that are spread are sorted, beyond the logarithm of their number */
#define GJ_RADIX_SPREAD_BITS	2

/* Sort values in place.  Gives up, and returns false, after more than this number of moves. */
static inline bool
insertion_sort(uint64 *values, uint64 n, uint64 most)
{
	uint64		moves = 0;

	for (uint64 i = 1; i < n; i++)
	{
		uint64		value = values[i];
		uint64		j = i;

		for (; j > 0 && values[j - 1] > value; j--)
			values[j] = values[j - 1];
		values[j] = value;
		moves += i - j;
		if (moves > most)
			return false;
	}
	return true;
}

/* Get the number of passes over the differing bits, with digits of the given length */
static inline int
radix_passes(uint64 differing, int bits)
{
	int			passes = 0;

	for (; differing != 0; passes++)
		differing &= ~((((uint64) 1 << bits) - 1) << pg_rightmost_one_pos64(differing));
	return passes;
}

/* Get the length of the shortest digits that take no more passes than the longest */
static inline int
radix_bits(uint64 differing)
{
	int			passes = radix_passes(differing, GJ_RADIX_BITS);
	int			bits = GJ_RADIX_BITS;

	while (bits > 1 && radix_passes(differing, bits - 1) == passes)
		bits--;
	return bits;
}

/* Distribute from[] to to[] by the digit at shift; equal digits keep their order */
static inline void
radix_pass(const uint64 *from, uint64 *to, uint64 n, int shift, int bits)
{
	uint64		count[GJ_RADIX_DIGITS];
	uint64		mask = ((uint64) 1 << bits) - 1;
	uint64		start = 0;

	memset(count, 0, (mask + 1) * sizeof(uint64));
	for (uint64 i = 0; i < n; i++)
		count[from[i] >> shift & mask]++;
	for (uint64 digit = 0; digit <= mask; digit++)
	{
		uint64		here = count[digit];

		count[digit] = start;
		start += here;
	}
	for (uint64 i = 0; i < n; i++)
		to[count[from[i] >> shift & mask]++] = from[i];
}

static inline uint64
radix_differing(const uint64 *values, uint64 n)
{
	uint64		differing = 0;

	for (uint64 i = 1; i < n; i++)
		differing |= values[i] ^ values[0];
	return differing;
}

/*
 * Sort values[] by the bits from low_bit up.  The bits below, if any, must already ascend among
 * values that are equal above, and do so in the result. scratch[] must have the same length.
 * Returns the array that holds the result, which is one of the two.
 */
static inline uint64 *
radix_sort_above(uint64 *values, uint64 *scratch, uint64 n, int low_bit)
{
	uint64		differing;
	int			bits;

	if (n < GJ_RADIX_MIN)
	{
		(void) insertion_sort(values, n, n * n);
		return values;
	}

	differing = radix_differing(values, n) & ~(uint64) 0 << low_bit;
	bits = radix_bits(differing);
	while (differing != 0)
	{
		int			shift = pg_rightmost_one_pos64(differing);
		uint64	   *sorted = scratch;

		CHECK_FOR_INTERRUPTS();
		radix_pass(values, sorted, n, shift, bits);
		scratch = values;
		values = sorted;
		differing &= ~((((uint64) 1 << bits) - 1) << shift);
	}
	return values;
}

static inline uint64 *
radix_sort(uint64 *values, uint64 *scratch, uint64 n)
{
	return radix_sort_above(values, scratch, n, 0);
}

/*
 * Sort like radix_sort_above(), but values that are spread: the upper of the differing bits tell
 * most of them apart, as those of hashes do.  So two or three passes are enough, and few values are
 * moved afterwards.  If more are, because the values are not spread, they are sorted by all bits.
 */
static inline uint64 *
radix_sort_spread(uint64 *values, uint64 *scratch, uint64 n, int low_bit)
{
	uint64		differing = radix_differing(values, n);
	int			bits = pg_leftmost_one_pos64(n | 1) + 1 + GJ_RADIX_SPREAD_BITS;
	int			high_bit = pg_leftmost_one_pos64(differing | 1) + 1 - bits;
	uint64	   *sorted;

	if (n < GJ_RADIX_MIN || high_bit <= low_bit)
		return radix_sort_above(values, scratch, n, low_bit);
	sorted = radix_sort_above(values, scratch, n, high_bit);
	if (insertion_sort(sorted, n, n))
		return sorted;
	return radix_sort_above(sorted, sorted == values ? scratch : values, n, low_bit);
}

#endif							/* GPUJOIN_BASE_RADIX_H */
