/*-------------------------------------------------------------------------
 *
 * adviseplan.c
 *	  Planning a statement by its text, without a trace.
 *
 * Each time is a subtransaction of its own, which is always rolled back: that gives the locks
 * back, the settings and the role, whether there was an error or not.  Such a one needs no
 * transaction number.  The locks are those of EXPLAIN.  The strongest is the RowExclusiveLock on
 * the table that a statement changes, which a standby allows as well.
 *
 * The planner runs functions that are IMMUTABLE, by their authors' word, and for estimates those
 * that are STABLE.  Rolling back would not undo all that a function does, and a statement that was
 * run may mean others today: its names were looked up by another search_path, that of a SECURITY
 * DEFINER function, say, and by ours they may be those of somebody who has waited for that.  So
 * while such a statement is planned, only the functions of superusers are run, who could do as they
 * like anyway: PostgreSQL's own and those of most extensions.  To need another one is an error.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "advise.h"
#include "base/gpujoin.h"

/* What is done with a statement when its query is there */
typedef struct Job
{
	const GjStatement *statement;
	const GjNewIndex *index;	/* NULL: look for the best */
	bool		explains;		/* note what the planner thinks of existing indexes instead */
	bool		guesses;		/* parameters of unknown type are integers */
	MemoryContext context;		/* of results */
	List	   *advice;
	Cost		cost;
	int64		size;
} Job;

/* Is a statement being planned that was run?  And who else has the hooks? */
static bool plans_statement = false;
static bool guarded = false;
static needs_fmgr_hook_type previous_needs_hook = NULL;
static fmgr_hook_type previous_fmgr_hook = NULL;

static bool must_report(const GjStatement *statement, const ErrorData *error);
static ErrorData *plan_and_undo(Job *job);
static bool may_be_guessed(const ErrorData *error);
static ErrorData *run_and_undo(Job *job);
static void run(Job *job);
static void enter(const GjStatement *statement);
static void guard(void);
static bool at_lookup(Oid function);
static void at_call(FmgrHookEventType event, FmgrInfo *function, Datum *arg);
static bool is_strange(Oid function);
static void set(const char *name, const char *value);
static List *copy_advice(const List *advice);

/*
 * Look for indexes that would pay for a statement.  An error in one that was run is only noted:
 * its tables may be gone, or in schemas that are not searched now.
 */
GjAdviseResult
GjAdviseStatement(GjStatement *statement)
{
	Job			job = {.statement = statement,.context = CurrentMemoryContext};
	ErrorData  *error = plan_and_undo(&job);

	if (error == NULL)
	{
		statement->advice = job.advice;
		return GJ_ADVISE_OK;
	}
	if (must_report(statement, error))
		ReThrowError(error);
	if (error->sqlerrcode == GJ_NOT_PLANNED)
		return GJ_ADVISE_NOT_PLANNED;
	statement->failure = error->message;
	return GJ_ADVISE_FAILED;
}

static bool
must_report(const GjStatement *statement, const ErrorData *error)
{
	return !OidIsValid(statement->user) || error->sqlerrcode == ERRCODE_QUERY_CANCELED;
}

/*
 * Return what a statement, that could be planned before, would cost with an index, and how large
 * this would be; if it cannot be planned again, though it was run, what was known before
 */
Cost
GjStatementCost(const GjStatement *statement, const GjNewIndex *index, Cost known, int64 *size)
{
	Job			job = {.statement = statement,.index = index,.context = CurrentMemoryContext};
	ErrorData  *error = plan_and_undo(&job);

	if (error != NULL && must_report(statement, error))
		ReThrowError(error);
	if (error != NULL)
		return known;
	*size = job.size;
	return job.cost;
}

/*
 * Have the planner's choices among existing indexes noted for a statement with parameters
 */
void
GjExplainStatement(const char *text)
{
	GjStatement statement = {.text = unconstify(char *, text)};
	Job			job = {.statement = &statement,.explains = true,.context = CurrentMemoryContext};
	ErrorData  *error = plan_and_undo(&job);

	if (error != NULL)
		ReThrowError(error);
}

/*
 * Do the job, if need be with guesses.  If these do not help, the error is that without them.
 */
static ErrorData *
plan_and_undo(Job *job)
{
	ErrorData  *error = run_and_undo(job);
	ErrorData  *second;

	if (error == NULL || !may_be_guessed(error))
		return error;
	job->guesses = true;
	second = run_and_undo(job);
	return second == NULL || must_report(job->statement, second) ? second : error;
}

static bool
may_be_guessed(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_UNDEFINED_FUNCTION ||
		error->sqlerrcode == ERRCODE_AMBIGUOUS_FUNCTION ||
		error->sqlerrcode == ERRCODE_DATATYPE_MISMATCH ||
		error->sqlerrcode == ERRCODE_INDETERMINATE_DATATYPE;
}

/*
 * Do the job in a subtransaction, which is rolled back; returns an error, NULL if there was none
 */
static ErrorData *
run_and_undo(Job *job)
{
	ResourceOwner owner = CurrentResourceOwner;
	bool		before = plans_statement;	/* a function may ask for advice in turn */
	MemoryContext scratch = AllocSetContextCreate(job->context, "gpujoin advice",
												  ALLOCSET_DEFAULT_SIZES);
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(scratch);
	PG_TRY();
	{
		run(job);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(job->context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	plans_statement = before;
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(job->context);
	CurrentResourceOwner = owner;
	MemoryContextDelete(scratch);
	return error;
}

static void
run(Job *job)
{
	const char *text = GjStatementText(job->statement->text);
	Query	   *query;

	if (!job->explains)
		enter(job->statement);
	query = GjAnalyze(text, job->guesses,
					  job->explains ? "gpujoin_explain_choice" : "gpujoin_advise");
	if (job->explains)
		GjChoiceNote(query, text);
	else if (job->index != NULL)
	{
		GjTrial    *trial = GjTrialMake(query, text);

		(void) GjTrialStart(trial);
		job->cost = GjNewIndexCost(trial, list_make1(unconstify(GjNewIndex *, job->index)));
		job->size = GjNewIndexSize(job->index);
	}
	else
	{
		List	   *advice = GjAdviseQuery(query, text);
		MemoryContext old = MemoryContextSwitchTo(job->context);

		job->advice = copy_advice(advice);
		MemoryContextSwitchTo(old);
	}
}

/*
 * Become who has run the statement, and see to it that gpujoin is at work, with costs as they are,
 * and that nobody counts what is planned
 */
static void
enter(const GjStatement *statement)
{
	Oid			user;
	int			context;

	set("gpujoin.enabled", "on");
	set("gpujoin.force", "off");
	set("compute_query_id", "off");
	if (!OidIsValid(statement->user))
		return;
	guard();
	plans_statement = true;
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(statement->user, context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_RESTRICTED_OPERATION);
}

/*
 * Have functions looked at before they are run
 */
static void
guard(void)
{
	if (guarded)
		return;
	previous_needs_hook = needs_fmgr_hook;
	needs_fmgr_hook = at_lookup;
	previous_fmgr_hook = fmgr_hook;
	fmgr_hook = at_call;
	guarded = true;
}

/*
 * needs_fmgr_hook: is asked about each function, but for PostgreSQL's own, when it is prepared to
 * be called or could be inlined.  A stranger's is prepared so that its call comes to at_call(), as
 * those that have settings of their own do anyway.
 */
static bool
at_lookup(Oid function)
{
	return (plans_statement && is_strange(function)) ||
		(previous_needs_hook != NULL && previous_needs_hook(function));
}

static void
at_call(FmgrHookEventType event, FmgrInfo *function, Datum *arg)
{
	if (event == FHET_START && plans_statement && is_strange(function->fn_oid))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("function \"%s\", which is not a superuser's, is not run for advice",
						get_func_name(function->fn_oid))));
	if (previous_fmgr_hook != NULL)
		previous_fmgr_hook(event, function, arg);
}

/*
 * Does a function belong to somebody who is no superuser?
 */
static bool
is_strange(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Oid			owner = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
		ReleaseSysCache(tuple);
	}
	return !superuser_arg(owner);
}

static void
set(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
}

/*
 * Copy what outlives the subtransaction
 */
static List *
copy_advice(const List *advice)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, advice)
	{
		GjAdvice   *copy = palloc(sizeof(GjAdvice));

		*copy = *(GjAdvice *) lfirst(lc);
		copy->index.included = bms_copy(copy->index.included);
		if (copy->refused != NULL)
			copy->refused = pstrdup(copy->refused);
		if (copy->assumed != NULL)
			copy->assumed = pstrdup(copy->assumed);
		result = lappend(result, copy);
	}
	return result;
}
