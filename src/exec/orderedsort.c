/*-------------------------------------------------------------------------
 *
 * orderedsort.c
 *	  The rows after the last batch of an ordered scan, by one sort.
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
 * sort columns, TID), that of the last entry of the last batch, and none behind it (ordered.c).
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
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "base/tid.h"
#include "cursor.h"
#include "orderedstate.h"

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

static GjOrderedSorter *make_sorter(GjScanState *scan);
static void choose_columns(GjOrderedSorter *sorter, GjScanState *scan);
static TupleDesc describe_columns(const GjOrderedSorter *sorter, TupleDesc table);
static void choose_operators(GjOrderedSorter *sorter, const GjOrdered *ordered, TupleDesc desc);
static void collect(GjScanState *scan);
static bool comes_later(GjScanState *scan, TupleTableSlot *slot);
static uint64 find_root(GjScanState *scan, TupleTableSlot *slot);
static void put_row(GjOrderedSorter *sorter, TupleTableSlot *slot);
static TupleTableSlot *get_row(GjScanState *scan);

/*
 * Sort all rows that come after the last entry of the last batch
 */
void
GjOrderedSort(GjScanState *scan)
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

	GjOrderedReadValues(ordered, slot, values, isnull);
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
