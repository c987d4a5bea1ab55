/*-------------------------------------------------------------------------
 *
 * readerstate.h
 *	  State of a reader: private to reader.c and readtuples.c.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_READERSTATE_H
#define GPUJOIN_READERSTATE_H

#include "access/tupmacs.h"

#include "codes.h"
#include "exec/exec.h"
#include "join/join.h"
#include "reader.h"

/* A wanted column */
typedef struct GjReaderColumn
{
	int			slot_at;		/* in the node's result slot, from 0 */
	int			at;				/* in the source's */
	uint16		width;			/* of its type, or of a code */
	GjCodes    *codes;			/* which has numbers for the values; NULL: these are taken */
	int32	   *known;			/* codes of small rows by their numbers; -1: not known yet */
	uint32		nknown;
	char	   *values;			/* room for a batch */
	uint8	   *nulls;
} GjReaderColumn;

struct GjReader
{
	PlanState  *node;
	PlanState  *source;			/* whose rows are the node's by now: it, or one below it; NULL:
								 * not known yet */
	bool		mapped;			/* all columns are the source's as they are */
	bool		appends;		/* there is an Append, so that the source changes */
	bool		ended;			/* the node has said that there are no more rows */
	int			natts;			/* of the node's slot, so many attributes are needed */
	int			ncolumns;
	GjReaderColumn *columns;
	uint32		last_number;	/* that was given to a small row */
	uint32		old_numbers;	/* up to this they are no longer good */
	uint32	   *weights;
	bool	   *has_nulls;		/* a batch of tuples has some, for each column */
	GjBatch		batch;
	GjReaderStats stats;
};

/* How a join's rows are taken */
typedef enum GjReaderMode
{
	GJ_READER_PLAIN,			/* each entry or tuple is a row */
	GJ_READER_WEIGHTS,			/* it is as many rows as it has partners */
	GJ_READER_PAIRS				/* with each partner it is a row; columns of both are wanted */
} GjReaderMode;

/* reader.c */
extern bool GjReaderLoad(GjReader *reader, PlanState *node, GjReadyRows *ready,
						 GjReaderMode *mode);
extern const GjFillOutput *GjReaderFind(const GjFill *fill, int at);
static inline void
GjReaderPut(GjReaderColumn *column, int row, Datum value, bool isnull)
{
	column->nulls[row] = isnull;
	store_att_byval(column->values + row * column->width, isnull ? (Datum) 0 : value,
					column->width);
}

/* readpartners.c */
extern bool GjReaderPutPartners(GjReader *reader, int i, int first, int column, int natts,
								GjSmallRow **partners, int n);

/* readtuples.c */
extern void GjReaderTakeTuples(GjReader *reader, PlanState *node, const GjReadyRows *first,
							   GjReaderMode mode);

#endif							/* GPUJOIN_READERSTATE_H */
