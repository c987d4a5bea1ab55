/*-------------------------------------------------------------------------
 *
 * predicate.c
 *	  What a serializable transaction locks before it searches an index of ours.
 *
 * The index as a whole, as with any access method that does not lock in finer grains: then
 * the insertion of a row that the search did not meet is a conflict, whatever its key.
 *
 * And the table's unique indexes, because of the order in which a new row is inserted: heap,
 * then the indexes by OID, each of which tests for conflicts when its turn comes.  Two
 * transactions look for a key, do not find it, and insert it.  If a unique index has its turn
 * before ours, the second of them would learn that the key is a duplicate, of which it has
 * made sure that it is none: an error of the program, as it seems, where it need only try
 * again.  PostgreSQL promises better to those who look first, and after a sequential scan
 * (whose lock is on the heap, which comes first) or a scan of the unique btree itself it keeps
 * that promise: a btree tests for conflicts before it reports a duplicate.  A lock on the heap
 * would do the same for us, but would make a conflict of each HOT update and deletion of a
 * row that was not read.  One on the unique indexes makes none of what had been none: a row
 * that is inserted into them is inserted into ours, unless ours is partial.
 *
 * Exclusion constraints are tested after the insertion into their index, which tests for
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
 * Lock what a search of this index reads, before it is read; its table is locked as by
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
 * Lock the unique indexes, which report a duplicate to whoever inserts one
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
