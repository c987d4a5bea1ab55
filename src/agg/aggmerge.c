/*-------------------------------------------------------------------------
 *
 * aggmerge.c
 *	  States of rows that have waited (groupdefer.c): they are added to those of their groups.
 *
 * Such a state is of one row, or of some that stood side by side, and comes behind all rows that
 * the group's state has.  That of min(), max() and booleans looks like a value, and is added
 * like one.  Sums of floats are left out: added to each other, they would not be what PostgreSQL
 * gives for the rows in their order.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groupparts.h"

static void merge_values(GjAgg *agg, const uint32 *from, const uint32 *to, int n);

bool
GjAggMayMerge(const GjAgg *agg)
{
	bool		is_float = agg->spec.type == GJ_VALUE_FLOAT4 || agg->spec.type == GJ_VALUE_FLOAT8;

	if (agg->spec.kind == GJ_AGG_SUM || agg->spec.kind == GJ_AGG_AVG)
		return !is_float;
	return agg->spec.kind != GJ_AGG_COUNT_DISTINCT;
}

/* Add one member of states to another's */
#define ADD(type, member) \
	do { \
		for (int i = 0; i < n; i++) \
			((type *) states)[to[i]] member += ((type *) states)[from[i]] member; \
	} while (0)

/* ... of a sum of 128 bits */
#define ADD_WIDE(type, member) \
	do { \
		for (int i = 0; i < n; i++) \
			GjAddWide(&((type *) states)[to[i]] member, ((type *) states)[from[i]] member.low, \
					  ((type *) states)[from[i]] member.high); \
	} while (0)

/*
 * Add the states of some rows to those of their groups, one after another
 */
void
GjAggMerge(GjAgg *agg, const uint32 *from, const uint32 *to, int n)
{
	void	   *states = agg->states.start;
	bool		is_wide = agg->spec.type == GJ_VALUE_INT8;

	switch (agg->spec.kind)
	{
		case GJ_AGG_COUNT_ROWS:
		case GJ_AGG_COUNT:
			ADD(uint64,);
			break;
		case GJ_AGG_SUM:
			if (is_wide)
				ADD_WIDE(GjWideSum,);
			else
				ADD(uint64,);
			break;
		case GJ_AGG_AVG:
			if (is_wide)
			{
				ADD_WIDE(GjWideAverage, .sum);
				ADD(GjWideAverage, .count);
			}
			else
			{
				ADD(GjIntAverage, .sum);
				ADD(GjIntAverage, .count);
			}
			break;
		default:
			merge_values(agg, from, to, n);
			break;
	}
	for (int i = 0; agg->keeps_seen && i < n; i++)
		agg->seen.start[to[i]] |= agg->seen.start[from[i]];
}

/*
 * Add states as if they were values.  One that has seen none is not: it might replace a value that
 * it equals.
 */
static void
merge_values(GjAgg *agg, const uint32 *from, const uint32 *to, int n)
{
	uint64		values[GJ_BATCH_ROWS];
	uint32		groups[GJ_BATCH_ROWS];
	GjAggInput	input = {.groups = groups,.values = values};

	Assert(n <= GJ_BATCH_ROWS && agg->state_size <= sizeof(uint64));
	for (int i = 0; i < n; i++)
	{
		if (agg->keeps_seen && !agg->seen.start[from[i]])
			continue;
		memcpy((char *) values + input.nrows * agg->state_size,
			   agg->states.start + from[i] * agg->state_size, agg->state_size);
		groups[input.nrows++] = to[i];
	}
	agg->update(agg->states.start, &input);
}

/*
 * Have so many states take places before them, where nobody wants what is there
 */
void
GjAggMove(GjAgg *agg, uint32 from, uint32 to, uint32 n)
{
	memmove(agg->states.start + to * agg->state_size, agg->states.start + from * agg->state_size,
			n * agg->state_size);
	if (agg->keeps_seen)
		memmove(agg->seen.start + to, agg->seen.start + from, n);
}
