/*-------------------------------------------------------------------------
 *
 * divide.c
 *	  Dividing a match of entries among processes, by places.
 *
 * A device is asked for all keys by one process, and what it finds is divided (sets/share.c),
 * or by each process for keys of its own (divide.c).  The CPU's answer is divided
 * before it is found: the process that comes first reads the vacuum epoch, and looks into the
 * directories of the runs for places that divide what is to be read into intervals of as many pages
 * each.  Then all processes take intervals, one at a time, until there are none left.
 *
 * Each interval is a search of its own, for the entries between two places, of tails and deltas as
 * of runs (search.c).  Nothing that a process has found does another one need to know.
 *
 * Why each row comes once.  All intervals together are all places, and each is taken by one
 * process, by raising a counter in shared memory.  A row that the snapshot sees has one entry,
 * from before the match until long after it, which has one place, wherever VACUUM's folds move
 * it.  So it is in one interval, and the search of that finds it once.  The snapshot is the same
 * in all processes, and was taken before any of the searches.
 *
 * Two different entries of one TID, of two rows with different keys, may be in two intervals: one
 * process finds the first one, then VACUUM removes it, the TID is used again, and another process
 * finds the second.  By the vacuum epoch, which was read by the process that came first, before
 * anything was found, stream.c shows that neither is a row of the answer.
 *
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/gpujoin.h"
#include "mirror/mirror.h"
#include "parts.h"

/* The more there are, the shorter is the time in which some processes are idle at the end */
#define STEPS_PER_PROCESS		16

/*
 * Entries that are worth a unit of the costs of a request: such a unit is 0.66 us
 * (plan/cost.c), and an entry takes 25 to 100 ns on its way through a plan
 */
#define ENTRIES_PER_UNIT		10.0

#define MIN_RANGES				2.0
#define MAX_RANGES				8.0

/* With fewer keys a process, the share of one may be twice that of another */
#define MIN_KEYS				2.0

static void cut(GjSharedRanges *shared, const GjKeySet *keys, double nranges);
static uint64 range_start(const GjSharedRanges *shared, const GjKeySet *keys, uint64 range);

/*
 * Prepare shared memory: nothing has been found
 */
void
GjFindShareInit(GjSharedFind *found)
{
	memset(found, 0, sizeof(GjSharedFind));
	pg_atomic_init_u64(&found->search.next, 0);
	pg_atomic_init_u64(&found->ranges.next, 0);
	GjTidsShareInit(&found->tids);
	GjEntriesShareInit(&found->entries);
}

/*
 * Free the shared memory; no process may still be reading
 */
void
GjFindUnshare(GjSharedFind *found, dsa_area *area)
{
	GjTidsUnshare(&found->tids, area);
	GjEntriesUnshare(&found->entries, area);
	GjFindShareInit(found);
}

/*
 * Let other processes take part in a match that was begun here, of which nothing has been taken
 * yet: all search together, even if a device was to be asked for pieces
 */
void
GjSearchShare(GjSharedSearch *shared, GjEntryMatch *match, int nprocesses, GjMatchStats *stats)
{
	shared->vacuum_epoch = match->vacuum_epoch;
	shared->nsteps = 0;
	if (match->phase != GJ_ENTRIES_DONE)
	{
		MemoryContext old = MemoryContextSwitchTo(match->context);
		GjSearch   *search = GjSearchBegin(match->index, &match->info, match->keys, 0, NULL);

		shared->nsteps = GjSearchDivide(search, nprocesses,
										Min(nprocesses * STEPS_PER_PROCESS, GJ_MAX_STEPS),
										shared->starts, stats);
		GjSearchEnd(search);
		MemoryContextSwitchTo(old);
	}
	GjTailHitsForget(&match->tails);
	match->tails_known = false;
	match->wanted = match->keys;
	match->shared = shared;
	match->phase = GJ_ENTRIES_SEARCH;
}

/*
 * Take part in a match that another process has begun, with so much memory.  The key set must
 * live as long as the match.  What it takes is allocated in the current memory context, also
 * later.
 */
void
GjSearchJoin(GjSharedSearch *shared, GjEntryMatch *match, Relation index, const GjKeySet *keys,
			 Size limit)
{
	memset(match, 0, sizeof(*match));
	match->index = index;
	match->keys = match->wanted = keys;
	match->context = CurrentMemoryContext;
	match->limit = limit;
	GjIndexGetInfo(index, &match->info);
	match->vacuum_epoch = shared->vacuum_epoch;
	match->shared = shared;
}

/*
 * Turn to the next interval; false if all are taken
 */
bool
GjSearchTake(GjEntryMatch *match)
{
	GjSharedSearch *shared = match->shared;
	const GjPlace last = GjLastPlace;
	uint64		step;
	uint64		next;

	if (!GjTakeStep(&shared->next, 1, shared->nsteps, &step, &next))
		return false;
	GjSearchTurnTo(match->search, &shared->starts[step],
				   next < shared->nsteps ? &shared->starts[next] : &last);
	return true;
}

/*-------------------------------------------------------------------------
 * Ranges of keys
 *
 * Dividing a match of entries among processes, by ranges of the keys, of which each
 * process asks a device for its own.
 *
 * Nobody has all entries then, and nothing is copied from one process to another.  The process
 * that comes first has a device count the entries, which takes it as long as a look at all
 * of them, and decides:
 *
 *	  - The device does not answer, or has copies of another vacuum epoch than the index:
 *		nothing is divided by keys.
 *	  - Nor if the entries are so few that the requests would take longer than what is done
 *		with the entries, or the keys so few that processes would be left without any.
 *	  - Nor if so many requests would be needed, each process having the memory of one, that
 *		to search together on the CPU (divide.c) is quicker.
 *	  - Else it cuts the keys, and from then on is one of many: each takes a range, asks for
 *		its entries, in pieces if need be, delivers them, and takes another.
 *
 * Ranges are cut by the number of keys, as it is not known how many entries each has.  They
 * become smaller towards the end (guided self-scheduling): a half of what is left, divided by
 * the processes, down to a smallest length.  That is chosen so that what the requests take
 * and what processes are idle in the end, half of the last range each, is least in sum:
 * with m entries a process and requests that take as long as r entries, sqrt(m / 2r) ranges
 * each.  One key that has most of the rows is the work of one process.
 *
 * Why each row comes once.  A range is an interval of keys, by which all processes mean the
 * same, and all intervals together are all keys; each is taken by one process, by raising a
 * counter in shared memory.  What that process then does, asking a device for the interval's
 * keys, for some after others, or searching for them on the CPU, are matches as a divided one
 * of a single process has them, made by the rules of device.c: tail pages, journal, mirror,
 * what it lacks.  So the proof at the head of stream.c holds, with the parts of all
 * processes for its parts.  All that it asks for is there:
 *
 *	  - The snapshot is the same in all processes, and was taken before any of the matches.
 *	  - They have one vacuum epoch E, read by the process that comes first before anything
 *		was found, and made known to the others before they begin.  Whatever epoch a process
 *		sees in the mirror, it takes no answer of one whose epoch is not E.  (It would be exact,
 *		too, if each process read an epoch of its own, after the snapshot; but an epoch that is
 *		older than the snapshot is not allowed, and one for all is easier to see through.)
 *	  - Each TID is once in what is delivered for a range, or for a part of it.  That two
 *		processes deliver entries of one TID with different keys, or have it in what is left
 *		to the heap, is what the claim there is about: then neither is a row of the answer.
 *
 * No row is missing: a process that has taken a range delivers all of it, unless the query
 * ends.  One that comes late, or not at all, as the leader that does not take part, takes
 * nothing, and others do.  If one fails, the whole query does.
 *
 * A process that gets no answer, because VACUUM has been there, the device has died, its
 * memory is full, all slots are taken, or the mirror has been dropped, does not ask again:
 * the CPU finds what is left of its range, and of those that it takes later, some at a time
 * since each search reads the whole index.  Others go on asking.  If one key has too
 * many entries for the memory, the CPU finds that one and the rest of its range.
 *
 * Nobody waits for anybody: each has a slot of its own while it asks, or does not ask.
 *-------------------------------------------------------------------------
 */

/*
 * Cut the keys for a match by so many processes, each of which has room for so many entries;
 * false if the match should be made in another way
 */
bool
GjRangesShare(GjSharedRanges *shared, Relation index, const GjKeySet *keys, uint64 capacity,
			  int nprocesses, GjMatchStats *stats)
{
	GjMirrorFound found = {0};
	GjIndexInfo info;
	GjIndexState state;
	instr_time	start;
	double		nranges = 0.0;

	if (keys->complement || keys->nkeys < nprocesses * MIN_KEYS)
		return false;

	INSTR_TIME_SET_CURRENT(start);
	GjMatchStatsBegin(stats);
	GjIndexGetInfo(index, &info);
	GjIndexGetState(index, &state);
	if (GjMirrorCount(index, &info, keys, &state.vacuum_epoch, stats, &found) &&
		found.matches <= GjMaxRequests(index, found.entries) * capacity)
		nranges = GjCountRanges((double) keys->nkeys, (double) found.matches,
								(double) found.entries, nprocesses);
	if (nranges == 0.0)
	{
		GjMatchStatsElapse(stats, start);
		return false;
	}

	shared->vacuum_epoch = state.vacuum_epoch;
	shared->index_entries = found.entries;
	shared->key_entries = (double) found.matches / keys->nkeys;
	shared->nprocesses = nprocesses;
	cut(shared, keys, nranges);
	GjMatchStatsEnd(stats, keys, start);
	return true;
}

/*
 * How many ranges of the keys should each process have, by the number of entries that match
 * and of all?  0: none, the keys should not be divided
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
 * The smallest ranges are half as long as they would be if all were alike
 */
static void
cut(GjSharedRanges *shared, const GjKeySet *keys, double nranges)
{
	int			n = shared->nprocesses;
	uint64		least = (uint64) (keys->nkeys / (2.0 * nranges * n));

	least = Max(least, (keys->nkeys - 1) / GJ_MAX_RANGES + 1);
	shared->nranges = 0;
	for (uint64 first = 0; first < keys->nkeys;
		 first += Max((keys->nkeys - first) / n / 2, least))
		shared->starts[shared->nranges++] = keys->keys[first];
	pg_atomic_write_u64(&shared->next, 0);
}

/*
 * Take part, with room for so many entries of a device's answer, and with so much memory for what
 * the CPU collects.  The key set must live as long as the match.  What it takes is allocated in the
 * current memory context, also later.
 */
void
GjRangesJoin(GjSharedRanges *shared, GjEntryMatch *match, Relation index, const GjKeySet *keys,
			 uint64 capacity, Size limit)
{
	memset(match, 0, sizeof(*match));
	match->index = index;
	match->keys = keys;
	match->context = CurrentMemoryContext;
	match->limit = limit;
	GjIndexGetInfo(index, &match->info);
	match->vacuum_epoch = shared->vacuum_epoch;
	match->pieces.capacity = capacity;
	match->ranges = shared;
	match->phase = GJ_ENTRIES_DONE;
}

/*
 * Turn to the keys of the next range; false if all are taken.  Some at a time, once this
 * process does not ask any more, so that the others may have as many.
 */
bool
GjRangesTake(GjEntryMatch *match)
{
	GjSharedRanges *shared = match->ranges;
	uint64		taken = Min(pg_atomic_read_u64(&shared->next), shared->nranges);
	uint64		step = match->refused ? (shared->nranges - taken) / shared->nprocesses : 1;
	uint64		range;
	uint64		end_range;

	while (GjTakeStep(&shared->next, Max(step, 1), shared->nranges, &range, &end_range))
	{
		uint64		first = range_start(shared, match->keys, range);
		uint64		end = range_start(shared, match->keys, end_range);

		if (first == end)
			continue;			/* the set is made by each process for itself */
		GjEntryMatchTurnTo(match, first, end, shared->key_entries * (end - first),
						   shared->index_entries);
		return true;
	}
	return false;
}

/*
 * Where in a list of keys a range begins
 */
static uint64
range_start(const GjSharedRanges *shared, const GjKeySet *keys, uint64 range)
{
	if (range == 0)
		return 0;
	if (range == shared->nranges)
		return keys->nkeys;
	return GjKeySetLowerBound(keys, shared->starts[range]);
}
