/*-------------------------------------------------------------------------
 *
 * distinctpath.c
 *	  SELECT DISTINCT that removes nothing, because the rows are distinct anyway.
 *
 * Rows of one table differ in the columns of a unique key.  If these are among the columns of
 * SELECT DISTINCT, there are no duplicates, and a scan's rows are the result.  A join with a small
 * side returns a row once for each partner.  If the target uses no column of the partners, their
 * number does not matter: as a semijoin, the join returns each row once.  That is what SELECT
 * DISTINCT p.* FROM small JOIN p asks for.
 *
 * A key is an immediate unique index on columns that are NOT NULL, without a predicate or with one
 * that the query implies.  The index must distinguish the values that DISTINCT distinguishes: its
 * operator family contains DISTINCT's equality, and its collation has the same notion of equality.
 *
 * Rows of different partitions differ in the partitioning columns.  So if all of these are also
 * among the columns, a key of each partition will do; the keys need not be parts of one index.  A
 * parent with children that are not partitions has no key that covers all of them.
 *
 * The plan is correct as long as the index exists: removing the key invalidates the table's plans.
 * But a snapshot that is older than the key may see rows that were deleted before the key could be
 * created, or the partition attached.  So the transactions that created the key must be older than
 * all snapshots (eligible.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/settings.h"
#include "planner.h"

static Path *find_distinct(PlannerInfo *root, RelOptInfo *input);
static bool distinct_is_plain(const Query *parse);
static RelOptInfo *find_table(PlannerInfo *root, RelOptInfo *input, const CustomPath *path);
static bool as_semijoin(PlannerInfo *root, RelOptInfo *input, CustomPath *path);
static Path *find_parts(PlannerInfo *root, RelOptInfo *table);
static bool has_key(PlannerInfo *root, const RelOptInfo *table, RelOptInfo *part);
static bool parts_have_keys(PlannerInfo *root, const RelOptInfo *table, const RelOptInfo *whole);
static bool parts_differ(PlannerInfo *root, const RelOptInfo *table, const RelOptInfo *whole);
static bool distinct_is_key(PlannerInfo *root, const RelOptInfo *table, const RelOptInfo *part,
							const IndexOptInfo *index);
static TransactionId row_since(int cache, Oid oid);
static bool tells_apart(PlannerInfo *root, const RelOptInfo *table, AttrNumber attno,
						Oid opfamily, int equality, Oid collation);
static bool collations_agree(Oid one, Oid other);

/*
 * Offer a path whose rows are distinct without further work; otherwise returns false
 *
 * add_path() may free the path that it is given, and this one belongs to the input.
 */
bool
GjAddDistinctPath(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output)
{
	Path	   *path;

	path = find_distinct(root, input);
	if (path == NULL)
		return false;
	if (gj_force)
		output->pathlist = NIL;
	add_path(output, (Path *) create_projection_path(root, output, path, input->reltarget));
	return true;
}

/*
 * Return a path for the input's rows from which SELECT DISTINCT removes none, or NULL
 */
static Path *
find_distinct(PlannerInfo *root, RelOptInfo *input)
{
	CustomPath *path;
	RelOptInfo *table;

	if (!distinct_is_plain(root->parse))
		return NULL;
	path = GjOfferFind(input, false);
	if (path == NULL)
		return IS_SIMPLE_REL(input) ? find_parts(root, input) : NULL;
	table = find_table(root, input, path);
	if (table == NULL || !has_key(root, table, table))
		return NULL;
	if (table != input && !as_semijoin(root, input, path))
		return NULL;
	return &path->path;
}

/*
 * Return PostgreSQL's path for a partitioned table, if it contains a path of ours, or NULL
 */
static Path *
find_parts(PlannerInfo *root, RelOptInfo *table)
{
	Path	   *path = table->cheapest_total_path;
	ListCell   *lc;

	if (path == NULL || !IsA(path, AppendPath) || path->param_info != NULL ||
		!has_key(root, table, table))
		return NULL;
	foreach(lc, ((AppendPath *) path)->subpaths)
	{
		Path	   *part = lfirst(lc);

		if (IsA(part, ProjectionPath))
			part = ((ProjectionPath *) part)->subpath;
		if (GjPathIsOurs(part))
			return path;
	}
	return NULL;
}

/*
 * Return true if the rows to be made distinct are those of scans and joins
 */
static bool
distinct_is_plain(const Query *parse)
{
	return !parse->hasDistinctOn && !parse->hasAggs && parse->groupClause == NIL &&
		parse->groupingSets == NIL && parse->havingQual == NULL && !parse->hasWindowFuncs &&
		!parse->hasTargetSRFs;
}

/*
 * Return the table whose rows the path returns once each, or would as a semijoin
 */
static RelOptInfo *
find_table(PlannerInfo *root, RelOptInfo *input, const CustomPath *path)
{
	const GjJoinCandidate *cand;

	if (IS_SIMPLE_REL(input))
		return input;
	if (path->methods != &GjJoinPathMethods)
		return NULL;
	cand = linitial(path->custom_private);
	return cand->kind == GJ_JOIN_INNER || cand->kind == GJ_JOIN_SEMI ? cand->big : NULL;
}

/*
 * Turn a join's path into that of a semijoin, whose rows are big rows; returns false if the query
 * needs a column of the small side, or if the number of evaluations matters
 */
static bool
as_semijoin(PlannerInfo *root, RelOptInfo *input, CustomPath *path)
{
	const GjJoinCandidate *cand = linitial(path->custom_private);
	GjJoinCandidate *semi;
	double		rows = 0.0;
	ListCell   *lc;

	if (cand->kind == GJ_JOIN_SEMI)
		return true;
	if (!bms_is_subset(pull_varnos(root, (Node *) input->reltarget->exprs), cand->big->relids) ||
		contain_volatile_functions((Node *) input->reltarget->exprs) ||
		contain_volatile_functions((Node *) root->parse->jointree))
		return false;

	semi = palloc(sizeof(GjJoinCandidate));
	*semi = *cand;
	semi->kind = GJ_JOIN_SEMI;
	path->custom_private = list_make1(semi);
	foreach(lc, cand->scans)
		rows += ((GjJoinScan *) lfirst(lc))->rows;
	path->path.rows = Min(path->path.rows, rows);
	return true;
}

/*
 * Return true if a key of a part of the table, or of the whole table, distinguishes its rows by
 * columns of SELECT DISTINCT
 */
static bool
has_key(PlannerInfo *root, const RelOptInfo *table, RelOptInfo *part)
{
	ListCell   *lc;

	if (IS_PARTITIONED_REL(part))
		return parts_have_keys(root, table, part);
	if (planner_rt_fetch(part->relid, root)->inh)
		return false;
	foreach(lc, part->indexlist)
	{
		if (distinct_is_key(root, table, part, lfirst_node(IndexOptInfo, lc)))
			return true;
	}
	return false;
}

/*
 * Return true if keys distinguish the rows within each part, and no row can be in two parts
 */
static bool
parts_have_keys(PlannerInfo *root, const RelOptInfo *table, const RelOptInfo *whole)
{
	if (!parts_differ(root, table, whole))
		return false;
	for (int i = 0; i < whole->nparts; i++)
	{
		RelOptInfo *part = whole->part_rels[i];
		Oid			relid;

		if (part == NULL || IS_DUMMY_REL(part))
			continue;
		/* the row of pg_class changes with the partition bound */
		relid = planner_rt_fetch(part->relid, root)->relid;
		if (!GjIsOlderThanSnapshots(row_since(RELOID, relid)) || !has_key(root, table, part))
			return false;
	}
	return true;
}

/*
 * Return true if all partitioning columns are among those of SELECT DISTINCT, and its equality
 * implies the same partition
 */
static bool
parts_differ(PlannerInfo *root, const RelOptInfo *table, const RelOptInfo *whole)
{
	PartitionScheme scheme = whole->part_scheme;
	int			equality = scheme->strategy == PARTITION_STRATEGY_HASH ?
		HTEqualStrategyNumber : BTEqualStrategyNumber;

	for (int i = 0; i < scheme->partnatts; i++)
	{
		Var		   *var = linitial(whole->partexprs[i]);

		if (!IsA(var, Var) || var->varattno <= 0 ||
			!tells_apart(root, table, GjColumnOfParent(root, table, whole, var->varattno),
						 scheme->partopfamily[i], equality, scheme->partcollation[i]))
			return false;
	}
	return true;
}

static bool
distinct_is_key(PlannerInfo *root, const RelOptInfo *table, const RelOptInfo *part,
				const IndexOptInfo *index)
{
	Oid			relid = planner_rt_fetch(part->relid, root)->relid;

	if (!index->unique || !index->immediate || index->relam != BTREE_AM_OID ||
		index->hypothetical || (index->indpred != NIL && !index->predOK))
		return false;
	for (int i = 0; i < index->nkeycolumns; i++)
	{
		if (index->indexkeys[i] <= 0 ||
			!tells_apart(root, table, GjColumnOfParent(root, table, part, index->indexkeys[i]),
						 index->opfamily[i], BTEqualStrategyNumber,
						 index->indexcollations[i]) ||
			!GjColumnIsNeverNull(relid, index->indexkeys[i]))
			return false;
	}
	return GjIsOlderThanSnapshots(row_since(INDEXRELID, index->indexoid));
}

/*
 * Return the transaction that last changed the row of a relation in pg_class, or of an index in
 * pg_index; the planner holds a lock on the table
 */
static TransactionId
row_since(int cache, Oid oid)
{
	HeapTuple	row = SearchSysCache1(cache, ObjectIdGetDatum(oid));
	TransactionId since;

	if (!HeapTupleIsValid(row))
		elog(ERROR, "cache lookup failed for relation %u", oid);
	since = HeapTupleHeaderGetXmin(row->t_data);
	ReleaseSysCache(row);
	return since;
}

/*
 * Return true if a column is one of SELECT DISTINCT's, and values that are equal for DISTINCT are
 * also equal by this operator family and collation
 */
static bool
tells_apart(PlannerInfo *root, const RelOptInfo *table, AttrNumber attno, Oid opfamily,
			int equality, Oid collation)
{
	ListCell   *lc;

	foreach(lc, root->parse->distinctClause)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		Var		   *var = (Var *) get_sortgroupclause_expr(clause, root->processed_tlist);

		if (IsA(var, Var) && var->varlevelsup == 0 && var->varno == table->relid &&
			var->varattno == attno && attno > 0 &&
			get_op_opfamily_strategy(clause->eqop, opfamily) == equality &&
			collations_agree(var->varcollid, collation))
			return true;
	}
	return false;
}

static bool
collations_agree(Oid one, Oid other)
{
	return one == other ||
		(OidIsValid(one) && get_collation_isdeterministic(one) &&
		 OidIsValid(other) && get_collation_isdeterministic(other));
}
