/*-------------------------------------------------------------------------
 *
 * bitmap.c
 *	  Bitmap index scans: "key = value" and "key = ANY (array)" for PostgreSQL's own Bitmap Heap
 *	  Scan, so that our indexes can be combined with others.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/table.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "match/match.h"
#include "stats/stats.h"
#include "am.h"

static GjKeySet *make_key_set(IndexScanDesc scan);
static void add_scan_key(Relation index, GjKeySet *set, ScanKey key);
static bool key_may_fail(Relation index);
static void count(Relation index, const GjMatchStats *stats);
static BlockNumber get_heap_length(Relation index);
static int64 fill_bitmap(GjTidSet *tids, BlockNumber heap_blocks, TIDBitmap *tbm, bool recheck);

/*
 * Begin a scan
 */
IndexScanDesc
gjbeginscan(Relation index, int nkeys, int norderbys)
{
	return RelationGetIndexScan(index, nkeys, norderbys);
}

/*
 * Take new scan keys
 */
void
gjrescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	if (keys && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
}

/*
 * Add the TIDs of all entries with a wanted key to the bitmap
 */
int64
gjgetbitmap(IndexScanDesc scan, TIDBitmap *tbm)
{
	GjMatchStats stats = {0};
	GjKeySet   *set = make_key_set(scan);
	GjTidSet   *tids = GjTidSetCreate(CurrentMemoryContext, GjWorkMemory());
	GjIndexInfo info;
	int64		ntids;

	GjPredicateLock(scan->indexRelation, scan->xs_snapshot);
	GjIndexGetInfo(scan->indexRelation, &info);
	if (!GjIndexIsComplete(scan->indexRelation, scan->xs_snapshot))
	{
		GjTidSetAddBlocks(tids, get_heap_length(scan->indexRelation));
		GjMatchStatsFallback(&stats, GJ_FALLBACK_INCOMPLETE);
		stats.searches++;
	}
	else if (key_may_fail(scan->indexRelation))
		GjMatchFresh(scan->indexRelation, set, tids, &stats);
	else
		GjMatch(scan->indexRelation, set, tids, &stats);
	GjTidSetFinish(tids);
	count(scan->indexRelation, &stats);

	/*
	 * The TID of a stale entry may belong to a row that is visible, but has another key or does
	 * not satisfy the predicate.  Core's recheck tests both: it adds a partial index's predicate
	 * to the index's own conditions.  So request a recheck for such TIDs, as for whole blocks.
	 */
	ntids = fill_bitmap(tids, get_heap_length(scan->indexRelation), tbm,
						info.hashed || stats.stale);
	GjTidSetFree(tids);
	GjKeySetFree(set);
	return ntids;
}

/*
 * End a scan
 */
void
gjendscan(IndexScanDesc scan)
{
	/* nothing is kept between calls */
}

/*
 * Intersect the sets of all scan keys
 */
static GjKeySet *
make_key_set(IndexScanDesc scan)
{
	Relation	index = scan->indexRelation;
	GjKeySet   *result = NULL;

	for (int i = 0; i < scan->numberOfKeys; i++)
	{
		GjKeySet   *set = GjKeySetCreate(CurrentMemoryContext, GjIndexKeyWidth(index));

		add_scan_key(index, set, &scan->keyData[i]);
		GjKeySetFinish(set);
		if (result == NULL)
			result = set;
		else
		{
			GjKeySetIntersect(result, set);
			GjKeySetFree(set);
		}
	}
	return result;
}

static void
add_scan_key(Relation index, GjKeySet *set, ScanKey key)
{
	Oid			type = OidIsValid(key->sk_subtype) ? key->sk_subtype : index->rd_opcintype[0];
	GjConverter converter = {.how = GJ_CONVERT_PROC};

	fmgr_info(get_opfamily_proc(index->rd_opfamily[0], type, type, GJ_KEY_PROC),
			  &converter.proc);
	GjAddDatumKeys(set, &converter, key->sk_argument, (key->sk_flags & SK_ISNULL) != 0,
				   (key->sk_flags & SK_SEARCHARRAY) != 0);
}

/*
 * Return true if computing the key can fail for rows outside a partial index, as 1 / x does for
 * rows excluded by WHERE x <> 0
 *
 * A bitmap heap scan rechecks conditions on the key before those of the index's predicate.  So
 * the bitmap must not contain the TIDs of such rows.  If blocks become lossy because work_mem is
 * too small, the scan meets such rows nevertheless, and may fail as it does with a btree.
 */
static bool
key_may_fail(Relation index)
{
	return index->rd_index->indkey.values[0] == InvalidAttrNumber &&
		RelationGetIndexPredicate(index) != NIL;
}

/*
 * Add the work of the match to the index's counters
 */
static void
count(Relation index, const GjMatchStats *stats)
{
	GjIndexUse	use = {0};

	GjMatchStatsToUse(stats, &use);
	GjUsageMakeRoom(RelationGetRelid(index));
	GjUsageAdd(RelationGetRelid(index), &use);
}

/*
 * Return the heap's length, read after the match.  The executor has locked the table.
 */
static BlockNumber
get_heap_length(Relation index)
{
	Relation	heap = table_open(index->rd_index->indrelid, NoLock);
	BlockNumber nblocks = RelationGetNumberOfBlocks(heap);

	table_close(heap, NoLock);
	return nblocks;
}

/*
 * Add the TIDs to the bitmap, one heap block at a time
 *
 * Blocks past the end of the heap belong to rows that VACUUM truncated, or to a damaged entry.  A
 * bitmap heap scan would skip them, but only after trying to prefetch them.
 */
static int64
fill_bitmap(GjTidSet *tids, BlockNumber heap_blocks, TIDBitmap *tbm, bool recheck)
{
	ItemPointerData batch[MaxHeapTuplesPerPage];
	GjTidBlock	block;
	int64		ntids = 0;

	while (GjTidSetNextBlock(tids, &block) && block.block < heap_blocks)
	{
		CHECK_FOR_INTERRUPTS();
		if (block.lossy)
		{
			tbm_add_page(tbm, block.block);
			ntids += MaxHeapTuplesPerPage;	/* as core counts a lossy page */
			continue;
		}
		for (int i = 0; i < block.noffsets; i++)
			ItemPointerSet(&batch[i], block.block, block.offsets[i]);
		tbm_add_tuples(tbm, batch, block.noffsets, recheck);
		ntids += block.noffsets;
	}
	return ntids;
}
