/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  Batches: rows as arrays, passed between nodes that work on columns.
 *
 * The arrays belong to the producer of the batch and stay valid until it produces the next one.
 * A value is stored as the bits of a by-value Datum of the column's type, in the number of bytes
 * that the array states (1, 2, 4 or 8), suitably aligned.  An integer array may be wider than
 * the column's type; its values are sign-extended then.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BATCH_H
#define GPUJOIN_BATCH_H

/* Maximum number of rows in a batch */
#define GJ_BATCH_ROWS			1024

typedef struct GjBatchColumn
{
	const char *values;			/* nrows values, without gaps */
	const uint8 *nulls;			/* one byte per row, nonzero if the value is NULL (its bytes are
								 * zero then); a null pointer if no value is NULL */
	uint16		width;			/* bytes per value */
} GjBatchColumn;

typedef struct GjBatch
{
	int			nrows;			/* at most GJ_BATCH_ROWS */
	const uint32 *weights;		/* number of equal rows that each row stands for, at least one; a
								 * null pointer if each stands for one */
	GjBatchColumn *columns;		/* the requested columns, in the requested order */
} GjBatch;

#endif							/* GPUJOIN_BATCH_H */
