/*-------------------------------------------------------------------------
 *
 * search.h
 *	  The search through all worlds that can be reached from a first one.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MODEL_SEARCH_H
#define GPUJOIN_MODEL_SEARCH_H

#include "writers.h"

static void
print_steps(uint32_t node)
{
	if (node == 0)
		return;
	print_steps(nodes[node].parent);
	printf("    %s\n", nodes[node].step);
}

/* Return the world before all steps, for this beginning and this kind of reader */
static State
first_state(void)
{
	State		start;

	memset(&start, 0, sizeof(start));
	if (beginning != ALL_ON_TAIL)
	{
		start.lists.nruns = 1;
		start.lists.runs[0] = start.pages[0].run = 2;
		start.lists.published[0] = start.pages[0].change = start.copy_change[0] = 1;
		start.pages[0].has = start.copy_has[0] = beginning == ROW_IN_BASE ? ROW : DEAD;
	}
	start.lists.delta = 1;
	start.lists.next_run = 3;
	start.lists.version = 1;
	start.sequence = 1;
	start.epoch = 1;
	start.open = NONE;
	start.tail = (ROW | DEAD) & ~start.pages[0].has;
	start.fillers = kind == READ_ON_CPU ? FILLERS : 0;
	start.written = NONE;
	/* the index already has a mirror */
	start.mirror_sequence = 1;
	start.mirror_version = 1;
	start.mirror_epoch = 1;
	start.mirror_open = NONE;
	start.sync_open = NONE;
	return start;
}

/* Take every step in every reachable world.  Return the fault of a reader, NULL if none has one. */
static const char *
explore(const State *start, void (*take_steps) (const State *s), uint32_t *last)
{
	nnodes = 0;
	table_size = 0;
	rehash();
	current = 0;
	reach(start, "start", NONE);
	fault = NULL;
	for (current = 0; current < nnodes && fault == NULL; current++)
	{
		State		s = nodes[current].state;

		take_steps(&s);
		*last = nnodes - 1;		/* the reader's step that has a fault, if any */
	}
	return fault;
}

#endif							/* GPUJOIN_MODEL_SEARCH_H */
