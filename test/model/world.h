/*-------------------------------------------------------------------------
 *
 * world.h
 *	  The state of a world of fold.c and reduce.c.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MODEL_WORLD_H
#define GPUJOIN_MODEL_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define BLOCKS		3
#define RUNS		2			/* listed at most */
#define FILLERS		1			/* further rows, not searched for, that make pages open */

#define ROW			1			/* contents of a page, a tail or an answer, as bits */
#define DEAD		2
#define ROW_AGAIN	4			/* the row was found a second time among a run's pages or copies */
#define LATER		8			/* an entry of a row that the snapshot does not see */

/* Rules that mutants omit */
typedef enum Mutant
{
	ALL_RULES,
	NO_SECOND_VERSION_READ,		/* the reader does not check whether the lists have moved */
	FREE_BEFORE_PUBLISH,		/* a fold's input is freed when it has been read */
	PUBLISH_BEFORE_LAST_PAGE,	/* the new run is listed before it is written */
	DELTA_BEFORE_TAILS,			/* the reader's order is reversed */
	LANE_LEFT_OPEN,				/* a fold does not close the lane */
	LAG_BY_COUNTERS_ONLY,		/* a full pass does not check when runs were published */
	VERSION_AFTER_TAILS,		/* a piece takes the tails' entries for those of the lists read
								 * after them */
	NO_DISTINCT,				/* a piece is not made distinct after the lists have moved */
	FOLD_RUN_IS_FREE,			/* pages that a fold has written count as free */
	FREE_NOT_EMPTIED,			/* a full pass leaves copies of free pages in the mirror */
	ANY_LIST_VERSION,			/* a mirror of other lists may answer */
	MERGED_RUN_KEPT,			/* a run stays listed together with the one that it was merged
								 * into */
	BASE_PUBLISHED_ONLY,		/* a full pass does not check when small runs were published */
	EPOCH_NOT_READ_AGAIN,		/* entries are trusted without rereading the epoch */
	TAIL_CALLED_EMPTY,			/* a fold says that a tail with rows is empty */
	LISTS_BEFORE_TAILS,			/* the lists of empty tails do, although one is not empty */

	/* Rules of a reduction (reduce.c) */
	BOUND_AFTER_TAILS,			/* the bound is read after the tails */
	NO_BOUND,					/* pages newer than the bound are reduced */
	LAG_REDUCED,				/* pages that the mirror lacks are reduced, and searched, too */
	LAG_NOT_SEARCHED,
	NEWER_NOT_SEARCHED,			/* pages left out because of the bound are not searched */
	NEWER_WITHOUT_LISTS,		/* these pages are searched without a test whether they are live */
	MAP_BEFORE_BOUND,			/* the visibility map is copied before the bound is read */
	VERSION_NOT_COMPARED,		/* the states are used without rereading the lists' version ... */
	EPOCH_NOT_COMPARED,			/* ... or without rereading the epoch */
	LAG_BY_FIRST_MAP,			/* hits of the CPU are trusted by the map that the device got */
	PARTIAL_FILTER,				/* a part of the filter is not sent to the device */
	MARKS_REDUCED				/* values that did not fit into the index are reduced */
} Mutant;

typedef enum ReaderKind
{
	READ_ON_CPU,				/* with a cursor: tails and delta, and later the runs */
	READ_ON_DEVICE,
	REDUCE_ON_DEVICE			/* reduce.c */
} ReaderKind;

/* Initial location of the entries */
typedef enum Beginning
{
	ALL_ON_TAIL,
	ROW_IN_BASE,				/* a base run has ROW, and the tail DEAD */
	DEAD_IN_BASE				/* the other way around */
} Beginning;

typedef struct Page
{
	int8_t		run;			/* 0 if never used */
	int8_t		change;
	int8_t		has;
} Page;

typedef struct Lists
{
	int8_t		version;
	int8_t		next_run;
	int8_t		fold_run;
	int8_t		nruns;
	int8_t		runs[RUNS];		/* the base run first */
	int8_t		published[RUNS];
	int8_t		delta;
	int8_t		previous;
	uint8_t		delta_blocks;	/* bit sets: blocks in the lists of pages */
	uint8_t		previous_blocks;
} Lists;

/* The whole world.  States are compared byte by byte. */
typedef struct State
{
	/* The index */
	Lists		lists;
	int8_t		sequence;
	int8_t		epoch;
	int8_t		open;			/* the lane's block */
	int8_t		open_run;
	int8_t		tail;
	bool		is_empty;		/* does the metapage say that the tail is empty? */
	int8_t		fillers;		/* number of rows still to be inserted */
	Page		pages[BLOCKS];
	int8_t		opened[BLOCKS]; /* the journal: last change of each kind */
	int8_t		deleted[BLOCKS];

	/* VACUUM */
	int8_t		vacuum;			/* its next step */
	int8_t		round;
	int8_t		first;			/* all runs from this one on are merged with the delta */
	int8_t		input;			/* entries that the fold has read */
	int8_t		fold_change;
	int8_t		written;		/* block of the new run, or NONE */
	int8_t		fold_blocks;	/* of the input */
	bool		gone;			/* has DEAD been removed, and the epoch raised? */

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
	int8_t		sync_at;		/* the page to push next, if each push is a step */
	Lists		sync_lists;

	/* The reader */
	int8_t		read;
	int8_t		read_at;
	int8_t		read_epoch;
	int8_t		hits;			/* entries of tails and delta, or of all */
	int8_t		found;			/* of the runs */
	int8_t		hits_version;
	bool		began_late;		/* was DEAD gone when the reader began? */
	uint8_t		lag;
	int8_t		answer_epoch;
	Lists		seen;

	/* The part of the heap's visibility map that a reduction reads, and the reduction itself */
	uint8_t		map;			/* ROW: bit of the block of the row and the later one; DEAD */
	int8_t		writer;			/* next step of the process that inserts LATER */
	uint8_t		first_map;		/* copies of the map */
	uint8_t		second_map;
	int8_t		bound;
	uint8_t		newer;			/* pages that the device left out because of the bound */
	int8_t		states;			/* entries in the device's states */
	int8_t		searched;		/* hits of the CPU on pages that the device left out */
	bool		replied;		/* has the device replied? */
	bool		lag_read;		/* has the CPU searched the pages that the mirror lacks? */
} State;

#include "reach.h"

static Mutant mutant;
static ReaderKind kind;
static Beginning beginning;
static bool by_counters;		/* the journal does not reach back: the synchronizer reads all
								 * pages */
static int	rounds;				/* of VACUUM */
static int	syncs = 2;			/* synchronizations of the mirror */

enum
{
	READ_EPOCH, READ_TAIL, READ_LISTS, READ_DELTA,	/* collect */
	READ_RUN_LISTS, READ_RUN, READ_RUN_AGAIN,	/* a piece */
	ASK_MIRROR, ASK_DEVICE, READ_LAG, ASK_AGAIN,
	READ_BELIEVE, READ_DONE, READ_GIVEN_UP,
	REDUCE_MAP_EARLY, REDUCE_BOUND, REDUCE_TAIL, REDUCE_BOUND_LATE, REDUCE_LISTS, REDUCE_LAG,
	REDUCE_MAP, REDUCE_ASK, REDUCE_NEWER, REDUCE_CHECK, REDUCE_MAP_AGAIN, REDUCE_BELIEVE
};

/* Add entries to an answer that should not contain any of them yet */
static int
add(int answer, int has)
{
	return answer | has | (answer & has & ROW ? ROW_AGAIN : 0);
}

/* Return the fault of a reader that has just finished; NULL if it has none.  Each model defines
 * it. */
static const char *find_fault(const State *s);

/* Equal states --------------------------------------------------------------- */

/* List the addresses of a state's change numbers */
static int
list_numbers(State *s, int8_t **numbers)
{
	int			n = 0;

	numbers[n++] = &s->sequence;
	numbers[n++] = &s->fold_change;
	numbers[n++] = &s->mirror_sequence;
	numbers[n++] = &s->sync_sequence;
	numbers[n++] = &s->bound;
	for (int i = 0; i < RUNS; i++)
	{
		numbers[n++] = &s->lists.published[i];
		numbers[n++] = &s->seen.published[i];
		numbers[n++] = &s->sync_lists.published[i];
	}
	for (int block = 0; block < BLOCKS; block++)
	{
		numbers[n++] = &s->pages[block].change;
		numbers[n++] = &s->copy_change[block];
		numbers[n++] = &s->opened[block];
		numbers[n++] = &s->deleted[block];
	}
	return n;
}

/* Make states equal that differ only in irrelevant ways */
static void
normalize(State *s)
{
	int8_t	   *numbers[5 + 3 * RUNS + 4 * BLOCKS];
	int			n = list_numbers(s, numbers);

	if (s->read != READ_EPOCH)
		s->is_empty = false;	/* no reader will ask */
	if (kind == READ_ON_CPU)
	{
		/* this reader does not use any number */
		for (int i = 0; i < n; i++)
			*numbers[i] = 0;
		return;
	}
	if (s->replied)
	{
		/* the mirror does not matter any more */
		s->mirror_sequence = s->mirror_version = s->mirror_epoch = s->mirror_open = 0;
		s->sync = s->sync_sequence = s->sync_epoch = s->sync_open = s->sync_at = 0;
		s->syncs = syncs;
		s->sync_wanted = 0;
		s->sync_full = false;
		memset(s->copy_change, 0, sizeof(s->copy_change));
		memset(s->copy_has, 0, sizeof(s->copy_has));
		memset(&s->sync_lists, 0, sizeof(Lists));
		memset(s->opened, 0, sizeof(s->opened));
		memset(s->deleted, 0, sizeof(s->deleted));
	}
	/* a device is not searched by the lists of pages */
	s->seen.delta_blocks = s->seen.previous_blocks = 0;
	s->sync_lists.delta_blocks = s->sync_lists.previous_blocks = 0;
	s->lists.delta_blocks = s->lists.previous_blocks = 0;
	memset(s->seen.published, 0, sizeof(s->seen.published));
	s->seen.fold_run = s->seen.next_run = 0;
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
	close_gaps(numbers, n);
}

static bool
settle(State *s)
{
	if (s->read == READ_GIVEN_UP)
		return false;
	if (s->read == READ_DONE)
	{
		fault = find_fault(s);
		if (fault == NULL)
			return false;		/* later events do not matter to this reader */
	}
	normalize(s);
	return true;
}

#endif							/* GPUJOIN_MODEL_WORLD_H */
