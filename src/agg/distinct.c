/*-------------------------------------------------------------------------
 *
 * distinct.c
 *	  What count(DISTINCT) has seen: a set of (group, value), open addressing.
 *
 * One set for all groups of an aggregate, for a set for each would be many small ones.  Entries
 * name groups by number.  Without groups, values that are close together have bits instead:
 * distinctbits.c.  What there is no memory for is spilled: distinctspill.c.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/prefetch.h"
#include "groupparts.h"

/* A table up to this size is in the cache anyway */
#define GJ_CACHED_SIZE			((Size) 256 * 1024)

static bool grow(GjDistinct *set);
static void grow_to(GjDistinct *set, uint64 nslots);
static int	find_at_once(const GjDistinct *set, int nrows, uint16 *missed);
static bool leave_bits(GjDistinct *set, int nrows);

static inline Size
slot_size(const GjDistinct *set)
{
	return (set->is_wide ? 2 : 1) * sizeof(uint64);
}

GjDistinct *
GjDistinctCreate(MemoryContext context, GjSpillFile *file, bool is_grouped, uint16 width)
{
	GjDistinct *set = MemoryContextAllocZero(context, sizeof(GjDistinct));

	set->context = context;
	set->is_grouped = is_grouped;
	set->width = width;
	set->is_wide = is_grouped && width == sizeof(uint64);
	set->has_bits = !is_grouped;
	set->batch_entries = MemoryContextAlloc(context, GJ_DISTINCT_ROWS * 2 * sizeof(uint64));
	set->batch_hashes = MemoryContextAlloc(context, GJ_DISTINCT_ROWS * sizeof(uint64));
	set->spill = GjSpillCreate(context, file, slot_size(set));
	return set;
}

/*
 * Forget all entries but those that are spilled.  The memory stays, if there is not much of it.
 */
void
GjDistinctClear(GjDistinct *set)
{
	set->nused = 0;
	set->has_zero = false;
	set->has_bits = !set->is_grouped;
	set->is_full = false;
	GjBitsFree(set);
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
 * Prepare to add so many rows, within so many bytes for all that there is
 */
void
GjDistinctMakeRoom(GjDistinct *set, int nrows, Size room)
{
	set->room = room;
	while (!set->has_bits && !set->is_full && (set->nused + nrows) * 2 > set->nslots)
	{
		if (grow(set))
			continue;
		/* Fuller than is good for speed, but not than is possible */
		if ((set->nused + nrows) * 4 <= set->nslots * 3)
			return;
		GjDistinctFill(set, room);
	}
}

/*
 * Take no more entries.  So those that are spilled from now on are no others' equals, and what
 * has been counted need not be known any more when they are read.
 */
void
GjDistinctFill(GjDistinct *set, Size room)
{
	set->is_full = true;
	if (!GjSpillBegin(set->spill, GJ_DISTINCT_PARTS, (int) Min(room / 8 / BLCKSZ, INT_MAX)))
		elog(ERROR, "no hash tells values apart");
}

static inline uint64
hash_entry(uint64 value, uint64 group)
{
	uint64		hash = GjHashStep(0, value);

	return GjHashFinish(group != 0 ? GjHashStep(hash, group) : hash);
}

/* Put in an entry that is not in the set, or is */
static inline int
add_narrow(GjDistinct *set, uint64 entry, uint64 hash)
{
	uint64	   *slots = (uint64 *) set->slots.start;
	uint64		mask = set->nslots - 1;
	uint64		at = hash & mask;

	while (slots[at] != 0)
	{
		if (slots[at] == entry)
			return 0;
		at = (at + 1) & mask;
	}
	slots[at] = entry;
	return 1;
}

static inline int
add_wide(GjDistinct *set, const uint64 *entry, uint64 hash)
{
	uint64	   *slots = (uint64 *) set->slots.start;
	uint64		mask = set->nslots - 1;
	uint64		at = hash & mask;

	while (slots[at * 2 + 1] != 0)
	{
		if (slots[at * 2] == entry[0] && slots[at * 2 + 1] == entry[1])
			return 0;
		at = (at + 1) & mask;
	}
	slots[at * 2] = entry[0];
	slots[at * 2 + 1] = entry[1];
	return 1;
}

/*
 * Have more slots, if there is memory for them, also while old ones are copied.  A small set
 * grows faster: it is going to be large, and each step copies.
 */
static bool
grow(GjDistinct *set)
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
	const uint64 *from = (const uint64 *) old.start;
	uint64		nold = set->nslots;

	CHECK_FOR_INTERRUPTS();
	set->nslots = nslots;
	GjRegionAllocate(&set->slots, set->context, set->nslots * slot_size(set));
	memset(set->slots.start, 0, set->slots.size);
	for (uint64 i = 0; i < nold; i++)
	{
		if (i % GJ_UNINTERRUPTED_SLOTS == 0)
			CHECK_FOR_INTERRUPTS();
		if (set->is_wide && from[i * 2 + 1] != 0)
			add_wide(set, &from[i * 2], hash_entry(from[i * 2], from[i * 2 + 1]));
		else if (!set->is_wide && from[i] != 0)
			add_narrow(set, from[i], hash_entry(from[i], 0));
	}
	GjRegionFree(&old);
}

/*
 * Put the values that have bits into the table, with room for so many rows more; false if there
 * is no memory for that, and the bits stay.
 */
static bool
leave_bits(GjDistinct *set, int nrows)
{
	uint64		nvalues = GjBitsCount(set);
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
	while (GjBitsNext(set, &at, &value))
	{
		uint64		entry = (uint64) value & mask;

		if (entry == 0)
			set->has_zero = true;
		else
			set->nused += add_narrow(set, entry, hash_entry(entry, 0));
	}
	GjBitsFree(set);
	return true;
}

/*
 * Add values of rows, for which there is room, and count those that are new to their groups
 */
void
GjDistinctAdd(GjDistinct *set, const GjAggInput *input, int64 *counts)
{
	uint16		missed[GJ_DISTINCT_ROWS];

	if (set->has_bits && !set->is_full)
	{
		if (GjBitsAdd(set, input, counts))
			return;
		if (!leave_bits(set, input->nrows))
			GjDistinctFill(set, set->room);
	}
	if (set->is_full)
	{
		GjDistinctAddToFull(set, input, counts);
		return;
	}
	for (int first = 0; first < input->nrows; first += GJ_DISTINCT_ROWS)
	{
		int			nrows = Min(GJ_DISTINCT_ROWS, input->nrows - first);
		int			nmissed;

		GjDistinctMakeEntries(set, input, first, nrows);
		nmissed = find_at_once(set, nrows, missed);
		for (int i = 0; i < nmissed; i++)
		{
			int			row = missed[i];
			const uint64 *entry = &set->batch_entries[set->is_wide ? row * 2 : row];
			int			added = 0;

			if (set->is_wide)
				added = add_wide(set, entry, set->batch_hashes[row]);
			else if (*entry != 0)
				added = add_narrow(set, *entry, set->batch_hashes[row]);
			set->nused += added;
			counts[input->groups == NULL ? 0 : input->groups[first + row]] += added;
		}
		if (!set->is_wide && !set->is_grouped && !set->has_zero)
			GjDistinctFindZero(set, nrows, counts);
	}
}

/*
 * Look for entries in their first slots only, without a branch.  missed[]: those that are not
 * there; returns how many.  An entry that is zero is found in each free slot.
 */
static int
find_at_once(const GjDistinct *set, int nrows, uint16 *missed)
{
	const uint64 *slots = (const uint64 *) set->slots.start;
	const uint64 *entries = set->batch_entries;
	const uint64 *hashes = set->batch_hashes;
	uint64		mask = set->nslots - 1;
	int			shift = set->is_wide ? 1 : 0;
	int			nmissed = 0;

	if (set->slots.size > GJ_CACHED_SIZE)
	{
		for (int i = 0; i < nrows; i++)
			GjPrefetchForWrite(&slots[(hashes[i] & mask) << shift]);
	}
	for (int i = 0; i < nrows; i++)
	{
		const uint64 *slot = &slots[(hashes[i] & mask) << shift];
		uint64		difference = slot[0] ^ entries[i << shift];

		if (shift)
			difference |= slot[1] ^ entries[i * 2 + 1];
		missed[nmissed] = i;
		nmissed += (difference != 0);
	}
	return nmissed;
}

/*
 * Without groups a value of zero looks like a free slot
 */
void
GjDistinctFindZero(GjDistinct *set, int nrows, int64 *counts)
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
 * Make entries of rows, and their hashes
 */
void
GjDistinctMakeEntries(GjDistinct *set, const GjAggInput *input, int first, int nrows)
{
	const uint32 *groups = input->groups == NULL ? NULL : input->groups + first;
	uint64	   *entries = set->batch_entries;

	if (set->is_wide)
	{
		for (int i = 0; i < nrows; i++)
		{
			entries[i * 2] = ((const uint64 *) input->values)[first + i];
			entries[i * 2 + 1] = (uint64) groups[i] + 1;
			set->batch_hashes[i] = hash_entry(entries[i * 2], entries[i * 2 + 1]);
		}
		return;
	}

	switch (set->width)
	{
		case 1:
			MAKE_ENTRIES(uint8);
			break;
		case 2:
			MAKE_ENTRIES(uint16);
			break;
		case 4:
			MAKE_ENTRIES(uint32);
			break;
		default:
			/* Without groups, or the set would be wide */
			memcpy(entries, (const uint64 *) input->values + first, nrows * sizeof(uint64));
			break;
	}
	for (int i = 0; i < nrows; i++)
		set->batch_hashes[i] = hash_entry(entries[i], 0);
}

/* The same of entries that are there */
void
GjDistinctHashEntries(GjDistinct *set, int nrows)
{
	const uint64 *entries = set->batch_entries;

	for (int i = 0; i < nrows; i++)
		set->batch_hashes[i] = set->is_wide ? hash_entry(entries[i * 2], entries[i * 2 + 1]) :
			hash_entry(entries[i], 0);
}

/*
 * Is the entry of a row there?
 */
bool
GjDistinctHas(const GjDistinct *set, int row)
{
	const uint64 *slots = (const uint64 *) set->slots.start;
	const uint64 *entry = set->batch_entries + (set->is_wide ? row * 2 : row);
	uint64		mask = set->nslots - 1;
	uint64		at = set->batch_hashes[row] & mask;

	if (set->nslots == 0)
		return false;
	if (!set->is_wide)
	{
		while (slots[at] != 0 && slots[at] != entry[0])
			at = (at + 1) & mask;
		return slots[at] != 0;
	}
	while (slots[at * 2 + 1] != 0 &&
		   (slots[at * 2] != entry[0] || slots[at * 2 + 1] != entry[1]))
		at = (at + 1) & mask;
	return slots[at * 2 + 1] != 0;
}

/*
 * Enter the entry of a row, for which there is room; returns 1 if it was not there, else 0
 */
int
GjDistinctEnter(GjDistinct *set, int row)
{
	int			added = set->is_wide ?
		add_wide(set, set->batch_entries + row * 2, set->batch_hashes[row]) :
		add_narrow(set, set->batch_entries[row], set->batch_hashes[row]);

	set->nused += added;
	return added;
}
