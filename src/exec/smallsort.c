/*-------------------------------------------------------------------------
 *
 * smallsort.c
 *	  Sort the rows of a small side that do not fit in memory by their keys.
 *
 * A tuplesort of tuples that have the key as their first column; it has work_mem
 * and spills to temporary files by itself.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "smallsort.h"

struct GjSmallSort
{
	MemoryContext context;
	Tuplesortstate *state;
	TupleTableSlot *in;			/* key, then the columns */
	TupleTableSlot *out;
};

static TupleDesc make_sort_desc(TupleDesc columns);

/*
 * Begin a sort of rows with these columns
 */
GjSmallSort *
GjSortBegin(MemoryContext parent, TupleDesc columns)
{
	MemoryContext context = AllocSetContextCreate(parent, "gpujoin small side sort",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	GjSmallSort *sort = palloc0(sizeof(GjSmallSort));
	TupleDesc	desc = make_sort_desc(columns);
	AttrNumber	attno = 1;
	Oid			less_than = Int8LessOperator;
	Oid			collation = InvalidOid;
	bool		nulls_first = false;

	sort->context = context;
	sort->in = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	sort->out = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	sort->state = tuplesort_begin_heap(desc, 1, &attno, &less_than, &collation, &nulls_first,
									   work_mem, NULL, TUPLESORT_RANDOMACCESS);
	MemoryContextSwitchTo(old_context);
	return sort;
}

static TupleDesc
make_sort_desc(TupleDesc columns)
{
	TupleDesc	desc = CreateTemplateTupleDesc(columns->natts + 1);

	TupleDescInitEntry(desc, 1, "key", INT8OID, -1, 0);
	for (AttrNumber i = 1; i <= columns->natts; i++)
		TupleDescCopyEntry(desc, i + 1, columns, i);
	return desc;
}

void
GjSortPut(GjSmallSort *sort, const Datum *values, const bool *isnull,
		  bool key_is_null, int64 key)
{
	TupleTableSlot *slot = sort->in;
	int			natts = slot->tts_tupleDescriptor->natts - 1;

	ExecClearTuple(slot);
	slot->tts_values[0] = Int64GetDatum(key);
	slot->tts_isnull[0] = key_is_null;
	memcpy(&slot->tts_values[1], values, natts * sizeof(Datum));
	memcpy(&slot->tts_isnull[1], isnull, natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(sort->state, slot);
	ExecClearTuple(slot);
}

/*
 * Sort the rows that were added, so that reading can begin
 */
void
GjSortFinish(GjSmallSort *sort)
{
	tuplesort_performsort(sort->state);
}

/*
 * Read the next row; false at the end
 */
bool
GjSortNext(GjSmallSort *sort, GjSortedRow *row)
{
	TupleTableSlot *slot = sort->out;

	if (!tuplesort_gettupleslot(sort->state, true, false, slot, NULL))
		return false;

	slot_getallattrs(slot);
	row->values = &slot->tts_values[1];
	row->isnull = &slot->tts_isnull[1];
	row->key_is_null = slot->tts_isnull[0];
	row->key = row->key_is_null ? 0 : DatumGetInt64(slot->tts_values[0]);
	return true;
}

/*
 * Read again from the start
 */
void
GjSortRewind(GjSmallSort *sort)
{
	ExecClearTuple(sort->out);
	tuplesort_rescan(sort->state);
}

/*
 * Drop it all; the slot with a row of the sort goes before the sort does
 */
void
GjSortEnd(GjSmallSort *sort)
{
	ExecDropSingleTupleTableSlot(sort->in);
	ExecDropSingleTupleTableSlot(sort->out);
	tuplesort_end(sort->state);
	MemoryContextDelete(sort->context);
}
