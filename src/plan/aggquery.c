/*-------------------------------------------------------------------------
 *
 * aggquery.c
 *	  Can GpuAgg compute everything that a query asks for?
 *
 * It groups by values that are equal if and only if their bits are: integers, dates, times, enums
 * and booleans, by the default equality of their types; by uuids, and by the texts and numerics of
 * an index, which are one or two words (pages/wide.c, base/numeric.c).  A column of a join's small
 * side may have another type that can be hashed: then its values are replaced by numbers
 * (agg/reader.c).  GpuAgg computes those built-in aggregates over columns that node/aggplan.h
 * lists; min() and max() of texts only under a collation that compares bytes.  All other queries
 * are left to PostgreSQL.
 *
 * Rows are grouped by the columns of GROUP BY alone.  Any other column that is used outside of
 * aggregates has the value that it has in one row of the group, and all of them in the same row, as
 * in PostgreSQL's own nodes.  PostgreSQL has verified that this makes sense: a column depends on a
 * primary key in GROUP BY; or it is part of a copy of a grouping expression that planning has
 * changed, such as NOT (a > 3), which becomes a <= 3, so that it no longer looks like one.  Such a
 * copy may be anything that is true of the whole row, so values of different rows would not do.
 *
 * Group columns and aggregates are identified by their expressions; equal expressions are computed
 * once.  So they must not contain volatile functions.  Conditions that decide which rows exist may
 * contain them, because the child's rows are read once.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/transam.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_database.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "base/nodes.h"
#include "planner.h"

/* State of making a plan */
typedef struct Building
{
	PlannerInfo *root;
	Path	   *child;
	const GjAggQuery *query;
	List	   *child_tlist;
	List	   *inputs;			/* Expr: the batch's columns that the child returns */
	List	   *columns;		/* int: the child's column number of each */
	List	   *types;			/* int: GjValueType of each column, with scales */
	List	   *computed;		/* Expr: the batch's columns after these, which are computed */
	List	   *conditions;		/* int: for each of these, the column that must be true, or -1 */
} Building;

static void query_read_groups(PlannerInfo *root, RelOptInfo *grouped, List *having,
							  GjAggQuery *query);
static void read_distinct(PlannerInfo *root, PathTarget *target, GjAggQuery *query);
static void read_clauses(List *clauses, List *tlist, GjAggQuery *query);
static void check_groupings(GjAggQuery *query);
static bool query_refuse(GjAggQuery *query, const char *reason);
static bool read_expr(Node *node, GjAggQuery *query);
static bool add_grouping(GjAggQuery *query, Expr *expr);
static bool add_other(GjAggQuery *query, Var *column);
static bool has_words(const Expr *expr);
static bool query_is_text(const Expr *expr);
static GjColumnPart first_part(const Building *building, const Expr *expr);
static bool is_encodable(Expr *expr);
static const char *aggregate_problem(const Aggref *aggref);
static const Var *numeric_argument(const Aggref *aggref);
static bool takes_pair(const Aggref *aggref);
static bool is_text_limit(const Aggref *aggref);
static bool query_compares_bytes(Oid collation);
static const char *say(const Aggref *aggref, const char *problem);
static const char *computation_problem(Expr *expr);
static void group_by_words(PlannerInfo *root, GjAggQuery *query, Path *child);
static bool encodes(PlannerInfo *root, const GjAggQuery *query, Path *child);
static bool shows_own_value(const GjAggQuery *query, const Var *column);
static bool takes_from(const GjAggQuery *query, const PathTarget *target);
static bool has_expr(const PathTarget *target, Expr *expr);
static bool value_type_of(Oid type, GjValueType *value_type);
static bool kind_of(const Aggref *aggref, GjAggKind *kind);
static Plan *plan_agg(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
					  List *clauses, List *custom_plans);
static void add_inputs(Building *building, Expr *expr);
static void query_add_key(Building *building, Expr *expr);
static void add_parts(Building *building, Expr *expr, AttrNumber attno, GjColumnPart first);
static int	find_part(const Building *building, Expr *expr, GjColumnPart part);
static int	find_argument(const Building *building, Expr *expr);
static int	query_find_column(Building *building, Expr *expr, int condition);
static void add_type(Building *building, Expr *expr);
static List *list_groupings(Building *building);
static List *list_aggregates(Building *building);
static GjAggKind kind_in_plan(const Building *building, const Aggref *aggref);
static List *describe_row(const Building *building);
static List *list_coded(const Building *building, List *row);

const CustomPathMethods GjAggPathMethods = {
	.CustomName = GJ_AGG_NAME,
	.PlanCustomPath = plan_agg,
};

const CustomPathMethods GjPartialAggPathMethods = {
	.CustomName = GJ_PARTIAL_AGG_NAME,
	.PlanCustomPath = plan_agg,
};

/*
 * Read the computations of a step of the query: groups, or SELECT DISTINCT.  Returns its target.
 */
PathTarget *
GjAggReadQuery(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input, RelOptInfo *output,
			   void *extra, GjAggQuery *query)
{
	memset(query, 0, sizeof(GjAggQuery));
	if (stage == UPPERREL_GROUP_AGG)
	{
		query_read_groups(root, output, (List *) ((GroupPathExtraData *) extra)->havingQual, query);
		return output->reltarget;
	}
	Assert(stage == UPPERREL_DISTINCT);
	read_distinct(root, input->reltarget, query);
	return input->reltarget;
}

/*
 * Read the computations of GROUP BY, aggregates and HAVING
 */
static void
query_read_groups(PlannerInfo *root, RelOptInfo *grouped, List *having, GjAggQuery *query)
{
	Query	   *parse = root->parse;

	query->having = having;
	if (parse->groupingSets != NIL)
		query->refused = "grouping sets";
	else if (parse->hasTargetSRFs)
		query->refused = "a set-returning function in the target list";
	else
	{
		read_clauses(GjGroupClause(root), root->processed_tlist, query);
		(void) (read_expr((Node *) grouped->reltarget->exprs, query) ||
				read_expr((Node *) having, query));
		check_groupings(query);
	}
}

/*
 * Read the computations of SELECT DISTINCT of a target
 */
static void
read_distinct(PlannerInfo *root, PathTarget *target, GjAggQuery *query)
{
	Query	   *parse = root->parse;

	query->is_distinct = true;
	if (parse->hasDistinctOn)
		query->refused = "DISTINCT ON";
	else if (parse->hasAggs || parse->groupClause != NIL || parse->groupingSets != NIL ||
			 parse->havingQual != NULL || parse->hasWindowFuncs || parse->hasTargetSRFs)
		query->refused = "DISTINCT above another computation";
	else
	{
		read_clauses(parse->distinctClause, root->processed_tlist, query);
		(void) read_expr((Node *) target->exprs, query);
		check_groupings(query);
	}
}

static void
read_clauses(List *clauses, List *tlist, GjAggQuery *query)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		Expr	   *expr = (Expr *) get_sortgroupclause_expr(clause, tlist);
		TypeCacheEntry *type = lookup_type_cache(exprType((Node *) expr), TYPECACHE_EQ_OPR);

		if (type->eq_opr != clause->eqop)
			query_refuse(query, "groups by another than the type's default equality");
		else if (!add_grouping(query, expr))
			return;
	}
}

static void
check_groupings(GjAggQuery *query)
{
	if (contain_subplans((Node *) query->groupings))
		query_refuse(query, "a subplan makes the values that rows are grouped by");
	if (contain_volatile_functions((Node *) query->groupings))
		query_refuse(query, "a volatile function makes the values that rows are grouped by");
}

/* Note the reason why we cannot compute this, keeping the first.  Returns true, to end a walk. */
static bool
query_refuse(GjAggQuery *query, const char *reason)
{
	if (query->refused == NULL)
		query->refused = reason;
	return true;
}

/*
 * Collect aggregates and columns; returns true if we cannot compute this
 */
static bool
read_expr(Node *node, GjAggQuery *query)
{
	if (query->refused != NULL)
		return true;
	if (node == NULL || list_member(query->groupings, node))
		return false;
	if (IsA(node, Aggref))
	{
		const char *problem = aggregate_problem((Aggref *) node);

		if (problem != NULL)
			return query_refuse(query, problem);
		query->aggregates = list_append_unique(query->aggregates, node);
		return false;
	}
	if (IsA(node, Var))
		return !add_other(query, (Var *) node);
	if (IsA(node, PlaceHolderVar) || IsA(node, GroupingFunc))
		return query_refuse(query, "a value that an outer join or grouping sets make");
	return expression_tree_walker(node, read_expr, query);
}

static bool
add_grouping(GjAggQuery *query, Expr *expr)
{
	GjValueType type;

	if (has_words(expr))
		query->groupings = list_append_unique(query->groupings, expr);
	else if (is_encodable(expr))
		query->coded = list_append_unique(query->coded, expr);
	else if (!value_type_of(exprType((Node *) expr), &type) ||
			 type == GJ_VALUE_FLOAT4 || type == GJ_VALUE_FLOAT8)
	{
		query_refuse(query, "a group column's type, whose equality is not that of bits");
		return false;
	}
	query->groupings = list_append_unique(query->groupings, expr);
	return true;
}

/*
 * Add a column that has the value of one row.  Its values are not compared, so it may be a float;
 * but a value must have a word, or be replaced by a number, because it outlives its row.
 */
static bool
add_other(GjAggQuery *query, Var *column)
{
	GjValueType type;

	if (query->is_distinct || query->groupings == NIL)
		return !query_refuse(query, "a column that is not one of the groups'");
	if (is_encodable((Expr *) column) && !has_words((Expr *) column))
		query->coded = list_append_unique(query->coded, column);
	else if (!value_type_of(column->vartype, &type) && !has_words((Expr *) column))
		return !query_refuse(query, "the type of a column that stands beside the groups");
	query->others = list_append_unique(query->others, column);
	return true;
}

/*
 * Return true for a uuid, which takes two columns of a batch: each of them has a word.  Two uuids
 * are equal if and only if both their words are.
 */
static bool
has_words(const Expr *expr)
{
	return exprType((const Node *) expr) == UUIDOID;
}

/*
 * Return true for a text or bpchar column that is equal to another one if and only if the bytes
 * are, those of bpchars without trailing blanks.  It takes two columns of a batch, too, and a
 * bpchar a third one for its length, if the child has words for it (words.c).
 */
static bool
query_is_text(const Expr *expr)
{
	const Var  *column = (const Var *) expr;

	return IsA(column, Var) && (column->vartype == TEXTOID || column->vartype == VARCHAROID ||
								column->vartype == BPCHAROID) &&
		get_collation_isdeterministic(column->varcollid);
}

/*
 * Return the first of the batch's columns that a group column takes, or GJ_WHOLE if it is a single
 * column
 */
static GjColumnPart
first_part(const Building *building, const Expr *expr)
{
	int			scales[2];

	if (has_words(expr))
		return GJ_UUID_FIRST;
	if (query_is_text(expr) && GjTextHasWords(building->root, building->child, (const Var *) expr))
		return ((const Var *) expr)->vartype == BPCHAROID ? GJ_BPCHAR_FIRST : GJ_TEXT_FIRST;
	if (IsA(expr, Var) && ((const Var *) expr)->vartype == NUMERICOID &&
		GjNumericScales(building->root, building->child, (const Var *) expr, scales))
		return GJ_NUMERIC_KEY;
	return GJ_WHOLE;
}

/*
 * Return true for a column whose values can be replaced by numbers, and must be: its type is not
 * one whose values aggregates or filters can use
 */
static bool
is_encodable(Expr *expr)
{
	GjValueType type;
	TypeCacheEntry *entry;

	if (!IsA(expr, Var) || value_type_of(((Var *) expr)->vartype, &type))
		return false;
	entry = lookup_type_cache(((Var *) expr)->vartype, TYPECACHE_EQ_OPR | TYPECACHE_HASH_PROC);
	return OidIsValid(entry->eq_opr) && OidIsValid(entry->hash_proc);
}

/*
 * Group by the columns with words that GROUP BY names and PostgreSQL leaves out, because they are
 * equal to others or depend on them: the value of one row need not have a word.
 */
static void
group_by_words(PlannerInfo *root, GjAggQuery *query, Path *child)
{
	const Building building = {.root = root,.child = child};
	ListCell   *lc;

	foreach(lc, root->parse->groupClause)
	{
		Node	   *expr = get_sortgroupclause_expr(lfirst_node(SortGroupClause, lc),
													root->processed_tlist);

		if (list_member(query->others, expr) &&
			first_part(&building, (Expr *) expr) != GJ_WHOLE)
		{
			query->others = list_delete(query->others, expr);
			query->groupings = lappend(query->groupings, expr);
		}
	}
}

/*
 * Return true if the columns whose values are replaced by numbers belong to the child's small side,
 * or are group columns, texts or numerics, that have words.  Of another column each row can have
 * another value, and not all of these have words.
 *
 * The small side must fit in memory, so that all of its values do.
 */
static bool
encodes(PlannerInfo *root, const GjAggQuery *query, Path *child)
{
	const Building building = {.root = root,.child = child};
	const GjJoinCandidate *cand = NULL;
	ListCell   *lc;

	while (IsA(child, ProjectionPath))
		child = ((ProjectionPath *) child)->subpath;
	if (IsA(child, CustomPath) && ((const CustomPath *) child)->methods == &GjJoinPathMethods)
		cand = linitial(((const CustomPath *) child)->custom_private);
	foreach(lc, query->coded)
	{
		bool		has_word = first_part(&building, lfirst(lc)) != GJ_WHOLE;

		if (has_word ? list_member(query->others, lfirst(lc)) :
			cand == NULL || cand->nbatches > 1.0 ||
			!bms_is_member(lfirst_node(Var, lc)->varno, cand->small->relids) ||
			!shows_own_value(query, lfirst_node(Var, lc)))
			return false;
	}
	return true;
}

/*
 * Return true if each group shows the value of one of its rows for a column whose values are
 * replaced by numbers.  A number of a group column stands for all values that are equal, such as
 * 1.5 and 1.50, and gives back the first: it may be of another group if there are more columns.
 */
static bool
shows_own_value(const GjAggQuery *query, const Var *column)
{
	TypeCacheEntry *type = lookup_type_cache(column->vartype, TYPECACHE_BTREE_OPFAMILY);
	Oid			proc = InvalidOid;

	if (list_member(query->others, column) ||
		(list_length(query->groupings) == 1 && query->others == NIL))
		return true;
	if (OidIsValid(type->btree_opf))
		proc = get_opfamily_proc(type->btree_opf, type->btree_opintype, type->btree_opintype,
								 BTEQUALIMAGE_PROC);
	/* trailing blanks of char are ignored, and differ if there is no length */
	return OidIsValid(proc) && (column->vartype != BPCHAROID || column->vartypmod >= 0) &&
		DatumGetBool(OidFunctionCall1Coll(proc, column->varcollid,
										  ObjectIdGetDatum(type->btree_opintype)));
}

/*
 * Return the reason why we cannot compute an aggregate, or NULL
 */
static const char *
aggregate_problem(const Aggref *aggref)
{
	GjAggKind	kind;
	GjValueType type = GJ_VALUE_NUMERIC;
	Expr	   *argument;
	const char *problem;

	if (aggref->agglevelsup > 0 || aggref->aggsplit != AGGSPLIT_SIMPLE)
		return "an aggregate of another query level";
	if (!kind_of(aggref, &kind))
		return say(aggref, " is not computed by gpujoin");
	if (aggref->aggorder != NIL)
		return say(aggref, " with ORDER BY is not computed by gpujoin");
	if (aggref->aggdistinct != NIL)
	{
		SortGroupClause *clause = linitial_node(SortGroupClause, aggref->aggdistinct);
		Oid			argtype = linitial_oid(aggref->aggargtypes);

		if (kind != GJ_AGG_COUNT_DISTINCT ||
			!(value_type_of(argtype, &type) || numeric_argument(aggref) != NULL ||
			  takes_pair(aggref)) ||
			type == GJ_VALUE_FLOAT4 || type == GJ_VALUE_FLOAT8 ||
			lookup_type_cache(argtype, TYPECACHE_EQ_OPR)->eq_opr != clause->eqop)
			return say(aggref, " with DISTINCT is not computed by gpujoin");
	}
	argument = numeric_argument(aggref) != NULL || takes_pair(aggref) ? NULL :
		GjAggregateArgument(aggref);
	if (argument != NULL && !value_type_of(exprType((Node *) argument), &type))
		return say(aggref, " is not computed by gpujoin");
	problem = computation_problem(aggref->aggfilter);
	if (problem == NULL)
		problem = computation_problem(argument);
	return problem == NULL ? NULL : say(aggref, problem);
}

/*
 * Return the column that is a numeric argument, or NULL
 */
static const Var *
numeric_argument(const Aggref *aggref)
{
	const Var  *argument = (const Var *) GjAggregateArgument(aggref);

	if (argument == NULL || !IsA(argument, Var) || argument->vartype != NUMERICOID)
		return NULL;
	return argument;
}

/*
 * Return true for the count of a uuid column, and for the count, minimum or maximum of a text
 * column.  Words compare like bytes, so minimum and maximum need a collation that compares texts
 * in this way.
 */
static bool
takes_pair(const Aggref *aggref)
{
	const Expr *argument = GjAggregateArgument(aggref);

	if (argument == NULL || !IsA(argument, Var))
		return false;
	if (is_text_limit(aggref))
		return query_is_text(argument) && query_compares_bytes(aggref->inputcollid);
	return aggref->aggfnoid == F_COUNT_ANY && (has_words(argument) || query_is_text(argument));
}

static bool
is_text_limit(const Aggref *aggref)
{
	return aggref->aggfnoid == F_MIN_TEXT || aggref->aggfnoid == F_MAX_TEXT;
}

/*
 * Return true if a collation is that of the C library with the locale C or POSIX, which compares
 * texts as bytes
 *
 * PostgreSQL's own function for this is declared in a header that includes ICU's, which need not be
 * there where an extension is compiled.
 */
static bool
query_compares_bytes(Oid collation)
{
	bool		of_database = collation == DEFAULT_COLLATION_OID;
	int			cache = of_database ? DATABASEOID : COLLOID;
	HeapTuple	tuple = SearchSysCache1(cache,
										ObjectIdGetDatum(of_database ? MyDatabaseId : collation));
	char		provider;
	Datum		locale;
	bool		isnull;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		return false;
	provider = of_database ? ((Form_pg_database) GETSTRUCT(tuple))->datlocprovider :
		((Form_pg_collation) GETSTRUCT(tuple))->collprovider;
	locale = SysCacheGetAttr(cache, tuple, of_database ? Anum_pg_database_datcollate :
							 Anum_pg_collation_collcollate, &isnull);
	name = isnull ? pstrdup("") : TextDatumGetCString(locale);
	ReleaseSysCache(tuple);
	return provider == COLLPROVIDER_LIBC &&
		(strcmp(name, "C") == 0 || strcmp(name, "POSIX") == 0);
}

/*
 * Make a reason from an aggregate's name, the types of its arguments, and a problem
 */
static const char *
say(const Aggref *aggref, const char *problem)
{
	StringInfoData types;
	ListCell   *lc;

	if (!GjChoiceIsNoted())
		return problem;
	initStringInfo(&types);
	foreach(lc, aggref->aggargtypes)
		appendStringInfo(&types, "%s%s", types.len > 0 ? ", " : "",
						 format_type_be(lfirst_oid(lc)));
	return GjChoiceFormat("the aggregate %s(%s)%s", get_func_name(aggref->aggfnoid),
						  aggref->aggstar ? "*" : types.data, problem);
}

/*
 * Return the reason why an expression, if any, cannot be computed for each row of a batch, or NULL
 */
static const char *
computation_problem(Expr *expr)
{
	GjValueType type;
	ListCell   *lc;

	if (expr == NULL)
		return NULL;
	if (contain_volatile_functions((Node *) expr))
		return " has a volatile function";
	if (contain_subplans((Node *) expr))
		return " has a subplan";
	foreach(lc, pull_var_clause((Node *) expr, PVC_INCLUDE_PLACEHOLDERS))
	{
		const Var  *column = lfirst(lc);

		if (!IsA(column, Var))
			return " reads a value that an outer join makes";
		if (!value_type_of(column->vartype, &type))
			return GjChoiceFormat(" reads a column of type %s, which gpujoin does not compute with",
								  GjChoiceIsNoted() ? format_type_be(column->vartype) : "");
	}
	return NULL;
}

/*
 * Return the argument of an aggregate; NULL if it has none, or if it counts one that is never NULL
 */
Expr *
GjAggregateArgument(const Aggref *aggref)
{
	Expr	   *argument;

	if (aggref->args == NIL)
		return NULL;
	argument = linitial_node(TargetEntry, aggref->args)->expr;
	/* a varchar as text, or a text with another collation */
	if (is_text_limit(aggref) && IsA(argument, RelabelType))
		argument = ((RelabelType *) argument)->arg;
	if (aggref->aggfnoid == F_COUNT_ANY && aggref->aggdistinct == NIL && IsA(argument, Const) &&
		!((Const *) argument)->constisnull)
		return NULL;
	return argument;
}

/*
 * Return the reason why a child's rows cannot be grouped for this query, or NULL
 */
const char *
GjAggRefuseInput(PlannerInfo *root, GjAggQuery *query, Path *child)
{
	int			scales[2];
	ListCell   *lc;

	if (!takes_from(query, child->pathtarget))
		return "what is grouped or aggregated is computed above an Append";
	foreach(lc, query->aggregates)
	{
		const Var  *number = numeric_argument(lfirst_node(Aggref, lc));
		const Expr *argument = GjAggregateArgument(lfirst_node(Aggref, lc));

		if ((number != NULL && !GjNumericScales(root, child, number, scales)) ||
			(argument != NULL && query_is_text(argument) &&
			 !GjTextHasWords(root, child, (const Var *) argument)))
			return say(lfirst_node(Aggref, lc), " has an argument that is not read from the index");
	}
	group_by_words(root, query, child);
	if (!encodes(root, query, child))
		return "a group column's type, whose equality is not that of bits";
	return NULL;
}

/*
 * Return true if the target has all expressions that are grouped by, shown and aggregated
 */
static bool
takes_from(const GjAggQuery *query, const PathTarget *target)
{
	ListCell   *lc;

	if (list_difference(query->groupings, target->exprs) != NIL ||
		list_difference(query->others, target->exprs) != NIL)
		return false;
	foreach(lc, query->aggregates)
	{
		Aggref	   *aggref = lfirst_node(Aggref, lc);

		if (!has_expr(target, GjAggregateArgument(aggref)) || !has_expr(target, aggref->aggfilter))
			return false;
	}
	return true;
}

/*
 * Return true if the target has an expression, or all columns in it
 */
static bool
has_expr(const PathTarget *target, Expr *expr)
{
	return list_member(target->exprs, expr) ||
		list_difference(pull_var_clause((Node *) expr, 0), target->exprs) == NIL;
}

/*
 * Find the interpretation of the bits of a type's values; returns false for types that GpuAgg does
 * not support
 */
static bool
value_type_of(Oid type, GjValueType *value_type)
{
	static const struct
	{
		Oid			type;
		GjValueType value_type;
	}			types[] = {
		{BOOLOID, GJ_VALUE_BOOL},
		{INT2OID, GJ_VALUE_INT2},
		{INT4OID, GJ_VALUE_INT4},
		{INT8OID, GJ_VALUE_INT8},
		{OIDOID, GJ_VALUE_OID},
		{FLOAT4OID, GJ_VALUE_FLOAT4},
		{FLOAT8OID, GJ_VALUE_FLOAT8},
		{DATEOID, GJ_VALUE_INT4},
		{TIMESTAMPOID, GJ_VALUE_INT8},
		{TIMESTAMPTZOID, GJ_VALUE_INT8},
	};

	for (int i = 0; i < lengthof(types); i++)
	{
		if (types[i].type != type)
			continue;
		*value_type = types[i].value_type;
		return true;
	}
	if (type < FirstNormalObjectId || !type_is_enum(type))
		return false;
	*value_type = GJ_VALUE_OID; /* equal values are equal OIDs, but their order is another */
	return true;
}

/*
 * Find the kind of an aggregate; returns false for those that GpuAgg does not compute
 */
static bool
kind_of(const Aggref *aggref, GjAggKind *kind)
{
	switch (aggref->aggfnoid)
	{
		case F_COUNT_:
			*kind = GJ_AGG_COUNT_ROWS;
			return true;
		case F_COUNT_ANY:
			*kind = aggref->aggdistinct != NIL ? GJ_AGG_COUNT_DISTINCT :
				GjAggregateArgument(aggref) == NULL ? GJ_AGG_COUNT_ROWS : GJ_AGG_COUNT;
			return true;
		case F_SUM_INT2:
		case F_SUM_INT4:
		case F_SUM_INT8:
		case F_SUM_FLOAT4:
		case F_SUM_FLOAT8:
		case F_SUM_NUMERIC:
			*kind = GJ_AGG_SUM;
			return true;
		case F_AVG_INT2:
		case F_AVG_INT4:
		case F_AVG_INT8:
		case F_AVG_FLOAT4:
		case F_AVG_FLOAT8:
		case F_AVG_NUMERIC:
			*kind = GJ_AGG_AVG;
			return true;
		case F_MIN_INT2:
		case F_MIN_INT4:
		case F_MIN_INT8:
		case F_MIN_OID:
		case F_MIN_FLOAT4:
		case F_MIN_FLOAT8:
		case F_MIN_NUMERIC:
		case F_MIN_TEXT:
		case F_MIN_DATE:
		case F_MIN_TIMESTAMP:
		case F_MIN_TIMESTAMPTZ:
			*kind = GJ_AGG_MIN;
			return true;
		case F_MAX_INT2:
		case F_MAX_INT4:
		case F_MAX_INT8:
		case F_MAX_OID:
		case F_MAX_FLOAT4:
		case F_MAX_FLOAT8:
		case F_MAX_NUMERIC:
		case F_MAX_TEXT:
		case F_MAX_DATE:
		case F_MAX_TIMESTAMP:
		case F_MAX_TIMESTAMPTZ:
			*kind = GJ_AGG_MAX;
			return true;
		case F_BOOL_AND:
		case F_EVERY:
			*kind = GJ_AGG_BOOL_AND;
			return true;
		case F_BOOL_OR:
			*kind = GJ_AGG_BOOL_OR;
			return true;
		default:
			return false;
	}
}

/*-------------------------------------------------------------------------
 * Plans
 *
 * Make the plan of a GpuAgg path.
 *
 * A batch has the needed columns of the child, and then the columns that are computed from these
 * for each row: FILTER conditions, and arguments of aggregates that are expressions.  Such an
 * expression is in custom_exprs, where core adjusts it and finds its parameters.  There its Vars
 * become columns of the node's own row, which custom_scan_tlist describes; so that row has all of
 * them, in addition to the group columns and the aggregates.
 *-------------------------------------------------------------------------
 */

/*
 * PlanCustomPath: make the plan
 */
static Plan *
plan_agg(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
		 List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	GjAggQuery *query = linitial(path->custom_private);
	Building	building = {
		.root = root,
		.child = linitial(path->custom_paths),
		.query = query,
		.child_tlist = ((Plan *) linitial(custom_plans))->targetlist,
	};
	List	   *groupings;
	List	   *aggregates;
	List	   *inputs = NIL;	/* the batch's column for each of the node's own row, or -1 */
	ListCell   *lc;

	GjChoiceTaken(path);
	GjAggShowCost(query, linitial(path->custom_paths), linitial(custom_plans));
	foreach(lc, query->groupings)
		query_add_key(&building, lfirst(lc));
	foreach(lc, query->aggregates)
	{
		add_inputs(&building, GjAggregateArgument(lfirst_node(Aggref, lc)));
		add_inputs(&building, lfirst_node(Aggref, lc)->aggfilter);
	}
	foreach(lc, query->others)
		add_inputs(&building, lfirst(lc));
	groupings = list_groupings(&building);
	aggregates = list_aggregates(&building);

	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = query->having;
	scan->custom_scan_tlist = describe_row(&building);
	scan->custom_exprs = copyObject(building.computed);
	scan->custom_plans = custom_plans;
	scan->custom_private = list_make4(building.columns, building.types, groupings, aggregates);
	scan->custom_private = lappend(scan->custom_private, building.conditions);
	foreach(lc, scan->custom_scan_tlist)
		inputs = lappend_int(inputs, find_argument(&building,
												   lfirst_node(TargetEntry, lc)->expr));
	scan->custom_private = lappend(scan->custom_private, inputs);
	scan->custom_private = lappend(scan->custom_private,
								   makeInteger(list_length(query->groupings) +
											   list_length(query->aggregates) +
											   list_length(query->others)));
	scan->custom_private = lappend(scan->custom_private,
								   makeInteger((int) Min(query->ngroups, INT_MAX)));
	scan->custom_private = lappend(scan->custom_private,
								   list_coded(&building, scan->custom_scan_tlist));
	Assert(list_length(scan->custom_private) == GJ_AGG_PRIVATE_COUNT);
	scan->flags = path->flags;
	scan->methods = GjNodeMethods(path->methods->CustomName);
	return &scan->scan.plan;
}

/*
 * Add an expression to a batch if the child returns it, or else the columns in it
 */
static void
add_inputs(Building *building, Expr *expr)
{
	TargetEntry *entry;
	ListCell   *lc;

	if (expr == NULL || find_argument(building, expr) >= 0)
		return;
	entry = tlist_member(expr, building->child_tlist);
	if (entry != NULL)
	{
		GjColumnPart part = first_part(building, expr);

		if (part != GJ_WHOLE && part != GJ_NUMERIC_KEY)
		{
			add_parts(building, expr, entry->resno, part);
			return;
		}
		building->inputs = lappend(building->inputs, expr);
		building->columns = lappend_int(building->columns, entry->resno);
		if (list_member(building->query->coded, expr) && part == GJ_WHOLE)
			building->types = lappend_int(building->types, GJ_VALUE_INT8);
		else
			add_type(building, expr);
		return;
	}
	if (IsA(expr, Var))
		elog(ERROR, "a GpuAgg's input lacks a column");
	foreach(lc, pull_var_clause((Node *) expr, 0))
		add_inputs(building, lfirst(lc));
}

/*
 * Add a grouping expression.  A numeric takes another column of the batch here than as an
 * argument.
 */
static void
query_add_key(Building *building, Expr *expr)
{
	TargetEntry *entry = tlist_member(expr, building->child_tlist);

	if (entry != NULL && first_part(building, expr) == GJ_NUMERIC_KEY)
		add_parts(building, expr, entry->resno, GJ_NUMERIC_KEY);
	else
		add_inputs(building, expr);
}

/*
 * Add the parts of a column of the child's result
 */
static void
add_parts(Building *building, Expr *expr, AttrNumber attno, GjColumnPart first)
{
	int			nparts = first == GJ_BPCHAR_FIRST ? 3 : 2;
	int			scales[2] = {0, 0};

	if (first == GJ_NUMERIC_KEY)
		(void) GjNumericScales(building->root, building->child, (Var *) expr, scales);
	for (GjColumnPart part = first; part < first + nparts; part++)
	{
		GjValueType type = part == GJ_NUMERIC_FORM || part == GJ_BPCHAR_FORM ? GJ_VALUE_INT4 :
			GJ_VALUE_INT8;

		building->inputs = lappend(building->inputs, expr);
		building->columns = lappend_int(building->columns, attno);
		building->types = lappend_int(building->types,
									  GJ_TYPE_OF_PART(GJ_TYPE_WITH_SCALES(type, scales[0],
																		  scales[1]), part));
	}
}

/*
 * Return the number of a part of an expression among the batch's columns that the child returns,
 * from 0, or -1
 */
static int
find_part(const Building *building, Expr *expr, GjColumnPart part)
{
	ListCell   *lc;
	ListCell   *lc2;

	forboth(lc, building->inputs, lc2, building->types)
	{
		if (GJ_PART_OF(lfirst_int(lc2)) == part && equal(lfirst(lc), expr))
			return foreach_current_index(lc);
	}
	return -1;
}

/*
 * Do the same for a whole value, or for the first of two words
 */
static int
find_argument(const Building *building, Expr *expr)
{
	GjColumnPart part = first_part(building, expr);

	return find_part(building, expr, part == GJ_NUMERIC_KEY ? GJ_WHOLE : part);
}

static void
add_type(Building *building, Expr *expr)
{
	GjValueType type = GJ_VALUE_NUMERIC;
	int			scales[2] = {0, 0};

	if (!value_type_of(exprType((Node *) expr), &type) &&
		!(IsA(expr, Var) &&
		  GjNumericScales(building->root, building->child, (Var *) expr, scales)))
		elog(ERROR, "a GpuAgg does not know a column's type");
	building->types = lappend_int(building->types,
								  GJ_TYPE_WITH_SCALES(type, scales[0], scales[1]));
}

/*
 * Return the number of the column that has an expression, which may have to be computed
 *
 * An aggregate's argument is computed only for rows on which the condition is true, and may fail
 * on others.
 */
static int
query_find_column(Building *building, Expr *expr, int condition)
{
	int			n = expr == NULL ? -1 : find_argument(building, expr);
	ListCell   *lc;
	ListCell   *lc2;

	if (expr == NULL || n >= 0)
		return n;
	n = list_length(building->columns);
	forboth(lc, building->computed, lc2, building->conditions)
	{
		if (equal(lfirst(lc), expr) && lfirst_int(lc2) == condition)
			return n;
		n++;
	}
	building->computed = lappend(building->computed, expr);
	building->conditions = lappend_int(building->conditions, condition);
	add_type(building, expr);
	return n;
}

static List *
list_groupings(Building *building)
{
	List	   *groupings = NIL;
	ListCell   *lc;

	foreach(lc, building->query->groupings)
	{
		GjColumnPart part = first_part(building, lfirst(lc));
		int			column = find_part(building, lfirst(lc), part);

		groupings = lappend_int(groupings, column);
		if (part != GJ_WHOLE && part != GJ_NUMERIC_KEY)
			groupings = lappend_int(groupings, column + 1);
	}
	return groupings;
}

/*
 * List the forms of groups, the aggregates, and the columns of one row
 */
static List *
list_aggregates(Building *building)
{
	List	   *aggregates = NIL;
	ListCell   *lc;

	foreach(lc, building->query->groupings)
	{
		GjColumnPart part = first_part(building, lfirst(lc));
		int			form = find_part(building, lfirst(lc), part == GJ_NUMERIC_KEY ?
									 GJ_NUMERIC_FORM : GJ_BPCHAR_FORM);

		if (part == GJ_NUMERIC_KEY || part == GJ_BPCHAR_FIRST)
			aggregates = list_concat(aggregates, list_make3_int(GJ_AGG_FORM, form, -1));
	}
	foreach(lc, building->query->aggregates)
	{
		Aggref	   *aggref = lfirst_node(Aggref, lc);
		int			filter = query_find_column(building, aggref->aggfilter, -1);
		int			argument = query_find_column(building, GjAggregateArgument(aggref), filter);

		aggregates = lappend_int(aggregates, kind_in_plan(building, aggref));
		aggregates = lappend_int(aggregates, argument);
		aggregates = lappend_int(aggregates, filter);
	}
	foreach(lc, building->query->others)
	{
		int			column = find_argument(building, lfirst(lc));

		aggregates = list_concat(aggregates, list_make3_int(GJ_AGG_ONE_ROW, column, -1));
		if (has_words(lfirst(lc)))
			aggregates = list_concat(aggregates, list_make3_int(GJ_AGG_ONE_ROW, column + 1, -1));
	}
	return aggregates;
}

static GjAggKind
kind_in_plan(const Building *building, const Aggref *aggref)
{
	GjAggKind	kind = GJ_AGG_COUNT_ROWS;

	kind_of(aggref, &kind);
	/* PostgreSQL uses avg()'s state for both (groups/aggstate.c) */
	if (building->query->is_partial &&
		(aggref->aggfnoid == F_SUM_INT8 || aggref->aggfnoid == F_SUM_NUMERIC))
		return GJ_AGG_AVG;
	if (kind == GJ_AGG_COUNT_DISTINCT && takes_pair(aggref))
		return GJ_AGG_COUNT_PAIRS;
	if (is_text_limit(aggref))
		return kind == GJ_AGG_MIN ? GJ_AGG_MIN_PAIR : GJ_AGG_MAX_PAIR;
	return kind;
}

/*
 * Describe the node's own row: group columns, aggregates, columns of one row, and then those from
 * which columns of a batch are computed
 */
static List *
describe_row(const Building *building)
{
	List	   *exprs = list_concat_copy(building->query->groupings, building->query->aggregates);
	List	   *tlist = NIL;
	ListCell   *lc;

	exprs = list_concat(exprs, building->query->others);
	exprs = list_concat_unique(exprs, pull_var_clause((Node *) building->computed, 0));
	foreach(lc, exprs)
		tlist = lappend(tlist, makeTargetEntry(copyObject((Expr *) lfirst(lc)),
											   list_length(tlist) + 1, NULL, false));
	return tlist;
}

/*
 * List the columns of the node's own row whose values are replaced by numbers
 */
static List *
list_coded(const Building *building, List *row)
{
	List	   *coded = NIL;
	ListCell   *lc;

	foreach(lc, row)
	{
		Expr	   *expr = lfirst_node(TargetEntry, lc)->expr;

		if (list_member(building->query->coded, expr) && first_part(building, expr) == GJ_WHOLE)
			coded = lappend_int(coded, foreach_current_index(lc));
	}
	return coded;
}
