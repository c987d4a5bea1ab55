/*-------------------------------------------------------------------------
 *
 * defer.c
 *	  Deferred grouping, for rows that rarely repeat: look up many pending rows at once.
 *
 * If nearly every row forms a group, the table is much larger than any cache, and each row waits
 * for another cache line.  But a row's group does not matter until the last row has been read:
 * until then a row may be a group of its own.  So rows are appended to the groups' records and
 * stay pending there, with 32 bits of their hashes, until the groups are requested.  Aggregates
 * treat them as groups, and start a state for each.  Later all records are ordered by some bits
 * of the hash, and a few hundred at a time are looked up in a table that fits in the nearest
 * cache.  There are no slots meanwhile: the tags and the lookup use their memory, and growing the
 * table requires no rehashing.
 *
 * Rows that arrive in the order of a column are not deferred: the slots of one run suffice for
 * them, and take no memory for pending rows (hash.c).
 *
 * A row that turns out to belong to an existing group is removed.  Its state is merged into that
 * of the group, in row order, and the records after it move up; so the order is kept, and the
 * first of equal rows stays.  Repeated rows must not occupy memory or cost time for long: once
 * there are four times as many records as known groups, the pending rows are looked up, the first
 * time even if there is room for more.  If many are removed, deferring does not pay off, and the
 * table gets its slots.
 *
 * A batch, or what remains of it, is deferred as a whole: its row numbers must stay valid until
 * its aggregates have been computed, so no row may be removed before that.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"

#include "groupparts.h"

/* Look up pending rows when there are this many times as many records as known groups */
#define GJ_DEFER_FACTOR			4

/* Stop deferring if more than one in this many rows is removed */
#define GJ_DEFER_LOSS			8

/* Approximate number of rows looked up at a time, and maximum number of partitions */
#define GJ_PARTITION_ROWS		1024
#define GJ_MAX_PARTITIONS		2048

/* A record in a partition, by its number */
typedef struct Row
{
	uint32		tag;
	uint32		number;
} Row;

/*
 * Data after the tags in the region of the slots, which has at least two slots for each record:
 * all records in another order, and a bit for each that is to be removed
 */
typedef struct Parts
{
	Row		   *rows;
	uint8	   *removed;
} Parts;

/* Rows to be removed, and their groups; their states have not been merged yet */
typedef struct Removed
{
	int			n;
	uint32		rows[GJ_BATCH_ROWS];
	uint32		groups[GJ_BATCH_ROWS];
} Removed;

StaticAssertDecl(sizeof(uint32) + sizeof(Row) + 1 <= 2 * sizeof(GjGroupSlot),
				 "pending rows take more memory than slots");

static Parts get_parts(const GjGroupTable *table);
static uint32 find_equal(GjGroupTable *table);
static int	order_by_tags(const GjGroupTable *table, uint32 *ends);
static uint32 find_in_partition(GjGroupTable *table, const Row *rows, uint32 nrows,
								uint32 **slots, uint64 *nslots, Removed *removed);
static void remove_row(GjGroupTable *table, uint32 row, uint32 group, Removed *removed);
static void merge_states(GjGroupTable *table, Removed *removed);
static void merge_agg(GjAgg *agg, const uint32 *from, const uint32 *to, int n);
static void merge_values(GjAgg *agg, const uint32 *from, const uint32 *to, int n);
static void close_gaps(GjGroupTable *table);
static inline bool is_removed(const GjGroupTable *table, uint32 row);
static void move(GjGroupTable *table, uint32 from, uint32 to, uint32 n);
static void move_states(GjAgg *agg, uint32 from, uint32 to, uint32 n);

/*
 * Make room for tags instead of slots, keeping existing tags
 */
void
GjTableMakeTags(GjGroupTable *table, uint64 nslots)
{
	GjRegion	old = table->slots;
	bool		deferred = table->phase == GJ_TABLE_PENDING;

	GjRegionAllocate(&table->slots, table->context, nslots * sizeof(GjGroupSlot));
	table->nslots = nslots;
	table->phase = GJ_TABLE_PENDING;
	table->is_tried &= deferred;
	if (deferred)
		memcpy(table->slots.start, old.start, GjTableRecords(table) * sizeof(uint32));
	else
		GjTableHashAgain(table);
	GjRegionFree(&old);
}

/*
 * Set the tags of all records
 */
void
GjTableHashAgain(GjGroupTable *table)
{
	for (uint32 i = 0; i < GjTableRecords(table); i++)
	{
		if (i % GJ_UNINTERRUPTED_SLOTS == 0)
			CHECK_FOR_INTERRUPTS();
		GjTableTags(table)[i] = (uint32) GjTableHash(table, i);
	}
}

static Parts
get_parts(const GjGroupTable *table)
{
	Row		   *rows = (Row *) (GjTableTags(table) + table->capacity);

	return (Parts) {rows, (uint8 *) (rows + table->capacity)};
}

/*
 * Defer the rows of a batch, starting at row.  Returns false if they do not all fit, or if they
 * must be looked up now.
 */
bool
GjTableDefer(GjGroupTable *table, int row, int nrows, uint32 *numbers)
{
	uint32		nrecords = GjTableRecords(table);
	uint32		n = nrows - row;

	Assert(table->phase == GJ_TABLE_PENDING);
	if (!table->is_tried || table->capacity - nrecords < n)
		(void) GjTableTrySettling(table);
	nrecords = GjTableRecords(table);
	if (table->phase != GJ_TABLE_PENDING || table->capacity - nrecords < n)
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
 * Look up the pending rows if there are enough of them, and stop deferring if too many are
 * removed.  The more groups there are, the more often rows repeat, so the duplicate rate is
 * extrapolated to a full table.  Returns false if there are too few pending rows to bother.
 */
bool
GjTableTrySettling(GjGroupTable *table)
{
	uint64		nrecords = GjTableRecords(table);

	if (table->phase != GJ_TABLE_PENDING || nrecords / GJ_DEFER_FACTOR < table->ngroups)
		return false;
	(void) GjTableSettle(table);
	table->is_tried = true;
	if ((double) (nrecords - table->ngroups) * GJ_DEFER_LOSS * table->capacity >
		(double) nrecords * nrecords)
		GjTableEndDeferring(table);
	return true;
}

/*
 * Look up the pending rows, none of which may belong to the current batch.  Returns true if that
 * made room for more.
 */
bool
GjTableSettle(GjGroupTable *table)
{
	uint32		n = table->ndeferred;
	uint32		nremoved;

	if (n == 0)
		return false;
	Assert(table->phase == GJ_TABLE_PENDING);
	Assert(table->nstarted == GjTableRecords(table));
	nremoved = find_equal(table);
	if (nremoved > 0)
		close_gaps(table);
	table->ngroups += n - nremoved;
	table->nstarted = table->ngroups;
	table->ndeferred = 0;
	return table->ngroups < table->capacity;
}

/*
 * Stop deferring: give the table its slots
 */
void
GjTableEndDeferring(GjGroupTable *table)
{
	uint64		nslots = table->nslots;

	table->may_defer = false;
	if (table->phase != GJ_TABLE_PENDING)
		return;
	(void) GjTableSettle(table);
	table->phase = GJ_TABLE_SLOTS;
	GjRegionFree(&table->slots);
	table->nslots = 0;
	GjTableMakeSlots(table, nslots);
}

/*
 * Mark the rows that belong to existing groups, merge their states into those, and return their
 * number
 */
static uint32
find_equal(GjGroupTable *table)
{
	Parts		parts = get_parts(table);
	uint32		nrecords = GjTableRecords(table);
	uint32		ends[GJ_MAX_PARTITIONS];
	Removed		removed;
	int			npartitions;
	uint32		first = 0;
	uint32	   *slots = NULL;
	uint64		nslots = 0;
	uint32		nremoved = 0;

	CHECK_FOR_INTERRUPTS();
	npartitions = order_by_tags(table, ends);
	removed.n = 0;
	memset(parts.removed, 0, (nrecords + BITS_PER_BYTE - 1) / BITS_PER_BYTE);
	for (int i = 0; i < npartitions; i++)
	{
		CHECK_FOR_INTERRUPTS();
		nremoved += find_in_partition(table, parts.rows + first, ends[i] - first, &slots, &nslots,
									  &removed);
		first = ends[i];
	}
	merge_states(table, &removed);
	if (slots != NULL)
		pfree(slots);
	return nremoved;
}

/*
 * Distribute all rows over partitions by the upper bits of their tags, keeping their order.
 * ends[] is set to the end of each partition.  Returns the number of partitions.
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

	while (1 << bits < GJ_MAX_PARTITIONS && nrecords >> bits > GJ_PARTITION_ROWS)
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
pending_is_equal(const GjGroupTable *table, const Row *a, const Row *b)
{
	return a->tag == b->tag &&
		memcmp(GjTableRecord(table, a->number), GjTableRecord(table, b->number),
			   table->nwords * sizeof(uint64)) == 0;
}

/*
 * Mark the rows of a partition that equal an earlier one, and return their number. slots[] keeps
 * the largest size needed so far; it is mostly empty, so that collisions are rare.
 */
static uint32
find_in_partition(GjGroupTable *table, const Row *rows, uint32 nrows, uint32 **slots,
				  uint64 *nslots, Removed *removed)
{
	uint64		wanted = pg_nextpower2_64(Max((uint64) nrows, 2) * 4);
	uint32	   *used_slots;
	uint32		nremoved = 0;

	if (wanted > *nslots)
	{
		if (*slots != NULL)
			pfree(*slots);
		*slots = MemoryContextAllocHuge(table->context, wanted * sizeof(uint32));
		*nslots = wanted;
	}
	used_slots = *slots;
	memset(used_slots, 0, wanted * sizeof(uint32));
	for (uint32 i = 0; i < nrows; i++)
	{
		uint64		at = rows[i].tag & (wanted - 1);

		while (used_slots[at] != 0 && !pending_is_equal(table, &rows[used_slots[at] - 1], &rows[i]))
		{
			GjSeedNote(&table->seed, (at - rows[i].tag) & (wanted - 1));
			at = (at + 1) & (wanted - 1);
		}
		if (used_slots[at] == 0)
			used_slots[at] = i + 1;
		else
		{
			remove_row(table, rows[i].number, rows[used_slots[at] - 1].number, removed);
			nremoved++;
		}
	}
	return nremoved;
}

static void
remove_row(GjGroupTable *table, uint32 row, uint32 group, Removed *removed)
{
	get_parts(table).removed[row / BITS_PER_BYTE] |= 1 << row % BITS_PER_BYTE;
	if (table->naggs == 0)
		return;
	removed->rows[removed->n] = row;
	removed->groups[removed->n++] = group;
	if (removed->n == GJ_BATCH_ROWS)
		merge_states(table, removed);
}

static void
merge_states(GjGroupTable *table, Removed *removed)
{
	for (int i = 0; i < table->naggs; i++)
		merge_agg(&table->aggs[i], removed->rows, removed->groups, removed->n);
	removed->n = 0;
}

/*
 * Move the remaining records, and their states, to the positions of those that are removed
 */
static void
close_gaps(GjGroupTable *table)
{
	uint32		nrecords = GjTableRecords(table);
	uint32		to = table->ngroups;
	uint32		end;

	for (uint32 from = to; from < nrecords; from = end)
	{
		while (from < nrecords && is_removed(table, from))
			from++;
		for (end = from; end < nrecords && !is_removed(table, end); end++)
			;
		if (from != to)
			move(table, from, to, end - from);
		to += end - from;
	}
}

static inline bool
is_removed(const GjGroupTable *table, uint32 row)
{
	return get_parts(table).removed[row / BITS_PER_BYTE] >> row % BITS_PER_BYTE & 1;
}

static void
move(GjGroupTable *table, uint32 from, uint32 to, uint32 n)
{
	memmove(GjTableRecord(table, to), GjTableRecord(table, from),
			(Size) n * table->nwords * sizeof(uint64));
	memmove(GjTableTags(table) + to, GjTableTags(table) + from, n * sizeof(uint32));
	for (int i = 0; i < table->naggs; i++)
		move_states(&table->aggs[i], from, to, n);
}

/*-------------------------------------------------------------------------
 * Merging states
 *
 * Add the states of pending rows to those of their groups.
 *
 * Such a state covers one row, or adjacent rows of a run, and follows all rows that the group's
 * state covers.  The state of min(), max() and of booleans has the form of a value and is added
 * like one.  Sums of floats cannot be merged (GjAgg.may_merge).
 *-------------------------------------------------------------------------
 */

/* Add one member of states to another's */
#define ADD(type, member) \
	do { \
		for (int i = 0; i < n; i++) \
			((type *) states)[to[i]] member += ((type *) states)[from[i]] member; \
	} while (0)

/* Do the same for a member that is a 128-bit sum */
#define ADD_WIDE(type, member) \
	do { \
		for (int i = 0; i < n; i++) \
			GjAddWide(&((type *) states)[to[i]] member, ((type *) states)[from[i]] member.low, \
					  ((type *) states)[from[i]] member.high); \
	} while (0)

/*
 * Merge the states of some rows into those of their groups, in order
 */
static void
merge_agg(GjAgg *agg, const uint32 *from, const uint32 *to, int n)
{
	void	   *states = agg->states.start;
	bool		is_wide = agg->spec.type == GJ_VALUE_INT8 || agg->spec.type == GJ_VALUE_NUMERIC;

	switch (agg->spec.kind)
	{
		case GJ_AGG_ONE_ROW:
			return;				/* the group's row came first */
		case GJ_AGG_COUNT_ROWS:
		case GJ_AGG_COUNT:
			ADD(uint64,);
			break;
		case GJ_AGG_SUM:
			if (is_wide)
				ADD_WIDE(GjWideSum,);
			else
				ADD(uint64,);
			break;
		case GJ_AGG_AVG:
			if (is_wide)
			{
				ADD_WIDE(GjWideAverage, .sum);
				ADD(GjWideAverage, .count);
			}
			else
			{
				ADD(GjIntAverage, .sum);
				ADD(GjIntAverage, .count);
			}
			break;
		default:
			merge_values(agg, from, to, n);
			break;
	}
	for (int i = 0; agg->keeps_seen && i < n; i++)
		agg->seen.start[to[i]] |= agg->seen.start[from[i]];
}

/*
 * Merge states as if they were values.  A state that has seen no value must be skipped, because
 * it might replace a value that it equals.
 */
static void
merge_values(GjAgg *agg, const uint32 *from, const uint32 *to, int n)
{
	uint64		values[GJ_BATCH_ROWS];
	uint32		groups[GJ_BATCH_ROWS];
	GjAggInput	input = {.groups = groups,.values = values};

	Assert(n <= GJ_BATCH_ROWS && agg->state_size <= sizeof(uint64));
	for (int i = 0; i < n; i++)
	{
		if (agg->keeps_seen && !agg->seen.start[from[i]])
			continue;
		memcpy((char *) values + input.nrows * agg->state_size,
			   agg->states.start + from[i] * agg->state_size, agg->state_size);
		groups[input.nrows++] = to[i];
	}
	agg->update(agg->states.start, &input);
}

/*
 * Move n states to lower positions, overwriting states that are no longer needed
 */
static void
move_states(GjAgg *agg, uint32 from, uint32 to, uint32 n)
{
	memmove(agg->states.start + to * agg->state_size, agg->states.start + from * agg->state_size,
			n * agg->state_size);
	if (agg->keeps_seen)
		memmove(agg->seen.start + to, agg->seen.start + from, n);
}
