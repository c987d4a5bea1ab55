/*-------------------------------------------------------------------------
 *
 * top.c
 *	  Selecting the first entries in an order, over arrays.
 *
 * Entries are compared by their words (see "Values as words" below); the last word is the TID.
 * So entries with equal words are the same entry, found twice.
 *
 * Most entries are not among the first, and the first word usually shows it: it is computed for
 * a whole batch and compared with the bound, the last of the wanted entries at the time of the
 * latest cut.  Entries whose first word is not above the bound are candidates.  Often a long
 * series of entries has none, which the least of their values shows before any word is computed.
 * When the slots are full, the entries kept are sorted and cut to the wanted number, and a new
 * bound is set.
 *
 * Besides its words, each entry kept has the columns of its result row.
 *
 * A numeric without a word (base/numeric.c) has the next lower word and, behind it, a rank among
 * all such values that are sorted, which is above 0, the rank of all words.  So it comes between
 * two words, or beyond all of them, in the order of numeric_cmp(), which ranks the values once.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/tupmacs.h"
#include "catalog/pg_type_d.h"
#include "port/pg_bswap.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

#include "base/numeric.h"
#include "batch.h"
#include "top.h"

/* Minimum room for entries beyond the wanted ones; it limits how often we sort */
#define MIN_ROOM				1024

/* Number of entries that are checked together for having a candidate */
#define LOOK_ROWS				128

/* Location of an entry's words, with the first of them */
typedef struct Place
{
	uint64		word;
	uint64		slot;
} Place;

/* A row whose entry lacks values, and its values of the sort columns */
typedef struct Stray
{
	uint64		tid;
	Datum	   *values;
	bool	   *isnull;
} Stray;

/* The values of a sort column that have no word, in order, each once */
typedef struct Ranks
{
	uint64		n;
	Datum	   *values;
} Ranks;

/* Words of a row: up to three for a column, and its TID */
#define MAX_WORDS				(3 * (GJ_MAX_INCLUDED + 1) + 1)

struct GjTop
{
	MemoryContext context;		/* memory allocated by GjTopStart() */
	int			ncolumns;
	GjSortColumn *columns;
	int			nwords;			/* per entry, TID included */

	uint64		wanted;
	uint64		capacity;		/* slots */
	uint64	   *words;			/* nwords for each slot */
	Place	   *kept;			/* the entries kept */
	uint64		nkept;
	uint64		ndoubles;		/* number of entries dropped because an equal one is kept */
	uint64	   *free;			/* unused slots */
	uint64		nfree;
	uint64	   *bound;			/* only entries before this one are wanted; valid if has_bound */
	bool		has_bound;
	uint64	   *last;			/* only entries after this one are wanted; valid if has_last */
	bool		has_last;
	GjEntrySet	rows;			/* columns of the entries kept: arrays indexed by slot */

	MemoryContext stray_context;
	Stray	   *strays;
	uint64		nstrays;
	uint64		max_strays;		/* room */
	Ranks	   *ranks;			/* for each sort column; NULL until strays are added */
};

#define SMALL_MAX				((uint64) PG_UINT32_MAX)
#define SIGN_BIT				UINT64CONST(0x8000000000000000)

/* Each batch is this many times as long as the previous one, if memory allows it */
#define BATCH_GROWTH			4

/* Minimum number of batches */
#define MIN_BATCHES				2

/* Maximum cost of all batches together, as a fraction of the sort's cost */
#define BATCHES_PART			0.2

/* Cost of sorting a row, and of fetching a row separately from its neighbors */
#define SORTED_ROW				64.0
#define FETCHED_ROW				128.0

static void discard(GjTop *top);
static void allocate_column(GjTop *top, GjEntryColumn *column);
static void top_look_at(GjTop *top, const GjEntrySet *set, uint64 first, int n,
						const uint16 *rows, int nrows);
static void top_add_entry(GjTop *top, const GjEntrySet *set, uint64 entry);
static bool take_slot(GjTop *top, uint64 slot);
static void keep_nothing(GjTop *top, uint64 slot);
static void copy_value(GjEntryColumn *to, uint64 slot, const GjEntryColumn *from, uint64 entry);
static void top_cut(GjTop *top);
static int	top_count_words(const GjSortColumn *column);
static void top_first_words(const GjSortColumn *sort, const GjEntryColumn *column, uint64 first,
							int n, uint64 *out);
static uint64 top_lowest_word(const GjSortColumn *sort, const GjEntryColumn *column,
							  uint64 first, int n);
static void top_words(const GjSortColumn *column, uint16 width, const char *at, bool isnull,
					  uint64 *out);
static inline bool has_last_word(GjSortKind kind);
static inline uint64 last_word(const GjSortColumn *column, uint64 last, bool isnull);
static void top_row_words(const GjTop *top, const Datum *values, const bool *isnull, uint64 *out);
static void rank_strays(GjTop *top);
static bool has_word(const GjSortColumn *column, Datum value, int64 *word);
static uint64 find_rank(const Ranks *ranks, Datum value);
static int	compare_numerics(const void *a, const void *b);
static int	compare_ranked(const void *a, const void *b, void *arg);

static inline const GjEntryColumn *
top_set_column(const GjEntrySet *set, int column)
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
#include "lib/qunique.h"
#include "lib/sort_template.h"

/*
 * Prepare to order entries by these columns, keeping some columns: bits as in GjEntryRequest.  The
 * array of sort columns must outlive the selection.
 */
GjTop *
GjTopCreate(MemoryContext parent, const GjSortColumn *columns, int ncolumns,
			const GjEntryWidths *widths, uint64 kept)
{
	GjTop	   *top = MemoryContextAllocZero(parent, sizeof(GjTop));

	top->context = AllocSetContextCreate(parent, "gpujoin top", ALLOCSET_DEFAULT_SIZES);
	top->stray_context = AllocSetContextCreate(parent, "gpujoin strays", ALLOCSET_SMALL_SIZES);
	top->columns = unconstify(GjSortColumn *, columns);
	top->ncolumns = ncolumns;
	top->nwords = 1;
	for (int i = 0; i < ncolumns; i++)
		top->nwords += top_count_words(&columns[i]);
	top->last = MemoryContextAlloc(parent, top->nwords * sizeof(uint64));
	top->bound = MemoryContextAlloc(parent, top->nwords * sizeof(uint64));

	top->rows.keys.width = kept & 1 ? widths->key : 0;
	top->rows.nincluded = widths->nincluded;
	for (int i = 0; i < widths->nincluded; i++)
		top->rows.included[i].width = kept >> (i + 1) & 1 ? widths->included[i] : 0;
	return top;
}

/*
 * Return the memory taken by an entry with this number of words, TID included, and this number
 * of bytes in the columns kept
 */
Size
GjTopEntryBytes(int nwords, Size kept)
{
	return sizeof(Place) + (nwords + 1) * sizeof(uint64) + kept;
}

/*
 * Return the memory taken by an entry of this selection
 */
Size
GjTopSlotBytes(const GjTop *top)
{
	Size		kept = top->rows.keys.width + 1;

	for (int i = 0; i < top->rows.nincluded; i++)
		kept += top->rows.included[i].width + 1;
	return GjTopEntryBytes(top->nwords, kept);
}

/*
 * Return the number of entries that can be wanted within the memory limit: always at least a few
 */
uint64
GjTopMaxWanted(Size entry_bytes, Size limit)
{
	uint64		capacity = limit / entry_bytes;

	return capacity / 2 > MIN_ROOM ? capacity / 2 : MIN_ROOM;
}

/*
 * Start selecting the given number of entries; with after_last, only entries after the last one
 * that was selected since the last start without it, if any.  If few others are expected to be
 * added, they get less room.
 */
void
GjTopStart(GjTop *top, uint64 wanted, bool after_last, bool few)
{
	if (after_last)
		GjTopLeaveLast(top);
	else
		GjTopReset(top);
	top->wanted = wanted;
	top->capacity = wanted + (few ? wanted : Max(wanted, MIN_ROOM));
	top->words = MemoryContextAllocHuge(top->context,
										top->capacity * top->nwords * sizeof(uint64));
	top->kept = MemoryContextAllocHuge(top->context, top->capacity * sizeof(Place));
	top->free = MemoryContextAllocHuge(top->context, top->capacity * sizeof(uint64));
	for (top->nfree = 0; top->nfree < top->capacity; top->nfree++)
		top->free[top->nfree] = top->capacity - 1 - top->nfree;
	allocate_column(top, &top->rows.keys);
	for (int i = 0; i < top->rows.nincluded; i++)
		allocate_column(top, &top->rows.included[i]);
}

static void
allocate_column(GjTop *top, GjEntryColumn *column)
{
	if (column->width == 0)
		return;
	column->values = MemoryContextAllocHuge(top->context, top->capacity * column->width);
	column->has_nulls = true;
	column->nulls = MemoryContextAllocHuge(top->context, top->capacity);
}

/*
 * Free everything except the last entry, if there is one: rows can be compared with it until
 * the next start
 */
void
GjTopLeaveLast(GjTop *top)
{
	if (top->nkept > 0)
	{
		memcpy(top->last, slot_words(top, top->kept[top->nkept - 1].slot),
			   top->nwords * sizeof(uint64));
		top->has_last = true;
	}
	discard(top);
}

/*
 * Compare a row's values of the sort columns with those of the last entry, if there is one; without
 * it, all rows come later
 */
int
GjTopCompareLast(const GjTop *top, const Datum *values, const bool *isnull)
{
	uint64		words[MAX_WORDS];

	if (!top->has_last)
		return 1;
	top_row_words(top, values, isnull, words);
	return compare_words(words, top->last, top->nwords - 1);
}

/*
 * Return the last entry's TID, which decides between equal values
 */
uint64
GjTopLastTid(const GjTop *top)
{
	return top->last[top->nwords - 1];
}

/*
 * Discard all entries and strays
 */
void
GjTopReset(GjTop *top)
{
	MemoryContextReset(top->stray_context);
	top->strays = NULL;
	top->ranks = NULL;
	top->nstrays = top->max_strays = 0;
	top->has_last = false;
	discard(top);
}

static void
discard(GjTop *top)
{
	MemoryContextReset(top->context);
	top->nkept = 0;
	top->ndoubles = 0;
	top->has_bound = false;
}

/*
 * Consider n entries of a set from first on, at most GJ_BATCH_ROWS; or only those whose
 * positions relative to first are in rows
 */
void
GjTopAdd(GjTop *top, const GjEntrySet *set, uint64 first, int n, const uint16 *rows, int nrows)
{
	const GjSortColumn *sort = &top->columns[0];
	const GjEntryColumn *column = top_set_column(set, sort->column);

	if (rows != NULL)
	{
		top_look_at(top, set, first, n, rows, nrows);
		return;
	}
	for (int i = 0; i < n; i += LOOK_ROWS)
	{
		int			some = Min(LOOK_ROWS, n - i);

		if (!top->has_bound || top_lowest_word(sort, column, first + i, some) <= top->bound[0])
			top_look_at(top, set, first + i, some, NULL, some);
	}
}

/*
 * Compare the first words of n entries with the bounds, and consider the candidates: those of the
 * given rows, or of all if rows is NULL
 */
static void
top_look_at(GjTop *top, const GjEntrySet *set, uint64 first, int n, const uint16 *rows, int nrows)
{
	uint64		words[GJ_BATCH_ROWS];
	uint16		places[GJ_BATCH_ROWS];
	uint64		low = top->has_last ? top->last[0] : 0;
	uint64		high = top->has_bound ? top->bound[0] : PG_UINT64_MAX;
	int			nplaces = 0;

	top_first_words(&top->columns[0], top_set_column(set, top->columns[0].column), first, n, words);
	for (int i = 0; i < nrows; i++)
	{
		int			row = rows == NULL ? i : rows[i];

		places[nplaces] = row;
		nplaces += words[row] >= low && words[row] <= high;
	}
	for (int i = 0; i < nplaces; i++)
		top_add_entry(top, set, first + places[i]);
}

/*
 * Keep an entry whose first word is not above the bound, if its other words agree
 */
static void
top_add_entry(GjTop *top, const GjEntrySet *set, uint64 entry)
{
	uint64		slot = top->free[top->nfree - 1];
	uint64	   *words = slot_words(top, slot);

	for (int i = 0; i < top->ncolumns; i++)
	{
		const GjSortColumn *sort = &top->columns[i];
		const GjEntryColumn *column = top_set_column(set, sort->column);
		bool		isnull = column->has_nulls && column->nulls[entry];

		top_words(sort, column->width, column->values + entry * column->width, isnull, words);
		if (has_last_word(sort->kind))
		{
			const uint64 *seconds = (const uint64 *) top_set_column(set, sort->second)->values;

			words[2] = last_word(sort, sort->kind != GJ_SORT_UUID ? 0 : SIGN_BIT ^ seconds[entry],
								 isnull);
		}
		words += top_count_words(sort);
	}
	*words = set->tids[entry];
	if (!take_slot(top, slot))
		return;
	copy_value(&top->rows.keys, slot, &set->keys, entry);
	for (int i = 0; i < top->rows.nincluded; i++)
		copy_value(&top->rows.included[i], slot, &set->included[i], entry);
	if (top->nfree == 0)
		top_cut(top);
}

/*
 * Return true if the entry in the slot, the first free one, is wanted; its words have been
 * stored
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
copy_value(GjEntryColumn *to, uint64 slot, const GjEntryColumn *from, uint64 entry)
{
	if (to->width == 0)
		return;
	memcpy(to->values + slot * to->width, from->values + entry * to->width, to->width);
	if (to->has_nulls)
		to->nulls[slot] = from->has_nulls && from->nulls[entry];
}

/*
 * Consider a row from another source, given its values of the sort columns.  No columns are
 * kept: those of 8 bytes are GJ_ABSENT.
 */
void
GjTopAddRow(GjTop *top, const Datum *values, const bool *isnull, uint64 tid)
{
	uint64		slot = top->free[top->nfree - 1];
	uint64	   *words = slot_words(top, slot);

	top_row_words(top, values, isnull, words);
	words[top->nwords - 1] = tid;
	if (!take_slot(top, slot))
		return;
	keep_nothing(top, slot);
	if (top->nfree == 0)
		top_cut(top);
}

/*
 * Fill the columns of a slot with values of which none can be used
 */
static void
keep_nothing(GjTop *top, uint64 slot)
{
	if (top->rows.keys.width != 0)
	{
		memset(top->rows.keys.values + slot * top->rows.keys.width, 0, top->rows.keys.width);
		top->rows.keys.nulls[slot] = false;
	}
	for (int i = 0; i < top->rows.nincluded; i++)
	{
		GjEntryColumn *column = &top->rows.included[i];

		if (column->width == 0)
			continue;
		memset(column->values + slot * column->width, 0, column->width);
		column->nulls[slot] = false;
		if (column->width == sizeof(int64))
			((int64 *) column->values)[slot] = GJ_ABSENT;
	}
}

/*-------------------------------------------------------------------------
 * Strays
 *
 * Rows whose entries lack a value of a numeric sort column.
 *-------------------------------------------------------------------------
 */

/*
 * Keep a row for GjTopAddStrays(), with copies of its values.  Returns false if all of them take
 * more memory than the limit.
 */
bool
GjTopKeepStray(GjTop *top, const Datum *values, const bool *isnull, uint64 tid, Size limit)
{
	MemoryContext old = MemoryContextSwitchTo(top->stray_context);
	Stray	   *stray;

	Assert(top->ranks == NULL);
	if (top->nstrays == top->max_strays)
	{
		Size		room = Max(top->max_strays * 2, MIN_ROOM);

		top->strays = top->strays == NULL ? palloc(room * sizeof(Stray)) :
			repalloc_huge(top->strays, room * sizeof(Stray));
		top->max_strays = room;
	}
	stray = &top->strays[top->nstrays++];
	stray->tid = tid;
	stray->values = palloc(top->ncolumns * sizeof(Datum));
	stray->isnull = palloc(top->ncolumns * sizeof(bool));
	memcpy(stray->isnull, isnull, top->ncolumns * sizeof(bool));
	for (int i = 0; i < top->ncolumns; i++)
	{
		GjSortKind	kind = top->columns[i].kind;

		stray->values[i] = values[i];
		if (!isnull[i] && kind == GJ_SORT_NUMERIC)
			stray->values[i] = PointerGetDatum(PG_DETOAST_DATUM_COPY(values[i]));
		else if (!isnull[i] && kind == GJ_SORT_UUID)
		{
			stray->values[i] = PointerGetDatum(palloc(UUID_LEN));
			memcpy(DatumGetPointer(stray->values[i]), DatumGetPointer(values[i]), UUID_LEN);
		}
	}
	MemoryContextSwitchTo(old);
	return MemoryContextMemAllocated(top->stray_context, false) <= limit;
}

/*
 * Add the strays to a selection.  All of them must have been kept before.  No columns are kept.
 */
void
GjTopAddStrays(GjTop *top)
{
	if (top->ranks == NULL && top->nstrays > 0)
		rank_strays(top);
	for (uint64 i = 0; i < top->nstrays; i++)
		GjTopAddRow(top, top->strays[i].values, top->strays[i].isnull, top->strays[i].tid);
}

static void
rank_strays(GjTop *top)
{
	MemoryContext old = MemoryContextSwitchTo(top->stray_context);

	top->ranks = palloc0(top->ncolumns * sizeof(Ranks));
	for (int i = 0; i < top->ncolumns; i++)
	{
		Ranks	   *ranks = &top->ranks[i];
		int64		word;

		if (top->columns[i].kind != GJ_SORT_NUMERIC)
			continue;
		ranks->values = palloc_extended(top->nstrays * sizeof(Datum), MCXT_ALLOC_HUGE);
		for (uint64 k = 0; k < top->nstrays; k++)
		{
			const Stray *stray = &top->strays[k];

			if (!stray->isnull[i] && !has_word(&top->columns[i], stray->values[i], &word))
				ranks->values[ranks->n++] = stray->values[i];
		}
		qsort_interruptible(ranks->values, ranks->n, sizeof(Datum), compare_ranked, NULL);
		ranks->n = qunique(ranks->values, ranks->n, sizeof(Datum), compare_numerics);
	}
	MemoryContextSwitchTo(old);
}

/*
 * Return true if a numeric equals a word, which is set; otherwise that is the next lower one, or a
 * limit of words
 */
static bool
has_word(const GjSortColumn *column, Datum value, int64 *word)
{
	struct varlena *plain = PG_DETOAST_DATUM_PACKED(value);
	GjNumericParts parts;
	bool		is_exact;

	GjNumericRead(plain, &parts);
	*word = GjNumericFloor(&parts, column->stored_scale, &is_exact);
	if ((Pointer) plain != DatumGetPointer(value))
		pfree(plain);
	return is_exact && *word > -GJ_WORD_LIMIT && *word < GJ_WORD_LIMIT;
}

/*
 * Return the number of values that are not above this one, if it is among them; otherwise some
 * other rank
 */
static uint64
find_rank(const Ranks *ranks, Datum value)
{
	uint64		low = 0;
	uint64		high = ranks->n;

	while (low < high)
	{
		uint64		middle = (low + high) / 2;

		if (compare_numerics(&ranks->values[middle], &value) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low + 1;
}

static int
compare_ranked(const void *a, const void *b, void *arg)
{
	return compare_numerics(a, b);
}

static int
compare_numerics(const void *a, const void *b)
{
	return DatumGetInt32(DirectFunctionCall2(numeric_cmp, *(const Datum *) a, *(const Datum *) b));
}

/*
 * Sort the entries kept, drop duplicates and those beyond the wanted number
 */
static void
top_cut(GjTop *top)
{
	uint64		n = 0;

	sort_places(top->kept, top->nkept, top);
	for (uint64 i = 0; i < top->nkept; i++)
	{
		bool		is_double = n > 0 &&
			compare_places(&top->kept[n - 1], &top->kept[i], top) == 0;

		top->ndoubles += is_double;
		if (n < top->wanted && !is_double)
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
 * Finish after all entries have been added.  If the wanted number was found, there may be more
 * entries after the last one.
 */
void
GjTopFinish(GjTop *top)
{
	top_cut(top);
}

uint64
GjTopCount(const GjTop *top)
{
	return top->nkept;
}

/*
 * Return the number of entries before the last one that were dropped as equal to another one, or
 * more
 */
uint64
GjTopDoubles(const GjTop *top)
{
	return top->ndoubles;
}

/*
 * Return the TID of entry i of the result
 */
uint64
GjTopTid(const GjTop *top, uint64 i)
{
	return slot_words(top, top->kept[i].slot)[top->nwords - 1];
}

/*
 * Return the position of entry i's columns in GjTopRows()
 */
uint64
GjTopRow(const GjTop *top, uint64 i)
{
	return top->kept[i].slot;
}

/*
 * Return the columns kept, valid until the next start
 */
const GjEntrySet *
GjTopRows(const GjTop *top)
{
	return &top->rows;
}

/*
 * Return true if entry i has these values of the sort columns
 */
bool
GjTopIsSame(const GjTop *top, uint64 i, const Datum *values, const bool *isnull)
{
	uint64		words[MAX_WORDS];

	top_row_words(top, values, isnull, words);
	return compare_words(words, slot_words(top, top->kept[i].slot), top->nwords - 1) == 0;
}

/*-------------------------------------------------------------------------
 * Values as words
 *
 * Convert sort columns to words, which are compared in their place.
 *
 * Each column becomes one or two unsigned words whose ascending order is the requested order,
 * including DESC and the position of NULLs.
 *
 *	- A value of up to four bytes takes one word, and NULL is a number below or above all.
 *	- One of eight bytes leaves no such number: NULL is the lowest or the highest one, and a
 *	  second word tells it from that value.
 *	- A uuid has a third word, its lower half, and a numeric its rank.
 *-------------------------------------------------------------------------
 */

/*
 * Return true if values of this type can be put in the order of its btree operators.  Only for
 * built-in types, which have no other default order.
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
		case UUIDOID:
			*kind = GJ_SORT_UUID;
			return true;
		case NUMERICOID:
			*kind = GJ_SORT_NUMERIC;
			return true;
		default:
			return false;
	}
}

static inline bool
has_last_word(GjSortKind kind)
{
	return kind == GJ_SORT_UUID || kind == GJ_SORT_NUMERIC;
}

static inline bool
is_signed(GjSortKind kind)
{
	return kind == GJ_SORT_SIGNED || has_last_word(kind);
}

/*
 * Return the number of words for a value
 */
static int
top_count_words(const GjSortColumn *column)
{
	return has_last_word(column->kind) ? 3 : column->width > sizeof(uint32) ? 2 : 1;
}

/*
 * Return a value as a number of up to 32 bits, or 64 (large), that sorts like the values
 */
static pg_attribute_always_inline uint64
order_value(GjSortKind kind, uint16 width, bool large, const char *at)
{
	int64		value = 0;

	if (kind == GJ_SORT_FLOAT && width == sizeof(float4))
	{
		float4		f = *(const float4 *) at;
		uint32		bits = *(const uint32 *) at;

		/* 0 and -0 are equal; all NaNs are equal, and above infinity */
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
		return (uint64) value ^ (is_signed(kind) ? SIGN_BIT : 0);
	return (uint32) value ^ (is_signed(kind) ? 0x80000000 : 0);
}

/*
 * Compute the first words of several entries
 */
static void
top_first_words(const GjSortColumn *sort, const GjEntryColumn *column, uint64 first, int n,
				uint64 *out)
{
	const uint16 width = column->width;
	const bool	large = sort->width > sizeof(uint32);
	const char *at = column->values + first * width;
	const uint64 flip = !sort->descending ? 0 : large ? PG_UINT64_MAX : SMALL_MAX;
	const uint64 add = large ? 0 : 1;

#define MAKE(kind, width, large) \
	for (int i = 0; i < n; i++) \
		out[i] = (order_value(kind, width, large, at + i * (width)) ^ flip) + add

	if (is_signed(sort->kind) && width == sizeof(int32) && !large)
		MAKE(GJ_SORT_SIGNED, sizeof(int32), false);
	else if (is_signed(sort->kind) && width == sizeof(int64) && large)
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

#define FIND_EXTREME(type, extreme) \
	do { \
		const type *values = (const type *) column->values + first; \
		extreme = values[0]; \
		if (sort->descending) \
		{ \
			for (int i = 1; i < n; i++) \
				extreme = Max(extreme, values[i]); \
		} \
		else \
		{ \
			for (int i = 1; i < n; i++) \
				extreme = Min(extreme, values[i]); \
		} \
	} while (0)

/*
 * Return a lower bound of the first words of these entries; zero if that could not be computed
 * faster than the words themselves
 */
static uint64
top_lowest_word(const GjSortColumn *sort, const GjEntryColumn *column, uint64 first, int n)
{
	uint64		words[3];

	if (column->has_nulls || !is_signed(sort->kind))
		return 0;
	if (column->width == sizeof(int32))
	{
		int32		extreme;

		FIND_EXTREME(int32, extreme);
		top_words(sort, column->width, (const char *) &extreme, false, words);
		return words[0];
	}
	if (column->width == sizeof(int64))
	{
		int64		extreme;

		FIND_EXTREME(int64, extreme);
		top_words(sort, column->width, (const char *) &extreme, false, words);
		return words[0];
	}
	return 0;
}

/*
 * Compute the words of one value, but for the third one
 */
static void
top_words(const GjSortColumn *column, uint16 width, const char *at, bool isnull, uint64 *out)
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

/*
 * Return the third word of a value that has three; last is that word in ascending order
 */
static inline uint64
last_word(const GjSortColumn *column, uint64 last, bool isnull)
{
	return isnull ? 0 : last ^ (column->descending ? PG_UINT64_MAX : 0);
}

/*
 * Compute the words of the sort columns of a row from another source
 */
static void
top_row_words(const GjTop *top, const Datum *values, const bool *isnull, uint64 *out)
{
	for (int i = 0; i < top->ncolumns; i++)
	{
		const GjSortColumn *column = &top->columns[i];
		uint64		last = 0;
		union
		{
			uint64		halves[2];
			int64		word;
			char		bytes[UUID_LEN];
		}			value;

		if (isnull[i])
			value.word = 0;
		else if (column->kind == GJ_SORT_UUID)
		{
			memcpy(value.bytes, DatumGetPointer(values[i]), UUID_LEN);
			value.halves[0] = pg_ntoh64(value.halves[0]) ^ SIGN_BIT;
			last = pg_ntoh64(value.halves[1]);
		}
		else if (column->kind == GJ_SORT_NUMERIC)
		{
			if (!has_word(column, values[i], &value.word))
				last = top->ranks == NULL ? 1 : find_rank(&top->ranks[i], values[i]);
		}
		else
			store_att_byval(value.bytes, values[i], column->width);
		top_words(column, column->width, value.bytes, isnull[i], out);
		if (has_last_word(column->kind))
			out[2] = last_word(column, last, isnull[i]);
		out += top_count_words(column);
	}
}

/*-------------------------------------------------------------------------
 * Batches
 *
 * Decide when to stop taking batches from an order, and to sort the remaining rows.
 *
 * The first entries of an order are found without sorting the others.  But each batch costs a
 * search and a look at every match, while one sort delivers all remaining entries.  So a scan that
 * must deliver more than expected takes one more batch, several times as long, and then further
 * batches as long as all of them together cost a small fraction of the sort: then the scan never
 * takes much longer than a sort from the beginning would have taken, however wrong the estimate.
 *
 * The unit of cost is a look at one entry of the index.  Costs are counted in entries, not
 * measured, so that equal scans do the same.  The planner passes estimates, the executor the
 * numbers that it has counted.
 *-------------------------------------------------------------------------
 */

/*
 * Start with a batch of bound entries, or of as many as memory allows
 */
void
GjTopBatchesStart(GjTopBatches *batches, uint64 bound, uint64 most)
{
	*batches = (GjTopBatches) {.wanted = Min(bound, most),.most = most,.nbatches = 1};
}

/*
 * Advance to the next batch; returns false if the rest should be sorted instead.  The current batch
 * has n entries, and select entries were looked at for it, as many as for the next one.  A sort
 * would search and match the given numbers of entries.
 */
bool
GjTopBatchesNext(GjTopBatches *batches, uint64 n, double select, double searched, double matched,
				 bool from_heap)
{
	uint64		wanted = Min(batches->wanted * BATCH_GROWTH, batches->most);
	double		fetched = from_heap ? FETCHED_ROW : 0.0;
	double		left;

	batches->delivered += n;
	batches->spent += select + n * fetched;
	left = Max(matched - batches->delivered, 0.0);
	if (batches->nbatches >= MIN_BATCHES &&
		batches->spent + select + Min((double) wanted, left) * fetched >
		BATCHES_PART * (searched + left * SORTED_ROW))
		return false;

	batches->wanted = wanted;
	batches->nbatches++;
	return true;
}
