/*-------------------------------------------------------------------------
 *
 * grouporder.c
 *	  Groups of rows that come in the order of a column by which they are grouped.
 *
 * Whatever the other columns are, a group then lies within the rows that have one value of that
 * column, a run.  So the table needs slots for the groups of one run only, which stay in the
 * nearest cache, however many groups there are.  Nothing has to be cleared for the next run: a
 * slot whose group has a number below those of the run is free.
 *
 * Rows of a key-ordered index come like that, but nobody promises it: columns are watched from
 * the first row on, and with the first value that is lower than one before, or a NULL, the
 * table gets slots for all of its groups.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groupparts.h"

/*
 * Smaller tables are in the cache anyway.  Before a table is made as large as is expected
 * (groupmemory.c), or rows begin to wait (groupdefer.c), its order is known.
 */
#define GJ_ORDER_GROUPS			((uint32) 16 * 1024)

/* With so many groups in a run, rows had better wait */
#define GJ_LONG_RUN				((uint32) 4 * 1024)

#define GJ_FIRST_RUN_SLOTS		((uint64) 1024)

static bool ascends(GjKeyColumn *column, const GjInputColumn *input, int nrows);
static uint64 column_value(const GjKeyColumn *column, const uint64 *record);
static void make_run_slots(GjGroupTable *table, uint64 nslots);
static void insert(GjGroupTable *table, uint32 group);
static inline uint32 most_in_run(const GjGroupTable *table);

/*
 * Watch from the first row on which columns ascend
 */
void
GjOrderBegin(GjGroupTable *table)
{
	table->ordered_by = NULL;
	for (int i = 0; i < table->ncolumns; i++)
	{
		table->columns[i].ascends = table->ncolumns > 1;
		table->columns[i].highest = PG_INT64_MIN;
	}
}

/*
 * No order is known, or good for anything any more
 */
void
GjOrderEnd(GjGroupTable *table)
{
	uint64		nslots = table->nslots;

	for (int i = 0; i < table->ncolumns; i++)
		table->columns[i].ascends = false;
	if (table->ordered_by == NULL)
		return;
	table->ordered_by = NULL;
	GjRegionFree(&table->slots);
	table->nslots = 0;
	GjTableMakeSlots(table, nslots);
}

/*
 * Watch a batch none of whose rows has been looked for.  Where rows are looked for twice, as
 * they are when a table without order has to grow, the later ones would have closed a run.
 */
void
GjOrderWatch(GjGroupTable *table, const GjInput *input)
{
	if (table->ordered_by != NULL && table->may_defer &&
		table->ngroups - table->run_first > GJ_LONG_RUN)
		GjOrderEnd(table);
	for (int i = 0; i < table->ncolumns; i++)
	{
		GjKeyColumn *column = &table->columns[i];

		if (!column->ascends || input->nrows == 0)
			continue;
		column->ascends = ascends(column, &input->columns[column->input], input->nrows);
		if (!column->ascends && column == table->ordered_by)
			GjOrderEnd(table);
		if (column->ascends && table->ordered_by == NULL && table->capacity >= GJ_ORDER_GROUPS)
		{
			table->ordered_by = column;
			GjOrderMakeSlots(table, table->nslots);
		}
	}
}

#define ASCENDS(type) \
	do { \
		const type *values = (const type *) input->values; \
		int			ndescents = values[0] < column->highest; \
		for (int i = 1; i < nrows; i++) \
			ndescents += values[i] < values[i - 1]; \
		column->highest = values[nrows - 1]; \
		return ndescents == 0; \
	} while (0)

static bool
ascends(GjKeyColumn *column, const GjInputColumn *input, int nrows)
{
	if (input->nulls != NULL)
		return false;
	if (column->type == GJ_VALUE_INT4)
		ASCENDS(int32);
	if (column->type == GJ_VALUE_INT8)
		ASCENDS(int64);
	return false;
}

/*
 * Make slots for the groups of one run; so many are needed when the order ends
 */
void
GjOrderMakeSlots(GjGroupTable *table, uint64 nslots)
{
	table->nslots = nslots;

	/* As values ascend, the groups of the highest one were made last */
	table->run_first = table->ngroups;
	if (table->ngroups > 0)
		table->run_value = column_value(table->ordered_by,
										GjTableRecord(table, table->ngroups - 1));
	while (table->run_first > 0 &&
		   column_value(table->ordered_by,
						GjTableRecord(table, table->run_first - 1)) == table->run_value)
		table->run_first--;
	make_run_slots(table, GJ_FIRST_RUN_SLOTS);
}

static inline uint64
column_value(const GjKeyColumn *column, const uint64 *record)
{
	uint64		value = record[column->word] >> column->shift;

	return column->width == sizeof(uint32) ? (uint32) value : value;
}

/*
 * Have at least so many slots for the run, half of which stay free
 */
static void
make_run_slots(GjGroupTable *table, uint64 nslots)
{
	while (nslots < 2 * ((uint64) table->ngroups - table->run_first + 1))
		nslots *= 2;
	table->run_slots = Min(nslots, table->nslots);
	GjRegionFree(&table->slots);
	GjRegionAllocate(&table->slots, table->context, table->run_slots * sizeof(GjGroupSlot));
	memset(table->slots.start, 0, table->run_slots * sizeof(GjGroupSlot));
	for (uint32 group = table->run_first; group < table->ngroups; group++)
		insert(table, group);
}

static void
insert(GjGroupTable *table, uint32 group)
{
	GjGroupSlot *slots = (GjGroupSlot *) table->slots.start;
	uint64		mask = table->run_slots - 1;
	uint32		tag = (uint32) GjHashRecord(GjTableRecord(table, group), table->data_words,
											table->nwords);
	uint64		at = tag & mask;

	while (slots[at].group != 0)
		at = (at + 1) & mask;
	slots[at] = (GjGroupSlot) {tag, group + 1};
}

static pg_attribute_always_inline bool
is_same(const uint64 *a, const uint64 *b, int nwords)
{
	uint64		difference = 0;

	for (int word = 0; word < nwords; word++)
		difference |= a[word] ^ b[word];
	return difference == 0;
}

/*
 * Find the groups of the rows of one run, from one on, or make them.  Returns the row with which
 * another run begins, or for which there is no room, or no slot, or nrows.
 */
static pg_attribute_always_inline int
find_in_run(GjGroupTable *table, int row, int nrows, uint32 *numbers, const int nwords)
{
	const uint64 *record = table->batch_records + row * nwords;
	const uint64 *order = record + table->ordered_by->word;
	const int	shift = table->ordered_by->shift;
	const uint64 value_mask = table->ordered_by->width == sizeof(uint32) ? PG_UINT32_MAX :
		PG_UINT64_MAX;
	const uint64 run_value = table->run_value;
	const uint64 *hashes = table->batch_hashes;
	GjGroupSlot *slots = (GjGroupSlot *) table->slots.start;
	uint64	   *records = (uint64 *) table->records.start;
	const uint32 run_first = table->run_first;
	const uint64 mask = table->run_slots - 1;
	uint32		ngroups = table->ngroups;
	uint32		most = most_in_run(table);

	for (; row < nrows && (*order >> shift & value_mask) == run_value;
		 row++, record += nwords, order += nwords)
	{
		uint32		tag = (uint32) hashes[row];
		uint64		at = tag & mask;

		while (slots[at].group > run_first &&
			   (slots[at].tag != tag ||
				!is_same(records + (Size) slots[at].group * nwords, record, nwords)))
			at = (at + 1) & mask;
		if (slots[at].group <= run_first)
		{
			if (ngroups == most)
				break;
			slots[at] = (GjGroupSlot) {tag, ++ngroups};
			memcpy(records + (Size) ngroups * nwords, record, nwords * sizeof(uint64));
		}
		numbers[row] = slots[at].group - 1;
	}
	table->ngroups = ngroups;
	return row;
}

/*
 * So many groups may there be before the run needs more slots, or the table more room
 */
static inline uint32
most_in_run(const GjGroupTable *table)
{
	if (table->run_slots == table->nslots)
		return table->capacity;
	return (uint32) Min(table->run_first + table->run_slots / 2, table->capacity);
}

static pg_attribute_always_inline int
find_in_runs(GjGroupTable *table, int row, int nrows, uint32 *numbers, const int nwords)
{
	while ((row = find_in_run(table, row, nrows, numbers, nwords)) < nrows)
	{
		uint64		value = column_value(table->ordered_by,
										 table->batch_records + row * nwords);

		if (value != table->run_value)
		{
			table->run_value = value;
			table->run_first = table->ngroups;
		}
		else if (table->ngroups < table->capacity)
			make_run_slots(table, table->run_slots * 4);
		else
			return row;
	}
	return nrows;
}

/*
 * Find the groups of rows, as GjTableFind()
 */
int
GjOrderFind(GjGroupTable *table, int row, int nrows, uint32 *numbers)
{
	switch (table->nwords)
	{
		case 1:
			return find_in_runs(table, row, nrows, numbers, 1);
		case 2:
			return find_in_runs(table, row, nrows, numbers, 2);
		case 3:
			return find_in_runs(table, row, nrows, numbers, 3);
		default:
			return find_in_runs(table, row, nrows, numbers, table->nwords);
	}
}
