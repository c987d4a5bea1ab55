/*-------------------------------------------------------------------------
 *
 * execcursor.c
 *	  Where the row lies on which a cursor stands.
 *
 * UPDATE and DELETE ... WHERE CURRENT OF a cursor take the TID of the scan's last row and go
 * to that tuple.  The TID of an index entry is that of the root of a HOT chain.  Pruning may
 * have made the root a mere redirection, at which there is no tuple to update.  (PostgreSQL's
 * index-only scans pass on the entry's TID nevertheless, and no row is updated.)
 *
 * So, where somebody may ask, the chain is followed.  That costs a look at the heap for each
 * row, since nobody says which row is the last before the cursor stops.  Nobody can ask
 *
 *	- without a portal that has a name: an ordinary SELECT has one without.  (A client that
 *	  speaks the protocol itself can suspend that and ask by the empty name: an error);
 *	- for scans that are not of the portal's own query, like those in functions it calls;
 *	- on a standby, where nothing can be written in a transaction, not even after promotion.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/xlog.h"
#include "executor/execdesc.h"
#include "storage/bufmgr.h"
#include "tcop/pquery.h"

#include "exec.h"

/*
 * May somebody ask where this query's rows lie?  Called while the query runs.
 */
bool
GjIsCursor(const EState *estate)
{
	return ActivePortal != NULL && ActivePortal->name[0] != '\0' &&
		ActivePortal->queryDesc != NULL && ActivePortal->queryDesc->estate == estate &&
		!RecoveryInProgress();
}

/*
 * Go from the root of a HOT chain to the member that the snapshot sees.  If it sees none,
 * the TID stays what it is.
 */
void
GjFollowChain(Relation heap, Snapshot snapshot, ItemPointerData *tid)
{
	Buffer		buffer = ReadBuffer(heap, ItemPointerGetBlockNumber(tid));
	HeapTupleData tuple;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	heap_hot_search_buffer(tid, heap, buffer, snapshot, &tuple, NULL, true);
	UnlockReleaseBuffer(buffer);
}
