/*-------------------------------------------------------------------------
 *
 * readahead.c
 *	  Having the chosen pages that come next on their way from disk.
 *
 * For an index in memory that would cost a lookup a page for nothing, and what base/buffers.c
 * saves.  So it begins once a page has not been there.
 *
 * Where the server has read streams, one reads the rest of the chosen pages: neighbours together,
 * from 18 on while others are matched.  If one was needed, so will be one for the pages that are
 * chosen next, until such a stream has read nothing.  A stream pins pages ahead; all are taken from
 * it, unless the search begins anew.
 *
 * Where it has none, the operating system is asked for the pages that follow, unless they are
 * neighbours, which its own read-ahead serves.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "storage/bufmgr.h"

#include "base/compat.h"
#include "search.h"

#ifdef GJ_HAVE_READ_STREAMS

static void begin_stream(GjSearch *search, int from);
static BlockNumber next_chosen(ReadStream *stream, void *arg, void *buffer_data);

/*
 * Take a chosen page from the stream; InvalidBuffer if there is none
 */
Buffer
GjReadAheadTake(GjSearch *search, int i)
{
	Buffer		buffer;

	if (i == 0 && search->was_cold)
		begin_stream(search, 0);
	if (search->stream == NULL)
		return InvalidBuffer;
	buffer = read_stream_next_buffer(search->stream, NULL);
	Assert(BufferGetBlockNumber(buffer) == search->chosen[i].block);
	if (i + 1 == search->nchosen)
	{
		search->was_cold = pgBufferUsage.shared_blks_read != search->nread_before;
		GjReadAheadEnd(search);
	}
	return buffer;
}

/*
 * A page was not in shared buffers: those from here on may not be either
 */
void
GjReadAheadFrom(GjSearch *search, int from)
{
	if (from + 1 < search->nchosen)
		begin_stream(search, from);
}

/*
 * Give up what has been read ahead
 */
void
GjReadAheadEnd(GjSearch *search)
{
	if (search->stream != NULL)
		read_stream_end(search->stream);
	search->stream = NULL;
}

static void
begin_stream(GjSearch *search, int from)
{
	Assert(search->stream == NULL);
	search->nasked = from;
	search->nread_before = pgBufferUsage.shared_blks_read;
	search->stream = read_stream_begin_relation(GJ_READ_STREAM_OF_ALL, search->strategy,
												search->index, MAIN_FORKNUM, next_chosen, search,
												0);
}

static BlockNumber
next_chosen(ReadStream *stream, void *arg, void *buffer_data)
{
	GjSearch   *search = arg;

	return search->nasked < search->nchosen ? search->chosen[search->nasked++].block :
		InvalidBlockNumber;
}

#else

/* So many pages are asked for ahead */
#define AHEAD					32

Buffer
GjReadAheadTake(GjSearch *search, int i)
{
	return InvalidBuffer;
}

void
GjReadAheadFrom(GjSearch *search, int from)
{
#ifdef USE_PREFETCH
	int			end = Min(from - 1 + AHEAD, search->nchosen);

	if (effective_io_concurrency == 0)
		return;
	from = Max(from, search->nasked);
	for (int i = from; i < end; i++)
	{
		if (search->chosen[i].block != search->chosen[i - 1].block + 1)
			(void) PrefetchBuffer(search->index, MAIN_FORKNUM, search->chosen[i].block);
	}
	search->nasked = Max(end, from);
#endif
}

void
GjReadAheadEnd(GjSearch *search)
{
}

#endif							/* GJ_HAVE_READ_STREAMS */
