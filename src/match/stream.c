/*-------------------------------------------------------------------------
 *
 * stream.c
 *	  A match that delivers the entries' columns: from a device all at once or by ranges of
 *	  keys, from the CPU by intervals of places.
 *
 * We ask a device for all keys first.  If its hits exceed the memory limit, the keys, which
 * are a sorted list, are cut into consecutive parts, and each part is requested when the
 * previous one has been delivered.  Between two requests the match holds nothing, not even
 * on the device.
 *
 * Each part is a match of its own, made by the rules of device.c: tail pages, journal,
 * mirror, the pages that the mirror lacks.  It takes over only the vacuum epoch from the
 * previous part.  So whatever happens between two parts, a part has all entries with its keys that
 * the snapshot may see: that proof only needs that the snapshot was taken before.  It does
 * not matter whether the mirror was changed, dropped or reloaded.  If a device does not
 * answer, or one key alone has too many entries, the CPU searches for the remaining keys,
 * which again is a match of its own.
 *
 * The CPU's answer comes in pieces, too: search.c proves that each entry is in one of them, though
 * folds may move entries meanwhile.  In the following, an interval of places is a part just as a
 * range of keys is.
 *
 * Claim: no row comes twice.  Its entry has one place, and so is in one part.  The danger is a
 * different entry with the row's TID in another part, left over from a row that had this TID
 * earlier: fetching it from the heap would return the row again, since that has a key of the set,
 * too.  So let R1 be a row, R2 one that has reused its TID since then, and let two parts have an
 * entry of each.  At the beginning the epoch was E.  The entry of R1 was found either in a page
 * that was part of the index after that, or in a mirror whose epoch is E, too; with any other
 * mirror the CPU continues the search.  In the first case the entry was removed after the
 * beginning; in the second after a moment at which the epoch was E (device.c), and the bulk
 * deletion that removed it raised the epoch above E.  Either way the epoch was raised after the
 * beginning, and R2 was inserted still later, so the snapshot, taken before, does not see R2.  It
 * does not see R1 either, which was dead to all snapshots.  So the answer has neither row.
 *
 * This holds whether one process requests all parts, or several processes some each (divide.c),
 * as long as they have the same snapshot and the same epoch E.
 *
 * (If the mirror has another epoch, an answer for all keys is one set of TIDs without duplicates,
 * and the heap decides on all of them.)
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "optimizer/optimizer.h"
#include "storage/bufmgr.h"

#include "base/gpujoin.h"
#include "mirror/mirror.h"
#include "parts.h"

typedef enum Answer
{
	ANSWER_NONE,				/* the device cannot or must not answer */
	ANSWER_TOO_LARGE,			/* the answer exceeds the memory limit */
	ANSWER_THERE
} Answer;

/* Counts that come with a device's answer */
typedef struct Report
{
	uint64		nfound;			/* number of entries found */
	uint64		nsearched;		/* number of entries searched */
} Report;

static void ask_for_all(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats);
static Answer ask_for_piece(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats);
static Answer ask_device(GjEntryMatch *match, const GjKeySet *keys, const GjTailHits *tails,
						 GjEntrySet *whole, GjMatchStats *stats, Report *report);
static void search_for_rest(GjEntryMatch *match, GjMatchStats *stats);
static void end_search(GjEntryMatch *match);
static void begin_search(GjEntryMatch *match);
static uint64 count_keys(const GjPieces *pieces, double entries_per_key, uint64 max);
static void pieces_begin(GjPieces *pieces, uint64 first, uint64 end, uint64 capacity,
						 double max_requests, double expected);
static bool pieces_go_on(const GjPieces *pieces);
static void pieces_took(GjPieces *pieces, uint64 nfound);
static void pieces_divide(GjPieces *pieces, uint64 nfound);

/*
 * Begin a match that delivers the entries' columns.  Allocates in the current memory
 * context, also later; the key set must live as long as the match, and the caller must call
 * GjEntryMatchEnd() before the context is deleted.
 *
 * We read the vacuum epoch first, so that each entry is found later.  A device's entries were
 * copied from the pages earlier, and count as found when the epoch of the copy was read; if that
 * epoch is different, "whole" receives only TIDs.
 *
 * A device's answer comes all at once, into the set "whole", if that set's memory limit allows it;
 * otherwise from GjEntryMatchAsk(), if that pays.  The CPU's answer comes piece by piece: we search
 * the tail pages now, the deltas with the first piece, and the runs as pieces are requested.  This
 * is the order that search.c requires; the time between the steps does not matter.
 */
void
GjEntryMatchBegin(GjEntryMatch *match, Relation index, const GjKeySet *keys,
				  GjEntrySet *whole, GjMatchStats *stats)
{
	GjIndexState state;
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	GjMatchStatsBegin(stats);
	memset(match, 0, sizeof(*match));
	match->index = index;
	match->keys = keys;
	match->context = CurrentMemoryContext;
	match->limit = whole->memory_limit;
	GjIndexGetInfo(index, &match->info);
	GjIndexGetState(index, &state);
	match->vacuum_epoch = state.vacuum_epoch;
	match->tails.sequence = state.sequence;

	if (keys->nkeys == 0 && !keys->complement)
	{
		stats->reason = GjFallbackText(GJ_FALLBACK_NO_KEYS);
		match->phase = GJ_ENTRIES_DONE;
	}
	else
	{
		GjSearchTails(index, &match->info, keys, &match->tails, stats);
		match->tails_known = true;
		if (keys->complement)
			GjMatchStatsFallback(stats, GJ_FALLBACK_COMPLEMENT);
		else
			ask_for_all(match, whole, stats);
		match->wanted = keys;
	}
	GjMatchStatsEnd(stats, keys, start);
}

/*
 * Have a device answer for all keys, or decide whether it should answer in pieces
 */
static void
ask_for_all(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats)
{
	const GjKeySet *keys = match->keys;
	Report		report;

	switch (ask_device(match, keys, &match->tails, whole, stats, &report))
	{
		case ANSWER_THERE:
			match->phase = GJ_ENTRIES_AT_ONCE;
			break;
		case ANSWER_TOO_LARGE:
			pieces_begin(&match->pieces, 0, keys->nkeys, GjEntrySetCapacity(whole),
						 GjMaxRequests(match->index, report.nsearched),
						 (double) report.nfound);
			pieces_divide(&match->pieces, report.nfound);
			if (pieces_go_on(&match->pieces))
				match->phase = GJ_ENTRIES_ASK;
			else
				stats->answers[GJ_FALLBACK_TOO_MANY]++;
			break;
		case ANSWER_NONE:
			break;
	}
}

/*
 * Deliver the keys from first to before end next, whatever the match's position is.  The caller
 * expects "expected" hits among the index's nentries entries.
 */
void
GjEntryMatchTurnTo(GjEntryMatch *match, uint64 first, uint64 end, double expected,
				   uint64 nentries)
{
	GjPieces   *pieces = &match->pieces;

	match->phase = GJ_ENTRIES_ASK;
	pieces_begin(pieces, first, end, pieces->capacity, GjMaxRequests(match->index, nentries),
				 expected);
	if (expected > pieces->capacity && end - first > 1)
		pieces_divide(pieces, (uint64) expected);
}

/*
 * Load the next piece of a divided answer from a device into the set, and finish the set.  Returns
 * false after the last piece; GjEntryMatchNext() then delivers the rest, if any.  A piece may be
 * empty.
 */
bool
GjEntryMatchAsk(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats)
{
	MemoryContext old = MemoryContextSwitchTo(match->context);
	Answer		answer = ANSWER_NONE;
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	while (!match->refused && pieces_go_on(&match->pieces))
	{
		answer = ask_for_piece(match, whole, stats);
		match->refused = answer == ANSWER_NONE;
		if (answer == ANSWER_THERE)
			break;
	}
	if (answer != ANSWER_THERE)
		search_for_rest(match, stats);
	else if (match->reason != NULL)
	{
		stats->device = GjKernelName();
		stats->reason = match->reason;
	}
	MemoryContextSwitchTo(old);
	GjMatchStatsElapse(stats, start);
	return answer == ANSWER_THERE;
}

static Answer
ask_for_piece(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats)
{
	GjPieces   *pieces = &match->pieces;
	GjKeySet   *keys = GjKeySetSlice(match->context, match->keys, pieces->next, pieces->step);
	GjTailHits	tails = {0};
	Report		report;
	Answer		answer;

	GjEntrySetClear(whole);
	GjSearchTails(match->index, &match->info, keys, &tails, stats);
	answer = ask_device(match, keys, &tails, whole, stats, &report);
	if (answer == ANSWER_THERE)
	{
		pieces_took(pieces, report.nfound);
		stats->pieces++;
	}
	else if (answer == ANSWER_TOO_LARGE)
		pieces_divide(pieces, report.nfound);
	if (tails.rows != NULL)
		pfree(tails.rows);
	GjKeySetFree(keys);
	return answer;
}

/*
 * Have a device answer for some keys, whose hits on tail pages are known
 */
static Answer
ask_device(GjEntryMatch *match, const GjKeySet *keys, const GjTailHits *tails,
		   GjEntrySet *whole, GjMatchStats *stats, Report *report)
{
	GjMatchTarget target = {NULL, whole};
	GjMatchStats before = *stats;
	Answer		answer = ANSWER_NONE;

	if (!GjMirrorMatch(match->index, &match->info, keys, target, &match->vacuum_epoch, stats))
		before.reason = stats->reason;
	else if (match->phase == GJ_ENTRIES_ASK && stats->outdated)
	{
		before.reason = "VACUUM has been there between two pieces of the answer";
		stats->answers[GJ_FALLBACK_VACUUMED]++;
	}
	else
	{
		for (int i = 0; i < tails->nrows; i++)
			GjEntrySetAddRow(whole, &match->info, tails->rows + i * match->info.row_width);
		GjEntrySetFinish(whole);
		report->nsearched = stats->entries - before.entries;
		if (!whole->gave_up)
		{
			report->nfound = GjEntrySetFound(whole);
			stats->tids = before.tids + report->nfound;
			stats->filtered += whole->ndropped;
			return ANSWER_THERE;
		}
		report->nfound = stats->tids - before.tids;
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
 * Return the cost of a request to a device that has nentries entries, in the planner's units
 */
double
GjRequestCost(double nentries)
{
	return gj_device_setup_cost + nentries * gj_device_search_cost;
}

/*
 * Return the number of requests up to which a device is quicker than the CPU, by the planner's
 * costs (plan/cost.c)
 */
double
GjMaxRequests(Relation index, uint64 nentries)
{
	double		request = GjRequestCost(nentries);
	double		search = gj_setup_cost + nentries * gj_search_cost +
		RelationGetNumberOfBlocks(index) * seq_page_cost;

	return gj_force || request <= 0 ? INFINITY : search / request;
}

/*
 * Let the CPU search for the keys that a device has left, if any
 */
static void
search_for_rest(GjEntryMatch *match, GjMatchStats *stats)
{
	uint64		next = match->pieces.next;
	uint64		left = match->pieces.end - next;
	const GjKeySet *keys = match->keys;

	match->phase = left > 0 ? GJ_ENTRIES_SEARCH : GJ_ENTRIES_DONE;
	if (left == 0)
		return;
	stats->device = GjKernelName();
	if (stats->reason == NULL)	/* one key has too many, or more requests do not pay */
		stats->reason = match->reason != NULL ? match->reason :
			GjFallbackText(GJ_FALLBACK_TOO_MANY);
	if (!match->refused)		/* otherwise the reason has been counted */
		stats->answers[GJ_FALLBACK_TOO_MANY]++;
	match->reason = stats->reason;
	end_search(match);
	if (left < keys->nkeys)
		keys = GjKeySetSlice(match->context, keys, next, left);
	match->wanted = keys;
}

/*
 * Forget the CPU's previous search, if any, and the hits on tail pages found for it
 */
static void
end_search(GjEntryMatch *match)
{
	if (match->search != NULL)
		GjSearchEnd(match->search);
	match->search = NULL;
	GjTailHitsForget(&match->tails);
	match->tails_known = false;
	if (match->wanted != NULL && match->wanted != match->keys)
		GjKeySetFree(unconstify(GjKeySet *, match->wanted));
	match->wanted = NULL;
}

/*
 * Reject a device's answer that came all at once, because it is outdated and has only TIDs, which
 * are of no use to the caller.  The CPU finds the entries instead; its search has been prepared.
 */
void
GjEntryMatchRefuse(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats)
{
	Assert(match->phase == GJ_ENTRIES_AT_ONCE);
	match->phase = GJ_ENTRIES_SEARCH;
	stats->tids -= GjEntrySetCount(whole);
	stats->device = GjKernelName();
	GjMatchStatsFallback(stats, GJ_FALLBACK_VACUUMED);
	GjEntrySetClear(whole);
}

/*
 * Load the next piece from the CPU, in no order.  Returns false after the last piece, which stays
 * in the set unless the match is shared.  A piece may be empty.
 *
 * No TID is in two pieces, unless its row has died and another row has reused the TID
 * meanwhile; then the vacuum epoch has changed.
 */
bool
GjEntryMatchNext(GjEntryMatch *match, GjEntrySet *piece, GjMatchStats *stats)
{
	instr_time	start;

	if (match->phase == GJ_ENTRIES_DONE)
		return false;

	INSTR_TIME_SET_CURRENT(start);
	GjEntrySetClear(piece);
	if (match->search == NULL)
		begin_search(match);
	if (match->shared != NULL && GjSearchIsDone(match->search) && !GjSearchTake(match))
		match->phase = GJ_ENTRIES_DONE;
	else
	{
		GjSearchPiece(match->search, piece, stats);
		if (match->shared == NULL && GjSearchIsDone(match->search))
			match->phase = GJ_ENTRIES_DONE;
	}
	GjMatchStatsElapse(stats, start);
	return match->shared == NULL || match->phase != GJ_ENTRIES_DONE;
}

/*
 * End a match, whether all of it has been delivered or not.  Its context frees the memory, but the
 * search may have a temporary file.
 */
void
GjEntryMatchEnd(GjEntryMatch *match)
{
	if (match->search != NULL)
		GjSearchEnd(match->search);
	match->search = NULL;
	match->phase = GJ_ENTRIES_DONE;
}

static void
begin_search(GjEntryMatch *match)
{
	MemoryContext old = MemoryContextSwitchTo(match->context);
	const GjPlace nowhere = GjLastPlace;

	match->search = GjSearchBegin(match->index, &match->info, match->wanted, match->limit,
								  match->tails_known ? &match->tails : NULL);
	match->tails_known = false;
	if (match->shared != NULL)
		GjSearchTurnTo(match->search, &nowhere, &nowhere);
	MemoryContextSwitchTo(old);
}

/*-------------------------------------------------------------------------
 * Pieces
 *
 * Divide the keys of a match among requests to a device, so that each answer fits in
 * memory.
 *
 * Keys ascend, so a part of them is a range.  We know the number of entries of all keys
 * together, from the answer that was too large, and of the keys requested since then.  The
 * next request takes as many keys as should have three quarters of the entries that fit, by the
 * entries per key of the remaining keys or of the last request, whichever is higher.  If an
 * answer is still too large, we repeat the request with half of the keys or fewer; discarding
 * the answer costs the device's time and the transfer, a hundredth of the time that the plan
 * above takes for its rows.
 *
 * A device searches all entries for each request, however few it finds.  So if many requests
 * are needed, the CPU, which reads the index once, is quicker: with the planner's costs and
 * 20 M entries from 97 requests on, with the usual work_mem some 40 million rows.  We check
 * that before each request.  A single key that has too many entries cannot be divided; the CPU
 * finds its entries, too.
 *
 * The device's counts decide only the number of requests.  Each request removes at least one
 * key, or is followed by one with half of the keys.
 *-------------------------------------------------------------------------
 */

/*
 * Begin with one request for the keys from first to before end, which should have "expected"
 * entries
 *
 * capacity is the number of entries that fit in memory; with more than max_requests requests, the
 * CPU is quicker.
 */
static void
pieces_begin(GjPieces *pieces, uint64 first, uint64 end, uint64 capacity, double max_requests,
			 double expected)
{
	pieces->end = end;
	pieces->next = first;
	pieces->step = end - first;
	pieces->expected = expected;
	pieces->capacity = capacity;
	pieces->target = Max(capacity / 4 * 3, 1);
	pieces->max_requests = max_requests;
}

/*
 * Return true if a request should be made, for the next "step" keys
 */
static bool
pieces_go_on(const GjPieces *pieces)
{
	return pieces->step > 0 && pieces->expected <= pieces->max_requests * pieces->target;
}

/*
 * Advance to the next keys, after a request that was answered with nfound entries
 */
static void
pieces_took(GjPieces *pieces, uint64 nfound)
{
	double		last = (double) nfound / pieces->step;
	uint64		left;

	pieces->next += pieces->step;
	pieces->expected = Max(pieces->expected - nfound, 0.0);
	left = pieces->end - pieces->next;
	if (pieces->expected <= pieces->target)
		pieces->step = left;
	else
		pieces->step = count_keys(pieces, Max(last, pieces->expected / left), left);
}

/*
 * Take fewer keys, after a request that found nfound entries, too many for memory; none if it had
 * only one key
 *
 * Entries that arrive out of order take more memory; in that case we aim at fewer entries.
 */
static void
pieces_divide(GjPieces *pieces, uint64 nfound)
{
	if (nfound <= pieces->capacity)
		pieces->target = Max(Min(pieces->target, nfound / 2), 1);
	pieces->expected = Max(pieces->expected, (double) nfound);
	pieces->step = count_keys(pieces, (double) nfound / pieces->step, pieces->step / 2);
}

/*
 * Estimate how many keys have the target number of entries; at least one, unless max is 0
 */
static uint64
count_keys(const GjPieces *pieces, double entries_per_key, uint64 max)
{
	double		n = entries_per_key > 0 ? pieces->target / entries_per_key : (double) max;

	return n >= max ? max : Min(Max((uint64) n, 1), max);
}
