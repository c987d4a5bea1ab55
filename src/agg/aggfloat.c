/*-------------------------------------------------------------------------
 *
 * aggfloat.c
 *	  Loops of the aggregates over floats.
 *
 * Each step is PostgreSQL's own, in the order of the rows: then sums are the same to the last
 * bit, and so are the errors.  A row that stands for several is added as often.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "utils/float.h"

#include "groupparts.h"

/* Steps for one row after which a query can be cancelled */
#define GJ_UNINTERRUPTED		(1 << 20)

#define GJ_LOOP_PASTE(name, suffix)		name##_##suffix
#define GJ_LOOP_NAME(name, suffix)		GJ_LOOP_PASTE(name, suffix)
#define GJ_LOOP(name)					GJ_LOOP_NAME(name, GJ_SUFFIX)

/*
 * A step of float8_accum(): the average needs the sum of squares only for the error that
 * its overflow is.
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
#include "aggfloatloops.h"
#define GJ_VALUE		float8
#define GJ_SUFFIX		float8
#define GJ_PLUS			float8_pl
#include "aggfloatloops.h"

/*
 * NaN is the greatest.  Of two that are equal, as 0 and -0 are, the latter stays.  The
 * first comparison decides nearly always, and so it is the only one.
 */
#define GJ_YIELDS_TO_MIN(state, value) \
	(!((state) < (value)) && (!isnan(value) || isnan(state)))
#define GJ_YIELDS_TO_MAX(state, value) \
	(!((state) > (value)) && (!isnan(state) || isnan(value)))
#define GJ_VALUE		float4
#define GJ_SUFFIX		float4
#include "aggminmaxloops.h"
#define GJ_VALUE		float8
#define GJ_SUFFIX		float8
#include "aggminmaxloops.h"

/*
 * The loop of an aggregate over floats; NULL if there is none
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
 * As GjIntMinMax()
 */
GjAggUpdateBoth
GjFloatMinMax(GjValueType type)
{
	return type == GJ_VALUE_FLOAT4 ? min_max_float4 : min_max_float8;
}
