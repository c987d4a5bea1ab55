/*-------------------------------------------------------------------------
 *
 * floatloops.h
 *	  Aggregate loops over floats of one type; included once per type.
 *
 * GJ_VALUE is the C type (if it is undefined, this file is empty), GJ_SUFFIX is the suffix of the
 * functions' names, and GJ_PLUS is PostgreSQL's addition, which raises an error if the sum of
 * finite numbers is infinite.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifdef GJ_VALUE

/* Add a value `weight` times, or until adding it no longer changes the sum */
static GJ_VALUE
GJ_LOOP(add_times) (GJ_VALUE sum, GJ_VALUE value, uint32 weight)
{
	while (weight > 0)
	{
		uint32		n = Min(weight, GJ_UNINTERRUPTED);

		for (uint32 i = 0; i < n; i++)
		{
			GJ_VALUE	next = GJ_PLUS(sum, value);

			if (next == sum || isnan(next))
				return next;
			sum = next;
		}
		count_additions(n);
		weight -= n;
	}
	return sum;
}

/*
 * Add all values in order, since the result depends on the order of additions.  An overflow is
 * possible only if the final sum is not finite.
 */
static GJ_VALUE
GJ_LOOP(add_all) (GJ_VALUE sum, const GJ_VALUE *values, int nrows)
{
	GJ_VALUE	total = sum;

	for (int i = 0; i < nrows; i++)
		total += values[i];
	if (likely(!isinf(total) && !isnan(total)))
		return total;

	for (int i = 0; i < nrows; i++)
		sum = GJ_PLUS(sum, values[i]);
	return sum;
}

static void
GJ_LOOP(sum) (void *states, const GjAggInput *input)
{
	GJ_VALUE   *sums = states;
	const GJ_VALUE *values = input->values;
	const uint32 *groups = input->groups;
	int			nrows = input->nrows;

	if (input->weights != NULL)
	{
		for (int i = 0; i < nrows; i++)
		{
			GJ_VALUE   *sum = &sums[groups == NULL ? 0 : groups[i]];

			*sum = GJ_LOOP(add_times) (*sum, values[i], input->weights[i]);
		}
	}
	else if (groups == NULL)
		sums[0] = GJ_LOOP(add_all) (sums[0], values, nrows);
	else
	{
		for (int i = 0; i < nrows; i++)
			sums[groups[i]] = GJ_PLUS(sums[groups[i]], values[i]);
	}
}

static void
GJ_LOOP(average) (void *states, const GjAggInput *input)
{
	GjFloatAverage *averages = states;
	const GJ_VALUE *values = input->values;
	const uint32 *groups = input->groups;

	for (int i = 0; i < input->nrows; i++)
	{
		GjFloatAverage *average = &averages[groups == NULL ? 0 : groups[i]];

		if (likely(input->weights == NULL))
			*average = accumulate(*average, values[i]);
		else
			accumulate_times(average, values[i], input->weights[i]);
	}
}

#undef GJ_VALUE
#undef GJ_SUFFIX
#undef GJ_PLUS

#endif							/* GJ_VALUE */
