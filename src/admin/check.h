/*-------------------------------------------------------------------------
 *
 * check.h
 *	  The state of gpujoin_check(); see check.c.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ADMIN_CHECK_H
#define GPUJOIN_ADMIN_CHECK_H

#include "lib/bloomfilter.h"

#include "pages/pages.h"

/* Findings about a page from first_data on */
typedef struct GjCheckedPage
{
	uint32		run:28;			/* the live run or delta that it belongs to, or 0 */
	uint32		is_data:1;		/* data page, not a page of a directory or list */
	uint32		is_late:1;		/* page was changed after the lists had been read */
	uint32		named:1;		/* a directory or list names the page */
} GjCheckedPage;

typedef struct GjCheckState
{
	Relation	index;
	GjIndexInfo info;
	BlockNumber min_blocks;		/* number of blocks in the metapage at the start */
	GjIndexState now;			/* the lists, read after the tails */
	bool		moved;			/* the lists have changed since: start over */
	BlockNumber nblocks;
	GjCheckedPage *pages;		/* [nblocks]; the elements before first_data are unused */
	BlockNumber end_in_use;		/* block after the last live page */
	int64		nentries;		/* number of verified entries */
	int64		free_slots;		/* free slots of live data pages */
	int64		free_pages;
	uint64		max_change;		/* largest change counter found */
	uint32		max_run;		/* largest number of a run or delta found */
	BlockNumber max_run_block;	/* block where that was found */
	uint64		run_entries[GJ_MAX_RUNS];	/* number of entries found, without deleted ones */
	bloom_filter *filter;		/* fingerprints of entries, or NULL */
	int64		filter_entries; /* number of entries that the filter is sized for */
	FmgrInfo   *key_proc;
} GjCheckState;

/* check.c */
extern void GjCheckPages(GjCheckState *state);

#endif							/* GPUJOIN_ADMIN_CHECK_H */
