/*-------------------------------------------------------------------------
 *
 * entryfill.h
 *	  Virtual slots filled from index entries.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_ENTRYFILL_H
#define GPUJOIN_EXEC_ENTRYFILL_H

#include "access/tupmacs.h"
#include "executor/tuptable.h"
#include "nodes/plannodes.h"
#include "utils/relcache.h"

#include "sets/sets.h"

/* Where an attribute of the slot comes from */
typedef struct GjEntryOutput
{
	uint16		at;				/* in the slot, from 0 */
	uint16		column;			/* of the index, from 0: the key, then INCLUDE columns */

	/* The arrays of the set that is being delivered: GjEntryFillSource() */
	uint16		width;
	const char *values;
	const uint8 *nulls;			/* NULL: no entry of the set has one */
} GjEntryOutput;

typedef struct GjEntryFill
{
	uint64		columns;		/* a bit for each column of the index that is used */
	int			nint4;			/* the first so many outputs have 4 bytes and no NULLs */
	int			noutputs;
	GjEntryOutput outputs[FLEXIBLE_ARRAY_MEMBER];
} GjEntryFill;

#define GJ_ENTRY_KEY			UINT64CONST(1)	/* the key's bit */

/* entryfill.c: each allocates in the current memory context */
extern GjEntryFill *GjEntryFillRow(Relation index, const Scan *plan, List *attnos);
extern GjEntryFill *GjEntryFillTarget(const GjEntryFill *row, List *tlist, Index varno);
extern void GjEntryFillSource(GjEntryFill *fill, const GjEntrySet *set);
extern void GjPrepareSlot(TupleTableSlot *slot);

/*
 * Make sure of a slot that only needs values.  It has been one since its last row, unless
 * somebody has cleared it or made it keep copies.
 */
static inline void
GjReadySlot(TupleTableSlot *slot)
{
	if (unlikely(slot->tts_flags & (TTS_FLAG_EMPTY | TTS_FLAG_SHOULDFREE)))
		GjPrepareSlot(slot);
}

/*
 * Put an entry's values into the slot.  All are by value, so that a slot once stored only
 * gets other values; attributes that the fill does not have are NULL.  What is by
 * reference is the caller's, and must not be a copy that the slot made.
 */
static inline void
GjEntryFillSlot(const GjEntryFill *fill, uint64 entry, TupleTableSlot *slot)
{
	const GjEntryOutput *output = fill->outputs;
	const GjEntryOutput *end_int4 = output + fill->nint4;
	const GjEntryOutput *end = output + fill->noutputs;
	Datum	   *values = slot->tts_values;
	bool	   *isnull = slot->tts_isnull;

	GjReadySlot(slot);
	for (; output < end_int4; output++)
	{
		uint16		at = output->at;	/* the compiler cannot know that it stays */

		values[at] = Int32GetDatum(((const int32 *) output->values)[entry]);
		isnull[at] = false;
	}
	for (; output < end; output++)
	{
		/* a NULL's bytes are zero */
		values[output->at] = fetch_att(output->values + entry * output->width, true,
									   output->width);
		isnull[output->at] = output->nulls != NULL && output->nulls[entry];
	}
}

#endif							/* GPUJOIN_EXEC_ENTRYFILL_H */
