/*-------------------------------------------------------------------------
 *
 * writers.h
 *	  Steps of the processes that change a world: the inserter, VACUUM, the synchronizer of a
 *	  mirror.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MODEL_WRITERS_H
#define GPUJOIN_MODEL_WRITERS_H

#include "world.h"

/* The index -------------------------------------------------------------------- */

/* Return the run's place in the list, or NONE */
static int
find_run(const Lists *lists, int run)
{
	for (int i = 0; i < lists->nruns; i++)
	{
		if (lists->runs[i] == run)
			return i;
	}
	return NONE;
}

static bool
is_listed(const Lists *lists, int run)
{
	return run != 0 &&
		(find_run(lists, run) != NONE || run == lists->delta || run == lists->previous);
}

static bool
is_free(const State *s, int block)
{
	const Page *page = &s->pages[block];

	if (page->run == 0)
		return true;
	if (mutant == FREE_BEFORE_PUBLISH && (s->fold_blocks & (1 << block)) && s->lists.fold_run != 0)
		return true;
	if (page->run == s->lists.fold_run)
		return mutant == FOLD_RUN_IS_FREE;
	return !is_listed(&s->lists, page->run);
}

/* A full tail needs a page: GjLaneSwitch and GjTailFlush */
static void
insert(const State *s)
{
	State		t;

	if (s->tail == 0 && s->fillers == 0)
		return;
	if (s->open != NONE)
	{
		t = *s;
		t.pages[s->open].has |= s->tail;
		t.pages[s->open].change = ++t.sequence;
		if (s->tail == 0)
		{
			/* the page is filled with other rows: the lane needs another page for the next ones */
			t.fillers--;
			t.open = NONE;
			t.is_empty = false;
		}
		t.tail = 0;
		reach(&t, "flush to", s->open);
		return;
	}
	for (int block = 0; block < BLOCKS; block++)
	{
		if (!is_free(s, block))
			continue;
		t = *s;
		t.pages[block].run = t.lists.delta;
		t.pages[block].change = ++t.sequence;
		t.pages[block].has = 0;
		t.opened[block] = t.sequence;
		t.open = block;
		t.open_run = t.lists.delta;
		t.lists.delta_blocks |= 1 << block;
		reach(&t, "open", block);
		break;					/* any of them will do */
	}
}

/* VACUUM: bulk deletion, then a fold of any kind ------------------------------------ */

enum
{
	VACUUM_DELETE, VACUUM_EPOCH,
	FOLD_ROTATE, FOLD_START, FOLD_WRITE, FOLD_PUBLISH, FOLD_LATE_WRITE,
	VACUUM_DONE
};

static void
next_round(State *t)
{
	t->vacuum = ++t->round < rounds ? VACUUM_DELETE : VACUUM_DONE;
	t->first = t->input = t->fold_blocks = t->fold_change = 0;
	t->written = NONE;
}

/* Remove the run at this place, and those after it */
static void
cut_runs(Lists *lists, int at)
{
	for (int i = at; i < RUNS; i++)
		lists->runs[i] = lists->published[i] = 0;
	lists->nruns = at;
}

static void
publish(State *t)
{
	int			at = t->first;

	if (mutant == MERGED_RUN_KEPT && at < t->lists.nruns && at + 1 < RUNS)
		at++;
	cut_runs(&t->lists, at);
	t->lists.runs[at] = t->lists.fold_run;
	t->lists.published[at] = ++t->sequence;
	t->lists.nruns = at + 1;
	t->lists.previous = 0;
	t->lists.previous_blocks = 0;
	t->lists.fold_run = 0;
	t->lists.version++;
}

static void
write_run(const State *s, int next)
{
	for (int block = 0; block < BLOCKS; block++)
	{
		State		t = *s;
		int			run = s->lists.fold_run;

		if (!is_free(s, block))
			continue;
		if (mutant == PUBLISH_BEFORE_LAST_PAGE)
			run = s->lists.runs[s->lists.nruns - 1];
		t.pages[block].run = run;
		t.pages[block].change = s->fold_change;
		t.pages[block].has = s->input;
		t.written = block;
		t.vacuum = next;
		if (next == VACUUM_DELETE)
			next_round(&t);
		reach(&t, "write run to", block);
		break;
	}
}

/* Close the lane, take a number, and read the input: the previous delta, and runs from first on */
static void
start_fold(const State *s, int first, const char *step)
{
	State		t = *s;

	if (t.open != NONE && t.open_run == t.lists.previous && mutant != LANE_LEFT_OPEN)
		t.open = NONE;
	t.is_empty |= t.tail == 0 || mutant == TAIL_CALLED_EMPTY;
	t.first = first;
	t.lists.fold_run = t.lists.next_run++;
	t.fold_change = ++t.sequence;

	/* one step, because no process changes these pages any more */
	for (int block = 0; block < BLOCKS; block++)
	{
		int			run = t.pages[block].run;

		if (run != 0 && (run == t.lists.previous || find_run(&t.lists, run) >= first))
		{
			t.input |= t.pages[block].has;
			t.fold_blocks |= 1 << block;
		}
	}
	t.vacuum = mutant == PUBLISH_BEFORE_LAST_PAGE ? FOLD_PUBLISH : FOLD_WRITE;
	reach(&t, step, first);
}

/* Start a major fold, a minor one, and those in between */
static void
start_folds(const State *s, const char *step)
{
	int			most = s->lists.nruns < RUNS ? s->lists.nruns : RUNS - 1;

	for (int first = 0; first <= most; first++)
		start_fold(s, first, step);
}

/* Drop a run without live entries before a fold, or not */
static void
drop_dead_runs(const State *s)
{
	for (int i = 0; i < s->lists.nruns; i++)
	{
		State		t = *s;
		int			has = 0;

		for (int block = 0; block < BLOCKS; block++)
			has |= s->pages[block].run == s->lists.runs[i] ? s->pages[block].has : 0;
		if (has != 0)
			continue;
		cut_runs(&t.lists, i);
		for (int later = i + 1; later < s->lists.nruns; later++)
		{
			t.lists.runs[later - 1] = s->lists.runs[later];
			t.lists.published[later - 1] = s->lists.published[later];
			t.lists.nruns = later;
		}
		t.lists.version++;
		t.sequence++;
		reach(&t, "drop run", i);
	}
}

static void
vacuum(const State *s)
{
	State		t = *s;

	switch (s->vacuum)
	{
		case VACUUM_DELETE:
			/* each page has its own record, but nothing depends on the states in between */
			t.tail &= ~DEAD;
			for (int block = 0; block < BLOCKS; block++)
			{
				if (!is_listed(&s->lists, s->pages[block].run) || !(s->pages[block].has & DEAD))
					continue;
				t.pages[block].has &= ~DEAD;
				t.pages[block].change = ++t.sequence;
				t.deleted[block] = t.sequence;
			}
			t.vacuum = VACUUM_EPOCH;
			reach(&t, "delete", NONE);
			break;
		case VACUUM_EPOCH:
			t.epoch++;
			t.gone = true;
			t.vacuum = FOLD_ROTATE;
			reach(&t, "raise epoch", NONE);
			break;
		case FOLD_ROTATE:
			drop_dead_runs(s);
			t.lists.previous = s->lists.delta;
			t.lists.previous_blocks = s->lists.delta_blocks;
			t.lists.delta = t.lists.next_run++;
			t.lists.delta_blocks = 0;
			t.vacuum = FOLD_START;
			if (kind != READ_ON_CPU)
				start_folds(&t, "rotate, fold from");	/* the other reader tries more */
			else
				reach(&t, "rotate", NONE);
			break;
		case FOLD_START:
			start_folds(s, "fold from");
			break;
		case FOLD_WRITE:
			write_run(s, FOLD_PUBLISH);
			break;
		case FOLD_PUBLISH:
			publish(&t);
			if (mutant == PUBLISH_BEFORE_LAST_PAGE)
				t.vacuum = FOLD_LATE_WRITE;
			else
				next_round(&t);
			reach(&t, "publish", NONE);
			break;
		case FOLD_LATE_WRITE:
			write_run(s, VACUUM_DELETE);
			break;
		default:
			break;
	}
}

/* The synchroniser of the mirror ---------------------------------------------------- */

enum
{
	SYNC_LISTS, SYNC_PAGES, SYNC_END
};

static uint8_t
find_lag(const State *s, int sequence, int open)
{
	uint8_t		lag = open == NONE ? 0 : 1 << open;

	for (int block = 0; block < BLOCKS; block++)
	{
		if (s->opened[block] > sequence || s->deleted[block] > sequence)
			lag |= 1 << block;
	}
	return lag;
}

static void
store_copy(State *t, int block, int change, int has)
{
	if (change > t->copy_change[block])
	{
		t->copy_change[block] = change;
		t->copy_has[block] = has;
	}
}

/* Send one page to the device, or that it is empty now */
static void
push(State *t, int block)
{
	const Page *page = &t->pages[block];
	const Lists *lists = &t->sync_lists;
	int			at = find_run(lists, page->run);

	if (page->run == 0)
		return;
	if (!t->sync_full)
	{
		/* the lists are those of the mirror: changed pages are in a delta, or lost entries */
		if ((t->sync_wanted & (1 << block)) && is_listed(lists, page->run))
			store_copy(t, block, page->change, page->has);
	}
	else if (is_listed(lists, page->run))
	{
		if (page->change > t->mirror_sequence ||
			(at != NONE && lists->published[at] > t->mirror_sequence &&
			 mutant != LAG_BY_COUNTERS_ONLY && (at == 0 || mutant != BASE_PUBLISHED_ONLY)))
			store_copy(t, block, page->change, page->has);
	}
	else if (mutant == FREE_NOT_EMPTIED)
		return;
	else if (page->run == lists->fold_run || page->run >= lists->next_run)
		store_copy(t, block, page->change - 1, 0);
	else
		store_copy(t, block, page->change + 1, 0);
}

static void
synchronize(const State *s)
{
	State		t = *s;

	switch (s->sync)
	{
		case SYNC_LISTS:
			if (s->syncs == syncs)
				return;
			t.syncs++;
			t.sync_lists = s->lists;
			t.sync_sequence = s->sequence;
			t.sync_epoch = s->epoch;
			t.sync_open = s->open;
			t.sync_full = by_counters || s->lists.version != s->mirror_version;
			t.sync_wanted = t.sync_full ? 0 : find_lag(s, s->mirror_sequence, s->mirror_open);
			t.sync = SYNC_PAGES;
			reach(&t, "sync: lists", NONE);
			break;
		case SYNC_PAGES:
			if (kind == REDUCE_ON_DEVICE)
			{
				/* the device sees the copies of all pages at one moment, between any two pushes */
				push(&t, s->sync_at);
				if (++t.sync_at == BLOCKS)
				{
					t.sync_at = 0;
					t.sync = SYNC_END;
				}
				reach(&t, "sync: push", s->sync_at);
				break;
			}

			/*
			 * pages change in between, too, but each independently: doing all at once is
			 * equivalent
			 */
			for (int block = 0; block < BLOCKS; block++)
				push(&t, block);
			t.sync = SYNC_END;
			reach(&t, "sync: push", NONE);
			break;
		default:
			/* if the lists have moved since, the mirror does not match them and does not answer */
			t.mirror_version = s->sync_lists.version;
			t.mirror_sequence = s->sync_sequence;
			t.mirror_epoch = s->sync_epoch;
			t.mirror_open = s->sync_open;
			t.sync = SYNC_LISTS;
			t.sync_sequence = t.sync_epoch = 0;
			t.sync_open = NONE;
			t.sync_wanted = 0;
			t.sync_full = false;
			memset(&t.sync_lists, 0, sizeof(Lists));
			reach(&t, "sync: end", NONE);
			break;
	}
}

#endif							/* GPUJOIN_MODEL_WRITERS_H */
