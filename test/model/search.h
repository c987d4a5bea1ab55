/*-------------------------------------------------------------------------
 *
 * search.h
 *	  The world of fold.c and reduce.c before all steps.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MODEL_SEARCH_H
#define GPUJOIN_MODEL_SEARCH_H

#include "writers.h"

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

#endif							/* GPUJOIN_MODEL_SEARCH_H */
