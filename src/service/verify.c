/*-------------------------------------------------------------------------
 *
 * verify.c
 *	  Whether the groups that a device has sent can be an answer to the request.
 *
 * A reduction's answer is checked against the request as a whole: keys are of the set (or numbers
 * of its keys with rests), no group comes twice, the groups have as many rows as were reduced, and
 * each aggregate is within the limits for its number of rows.  So the caller can narrow the values
 * to the types of their columns.  With weights, the number of rows is only known to be within the
 * limits of these.
 * Groups of several columns (GJD_BY_COLUMNS) are not compared with each other: the caller looks
 * each of them up.  If only those that the rest shares are sent, the others are a number.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "port/pg_bitutils.h"

#include "shared.h"

typedef struct Answer
{
	const GjReduction *reduction;
	const GjKeySet *keys;
	const gjd_shape *shape;		/* of the column */
} Answer;

static bool check_bits(const GjReduction *r);
static bool check_groups(const Answer *x);
static uint32 greatest_weight(const gjd_reduction *asked);
static uint64 multiply(uint64 a, uint64 b);
static bool check_group(const Answer *x, const uint64 *words, uint64 *seen, uint64 *hint);
static bool check_values(const Answer *x, const uint64 *words);
static uint64 find_key(const GjKeySet *keys, int64 key, uint64 hint);
static bool check_aggregate(const gjd_aggregate *aggregate, const gjd_shape *shape, uint64 rows,
							const uint64 *words);

/*
 * Return true if groups can be those of a reduction of the entries with these keys, all of which
 * have been received; the shape is that of the column
 */
bool
GjReductionIsSound(const GjReduction *r, const GjKeySet *keys, const gjd_shape *shape)
{
	Answer		answer = {.reduction = r,.keys = keys,.shape = shape};

	return r->asked.grouping == GJD_DISTINCT ? check_bits(r) : check_groups(&answer);
}

static bool
check_bits(const GjReduction *r)
{
	return r->nelements == r->asked.span / 64 &&
		pg_popcount((const char *) r->words, r->nelements * sizeof(uint64)) == r->ngroups &&
		r->ngroups <= r->rows - r->nulls;
}

static bool
check_groups(const Answer *x)
{
	const GjReduction *r = x->reduction;
	uint64		most = gjd_most_elements(&r->asked, GjCountListed(x->keys, r->proofs));
	uint64	   *seen = palloc0((most / 64 + 1) * sizeof(uint64));
	uint64		hint = 0;
	uint64		rows = 0;
	uint64		most_rows = multiply(r->rows, greatest_weight(&r->asked));
	uint64		empty = 0;
	bool		good = true;

	for (uint64 i = 0; i < r->nelements && good; i++)
	{
		const uint64 *words = r->words + i * r->element_words;

		good = words[2] <= most_rows - rows && check_group(x, words, seen, &hint);
		rows += words[2];
		empty += words[2] == 0;
	}
	pfree(seen);
	if (r->asked.grouping == GJD_ONE_GROUP && r->nelements != 1)
		return false;
	if (r->asked.only_shared)
		return good && r->nelements <= r->ngroups && r->ngroups <= Min(r->rows, most);
	return good && rows >= r->rows && r->ngroups == r->nelements - empty;
}

static uint32
greatest_weight(const gjd_reduction *asked)
{
	uint32		greatest = 1;

	for (uint64 i = 0; asked->weights != NULL && i < asked->n_keys; i++)
		greatest = Max(greatest, asked->weights[i]);
	return greatest;
}

static uint64
multiply(uint64 a, uint64 b)
{
	uint64		result;

	return pg_mul_u64_overflow(a, b, &result) ? PG_UINT64_MAX : result;
}

/* Check a group, and that it has not been seen before */
static bool
check_group(const Answer *x, const uint64 *words, uint64 *seen, uint64 *hint)
{
	const gjd_reduction *asked = &x->reduction->asked;
	bool		is_null = words[1] == 1;
	uint64		place = 0;

	if (asked->grouping != GJD_BY_COLUMNS && (words[1] > 1 || (is_null && words[0] != 0)))
		return false;
	switch (asked->grouping)
	{
		case GJD_ONE_GROUP:
			if (words[0] != 0 || is_null)
				return false;
			break;
		case GJD_BY_KEY:
			if (x->reduction->proofs != NULL)
			{
				place = words[0];
				if (is_null || place >= x->reduction->proofs->n)
					return false;
				break;
			}
			place = *hint = find_key(x->keys, (int64) words[0], *hint);
			if (is_null || place == GjKeySetCount(x->keys))
				return false;
			break;
		case GJD_BY_VALUE:
			place = is_null ? asked->span : words[0] - (uint64) asked->least;
			if (place > asked->span || (place == asked->span) != is_null ||
				(is_null && !gjd_column_is_nullable(x->shape, asked->column)))
				return false;
			break;
		case GJD_BY_COLUMNS:
			if (!check_values(x, words))
				return false;
			break;
		default:
			return false;
	}
	if ((words[2] == 0 && asked->grouping != GJD_ONE_GROUP) ||
		(seen[place / 64] >> place % 64 & 1) != 0)
		return false;
	if (asked->grouping != GJD_BY_COLUMNS)
		seen[place / 64] |= UINT64CONST(1) << place % 64;

	for (uint32 i = 0, at = gjd_group_words(asked); i < asked->n_aggregates; i++)
	{
		if (!check_aggregate(&asked->aggregates[i], x->shape, words[2], words + at))
			return false;
		at += gjd_aggregate_words(&asked->aggregates[i], x->shape);
	}
	return true;
}

/* Check the values of a group of GJD_BY_COLUMNS, which the first and the fourth word begin */
static bool
check_values(const Answer *x, const uint64 *words)
{
	const gjd_reduction *asked = &x->reduction->asked;
	const gjd_shape *shape = x->shape;

	if (words[1] >> asked->n_columns != 0)
		return false;
	for (uint32 i = 0; i < asked->n_columns; i++)
	{
		int64		value = (int64) words[i == 0 ? 0 : GJD_GROUP_WORDS + i - 1];
		int			unused = 64 - gjd_column_bytes(shape, asked->columns[i]) * 8;
		bool		is_null = (words[1] >> i & 1) != 0;

		if (is_null ? value != 0 || !gjd_column_is_nullable(shape, asked->columns[i]) :
			(int64) ((uint64) value << unused) >> unused != value)
			return false;
		if (asked->columns[i] == 0 && find_key(x->keys, value, 0) == GjKeySetCount(x->keys))
			return false;
	}
	return true;
}

/* Return the position of a key, usually the one after the hint; or nkeys */
static uint64
find_key(const GjKeySet *keys, int64 key, uint64 hint)
{
	uint64		place = hint;

	if (hint < GjKeySetCount(keys) && GjKeySetAt(keys, hint) != key)
		place++;
	if (place >= GjKeySetCount(keys) || GjKeySetAt(keys, place) != key)
		place = GjKeySetLowerBound(keys, key);
	return place < GjKeySetCount(keys) && GjKeySetAt(keys, place) == key ? place :
		GjKeySetCount(keys);
}

/* Return true if an aggregate of this number of rows can have this value */
static bool
check_aggregate(const gjd_aggregate *aggregate, const gjd_shape *shape, uint64 rows,
				const uint64 *words)
{
	int			bits = gjd_column_bytes(shape, aggregate->column) * 8;
	bool		may_lack = rows == 0 || gjd_column_is_nullable(shape, aggregate->column);
	int64		greatest = (int64) (PG_UINT64_MAX >> (65 - bits));
	int64		least = -greatest - 1;
	int64		value = (int64) words[0];

	switch (aggregate->kind)
	{
		case GJD_COUNT_VALUES:
			return may_lack ? words[0] <= rows : words[0] == rows;
		case GJD_MIN:
			return (value >= least && value <= greatest) || (may_lack && value == PG_INT64_MAX);
		case GJD_MAX:
			return (value >= least && value <= greatest) || (may_lack && value == PG_INT64_MIN);
		case GJD_SUM:
			break;
		default:
			return false;
	}

	/* more rows than this could exceed a word */
	if (rows > UINT64CONST(1) << 31)
		return false;
	if (bits < 64)
		return value >= (int64) rows * least && value <= (int64) rows * greatest;
	value = (int64) words[1];
	return words[0] <= rows * PG_UINT32_MAX && value >= (int64) rows * PG_INT32_MIN &&
		value <= (int64) rows * PG_INT32_MAX;
}
