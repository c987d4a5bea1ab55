/*-------------------------------------------------------------------------
 *
 * entrytest.c
 *	  Entries that a device delivers, tested as they come: those that do not pass are not kept.
 *
 * Where one entry in a hundred passes, memory for all of them costs more than the test: it is
 * touched for the first time, written and read again.  What the test looks at is copied to a
 * place that stays in the nearest cache, since others may be writing to the arrays; of the rest
 * only that of passing entries is read at all.
 *
 * Where a device can make a part of the test by itself, what does not pass that does not even come
 * (GjEntrySetFilter).  Who receives the entries counts it with what has been dropped here.
 *
 * Nobody may rely on the test.  Not all entries come as arrays, and where most of them pass the
 * test ends, as copying whole arrays is quicker then.  So who set it tests what is kept again.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "entryset.h"

/* Tests end if of this many entries no more than one in this many has been dropped */
#define TRIED_ENTRIES			(8 * GJ_BATCH_ROWS)
#define WORTH_DROPPED			2

/* Room beyond what is expected to pass, as entries that pass may not be spread evenly */
#define SPARE_SHARE				8

/* What the test sees of a column */
struct GjEntryCopy
{
	uint64		values[GJ_BATCH_ROWS];
	uint8		nulls[GJ_BATCH_ROWS];
};

static void copy_column(const GjEntryColumn *column, const char *values, const uint8 *nulls,
						uint64 first, int n, struct GjEntryCopy *copy, GjBatchColumn *out);
static bool take(GjEntrySet *set, const GjEntryArrays *arrays, uint64 first,
				 const uint16 *rows, int n);
static bool make_room(GjEntrySet *set, int n);
static void take_values(char *to, const char *from, const uint16 *rows, int n, uint16 width);
static void take_nulls(GjEntrySet *set, GjEntryColumn *column, const uint8 *nulls,
					   const uint16 *rows, int n);

/*
 * Test entries that come as arrays, by these of their columns: bit 0 is the key, bit i + 1 the
 * INCLUDE column i.  The set must have them.
 */
void
GjEntrySetTest(GjEntrySet *set, GjEntryTest test, void *arg, uint64 columns)
{
	set->test = test;
	set->test_arg = arg;
	set->tested_columns = columns;
	if (set->copies == NULL)
		set->copies = MemoryContextAlloc(set->context,
										 (1 + set->nincluded) * sizeof(struct GjEntryCopy));
}

/*
 * Have a device keep back what surely does not pass the test
 */
void
GjEntrySetFilter(GjEntrySet *set, const gjd_filter *filter, uint64 parts)
{
	set->filter = *filter;
	set->filter_parts = parts;
}

/*
 * Add those of n entries from arrays that pass.  False, and the set is of no use any more, if a
 * TID cannot be a heap tuple's.
 */
bool
GjEntrySetAddPassing(GjEntrySet *set, const GjEntryArrays *arrays, uint64 n)
{
	for (uint64 first = 0; first < n && !set->gave_up; first += GJ_BATCH_ROWS)
	{
		GjBatchColumn columns[1 + GJ_MAX_INCLUDED] = {0};
		uint16		rows[GJ_BATCH_ROWS];
		int			count = (int) Min(n - first, GJ_BATCH_ROWS);
		int			npassed;

		if ((set->tested_columns & 1) != 0)
			copy_column(&set->keys, arrays->keys, NULL, first, count, &set->copies[0],
						&columns[0]);
		for (int i = 0; i < set->nincluded; i++)
		{
			if ((set->tested_columns >> (i + 1) & 1) != 0)
				copy_column(&set->included[i], arrays->values[i], arrays->nulls[i], first, count,
							&set->copies[i + 1], &columns[i + 1]);
		}
		npassed = set->test(set->test_arg, columns, count, rows);
		set->ntested += count;
		set->ndropped += count - npassed;
		if (npassed > 0 && !take(set, arrays, first, rows, npassed))
			return false;
	}
	if (!set->gave_up && set->ntested >= TRIED_ENTRIES &&
		set->ndropped * WORTH_DROPPED < set->ntested)
	{
		set->test = NULL;
		GjEntrySetExpect(set, set->nentries + set->expected - Min(set->expected, set->ntested));
	}
	return true;
}

static void
copy_column(const GjEntryColumn *column, const char *values, const uint8 *nulls, uint64 first,
			int n, struct GjEntryCopy *copy, GjBatchColumn *out)
{
	memcpy(copy->values, values + first * column->width, n * column->width);
	out->values = (const char *) copy->values;
	out->width = column->width;
	if (nulls == NULL)
		return;
	memcpy(copy->nulls, nulls + first, n);
	if (GjAnyByteSet(copy->nulls, n))
		out->nulls = copy->nulls;
}

/*
 * Add some of the entries from first on
 */
static bool
take(GjEntrySet *set, const GjEntryArrays *arrays, uint64 first, const uint16 *rows, int n)
{
	uint64		at = set->nentries;
	uint64		highest = 0;

	if (!make_room(set, n))
		return true;

	take_values((char *) (set->tids + at), (const char *) (arrays->tids + first), rows, n,
				sizeof(uint64));
	if (!GjCheckPackedTids(set->tids + at, n, &highest))
		return false;
	if (set->keys.width != 0)
		take_values(set->keys.values + at * set->keys.width,
					arrays->keys + first * set->keys.width, rows, n, set->keys.width);
	for (int i = 0; i < set->nincluded; i++)
	{
		GjEntryColumn *column = &set->included[i];

		if (column->width == 0)
			continue;
		take_values(column->values + at * column->width,
					arrays->values[i] + first * column->width, rows, n, column->width);
		take_nulls(set, column, arrays->nulls[i] + first, rows, n);
	}
	GjEntrySetTook(set, n, highest);
	return true;
}

/*
 * Make room for n more entries, and if there is too little, for all that are still to come if
 * as many pass as until here; false: the set has given up
 */
static bool
make_room(GjEntrySet *set, int n)
{
	uint64		capacity = GjEntrySetCapacity(set);
	uint64		needed = set->nentries + n;
	double		passed = (double) (set->ntested - set->ndropped) / set->ntested;
	double		all = passed * set->expected * (1.0 + 1.0 / SPARE_SHARE);

	if (needed > set->capacity && needed < capacity && all > needed)
		needed = (uint64) Min(all, capacity);
	return GjEntrySetReserve(set, needed - set->nentries);
}

#define TAKE(type) \
	do { \
		for (int i = 0; i < n; i++) \
			((type *) to)[i] = ((const type *) from)[rows[i]]; \
	} while (0)

static void
take_values(char *to, const char *from, const uint16 *rows, int n, uint16 width)
{
	switch (width)
	{
		case 1:
			TAKE(uint8);
			break;
		case 2:
			TAKE(uint16);
			break;
		case 4:
			TAKE(uint32);
			break;
		default:
			TAKE(uint64);
			break;
	}
}

/*
 * Say which of the entries that are taken are NULL.  Most often none is.
 */
static void
take_nulls(GjEntrySet *set, GjEntryColumn *column, const uint8 *nulls, const uint16 *rows, int n)
{
	uint8		taken[GJ_BATCH_ROWS];

	for (int i = 0; i < n; i++)
		taken[i] = nulls[rows[i]];
	if (column->has_nulls || GjAnyByteSet(taken, n))
		memcpy(GjEntrySetNulls(set, column, set->nentries) + set->nentries, taken, n);
}
