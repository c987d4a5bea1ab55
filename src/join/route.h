/*-------------------------------------------------------------------------
 *
 * route.h
 *	  Which tables of a join's big side a key can be in, where that is partitioned by
 *	  the key.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_JOIN_ROUTE_H
#define GPUJOIN_JOIN_ROUTE_H

#include "nodes/execnodes.h"
#include "nodes/pg_list.h"

#include "sets/sets.h"

typedef struct GjKeyRoute GjKeyRoute;

extern GjKeyRoute *GjKeyRouteCreate(EState *estate, Index parent_rti, List *partitions);
extern void GjKeyRouteStart(GjKeyRoute *route, const GjKeySet *keys);
extern GjKeySet *GjKeyRouteTake(GjKeyRoute *route, const GjKeySet *keys, int scan);
extern void GjKeyRouteFree(GjKeyRoute *route);

#endif							/* GPUJOIN_JOIN_ROUTE_H */
