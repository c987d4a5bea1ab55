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
 * The check finds the number of each group's key in the set, and leaves it in the group
 * (GjNumberOfKey).  It is below the number of keys: agg/combine.c has an array for all of them.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "port/pg_bitutils.h"

#include "shared.h"

/* An aggregate, and the limits of the values that it is made of */
typedef struct Limits
{
	gjd_aggregate_kind kind;
	int			at;				/* its first word */
	bool		is_wide;		/* is it a sum in two words? */
	bool		nullable;
	int64		least;
	int64		greatest;
} Limits;

typedef struct Answer
{
	const GjReduction *reduction;
	const GjKeySet *keys;
	const gjd_shape *shape;		/* of the column */
	Limits		limits[GJD_MAX_AGGREGATES];
	uint64	   *seen;			/* a bit for each number or value of a group that has been met */
	uint64		next;			/* number of the key after that of the last group */
} Answer;

/* Keys without rows that are passed over before the next group's key is searched for */
#define MAX_STEPS				8

static bool check_bits(const GjReduction *r);
static void set_limits(Answer *x);
static bool check_groups(Answer *x);
static uint32 greatest_weight(const gjd_reduction *asked);
static uint64 multiply(uint64 a, uint64 b);
static pg_attribute_always_inline bool check_each(Answer *x, gjd_grouping grouping, uint64 *rows,
												  uint64 *empty);
static pg_attribute_always_inline bool check_group(Answer *x, gjd_grouping grouping,
												   uint64 *words);
static pg_attribute_always_inline bool find_number(Answer *x, gjd_grouping grouping,
												   const uint64 *words, uint64 *number);
static bool check_values(const Answer *x, const uint64 *words);
static inline uint64 find_key(const GjKeySet *keys, int64 key, uint64 first);
static inline bool check_aggregate(const Limits *limits, uint64 rows, const uint64 *words);

/*
 * Return true if groups can be those of a reduction of the entries with these keys, all of which
 * have been received; the shape is that of the column
 */
bool
GjReductionIsSound(GjReduction *r, const GjKeySet *keys, const gjd_shape *shape)
{
	Answer		answer = {.reduction = r,.keys = keys,.shape = shape};

	if (r->asked.grouping == GJD_DISTINCT)
		return check_bits(r);
	set_limits(&answer);
	return check_groups(&answer);
}

static bool
check_bits(const GjReduction *r)
{
	return r->nelements == r->asked.span / 64 &&
		pg_popcount((const char *) r->words, r->nelements * sizeof(uint64)) == r->ngroups &&
		r->ngroups <= r->rows - r->nulls;
}

static void
set_limits(Answer *x)
{
	const gjd_reduction *asked = &x->reduction->asked;
	int			at = gjd_group_words(asked);

	for (uint32 i = 0; i < asked->n_aggregates; i++)
	{
		const gjd_aggregate *aggregate = &asked->aggregates[i];
		int			words = gjd_aggregate_words(aggregate, x->shape);
		int			bits = gjd_column_bytes(x->shape, aggregate->column) * 8;
		int64		greatest = (int64) (PG_UINT64_MAX >> (65 - bits));

		x->limits[i] = (Limits) {
			.kind = aggregate->kind,.at = at,.is_wide = words > 1,
			.nullable = gjd_column_is_nullable(x->shape, aggregate->column),
			.least = -greatest - 1,.greatest = greatest
		};
		at += words;
	}
}

static bool
check_groups(Answer *x)
{
	const GjReduction *r = x->reduction;
	uint64		most = gjd_most_elements(&r->asked, GjCountListed(x->keys, r->proofs));
	uint64		rows = 0;
	uint64		empty = 0;
	bool		good;

	if (r->asked.grouping != GJD_BY_COLUMNS)
		x->seen = palloc0((most / 64 + 1) * sizeof(uint64));
	if (r->asked.grouping == GJD_BY_KEY)	/* a copy for keys, which may be many */
		good = check_each(x, GJD_BY_KEY, &rows, &empty);
	else
		good = check_each(x, r->asked.grouping, &rows, &empty);
	if (x->seen != NULL)
		pfree(x->seen);
	if (r->asked.grouping == GJD_ONE_GROUP && r->nelements != 1)
		return false;
	if (r->asked.only_shared)
		return good && r->nelements <= r->ngroups && r->ngroups <= Min(r->rows, most);
	return good && rows >= r->rows && r->ngroups == r->nelements - empty;
}

/* Check all groups, and count their rows, and those that have none */
static pg_attribute_always_inline bool
check_each(Answer *x, gjd_grouping grouping, uint64 *rows, uint64 *empty)
{
	const GjReduction *r = x->reduction;
	uint64		rows_left = multiply(r->rows, greatest_weight(&r->asked));
	uint32		width = r->element_words;
	uint64	   *words = r->words;

	for (uint64 i = 0; i < r->nelements; i++, words += width)
	{
		if (words[2] > rows_left || !check_group(x, grouping, words))
			return false;
		rows_left -= words[2];
		*rows += words[2];
		*empty += words[2] == 0;
	}
	return true;
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
static pg_attribute_always_inline bool
check_group(Answer *x, gjd_grouping grouping, uint64 *words)
{
	uint32		naggs = x->reduction->asked.n_aggregates;
	uint64		number = 0;

	if (words[2] == 0 && grouping != GJD_ONE_GROUP)
		return false;
	if (grouping == GJD_BY_COLUMNS)
	{
		if (!check_values(x, words))
			return false;
	}
	else if (!find_number(x, grouping, words, &number) ||
			 (x->seen[number / 64] >> number % 64 & 1) != 0)
		return false;
	else
		x->seen[number / 64] |= UINT64CONST(1) << number % 64;
	if (grouping == GJD_BY_KEY)
		words[1] = number << 1;

	for (uint32 i = 0; i < naggs; i++)
	{
		if (!check_aggregate(&x->limits[i], words[2], words + x->limits[i].at))
			return false;
	}
	return true;
}

/* Find the number of a group's key or value.  Returns false if there is no such group. */
static pg_attribute_always_inline bool
find_number(Answer *x, gjd_grouping grouping, const uint64 *words, uint64 *number)
{
	const GjReduction *r = x->reduction;
	const gjd_reduction *asked = &r->asked;
	bool		is_null = words[1] == 1;

	if (words[1] > 1 || (is_null && words[0] != 0))
		return false;
	switch (grouping)
	{
		case GJD_ONE_GROUP:
			*number = words[0];
			return words[0] == 0 && !is_null;
		case GJD_BY_KEY:
			if (r->proofs != NULL)
			{
				*number = words[0];
				return !is_null && words[0] < r->proofs->n;
			}
			*number = find_key(x->keys, (int64) words[0], x->next);
			x->next = *number + 1;
			return !is_null && *number < GjKeySetCount(x->keys);
		case GJD_BY_VALUE:
			*number = is_null ? asked->span : words[0] - (uint64) asked->least;
			return *number <= asked->span && (*number == asked->span) == is_null &&
				(!is_null || gjd_column_is_nullable(x->shape, asked->column));
		default:
			return false;
	}
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

/*
 * Return the number of a key, which is usually first, or a little higher; or the number of keys.
 * The first one may be out of range.
 */
static inline uint64
find_key(const GjKeySet *keys, int64 key, uint64 first)
{
	uint64		n = GjKeySetCount(keys);
	uint64		end = first + MAX_STEPS < n ? first + MAX_STEPS : n;
	uint64		at = first;

	while (at < end && GjKeySetAt(keys, at) < key)
		at++;
	if (at < end && GjKeySetAt(keys, at) == key)
		return at;
	at = GjKeySetLowerBound(keys, key);
	return at < n && GjKeySetAt(keys, at) == key ? at : n;
}

/* Return true if an aggregate of this number of rows can have this value */
static inline bool
check_aggregate(const Limits *limits, uint64 rows, const uint64 *words)
{
	bool		may_lack = limits->nullable || rows == 0;
	int64		value = (int64) words[0];

	switch (limits->kind)
	{
		case GJD_COUNT_VALUES:
			return may_lack ? words[0] <= rows : words[0] == rows;
		case GJD_MIN:
			return (value >= limits->least && value <= limits->greatest) ||
				(may_lack && value == PG_INT64_MAX);
		case GJD_MAX:
			return (value >= limits->least && value <= limits->greatest) ||
				(may_lack && value == PG_INT64_MIN);
		case GJD_SUM:
			break;
		default:
			return false;
	}

	/* more rows than this could exceed a word */
	if (rows > GJ_MAX_SUMMED_ROWS)
		return false;
	if (!limits->is_wide)
		return value >= (int64) rows * limits->least && value <= (int64) rows * limits->greatest;
	value = (int64) words[1];
	return words[0] <= rows * PG_UINT32_MAX && value >= (int64) rows * PG_INT32_MIN &&
		value <= (int64) rows * PG_INT32_MAX;
}
