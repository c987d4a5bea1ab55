/*-------------------------------------------------------------------------
 *
 * runs.c
 *	  Choosing the pages of runs that may have a hit, from their directories alone.
 *
 * A directory has the first place of each page, which also tells where the previous page ends.
 * We scan the listed keys and the directory together: from a page to the next listed key, from
 * that to the page where it is, and so on.  A page is chosen if a listed key is not below its
 * first key, and not above the first key of the next page: the entries of a key may begin on
 * one page and continue on the next.
 *
 * Of the listed keys, those that a filter of the run rules out are not looked up (filters.c).
 *
 * We scan all runs together, too.  Pages are chosen in the order of their first places, whatever
 * run they are of, until their entries fill the room.  The piece ends at the first place of the
 * next page: every hit before that place, in any run, is on one of the chosen pages.  Some of the
 * chosen pages may have more hits, from that place on.  These are left for the next piece, which
 * chooses the page again.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "search.h"

/* Reading this many pages takes much longer than taking a step */
#define MIN_STEP_PAGES			4

/* A directory page is copied if more seeks than this are expected in it */
#define FEW_SEEKS				4

static bool takes_few_seeks(const GjKeySet *keys, const GjRun *run);
static int	divide_runs(GjSearch *search, int most, GjPlace *starts);
static void settle(GjSearch *search, GjRunCursor *cursor);
static void start_all(GjSearch *search);
static void start(GjSearch *search, GjRunCursor *cursor);
static void go_on(GjSearch *search, GjRunCursor *cursor);
static bool find_wanted(const GjSearch *search, GjRunCursor *cursor, int64 key);
static bool seek(GjRunCursor *cursor, GjPlace place);
static GjRunCursor *first_cursor(GjSearch *search);
static void choose(GjSearch *search, GjRunCursor *cursor);

/*
 * Open cursors on the runs that the state lists
 */
void
GjRunsOpen(GjSearch *search, GjMatchStats *stats)
{
	Assert(!search->opened);
	search->most_slots = search->info->plain_slots;
	for (int i = 0; i < search->state.nruns; i++)
	{
		GjRunCursor *cursor = &search->cursors[i];
		const GjRun *run = &search->state.runs[i];
		/* the first run, by far the largest, has no filter */
		const GjKeySet *keys = i > 0 ? GjFilterRunKeys(search, i) : search->keys;

		search->most_slots = Max(search->most_slots, (int) run->most_slots);
		cursor->keys = keys;
		GjRunReaderBegin(&cursor->reader, search->index, &search->state, run,
						 keys == NULL || takes_few_seeks(keys, run));
	}
	search->opened = true;
	stats->runs = Max(stats->runs, search->state.nruns);
}

/*
 * Return true if so few pages of a run are expected to have one of the keys that the reader should
 * not copy its directory: each listed key is on a page of its own, and an interval has its part of
 * the run's pages, as if keys were spread evenly
 */
static bool
takes_few_seeks(const GjKeySet *keys, const GjRun *run)
{
	uint64		most = (uint64) run->directory_pages * FEW_SEEKS;
	double		span = (double) run->max_key - (double) run->min_key + 1.0;
	double		wanted = 0.0;

	if (GjKeySetIsList(keys))
		return GjKeySetCount(keys) <= most;
	if (keys->nintervals > most)
		return false;
	for (uint64 i = 0; i < keys->nintervals; i++)
	{
		double		low = (double) Max(keys->intervals[i].low, run->min_key);
		double		high = (double) Min(keys->intervals[i].high, run->max_key);

		wanted += low <= high ? 1.0 + (high - low) / span * run->data_pages : 0.0;
	}
	return wanted <= (double) most;
}

void
GjRunsClose(GjSearch *search)
{
	for (int i = 0; i < search->state.nruns; i++)
	{
		const GjKeySet *keys = search->cursors[i].keys;

		if (keys != NULL && keys != search->keys)
			GjKeySetFree(unconstify(GjKeySet *, keys));
		GjRunReaderEnd(&search->cursors[i].reader);
	}
	search->opened = false;
}

/*
 * Choose pages, from the search's next place on, until the entries of another page would not fit;
 * sets end to the end of the piece
 *
 * Chooses at least one page, if any is left, and all pages that begin before the next place.
 * Returns false if a directory is not the one that the state lists any longer.
 */
bool
GjRunsChoose(GjSearch *search, uint64 room, GjPlace *end)
{
	GjRunCursor *cursor;

	search->nchosen = 0;
	search->nasked = 0;
	start_all(search);

	*end = search->hits_end;
	while ((cursor = first_cursor(search)) != NULL)
	{
		if (search->nchosen > 0 && GjPlaceIsBefore(&search->next, &cursor->reader.first) &&
			((search->nchosen + 1) * (uint64) search->most_slots > room ||
			 search->nchosen == GJ_MAX_CHOSEN))
		{
			*end = cursor->reader.first;
			break;
		}
		choose(search, cursor);
		go_on(search, cursor);
	}

	for (int i = 0; i < search->state.nruns; i++)
	{
		if (!search->cursors[i].reader.moved)
			continue;
		if (GjListsMoved(search->index, &search->state))
			return false;
		GjReportCorruption(search->index, search->state.runs[i].root,
						   "The directory of a run is damaged.");
	}
	return true;
}

/*
 * Divide the search among processes, into at most "most" intervals.  Sets the place at which each
 * interval starts, and returns the number of intervals.
 *
 * Each interval is a search of its own, which reads tails and deltas, too.  So we make enough
 * intervals to keep all processes busy to the end, but fewer if that would double the pages read.
 */
int
GjSearchDivide(GjSearch *search, int nprocesses, int most, GjPlace *starts, GjMatchStats *stats)
{
	const GjKeySet *keys = search->keys;
	const GjIndexState *state = &search->state;
	double		unsorted = search->info->nlanes;
	double		sorted = 0.0;
	int			n;

	GjIndexGetPart(search->index, search->info->of_nulls, &search->state);
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
	n = divide_runs(search, most, starts);
	GjRunsClose(search);
	if (n > 1 || !GjKeySetIsList(keys) || GjKeySetCount(keys) < (uint64) nprocesses)
		return n;

	/* the runs cannot be divided, but processing the entries can */
	for (n = 1; n < nprocesses; n++)
		starts[n] = (GjPlace) {GjKeySetAt(keys, GjKeySetCount(keys) * n / nprocesses), 0};
	return n;
}

/*
 * Split the search of the runs into at most "most" (>= 2) intervals of about equally many pages;
 * returns the number of intervals
 *
 * Any places are correct, so it does not matter if directories are outdated.
 */
static int
divide_runs(GjSearch *search, int most, GjPlace *starts)
{
	uint64		npages = 0;
	uint64		step = MIN_STEP_PAGES;
	int			n = 1;
	GjRunCursor *cursor;

	starts[0] = search->next;
	start_all(search);
	while ((cursor = first_cursor(search)) != NULL)
	{
		if (npages++ >= step * n)
		{
			starts[n++] = cursor->reader.first;
			if (n == most)
			{
				n = (n + 1) / 2;
				for (int i = 1; i < n; i++)
					starts[i] = starts[2 * i];
				step *= 2;
			}
		}
		go_on(search, cursor);
	}
	return n;
}

static void
start_all(GjSearch *search)
{
	int64		wanted;

	(void) GjKeySetSeek(search->keys, &search->key, search->next.key, &wanted);
	for (int i = 0; i < search->state.nruns; i++)
	{
		start(search, &search->cursors[i]);
		settle(search, &search->cursors[i]);
	}
}

/*
 * Go to the page where the piece begins, or to that of the first wanted key
 */
static void
start(GjSearch *search, GjRunCursor *cursor)
{
	cursor->key = cursor->keys == search->keys ? search->key : 0;
	cursor->at_page = cursor->keys != NULL &&
		find_wanted(search, cursor, cursor->reader.run.min_key) &&
		seek(cursor, search->next);
}

/*
 * Go to the next page that may have a hit.  If no wanted key is on the next page, do not look up
 * where that is.
 */
static void
go_on(GjSearch *search, GjRunCursor *cursor)
{
	GjPlace		next = cursor->reader.next;

	cursor->at_page = cursor->reader.has_next && GjPlaceIsBefore(&next, &search->hits_end) &&
		find_wanted(search, cursor, next.key) &&
		(cursor->wanted > next.key ? seek(cursor, next) :
		 GjRunReaderNext(&cursor->reader));
	settle(search, cursor);
}

/*
 * Advance to the first page, from the reader's page on, that may have a hit
 */
static void
settle(GjSearch *search, GjRunCursor *cursor)
{
	const GjRunReader *reader = &cursor->reader;

	while (cursor->at_page)
	{
		CHECK_FOR_INTERRUPTS();
		cursor->at_page = GjPlaceIsBefore(&reader->first, &search->hits_end) &&
			find_wanted(search, cursor, reader->first.key);
		if (!cursor->at_page || !reader->has_next || cursor->wanted <= reader->next.key)
			return;
		cursor->at_page = seek(cursor, reader->next);
	}
}

/*
 * Advance to the first wanted key that is not below this one, nor before the piece; returns false
 * if the run has none
 */
static bool
find_wanted(const GjSearch *search, GjRunCursor *cursor, int64 key)
{
	return GjKeySetSeek(cursor->keys, &cursor->key, Max(key, search->next.key),
						&cursor->wanted) &&
		cursor->wanted <= cursor->reader.run.max_key;
}

/*
 * Go to the page of this place, or of the cursor's wanted key if that comes after it
 */
static bool
seek(GjRunCursor *cursor, GjPlace place)
{
	if (cursor->wanted > place.key)
		place = (GjPlace) {cursor->wanted, 0};
	return GjRunReaderSeek(&cursor->reader, &place);
}

static GjRunCursor *
first_cursor(GjSearch *search)
{
	GjRunCursor *first = NULL;

	for (int i = 0; i < search->state.nruns; i++)
	{
		GjRunCursor *cursor = &search->cursors[i];

		if (cursor->at_page &&
			(first == NULL || GjPlaceIsBefore(&cursor->reader.first, &first->reader.first)))
			first = cursor;
	}
	return first;
}

static void
choose(GjSearch *search, GjRunCursor *cursor)
{
	GjChosenPage *chosen;

	GjSearchMakeRoom(search, search->nchosen + 1);
	chosen = &search->chosen[search->nchosen++];
	chosen->block = cursor->reader.block;
	chosen->run = cursor->reader.run.run;
	chosen->first = cursor->reader.first;
	chosen->next = cursor->reader.has_next ? cursor->reader.next :
		(GjPlace) {cursor->reader.run.max_key, PG_UINT64_MAX};
	chosen->keys = cursor->keys;
	chosen->key = cursor->key;
	chosen->wanted = cursor->wanted;
}
