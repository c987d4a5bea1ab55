/*-------------------------------------------------------------------------
 *
 * orderedrow.c
 *	  A row in its place: the one that an entry of a batch stands for.
 *
 * The head of ordered.c says why it is the right one.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "base/compat.h"
#include "base/tid.h"
#include "cursor.h"
#include "entryvisible.h"
#include "orderedstate.h"
#include "visiblemap.h"

static bool is_row(GjScanState *scan, uint64 i);
static void test_group(GjScanState *scan, uint64 first);
static bool fetch(GjScanState *scan, uint64 i);
static bool fetch_chain(GjScanState *scan, ItemPointerData *tid);
static void prefetch(GjScanState *scan, uint64 i);

/*
 * Make a row of an entry; NULL if the snapshot sees none with the entry's values
 */
TupleTableSlot *
GjOrderedMakeRow(GjScanState *scan, uint64 i)
{
	GjOrdered  *ordered = scan->ordered;
	ScanState  *node = &scan->table.css.ss;
	TupleTableSlot *slot = scan->table.heap_slot;
	Datum		values[GJ_MAX_INCLUDED + 1];
	bool		isnull[GJ_MAX_INCLUDED + 1];

	if (is_row(scan, i))
	{
		slot = node->ss_ScanTupleSlot;
		GjFillFromEntry(scan->table.row_fill, GjTopRow(ordered->top, i), slot);
		GjNoteEntry(node, scan->cursor, GjTopTid(ordered->top, i));
		GjIndexOnlyGetStats(scan->table.index_only)->rows++;
		return slot;
	}
	if (!fetch(scan, i))
		return NULL;
	GjOrderedReadValues(ordered, slot, values, isnull);
	if (!GjScanWants(scan, slot) || !GjTopIsSame(ordered->top, i, values, isnull))
	{
		GjFetchGetStats(scan->table.fetch)->rechecked++;
		ResetExprContext(node->ps.ps_ExprContext);
		return NULL;
	}
	if (ordered->index_only)
		GjNotePlace(node, &slot->tts_tid);
	return slot;
}

/*
 * Is the entry a row, without a look at the heap?
 */
static bool
is_row(GjScanState *scan, uint64 i)
{
	GjOrdered  *ordered = scan->ordered;

	if (!ordered->certain)
		return false;
	if (i >= ordered->end_tested)
		test_group(scan, i);
	return ordered->certain && ordered->visible[i - ordered->first_tested];
}

/*
 * Test entries from this one on, by the map and then by the epoch
 */
static void
test_group(GjScanState *scan, uint64 first)
{
	GjOrdered  *ordered = scan->ordered;
	int			n = (int) Min(GjTopCount(ordered->top) - first, GJ_ORDERED_GROUP);
	uint64		tids[GJ_ORDERED_GROUP];

	for (int i = 0; i < n; i++)
		tids[i] = GjTopTid(ordered->top, first + i);
	ordered->first_tested = first;
	ordered->end_tested = first + n;
	if (GjVisibleMapTest(scan->table.css.ss.ss_currentRelation, tids, n, ordered->visible) > 0 &&
		GjEpochHasMoved(scan->table.index, scan->table.css.ss.ps.state->es_snapshot,
						ordered->match.vacuum_epoch))
		ordered->certain = false;
}

/*
 * Fetch what the entry leads to into the slot for heap tuples; false if the snapshot sees
 * nothing there
 */
static bool
fetch(GjScanState *scan, uint64 i)
{
	GjOrdered  *ordered = scan->ordered;
	uint64		packed = GjTopTid(ordered->top, i);
	ItemPointerData tid;
	bool		found;

	ItemPointerSet(&tid, GjPackedBlock(packed), GjPackedOffset(packed));
	if (GjPackedBlock(packed) >= ordered->nblocks)
		return false;
	if (ordered->index_only)
		GjIndexOnlyGetStats(scan->table.index_only)->heap_fetches++;
	if (ordered->all != NULL)
		return table_tuple_fetch_row_version(scan->table.css.ss.ss_currentRelation, &tid,
											 scan->table.css.ss.ps.state->es_snapshot,
											 scan->table.heap_slot);
	prefetch(scan, i);
	found = fetch_chain(scan, &tid);
	GjFetchGetStats(scan->table.fetch)->exact_blocks++;
	GjFetchGetStats(scan->table.fetch)->tuples += found;
	GjCountHeapFetches(scan->table.css.ss.ss_currentRelation, found);
	return found;
}

/*
 * Go from the root of a HOT chain to the member that the snapshot sees
 */
static bool
fetch_chain(GjScanState *scan, ItemPointerData *tid)
{
	Relation	heap = scan->table.css.ss.ss_currentRelation;
	Snapshot	snapshot = scan->table.css.ss.ps.state->es_snapshot;
	Buffer		buffer = ReadBuffer(heap, ItemPointerGetBlockNumber(tid));
	HeapTuple	tuple = &scan->ordered->tuple;
	bool		found;

	heap_page_prune_opt(heap, buffer);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	found = heap_hot_search_buffer(tid, heap, buffer, snapshot, tuple, NULL, true);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (found)
		ExecStoreBufferHeapTuple(tuple, scan->table.heap_slot, buffer);
	ReleaseBuffer(buffer);
	return found;
}

/*
 * Ask for the blocks of the entries after this one, as far ahead as is allowed
 */
static void
prefetch(GjScanState *scan, uint64 i)
{
	GjOrdered  *ordered = scan->ordered;
	Relation	heap = scan->table.css.ss.ss_currentRelation;
	uint64		end = i + 1 + get_tablespace_io_concurrency(heap->rd_rel->reltablespace);

	end = Min(end, GjTopCount(ordered->top));
	for (ordered->prefetched = Max(ordered->prefetched, i + 1); ordered->prefetched < end;
		 ordered->prefetched++)
	{
		BlockNumber block = GjPackedBlock(GjTopTid(ordered->top, ordered->prefetched));

		if (!ordered->certain && block < ordered->nblocks)
			PrefetchBuffer(heap, MAIN_FORKNUM, block);
	}
}

/*
 * Read the sort columns of the tuple in the slot
 */
void
GjOrderedReadValues(const GjOrdered *ordered, TupleTableSlot *slot, Datum *values, bool *isnull)
{
	for (int i = 0; i < ordered->ncolumns; i++)
		values[i] = slot_getattr(slot, ordered->attnos[i], &isnull[i]);
}
