/*-------------------------------------------------------------------------
 *
 * visible.h
 *	  The candidates of one pinned heap block: those that the snapshot sees.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_VISIBLE_H
#define GPUJOIN_EXEC_VISIBLE_H

#include "access/htup.h"
#include "storage/buf.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "sets/sets.h"

#endif							/* GPUJOIN_EXEC_VISIBLE_H */
