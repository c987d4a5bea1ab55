/*-------------------------------------------------------------------------
 *
 * indexonly.c
 *	  Rows of one table answered from index entries: a match, chunk by chunk.
 *
 * Each chunk of entries is tested when it is wanted: those that are rows, without a look
 * at the heap, are delivered, the TIDs of all others are kept for the heap.
 * match/visible.c does the test, and has the proof.  Before it, those that do not pass the
 * filter are dropped (match/stream.c).
 *
 * Nothing is held between calls: no pin, no lock.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/gpujoin.h"
#include "match/match.h"
#include "rows/rows.h"
#include "indexonly.h"

/* What comes next */
typedef enum GjIndexOnlyPhase
{
	GJ_INDEX_ONLY_OFF,			/* nothing: no match has been started */
	GJ_INDEX_ONLY_ENTRIES,		/* entries */
	GJ_INDEX_ONLY_REST,			/* the rest, and entries again when it has been fetched */
	GJ_INDEX_ONLY_LAST_REST		/* the rest, and then nothing */
} GjIndexOnlyPhase;

struct GjIndexOnly
{
	GjRowBatch	batch;			/* must be first */
	uint16		rows[GJ_CHUNK_ENTRIES]; /* of the batch */

	Relation	heap;
	Relation	index;
	Snapshot	snapshot;
	List	   *fills;			/* of the slots that entries are put into */
	const GjEntryTest *test;	/* what entries have to pass; NULL: nothing */

	/* The current match */
	MemoryContext context;		/* for the map and the rest; NULL if no match has been started */
	GjIndexOnlyPhase phase;
	Size		limit;
	GjMatchStats *match_stats;
	GjEntryStream *stream;
	const GjEntrySet *entries;	/* returned by the stream last, or NULL */
	uint64		position;		/* in it, behind the last chunk */
	GjVisibleMap *map;			/* what has been read of it since the entries were found */
	uint64		nproved;		/* reads of it behind which the epoch has been read, too */
	bool		certain;		/* the epoch has not moved yet */
	GjTidSet   *rest;			/* TIDs for the heap; NULL: none so far */
	uint64		nrest;			/* in it: not yet distinct */
	GjIndexOnlyStats stats;
};

/* Copies of the visibility map may take this part of the memory */
#define MAP_PART				2

/* What a TID takes in a set, growing and being put in order */
#define REST_TID_BYTES			(4 * sizeof(uint64))

static bool has_room(const GjIndexOnly *io);
static bool load_entries(GjIndexOnly *io);
static void forget_rest(GjIndexOnly *io);
static void load_chunk(GjIndexOnly *io);
static int	drop_filtered(GjIndexOnly *io, int n, uint16 *places, uint64 *tids);
static bool is_proved(GjIndexOnly *io);

/*
 * Prepare answering for a node
 */
GjIndexOnly *
GjIndexOnlyCreate(const ScanState *node, Relation index)
{
	EState	   *estate = node->ps.state;
	GjIndexOnly *io = MemoryContextAllocZero(estate->es_query_cxt, sizeof(GjIndexOnly));

	io->heap = node->ss_currentRelation;
	io->index = index;
	io->snapshot = estate->es_snapshot;
	io->batch.rows = io->rows;
	return io;
}

/*
 * Drop entries that do not pass.  The filter may be reset before each start and restart of the
 * answer, which must be asked for the filter's columns, too.
 */
void
GjIndexOnlyFilter(GjIndexOnly *io, GjEntryFilter *filter)
{
	io->test = GjEntryFilterGetTest(filter);
}

/*
 * Entries will be put into slots by this fill: keep it to the set that is delivered.
 * Called in the memory context of the query.
 */
void
GjIndexOnlyFeed(GjIndexOnly *io, GjFill *fill)
{
	io->fills = lappend(io->fills, fill);
}

/*
 * May a match of now be answered from entries?
 */
bool
GjIndexOnlyIsPossible(const GjIndexOnly *io)
{
	return GjEntriesMayBeRows(io->snapshot);
}

/*
 * Begin a match.  Returns the TIDs to be fetched, if that is the answer; otherwise NULL: the rows
 * come from here.
 */
GjTidSet *
GjIndexOnlyStart(GjIndexOnly *io, const GjEntryRequest *request)
{
	GjTidSet   *tids;

	GjIndexOnlyReset(io);
	io->stream = GjEntriesOpen(request, &tids);
	if (io->stream == NULL)
		return tids;
	io->context = AllocSetContextCreate(request->parent, "gpujoin index-only",
										ALLOCSET_DEFAULT_SIZES);
	io->limit = request->limit;
	io->match_stats = request->stats;
	io->certain = true;
	io->nproved = 0;
	io->phase = GJ_INDEX_ONLY_ENTRIES;
	io->map = GjVisibleMapCreate(io->context, io->heap, request->limit / MAP_PART);
	return NULL;
}

bool
GjIndexOnlyIsStarted(const GjIndexOnly *io)
{
	return io != NULL && io->phase != GJ_INDEX_ONLY_OFF;
}

/*
 * Rescan: return the same rows again.  A shared match must not have been begun with.
 */
void
GjIndexOnlyRestart(GjIndexOnly *io)
{
	(void) GjEntriesRestart(io->stream);
	forget_rest(io);
	GjVisibleMapForget(io->map);
	io->entries = NULL;
	io->position = 0;
	io->batch.nrows = 0;
	io->batch.next = 0;
}

/*
 * Make the next rows ready; false if there are no more, or nothing has been started
 */
bool
GjIndexOnlyLoad(GjIndexOnly *io)
{
	io->batch.nrows = io->batch.next = 0;
	while (io->batch.nrows == 0)
	{
		CHECK_FOR_INTERRUPTS();
		if (io->phase != GJ_INDEX_ONLY_ENTRIES)
			return false;
		if (io->nrest > 0 && !has_room(io))
			io->phase = GJ_INDEX_ONLY_REST;
		else if (io->entries != NULL && io->position < io->entries->nentries)
			load_chunk(io);
		else if (!load_entries(io))
			io->phase = GJ_INDEX_ONLY_LAST_REST;
	}
	return true;
}

/*
 * The same for who goes from row to row
 */
bool
GjIndexOnlyLoadRows(GjIndexOnly *io)
{
	if (!GjIndexOnlyLoad(io))
		return false;
	GjIndexOnlyPrefetch(io);
	return true;
}

/*
 * Have what is ready on its way from memory, for who goes from row to row.  Who goes from column
 * to column reads one array after the other, which processors foresee.
 */
void
GjIndexOnlyPrefetch(const GjIndexOnly *io)
{
	GjEntrySetPrefetch(io->entries, io->batch.first, io->position - io->batch.first);
}

/*
 * Does another chunk fit into the rest?  It must remain exact, as other rows of a block may
 * have been answered from entries, or be in the rest of another process.
 */
static bool
has_room(const GjIndexOnly *io)
{
	return (io->nrest + GJ_CHUNK_ENTRIES) * REST_TID_BYTES <= io->limit;
}

/*
 * Get the next entries (step 2, continued); false if there are no more
 */
static bool
load_entries(GjIndexOnly *io)
{
	GjFound		found = GjEntriesNext(io->stream, &io->entries);
	ListCell   *lc;

	io->position = 0;
	if (found == GJ_FOUND_END)
	{
		io->entries = NULL;
		return false;
	}
	io->batch.entries = io->entries;
	if (found == GJ_FOUND_ENTRIES)
		GjVisibleMapForget(io->map);
	foreach(lc, io->fills)
		GjFillSource(lfirst(lc), io->entries);
	return true;
}

/*
 * Get the keys of the rows that are ready, all of them
 */
void
GjIndexOnlyKeys(const GjIndexOnly *io, int64 *out)
{
	const GjRowBatch *batch = &io->batch;
	const GjEntryColumn *keys = &io->entries->keys;

	if (keys->width == sizeof(int32))
	{
		const int32 *values = (const int32 *) keys->values + batch->first;

		for (int i = 0; i < batch->nrows; i++)
			out[i] = values[batch->rows[i]];
	}
	else
	{
		const int64 *values = (const int64 *) keys->values + batch->first;

		for (int i = 0; i < batch->nrows; i++)
			out[i] = values[batch->rows[i]];
	}
}

/*
 * Get the TIDs for which the heap must be asked, finished, once GjIndexOnlyNext() has said
 * false.  When they have been fetched, there may be more entries: GjIndexOnlyContinue().
 */
GjTidSet *
GjIndexOnlyRest(GjIndexOnly *io)
{
	if (io->rest == NULL)
		io->rest = GjTidSetCreate(io->context, io->limit);
	GjTidSetFinish(io->rest);
	io->stats.heap_fetches += GjTidSetCount(io->rest);
	return io->rest;
}

/*
 * Go on with entries, and forget the TIDs; false if there are no more
 */
bool
GjIndexOnlyContinue(GjIndexOnly *io)
{
	if (io->phase == GJ_INDEX_ONLY_LAST_REST)
		return false;
	forget_rest(io);
	return true;
}

/*
 * Go back to entries
 */
static void
forget_rest(GjIndexOnly *io)
{
	if (io->rest != NULL)
		GjTidSetFree(io->rest);
	io->rest = NULL;
	io->nrest = 0;
	io->phase = GJ_INDEX_ONLY_ENTRIES;
}

/*
 * Forget the match
 */
void
GjIndexOnlyReset(GjIndexOnly *io)
{
	if (io->stream != NULL)
		GjEntriesClose(io->stream);
	if (io->context != NULL)
		MemoryContextDelete(io->context);
	io->stream = NULL;
	io->context = NULL;
	io->entries = NULL;
	io->rest = NULL;
	io->map = NULL;
	io->nrest = 0;
	io->phase = GJ_INDEX_ONLY_OFF;
	io->position = 0;
	io->batch.nrows = 0;
	io->batch.next = 0;
}

/*
 * Counters, summed up over all starts
 */
GjIndexOnlyStats *
GjIndexOnlyGetStats(GjIndexOnly *io)
{
	return &io->stats;
}

/*
 * Steps 3 and 4: find out which of the next entries are rows
 */
static void
load_chunk(GjIndexOnly *io)
{
	GjRowBatch *batch = &io->batch;
	const uint64 *tids = io->entries->tids + io->position;
	uint64		passing[GJ_CHUNK_ENTRIES];
	uint64		rest[GJ_CHUNK_ENTRIES];
	uint16		places[GJ_CHUNK_ENTRIES];
	int			nrest = 0;
	int			n = (int) Min(io->entries->nentries - io->position, GJ_CHUNK_ENTRIES);

	batch->first = io->position;
	batch->nrows = 0;
	batch->next = 0;
	io->position += n;
	if (io->test != NULL)
	{
		n = drop_filtered(io, n, places, passing);
		tids = passing;
	}
	if (gj_debug_ignore_vacuum_epoch)
		GjVisibleMapForget(io->map);	/* read anew, it shows more of what would be wrong */
	if (io->certain)
	{
		int			nrows = GjVisibleMapSort(io->map, tids, n, io->entries->highest, batch->rows,
											 rest, &nrest);

		if (nrows > 0 && !is_proved(io))
			io->certain = false;
		else
			batch->nrows = nrows;
	}
	for (int i = 0; io->test != NULL && i < batch->nrows; i++)
		batch->rows[i] = places[batch->rows[i]];

	io->stats.rows += batch->nrows;
	if (batch->nrows == n)
		return;
	if (io->rest == NULL)
		io->rest = GjTidSetCreate(io->context, SIZE_MAX);
	io->nrest += io->certain ? nrest : n;
	if (!(io->certain ? GjTidSetAddPacked(io->rest, rest, nrest) :
		  GjTidSetAddPacked(io->rest, tids, n)))
		elog(ERROR, "an entry of index \"%s\" has an impossible TID",
			 RelationGetRelationName(io->index));
}

/*
 * Find out which of a chunk's n entries pass the filter: their places in the chunk, and their
 * TIDs
 */
static int
drop_filtered(GjIndexOnly *io, int n, uint16 *places, uint64 *tids)
{
	uint64		first = io->batch.first;
	int			npassed = GjEntryTestRun(io->test, io->entries, first, n, places);

	for (int i = 0; i < npassed; i++)
		tids[i] = io->entries->tids[first + places[i]];
	io->match_stats->filtered += n - npassed;
	return npassed;
}

/*
 * Step 4: is what the map says proved by the epoch, read behind it?
 */
static bool
is_proved(GjIndexOnly *io)
{
	uint64		nreads = GjVisibleMapReads(io->map);

	if (io->nproved != nreads && !GjEntriesAreCurrent(io->stream))
		return false;
	io->nproved = nreads;
	return true;
}
