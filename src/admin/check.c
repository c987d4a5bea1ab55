/*-------------------------------------------------------------------------
 *
 * check.c
 *	  gpujoin_check(): verify the structure of an index.  gpujoin_index_info():
 *	  report the contents of an index.
 *
 * The check may run concurrently with readers and writers: it holds AccessShareLock,
 * as a query does, and reads one page at a time under a share lock.  It compares the
 * contents of two pages only where the order of reading makes that safe.  If a fold has
 * changed the lists meanwhile, it starts over, as a query does, and then tries to get the
 * fold lock in share mode: it reads all pages, and folds may come faster than that.  If
 * another process has the lock, it starts over without: a deletion does not disturb it, and a
 * fold does so once, when it ends.  During recovery the lock means nothing.
 *
 * The check against the heap, for heapallindexed, is below ("The heap").
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "lib/bloomfilter.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "am/am.h"
#include "base/compat.h"
#include "base/numeric.h"
#include "base/step.h"
#include "base/tid.h"

PG_FUNCTION_INFO_V1(gpujoin_check);
PG_FUNCTION_INFO_V1(gpujoin_index_info);

#define INFO_COLUMNS			22	/* of an extension of version 1.0.0: 17 */

/* Findings about a page from first_data on */
typedef struct CheckedPage
{
	uint32		run:28;			/* the live run or delta that it belongs to, or 0 */
	uint32		is_data:1;		/* data page, not a page of a directory or list */
	uint32		is_late:1;		/* page was changed after the lists had been read */
	uint32		named:1;		/* a directory or list names the page */
} CheckedPage;

typedef struct CheckState
{
	Relation	index;
	GjIndexInfo info;
	BlockNumber min_blocks;		/* number of blocks in the metapage at the start */
	GjIndexState now;			/* the lists, read after the tails */
	bool		moved;			/* the lists have changed since: start over */
	BlockNumber nblocks;
	CheckedPage *pages;			/* [nblocks]; the elements before first_data are unused */
	BlockNumber end_in_use;		/* block after the last live page */
	int64		nentries;		/* number of verified entries */
	int64		free_slots;		/* free slots of live data pages */
	int64		free_pages;
	int64		merge_pages;	/* pages of a merge that is not finished */
	uint64		merge_gaps;		/* free slots on these */
	uint64		max_change;		/* largest change counter found */
	uint32		max_run;		/* largest number of a run or delta found */
	BlockNumber max_run_block;	/* block where that was found */
	uint64		run_entries[GJ_MAX_RUNS + GJ_MAX_NULL_RUNS];	/* number of entries found, without
																 * deleted ones */
	int64		null_entries;	/* number of verified entries that have a NULL key */
	uint64		run_slots;		/* of the runs' pages, and the bytes that these give each column */
	uint64		run_bytes[GJ_MAX_COLUMNS];
	uint64		absent[GJ_MAX_INCLUDED];	/* number of entries that lack a column's value */
	bloom_filter *filter;		/* fingerprints of entries, or NULL */
	int64		filter_entries; /* number of entries that the filter is sized for */
	GjCodec		codec;
	MemoryContext scratch;		/* of the codec */
	GjWide	   *wide;			/* for narrow pages */
} CheckState;

/* A run, while its directory is scanned */
typedef struct RunCheck
{
	CheckState *state;
	const GjRun *run;
	int			number;			/* position among the runs */
	BlockNumber data_pages;		/* met so far */
	BlockNumber directory_pages;
	uint64		had;			/* entries that these had when the run was published */
	GjPlace		last;			/* the last entry so far */
} RunCheck;

extern void GjCheckPages(Relation index);

static uint64 audit_index(Oid index_oid, bool heapallindexed);
static void check_pages(CheckState *state);
static void reset(CheckState *state);
static void check_meta(CheckState *state);
static void check_journal(CheckState *state);
static void check_lanes(CheckState *state, GjMetaPage meta);
static void check_counters(CheckState *state, GjMetaPage meta);
static const char *name_keys(Relation index);
static Datum make_bigints(const uint64 *values, int n);
static Datum describe_included(const CheckState *state);
static Datum describe_bytes(const CheckState *state);
static void count_bytes(CheckState *state, Page page);
static void note_page(CheckState *state, BlockNumber block, Page page, GjPageKind kind,
					  bool of_nulls);
static void note_merge_page(CheckState *state, BlockNumber block, Page page, GjPageKind kind);
static int	check_slots(CheckState *state, BlockNumber block, Page page);
static int	slots_of_run(const CheckState *state, uint32 run);
static void check_offsets(CheckState *state, BlockNumber block, Page page, int slot,
						  const char *row);
static void check_data(CheckState *state, BlockNumber block, Page page, bool of_nulls);
static void check_list(CheckState *state, BlockNumber block, Page page);
static void check_entry(CheckState *state, BlockNumber block, GjPageOpaque opaque, bool of_nulls,
						const char *row);
static void sign_row(const GjIndexInfo *info, const char *row, bool of_nulls, char *bytes);
static int64 get_rest(const GjIndexInfo *info, const char *row);
static void audit_run(CheckState *state, int number);
static void check_directory(RunCheck *check, BlockNumber block, int level, const GjPlace *first);
static GjDirectory *copy_directory(RunCheck *check, BlockNumber block, int level, int *n);
static void check_run_page(RunCheck *check, BlockNumber block, const GjPlace *first);
static void audit_order(RunCheck *check, BlockNumber block, Page page, const GjPlace *first);
static void audit_delta(CheckState *state, const GjDelta *delta);
static void check_open_pages(CheckState *state);
static void check_all_named(CheckState *state);
static bool name_page(CheckState *state, BlockNumber by, BlockNumber block, uint32 run,
					  bool is_data);
static void check_heap(CheckState *state, Snapshot snapshot);
static void check_heap_tuple(Relation index, ItemPointer tid, Datum *values, bool *isnull,
							 bool tuple_is_alive, void *arg);
static void check_wrong(CheckState *state, BlockNumber block, const char *detail);
static void check_lower(CheckState *state, BlockNumber block, Page page, const void *end);
static void audit_tail(CheckState *state, BlockNumber block);
static void check_page(CheckState *state, BlockNumber block);
static void check_lists(CheckState *state);
static void check_against_heap(CheckState *state);

/*
 * gpujoin_check(index regclass, heapallindexed boolean) returns bigint
 *
 * Verify an index, or those of all partitions.  Returns the number of verified entries, or raises
 * ERRCODE_INDEX_CORRUPTED.
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

		nentries += audit_index(lfirst_oid(lc), PG_GETARG_BOOL(1));
		MemoryContextSwitchTo(caller);
		MemoryContextDelete(context);
	}
	PG_RETURN_INT64((int64) nentries);
}

static uint64
audit_index(Oid index_oid, bool heapallindexed)
{
	CheckState	state = {0};

	state.index = GjOpenManagedIndex(index_oid);
	if (heapallindexed)
		check_against_heap(&state);
	else
		check_pages(&state);
	index_close(state.index, AccessShareLock);
	return state.nentries;
}

/*
 * Check the pages of an index, for test/fuzz
 */
void
GjCheckPages(Relation index)
{
	CheckState	state = {.index = index};

	check_pages(&state);
}

/*
 * gpujoin_index_info(index regclass): return statistics of an index, reading all of it
 */
Datum
gpujoin_index_info(PG_FUNCTION_ARGS)
{
	CheckState	state = {0};
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
	check_pages(&state);

	for (int i = 0; i < state.now.nruns; i++)
	{
		const GjRun *run = &state.now.runs[i];

		entries[i] = GjRunCountAlive(run);
		pages[i] = run->data_pages + run->directory_pages;
		dead += run->dead;
	}
	for (int i = 0; i < lengthof(state.now.deltas); i++)
		delta_pages += state.now.deltas[i].run == 0 ? 0 : state.now.deltas[i].data_pages;

	values[0] = Int64GetDatum(state.nblocks);
	values[1] = Int64GetDatum(state.nentries);
	values[2] = Int64GetDatum(state.free_slots);
	values[3] = Int64GetDatum(state.free_pages);
	values[4] = Int32GetDatum(state.info.plain_slots);
	values[5] = Int32GetDatum(state.info.key_width);
	values[6] = Int32GetDatum(state.info.nlanes);
	values[7] = Int32GetDatum(state.now.nopen);
	values[8] = Int64GetDatum((int64) state.now.sequence);
	values[9] = Int64GetDatum((int64) state.now.vacuum_epoch);
	values[10] = Int32GetDatum(state.now.format);
	values[11] = Int32GetDatum(state.info.nvalues);
	values[12] = Int32GetDatum(state.now.nruns);
	values[13] = make_bigints(entries, state.now.nruns);
	values[14] = make_bigints(pages, state.now.nruns);
	values[15] = Int64GetDatum((int64) dead);
	values[16] = Int64GetDatum((int64) delta_pages);
	values[17] = Int64GetDatum(state.merge_pages);
	values[18] = CStringGetTextDatum(name_keys(state.index));
	values[19] = describe_included(&state);
	values[20] = describe_bytes(&state);
	values[21] = Int64GetDatum(state.null_entries);
	nulls[21] = !state.info.stores_nulls;
	index_close(state.index, AccessShareLock);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}

/*
 * Return how an index stores its keys
 */
static const char *
name_keys(Relation index)
{
	GjCodec		codec;

	GjCodecInitIndex(&codec, index);
	if (codec.kind == GJ_CODEC_TEXT)
		return "values or hashes";
	if (codec.kind != GJ_CODEC_HASH)
		return "values";
	return OidIsValid(codec.image.fn_oid) ? "images or hashes" : "hashes";
}

/*
 * Describe the INCLUDE columns that may lack values, as an object of objects
 */
static Datum
describe_included(const CheckState *state)
{
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfoChar(&json, '{');
	for (int i = 0; i < state->info.nvalues; i++)
	{
		const GjIncludedColumn *column = &state->info.included[i];
		char	   *name;

		if (!GjKindMayLack(column->kind))
			continue;
		name = get_attname(state->index->rd_index->indrelid,
						   state->index->rd_index->indkey.values[i + 1], false);
		if (json.len > 1)
			appendStringInfoString(&json, ", ");
		escape_json(&json, name);
		appendStringInfo(&json, ": {\"absent\": " UINT64_FORMAT, state->absent[i]);
		if (column->kind == GJ_COLUMN_NUMERIC)
			appendStringInfo(&json, ", \"display_scale\": %d, \"stored_scale\": %d",
							 column->display_scale, column->stored_scale);
		appendStringInfoChar(&json, '}');
	}
	appendStringInfoChar(&json, '}');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}

/*
 * Describe how many bytes a slot has on the pages of runs, on average, for each column of the index
 * and the TID.  A value of two words, or a key with a rest, is one.
 */
static Datum
describe_bytes(const CheckState *state)
{
	const GjIndexInfo *info = &state->info;
	TupleDesc	desc = RelationGetDescr(state->index);
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfoChar(&json, '{');
	for (int i = -1; i < desc->natts && state->run_slots > 0; i++)
	{
		int			second = i < 0 ? 0 : GjIndexSecondColumn(info, i);
		uint64		bytes = state->run_bytes[i < 0 ? GJ_TID_COLUMN :
											 i == 0 ? GJ_KEY_COLUMN : GJ_FIRST_INCLUDED + i - 1];

		if (second > 0)
			bytes += state->run_bytes[GJ_FIRST_INCLUDED + second - 1];
		if (i >= 0)
			appendStringInfoString(&json, ", ");
		escape_json(&json, i < 0 ? "ctid" : NameStr(TupleDescAttr(desc, i)->attname));
		appendStringInfo(&json, ": %.2f", (double) bytes / state->run_slots);
	}
	appendStringInfoChar(&json, '}');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}

/* Count the bytes of a page of a run */
static void
count_bytes(CheckState *state, Page page)
{
	const GjIndexInfo *info = &state->info;
	uint64		slots = GjDataSlots(page, info);

	state->run_slots += slots;
	for (int i = 0; i < GJ_FIRST_INCLUDED + info->nincluded; i++)
	{
		int			width = i == GJ_KEY_COLUMN ? info->key_width :
			i == GJ_TID_COLUMN ? (int) sizeof(ItemPointerData) :
			info->included[i - GJ_FIRST_INCLUDED].width;

		state->run_bytes[i] += slots * (GjDataIsNarrow(page) ? GjPageGetNarrow(page)[i].width :
										width);
	}
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
 * Check all pages, tails first; repeat until no fold has changed the lists meanwhile
 */
static void
check_pages(CheckState *state)
{
	bool		is_locked = false;
	bool		is_again = false;

	do
	{
		/* without the lock, another fold may disturb this round, too */
		if (is_again && !is_locked && !RecoveryInProgress())
			is_locked = GjFoldTryLock(state->index, ShareLock);
		is_again = true;
		reset(state);
		check_meta(state);
		for (BlockNumber tail = GJ_FIRST_TAIL_BLOCK; tail < state->info.first_data; tail++)
			audit_tail(state, tail);

		GjIndexGetState(state->index, &state->now);
		state->nblocks = GjIndexGetLength(state->index);
		state->pages = MemoryContextAllocExtended(CurrentMemoryContext,
												  state->nblocks * sizeof(CheckedPage),
												  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
		for (BlockNumber block = state->info.first_data; block < state->nblocks; block++)
		{
			CHECK_FOR_INTERRUPTS();
			check_page(state, block);
		}
		GjStep("checked");
		check_lists(state);
		check_journal(state);
		pfree(state->pages);
	} while (state->moved || GjListsMoved(state->index, &state->now));
	if (is_locked)
		GjFoldUnlock(state->index, ShareLock);
}

/*
 * Reset the counts
 */
static void
reset(CheckState *state)
{
	state->moved = false;
	state->end_in_use = 0;
	state->nentries = 0;
	state->null_entries = 0;
	state->free_slots = 0;
	state->free_pages = 0;
	state->merge_pages = 0;
	state->merge_gaps = 0;
	state->max_change = 0;
	state->max_run = 0;
	memset(state->run_entries, 0, sizeof(state->run_entries));
	state->run_slots = 0;
	memset(state->run_bytes, 0, sizeof(state->run_bytes));
	memset(state->absent, 0, sizeof(state->absent));
	if (state->filter_entries > 0)
	{
		if (state->filter != NULL)
			bloom_free(state->filter);
		state->filter = bloom_create(state->filter_entries, maintenance_work_mem, 0);
	}
}

/*
 * Report corruption, unless the lists have changed, which would explain the finding
 */
static void
check_wrong(CheckState *state, BlockNumber block, const char *detail)
{
	if (!state->moved)
		state->moved = GjListsMoved(state->index, &state->now);
	if (!state->moved)
		GjReportCorruption(state->index, block, detail);
}

/*
 * Check where a page's contents end
 *
 * Only generic WAL reads that: the next change to the page zeroes the bytes after it.
 */
static void
check_lower(CheckState *state, BlockNumber block, Page page, const void *end)
{
	if ((char *) page + ((PageHeader) page)->pd_lower != (const char *) end)
		GjReportCorruption(state->index, block, "The page's contents do not end where it says.");
}

/*
 * Check the metapage, and that the file has all blocks that the metapage counts
 */
static void
check_meta(CheckState *state)
{
	GjIndexState nulls;

	(void) GjIndexGetLength(state->index);
	GjIndexGetInfo(state->index, &state->info);
	if (state->info.stores_nulls)
		GjIndexGetPart(state->index, true, &nulls);	/* which checks the page that is open */
	state->wide = GjWideCreate(&state->info);
	GjIndexGetState(state->index, &state->now);
	state->min_blocks = state->now.min_blocks;
}

/*
 * Check the journal and the open pages, both under the metapage's lock
 *
 * The journal is locked first, as everywhere.  This is the last check, so no page that has been
 * read can have a larger change counter than the sequence.
 */
static void
check_journal(CheckState *state)
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
	check_lower(state, GJ_META_BLOCK, BufferGetPage(metabuf), GjMetaEnd(meta));
	check_lower(state, GJ_JOURNAL_BLOCK, BufferGetPage(journalbuf), ring + GJ_JOURNAL_ENTRIES);

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
check_lanes(CheckState *state, GjMetaPage meta)
{
	for (int lane = 0; lane < meta->nlanes + GjMetaHasNulls(meta); lane++)
	{
		BlockNumber block = GjMetaGetLane(meta, lane)->open_block;

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
 * Check the number of deleted entries of runs: at most the metapage's current count, and at least
 * its count when the lists were read
 */
static void
check_counters(CheckState *state, GjMetaPage meta)
{
	if (state->moved || meta->list_version != state->now.list_version)
		return;
	/* deletions are counted with the change of the page; later steps of the merge only add pages */
	if (state->merge_gaps < state->now.merge_dead)
		GjReportCorruption(state->index, GJ_META_BLOCK,
						   "The metapage miscounts the deleted entries of a merge.");
	for (int i = 0; i < state->now.nall; i++)
	{
		const GjRun *run = &state->now.runs[i];
		const GjRun *last = i < state->now.nruns ? GjMetaGetRun(meta, i) :
			&GjMetaGetNulls(meta)->runs[i - state->now.nruns];
		uint64		deleted = run->entries - Min(state->run_entries[i], run->entries);

		if (state->run_entries[i] > run->entries || deleted < run->dead || deleted > last->dead)
			GjReportCorruption(state->index, GJ_META_BLOCK,
							   "The metapage miscounts the deleted entries of a run.");
	}
}

/*-------------------------------------------------------------------------
 * Pages
 *
 * gpujoin_check(): check each page by itself.
 *
 * Pages of runs and deltas that are not live any longer, or not yet, only need to be valid pages.
 *-------------------------------------------------------------------------
 */

static void
audit_tail(CheckState *state, BlockNumber block)
{
	Buffer		buffer = ReadBuffer(state->index, block);
	Page		page = BufferGetPage(buffer);
	GjPageOpaque opaque;
	GjIndexState now;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	GjPageCheck(state->index, buffer, GJ_PAGE_TAIL);
	opaque = GjPageGetOpaque(page);
	if (opaque->used > state->info.tail_rows)
		GjReportCorruption(state->index, block, "A tail page has too many rows.");
	if ((char *) page + ((PageHeader) page)->pd_lower <
		GjTailRow(page, &state->info, opaque->used))
		GjReportCorruption(state->index, block,
						   "A tail page's end does not agree with its number of rows.");
	/* a row is added, and the metapage changed, under both locks, taken in this order */
	if (opaque->used > 0 && block < GJ_FIRST_TAIL_BLOCK + state->info.nlanes)
	{
		GjIndexGetState(state->index, &now);
		if ((now.used_tails >> (block - GJ_FIRST_TAIL_BLOCK) & 1) == 0)
			GjReportCorruption(state->index, block,
							   "The metapage says that a tail page with rows is empty.");
	}
	for (int row = 0; row < opaque->used; row++)
		check_entry(state, block, NULL, block == GJ_FIRST_TAIL_BLOCK + state->info.nlanes,
					GjTailRow(page, &state->info, row));
	UnlockReleaseBuffer(buffer);
}

/*
 * Check a page from first_data on, and record its owner
 */
static void
check_page(CheckState *state, BlockNumber block)
{
	Buffer		buffer = ReadBufferExtended(state->index, MAIN_FORKNUM, block, RBM_NORMAL, NULL);
	Page		page = BufferGetPage(buffer);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (GjPageIsUnused(page))
	{
		/* whatever truncated the file may also have extended it again */
		if (block + 1 == state->min_blocks)
			GjReportCorruption(state->index, block,
							   "The last page that the metapage counts is all zeroes.");
		state->free_pages++;
	}
	else
	{
		GjPageKind	kind = GjPageCheckKind(state->index, buffer);
		GjPageOwner owner = GjPageGetOwner(&state->now, page);

		if (kind < GJ_PAGE_DATA || kind > GJ_PAGE_LIST)
			GjReportCorruption(state->index, block, "The page is of a kind that is not for here.");
		if (owner == GJ_OWNER_RUN || owner == GJ_OWNER_DELTA || owner == GJ_OWNER_OTHER)
			note_page(state, block, page, kind, owner == GJ_OWNER_OTHER);
		else if (owner == GJ_OWNER_MERGE)
			note_merge_page(state, block, page, kind);
		state->free_pages += owner == GJ_OWNER_NOBODY;
		state->max_change = Max(state->max_change, GjPageGetOpaque(page)->change);
		if (GjPageGetOpaque(page)->run > state->max_run)
		{
			state->max_run = GjPageGetOpaque(page)->run;
			state->max_run_block = block;
		}
	}
	UnlockReleaseBuffer(buffer);
}

/*
 * Check a live page
 */
static void
note_page(CheckState *state, BlockNumber block, Page page, GjPageKind kind, bool of_nulls)
{
	GjPageOpaque opaque = GjPageGetOpaque(page);
	CheckedPage *checked = &state->pages[block];

	checked->run = opaque->run;
	checked->is_data = kind == GJ_PAGE_DATA;
	checked->is_late = opaque->change > state->now.sequence;
	state->end_in_use = block + 1;
	if (kind == GJ_PAGE_DATA)
		check_data(state, block, page, of_nulls);
	else if (kind == GJ_PAGE_LIST)
		check_list(state, block, page);
	else
		check_lower(state, block, page, GjPageGetDirectory(page) + 1);
}

/*
 * Check a page of a run that a merge is writing.  Its entries are in other runs, too, and no
 * directory names it yet.
 */
static void
note_merge_page(CheckState *state, BlockNumber block, Page page, GjPageKind kind)
{
	state->merge_pages++;
	if (kind == GJ_PAGE_DATA)
	{
		int			count = check_slots(state, block, page);

		state->merge_gaps += GjDataSlots(page, &state->info) - count;
	}
}

/*
 * Check that a data page counts its entries; returns their number
 */
static int
check_slots(CheckState *state, BlockNumber block, Page page)
{
	int			count;

	GjNarrowDemand(state->index, block, page, &state->info);
	/* the arrays of a page that has just been put into use do not count as its contents yet */
	if (!GjDataIsNarrow(page) &&
		(GjPageGetOpaque(page)->used > 0 ||
		 ((PageHeader) page)->pd_lower > SizeOfPageHeaderData))
		check_lower(state, block, page, (char *) page + state->info.arrays_end);
	count = GjDataCount(page, &state->info);
	if (count != GjPageGetOpaque(page)->used)
		GjReportCorruption(state->index, block,
						   "A data page's count does not agree with its bitmap.");
	return count;
}

/*
 * Return the most slots that a narrow page of a run may have; 0 if it is a delta
 */
static int
slots_of_run(const CheckState *state, uint32 run)
{
	for (int i = 0; i < state->now.nall; i++)
	{
		if (state->now.runs[i].run == run)
			return state->now.runs[i].most_slots;
	}
	return 0;
}

/*
 * Check that the key and the TID of a narrow page are what searches, which do not truncate base and
 * offset, find there
 */
static void
check_offsets(CheckState *state, BlockNumber block, Page page, int slot, const char *row)
{
	const GjIndexInfo *info = &state->info;
	ItemPointerData tid;

	if (GjDataGetKey(page, info, slot) != GjRowGetKey(info, row, &tid))
		GjReportCorruption(state->index, block, "A key is out of range.");
	if (GjDataGetTid(page, info, slot) != GjPackTid(&tid))
		GjReportCorruption(state->index, block, "An entry has an impossible TID.");
}

static void
check_data(CheckState *state, BlockNumber block, Page page, bool of_nulls)
{
	GjPageOpaque opaque = GjPageGetOpaque(page);
	int			count = check_slots(state, block, page);
	int			nslots = GjDataSlots(page, &state->info);
	const GjIndexInfo *info = &state->info;
	Page		plain = GjDataOpen(state->index, block, page, &info, state->wide);

	if (GjDataIsNarrow(page) && nslots > slots_of_run(state, opaque->run))
		GjReportCorruption(state->index, block,
						   "A narrow page has more slots than the metapage says of its run.");
	for (int slot = 0; slot < nslots; slot++)
	{
		char		row[GJ_MAX_ROW_WIDTH];

		if (!GjDataIsUsed(plain, info, slot))
			continue;
		GjRowFromSlot(plain, info, slot, row);
		check_entry(state, block, opaque, of_nulls, row);
		check_offsets(state, block, page, slot, row);
	}
	state->free_slots += nslots - count;
}

static void
check_list(CheckState *state, BlockNumber block, Page page)
{
	if ((char *) page + ((PageHeader) page)->pd_lower != GjListEnd(page))
		GjReportCorruption(state->index, block,
						   "A list page's end does not agree with its number of elements.");
}

static void
check_entry(CheckState *state, BlockNumber block, GjPageOpaque opaque, bool of_nulls,
			const char *row)
{
	const GjIndexInfo *info = &state->info;
	ItemPointerData tid;
	int64		key = GjRowGetKey(info, row, &tid);

	if (!GjTidIsPossible(&tid))
		GjReportCorruption(state->index, block, "An entry has an impossible TID.");
	if (opaque != NULL && (key < opaque->min_key || key > opaque->max_key))
		GjReportCorruption(state->index, block,
						   "An entry's key is outside the bounds of its page.");
	if (of_nulls && (key != 0 || (info->has_rests && get_rest(info, row) != 0)))
		GjReportCorruption(state->index, block, "An entry of the NULL keys has a key.");
	for (int i = 0; i < info->nincluded; i++)
	{
		static const char zeroes[sizeof(Datum)] = {0};
		static const int64 absent = GJ_ABSENT;
		const GjIncludedColumn *column = &info->included[i];

		if ((row[info->row_nulls_offset + i / 8] & (1 << (i % 8))) != 0 &&
			memcmp(row + column->row_offset, zeroes, column->width) != 0)
			GjReportCorruption(state->index, block,
							   "An included value is marked NULL but is not zero.");
		if (GjKindMayLack(column->kind))
			state->absent[i] += memcmp(row + column->row_offset, &absent, sizeof(absent)) == 0;
	}
	state->nentries++;
	state->null_entries += of_nulls;
	if (state->filter)
	{
		char		bytes[GJ_MAX_ROW_WIDTH + 1];

		sign_row(info, row, of_nulls, bytes);
		bloom_add_element(state->filter, (unsigned char *) bytes, info->row_width + 1);
	}
}

static int64
get_rest(const GjIndexInfo *info, const char *row)
{
	int64		rest;

	memcpy(&rest, row + info->included[info->nvalues].row_offset, sizeof(rest));
	return rest;
}

/*
 * Copy a row's bytes, followed by a byte for the part that has the entry
 */
static void
sign_row(const GjIndexInfo *info, const char *row, bool of_nulls, char *bytes)
{
	memcpy(bytes, row, info->row_width);
	bytes[info->row_width] = of_nulls;
}

/*-------------------------------------------------------------------------
 * Runs
 *
 * gpujoin_check(): check that directories and lists name all existing pages, each once, and that
 * the entries of a run are in order.
 *
 * The pages of a run do not change while it is live.  A delta may grow: then a page that is not in
 * its list was changed after the list had been read.
 *-------------------------------------------------------------------------
 */

static inline bool
audit_is_equal(const GjPlace *a, const GjPlace *b)
{
	return a->key == b->key && a->tid == b->tid;
}

/*
 * Compare the lists of state->now with the pages that were read.  Ends early if the lists change.
 */
static void
check_lists(CheckState *state)
{
	for (int i = 0; i < state->now.nall && !state->moved; i++)
		audit_run(state, i);
	for (int i = 0; i < lengthof(state->now.deltas) && !state->moved; i++)
	{
		if (state->now.deltas[i].run != 0)
			audit_delta(state, &state->now.deltas[i]);
		if (state->now.other_deltas[i].run != 0 && !state->moved)
			audit_delta(state, &state->now.other_deltas[i]);
	}
	if (!state->moved)
		check_open_pages(state);
	if (!state->moved)
		check_all_named(state);
}

static void
audit_run(CheckState *state, int number)
{
	const GjRun *run = &state->now.runs[number];
	RunCheck	check = {state, run, number};

	check.last.key = PG_INT64_MIN;
	if (name_page(state, GJ_META_BLOCK, run->root, run->run, false))
		check_directory(&check, run->root, run->height - 1, NULL);
	if (state->moved)
		return;
	if (check.data_pages != run->data_pages || check.directory_pages != run->directory_pages)
		check_wrong(state, GJ_META_BLOCK, "The metapage miscounts the pages of a run.");
	else if (check.last.key != run->max_key)
		check_wrong(state, GJ_META_BLOCK, "A run's largest key is not what the metapage says.");
}

/*
 * Check a page of the directory, to which its parent points, and all pages below it
 */
static void
check_directory(RunCheck *check, BlockNumber block, int level, const GjPlace *first)
{
	CheckState *state = check->state;
	int			n;
	GjDirectory *directory = copy_directory(check, block, level, &n);

	check->directory_pages++;
	for (int i = 0; directory != NULL && i < n && !state->moved; i++)
	{
		GjPlace		place = {directory->keys[i], GjPackTid(&directory->tids[i])};

		if (i == 0 && first == NULL && place.key != check->run->min_key)
			check_wrong(state, block, "A run's smallest key is not what the metapage says.");
		if (i == 0 && first != NULL && !audit_is_equal(&place, first))
			check_wrong(state, block,
						"A directory page does not begin where the one above it says.");
		if (state->moved ||
			!name_page(state, block, directory->blocks[i], check->run->run, level == 0))
			break;
		if (level > 0)
			check_directory(check, directory->blocks[i], level - 1, &place);
		else
			check_run_page(check, directory->blocks[i], &place);
	}
	if (directory != NULL)
		pfree(directory);
}

/*
 * Copy a directory page; returns NULL if the lists have changed
 */
static GjDirectory *
copy_directory(RunCheck *check, BlockNumber block, int level, int *n)
{
	CheckState *state = check->state;
	GjDirectory *directory = palloc(sizeof(GjDirectory));
	Buffer		buffer = ReadBuffer(state->index, block);
	Page		page = BufferGetPage(buffer);

	CHECK_FOR_INTERRUPTS();
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (GjPageCheckKind(state->index, buffer) != GJ_PAGE_DIRECTORY ||
		GjPageGetOpaque(page)->run != check->run->run)
		check_wrong(state, block, "The page is not of the directory that it is in.");
	else if (GjPageGetDirectory(page)->level != level || GjPageGetOpaque(page)->used < 1)
		GjReportCorruption(state->index, block, "A directory page is not what its place says.");
	memcpy(directory, GjPageGetDirectory(page), sizeof(GjDirectory));
	*n = GjPageGetOpaque(page)->used;
	UnlockReleaseBuffer(buffer);
	if (!state->moved)
		return directory;
	pfree(directory);
	return NULL;
}

static void
check_run_page(RunCheck *check, BlockNumber block, const GjPlace *first)
{
	CheckState *state = check->state;
	Buffer		buffer = ReadBuffer(state->index, block);
	Page		page = BufferGetPage(buffer);

	CHECK_FOR_INTERRUPTS();
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (GjPageCheckKind(state->index, buffer) != GJ_PAGE_DATA ||
		GjPageGetOpaque(page)->run != check->run->run)
		check_wrong(state, block, "The page is not of the run that it is in.");
	else
		audit_order(check, block, page, first);
	UnlockReleaseBuffer(buffer);
}

/*
 * Check the order of a page's entries, including deleted ones.  All pages of a run were full once,
 * except the last one.
 */
static void
audit_order(RunCheck *check, BlockNumber block, Page page, const GjPlace *first)
{
	CheckState *state = check->state;
	const GjIndexInfo *info = &state->info;
	int			nslots = GjDataSlots(page, info);
	int			n = (int) Min(check->run->entries - check->had, (uint64) nslots);

	GjNarrowDemand(state->index, block, page, info);
	for (int slot = 0; slot < nslots; slot++)
	{
		GjPlace		place;

		if (slot >= n)
		{
			if (GjDataIsUsed(page, info, slot))
				GjReportCorruption(state->index, block, "A run has more entries than it should.");
			continue;
		}
		place = GjDataGetPlace(page, info, slot);
		if (slot == 0 && !audit_is_equal(&place, first))
			GjReportCorruption(state->index, block,
							   "A data page does not begin where the directory says.");
		if (GjPlaceIsBefore(&place, &check->last))
			GjReportCorruption(state->index, block, "The entries of a run are not in order.");
		check->last = place;
	}
	check->data_pages++;
	check->had += n;
	state->run_entries[check->number] += GjPageGetOpaque(page)->used;
	count_bytes(state, page);
}

static void
audit_delta(CheckState *state, const GjDelta *delta)
{
	GjIndexState alone = state->now;
	BlockNumber *blocks;
	BlockNumber nblocks;
	BlockNumber nlists = 0;
	BlockNumber nold = 0;

	alone.deltas[0] = *delta;
	alone.deltas[1].run = 0;
	if (!GjDeltaGetBlocks(state->index, &alone, &blocks, &nblocks))
	{
		state->moved = true;
		return;
	}
	for (BlockNumber i = 0; i < nblocks; i++)
	{
		if (!name_page(state, delta->head, blocks[i], delta->run, true))
			break;
	}
	pfree(blocks);

	for (BlockNumber block = state->info.first_data; block < state->nblocks; block++)
	{
		const CheckedPage *page = &state->pages[block];

		if (page->run != delta->run || page->is_data)
			continue;
		nlists++;
		nold += !page->is_late;
	}
	if (nold > delta->list_pages || nlists < delta->list_pages)
		check_wrong(state, GJ_META_BLOCK, "The metapage miscounts the list pages of a delta.");
}

/*
 * Check that the open pages of lanes are in a delta's list
 */
static void
check_open_pages(CheckState *state)
{
	for (int i = 0; i < state->now.nopen && !state->moved; i++)
	{
		const CheckedPage *page = &state->pages[state->now.open_blocks[i]];

		if (!page->named || (page->run != state->now.deltas[0].run &&
							 page->run != state->now.deltas[1].run))
			check_wrong(state, state->now.open_blocks[i],
						"A lane has a page open that is of no delta.");
	}
}

/*
 * Check that no page claims to belong to a run or delta that does not list it
 */
static void
check_all_named(CheckState *state)
{
	for (BlockNumber block = state->info.first_data; block < state->nblocks; block++)
	{
		const CheckedPage *page = &state->pages[block];
		bool		of_run = false;

		if (page->run == 0 || page->named)
			continue;
		for (int i = 0; i < state->now.nall; i++)
			of_run |= state->now.runs[i].run == page->run;
		if (of_run || (page->is_data && !page->is_late))
			check_wrong(state, block, "The page is in no directory and no list.");
	}
}

/*
 * Record that a directory or list names a page; returns false if it must not
 */
static bool
name_page(CheckState *state, BlockNumber by, BlockNumber block, uint32 run, bool is_data)
{
	CheckedPage *page;

	if (block < state->info.first_data || block >= state->nblocks)
	{
		check_wrong(state, by, "A directory or list names a page that does not exist.");
		return false;
	}
	page = &state->pages[block];
	if (page->run != run || page->is_data != is_data)
	{
		check_wrong(state, block, "The page is not of the directory or list that names it.");
		return false;
	}
	if (page->named)
	{
		check_wrong(state, block, "The page is named twice by directories or lists.");
		return false;
	}
	page->named = true;
	return true;
}

/*-------------------------------------------------------------------------
 * The heap
 *
 * gpujoin_check() with heapallindexed: check that every tuple has its entry.
 *
 * The check takes a snapshot first, then a fingerprint of every entry (tails before
 * data pages, for the reason given in match/search.c), then reads the heap under the
 * snapshot: each tuple that the snapshot sees was indexed before the fingerprints were
 * taken, so it must be among them, with the same values in its INCLUDE columns.  A
 * Bloom filter keeps the fingerprints: with a small probability it overlooks a missing
 * entry, but it never reports an existing one.
 *-------------------------------------------------------------------------
 */

/*
 * Check the pages, and the heap against them
 *
 * The index may have expressions and a predicate: functions of the table's owner,
 * which must not run with the rights of the caller.
 */
static void
check_against_heap(CheckState *state)
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
	check_pages(state);
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
check_heap(CheckState *state, Snapshot snapshot)
{
	Relation	heap = table_open(state->index->rd_index->indrelid, AccessShareLock);
	IndexInfo  *indexInfo = BuildIndexInfo(state->index);
	TableScanDesc scan;

	/*
	 * If the build of an index met broken HOT chains, the index need not contain
	 * the rows that an older snapshot sees.
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
	GjCodecInitIndex(&state->codec, state->index);
	state->scratch = AllocSetContextCreate(CurrentMemoryContext, "gpujoin check key",
										   ALLOCSET_DEFAULT_SIZES);
	table_index_build_scan(heap, state->index, indexInfo, true, false,
						   check_heap_tuple, state, scan);
	table_close(heap, NoLock);
}

static void
check_heap_tuple(Relation index, ItemPointer tid, Datum *values, bool *isnull,
				 bool tuple_is_alive, void *arg)
{
	CheckState *state = arg;
	MemoryContext old;
	char		row[GJ_MAX_ROW_WIDTH];
	char		bytes[GJ_MAX_ROW_WIDTH + 1];
	int64		code;
	int64		rest;

	CHECK_FOR_INTERRUPTS();
	if (isnull[0] && !state->info.stores_nulls)
		return;
	old = MemoryContextSwitchTo(state->scratch);
	if (isnull[0])
		code = rest = 0;
	else
		code = GjPairOf(&state->codec, values[0], &rest);
	GjRowForm(&state->info, code, rest, tid, values + 1, isnull + 1, row);
	MemoryContextSwitchTo(old);
	MemoryContextReset(state->scratch);
	sign_row(&state->info, row, isnull[0], bytes);
	if (bloom_lacks_element(state->filter, (unsigned char *) bytes, state->info.row_width + 1))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("heap tuple (%u,%u) lacks an entry in index \"%s\"",
						ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid),
						RelationGetRelationName(index)),
				 errhint("Please REINDEX it.")));
}
