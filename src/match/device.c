/*-------------------------------------------------------------------------
 *
 * device.c
 *	  Matching against a mirror: what it proves, what it lacks, and who answers.
 *
 * A mirror is a copy of an index's data pages in device memory.  A stale entry in it
 * costs a recheck; a missing one would be a wrong answer.  Nobody is told when an index
 * changes: a notification can be lost, and on a standby the pages change by replay,
 * which runs no code of ours.  So every match proves from the index's own pages that it
 * misses nothing.
 *
 * What a mirror promises: a sequence number S, the pages that were open at S, and a list version
 * L, such that the copy of each page that lives by the lists of L has all changes to it with
 * numbers up to S, and no other copy has any entry.  It is true after a load or a synchronisation,
 * because these read S, L and the open pages first, at one moment, and the pages afterwards: a
 * change numbered S or less was made while both its page and the metapage were locked, so it was
 * on the page before the metapage could be read with S.  Where L is not that of the promise
 * before, all pages are gone through, and those that do not live are emptied; what a page has that
 * was published since then is taken whatever its number is (mirror/load.c).  At the end L is
 * compared with the index's: if that is another one, pages may have been freed and used anew while
 * they were read, and there is no promise until the next time.  The promise stays true for as long
 * as the index's list version is L, because a copy is only replaced by one with a higher change
 * counter, and the number drawn last is the page's counter; and because a page that lives by L
 * lives as long as the index's list version is L, so that whoever empties its copy, by lists that
 * are newer, does so after that.
 *
 * A match does, in this order:
 *
 *	  1. the caller's snapshot; a share of the index's lock
 *	  2. all tail pages, searched on the CPU
 *	  3. metapage, journal, metapage (GjIndexGetJournal)
 *	  4. the promise (S, open pages, L) from the table of mirrors; L must be the index's of 3
 *	  5. the pages that the mirror lacks: open at S, or journaled with a number above S
 *	  6. the device's match on the mirror, and the CPU's search of the lacking pages
 *	  7. the metapage once more: if its list version is not L, the answer is thrown away
 *
 * Claim: an entry that the snapshot may see is found.  It was in the index before 2.  If
 * it was on its tail when 2 came there, it is found there.  Otherwise it had been moved
 * to a data page before, and perhaps by folds to others.  Let P be the one where it was in 3.
 * P lived then, and because of 7 the lists were the same from the moment of S until all had
 * been read; so nothing but a deletion, when nobody can see it any more, takes it away from
 * there.  If P is of a run, that was published before L was read, and the copy of P has it.
 * If P is of a delta, the entry came there by a flush with a number q.  If q <= S, the copy of
 * P has it.  If q > S, then either P was open at S, and is searched because of that; or P was
 * opened after S, by a change with a number o, S < o < q, entered in the journal before 3.  If
 * it is still in the ring, P is searched.  If it has left it, o is at or below the floor, which
 * was read after the journal; so the floor is above S, and we know that the journal does not
 * reach back far enough.  Then, or if the list version read in 3 is not L, the mirror is
 * synchronised by all pages, or the CPU searches everything.
 *
 * Nothing here needs the mirror to stand still.  Pages pushed by others meanwhile only
 * make it newer, or 7 finds out.  If it is dropped, the service says that the column is gone.
 * If the device's memory is lost, the column's epoch is not the service's.  If the index is
 * built anew, the build id in the metapage, read in 3, is not the mirror's; nobody but
 * ourselves can do that while we hold the index's lock.  On a standby the same holds:
 * replay changes all pages of a record while it holds the locks of all.
 *
 * Entries deleted from the index are still in the copy until the page is pushed again;
 * what an entry found too many costs is said in match.h.
 *
 * Where entries are to be rows without a look at the heap (exec/visiblemap.c), more is
 * asked: that none is of a TID that has become another row's.  For that the vacuum epoch
 * E goes with S and the open pages, read at the same moment.
 *
 * Claim: if the epoch that the index has when the answer is used is still E, each entry
 * that the device found in any copy was in the index at or after the moment of S, and no
 * bulk deletion that removed it has finished.  A copy has all changes up to S, so an
 * entry in it that was deleted was deleted by a change above S, made after that moment,
 * by a bulk deletion that had not raised the epoch by then: those that had, had made all
 * their changes before.  When it raises the epoch, that is E no more.  Copies pushed
 * later only have entries of later moments.  So the entry's TID is not free, and the row
 * that it leads to is the one the entry was made for.  (A fold deletes nothing.  It leaves
 * behind what a bulk deletion has removed, and what it has moved is in the new run, whose
 * copy counts only once the old one's has been emptied.)
 *
 * TID, key and INCLUDE columns of an entry are of one copy of its page, whatever is pushed
 * while the device is at work (cuda/border/gpujoin_device.h, ORDER).  Two entries with one TID are
 * one entry then, met twice, and it does not matter which of them stays.
 *
 * The device alone does not meet an entry twice, of whatever ages the copies are: an entry comes
 * to one data page and is removed there, so that only copies of that page have it.  Were there
 * copies of two entries with one TID T, then the second one was made after a bulk deletion had
 * removed the first and raised the epoch; by the claim, after the epoch was read, too.  So our
 * snapshot sees neither of their rows, and it does not matter if both are delivered: the epoch
 * has moved, and to the heap T leads to nothing that is seen.  Hence what the device delivers is
 * a set's bulk, and only what the CPU finds beside it is looked for there (sets/entryset.c).
 *
 * If the epoch is not E, the mirror is synchronised; if that is not possible, the answer
 * is outdated: its TIDs are for the heap, and nothing else of the entries is asked for.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "mirror/mirror.h"
#include "parts.h"

/*
 * An index of up to so many blocks is loaded by the query that needs it, some 3 ms;
 * bigger ones by a loader, while queries search on the CPU.
 */
#define MAX_LOADED_IN_PASSING	1024

/* Names of devices and reasons of failures that a process remembers */
#define MAX_KEPT_TEXTS			64

/* What a match needs to know on its way */
typedef struct MirrorMatch
{
	Relation	index;
	const GjIndexInfo *info;
	const GjKeySet *keys;
	GjMatchTarget target;
	const uint64 *epoch;		/* vacuum epoch that the mirror should have; NULL: any */
	GjMatchStats *stats;
	GjIndexJournal journal;
	GjMirror	mirror;			/* as of step 4 */
	int			place;
	GjMirrorLag lag;
	const char *why;			/* text for a reason that has none of its own */
} MirrorMatch;

static GjFallback try_match(MirrorMatch *match);
static GjFallback reach_mirror(MirrorMatch *match);
static GjFallback check_index(MirrorMatch *match);
static GjFallback find_mirror(MirrorMatch *match);
static GjFallback get_mirror_made(MirrorMatch *match, const GjMirrorKey *key);
static GjFallback catch_up(MirrorMatch *match);
static GjFallback ask_device(MirrorMatch *match);
static bool is_outdated(const MirrorMatch *match);
static void note_device(MirrorMatch *match, const GjServiceMatchInfo *info);
static const char *keep_text(const char *text, const char *other);
static GjServiceResult request(MirrorMatch *match, GjServiceMatchInfo *info);
static void search_lag(MirrorMatch *match);
static GjFallback refuse(MirrorMatch *match, GjServiceResult result);

/*
 * Add the TIDs of all matching entries of the data pages, with the device's help
 *
 * The tail pages have been searched, and the set is not empty.  Returns false if the
 * device could not help, with the reason in stats: then all data pages are still to be
 * searched; TIDs added before are harmless, unless TIDs are believed without a look at the
 * heap.  Who does that passes the index's vacuum epoch, and is told by stats->outdated.
 */
bool
GjMirrorMatch(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
			  GjMatchTarget target, const uint64 *epoch, GjMatchStats *stats)
{
	MirrorMatch match;
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
 * Count the entries with a key of the set, as far as a mirror has them; false if it cannot
 * answer a match, or only one that is outdated
 *
 * A mirror that is not up to date is made so, as for a match.
 */
bool
GjMirrorCount(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
			  const uint64 *epoch, GjMatchStats *stats, GjMirrorFound *found)
{
	MirrorMatch match = {.index = index,.info = info,.keys = keys,.epoch = epoch,.stats = stats};
	GjServiceMatchInfo answer;
	GjServiceResult result;

	if (reach_mirror(&match) != GJ_FALLBACK_NONE || is_outdated(&match))
		return false;
	result = GjServiceMatch(&match.mirror.column, keys, NULL, &answer);
	if (result != GJ_SERVICE_OK)
	{
		refuse(&match, result);
		return false;
	}
	note_device(&match, &answer);
	found->matches = answer.matches;
	found->entries = match.mirror.entries;
	return true;
}

static GjFallback
try_match(MirrorMatch *match)
{
	GjFallback	result = reach_mirror(match);
	GjMatchStats before = *match->stats;

	if (result == GJ_FALLBACK_NONE)
		result = ask_device(match);
	if (result != GJ_FALLBACK_NONE)
		return result;

	search_lag(match);
	if (GjListsMoved(match->index, &match->journal.state))
	{
		*match->stats = before;
		match->stats->stale = true; /* TIDs have been delivered */
		return GJ_FALLBACK_BEHIND;
	}
	return GJ_FALLBACK_NONE;
}

/*
 * Find a mirror and bring it up to date: steps 3 to 5 of the head of this file
 */
static GjFallback
reach_mirror(MirrorMatch *match)
{
	GjFallback	result = check_index(match);

	if (result == GJ_FALLBACK_NONE)
		result = find_mirror(match);
	if (result == GJ_FALLBACK_NONE)
		result = catch_up(match);
	return result;
}

/*
 * Find out whether a device can be asked at all
 */
static GjFallback
check_index(MirrorMatch *match)
{
	if (!GjMirrorTableExists())
		return GJ_FALLBACK_NOT_PRELOADED;
	if (!GjServiceReady(&match->why))
		return GJ_FALLBACK_SERVICE;
	match->why = NULL;
	if (RelationUsesLocalBuffers(match->index))
		return GJ_FALLBACK_TEMPORARY;	/* no other session can read its pages */
	if (!gj_force && RelationGetNumberOfBlocks(match->index) < GJ_MIN_DEVICE_BLOCKS)
		return GJ_FALLBACK_SMALL;
	return GJ_FALLBACK_NONE;
}

/*
 * Steps 3 and 4: read the journal, and look for the mirror
 */
static GjFallback
find_mirror(MirrorMatch *match)
{
	bool		pinned = GjIndexIsPreloaded(match->index);
	GjMirrorKey key;

	GjIndexGetJournal(match->index, &match->journal);
	GjMirrorKeyOf(match->index, match->journal.state.build_id, &key);

	match->place = GjMirrorFind(&key, &match->mirror);
	if (match->place < 0 || match->mirror.state != GJ_MIRROR_READY)
	{
		GjFallback	result = get_mirror_made(match, &key);

		if (result != GJ_FALLBACK_NONE)
			return result;
		match->place = GjMirrorFind(&key, &match->mirror);
		if (match->place < 0 || match->mirror.state != GJ_MIRROR_READY)
			return GJ_FALLBACK_GONE;
	}
	if (match->mirror.pinned != pinned)
		GjMirrorSetPinned(&key, pinned);
	return GJ_FALLBACK_NONE;
}

/*
 * Where there is no mirror, load a small index now, have a big one loaded
 */
static GjFallback
get_mirror_made(MirrorMatch *match, const GjMirrorKey *key)
{
	if (match->place >= 0 && match->mirror.state == GJ_MIRROR_REFUSED &&
		GetCurrentTimestamp() < match->mirror.retry_at)
		return match->mirror.refusal;
	if (match->place >= 0 && match->mirror.state == GJ_MIRROR_LOADING)
		return GJ_FALLBACK_LOADING;
	if (!gj_auto_load && (match->place < 0 || match->mirror.state == GJ_MIRROR_REFUSED))
		return GJ_FALLBACK_NO_MIRROR;
	if (gj_force || RelationGetNumberOfBlocks(match->index) <= MAX_LOADED_IN_PASSING)
		return GjMirrorLoad(match->index, GJ_LOAD_BY_QUERY);
	return GjMirrorWant(key, RelationGetRelid(match->index), GjIndexIsPreloaded(match->index),
						false);
}

/*
 * Step 5: list what the mirror lacks; if that is much, or if VACUUM has been there since,
 * bring the mirror up to date first
 *
 * Somebody else may be doing so already: then we do not wait, but search more.
 */
static GjFallback
catch_up(MirrorMatch *match)
{
	GjMirrorLag *lag = &match->lag;

	GjMirrorGetLag(match->index, match->info, &match->mirror, &match->journal, lag);
	if (!lag->unknown && lag->blocks <= gj_sync_blocks &&
		(match->epoch == NULL || gj_debug_ignore_vacuum_epoch ||
		 match->mirror.vacuum_epoch >= *match->epoch))
		return GJ_FALLBACK_NONE;

	if (GjMirrorSync(match->index, match->info, match->place, &match->stats->pages_pushed))
	{
		GjMirrorKey key = match->mirror.key;

		GjIndexGetJournal(match->index, &match->journal);
		match->place = GjMirrorFind(&key, &match->mirror);
		if (match->place < 0 || match->mirror.state != GJ_MIRROR_READY)
			return GJ_FALLBACK_GONE;
		GjMirrorGetLag(match->index, match->info, &match->mirror, &match->journal, lag);
	}
	return lag->unknown ? GJ_FALLBACK_BEHIND : GJ_FALLBACK_NONE;
}

/*
 * Step 6, the device's part
 */
static GjFallback
ask_device(MirrorMatch *match)
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
		return refuse(match, result);

	if (match->target.entries != NULL)
	{
		GjEntrySetEndBulk(match->target.entries);
		if (!stats->outdated)
			stats->device_filter |= match->target.entries->filter_parts;
	}
	note_device(match, &info);
	stats->tids += info.matches;
	stats->entries += match->mirror.entries;
	stats->device_entries += match->mirror.entries;
	stats->request_ms += info.total_us / 1000.0;
	stats->set_ms += info.set_us / 1000.0;
	stats->kernel_ms += info.kernel_us / 1000.0;
	stats->transfer_ms += info.transfer_us / 1000.0;
	return GJ_FALLBACK_NONE;
}

/*
 * Tell whether the mirror is of another vacuum epoch than is asked for
 */
static bool
is_outdated(const MirrorMatch *match)
{
	return match->epoch != NULL && match->mirror.vacuum_epoch != *match->epoch &&
		!gj_debug_ignore_vacuum_epoch;
}

/*
 * Note in the statistics, and in the mirror, that the device has answered
 */
static void
note_device(MirrorMatch *match, const GjServiceMatchInfo *info)
{
	GjMirrorUsed(match->place);
	match->stats->device = keep_text(info->device, "device");
	match->stats->reason = NULL;
}

/*
 * Return a copy of a text that lives as long as the process: statistics are copied and added up,
 * and each scan of a plan shows its own.  Texts repeat; once there are too many different ones,
 * return the other text instead.
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
 * Ask for TIDs, or for what else of the entries is wanted
 */
static GjServiceResult
request(MirrorMatch *match, GjServiceMatchInfo *info)
{
	GjServiceColumn *column = &match->mirror.column;
	GjEntrySet *entries = match->target.entries;
	GjTidSet   *tids = entries == NULL ? match->target.tids : GjEntrySetPlain(entries);
	gjd_shape	shape;

	if (tids != NULL)
		return GjServiceMatch(column, match->keys, tids, info);
	GjMirrorShape(match->info, &shape);
	return GjServiceMatchEntries(column, &shape, match->keys, entries, info);
}

/*
 * Step 6, the CPU's part; its entries were counted with the mirror's
 */
static void
search_lag(MirrorMatch *match)
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

static GjFallback
refuse(MirrorMatch *match, GjServiceResult result)
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
		case GJ_SERVICE_FAILED:
			match->why = GjServiceLastError();
			return GJ_FALLBACK_FAILED;
	}
	return GJ_FALLBACK_NONE;
}
