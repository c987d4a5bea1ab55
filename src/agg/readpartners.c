/*-------------------------------------------------------------------------
 *
 * readpartners.c
 *	  Columns of a join's small side, and numbers for their values (codes.c).
 *
 * To look a value up by its type's functions takes some 100 ns, and the same few small rows come
 * again and again.  So each small row gets a number when it is first seen, under which its code is
 * noted for each column.  The numbers go on when codes are forgotten: rows may outlive these, as
 * a rescan need not collect the small side anew, and must not be taken for known then.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"

#include "readerstate.h"

#define FIRST_KNOWN				((uint32) 256)

static int32 encode(GjReader *reader, GjReaderColumn *column, GjSmallRow *row, Datum value);
static void note(GjReader *reader, GjReaderColumn *column, GjSmallRow *row, int32 code);
static void grow(GjReaderColumn *column, uint32 least);

void
GjReaderEncode(GjReader *reader, int column)
{
	GjReaderColumn *to = &reader->columns[column];
	Form_pg_attribute att = TupleDescAttr(ExecGetResultType(reader->node), to->slot_at);

	Assert(to->width == sizeof(int32));
	to->codes = GjCodesCreate(CurrentMemoryContext, att->atttypid, att->attcollation);
	to->known = palloc(FIRST_KNOWN * sizeof(int32));
}

Datum
GjReaderDecode(const GjReader *reader, int column, Datum code)
{
	return GjCodesValue(reader->columns[column].codes, DatumGetInt32(code));
}

void
GjReaderForgetCodes(GjReader *reader)
{
	reader->old_numbers = reader->last_number;
	for (int i = 0; i < reader->ncolumns; i++)
	{
		reader->columns[i].nknown = 0;
		if (reader->columns[i].codes != NULL)
			GjCodesClear(reader->columns[i].codes);
	}
}

/*
 * Put a column of small rows into the array of column i, from its row first on; is there any NULL?
 */
bool
GjReaderPutPartners(GjReader *reader, int i, int first, int column, int natts,
					GjSmallRow **partners, int n)
{
	GjReaderColumn *to = &reader->columns[i];
	bool		any_null = false;

	for (int p = 0; p < n; p++)
	{
		Datum		value = GjSmallRowValues(partners[p])[column];
		bool		isnull = GjSmallRowNulls(partners[p], natts)[column];

		if (to->codes != NULL && !isnull)
			value = Int32GetDatum(encode(reader, to, partners[p], value));
		GjReaderPut(to, first + p, value, isnull);
		any_null |= isnull;
	}
	return any_null;
}

static int32
encode(GjReader *reader, GjReaderColumn *column, GjSmallRow *row, Datum value)
{
	uint32		at = row->number - reader->old_numbers - 1;
	int32		code;

	if (row->number > reader->old_numbers && at < column->nknown && column->known[at] >= 0)
		return column->known[at];
	code = GjCodesFind(column->codes, value);
	note(reader, column, row, code);
	return code;
}

/*
 * Note a row's code, unless so many rows have come that there are no more numbers
 */
static void
note(GjReader *reader, GjReaderColumn *column, GjSmallRow *row, int32 code)
{
	uint32		at;

	if (row->number <= reader->old_numbers)
	{
		if (reader->last_number == GJ_SMALL_MAX_NUMBER)
			return;
		row->number = ++reader->last_number;
	}
	at = row->number - reader->old_numbers - 1;
	if (at >= column->nknown)
		grow(column, at + 1);
	column->known[at] = code;
}

static void
grow(GjReaderColumn *column, uint32 least)
{
	uint32		n = Max(column->nknown, FIRST_KNOWN);

	while (n < least)
		n = n > PG_UINT32_MAX / 2 ? PG_UINT32_MAX : 2 * n;
	column->known = repalloc_huge(column->known, n * sizeof(int32));
	memset(column->known + column->nknown, -1, (n - column->nknown) * sizeof(int32));
	column->nknown = n;
}
