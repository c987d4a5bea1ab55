/*-------------------------------------------------------------------------
 *
 * merge.c
 *	  An exhaustive model of merges in steps: am/merge.c, and folds beside them.
 *
 * A flush (am/fold.c; fold.c is its own model) makes the delta a small run, or merges it with the
 * youngest run; it holds the fold lock throughout, or releases it after the rotation to sort the
 * delta, and gets it again, in some worlds.  A merge makes one run of several and takes the
 * fold lock for each of its steps only, so that flushes and bulk deletions run in between.  Its
 * process holds the merge lock from begin to end.  The steps are those of the product: "begin
 * merge" is GjMergeAnnounce(); "read sources", "write merge page" and "end of step" are
 * GjMergeStep(), which also does "publish merge" at once when the sources have no more entries,
 * GjMergePublish(); "forget merge" is GjMergeForget(), "enter freed" GjMergeFree().
 *
 * There are two places, so that a merge writes two pages, or one: which entries fit on a page
 * depends on their values, and is known only when more have been read.  At first one run has ROW
 * in the first place and OTHER in the second one; a younger run has DEAD, in the second one.  NEW
 * is inserted at any time, and AGAIN, which has the TID of DEAD, when a bulk deletion of DEAD has
 * returned.  Two processes flush, merge, forget merges of processes that died, and enter freed
 * pages in the free space map; an inserter, bulk deletions, TRUNCATE, a reader or a mirror take
 * their steps between theirs.  A process may die or raise an error before each step, and the whole
 * server may crash.
 *
 * In each state the listed pages must have each entry exactly once, and DEAD not after its TID
 * has become free; listed pages must belong to their run, and pages with the number of a listed
 * run to its directory (otherwise they are neither read nor freed: a leak).  The copies of a mirror
 * and its lag must have each entry exactly once, too.  A reader, which takes several steps, must
 * find what it sees exactly once.  When no step is left, no lock, unfinished run or delta may be
 * left either, and the runs must have been merged: an interrupted merge has started over.
 *
 * Left out: tails and lanes (an insertion is one step; see fold.c), directory pages, counters
 * (merge_dead), requests and the worker's own lock (they matter to speed only), sleeping, yielding,
 * the choice of runs (neighbors are tried), lost WAL (a crash loses the end of it: like a crash
 * earlier), the steps of a mirror's synchronization after it has read the lists.
 *
 * Each mutant leaves one rule out, and must have a fault; then the program prints the shortest
 * order of steps that leads to it.
 *
 *	  merge				all rules, then all mutants; exit status 0 if each behaves as expected
 *	  merge -v			with the orders of steps
 *	  merge -l			with three larger worlds, too: takes two minutes and 3 GB
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "mergers.h"

/* Interruptions ----------------------------------------------------------------------- */

static void
kill_process(State *t, int p)
{
	if (t->fold_lock == p + 1)
		t->fold_lock = 0;
	leave_merge(t, p);
	memset(&t->processes[p], 0, sizeof(Process));
}

static void
kill_deletion(State *t)
{
	if (t->fold_lock == DELETION)
		t->fold_lock = 0;
	t->deletion = DELETE_START;
	t->delete_merge = t->delete_blocks = 0;
}

/* An error: its process lives on, as a session may that has called gpujoin_fold() */
static void
raise_error(const State *s, int p)
{
	State		t = *s;
	Process    *me = &t.processes[p];

	if (t.fold_lock == p + 1)
		t.fold_lock = 0;
	t.deaths--;
	me->step = me->input = me->written = 0;
	if (mutant == LOCK_KEPT)
	{
		int			holder = t.merge_lock;

		leave_merge(&t, p);
		t.merge_lock = holder;
	}
	go(&t, "error", p);
}

static void
interrupt(const State *s)
{
	State		t = *s;

	if (s->deaths > 0)
	{
		for (int p = 0; p < PROCESSES; p++)
		{
			const Process *me = &s->processes[p];

			if (me->step == IDLE && me->run == 0 && me->freed == 0)
				continue;
			if ((mutant == LOCK_KEPT || mutant == MERGE_RESUMED) && me->run != 0)
			{
				raise_error(s, p);
				continue;
			}
			t = *s;
			kill_process(&t, p);
			t.deaths--;
			go(&t, "death", p);
		}
		if (s->deletion != DELETE_START)
		{
			t = *s;
			kill_deletion(&t);
			t.deaths--;
			go(&t, "death of VACUUM", NONE);
		}
		t = *s;
		for (int p = 0; p < PROCESSES; p++)
			kill_process(&t, p);
		kill_deletion(&t);
		t.map = 0;
		t.deaths--;
		go(&t, "crash", NONE);
	}
	/* TRUNCATE waits for units, not for a merge between its steps */
	if (s->truncates > 0 && s->fold_lock == 0 && s->deletion == DELETE_START &&
		s->processes[0].step == IDLE && s->processes[1].step == IDLE)
	{
		t = *s;
		memset(&t.lists, 0, sizeof(t.lists));
		memset(t.pages, 0, sizeof(t.pages));
		t.lists.delta = 1;
		t.lists.next_run = 2;
		t.map = 0;
		t.build++;
		t.open = NONE;
		t.truncates--;
		t.rest = ROW;
		t.present = 0;
		t.gone = true;
		go(&t, "TRUNCATE", NONE);
	}
}

/* Bulk deletion ----------------------------------------------------------------------- */

static void
delete_from(State *t, int block, bool is_journaled)
{
	if (!(t->pages[block].has & DEAD))
		return;
	t->pages[block].has &= ~DEAD;
	t->pages[block].change = ++t->sequence;
	for (int p = 0; p < PROCESSES; p++)
		t->processes[p].is_changed |= t->processes[p].is_sorted &&
			t->processes[p].ahead_run == t->pages[block].run;
	if (is_journaled)
		t->deleted[block] = t->sequence;
}

static void
unlock_deletion(State *t)
{
	if (t->fold_lock == DELETION)
		t->fold_lock = 0;
}

static void
delete_dead(const State *s)
{
	State		t = *s;

	switch (s->deletion)
	{
		case DELETE_START:
			if (s->deletions == 0 || (s->fold_lock != 0 && mutant != DELETION_UNLOCKED))
				return;
			if (mutant != DELETION_UNLOCKED)
				t.fold_lock = DELETION;
			t.delete_blocks = listed_blocks(&s->lists);
			t.delete_merge = s->lists.merge_run;
			t.deletion = DELETE_LISTED;
			go(&t, "delete: lists", NONE);
			break;
		case DELETE_LISTED:
			for (int block = 0; block < BLOCKS; block++)
			{
				if (s->delete_blocks & (1 << block))
					delete_from(&t, block, true);
				else if (s->pages[block].run != 0 && is_free(s, block))
					t.map |= 1 << block;
			}
			t.deletion = mutant == EPOCH_EARLY ? DELETE_EPOCH : DELETE_MERGE;
			go(&t, "delete: listed", NONE);
			break;
		case DELETE_MERGE:
			for (int block = 0; block < BLOCKS; block++)
			{
				if (s->delete_merge != 0 && s->pages[block].run == s->delete_merge &&
					mutant != MERGE_PAGES_MISSED)
					delete_from(&t, block, false);
			}
			t.deletion = mutant == EPOCH_EARLY ? DELETE_RETURN : DELETE_EPOCH;
			go(&t, "delete: merge", NONE);
			break;
		case DELETE_EPOCH:
			t.epoch++;
			unlock_deletion(&t);
			t.deletion = mutant == EPOCH_EARLY ? DELETE_MERGE : DELETE_RETURN;
			go(&t, "delete: epoch", NONE);
			break;
		default:
			/* VACUUM's second pass frees the TID */
			kill_deletion(&t);
			t.deletions--;
			t.gone = true;
			go(&t, "delete: return", NONE);
			break;
	}
}

/* The reader: lemma L2 without tails -------------------------------------------------- */

static void
search(const State *s)
{
	State		t = *s;

	switch (s->read)
	{
		case READ_START:
			t.read_epoch = s->epoch;
			t.visible = s->present;
			t.read = READ_LISTS;
			go(&t, "search", NONE);
			break;
		case READ_LISTS:
			t.read_version = s->lists.version;
			t.read_blocks = listed_blocks(&s->lists);
			t.read = READ_PAGE;
			go(&t, "read lists", NONE);
			break;
		case READ_PAGE:
			while (t.read_at < BLOCKS && !(t.read_blocks & (1 << t.read_at)))
				t.read_at++;
			if (t.read_at < BLOCKS)
			{
				int			has = s->pages[t.read_at].has;

				t.is_twice |= (t.found & has & t.visible) != 0;
				t.found |= has;
				t.read_at++;
				go(&t, "read page", t.read_at - 1);
				break;
			}
			t.read = s->lists.version == s->read_version ? READ_EPOCH : READ_GIVEN_UP;
			go(&t, "read lists again", NONE);
			break;
		default:
			t.read = READ_DONE;
			go(&t, "read epoch again", NONE);
			break;
	}
}

/* The mirror -------------------------------------------------------------------------- */

static void
store_copy(State *t, int block, int change, int has)
{
	if (change > t->copy_change[block])
	{
		t->copy_change[block] = change;
		t->copy_has[block] = has;
	}
}

/* A full pass, as if the journal did not reach back */
static void
push_pages(State *t)
{
	const Lists *lists = &t->sync_lists;

	for (int block = 0; block < BLOCKS; block++)
	{
		const Page *page = &t->pages[block];
		bool		is_new = page->change > t->mirror_sequence;

		for (int i = 0; i < lists->nruns; i++)
			is_new |= lists->runs[i].number == page->run &&
				lists->runs[i].published > t->mirror_sequence;
		if (page->run == 0)
			continue;
		if (is_listed(lists, page->run) && is_new)
			store_copy(t, block, page->change, page->has);
		else if (is_listed(lists, page->run))
			continue;
		else if (page->run == lists->fold_run || page->run == lists->merge_run ||
				 page->run >= lists->next_run)
			store_copy(t, block, page->change - 1, 0);
		else
			store_copy(t, block, page->change + 1, 0);
	}
}

static void
synchronize(const State *s)
{
	State		t = *s;

	if (!s->is_syncing && s->syncs > 0)
	{
		t.syncs--;
		t.is_syncing = true;
		t.sync_lists = s->lists;
		t.sync_sequence = s->sequence;
		t.sync_open = s->open;
		t.sync_epoch = s->epoch;
		go(&t, "sync: lists", NONE);
	}
	else if (s->is_syncing)
	{
		push_pages(&t);
		t.mirror_sequence = s->sync_sequence;
		t.mirror_version = s->sync_lists.version;
		t.mirror_open = s->sync_open;
		t.mirror_epoch = s->sync_epoch;
		t.is_syncing = false;
		t.sync_sequence = t.sync_epoch = 0;
		t.sync_open = NONE;
		memset(&t.sync_lists, 0, sizeof(Lists));
		go(&t, "sync: push", NONE);
	}
}

/* The cases --------------------------------------------------------------------------- */

static void
take_steps(const State *s)
{
	State		t = *s;

	if (s->is_over)
		return;
	moved = false;
	for (int p = 0; p < nprocesses; p++)
		fold(s, p);
	insert(s);
	delete_dead(s);
	interrupt(s);
	if (with_mirror)
		synchronize(s);
	if (with_reader)
		search(s);
	else if (!moved)
	{
		t.is_over = true;
		reach(&t, "no step is left", NONE);
	}
}

/* What happens in the worlds of a case */
enum
{
	READER = 1, MIRROR = 2, REUSE = 4, INSERT = 8, DELETE = 16, DEATH = 32, TRUNCATE = 64,
	AHEAD = 128,				/* flushes may sort without the fold lock; DEAD is in the delta */
	LONG = 256					/* only with -l */
};

static const struct
{
	Mutant		mutant;
	int			with;
	const char *name;
}			cases[] =
{
	{ALL_RULES, INSERT, "all rules"},
	{ALL_RULES, DELETE | REUSE, "all rules, a deletion, the TID is used again"},
	{ALL_RULES, DELETE | DEATH, "all rules, a deletion, a death"},
	{ALL_RULES, INSERT | DELETE | DEATH, "all rules, an insertion, a deletion, a death"},
	{ALL_RULES, INSERT | DEATH | TRUNCATE, "all rules, a death, TRUNCATE"},
	{ALL_RULES, READER | DELETE | DEATH, "all rules, a search, a deletion, a death"},
	{ALL_RULES, READER | DELETE | REUSE, "all rules, a search, the TID is used again"},
	{ALL_RULES, READER | INSERT, "all rules, a search, an insertion"},
	{ALL_RULES, MIRROR | INSERT, "all rules, a mirror, an insertion"},
	{ALL_RULES, MIRROR | DELETE | DEATH, "all rules, a mirror, a deletion, a death"},
	{ALL_RULES, MIRROR | DELETE | REUSE, "all rules, a mirror, the TID is used again"},
	{ALL_RULES, AHEAD | INSERT | DELETE, "all rules, sorted ahead, an insertion, a deletion"},
	{ALL_RULES, AHEAD | DELETE | REUSE | DEATH,
	"all rules, sorted ahead, a deletion, a death, the TID is used again"},
	{ALL_RULES, AHEAD | INSERT | DEATH | TRUNCATE, "all rules, sorted ahead, a death, TRUNCATE"},
	{ALL_RULES, AHEAD | READER | DELETE | REUSE,
	"all rules, sorted ahead, a search, the TID is used again"},
	{ALL_RULES, AHEAD | MIRROR | DELETE, "all rules, sorted ahead, a mirror, a deletion"},
	{MERGE_PAGES_MISSED, DELETE, "a deletion misses merge pages"},
	{LOOK_AHEAD_KEPT, DELETE, "entries that did not fit on a page are kept over steps"},
	{PLACE_OF_READ, INSERT, "a merge goes on after the last entry read, not written"},
	{ONE_NUMBER, MIRROR | INSERT, "one change number for a whole merge"},
	{SOURCE_MERGED, INSERT, "a flush merges a source"},
	{SOURCE_DROPPED, INSERT | DELETE, "a dead source is dropped"},
	{MERGE_PAGES_FREE, INSERT | DELETE, "merge pages count as free"},
	{FORGOTTEN_ALIVE, INSERT, "a merge is forgotten while its process lives"},
	{DELETION_UNLOCKED, DELETE, "a deletion without the fold lock"},
	{STEP_UNLOCKED, DELETE, "a merge step without it"},
	{EPOCH_EARLY, READER | DELETE, "the epoch is raised before merge pages are clean"},
	{BUILD_NOT_CHECKED, TRUNCATE, "the build is not checked"},
	{LOCK_KEPT, DEATH, "an error leaves the merge lock"},
	{MERGE_RESUMED, DEATH, "a step is repeated after an error"},
	{NUMBER_KEPT, DEATH, "a merge starts over with its number"},
	{FORGET_WITHOUT_NUMBER, MIRROR | INSERT | DEATH,
	"forgetting a merge draws no change number"},
	{MAP_TRUSTED, INSERT | DELETE, "pages of the map are taken unchecked"},
	{CHANGES_NOT_COMPARED, AHEAD | DELETE, "changes of sorted pages are not noticed"},
	{DELTA_NOT_COMPARED, AHEAD | INSERT, "nor is another delta"},
	{ALL_RULES, LONG | AHEAD | MIRROR | INSERT | DELETE,
	"all rules, sorted ahead, a mirror, an insertion, a deletion"},
	{ALL_RULES, LONG | MIRROR | INSERT | DEATH, "all rules, a mirror, an insertion, a death"},
	{ALL_RULES, LONG | READER | INSERT | DELETE, "all rules, a search, an insertion, a deletion"},
};

static State
first_state(int with)
{
	State		start;

	memset(&start, 0, sizeof(start));
	start.lists.version = start.epoch = start.build = 1;
	start.lists.nruns = 2;
	start.lists.runs[0] = (Run) {.number = 2, .published = 1, .blocks = 1};
	start.lists.runs[1] = (Run) {.number = 3, .published = 1, .blocks = 2};
	start.pages[0] = (Page) {.run = 2, .change = 1, .has = ROW | OTHER};
	start.pages[1] = (Page) {.run = 3, .change = 1, .has = DEAD};
	start.lists.delta = 1;
	start.lists.next_run = 4;
	start.open = start.mirror_open = start.sync_open = NONE;
	start.present = ROW | OTHER;
	start.sequence = start.mirror_sequence = start.mirror_version = start.mirror_epoch = 1;
	if (with & AHEAD)
	{
		start.lists.nruns = 1;
		memset(&start.lists.runs[1], 0, sizeof(Run));
		start.pages[1].run = start.lists.delta;
		start.lists.delta_blocks = 2;
	}
	for (int block = 0; block < 2; block++)
	{
		start.copy_change[block] = start.pages[block].change;
		start.copy_has[block] = start.pages[block].has;
	}
	start.may_reuse = (with & REUSE) != 0;
	start.rest = with & INSERT ? NEW : 0;
	start.deletions = with & DELETE ? 1 : 0;
	start.deaths = with & DEATH ? 1 : 0;
	start.truncates = with & TRUNCATE ? 1 : 0;
	start.syncs = 2;
	return start;
}

int
main(int argc, char **argv)
{
	bool		verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
	bool		is_long = argc > 1 && strcmp(argv[1], "-l") == 0;
	int			failed = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		State		start;
		uint32_t	last;
		const char *found;

		if ((cases[i].with & LONG) && !is_long)
			continue;
		mutant = cases[i].mutant;
		with_reader = cases[i].with & READER;
		with_mirror = cases[i].with & MIRROR;
		with_ahead = cases[i].with & AHEAD;
		nprocesses = with_mirror ? 1 : PROCESSES;
		start = first_state(cases[i].with);
		found = explore(&start, take_steps, &last);
		failed += !report("merge, ", cases[i].name, found, mutant == ALL_RULES, last, verbose);
	}
	return failed > 0;
}
