/*-------------------------------------------------------------------------
 *
 * ready.h
 *	  Rows of a scan or a join that are ready, for who takes them as arrays.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_READY_H
#define GPUJOIN_EXEC_READY_H

#include "access/tupdesc.h"

#include "rows/rows.h"

/*
 * Result rows of which nothing has to be computed: the entries of a chunk, or the tuples of a
 * heap block, from its next one on.  Who takes rows moves next.
 */
typedef struct GjReadyRows
{
	const GjFill *fill;			/* what of an entry or a tuple is which column of the result */
	GjIndexOnlyChunk *chunk;	/* NULL: the rows are tuples */
	GjFetchBlock *block;		/* good until the next rows are asked for */
	TupleDesc	desc;			/* of the tuples */
} GjReadyRows;

#endif							/* GPUJOIN_EXEC_READY_H */
