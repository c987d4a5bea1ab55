/*-------------------------------------------------------------------------
 *
 * grouptable.c
 *	  From the key of a row to the number of its group: an open hash table.
 *
 * A batch goes through in steps, each over many of its rows, which have been made records and
 * hashed before.  A slot has half of the hash, so that a record is hardly ever compared in
 * vain, and growing needs no record.  Of a large table slots and records are asked for well
 * before they are needed, for a miss of the cache takes longer than all else here.
 *
 * The lower half of the hash finds the slot; the upper bits part the rows that are spilled.  If
 * these were the same, the groups of a part would crowd in a part of the slots.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"

#include "base/prefetch.h"
#include "groupparts.h"

/* Rows whose slots are asked for at once */
#define GJ_FIND_ROWS			128

/* A table up to this size is in the cache anyway */
#define GJ_CACHED_SIZE			((Size) 256 * 1024)

static int	find_now(GjGroupTable *table, int row, int nrows, uint32 *numbers);
static void insert_slot(GjGroupTable *table, uint64 hash, uint32 group);

/*
 * Begin with no groups and little memory
 */
void
GjTableReset(GjGroupTable *table)
{
	GjRegionFree(&table->records);
	GjRegionFree(&table->slots);
	table->nslots = 0;
	table->ngroups = table->ndeferred = table->nstarted = 0;
	table->defers = false;
	GjOrderBegin(table);
	table->capacity = GJ_GROUPS_FIRST;
	GjRegionAllocate(&table->records, table->context, GjRecordsSize(table, table->capacity));
	memset(table->records.start, 0, table->nwords * sizeof(uint64));
	if (table->ncolumns == 1)
		GjDirectBegin(table);
	else if (table->ncolumns > 1)
		GjTableMakeSlots(table, GjTableSlots(table->capacity));
}

/*
 * Forget all groups, but keep the memory, for those of other rows.  These are few of the values
 * that the column has, so that a direct table would not do for them.
 */
void
GjTableClear(GjGroupTable *table)
{
	if (table->is_direct)
	{
		GjTableReset(table);
		GjDirectEnd(table);
	}
	GjOrderEnd(table);
	table->ngroups = table->ndeferred = table->nstarted = 0;
	if (!table->defers)
		memset(table->slots.start, 0, table->slots.size);
}

/*
 * The record that a slot may be of: one that nobody asks for if it certainly is not.  Without
 * a branch, which could not be foreseen.
 */
static pg_attribute_always_inline Size
candidate(GjGroupSlot slot, uint64 hash)
{
	return slot.group & -(uint32) (slot.tag == (uint32) hash);
}

/*
 * Ask for the slots of some rows.  Inline, since gcc drops calls of a function that only
 * prefetches.
 */
static pg_attribute_always_inline void
prefetch_slots(const GjGroupTable *table, int row, int end)
{
	const GjGroupSlot *slots = (const GjGroupSlot *) table->slots.start;
	const uint64 *hashes = table->batch_hashes;
	uint64		mask = table->nslots - 1;

	for (; row < end; row++)
		GjPrefetchForWrite(&slots[hashes[row] & mask]);
}

/*
 * Ask for the records that slots lead to
 */
static pg_attribute_always_inline void
prefetch_records(const GjGroupTable *table, int row, int end, int nwords)
{
	const GjGroupSlot *slots = (const GjGroupSlot *) table->slots.start;
	const uint64 *records = (const uint64 *) table->records.start;
	const uint64 *hashes = table->batch_hashes;
	uint64		mask = table->nslots - 1;

	for (; row < end; row++)
		GjPrefetch(records + candidate(slots[hashes[row] & mask], hashes[row]) * nwords);
}

static pg_attribute_always_inline bool
is_different(const uint64 *a, const uint64 *b, int nwords)
{
	uint64		difference = 0;

	for (int word = 0; word < nwords; word++)
		difference |= a[word] ^ b[word];
	return difference != 0;
}

/*
 * Look for rows in their first slots only, where nearly all groups that exist are: without a
 * branch, as none could be foreseen.  missed[]: rows that are not there; returns how many.
 */
static pg_attribute_always_inline int
find_at_once(const GjGroupTable *table, int row, int nrows, uint32 *numbers, uint16 *missed,
			 const int nwords, const bool is_large)
{
	const GjGroupSlot *slots = (const GjGroupSlot *) table->slots.start;
	const uint64 *records = (const uint64 *) table->records.start;
	const uint64 *wanted = table->batch_records + row * nwords;
	const uint64 *hashes = table->batch_hashes + row;
	uint64		mask = table->nslots - 1;
	int			nmissed = 0;

	for (int i = 0; i < nrows; i++)
	{
		GjGroupSlot slot = slots[hashes[i] & mask];
		Size		group = is_large ? candidate(slot, hashes[i]) : slot.group;
		bool		differs = is_different(records + group * nwords, wanted + i * nwords, nwords);

		numbers[row + i] = slot.group - 1;
		missed[nmissed] = row + i;
		nmissed += differs | (group == 0);
	}
	return nmissed;
}

/*
 * Find the group of a row, or make it; false if there is no room for it
 */
static pg_attribute_always_inline bool
find_one(GjGroupTable *table, int row, uint32 *numbers, const int nwords)
{
	GjGroupSlot *slots = (GjGroupSlot *) table->slots.start;
	uint64	   *records = (uint64 *) table->records.start;
	const uint64 *record = table->batch_records + row * nwords;
	uint32		tag = (uint32) table->batch_hashes[row];
	uint64		mask = table->nslots - 1;

	for (uint64 at = tag & mask;; at = (at + 1) & mask)
	{
		GjGroupSlot slot = slots[at];

		if (slot.group == 0)
		{
			uint32		group = table->ngroups;

			if (group >= table->capacity)
				return false;
			numbers[row] = group++;
			slots[at] = (GjGroupSlot) {tag, group};
			memcpy(records + (Size) group * nwords, record, nwords * sizeof(uint64));
			table->ngroups = group;
			return true;
		}
		if (slot.tag == tag && !is_different(records + (Size) slot.group * nwords, record, nwords))
		{
			numbers[row] = slot.group - 1;
			return true;
		}
	}
}

/*
 * Find the groups of rows from one on, in slots; returns the row for which there is no more
 * room, or nrows.  Where most rows make a group, looking for others first is in vain.
 */
static pg_attribute_always_inline int
find_in_slots(GjGroupTable *table, int row, int nrows, uint32 *numbers, const int nwords)
{
	bool		is_large = table->slots.size > GJ_CACHED_SIZE;
	uint16		missed[GJ_FIND_ROWS];

	if (is_large)
		prefetch_slots(table, row, Min(row + GJ_FIND_ROWS, nrows));
	for (; row < nrows; row += GJ_FIND_ROWS)
	{
		int			n = Min(GJ_FIND_ROWS, nrows - row);
		uint32		nbefore = table->ngroups;
		int			nmissed = n;

		if (is_large)
			prefetch_slots(table, row + n, Min(row + n + GJ_FIND_ROWS, nrows));
		if (is_large && table->are_new)
		{
			for (int i = 0; i < n; i++)
				missed[i] = row + i;
		}
		else if (is_large)
		{
			prefetch_records(table, row, row + n, nwords);
			nmissed = find_at_once(table, row, n, numbers, missed, nwords, true);
		}
		else
			nmissed = find_at_once(table, row, n, numbers, missed, nwords, false);

		for (int i = 0; i < nmissed; i++)
		{
			if (!find_one(table, missed[i], numbers, nwords))
				return missed[i];
		}
		table->are_new = table->ngroups - nbefore > n / 2;
	}
	return nrows;
}

/*
 * Find the groups of the rows of a batch that has been packed, from a row on; new ones are
 * made.  Returns the row for which there is no more room, or nrows.
 */
int
GjTableFind(GjGroupTable *table, int row, int nrows, uint32 *numbers)
{
	Assert(table->is_packed && table->nslots > 0);
	if (table->defers && GjTableDefer(table, row, nrows, numbers))
		return nrows;
	if (table->defers)
		return row;
	if (table->ordered_by != NULL)
		return GjOrderFind(table, row, nrows, numbers);
	return find_now(table, row, nrows, numbers);
}

static int
find_now(GjGroupTable *table, int row, int nrows, uint32 *numbers)
{
	switch (table->nwords)
	{
		case 1:
			return find_in_slots(table, row, nrows, numbers, 1);
		case 2:
			return find_in_slots(table, row, nrows, numbers, 2);
		case 3:
			return find_in_slots(table, row, nrows, numbers, 3);
		case 4:
			return find_in_slots(table, row, nrows, numbers, 4);
		default:
			return find_in_slots(table, row, nrows, numbers, table->nwords);
	}
}

/*
 * Is there a group of this row?  It is made nowhere else.
 */
static inline bool
look_up_one(const GjGroupTable *table, int row, uint32 *number)
{
	const GjGroupSlot *slots = (const GjGroupSlot *) table->slots.start;
	const uint64 *record = table->batch_records + row * table->nwords;
	uint32		tag = (uint32) table->batch_hashes[row];
	uint64		mask = table->nslots - 1;

	for (uint64 at = tag & mask; slots[at].group != 0; at = (at + 1) & mask)
	{
		*number = slots[at].group - 1;
		if (slots[at].tag == tag &&
			!is_different(GjTableRecord(table, *number), record, table->nwords))
			return true;
	}
	return false;
}

/*
 * Look for the groups of a batch's rows, without making any.  rows[] and numbers[]: rows that
 * have one, and which; missed[]: those that have none.  Returns how many have none.
 */
int
GjTableLookUp(const GjGroupTable *table, int nrows, uint16 *rows, uint32 *numbers, uint16 *missed)
{
	int			nfound = 0;
	int			nmissed = 0;

	Assert(table->is_packed && table->nslots > 0);
	for (int first = 0; first < nrows; first += GJ_FIND_ROWS)
	{
		int			end = Min(first + GJ_FIND_ROWS, nrows);

		prefetch_slots(table, first, end);
		for (int row = first; row < end; row++)
		{
			bool		is_found = look_up_one(table, row, &numbers[nfound]);

			rows[nfound] = row;
			missed[nmissed] = row;
			nfound += is_found;
			nmissed += !is_found;
		}
	}
	return nmissed;
}

/*
 * Make a group with this key, for which there is room; returns its number.  The slots do not
 * learn of it.
 */
uint32
GjTableAppend(GjGroupTable *table, const uint64 *record)
{
	table->ngroups++;
	memcpy((uint64 *) table->records.start + (Size) table->ngroups * table->nwords, record,
		   table->nwords * sizeof(uint64));
	return table->ngroups - 1;
}

/*
 * Slots for so many groups, a power of two: half of them stay free, or three quarters while they
 * are in the cache.
 */
uint64
GjTableSlots(uint32 capacity)
{
	uint64		nslots = pg_nextpower2_64(Max(capacity, 1));

	return nslots * (nslots * 4 * sizeof(GjGroupSlot) <= GJ_CACHED_SIZE * 2 ? 4 : 2);
}

/*
 * Have room for so many groups, and so many slots, if there are slots at all
 */
void
GjTableGrow(GjGroupTable *table, uint32 capacity, uint64 nslots)
{
	CHECK_FOR_INTERRUPTS();
	Assert(capacity <= GJ_MAX_GROUPS);
	table->capacity = capacity;
	GjRegionGrow(&table->records, table->context,
				 GjRecordsSize(table, GjTableRecords(table)), GjRecordsSize(table, capacity));
	if (!table->is_direct && nslots != table->nslots)
		GjTableMakeSlots(table, nslots);
}

static inline void
insert_slot(GjGroupTable *table, uint64 hash, uint32 group)
{
	GjGroupSlot *slots = (GjGroupSlot *) table->slots.start;
	uint64		mask = table->nslots - 1;
	uint64		at = (uint32) hash & mask;

	while (slots[at].group != 0)
		at = (at + 1) & mask;
	slots[at] = (GjGroupSlot) {(uint32) hash, group + 1};
}

/*
 * Make so many slots, more than there is room for groups.  Old slots are gone through in order,
 * so that new ones are written to nearly in order, too.
 */
void
GjTableMakeSlots(GjGroupTable *table, uint64 nslots)
{
	GjRegion	old = table->slots;
	uint64		nold = table->nslots;

	Assert(nslots > table->capacity);
	if (GjTableShouldDefer(table, nslots))
	{
		GjTableMakeTags(table, nslots);
		return;
	}
	if (table->ordered_by != NULL)
	{
		GjOrderMakeSlots(table, nslots);
		return;
	}
	table->nslots = nslots;
	GjRegionAllocate(&table->slots, table->context, table->nslots * sizeof(GjGroupSlot));
	memset(table->slots.start, 0, table->slots.size);
	if (nold > 0)
	{
		const GjGroupSlot *from = (const GjGroupSlot *) old.start;

		for (uint64 i = 0; i < nold; i++)
		{
			if (i % GJ_UNINTERRUPTED_SLOTS == 0)
				CHECK_FOR_INTERRUPTS();
			if (from[i].group != 0)
				insert_slot(table, from[i].tag, from[i].group - 1);
		}
		GjRegionFree(&old);
		return;
	}
	for (uint32 group = 0; group < table->ngroups; group++)
	{
		if (group % GJ_UNINTERRUPTED_SLOTS == 0)
			CHECK_FOR_INTERRUPTS();
		insert_slot(table, GjHashRecord(GjTableRecord(table, group), table->data_words,
									   table->nwords), group);
	}
}
