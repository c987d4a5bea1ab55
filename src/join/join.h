/*-------------------------------------------------------------------------
 *
 * join.h
 *	  GpuJoin: join a small side with tables through their indexes.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_JOIN_H
#define GPUJOIN_JOIN_H

#include "exec/exec.h"

/* join.c */
extern void GjExecJoinInit(void);
extern bool GjIsJoin(const PlanState *node);

/*
 * Interface for batch consumers (rows.c, direct.c).  GjJoinLoad() loads entries or tuples if
 * these are the next rows, and returns false if the next row, if any, comes from the executor.
 * Either each entry or tuple is a row (*partners is false), and GjJoinTakeTuples() takes tuples;
 * or the rows are the pairs that GjJoinTakePairs() returns.  If no column of the partners is
 * wanted, GjJoinTakeWeights() instead returns the number of rows that each entry or tuple stands
 * for.
 */
typedef struct GjJoinState GjJoinState;

extern bool GjJoinLoad(GjJoinState *state, GjReadyRows *ready, bool *partners);
extern int	GjJoinSmallColumn(const GjJoinState *state, AttrNumber attno);
extern int	GjJoinSmallColumns(const GjJoinState *state);
extern bool GjJoinIsInPairs(const GjJoinState *state);
extern int	GjJoinTakeTuples(GjJoinState *state, uint16 *rows, int most);
extern int	GjJoinTakePairs(GjJoinState *state, uint16 *rows, GjSmallRow **partners, int most);
extern int	GjJoinTakeWeights(GjJoinState *state, uint16 *rows, uint32 *weights, int most);

#endif							/* GPUJOIN_JOIN_H */
