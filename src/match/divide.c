/*-------------------------------------------------------------------------
 *
 * divide.c
 *	  A match that the processes of a parallel plan share: their roles, and how its work is
 *	  divided among them; and the keys of a match in pieces, if a device's answer does not fit.
 *
 * The process that comes first searches, or decides how all processes search, and publishes that;
 * the others wait for it.  Then all do the same:
 *
 *	  - If the answer is TIDs, these are in shared memory, and each process takes heap blocks
 *		(sets/share.c).
 *	  - If nearly all of the heap is all-visible and a device can answer, each process takes ranges
 *		of the keys, and asks for their entries.
 *	  - If a device has found all entries at once for the first process, these are in shared memory,
 *		and each process takes heap blocks (sets/share.c).
 *	  - Otherwise each process takes intervals of places, and searches them.
 *
 * Each row comes once.  The processes have the same snapshot; TIDs and entries in shared memory
 * are those of one search under it, and each heap block is taken by one process.  For ranges and
 * intervals, the proofs are below.  Each process rechecks keys by a set that it has built itself:
 * plans are made only where all of these sets are equal (plan/same.c).
 *
 * A match can be shared if it answers for the whole execution of the node.  The match of one batch
 * of a join does not, because the batches of two processes need not contain the same keys.
 * So if the first process has more than one batch, it does all of the work, and the others do
 * nothing; and if another process came first and shared its match, a process with several batches
 * takes no part in it.  The process that shared the match takes steps until all are taken, so
 * nothing is left over.
 *
 * Waiting: processes that come later wait for the first.  It waits for no process of the plan,
 * since it returns no row before it has published its result.  If it fails, it is the leader, whose
 * end is also that of its workers; or its error reaches the leader, which waits interruptibly like
 * all processes here.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/visibilitymap.h"
#include "optimizer/optimizer.h"
#include "storage/bufmgr.h"

#include "base/compat.h"
#include "mirror/mirror.h"
#include "search.h"

/*
 * Entries that a plan processes in the time of one unit of a request's cost: a unit is 0.66 us
 * (plan/cost.c), and a plan takes 25 to 100 ns for an entry
 */
#define ENTRIES_PER_UNIT		10.0

#define MIN_RANGES				2.0
#define MAX_RANGES				8.0

/* With fewer keys per process, the share of one process may be twice that of another */
#define MIN_KEYS				2.0

static uint64 count_keys(const GjPieces *pieces, double entries_per_key, uint64 max);
static void init_found(GjSharedFind *shared);
static GjSharePhase enter_share(GjShare *share, bool whole);
static GjSharePhase wait_for_match(GjSharedFind *shared);
static GjSharePhase get_phase(GjSharedFind *shared);
static bool is_mostly_visible(Relation heap);
static void cut(GjSharedRanges *shared, const GjKeySet *keys, double nranges);
static uint64 range_start(const GjSharedRanges *shared, const GjKeySet *keys, uint64 range);

Size
GjShareBytes(void)
{
	return sizeof(GjSharedFind);
}

/*
 * Initialize the shared memory of a match
 */
void
GjShareInit(GjSharedFind *shared, int nprocesses)
{
	memset(shared, 0, sizeof(GjSharedFind));
	SpinLockInit(&shared->mutex);
	shared->phase = GJ_SHARE_NEW;
	shared->nprocesses = nprocesses;
	ConditionVariableInit(&shared->matched);
	init_found(shared);
}

static void
init_found(GjSharedFind *shared)
{
	GjTidsShareInit(&shared->tids);
	GjEntrySetShareInit(&shared->entries);
	shared->ranges.nranges = 0;
	pg_atomic_init_u64(&shared->ranges.next, 0);
	shared->places.nsteps = 0;
	pg_atomic_init_u64(&shared->places.next, 0);
	pg_atomic_init_u32(&shared->nulls, 0);
}

/*
 * Forget what was shared, for another execution; no process may still be reading it
 */
void
GjShareReset(GjSharedFind *shared, dsa_area *area)
{
	GjTidsUnshare(&shared->tids, area);
	GjEntrySetUnshare(&shared->entries, area);
	init_found(shared);
	shared->phase = GJ_SHARE_NEW;
}

/*
 * Determine what this process has to do in a shared match; waits while another one searches.
 * "whole" is as in GjEntryRequest.
 */
GjShareRole
GjShareEnter(GjShare *share, bool whole)
{
	if (share->alone)
		return GJ_ROLE_ALONE;

	switch (enter_share(share, whole))
	{
		case GJ_SHARE_NEW:
			return GJ_ROLE_FIRST;
		case GJ_SHARE_MATCHING:
			return whole && wait_for_match(share->found) == GJ_SHARE_READY ?
				GJ_ROLE_OTHER : GJ_ROLE_NONE;
		case GJ_SHARE_READY:
			return whole ? GJ_ROLE_OTHER : GJ_ROLE_NONE;
		case GJ_SHARE_ONE_FOR_ALL:
			break;
	}
	return share->alone ? GJ_ROLE_ALONE : GJ_ROLE_NONE;
}

/*
 * Enter a shared match, and return its phase.  GJ_SHARE_NEW: this process is the first, and must
 * publish what it finds.
 */
static GjSharePhase
enter_share(GjShare *share, bool whole)
{
	GjSharedFind *shared = share->found;
	GjSharePhase phase;

	SpinLockAcquire(&shared->mutex);
	phase = shared->phase;
	if (phase == GJ_SHARE_NEW && whole)
		shared->phase = GJ_SHARE_MATCHING;
	else if (phase == GJ_SHARE_NEW)
	{
		phase = shared->phase = GJ_SHARE_ONE_FOR_ALL;
		share->alone = true;
	}
	SpinLockRelease(&shared->mutex);
	return phase;
}

static GjSharePhase
wait_for_match(GjSharedFind *shared)
{
	ConditionVariablePrepareToSleep(&shared->matched);
	while (get_phase(shared) == GJ_SHARE_MATCHING)
		ConditionVariableSleep(&shared->matched, GjWaitEventSharedMatch());
	ConditionVariableCancelSleep();
	return get_phase(shared);
}

static GjSharePhase
get_phase(GjSharedFind *shared)
{
	GjSharePhase phase;

	SpinLockAcquire(&shared->mutex);
	phase = shared->phase;
	SpinLockRelease(&shared->mutex);
	return phase;
}

/*
 * Let the other processes continue: what they wait for is in shared memory
 */
void
GjSharePublish(GjSharedFind *shared)
{
	SpinLockAcquire(&shared->mutex);
	shared->phase = GJ_SHARE_READY;
	SpinLockRelease(&shared->mutex);
	ConditionVariableBroadcast(&shared->matched);
}

/*-------------------------------------------------------------------------
 * Intervals of places
 *
 * Divide a search on the CPU by places in the index.
 *
 * Either one process asks a device for all keys, and the hits are divided (sets/share.c), or each
 * process asks for keys of its own ("Ranges of keys" below).  The CPU's answer is divided before
 * it is found: the first process reads the vacuum epoch, and finds places in the directories of
 * the runs that divide the pages to read into intervals of equally many pages.  Then all processes
 * take intervals, one at a time, until all are taken.
 *
 * Each interval is a search of its own, for the entries between two places, in tails and deltas as
 * well as in runs (search.c).  A process does not need to know what the others have found.
 *
 * Each row comes once.  The intervals together cover all places, and each is taken by one process,
 * which raises a counter in shared memory; the rest is lemma L3 of src/README.  The snapshot is the
 * same in all processes, and was taken before any of the searches.
 *
 * Two different entries of one TID, of two rows with different keys, may be in two intervals: one
 * process finds the first one, then VACUUM removes it, the TID is reused, and another process
 * finds the second.  The first process read the vacuum epoch before any entry was found, so the
 * answer has neither row (lemma L7).
 *-------------------------------------------------------------------------
 */

/*-------------------------------------------------------------------------
 * Ranges of keys
 *
 * Divide a match of entries among processes by ranges of the keys; each process asks a
 * device for its own ranges.
 *
 * No process has all entries then, and nothing is copied from one process to another.  The
 * first process has a device count the hits, which takes the device as long as a search of
 * all entries, and decides:
 *
 *	  - If the device does not answer, or has copies of another vacuum epoch than the index,
 *		the match is not divided by keys.
 *	  - The same is true if the requests would take longer than processing the hits, because
 *		these are few, or if there are too few keys for all processes.
 *	  - The same is true if a joint search on the CPU (by places) is quicker than the requests
 *		that the match would need, given the memory limit of each process.
 *	  - Otherwise it cuts the keys, and then works like the other processes: each takes a range,
 *		asks for its entries, in pieces if need be, delivers them, and takes another.
 *
 * Ranges are cut by the number of keys, as the number of entries of each key is not known.  They
 * become smaller towards the end (guided self-scheduling): half of the remaining keys, divided by
 * the number of processes, down to a minimum length.  The minimum minimizes the sum of the time
 * of the requests and the idle time at the end, half of the last range for each process:
 * with m entries per process and requests that take as long as r entries, sqrt(m / 2r) ranges
 * each.  If one key has most of the rows, one process does most of the work.
 *
 * Each row comes once.  A range is an interval of keys with the same bounds in all processes, and
 * the intervals together cover all keys; each is taken by one process, which raises a counter in
 * shared memory.  Then that process asks a device for the interval's keys, part by part, or
 * searches for them on the CPU.  These are matches just as in a divided match of a single process,
 * made by the rules of device.c: tail pages, journal, mirror, the pages that the mirror lacks.  So
 * the proof at the head of stream.c holds, with the parts of all processes as its parts.  Its
 * conditions are met:
 *
 *	  - The snapshot is the same in all processes, and was taken before any of the matches.
 *	  - They have one vacuum epoch E, which the first process read before any entry was found,
 *		and published to the others before they begin.  Whatever epoch a process sees in the
 *		mirror, it does not accept an answer of a mirror whose epoch is not E.  (It would be
 *		exact, too, if each process read an epoch of its own, after the snapshot; but an epoch
 *		older than the snapshot is not allowed, and a common one is easier to reason about.)
 *	  - Each TID comes once in the entries delivered for a range, or for a part of it.  Lemma L7
 *		covers the case that two processes deliver entries of one TID with different
 *		keys, or leave that TID to the heap: then the answer has neither row.
 *
 * No row is missing: a process that has taken a range delivers all of it, unless the query
 * ends.  A process that starts late or never, as a leader that does not participate, takes
 * no range, and the others take them.  If one process fails, the whole query fails.
 *
 * If a process gets no answer, because VACUUM has removed entries, the device has died, its
 * memory is full, all slots are taken, or the mirror has been dropped, it does not ask again:
 * the CPU finds the rest of its range, and the ranges that it takes later, several at a time
 * since each search reads the whole index.  The other processes continue to ask.  If one key has
 * too many entries for the memory, the CPU finds that one and the rest of its range.
 *
 * Processes do not wait for each other: each has a slot of its own while it asks, or does not
 * ask.
 *-------------------------------------------------------------------------
 */

/*
 * Cut the keys for a match by nprocesses processes, each with room for "capacity" entries, and
 * return the vacuum epoch, which was read before.  Returns false if the match should not be divided
 * by keys.
 */
bool
GjRangesShare(GjSharedRanges *shared, const GjEntryRequest *request, uint64 capacity,
			  int nprocesses, uint64 *epoch)
{
	Relation	index = request->index;
	const GjKeySet *keys = request->keys;
	GjMatchStats *stats = request->stats;
	GjMirrorFound found = {0};
	GjIndexInfo info;
	GjIndexState state;
	instr_time	start;
	double		nranges = 0.0;

	if (!is_mostly_visible(request->heap) || !GjKeySetIsList(keys) ||
		GjKeySetCount(keys) < nprocesses * MIN_KEYS)
		return false;

	INSTR_TIME_SET_CURRENT(start);
	GjMatchStatsBegin(stats);
	GjIndexGetInfo(index, &info);
	GjIndexGetState(index, &state);
	if (GjMirrorCount(index, &info, keys, &state.vacuum_epoch, stats, &found) &&
		found.matches <= GjMaxRequests(index, found.entries) * capacity)
		nranges = GjCountRanges((double) GjKeySetCount(keys), (double) found.matches,
								(double) found.entries, nprocesses);
	if (nranges == 0.0)
	{
		GjMatchStatsElapse(stats, start);
		return false;
	}

	*epoch = state.vacuum_epoch;
	shared->index_entries = found.entries;
	shared->key_entries = (double) found.matches / GjKeySetCount(keys);
	shared->nprocesses = nprocesses;
	cut(shared, keys, nranges);
	GjMatchStatsEnd(stats, keys, start);
	return true;
}

/*
 * Return true if nearly all pages of the heap are all-visible
 *
 * If so, it does not matter that processes that take entries by key, and not by heap block, fetch
 * the same blocks.  Fetching a block from memory takes a process half a microsecond, even if
 * other processes fetch it, too.  Copying a device's answer to shared memory takes 50 ns an entry,
 * while all processes wait.  With six entries on a block, both methods take the same time if half
 * of the blocks must be fetched; with fewer entries on a block, fewer processes fetch the same one.
 */
static bool
is_mostly_visible(Relation heap)
{
	BlockNumber total = RelationGetNumberOfBlocks(heap);
	BlockNumber visible;

	visibilitymap_count(heap, &visible, NULL);
	return visible >= total * (1.0 - GJ_MAX_HEAP_PART);
}

/*
 * Return the number of ranges that each process should have, from the number of matching entries
 * and of all entries; 0 if the keys should not be divided
 */
double
GjCountRanges(double nkeys, double nmatches, double nentries, int nprocesses)
{
	double		share = nmatches / nprocesses;
	double		request = Max(GjRequestCost(nentries) * ENTRIES_PER_UNIT, 1.0);

	if (nkeys < nprocesses * MIN_KEYS || share < request)
		return 0.0;
	return Min(Max(sqrt(share / (2.0 * request)), MIN_RANGES), MAX_RANGES);
}

/*
 * Cut the keys into ranges; the smallest are half as long as ranges of equal length would be
 */
static void
cut(GjSharedRanges *shared, const GjKeySet *keys, double nranges)
{
	int			n = shared->nprocesses;
	uint64		least = (uint64) (GjKeySetCount(keys) / (2.0 * nranges * n));

	least = Max(least, (GjKeySetCount(keys) - 1) / GJ_MAX_RANGES + 1);
	shared->nranges = 0;
	for (uint64 first = 0; first < GjKeySetCount(keys);
		 first += Max((GjKeySetCount(keys) - first) / n / 2, least))
		shared->starts[shared->nranges++] = GjKeySetAt(keys, first);
	pg_atomic_write_u64(&shared->next, 0);
}

/*
 * Take the next range of keys; returns false if all are taken.  If "many", because this process
 * does not ask a device any longer, take an equal share of the remaining ranges.
 */
bool
GjRangesTake(GjSharedRanges *shared, const GjKeySet *keys, bool many, GjKeyRange *taken)
{
	uint64		ntaken = Min(pg_atomic_read_u64(&shared->next), shared->nranges);
	uint64		step = many ? (shared->nranges - ntaken) / shared->nprocesses : 1;
	uint64		range;
	uint64		end_range;

	while (GjTakeStep(&shared->next, Max(step, 1), shared->nranges, &range, &end_range))
	{
		taken->first = range_start(shared, keys, range);
		taken->end = range_start(shared, keys, end_range);
		taken->expected = shared->key_entries * (taken->end - taken->first);
		if (taken->first != taken->end) /* each process builds the set for itself */
			return true;
	}
	return false;
}

/*
 * Return the position in the list of keys at which a range begins
 */
static uint64
range_start(const GjSharedRanges *shared, const GjKeySet *keys, uint64 range)
{
	if (range == 0)
		return 0;
	if (range == shared->nranges)
		return GjKeySetCount(keys);
	return GjKeySetLowerBound(keys, shared->starts[range]);
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
 * A device searches all entries for each request, however few it finds.  So if many requests are
 * needed, the CPU, which reads the index once, is quicker.  With the planner's costs and 20 M
 * entries, this is the case for 97 or more requests, or some 40 million rows with the usual
 * work_mem.  We check that before each request.  A single key that has too many entries cannot be
 * divided; the CPU finds its entries, too.
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
void
GjPiecesBegin(GjPieces *pieces, uint64 first, uint64 end, uint64 capacity, double max_requests,
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
 * Advance to the next keys, after a request that was answered with nfound entries
 */
void
GjPiecesTook(GjPieces *pieces, uint64 nfound)
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
void
GjPiecesDivide(GjPieces *pieces, uint64 nfound)
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
