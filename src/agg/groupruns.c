/*-------------------------------------------------------------------------
 *
 * groupruns.c
 *	  Rows of a batch that have the same key and stand side by side: runs.
 *
 * A key-ordered index gives rows of one key one after another.  If a batch has few runs, the group
 * is looked for once a run, for its first row, its head, and an aggregate goes through a run's rows
 * as if there were no other group: a plain reduction, where otherwise each row would wait for the
 * state that the row before has just changed.
 *
 * Nobody promises runs.  Each batch is looked at anew, and its first rows tell most often whether
 * that is worth it.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groupparts.h"

/* The mean length of runs that are worth it */
#define GJ_RUN_ROWS				16

/* Rows that are looked at first, and how many runs of the others may begin there */
#define GJ_FIRST_ROWS			64
#define GJ_FIRST_RUNS			(GJ_FIRST_ROWS / GJ_RUN_ROWS)

static int	list_starts(const GjGroupTable *table, const GjInput *input, int first, int end,
						uint16 *starts, int most);
static void mark_changes(uint8 *changes, const GjInputColumn *column, int first, int n);

void
GjRunsInit(GjRuns *runs, MemoryContext context, const GjInput *input)
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
 * Find the runs of a batch, and make their heads, which have the columns of the key alone; false
 * if they are too many.
 */
bool
GjRunsFind(GjRuns *runs, const GjGroupTable *table, const GjInput *input)
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
		GjGatherValues(head->own_values, input->columns[table->columns[i].input].values,
					   head->width, runs->starts, n);
		head->values = head->own_values;
	}
	return true;
}

/*
 * List the rows from first up to before end that have another key than the row before, the first
 * so many; returns how many are listed.
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
	switch (column->width)
	{
		case 1:
			MARK(uint8);
			break;
		case 2:
			MARK(uint16);
			break;
		case 4:
			MARK(uint32);
			break;
		default:
			MARK(uint64);
			break;
	}
}

/*
 * For who goes from row to row: give each row of the batch the number of its run's group
 */
void
GjRunsSpread(GjRuns *runs, uint32 *numbers)
{
	if (runs->is_spread)
		return;
	for (int run = 0; run < runs->nruns; run++)
	{
		uint32		group = runs->groups[run];

		for (int row = runs->starts[run]; row < runs->starts[run + 1]; row++)
			numbers[row] = group;
	}
	runs->is_spread = true;
}
