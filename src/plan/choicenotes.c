/*-------------------------------------------------------------------------
 *
 * choicenotes.c
 *	  gpujoin_explain_choice(): which of our indexes a query could use, which it does,
 *	  and why not.
 *
 * EXPLAIN shows the plan that won.  What else was considered is gone by then, so it has
 * to be noted while the planner is at work.  The query is planned by EXPLAIN, which
 * brings all that goes with it: privileges, EXECUTE of prepared statements, hooks of
 * other extensions.  Meanwhile our hooks write notes (choice.c); who is chosen is
 * known from the request to make a plan of the path.
 *
 * The text is put behind EXPLAIN and its options in parentheses, so that no further
 * option can be slipped in, and it must be one statement: nothing is executed.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/plancache.h"

#include "choice.h"

#define CHOICE_COLUMNS			8

/* The notes; NULL while nobody wants any */
static MemoryContext notes_context = NULL;
static List *notes = NIL;

static void plan_query(const char *query);
static void report(ReturnSetInfo *rsinfo);
static Datum text_or_null(const char *value, bool *isnull);

PG_FUNCTION_INFO_V1(gpujoin_explain_choice);

/*
 * gpujoin_explain_choice(query): returns a row for each index and place of the query in which
 * it was considered
 */
Datum
gpujoin_explain_choice(PG_FUNCTION_ARGS)
{
	const char *query = text_to_cstring(PG_GETARG_TEXT_PP(0));

	InitMaterializedSRF(fcinfo, 0);
	if (notes_context != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("gpujoin_explain_choice cannot be called while it plans a query")));

	notes_context = AllocSetContextCreate(CurrentMemoryContext, "gpujoin choices",
										  ALLOCSET_DEFAULT_SIZES);
	notes = NIL;
	PG_TRY();
	{
		plan_query(query);
		report((ReturnSetInfo *) fcinfo->resultinfo);
	}
	PG_FINALLY();
	{
		/* the memory goes with its parent, if an error does not bring us back */
		notes_context = NULL;
		notes = NIL;
	}
	PG_END_TRY();
	return (Datum) 0;
}

/*
 * Have EXPLAIN plan the query.  A prepared statement may have a plan already: it is made anew.
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
report(ReturnSetInfo *rsinfo)
{
	ListCell   *lc;

	foreach(lc, notes)
	{
		GjChoice   *choice = lfirst(lc);
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

bool
GjChoiceIsNoted(void)
{
	return notes_context != NULL;
}

/*
 * Copy a string to where the notes are: the planner's memory is gone before they are read
 */
const char *
GjChoiceText(const char *text)
{
	return MemoryContextStrdup(notes_context, text);
}

/*
 * Make a note, to be filled in
 */
GjChoice *
GjChoiceAdd(Oid relation, Oid index, const char *node)
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

GjChoice *
GjChoiceFind(Oid relation, Oid index, const char *node)
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
