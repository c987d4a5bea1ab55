/*-------------------------------------------------------------------------
 *
 * shape.h
 *	  Copying columns of index entries or heap tuples to virtual slots and arrays.
 *
 * Included by rows.h, which is the folder's public header.
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

#include "pages/pages.h"
#include "sets/sets.h"

/*
 * The place of an attribute in each tuple that has no NULLs and enough attributes.  It and the
 * attributes before it have fixed widths.
 */
typedef struct GjTuplePlace
{
	AttrNumber	attno;			/* from 1; 0 if the place varies */
	int16		width;
	bool		by_value;
	uint32		offset;			/* from the start of the tuple's data; or GJ_NO_OFFSET */
} GjTuplePlace;

/* Offset of an attribute whose place varies: it can be copied to arrays only */
#define GJ_NO_OFFSET			PG_UINT32_MAX

/* For a value that is made of words of the index: the second words, and room for the value */
typedef struct GjShapeWords
{
	const int64 *seconds;		/* second words of the current set */
	char	   *made;			/* buffer for the value of the slot's row */
} GjShapeWords;

/* The source of an attribute of the slot.  Rows step through them, so they are small. */
typedef struct GjShapeOutput
{
	uint16		at;				/* number of the attribute in the slot, from 0 */
	uint16		column;			/* entries: column of the index; 0 is the key */
	uint16		width;
	bool		by_value;
	uint8		kind;			/* entries: GjColumnKind */
	uint16		second;			/* entries: if not 0, the column with the second words of the
								 * values */
	uint8		display_scale;	/* of a numeric column: base/numeric.c */
	uint8		stored_scale;
	GjTuplePlace place;			/* tuples: place of the attribute */
	GjShapeWords *words;		/* entries: NULL if the value is the column's own */

	/* Entries: arrays of the current set, see GjShapeSetSource() */
	const char *values;
	const uint8 *nulls;			/* a byte for each entry; a null pointer if no value is NULL */
} GjShapeOutput;

/* The attributes of a virtual slot that are filled from entries or from tuples */
typedef struct GjRowShape
{
	uint64		columns;		/* entries: a bit for each column of the index that is used */
	AttrNumber	natts;			/* tuples: number of attributes that each must have */
	TupleDesc	desc;			/* tuples: the table's descriptor */
	const struct GjShapeOutput *end_int4;	/* after the leading outputs of 4 bytes by value,
											 * without NULLs */
	const struct GjShapeOutput *end_plain;	/* after these and all others that are not made */
	int			nmade;			/* number of outputs at the end whose values are made */
	bool		key_is_text;	/* entries: a key that is made is a text, not a uuid */
	int			noutputs;
	GjShapeOutput outputs[FLEXIBLE_ARRAY_MEMBER];
} GjRowShape;

/* shape.c: shapes are allocated in the current memory context */
extern GjRowShape *GjShapeOfEntries(Relation index, GjCodecKind codec, const Scan *plan,
									List *attnos);
extern GjRowShape *GjShapeOfTuples(TupleDesc desc, List *tlist, Index varno, bool to_arrays);
extern GjRowShape *GjShapeOfTarget(const GjRowShape *row, List *tlist, Index varno);
extern void GjShapeSetSource(GjRowShape *shape, const GjEntrySet *set);
extern void GjPrepareSlot(TupleTableSlot *slot);
extern void GjFillMade(const GjRowShape *shape, uint64 entry, TupleTableSlot *slot);
extern bool GjShapeLacksValue(const GjRowShape *shape, uint64 entry);
extern bool GjTupleFindPlace(TupleDesc desc, AttrNumber attno, GjTuplePlace *place);
extern bool GjReadTupleColumn(const HeapTupleData *tuples, const GjRowShape *shape,
							  const GjShapeOutput *output, int word, const uint16 *rows, int n,
							  char *values, uint8 *nulls);

/*
 * Return how an attribute is filled, counted from 0; NULL if it is not
 */
static inline const GjShapeOutput *
GjShapeFind(const GjRowShape *shape, int at)
{
	for (int i = 0; i < shape->noutputs; i++)
	{
		if (shape->outputs[i].at == at)
			return &shape->outputs[i];
	}
	return NULL;
}

/*
 * Make sure that the slot is a stored virtual tuple.  It remains one between rows, unless it has
 * been cleared or materialized.
 */
static inline void
GjReadySlot(TupleTableSlot *slot)
{
	if (unlikely(slot->tts_flags & (TTS_FLAG_EMPTY | TTS_FLAG_SHOULDFREE)))
		GjPrepareSlot(slot);
}

/*
 * Store an entry's values in the slot, but none that are made.  They are by value, so that a
 * slot that is stored once needs only new values; attributes that are not filled remain NULL.
 * Values by reference belong to the caller, and must not be copies that the slot made.
 */
static inline void
GjFillPlain(const GjRowShape *shape, uint64 entry, TupleTableSlot *slot)
{
	const GjShapeOutput *output = shape->outputs;
	const GjShapeOutput *end_int4 = shape->end_int4;
	const GjShapeOutput *end = shape->end_plain;
	Datum	   *values = slot->tts_values;
	bool	   *isnull = slot->tts_isnull;

	GjReadySlot(slot);
	for (; output < end_int4; output++)
	{
		uint16		at = output->at;	/* the compiler cannot know that it is constant */

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
 * Store an entry's values in the slot.  Those that are made belong to the shape, and are valid
 * until the next entry.
 */
static inline void
GjFillFromEntry(const GjRowShape *shape, uint64 entry, TupleTableSlot *slot)
{
	GjFillPlain(shape, entry, slot);
	if (shape->nmade > 0)
		GjFillMade(shape, entry, slot);
}

/*
 * Return true if the attribute is at its usual place in this tuple
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
 * Return true if all of the shape's attributes are at their usual places in this tuple
 */
static inline bool
GjShapeFits(const GjRowShape *shape, HeapTupleHeader tuple)
{
	return shape->natts == 0 || GjTupleHasPlace(tuple, shape->natts);
}

/*
 * Store the values of a tuple for which GjShapeFits() is true in the slot.  Other attributes of the
 * slot remain unchanged.  Values by reference point into the tuple.
 */
static inline void
GjFillFromTuple(const GjRowShape *shape, HeapTupleHeader tuple, TupleTableSlot *slot)
{
	/* copies, because for the compiler a write to a bool may change any memory */
	const char *data = (const char *) tuple + tuple->t_hoff;
	Datum	   *values = slot->tts_values;
	bool	   *isnull = slot->tts_isnull;
	const GjShapeOutput *output = shape->outputs;
	const GjShapeOutput *end_int4 = shape->end_int4;
	const GjShapeOutput *end = shape->end_plain;

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
