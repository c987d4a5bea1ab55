/*-------------------------------------------------------------------------
 *
 * groups.c
 *	  Groups of rows and their aggregates: life, memory, and passes.
 *
 * When there is no memory for more groups, those that are there stay, and go on taking their
 * rows.  Rows of other groups are spilled, in parts by the upper bits of their keys' hash, and
 * each part is a pass of its own, in which the same may happen.  So each group is whole in one
 * pass, and a row is read from below once.
 *
 * Rows leave before the aggregates see the batch at hand: first all rows get their groups.  Then
 * nothing can stop the batch half-way but an error.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "groupsstate.h"

/* A direct table may be so long from the start, and at most */
#define GJ_DIRECT_FREE_SPAN		((uint64) 1 << 14)
#define GJ_DIRECT_MAX_SPAN		((uint64) 1 << 20)

/* ... and as many times as long as there were rows */
#define GJ_DIRECT_ROW_SHARE		128

static void prepare(GjGroups *groups);
static void begin_pass(GjGroups *groups);
static void clear(GjGroups *groups);
static void add_input(GjGroups *groups);
static void assign_groups(GjGroups *groups);
static int	find(GjGroups *groups, const GjInput *keys, int row, uint32 *numbers);
static void make_findable(GjGroups *groups, const GjInput *keys);
static void add_to_agg(GjGroups *groups, GjAgg *agg);
static uint64 direct_span(const GjGroups *groups);
static void leave_direct(GjGroups *groups);
static void spill_others(GjGroups *groups);
static void start_groups(GjGroups *groups);
static bool read_groups(GjGroups *groups);

GjGroups *
GjGroupsCreate(MemoryContext parent, Size memory_limit, bool is_partial, int ngroupings,
			   const GjGroupSpec *groupings, int naggs, const GjAggSpec *aggs)
{
	MemoryContext context = AllocSetContextCreate(parent, "gpujoin groups",
												  ALLOCSET_DEFAULT_SIZES);
	GjGroups   *groups = MemoryContextAllocZero(context, sizeof(GjGroups));

	groups->context = context;
	groups->memory_limit = memory_limit;
	groups->is_partial = is_partial;
	groups->most_groups = GJ_MAX_GROUPS;
	groups->file = GjSpillFileCreate(context);
	groups->input.context = context;
	groups->naggs = naggs;
	groups->aggs = MemoryContextAlloc(context, naggs * sizeof(GjAgg));
	for (int i = 0; i < naggs; i++)
		GjAggInit(&groups->aggs[i], context, groups->file, &aggs[i], ngroupings > 0,
				  &groups->input);

	if (ngroupings > 0)
		GjAggFindTwins(groups->aggs, naggs);

	GjTableInit(&groups->table, context, ngroupings);
	groups->table.naggs = naggs;
	groups->table.aggs = groups->aggs;
	groups->table.may_defer = true;
	for (int i = 0; i < naggs; i++)
		groups->table.may_defer &= GjAggMayMerge(&groups->aggs[i]);
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
	Size		row_size = GjRowsLayOut(&groups->input);

	GjTableLayOut(&groups->table);
	GjSelectionInit(&groups->selection, groups->context);
	groups->numbers = MemoryContextAlloc(groups->context, GJ_BATCH_ROWS * sizeof(uint32));
	GjRunsInit(&groups->runs, groups->context, &groups->input);
	groups->ncolumns = groups->table.ncolumns + groups->naggs;
	groups->read_values = MemoryContextAlloc(groups->context, GJ_READ_GROUPS *
											 groups->ncolumns * sizeof(Datum));
	groups->read_nulls = MemoryContextAlloc(groups->context, GJ_READ_GROUPS * groups->ncolumns);
	groups->computed = MemoryContextAlloc(groups->context, groups->naggs * sizeof(int));
	for (int i = 0; i < groups->naggs; i++)
	{
		GjValueType type;

		if (!GjAggIsState(&groups->aggs[i], &type))
			groups->computed[groups->ncomputed++] = groups->table.ncolumns + i;
	}
	groups->rows = MemoryContextAlloc(groups->context, GJ_BATCH_ROWS * sizeof(uint16));
	groups->spill = GjSpillCreate(groups->context, groups->file, row_size);
}

void
GjGroupsExpect(GjGroups *groups, double ngroups)
{
	groups->expected = ngroups;
}

void
GjGroupsLimit(GjGroups *groups, uint32 most)
{
	groups->most_groups = Min(most, GJ_MAX_GROUPS);
}

void
GjGroupsBegin(GjGroups *groups)
{
	GjSpillFileReset(groups->file);
	GjSpillForget(groups->spill);
	groups->is_first_pass = true;
	groups->pass_expected = groups->expected;
	GjTableReset(&groups->table);
	for (int i = 0; i < groups->naggs; i++)
		GjAggAllocate(&groups->aggs[i], groups->context, groups->table.capacity,
					  groups->table.ncolumns > 0);
	begin_pass(groups);
}

static void
begin_pass(GjGroups *groups)
{
	groups->next = groups->ndelivered = 0;
	groups->read_first = groups->read_end = 0;
	groups->nread = 0;
	groups->is_full = false;
	groups->stats.passes++;

	/* Without a key there is a group whether there are rows or not */
	if (groups->table.ncolumns == 0)
	{
		groups->table.ngroups = 1;
		start_groups(groups);
	}
}

void
GjGroupsFinish(GjGroups *groups)
{
	GjSpillEnd(groups->spill);
	GjGroupsFinishSets(groups);
	groups->stats.disk_size = Max(groups->stats.disk_size, GjSpillFileSize(groups->file));
}

bool
GjGroupsNextPass(GjGroups *groups)
{
	uint64		nrows;
	int			n;

	if (!GjSpillNextPart(groups->spill, &nrows))
		return false;
	groups->is_first_pass = false;
	groups->pass_expected = nrows;
	clear(groups);
	begin_pass(groups);
	while ((n = GjSpillRead(groups->spill, groups->records, GJ_BATCH_ROWS)) > 0)
	{
		GjRowsTake(&groups->input, groups->records, n);
		add_input(groups);
	}
	GjGroupsFinish(groups);
	return true;
}

/*
 * Forget the groups of a pass, but keep the memory
 */
static void
clear(GjGroups *groups)
{
	bool		was_direct = groups->table.is_direct;

	GjTableClear(&groups->table);
	for (int i = 0; i < groups->naggs; i++)
	{
		GjAgg	   *agg = &groups->aggs[i];

		if (was_direct)
			GjAggAllocate(agg, groups->context, groups->table.capacity, true);
		else if (agg->distinct != NULL)
			GjDistinctClear(agg->distinct);
	}
}

bool
GjGroupsRewind(GjGroups *groups)
{
	if (GjSpillWaits(groups->spill) || !groups->is_first_pass)
		return false;
	groups->next = groups->read_end = 0;
	return true;
}

bool
GjGroupsNext(GjGroups *groups, Datum **values, bool **isnull)
{
	uint32		at;

	if ((groups->next < groups->read_first || groups->next >= groups->read_end) &&
		!read_groups(groups))
		return false;
	at = (groups->next - groups->read_first) * groups->ncolumns;
	*values = groups->read_values + at;
	*isnull = groups->read_nulls + at;
	for (int i = 0; i < groups->ncomputed; i++)
	{
		int			column = groups->computed[i];

		(*values)[column] = GjGroupsValue(groups, 0, column, *isnull + column);
	}
	GjGroupsSkip(groups, 1);
	return true;
}

/*
 * Read the next groups, which no longer change, but for results that take memory of their own;
 * false: there are none
 */
static bool
read_groups(GjGroups *groups)
{
	int			n = (int) Min(GjGroupsRemaining(groups), GJ_READ_GROUPS);
	int			at = groups->table.ncolumns;

	groups->read_first = groups->next;
	groups->read_end = groups->next + n;
	GjTableRead(&groups->table, groups->next, n, groups->ncolumns, groups->read_values,
				groups->read_nulls);
	for (int i = 0; i < groups->naggs; i++, at++)
	{
		GjValueType type;

		if (GjAggIsState(&groups->aggs[i], &type))
			GjAggRead(&groups->aggs[i], groups->next, n, groups->ncolumns,
					  groups->read_values + at, groups->read_nulls + at);
	}
	return n > 0;
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
	return (groups->is_partial ? GjAggPartial : GjAggFinal) (&groups->aggs[column - ngroupings],
															 group, isnull);
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
	GjSpillFileReset(groups->file);
	MemoryContextDelete(groups->context);
}

void
GjGroupsAdd(GjGroups *groups, const GjBatch *batch)
{
	Assert(groups->stats.passes > 0 && groups->is_first_pass);
	GjInputTake(&groups->input, batch);
	groups->stats.rows += GjInputWeight(&groups->input);
	add_input(groups);
}

static void
add_input(GjGroups *groups)
{
	bool		is_grouped = groups->table.ncolumns > 0;

	groups->nread += groups->input.nrows;
	if (is_grouped)
		assign_groups(groups);
	GjGroupsMakeSetsRoom(groups);
	groups->nsettled = groups->table.nstarted;
	start_groups(groups);

	groups->selection.nrows = -1;
	for (int i = 0; i < groups->naggs; i++)
		add_to_agg(groups, &groups->aggs[i]);
	groups->stats.peak_memory = Max(groups->stats.peak_memory, GjGroupsMemory(groups));
}

static void
add_to_agg(GjGroups *groups, GjAgg *agg)
{
	bool		is_grouped = groups->table.ncolumns > 0;

	if (groups->runs.nruns > 0)
	{
		if (GjAggAddRuns(agg, &groups->input, &groups->runs))
			return;
		GjRunsSpread(&groups->runs, groups->numbers);
	}
	GjAggAdd(agg, groups->context, &groups->input, is_grouped ? groups->numbers : NULL,
			 groups->nsettled, groups->table.capacity, &groups->selection);
}

/*
 * Give each row of the batch, or each run, its group.  Rows of groups that there is no memory for
 * leave it.
 */
static void
assign_groups(GjGroups *groups)
{
	GjGroupTable *table = &groups->table;
	bool		in_runs = !groups->is_full && GjRunsFind(&groups->runs, table, &groups->input);
	const GjInput *keys = in_runs ? &groups->runs.heads : &groups->input;
	uint32	   *numbers = in_runs ? groups->runs.groups : groups->numbers;
	int			row = 0;

	table->is_packed = false;
	if (!table->is_direct)
		GjTablePack(table, keys);
	while (!groups->is_full && (row = find(groups, keys, row, numbers)) < keys->nrows)
		make_findable(groups, keys);
	if (groups->is_full)
	{
		groups->runs.nruns = 0;
		if (in_runs && !table->is_direct)
			GjTablePack(table, &groups->input);
		spill_others(groups);
	}
}

static int
find(GjGroups *groups, const GjInput *keys, int row, uint32 *numbers)
{
	if (groups->table.is_direct)
		return GjDirectFind(&groups->table, keys, row, numbers);
	return GjTableFind(&groups->table, row, keys->nrows, numbers);
}

/*
 * A row has not been found: its value is not covered, or there is no room for its group
 */
static void
make_findable(GjGroups *groups, const GjInput *keys)
{
	GjGroupTable *table = &groups->table;

	if (!table->is_direct || table->ngroups == table->capacity)
	{
		if (!GjGroupsGrow(groups) && !GjTableSettle(table))
			GjGroupsBeginSpill(groups);
	}
	else if (!GjDirectCover(table, keys, direct_span(groups)))
	{
		leave_direct(groups);
		if (!table->is_direct)
			GjTablePack(table, keys);
	}
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
	GjGroupTable *table = &groups->table;

	if (table->capacity > GJ_GROUPS_FLOOR &&
		!GjGroupsFit(groups, GjTableSlots(table->capacity) * sizeof(GjGroupSlot)))
		GjGroupsBeginSpill(groups);
	else
		GjDirectEnd(table);
}

/*
 * Spill the rows of the batch that have no group, and go on with the others
 */
static void
spill_others(GjGroups *groups)
{
	GjGroupTable *table = &groups->table;
	GjInput    *input = &groups->input;
	uint16		missed[GJ_BATCH_ROWS];
	uint64		hashes[GJ_BATCH_ROWS];
	int			n = table->is_direct ?
		GjDirectLookUp(table, input, groups->rows, groups->numbers, missed) :
		GjTableLookUp(table, input->nrows, groups->rows, groups->numbers, missed);

	if (n == 0)
		return;
	if (table->is_direct)
		GjTablePack(table, input);
	for (int i = 0; i < n; i++)
		hashes[i] = table->batch_hashes[missed[i]];
	GjRowsPut(input, missed, n, groups->records);
	GjSpillWrite(groups->spill, groups->records, hashes, n);
	GjInputSelect(input, groups->rows, input->nrows - n);
}

/*
 * Begin the states of new groups
 */
static void
start_groups(GjGroups *groups)
{
	GjGroupTable *table = &groups->table;

	for (int i = 0; i < groups->naggs; i++)
		GjAggStart(&groups->aggs[i], table->nstarted, GjTableRecords(table));
	table->nstarted = GjTableRecords(table);
}
