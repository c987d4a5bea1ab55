/*-------------------------------------------------------------------------
 *
 * explainchoice.c
 *	  gpujoin_explain_choice(): report which gpujoin indexes a query could use, which it uses,
 *	  and the reasons against the others.
 *
 * EXPLAIN plans the query, so privileges, EXECUTE of prepared statements and hooks of other
 * extensions are handled as usual.  Meanwhile the planner's hooks record their choices
 * (plan/choice.c).
 *
 * We append the text to EXPLAIN and its options in parentheses, so that it cannot add further
 * options, and it must be one statement: nothing is executed.
 *
 * EXPLAIN of version 15 takes no parameters.  A query with parameters is planned by the advisor's
 * library, as for advice, with the same assumptions.  That needs no extension but this one: the
 * library is installed with ours, and loaded for the first such query.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/prepare.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "nodes/nodeFuncs.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/plancache.h"
#include "utils/tuplestore.h"

#include "advise.h"
#include "base/compat.h"

PG_FUNCTION_INFO_V1(gpujoin_explain_choice);

#define CHOICE_COLUMNS			8

static bool has_parameters(const char *text);
static bool find_parameter(Node *node, void *ignored);
static void ask_advisor(const char *query);
static void plan_query(const char *query);
static bool is_explained(const Node *statement);
static void forget_plan(const ExecuteStmt *execute);
static void report_choices(const List *choices, ReturnSetInfo *rsinfo);
static Datum text_or_null(const char *value, bool *isnull);

/*
 * gpujoin_explain_choice(query): return a row for each index and each place of the query where it
 * was considered
 */
Datum
gpujoin_explain_choice(PG_FUNCTION_ARGS)
{
	const char *query = text_to_cstring(PG_GETARG_TEXT_PP(0));
	List	   *choices;

	InitMaterializedSRF(fcinfo, 0);
	if (!GjChoiceStart(NULL))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("gpujoin_explain_choice cannot be called while it plans a query")));
	PG_TRY();
	{
		if (has_parameters(query))
			ask_advisor(query);
		else
			plan_query(query);
	}
	PG_FINALLY();
	{
		choices = GjChoiceStop();
	}
	PG_END_TRY();
	report_choices(choices, (ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}

/*
 * Return true if one of a text's statements has a parameter and can be planned
 */
static bool
has_parameters(const char *text)
{
	ListCell   *lc;

	if (strchr(text, '$') == NULL)
		return false;
	foreach(lc, pg_parse_query(text))
	{
		Node	   *statement = lfirst_node(RawStmt, lc)->stmt;

		if (GjIsPlanned(statement) && find_parameter(statement, NULL))
			return true;
	}
	return false;
}

static bool
find_parameter(Node *node, void *ignored)
{
	return node != NULL && (IsA(node, ParamRef) ||
							raw_expression_tree_walker(node, find_parameter, ignored));
}

/*
 * Have the advisor plan the query with values for its parameters
 */
static void
ask_advisor(const char *query)
{
	GjNoteChoicesFunction note = (GjNoteChoicesFunction)
		load_external_function(GJ_ADVISOR_LIBRARY, GJ_NOTE_CHOICES, true, NULL);

	note(query);
}

/*
 * Have EXPLAIN plan the query
 */
static void
plan_query(const char *query)
{
	List	   *raw = pg_parse_query(query);
	Node	   *statement;
	SPIPlanPtr	plan;

	if (list_length(raw) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("%s takes one statement", "gpujoin_explain_choice")));
	statement = linitial_node(RawStmt, raw)->stmt;
	if (!is_explained(statement))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("gpujoin_explain_choice takes a statement that EXPLAIN takes"),
				 errhint("Such as SELECT, INSERT, UPDATE, DELETE, MERGE or EXECUTE.")));
	if (IsA(statement, ExecuteStmt))
		forget_plan((ExecuteStmt *) statement);

	SPI_connect();
	plan = SPI_prepare(psprintf("EXPLAIN (ANALYZE false, COSTS true) %s", query), 0, NULL);
	if (plan == NULL || list_length(SPI_plan_get_plan_sources(plan)) != 1)
		elog(ERROR, "could not prepare EXPLAIN");
	SPI_execute_plan(plan, NULL, NULL, false, 0);
	SPI_finish();
}

static bool
is_explained(const Node *statement)
{
	return GjIsPlanned(statement) || IsA(statement, DeclareCursorStmt) ||
		IsA(statement, CreateTableAsStmt) || IsA(statement, ExecuteStmt);
}

/*
 * Discard the generic plan of a prepared statement, so that it is planned again
 */
static void
forget_plan(const ExecuteStmt *execute)
{
	PreparedStatement *prepared = FetchPreparedStatement(execute->name, false);

	if (prepared != NULL && prepared->plansource->gplan != NULL)
		prepared->plansource->gplan->is_valid = false;
}

static void
report_choices(const List *choices, ReturnSetInfo *rsinfo)
{
	ListCell   *lc;

	foreach(lc, choices)
	{
		const GjChoice *choice = lfirst(lc);
		Datum		values[CHOICE_COLUMNS];
		bool		nulls[CHOICE_COLUMNS] = {0};

		values[0] = ObjectIdGetDatum(choice->relation);
		values[1] = ObjectIdGetDatum(choice->index);
		nulls[1] = !OidIsValid(choice->index);
		values[2] = text_or_null(choice->node, &nulls[2]);
		values[3] = text_or_null(choice->condition, &nulls[3]);
		values[4] = BoolGetDatum(choice->chosen);
		values[5] = text_or_null(choice->chosen ? NULL : choice->reason, &nulls[5]);
		values[6] = Float8GetDatum(choice->cost);
		nulls[6] = choice->node == NULL || choice->cost == 0.0;
		values[7] = Float8GetDatum(choice->other_cost);
		nulls[7] = choice->node == NULL || choice->other_cost == 0.0;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

static Datum
text_or_null(const char *value, bool *isnull)
{
	*isnull = value == NULL;
	return value == NULL ? (Datum) 0 : CStringGetTextDatum(value);
}
