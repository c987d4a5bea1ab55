/*-------------------------------------------------------------------------
 *
 * top.c
 *	  Selecting the first entries in an order, over arrays.
 *
 * Each sort column of an entry becomes one or two unsigned words whose ascending order is the
 * one that is wanted, DESC and NULLs included; the TID is the last word.  So two entries are
 * compared by comparing words, and entries with equal words are the same entry, met twice.
 *
 *	- A value of up to four bytes takes one word, and NULL is a number below or above all.
 *	- One of eight bytes leaves no such number: NULL is the lowest or the highest one, and a
 *	  second word tells it from that value.
 *
 * Most entries do not come among the first, and the first word says so: it is made for a
 * batch at a time, and compared with that of the bound, the last one of the entries wanted that
 * were there at the last look.  What is not above it is kept.  When there is no more room,
 * what is kept is sorted and cut to what is wanted, and the bound is set anew.
 *
 * Besides the words, what is kept has the columns that its row will have.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/tupmacs.h"
#include "catalog/pg_type_d.h"
#include "utils/memutils.h"

#include "batch.h"
#include "top.h"

/* Room for entries beside those that are wanted: between two sorts, so many come */
#define MIN_ROOM				1024

#define SMALL_MAX				((uint64) PG_UINT32_MAX)

/* Where an entry's words are, with the first of them */
typedef struct Place
{
	uint64		word;
	uint64		slot;
} Place;

struct GjTop
{
	MemoryContext context;		/* of what a start allocates */
	int			ncolumns;
	GjSortColumn *columns;
	int			nwords;			/* of an entry, TID included */

	uint64		wanted;
	uint64		capacity;		/* slots */
	uint64	   *words;			/* nwords for each slot */
	Place	   *kept;			/* what is there */
	uint64		nkept;
	uint64	   *free;			/* slots without an entry */
	uint64		nfree;
	uint64	   *bound;			/* only entries before this are wanted; if there is one */
	bool		has_bound;
	uint64	   *last;			/* and only those after this */
	bool		has_last;
	GjEntrySet	rows;			/* columns that are kept: of these, the arrays by slots */
};

static int	count_words(const GjSortColumn *column);
static Size slot_bytes(const GjTop *top);
static void allocate_column(GjTop *top, GjEntryColumn *column, bool nullable);
static void make_first_words(const GjTop *top, const GjEntrySet *set, uint64 first, int n,
							 uint64 *out);
static void make_words(const GjSortColumn *column, uint16 width, const char *at, bool isnull,
					   uint64 *out);
static void make_row_words(const GjTop *top, const Datum *values, const bool *isnull, uint64 *out);
static void add_entry(GjTop *top, const GjEntrySet *set, uint64 entry);
static bool take_slot(GjTop *top, uint64 slot);
static void keep_columns(GjTop *top, const GjEntrySet *set, uint64 entry, uint64 slot);
static void copy_value(GjEntryColumn *to, uint64 slot, const GjEntryColumn *from, uint64 entry);
static void cut(GjTop *top);

static inline const GjEntryColumn *
set_column(const GjEntrySet *set, int column)
{
	return column == 0 ? &set->keys : &set->included[column - 1];
}

static inline uint64 *
slot_words(const GjTop *top, uint64 slot)
{
	return top->words + slot * top->nwords;
}

static inline int
compare_words(const uint64 *a, const uint64 *b, int nwords)
{
	for (int i = 0; i < nwords; i++)
	{
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	}
	return 0;
}

static inline int
compare_places(const Place *a, const Place *b, const GjTop *top)
{
	if (a->word != b->word)
		return a->word < b->word ? -1 : 1;
	return compare_words(slot_words(top, a->slot) + 1, slot_words(top, b->slot) + 1,
						 top->nwords - 1);
}

#define ST_SORT sort_places
#define ST_ELEMENT_TYPE Place
#define ST_COMPARE(a, b, top) compare_places(a, b, top)
#define ST_COMPARE_ARG_TYPE const GjTop
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DECLARE
#define ST_DEFINE
#include "miscadmin.h"
#include "lib/sort_template.h"

/*
 * Can values of this type be put in the order of its btree operators?  Only PostgreSQL's own
 * types, which have no other default order.
 */
bool
GjTypeSorts(Oid type, GjSortKind *kind)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			*kind = GJ_SORT_SIGNED;
			return true;
		case BOOLOID:
		case OIDOID:
			*kind = GJ_SORT_UNSIGNED;
			return true;
		case FLOAT4OID:
		case FLOAT8OID:
			*kind = GJ_SORT_FLOAT;
			return true;
		default:
			return false;
	}
}

/*
 * Prepare for an order of entries with such columns, of which some are kept: bits as in
 * GjEntryFill.  The array of sort columns must live as long.
 */
GjTop *
GjTopCreate(MemoryContext parent, const GjSortColumn *columns, int ncolumns,
			const GjEntryWidths *widths, uint64 kept)
{
	GjTop	   *top = MemoryContextAllocZero(parent, sizeof(GjTop));

	top->context = AllocSetContextCreate(parent, "gpujoin top", ALLOCSET_DEFAULT_SIZES);
	top->columns = unconstify(GjSortColumn *, columns);
	top->ncolumns = ncolumns;
	top->nwords = 1;
	for (int i = 0; i < ncolumns; i++)
		top->nwords += count_words(&columns[i]);
	top->last = MemoryContextAlloc(parent, top->nwords * sizeof(uint64));
	top->bound = MemoryContextAlloc(parent, top->nwords * sizeof(uint64));

	top->rows.keys.width = kept & 1 ? widths->key : 0;
	top->rows.nincluded = widths->nincluded;
	for (int i = 0; i < widths->nincluded; i++)
		top->rows.included[i].width = kept >> (i + 1) & 1 ? widths->included[i] : 0;
	return top;
}

static int
count_words(const GjSortColumn *column)
{
	return column->width > sizeof(uint32) ? 2 : 1;
}

/*
 * How many entries may be wanted with so much memory?  A few always.
 */
uint64
GjTopMaxWanted(const GjTop *top, Size limit)
{
	uint64		capacity = limit / slot_bytes(top);

	return capacity / 2 > MIN_ROOM ? capacity / 2 : MIN_ROOM;
}

static Size
slot_bytes(const GjTop *top)
{
	Size		bytes = sizeof(Place) + (top->nwords + 1) * sizeof(uint64) + top->rows.keys.width;

	for (int i = 0; i < top->rows.nincluded; i++)
		bytes += top->rows.included[i].width + 1;
	return bytes;
}

/*
 * Begin to select so many; on demand, of those that come after the last one that is there
 */
void
GjTopStart(GjTop *top, uint64 wanted, bool after_last)
{
	Assert(!after_last || top->nkept > 0);
	top->has_last = after_last;
	if (after_last)
		memcpy(top->last, slot_words(top, top->kept[top->nkept - 1].slot),
			   top->nwords * sizeof(uint64));

	GjTopReset(top);
	top->wanted = wanted;
	top->capacity = wanted + Max(wanted, MIN_ROOM);
	top->words = MemoryContextAllocHuge(top->context,
										top->capacity * top->nwords * sizeof(uint64));
	top->kept = MemoryContextAllocHuge(top->context, top->capacity * sizeof(Place));
	top->free = MemoryContextAllocHuge(top->context, top->capacity * sizeof(uint64));
	for (top->nfree = 0; top->nfree < top->capacity; top->nfree++)
		top->free[top->nfree] = top->capacity - 1 - top->nfree;
	allocate_column(top, &top->rows.keys, false);
	for (int i = 0; i < top->rows.nincluded; i++)
		allocate_column(top, &top->rows.included[i], true);
}

static void
allocate_column(GjTop *top, GjEntryColumn *column, bool nullable)
{
	if (column->width == 0)
		return;
	column->values = MemoryContextAllocHuge(top->context, top->capacity * column->width);
	column->has_nulls = nullable;
	if (nullable)
		column->nulls = MemoryContextAllocHuge(top->context, top->capacity);
}

/*
 * Let go of what is there
 */
void
GjTopReset(GjTop *top)
{
	MemoryContextReset(top->context);
	top->nkept = 0;
	top->has_bound = false;
}

/*
 * Look at n entries of a set from first on, at most GJ_BATCH_ROWS; or only at those whose
 * places from there are in rows
 */
void
GjTopAdd(GjTop *top, const GjEntrySet *set, uint64 first, int n, const uint16 *rows, int nrows)
{
	uint64		words[GJ_BATCH_ROWS];
	uint16		places[GJ_BATCH_ROWS];
	uint64		low = top->has_last ? top->last[0] : 0;
	uint64		high = top->has_bound ? top->bound[0] : PG_UINT64_MAX;
	int			nplaces = 0;

	make_first_words(top, set, first, n, words);
	if (rows == NULL)
	{
		for (int i = 0; i < n; i++)
		{
			places[nplaces] = i;
			nplaces += words[i] >= low && words[i] <= high;
		}
	}
	else
	{
		for (int i = 0; i < nrows; i++)
		{
			places[nplaces] = rows[i];
			nplaces += words[rows[i]] >= low && words[rows[i]] <= high;
		}
	}
	for (int i = 0; i < nplaces; i++)
		add_entry(top, set, first + places[i]);
}

/*
 * A value as a number of up to 32 bits, or of 64 (large), in the ascending order of values
 */
static pg_attribute_always_inline uint64
order_value(GjSortKind kind, uint16 width, bool large, const char *at)
{
	int64		value = 0;

	if (kind == GJ_SORT_FLOAT && width == sizeof(float4))
	{
		float4		f = *(const float4 *) at;
		uint32		bits = *(const uint32 *) at;

		/* 0 and -0 are equal, and all NaNs are, above infinity */
		bits = isnan(f) ? 0x7fc00000 : f == 0 ? 0 : bits;
		return bits >> 31 ? (uint32) ~bits : bits | 0x80000000;
	}
	if (kind == GJ_SORT_FLOAT)
	{
		float8		f = *(const float8 *) at;
		uint64		bits = *(const uint64 *) at;

		bits = isnan(f) ? UINT64CONST(0x7ff8000000000000) : f == 0 ? 0 : bits;
		return bits >> 63 ? ~bits : bits | UINT64CONST(0x8000000000000000);
	}
	switch (width)
	{
		case sizeof(uint8):
			value = *(const uint8 *) at;
			break;
		case sizeof(int16):
			value = *(const int16 *) at;
			break;
		case sizeof(int32):
			value = *(const int32 *) at;
			break;
		case sizeof(int64):
			value = *(const int64 *) at;
			break;
	}
	if (large)
		return (uint64) value ^ (kind == GJ_SORT_SIGNED ? UINT64CONST(0x8000000000000000) : 0);
	return (uint32) value ^ (kind == GJ_SORT_SIGNED ? 0x80000000 : 0);
}

/*
 * The first words of many entries
 */
static void
make_first_words(const GjTop *top, const GjEntrySet *set, uint64 first, int n, uint64 *out)
{
	const GjSortColumn *sort = &top->columns[0];
	const GjEntryColumn *column = set_column(set, sort->column);
	const uint16 width = column->width;
	const bool	large = sort->width > sizeof(uint32);
	const char *at = column->values + first * width;
	const uint64 flip = !sort->descending ? 0 : large ? PG_UINT64_MAX : SMALL_MAX;
	const uint64 add = large ? 0 : 1;

#define MAKE(kind, width, large) \
	for (int i = 0; i < n; i++) \
		out[i] = (order_value(kind, width, large, at + i * (width)) ^ flip) + add

	if (sort->kind == GJ_SORT_SIGNED && width == sizeof(int32) && !large)
		MAKE(GJ_SORT_SIGNED, sizeof(int32), false);
	else if (sort->kind == GJ_SORT_SIGNED && width == sizeof(int64) && large)
		MAKE(GJ_SORT_SIGNED, sizeof(int64), true);
	else if (sort->kind == GJ_SORT_FLOAT && width == sizeof(float8))
		MAKE(GJ_SORT_FLOAT, sizeof(float8), true);
	else
		MAKE(sort->kind, width, large);
#undef MAKE

	if (!column->has_nulls)
		return;
	for (int i = 0; i < n; i++)
	{
		uint64		null = sort->nulls_first ? 0 : large ? PG_UINT64_MAX : SMALL_MAX + 2;

		out[i] = column->nulls[first + i] ? null : out[i];
	}
}

/*
 * The words of one value
 */
static void
make_words(const GjSortColumn *column, uint16 width, const char *at, bool isnull, uint64 *out)
{
	bool		large = column->width > sizeof(uint32);
	uint64		max = large ? PG_UINT64_MAX : SMALL_MAX;
	uint64		value;

	if (isnull)
		value = column->nulls_first ? 0 : large ? max : max + 2;
	else
		value = (order_value(column->kind, width, large, at) ^ (column->descending ? max : 0)) +
			(large ? 0 : 1);
	out[0] = value;
	if (large)
		out[1] = isnull != column->nulls_first;
}

static void
make_row_words(const GjTop *top, const Datum *values, const bool *isnull, uint64 *out)
{
	for (int i = 0; i < top->ncolumns; i++)
	{
		const GjSortColumn *column = &top->columns[i];
		union
		{
			uint64		align;
			char		bytes[sizeof(uint64)];
		}			value;

		store_att_byval(value.bytes, values[i], column->width);
		make_words(column, column->width, value.bytes, isnull[i], out);
		out += count_words(column);
	}
}

/*
 * Keep an entry whose first word may be wanted, if all of them say so
 */
static void
add_entry(GjTop *top, const GjEntrySet *set, uint64 entry)
{
	uint64		slot = top->free[top->nfree - 1];
	uint64	   *words = slot_words(top, slot);

	for (int i = 0; i < top->ncolumns; i++)
	{
		const GjSortColumn *sort = &top->columns[i];
		const GjEntryColumn *column = set_column(set, sort->column);

		make_words(sort, column->width, column->values + entry * column->width,
				   column->has_nulls && column->nulls[entry], words);
		words += count_words(sort);
	}
	*words = set->tids[entry];
	if (!take_slot(top, slot))
		return;
	keep_columns(top, set, entry, slot);
	if (top->nfree == 0)
		cut(top);
}

/*
 * The words of an entry are in the slot, the first free one: is it wanted?
 */
static bool
take_slot(GjTop *top, uint64 slot)
{
	const uint64 *words = slot_words(top, slot);

	if (top->has_bound && compare_words(words, top->bound, top->nwords) >= 0)
		return false;
	if (top->has_last && compare_words(words, top->last, top->nwords) <= 0)
		return false;
	top->nfree--;
	top->kept[top->nkept].word = words[0];
	top->kept[top->nkept].slot = slot;
	top->nkept++;
	return true;
}

static void
keep_columns(GjTop *top, const GjEntrySet *set, uint64 entry, uint64 slot)
{
	copy_value(&top->rows.keys, slot, &set->keys, entry);
	for (int i = 0; i < top->rows.nincluded; i++)
		copy_value(&top->rows.included[i], slot, &set->included[i], entry);
}

static void
copy_value(GjEntryColumn *to, uint64 slot, const GjEntryColumn *from, uint64 entry)
{
	if (to->width == 0)
		return;
	memcpy(to->values + slot * to->width, from->values + entry * to->width, to->width);
	if (to->has_nulls)
		to->nulls[slot] = from->has_nulls && from->nulls[entry];
}

/*
 * Look at a row that comes from elsewhere: values of the sort columns.  No columns are kept.
 */
void
GjTopAddRow(GjTop *top, const Datum *values, const bool *isnull, uint64 tid)
{
	uint64		slot = top->free[top->nfree - 1];
	uint64	   *words = slot_words(top, slot);

	make_row_words(top, values, isnull, words);
	words[top->nwords - 1] = tid;
	if (take_slot(top, slot) && top->nfree == 0)
		cut(top);
}

/*
 * Sort what is kept, drop what is there twice, and what is too much
 */
static void
cut(GjTop *top)
{
	uint64		n = 0;

	sort_places(top->kept, top->nkept, top);
	for (uint64 i = 0; i < top->nkept; i++)
	{
		if (n < top->wanted &&
			(n == 0 || compare_places(&top->kept[n - 1], &top->kept[i], top) != 0))
			top->kept[n++] = top->kept[i];
		else
			top->free[top->nfree++] = top->kept[i].slot;
	}
	top->nkept = n;
	if (n == top->wanted)
	{
		top->has_bound = true;
		memcpy(top->bound, slot_words(top, top->kept[n - 1].slot), top->nwords * sizeof(uint64));
	}
}

/*
 * All has been added.  If there are as many as were wanted, there may be more that come after
 * the last.
 */
void
GjTopFinish(GjTop *top)
{
	cut(top);
}

uint64
GjTopCount(const GjTop *top)
{
	return top->nkept;
}

/*
 * The TID of the entry that comes as number i
 */
uint64
GjTopTid(const GjTop *top, uint64 i)
{
	return slot_words(top, top->kept[i].slot)[top->nwords - 1];
}

/*
 * Where its columns are in GjTopRows()
 */
uint64
GjTopRow(const GjTop *top, uint64 i)
{
	return top->kept[i].slot;
}

/*
 * The columns that are kept: good until the next start
 */
const GjEntrySet *
GjTopRows(const GjTop *top)
{
	return &top->rows;
}

/*
 * Are these values of the sort columns its own?
 */
bool
GjTopIsSame(const GjTop *top, uint64 i, const Datum *values, const bool *isnull)
{
	uint64		words[2 * (GJ_MAX_INCLUDED + 1) + 1];

	make_row_words(top, values, isnull, words);
	return compare_words(words, slot_words(top, top->kept[i].slot), top->nwords - 1) == 0;
}
