/*-------------------------------------------------------------------------
 *
 * am.h
 *	  The access method's entry points, called by PostgreSQL.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_AM_H
#define GPUJOIN_AM_H

#include "access/amapi.h"

#include "storage/bufmgr.h"

#include "pages/pages.h"

typedef enum GjFoldMode
{
	GJ_FOLD_IF_WORTH_IT,		/* as VACUUM does */
	GJ_FOLD_DELTA,				/* however small the delta is */
	GJ_FOLD_ALL					/* merge everything into one run */
} GjFoldMode;

/* Statistics of a fold */
typedef struct GjFoldStats
{
	int			folds;
	uint64		entries;		/* entries written */
	uint64		pages;
} GjFoldStats;

/* fold.c */
extern void GjFoldIndex(Relation index, GjFoldMode mode, BufferAccessStrategy strategy,
						GjFoldStats *stats);

/* index access method interface functions */
extern bool gjinsert(Relation index, Datum *values, bool *isnull, ItemPointer heap_tid,
					 Relation heap, IndexUniqueCheck checkUnique, bool indexUnchanged,
					 struct IndexInfo *indexInfo);
extern IndexBulkDeleteResult *gjbulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
										   IndexBulkDeleteCallback callback,
										   void *callback_state);
extern IndexBulkDeleteResult *gjvacuumcleanup(IndexVacuumInfo *info,
											  IndexBulkDeleteResult *stats);

#endif							/* GPUJOIN_AM_H */
