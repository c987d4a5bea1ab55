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

#include "match.h"
#include "mirror.h"

static void match(Relation index, const GjKeySet *keys, GjMatchTarget target,
				  const uint64 *epoch, GjMatchStats *stats);
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
	match(index, keys, (GjMatchTarget) {tids, NULL}, NULL, stats);
	end(&start, keys, stats);
}

/*
 * The same with what the entries hold.  The entry set comes back finished.
 *
 * The vacuum epoch is read before anything else: each entry is found later.  What a
 * device finds was taken from the pages earlier, and counts as found when its copy's
 * epoch was read; if that is another one, only the TIDs are kept.
 */
void
GjMatchEntries(Relation index, const GjKeySet *keys, GjEntrySet *entries, GjMatchStats *stats)
{
	GjIndexState state;
	instr_time	start;

	begin(&start, stats);
	GjIndexGetState(index, &state);
	entries->vacuum_epoch = state.vacuum_epoch;
	match(index, keys, (GjMatchTarget) {NULL, entries}, &entries->vacuum_epoch, stats);
	GjEntrySetFinish(entries, !stats->outdated);
	end(&start, keys, stats);
}

static void
match(Relation index, const GjKeySet *keys, GjMatchTarget target, const uint64 *epoch,
	  GjMatchStats *stats)
{
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
	else if (!GjMirrorMatch(index, &info, keys, target, epoch, stats))
	{
		/* what a device delivered before it failed comes again, and is not believed twice */
		stats->tids = found;
		stats->outdated = false;
		if (target.entries != NULL)
			GjEntrySetClear(target.entries);
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
