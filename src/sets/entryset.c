/*-------------------------------------------------------------------------
 *
 * entryset.c
 *	  Collecting matching entries as columns.
 *
 * Columns, since that is how pages and devices have them and how they are used: the
 * visibility map is asked with TIDs alone, and an output column is filled from one
 * array.  They stay in the order in which they come; entrydistinct.c takes out what is there
 * twice.  All lie in one region: base/region.c says why.  But what says which values of a column
 * are NULL is made when the first NULL comes.
 *
 * The memory limit covers the arrays, and what a sort takes if there is one.  A set that
 * would exceed it gives up: whoever asked divides the question (match/pieces.c).  If what
 * comes is outdated, the TIDs alone are kept, in a TID set, which may become lossy.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "base/prefetch.h"
#include "entryset.h"

#define MIN_CAPACITY			((uint64) 1024)

/* Beside the entries that are expected, room for so many more: what else is found */
#define SPARE_ENTRIES(n)		((n) / 64 + MIN_CAPACITY)

/* So many TIDs are copied and looked at, at a time: they are in the nearest cache then */
#define COPY_TIDS				2048

/* An array of a set's region */
typedef struct Array
{
	char	  **values;
	Size		width;			/* of an element */
} Array;

/* TIDs, keys, INCLUDE columns */
#define MAX_ARRAYS				(2 + GJ_MAX_INCLUDED)

static void want_column(GjEntrySet *set, GjEntryColumn *column, uint16 width, bool nullable);
static void prefetch_column(const GjEntryColumn *column, uint64 first, uint64 n);
static void resize_arrays(GjEntrySet *set, uint64 capacity);
static int	list_arrays(GjEntrySet *set, Array *arrays);
static void resize_nulls(GjEntrySet *set, uint64 capacity);
static void give_up(GjEntrySet *set);
static void free_arrays(GjEntrySet *set);
static bool copy_tids(uint64 *to, const uint64 *from, uint64 n, uint64 *highest);
static void add_nulls(GjEntrySet *set, GjEntryColumn *column, const uint8 *nulls, uint64 n);

/*
 * Create an empty set in a memory context of its own below parent, for entries of an
 * index.  Bit i of included: that INCLUDE column is wanted.
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
 * Create a set for pieces of a result, with the same columns as another one
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
 * Create a set for entries that are delivered in pieces later, with the same columns, and with
 * the keys in any case.  It does not give up.
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
 * Tell whether anything is wanted beside TIDs
 */
bool
GjEntrySetHasColumns(const GjEntrySet *set)
{
	return set->entry_bytes > sizeof(uint64);
}

/*
 * Keep TIDs alone from now on, however many, since what will be added may be outdated
 */
void
GjEntrySetKeepTids(GjEntrySet *set)
{
	Assert(set->nentries == 0 && set->plain == NULL);
	free_arrays(set);
	set->plain = GjTidSetCreate(set->context, set->memory_limit);
}

/*
 * Return how many entries fit in memory
 */
uint64
GjEntrySetCapacity(const GjEntrySet *set)
{
	return Min(set->memory_limit / set->entry_bytes, PG_UINT32_MAX);
}

/*
 * Prepare for so many entries, or for none if they will not fit in memory.  If they are tested
 * first, how many will be kept is seen when the first ones come.
 */
void
GjEntrySetExpect(GjEntrySet *set, uint64 n)
{
	set->expected = n;
	if (set->test != NULL)
		return;
	if (n > GjEntrySetCapacity(set))
		give_up(set);
	else if (n > set->capacity)
	{
		resize_arrays(set, Min(n + SPARE_ENTRIES(n), GjEntrySetCapacity(set)));
		GjRegionTouch(&set->region);
	}
}

/*
 * Add n entries from arrays, to which others may be writing: they are looked at when they
 * are here.  False, and the set is of no use any more, if a TID cannot be a heap tuple's.
 */
bool
GjEntrySetAddArrays(GjEntrySet *set, const GjEntryArrays *arrays, uint64 n)
{
	uint64		at = set->nentries;
	uint64		highest = 0;

	if (n == 0)
		return true;
	if (set->test != NULL)
		return GjEntrySetAddPassing(set, arrays, n);
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
		add_nulls(set, column, arrays->nulls[i], n);
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
 * The arrays have got n entries more, none of whose TIDs is above highest
 */
void
GjEntrySetTook(GjEntrySet *set, uint64 n, uint64 highest)
{
	set->nentries += n;
	set->highest = Max(set->highest, highest);
}

/*
 * Say which of n entries behind the set's are NULL.  Most often none is.
 */
static void
add_nulls(GjEntrySet *set, GjEntryColumn *column, const uint8 *nulls, uint64 n)
{
	if (column->has_nulls || GjAnyByteSet(nulls, n))
		memcpy(GjEntrySetNulls(set, column, set->nentries) + set->nentries, nulls, n);
}

/*
 * Is any byte not zero?  They are if the first one is, and each equals its neighbour.
 */
bool
GjAnyByteSet(const uint8 *bytes, uint64 n)
{
	return bytes[0] != 0 || memcmp(bytes, bytes + 1, n - 1) != 0;
}

/*
 * Add n entries of another set, which has all columns that this one has, from its first one on
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
 * Forget what was added, but keep the arrays
 */
void
GjEntrySetClear(GjEntrySet *set)
{
	for (int i = 0; i < set->nincluded; i++)
		set->included[i].has_nulls = false;
	set->nentries = 0;
	set->highest = 0;
	set->nbulk = 0;
	set->ntested = 0;
	set->ndropped = 0;
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
 * Say that the entries which have been added so far are distinct
 */
void
GjEntrySetEndBulk(GjEntrySet *set)
{
	set->nbulk = set->nentries;
}

/*
 * Have each TID once.  No entry may be added later.
 *
 * Which of two entries with one TID stays does not matter.  If both are certain, they
 * are one entry, found on its tail and again where it has moved to, or by a device and on the
 * CPU.  For a TID belongs to another row only after a bulk deletion, and then none of the set's
 * entries is used as a row (exec/entryvisible.c); and to be dropped by a filter is allowed to
 * both (exec/filteredmatch.c).  For the same reason it does no harm if such two stay in a set;
 * so a bulk need only have no entry twice.
 */
void
GjEntrySetFinish(GjEntrySet *set)
{
	if (set->plain != NULL)
		GjTidSetFinish(set->plain);
	else if (!GjEntrySetMakeDistinct(set))
		give_up(set);
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
 * Count those that did not pass the test, too
 */
uint64
GjEntrySetFound(const GjEntrySet *set)
{
	return GjEntrySetCount(set) + set->ndropped;
}

/*
 * The TID set that the set has instead of entries; NULL if it has these
 */
GjTidSet *
GjEntrySetPlain(GjEntrySet *set)
{
	return set->plain;
}

/*
 * Take it out of the set, of which nothing is left then, into another memory context
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
 * Have what some entries hold on its way from memory, all of it at once: a reader goes from row
 * to row, and would wait for each array in turn.
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

/* Make room for n more entries in the arrays; false: they have given up */
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
		give_up(set);
		return false;
	}
	if (needed > set->capacity)
		resize_arrays(set, Max(Max(needed, MIN_CAPACITY),
							   Min(set->capacity * 2, set->memory_limit / set->entry_bytes)));
	return true;
}

/*
 * Give the arrays room for so many entries, more than they have
 *
 * Those of a region that has grown move to their new places from the last one on: each is
 * going to begin where it did or further up, so that none is overwritten.
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
 * List the arrays of the region, in the order in which they are there
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
	for (int i = 0; i < set->nincluded; i++)
	{
		if (set->included[i].nulls != NULL)
			set->included[i].nulls = repalloc_huge(set->included[i].nulls, capacity);
	}
}

/*
 * Make sure that a column can have NULLs, of whose first n entries none is one if it could
 * not; returns column->nulls
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
give_up(GjEntrySet *set)
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
