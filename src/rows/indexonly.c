/*-------------------------------------------------------------------------
 *
 * indexonly.c
 *	  Rows of one table answered from index entries: a match, chunk by chunk.
 *
 * A chunk of entries is tested when its rows are requested: entries that are rows, without a visit
 * to the heap, are returned, and the TIDs of all others are collected for the heap.
 * match/visible.c has the test and its proof.  Entries that do not pass the filter are dropped
 * before (match/stream.c).
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
#include "rows.h"

/* Source of the next rows */
typedef enum GjIndexOnlyPhase
{
	GJ_INDEX_ONLY_OFF,			/* none: no match has been started */
	GJ_INDEX_ONLY_ENTRIES,		/* entries */
	GJ_INDEX_ONLY_REST,			/* the rest, followed by more entries */
	GJ_INDEX_ONLY_LAST_REST		/* the rest, which is the end */
} GjIndexOnlyPhase;

struct GjIndexOnly
{
	GjRowBatch	batch;			/* must be first */
	uint16		rows[GJ_CHUNK_ENTRIES]; /* of the batch */

	Relation	heap;
	Relation	index;
	Snapshot	snapshot;
	List	   *fills;			/* fills of the slots that receive entries */
	const GjEntryTest *test;	/* drops entries, or NULL */

	/* The current match */
	MemoryContext context;		/* for the map and the rest; NULL if no match has been started */
	GjIndexOnlyPhase phase;
	Size		limit;
	GjMatchStats *match_stats;
	GjEntryStream *stream;
	const GjEntrySet *entries;	/* returned by the stream last, or NULL */
	uint64		position;		/* first of them after the last chunk */
	GjVisibleMap *map;			/* pages read since the entries were found */
	uint64		nproved;		/* number of reads of the map after which the epoch was read, too */
	bool		certain;		/* true until the epoch has moved */
	GjTidSet   *rest;			/* TIDs for the heap, or NULL */
	uint64		nrest;			/* number of TIDs in it, including duplicates */
	GjIndexOnlyStats stats;
};

/* Copies of the visibility map may take this part of the memory */
#define MAP_PART				2

/* Memory of a TID in a set, while the set grows and is sorted */
#define REST_TID_BYTES			(4 * sizeof(uint64))

static bool has_room(const GjIndexOnly *io);
static bool load_entries(GjIndexOnly *io);
static void forget_rest(GjIndexOnly *io);
static void load_chunk(GjIndexOnly *io);
static int	drop_filtered(GjIndexOnly *io, int n, uint16 *places, uint64 *tids);
static bool is_proved(GjIndexOnly *io);

/*
 * Prepare index-only answers for a node
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
 * Drop entries that do not pass a filter.  It may be reset before each start and restart; the
 * request must include the filter's columns.
 */
void
GjIndexOnlyFilter(GjIndexOnly *io, GjEntryFilter *filter)
{
	io->test = GjEntryFilterGetTest(filter);
}

/*
 * Point a fill to each set of entries that is returned.  To be called in the memory context of the
 * query.
 */
void
GjIndexOnlyFeed(GjIndexOnly *io, GjFill *fill)
{
	io->fills = lappend(io->fills, fill);
}

/*
 * Return true if rows may be answered from entries under the snapshot
 */
bool
GjIndexOnlyIsPossible(const GjIndexOnly *io)
{
	return GjEntriesMayBeRows(io->snapshot);
}

/*
 * Begin a match.  Returns the TIDs to be fetched if the answer is TIDs; nothing is started then.
 * Otherwise returns NULL.
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

/*
 * Return true if a match has been started
 */
bool
GjIndexOnlyIsStarted(const GjIndexOnly *io)
{
	return io != NULL && io->phase != GJ_INDEX_ONLY_OFF;
}

/*
 * Rescan: return the same rows again.  In a shared match, no row may have been returned yet.
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
 * Load the next rows.  Returns false after the last one, or if no match has been started.
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
 * Do the same for a caller that processes row by row
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
 * Prefetch the rows that are ready, for a caller that processes row by row.  A caller that
 * processes column by column reads arrays in order, which processors prefetch themselves.
 */
void
GjIndexOnlyPrefetch(const GjIndexOnly *io)
{
	GjEntrySetPrefetch(io->entries, io->batch.first, io->position - io->batch.first);
}

/*
 * Return true if the TIDs of another chunk fit into the rest.  It must remain exact, as other rows
 * of a block may have been answered from entries, or be in the rest of another process.
 */
static bool
has_room(const GjIndexOnly *io)
{
	return (io->nrest + GJ_CHUNK_ENTRIES) * REST_TID_BYTES <= io->limit;
}

/*
 * Get the next entries (step 2, continued); returns false after the last ones
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
 * Store the keys of all rows that are ready
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
 * Return the TIDs that must be fetched from the heap, finished, once GjIndexOnlyNext() has returned
 * false.  After that, more entries may follow: GjIndexOnlyContinue().
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
 * Continue with entries, and forget the TIDs; returns false after the last entry
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
 * Forget the TIDs, and continue with entries
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
 * Return the counters, which are sums over all starts
 */
GjIndexOnlyStats *
GjIndexOnlyGetStats(GjIndexOnly *io)
{
	return &io->stats;
}

/*
 * Find out which of the next entries are rows: steps 3 and 4
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
		GjVisibleMapForget(io->map);	/* more wrong answers appear if it is read again */
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
 * Find the entries of a chunk that pass the filter.  Stores their positions in the chunk and their
 * TIDs, and returns their number.
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
 * Step 4: return true if the epoch had not moved after the map was last read
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
