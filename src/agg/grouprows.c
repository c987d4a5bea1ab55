/*-------------------------------------------------------------------------
 *
 * grouprows.c
 *	  Rows of a batch as records that can be written to disk, and back.
 *
 * A record has the values of all columns that groups or aggregates take, the wide ones first;
 * how many rows it stands for; and a bit for each value that is NULL.  It is no longer than
 * these, and so its parts are at any address.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groupparts.h"

static void put_values(char *to, Size size, const char *values, uint16 width, const uint16 *rows,
					   int n);
static void take_values(char *values, uint16 width, const char *from, Size size, int n);
static void take_nulls(GjInputColumn *column, const char *from, Size size, uint8 bit, int n);
static void take_weights(GjInput *input, const char *from, Size size);

/*
 * Decide where what is in a record, once the columns are known; returns its size
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
 * Put rows of the batch into records
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
	switch (width)
	{
		case 1:
			PUT(uint8);
			break;
		case 2:
			PUT(uint16);
			break;
		case 4:
			PUT(uint32);
			break;
		default:
			PUT(uint64);
			break;
	}
}

/*
 * Make a batch of records
 */
void
GjRowsTake(GjInput *input, const char *records, int n)
{
	Size		size = input->row_size;

	input->nrows = n;
	for (int i = 0; i < input->ncolumns; i++)
	{
		GjInputColumn *column = &input->columns[i];

		GjInputMakeRoom(input, column);
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
	switch (width)
	{
		case 1:
			TAKE(uint8);
			break;
		case 2:
			TAKE(uint16);
			break;
		case 4:
			TAKE(uint32);
			break;
		default:
			TAKE(uint64);
			break;
	}
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

/* Mostly each row is one, and then the loops need not multiply */
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
