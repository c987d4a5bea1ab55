/*-------------------------------------------------------------------------
 *
 * route.h
 *	  Which keys of a set a table can have, where a table above it is partitioned by
 *	  the key.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_ROUTE_H
#define GPUJOIN_EXEC_ROUTE_H

#include "nodes/execnodes.h"

#include "sets/sets.h"

/* The partitioned tables that were opened for an execution; begins with the estate alone */
typedef struct GjKeyRouter
{
	EState	   *estate;
	List	   *parents;
} GjKeyRouter;

/* How the keys of one finished set are divided */
typedef struct GjKeyRoutes GjKeyRoutes;

/*
 * partitions is the way from the top down to a table, as a plan has it: for each partitioned
 * table its OID, invalid if the key does not tell the partition, and the OID of the partition.
 */
extern GjKeyRoutes *GjKeyRoutesCreate(GjKeyRouter *router, MemoryContext parent,
									  const GjKeySet *whole);
extern bool GjKeyRoutesAreElsewhere(GjKeyRoutes *routes, List *partitions);
extern const GjKeySet *GjKeyRoutesTake(GjKeyRoutes *routes, List *partitions,
									   MemoryContext context);
extern void GjKeyRoutesFree(GjKeyRoutes *routes);
extern void GjKeyRouterClose(GjKeyRouter *router);

#endif							/* GPUJOIN_EXEC_ROUTE_H */
