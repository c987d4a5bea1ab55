/*-------------------------------------------------------------------------
 *
 * rows.h
 *	  The rows of one table: keys to search for, filters of entries, tuples of TIDs.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ROWS_H
#define GPUJOIN_ROWS_H

#include "access/htup_details.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "utils/snapshot.h"

#include "match/match.h"
#include "sets/sets.h"
#include "keys.h"
#include "shape.h"

/*
 * A batch of rows: a selection of the entries of a set, or of the tuples of a heap block
 *
 * Values are not copied: shape says where each column of the result is.  The position belongs to
 * the batch, since consumers may change in the middle of it.  A batch is valid until its owner is
 * asked for the next one.
 */
typedef struct GjRowBatch
{
	int			nrows;
	int			next;			/* first row that has not been taken; consumers advance it */
	uint16	   *rows;			/* position of each row in the source */
	const GjFill *shape;		/* columns of the result; set by the node that returns the batch */
	const GjEntrySet *entries;	/* the source: entries, */
	uint64		first;			/* starting with this number; */
	const HeapTupleData *tuples;	/* or the tuples of a pinned block, otherwise NULL; */
	const GjBatchColumn *arrays;	/* or result columns; all rows are used, and rows is NULL */
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

/*-------------------------------------------------------------------------
 * Which entries of an index pass a scan's filters, decided on their columns: filter.c
 *
 * A filter is made from the plan when the node begins, reset with each (re)scan, when params may
 * have other values, and then run on batches of entries.  The values that entries are compared
 * with are evaluated before a match that tests entries, or when the first entries come.
 *-------------------------------------------------------------------------
 */
typedef struct GjEntryFilter GjEntryFilter;

extern GjEntryFilter *GjEntryFilterInit(List *plan, List *values, PlanState *parent);
extern void GjEntryFilterReset(GjEntryFilter *filter);
extern uint64 GjEntryFilterColumns(const GjEntryFilter *filter);	/* bits as in GjFill */
extern Bitmapset *GjEntryFilterParams(const GjEntryFilter *filter);
extern const GjEntryTest *GjEntryFilterGetTest(const GjEntryFilter *filter);

/*-------------------------------------------------------------------------
 * The tuples of TIDs: heap.c
 *
 * TIDs become tuples a heap block at a time, following HOT chains under the snapshot.  The fetch
 * does not own the TID set.
 *-------------------------------------------------------------------------
 */
typedef struct GjFetch GjFetch;

typedef struct GjFetchStats
{
	uint64		exact_blocks;	/* heap blocks with known offsets */
	uint64		lossy_blocks;	/* heap blocks all of whose tuples were tested */
	uint64		tuples;			/* visible tuples, counted by block */
	uint64		rechecked;		/* number of them that the key recheck removed, here or in the
								 * caller */
} GjFetchStats;

/* The recheck of keys */
typedef struct GjRowProbe
{
	const GjKeySet *keys;		/* the set that must contain them, or NULL if they are looked up */
	GjRowLookup lookup;			/* called with arg */
	void	   *arg;
} GjRowProbe;

extern GjFetch *GjFetchCreate(MemoryContext parent, Relation heap, Snapshot snapshot,
							  GjKeyReader *reader, GjRowBatch **batch);
extern bool GjFetchLoad(GjFetch *fetch);
extern bool GjFetchStart(GjFetch *fetch, GjTidSet *tids, const GjRowProbe *probe);
extern bool GjFetchNext(GjFetch *fetch, TupleTableSlot *slot);
extern bool GjFetchRow(GjFetch *fetch, ItemPointer tid, TupleTableSlot *slot);
extern void GjFetchReset(GjFetch *fetch);	/* releases all pins; the TID set may be freed */
extern GjFetchStats *GjFetchGetStats(GjFetch *fetch);
extern void GjFollowChain(Relation heap, Snapshot snapshot, ItemPointer tid);

/*-------------------------------------------------------------------------
 * Rows from entries alone: rows.c
 *-------------------------------------------------------------------------
 */
typedef struct GjIndexOnly GjIndexOnly;

typedef struct GjIndexOnlyStats
{
	uint64		rows;			/* rows from entries */
	uint64		heap_fetches;	/* TIDs that had to be fetched */
} GjIndexOnlyStats;

extern GjIndexOnly *GjIndexOnlyCreate(const ScanState *node, Relation index,
									  GjEntryFilter *filter);
extern void GjIndexOnlyFeed(GjIndexOnly *io, GjFill *fill);
extern GjTidSet *GjIndexOnlyStart(GjIndexOnly *io, const GjEntryRequest *request);
extern bool GjIndexOnlyIsStarted(const GjIndexOnly *io);
extern void GjIndexOnlyRestart(GjIndexOnly *io, GjRowLookup lookup, void *arg);
extern bool GjIndexOnlyLoad(GjIndexOnly *io, bool by_row);
extern GjTidSet *GjIndexOnlyRest(GjIndexOnly *io);
extern bool GjIndexOnlyContinue(GjIndexOnly *io);
extern void GjIndexOnlyReset(GjIndexOnly *io);
extern GjIndexOnlyStats *GjIndexOnlyGetStats(GjIndexOnly *io);

/* The batch that each load fills: a GjIndexOnly begins with it */
#define GjIndexOnlyGetBatch(io)	((GjRowBatch *) (io))

/*
 * Get the number of the next entry that is a row.  Returns false at the end.  The entry is valid
 * until the next call.  Inline, because counting rows does little else.
 */
static inline bool
GjIndexOnlyNext(GjIndexOnly *io, uint64 *entry)
{
	GjRowBatch *batch = GjIndexOnlyGetBatch(io);

	if (batch->next >= batch->nrows && !GjIndexOnlyLoad(io, true))
		return false;
	*entry = GjRowEntry(batch, batch->next++);
	return true;
}

#endif							/* GPUJOIN_ROWS_H */
