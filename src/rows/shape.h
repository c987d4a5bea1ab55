/*-------------------------------------------------------------------------
 *
 * shape.h
 *	  Virtual slots filled straight from index entries or heap tuples.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ROWS_SHAPE_H
#define GPUJOIN_ROWS_SHAPE_H

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "nodes/plannodes.h"
#include "utils/relcache.h"

#include "sets/sets.h"

/*
 * Where an attribute of fixed width lies in each tuple that has no NULLs and enough
 * attributes: those before it are of fixed width, too
 */
typedef struct GjTuplePlace
{
	AttrNumber	attno;			/* a tuple must have so many; 0: no place is known */
	int16		width;
	bool		by_value;
	uint32		offset;			/* from the beginning of the tuple's data; or GJ_NO_OFFSET */
} GjTuplePlace;

/* Of an attribute that lies elsewhere in each tuple: good for arrays only */
#define GJ_NO_OFFSET			PG_UINT32_MAX

/* Where an attribute of the slot comes from */
typedef struct GjFillOutput
{
	uint16		at;				/* in the slot, from 0 */
	uint16		column;			/* entries: of the index, from 0: the key, then INCLUDE columns */
	uint16		width;
	bool		by_value;
	GjTuplePlace place;			/* tuples */

	/* Entries: the arrays of the set that is being delivered, GjFillSource() */
	const char *values;
	const uint8 *nulls;			/* NULL: no entry of the set has one */
} GjFillOutput;

/* Attributes of a virtual slot that entries, or tuples, fill */
typedef struct GjFill
{
	uint64		columns;		/* entries: a bit for each column of the index that is used */
	AttrNumber	natts;			/* tuples: each must have so many */
	TupleDesc	desc;			/* tuples: of the table */
	int			nint4;			/* the first so many outputs have 4 bytes, by value and no NULLs */
	int			noutputs;
	GjFillOutput outputs[FLEXIBLE_ARRAY_MEMBER];
} GjFill;

/* shape.c: fills are allocated in the current memory context */
extern GjFill *GjFillEntryRow(Relation index, const Scan *plan, List *attnos);
extern int	GjIndexColumnOf(Relation index, AttrNumber attno);
extern GjFill *GjFillTupleRow(TupleDesc desc, List *tlist, Index varno, bool to_arrays);
extern GjFill *GjFillTupleScan(const ScanState *scan, bool to_arrays);
extern GjFill *GjFillTarget(const GjFill *row, List *tlist, Index varno);
extern void GjFillSource(GjFill *fill, const GjEntrySet *set);
extern void GjPrepareSlot(TupleTableSlot *slot);
extern bool GjTupleFindPlace(TupleDesc desc, AttrNumber attno, GjTuplePlace *place);
extern bool GjReadTupleColumn(const HeapTupleData *tuples, const GjFill *fill,
							  const GjFillOutput *output, const uint16 *rows, int n, char *values,
							  uint8 *nulls);

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
GjFillFromEntry(const GjFill *fill, uint64 entry, TupleTableSlot *slot)
{
	const GjFillOutput *output = fill->outputs;
	const GjFillOutput *end_int4 = output + fill->nint4;
	const GjFillOutput *end = output + fill->noutputs;
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

/*
 * Tell whether a place is good for this tuple
 */
static inline bool
GjTupleHasPlace(HeapTupleHeader tuple, AttrNumber attno)
{
	return (tuple->t_infomask & HEAP_HASNULL) == 0 && HeapTupleHeaderGetNatts(tuple) >= attno;
}

static inline const char *
GjTupleAt(HeapTupleHeader tuple, const GjTuplePlace *place)
{
	return (const char *) tuple + tuple->t_hoff + place->offset;
}

/*
 * Tell whether the fill's places are good for this tuple
 */
static inline bool
GjFillFits(const GjFill *fill, HeapTupleHeader tuple)
{
	return fill->natts == 0 || GjTupleHasPlace(tuple, fill->natts);
}

/*
 * Put a tuple's values, for which the fill's places are good, into the slot, in which all
 * else is left as it is.  Values by reference point into the tuple.
 */
static inline void
GjFillFromTuple(const GjFill *fill, HeapTupleHeader tuple, TupleTableSlot *slot)
{
	/* Copies: the compiler must take it that writing a bool changes all else */
	const char *data = (const char *) tuple + tuple->t_hoff;
	Datum	   *values = slot->tts_values;
	bool	   *isnull = slot->tts_isnull;
	const GjFillOutput *output = fill->outputs;
	const GjFillOutput *end_int4 = output + fill->nint4;
	const GjFillOutput *end = output + fill->noutputs;

	GjReadySlot(slot);
	for (; output < end_int4; output++)
	{
		uint16		at = output->at;

		values[at] = Int32GetDatum(*(const int32 *) (data + output->place.offset));
		isnull[at] = false;
	}
	for (; output < end; output++)
	{
		uint16		at = output->at;

		values[at] = fetch_att(data + output->place.offset, output->by_value, output->width);
		isnull[at] = false;
	}
}

#endif							/* GPUJOIN_ROWS_SHAPE_H */
