/*-------------------------------------------------------------------------
 *
 * fold.c
 *	  An exhaustive model of how an index's pages change under its readers.
 *
 * The index of this model has a handful of blocks and two entries.  ROW is of a row that the
 * reader's snapshot sees; it must be found, and as an entry that is believed without a look at
 * the heap it must come once.  DEAD is of a dead row; it must not be believed by a reader that
 * began after the bulk deletion that removed it.  An inserter, VACUUM, a synchroniser of
 * a mirror and one reader take their steps in every possible order.  A step is what the real
 * code does under the locks of one WAL record, or of one page that is read; between two steps
 * anything can happen.
 *
 * The rules are those of src/pages/lists.c, src/am/fold.c, src/match/search.c, entries.c and device.c, and
 * src/mirror/load.c.  Each mutant leaves one rule out, and must lose a row, find it twice, or
 * believe a dead one; then the program prints the shortest order of steps that does it.
 *
 *	  fold				all rules, then all mutants; exit status 0 if each does as it should
 *	  fold -v			with the orders of steps
 *	  fold -l			with a mirror, too, for two rounds of VACUUM: takes ten times as long
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS		3
#define SYNCS		2			/* of the mirror */
#define FILLERS		1			/* further rows, which nobody looks for, to make pages open */
#define MAX_STATES	8000000		/* a world that is larger than this is a mistake */

#define ROW			1			/* bits: what a page, a tail, or an answer has */
#define DEAD		2

#define NONE		(-1)

/* Rules that a mutant leaves out */
typedef enum Mutant
{
	ALL_RULES,
	NO_SECOND_VERSION_READ,		/* the reader does not look whether the lists have moved */
	FREE_BEFORE_PUBLISH,		/* a fold's input is given away when it has been read */
	PUBLISH_BEFORE_LAST_PAGE,	/* the new run is listed before it is written */
	DELTA_BEFORE_TAILS,			/* the reader's order is the wrong way round */
	LANE_LEFT_OPEN,				/* a fold does not close the lane */
	LAG_BY_COUNTERS_ONLY,		/* a full pass does not look when runs were published */
	VERSION_AFTER_TAILS,		/* a piece takes what tails had for of the lists read after them */
	NO_DISTINCT,				/* a piece is not made distinct when the lists have moved */
	FOLD_RUN_IS_FREE,			/* pages that a fold has written count as free */
	FREE_NOT_EMPTIED,			/* a full pass leaves copies of free pages in the mirror */
	ANY_LIST_VERSION,			/* a mirror of other lists may answer */
	EPOCH_NOT_READ_AGAIN		/* entries are believed without a second look at the epoch */
} Mutant;

typedef enum ReaderKind
{
	READ_ON_CPU,				/* in a cursor: tails and delta, and later the runs */
	READ_ON_DEVICE
} ReaderKind;

typedef struct Page
{
	int8_t		run;			/* 0: never used */
	int8_t		change;
	int8_t		has;
} Page;

typedef struct Lists
{
	int8_t		version;
	int8_t		next_run;
	int8_t		fold_run;
	int8_t		run;			/* the one run, 0: none; always a major fold */
	int8_t		published;
	int8_t		delta;
	int8_t		previous;
	uint8_t		delta_blocks;	/* bit sets: what the lists of pages have */
	uint8_t		previous_blocks;
} Lists;

/* The whole world.  All bytes count when states are compared. */
typedef struct State
{
	/* The index */
	Lists		lists;
	int8_t		sequence;
	int8_t		epoch;
	int8_t		open;			/* the lane's block */
	int8_t		open_run;
	int8_t		tail;
	int8_t		fillers;		/* rows that are still to come */
	Page		pages[BLOCKS];
	int8_t		opened[BLOCKS]; /* the journal: last change of each kind */
	int8_t		deleted[BLOCKS];

	/* VACUUM */
	int8_t		vacuum;			/* its next step */
	int8_t		round;
	int8_t		input;			/* what the fold has read */
	int8_t		fold_change;
	int8_t		written;		/* block of the new run, or NONE */
	int8_t		fold_blocks;	/* of the input */
	bool		gone;			/* DEAD has been removed, and the epoch raised */

	/* The mirror */
	int8_t		mirror_sequence;
	int8_t		mirror_version;
	int8_t		mirror_epoch;
	int8_t		mirror_open;
	int8_t		copy_change[BLOCKS];
	int8_t		copy_has[BLOCKS];

	/* Its synchroniser */
	int8_t		sync;
	int8_t		syncs;
	int8_t		sync_sequence;
	int8_t		sync_epoch;
	int8_t		sync_open;
	uint8_t		sync_wanted;	/* blocks to take, if it is not a full pass */
	bool		sync_full;
	Lists		sync_lists;

	/* The reader */
	int8_t		read;
	int8_t		read_at;
	int8_t		read_epoch;
	int8_t		hits;			/* of tails and delta, or of all */
	int8_t		found;			/* of the runs */
	int8_t		hits_version;
	bool		began_late;		/* DEAD was gone when the reader began */
	uint8_t		lag;
	int8_t		answer_epoch;
	Lists		seen;
} State;

typedef struct Node
{
	State		state;
	uint32_t	parent;
	uint32_t	next;			/* in its hash chain, plus 1 */
	char		step[20];
} Node;

static Mutant mutant;
static ReaderKind kind;
static bool by_counters;		/* the journal does not reach back: the synchroniser looks at all */
static Node *nodes;
static uint32_t nnodes;
static uint32_t capacity;
static uint32_t *table;
static uint32_t table_size;
static int	rounds;				/* of VACUUM */
static uint32_t current;		/* whose steps are being made */
static const char *fault;		/* of a reader that has finished */

enum
{
	READ_EPOCH, READ_TAIL, READ_LISTS, READ_DELTA, READ_DELTA_AGAIN,	/* collect */
	READ_RUN_LISTS, READ_RUN, READ_RUN_AGAIN,	/* a piece */
	ASK_MIRROR, ASK_DEVICE, READ_LAG, ASK_AGAIN,
	READ_BELIEVE, READ_DONE, READ_GIVEN_UP
};

/* What is wrong with a reader that has just finished; NULL: nothing */
static const char *
find_fault(const State *s)
{
	int			times = 0;

	if (kind == READ_ON_CPU)
	{
		times = (s->hits & ROW) + (s->found & ROW);
		/* seen has the lists of the piece */
		if (times > 1 && s->seen.version != s->hits_version && mutant != NO_DISTINCT)
			times = 1;
	}
	else
		times = s->hits & ROW;
	if (times == 0)
		return "the row is lost";
	if (times > 1)
		return "the row comes twice";
	if (s->answer_epoch == s->read_epoch && s->began_late && ((s->hits | s->found) & DEAD))
		return "a dead row is believed";
	/* removed meanwhile, and its place free by now: the second look should have told */
	if (mutant == EPOCH_NOT_READ_AGAIN && s->gone && !s->began_late &&
		s->answer_epoch == s->read_epoch && ((s->hits | s->found) & DEAD))
		return "a dead row is believed";
	return NULL;
}

/* Reached states -------------------------------------------------------------- */

static uint32_t
hash(const State *state)
{
	const unsigned char *byte = (const unsigned char *) state;
	uint64_t	h = 14695981039346656037u;

	for (size_t i = 0; i < sizeof(State); i++)
		h = (h ^ byte[i]) * 1099511628211u;
	return (uint32_t) (h ^ (h >> 29));
}

static void *
must(void *memory)
{
	if (memory == NULL)
	{
		fprintf(stderr, "out of memory\n");
		exit(2);
	}
	return memory;
}

static void
rehash(void)
{
	table_size = table_size == 0 ? 1 << 16 : table_size * 2;
	free(table);
	table = must(calloc(table_size, sizeof(uint32_t)));
	for (uint32_t i = 0; i < nnodes; i++)
	{
		uint32_t   *chain = &table[hash(&nodes[i].state) & (table_size - 1)];

		nodes[i].next = *chain;
		*chain = i + 1;
	}
}

/* Numbers of changes that a state has, by address */
static int
list_numbers(State *s, int8_t **numbers)
{
	int			n = 0;

	numbers[n++] = &s->sequence;
	numbers[n++] = &s->fold_change;
	numbers[n++] = &s->mirror_sequence;
	numbers[n++] = &s->sync_sequence;
	numbers[n++] = &s->lists.published;
	numbers[n++] = &s->seen.published;
	numbers[n++] = &s->sync_lists.published;
	for (int block = 0; block < BLOCKS; block++)
	{
		numbers[n++] = &s->pages[block].change;
		numbers[n++] = &s->copy_change[block];
		numbers[n++] = &s->opened[block];
		numbers[n++] = &s->deleted[block];
	}
	return n;
}

/*
 * Make equal what differs in nothing that matters: numbers of changes are compared, with
 * others and with neighbours, so gaps between them may be closed down to three
 */
static void
normalize(State *s)
{
	int8_t	   *numbers[7 + 4 * BLOCKS];
	int			n = list_numbers(s, numbers);
	int8_t		from = 0;
	int8_t		to = 0;

	if (kind == READ_ON_CPU)
	{
		/* this reader looks at no number */
		for (int i = 0; i < n; i++)
			*numbers[i] = 0;
		return;
	}
	/* a device is not asked by the lists of pages */
	s->seen.delta_blocks = s->seen.previous_blocks = 0;
	s->sync_lists.delta_blocks = s->sync_lists.previous_blocks = 0;
	s->lists.delta_blocks = s->lists.previous_blocks = 0;
	s->seen.published = s->seen.fold_run = s->seen.next_run = 0;
	for (int block = 0; block < BLOCKS; block++)
	{
		int8_t		oldest = s->mirror_sequence;

		if (s->sync != 0 && s->sync_sequence < oldest)
			oldest = s->sync_sequence;
		if (s->opened[block] <= oldest)
			s->opened[block] = 0;
		if (s->deleted[block] <= oldest)
			s->deleted[block] = 0;
	}
	for (;;)
	{
		int8_t		next = INT8_MAX;
		int8_t		gap;

		for (int i = 0; i < n; i++)
		{
			if (*numbers[i] > from && *numbers[i] < next)
				next = *numbers[i];
		}
		if (next == INT8_MAX)
			break;
		gap = next - from > 3 ? 3 : next - from;
		to += gap;
		for (int i = 0; i < n; i++)
		{
			if (*numbers[i] == next)
				*numbers[i] = to;
		}
		from = to;
		/* all above have moved down as far as this one */
		for (int i = 0; i < n; i++)
		{
			if (*numbers[i] > next)
				*numbers[i] -= next - to;
		}
	}
}

/* A state has been reached from the current one by a step */
static void
reach(const State *reached, const char *step, int block)
{
	State		copy = *reached;
	const State *state = &copy;
	uint32_t	at;
	Node	   *node;

	if (copy.read == READ_GIVEN_UP)
		return;
	if (copy.read == READ_DONE)
	{
		fault = find_fault(&copy);
		if (fault == NULL)
			return;				/* nothing that comes later matters to this reader */
	}
	normalize(&copy);
	at = hash(state) & (table_size - 1);
	for (uint32_t i = table[at]; i != 0; i = nodes[i - 1].next)
	{
		if (memcmp(&nodes[i - 1].state, state, sizeof(State)) == 0)
			return;
	}
	if (nnodes == MAX_STATES)
	{
		fprintf(stderr, "more than %d states\n", MAX_STATES);
		exit(2);
	}
	if (nnodes == capacity)
	{
		capacity = capacity == 0 ? 1 << 16 : capacity * 2;
		nodes = must(realloc(nodes, capacity * sizeof(Node)));
	}
	node = &nodes[nnodes++];
	node->state = *state;
	node->parent = current;
	if (block == NONE)
		snprintf(node->step, sizeof(node->step), "%s", step);
	else
		snprintf(node->step, sizeof(node->step), "%s %d", step, block);
	node->next = table[at];
	table[at] = nnodes;
	if (nnodes > table_size)
		rehash();
}

/* The index -------------------------------------------------------------------- */

static bool
is_listed(const Lists *lists, int run)
{
	return run != 0 && (run == lists->run || run == lists->delta || run == lists->previous);
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
			/* filled with other rows: the lane needs another page for the next ones */
			t.fillers--;
			t.open = NONE;
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
		break;					/* which one does not matter */
	}
}

/* VACUUM: bulk deletion, then a major fold ----------------------------------------- */

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
	t->input = t->fold_blocks = t->fold_change = 0;
	t->written = NONE;
}

static void
publish(State *t)
{
	t->lists.run = t->lists.fold_run;
	t->lists.published = ++t->sequence;
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
		int			run = mutant == PUBLISH_BEFORE_LAST_PAGE ? s->lists.run : s->lists.fold_run;

		if (!is_free(s, block))
			continue;
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

/* Close the lane, take a number, read the input */
static void
start_fold(State *t)
{
	if (t->open != NONE && t->open_run == t->lists.previous && mutant != LANE_LEFT_OPEN)
		t->open = NONE;
	t->lists.fold_run = t->lists.next_run++;
	t->fold_change = ++t->sequence;

	/* one step: nobody changes these pages any more */
	for (int block = 0; block < BLOCKS; block++)
	{
		int			run = t->pages[block].run;

		if (run != 0 && (run == t->lists.previous || run == t->lists.run))
		{
			t->input |= t->pages[block].has;
			t->fold_blocks |= 1 << block;
		}
	}
	t->vacuum = mutant == PUBLISH_BEFORE_LAST_PAGE ? FOLD_PUBLISH : FOLD_WRITE;
}

static void
vacuum(const State *s)
{
	State		t = *s;

	switch (s->vacuum)
	{
		case VACUUM_DELETE:
			/* each page is a record of its own, but nothing depends on what is between them */
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
			t.lists.previous = s->lists.delta;
			t.lists.previous_blocks = s->lists.delta_blocks;
			t.lists.delta = t.lists.next_run++;
			t.lists.delta_blocks = 0;
			t.vacuum = FOLD_START;
			if (kind == READ_ON_DEVICE)
				start_fold(&t);		/* the other reader tries what is between */
			reach(&t, "rotate", NONE);
			break;
		case FOLD_START:
			start_fold(&t);
			reach(&t, "close lane, read", NONE);
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

/* One page to the device, or that it has nothing any more */
static void
push(State *t, int block)
{
	const Page *page = &t->pages[block];
	const Lists *lists = &t->sync_lists;

	if (page->run == 0)
		return;
	if (!t->sync_full)
	{
		/* the lists are those of the mirror: what changed is in a delta, or lost entries */
		if ((t->sync_wanted & (1 << block)) && is_listed(lists, page->run))
			store_copy(t, block, page->change, page->has);
	}
	else if (is_listed(lists, page->run))
	{
		if (page->change > t->mirror_sequence ||
			(page->run == lists->run && lists->published > t->mirror_sequence &&
			 mutant != LAG_BY_COUNTERS_ONLY))
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
			if (s->syncs == SYNCS)
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
			/* pages change in between, too, but each by itself: all at once tells as much */
			for (int block = 0; block < BLOCKS; block++)
				push(&t, block);
			t.sync = SYNC_END;
			reach(&t, "sync: push", NONE);
			break;
		default:
			/* if the lists have moved since, this is no mirror of theirs, and does not answer */
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

/* The reader ------------------------------------------------------------------------ */


/*
 * The lists have moved.  Who begins again is as one who begins now, in this world: all those are
 * tried anyway.  A piece begins again with what was collected before.
 */
static void
begin_again(State *t, int step)
{
	t->read = step;
	t->read_at = 0;
	t->found = 0;
	memset(&t->seen, 0, sizeof(Lists));
}

/* The next block of a bit set at or behind one, or BLOCKS */
static int
next_block(unsigned blocks, int from)
{
	while (from < BLOCKS && !(blocks & (1u << from)))
		from++;
	return from;
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
			reach(&t, "read epoch", NONE);
			break;
		case READ_TAIL:
			t.hits |= s->tail;
			t.read = tails_last ? READ_DELTA_AGAIN : READ_LISTS;
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
		case READ_DELTA:
			block = next_block(listed, s->read_at);
			if (block == BLOCKS)
			{
				t.read_at = 0;
				t.read = tails_last ? READ_TAIL : READ_DELTA_AGAIN;
				reach(&t, "delta read", NONE);
				break;
			}
			if (s->pages[block].run != s->seen.delta && s->pages[block].run != s->seen.previous)
			{
				if (mutant != NO_SECOND_VERSION_READ)
				{
					t.read = READ_GIVEN_UP;
					reach(&t, "not the delta's:", block);
					break;
				}
			}
			else
				t.hits |= s->pages[block].has;
			t.read_at = block + 1;
			reach(&t, "read delta", block);
			break;
		default:
			if (s->lists.version != s->seen.version && mutant != NO_SECOND_VERSION_READ)
				t.read = READ_GIVEN_UP;
			else
				begin_again(&t, READ_RUN_LISTS);
			reach(&t, "read lists again", NONE);
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
			/* where the run's pages are is known from its directory, which lies still as it does */
			if (s->seen.run != 0 && s->pages[s->read_at].run == s->seen.run)
				t.found |= s->pages[s->read_at].has;
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
				t.read = READ_GIVEN_UP; /* the CPU answers: that is the other reader */
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
			for (block = 0; block < BLOCKS; block++)
				t.hits |= s->copy_has[block];
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

	if (s->read <= READ_DELTA_AGAIN)
		collect(s);
	else if (s->read <= READ_RUN_AGAIN)
		read_piece(s);
	else if (s->read <= ASK_AGAIN)
		ask_device(s);
	else if (s->read == READ_BELIEVE)
	{
		/* from here on, what was found is not believed if the epoch has moved */
		if (mutant != EPOCH_NOT_READ_AGAIN && s->epoch != s->read_epoch)
			t.answer_epoch = NONE;
		else if (kind == READ_ON_CPU)
			t.answer_epoch = s->read_epoch;
		t.read = READ_DONE;
		reach(&t, "read epoch again", NONE);
	}
}

/* The search ------------------------------------------------------------------------ */

static void
print_steps(uint32_t node)
{
	if (node == 0)
		return;
	print_steps(nodes[node].parent);
	printf("    %s\n", nodes[node].step);
}

static const char *
explore(uint32_t *last)
{
	State		start;

	memset(&start, 0, sizeof(start));
	start.lists.delta = 1;
	start.lists.next_run = 2;
	start.lists.version = 1;
	start.sequence = 1;
	start.epoch = 1;
	start.open = NONE;
	start.tail = ROW | DEAD;
	start.fillers = kind == READ_ON_CPU ? FILLERS : 0;
	start.written = NONE;
	/* the empty index has a mirror */
	start.mirror_sequence = 1;
	start.mirror_version = 1;
	start.mirror_epoch = 1;
	start.mirror_open = NONE;
	start.sync_open = NONE;

	nnodes = 0;
	table_size = 0;
	rehash();
	current = 0;
	reach(&start, "start", NONE);
	fault = NULL;
	for (current = 0; current < nnodes && fault == NULL; current++)
	{
		State		s = nodes[current].state;

		insert(&s);
		vacuum(&s);
		if (kind == READ_ON_DEVICE)
			synchronize(&s);
		reader(&s);
		*last = nnodes - 1;		/* the reader's step, if there is a fault */
	}
	return fault;
}

static const struct
{
	Mutant		mutant;
	ReaderKind	kind;
	bool		by_counters;
	const char *name;
}			cases[] =
{
	{ALL_RULES, READ_ON_CPU, false, "all rules, CPU"},
	{ALL_RULES, READ_ON_DEVICE, false, "all rules, device"},
	{ALL_RULES, READ_ON_DEVICE, true, "all rules, device, the journal does not reach back"},
	{NO_SECOND_VERSION_READ, READ_ON_CPU, false, "no second version read"},
	{FREE_BEFORE_PUBLISH, READ_ON_CPU, false, "free space map before publish"},
	{PUBLISH_BEFORE_LAST_PAGE, READ_ON_CPU, false, "publish before the last page"},
	{DELTA_BEFORE_TAILS, READ_ON_CPU, false, "delta before tails"},
	{LANE_LEFT_OPEN, READ_ON_CPU, false, "a lane left open"},
	{LAG_BY_COUNTERS_ONLY, READ_ON_DEVICE, true, "lag by counters only"},
	{VERSION_AFTER_TAILS, READ_ON_CPU, false, "the version is read after the tails"},
	{NO_DISTINCT, READ_ON_CPU, false, "no removal of equal TIDs"},
	{FOLD_RUN_IS_FREE, READ_ON_CPU, false, "fold_run ignored as live"},
	{FREE_NOT_EMPTIED, READ_ON_DEVICE, false, "copies of free pages stay in the mirror"},
	{ANY_LIST_VERSION, READ_ON_DEVICE, false, "a mirror of other lists answers"},
	{EPOCH_NOT_READ_AGAIN, READ_ON_CPU, false, "epoch not read again"},
};

int
main(int argc, char **argv)
{
	bool		verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
	bool		is_long = argc > 1 && strcmp(argv[1], "-l") == 0;
	int			failed = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		uint32_t	last;
		const char *found;
		bool		good;

		mutant = cases[i].mutant;
		kind = cases[i].kind;
		by_counters = cases[i].by_counters;
		rounds = kind == READ_ON_CPU || is_long ? 2 : 1;
		found = explore(&last);
		good = (found == NULL) == (mutant == ALL_RULES);
		failed += !good;
		printf("%s - %s: %s, %u states\n", good ? "ok" : "not ok", cases[i].name,
			   found == NULL ? "no fault" : found, nnodes);
		if (found != NULL && (verbose || mutant == ALL_RULES))
			print_steps(last);
	}
	return failed > 0;
}
