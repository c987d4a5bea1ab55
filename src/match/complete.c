/*-------------------------------------------------------------------------
 *
 * complete.c
 *	  Testing whether an index has all rows that a snapshot sees.
 *
 * On a primary it has, once the planner has listed it: a command that builds an index, or
 * stops its maintenance, waits for the transactions that this might affect, or makes the planner
 * ignore the index for their snapshots.  Such commands do not wait for sessions of a standby.
 *
 *	- A build omits rows that are dead to all snapshots of the primary.  A snapshot of a
 *	  standby that was taken before may still see such rows.  It surely does not if the
 *	  transaction that built the index had ended when the snapshot was taken: the transaction
 *	  that deleted a row that the snapshot sees had not committed then, still less when the index
 *	  was built.  The index's rows in pg_index and pg_class were written by the build or by a
 *	  later transaction: by CREATE INDEX; by the last step of CREATE INDEX CONCURRENTLY, which
 *	  marks the index valid; by REINDEX, which gives it another file.
 *	- DROP INDEX CONCURRENTLY and REINDEX CONCURRENTLY make writers skip the old index
 *	  while a standby may have a query that was planned with it, but has yet to take its
 *	  snapshot.  If the index is still being maintained once the snapshot has been taken, then
 *	  it has all rows that the snapshot sees.
 *
 * If the index may lack rows, the scan reads the whole heap.  That is rare.  (PostgreSQL's scans of
 * its own indexes miss those rows.)
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "match.h"


static bool is_seen(HeapTuple row, Snapshot snapshot);

/*
 * Return true if the index has all rows that the snapshot, which has been taken, sees
 */
bool
GjIndexIsComplete(Relation index, Snapshot snapshot)
{
	HeapTuple	row;
	bool		result;

	if (!snapshot->takenDuringRecovery)
		return true;

	AcceptInvalidationMessages();
	if (!index->rd_index->indisready || !is_seen(index->rd_indextuple, snapshot))
		return false;

	row = SearchSysCache1(RELOID, ObjectIdGetDatum(RelationGetRelid(index)));
	if (!HeapTupleIsValid(row))
		elog(ERROR, "cache lookup failed for relation %u", RelationGetRelid(index));
	result = is_seen(row, snapshot);
	ReleaseSysCache(row);
	return result;
}

/*
 * Return true if the transaction that wrote a catalog row had ended before the snapshot was taken
 */
static bool
is_seen(HeapTuple row, Snapshot snapshot)
{
	return !XidInMVCCSnapshot(HeapTupleHeaderGetXmin(row->t_data), snapshot);
}
