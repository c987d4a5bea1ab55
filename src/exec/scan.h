/*-------------------------------------------------------------------------
 *
 * scan.h
 *	  State of a running GpuScan, shared by scan.c, ordered.c and explain.c.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_SCAN_H
#define GPUJOIN_EXEC_SCAN_H

#include "utils/tuplesort.h"

#include "node/scanplan.h"
#include "rows/rows.h"
#include "exec.h"

/* The times at which a cursor's position may be used: see "Cursors" in scan.c */
typedef enum GjCursor
{
	GJ_CURSOR_NONE,				/* never */
	GJ_CURSOR_RESTS,			/* while the query rests, between two FETCHes */
	GJ_CURSOR_RUNS				/* also while it runs */
} GjCursor;

typedef struct GjOrdered GjOrdered;

typedef struct GjOrderedStats
{
	uint64		batches;
	uint64		rows;			/* entries that were kept in order, in all batches */
	uint64		sorts;			/* number of times that the rows after the last batch were sorted */
	uint64		sorted;			/* number of rows in these sorts */
	TuplesortInstrumentation sort;	/* method and memory of the last sort */
} GjOrderedStats;

typedef struct GjScanState
{
	GjTableScan table;			/* must be first */
	GjKeyProgram *program;		/* conditions on the key */
	GjKeyUser	key_user;		/* shared keys; the table's keys are a subset */
	GjOrdered  *ordered;		/* NULL if rows are returned in any order */
	GjCursor	cursor;
} GjScanState;

/* scan.c */
extern void GjScanPrepare(GjScanState *scan);
extern Size GjScanMemory(const GjScanState *scan);
extern bool GjScanWants(GjScanState *scan, TupleTableSlot *slot);
extern void GjScanStart(GjScanState *scan, GjTidSet *tids);
extern TupleTableSlot *GjScanNext(GjScanState *scan);
extern void GjNoteEntry(ScanState *node, GjCursor cursor, uint64 tid);

/* ordered.c */
extern GjOrdered *GjOrderedCreate(GjScanState *scan);
extern TupleTableSlot *GjOrderedNext(GjScanState *scan, ExecScanRecheckMtd recheck);
extern void GjOrderedRestart(GjOrdered *ordered);
extern void GjOrderedReset(GjOrdered *ordered);
extern const GjOrderedStats *GjOrderedGetStats(const GjOrdered *ordered);

/*
 * Record the position of the row for WHERE CURRENT OF, which looks for it in the scan slot.  The
 * slot must not appear empty, even if the row is in another one.  Its values are not used, and it
 * remains ready for the values of entries.
 */
static inline void
GjNotePlace(ScanState *node, const ItemPointerData *tid)
{
	TupleTableSlot *slot = node->ss_ScanTupleSlot;

	if (TTS_IS_VIRTUAL(slot))
		GjReadySlot(slot);
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_tid = *tid;
}

/*
 * Record that the position of the row is not known: WHERE CURRENT OF gets an error instead of the
 * impression that there is no row.
 */
static inline void
GjNoteNoPlace(ScanState *node)
{
	ItemPointerData nowhere;

	ItemPointerSetInvalid(&nowhere);
	GjNotePlace(node, &nowhere);
}

#endif							/* GPUJOIN_EXEC_SCAN_H */
