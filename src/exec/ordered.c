/*-------------------------------------------------------------------------
 *
 * ordered.c
 *	  Rows of a GpuScan in an order: ORDER BY ... LIMIT.
 *
 * If the order is that of the key, first of all, and the scan is not for a list of keys, then the
 * keys are cut into slices, in the order of the scan (match/slice.c).  The first one has about as
 * many entries as the plan's bound says will be requested, each further one four times as many.
 * Each slice is a match of its own, and what follows describes the rows of one slice.  Otherwise
 * all keys are one slice.
 *
 * The index has the sort columns.  So the matching entries are put in order before the heap is
 * read, and only the first ones are fetched, one by one, as long as the caller requests more.  The
 * entries that are kept form a batch: the first ones of the whole answer, a few more than the
 * plan's bound says will be requested (sets/top.c).  If they are not enough, the next batch, four
 * times as long, has the entries that come after the last one of this batch.  Entries that a
 * device returned all at once are still in memory then; otherwise the index is searched again.  So
 * the memory needed is that of a batch and of a piece of the match.  After a few batches
 * (sets/top.c), all remaining rows are sorted at once.
 *
 * The order is total: the sort columns, then the TID.  It tells whether an entry is before, in, or
 * after a batch, whichever match the entry comes from.
 *
 * Claim: each row that is visible to the snapshot and has one of the keys is returned once, in the
 * place that its own values have.  Let R be such a row, T the TID of the root of its HOT chain,
 * and v its values of the sort columns.
 *
 * a. R has its own entry (T, v) in the index as long as the snapshot exists: lemma L4 of
 *	  src/README.
 * b. Each match finds it, as match/match.h promises.  A set of entries may keep any one of the
 *	  entries with the same TID; but two of them that are not equal belong to rows that are not
 *	  visible to our snapshot: lemma L7.  An outdated answer of a device has only TIDs.  It is not
 *	  used: the CPU searches.
 * c. So exactly one batch contains (T, v): that of the slice that has the key, and in it the one
 *	  between whose ends (v, T) lies.  Slices have different keys, and each comes after the one
 *	  before in the order, so the order of all batches is that of (v, T).  If a match
 *	  meets it twice, on a tail page and where it was moved to, or by a device and on the CPU, both
 *	  copies have equal words and one is kept.
 * d. When its turn comes, it is either a row by the visibility map and the epoch, as in
 *	  match/visible.c: each group of entries is tested after it was found, and the epoch after
 *	  that; and its code must not be a hash.  Or T is fetched from the heap under the snapshot,
 *	  along the HOT chain, which yields R.
 * e. Nothing else is returned.  An entry that passes the visibility map is a row with the entry's
 *	  values.  The key of a fetched row is looked up, and its sort columns must be those of the
 *	  entry: a row at a reused TID has an entry of its own, and is returned with that.
 *
 * A device need not send entries that come after the first batch, if it can tell (GJD_CAN_TOP).  So
 * the first batch requests a limited number of entries, L, more than it has room for.  A device
 * then sends at least the first L by the first sort column, with all that tie with them; it may
 * send others.  Claim: the batch is the same as without a limit if it is full, with n entries, and
 * n + u + d <= L, where u is the number of doubles that were dropped, and d that of the device's
 * entries that were dropped otherwise: by a filter, or because the CPU had found their TIDs, too.
 * Let v be the value that the batch's last entry has in the first sort column.  Each entry that the
 * device sent and whose value is before v comes before the batch's last entry; so it is in the
 * batch, is a double, or was dropped, and with the last entry these are at most L.  Hence v is not
 * after the value of the L-th entry, and the device has sent all entries with values up to v.  The
 * entries of the batch and those before its last one have such values, and the CPU's entries are
 * complete.  Otherwise the match is repeated without a limit, as it is for all later batches.
 *
 * Entries that do not pass a filter of INCLUDE columns are dropped before they are put in order;
 * match/stream.c proves that no row is lost.
 *
 * An entry may lack the value of a numeric sort column (base/numeric.c).  The TIDs of all such
 * entries are set aside when the first batch is selected, without a limit for a device, and then
 * fetched.  Those that are rows are *strays*, which sets/top.c puts in their places in each batch,
 * by the values of the tuples.  Under one snapshot they stay the same rows.  Each match finds their
 * own entries again, which lack the value, so no other entry leads to them.  If they take too much
 * memory, there are no batches, and all rows are sorted.
 *
 * If the index cannot tell which rows there are (rows with a NULL key are wanted that it does not
 * store, or the snapshot may see rows that the index lacks), each batch reads the whole heap, and
 * the tuples themselves are put in order.  A tuple is then identified by its own TID, not by that
 * of its chain's root, and is fetched by it.  The choice between entries and tuples is made once
 * for all batches.
 *
 * Serializable transactions lock the index as for any match, or the heap, and each tuple as it is
 * fetched; they get no rows from entries.
 *
 * EvalPlanQual tests the key of a row that was replaced.  The row may be returned at another place
 * than its new values would have, as with PostgreSQL's own index scans.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "base/settings.h"
#include "base/tid.h"
#include "exec.h"

/* Number of entries that are tested for visibility at a time, at most */
#define GJ_ORDERED_GROUP		256

/* Number of entries that a device is asked for beyond those of a batch */
#define SPARE_ENTRIES			1024

/* Fraction of the rows that is charged for sorting even if the quals remove nearly all */
#define LEAST_PASSED			0.125

/* The rows that are returned next */
typedef enum GjOrderedPhase
{
	GJ_ORDERED_START,			/* nothing has been selected */
	GJ_ORDERED_BATCHES,			/* rows of batches */
	GJ_ORDERED_REST,			/* rows after the last batch, which must be sorted first */
	GJ_ORDERED_SORTED,			/* rows from the sort */
	GJ_ORDERED_DONE				/* none: all sorted rows have been returned */
} GjOrderedPhase;

struct GjOrdered
{
	GjOrderedPhase phase;
	GjTop	   *top;
	GjSortColumn *columns;
	AttrNumber *attnos;			/* attribute of the table, for each sort column */
	int			ncolumns;
	GjEntryWidths widths;
	uint64		matched;		/* columns of the index that a match must return */
	bool		index_only;
	bool		may_hash;		/* is an entry whose code is a hash no row? */
	bool		may_lack;		/* may an entry lack the value of a sort column? */
	uint64		words;			/* columns of filters and the order that an entry may lack */
	bool		by_key;			/* is the order that of the index's codes, first of all? */
	uint64		bound;			/* number of rows in the first batch */
	bool		can_limit;		/* true if a device can put entries in the order of the first sort
								 * column, and its limit has not been too low */

	/* The source of the batches */
	bool		all;			/* true for the scan's rows: all tuples of the heap */
	GjEntryStream *stream;		/* entries, or NULL before the first batch and after the last one */
	GjSlices	slices;			/* slices of the keys that come after this one, if any */
	GjKeySet   *slice;			/* keys of the stream; NULL if these are all */
	GjTidSet   *lacking;		/* TIDs of entries that lack a sort column; NULL once fetched */
	bool		gives_up;		/* must all rows be sorted, as the strays take too much memory? */

	/* The current batch */
	GjTopBatches batches;
	uint64		searched;		/* number of index entries that the CPU searched for it */
	uint64		matched_entries;	/* number of matching entries */
	uint64		failed_entries; /* number of entries that failed the filter after the match */
	uint64		next;
	double		passed;			/* number of rows that have been returned so far */
	uint64		first_tested;	/* first entry of the group tested for visibility */
	uint64		end_tested;		/* entry after that group */
	bool		visible[GJ_ORDERED_GROUP];	/* result for each entry of the group */
	bool		certain;		/* true until the epoch has moved */
	BlockNumber nblocks;		/* lower bound of the heap's length, for GjIsPastHeap() */
	uint64		prefetched;		/* entries before this one have had their blocks prefetched */

	/* The remaining rows */
	GjSorter   *sorter;			/* NULL until rows are sorted */
	BlockNumber roots_block;	/* a heap block, and the roots of its HOT chains */
	OffsetNumber roots[MaxHeapTuplesPerPage];
};

static void init_columns(GjOrdered *ordered, Relation index, List *order, TupleDesc desc);
static TupleTableSlot *next_from_batches(ScanState *node);
static void ordered_start(GjScanState *scan);
static bool may_slice(const GjScanState *scan);
static bool ordered_go_on(GjOrdered *ordered);
static bool take_slice(GjScanState *scan, bool exact);
static void select_batch(GjScanState *scan, bool after_last);
static void select_entries(GjScanState *scan, bool after_last);
static bool is_complete(const GjOrdered *ordered);
static bool is_limited(const GjOrdered *ordered);
static void ordered_add_rows(GjScanState *scan);
static void ordered_add_entries(GjScanState *scan, bool limited);
static void begin_match(GjScanState *scan, bool limited);
static uint64 get_limit(const GjOrdered *ordered);
static void forget_match(GjOrdered *ordered);
static void add_set(GjScanState *scan, const GjEntrySet *set);
static void add_chunk(GjScanState *scan, const GjEntrySet *set, uint64 chunk);
static int	set_aside(GjScanState *scan, const GjEntrySet *set, uint64 first, uint16 *rows, int n);
static void fetch_strays(GjScanState *scan);
static void forget_lacking(GjOrdered *ordered);
static bool is_row(GjScanState *scan, uint64 i);
static void test_group(GjScanState *scan, uint64 first);
static bool lacks_value(GjScanState *scan, uint64 i);
static void count_fetch(GjScanState *scan, bool lacks_value);
static bool fetch(GjScanState *scan, uint64 i);
static void ordered_prefetch(GjScanState *scan, uint64 i);
static void ordered_collect(GjScanState *scan);
static bool comes_later(GjScanState *scan, TupleTableSlot *slot);
static uint64 find_root(GjScanState *scan, TupleTableSlot *slot);
static TupleTableSlot *ordered_make_row(GjScanState *scan, uint64 i);
static void read_sort_values(const GjOrdered *ordered, TupleTableSlot *slot, Datum *values,
							 bool *isnull);
static void sort_rest(GjScanState *scan);
static TupleTableSlot *ordered_next_sorted(GjScanState *scan);

/*
 * Prepare to return rows in the plan's order.  Returns NULL if it has none.
 */
GjOrdered *
GjOrderedCreate(GjScanState *scan)
{
	ScanState  *node = &scan->table.css.ss;
	List	   *order = GjTableScanGetPrivate(&scan->table, GJ_SCAN_ORDER);
	const GjEntryTest *test = scan->table.test;
	GjOrdered  *ordered;
	uint64		kept = 0;

	if (order == NIL)
		return NULL;
	ordered = palloc0(sizeof(GjOrdered));
	ordered->bound = Max(intVal(GjTableScanGetPrivate(&scan->table, GJ_SCAN_BOUND)), 1);
	ordered->index_only = scan->table.row_shape != NULL;
	init_columns(ordered, scan->table.index, order, RelationGetDescr(node->ss_currentRelation));
	if (ordered->index_only)
	{
		ordered->words |= GjEntryFilterWords(scan->table.entry_filter);
		kept = scan->table.row_shape->columns | ordered->words;
	}
	ordered->may_hash = ordered->index_only && GjCodecMayHash(&scan->table.key_reader.codec);
	if (ordered->may_hash)
		kept |= GJ_ENTRY_KEY;
	ordered->matched |= kept | (test != NULL ? test->columns : 0);
	ordered->top = GjTopCreate(CurrentMemoryContext, ordered->columns, ordered->ncolumns,
							   &ordered->widths, kept);
	return ordered;
}

static void
init_columns(GjOrdered *ordered, Relation index, List *order, TupleDesc desc)
{
	GjIndexInfo info;
	ListCell   *lc;

	GjIndexGetInfo(index, &info);
	ordered->widths.key = info.key_width;
	ordered->widths.nincluded = info.nincluded;
	for (int i = 0; i < info.nincluded; i++)
		ordered->widths.included[i] = info.included[i].width;

	ordered->columns = palloc0(list_length(order) * sizeof(GjSortColumn));
	ordered->attnos = palloc0(list_length(order) * sizeof(AttrNumber));
	foreach(lc, order)
	{
		List	   *item = lfirst(lc);
		GjSortColumn *column = &ordered->columns[ordered->ncolumns];
		int			at = list_nth_int(item, GJ_ORDER_COLUMN);
		AttrNumber	attno = index->rd_index->indkey.values[at];
		Form_pg_attribute attribute = TupleDescAttr(desc, attno - 1);

		Assert(list_length(item) == GJ_ORDER_COUNT);
		if (!GjTypeSorts(attribute->atttypid, &column->kind))
			elog(ERROR, "a plan sorts by attribute %d, whose type cannot be sorted", attno);
		column->column = at;
		column->width = attribute->attbyval ? attribute->attlen : sizeof(int64);
		if (column->column > 0)
		{
			const GjIncludedColumn *included = &info.included[column->column - 1];

			column->stored_scale = included->stored_scale;
			column->second = included->second;
			ordered->matched |= included->second == 0 ? 0 : GJ_ENTRY_KEY << included->second;
		}
		if (column->kind == GJ_SORT_NUMERIC)
		{
			ordered->may_lack = true;
			ordered->words |= GJ_ENTRY_KEY << column->column;
		}
		column->descending = list_nth_int(item, GJ_ORDER_DESCENDING);
		column->nulls_first = list_nth_int(item, GJ_ORDER_NULLS_FIRST);
		ordered->matched |= GJ_ENTRY_KEY << column->column;
		ordered->attnos[ordered->ncolumns++] = attno;
	}
	ordered->by_key = ordered->columns[0].column == 0 &&
		ordered->columns[0].kind == GJ_SORT_SIGNED;
	ordered->can_limit = !ordered->may_lack &&
		(ordered->columns[0].kind == GJ_SORT_SIGNED || ordered->columns[0].kind == GJ_SORT_UUID);
}

/*
 * Return the next row in order.  Sorted rows have passed the quals before.
 */
TupleTableSlot *
GjOrderedNext(GjScanState *scan, ExecScanRecheckMtd recheck)
{
	GjOrdered  *ordered = scan->ordered;

	if (ordered->phase <= GJ_ORDERED_REST)
	{
		TupleTableSlot *slot = ExecScan(&scan->table.css.ss, next_from_batches, recheck);

		ordered->passed += !TupIsNull(slot);
		if (!TupIsNull(slot) || ordered->phase != GJ_ORDERED_REST)
			return slot;
		sort_rest(scan);
	}
	return ordered_next_sorted(scan);
}

/*
 * Access method of ExecScan(): return the next row of a batch.  If the slot is empty, either no
 * row is left, or the remaining rows must be sorted.
 */
static TupleTableSlot *
next_from_batches(ScanState *node)
{
	GjScanState *scan = (GjScanState *) node;
	GjOrdered  *ordered = scan->ordered;
	TupleTableSlot *slot;

	if (ordered->phase == GJ_ORDERED_START)
		ordered_start(scan);
	while (!ordered->gives_up)
	{
		bool		is_full = GjTopCount(ordered->top) >= ordered->batches.wanted;

		CHECK_FOR_INTERRUPTS();
		if (ordered->next < GjTopCount(ordered->top))
		{
			slot = ordered_make_row(scan, ordered->next++);
			if (slot != NULL)
				return slot;
			continue;
		}
		if (!is_full && !ordered->slices.is_left)
			return ExecClearTuple(node->ss_ScanTupleSlot);	/* no row is left */
		if (!ordered_go_on(ordered))
			break;
		if (!is_full && !take_slice(scan, ordered->matched_entries + ordered->failed_entries == 0))
			return ExecClearTuple(node->ss_ScanTupleSlot);
		select_batch(scan, true);
	}
	ordered->phase = GJ_ORDERED_REST;
	return ExecClearTuple(node->ss_ScanTupleSlot);
}

/*
 * Choose between entries and tuples, and select the first batch
 */
static void
ordered_start(GjScanState *scan)
{
	GjOrdered  *ordered = scan->ordered;
	uint64		bound = ordered->bound;
	Size		memory;

	Assert(ordered->phase == GJ_ORDERED_START);
	GjScanPrepare(scan);
	scan->table.used = true;
	if (ordered->by_key && may_slice(scan))
	{
		GjSlicesBegin(&ordered->slices, scan->table.index, scan->table.keys,
					  ordered->columns[0].descending, ordered->columns[0].nulls_first);
		bound *= GJ_SLICE_SPARE;
	}
	memory = GjScanMemory(scan) / GJ_ORDER_MEMORY_PART;
	ordered->phase = GJ_ORDERED_BATCHES;
	ordered->gives_up = false;
	ordered->passed = 0.0;
	GjTopBatchesStart(&ordered->batches, bound,
					  GjTopMaxWanted(GjTopSlotBytes(ordered->top), memory));
	if (ordered->may_lack)
		ordered->lacking = GjTidSetCreate(GetMemoryChunkContext(ordered), memory);
	/* without a key at all, all keys are one slice, which has no entry */
	if (ordered->slices.is_left)
		(void) take_slice(scan, false);
	select_batch(scan, false);
	if (ordered->index_only)
		GjNoteNoPlace(&scan->table.css.ss);
}

/*
 * Return true if the keys can be cut into slices
 */
static bool
may_slice(const GjScanState *scan)
{
	const GjKeySet *keys = scan->table.keys;

	return scan->table.key_reader.codec.keeps_value && !scan->ordered->may_lack &&
		!GjKeySetIsList(keys) && (!keys->nulls || GjIndexStoresNulls(scan->table.index));
}

/*
 * Advance to the next batch; returns false if the remaining rows should be sorted instead
 */
static bool
ordered_go_on(GjOrdered *ordered)
{
	double		searched = ordered->searched;
	double		matched = ordered->matched_entries;
	double		select = searched + matched;

	if (ordered->slices.is_left)
	{
		double		left = GjSlicesLeft(&ordered->slices);
		double		passed = ordered->passed /
			(ordered->batches.delivered + Max((double) GjTopCount(ordered->top), 1.0));

		/* rows that the quals remove are read in heap order, and need not be sorted */
		searched += left;
		matched += ordered->batches.delivered + left * Max(passed, LEAST_PASSED);
	}
	return GjTopBatchesNext(&ordered->batches, GjTopCount(ordered->top), select, searched,
							matched, !ordered->index_only);
}

/*
 * Turn to the next slice of the keys; returns false after the last one.  If exact is true, the
 * current one had no entry.
 */
static bool
take_slice(GjScanState *scan, bool exact)
{
	GjOrdered  *ordered = scan->ordered;
	GjKeySet   *last = ordered->slice;

	ordered->slice = GjSlicesNext(&ordered->slices, scan->table.context, ordered->batches.wanted,
								  exact);
	if (ordered->stream != NULL && ordered->slice != NULL)
		GjEntriesTurnTo(ordered->stream, ordered->slice);
	else if (ordered->stream != NULL)
		forget_match(ordered);
	if (last != NULL)
		GjKeySetFree(last);
	scan->order_stats.slices++;
	return ordered->slice != NULL;
}

/*
 * Select the first entries, or the first ones after the last entry of this batch
 */
static void
select_batch(GjScanState *scan, bool after_last)
{
	GjOrdered  *ordered = scan->ordered;
	GjTop	   *top = ordered->top;
	const GjMatchStats *stats = &scan->table.stats;
	uint64		searched = stats->entries - stats->device_entries;

	Assert(ordered->phase == GJ_ORDERED_BATCHES);
	if (after_last && is_limited(ordered))
		forget_match(ordered);
	select_entries(scan, after_last);
	scan->order_stats.limit = is_limited(ordered) ? get_limit(ordered) : 0;
	if (!is_complete(ordered))
	{
		Assert(!after_last);
		forget_match(ordered);
		scan->order_stats.limit = 0;
		ordered->can_limit = false;
		scan->order_stats.repeats++;
		select_entries(scan, false);
	}
	ordered->searched = stats->entries - stats->device_entries - searched;

	scan->order_stats.batches++;
	scan->order_stats.rows += GjTopCount(top);
	ordered->next = ordered->end_tested = ordered->prefetched = 0;
	ordered->certain = ordered->index_only && !ordered->all &&
		GjEntriesMayBeRows(scan->table.css.ss.ps.state->es_snapshot);
}

static void
select_entries(GjScanState *scan, bool after_last)
{
	GjOrdered  *ordered = scan->ordered;
	GjTop	   *top = ordered->top;

	GjTopStart(top, ordered->batches.wanted, after_last, ordered->slice != NULL);
	ordered->matched_entries = ordered->failed_entries = 0;
	if (scan->table.row_shape != NULL)
		GjShapeSetSource(scan->table.row_shape, GjTopRows(top));
	if (!ordered->all)
		ordered_add_entries(scan, !after_last && ordered->can_limit);
	if (ordered->may_lack)
		fetch_strays(scan);
	else if (ordered->all)
		ordered_add_rows(scan);
	GjTopFinish(top);
}

/*
 * Return true if the batch has all entries up to its last one, or all that are left if it is not
 * full
 */
static bool
is_complete(const GjOrdered *ordered)
{
	uint64		n = GjTopCount(ordered->top);

	return !is_limited(ordered) ||
		(n == ordered->batches.wanted &&
		 n + GjTopDoubles(ordered->top) + ordered->failed_entries <=
		 GjEntriesComplete(ordered->stream));
}

/*
 * Return true if a device may have left out entries
 */
static bool
is_limited(const GjOrdered *ordered)
{
	return !ordered->all && ordered->stream != NULL &&
		GjEntriesComplete(ordered->stream) != PG_UINT64_MAX;
}

/*
 * Add all tuples of the heap
 */
static void
ordered_add_rows(GjScanState *scan)
{
	GjOrdered  *ordered = scan->ordered;
	GjTableScan *table = &scan->table;
	TupleTableSlot *slot;
	Datum		values[GJ_MAX_INCLUDED + 1];
	bool		isnull[GJ_MAX_INCLUDED + 1];

	GjScanStart(scan);
	while (slot = GjScanNext(scan), !TupIsNull(slot))
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(table->css.ss.ps.ps_ExprContext);
		ordered->matched_entries++;
		read_sort_values(ordered, slot, values, isnull);
		GjTopAddRow(ordered->top, values, isnull, GjPackTid(&slot->tts_tid));
	}
	GjRowsStop(table->rows);
}

/*
 * Add all matching entries; or find out that tuples must be added.  Entries that the CPU finds, and
 * a device's answer that comes in pieces, are not kept.
 */
static void
ordered_add_entries(GjScanState *scan, bool limited)
{
	GjOrdered  *ordered = scan->ordered;
	const GjEntrySet *set;
	bool		again = false;

	if (ordered->stream == NULL)
		begin_match(scan, limited);
	else
		again = GjEntriesRestart(ordered->stream);
	while (ordered->stream != NULL && GjEntriesNext(ordered->stream, &set) != GJ_FOUND_END)
	{
		if (again)				/* count the entries again, even those that were not kept */
			scan->table.stats.filtered += set->ndropped;
		add_set(scan, set);
	}
}

/*
 * Start a match.  An outdated answer would have only TIDs, which do not tell the order of the rows.
 */
static void
begin_match(GjScanState *scan, bool limited)
{
	GjOrdered  *ordered = scan->ordered;
	const GjSortColumn *column = &ordered->columns[0];
	Size		memory = GjScanMemory(scan);
	GjEntryRequest request = GjTableScanRequest(&scan->table,
												memory - memory / GJ_ORDER_MEMORY_PART);
	GjTidSet   *tids;

	if (ordered->slice != NULL)
	{
		request.keys = ordered->slice;
		request.memo = GjTableScanMemo(&scan->table);	/* for the next slices */
	}
	request.entries = true;
	request.entries_only = true;
	request.columns = ordered->matched;
	if (limited)
		request.top = (gjd_top) {
			.limit = get_limit(ordered),
			.column = column->column,
			.order = (column->descending ? GJD_DESCENDING : 0) |
				(column->nulls_first ? GJD_NULLS_FIRST : 0),
		};
	ordered->stream = GjEntriesOpen(&request, &tids);
	if (ordered->stream == NULL)
	{
		GjRowsOpenTids(scan->table.rows, tids);
		ordered->all = true;
		ordered->slices.is_left = false;
	}
}

/*
 * Return the number of entries to request: more than the batch has, for those that will be dropped.
 * A few cost nothing.
 */
static uint64
get_limit(const GjOrdered *ordered)
{
	return ordered->batches.wanted + ordered->batches.wanted / 2 + SPARE_ENTRIES;
}

static void
forget_match(GjOrdered *ordered)
{
	if (ordered->stream != NULL)
		GjEntriesClose(ordered->stream);
	ordered->stream = NULL;
	if (ordered->slice != NULL)
		GjKeySetFree(ordered->slice);
	ordered->slice = NULL;
}

/*
 * Add the entries of a set, beginning with some chunks from all parts of it: they soon yield a
 * bound that few other entries are below.  If entries come in heap order, the newest rows are
 * usually the last ones, and the newest rows are requested most often; so if high values come
 * first, start at the end.
 */
static void
add_set(GjScanState *scan, const GjEntrySet *set)
{
	static const int strides[] = {64, 8, 1};
	uint64		nchunks = (set->nentries + GJ_BATCH_ROWS - 1) / GJ_BATCH_ROWS;
	bool		backwards = scan->ordered->columns[0].descending;

	for (int i = 0; i < lengthof(strides); i++)
	{
		for (uint64 n = 0; n < nchunks; n += strides[i])
		{
			if (i == 0 || n % strides[i - 1] != 0)
				add_chunk(scan, set, backwards ? nchunks - 1 - n : n);
		}
	}
}

static void
add_chunk(GjScanState *scan, const GjEntrySet *set, uint64 chunk)
{
	const GjEntryTest *test = scan->table.test;
	GjTop	   *top = scan->ordered->top;
	uint64		first = chunk * GJ_BATCH_ROWS;
	int			n = (int) Min(set->nentries - first, GJ_BATCH_ROWS);
	uint16		rows[GJ_BATCH_ROWS];
	int			nrows;

	CHECK_FOR_INTERRUPTS();
	if (test == NULL && !scan->ordered->may_lack)
	{
		scan->ordered->matched_entries += n;
		GjTopAdd(top, set, first, n, NULL, 0);
		return;
	}
	GjEntrySetPrefetch(set, first, n);
	if (test != NULL)
		nrows = GjEntryTestRun(test, set, first, n, rows);
	else
	{
		for (nrows = 0; nrows < n; nrows++)
			rows[nrows] = nrows;
	}
	scan->table.stats.filtered += n - nrows;
	scan->ordered->failed_entries += n - nrows;
	scan->ordered->matched_entries += nrows;
	if (scan->ordered->may_lack)
		nrows = set_aside(scan, set, first, rows, nrows);
	GjTopAdd(top, set, first, n, rows, nrows);
}

/*
 * Keep those of n rows of a chunk that have all sort columns, and note the TIDs of the others in
 * the first batch.  Returns the number of the former.
 */
static int
set_aside(GjScanState *scan, const GjEntrySet *set, uint64 first, uint16 *rows, int n)
{
	GjOrdered  *ordered = scan->ordered;

	for (int i = 0; i < ordered->ncolumns; i++)
	{
		const int64 *words;
		int			nkept = 0;

		if (ordered->columns[i].kind != GJ_SORT_NUMERIC)
			continue;
		words = (const int64 *) set->included[ordered->columns[i].column - 1].values + first;
		for (int k = 0; k < n; k++)
		{
			if (likely(words[rows[k]] != GJ_ABSENT))
				rows[nkept++] = rows[k];
			else if (ordered->lacking != NULL &&
					 !GjTidSetAddPacked(ordered->lacking, &set->tids[first + rows[k]], 1))
				elog(ERROR, "an entry of index \"%s\" has an impossible TID",
					 RelationGetRelationName(scan->table.index));
		}
		n = nkept;
	}
	return n;
}

/*
 * Fetch the rows that were set aside, if that has not been done, and add them.  If tuples are put
 * in order, their values are not known before all of them have been read.
 */
static void
fetch_strays(GjScanState *scan)
{
	GjOrdered  *ordered = scan->ordered;
	Relation	heap = scan->table.css.ss.ss_currentRelation;
	TupleTableSlot *slot = scan->table.heap_slot;
	Size		limit = GjScanMemory(scan) / GJ_ORDER_MEMORY_PART;
	const uint64 *tids = NULL;
	uint64		ntids = 0;
	Datum		values[GJ_MAX_INCLUDED + 1];
	bool		isnull[GJ_MAX_INCLUDED + 1];

	if (ordered->lacking != NULL)
	{
		GjTidSetFinish(ordered->lacking);
		ordered->gives_up = ordered->all ||
			!GjTidSetGetArray(ordered->lacking, &tids, &ntids);
	}
	for (uint64 i = 0; i < ntids && !ordered->gives_up; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (GjIsPastHeap(heap, &ordered->nblocks, GjPackedBlock(tids[i])) ||
			!GjRowsFetch(scan->table.rows, tids[i], slot))
			continue;
		read_sort_values(ordered, slot, values, isnull);
		if (ordered->index_only)
			count_fetch(scan, true);
		if (GjScanWants(scan, slot))
			ordered->gives_up = !GjTopKeepStray(ordered->top, values, isnull, tids[i], limit);
		ResetExprContext(scan->table.css.ss.ps.ps_ExprContext);
	}
	forget_lacking(ordered);
	if (!ordered->gives_up)
		GjTopAddStrays(ordered->top);
}

static void
forget_lacking(GjOrdered *ordered)
{
	if (ordered->lacking != NULL)
		GjTidSetFree(ordered->lacking);
	ordered->lacking = NULL;
}

/*
 * Rescan: start over with the same keys.  Filters may have other parameters.
 */
void
GjOrderedRestart(GjScanState *scan)
{
	GjSorterEnd(scan->ordered->sorter);
	GjRowsClose(scan->table.rows);
	forget_lacking(scan->ordered);
	scan->ordered->slices.is_left = false;
	scan->ordered->all = false;
	scan->ordered->phase = GJ_ORDERED_START;
}

/*
 * Forget the results; those in the memory of the scan's results are freed with it
 */
void
GjOrderedReset(GjOrdered *ordered)
{
	GjSorterEnd(ordered->sorter);
	forget_match(ordered);
	forget_lacking(ordered);
	GjTopReset(ordered->top);
	ordered->slices.is_left = false;
	ordered->all = false;
	ordered->phase = GJ_ORDERED_START;
}

/*-------------------------------------------------------------------------
 * Rows
 *
 * Return the row that belongs to an entry of a batch.  The head of this file proves that it is
 * the right one.
 *-------------------------------------------------------------------------
 */

/*
 * Return the row of an entry, or NULL if no row with the entry's values is visible
 */
static TupleTableSlot *
ordered_make_row(GjScanState *scan, uint64 i)
{
	GjOrdered  *ordered = scan->ordered;
	ScanState  *node = &scan->table.css.ss;
	TupleTableSlot *slot = scan->table.heap_slot;
	Datum		values[GJ_MAX_INCLUDED + 1];
	bool		isnull[GJ_MAX_INCLUDED + 1];

	if (is_row(scan, i))
	{
		slot = node->ss_ScanTupleSlot;
		GjFillFromEntry(scan->table.row_shape, GjTopRow(ordered->top, i), slot);
		GjNoteEntry(node, scan->cursor, GjTopTid(ordered->top, i));
		GjRowsGetStats(scan->table.rows)->rows++;
		return slot;
	}
	if (!fetch(scan, i))
		return NULL;
	read_sort_values(ordered, slot, values, isnull);
	if (!GjScanWants(scan, slot) || !GjTopIsSame(ordered->top, i, values, isnull))
	{
		GjRowsGetStats(scan->table.rows)->rechecked++;
		ResetExprContext(node->ps.ps_ExprContext);
		return NULL;
	}
	if (ordered->index_only)
		GjNotePlace(node, &slot->tts_tid);
	return slot;
}

/*
 * Return true if the entry is known to be a row without reading the heap.  A code that is a hash
 * does not prove that the key is listed.
 */
static bool
is_row(GjScanState *scan, uint64 i)
{
	GjOrdered  *ordered = scan->ordered;
	const int64 *codes = (const int64 *) GjTopRows(ordered->top)->keys.values;

	if (!ordered->certain ||
		(ordered->may_hash && GjCodeIsHash(codes[GjTopRow(ordered->top, i)])))
		return false;
	if (i >= ordered->end_tested)
		test_group(scan, i);
	return ordered->certain && ordered->visible[i - ordered->first_tested];
}

/*
 * Test a group of entries by the map and then by the epoch: first as many as the bound says.
 * An entry without a value that it should have is no row, either.
 */
static void
test_group(GjScanState *scan, uint64 first)
{
	GjOrdered  *ordered = scan->ordered;
	uint64		wanted = first == 0 ? ordered->bound : GJ_ORDERED_GROUP;
	int			n = (int) Min(GjTopCount(ordered->top) - first, Min(wanted, GJ_ORDERED_GROUP));
	uint64		tids[GJ_ORDERED_GROUP];

	for (int i = 0; i < n; i++)
		tids[i] = GjTopTid(ordered->top, first + i);
	ordered->first_tested = first;
	ordered->end_tested = first + n;
	if (GjVisibleMapTest(scan->table.css.ss.ss_currentRelation, tids, n, ordered->visible) > 0 &&
		!GjEntriesAreCurrent(ordered->stream))
		ordered->certain = false;
	for (int i = 0; ordered->index_only && i < n; i++)
		ordered->visible[i] &= !lacks_value(scan, first + i);
}

/*
 * Return true if an entry lacks a value that a row made of it must have
 */
static bool
lacks_value(GjScanState *scan, uint64 i)
{
	const GjOrdered *ordered = scan->ordered;
	const GjEntrySet *rows = GjTopRows(ordered->top);
	uint64		row = GjTopRow(ordered->top, i);

	for (uint64 words = ordered->words; words != 0; words &= words - 1)
	{
		int			column = pg_rightmost_one_pos64(words);

		if (((const int64 *) rows->included[column - 1].values)[row] == GJ_ABSENT)
			return true;
	}
	return scan->table.row_shape->nmade > 0 && GjShapeLacksValue(scan->table.row_shape, row);
}

/*
 * Fetch the entry's tuple into the slot for heap tuples.  Returns false if no visible tuple is
 * there.
 */
static bool
fetch(GjScanState *scan, uint64 i)
{
	GjOrdered  *ordered = scan->ordered;
	Relation	heap = scan->table.css.ss.ss_currentRelation;
	uint64		packed = GjTopTid(ordered->top, i);
	ItemPointerData tid;

	ItemPointerSet(&tid, GjPackedBlock(packed), GjPackedOffset(packed));
	if (GjIsPastHeap(heap, &ordered->nblocks, GjPackedBlock(packed)))
		return false;
	if (ordered->index_only)
		count_fetch(scan, !ordered->all && lacks_value(scan, i));
	if (ordered->all)
		return table_tuple_fetch_row_version(heap, &tid, scan->table.css.ss.ps.state->es_snapshot,
											 scan->table.heap_slot);
	ordered_prefetch(scan, i);
	return GjRowsFetch(scan->table.rows, packed, scan->table.heap_slot);
}

static void
count_fetch(GjScanState *scan, bool lacks_value)
{
	GjRowsStats *stats = GjRowsGetStats(scan->table.rows);

	stats->heap_fetches++;
	stats->absent += lacks_value;
}

/*
 * Prefetch the blocks of the next entries, as far ahead as effective_io_concurrency allows
 */
static void
ordered_prefetch(GjScanState *scan, uint64 i)
{
	GjOrdered  *ordered = scan->ordered;
	Relation	heap = scan->table.css.ss.ss_currentRelation;
	uint64		end = i + 1 + get_tablespace_io_concurrency(heap->rd_rel->reltablespace);

	end = Min(end, GjTopCount(ordered->top));
	for (ordered->prefetched = Max(ordered->prefetched, i + 1); ordered->prefetched < end;
		 ordered->prefetched++)
	{
		BlockNumber block = GjPackedBlock(GjTopTid(ordered->top, ordered->prefetched));

		if (!ordered->certain && !GjIsPastHeap(heap, &ordered->nblocks, block))
			PrefetchBuffer(heap, MAIN_FORKNUM, block);
	}
}

/*
 * Read the sort columns of the tuple in the slot
 */
static void
read_sort_values(const GjOrdered *ordered, TupleTableSlot *slot, Datum *values, bool *isnull)
{
	for (int i = 0; i < ordered->ncolumns; i++)
		values[i] = slot_getattr(slot, ordered->attnos[i], &isnull[i]);
}

/*-------------------------------------------------------------------------
 * Remaining rows
 *
 * Batches are for a scan that returns few more rows than expected.  When they have cost enough,
 * the scan does what a Sort above it would do: it produces its rows once, in the cheapest order,
 * drops those that the quals remove, and sorts the others (sorter.c).
 *
 * Each row is still returned once, and in its place.  The rows are those of an ordinary scan for
 * the same keys under the same snapshot, which returns each visible row once, from an entry or
 * from the heap, whatever happens to the index meanwhile; entries that are inserted later belong
 * to rows that are not visible.  The batches have returned the rows up to a place (values of the
 * sort columns, TID), that of the last entry of the last batch, and none after it.  So rows up to
 * that place are dropped here, and all others are sorted.  For that, a row must have the same
 * place in both scans.  In the batches, it has its own values and the TID of its entry, the root
 * of its HOT chain.  An entry that is a row has the same values and TID here.  A tuple of the heap
 * has the values, which all members of the chain share, but not the root: if its values are those
 * of the last place, the root is looked up on the tuple's page.  If the batches were made from all
 * tuples of the heap, their places had the tuples' own TIDs; the same tuples are sorted here, by
 * their own TIDs.
 *
 * After that place, the TID no longer matters: the sort returns each row once.
 *-------------------------------------------------------------------------
 */

/*
 * Sort all rows that come after the last entry of the last batch
 */
static void
sort_rest(GjScanState *scan)
{
	GjOrdered  *ordered = scan->ordered;
	MemoryContext old;

	Assert(ordered->phase == GJ_ORDERED_REST);
	if (ordered->gives_up)
		GjTopReset(ordered->top);
	else
		GjTopLeaveLast(ordered->top);
	forget_match(ordered);

	old = MemoryContextSwitchTo(scan->table.css.ss.ps.state->es_query_cxt);
	if (ordered->sorter == NULL)
		ordered->sorter = GjSorterCreate(scan, ordered->columns, ordered->attnos,
										 ordered->ncolumns);
	GjSorterBegin(ordered->sorter);
	ordered->roots_block = InvalidBlockNumber;
	MemoryContextSwitchTo(old);

	ordered_collect(scan);
	GjSorterFinish(ordered->sorter, &scan->order_stats.sort);
	scan->order_stats.sorts++;
	ordered->phase = GJ_ORDERED_SORTED;
}

/*
 * Add the rows to the sort, and reset the scan
 */
static void
ordered_collect(GjScanState *scan)
{
	GjTableScan *table = &scan->table;
	GjOrdered  *ordered = scan->ordered;
	ExprContext *econtext = table->css.ss.ps.ps_ExprContext;
	ExprState  *qual = table->css.ss.ps.qual;
	GjCursor	cursor = scan->cursor;
	TupleTableSlot *slot;

	GjScanStart(scan);
	scan->cursor = GJ_CURSOR_RESTS; /* record an entry's TID, but do not follow its chain */
	while (slot = GjScanNext(scan), !TupIsNull(slot))
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		if (!comes_later(scan, slot))
			continue;
		econtext->ecxt_scantuple = slot;
		if (!ExecQual(qual, econtext))
		{
			InstrCountFiltered1(&table->css.ss.ps, 1);
			continue;
		}
		GjSorterPut(ordered->sorter, slot);
		scan->order_stats.sorted++;
	}
	scan->cursor = cursor;

	GjTableScanStop(table);
	if (!ordered->all)
		GjRowsClose(table->rows);
}

/*
 * Return true if the row comes after the last entry of the last batch
 */
static bool
comes_later(GjScanState *scan, TupleTableSlot *slot)
{
	const GjOrdered *ordered = scan->ordered;
	Datum		values[GJ_MAX_INCLUDED + 1];
	bool		isnull[GJ_MAX_INCLUDED + 1];
	uint64		tid;
	int			order;

	read_sort_values(ordered, slot, values, isnull);
	order = GjTopCompareLast(ordered->top, values, isnull);
	if (order != 0)
		return order > 0;

	if (ordered->all || TTS_IS_VIRTUAL(slot))
		tid = GjPackTid(&slot->tts_tid);
	else
		tid = find_root(scan, slot);
	return tid > GjTopLastTid(ordered->top);
}

/*
 * Return the TID of the root of a tuple's HOT chain, which is that of its entry.  It does not
 * change as long as the tuple is visible.
 */
static uint64
find_root(GjScanState *scan, TupleTableSlot *slot)
{
	GjOrdered  *ordered = scan->ordered;
	Relation	heap = scan->table.css.ss.ss_currentRelation;
	Buffer		buffer = ((BufferHeapTupleTableSlot *) slot)->buffer;
	ItemPointerData tid = slot->tts_tid;
	OffsetNumber root;

	if (!HeapTupleIsHeapOnly(((HeapTupleTableSlot *) slot)->tuple))
		return GjPackTid(&tid);
	if (ordered->roots_block != ItemPointerGetBlockNumber(&tid))
	{
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		heap_get_root_tuples(BufferGetPage(buffer), ordered->roots);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		ordered->roots_block = ItemPointerGetBlockNumber(&tid);
	}
	root = ordered->roots[ItemPointerGetOffsetNumber(&tid) - 1];
	if (!OffsetNumberIsValid(root))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg_internal("failed to find root of heap-only tuple (%u,%u) in table \"%s\"",
								 ItemPointerGetBlockNumber(&tid),
								 ItemPointerGetOffsetNumber(&tid),
								 RelationGetRelationName(heap))));
	ItemPointerSetOffsetNumber(&tid, root);
	return GjPackTid(&tid);
}

/*
 * Return the next sorted row, projected
 */
static TupleTableSlot *
ordered_next_sorted(GjScanState *scan)
{
	ScanState  *node = &scan->table.css.ss;
	ProjectionInfo *projection = node->ps.ps_ProjInfo;
	ExprContext *econtext = node->ps.ps_ExprContext;
	TupleTableSlot *slot;

	Assert(scan->ordered->phase >= GJ_ORDERED_SORTED);
	CHECK_FOR_INTERRUPTS();
	ResetExprContext(econtext);
	slot = scan->ordered->phase == GJ_ORDERED_SORTED ?
		GjSorterNext(scan, scan->ordered->sorter) : NULL;
	if (slot == NULL)
	{
		GjSorterEnd(scan->ordered->sorter);
		scan->ordered->phase = GJ_ORDERED_DONE;
		ExecClearTuple(node->ss_ScanTupleSlot); /* a cursor is no longer on a row of ours */
		return projection == NULL ? NULL : ExecClearTuple(projection->pi_state.resultslot);
	}
	if (projection == NULL)
		return slot;
	econtext->ecxt_scantuple = slot;
	return ExecProject(projection);
}
