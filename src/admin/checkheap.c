/*-------------------------------------------------------------------------
 *
 * checkheap.c
 *	  gpujoin_check() with heapallindexed: does every tuple have its entry?
 *
 * The check takes a snapshot first, then a fingerprint of every entry (tails before
 * data pages, for the reason given in match/search.c), then reads the heap under the
 * snapshot: each tuple that the snapshot sees was indexed before the fingerprints were
 * taken, so it must be among them, with the same values in its INCLUDE columns.  A
 * Bloom filter keeps the fingerprints: it may overlook a missing entry with a small
 * probability, never report one that is there.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "check.h"

static void check_heap(GjCheckState *state, Snapshot snapshot);
static void check_heap_tuple(Relation index, ItemPointer tid, Datum *values, bool *isnull,
							 bool tuple_is_alive, void *arg);

/*
 * Check the pages, and the heap against them
 *
 * The index may have expressions and a predicate: functions of the table's owner,
 * which must not run with the rights of whoever checks.
 */
void
GjCheckAgainstHeap(GjCheckState *state)
{
	Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	Oid			save_user;
	int			save_context;
	int			save_nest_level = NewGUCNestLevel();

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(state->index->rd_rel->relowner,
						   save_context | SECURITY_RESTRICTED_OPERATION);
	GjRestrictSearchPath();

	state->filter_entries = Max((int64) state->index->rd_rel->reltuples, 10000);
	GjCheckPages(state);
	check_heap(state, snapshot);
	bloom_free(state->filter);

	AtEOXact_GUC(false, save_nest_level);
	SetUserIdAndSecContext(save_user, save_context);
	UnregisterSnapshot(snapshot);
}

/*
 * Look for the entry of each tuple that the snapshot sees
 */
static void
check_heap(GjCheckState *state, Snapshot snapshot)
{
	Relation	heap = table_open(state->index->rd_index->indrelid, AccessShareLock);
	IndexInfo  *indexInfo = BuildIndexInfo(state->index);
	TableScanDesc scan;

	/*
	 * An index whose making met broken HOT chains does not have to hold what an
	 * older snapshot sees.
	 */
	if (state->index->rd_index->indcheckxmin &&
		!TransactionIdPrecedes(HeapTupleHeaderGetXmin(state->index->rd_indextuple->t_data),
							   snapshot->xmin))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("index \"%s\" cannot be verified using transaction snapshot",
						RelationGetRelationName(state->index))));

	scan = table_beginscan_strat(heap, snapshot, 0, NULL, true, true);
	indexInfo->ii_Concurrent = true;	/* use the scan's snapshot */
	indexInfo->ii_Unique = false;
	indexInfo->ii_ExclusionOps = NULL;
	state->key_proc = index_getprocinfo(state->index, 1, GJ_KEY_PROC);
	table_index_build_scan(heap, state->index, indexInfo, true, false,
						   check_heap_tuple, state, scan);
	table_close(heap, NoLock);
}

static void
check_heap_tuple(Relation index, ItemPointer tid, Datum *values, bool *isnull,
				 bool tuple_is_alive, void *arg)
{
	GjCheckState *state = arg;
	char		row[GJ_MAX_ROW_WIDTH];

	CHECK_FOR_INTERRUPTS();
	if (isnull[0])
		return;
	GjRowForm(&state->info, GjKeyFromDatum(state->key_proc, values[0]), tid,
			  values + 1, isnull + 1, row);
	if (bloom_lacks_element(state->filter, (unsigned char *) row, state->info.row_width))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("heap tuple (%u,%u) lacks an entry in index \"%s\"",
						ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid),
						RelationGetRelationName(index)),
				 errhint("Please REINDEX it.")));
}
