/*-------------------------------------------------------------------------
 *
 * groupinput.c
 *	  Columns of a batch as groups and aggregates want them: as wide as their types,
 *	  without NULL bytes where there is no NULL, and only the rows whose groups there are.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groupparts.h"

static void take_column(GjInput *input, GjInputColumn *column, const GjBatchColumn *from);
static void narrow(char *to, uint16 to_width, const char *from, uint16 from_width, int nrows);

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
 * Have a column of the batches taken; returns its number.  Asked for twice it is one.
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
			elog(ERROR, "cannot take values of %d bytes from %d", to_width, from_width);
	}
}

/*
 * Have room for the values of a batch that are changed here
 */
void
GjInputMakeRoom(const GjInput *input, GjInputColumn *column)
{
	if (column->own_values == NULL)
	{
		column->own_values = MemoryContextAlloc(input->context, GJ_BATCH_ROWS * column->width);
		column->own_nulls = MemoryContextAlloc(input->context, GJ_BATCH_ROWS);
	}
}

/*
 * How many rows the batch stands for
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
 * Go on with some of the rows, which ascend
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
		GjGatherValues(column->own_values, column->values, column->width, rows, nrows);
		column->values = column->own_values;
		if (column->nulls != NULL)
		{
			GjGatherValues((char *) column->own_nulls, (const char *) column->nulls, 1, rows,
						   nrows);
			column->nulls = column->own_nulls;
		}
	}
	if (input->weights != NULL)
	{
		GjGatherValues((char *) input->own_weights, (const char *) input->weights,
					   sizeof(uint32), rows, nrows);
		input->weights = input->own_weights;
	}
	input->nrows = nrows;
}

#define GATHER(type) \
	do { \
		for (int i = 0; i < nrows; i++) \
			((type *) to)[i] = ((const type *) from)[rows[i]]; \
	} while (0)

/*
 * Put the values of some rows one behind the other.  The rows ascend, so that it may be done
 * in place.
 */
void
GjGatherValues(char *to, const char *from, uint16 width, const uint16 *rows, int nrows)
{
	switch (width)
	{
		case 1:
			GATHER(uint8);
			break;
		case 2:
			GATHER(uint16);
			break;
		case 4:
			GATHER(uint32);
			break;
		default:
			GATHER(uint64);
			break;
	}
}
