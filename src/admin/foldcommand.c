/*-------------------------------------------------------------------------
 *
 * foldcommand.c
 *	  gpujoin_fold(): fold an index without waiting for VACUUM.
 *
 * For the table's owner.  The lock is that of VACUUM, which keeps others from vacuuming, so who
 * may not fold must not get as far as to wait for it.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/rel.h"

#include "am/am.h"
#include "base/compat.h"
#include "base/gpujoin.h"

PG_FUNCTION_INFO_V1(gpujoin_fold);

static uint64 fold_index(Oid index_oid, bool complete);

/*
 * gpujoin_fold(regclass, complete): fold an index, or those of all partitions; returns how many
 * pages were written
 */
Datum
gpujoin_fold(PG_FUNCTION_ARGS)
{
	uint64		pages = 0;
	ListCell   *lc;

	foreach(lc, GjListManagedIndexes(PG_GETARG_OID(0)))
		pages += fold_index(lfirst_oid(lc), PG_GETARG_BOOL(1));
	PG_RETURN_INT64((int64) pages);
}

static uint64
fold_index(Oid index_oid, bool complete)
{
	Oid			heap_oid = GjTableOfOwnIndex(index_oid);
	Relation	heap;
	Relation	index;
	GjFoldStats stats;

	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("recovery is in progress"),
				 errhint("An index can only be folded on the primary server.")));

	/* while the lock is waited for, the index may be dropped, by REINDEX CONCURRENTLY for one */
	heap = table_open(heap_oid, ShareUpdateExclusiveLock);
	if (IndexGetRelation(index_oid, true) != heap_oid)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the index to be folded has been dropped")));
	index = GjOpenManagedIndex(index_oid);
	LockRelationOid(index_oid, RowExclusiveLock);

	GjFoldIndex(index, complete ? GJ_FOLD_ALL : GJ_FOLD_DELTA, NULL, &stats);
	relation_close(index, NoLock);
	table_close(heap, NoLock);
	return stats.pages;
}
