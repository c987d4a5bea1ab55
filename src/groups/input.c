/*-------------------------------------------------------------------------
 *
 * input.c
 *	  Columns of a batch in the form that groups and aggregates need: at the width of their
 *	  types, without NULL bytes if no value is NULL, and restricted to the rows that have
 *	  groups; runs of equal keys; and rows as records on disk.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groupparts.h"

/* Minimum mean length of runs for which using them pays off */
#define GJ_RUN_ROWS				16

/* Rows tested first, and maximum number of runs that may start in them after the first row */
#define GJ_FIRST_ROWS			64
#define GJ_FIRST_RUNS			(GJ_FIRST_ROWS / GJ_RUN_ROWS)

static void take_column(GjInput *input, GjInputColumn *column, const GjBatchColumn *from);
static void narrow(char *to, uint16 to_width, const char *from, uint16 from_width, int nrows);
static int	list_starts(const GjGroupTable *table, const GjInput *input, int first, int end,
						uint16 *starts, int most);
static void mark_changes(uint8 *changes, const GjInputColumn *column, int first, int n);
static void put_values(char *to, Size size, const char *values, uint16 width, const uint16 *rows,
					   int n);
static void take_values(char *values, uint16 width, const char *from, Size size, int n);
static void take_nulls(GjInputColumn *column, const char *from, Size size, uint8 bit, int n);
static void take_weights(GjInput *input, const char *from, Size size);
static void input_make_room(const GjInput *input, GjInputColumn *column);

uint16
GjValueWidth(GjValueType type)
{
	switch (type)
	{
		case GJ_VALUE_BOOL:
			return 1;
		case GJ_VALUE_INT2:
			return 2;
		case GJ_VALUE_INT4:
		case GJ_VALUE_OID:
		case GJ_VALUE_FLOAT4:
			return 4;
		case GJ_VALUE_INT8:
		case GJ_VALUE_FLOAT8:
			return 8;
	}
	elog(ERROR, "unknown type of value %d", (int) type);
}

/*
 * Register a column of the batches, and return its number.  A column that is registered twice
 * gets one number.
 */
int
GjInputAddColumn(GjInput *input, int column, GjValueType type, bool is_argument)
{
	GjInputColumn *added;

	for (int i = 0; i < input->ncolumns; i++)
	{
		if (input->columns[i].column == column && input->columns[i].type == type)
		{
			input->columns[i].is_argument |= is_argument;
			return i;
		}
	}
	if (input->columns == NULL)
		input->columns = MemoryContextAlloc(input->context, sizeof(GjInputColumn));
	else
		input->columns = repalloc(input->columns,
								  (input->ncolumns + 1) * sizeof(GjInputColumn));
	added = &input->columns[input->ncolumns];
	memset(added, 0, sizeof(GjInputColumn));
	added->column = column;
	added->type = type;
	added->width = GjValueWidth(type);
	added->is_argument = is_argument;
	return input->ncolumns++;
}

void
GjInputTake(GjInput *input, const GjBatch *batch)
{
	Assert(batch->nrows >= 0 && batch->nrows <= GJ_BATCH_ROWS);
	input->nrows = batch->nrows;
	input->weights = batch->weights;
	for (int i = 0; i < input->ncolumns; i++)
		take_column(input, &input->columns[i], &batch->columns[input->columns[i].column]);
}

static void
take_column(GjInput *input, GjInputColumn *column, const GjBatchColumn *from)
{
	uint8		any = 0;

	column->values = from->values;
	if (from->width != column->width)
	{
		Assert(from->width > column->width);
		input_make_room(input, column);
		narrow(column->own_values, column->width, from->values, from->width, input->nrows);
		column->values = column->own_values;
	}

	column->nulls = NULL;
	if (from->nulls != NULL)
	{
		for (int i = 0; i < input->nrows; i++)
			any |= from->nulls[i];
		if (any)
			column->nulls = from->nulls;
	}
}

#define NARROW(to_type, from_type) \
	do { \
		for (int i = 0; i < nrows; i++) \
			((to_type *) to)[i] = (to_type) ((const from_type *) from)[i]; \
	} while (0)

static void
narrow(char *to, uint16 to_width, const char *from, uint16 from_width, int nrows)
{
	switch (to_width * 10 + from_width)
	{
		case 12:
			NARROW(uint8, uint16);
			break;
		case 14:
			NARROW(uint8, uint32);
			break;
		case 18:
			NARROW(uint8, uint64);
			break;
		case 24:
			NARROW(uint16, uint32);
			break;
		case 28:
			NARROW(uint16, uint64);
			break;
		case 48:
			NARROW(uint32, uint64);
			break;
		default:
			elog(ERROR, "cannot take values of %d bytes from %d", to_width, from_width);
	}
}

/*
 * Allocate a buffer for the values of a batch that are changed here
 */
static void
input_make_room(const GjInput *input, GjInputColumn *column)
{
	if (column->own_values == NULL)
	{
		column->own_values = MemoryContextAlloc(input->context, GJ_BATCH_ROWS * column->width);
		column->own_nulls = MemoryContextAlloc(input->context, GJ_BATCH_ROWS);
	}
}

/*
 * Return the number of rows that the batch stands for
 */
uint64
GjInputWeight(const GjInput *input)
{
	uint64		total = 0;

	if (input->weights == NULL)
		return input->nrows;
	for (int i = 0; i < input->nrows; i++)
		total += input->weights[i];
	return total;
}

/*
 * Restrict the batch to some of the rows, in ascending order
 */
void
GjInputSelect(GjInput *input, const uint16 *rows, int nrows)
{
	if (nrows == input->nrows)
		return;

	for (int i = 0; i < input->ncolumns; i++)
	{
		GjInputColumn *column = &input->columns[i];

		if (!column->is_argument)
			continue;
		input_make_room(input, column);
		GjGather(column->own_values, column->values, column->width, rows, nrows);
		column->values = column->own_values;
		if (column->nulls != NULL)
		{
			GjGather(column->own_nulls, column->nulls, 1, rows, nrows);
			column->nulls = column->own_nulls;
		}
	}
	if (input->weights != NULL)
	{
		GjGather(input->own_weights, input->weights, sizeof(uint32), rows, nrows);
		input->weights = input->own_weights;
	}
	input->nrows = nrows;
}

/*-------------------------------------------------------------------------
 * Runs of rows of one group
 *
 * Rows of a batch that have the same key and stand side by side: runs.
 *
 * A key-ordered index returns rows of the same key together.  If a batch has few runs, the group
 * is looked up once per run, for its first row, the head, and an aggregate processes a run's rows
 * as if there were no other group: a plain reduction, whereas otherwise each row would wait for
 * the state that the previous row has just changed.
 *
 * Nobody promises runs.  Each batch is looked at anew, and its first rows tell most often whether
 * that is worth it.
 *-------------------------------------------------------------------------
 */

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
 * Find the runs of a batch, and build their heads, which have only the key columns.  Returns
 * false if there are too many runs.
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

		input_make_room(&runs->heads, head);
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

/*
 * Assign each row of the batch the number of its run's group, for callers that process row by row
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

/*-------------------------------------------------------------------------
 * Rows as records
 *
 * Rows of a batch as records that can be written to disk, and back.
 *
 * A record has the values of all columns that groups or aggregates take, the wide ones first;
 * how many rows it stands for; and a bit for each value that is NULL.  It is no longer than
 * these, and so its parts are at any address.
 *-------------------------------------------------------------------------
 */

/*
 * Determine the layout of a record, once the columns are known, and return its size
 */
Size
GjRowsLayOut(GjInput *input)
{
	Size		size = 0;

	for (int width = sizeof(uint64); width > 0; width /= 2)
	{
		for (int i = 0; i < input->ncolumns; i++)
		{
			if (input->columns[i].width != width)
				continue;
			input->columns[i].offset = size;
			size += width;
		}
	}
	input->weight_offset = size;
	input->nulls_offset = size + sizeof(uint32);
	input->row_size = input->nulls_offset + (input->ncolumns + BITS_PER_BYTE - 1) / BITS_PER_BYTE;
	input->own_weights = MemoryContextAlloc(input->context, GJ_BATCH_ROWS * sizeof(uint32));
	return input->row_size;
}

/*
 * Convert rows of the batch to records
 */
void
GjRowsPut(const GjInput *input, const uint16 *rows, int n, char *records)
{
	Size		size = input->row_size;
	static const uint32 one = 1;

	for (int i = 0; i < n; i++)
	{
		char	   *record = records + i * size;

		memcpy(record + input->weight_offset,
			   input->weights != NULL ? &input->weights[rows[i]] : &one, sizeof(uint32));
		memset(record + input->nulls_offset, 0, size - input->nulls_offset);
	}
	for (int i = 0; i < input->ncolumns; i++)
	{
		const GjInputColumn *column = &input->columns[i];
		char	   *nulls = records + input->nulls_offset + i / BITS_PER_BYTE;

		put_values(records + column->offset, size, column->values, column->width, rows, n);
		for (int j = 0; column->nulls != NULL && j < n; j++)
			nulls[j * size] |= (column->nulls[rows[j]] != 0) << (i % BITS_PER_BYTE);
	}
}

#define PUT(type) \
	do { \
		for (int i = 0; i < n; i++) \
			memcpy(to + i * size, (const type *) values + rows[i], sizeof(type)); \
	} while (0)

static void
put_values(char *to, Size size, const char *values, uint16 width, const uint16 *rows, int n)
{
	GJ_BY_WIDTH(width, PUT);
}

/*
 * Convert records to a batch
 */
void
GjRowsTake(GjInput *input, const char *records, int n)
{
	Size		size = input->row_size;

	input->nrows = n;
	for (int i = 0; i < input->ncolumns; i++)
	{
		GjInputColumn *column = &input->columns[i];

		input_make_room(input, column);
		take_values(column->own_values, column->width, records + column->offset, size, n);
		column->values = column->own_values;
		take_nulls(column, records + input->nulls_offset + i / BITS_PER_BYTE, size,
				   (uint8) (1 << (i % BITS_PER_BYTE)), n);
	}
	take_weights(input, records + input->weight_offset, size);
}

#define TAKE(type) \
	do { \
		for (int i = 0; i < n; i++) \
			memcpy((type *) values + i, from + i * size, sizeof(type)); \
	} while (0)

static void
take_values(char *values, uint16 width, const char *from, Size size, int n)
{
	GJ_BY_WIDTH(width, TAKE);
}

static void
take_nulls(GjInputColumn *column, const char *from, Size size, uint8 bit, int n)
{
	uint8		any = 0;

	for (int i = 0; i < n; i++)
	{
		column->own_nulls[i] = (from[i * size] & bit) != 0;
		any |= column->own_nulls[i];
	}
	column->nulls = any ? column->own_nulls : NULL;
}

/* Read the weights.  Usually all of them are 1, and then the loops need not multiply. */
static void
take_weights(GjInput *input, const char *from, Size size)
{
	uint32		differ = 0;

	for (int i = 0; i < input->nrows; i++)
	{
		memcpy(&input->own_weights[i], from + i * size, sizeof(uint32));
		differ |= input->own_weights[i] ^ 1;
	}
	input->weights = differ ? input->own_weights : NULL;
}
