/*-------------------------------------------------------------------------
 *
 * keyreader.c
 *	  The key of a fetched tuple.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "executor/executor.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "pages/pages.h"
#include "keys.h"

static inline int64 read_integer(const char *at, int16 width);
static void read_tuple_key(GjKeyReader *reader, TupleDesc desc, HeapTuple tuple, int64 *key,
						   bool *isnull);

/*
 * Prepare reading the key of heap tuples of a scan's table: of an attribute, or where attno
 * is 0, of the indexed expression, for rows that satisfy the predicate
 */
void
GjInitKeyReader(GjKeyReader *reader, Relation index, AttrNumber attno, Expr *expr,
				List *predicate, PlanState *parent)
{
	reader->attno = attno;
	reader->expr = attno == 0 ? ExecInitExpr(expr, parent) : NULL;
	reader->predicate = attno == 0 ? ExecInitQual(predicate, parent) : NULL;
	fmgr_info_copy(&reader->key_proc, index_getprocinfo(index, 1, GJ_KEY_PROC),
				   CurrentMemoryContext);
	reader->place.attno = 0;
	if (GjKeyProcKeepsValue(reader->key_proc.fn_addr))
		GjTupleFindPlace(RelationGetDescr(((ScanState *) parent)->ss_currentRelation), attno,
						 &reader->place);
}

/*
 * May the key of the tuple in the slot be read?
 *
 * An indexed expression may fail for rows that the index is not for, as 1 / x does without
 * WHERE x <> 0.  We meet such rows: a mirror's TID may have become theirs, a lossy block may
 * have them, all of the heap may be taken for a match, and EvalPlanQual's row may be one.
 * The predicate follows from the query's conditions, so they are not wanted.  It was computed
 * for each of them when they were inserted, before any security barrier: it tells nothing here.
 */
bool
GjRowHasKey(GjKeyReader *reader, ExprContext *econtext, TupleTableSlot *slot)
{
	if (reader->predicate == NULL)
		return true;
	econtext->ecxt_scantuple = slot;
	return ExecQual(reader->predicate, econtext);
}

/*
 * Read the key of the tuple in the slot, for which GjRowHasKey(); false if it is NULL
 *
 * An expression leaves its garbage in the per-tuple memory of econtext.
 */
bool
GjReadKey(GjKeyReader *reader, ExprContext *econtext, TupleTableSlot *slot, int64 *key)
{
	Datum		value;
	bool		isnull;

	if (reader->attno != 0)
		value = slot_getattr(slot, reader->attno, &isnull);
	else
	{
		econtext->ecxt_scantuple = slot;
		value = ExecEvalExprSwitchContext(reader->expr, econtext, &isnull);
	}
	if (isnull)
		return false;

	*key = GjKeyFromDatum(&reader->key_proc, value);
	return true;
}

/*
 * Read the keys of heap tuples that are in no slot; only where the key is an attribute.
 */
void
GjReadTupleKeys(GjKeyReader *reader, TupleDesc desc, HeapTuple tuples, int ntuples, int64 *keys,
				bool *isnull)
{
	const GjTuplePlace place = reader->place;

	for (int i = 0; i < ntuples; i++)
	{
		if (likely(place.attno != 0 && GjTupleHasPlace(tuples[i].t_data, place.attno)))
		{
			keys[i] = read_integer(GjTupleAt(tuples[i].t_data, &place), place.width);
			isnull[i] = false;
		}
		else
			read_tuple_key(reader, desc, &tuples[i], &keys[i], &isnull[i]);
	}
}

static inline int64
read_integer(const char *at, int16 width)
{
	switch (width)
	{
		case sizeof(int16):
			return *(const int16 *) at;
		case sizeof(int32):
			return *(const int32 *) at;
		default:
			return *(const int64 *) at;
	}
}

static void
read_tuple_key(GjKeyReader *reader, TupleDesc desc, HeapTuple tuple, int64 *key, bool *isnull)
{
	Datum		value = heap_getattr(tuple, reader->attno, desc, isnull);

	if (!*isnull)
		*key = GjKeyFromDatum(&reader->key_proc, value);
}
