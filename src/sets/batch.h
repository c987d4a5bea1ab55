/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  Rows as arrays: what passes between nodes that work on columns.
 *
 * The arrays belong to whoever made the batch and are good until it makes the next one.
 * A value is the bits of a by-value Datum of the column's type, in as many bytes as the
 * array says: 1, 2, 4 or 8.  An integer may come in an array that is wider than its type;
 * then it is sign-extended.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BATCH_H
#define GPUJOIN_BATCH_H

/* Most rows of a batch */
#define GJ_BATCH_ROWS			1024

typedef struct GjBatchColumn
{
	const char *values;			/* nrows values, one behind the other */
	const uint8 *nulls;			/* a byte a row: is it NULL?  NULL: no row's is; the bytes of a
								 * NULL's value are zero */
	uint16		width;			/* bytes a value */
} GjBatchColumn;

typedef struct GjBatch
{
	int			nrows;			/* at most GJ_BATCH_ROWS */
	const uint32 *weights;		/* how many equal rows each stands for; NULL: one */
	GjBatchColumn *columns;		/* those that were asked for, in that order */
} GjBatch;

#endif							/* GPUJOIN_BATCH_H */
