/*-------------------------------------------------------------------------
 *
 * merge.c
 *	  Merging chunks of sorted rows, read from a temporary file.
 *
 * The readers play a tournament: a row costs one comparison at each level of its tree.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "base/tid.h"
#include "sortparts.h"

/* Rows are read through buffers of this size, less if memory is short */
#define READ_BUFFER				((Size) 64 * 1024)
#define SMALLEST_READ_BUFFER	((Size) 8 * 1024)

/* A merge takes so many chunks at least, whatever the memory */
#define MIN_MERGE_ORDER			8

/* Beyond all rows: no TID is as large */
static const GjPlace after_all = {PG_INT64_MAX, PG_UINT64_MAX};

typedef struct ChunkReader
{
	GjPlace		place;			/* of the row at hand; after_all when there is none left */
	char	   *buffer;
	uint64		nrows;			/* in the buffer; 0: the chunk is at its end */
	uint64		at;				/* the row at hand */
	GjChunk		rest;			/* what is still in the file */
} ChunkReader;

struct GjMerge
{
	GjIndexInfo info;
	BufFile    *file;
	uint64		buffer_rows;
	ChunkReader *readers;
	int			nreaders;
	int		   *losers;			/* who lost at a node; losers[0] has won */
	bool		started;		/* the winner's row has been handed out */
};

static int	play(GjMerge *merge, int node);
static void advance(GjMerge *merge, ChunkReader *reader);
static void fill_buffer(GjMerge *merge, ChunkReader *reader);

/*
 * How many chunks can be merged at once with so much memory?
 */
int
GjMergeOrder(Size memory)
{
	return (int) Min(Max(memory / SMALLEST_READ_BUFFER, MIN_MERGE_ORDER), (Size) 1 << 16);
}

/*
 * Begin to merge chunks, one at least
 */
GjMerge *
GjMergeBegin(const GjIndexInfo *info, BufFile *file, const GjChunk *chunks, int nchunks,
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

static inline bool
precedes(const GjPlace *a, const GjPlace *b)
{
	return a->key < b->key || (a->key == b->key && a->tid < b->tid);
}

/*
 * Get the next row, which is good until the next call; NULL when there are no more
 */
const char *
GjMergeNext(GjMerge *merge)
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

			if (precedes(&merge->readers[other].place, &merge->readers[winner].place))
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
 * Free all that the merge has, but for the file
 */
void
GjMergeEnd(GjMerge *merge)
{
	for (int i = 0; i < merge->nreaders; i++)
		pfree(merge->readers[i].buffer);
	pfree(merge->readers);
	pfree(merge->losers);
	pfree(merge);
}

/*
 * Let the readers below a node play; returns the winner.  Reader i is node nreaders + i.
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
	right_wins = precedes(&merge->readers[right].place, &merge->readers[left].place);
	merge->losers[node] = right_wins ? left : right;
	return right_wins ? right : left;
}

/*
 * See which row a reader has at hand, after a look into the file if the buffer is at its end
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
	Size		bytes = n * merge->info.row_width;
	off_t		offset = (off_t) (reader->rest.start * merge->info.row_width);

	CHECK_FOR_INTERRUPTS();
	reader->at = 0;
	reader->nrows = n;
	reader->rest.start += n;
	if (n == 0)
		return;

	/* the file has segments; an offset behind the first is one in a later segment */
	if (BufFileSeek(merge->file, 0, offset, SEEK_SET) != 0 ||
		BufFileRead(merge->file, reader->buffer, bytes) != bytes)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read a temporary file of sorted index entries")));
}
