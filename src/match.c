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

static void match(Relation index, const GjKeySet *keys, GjTidSet *tids, GjMatchStats *stats);

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
	instr_time	end;

	INSTR_TIME_SET_CURRENT(start);
	match(index, keys, tids, stats);
	INSTR_TIME_SET_CURRENT(end);

	INSTR_TIME_ACCUM_DIFF(stats->elapsed, end, start);
	stats->searches++;
	stats->keys += keys->nkeys;
}

static void
match(Relation index, const GjKeySet *keys, GjTidSet *tids, GjMatchStats *stats)
{
	GjIndexInfo info;
	GjTailHits	hits = {0};
	uint64		found = stats->tids;

	stats->device = GjKernelName();
	stats->reason = NULL;
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
		GjSearchData(index, &info, keys, tids, stats);
	}
	else if (!GjMirrorMatch(index, &info, keys, tids, stats))
	{
		stats->tids = found;	/* what a device delivered before it failed comes again */
		GjSearchData(index, &info, keys, tids, stats);
	}
	GjTailHitsAdd(&hits, tids, stats);
}
