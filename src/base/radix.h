/*-------------------------------------------------------------------------
 *
 * radix.h
 *	  Sorting of uint64 arrays, for key sets and TID sets.
 *
 * Both sort plain integers, often a million of them, of which few bits differ:
 * keys of a narrow range, TIDs of one heap (offsets use nine bits of sixteen).
 * So this is a radix sort from the lowest digit up that looks only at bits in
 * which values differ: three passes for a million TIDs.
 *
 * A header, since a static function is all there is to it.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BASE_RADIX_H
#define GPUJOIN_BASE_RADIX_H

#include "miscadmin.h"
#include "port/pg_bitutils.h"

/* 2048 counters are 16 kB: they and the heads of as many runs stay in L1 and L2 */
#define GJ_RADIX_BITS			11
#define GJ_RADIX_DIGITS			(1 << GJ_RADIX_BITS)

/* Below this, clearing the counters would cost more than sorting */
#define GJ_RADIX_MIN			64

/* Sort a few values in place */
static inline void
insertion_sort(uint64 *values, uint64 n)
{
	for (uint64 i = 1; i < n; i++)
	{
		uint64		value = values[i];
		uint64		j = i;

		for (; j > 0 && values[j - 1] > value; j--)
			values[j] = values[j - 1];
		values[j] = value;
	}
}

/* Distribute from[] to to[] by the digit at shift; equal digits keep their order */
static inline void
radix_pass(const uint64 *from, uint64 *to, uint64 n, int shift)
{
	uint64		count[GJ_RADIX_DIGITS] = {0};
	uint64		start = 0;

	for (uint64 i = 0; i < n; i++)
		count[(from[i] >> shift) % GJ_RADIX_DIGITS]++;
	for (int digit = 0; digit < GJ_RADIX_DIGITS; digit++)
	{
		uint64		here = count[digit];

		count[digit] = start;
		start += here;
	}
	for (uint64 i = 0; i < n; i++)
		to[count[(from[i] >> shift) % GJ_RADIX_DIGITS]++] = from[i];
}

/*
 * Sort values[] by the bits from low_bit on; those below, if any, must ascend where the
 * upper ones are equal, and do so in the result.  scratch[] is as long; the sorted array
 * is one of the two, and the function returns which.
 */
static inline uint64 *
radix_sort_above(uint64 *values, uint64 *scratch, uint64 n, int low_bit)
{
	uint64		differing = 0;

	if (n < GJ_RADIX_MIN)
	{
		insertion_sort(values, n);
		return values;
	}

	for (uint64 i = 1; i < n; i++)
		differing |= values[i] ^ values[0];

	differing &= ~(uint64) 0 << low_bit;
	while (differing != 0)
	{
		int			shift = pg_rightmost_one_pos64(differing);
		uint64	   *sorted = scratch;

		CHECK_FOR_INTERRUPTS();
		radix_pass(values, sorted, n, shift);
		scratch = values;
		values = sorted;
		differing &= ~((uint64) (GJ_RADIX_DIGITS - 1) << shift);
	}
	return values;
}

static inline uint64 *
radix_sort(uint64 *values, uint64 *scratch, uint64 n)
{
	return radix_sort_above(values, scratch, n, 0);
}

#endif							/* GPUJOIN_BASE_RADIX_H */
