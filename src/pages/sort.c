/*-------------------------------------------------------------------------
 *
 * sort.c
 *	  Sorting rows by (key, TID), for builds and folds.
 *
 * Rows are collected in memory.  The radix sort does not move rows but words: a part of a key,
 * with as many bits as fit, and the row's position.  Four-byte keys need one such sort, wide
 * ones two.  Equal keys keep the order in which they were added.  A heap scan returns ascending
 * TIDs, so a build needs no more than that.  Otherwise the rows are sorted by TID first.
 *
 * When memory is full, the rows are written to a temporary file in order, as a chunk, and in the
 * end all chunks are merged.  The number of readers in a merge is limited by the memory for
 * their buffers; if there are more chunks, groups of chunks are merged into one first.
 *
 * The temporary file belongs to the current resource owner, the memory to the current context:
 * an error leaves nothing behind.  Equal rows are all kept.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/buffile.h"
#include "utils/memutils.h"

#include "base/prefetch.h"
#include "base/radix.h"
#include "base/tid.h"
#include "pages.h"

/* A range of sorted rows in the file; the unit is rows */
typedef struct GjChunk
{
	uint64		start;
	uint64		end;
} GjChunk;

/* Private to sort.c */
typedef struct GjMerge GjMerge;

#define WRITE_BUFFER			((Size) 64 * 1024)

#define FIRST_CAPACITY			1024

/* For each row in memory: its position in the order, and two words that are used while sorting */
#define ORDER_BYTES				(sizeof(uint32) + 2 * sizeof(uint64))

/* Number of rows prefetched ahead of the one returned */
#define PREFETCH_DISTANCE		16

struct GjRowSort
{
	GjIndexInfo info;
	MemoryContext context;
	Size		memory;
	Size		width;			/* of a row */

	/* rows in memory */
	char	   *rows;
	uint64		nrows;
	uint64		capacity;
	uint64		max_rows;
	uint32	   *order;			/* positions of the rows in sorted order */
	bool		in_place;		/* true if that is the order of rows[] itself; order[] is not set
								 * then */
	uint64	   *words;
	uint64	   *scratch;
	uint64		ordered;		/* number of rows that fit into these three arrays */
	uint64		next;			/* next row to be returned */

	/* chunks on disk */
	BufFile    *file;
	uint64		written;		/* rows in the file */
	char	   *out;			/* WRITE_BUFFER bytes: rows not written to the file yet */
	Size		out_used;
	GjChunk    *chunks;
	int			nchunks;
	int			max_chunks;
	GjMerge    *merge;
};

/* Rows are read through buffers of this size, or less if memory is short */
#define READ_BUFFER				((Size) 64 * 1024)
#define SMALLEST_READ_BUFFER	((Size) 8 * 1024)

/* Minimum number of chunks that a merge takes, regardless of memory */
#define MIN_MERGE_ORDER			8

typedef struct ChunkReader
{
	GjPlace		place;			/* of the current row; after_all at the end */
	char	   *buffer;
	uint64		nrows;			/* number of rows in the buffer; 0 at the end of the chunk */
	uint64		at;				/* current row */
	GjChunk		rest;			/* rows still to be read from the file */
} ChunkReader;

struct GjMerge
{
	GjIndexInfo info;
	BufFile    *file;
	uint64		buffer_rows;
	ChunkReader *readers;
	int			nreaders;
	int		   *losers;			/* loser at each node; losers[0] is the overall winner */
	bool		started;		/* true if the winner's row has been returned */
};

static void make_room(GjRowSort *sort);
static void sort_chunk(GjRowSort *sort);
static void reserve_order(GjRowSort *sort);
static void sort_by(GjRowSort *sort, bool by_key, uint64 min, uint64 max);
static inline uint64 value_at(const GjRowSort *sort, uint64 row, bool by_key);
static int	bits_of(uint64 value);
static const char *next_in_memory(GjRowSort *sort);
static void free_memory_rows(GjRowSort *sort);
static void begin_file(GjRowSort *sort);
static void spill(GjRowSort *sort);
static void write_row(GjRowSort *sort, const char *row);
static void flush_out(GjRowSort *sort);
static void end_chunk(GjRowSort *sort, uint64 start);
static void merge_pass(GjRowSort *sort, int merge_order);
static int	play(GjMerge *merge, int node);
static void advance(GjMerge *merge, ChunkReader *reader);
static void fill_buffer(GjMerge *merge, ChunkReader *reader);
static int	GjMergeOrder(Size memory);
static GjMerge *merge_begin(const GjIndexInfo *info, BufFile *file, const GjChunk *chunks,
							int nchunks, Size memory);
static const char *merge_next(GjMerge *merge);
static uint64 merge_skip(GjMerge *merge, uint64 n);
static inline uint64 count_left(const ChunkReader *reader);
static uint64 skip_to(GjMerge *merge, ChunkReader *reader, const GjPlace *place);
static GjPlace get_place(GjMerge *merge, uint64 row);
static void read_rows(GjMerge *merge, uint64 first, uint64 n, char *rows);
static void merge_end(GjMerge *merge);
static void to_rows(char *rows, const GjIndexInfo *info, int offset, const char *values,
					int width, const uint16 *slots, int n);
static int	get_rows(Page page, const GjIndexInfo *info, char *rows);

/* After all rows: no TID is that large */
static const GjPlace after_all = {PG_INT64_MAX, PG_UINT64_MAX};

/*
 * Start sorting rows, with this number of bytes of memory
 */
GjRowSort *
GjRowSortBegin(const GjIndexInfo *info, Size memory)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gpujoin row sort",
												  ALLOCSET_DEFAULT_SIZES);
	GjRowSort  *sort = MemoryContextAllocZero(context, sizeof(GjRowSort));

	sort->info = *info;
	sort->context = context;
	sort->memory = memory;
	sort->width = info->row_width;
	sort->max_rows = Min(memory / (sort->width + ORDER_BYTES), (uint64) PG_INT32_MAX);
	sort->max_rows = Max(sort->max_rows, GJ_RADIX_MIN);
	return sort;
}

/*
 * Add a row
 */
void
GjRowSortAdd(GjRowSort *sort, const char *row)
{
	if (sort->nrows == sort->capacity)
		make_room(sort);
	memcpy(sort->rows + sort->nrows * sort->width, row, sort->width);
	sort->nrows++;
}

/*
 * Add the entries of a data page
 */
void
GjRowSortAddPage(GjRowSort *sort, Page page)
{
	char		row[GJ_MAX_ROW_WIDTH];
	uint64		most = GjDataSlots(page, &sort->info);	/* regardless of the page's count */

	while (sort->capacity - sort->nrows < most && sort->capacity < sort->max_rows)
		make_room(sort);
	if (sort->capacity - sort->nrows >= most)
	{
		sort->nrows += get_rows(page, &sort->info, sort->rows + sort->nrows * sort->width);
		return;
	}
	for (int slot = 0; slot < most; slot++)
	{
		if (!GjDataIsUsed(page, &sort->info, slot))
			continue;
		GjRowFromSlot(page, &sort->info, slot, row);
		GjRowSortAdd(sort, row);
	}
}

/*
 * Sort the rows, after all have been added
 */
void
GjRowSortPerform(GjRowSort *sort)
{
	MemoryContext old = MemoryContextSwitchTo(sort->context);
	int			merge_order = GjMergeOrder(sort->memory);

	if (sort->file == NULL)
		sort_chunk(sort);
	else
	{
		spill(sort);
		free_memory_rows(sort);
		while (sort->nchunks > merge_order)
			merge_pass(sort, merge_order);
		GjRowSortRewind(sort);
	}
	MemoryContextSwitchTo(old);
}

/*
 * Begin again with the first of the sorted rows
 */
void
GjRowSortRewind(GjRowSort *sort)
{
	MemoryContext old = MemoryContextSwitchTo(sort->context);

	sort->next = 0;
	if (sort->merge != NULL)
		merge_end(sort->merge);
	if (sort->file != NULL)
		sort->merge = merge_begin(&sort->info, sort->file, sort->chunks, sort->nchunks,
								  sort->memory);
	MemoryContextSwitchTo(old);
}

/*
 * Get the next row, valid until the next call; NULL at the end
 */
const char *
GjRowSortNext(GjRowSort *sort)
{
	return sort->merge != NULL ? merge_next(sort->merge) : next_in_memory(sort);
}

/*
 * Pass over about n of the sorted rows, or the given part of all if that is more, without reading
 * most of them; returns how many it were
 */
uint64
GjRowSortSkip(GjRowSort *sort, uint64 n, int part)
{
	if (sort->merge != NULL)
		return merge_skip(sort->merge, Max(n, sort->written / part));
	n = Min(Max(n, sort->nrows / part), sort->nrows - sort->next);
	sort->next += n;
	return n;
}

/*
 * Free the memory and the file of the sort
 */
void
GjRowSortEnd(GjRowSort *sort)
{
	if (sort->file != NULL)
		BufFileClose(sort->file);
	MemoryContextDelete(sort->context);
}

/* Rows in memory ------------------------------------------------------------------- */

static void
make_room(GjRowSort *sort)
{
	CHECK_FOR_INTERRUPTS();
	if (sort->capacity == sort->max_rows)
	{
		MemoryContext old = MemoryContextSwitchTo(sort->context);

		spill(sort);
		MemoryContextSwitchTo(old);
		return;
	}

	sort->capacity = Min(Max(2 * sort->capacity, FIRST_CAPACITY), sort->max_rows);
	if (sort->rows == NULL)
		sort->rows = MemoryContextAllocHuge(sort->context, sort->capacity * sort->width);
	else
		sort->rows = repalloc_huge(sort->rows, sort->capacity * sort->width);
}

/*
 * Determine the order of the rows in memory
 */
static void
sort_chunk(GjRowSort *sort)
{
	int64		min_key = PG_INT64_MAX;
	int64		max_key = PG_INT64_MIN;
	uint64		min_tid = PG_UINT64_MAX;
	uint64		max_tid = 0;
	bool		tids_ascend = true;
	bool		keys_ascend = true;
	GjPlace		last = {PG_INT64_MIN, 0};

	reserve_order(sort);
	for (uint64 i = 0; i < sort->nrows; i++)
	{
		ItemPointerData tid;
		GjPlace		here;

		here.key = GjRowGetKey(&sort->info, sort->rows + i * sort->width, &tid);
		here.tid = GjPackTid(&tid);
		min_key = Min(min_key, here.key);
		max_key = Max(max_key, here.key);
		min_tid = Min(min_tid, here.tid);
		max_tid = Max(max_tid, here.tid);
		tids_ascend &= last.tid <= here.tid;
		keys_ascend &= last.key <= here.key;
		last = here;
	}
	sort->in_place = true;

	if (!tids_ascend)
		sort_by(sort, false, min_tid, max_tid);
	if (!tids_ascend || !keys_ascend)
		sort_by(sort, true, (uint64) min_key, (uint64) max_key);
	sort->next = 0;
}

static void
reserve_order(GjRowSort *sort)
{
	if (sort->ordered >= sort->nrows && sort->order != NULL)
		return;
	if (sort->order != NULL)
	{
		pfree(sort->order);
		pfree(sort->words);
		pfree(sort->scratch);
	}
	sort->ordered = Max(sort->nrows, 1);
	sort->order = MemoryContextAllocHuge(sort->context, sort->ordered * sizeof(uint32));
	sort->words = MemoryContextAllocHuge(sort->context, sort->ordered * sizeof(uint64));
	sort->scratch = MemoryContextAllocHuge(sort->context, sort->ordered * sizeof(uint64));
}

/*
 * Sort the positions of the rows by the keys, or the TIDs; equal ones keep their order
 */
static void
sort_by(GjRowSort *sort, bool by_key, uint64 min, uint64 max)
{
	int			position_bits = bits_of(sort->nrows - 1);
	uint64		positions = ((uint64) 1 << position_bits) - 1;
	int			value_bits = bits_of(max - min);

	for (int low = 0; low < value_bits; low += 64 - position_bits)
	{
		uint64	   *sorted;
		uint32	   *order;

		for (uint64 i = 0; i < sort->nrows; i++)
		{
			uint64		value = value_at(sort, sort->in_place ? i : sort->order[i], by_key) - min;

			if (!sort->in_place && i + PREFETCH_DISTANCE < sort->nrows)
				GjPrefetch(sort->rows + sort->order[i + PREFETCH_DISTANCE] * sort->width);
			sort->words[i] = (value >> low) << position_bits | i;
		}
		sorted = radix_sort_above(sort->words, sort->scratch, sort->nrows, position_bits);

		/* while the old order, if any, is read, the array without the words takes the new one */
		order = sort->order;
		if (!sort->in_place)
			order = (uint32 *) (sorted == sort->words ? sort->scratch : sort->words);
		for (uint64 i = 0; i < sort->nrows; i++)
		{
			uint32		position = sorted[i] & positions;

			order[i] = sort->in_place ? position : sort->order[position];
		}
		if (!sort->in_place)
			memcpy(sort->order, order, sort->nrows * sizeof(uint32));
		sort->in_place = false;
	}
}

/*
 * Return a row's key, or its TID, as a number
 */
static inline uint64
value_at(const GjRowSort *sort, uint64 row, bool by_key)
{
	ItemPointerData tid;
	int64		key = GjRowGetKey(&sort->info, sort->rows + row * sort->width, &tid);

	return by_key ? (uint64) key : GjPackTid(&tid);
}

static int
bits_of(uint64 value)
{
	return value == 0 ? 0 : pg_leftmost_one_pos64(value) + 1;
}

static const char *
next_in_memory(GjRowSort *sort)
{
	if (sort->next == sort->nrows)
		return NULL;
	if (sort->in_place)
		return sort->rows + sort->next++ * sort->width;
	if (sort->next + PREFETCH_DISTANCE < sort->nrows)
		GjPrefetch(sort->rows + sort->order[sort->next + PREFETCH_DISTANCE] * sort->width);
	return sort->rows + sort->order[sort->next++] * sort->width;
}

static void
free_memory_rows(GjRowSort *sort)
{
	pfree(sort->rows);
	pfree(sort->order);
	pfree(sort->words);
	pfree(sort->scratch);
	sort->rows = NULL;
	sort->order = NULL;
	sort->capacity = 0;
}

/* Chunks on disk ------------------------------------------------------------------- */

static void
begin_file(GjRowSort *sort)
{
	sort->file = BufFileCreateTemp(false);
	sort->written = 0;
	sort->nchunks = 0;
	sort->max_chunks = 16;
	sort->chunks = palloc(sort->max_chunks * sizeof(GjChunk));
	if (sort->out == NULL)
		sort->out = palloc(WRITE_BUFFER);
}

/*
 * Write the rows in memory to the file
 */
static void
spill(GjRowSort *sort)
{
	uint64		start;
	const char *row;

	if (sort->nrows == 0)
		return;
	if (sort->file == NULL)
		begin_file(sort);

	sort_chunk(sort);
	start = sort->written;
	while ((row = next_in_memory(sort)) != NULL)
		write_row(sort, row);
	end_chunk(sort, start);
	sort->nrows = 0;
}

static void
write_row(GjRowSort *sort, const char *row)
{
	if (sort->out_used + sort->width > WRITE_BUFFER)
		flush_out(sort);
	memcpy(sort->out + sort->out_used, row, sort->width);
	sort->out_used += sort->width;
	sort->written++;
}

static void
flush_out(GjRowSort *sort)
{
	CHECK_FOR_INTERRUPTS();
	BufFileWrite(sort->file, sort->out, sort->out_used);
	sort->out_used = 0;
}

static void
end_chunk(GjRowSort *sort, uint64 start)
{
	flush_out(sort);
	if (sort->nchunks == sort->max_chunks)
	{
		sort->max_chunks *= 2;
		sort->chunks = repalloc(sort->chunks, sort->max_chunks * sizeof(GjChunk));
	}
	sort->chunks[sort->nchunks].start = start;
	sort->chunks[sort->nchunks].end = sort->written;
	sort->nchunks++;
}

/*
 * Merge groups of merge_order chunks into one each, into another file
 */
static void
merge_pass(GjRowSort *sort, int merge_order)
{
	BufFile    *source = sort->file;
	GjChunk    *chunks = sort->chunks;
	int			nchunks = sort->nchunks;

	begin_file(sort);
	for (int first = 0; first < nchunks; first += merge_order)
	{
		GjMerge    *merge = merge_begin(&sort->info, source, chunks + first,
										Min(merge_order, nchunks - first), sort->memory);
		uint64		start = sort->written;
		const char *row;

		while ((row = merge_next(merge)) != NULL)
			write_row(sort, row);
		merge_end(merge);
		end_chunk(sort, start);
	}
	BufFileClose(source);
	pfree(chunks);
}

/*-------------------------------------------------------------------------
 * Merging sorted chunks
 *
 * Merge chunks of sorted rows that are read from a temporary file.
 *
 * The readers play a tournament: a row costs one comparison at each level of its tree.
 *-------------------------------------------------------------------------
 */

/*
 * Return the number of chunks that can be merged at once within this memory
 */
static int
GjMergeOrder(Size memory)
{
	return (int) Min(Max(memory / SMALLEST_READ_BUFFER, MIN_MERGE_ORDER), (Size) 1 << 16);
}

/*
 * Start merging chunks, at least one
 */
static GjMerge *
merge_begin(const GjIndexInfo *info, BufFile *file, const GjChunk *chunks, int nchunks,
			Size memory)
{
	GjMerge    *merge = palloc(sizeof(GjMerge));
	Size		buffer = Min(Max(memory / nchunks, SMALLEST_READ_BUFFER), READ_BUFFER);

	merge->info = *info;
	merge->file = file;
	merge->buffer_rows = buffer / info->row_width;
	merge->readers = palloc0(nchunks * sizeof(ChunkReader));
	merge->nreaders = nchunks;
	merge->losers = palloc(nchunks * sizeof(int));
	merge->started = false;
	for (int i = 0; i < nchunks; i++)
	{
		merge->readers[i].buffer = palloc(merge->buffer_rows * info->row_width);
		merge->readers[i].rest = chunks[i];
		advance(merge, &merge->readers[i]);
	}
	merge->losers[0] = play(merge, 1);
	return merge;
}

/*
 * Get the next row, valid until the next call; NULL at the end
 */
static const char *
merge_next(GjMerge *merge)
{
	int			winner = merge->losers[0];
	ChunkReader *reader = &merge->readers[winner];

	if (merge->started && reader->nrows > 0)
	{
		reader->at++;
		advance(merge, reader);
		for (int node = (winner + merge->nreaders) / 2; node > 0; node /= 2)
		{
			int			other = merge->losers[node];

			if (GjPlaceIsBefore(&merge->readers[other].place, &merge->readers[winner].place))
			{
				merge->losers[node] = winner;
				winner = other;
			}
		}
		merge->losers[0] = winner;
		reader = &merge->readers[winner];
	}
	merge->started = true;
	if (reader->nrows == 0)
		return NULL;
	return reader->buffer + reader->at * merge->info.row_width;
}

/*
 * Pass over about n rows.  The longest chunk passes over its share of them, and the others over all
 * rows that come before the row which it arrives at: so the next rows are those that follow each
 * other in the order of all chunks.
 */
static uint64
merge_skip(GjMerge *merge, uint64 n)
{
	ChunkReader *longest = &merge->readers[merge->losers[0]];
	uint64		left = 0;
	uint64		skipped = 0;
	uint64		most;
	GjPlace		place;

	if (merge->started && longest->nrows > 0)
	{
		/* this row has been returned */
		longest->at++;
		advance(merge, longest);
	}
	for (int i = 0; i < merge->nreaders; i++)
	{
		left += count_left(&merge->readers[i]);
		if (count_left(&merge->readers[i]) > count_left(longest))
			longest = &merge->readers[i];
	}
	most = count_left(longest);
	place = after_all;
	if (n < left)
		place = get_place(merge, longest->rest.end - most +
						  Min((uint64) ((double) n / left * most), most - 1));
	for (int i = 0; i < merge->nreaders; i++)
		skipped += skip_to(merge, &merge->readers[i], &place);
	merge->losers[0] = play(merge, 1);
	merge->started = false;
	return skipped;
}

/* Return the number of rows from the current one on */
static inline uint64
count_left(const ChunkReader *reader)
{
	return reader->nrows - reader->at + reader->rest.end - reader->rest.start;
}

/*
 * Make the first row at or after a place the current one of a reader; returns the number of rows
 * that it has passed over
 */
static uint64
skip_to(GjMerge *merge, ChunkReader *reader, const GjPlace *place)
{
	uint64		before = count_left(reader);
	uint64		low = reader->rest.end - before;
	uint64		high = reader->rest.end;

	while (low < high)
	{
		uint64		middle = low + (high - low) / 2;
		GjPlace		here = get_place(merge, middle);

		if (GjPlaceIsBefore(&here, place))
			low = middle + 1;
		else
			high = middle;
	}
	reader->rest.start = low;
	reader->at = reader->nrows = 0;
	advance(merge, reader);
	return before - count_left(reader);
}

/* Return the place of a row of the file */
static GjPlace
get_place(GjMerge *merge, uint64 row)
{
	char		copy[GJ_MAX_ROW_WIDTH];
	ItemPointerData tid;
	GjPlace		place;

	read_rows(merge, row, 1, copy);
	place.key = GjRowGetKey(&merge->info, copy, &tid);
	place.tid = GjPackTid(&tid);
	return place;
}

/*
 * Free everything except the file
 */
static void
merge_end(GjMerge *merge)
{
	for (int i = 0; i < merge->nreaders; i++)
		pfree(merge->readers[i].buffer);
	pfree(merge->readers);
	pfree(merge->losers);
	pfree(merge);
}

/*
 * Play the subtree below a node; returns the winner.  Reader i is node nreaders + i.
 */
static int
play(GjMerge *merge, int node)
{
	int			left;
	int			right;
	bool		right_wins;

	if (node >= merge->nreaders)
		return node - merge->nreaders;
	left = play(merge, 2 * node);
	right = play(merge, 2 * node + 1);
	right_wins = GjPlaceIsBefore(&merge->readers[right].place, &merge->readers[left].place);
	merge->losers[node] = right_wins ? left : right;
	return right_wins ? right : left;
}

/*
 * Set a reader's current row, after filling the buffer if it is at its end
 */
static void
advance(GjMerge *merge, ChunkReader *reader)
{
	ItemPointerData tid;

	if (reader->at == reader->nrows)
		fill_buffer(merge, reader);
	if (reader->nrows == 0)
	{
		reader->place = after_all;
		return;
	}
	reader->place.key = GjRowGetKey(&merge->info,
									reader->buffer + reader->at * merge->info.row_width, &tid);
	reader->place.tid = GjPackTid(&tid);
}

static void
fill_buffer(GjMerge *merge, ChunkReader *reader)
{
	uint64		n = Min(reader->rest.end - reader->rest.start, merge->buffer_rows);

	CHECK_FOR_INTERRUPTS();
	if (n > 0)
		read_rows(merge, reader->rest.start, n, reader->buffer);
	reader->at = 0;
	reader->nrows = n;
	reader->rest.start += n;
}

static void
read_rows(GjMerge *merge, uint64 first, uint64 n, char *rows)
{
	Size		bytes = n * merge->info.row_width;
	off_t		offset = (off_t) (first * merge->info.row_width);

	/* the file has segments; an offset after the first one is in a later segment */
	if (BufFileSeek(merge->file, 0, offset, SEEK_SET) != 0 ||
		BufFileRead(merge->file, rows, bytes) != bytes)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read a temporary file of sorted index entries")));
}

/*-------------------------------------------------------------------------
 * Rows of many columns
 *
 * Copy all rows of a data page from its columns.
 *
 * A fold takes each row out of a delta's page.  Row by row, each value costs a call, a switch and a
 * bit; column by column, a loop copies the values.
 *-------------------------------------------------------------------------
 */

/*
 * Form rows from a data page's entries, stored consecutively; returns their number
 */
static int
get_rows(Page page, const GjIndexInfo *info, char *rows)
{
	uint16		slots[GJ_MAX_SLOTS];
	int			n = GjDataListUsed(page, info, slots);
	int			null_bytes = info->row_width - info->row_nulls_offset;

	if (n == 0)
		return 0;
	to_rows(rows, info, 0, GjDataKeys(page, info), info->key_width, slots, n);
	to_rows(rows, info, info->key_width, (char *) GjDataTids(page, info),
			sizeof(ItemPointerData), slots, n);
	for (int i = 0; null_bytes > 0 && i < n; i++)
		memset(rows + i * info->row_width + info->row_nulls_offset, 0, null_bytes);
	for (int column = 0; column < info->nincluded; column++)
	{
		const GjIncludedColumn *included = &info->included[column];
		const uint32 *nulls = GjDataNulls(page, included);
		uint32		any = 0;

		to_rows(rows, info, included->row_offset, GjDataValues(page, included),
				included->width, slots, n);
		for (int word = 0; word < GjDataWords(page, info); word++)
			any |= nulls[word];
		for (int i = 0; any != 0 && i < n; i++)
		{
			if (nulls[slots[i] / GJ_SLOTS_PER_WORD] & GjSlotBit(slots[i]))
				rows[i * info->row_width + info->row_nulls_offset + column / 8] |=
					1 << (column % 8);
		}
	}
	return n;
}

/* Copy a constant size, so that each copy is a load and a store */
#define COPY_TO_ROWS(size) \
	for (int i = 0; i < n; i++) \
		memcpy(rows + i * row_width + offset, values + slots[i] * (size), (size))

static void
to_rows(char *rows, const GjIndexInfo *info, int offset, const char *values, int width,
		const uint16 *slots, int n)
{
	Size		row_width = info->row_width;

	switch (width)
	{
		case 1:
			COPY_TO_ROWS(1);
			break;
		case 2:
			COPY_TO_ROWS(2);
			break;
		case 4:
			COPY_TO_ROWS(4);
			break;
		case sizeof(ItemPointerData):
			COPY_TO_ROWS(sizeof(ItemPointerData));
			break;
		default:
			COPY_TO_ROWS(8);
			break;
	}
}
