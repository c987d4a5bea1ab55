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

/* Phases of a build, in pg_stat_progress_create_index */
#define GJ_BUILD_LOADING		2
#define GJ_BUILD_SORTING		3
#define GJ_BUILD_WRITING		4
#define GJ_BUILD_LOGGING		5

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
extern IndexBuildResult *gjbuild(Relation heap, Relation index, struct IndexInfo *indexInfo);
extern void gjbuildempty(Relation index);
extern bool gjinsert(Relation index, Datum *values, bool *isnull, ItemPointer heap_tid,
					 Relation heap, IndexUniqueCheck checkUnique, bool indexUnchanged,
					 struct IndexInfo *indexInfo);
extern IndexBulkDeleteResult *gjbulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
										   IndexBulkDeleteCallback callback,
										   void *callback_state);
extern IndexBulkDeleteResult *gjvacuumcleanup(IndexVacuumInfo *info,
											  IndexBulkDeleteResult *stats);

#endif							/* GPUJOIN_AM_H */
