/*-------------------------------------------------------------------------
 *
 * complete.c
 *	  Has an index all rows that a snapshot sees?
 *
 * On a primary it has, once the planner has listed it: whoever builds an index, or stops
 * filling it, waits for those whom that might concern, or has the planner leave the index
 * alone for their snapshots.  Nobody waits for the sessions of a standby.
 *
 *	- A build leaves out what is dead to everybody on the primary.  A snapshot of a
 *	  standby that was taken before may still see that.  It surely does not if the
 *	  transaction that built the index had ended when the snapshot was taken: who deleted a
 *	  row that the snapshot sees had not committed then, still less when the index was built.
 *	  The build, if not somebody who came later, is where the index's rows in pg_index and
 *	  pg_class come from: CREATE INDEX, the last step of CREATE INDEX CONCURRENTLY, which
 *	  says that the index is valid, REINDEX, which gives it another file.
 *	- DROP INDEX CONCURRENTLY and REINDEX CONCURRENTLY have writers pass over the old index
 *	  while a standby may have a query that was planned with it, but has yet to take its
 *	  snapshot.  If the index is still being filled once the snapshot has been taken, then
 *	  it has all that the snapshot sees.
 *
 * Where it may not have all rows, all of the heap is looked at.  That is seldom.  (With its
 * own indexes PostgreSQL misses those rows.)
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
 * Has the index all rows that the snapshot, which has been taken, sees?
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
 * Had the transaction that wrote a catalog's row ended before the snapshot was taken?
 */
static bool
is_seen(HeapTuple row, Snapshot snapshot)
{
	return !XidInMVCCSnapshot(HeapTupleHeaderGetXmin(row->t_data), snapshot);
}
