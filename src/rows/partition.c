/*-------------------------------------------------------------------------
 *
 * partition.c
 *	  Division of keys among partitions, so that each table is searched only for its own keys.
 *
 * The planner requests this if the indexed column is the only partition key of a table.  A key is
 * converted back to the column's value, which is possible for all types that are integers
 * internally, and is routed as a row with this value is when it is inserted.  So a row with this
 * key can be in no other partition, whatever operator classes the partition key has.
 *
 * In addition, the following must hold:
 *
 *	- Bounds do not change during a query.  It has a lock on the parent and on each table that it
 *	  scans.  A partition is attached to the parent under a weaker lock, but then it is not one of
 *	  the scanned tables; and the default partition, which loses keys to it, is locked exclusively
 *	  for that.  A partition that is being detached concurrently is still among those that are read
 *	  here, until the last query that may scan it has finished.
 *	- Rows that an old snapshot sees may be in a table from before it became a partition, or from
 *	  before other partitions took keys from the default partition; the deletion of such rows, which
 *	  made that possible, is invisible to the snapshot.  So all keys are assigned to a partition
 *	  whose row of pg_class, which has its bounds, is newer than the snapshot, and to a default
 *	  partition of the same parent.  The bounds of the partitions above it did not apply to its rows
 *	  either; the callers take this into account at every level, however that is partitioned.
 *
 * Partitions are identified with those of the plan by OID.  A key is not searched for if the plan
 * does not have its partition, because it was pruned; a table whose partition is not found is
 * searched for all keys.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "keys.h"

/* Number of keys between two checks for interrupts */
#define INTERRUPT_INTERVAL		65536

/* Result instead of a bound, if the column cannot have the value */
#define IMPOSSIBLE				(-2)

/* A partitioned table */
typedef struct GjPartitions
{
	Oid			relid;
	Relation	parent;			/* NULL if its partition key cannot be used here */
	PartitionKey key;
	PartitionDirectory directory;
	PartitionDesc desc;
	Snapshot	snapshot;
	int			last;			/* place of the partition that was found last */
	bool		in_order;		/* true if the bounds are in the order of the keys */
	bool		default_checked;
	bool		default_settled;
} GjPartitions;

/* The division of keys among the partitions of one table */
typedef struct Route
{
	GjPartitions *partitions;
	const int64 *above;			/* the keys that were divided, identified by their address */
	int64	   *keys;			/* those of each partition, in ascending order */
	uint64	   *starts;			/* where these begin, by the partition's place, and the end */
} Route;

struct GjKeyRoutes
{
	GjKeyRouter *router;
	MemoryContext context;		/* NULL until the set is divided */
	const GjKeySet *whole;
	List	   *routes;			/* of Route */
};

/* Part of a set */
typedef struct Slice
{
	const int64 *keys;
	uint64		nkeys;
} Slice;

static bool is_known_type(Oid type);
static bool keeps_order(const FmgrInfo *compare);
static bool is_settled(GjPartitions *partitions, int place);
static bool all_settled(GjPartitions *partitions);
static int	find_place(const GjPartitions *partitions, int64 key);
static int	partition_find_range(const GjPartitions *partitions, int64 key);
static uint64 find_end_of_range(const GjPartitions *partitions, const int64 *keys, uint64 nkeys,
								uint64 first);
static void locate(GjPartitions *partitions, const int64 *keys, uint64 nkeys, int *places);
static void locate_by_range(GjPartitions *partitions, const int64 *keys, uint64 nkeys,
							int *places);
static bool key_to_value(Oid type, int64 key, Datum *value);
static Slice find_slice(GjKeyRoutes *routes, List *partitions);
static GjPartitions *open_parent(GjKeyRouter *router, Oid relid);
static const Route *get_route(GjKeyRoutes *routes, GjPartitions *partitions, Slice slice);
static void partitions_open(GjPartitions *partitions, EState *estate);
static int	partitions_place(GjPartitions *partitions, Oid partition);
static bool partition_is_older(Oid partition, Snapshot snapshot);
static void route_split(Route *route, Slice slice);
static void partitions_close(GjPartitions *partitions);

/*
 * Open a partitioned table, which must be in the query's range table
 */
static void
partitions_open(GjPartitions *partitions, EState *estate)
{
	Relation	parent = table_open(partitions->relid, AccessShareLock);
	PartitionKey key = RelationGetPartitionKey(parent);

	if (key == NULL || key->partnatts != 1 || !is_known_type(key->parttypid[0]))
	{
		table_close(parent, NoLock);
		return;
	}

	partitions->parent = parent;
	partitions->key = key;
	partitions->snapshot = estate->es_snapshot;
	partitions->in_order = key->strategy == PARTITION_STRATEGY_RANGE &&
		keeps_order(&key->partsupfunc[0]);

	/*
	 * Include partitions that are being detached, as core does.  The executor's own directory is
	 * not used: its first user decides that for all others, and rows must not be inserted into
	 * such partitions.
	 */
	partitions->directory = CreatePartitionDirectory(estate->es_query_cxt, false);
	partitions->desc = PartitionDirectoryLookup(partitions->directory, parent);
}

static bool
is_known_type(Oid type)
{
	Datum		value;

	return key_to_value(type, 0, &value);
}

/*
 * Return true if the partition key's comparison has the same order as the keys.  That of another
 * operator class may not.
 */
static bool
keeps_order(const FmgrInfo *compare)
{
	switch (compare->fn_oid)
	{
		case F_BTINT2CMP:
		case F_BTINT4CMP:
		case F_BTINT8CMP:
		case F_DATE_CMP:
		case F_TIMESTAMP_CMP:
		case F_TIMESTAMPTZ_CMP:
			return true;
	}
	return false;
}

/*
 * Return the place of a partition in the descriptor, or -1 if it is not found, or if it may have
 * rows of other keys that are visible to the snapshot.  A plan has most partitions in the order of
 * the descriptor, so look after the last one first.
 */
static int
partitions_place(GjPartitions *partitions, Oid partition)
{
	PartitionDesc desc = partitions->desc;

	for (int i = 0; i < desc->nparts; i++)
	{
		if (desc->oids[partitions->last] == partition)
			return is_settled(partitions, partitions->last) ? partitions->last : -1;
		partitions->last = (partitions->last + 1) % desc->nparts;
	}
	return -1;
}

/*
 * Return true if the partition could have the same keys when the snapshot was taken
 */
static bool
is_settled(GjPartitions *partitions, int place)
{
	PartitionDesc desc = partitions->desc;

	if (place != desc->boundinfo->default_index)
		return partition_is_older(desc->oids[place], partitions->snapshot);

	if (!partitions->default_checked)
		partitions->default_settled = all_settled(partitions);
	partitions->default_checked = true;
	return partitions->default_settled;
}

static bool
all_settled(GjPartitions *partitions)
{
	for (int i = 0; i < partitions->desc->nparts; i++)
	{
		if (!partition_is_older(partitions->desc->oids[i], partitions->snapshot))
			return false;
	}
	return true;
}

/*
 * Return true if the partition had its bounds, and they applied to its rows, when the snapshot was
 * taken.  Changes by this transaction itself are considered newer, because a snapshot does not tell
 * when they were made.
 */
static bool
partition_is_older(Oid partition, Snapshot snapshot)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(partition));
	TransactionId xmin;

	if (!HeapTupleIsValid(tuple))
		return false;
	xmin = HeapTupleHeaderGetXmin(tuple->t_data);
	ReleaseSysCache(tuple);
	return !TransactionIdIsCurrentTransactionId(xmin) && !XidInMVCCSnapshot(xmin, snapshot);
}

/*
 * Divide ascending keys among the partitions.  Keys that no partition can have are left out.
 */
static void
route_split(Route *route, Slice slice)
{
	int			nparts = route->partitions->desc->nparts;
	int		   *places = palloc_extended(Max(slice.nkeys, 1) * sizeof(int), MCXT_ALLOC_HUGE);
	uint64	   *next;

	route->keys = palloc_extended(Max(slice.nkeys, 1) * sizeof(int64), MCXT_ALLOC_HUGE);
	route->starts = palloc0((nparts + 2) * sizeof(uint64));
	locate(route->partitions, slice.keys, slice.nkeys, places);

	/* starts[i + 2] first counts the keys of partition i; later starts[i + 1] is its next key */
	next = route->starts + 1;
	for (uint64 i = 0; i < slice.nkeys; i++)
	{
		if (places[i] >= 0)
			next[places[i] + 1]++;
	}
	for (int i = 1; i <= nparts; i++)
		next[i] += next[i - 1];
	for (uint64 i = 0; i < slice.nkeys; i++)
	{
		if (places[i] >= 0)
			route->keys[next[places[i]]++] = slice.keys[i];
	}
	pfree(places);
}

/*
 * Find the partition of each key, or -1 if no partition can have it
 */
static void
locate(GjPartitions *partitions, const int64 *keys, uint64 nkeys, int *places)
{
	if (partitions->in_order && partitions->desc->boundinfo != NULL)
	{
		locate_by_range(partitions, keys, nkeys, places);
		return;
	}
	for (uint64 i = 0; i < nkeys; i++)
	{
		if (i % INTERRUPT_INTERVAL == 0)
			CHECK_FOR_INTERRUPTS();
		places[i] = find_place(partitions, keys[i]);
	}
}

/*
 * Do the same for ranges, whose keys are adjacent
 */
static void
locate_by_range(GjPartitions *partitions, const int64 *keys, uint64 nkeys, int *places)
{
	uint64		next = 0;

	while (next < nkeys)
	{
		int			place = find_place(partitions, keys[next]);
		uint64		end = find_end_of_range(partitions, keys, nkeys, next);

		CHECK_FOR_INTERRUPTS();
		while (next < end)
			places[next++] = place;
	}
}

/*
 * Return the first key that is not in the same range as the given one.  It is searched for in
 * growing steps, then by bisection.
 */
static uint64
find_end_of_range(const GjPartitions *partitions, const int64 *keys, uint64 nkeys, uint64 first)
{
	int			range = partition_find_range(partitions, keys[first]);
	uint64		low = first;	/* a key in the range */
	uint64		high;			/* a key after it, or the end */
	uint64		step = 1;

	if (range == IMPOSSIBLE)
		return first + 1;

	while (step < nkeys - low && partition_find_range(partitions, keys[low + step]) == range)
	{
		low += step;
		step *= 2;
	}
	high = step < nkeys - low ? low + step : nkeys;
	while (high - low > 1)
	{
		uint64		middle = low + (high - low) / 2;

		if (partition_find_range(partitions, keys[middle]) == range)
			low = middle;
		else
			high = middle;
	}
	return high;
}

static int
find_place(const GjPartitions *partitions, int64 key)
{
	PartitionKey partkey = partitions->key;
	PartitionBoundInfo bounds = partitions->desc->boundinfo;
	Datum		values[1];
	bool		isnull[1] = {false};
	bool		equal = false;
	int			place = -1;
	int			offset;

	/* there is no row if the column cannot have the value, or if the table has no partition */
	if (bounds == NULL || !key_to_value(partkey->parttypid[0], key, &values[0]))
		return -1;

	switch (partkey->strategy)
	{
		case PARTITION_STRATEGY_HASH:
			place = bounds->indexes[compute_partition_hash_value(1, partkey->partsupfunc,
																 partkey->partcollation,
																 values, isnull) %
									bounds->nindexes];
			break;
		case PARTITION_STRATEGY_LIST:
			offset = partition_list_bsearch(partkey->partsupfunc, partkey->partcollation, bounds,
											values[0], &equal);
			if (offset >= 0 && equal)
				place = bounds->indexes[offset];
			break;
		case PARTITION_STRATEGY_RANGE:
			/* this is the partition's lower bound; the next bound has its number */
			place = bounds->indexes[partition_find_range(partitions, key) + 1];
			break;
	}
	return place >= 0 ? place : bounds->default_index;
}

/*
 * Return the last bound that is not above the key, or -1 if all are
 */
static int
partition_find_range(const GjPartitions *partitions, int64 key)
{
	PartitionKey partkey = partitions->key;
	Datum		values[1];
	bool		equal;

	if (!key_to_value(partkey->parttypid[0], key, &values[0]))
		return IMPOSSIBLE;
	return partition_range_datum_bsearch(partkey->partsupfunc, partkey->partcollation,
										 partitions->desc->boundinfo, 1, values, &equal);
}

/*
 * Get the value of a partition column that has this key.  Returns false if the column cannot have
 * it.
 */
static bool
key_to_value(Oid type, int64 key, Datum *value)
{
	switch (type)
	{
		case INT2OID:
			*value = Int16GetDatum((int16) key);
			return key == (int16) key;
		case INT4OID:
		case DATEOID:
			*value = Int32GetDatum((int32) key);
			return key == (int32) key;
		case OIDOID:
			*value = ObjectIdGetDatum((Oid) (int32) key);
			return key == (int32) key;
		case INT8OID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			*value = Int64GetDatum(key);
			return true;
	}
	return false;
}

static void
partitions_close(GjPartitions *partitions)
{
	DestroyPartitionDirectory(partitions->directory);
	table_close(partitions->parent, NoLock);
}

/*-------------------------------------------------------------------------
 * Routes
 *
 * Find the keys of a set that a table can have, if a table above it is partitioned by the key.
 * Each table is searched for its own part of the keys.
 *
 * The part of a table is found from the top down.  At each level whose partitions are determined by
 * the key, keys are divided among all of them at once, and the next level divides the part of one
 * partition.  Intervals are not divided.  Below a partition that is newer than the snapshot, the
 * division starts over with all keys, because no bound above it applied to its rows.
 *-------------------------------------------------------------------------
 */

/*
 * Prepare to divide the keys of a set, in memory below parent
 */
GjKeyRoutes *
GjKeyRoutesCreate(GjKeyRouter *router, MemoryContext parent, const GjKeySet *whole)
{
	GjKeyRoutes *routes = MemoryContextAllocZero(parent, sizeof(GjKeyRoutes));

	routes->router = router;
	routes->whole = whole;
	return routes;
}

/*
 * Return true if the set has been divided
 */
bool
GjKeyRoutesAreUsed(const GjKeyRoutes *routes)
{
	return routes->context != NULL;
}

/*
 * Return true if there are keys, and only other tables can have them
 */
bool
GjKeyRoutesAreElsewhere(GjKeyRoutes *routes, List *partitions)
{
	return GjKeySetCount(routes->whole) > 0 && find_slice(routes, partitions).nkeys == 0;
}

/*
 * Return the set of the keys that a table can have: the whole set, or one in the given memory
 */
const GjKeySet *
GjKeyRoutesTake(GjKeyRoutes *routes, List *partitions, MemoryContext context)
{
	const GjKeySet *whole = routes->whole;
	Slice		slice = find_slice(routes, partitions);

	if (slice.keys == GjKeySetKeys(whole))
		return whole;
	return GjKeySetPart(context, whole, slice.keys, slice.nkeys);
}

void
GjKeyRoutesFree(GjKeyRoutes *routes)
{
	if (routes->context != NULL)
		MemoryContextDelete(routes->context);
	pfree(routes);
}

/*
 * Close the partitioned tables
 */
void
GjKeyRouterClose(GjKeyRouter *router)
{
	ListCell   *lc;

	foreach(lc, router->parents)
	{
		if (((GjPartitions *) lfirst(lc))->parent != NULL)
			partitions_close(lfirst(lc));
	}
	list_free_deep(router->parents);
	router->parents = NIL;
}

static Slice
find_slice(GjKeyRoutes *routes, List *partitions)
{
	const Slice whole = {GjKeySetKeys(routes->whole), GjKeySetCount(routes->whole)};
	Slice		slice = whole;

	for (int i = 0; i < list_length(partitions); i += 2)
	{
		Oid			relid = list_nth_oid(partitions, i);
		Oid			partition = list_nth_oid(partitions, i + 1);
		GjPartitions *parent;
		const Route *route;
		int			place;

		if (!partition_is_older(partition, routes->router->estate->es_snapshot))
		{
			slice = whole;
			continue;
		}
		if (!OidIsValid(relid) || slice.nkeys == 0)
			continue;
		parent = open_parent(routes->router, relid);
		place = parent->parent != NULL ? partitions_place(parent, partition) : -1;
		if (place < 0)
			continue;
		route = get_route(routes, parent, slice);
		slice.keys = route->keys + route->starts[place];
		slice.nkeys = route->starts[place + 1] - route->starts[place];
	}
	return slice;
}

static GjPartitions *
open_parent(GjKeyRouter *router, Oid relid)
{
	MemoryContext old;
	GjPartitions *parent;
	ListCell   *lc;

	foreach(lc, router->parents)
	{
		parent = lfirst(lc);
		if (parent->relid == relid)
			return parent;
	}

	old = MemoryContextSwitchTo(router->estate->es_query_cxt);
	parent = palloc0(sizeof(GjPartitions));
	parent->relid = relid;
	partitions_open(parent, router->estate);
	router->parents = lappend(router->parents, parent);
	MemoryContextSwitchTo(old);
	return parent;
}

static const Route *
get_route(GjKeyRoutes *routes, GjPartitions *partitions, Slice slice)
{
	MemoryContext old;
	Route	   *route;
	ListCell   *lc;

	foreach(lc, routes->routes)
	{
		route = lfirst(lc);
		if (route->partitions == partitions && route->above == slice.keys)
			return route;
	}

	if (routes->context == NULL)
		routes->context = AllocSetContextCreate(GetMemoryChunkContext(routes),
												"gpujoin key routes", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(routes->context);
	route = palloc(sizeof(Route));
	route->partitions = partitions;
	route->above = slice.keys;
	route_split(route, slice);
	routes->routes = lappend(routes->routes, route);
	MemoryContextSwitchTo(old);
	return route;
}
