/*-------------------------------------------------------------------------
 *
 * ordered.c
 *	  Rows of a GpuScan in an order: ORDER BY ... LIMIT.
 *
 * The sort columns are in the index.  So the entries that match are put in order before the heap
 * is looked at, and only those that come first are fetched, one by one, as long as somebody
 * wants more.  What is kept of them is a batch: a few more than the plan's bound says will be
 * wanted, those of the whole answer that come first (sets/top.c).  If it does not do, the next
 * batch, four times as long, has those that come after the last one of this.  Entries that a
 * device delivered all at once are still there then; otherwise the index is searched again.  So the
 * memory is that of a batch, and of a piece of the match.  After a few batches (sets/top.c)
 * all rows that are left are sorted at once.
 *
 * The order is a total one: sort columns, then TID.  By it an entry is before, in, or behind a
 * batch, whichever match it comes from.
 *
 * Claim: each row that the snapshot sees, and whose key is wanted, is delivered once, in the
 * place that its own values have.  Let R be such a row, T the TID of the root of its HOT chain,
 * and v its values of the sort columns.
 *
 * a. R has an entry (T, v) in the index as long as the snapshot lives: VACUUM removes entries
 *	  of rows only that no snapshot sees.  The sort columns are indexed columns, so that no HOT
 *	  update changes them, and all members of the chain have the entry's values.
 * b. Each match finds it: that is what a match promises (match/match.h).  A set of entries may
 *	  keep one of those that have the same TID, whichever; but if there are two with T that are not
 *	  equal, R is visible to nobody who has our snapshot.  For the other one is of a row that
 *	  had T before R or has it after R.  If after: R was dead to everybody by then.  If before:
 *	  T became free only when a bulk deletion had removed that entry and raised the vacuum epoch,
 *	  and R came still later.  A match reads the epoch first, E.  It finds on pages what is there
 *	  after that; and what a mirror has is used only if its epoch is E (match/stream.c).  So it
 *	  can find the older entry only if that was removed after E was read, that is, after our
 *	  snapshot was taken, which then does not see R.
 *	  An answer of a device that is outdated has TIDs alone.  It is not used: the CPU searches.
 * c. So in each batch between whose ends (v, T) lies, (T, v) is kept, and there is only one such
 *	  batch.  Met twice, on a tail page and where it moved to, or by a device and on the CPU, it
 *	  has equal words and is kept once.
 * d. When its turn comes, it is either a row by the visibility map and the epoch, as in
 *	  match/visible.c: each group of entries is tested after it was found, and the epoch after
 *	  that.  Or T is fetched from the heap under the snapshot, along the HOT chain, which gives R.
 * e. Nothing else is delivered.  What passes the visibility map is a row with the entry's
 *	  values.  What is fetched is tested for its key, and for its sort columns, which must be
 *	  those of the entry: a row at a TID that was somebody else's has an entry of its own, and
 *	  comes with that.
 *
 * Entries that do not pass a filter of INCLUDE columns are dropped before they are put in order;
 * filteredmatch.c has the proof that no row is lost by that.
 *
 * Where the index cannot say which rows there are (a NULL key is wanted, or the snapshot may see
 * rows that the index lacks) all of the heap is read for each batch, and the tuples themselves
 * are put in order.  A tuple is then named by its own place, not by its chain's root, and is
 * fetched by that.  Which of the two it is, is decided once for all batches.
 *
 * Serializable transactions lock the index as for any match, or the heap, and each tuple as it is
 * fetched; they get no rows from entries.
 *
 * EvalPlanQual tests the key of a row that was replaced.  It may come at another place than its
 * new values would have, as with PostgreSQL's own index scans.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/sysattr.h"
#include "access/tableam.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/spccache.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "base/tid.h"
#include "rows/rows.h"
#include "cursor.h"
#include "ordered.h"
#include "scan.h"
#include "search.h"

/* Entries that are tested for visibility at a time */
#define GJ_ORDERED_GROUP		256

struct GjOrdered
{
	GjTop	   *top;
	GjSortColumn *columns;
	AttrNumber *attnos;			/* of the table, for each sort column */
	int			ncolumns;
	GjEntryWidths widths;
	uint64		matched;		/* columns of the index that a match is asked for */
	bool		index_only;
	uint64		bound;			/* the first batch */

	/* What the batches are selected from */
	bool		started;
	GjTidSet   *all;			/* tuples of the heap; NULL: entries */
	MemoryContext context;		/* of the match, while there is one */
	GjEntryMatch match;
	GjEntrySet *whole;			/* a device's answer */

	/* The batch that is being delivered */
	GjTopBatches batches;
	uint64		searched;		/* entries of the index that the CPU looked at for it, */
	uint64		matched_entries;	/* and those of them that matched */
	uint64		next;
	uint64		end_tested;		/* entries up to here have been tested, */
	bool		visible[GJ_ORDERED_GROUP]; /* so many at most before it */
	uint64		first_tested;
	bool		certain;		/* the epoch has not moved yet */
	BlockNumber nblocks;		/* of the heap, after the match */
	HeapTupleData tuple;		/* the slot for heap tuples refers to it */
	uint64		prefetched;		/* blocks of entries up to here were asked for */

	/* Rows after the last batch */
	bool		is_rest;		/* true once they are wanted */
	struct GjOrderedSorter *sorter; /* NULL: no row has been sorted so far */

	GjOrderedStats stats;
};

typedef struct GjOrderedSorter
{
	Tuplesortstate *state;		/* NULL: no sort, or it is over */

	/* What is sorted: made once, in the memory of the query */
	TupleDesc	desc;			/* of what is sorted; the table's own if that is all of it */
	bool		is_whole;		/* true if that is so */
	int			nattnos;
	AttrNumber *attnos;			/* attributes of the table, for each column but the last */
	bool		has_tid;		/* the last column is the TID, */
	bool		fetches;		/* by which the tuple is fetched again */
	TupleTableSlot *in;			/* slot for a row that is put into the sort */
	TupleTableSlot *out;		/* slot for a row that comes from it */
	TupleTableSlot *row;		/* slot of the table's shape; what is not sorted is NULL */

	/* Sort columns, for tuplesort */
	AttrNumber *places;
	Oid		   *operators;
	Oid		   *collations;
	bool	   *nulls_first;

	/* Roots of the HOT chains of one block of the heap */
	BlockNumber roots_block;
	OffsetNumber roots[MaxHeapTuplesPerPage];
} GjOrderedSorter;

static void init_columns(GjOrdered *ordered, Relation index, List *order, TupleDesc desc);
static void start(GjScanState *scan);
static void select_batch(GjScanState *scan, bool after_last);
static bool next_batch(GjScanState *scan);
static void add_rows(GjScanState *scan);
static void add_entries(GjScanState *scan);
static void begin_match(GjScanState *scan);
static void forget_match(GjOrdered *ordered);
static void add_set(GjScanState *scan, const GjEntrySet *set);
static void add_chunk(GjScanState *scan, const GjEntrySet *set, uint64 chunk);
static bool is_row(GjScanState *scan, uint64 i);
static void test_group(GjScanState *scan, uint64 first);
static bool fetch(GjScanState *scan, uint64 i);
static bool fetch_chain(GjScanState *scan, ItemPointerData *tid);
static void prefetch(GjScanState *scan, uint64 i);
static GjOrderedSorter *make_sorter(GjScanState *scan);
static void choose_columns(GjOrderedSorter *sorter, GjScanState *scan);
static TupleDesc describe_columns(const GjOrderedSorter *sorter, TupleDesc table);
static void choose_operators(GjOrderedSorter *sorter, const GjOrdered *ordered, TupleDesc desc);
static void collect(GjScanState *scan);
static bool comes_later(GjScanState *scan, TupleTableSlot *slot);
static uint64 find_root(GjScanState *scan, TupleTableSlot *slot);
static void put_row(GjOrderedSorter *sorter, TupleTableSlot *slot);
static TupleTableSlot *get_row(GjScanState *scan);
static TupleTableSlot *ordered_make_row(GjScanState *scan, uint64 i);
static void ordered_read_values(const GjOrdered *ordered, TupleTableSlot *slot, Datum *values,
								bool *isnull);
static void ordered_sort(GjScanState *scan);

/* Every so many chunks are looked at first, then more, then all: see add_set() */
static const int strides[] = {64, 8, 1};

/*
 * Prepare for the order of a plan; NULL if it has none
 */
GjOrdered *
GjOrderedCreate(GjScanState *scan)
{
	ScanState  *node = &scan->table.css.ss;
	List	   *order = GjTableScanGetPrivate(&scan->table, GJ_SCAN_ORDER);
	GjOrdered  *ordered;
	uint64		kept = 0;

	if (order == NIL)
		return NULL;

	ordered = palloc0(sizeof(GjOrdered));
	ordered->bound = Max(intVal(GjTableScanGetPrivate(&scan->table, GJ_SCAN_BOUND)), 1);
	ordered->index_only = scan->table.index_only != NULL;
	init_columns(ordered, scan->table.index, order, RelationGetDescr(node->ss_currentRelation));
	if (ordered->index_only)
		kept = scan->table.row_fill->columns;
	ordered->matched |= kept | GjEntryFilterColumns(scan->table.entry_filter);
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
		AttrNumber	attno = list_nth_int(item, GJ_ORDER_ATTNO);
		Form_pg_attribute attribute = TupleDescAttr(desc, attno - 1);

		Assert(list_length(item) == GJ_ORDER_COUNT);
		if (!GjTypeSorts(attribute->atttypid, &column->kind))
			elog(ERROR, "a plan sorts by attribute %d, which is of no type for that", attno);
		column->column = GjIndexColumnOf(index, attno);
		column->width = attribute->attlen;
		column->descending = list_nth_int(item, GJ_ORDER_DESCENDING);
		column->nulls_first = list_nth_int(item, GJ_ORDER_NULLS_FIRST);
		ordered->matched |= GJ_ENTRY_KEY << column->column;
		ordered->attnos[ordered->ncolumns++] = attno;
	}
}

/*
 * Access method of ExecScan(): return the next row of a batch.  There are no more if the slot is
 * empty, or GjOrderedSortRest() delivers them.
 */
TupleTableSlot *
GjOrderedNext(GjScanState *scan)
{
	GjOrdered  *ordered = scan->ordered;
	TupleTableSlot *slot;

	if (!ordered->started)
		start(scan);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (ordered->next < GjTopCount(ordered->top))
		{
			slot = ordered_make_row(scan, ordered->next++);
			if (slot != NULL)
				return slot;
		}
		else if (GjTopCount(ordered->top) < ordered->batches.wanted || !next_batch(scan))
			return ExecClearTuple(scan->table.css.ss.ss_ScanTupleSlot);
	}
}

/*
 * Select the next batch; or return false if the rest should be sorted instead
 */
static bool
next_batch(GjScanState *scan)
{
	GjOrdered  *ordered = scan->ordered;

	if (!ordered->is_rest &&
		GjTopBatchesNext(&ordered->batches, ordered->searched, ordered->matched_entries,
						 !ordered->index_only))
		select_batch(scan, true);
	else
		ordered->is_rest = true;
	return !ordered->is_rest;
}

/*
 * Sort the rows that come after the last batch.  Returns false if there are none, since the last
 * batch was not full.
 */
bool
GjOrderedSortRest(GjScanState *scan)
{
	GjOrdered  *ordered = scan->ordered;

	if (!ordered->is_rest)
		return false;
	GjTopLeaveLast(ordered->top);
	forget_match(ordered);
	ordered_sort(scan);
	return true;
}

/*
 * Find out what there is to be put in order, and select the first batch
 */
static void
start(GjScanState *scan)
{
	GjOrdered  *ordered = scan->ordered;

	if (scan->table.keys == NULL)
		GjScanMakeKeys(scan);
	scan->table.used = true;
	scan->cursor = GjCursorOf(scan->table.css.ss.ps.state);
	if (ordered->all == NULL && ordered->context == NULL &&
		(scan->table.keys->nulls ||
		 !GjIndexIsComplete(scan->table.index, scan->table.css.ss.ps.state->es_snapshot)))
		ordered->all = GjTableScanSearch(&scan->table, GjScanMemory(scan));
	ordered->started = true;
	GjTopBatchesStart(&ordered->batches, ordered->bound,
					  GjTopMaxWanted(GjTopSlotBytes(ordered->top),
									 GjScanMemory(scan) / GJ_ORDER_MEMORY_PART));
	select_batch(scan, false);
	if (ordered->index_only)
		GjNoteNoPlace(&scan->table.css.ss);
}

/*
 * Select the first entries, or those that come after the last one of this batch
 */
static void
select_batch(GjScanState *scan, bool after_last)
{
	GjOrdered  *ordered = scan->ordered;
	GjTop	   *top = ordered->top;
	const GjMatchStats *stats = &scan->table.stats;
	uint64		searched;

	GjTopStart(top, ordered->batches.wanted, after_last);
	ordered->matched_entries = 0;
	if (scan->table.row_fill != NULL)
		GjFillSource(scan->table.row_fill, GjTopRows(top));
	searched = stats->entries - stats->device_entries;
	if (ordered->all != NULL)
		add_rows(scan);
	else
		add_entries(scan);
	ordered->searched = stats->entries - stats->device_entries - searched;
	GjTopFinish(top);

	ordered->stats.batches++;
	ordered->stats.rows += GjTopCount(top);
	ordered->next = ordered->end_tested = ordered->prefetched = 0;
	ordered->certain = ordered->index_only && ordered->all == NULL &&
		GjEntriesMayBeRows(scan->table.css.ss.ps.state->es_snapshot);
	ordered->nblocks = RelationGetNumberOfBlocks(scan->table.css.ss.ss_currentRelation);
}

/*
 * Look at all tuples of the heap
 */
static void
add_rows(GjScanState *scan)
{
	GjOrdered  *ordered = scan->ordered;
	GjTableScan *table = &scan->table;
	TupleTableSlot *slot = table->heap_slot;
	Datum		values[GJ_MAX_INCLUDED + 1];
	bool		isnull[GJ_MAX_INCLUDED + 1];

	table->filtered = GjFetchFilter(table->fetch, &table->key_reader, table->keys);
	GjFetchStart(table->fetch, ordered->all);
	while (GjFetchNext(table->fetch, slot))
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(table->css.ss.ps.ps_ExprContext);
		if (!table->filtered && !GjScanWants(scan, slot))
		{
			GjFetchGetStats(table->fetch)->rechecked++;
			continue;
		}
		ordered->matched_entries++;
		ordered_read_values(ordered, slot, values, isnull);
		GjTopAddRow(ordered->top, values, isnull, GjPackTid(&slot->tts_tid));
	}
	GjFetchReset(table->fetch);
}

/*
 * Look at all entries that match.  What the CPU finds, and a device's answer that comes in
 * pieces, is not kept.
 */
static void
add_entries(GjScanState *scan)
{
	GjOrdered  *ordered = scan->ordered;
	GjEntryMatch *match = &ordered->match;
	GjEntrySet *piece;

	if (ordered->context == NULL)
		begin_match(scan);
	else						/* each look counts, also at entries that were not kept */
		scan->table.stats.filtered += ordered->whole->ndropped;
	if (match->phase == GJ_ENTRIES_AT_ONCE)
	{
		add_set(scan, ordered->whole);
		return;
	}
	while (match->phase == GJ_ENTRIES_ASK &&
		   GjEntryMatchAsk(match, ordered->whole, &scan->table.stats))
	{
		pgstat_count_index_tuples(scan->table.index, GjEntrySetFound(ordered->whole));
		add_set(scan, ordered->whole);
	}
	piece = GjEntrySetCreatePiecewise(ordered->context,
									  GJ_PIECE_BYTES(GjScanMemory(scan)), ordered->whole);
	while (GjEntryMatchNext(match, piece, &scan->table.stats))
	{
		pgstat_count_index_tuples(scan->table.index, piece->nentries);
		add_set(scan, piece);
	}
	forget_match(ordered);
}

/*
 * Begin a match.  Of an outdated answer nothing but the TIDs is there, and they do not say
 * which rows come first.
 */
static void
begin_match(GjScanState *scan)
{
	GjOrdered  *ordered = scan->ordered;
	GjEntryFilter *filter = scan->table.entry_filter;
	Size		memory = GjScanMemory(scan);
	MemoryContext old;

	ordered->context = AllocSetContextCreate(scan->table.context, "gpujoin ordered match",
											 ALLOCSET_DEFAULT_SIZES);
	ordered->whole = GjEntrySetCreate(ordered->context, memory - memory / GJ_ORDER_MEMORY_PART,
									  &ordered->widths, (ordered->matched & GJ_ENTRY_KEY) != 0,
									  (uint32) (ordered->matched >> 1));
	if (filter != NULL && GjEntryFilterParams(filter) == NULL)
		GjEntryFilterTest(filter, ordered->whole);	/* else a restart wants other entries */
	old = MemoryContextSwitchTo(ordered->context);
	GjExecMatchEntries(&ordered->match, scan->table.index, scan->table.css.ss.ps.state->es_snapshot,
					   scan->table.keys, ordered->whole, &scan->table.stats);
	MemoryContextSwitchTo(old);
	if (ordered->match.phase == GJ_ENTRIES_AT_ONCE && GjEntrySetPlain(ordered->whole) != NULL)
		GjEntryMatchRefuse(&ordered->match, ordered->whole, &scan->table.stats);
	else if (ordered->match.phase == GJ_ENTRIES_AT_ONCE)
		pgstat_count_index_tuples(scan->table.index, GjEntrySetFound(ordered->whole));
}

static void
forget_match(GjOrdered *ordered)
{
	if (ordered->context != NULL)
	{
		GjEntryMatchEnd(&ordered->match);
		MemoryContextDelete(ordered->context);
	}
	ordered->context = NULL;
	ordered->whole = NULL;
}

/*
 * Look at the entries of a set, some chunks from all over it first: these soon make a bound
 * that few others are below.  Where entries come in heap order, the newest rows are mostly the last
 * ones, and those are what is asked for most often; so where high values are wanted, it is from
 * the end on.
 */
static void
add_set(GjScanState *scan, const GjEntrySet *set)
{
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
	GjEntryFilter *filter = scan->table.entry_filter;
	GjTop	   *top = scan->ordered->top;
	uint64		first = chunk * GJ_BATCH_ROWS;
	int			n = (int) Min(set->nentries - first, GJ_BATCH_ROWS);
	uint16		rows[GJ_BATCH_ROWS];
	int			nrows;

	CHECK_FOR_INTERRUPTS();
	if (filter == NULL)
	{
		scan->ordered->matched_entries += n;
		GjTopAdd(top, set, first, n, NULL, 0);
		return;
	}
	GjEntrySetPrefetch(set, first, n);
	nrows = GjFilterEntries(filter, set, first, n, rows);
	scan->table.stats.filtered += n - nrows;
	scan->ordered->matched_entries += nrows;
	GjTopAdd(top, set, first, n, rows, nrows);
}

/*
 * Deliver the same again, but for what filters let pass
 */
void
GjOrderedRestart(GjOrdered *ordered)
{
	GjOrderedEndSort(ordered);
	if (ordered->all != NULL)
		GjTidSetFree(ordered->all);
	ordered->all = NULL;
	ordered->started = false;
	ordered->is_rest = false;
}

/*
 * Forget what was found, which goes away with the scan's results
 */
void
GjOrderedReset(GjOrdered *ordered)
{
	GjOrderedEndSort(ordered);
	forget_match(ordered);
	GjTopReset(ordered->top);
	ordered->all = NULL;
	ordered->started = false;
	ordered->is_rest = false;
}

/*
 * Return true once the rows that come next are sorted, or will be
 */
bool
GjOrderedIsRest(const GjOrdered *ordered)
{
	return ordered->is_rest;
}

const GjOrderedStats *
GjOrderedGetStats(const GjOrdered *ordered)
{
	return &ordered->stats;
}

/*-------------------------------------------------------------------------
 * Rows
 *
 * A row in its place: the one that an entry of a batch stands for.
 *
 * The head of ordered.c says why it is the right one.
 *-------------------------------------------------------------------------
 */

/*
 * Make a row of an entry; NULL if the snapshot sees none with the entry's values
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
		GjFillFromEntry(scan->table.row_fill, GjTopRow(ordered->top, i), slot);
		GjNoteEntry(node, scan->cursor, GjTopTid(ordered->top, i));
		GjIndexOnlyGetStats(scan->table.index_only)->rows++;
		return slot;
	}
	if (!fetch(scan, i))
		return NULL;
	ordered_read_values(ordered, slot, values, isnull);
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
static void
ordered_read_values(const GjOrdered *ordered, TupleTableSlot *slot, Datum *values, bool *isnull)
{
	for (int i = 0; i < ordered->ncolumns; i++)
		values[i] = slot_getattr(slot, ordered->attnos[i], &isnull[i]);
}

/*-------------------------------------------------------------------------
 * The sorted rest
 *
 * The rows after the last batch of an ordered scan, by one sort.
 *
 * Batches are for a scan that is asked for little more than was expected.  When they have cost
 * enough, the scan does what a Sort above it would do: it makes its rows once, in the order in
 * which they come most cheaply, drops those that the quals remove, and sorts the others with
 * PostgreSQL's tuplesort, which uses work_mem and then temporary files.
 *
 * Why each row still comes once, and in its place: the rows are those of an ordinary scan of the
 * same keys under the same snapshot, which delivers each visible row once, from an entry or from
 * the heap, whatever becomes of the index meanwhile; entries that are inserted later belong to rows
 * that the snapshot does not see.  The batches have delivered the rows up to a place (values of the
 * sort columns, TID), that of the last entry of the last batch, and none behind it.
 * So rows up to that place are dropped here, and all others are sorted.  For that, a row
 * must have the same place in both.  In the batches it has its own values and the TID of its
 * entry, the root of its HOT chain.  An entry that is a row has these here, too.  A tuple of
 * the heap has the values, which all members of the chain share, but not the root: where the values
 * are those of the last place, it is looked for on the tuple's page.  Where the batches were
 * made of all of the heap's tuples, their places had their own TIDs, and the same tuples are
 * sorted here, by their own TIDs.
 *
 * Behind that place, the TID no longer decides: each row comes once from the sort.
 *
 * Only the columns that the target list uses are sorted, as they would be in a Sort node.  Where it
 * uses system columns of the tuple, like xmin, the tuple's TID is sorted in place of them, and the
 * tuple, which the snapshot still sees, is fetched again.
 *-------------------------------------------------------------------------
 */

/*
 * Sort all rows that come after the last entry of the last batch
 */
static void
ordered_sort(GjScanState *scan)
{
	GjOrdered  *ordered = scan->ordered;
	GjOrderedSorter *sorter;
	MemoryContext old = MemoryContextSwitchTo(scan->table.css.ss.ps.state->es_query_cxt);

	if (ordered->sorter == NULL)
		ordered->sorter = make_sorter(scan);
	sorter = ordered->sorter;
	sorter->roots_block = InvalidBlockNumber;
	sorter->state = tuplesort_begin_heap(sorter->desc, ordered->ncolumns,
										 sorter->places, sorter->operators, sorter->collations,
										 sorter->nulls_first, work_mem, NULL, TUPLESORT_NONE);
	MemoryContextSwitchTo(old);

	collect(scan);
	tuplesort_performsort(sorter->state);
	tuplesort_get_stats(sorter->state, &ordered->stats.sort);
	ordered->stats.sorts++;
}

static GjOrderedSorter *
make_sorter(GjScanState *scan)
{
	GjOrderedSorter *sorter = palloc0(sizeof(GjOrderedSorter));
	EState	   *estate = scan->table.css.ss.ps.state;
	Relation	heap = scan->table.css.ss.ss_currentRelation;

	choose_columns(sorter, scan);
	sorter->desc = describe_columns(sorter, RelationGetDescr(heap));
	choose_operators(sorter, scan->ordered, RelationGetDescr(heap));
	sorter->out = ExecInitExtraTupleSlot(estate, sorter->desc, &TTSOpsMinimalTuple);
	sorter->out->tts_tableOid = RelationGetRelid(heap);
	if (sorter->is_whole)
		return sorter;
	sorter->in = ExecInitExtraTupleSlot(estate, sorter->desc, &TTSOpsVirtual);
	sorter->row = ExecInitExtraTupleSlot(estate, RelationGetDescr(heap), &TTSOpsVirtual);
	sorter->row->tts_tableOid = RelationGetRelid(heap);
	memset(sorter->row->tts_isnull, true, RelationGetDescr(heap)->natts);
	return sorter;
}

/*
 * Choose the columns that have to be sorted: those of the target list, and sort columns.  The quals
 * have been tested before.
 */
static void
choose_columns(GjOrderedSorter *sorter, GjScanState *scan)
{
	const Scan *plan = (const Scan *) scan->table.css.ss.ps.plan;
	TupleDesc	desc = RelationGetDescr(scan->table.css.ss.ss_currentRelation);
	const GjOrdered *ordered = scan->ordered;
	Bitmapset  *used = NULL;
	int			member = -1;
	int			ndropped = 0;
	bool		whole_row;

	pull_varattnos((Node *) plan->plan.targetlist, plan->scanrelid, &used);
	while ((member = bms_next_member(used, member)) >= 0)
	{
		AttrNumber	attno = member + FirstLowInvalidHeapAttributeNumber;

		if (attno < 0 && attno != TableOidAttributeNumber)
			sorter->has_tid = true;
		if (attno < 0 && attno != TableOidAttributeNumber &&
			attno != SelfItemPointerAttributeNumber)
			sorter->fetches = true;
	}
	if (scan->cursor != GJ_CURSOR_NONE)
		sorter->has_tid = true;

	whole_row = bms_is_member(-FirstLowInvalidHeapAttributeNumber, used);
	if (sorter->fetches)
	{
		whole_row = false;
		used = NULL;
	}
	for (int i = 0; i < ordered->ncolumns; i++)
		used = bms_add_member(used, ordered->attnos[i] - FirstLowInvalidHeapAttributeNumber);
	sorter->attnos = palloc(desc->natts * sizeof(AttrNumber));
	for (AttrNumber attno = 1; attno <= desc->natts; attno++)
	{
		if (!TupleDescAttr(desc, attno - 1)->attisdropped &&
			(whole_row || bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, used)))
			sorter->attnos[sorter->nattnos++] = attno;
		ndropped += TupleDescAttr(desc, attno - 1)->attisdropped;
	}
	sorter->is_whole = sorter->nattnos + ndropped == desc->natts && !sorter->has_tid;
}

static TupleDesc
describe_columns(const GjOrderedSorter *sorter, TupleDesc table)
{
	TupleDesc	desc;

	if (sorter->is_whole)
		return table;
	desc = CreateTemplateTupleDesc(sorter->nattnos + sorter->has_tid);
	for (int i = 0; i < sorter->nattnos; i++)
		TupleDescCopyEntry(desc, i + 1, table, sorter->attnos[i]);
	if (sorter->has_tid)
		TupleDescInitEntry(desc, sorter->nattnos + 1, "ctid", TIDOID, -1, 0);
	return desc;
}

static void
choose_operators(GjOrderedSorter *sorter, const GjOrdered *ordered, TupleDesc desc)
{
	sorter->places = palloc(ordered->ncolumns * sizeof(AttrNumber));
	sorter->operators = palloc(ordered->ncolumns * sizeof(Oid));
	sorter->collations = palloc0(ordered->ncolumns * sizeof(Oid));
	sorter->nulls_first = palloc(ordered->ncolumns * sizeof(bool));
	for (int i = 0; i < ordered->ncolumns; i++)
	{
		const GjSortColumn *column = &ordered->columns[i];
		Oid			type = TupleDescAttr(desc, ordered->attnos[i] - 1)->atttypid;
		TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);

		sorter->operators[i] = column->descending ? entry->gt_opr : entry->lt_opr;
		sorter->nulls_first[i] = column->nulls_first;
		for (int j = 0; j < sorter->nattnos; j++)
		{
			if (sorter->attnos[j] == ordered->attnos[i])
				sorter->places[i] = sorter->is_whole ? ordered->attnos[i] : j + 1;
		}
	}
}

/*
 * Put the rows into the sort.  Nothing is left of the scan then.
 */
static void
collect(GjScanState *scan)
{
	GjTableScan *table = &scan->table;
	GjOrdered  *ordered = scan->ordered;
	ExprContext *econtext = table->css.ss.ps.ps_ExprContext;
	ExprState  *qual = table->css.ss.ps.qual;
	GjCursor	cursor = scan->cursor;
	TupleTableSlot *slot;

	if (ordered->all != NULL)
		GjScanStartFetch(scan, ordered->all);
	else
		GjScanStart(scan);
	scan->cursor = GJ_CURSOR_RESTS; /* an entry's TID is noted, and its chain not followed */
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
		put_row(ordered->sorter, slot);
		ordered->stats.sorted++;
	}
	scan->cursor = cursor;

	GjTableScanClear(table);
	if (GjIndexOnlyIsStarted(table->index_only))
		GjIndexOnlyReset(table->index_only);
	else if (table->tids != ordered->all)
		GjTidSetFree(table->tids);
	table->tids = NULL;
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

	ordered_read_values(ordered, slot, values, isnull);
	order = GjTopCompareLast(ordered->top, values, isnull);
	if (order != 0)
		return order > 0;

	if (ordered->all != NULL || TTS_IS_VIRTUAL(slot))
		tid = GjPackTid(&slot->tts_tid);
	else
		tid = find_root(scan, slot);
	return tid > GjTopLastTid(ordered->top);
}

/*
 * Return the TID of the root of a tuple's HOT chain, which its entry has.  As long as the tuple
 * is visible, it stays the same.
 */
static uint64
find_root(GjScanState *scan, TupleTableSlot *slot)
{
	GjOrderedSorter *sorter = scan->ordered->sorter;
	Relation	heap = scan->table.css.ss.ss_currentRelation;
	Buffer		buffer = ((BufferHeapTupleTableSlot *) slot)->buffer;
	ItemPointerData tid = slot->tts_tid;
	OffsetNumber root;

	if (!HeapTupleIsHeapOnly(((HeapTupleTableSlot *) slot)->tuple))
		return GjPackTid(&tid);
	if (sorter->roots_block != ItemPointerGetBlockNumber(&tid))
	{
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		heap_get_root_tuples(BufferGetPage(buffer), sorter->roots);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		sorter->roots_block = ItemPointerGetBlockNumber(&tid);
	}
	root = sorter->roots[ItemPointerGetOffsetNumber(&tid) - 1];
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

static void
put_row(GjOrderedSorter *sorter, TupleTableSlot *slot)
{
	TupleTableSlot *in = sorter->in;

	if (sorter->is_whole)
	{
		tuplesort_puttupleslot(sorter->state, slot);
		return;
	}
	ExecClearTuple(in);
	for (int i = 0; i < sorter->nattnos; i++)
		in->tts_values[i] = slot_getattr(slot, sorter->attnos[i], &in->tts_isnull[i]);
	if (sorter->has_tid)
	{
		in->tts_values[sorter->nattnos] = PointerGetDatum(&slot->tts_tid);
		in->tts_isnull[sorter->nattnos] = false;
	}
	ExecStoreVirtualTuple(in);
	tuplesort_puttupleslot(sorter->state, in);
}

/*
 * Return the next sorted row, as the target list wants it
 */
TupleTableSlot *
GjOrderedNextSorted(GjScanState *scan)
{
	ScanState  *node = &scan->table.css.ss;
	ProjectionInfo *projection = node->ps.ps_ProjInfo;
	ExprContext *econtext = node->ps.ps_ExprContext;
	TupleTableSlot *slot;

	CHECK_FOR_INTERRUPTS();
	ResetExprContext(econtext);
	slot = get_row(scan);
	if (slot == NULL)
	{
		GjOrderedEndSort(scan->ordered);
		ExecClearTuple(node->ss_ScanTupleSlot); /* a cursor stands on no row of ours any more */
		return projection == NULL ? NULL : ExecClearTuple(projection->pi_state.resultslot);
	}
	if (projection == NULL)
		return slot;
	econtext->ecxt_scantuple = slot;
	return ExecProject(projection);
}

/*
 * Get the next row from the sort, in a slot of the table's shape; NULL if there are no more
 */
static TupleTableSlot *
get_row(GjScanState *scan)
{
	ScanState  *node = &scan->table.css.ss;
	GjOrderedSorter *sorter = scan->ordered->sorter;
	TupleTableSlot *out = sorter->out;
	TupleTableSlot *row = sorter->row;
	ItemPointer tid = NULL;

	if (sorter->state == NULL ||
		!tuplesort_gettupleslot(sorter->state, true, false, out, NULL))
		return NULL;
	if (sorter->is_whole)
		return out;
	slot_getallattrs(out);
	if (sorter->has_tid)
		tid = (ItemPointer) DatumGetPointer(out->tts_values[sorter->nattnos]);
	if (sorter->fetches)
	{
		if (!table_tuple_fetch_row_version(node->ss_currentRelation, tid,
										   node->ps.state->es_snapshot, scan->table.heap_slot))
			elog(ERROR, "a row of table \"%s\" is not visible any more",
				 RelationGetRelationName(node->ss_currentRelation));
		return scan->table.heap_slot;
	}

	ExecClearTuple(row);
	for (int i = 0; i < sorter->nattnos; i++)
	{
		row->tts_values[sorter->attnos[i] - 1] = out->tts_values[i];
		row->tts_isnull[sorter->attnos[i] - 1] = out->tts_isnull[i];
	}
	ExecStoreVirtualTuple(row);
	if (tid != NULL)
	{
		row->tts_tid = *tid;
		GjNoteEntry(node, scan->cursor, GjPackTid(tid));
	}
	return row;
}

/*
 * End the sort, if there is one: temporary files go away
 */
void
GjOrderedEndSort(GjOrdered *ordered)
{
	GjOrderedSorter *sorter = ordered->sorter;

	if (sorter == NULL || sorter->state == NULL)
		return;
	ExecClearTuple(sorter->out);
	if (sorter->row != NULL)
		ExecClearTuple(sorter->row);
	tuplesort_end(sorter->state);
	sorter->state = NULL;
}
