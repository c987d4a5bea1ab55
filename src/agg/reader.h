/*-------------------------------------------------------------------------
 *
 * reader.h
 *	  The rows of a plan node as batches of columns.
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
	uint64		array_rows;		/* that came as arrays */
	uint64		slot_rows;		/* that came one by one */
} GjReaderStats;

typedef struct GjReader GjReader;

/*
 * Prepare to read a node.  attnos: the columns of its result that are wanted, from 1, as an
 * int list; types: how each is to be understood (GjValueType), likewise.  Allocates in the
 * current memory context.
 */
extern GjReader *GjReaderCreate(PlanState *node, List *attnos, List *types);

/*
 * Put numbers into the batches instead of a column's values, which is an int4 then: numbers of
 * what the type takes for equal.  The node is a join, and the column one of its small side.
 */
extern void GjReaderEncode(GjReader *reader, int column);
extern Datum GjReaderDecode(const GjReader *reader, int column, Datum code);

/* Forget what has which number */
extern void GjReaderForgetCodes(GjReader *reader);

/*
 * Get the next rows; NULL: there are no more.  They are good until the next call, or until the
 * node is rescanned, which GjReaderRestart() has to be told.
 */
extern const GjBatch *GjReaderNext(GjReader *reader);
extern void GjReaderRestart(GjReader *reader);
extern const GjReaderStats *GjReaderGetStats(const GjReader *reader);

#endif							/* GPUJOIN_READER_H */
