/*-------------------------------------------------------------------------
 *
 * indexonly.h
 *	  Rows of one table answered from index entries, where the heap need not be
 *	  asked.
 *
 * GjIndexOnlyStart() begins a match, and GjIndexOnlyNext() delivers the rows that are
 * certain, piece by piece as they are found.  When it says false, GjIndexOnlyRest() has
 * the TIDs of the others: to be fetched, under the snapshot and with a recheck of the
 * key, like those of any match.  Then GjIndexOnlyContinue() says whether there are more
 * entries, as there are if the TIDs took too much memory.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_INDEXONLY_H
#define GPUJOIN_EXEC_INDEXONLY_H

#include "nodes/execnodes.h"

#include "match/match.h"
#include "rows/rows.h"

typedef struct GjIndexOnly GjIndexOnly;
struct GjEntryFilter;

typedef struct GjIndexOnlyStats
{
	uint64		rows;			/* answered from entries */
	uint64		heap_fetches;	/* TIDs left to the heap */
} GjIndexOnlyStats;

/* Entries whose visibility is tested at a time */
#define GJ_CHUNK_ENTRIES		1024

extern GjIndexOnly *GjIndexOnlyCreate(const ScanState *node, Relation index);
extern void GjIndexOnlyFilter(GjIndexOnly *io, struct GjEntryFilter *filter);
extern void GjIndexOnlyFeed(GjIndexOnly *io, GjFill *fill);
extern bool GjIndexOnlyIsPossible(const GjIndexOnly *io);
extern GjTidSet *GjIndexOnlyStart(GjIndexOnly *io, const GjEntryRequest *request);
extern bool GjIndexOnlyIsStarted(const GjIndexOnly *io);
extern void GjIndexOnlyRestart(GjIndexOnly *io);
extern bool GjIndexOnlyLoad(GjIndexOnly *io);
extern bool GjIndexOnlyLoadRows(GjIndexOnly *io);
extern void GjIndexOnlyPrefetch(const GjIndexOnly *io);
extern void GjIndexOnlyKeys(const GjIndexOnly *io, int64 *out);
extern GjTidSet *GjIndexOnlyRest(GjIndexOnly *io);
extern bool GjIndexOnlyContinue(GjIndexOnly *io);
extern void GjIndexOnlyReset(GjIndexOnly *io);
extern GjIndexOnlyStats *GjIndexOnlyGetStats(GjIndexOnly *io);

/* The rows that are ready: a GjIndexOnly begins with them */
#define GjIndexOnlyGetBatch(io)	((GjRowBatch *) (io))

/*
 * Get the next entry that is a row.  Returns false at the end.  It is good until the next call.
 * Inline, since counting rows does little else.
 */
static inline bool
GjIndexOnlyNext(GjIndexOnly *io, uint64 *entry)
{
	GjRowBatch *batch = GjIndexOnlyGetBatch(io);

	if (batch->next >= batch->nrows && !GjIndexOnlyLoadRows(io))
		return false;
	*entry = GjRowEntry(batch, batch->next++);
	return true;
}

#endif							/* GPUJOIN_EXEC_INDEXONLY_H */
