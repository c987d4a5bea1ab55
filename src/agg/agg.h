/*-------------------------------------------------------------------------
 *
 * agg.h
 *	  GpuAgg: groups and aggregates of rows that are read as columns.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_AGG_H
#define GPUJOIN_AGG_H

#include "nodes/execnodes.h"

#include "exec/exec.h"
#include "groups/groups.h"

/* agg.c */
extern void GjExecAggInit(void);

/*-------------------------------------------------------------------------
 * The rows of a plan node as batches of columns: reader.c
 *-------------------------------------------------------------------------
 */

typedef struct GjReaderStats
{
	uint64		batches;
	uint64		array_rows;		/* rows read as arrays */
	uint64		slot_rows;		/* rows read one by one */
} GjReaderStats;

typedef struct GjReader GjReader;

/*
 * Prepare to read a node. attnos is an integer list of the wanted columns of its result, from 1;
 * types lists the type of each, with scales and part (GjValueType); groupings lists the columns,
 * from 0, that form groups.  Values that have no word are put into strays, which the groups of the
 * rows clear.  Allocates in the current memory context.
 */
extern GjReader *GjReaderCreate(PlanState *node, List *attnos, List *types, List *groupings,
								GjStrays *strays, GjReaderStats *stats);

/*
 * Replace a column's values in the batches by codes of strays, and return their kind.  Values that
 * the type considers equal get the same code, or by_image, only those that are the same.  The node
 * must be a join, and the column must belong to its small side.
 */
extern GjStrayKind GjReaderEncode(GjReader *reader, int column, bool by_image);

/*
 * Get the next rows, or NULL at the end.  They are valid until the next call, or until the node
 * is rescanned.
 */
extern const GjBatch *GjReaderNext(GjReader *reader);

/*
 * Have a device reduce the rows of a part, from 0, as far as possible, before the first is read;
 * or those of the next search of a node that has asked for that, while a batch is being read.  The
 * request's columns are those of the batches, and are replaced by those of the node that is
 * asked.  If the result is true, GjReaderNextStates() returns the groups that have been made, as
 * batches that have the columns of the groups only; NULL at the end.  GjReaderTurnTo() must be
 * called first.
 */
extern int	GjReaderParts(GjReader *reader);
extern bool GjReaderReduce(GjReader *reader, GjReduceRequest *request);
extern void GjReaderTurnTo(GjReader *reader, int part);
extern const GjBatch *GjReaderNextStates(GjReader *reader, GjReduceRequest *request);

/*
 * Forget which codes small rows have, as groups, and thus the strays, are begun again, perhaps
 * after the node has been rescanned
 */
extern void GjReaderRestart(GjReader *reader);

/* combine.c: answers for the same keys, added up */
typedef struct GjCombined
{
	GjReduceRequest *request;	/* with the first answer, which gets the sums; or NULL */
	uint32	   *places;			/* for the number of each key: where its element is */
} GjCombined;

extern bool GjCombineCan(const GjCombined *combined, const GjReduceRequest *request);
extern bool GjCombineAdd(GjCombined *combined, const GjReduceRequest *request);

/*
 * Return true if others may be added to this answer
 */
static inline bool
GjCombineMay(const GjReduceRequest *request)
{
	return request->reduction.asked.grouping == GJD_BY_KEY && !request->distinct &&
		!request->only_count;
}

/* reduced.c: groups made by a device */
typedef struct GjAggReducer GjAggReducer;

extern GjAggReducer *GjAggReducerCreate(int ncolumns, int ngroupings,
										const GjGroupSpec *groupings, int naggs,
										const GjAggSpec *aggs, double expected);
extern uint64 GjAggReduce(GjAggReducer *reducer, GjReader *reader, GjGroups *groups,
						  bool only_count);

#endif							/* GPUJOIN_AGG_H */
