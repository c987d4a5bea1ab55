/*-------------------------------------------------------------------------
 *
 * scan.h
 *	  A GpuScan, while it is executed.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_SCAN_H
#define GPUJOIN_EXEC_SCAN_H

#include "node/scanplan.h"
#include "rows/rows.h"
#include "cursor.h"
#include "exec.h"
#include "ordered.h"
#include "parallel.h"

typedef struct GjScanState
{
	GjTableScan		table;			/* first */
	GjKeyProgram *program;		/* the conditions on the key */
	GjKeyUser	key_user;		/* has the keys of which the table's are a part, or all */
	GjOrdered  *ordered;		/* NULL: rows come in any order */
	GjCursor	cursor;			/* may somebody ask where a row lies? */
} GjScanState;

/* scan.c: what a scan asks its index */
extern void GjScanMakeKeys(GjScanState *scan);
extern Size GjScanMemory(const GjScanState *scan);

/* scan.c: return true if the tuple in the slot has a key that is wanted */
extern bool GjScanWants(GjScanState *scan, TupleTableSlot *slot);

/* scan.c: rows in no order */
extern void GjScanStart(GjScanState *scan);
extern void GjScanStartFetch(GjScanState *scan, GjTidSet *tids);
extern TupleTableSlot *GjScanNext(GjScanState *scan);

#endif							/* GPUJOIN_EXEC_SCAN_H */
