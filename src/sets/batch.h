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
	bool		is_last;		/* true only if no batch follows */
} GjBatch;

/*
 * Run LOOP(type) with the integer type that is this many bytes wide.  Each width gets a loop of its
 * own, which the compiler can vectorize.
 */
#define GJ_BY_WIDTH(width, LOOP)	GJ_BY_WIDTH_OF(width, LOOP, uint8, uint16, uint32, uint64)
#define GJ_BY_SIGNED_WIDTH(width, LOOP) GJ_BY_WIDTH_OF(width, LOOP, int8, int16, int32, int64)
#define GJ_BY_WIDTH_OF(width, LOOP, one, two, four, eight) \
	do { \
		switch (width) \
		{ \
			case sizeof(one): \
				LOOP(one); \
				break; \
			case sizeof(two): \
				LOOP(two); \
				break; \
			case sizeof(four): \
				LOOP(four); \
				break; \
			default: \
				LOOP(eight); \
				break; \
		} \
	} while (0)

/*
 * Gather n values of 1, 2, 4 or 8 bytes by their positions.  If the positions ascend, the values
 * may be gathered in place.
 */
static inline void
GjGather(void *to, const void *from, uint16 width, const uint16 *rows, int n)
{
#define GJ_GATHER(type) \
	for (int i = 0; i < n; i++) \
		((type *) to)[i] = ((const type *) from)[rows[i]]

	GJ_BY_WIDTH(width, GJ_GATHER);
#undef GJ_GATHER
}

#endif							/* GPUJOIN_BATCH_H */
