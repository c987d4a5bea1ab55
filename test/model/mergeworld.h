/*-------------------------------------------------------------------------
 *
 * mergeworld.h
 *	  The state of a world of merge.c, and the faults that it may have.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MODEL_MERGEWORLD_H
#define GPUJOIN_MODEL_MERGEWORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define BLOCKS		12			/* at most: the file grows if no page is free */
#define RUNS		4
#define PLACES		2
#define PROCESSES	2
#define DELETION	(PROCESSES + 1) /* as the holder of the fold lock */

#define ROW			1			/* bits: entries */
#define OTHER		2
#define DEAD		4
#define AGAIN		8
#define NEW			16
#define ENTRIES		5

static const int entries_at[PLACES] = {ROW, OTHER | DEAD | AGAIN | NEW};

typedef enum Mutant
{
	ALL_RULES,
	MERGE_PAGES_MISSED,			/* a deletion visits listed pages only */
	LOOK_AHEAD_KEPT,			/* a merge keeps entries that did not fit on a page over a pause */
	PLACE_OF_READ,				/* or drops them, but goes on after the last one that it has read */
	ONE_NUMBER,					/* all pages of a merge have the same change number */
	SOURCE_MERGED,				/* a flush merges a source of the merge */
	SOURCE_DROPPED,				/* a flush drops one without live entries */
	MERGE_PAGES_FREE,			/* pages that a merge has written count as free */
	FORGOTTEN_ALIVE,			/* a merge is forgotten while its process lives */
	DELETION_UNLOCKED,			/* a deletion does not take the fold lock */
	STEP_UNLOCKED,				/* a merge step does not take it */
	EPOCH_EARLY,				/* the epoch is raised, and the lock released, before merge pages
								 * are clean */
	BUILD_NOT_CHECKED,			/* a merge goes on after TRUNCATE */
	LOCK_KEPT,					/* the merge lock survives an error of its process */
	MERGE_RESUMED,				/* a merge goes on after an error in a step */
	NUMBER_KEPT,				/* a merge starts over with the number of the dead one */
	FORGET_WITHOUT_NUMBER,		/* forgetting a merge draws no change number */
	MAP_TRUSTED,				/* pages of the free space map are taken unchecked */
	CHANGES_NOT_COMPARED,		/* rows that a flush has sorted without the fold lock are written
								 * although their page has changed since */
	DELTA_NOT_COMPARED			/* or although another delta is to be flushed */
} Mutant;

typedef struct Page
{
	int8_t		run;			/* 0 if never used */
	int8_t		change;
	int8_t		has;
} Page;

typedef struct Run
{
	int8_t		number;
	int8_t		published;
	bool		is_source;		/* of the merge */
	uint16_t	blocks;			/* the directory */
} Run;

/* The metapage */
typedef struct Lists
{
	int8_t		version;
	int8_t		next_run;
	int8_t		fold_run;
	int8_t		merge_run;
	int8_t		nruns;
	Run			runs[RUNS];
	int8_t		delta;
	int8_t		previous;
	uint16_t	delta_blocks;
	uint16_t	previous_blocks;
} Lists;

enum
{
	IDLE,
	FLUSH_AHEAD, FLUSH_BEGIN, FLUSH_WRITE, FLUSH_PUBLISH,
	MERGE_WRITE, MERGE_WRITTEN
};

/* A process that folds: what it has in memory */
typedef struct Process
{
	int8_t		step;			/* the fold lock is held unless it is IDLE or FLUSH_AHEAD */
	int8_t		input;			/* entries to write */
	int8_t		change;
	int8_t		first;			/* a flush merges the runs from this one on */
	int8_t		ahead_run;		/* delta that a flush sorts without the fold lock */
	int8_t		ahead;			/* its entries */
	bool		is_sorted;		/* have they been read? */
	bool		is_changed;		/* has a page got another change number since? */
	uint16_t	written;		/* pages of the flush */
	uint16_t	freed;			/* blocks to enter in the free space map */
	/* Of its merge, while it holds the merge lock */
	int8_t		run;
	int8_t		build;
	int8_t		place;			/* to be written next */
	int8_t		excess;			/* entries that have been read, and did not fit on the page */
	int8_t		end;			/* place after the last one on the page */
	uint16_t	sources;		/* blocks */
	uint16_t	blocks;			/* written */
} Process;

enum
{
	DELETE_START, DELETE_LISTED, DELETE_MERGE, DELETE_EPOCH, DELETE_RETURN
};

enum
{
	READ_START, READ_LISTS, READ_PAGE, READ_LISTS_AGAIN, READ_EPOCH, READ_DONE, READ_GIVEN_UP
};

/* The whole world.  States are compared byte by byte. */
typedef struct State
{
	Lists		lists;
	Page		pages[BLOCKS];
	uint16_t	map;			/* the free space map */
	int8_t		sequence;
	int8_t		epoch;
	int8_t		build;
	int8_t		open;			/* block that is being filled */
	int8_t		rest;			/* entries to insert */
	int8_t		present;		/* entries of live rows in the index */
	bool		gone;			/* is the TID of DEAD free? */
	bool		is_over;		/* is no step left? */
	bool		may_reuse;		/* AGAIN is to be inserted when DEAD is gone */

	/* Locks: their holders, from 1 on */
	int8_t		fold_lock;
	int8_t		merge_lock;

	Process		processes[PROCESSES];

	/* How often may these still happen? */
	int8_t		deaths;
	int8_t		deletions;
	int8_t		truncates;

	/* The bulk deletion */
	int8_t		deletion;
	int8_t		delete_merge;	/* merge_run when it began */
	uint16_t	delete_blocks;

	/* The reader */
	int8_t		read;
	int8_t		read_at;
	int8_t		read_version;
	int8_t		read_epoch;
	int8_t		visible;
	int8_t		found;
	bool		is_twice;
	uint16_t	read_blocks;

	/* The mirror, its synchronizer, and the journal */
	int8_t		syncs;
	bool		is_syncing;
	int8_t		mirror_sequence;
	int8_t		mirror_version;
	int8_t		mirror_open;
	int8_t		mirror_epoch;
	int8_t		sync_sequence;
	int8_t		sync_open;
	int8_t		sync_epoch;
	Lists		sync_lists;
	int8_t		copy_change[BLOCKS];
	int8_t		copy_has[BLOCKS];
	int8_t		opened[BLOCKS];
	int8_t		deleted[BLOCKS];
} State;

#include "reach.h"

static Mutant mutant;
static bool with_reader;
static bool with_mirror;
static bool with_ahead;			/* may flushes sort without the fold lock? */
static int	nprocesses = PROCESSES;
static bool moved;				/* does the current state have a successor? */

/* Faults ------------------------------------------------------------------------------ */

/* Return the blocks that the lists of a state name */
static uint16_t
listed_blocks(const Lists *lists)
{
	uint16_t	blocks = lists->delta_blocks | lists->previous_blocks;

	for (int i = 0; i < lists->nruns; i++)
		blocks |= lists->runs[i].blocks;
	return blocks;
}

/* Return the fault of an answer */
static const char *
check_answer(int wanted, int found, bool is_twice)
{
	if (wanted & ~found)
		return "a row is lost";
	return is_twice ? "a row comes twice" : NULL;
}

static int
owner_by_lists(const Lists *lists, int block)
{
	if (lists->delta_blocks & (1 << block))
		return lists->delta;
	if (lists->previous_blocks & (1 << block))
		return lists->previous;
	for (int i = 0; i < lists->nruns; i++)
	{
		if (lists->runs[i].blocks & (1 << block))
			return lists->runs[i].number;
	}
	return 0;
}

static bool
is_listed(const Lists *lists, int run)
{
	if (run == 0)
		return false;
	for (int i = 0; i < lists->nruns; i++)
	{
		if (lists->runs[i].number == run)
			return true;
	}
	return run == lists->delta || run == lists->previous;
}

/* Check the listed pages, at one moment */
static const char *
check_pages(const State *s)
{
	int			found = 0;
	bool		is_twice = false;
	const char *result;

	for (int block = 0; block < BLOCKS; block++)
	{
		const Page *page = &s->pages[block];
		int			owner = owner_by_lists(&s->lists, block);

		if (owner == 0)
			continue;
		if (page->run != owner)
			return "a listed page belongs to another run";
		is_twice |= (found & page->has) != 0;
		found |= page->has;
	}
	result = check_answer(s->present, found, is_twice);
	if (result == NULL && s->gone && (found & DEAD))
		return "an entry is back whose TID is free";
	for (int block = 0; block < BLOCKS && result == NULL; block++)
	{
		if (is_listed(&s->lists, s->pages[block].run) && owner_by_lists(&s->lists, block) == 0)
			return "a page has leaked";
	}
	return result;
}

static uint16_t
find_lag(const State *s)
{
	uint16_t	lag = s->mirror_open == NONE ? 0 : 1 << s->mirror_open;

	for (int block = 0; block < BLOCKS; block++)
	{
		if (s->opened[block] > s->mirror_sequence || s->deleted[block] > s->mirror_sequence)
			lag |= 1 << block;
	}
	return lag;
}

/* Check what the mirror would answer */
static const char *
check_mirror(const State *s)
{
	uint16_t	lag = find_lag(s);
	uint16_t	listed = listed_blocks(&s->lists);
	int			found = 0;
	bool		is_twice = false;

	if (s->mirror_version != s->lists.version)
		return NULL;
	for (int block = 0; block < BLOCKS; block++)
	{
		int			has = s->copy_has[block];

		if (lag & (1 << block))
			has = listed & (1 << block) ? s->pages[block].has : 0;
		is_twice |= (found & has) != 0;
		found |= has;
	}
	if (s->gone && s->mirror_epoch == s->epoch && (found & DEAD))
		return "a dead row is believed";
	return check_answer(s->present, found, is_twice);
}

static const char *
check_end(const State *s)
{
	const Lists *lists = &s->lists;

	if (s->fold_lock != 0 || s->merge_lock != 0 || lists->merge_run != 0)
		return "an interrupted merge does not start over";
	if (lists->fold_run != 0 || lists->previous != 0 || lists->delta_blocks != 0 ||
		lists->nruns > 1)
		return "something is not folded";
	return NULL;
}

/* The processes are alike, so it does not matter which is the first one */
static void
exchange_processes(State *s)
{
	Process		first = s->processes[0];

	s->processes[0] = s->processes[1];
	s->processes[1] = first;
	if (s->fold_lock == 1 || s->fold_lock == 2)
		s->fold_lock = 3 - s->fold_lock;
	if (s->merge_lock != 0)
		s->merge_lock = 3 - s->merge_lock;
}

static bool
settle(State *s)
{
	int8_t	   *numbers[4 + 2 * RUNS + PROCESSES + 4 * BLOCKS];
	int			n = 0;

	if (s->read == READ_GIVEN_UP)
		return false;
	fault = check_pages(s);
	if (fault == NULL && with_mirror)
		fault = check_mirror(s);
	if (fault == NULL && s->is_over)
		fault = check_end(s);
	if (fault == NULL && s->read == READ_DONE)
	{
		fault = check_answer(s->visible, s->found, s->is_twice);
		if (fault == NULL && s->epoch == s->read_epoch && s->gone && (s->found & DEAD))
			fault = "a dead row is believed";
		if (fault == NULL)
			return false;
	}

	numbers[n++] = &s->sequence;
	numbers[n++] = &s->mirror_sequence;
	numbers[n++] = &s->sync_sequence;
	for (int i = 0; i < RUNS; i++)
	{
		numbers[n++] = &s->lists.runs[i].published;
		numbers[n++] = &s->sync_lists.runs[i].published;
	}
	for (int i = 0; i < PROCESSES; i++)
		numbers[n++] = &s->processes[i].change;
	for (int block = 0; block < BLOCKS; block++)
	{
		numbers[n++] = &s->pages[block].change;
		numbers[n++] = &s->copy_change[block];
		numbers[n++] = &s->opened[block];
		numbers[n++] = &s->deleted[block];
	}
	if (with_mirror)
		close_gaps(numbers, n);
	else
	{
		if (!with_reader)
			s->lists.version = 0;
		for (int i = 0; i < n; i++)
			*numbers[i] = 0;
	}
	if (memcmp(&s->processes[0], &s->processes[1], sizeof(Process)) < 0)
		exchange_processes(s);
	return true;
}

static void
go(const State *t, const char *step, int number)
{
	moved = true;
	reach(t, step, number);
}

/* Pages ------------------------------------------------------------------------------- */

static bool
is_free(const State *s, int block)
{
	int			run = s->pages[block].run;

	if (run == 0 || is_listed(&s->lists, run))
		return run == 0;
	if (run == s->lists.merge_run)
		return mutant == MERGE_PAGES_FREE;
	return run != s->lists.fold_run;
}

/* Take a page: one of the free space map if it is still free, otherwise extend the file */
static int
take_page(State *t, int run, int change, int has)
{
	int			block;

	for (block = 0; block < BLOCKS; block++)
	{
		if (t->map & (1 << block))
		{
			t->map &= ~(1 << block);
			if (mutant == MAP_TRUSTED || is_free(t, block))
				break;
		}
	}
	if (block == BLOCKS)
	{
		for (block = 0; block < BLOCKS && t->pages[block].run != 0; block++)
			;
	}
	if (block == BLOCKS)
	{
		fprintf(stderr, "too few blocks\n");
		exit(2);
	}
	t->pages[block] = (Page) {.run = run, .change = change, .has = has};
	return block;
}

static int
read_blocks(const State *s, uint16_t blocks)
{
	int			has = 0;

	for (int block = 0; block < BLOCKS; block++)
		has |= blocks & (1 << block) ? s->pages[block].has : 0;
	return has;
}

#endif							/* GPUJOIN_MODEL_MERGEWORLD_H */
