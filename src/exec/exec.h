/*-------------------------------------------------------------------------
 *
 * exec.h
 *	  GpuScan and GpuAlternative, and the parts of which GpuJoin is made, too: opening
 *	  the index, reading a tuple's key, turning TIDs into tuples, EXPLAIN.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_H
#define GPUJOIN_EXEC_H

#include "explain.h"
#include "fetch.h"
#include "fill.h"
#include "indexonly.h"
#include "keys.h"
#include "parallel.h"
#include "ready.h"
#include "route.h"
#include "table.h"

/* scan.c */
extern void GjExecScanInit(void);
extern bool GjIsScan(const PlanState *node);
extern bool GjScanLoad(PlanState *node, GjReadyRows *ready);

/* alternative.c */
extern void GjExecAlternativeInit(void);
extern bool GjIsAlternative(const PlanState *node);
extern PlanState *GjAlternativeChild(PlanState *node);

#endif							/* GPUJOIN_EXEC_H */
