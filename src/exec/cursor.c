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
 * So, where somebody may ask, the chain is followed.  Not when he asks: he reads the TID in the
 * scan slot, and nothing of ours is called.  Between two FETCHes it is the last row that he can
 * ask for; the executor shuts its nodes down whenever it has returned as many rows as were wanted,
 * and then that row's chain is followed.  This comes too late for a function in the query, which
 * may ask for the row that is just being made: where there is a volatile one, or one that users
 * have made and that may call such a one, also by a domain, the chain of each row is followed.
 * That takes ten times as long as the row itself, and who reads a million rows through a cursor,
 * as postgres_fdw does, would pay it for each.
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
#include "access/transam.h"
#include "access/xlog.h"
#include "catalog/pg_proc.h"
#include "executor/execdesc.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "storage/bufmgr.h"
#include "tcop/pquery.h"
#include "utils/lsyscache.h"

#include "cursor.h"

static bool is_asked_for(const EState *estate);
static bool may_ask(PlanState *node, void *context);
static bool calls_unknown(Node *node, void *context);
static bool is_unknown(Oid function, void *context);
static void follow_chain(ScanState *node, ItemPointerData *tid);

/*
 * When may somebody ask where this query's rows lie?  Called while the query runs.
 */
GjCursor
GjCursorOf(const EState *estate)
{
	if (!is_asked_for(estate))
		return GJ_CURSOR_NONE;
	if ((estate->es_top_eflags & EXEC_FLAG_BACKWARD) != 0 ||
		estate->es_plannedstmt->subplans != NIL ||
		may_ask(ActivePortal->queryDesc->planstate, NULL))
		return GJ_CURSOR_RUNS;
	return GJ_CURSOR_RESTS;
}

static bool
is_asked_for(const EState *estate)
{
	return ActivePortal != NULL && ActivePortal->name[0] != '\0' && ActivePortal->visible &&
		ActivePortal->queryDesc != NULL && ActivePortal->queryDesc->estate == estate &&
		!RecoveryInProgress();
}

/*
 * Is there a function that may ask in what the plan computes of rows?  Nodes that compute more,
 * joins and aggregates, have no row of a table on which a cursor could stand.
 */
static bool
may_ask(PlanState *node, void *context)
{
	return calls_unknown((Node *) node->plan->targetlist, NULL) ||
		calls_unknown((Node *) node->plan->qual, NULL) ||
		(IsA(node, CustomScanState) &&
		 calls_unknown((Node *) ((CustomScan *) node->plan)->custom_exprs, NULL)) ||
		planstate_tree_walker(node, may_ask, context);
}

static bool
calls_unknown(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, CoerceToDomain) || check_functions_in_node(node, is_unknown, context))
		return true;
	return expression_tree_walker(node, calls_unknown, context);
}

/*
 * A function that users have made may call a volatile one, whatever it is itself.
 */
static bool
is_unknown(Oid function, void *context)
{
	return function >= FirstNormalObjectId || func_volatile(function) == PROVOLATILE_VOLATILE;
}

/*
 * Note where the row lies that has come from an entry with this packed TID
 */
void
GjNoteEntry(ScanState *node, GjCursor cursor, uint64 tid)
{
	ItemPointerData place;

	if (cursor == GJ_CURSOR_NONE)
		return;
	ItemPointerSet(&place, GjPackedBlock(tid), GjPackedOffset(tid));
	if (cursor == GJ_CURSOR_RUNS)
		follow_chain(node, &place);
	GjNotePlace(node, &place);
}

/*
 * Find the row on which the cursor rests now
 */
void
GjCursorRests(ScanState *node, GjCursor cursor)
{
	TupleTableSlot *slot = node->ss_ScanTupleSlot;

	if (cursor == GJ_CURSOR_RESTS && !TTS_EMPTY(slot) && ItemPointerIsValid(&slot->tts_tid))
		follow_chain(node, &slot->tts_tid);
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
 * Go from the root of a HOT chain to the member that the snapshot sees.  If it sees none, or the
 * TID is that of a member already, it stays what it is.
 */
static void
follow_chain(ScanState *node, ItemPointerData *tid)
{
	Relation	heap = node->ss_currentRelation;
	Buffer		buffer = ReadBuffer(heap, ItemPointerGetBlockNumber(tid));
	HeapTupleData tuple;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	heap_hot_search_buffer(tid, heap, buffer, node->ps.state->es_snapshot, &tuple, NULL, true);
	UnlockReleaseBuffer(buffer);
}
