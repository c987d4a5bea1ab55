/*-------------------------------------------------------------------------
 *
 * reader.h
 *	  Read the rows of a plan node as batches of columns.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_READER_H
#define GPUJOIN_READER_H

#include "nodes/execnodes.h"

#include "groups/groups.h"

typedef struct GjReaderStats
{
	uint64		batches;
	uint64		array_rows;		/* rows read as arrays */
	uint64		slot_rows;		/* rows read one by one */
} GjReaderStats;

typedef struct GjReader GjReader;

/*
 * Prepare to read a node. attnos is an integer list of the wanted columns of its result, from 1;
 * types lists the type of each (GjValueType).  Allocates in the current memory context.
 */
extern GjReader *GjReaderCreate(PlanState *node, List *attnos, List *types);

/*
 * Replace a column's values in the batches by int4 codes.  Values that the type considers equal
 * get the same code.  The node must be a join, and the column must belong to its small side.
 */
extern void GjReaderEncode(GjReader *reader, int column);
extern Datum GjReaderDecode(const GjReader *reader, int column, Datum code);

/* Forget all codes */
extern void GjReaderForgetCodes(GjReader *reader);

/*
 * Get the next rows, or NULL at the end.  They are valid until the next call, or until the node
 * is rescanned; after a rescan, call GjReaderRestart().
 */
extern const GjBatch *GjReaderNext(GjReader *reader);
extern void GjReaderRestart(GjReader *reader);
extern const GjReaderStats *GjReaderGetStats(const GjReader *reader);

#endif							/* GPUJOIN_READER_H */
