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

/* Keys of rows that are looked up together */
typedef struct GjRowKeys
{
	int			n;
	const int64 *codes;
	const bool *nulls;			/* true for each NULL key, or NULL: no key is NULL */
} GjRowKeys;

/*
 * Look up the keys of rows.  rows[i] is the number of the row that has the key i: on return, rows[]
 * has the numbers of the rows whose key was found, in the same order, and partners[] what was
 * found for each of them.  Returns their number.
 */
typedef int (*GjRowLookup) (void *arg, const GjRowKeys *keys, uint16 *rows, void **partners);

#endif							/* GPUJOIN_EXEC_KEYS_H */
