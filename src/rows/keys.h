/*-------------------------------------------------------------------------
 *
 * keys.h
 *	  The keys that a scan searches for, and the keys of heap tuples.
 *
 * Included by rows.h, which is the folder's public header.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ROWS_KEYS_H
#define GPUJOIN_ROWS_KEYS_H

#include "executor/tuptable.h"
#include "nodes/execnodes.h"

#include "pages/pages.h"
#include "sets/sets.h"
#include "shape.h"

/*-------------------------------------------------------------------------
 * The keys that a scan's conditions ask for: source.c
 *-------------------------------------------------------------------------
 */

/* A key plan (node/keyplan.h) at run time */
typedef struct GjKeyProgram GjKeyProgram;

extern GjKeyProgram *GjKeyProgramInit(List *key_plan, Expr *condition, PlanState *parent,
									  Relation index, const GjCodec *codec);
extern Bitmapset *GjKeyProgramParams(const GjKeyProgram *program);
extern bool GjKeyProgramHasRests(const GjKeyProgram *program);
extern GjKeySet *GjKeyProgramRun(GjKeyProgram *program, MemoryContext context);

/* The same set, shared by the scans of a query */
extern const GjKeySet *GjKeysTake(GjKeyProgram *program, List *partitions, MemoryContext context);
extern void GjKeysForget(GjKeyProgram *program);
extern void GjKeysEnd(GjKeyProgram *program);

/*-------------------------------------------------------------------------
 * The part of a set that the rows of a partition can have: partition.c
 *-------------------------------------------------------------------------
 */

/* The partitioned tables that an execution has opened; initially only estate is set */
typedef struct GjKeyRouter
{
	EState	   *estate;
	List	   *parents;
} GjKeyRouter;

/* The division of one finished set among the partitions */
typedef struct GjKeyRoutes GjKeyRoutes;

/*
 * partitions is the path from the topmost table down to a table, as a plan has it: for each
 * partitioned table its OID, or InvalidOid if the key does not determine the partition, and the
 * OID of the partition.
 */
extern GjKeyRoutes *GjKeyRoutesCreate(GjKeyRouter *router, MemoryContext parent,
									  const GjKeySet *whole);
extern bool GjKeyRoutesAreUsed(const GjKeyRoutes *routes);
extern bool GjKeyRoutesAreElsewhere(GjKeyRoutes *routes, List *partitions);
extern const GjKeySet *GjKeyRoutesTake(GjKeyRoutes *routes, List *partitions,
									   MemoryContext context);
extern void GjKeyRoutesFree(GjKeyRoutes *routes);
extern void GjKeyRouterClose(GjKeyRouter *router);

/*-------------------------------------------------------------------------
 * The keys of heap tuples: heap.c
 *-------------------------------------------------------------------------
 */

typedef struct GjKeyReader
{
	AttrNumber	attno;			/* heap attribute, or 0: evaluate expr */
	ExprState  *expr;
	ExprState  *predicate;		/* of a partial index: expr is only safe for rows that satisfy it */
	GjCodec		codec;
	Datum		value;			/* that GjReadKey() read last */
	GjTuplePlace place;			/* of the attribute in most tuples, if its bits are the key */
	int			nparts;			/* columns that an exact table also compares */
	AttrNumber *parts;
	int		   *entry_parts;	/* the same as columns of the index, from 0; -1 if it lacks one */
	int		   *entry_seconds;	/* columns with the second words of these; 0 if they have none */
	GjColumnKind *entry_kinds;	/* kinds of these columns */
	bool		has_rests;		/* does the first part prove the key with its code? */
} GjKeyReader;

extern void GjInitKeyReader(GjKeyReader *reader, Relation index, AttrNumber attno, Expr *expr,
							List *predicate, PlanState *parent);
extern void GjKeyReaderSetParts(GjKeyReader *reader, Relation index, List *columns);
extern uint64 GjKeyReaderPartColumns(const GjKeyReader *reader);
extern bool GjReadParts(GjKeyReader *reader, TupleTableSlot *slot, int64 key, Datum *values);
extern bool GjReadKey(GjKeyReader *reader, ExprContext *econtext, TupleTableSlot *slot,
					  int64 *key, bool *isnull);
extern bool GjRowIsListed(GjKeyReader *reader, const GjKeySet *set, TupleTableSlot *slot,
						  int64 key);

/* Keys of rows that are looked up together */
typedef struct GjRowKeys
{
	int			n;
	const int64 *codes;
	const bool *nulls;			/* true for each NULL key or part, or NULL: there is no such row */
	const Datum *const *parts;	/* an array for each part that the reader reads */
} GjRowKeys;

/*
 * Look up the keys of rows.  rows[i] is the number of the row that has the key i: on return, rows[]
 * has the numbers of the rows whose key was found, in the same order, and partners[] what was
 * found for each of them.  Returns their number.
 */
typedef int (*GjRowLookup) (void *arg, const GjRowKeys *keys, uint16 *rows, void **partners);

#endif							/* GPUJOIN_ROWS_KEYS_H */
