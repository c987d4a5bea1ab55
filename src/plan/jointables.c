/*-------------------------------------------------------------------------
 *
 * jointables.c
 *	  The big side of a GpuJoin: which tables it is made of, and how each of them
 *	  is scanned.
 *
 * For an ordinary table that is the table.  A partitioned table, a table with
 * children, or a UNION ALL of tables that was pulled up stands for its leaves, which
 * core has found by now: those that pruning or constraints exclude have no
 * RelOptInfo or are dummies.  What was written for the parent is written anew for
 * each leaf, as core does it for an Append: columns and clauses by translating
 * their Vars (so that dropped columns, another order of them, whole rows and what a
 * UNION ALL computes come out right), filters by taking the leaf's own list, which
 * has the parent's with the security levels they had there.  Row security and
 * privileges are the parent's business in SQL, and are in that list or were checked
 * with the parent's range table entry.
 *
 * Each leaf must have an index of ours that answers the clause; a join with a
 * leaf that has none is left to core.
 *
 * A plan node for each table (GpuJoinScan) is a child of the join's.  Core thus
 * adjusts its expressions as those of any scan, and EXPLAIN shows it.  The nodes are
 * made here and not from paths: core would put a gating node on top of a scan that
 * has pseudoconstant filters, and the join must reach the scan itself.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class_d.h"
#include "nodes/makefuncs.h"
#include "nodes/value.h"
#include "optimizer/appendinfo.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "base/nodes.h"
#include "joinpath.h"

static bool add_tables(PlannerInfo *root, RelOptInfo *rel, List **tables);
static bool has_eligible_index(const RelOptInfo *rel);
static bool add_members(PlannerInfo *root, RelOptInfo *rel, List **tables);
static Node *translate(PlannerInfo *root, Node *node, Index relid, RelOptInfo *big);
static void keep_smaller(GjJoinScan **scan, RelOptInfo *table, IndexOptInfo *index,
						 const GjSource *key);
static bool scan_answers(PlannerInfo *root, const GjJoinCandidate *cand, IndexOptInfo *index,
						 RelOptInfo *table, RestrictInfo *rinfo, GjSource *key);

/*
 * List the tables of the big side; NIL if there is one that we cannot scan, or if
 * together they are too small
 */
List *
GjJoinTables(PlannerInfo *root, RelOptInfo *big)
{
	List	   *tables = NIL;
	double		rows = 0.0;
	ListCell   *lc;

	if (!add_tables(root, big, &tables))
		return NIL;

	foreach(lc, tables)
		rows += lfirst_node(RelOptInfo, lc)->tuples;
	return gj_force || rows >= gj_min_rows ? tables : NIL;
}

static bool
add_tables(PlannerInfo *root, RelOptInfo *rel, List **tables)
{
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);

	if (IS_DUMMY_REL(rel))
		return true;
	if (rte->inh)
		return add_members(root, rel, tables);
	if (!GjIsUserTable(rte) || !has_eligible_index(rel) || GjRefuseTable(rel, rte, 0) != NULL)
		return false;

	*tables = lappend(*tables, rel);
	return true;
}

static bool
has_eligible_index(const RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		if (GjIndexEligible(lfirst_node(IndexOptInfo, lc)))
			return true;
	}
	return false;
}

static bool
add_members(PlannerInfo *root, RelOptInfo *rel, List **tables)
{
	ListCell   *lc;

	if (rel->part_rels != NULL)
	{
		for (int i = 0; i < rel->nparts; i++)
		{
			if (rel->part_rels[i] != NULL && !add_tables(root, rel->part_rels[i], tables))
				return false;
		}
		return true;
	}

	foreach(lc, root->append_rel_list)
	{
		AppendRelInfo *appinfo = lfirst_node(AppendRelInfo, lc);

		if (appinfo->parent_relid == rel->relid &&
			!add_tables(root, find_base_rel(root, appinfo->child_relid), tables))
			return false;
	}
	return true;
}

/*
 * Translate an expression over the big side for one of its tables, a level at a time
 */
static Node *
translate(PlannerInfo *root, Node *node, Index relid, RelOptInfo *big)
{
	AppendRelInfo *appinfo;

	if (relid == big->relid)
		return node;

	appinfo = root->append_rel_array[relid];
	return adjust_appendrel_attrs(root, translate(root, node, appinfo->parent_relid, big),
								  1, &appinfo);
}

/*
 * Translate a clause of the join for one of the big side's tables
 */
RestrictInfo *
GjJoinClauseOf(PlannerInfo *root, RestrictInfo *rinfo, RelOptInfo *table, RelOptInfo *big)
{
	return (RestrictInfo *) translate(root, (Node *) rinfo, table->relid, big);
}

/*
 * Return the key's side of the candidate's clause, over the big side
 */
Expr *
GjJoinKeyExpr(const GjJoinCandidate *cand)
{
	List	   *args = castNode(OpExpr, cand->rinfo->clause)->args;

	return bms_equal(cand->rinfo->left_relids, cand->big->relids) ? linitial(args)
		: lsecond(args);
}

/*
 * Does the key tell in which partition of the big side a row is?
 */
bool
GjJoinIsByKey(PlannerInfo *root, const GjJoinCandidate *cand)
{
	RelOptInfo *big = cand->big;
	Var		   *key = GjOnlyPartitionKey(big);
	ListCell   *lc;

	if (planner_rt_fetch(big->relid, root)->relkind != RELKIND_PARTITIONED_TABLE ||
		key == NULL || !equal(key, GjJoinKeyExpr(cand)))
		return false;

	foreach(lc, cand->scans)
	{
		if (!GjIndexKeepsValues(((GjJoinScan *) lfirst(lc))->index))
			return false;
	}
	return true;
}

/*
 * List the way from the big side down to a table as a plan has it (exec/route.h), of which the key
 * tells the first level
 */
List *
GjJoinPartitions(PlannerInfo *root, RelOptInfo *table, RelOptInfo *big)
{
	List	   *partitions = NIL;

	for (Index relid = table->relid; relid != big->relid;)
	{
		AppendRelInfo *appinfo = root->append_rel_array[relid];
		bool		first = appinfo->parent_relid == big->relid;

		partitions = lcons_oid(planner_rt_fetch(relid, root)->relid, partitions);
		partitions = lcons_oid(first ? appinfo->parent_reloid : InvalidOid, partitions);
		relid = appinfo->parent_relid;
	}
	return partitions;
}

/*
 * Choose how to scan a table for the candidate's clause; NULL if no index answers it.
 *
 * Of several indexes the smallest is best, as each is read from end to end; but a bigger one
 * may spare the heap.  Then both ways are kept, and costs decide.
 */
GjJoinScan *
GjJoinChooseScan(PlannerInfo *root, const GjJoinCandidate *cand, RelOptInfo *table)
{
	RestrictInfo *rinfo = NULL;
	GjJoinScan *scan = NULL;
	GjJoinScan *covering = NULL;
	ListCell   *lc;

	foreach(lc, table->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		GjSource	key;
		List	   *attnos;

		if (!GjIndexEligible(index))
			continue;
		if (rinfo == NULL)
			rinfo = (RestrictInfo *) translate(root, (Node *) cand->rinfo, table->relid,
											   cand->big);
		if (!scan_answers(root, cand, index, table, rinfo, &key))
			continue;
		keep_smaller(&scan, table, index, &key);
		if (GjIndexOnlyCovers(table, index, table->baserestrictinfo, &attnos))
			keep_smaller(&covering, table, index, &key);
	}
	if (covering == NULL)
		return scan;

	covering->index_only = true;
	if (covering->index == scan->index)
		return covering;
	if (covering->key.key_proc == scan->key.key_proc && covering->key.opno == scan->key.opno)
		scan->other = covering;
	return scan;
}

static void
keep_smaller(GjJoinScan **scan, RelOptInfo *table, IndexOptInfo *index, const GjSource *key)
{
	if (*scan != NULL && (*scan)->index->pages <= index->pages)
		return;
	if (*scan == NULL)
		*scan = palloc0(sizeof(GjJoinScan));
	(*scan)->table = table;
	(*scan)->index = index;
	(*scan)->key = *key;
}

/*
 * Does the index answer the clause, with the same operator and key extraction as the other
 * tables' indexes?  The small side's keys are made only once.
 */
static bool
scan_answers(PlannerInfo *root, const GjJoinCandidate *cand, IndexOptInfo *index,
			 RelOptInfo *table, RestrictInfo *rinfo, GjSource *key)
{
	const char *refused;

	return GjFoldJoinClause(root, table, index, rinfo, cand->small->relids, key, &refused) &&
		(cand->scans == NIL ||
		 (cand->key.key_proc == key->key_proc && cand->key.opno == key->opno));
}

/*
 * Make the plan of one scan; columns are those that the joined row has of the big
 * side, as Vars of the latter.  All of the table's own clauses are tested, what a partial
 * index's predicate implies included: GjRefuseIndex().
 */
Plan *
GjPlanJoinScan(PlannerInfo *root, const GjJoinCandidate *cand, const GjJoinScan *scan,
			   List *columns)
{
	CustomScan *plan = makeNode(CustomScan);
	RelOptInfo *table = scan->table;
	List	   *filters = GjBareClauses(GjOrderClauses(root, table->baserestrictinfo));
	List	   *tlist = NIL;
	List	   *attnos = NIL;
	List	   *quals = filters;
	List	   *filter_plan;
	List	   *filter_values;
	bool		index_only;
	ListCell   *lc;

	columns = copyObject(columns);
	foreach(lc, columns)
		GjVarAtScan(lfirst_node(Var, lc));
	foreach(lc, (List *) translate(root, (Node *) columns, table->relid, cand->big))
		tlist = lappend(tlist, makeTargetEntry(lfirst(lc), list_length(tlist) + 1,
											   NULL, false));

	index_only = scan->index_only &&
		GjIndexOnlyHas(scan->index, table->relid, list_make2(tlist, filters), &attnos);
	filter_plan = GjMakeFilterPlan(scan->index, table->relid, &quals, &filters, &filter_values);

	plan->scan.plan.startup_cost = scan->startup;
	plan->scan.plan.total_cost = scan->startup + scan->run;
	plan->scan.plan.plan_rows = scan->rows;
	plan->scan.plan.plan_width = table->reltarget->width;
	plan->scan.plan.parallel_aware = cand->workers > 0;
	plan->scan.plan.parallel_safe = table->consider_parallel;
	plan->scan.plan.targetlist = tlist;
	plan->scan.plan.qual = copyObject(quals);
	plan->scan.scanrelid = table->relid;
	plan->custom_relids = bms_copy(table->relids);
	plan->custom_exprs = list_make4(GjIndexKeyExpr(scan->index), GjKeyPredicate(scan->index),
									copyObject(filters), filter_values);
	Assert(list_length(plan->custom_exprs) == GJ_TABLE_EXPRS_COUNT);
	plan->custom_private = list_make5(list_make1_oid(scan->index->indexoid),
									  makeInteger(scan->index->indexkeys[0]),
									  makeBoolean(index_only), attnos, filter_plan);
	Assert(list_length(plan->custom_private) == GJ_TABLE_PRIVATE_COUNT);
	plan->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	plan->methods = GjNodeMethods(GJ_JOIN_SCAN_NAME);

	return &plan->scan.plan;
}
