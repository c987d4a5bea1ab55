/*-------------------------------------------------------------------------
 *
 * choice.c
 *	  What the hooks note for gpujoin_explain_choice() (choicenotes.c).
 *
 * Where no path is offered, the reason is found by asking again, one test after the
 * other: the hooks themselves need not know about reasons.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "nodes/makefuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "mb/pg_wchar.h"
#include "utils/ruleutils.h"

#include "base/gpujoin.h"
#include "joinpath.h"
#include "choice.h"
#include "planner.h"

/* Characters of a condition that are shown */
#define SHOWN_CHARACTERS		200

static const char *refuse_table(RelOptInfo *rel, RangeTblEntry *rte);
static const char *refuse_index(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index);
static const char *refuse_clause(PlannerInfo *root, RelOptInfo *rel, RestrictInfo *rinfo);
static Oid	path_index(CustomPath *path);
static Cost cheapest_other(PlannerInfo *root, RelOptInfo *rel);
static const char *deparse(PlannerInfo *root, List *rinfos);
static bool is_deparsable(Node *clause);

/*
 * An index was taken out of the planner's list
 */
void
GjChoiceHidden(Oid relation, const IndexOptInfo *index)
{
	if (GjChoiceIsNoted())
		GjChoiceAdd(relation, index->indexoid, NULL)->reason =
			gj_enabled ? "old_snapshot_threshold is set" : "gpujoin.enabled is off";
}

/*
 * Note why a table cannot be scanned through its indexes of ours; those that can are
 * noted when the path is offered
 */
void
GjChoiceExamine(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	const char *table_reason;
	bool		has_index = false;
	ListCell   *lc;

	if (!GjChoiceIsNoted() || rte->rtekind != RTE_RELATION || rte->inh ||
		IsCatalogRelationOid(rte->relid))
		return;

	table_reason = refuse_table(rel, rte);
	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		const char *reason = table_reason;

		if (!GjIndexIsOurs(index))
			continue;
		has_index = true;
		if (reason == NULL)
			reason = refuse_index(root, rel, index);
		if (reason != NULL)
			GjChoiceAdd(rte->relid, index->indexoid, NULL)->reason = GjChoiceText(reason);
	}
	if (!has_index && gj_enabled)
		GjChoiceAdd(rte->relid, InvalidOid, NULL)->reason = "the table has no gpujoin index";
}

static const char *
refuse_table(RelOptInfo *rel, RangeTblEntry *rte)
{
	if (rte->tablesample != NULL)
		return "the table is sampled";
	if (!gj_force && rel->tuples < gj_min_rows)
		return psprintf("the table has about %.0f rows, fewer than gpujoin.min_rows (%d)",
						rel->tuples, gj_min_rows);
	if (GjHasCurrentOf(rel))
		return "a cursor says which row is wanted (WHERE CURRENT OF)";
	if (!bms_is_empty(rel->lateral_relids))
		return "the table refers to others (LATERAL)";
	return NULL;
}

/*
 * The reason that comes closest to an offer, of the conditions on the key
 */
static const char *
refuse_index(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index)
{
	const char *reason = NULL;
	ListCell   *lc;

	if (index->hypothetical)
		return "the index is hypothetical";
	if (!GjIndexEligible(index))
		return "the index is partial, and its WHERE does not follow from the query's";

	foreach(lc, rel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (GjFoldClause(root, rel, index, rinfo) != NULL)
			return NULL;
		if (GjChoiceHasKey(rinfo, index))
			reason = refuse_clause(root, rel, rinfo);
	}
	return reason ? reason : GJ_CHOICE_NO_CONDITION;
}

static const char *
refuse_clause(PlannerInfo *root, RelOptInfo *rel, RestrictInfo *rinfo)
{
	const char *what = GjChoiceRefuseClause(rel, rinfo);

	if (rinfo->pseudoconstant)
		what = "does not depend on the row";
	return GjChoiceSay(root, rinfo, what ? what : GJ_CHOICE_UNKNOWN_FORM);
}

/*
 * What no clause on a key may be, whether it is a table's own or a join's
 */
const char *
GjChoiceRefuseClause(RelOptInfo *rel, RestrictInfo *rinfo)
{
	if (!restriction_is_securely_promotable(rinfo, rel))
		return "has to wait for a security barrier";
	if (contain_volatile_functions((Node *) rinfo->clause))
		return "is volatile";
	if (contain_subplans((Node *) rinfo->clause))
		return "has a subquery that is no join: NOT IN, below OR, or dependent on the row";
	return NULL;
}

/*
 * Say something of a condition; with its text, if that can be had
 */
const char *
GjChoiceSay(PlannerInfo *root, RestrictInfo *rinfo, const char *what)
{
	const char *text = deparse(root, list_make1(rinfo));

	return text ? psprintf("the condition %s %s", text, what) :
		psprintf("the condition on the key %s", what);
}

bool
GjChoiceHasKey(RestrictInfo *rinfo, IndexOptInfo *index)
{
	Bitmapset  *attnos = NULL;

	if (index->indexkeys[0] == 0)
		return false;
	pull_varattnos((Node *) rinfo->clause, index->rel->relid, &attnos);
	return bms_is_member(index->indexkeys[0] - FirstLowInvalidHeapAttributeNumber, attnos);
}

/*
 * A path of ours is about to be added.  Of several in one place (joins in another order)
 * the cheapest is noted, compared with what is there.
 */
void
GjChoiceOffered(PlannerInfo *root, RelOptInfo *rel, CustomPath *path)
{
	Oid			index = path_index(path);
	Oid			table;
	GjChoice   *choice;
	Cost		cost = path->path.total_cost;

	if (!GjChoiceIsNoted())
		return;

	table = IndexGetRelation(index, false);
	choice = GjChoiceFind(table, index, path->methods->CustomName);
	if (choice == NULL)
		choice = GjChoiceAdd(table, index, path->methods->CustomName);
	else if (cost >= choice->cost)
		return;

	choice->cost = cost;
	choice->other_cost = cheapest_other(root, rel);
	choice->reason = (choice->other_cost > 0.0 && choice->other_cost <= cost) ?
		"another plan costs less there" :
		"another plan of the whole query costs less: join order, parallel workers, order or LIMIT";
	if (path->methods == &GjScanPathMethods)
		choice->condition = deparse(root, list_nth(path->custom_private,
												   GJ_SCAN_PATH_CLAUSES));
	else
		choice->condition =
			deparse(root, list_make1(((GjJoinCandidate *) linitial(path->custom_private))->rinfo));
}

/*
 * A plan is made of a path of ours
 */
void
GjChoiceTaken(CustomPath *path)
{
	Oid			index = path_index(path);
	GjChoice   *choice;

	if (!GjChoiceIsNoted())
		return;
	choice = GjChoiceFind(IndexGetRelation(index, false), index, path->methods->CustomName);
	if (choice != NULL)
		choice->chosen = true;
}

/*
 * The index of a path; of a join with several tables, the first one's
 */
static Oid
path_index(CustomPath *path)
{
	GjJoinCandidate *join;

	if (path->methods == &GjScanPathMethods)
		return ((IndexOptInfo *) list_nth(path->custom_private, GJ_SCAN_PATH_INDEX))->indexoid;

	join = list_nth(path->custom_private, GJ_JOIN_PATH_CANDIDATE);
	return ((GjJoinScan *) linitial(join->scans))->index->indexoid;
}

/*
 * The cost of the cheapest path that is not ours.  A bitmap scan of our index may have
 * driven out the sequential scan before.
 */
static Cost
cheapest_other(PlannerInfo *root, RelOptInfo *rel)
{
	Cost		cheapest = 0.0;
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info == NULL && !GjPathIsOurs(path) &&
			(cheapest == 0.0 || path->total_cost < cheapest))
			cheapest = path->total_cost;
	}
	if (cheapest == 0.0 && IS_SIMPLE_REL(rel))
		cheapest = create_seqscan_path(root, rel, NULL, 0)->total_cost;
	return cheapest;
}

/*
 * Clauses as text, long ones cut; NULL if there is something in them that only a finished
 * plan could show
 */
static const char *
deparse(PlannerInfo *root, List *rinfos)
{
	Node	   *clause = (Node *) make_ands_explicit(get_actual_clauses(rinfos));
	PlannedStmt *statement = makeNode(PlannedStmt);
	Bitmapset  *used = NULL;
	List	   *names;
	char	   *text;

	if (!is_deparsable(clause))
		return NULL;

	for (int i = 1; i <= list_length(root->parse->rtable); i++)
		used = bms_add_member(used, i);
	statement->rtable = root->parse->rtable;
	names = select_rtable_names_for_explain(statement->rtable, used);
	text = deparse_expression(clause, deparse_context_for_plan_tree(statement, names),
							  bms_membership(pull_varnos(root, clause)) == BMS_MULTIPLE, false);
	if (strlen(text) > SHOWN_CHARACTERS)
		text = psprintf("%.*s...", pg_mbcliplen(text, strlen(text), SHOWN_CHARACTERS), text);
	return GjChoiceText(text);
}

static bool
is_deparsable(Node *clause)
{
	ListCell   *lc;

	if (contain_subplans(clause))
		return false;
	foreach(lc, pull_var_clause(clause, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
								PVC_INCLUDE_PLACEHOLDERS))
	{
		if (IsA(lfirst(lc), PlaceHolderVar))
			return false;
	}
	return true;
}
