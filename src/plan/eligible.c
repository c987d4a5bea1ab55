/*-------------------------------------------------------------------------
 *
 * eligible.c
 *	  Which tables and indexes gpujoin can use.
 *
 * Only indexes that the planner itself listed are looked at: it has left out
 * those that are not valid, or not yet usable by this transaction's snapshot.
 * Which clauses they answer, fold.c knows.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/gpujoin.h"
#include "pages/pages.h"
#include "planner.h"

static bool has_eligible_index(RelOptInfo *rel);
static bool is_heap(Oid relid);

/*
 * Is it worth a look whether we can scan this table?
 */
bool
GjRelationEligible(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	return (gj_force || rel->tuples >= gj_min_rows) && GjRelationSearchable(rel, rte);
}

/*
 * Can this table be scanned by us at all?
 *
 * The fetch reads heap pages, so other table access methods are out.  A table
 * that is expanded into its children is scanned through them; of a sampled table
 * the sample decides which rows exist; a cursor's row is found by its TID only.
 */
bool
GjRelationSearchable(RelOptInfo *rel, RangeTblEntry *rte)
{
	if (rte->rtekind != RTE_RELATION || rte->inh || rte->tablesample != NULL)
		return false;
	if (rte->relkind != RELKIND_RELATION && rte->relkind != RELKIND_MATVIEW)
		return false;
	if (GjHasCurrentOf(rel))
		return false;
	if (!has_eligible_index(rel))
		return false;
	if (IsCatalogRelationOid(rte->relid) || IS_DUMMY_REL(rel))
		return false;

	return is_heap(rte->relid);
}

static bool
has_eligible_index(RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		if (GjIndexEligible(lfirst_node(IndexOptInfo, lc)))
			return true;
	}
	return false;
}

/*
 * Is the row that a cursor stands on wanted?  No node but a TID scan can tell.  There may be
 * other conditions, of row security.
 */
bool
GjHasCurrentOf(const RelOptInfo *rel)
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
 * The planner holds a lock on the table already
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
 * the same clauses would deliver as well.  (Core's bitmap scans: am/bitmap.c.)
 */
bool
GjIndexEligible(IndexOptInfo *index)
{
	return GjIndexIsOurs(index) && !index->hypothetical &&
		(index->indpred == NIL || index->predOK);
}

/*
 * What is to be tested before a row's key is read: the predicate of a partial index whose
 * key is an expression, which may fail for other rows.  Reading a column never fails.
 */
List *
GjKeyPredicate(const IndexOptInfo *index)
{
	return index->indexkeys[0] == 0 ? copyObject(index->indpred) : NIL;
}

/*
 * Are the index's keys the indexed values themselves, as all our operator classes make them?
 * Only then can a value be made of a key, or its partition be told.
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

/*
 * The indexed column or expression
 */
Expr *
GjIndexKeyExpr(const IndexOptInfo *index)
{
	return copyObject(linitial_node(TargetEntry, index->indextlist)->expr);
}
