/*-------------------------------------------------------------------------
 *
 * explainchoice.c
 *	  gpujoin_explain_choice(): report which gpujoin indexes a query could use, which
 *	  it uses, and the reasons against the others.
 *
 * EXPLAIN plans the query, so privileges, EXECUTE of prepared statements and hooks of other
 * extensions are handled as usual.  Meanwhile the planner's hooks record their choices
 * (plan/choice.c).
 *
 * We append the text to EXPLAIN and its options in parentheses, so that it cannot add further
 * options, and it must be one statement: nothing is executed.
 *
 * EXPLAIN of version 15 takes no parameters.  A query with parameters is planned as for advice
 * (adviseplan.c), with the same assumptions.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/plancache.h"

#include "advise.h"

#define CHOICE_COLUMNS			8

static void plan_query(const char *query);
static void report(const List *choices, ReturnSetInfo *rsinfo);
static Datum text_or_null(const char *value, bool *isnull);

PG_FUNCTION_INFO_V1(gpujoin_explain_choice);

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
	if (!GjChoiceStart())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("gpujoin_explain_choice cannot be called while it plans a query")));
	PG_TRY();
	{
		if (GjHasParameters(query))
			GjExplainStatement(query);
		else
			plan_query(query);
	}
	PG_FINALLY();
	{
		choices = GjChoiceStop();
	}
	PG_END_TRY();
	report(choices, (ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}

/*
 * Have EXPLAIN plan the query.  If a prepared statement already has a plan, it is planned again.
 */
static void
plan_query(const char *query)
{
	SPIPlanPtr	plan;

	ResetPlanCache();
	SPI_connect();
	plan = SPI_prepare(psprintf("EXPLAIN (ANALYZE false, COSTS true) %s", query), 0, NULL);
	if (plan == NULL || list_length(SPI_plan_get_plan_sources(plan)) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("gpujoin_explain_choice takes one statement")));
	SPI_execute_plan(plan, NULL, NULL, false, 0);
	SPI_finish();
}

static void
report(const List *choices, ReturnSetInfo *rsinfo)
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

