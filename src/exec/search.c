/*-------------------------------------------------------------------------
 *
 * search.c
 *	  The match that a scan asks for, under its snapshot.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "rows/rows.h"
#include "search.h"

static void prepare_match(Relation index, Snapshot snapshot);
static void take_all(Relation heap, GjTidSet *tids, GjMatchStats *stats, GjFallback why);

/*
 * Search the index for a set of keys, on behalf of a scan under this snapshot
 *
 * TIDs are used after the match without a hold on the index; only an MVCC snapshot
 * makes that safe (heap.c).  What a serializable transaction locks: pages/predicate.c.
 *
 * If the index may lack rows that the snapshot sees, all of the heap is taken.
 */
void
GjExecMatch(Relation heap, Relation index, Snapshot snapshot, const GjKeySet *keys, GjTidSet *tids,
			GjMatchStats *stats)
{
	uint64		found = stats->tids;

	prepare_match(index, snapshot);
	if (!GjIndexIsComplete(index, snapshot))
	{
		take_all(heap, tids, stats, GJ_FALLBACK_INCOMPLETE);
		return;
	}
	GjMatch(index, keys, tids, stats);
	GjTidSetFinish(tids);

	/* what a device and the CPU both found counts once; lossy blocks cannot be counted */
	if (!GjTidSetIsLossy(tids))
		stats->tids = found + GjTidSetCount(tids);
	pgstat_count_index_tuples(index, GjTidSetCount(tids));
}

/*
 * Make a set for these columns of an index's entries: bits as in GjFill
 */
GjEntrySet *
GjExecCreateEntries(Relation index, MemoryContext parent, Size limit, uint64 columns)
{
	GjIndexInfo info;
	GjEntryWidths widths;

	GjIndexGetInfo(index, &info);
	widths.key = info.key_width;
	widths.nincluded = info.nincluded;
	for (int i = 0; i < info.nincluded; i++)
		widths.included[i] = info.included[i].width;
	return GjEntrySetCreate(parent, limit, &widths, (columns & GJ_ENTRY_KEY) != 0,
							(uint32) (columns >> 1));
}

/*
 * Begin a match of entries, of an index that is complete
 */
void
GjExecMatchEntries(GjEntryMatch *match, Relation index, Snapshot snapshot, const GjKeySet *keys,
				   GjEntrySet *whole, GjMatchStats *stats)
{
	prepare_match(index, snapshot);
	GjEntryMatchBegin(match, index, keys, whole, stats);
}

/*
 * Share a match of entries by ranges of keys, if that is good
 */
bool
GjExecShareRanges(GjSharedRanges *shared, Relation index, Snapshot snapshot,
				  const GjKeySet *keys, uint64 capacity, int nprocesses, GjMatchStats *stats)
{
	if (!GjRangesShare(shared, index, keys, capacity, nprocesses, stats))
		return false;
	prepare_match(index, snapshot);
	return true;
}

static void
prepare_match(Relation index, Snapshot snapshot)
{
	if (!IsMVCCSnapshot(snapshot))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" can only be searched under an MVCC snapshot",
						RelationGetRelationName(index))));

	GjPredicateLock(index, snapshot);
	pgstat_count_index_scan(index);
}

/*
 * Take the whole heap for a match: rows with a NULL key are wanted, which are in no
 * index of ours
 *
 * Plans are not made for that (plan/conditions.c), but it may turn out when a scan starts.  A
 * serializable transaction locks the heap as a sequential scan does.
 */
void
GjExecMatchAll(Relation heap, Snapshot snapshot, GjTidSet *tids, GjMatchStats *stats)
{
	PredicateLockRelation(heap, snapshot);
	take_all(heap, tids, stats, GJ_FALLBACK_NULL_KEYS);
}

static void
take_all(Relation heap, GjTidSet *tids, GjMatchStats *stats, GjFallback why)
{
	GjTidSetAddBlocks(tids, RelationGetNumberOfBlocks(heap));
	GjTidSetFinish(tids);

	stats->searches++;
	stats->device = NULL;
	GjMatchStatsFallback(stats, why);
}
