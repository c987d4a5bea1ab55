/*-------------------------------------------------------------------------
 *
 * strays.c
 *	  Aggregates of numerics: the values that have no word.
 *
 * In a batch, the values of a numeric column are words: integers of one scale (base/numeric.c),
 * which the loops for int8 add and compare.  A row may have any other value, as NaN, or 1.5 in a
 * column of prices such as 1.50.  It comes from the table, or from another index.  Such a value is
 * a *stray*: a copy is kept here, and its code is in the place of the word.  Codes are below all
 * words, so they are found by one comparison, which is made only if there are strays at all.
 *
 * An aggregate handles rows with strays one by one.  For each group that has some it keeps, beside
 * the state in words, a sum, a count and a best value, which PostgreSQL's functions for numerics
 * compute.  The result is put together in the end.  It is PostgreSQL's own: a sum is shown with the
 * greatest scale of its values, so a group without words must not add their scale; NaN and the
 * infinities are counted, as numeric_avg_accum() does.
 *
 * Equal strays of one scale have one code.  So memory is needed for each distinct stray, and for
 * each group that has any; it is not limited, like that of PostgreSQL's own hash aggregation of
 * states that allocate memory.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "libpq/pqformat.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "base/numeric.h"
#include "groupparts.h"

#define FIRST_STRAYS			64

/* The sign of a numeric in a serialized state */
#define POSITIVE				0x0000
#define NEGATIVE				0x4000

/* A value.  Equal values of different scales are in a list. */
typedef struct Stray
{
	Datum		value;
	int			display_scale;	/* -1: special */
	int32		first;			/* first one of the list */
	int32		next;			/* -1: none */
} Stray;

/* The first stray with a value */
typedef struct StrayCell
{
	Datum		value;
	uint32		hash;
	int32		stray;
	char		status;
} StrayCell;

#define SH_PREFIX straytable
#define SH_ELEMENT_TYPE StrayCell
#define SH_KEY_TYPE Datum
#define SH_KEY value
#define SH_HASH_KEY(tb, key) DatumGetUInt32(DirectFunctionCall1(hash_numeric, key))
#define SH_EQUAL(tb, a, b) DatumGetBool(DirectFunctionCall2(numeric_eq, a, b))
#define SH_STORE_HASH
#define SH_GET_HASH(tb, cell) (cell)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct GjStrays
{
	MemoryContext context;		/* for this and for what the values are in */
	MemoryContext values;
	MemoryContext scratch;		/* for functions */
	straytable_hash *table;		/* NULL if there are no strays */
	Stray	   *strays;
	int32		n;
	int32		capacity;
};

/* What an aggregate knows of a group's strays */
typedef struct StraySum
{
	Datum		value;			/* the sum of numbers, or the least or greatest value; 0: none */
	int64		count;			/* of numbers */
	int64		nans;
	int64		infinities;
	int64		negative_infinities;
} StraySum;

typedef struct SumCell
{
	uint32		group;
	char		status;
	StraySum	sum;
} SumCell;

#define SH_PREFIX sumtable
#define SH_ELEMENT_TYPE SumCell
#define SH_KEY_TYPE uint32
#define SH_KEY group
#define SH_HASH_KEY(tb, key) murmurhash32(key)
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct GjStraySums
{
	MemoryContext context;
	MemoryContext parent;
	sumtable_hash *table;		/* NULL if no group has strays */

	/* The rows of a batch that have words */
	int64		values[GJ_BATCH_ROWS];
	uint32		groups[GJ_BATCH_ROWS];
	uint32		weights[GJ_BATCH_ROWS];
};

static int64 add_stray(GjStrays *strays, Datum value, int display_scale);
static int64 canonical_word(const GjStrays *strays, int64 code, int stored_scale);
static void add_value(GjStraySums *sums, const GjAggSpec *spec, uint32 group, int64 code,
					  uint32 weight);
static void add_number(GjStraySums *sums, StraySum *sum, Numeric value, uint32 weight);
static void replace(GjStraySums *sums, Datum *to, Datum value);
static const StraySum *find_sum(const GjStraySums *sums, uint32 group);
static Datum finite_sum(const GjAgg *agg, const void *state, bool has_words,
						const StraySum *strays, int64 *count);
static bool special_sum(const StraySum *strays, Datum *sum);
static Datum scaled_numeric(const GjAgg *agg, GjWideSum sum);

GjStrays *
GjStraysCreate(MemoryContext parent)
{
	MemoryContext context = AllocSetContextCreate(parent, "gpujoin strays",
												  ALLOCSET_SMALL_SIZES);
	GjStrays   *strays = MemoryContextAllocZero(context, sizeof(GjStrays));

	strays->context = context;
	strays->scratch = AllocSetContextCreate(context, "gpujoin strays scratch",
											ALLOCSET_SMALL_SIZES);
	return strays;
}

/*
 * Forget all values.  Their codes must not be used any more.
 */
void
GjStraysClear(GjStrays *strays)
{
	if (strays->table != NULL)
		MemoryContextDelete(strays->values);
	strays->table = NULL;
	strays->n = strays->capacity = 0;
}

bool
GjStraysExist(const GjStrays *strays)
{
	return strays->table != NULL;
}

/*
 * Return the word of a numeric in a column with these scales, or the code of a stray
 */
int64
GjStraysWord(GjStrays *strays, Datum value, int display_scale, int stored_scale)
{
	MemoryContext old = MemoryContextSwitchTo(strays->scratch);
	GjNumericParts parts;
	int64		word;

	GjNumericRead(PG_DETOAST_DATUM_PACKED(value), &parts);
	if (parts.is_special || parts.display_scale != display_scale ||
		!GjNumericScale(&parts, stored_scale, &word))
		word = add_stray(strays, NumericGetDatum(DatumGetNumeric(value)),
						 parts.is_special ? -1 : parts.display_scale);
	MemoryContextSwitchTo(old);
	MemoryContextReset(strays->scratch);
	return word;
}

/*
 * Return the code of a value, which is new or known
 */
static int64
add_stray(GjStrays *strays, Datum value, int display_scale)
{
	StrayCell  *cell;
	Stray	   *stray;
	int32		last = -1;
	bool		found;

	if (strays->table == NULL)
	{
		strays->values = AllocSetContextCreate(strays->context, "gpujoin strays values",
											   ALLOCSET_DEFAULT_SIZES);
		strays->table = straytable_create(strays->values, FIRST_STRAYS, NULL);
		strays->capacity = FIRST_STRAYS;
		strays->strays = MemoryContextAlloc(strays->values, FIRST_STRAYS * sizeof(Stray));
	}
	cell = straytable_insert(strays->table, value, &found);
	for (int32 i = found ? cell->stray : -1; i >= 0; i = strays->strays[i].next)
	{
		if (strays->strays[i].display_scale == display_scale)
			return PG_INT64_MIN + i;
		last = i;
	}

	if (strays->n == strays->capacity)
	{
		strays->strays = repalloc_huge(strays->strays, (Size) 2 * strays->capacity * sizeof(Stray));
		strays->capacity *= 2;
	}
	stray = &strays->strays[strays->n];
	MemoryContextSwitchTo(strays->values);
	stray->value = datumCopy(value, false, -1);
	MemoryContextSwitchTo(strays->scratch);
	stray->display_scale = display_scale;
	stray->first = found ? cell->stray : strays->n;
	stray->next = -1;
	if (found)
		strays->strays[last].next = strays->n;
	else
	{
		cell->value = stray->value;
		cell->stray = strays->n;
	}
	return PG_INT64_MIN + strays->n++;
}

/*
 * Replace the codes of strays in an array by words or codes that are equal if the values are
 */
static int64
canonical_word(const GjStrays *strays, int64 code, int stored_scale)
{
	const Stray *stray = &strays->strays[code - PG_INT64_MIN];
	GjNumericParts parts;
	int64		word;

	GjNumericRead((const struct varlena *) DatumGetPointer(stray->value), &parts);
	if (!parts.is_special && GjNumericScale(&parts, stored_scale, &word))
		return word;
	return PG_INT64_MIN + stray->first;
}

/*
 * Return true if a word is the code of a stray
 */
static inline bool
is_stray(int64 word)
{
	return word <= -GJ_WORD_LIMIT;
}

GjStraySums *
GjStraySumsCreate(MemoryContext parent)
{
	GjStraySums *sums = MemoryContextAlloc(parent, sizeof(GjStraySums));

	sums->parent = parent;
	sums->table = NULL;
	return sums;
}

/*
 * Forget the groups
 */
void
GjStraySumsClear(GjStraySums *sums)
{
	if (sums->table != NULL)
		MemoryContextDelete(sums->context);
	sums->table = NULL;
}

/*
 * Take the rows with strays out of the input of an aggregate.  For count(DISTINCT), all rows stay,
 * with values that are equal if the numerics are.
 */
void
GjStraySumsTake(GjStraySums *sums, const GjAggSpec *spec, GjAggInput *input)
{
	const int64 *words = input->values;
	int			n = 0;

	for (int i = 0; i < input->nrows; i++)
	{
		int64		word = words[i];
		uint32		group = input->groups == NULL ? 0 : input->groups[i];
		uint32		weight = input->weights == NULL ? 1 : input->weights[i];

		if (is_stray(word))
		{
			if (spec->kind != GJ_AGG_COUNT_DISTINCT)
			{
				add_value(sums, spec, group, word, weight);
				continue;
			}
			word = canonical_word(spec->strays, word, spec->stored_scale);
		}
		sums->values[n] = word;
		sums->groups[n] = group;
		sums->weights[n++] = weight;
	}
	input->values = sums->values;
	if (input->groups != NULL)
		input->groups = sums->groups;
	if (input->weights != NULL)
		input->weights = sums->weights;
	input->nrows = n;
}

/*
 * Add a stray to what is known of its group
 */
static void
add_value(GjStraySums *sums, const GjAggSpec *spec, uint32 group, int64 code, uint32 weight)
{
	GjStrays   *strays = spec->strays;
	Datum		value = strays->strays[code - PG_INT64_MIN].value;
	Numeric		numeric = DatumGetNumeric(value);
	MemoryContext old;
	StraySum   *sum;
	bool		found;

	if (sums->table == NULL)
	{
		sums->context = AllocSetContextCreate(sums->parent, "gpujoin stray sums",
											  ALLOCSET_DEFAULT_SIZES);
		sums->table = sumtable_create(sums->context, FIRST_STRAYS, NULL);
	}
	sum = &sumtable_insert(sums->table, group, &found)->sum;
	if (!found)
		memset(sum, 0, sizeof(StraySum));

	old = MemoryContextSwitchTo(strays->scratch);
	switch (spec->kind)
	{
		case GJ_AGG_MIN:
			replace(sums, &sum->value, sum->value == 0 ? value :
					DirectFunctionCall2(numeric_smaller, sum->value, value));
			break;
		case GJ_AGG_MAX:
			replace(sums, &sum->value, sum->value == 0 ? value :
					DirectFunctionCall2(numeric_larger, sum->value, value));
			break;
		case GJ_AGG_SUM:
		case GJ_AGG_AVG:
			add_number(sums, sum, numeric, weight);
			break;
		default:
			elog(ERROR, "no aggregate of kind %d for numerics", (int) spec->kind);
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(strays->scratch);
}

static void
add_number(GjStraySums *sums, StraySum *sum, Numeric value, uint32 weight)
{
	Datum		times = NumericGetDatum(value);

	if (numeric_is_nan(value))
		sum->nans += weight;
	else if (numeric_is_inf(value))
	{
		GjNumericParts parts;

		GjNumericRead((const struct varlena *) value, &parts);
		*(parts.is_negative ? &sum->negative_infinities : &sum->infinities) += weight;
	}
	else
	{
		if (weight != 1)
			times = DirectFunctionCall2(numeric_mul, times,
										NumericGetDatum(int64_to_numeric(weight)));
		sum->count += weight;
		replace(sums, &sum->value, sum->value == 0 ? times :
				DirectFunctionCall2(numeric_add, sum->value, times));
	}
}

/*
 * Keep a copy of a value in place of another one
 */
static void
replace(GjStraySums *sums, Datum *to, Datum value)
{
	MemoryContext old = MemoryContextSwitchTo(sums->context);
	Datum		before = *to;

	if (value != before)
	{
		*to = datumCopy(value, false, -1);
		if (before != 0)
			pfree(DatumGetPointer(before));
	}
	MemoryContextSwitchTo(old);
}

/*-------------------------------------------------------------------------
 * Results
 *-------------------------------------------------------------------------
 */

/*
 * Return what is known of a group's strays, or NULL if it has none
 */
static const StraySum *
find_sum(const GjStraySums *sums, uint32 group)
{
	SumCell    *cell = sums->table == NULL ? NULL : sumtable_lookup(sums->table, group);

	return cell == NULL ? NULL : &cell->sum;
}

/*
 * Return the result of an aggregate of numerics, from the state, which is of words, and from the
 * values that have none
 */
Datum
GjNumericResult(const GjAgg *agg, uint32 group, bool *isnull)
{
	const void *state = agg->states.start + group * agg->state_size;
	const StraySum *strays = find_sum(agg->stray_sums, group);
	bool		is_average = agg->spec.kind == GJ_AGG_AVG;
	bool		has_words = is_average ? ((const GjWideAverage *) state)->count > 0 :
		!agg->keeps_seen || agg->seen.start[group];
	Datum		value = (Datum) 0;
	int64		count;

	*isnull = !has_words && strays == NULL;
	if (*isnull)
		return (Datum) 0;
	if (agg->spec.kind == GJ_AGG_MIN || agg->spec.kind == GJ_AGG_MAX)
	{
		if (!has_words)
			return datumCopy(strays->value, false, -1);
		value = scaled_numeric(agg, (GjWideSum) {*(const int64 *) state,
							   *(const int64 *) state < 0 ? -1 : 0});
		if (strays == NULL)
			return value;
		return DirectFunctionCall2(agg->spec.kind == GJ_AGG_MIN ? numeric_smaller :
								   numeric_larger, value, strays->value);
	}
	if (strays != NULL && special_sum(strays, &value))
		return value;
	value = finite_sum(agg, state, has_words, strays, &count);
	if (!is_average)
		return value;
	return DirectFunctionCall2(numeric_div, value, NumericGetDatum(int64_to_numeric(count)));
}

/*
 * Return the sum of the values that are numbers, which has the greatest scale of them, and their
 * count, if it is an average
 */
static Datum
finite_sum(const GjAgg *agg, const void *state, bool has_words, const StraySum *strays,
		   int64 *count)
{
	Datum		strays_sum = strays == NULL ? (Datum) 0 : strays->value;

	*count = strays == NULL ? 0 : strays->count;
	if (agg->spec.kind == GJ_AGG_AVG)
		*count += ((const GjWideAverage *) state)->count;
	if (!has_words)
		return strays_sum != (Datum) 0 ? datumCopy(strays_sum, false, -1) :
			NumericGetDatum(int64_to_numeric(0));
	if (strays_sum == (Datum) 0)
		return scaled_numeric(agg, *(const GjWideSum *) state);
	return DirectFunctionCall2(numeric_add, scaled_numeric(agg, *(const GjWideSum *) state),
							   strays_sum);
}

/*
 * Return true if a sum is not a number, and set it
 */
static bool
special_sum(const StraySum *strays, Datum *sum)
{
	const char *name;

	if (strays->nans > 0 || (strays->infinities > 0 && strays->negative_infinities > 0))
		name = "NaN";
	else if (strays->infinities > 0)
		name = "Infinity";
	else if (strays->negative_infinities > 0)
		name = "-Infinity";
	else
		return false;
	*sum = DirectFunctionCall3(numeric_in, CStringGetDatum(name), ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
	return true;
}

/*
 * Make a numeric of a word or a sum of words
 */
static Datum
scaled_numeric(const GjAgg *agg, GjWideSum sum)
{
	int			display_scale = agg->spec.display_scale;
	int			stored_scale = agg->spec.stored_scale;
	char	   *buffer;
	Datum		value;

	if (sum.high == -(int64) ((int64) sum.low < 0) && (int64) sum.low != PG_INT64_MIN)
	{
		buffer = palloc(GJ_NUMERIC_BYTES);
		GjNumericOfWord((int64) sum.low, display_scale, stored_scale, buffer);
		return PointerGetDatum(buffer);
	}

	/* multiply by 10^-S, which is exact, and show D digits */
	buffer = palloc(GJ_NUMERIC_BYTES);
	GjNumericOfWord(1, stored_scale, stored_scale, buffer);
	value = DirectFunctionCall2(numeric_mul, GjWideNumeric(sum), PointerGetDatum(buffer));
	return DirectFunctionCall2(numeric_round, value, Int32GetDatum(display_scale));
}

/*
 * Return the state of sum() or avg() of a group for a parallel plan, both of which have the kind
 * of the latter: the output of numeric_avg_serialize()
 */
Datum
GjNumericState(const GjAgg *agg, uint32 group)
{
	const void *average = agg->states.start + group * agg->state_size;
	static const StraySum none = {0};
	const StraySum *strays = find_sum(agg->stray_sums, group);
	GjNumericParts parts;
	StringInfoData buf;
	int64		count;
	Datum		sum = finite_sum(agg, average, ((const GjWideAverage *) average)->count > 0, strays,
								 &count);

	GjNumericRead((const struct varlena *) DatumGetPointer(sum), &parts);
	pq_begintypsend(&buf);
	pq_sendint64(&buf, count);
	pq_sendint32(&buf, parts.ndigits);
	pq_sendint32(&buf, parts.weight);
	pq_sendint32(&buf, parts.is_negative ? NEGATIVE : POSITIVE);
	pq_sendint32(&buf, parts.display_scale);
	for (int i = 0; i < parts.ndigits; i++)
	{
		int16		digit;

		memcpy(&digit, parts.digits + i * sizeof(digit), sizeof(digit));
		pq_sendint16(&buf, digit);
	}
	/* only moving aggregates use the greatest scale, and the number of values that have it */
	pq_sendint32(&buf, parts.display_scale);
	pq_sendint64(&buf, count);
	strays = strays == NULL ? &none : strays;
	pq_sendint64(&buf, strays->nans);
	pq_sendint64(&buf, strays->infinities);
	pq_sendint64(&buf, strays->negative_infinities);
	return PointerGetDatum(pq_endtypsend(&buf));
}
