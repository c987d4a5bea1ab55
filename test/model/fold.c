/*-------------------------------------------------------------------------
 *
 * fold.c
 *	  An exhaustive model of how an index's pages change under its readers.
 *
 * The index of this model has a handful of blocks and two entries.  ROW belongs to a row that the
 * reader's snapshot sees; it must be found, and as an entry that is trusted without looking at
 * the heap it must be returned once.  DEAD belongs to a dead row; a reader that began after the
 * bulk deletion that removed it must not trust it.  Both begin on a tail, or one of them in a
 * base run.  An inserter, VACUUM with a fold of any kind (minor, or one that merges the delta
 * with the youngest runs, or with all; runs without live entries are dropped or not), a
 * synchroniser of a mirror and one reader take their steps in every possible order.  A step is
 * the work of the real code under the locks of one WAL record, or of one page read; anything can
 * happen between two steps.
 *
 * The metapage says whether the tail is empty: a fold finds that out, and a reader may then leave
 * out the tail.
 *
 * The rules are those of src/pages/read.c, src/am/fold.c, src/match/search.c and device.c, and
 * src/mirror/load.c.  Each mutant omits one rule, and must lose a row, find it twice, or trust
 * the entry of a dead one; then the program prints the shortest order of steps that does it.
 *
 *	  fold				all rules, then all mutants; exit status 0 if each behaves as expected
 *	  fold -v			with the orders of steps
 *	  fold -l			with a mirror, too, for two rounds of VACUUM if it begins without a run:
 *						takes minutes, and 4 GB
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "search.h"

/* The reader ------------------------------------------------------------------------ */

/*
 * The lists have moved.  A reader that starts over is like one that starts now, in this world,
 * and every such reader is tried anyway.  A piece that starts over keeps the entries collected
 * before.
 */
static void
begin_again(State *t, int step)
{
	t->read = step;
	t->read_at = 0;
	t->found = 0;
	memset(&t->seen, 0, sizeof(Lists));
}

/* Return the first block at or after "from" whose bit is set, or BLOCKS */
static int
next_block(unsigned blocks, int from)
{
	while (from < BLOCKS && !(blocks & (1u << from)))
		from++;
	return from;
}

/*
 * The metapage, which the reader has just read, says that the tail is empty.  If no other tail has
 * rows, this state is that of the lists, too.
 */
static void
leave_out_tail(State *t)
{
	t->read = READ_LISTS;
	reach(t, "tail is empty", NONE);
	if (kind != READ_ON_CPU)
		return;
	t->seen = t->lists;
	t->read = READ_DELTA;
	reach(t, "all are empty", NONE);
}

static void
collect(const State *s)
{
	State		t = *s;
	uint8_t		listed = s->seen.delta_blocks | s->seen.previous_blocks;
	bool		tails_last = mutant == DELTA_BEFORE_TAILS;
	int			block;

	switch (s->read)
	{
		case READ_EPOCH:
			t.read_epoch = s->epoch;
			t.hits_version = s->lists.version;
			t.began_late = s->gone;
			t.read = tails_last ? READ_LISTS : READ_TAIL;
			if (mutant == LISTS_BEFORE_TAILS)
				t.seen = s->lists;
			reach(&t, "read epoch", NONE);
			if (s->is_empty)
				leave_out_tail(&t);
			break;
		case READ_TAIL:
			t.hits |= s->tail;
			t.read = tails_last ? READ_RUN : READ_LISTS;
			if (mutant == LISTS_BEFORE_TAILS)
				t.read = READ_DELTA;
			reach(&t, "read tail", NONE);
			break;
		case READ_LISTS:
			t.seen = s->lists;
			if (mutant == VERSION_AFTER_TAILS)
				t.hits_version = s->lists.version;
			t.read_at = 0;
			t.read = kind == READ_ON_DEVICE ? ASK_MIRROR : READ_DELTA;
			reach(&t, "read lists", NONE);
			break;
		default:
			/* even if the lists have moved, a page with the delta's number has its entries */
			block = next_block(listed, s->read_at);
			if (block == BLOCKS)
			{
				t.read_at = 0;
				t.read = tails_last ? READ_TAIL : READ_RUN;
				reach(&t, "delta read", NONE);
				break;
			}
			if (s->pages[block].run == s->seen.delta || s->pages[block].run == s->seen.previous)
				t.hits |= s->pages[block].has;
			else
			{
				t.read = READ_GIVEN_UP;
				reach(&t, "not the delta's:", block);
				break;
			}
			t.read_at = block + 1;
			reach(&t, "read delta", block);
			break;
	}
}

static void
read_piece(const State *s)
{
	State		t = *s;

	switch (s->read)
	{
		case READ_RUN_LISTS:
			t.seen = s->lists;
			t.read_at = 0;
			t.read = READ_RUN;
			reach(&t, "lists of piece", NONE);
			break;
		case READ_RUN:
			/* the run's pages are found by its directory, which does not change */
			if (find_run(&s->seen, s->pages[s->read_at].run) != NONE)
				t.found = add(s->found, s->pages[s->read_at].has);
			if (++t.read_at == BLOCKS)
				t.read = READ_RUN_AGAIN;
			reach(&t, "read run", s->read_at);
			break;
		default:
			if (s->lists.version != s->seen.version && mutant != NO_SECOND_VERSION_READ)
				begin_again(&t, READ_RUN_LISTS);
			else
				t.read = READ_BELIEVE;
			reach(&t, "lists again", NONE);
			break;
	}
}

static void
ask_device(const State *s)
{
	State		t = *s;
	int			block;

	switch (s->read)
	{
		case ASK_MIRROR:
			if (s->mirror_version != s->seen.version && mutant != ANY_LIST_VERSION)
			{
				t.read = READ_GIVEN_UP; /* the model's other reader covers this */
				reach(&t, "mirror of other lists", NONE);
				break;
			}
			t.answer_epoch = s->mirror_epoch;
			t.lag = find_lag(s, s->mirror_sequence, s->mirror_open);
			t.read_at = 0;
			t.read = ASK_DEVICE;
			reach(&t, "find lag", NONE);
			break;
		case ASK_DEVICE:
			/* the entries of the tails are looked up in the answer, but not the device's own
			 * entries */
			t.hits = 0;
			for (block = 0; block < BLOCKS; block++)
				t.hits = add(t.hits, s->copy_has[block]);
			t.hits |= s->hits;
			t.read = READ_LAG;
			reach(&t, "device answers", NONE);
			break;
		case READ_LAG:
			for (block = 0; block < BLOCKS; block++)
			{
				if ((s->lag & (1 << block)) && is_listed(&s->seen, s->pages[block].run))
					t.hits |= s->pages[block].has;
			}
			t.read = ASK_AGAIN;
			reach(&t, "read lag", NONE);
			break;
		default:
			if (s->lists.version != s->seen.version && mutant != NO_SECOND_VERSION_READ)
				t.read = READ_GIVEN_UP;
			else
				t.read = READ_BELIEVE;
			reach(&t, "read lists again", NONE);
			break;
	}
}

static void
reader(const State *s)
{
	State		t = *s;

	if (s->read <= READ_DELTA)
		collect(s);
	else if (s->read <= READ_RUN_AGAIN)
		read_piece(s);
	else if (s->read <= ASK_AGAIN)
		ask_device(s);
	else if (s->read == READ_BELIEVE)
	{
		/* from here on, found entries are not trusted if the epoch has moved */
		if (mutant != EPOCH_NOT_READ_AGAIN && s->epoch != s->read_epoch)
			t.answer_epoch = NONE;
		else if (kind == READ_ON_CPU)
			t.answer_epoch = s->read_epoch;
		t.read = READ_DONE;
		reach(&t, "read epoch again", NONE);
	}
}

/* Return the fault of a reader that has just finished; NULL if it has none */
static const char *
find_fault(const State *s)
{
	int			times = 0;

	if (kind == READ_ON_CPU)
	{
		times = (s->hits & ROW) + (s->found & ROW);
		if (s->found & ROW_AGAIN)
			return "the row comes twice";
		/* the reader has seen the lists that the piece was read from */
		if (times > 1 && s->seen.version != s->hits_version && mutant != NO_DISTINCT)
			times = 1;
	}
	else
		times = (s->hits & ROW) + ((s->hits & ROW_AGAIN) != 0);
	if (times == 0)
		return "the row is lost";
	if (times > 1)
		return "the row comes twice";
	if (s->answer_epoch == s->read_epoch && s->began_late && ((s->hits | s->found) & DEAD))
		return "a dead row is believed";
	/*
	 * it was removed meanwhile, and its place is free: rereading the epoch should have detected
	 * that
	 */
	if (mutant == EPOCH_NOT_READ_AGAIN && s->gone && !s->began_late &&
		s->answer_epoch == s->read_epoch && ((s->hits | s->found) & DEAD))
		return "a dead row is believed";
	return NULL;
}

/* The cases ------------------------------------------------------------------------- */

static void
take_steps(const State *s)
{
	insert(s);
	vacuum(s);
	if (kind == READ_ON_DEVICE)
		synchronize(s);
	reader(s);
}

static const struct
{
	Mutant		mutant;
	ReaderKind	kind;
	Beginning	beginning;
	bool		by_counters;
	const char *name;
}			cases[] =
{
	{ALL_RULES, READ_ON_CPU, ALL_ON_TAIL, false, "all rules, CPU"},
	{ALL_RULES, READ_ON_DEVICE, ALL_ON_TAIL, false, "all rules, device"},
	{ALL_RULES, READ_ON_DEVICE, ALL_ON_TAIL, true, "all rules, device, no journal"},
	{ALL_RULES, READ_ON_CPU, ROW_IN_BASE, false, "all rules, CPU, the row is in a base run"},
	{ALL_RULES, READ_ON_CPU, DEAD_IN_BASE, false, "all rules, CPU, the dead one is there"},
	{ALL_RULES, READ_ON_DEVICE, ROW_IN_BASE, false, "all rules, device, the row is in a base run"},
	{ALL_RULES, READ_ON_DEVICE, ROW_IN_BASE, true, "the same, no journal"},
	{ALL_RULES, READ_ON_DEVICE, DEAD_IN_BASE, false, "all rules, device, the dead one is there"},
	{ALL_RULES, READ_ON_DEVICE, DEAD_IN_BASE, true, "the same, no journal"},
	{NO_SECOND_VERSION_READ, READ_ON_CPU, ALL_ON_TAIL, false, "no second version read"},
	{FREE_BEFORE_PUBLISH, READ_ON_CPU, ALL_ON_TAIL, false, "free space map before publish"},
	{PUBLISH_BEFORE_LAST_PAGE, READ_ON_CPU, ALL_ON_TAIL, false, "publish before the last page"},
	{DELTA_BEFORE_TAILS, READ_ON_CPU, ALL_ON_TAIL, false, "delta before tails"},
	{LANE_LEFT_OPEN, READ_ON_CPU, ALL_ON_TAIL, false, "a lane left open"},
	{LAG_BY_COUNTERS_ONLY, READ_ON_DEVICE, ALL_ON_TAIL, true, "lag by counters only"},
	{VERSION_AFTER_TAILS, READ_ON_CPU, ALL_ON_TAIL, false, "the version is read after the tails"},
	{NO_DISTINCT, READ_ON_CPU, ALL_ON_TAIL, false, "no removal of equal TIDs"},
	{FOLD_RUN_IS_FREE, READ_ON_CPU, ALL_ON_TAIL, false, "fold_run ignored as live"},
	{FREE_NOT_EMPTIED, READ_ON_DEVICE, ALL_ON_TAIL, false, "copies of free pages stay"},
	{ANY_LIST_VERSION, READ_ON_DEVICE, ALL_ON_TAIL, false, "a mirror of other lists answers"},
	{MERGED_RUN_KEPT, READ_ON_CPU, ROW_IN_BASE, false, "a merged run stays listed"},
	{MERGED_RUN_KEPT, READ_ON_DEVICE, ROW_IN_BASE, false, "a merged run stays listed, device"},
	{BASE_PUBLISHED_ONLY, READ_ON_DEVICE, DEAD_IN_BASE, true, "a small run is published unseen"},
	{EPOCH_NOT_READ_AGAIN, READ_ON_CPU, ALL_ON_TAIL, false, "epoch not read again"},
	{TAIL_CALLED_EMPTY, READ_ON_CPU, ALL_ON_TAIL, false, "a tail with rows is called empty"},
	{TAIL_CALLED_EMPTY, READ_ON_DEVICE, ALL_ON_TAIL, false, "the same, device"},
	{LISTS_BEFORE_TAILS, READ_ON_CPU, ALL_ON_TAIL, false, "the lists are read before the tails"},
};

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

		mutant = cases[i].mutant;
		kind = cases[i].kind;
		beginning = cases[i].beginning;
		by_counters = cases[i].by_counters;
		rounds = kind == READ_ON_CPU || (is_long && beginning == ALL_ON_TAIL) ? 2 : 1;
		start = first_state();
		found = explore(&start, take_steps, &last);
		failed += !report("", cases[i].name, found, mutant == ALL_RULES, last, verbose);
	}
	return failed > 0;
}
