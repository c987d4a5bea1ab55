/*-------------------------------------------------------------------------
 *
 * join.h
 *	  GpuJoin: a small side joined with tables by their indexes.
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
 * rows.c, direct.c: for who takes rows as arrays.  GjJoinLoad() makes entries or tuples ready, if
 * these are the next rows; false: the next row, should there be one, comes from the executor.
 * Either each entry or tuple is a row (no partners), which for tuples GjJoinTakeTuples() gives;
 * or the rows are the pairs that GjJoinTakePairs() gives, or, where nothing is wanted of the
 * partners, as many for each entry or tuple as GjJoinTakeWeights() says.
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
