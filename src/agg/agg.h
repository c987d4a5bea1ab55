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

#include "groups/groups.h"

/* agg.c */
extern void GjExecAggInit(void);
extern bool GjIsAgg(const PlanState *node);
extern GjGroups *GjAggLoad(PlanState *node);
extern int	GjAggColumn(const PlanState *node, int at);

#endif							/* GPUJOIN_AGG_H */
