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
 * memory is that of a batch, and of a piece of the match.  After a few batches (sets/topbatches.c)
 * all rows that are left are sorted at once (orderedsort.c).
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
 *	  after that; and what a mirror has is used only if its epoch is E (match/entries.c).  So it
 *	  can find the older entry only if that was removed after E was read, that is, after our
 *	  snapshot was taken, which then does not see R.
 *	  An answer of a device that is outdated has TIDs alone.  It is not used: the CPU searches.
 * c. So in each batch between whose ends (v, T) lies, (T, v) is kept, and there is only one such
 *	  batch.  Met twice, on a tail page and where it moved to, or by a device and on the CPU, it
 *	  has equal words and is kept once.
 * d. When its turn comes, it is either a row by the visibility map and the epoch, as in
 *	  entryvisible.c: each group of entries is tested after it was found, and the epoch after
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

#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/gpujoin.h"
#include "base/tid.h"
#include "cursor.h"
#include "entryvisible.h"
#include "fill.h"
#include "orderedstate.h"
#include "search.h"

/* Every so many chunks are looked at first, then more, then all: see add_set() */
static const int strides[] = {64, 8, 1};

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
			slot = GjOrderedMakeRow(scan, ordered->next++);
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
	GjOrderedSort(scan);
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
		GjOrderedReadValues(ordered, slot, values, isnull);
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
