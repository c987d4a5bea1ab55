/*-------------------------------------------------------------------------
 *
 * minmaxloops.h
 *	  Loops of min() and max() for one type; included once per type.
 *
 * GJ_VALUE is the C type (if it is undefined, this file is empty) and GJ_SUFFIX is the suffix of
 * the functions' names.  GJ_YIELDS_TO_MIN(state, value) and GJ_YIELDS_TO_MAX(state, value) tell
 * whether the value replaces the state.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifdef GJ_VALUE

static void
GJ_LOOP(min) (void *states, const GjAggInput *input)
{
	GJ_VALUE   *lowest = states;
	const GJ_VALUE *values = input->values;
	const uint32 *groups = input->groups;
	int			nrows = input->nrows;

	if (groups == NULL)
	{
		GJ_VALUE	low = lowest[0];

		for (int i = 0; i < nrows; i++)
			low = GJ_YIELDS_TO_MIN(low, values[i]) ? values[i] : low;
		lowest[0] = low;
		return;
	}
	for (int i = 0; i < nrows; i++)
	{
		if (GJ_YIELDS_TO_MIN(lowest[groups[i]], values[i]))
			lowest[groups[i]] = values[i];
	}
}

static void
GJ_LOOP(max) (void *states, const GjAggInput *input)
{
	GJ_VALUE   *highest = states;
	const GJ_VALUE *values = input->values;
	const uint32 *groups = input->groups;
	int			nrows = input->nrows;

	if (groups == NULL)
	{
		GJ_VALUE	high = highest[0];

		for (int i = 0; i < nrows; i++)
			high = GJ_YIELDS_TO_MAX(high, values[i]) ? values[i] : high;
		highest[0] = high;
		return;
	}
	for (int i = 0; i < nrows; i++)
	{
		if (GJ_YIELDS_TO_MAX(highest[groups[i]], values[i]))
			highest[groups[i]] = values[i];
	}
}

#undef GJ_VALUE
#undef GJ_SUFFIX

#endif							/* GJ_VALUE */
