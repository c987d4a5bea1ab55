/*-------------------------------------------------------------------------
 *
 * predicate.c
 *	  Predicate locks that a serializable transaction takes before it searches a gpujoin index.
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
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "storage/predicate.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "pages.h"

static void lock_constraints(Relation heap, Snapshot snapshot);

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
