/*-------------------------------------------------------------------------
 *
 * codes.h
 *	  Numbers for the values of a column whose equality is not that of bits, so that rows can
 *	  be grouped by it: equal values, as their type sees it, have the same number.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_CODES_H
#define GPUJOIN_CODES_H

#include "nodes/memnodes.h"

typedef struct GjCodes GjCodes;

/*
 * Create a set of numbers below parent.  The type has a default equality and a hash function
 * for it; the user must be allowed to execute the former.
 */
extern GjCodes *GjCodesCreate(MemoryContext parent, Oid type, Oid collation);

/* The number of a value; what it points to may go away */
extern int32 GjCodesFind(GjCodes *codes, Datum value);

/* The first value that got the number; good until all are forgotten */
extern Datum GjCodesValue(const GjCodes *codes, int32 code);

/* Forget all values and numbers */
extern void GjCodesClear(GjCodes *codes);

#endif							/* GPUJOIN_CODES_H */
