/*-------------------------------------------------------------------------
 *
 * exec.h
 *	  GpuScan and GpuAlternative, and the parts of which GpuJoin is made, too: opening
 *	  the index, reading a tuple's key, turning TIDs into tuples, EXPLAIN.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_H
#define GPUJOIN_EXEC_H

#include "entryfill.h"
#include "explain.h"
#include "fetch.h"
#include "indexonly.h"
#include "keys.h"
#include "parallel.h"
#include "partition.h"
#include "small.h"
#include "table.h"
#include "tuplefill.h"

/* scan.c, alternative.c */
extern void GjExecScanInit(void);
extern void GjExecAlternativeInit(void);

#endif							/* GPUJOIN_EXEC_H */
