/*-------------------------------------------------------------------------
 *
 * cursor.h
 *	  Where the row lies on which a cursor stands.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_CURSOR_H
#define GPUJOIN_EXEC_CURSOR_H

#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "rows/rows.h"


/* When may somebody ask where the last row lies? */
typedef enum GjCursor
{
	GJ_CURSOR_NONE,				/* never */
	GJ_CURSOR_RESTS,			/* while the query rests, between two FETCHes */
	GJ_CURSOR_RUNS				/* while it runs, too */
} GjCursor;

extern GjCursor GjCursorOf(const EState *estate);
extern void GjNoteEntry(ScanState *node, GjCursor cursor, uint64 tid);
extern void GjNoteNoPlace(ScanState *node);

/*
 * WHERE CURRENT OF a cursor looks for the row's place in the scan slot, which must not
 * seem empty, whichever slot has the row.  Its values, if any, are then not looked at.  If
 * entries are put there later, they find it ready for values.
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

#endif							/* GPUJOIN_EXEC_CURSOR_H */
