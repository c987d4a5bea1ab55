/*-------------------------------------------------------------------------
 *
 * eligible.c
 *	  Which tables and indexes gpujoin can use.
 *
 * Only indexes that the planner itself listed are looked at: it has left out
 * those that are not valid, or not yet usable by this transaction's snapshot.
 * Which clauses they answer, conditions.c knows.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/catalog.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "pages/pages.h"
#include "planner.h"

static bool has_current_of(const RelOptInfo *rel);
static bool is_heap(Oid relid);
static bool is_partitioned_by(const RelOptInfo *parent, AttrNumber attno);

/*
 * Is this a user's table that is scanned itself, not expanded into its children?
 */
bool
GjIsUserTable(const RangeTblEntry *rte)
{
	return rte->rtekind == RTE_RELATION && !rte->inh && !IsCatalogRelationOid(rte->relid);
}

/*
 * Say why a user's table cannot be scanned by us, or is not worth it; NULL if nothing is
 * against it
 *
 * Of a sampled table the sample decides which rows exist; a cursor's row is found by its TID
 * only.  The fetch reads heap pages, so other table access methods are out.
 */
const char *
GjRefuseTable(RelOptInfo *rel, const RangeTblEntry *rte, int min_rows)
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
	return NULL;
}

/*
 * Is the row wanted on which a cursor stands?  Row security may have added other conditions.
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
 * Is this a heap?  The planner has it locked.
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
 * Is it an index of our access method?  Its cost function says so without a look
 * at the catalog.
 */
bool
GjIndexIsOurs(const IndexOptInfo *index)
{
	return index->amcostestimate == gjcostestimate;
}

/*
 * Is it one of ours, and does it hold every row that the query may ask for?
 */
bool
GjIndexEligible(const IndexOptInfo *index)
{
	return GjIndexIsOurs(index) && GjRefuseIndex(index) == NULL;
}

/*
 * Say why an index of ours does not hold every row that the query may ask for; NULL if it does
 *
 * A partial index does if the query's clauses imply its predicate.  They must also keep
 * out what it does not hold: a TID that a mirror still has may lead to a row that is
 * outside the predicate, and where the whole heap is taken many do.  So our nodes test
 * all of the table's baserestrictinfo; they leave out those clauses alone that the
 * recheck of the key answers exactly.  Core's plain index scans test indrestrictinfo, which
 * lacks what the predicate implies: they know of each TID that it is the index's own.
 *
 * Core may have proved the predicate from a join clause, too.  That is tested above
 * the scan, be the index partial or not: a row too many is one that a sequential scan with
 * the same clauses would deliver as well.  (Core's bitmap scans: am/handler.c.)
 */
const char *
GjRefuseIndex(const IndexOptInfo *index)
{
	if (index->hypothetical && !GjNewIndexIs(index))
		return "the index is hypothetical";
	if (index->indpred != NIL && !index->predOK)
		return "the index is partial, and its WHERE does not follow from the query's";
	return NULL;
}

/*
 * Are the index's keys the indexed values themselves, as all our operator classes make them?
 * Only then can the value be had back from a key, or the key's partition be told.
 */
bool
GjIndexKeepsValues(const IndexOptInfo *index)
{
	Oid			type = index->opcintype[0];
	Oid			proc = get_opfamily_proc(index->opfamily[0], type, type, GJ_KEY_PROC);
	FmgrInfo	key_proc;

	if (!OidIsValid(proc))
		return false;
	fmgr_info(proc, &key_proc);
	return GjKeyProcKeepsValue(key_proc.fn_addr);
}

/*-------------------------------------------------------------------------
 * Partitions
 *
 * Where a table stands among partitions that the key tells apart.
 *
 * A leaf of a partitioned table is planned like any table, with the whole condition.  When
 * its scan starts, it takes only those keys that it can have (rows/source.c).  For that the
 * plan says through which partitions one comes to it.  Levels that are partitioned by
 * something else, or by more than the key, only tell how old the partition is.  A partition
 * that the query names itself has no parent here; it is searched for all keys.
 *-------------------------------------------------------------------------
 */

/*
 * List the way from the top down to a table: for each level the OID of the partitioned table,
 * invalid if the index's key does not divide it, and that of the partition; NIL if the key
 * divides none.  *share becomes the part of the keys that is to be expected in this table.
 */
List *
GjFindPartitions(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index, double *share)
{
	AttrNumber	attno = index->indexkeys[0];
	Index		relid = rel->relid;
	List	   *partitions = NIL;
	bool		divided = false;
	AppendRelInfo *appinfo;

	*share = 1.0;
	while (root->append_rel_array != NULL && attno > 0 &&
		   (appinfo = root->append_rel_array[relid]) != NULL)
	{
		RelOptInfo *parent = root->simple_rel_array[appinfo->parent_relid];
		bool		by_key;

		/* the column's number in the parent; the parent of a UNION ALL has none */
		if (!OidIsValid(appinfo->parent_reloid) || attno > appinfo->num_child_cols)
			break;
		attno = appinfo->parent_colnos[attno - 1];

		by_key = is_partitioned_by(parent, attno);
		partitions = lcons_oid(planner_rt_fetch(relid, root)->relid, partitions);
		partitions = lcons_oid(by_key ? appinfo->parent_reloid : InvalidOid, partitions);
		if (by_key)
			*share /= Max(bms_num_members(parent->live_parts), 1);
		divided |= by_key;
		relid = appinfo->parent_relid;
	}
	if (divided && GjIndexKeepsValues(index))
		return partitions;
	*share = 1.0;
	return NIL;
}

static bool
is_partitioned_by(const RelOptInfo *parent, AttrNumber attno)
{
	const Var  *key = GjOnlyPartitionKey(parent);

	return key != NULL && attno > 0 && key->varattno == attno;
}

/*
 * Return the column by which alone a table is partitioned; NULL if there is none
 */
Var *
GjOnlyPartitionKey(const RelOptInfo *rel)
{
	Node	   *key;

	if (rel->part_scheme == NULL || rel->part_scheme->partnatts != 1 ||
		list_length(rel->partexprs[0]) != 1)
		return NULL;
	key = linitial(rel->partexprs[0]);
	return IsA(key, Var) ? (Var *) key : NULL;
}
