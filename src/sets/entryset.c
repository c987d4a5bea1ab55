/*-------------------------------------------------------------------------
 *
 * entryset.c
 *	  Collecting matching entries as columns.
 *
 * Entries are stored by column, because pages and devices supply them by column and consumers
 * use them by column: a visibility map lookup needs only TIDs, and an output column is filled
 * from one array.  The entries stay in the order in which they arrive; duplicates are removed at
 * the end.  All arrays lie in one region (base/region.c explains why), except the NULL flags of
 * a column, which are allocated when its first NULL arrives.
 *
 * The memory limit covers the arrays, and the sort if one is needed.  A set that would exceed
 * the limit gives up, and the caller divides the request (match/stream.c).  If the entries may
 * be outdated, the set keeps only TIDs, in a TID set, which may become lossy.
 *
 * The sections below test entries as they arrive, remove duplicates, look up a few TIDs among many
 * (GjFewTids), and write sets to a temporary file (GjEntrySpill).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/buffile.h"
#include "utils/memutils.h"

#include "base/prefetch.h"
#include "base/radix.h"
#include "entryset.h"

#define MIN_CAPACITY			((uint64) 1024)

/* Room for entries beyond the n expected ones */
#define SPARE_ENTRIES(n)		((n) / 64 + MIN_CAPACITY)

/* Number of TIDs copied and checked at a time, so that the check finds them in the L1 cache */
#define COPY_TIDS				2048

/* An array of a set's region */
typedef struct Array
{
	char	  **values;
	Size		width;			/* of an element, in bytes */
} Array;

/* TIDs, keys, INCLUDE columns */
#define MAX_ARRAYS				(2 + GJ_MAX_INCLUDED)

/* Stop testing if fewer than one in WORTH_DROPPED of TRIED_ENTRIES entries has failed the test */
#define TRIED_ENTRIES			(8 * GJ_BATCH_ROWS)
#define WORTH_DROPPED			2

/* Extra share of room for entries that pass, because they may be spread unevenly */
#define SPARE_SHARE				8

/* Copy of a column's values, made for the test */
struct GjEntryCopy
{
	uint64		values[GJ_BATCH_ROWS];
	uint8		nulls[GJ_BATCH_ROWS];
};

/* Entries outside the bulk are few up to this share of the bulk, or up to this number */
#define FEW_SHARE				8
#define FEW_ENTRIES				1024

/* Bytes that sorting takes for each entry */
#define SORT_BYTES				(2 * sizeof(uint64))

/* Allocate n elements, however many, in the set's context */
#define alloc_huge(set, type, n) \
	((type *) MemoryContextAllocHuge((set)->context, Max(n, 1) * sizeof(type)))

/* The filter has 2^n bits; the table has an eighth as many slots */
#define FILTER_BITS_PER_TID		16
#define MIN_FILTER_BITS			10
#define SLOT_SHARE_BITS			3

/* Check for interrupts after this many TIDs */
#define STEP_TIDS				65536

struct GjFewTids
{
	uint64	   *tids;
	uint64		least;
	uint64		span;			/* difference between the greatest and the least TID */
	int			filter_shift;	/* from a hash to a bit number of the filter */
	int			slot_shift;		/* from a hash to a slot number */
	uint64		slot_mask;
	uint64	   *filter;
	uint32	   *slots;			/* index of a TID plus 1; 0 if the slot is empty */
};

struct GjEntrySpill
{
	BufFile    *file;
	bool		reading;
	uint64		nsets;			/* number of sets in the file that have not been read */
};

/* Followed by the set's arrays: TIDs, keys, and the INCLUDE columns, each with its NULL flags */
typedef struct SpillHeader
{
	uint64		nentries;
	uint64		highest;
	uint32		has_nulls;		/* bit i: INCLUDE column i has NULL flags */
} SpillHeader;


static void want_column(GjEntrySet *set, GjEntryColumn *column, uint16 width, bool nullable);
static void prefetch_column(const GjEntryColumn *column, uint64 first, uint64 n);
static void resize_arrays(GjEntrySet *set, uint64 capacity);
static int	list_arrays(GjEntrySet *set, Array *arrays);
static void resize_nulls(GjEntrySet *set, uint64 capacity);
static void entries_give_up(GjEntrySet *set);
static void free_arrays(GjEntrySet *set);
static bool copy_tids(uint64 *to, const uint64 *from, uint64 n, uint64 *highest);
static void copy_column(const GjEntryColumn *column, const char *values, const uint8 *nulls,
						uint64 first, int n, struct GjEntryCopy *copy, GjBatchColumn *out);
static bool take(GjEntrySet *set, const GjEntryArrays *arrays, uint64 first,
				 const uint16 *rows, int n);
static bool entries_make_room(GjEntrySet *set, int n);
static void entries_take_nulls(GjEntrySet *set, GjEntryColumn *column, const uint8 *nulls,
							   const uint16 *rows, int n);
static void drop_others(GjEntrySet *set);
static void drop_doubles(GjEntrySet *set);
static uint64 *list_doubles(const GjEntrySet *set, uint64 *ndoubles, uint64 *nsurplus);
static void drop_from_column(GjEntryColumn *column, const uint64 *places, uint64 n,
							 uint64 nentries);
static void drop_from_array(void *array, int width, const uint64 *places, uint64 n,
							uint64 nentries);
static void entries_add(GjFewTids *few, uint64 which);
static bool any_byte_set(const uint8 *bytes, uint64 n);
static bool entry_set_add_passing(GjEntrySet *set, const GjEntryArrays *arrays, uint64 n);
static bool entry_set_make_distinct(GjEntrySet *set);
static bool few_tids_next(const GjFewTids *few, const uint64 *tids, uint64 n, uint64 *at,
						  uint64 *which);
static void write_array(GjEntrySpill *spill, void *array, Size size);
static void entries_read_array(GjEntrySpill *spill, void *array, Size size);

/*
 * Create an empty set for entries of an index, in its own memory context below parent.  Bit i of
 * included requests INCLUDE column i.
 */
GjEntrySet *
GjEntrySetCreate(MemoryContext parent, Size memory_limit, const GjEntryWidths *widths, bool keys,
				 uint32 included)
{
	MemoryContext context = AllocSetContextCreate(parent, "gpujoin entry set",
												  ALLOCSET_DEFAULT_SIZES);
	GjEntrySet *set = MemoryContextAllocZero(context, sizeof(GjEntrySet));

	set->context = context;
	set->memory_limit = memory_limit;
	set->entry_bytes = sizeof(uint64);
	set->nincluded = widths->nincluded;
	if (keys)
		want_column(set, &set->keys, widths->key, false);
	for (int i = 0; i < widths->nincluded; i++)
	{
		if (included & ((uint32) 1 << i))
			want_column(set, &set->included[i], widths->included[i], true);
	}
	return set;
}

/*
 * Create a set for pieces of a result, with the same columns as another set
 */
GjEntrySet *
GjEntrySetCreatePiecewise(MemoryContext parent, Size memory_limit, const GjEntrySet *whole)
{
	MemoryContext context = AllocSetContextCreate(parent, "gpujoin entry pieces",
												  ALLOCSET_DEFAULT_SIZES);
	GjEntrySet *set = MemoryContextAllocZero(context, sizeof(GjEntrySet));

	set->context = context;
	set->memory_limit = memory_limit;
	set->entry_bytes = whole->entry_bytes;
	set->keys.width = whole->keys.width;
	set->nincluded = whole->nincluded;
	for (int i = 0; i < whole->nincluded; i++)
		set->included[i].width = whole->included[i].width;
	set->piecewise = true;
	return set;
}

/*
 * Turn a set into one for pieces.  Returns false if it has stored entries, or the keys of a test.
 */
bool
GjEntrySetTurnPiecewise(GjEntrySet *set, Size memory_limit)
{
	if (set->tids != NULL || set->plain != NULL || set->proofs != NULL || set->copies != NULL)
		return false;
	set->highest = 0;
	set->gave_up = false;
	set->ndropped = 0;
	set->nbulk = 0;
	set->memory_limit = memory_limit;
	set->piecewise = true;
	memset(&set->test, 0, sizeof(*set) - offsetof(GjEntrySet, test));
	return true;
}

/*
 * Create a set that stores entries for delivery in pieces later, with the same columns as piece,
 * and always with the keys.  It never gives up.
 */
GjEntrySet *
GjEntrySetCreateKeyed(MemoryContext parent, Size memory_limit, const GjEntrySet *piece,
					  uint16 key_width)
{
	GjEntrySet *set = GjEntrySetCreatePiecewise(parent, memory_limit, piece);

	if (set->keys.width == 0)
		want_column(set, &set->keys, key_width, false);
	return set;
}

static void
want_column(GjEntrySet *set, GjEntryColumn *column, uint16 width, bool nullable)
{
	column->width = width;
	set->entry_bytes += width + (nullable ? 1 : 0);
}

/*
 * Keep only TIDs from now on, in any number, because entries added later may be outdated
 */
void
GjEntrySetKeepTids(GjEntrySet *set)
{
	Assert(set->nentries == 0 && set->plain == NULL);
	free_arrays(set);
	set->plain = GjTidSetCreate(set->context, set->memory_limit);
}

/*
 * Reserve room for n entries, or for none if they do not fit in memory.  If the entries are
 * tested, the number that will be kept is estimated only when the first ones arrive.
 */
void
GjEntrySetExpect(GjEntrySet *set, uint64 n)
{
	set->expected = n;
	if (set->test != NULL)
		return;
	if (n > GjEntrySetCapacity(set))
		entries_give_up(set);
	else if (n > set->capacity)
	{
		resize_arrays(set, Min(n + SPARE_ENTRIES(n), GjEntrySetCapacity(set)));
		GjRegionTouch(&set->region);
	}
}

/*
 * Add n entries from arrays that other processes may be writing to; they are validated after
 * they have been copied.  Returns false if a TID cannot belong to a heap tuple; the set must not
 * be used then.
 */
bool
GjEntrySetAddArrays(GjEntrySet *set, const GjEntryArrays *arrays, uint64 n)
{
	uint64		at = set->nentries;
	uint64		highest = 0;

	if (n == 0)
		return true;
	if (set->test != NULL)
		return entry_set_add_passing(set, arrays, n);
	if (!GjEntrySetReserve(set, n))
		return true;

	if (!copy_tids(set->tids + at, arrays->tids, n, &highest))
		return false;
	if (set->keys.width != 0)
		memcpy(set->keys.values + at * set->keys.width, arrays->keys, n * set->keys.width);
	for (int i = 0; i < set->nincluded; i++)
	{
		GjEntryColumn *column = &set->included[i];

		if (column->width == 0)
			continue;
		memcpy(column->values + at * column->width, arrays->values[i], n * column->width);
		/* usually none is NULL */
		if (column->has_nulls || any_byte_set(arrays->nulls[i], n))
			memcpy(GjEntrySetNulls(set, column, at) + at, arrays->nulls[i], n);
	}
	GjEntrySetTook(set, n, highest);
	return true;
}

static bool
copy_tids(uint64 *to, const uint64 *from, uint64 n, uint64 *highest)
{
	bool		possible = true;

	for (uint64 done = 0; done < n && possible; done += COPY_TIDS)
	{
		uint64		piece = Min(n - done, COPY_TIDS);

		memcpy(to + done, from + done, piece * sizeof(uint64));
		possible = GjCheckPackedTids(to + done, piece, highest);
	}
	return possible;
}

/*
 * Return true if any byte is nonzero.  All are zero if the first one is and each equals the
 * next.
 */
static bool
any_byte_set(const uint8 *bytes, uint64 n)
{
	return bytes[0] != 0 || memcmp(bytes, bytes + 1, n - 1) != 0;
}

/*
 * Add n entries of another set, starting at first.  That set must have all columns of this one.
 */
void
GjEntrySetAddRange(GjEntrySet *set, const GjEntrySet *from, uint64 first, uint64 n)
{
	uint64		at = set->nentries;

	if (!GjEntrySetReserve(set, n))
		return;
	memcpy(set->tids + at, from->tids + first, n * sizeof(uint64));
	if (set->keys.width != 0)
		memcpy(set->keys.values + at * set->keys.width,
			   from->keys.values + first * set->keys.width, n * set->keys.width);
	for (int i = 0; i < set->nincluded; i++)
	{
		GjEntryColumn *to = &set->included[i];
		const GjEntryColumn *column = &from->included[i];

		if (to->width == 0)
			continue;
		memcpy(to->values + at * to->width, column->values + first * to->width, n * to->width);
		if (column->has_nulls)
			memcpy(GjEntrySetNulls(set, to, at) + at, column->nulls + first, n);
		else if (to->has_nulls)
			memset(to->nulls + at, 0, n);
	}
	GjEntrySetTook(set, n, from->highest);
}

/*
 * Remove all entries, but keep the arrays
 */
void
GjEntrySetClear(GjEntrySet *set)
{
	set->keys.has_nulls = false;
	for (int i = 0; i < set->nincluded; i++)
		set->included[i].has_nulls = false;
	set->nentries = 0;
	set->highest = 0;
	set->nbulk = 0;
	set->ntested = 0;
	set->ndropped = 0;
	set->limited = false;
	set->nbehind = 0;
	set->gave_up = false;
	if (set->plain != NULL)
		GjTidSetFree(set->plain);
	set->plain = NULL;
}

void
GjEntrySetFree(GjEntrySet *set)
{
	MemoryContextDelete(set->context);
}

/*
 * Keep one entry for each TID.  No entry may be added later.
 *
 * It does not matter which of two entries with the same TID is kept: lemma L7 of src/README.  If
 * both are of one row, they are the same entry, found on its tail page and again where it was moved
 * to, or by both the device and the CPU.  It does no harm either if two entries of different rows
 * stay in a set; so a bulk must only not contain the same entry twice.
 */
void
GjEntrySetFinish(GjEntrySet *set)
{
	if (set->plain != NULL)
		GjTidSetFinish(set->plain);
	else if (!entry_set_make_distinct(set))
		entries_give_up(set);
}

/*
 * Count the distinct TIDs of a finished set; a lossy block counts as one.
 */
uint64
GjEntrySetCount(const GjEntrySet *set)
{
	return set->plain == NULL ? set->nentries : GjTidSetCount(set->plain);
}

/*
 * Move the TID set, the only contents of the set, into another memory context
 */
GjTidSet *
GjEntrySetTakePlain(GjEntrySet *set, MemoryContext parent)
{
	GjTidSet   *plain = set->plain;

	MemoryContextSetParent(GetMemoryChunkContext(plain), parent);
	set->plain = NULL;
	return plain;
}

/*
 * Prefetch all columns of some entries at once: a consumer that reads row by row would wait for
 * each array in turn
 */
void
GjEntrySetPrefetch(const GjEntrySet *set, uint64 first, uint64 n)
{
	prefetch_column(&set->keys, first, n);
	for (int i = 0; i < set->nincluded; i++)
		prefetch_column(&set->included[i], first, n);
}

static pg_attribute_always_inline void
prefetch_column(const GjEntryColumn *column, uint64 first, uint64 n)
{
	GjPrefetchRange(column->values + first * column->width, n * column->width);
}

/* Memory ------------------------------------------------------------------------ */

/* Make room for n more entries in the arrays; returns false if the set has given up */
bool
GjEntrySetReserve(GjEntrySet *set, uint64 n)
{
	uint64		needed = set->nentries + n;

	if (set->gave_up)
		return false;
	if (needed <= set->capacity)
		return true;
	if (!set->piecewise && needed > GjEntrySetCapacity(set))
	{
		entries_give_up(set);
		return false;
	}
	if (needed > set->capacity)
		resize_arrays(set, Max(Max(needed, MIN_CAPACITY),
							   Min(set->capacity * 2, set->memory_limit / set->entry_bytes)));
	return true;
}

/*
 * Enlarge the arrays to the given capacity, which must be more than they have
 *
 * After the region has grown, the arrays are moved to their new places starting with the last
 * one.  Each one's new place begins where the old one did or at a higher address, so none is
 * overwritten.
 */
static void
resize_arrays(GjEntrySet *set, uint64 capacity)
{
	Array		arrays[MAX_ARRAYS];
	Size		from[MAX_ARRAYS];
	Size		to[MAX_ARRAYS];
	int			n = list_arrays(set, arrays);
	Size		size = 0;

	for (int i = 0; i < n; i++)
	{
		from[i] = *arrays[i].values - set->region.start;
		to[i] = size;
		size += MAXALIGN(capacity * arrays[i].width);
	}
	if (set->region.start == NULL)
		GjRegionAllocate(&set->region, set->context, size);
	else
		GjRegionResize(&set->region, size);

	for (int i = n - 1; i >= 0; i--)
	{
		*arrays[i].values = set->region.start + to[i];
		memmove(*arrays[i].values, set->region.start + from[i], set->nentries * arrays[i].width);
	}
	resize_nulls(set, capacity);
	set->capacity = capacity;
}

/*
 * List the arrays of the region, in the order in which they lie there
 */
static int
list_arrays(GjEntrySet *set, Array *arrays)
{
	int			n = 0;

	arrays[n++] = (Array) {(char **) &set->tids, sizeof(uint64)};
	if (set->keys.width != 0)
		arrays[n++] = (Array) {&set->keys.values, set->keys.width};
	for (int i = 0; i < set->nincluded; i++)
	{
		if (set->included[i].width != 0)
			arrays[n++] = (Array) {&set->included[i].values, set->included[i].width};
	}
	return n;
}

static void
resize_nulls(GjEntrySet *set, uint64 capacity)
{
	if (set->keys.nulls != NULL)
		set->keys.nulls = repalloc_huge(set->keys.nulls, capacity);
	for (int i = 0; i < set->nincluded; i++)
	{
		if (set->included[i].nulls != NULL)
			set->included[i].nulls = repalloc_huge(set->included[i].nulls, capacity);
	}
}

/*
 * Make sure that a column has NULL flags.  If it had none, its first n entries are not NULL.
 * Returns column->nulls.
 */
uint8 *
GjEntrySetNulls(GjEntrySet *set, GjEntryColumn *column, uint64 n)
{
	if (!column->has_nulls)
	{
		if (column->nulls == NULL)
			column->nulls = MemoryContextAllocHuge(set->context, set->capacity);
		memset(column->nulls, 0, n);
		column->has_nulls = true;
	}
	return column->nulls;
}

static void
entries_give_up(GjEntrySet *set)
{
	if (set->piecewise)
		elog(ERROR, "a piece of a match has too many entries");
	set->gave_up = true;
	free_arrays(set);
}

static void
free_arrays(GjEntrySet *set)
{
	Array		arrays[MAX_ARRAYS];
	int			n = list_arrays(set, arrays);

	for (int i = 0; i < n; i++)
		*arrays[i].values = NULL;
	GjRegionFree(&set->region);
	for (int i = 0; i < set->nincluded; i++)
	{
		if (set->included[i].nulls != NULL)
			pfree(set->included[i].nulls);
		set->included[i].nulls = NULL;
		set->included[i].has_nulls = false;
	}
	set->nentries = 0;
	set->nbulk = 0;
	set->capacity = 0;
}

/*-------------------------------------------------------------------------
 * Tests of entries
 *
 * Test entries as a device delivers them, and keep those that pass.
 *
 * If one entry in a hundred passes, storing all of them costs more than the test: their memory
 * would be touched for the first time, written and read again.  The columns that the test reads
 * are copied to a buffer that stays in the L1 cache, because other processes may be writing to the
 * arrays; the other columns are read only for entries that pass.
 *
 * If the device can evaluate a part of the test itself, entries that fail that part are not even
 * sent (GjEntrySetFilter).  The receiver adds their number to the number of entries dropped here.
 *
 * The test is only a hint.  Entries that do not come as arrays are not tested, and testing stops
 * if most entries pass, because copying whole arrays is quicker then.  So the caller must test the
 * entries that are kept once more.
 *-------------------------------------------------------------------------
 */

/*
 * Test n entries of a set, starting with "first"; at most GJ_BATCH_ROWS.  Stores the positions,
 * relative to "first", of those that pass, and returns their number.
 */
int
GjEntryTestRun(const GjEntryTest *test, const GjEntrySet *set, uint64 first, int n, uint16 *rows)
{
	GjBatchColumn columns[1 + GJ_MAX_INCLUDED];

	for (int i = 0; i <= set->nincluded; i++)
	{
		const GjEntryColumn *column = i == 0 ? &set->keys : &set->included[i - 1];

		columns[i].width = column->width;
		columns[i].values = column->values + first * column->width;
		columns[i].nulls = column->has_nulls ? column->nulls + first : NULL;
	}
	return test->run(test->arg, columns, n, rows);
}

/*
 * Test entries that arrive as arrays, using the given columns: bit 0 is the key, bit i + 1 is
 * INCLUDE column i.  The set must have these columns.
 */
void
GjEntrySetTest(GjEntrySet *set, GjEntryTester test, void *arg, uint64 columns)
{
	set->test = test;
	set->test_arg = arg;
	set->tested_columns = columns;
	if (set->copies == NULL)
		set->copies = MemoryContextAlloc(set->context,
										 (1 + set->nincluded) * sizeof(struct GjEntryCopy));
}

/*
 * Add those of n entries from arrays that pass.  Returns false if a TID cannot belong to a heap
 * tuple; the set must not be used then.
 */
static bool
entry_set_add_passing(GjEntrySet *set, const GjEntryArrays *arrays, uint64 n)
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
	if (any_byte_set(copy->nulls, n))
		out->nulls = copy->nulls;
}

/*
 * Add the listed ones of the entries that start at first
 */
static bool
take(GjEntrySet *set, const GjEntryArrays *arrays, uint64 first, const uint16 *rows, int n)
{
	uint64		at = set->nentries;
	uint64		highest = 0;

	if (!entries_make_room(set, n))
		return true;

	GjGather(set->tids + at, arrays->tids + first, sizeof(uint64), rows, n);
	if (!GjCheckPackedTids(set->tids + at, n, &highest))
		return false;
	if (set->keys.width != 0)
		GjGather(set->keys.values + at * set->keys.width,
				 arrays->keys + first * set->keys.width, set->keys.width, rows, n);
	for (int i = 0; i < set->nincluded; i++)
	{
		GjEntryColumn *column = &set->included[i];

		if (column->width == 0)
			continue;
		GjGather(column->values + at * column->width,
				 arrays->values[i] + first * column->width, column->width, rows, n);
		entries_take_nulls(set, column, arrays->nulls[i] + first, rows, n);
	}
	GjEntrySetTook(set, n, highest);
	return true;
}

/*
 * Make room for n more entries.  If there is too little, make room for all entries still
 * expected, assuming that the same share will pass as so far.  Returns false if the set has
 * given up.
 */
static bool
entries_make_room(GjEntrySet *set, int n)
{
	uint64		capacity = GjEntrySetCapacity(set);
	uint64		needed = set->nentries + n;
	double		passed = (double) (set->ntested - set->ndropped) / set->ntested;
	double		all = passed * set->expected * (1.0 + 1.0 / SPARE_SHARE);

	if (needed > set->capacity && needed < capacity && all > needed)
		needed = (uint64) Min(all, capacity);
	return GjEntrySetReserve(set, needed - set->nentries);
}

/*
 * Set the NULL flags of the entries that were taken.  Usually none is NULL.
 */
static void
entries_take_nulls(GjEntrySet *set, GjEntryColumn *column, const uint8 *nulls,
				   const uint16 *rows, int n)
{
	uint8		taken[GJ_BATCH_ROWS];

	for (int i = 0; i < n; i++)
		taken[i] = nulls[rows[i]];
	if (column->has_nulls || any_byte_set(taken, n))
		memcpy(GjEntrySetNulls(set, column, set->nentries) + set->nentries, taken, n);
}

/*-------------------------------------------------------------------------
 * Duplicates
 *
 * Entries come in any order; keep one entry for each TID.
 *
 * Nothing is sorted in the usual case.  Nearly all entries of a set come from one source that has
 * no duplicates, the bulk, and a few come from elsewhere.  These few are looked up among the others
 * (GjFewTids, below), and removed if found there.  The bulk stays in place.
 *
 * If they are not few, or there is no bulk, the TIDs alone are sorted, to see which are there
 * twice: again these are few, if there are any at all.
 *-------------------------------------------------------------------------
 */

/*
 * Keep one entry for each TID.  Returns false, with the set unchanged, if memory does not
 * suffice.
 */
static bool
entry_set_make_distinct(GjEntrySet *set)
{
	uint64		nothers = set->nentries - set->nbulk;

	if (nothers == 0)
		return true;
	if (nothers <= Max(set->nbulk / FEW_SHARE, FEW_ENTRIES))
		drop_others(set);
	else if (!set->piecewise &&
			 set->nentries * (set->entry_bytes + SORT_BYTES) > set->memory_limit)
		return false;
	else
		drop_doubles(set);
	set->nbulk = set->nentries;
	return true;
}

/*
 * Remove each entry after the bulk whose TID occurs in the bulk or in an earlier entry
 */
static void
drop_others(GjEntrySet *set)
{
	uint64		nothers = set->nentries - set->nbulk;
	const uint64 *others = set->tids + set->nbulk;
	GjFewTids  *few = GjFewTidsCreate(set->context, others, nothers);
	bool	   *met = alloc_huge(set, bool, nothers);
	uint64	   *places = alloc_huge(set, uint64, nothers);
	uint64		ndropped = 0;
	uint64		which;

	memset(met, 0, nothers);
	for (uint64 at = 0; few_tids_next(few, set->tids, set->nbulk, &at, &which); at++)
		met[which] = true;
	for (uint64 i = 0; i < nothers; i++)
	{
		uint64		first = GjFewTidsFind(few, others[i]);

		places[ndropped] = set->nbulk + i;
		ndropped += met[first] || first != i;
	}
	GjEntrySetDropPlaces(set, places, ndropped);
	pfree(places);
	pfree(met);
	GjFewTidsFree(few);
}

/*
 * Remove each entry whose TID occurs in an earlier entry
 */
static void
drop_doubles(GjEntrySet *set)
{
	uint64		ndoubles;
	uint64		nsurplus;
	uint64	   *doubles = list_doubles(set, &ndoubles, &nsurplus);
	GjFewTids  *few;
	bool	   *met;
	uint64	   *places;
	uint64		ndropped = 0;
	uint64		which;

	if (ndoubles > 0)
	{
		few = GjFewTidsCreate(set->context, doubles, ndoubles);
		met = alloc_huge(set, bool, ndoubles);
		memset(met, 0, ndoubles);
		places = alloc_huge(set, uint64, nsurplus);
		for (uint64 at = 0; few_tids_next(few, set->tids, set->nentries, &at, &which); at++)
		{
			if (met[which])
				places[ndropped++] = at;
			met[which] = true;
		}
		Assert(ndropped == nsurplus);
		GjEntrySetDropPlaces(set, places, ndropped);
		pfree(places);
		pfree(met);
		GjFewTidsFree(few);
	}
	pfree(doubles);
}

/*
 * List the TIDs that occur more than once, each of them once, and count the surplus entries
 */
static uint64 *
list_doubles(const GjEntrySet *set, uint64 *ndoubles, uint64 *nsurplus)
{
	uint64		n = set->nentries;
	uint64	   *tids = alloc_huge(set, uint64, n);
	uint64	   *scratch = alloc_huge(set, uint64, n);
	uint64	   *sorted;
	uint64		kept = 0;

	memcpy(tids, set->tids, n * sizeof(uint64));
	sorted = radix_sort(tids, scratch, n);
	pfree(sorted == tids ? scratch : tids);

	*nsurplus = 0;
	for (uint64 i = 1; i < n; i++)
	{
		uint64		tid = sorted[i];

		if (tid != sorted[i - 1])
			continue;
		(*nsurplus)++;
		if (kept == 0 || sorted[kept - 1] != tid)
			sorted[kept++] = tid;
	}
	*ndoubles = kept;
	return sorted;
}

/*
 * Remove the entries at these positions, which must be in ascending order
 */
void
GjEntrySetDropPlaces(GjEntrySet *set, const uint64 *places, uint64 n)
{
	if (n == 0)
		return;
	drop_from_array(set->tids, sizeof(uint64), places, n, set->nentries);
	drop_from_column(&set->keys, places, n, set->nentries);
	for (int i = 0; i < set->nincluded; i++)
		drop_from_column(&set->included[i], places, n, set->nentries);
	set->nentries -= n;
}

static void
drop_from_column(GjEntryColumn *column, const uint64 *places, uint64 n, uint64 nentries)
{
	if (column->width == 0)
		return;
	drop_from_array(column->values, column->width, places, n, nentries);
	if (column->has_nulls)
		drop_from_array(column->nulls, 1, places, n, nentries);
}

/*
 * Close the gaps by moving the elements that lie between them, and after the last one
 */
static void
drop_from_array(void *array, int width, const uint64 *places, uint64 n, uint64 nentries)
{
	char	   *to = (char *) array + places[0] * width;

	CHECK_FOR_INTERRUPTS();
	for (uint64 i = 0; i < n; i++)
	{
		uint64		first = places[i] + 1;
		uint64		end = i + 1 < n ? places[i + 1] : nentries;
		Size		bytes = (end - first) * width;

		memmove(to, (char *) array + first * width, bytes);
		to += bytes;
	}
}

/*-------------------------------------------------------------------------
 * A few TIDs
 *
 * Look for a few TIDs among many that are in no order.
 *
 * Each of the many is compared with the range of the few, which is narrow where they are of the
 * newest rows; then with a filter that has sixteen bits or more for each of the few, so that
 * hardly any of the others reaches the hash table.  A million take 1 to 2 ms.
 *-------------------------------------------------------------------------
 */

static inline uint64
hash_tid(uint64 tid)
{
	return tid * UINT64CONST(0x9E3779B97F4A7C15);
}

GjFewTids *
GjFewTidsCreate(MemoryContext context, const uint64 *tids, uint64 n)
{
	GjFewTids  *few = MemoryContextAllocZero(context, sizeof(GjFewTids));
	uint64		greatest = 0;
	int			bits;

	Assert(n < PG_UINT32_MAX);
	bits = pg_ceil_log2_64(Max(n, 1) * FILTER_BITS_PER_TID);
	bits = Max(bits, MIN_FILTER_BITS);
	few->tids = MemoryContextAllocHuge(context, Max(n, 1) * sizeof(uint64));
	memcpy(few->tids, tids, n * sizeof(uint64));
	few->filter_shift = 64 - bits;
	few->slot_shift = few->filter_shift + SLOT_SHARE_BITS;
	few->slot_mask = (UINT64CONST(1) << (bits - SLOT_SHARE_BITS)) - 1;
	few->filter = MemoryContextAllocExtended(context, (Size) 1 << (bits - 3),
											 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	few->slots = MemoryContextAllocExtended(context, (few->slot_mask + 1) * sizeof(uint32),
											MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	few->least = PG_UINT64_MAX;
	for (uint64 i = 0; i < n; i++)
	{
		few->least = Min(few->least, tids[i]);
		greatest = Max(greatest, tids[i]);
		entries_add(few, i);
	}
	few->span = greatest - few->least;
	return few;
}

static void
entries_add(GjFewTids *few, uint64 which)
{
	uint64		hash = hash_tid(few->tids[which]);
	uint64		slot = hash >> few->slot_shift;
	uint64		bit = hash >> few->filter_shift;

	few->filter[bit / 64] |= UINT64CONST(1) << bit % 64;
	for (; few->slots[slot] != 0; slot = (slot + 1) & few->slot_mask)
	{
		if (few->tids[few->slots[slot] - 1] == few->tids[which])
			return;
	}
	few->slots[slot] = (uint32) which + 1;
}

int64
GjFewTidsFind(const GjFewTids *few, uint64 tid)
{
	uint64		slot = hash_tid(tid) >> few->slot_shift;

	for (; few->slots[slot] != 0; slot = (slot + 1) & few->slot_mask)
	{
		if (few->tids[few->slots[slot] - 1] == tid)
			return (int64) few->slots[slot] - 1;
	}
	return -1;
}

/*
 * Return false if the TID is certainly not one of the few
 */
static inline bool
passes(const GjFewTids *few, uint64 tid)
{
	uint64		bit = hash_tid(tid) >> few->filter_shift;

	return tid - few->least <= few->span && (few->filter[bit / 64] >> bit % 64 & 1) != 0;
}

static bool
few_tids_next(const GjFewTids *few, const uint64 *tids, uint64 n, uint64 *at, uint64 *which)
{
	for (uint64 i = *at; i < n;)
	{
		uint64		end = Min(i + STEP_TIDS, n);

		CHECK_FOR_INTERRUPTS();
		for (; i < end; i++)
		{
			int64		found = passes(few, tids[i]) ? GjFewTidsFind(few, tids[i]) : -1;

			if (found < 0)
				continue;
			*at = i;
			*which = (uint64) found;
			return true;
		}
	}
	return false;
}

void
GjFewTidsFree(GjFewTids *few)
{
	pfree(few->tids);
	pfree(few->filter);
	pfree(few->slots);
	pfree(few);
}

/*-------------------------------------------------------------------------
 * Temporary files
 *
 * Entries that do not fit in memory are written to a temporary file.
 *
 * A set is written array by array and read back in the same way, so the file has the layout of
 * the memory.  The file belongs to the resource owner that is current when it is created, the
 * executor's, so it is removed with the query if an error occurs.  It counts towards
 * temp_file_limit, is placed in temp_tablespaces, and EXPLAIN (BUFFERS) shows its blocks.
 *-------------------------------------------------------------------------
 */

/*
 * Create a temporary file.  The context must live until GjEntrySpillEnd() or an error.
 */
GjEntrySpill *
GjEntrySpillBegin(MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	GjEntrySpill *spill = palloc0(sizeof(GjEntrySpill));

	spill->file = BufFileCreateTemp(false);
	MemoryContextSwitchTo(old);
	return spill;
}

/*
 * Append a set's entries to the file, and clear the set
 */
void
GjEntrySpillWrite(GjEntrySpill *spill, GjEntrySet *set)
{
	SpillHeader header = {set->nentries, set->highest, 0};

	Assert(!spill->reading);
	for (int i = 0; i < set->nincluded; i++)
	{
		if (set->included[i].has_nulls)
			header.has_nulls |= (uint32) 1 << i;
	}
	write_array(spill, &header, sizeof(header));
	write_array(spill, set->tids, set->nentries * sizeof(uint64));
	write_array(spill, set->keys.values, set->nentries * set->keys.width);
	for (int i = 0; i < set->nincluded; i++)
	{
		GjEntryColumn *column = &set->included[i];

		write_array(spill, column->values, set->nentries * column->width);
		if (column->has_nulls)
			write_array(spill, column->nulls, set->nentries);
	}
	spill->nsets++;
	GjEntrySetClear(set);
}

/*
 * Replace the contents of this set by those of the next set in the file; returns false if no
 * sets are left
 */
bool
GjEntrySpillRead(GjEntrySpill *spill, GjEntrySet *set)
{
	SpillHeader header;

	GjEntrySetClear(set);
	if (spill->nsets == 0)
		return false;
	if (!spill->reading && BufFileSeek(spill->file, 0, 0, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind a temporary file of index entries")));
	spill->reading = true;
	spill->nsets--;

	entries_read_array(spill, &header, sizeof(header));
	(void) GjEntrySetReserve(set, header.nentries);
	entries_read_array(spill, set->tids, header.nentries * sizeof(uint64));
	entries_read_array(spill, set->keys.values, header.nentries * set->keys.width);
	for (int i = 0; i < set->nincluded; i++)
	{
		GjEntryColumn *column = &set->included[i];

		entries_read_array(spill, column->values, header.nentries * column->width);
		if ((header.has_nulls >> i & 1) != 0)
			entries_read_array(spill, GjEntrySetNulls(set, column, 0), header.nentries);
	}
	GjEntrySetTook(set, header.nentries, header.highest);
	return true;
}

/*
 * Remove the file
 */
void
GjEntrySpillEnd(GjEntrySpill *spill)
{
	BufFileClose(spill->file);
	pfree(spill);
}

static void
write_array(GjEntrySpill *spill, void *array, Size size)
{
	CHECK_FOR_INTERRUPTS();
	if (size > 0)
		BufFileWrite(spill->file, array, size);
}

static void
entries_read_array(GjEntrySpill *spill, void *array, Size size)
{
	CHECK_FOR_INTERRUPTS();
	if (size > 0 && BufFileRead(spill->file, array, size) != size)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read a temporary file of index entries")));
}
