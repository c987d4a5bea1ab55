/*-------------------------------------------------------------------------
 *
 * defer.c
 *	  Groups of rows that hardly ever repeat: they are looked for later, all at once.
 *
 * Where nearly each row makes a group, the table is much larger than any cache, and each row
 * waits for another line of it.  But nobody needs to know a row's group before the last row has
 * come: until then a row may be a group of its own.  So rows are put behind the groups' records
 * and wait there, with 32 bits of their hashes, until somebody asks for the groups.  Aggregates
 * take them for groups, and begin a state for each.  Then all are put in the order of some bits
 * of the hash, and a few hundred at a time go through a table that is in the nearest cache.
 * There are no slots meanwhile: their memory is what this takes, and nothing has to be put there
 * anew when the table grows.
 *
 * Rows that come in the order of a column do better without: they need no more than that, and no
 * memory to wait in (hash.c).
 *
 * A row that proves to be of a group that exists leaves.  Its states are added to those of the
 * group (aggstate.c), in the order of the rows, and what is behind it moves up; so the order
 * stays, and of equal rows the first one.  Rows that repeat must not take memory for long, nor
 * time: when there are four times as many records as groups were known, those are looked for, for
 * the first time even if there is room for more.  Where many leave, waiting is in vain, and the
 * table gets its slots.
 *
 * A batch waits as a whole, or what is left of it: its rows' numbers are good until its aggregates
 * have been computed, and so no row may leave before.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"

#include "groupparts.h"

/* Smaller tables are in the cache anyway */
#define GJ_DEFER_GROUPS			((uint32) 32 * 1024)

/* So many times as many records as known groups */
#define GJ_DEFER_FACTOR			4

/* One row of so many may wait in vain */
#define GJ_DEFER_LOSS			8

/* Rows that are looked for at a time, about, and in how many heaps they are put at most */
#define GJ_HEAP_ROWS			1024
#define GJ_MAX_HEAPS			2048

/* One of them: a record, by its number */
typedef struct Row
{
	uint32		tag;
	uint32		number;
} Row;

/*
 * What is behind the tags in the place of the slots, of which there are at least two for each
 * record: all records in another order, and a bit for each that leaves
 */
typedef struct Parts
{
	Row		   *rows;
	uint8	   *leave;
} Parts;

/* Rows that leave, and their groups; their states have yet to be added */
typedef struct Leaving
{
	int			n;
	uint32		rows[GJ_BATCH_ROWS];
	uint32		groups[GJ_BATCH_ROWS];
} Leaving;

StaticAssertDecl(sizeof(uint32) + sizeof(Row) + 1 <= 2 * sizeof(GjGroupSlot),
				 "rows that wait take more memory than slots");

static Parts get_parts(const GjGroupTable *table);
static uint32 find_equal(GjGroupTable *table);
static int	order_by_tags(const GjGroupTable *table, uint32 *ends);
static uint32 find_in_heap(GjGroupTable *table, const Row *rows, uint32 nrows, uint32 **slots,
						   uint64 *nslots, Leaving *leaving);
static void leave(GjGroupTable *table, uint32 row, uint32 group, Leaving *leaving);
static void merge_states(GjGroupTable *table, Leaving *leaving);
static void close_ranks(GjGroupTable *table);
static inline bool leaves(const GjGroupTable *table, uint32 row);
static void move(GjGroupTable *table, uint32 from, uint32 to, uint32 n);

/*
 * Shall rows wait from now on, as the table is about to have so many slots?
 */
bool
GjTableShouldDefer(const GjGroupTable *table, uint64 nslots)
{
	return table->defers ||
		(table->may_defer && table->are_new && table->ordered_by == NULL &&
		 table->capacity >= GJ_DEFER_GROUPS && table->capacity <= nslots / 2);
}

/*
 * Make room for tags in the place of slots, and keep those that are there
 */
void
GjTableMakeTags(GjGroupTable *table, uint64 nslots)
{
	GjRegion	old = table->slots;
	bool		deferred = table->defers;

	GjRegionAllocate(&table->slots, table->context, nslots * sizeof(GjGroupSlot));
	table->nslots = nslots;
	table->defers = true;
	table->is_tried &= deferred;
	if (deferred)
		memcpy(table->slots.start, old.start, GjTableRecords(table) * sizeof(uint32));
	else
	{
		for (uint32 i = 0; i < table->ngroups; i++)
			GjTableTags(table)[i] = (uint32) GjHashRecord(GjTableRecord(table, i),
														  table->data_words, table->nwords);
	}
	GjRegionFree(&old);
}

static Parts
get_parts(const GjGroupTable *table)
{
	Row		   *rows = (Row *) (GjTableTags(table) + table->capacity);

	return (Parts) {rows, (uint8 *) (rows + table->capacity)};
}

/*
 * Have the rows of a batch wait, from one on; false if there is no room for all of them, or if
 * they are to be looked for at once.
 */
bool
GjTableDefer(GjGroupTable *table, int row, int nrows, uint32 *numbers)
{
	uint32		nrecords = GjTableRecords(table);
	uint32		n = nrows - row;

	if (!table->is_tried || table->capacity - nrecords < n)
		(void) GjTableTrySettling(table);
	nrecords = GjTableRecords(table);
	if (!table->defers || table->capacity - nrecords < n)
		return false;
	memcpy(GjTableRecord(table, nrecords), table->batch_records + row * table->nwords,
		   n * table->nwords * sizeof(uint64));
	for (uint32 i = 0; i < n; i++)
	{
		GjTableTags(table)[nrecords + i] = (uint32) table->batch_hashes[row + i];
		numbers[row + i] = nrecords + i;
	}
	table->ndeferred += n;
	return true;
}

/*
 * Look for the rows that wait if they are many, and have none wait any more if too many of them
 * leave.  The more groups there are, the more often rows repeat: so many of them will by the time
 * the table is full.  False: they are not so many.
 */
bool
GjTableTrySettling(GjGroupTable *table)
{
	uint64		nrecords = GjTableRecords(table);

	if (!table->defers || nrecords / GJ_DEFER_FACTOR < table->ngroups)
		return false;
	(void) GjTableSettle(table);
	table->is_tried = true;
	if ((double) (nrecords - table->ngroups) * GJ_DEFER_LOSS * table->capacity >
		(double) nrecords * nrecords)
		GjTableEndDeferring(table);
	return true;
}

/*
 * Look for the rows that wait, none of which is of the batch at hand; has that made room for
 * others?
 */
bool
GjTableSettle(GjGroupTable *table)
{
	uint32		n = table->ndeferred;
	uint32		nleaving;

	if (n == 0)
		return false;
	Assert(table->nstarted == GjTableRecords(table));
	nleaving = find_equal(table);
	if (nleaving > 0)
		close_ranks(table);
	table->ngroups += n - nleaving;
	table->nstarted = table->ngroups;
	table->ndeferred = 0;
	return table->ngroups < table->capacity;
}

/*
 * Have no row wait any more, and find each at once
 */
void
GjTableEndDeferring(GjGroupTable *table)
{
	uint64		nslots = table->nslots;

	table->may_defer = false;
	if (!table->defers)
		return;
	(void) GjTableSettle(table);
	table->defers = false;
	GjRegionFree(&table->slots);
	table->nslots = 0;
	GjTableMakeSlots(table, nslots);
}

/*
 * Mark the rows that are of groups that exist, give these their states, and count them
 */
static uint32
find_equal(GjGroupTable *table)
{
	Parts		parts = get_parts(table);
	uint32		nrecords = GjTableRecords(table);
	uint32		ends[GJ_MAX_HEAPS];
	Leaving		leaving;
	int			nheaps;
	uint32		first = 0;
	uint32	   *slots = NULL;
	uint64		nslots = 0;
	uint32		nleaving = 0;

	CHECK_FOR_INTERRUPTS();
	nheaps = order_by_tags(table, ends);
	leaving.n = 0;
	memset(parts.leave, 0, (nrecords + BITS_PER_BYTE - 1) / BITS_PER_BYTE);
	for (int i = 0; i < nheaps; i++)
	{
		CHECK_FOR_INTERRUPTS();
		nleaving += find_in_heap(table, parts.rows + first, ends[i] - first, &slots, &nslots,
								 &leaving);
		first = ends[i];
	}
	merge_states(table, &leaving);
	if (slots != NULL)
		pfree(slots);
	return nleaving;
}

/*
 * Put all rows in heaps by their tags' upper bits, where they keep their order; ends[]: where
 * each heap ends.  Returns how many there are.
 */
static int
order_by_tags(const GjGroupTable *table, uint32 *ends)
{
	const uint32 *tags = GjTableTags(table);
	Row		   *rows = get_parts(table).rows;
	uint32		nrecords = GjTableRecords(table);
	int			bits = 1;
	int			shift;
	uint32		start = 0;

	while (1 << bits < GJ_MAX_HEAPS && nrecords >> bits > GJ_HEAP_ROWS)
		bits++;
	shift = 32 - bits;
	memset(ends, 0, sizeof(uint32) << bits);
	for (uint32 i = 0; i < nrecords; i++)
		ends[tags[i] >> shift]++;
	for (int i = 0; i < 1 << bits; i++)
	{
		uint32		here = ends[i];

		ends[i] = start;
		start += here;
	}
	for (uint32 i = 0; i < nrecords; i++)
		rows[ends[tags[i] >> shift]++] = (Row) {tags[i], i};
	return 1 << bits;
}

static pg_attribute_always_inline bool
is_equal(const GjGroupTable *table, const Row *a, const Row *b)
{
	return a->tag == b->tag &&
		memcmp(GjTableRecord(table, a->number), GjTableRecord(table, b->number),
			   table->nwords * sizeof(uint64)) == 0;
}

/*
 * Mark those of a heap's rows that are equal to one before, and count them.  slots[] is of
 * whatever size was needed last; it is mostly free, so that hardly any row meets another one.
 */
static uint32
find_in_heap(GjGroupTable *table, const Row *rows, uint32 nrows, uint32 **slots, uint64 *nslots,
			 Leaving *leaving)
{
	uint64		wanted = pg_nextpower2_64(Max((uint64) nrows, 2) * 4);
	uint32	   *heap_slots;
	uint32		nleaving = 0;

	if (wanted > *nslots)
	{
		if (*slots != NULL)
			pfree(*slots);
		*slots = MemoryContextAllocHuge(table->context, wanted * sizeof(uint32));
		*nslots = wanted;
	}
	heap_slots = *slots;
	memset(heap_slots, 0, wanted * sizeof(uint32));
	for (uint32 i = 0; i < nrows; i++)
	{
		uint64		at = rows[i].tag & (wanted - 1);

		while (heap_slots[at] != 0 && !is_equal(table, &rows[heap_slots[at] - 1], &rows[i]))
			at = (at + 1) & (wanted - 1);
		if (heap_slots[at] == 0)
			heap_slots[at] = i + 1;
		else
		{
			leave(table, rows[i].number, rows[heap_slots[at] - 1].number, leaving);
			nleaving++;
		}
	}
	return nleaving;
}

static void
leave(GjGroupTable *table, uint32 row, uint32 group, Leaving *leaving)
{
	get_parts(table).leave[row / BITS_PER_BYTE] |= 1 << row % BITS_PER_BYTE;
	if (table->naggs == 0)
		return;
	leaving->rows[leaving->n] = row;
	leaving->groups[leaving->n++] = group;
	if (leaving->n == GJ_BATCH_ROWS)
		merge_states(table, leaving);
}

static void
merge_states(GjGroupTable *table, Leaving *leaving)
{
	for (int i = 0; i < table->naggs; i++)
		GjAggMerge(&table->aggs[i], leaving->rows, leaving->groups, leaving->n);
	leaving->n = 0;
}

/*
 * Have records that are left, and their states, take the places of those that leave
 */
static void
close_ranks(GjGroupTable *table)
{
	uint32		nrecords = GjTableRecords(table);
	uint32		to = table->ngroups;
	uint32		end;

	for (uint32 from = to; from < nrecords; from = end)
	{
		while (from < nrecords && leaves(table, from))
			from++;
		for (end = from; end < nrecords && !leaves(table, end); end++)
			;
		if (from != to)
			move(table, from, to, end - from);
		to += end - from;
	}
}

static inline bool
leaves(const GjGroupTable *table, uint32 row)
{
	return get_parts(table).leave[row / BITS_PER_BYTE] >> row % BITS_PER_BYTE & 1;
}

static void
move(GjGroupTable *table, uint32 from, uint32 to, uint32 n)
{
	memmove(GjTableRecord(table, to), GjTableRecord(table, from),
			(Size) n * table->nwords * sizeof(uint64));
	memmove(GjTableTags(table) + to, GjTableTags(table) + from, n * sizeof(uint32));
	for (int i = 0; i < table->naggs; i++)
		GjAggMove(&table->aggs[i], from, to, n);
}
