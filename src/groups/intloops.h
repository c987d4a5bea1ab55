/*-------------------------------------------------------------------------
 *
 * intloops.h
 *	  Aggregate loops over integers of one type, up to four bytes wide; included once per type.
 *
 * GJ_VALUE is the C type (if it is undefined, this file is empty) and GJ_SUFFIX is the suffix of
 * the functions' names.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifdef GJ_VALUE

/* Return the weighted sum of all rows; unsigned, so that it wraps around */
static inline uint64
GJ_LOOP(total) (const GjAggInput *input)
{
	const GJ_VALUE *values = input->values;
	int			nrows = input->nrows;
	int64		sum = 0;
	uint64		weighted = 0;

	if (input->weights == NULL)
	{
		for (int i = 0; i < nrows; i++)
			sum += values[i];
		return (uint64) sum;
	}
	for (int i = 0; i < nrows; i++)
		weighted += (uint64) (int64) values[i] * input->weights[i];
	return weighted;
}

static void
GJ_LOOP(sum) (void *states, const GjAggInput *input)
{
	uint64	   *sums = states;
	const GJ_VALUE *values = input->values;
	const uint32 *groups = input->groups;
	const uint32 *weights = input->weights;
	int			nrows = input->nrows;

	if (groups == NULL)
		sums[0] += GJ_LOOP(total) (input);
	else if (weights == NULL)
	{
		for (int i = 0; i < nrows; i++)
			sums[groups[i]] += (uint64) (int64) values[i];
	}
	else
	{
		for (int i = 0; i < nrows; i++)
			sums[groups[i]] += (uint64) (int64) values[i] * weights[i];
	}
}

static void
GJ_LOOP(average) (void *states, const GjAggInput *input)
{
	GjIntAverage *averages = states;
	const GJ_VALUE *values = input->values;
	const uint32 *groups = input->groups;
	const uint32 *weights = input->weights;
	int			nrows = input->nrows;

	if (groups == NULL)
	{
		averages[0].sum += GJ_LOOP(total) (input);
		averages[0].count += GjTotalWeight(input->weights, input->nrows);
	}
	else if (weights == NULL)
	{
		for (int i = 0; i < nrows; i++)
		{
			averages[groups[i]].sum += (uint64) (int64) values[i];
			averages[groups[i]].count++;
		}
	}
	else
	{
		for (int i = 0; i < nrows; i++)
		{
			averages[groups[i]].sum += (uint64) (int64) values[i] * weights[i];
			averages[groups[i]].count += weights[i];
		}
	}
}

#undef GJ_VALUE
#undef GJ_SUFFIX

#endif							/* GJ_VALUE */
