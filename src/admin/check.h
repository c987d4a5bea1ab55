/*-------------------------------------------------------------------------
 *
 * check.h
 *	  What the two halves of gpujoin_check() share: pages (check.c), and pages
 *	  against the heap (checkheap.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ADMIN_CHECK_H
#define GPUJOIN_ADMIN_CHECK_H

#include "lib/bloomfilter.h"

#include "pages/pages.h"

typedef struct GjCheckState
{
	Relation	index;
	GjIndexInfo info;
	GjIndexState now;
	BlockNumber nblocks;
	BlockNumber min_blocks;		/* that the metapage counted at first */
	BlockNumber end_in_use;		/* behind the last data page in use that was met */
	int64		nentries;		/* verified */
	int64		free_slots;		/* of data pages in use */
	int64		empty_pages;
	int64		zero_pages;
	uint64		max_change;		/* largest change counter met */
	bloom_filter *filter;		/* of entries, as rows; or NULL */
	FmgrInfo   *key_proc;
} GjCheckState;

extern void GjCheckPages(GjCheckState *state);
extern void GjCheckAgainstHeap(GjCheckState *state);

#endif							/* GPUJOIN_ADMIN_CHECK_H */
