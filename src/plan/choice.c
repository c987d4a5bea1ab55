/*-------------------------------------------------------------------------
 *
 * choice.c
 *	  Notes about the planner's choices, for gpujoin_explain_choice(): which of our indexes a
 *	  query could use, which it uses, and the reasons against the others.
 *
 * EXPLAIN shows the plan that won.  The other paths are gone by then, so our hooks take notes
 * while the planner runs, from GjChoiceStart() to GjChoiceStop().  An index has been chosen if the
 * planner asks for a plan of its path, or makes a scan of its own with it.
 *
 * Each test that decides whether a path is offered returns its reason; if no notes are taken, the
 * reason is a constant.
 *
 * A library that is loaded after gpujoin has its planner hook around ours: what it changes in a
 * finished plan is not noted.  If it plans a query twice, the notes are those of both plans.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/settings.h"
#include "planner.h"

/* Reasons against paths that were offered and not chosen */
#define COSTS_LESS_THERE		"another plan costs less there"
#define COSTS_LESS \
	"another plan of the whole query costs less: join order, parallel workers, order or LIMIT"

/* Reasons against an index whose table has no condition on its key; a join may replace them */
#define NO_CONDITION		"no condition on its key"
#define ONLY_IN_JOINS		"no condition on its key, other than in joins"

/* Maximum number of characters shown of a condition */
#define SHOWN_CHARACTERS		200

/* Maximum length of a reason, which may contain names of a function and its argument types */
#define FORMATTED_BYTES			1024

/* A finished plan, and the parameters that it was made with */
typedef struct Planned
{
	PlannedStmt *statement;
	ParamListInfo params;
} Planned;

static bool is_joined(PlannerInfo *root, IndexOptInfo *index);
static bool is_offered(PlannerInfo *root, List *tables);
static void improve_notes(PlannerInfo *root, RelOptInfo *table, RelOptInfo *big,
						  RelOptInfo *small, List *restrictlist, const char *refused);
static const char *refuse_clause(PlannerInfo *root, RelOptInfo *table, IndexOptInfo *index,
								 RestrictInfo *rinfo, RelOptInfo *small);
static List *list_tables(PlannerInfo *root, RelOptInfo *big);
static bool choice_is_key(const IndexOptInfo *index, const Bitmapset *attnos);
static Oid	path_index(CustomPath *path);
static CustomPath *find_leaf(Path *path);
static GjChoice *find_aggregate(const char *node, Path *input);
static Cost cheapest_other(PlannerInfo *root, RelOptInfo *rel);
static const char *deparse(PlannerInfo *root, List *rinfos);
static Node *hide_values(Node *expr, ParamListInfo params);
static Node *put_params(Node *node, void *params);
static bool is_deparsable(Node *clause);
static void note_scans(const Planned *planned, Plan *plan, List *ancestors);
static List *list_children(Plan *plan);
static void note_scan(const Planned *planned, Plan *plan, const char *node, Oid index,
					  List *quals, List *ancestors);
static bool index_is_ours(Oid index);
static bool scans_answer(Node *clause, IndexOptInfo *index);
static bool is_key_itself(void *index, Node *expr);
static bool may_answer_arm(Node *arm, IndexOptInfo *index);
static const char *shorten(char *text);
static const char *choice_text(const char *text);
static GjChoice *choice_add(Oid relation, Oid index, const char *node);
static GjChoice *choice_find(Oid relation, Oid index, const char *node);

/* Memory context of the notes, or NULL if no notes are taken; the notes; assumed values of the
 * query's parameters, or NULL */
static MemoryContext notes_context = NULL;
static List *notes = NIL;
static ParamListInfo assumed_params = NULL;

/*
 * Note the reason why no path was offered for an index, or for a table that has no index of ours
 */
void
GjChoiceRefused(Oid relation, Oid index, const char *reason)
{
	if (GjChoiceIsNoted())
		choice_add(relation, index, NULL)->reason = choice_text(reason);
}

/*
 * Return the reason against an index whose table has no condition on its key; without notes,
 * either reason will do
 */
const char *
GjChoiceNoCondition(PlannerInfo *root, IndexOptInfo *index)
{
	return GjChoiceIsNoted() && is_joined(root, index) ? ONLY_IN_JOINS :
		NO_CONDITION;
}

/*
 * Return true if a join may have a condition on the index's key
 *
 * A partition has a row of its own, but joins refer to its parent: return true for a partition if
 * there is any join.
 */
static bool
is_joined(PlannerInfo *root, IndexOptInfo *index)
{
	RelOptInfo *rel = index->rel;
	ListCell   *lc;

	if (bms_membership(root->all_baserels) != BMS_MULTIPLE)
		return false;
	if (IS_OTHER_REL(rel))
		return true;

	foreach(lc, rel->joininfo)
	{
		if (GjChoiceHasKey(lfirst_node(RestrictInfo, lc), index))
			return true;
	}
	foreach(lc, root->eq_classes)
	{
		const EquivalenceClass *ec = lfirst(lc);
		Bitmapset  *attnos = NULL;
		ListCell   *lc2;

		if (!bms_is_member(rel->relid, ec->ec_relids) ||
			bms_membership(ec->ec_relids) != BMS_MULTIPLE)
			continue;
		foreach(lc2, ec->ec_members)
			pull_varattnos((Node *) ((EquivalenceMember *) lfirst(lc2))->em_expr, rel->relid,
						   &attnos);
		if (choice_is_key(index, attnos))
			return true;
	}
	return false;
}

/*
 * Note the reason why the indexes of a side cannot answer a join; refused is NULL if only the
 * join's clauses can be the reason
 *
 * When the planner considered the table alone, it found no condition on an index whose key is used
 * in joins only.  Replace the reason in that note by a better one.
 */
void
GjChoiceJoinRefused(PlannerInfo *root, RelOptInfo *big, RelOptInfo *small, List *restrictlist,
					const char *refused)
{
	List	   *tables;
	ListCell   *lc;

	if (!GjChoiceIsNoted() || !IS_SIMPLE_REL(big))
		return;
	tables = list_tables(root, big);
	if (is_offered(root, tables))
		return;
	foreach(lc, tables)
		improve_notes(root, lfirst(lc), big, small, restrictlist, refused);
}

/*
 * List the tables that a side consists of: itself, or its children
 */
static List *
list_tables(PlannerInfo *root, RelOptInfo *big)
{
	List	   *tables = NIL;

	if (!planner_rt_fetch(big->relid, root)->inh)
		return list_make1(big);

	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *rel = root->simple_rel_array[i];

		if (rel != NULL && rel->reloptkind == RELOPT_OTHER_MEMBER_REL &&
			bms_equal(rel->top_parent_relids, big->relids))
			tables = lappend(tables, rel);
	}
	return tables;
}

/*
 * Return true if a GpuJoin was offered for these tables.  The note has one of them.
 */
static bool
is_offered(PlannerInfo *root, List *tables)
{
	ListCell   *lc;

	foreach(lc, tables)
	{
		RelOptInfo *table = lfirst(lc);
		Oid			relid = planner_rt_fetch(table->relid, root)->relid;
		ListCell   *lc2;

		foreach(lc2, table->indexlist)
		{
			if (choice_find(relid, lfirst_node(IndexOptInfo, lc2)->indexoid,
							GjJoinPathMethods.CustomName) != NULL)
				return true;
		}
	}
	return false;
}

/*
 * Replace the reason "no condition on its key" by a better one
 */
static void
improve_notes(PlannerInfo *root, RelOptInfo *table, RelOptInfo *big, RelOptInfo *small,
			  List *restrictlist, const char *refused)
{
	Oid			relid = planner_rt_fetch(table->relid, root)->relid;
	ListCell   *lc;

	foreach(lc, table->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		GjChoice   *choice = choice_find(relid, index->indexoid, NULL);
		ListCell   *lc2;

		if (choice == NULL || (strcmp(choice->reason, NO_CONDITION) != 0 &&
							   strcmp(choice->reason, ONLY_IN_JOINS) != 0))
			continue;

		foreach(lc2, restrictlist)
		{
			RestrictInfo *rinfo = GjJoinClauseOf(root, lfirst_node(RestrictInfo, lc2), table,
												 big);

			if (GjChoiceHasKey(rinfo, index))
				choice->reason = choice_text(refused ? refused :
											 refuse_clause(root, table, index, rinfo, small));
		}
	}
}

/*
 * Return the reason why the index does not answer this clause, which contains its key
 */
static const char *
refuse_clause(PlannerInfo *root, RelOptInfo *table, IndexOptInfo *index, RestrictInfo *rinfo,
			  RelOptInfo *small)
{
	const char *refused = NULL;
	GjSource	key;

	if (GjFoldJoinClause(root, table, index, rinfo, small->relids, &key, &refused))
		refused = GjChoiceSay(root, rinfo, index, IS_OTHER_REL(table) ?
							  "would do, but not each partition or child has an index "
							  "that answers it" :
							  "would do, but not in a join of this form");
	return refused;
}

/*
 * Format a reason; if no notes are taken, return the format itself, to save time
 */
const char *
GjChoiceFormat(const char *format,...)
{
	char		text[FORMATTED_BYTES];
	va_list		args;
	int			length;

	if (!GjChoiceIsNoted())
		return format;
	va_start(args, format);
	length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (length >= (int) sizeof(text))
		text[pg_mbcliplen(text, sizeof(text) - 1, sizeof(text) - 1)] = '\0';
	return pstrdup(text);
}

/*
 * Make a reason from a problem with a condition, and from the condition's text if it can be shown;
 * NULL stands for a form that none of our nodes answers
 */
const char *
GjChoiceSay(PlannerInfo *root, RestrictInfo *rinfo, IndexOptInfo *index, const char *what)
{
	const char *text = deparse(root, list_make1(rinfo));

	if (what == NULL)
		what = scans_answer((Node *) rinfo->clause, index) ?
			"is answered only by scans of PostgreSQL's own, and another plan costs less" :
			"is of a form, or compares with a type, that the index does not answer";
	return text ? psprintf("the condition %s %s", text, what) :
		psprintf("the condition on the key %s", what);
}

/*
 * Return true if a condition contains the index's column.  For an indexed expression we return
 * false.
 */
bool
GjChoiceHasKey(RestrictInfo *rinfo, IndexOptInfo *index)
{
	Bitmapset  *attnos = NULL;

	pull_varattnos((Node *) rinfo->clause, index->rel->relid, &attnos);
	return choice_is_key(index, attnos);
}

static bool
choice_is_key(const IndexOptInfo *index, const Bitmapset *attnos)
{
	return index->indexkeys[0] != 0 &&
		bms_is_member(index->indexkeys[0] - FirstLowInvalidHeapAttributeNumber, attnos);
}

/*
 * Note a path of ours that is about to be added
 *
 * Of several paths in one place (joins in different orders), note the cheapest, and compare it
 * with the existing paths.
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
	choice = choice_find(table, index, path->methods->CustomName);
	if (choice == NULL)
		choice = choice_add(table, index, path->methods->CustomName);
	else if (cost >= choice->cost)
		return;

	choice->cost = cost;
	choice->other_cost = cheapest_other(root, rel);
	choice->reason = (choice->other_cost > 0.0 && choice->other_cost <= cost) ?
		COSTS_LESS_THERE : COSTS_LESS;
	if (path->methods == &GjScanPathMethods)
	{
		List	   *clauses = list_nth(path->custom_private, GJ_SCAN_PATH_CLAUSES);

		choice->condition = clauses != NIL ? deparse(root, clauses) : NULL;
	}
	else
		choice->condition =
			deparse(root, list_make1(((GjJoinCandidate *) linitial(path->custom_private))->rinfo));
}

/*
 * Note a GpuAgg, or partial GpuAgg, over an input of ours: the finished path that is about to be
 * added, or the reason why it is not offered
 */
void
GjChoiceAggregate(const char *node, Path *input, const Path *path, const RelOptInfo *output,
				  const char *refused)
{
	GjChoice   *choice;
	ListCell   *lc;

	if (!GjChoiceIsNoted() || (choice = find_aggregate(node, input)) == NULL)
		return;
	if (refused != NULL)
	{
		if (choice->reason == NULL)
			choice->reason = choice_text(refused);
		return;
	}
	choice->cost = path->total_cost;
	choice->other_cost = 0.0;
	foreach(lc, output->pathlist)
	{
		Cost		cost = ((Path *) lfirst(lc))->total_cost;

		if (choice->other_cost == 0.0 || cost < choice->other_cost)
			choice->other_cost = cost;
	}
	choice->reason = (choice->other_cost > 0.0 && choice->other_cost <= choice->cost) ?
		COSTS_LESS_THERE : COSTS_LESS;
}

/*
 * Note that the planner makes a plan from a path of ours
 */
void
GjChoiceTaken(CustomPath *path)
{
	const char *node = path->methods->CustomName;
	GjChoice   *choice;
	Oid			index;

	if (!GjChoiceIsNoted())
		return;
	if (!GjPathIsOurs(&path->path))
		choice = find_aggregate(node, linitial(path->custom_paths));
	else
	{
		index = path_index(path);
		choice = choice_find(IndexGetRelation(index, false), index, node);
	}
	if (choice != NULL)
		choice->chosen = true;
}

/*
 * Find the note of a GpuAgg, which belongs to the first index that its input uses
 */
static GjChoice *
find_aggregate(const char *node, Path *input)
{
	CustomPath *leaf = find_leaf(input);
	GjChoice   *choice;
	Oid			index;
	Oid			table;

	if (leaf == NULL)
		return NULL;
	index = path_index(leaf);
	table = IndexGetRelation(index, false);
	choice = choice_find(table, index, node);
	return choice != NULL ? choice : choice_add(table, index, node);
}

/*
 * Return the first GpuScan or GpuJoin path in a tree of paths, or NULL
 */
static CustomPath *
find_leaf(Path *path)
{
	CustomPath *custom = (CustomPath *) path;
	List	   *children = NIL;
	CustomPath *leaf = NULL;
	ListCell   *lc;

	if (GjPathIsOurs(path))
		return custom;
	if (IsA(path, ProjectionPath))
		children = list_make1(((ProjectionPath *) path)->subpath);
	else if (IsA(path, SubqueryScanPath))
		children = list_make1(((SubqueryScanPath *) path)->subpath);
	else if (IsA(path, AppendPath))
		children = ((AppendPath *) path)->subpaths;
	else if (IsA(path, CustomPath) && custom->methods == &GjAggPathMethods)
		children = custom->custom_paths;
	foreach(lc, children)
	{
		if (leaf == NULL)
			leaf = find_leaf(lfirst(lc));
	}
	return leaf;
}

/*
 * Return the index of a path; for a join with several tables, that of the first
 */
static Oid
path_index(CustomPath *path)
{
	GjJoinCandidate *join;

	if (path->methods == &GjScanPathMethods)
		return ((IndexOptInfo *) list_nth(path->custom_private, GJ_SCAN_PATH_INDEX))->indexoid;

	join = linitial(path->custom_private);
	return ((GjJoinScan *) linitial(join->scans))->index->indexoid;
}

/*
 * Return the cost of the cheapest path that is not ours, or 0
 *
 * A bitmap scan of our index may have replaced other paths of a table, and have been removed
 * itself: make these paths again.
 */
static Cost
cheapest_other(PlannerInfo *root, RelOptInfo *rel)
{
	Path	   *cheapest = GjCheapestOther(rel);
	RelOptInfo	without = *rel;
	Path	   *again;
	ListCell   *lc;

	if (!IS_SIMPLE_REL(rel) || rel->rtekind != RTE_RELATION)
		return cheapest ? cheapest->total_cost : 0.0;

	without.indexlist = NIL;
	foreach(lc, rel->indexlist)
	{
		if (!GjIndexIsOurs(lfirst_node(IndexOptInfo, lc)))
			without.indexlist = lappend(without.indexlist, lfirst(lc));
	}
	without.ppilist = without.pathlist = without.partial_pathlist = NIL;
	add_path(&without, create_seqscan_path(root, rel, NULL, 0));
	create_index_paths(root, &without);
	again = GjCheapestOther(&without);
	return cheapest != NULL && GjIsCheaper(cheapest, again) ? cheapest->total_cost :
		again->total_cost;
}

/*-------------------------------------------------------------------------
 * Scans of PostgreSQL's own
 *
 * PostgreSQL itself scans our indexes for nested loops, and for bitmaps that it combines with those
 * of other indexes (plan/hooks.c).  Which of these paths wins is known when the plan is finished.
 *-------------------------------------------------------------------------
 */

/*
 * Note the scans of our indexes in a finished plan, if notes are taken
 */
void
GjChoicePlanned(PlannedStmt *statement, ParamListInfo params)
{
	Planned		planned;
	ListCell   *lc;

	if (!GjChoiceIsNoted())
		return;
	planned = (Planned) {statement, params};
	note_scans(&planned, statement->planTree, NIL);
	foreach(lc, statement->subplans)
		note_scans(&planned, lfirst(lc), NIL);
}

/*
 * Note the scans of our indexes in a plan; ancestors are the plans above it, the nearest first
 */
static void
note_scans(const Planned *planned, Plan *plan, List *ancestors)
{
	List	   *below;
	ListCell   *lc;

	if (plan == NULL)
		return;
	check_stack_depth();
	if (IsA(plan, IndexScan))
		note_scan(planned, plan, "Index Scan", ((IndexScan *) plan)->indexid,
				  ((IndexScan *) plan)->indexqualorig, ancestors);
	else if (IsA(plan, BitmapIndexScan))
		note_scan(planned, plan, "Bitmap Index Scan", ((BitmapIndexScan *) plan)->indexid,
				  ((BitmapIndexScan *) plan)->indexqualorig, ancestors);
	below = lcons(plan, list_copy(ancestors));
	foreach(lc, list_children(plan))
		note_scans(planned, lfirst(lc), below);
}

/*
 * List the plans below a plan, some of which may be NULL
 */
static List *
list_children(Plan *plan)
{
	List	   *children = list_make2(outerPlan(plan), innerPlan(plan));

	switch (nodeTag(plan))
	{
		case T_Append:
			return list_concat_copy(children, ((Append *) plan)->appendplans);
		case T_MergeAppend:
			return list_concat_copy(children, ((MergeAppend *) plan)->mergeplans);
		case T_BitmapAnd:
			return list_concat_copy(children, ((BitmapAnd *) plan)->bitmapplans);
		case T_BitmapOr:
			return list_concat_copy(children, ((BitmapOr *) plan)->bitmapplans);
		case T_SubqueryScan:
			return lappend(children, ((SubqueryScan *) plan)->subplan);
		case T_CustomScan:
			return list_concat_copy(children, ((CustomScan *) plan)->custom_plans);
		default:
			return children;
	}
}

/*
 * Note that a plan has a scan of an index, if it is ours
 *
 * Our hooks may have noted that no path of ours answers the condition.
 */
static void
note_scan(const Planned *planned, Plan *plan, const char *node, Oid index, List *quals,
		  List *ancestors)
{
	PlannedStmt *statement = planned->statement;
	const RangeTblEntry *table = rt_fetch(((Scan *) plan)->scanrelid, statement->rtable);
	Node	   *condition;
	const char *text;
	GjChoice   *choice;
	List	   *context;
	Bitmapset  *used = NULL;

	if (!index_is_ours(index))
		return;
	choice = choice_find(table->relid, index, node);
	if (choice == NULL)
		choice = choice_find(table->relid, index, NULL);
	if (choice == NULL)
		choice = choice_add(table->relid, index, node);
	choice->node = node;
	choice->chosen = true;
	choice->cost = plan->total_cost;
	choice->reason = NULL;

	for (int i = 1; i <= list_length(statement->rtable); i++)
		used = bms_add_member(used, i);
	context = deparse_context_for_plan_tree(statement,
											select_rtable_names_for_explain(statement->rtable,
																			used));
	context = set_deparse_context_plan(context, plan, ancestors);
	condition = hide_values((Node *) make_ands_explicit(quals), planned->params);
	text = shorten(deparse_expression(condition, context, false, false));
	choice->condition = choice_text(text);
}

static bool
index_is_ours(Oid index)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
	bool		result = false;

	if (HeapTupleIsValid(tuple))
	{
		result = ((Form_pg_class) GETSTRUCT(tuple))->relam == get_index_am_oid(GJ_NAME, false);
		ReleaseSysCache(tuple);
	}
	return result;
}

/*
 * Return true if a clause, or a part of it, is a comparison that a scan of PostgreSQL's can answer
 * by the index, alone or in a BitmapOr with others
 */
static bool
scans_answer(Node *clause, IndexOptInfo *index)
{
	GjComparison comparison;
	ListCell   *lc;

	if (IsA(clause, RestrictInfo))
		return scans_answer((Node *) ((RestrictInfo *) clause)->clause, index);
	if (is_orclause(clause) || is_andclause(clause))
	{
		bool		found = false;

		foreach(lc, ((BoolExpr *) clause)->args)
		{
			if (scans_answer(lfirst(lc), index))
				found = true;
			else if (is_orclause(clause) && !may_answer_arm(lfirst(lc), index))
				return false;
		}
		return found;
	}
	return GjReadComparison(clause, is_key_itself, index, &comparison) &&
		(!comparison.is_array || comparison.is_any) &&
		op_in_opfamily(comparison.opno, index->opfamily[0]);
}

static bool
is_key_itself(void *index, Node *expr)
{
	return match_index_to_operand(expr, 0, index);
}

/*
 * Return true if an index other than this one may answer an arm of an OR
 */
static bool
may_answer_arm(Node *arm, IndexOptInfo *index)
{
	Bitmapset  *attnos = NULL;
	ListCell   *lc;

	pull_varattnos(arm, index->rel->relid, &attnos);
	foreach(lc, index->rel->indexlist)
	{
		IndexOptInfo *other = lfirst_node(IndexOptInfo, lc);

		if (other != index && choice_is_key(other, attnos))
			return true;
	}
	return false;
}

/*
 * Turn clauses into text, truncated if it is long; returns NULL if they contain something that
 * only a finished plan can show
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
	clause = hide_values(clause, root->glob->boundParams);

	for (int i = 1; i <= list_length(root->parse->rtable); i++)
		used = bms_add_member(used, i);
	statement->rtable = root->parse->rtable;
	names = select_rtable_names_for_explain(statement->rtable, used);
	text = deparse_expression(clause, deparse_context_for_plan_tree(statement, names),
							  bms_membership(pull_varnos(root, clause)) == BMS_MULTIPLE, false);
	return choice_text(shorten(text));
}

static const char *
shorten(char *text)
{
	if (strlen(text) <= SHOWN_CHARACTERS)
		return text;
	return psprintf("%.*s...", pg_mbcliplen(text, strlen(text), SHOWN_CHARACTERS), text);
}

/*
 * Replace assumed values by their parameters, if the query is planned with assumed values
 */
static Node *
hide_values(Node *expr, ParamListInfo params)
{
	return assumed_params != NULL && params == assumed_params ? put_params(expr, params) : expr;
}

static Node *
put_params(Node *node, void *params)
{
	const ParamListInfo list = params;

	if (node == NULL)
		return NULL;
	for (int i = 0; IsA(node, Const) && i < list->numParams; i++)
	{
		const Const *value = (const Const *) node;
		Param	   *param;

		if (value->constisnull || list->params[i].ptype != value->consttype ||
			!datumIsEqual(value->constvalue, list->params[i].value, false, -1))
			continue;
		param = makeNode(Param);
		param->paramkind = PARAM_EXTERN;
		param->paramid = i + 1;
		param->paramtype = value->consttype;
		param->paramtypmod = value->consttypmod;
		param->paramcollid = value->constcollid;
		param->location = -1;
		return (Node *) param;
	}
	return expression_tree_mutator(node, put_params, params);
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

/*-------------------------------------------------------------------------
 * Notes
 *
 * The list of notes, which exists from GjChoiceStart() to GjChoiceStop().
 *-------------------------------------------------------------------------
 */

/*
 * Start taking notes of everything that is planned, in the current memory context; returns false
 * if notes are being taken already.  If a query is planned with assumed values for its parameters,
 * these are given.
 */
bool
GjChoiceStart(ParamListInfo assumed)
{
	if (notes_context != NULL)
		return false;
	notes_context = CurrentMemoryContext;
	notes = NIL;
	assumed_params = assumed;
	return true;
}

/*
 * Stop taking notes, and return them
 */
List *
GjChoiceStop(void)
{
	List	   *result = notes;

	notes_context = NULL;
	notes = NIL;
	assumed_params = NULL;
	return result;
}

/*
 * Continue with other notes; returns those taken so far
 */
List *
GjChoiceSwap(List *other)
{
	List	   *result = notes;

	notes = other;
	return result;
}

bool
GjChoiceIsNoted(void)
{
	return notes_context != NULL;
}

/*
 * Copy a string to the notes' memory context: the planner's memory is freed before the notes are
 * read
 */
static const char *
choice_text(const char *text)
{
	return MemoryContextStrdup(notes_context, text);
}

/*
 * Add a note, to be filled in
 */
static GjChoice *
choice_add(Oid relation, Oid index, const char *node)
{
	MemoryContext old = MemoryContextSwitchTo(notes_context);
	GjChoice   *choice = palloc0(sizeof(GjChoice));

	choice->relation = relation;
	choice->index = index;
	choice->node = node;
	notes = lappend(notes, choice);
	MemoryContextSwitchTo(old);
	return choice;
}

static GjChoice *
choice_find(Oid relation, Oid index, const char *node)
{
	ListCell   *lc;

	foreach(lc, notes)
	{
		GjChoice   *choice = lfirst(lc);

		if (choice->relation == relation && choice->index == index && choice->node == node)
			return choice;
	}
	return NULL;
}
