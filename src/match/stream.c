/*-------------------------------------------------------------------------
 *
 * stream.c
 *	  A match that returns the entries' columns, set by set: from a device all at once or by
 *	  ranges of keys, from the CPU by intervals of places, or from the shared memory of a
 *	  parallel plan.
 *
 * We ask a device for all keys first.  If its hits exceed the memory limit, the keys, which are
 * a sorted list, are cut into consecutive parts, and each part is requested when the previous
 * one has been delivered.  Between two requests the match holds nothing, not even on the device.
 *
 * Each part is a match of its own, made by the rules of device.c: tail pages, journal, mirror,
 * the pages that the mirror lacks.  It takes over only the vacuum epoch from the previous part.
 * So whatever happens between two parts, a part has all entries with its keys that the snapshot
 * may see: that proof only needs that the snapshot was taken before.  It does not matter whether
 * the mirror was changed, dropped or reloaded.  If a device does not answer, or one key alone
 * has too many entries, the CPU searches for the remaining keys, which again is a match of its
 * own.
 *
 * The CPU's answer comes in pieces, too: search.c proves that each entry is in one of them, though
 * folds may move entries meanwhile.  In the following, an interval of places is a part just as a
 * range of keys is.
 *
 * Claim: no row comes twice.  Its own entry has one place, and so is in one part (lemma L3 of
 * src/README).  The danger is a different entry with the row's TID in another part, left over from
 * a row that had this TID earlier: fetching it from the heap would return the row again, since that
 * has a key of the set, too.  By lemma L7 the answer has neither of two such rows: the epoch E is
 * read at the beginning, and with a mirror of any other epoch the CPU continues the search.
 *
 * This holds whether one process requests all parts, or several processes some each (divide.c),
 * as long as they have the same snapshot and the same epoch E.
 *
 * (If the mirror has another epoch, an answer for all keys is one set of TIDs without duplicates,
 * and the heap decides on all of them.)
 *
 * Claim: a test of entries (GjEntryTest) loses no row.  Let R be a visible row with a key of the
 * set, for which all quals are TRUE, and let T be the TID of its HOT chain's root.  R's own entry
 * has R's values (lemma L4), so it passes.  It remains to be shown that no other entry with T can
 * take its place and be dropped.
 *
 * a. The match finds R's own entry: match.h.  If each entry were tested as it is found, that would
 *	  be enough, since an entry left over from an earlier owner of T would be dropped by itself.
 * b. But a set may keep any one of the entries with the same TID (sets/entryset.c), which are
 *	  tested only after that.  Sets are tested only if they are certain, so by lemma L7 neither of
 *	  the rows of two different entries with T is visible, and it does not matter which of the
 *	  entries is kept, or whether it passes.
 *	  (A device's entries are tested as they arrive, and only among those that passed are duplicates
 *	  removed.  Of two copies of one entry, both pass or both fail.)
 * c. An answer that is not certain (GjMatchStats.outdated) has TIDs without columns.  None is
 *	  dropped: all are fetched from the heap, as without a test.
 * d. The CPU's pieces, and those of a divided answer, are each certain by the same epoch E.  The
 *	  epoch may advance meanwhile: b. does not depend on that.
 *
 * So a test needs neither the visibility map nor a second reading of the epoch.  Each visible row
 * has an entry of its own, with the row's values.
 *
 * Claim: a test lets no wrong row pass.  A row that passes is fetched under the snapshot, its key
 * is rechecked unless the test proves it (rows/heap.c), and all quals are tested on the tuple, as
 * without a test, also if EvalPlanQual has replaced it, or a set became lossy.  In an index-only
 * answer an entry that is a row (visible.c) has the row's values, which need not be tested again.
 *
 * Serializable transactions: the match locks the whole index.  A transaction that changes a row so
 * that it would pass adds a new entry, and conflicts with that lock.  A row that was dropped has
 * not been read, just as with an index on the columns that are tested.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/settings.h"
#include "mirror/mirror.h"
#include "search.h"

/* If TIDs are those of entries that pass a test, the entries get this part of the memory */
#define ENTRIES_SHARE			2

/* src/README draws the ways from one phase to another */
typedef enum StreamPhase
{
	PHASE_TAILS = 0,			/* the match has yet to begin */
	PHASE_WHOLE,				/* the entries that a device has found are in a finished set */
	PHASE_DEVICE,				/* a device returns the next entries, one range of keys at a time */
	PHASE_CPU,					/* the next entries come from the CPU, one piece at a time */
	PHASE_TAKE,					/* the next step of a shared match is to be taken */
	PHASE_DONE					/* all entries have been returned */
} StreamPhase;

struct GjEntryStream
{
	GjEntryRequest request;
	uint64		columns;		/* columns of the entries: as in GjEntryRequest */
	Size		limit;			/* memory limit of the match */
	GjSharedFind *shared;		/* once this process takes steps of a shared match; or NULL */
	bool		has_epoch;
	uint64		vacuum_epoch;	/* once it is known: read before any entry was found */

	/* forget_entries() clears the following fields */
	StreamPhase phase;
	bool		at_once;		/* the whole answer is in a set, and can be returned again */
	bool		reduced;		/* other rows are in groups, which the request's reduction got */
	bool		again;			/* return the current set again before anything else */
	bool		nulls_left;		/* NULL keys are wanted, and their entries have yet to be found */
	int			nsets;			/* number of sets returned */
	const GjEntrySet *current;	/* the set that was returned last */

	MemoryContext context;		/* for all that follows; NULL in PHASE_TAILS, or if it was freed */
	GjIndexInfo info;
	GjEntrySet *whole;			/* for a device's answers; NULL while there is a piece instead */
	GjEntrySet *piece;			/* for entries from the CPU or from shared memory */

	/* A device's part of the match */
	bool		refused;		/* a device did not answer for a piece: do not ask again */
	const char *reason;			/* why the CPU found some entries; NULL if it found none */
	uint64		nsearched;		/* number of entries that its last answer was found among */
	GjPieces	pieces;

	/* The CPU's part of the match */
	const GjKeySet *wanted;		/* keys, or those that a device has left; NULL until known */
	bool		tails_known;	/* the tails have been searched for the wanted keys */
	GjTailHits	tails;			/* their hits, found before a device was asked */
	GjSearch   *search;			/* NULL until begun */
};

typedef enum Answer
{
	ANSWER_NONE,				/* the device cannot or must not answer */
	ANSWER_TOO_LARGE,			/* the answer exceeds the memory limit */
	ANSWER_THERE
} Answer;

static GjTidSet *find_entries(GjEntryStream *stream, Size limit);
static bool is_answered(const GjEntryRequest *request);
static bool may_be_entries(const GjEntryRequest *request);
static GjTidSet *find_tids(GjEntryStream *stream, Size limit);
static GjTidSet *find_passing(GjEntryStream *stream, Size limit);
static void take_passing(GjEntryStream *stream, const GjEntrySet *set, GjTidSet *tids);
static void take_heap(const GjEntryRequest *request, GjTidSet *tids, GjFallback why);
static void prepare_match(const GjEntryRequest *request);
static void begin_entries(GjEntryStream *stream, uint64 columns, Size limit, bool accept_tids);
static void search_tails(GjEntryStream *stream, bool ask);
static void prepare(GjEntryStream *stream, uint64 columns, Size limit);
static bool reduce(GjEntryStream *stream);
static void make_whole(GjEntryStream *stream);
static void make_piece(GjEntryStream *stream);
static GjTidSet *take_plain(GjEntryStream *stream);
static void forget_entries(GjEntryStream *stream);
static void ask_for_all(GjEntryStream *stream);
static bool load_from_device(GjEntryStream *stream);
static Answer ask_for_piece(GjEntryStream *stream);
static Answer ask_entries(GjEntryStream *stream, const GjKeySet *keys, const GjTailHits *tails,
						  uint64 *nfound);
static void refuse(GjEntryStream *stream);
static void search_for_rest(GjEntryStream *stream);
static void load_from_cpu(GjEntryStream *stream);
static void begin_search(GjEntryStream *stream);
static void end_search(GjEntryStream *stream);
static void end_phase(GjEntryStream *stream);
static void end_keys(GjEntryStream *stream);
static void mark_nulls(const GjEntryStream *stream);
static void share_match(GjEntryStream *stream);
static bool share_ranges(GjEntryStream *stream);
static void share_entries(GjEntryStream *stream);
static GjTidSet *join_match(GjEntryStream *stream);
static bool take_step(GjEntryStream *stream, const GjEntrySet **set);
static bool take_range(GjEntryStream *stream);
static bool take_places(GjEntryStream *stream);

/* Return true if processes may share the match */
static inline bool
is_shared(const GjEntryRequest *request)
{
	return request->share != NULL && request->share->found != NULL;
}

/*
 * Search the index for the keys, as far as needed to know whether the answer is entries.  Returns
 * the stream of entries; or NULL, and the TIDs to be fetched, finished and below the parent.  In a
 * parallel plan, waits while another process searches.
 *
 * The answer is TIDs if these are wanted, if a device could only give outdated entries, if the
 * index may lack rows that the snapshot sees, if rows with a NULL key are wanted that it does not
 * store, or if the processes of a parallel plan share TIDs.  They can be lossy, or the whole heap.
 *
 * TIDs and entries are used after the match without a hold on the index; only an MVCC snapshot
 * makes that safe (rows/heap.c).  See snapshot.c for the locks of serializable transactions.
 */
GjEntryStream *
GjEntriesOpen(const GjEntryRequest *request, GjTidSet **tids)
{
	GjEntryStream *stream = MemoryContextAllocZero(request->parent, sizeof(GjEntryStream));

	stream->request = *request;
	switch (is_shared(request) ? GjShareEnter(request->share, request->whole) : GJ_ROLE_ALONE)
	{
		case GJ_ROLE_ALONE:
			*tids = find_entries(stream, request->limit);
			break;
		case GJ_ROLE_FIRST:
			share_match(stream);
			*tids = join_match(stream);
			break;
		case GJ_ROLE_OTHER:
			*tids = join_match(stream);
			break;
		case GJ_ROLE_NONE:
			*tids = GjTidSetCreateView(request->parent, NULL, 0, NULL);
			break;
	}
	if (*tids == NULL)
		return stream;
	GjEntriesClose(stream);
	return NULL;
}

/*
 * Begin a match of entries, or return TIDs if these are the answer
 */
static GjTidSet *
find_entries(GjEntryStream *stream, Size limit)
{
	const GjEntryRequest *request = &stream->request;
	GjTidSet   *tids;

	if (may_be_entries(request))
	{
		begin_entries(stream, request->columns, limit, !request->entries_only);
		tids = take_plain(stream);
	}
	else
		tids = find_tids(stream, limit);
	if (tids != NULL && request->ntids != NULL)
		*request->ntids += GjTidSetCount(tids);
	return tids;
}

/* Return true if the index has all rows that are wanted */
static bool
is_answered(const GjEntryRequest *request)
{
	return (!request->keys->nulls || GjIndexStoresNulls(request->index)) &&
		GjIndexIsComplete(request->index, request->snapshot);
}

/*
 * Return true if the answer may be entries.  The steps that processes take are of keys, so they
 * share TIDs if nothing but NULL keys is wanted.
 */
static bool
may_be_entries(const GjEntryRequest *request)
{
	return request->entries && !(is_shared(request) && GjKeySetIsEmpty(request->keys)) &&
		is_answered(request);
}

/*
 * Return the next entries, which are good until the next call
 *
 * No TID comes twice, unless another row has reused it; then the vacuum epoch has changed.
 */
GjFound
GjEntriesNext(GjEntryStream *stream, const GjEntrySet **set)
{
	if (stream->shared != NULL && stream->request.share->progress != NULL)
		stream->request.share->progress(stream->request.share->arg);
	if (stream->again)
	{
		stream->again = false;
		*set = stream->current;
		return stream->phase == PHASE_DONE ? GJ_FOUND_LAST : GJ_FOUND_ENTRIES;
	}
	for (;;)
	{
		const GjEntrySet *found = NULL;

		switch (stream->phase)
		{
			case PHASE_TAILS:
				Assert(false);
				return GJ_FOUND_END;
			case PHASE_WHOLE:
				found = stream->whole;
				if (stream->at_once)
					stream->phase = PHASE_DONE;
				else if (stream->reduced)
					stream->phase = PHASE_CPU;
				else
					end_phase(stream);
				break;
			case PHASE_DEVICE:
				if (load_from_device(stream))
					found = stream->whole;
				break;
			case PHASE_CPU:
				load_from_cpu(stream);
				found = stream->piece;
				break;
			case PHASE_TAKE:
				if (take_step(stream, set))
					return GJ_FOUND_EARLIER;
				break;
			case PHASE_DONE:
				if (stream->request.entries_only && !stream->at_once)
					forget_entries(stream);
				stream->phase = PHASE_DONE;
				return GJ_FOUND_END;
		}
		if (found != NULL)
		{
			if (!stream->at_once)	/* otherwise begin_entries() has counted them */
				pgstat_count_index_tuples(stream->request.index, GjEntrySetFound(found));
			stream->nsets++;
			*set = stream->current = found;
			return stream->phase == PHASE_DONE ? GJ_FOUND_LAST : GJ_FOUND_ENTRIES;
		}
	}
}

/*
 * Return true if VACUUM has not removed entries since the search began; to be called after the
 * visibility map has been read
 */
bool
GjEntriesAreCurrent(const GjEntryStream *stream)
{
	const GjEntryRequest *request = &stream->request;

	return GjIndexIsCurrent(request->index, request->snapshot, stream->vacuum_epoch);
}

/*
 * Return PG_UINT64_MAX if the stream has all entries.  Otherwise return the limit of the device's
 * answer, less the number of its entries that were dropped: if fewer entries of the stream than
 * that precede an entry, by the column of the order, then the stream has all entries that precede
 * it.  To be called after the end of the stream.
 */
uint64
GjEntriesComplete(const GjEntryStream *stream)
{
	const GjEntrySet *whole = stream->whole;

	return whole != NULL && whole->limited ? whole->ncomplete : PG_UINT64_MAX;
}

/*
 * Return true if the entries are only those of rows that are not in the groups of the reduction
 */
bool
GjEntriesAreReduced(const GjEntryStream *stream)
{
	return stream->reduced;
}

/*
 * Rescan: return the same entries again.  Returns true if all of them had been found at once, and
 * are still there; otherwise they may be in other sets.  A shared match cannot be rescanned: this
 * does nothing if no entry has been returned yet, and must not be called later.  After a reduction,
 * it returns the entries of all rows, unless no entry has been returned yet.
 */
bool
GjEntriesRestart(GjEntryStream *stream)
{
	Assert(stream->phase != PHASE_TAILS);
	if (stream->shared != NULL || (stream->reduced && stream->phase == PHASE_WHOLE))
		return false;
	if (stream->at_once && !stream->reduced)
		stream->phase = PHASE_WHOLE;
	else if (stream->reduced || stream->nsets > 1 || stream->context == NULL)
	{
		stream->request.reduction = NULL;
		forget_entries(stream);
		begin_entries(stream, stream->columns, stream->limit, false); /* TIDs come too late */
	}
	else
		stream->again = stream->nsets == 1;
	return stream->at_once;
}

/*
 * Search for other keys, under the same snapshot.  The stream must not be shared or reduced.
 */
void
GjEntriesTurnTo(GjEntryStream *stream, const GjKeySet *keys)
{
	Assert(stream->shared == NULL && stream->request.reduction == NULL);
	forget_entries(stream);
	stream->request.keys = keys;
	begin_entries(stream, stream->columns, stream->limit, false);
}

/*
 * End the match, whether all of it has been returned or not
 */
void
GjEntriesClose(GjEntryStream *stream)
{
	forget_entries(stream);
	pfree(stream);
}

/* TIDs ---------------------------------------------------------------------------- */

/*
 * Return the TIDs of all entries, or of those that may pass the test; or the whole heap
 */
static GjTidSet *
find_tids(GjEntryStream *stream, Size limit)
{
	const GjEntryRequest *request = &stream->request;
	GjMatchStats *stats = request->stats;
	uint64		found = stats->tids;
	GjTidSet   *tids;

	if (request->test != NULL && is_answered(request))
		return find_passing(stream, limit);

	tids = GjTidSetCreate(request->parent, limit);
	if (request->keys->nulls && !GjIndexStoresNulls(request->index))
	{
		PredicateLockRelation(request->heap, request->snapshot);
		take_heap(request, tids, GJ_FALLBACK_NULL_KEYS);
		return tids;
	}
	prepare_match(request);
	if (!is_answered(request))
	{
		take_heap(request, tids, GJ_FALLBACK_INCOMPLETE);
		return tids;
	}
	GjMatch(request->index, request->keys, true, request->memo, tids, stats);
	if (request->keys->nulls)
		GjMatchNulls(request->index, tids, stats);
	GjTidSetFinish(tids);

	/* what a device and the CPU both found counts once; lossy blocks cannot be counted */
	if (!GjTidSetIsLossy(tids))
		stats->tids = found + GjTidSetCount(tids);
	pgstat_count_index_tuples(request->index, GjTidSetCount(tids));
	return tids;
}

static GjTidSet *
find_passing(GjEntryStream *stream, Size limit)
{
	const GjEntryRequest *request = &stream->request;
	GjTidSet   *tids;
	const GjEntrySet *set;

	begin_entries(stream, request->test->columns, limit / ENTRIES_SHARE, true);
	tids = take_plain(stream);
	if (tids == NULL)
	{
		tids = GjTidSetCreate(request->parent, limit - limit / ENTRIES_SHARE);
		while (GjEntriesNext(stream, &set) != GJ_FOUND_END)
			take_passing(stream, set, tids);
		GjTidSetFinish(tids);
		GjTidSetProve(tids, request->test->proves && !request->keys->nulls);
	}
	forget_entries(stream);
	return tids;
}

static void
take_passing(GjEntryStream *stream, const GjEntrySet *set, GjTidSet *tids)
{
	const GjEntryRequest *request = &stream->request;
	uint64		passing[GJ_BATCH_ROWS];
	uint16		rows[GJ_BATCH_ROWS];

	for (uint64 first = 0; first < set->nentries; first += GJ_BATCH_ROWS)
	{
		int			n = (int) Min(set->nentries - first, GJ_BATCH_ROWS);
		int			npassed = GjEntryTestRun(request->test, set, first, n, rows);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < npassed; i++)
			passing[i] = set->tids[first + rows[i]];
		request->stats->filtered += n - npassed;
		if (!GjTidSetAddPacked(tids, passing, npassed))
			elog(ERROR, "an entry of index \"%s\" has an impossible TID",
				 RelationGetRelationName(request->index));
	}
}

/*
 * List the whole heap in place of a match
 *
 * If an index does not store NULL keys, plans are not made for rows with these
 * (plan/conditions.c), but it may turn out when a scan starts that they are wanted.  In that case
 * a serializable transaction locks the heap as a sequential scan does.
 */
static void
take_heap(const GjEntryRequest *request, GjTidSet *tids, GjFallback why)
{
	GjTidSetAddBlocks(tids, RelationGetNumberOfBlocks(request->heap));
	GjTidSetFinish(tids);

	request->stats->searches++;
	request->stats->device = NULL;
	GjMatchStatsFallback(request->stats, why);
}

static void
prepare_match(const GjEntryRequest *request)
{
	if (!IsMVCCSnapshot(request->snapshot))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" can only be searched under an MVCC snapshot",
						RelationGetRelationName(request->index))));

	GjPredicateLock(request->index, request->snapshot);
	pgstat_count_index_scan(request->index);
}

/* Beginning and ending a match of entries ----------------------------------------- */

/*
 * Begin a match of entries with these columns; an outdated answer is accepted only if TIDs are
 *
 * The vacuum epoch was read first, so that each entry is found later.  A device's entries were
 * copied from the pages earlier, and count as found when the epoch of the copy was read; if that
 * epoch is different, "whole" receives only TIDs.
 *
 * A device's answer comes all at once, if the set's memory limit allows it; otherwise in pieces, if
 * that pays.  The CPU's answer comes piece by piece: we search the tail pages now, the deltas with
 * the first piece, and the runs as pieces are requested.  This is the order that search.c requires;
 * the time between the steps does not matter.
 */
static void
begin_entries(GjEntryStream *stream, uint64 columns, Size limit, bool accept_tids)
{
	const GjEntryRequest *request = &stream->request;
	const GjKeySet *keys = request->keys;
	GjMatchStats *stats = request->stats;
	MemoryContext old;
	instr_time	start;

	prepare(stream, columns, limit);
	old = MemoryContextSwitchTo(stream->context);
	prepare_match(request);
	INSTR_TIME_SET_CURRENT(start);
	GjMatchStatsBegin(stats);
	stream->reduced = request->reduction != NULL && reduce(stream);
	stream->has_epoch = stream->reduced;
	stream->nulls_left = keys->nulls;
	Assert(!stream->reduced || !stream->nulls_left);	/* GjReducePrepare() */
	if (stream->reduced)
		stream->phase = PHASE_WHOLE;

	if (!stream->reduced && GjKeySetIsEmpty(keys))
	{
		stats->reason = GjFallbackText(GJ_FALLBACK_NO_KEYS);
		end_phase(stream);
	}
	else if (!stream->reduced)
	{
		bool		ask = GjKeySetIsList(keys) && GjMirrorMayMatch(stats);

		if (!GjKeySetIsList(keys))
			GjMatchStatsFallback(stats, GJ_FALLBACK_INTERVALS);
		search_tails(stream, ask);
		if (ask)
			ask_for_all(stream);
		stream->wanted = keys;
		if (stream->phase == PHASE_TAILS)
			stream->phase = PHASE_CPU;
	}
	GjMatchStatsEnd(stats, keys, start);
	MemoryContextSwitchTo(old);

	stream->at_once = stream->phase == PHASE_WHOLE && !stream->nulls_left &&
		(!stream->reduced || stream->wanted == NULL);
	if ((stream->at_once ? !accept_tids : stream->nulls_left && stream->phase == PHASE_WHOLE) &&
		GjEntrySetPlain(stream->whole) != NULL)
		refuse(stream);
	else if (stream->at_once)
		pgstat_count_index_tuples(request->index, GjEntrySetFound(stream->whole));
}

/*
 * Search the tails, if a device will be asked; otherwise the CPU's search does so.  The epoch,
 * which is read before the first entry is found, is known then, if there are hits, or others need
 * it before the CPU searches: a device, or other processes.
 */
static void
search_tails(GjEntryStream *stream, bool ask)
{
	const GjEntryRequest *request = &stream->request;
	GjIndexCounters now;

	if (ask && (request->memo == NULL || !request->memo->known))
		GjSearchTailsCounted(request->index, &stream->info, request->keys, &stream->tails,
							 request->stats);
	stream->tails_known = ask;
	if (stream->tails.counted)
		stream->vacuum_epoch = stream->tails.vacuum_epoch;
	else if (ask || is_shared(request))
	{
		GjIndexGetCounters(request->index, &now);
		stream->vacuum_epoch = now.vacuum_epoch;
	}
	else
	{
		stream->vacuum_epoch = PG_UINT64_MAX;	/* that of no mirror */
		return;
	}
	stream->has_epoch = true;
}

/* Create the memory of a match, and a set for the entries from a device */
static void
prepare(GjEntryStream *stream, uint64 columns, Size limit)
{
	Assert(stream->phase == PHASE_TAILS && stream->context == NULL);
	stream->columns = columns;
	stream->limit = limit;
	stream->context = AllocSetContextCreate(stream->request.parent, "gpujoin entry stream",
											ALLOCSET_DEFAULT_SIZES);
	GjIndexGetInfo(stream->request.index, &stream->info);
	make_whole(stream);
}

/*
 * Have a device reduce the rows of all or most keys.  Returns false if it does not.  Unlike other
 * entries, the rest is never kept for another test, so a test whose values vary can be attached.
 */
static bool
reduce(GjEntryStream *stream)
{
	const GjEntryRequest *request = &stream->request;
	bool		attaches = request->test != NULL && request->test->varies;

	if (attaches)
		request->test->attach(request->test->arg, stream->whole);
	if (GjMirrorReduce(request, &stream->info, stream->whole,
					   &stream->vacuum_epoch, &stream->wanted))
		return true;
	stream->request.reduction = NULL;
	if (attaches)
	{
		GjEntrySetFree(stream->whole);
		make_whole(stream);
	}
	return false;
}

static void
make_whole(GjEntryStream *stream)
{
	const GjEntryRequest *request = &stream->request;
	const GjIndexInfo *info = &stream->info;
	GjEntryWidths widths = {.key = info->key_width,.nincluded = info->nincluded};

	for (int i = 0; i < info->nincluded; i++)
		widths.included[i] = info->included[i].width;
	stream->whole = GjEntrySetCreate(stream->context, stream->limit, &widths,
									 (stream->columns & GJ_ENTRY_KEY) != 0,
									 (uint32) (stream->columns >> 1));
	stream->whole->top = request->top;
	/* entries of NULL keys follow, from the CPU, and the device's set is gone by then */
	if (request->keys->nulls)
		GjEntrySetForgetTop(stream->whole);
	/* entries that are kept can be tested by other values after a restart */
	if (request->test != NULL && (!request->entries || !request->test->varies))
		request->test->attach(request->test->arg, stream->whole);
	/* the first entries may all fail a test that a device does not know */
	if (request->test != NULL && !gj_force &&
		(request->test->parts == 0 || stream->whole->filter_parts != request->test->parts))
		GjEntrySetForgetTop(stream->whole);
}

/*
 * Make a set for pieces instead: usually the one for a device becomes it, as it has stored nothing
 */
static void
make_piece(GjEntryStream *stream)
{
	if (GjEntrySetTurnPiecewise(stream->whole, GJ_PIECE_BYTES(stream->limit)))
	{
		stream->piece = stream->whole;
		stream->whole = NULL;
		return;
	}
	stream->piece = GjEntrySetCreatePiecewise(stream->context, GJ_PIECE_BYTES(stream->limit),
											  stream->whole);
	GjEntrySetFree(stream->whole);
	stream->whole = NULL;
}

/*
 * If a device's answer is outdated, end the match and return the TIDs, below the request's parent;
 * otherwise return NULL
 */
static GjTidSet *
take_plain(GjEntryStream *stream)
{
	GjTidSet   *tids = NULL;

	if (stream->at_once && GjEntrySetPlain(stream->whole) != NULL)
	{
		tids = GjEntrySetTakePlain(stream->whole, stream->request.parent);
		forget_entries(stream);
	}
	return tids;
}

/*
 * Forget the match.  The context frees the memory, but the search may have a temporary file.
 */
static void
forget_entries(GjEntryStream *stream)
{
	if (stream->search != NULL)
		GjSearchEnd(stream->search);
	if (stream->context != NULL)
		MemoryContextDelete(stream->context);
	memset(&stream->phase, 0, sizeof(*stream) - offsetof(GjEntryStream, phase));
}

/*
 * Begin the phase that follows the last entries of the current answer or step
 *
 * If NULL keys are wanted, their entries come last.  They are in the other part of the index, where
 * the CPU searches for all codes, as it searches for keys: another match, under the same snapshot,
 * that keeps the epoch of the first one.  Of several processes, one makes it, after the last step
 * that it takes.
 */
static void
end_phase(GjEntryStream *stream)
{
	if (stream->shared != NULL && !stream->info.of_nulls)
		stream->phase = PHASE_TAKE;
	else
		end_keys(stream);
}

static void
end_keys(GjEntryStream *stream)
{
	GjSharedFind *shared = stream->shared;
	bool		mine = stream->nulls_left &&
		(shared == NULL || pg_atomic_fetch_add_u32(&shared->nulls, 1) == 0);

	stream->nulls_left = false;
	stream->phase = mine ? PHASE_CPU : PHASE_DONE;
	if (!mine)
		return;
	end_search(stream);
	GjInfoTurnToNulls(&stream->info);
	stream->wanted = GjMakeAllCodes(stream->context, &stream->info);
}

/* A device's part ----------------------------------------------------------------- */

/*
 * Have a device answer for all keys, or decide whether it should answer in pieces
 */
static void
ask_for_all(GjEntryStream *stream)
{
	const GjKeySet *keys = stream->request.keys;
	uint64		nfound;

	switch (ask_entries(stream, keys, &stream->tails, &nfound))
	{
		case ANSWER_THERE:
			stream->phase = PHASE_WHOLE;
			break;
		case ANSWER_TOO_LARGE:
			GjEntrySetForgetTop(stream->whole);
			GjPiecesBegin(&stream->pieces, 0, GjKeySetCount(keys),
						  GjEntrySetCapacity(stream->whole),
						  GjMaxRequests(stream->request.index, stream->nsearched),
						  (double) nfound);
			GjPiecesDivide(&stream->pieces, nfound);
			if (GjPiecesGoOn(&stream->pieces))
				stream->phase = PHASE_DEVICE;
			else
				stream->request.stats->answers[GJ_FALLBACK_TOO_MANY]++;
			break;
		case ANSWER_NONE:
			break;
	}
}

/*
 * Load the next piece of a divided answer from a device, and finish the set.  Returns false after
 * the last piece; the CPU finds the rest, if any.  A piece may be empty.
 */
static bool
load_from_device(GjEntryStream *stream)
{
	MemoryContext old = MemoryContextSwitchTo(stream->context);
	GjMatchStats *stats = stream->request.stats;
	Answer		answer = ANSWER_NONE;
	instr_time	start;

	Assert(stream->phase == PHASE_DEVICE);
	INSTR_TIME_SET_CURRENT(start);
	while (!stream->refused && GjPiecesGoOn(&stream->pieces))
	{
		answer = ask_for_piece(stream);
		stream->refused = answer == ANSWER_NONE;
		if (answer == ANSWER_THERE)
			break;
	}
	if (answer != ANSWER_THERE)
		search_for_rest(stream);
	else if (stream->reason != NULL)
	{
		stats->device = GjKernelName();
		stats->reason = stream->reason;
	}
	MemoryContextSwitchTo(old);
	GjMatchStatsElapse(stats, start);
	return answer == ANSWER_THERE;
}

static Answer
ask_for_piece(GjEntryStream *stream)
{
	const GjEntryRequest *request = &stream->request;
	GjPieces   *pieces = &stream->pieces;
	GjKeySet   *keys = GjKeySetSlice(stream->context, request->keys, pieces->next, pieces->step);
	GjTailHits	tails = {0};
	uint64		nfound;
	Answer		answer;

	GjEntrySetClear(stream->whole);
	GjSearchTails(request->index, &stream->info, keys, &tails, request->stats);
	answer = ask_entries(stream, keys, &tails, &nfound);
	if (answer == ANSWER_THERE)
	{
		GjPiecesTook(pieces, nfound);
		request->stats->pieces++;
	}
	else if (answer == ANSWER_TOO_LARGE)
		GjPiecesDivide(pieces, nfound);
	if (tails.rows != NULL)
		pfree(tails.rows);
	GjKeySetFree(keys);
	return answer;
}

/*
 * Have a device answer for some keys, whose hits on tail pages are known
 */
static Answer
ask_entries(GjEntryStream *stream, const GjKeySet *keys, const GjTailHits *tails, uint64 *nfound)
{
	GjMatchStats *stats = stream->request.stats;
	GjEntrySet *whole = stream->whole;
	GjMatchTarget target = {NULL, whole};
	GjMatchStats before = *stats;
	Answer		answer = ANSWER_NONE;
	uint64		nadded;

	if (!GjMirrorMatch(stream->request.index, &stream->info, keys, target,
					   &stream->vacuum_epoch, stats))
		before.reason = stats->reason;
	else if (stream->phase == PHASE_DEVICE && stats->outdated)
	{
		before.reason = "VACUUM has been there between two pieces of the answer";
		stats->answers[GJ_FALLBACK_VACUUMED]++;
	}
	else
	{
		for (int i = 0; i < tails->nrows; i++)
			GjEntrySetAddRow(whole, &stream->info, tails->rows + i * stream->info.row_width);
		nadded = whole->nentries;
		GjEntrySetFinish(whole);
		GjEntrySetLost(whole, nadded - Min(whole->nentries, nadded));
		stream->nsearched = stats->entries - before.entries;
		if (!whole->gave_up)
		{
			*nfound = GjEntrySetFound(whole);
			stats->tids = before.tids + *nfound;
			stats->filtered += whole->ndropped;
			if (whole->limited)
				stats->limited += whole->nbehind;
			return ANSWER_THERE;
		}
		*nfound = stats->tids - before.tids;
		before.reason = GjFallbackText(GJ_FALLBACK_TOO_MANY);
		answer = ANSWER_TOO_LARGE;
	}

	/* discard entries that a device delivered before it failed */
	GjEntrySetClear(whole);
	memcpy(before.answers, stats->answers, sizeof(before.answers));
	*stats = before;
	return answer;
}

/*
 * Reject a device's answer that came all at once, because it is outdated and has only TIDs, which
 * are of no use to the caller.  The CPU finds the entries instead; its search has been prepared.
 */
static void
refuse(GjEntryStream *stream)
{
	GjMatchStats *stats = stream->request.stats;

	Assert(stream->phase == PHASE_WHOLE);
	stream->phase = PHASE_CPU;
	stream->at_once = false;
	stats->tids -= GjEntrySetCount(stream->whole);
	stats->device = GjKernelName();
	GjMatchStatsFallback(stats, GJ_FALLBACK_VACUUMED);
	GjEntrySetClear(stream->whole);
}

/* The CPU's part ------------------------------------------------------------------ */

/*
 * Let the CPU search for the keys that a device has left, if any
 */
static void
search_for_rest(GjEntryStream *stream)
{
	const GjKeySet *keys = stream->request.keys;
	GjMatchStats *stats = stream->request.stats;
	uint64		next = stream->pieces.next;
	uint64		left = stream->pieces.end - next;

	if (left == 0)
	{
		end_phase(stream);
		return;
	}
	stream->phase = PHASE_CPU;
	stats->device = GjKernelName();
	if (stats->reason == NULL)	/* one key has too many, or more requests do not pay */
		stats->reason = stream->reason != NULL ? stream->reason :
			GjFallbackText(GJ_FALLBACK_TOO_MANY);
	if (!stream->refused)		/* otherwise the reason has been counted */
		stats->answers[GJ_FALLBACK_TOO_MANY]++;
	stream->reason = stats->reason;
	end_search(stream);
	if (left < GjKeySetCount(keys))
		keys = GjKeySetSlice(stream->context, keys, next, left);
	stream->wanted = keys;
}

/*
 * Forget the CPU's previous search, if any, and the hits on tail pages found for it
 */
static void
end_search(GjEntryStream *stream)
{
	if (stream->search != NULL)
		GjSearchEnd(stream->search);
	stream->search = NULL;
	GjTailHitsForget(&stream->tails);
	stream->tails_known = false;
	if (stream->wanted != NULL && stream->wanted != stream->request.keys)
		GjKeySetFree(unconstify(GjKeySet *, stream->wanted));
	stream->wanted = NULL;
}

/*
 * Load the next piece from the CPU, in no order.  A piece may be empty.
 */
static void
load_from_cpu(GjEntryStream *stream)
{
	bool		is_last;
	instr_time	start;

	Assert(stream->phase == PHASE_CPU);
	INSTR_TIME_SET_CURRENT(start);
	if (stream->piece == NULL)
		make_piece(stream);
	else
		GjEntrySetClear(stream->piece);
	if (stream->search == NULL)
		begin_search(stream);
	is_last = !GjSearchPiece(stream->search, stream->piece, stream->request.stats);
	if (!stream->has_epoch)
		stream->vacuum_epoch = stream->search->vacuum_epoch;
	stream->has_epoch = true;
	if (stream->info.of_nulls)
		mark_nulls(stream);
	if (is_last)
		end_phase(stream);
	GjMatchStatsElapse(stream->request.stats, start);
}

/*
 * Mark the keys of the piece as NULL, as all of them are
 */
static void
mark_nulls(const GjEntryStream *stream)
{
	GjEntrySet *piece = stream->piece;

	if (piece->keys.width != 0 && piece->nentries > 0)
		memset(GjEntrySetNulls(piece, &piece->keys, 0), true, piece->nentries);
}

static void
begin_search(GjEntryStream *stream)
{
	MemoryContext old = MemoryContextSwitchTo(stream->context);

	stream->search = GjSearchBegin(stream->request.index, &stream->info, stream->wanted,
								   stream->limit, stream->tails_known ? &stream->tails : NULL,
								   stream->shared == NULL && !stream->info.of_nulls ?
								   stream->request.memo : NULL);
	stream->tails_known = false;
	MemoryContextSwitchTo(old);
}

/* A shared match: see divide.c ---------------------------------------------------- */

/*
 * As the first process, search or decide how all processes search, and let the others continue.
 * This process has the memory of all, as for a hash table that they share.
 */
static void
share_match(GjEntryStream *stream)
{
	const GjEntryRequest *request = &stream->request;
	GjSharedFind *shared = stream->request.share->found;

	shared->columns = request->columns;
	if (!may_be_entries(request) || !share_ranges(stream))
	{
		GjTidSet   *tids = find_entries(stream, request->limit * shared->nprocesses);

		if (tids == NULL)
			share_entries(stream);
		else
		{
			shared->kind = GJ_SHARED_TIDS;
			GjTidsShare(&shared->tids, request->share->area, tids, shared->nprocesses);
			GjTidSetFree(tids);
		}
	}
	GjSharePublish(shared);
}

/*
 * Divide the match by ranges of keys, if each process should have a device find entries for some
 * of the keys; otherwise return false
 */
static bool
share_ranges(GjEntryStream *stream)
{
	const GjEntryRequest *request = &stream->request;
	GjSharedFind *shared = stream->request.share->found;
	bool		result;

	prepare(stream, request->columns, request->limit);
	result = GjRangesShare(&shared->ranges, request, GjEntrySetCapacity(stream->whole),
						   shared->nprocesses, &shared->vacuum_epoch);
	forget_entries(stream);
	if (!result)
		return false;
	prepare_match(request);
	shared->kind = GJ_SHARED_RANGES;
	return true;
}

/*
 * Share a device's answer to all keys, if that has been found.  Otherwise let all processes search
 * on the CPU, even if a device could answer in pieces.
 */
static void
share_entries(GjEntryStream *stream)
{
	const GjEntryRequest *request = &stream->request;
	GjSharedFind *shared = request->share->found;

	shared->vacuum_epoch = stream->vacuum_epoch;
	if (stream->at_once)
	{
		shared->kind = GJ_SHARED_ENTRIES;
		GjEntrySetShare(&shared->entries, request->share->area, stream->whole,
						shared->nprocesses);
	}
	else
	{
		MemoryContext old = MemoryContextSwitchTo(stream->context);
		GjSearch   *search = GjSearchBegin(request->index, &stream->info, request->keys, 0, NULL,
										   NULL);
		int			nsteps = Min(shared->nprocesses * GJ_STEPS_PER_PROCESS, GJ_MAX_STEPS);

		shared->kind = GJ_SHARED_PLACES;
		if (stream->phase != PHASE_DONE)
			shared->places.nsteps = GjSearchDivide(search, shared->nprocesses, nsteps,
												   shared->places.starts, request->stats);
		GjSearchEnd(search);
		MemoryContextSwitchTo(old);
	}
	forget_entries(stream);
}

/*
 * Take part in a match that has been published.  If that has TIDs, return a set of those that this
 * process takes.
 */
static GjTidSet *
join_match(GjEntryStream *stream)
{
	const GjEntryRequest *request = &stream->request;
	const GjShare *share = request->share;
	GjSharedFind *shared = share->found;

	if (shared->kind == GJ_SHARED_TIDS)
		return GjTidsOpenShared(request->parent, &shared->tids, share->area, share->progress,
								share->arg);
	if (!request->entries)
		elog(ERROR, "a shared match has entries where TIDs are wanted");
	if (shared->columns != request->columns)
		elog(ERROR, "the processes of a plan need different columns of index \"%s\"",
			 RelationGetRelationName(request->index));
	prepare(stream, request->columns, request->limit);
	stream->shared = shared;
	stream->vacuum_epoch = shared->vacuum_epoch;
	stream->has_epoch = true;
	/* a function that is wrongly declared stable may have returned no keys in this process only */
	if (GjKeySetIsEmpty(request->keys) && shared->kind != GJ_SHARED_ENTRIES)
	{
		stream->phase = PHASE_DONE;
		return NULL;
	}
	if (shared->kind == GJ_SHARED_RANGES)
	{
		GjEntrySetForgetTop(stream->whole);
		stream->pieces.capacity = GjEntrySetCapacity(stream->whole);
	}
	else
		make_piece(stream);
	stream->wanted = request->keys;
	stream->nulls_left = request->keys->nulls;
	stream->phase = PHASE_TAKE;
	return NULL;
}

/*
 * Take the next step of a shared match.  Returns true if that has entries in shared memory.
 * Otherwise the phase tells how to find them, or that all steps are taken.
 */
static bool
take_step(GjEntryStream *stream, const GjEntrySet **set)
{
	GjSharedFind *shared = stream->shared;

	Assert(stream->phase == PHASE_TAKE);
	switch (shared->kind)
	{
		case GJ_SHARED_TIDS:
			Assert(false);
			break;
		case GJ_SHARED_ENTRIES:
			*set = stream->current = stream->piece;
			if (GjEntrySetTakeShared(&shared->entries, stream->request.share->area, stream->piece))
				return true;
			stream->phase = PHASE_DONE;
			break;
		case GJ_SHARED_RANGES:
			if (take_range(stream))
				stream->phase = PHASE_DEVICE;
			else
				end_keys(stream);
			break;
		case GJ_SHARED_PLACES:
			if (take_places(stream))
				stream->phase = PHASE_CPU;
			else
				end_keys(stream);
			break;
	}
	return false;
}

/*
 * Turn to the next range of keys, if any.  A device may be asked again even if the CPU has found
 * a part of the last range.
 */
static bool
take_range(GjEntryStream *stream)
{
	GjSharedRanges *shared = &stream->shared->ranges;
	GjPieces   *pieces = &stream->pieces;
	GjKeyRange	range;

	if (!GjRangesTake(shared, stream->request.keys, stream->refused, &range))
		return false;
	if (stream->piece != NULL && !stream->refused)
	{
		make_whole(stream);
		GjEntrySetFree(stream->piece);
		stream->piece = NULL;
	}
	GjPiecesBegin(pieces, range.first, range.end, pieces->capacity,
				  GjMaxRequests(stream->request.index, shared->index_entries), range.expected);
	if (range.expected > pieces->capacity && range.end - range.first > 1)
		GjPiecesDivide(pieces, (uint64) range.expected);
	return true;
}

/* Turn to the next interval of places, if any */
static bool
take_places(GjEntryStream *stream)
{
	GjSharedPlaces *shared = &stream->shared->places;
	const GjPlace last = GjLastPlace;
	uint64		step;
	uint64		next;

	if (!GjTakeStep(&shared->next, 1, shared->nsteps, &step, &next))
		return false;
	if (stream->search == NULL)
		begin_search(stream);
	GjSearchTurnTo(stream->search, &shared->starts[step],
				   next < shared->nsteps ? &shared->starts[next] : &last);
	return true;
}
