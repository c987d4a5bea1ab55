/*-------------------------------------------------------------------------
 *
 * keys.h
 *	  The key of a heap tuple.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_KEYS_H
#define GPUJOIN_EXEC_KEYS_H

#include "executor/tuptable.h"
#include "nodes/execnodes.h"

#include "fill.h"

typedef struct GjKeyReader
{
	AttrNumber	attno;			/* heap attribute, or 0: evaluate expr */
	ExprState  *expr;
	ExprState  *predicate;		/* of a partial index, whose expr is good for its rows only */
	FmgrInfo	key_proc;
	GjTuplePlace place;			/* if the key is the value's bits: where it usually lies */
} GjKeyReader;

extern void GjInitKeyReader(GjKeyReader *reader, Relation index, AttrNumber attno, Expr *expr,
							List *predicate, PlanState *parent);
extern bool GjRowHasKey(GjKeyReader *reader, ExprContext *econtext, TupleTableSlot *slot);
extern bool GjReadKey(GjKeyReader *reader, ExprContext *econtext, TupleTableSlot *slot,
					  int64 *key);	/* false: NULL */
extern void GjReadTupleKeys(GjKeyReader *reader, TupleDesc desc, HeapTuple tuples, int ntuples,
							int64 *keys, bool *isnull);

#endif							/* GPUJOIN_EXEC_KEYS_H */
