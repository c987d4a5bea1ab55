/*-------------------------------------------------------------------------
 *
 * check.c
 *	  gpujoin_check(): does an index keep its promises?  gpujoin_index_info():
 *	  what is in it?
 *
 * The check may run beside readers and writers: it holds AccessShareLock, as a
 * query does, and looks at one page at a time under a share lock.  What two pages
 * say of each other is compared only where the order of reading makes that safe.  If a fold
 * has moved the lists meanwhile, all begins again, as for a query.
 *
 * The check against the heap, which heapallindexed asks for, is in checkheap.c.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "check.h"

PG_FUNCTION_INFO_V1(gpujoin_check);
PG_FUNCTION_INFO_V1(gpujoin_index_info);

#define INFO_COLUMNS			17

static uint64 check_index(Oid index_oid, bool heapallindexed);
static void reset(GjCheckState *state);
static void check_meta(GjCheckState *state);
static void check_journal(GjCheckState *state);
static void check_lanes(GjCheckState *state, GjMetaPage meta);
static void check_counters(GjCheckState *state, GjMetaPage meta);
static Datum make_bigints(const uint64 *values, int n);

/*
 * gpujoin_check(index regclass, heapallindexed boolean) returns bigint
 *
 * Verifies an index, or those of all partitions; returns the number of entries it verified, or
 * raises ERRCODE_INDEX_CORRUPTED.
 */
Datum
gpujoin_check(PG_FUNCTION_ARGS)
{
	uint64		nentries = 0;
	ListCell   *lc;

	foreach(lc, GjListManagedIndexes(PG_GETARG_OID(0)))
	{
		MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gpujoin check",
													  ALLOCSET_DEFAULT_SIZES);
		MemoryContext caller = MemoryContextSwitchTo(context);

		nentries += check_index(lfirst_oid(lc), PG_GETARG_BOOL(1));
		MemoryContextSwitchTo(caller);
		MemoryContextDelete(context);
	}
	PG_RETURN_INT64((int64) nentries);
}

static uint64
check_index(Oid index_oid, bool heapallindexed)
{
	GjCheckState state = {0};

	state.index = GjOpenManagedIndex(index_oid);
	if (heapallindexed)
		GjCheckAgainstHeap(&state);
	else
		GjCheckPages(&state);
	index_close(state.index, AccessShareLock);
	return state.nentries;
}

/*
 * gpujoin_index_info(index regclass): returns figures of an index, for which it reads it whole
 */
Datum
gpujoin_index_info(PG_FUNCTION_ARGS)
{
	GjCheckState state = {0};
	TupleDesc	tupdesc;
	Datum		values[INFO_COLUMNS];
	bool		nulls[INFO_COLUMNS] = {false};
	uint64		entries[GJ_MAX_RUNS];
	uint64		pages[GJ_MAX_RUNS];
	uint64		dead = 0;
	uint64		delta_pages = 0;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	state.index = GjOpenManagedIndex(PG_GETARG_OID(0));
	GjCheckPages(&state);

	for (int i = 0; i < state.now.nruns; i++)
	{
		const GjRun *run = &state.now.runs[i];

		entries[i] = run->entries - run->dead;
		pages[i] = run->data_pages + run->directory_pages;
		dead += run->dead;
	}
	for (int i = 0; i < lengthof(state.now.deltas); i++)
		delta_pages += state.now.deltas[i].run == 0 ? 0 : state.now.deltas[i].data_pages;

	values[0] = Int64GetDatum(state.nblocks);
	values[1] = Int64GetDatum(state.nentries);
	values[2] = Int64GetDatum(state.free_slots);
	values[3] = Int64GetDatum(state.free_pages);
	values[4] = Int32GetDatum(state.info.slots);
	values[5] = Int32GetDatum(state.info.key_width);
	values[6] = Int32GetDatum(state.info.nlanes);
	values[7] = Int32GetDatum(state.now.nopen);
	values[8] = Int64GetDatum((int64) state.now.sequence);
	values[9] = Int64GetDatum((int64) state.now.vacuum_epoch);
	values[10] = Int32GetDatum(GJ_FORMAT_VERSION);
	values[11] = Int32GetDatum(state.info.nincluded);
	values[12] = Int32GetDatum(state.now.nruns);
	values[13] = make_bigints(entries, state.now.nruns);
	values[14] = make_bigints(pages, state.now.nruns);
	values[15] = Int64GetDatum((int64) dead);
	values[16] = Int64GetDatum((int64) delta_pages);
	index_close(state.index, AccessShareLock);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}

static Datum
make_bigints(const uint64 *values, int n)
{
	Datum		elements[GJ_MAX_RUNS];

	for (int i = 0; i < n; i++)
		elements[i] = Int64GetDatum((int64) values[i]);
	return PointerGetDatum(construct_array(elements, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL,
										   TYPALIGN_DOUBLE));
}

/*
 * Check all pages, tails first, until no fold has come between
 */
void
GjCheckPages(GjCheckState *state)
{
	do
	{
		reset(state);
		check_meta(state);
		for (int lane = 0; lane < state->info.nlanes; lane++)
			GjCheckTail(state, GJ_FIRST_TAIL_BLOCK + lane);

		GjIndexGetState(state->index, &state->now);
		state->nblocks = GjIndexGetLength(state->index);
		state->pages = MemoryContextAllocExtended(CurrentMemoryContext,
												  state->nblocks * sizeof(GjCheckedPage),
												  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
		for (BlockNumber block = state->info.first_data; block < state->nblocks; block++)
		{
			CHECK_FOR_INTERRUPTS();
			GjCheckPage(state, block);
		}
		GjCheckLists(state);
		check_journal(state);
		pfree(state->pages);
	} while (state->moved || GjListsMoved(state->index, &state->now));
}

/*
 * Forget what was counted
 */
static void
reset(GjCheckState *state)
{
	state->moved = false;
	state->end_in_use = 0;
	state->nentries = 0;
	state->free_slots = 0;
	state->free_pages = 0;
	state->max_change = 0;
	state->max_run = 0;
	memset(state->run_entries, 0, sizeof(state->run_entries));
	if (state->filter_entries > 0)
	{
		if (state->filter != NULL)
			bloom_free(state->filter);
		state->filter = bloom_create(state->filter_entries, maintenance_work_mem, 0);
	}
}

/*
 * Report what must not be, unless the lists have moved: then it means nothing
 */
void
GjCheckWrong(GjCheckState *state, BlockNumber block, const char *detail)
{
	if (!state->moved)
		state->moved = GjListsMoved(state->index, &state->now);
	if (!state->moved)
		GjReportCorruption(state->index, block, detail);
}

/*
 * Check where a page's contents end
 *
 * Nobody reads that but generic WAL: the next change to the page makes zeroes of what is behind it.
 */
void
GjCheckLower(GjCheckState *state, BlockNumber block, Page page, const void *end)
{
	if ((char *) page + ((PageHeader) page)->pd_lower != (const char *) end)
		GjReportCorruption(state->index, block, "The page's contents do not end where it says.");
}

/*
 * Check the metapage, and that the file has all the blocks that it counts
 */
static void
check_meta(GjCheckState *state)
{
	(void) GjIndexGetLength(state->index);
	GjIndexGetInfo(state->index, &state->info);
	GjIndexGetState(state->index, &state->now);
	state->min_blocks = state->now.min_blocks;
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
	GjJournalEntry *ring;
	GjMetaPage	meta;
	uint64		previous;

	LockBuffer(journalbuf, BUFFER_LOCK_SHARE);
	GjPageCheck(state->index, journalbuf, GJ_PAGE_JOURNAL);
	LockBuffer(metabuf, BUFFER_LOCK_SHARE);
	GjMetaCheck(state->index, metabuf);
	meta = GjPageGetMeta(BufferGetPage(metabuf));
	ring = GjPageGetJournal(BufferGetPage(journalbuf));

	if (state->end_in_use > meta->min_blocks)
		GjReportCorruption(state->index, GJ_META_BLOCK,
						   "The metapage counts fewer pages than are in use.");
	if (state->max_change > meta->sequence)
		GjReportCorruption(state->index, GJ_META_BLOCK,
						   "A page has a later change counter than the metapage.");
	/* numbers are drawn before they are written on pages, and the lists do not know such a page */
	if (state->max_run >= meta->next_run)
		GjReportCorruption(state->index, state->max_run_block,
						   "The page is of a run whose number has not been drawn yet.");
	check_lanes(state, meta);
	check_counters(state, meta);
	GjCheckLower(state, GJ_META_BLOCK, BufferGetPage(metabuf), &meta->lanes[meta->nlanes]);
	GjCheckLower(state, GJ_JOURNAL_BLOCK, BufferGetPage(journalbuf), ring + GJ_JOURNAL_ENTRIES);

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
			entry->end > meta->min_blocks)
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
check_lanes(GjCheckState *state, GjMetaPage meta)
{
	for (int lane = 0; lane < meta->nlanes; lane++)
	{
		BlockNumber block = meta->lanes[lane].open_block;

		if (BlockNumberIsValid(block) && (block < meta->first_data || block >= meta->min_blocks))
			GjReportCorruption(state->index, GJ_META_BLOCK,
							   "A lane has a block open that does not exist.");
		for (int other = 0; other < lane; other++)
		{
			if (BlockNumberIsValid(block) && meta->lanes[other].open_block == block)
				GjReportCorruption(state->index, GJ_META_BLOCK,
								   "Two lanes have the same block open.");
		}
	}
}

/*
 * Check how many entries of runs are counted as deleted: no more than now, and no fewer than when
 * the lists were read
 */
static void
check_counters(GjCheckState *state, GjMetaPage meta)
{
	if (state->moved || meta->list_version != state->now.list_version)
		return;
	for (int i = 0; i < state->now.nruns; i++)
	{
		const GjRun *run = &state->now.runs[i];
		uint64		deleted = run->entries - Min(state->run_entries[i], run->entries);

		if (state->run_entries[i] > run->entries || deleted < run->dead ||
			deleted > meta->runs[i].dead)
			GjReportCorruption(state->index, GJ_META_BLOCK,
							   "The metapage miscounts the deleted entries of a run.");
	}
}
