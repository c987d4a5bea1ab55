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

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "pages/pages.h"

typedef enum GjFoldMode
{
	GJ_FOLD_IF_WORTH_IT,		/* as VACUUM does */
	GJ_FOLD_FLUSH,				/* as a background worker does: only small runs are merged */
	GJ_FOLD_DELTA,				/* however small the delta is */
	GJ_FOLD_ALL					/* a merge of everything into one run */
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

/* A merge of all runs leaves one if the list is full, which is merged in a second round */
#define GJ_MERGE_ROUNDS			2

/*
 * The fold lock of an index: a user lock, as our other locks (pages/request.c).  A fold and a bulk
 * deletion hold it exclusively, a check in share mode; it comes after the locks of the table and
 * the index, so its holder needs no lock of a relation to go on.  It is not a session's: an error
 * releases it at the end of the transaction or subtransaction.  User locks do not conflict within
 * a parallel VACUUM, but that has each index processed by one process only.
 *
 * Only VACUUM, and others that have ShareUpdateExclusiveLock on the table, may wait for it, with
 * GjFoldLock().  PostgreSQL cancels an autovacuum for which any process waits longer than
 * deadlock_timeout; but an autovacuum has that lock on the table, too, so they never wait for one.
 * All others try, and sleep without any lock of a relation if they want to try again.
 */
static inline void
GjFoldLock(Relation index)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, index->rd_index->indrelid);
	Assert(RelationUsesLocalBuffers(index) || GjLockIsHeld(&tag, ShareUpdateExclusiveLock));
	GjFoldTag(GJ_LOCK_FOLD, RelationGetRelid(index), &tag);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

static inline bool
GjFoldTryLock(Relation index, LOCKMODE mode)
{
	LOCKTAG		tag;

	GjFoldTag(GJ_LOCK_FOLD, RelationGetRelid(index), &tag);
	return GjLockTry(&tag, mode, false);
}

static inline void
GjFoldUnlock(Relation index, LOCKMODE mode)
{
	LOCKTAG		tag;

	GjFoldTag(GJ_LOCK_FOLD, RelationGetRelid(index), &tag);
	(void) LockRelease(&tag, mode, false);
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
extern bool GjMergeFindRoom(GjMerge *merge, Relation index);
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
extern bool gjvalidate(Oid opclassoid);
extern void gjadjustmembers(Oid opfamilyoid, Oid opclassoid, List *operators, List *functions);

#endif							/* GPUJOIN_AM_H */
