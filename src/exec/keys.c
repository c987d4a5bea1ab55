/*-------------------------------------------------------------------------
 *
 * keys.c
 *	  Keys at run time: of a fetched tuple, of a value or array that a query
 *	  brings; and the match that both nodes ask for.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "executor/executor.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "parser/parsetree.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "pages/pages.h"
#include "exec.h"

/* Elements of an array between two looks at interrupts */
#define INTERRUPT_INTERVAL		65536

static inline int64 read_integer(const char *at, int16 width);
static void read_tuple_key(GjKeyReader *reader, TupleDesc desc, HeapTuple tuple, int64 *key,
						   bool *isnull);
static void prepare_match(Relation index, Snapshot snapshot);
static void take_all(Relation heap, GjTidSet *tids, GjMatchStats *stats, const char *reason);
static void add_array_keys(GjKeySet *set, GjConverter *converter, ArrayType *array);

/*
 * Open the index for a scan of the table at scanrelid
 *
 * The executor locks tables, not indexes.  With the table's own lock mode no
 * conflict can arise that the table's lock did not bring to light.
 */
Relation
GjOpenIndex(EState *estate, Index scanrelid, Oid index_oid)
{
	return index_open(index_oid, exec_rt_fetch(scanrelid, estate)->rellockmode);
}

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

/*
 * Add the keys of a value, or of each element of an array.  A NULL, as the value,
 * the array or an element, equals nothing and adds nothing.
 */
void
GjAddDatumKeys(GjKeySet *set, GjConverter *converter, Datum value, bool isnull, bool is_array)
{
	if (isnull)
		return;

	if (is_array)
		add_array_keys(set, converter, DatumGetArrayTypeP(value));
	else
		GjConvertToKeys(set, converter, value);
}

/*
 * Walk over the elements where they lie, whatever the array's dimensions: a list
 * of them as Datums would take more memory than the keys themselves.
 */
static void
add_array_keys(GjKeySet *set, GjConverter *converter, ArrayType *array)
{
	int			nelems = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	char	   *element = ARR_DATA_PTR(array);
	bits8	   *not_null = ARR_NULLBITMAP(array);
	int16		typlen;
	bool		typbyval;
	char		typalign;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &typbyval, &typalign);

	for (int i = 0; i < nelems; i++)
	{
		if (i % INTERRUPT_INTERVAL == 0)
			CHECK_FOR_INTERRUPTS();

		if (not_null != NULL && (not_null[i / 8] & (1 << (i % 8))) == 0)
			continue;

		GjConvertToKeys(set, converter, fetch_att(element, typbyval, typlen));
		element = att_addlength_pointer(element, typlen, element);
		element = (char *) att_align_nominal(element, typalign);
	}
}

/*
 * Search the index for a set of keys, on behalf of a scan under this snapshot
 *
 * TIDs are used after the match without a hold on the index; only an MVCC snapshot
 * makes that safe (fetch.c).  What a serializable transaction locks: pages/predicate.c.
 *
 * If the index may lack rows that the snapshot sees, all of the heap is taken.
 */
void
GjExecMatch(Relation heap, Relation index, Snapshot snapshot, const GjKeySet *keys, GjTidSet *tids,
			GjMatchStats *stats)
{
	uint64		found = stats->tids;

	prepare_match(index, snapshot);
	if (!GjIndexIsComplete(index, snapshot))
	{
		take_all(heap, tids, stats, "the index may lack rows that the snapshot sees");
		return;
	}
	GjMatch(index, keys, tids, stats);
	GjTidSetFinish(tids);

	/* what a device and the CPU both found counts once; lossy blocks cannot be counted */
	if (!GjTidSetIsLossy(tids))
		stats->tids = found + GjTidSetCount(tids);
	pgstat_count_index_tuples(index, GjTidSetCount(tids));
}

/*
 * Begin a match of entries, of an index that is complete
 */
void
GjExecMatchEntries(GjEntryMatch *match, Relation index, Snapshot snapshot, const GjKeySet *keys,
				   GjEntrySet *whole, GjMatchStats *stats)
{
	prepare_match(index, snapshot);
	GjEntryMatchBegin(match, index, keys, whole, stats);
}

/*
 * Share a match of entries by ranges of keys, if that is good
 */
bool
GjExecShareRanges(GjSharedRanges *shared, Relation index, Snapshot snapshot,
				  const GjKeySet *keys, uint64 capacity, int nprocesses, GjMatchStats *stats)
{
	if (!GjRangesShare(shared, index, keys, capacity, nprocesses, stats))
		return false;
	prepare_match(index, snapshot);
	return true;
}

static void
prepare_match(Relation index, Snapshot snapshot)
{
	if (!IsMVCCSnapshot(snapshot))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" can only be searched under an MVCC snapshot",
						RelationGetRelationName(index))));

	GjPredicateLock(index, snapshot);
	pgstat_count_index_scan(index);
}

/*
 * Take the whole heap for a match: rows with a NULL key are wanted, which are in no
 * index of ours
 *
 * Plans are not made for that (plan/fold.c), but it may turn out when a scan starts.  A
 * serializable transaction locks the heap as a sequential scan does.
 */
void
GjExecMatchAll(Relation heap, Snapshot snapshot, GjTidSet *tids, GjMatchStats *stats)
{
	PredicateLockRelation(heap, snapshot);
	take_all(heap, tids, stats, "rows with a NULL key are wanted");
}

static void
take_all(Relation heap, GjTidSet *tids, GjMatchStats *stats, const char *reason)
{
	GjTidSetAddBlocks(tids, RelationGetNumberOfBlocks(heap));
	GjTidSetFinish(tids);

	stats->searches++;
	stats->device = NULL;
	stats->reason = reason;
}

/*
 * Give a scan a slot of the table's type, and return it: the scan slot, or for an
 * index-only scan, whose scan slot is a virtual one of the table's shape, another.  Then
 * expressions must be ready for both.
 */
TupleTableSlot *
GjInitScanSlots(ScanState *node, bool index_only)
{
	EState	   *estate = node->ps.state;
	Relation	heap = node->ss_currentRelation;
	TupleDesc	desc = RelationGetDescr(heap);

	if (!index_only)
	{
		ExecInitScanTupleSlot(estate, node, desc, table_slot_callbacks(heap));
		return node->ss_ScanTupleSlot;
	}
	ExecInitScanTupleSlot(estate, node, desc, &TTSOpsVirtual);
	node->ps.scanopsfixed = false;
	return ExecInitExtraTupleSlot(estate, desc, table_slot_callbacks(heap));
}

/*
 * What a node may use for keys and TIDs before it has to do with less
 */
Size
GjWorkMemory(void)
{
	return get_hash_memory_limit();
}
