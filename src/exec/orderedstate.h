/*-------------------------------------------------------------------------
 *
 * orderedstate.h
 *	  The state of rows in an order; for ordered.c and orderedrow.c only.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_ORDEREDSTATE_H
#define GPUJOIN_EXEC_ORDEREDSTATE_H

#include "ordered.h"
#include "scan.h"

/* Entries that are tested for visibility at a time */
#define GJ_ORDERED_GROUP		256

struct GjOrdered
{
	GjTop	   *top;
	GjSortColumn *columns;
	AttrNumber *attnos;			/* of the table, for each sort column */
	int			ncolumns;
	GjEntryWidths widths;
	uint64		matched;		/* columns of the index that a match is asked for */
	bool		index_only;
	uint64		bound;			/* the first batch */

	/* What the batches are selected from */
	bool		started;
	GjTidSet   *all;			/* tuples of the heap; NULL: entries */
	MemoryContext context;		/* of the match, while there is one */
	GjEntryMatch match;
	GjEntrySet *whole;			/* a device's answer */

	/* The batch that is being delivered */
	GjTopBatches batches;
	uint64		searched;		/* entries of the index that the CPU looked at for it, */
	uint64		matched_entries;	/* and those of them that matched */
	uint64		next;
	uint64		end_tested;		/* entries up to here have been tested, */
	bool		visible[GJ_ORDERED_GROUP]; /* so many at most before it */
	uint64		first_tested;
	bool		certain;		/* the epoch has not moved yet */
	BlockNumber nblocks;		/* of the heap, after the match */
	HeapTupleData tuple;		/* the slot for heap tuples refers to it */
	uint64		prefetched;		/* blocks of entries up to here were asked for */

	/* Rows after the last batch (orderedsort.c) */
	bool		is_rest;		/* true once they are wanted */
	struct GjOrderedSorter *sorter; /* NULL: no row has been sorted so far */

	GjOrderedStats stats;
};

/* orderedrow.c: make a row of entry i of the batch; NULL if there is none */
extern TupleTableSlot *GjOrderedMakeRow(GjScanState *scan, uint64 i);
extern void GjOrderedReadValues(const GjOrdered *ordered, TupleTableSlot *slot, Datum *values,
								bool *isnull);

/* orderedsort.c */
extern void GjOrderedSort(GjScanState *scan);

#endif							/* GPUJOIN_EXEC_ORDEREDSTATE_H */
