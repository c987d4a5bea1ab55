/*-------------------------------------------------------------------------
 *
 * match.c
 *	  Deciding who answers a match, and counting what it took.
 *
 * Scans ask here and nowhere else.  The tail pages are searched on the CPU whoever
 * answers: they are few, and what is on them stands nowhere else.  Then the device is
 * asked; whenever it has no answer, for whatever reason, the CPU searches the data
 * pages.  Both owe the same: match.h says what.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"

#include "match.h"
#include "mirror.h"

static void match(Relation index, const GjKeySet *keys, GjTidSet *tids, GjMatchStats *stats);
static bool ask_device(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats);
static void next_piece(GjEntryMatch *match, GjEntrySet *piece, GjMatchStats *stats);
static void mark_tails(GjEntryMatch *match, const GjEntrySet *piece);
static void add_tails(GjEntryMatch *match, GjEntrySet *piece, GjMatchStats *stats);
static void begin(instr_time *start, GjMatchStats *stats);
static void end(instr_time *start, const GjKeySet *keys, GjMatchStats *stats);

/*
 * Add to tids all entries of the index that have a key that the set wants.
 *
 * The set is finished; the caller's snapshot was taken before, and it holds a lock
 * on the index.  Adds to stats what was done.
 */
void
GjMatch(Relation index, const GjKeySet *keys, GjTidSet *tids, GjMatchStats *stats)
{
	instr_time	start;

	begin(&start, stats);
	match(index, keys, tids, stats);
	end(&start, keys, stats);
}

/*
 * Begin a match that delivers what the entries hold.  Allocates in the current memory
 * context; the key set must live as long as the match.
 *
 * The vacuum epoch is read before anything else: each entry is found later.  What a
 * device finds was taken from the pages earlier, and counts as found when its copy's
 * epoch was read; if that is another one, only TIDs are in whole then.
 *
 * A device's answer comes all at once, into the set whole, if its memory limit allows that
 * (at_once).  The CPU's comes piece by piece: the tail pages are searched now, the data
 * pages, up to the length that the index has now, as pieces are asked for.  The order is
 * the one that search.c asks for; how much time lies between does not matter.
 */
void
GjEntryMatchBegin(GjEntryMatch *match, Relation index, const GjKeySet *keys,
				  GjEntrySet *whole, GjMatchStats *stats)
{
	GjIndexState state;
	instr_time	start;

	begin(&start, stats);
	memset(match, 0, sizeof(*match));
	match->index = index;
	match->keys = keys;
	GjIndexGetInfo(index, &match->info);
	GjIndexGetState(index, &state);
	match->vacuum_epoch = state.vacuum_epoch;

	if (keys->nkeys == 0 && !keys->complement)
	{
		stats->reason = GjFallbackText(GJ_FALLBACK_NO_KEYS);
		match->done = true;
	}
	else
	{
		GjSearchTails(index, &match->info, keys, &match->tails, stats);
		if (keys->complement)
			stats->reason = "the keys are those of no list";
		else
			match->at_once = ask_device(match, whole, stats);
		match->next = match->info.first_data;
		match->end = RelationGetNumberOfBlocks(index);
		match->tail_met = palloc0(match->tails.nrows + 1);
	}
	end(&start, keys, stats);
}

/*
 * Have a device answer; false if it cannot, or if there is not enough memory
 */
static bool
ask_device(GjEntryMatch *match, GjEntrySet *whole, GjMatchStats *stats)
{
	GjMatchTarget target = {NULL, whole};
	GjMatchStats before = *stats;

	if (GjMirrorMatch(match->index, &match->info, match->keys, target, &match->vacuum_epoch,
					  stats))
	{
		for (int i = 0; i < match->tails.nrows; i++)
			GjEntrySetAddRow(whole, &match->info,
							 match->tails.rows + i * match->info.row_width);
		GjEntrySetFinish(whole, !stats->outdated);
		if (whole->tids != NULL || stats->outdated || GjEntrySetCount(whole) == 0)
		{
			stats->tids = before.tids + GjEntrySetCount(whole);
			return true;
		}
		before.reason = "there are more entries than fit in memory";
	}
	else
		before.reason = stats->reason;

	/* what a device delivered before it failed is not believed */
	GjEntrySetClear(whole);
	*stats = before;
	return false;
}

/*
 * Get the next piece, in heap order; false if there are no more, and the last one stays,
 * unless the match is shared.  A piece may be empty.
 *
 * No TID is in two pieces, unless its row has died and another one has taken its place
 * meanwhile; then the vacuum epoch has moved.
 */
bool
GjEntryMatchNext(GjEntryMatch *match, GjEntrySet *piece, GjMatchStats *stats)
{
	instr_time	start;
	instr_time	now;

	if (match->done)
		return false;

	INSTR_TIME_SET_CURRENT(start);
	GjEntrySetClear(piece);
	if (match->shared != NULL)
		match->done = !GjSearchNext(match, piece, stats);
	else
		next_piece(match, piece, stats);
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_ACCUM_DIFF(stats->elapsed, now, start);
	return match->shared == NULL || !match->done;
}

static void
next_piece(GjEntryMatch *match, GjEntrySet *piece, GjMatchStats *stats)
{
	GjMatchTarget target = {NULL, piece};

	if (match->next < match->end)
	{
		match->next = GjSearchBlocks(match->index, &match->info, match->keys, match->next,
									 match->end, match->end - match->info.first_data, target,
									 stats);
		GjEntrySetFinish(piece, true);
		mark_tails(match, piece);
	}
	if (match->next == match->end && GjEntrySetHasRoom(piece, match->tails.nrows))
		add_tails(match, piece, stats);
}

/*
 * Note which of the tail pages' entries have moved to a data page before that was
 * searched: they must not come again
 */
static void
mark_tails(GjEntryMatch *match, const GjEntrySet *piece)
{
	for (int i = 0; i < match->tails.nrows; i++)
	{
		if (!match->tail_met[i])
			match->tail_met[i] = GjEntrySetHasTid(piece, GjTailHitTid(&match->tails,
																	  &match->info, i));
	}
}

/*
 * Add the others; that is all
 */
static void
add_tails(GjEntryMatch *match, GjEntrySet *piece, GjMatchStats *stats)
{
	for (int i = 0; i < match->tails.nrows; i++)
	{
		if (match->tail_met[i])
			continue;
		GjEntrySetAddRow(piece, &match->info, match->tails.rows + i * match->info.row_width);
		stats->tids++;
	}
	GjEntrySetFinish(piece, true);
	match->done = true;
}

static void
match(Relation index, const GjKeySet *keys, GjTidSet *tids, GjMatchStats *stats)
{
	GjMatchTarget target = {tids, NULL};
	GjIndexInfo info;
	GjTailHits	hits = {0};
	uint64		found = stats->tids;

	if (keys->nkeys == 0 && !keys->complement)
	{
		stats->reason = GjFallbackText(GJ_FALLBACK_NO_KEYS);
		return;
	}

	GjIndexGetInfo(index, &info);
	GjSearchTails(index, &info, keys, &hits, stats);
	if (keys->complement)
	{
		/* a device takes lists only */
		stats->reason = "the keys are those of no list";
		GjSearchData(index, &info, keys, target, stats);
	}
	else if (!GjMirrorMatch(index, &info, keys, target, NULL, stats))
	{
		stats->tids = found;	/* what a device delivered before it failed comes again */
		GjSearchData(index, &info, keys, target, stats);
	}
	GjTailHitsAdd(&hits, &info, target, stats);
}

static void
begin(instr_time *start, GjMatchStats *stats)
{
	INSTR_TIME_SET_CURRENT(*start);
	stats->device = GjKernelName();
	stats->reason = NULL;
	stats->outdated = false;
}

static void
end(instr_time *start, const GjKeySet *keys, GjMatchStats *stats)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_ACCUM_DIFF(stats->elapsed, now, *start);
	stats->searches++;
	stats->keys += keys->nkeys;
}

/*
 * Add what another match, or several, did
 */
void
GjMatchStatsAdd(GjMatchStats *sum, const GjMatchStats *stats)
{
	sum->searches += stats->searches;
	sum->keys += stats->keys;
	sum->entries += stats->entries;
	sum->device_entries += stats->device_entries;
	sum->stale |= stats->stale;
	sum->pages += stats->pages;
	sum->pages_skipped += stats->pages_skipped;
	sum->pages_pushed += stats->pages_pushed;
	sum->tids += stats->tids;
	INSTR_TIME_ADD(sum->set_elapsed, stats->set_elapsed);
	INSTR_TIME_ADD(sum->elapsed, stats->elapsed);
	sum->request_ms += stats->request_ms;
	sum->set_ms += stats->set_ms;
	sum->kernel_ms += stats->kernel_ms;
	sum->transfer_ms += stats->transfer_ms;
	if (stats->searches > 0)
	{
		sum->device = stats->device;
		sum->reason = stats->reason;
	}
}
