/*-------------------------------------------------------------------------
 *
 * cursor.c
 *	  Where the row lies on which a cursor stands.
 *
 * UPDATE and DELETE ... WHERE CURRENT OF a cursor take the TID of the scan's last row and go
 * to that tuple.  The TID of an index entry is that of the root of a HOT chain.  Pruning may
 * have made the root a mere redirection, at which there is no tuple to update.  (PostgreSQL's
 * index-only scans pass on the entry's TID nevertheless, and no row is updated.)
 *
 * So, where somebody may ask, the chain is followed, for each row.  To note the entry's TID
 * alone and follow the chain when somebody asks is not possible: who asks reads the TID in the
 * scan slot, and nothing of ours is called.  To do so for the last row that a FETCH takes, in
 * a hook around ExecutorRun(), would come too late for a volatile function in the query, which
 * may ask for the row that is just being made.
 *
 * Where nobody can ask, nothing is noted: even the entry's TID alone would be an eighth of the
 * time of a count.  Nobody can ask
 *
 *	- without a portal that has a name: an ordinary SELECT has one without.  (A client that
 *	  speaks the protocol itself can suspend that and ask by the empty name: an error);
 *	- of the portal that EXECUTE makes for a prepared statement.  It is not visible, and has a
 *	  name that is made up.  (Who guesses it within a function of the query: the same error);
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

#include "cursor.h"

static void follow_chain(Relation heap, Snapshot snapshot, ItemPointerData *tid);

/*
 * May somebody ask where this query's rows lie?  Called while the query runs.
 */
bool
GjIsCursor(const EState *estate)
{
	return ActivePortal != NULL && ActivePortal->name[0] != '\0' && ActivePortal->visible &&
		ActivePortal->queryDesc != NULL && ActivePortal->queryDesc->estate == estate &&
		!RecoveryInProgress();
}

/*
 * Note where the row lies that has come from an entry with this packed TID
 */
void
GjNoteEntry(ScanState *node, uint64 tid)
{
	ItemPointerData place;

	ItemPointerSet(&place, GjPackedBlock(tid), GjPackedOffset(tid));
	follow_chain(node->ss_currentRelation, node->ps.state->es_snapshot, &place);
	GjNotePlace(node, &place);
}

/*
 * For rows whose places are not noted: who asks nevertheless shall get an error, and not the
 * impression that there is no row.
 */
void
GjNoteNoPlace(ScanState *node)
{
	ItemPointerData nowhere;

	ItemPointerSetInvalid(&nowhere);
	GjNotePlace(node, &nowhere);
}

/*
 * Go from the root of a HOT chain to the member that the snapshot sees.  If it sees none,
 * the TID stays what it is.
 */
static void
follow_chain(Relation heap, Snapshot snapshot, ItemPointerData *tid)
{
	Buffer		buffer = ReadBuffer(heap, ItemPointerGetBlockNumber(tid));
	HeapTupleData tuple;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	heap_hot_search_buffer(tid, heap, buffer, snapshot, &tuple, NULL, true);
	UnlockReleaseBuffer(buffer);
}
