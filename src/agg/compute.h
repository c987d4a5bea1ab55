/*-------------------------------------------------------------------------
 *
 * compute.h
 *	  Columns that are computed from a batch's columns, row by row.
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
 * Prepare to compute a custom scan's custom_exprs, which are over its scan tuple.  The lists
 * are those of aggplan.h.  Allocates in the current memory context.
 */
extern GjCompute *GjComputeCreate(ScanState *node, List *types, List *conditions, List *inputs);

/*
 * The batch with the computed columns behind its own; good until the next call.  May raise an
 * error, as any expression.
 */
extern const GjBatch *GjComputeColumns(GjCompute *compute, const GjBatch *batch);

#endif							/* GPUJOIN_COMPUTE_H */
