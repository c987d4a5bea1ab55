/*-------------------------------------------------------------------------
 *
 * route.c
 *	  Which keys of a set a table can have, where a table above it is partitioned by
 *	  the key: each table is searched for its own part of the keys.
 *
 * The part of a table is found from the top down.  At each level whose partitions the key
 * tells (partition.c), keys are divided among all of them at once; what is below is made from
 * one partition's share.  That of a complement is the same: of the keys that are not wanted,
 * those that no row of the table has do not matter.  Below a partition that is younger than
 * the snapshot it begins anew with all keys, since no bound above it had to hold for its rows.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "base/compat.h"
#include "partition.h"
#include "route.h"

/* A partitioned table, of which NULL is remembered, too */
typedef struct Parent
{
	Oid			relid;
	GjPartitions *partitions;
} Parent;

/* How keys are divided among the partitions of one table */
typedef struct Route
{
	GjPartitions *partitions;
	const int64 *above;			/* the keys that were divided: where they are tells which */
	GjKeySplit *split;
} Route;

struct GjKeyRoutes
{
	GjKeyRouter *router;
	MemoryContext context;
	const GjKeySet *whole;
	List	   *routes;			/* of Route */
};

/* Part of a set */
typedef struct Slice
{
	const int64 *keys;
	uint64		nkeys;
} Slice;

static Slice find_slice(GjKeyRoutes *routes, List *partitions);
static GjPartitions *open_parent(GjKeyRouter *router, Oid relid);
static GjKeySplit *get_split(GjKeyRoutes *routes, GjPartitions *partitions, Slice slice);

/*
 * Prepare dividing the keys of a set, in memory below parent
 */
GjKeyRoutes *
GjKeyRoutesCreate(GjKeyRouter *router, MemoryContext parent, const GjKeySet *whole)
{
	MemoryContext context = AllocSetContextCreate(parent, "gpujoin key routes",
												  ALLOCSET_DEFAULT_SIZES);
	GjKeyRoutes *routes = MemoryContextAllocZero(context, sizeof(GjKeyRoutes));

	routes->router = router;
	routes->context = context;
	routes->whole = whole;
	return routes;
}

/*
 * Can only other tables have the keys?  Not if there are none.
 */
bool
GjKeyRoutesAreElsewhere(GjKeyRoutes *routes, List *partitions)
{
	return routes->whole->nkeys > 0 && find_slice(routes, partitions).nkeys == 0;
}

/*
 * Get the set of those keys that a table may have: the whole, or one in the given memory
 */
const GjKeySet *
GjKeyRoutesTake(GjKeyRoutes *routes, List *partitions, MemoryContext context)
{
	const GjKeySet *whole = routes->whole;
	Slice		slice = find_slice(routes, partitions);

	if (slice.keys == whole->keys)
		return whole;
	return GjKeySetPart(context, whole, slice.keys, slice.nkeys);
}

void
GjKeyRoutesFree(GjKeyRoutes *routes)
{
	MemoryContextDelete(routes->context);
}

/*
 * Close the tables
 */
void
GjKeyRouterClose(GjKeyRouter *router)
{
	ListCell   *lc;

	foreach(lc, router->parents)
	{
		Parent	   *parent = lfirst(lc);

		if (parent->partitions != NULL)
			GjPartitionsClose(parent->partitions);
	}
	list_free_deep(router->parents);
	router->parents = NIL;
}

static Slice
find_slice(GjKeyRoutes *routes, List *partitions)
{
	const Slice whole = {routes->whole->keys, routes->whole->nkeys};
	Slice		slice = whole;

	for (int i = 0; i < list_length(partitions); i += 2)
	{
		Oid			relid = list_nth_oid(partitions, i);
		Oid			partition = list_nth_oid(partitions, i + 1);
		GjPartitions *parent;
		GjKeySplit *split;
		int			place;

		if (!GjPartitionIsOlder(partition, routes->router->estate->es_snapshot))
		{
			slice = whole;
			continue;
		}
		if (!OidIsValid(relid) || slice.nkeys == 0)
			continue;
		parent = open_parent(routes->router, relid);
		if (parent == NULL)
			continue;
		place = GjPartitionsPlace(parent, partition);
		if (place < 0)
			continue;
		split = get_split(routes, parent, slice);
		slice.keys = split->keys + split->starts[place];
		slice.nkeys = split->starts[place + 1] - split->starts[place];
	}
	return slice;
}

static GjPartitions *
open_parent(GjKeyRouter *router, Oid relid)
{
	MemoryContext old;
	Parent	   *parent;
	ListCell   *lc;

	foreach(lc, router->parents)
	{
		parent = lfirst(lc);
		if (parent->relid == relid)
			return parent->partitions;
	}

	old = MemoryContextSwitchTo(router->estate->es_query_cxt);
	parent = palloc(sizeof(Parent));
	parent->relid = relid;
	parent->partitions = GjPartitionsOpen(router->estate, relid);
	router->parents = lappend(router->parents, parent);
	MemoryContextSwitchTo(old);
	return parent->partitions;
}

static GjKeySplit *
get_split(GjKeyRoutes *routes, GjPartitions *partitions, Slice slice)
{
	MemoryContext old;
	Route	   *route;
	ListCell   *lc;

	foreach(lc, routes->routes)
	{
		route = lfirst(lc);
		if (route->partitions == partitions && route->above == slice.keys)
			return route->split;
	}

	old = MemoryContextSwitchTo(routes->context);
	route = palloc(sizeof(Route));
	route->partitions = partitions;
	route->above = slice.keys;
	route->split = GjPartitionsSplit(partitions, routes->context, slice.keys, slice.nkeys);
	routes->routes = lappend(routes->routes, route);
	MemoryContextSwitchTo(old);
	return route->split;
}
