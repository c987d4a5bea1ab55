/*-------------------------------------------------------------------------
 *
 * distinct.c
 *	  Values that count(DISTINCT) has seen: a set of (group, value), with open addressing.
 *
 * There is one set for all groups of an aggregate, because one per group would mean many tiny
 * sets.  Entries identify groups by number.  Without groups, values that are close together are
 * stored as bits instead (see "Bits" below).  Entries that do not fit in memory are spilled (see
 * "Spilling values" below).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"

#include "base/prefetch.h"
#include "groupparts.h"

/* Slots up to this size fit in the cache, and are not prefetched */
#define GJ_CACHED_SIZE			((Size) 256 * 1024)

/* Maximum range: half a megabyte of bits */
#define GJ_MAX_BITS				((uint64) 1 << 22)

#define GJ_FIRST_BITS			((uint64) 1 << 12)

#define WORD_BITS				64

#define GJ_DISTINCT_ROWS		256 /* rows entered at once */

#define MAX_WORDS				3	/* of an entry */

/*
 * The set of values seen, for each group.  A narrow entry is one word: the group number plus 1 in
 * its upper half and a value of up to four bytes in the lower one, or just the value if there are
 * no groups.  A wide entry has two words, or three if values are pairs of words.  A word of zeros
 * (the last one of a wide entry) is a free slot; without groups, the value zero is recorded
 * separately in has_zero.  All entries of pairs are wide: without groups, the last word is 1.
 */
struct GjDistinct
{
	MemoryContext context;
	GjSeed		seed;			/* of the hash; it does not change while entries are spilled */
	bool		is_grouped;
	bool		is_wide;
	bool		is_pair;		/* are values pairs of words? */
	int			nwords;			/* of an entry */
	uint16		width;			/* width of the values */
	bool		has_zero;
	bool		has_bits;		/* are bits used instead of slots? */
	GjRegion	bits;
	int64		bits_low;		/* value of the first bit */
	uint64		nbits;
	GjRegion	slots;
	uint64		nslots;			/* a power of two */
	uint64		nused;
	uint64	   *batch_entries;
	uint64	   *batch_hashes;

	Size		room;			/* memory limit, in bytes */
	bool		is_full;		/* accepts no more entries, others are spilled */
	GjSpill    *spill;
};

static void clear(GjDistinct *set);
static bool values_grow(GjDistinct *set);
static void grow_to(GjDistinct *set, uint64 nslots);
static void add_new(GjDistinct *set, const uint32 *groups, int nrows, int64 *counts,
					const int nwords);
static bool leave_bits(GjDistinct *set, int nrows);
static int	add_from(GjDistinct *set, const GjAggInput *input, int row, int64 *count);
static void values_find_range(const GjDistinct *set, const GjAggInput *input, int64 *low,
							  int64 *high);
static bool cover(GjDistinct *set, int64 low, int64 high);
static uint64 most_bits(const GjDistinct *set);
static bool begin_bits(GjDistinct *set, int64 low, uint64 nbits);
static void values_move_to(GjDistinct *set, int64 low, uint64 nbits);
static void add_rows(GjDistinct *set, const GjAggInput *input, int64 *counts);
static void spill_entries(GjDistinct *set, const uint16 *rows, int n);
static void add_part(GjDistinct *set, Size room, int64 *counts);
static int64 *count_of(const GjDistinct *set, int row, int64 *counts);
static void distinct_fill(GjDistinct *set, Size room);
static void distinct_find_zero(GjDistinct *set, int nrows, int64 *counts);
static void distinct_make_entries(GjDistinct *set, const GjAggInput *input, int first, int nrows);
static void distinct_hash_entries(GjDistinct *set, int nrows);
static bool distinct_has(const GjDistinct *set, int row);
static int	distinct_enter(GjDistinct *set, int row);
static bool bits_add(GjDistinct *set, const GjAggInput *input, int64 *count);
static int	bits_add_covered(GjDistinct *set, const GjAggInput *input, int64 *count, uint16 *rest);
static uint64 bits_count(const GjDistinct *set);
static bool bits_next(const GjDistinct *set, uint64 *at, int64 *value);
static void bits_free(GjDistinct *set);
static void distinct_add_to_full(GjDistinct *set, const GjAggInput *input, int64 *counts);

static inline Size
slot_size(const GjDistinct *set)
{
	return set->nwords * sizeof(uint64);
}

static inline bool
has_bits(const GjDistinct *set)
{
	return !set->is_grouped && !set->is_pair;
}

GjDistinct *
GjDistinctCreate(MemoryContext context, GjSpillFile *file, bool is_grouped, uint16 width,
				 bool is_pair)
{
	GjDistinct *set = MemoryContextAllocZero(context, sizeof(GjDistinct));

	set->context = context;
	set->seed = GjSeedCreate();
	set->is_grouped = is_grouped;
	set->width = width;
	set->is_pair = is_pair;
	set->is_wide = is_pair || (is_grouped && width == sizeof(uint64));
	set->nwords = is_pair ? 3 : set->is_wide ? 2 : 1;
	set->has_bits = has_bits(set);
	set->batch_entries = MemoryContextAlloc(context, GJ_DISTINCT_ROWS * MAX_WORDS * sizeof(uint64));
	set->batch_hashes = MemoryContextAlloc(context, GJ_DISTINCT_ROWS * sizeof(uint64));
	set->spill = GjSpillCreate(context, file, slot_size(set));
	return set;
}

/*
 * Forget all entries, whether spilled or not
 */
void
GjDistinctClear(GjDistinct *set)
{
	GjSpillForget(set->spill);
	clear(set);
}

/*
 * Forget all entries except spilled ones.  Keep the memory if it is small.
 */
static void
clear(GjDistinct *set)
{
	set->nused = 0;
	set->has_zero = false;
	set->has_bits = has_bits(set);
	set->is_full = false;
	bits_free(set);
	if (set->nslots > GJ_DISTINCT_FLOOR)
	{
		GjRegionFree(&set->slots);
		set->nslots = 0;
	}
	else if (set->nslots > 0)
		memset(set->slots.start, 0, set->slots.size);
}

Size
GjDistinctMemory(const GjDistinct *set)
{
	return set->slots.size + set->bits.size;
}

/*
 * Return how many seeds have been replaced
 */
int
GjDistinctReseeds(const GjDistinct *set)
{
	return set->seed.nreplaced;
}

/*
 * Prepare to add nrows rows, using at most `room` bytes in all
 */
void
GjDistinctMakeRoom(GjDistinct *set, int nrows, Size room)
{
	set->room = room;
	if (set->seed.is_bad && !set->is_full && 2 * set->slots.size <= room)
	{
		GjSeedReplace(&set->seed);
		grow_to(set, set->nslots);
	}
	while (!set->has_bits && !set->is_full && (set->nused + nrows) * 2 > set->nslots)
	{
		if (values_grow(set))
			continue;
		/* fuller than is good for speed, but still usable */
		if ((set->nused + nrows) * 4 <= set->nslots * 3)
			return;
		distinct_fill(set, room);
	}
}

/*
 * Accept no more entries.  Entries spilled from now on are equal to none in the set, so the set
 * can be forgotten, once counted, before they are read.
 */
static void
distinct_fill(GjDistinct *set, Size room)
{
	set->is_full = true;
	if (!GjSpillBegin(set->spill, GJ_DISTINCT_PARTS, (int) Min(room / 8 / BLCKSZ, INT_MAX)))
		elog(ERROR, "cannot divide values by hash any further");
}

/*
 * The functions of entries are made for each number of words, which is constant in their loops
 */
#define BY_WORDS(set, call) \
	((set)->nwords == 1 ? call(1) : (set)->nwords == 2 ? call(2) : call(3))

static pg_attribute_always_inline uint64
hash_entry(const GjDistinct *set, const uint64 *entry, const int nwords)
{
	uint64		hash = set->seed.value;

	for (int word = 0; word < nwords; word++)
		hash = GjHashStep(hash, entry[word]);
	return GjHashFinish(hash);
}

static pg_attribute_always_inline bool
entries_differ(const uint64 *a, const uint64 *b, const int nwords)
{
	uint64		difference = 0;

	for (int word = 0; word < nwords; word++)
		difference |= a[word] ^ b[word];
	return difference != 0;
}

/* Enter an entry, unless it exists.  Returns 1 if it was added, else 0. */
static pg_attribute_always_inline int
put_entry(GjDistinct *set, const uint64 *entry, uint64 hash, const int nwords)
{
	uint64	   *slots = (uint64 *) set->slots.start;
	uint64		mask = set->nslots - 1;
	uint64		at = hash & mask;

	while (slots[at * nwords + nwords - 1] != 0)
	{
		if (!entries_differ(&slots[at * nwords], entry, nwords))
			return 0;
		GjSeedNote(&set->seed, (at - hash) & mask);
		at = (at + 1) & mask;
	}
	memcpy(&slots[at * nwords], entry, nwords * sizeof(uint64));
	return 1;
}

static pg_attribute_always_inline bool
has_entry(const GjDistinct *set, const uint64 *entry, uint64 hash, const int nwords)
{
	const uint64 *slots = (const uint64 *) set->slots.start;
	uint64		mask = set->nslots - 1;
	uint64		at = hash & mask;

	for (; slots[at * nwords + nwords - 1] != 0; at = (at + 1) & mask)
	{
		if (!entries_differ(&slots[at * nwords], entry, nwords))
			return true;
		GjProbeNote((at - hash) & mask);
	}
	return false;
}

/* Enter the entries of slots */
static pg_attribute_always_inline void
put_slots(GjDistinct *set, const uint64 *from, uint64 nslots, const int nwords)
{
	for (uint64 i = 0; i < nslots; i++, from += nwords)
	{
		if (i % GJ_UNINTERRUPTED_SLOTS == 0)
			CHECK_FOR_INTERRUPTS();
		if (from[nwords - 1] != 0)
			(void) put_entry(set, from, hash_entry(set, from, nwords), nwords);
	}
}

/*
 * Add slots, if there is enough memory for them and, during copying, the old ones.  A small set
 * grows faster, because it will probably become large, and each step copies.
 */
static bool
values_grow(GjDistinct *set)
{
	uint64		nslots = Max(set->nslots, GJ_DISTINCT_FLOOR / 4);

	for (int times = nslots < 32 * GJ_DISTINCT_FLOOR ? 4 : 2; times > 1; times /= 2)
	{
		if (nslots * times <= GJ_DISTINCT_FLOOR || !GjSpillCanBegin(set->spill) ||
			set->slots.size + nslots * times * slot_size(set) <= set->room)
		{
			grow_to(set, nslots * times);
			return true;
		}
	}
	return false;
}

static void
grow_to(GjDistinct *set, uint64 nslots)
{
	GjRegion	old = set->slots;
	uint64		nold = set->nslots;

	CHECK_FOR_INTERRUPTS();
	set->nslots = nslots;
	GjRegionAllocate(&set->slots, set->context, set->nslots * slot_size(set));
	memset(set->slots.start, 0, set->slots.size);
#define ADD_SLOTS(nwords) put_slots(set, (const uint64 *) old.start, nold, nwords)
	BY_WORDS(set, ADD_SLOTS);
	GjRegionFree(&old);
}

/*
 * Move the values from the bits to the table, with room for nrows more.  Returns false, and keeps
 * the bits, if there is not enough memory.
 */
static bool
leave_bits(GjDistinct *set, int nrows)
{
	uint64		nvalues = bits_count(set);
	uint64		nslots = GJ_DISTINCT_FLOOR;
	uint64		mask = set->width < sizeof(uint64) ?
		((uint64) 1 << (set->width * BITS_PER_BYTE)) - 1 : PG_UINT64_MAX;
	uint64		at = 0;
	int64		value;

	while ((nvalues + nrows) * 2 > nslots)
		nslots *= 2;
	if (nslots > GJ_DISTINCT_FLOOR && set->bits.size + nslots * slot_size(set) > set->room)
		return false;
	set->has_bits = false;
	if (nslots > set->nslots)
		grow_to(set, nslots);
	while (bits_next(set, &at, &value))
	{
		uint64		entry = (uint64) value & mask;

		if (entry == 0)
			set->has_zero = true;
		else
			set->nused += put_entry(set, &entry, hash_entry(set, &entry, 1), 1);
	}
	bits_free(set);
	return true;
}

/*
 * Add values of rows, for which there is room, and count those that are new to their groups
 */
void
GjDistinctAdd(GjDistinct *set, const GjAggInput *input, int64 *counts)
{
	if (set->has_bits && !set->is_full)
	{
		if (bits_add(set, input, counts))
			return;
		if (!leave_bits(set, input->nrows))
			distinct_fill(set, set->room);
	}
	if (set->is_full)
	{
		distinct_add_to_full(set, input, counts);
		return;
	}
	for (int first = 0; first < input->nrows; first += GJ_DISTINCT_ROWS)
	{
		int			nrows = Min(GJ_DISTINCT_ROWS, input->nrows - first);
		const uint32 *groups = input->groups == NULL ? NULL : input->groups + first;

		distinct_make_entries(set, input, first, nrows);
#define ADD_ROWS(nwords) add_new(set, groups, nrows, counts, nwords)
		BY_WORDS(set, ADD_ROWS);
		if (!set->is_wide && !set->is_grouped && !set->has_zero)
			distinct_find_zero(set, nrows, counts);
	}
}

/*
 * Enter the entries of rows.  First look them up in their first slots only, without branches: most
 * values repeat.  A zero entry, which is never entered, matches any free slot.
 */
static pg_attribute_always_inline void
add_new(GjDistinct *set, const uint32 *groups, int nrows, int64 *counts, const int nwords)
{
	const uint64 *slots = (const uint64 *) set->slots.start;
	const uint64 *entries = set->batch_entries;
	const uint64 *hashes = set->batch_hashes;
	uint64		mask = set->nslots - 1;
	uint16		missed[GJ_DISTINCT_ROWS];
	int			nmissed = 0;

	if (set->slots.size > GJ_CACHED_SIZE)
	{
		for (int i = 0; i < nrows; i++)
			GjPrefetchForWrite(&slots[(hashes[i] & mask) * nwords]);
	}
	for (int i = 0; i < nrows; i++)
	{
		const uint64 *slot = &slots[(hashes[i] & mask) * nwords];

		missed[nmissed] = i;
		nmissed += entries_differ(slot, &entries[i * nwords], nwords);
	}
	for (int i = 0; i < nmissed; i++)
	{
		const uint64 *entry = &entries[missed[i] * nwords];
		int			added = entry[nwords - 1] == 0 ? 0 :
			put_entry(set, entry, hashes[missed[i]], nwords);

		set->nused += added;
		counts[groups == NULL ? 0 : groups[missed[i]]] += added;
	}
}

/*
 * Handle the value zero, which without groups looks like a free slot
 */
static void
distinct_find_zero(GjDistinct *set, int nrows, int64 *counts)
{
	for (int i = 0; i < nrows && !set->has_zero; i++)
	{
		if (set->batch_entries[i] == 0)
		{
			set->has_zero = true;
			counts[0]++;
		}
	}
}

#define MAKE_ENTRIES(type) \
	do { \
		const type *values = (const type *) input->values + first; \
		if (groups == NULL) \
		{ \
			for (int i = 0; i < nrows; i++) \
				entries[i] = values[i]; \
		} \
		else \
		{ \
			for (int i = 0; i < nrows; i++) \
				entries[i] = ((uint64) groups[i] + 1) << 32 | values[i]; \
		} \
	} while (0)

/*
 * Build the entries of rows, and their hashes
 */
static void
distinct_make_entries(GjDistinct *set, const GjAggInput *input, int first, int nrows)
{
	const uint32 *groups = input->groups == NULL ? NULL : input->groups + first;
	uint64	   *entries = set->batch_entries;

	if (set->is_pair)
	{
		for (int i = 0; i < nrows; i++)
		{
			entries[i * 3] = ((const uint64 *) input->values)[first + i];
			entries[i * 3 + 1] = ((const uint64 *) input->seconds)[first + i];
			entries[i * 3 + 2] = groups == NULL ? 1 : (uint64) groups[i] + 1;
		}
	}
	else if (set->is_wide)
	{
		for (int i = 0; i < nrows; i++)
		{
			entries[i * 2] = ((const uint64 *) input->values)[first + i];
			entries[i * 2 + 1] = (uint64) groups[i] + 1;
		}
	}
	else
		GJ_BY_WIDTH(set->width, MAKE_ENTRIES);	/* with groups, of at most four bytes */
	distinct_hash_entries(set, nrows);
}

static pg_attribute_always_inline void
hash_entries(GjDistinct *set, int nrows, const int nwords)
{
	for (int i = 0; i < nrows; i++)
		set->batch_hashes[i] = hash_entry(set, set->batch_entries + i * nwords, nwords);
}

/* Hash entries that have already been built */
static void
distinct_hash_entries(GjDistinct *set, int nrows)
{
#define HASH_ENTRIES(nwords) hash_entries(set, nrows, nwords)
	BY_WORDS(set, HASH_ENTRIES);
}

/*
 * Return true if the entry of a row exists
 */
static bool
distinct_has(const GjDistinct *set, int row)
{
#define HAS_ENTRY(nwords) \
	has_entry(set, set->batch_entries + row * (nwords), set->batch_hashes[row], nwords)
	return set->nslots > 0 && BY_WORDS(set, HAS_ENTRY);
}

/*
 * Add the entry of a row, for which there is room.  Returns 1 if it is new, else 0.
 */
static int
distinct_enter(GjDistinct *set, int row)
{
#define ADD_ENTRY(nwords) \
	put_entry(set, set->batch_entries + row * (nwords), set->batch_hashes[row], nwords)
	int			added = BY_WORDS(set, ADD_ENTRY);

	set->nused += added;
	return added;
}

/*-------------------------------------------------------------------------
 * Bits
 *
 * Without groups, values that are close together are stored as one bit each.  Company numbers or
 * days need only a few kilobytes, which stay in the cache, and no hash.  The bits cover the range
 * seen so far, until that is too wide; then the values move to the hash table for good.
 *
 * Values of all types are treated as signed integers of their width, because only their equality
 * matters.
 *-------------------------------------------------------------------------
 */

/*
 * Add values of rows and count those that are new.  Returns false if their range is too wide;
 * some may have been added by then, but adding all of them again does no harm.
 */
static bool
bits_add(GjDistinct *set, const GjAggInput *input, int64 *count)
{
	int			row = 0;
	int64		low;
	int64		high;

	while ((row = add_from(set, input, row, count)) < input->nrows)
	{
		values_find_range(set, input, &low, &high);
		if (!cover(set, low, high))
			return false;
	}
	return true;
}

#define ADD(type) \
	do { \
		const type *values = (const type *) input->values; \
		for (; row < nrows; row++) \
		{ \
			uint64		at = (uint64) values[row] - low; \
			uint64		bit = (uint64) 1 << (at % WORD_BITS); \
			if (unlikely(at >= nbits)) \
				break; \
			nnew += (words[at / WORD_BITS] & bit) == 0; \
			words[at / WORD_BITS] |= bit; \
		} \
	} while (0)

/*
 * Add values, starting at row.  Returns the first row whose value has no bit, or the number of
 * rows.  Computing the range first would take longer.
 */
static int
add_from(GjDistinct *set, const GjAggInput *input, int row, int64 *count)
{
	uint64	   *words = (uint64 *) set->bits.start;
	const uint64 low = (uint64) set->bits_low;
	const uint64 nbits = set->nbits;
	const int	nrows = input->nrows;
	int64		nnew = 0;

	GJ_BY_SIGNED_WIDTH(set->width, ADD);
	*count += nnew;
	return row;
}

#define ADD_COVERED(type) \
	do { \
		const type *values = (const type *) input->values; \
		for (int i = 0; i < input->nrows; i++) \
		{ \
			uint64		at = (uint64) values[i] - (uint64) set->bits_low; \
			uint64		bit = (uint64) 1 << (at % WORD_BITS); \
			rest[nrest] = i; \
			if (at >= set->nbits) \
				nrest++; \
			else \
			{ \
				nnew += (words[at / WORD_BITS] & bit) == 0; \
				words[at / WORD_BITS] |= bit; \
			} \
		} \
	} while (0)

/*
 * Add the values that have a bit. rest[] receives the rows of the others; returns their number.
 */
static int
bits_add_covered(GjDistinct *set, const GjAggInput *input, int64 *count, uint16 *rest)
{
	uint64	   *words = (uint64 *) set->bits.start;
	int64		nnew = 0;
	int			nrest = 0;

	GJ_BY_SIGNED_WIDTH(set->width, ADD_COVERED);
	*count += nnew;
	return nrest;
}

#define FIND_RANGE(type) \
	do { \
		const type *values = (const type *) input->values; \
		type		lowest = values[0]; \
		type		highest = values[0]; \
		for (int i = 1; i < input->nrows; i++) \
		{ \
			lowest = Min(lowest, values[i]); \
			highest = Max(highest, values[i]); \
		} \
		*low = lowest; \
		*high = highest; \
	} while (0)

static void
values_find_range(const GjDistinct *set, const GjAggInput *input, int64 *low, int64 *high)
{
	GJ_BY_SIGNED_WIDTH(set->width, FIND_RANGE);
}

/*
 * Return the maximum number of bits: those that fill half of the memory, because moving them
 * needs two copies
 */
static uint64
most_bits(const GjDistinct *set)
{
	return Max(GJ_FIRST_BITS, Min(GJ_MAX_BITS, set->room * BITS_PER_BYTE / 2));
}

/*
 * Extend the bits to cover a range.  Returns false if that would take too many.
 */
static bool
cover(GjDistinct *set, int64 low, int64 high)
{
	uint64		nbits = GJ_FIRST_BITS;
	uint64		needed;

	if (set->nbits > 0)
	{
		int64		last = set->bits_low + (int64) (set->nbits - 1);

		if (low >= set->bits_low && high <= last)
			return true;
		low = Min(low, set->bits_low);
		high = Max(high, last);
	}

	/* range minus 1, because the range itself may not fit */
	needed = (uint64) high - (uint64) low;
	if (needed >= most_bits(set) / 2)
		return false;
	while (nbits <= needed * 2)
		nbits *= 2;

	/* with equal spare room on both sides, within the limits of the type, moving whole words */
	low -= (int64) Min((nbits - needed) / 2, (uint64) low - (uint64) PG_INT64_MIN);
	low = Min(low, PG_INT64_MAX - (int64) (nbits - 1));
	values_move_to(set, low, nbits);
	return true;
}

/*
 * Add values that are given as bits, and count those that are new.  Returns false, and adds
 * nothing, if the set has no bits or not enough memory for these.
 */
bool
GjDistinctAddBits(GjDistinct *set, int64 low, const uint64 *words, uint64 nwords, Size room,
				  int64 *count)
{
	uint64		nbits = nwords * WORD_BITS;
	uint64	   *to;
	int			shift;

	set->room = room;
	if (!set->has_bits || set->is_full || nwords == 0 ||
		nbits - 1 > (uint64) PG_INT64_MAX - (uint64) low)
		return false;
	if (!(set->nbits == 0 ? begin_bits(set, low, nbits) :
		  cover(set, low, low + (int64) (nbits - 1))))
		return false;
	to = (uint64 *) set->bits.start + ((uint64) low - (uint64) set->bits_low) / WORD_BITS;
	shift = ((uint64) low - (uint64) set->bits_low) % WORD_BITS;
	for (uint64 i = 0; i < nwords; i++)
	{
		uint64		parts[2] = {words[i] << shift, shift > 0 ? words[i] >> (WORD_BITS - shift) : 0};

		for (int part = 0; part < 2; part++)
		{
			if (parts[part] == 0)
				continue;
			*count += pg_popcount64(parts[part] & ~to[i + part]);
			to[i + part] |= parts[part];
		}
	}
	return true;
}

/*
 * Begin with this range, which may be wider than that of values that are added one by one.  Returns
 * false if it takes more than half of the memory.
 */
static bool
begin_bits(GjDistinct *set, int64 low, uint64 nbits)
{
	if (nbits / BITS_PER_BYTE > Max(set->room, GJ_FIRST_BITS) / 2)
		return false;
	values_move_to(set, low, nbits);
	return true;
}

/*
 * Move the bits to another range, which contains the old one
 */
static void
values_move_to(GjDistinct *set, int64 low, uint64 nbits)
{
	GjRegion	old = set->bits;
	const uint64 *from = (const uint64 *) old.start;
	int64		old_low = set->bits_low;
	uint64		nwords = set->nbits / WORD_BITS;
	uint64	   *to;

	GjRegionAllocate(&set->bits, set->context, nbits / BITS_PER_BYTE);
	memset(set->bits.start, 0, set->bits.size);
	set->bits_low = low;
	set->nbits = nbits;

	to = (uint64 *) set->bits.start;
	for (uint64 i = 0; i < nwords; i++)
	{
		for (uint64 word = from[i]; word != 0; word &= word - 1)
		{
			uint64		at = (uint64) old_low - (uint64) low + i * WORD_BITS +
				pg_rightmost_one_pos64(word);

			to[at / WORD_BITS] |= (uint64) 1 << (at % WORD_BITS);
		}
	}
	GjRegionFree(&old);
}

/*
 * Return the number of bits set
 */
static uint64
bits_count(const GjDistinct *set)
{
	const uint64 *words = (const uint64 *) set->bits.start;
	uint64		n = 0;

	for (uint64 i = 0; i < set->nbits / WORD_BITS; i++)
		n += pg_popcount64(words[i]);
	return n;
}

/*
 * Get the next value at or after *at, and set *at to the position after it.  Returns false at the
 * end.
 */
static bool
bits_next(const GjDistinct *set, uint64 *at, int64 *value)
{
	const uint64 *words = (const uint64 *) set->bits.start;

	for (; *at < set->nbits; ++*at)
	{
		if ((words[*at / WORD_BITS] >> (*at % WORD_BITS) & 1) == 0)
			continue;
		*value = set->bits_low + (int64) (*at)++;
		return true;
	}
	return false;
}

/*
 * Forget all values
 */
static void
bits_free(GjDistinct *set)
{
	GjRegionFree(&set->bits);
	set->nbits = 0;
}

/*-------------------------------------------------------------------------
 * Spilling values
 *
 * A set that may not grow is full: its values can still be looked up, and entries of other values
 * are spilled.  When all rows have been added, the values of the set have been counted and can be
 * forgotten; then the spilled entries are added to it and counted, part by part.  Entries refer
 * to groups by number, so this must happen before the groups are delivered.
 *
 * Without groups, the bits are kept when the set is full, because they accept values of their
 * range without growing: only other values are spilled.
 *-------------------------------------------------------------------------
 */

/*
 * Add values of rows to a set that is full
 */
static void
distinct_add_to_full(GjDistinct *set, const GjAggInput *input, int64 *counts)
{
	uint64		values[GJ_BATCH_ROWS];
	uint16		rest[GJ_BATCH_ROWS];
	GjAggInput	others = *input;

	if (set->has_bits)
	{
		others.nrows = bits_add_covered(set, input, counts, rest);
		GjGather(values, input->values, set->width, rest, others.nrows);
		others.values = values;
	}
	add_rows(set, &others, counts);
}

static void
add_rows(GjDistinct *set, const GjAggInput *input, int64 *counts)
{
	bool		has_zero = set->is_wide || set->is_grouped;
	uint16		missed[GJ_DISTINCT_ROWS];

	for (int first = 0; first < input->nrows; first += GJ_DISTINCT_ROWS)
	{
		int			nrows = Min(GJ_DISTINCT_ROWS, input->nrows - first);
		int			nmissed = 0;

		distinct_make_entries(set, input, first, nrows);
		if (!has_zero)
			distinct_find_zero(set, nrows, counts);
		for (int i = 0; i < nrows; i++)
		{
			missed[nmissed] = i;
			nmissed += !distinct_has(set, i) && (has_zero || set->batch_entries[i] != 0);
		}
		spill_entries(set, missed, nmissed);
	}
}

static void
spill_entries(GjDistinct *set, const uint16 *rows, int n)
{
	int			nwords = set->nwords;
	uint64		entries[GJ_DISTINCT_ROWS * MAX_WORDS];
	uint64		hashes[GJ_DISTINCT_ROWS];

	if (n == 0)
		return;
	for (int i = 0; i < n; i++)
	{
		memcpy(&entries[i * nwords], &set->batch_entries[rows[i] * nwords],
			   nwords * sizeof(uint64));
		hashes[i] = set->batch_hashes[rows[i]];
	}
	GjSpillWrite(set->spill, (const char *) entries, hashes, n);
}

/*
 * Count the spilled entries, using at most `room` bytes.  Leaves the set empty.
 */
void
GjDistinctFinish(GjDistinct *set, Size room, int64 *counts)
{
	uint64		nentries;

	if (!GjSpillWaits(set->spill))
		return;
	while (GjSpillNextPart(set->spill, &nentries))
	{
		clear(set);
		set->has_bits = false;
		add_part(set, room, counts);
	}
	clear(set);
}

static void
add_part(GjDistinct *set, Size room, int64 *counts)
{
	uint16		missed[GJ_DISTINCT_ROWS];
	int			nrows;

	while ((nrows = GjSpillRead(set->spill, (char *) set->batch_entries, GJ_DISTINCT_ROWS)) > 0)
	{
		int			nmissed = 0;

		GjDistinctMakeRoom(set, nrows, room);
		distinct_hash_entries(set, nrows);
		for (int i = 0; i < nrows; i++)
		{
			if (!set->is_full)
				*count_of(set, i, counts) += distinct_enter(set, i);
			else if (!distinct_has(set, i))
				missed[nmissed++] = i;
		}
		spill_entries(set, missed, nmissed);
	}
}

/*
 * Return the address of the count of an entry's group
 */
static int64 *
count_of(const GjDistinct *set, int row, int64 *counts)
{
	if (!set->is_grouped)
		return counts;
	if (set->is_wide)
		return &counts[set->batch_entries[(row + 1) * set->nwords - 1] - 1];
	return &counts[(set->batch_entries[row] >> 32) - 1];
}
