/*-------------------------------------------------------------------------
 *
 * search.c
 *	  The CPU's answer to a match: find the entries whose keys are in the set, by reading
 *	  the index pages in shared buffers.
 *
 * Entries are on tail pages, in deltas, and in runs.  Tails and deltas are unordered, so a search
 * reads all of their pages.  Of the runs it reads only pages that may have a hit (runs.c).
 *
 * The answer is delivered in pieces, so that it need not fit in memory.  The search starts with
 * the collection of all hits of tails and deltas, in this order:
 *
 *	  1. the tail pages of all lanes, or of those that may have rows ("Tails that are not read"
 *		 below); if they have a hit, and entries are wanted, the metapage's counters, and then the
 *		 tails once more,
 *	  2. the metapage: V, the lists of runs and deltas,
 *	  3. all pages of V's deltas.
 *
 * It continues with the hits of the runs, in intervals of places, that is, of (key, TID), since
 * the entries of a run are in this order:
 *
 *	  4. use the directories to choose the pages that may have a hit between the place where the
 *		 previous interval ended and the end of this one,
 *	  5. read these pages,
 *	  6. read the metapage again.  If its list_version is V's, deliver the hits of the interval.
 *		 If not, forget them, and end the collection at the place where the interval begins:
 *		 collected hits before that place are delivered, those from there on are forgotten, and
 *		 a search of the places from there on starts over with 1.
 *
 * There is at least one interval, even if V has no runs, and 6 comes before the first hit of the
 * collection is delivered.  So 3 needs no test of its own: if the lists have changed before the
 * first interval ends, all hits that 3 has found are forgotten.
 *
 * After the last interval, the search delivers the hits of the collection.  If they exceed the
 * memory limit, they are written to a temporary file (sets/entryset.c) while the deltas are
 * read, and read back for delivery.  So the deltas are read once, plus once more after each fold,
 * whatever the limit is.
 *
 * The search never locks a page while it reads another one, and insertions and VACUUM continue
 * meanwhile.  Between two pieces it holds nothing at all, however long that takes.
 *
 * The pages that we read are the pages that were listed, by lemma L1 of src/README, for which 6
 * compares list_version.  A page that turns out to be something else is damaged, unless
 * list_version has changed; then 3 starts over with 1.
 *
 * Claim: the search finds every entry that the caller's snapshot may see.  The entry was in the
 * index when the search began, and is not removed while any snapshot can see it (lemma L4).
 *
 * a. If the entry was on its tail when 1 read that, it is collected.
 * b. Otherwise, by lemma L2, it was on a page of a delta or run that V lists.  If it was in a
 *	  delta, 3 reads that page, and by 6 of the first interval the page still belonged to the
 *	  delta.  So the entry is collected; if 6 finds other lists, d. holds for all places.
 * c. Otherwise it was in a run of V.  Let p be its place, which is the same in every run (lemma
 *	  L3).  One of the intervals has p.  By 6 the runs of V were the listed ones while the pages of
 *	  the interval were read, and the entry is in one of them.  runs.c says why its page is chosen.
 * d. If p is not before the place where the collection ended, the entry has not been delivered.
 *	  But the next search covers p, and a., b. and c. hold for that: the snapshot was taken before
 *	  it began, too, and an entry never changes its place.
 *
 * Claim: no entry is delivered twice.
 *
 * e. Within the collection: an entry may be found on its tail, and again on the delta page to
 *	  which it has moved.  That move changed the delta page, with a number above the metapage's
 *	  sequence as it was read in 1.  On pages with such a number, the search skips hits whose TIDs
 *	  the tails had.  Entries do not move from one data page of a delta to another.
 * f. Within the runs: an entry has one place, and each place is in one interval.  Within one
 *	  interval the entry is in one of the runs of V.
 * g. Between both: a collected entry gets into a run only when a fold publishes the run, which
 *	  draws a number and raises list_version.  If tails had hits, and a run of V was published after
 *	  the counters were read, as when a row of a tail was flushed, folded and published between 1
 *	  and 2, then 2 starts over with 1.  So no run of V has an entry that was collected, and by 6
 *	  only entries of runs of V are delivered.
 * h. Between a search and the next one: the first delivers entries whose places are before the
 *	  place where its collection ended, the next one those from there on.  It does not matter that
 *	  the hits of the first may be delivered long after they were found, and after a fold.
 *
 * A hit that e. skips could be a different entry, if the TID has been reused since.  By lemma L7
 * neither row is one of the answer.
 *
 * The vacuum epoch that lemma L7 and match/visible.c need, E, must be read before any entry is
 * found.  It is that of the counters in 1; or V's, if tails had no hits.
 *
 * Tails that are not read.  The metapage has a bit for each tail that is empty.  The record that
 * adds a row to the tail clears it; the one that sets it again is made under the tail's exclusive
 * lock, once the tail is empty.  So unless most tails have rows, 1 reads the metapage first, M, and
 * then only the tails without the bit.  An entry that the snapshot may see was in the index before
 * that.  If its tail had the bit in M, the entry had left it: it was in a delta or run that M
 * lists, and is in one that V lists, by the proof of lemma L2, as if the tail had been read then.
 * If all tails have the bit, no entry is found before M, and M is V.  The counters of M are those
 * that e., g. and E need.  The tail of NULL keys has no bit, and is always read.
 *
 * Searching again.  A scan that is rescanned, as in a nested loop, searches many times under one
 * snapshot, and its searches share a memo.  If one of them finds no row on any tail in 1, hits or
 * not, then the later ones leave out 1, and 2 takes the same V from the memo.  6 compares the lists
 * with V's, as always.  If they have changed, the memo is forgotten, and the search begins with 1.
 *
 * Each entry that the snapshot may see was in the index before the first search began, and was on
 * no tail when that read the tails.  So a. never holds, and b., c. and d. hold as if 1 and 2 had
 * been taken at that time: the later search only takes long.  Pages that were added to a delta
 * since have no such entry, as below.  No hit comes from a tail, so e. and g. have nothing to
 * exclude.  E is the epoch that the scan's last search has read in 6: before this search finds
 * anything.
 *
 * Searches of different places with the same snapshot are independent of each other.  The
 * processes of a parallel plan rely on that to divide a search (divide.c).
 *
 * A search for TIDs takes the same steps, but a set of TIDs removes duplicates anyway.  So if 6
 * finds that the lists have changed, the search repeats the interval with the new lists, and keeps
 * the collection.  An entry of a run of V is still in a run then, as entries of a run only move to
 * other runs.  An entry of a delta of V has been collected even if that was folded while 3 read its
 * pages: if a page still showed the delta's number, by lemma L1 it had all entries that it had in V
 * and that no deletion has removed, and no others than the index had at some moment after V was
 * read.  If it had been reused for V's other delta, the lists had changed before the first
 * interval: so the first 6 finds other lists, and the runs, one of which has the entry by then, are
 * searched from the first place on.  So all TIDs are certain (lemma L7).
 *
 * A page that is added to a delta after 2 needs no search.  The rows that come to it were on a tail
 * when 1 read that, or have been inserted since; the snapshot does not see these, as even a query
 * of the same transaction has a snapshot from before the search.
 *
 * All this holds on a standby, too (lemma L9).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/step.h"
#include "search.h"

/* A search asks for a fold if an index has this many times the unsorted pages that are worth one */
#define SEARCH_FACTOR			2

/* Room for pages at first; a search for few keys needs no more, and clears no large memory */
#define FEW_CHOSEN				16

/* Minimum memory that hits may use before they are written to a file */
#define MIN_LIMIT				((Size) 64 * 1024)

static void collect(GjSearch *search, GjTidSet *tids, const GjEntrySet *piece,
					GjMatchStats *stats);
static void begin_collection(GjSearch *search, bool entries, GjMatchStats *stats);
static void read_tails(GjSearch *search, bool entries, GjMatchStats *stats);
static GjMatchTarget target_of(GjSearch *search, GjTidSet *tids, const GjEntrySet *piece);
static bool read_used_tails(GjSearch *search, GjMatchStats *stats);
static void note_state(GjSearch *search);
static void forget_state(GjSearch *search);
static bool lists_moved(GjSearch *search);
static bool search_deltas(GjSearch *search, GjTidSet *tids, const GjEntrySet *piece,
						  GjMatchStats *stats);
static void expect_hits(GjSearch *search, BlockNumber nleft, BlockNumber nblocks);
static void add_tails(GjSearch *search, GjMatchTarget target, GjMatchStats *stats);
static bool has_published(const GjIndexState *state, uint64 sequence);
static void forget_hits(GjSearch *search);
static void deliver_hits(GjSearch *search, GjEntrySet *piece, GjMatchStats *stats);
static bool load_hits(GjSearch *search, GjMatchStats *stats);
static void drop_later_hits(GjSearch *search, GjMatchStats *stats);
static GjPlace hit_place(const GjSearch *search, uint64 i);
static void search_runs(GjSearch *search, uint64 room, GjMatchTarget target,
						GjMatchStats *stats);
static bool try_runs(GjSearch *search, uint64 room, GjMatchTarget target, GjMatchStats *stats,
					 GjPlace *end);
static void end_collection(GjSearch *search, GjMatchStats *stats);
static void search_lanes(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
						 uint64 lanes, GjTailHits *hits, GjMatchStats *stats);
static GjFewTids *tail_hits_tids(const GjTailHits *hits, const GjIndexInfo *info);

/*
 * Begin a search of all places; limit is the memory for hits of tails and deltas.  The search
 * allocates in the current memory context, also later; index, info and keys must live as long as
 * the search.
 *
 * If the caller has searched the tails already, it passes the hits, and the search takes them over.
 */
GjSearch *
GjSearchBegin(Relation index, const GjIndexInfo *info, const GjKeySet *keys, Size limit,
			  GjTailHits *tails, GjSearchMemo *memo)
{
	GjSearch   *search = palloc(sizeof(GjSearch));

	memset(search, 0, offsetof(GjSearch, narrow));
	search->index = index;
	search->info = info;
	search->keys = keys;
	search->context = CurrentMemoryContext;
	search->limit = Max(limit, MIN_LIMIT);
	search->memo = memo;
	search->next = (GjPlace) {PG_INT64_MIN, 0};
	search->end = GjLastPlace;
	if (tails != NULL)
	{
		search->tails = *tails;
		search->has_tails = true;
		*tails = (GjTailHits) {0};
	}
	return search;
}

/*
 * Make room for n chosen pages
 */
void
GjSearchMakeRoom(GjSearch *search, int n)
{
	Size		size;

	if (n <= search->room)
		return;
	search->room = n <= FEW_CHOSEN ? FEW_CHOSEN : GJ_MAX_CHOSEN;
	size = search->room * sizeof(GjChosenPage);
	search->chosen = search->chosen == NULL ? MemoryContextAlloc(search->context, size) :
		repalloc(search->chosen, size);
}

/*
 * Restart the search for the places from "from" to before "end", whatever its position is
 */
void
GjSearchTurnTo(GjSearch *search, const GjPlace *from, const GjPlace *end)
{
	forget_hits(search);
	search->next = *from;
	search->end = *end;
	search->key = 0;
	search->counted = true;
}

/*
 * End the search, and remove its temporary file
 */
void
GjSearchEnd(GjSearch *search)
{
	forget_hits(search);
	if (search->hits != NULL)
		GjEntrySetFree(search->hits);
	GjTailHitsForget(&search->tails);
	if (search->strategy != NULL)
		FreeAccessStrategy(search->strategy);
	if (search->chosen != NULL)
		pfree(search->chosen);
	pfree(search);
}

/*
 * Add the next entries to an empty piece, as many as it has room for, in no order.  The piece may
 * stay empty.  Returns false if it is the last one.
 */
bool
GjSearchPiece(GjSearch *search, GjEntrySet *piece, GjMatchStats *stats)
{
	MemoryContext old = MemoryContextSwitchTo(search->context);
	GjMatchTarget target = {NULL, piece};

	if (!search->collected)
		collect(search, NULL, piece, stats);
	if (GjPlaceIsBefore(&search->next, &search->hits_end))
		search_runs(search, GjEntrySetCapacity(piece), target, stats);
	if (!GjPlaceIsBefore(&search->next, &search->hits_end))
		deliver_hits(search, piece, stats);
	MemoryContextSwitchTo(old);
	return search->collected || GjPlaceIsBefore(&search->next, &search->end);
}

/*
 * Add the TIDs of all hits; the search may add some of them twice
 */
void
GjSearchTids(GjSearch *search, GjTidSet *tids, GjMatchStats *stats)
{
	GjMatchTarget target = {tids, NULL};

	collect(search, tids, NULL, stats);
	while (GjPlaceIsBefore(&search->next, &search->end))
		search_runs(search, PG_UINT64_MAX, target, stats);
	forget_hits(search);
}

/* Tails and deltas ---------------------------------------------------------------- */

/*
 * Collect the hits of tails and deltas, steps 1 to 3: their TIDs, or entries, which have the
 * columns of the piece
 */
static void
collect(GjSearch *search, GjTidSet *tids, const GjEntrySet *piece, GjMatchStats *stats)
{
	uint64		found = stats->tids;

	for (;;)
	{
		stats->tids = found;
		begin_collection(search, piece != NULL, stats);
		if (search_deltas(search, tids, piece, stats))
			break;
		forget_state(search);
	}

	if (search->tails.nrows > 0)
		add_tails(search, target_of(search, tids, piece), stats);
	GjTailHitsForget(&search->tails);
	search->collected = true;
	if (!search->info->of_nulls)
	{
		/* all NULL keys are wanted, whatever their order, and no filter is for them */
		(void) GjFoldRequest(search->index, &search->state, SEARCH_FACTOR);
		if (!search->counted && search->state.nruns > 1)
			GjFilterRuns(search);
	}
	GjRunsOpen(search, stats);
	for (int i = 0; i < search->state.nruns && !search->counted; i++)
		stats->run_pages += search->state.runs[i].data_pages;
	search->counted = true;
}

/*
 * Search the tails and read the lists: steps 1 and 2
 *
 * A retry must search the tails again: a row inserted meanwhile may already have moved from its
 * tail to a delta page that we have read.  The first time, the caller may have searched the tails
 * long before.
 */
static void
begin_collection(GjSearch *search, bool entries, GjMatchStats *stats)
{
	if (search->memo != NULL && search->memo->known)
	{
		GjTailHitsForget(&search->tails);
		search->tails.empty = true;
		search->has_tails = false;
		search->state = search->memo->state;
	}
	else
		read_tails(search, entries, stats);
	if (!search->has_epoch)
		search->vacuum_epoch = search->tails.nrows > 0 ? search->tails.vacuum_epoch :
			search->state.vacuum_epoch;
	search->has_epoch = true;
	GjStep("tails searched");
	forget_hits(search);
	search->hits_end = search->end;
}

static void
read_tails(GjSearch *search, bool entries, GjMatchStats *stats)
{
	do
	{
		if (!search->has_tails)
		{
			GjTailHitsForget(&search->tails);
			if (!search->info->many_tails)
			{
				if (read_used_tails(search, stats))
					break;
			}
			else if (entries)
				GjSearchTailsCounted(search->index, search->info, search->keys, &search->tails,
									 stats);
			else
				GjSearchTails(search->index, search->info, search->keys, &search->tails, stats);
		}
		search->has_tails = false;
		GjIndexGetPart(search->index, search->info->of_nulls, &search->state);
	} while (entries && search->tails.nrows > 0 &&
			 has_published(&search->state, search->tails.sequence));
	note_state(search);
}

/*
 * Read the metapage, and the tails that may have rows by that.  Returns true if none may: then the
 * state need not be read again.
 */
static bool
read_used_tails(GjSearch *search, GjMatchStats *stats)
{
	GjIndexGetPart(search->index, search->info->of_nulls, &search->state);
	GjStep("used tails known");
	search_lanes(search->index, search->info, search->keys, search->state.used_tails,
				 &search->tails, stats);
	search->tails.sequence = search->state.sequence;
	search->tails.vacuum_epoch = search->state.vacuum_epoch;
	search->tails.counted = true;
	return search->state.used_tails == 0;
}

/*
 * Let the next searches of the scan begin with this state, if no tail had a row before it was read
 */
static void
note_state(GjSearch *search)
{
	if (search->memo == NULL || !search->tails.empty)
		return;
	search->memo->state = search->state;
	search->memo->known = true;
}

static void
forget_state(GjSearch *search)
{
	if (search->memo != NULL)
		search->memo->known = false;
}

/*
 * Return the target of a hit of tails or deltas.  Most searches have none.
 */
static GjMatchTarget
target_of(GjSearch *search, GjTidSet *tids, const GjEntrySet *piece)
{
	if (tids == NULL && search->hits == NULL)
		search->hits = GjEntrySetCreateKeyed(search->context, search->limit, piece,
											 search->info->key_width);
	return (GjMatchTarget) {tids, search->hits};
}

/*
 * Read the deltas: step 3.  Returns false if a page has been reused, as the lists have changed.
 */
static bool
search_deltas(GjSearch *search, GjTidSet *tids, const GjEntrySet *piece, GjMatchStats *stats)
{
	GjFewTids  *tail_tids;
	GjPageLimits limits = {true, search->next, search->end};
	GjMatchTarget target;
	BlockNumber *blocks;
	BlockNumber nblocks;
	bool		listed;

	if (GjStateUnsorted(&search->state) == 0)
		return true;
	listed = GjDeltaGetBlocks(search->index, &search->state, &blocks, &nblocks);
	if (listed)
		GjFilterDeltas(search, blocks, &nblocks);
	target = target_of(search, tids, piece);
	tail_tids = tids == NULL && search->tails.nrows > 0 ?
		tail_hits_tids(&search->tails, search->info) : NULL;
	limits.known = tail_tids;
	for (BlockNumber block = 0; listed && block < nblocks; block += search->nchosen)
	{
		search->nchosen = Min(nblocks - block, GJ_MAX_CHOSEN);
		GjSearchMakeRoom(search, search->nchosen);
		search->nasked = 0;
		for (int i = 0; i < search->nchosen; i++)
		{
			search->chosen[i].block = blocks[block + i];
			search->chosen[i].run = 0;
		}
		listed = GjReadDeltas(search, &limits, target, stats);
		if (target.entries != NULL)
			expect_hits(search, nblocks - block - search->nchosen, nblocks);
	}
	if (blocks != NULL)
		pfree(blocks);
	if (tail_tids != NULL)
		GjFewTidsFree(tail_tids);
	return listed;
}

/*
 * Reserve memory for all hits, assuming that the remaining pages have as many as those read so far
 *
 * A set that grows step by step is copied at each step, and the memory freed at the end is large
 * enough that the C library returns it to the system; the next query would then take page faults
 * on all of it.
 */
static void
expect_hits(GjSearch *search, BlockNumber nleft, BlockNumber nblocks)
{
	GjEntrySet *hits = search->hits;
	double		expected = (double) hits->nentries / (nblocks - nleft) * nleft * 1.05;
	uint64		most = GjEntrySetCapacity(hits);

	if (hits->nentries < most && search->spill == NULL)
		(void) GjEntrySetReserve(hits, (uint64) Min(expected, (double) (most - hits->nentries)));
}

/* Hits of tails and deltas ------------------------------------------------------------ */

static void
add_tails(GjSearch *search, GjMatchTarget target, GjMatchStats *stats)
{
	const GjTailHits *tails = &search->tails;

	for (int i = 0; i < tails->nrows; i++)
	{
		const char *row = tails->rows + i * search->info->row_width;
		ItemPointerData tid;
		GjPlace		place;

		place.key = GjRowGetKey(search->info, row, &tid);
		place.tid = GjPackTid(&tid);
		if (GjPlaceIsBefore(&place, &search->next) ||
			!GjPlaceIsBefore(&place, &search->hits_end))
			continue;
		if (target.tids != NULL)
			GjTidSetAddOne(target.tids, &tid);
		else
			GjEntrySetAddRow(target.entries, search->info, row);
		stats->tids++;
	}
}

/*
 * Return true if a run has been published since the metapage had this sequence number
 */
static bool
has_published(const GjIndexState *state, uint64 sequence)
{
	for (int i = 0; i < state->nruns; i++)
	{
		if (state->runs[i].published > sequence)
			return true;
	}
	return false;
}

/*
 * Forget the collection; the search may start another one
 */
static void
forget_hits(GjSearch *search)
{
	if (search->opened)
		GjRunsClose(search);
	if (search->hits != NULL)
		GjEntrySetClear(search->hits);
	if (search->spill != NULL)
		GjEntrySpillEnd(search->spill);
	search->spill = NULL;
	search->ndelivered = 0;
	search->collected = false;
}

/*
 * Deliver as many collected hits as the piece has room for, and forget the collection after the
 * last one
 */
static void
deliver_hits(GjSearch *search, GjEntrySet *piece, GjMatchStats *stats)
{
	const GjEntrySet *hits = search->hits;
	uint64		capacity = GjEntrySetCapacity(piece);

	while (hits != NULL && (search->ndelivered < hits->nentries || load_hits(search, stats)))
	{
		uint64		n = hits->nentries - search->ndelivered;

		n = Min(n, capacity - Min(piece->nentries, capacity));
		if (n == 0)
			return;
		GjEntrySetAddRange(piece, hits, search->ndelivered, n);
		search->ndelivered += n;
	}
	forget_hits(search);
}

/*
 * Read hits back from the temporary file; returns false at its end
 */
static bool
load_hits(GjSearch *search, GjMatchStats *stats)
{
	do
	{
		search->ndelivered = 0;
		if (search->spill == NULL || !GjEntrySpillRead(search->spill, search->hits))
			return false;
		drop_later_hits(search, stats);
	} while (search->hits->nentries == 0);
	return true;
}

/*
 * Drop the hits in memory whose places are not before the end of the collection
 */
static void
drop_later_hits(GjSearch *search, GjMatchStats *stats)
{
	uint64		n;
	uint64	   *dropped;
	uint64		ndropped = 0;

	if (search->hits == NULL || !GjPlaceIsBefore(&search->hits_end, &search->end))
		return;
	n = search->hits->nentries;
	dropped = MemoryContextAllocHuge(search->context, Max(n, 1) * sizeof(uint64));
	for (uint64 i = 0; i < n; i++)
	{
		GjPlace		place = hit_place(search, i);

		dropped[ndropped] = i;
		ndropped += !GjPlaceIsBefore(&place, &search->hits_end);
	}
	GjEntrySetDropPlaces(search->hits, dropped, ndropped);
	stats->tids -= ndropped;
	pfree(dropped);
}

static GjPlace
hit_place(const GjSearch *search, uint64 i)
{
	const GjEntrySet *hits = search->hits;
	GjPlace		place;

	place.tid = hits->tids[i];
	place.key = hits->keys.width == sizeof(int32) ?
		((const int32 *) hits->keys.values)[i] : ((const int64 *) hits->keys.values)[i];
	return place;
}

/* Runs ---------------------------------------------------------------------------- */

/*
 * Add the hits of the next interval, steps 4 to 6; or, if the lists have changed, end the
 * collection where the interval begins
 */
static void
search_runs(GjSearch *search, uint64 room, GjMatchTarget target, GjMatchStats *stats)
{
	uint64		found = stats->tids;
	GjPlace		end;

	while (!try_runs(search, room, target, stats, &end))
	{
		stats->tids = found;
		GjRunsClose(search);
		forget_state(search);
		if (target.entries != NULL)
		{
			GjEntrySetClear(target.entries);
			end_collection(search, stats);
			return;
		}
		GjIndexGetPart(search->index, search->info->of_nulls, &search->state);
		note_state(search);
		GjRunsOpen(search, stats);
	}
	search->next = end;
}

static bool
try_runs(GjSearch *search, uint64 room, GjMatchTarget target, GjMatchStats *stats, GjPlace *end)
{
	GjPageLimits limits = {0};

	if (!GjRunsChoose(search, room, end))
		return false;
	limits.from = search->next;
	limits.end = *end;
	return GjReadChosen(search, &limits, target, stats) && !lists_moved(search);
}

/*
 * Step 6.  The epoch that the metapage has now is older than all that the scan's next search will
 * find.
 */
static bool
lists_moved(GjSearch *search)
{
	GjIndexCounters now;

	GjIndexGetCounters(search->index, &now);
	if (now.list_version != search->state.list_version ||
		now.build_id != search->state.build_id)
		return true;
	if (search->memo != NULL && search->memo->known)
		search->memo->state.vacuum_epoch = now.vacuum_epoch;
	return false;
}

static void
end_collection(GjSearch *search, GjMatchStats *stats)
{
	search->hits_end = search->next;
	drop_later_hits(search, stats);
}

/*-------------------------------------------------------------------------
 * Tail pages
 *
 * Search the tail pages, each of which has a few dozen of the latest rows.
 *
 * The CPU always searches them, even if a device answers the match: they are few, and their rows
 * are stored nowhere else.  The hits are copied, as the rows may be flushed at any time.
 *-------------------------------------------------------------------------
 */

/*
 * Search the tail pages, with one share lock at a time; unless most of them had rows, only those
 * that have some by the metapage
 *
 * The caller has the index open with at least AccessShareLock, has taken its snapshot, and passes
 * a set that can match a key.
 */
void
GjSearchTails(Relation index, const GjIndexInfo *info, const GjKeySet *keys, GjTailHits *hits,
			  GjMatchStats *stats)
{
	GjIndexCounters now = {.used_tails = PG_UINT64_MAX};

	hits->counted = !info->many_tails;
	if (hits->counted)
	{
		GjIndexGetCounters(index, &now);
		GjStep("used tails known");
	}
	hits->sequence = now.sequence;
	hits->vacuum_epoch = now.vacuum_epoch;
	search_lanes(index, info, keys, now.used_tails, hits, stats);
}

/*
 * Search the tail pages of some lanes, one bit each
 */
static void
search_lanes(Relation index, const GjIndexInfo *info, const GjKeySet *keys, uint64 lanes,
			 GjTailHits *hits, GjMatchStats *stats)
{
	int			max_rows = BLCKSZ / info->row_width;
	int			any = 0;

	for (int lane = 0; lane < info->nlanes; lane++)
	{
		BlockNumber block = GJ_FIRST_TAIL_BLOCK + info->first_lane + lane;
		Buffer		buffer;
		Page		page;
		int			nrows;

		if ((lanes >> lane & 1) == 0)
			continue;
		CHECK_FOR_INTERRUPTS();
		buffer = GjBufferRead(index, block, InvalidBuffer, NULL);
		page = BufferGetPage(buffer);
		if (GjPageGetOpaque(page)->used > 0)	/* a hint */
			GjKeySetPrepare(keys);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		GjPageCheck(index, buffer, GJ_PAGE_TAIL);
		nrows = GjPageGetOpaque(page)->used;
		for (int row = 0; row < nrows; row++)
		{
			ItemPointerData tid;
			int64		key = GjTailGetRow(page, info, row, &tid);

			if (!GjKeySetContains(keys, key))
				continue;
			if (!GjTidIsPossible(&tid))
				GjReportCorruption(index, BufferGetBlockNumber(buffer),
								   "An entry has an impossible TID.");
			if (hits->rows == NULL)
				hits->rows = palloc(info->nlanes * max_rows * info->row_width);
			memcpy(hits->rows + hits->nrows++ * info->row_width, GjTailRow(page, info, row),
				   info->row_width);
		}
		any |= nrows;
		stats->pages++;
		stats->entries += nrows;
		UnlockReleaseBuffer(buffer);
	}
	hits->empty = any == 0;
}

/*
 * Do the same for entries: if there are hits, the counters of the metapage have been read before
 *
 * Usually there are none, and the counters need not be read at all: nothing has been found yet.
 */
void
GjSearchTailsCounted(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
					 GjTailHits *hits, GjMatchStats *stats)
{
	uint64		pages = stats->pages;
	uint64		entries = stats->entries;
	GjIndexCounters now;

	GjSearchTails(index, info, keys, hits, stats);
	if (hits->nrows == 0 || hits->counted)
		return;
	GjTailHitsForget(hits);
	stats->pages = pages;
	stats->entries = entries;
	GjIndexGetCounters(index, &now);
	search_lanes(index, info, keys, PG_UINT64_MAX, hits, stats);
	hits->sequence = now.sequence;
	hits->vacuum_epoch = now.vacuum_epoch;
	hits->counted = true;
}

/*
 * Build a lookup structure for the TIDs of the hits, in the current memory context
 */
static GjFewTids *
tail_hits_tids(const GjTailHits *hits, const GjIndexInfo *info)
{
	uint64	   *tids = palloc(hits->nrows * sizeof(uint64));
	GjFewTids  *few;

	for (int i = 0; i < hits->nrows; i++)
	{
		ItemPointerData tid;

		(void) GjRowGetKey(info, hits->rows + i * info->row_width, &tid);
		tids[i] = GjPackTid(&tid);
	}
	few = GjFewTidsCreate(CurrentMemoryContext, tids, hits->nrows);
	pfree(tids);
	return few;
}

/*
 * Forget the hits of the tail pages
 */
void
GjTailHitsForget(GjTailHits *hits)
{
	if (hits->rows != NULL)
		pfree(hits->rows);
	hits->rows = NULL;
	hits->nrows = 0;
}
