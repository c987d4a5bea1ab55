/*-------------------------------------------------------------------------
 *
 * snapshot.c
 *	  What a search owes to its snapshot: an index that has all rows which the snapshot sees, and
 *	  predicate locks.
 *
 * On a primary an index has all rows once the planner has listed it: a command that builds an
 * index, or stops its maintenance, waits for the transactions that this might affect, or makes the
 * planner ignore the index for their snapshots.  Such commands do not wait for sessions of a
 * standby.
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

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "storage/predicate.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "match.h"

static bool is_seen(HeapTuple row, Snapshot snapshot);
static void lock_constraints(Relation heap, Snapshot snapshot);

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

/*-------------------------------------------------------------------------
 * Predicate locks
 *
 * A serializable transaction takes predicate locks before it searches an index.
 *
 * We lock the index as a whole, like any access method without finer locks: then the insertion
 * of a row that the search did not see is a conflict, whatever its key.
 *
 * We also lock the table's unique indexes, because of the order in which a new row is inserted:
 * first into the heap, then into the indexes by OID, each of which tests for conflicts when its
 * turn comes.  Suppose that two transactions look for a key, do not find it, and insert it.  If
 * a unique index precedes ours, the second transaction would get a duplicate key error, although
 * it has checked that the key does not exist: that looks like an error of the program, but it
 * should only retry.  PostgreSQL guarantees a serialization failure to transactions that check
 * first, and it keeps this guarantee after a sequential scan (whose lock is on the heap, which
 * comes first) or a scan of the unique btree itself: a btree tests for conflicts before it
 * reports a duplicate.  A lock on the heap would give the same guarantee, but it would turn each
 * HOT update and deletion of a row that was not read into a conflict.  A lock on the unique
 * indexes adds no conflicts: a row that is inserted into them is inserted into our index, too,
 * unless that is partial.
 *
 * Exclusion constraints are checked after the insertion into their index, which tests for
 * conflicts, too.  So they are treated alike.
 *-------------------------------------------------------------------------
 */

/*
 * Take predicate locks for a search of this index, before reading it; its table is locked as by
 * the executor
 */
void
GjPredicateLock(Relation index, Snapshot snapshot)
{
	Relation	heap;

	PredicateLockRelation(index, snapshot);
	if (!IsolationIsSerializable())
		return;
	heap = table_open(index->rd_index->indrelid, NoLock);
	lock_constraints(heap, snapshot);
	table_close(heap, NoLock);
}

/*
 * Lock the unique indexes, which would report a duplicate when a row is inserted
 */
static void
lock_constraints(Relation heap, Snapshot snapshot)
{
	List	   *indexes = RelationGetIndexList(heap);
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (index->rd_index->indisunique || index->rd_index->indisexclusion)
			PredicateLockRelation(index, snapshot);
		index_close(index, NoLock);
	}
	list_free(indexes);
}
