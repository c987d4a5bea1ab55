/*-------------------------------------------------------------------------
 *
 * sorter.c
 *	  Sorting the rows of a GpuScan that remain after batches (ordered.c), with PostgreSQL's
 *	  tuplesort, which uses work_mem and then temporary files.
 *
 * Only the columns that the target list uses are sorted, as in a Sort node, and the tuple's TID.
 * If the list uses other system columns, like xmin, only the sort columns and the TID are sorted,
 * and the tuple, which is still visible, is fetched again.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/tableam.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "base/settings.h"
#include "base/tid.h"
#include "exec.h"

struct GjSorter
{
	Tuplesortstate *state;		/* NULL before and after a sort */
	const GjSortColumn *columns;
	int			ncolumns;

	/* The sorted columns, the same during the query; the TID is an additional last one */
	TupleDesc	desc;
	int			nattnos;
	AttrNumber *attnos;			/* attribute of the table, for each column */
	bool		fetches;		/* is the tuple fetched again by the TID? */
	TupleTableSlot *in;			/* slot for a row that is added to the sort */
	TupleTableSlot *out;		/* slot for a row that is read from the sort */
	TupleTableSlot *row;		/* slot of the table's shape; other columns are NULL */
};

static void choose_columns(GjSorter *sorter, const GjScanState *scan, const AttrNumber *attnos);

/*
 * Prepare sorts of a scan's rows by these columns, whose attributes are in attnos
 */
GjSorter *
GjSorterCreate(const GjScanState *scan, const GjSortColumn *columns, const AttrNumber *attnos,
			   int ncolumns)
{
	GjSorter   *sorter = palloc0(sizeof(GjSorter));
	EState	   *estate = scan->table.css.ss.ps.state;
	Relation	heap = scan->table.css.ss.ss_currentRelation;

	sorter->columns = columns;
	sorter->ncolumns = ncolumns;
	choose_columns(sorter, scan, attnos);
	sorter->desc = CreateTemplateTupleDesc(sorter->nattnos + 1);
	for (int i = 0; i < sorter->nattnos; i++)
		TupleDescCopyEntry(sorter->desc, i + 1, RelationGetDescr(heap), sorter->attnos[i]);
	TupleDescInitEntry(sorter->desc, sorter->nattnos + 1, "ctid", TIDOID, -1, 0);
	GjTupleDescFinalize(sorter->desc);
	sorter->out = ExecInitExtraTupleSlot(estate, sorter->desc, &TTSOpsMinimalTuple);
	sorter->out->tts_tableOid = RelationGetRelid(heap);
	sorter->in = ExecInitExtraTupleSlot(estate, sorter->desc, &TTSOpsVirtual);
	sorter->row = ExecInitExtraTupleSlot(estate, RelationGetDescr(heap), &TTSOpsVirtual);
	sorter->row->tts_tableOid = RelationGetRelid(heap);
	memset(sorter->row->tts_isnull, true, RelationGetDescr(heap)->natts);
	return sorter;
}

/*
 * Choose the columns that are sorted: the sort columns, and the others of the target list.  The
 * quals have been tested before.
 */
static void
choose_columns(GjSorter *sorter, const GjScanState *scan, const AttrNumber *attnos)
{
	const Scan *plan = (const Scan *) scan->table.css.ss.ps.plan;
	TupleDesc	desc = RelationGetDescr(scan->table.css.ss.ss_currentRelation);
	Bitmapset  *used = NULL;
	int			member = -1;
	bool		whole_row;

	pull_varattnos((Node *) plan->plan.targetlist, plan->scanrelid, &used);
	while ((member = bms_next_member(used, member)) >= 0)
	{
		AttrNumber	attno = member + FirstLowInvalidHeapAttributeNumber;

		if (attno < 0 && attno != TableOidAttributeNumber &&
			attno != SelfItemPointerAttributeNumber)
			sorter->fetches = true;
	}
	whole_row = bms_is_member(-FirstLowInvalidHeapAttributeNumber, used);
	if (sorter->fetches)
	{
		whole_row = false;
		used = NULL;
	}
	sorter->attnos = palloc((sorter->ncolumns + desc->natts) * sizeof(AttrNumber));
	for (int i = 0; i < sorter->ncolumns; i++)
	{
		sorter->attnos[sorter->nattnos++] = attnos[i];
		used = bms_del_member(used, attnos[i] - FirstLowInvalidHeapAttributeNumber);
	}
	for (AttrNumber attno = 1; attno <= desc->natts; attno++)
	{
		if (!TupleDescAttr(desc, attno - 1)->attisdropped &&
			(whole_row || bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, used)))
			sorter->attnos[sorter->nattnos++] = attno;
	}
}

/*
 * Begin a sort
 */
void
GjSorterBegin(GjSorter *sorter)
{
	AttrNumber	places[GJ_MAX_INCLUDED + 1];
	Oid			operators[GJ_MAX_INCLUDED + 1];
	Oid			collations[GJ_MAX_INCLUDED + 1] = {InvalidOid};
	bool		nulls_first[GJ_MAX_INCLUDED + 1];

	for (int i = 0; i < sorter->ncolumns; i++)
	{
		const GjSortColumn *column = &sorter->columns[i];
		TypeCacheEntry *type = lookup_type_cache(TupleDescAttr(sorter->desc, i)->atttypid,
												 TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);

		places[i] = i + 1;
		operators[i] = column->descending ? type->gt_opr : type->lt_opr;
		nulls_first[i] = column->nulls_first;
	}
	sorter->state = tuplesort_begin_heap(sorter->desc, sorter->ncolumns, places, operators,
										 collations, nulls_first, work_mem, NULL, TUPLESORT_NONE);
}

/*
 * Add a row
 */
void
GjSorterPut(GjSorter *sorter, TupleTableSlot *slot)
{
	TupleTableSlot *in = sorter->in;

	ExecClearTuple(in);
	for (int i = 0; i < sorter->nattnos; i++)
		in->tts_values[i] = slot_getattr(slot, sorter->attnos[i], &in->tts_isnull[i]);
	in->tts_values[sorter->nattnos] = PointerGetDatum(&slot->tts_tid);
	in->tts_isnull[sorter->nattnos] = false;
	ExecStoreVirtualTuple(in);
	tuplesort_puttupleslot(sorter->state, in);
}

/*
 * Sort the rows that have been added; *stats becomes method and memory
 */
void
GjSorterFinish(GjSorter *sorter, TuplesortInstrumentation *stats)
{
	tuplesort_performsort(sorter->state);
	tuplesort_get_stats(sorter->state, stats);
}

/*
 * Return the next row from the sort, in a slot of the table's shape, or NULL if no row is left
 */
TupleTableSlot *
GjSorterNext(GjScanState *scan, GjSorter *sorter)
{
	ScanState  *node = &scan->table.css.ss;
	TupleTableSlot *out = sorter->out;
	TupleTableSlot *row = sorter->row;
	ItemPointer tid;

	if (!tuplesort_gettupleslot(sorter->state, true, false, out, NULL))
		return NULL;
	slot_getallattrs(out);
	tid = (ItemPointer) DatumGetPointer(out->tts_values[sorter->nattnos]);
	if (sorter->fetches)
	{
		if (!table_tuple_fetch_row_version(node->ss_currentRelation, tid,
										   node->ps.state->es_snapshot, scan->table.heap_slot))
			elog(ERROR, "a row of table \"%s\" is no longer visible",
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
	row->tts_tid = *tid;
	GjNoteEntry(node, scan->cursor, GjPackTid(tid));
	return row;
}

/*
 * End the sort, if there is one, and remove its temporary files
 */
void
GjSorterEnd(GjSorter *sorter)
{
	if (sorter == NULL || sorter->state == NULL)
		return;
	ExecClearTuple(sorter->out);
	ExecClearTuple(sorter->row);
	tuplesort_end(sorter->state);
	sorter->state = NULL;
}
