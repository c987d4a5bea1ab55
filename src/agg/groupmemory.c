/*-------------------------------------------------------------------------
 *
 * groupmemory.c
 *	  Memory of a set of groups: how it grows, and what happens where it must not.
 *
 * All that grows with the number of groups is counted before it grows.  When doubling would be
 * too much, it grows to what is left, for each group that is there saves its rows a way over the
 * disk.  If there are sets of count(DISTINCT), groups have half of the memory, and the sets have
 * the other: these grow with the rows, and would otherwise leave nothing to groups that come later.
 *
 * What spilling needs is set aside from the beginning.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groupsstate.h"

/* Up to this number of groups the room for them grows fourfold */
#define GJ_GROUPS_GROW_FAST		((uint32) 256 * 1024)

/* From this number on what has been expected may be believed */
#define GJ_GROUPS_EXPECT		((uint32) 16 * 1024)

/* Small parts cost little more than large ones; those that are too large are written again */
#define GJ_FIRST_PARTS			16
#define GJ_PART_FACTOR			1.5

static uint32 expected_capacity(const GjGroups *groups);
static bool grow_to(GjGroups *groups, uint32 capacity, uint64 nslots);
static bool fill_up(GjGroups *groups, uint64 nslots);
static Size group_size(const GjGroups *groups);
static Size records_size(const GjGroupTable *table);
static Size slots_size(const GjGroupTable *table);
static Size largest_region(const GjGroups *groups);
static int	most_parts(const GjGroups *groups);
static Size groups_limit(const GjGroups *groups);
static Size sets_room(const GjGroups *groups);
static Size groups_memory(const GjGroups *groups);

/*
 * Make room for more groups; false if there is no memory for them.  Growing fast while it is
 * cheap saves half of the copying; growing to what is expected, nearly all.
 */
bool
GjGroupsGrow(GjGroups *groups)
{
	uint32		capacity = groups->table.capacity;
	uint32		expected = expected_capacity(groups);
	uint64		nslots = groups->table.nslots;

	if (expected > capacity && grow_to(groups, expected, GjTableSlots(expected)))
		return true;
	for (int times = capacity < GJ_GROUPS_GROW_FAST ? 4 : 2; times > 1; times /= 2)
	{
		uint32		wanted = (uint32) Min((uint64) capacity * times, groups->most_groups);

		if (wanted > capacity && grow_to(groups, wanted, GjTableSlots(wanted)))
			return true;
	}
	return fill_up(groups, nslots * 2) || fill_up(groups, nslots);
}

bool
GjGroupsMakeRoom(GjGroups *groups)
{
	GjGroupTable *table = &groups->table;

	while (table->ncolumns > 0 &&
		   GjTableRecords(table) + GJ_BATCH_ROWS > table->capacity)
	{
		if (GjTableTrySettling(table))
			continue;
		if (groups->is_full || (!GjGroupsGrow(groups) && !GjTableSettle(table)))
			return false;
	}
	return !groups->is_full;
}

/*
 * Room for as many groups as are expected, if that is to be believed: there are many groups
 * already, and most rows have made one.  0: it is not.
 */
static uint32
expected_capacity(const GjGroups *groups)
{
	uint32		capacity = groups->table.capacity;

	if (capacity < GJ_GROUPS_EXPECT || (uint64) capacity * 2 < groups->nread)
		return 0;
	return (uint32) Min(groups->pass_expected, groups->most_groups);
}

static bool
grow_to(GjGroups *groups, uint32 capacity, uint64 nslots)
{
	GjGroupTable *table = &groups->table;
	Size		growth = (Size) (capacity - table->capacity) * group_size(groups);
	/* a partial one has some groups, and room for a batch */
	uint32		least = groups->is_partial ? 2 * GJ_GROUPS_FLOOR : GJ_GROUPS_FLOOR;

	if (!table->is_direct)
		growth += (nslots - table->nslots) * sizeof(GjGroupSlot);
	/* What grows is there twice for a moment, one after the other */
	if (capacity > least && !GjGroupsFit(groups, growth + largest_region(groups)))
		return false;

	GjTableGrow(table, capacity, nslots);
	for (int i = 0; i < groups->naggs; i++)
		GjAggGrow(&groups->aggs[i], groups->context, table->nstarted, capacity);
	return true;
}

/*
 * Make room for as many groups as there is memory for, with so many slots, of which a quarter
 * stays free, or half where rows wait (groupdefer.c); false if that would hardly be any
 */
static bool
fill_up(GjGroups *groups, uint64 nslots)
{
	GjGroupTable *table = &groups->table;
	Size		needed = groups_memory(groups) + largest_region(groups) +
		(nslots - table->nslots) * sizeof(GjGroupSlot);
	uint64		capacity = table->capacity;

	if (needed > groups_limit(groups))
		return false;
	capacity += (groups_limit(groups) - needed) / group_size(groups);
	if (!table->is_direct)
		capacity = Min(capacity, table->defers ? nslots / 2 : nslots / 4 * 3);
	capacity = Min(capacity, groups->most_groups);
	return capacity > table->capacity + table->capacity / 8 &&
		grow_to(groups, (uint32) capacity, nslots);
}

/*
 * Have room in the sets of count(DISTINCT) for the rows of the batch
 */
void
GjGroupsMakeSetsRoom(GjGroups *groups)
{
	for (int i = 0; i < groups->naggs; i++)
	{
		GjDistinct *set = groups->aggs[i].distinct;

		if (set != NULL)
			GjDistinctMakeRoom(set, groups->input.nrows, sets_room(groups) + GjDistinctMemory(set));
	}
}

/*
 * Count what the sets have spilled
 */
void
GjGroupsFinishSets(GjGroups *groups)
{
	for (int i = 0; i < groups->naggs; i++)
	{
		GjAgg	   *agg = &groups->aggs[i];

		if (agg->distinct != NULL)
			GjDistinctFinish(agg->distinct, sets_room(groups) + GjDistinctMemory(agg->distinct),
							 (int64 *) agg->states.start);
	}
}

/*
 * May the groups take so much memory more?  If rows can be spilled instead, they may not exceed
 * the limit.
 */
bool
GjGroupsFit(GjGroups *groups, Size growth)
{
	if (groups_memory(groups) + growth > groups_limit(groups) && GjSpillCanBegin(groups->spill))
		return false;
	groups->stats.peak_memory = Max(groups->stats.peak_memory, GjGroupsMemory(groups) + growth);
	return true;
}

/*
 * Make no more groups in this pass, but spill their rows
 */
void
GjGroupsBeginSpill(GjGroups *groups)
{
	double		ngroups = Max(groups->table.ngroups, GJ_GROUPS_FLOOR);
	double		wanted = groups->pass_expected / ngroups * GJ_PART_FACTOR;

	GjTableEndDeferring(&groups->table);
	GjOrderEnd(&groups->table);
	if (groups->is_first_pass)
		wanted = Max(wanted, GJ_FIRST_PARTS);
	if (!GjSpillBegin(groups->spill, wanted, most_parts(groups)))
		elog(ERROR, "no hash tells groups apart");
	if (groups->records == NULL)
		groups->records = MemoryContextAlloc(groups->context,
											 GJ_BATCH_ROWS * groups->input.row_size);
	groups->is_full = true;
}

/* Memory --------------------------------------------------------------------------- */

/*
 * Bytes that each group takes besides slots.  NULL bits for which records have no place yet are
 * counted, as any row may need them.
 */
static Size
group_size(const GjGroups *groups)
{
	Size		size = (groups->table.nwords + GjTableNullWords(&groups->table)) * sizeof(uint64);

	for (int i = 0; i < groups->naggs; i++)
		size += GjAggGroupSize(&groups->aggs[i]);
	return size;
}

/* Bytes of the records, with NULL bits for which they have no place yet */
static Size
records_size(const GjGroupTable *table)
{
	int			null_words = GjTableNullWords(table);

	return table->records.size +
		(null_words > 0 ? table->records.size / table->nwords * null_words : 0);
}

/* Bytes of the slots, with those that are needed once no order is known any more */
static Size
slots_size(const GjGroupTable *table)
{
	return table->ordered_by != NULL ? table->nslots * sizeof(GjGroupSlot) : table->slots.size;
}

/* The largest of the regions that grow with the number of groups */
static Size
largest_region(const GjGroups *groups)
{
	Size		size = Max(records_size(&groups->table), slots_size(&groups->table));

	for (int i = 0; i < groups->naggs; i++)
		size = Max(size, groups->aggs[i].states.size);
	return size;
}

/* In so many parts rows may be spilled: each takes a block of memory meanwhile */
static int
most_parts(const GjGroups *groups)
{
	return (int) Max(GJ_SPILL_MIN_PARTS, Min(groups->memory_limit / 8 / BLCKSZ,
											 GJ_SPILL_MAX_PARTS));
}

/*
 * So much memory groups may take: not what is needed to spill rows, and half of the rest if
 * there are sets of count(DISTINCT) as well
 */
static Size
groups_limit(const GjGroups *groups)
{
	Size		reserved = Min(most_parts(groups) * BLCKSZ, groups->memory_limit / 4);
	Size		limit = groups->memory_limit - reserved;

	for (int i = 0; i < groups->naggs; i++)
	{
		if (groups->aggs[i].distinct != NULL)
			return limit / 2;
	}
	return limit;
}

/*
 * So much memory more the sets may take.  Groups may still come to take their half, and each set
 * to be spilled.
 */
static Size
sets_room(const GjGroups *groups)
{
	Size		reserved = 0;
	Size		taken = groups_memory(groups);

	if (groups->table.ncolumns > 0)
		taken = Max(taken, groups_limit(groups));
	for (int i = 0; i < groups->naggs; i++)
	{
		if (groups->aggs[i].distinct == NULL)
			continue;
		taken += GjDistinctMemory(groups->aggs[i].distinct);
		reserved += GJ_DISTINCT_PARTS * BLCKSZ;
	}
	reserved = Min(reserved, groups->memory_limit / 4);
	taken += Max(reserved, GjSpillFileMemory(groups->file));
	return taken < groups->memory_limit ? groups->memory_limit - taken : 0;
}

static Size
groups_memory(const GjGroups *groups)
{
	Size		size = records_size(&groups->table) + slots_size(&groups->table) +
		groups->table.direct.size;

	for (int i = 0; i < groups->naggs; i++)
		size += GjAggMemory(&groups->aggs[i]);
	return size;
}

/* All memory */
Size
GjGroupsMemory(const GjGroups *groups)
{
	Size		size = groups_memory(groups) + GjSpillFileMemory(groups->file);

	for (int i = 0; i < groups->naggs; i++)
	{
		if (groups->aggs[i].distinct != NULL)
			size += GjDistinctMemory(groups->aggs[i].distinct);
	}
	return size;
}
