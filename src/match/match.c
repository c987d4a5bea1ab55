/*-------------------------------------------------------------------------
 *
 * match.c
 *	  Choosing between device and CPU for a match, and keeping its statistics.
 *
 * This is the entry point for scans that need TIDs.  The CPU always searches the tail pages:
 * they are few, and their rows are stored nowhere else.  Then the device, if there is one, is
 * asked; if it does not answer, for whatever reason, the CPU searches deltas and runs.  The
 * contract of both is in match.h.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "search.h"

static void match_index(Relation index, const GjKeySet *keys, bool may_be_stale, GjSearchMemo *memo,
						GjTidSet *tids, GjMatchStats *stats);
static void add_tail_hits(const GjTailHits *hits, const GjIndexInfo *info, GjMatchTarget target,
						  GjMatchStats *stats);

/*
 * Add to tids the TIDs of all entries of the index whose keys match the set.
 *
 * The set is finished; the caller has taken its snapshot before, and holds a lock on the index.
 * Callers that cannot recheck the key of every row must not set may_be_stale: then no mirror is
 * asked, whose TIDs may belong to other rows by now.  A set that is too large still becomes lossy.
 * memo is that of the scan, or NULL.  Adds the work done to stats.
 */
void
GjMatch(Relation index, const GjKeySet *keys, bool may_be_stale, GjSearchMemo *memo,
		GjTidSet *tids, GjMatchStats *stats)
{
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	GjMatchStatsBegin(stats);
	match_index(index, keys, may_be_stale, memo, tids, stats);
	GjMatchStatsEnd(stats, keys, start);
}

/*
 * Find the TIDs of all entries that have a NULL key, in an index that stores these
 *
 * They are on pages of their own, which no mirror has.
 */
void
GjMatchNulls(Relation index, GjTidSet *tids, GjMatchStats *stats)
{
	GjIndexInfo info;
	GjKeySet   *keys;
	GjSearch   *search;
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	GjIndexGetInfo(index, &info);
	GjInfoTurnToNulls(&info);
	keys = GjMakeAllCodes(CurrentMemoryContext, &info);
	search = GjSearchBegin(index, &info, keys, 0, NULL, NULL);
	GjSearchTids(search, tids, stats);
	GjSearchEnd(search);
	GjKeySetFree(keys);
	GjMatchStatsElapse(stats, start);
}

/*
 * Create the set of all codes, which is that of all entries of a part
 */
GjKeySet *
GjMakeAllCodes(MemoryContext parent, const GjIndexInfo *info)
{
	GjKeySet   *keys = GjKeySetCreate(parent, info->key_width);

	GjKeySetAddInterval(keys, PG_INT64_MIN, PG_INT64_MAX);
	GjKeySetFinish(keys);
	return keys;
}

/*
 * Return true if an index has entries of the rows with a NULL key
 */
bool
GjIndexStoresNulls(Relation index)
{
	GjIndexInfo info;

	GjIndexGetInfo(index, &info);
	return info.stores_nulls;
}

/*
 * Create the memo of a scan.  Only scans that search again need one.
 */
GjSearchMemo *
GjSearchMemoCreate(MemoryContext context)
{
	GjSearchMemo *memo = MemoryContextAlloc(context, sizeof(GjSearchMemo));

	memo->known = false;
	return memo;
}

static void
match_index(Relation index, const GjKeySet *keys, bool may_be_stale, GjSearchMemo *memo,
			GjTidSet *tids, GjMatchStats *stats)
{
	GjMatchTarget target = {tids, NULL};
	GjIndexInfo info;
	GjTailHits	hits = {0};
	GjSearch   *search;
	bool		ask = may_be_stale && GjKeySetIsList(keys);
	uint64		found = stats->tids;

	if (GjKeySetIsEmpty(keys))
	{
		stats->reason = GjFallbackText(GJ_FALLBACK_NO_KEYS);
		return;
	}

	GjIndexGetInfo(index, &info);
	if (!ask)
		GjMatchStatsFallback(stats, GjKeySetIsList(keys) ? GJ_FALLBACK_PARTIAL :
							 GJ_FALLBACK_INTERVALS);
	ask = ask && GjMirrorMayMatch(stats);
	if (ask && (memo == NULL || !memo->known))
		GjSearchTails(index, &info, keys, &hits, stats);
	if (ask && GjMirrorMatch(index, &info, keys, target, NULL, stats))
	{
		add_tail_hits(&hits, &info, target, stats);
		GjTailHitsForget(&hits);
		return;
	}

	stats->tids = found;		/* the CPU finds again what a device delivered before it failed */
	search = GjSearchBegin(index, &info, keys, 0, ask ? &hits : NULL, memo);
	GjSearchTids(search, tids, stats);
	GjSearchEnd(search);
}

/*
 * Add the hits of the tail pages to the target
 */
static void
add_tail_hits(const GjTailHits *hits, const GjIndexInfo *info, GjMatchTarget target,
			  GjMatchStats *stats)
{
	for (int i = 0; i < hits->nrows; i++)
	{
		const char *row = hits->rows + i * info->row_width;
		ItemPointerData tid;

		(void) GjRowGetKey(info, row, &tid);
		if (target.tids != NULL)
			GjTidSetAddOne(target.tids, &tid);
		else
			GjEntrySetAddRow(target.entries, info, row);
	}
	stats->tids += hits->nrows;
}

/*
 * Add the statistics of another match, or of several
 */
void
GjMatchStatsAdd(GjMatchStats *sum, const GjMatchStats *stats)
{
	if (GjMatchStatsTells(sum, stats))
	{
		sum->device = stats->device;
		sum->reason = stats->reason;
	}
	sum->searches += stats->searches;
	sum->keys += stats->keys;
	sum->ranges += stats->ranges;
	sum->keys_elsewhere += stats->keys_elsewhere;
	sum->entries += stats->entries;
	sum->device_entries += stats->device_entries;
	sum->stale |= stats->stale;
	sum->pages += stats->pages;
	sum->delta_pages += stats->delta_pages;
	sum->run_pages_read += stats->run_pages_read;
	sum->run_pages += stats->run_pages;
	sum->runs = Max(sum->runs, stats->runs);
	sum->pages_pushed += stats->pages_pushed;
	sum->tids += stats->tids;
	sum->filtered += stats->filtered;
	sum->device_filter |= stats->device_filter;
	sum->pieces += stats->pieces;
	sum->limited += stats->limited;
	sum->reductions += stats->reductions;
	sum->reduce_failures += stats->reduce_failures;
	sum->reduced_rows += stats->reduced_rows;
	sum->reduced_groups += stats->reduced_groups;
	sum->reduced_bytes += stats->reduced_bytes;
	sum->left_out += stats->left_out;
	INSTR_TIME_ADD(sum->set_elapsed, stats->set_elapsed);
	INSTR_TIME_ADD(sum->elapsed, stats->elapsed);
	sum->request_ms += stats->request_ms;
	sum->set_ms += stats->set_ms;
	sum->kernel_ms += stats->kernel_ms;
	sum->transfer_ms += stats->transfer_ms;
	for (int i = 0; i < GJ_FALLBACK_COUNT; i++)
		sum->answers[i] += stats->answers[i];
}

/*
 * Record why a device does not answer
 */
void
GjMatchStatsFallback(GjMatchStats *stats, GjFallback why)
{
	stats->reason = GjFallbackText(why);
	stats->answers[why]++;
}

/*
 * Set the counters of an index that a match knows
 *
 * One process may read pages that another one has counted as existing: the number of skipped pages
 * is only right in the sum over all processes, modulo 2^64.
 */
void
GjMatchStatsToUse(const GjMatchStats *stats, GjIndexUse *use)
{
	uint64	   *n = use->n;

	n[GJ_USE_SEARCHES] = stats->searches;
	n[GJ_USE_KEYS] = stats->keys;
	n[GJ_USE_PAGES_READ] = stats->pages;
	n[GJ_USE_PAGES_SKIPPED] = stats->run_pages - stats->run_pages_read;
	n[GJ_USE_PAGES_PUSHED] = stats->pages_pushed;
	n[GJ_USE_TIDS] = stats->tids;
	n[GJ_USE_REDUCTIONS] = stats->reductions;
	n[GJ_USE_REDUCED_ROWS] = stats->reduced_rows;
	n[GJ_USE_REDUCED_GROUPS] = stats->reduced_groups;
	n[GJ_USE_REDUCE_FAILURES] = stats->reduce_failures;
	n[GJ_USE_NOT_SENT] = stats->reduced_rows + stats->limited;
	n[GJ_USE_LEFT_OUT] = stats->left_out;
	n[GJ_USE_SEARCH_US] = INSTR_TIME_GET_MICROSEC(stats->elapsed);
	n[GJ_USE_WAIT_US] = (uint64) (stats->request_ms * 1000.0);
	n[GJ_USE_DEVICE_US] = (uint64) ((stats->set_ms + stats->kernel_ms + stats->transfer_ms) *
									1000.0);
	for (int i = 0; i < GJ_FALLBACK_COUNT; i++)
		n[GJ_USE_ANSWERED + i] = stats->answers[i];
}
