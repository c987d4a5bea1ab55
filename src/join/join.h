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
 * rows.c, direct.c: for who takes rows as arrays.  GjJoinLoad() makes entries ready, if these
 * are the next rows, and says in which arrays they are; false: the next row, should there be
 * one, comes from the executor.  Either each entry of the chunk from next on is a row (no
 * partners), or the rows are the pairs that GjJoinTakePairs() gives, or, where nothing is wanted
 * of the partners, as many for each entry as GjJoinTakeWeights() says.
 */
typedef struct GjJoinState GjJoinState;

extern bool GjJoinLoad(GjJoinState *state, GjIndexOnlyChunk **chunk, const GjFill **fill,
					   bool *partners);
extern int	GjJoinSmallColumn(const GjJoinState *state, AttrNumber attno);
extern int	GjJoinSmallColumns(const GjJoinState *state);
extern bool GjJoinIsInPairs(const GjJoinState *state);
extern int	GjJoinTakePairs(GjJoinState *state, uint16 *rows, GjSmallRow **partners, int most);
extern int	GjJoinTakeWeights(GjJoinState *state, uint16 *rows, uint32 *weights);

#endif							/* GPUJOIN_JOIN_H */
