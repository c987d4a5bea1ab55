/*-------------------------------------------------------------------------
 *
 * foldwords.c
 *	  The rows that a fold writes, where entries are single words: pages/words.c.
 *
 * So it is without INCLUDE columns, unless keys and TIDs have too many bits together, or there is
 * not enough memory: foldrows.c takes these.  The delta's words are sorted.  Runs are in order, so
 * their words come page by page.  Two streams of words are merged to one, and this with another:
 * those with few words first, so that a base run's are merged but once.
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
	uint64		n;				/* entries of the delta, which are to be sorted */
} Extent;

/* Words in order, some of them at hand: the delta's, a run's, or those of two other streams */
typedef struct Stream
{
	const uint64 *words;		/* at hand, */
	uint64		n;				/* so many */
	uint64		total;			/* about how many words come in all */
	struct Stream *first;		/* merged from these two; NULL: it is not */
	struct Stream *second;
	bool		is_run;
	bool		is_delta;
	bool		ended;			/* nothing comes behind what is at hand */
	GjRunReader reader;
	uint64		last;			/* of the run's words that have been read */
	uint64		buffer[GJ_MAX_SLOTS];
} Stream;

/* Runs, the delta, and what merges two of them until one is left */
#define MAX_STREAMS				(2 * (GJ_MAX_RUNS + 1) - 1)

typedef struct GjFoldWords
{
	GjWordForm	form;
	GjWordSort *sort;			/* of the delta's words */
	Stream	   *streams[MAX_STREAMS];
	int			nstreams;
	Stream	   *all;
} GjFoldWords;

static void measure(const GjFold *fold, int first_run, Extent *extent);
static void widen(Extent *extent, int64 min_key, int64 max_key);
static BlockNumber count_table_blocks(Relation index);
static Stream *add_stream(GjFoldWords *words, uint64 total);
static void add_delta(GjFold *fold, uint64 room);
static void merge_streams(GjFoldWords *words);
static void put_in_order(Stream **streams, int n, Stream *stream);
static void fill(GjFold *fold, Stream *stream);
static void read_run_page(GjFold *fold, Stream *stream);
static int	take_page(GjFold *fold, BlockNumber block, uint32 run, uint64 *words, uint64 room);
static void check_order(const GjFold *fold, Stream *run);
static void merge(GjFold *fold, Stream *stream);
static uint64 merge_some(Stream *first, Stream *second, uint64 *out, uint64 room);
static uint64 merge_words(const uint64 *first, const uint64 *second, uint64 *out, uint64 n);
static uint64 count_first(const uint64 *first, const uint64 *second, uint64 n);
static inline void advance(Stream *stream, uint64 n);

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
	size = extent.n * 3 * sizeof(uint64);
	if (size > GjFoldMemory() || extent.min_key > extent.max_key ||
		!GjWordFormFind(&form, extent.min_key, extent.max_key, count_table_blocks(fold->index)))
		return false;

	words = palloc0(sizeof(GjFoldWords));
	words->form = form;
	fold->words = words;
	add_delta(fold, extent.n);
	for (int i = first_run; i < fold->state.nruns; i++)
	{
		const GjRun *run = &fold->state.runs[i];
		Stream	   *stream = add_stream(words, run->entries);

		stream->is_run = true;
		GjRunReaderBegin(&stream->reader, fold->index, run);
	}
	/* what is merged comes in pages */
	if (words->nstreams == 1)
		add_stream(words, 0)->ended = true;
	merge_streams(words);
	return true;
}

/*
 * Get the next rows, as many as a page has slots for, but for the last; false when there are no
 * more
 */
bool
GjFoldNextWords(GjFold *fold, GjFoldRows *rows)
{
	Stream	   *all = fold->words->all;

	if (all->n == 0)
		fill(fold, all);
	rows->form = &fold->words->form;
	rows->words = all->words;
	rows->n = Min(all->n, fold->info.slots);
	advance(all, rows->n);
	return rows->n > 0;
}

void
GjFoldCloseWords(GjFold *fold)
{
	GjFoldWords *words = fold->words;

	for (int i = 0; i < words->nstreams; i++)
	{
		if (words->streams[i]->is_run)
			GjRunReaderEnd(&words->streams[i]->reader);
		pfree(words->streams[i]);
	}
	GjWordSortEnd(words->sort);
	pfree(words);
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

static Stream *
add_stream(GjFoldWords *words, uint64 total)
{
	Stream	   *stream = palloc(sizeof(Stream));

	memset(stream, 0, offsetof(Stream, buffer));
	stream->total = total;
	words->streams[words->nstreams++] = stream;
	return stream;
}

/*
 * Read the delta's words, to be sorted
 */
static void
add_delta(GjFold *fold, uint64 room)
{
	GjFoldWords *words = fold->words;
	Stream	   *stream = add_stream(words, room);
	uint64		buffer[GJ_MAX_SLOTS];
	uint64		n = 0;

	words->sort = GjWordSortBegin(&words->form, room);
	GjProgressPhaseBegin(GJ_PROGRESS_SORTING, fold->ndelta_blocks);
	for (BlockNumber i = 0; i < fold->ndelta_blocks; i++)
	{
		int			here;

		GjVacuumDelayPoint();
		GjProgressDone(i);
		here = take_page(fold, fold->delta_blocks[i], fold->state.deltas[1].run, buffer,
						 Min(room - n, GJ_MAX_SLOTS));
		GjWordSortAdd(words->sort, buffer, here);
		n += here;
	}
	stream->is_delta = true;
}

/*
 * Merge all streams to one: again and again the two that have fewest words
 */
static void
merge_streams(GjFoldWords *words)
{
	Stream	   *left[GJ_MAX_RUNS + 1] = {NULL};	/* those with fewest come last */
	int			nleft = 0;

	while (nleft < words->nstreams)
	{
		put_in_order(left, nleft, words->streams[nleft]);
		nleft++;
	}
	while (nleft > 1)
	{
		Stream	   *first = left[--nleft];
		Stream	   *second = left[--nleft];
		Stream	   *merged = add_stream(words, first->total + second->total);

		merged->first = first;
		merged->second = second;
		put_in_order(left, nleft++, merged);
	}
	words->all = left[0];
}

static void
put_in_order(Stream **streams, int n, Stream *stream)
{
	for (; n > 0 && streams[n - 1]->total < stream->total; n--)
		streams[n] = streams[n - 1];
	streams[n] = stream;
}

/*
 * Have words of a stream at hand, where there are none, unless it has ended
 */
static void
fill(GjFold *fold, Stream *stream)
{
	stream->words = stream->buffer;
	while (stream->n == 0 && !stream->ended)
	{
		if (stream->is_delta)
		{
			stream->n = GjWordSortNext(fold->words->sort, &stream->words);
			stream->ended = stream->n == 0;
		}
		else if (stream->is_run)
			read_run_page(fold, stream);
		else
			merge(fold, stream);
	}
}

static void
read_run_page(GjFold *fold, Stream *stream)
{
	GjRunReader *reader = &stream->reader;

	GjVacuumDelayPoint();
	if (GjRunReaderNext(reader))
	{
		stream->n = take_page(fold, reader->block, reader->run.run, stream->buffer, GJ_MAX_SLOTS);
		check_order(fold, stream);
		return;
	}
	if (reader->moved)
		GjReportCorruption(fold->index, reader->block,
						   "A directory has a page of something else.");
	stream->ended = true;
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
 * See to it that a run's words ascend: foldrows.c
 */
static void
check_order(const GjFold *fold, Stream *run)
{
	bool		ascend = true;
	uint64		last = run->last;

	for (uint64 i = 0; i < run->n; i++)
	{
		ascend &= last <= run->words[i];
		last = run->words[i];
	}
	if (!ascend)
		GjReportCorruption(fold->index, run->reader.block,
						   "The entries of a run are not in order.");
	run->last = last;
}

/*
 * Merge words of two streams, as many as a page has slots for, unless there are fewer
 */
static void
merge(GjFold *fold, Stream *stream)
{
	uint64		room = fold->info.slots;

	while (stream->n < room)
	{
		Stream	   *first = stream->first;
		Stream	   *second = stream->second;

		if (first->n == 0)
			fill(fold, first);
		if (second->n == 0)
			fill(fold, second);
		if (first->n == 0 && second->n == 0)
		{
			stream->ended = true;
			break;
		}
		stream->n += merge_some(first, second, stream->buffer + stream->n, room - stream->n);
	}
}

/*
 * Merge words at hand of two streams until one might run out, or take those of one where the other
 * has ended; returns how many
 */
static uint64
merge_some(Stream *first, Stream *second, uint64 *out, uint64 room)
{
	uint64		n = Min(Min(first->n, second->n), room);
	uint64		of_first;

	if (n == 0)
	{
		Stream	   *left = first->n > 0 ? first : second;

		n = Min(left->n, room);
		memcpy(out, left->words, n * sizeof(uint64));
		advance(left, n);
		return n;
	}
	of_first = merge_words(first->words, second->words, out, n);
	advance(first, of_first);
	advance(second, n - of_first);
	return n;
}

/*
 * Merge the first n of both, where each has so many; returns how many are of the first
 *
 * Both halves at the same time: a step waits for the one before it, but not for the other half's.
 */
static uint64
merge_words(const uint64 *first, const uint64 *second, uint64 *out, uint64 n)
{
	uint64		half = n / 2;
	uint64		low = 0;		/* of the first, in the lower half */
	uint64		high = count_first(first, second, half);	/* and before the upper one's next */

	for (uint64 i = 0; i < half; i++)
	{
		uint64		a = first[low];
		uint64		b = second[i - low];
		uint64		c = first[high];
		uint64		d = second[half + i - high];

		out[i] = Min(a, b);
		low += a <= b;
		out[half + i] = Min(c, d);
		high += c <= d;
	}
	if (n % 2 != 0)
	{
		uint64		a = first[high];
		uint64		b = second[n - 1 - high];

		out[n - 1] = Min(a, b);
		high += a <= b;
	}
	return high;
}

/*
 * Of the first n words of a merge, how many are of the first?
 */
static uint64
count_first(const uint64 *first, const uint64 *second, uint64 n)
{
	uint64		low = 0;
	uint64		high = n;

	while (low < high)
	{
		uint64		at = (low + high) / 2;

		if (first[at] <= second[n - 1 - at])
			low = at + 1;
		else
			high = at;
	}
	return low;
}

static inline void
advance(Stream *stream, uint64 n)
{
	stream->words += n;
	stream->n -= n;
}
