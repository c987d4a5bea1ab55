/*-------------------------------------------------------------------------
 *
 * aggpartial.c
 *	  States of aggregates as another process of a parallel plan combines them.
 *
 * Above Gather PostgreSQL's own node combines states and finishes them.  So a state is what its
 * transition function keeps: the result itself (counts, sums in 64 bits and of floats, min, max
 * and booleans), an array (avg of int2, int4 and floats), or, of sum() and avg() of int8, what
 * int8_avg_serialize() writes.  PostgreSQL takes one state for both of these if they have the
 * same argument, so both are avg()'s, with the number of values.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "libpq/pqformat.h"
#include "utils/array.h"

#include "groupparts.h"

/* A numeric as aggregates write it: digits of base 10000, the highest first, without point */
#define DIGIT_BASE				10000
#define MAX_DIGITS				10	/* of 128 bits */
#define SIGN_POSITIVE			0x0000
#define SIGN_NEGATIVE			0x4000

static Datum float_state(const GjFloatAverage *average);
static Datum int_state(const GjIntAverage *average);
static Datum wide_state(const GjWideAverage *average);
static void write_sum(StringInfo buf, GjWideSum sum);
static int	take_digits(GjWideSum sum, int16 *digits);

/*
 * Get the state of a group
 */
Datum
GjAggPartial(const GjAgg *agg, uint32 group, bool *isnull)
{
	const void *state = agg->states.start + group * agg->state_size;

	if (agg->spec.kind != GJ_AGG_AVG)
		return GjAggFinal(agg, group, isnull);

	/* of no values as well */
	*isnull = false;
	switch (agg->spec.type)
	{
		case GJ_VALUE_FLOAT4:
		case GJ_VALUE_FLOAT8:
			return float_state(state);
		case GJ_VALUE_INT8:
			return wide_state(state);
		default:
			return int_state(state);
	}
}

static Datum
float_state(const GjFloatAverage *average)
{
	Datum		values[] = {
		Float8GetDatum(average->n), Float8GetDatum(average->sx), Float8GetDatum(average->sxx)
	};

	return PointerGetDatum(construct_array(values, lengthof(values), FLOAT8OID, sizeof(float8),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

static Datum
int_state(const GjIntAverage *average)
{
	Datum		values[] = {
		Int64GetDatum(average->count), Int64GetDatum((int64) average->sum)
	};

	return PointerGetDatum(construct_array(values, lengthof(values), INT8OID, sizeof(int64),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

static Datum
wide_state(const GjWideAverage *average)
{
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendint64(&buf, average->count);
	write_sum(&buf, average->sum);
	return PointerGetDatum(pq_endtypsend(&buf));
}

static void
write_sum(StringInfo buf, GjWideSum sum)
{
	int16		digits[MAX_DIGITS];
	bool		is_negative = sum.high < 0;
	int			n;

	if (is_negative)
	{
		sum.high = (int64) (~(uint64) sum.high + (sum.low == 0));
		sum.low = -sum.low;
	}
	n = take_digits(sum, digits);
	pq_sendint32(buf, n);
	pq_sendint32(buf, Max(n - 1, 0));	/* weight of the highest digit */
	pq_sendint32(buf, is_negative ? SIGN_NEGATIVE : SIGN_POSITIVE);
	pq_sendint32(buf, 0);		/* digits behind the point */
	while (n > 0)
		pq_sendint16(buf, digits[--n]);
}

/*
 * Divide 128 bits without a sign into digits, the lowest first
 */
static int
take_digits(GjWideSum sum, int16 *digits)
{
	uint32		pieces[] = {
		(uint64) sum.high >> 32, (uint32) sum.high, sum.low >> 32, (uint32) sum.low
	};
	int			n = 0;

	while ((pieces[0] | pieces[1] | pieces[2] | pieces[3]) != 0)
	{
		uint64		rest = 0;

		for (int i = 0; i < lengthof(pieces); i++)
		{
			rest = rest << 32 | pieces[i];
			pieces[i] = rest / DIGIT_BASE;
			rest %= DIGIT_BASE;
		}
		digits[n++] = (int16) rest;
	}
	return n;
}
