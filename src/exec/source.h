/*-------------------------------------------------------------------------
 *
 * source.h
 *	  The keys that a scan's conditions ask for.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_SOURCE_H
#define GPUJOIN_EXEC_SOURCE_H

#include "nodes/execnodes.h"

#include "node/keyplan.h"
#include "sets/sets.h"

typedef struct GjKeyProgram GjKeyProgram;

extern GjKeyProgram *GjKeyProgramInit(List *key_plan, List *values, PlanState *parent);
extern Bitmapset *GjKeyProgramParams(const GjKeyProgram *program);
extern GjKeySet *GjKeyProgramRun(GjKeyProgram *program, ExprContext *econtext,
								 MemoryContext context, int key_width);

/* The clauses again, for EXPLAIN */
extern List *GjKeyPlanClauses(List *key_plan, List *values, Expr *key);

#endif							/* GPUJOIN_EXEC_SOURCE_H */
