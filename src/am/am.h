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
#include "storage/lmgr.h"

#include "pages/pages.h"

typedef enum GjFoldMode
{
	GJ_FOLD_IF_WORTH_IT,		/* as VACUUM does */
	GJ_FOLD_FLUSH,				/* as a background worker does: only small runs are merged */
	GJ_FOLD_DELTA,				/* however small the delta is */
	GJ_FOLD_ALL					/* merge everything into one run */
} GjFoldMode;

/* Statistics of a fold */
typedef struct GjFoldStats
{
	int			folds;
	uint64		entries;		/* entries written */
	uint64		pages;
	bool		forgotten;		/* true if a flush gave up an unfinished run, but did not look for
								 * its pages */
} GjFoldStats;

/* A merge of runs in steps: private to merge.c */
typedef struct GjMerge GjMerge;

/*
 * The fold lock of an index: a user lock, as our other locks (pages/request.c).  A fold and a bulk
 * deletion hold it exclusively, a check in share mode; it comes after the locks of the table and
 * the index.  It is not a session's: an error releases it at the end of the transaction or
 * subtransaction.  User locks do not conflict within a parallel VACUUM, but that has each index
 * processed by one process only.
 */
static inline void
GjFoldLock(Relation index)
{
	LOCKTAG		tag;

	GjFoldTag(GJ_LOCK_FOLD, RelationGetRelid(index), &tag);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

static inline bool
GjFoldTryLock(Relation index)
{
	LOCKTAG		tag;

	GjFoldTag(GJ_LOCK_FOLD, RelationGetRelid(index), &tag);
	return LockAcquire(&tag, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

static inline void
GjFoldUnlock(Relation index)
{
	LOCKTAG		tag;

	GjFoldTag(GJ_LOCK_FOLD, RelationGetRelid(index), &tag);
	(void) LockRelease(&tag, ExclusiveLock, false);
}

/* fold.c */
extern bool GjFoldIndex(Relation index, GjFoldMode mode, BufferAccessStrategy strategy,
						GjFoldStats *stats);
extern void GjFoldCount(Relation index, const GjFoldStats *stats, int64 us);
extern bool GjFoldFindFree(Relation index, BlockNumber *next, BlockNumber n,
						   BufferAccessStrategy strategy);

/* merge.c */
extern GjMerge *GjMergeBegin(Relation index, GjFoldMode mode, BufferAccessStrategy strategy,
							 bool *is_busy);
extern bool GjMergeStep(GjMerge *merge, Relation index);
extern bool GjMergeFree(GjMerge *merge, Relation index);
extern const GjFoldStats *GjMergeGetStats(const GjMerge *merge);
extern void GjMergeLeave(GjMerge *merge);
extern void GjMergeRuns(Relation index, GjFoldMode mode, BufferAccessStrategy strategy,
						GjFoldStats *stats);

/* vacuum.c */
extern void GjVacuumSleep(void);

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
