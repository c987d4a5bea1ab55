/*-------------------------------------------------------------------------
 *
 * stream.h
 *	  The entries that a match finds, set by set, in one process or shared among several.
 *	  Part of match.h.
 *
 * GjEntriesOpen() searches the index for a set of keys.  If the answer cannot be entries, it
 * returns no stream, but the TIDs to be fetched from the heap.  Otherwise GjEntriesNext() returns
 * the entries.  The caller determines which of them are rows, by the visibility map and
 * GjEntriesAreCurrent(): see visible.c.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_MATCH_STREAM_H
#define GPUJOIN_MATCH_STREAM_H

#include "utils/dsa.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "pages/pages.h"
#include "sets/sets.h"

typedef struct GjEntryStream GjEntryStream;

/* The shared memory of a match that the processes of a parallel plan share */
typedef struct GjSharedFind GjSharedFind;

/* A process's part in a shared match */
typedef struct GjShare
{
	GjSharedFind *found;		/* NULL outside of parallel plans */
	dsa_area   *area;
	bool		alone;			/* true if this process does all of the work */
	void		(*progress) (void *arg);	/* called before each step */
	void	   *arg;
} GjShare;

/*
 * What the searches of one scan, which all have its snapshot, tell each other: once all tails were
 * empty, and a state of the metapage that was read after that.  See "Searching again" in search.c.
 */
typedef struct GjSearchMemo
{
	bool		known;
	GjIndexState state;
} GjSearchMemo;

typedef struct GjEntryRequest
{
	Relation	heap;			/* read as a whole if the index cannot answer */
	Relation	index;
	Snapshot	snapshot;		/* an MVCC snapshot */
	const GjKeySet *keys;		/* must live until GjEntriesClose(), unless TIDs are returned */
	bool		entries;		/* true if entries are wanted, false for TIDs alone */
	uint64		columns;		/* columns of the entries: GJ_ENTRY_KEY, and a bit for each INCLUDE
								 * column above it */
	gjd_top		top;			/* if the limit is not 0: the first entries in an order; a device
								 * may leave out others, see GjEntriesComplete() */
	const GjEntryTest *test;	/* entries that fail may be dropped, or NULL; TIDs alone are those
								 * of entries that pass */
	struct GjReduction *reduction;	/* groups that a device should make of rows as far as it can,
									 * so that they need not be delivered; or NULL.  Only if
									 * entries are wanted, nothing but the columns of the groups
									 * is needed of a row, and the plan is not parallel */
	bool		entries_only;	/* true to search again rather than accept outdated TIDs, and to
								 * forget the pieces at the end, as a rescan searches again */
	bool		whole;			/* true if this execution has no other keys, so that the match can
								 * be shared */
	GjShare    *share;			/* NULL or without found if the plan is not parallel */
	GjSearchMemo *memo;			/* for the next searches of the same scan, or NULL */
	MemoryContext parent;		/* for the stream, or the TIDs */
	Size		limit;			/* memory limit of one process */
	struct GjMatchStats *stats; /* must live as long as the stream */
	uint64	   *ntids;			/* the number of TIDs that this process has found is added here, if
								 * they are returned; or NULL */
} GjEntryRequest;

typedef enum GjFound
{
	GJ_FOUND_END,				/* no more entries, or all others are for other processes */
	GJ_FOUND_ENTRIES,			/* entries that have been found now, or are returned again */
	GJ_FOUND_LAST,				/* the same, if there are surely no others */
	GJ_FOUND_EARLIER			/* entries that had been found before the stream was opened */
} GjFound;

extern GjEntryStream *GjEntriesOpen(const GjEntryRequest *request, GjTidSet **tids);
extern GjFound GjEntriesNext(GjEntryStream *stream, const GjEntrySet **set);
extern bool GjEntriesAreReduced(const GjEntryStream *stream);
extern bool GjEntriesAreCurrent(const GjEntryStream *stream);
extern uint64 GjEntriesComplete(const GjEntryStream *stream);
extern bool GjEntriesRestart(GjEntryStream *stream);
extern void GjEntriesTurnTo(GjEntryStream *stream, const GjKeySet *keys);
extern void GjEntriesClose(GjEntryStream *stream);

/* The leader's part of a shared match */
extern Size GjShareBytes(void);
extern void GjShareInit(GjSharedFind *found, int nprocesses);
extern void GjShareReset(GjSharedFind *found, dsa_area *area);

#endif							/* GPUJOIN_MATCH_STREAM_H */
