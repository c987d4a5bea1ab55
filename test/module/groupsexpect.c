/*-------------------------------------------------------------------------
 *
 * groupsexpect.c
 *	  Test of groups and aggregates: the expected results, row by row, with PostgreSQL's own
 *	  functions.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "groupstest.h"

/* Return true after an overflow error, which some floats are expected to cause; rethrow others */
bool
GjIsOverflow(MemoryContext context)
{
	MemoryContextSwitchTo(context);
	if (geterrcode() != ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE)
		PG_RE_THROW();
	FlushErrorState();
	return true;
}

static Datum
value_datum(const TestColumn *column, int row)
{
	switch (column->type)
	{
		case GJ_VALUE_BOOL:
			return BoolGetDatum(column->ints[row] != 0);
		case GJ_VALUE_INT2:
			return Int16GetDatum((int16) column->ints[row]);
		case GJ_VALUE_INT4:
			return Int32GetDatum((int32) column->ints[row]);
		case GJ_VALUE_OID:
			return ObjectIdGetDatum((Oid) column->ints[row]);
		case GJ_VALUE_INT8:
			return Int64GetDatum(column->ints[row]);
		case GJ_VALUE_FLOAT4:
			return Float4GetDatum((float4) column->floats[row]);
		case GJ_VALUE_FLOAT8:
			return Float8GetDatum(column->floats[row]);
		case GJ_VALUE_NUMERIC:
			break;
	}
	return (Datum) 0;
}

/*
 * Compute all groups; returns false after an overflow
 */
bool
GjExpectAll(const Test *test)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool failed = false;

	PG_TRY();
	{
		for (int group = 0; group < test->ngroups; group++)
		{
			for (int i = 0; i < test->naggs; i++)
			{
				bool		isnull;

				(void) GjExpect(test, &test->aggs[i], group, &isnull);
			}
		}
	}
	PG_CATCH();
	{
		failed = GjIsOverflow(context);
	}
	PG_END_TRY();
	return !failed;
}

static int
compare_int64(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

static int64
count_distinct(int64 *values, int n)
{
	int64		count = 0;

	qsort(values, n, sizeof(int64), compare_int64);
	for (int i = 0; i < n; i++)
		count += (i == 0 || values[i] != values[i - 1]);
	return count;
}

/* Digits of an int128 as a numeric */
static Datum
int128_numeric(int128 value)
{
	char		text[64];
	char	   *at = text + sizeof(text) - 1;
	bool		is_negative = value < 0;

	*at = '\0';
	do
	{
		int			digit = (int) (value % 10);

		*--at = '0' + (digit < 0 ? -digit : digit);
		value /= 10;
	} while (value != 0);
	if (is_negative)
		*--at = '-';
	return DirectFunctionCall3(numeric_in, CStringGetDatum(at), ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
}

static PGFunction
min_max_function(const GjAggSpec *agg)
{
	static const PGFunction smaller[] = {NULL, int2smaller, int4smaller, int8smaller, oidsmaller,
	float4smaller, float8smaller};
	static const PGFunction larger[] = {NULL, int2larger, int4larger, int8larger, oidlarger,
	float4larger, float8larger};

	return agg->kind == GJ_AGG_MIN ? smaller[agg->type] : larger[agg->type];
}

/* Advance an aggregate whose first state is its first value */
static Datum
step(const GjAggSpec *agg, Datum state, Datum value)
{
	switch (agg->kind)
	{
		case GJ_AGG_SUM:
			return agg->type == GJ_VALUE_FLOAT4 ? DirectFunctionCall2(float4pl, state, value) :
				DirectFunctionCall2(float8pl, state, value);
		case GJ_AGG_BOOL_AND:
			return DirectFunctionCall2(booland_statefunc, state, value);
		case GJ_AGG_BOOL_OR:
			return DirectFunctionCall2(boolor_statefunc, state, value);
		default:
			return DirectFunctionCall2(min_max_function(agg), state, value);
	}
}

static Datum
float_average(const GjAggSpec *agg, Datum state, Datum value)
{
	return DirectFunctionCall2(agg->type == GJ_VALUE_FLOAT4 ? float4_accum : float8_accum, state,
							   value);
}

Datum
GjExpect(const Test *test, const GjAggSpec *agg, int group, bool *isnull)
{
	const TestColumn *column = agg->column < 0 ? NULL : test->columns[agg->column];
	const TestColumn *filter = agg->filter < 0 ? NULL : test->columns[agg->filter];
	bool		is_float = agg->type >= GJ_VALUE_FLOAT4;
	Datum		zeros[3] = {Float8GetDatum(0), Float8GetDatum(0), Float8GetDatum(0)};
	Datum		state = PointerGetDatum(construct_array(zeros, 3, FLOAT8OID, sizeof(float8),
														FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	static int64 values[MAX_ROWS];
	int128		sum = 0;
	int64		count = 0;
	int			n = 0;

	if (agg->kind == GJ_AGG_ONE_ROW)
	{
		*isnull = column->nulls[test->order[test->firsts[group]]];
		return value_datum(column, test->order[test->firsts[group]]);
	}
	for (int i = test->firsts[group]; i < test->firsts[group + 1]; i++)
	{
		int			row = test->order[i];
		uint32		weight = test->weights != NULL ? test->weights[row] : 1;
		Datum		value;

		if ((filter != NULL && (filter->nulls[row] || !filter->ints[row])) ||
			(column != NULL && column->nulls[row]))
			continue;
		count += weight;
		if (column == NULL || agg->kind == GJ_AGG_COUNT)
			continue;
		value = value_datum(column, row);
		values[n] = column->ints[row];
		sum += (int128) column->ints[row] * weight;
		if (agg->kind == GJ_AGG_COUNT_DISTINCT || (!is_float && agg->kind <= GJ_AGG_AVG))
		{
			n++;
			continue;
		}
		/* The result for an integer or a boolean does not depend on the number of repetitions */
		for (uint32 j = 0; j < (is_float ? weight : 1); j++)
		{
			if (agg->kind == GJ_AGG_AVG)
				state = float_average(agg, state, value);
			else
				state = n == 0 ? value : step(agg, state, value);
			n++;
		}
		n = 1;
	}

	*isnull = count == 0 && agg->kind > GJ_AGG_COUNT_DISTINCT;
	if (*isnull)
		return (Datum) 0;
	if (agg->kind == GJ_AGG_COUNT_DISTINCT)
		return Int64GetDatum(count_distinct(values, n));
	if (agg->kind <= GJ_AGG_COUNT)
		return Int64GetDatum(count);
	if (agg->kind == GJ_AGG_AVG && is_float)
		return DirectFunctionCall1(float8_avg, state);
	if (agg->kind > GJ_AGG_AVG || is_float)
		return state;
	if (agg->type != GJ_VALUE_INT8)
		sum = (int64) (uint64) sum;
	if (agg->kind == GJ_AGG_AVG)
		return DirectFunctionCall2(numeric_div, int128_numeric(sum),
								   NumericGetDatum(int64_to_numeric(count)));
	return agg->type == GJ_VALUE_INT8 ? int128_numeric(sum) : Int64GetDatum((int64) sum);
}
