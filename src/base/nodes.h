/*-------------------------------------------------------------------------
 *
 * nodes.h
 *	  Our executor nodes: their names, and the functions by which they return batches of rows.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_NODES_H
#define GPUJOIN_NODES_H

#include "nodes/execnodes.h"
#include "nodes/extensible.h"

struct GjReduceRequest;
struct GjRowBatch;

/* Functions of a node for batch consumers; each may be NULL */
typedef struct GjRowMethods
{
	/*
	 * Return the column of a row's partner (GjRowBatch) that is this column of the result, both
	 * from 0; or -1 if the column is not a partner's.
	 */
	int			(*partner_column) (const PlanState *node, int at);

	/*
	 * Return the next rows, or NULL if ExecProcNode() returns the next row, if any.  All rows of a
	 * batch must be taken before ExecProcNode() is called.  If no partners are wanted, rows that
	 * differ only in their partner may be returned once, with a weight.
	 */
	struct GjRowBatch *(*next_batch) (PlanState *node, bool want_partners);

	/*
	 * Have a device make groups of the rows, as far as possible, before any row is returned.  If
	 * the result is true, next_states() returns the groups, and the node returns only rows that are
	 * in none of them.  After a rescan, all rows are returned again, or may be reduced again.
	 *
	 * A node that makes several searches, one after another, asks to be asked for each of them, by
	 * the request's function "again", while its rows are being read.
	 */
	bool		(*reduce) (PlanState *node, struct GjReduceRequest *request);
	void		(*next_states) (PlanState *node, struct GjReduceRequest *request);
} GjRowMethods;

extern void GjNodeRegister(CustomScanMethods *methods, const GjRowMethods *rows);
extern const CustomScanMethods *GjNodeMethods(const char *name);
extern const GjRowMethods *GjNodeRowMethods(const PlanState *node);

#endif							/* GPUJOIN_NODES_H */
