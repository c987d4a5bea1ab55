/*-------------------------------------------------------------------------
 *
 * aggloops.c
 *	  Aggregate loops over integers, booleans and floats, and the loop of count().
 *
 * In PostgreSQL, sum() and avg() of int2 and int4 have a 64-bit state that silently wraps around;
 * those of int8 are exact, so here they use 128 bits.  Without groups a loop is a plain reduction
 * that the compiler can vectorize.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "utils/float.h"

#include "groupparts.h"

#define GJ_LOOP_PASTE(name, suffix)		name##_##suffix
#define GJ_LOOP_NAME(name, suffix)		GJ_LOOP_PASTE(name, suffix)
#define GJ_LOOP(name)					GJ_LOOP_NAME(name, GJ_SUFFIX)

/* Return the number of rows that the input stands for */
static inline uint64
total_weight(const GjAggInput *input)
{
	uint64		total = 0;

	if (input->weights == NULL)
		return input->nrows;
	for (int i = 0; i < input->nrows; i++)
		total += input->weights[i];
	return total;
}

#define GJ_VALUE		int16
#define GJ_SUFFIX		int2
#include "intloops.h"
#define GJ_VALUE		int32
#define GJ_SUFFIX		int4
#include "intloops.h"

#define GJ_YIELDS_TO_MIN(state, value)	((value) < (state))
#define GJ_YIELDS_TO_MAX(state, value)	((value) > (state))
#define GJ_VALUE		int16
#define GJ_SUFFIX		int2
#include "minmaxloops.h"
#define GJ_VALUE		int32
#define GJ_SUFFIX		int4
#include "minmaxloops.h"
#define GJ_VALUE		int64
#define GJ_SUFFIX		int8
#include "minmaxloops.h"
#define GJ_VALUE		uint32
#define GJ_SUFFIX		oid
#include "minmaxloops.h"

/* Count rows: count(*), or count(c) if the input has only the rows whose c is not NULL */
void
GjCountRows(void *states, const GjAggInput *input)
{
	int64	   *counts = states;
	const uint32 *groups = input->groups;
	const uint32 *weights = input->weights;
	int			nrows = input->nrows;

	if (groups == NULL)
		counts[0] += total_weight(input);
	else if (weights == NULL)
	{
		for (int i = 0; i < nrows; i++)
			counts[groups[i]]++;
	}
	else
	{
		for (int i = 0; i < nrows; i++)
			counts[groups[i]] += weights[i];
	}
}

static inline void
add_int8(GjWideSum *sum, int64 value)
{
	GjAddWide(sum, (uint64) value, -(int64) (value < 0));
}

/* Add value * weight as an upper and a lower half, each of which fits in 64 bits */
static inline void
add_int8_times(GjWideSum *sum, int64 value, uint32 weight)
{
	int64		upper = (value >> 32) * (int64) weight;
	uint64		lower = (uint64) (uint32) value * weight;

	GjAddWide(sum, (uint64) upper << 32, upper >> 32);
	GjAddWide(sum, lower, 0);
}

static inline void
add_all_int8(GjWideSum *sum, const GjAggInput *input)
{
	const int64 *values = input->values;
	int			nrows = input->nrows;
	int64		upper = 0;
	uint64		lower = 0;

	if (input->weights != NULL)
	{
		for (int i = 0; i < nrows; i++)
			add_int8_times(sum, values[i], input->weights[i]);
		return;
	}
	/* A batch has too few rows for the halves to overflow */
	for (int i = 0; i < nrows; i++)
	{
		upper += values[i] >> 32;
		lower += (uint32) values[i];
	}
	GjAddWide(sum, (uint64) upper << 32, upper >> 32);
	GjAddWide(sum, lower, 0);
}

static void
sum_int8(void *states, const GjAggInput *input)
{
	GjWideSum  *sums = states;
	const int64 *values = input->values;
	const uint32 *groups = input->groups;
	const uint32 *weights = input->weights;
	int			nrows = input->nrows;

	if (groups == NULL)
		add_all_int8(&sums[0], input);
	else if (weights == NULL)
	{
		for (int i = 0; i < nrows; i++)
			add_int8(&sums[groups[i]], values[i]);
	}
	else
	{
		for (int i = 0; i < nrows; i++)
			add_int8_times(&sums[groups[i]], values[i], weights[i]);
	}
}

static void
average_int8(void *states, const GjAggInput *input)
{
	GjWideAverage *averages = states;
	const int64 *values = input->values;
	const uint32 *groups = input->groups;
	const uint32 *weights = input->weights;
	int			nrows = input->nrows;

	if (groups == NULL)
	{
		add_all_int8(&averages[0].sum, input);
		averages[0].count += total_weight(input);
	}
	else if (weights == NULL)
	{
		for (int i = 0; i < nrows; i++)
		{
			add_int8(&averages[groups[i]].sum, values[i]);
			averages[groups[i]].count++;
		}
	}
	else
	{
		for (int i = 0; i < nrows; i++)
		{
			add_int8_times(&averages[groups[i]].sum, values[i], weights[i]);
			averages[groups[i]].count += weights[i];
		}
	}
}

static void
bool_and(void *states, const GjAggInput *input)
{
	uint8	   *all = states;
	const uint8 *values = input->values;

	for (int i = 0; i < input->nrows; i++)
		all[input->groups == NULL ? 0 : input->groups[i]] &= values[i];
}

static void
bool_or(void *states, const GjAggInput *input)
{
	uint8	   *any = states;
	const uint8 *values = input->values;

	for (int i = 0; i < input->nrows; i++)
		any[input->groups == NULL ? 0 : input->groups[i]] |= values[i];
}

/*
 * Return the loop of an aggregate over integers or booleans, or NULL if it is not supported
 */
GjAggUpdate
GjIntUpdate(GjAggKind kind, GjValueType type)
{
	static const struct
	{
		GjAggKind	kind;
		GjValueType type;
		GjAggUpdate update;
	}			updates[] = {
		{GJ_AGG_SUM, GJ_VALUE_INT2, sum_int2},
		{GJ_AGG_SUM, GJ_VALUE_INT4, sum_int4},
		{GJ_AGG_SUM, GJ_VALUE_INT8, sum_int8},
		{GJ_AGG_AVG, GJ_VALUE_INT2, average_int2},
		{GJ_AGG_AVG, GJ_VALUE_INT4, average_int4},
		{GJ_AGG_AVG, GJ_VALUE_INT8, average_int8},
		{GJ_AGG_MIN, GJ_VALUE_INT2, min_int2},
		{GJ_AGG_MIN, GJ_VALUE_INT4, min_int4},
		{GJ_AGG_MIN, GJ_VALUE_INT8, min_int8},
		{GJ_AGG_MIN, GJ_VALUE_OID, min_oid},
		{GJ_AGG_MAX, GJ_VALUE_INT2, max_int2},
		{GJ_AGG_MAX, GJ_VALUE_INT4, max_int4},
		{GJ_AGG_MAX, GJ_VALUE_INT8, max_int8},
		{GJ_AGG_MAX, GJ_VALUE_OID, max_oid},
		{GJ_AGG_BOOL_AND, GJ_VALUE_BOOL, bool_and},
		{GJ_AGG_BOOL_OR, GJ_VALUE_BOOL, bool_or}
	};

	for (int i = 0; i < lengthof(updates); i++)
	{
		if (updates[i].kind == kind && updates[i].type == type)
			return updates[i].update;
	}
	return NULL;
}

/*
 * Return the loop that updates grouped min() and max() of the same rows, or NULL
 */
GjAggUpdateBoth
GjIntMinMax(GjValueType type)
{
	switch (type)
	{
		case GJ_VALUE_INT2:
			return min_max_int2;
		case GJ_VALUE_INT4:
			return min_max_int4;
		case GJ_VALUE_INT8:
			return min_max_int8;
		case GJ_VALUE_OID:
			return min_max_oid;
		default:
			return NULL;
	}
}

/*-------------------------------------------------------------------------
 * Floats
 *
 * Loops of the aggregates over floats.
 *
 * Each step is PostgreSQL's own, in the order of the rows: then sums are the same to the last
 * bit, and so are the errors.  A row that stands for several is added as often.
 *-------------------------------------------------------------------------
 */

/* Additions for one row between checks for interrupts */
#define GJ_UNINTERRUPTED		(1 << 20)

#define GJ_LOOP_PASTE(name, suffix)		name##_##suffix
#define GJ_LOOP_NAME(name, suffix)		GJ_LOOP_PASTE(name, suffix)
#define GJ_LOOP(name)					GJ_LOOP_NAME(name, GJ_SUFFIX)

/*
 * Perform a step of float8_accum().  The average needs the sum of squares only because its
 * overflow is an error.
 */
static inline GjFloatAverage
accumulate(GjFloatAverage average, float8 value)
{
	float8		n = average.n + 1.0;
	float8		sx = average.sx + value;
	float8		sxx = average.sxx;

	if (average.n > 0.0)
	{
		float8		deviation = value * n - sx;

		sxx += deviation * deviation / (n * average.n);
		if (unlikely(isinf(sx) || isinf(sxx)))
		{
			if (!isinf(average.sx) && !isinf(value))
				float_overflow_error();
			sxx = get_float8_nan();
		}
	}
	else if (isnan(value) || isinf(value))
		sxx = get_float8_nan();
	return (GjFloatAverage) {n, sx, sxx};
}

static void
accumulate_times(GjFloatAverage *average, float8 value, uint32 weight)
{
	for (; weight > 0; weight--)
	{
		*average = accumulate(*average, value);
		if (weight % GJ_UNINTERRUPTED == 0)
			CHECK_FOR_INTERRUPTS();
	}
}

#define GJ_VALUE		float4
#define GJ_SUFFIX		float4
#define GJ_PLUS			float4_pl
#include "floatloops.h"
#define GJ_VALUE		float8
#define GJ_SUFFIX		float8
#define GJ_PLUS			float8_pl
#include "floatloops.h"

/*
 * NaN is the greatest value.  Of two equal values, such as 0 and -0, the later one is kept.  The
 * first comparison nearly always decides, so usually no other is made.
 */
#undef GJ_YIELDS_TO_MIN
#undef GJ_YIELDS_TO_MAX
#define GJ_YIELDS_TO_MIN(state, value) \
	(!((state) < (value)) && (!isnan(value) || isnan(state)))
#define GJ_YIELDS_TO_MAX(state, value) \
	(!((state) > (value)) && (!isnan(state) || isnan(value)))
#define GJ_VALUE		float4
#define GJ_SUFFIX		float4
#include "minmaxloops.h"
#define GJ_VALUE		float8
#define GJ_SUFFIX		float8
#include "minmaxloops.h"

/*
 * Return the loop of an aggregate over floats, or NULL if it is not supported
 */
GjAggUpdate
GjFloatUpdate(GjAggKind kind, GjValueType type)
{
	bool		is_float4 = type == GJ_VALUE_FLOAT4;

	switch (kind)
	{
		case GJ_AGG_SUM:
			return is_float4 ? sum_float4 : sum_float8;
		case GJ_AGG_AVG:
			return is_float4 ? average_float4 : average_float8;
		case GJ_AGG_MIN:
			return is_float4 ? min_float4 : min_float8;
		case GJ_AGG_MAX:
			return is_float4 ? max_float4 : max_float8;
		default:
			return NULL;
	}
}

/*
 * Like GjIntMinMax(), for floats
 */
GjAggUpdateBoth
GjFloatMinMax(GjValueType type)
{
	return type == GJ_VALUE_FLOAT4 ? min_max_float4 : min_max_float8;
}
