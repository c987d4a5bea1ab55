/*-------------------------------------------------------------------------
 *
 * rows.h
 *	  The rows of one table: keys to search for, filters of entries, the stream of rows.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ROWS_H
#define GPUJOIN_ROWS_H

#include "access/htup_details.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "utils/snapshot.h"

#include "match/match.h"
#include "sets/sets.h"
#include "keys.h"
#include "shape.h"

/*
 * A batch of rows: a selection of the entries of a set, or of the tuples of some heap blocks
 *
 * Values are not copied: shape says where each column of the result is.  The position belongs to
 * the batch, since consumers may change in the middle of it.  A batch is valid until its owner is
 * asked for the next one; slots with values of heap blocks must be cleared, or filled again, then.
 */
typedef struct GjRowBatch
{
	int			nrows;
	int			next;			/* first row that has not been taken; consumers advance it */
	uint16	   *rows;			/* position of each row in the source */
	const GjRowShape *shape;	/* columns of the result; set by the node that returns the batch */
	const GjEntrySet *entries;	/* the source: entries, */
	uint64		first;			/* starting with this number; */
	const HeapTupleData *tuples;	/* or the tuples of heap blocks, otherwise NULL, */
	const Buffer *buffers;		/* each in one of these, which are pinned; */
	const GjBatchColumn *arrays;	/* or result columns; all rows are used, and rows is NULL */
	const GjBatchColumn *seconds;	/* with arrays: the second words of uuids, by column of the
									 * result */
	bool		rechecked;		/* false if the consumer must recheck the keys of the tuples */
	bool		is_last;		/* true only if the node has no rows after these */
	void	  **partners;		/* result of the look-up of each row, or NULL without a look-up */
	int			partner_natts;	/* number of columns of a partner */
	const uint32 *weights;		/* number of result rows of each row; a null pointer if all are 1 */
} GjRowBatch;

/*
 * Return the number of a row's entry in the set
 */
static inline uint64
GjRowEntry(const GjRowBatch *batch, int row)
{
	return batch->first + batch->rows[row];
}

/*
 * Return a row's tuple
 */
static inline const HeapTupleData *
GjRowTuple(const GjRowBatch *batch, int row)
{
	return &batch->tuples[batch->rows[row]];
}

/*
 * Store a row's tuple in a slot for heap tuples
 */
static inline void
GjRowStore(const GjRowBatch *batch, int row, TupleTableSlot *slot)
{
	ExecStoreBufferHeapTuple(unconstify(HeapTupleData *, GjRowTuple(batch, row)), slot,
							 batch->buffers[batch->rows[row]]);
}

/*-------------------------------------------------------------------------
 * Which entries of an index pass a scan's filters, decided on their columns: filter.c
 *
 * A filter is made from the plan when the node begins, reset with each (re)scan, when params may
 * have other values, and then run on batches of entries.  The values that entries are compared
 * with are evaluated before a match that tests entries, or when the first entries come.
 *-------------------------------------------------------------------------
 */
typedef struct GjEntryFilter GjEntryFilter;

extern GjEntryFilter *GjEntryFilterInit(Relation index, List *plan, List *clauses,
										PlanState *parent);
extern void GjEntryFilterSetExact(GjEntryFilter *filter, const GjKeySet *keys, GjExact *exact);
extern void GjEntryFilterReset(GjEntryFilter *filter);
extern uint64 GjEntryFilterWords(const GjEntryFilter *filter);
extern Bitmapset *GjEntryFilterParams(const GjEntryFilter *filter);
extern const GjEntryTest *GjEntryFilterGetTest(const GjEntryFilter *filter);

/*-------------------------------------------------------------------------
 * The stream of a table's rows: rows.c
 *
 * Rows come in batches, from entries alone or from the heap; the stream decides from which.  It
 * tests keys and entry filters, never quals.
 *-------------------------------------------------------------------------
 */
typedef struct GjRows GjRows;

typedef struct GjRowsStats
{
	uint64		rows;			/* rows from entries */
	uint64		heap_fetches;	/* TIDs of entries that had to be fetched */
	uint64		absent;			/* number of these whose entries lack a value */
	uint64		exact_blocks;	/* heap blocks with known offsets */
	uint64		lossy_blocks;	/* heap blocks all of whose tuples were tested */
	uint64		tuples;			/* visible tuples, counted by block */
	uint64		rechecked;		/* number of them that the key recheck removed, here or in the
								 * caller */
} GjRowsStats;

/* The recheck of keys */
typedef struct GjRowProbe
{
	const GjKeySet *keys;		/* set that must have tuples' keys, or NULL to look these up */
	GjRowLookup lookup;			/* called with arg */
	void	   *arg;
	bool		entries;		/* true to look up the keys of entries, too */
} GjRowProbe;

extern GjRows *GjRowsCreate(const ScanState *node, Relation index, GjKeyReader *reader,
							const GjEntryTest *test);
extern void GjRowsFeed(GjRows *rows, GjRowShape *shape);
extern void GjRowsOpen(GjRows *rows, const GjEntryRequest *request);
extern void GjRowsOpenTids(GjRows *rows, GjTidSet *tids);
extern bool GjRowsIsOpen(const GjRows *rows);
extern bool GjRowsHasEntries(const GjRows *rows);
extern bool GjRowsAreReduced(const GjRows *rows);
extern void GjRowsStart(GjRows *rows, const GjRowProbe *probe);
extern GjRowBatch *GjRowsNext(GjRows *rows, bool by_row);
extern void GjRowsStop(GjRows *rows);	/* releases all pins, keeps what was found */
extern void GjRowsClose(GjRows *rows);	/* forgets it */
extern bool GjRowsFetch(GjRows *rows, uint64 tid, TupleTableSlot *slot);
extern GjRowsStats *GjRowsGetStats(GjRows *rows);

/* The batch that GjRowsNext() fills: a GjRows begins with it */
#define GjRowsGetBatch(rows)	((GjRowBatch *) (rows))

/*-------------------------------------------------------------------------
 * The tuples of TIDs: heap.c
 *
 * TIDs become tuples a few heap blocks at a time, following HOT chains under the snapshot.  The
 * fetch is the part of the stream that reads the heap.  It does not own the TID set.
 *-------------------------------------------------------------------------
 */
typedef struct GjFetch GjFetch;

extern GjFetch *GjFetchCreate(MemoryContext parent, const ScanState *node, GjKeyReader *reader,
							  GjRowBatch *batch, GjRowsStats *stats);
extern void GjFetchStart(GjFetch *fetch, GjTidSet *tids, const GjRowProbe *probe);
extern bool GjFetchLoad(GjFetch *fetch);
extern bool GjFetchRow(GjFetch *fetch, ItemPointer tid, TupleTableSlot *slot);

/*
 * Return true if a heap has no such block.  A length that was read before is a lower bound, since
 * the executor has locked the table; 0 is one, too.
 */
static inline bool
GjIsPastHeap(Relation heap, BlockNumber *nblocks, BlockNumber block)
{
	if (block >= *nblocks)
		*nblocks = RelationGetNumberOfBlocks(heap);
	return block >= *nblocks;
}

extern void GjFetchReset(GjFetch *fetch);	/* releases all pins; the TID set may be freed */
extern void GjFollowChain(Relation heap, Snapshot snapshot, ItemPointer tid);

#endif							/* GPUJOIN_ROWS_H */
