/*-------------------------------------------------------------------------
 *
 * exec.h
 *	  Parts of the executor that both nodes, GpuScan and GpuJoin, use: opening
 *	  the index, reading a tuple's key, turning TIDs into tuples, EXPLAIN.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_H
#define GPUJOIN_EXEC_H

#include "executor/tuptable.h"
#include "nodes/execnodes.h"

#include "compat.h"
#include "execindexonly.h"
#include "exectuple.h"
#include "keyplan.h"
#include "match.h"
#include "smallside.h"

/* execconvert.c: values to keys */
typedef struct GjConverter
{
	GjConversion how;
	FmgrInfo	proc;			/* GJ_CONVERT_PROC: the operator class's support function */
} GjConverter;

extern void GjConvertToKeys(GjKeySet *set, GjConverter *converter, Datum value);

/* execsource.c: the keys that a scan's conditions ask for */
typedef struct GjKeyProgram GjKeyProgram;

extern GjKeyProgram *GjKeyProgramInit(List *key_plan, List *values, PlanState *parent);
extern Bitmapset *GjKeyProgramParams(const GjKeyProgram *program);	/* executor params in it */
extern GjKeySet *GjKeyProgramRun(GjKeyProgram *program, ExprContext *econtext,
								 MemoryContext context, int key_width);

/* execkey.c: the key of a heap tuple, and the index that is searched */
typedef struct GjKeyReader
{
	AttrNumber	attno;			/* heap attribute, or 0: evaluate expr */
	ExprState  *expr;
	FmgrInfo	key_proc;
	GjTuplePlace place;			/* if the key is the value's bits: where it usually lies */
} GjKeyReader;

/*
 * exectids.c: TIDs to tuples, a heap block at a time, following HOT chains under
 * the snapshot.  Does not own the TID set.  Delivers a superset as regards the
 * key: the caller rechecks it, unless GjFetchFilter() or GjFetchJoin() says that it is
 * done here.
 * The tuple in the slot is good until the next call; at the end the slot is cleared.
 */
typedef struct GjFetch GjFetch;

/* What has been fetched from a block: the caller may take it from here, one by one */
typedef struct GjFetchBlock
{
	int			ntuples;
	int			next;			/* to be taken */
	HeapTupleData tuples[MaxHeapTuplesPerPage];
	GjSmallRow *partners[MaxHeapTuplesPerPage]; /* of the tuples, with GjFetchJoin() */
} GjFetchBlock;

typedef struct GjFetchStats
{
	uint64		exact_blocks;	/* heap blocks with known offsets */
	uint64		lossy_blocks;	/* heap blocks looked at whole */
	uint64		tuples;			/* visible tuples, a block's all at once */
	uint64		rechecked;		/* of these, removed by the key recheck (by whoever does it) */
} GjFetchStats;

extern GjFetch *GjFetchCreate(MemoryContext parent, Relation heap, Snapshot snapshot);
extern bool GjFetchFilter(GjFetch *fetch, GjKeyReader *reader, const GjKeySet *keys);
extern bool GjFetchJoin(GjFetch *fetch, GjKeyReader *reader, GjSmallSide *small);
extern GjSmallRow *GjFetchPartners(const GjFetch *fetch);
extern GjFetchBlock *GjFetchGetBlock(GjFetch *fetch);
extern bool GjFetchLoad(GjFetch *fetch);
extern void GjFetchStart(GjFetch *fetch, GjTidSet *tids);
extern bool GjFetchNext(GjFetch *fetch, TupleTableSlot *slot);
extern bool GjFetchFill(GjFetch *fetch, const GjTupleFill *fill, TupleTableSlot *slot,
						ItemPointerData *place);
extern void GjFetchReset(GjFetch *fetch);	/* drops pins; TID set may go */
extern void GjFetchFree(GjFetch *fetch);
extern GjFetchStats *GjFetchGetStats(GjFetch *fetch);

extern Relation GjOpenIndex(EState *estate, Index scanrelid, Oid index_oid);
extern void GjInitKeyReader(GjKeyReader *reader, Relation index, AttrNumber attno, Expr *expr,
							PlanState *parent);
extern bool GjReadKey(GjKeyReader *reader, ExprContext *econtext, TupleTableSlot *slot,
					  int64 *key);	/* false: NULL */
extern void GjReadTupleKeys(GjKeyReader *reader, TupleDesc desc, HeapTuple tuples, int ntuples,
							int64 *keys, bool *isnull);
extern void GjAddDatumKeys(GjKeySet *set, GjConverter *converter, Datum value, bool isnull,
						   bool is_array);
extern void GjExecMatch(Relation heap, Relation index, Snapshot snapshot, const GjKeySet *keys,
						GjTidSet *tids, GjMatchStats *stats);
extern void GjExecMatchAll(Relation heap, Snapshot snapshot, GjTidSet *tids,
						   GjMatchStats *stats);
extern void GjExecMatchEntries(GjEntryMatch *match, Relation index, Snapshot snapshot,
							   const GjKeySet *keys, GjEntrySet *whole,
							   GjMatchStats *stats);
extern bool GjExecShareRanges(GjSharedRanges *shared, Relation index, Snapshot snapshot,
							  const GjKeySet *keys, uint64 capacity, int nprocesses,
							  GjMatchStats *stats);
extern TupleTableSlot *GjInitScanSlots(ScanState *node, bool index_only);
extern Size GjWorkMemory(void); /* work_mem * hash_mem_multiplier, bytes */

/* execcomplete.c */
extern bool GjIndexIsComplete(Relation index, Snapshot snapshot);

/* explain.c: every property that either node shows */
extern void GjExplainIndex(ExplainState *es, Oid index_oid);
extern void GjExplainKeyCondition(CustomScanState *node, List *ancestors, ExplainState *es,
								  List *key_quals);
extern void GjExplainIndexFilter(CustomScanState *node, List *ancestors, ExplainState *es,
								 List *filter_plan, const GjMatchStats *match);
extern void GjExplainIndexOnly(ExplainState *es, const GjIndexOnlyStats *stats);
extern void GjExplainMatch(ExplainState *es, const GjMatchStats *match,
						   const GjFetchStats *fetch);

#endif							/* GPUJOIN_EXEC_H */
