/*-------------------------------------------------------------------------
 *
 * mergers.h
 *	  Steps of the processes that write pages in merge.c: the inserter, flushes, merges.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MODEL_MERGERS_H
#define GPUJOIN_MODEL_MERGERS_H

#include "mergeworld.h"

/* The inserter ------------------------------------------------------------------------ */

static void
insert(const State *s)
{
	int			rest = s->rest | (s->gone && s->may_reuse ? AGAIN : 0);

	for (int entry = 1; entry < 1 << ENTRIES; entry <<= 1)
	{
		State		t = *s;

		if (!(rest & entry))
			continue;
		t.rest &= ~entry;
		if (entry == AGAIN)
			t.may_reuse = false;
		t.present |= entry;
		t.sequence++;
		if (t.open == NONE)
		{
			t.open = take_page(&t, t.lists.delta, t.sequence, 0);
			t.opened[t.open] = t.sequence;
			t.lists.delta_blocks |= 1 << t.open;
		}
		t.pages[t.open].has |= entry;
		t.pages[t.open].change = t.sequence;
		go(&t, "insert", entry);
	}
}

/* Flushes ----------------------------------------------------------------------------- */

/* Replace runs of the list by one, at the place of the first of them; return their blocks */
static uint16_t
replace_runs(State *t, uint16_t which, int number, uint16_t blocks)
{
	Lists	   *lists = &t->lists;
	Lists		old = *lists;
	uint16_t	freed = 0;
	Run			run = {.number = number, .published = ++t->sequence, .blocks = blocks};
	int			at = 0;

	memset(lists->runs, 0, sizeof(lists->runs));
	for (int i = 0; i <= old.nruns; i++)
	{
		bool		is_replaced = which & (1 << i);

		/* the first one of them, or the end of the list */
		if (blocks != 0 && (is_replaced || i == old.nruns))
		{
			lists->runs[at++] = run;
			blocks = 0;
		}
		if (i < old.nruns && is_replaced)
			freed |= old.runs[i].blocks;
		else if (i < old.nruns)
			lists->runs[at++] = old.runs[i];
	}
	lists->nruns = at;
	lists->version++;
	return freed;
}

static void
rotate(State *t)
{
	if (t->lists.previous != 0)
		return;
	t->lists.previous = t->lists.delta;
	t->lists.previous_blocks = t->lists.delta_blocks;
	t->lists.delta = t->lists.next_run++;
	t->lists.delta_blocks = 0;
	t->open = NONE;
}

static bool
is_flush_due(const State *s)
{
	return s->lists.delta_blocks != 0 || s->lists.previous != 0;
}

static void
start_flush(const State *s, int p)
{
	State		t = *s;

	t.fold_lock = p + 1;
	t.processes[p].step = FLUSH_BEGIN;
	rotate(&t);
	go(&t, "rotate", p);
}

/* Rotate under the fold lock, and release it */
static void
start_ahead(const State *s, int p)
{
	State		t = *s;

	t.processes[p].step = FLUSH_AHEAD;
	rotate(&t);
	t.processes[p].ahead_run = t.lists.previous;
	go(&t, "rotate ahead", p);
}

static void
discard_sorted(Process *me)
{
	me->ahead_run = me->ahead = 0;
	me->is_sorted = me->is_changed = false;
}

/* Sort without the fold lock, then try to get it */
static void
sort_ahead(const State *s, int p)
{
	State		t = *s;
	Process    *me = &t.processes[p];

	if (!me->is_sorted)
	{
		for (int block = 0; block < BLOCKS; block++)
			me->ahead |= s->pages[block].run == me->ahead_run ? s->pages[block].has : 0;
		me->is_sorted = true;
		go(&t, "sort ahead", p);
	}
	else if (s->fold_lock != 0 || !is_flush_due(s))
	{
		discard_sorted(me);
		me->step = IDLE;
		go(&t, "no flush", p);
	}
	else
		start_flush(s, p);
}

/* Return the entries of the previous delta: those sorted before, if they are still the same */
static int
take_delta(const State *s, Process *me)
{
	int			entries = read_blocks(s, s->lists.previous_blocks);

	if (me->is_sorted &&
		(me->ahead_run == s->lists.previous || mutant == DELTA_NOT_COMPARED) &&
		(!me->is_changed || mutant == CHANGES_NOT_COMPARED))
		entries = me->ahead;
	discard_sorted(me);
	return entries;
}

static void
flush(const State *s, int p)
{
	State		t = *s;
	Process    *me = &t.processes[p];
	Lists	   *lists = &t.lists;
	uint16_t	which = 0;
	int			least = lists->nruns;
	int			delta;

	switch (me->step)
	{
		case FLUSH_BEGIN:
			/* alone, or together with the youngest run, unless that is a source */
			if (least > 0 && (!lists->runs[least - 1].is_source || mutant == SOURCE_MERGED))
				least--;
			me->step = FLUSH_WRITE;
			me->change = ++t.sequence;
			lists->fold_run = lists->next_run++;
			delta = take_delta(&t, me);
			for (int first = least; first <= s->lists.nruns && first < RUNS; first++)
			{
				me->first = first;
				me->input = delta;
				if (first < lists->nruns)
					me->input |= read_blocks(&t, lists->runs[first].blocks);
				go(&t, "flush from", first);
			}
			break;
		case FLUSH_WRITE:
			if (me->input != 0)
				me->written = 1 << take_page(&t, lists->fold_run, me->change, me->input);
			me->step = FLUSH_PUBLISH;
			go(&t, "write run", p);
			break;
		default:
			for (int i = me->first; i < lists->nruns; i++)
				which |= 1 << i;
			me->freed |= lists->previous_blocks;
			me->freed |= replace_runs(&t, which, lists->fold_run, me->written);
			lists->previous = lists->previous_blocks = lists->fold_run = 0;
			me->step = me->input = me->change = me->first = me->written = 0;
			t.fold_lock = 0;
			go(&t, "publish flush", p);
			break;
	}
}

static void
drop_dead_run(const State *s, int p)
{
	for (int i = 0; i < s->lists.nruns; i++)
	{
		State		t = *s;

		if (read_blocks(s, s->lists.runs[i].blocks) != 0 ||
			(s->lists.runs[i].is_source && mutant != SOURCE_DROPPED))
			continue;
		t.processes[p].freed |= replace_runs(&t, 1 << i, 0, 0);
		go(&t, "drop run", i);
	}
}

/* Merges ------------------------------------------------------------------------------ */

static void
leave_merge(State *t, int p)
{
	Process    *me = &t->processes[p];

	if (t->merge_lock == p + 1)
		t->merge_lock = 0;
	me->run = me->build = me->place = me->end = me->excess = me->sources = me->blocks = 0;
}

static void
begin_merge(const State *s, int p)
{
	/* all runs, the oldest, or the youngest */
	for (int from = 0; from <= s->lists.nruns - 2; from++)
	{
		for (int to = s->lists.nruns - 1; to > from; to--)
		{
			State		t = *s;
			Process    *me = &t.processes[p];

			t.merge_lock = p + 1;
			me->run = t.lists.merge_run =
				s->lists.merge_run != 0 ? s->lists.merge_run : t.lists.next_run++;
			me->build = t.build;
			for (int i = from; i <= to; i++)
			{
				t.lists.runs[i].is_source = true;
				me->sources |= t.lists.runs[i].blocks;
			}
			if (mutant == ONE_NUMBER)
				me->change = ++t.sequence;
			go(&t, "begin merge", p);
		}
	}
}

static void
forget_merge(const State *s, int p)
{
	State		t = *s;

	for (int i = 0; i < RUNS; i++)
		t.lists.runs[i].is_source = false;
	if (mutant == NUMBER_KEPT)
	{
		begin_merge(&t, p);
		return;
	}
	/* an idle process looks for the pages; until it finds them, only a deletion does */
	for (int block = 0; block < BLOCKS; block++)
	{
		if (s->pages[block].run == s->lists.merge_run)
			t.processes[p].freed |= 1 << block;
	}
	t.lists.merge_run = 0;
	t.lists.version++;
	if (mutant != FORGET_WITHOUT_NUMBER)
		t.sequence++;
	go(&t, "forget merge", p);
}

static void
publish_merge(const State *s, int p)
{
	State		t = *s;
	Process    *me = &t.processes[p];
	uint16_t	which = 0;

	for (int i = 0; i < t.lists.nruns; i++)
		which |= t.lists.runs[i].is_source ? 1 << i : 0;
	if (which == 0 && t.lists.nruns == RUNS)
		return;					/* a mutant */
	me->freed |= replace_runs(&t, which, me->run, me->blocks);
	t.lists.merge_run = 0;
	leave_merge(&t, p);
	go(&t, "publish merge", p);
}

static int
entries_from(int place)
{
	int			entries = 0;

	for (; place < PLACES; place++)
		entries |= entries_at[place];
	return entries;
}

/* Seek in the sources to the place, and read them */
static void
start_step(const State *s, int p)
{
	State		t = *s;
	Process    *me = &t.processes[p];

	if (mutant != STEP_UNLOCKED)
		t.fold_lock = p + 1;
	me->step = MERGE_WRITE;
	if (mutant != ONE_NUMBER)
		me->change = ++t.sequence;
	if (me->excess != 0)
		me->input = me->excess; /* a mutant */
	else
		me->input = read_blocks(s, me->sources) & entries_from(me->place);
	me->excess = 0;
	go(&t, "read sources", p);
}

/* A page ends where its values demand it: after any place.  The writer has read more by then. */
static void
merge_step(const State *s, int p)
{
	State		t = *s;
	Process    *me = &t.processes[p];

	if (me->step == MERGE_WRITE)
	{
		me->step = MERGE_WRITTEN;
		me->excess = me->input;
		for (me->end = me->place + 1; me->end <= PLACES; me->end++)
		{
			State		u = t;
			Process    *it = &u.processes[p];
			int			fit = it->excess & ~entries_from(it->end);

			it->excess &= ~fit;
			it->input = 0;
			if (fit != 0)
				it->written = 1 << take_page(&u, it->run, it->change, fit);
			go(&u, "write merge page up to", it->end - 1);
		}
		return;
	}
	me->blocks |= me->written;
	me->place = mutant == PLACE_OF_READ ? PLACES : me->end;
	if (mutant != LOOK_AHEAD_KEPT)
		me->excess = 0;
	me->step = me->input = me->end = me->written = 0;
	if (mutant != ONE_NUMBER)
		me->change = 0;
	if (t.fold_lock == p + 1)
		t.fold_lock = 0;
	go(&t, "end of step", p);
}

/* Steps of a process that folds.  Units of one record take and release the fold lock at once. */
static void
fold(const State *s, int p)
{
	const Process *me = &s->processes[p];
	State		t = *s;

	if (me->step != IDLE)
	{
		if (me->step == FLUSH_AHEAD)
			sort_ahead(s, p);
		else if (me->step >= MERGE_WRITE)
			merge_step(s, p);
		else
			flush(s, p);
		return;
	}
	if (me->freed != 0)
	{
		/* the fold lock is not held */
		t.map |= me->freed;
		t.processes[p].freed = 0;
		go(&t, "enter freed", p);
		return;
	}
	if (s->fold_lock != 0)
		return;
	if (me->run != 0 && me->build != s->build && mutant != BUILD_NOT_CHECKED)
	{
		leave_merge(&t, p);
		go(&t, "another build", p);
		return;
	}
	if (is_flush_due(s))
		start_flush(s, p);
	if (is_flush_due(s) && with_ahead)
		start_ahead(s, p);
	drop_dead_run(s, p);
	if (me->run != 0 && me->place < PLACES)
		start_step(s, p);
	else if (me->run != 0)
		publish_merge(s, p);
	else if (s->lists.merge_run != 0 && (s->merge_lock == 0 || mutant == FORGOTTEN_ALIVE))
		forget_merge(s, p);
	else if (s->lists.merge_run == 0 && s->merge_lock == 0)
		begin_merge(s, p);
}

#endif							/* GPUJOIN_MODEL_MERGERS_H */
