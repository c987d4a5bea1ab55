/*-------------------------------------------------------------------------
 *
 * exact.c
 *	  The exact table: elements of a code and parts, found by comparing the code and all parts.
 *
 * A part is either a word or a Datum.  Words are integers and other types whose operator is true
 * if and only if the bits are the same; they are compared as int64, whatever the widths of their
 * types.  Datums are compared by the operator's own function, under its collation, except uuids,
 * and texts under a deterministic collation, which are equal if and only if their bytes are.  So
 * what a search finds is what PostgreSQL's own comparison, or the AND of them, finds:
 *
 *	- Two values that are equal have the same code, by the contract of the index's operator class,
 *	  and the same hash, by that of the hash operator family that the operator belongs to, or
 *	  because their bytes are hashed.
 *	- The hash only selects the elements that are compared.
 *	- All operators are strict: callers neither add nor look up an element with a NULL.
 *	- Bpchars are equal if and only if, without their trailing blanks, they are equal as texts under
 *	  the same collation: bpchareq() is that comparison.  So they lose their blanks before they are
 *	  hashed, stored or compared.  Their own hash function is not used: see exactpart.c.
 *
 * The part that proves a key may be a word in some elements and a Datum in others: its rest, or, if
 * the code is a hash, the key itself.  Elements with the same code have the same there.
 *
 * Open addressing: a cell has 32 bits of an element's hash and its number.  The elements are in one
 * array, so a search reads two cache lines, and several searches prefetch them.  Most searches for
 * entries by several columns find nothing: they read only a filter with eight bits a cell, one of
 * them for an element.  Rows were found by their codes, so if these are hashed alone, most searches
 * find an element, and there is no filter.  Entries are in the order of their codes, so rows with
 * the same code and parts often follow each other; only the first of them is searched for.
 *
 * If many rows have the same key, most entries by several columns have the code of an element, but
 * another part.  For long runs of one code, each code has a set of 64 bits, one for each of its
 * elements, chosen by one of their parts: a row without its bit equals no element.
 *
 * The hash of an element is seeded at random, so that no prepared list of integers makes a long run
 * of cells.  A code may itself be a hash, with a known seed, of the only part: then hashing the
 * code is enough, unless the list was prepared to have values of one code.  When GJ_EXACT_MAX_SAME
 * elements have the same hash, all parts are hashed again, by the type's extended hash function
 * with the random seed.  A type whose hash function makes them collide again causes long searches,
 * which can be interrupted.
 *
 * Elements of a list are entered into cells together, before the first search: a device that finds
 * all rows by the list itself leaves nothing to be searched for.  Until then the last elements of
 * the array may be equal to others.  Entries whose codes ascend, as those of a run do, are found
 * without cells if all elements are pairs in order: both are merged.
 *
 * Hash and comparison functions may leave garbage, and values may have to be detoasted: both go to
 * a context that is reset after each search.  Elements are stored detoasted.  A value of a list
 * that lives as long as the table is not copied, unless it had to be detoasted or to lose its
 * blanks.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "base/prefetch.h"
#include "base/settings.h"
#include "batch.h"
#include "exact.h"
#include "exactvalue.h"

typedef struct Cell
{
	uint32		hash;
	uint32		number;			/* of the element, or GJ_EXACT_NONE: the cell is empty */
} Cell;

/* The parts of all elements with a code */
typedef struct CodeParts
{
	int64		code;
	uint64		bits;			/* 0: the cell is empty */
} CodeParts;

struct GjExact
{
	MemoryContext context;		/* owns everything */
	MemoryContext data;			/* what the Datums point to */
	MemoryContext scratch;		/* reset after each search */
	int			nparts;
	int			width;			/* of an element, in words: the code and the parts */
	GjExactPart *parts;
	bool		has_datums;		/* is any part no word? */
	bool		entries_have_words; /* are all parts words, in elements whose code is no hash? */
	bool		has_pairs;		/* are all elements a code and a word? */
	bool		code_only;		/* is the hash that of the code alone? */
	uint64		seed;

	Cell	   *cells;
	uint8	   *filter;			/* a byte for each cell; NULL while only codes are hashed */
	uint32		mask;			/* number of cells, a power of two, less 1 */
	uint64	   *elements;
	uint32		nelements;		/* number of elements that have cells, ... */
	uint32		nlisted;		/* ... and with those that are behind them */
	uint32		nordered;		/* number of elements, without cells, known to be in order */
	uint32		capacity;		/* of elements; at most half of the cells are used */
	uint32		expected;		/* number of elements that the first cells are for */

	int			noted_part;		/* the part that bits are chosen by, or -1 */
	CodeParts  *noted;			/* by code; NULL until entries have long runs of one code */
	uint32		noted_mask;		/* number of these cells, a power of two, less 1 */
	uint32		nnoted;			/* number of elements that have their bit */
};

#define GJ_EXACT_MIN_CELLS		64
#define GJ_EXACT_MAX_ELEMENTS	((uint32) 1 << 30)
#define GJ_EXACT_MAX_EXPECTED	((uint64) 1 << 18)

/* Elements of one hash after which parts are hashed, too */
#define GJ_EXACT_MAX_SAME		16

/* Number of values whose cells are prefetched together */
#define GJ_EXACT_GROUP			256

/* Number of comparisons or elements between two checks for interrupts */
#define GJ_EXACT_INTERVAL		4096

/* Average length of runs of one code from which the bits of codes are tested */
#define GJ_EXACT_RUN			4

static void grow(GjExact *exact);
static void set_room(GjExact *exact, uint64 ncells);
static uint32 exact_find(GjExact *exact, uint32 hash, int64 code, const Datum *values, bool of_row,
						 bool pairs, uint32 *nsame);
static void append(GjExact *exact, int64 code, const Datum *values, const Datum *borrowed);
static void enter_listed(GjExact *exact);
static uint32 enter_group(GjExact *exact, uint32 first, uint32 n, bool pairs);
static void exact_enter(GjExact *exact, uint32 hash, uint32 number);
static void fill_cells(GjExact *exact);
static void hash_parts_too(GjExact *exact);
static bool is_equal(GjExact *exact, const uint64 *element, int64 code, const Datum *values,
					 bool of_row);
static bool find_ordered(GjExact *exact, int n, const int64 *codes, const Datum *rests,
						 uint32 *numbers);
static bool is_ordered(GjExact *exact);
static uint32 lower_bound(const GjExactPair *pairs, uint32 low, uint32 high, int64 code,
						  int64 rest);
static void find_pairs(GjExact *exact, int n, const uint16 *rows, const int64 *codes,
					   const Datum *rests, uint32 *numbers);
static void find_all(GjExact *exact, int n, const int64 *codes, const Datum *const *values,
					 bool words, bool of_entries, uint32 *numbers);
static int	list_heads(int nparts, int n, const int64 *codes, const Datum *const *values,
					   uint16 *heads);
static int	drop_hashes(const int64 *codes, const uint16 *rows, int n, uint16 *others,
						uint32 *numbers);
static int	list_noted(GjExact *exact, int n, const int64 *codes, const Datum *values,
					   uint16 *noted, uint32 *numbers);
static int	list_of_run(uint64 bits, const GjExactPart *part, bool is_word, const Datum *values,
						int from, int to, uint16 *noted, int nnoted);
static void note_parts(GjExact *exact);
static void find_group(GjExact *exact, int n, const uint16 *rows, const int64 *codes,
					   const Datum *const *values, bool words, uint32 *numbers);
static void hash_rows(GjExact *exact, int n, const uint16 *rows, const int64 *codes,
					  const Datum *const *values, bool words, Datum *plain, uint32 *hashes);
static uint32 hash_element(GjExact *exact, int64 code, const Datum *values);
static bool parts_are_equal(GjExactPart *part, Datum value, Datum listed, bool of_row);
static bool call_equal(FmgrInfo *function, Oid collation, Datum left, Datum right);

static inline uint64 *
element_at(const GjExact *exact, uint32 number)
{
	return exact->elements + (Size) number * exact->width;
}

/*
 * Return the hash with which that of an element or a row with this code begins
 */
static inline uint64
exact_hash_code(const GjExact *exact, int64 code)
{
	return mix(exact->seed ^ (uint64) code);
}

/*
 * Return true if an element, like all others a pair, has this code and this rest
 */
static inline bool
is_pair(const GjExact *exact, uint32 number, int64 code, Datum rest)
{
	const GjExactPair *pair = (const GjExactPair *) exact->elements + number;

	return pair->code == code && pair->rest == DatumGetInt64(rest);
}

/*
 * Create an empty table in a memory context of its own below parent.  code_is_hash says that codes
 * are spread like hashes of the only part.  About this number of elements are expected.
 *
 * The functions of the parts must live as long.
 */
GjExact *
GjExactCreate(MemoryContext parent, int nparts, const GjExactPart *parts, bool code_is_hash,
			  uint64 expected)
{
	MemoryContext context = AllocSetContextCreate(parent, "gpujoin exact table",
												  ALLOCSET_SMALL_SIZES);
	GjExact    *exact = MemoryContextAllocZero(context, sizeof(GjExact));

	Assert(nparts > 0 && nparts <= INDEX_MAX_KEYS);
	Assert(!code_is_hash || nparts == 1);
	exact->context = context;
	exact->scratch = AllocSetContextCreate(context, "gpujoin exact search",
										   ALLOCSET_SMALL_SIZES);
	exact->nparts = nparts;
	exact->width = nparts + 1;
	exact->parts = MemoryContextAlloc(context, nparts * sizeof(GjExactPart));
	memcpy(exact->parts, parts, nparts * sizeof(GjExactPart));
	exact->entries_have_words = true;
	exact->noted_part = -1;
	for (int i = 0; i < nparts; i++)
	{
		/* equal values must have equal bytes, in entries, too */
		if (!code_is_hash && !parts[i].is_rest && !parts[i].is_padded &&
			GjExactPartIsBits(&parts[i]) && (exact->noted_part < 0 || parts[i].is_word))
			exact->noted_part = i;
		exact->has_datums |= !parts[i].is_word;
		exact->entries_have_words &= parts[i].is_word || parts[i].is_rest;
	}
	if (exact->has_datums)
		exact->data = GenerationContextCreate(context, "gpujoin exact values",
											  ALLOCSET_DEFAULT_SIZES);
	exact->has_pairs = nparts == 1;
	exact->code_only = code_is_hash;
	exact->expected = Min(expected, GJ_EXACT_MAX_EXPECTED);
	exact->seed = pg_prng_uint64(&pg_global_prng_state);
	return exact;
}

/*
 * Add an element, unless it is there, and return its number.  Its values are copied, unless they
 * are borrowed, that is, live as long as the table.
 */
uint32
GjExactAdd(GjExact *exact, int64 code, const Datum *values, bool borrowed, bool *found)
{
	MemoryContext old = MemoryContextSwitchTo(exact->scratch);
	Datum		plain[INDEX_MAX_KEYS];
	uint32		number;
	uint32		hash;
	uint32		nsame;

	enter_listed(exact);
	if (exact->nelements == exact->capacity)
		grow(exact);
	if (exact->cells == NULL)
		fill_cells(exact);
	for (int i = 0; i < exact->nparts; i++)
		plain[i] = plain_value(values[i], &exact->parts[i], code,
							   exact->parts[i].value_length);

	hash = hash_element(exact, code, plain);
	number = exact_find(exact, hash, code, plain, false, false, &nsame);
	*found = number != GJ_EXACT_NONE;
	if (!*found)
	{
		append(exact, code, plain, borrowed ? values : NULL);
		number = exact->nelements++;
		exact_enter(exact, hash, number);
	}
	if (nsame >= GJ_EXACT_MAX_SAME && exact->code_only)
		hash_parts_too(exact);

	MemoryContextSwitchTo(old);
	if (exact->has_datums)
		MemoryContextReset(exact->scratch);
	return number;
}

/*
 * Return the number of the element that equals these values, which are those of a row or of an
 * element, or GJ_EXACT_NONE.  *nsame becomes the number of others that have the same hash.
 *
 * pairs: all elements are pairs, and the value is a word.
 */
static pg_attribute_always_inline uint32
exact_find(GjExact *exact, uint32 hash, int64 code, const Datum *values, bool of_row, bool pairs,
		   uint32 *nsame)
{
	*nsame = 0;
	for (uint32 at = hash & exact->mask;; at = (at + 1) & exact->mask)
	{
		const Cell *cell = &exact->cells[at];

		if (cell->number == GJ_EXACT_NONE)
			return GJ_EXACT_NONE;
		if (cell->hash != hash)
			continue;
		if (pairs ? is_pair(exact, cell->number, code, values[0]) :
			is_equal(exact, element_at(exact, cell->number), code, values, of_row))
			return cell->number;
		if (++*nsame % GJ_EXACT_INTERVAL == 0)
			CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Add an element of a list, which may be there already
 */
void
GjExactList(GjExact *exact, int64 code, const Datum *values, bool borrowed)
{
	const GjExactPart *parts = exact->parts;
	Datum		plain[INDEX_MAX_KEYS];
	MemoryContext old;

	if (exact->nlisted == exact->capacity)
		grow(exact);
	if (exact->nparts == 1 && GjExactPartHasWord(parts, code))
	{
		uint64	   *element = element_at(exact, exact->nlisted++);

		element[0] = (uint64) code;
		element[1] = plain_value(values[0], parts, code, parts->value_length);
		return;
	}
	old = MemoryContextSwitchTo(exact->scratch);
	for (int i = 0; i < exact->nparts; i++)
		plain[i] = plain_value(values[i], &parts[i], code, parts[i].value_length);
	append(exact, code, plain, borrowed ? values : NULL);
	MemoryContextSwitchTo(old);
	if (exact->has_datums)
		MemoryContextReset(exact->scratch);
}

/*
 * Add n pairs of a list to a table of pairs
 */
void
GjExactListPairs(GjExact *exact, int n, const int64 *codes, const int64 *rests)
{
	GjExactPair *pairs;

	Assert(exact->has_pairs && exact->parts->is_word);
	while (exact->nlisted + n > exact->capacity)
		grow(exact);
	pairs = (GjExactPair *) element_at(exact, exact->nlisted);
	for (int i = 0; i < n; i++)
		pairs[i] = (GjExactPair) {codes[i], rests[i]};
	exact->nlisted += n;
}

/*
 * Append an element to the array, with copies of the values that are not borrowed
 */
static void
append(GjExact *exact, int64 code, const Datum *values, const Datum *borrowed)
{
	uint64	   *element = element_at(exact, exact->nlisted);
	MemoryContext old = exact->has_datums ? MemoryContextSwitchTo(exact->data) : NULL;

	element[0] = (uint64) code;
	for (int i = 0; i < exact->nparts; i++)
	{
		const GjExactPart *part = &exact->parts[i];
		bool		has_word = GjExactPartHasWord(part, code);

		exact->has_pairs &= has_word;
		element[i + 1] = has_word || (borrowed != NULL && borrowed[i] == values[i]) ? values[i] :
			datumCopy(values[i], part->value_byval, part->value_length);
	}
	if (exact->has_datums)
		MemoryContextSwitchTo(old);
	if (++exact->nlisted % GJ_EXACT_INTERVAL == 0)
		CHECK_FOR_INTERRUPTS();
}

/*
 * Enter the elements that have been listed, and drop those that are there already
 *
 * The array and the cells had room for all of them.  If few are left, both shrink.
 */
static void
enter_listed(GjExact *exact)
{
	uint32		next = exact->nelements;
	MemoryContext old;

	if (exact->nlisted == next)
		return;
	old = MemoryContextSwitchTo(exact->scratch);
	if (exact->cells == NULL)
		fill_cells(exact);
	while (next < exact->nlisted)
	{
		CHECK_FOR_INTERRUPTS();
		next = exact->has_pairs && exact->code_only ?
			enter_group(exact, next, Min(exact->nlisted - next, GJ_EXACT_GROUP), true) :
			enter_group(exact, next, Min(exact->nlisted - next, GJ_EXACT_GROUP), false);
		if (exact->has_datums)
			MemoryContextReset(exact->scratch);
	}
	exact->nlisted = exact->nelements;
	if (exact->nelements <= exact->capacity / 8 && exact->capacity > GJ_EXACT_MIN_CELLS / 2)
	{
		set_room(exact, Max(pg_nextpower2_64(exact->nelements * UINT64CONST(4)),
							GJ_EXACT_MIN_CELLS));
		fill_cells(exact);
	}
	MemoryContextSwitchTo(old);
}

/*
 * Enter up to n listed elements, from this one on.  Returns the number of the next one to be
 * entered.  Cache misses overlap: the cells of all of them are prefetched.
 *
 * pairs: all elements are pairs, and the hash is that of the code alone.
 */
static pg_attribute_always_inline uint32
enter_group(GjExact *exact, uint32 first, uint32 n, bool pairs)
{
	uint32		hashes[GJ_EXACT_GROUP];

	for (uint32 i = 0; i < n; i++)
	{
		const uint64 *element = element_at(exact, first + i);

		hashes[i] = pairs ? (uint32) (exact_hash_code(exact, (int64) element[0]) >> 32) :
			hash_element(exact, (int64) element[0], (const Datum *) element + 1);
		GjPrefetchForWrite(&exact->cells[hashes[i] & exact->mask]);
	}
	for (uint32 i = 0; i < n; i++)
	{
		uint64	   *element = element_at(exact, first + i);
		uint32		nsame;

		if (exact_find(exact, hashes[i], (int64) element[0], (const Datum *) element + 1, false,
					   pairs, &nsame) == GJ_EXACT_NONE)
		{
			if (exact->nelements < first + i)
				memcpy(element_at(exact, exact->nelements), element,
					   exact->width * sizeof(uint64));
			exact_enter(exact, hashes[i], exact->nelements++);
		}
		if (nsame >= GJ_EXACT_MAX_SAME && exact->code_only)
		{
			hash_parts_too(exact);
			return first + i + 1;
		}
	}
	return first + n;
}

/*
 * Return the bit of an element in the filter's byte for the cell where its search begins
 */
static inline uint8
filter_bit(uint32 hash)
{
	return 1 << (hash >> 29);
}

/*
 * Enter an element into an empty cell
 */
static void
exact_enter(GjExact *exact, uint32 hash, uint32 number)
{
	uint32		at = hash & exact->mask;

	while (exact->cells[at].number != GJ_EXACT_NONE)
		at = (at + 1) & exact->mask;
	exact->cells[at].hash = hash;
	exact->cells[at].number = number;
	if (!exact->code_only)
		exact->filter[hash & exact->mask] |= filter_bit(hash);
}

/*
 * Make room for more elements, and free the cells, which are too few
 */
static void
grow(GjExact *exact)
{
	uint64		ncells = exact->elements != NULL ? ((uint64) exact->mask + 1) * 2 :
		pg_nextpower2_64(Max(exact->expected * UINT64CONST(2), GJ_EXACT_MIN_CELLS));

	CHECK_FOR_INTERRUPTS();
	if (exact->nlisted >= GJ_EXACT_MAX_ELEMENTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a gpujoin key set cannot have more than %u values",
						GJ_EXACT_MAX_ELEMENTS)));
	set_room(exact, ncells);
}

/*
 * Make room for half as many elements as there will be cells, and free the cells
 */
static void
set_room(GjExact *exact, uint64 ncells)
{
	Size		element_bytes = exact->width * sizeof(uint64);

	if (exact->cells != NULL)
		pfree(exact->cells);
	if (exact->filter != NULL)
		pfree(exact->filter);
	exact->cells = NULL;
	exact->filter = NULL;
	exact->mask = (uint32) (ncells - 1);
	exact->capacity = (uint32) (ncells / 2);
	exact->elements = exact->elements == NULL ?
		MemoryContextAllocHuge(exact->context, exact->capacity * element_bytes) :
		repalloc_huge(exact->elements, exact->capacity * element_bytes);
}

/*
 * Enter all elements that are known to be distinct into empty cells
 */
static void
fill_cells(GjExact *exact)
{
	Size		ncells = (Size) exact->mask + 1;

	if (exact->cells == NULL)
		exact->cells = MemoryContextAllocHuge(exact->context, ncells * sizeof(Cell));
	for (Size i = 0; i < ncells; i++)
		exact->cells[i].number = GJ_EXACT_NONE;
	if (!exact->code_only)
		exact->filter = MemoryContextAllocExtended(exact->context, ncells,
												   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	for (uint32 number = 0; number < exact->nelements; number++)
	{
		const uint64 *element = element_at(exact, number);

		if (number % GJ_EXACT_INTERVAL == 0)
		{
			CHECK_FOR_INTERRUPTS();
			MemoryContextReset(exact->scratch);
		}
		exact_enter(exact, hash_element(exact, (int64) element[0], (const Datum *) element + 1),
					number);
	}
}

/*
 * Give up on hashing the code alone, because many values have the same one
 */
static void
hash_parts_too(GjExact *exact)
{
	MemoryContext old = MemoryContextSwitchTo(exact->scratch);

	exact->code_only = false;
	fill_cells(exact);
	MemoryContextSwitchTo(old);
}

/*
 * Return true if an element equals these values, which are those of a row, or of an element that
 * is to be added
 */
static pg_attribute_always_inline bool
is_equal(GjExact *exact, const uint64 *element, int64 code, const Datum *values, bool of_row)
{
	if (element[0] != (uint64) code)
		return false;
	for (int i = 0; i < exact->nparts; i++)
	{
		GjExactPart *part = &exact->parts[i];
		Datum		listed = (Datum) element[i + 1];

		if (GjExactPartHasWord(part, code) ? listed != values[i] :
			!parts_are_equal(part, values[i], listed, of_row))
			return false;
	}
	return true;
}

/*
 * Compare a value, which is that of a row or of an element that is to be added, with that of an
 * element
 */
static inline bool
parts_are_equal(GjExactPart *part, Datum value, Datum listed, bool of_row)
{
	if (part->is_uuid)
		return memcmp(DatumGetPointer(value), DatumGetPointer(listed), UUID_LEN) == 0;
	if (part->is_bytes)
		return bytes_are_equal(value, listed);
	if (of_row)
		return call_equal(&part->equal, part->collation, value, listed);
	return call_equal(&part->same, part->collation, listed, value);
}

/*
 * Call an operator, for which NULL counts as false
 */
static bool
call_equal(FmgrInfo *function, Oid collation, Datum left, Datum right)
{
	LOCAL_FCINFO(fcinfo, 2);
	Datum		result;

	InitFunctionCallInfoData(*fcinfo, function, 2, collation, NULL, NULL);
	fcinfo->args[0].value = left;
	fcinfo->args[0].isnull = false;
	fcinfo->args[1].value = right;
	fcinfo->args[1].isnull = false;
	result = FunctionCallInvoke(fcinfo);
	return !fcinfo->isnull && DatumGetBool(result);
}

/*
 * Return the number of the element that equals a row's values, or GJ_EXACT_NONE
 */
uint32
GjExactFind(GjExact *exact, int64 code, const Datum *values)
{
	const Datum *arrays[INDEX_MAX_KEYS];
	uint32		number;

	for (int i = 0; i < exact->nparts; i++)
		arrays[i] = &values[i];
	GjExactFindMany(exact, 1, &code, arrays, &number);
	return number;
}

/*
 * Find the elements that equal the values of n rows; values[] has an array for each part
 */
void
GjExactFindMany(GjExact *exact, int n, const int64 *codes, const Datum *const *values,
				uint32 *numbers)
{
	find_all(exact, n, codes, values, !exact->has_datums, false, numbers);
}

/*
 * Do the same for entries, whose key has no part but its rest.  If the code is a hash, where that
 * part would be a Datum, sets the number to GJ_EXACT_UNKNOWN.  Other numbers hold until the next
 * search of any kind.
 */
void
GjExactFindWords(GjExact *exact, int n, const int64 *codes, const Datum *const *values,
				 uint32 *numbers)
{
	if (n == 0 || !find_ordered(exact, n, codes, values[0], numbers))
		find_all(exact, n, codes, values, exact->entries_have_words, true, numbers);
}

/*
 * Find the elements of n rows
 *
 * words: all parts are words, except those of rows that are lacking a part.
 * of_entries: rows whose code is a hash lack the first part if it is a rest, and get
 * GJ_EXACT_UNKNOWN.  Most rows are in no element.
 */
static void
find_all(GjExact *exact, int n, const int64 *codes, const Datum *const *values, bool words,
		 bool of_entries, uint32 *numbers)
{
	MemoryContext old;
	int			most = GJ_EXACT_GROUP / exact->nparts;
	bool		all_pairs;

	enter_listed(exact);
	all_pairs = words && exact->has_pairs && exact->code_only && exact->nelements > 0;
	old = MemoryContextSwitchTo(exact->scratch);

	for (int start = 0; start < n; start += GJ_BATCH_ROWS)
	{
		const int64 *some = codes + start;
		const Datum *parts[INDEX_MAX_KEYS];
		uint32	   *found = numbers + start;
		uint16		heads[GJ_BATCH_ROWS + 1];
		uint16		others[GJ_BATCH_ROWS];
		const uint16 *rows = heads;
		int			end = Min(n - start, GJ_BATCH_ROWS);
		int			nheads;
		int			nrows;

		for (int k = 0; k < exact->nparts; k++)
			parts[k] = values[k] + start;
		nheads = end;
		nrows = of_entries && exact->noted_part >= 0 ?
			list_noted(exact, end, some, parts[exact->noted_part], others, found) : -1;
		if (nrows < 0)
			nrows = nheads = list_heads(exact->nparts, end, some, parts, heads);
		else
			rows = others;
		if (of_entries && exact->parts[0].is_rest)
		{
			nrows = drop_hashes(some, rows, nrows, others, found);
			rows = others;
		}
		for (int at = 0; at < nrows; at += most)
		{
			CHECK_FOR_INTERRUPTS();
			if (all_pairs)
				find_pairs(exact, Min(nrows - at, most), rows + at, some, parts[0], found);
			else
				find_group(exact, Min(nrows - at, most), rows + at, some, parts, words, found);
			if (exact->has_datums)
				MemoryContextReset(exact->scratch);
		}

		heads[nheads] = end;
		for (int i = 0; i < nheads && nheads < end; i++)
		{
			uint32		number = found[heads[i]];

			for (int row = heads[i] + 1; row < heads[i + 1]; row++)
				found[row] = number;
		}
	}
	MemoryContextSwitchTo(old);
}

/*
 * List those of n rows that have another code, or other parts, than the row before, and return
 * their number
 */
static int
list_heads(int nparts, int n, const int64 *codes, const Datum *const *values, uint16 *heads)
{
	const Datum *first = values[0];
	int			nheads = 1;

	heads[0] = 0;
	if (nparts == 1)
	{
		for (int i = 1; i < n; i++)
		{
			heads[nheads] = i;
			nheads += ((uint64) (codes[i] ^ codes[i - 1]) | (first[i] ^ first[i - 1])) != 0;
		}
		return nheads;
	}
	for (int i = 1; i < n; i++)
	{
		bool		differs = codes[i] != codes[i - 1];

		for (int k = 0; k < nparts; k++)
			differs |= values[k][i] != values[k][i - 1];
		heads[nheads] = i;
		nheads += differs;
	}
	return nheads;
}

/*
 * Set the numbers of those of the listed rows whose code is a hash, and list the others
 */
static int
drop_hashes(const int64 *codes, const uint16 *rows, int n, uint16 *others, uint32 *numbers)
{
	int			nkept = 0;

	for (int i = 0; i < n; i++)
	{
		if (GjCodeIsHash(codes[rows[i]]))
			numbers[rows[i]] = GJ_EXACT_UNKNOWN;
		else
			others[nkept++] = rows[i];
	}
	return nkept;
}

/*
 * Return the cell of a code, which may be empty
 */
static inline CodeParts *
find_noted(const GjExact *exact, int64 code)
{
	uint32		at = (uint32) exact_hash_code(exact, code) & exact->noted_mask;

	while (exact->noted[at].bits != 0 && exact->noted[at].code != code)
		at = (at + 1) & exact->noted_mask;
	return &exact->noted[at];
}

/*
 * Return the number of the bit of a part's value, which other values may share
 */
static inline int
noted_bit(const GjExactPart *part, bool is_word, Datum value)
{
	uint64		word = is_word ? value : part->is_uuid ? hash_uuid(0, value) :
		hash_varlena(0, value);

	return word * UINT64CONST(0x9E3779B97F4A7C15) >> 58;
}

/*
 * List the rows whose part is noted for their code, return their number, and set the numbers of the
 * others; returns -1 if many rows have another code than the row before
 */
static int
list_noted(GjExact *exact, int n, const int64 *codes, const Datum *values, uint16 *noted,
		   uint32 *numbers)
{
	const GjExactPart *part = &exact->parts[exact->noted_part];
	uint16		runs[GJ_BATCH_ROWS + 1];
	int			nruns = 1;
	int			nnoted = 0;

	runs[0] = 0;
	for (int i = 1; i < n; i++)
	{
		runs[nruns] = i;
		nruns += codes[i] != codes[i - 1];
	}
	runs[nruns] = n;
	if (nruns * GJ_EXACT_RUN > n || exact->nelements == 0)
		return -1;
	if (exact->nnoted < exact->nelements)
		note_parts(exact);

	for (int i = 0; i < n; i++)
		numbers[i] = GJ_EXACT_NONE;
	for (int run = 0; run < nruns; run++)
		GjPrefetch(&exact->noted[(uint32) exact_hash_code(exact, codes[runs[run]]) &
								 exact->noted_mask]);
	for (int run = 0; run < nruns; run++)
	{
		uint64		bits = find_noted(exact, codes[runs[run]])->bits;

		nnoted = part->is_word ?
			list_of_run(bits, part, true, values, runs[run], runs[run + 1], noted, nnoted) :
			list_of_run(bits, part, false, values, runs[run], runs[run + 1], noted, nnoted);
	}
	return nnoted;
}

/*
 * Append the rows of a run of one code whose bits are among these; returns the new number of rows
 */
static pg_attribute_always_inline int
list_of_run(uint64 bits, const GjExactPart *part, bool is_word, const Datum *values, int from,
			int to, uint16 *noted, int nnoted)
{
	for (int i = from; i < to; i++)
	{
		noted[nnoted] = i;
		nnoted += bits >> noted_bit(part, is_word, values[i]) & 1;
	}
	return nnoted;
}

/*
 * Note a part of each new element for its code
 */
static void
note_parts(GjExact *exact)
{
	const GjExactPart *part = &exact->parts[exact->noted_part];
	uint64		ncells = pg_nextpower2_64(Max(exact->nelements * UINT64CONST(4) / 3,
											  GJ_EXACT_MIN_CELLS));

	if (exact->noted == NULL || ncells > (uint64) exact->noted_mask + 1)
	{
		if (exact->noted != NULL)
			pfree(exact->noted);
		exact->noted = MemoryContextAllocExtended(exact->context, ncells * sizeof(CodeParts),
												  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
		exact->noted_mask = (uint32) (ncells - 1);
		exact->nnoted = 0;
	}
	for (; exact->nnoted < exact->nelements; exact->nnoted++)
	{
		const uint64 *element = element_at(exact, exact->nnoted);
		CodeParts  *cell = find_noted(exact, (int64) element[0]);

		if (exact->nnoted % GJ_EXACT_INTERVAL == 0)
			CHECK_FOR_INTERRUPTS();
		cell->code = (int64) element[0];
		cell->bits |= UINT64CONST(1) << noted_bit(part, part->is_word,
												  (Datum) element[exact->noted_part + 1]);
	}
}

/*
 * Prefetch what the Datums of an element point to
 */
static inline void
prefetch_datums(const GjExact *exact, const uint64 *element)
{
	for (int i = 0; i < exact->nparts; i++)
	{
		const GjExactPart *part = &exact->parts[i];

		if (!GjExactPartHasWord(part, (int64) element[0]) && !part->value_byval)
			GjPrefetch(DatumGetPointer((Datum) element[i + 1]));
	}
}

/*
 * Find the elements of the listed rows
 *
 * Cache misses overlap: the bytes of the filter of all of them are prefetched, if there is one,
 * then the cells of those that pass, then the elements.
 */
static void
find_group(GjExact *exact, int n, const uint16 *rows, const int64 *codes,
		   const Datum *const *values, bool words, uint32 *numbers)
{
	Datum		plain[GJ_EXACT_GROUP];
	uint32		hashes[GJ_EXACT_GROUP];
	uint16		passing[GJ_EXACT_GROUP];
	int			nparts = exact->nparts;
	int			npassing = 0;
	uint32		nsame;

	for (int i = 0; i < n; i++)
		numbers[rows[i]] = GJ_EXACT_NONE;
	if (exact->nelements == 0)
		return;

	if (words)
		hash_rows(exact, n, rows, codes, values, true, plain, hashes);
	else
		hash_rows(exact, n, rows, codes, values, false, plain, hashes);
	for (int i = 0; i < n; i++)
	{
		passing[npassing] = i;
		npassing += exact->code_only ||
			(exact->filter[hashes[i] & exact->mask] & filter_bit(hashes[i])) != 0;
	}
	for (int i = 0; i < npassing && !exact->code_only; i++)
		GjPrefetch(&exact->cells[hashes[passing[i]] & exact->mask]);
	for (int i = 0; i < npassing; i++)
	{
		const Cell *cell = &exact->cells[hashes[passing[i]] & exact->mask];

		if (cell->hash == hashes[passing[i]] && cell->number != GJ_EXACT_NONE)
			GjPrefetch(element_at(exact, cell->number));
	}
	for (int i = 0; i < npassing && !words; i++)
	{
		const Cell *cell = &exact->cells[hashes[passing[i]] & exact->mask];

		if (cell->hash == hashes[passing[i]] && cell->number != GJ_EXACT_NONE)
			prefetch_datums(exact, element_at(exact, cell->number));
	}
	for (int i = 0; i < npassing; i++)
	{
		int			row = passing[i];

		numbers[rows[row]] = exact_find(exact, hashes[row], codes[rows[row]], &plain[row * nparts],
										true, false, &nsame);
	}
}

/*
 * Find entries in a list of pairs that have no cells, by merging both.  Returns false if entries or
 * pairs are not in order.
 */
static bool
find_ordered(GjExact *exact, int n, const int64 *codes, const Datum *rests, uint32 *numbers)
{
	const GjExactPair *pairs = (const GjExactPair *) exact->elements;
	bool		may_be_hash = exact->parts[0].is_rest;
	uint32		end = exact->nlisted;
	uint32		at;

	if (!is_ordered(exact))
		return false;
	at = lower_bound(pairs, 0, end, codes[0], PG_INT64_MIN);
	for (int i = 0; i < n; i++)
	{
		int64		code = codes[i];
		int64		rest = DatumGetInt64(rests[i]);
		uint32		number;

		if (i > 0 && code < codes[i - 1])
			return false;
		if (at < end && pairs[at].code < code && ++at < end && pairs[at].code < code)
			at = lower_bound(pairs, at, end, code, PG_INT64_MIN);
		number = at;
		if (at + 1 < end && pairs[at + 1].code == code)
			number = lower_bound(pairs, at, end, code, rest);
		numbers[i] = may_be_hash && GjCodeIsHash(code) ? GJ_EXACT_UNKNOWN :
			number < end && is_pair(exact, number, code, rest) ? number : GJ_EXACT_NONE;
	}
	return true;
}

/*
 * Return true if all elements are pairs in ascending order, none of which has a cell
 */
static bool
is_ordered(GjExact *exact)
{
	const GjExactPair *pairs = (const GjExactPair *) exact->elements;

	if (!exact->has_pairs || !exact->code_only || exact->nelements > 0 || exact->nlisted == 0)
		return false;
	if (exact->nordered != exact->nlisted && GjPairsAscend(pairs, exact->nlisted))
		exact->nordered = exact->nlisted;
	return exact->nordered == exact->nlisted;
}

/*
 * Return the number of the first pair from low on that is not below the given one, or high
 */
static uint32
lower_bound(const GjExactPair *pairs, uint32 low, uint32 high, int64 code, int64 rest)
{
	GjExactPair pair = {code, rest};

	while (low < high)
	{
		uint32		middle = low + (high - low) / 2;

		if (GjComparePairs(&pairs[middle], &pair) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Find the pairs of the listed rows in a table of pairs
 */
static void
find_pairs(GjExact *exact, int n, const uint16 *rows, const int64 *codes, const Datum *rests,
		   uint32 *numbers)
{
	uint32		hashes[GJ_EXACT_GROUP];
	uint32		nsame;

	for (int i = 0; i < n; i++)
	{
		hashes[i] = (uint32) (exact_hash_code(exact, codes[rows[i]]) >> 32);
		GjPrefetch(&exact->cells[hashes[i] & exact->mask]);
	}
	for (int i = 0; i < n; i++)
	{
		const Cell *cell = &exact->cells[hashes[i] & exact->mask];

		if (cell->number != GJ_EXACT_NONE)
			GjPrefetch(element_at(exact, cell->number));
	}
	for (int i = 0; i < n; i++)
		numbers[rows[i]] = exact_find(exact, hashes[i], codes[rows[i]], &rests[rows[i]], true, true,
									  &nsame);
}

/*
 * Prefetch the cell of an element that will be added soon
 */
void
GjExactPrefetch(const GjExact *exact, int64 code)
{
	uint32		hash = (uint32) (exact_hash_code(exact, code) >> 32);

	if (exact->code_only && exact->cells != NULL)
		GjPrefetchForWrite(&exact->cells[hash & exact->mask]);
}

/*
 * Hash the values of an element or a row, all of which may be words
 */
static pg_attribute_always_inline uint32
hash_values(GjExact *exact, uint64 hash, int64 code, const Datum *values, bool words, bool of_row)
{
	for (int i = 0; i < exact->nparts && !exact->code_only; i++)
	{
		GjExactPart *part = &exact->parts[i];
		uint64		value;

		if (words || GjExactPartHasWord(part, code))
			value = values[i];
		else if (part->is_uuid)
			value = hash_uuid(hash, values[i]);
		else if (part->is_bytes)
			value = hash_varlena(hash, values[i]);
		else
			value = DatumGetUInt64(FunctionCall2Coll(of_row ? &part->row_hash : &part->value_hash,
													 part->collation, values[i],
													 UInt64GetDatum(exact->seed)));
		hash = mix(hash + value);
	}
	return (uint32) (hash >> 32);
}

/*
 * Read the parts of the listed rows, all of which may be words, and hash them.  Other parts are
 * detoasted.
 */
static pg_attribute_always_inline void
hash_rows(GjExact *exact, int n, const uint16 *rows, const int64 *codes,
		  const Datum *const *values, bool words, Datum *plain, uint32 *hashes)
{
	uint64		of_code = 0;

	for (int i = 0; i < n; i++, plain += exact->nparts)
	{
		int			row = rows[i];

		if (i == 0 || codes[row] != codes[rows[i - 1]])
			of_code = exact_hash_code(exact, codes[row]);
		for (int k = 0; k < exact->nparts; k++)
		{
			const GjExactPart *part = &exact->parts[k];

			if (words)
				plain[k] = part->is_word ? to_word(values[k][row], part->row_length) :
					values[k][row];
			else
				plain[k] = plain_value(values[k][row], part, codes[row], part->row_length);
		}
		hashes[i] = hash_values(exact, of_code, codes[row], plain, words, true);
		if (exact->code_only)
			GjPrefetch(&exact->cells[hashes[i] & exact->mask]);
		else
			GjPrefetch(&exact->filter[hashes[i] & exact->mask]);
	}
}

static uint32
hash_element(GjExact *exact, int64 code, const Datum *values)
{
	return hash_values(exact, exact_hash_code(exact, code), code, values, false, false);
}

uint32
GjExactCount(const GjExact *exact)
{
	return exact->nlisted;
}

/*
 * Return the code of an element
 */
int64
GjExactCode(const GjExact *exact, uint32 number)
{
	Assert(number < exact->nlisted);
	return (int64) element_at(exact, number)[0];
}

/*
 * Return the elements; listed ones may be equal.  Returns NULL if there are no elements, or if any
 * has other parts than one word, like that of a key whose code is a hash.
 */
const GjExactPair *
GjExactPairs(const GjExact *exact, uint32 *n)
{
	*n = exact->nlisted;
	return exact->has_pairs ? (const GjExactPair *) exact->elements : NULL;
}

/*
 * Return the elements likewise, to be put into another order; NULL if some have numbers already
 */
GjExactPair *
GjExactListed(GjExact *exact, uint32 *n)
{
	*n = exact->nlisted;
	return exact->has_pairs && exact->nelements == 0 ? (GjExactPair *) exact->elements : NULL;
}

/*
 * Give the table to another memory context
 */
void
GjExactMove(GjExact *exact, MemoryContext parent)
{
	MemoryContextSetParent(exact->context, parent);
}
