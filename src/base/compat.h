/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Differences between PostgreSQL 15, 16, 17 and 18.  No other file names a version: it
 *	  tests a feature macro from here, or calls a wrapper.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_BASE_COMPAT_H
#define GPUJOIN_BASE_COMPAT_H

#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

#if PG_VERSION_NUM < 150000
#error "gpujoin needs PostgreSQL 15 or newer"
#endif

/* Access method ------------------------------------------------------------ */

#if PG_VERSION_NUM >= 160000
#define GJ_HAVE_AMSUMMARIZING	1
#endif
#if PG_VERSION_NUM >= 180000
#define GJ_HAVE_AMCONSISTENTEQUALITY	1
#define GjVacuumDelayPoint()	vacuum_delay_point(false)
#else
#define GjVacuumDelayPoint()	vacuum_delay_point()
#endif

/* VACUUM's cost limit: 16 has the effective one in a variable of its own -------------- */

#if PG_VERSION_NUM >= 160000
#define GjVacuumCostLimit		vacuum_cost_limit
#else
#define GjVacuumCostLimit		VacuumCostLimit
#endif

/* Files of relations: 16 renamed them, 18 returns paths by value -------------------- */

#include "common/relpath.h"
#include "utils/rel.h"

#if PG_VERSION_NUM >= 160000
#define GjRelationDatabase(rel)		((rel)->rd_locator.dbOid)
#define GjRelationTablespace(rel)	((rel)->rd_locator.spcOid)
#define GjRelationFile(rel)			((rel)->rd_locator.relNumber)
#define GjRelationLocator(rel)		((rel)->rd_locator)
#define GjBufferTagFile(tag)		((tag)->relNumber)
#else
#define GjRelationDatabase(rel)		((rel)->rd_node.dbNode)
#define GjRelationTablespace(rel)	((rel)->rd_node.spcNode)
#define GjRelationFile(rel)			((rel)->rd_node.relNode)
#define GjRelationLocator(rel)		((rel)->rd_node)
#define GjBufferTagFile(tag)		((tag)->rnode.relNode)
#endif

/*
 * True if a relation was created, or got another file, in this transaction
 */
#if PG_VERSION_NUM >= 160000
#define GjRelationIsNew(rel) \
	((rel)->rd_createSubid != InvalidSubTransactionId || \
	 (rel)->rd_firstRelfilelocatorSubid != InvalidSubTransactionId)
#else
#define GjRelationIsNew(rel) \
	((rel)->rd_createSubid != InvalidSubTransactionId || \
	 (rel)->rd_firstRelfilenodeSubid != InvalidSubTransactionId)
#endif

#if PG_VERSION_NUM >= 170000
#include "storage/procnumber.h"
#else
#include "storage/backendid.h"
#endif

/*
 * Write the path of a permanent relation's first segment, relative to the data directory
 */
static inline void
GjRelationPath(Oid database, Oid tablespace, Oid file, char *path)
{
#if PG_VERSION_NUM >= 180000
	RelPathStr	result = GetRelationPath(database, tablespace, file, INVALID_PROC_NUMBER,
										 MAIN_FORKNUM);

	strlcpy(path, result.str, MAXPGPATH);
#else
#if PG_VERSION_NUM >= 170000
	char	   *result = GetRelationPath(database, tablespace, file, INVALID_PROC_NUMBER,
										 MAIN_FORKNUM);
#else
	char	   *result = GetRelationPath(database, tablespace, file, InvalidBackendId,
										 MAIN_FORKNUM);
#endif

	strlcpy(path, result, MAXPGPATH);
	pfree(result);
#endif
}

/* Privileges ----------------------------------------------------------------- */

#if PG_VERSION_NUM >= 160000
#define GjIsTableOwner(relid)	object_ownercheck(RelationRelationId, relid, GetUserId())
#define GjCheckMayExecute(funcid) \
	object_aclcheck(ProcedureRelationId, funcid, GetUserId(), ACL_EXECUTE)
#else
#define GjIsTableOwner(relid)	pg_class_ownercheck(relid, GetUserId())
#define GjCheckMayExecute(funcid)	pg_proc_aclcheck(funcid, GetUserId(), ACL_EXECUTE)
#endif

/* Raise an error unless the user may read everything that the plan reads. */
#if PG_VERSION_NUM >= 160000
#define GjCheckMayRead(plan) \
	((void) ExecCheckPermissions((plan)->rtable, (plan)->permInfos, true))
#define GjMayBecome(role)	member_can_set_role(GetUserId(), role)
#else
#define GjCheckMayRead(plan)	((void) ExecCheckRTPerms((plan)->rtable, true))
#define GjMayBecome(role)	is_member_of_role(GetUserId(), role)
#endif

#if PG_VERSION_NUM >= 170000
#define GjRestrictSearchPath()	RestrictSearchPath()
#else
#define GjRestrictSearchPath()	((void) 0)
#endif

/* Snapshots ------------------------------------------------------------------ */

/*
 * With old_snapshot_threshold, removed in 17, rows visible to a snapshot may be removed while it
 * is in use; code that bypasses the buffer manager's test for that must not be used then.
 */
#if PG_VERSION_NUM >= 170000
#define GjOldSnapshotsExpire()	false
#else
#define GjOldSnapshotsExpire()	OldSnapshotThresholdActive()
#endif

/*
 * Reading ahead: 17 has read streams.  Ours want every page that they are asked for, and choosing
 * the next page is cheap; 18 has flags for that.
 */
#if PG_VERSION_NUM >= 170000
#define GJ_HAVE_READ_STREAMS	1
#include "storage/read_stream.h"
#endif
#if PG_VERSION_NUM >= 180000
#define GJ_READ_STREAM_OF_ALL	(READ_STREAM_FULL | READ_STREAM_USE_BATCHING)
#elif PG_VERSION_NUM >= 170000
#define GJ_READ_STREAM_OF_ALL	READ_STREAM_FULL
#endif

/* Adding blocks: 16 adds several at once, and takes the extension lock itself -------- */

#include "storage/bufmgr.h"
#include "storage/lmgr.h"

/*
 * Add all-zero blocks to a relation; their buffers are pinned, not locked
 */
static inline void
GjAddBlocks(Relation rel, Buffer *buffers, int n)
{
#if PG_VERSION_NUM >= 160000
	uint32		added;

	for (int i = 0; i < n; i += added)
		ExtendBufferedRelBy(BMR_REL(rel), MAIN_FORKNUM, NULL, 0, n - i, buffers + i, &added);
#else
	LockRelationForExtension(rel, ExclusiveLock);
	for (int i = 0; i < n; i++)
		buffers[i] = ReadBuffer(rel, P_NEW);
	UnlockRelationForExtension(rel, ExclusiveLock);
#endif
}

/* Statistics: 16 renamed a table's counters ----------------------------------------- */

#include "pgstat.h"

static inline void
GjCountHeapFetches(Relation heap, int n)
{
#if PG_VERSION_NUM >= 160000
	if (pgstat_should_count_relation(heap))
		heap->pgstat_info->counts.tuples_fetched += n;
#else
	if (pgstat_should_count_relation(heap))
		heap->pgstat_info->t_counts.t_tuples_fetched += n;
#endif
}

/*
 * Count a block found in shared buffers, as ReadBuffer() does and ReadRecentBuffer() does not.
 * pg_stat_io exists since 16; 18 counts bytes.
 */
static inline void
GjCountBufferHit(Relation heap)
{
	pgstat_count_buffer_read(heap);
	pgstat_count_buffer_hit(heap);
#if PG_VERSION_NUM >= 180000
	pgstat_count_io_op(IOOBJECT_RELATION, IOCONTEXT_NORMAL, IOOP_HIT, 1, 0);
#elif PG_VERSION_NUM >= 160000
	pgstat_count_io_op(IOOBJECT_RELATION, IOCONTEXT_NORMAL, IOOP_HIT);
#endif
}

/* Planner -------------------------------------------------------------------- */

#include "utils/selfuncs.h"

#if PG_VERSION_NUM >= 170000
#define GjEstimateArrayLength(root, array)	estimate_array_length(root, array)
#else
#define GjEstimateArrayLength(root, array)	((double) estimate_array_length(array))
#endif

#include "optimizer/cost.h"
#include "optimizer/pathnode.h"

#if PG_VERSION_NUM >= 160000
#define GjSubqueryScanPath(root, rel, path, trivial_target, pathkeys) \
	create_subqueryscan_path(root, rel, path, trivial_target, pathkeys, NULL)
#else
#define GjSubqueryScanPath(root, rel, path, trivial_target, pathkeys) \
	((void) (trivial_target), create_subqueryscan_path(root, rel, path, pathkeys, NULL))
#endif

/*
 * Since 16, a Var records which outer joins may have made it NULL.  Below these joins, at the
 * scan of its table, the set is empty.
 */
#if PG_VERSION_NUM >= 160000
#define GjVarAtScan(var)		((var)->varnullingrels = NULL)
#else
#define GjVarAtScan(var)		((void) 0)
#endif

/*
 * True if a subquery with InitPlans can be below a Gather, so that each process evaluates them
 * for itself
 */
#define GJ_INITPLANS_BELOW_GATHER	(PG_VERSION_NUM >= 170000)

/*
 * EXPLAIN: 18 split its header.  It also has a range table entry for GROUP BY, which is not a
 * table: a statement with that entry and one table still needs no table names before columns.
 */

#include "commands/explain.h"

#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#define GjExplainTables(es)		((es)->rtable_size)
#else
#define GjExplainTables(es)		list_length((es)->rtable)
#endif

/*
 * Return the cost of sorting the given number of rows with work_mem, without the cost of its
 * input, even if enable_sort is off. 18 counts disabled nodes instead of adding to the cost.
 */
static inline Cost
GjCostSort(PlannerInfo *root, double rows, int width)
{
	Path		path;

#if PG_VERSION_NUM >= 180000
	cost_sort(&path, root, NIL, 0, 0.0, rows, width, 0.0, work_mem, -1.0);
#else
	cost_sort(&path, root, NIL, 0.0, rows, width, 0.0, work_mem, -1.0);
#endif
#if PG_VERSION_NUM < 180000
	if (!enable_sort)
		path.total_cost -= disable_cost;
#endif
	return path.total_cost;
}

/* TIDBitmap ----------------------------------------------------------------- */

#include "nodes/tidbitmap.h"

#if PG_VERSION_NUM >= 180000
typedef TBMPrivateIterator GjBitmapIterator;
#define GjBitmapBegin(bitmap)	tbm_begin_private_iterate(bitmap)
#define GjBitmapEnd(iterator)	tbm_end_private_iterate(iterator)
#else
typedef TBMIterator GjBitmapIterator;
#define GjBitmapBegin(bitmap)	tbm_begin_iterate(bitmap)
#define GjBitmapEnd(iterator)	tbm_end_iterate(iterator)
#endif

/*
 * Advance to the next heap block. offsets has room for MaxHeapTuplesPerPage, or is NULL if only
 * the block is wanted; noffsets is -1 for a lossy block.
 */
static inline bool
GjBitmapNext(GjBitmapIterator *iterator, BlockNumber *block, OffsetNumber *offsets,
			 int *noffsets)
{
#if PG_VERSION_NUM >= 180000
	TBMIterateResult result;

	if (!tbm_private_iterate(iterator, &result))
		return false;
	*block = result.blockno;
	*noffsets = -1;
	if (!result.lossy)
		*noffsets = (offsets == NULL) ? 0 :
			tbm_extract_page_tuple(&result, offsets, MaxHeapTuplesPerPage);
#else
	TBMIterateResult *result = tbm_iterate(iterator);

	if (result == NULL)
		return false;
	*block = result->blockno;
	*noffsets = result->ntuples;
	if (offsets != NULL && result->ntuples > 0)
		memcpy(offsets, result->offsets, result->ntuples * sizeof(OffsetNumber));
#endif
	return true;
}

/* NOT NULL columns: 18 has constraints for them, which may be not yet validated ------ */

#if PG_VERSION_NUM >= 180000
#include "catalog/pg_constraint.h"
#else
#include "catalog/pg_attribute.h"
#include "utils/syscache.h"
#endif

/*
 * Return true if a column is NOT NULL, and set *since to the transaction that made it so
 */
static inline bool
GjColumnIsNotNull(Oid relid, AttrNumber attno, TransactionId *since)
{
	bool		result = false;
#if PG_VERSION_NUM >= 180000
	HeapTuple	row = findNotNullConstraintAttnum(relid, attno);
#else
	HeapTuple	row = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relid), Int16GetDatum(attno));
#endif

	if (!HeapTupleIsValid(row))
		return false;
	*since = HeapTupleHeaderGetXmin(row->t_data);
#if PG_VERSION_NUM >= 180000
	result = ((Form_pg_constraint) GETSTRUCT(row))->convalidated;
	heap_freetuple(row);
#else
	result = ((Form_pg_attribute) GETSTRUCT(row))->attnotnull;
	ReleaseSysCache(row);
#endif
	return result;
}

/* Disabled paths: 18 counts the disabled nodes of a path ------------------------------- */

#if PG_VERSION_NUM >= 180000
#define GjPathInheritDisabled(path, input) ((path)->disabled_nodes = (input)->disabled_nodes)
#define GjPathIsDisabled(path)	((path)->disabled_nodes > 0)
#define GjPathDisable(path, startup)	((path)->disabled_nodes++)
#else
#define GjPathInheritDisabled(path, input) ((void) 0)
#define GjPathIsDisabled(path)	false	/* already part of its cost */
#define GjPathDisable(path, startup)	(*(startup) += disable_cost)
#endif

/* Timeouts that end a transaction: 17 has one for the whole transaction -------------- */

#if PG_VERSION_NUM >= 170000
#define GJ_TIMEOUT_SETTINGS \
	"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", \
	"transaction_timeout"
#else
#define GJ_TIMEOUT_SETTINGS \
	"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"
#endif

/* Whether this process holds a lock: 17 can ask for stronger ones, too ------------------ */

#if PG_VERSION_NUM >= 170000
#define GjLockIsHeld(tag, mode)		LockHeldByMe(tag, mode, false)
#else
#define GjLockIsHeld(tag, mode)		LockHeldByMe(tag, mode)
#endif

/* Wait events: 17 lets an extension name its own ----------------------------------- */

#include "storage/latch.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM >= 170000
#define GJ_WAIT_EVENT(function, name) \
static inline uint32 \
function(void) \
{ \
	static uint32 event = 0; \
	if (event == 0) \
		event = WaitEventExtensionNew(name); \
	return event; \
}
#else
#define GJ_WAIT_EVENT(function, name) \
static inline uint32 \
function(void) \
{ \
	return PG_WAIT_EXTENSION; \
}
#endif

GJ_WAIT_EVENT(GjWaitEventDevice, "GpujoinDevice")
GJ_WAIT_EVENT(GjWaitEventSlot, "GpujoinRequestSlot")
GJ_WAIT_EVENT(GjWaitEventSharedMatch, "GpujoinSharedMatch")
GJ_WAIT_EVENT(GjWaitEventSupervisor, "GpujoinSupervisorMain")
GJ_WAIT_EVENT(GjWaitEventLauncher, "GpujoinLauncherMain")
GJ_WAIT_EVENT(GjWaitEventLoad, "GpujoinLoad")
GJ_WAIT_EVENT(GjWaitEventFoldLock, "GpujoinFoldLock")
GJ_WAIT_EVENT(GjWaitEventFoldWorker, "GpujoinFoldWorkerMain")

/* 17 ties a wait event set to a resource owner; ours lives as long as the process needs it */
#if PG_VERSION_NUM >= 180000
#include "storage/waiteventset.h"
#endif
#if PG_VERSION_NUM >= 170000
#define GjCreateWaitEventSet(nevents)	CreateWaitEventSet(NULL, nevents)
#else
#define GjCreateWaitEventSet(nevents)	CreateWaitEventSet(TopMemoryContext, nevents)
#endif

/* Path keys: 18 has a compare type, earlier versions a btree strategy ---------------- */

#include "access/stratnum.h"

#if PG_VERSION_NUM >= 180000
#define GjPathKeyIsDescending(pathkey)	((pathkey)->pk_cmptype == COMPARE_GT)
#else
#define GjPathKeyIsDescending(pathkey)	((pathkey)->pk_strategy == BTGreaterStrategyNumber)
#endif

#endif							/* GPUJOIN_BASE_COMPAT_H */
