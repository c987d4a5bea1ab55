/*-------------------------------------------------------------------------
 *
 * stream.c
 *	  A match that delivers what the entries hold: from a device at once or key by key,
 *	  from the CPU place by place.
 *
 * A device is asked for all keys first.  If what it finds is more than the memory limit
 * allows, the keys, which are a sorted list, are cut into consecutive parts, and each is
 * asked for when the part before has been delivered.  Between
 * two requests nothing is held, of the device neither.
 *
 * Each part is a match of its own, made by the rules of device.c: tail pages, journal,
 * mirror, what that lacks.  Nothing is taken over from the part before but the vacuum
 * epoch.  So whatever happens between two of them, a part has all entries with its keys that
 * the snapshot may see: that proof asks only that the snapshot was there before.  It does
 * not matter whether the mirror was changed, dropped or loaded anew.  If a device has no
 * answer, or one key alone has too many entries, the CPU searches for the keys that are
 * left, which again is a match of its own.
 *
 * The CPU's answer comes in pieces, too: search.c proves that each entry is in one of them, though
 * folds may move entries meanwhile.  An interval of places is a part as well as a range of keys is,
 * in what follows.
 *
 * Claim: no row comes twice.  Its entry has one place, and so is in one part.  What must be
 * feared is another entry with the row's TID in another part, left over from a row that was there
 * earlier: fetched from the heap, it would give the row again, since that has a key of the set,
 * too.  So let R1 be a row, R2 one that has taken its TID since then, and let two parts have an
 * entry of each.  At the beginning the epoch was E.  The entry of R1 was found either in a page
 * that was part of the index after that, or in a mirror whose epoch is E, too; with any other
 * mirror the CPU goes on.  In the first case it was removed after the beginning; in the second
 * after a moment at which the epoch was E (device.c), and the bulk deletion that did it made more
 * of it.  Either way that raised the epoch after the beginning, and R2 was inserted still later,
 * and the snapshot, taken before, does not see it; nor R1, which was dead to everybody.  So
 * neither is a row of the answer.
 *
 * Whether one process asks for all parts, or several for some each (divide.c), makes no
 * difference to this, as long as they have the same snapshot and the same epoch E.
 *
 * (An answer for all keys whose mirror has another epoch is one set of TIDs, each once,
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
	ANSWER_NONE,				/* the device cannot, or may not */
	ANSWER_TOO_LARGE,			/* for the memory limit */
	ANSWER_THERE
} Answer;

/* What a device says beside its answer */
typedef struct Report
{
	uint64		nfound;			/* entries */
	uint64		nsearched;		/* entries that it looked at */
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
 * Begin a match that delivers what the entries hold.  Allocates in the current memory
 * context, also later; the key set must live as long as the match, which GjEntryMatchEnd() must
 * end before the context goes.
 *
 * The vacuum epoch is read before anything else: each entry is found later.  What a
 * device finds was taken from the pages earlier, and counts as found when its copy's
 * epoch was read; if that is another one, only TIDs are in whole then.
 *
 * A device's answer comes all at once, into the set whole, if its memory limit allows that; else
 * by GjEntryMatchAsk(), if it is worth it.  The CPU's comes piece by piece: the tail pages are
 * searched now, deltas with the first piece, runs as pieces are asked for.  The order is the one
 * that search.c asks for; how much time lies between does not matter.
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
 * Have a device answer for all keys, or find out whether it should in pieces
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
 * Have the next pieces be of the keys from first to before end, whatever the match was at.
 * They should have so many of an index's so many entries.
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
 * Get the next piece of a divided answer into the set, finished, from a device; false if
 * there is none, and then GjEntryMatchNext() has the rest, if any.  A piece may be empty.
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

	/* what a device delivered before it failed is not believed */
	GjEntrySetClear(whole);
	memcpy(before.answers, stats->answers, sizeof(before.answers));
	*stats = before;
	return answer;
}

/*
 * What a request to a device costs that has so many entries, in the planner's units
 */
double
GjRequestCost(double nentries)
{
	return gj_device_setup_cost + nentries * gj_device_search_cost;
}

/*
 * Tell with how many requests a device is still quicker than the CPU, as the planner sees it
 * (plan/cost.c)
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
 * The CPU finds what a device has left, if anything
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
	if (stats->reason == NULL)	/* too many to divide, or for more requests to be worth it */
		stats->reason = match->reason != NULL ? match->reason :
			GjFallbackText(GJ_FALLBACK_TOO_MANY);
	if (!match->refused)		/* else it has been counted why */
		stats->answers[GJ_FALLBACK_TOO_MANY]++;
	match->reason = stats->reason;
	end_search(match);
	if (left < keys->nkeys)
		keys = GjKeySetSlice(match->context, keys, next, left);
	match->wanted = keys;
}

/*
 * Forget the CPU's search before, if there was one, and what was found for it
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
 * A device's answer, which came at once, will not do for who asked, since it is outdated and
 * has only TIDs.  Have the CPU find the entries: its search has been prepared.
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
 * Get the next piece from the CPU, in no order; false if there are no more, and the last
 * one stays, unless the match is shared.  A piece may be empty.
 *
 * No TID is in two pieces, unless its row has died and another one has taken its place
 * meanwhile; then the vacuum epoch has moved.
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
 * End a match, whether all of it has been delivered or not.  Memory goes with its context, but the
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
 * Dividing the keys of a match among requests to a device, so that each answer fits
 * in memory.
 *
 * Keys ascend, so that a part of them is a range.  How many entries they have is known of
 * all together, from the answer that was too large, and of those that were asked for since
 * then.  The next request takes so many keys as should have three quarters of what fits: by
 * what is left, or by what the last ones had, whichever is more.  An answer that is still
 * too large is asked for again, with half of the keys or fewer; what is thrown away so costs
 * the device's time and the transfer, a hundredth of what its rows take above.
 *
 * A request takes its time however few entries it finds, since a device looks at all of
 * them.  So if there are to be many, the CPU, which goes through the index once, is quicker:
 * with the planner's costs and 20 M entries from 97 requests on, with the usual work_mem
 * some 40 million rows.  That is looked at before each request.  One key alone that has too
 * many entries cannot be divided; the CPU is left to find them, too.
 *
 * What a device says decides how many requests there are, and nothing else.  Each one takes
 * at least a key away, or is followed by one with half of the keys.
 *-------------------------------------------------------------------------
 */

/*
 * Begin, with one request for the keys from first to before end, which should have so many
 * entries
 *
 * capacity: so many entries fit in memory.  max_requests: with more, the CPU is quicker.
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
 * Tell whether there is a request to be made: for the keys from next on, as many as step says
 */
static bool
pieces_go_on(const GjPieces *pieces)
{
	return pieces->step > 0 && pieces->expected <= pieces->max_requests * pieces->target;
}

/*
 * Go to the next keys, after a request that was answered with nfound entries
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
 * Take fewer keys, after a request that found nfound entries, too many; none if it had one key
 *
 * Entries that do not come in order take more memory; then fewer must do.
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
 * Estimate how many keys have as many entries as are wanted; at least one, if there may be any
 */
static uint64
count_keys(const GjPieces *pieces, double entries_per_key, uint64 max)
{
	double		n = entries_per_key > 0 ? pieces->target / entries_per_key : (double) max;

	return n >= max ? max : Min(Max((uint64) n, 1), max);
}
