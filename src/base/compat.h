/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Differences between PostgreSQL 15, 16, 17, 18 and 19.  No other file names a version: it
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

/*
 * Return what the handler returns for the access method's constant properties: 19 reads them where
 * they are, earlier versions free the result
 */
#if PG_VERSION_NUM >= 190000
#define GjAmRoutine(routine)	unconstify(IndexAmRoutine *, routine)
#else
#define GjAmRoutine(routine) \
	memcpy(palloc(sizeof(IndexAmRoutine)), routine, sizeof(IndexAmRoutine))
#endif

/* Count a search of an index by a scan of PostgreSQL's: 18 also shows it in EXPLAIN */
#if PG_VERSION_NUM >= 180000
#define GjCountIndexSearch(scan) \
	do { \
		pgstat_count_index_scan((scan)->indexRelation); \
		if ((scan)->instrument) \
			(scan)->instrument->nsearches++; \
	} while (0)
#else
#define GjCountIndexSearch(scan)	pgstat_count_index_scan((scan)->indexRelation)
#endif

/* The records of all settings */
#if PG_VERSION_NUM >= 160000
#define GjGetSettings(n)		get_guc_variables(n)
#else
#define GjGetSettings(n)		(*(n) = GetNumConfigOptions(), get_guc_variables())
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

/*
 * The clauses by which rows are grouped, as planning has left them: 16 has them in another list.
 * If all columns are constants, 16 has left none: then all of them, as no rows make no group.
 */
#if PG_VERSION_NUM >= 160000
#define GjGroupClause(root) \
	((root)->processed_groupClause ? (root)->processed_groupClause : (root)->parse->groupClause)
#else
#define GjGroupClause(root)		((root)->parse->groupClause)
#endif

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

/* True if the planner prefers a path or plan to another one with the same rows, by total cost */
#if PG_VERSION_NUM >= 180000
#define GjIsCheaper(a, b) \
	((a)->disabled_nodes != (b)->disabled_nodes ? (a)->disabled_nodes < (b)->disabled_nodes : \
	 (a)->total_cost < (b)->total_cost)
#else
#define GjIsCheaper(a, b)	((a)->total_cost < (b)->total_cost)
#endif

/*
 * Plan advice: 19 has masks of the kinds of scans and joins that a relation may have, and may
 * disable indexes.  Our nodes are of no such kind.  So a scan or join of ours is not wanted where a
 * mask lacks a kind that the query's settings allow: advice names another one.
 */
#if PG_VERSION_NUM >= 190000
#include "optimizer/extendplan.h"
#include "optimizer/planner.h"

#define GjMaskLacks(root, mask, kinds)	(((root)->glob->default_pgs_mask & ~(mask) & (kinds)) != 0)
#define GjOtherScanIsWanted(root, rel)	GjMaskLacks(root, (rel)->pgs_mask, PGS_SCAN_ANY)
#define GjOtherIndexIsWanted(index)		((index)->disabled)
#define GjOtherJoinIsWanted(root, extra)	GjMaskLacks(root, (extra)->pgs_mask, PGS_JOIN_ANY)
#define GjGatherIsWanted(root, rel) \
	GjMaskLacks(root, (rel)->pgs_mask, PGS_CONSIDER_NONPARTIAL)

/*
 * Return true if a join of ours may be one of the query's joins.  pg_plan_advice of 19rc1 looks at
 * the finished plans of queries that it gives advice for or collects it from, which it marks when
 * their planning begins; it raises an error if a custom join is an input of another join.
 */
static inline bool
GjJoinMayBeHere(PlannerInfo *root, RelOptInfo *joinrel)
{
	static int	advice = -1;

	if (planner_shutdown_hook == NULL ||
		bms_is_subset(root->all_query_rels, joinrel->relids))
		return true;
	if (advice < 0)
		advice = GetPlannerExtensionId("pg_plan_advice");
	return GetPlannerGlobalExtensionState(root->glob, advice) == NULL;
}
#else
#define GjJoinMayBeHere(root, joinrel)	true
#define GjOtherScanIsWanted(root, rel)	false
#define GjOtherIndexIsWanted(index)		false
#define GjOtherJoinIsWanted(root, extra)	false
#define GjGatherIsWanted(root, rel)		false
#endif

/* Background workers: 19 can end those of a database that is dropped, renamed or copied - */

#if PG_VERSION_NUM >= 190000
#define GJ_WORKER_IS_INTERRUPTIBLE	BGWORKER_INTERRUPTIBLE
#else
#define GJ_WORKER_IS_INTERRUPTIBLE	0
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

#include "storage/lock.h"

#if PG_VERSION_NUM >= 170000
#define GjLockIsHeld(tag, mode)		LockHeldByMe(tag, mode, false)
#else
#define GjLockIsHeld(tag, mode)		LockHeldByMe(tag, mode)
#endif

/*
 * Try to get a lock; returns false if another process has or awaits one that conflicts, or if the
 * lock table has no room: who only tries can do without.  18 can log failures.
 */
static inline bool
GjLockTry(const LOCKTAG *tag, LOCKMODE mode, bool is_session)
{
#if PG_VERSION_NUM >= 180000
	return LockAcquireExtended(tag, mode, is_session, true, false, NULL, false) !=
		LOCKACQUIRE_NOT_AVAIL;
#else
	return LockAcquireExtended(tag, mode, is_session, true, false, NULL) != LOCKACQUIRE_NOT_AVAIL;
#endif
}

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

/* Row types that are put together column by column: 19 wants them to be completed ------ */

#if PG_VERSION_NUM >= 190000
#define GjTupleDescFinalize(desc)	TupleDescFinalize(desc)
#else
#define GjTupleDescFinalize(desc)	((void) 0)
#endif

/* Pruning: 19 may set bits of the visibility map, if the query only reads the table ----- */

#if PG_VERSION_NUM >= 190000
#define GjPrune(heap, buffer, map_page, only_reads) \
	heap_page_prune_opt(heap, buffer, map_page, only_reads)
#define GjOnlyReads(node)	ScanRelIsReadOnly(unconstify(ScanState *, node))
#else
#define GjPrune(heap, buffer, map_page, only_reads) \
	((void) (map_page), (void) (only_reads), heap_page_prune_opt(heap, buffer))
#define GjOnlyReads(node)	false
#endif

/* Counters of plan nodes: 19 has a type for them -------------------------------------- */

#if PG_VERSION_NUM >= 190000
#define GjInstrumentation	NodeInstrumentation
#else
#define GjInstrumentation	Instrumentation
#endif

/* The state of a buffer: 19 has 64 bits for it ---------------------------------------- */

#if PG_VERSION_NUM >= 190000
#define GjBufferState(header)	pg_atomic_read_u64(&(header)->state)
#else
#define GjBufferState(header)	pg_atomic_read_u32(&(header)->state)
#endif

/* Hash tables: in shared memory, 19 makes room for all entries at once ---------------- */

#if PG_VERSION_NUM >= 190000
#define GjShmemInitHash(name, nelems, info, flags)	ShmemInitHash(name, nelems, info, flags)

static inline void *
GjHashMalloc(Size size, void *arg)
{
	return malloc(size);
}
#else
#define GjShmemInitHash(name, nelems, info, flags) \
	ShmemInitHash(name, nelems, nelems, info, flags)
#define GjHashMalloc	malloc
#endif

/*
 * Planner and executor: 19 has more arguments, and another hook for the tables of a query, which
 * is called for its other relations, too.  Define the function install() that makes look() one of
 * the hook's functions.
 */
#if PG_VERSION_NUM >= 190000
#define GjPlanQuery(query, text, options, params) \
	pg_plan_query(query, text, options, params, NULL)
/* The arguments of planner_hook: declared, and passed on */
#define GJ_PLANNER_ARGUMENTS \
	Query *query, const char *text, int options, ParamListInfo params, struct ExplainState *es
#define GJ_PLANNER_PASSED		query, text, options, params, es
#define GjInitScanTupleSlot(estate, node, desc, ops) \
	ExecInitScanTupleSlot(estate, node, desc, ops, 0)
#define GjCreateAppendPath(root, rel, whole, divided, workers, parallel_aware) \
	create_append_path(root, rel, \
					   (AppendPathInput) {.subpaths = whole,.partial_subpaths = divided}, \
					   NIL, NULL, workers, parallel_aware, -1)
#define GJ_TABLE_HOOK(install, look) \
static build_simple_rel_hook_type prev_table_hook = NULL; \
static void \
call_##look(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte) \
{ \
	if (prev_table_hook) \
		prev_table_hook(root, rel, rte); \
	if (rte->rtekind == RTE_RELATION) \
		look(root, rte->relid, rte->inh, rel); \
} \
static void \
install(void) \
{ \
	prev_table_hook = build_simple_rel_hook; \
	build_simple_rel_hook = call_##look; \
}
#else
#define GjPlanQuery(query, text, options, params)	pg_plan_query(query, text, options, params)
#define GJ_PLANNER_ARGUMENTS \
	Query *query, const char *text, int options, ParamListInfo params
#define GJ_PLANNER_PASSED		query, text, options, params
#define GjInitScanTupleSlot(estate, node, desc, ops) \
	ExecInitScanTupleSlot(estate, node, desc, ops)
#define GjCreateAppendPath(root, rel, whole, divided, workers, parallel_aware) \
	create_append_path(root, rel, whole, divided, NIL, NULL, workers, parallel_aware, -1)
#define GJ_TABLE_HOOK(install, look) \
static get_relation_info_hook_type prev_table_hook = NULL; \
static void \
call_##look(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel) \
{ \
	if (prev_table_hook) \
		prev_table_hook(root, relid, inhparent, rel); \
	look(root, relid, inhparent, rel); \
} \
static void \
install(void) \
{ \
	prev_table_hook = get_relation_info_hook; \
	get_relation_info_hook = call_##look; \
}
#endif

/*
 * Eager aggregation: 19 also joins relations whose rows are groups
 */
#if PG_VERSION_NUM >= 190000
#define GjIsOfGroups(rel)	IS_GROUPED_REL(rel)
#else
#define GjIsOfGroups(rel)	false
#endif

/* int8_avg_serialize(): 19 writes the sum as 128 bits, earlier versions as a numeric ---- */

#define GJ_INT8_SUM_IS_BINARY	(PG_VERSION_NUM >= 190000)

/* Building JSON: 19 keeps the result beside the state of the parser ------------------- */

#if PG_VERSION_NUM >= 190000
#define GjJsonState		JsonbInState
#define GjPushJson(state, token, value)	pushJsonbValue(state, token, value)
#else
typedef struct GjJsonState
{
	struct JsonbParseState *parse;
	struct JsonbValue *result;
} GjJsonState;

#define GjPushJson(state, token, value) \
	((state)->result = pushJsonbValue(&(state)->parse, token, value))
#endif

/* Query trees: 16 keeps privileges apart from the tables, 18 has a relation of groups -- */

#include "nodes/parsenodes.h"
#if PG_VERSION_NUM >= 180000
#include "optimizer/optimizer.h"
#endif

/*
 * Make a table of another query the only one of a query
 */
static inline void
GjCopyTable(Query *query, const Query *other, const RangeTblEntry *table)
{
	RangeTblEntry *copy = copyObject(unconstify(RangeTblEntry *, table));

#if PG_VERSION_NUM >= 160000
	if (copy->perminfoindex > 0)
		query->rteperminfos = list_make1(copyObject(list_nth(other->rteperminfos,
															 copy->perminfoindex - 1)));
	copy->perminfoindex = list_length(query->rteperminfos);
#endif
	query->rtable = list_make1(copy);
}

#if PG_VERSION_NUM >= 180000
#define GjGroupedExpr(query, expr)	flatten_group_exprs(NULL, query, expr)
#define GjHasVirtualColumns(desc) \
	((desc)->constr != NULL && (desc)->constr->has_generated_virtual)
#else
#define GjGroupedExpr(query, expr)	(expr)
#define GjHasVirtualColumns(desc)	false
#endif

#endif							/* GPUJOIN_BASE_COMPAT_H */
