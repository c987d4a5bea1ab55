/*-------------------------------------------------------------------------
 *
 * ready.c
 *	  Columns of a heap block's tuples as arrays.
 *
 * A row that goes through a slot is taken apart, handed from node to node and put together
 * again.  Here a loop over a block's tuples reads one column, at the same place in each; next
 * to nothing is left but waiting for the tuples.  Where one of them is not like the others
 * (fill.c), or the column lies behind one of variable length, core's heap_getattr() reads it,
 * which knows about NULLs and about columns that were added later.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"

#include "ready.h"

static bool all_have_place(const HeapTupleData *tuples, AttrNumber attno, const uint16 *rows,
						   int n);
static void read_places(const HeapTupleData *tuples, const GjTuplePlace *place,
						const uint16 *rows, int n, char *values);
static bool read_attributes(const GjReadyRows *ready, const GjTuplePlace *place,
							const uint16 *rows, int n, char *values, uint8 *nulls);

bool
GjReadyColumn(const GjReadyRows *ready, const GjFillOutput *output, const uint16 *rows, int n,
			  char *values, uint8 *nulls)
{
	const HeapTupleData *tuples = ready->block->tuples;

	Assert(output->by_value);
	if (output->place.offset == GJ_NO_OFFSET ||
		!all_have_place(tuples, output->place.attno, rows, n))
		return read_attributes(ready, &output->place, rows, n, values, nulls);
	read_places(tuples, &output->place, rows, n, values);
	memset(nulls, 0, n);
	return false;
}

static bool
all_have_place(const HeapTupleData *tuples, AttrNumber attno, const uint16 *rows, int n)
{
	bool		all = true;

	for (int i = 0; i < n; i++)
		all &= GjTupleHasPlace(tuples[rows[i]].t_data, attno);
	return all;
}

#define READ_PLACES(type) \
	for (int i = 0; i < n; i++) \
		((type *) values)[i] = *(const type *) GjTupleAt(tuples[rows[i]].t_data, place)

static void
read_places(const HeapTupleData *tuples, const GjTuplePlace *place, const uint16 *rows, int n,
			char *values)
{
	switch (place->width)
	{
		case sizeof(uint8):
			READ_PLACES(uint8);
			break;
		case sizeof(uint16):
			READ_PLACES(uint16);
			break;
		case sizeof(uint32):
			READ_PLACES(uint32);
			break;
		default:
			READ_PLACES(uint64);
			break;
	}
}

/*
 * Read tuple by tuple; the bytes of a NULL's value are zero
 */
static bool
read_attributes(const GjReadyRows *ready, const GjTuplePlace *place, const uint16 *rows, int n,
				char *values, uint8 *nulls)
{
	bool		any_null = false;

	for (int i = 0; i < n; i++)
	{
		HeapTuple	tuple = &ready->block->tuples[rows[i]];
		bool		isnull;
		Datum		value = heap_getattr(tuple, place->attno, ready->desc, &isnull);

		store_att_byval(values + i * place->width, isnull ? (Datum) 0 : value, place->width);
		nulls[i] = isnull;
		any_null |= isnull;
	}
	return any_null;
}
