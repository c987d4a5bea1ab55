/*-------------------------------------------------------------------------
 *
 * indexonly.c
 *	  Rows of one table answered from index entries: a match, chunk by chunk.
 *
 * Each chunk of entries is tested when it is wanted: those that are rows, without a look
 * at the heap, are delivered, the TIDs of all others are kept for the heap.
 * match/visible.c does the test, and has the proof.  Before it, those that do not pass the
 * filter are dropped (filteredmatch.c).  indexonly.c has what there is to do in a parallel
 * plan.
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
#include "search.h"

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
	GjIndexOnlyChunk chunk;		/* must be first */

	Relation	heap;
	Relation	index;
	Snapshot	snapshot;
	List	   *fills;			/* of the slots that entries are put into */
	struct GjEntryFilter *filter;	/* what entries have to pass; NULL: nothing */

	/* The match that is being delivered */
	MemoryContext parent;
	MemoryContext context;		/* of all that follows */
	GjIndexOnlyPhase phase;
	Size		limit;
	uint64		columns;		/* wanted, a bit each as in GjFill */
	GjMatchStats *match_stats;
	GjEntryMatch match;
	GjEntrySet *whole;			/* for a device's answer, at once or divided */
	GjEntrySet *piece;			/* for the CPU's, piece by piece, or others' */
	GjEntrySet *entries;		/* one of the two */
	uint64		position;		/* in it, behind the last chunk */
	int			npieces;		/* so far */
	GjVisibleMap *map;			/* what has been read of it since the entries were found */
	uint64		nproved;		/* reads of it behind which the epoch has been read, too */
	bool		certain;		/* the epoch has not moved yet */
	GjTidSet   *plain;			/* the rest if all that was found is outdated: the set's own */
	GjTidSet   *rest;			/* TIDs for the heap, else; NULL: none so far */
	uint64		nrest;			/* in it: not yet distinct */
	GjSharePart part;			/* in a shared match; found is NULL if it is not shared */
	GjIndexOnlyStats stats;
};

/* Copies of the visibility map may take this part of the memory */
#define MAP_PART				2

/* What a TID takes in a set, growing and being put in order */
#define REST_TID_BYTES			(4 * sizeof(uint64))

static void make_whole(GjIndexOnly *io);
static bool has_room(const GjIndexOnly *io);
static bool load_piece(GjIndexOnly *io);
static bool find_piece(GjIndexOnly *io);
static bool find_in_match(GjIndexOnly *io);
static bool take_range(GjIndexOnly *io);
static void forget_rest(GjIndexOnly *io);
static void load_chunk(GjIndexOnly *io);
static int	drop_filtered(GjIndexOnly *io, int n, uint16 *places, uint64 *tids);
static bool is_proved(GjIndexOnly *io);
static void join_search(GjIndexOnly *io, const GjKeySet *keys, GjSharedSearch *search);
static void join_ranges(GjIndexOnly *io, const GjKeySet *keys, GjSharedRanges *ranges);
static void index_only_prepare(GjIndexOnly *io, uint64 columns, MemoryContext parent, Size limit,
							   GjMatchStats *stats);
static void index_only_make_piece(GjIndexOnly *io);
static void index_only_deliver(GjIndexOnly *io, GjEntrySet *entries);

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
	return io;
}

/*
 * Drop entries that do not pass.  The filter may be reset before each start and restart of the
 * answer, which must be asked for the filter's columns, too.
 */
void
GjIndexOnlyFilter(GjIndexOnly *io, GjEntryFilter *filter)
{
	io->filter = filter;
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
 * Has the index all rows, so that a match of now may be begun?
 */
bool
GjIndexOnlyIsComplete(const GjIndexOnly *io)
{
	return GjIndexIsComplete(io->index, io->snapshot);
}

/*
 * Begin a match for keys, which must live until the reset; so must the statistics.  What
 * it takes lives below parent.  Only these columns of the index will be asked for: bits as
 * in GjFill.
 */
void
GjIndexOnlyStart(GjIndexOnly *io, const GjKeySet *keys, uint64 columns, MemoryContext parent,
				 Size limit, GjMatchStats *stats)
{
	MemoryContext old;

	index_only_prepare(io, columns, parent, limit, stats);
	old = MemoryContextSwitchTo(io->context);
	GjExecMatchEntries(&io->match, io->index, io->snapshot, keys, io->whole, stats);
	MemoryContextSwitchTo(old);

	if (io->match.phase == GJ_ENTRIES_AT_ONCE)
	{
		io->plain = GjEntrySetPlain(io->whole); /* what is outdated goes to the heap */
		pgstat_count_index_tuples(io->index, GjEntrySetFound(io->whole));
	}
	if (io->match.phase == GJ_ENTRIES_AT_ONCE || io->match.phase == GJ_ENTRIES_ASK)
		index_only_deliver(io, io->whole);
	else
		index_only_make_piece(io);
}

/*
 * Make a set for what is to be found
 */
static void
index_only_prepare(GjIndexOnly *io, uint64 columns, MemoryContext parent, Size limit,
				   GjMatchStats *stats)
{
	GjIndexOnlyReset(io);
	io->parent = parent;
	io->context = AllocSetContextCreate(parent, "gpujoin index-only", ALLOCSET_DEFAULT_SIZES);
	io->limit = limit;
	io->columns = columns;
	io->match_stats = stats;
	io->certain = true;
	io->nproved = 0;
	io->phase = GJ_INDEX_ONLY_ENTRIES;
	io->map = GjVisibleMapCreate(io->context, io->heap, limit / MAP_PART);
	make_whole(io);
}

static void
make_whole(GjIndexOnly *io)
{
	io->whole = GjExecCreateEntries(io->index, io->context, io->limit, io->columns);
	if (io->filter != NULL && GjEntryFilterParams(io->filter) == NULL)
		GjEntryFilterTest(io->filter, io->whole);	/* else a restart wants other entries */
}

/*
 * Make a set for pieces of it, instead
 */
static void
index_only_make_piece(GjIndexOnly *io)
{
	io->piece = GjEntrySetCreatePiecewise(io->context, GJ_PIECE_BYTES(io->limit), io->whole);
	index_only_deliver(io, io->piece);
	GjEntrySetFree(io->whole);
	io->whole = NULL;
}

/*
 * Deliver these entries from the first one on
 */
static void
index_only_deliver(GjIndexOnly *io, GjEntrySet *entries)
{
	ListCell   *lc;

	io->entries = entries;
	io->position = 0;
	foreach(lc, io->fills)
		GjFillSource(lfirst(lc), entries);
}

bool
GjIndexOnlyIsStarted(const GjIndexOnly *io)
{
	return io != NULL && io->phase != GJ_INDEX_ONLY_OFF;
}

/*
 * Deliver the same again: what is still there is used again.  A part of a shared match has
 * not been begun with.
 */
void
GjIndexOnlyRestart(GjIndexOnly *io)
{
	if (io->part.found != NULL)
		return;
	if (io->npieces > 1)
	{
		GjIndexOnlyStart(io, io->match.keys, io->columns, io->parent, io->limit,
						 io->match_stats);
		return;
	}
	forget_rest(io);
	GjVisibleMapForget(io->map);
	io->position = 0;
	io->chunk.nrows = 0;
	io->chunk.next = 0;
}

/*
 * Make the next rows ready; false if there are no more, or nothing has been started
 */
bool
GjIndexOnlyLoad(GjIndexOnly *io)
{
	io->chunk.nrows = io->chunk.next = 0;
	while (io->chunk.nrows == 0)
	{
		CHECK_FOR_INTERRUPTS();
		if (io->phase != GJ_INDEX_ONLY_ENTRIES)
			return false;
		if (io->nrest > 0 && !has_room(io))
			io->phase = GJ_INDEX_ONLY_REST;
		else if (io->position < io->entries->nentries)
			load_chunk(io);
		else if (!load_piece(io))
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
	GjEntrySetPrefetch(io->entries, io->chunk.first, io->position - io->chunk.first);
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
 * Get the next piece of entries (step 2, continued); false if there are no more
 */
static bool
load_piece(GjIndexOnly *io)
{
	if (io->part.found != NULL)
		io->part.progress(io->part.arg);
	if (io->part.found != NULL && io->part.found->kind == GJ_SHARED_ENTRIES)
	{
		if (!GjEntriesTake(&io->part.found->entries, io->part.area, io->piece))
			return false;
	}
	else
	{
		if (!find_piece(io))
			return false;
		GjVisibleMapForget(io->map);
	}
	index_only_deliver(io, io->entries);
	io->npieces++;
	return true;
}

/*
 * Have a piece found: of the match, or of that for the next range of keys
 */
static bool
find_piece(GjIndexOnly *io)
{
	while (!find_in_match(io))
	{
		if (io->match.ranges == NULL || !take_range(io))
			return false;
	}
	pgstat_count_index_tuples(io->index, GjEntrySetFound(io->entries));
	return true;
}

/*
 * Have a device find the next piece, as long as that goes well, or else the CPU
 */
static bool
find_in_match(GjIndexOnly *io)
{
	if (io->match.phase == GJ_ENTRIES_ASK &&
		GjEntryMatchAsk(&io->match, io->whole, io->match_stats))
		return true;
	if (io->match.phase != GJ_ENTRIES_SEARCH)
		return false;
	if (io->piece == NULL)
		index_only_make_piece(io);
	return GjEntryMatchNext(&io->match, io->piece, io->match_stats);
}

/*
 * Turn to the next range; even if the CPU found a part of the last one, a device may be asked again
 */
static bool
take_range(GjIndexOnly *io)
{
	if (!GjRangesTake(&io->match))
		return false;
	if (io->piece != NULL && !io->match.refused)
	{
		make_whole(io);
		index_only_deliver(io, io->whole);
		GjEntrySetFree(io->piece);
		io->piece = NULL;
	}
	return true;
}

/*
 * Get the keys of the rows that are ready, all of them
 */
void
GjIndexOnlyKeys(const GjIndexOnly *io, int64 *out)
{
	const GjIndexOnlyChunk *chunk = &io->chunk;
	const GjEntryColumn *keys = &io->entries->keys;

	if (keys->width == sizeof(int32))
	{
		const int32 *values = (const int32 *) keys->values + chunk->first;

		for (int i = 0; i < chunk->nrows; i++)
			out[i] = values[chunk->rows[i]];
	}
	else
	{
		const int64 *values = (const int64 *) keys->values + chunk->first;

		for (int i = 0; i < chunk->nrows; i++)
			out[i] = values[chunk->rows[i]];
	}
}

/*
 * Get the TID of an entry, packed as block << 16 | offset
 */
uint64
GjIndexOnlyTid(const GjIndexOnly *io, uint64 entry)
{
	return io->entries->tids[entry];
}

/*
 * Get the TIDs for which the heap must be asked, finished, once GjIndexOnlyNext() has said
 * false.  When they have been fetched, there may be more entries: GjIndexOnlyContinue().
 */
GjTidSet *
GjIndexOnlyRest(GjIndexOnly *io)
{
	GjTidSet   *rest = io->plain;

	if (rest == NULL)
	{
		if (io->rest == NULL)
			io->rest = GjTidSetCreate(io->context, io->limit);
		rest = io->rest;
		GjTidSetFinish(rest);
	}
	io->stats.heap_fetches += GjTidSetCount(rest);
	return rest;
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
	GjEntryMatchEnd(&io->match);
	if (io->context != NULL)
		MemoryContextDelete(io->context);
	io->context = NULL;
	io->whole = NULL;
	io->piece = NULL;
	io->entries = NULL;
	io->plain = NULL;
	io->rest = NULL;
	io->map = NULL;
	io->nrest = 0;
	io->phase = GJ_INDEX_ONLY_OFF;
	io->part.found = NULL;
	io->position = 0;
	io->npieces = 0;
	io->chunk.nrows = 0;
	io->chunk.next = 0;
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
	GjIndexOnlyChunk *chunk = &io->chunk;
	const uint64 *tids = io->entries->tids + io->position;
	uint64		passing[GJ_CHUNK_ENTRIES];
	uint64		rest[GJ_CHUNK_ENTRIES];
	uint16		places[GJ_CHUNK_ENTRIES];
	int			nrest = 0;
	int			n = (int) Min(io->entries->nentries - io->position, GJ_CHUNK_ENTRIES);

	chunk->first = io->position;
	chunk->nrows = 0;
	chunk->next = 0;
	io->position += n;
	if (io->filter != NULL)
	{
		n = drop_filtered(io, n, places, passing);
		tids = passing;
	}
	if (gj_debug_ignore_vacuum_epoch)
		GjVisibleMapForget(io->map);	/* read anew, it shows more of what would be wrong */
	if (io->certain)
	{
		int			nrows = GjVisibleMapSort(io->map, tids, n, io->entries->highest, chunk->rows,
											 rest, &nrest);

		if (nrows > 0 && !is_proved(io))
			io->certain = false;
		else
			chunk->nrows = nrows;
	}
	for (int i = 0; io->filter != NULL && i < chunk->nrows; i++)
		chunk->rows[i] = places[chunk->rows[i]];

	io->stats.rows += chunk->nrows;
	if (chunk->nrows == n)
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
	uint64		first = io->chunk.first;
	int			npassed = GjFilterEntries(io->filter, io->entries, first, n, places);

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

	if (io->nproved != nreads &&
		GjEpochHasMoved(io->index, io->snapshot, io->match.vacuum_epoch))
		return false;
	io->nproved = nreads;
	return true;
}

/*-------------------------------------------------------------------------
 * Parallel plans
 *
 * Index-only answers in parallel plans: the process that comes first decides how the
 * entries are divided, and begins; the others join it.
 *
 * By ranges of keys (match/divide.c), if nearly all of the heap is all-visible and a device
 * can answer; else by heap blocks, what a device has found (sets/share.c); or by places in
 * the index, what the CPU is to find (match/divide.c).
 *-------------------------------------------------------------------------
 */

/*
 * Find out whether all processes should have a device find entries for some of the keys
 * each.  If so, they can join; else nothing is shared yet, nor started.
 */
bool
GjIndexOnlyDivide(GjIndexOnly *io, const GjKeySet *keys, uint64 columns, MemoryContext parent,
				  Size limit, GjMatchStats *stats, const GjSharePart *part)
{
	GjSharedFind *found = part->found;

	if (!GjHeapIsMostlyVisible(io->heap))
		return false;
	index_only_prepare(io, columns, parent, limit, stats);
	if (!GjExecShareRanges(&found->ranges, io->index, io->snapshot, keys,
						   GjEntrySetCapacity(io->whole), part->nprocesses, stats))
		return false;
	found->kind = GJ_SHARED_RANGES;
	found->columns = columns;
	return true;
}

/*
 * Let other processes take part in the match that has been started here.  If all that was
 * found is for the heap, it is shared as such, and nothing is started any more.
 */
void
GjIndexOnlyShare(GjIndexOnly *io, const GjSharePart *part, Size limit)
{
	GjSharedFind *found = part->found;

	if (io->plain != NULL)
	{
		found->kind = GJ_SHARED_TIDS;
		GjTidsShare(&found->tids, part->area, io->plain, part->nprocesses);
		io->stats.heap_fetches += GjTidSetCount(io->plain);
		GjIndexOnlyReset(io);
		return;
	}

	if (io->match.phase == GJ_ENTRIES_AT_ONCE)
	{
		found->kind = GJ_SHARED_ENTRIES;
		found->vacuum_epoch = io->match.vacuum_epoch;
		GjEntriesShare(&found->entries, part->area, io->whole, part->nprocesses);
		index_only_make_piece(io);
	}
	else
	{
		if (io->match.phase == GJ_ENTRIES_ASK)
			index_only_make_piece(io);
		found->kind = GJ_SHARED_SEARCH;
		GjSearchShare(&found->search, &io->match, part->nprocesses, io->match_stats);
	}
	found->columns = io->columns;
	io->part = *part;
	io->limit = limit;
}

/*
 * Take part in a match of entries that another process has shared
 */
void
GjIndexOnlyJoin(GjIndexOnly *io, const GjKeySet *keys, uint64 columns, MemoryContext parent,
				Size limit, GjMatchStats *stats, const GjSharePart *part)
{
	GjSharedFind *found = part->found;

	if (found->columns != columns)
		elog(ERROR, "the processes of a plan need different columns of index \"%s\"",
			 RelationGetRelationName(io->index));
	index_only_prepare(io, columns, parent, limit, stats);
	switch (found->kind)
	{
		case GJ_SHARED_RANGES:
			join_ranges(io, keys, &found->ranges);
			break;
		case GJ_SHARED_SEARCH:
			index_only_make_piece(io);
			join_search(io, keys, &found->search);
			break;
		case GJ_SHARED_ENTRIES:
			index_only_make_piece(io);
			io->match.vacuum_epoch = found->vacuum_epoch;
			break;
		case GJ_SHARED_TIDS:
			Assert(false);
			break;
	}
	io->part = *part;
}

static void
join_search(GjIndexOnly *io, const GjKeySet *keys, GjSharedSearch *search)
{
	MemoryContext old = MemoryContextSwitchTo(io->context);

	GjSearchJoin(search, &io->match, io->index, keys, io->limit);
	MemoryContextSwitchTo(old);
}

static void
join_ranges(GjIndexOnly *io, const GjKeySet *keys, GjSharedRanges *ranges)
{
	MemoryContext old = MemoryContextSwitchTo(io->context);

	GjRangesJoin(ranges, &io->match, io->index, keys, GjEntrySetCapacity(io->whole),
				 io->limit);
	MemoryContextSwitchTo(old);
	index_only_deliver(io, io->whole);
}
