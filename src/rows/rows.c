/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  The stream of rows of one table: from the entries of its index alone, or from the heap.
 *
 * A match answers with entries or with TIDs.  Entries are tested a chunk at a time, when the next
 * rows are requested.  Entries whose heap block is all-visible are returned as rows:
 * match/visible.c has the proof.  If the code of such an entry is a hash, it does not prove that
 * the key is listed, so the entry is no row (if hashes are listed, entries have their codes); nor
 * is one without a value that is needed, because the index could not store it (base/numeric.c).
 * The TIDs of the others are collected, and fetched (heap.c) after the last entry, or before they
 * take too much memory.  Before that test, entries that do not pass the filter are dropped; after
 * it, those whose key the look-up does not find.
 *
 * The phases:
 *
 *	CLOSED		GjRowsOpen() searches -> READY
 *	READY		GjRowsStart() -> ENTRIES or TIDS, by the answer
 *	ENTRIES		return rows from entries; when the TIDs to be fetched have no more room -> REST;
 *				after the last entry -> LAST_REST, or DONE without such TIDs
 *	REST		fetch these TIDs -> ENTRIES
 *	LAST_REST	fetch these TIDs -> DONE
 *	TIDS		fetch all TIDs of the answer -> DONE
 *	DONE		no rows
 *
 * GjRowsStart() begins with the first row from each phase but CLOSED, GjRowsStop() leads from each
 * phase after READY to DONE, and GjRowsClose() from each to CLOSED.  Between two calls a heap block
 * may be pinned in REST, LAST_REST and TIDS, and nothing in the other phases.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/uuid.h"

#include "base/step.h"
#include "base/tid.h"
#include "match/match.h"
#include "rows.h"

/* The phases: see the head of this file */
typedef enum Phase
{
	PHASE_CLOSED,
	PHASE_READY,
	PHASE_ENTRIES,
	PHASE_REST,
	PHASE_LAST_REST,
	PHASE_TIDS,
	PHASE_DONE
} Phase;

/* Entries whose visibility is tested together */
#define CHUNK_ENTRIES			1024

struct GjRows
{
	GjRowBatch	batch;			/* must be first */
	Phase		phase;
	void	  **partners;		/* of the batch, if it has entries; NULL until keys of entries are
								 * looked up */

	Relation	heap;
	Relation	index;
	List	   *shapes;			/* shapes that read the current entries */
	const GjEntryTest *test;	/* drops entries; or NULL */
	GjRowProbe	probe;
	GjKeyReader *reader;
	const ScanState *node;
	GjFetch    *fetch;			/* NULL until rows are fetched */
	GjRowsStats stats;

	/* The answer: TIDs, */
	GjTidSet   *tids;

	/* or entries */
	GjEntryStream *stream;
	MemoryContext parent;		/* for the map and the rest */
	Size		limit;
	GjMatchStats *match_stats;
	const GjEntrySet *entries;	/* last set that the stream returned, or NULL */
	bool		are_last;		/* no other set follows it */
	uint64		position;		/* first entry after the last chunk */
	GjVisibleMap *map;			/* copy of the parts read since the entries were found */
	uint64		nproved;		/* number of reads of the map that the epoch has proved */
	bool		certain;		/* true until the epoch moves */
	GjTidSet   *rest;			/* TIDs to be fetched, or NULL if there are no such TIDs yet */
	uint64		nrest;			/* number of TIDs added to rest, duplicates included */

	/* INCLUDE columns, from 0, that may lack values */
	int			nlacking;
	uint8		lacking[GJ_MAX_INCLUDED];

	/* Positions of the batch's rows, if it has entries; need not be cleared */
	uint16		positions[CHUNK_ENTRIES];
};

/* Copies of the visibility map may use 1 / MAP_PART of the memory */
#define MAP_PART				2

/* Memory for a TID in a set that grows and is sorted */
#define REST_TID_BYTES			(4 * sizeof(uint64))

static void start_entries(GjRows *rows);
static bool load_rows(GjRows *rows);
static bool rows_has_room(const GjRows *rows);
static bool load_entries(GjRows *rows);
static void find_partners(GjRows *rows);
static void rows_find_with_parts(GjRows *rows, GjRowKeys *keys);
static void fetch_rest(GjRows *rows, Phase phase);
static GjFetch *get_fetch(GjRows *rows);
static void stop_fetch(GjRows *rows);
static void forget_rest(GjRows *rows);
static void load_chunk(GjRows *rows);
static int	drop_filtered(GjRows *rows, int n, uint16 *places, uint64 *tids);
static int	keep_images(GjRows *rows, const uint64 *tids, const uint16 *places, int n, uint64 *rest,
						int *nrest);
static int	keep_present(GjRows *rows, const uint64 *tids, const uint16 *places, int n,
						 uint64 *rest, int *nrest);
static bool is_proved(GjRows *rows);

/*
 * Prepare for a node.  The test, which may be NULL, drops entries.  Its filter may be reset before
 * each open and start, and its columns must be requested with the entries.
 */
GjRows *
GjRowsCreate(const ScanState *node, Relation index, GjKeyReader *reader, const GjEntryTest *test)
{
	EState	   *estate = node->ps.state;
	GjRows	   *rows = MemoryContextAlloc(estate->es_query_cxt, sizeof(GjRows));
	GjIndexInfo info;

	memset(rows, 0, offsetof(GjRows, positions));
	rows->heap = node->ss_currentRelation;
	rows->index = index;
	rows->test = test;
	rows->reader = reader;
	rows->node = node;
	GjIndexGetInfo(index, &info);
	for (int i = 0; i < info.nincluded; i++)
	{
		if (GjKindMayLack(info.included[i].kind))
			rows->lacking[rows->nlacking++] = i;
	}
	return rows;
}

/*
 * Have a shape read the current entries.  Must be called in the query's memory context.
 */
void
GjRowsFeed(GjRows *rows, GjRowShape *shape)
{
	rows->shapes = lappend(rows->shapes, shape);
}

/*
 * Search for keys.  The rows must be closed, and the request's parent must live until they are
 * closed again.
 */
void
GjRowsOpen(GjRows *rows, const GjEntryRequest *request)
{
	Assert(rows->phase == PHASE_CLOSED);
	rows->stream = GjEntriesOpen(request, &rows->tids);
	if (rows->stream != NULL)
	{
		rows->tids = NULL;
		rows->parent = request->parent;
		rows->limit = request->limit;
		rows->match_stats = request->stats;
		rows->nproved = 0;
	}
	rows->phase = PHASE_READY;
}

/*
 * Return the rows of TIDs that the caller has found.  The stream will free them.
 */
void
GjRowsOpenTids(GjRows *rows, GjTidSet *tids)
{
	GjRowsClose(rows);
	rows->tids = tids;
	rows->phase = PHASE_READY;
}

bool
GjRowsIsOpen(const GjRows *rows)
{
	return rows->phase != PHASE_CLOSED;
}

/*
 * Return true if the answer is entries
 */
bool
GjRowsHasEntries(const GjRows *rows)
{
	return rows->stream != NULL;
}

/*
 * Return true if a device has reduced some of the rows, which are not returned
 */
bool
GjRowsAreReduced(const GjRows *rows)
{
	return rows->stream != NULL && GjEntriesAreReduced(rows->stream);
}

/*
 * Begin with the first row, also in a rescan.  No row of a shared match may have been returned.
 *
 * If the keys of entries are looked up, the key must be among their columns, and only rows whose
 * key is found are returned.
 */
void
GjRowsStart(GjRows *rows, const GjRowProbe *probe)
{
	Assert(rows->phase != PHASE_CLOSED);
	rows->probe = *probe;
	if (rows->stream == NULL)
	{
		rows->phase = PHASE_TIDS;
		GjFetchStart(get_fetch(rows), rows->tids, probe);
		return;
	}
	stop_fetch(rows);
	if (rows->phase != PHASE_READY)
		(void) GjEntriesRestart(rows->stream);
	if (probe->entries && rows->partners == NULL)
		rows->partners = MemoryContextAlloc(GetMemoryChunkContext(rows),
											CHUNK_ENTRIES * sizeof(void *));
	rows->certain = true;		/* a new search has an epoch of its own */
	rows->entries = NULL;
	rows->are_last = false;
	rows->position = 0;
	start_entries(rows);
}

/*
 * Go to the next entries
 */
static void
start_entries(GjRows *rows)
{
	GjRowBatch *batch = &rows->batch;

	forget_rest(rows);
	batch->rows = rows->positions;
	batch->partners = rows->probe.entries ? rows->partners : NULL;
	batch->tuples = NULL;
	batch->rechecked = true;
	rows->phase = PHASE_ENTRIES;
}

/*
 * Return the next rows, or NULL at the end or if nothing is open.
 *
 * by_row: entries will be used row by row, so prefetch them.  Consumers of columns read one array
 * after the other, which the hardware prefetches.
 */
GjRowBatch *
GjRowsNext(GjRows *rows, bool by_row)
{
	GjRowBatch *batch = &rows->batch;

	Assert(rows->phase != PHASE_READY);
	batch->nrows = batch->next = 0;
	batch->is_last = false;
	while (!load_rows(rows))
	{
		if (rows->phase == PHASE_CLOSED || rows->phase == PHASE_DONE)
			return NULL;
	}
	if (by_row && batch->tuples == NULL)
		GjEntrySetPrefetch(rows->entries, batch->first, rows->position - batch->first);
	return batch;
}

/*
 * Load the next rows into the batch, or go on.  Returns false if the batch is empty.
 */
static bool
load_rows(GjRows *rows)
{
	CHECK_FOR_INTERRUPTS();
	switch (rows->phase)
	{
		case PHASE_ENTRIES:
			if (rows->nrest > 0 && !rows_has_room(rows))
				fetch_rest(rows, PHASE_REST);
			else if (rows->entries != NULL && rows->position < rows->entries->nentries)
			{
				load_chunk(rows);
				if (rows->batch.partners != NULL && rows->batch.nrows > 0)
					find_partners(rows);
				rows->batch.is_last = rows->are_last && rows->nrest == 0 &&
					rows->position == rows->entries->nentries;
			}
			else if (!rows->are_last && load_entries(rows))
				return false;
			else if (rows->nrest > 0)
				fetch_rest(rows, PHASE_LAST_REST);
			else
				rows->phase = PHASE_DONE;
			return rows->batch.nrows > 0;
		case PHASE_REST:
			if (GjFetchLoad(rows->fetch))
				return true;
			start_entries(rows);
			return false;
		case PHASE_LAST_REST:
		case PHASE_TIDS:
			if (GjFetchLoad(rows->fetch))
				return true;
			rows->phase = PHASE_DONE;
			return false;
		default:
			return false;
	}
}

/*
 * Return true if the TIDs of another chunk fit in memory.  The set must remain exact, because other
 * rows of a block may have been returned from entries, or be fetched by another process.
 */
static bool
rows_has_room(const GjRows *rows)
{
	return (rows->nrest + CHUNK_ENTRIES) * REST_TID_BYTES <= rows->limit;
}

/*
 * Get the next set of entries (step 2, continued).  Returns false at the end.
 */
static bool
load_entries(GjRows *rows)
{
	GjFound		found = GjEntriesNext(rows->stream, &rows->entries);
	ListCell   *lc;

	rows->position = 0;
	if (found == GJ_FOUND_END)
	{
		rows->entries = NULL;
		return false;
	}
	rows->are_last = found == GJ_FOUND_LAST;
	if (rows->map == NULL)
		rows->map = GjVisibleMapCreate(rows->parent, rows->heap, rows->limit / MAP_PART);
	else if (found != GJ_FOUND_EARLIER)
		GjVisibleMapForget(rows->map);
	rows->batch.entries = rows->entries;
	foreach(lc, rows->shapes)
		GjShapeSetSource(lfirst(lc), rows->entries);
	return true;
}

/*
 * Return true if the rows of a batch are entries without gaps, from the batch's first one on
 */
static inline bool
is_whole(const GjRowBatch *batch)
{
	return batch->rows[batch->nrows - 1] == batch->nrows - 1;
}

/*
 * Look up the keys of the batch, and keep the rows whose key is found
 */
static void
find_partners(GjRows *rows)
{
	GjRowBatch *batch = &rows->batch;
	int64		codes[CHUNK_ENTRIES];
	GjRowKeys	keys = {.n = batch->nrows,.codes = codes};
	const GjEntryColumn *column = &rows->entries->keys;

	if (column->width == sizeof(int64) && is_whole(batch))
		keys.codes = (const int64 *) column->values + batch->first;
	else if (column->width == sizeof(int32))
	{
		const int32 *values = (const int32 *) column->values + batch->first;

		for (int i = 0; i < batch->nrows; i++)
			codes[i] = values[rows->positions[i]];
	}
	else
		GjGather(codes, (const int64 *) column->values + batch->first, sizeof(int64),
				 rows->positions, batch->nrows);
	if (rows->reader->nparts > 0)
		rows_find_with_parts(rows, &keys);
	else
		batch->nrows = rows->probe.lookup(rows->probe.arg, &keys, rows->positions,
										  rows->partners);
}

/*
 * Look up the keys and parts of the batch, which are columns of entries
 */
static void
rows_find_with_parts(GjRows *rows, GjRowKeys *keys)
{
	GjRowBatch *batch = &rows->batch;
	int			nparts = rows->reader->nparts;
	Datum	   *values = palloc(keys->n * nparts * (sizeof(Datum) + GJ_WIDE_BYTES));
	char	   *bytes = (char *) (values + keys->n * nparts);
	bool	   *nulls = palloc0(keys->n * sizeof(bool));
	const Datum *arrays[INDEX_MAX_KEYS];

	keys->parts = arrays;
	for (int k = 0; k < nparts; k++)
	{
		int			position = rows->reader->entry_parts[k];
		int			second = rows->reader->entry_seconds[k];
		const GjEntryColumn *included = rows->entries->included;
		const GjEntryColumn *column = position == 0 ? &rows->entries->keys :
			&included[position - 1];
		const char *first = column->values + batch->first * column->width;
		Datum	   *part = values + k * keys->n;

		arrays[k] = part;
		for (int i = 0; i < keys->n && column->has_nulls; i++)
			nulls[i] |= column->nulls[GjRowEntry(batch, i)] != 0;
		if (column->has_nulls)
			keys->nulls = nulls;

		/* the rows lack no text: see keep_present() */
		if (second != 0)
			GjReadWide(rows->reader->entry_kinds[k], first,
					   included[second - 1].values + batch->first * sizeof(int64), keys->n,
					   rows->positions, bytes + k * keys->n * GJ_WIDE_BYTES, part);
		else if (column->width == sizeof(Datum) && is_whole(batch))
			arrays[k] = (const Datum *) first;
		else
		{
			for (int i = 0; i < keys->n; i++)
				part[i] = fetch_att(first + rows->positions[i] * column->width, true,
									column->width);
		}
	}
	batch->nrows = rows->probe.lookup(rows->probe.arg, keys, rows->positions, rows->partners);
	pfree(values);
	pfree(nulls);
}

/*
 * Begin to fetch the TIDs of the rest
 */
static void
fetch_rest(GjRows *rows, Phase phase)
{
	GjTidSetFinish(rows->rest);
	rows->stats.heap_fetches += GjTidSetCount(rows->rest);
	rows->phase = phase;
	GjFetchStart(get_fetch(rows), rows->rest, &rows->probe);
}

/* Most searches of index-only scans need no fetch */
static GjFetch *
get_fetch(GjRows *rows)
{
	if (rows->fetch == NULL)
		rows->fetch = GjFetchCreate(rows->node->ps.state->es_query_cxt, rows->node, rows->reader,
									&rows->batch, &rows->stats);
	return rows->fetch;
}

/* Empty the batch, and release what has been fetched */
static void
stop_fetch(GjRows *rows)
{
	rows->batch.nrows = rows->batch.next = 0;
	if (rows->fetch != NULL)
		GjFetchReset(rows->fetch);
}

static void
forget_rest(GjRows *rows)
{
	if (rows->rest != NULL)
		GjTidSetFree(rows->rest);
	rows->rest = NULL;
	rows->nrest = 0;
}

void
GjRowsStop(GjRows *rows)
{
	stop_fetch(rows);
	if (rows->phase > PHASE_READY)
		rows->phase = PHASE_DONE;
}

void
GjRowsClose(GjRows *rows)
{
	stop_fetch(rows);
	if (rows->stream != NULL)
		GjEntriesClose(rows->stream);
	forget_rest(rows);
	if (rows->map != NULL)
	{
		GjVisibleMapForget(rows->map);
		pfree(rows->map);
	}
	if (rows->tids != NULL)
		GjTidSetFree(rows->tids);
	rows->stream = NULL;
	rows->tids = NULL;
	rows->entries = NULL;
	rows->map = NULL;
	rows->position = 0;
	rows->phase = PHASE_CLOSED;
}

/*
 * Fetch the visible member of the HOT chain at a packed TID into the slot.  Returns false if no
 * member is visible.
 */
bool
GjRowsFetch(GjRows *rows, uint64 tid, TupleTableSlot *slot)
{
	ItemPointerData place;

	ItemPointerSet(&place, GjPackedBlock(tid), GjPackedOffset(tid));
	return GjFetchRow(get_fetch(rows), &place, slot);
}

/*
 * Return the counters, which cover all searches
 */
GjRowsStats *
GjRowsGetStats(GjRows *rows)
{
	return &rows->stats;
}

/*
 * Select those of the next entries that are rows (steps 3 and 4)
 */
static void
load_chunk(GjRows *rows)
{
	GjRowBatch *batch = &rows->batch;
	const uint64 *tids = rows->entries->tids + rows->position;
	uint64		passing[CHUNK_ENTRIES];
	uint64		rest[CHUNK_ENTRIES];
	uint16		passed[CHUNK_ENTRIES];
	const uint16 *places = NULL;	/* of those that passed; NULL if all did */
	int			nrest = 0;
	int			n = (int) Min(rows->entries->nentries - rows->position, CHUNK_ENTRIES);

	batch->first = rows->position;
	batch->nrows = 0;
	batch->next = 0;
	rows->position += n;
	if (rows->test != NULL)
	{
		int			npassed = drop_filtered(rows, n, passed, passing);

		if (npassed < n)
		{
			tids = passing;
			places = passed;
		}
		n = npassed;
	}
	if (GjEpochIsIgnored())
		GjVisibleMapForget(rows->map);	/* a new copy shows more wrong results */
	if (rows->certain)
	{
		int			nrows = GjVisibleMapSort(rows->map, tids, n, rows->entries->highest,
											 batch->rows, rest, &nrest);

		if (nrows > 0 && !is_proved(rows))
			rows->certain = false;
		else if (GjCodecMayHash(&rows->reader->codec) && rows->entries->keys.width != 0)
			batch->nrows = keep_images(rows, tids, places, nrows, rest, &nrest);
		else
			batch->nrows = nrows;
		if (rows->nlacking > 0)
		{
			int			nothers = nrest;

			batch->nrows = keep_present(rows, tids, places, batch->nrows, rest, &nrest);
			rows->stats.absent += nrest - nothers;
		}
	}
	for (int i = 0; places != NULL && i < batch->nrows; i++)
		batch->rows[i] = places[batch->rows[i]];

	rows->stats.rows += batch->nrows;
	if (batch->nrows == n)
		return;
	if (rows->rest == NULL)
		rows->rest = GjTidSetCreate(rows->parent, SIZE_MAX);
	rows->nrest += rows->certain ? nrest : n;
	if (!(rows->certain ? GjTidSetAddPacked(rows->rest, rest, nrest) :
		  GjTidSetAddPacked(rows->rest, tids, n)))
		elog(ERROR, "an entry of index \"%s\" has an impossible TID",
			 RelationGetRelationName(rows->index));
}

/*
 * Keep those of the selected entries whose code is an image, which proves that the key is listed.
 * Those with a hash have to be fetched: their TIDs are added to rest[].  Returns the number of the
 * former.  tids[] are those of the chunk; places[] are their places in it, or NULL: all of them.
 */
static int
keep_images(GjRows *rows, const uint64 *tids, const uint16 *places, int n, uint64 *rest, int *nrest)
{
	GjRowBatch *batch = &rows->batch;
	const int64 *codes = (const int64 *) rows->entries->keys.values + batch->first;
	int			nkept = 0;

	Assert(rows->entries->keys.width == sizeof(int64));
	for (int i = 0; i < n; i++)
	{
		int			row = batch->rows[i];

		if (GjCodeIsHash(codes[places != NULL ? places[row] : row]))
			rest[(*nrest)++] = tids[row];
		else
			batch->rows[nkept++] = row;
	}
	return nkept;
}

/*
 * Keep those of the selected entries that have all the values that were requested.  The TIDs of
 * the others are added to rest[]; otherwise like keep_images().
 */
static int
keep_present(GjRows *rows, const uint64 *tids, const uint16 *places, int n, uint64 *rest,
			 int *nrest)
{
	GjRowBatch *batch = &rows->batch;

	for (int k = 0; k < rows->nlacking; k++)
	{
		const GjEntryColumn *column = &rows->entries->included[rows->lacking[k]];
		const int64 *words = (const int64 *) column->values + batch->first;
		int			nkept = 0;

		if (column->width == 0)
			continue;			/* not requested */
		for (int i = 0; i < n; i++)
		{
			int			row = batch->rows[i];

			if (unlikely(words[places != NULL ? places[row] : row] == GJ_ABSENT))
				rest[(*nrest)++] = tids[row];
			else
				batch->rows[nkept++] = row;
		}
		n = nkept;
	}
	return n;
}

/*
 * List those of a chunk's n entries that pass the filter: their positions in the chunk, and their
 * TIDs, unless all pass.  Returns their number.
 */
static int
drop_filtered(GjRows *rows, int n, uint16 *places, uint64 *tids)
{
	uint64		first = rows->batch.first;
	int			npassed = GjEntryTestRun(rows->test, rows->entries, first, n, places);

	for (int i = 0; npassed < n && i < npassed; i++)
		tids[i] = rows->entries->tids[first + places[i]];
	rows->match_stats->filtered += n - npassed;
	return npassed;
}

/*
 * Return true if the epoch, read after the map, proves that the map's bits were right (step 4)
 */
static bool
is_proved(GjRows *rows)
{
	uint64		nreads = GjVisibleMapReads(rows->map);

	if (rows->nproved != nreads && !GjEntriesAreCurrent(rows->stream))
		return false;
	rows->nproved = nreads;
	return true;
}
