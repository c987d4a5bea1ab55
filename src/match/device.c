/*-------------------------------------------------------------------------
 *
 * device.c
 *	  Matching against a mirror: proving that the answer is complete, searching the pages
 *	  that the mirror lacks, and falling back to the CPU.
 *
 * A mirror is a copy of an index's data pages in device memory.  A stale entry in it
 * costs a recheck; a missing one would be a wrong answer.  We cannot rely on notifications
 * of changes to an index: a notification can be lost, and on a standby replay changes the
 * pages without running any code of ours.  So every match proves from the index's own pages
 * that it misses no entry.
 *
 * A mirror's promise consists of a sequence number S, the pages that were open at S, and a list
 * version L.  The copy of each page that is live by the lists of L has all changes to the page
 * with numbers up to S, and no other copy has any entry.  The promise is true after a load or a
 * synchronization, because these read S, L and the open pages first, at one moment, and the pages
 * afterwards: a change numbered S or less was made while both its page and the metapage were
 * locked, so it was on the page before the metapage could be read with S.  If L differs from the
 * previous promise's, the synchronization copies pages published since then whatever their number
 * is, and empties the copies of those that are not live any more; it knows which these are, or
 * visits all pages (mirror/load.c, "Missing pages").  At the end L is compared with the index's.
 * If that has changed, pages may have been freed and reused while they were read, and the mirror
 * makes no promise until the next synchronization.  The promise stays true for as long as the
 * index's list version is L.  First, a copy is only replaced by one with a higher change counter,
 * and the number drawn last is the page's counter.  Second, a page that is live by L stays live as
 * long as the index's list version is L, so a process that empties its copy, following newer
 * lists, does so after that.
 *
 * A match takes these steps, in this order:
 *
 *	  1. The caller takes its snapshot, and a share lock on the index.
 *	  2. The CPU searches all tail pages.
 *	  3. Read metapage, journal, metapage (GjIndexGetJournal).
 *	  4. Read the promise (S, open pages, L) from the table of mirrors; L must be the index's of 3.
 *	  5. List the pages that the mirror lacks: open at S, or journaled with a number above S.
 *	  6. The device matches on the mirror, and the CPU searches the pages that it lacks.
 *	  7. Read the metapage once more.  If its list version is not L, discard the answer.
 *
 * Claim: a match finds every entry that the snapshot may see.  The entry was in the index before
 * 2.  If it was on its tail when 2 read that, it is found there.  Otherwise it had been moved to a
 * data page before, and perhaps by folds to others.  Let P be the page where it was in 3.  P was
 * live then, and because of 7 the lists were the same from the moment of S until all pages had
 * been read.  So only a deletion can remove the entry from P, and that happens only once no
 * snapshot can see it.  If P is of a run, the run was published before L was read, and the copy of
 * P has the entry.  If P is of a delta, the entry came there by a flush with a number q.  If q <=
 * S, the copy of P has it.  If q > S, then either P was open at S, and is searched because of
 * that; or P was opened after S, by a change with a number o, S < o < q, entered in the journal
 * before 3.  If that change is still in the ring, P is searched.  If it has left the ring, o is at
 * or below the floor, which was read after the journal; so the floor is above S, and we know that
 * the journal does not reach back far enough.  In that case, or if the list version read in 3 is
 * not L, the mirror is synchronized first, or the CPU searches everything.
 *
 * The mirror may change during a match.  Pages that other processes push meanwhile only
 * make it newer, or 7 detects the change.  If the mirror is dropped, the service reports that the
 * column is gone.  If the device's memory is lost, the column's epoch is not the service's.  If
 * the index is rebuilt, the build id in the metapage, read in 3, is not the mirror's; while we hold
 * the index's lock, only our own session can rebuild it.  The same holds on a standby (lemma L9 of
 * src/README).
 *
 * Entries deleted from the index stay in the copy until the page is pushed again; match.h
 * says what an entry costs that should not have been found.
 *
 * Scans that return entries without visiting the heap (match/visible.c) need more: no entry
 * may have a TID that now belongs to another row.  Therefore the promise includes the vacuum
 * epoch E, read at the same moment as S and the open pages.  By lemma L6, if the index's epoch is
 * still E when the answer is used, each entry that the device found in any copy was in the index at
 * or after the moment of S, and no bulk deletion that removed it has finished.  So the entry's TID
 * is not free, and it leads to the row that the entry was made for.
 *
 * TID, key and INCLUDE columns of an entry come from one copy of its page, whatever is pushed
 * while the device works (cuda/border/gpujoin_device.h, ORDER).  So two entries with one TID are
 * one entry, found twice, and it does not matter which of them we keep.
 *
 * The device alone does not find an entry twice, whatever the ages of the copies are: an entry
 * arrives on one data page and is removed there, so only copies of that page have it.  If copies
 * had two entries of different rows with one TID, then by lemma L7 our snapshot sees neither row,
 * and it does not matter if both are delivered.  Hence the device's hits form a set's bulk,
 * and only the hits of the CPU are looked up in it (sets/entryset.c).
 *
 * If the epoch is not E, the mirror is synchronized.  If that is not possible, the answer is
 * outdated: only its TIDs are requested, and they must be checked in the heap.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/settings.h"
#include "base/step.h"
#include "mirror/mirror.h"
#include "search.h"

/*
 * Maximum number of blocks of an index that the query itself loads, in about 3 ms.  A loader
 * loads bigger ones, while queries search on the CPU.
 */
#define MAX_LOADED_IN_PASSING	1024

/* Maximum number of device names and failure reasons that a process keeps */
#define MAX_KEPT_TEXTS			64

static GjFallback try_match(GjDeviceMatch *match);
static bool is_for_few(const GjDeviceMatch *match);
static GjFallback reach_mirror(GjDeviceMatch *match, bool may_sync);
static GjFallback check_index(GjDeviceMatch *match);
static GjFallback check_service(const char **why);
static GjFallback find_mirror(GjDeviceMatch *match, int place);
static GjFallback get_mirror_made(GjDeviceMatch *match, const GjMirrorKey *key);
static GjFallback catch_up(GjDeviceMatch *match);
static bool is_behind(const GjDeviceMatch *match);
static GjFallback ask_device(GjDeviceMatch *match);
static bool is_outdated(const GjDeviceMatch *match);
static void note_device(GjDeviceMatch *match, const GjServiceMatchInfo *info);
static const char *keep_text(const char *text, const char *other);
static GjServiceResult request(GjDeviceMatch *match, GjServiceMatchInfo *info);

/*
 * Add the TIDs of all matching entries of the data pages, with the device's help
 *
 * The caller has searched the tail pages, and the set is not empty.  Returns false if the
 * device could not help, with the reason in stats: then the caller must search all data pages;
 * TIDs added before are harmless, unless the caller trusts TIDs without visiting the heap.
 * Callers that do so pass the index's vacuum epoch, and must check stats->outdated.
 */
bool
GjMirrorMatch(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
			  GjMatchTarget target, const uint64 *epoch, GjMatchStats *stats)
{
	GjDeviceMatch match;
	GjFallback	result;

	match.index = index;
	match.info = info;
	match.keys = keys;
	match.target = target;
	match.epoch = epoch;
	match.stats = stats;
	match.why = NULL;

	result = try_match(&match);
	stats->answers[result]++;
	if (result == GJ_FALLBACK_NONE)
		return true;
	stats->reason = GjFallbackText(result);
	if (match.why != NULL)
		stats->reason = keep_text(match.why, stats->reason);
	return false;
}

/*
 * Return true if a device may answer a match of a list of keys.  If not, note this as its answer.
 */
bool
GjMirrorMayMatch(GjMatchStats *stats)
{
	const char *why = NULL;
	GjFallback	result = check_service(&why);

	if (result == GJ_FALLBACK_NONE)
		return true;
	stats->answers[result]++;
	stats->reason = why != NULL ? why : GjFallbackText(result);	/* both are constants */
	return false;
}

/*
 * Count the mirror's entries whose keys are in the set.  Returns false if the mirror cannot answer
 * a match, or only with an outdated answer.
 *
 * Synchronizes the mirror first if needed, as a match does.
 */
bool
GjMirrorCount(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
			  const uint64 *epoch, GjMatchStats *stats, GjMirrorFound *found)
{
	GjDeviceMatch match = {.index = index,.info = info,.keys = keys,.epoch = epoch,.stats = stats};
	GjServiceMatchInfo answer;
	GjServiceResult result;

	if (GjMirrorReach(&match, true) != GJ_FALLBACK_NONE || is_outdated(&match))
		return false;
	result = GjServiceMatch(&match.mirror.column, keys, NULL, &answer);
	if (result != GJ_SERVICE_OK)
	{
		GjMirrorNoteRefusal(&match, result);
		return false;
	}
	note_device(&match, &answer);
	found->matches = answer.matches;
	found->entries = match.mirror.entries;
	return true;
}

static GjFallback
try_match(GjDeviceMatch *match)
{
	GjMatchStats before = *match->stats;
	GjFallback	result = check_index(match);

	if (result == GJ_FALLBACK_NONE && !gj_force && is_for_few(match))
		return GJ_FALLBACK_FEW_KEYS;
	if (result == GJ_FALLBACK_NONE)
		result = reach_mirror(match, true);
	if (result == GJ_FALLBACK_NONE)
		result = ask_device(match);
	if (result != GJ_FALLBACK_NONE)
		return result;

	GjMirrorSearchLag(match);
	if (GjListsMoved(match->index, &match->journal.state))
	{
		*match->stats = before;
		match->stats->stale = true; /* TIDs have been delivered */
		return GJ_FALLBACK_BEHIND;
	}
	return GJ_FALLBACK_NONE;
}

/*
 * Return true if the CPU finds the entries before a request would reach a device
 */
static bool
is_for_few(const GjDeviceMatch *match)
{
	double		nkeys = (double) GjKeySetCount(match->keys);
	GjIndexState state;

	if (nkeys <= GJ_FEW_KEYS && match->stats->searches > 0)
		return true;
	if (!GjAreFewKeys(nkeys, 1.0, 0.0))
		return false;
	GjIndexGetState(match->index, &state);
	return GjAreFewKeys(nkeys, state.nruns, (double) GjStateUnsorted(&state));
}

/*
 * Find a mirror, and bring it up to date if wanted: steps 3 to 5 of the head of this file
 */
GjFallback
GjMirrorReach(GjDeviceMatch *match, bool may_sync)
{
	GjFallback	result = check_index(match);

	return result == GJ_FALLBACK_NONE ? reach_mirror(match, may_sync) : result;
}

static GjFallback
reach_mirror(GjDeviceMatch *match, bool may_sync)
{
	GjFallback	result = find_mirror(match, may_sync ? -1 : match->place);

	if (result != GJ_FALLBACK_NONE)
		return result;
	GjMirrorGetLag(match->index, match->info, &match->mirror, &match->journal, &match->lag);
	if (may_sync && is_behind(match))
		result = catch_up(match);
	return result == GJ_FALLBACK_NONE && match->lag.unknown ? GJ_FALLBACK_BEHIND : result;
}

/*
 * Check whether a device can be asked for an index, and whether one can be asked at all
 */
static GjFallback
check_index(GjDeviceMatch *match)
{
	GjFallback	result = check_service(&match->why);

	if (result != GJ_FALLBACK_NONE)
		return result;
	if (RelationUsesLocalBuffers(match->index))
		return GJ_FALLBACK_TEMPORARY;	/* no other session can read its pages */
	if (!gj_force && RelationGetNumberOfBlocks(match->index) < GJ_MIN_DEVICE_BLOCKS)
		return GJ_FALLBACK_SMALL;
	return GJ_FALLBACK_NONE;
}

static GjFallback
check_service(const char **why)
{
	if (!GjMirrorTableExists())
		return GJ_FALLBACK_NOT_PRELOADED;
	if (!GjServiceReady(why))
		return GJ_FALLBACK_SERVICE;
	*why = NULL;
	return GJ_FALLBACK_NONE;
}

/*
 * Read the journal, and look up the mirror, the one that was found before at this place, or any:
 * steps 3 and 4
 */
static GjFallback
find_mirror(GjDeviceMatch *match, int place)
{
	bool		pinned = GjIndexIsPreloaded(match->index);
	GjMirrorKey key;

	GjIndexGetJournal(match->index, &match->journal);
	GjMirrorKeyOf(match->index, match->journal.state.build_id, &key);

	match->place = GjMirrorFind(&key, place, &match->mirror);
	if (match->place < 0 || match->mirror.state != GJ_MIRROR_READY)
	{
		GjFallback	result = get_mirror_made(match, &key);

		if (result != GJ_FALLBACK_NONE)
			return result;
		match->place = GjMirrorFind(&key, -1, &match->mirror);
		if (match->place < 0 || match->mirror.state != GJ_MIRROR_READY)
			return GJ_FALLBACK_GONE;
	}
	if (match->mirror.pinned != pinned)
		GjMirrorSetPinned(&key, pinned);
	if (!GjServiceDeviceReady(match->mirror.column.device, &match->why))
		return GJ_FALLBACK_SERVICE;
	if (place < 0)
		GjMirrorRequested(match->place, &match->mirror);
	return GJ_FALLBACK_NONE;
}

/*
 * Load a small index without a mirror now; have a loader load a big one
 */
static GjFallback
get_mirror_made(GjDeviceMatch *match, const GjMirrorKey *key)
{
	if (match->place >= 0 && match->mirror.state == GJ_MIRROR_REFUSED &&
		GetCurrentTimestamp() < match->mirror.retry_at)
		return match->mirror.refusal;
	if (match->place >= 0 && match->mirror.state == GJ_MIRROR_LOADING)
		return GJ_FALLBACK_LOADING;
	if (!gj_auto_load && (match->place < 0 || match->mirror.state == GJ_MIRROR_REFUSED))
		return GJ_FALLBACK_NO_MIRROR;
	if (gj_force || RelationGetNumberOfBlocks(match->index) <= MAX_LOADED_IN_PASSING)
		return GjMirrorLoad(match->index, GJ_ANY_DEVICE, GJ_LOAD_BY_QUERY);
	return GjMirrorWant(key, RelationGetRelid(match->index), GjIndexIsPreloaded(match->index),
						false, GJ_ANY_DEVICE);
}

/*
 * Return true if the mirror lacks many pages, or if VACUUM has removed entries since
 */
static bool
is_behind(const GjDeviceMatch *match)
{
	return match->lag.unknown || match->lag.blocks > gj_sync_blocks ||
		(match->epoch != NULL && !GjEpochIsIgnored() &&
		 match->mirror.vacuum_epoch < *match->epoch);
}

/*
 * Bring the mirror up to date, and list the pages that it lacks now
 *
 * If another process is doing so already, we do not wait, but search more pages.
 */
static GjFallback
catch_up(GjDeviceMatch *match)
{
	GjMirrorKey key = match->mirror.key;

	if (!GjMirrorSync(match->index, match->info, match->place, &match->stats->pages_pushed))
		return GJ_FALLBACK_NONE;
	GjIndexGetJournal(match->index, &match->journal);
	match->place = GjMirrorFind(&key, match->place, &match->mirror);
	if (match->place < 0 || match->mirror.state != GJ_MIRROR_READY)
		return GJ_FALLBACK_GONE;
	GjMirrorGetLag(match->index, match->info, &match->mirror, &match->journal, &match->lag);
	return GJ_FALLBACK_NONE;
}

/*
 * Ask the device for its part of step 6
 */
static GjFallback
ask_device(GjDeviceMatch *match)
{
	GjMatchStats *stats = match->stats;
	GjServiceMatchInfo info = {0};
	GjServiceResult result;

	/* set before the answer is known: a failed match may have left TIDs, too */
	stats->stale = true;
	stats->outdated = is_outdated(match);
	if (stats->outdated)
		GjEntrySetKeepTids(match->target.entries);
	result = request(match, &info);
	if (result != GJ_SERVICE_OK)
		return GjMirrorNoteRefusal(match, result);

	if (match->target.entries != NULL)
	{
		GjEntrySetEndBulk(match->target.entries);
		if (!stats->outdated)
			stats->device_filter |= match->target.entries->filter_parts;
	}
	GjMirrorNoteAnswer(match, &info);
	stats->tids += info.matches;
	return GJ_FALLBACK_NONE;
}

/*
 * Return true if the mirror's vacuum epoch is not the one that the caller needs
 */
static bool
is_outdated(const GjDeviceMatch *match)
{
	return match->epoch != NULL && match->mirror.vacuum_epoch != *match->epoch &&
		!GjEpochIsIgnored();
}

/*
 * Note in the statistics, and in the mirror, that the device has answered
 */
static void
note_device(GjDeviceMatch *match, const GjServiceMatchInfo *info)
{
	GjMirrorUsed(match->place);
	match->stats->device = keep_text(info->device, "device");
	match->stats->reason = NULL;
}

/*
 * Do the same for an answer that is used, with the time that it took
 */
void
GjMirrorNoteAnswer(GjDeviceMatch *match, const GjServiceMatchInfo *info)
{
	GjMatchStats *stats = match->stats;

	note_device(match, info);
	stats->entries += match->mirror.entries;
	stats->device_entries += match->mirror.entries;
	stats->request_ms += info->total_us / 1000.0;
	stats->set_ms += info->set_us / 1000.0;
	stats->kernel_ms += info->kernel_us / 1000.0;
	stats->transfer_ms += info->transfer_us / 1000.0;
}

/*
 * Return a copy of a text that lives as long as the process: statistics are copied and added up,
 * and each scan of a plan shows its own.  Few texts are different; once too many are kept, return
 * the other text instead.
 */
static const char *
keep_text(const char *text, const char *other)
{
	static const char *kept[MAX_KEPT_TEXTS];
	static int	nkept = 0;

	for (int i = 0; i < nkept; i++)
	{
		if (strcmp(kept[i], text) == 0)
			return kept[i];
	}
	if (nkept == MAX_KEPT_TEXTS)
		return other;
	kept[nkept] = MemoryContextStrdup(TopMemoryContext, text);
	return kept[nkept++];
}

/*
 * Request TIDs only, or entries with the wanted columns
 */
static GjServiceResult
request(GjDeviceMatch *match, GjServiceMatchInfo *info)
{
	GjServiceColumn *column = &match->mirror.column;
	GjEntrySet *entries = match->target.entries;
	GjTidSet   *tids = entries == NULL ? match->target.tids : GjEntrySetPlain(entries);
	gjd_shape	shape;

	if (tids != NULL)
		return GjServiceMatch(column, match->keys, tids, info);
	GjMirrorShape(match->info, column->slots, &shape);
	return GjServiceMatchEntries(column, &shape, match->keys, entries, info);
}

/*
 * Search the pages that the mirror lacks: the CPU's part of step 6.  Their entries were counted
 * with the mirror's.
 */
void
GjMirrorSearchLag(GjDeviceMatch *match)
{
	GjMatchStats *stats = match->stats;
	uint64		entries = stats->entries;

	for (int i = 0; i < match->lag.nranges; i++)
	{
		GjBlockRange *range = &match->lag.ranges[i];

		GjSearchBlocks(match->index, match->info, match->keys, &match->journal.state,
					   range->start, range->end, match->target, stats);
	}
	stats->device_entries -= Min(stats->entries - entries, match->mirror.entries);
	stats->entries = entries;
}

GjFallback
GjMirrorNoteRefusal(GjDeviceMatch *match, GjServiceResult result)
{
	switch (result)
	{
		case GJ_SERVICE_OK:
			break;
		case GJ_SERVICE_UNAVAILABLE:
			match->why = GjServiceLastError();
			return GJ_FALLBACK_SERVICE;
		case GJ_SERVICE_BUSY:
			return GJ_FALLBACK_BUSY;
		case GJ_SERVICE_GONE:
			GjMirrorGone(match->place, &match->mirror.column);
			return GJ_FALLBACK_GONE;
		case GJ_SERVICE_NO_MEMORY:
			return GJ_FALLBACK_NO_MEMORY;
		case GJ_SERVICE_TOO_NEW:
		case GJ_SERVICE_TOO_LARGE:
		case GJ_SERVICE_TOO_MANY:
		case GJ_SERVICE_FAILED:
			match->why = GjServiceLastError();
			return GJ_FALLBACK_FAILED;
	}
	return GJ_FALLBACK_NONE;
}
