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

static void read_states(GjValueType type, const char *states, int n, int stride, Datum *values);
static Datum final_average(const GjAgg *agg, const void *state, bool *isnull);
static Datum wide_numeric(GjWideSum sum);

/*
 * Is the result the state as it is?  *type: then, its type
 */
bool
GjAggIsState(const GjAgg *agg, GjValueType *type)
{
	bool		is_float = agg->spec.type == GJ_VALUE_FLOAT4 || agg->spec.type == GJ_VALUE_FLOAT8;

	switch (agg->spec.kind)
	{
		case GJ_AGG_COUNT_ROWS:
		case GJ_AGG_COUNT:
		case GJ_AGG_COUNT_DISTINCT:
			*type = GJ_VALUE_INT8;
			return true;
		case GJ_AGG_SUM:
			*type = is_float ? agg->spec.type : GJ_VALUE_INT8;
			return agg->spec.type != GJ_VALUE_INT8;
		case GJ_AGG_AVG:
			return false;
		default:
			*type = agg->spec.type;
			return true;
	}
}

/*
 * Get the results of n groups, which are states as they are, into every stride-th place
 */
void
GjAggRead(const GjAgg *agg, uint32 first, int n, int stride, Datum *values, bool *isnull)
{
	const uint8 *seen = agg->may_be_null && agg->keeps_seen ?
		(const uint8 *) agg->seen.start + first : NULL;
	GjValueType type;

	if (!GjAggIsState(agg, &type))
		elog(ERROR, "results of aggregate %d are no states", (int) agg->spec.kind);
	read_states(type, agg->states.start + first * agg->state_size, n, stride, values);
	for (int i = 0; i < n; i++)
		isnull[i * stride] = seen != NULL && !seen[i];
}

#define READ(type, get_datum) \
	for (int i = 0; i < n; i++) \
		values[i * stride] = get_datum(((const type *) states)[i])

static void
read_states(GjValueType type, const char *states, int n, int stride, Datum *values)
{
	switch (type)
	{
		case GJ_VALUE_BOOL:
			READ(uint8, BoolGetDatum);
			break;
		case GJ_VALUE_INT2:
			READ(int16, Int16GetDatum);
			break;
		case GJ_VALUE_INT4:
			READ(int32, Int32GetDatum);
			break;
		case GJ_VALUE_OID:
			READ(Oid, ObjectIdGetDatum);
			break;
		case GJ_VALUE_INT8:
			READ(int64, Int64GetDatum);
			break;
		case GJ_VALUE_FLOAT4:
			READ(float4, Float4GetDatum);
			break;
		case GJ_VALUE_FLOAT8:
			READ(float8, Float8GetDatum);
			break;
	}
}

/*
 * Get the result of a group
 */
Datum
GjAggFinal(const GjAgg *agg, uint32 group, bool *isnull)
{
	const void *state = agg->states.start + group * agg->state_size;
	GjValueType type;
	Datum		value;

	if (GjAggIsState(agg, &type))
	{
		GjAggRead(agg, group, 1, 1, &value, isnull);
		return *isnull ? (Datum) 0 : value;
	}
	if (agg->spec.kind == GJ_AGG_AVG)
		return final_average(agg, state, isnull);
	*isnull = agg->may_be_null && agg->keeps_seen && !agg->seen.start[group];
	return *isnull ? (Datum) 0 : wide_numeric(*(const GjWideSum *) state);
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
