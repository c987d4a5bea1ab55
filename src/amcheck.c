/*-------------------------------------------------------------------------
 *
 * amcheck.c
 *	  gpujoin_check(): does an index keep its promises?  gpujoin_index_info():
 *	  what is in it?
 *
 * The check may run beside readers and writers: it holds AccessShareLock, as a
 * query does, and looks at one page at a time under a share lock.  What two pages
 * say of each other is compared only where the order of reading makes that safe.
 *
 * With heapallindexed the check takes a snapshot first, then the fingerprint of
 * every entry (tails before data pages, for the reason given in search.c), then
 * reads the heap under the snapshot: each tuple that the snapshot sees was indexed
 * before the fingerprints were taken, so it must be among them.  A Bloom filter
 * keeps the fingerprints: it may overlook a missing entry with a small probability,
 * never report one that is there.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "funcapi.h"
#include "lib/bloomfilter.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "am.h"
#include "compat.h"
#include "gpujoin.h"
#include "tidset.h"

PG_FUNCTION_INFO_V1(gpujoin_check);
PG_FUNCTION_INFO_V1(gpujoin_index_info);

/* What is known of an entry, as hashed into the filter: no padding bytes unset */
typedef struct GjFingerprint
{
	int64		key;
	BlockNumber block;
	uint32		offset;
} GjFingerprint;

typedef struct GjCheckState
{
	Relation	index;
	GjIndexInfo info;
	BlockNumber nblocks;
	int64		nentries;		/* verified */
	int64		free_slots;		/* of data pages in use */
	int64		empty_pages;
	int64		zero_pages;
	uint64		max_change;		/* largest change counter met */
	BlockNumber *open_pages;	/* data pages met with the OPEN flag */
	int			nopen_pages;
	int			max_open_pages;
	bloom_filter *filter;		/* or NULL */
	FmgrInfo   *key_proc;
} GjCheckState;

static Relation open_index(Oid index_oid);
static void check_meta(GjCheckState *state);
static void check_journal(GjCheckState *state);
static void note_open_page(GjCheckState *state, BlockNumber block);
static void check_open_page(GjCheckState *state, BlockNumber block);
static void check_tail(GjCheckState *state, BlockNumber block);
static void check_data(GjCheckState *state, BlockNumber block);
static void check_entry(GjCheckState *state, BlockNumber block, GjPageOpaque opaque,
						int64 key, const ItemPointerData *tid);
static void check_all_pages(GjCheckState *state);
static void check_against_heap(GjCheckState *state);
static void check_heap(GjCheckState *state, Snapshot snapshot);
static void check_heap_tuple(Relation index, ItemPointer tid, Datum *values, bool *isnull,
							 bool tuple_is_alive, void *arg);
static void add_fingerprint(GjCheckState *state, int64 key, const ItemPointerData *tid);
static void make_fingerprint(GjFingerprint *print, int64 key, const ItemPointerData *tid);

/*
 * gpujoin_check(index regclass, heapallindexed boolean) returns bigint
 *
 * Verifies an index; returns the number of entries it verified, or raises
 * ERRCODE_INDEX_CORRUPTED.
 */
Datum
gpujoin_check(PG_FUNCTION_ARGS)
{
	GjCheckState state = {0};

	state.index = open_index(PG_GETARG_OID(0));
	if (PG_GETARG_BOOL(1))
		check_against_heap(&state);
	else
		check_all_pages(&state);
	index_close(state.index, AccessShareLock);
	PG_RETURN_INT64(state.nentries);
}

/*
 * gpujoin_index_info(index regclass): figures of an index, by reading it whole
 */
Datum
gpujoin_index_info(PG_FUNCTION_ARGS)
{
	GjCheckState state = {0};
	GjIndexState now;
	TupleDesc	tupdesc;
	Datum		values[11];
	bool		nulls[11] = {false};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	state.index = open_index(PG_GETARG_OID(0));
	check_all_pages(&state);
	GjIndexGetState(state.index, &now);

	values[0] = Int64GetDatum(state.nblocks);
	values[1] = Int64GetDatum(state.nentries);
	values[2] = Int64GetDatum(state.free_slots);
	values[3] = Int64GetDatum(state.empty_pages + state.zero_pages);
	values[4] = Int32GetDatum(state.info.slots);
	values[5] = Int32GetDatum(state.info.key_width);
	values[6] = Int32GetDatum(state.info.nlanes);
	values[7] = Int32GetDatum(now.nopen);
	values[8] = Int64GetDatum((int64) now.sequence);
	values[9] = Int64GetDatum((int64) now.vacuum_epoch);
	values[10] = Int32GetDatum(GJ_FORMAT_VERSION);
	index_close(state.index, AccessShareLock);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}

/*
 * Open and lock an index for checking, or say why it cannot be checked
 */
static Relation
open_index(Oid index_oid)
{
	Oid			heap_oid = IndexGetRelation(index_oid, true);
	Relation	heap = NULL;
	Relation	index;

	/* table before index, as everybody does */
	if (OidIsValid(heap_oid))
		heap = table_open(heap_oid, AccessShareLock);
	index = relation_open(index_oid, AccessShareLock);

	if (!GjRelationIsIndex(index))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a %s index", RelationGetRelationName(index), GJ_NAME),
				 index->rd_rel->relkind == RELKIND_PARTITIONED_INDEX ?
				 errhint("Check the indexes of the partitions, one at a time.") : 0));
	if (heap == NULL || IndexGetRelation(index_oid, true) != heap_oid)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("could not open the table of index \"%s\"",
						RelationGetRelationName(index))));
	if (!GjIsTableOwner(heap_oid))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX, RelationGetRelationName(index));
	if (RELATION_IS_OTHER_TEMP(index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot check temporary index \"%s\" of another session",
						RelationGetRelationName(index))));
	if (!index->rd_index->indisvalid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" is not valid", RelationGetRelationName(index)),
				 errhint("Drop it, or REINDEX it.")));
	table_close(heap, NoLock);
	return index;
}

/*
 * Check each page by itself, tails first
 */
static void
check_all_pages(GjCheckState *state)
{
	check_meta(state);
	for (int lane = 0; lane < state->info.nlanes; lane++)
		check_tail(state, GJ_FIRST_TAIL_BLOCK + lane);

	state->nblocks = RelationGetNumberOfBlocks(state->index);
	for (BlockNumber block = state->info.first_data; block < state->nblocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		check_data(state, block);
	}
	check_journal(state);
	for (int i = 0; i < state->nopen_pages; i++)
		check_open_page(state, state->open_pages[i]);
}

static void
note_open_page(GjCheckState *state, BlockNumber block)
{
	if (state->nopen_pages == state->max_open_pages)
	{
		state->max_open_pages = Max(GJ_MAX_LANES, 2 * state->max_open_pages);
		state->open_pages = state->open_pages == NULL ?
			palloc_array(BlockNumber, state->max_open_pages) :
			repalloc_array(state->open_pages, BlockNumber, state->max_open_pages);
	}
	state->open_pages[state->nopen_pages++] = block;
}

/*
 * A page that is open must be so for a lane, or nobody would ever fill it again
 *
 * It may have been closed since it was met: look again, with its lock held.
 */
static void
check_open_page(GjCheckState *state, BlockNumber block)
{
	Buffer		buffer = ReadBuffer(state->index, block);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	GjPageCheck(state->index, buffer, GJ_PAGE_DATA);
	if (GjPageGetOpaque(BufferGetPage(buffer))->flags & GJ_PAGE_OPEN)
	{
		GjIndexState now;
		bool		found = false;

		GjIndexGetState(state->index, &now);
		for (int i = 0; i < now.nopen; i++)
			found |= now.open_blocks[i] == block;
		if (!found)
			GjReportCorruption(state->index, block, "An open page belongs to no lane.");
	}
	UnlockReleaseBuffer(buffer);
}

static void
check_meta(GjCheckState *state)
{
	Buffer		metabuf = ReadBuffer(state->index, GJ_META_BLOCK);

	LockBuffer(metabuf, BUFFER_LOCK_SHARE);
	GjMetaCheck(state->index, metabuf);
	UnlockReleaseBuffer(metabuf);
	GjIndexGetInfo(state->index, &state->info);
}

/*
 * Check the journal and the open pages, both under the metapage's lock
 *
 * Lock order is journal before metapage, which is also what holds them together.
 * Runs last: no page can carry a larger change counter than the sequence now.
 */
static void
check_journal(GjCheckState *state)
{
	Buffer		journalbuf = ReadBuffer(state->index, GJ_JOURNAL_BLOCK);
	Buffer		metabuf = ReadBuffer(state->index, GJ_META_BLOCK);
	BlockNumber nblocks;
	GjJournalEntry *ring;
	GjMetaPage	meta;
	uint64		previous;

	LockBuffer(journalbuf, BUFFER_LOCK_SHARE);
	GjPageCheck(state->index, journalbuf, GJ_PAGE_JOURNAL);
	LockBuffer(metabuf, BUFFER_LOCK_SHARE);
	GjMetaCheck(state->index, metabuf);
	meta = GjPageGetMeta(BufferGetPage(metabuf));
	ring = GjPageGetJournal(BufferGetPage(journalbuf));
	nblocks = RelationGetNumberOfBlocks(state->index);

	if (state->max_change > meta->sequence)
		GjReportCorruption(state->index, GJ_META_BLOCK,
						   "A page has a later change counter than the metapage.");
	for (int lane = 0; lane < meta->nlanes; lane++)
	{
		BlockNumber block = meta->lanes[lane].open_block;

		if (BlockNumberIsValid(block) && (block < meta->first_data || block >= nblocks))
			GjReportCorruption(state->index, GJ_META_BLOCK,
							   "A lane has a block open that does not exist.");
		for (int other = 0; other < lane; other++)
		{
			if (BlockNumberIsValid(block) && meta->lanes[other].open_block == block)
				GjReportCorruption(state->index, GJ_META_BLOCK,
								   "Two lanes have the same block open.");
		}
	}

	previous = meta->journal_floor;
	for (uint32 i = 0; i < meta->journal_used; i++)
	{
		uint32		at = (meta->journal_next + 2 * GJ_JOURNAL_ENTRIES - meta->journal_used + i) %
			GJ_JOURNAL_ENTRIES;
		GjJournalEntry *entry = &ring[at];

		if (entry->sequence <= previous || entry->sequence > meta->sequence)
			GjReportCorruption(state->index, GJ_JOURNAL_BLOCK,
							   "The journal's sequence numbers do not ascend.");
		if (entry->start < meta->first_data || entry->end <= entry->start ||
			entry->end > nblocks)
			GjReportCorruption(state->index, GJ_JOURNAL_BLOCK,
							   "A journal entry names blocks that do not exist.");
		if (entry->kind != GJ_JOURNAL_OPENED && entry->kind != GJ_JOURNAL_DELETED)
			GjReportCorruption(state->index, GJ_JOURNAL_BLOCK,
							   "A journal entry is of an unknown kind.");
		previous = entry->sequence;
	}
	UnlockReleaseBuffer(metabuf);
	UnlockReleaseBuffer(journalbuf);
}

static void
check_tail(GjCheckState *state, BlockNumber block)
{
	Buffer		buffer = ReadBuffer(state->index, block);
	Page		page = BufferGetPage(buffer);
	GjPageOpaque opaque;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	GjPageCheck(state->index, buffer, GJ_PAGE_TAIL);
	opaque = GjPageGetOpaque(page);
	if (opaque->used > state->info.tail_rows)
		GjReportCorruption(state->index, block, "A tail page has too many rows.");
	if ((char *) page + ((PageHeader) page)->pd_lower !=
		GjTailRow(page, &state->info, opaque->used))
		GjReportCorruption(state->index, block,
						   "A tail page's end does not agree with its number of rows.");
	for (int row = 0; row < opaque->used; row++)
	{
		ItemPointerData tid;
		int64		key = GjTailGetRow(page, &state->info, row, &tid);

		check_entry(state, block, opaque, key, &tid);
	}
	UnlockReleaseBuffer(buffer);
}

static void
check_data(GjCheckState *state, BlockNumber block)
{
	Buffer		buffer = ReadBufferExtended(state->index, MAIN_FORKNUM, block, RBM_NORMAL, NULL);
	Page		page = BufferGetPage(buffer);
	GjPageOpaque opaque;
	uint32	   *used;
	int			count = 0;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (GjPageIsUnused(page))
	{
		state->zero_pages++;
		UnlockReleaseBuffer(buffer);
		return;
	}
	GjPageCheck(state->index, buffer, GJ_PAGE_DATA);
	opaque = GjPageGetOpaque(page);
	used = GjDataUsed(page, &state->info);
	for (int word = 0; word < state->info.words; word++)
		count += pg_popcount32(used[word]);
	if (count != opaque->used)
		GjReportCorruption(state->index, block,
						   "A data page's count does not agree with its bitmap.");

	for (int slot = 0; slot < state->info.slots; slot++)
	{
		if (used[slot / GJ_SLOTS_PER_WORD] & ((uint32) 1 << (slot % GJ_SLOTS_PER_WORD)))
			check_entry(state, block, opaque, GjDataGetKey(page, &state->info, slot),
						&GjDataTids(page, &state->info)[slot]);
	}
	if (opaque->flags & GJ_PAGE_OPEN)
		note_open_page(state, block);
	state->free_slots += state->info.slots - count;
	state->empty_pages += (count == 0);
	state->max_change = Max(state->max_change, opaque->change);
	UnlockReleaseBuffer(buffer);
}

static void
check_entry(GjCheckState *state, BlockNumber block, GjPageOpaque opaque, int64 key,
			const ItemPointerData *tid)
{
	if (!GjTidIsPossible(tid))
		GjReportCorruption(state->index, block, "An entry has an impossible TID.");
	if (key < opaque->min_key || key > opaque->max_key)
		GjReportCorruption(state->index, block,
						   "An entry's key is outside the bounds of its page.");
	state->nentries++;
	if (state->filter)
		add_fingerprint(state, key, tid);
}

/*
 * Check the pages, and the heap against them
 *
 * The index may have expressions and a predicate: functions of the table's owner,
 * which must not run with the rights of whoever checks.
 */
static void
check_against_heap(GjCheckState *state)
{
	Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	Oid			save_user;
	int			save_context;
	int			save_nest_level = NewGUCNestLevel();

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(state->index->rd_rel->relowner,
						   save_context | SECURITY_RESTRICTED_OPERATION);
	GjRestrictSearchPath();

	state->filter = bloom_create(Max((int64) state->index->rd_rel->reltuples, 10000),
								 maintenance_work_mem, 0);
	check_all_pages(state);
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
	GjFingerprint print;

	CHECK_FOR_INTERRUPTS();
	if (isnull[0])
		return;
	make_fingerprint(&print, GjKeyFromDatum(state->key_proc, values[0]), tid);
	if (bloom_lacks_element(state->filter, (unsigned char *) &print, sizeof(print)))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("heap tuple (%u,%u) lacks an entry in index \"%s\"",
						ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid),
						RelationGetRelationName(index)),
				 errhint("Please REINDEX it.")));
}

static void
add_fingerprint(GjCheckState *state, int64 key, const ItemPointerData *tid)
{
	GjFingerprint print;

	make_fingerprint(&print, key, tid);
	bloom_add_element(state->filter, (unsigned char *) &print, sizeof(print));
}

static void
make_fingerprint(GjFingerprint *print, int64 key, const ItemPointerData *tid)
{
	print->key = key;
	print->block = ItemPointerGetBlockNumberNoCheck(tid);
	print->offset = ItemPointerGetOffsetNumberNoCheck(tid);
}
