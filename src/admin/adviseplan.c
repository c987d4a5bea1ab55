/*-------------------------------------------------------------------------
 *
 * adviseplan.c
 *	  Planning a statement from its text, without side effects.
 *
 * Each statement is planned in a subtransaction of its own, which is always rolled back: that
 * releases the locks and restores the settings and the role, with or without an error.  Such a
 * subtransaction needs no transaction ID.  The locks are those of EXPLAIN.  The strongest is the
 * RowExclusiveLock on the table that a statement changes, which a standby allows as well.
 *
 * The planner runs functions that their authors have declared IMMUTABLE, and STABLE ones for
 * estimates.  A rollback would not undo all effects of a function, and the names in a statement may
 * now resolve to other functions: they were looked up by another search_path, for example that of
 * a SECURITY DEFINER function, and by ours they may be functions that an attacker has created for
 * this purpose.  So while we plan such a statement, only functions of superusers may run, who have
 * all rights anyway: PostgreSQL's own and those of most extensions.  Any other function raises an
 * error.
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

/* The work to do with a statement after its query has been built */
typedef struct Job
{
	const GjStatement *statement;
	const GjNewIndex *index;	/* index to evaluate, or NULL to find the best */
	bool		explains;		/* record the planner's choices among existing indexes instead */
	bool		guesses;		/* parameters of unknown type are integers */
	MemoryContext context;		/* for results */
	List	   *advice;
	Cost		cost;
	int64		size;
} Job;

/* True while an executed statement is being planned; and the previous hooks */
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
 * Find indexes that would pay for a statement.  An error in an executed statement is only recorded:
 * its tables may have been dropped, or be in schemas that are not searched now.
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
 * Return the cost of a previously planned statement with an index, and the size of the index.  If
 * an executed statement cannot be planned again, return the previous figures.
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
 * Record the planner's choices among existing indexes for a statement with parameters
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
 * Do the job, if necessary with guesses.  If these do not help, raise the error without guesses.
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
 * Do the job in a subtransaction, which is rolled back; returns the error, or NULL on success
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
 * Switch to the role that ran the statement, enable gpujoin without forcing it, and keep extensions
 * such as pg_stat_statements from counting what we plan
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
 * Install the hooks that check functions before they run
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
 * needs_fmgr_hook: called for each function, except PostgreSQL's own, when its call is prepared or
 * it could be inlined.  Calls of functions that are not a superuser's are redirected to at_call(),
 * as are calls of functions with settings of their own anyway.
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
 * Return true if the owner of a function is not a superuser
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
 * Copy the results that outlive the subtransaction
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
