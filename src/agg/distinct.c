/*-------------------------------------------------------------------------
 *
 * distinct.c
 *	  What count(DISTINCT) has seen: a set of (group, value), open addressing.
 *
 * One set for all groups of an aggregate, for a set for each would be many small ones.  As
 * entries name groups by number, they are put in anew when groups leave and the others get
 * other numbers.  Without groups, values that are close together have bits instead:
 * distinctbits.c.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/prefetch.h"
#include "groupparts.h"

/* Rows whose slots are asked for at once */
#define GJ_DISTINCT_ROWS		256

/* A table up to this size is in the cache anyway */
#define GJ_CACHED_SIZE			((Size) 256 * 1024)

static void make_entries(GjDistinct *set, const GjAggInput *input, int first, int nrows);
static int	find_at_once(const GjDistinct *set, int nrows, uint16 *missed);
static void find_zero(GjDistinct *set, int nrows, int64 *counts);
static void leave_bits(GjDistinct *set, int nrows);
static int	add_narrow(GjDistinct *set, uint64 entry, uint64 hash);
static int	add_wide(GjDistinct *set, const uint64 *entry, uint64 hash);

GjDistinct *
GjDistinctCreate(MemoryContext context, bool is_grouped, uint16 width)
{
	GjDistinct *set = MemoryContextAllocZero(context, sizeof(GjDistinct));

	set->context = context;
	set->is_grouped = is_grouped;
	set->width = width;
	set->is_wide = is_grouped && width == sizeof(uint64);
	set->has_bits = !is_grouped;
	set->batch_entries = MemoryContextAlloc(context, GJ_DISTINCT_ROWS * 2 * sizeof(uint64));
	set->batch_hashes = MemoryContextAlloc(context, GJ_DISTINCT_ROWS * sizeof(uint64));
	return set;
}

static inline Size
slot_size(const GjDistinct *set)
{
	return (set->is_wide ? 2 : 1) * sizeof(uint64);
}

/*
 * Forget all entries.  The memory stays, if there is not much of it.
 */
void
GjDistinctClear(GjDistinct *set)
{
	set->nused = 0;
	set->has_zero = false;
	set->has_bits = !set->is_grouped;
	GjBitsFree(set);
	if (set->nslots > GJ_DISTINCT_FLOOR)
	{
		GjRegionFree(&set->slots);
		set->nslots = 0;
	}
	else if (set->nslots > 0)
		memset(set->slots.start, 0, set->slots.size);
}

static inline uint64
next_size(const GjDistinct *set)
{
	if (set->nslots < GJ_DISTINCT_FLOOR)
		return GJ_DISTINCT_FLOOR;
	/* A small one grows faster: it is going to be large, and each step copies */
	return set->nslots * (set->nslots < 32 * GJ_DISTINCT_FLOOR ? 4 : 2);
}

/*
 * Bytes that GjDistinctGrow() takes more, while it works, if it has to be called before
 * nrows entries can be added.
 */
Size
GjDistinctGrowth(const GjDistinct *set, int nrows)
{
	if (set->has_bits || (set->nused + nrows) * 2 <= set->nslots)
		return 0;
	return next_size(set) * slot_size(set);
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

void
GjDistinctGrow(GjDistinct *set)
{
	GjRegion	old = set->slots;
	const uint64 *from = (const uint64 *) old.start;
	uint64		nold = set->nslots;

	CHECK_FOR_INTERRUPTS();
	set->nslots = next_size(set);
	GjRegionAllocate(&set->slots, set->context, set->nslots * slot_size(set));
	memset(set->slots.start, 0, set->slots.size);
	for (uint64 i = 0; i < nold; i++)
	{
		if (set->is_wide && from[i * 2 + 1] != 0)
			add_wide(set, &from[i * 2], hash_entry(from[i * 2], from[i * 2 + 1]));
		else if (!set->is_wide && from[i] != 0)
			add_narrow(set, from[i], hash_entry(from[i], 0));
	}
	GjRegionFree(&old);
}

/*
 * Put the values that have bits into the table, with room for so many rows more.  There is one
 * group, which may take what memory it needs.
 */
static void
leave_bits(GjDistinct *set, int nrows)
{
	uint64		nvalues = GjBitsCount(set);
	uint64		mask = set->width < sizeof(uint64) ?
		((uint64) 1 << (set->width * BITS_PER_BYTE)) - 1 : PG_UINT64_MAX;
	uint64		at = 0;
	int64		value;

	set->has_bits = false;
	while ((nvalues + nrows) * 2 > set->nslots)
		GjDistinctGrow(set);
	while (GjBitsNext(set, &at, &value))
	{
		uint64		entry = (uint64) value & mask;

		if (entry == 0)
			set->has_zero = true;
		else
			set->nused += add_narrow(set, entry, hash_entry(entry, 0));
	}
	GjBitsFree(set);
}

/*
 * Add values of rows, for which there is room, and count those that are new to their groups
 */
void
GjDistinctAdd(GjDistinct *set, const GjAggInput *input, int64 *counts)
{
	uint16		missed[GJ_DISTINCT_ROWS];

	if (set->has_bits)
	{
		if (GjBitsAdd(set, input, counts))
			return;
		leave_bits(set, input->nrows);
	}
	for (int first = 0; first < input->nrows; first += GJ_DISTINCT_ROWS)
	{
		int			nrows = Min(GJ_DISTINCT_ROWS, input->nrows - first);
		int			nmissed;

		make_entries(set, input, first, nrows);
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
			find_zero(set, nrows, counts);
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
static void
find_zero(GjDistinct *set, int nrows, int64 *counts)
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
static void
make_entries(GjDistinct *set, const GjAggInput *input, int first, int nrows)
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

/*
 * Keep the entries of groups that stay, under the groups' new numbers.  What stays is put
 * aside meanwhile.
 */
void
GjDistinctKeep(GjDistinct *set, const uint32 *new_numbers)
{
	uint64	   *slots = (uint64 *) set->slots.start;
	int			nwords = set->is_wide ? 2 : 1;
	uint64		nkept = 0;
	uint64	   *kept;

	Assert(set->is_grouped);
	if (set->nslots == 0)
		return;
	CHECK_FOR_INTERRUPTS();
	for (uint64 i = 0; i < set->nslots; i++)
	{
		uint64	   *entry = slots + i * nwords;
		uint64		group = set->is_wide ? entry[1] : entry[0] >> 32;

		if (group == 0 || new_numbers[group - 1] == GJ_NO_GROUP)
			continue;
		group = (uint64) new_numbers[group - 1] + 1;
		slots[nkept * nwords] = set->is_wide ? entry[0] :
			group << 32 | (uint32) entry[0];
		if (set->is_wide)
			slots[nkept * 2 + 1] = group;
		nkept++;
	}
	kept = MemoryContextAllocHuge(set->context, Max(nkept, 1) * slot_size(set));
	memcpy(kept, slots, nkept * slot_size(set));
	memset(slots, 0, set->slots.size);
	for (uint64 i = 0; i < nkept; i++)
	{
		if (set->is_wide)
			add_wide(set, &kept[i * 2], hash_entry(kept[i * 2], kept[i * 2 + 1]));
		else
			add_narrow(set, kept[i], hash_entry(kept[i], 0));
	}
	pfree(kept);
	set->nused = nkept;
}
