/*-------------------------------------------------------------------------
 *
 * execjoinroute.c
 *	  Which partition a key belongs to, so that a join searches each table for its
 *	  own part of the keys, and those that get none not at all.
 *
 * The planner asks for this where the indexed column is the only partition key of the
 * big side.  A key is turned back into the column's value, which is possible for
 * all types that are integers inside, and goes the way that a row with this value
 * goes when it is inserted.  So a row with this key can be in no other partition,
 * whatever operator classes the partition key has.
 *
 * Partitions are compared by OID with those of the plan: the executor may see one that
 * is being detached, or that was attached after planning.  A key of a partition that
 * the plan has not (it was pruned) is not searched for; a table whose partition is not
 * found is searched for all keys.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"

#include "execjoinroute.h"

/* Keys between two looks at interrupts */
#define INTERRUPT_INTERVAL		65536

struct GjKeyRoute
{
	MemoryContext context;
	Relation	parent;
	PartitionKey partkey;
	PartitionDirectory directory;
	PartitionDesc partdesc;
	int		   *scans;			/* for each table, its place in partdesc; -1: all keys */
	int		   *places;			/* for each of the current keys, the same; -1: none */
};

static bool is_known_type(Oid type);
static int	find_place(PartitionDesc partdesc, Oid partition);
static int	find_partition(GjKeyRoute *route, int64 key);
static bool key_to_value(Oid type, int64 key, Datum *value);

/*
 * Prepare routing for a join whose big side is the partitioned table at parent_rti;
 * partitions has, for each table that is scanned, the OID of the partition of the
 * first level that it is or belongs to.  NULL if the key's type is not known here.
 */
GjKeyRoute *
GjKeyRouteCreate(EState *estate, Index parent_rti, List *partitions)
{
	RangeTblEntry *rte = exec_rt_fetch(parent_rti, estate);
	Relation	parent = table_open(rte->relid, rte->rellockmode);
	PartitionKey partkey = RelationGetPartitionKey(parent);
	GjKeyRoute *route;

	if (partkey == NULL || partkey->partnatts != 1 || !is_known_type(partkey->parttypid[0]))
	{
		table_close(parent, NoLock);
		return NULL;
	}

	route = palloc0(sizeof(GjKeyRoute));
	route->context = AllocSetContextCreate(estate->es_query_cxt, "gpujoin key route",
										   ALLOCSET_DEFAULT_SIZES);
	route->parent = parent;
	route->partkey = partkey;

	/*
	 * With partitions that are being detached, as core reads them.  The executor's own
	 * directory is not used: who makes it decides that for all, and what is inserted
	 * must not go there.
	 */
	route->directory = CreatePartitionDirectory(estate->es_query_cxt, false);
	route->partdesc = PartitionDirectoryLookup(route->directory, parent);
	route->scans = palloc_array(int, list_length(partitions));
	for (int i = 0; i < list_length(partitions); i++)
		route->scans[i] = find_place(route->partdesc, list_nth_oid(partitions, i));
	return route;
}

static bool
is_known_type(Oid type)
{
	Datum		value;

	return key_to_value(type, 0, &value);
}

static int
find_place(PartitionDesc partdesc, Oid partition)
{
	for (int i = 0; i < partdesc->nparts; i++)
	{
		if (partdesc->oids[i] == partition)
			return i;
	}
	return -1;
}

/*
 * Find the partition of each key of a finished set
 */
void
GjKeyRouteStart(GjKeyRoute *route, const GjKeySet *keys)
{
	MemoryContextReset(route->context);
	route->places = MemoryContextAllocHuge(route->context, Max(keys->nkeys, 1) * sizeof(int));
	for (uint64 i = 0; i < keys->nkeys; i++)
	{
		if (i % INTERRUPT_INTERVAL == 0)
			CHECK_FOR_INTERRUPTS();
		route->places[i] = find_partition(route, keys->keys[i]);
	}
}

static int
find_partition(GjKeyRoute *route, int64 key)
{
	PartitionKey partkey = route->partkey;
	PartitionBoundInfo bounds = route->partdesc->boundinfo;
	Datum		values[1];
	bool		isnull[1] = {false};
	bool		equal = false;
	int			place = -1;
	int			offset;

	/* No row has a value that the column cannot hold; no partition, no row */
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
			/* the bound found is the partition's lower one; the next one has its place */
			offset = partition_range_datum_bsearch(partkey->partsupfunc, partkey->partcollation,
												   bounds, 1, values, &equal);
			place = bounds->indexes[offset + 1];
			break;
	}
	return place >= 0 ? place : bounds->default_index;
}

/*
 * The value of a partition column that has this key; false if it cannot have it
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

/*
 * Make a set of those of the current keys that a table may have, in the caller's
 * memory
 */
GjKeySet *
GjKeyRouteTake(GjKeyRoute *route, const GjKeySet *keys, int scan)
{
	GjKeySet   *own = GjKeySetCreate(CurrentMemoryContext, keys->key_width);

	for (uint64 i = 0; i < keys->nkeys; i++)
	{
		if (route->scans[scan] < 0 || route->places[i] == route->scans[scan])
			GjKeySetAdd(own, keys->keys[i]);
	}
	GjKeySetFinish(own);
	return own;
}

void
GjKeyRouteFree(GjKeyRoute *route)
{
	DestroyPartitionDirectory(route->directory);
	table_close(route->parent, NoLock);
	MemoryContextDelete(route->context);
}
