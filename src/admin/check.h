/*-------------------------------------------------------------------------
 *
 * check.h
 *	  What the parts of gpujoin_check() share: the whole (check.c), pages (check.c), runs and
 *	  deltas (check.c), and pages against the heap (check.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ADMIN_CHECK_H
#define GPUJOIN_ADMIN_CHECK_H

#include "lib/bloomfilter.h"

#include "pages/pages.h"

/* What was met on a page from first_data on */
typedef struct GjCheckedPage
{
	uint32		run:28;			/* the run or delta that it is of; 0: none that lives */
	uint32		is_data:1;		/* else it is of a directory or list */
	uint32		is_late:1;		/* it was changed after the lists had been read */
	uint32		named:1;		/* by a directory or list */
} GjCheckedPage;

typedef struct GjCheckState
{
	Relation	index;
	GjIndexInfo info;
	BlockNumber min_blocks;		/* that the metapage counted at first */
	GjIndexState now;			/* the lists, read when the tails had been */
	bool		moved;			/* they have moved since: begin again */
	BlockNumber nblocks;
	GjCheckedPage *pages;		/* [nblocks], of which the first ones are not used */
	BlockNumber end_in_use;		/* behind the last page that lives */
	int64		nentries;		/* verified */
	int64		free_slots;		/* of data pages that live */
	int64		free_pages;
	uint64		max_change;		/* largest change counter met */
	uint32		max_run;		/* largest number of a run or delta met, */
	BlockNumber max_run_block;	/* and where */
	uint64		run_entries[GJ_MAX_RUNS];	/* not deleted, as met */
	bloom_filter *filter;		/* of entries, as rows; or NULL */
	int64		filter_entries; /* for so many it is made */
	FmgrInfo   *key_proc;
} GjCheckState;

/* check.c */
extern void GjCheckPages(GjCheckState *state);

#endif							/* GPUJOIN_ADMIN_CHECK_H */
