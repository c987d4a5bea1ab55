/*-------------------------------------------------------------------------
 *
 * reduce.c
 *	  An exhaustive model of a reduction on the device, beside the writers of an index.
 *
 * A reduction adds rows up on the device, which then sends states to the CPU instead of entries.
 * An entry's TID is unknown afterwards: an entry that is in a state cannot be removed again, be
 * made distinct from the same entry found elsewhere, or be looked up in the heap.  So the device
 * must only reduce entries that are rows of the snapshot, and no other step may find one of them.
 *
 * The writers, their pages and the mirror are those of fold.c, but the device sees the copies of
 * all pages at one moment, between any two pushes.  Two heap blocks have a bit in the visibility
 * map.  ROW's is set at first; a process clears it, as an update of ROW does (HOT or not), and
 * then inserts LATER, the entry of a row in the same block that the snapshot does not see.  DEAD's
 * is set once VACUUM has removed DEAD from the index and raised the epoch.
 *
 * The reader's steps:
 *
 *	  bound		read the metapage: V, the sequence number, and E, the epoch
 *	  tails		collect the entries of all tails
 *	  lists		read the metapage and the journal: J, the lists
 *	  lag		read the promise of the mirror, which must be of the same lists; L, the pages that
 *				the mirror lacks
 *	  map		copy the visibility map
 *	  ask		the device leaves out the pages of L, and those whose copy is newer than V, which it
 *				reports: R.  Of all others it reduces the entries that pass the filter, fit, and
 *				are in a block whose bit is set, and returns the rest as entries.
 *				Before or after that, the CPU searches L.
 *	  newer		search those pages of R that are live by J
 *	  check		read the metapage: if the lists or the epoch have moved, discard everything
 *	  map, epoch, and heap		as for all entries: one is a row without looking at the heap if the
 *				bit is set in a copy of the map made after it was found, and the epoch is still E
 *
 * Each mutant omits one rule, and must count a row twice, lose it, or count a row that the
 * snapshot does not see.
 *
 *	  reduce			all rules, then all mutants; exit status 0 if each behaves as expected
 *	  reduce -v			with the orders of steps
 *	  reduce -l			with the last case, too: 5 million states
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "search.h"

/* How the device can test ROW */
typedef enum RowKind
{
	ROW_FITS,
	ROW_IS_MARKED,				/* its value did not fit into the index */
	ROW_FAILS					/* this condition is only in the whole filter */
} RowKind;

static RowKind row_kind;

static const char *
find_fault(const State *s)
{
	int			entries = s->hits | s->searched | s->found;
	int			times = ((s->states & ROW) != 0) + ((s->states & ROW_AGAIN) != 0);

	if (row_kind == ROW_IS_MARKED && times > 0)
		return "a value that did not fit is reduced";
	if (row_kind == ROW_FAILS)
		return times > 0 ? "a row that fails the filter is reduced" : NULL;
	if (s->states & (DEAD | LATER))
		return "what is no row is reduced";
	times += (entries & ROW) != 0;
	if (times == 0)
		return "the row is lost";
	if (times > 1)
		return "the row is counted twice";

	/* if the epoch has not moved, entries on blocks whose bit is set are rows; read the heap for
	 * the others */
	if (s->answer_epoch == s->read_epoch)
	{
		int			by_first = mutant == LAG_BY_FIRST_MAP ? s->searched : 0;
		int			by_second = entries & ~by_first;

		if (((by_second & LATER) && (s->second_map & ROW)) ||
			((by_first & LATER) && (s->first_map & ROW)) ||
			((by_second & DEAD) && (s->second_map & DEAD)) ||
			((by_first & DEAD) && (s->first_map & DEAD)))
			return "an entry that is no row is trusted";
	}
	return NULL;
}

/* The heap ------------------------------------------------------------------------------ */

/* Clear the bit before the entry is inserted; set the other once the deletion is complete */
static void
change_heap(const State *s)
{
	State		t = *s;

	if (s->writer == 0)
	{
		t.map &= ~ROW;
		t.writer++;
		reach(&t, "clear bit", NONE);
	}
	else if (s->writer == 1)
	{
		t.tail |= LATER;
		t.writer++;
		reach(&t, "insert later", NONE);
	}
	if (s->gone && !(s->map & DEAD))
	{
		t = *s;
		t.map |= DEAD;
		reach(&t, "set bit", NONE);
	}
}

/* The reader ------------------------------------------------------------------------ */

/* Add the entries of one copy to the states or to the rest */
static void
reduce_copy(State *t, int has)
{
	int			visible = 0;
	int			rest;

	if (t->first_map & ROW)
		visible |= ROW | LATER;
	if (t->first_map & DEAD)
		visible |= DEAD;
	if (row_kind == ROW_FAILS && mutant != PARTIAL_FILTER)
		has &= ~ROW;
	if (row_kind == ROW_IS_MARKED && mutant != MARKS_REDUCED)
		visible &= ~ROW;
	t->states = add(t->states, has & visible);
	rest = has & ~visible;
	t->found = add(t->found, rest);
}

static void
reduce_on_device(State *t)
{
	for (int block = 0; block < BLOCKS; block++)
	{
		if ((t->lag & (1 << block)) && mutant != LAG_REDUCED)
			continue;
		if (t->copy_change[block] > t->bound && mutant != NO_BOUND)
			t->newer |= 1 << block;
		else
			reduce_copy(t, t->copy_has[block]);
	}
	t->bound = 0;
	t->replied = true;
}

/* Search pages on the CPU */
static void
search(State *t, unsigned blocks, bool by_lists)
{
	for (int block = 0; block < BLOCKS; block++)
	{
		if ((blocks & (1u << block)) &&
			(!by_lists || is_listed(&t->seen, t->pages[block].run)))
			t->searched |= t->pages[block].has;
	}
}

static void
read_bound(State *t, int next)
{
	t->bound = t->sequence;
	t->read = next;
	reach(t, "read bound", NONE);
}

/* Steps before the request */
static void
prepare(const State *s)
{
	State		t = *s;

	switch (s->read)
	{
		case REDUCE_MAP_EARLY:
			t.first_map = s->map;
			t.read = REDUCE_BOUND;
			reach(&t, "copy map", NONE);
			break;
		case REDUCE_BOUND:
			t.read_epoch = s->epoch;
			if (mutant == BOUND_AFTER_TAILS)
			{
				t.read = REDUCE_TAIL;
				reach(&t, "read epoch", NONE);
			}
			else
				read_bound(&t, REDUCE_TAIL);
			break;
		case REDUCE_TAIL:
			t.hits |= s->tail;
			t.read = mutant == BOUND_AFTER_TAILS ? REDUCE_BOUND_LATE : REDUCE_LISTS;
			reach(&t, "read tail", NONE);
			break;
		case REDUCE_BOUND_LATE:
			read_bound(&t, REDUCE_LISTS);
			break;
		case REDUCE_LISTS:
			t.seen = s->lists;
			t.read = REDUCE_LAG;
			reach(&t, "read lists", NONE);
			break;
		case REDUCE_LAG:
			t.lag = find_lag(s, s->mirror_sequence, s->mirror_open);
			t.read = mutant == MAP_BEFORE_BOUND ? REDUCE_ASK : REDUCE_MAP;
			if (s->mirror_version != s->seen.version)
				t.read = READ_GIVEN_UP; /* from the start, as another reader does */
			reach(&t, "find lag", NONE);
			break;
		default:
			t.first_map = s->map;
			t.read = REDUCE_ASK;
			reach(&t, "copy map", NONE);
			break;
	}
}

/* The device and the CPU work side by side */
static void
ask(const State *s)
{
	State		t = *s;

	if (!s->replied)
	{
		reduce_on_device(&t);
		reach(&t, "device reduces", NONE);
	}
	if (!s->lag_read)
	{
		t = *s;
		if (mutant != LAG_NOT_SEARCHED)
			search(&t, s->lag, true);
		t.lag_read = true;
		reach(&t, "search lag", NONE);
	}
	if (s->replied && s->lag_read)
	{
		t = *s;
		t.lag = 0;
		t.read = REDUCE_NEWER;
		reach(&t, "reply", NONE);
	}
}

/* Steps after the reply */
static void
complete(const State *s)
{
	State		t = *s;

	switch (s->read)
	{
		case REDUCE_NEWER:
			if (mutant != NEWER_NOT_SEARCHED)
				search(&t, s->newer, mutant != NEWER_WITHOUT_LISTS);
			t.newer = 0;
			t.read = REDUCE_CHECK;
			reach(&t, "search newer", NONE);
			break;
		case REDUCE_CHECK:
			t.read = REDUCE_MAP_AGAIN;
			if ((s->lists.version != s->seen.version && mutant != VERSION_NOT_COMPARED) ||
				(s->epoch != s->read_epoch && mutant != EPOCH_NOT_COMPARED))
				t.read = READ_GIVEN_UP;
			reach(&t, "check", NONE);
			break;
		case REDUCE_MAP_AGAIN:
			t.second_map = s->map;
			t.read = REDUCE_BELIEVE;
			reach(&t, "copy map again", NONE);
			break;
		default:
			t.answer_epoch = s->epoch;
			t.read = READ_DONE;
			reach(&t, "read epoch again", NONE);
			break;
	}
}

static void
take_steps(const State *s)
{
	insert(s);
	vacuum(s);
	if (!s->replied)
		synchronize(s);
	change_heap(s);
	if (s->read < REDUCE_ASK)
		prepare(s);
	else if (s->read == REDUCE_ASK)
		ask(s);
	else
		complete(s);
}

/* The cases ------------------------------------------------------------------------- */

static const struct
{
	Mutant		mutant;
	Beginning	beginning;
	bool		by_counters;
	RowKind		row_kind;
	bool		with_later;
	const char *name;
}			cases[] =
{
	{ALL_RULES, ALL_ON_TAIL, false, ROW_FITS, false, "all rules"},
	{ALL_RULES, ALL_ON_TAIL, true, ROW_FITS, false, "all rules, no journal"},
	{ALL_RULES, ROW_IN_BASE, false, ROW_FITS, true, "all rules, the row is in a base run"},
	{ALL_RULES, ROW_IN_BASE, true, ROW_FITS, false, "the same, no journal"},
	{ALL_RULES, DEAD_IN_BASE, false, ROW_FITS, false, "all rules, the dead one is there"},
	{ALL_RULES, DEAD_IN_BASE, true, ROW_FITS, false, "the same, no journal"},
	{ALL_RULES, ROW_IN_BASE, false, ROW_IS_MARKED, false, "all rules, a value did not fit"},
	{ALL_RULES, ROW_IN_BASE, false, ROW_FAILS, false, "all rules, the row fails the filter"},
	{BOUND_AFTER_TAILS, ALL_ON_TAIL, false, ROW_FITS, false,
	"the bound is read after the tails"},
	{NO_BOUND, ALL_ON_TAIL, false, ROW_FITS, false,
	"no bound"},
	{LAG_REDUCED, ALL_ON_TAIL, false, ROW_FITS, false,
	"the lag is not left out"},
	{LAG_NOT_SEARCHED, ALL_ON_TAIL, false, ROW_FITS, false,
	"the lag is not searched"},
	{NEWER_NOT_SEARCHED, ALL_ON_TAIL, false, ROW_FITS, false,
	"newer pages are not searched"},
	{NEWER_WITHOUT_LISTS, ROW_IN_BASE, true, ROW_FITS, true,
	"newer pages are searched without lists"},
	{MAP_BEFORE_BOUND, ROW_IN_BASE, false, ROW_FITS, true,
	"the map is copied before the bound is read"},
	{VERSION_NOT_COMPARED, ALL_ON_TAIL, false, ROW_FITS, false,
	"the lists are not compared"},
	{EPOCH_NOT_COMPARED, DEAD_IN_BASE, false, ROW_FITS, false,
	"the epoch is not compared"},
	{LAG_BY_FIRST_MAP, ALL_ON_TAIL, false, ROW_FITS, true,
	"the lag's hits are tested by the first map"},
	{PARTIAL_FILTER, ROW_IN_BASE, false, ROW_FAILS, false,
	"a part of the filter is not sent"},
	{MARKS_REDUCED, ROW_IN_BASE, false, ROW_IS_MARKED, false,
	"values that did not fit are reduced"},
	/* only with -l */
	{ALL_RULES, ALL_ON_TAIL, false, ROW_FITS, true, "all rules, and a later one"},
};

int
main(int argc, char **argv)
{
	bool		verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
	bool		is_long = argc > 1 && strcmp(argv[1], "-l") == 0;
	size_t		ncases = sizeof(cases) / sizeof(cases[0]) - (is_long ? 0 : 1);
	int			failed = 0;

	kind = REDUCE_ON_DEVICE;
	rounds = 1;
	syncs = 1;
	for (size_t i = 0; i < ncases; i++)
	{
		State		start;
		uint32_t	last;
		const char *found;

		mutant = cases[i].mutant;
		beginning = cases[i].beginning;
		by_counters = cases[i].by_counters;
		row_kind = cases[i].row_kind;
		start = first_state();
		start.map = ROW;
		start.writer = cases[i].with_later ? 0 : 2;
		start.read = mutant == MAP_BEFORE_BOUND ? REDUCE_MAP_EARLY : REDUCE_BOUND;
		found = explore(&start, take_steps, &last);
		failed += !report("reduction, ", cases[i].name, found, mutant == ALL_RULES, last, verbose);
	}
	return failed > 0;
}
