/*-------------------------------------------------------------------------
 *
 * groups.c
 *	  Groups of rows and their aggregates: life cycle, memory, and passes.
 *
 * When there is no memory for more groups, the existing ones stay, and continue to take their
 * rows.  Rows of other groups are spilled, in parts by the upper bits of their keys' hash, and
 * each part is processed in a pass of its own, in which the same may happen again.  So each group
 * is completed within one pass, and each row is read from the child once.
 *
 * Rows are spilled before the aggregates see the current batch: first all rows are assigned their
 * groups.  After that, only an error can interrupt the batch.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groupparts.h"

/* Groups to read at a time, for callers that fetch them one by one */
#define GJ_READ_GROUPS			64

/*
 * The call sequence.  Groups can be begun again in each phase.
 *
 *	CREATED -> ADDING			begin
 *	ADDING -> FULL				no memory for another group
 *	ADDING or FULL -> DELIVERING	finish
 *	DELIVERING -> DELIVERING	rewind, or build the groups of the next pass
 */
typedef enum GjGroupsPhase
{
	GJ_GROUPS_CREATED,
	GJ_GROUPS_ADDING,			/* rows may form new groups */
	GJ_GROUPS_FULL,				/* rows of other groups are spilled */
	GJ_GROUPS_DELIVERING		/* the groups of the pass are complete */
} GjGroupsPhase;

struct GjGroups
{
	GjGroupsPhase phase;
	MemoryContext context;		/* parent of all allocations */
	Size		memory_limit;
	bool		is_partial;		/* deliver states; groups may be delivered in pieces */
	double		expected;		/* expected number of groups */
	uint32		most_groups;	/* limit on the groups of a pass, whatever memory there is */

	GjInput		input;
	GjGroupTable table;			/* without columns if there is only one group */
	int			naggs;
	GjAgg	   *aggs;
	GjSelection *selection;		/* NULL until some rows of a batch are left out */
	uint32		nsettled;		/* number of groups that had rows in earlier batches */

	/* If there are group columns */
	uint32	   *numbers;		/* group numbers of the batch's rows */
	GjRuns		runs;
	uint16	   *rows;

	GjSpillFile file;
	GjSpill    *spill;			/* spilled rows; NULL if there have never been any */
	bool		is_first_pass;
	double		pass_expected;	/* maximum number of groups expected in this pass */

	uint32		next;			/* next group to deliver */
	int			ncolumns;		/* number of key columns and results */
	int			ncomputed;		/* number of results computed group by group, as they allocate
								 * memory */
	int		   *computed;		/* their column numbers */
	uint32		read_first;		/* first group whose other columns are in read_values */
	uint32		read_end;		/* end of these groups */
	Datum	   *read_values;	/* columns of up to GJ_READ_GROUPS groups */
	bool	   *read_nulls;
	uint32		ndelivered;		/* highest number of groups delivered in this pass */
	uint64		nread;			/* rows of this pass's batches */
	GjGroupsStats stats;
};

/* Maximum length of a direct table, at first and in any case */
#define GJ_DIRECT_FREE_SPAN		((uint64) 1 << 14)
#define GJ_DIRECT_MAX_SPAN		((uint64) 1 << 20)

/*
 * ... and its maximum length per row read.  A direct table pays off only if many rows are looked up
 * in it; a group that a device made is looked up once, so it counts as a small part of a row.
 */
#define GJ_DIRECT_ROW_SHARE		128
#define GJ_MERGED_PART			16

/* The keys among the strays may use this part of the memory, and those of merged groups more */
#define GJ_KEYS_PART			4

/* Room for groups grows fourfold up to this number */
#define GJ_GROUPS_GROW_FAST		((uint32) 256 * 1024)

/* Trust the expected number of groups only when there are at least this many */
#define GJ_GROUPS_EXPECT		((uint32) 16 * 1024)

/* Small parts cost little more than large ones, but rows of parts too large are written again */
#define GJ_FIRST_PARTS			16
#define GJ_PART_FACTOR			1.5

/* Minimum mean length of runs for which using them pays off */
#define GJ_RUN_ROWS				16

/* Rows tested first, and maximum number of runs that may start in them after the first row */
#define GJ_FIRST_ROWS			64
#define GJ_FIRST_RUNS			(GJ_FIRST_ROWS / GJ_RUN_ROWS)

static void create_aggs(GjGroups *groups, int naggs, const GjAggSpec *specs, bool is_grouped);
static void create_table(GjGroups *groups, int ngroupings, const GjGroupSpec *groupings);
static void groups_prepare(GjGroups *groups);
static void begin_pass(GjGroups *groups);
static void groups_clear(GjGroups *groups);
static void add_input(GjGroups *groups);
static void handle_strays(GjGroups *groups);
static void assign_groups(GjGroups *groups);
static void find_groups(GjGroups *groups, const GjInput *keys, uint32 *numbers);
static int	groups_find(GjGroups *groups, const GjInput *keys, int row, uint32 *numbers);
static void make_findable(GjGroups *groups, const GjInput *keys);
static uint64 direct_span(const GjGroups *groups);
static void leave_direct(GjGroups *groups);
static void spill_others(GjGroups *groups);
static void hash_strays(const GjGroups *groups, const uint16 *rows, uint64 *hashes, int n);
static void start_groups(GjGroups *groups);
static void start_agg(GjAgg *agg, uint32 first, uint32 end);
static bool read_groups(GjGroups *groups);
static uint32 expected_capacity(const GjGroups *groups);
static bool groups_grow_to(GjGroups *groups, uint32 capacity, uint64 nslots);
static void grow_agg(GjAgg *agg, uint32 nstarted, uint32 capacity);
static bool fill_up(GjGroups *groups, uint64 nslots);
static Size group_size(const GjGroups *groups);
static Size agg_memory(const GjAgg *agg);
static Size records_size(const GjGroupTable *table);
static Size slots_size(const GjGroupTable *table);
static Size largest_region(const GjGroups *groups);
static int	most_parts(const GjGroups *groups);
static Size groups_limit(const GjGroups *groups);
static Size sets_room(const GjGroups *groups);
static Size groups_memory(const GjGroups *groups);
static bool groups_grow(GjGroups *groups);
static void groups_make_sets_room(GjGroups *groups);
static void groups_finish_sets(GjGroups *groups);
static bool groups_fit(GjGroups *groups, Size growth);
static void groups_begin_spill(GjGroups *groups);
static void note_memory(GjGroups *groups, Size growth);
static void init_runs(GjRuns *runs, MemoryContext context, const GjInput *input);
static bool find_runs(GjRuns *runs, const GjGroupTable *table, const GjInput *input);
static int	list_starts(const GjGroupTable *table, const GjInput *input, int first, int end,
						uint16 *starts, int most);
static void mark_changes(uint8 *changes, const GjInputColumn *column, int first, int n);

static inline bool
is_adding(const GjGroups *groups)
{
	return groups->phase == GJ_GROUPS_ADDING || groups->phase == GJ_GROUPS_FULL;
}

/*
 * Return true if rows can be spilled, or be spilled once more
 */
static inline bool
can_spill(const GjGroups *groups)
{
	return groups->spill == NULL || GjSpillCanBegin(groups->spill);
}

static inline void
remove_files(GjGroups *groups)
{
	if (groups->file.tapes != NULL)
		GjSpillFileReset(&groups->file);
	GjStraysCloseFile(groups->input.strays);
}

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
	groups->file.parent = context;
	groups->input.context = context;
	create_aggs(groups, naggs, aggs, ngroupings > 0);
	create_table(groups, ngroupings, groupings);
	groups_prepare(groups);
	return groups;
}

static void
create_aggs(GjGroups *groups, int naggs, const GjAggSpec *specs, bool is_grouped)
{
	GjInput    *input = &groups->input;

	groups->naggs = naggs;
	groups->aggs = MemoryContextAllocZero(groups->context, naggs * sizeof(GjAgg));
	for (int i = 0; i < naggs; i++)
	{
		const GjAggSpec *spec = &specs[i];
		GjAgg	   *agg = &groups->aggs[i];

		agg->spec = *spec;
		agg->argument = agg->second = agg->filter = -1;
		if (spec->kind != GJ_AGG_COUNT_ROWS)
			agg->argument = GjInputAdd(input, spec->column, spec->type, spec->stray_kind, false);
		if (spec->kind == GJ_AGG_ONE_ROW)	/* GjGroupsMerge() needs it; strays are kept */
			(void) GjInputAdd(input, spec->column, spec->type, spec->stray_kind, true);
		if (spec->kind >= GJ_AGG_COUNT_PAIRS)
			agg->second = GjInputAdd(input, spec->column + 1, spec->type, GJ_STRAY_NONE, false);
		if (spec->filter >= 0)
			agg->filter = GjInputAdd(input, spec->filter, GJ_VALUE_BOOL, GJ_STRAY_NONE, false);
		if (spec->stray_kind != GJ_STRAY_NONE)
			input->strays = spec->strays;
	}
	GjAggsInit(groups->aggs, naggs, groups->context, &groups->file, is_grouped,
			   groups->memory_limit / GJ_KEYS_PART / 2);
}

static void
create_table(GjGroups *groups, int ngroupings, const GjGroupSpec *groupings)
{
	GjGroupTable *table = &groups->table;
	GjKeyColumn *columns = MemoryContextAllocZero(groups->context,
												  ngroupings * sizeof(GjKeyColumn));

	for (int i = 0; i < ngroupings; i++)
	{
		columns[i].type = groupings[i].type;
		columns[i].width = GjValueWidth(groupings[i].type);
		columns[i].input = GjInputAdd(&groups->input, groupings[i].column, groupings[i].type,
									  groupings[i].stray_kind, true);
		if (groupings[i].stray_kind != GJ_STRAY_NONE)
			groups->input.strays = groupings[i].strays;
	}
	GjTableInit(table, groups->context, ngroupings, columns);
	table->naggs = groups->naggs;
	table->aggs = groups->aggs;
	table->may_defer = true;
	for (int i = 0; i < groups->naggs; i++)
		table->may_defer &= groups->aggs[i].may_merge;
}

/*
 * Allocate the buffers for a batch
 */
static void
groups_prepare(GjGroups *groups)
{
	GjInputLayOut(&groups->input);
	if (groups->table.ncolumns > 0)
	{
		groups->numbers = MemoryContextAlloc(groups->context, GJ_BATCH_ROWS * sizeof(uint32));
		groups->rows = MemoryContextAlloc(groups->context, GJ_BATCH_ROWS * sizeof(uint16));
		init_runs(&groups->runs, groups->context, &groups->input);
	}
	groups->ncolumns = groups->table.ncolumns + groups->naggs;
	groups->read_values = MemoryContextAlloc(groups->context, GJ_READ_GROUPS *
											 groups->ncolumns * sizeof(Datum));
	groups->read_nulls = MemoryContextAlloc(groups->context, GJ_READ_GROUPS * groups->ncolumns);
	groups->computed = MemoryContextAlloc(groups->context, groups->naggs * sizeof(int));
	for (int i = 0; i < groups->naggs; i++)
	{
		if (!groups->aggs[i].is_state)
			groups->computed[groups->ncomputed++] = groups->table.ncolumns + i;
	}
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
	remove_files(groups);
	if (groups->spill != NULL)
		GjSpillForget(groups->spill);
	groups->is_first_pass = true;
	groups->pass_expected = groups->expected;
	GjTableReset(&groups->table);
	for (int i = 0; i < groups->naggs; i++)
		GjAggAllocate(&groups->aggs[i], groups->table.capacity, groups->table.ncolumns > 0);
	begin_pass(groups);
}

static void
begin_pass(GjGroups *groups)
{
	groups->next = groups->ndelivered = 0;
	groups->read_first = groups->read_end = groups->nread = 0;
	groups->phase = GJ_GROUPS_ADDING;
	groups->stats.passes++;
	if (groups->input.strays != NULL)
		GjStraysBegin(groups->input.strays, can_spill(groups) ?
					  groups->memory_limit / GJ_KEYS_PART : SIZE_MAX);

	/* without a key there is one group, whether there are rows or not */
	if (groups->table.ncolumns == 0)
	{
		groups->table.ngroups = 1;
		start_groups(groups);
	}
}

void
GjGroupsFinish(GjGroups *groups)
{
	uint64		size;

	Assert(is_adding(groups));
	if (groups->spill != NULL)
		GjSpillEnd(groups->spill);
	if (groups->table.ndeferred > 0)
		(void) GjTableSettle(&groups->table);
	groups_finish_sets(groups);
	size = GjSpillFileSize(&groups->file) + GjStraysFileSize(groups->input.strays);
	groups->stats.disk_size = Max(groups->stats.disk_size, size);
	groups->phase = GJ_GROUPS_DELIVERING;
}

bool
GjGroupsNextPass(GjGroups *groups)
{
	uint64		nrows;

	Assert(groups->phase == GJ_GROUPS_DELIVERING);
	if (groups->spill == NULL || !GjSpillNextPart(groups->spill, &nrows))
		return false;
	groups->is_first_pass = false;
	groups->pass_expected = nrows;
	groups_clear(groups);
	begin_pass(groups);
	while (GjInputRead(&groups->input, groups->spill))
		add_input(groups);
	GjGroupsFinish(groups);
	return true;
}

/*
 * Forget the groups of a pass, but keep the memory
 */
static void
groups_clear(GjGroups *groups)
{
	bool		was_direct = groups->table.phase == GJ_TABLE_DIRECT;

	GjTableClear(&groups->table);
	for (int i = 0; i < groups->naggs; i++)
	{
		GjAgg	   *agg = &groups->aggs[i];

		if (was_direct)
			GjAggAllocate(agg, groups->table.capacity, true);
		else
			GjAggForget(agg);
	}
}

bool
GjGroupsRewind(GjGroups *groups)
{
	Assert(groups->phase == GJ_GROUPS_DELIVERING);
	if (!groups->is_first_pass || (groups->spill != NULL && GjSpillWaits(groups->spill)))
		return false;
	groups->next = groups->read_end = 0;
	return true;
}

int
GjGroupsNext(GjGroups *groups, Datum **values, bool **isnull)
{
	uint32		at;

	Assert(groups->phase == GJ_GROUPS_DELIVERING);
	if ((groups->next < groups->read_first || groups->next >= groups->read_end) &&
		!read_groups(groups))
		return 0;
	at = (groups->next - groups->read_first) * groups->ncolumns;
	*values = groups->read_values + at;
	*isnull = groups->read_nulls + at;
	for (int i = 0; i < groups->ncomputed; i++)
	{
		int			column = groups->computed[i];

		(*values)[column] = GjGroupsValue(groups, 0, column, *isnull + column);
	}
	GjGroupsSkip(groups, 1);
	return groups->ncomputed > 0 ? 1 : (int) (groups->read_end - groups->next) + 1;
}

/*
 * Read the next groups, which no longer change, except for results that allocate memory.  Returns
 * false if no group is left.
 */
static bool
read_groups(GjGroups *groups)
{
	uint64		nleft = GjGroupsRemaining(groups);
	int			n = (int) Min(nleft, GJ_READ_GROUPS);
	int			at = groups->table.ncolumns;

	groups->read_first = groups->next;
	groups->read_end = groups->next + n;
	GjTableRead(&groups->table, groups->next, n, groups->ncolumns, groups->read_values,
				groups->read_nulls);
	for (int i = 0; i < groups->naggs; i++, at++)
	{
		if (groups->aggs[i].is_state)
			GjAggRead(&groups->aggs[i], groups->next, n, groups->ncolumns,
					  groups->read_values + at, groups->read_nulls + at);
	}
	return n > 0;
}

uint64
GjGroupsRemaining(GjGroups *groups)
{
	Assert(groups->phase == GJ_GROUPS_DELIVERING);
	return groups->table.ngroups - groups->next;
}

Datum
GjGroupsValue(const GjGroups *groups, uint64 ahead, int column, bool *isnull)
{
	uint32		group = groups->next + ahead;
	int			ngroupings = groups->table.ncolumns;

	if (column < ngroupings)
		return GjTableValue(&groups->table, group, column, isnull);
	return GjAggResult(&groups->aggs[column - ngroupings], group, groups->is_partial, isnull);
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
	remove_files(groups);
	for (int i = 0; i < groups->naggs; i++)
		GjAggForget(&groups->aggs[i]);
	MemoryContextDelete(groups->context);
}

void
GjGroupsAdd(GjGroups *groups, const GjBatch *batch)
{
	Assert(is_adding(groups) && groups->is_first_pass);
	GjInputTake(&groups->input, batch, false);
	groups->stats.rows += GjTotalWeight(groups->input.weights, groups->input.nrows);
	add_input(groups);
}

void
GjGroupsMerge(GjGroups *groups, const GjBatch *batch, const GjAggStates *states)
{
	GjGroupTable *table = &groups->table;
	GjInput    *input = &groups->input;

	Assert(groups->phase == GJ_GROUPS_ADDING);
	GjInputTake(input, batch, true);
	groups->nread += batch->nrows / GJ_MERGED_PART;
	groups->runs.nruns = 0;
	if (table->ncolumns > 0)
		find_groups(groups, input, groups->numbers);
	if (groups->phase == GJ_GROUPS_FULL)
		elog(ERROR, "no memory has been reserved for merged groups");
	groups->nsettled = table->nstarted;
	start_groups(groups);
	for (int i = 0; i < groups->naggs; i++)
		GjAggMerge(&groups->aggs[i], input, &states[i], batch,
				   table->ncolumns > 0 ? groups->numbers : NULL, groups->nsettled,
				   table->capacity);
	note_memory(groups, 0);
}

bool
GjGroupsAddBits(GjGroups *groups, int64 low, const uint64 *words, uint64 nwords)
{
	GjAgg	   *agg = &groups->aggs[0];
	Size		room = sets_room(groups) + GjDistinctMemory(agg->distinct);
	bool		added = GjDistinctAddBits(agg->distinct, low, words, nwords, room,
										  (int64 *) agg->states.start);

	note_memory(groups, 0);
	return added;
}

static void
add_input(GjGroups *groups)
{
	bool		is_grouped = groups->table.ncolumns > 0;

	groups->nread += groups->input.nrows;
	if (GjStraysExist(groups->input.strays))
		handle_strays(groups);
	if (is_grouped)
		assign_groups(groups);
	groups_make_sets_room(groups);
	groups->nsettled = groups->table.nstarted;
	start_groups(groups);

	if (groups->selection != NULL)
		groups->selection->nrows = -1;
	for (int i = 0; i < groups->naggs; i++)
		GjAggAdd(&groups->aggs[i], &groups->input, &groups->runs,
				 is_grouped ? groups->numbers : NULL, groups->nsettled,
				 groups->table.capacity, &groups->selection);
	note_memory(groups, 0);
}

/*
 * An aggregate's strays belong to groups by number, so no row may be deferred any more.  Without
 * room for keys no more groups are made.
 */
static void
handle_strays(GjGroups *groups)
{
	for (int i = 0; i < groups->naggs; i++)
	{
		if (groups->aggs[i].stray_sums != NULL)
			GjTableEndDeferring(&groups->table);
	}
	if (groups->phase == GJ_GROUPS_ADDING && groups->input.strays->closed)
		groups_begin_spill(groups);
}

/*
 * Assign each row of the batch, or each run, its group.  Rows of groups for which there is no
 * memory are removed from the batch and spilled.
 */
static void
assign_groups(GjGroups *groups)
{
	GjGroupTable *table = &groups->table;
	bool		in_runs = groups->phase == GJ_GROUPS_ADDING &&
		find_runs(&groups->runs, table, &groups->input);
	const GjInput *keys = in_runs ? &groups->runs.heads : &groups->input;

	find_groups(groups, keys, in_runs ? groups->runs.groups : groups->numbers);
	if (groups->phase == GJ_GROUPS_FULL)
	{
		groups->runs.nruns = 0;
		if (in_runs && table->phase != GJ_TABLE_DIRECT)
			GjTablePack(table, &groups->input);
		spill_others(groups);
	}
}

/*
 * Find or make the groups of rows, as long as there is memory for them
 */
static void
find_groups(GjGroups *groups, const GjInput *keys, uint32 *numbers)
{
	GjGroupTable *table = &groups->table;
	int			row = 0;

	table->is_packed = false;
	if (table->seed.is_bad && groups->phase == GJ_GROUPS_ADDING)
		GjTableReseed(table);
	if (table->phase != GJ_TABLE_DIRECT)
		GjTablePack(table, keys);
	while (groups->phase == GJ_GROUPS_ADDING &&
		   (row = groups_find(groups, keys, row, numbers)) < keys->nrows)
		make_findable(groups, keys);
}

static int
groups_find(GjGroups *groups, const GjInput *keys, int row, uint32 *numbers)
{
	if (groups->table.phase == GJ_TABLE_DIRECT)
		return GjDirectFind(&groups->table, keys, row, numbers);
	return GjTableFind(&groups->table, row, keys->nrows, numbers);
}

/*
 * Handle a row that was not found: its value is not covered, or there is no room for its group
 */
static void
make_findable(GjGroups *groups, const GjInput *keys)
{
	GjGroupTable *table = &groups->table;

	if (table->phase != GJ_TABLE_DIRECT || table->ngroups == table->capacity)
	{
		if (!groups_grow(groups) && !GjTableSettle(table))
			groups_begin_spill(groups);
	}
	else if (!GjDirectCover(table, keys, direct_span(groups)))
	{
		leave_direct(groups);
		if (table->phase != GJ_TABLE_DIRECT)
			GjTablePack(table, keys);
	}
}

/*
 * Return the maximum length of a direct table
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
 * Switch from the direct table to hashing, which takes more memory
 */
static void
leave_direct(GjGroups *groups)
{
	GjGroupTable *table = &groups->table;

	if (table->capacity > GJ_GROUPS_FLOOR &&
		!groups_fit(groups, GjTableSlots(table->capacity) * sizeof(GjGroupSlot)))
		groups_begin_spill(groups);
	else
		GjDirectEnd(table);
}

/*
 * Spill the rows of the batch that have no group, and keep the others
 */
static void
spill_others(GjGroups *groups)
{
	GjGroupTable *table = &groups->table;
	GjInput    *input = &groups->input;
	uint16		missed[GJ_BATCH_ROWS];
	uint64		hashes[GJ_BATCH_ROWS];
	int			n = table->phase == GJ_TABLE_DIRECT ?
		GjDirectLookUp(table, input, groups->rows, groups->numbers, missed) :
		GjTableLookUp(table, input->nrows, groups->rows, groups->numbers, missed);

	if (n == 0)
		return;
	if (table->phase == GJ_TABLE_DIRECT)
		GjTablePack(table, input);
	for (int i = 0; i < n; i++)
		hashes[i] = table->batch_hashes[missed[i]];
	if (GjStraysExist(input->strays))
		hash_strays(groups, missed, hashes, n);
	GjInputWrite(input, groups->spill, missed, hashes, n);
	GjInputSelect(input, groups->rows, input->nrows - n);
}

/*
 * Replace the hashes of rows whose keys have the codes of a batch by hashes of the values
 */
static void
hash_strays(const GjGroups *groups, const uint16 *rows, uint64 *hashes, int n)
{
	const GjGroupTable *table = &groups->table;

	for (int i = 0; i < n; i++)
	{
		uint64		hash = table->seed.value;
		bool		has_any = false;

		for (int column = 0; column < table->ncolumns; column++)
		{
			const GjInputColumn *input = &groups->input.columns[table->columns[column].input];
			uint64		value = 0;

			memcpy(&value, input->values + rows[i] * input->width, input->width);
			if (input->strays != GJ_STRAY_NONE)
				has_any |= GjStraysHash(groups->input.strays, (int64) value, &value);
			hash = GjHashStep(hash, value);
		}
		if (has_any)
			hashes[i] = GjHashFinish(hash);
	}
}

/*
 * Initialize the states of new groups
 */
static void
start_groups(GjGroups *groups)
{
	GjGroupTable *table = &groups->table;

	for (int i = 0; i < groups->naggs; i++)
		start_agg(&groups->aggs[i], table->nstarted, GjTableRecords(table));
	table->nstarted = GjTableRecords(table);
}

/*
 * Initialize the states of groups from first up to, but not including, end
 */
static void
start_agg(GjAgg *agg, uint32 first, uint32 end)
{
	static const char zero[GJ_MAX_STATE] = {0};
	char	   *state = agg->states.start + first * agg->state_size;

	if (first == end)
		return;
	if (memcmp(agg->initial, zero, sizeof(zero)) == 0)
		memset(state, 0, (end - first) * agg->state_size);
	else
	{
		for (uint32 group = first; group < end; group++, state += agg->state_size)
			memcpy(state, agg->initial, agg->state_size);
	}
	if (agg->keeps_seen)
		memset(agg->seen.start + first, 0, end - first);
}

/*-------------------------------------------------------------------------
 * Runs of rows of one group
 *
 * A key-ordered index returns rows of the same key together, as a run.  If a batch has few runs,
 * the group is looked up once per run, for its first row, the head, and an aggregate processes a
 * run's rows as if no other group existed: a plain reduction, whereas otherwise each row would
 * wait for the state that the previous row has just changed.
 *
 * Runs are not guaranteed.  Each batch is tested again, and usually its first rows suffice to
 * decide.
 *-------------------------------------------------------------------------
 */

static void
init_runs(GjRuns *runs, MemoryContext context, const GjInput *input)
{
	runs->nruns = 0;
	runs->starts = MemoryContextAlloc(context, (GJ_BATCH_ROWS + 1) * sizeof(uint16));
	runs->groups = MemoryContextAlloc(context, GJ_BATCH_ROWS * sizeof(uint32));
	runs->heads.context = context;
	runs->heads.ncolumns = input->ncolumns;
	runs->heads.columns = MemoryContextAllocZero(context,
												 input->ncolumns * sizeof(GjInputColumn));
	for (int i = 0; i < input->ncolumns; i++)
	{
		runs->heads.columns[i].type = input->columns[i].type;
		runs->heads.columns[i].width = input->columns[i].width;
	}
}

/*
 * Find the runs of a batch, and build their heads, which have only the key columns.  Returns
 * false if there are too many runs.
 */
static bool
find_runs(GjRuns *runs, const GjGroupTable *table, const GjInput *input)
{
	int			nrows = input->nrows;
	int			most = nrows / GJ_RUN_ROWS;
	int			n;

	runs->nruns = 0;
	runs->is_spread = false;
	if (nrows < GJ_FIRST_ROWS)
		return false;
	for (int i = 0; i < table->ncolumns; i++)
	{
		if (input->columns[table->columns[i].input].nulls != NULL)
			return false;
	}

	runs->starts[0] = 0;
	n = 1 + list_starts(table, input, 1, GJ_FIRST_ROWS, runs->starts + 1, GJ_FIRST_RUNS);
	if (n > GJ_FIRST_RUNS)
		return false;
	n += list_starts(table, input, GJ_FIRST_ROWS, nrows, runs->starts + n, most - n + 1);
	if (n > most)
		return false;

	runs->starts[n] = nrows;
	runs->nruns = runs->heads.nrows = n;
	for (int i = 0; i < table->ncolumns; i++)
	{
		GjInputColumn *head = &runs->heads.columns[table->columns[i].input];

		GjInputMakeRoom(&runs->heads, head);
		GjGather(head->own_values, input->columns[table->columns[i].input].values,
				 head->width, runs->starts, n);
		head->values = head->own_values;
	}
	return true;
}

/*
 * List the rows from first up to, but not including, end whose key differs from that of the row
 * before, but at most `most` of them.  Returns the number of rows listed.
 */
static int
list_starts(const GjGroupTable *table, const GjInput *input, int first, int end,
			uint16 *starts, int most)
{
	uint64		changes[GJ_BATCH_ROWS / sizeof(uint64)] = {0};
	int			nwords = (end - first + sizeof(uint64) - 1) / sizeof(uint64);
	int			n = 0;

	for (int i = 0; i < table->ncolumns; i++)
		mark_changes((uint8 *) changes, &input->columns[table->columns[i].input], first,
					 end - first);
	for (int word = 0; word < nwords; word++)
	{
		if (likely(changes[word] == 0))
			continue;
		for (int i = 0; i < sizeof(uint64); i++)
		{
			if (((uint8 *) &changes[word])[i] == 0)
				continue;
			if (n == most)
				return n;
			starts[n++] = first + word * sizeof(uint64) + i;
		}
	}
	return n;
}

#define MARK(type) \
	do { \
		const type *values = (const type *) column->values + first; \
		for (int i = 0; i < n; i++) \
			changes[i] |= values[i] != values[i - 1]; \
	} while (0)

static void
mark_changes(uint8 *pg_restrict changes, const GjInputColumn *column, int first, int n)
{
	GJ_BY_WIDTH(column->width, MARK);
}

/*-------------------------------------------------------------------------
 * Memory
 *
 * Everything that grows with the number of groups is counted before it grows.  If doubling would
 * exceed the limit, it grows to the space that is left, because each additional group saves its
 * rows a round trip to disk.  If there are sets of count(DISTINCT), groups get half of the memory
 * and the sets the other half: the sets grow with the rows, and would otherwise leave nothing for
 * groups that appear later.
 *
 * The memory needed for spilling is reserved from the beginning.
 *-------------------------------------------------------------------------
 */

/*
 * Make room for more groups.  Returns false if there is not enough memory.  Growing fast while it
 * is cheap saves half of the copying; growing to the expected size at once saves nearly all.
 */
static bool
groups_grow(GjGroups *groups)
{
	uint32		capacity = groups->table.capacity;
	uint32		expected = expected_capacity(groups);
	uint64		nslots = groups->table.nslots;

	if (expected > capacity && groups_grow_to(groups, expected, GjTableSlots(expected)))
		return true;
	for (int times = capacity < GJ_GROUPS_GROW_FAST ? 4 : 2; times > 1; times /= 2)
	{
		uint32		wanted = (uint32) Min((uint64) capacity * times, groups->most_groups);

		if (wanted > capacity && groups_grow_to(groups, wanted, GjTableSlots(wanted)))
			return true;
	}
	return fill_up(groups, nslots * 2) || fill_up(groups, nslots);
}

bool
GjGroupsMakeRoom(GjGroups *groups)
{
	GjGroupTable *table = &groups->table;

	Assert(is_adding(groups));
	while (table->ncolumns > 0 &&
		   GjTableRecords(table) + GJ_BATCH_ROWS > table->capacity)
	{
		if (GjTableTrySettling(table))
			continue;
		if (groups->phase == GJ_GROUPS_FULL ||
			(!groups_grow(groups) && !GjTableSettle(table)))
			return false;
	}
	return groups->phase == GJ_GROUPS_ADDING;
}

/*
 * Besides the groups, the memory must suffice for slots in place of a direct table, and for that
 * table (direct_span), so that no group is refused later
 */
bool
GjGroupsReserve(GjGroups *groups, uint64 ngroups)
{
	GjGroupTable *table = &groups->table;
	uint64		capacity = GjTableRecords(table) + ngroups + GJ_BATCH_ROWS;
	uint64		nslots;
	Size		needed = 0;

	if (table->ncolumns == 0)
		return true;
	if (groups->phase != GJ_GROUPS_ADDING || capacity > groups->most_groups ||
		(groups->input.strays != NULL && groups->input.strays->closed))
		return false;
	if (capacity <= Min(table->capacity, GJ_GROUPS_FLOOR))
		return true;
	nslots = GjTableSlots((uint32) capacity);
	if (groups->input.strays != NULL)
		needed = groups->memory_limit / GJ_KEYS_PART;
	needed += groups_memory(groups) + largest_region(groups) + groups->memory_limit / 4 +
		(Size) nslots * sizeof(GjGroupSlot) + (Size) capacity * group_size(groups);
	if (needed > groups_limit(groups))
		return false;
	return capacity <= table->capacity || groups_grow_to(groups, (uint32) capacity, nslots);
}

/*
 * Return the room needed for the expected number of groups, if the estimate can be trusted: there
 * are many groups already, and most rows have formed one.  Otherwise return 0.
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
groups_grow_to(GjGroups *groups, uint32 capacity, uint64 nslots)
{
	GjGroupTable *table = &groups->table;
	Size		growth = (Size) (capacity - table->capacity) * group_size(groups);
	/* a partial set has some groups, and room for a batch */
	uint32		least = groups->is_partial ? 2 * GJ_GROUPS_FLOOR : GJ_GROUPS_FLOOR;

	if (table->phase != GJ_TABLE_DIRECT)
		growth += (nslots - table->nslots) * sizeof(GjGroupSlot);
	/* regions grow one after another, and the one being copied exists twice */
	if (capacity > least && !groups_fit(groups, growth + largest_region(groups)))
		return false;

	GjTableGrow(table, capacity, nslots);
	for (int i = 0; i < groups->naggs; i++)
		grow_agg(&groups->aggs[i], table->nstarted, capacity);
	return true;
}

static void
grow_agg(GjAgg *agg, uint32 nstarted, uint32 capacity)
{
	GjRegionGrow(&agg->states, agg->context, nstarted * agg->state_size,
				 capacity * agg->state_size);
	if (agg->keeps_seen)
		GjRegionGrow(&agg->seen, agg->context, nstarted, capacity);
}

/*
 * Make room for as many groups as memory allows with nslots slots.  A quarter of the slots stays
 * free, or half if rows are deferred (defer.c).  Returns false if that would gain too little.
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
	if (table->phase != GJ_TABLE_DIRECT)
		capacity = Min(capacity, table->phase == GJ_TABLE_PENDING ? nslots / 2 : nslots / 4 * 3);
	capacity = Min(capacity, groups->most_groups);
	return capacity > table->capacity + table->capacity / 8 &&
		groups_grow_to(groups, (uint32) capacity, nslots);
}

/*
 * Make room in the sets of count(DISTINCT) for the rows of the batch
 */
static void
groups_make_sets_room(GjGroups *groups)
{
	for (int i = 0; i < groups->naggs; i++)
	{
		GjDistinct *set = groups->aggs[i].distinct;

		if (set != NULL)
			GjDistinctMakeRoom(set, groups->input.nrows, sets_room(groups) + GjDistinctMemory(set));
	}
}

/*
 * Count the values that the sets have spilled
 */
static void
groups_finish_sets(GjGroups *groups)
{
	groups->stats.reseeds = groups->table.seed.nreplaced;
	for (int i = 0; i < groups->naggs; i++)
	{
		GjAgg	   *agg = &groups->aggs[i];

		if (agg->distinct == NULL)
			continue;
		groups->stats.reseeds += GjDistinctReseeds(agg->distinct);
		GjDistinctFinish(agg->distinct, sets_room(groups) + GjDistinctMemory(agg->distinct),
						 (int64 *) agg->states.start);
		if (agg->stray_sums != NULL)
			GjStraySumsCount(agg->stray_sums, (int64 *) agg->states.start);
	}
}

/*
 * Return true if the groups may use `growth` more bytes.  They may not exceed the limit as long
 * as rows can be spilled instead.
 */
static bool
groups_fit(GjGroups *groups, Size growth)
{
	if (groups_memory(groups) + growth > groups_limit(groups) && can_spill(groups))
		return false;
	note_memory(groups, growth);
	return true;
}

/*
 * Create no more groups in this pass, and spill their rows instead
 */
static void
groups_begin_spill(GjGroups *groups)
{
	double		ngroups = Max(groups->table.ngroups, GJ_GROUPS_FLOOR);
	double		wanted = groups->pass_expected / ngroups * GJ_PART_FACTOR;

	GjTableEndDeferring(&groups->table);
	GjOrderEnd(&groups->table);
	if (groups->is_first_pass)
		wanted = Max(wanted, GJ_FIRST_PARTS);
	if (groups->spill == NULL)
		groups->spill = GjSpillCreate(groups->context, &groups->file, groups->input.row_size);
	if (!GjSpillBegin(groups->spill, wanted, most_parts(groups)))
		elog(ERROR, "cannot divide groups by hash any further");
	groups->phase = GJ_GROUPS_FULL;
	if (groups->input.strays != NULL)
		groups->input.strays->closed = true;
}

/* Sizes and limits ----------------------------------------------------------------- */

/*
 * Return the bytes that each group takes besides slots.  NULL bits that records do not have yet
 * are included, because any row may need them.
 */
static Size
group_size(const GjGroups *groups)
{
	Size		size = (groups->table.nwords + GjTableNullWords(&groups->table)) * sizeof(uint64);

	for (int i = 0; i < groups->naggs; i++)
		size += groups->aggs[i].state_size + (groups->aggs[i].may_be_null ? 1 : 0);
	return size;
}

/* Return the bytes of the records, including NULL bits that they do not have yet */
static Size
records_size(const GjGroupTable *table)
{
	int			null_words = GjTableNullWords(table);

	return table->records.size +
		(null_words > 0 ? table->records.size / table->nwords * null_words : 0);
}

/* Return the bytes of the slots, including those that will be needed when the known order ends */
static Size
slots_size(const GjGroupTable *table)
{
	return table->phase == GJ_TABLE_ORDERED ? table->nslots * sizeof(GjGroupSlot) :
		table->slots.size;
}

/* Return the size of the largest region that grows with the number of groups */
static Size
largest_region(const GjGroups *groups)
{
	Size		size = Max(records_size(&groups->table), slots_size(&groups->table));

	for (int i = 0; i < groups->naggs; i++)
		size = Max(size, groups->aggs[i].states.size);
	return size;
}

/*
 * Return the maximum number of parts for spilled rows: each takes a block of memory while it is
 * written
 */
static int
most_parts(const GjGroups *groups)
{
	return (int) Max(GJ_SPILL_MIN_PARTS, Min(groups->memory_limit / 8 / BLCKSZ,
											 GJ_SPILL_MAX_PARTS));
}

/*
 * Return the memory limit of the groups: the total minus the reserve for spilling, and half of
 * that if there are sets of count(DISTINCT)
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
 * Return the memory by which the sets may grow.  The groups may still grow to use their half, and
 * each set may still have to be spilled.
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
	taken += Max(reserved, GjSpillFileMemory(&groups->file));
	return taken < groups->memory_limit ? groups->memory_limit - taken : 0;
}

static Size
groups_memory(const GjGroups *groups)
{
	Size		size = records_size(&groups->table) + slots_size(&groups->table) +
		groups->table.direct.size;

	if (groups->input.strays != NULL)
		size += Min(groups->input.strays->keys.size, groups->memory_limit / GJ_KEYS_PART);
	for (int i = 0; i < groups->naggs; i++)
		size += agg_memory(&groups->aggs[i]);
	return size;
}

/* Return the bytes of all groups' states, including "seen" bytes that will be needed later */
static Size
agg_memory(const GjAgg *agg)
{
	Size		seen = agg->may_be_null ? agg->states.size / agg->state_size : 0;
	Size		strays = agg->stray_sums != NULL ? GjStraySumsMemory(agg->stray_sums) : 0;

	return agg->states.size + Max(seen, agg->seen.size) + strays;
}

/* Record the total memory used, and what it will grow by */
static void
note_memory(GjGroups *groups, Size growth)
{
	Size		size = groups_memory(groups) + GjSpillFileMemory(&groups->file) + growth;

	for (int i = 0; i < groups->naggs; i++)
	{
		if (groups->aggs[i].distinct != NULL)
			size += GjDistinctMemory(groups->aggs[i].distinct);
	}
	groups->stats.peak_memory = Max(groups->stats.peak_memory, size);
}
