/*-------------------------------------------------------------------------
 *
 * adviseplan.c
 *	  Planning a statement by its text, without a trace.
 *
 * Only a SELECT is looked at that locks no rows and writes nothing: for any other, locks
 * would be taken, by parse analysis alone, that a reader has no need of, and that a standby
 * refuses.  Parameters get the types that their places demand.
 *
 * Each time is a subtransaction of its own, which is always rolled back: that gives the locks
 * back, the settings and the role, whether there was an error or not.  Such a one needs no
 * transaction number.
 *
 * The planner runs functions that are IMMUTABLE, by their authors' word, and for estimates those
 * that are STABLE.  Rolling back would not undo all that a function does, and a statement that was
 * run may mean others today: its names were looked up by another search_path, that of a SECURITY
 * DEFINER function, say, and by ours they may be those of somebody who has waited for that.  So
 * while such a statement is planned, only the functions of superusers are run, who could do as they
 * like anyway: PostgreSQL's own and those of most extensions.  To need another one is an error.
 *
 * The types of some parameters do not follow from their places, as those of the constants did that
 * pg_stat_statements has replaced: in ARRAY[$1, $2], VALUES ($1), ($2), generate_series($1, $2),
 * unnest($1) and current_date - $1.  If it cannot be parsed otherwise, these are taken for
 * integers.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "parser/parse_type.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "advise.h"
#include "base/gpujoin.h"

/* The error of a statement that is not looked at */
#define NO_READER				ERRCODE_FEATURE_NOT_SUPPORTED

/* As many parameters as a statement can have that a client sends */
#define MAX_PARAMS				65535

/* What is done with a statement when its query is there */
typedef struct Job
{
	const GjStatement *statement;
	const GjNewIndex *index;	/* NULL: look for the best */
	bool		guesses;		/* parameters of unknown type are integers */
	MemoryContext context;		/* of results */
	List	   *advice;
	Cost		cost;
	int64		size;
} Job;

/* The types of a query's parameters */
typedef struct ParamTypes
{
	Oid		   *types;
	int			n;
} ParamTypes;

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
static Query *analyze(const char *text, bool guesses);
static void unwrap(RawStmt *raw, ParamTypes *params);
static bool writes(Node *node, void *ignored);
static void make_room(ParamTypes *params);
static bool guess_types(Node *node, void *params);
static bool is_minus(const A_Expr *expr);
static void guess_call(const FuncCall *call, ParamTypes *params);
static void guess_list(const List *nodes, Oid type, ParamTypes *params);
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
	if (error->sqlerrcode == NO_READER)
		return GJ_ADVISE_NO_READER;
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

	enter(job->statement);
	query = analyze(text, job->guesses);
	if (job->index != NULL)
	{
		job->cost = GjNewIndexCost(query, text, list_make1(unconstify(GjNewIndex *, job->index)));
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
 * Make a query of a text; an error if it is none that is looked at
 */
static Query *
analyze(const char *text, bool guesses)
{
	List	   *raw = pg_parse_query(text);
	ParamTypes	params = {0};
	List	   *queries;

	if (list_length(raw) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("gpujoin_advise takes one statement")));
	unwrap(linitial(raw), &params);
	if (!IsA(linitial_node(RawStmt, raw)->stmt, SelectStmt) ||
		writes(linitial_node(RawStmt, raw)->stmt, NULL))
		ereport(ERROR,
				(errcode(NO_READER),
				 errmsg("gpujoin_advise looks only at a SELECT that neither writes nor locks "
						"rows")));
	if (guesses)
	{
		make_room(&params);
		(void) guess_types(linitial_node(RawStmt, raw)->stmt, &params);
	}
	/* pg_analyze_and_rewrite_varparams() would insist on a type for each */
	queries = pg_rewrite_query(parse_analyze_varparams(linitial(raw), text, &params.types,
													   &params.n, NULL));
	if (list_length(queries) != 1 || linitial_node(Query, queries)->commandType != CMD_SELECT)
		elog(ERROR, "a SELECT was not rewritten to one query");
	return linitial(queries);
}

/*
 * Take the query out of PREPARE, which is what the text of an EXECUTE is, and out of DECLARE CURSOR
 */
static void
unwrap(RawStmt *raw, ParamTypes *params)
{
	ListCell   *lc;

	if (IsA(raw->stmt, DeclareCursorStmt))
		raw->stmt = ((DeclareCursorStmt *) raw->stmt)->query;
	else if (IsA(raw->stmt, PrepareStmt))
	{
		PrepareStmt *prepare = (PrepareStmt *) raw->stmt;

		params->types = palloc(sizeof(Oid) * (1 + list_length(prepare->argtypes)));
		foreach(lc, prepare->argtypes)
			params->types[params->n++] = typenameTypeId(NULL, lfirst_node(TypeName, lc));
		raw->stmt = prepare->query;
	}
}

/*
 * Is there something in a statement that writes, or locks rows?
 */
static bool
writes(Node *node, void *ignored)
{
	if (node == NULL)
		return false;
	if (IsA(node, IntoClause) || IsA(node, LockingClause) || IsA(node, InsertStmt) ||
		IsA(node, UpdateStmt) || IsA(node, DeleteStmt) || IsA(node, MergeStmt))
		return true;
	return raw_expression_tree_walker(node, writes, ignored);
}

/*
 * Let there be a type for each parameter that a statement can have
 */
static void
make_room(ParamTypes *params)
{
	Oid		   *types = palloc0(sizeof(Oid) * MAX_PARAMS);

	for (int i = 0; i < Min(params->n, MAX_PARAMS); i++)
		types[i] = params->types[i];
	params->types = types;
	params->n = MAX_PARAMS;
}

/*
 * Give types to the parameters whose places say nothing about them
 */
static bool
guess_types(Node *node, void *params)
{
	ListCell   *lc;

	if (node == NULL)
		return false;
	if (IsA(node, A_ArrayExpr))
		guess_list(((A_ArrayExpr *) node)->elements, INT4OID, params);
	else if (IsA(node, A_Expr) && is_minus((A_Expr *) node))
		guess_list(list_make1(((A_Expr *) node)->rexpr), INT4OID, params);
	else if (IsA(node, FuncCall))
		guess_call((FuncCall *) node, params);
	else if (IsA(node, SelectStmt))
	{
		foreach(lc, ((SelectStmt *) node)->valuesLists)
			guess_list(lfirst(lc), INT4OID, params);
	}
	return raw_expression_tree_walker(node, guess_types, params);
}

static bool
is_minus(const A_Expr *expr)
{
	return expr->kind == AEXPR_OP && strcmp(strVal(llast(expr->name)), "-") == 0;
}

static void
guess_call(const FuncCall *call, ParamTypes *params)
{
	const char *name = strVal(llast(call->funcname));

	if (strcmp(name, "generate_series") == 0)
		guess_list(call->args, INT4OID, params);
	else if (strcmp(name, "unnest") == 0)
		guess_list(call->args, INT4ARRAYOID, params);
}

static void
guess_list(const List *nodes, Oid type, ParamTypes *params)
{
	ListCell   *lc;

	foreach(lc, nodes)
	{
		int			number = IsA(lfirst(lc), ParamRef) ? ((ParamRef *) lfirst(lc))->number : 0;

		if (number > 0 && number <= params->n && !OidIsValid(params->types[number - 1]))
			params->types[number - 1] = type;
	}
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
		result = lappend(result, copy);
	}
	return result;
}
