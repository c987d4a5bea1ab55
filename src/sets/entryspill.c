/*-------------------------------------------------------------------------
 *
 * entryspill.c
 *	  Writing entries that do not fit in memory to a temporary file.
 *
 * A set is written array by array and read back in the same way, so the file has the layout of
 * the memory.  The file belongs to the resource owner that is current when it is created, the
 * executor's, so it is removed with the query if an error occurs.  It counts towards
 * temp_file_limit, is placed in temp_tablespaces, and EXPLAIN (BUFFERS) shows its blocks.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/buffile.h"

#include "entryspill.h"

struct GjEntrySpill
{
	BufFile    *file;
	bool		reading;
	uint64		nsets;			/* number of sets in the file that have not been read */
};

/* Followed by the set's arrays: TIDs, keys, and the INCLUDE columns, each with its NULL flags */
typedef struct Header
{
	uint64		nentries;
	uint64		highest;
	uint32		has_nulls;		/* bit i: INCLUDE column i has NULL flags */
} Header;

static void write_array(GjEntrySpill *spill, void *array, Size size);
static void read_array(GjEntrySpill *spill, void *array, Size size);

/*
 * Create a temporary file.  The context must live until GjEntrySpillEnd() or an error.
 */
GjEntrySpill *
GjEntrySpillBegin(MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	GjEntrySpill *spill = palloc0(sizeof(GjEntrySpill));

	spill->file = BufFileCreateTemp(false);
	MemoryContextSwitchTo(old);
	return spill;
}

/*
 * Append a set's entries to the file, and clear the set
 */
void
GjEntrySpillWrite(GjEntrySpill *spill, GjEntrySet *set)
{
	Header		header = {set->nentries, set->highest, 0};

	Assert(!spill->reading);
	for (int i = 0; i < set->nincluded; i++)
	{
		if (set->included[i].has_nulls)
			header.has_nulls |= (uint32) 1 << i;
	}
	write_array(spill, &header, sizeof(header));
	write_array(spill, set->tids, set->nentries * sizeof(uint64));
	write_array(spill, set->keys.values, set->nentries * set->keys.width);
	for (int i = 0; i < set->nincluded; i++)
	{
		GjEntryColumn *column = &set->included[i];

		write_array(spill, column->values, set->nentries * column->width);
		if (column->has_nulls)
			write_array(spill, column->nulls, set->nentries);
	}
	spill->nsets++;
	GjEntrySetClear(set);
}

/*
 * Replace the contents of this set by those of the next set in the file; returns false if no
 * sets are left
 */
bool
GjEntrySpillRead(GjEntrySpill *spill, GjEntrySet *set)
{
	Header		header;

	GjEntrySetClear(set);
	if (spill->nsets == 0)
		return false;
	if (!spill->reading && BufFileSeek(spill->file, 0, 0, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind a temporary file of index entries")));
	spill->reading = true;
	spill->nsets--;

	read_array(spill, &header, sizeof(header));
	(void) GjEntrySetReserve(set, header.nentries);
	read_array(spill, set->tids, header.nentries * sizeof(uint64));
	read_array(spill, set->keys.values, header.nentries * set->keys.width);
	for (int i = 0; i < set->nincluded; i++)
	{
		GjEntryColumn *column = &set->included[i];

		read_array(spill, column->values, header.nentries * column->width);
		if ((header.has_nulls >> i & 1) != 0)
			read_array(spill, GjEntrySetNulls(set, column, 0), header.nentries);
	}
	GjEntrySetTook(set, header.nentries, header.highest);
	return true;
}

/*
 * Remove the file
 */
void
GjEntrySpillEnd(GjEntrySpill *spill)
{
	BufFileClose(spill->file);
	pfree(spill);
}

static void
write_array(GjEntrySpill *spill, void *array, Size size)
{
	CHECK_FOR_INTERRUPTS();
	if (size > 0)
		BufFileWrite(spill->file, array, size);
}

static void
read_array(GjEntrySpill *spill, void *array, Size size)
{
	CHECK_FOR_INTERRUPTS();
	if (size > 0 && BufFileRead(spill->file, array, size) != size)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read a temporary file of index entries")));
}
