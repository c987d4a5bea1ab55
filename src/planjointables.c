/*-------------------------------------------------------------------------
 *
 * planjointables.c
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

#include <math.h>

#include "catalog/pg_class_d.h"
#include "nodes/makefuncs.h"
#include "nodes/value.h"
#include "optimizer/appendinfo.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"

#include "compat.h"
#include "gpujoin.h"
#include "joinplan.h"

static bool add_tables(PlannerInfo *root, RelOptInfo *rel, List **tables);
static bool add_members(PlannerInfo *root, RelOptInfo *rel, List **tables);
static Node *translate(PlannerInfo *root, Node *node, Index relid, RelOptInfo *big);
static void keep_smaller(GjJoinScan **scan, RelOptInfo *table, IndexOptInfo *index,
						 const GjClause *key);
static void cost_scan(PlannerInfo *root, const GjJoinCandidate *cand, GjJoinScan *scan);
static bool scan_answers(PlannerInfo *root, const GjJoinCandidate *cand, IndexOptInfo *index,
						 RelOptInfo *table, RestrictInfo *rinfo, GjClause *key);

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
	if (!GjRelationSearchable(rel, rte))
		return false;

	*tables = lappend(*tables, rel);
	return true;
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
 * Write an expression over the big side for one of its tables, from the top down, a
 * level at a time
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
 * The key's side of the candidate's clause, over the big side
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
 * The partitions from the big side's first level down to a table
 */
List *
GjJoinPartitions(PlannerInfo *root, RelOptInfo *table, RelOptInfo *big)
{
	List	   *partitions = NIL;

	for (Index relid = table->relid; relid != big->relid;
		 relid = root->append_rel_array[relid]->parent_relid)
		partitions = lcons_oid(planner_rt_fetch(relid, root)->relid, partitions);
	return partitions;
}

/*
 * Choose how to scan a table for the candidate's clause; NULL if no index answers it.
 *
 * Of several the smallest is best, as each is read from end to end, unless a bigger one
 * saves the heap: which, costs will tell.
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
		GjClause	key;
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
keep_smaller(GjJoinScan **scan, RelOptInfo *table, IndexOptInfo *index, const GjClause *key)
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
 * Does the index answer the clause, in the same way as the other tables' indexes do?
 * The small side's keys are made only once.
 */
static bool
scan_answers(PlannerInfo *root, const GjJoinCandidate *cand, IndexOptInfo *index,
			 RelOptInfo *table, RestrictInfo *rinfo, GjClause *key)
{
	return GjClauseMatches(root, table, index, rinfo, key) && !key->is_array &&
		bms_is_subset(pull_varnos(root, (Node *) key->value_expr), cand->small->relids) &&
		(cand->scans == NIL ||
		 (cand->key.key_proc == key->key_proc && cand->key.opno == key->opno));
}

/*
 * Estimate what a scan costs over all batches, and how many rows it yields; of two ways to
 * scan, the cheaper one stays
 */
void
GjJoinCostScan(PlannerInfo *root, const GjJoinCandidate *cand, GjJoinScan *scan)
{
	GjJoinScan	this;

	cost_scan(root, cand, scan);
	if (scan->other == NULL)
		return;
	cost_scan(root, cand, scan->other);
	if (scan->other->startup + scan->other->run >= scan->startup + scan->run)
		return;

	/* both stay known: a parallel plan chooses anew */
	this = *scan;
	*scan = *this.other;
	scan->other = palloc(sizeof(GjJoinScan));
	*scan->other = this;
}

/*
 * Matches are spread evenly over the big side's rows.  Where the key tells the
 * partition, a table is not searched if none of the keys is its own; n of them hit
 * one of p tables with probability 1 - (1 - 1/p)^n.
 */
static void
cost_scan(PlannerInfo *root, const GjJoinCandidate *cand, GjJoinScan *scan)
{
	RelOptInfo *table = scan->table;
	double		share = Min(1.0, cand->nkeys * cand->selectivity);
	GjCostInput input = {.rel = table,.index = scan->index,.nkeys = cand->nkeys,
		.nmatches = Min(table->tuples * share, scan->index->tuples),
	.filtered = GjFilterShare(root, table, scan->index, table->baserestrictinfo),
		.quals = table->baserestrictcost,.workers = cand->workers,
	.index_only = scan->index_only};

	scan->nmatches = input.nmatches;
	scan->filtered = input.filtered;
	GjCostSearch(root, &input, &scan->startup, &scan->run);
	scan->startup += (cand->nbatches - 1.0) *
		GjCostMatch(scan->index, cand->nkeys / cand->nbatches,
					input.nmatches / cand->nbatches);
	if (cand->by_key)
		scan->startup *= 1.0 - pow(1.0 - 1.0 / list_length(cand->tables), cand->nkeys);
	scan->rows = clamp_row_est(table->rows * share / GjParallelDivisor(cand->workers));
}

/*
 * Make the plan of one scan; columns are those that the joined row has of the big
 * side, as Vars of the latter.
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

	filter_plan = GjMakeFilterPlan(scan->index, table->relid, filters, &filter_values);

	plan->scan.plan.startup_cost = scan->startup;
	plan->scan.plan.total_cost = scan->startup + scan->run;
	plan->scan.plan.plan_rows = scan->rows;
	plan->scan.plan.plan_width = table->reltarget->width;
	plan->scan.plan.parallel_aware = cand->workers > 0;
	plan->scan.plan.parallel_safe = table->consider_parallel;
	plan->scan.plan.targetlist = tlist;
	plan->scan.plan.qual = (List *) copyObject(filters);
	plan->scan.scanrelid = table->relid;
	plan->custom_relids = bms_copy(table->relids);
	plan->custom_exprs = list_make2(copyObject(scan->key.key_expr), filter_values);
	plan->custom_private = list_make5(list_make1_oid(scan->index->indexoid),
									  makeInteger(scan->index->indexkeys[0]),
									  makeBoolean(index_only), attnos, filter_plan);
	Assert(list_length(plan->custom_private) == GJ_JOIN_SCAN_PRIVATE_COUNT);
	plan->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	plan->methods = &GjJoinScanPlanMethods;

	return &plan->scan.plan;
}
