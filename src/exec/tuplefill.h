/*-------------------------------------------------------------------------
 *
 * tuplefill.h
 *	  Values straight from heap tuples, past slots.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_TUPLEFILL_H
#define GPUJOIN_EXEC_TUPLEFILL_H

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "access/tupmacs.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"

#include "entryfill.h"

/*
 * Where an attribute of fixed width lies in each tuple that has no NULLs and enough
 * attributes: those before it are of fixed width, too
 */
typedef struct GjTuplePlace
{
	AttrNumber	attno;			/* a tuple must have so many; 0: no place is known */
	int16		width;
	bool		by_value;
	uint32		offset;			/* from the beginning of the tuple's data */
} GjTuplePlace;

/* Attributes of a virtual slot that tuples fill */
typedef struct GjTupleOutput
{
	AttrNumber	attno;			/* in the slot */
	GjTuplePlace place;
} GjTupleOutput;

typedef struct GjTupleFill
{
	AttrNumber	natts;			/* a tuple must have so many */
	int			nint4;			/* the first so many outputs have 4 bytes, by value */
	int			noutputs;
	GjTupleOutput outputs[FLEXIBLE_ARRAY_MEMBER];
} GjTupleFill;

/* tuplefill.c: fills are allocated in the current memory context */
extern bool GjTupleFindPlace(TupleDesc desc, AttrNumber attno, GjTuplePlace *place);
extern GjTupleFill *GjTupleFillRow(TupleDesc desc, List *tlist, Index varno);
extern GjTupleFill *GjTupleFillScan(const ScanState *scan);
extern GjTupleFill *GjTupleFillTarget(const GjTupleFill *row, List *tlist, Index varno);

/*
 * Is the place good for this tuple?
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
 * Are the fill's places good for this tuple?
 */
static inline bool
GjTupleFillFits(const GjTupleFill *fill, HeapTupleHeader tuple)
{
	return fill->natts == 0 || GjTupleHasPlace(tuple, fill->natts);
}

/*
 * Put a tuple's values, for which the fill's places are good, into the slot, in which all
 * else is left as it is.  Values by reference point into the tuple.
 */
static inline void
GjTupleFillSlot(const GjTupleFill *fill, HeapTupleHeader tuple, TupleTableSlot *slot)
{
	/* Copies: the compiler must take it that writing a bool changes all else */
	const char *data = (const char *) tuple + tuple->t_hoff;
	Datum	   *values = slot->tts_values;
	bool	   *isnull = slot->tts_isnull;
	const GjTupleOutput *output = fill->outputs;
	const GjTupleOutput *end_int4 = output + fill->nint4;
	const GjTupleOutput *end = output + fill->noutputs;

	GjReadySlot(slot);
	for (; output < end_int4; output++)
	{
		int			at = output->attno - 1;

		values[at] = Int32GetDatum(*(const int32 *) (data + output->place.offset));
		isnull[at] = false;
	}
	for (; output < end; output++)
	{
		int			at = output->attno - 1;

		values[at] = fetch_att(data + output->place.offset, output->place.by_value,
							   output->place.width);
		isnull[at] = false;
	}
}

#endif							/* GPUJOIN_EXEC_TUPLEFILL_H */
