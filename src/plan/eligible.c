/*-------------------------------------------------------------------------
 *
 * eligible.c
 *	  Which tables and indexes gpujoin can use, and through which partitions a table is reached.
 *
 * We look only at indexes that the planner has listed: it leaves out those that are not valid, or
 * not yet usable by this transaction's snapshot.  conditions.c decides which clauses they answer.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "storage/procarray.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "pages/pages.h"
#include "planner.h"

static bool has_current_of(const RelOptInfo *rel);
static bool is_heap(Oid relid);

/*
 * Return true if this is a user's table that is scanned itself, not expanded into its children
 */
bool
GjIsUserTable(const RangeTblEntry *rte)
{
	return rte->rtekind == RTE_RELATION && !rte->inh && !IsCatalogRelationOid(rte->relid);
}

/*
 * Return the reason why we cannot scan a user's table, or why that is not worthwhile; NULL if we
 * can
 *
 * The rows of a sampled table depend on the sample; a cursor's row can be found by its TID only.
 * The fetch reads heap pages, so other table access methods are not supported.
 */
const char *
GjRefuseTable(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte, int min_rows)
{
	if (rte->tablesample != NULL)
		return "the table is sampled";
	if (rel->tuples < min_rows)
		return GjChoiceFormat("the table has about %.0f rows, fewer than gpujoin.min_rows (%d)",
							  rel->tuples, min_rows);
	if (has_current_of(rel))
		return "a cursor says which row is wanted (WHERE CURRENT OF)";
	if (!bms_is_empty(rel->lateral_relids))
		return "the table refers to others (LATERAL)";
	if (IS_DUMMY_REL(rel))
		return "the query's conditions exclude all rows of the table";
	if (!is_heap(rte->relid))
		return "the table's access method is not heap";
	if (GjOtherScanIsWanted(root, rel))
		return "plan advice names another kind of scan for the table";
	return NULL;
}

/*
 * Return true if there is a WHERE CURRENT OF.  Row security may have added other conditions to it.
 */
static bool
has_current_of(const RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		if (IsA(lfirst_node(RestrictInfo, lc)->clause, CurrentOfExpr))
			return true;
	}
	return false;
}

/*
 * Return true if this is a heap.  The planner holds a lock on it.
 */
static bool
is_heap(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	bool		result = rel->rd_tableam == GetHeapamTableAmRoutine();

	table_close(rel, NoLock);
	return result;
}

/*
 * Return true if an index is of our access method.  Its cost function shows that without a catalog
 * look-up.
 */
bool
GjIndexIsOurs(const IndexOptInfo *index)
{
	return index->amcostestimate == gjcostestimate;
}

/*
 * Return the reason why an index of ours may lack rows that the query may return; NULL if it has
 * all
 *
 * A partial index has all of them if the query's clauses imply its predicate.  These clauses must
 * also exclude the rows that the index lacks: a TID that a mirror still has may lead to a row
 * outside the predicate, and if the whole heap is read, many rows are outside.  So our nodes test
 * all of the table's baserestrictinfo, except clauses that the recheck of the key answers exactly.
 * Core's plain index scans test indrestrictinfo, which omits the clauses that the predicate
 * implies, because every TID that they find is the index's own.
 *
 * Core may also have proved the predicate from a join clause.  That clause is tested above the
 * scan, whether or not the index is partial: an additional row is one that a sequential scan with
 * the same clauses would return as well.  (For core's bitmap scans see am/handler.c.)
 */
const char *
GjRefuseIndex(const IndexOptInfo *index)
{
	if (index->hypothetical && GjPlanAdded == NULL)
		return "the index is hypothetical";
	if (index->indpred != NIL && !index->predOK)
		return "the index is partial, and its WHERE does not follow from the query's";
	if (GjOtherIndexIsWanted(index))
		return "plan advice names another index";
	return NULL;
}

/*
 * Return true if the index's keys are the indexed values themselves
 *
 * Only then can the value be computed from a key, or the partition that the key belongs to.
 */
bool
GjIndexKeepsValues(const IndexOptInfo *index)
{
	GjCodec		codec;

	return GjCodecInit(&codec, index->opfamily[0], index->opcintype[0],
					   index->indexcollations[0], false) && codec.keeps_value;
}

/*
 * Return true if equal codes in the index prove nothing: they are hashes, or have rests
 */
bool
GjIndexIsHashed(const IndexOptInfo *index)
{
	Oid			type = index->opcintype[0];

	return OidIsValid(get_opfamily_proc(index->opfamily[0], type, type, GJ_HASH_PROC));
}

/*
 * Return the support function of the rests that the index stores beside its codes, so that both
 * together prove that keys are equal; InvalidOid if it has no rests
 */
Oid
GjIndexRestProc(const IndexOptInfo *index)
{
	Oid			type = index->opcintype[0];
	Oid			proc = get_opfamily_proc(index->opfamily[0], type, type, GJ_REST_PROC);
	Relation	rel;
	GjIndexInfo info;

	if (!OidIsValid(proc) || index->hypothetical)
		return proc;
	rel = index_open(index->indexoid, NoLock);
	GjIndexGetInfo(rel, &info);
	index_close(rel, NoLock);
	return info.has_rests ? proc : InvalidOid;
}

/*-------------------------------------------------------------------------
 * Constraints
 *
 * Find out what holds for all rows that a plan will ever see.
 *
 * A constraint holds for the rows that exist since it was made, and removing it invalidates the
 * table's plans.  But a snapshot that is older may see rows that were deleted before the constraint
 * could be made.  The plan may be executed later, under a snapshot that has been imported and is
 * older than all that are in use here now.  So the transaction that made the constraint must have
 * ended before any snapshot of any session was taken: a snapshot can only be imported while the
 * session that exported it keeps it, so none that exists later is older.
 *-------------------------------------------------------------------------
 */

/*
 * Return true if a transaction had ended before the oldest snapshot that any session uses was taken
 *
 * What was older once remains older, so the oldest snapshot is determined once a transaction.
 */
bool
GjIsOlderThanSnapshots(TransactionId xid)
{
	static TransactionId oldest = InvalidTransactionId;
	static TimestampTz determined = 0;
	TimestampTz now = GetCurrentTransactionStartTimestamp();

	if (!TransactionIdIsNormal(xid))
		return true;			/* frozen */
	if (determined != now)
		oldest = GetOldestNonRemovableTransactionId(NULL);
	determined = now;
	return TransactionIdPrecedes(xid, oldest);
}

/*
 * Return true if no row that any snapshot sees has a NULL in this column
 */
bool
GjColumnIsNeverNull(Oid relid, AttrNumber attno)
{
	TransactionId since;

	return GjColumnIsNotNull(relid, attno, &since) && GjIsOlderThanSnapshots(since);
}

/*-------------------------------------------------------------------------
 * Partitions
 *
 * Find the partitions through which a table is reached.
 *
 * A leaf of a partitioned table is planned like any table, with the whole condition.  When its
 * scan starts, it uses only those keys that can be in the partition (rows/source.c).  For that
 * purpose the plan lists the partitions on the way to it.  Levels that are partitioned by another
 * column, or by more than the key, only identify the partition.  A partition that the query names
 * itself has no parent here; it is searched for all keys.
 *-------------------------------------------------------------------------
 */

/*
 * List the partitions from the top down to a table; returns NIL if the key divides no level
 *
 * For each level, the list has the OID of the partitioned table, or InvalidOid if the index's key
 * does not divide it, and the OID of the partition.  *share becomes the fraction of the keys that
 * is expected to be in this table.
 */
List *
GjFindPartitions(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index, double *share)
{
	AttrNumber	attno = index->indexkeys[0];
	Index		relid = rel->relid;
	List	   *partitions = NIL;
	bool		divided = false;

	*share = 1.0;
	for (Index child = relid; GjFindInParent(root, &relid, &attno); child = relid)
	{
		RelOptInfo *parent = root->simple_rel_array[relid];
		const Var  *key = GjOnlyPartitionKey(parent);
		bool		by_key = key != NULL && attno > 0 && key->varattno == attno;

		partitions = lcons_oid(planner_rt_fetch(child, root)->relid, partitions);
		partitions = lcons_oid(by_key ? planner_rt_fetch(relid, root)->relid : InvalidOid,
							   partitions);
		if (by_key)
			*share /= Max(bms_num_members(parent->live_parts), 1);
		divided |= by_key;
	}
	if (divided && GjIndexKeepsValues(index))
		return partitions;
	*share = 1.0;
	return NIL;
}

/*
 * Translate a column of a partition or child to that of its parent.  Returns false if there is no
 * parent: that of a UNION ALL has no columns.
 */
bool
GjFindInParent(PlannerInfo *root, Index *relid, AttrNumber *attno)
{
	const AppendRelInfo *appinfo = root->append_rel_array == NULL ? NULL :
		root->append_rel_array[*relid];

	if (appinfo == NULL || !OidIsValid(appinfo->parent_reloid) ||
		*attno <= 0 || *attno > appinfo->num_child_cols)
		return false;
	*relid = appinfo->parent_relid;
	*attno = appinfo->parent_colnos[*attno - 1];
	return true;
}

/*
 * Return the number in a table of a column of it, or of a partition or child of it; 0 for an
 * expression, which is column 0, and in a UNION ALL
 */
AttrNumber
GjColumnOfParent(PlannerInfo *root, const RelOptInfo *parent, const RelOptInfo *rel,
				 AttrNumber attno)
{
	Index		relid = rel->relid;

	while (relid != parent->relid && GjFindInParent(root, &relid, &attno))
		continue;
	return relid == parent->relid ? attno : InvalidAttrNumber;
}
