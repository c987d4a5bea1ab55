/*-------------------------------------------------------------------------
 *
 * search.c
 *	  The CPU's answer to a match: which entries have a key of this set, taken from the
 *	  index pages in shared buffers.
 *
 * Entries are on tail pages, in deltas, and in runs.  Tails and deltas have no order, and all of
 * them is read.  Of runs only those pages are read that may have what is wanted (runs.c).
 *
 * The answer comes in pieces, so that it need not fit in memory.  First there is the collection:
 * all hits of tails and deltas, in this order:
 *
 *	  1. the tail pages of all lanes,
 *	  2. the metapage: V, which runs and deltas there are,
 *	  3. all pages of V's deltas,
 *	  4. the metapage again.  If its list_version is not V's, begin again with 1.
 *
 * They are delivered first.  What comes then are the hits of the runs, in intervals of places, that
 * is, of (key, TID), since the entries of a run are in this order:
 *
 *	  5. by the directories the pages are chosen that may have something between the place where
 *		 the piece before ended and another one,
 *	  6. these pages are read,
 *	  7. the metapage is read again.  If its list_version has changed, forget what 6 has found,
 *		 read which runs there are now, and begin again with 5.
 *
 * No page is locked while another one is read, and insertions and VACUUM go on meanwhile.  Between
 * two pieces nothing is held at all, however long that takes.
 *
 * What is read is what was there.  A page belongs to a run or delta from when the metapage lists
 * that until the record that lists it no more, and only that record makes the page free to be
 * used anew; such a record raises list_version.  So if that is the same after the pages have been
 * read as in the state by which they were chosen, they all belonged to the listed runs and deltas
 * all the time.  A page that turns out to be something else is damaged, unless list_version has
 * changed.
 *
 * Claim: no entry is missing that the caller's snapshot may see.  It was in the index when the
 * search began, since the snapshot was taken before, and until nobody can see it any more it is
 * never removed, only moved: once at most from tail to delta (GjTailFlush: one record, both pages
 * locked), and then from a delta or a run to a younger run, by a fold, whose record makes the new
 * run listed and the old ones not.
 *
 * a. If the entry was on its tail when 1 came there, it is collected.
 * b. Else it was in a delta or run before 2, and so it was on a page that V lists, or still is.
 *	  (A delta, or a page of one, that V does not know has only entries that have left their tail
 *	  after V was read, which are a's.)  If in a delta: 3 reads that page, and by 4 it was that
 *	  page.  So it is collected.
 * c. Else it was in a run of V.  Let p be its place, which is the same in whatever run it is.
 *	  One of the intervals has p.  The entry is in a run at that time, too, as nothing moves from
 *	  a run to elsewhere; and by 7 the runs by which the pages were chosen are those that there
 *	  were while they were read.  The entry is in one of these, as V, or the later state, lists
 *	  it.  runs.c says why its page is chosen.
 *
 * Claim: no entry is delivered twice.
 *
 * d. Within the collection: an entry may be found on its tail, and again on a delta's page to
 *	  which it has moved.  That was a change to the page, with a number above the metapage's
 *	  sequence as it was before 1.  On pages with such a number, hits whose TIDs the tails had are
 *	  left out.  Between two data pages of deltas nothing moves.
 * e. Within the runs: an entry has one place, and each place is in one interval.  Within one
 *	  interval it is in one of the runs that were listed at the same moment.
 * f. Between both: a collected entry gets into a run only when a fold publishes that, which draws
 *	  a number and raises list_version.  So as long as no run of V was published after 1 had begun,
 *	  and list_version is V's, no run has an entry that was collected.  Else those with a TID that
 *	  was collected are left out.  (To compare list_version alone is not enough: a row of a tail can
 *	  be flushed, folded and published between 1 and 2.)
 *
 * What is left out in d. or f. could be another entry, if the TID has been used again since: its
 * first row is dead to everybody then, and the second is younger than the snapshot.  Neither is a
 * row of the answer.  entries.c says more about such pairs, and exec/entryvisible.c about the
 * vacuum epoch, which is read before anything is found.
 *
 * If hits of tails and deltas are more than the memory limit allows, only those up to some place
 * are kept.  When all intervals up to it have been delivered, there is another collection for
 * what comes behind it: another search, of other places, with the same snapshot.  That is how the
 * processes of a parallel plan divide a search, too (divide.c).  An entry has one place, and so
 * is in one of these searches.
 *
 * A search for TIDs does the same, but in a set of TIDs each is once anyway.
 *
 * On a standby all this holds: replay changes all pages of a record while it holds the locks of
 * all, in the order of the primary.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/step.h"
#include "search.h"

/* Hits that are too many are divided at the middle one of so many */
#define SAMPLES					255

static void collect(GjSearch *search, GjMatchTarget target, GjMatchStats *stats);
static void begin_collection(GjSearch *search, GjMatchTarget target, GjMatchStats *stats);
static bool search_deltas(GjSearch *search, GjMatchTarget target, GjMatchStats *stats);
static void expect_hits(GjSearch *search, BlockNumber nleft, BlockNumber nblocks);
static void add_tails(GjSearch *search, GjMatchTarget target, GjMatchStats *stats);
static bool has_published(const GjIndexState *state, uint64 sequence);
static void know_hits(GjSearch *search);
static GjPlace hit_place(const GjSearch *search, uint64 i);
static int	compare_places(const void *a, const void *b);
static void forget_hits(GjSearch *search);
static void deliver_hits(GjSearch *search, GjEntrySet *piece);
static void search_runs(GjSearch *search, uint64 room, GjMatchTarget target,
						GjMatchStats *stats);
static bool try_runs(GjSearch *search, uint64 room, GjMatchTarget target, GjMatchStats *stats,
					 GjPlace *end);
static void look_again(GjSearch *search, GjMatchStats *stats);

/*
 * Begin a search of all places, in which hits of tails and deltas may take so much memory.  What
 * it takes is allocated in the current memory context, also later; index, info and keys must live
 * as long.
 *
 * The tails may have been searched already, which the search takes over then.
 */
GjSearch *
GjSearchBegin(Relation index, const GjIndexInfo *info, const GjKeySet *keys, Size limit,
			  GjTailHits *tails)
{
	GjSearch   *search = palloc(sizeof(GjSearch));

	memset(search, 0, offsetof(GjSearch, chosen));
	search->index = index;
	search->info = info;
	search->keys = keys;
	search->context = CurrentMemoryContext;
	search->limit = limit;
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
 * Have the search be for the places from one to before another, whatever it was at
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
 * Has everything been delivered?
 */
bool
GjSearchIsDone(const GjSearch *search)
{
	return !GjPlaceIsBefore(&search->next, &search->end);
}

/*
 * Forget the search
 */
void
GjSearchEnd(GjSearch *search)
{
	forget_hits(search);
	GjTailHitsForget(&search->tails);
	if (search->strategy != NULL)
		FreeAccessStrategy(search->strategy);
	pfree(search);
}

/*
 * Add the next entries to a piece, as many as there is room for, in no order.  There may be none.
 */
void
GjSearchPiece(GjSearch *search, GjEntrySet *piece, GjMatchStats *stats)
{
	MemoryContext old = MemoryContextSwitchTo(search->context);
	GjMatchTarget target = {NULL, piece};
	uint64		room;

	if (!search->collected)
	{
		GjMatchTarget hits = {NULL, NULL};

		if (search->hits == NULL)
			search->hits = GjEntrySetCreateKeyed(search->context, search->limit, piece,
												 search->info->key_width);
		hits.entries = search->hits;
		collect(search, hits, stats);
	}

	deliver_hits(search, piece);
	room = GjEntrySetCapacity(piece) - Min(piece->nentries, GjEntrySetCapacity(piece));
	if (search->ndelivered == search->hits->nentries &&
		(room >= search->info->slots || piece->nentries == 0))
		search_runs(search, room, target, stats);
	if (!GjPlaceIsBefore(&search->next, &search->hits_end))
		forget_hits(search);
	MemoryContextSwitchTo(old);
}

/*
 * Add all TIDs that there are; some may come twice
 */
void
GjSearchTids(GjSearch *search, GjTidSet *tids, GjMatchStats *stats)
{
	GjMatchTarget target = {tids, NULL};

	collect(search, target, stats);
	while (!GjSearchIsDone(search))
		search_runs(search, PG_UINT64_MAX, target, stats);
	forget_hits(search);
}

/*
 * Divide the search among processes: returns into how many intervals, at most so many, and where
 * they start
 *
 * Each of them is a search of its own, which reads tails and deltas, too.  So there are as many as
 * keep all processes at work to the end, but fewer if that would double what is read.
 */
int
GjSearchDivide(GjSearch *search, int nprocesses, int most, GjPlace *starts, GjMatchStats *stats)
{
	const GjKeySet *keys = search->keys;
	const GjIndexState *state = &search->state;
	double		unsorted = search->info->nlanes;
	double		sorted = 0.0;
	int			n;

	GjIndexGetState(search->index, &search->state);
	for (int i = 0; i < lengthof(state->deltas); i++)
		unsorted += state->deltas[i].run != 0 ? state->deltas[i].data_pages : 0;
	for (int i = 0; i < state->nruns; i++)
		sorted += state->runs[i].data_pages;
	stats->run_pages += (uint64) sorted;
	nprocesses = Min(nprocesses, most);
	most = (int) Max(Min(most, sorted / unsorted), nprocesses);

	starts[0] = search->next;
	if (most < 2)
		return 1;
	GjRunsOpen(search, stats);
	search->hits_end = search->end;
	n = GjRunsDivide(search, most, starts);
	GjRunsClose(search);
	if (n > 1 || keys->complement || keys->nkeys < (uint64) nprocesses)
		return n;

	/* there are no runs, but what is done with the entries can be divided */
	for (n = 1; n < nprocesses; n++)
		starts[n] = (GjPlace) {keys->keys[keys->nkeys * n / nprocesses], 0};
	return n;
}

/* Tails and deltas ---------------------------------------------------------------- */

/*
 * Steps 1 to 4: find what tails and deltas have
 */
static void
collect(GjSearch *search, GjMatchTarget target, GjMatchStats *stats)
{
	uint64		found = stats->tids;

	do
	{
		stats->tids = found;
		begin_collection(search, target, stats);
	} while (!search_deltas(search, target, stats) ||
			 GjListsMoved(search->index, &search->state));

	add_tails(search, target, stats);
	if (target.entries != NULL)
		stats->tids = found + target.entries->nentries;
	if (has_published(&search->state, search->tails.sequence))
		know_hits(search);
	GjTailHitsForget(&search->tails);
	search->collected = true;
	GjRunsOpen(search, stats);
	for (int i = 0; i < search->state.nruns && !search->counted; i++)
		stats->run_pages += search->state.runs[i].data_pages;
	search->counted = true;
}

/*
 * Steps 1 and 2
 *
 * If all of this is done again, so is the search of the tails: what was on none of them may have
 * come to one, and from there to a page of a delta that was read already.
 */
static void
begin_collection(GjSearch *search, GjMatchTarget target, GjMatchStats *stats)
{
	if (!search->has_tails)
	{
		GjTailHitsForget(&search->tails);
		GjIndexGetState(search->index, &search->state);
		search->tails.sequence = search->state.sequence;
		GjSearchTails(search->index, search->info, search->keys, &search->tails, stats);
	}
	search->has_tails = false;
	GjIndexGetState(search->index, &search->state);
	GjStep("tails searched");
	search->hits_end = search->end;
	search->ndelivered = 0;
	if (target.entries != NULL)
		GjEntrySetClear(target.entries);
}

/*
 * Step 3; false if the lists have moved
 */
static bool
search_deltas(GjSearch *search, GjMatchTarget target, GjMatchStats *stats)
{
	GjFewTids  *tail_tids = target.entries != NULL && search->tails.nrows > 0 ?
		GjTailHitsTids(&search->tails, search->info) : NULL;
	GjPageLimits limits = {true, search->next, search->end, tail_tids};
	BlockNumber *blocks;
	BlockNumber nblocks;
	bool		listed = GjDeltaGetBlocks(search->index, &search->state, &blocks, &nblocks);

	GjGuessStart(&search->guess, search->index, NULL);
	for (BlockNumber block = 0; listed && block < nblocks; block += search->nchosen)
	{
		search->nchosen = Min(nblocks - block, GJ_MAX_CHOSEN);
		search->nasked = 0;
		for (int i = 0; i < search->nchosen; i++)
		{
			search->chosen[i].block = blocks[block + i];
			search->chosen[i].run = 0;
			search->chosen[i].guess = &search->guess;
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
 * Make room for as many hits as there will be if the pages that are left have as many as the others
 *
 * A set that grows step by step is copied at each, and leaves behind so much memory in the end that
 * the C library gives it back to the system: the next query would touch all of it for the first
 * time.
 */
static void
expect_hits(GjSearch *search, BlockNumber nleft, BlockNumber nblocks)
{
	GjEntrySet *hits = search->hits;
	double		expected = (double) hits->nentries / (nblocks - nleft) * nleft * 1.05;
	uint64		most = GjEntrySetCapacity(hits);

	if (hits->nentries < most)
		(void) GjEntrySetReserve(hits, (uint64) Min(expected, (double) (most - hits->nentries)));
}

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
 * Has a run been published since the metapage had that sequence number?
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
 * Leave out of runs from now on what was collected
 */
static void
know_hits(GjSearch *search)
{
	if (search->hits != NULL && search->hits->nentries > 0 && search->known == NULL)
		search->known = GjFewTidsCreate(search->context, search->hits->tids,
										search->hits->nentries);
}

/*
 * If the hits take too much memory, keep those of the first places only, about a half
 */
void
GjSearchLimitHits(GjSearch *search)
{
	GjEntrySet *hits = search->hits;
	uint64		n = hits->nentries;
	GjPlace		sample[SAMPLES];
	uint64	   *dropped;
	uint64		ndropped = 0;

	if (n < SAMPLES || n * hits->entry_bytes <= search->limit)
		return;
	for (int i = 0; i < SAMPLES; i++)
		sample[i] = hit_place(search, n * i / SAMPLES);
	qsort(sample, SAMPLES, sizeof(GjPlace), compare_places);
	search->hits_end = sample[SAMPLES / 2];

	dropped = MemoryContextAllocHuge(search->context, n * sizeof(uint64));
	for (uint64 i = 0; i < n; i++)
	{
		GjPlace		place = hit_place(search, i);

		dropped[ndropped] = i;
		ndropped += !GjPlaceIsBefore(&place, &search->hits_end);
	}
	if (ndropped == n)
		elog(ERROR, "index \"%s\" has an entry too often", RelationGetRelationName(search->index));
	GjEntrySetDropPlaces(hits, dropped, ndropped);
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

static int
compare_places(const void *a, const void *b)
{
	return GjPlaceIsBefore(a, b) ? -1 : GjPlaceIsBefore(b, a) ? 1 : 0;
}

/*
 * Forget the collection; there may be another one
 */
static void
forget_hits(GjSearch *search)
{
	GjRunsClose(search);
	if (search->known != NULL)
		GjFewTidsFree(search->known);
	search->known = NULL;
	search->collected = false;
}

/*
 * Deliver collected hits, as many as there is room for
 */
static void
deliver_hits(GjSearch *search, GjEntrySet *piece)
{
	uint64		left = search->hits->nentries - search->ndelivered;
	uint64		n = Min(left, GjEntrySetCapacity(piece));

	if (n == 0)
		return;
	GjEntrySetAddRange(piece, search->hits, search->ndelivered, n);
	search->ndelivered += n;
}

/* Runs ---------------------------------------------------------------------------- */

/*
 * Steps 5 to 7: add the hits of the next interval
 */
static void
search_runs(GjSearch *search, uint64 room, GjMatchTarget target, GjMatchStats *stats)
{
	uint64		found = stats->tids;
	uint64		nentries = target.entries != NULL ? target.entries->nentries : 0;
	GjPlace		end;

	while (!try_runs(search, room, target, stats, &end))
	{
		stats->tids = found;
		if (target.entries != NULL)
			GjEntrySetCut(target.entries, nentries);
		look_again(search, stats);
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
	limits.known = search->known;
	return GjReadChosen(search, &limits, target, stats) &&
		!GjListsMoved(search->index, &search->state);
}

/*
 * The lists have moved: go on with what they are now.  Runs may have entries now that were
 * collected from tails and deltas.
 */
static void
look_again(GjSearch *search, GjMatchStats *stats)
{
	GjRunsClose(search);
	GjIndexGetState(search->index, &search->state);
	GjRunsOpen(search, stats);
	know_hits(search);
}
