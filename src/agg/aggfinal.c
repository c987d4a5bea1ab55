/*-------------------------------------------------------------------------
 *
 * aggfinal.c
 *	  Results of aggregates from their states, by PostgreSQL's own arithmetic of numerics.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "groupparts.h"

static Datum final_sum(const GjAgg *agg, const void *state);
static Datum final_average(const GjAgg *agg, const void *state, bool *isnull);
static Datum final_value(const GjAgg *agg, const void *state);
static Datum wide_numeric(GjWideSum sum);

/*
 * Get the result of a group
 */
Datum
GjAggFinal(const GjAgg *agg, uint32 group, bool *isnull)
{
	const void *state = agg->states.start + group * agg->state_size;

	*isnull = agg->may_be_null && agg->keeps_seen && !agg->seen.start[group];
	if (*isnull)
		return (Datum) 0;
	switch (agg->spec.kind)
	{
		case GJ_AGG_COUNT_ROWS:
		case GJ_AGG_COUNT:
		case GJ_AGG_COUNT_DISTINCT:
			return Int64GetDatum(*(const int64 *) state);
		case GJ_AGG_SUM:
			return final_sum(agg, state);
		case GJ_AGG_AVG:
			return final_average(agg, state, isnull);
		default:
			return final_value(agg, state);
	}
}

static Datum
final_sum(const GjAgg *agg, const void *state)
{
	switch (agg->spec.type)
	{
		case GJ_VALUE_FLOAT4:
			return Float4GetDatum(*(const float4 *) state);
		case GJ_VALUE_FLOAT8:
			return Float8GetDatum(*(const float8 *) state);
		case GJ_VALUE_INT8:
			return wide_numeric(*(const GjWideSum *) state);
		default:
			return Int64GetDatum(*(const int64 *) state);
	}
}

static Datum
final_average(const GjAgg *agg, const void *state, bool *isnull)
{
	Datum		sum;
	int64		count;

	if (agg->spec.type == GJ_VALUE_FLOAT4 || agg->spec.type == GJ_VALUE_FLOAT8)
	{
		const GjFloatAverage *average = state;

		*isnull = average->n == 0.0;
		return *isnull ? (Datum) 0 : Float8GetDatum(average->sx / average->n);
	}

	if (agg->spec.type == GJ_VALUE_INT8)
		count = ((const GjWideAverage *) state)->count;
	else
		count = ((const GjIntAverage *) state)->count;
	*isnull = count == 0;
	if (*isnull)
		return (Datum) 0;

	if (agg->spec.type == GJ_VALUE_INT8)
		sum = wide_numeric(((const GjWideAverage *) state)->sum);
	else
		sum = NumericGetDatum(int64_to_numeric((int64) ((const GjIntAverage *) state)->sum));
	return DirectFunctionCall2(numeric_div, sum, NumericGetDatum(int64_to_numeric(count)));
}

/* What min(), max(), bool_and() and bool_or() have kept */
static Datum
final_value(const GjAgg *agg, const void *state)
{
	switch (agg->spec.type)
	{
		case GJ_VALUE_BOOL:
			return BoolGetDatum(*(const uint8 *) state != 0);
		case GJ_VALUE_INT2:
			return Int16GetDatum(*(const int16 *) state);
		case GJ_VALUE_INT4:
			return Int32GetDatum(*(const int32 *) state);
		case GJ_VALUE_OID:
			return ObjectIdGetDatum(*(const Oid *) state);
		case GJ_VALUE_INT8:
			return Int64GetDatum(*(const int64 *) state);
		case GJ_VALUE_FLOAT4:
			return Float4GetDatum(*(const float4 *) state);
		case GJ_VALUE_FLOAT8:
			return Float8GetDatum(*(const float8 *) state);
	}
	return (Datum) 0;
}

/*
 * Make a numeric of 128 bits: nearly always of the lower 64, otherwise of three pieces
 */
static Datum
wide_numeric(GjWideSum sum)
{
	Datum		shift;
	Datum		result;

	if (sum.high == -(int64) ((int64) sum.low < 0))
		return NumericGetDatum(int64_to_numeric((int64) sum.low));

	shift = NumericGetDatum(int64_to_numeric((int64) 1 << 32));
	result = NumericGetDatum(int64_to_numeric(sum.high));
	result = DirectFunctionCall2(numeric_mul, result, shift);
	result = DirectFunctionCall2(numeric_add, result,
								 NumericGetDatum(int64_to_numeric((int64) (sum.low >> 32))));
	result = DirectFunctionCall2(numeric_mul, result, shift);
	return DirectFunctionCall2(numeric_add, result,
							   NumericGetDatum(int64_to_numeric((int64) (uint32) sum.low)));
}
