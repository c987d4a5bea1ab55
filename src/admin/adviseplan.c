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
 * The planner runs functions that are IMMUTABLE, by their authors' word.  A statement that was run
 * may mean others today: its names were looked up by another search_path, that of a SECURITY
 * DEFINER function, say, and by ours they may be those of somebody who has waited for that.  So
 * while such a statement is planned, its role runs its own functions and those of superusers, who
 * could do as they like anyway; a function of anybody else is an error.  Rolling back would not
 * undo all that it does.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_proc.h"
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

/* Constants of a list that pg_stat_statements has taken together, which it does since 18 */
#define SQUASHED				" /*, ... */"

/* The error of a statement that is not looked at */
#define NO_READER				ERRCODE_FEATURE_NOT_SUPPORTED

/* What is done with a statement when its query is there */
typedef struct Job
{
	const GjStatement *statement;
	const GjNewIndex *index;	/* NULL: look for the best */
	MemoryContext context;		/* of results */
	List	   *advice;
	Cost		cost;
	int64		size;
} Job;

/* The role whose statement, which was run, is being planned, if any; and who else has the hooks */
static Oid	planned_as = InvalidOid;
static bool guarded = false;
static needs_fmgr_hook_type previous_needs_hook = NULL;
static fmgr_hook_type previous_fmgr_hook = NULL;

static bool must_report(const GjStatement *statement, const ErrorData *error);
static ErrorData *run_and_undo(Job *job);
static void run(Job *job);
static void enter(const GjStatement *statement);
static void guard(void);
static bool at_lookup(Oid function);
static void at_call(FmgrHookEventType event, FmgrInfo *function, Datum *arg);
static void refuse_stranger(Oid function);
static void set(const char *name, const char *value);
static Query *analyze(const char *text);
static void unwrap(RawStmt *raw, Oid **types, int *ntypes);
static bool writes(Node *node, void *ignored);
static char *unsquash(const char *text);
static bool make_array(StringInfo text);
static int	find_word(const char *text, int end, const char *word);
static List *copy_advice(const List *advice);

/*
 * Look for indexes that would pay for a statement.  An error in one that was run is not
 * reported: its tables may be gone, or in schemas that are not searched now.
 */
GjAdviseResult
GjAdviseStatement(GjStatement *statement)
{
	Job			job = {.statement = statement,.context = CurrentMemoryContext};
	ErrorData  *error = run_and_undo(&job);

	if (error == NULL)
	{
		statement->advice = job.advice;
		return GJ_ADVISE_OK;
	}
	if (must_report(statement, error))
		ReThrowError(error);
	return error->sqlerrcode == NO_READER ? GJ_ADVISE_NO_READER : GJ_ADVISE_FAILED;
}

static bool
must_report(const GjStatement *statement, const ErrorData *error)
{
	return !OidIsValid(statement->user) || error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
		error->sqlerrcode == ERRCODE_OUT_OF_MEMORY;
}

/*
 * Return what a statement, that could be planned before, would cost with an index, and how large
 * this would be; if it cannot be planned again, though it was run, what was known before
 */
Cost
GjStatementCost(const GjStatement *statement, const GjNewIndex *index, Cost known, int64 *size)
{
	Job			job = {.statement = statement,.index = index,.context = CurrentMemoryContext};
	ErrorData  *error = run_and_undo(&job);

	if (error != NULL && must_report(statement, error))
		ReThrowError(error);
	if (error != NULL)
		return known;
	*size = job.size;
	return job.cost;
}

/*
 * Do the job in a subtransaction, which is rolled back; returns an error, NULL if there was none
 */
static ErrorData *
run_and_undo(Job *job)
{
	ResourceOwner owner = CurrentResourceOwner;
	Oid			planned_before = planned_as;	/* by a function that asks for advice in turn */
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
	planned_as = planned_before;
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(job->context);
	CurrentResourceOwner = owner;
	MemoryContextDelete(scratch);
	return error;
}

static void
run(Job *job)
{
	const char *text = unsquash(job->statement->text);
	Query	   *query;

	enter(job->statement);
	query = analyze(text);
	if (job->index != NULL)
	{
		job->cost = GjNewIndexCost(query, text, job->index);
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
	planned_as = statement->user;
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
 * be called; not about those that have settings of their own, which at_call() sees
 */
static bool
at_lookup(Oid function)
{
	refuse_stranger(function);
	return previous_needs_hook != NULL && previous_needs_hook(function);
}

static void
at_call(FmgrHookEventType event, FmgrInfo *function, Datum *arg)
{
	if (event == FHET_START)
		refuse_stranger(function->fn_oid);
	if (previous_fmgr_hook != NULL)
		previous_fmgr_hook(event, function, arg);
}

/*
 * An error, if a statement is being planned that this function must not be run for
 */
static void
refuse_stranger(Oid function)
{
	HeapTuple	tuple;
	Oid			owner = InvalidOid;

	if (!OidIsValid(planned_as))
		return;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (HeapTupleIsValid(tuple))
	{
		owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
		ReleaseSysCache(tuple);
	}
	if (owner != planned_as && !superuser_arg(owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("function \"%s\" of another role is not run for advice",
						get_func_name(function))));
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
analyze(const char *text)
{
	List	   *raw = pg_parse_query(text);
	Oid		   *types = NULL;
	int			ntypes = 0;
	List	   *queries;

	if (list_length(raw) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("gpujoin_advise takes one statement")));
	unwrap(linitial(raw), &types, &ntypes);
	if (!IsA(linitial_node(RawStmt, raw)->stmt, SelectStmt) ||
		writes(linitial_node(RawStmt, raw)->stmt, NULL))
		ereport(ERROR,
				(errcode(NO_READER),
				 errmsg("gpujoin_advise looks only at a SELECT that neither writes nor locks "
						"rows")));
	/* pg_analyze_and_rewrite_varparams() would insist on a type for each */
	queries = pg_rewrite_query(parse_analyze_varparams(linitial(raw), text, &types, &ntypes,
													   NULL));
	if (list_length(queries) != 1 || linitial_node(Query, queries)->commandType != CMD_SELECT)
		elog(ERROR, "a SELECT was not rewritten to one query");
	return linitial(queries);
}

/*
 * Take the query out of PREPARE, which is what the text of an EXECUTE is, and out of DECLARE CURSOR
 */
static void
unwrap(RawStmt *raw, Oid **types, int *ntypes)
{
	ListCell   *lc;

	if (IsA(raw->stmt, DeclareCursorStmt))
		raw->stmt = ((DeclareCursorStmt *) raw->stmt)->query;
	else if (IsA(raw->stmt, PrepareStmt))
	{
		PrepareStmt *prepare = (PrepareStmt *) raw->stmt;

		*types = palloc(sizeof(Oid) * (1 + list_length(prepare->argtypes)));
		foreach(lc, prepare->argtypes)
			(*types)[(*ntypes)++] = typenameTypeId(NULL, lfirst_node(TypeName, lc));
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
 * Make arrays of lists of which only the first constant is left, so that the planner takes them for
 * sets of unknown size, and not for one value
 */
static char *
unsquash(const char *text)
{
	StringInfoData result;
	const char *mark;

	initStringInfo(&result);
	while ((mark = strstr(text, SQUASHED)) != NULL)
	{
		appendBinaryStringInfo(&result, text, mark - text);
		text = mark + strlen(SQUASHED);
		if ((*text == ')' || *text == ']') && make_array(&result))
			text++;
	}
	appendStringInfoString(&result, text);
	return result.data;
}

/*
 * Turn "IN ($1" at the end of a text into "= ANY ($1)", "NOT IN ($1" into "<> ALL ($1)", and
 * "ARRAY[$1" into "$1"; false if it is none of these
 */
static bool
make_array(StringInfo text)
{
	int			dollar = text->len - 1;
	const char *before = NULL;
	char	   *param;
	int			start = -1;
	int			not;

	while (dollar > 0 && isdigit((unsigned char) text->data[dollar]))
		dollar--;
	if (dollar == 0 || text->data[dollar] != '$')
		return false;
	if (text->data[dollar - 1] == '[')
	{
		start = find_word(text->data, dollar - 1, "ARRAY");
		before = "%s";
	}
	else if (text->data[dollar - 1] == '(' &&
			 (start = find_word(text->data, dollar - 1, "IN")) >= 0)
	{
		not = find_word(text->data, start, "NOT");
		before = not < 0 ? "= ANY (%s)" : "<> ALL (%s)";
		start = not < 0 ? start : not;
	}
	if (start < 0)
		return false;
	param = pstrdup(text->data + dollar);
	text->len = start;
	appendStringInfo(text, before, param);
	return true;
}

/*
 * Find a word at the end of so many bytes, before spaces; -1: it is not there
 */
static int
find_word(const char *text, int end, const char *word)
{
	int			start;

	while (end > 0 && isspace((unsigned char) text[end - 1]))
		end--;
	start = end - (int) strlen(word);
	if (start < 0 || pg_strncasecmp(text + start, word, strlen(word)) != 0 ||
		(start > 0 && (isalnum((unsigned char) text[start - 1]) || text[start - 1] == '_')))
		return -1;
	return start;
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
