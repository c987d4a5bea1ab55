/*-------------------------------------------------------------------------
 *
 * smallsort.h
 *	  Rows of a small side in the order of their keys, on disk if need be.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_SMALLSORT_H
#define GPUJOIN_EXEC_SMALLSORT_H

#include "access/tupdesc.h"
#include "nodes/memnodes.h"

typedef struct GjSmallSort GjSmallSort;

/* The row that was read last; good until the next call for this sort */
typedef struct GjSortedRow
{
	const Datum *values;
	const bool *isnull;
	bool		key_is_null;	/* such rows come last */
	int64		key;
} GjSortedRow;

#endif							/* GPUJOIN_EXEC_SMALLSORT_H */
