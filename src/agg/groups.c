/*-------------------------------------------------------------------------
 *
 * groups.c
 *	  Groups of rows and their aggregates: life, memory, and passes.
 *
 * Groups that outgrow the memory are parted by the upper bits of their keys' hash: the part
 * whose next bit is 0 stays, and the other is put on a list, to be done in a later pass over
 * the same rows.  A part may have to be parted again, in whichever pass.  The parts on the
 * list have ever more bits, so that it is never longer than a hash has bits.
 *
 * Groups leave before the aggregates see any row of the batch at hand: first all rows get
 * their groups, and the sets of count(DISTINCT) their room.  Then nothing can stop the batch
 * half-way but an error.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "groupparts.h"

/* A direct table may be so long from the start, and at most */
#define GJ_DIRECT_FREE_SPAN		((uint64) 1 << 14)
#define GJ_DIRECT_MAX_SPAN		((uint64) 1 << 20)

/* ... and as many times as long as there were rows */
#define GJ_DIRECT_ROW_SHARE		128

/* Up to this number of groups the room for them grows fourfold */
#define GJ_GROUPS_GROW_FAST		((uint32) 256 * 1024)

/* Groups of a part have these upper bits of the hash, and so many of them count */
typedef struct GjPart
{
	int			depth;
	uint32		bits;
} GjPart;

struct GjGroups
{
	MemoryContext parent;
	MemoryContext context;		/* all below */
	Size		memory_limit;

	GjInput		input;
	GjGroupTable table;			/* without columns: of one group */
	int			naggs;
	GjAgg	   *aggs;
	GjSelection selection;
	uint32	   *numbers;		/* of the batch's rows' groups */
	uint16	   *rows;
	uint32		nstarted;		/* groups whose states have begun */
	uint32		nsettled;		/* groups with rows of earlier batches */

	GjPart		part;			/* of this pass */
	GjPart		waiting[GJ_GROUPS_MAX_DEPTH];
	int			nwaiting;
	bool		is_first_pass;

	uint32		next;			/* group to deliver */
	uint32		ndelivered;		/* the most that were, in this pass */
	uint64		nread;			/* rows of batches in this pass */
	GjGroupsStats stats;
};

static void prepare(GjGroups *groups);
static void begin_pass(GjGroups *groups);
static void assign_groups(GjGroups *groups);
static int	find(GjGroups *groups, int row);
static uint64 direct_span(const GjGroups *groups);
static void leave_direct(GjGroups *groups);
static void take_part(GjGroups *groups);
static bool grow(GjGroups *groups);
static bool grow_to(GjGroups *groups, uint32 capacity);
static bool grow_sets(GjGroups *groups);
static bool can_split(const GjGroups *groups);
static bool fits(GjGroups *groups, Size growth);
static void split(GjGroups *groups);
static void start_groups(GjGroups *groups);
static Size largest_region(const GjGroups *groups);
static Size memory(const GjGroups *groups);

GjGroups *
GjGroupsCreate(MemoryContext parent, Size memory_limit, int ngroupings,
			   const GjGroupSpec *groupings, int naggs, const GjAggSpec *aggs)
{
	MemoryContext context = AllocSetContextCreate(parent, "gpujoin groups",
												  ALLOCSET_DEFAULT_SIZES);
	GjGroups   *groups = MemoryContextAllocZero(context, sizeof(GjGroups));

	groups->context = context;
	groups->memory_limit = memory_limit;
	groups->input.context = context;
	groups->naggs = naggs;
	groups->aggs = MemoryContextAlloc(context, naggs * sizeof(GjAgg));
	for (int i = 0; i < naggs; i++)
		GjAggInit(&groups->aggs[i], context, &aggs[i], ngroupings > 0, &groups->input);

	GjTableInit(&groups->table, context, ngroupings);
	groups->table.may_defer = naggs == 0;
	for (int i = 0; i < ngroupings; i++)
	{
		GjKeyColumn *key = &groups->table.columns[i];

		key->type = groupings[i].type;
		key->width = GjValueWidth(key->type);
		key->input = GjInputAddColumn(&groups->input, groupings[i].column, key->type, false);
	}
	prepare(groups);
	return groups;
}

/*
 * Allocate what a batch needs
 */
static void
prepare(GjGroups *groups)
{
	GjTableLayOut(&groups->table);
	GjSelectionInit(&groups->selection, groups->context);
	groups->numbers = MemoryContextAlloc(groups->context, GJ_BATCH_ROWS * sizeof(uint32));
	groups->rows = MemoryContextAlloc(groups->context, GJ_BATCH_ROWS * sizeof(uint16));
}

void
GjGroupsBegin(GjGroups *groups)
{
	groups->part = (GjPart) {0, 0};
	groups->nwaiting = 0;
	groups->is_first_pass = true;
	GjTableReset(&groups->table);
	for (int i = 0; i < groups->naggs; i++)
		GjAggAllocate(&groups->aggs[i], groups->context, groups->table.capacity,
					  groups->table.ncolumns > 0);
	begin_pass(groups);
}

static void
begin_pass(GjGroups *groups)
{
	groups->nstarted = groups->nsettled = 0;
	groups->next = groups->ndelivered = 0;
	groups->nread = 0;
	groups->stats.passes++;

	/* Without a key there is a group whether there are rows or not */
	if (groups->table.ncolumns == 0)
	{
		groups->table.ngroups = 1;
		start_groups(groups);
	}
}

bool
GjGroupsNextPass(GjGroups *groups)
{
	if (groups->nwaiting == 0)
		return false;
	groups->part = groups->waiting[--groups->nwaiting];
	groups->is_first_pass = false;
	GjTableClear(&groups->table);
	for (int i = 0; i < groups->naggs; i++)
	{
		if (groups->aggs[i].distinct != NULL)
			GjDistinctClear(groups->aggs[i].distinct);
	}
	begin_pass(groups);
	return true;
}

bool
GjGroupsRewind(GjGroups *groups)
{
	if (groups->nwaiting > 0 || !groups->is_first_pass)
		return false;
	groups->next = 0;
	return true;
}

bool
GjGroupsNext(GjGroups *groups, Datum *values, bool *isnull)
{
	int			ncolumns = groups->table.ncolumns + groups->naggs;

	if (GjGroupsRemaining(groups) == 0)
		return false;
	for (int i = 0; i < ncolumns; i++)
		values[i] = GjGroupsValue(groups, 0, i, &isnull[i]);
	GjGroupsSkip(groups, 1);
	return true;
}

uint64
GjGroupsRemaining(GjGroups *groups)
{
	(void) GjTableSettle(&groups->table);
	return groups->table.ngroups - groups->next;
}

Datum
GjGroupsValue(const GjGroups *groups, uint64 ahead, int column, bool *isnull)
{
	uint32		group = groups->next + ahead;
	int			ngroupings = groups->table.ncolumns;

	if (column < ngroupings)
		return GjTableValue(&groups->table, group, column, isnull);
	return GjAggFinal(&groups->aggs[column - ngroupings], group, isnull);
}

void
GjGroupsSkip(GjGroups *groups, uint64 n)
{
	groups->next += n;
	if (groups->next > groups->ndelivered)
	{
		groups->stats.groups += groups->next - groups->ndelivered;
		groups->ndelivered = groups->next;
	}
}

const GjGroupsStats *
GjGroupsGetStats(const GjGroups *groups)
{
	return &groups->stats;
}

void
GjGroupsFree(GjGroups *groups)
{
	MemoryContextDelete(groups->context);
}

void
GjGroupsAdd(GjGroups *groups, const GjBatch *batch)
{
	bool		is_grouped = groups->table.ncolumns > 0;

	Assert(groups->stats.passes > 0);
	GjInputTake(&groups->input, batch);
	groups->nread += batch->nrows;
	if (groups->is_first_pass)
		groups->stats.rows += GjInputWeight(&groups->input);
	if (is_grouped)
		assign_groups(groups);
	else
		(void) grow_sets(groups);
	start_groups(groups);

	groups->selection.nrows = -1;
	for (int i = 0; i < groups->naggs; i++)
		GjAggAdd(&groups->aggs[i], groups->context, &groups->input,
				 is_grouped ? groups->numbers : NULL, groups->nsettled, groups->table.capacity,
				 &groups->selection);
	groups->nsettled = groups->table.ngroups;
	groups->stats.peak_memory = Max(groups->stats.peak_memory, memory(groups));
}

/*
 * Give each row of the batch its group, and make room for what the aggregates may keep of
 * it.  Rows that are of another part than this pass leave the batch.
 */
static void
assign_groups(GjGroups *groups)
{
	GjGroupTable *table = &groups->table;
	int			row = 0;

	table->is_packed = false;
	if (table->is_direct && !GjDirectCover(table, &groups->input, direct_span(groups)))
		leave_direct(groups);
	take_part(groups);
	for (;;)
	{
		row = find(groups, row);
		if (row == groups->input.nrows)
		{
			if (grow_sets(groups))
				return;
		}
		else if (grow(groups) || GjTableSettle(table))
			continue;
		split(groups);
		take_part(groups);
		row = 0;
	}
}

static int
find(GjGroups *groups, int row)
{
	if (groups->table.is_direct)
		return GjDirectFind(&groups->table, &groups->input, row, groups->numbers);
	return GjTableFind(&groups->table, row, groups->input.nrows, groups->numbers);
}

/*
 * How long a direct table may be
 */
static uint64
direct_span(const GjGroups *groups)
{
	uint64		span = GJ_DIRECT_FREE_SPAN;

	while (span < GJ_DIRECT_MAX_SPAN && span < groups->nread * GJ_DIRECT_ROW_SHARE)
		span *= 2;
	while (span > GJ_GROUPS_FLOOR && span * sizeof(uint32) > groups->memory_limit / 4)
		span /= 2;
	return span;
}

/*
 * Have the groups found by their hash from now on, which takes more memory
 */
static void
leave_direct(GjGroups *groups)
{
	GjDirectEnd(&groups->table);
	while (!fits(groups, 0))
		split(groups);
}

/*
 * Go on with those rows of the batch that are of this pass's part
 */
static void
take_part(GjGroups *groups)
{
	int			nrows;

	if (groups->table.is_direct)
		return;
	if (!groups->table.is_packed)
		GjTablePack(&groups->table, &groups->input);
	if (groups->part.depth == 0)
		return;
	nrows = GjTableSelect(&groups->table, groups->input.nrows, groups->part.depth,
						  groups->part.bits, groups->rows);
	GjInputSelect(&groups->input, groups->rows, nrows);
}

/*
 * Make room for more groups; false if there is no memory for them.  Growing fast while it is
 * cheap saves half of the copying.
 */
static bool
grow(GjGroups *groups)
{
	uint32		capacity = groups->table.capacity;

	return (capacity < GJ_GROUPS_GROW_FAST && grow_to(groups, capacity * 4)) ||
		grow_to(groups, capacity * 2);
}

static bool
grow_to(GjGroups *groups, uint32 capacity)
{
	GjGroupTable *table = &groups->table;
	Size		growth = GjTableGrowth(table, capacity);

	for (int i = 0; i < groups->naggs; i++)
		growth += (Size) (capacity - table->capacity) * GjAggGroupSize(&groups->aggs[i]);
	/* What grows is there twice for a moment, one after the other */
	if (capacity > GJ_GROUPS_FLOOR && !fits(groups, growth + largest_region(groups)))
		return false;

	GjTableGrow(table, capacity);
	for (int i = 0; i < groups->naggs; i++)
		GjAggGrow(&groups->aggs[i], groups->context, groups->nstarted, capacity);
	return true;
}

/*
 * Make room in the sets of count(DISTINCT) for all rows of the batch; false if there is no
 * memory for that.
 */
static bool
grow_sets(GjGroups *groups)
{
	for (int i = 0; i < groups->naggs; i++)
	{
		GjDistinct *set = groups->aggs[i].distinct;
		Size		growth;

		while (set != NULL && (growth = GjDistinctGrowth(set, groups->input.nrows)) > 0)
		{
			if (set->nslots >= GJ_DISTINCT_FLOOR && !fits(groups, growth))
				return false;
			GjDistinctGrow(set);
		}
	}
	return true;
}

/* A single group is never parted, nor are groups that no hash tells apart */
static bool
can_split(const GjGroups *groups)
{
	return groups->table.ncolumns > 0 && groups->table.ngroups > 1 &&
		groups->part.depth < GJ_GROUPS_MAX_DEPTH;
}

/*
 * May so much memory be taken?  If groups can leave instead, it may not exceed the limit.
 */
static bool
fits(GjGroups *groups, Size growth)
{
	Size		needed = memory(groups) + growth;

	if (needed > groups->memory_limit && can_split(groups))
		return false;
	groups->stats.peak_memory = Max(groups->stats.peak_memory, needed);
	return true;
}

/*
 * Part the groups: one half goes, to be done in another pass
 */
static void
split(GjGroups *groups)
{
	GjGroupTable *table = &groups->table;
	uint32		ngroups;
	uint32		nsettled = 0;
	uint32	   *new_numbers;

	(void) GjTableSettle(table);
	GjOrderEnd(table);
	ngroups = table->ngroups;
	if (table->is_direct)
		GjDirectEnd(table);
	start_groups(groups);
	groups->part.depth++;
	groups->part.bits *= 2;
	groups->waiting[groups->nwaiting++] =
		(GjPart) {groups->part.depth, groups->part.bits + 1};

	new_numbers = MemoryContextAllocHuge(groups->context, ngroups * sizeof(uint32));
	groups->nstarted = GjTableKeep(table, groups->part.depth, groups->part.bits, new_numbers);
	for (int i = 0; i < groups->naggs; i++)
		GjAggKeep(&groups->aggs[i], ngroups, new_numbers);
	for (uint32 group = 0; group < groups->nsettled; group++)
		nsettled += (new_numbers[group] != GJ_NO_GROUP);
	groups->nsettled = nsettled;
	pfree(new_numbers);
}

/*
 * Begin the states of new groups
 */
static void
start_groups(GjGroups *groups)
{
	for (int i = 0; i < groups->naggs; i++)
		GjAggStart(&groups->aggs[i], groups->nstarted, groups->table.ngroups);
	groups->nstarted = groups->table.ngroups;
}

/* The largest of the regions that grow with the number of groups */
static Size
largest_region(const GjGroups *groups)
{
	Size		size = Max(groups->table.records.size, groups->table.slots.size);

	for (int i = 0; i < groups->naggs; i++)
		size = Max(size, groups->aggs[i].states.size);
	return size;
}

static Size
memory(const GjGroups *groups)
{
	Size		size = groups->table.records.size + groups->table.slots.size +
		groups->table.direct.size;

	for (int i = 0; i < groups->naggs; i++)
		size += GjAggMemory(&groups->aggs[i]);
	return size;
}
