/*-------------------------------------------------------------------------
 *
 * spill.c
 *	  Records that do not fit in memory, such as rows: written to a temporary file in parts, by
 *	  bits of their hash, and read back part by part.
 *
 * The parts are PostgreSQL's logical tapes, all in one temporary file, whose blocks are recycled
 * as soon as they have been read.  That file counts toward temp_file_limit, lies in
 * temp_tablespaces, shows up in EXPLAIN (BUFFERS), and is removed with the transaction's
 * resources if there is an error.
 *
 * All memory of the tapes is allocated in the file's context, as logtape.c requires.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"

#include "groupparts.h"

/* Maximum number of hash bits that distinguish records */
#define GJ_SPILL_MAX_BITS		32

typedef struct Part
{
	LogicalTape *tape;			/* NULL if the part has no records */
	uint64		nrecords;
	int			used_bits;		/* number of hash bits that are the same in all records */
} Part;

struct GjSpill
{
	MemoryContext context;
	GjSpillFile *file;
	Size		record_size;
	char	   *sorted;			/* a batch of records ordered by part */

	int			bits;			/* number of bits that select the part being written; 0: not
								 * writing */
	Part		written[GJ_SPILL_MAX_PARTS];
	Part		read;			/* part being read */
	Part	   *waiting;		/* stack of parts; the last one is read next */
	int			nwaiting;
	int			max_waiting;
};

static int	sort_by_part(const GjSpill *spill, const uint64 *hashes, int n, uint16 *order,
						 int *ends);
static void write_part(GjSpill *spill, Part *part, char *records, int n);
static void push_part(GjSpill *spill, const Part *part);

/* The file ------------------------------------------------------------------------- */

void
GjSpillFileReset(GjSpillFile *file)
{
	file->size = GjSpillFileSize(file);
	LogicalTapeSetClose(file->tapes);
	file->tapes = NULL;
	MemoryContextReset(file->context);
}

/* Writing -------------------------------------------------------------------------- */

GjSpill *
GjSpillCreate(MemoryContext context, GjSpillFile *file, Size record_size)
{
	GjSpill    *spill = MemoryContextAllocZero(context, sizeof(GjSpill));

	spill->context = context;
	spill->file = file;
	spill->record_size = record_size;
	return spill;
}

void
GjSpillForget(GjSpill *spill)
{
	spill->bits = 0;
	spill->nwaiting = 0;
	memset(&spill->read, 0, sizeof(Part));
}

bool
GjSpillCanBegin(const GjSpill *spill)
{
	return spill->read.used_bits < GJ_SPILL_MAX_BITS;
}

bool
GjSpillBegin(GjSpill *spill, double wanted, int most)
{
	int			bits = 0;

	if (!GjSpillCanBegin(spill))
		return false;
	while ((1 << bits) < GJ_SPILL_MIN_PARTS ||
		   ((1 << bits) < wanted && (2 << bits) <= Min(most, GJ_SPILL_MAX_PARTS)))
		bits++;
	if (spill->file->context == NULL)
		spill->file->context = AllocSetContextCreate(spill->file->parent,
													 "gpujoin spilled records",
													 ALLOCSET_DEFAULT_SIZES);
	spill->bits = Min(bits, GJ_SPILL_MAX_BITS - spill->read.used_bits);
	memset(spill->written, 0, sizeof(spill->written));
	return true;
}

void
GjSpillWrite(GjSpill *spill, const char *records, const uint64 *hashes, int n)
{
	Size		size = spill->record_size;
	uint16		order[GJ_SPILL_RECORDS];
	int			ends[GJ_SPILL_MAX_PARTS];
	int			nparts = sort_by_part(spill, hashes, n, order, ends);

	CHECK_FOR_INTERRUPTS();
	if (spill->sorted == NULL)
		spill->sorted = MemoryContextAlloc(spill->context, GJ_SPILL_RECORDS * size);
	for (int i = 0; i < n; i++)
		memcpy(spill->sorted + i * size, records + order[i] * size, size);
	for (int part = 0; part < nparts; part++)
	{
		int			first = part == 0 ? 0 : ends[part - 1];

		if (ends[part] > first)
			write_part(spill, &spill->written[part], spill->sorted + first * size,
					   ends[part] - first);
	}
}

/*
 * Sort records by part. order[] receives their numbers, by part and then in their original order;
 * ends[] receives the end of each part.  Returns the number of parts.
 */
static int
sort_by_part(const GjSpill *spill, const uint64 *hashes, int n, uint16 *order, int *ends)
{
	int			nparts = 1 << spill->bits;
	int			used_bits = spill->read.used_bits;
	int			at[GJ_SPILL_MAX_PARTS] = {0};
	uint8		parts[GJ_SPILL_RECORDS];
	int			total = 0;

	Assert(spill->bits > 0 && n <= GJ_SPILL_RECORDS);
	for (int i = 0; i < n; i++)
	{
		parts[i] = (uint8) (hashes[i] << used_bits >> (64 - spill->bits));
		at[parts[i]]++;
	}
	for (int part = 0; part < nparts; part++)
	{
		int			count = at[part];

		at[part] = total;
		total += count;
		ends[part] = total;
	}
	for (int i = 0; i < n; i++)
		order[at[parts[i]]++] = i;
	return nparts;
}

static void
write_part(GjSpill *spill, Part *part, char *records, int n)
{
	GjSpillFile *file = spill->file;
	MemoryContext old_context = MemoryContextSwitchTo(file->context);

	if (file->tapes == NULL)
		file->tapes = LogicalTapeSetCreate(true, NULL, -1);
	if (part->tape == NULL)
		part->tape = LogicalTapeCreate(file->tapes);
	LogicalTapeWrite(part->tape, records, n * spill->record_size);
	part->nrecords += n;
	MemoryContextSwitchTo(old_context);
}

/*
 * Finish writing: the parts written are now waiting to be read
 */
void
GjSpillEnd(GjSpill *spill)
{
	MemoryContext old_context;

	if (spill->bits == 0)
		return;
	old_context = MemoryContextSwitchTo(spill->file->context);
	for (int i = 0; i < 1 << spill->bits; i++)
	{
		Part	   *part = &spill->written[i];

		if (part->tape == NULL)
			continue;
		LogicalTapeRewindForRead(part->tape, BLCKSZ);
		part->used_bits = spill->read.used_bits + spill->bits;
		push_part(spill, part);
	}
	spill->bits = 0;
	MemoryContextSwitchTo(old_context);
}

static void
push_part(GjSpill *spill, const Part *part)
{
	if (spill->nwaiting == spill->max_waiting)
	{
		int			max_waiting = Max(spill->max_waiting * 2, GJ_SPILL_MAX_PARTS);

		if (spill->waiting == NULL)
			spill->waiting = MemoryContextAlloc(spill->context, max_waiting * sizeof(Part));
		else
			spill->waiting = repalloc(spill->waiting, max_waiting * sizeof(Part));
		spill->max_waiting = max_waiting;
	}
	spill->waiting[spill->nwaiting++] = *part;
}

/* Reading -------------------------------------------------------------------------- */

bool
GjSpillWaits(const GjSpill *spill)
{
	return spill->nwaiting > 0 || spill->bits > 0;
}

bool
GjSpillNextPart(GjSpill *spill, uint64 *nrecords)
{
	GjSpillEnd(spill);
	if (spill->read.tape != NULL)
		LogicalTapeClose(spill->read.tape);
	memset(&spill->read, 0, sizeof(Part));
	if (spill->nwaiting == 0)
		return false;
	spill->read = spill->waiting[--spill->nwaiting];
	*nrecords = spill->read.nrecords;
	return true;
}

int
GjSpillRead(GjSpill *spill, char *records, int most)
{
	Part	   *part = &spill->read;
	int			n = (int) Min((uint64) most, part->nrecords);
	MemoryContext old_context;

	if (n == 0)
		return 0;
	CHECK_FOR_INTERRUPTS();
	old_context = MemoryContextSwitchTo(spill->file->context);
	if (LogicalTapeRead(part->tape, records, n * spill->record_size) != n * spill->record_size)
		elog(ERROR, "unexpected end of spilled records");
	MemoryContextSwitchTo(old_context);
	part->nrecords -= n;
	return n;
}
