/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  Rows of one table from the entries of its index, without reading the heap.
 *
 * The entries of a match are tested a chunk at a time, when the next rows are requested.  Entries
 * whose heap block is all-visible are returned as rows: match/visible.c has the proof.  The TIDs of
 * the others are collected, and fetched by the caller (heap.c).  Before that test, entries that do
 * not pass the filter are dropped; after it, those whose key the look-up does not find.
 *
 * The phases, as a caller sees them:
 *
 *	OFF			GjIndexOnlyStart() begins a match
 *	ENTRIES		GjIndexOnlyLoad() returns rows, until it returns false; then
 *				GjIndexOnlyRest() returns the TIDs to be fetched
 *	REST		GjIndexOnlyContinue() goes back to ENTRIES: the TIDs took too much memory to
 *				process all entries
 *	LAST_REST	GjIndexOnlyContinue() returns false
 *
 * GjIndexOnlyRestart() goes back to the first entry from each phase but OFF, and
 * GjIndexOnlyReset() ends the match in each.  No pin or lock is held between calls.
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

/* The phases: see the head of this file */
typedef enum Phase
{
	PHASE_OFF,
	PHASE_ENTRIES,
	PHASE_REST,
	PHASE_LAST_REST
} Phase;

/* Entries whose visibility is tested together */
#define CHUNK_ENTRIES			1024

struct GjIndexOnly
{
	GjRowBatch	batch;			/* must be first */
	uint16		rows[CHUNK_ENTRIES];	/* of the batch */

	Relation	heap;
	Relation	index;
	Snapshot	snapshot;
	List	   *fills;			/* fills that read the current entries */
	const GjEntryTest *test;	/* drops entries; or NULL */
	GjRowLookup lookup;			/* drops rows whose key it does not find; or NULL */
	void	   *lookup_arg;
	void	  **partners;		/* of the batch; NULL until keys are looked up */

	/* The current match */
	MemoryContext context;		/* for the map and the TIDs; NULL if no match has been started */
	Phase		phase;
	Size		limit;
	GjMatchStats *match_stats;
	GjEntryStream *stream;
	const GjEntrySet *entries;	/* last set that the stream returned, or NULL */
	uint64		position;		/* first entry after the last chunk */
	GjVisibleMap *map;			/* copy of the parts read since the entries were found */
	uint64		nproved;		/* number of reads of the map that the epoch has proved */
	bool		certain;		/* true until the epoch moves */
	GjTidSet   *rest;			/* TIDs to be fetched, or NULL if there are no such TIDs yet */
	uint64		nrest;			/* number of TIDs added to rest, duplicates included */
	GjIndexOnlyStats stats;
};

/* Copies of the visibility map may use 1 / MAP_PART of the memory */
#define MAP_PART				2

/* Memory for a TID in a set that grows and is sorted */
#define REST_TID_BYTES			(4 * sizeof(uint64))

static bool has_room(const GjIndexOnly *io);
static bool load_entries(GjIndexOnly *io);
static void find_partners(GjIndexOnly *io);
static void forget_rest(GjIndexOnly *io);
static void load_chunk(GjIndexOnly *io);
static int	drop_filtered(GjIndexOnly *io, int n, uint16 *places, uint64 *tids);
static bool is_proved(GjIndexOnly *io);

/*
 * Prepare for a node.  The filter, which may be NULL, drops entries.  It may be reset before each
 * start and restart, and its columns must be requested with the entries.
 */
GjIndexOnly *
GjIndexOnlyCreate(const ScanState *node, Relation index, GjEntryFilter *filter)
{
	EState	   *estate = node->ps.state;
	GjIndexOnly *io = MemoryContextAllocZero(estate->es_query_cxt, sizeof(GjIndexOnly));

	io->heap = node->ss_currentRelation;
	io->index = index;
	io->snapshot = estate->es_snapshot;
	io->test = GjEntryFilterGetTest(filter);
	io->batch.rows = io->rows;
	return io;
}

/*
 * Have a fill read the current entries.  Must be called in the query's memory context.
 */
void
GjIndexOnlyFeed(GjIndexOnly *io, GjFill *fill)
{
	io->fills = lappend(io->fills, fill);
}

/*
 * Begin a match.  Returns the TIDs to be fetched if the answer is TIDs, or NULL if it is entries.
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
	io->phase = PHASE_ENTRIES;
	io->map = GjVisibleMapCreate(io->context, io->heap, request->limit / MAP_PART);
	return NULL;
}

bool
GjIndexOnlyIsStarted(const GjIndexOnly *io)
{
	return io != NULL && io->phase != PHASE_OFF;
}

/*
 * Return all rows, also in a rescan.  No row of a shared match may have been returned.
 *
 * If lookup is not NULL, the keys of rows are looked up, which needs the key among the columns of
 * the entries, and only rows whose key is found are returned.
 */
void
GjIndexOnlyRestart(GjIndexOnly *io, GjRowLookup lookup, void *arg)
{
	Assert(io->phase != PHASE_OFF);
	io->lookup = lookup;
	io->lookup_arg = arg;
	if (lookup != NULL && io->partners == NULL)
		io->partners = MemoryContextAlloc(GetMemoryChunkContext(io),
										  CHUNK_ENTRIES * sizeof(void *));
	io->batch.partners = lookup != NULL ? io->partners : NULL;
	(void) GjEntriesRestart(io->stream);
	forget_rest(io);
	GjVisibleMapForget(io->map);
	io->certain = true;			/* a new search has read the epoch again */
	io->entries = NULL;
	io->position = 0;
	io->batch.nrows = 0;
	io->batch.next = 0;
}

/*
 * Load the next rows into the batch.  Returns false if the remaining rows have to be fetched, or if
 * no match has been started.
 *
 * by_row: the entries will be used row by row, so prefetch them.  Consumers of columns read one
 * array after the other, which the hardware prefetches.
 */
bool
GjIndexOnlyLoad(GjIndexOnly *io, bool by_row)
{
	GjRowBatch *batch = &io->batch;

	batch->nrows = batch->next = 0;
	while (batch->nrows == 0)
	{
		CHECK_FOR_INTERRUPTS();
		if (io->phase != PHASE_ENTRIES)
			return false;
		if (io->nrest > 0 && !has_room(io))
			io->phase = PHASE_REST;
		else if (io->entries != NULL && io->position < io->entries->nentries)
		{
			load_chunk(io);
			if (io->lookup != NULL && batch->nrows > 0)
				find_partners(io);
		}
		else if (!load_entries(io))
			io->phase = PHASE_LAST_REST;
	}
	if (by_row)
		GjEntrySetPrefetch(io->entries, batch->first, io->position - batch->first);
	return true;
}

/*
 * Return true if the TIDs of another chunk fit in memory.  The set must remain exact, because other
 * rows of a block may have been returned from entries, or be fetched by another process.
 */
static bool
has_room(const GjIndexOnly *io)
{
	return (io->nrest + CHUNK_ENTRIES) * REST_TID_BYTES <= io->limit;
}

/*
 * Get the next set of entries (step 2, continued).  Returns false at the end.
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
	if (found == GJ_FOUND_ENTRIES)
		GjVisibleMapForget(io->map);
	io->batch.entries = io->entries;
	foreach(lc, io->fills)
		GjFillSource(lfirst(lc), io->entries);
	return true;
}

/*
 * Look up the keys of the batch, and keep the rows whose key is found
 */
static void
find_partners(GjIndexOnly *io)
{
	GjRowBatch *batch = &io->batch;
	int64		codes[CHUNK_ENTRIES];
	GjRowKeys	keys = {.n = batch->nrows,.codes = codes};
	const GjEntryColumn *column = &io->entries->keys;

	if (column->width == sizeof(int32))
	{
		const int32 *values = (const int32 *) column->values + batch->first;

		for (int i = 0; i < batch->nrows; i++)
			codes[i] = values[io->rows[i]];
	}
	else
		GjGather(codes, (const int64 *) column->values + batch->first, sizeof(int64), io->rows,
				 batch->nrows);
	batch->nrows = io->lookup(io->lookup_arg, &keys, io->rows, io->partners);
}

/*
 * Return the TIDs to be fetched, finished.  Call it after GjIndexOnlyLoad() has returned false.
 */
GjTidSet *
GjIndexOnlyRest(GjIndexOnly *io)
{
	Assert(io->phase == PHASE_REST || io->phase == PHASE_LAST_REST);
	if (io->rest == NULL)
		io->rest = GjTidSetCreate(io->context, io->limit);
	GjTidSetFinish(io->rest);
	io->stats.heap_fetches += GjTidSetCount(io->rest);
	return io->rest;
}

/*
 * Continue with entries after the TIDs have been fetched, and free these.  Returns false if no
 * entry is left.
 */
bool
GjIndexOnlyContinue(GjIndexOnly *io)
{
	Assert(io->phase == PHASE_REST || io->phase == PHASE_LAST_REST);
	if (io->phase == PHASE_LAST_REST)
		return false;
	forget_rest(io);
	return true;
}

/*
 * Free the TIDs, and go back to the entries
 */
static void
forget_rest(GjIndexOnly *io)
{
	if (io->rest != NULL)
		GjTidSetFree(io->rest);
	io->rest = NULL;
	io->nrest = 0;
	io->phase = PHASE_ENTRIES;
}

/*
 * End the match, if one has been started, and free its results
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
	io->phase = PHASE_OFF;
	io->position = 0;
	io->batch.nrows = 0;
	io->batch.next = 0;
}

/*
 * Return the counters, which cover all matches
 */
GjIndexOnlyStats *
GjIndexOnlyGetStats(GjIndexOnly *io)
{
	return &io->stats;
}

/*
 * Select those of the next entries that are rows (steps 3 and 4)
 */
static void
load_chunk(GjIndexOnly *io)
{
	GjRowBatch *batch = &io->batch;
	const uint64 *tids = io->entries->tids + io->position;
	uint64		passing[CHUNK_ENTRIES];
	uint64		rest[CHUNK_ENTRIES];
	uint16		places[CHUNK_ENTRIES];
	int			nrest = 0;
	int			n = (int) Min(io->entries->nentries - io->position, CHUNK_ENTRIES);

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
		GjVisibleMapForget(io->map);	/* a new copy shows more wrong results */
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
 * List those of a chunk's n entries that pass the filter: their positions in the chunk, and their
 * TIDs.  Returns their number.
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
 * Return true if the epoch, read after the map, proves that the map's bits were right (step 4)
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
