/*-------------------------------------------------------------------------
 *
 * route.c
 *	  Each table of a join's big side is searched for its own part of the keys, where
 *	  the big side is partitioned by the key: exec/partition.c says which.
 *
 * Only the keys of the partitions of the first level are looked at.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/memutils.h"

#include "base/compat.h"
#include "exec/exec.h"
#include "route.h"

struct GjKeyRoute
{
	MemoryContext context;		/* of the split */
	GjPartitions *partitions;
	int		   *scans;			/* for each table, its partition's place; -1: all keys */
	GjKeySplit *split;			/* of the current keys */
};

static int	find_place(GjPartitions *parts, List *partitions, Snapshot snapshot);

/*
 * Prepare routing for a join whose big side is the partitioned table at parent_rti;
 * partitions has, for each table that is scanned, the OIDs of the partitions from the
 * first level down to it.  NULL if the key's type is not known.
 */
GjKeyRoute *
GjKeyRouteCreate(EState *estate, Index parent_rti, List *partitions)
{
	GjPartitions *parts = GjPartitionsOpen(estate, exec_rt_fetch(parent_rti, estate)->relid);
	GjKeyRoute *route;

	if (parts == NULL)
		return NULL;

	route = palloc0(sizeof(GjKeyRoute));
	route->context = AllocSetContextCreate(estate->es_query_cxt, "gpujoin key route",
										   ALLOCSET_DEFAULT_SIZES);
	route->partitions = parts;
	route->scans = palloc_array(int, list_length(partitions));
	for (int i = 0; i < list_length(partitions); i++)
		route->scans[i] = find_place(parts, list_nth(partitions, i), estate->es_snapshot);
	return route;
}

/*
 * Bounds of the first level tell nothing if a partition is younger than the snapshot, of
 * whatever level.
 */
static int
find_place(GjPartitions *parts, List *partitions, Snapshot snapshot)
{
	ListCell   *lc;

	foreach(lc, partitions)
	{
		if (!GjPartitionIsOlder(lfirst_oid(lc), snapshot))
			return -1;
	}
	return GjPartitionsPlace(parts, linitial_oid(partitions));
}

/*
 * Find the partition of each key of a finished set
 */
void
GjKeyRouteStart(GjKeyRoute *route, const GjKeySet *keys)
{
	MemoryContextReset(route->context);
	route->split = GjPartitionsSplit(route->partitions, route->context, keys->keys,
									 keys->nkeys);
}

/*
 * Make a set of those of the current keys that a table may have, in the caller's
 * memory
 */
GjKeySet *
GjKeyRouteTake(GjKeyRoute *route, const GjKeySet *keys, int scan)
{
	const GjKeySplit *split = route->split;
	int			place = route->scans[scan];

	if (place < 0)
		return GjKeySetPart(CurrentMemoryContext, keys, keys->keys, keys->nkeys);
	return GjKeySetPart(CurrentMemoryContext, keys, split->keys + split->starts[place],
						split->starts[place + 1] - split->starts[place]);
}

void
GjKeyRouteFree(GjKeyRoute *route)
{
	GjPartitionsClose(route->partitions);
	MemoryContextDelete(route->context);
}
