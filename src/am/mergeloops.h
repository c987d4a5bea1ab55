/*-------------------------------------------------------------------------
 *
 * mergeloops.h
 *	  Merging two sorted arrays of one type; included once per type.
 *
 * GJ_VALUE is the C type (if it is undefined, this file is empty), GJ_LOOP(name) gives the names of
 * the functions, and GJ_PRECEDES(a, b) is 1 if the value at a comes before the one at b, or if both
 * are equal, and otherwise 0.
 *
 * The processor cannot predict which array has the next value, so there are no branches.  Both
 * halves of the output are merged in the same loop: each step waits for the previous one, but not
 * for that of the other half.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifdef GJ_VALUE

/*
 * Return the number of values of the first array among the first n of a merge
 */
static uint64
GJ_LOOP(count_first) (const GJ_VALUE *first, uint64 nfirst, const GJ_VALUE *second,
					  uint64 nsecond, uint64 n)
{
	uint64		low = n > nsecond ? n - nsecond : 0;
	uint64		high = Min(n, nfirst);

	while (low < high)
	{
		uint64		at = (low + high) / 2;

		if (GJ_PRECEDES(&first[at], &second[n - 1 - at]))
			low = at + 1;
		else
			high = at;
	}
	return low;
}

/*
 * Merge the first n values of two arrays.  Returns the number of values taken from the first array.
 *
 * Each array has n values, or a sentinel that comes after all values.
 */
static uint64
GJ_LOOP(merge) (const GJ_VALUE *first, uint64 nfirst, const GJ_VALUE *second, uint64 nsecond,
				GJ_VALUE *out, uint64 n)
{
	uint64		half = n / 2;
	uint64		low = 0;		/* values of the first array in the lower half */
	uint64		high =			/* and before the next one of the upper half */
		GJ_LOOP(count_first) (first, nfirst, second, nsecond, half);

	for (uint64 i = 0; i < half; i++)
	{
		const GJ_VALUE *a = &first[low];
		const GJ_VALUE *b = &second[i - low];
		const GJ_VALUE *c = &first[high];
		const GJ_VALUE *d = &second[half + i - high];
		uint64		is_a = GJ_PRECEDES(a, b);
		uint64		is_c = GJ_PRECEDES(c, d);

		out[i] = *(is_a ? a : b);
		out[half + i] = *(is_c ? c : d);
		low += is_a;
		high += is_c;
	}
	if (n % 2 != 0)
	{
		uint64		is_c = GJ_PRECEDES(&first[high], &second[n - 1 - high]);

		out[n - 1] = is_c ? first[high] : second[n - 1 - high];
		high += is_c;
	}
	return high;
}

#undef GJ_VALUE
#undef GJ_LOOP
#undef GJ_PRECEDES

#endif							/* GJ_VALUE */
