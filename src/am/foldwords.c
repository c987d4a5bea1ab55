/*-------------------------------------------------------------------------
 *
 * foldwords.c
 *	  The rows that a fold writes, where entries are single words: pages/words.c.
 *
 * So it is without INCLUDE columns, unless keys and TIDs have too many bits together, or there is
 * not enough memory: foldrows.c takes these.  All entries of the delta and of the runs that are
 * merged, but for the base run, are sorted as one array of words; the base run comes page by page
 * and is merged with them.
 *
 * How many there are, and from which key to which, is found before they are read: runs and pages
 * have counts and bounds.  An entry that is beyond them is corruption: searches would not find it.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/index.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "mirror/mirror.h"
#include "foldparts.h"

/* What is to be read */
typedef struct Extent
{
	int64		min_key;
	int64		max_key;
	uint64		n;				/* entries to be sorted */
} Extent;

typedef struct GjFoldWords
{
	GjWordForm	form;
	uint64	   *memory;			/* twice as long as the next */
	uint64	   *sorted;			/* all but the base run's */
	uint64		nsorted;
	uint64		at;
	bool		has_base;
	bool		base_ended;
	GjRunReader base;
	uint64		last;			/* of the base's words that have been read */
	int			nbase;
	int			base_at;
	uint64		base_words[GJ_MAX_SLOTS];	/* of the page at hand */
	uint64		out[GJ_MAX_SLOTS];
	PGAlignedBlock page;
} GjFoldWords;

static void measure(const GjFold *fold, int first_run, Extent *extent);
static void widen(Extent *extent, int64 min_key, int64 max_key);
static BlockNumber count_table_blocks(Relation index);
static void collect(GjFold *fold, int first_run, uint64 room);
static uint64 collect_delta(GjFold *fold, uint64 *words, uint64 room);
static uint64 collect_run(GjFold *fold, const GjRun *run, uint64 *words, uint64 room);
static bool next_run_block(GjFold *fold, GjRunReader *reader);
static int	take_page(GjFold *fold, BlockNumber block, uint32 run, uint64 *words, uint64 room);
static int	take_run_page(GjFold *fold, const GjRunReader *reader, uint64 *words, uint64 room,
						  uint64 *last);
static int	merge(GjFold *fold, GjFoldWords *words);
static void read_base(GjFold *fold, GjFoldWords *words);
static uint64 merge_some(GjFoldWords *words, uint64 *out, uint64 room);

/*
 * Begin to read the previous delta and the runs from the given one on; false: they are not for us
 */
bool
GjFoldOpenWords(GjFold *fold, int first_run)
{
	Extent		extent;
	GjWordForm	form;
	GjFoldWords *words;
	Size		size;

	fold->words = NULL;
	if (fold->info.nincluded > 0)
		return false;
	measure(fold, first_run, &extent);
	size = extent.n * 2 * sizeof(uint64);
	if (size > GjFoldMemory() || extent.min_key > extent.max_key ||
		!GjWordFormFind(&form, extent.min_key, extent.max_key, count_table_blocks(fold->index)))
		return false;

	words = palloc0(sizeof(GjFoldWords));
	words->form = form;
	words->memory = MemoryContextAllocHuge(CurrentMemoryContext, size);
	fold->words = words;
	collect(fold, first_run, extent.n);
	if (first_run == 0 && fold->state.nruns > 0)
	{
		words->has_base = true;
		GjRunReaderBegin(&words->base, fold->index, &fold->state.runs[0]);
	}
	return true;
}

/*
 * Get the next rows, a page of them; false when there are no more
 */
bool
GjFoldNextWords(GjFold *fold, GjFoldRows *rows)
{
	GjFoldWords *words = fold->words;

	rows->page = (Page) words->page.data;
	rows->slot = 0;
	rows->n = merge(fold, words);
	if (rows->n == 0)
		return false;
	GjDataInit(rows->page, &fold->info, 0);
	GjDataPutWords(rows->page, &fold->info, &words->form, words->out, rows->n);
	return true;
}

void
GjFoldCloseWords(GjFold *fold)
{
	if (fold->words->has_base)
		GjRunReaderEnd(&fold->words->base);
	pfree(fold->words->memory);
	pfree(fold->words);
	fold->words = NULL;
}

/*
 * Find out what is to be read, by what runs and the delta's pages say of themselves
 */
static void
measure(const GjFold *fold, int first_run, Extent *extent)
{
	extent->min_key = PG_INT64_MAX;
	extent->max_key = PG_INT64_MIN;
	extent->n = 0;
	for (int i = first_run; i < fold->state.nruns; i++)
	{
		const GjRun *run = &fold->state.runs[i];

		widen(extent, run->min_key, run->max_key);
		if (i > 0)
			extent->n += run->entries;
	}
	for (BlockNumber i = 0; i < fold->ndelta_blocks; i++)
	{
		Buffer		buffer;
		GjPageOpaque opaque;

		GjVacuumDelayPoint();
		buffer = GjFoldLockPage(fold, fold->delta_blocks[i], fold->state.deltas[1].run);
		opaque = GjPageGetOpaque(BufferGetPage(buffer));
		if (opaque->used > 0)
			widen(extent, opaque->min_key, opaque->max_key);
		extent->n += opaque->used;
		UnlockReleaseBuffer(buffer);
	}
}

static void
widen(Extent *extent, int64 min_key, int64 max_key)
{
	extent->min_key = Min(extent->min_key, min_key);
	extent->max_key = Max(extent->max_key, max_key);
}

/*
 * No entry that is folded is of a later block: whoever adds one writes to the new delta
 */
static BlockNumber
count_table_blocks(Relation index)
{
	Relation	table = table_open(IndexGetRelation(RelationGetRelid(index), false), NoLock);
	BlockNumber nblocks = RelationGetNumberOfBlocks(table);

	table_close(table, NoLock);
	return nblocks;
}

/*
 * Collect and sort all entries but those of the base run
 */
static void
collect(GjFold *fold, int first_run, uint64 room)
{
	GjFoldWords *words = fold->words;
	uint64	   *start = words->memory;
	uint64		n;

	GjProgressPhaseBegin(GJ_PROGRESS_SORTING, fold->ndelta_blocks);
	n = collect_delta(fold, start, room);
	for (int i = Max(first_run, 1); i < fold->state.nruns; i++)
		n += collect_run(fold, &fold->state.runs[i], start + n, room - n);
	words->sorted = GjWordsSort(&words->form, start, start + room, n);
	words->nsorted = n;
}

static uint64
collect_delta(GjFold *fold, uint64 *words, uint64 room)
{
	uint64		n = 0;

	for (BlockNumber i = 0; i < fold->ndelta_blocks; i++)
	{
		GjVacuumDelayPoint();
		GjProgressDone(i);
		n += take_page(fold, fold->delta_blocks[i], fold->state.deltas[1].run, words + n,
					   room - n);
	}
	return n;
}

static uint64
collect_run(GjFold *fold, const GjRun *run, uint64 *words, uint64 room)
{
	GjRunReader reader;
	uint64		last = 0;
	uint64		n = 0;

	GjRunReaderBegin(&reader, fold->index, run);
	while (next_run_block(fold, &reader))
		n += take_run_page(fold, &reader, words + n, room - n, &last);
	GjRunReaderEnd(&reader);
	return n;
}

static bool
next_run_block(GjFold *fold, GjRunReader *reader)
{
	GjVacuumDelayPoint();
	if (GjRunReaderNext(reader))
		return true;
	if (reader->moved)
		GjReportCorruption(fold->index, reader->block,
						   "A directory has a page of something else.");
	return false;
}

/*
 * Get the words of a data page, at most so many; returns how many
 */
static int
take_page(GjFold *fold, BlockNumber block, uint32 run, uint64 *words, uint64 room)
{
	Buffer		buffer = GjFoldLockPage(fold, block, run);
	int			n = GjDataGetWords(BufferGetPage(buffer), &fold->info, &fold->words->form, words,
								   room);

	UnlockReleaseBuffer(buffer);
	if (n < 0)
		GjReportCorruption(fold->index, block,
						   "A data page has entries that its bounds and counts do not tell.");
	return n;
}

/*
 * The same of a run's page, and see to it that they ascend from the last one on: foldrows.c
 */
static int
take_run_page(GjFold *fold, const GjRunReader *reader, uint64 *words, uint64 room, uint64 *last)
{
	int			n = take_page(fold, reader->block, reader->run.run, words, room);
	bool		ascend = true;
	uint64		before = *last;

	for (int i = 0; i < n; i++)
	{
		ascend &= before <= words[i];
		before = words[i];
	}
	if (!ascend)
		GjReportCorruption(fold->index, reader->block,
						   "The entries of a run are not in order.");
	*last = before;
	return n;
}

/*
 * Merge words of both kinds, as many as a page has slots for; returns how many there are
 */
static int
merge(GjFold *fold, GjFoldWords *words)
{
	uint64		room = fold->info.slots;
	uint64		n = 0;
	uint64		more;

	do
	{
		read_base(fold, words);
		more = merge_some(words, words->out + n, room - n);
		n += more;
	} while (more > 0 && n < room);
	return (int) n;
}

/*
 * Have words of the base run, unless it has ended
 */
static void
read_base(GjFold *fold, GjFoldWords *words)
{
	while (words->has_base && !words->base_ended && words->base_at == words->nbase)
	{
		words->base_at = words->nbase = 0;
		words->base_ended = !next_run_block(fold, &words->base);
		if (!words->base_ended)
			words->nbase = take_run_page(fold, &words->base, words->base_words, GJ_MAX_SLOTS,
										 &words->last);
	}
}

/*
 * Merge words of both kinds until one might run out, or take the rest of the other; returns how
 * many: none when there are no more, or no room
 */
static uint64
merge_some(GjFoldWords *words, uint64 *out, uint64 room)
{
	const uint64 *base = words->base_words + words->base_at;
	const uint64 *sorted = words->sorted + words->at;
	uint64		nbase = words->nbase - words->base_at;
	uint64		nsorted = words->nsorted - words->at;
	uint64		n = Min(Min(nbase, nsorted), room);
	uint64		of_base = 0;

	for (uint64 i = 0; i < n; i++)
	{
		uint64		a = base[of_base];
		uint64		b = sorted[i - of_base];

		out[i] = Min(a, b);
		of_base += a <= b;
	}
	if (nbase == 0 || nsorted == 0)
	{
		of_base = Min(nbase, room);
		n = nbase > 0 ? of_base : Min(nsorted, room);
		memcpy(out, nbase > 0 ? base : sorted, n * sizeof(uint64));
	}
	words->base_at += of_base;
	words->at += n - of_base;
	return n;
}
