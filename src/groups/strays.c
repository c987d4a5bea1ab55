/*-------------------------------------------------------------------------
 *
 * strays.c
 *	  Aggregates of numerics: the values that have no word.
 *
 * The values of a numeric column are words in a batch: integers of one scale (base/numeric.c), which
 * the loops for int8 add and compare.  A row may have any other value, as NaN, or 1.5 in a column
 * of prices such as 1.50.  It comes from the table, or from another index.  Such a value is a
 * *stray*: a copy is kept here, and its code is in the place of the word.  Codes are below all
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
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "base/numeric.h"
#include "groupparts.h"

#define FIRST_STRAYS			64

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
typedef struct SumCell
{
	uint32		group;
	char		status;
	GjStraySum	sum;
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
static void add_number(GjStraySums *sums, GjStraySum *sum, Numeric value, uint32 weight);
static void replace(GjStraySums *sums, Datum *to, Datum value);

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
 * Return what is known of a group's strays, or NULL if it has none
 */
const GjStraySum *
GjStraySumsFind(const GjStraySums *sums, uint32 group)
{
	SumCell    *cell = sums->table == NULL ? NULL : sumtable_lookup(sums->table, group);

	return cell == NULL ? NULL : &cell->sum;
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

		if (GjWordIsStray(word))
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
	GjStraySum *sum;
	bool		found;

	if (sums->table == NULL)
	{
		sums->context = AllocSetContextCreate(sums->parent, "gpujoin stray sums",
											  ALLOCSET_DEFAULT_SIZES);
		sums->table = sumtable_create(sums->context, FIRST_STRAYS, NULL);
	}
	sum = &sumtable_insert(sums->table, group, &found)->sum;
	if (!found)
		memset(sum, 0, sizeof(GjStraySum));

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
add_number(GjStraySums *sums, GjStraySum *sum, Numeric value, uint32 weight)
{
	Datum		times = NumericGetDatum(value);

	if (numeric_is_nan(value))
		sum->nans += weight;
	else if (numeric_is_inf(value))
	{
		bool		is_negative = DatumGetBool(DirectFunctionCall2(numeric_lt, times,
																   NumericGetDatum(int64_to_numeric(0))));

		*(is_negative ? &sum->negative_infinities : &sum->infinities) += weight;
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
