/*-------------------------------------------------------------------------
 *
 * input.c
 *	  Rows as groups take them: columns of batches, and records on disk.
 *
 * A column is at the width of its type, has no NULL bytes if no value is NULL, and is restricted to
 * the rows that have groups.
 *
 * Rows of groups for which there is no memory become records, and later batches again.  The value
 * behind the code of a stray is written, too, as codes do not outlive a pass (strays.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groupparts.h"

static void take_column(GjInput *input, GjInputColumn *column, const GjBatchColumn *from);
static void narrow(char *to, uint16 to_width, const char *from, uint16 from_width, int nrows);
static char *records_buffer(GjInput *input);
static void input_put_rows(const GjInput *input, const uint16 *rows, int n, char *records);
static void put_values(char *to, Size size, const char *values, uint16 width, const uint16 *rows,
					   int n);
static void put_strays(const GjInput *input, const GjInputColumn *column, char *record, int n);
static void take_rows(GjInput *input, const char *records, int n);
static void take_values(char *values, uint16 width, const char *from, Size size, int n);
static void input_take_nulls(GjInputColumn *column, const char *from, Size size, uint8 bit, int n);
static void take_weights(GjInput *input, const char *from, Size size);

/*
 * Register a column of the batches, for groups or for aggregates, and return its number.  A column
 * that is registered twice gets one number.
 */
int
GjInputAdd(GjInput *input, int column, GjValueType type, GjStrayKind strays, bool is_key)
{
	GjInputColumn *added;

	for (int i = 0; i < input->ncolumns; i++)
	{
		if (input->columns[i].column == column && input->columns[i].type == type)
		{
			input->columns[i].is_argument |= !is_key;
			input->columns[i].is_key |= is_key;
			input->columns[i].strays = Max(input->columns[i].strays, strays);
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
	added->strays = strays;
	added->is_argument = !is_key;
	added->is_key = is_key;
	return input->ncolumns++;
}

/*
 * Take the rows of a batch, which has all columns or only those that form groups
 */
void
GjInputTake(GjInput *input, const GjBatch *batch, bool only_keys)
{
	Assert(batch->nrows >= 0 && batch->nrows <= GJ_BATCH_ROWS);
	input->nrows = batch->nrows;
	input->weights = only_keys ? NULL : batch->weights;
	for (int i = 0; i < input->ncolumns; i++)
	{
		if (input->columns[i].is_key || !only_keys)
			take_column(input, &input->columns[i], &batch->columns[input->columns[i].column]);
	}
}

static void
take_column(GjInput *input, GjInputColumn *column, const GjBatchColumn *from)
{
	uint8		any = 0;

	column->values = from->values;
	if (from->width != column->width)
	{
		Assert(from->width > column->width);
		GjInputMakeRoom(input, column);
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
			elog(ERROR, "cannot narrow values of %d bytes to %d", from_width, to_width);
	}
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
		GjInputMakeRoom(input, column);
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
 * Rows as records
 *
 * A record holds the values of all columns that groups or aggregates use, the widest first; the
 * number of rows that it stands for; and a bit for each value that is NULL.  It is not padded, so
 * its parts may be unaligned.
 *-------------------------------------------------------------------------
 */

/*
 * Determine the layout of a record, once the columns are known
 */
void
GjInputLayOut(GjInput *input)
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
}

/*
 * Allocate buffers for the records of a batch, and for the weights of rows that were records
 */
static char *
records_buffer(GjInput *input)
{
	if (input->records == NULL)
	{
		input->records = MemoryContextAlloc(input->context, GJ_BATCH_ROWS * input->row_size);
		input->own_weights = MemoryContextAlloc(input->context, GJ_BATCH_ROWS * sizeof(uint32));
	}
	return input->records;
}

void
GjInputWrite(GjInput *input, GjSpill *spill, const uint16 *rows, const uint64 *hashes, int n)
{
	input_put_rows(input, rows, n, records_buffer(input));
	GjSpillWrite(spill, input->records, hashes, n);
}

bool
GjInputRead(GjInput *input, GjSpill *spill)
{
	int			n = GJ_BATCH_ROWS;

	if (input->strays != NULL)
		n = GjStraysNextBatch(input->strays);
	n = GjSpillRead(spill, records_buffer(input), n);
	if (n > 0)
		take_rows(input, input->records, n);
	return n > 0;
}

/*
 * Convert rows of the batch to records
 */
static void
input_put_rows(const GjInput *input, const uint16 *rows, int n, char *records)
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
		if (column->strays != GJ_STRAY_NONE && GjStraysExist(input->strays))
			put_strays(input, column, records + column->offset, n);
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
 * Replace the codes of strays in records by the places of the values, which are written now
 */
static void
put_strays(const GjInput *input, const GjInputColumn *column, char *record, int n)
{
	for (int i = 0; i < n; i++, record += input->row_size)
	{
		int64		word;

		memcpy(&word, record, sizeof(word));
		if (!GjIsStray(word))
			continue;
		word = GjStraysWrite(input->strays, word);
		memcpy(record, &word, sizeof(word));
	}
}

/*
 * Convert records to a batch
 */
static void
take_rows(GjInput *input, const char *records, int n)
{
	Size		size = input->row_size;

	input->nrows = n;
	for (int i = 0; i < input->ncolumns; i++)
	{
		GjInputColumn *column = &input->columns[i];

		GjInputMakeRoom(input, column);
		take_values(column->own_values, column->width, records + column->offset, size, n);
		column->values = column->own_values;
		for (int j = 0; column->strays != GJ_STRAY_NONE && j < n; j++)
		{
			int64	   *word = (int64 *) column->own_values + j;

			if (GjIsStray(*word))
				*word = GjStraysRead(input->strays, column->strays, *word, column->is_key);
		}
		input_take_nulls(column, records + input->nulls_offset + i / BITS_PER_BYTE, size,
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
input_take_nulls(GjInputColumn *column, const char *from, Size size, uint8 bit, int n)
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
