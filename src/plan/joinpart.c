/*-------------------------------------------------------------------------
 *
 * joinpart.c
 *	  The parts of a GpuJoin's key: the equalities that the look-up of small rows tests, and the
 *	  columns of both sides that they compare.
 *
 * If the index has hashes of its keys, or rests, the equality of the keys is a part itself.
 *
 * The key's value is a column of the small side's path.  If it is an expression, like u.x::uuid,
 * the path gets a projection, so the expression is evaluated once for each small row, and a spilled
 * row keeps its value.  PostgreSQL's hash join evaluates it for the same rows, as a hash key: those
 * that pass all conditions on the small side alone.  So an error in the expression, which must
 * not be volatile, is one that PostgreSQL may raise, too; which of its plans it chooses is not
 * defined.  The values of the other parts are plain columns, because PostgreSQL would evaluate an
 * expression among them only for pairs of equal keys, if it joined by the key's index.
 *
 * If the big side's key is cast, the small side's values are converted to keys (match/values.c).
 * Then a part that is the key compares what they are converted to, by the index's own operator.
 * A small row has a single mark, but a float8 may equal several keys beyond 2^53; so joins that
 * mark small rows refuse such a cast, unless the key is too short for that.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "pages/pages.h"
#include "sets/sets.h"
#include "planner.h"

/* Maximum number of further equalities that are looked up with the key */
#define MAX_PARTS				8

static bool is_same_node(void *side, Node *expr);
static Node *big_side(const GjJoinCandidate *cand, const RestrictInfo *rinfo, const OpExpr *op);
static Var *part_column_of(const GjJoinCandidate *cand, const RestrictInfo *rinfo, Node *side);
static bool part_is_column(PlannerInfo *root, const GjJoinCandidate *cand, RestrictInfo *rinfo);
static Var *part_of_clause(PlannerInfo *root, const GjJoinCandidate *cand, RestrictInfo *rinfo,
						   RelOptInfo *table);
static void test_entries(GjJoinScan *scan, GjTuples *tuples);
static bool are_words(const IndexOptInfo *index, List *parts);

/*
 * List the equalities that can be parts of the key.  If the index has hashes of its keys,
 * the equality of the keys is the first of them, because a hash proves nothing.  Other equalities
 * of such a key are left out, because entries do not have the value.
 */
List *
GjFindJoinParts(PlannerInfo *root, const GjJoinCandidate *cand)
{
	bool		is_hashed = GjIndexIsHashed(((GjJoinScan *) linitial(cand->scans))->index);
	List	   *parts = NIL;
	GjComparison key = {0};
	GjComparison part;
	ListCell   *lc;

	if (is_hashed && GjReadJoinPart(cand, cand->rinfo, &key) &&
		part_is_column(root, cand, cand->rinfo))
		parts = list_make1(cand->rinfo);

	foreach(lc, cand->restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (rinfo != cand->rinfo && list_length(parts) < MAX_PARTS &&
			GjClauseJoinsSides(cand, rinfo) &&
			restriction_is_securely_promotable(rinfo, cand->big) &&
			GjReadJoinPart(cand, rinfo, &part) && part_is_column(root, cand, rinfo) &&
			!(is_hashed && equal(part.column, key.column)))
			parts = lappend(parts, rinfo);
	}
	return parts;
}

/*
 * Read a clause as an equality that can be a part of the key.  Returns false if it is not.
 */
bool
GjReadJoinPart(const GjJoinCandidate *cand, RestrictInfo *rinfo, GjComparison *part)
{
	const OpExpr *op = (const OpExpr *) rinfo->clause;
	bool		is_key = rinfo == cand->rinfo;
	Var		   *column;
	GjExactPart exact;

	if (!IsA(op, OpExpr) ||
		!GjReadComparison((Node *) op, is_same_node, big_side(cand, rinfo, op), part))
		return false;
	part->column = column = part_column_of(cand, rinfo, part->column);
	part->value = is_key ? cand->value : GjStripRelabel(part->value);
	if (is_key && cand->key.conversion != GJ_CONVERT_CODEC)
	{
		/* compare what the values are converted to */
		const IndexOptInfo *index = ((GjJoinScan *) linitial(cand->scans))->index;
		Oid			type = index->opcintype[0];

		part->opno = get_opfamily_member(index->opfamily[0], type, type, GJ_EQUAL_STRATEGY);
		part->collation = index->indexcollations[0];
	}
	return IsA(column, Var) && column->varattno > 0 &&
		(is_key || (IsA(part->value, Var) && ((Var *) part->value)->varlevelsup == 0)) &&
		GjExactPartInit(&exact, part->opno, part->collation, InvalidOid) &&
		(!GjPassesBarrier(rinfo, cand->big) || GjHashIsHarmless(exact.row_hash.fn_oid));
}

static bool
is_same_node(void *side, Node *expr)
{
	return expr == side;
}

/*
 * Return the big side's operand of a clause, or of its translation for a table
 */
static Node *
big_side(const GjJoinCandidate *cand, const RestrictInfo *rinfo, const OpExpr *op)
{
	return bms_equal(rinfo->right_relids, cand->big->relids) ? lsecond(op->args) :
		linitial(op->args);
}

/*
 * Return the column in this operand, below a cast of the key that is converted away
 */
static Var *
part_column_of(const GjJoinCandidate *cand, const RestrictInfo *rinfo, Node *side)
{
	Node	   *uncast = NULL;
	Oid			cast;

	if (rinfo == cand->rinfo && cand->key.conversion != GJ_CONVERT_CODEC)
		uncast = GjReadCast(side, &cast);
	return GjStripRelabel(uncast != NULL ? uncast : side);
}

/*
 * Return true if the part compares a plain column of each table of the big side; in a UNION ALL it
 * may be an expression
 */
static bool
part_is_column(PlannerInfo *root, const GjJoinCandidate *cand, RestrictInfo *rinfo)
{
	ListCell   *lc;

	foreach(lc, cand->tables)
	{
		RelOptInfo *table = lfirst_node(RelOptInfo, lc);
		Var		   *column = part_of_clause(root, cand, rinfo, table);

		if (!IsA(column, Var) || column->varno != table->relid || column->varattno <= 0)
			return false;
	}
	return true;
}

/*
 * Return the table's side of a part
 */
static Var *
part_of_clause(PlannerInfo *root, const GjJoinCandidate *cand, RestrictInfo *rinfo,
			   RelOptInfo *table)
{
	RestrictInfo *translated = GjJoinClauseOf(root, rinfo, table, cand->big);

	return part_column_of(cand, rinfo,
						  big_side(cand, rinfo, castNode(OpExpr, translated->clause)));
}

/*
 * Find the columns of a table that are the parts of the key, and how entries of each index that may
 * be scanned are tested by them
 */
void
GjFindJoinTuples(PlannerInfo *root, const GjJoinCandidate *cand, GjJoinScan *scan)
{
	GjTuples   *tuples = palloc0(sizeof(GjTuples));
	ListCell   *lc;

	tuples->key_is_part = list_member_ptr(cand->parts, cand->rinfo);
	foreach(lc, cand->parts)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		GjComparison part;

		(void) GjReadJoinPart(cand, rinfo, &part);
		tuples->columns = lappend(tuples->columns, part_of_clause(root, cand, rinfo, scan->table));
		tuples->operators = lappend_oid(tuples->operators, part.opno);
		tuples->collations = lappend_oid(tuples->collations, part.collation);
	}

	test_entries(scan, tuples);
	if (scan->other == NULL)
		return;
	test_entries(scan->other, tuples);
	if (!scan->other->index_only)
		scan->other = NULL;
}

/*
 * Decide how entries are tested by tuples.  The key's rest or hash alone spares few visits to the
 * heap.
 */
static void
test_entries(GjJoinScan *scan, GjTuples *tuples)
{
	scan->tuples = tuples;
	scan->index_only &= are_words(scan->index, tuples->columns);
	if (list_length(tuples->columns) > tuples->key_is_part)
		scan->entry_parts = GjFilterParts(scan->index, tuples);
}

/*
 * Return true if entries have the parts as values that can be compared: by value, uuids, texts,
 * bpchars, or the key's rest
 */
static bool
are_words(const IndexOptInfo *index, List *parts)
{
	ListCell   *lc;

	foreach(lc, parts)
	{
		const Var  *column = lfirst_node(Var, lc);
		Oid			type = getBaseType(column->vartype);
		bool		is_rest = column->varattno == index->indexkeys[0] &&
			foreach_current_index(lc) == 0;

		if (!is_rest && !get_typbyval(type) && type != UUIDOID && type != TEXTOID &&
			type != VARCHAROID && type != BPCHAROID)
			return false;
	}
	return true;
}

/*
 * Find the key's value among the small side's columns: *value becomes that column, or an expression
 * over them
 */
void
GjFindJoinValue(GjJoinCandidate *cand)
{
	List	   *columns = cand->small->reltarget->exprs;
	Expr	   *value = GjStripRelabel(cand->key.value);

	cand->value = (Expr *) GjMatchColumns((Node *) value, columns);
	cand->is_computed = !list_member(columns, cand->value);
}

/*
 * Make a path of the small side return the key's value in a column
 */
Path *
GjJoinSmallPath(PlannerInfo *root, const GjJoinCandidate *cand, Path *path)
{
	PathTarget *target;

	if (!cand->is_computed)
		return path;
	target = copy_pathtarget(path->pathtarget);
	add_column_to_pathtarget(target, cand->value, 0);
	set_pathtarget_cost_width(root, target);
	return (Path *) create_projection_path(root, cand->small, path, target);
}
