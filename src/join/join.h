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

/* join.c */
extern void GjExecJoinInit(void);

#endif							/* GPUJOIN_JOIN_H */
