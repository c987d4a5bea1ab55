/*-------------------------------------------------------------------------
 *
 * compute.h
 *	  Columns computed from the columns of a batch, row by row.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_COMPUTE_H
#define GPUJOIN_COMPUTE_H

#include "nodes/execnodes.h"

#include "sets/sets.h"

typedef struct GjCompute GjCompute;

/*
 * Prepare to compute a custom scan's custom_exprs, which refer to its scan tuple.  The lists are
 * described in aggplan.h.  Allocates in the current memory context.
 */
extern GjCompute *GjComputeCreate(ScanState *node, List *types, List *conditions, List *inputs);

/*
 * Return the batch with the computed columns appended.  It is valid until the next call.  May
 * raise any error that the expressions raise.
 */
extern const GjBatch *GjComputeColumns(GjCompute *compute, const GjBatch *batch);

#endif							/* GPUJOIN_COMPUTE_H */
