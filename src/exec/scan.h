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
#include "exec.h"
#include "keyshare.h"
#include "parallel.h"

typedef struct GjScanState
{
	GjTableScan		table;			/* first */
	GjKeyProgram *program;		/* the conditions on the key */
	GjKeyUser	key_user;		/* has the keys of which the table's are a part, or all */
	bool		is_cursor;		/* somebody may ask where a row lies */
} GjScanState;

/* scanmatch.c: what a scan asks its index */
extern void GjScanMakeKeys(GjScanState *scan);
extern GjTidSet *GjScanMatch(GjScanState *scan);

#endif							/* GPUJOIN_EXEC_SCAN_H */
