/*-------------------------------------------------------------------------
 *
 * statement.c
 *	  Planning a statement from its text, without side effects, for gpujoin_propose() and
 *	  gpujoin_explain_choice().
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

#include <ctype.h>

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/prepare.h"
#include "common/keywords.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "parser/parse_type.h"
#include "parser/scansup.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/resowner.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

#include "advisor.h"
#include "base/compat.h"

/* SQLSTATE of statements that the planner does not handle */
#define NOT_PLANNED				ERRCODE_FEATURE_NOT_SUPPORTED

/* Maximum number of parameters of a statement that a client sends */
#define MAX_PARAMS				65535

/* The types of a query's parameters */
typedef struct ParamTypes
{
	Oid		   *types;
	int			n;
} ParamTypes;

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

/* The text that replaces the other constants of a list */
#define SQUASHED				" /*, ... */"

/* True while an executed statement is being planned; while our hooks are installed; and those that
 * they replace */
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
static void unguard(void);
static bool at_lookup(Oid function);
static void at_call(FmgrHookEventType event, FmgrInfo *function, Datum *arg);
static bool is_strange(Oid function);
static void set(const char *name, const char *value);
static List *copy_advice(const List *advice);
static void note_choices(const Job *job, const Query *query, const char *text);
static Query *analyze(const char *text, bool guesses, const char *caller);
static void unwrap(RawStmt *raw, ParamTypes *params);
static void refuse(const char *caller);
static void make_room(ParamTypes *params);
static bool guess_types(Node *node, void *params);
static bool is_minus(const A_Expr *expr);
static void guess_call(const FuncCall *call, ParamTypes *params);
static void guess_list(const List *nodes, Oid type, ParamTypes *params);
static char *unsquash(const char *text);
static bool list_to_array(StringInfo text);
static char *cast_literals(const char *text);
static const char *add_cast(StringInfo text, int start, const char *param, int length);
static int	find_type(const char *text, int end);
static int	find_time_zone(const char *text, int end);
static bool is_field_of_extract(const StringInfo before, const char *after);
static int	find_word(const char *text, int end, const char *word);
static bool is_in_word(char c);

/* gpujoin looks this up by name */
extern PGDLLEXPORT void gpujoin_note_choices(const char *text);

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
	if (error->sqlerrcode == NOT_PLANNED)
		return GJ_ADVISE_NOT_PLANNED;
	statement->failure = !may_be_guessed(error) ? error->message :
		psprintf("%s (the types of some constants are unknown: ask for the query with its values)",
				 error->message);
	return GJ_ADVISE_FAILED;
}

/*
 * Record the planner's choices among existing indexes for a statement with parameters
 */
void
gpujoin_note_choices(const char *text)
{
	GjStatement statement = {.text = unconstify(char *, text)};
	Job			job = {.statement = &statement,.explains = true,.context = CurrentMemoryContext};
	ErrorData  *error = plan_and_undo(&job);

	if (error != NULL)
		ReThrowError(error);
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
	if (!before)
		unguard();
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(job->context);
	CurrentResourceOwner = owner;
	MemoryContextDelete(scratch);
	return error;
}

static void
run(Job *job)
{
	const char *text = cast_literals(unsquash(job->statement->text));
	Query	   *query;

	if (!job->explains)
		enter(job->statement);
	query = analyze(text, job->guesses,
					job->explains ? "gpujoin_explain_choice" : "gpujoin_propose");
	if (job->explains)
		note_choices(job, query, text);
	else if (job->index != NULL)
	{
		job->cost = GjPriceIndex(query, text, unconstify(GjNewIndex *, job->index));
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
 * Plan a query with parameters, and note the planner's choices
 *
 * Plan the query first without notes, to find the parameters that need assumed values.
 */
static void
note_choices(const Job *job, const Query *query, const char *text)
{
	GjTrial    *trial;
	MemoryContext old;

	(void) gj->choice_stop();
	trial = GjTrialStart(query, text);
	old = MemoryContextSwitchTo(job->context);
	(void) gj->choice_start(trial->params);
	MemoryContextSwitchTo(old);
	(void) GjNewIndexPlan(trial, NIL);
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
 * Remove the hooks.  If another library has installed one above ours, ours must remain: they do
 * nothing until a statement is planned again.
 */
static void
unguard(void)
{
	if (!guarded || needs_fmgr_hook != at_lookup || fmgr_hook != at_call)
		return;
	needs_fmgr_hook = previous_needs_hook;
	fmgr_hook = previous_fmgr_hook;
	guarded = false;
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

/*-------------------------------------------------------------------------
 * Queries
 *
 * Build a query from a statement's text, in which parameters stand for unknown values.
 *
 * Parameters get the types that their contexts require.  Some contexts require none, although the
 * constants that pg_stat_statements has replaced had types: ARRAY[$1, $2], VALUES ($1), ($2),
 * SELECT $1, generate_series($1, $2), unnest($1) and current_date - $1.  If the text cannot be
 * analyzed otherwise, we assume that these parameters are integers.  If that does not help, as
 * with pairs of an integer and a text, the reason says that types are unknown.
 *-------------------------------------------------------------------------
 */

/*
 * Build a query from a text; raises an error if the planner does not handle it.  With guesses,
 * parameters of unknown type are integers.  caller is the name of the SQL function.
 */
static Query *
analyze(const char *text, bool guesses, const char *caller)
{
	List	   *raw = pg_parse_query(text);
	ParamTypes	params = {0};
	Query	   *query;
	List	   *queries;

	if (list_length(raw) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("%s takes one statement", caller)));
	unwrap(linitial(raw), &params);
	if (!GjIsPlanned(linitial_node(RawStmt, raw)->stmt))
		refuse(caller);
	if (guesses)
	{
		make_room(&params);
		(void) guess_types(linitial_node(RawStmt, raw)->stmt, &params);
	}
	/* pg_analyze_and_rewrite_varparams() would require a type for each */
	query = parse_analyze_varparams(linitial(raw), text, &params.types, &params.n, NULL);
	if (query->commandType == CMD_UTILITY)
		refuse(caller);
	queries = pg_rewrite_query(query);
	if (list_length(queries) != 1 || linitial_node(Query, queries)->commandType == CMD_UTILITY)
		ereport(ERROR,
				(errcode(NOT_PLANNED),
				 errmsg("%s does not take a statement that rules replace or add others to",
						caller)));
	return linitial(queries);
}

static void
refuse(const char *caller)
{
	ereport(ERROR,
			(errcode(NOT_PLANNED),
			 errmsg("%s takes a SELECT, INSERT, UPDATE, DELETE or MERGE", caller)));
}

/*
 * Extract the query from PREPARE, which is the text of an EXECUTE, and from DECLARE CURSOR
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
 * Allocate the types of all parameters that a statement can have
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
 * Assign types to the parameters whose contexts do not determine them
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
		foreach(lc, ((SelectStmt *) node)->targetList)
			guess_list(list_make1(lfirst_node(ResTarget, lc)->val), INT4OID, params);
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
		const ParamRef *param = lfirst(lc);
		int			number = param != NULL && IsA(param, ParamRef) ? param->number : 0;

		if (number > 0 && number <= params->n && !OidIsValid(params->types[number - 1]))
			params->types[number - 1] = type;
	}
}

/*-------------------------------------------------------------------------
 * Texts of statements
 *
 * Rewrite the texts of pg_stat_statements so that they can be parsed again.
 *
 * That extension replaces each constant by a parameter, even where the grammar requires a constant:
 * "date $1", "interval $1" and "extract($1 from x)" are syntax errors.  And since version 18 it
 * keeps only the first constant of a list, so that "IN ($1, $2, $3)" looks like a single key.
 *
 * If a rewritten text is wrong, it cannot be planned, and is skipped.  So the rules here affect
 * only the number of statements that get advice.
 *-------------------------------------------------------------------------
 */

/*
 * Turn lists of which only the first constant is left into arrays, so that the planner treats them
 * as sets of unknown size, and not as one value
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
		if ((*text == ')' || *text == ']') && list_to_array(&result))
			text++;
	}
	appendStringInfoString(&result, text);
	return result.data;
}

/*
 * Turn "IN ($1" at the end of a text into "= ANY ($1)", "NOT IN ($1" into "<> ALL ($1)", and
 * "ARRAY[$1" into "$1".  Returns false if the text has none of these.
 */
static bool
list_to_array(StringInfo text)
{
	int			dollar = text->len - 1;
	const char *before = NULL;
	char	   *param;
	int			start = -1;
	int			not;

	while (dollar > 0 && isdigit((unsigned char) text->data[dollar]))
		dollar--;
	if (dollar <= 0 || text->data[dollar] != '$')
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
 * Turn "date $1" into "CAST($1 AS date)", and "extract($1 from" into "extract(epoch from"
 */
static char *
cast_literals(const char *text)
{
	StringInfoData result;
	const char *param;

	initStringInfo(&result);
	while ((param = strchr(text, '$')) != NULL)
	{
		int			length = 1 + strspn(param + 1, "0123456789");
		int			start;

		appendBinaryStringInfo(&result, text, param - text);
		text = param + length;
		if (length > 1 && (start = find_type(result.data, result.len)) >= 0)
			text = add_cast(&result, start, param, length);
		else if (length > 1 && is_field_of_extract(&result, text))
			appendStringInfoString(&result, "epoch");
		else
			appendBinaryStringInfo(&result, param, length);
	}
	appendStringInfoString(&result, text);
	return result.data;
}

/*
 * Replace the type that begins at this byte and the parameter after it by a cast; returns the text
 * after them.  In "interval $1 day", part of the type follows the parameter.
 */
static const char *
add_cast(StringInfo text, int start, const char *param, int length)
{
	static const char *const fields[] = {"year", "month", "day", "hour", "minute", "second"};
	char	   *type = pstrdup(text->data + start);
	const char *next = param + length;

	while (isspace((unsigned char) *next))
		next++;
	text->len = start;
	appendStringInfo(text, "CAST(%.*s AS %s", length, param, type);
	for (int i = 0; i < lengthof(fields); i++)
	{
		int			n = strlen(fields[i]);

		if (find_word(type, strlen(type), "interval") == 0 &&
			pg_strncasecmp(next, fields[i], n) == 0 && !is_in_word(next[n]))
		{
			appendStringInfo(text, " %s)", fields[i]);
			return next + n;
		}
	}
	appendStringInfoChar(text, ')');
	return param + length;
}

/*
 * Find a type at the end of the first bytes of a text; returns -1 if they end otherwise
 *
 * Only names of types and keywords can precede a parameter; we distinguish keywords that name types
 * from the others.  A name in another line may be the end of a comment.  Without a blank
 * in between, "date$1" might be a name, but that is unlikely.
 */
static int
find_type(const char *text, int end)
{
	int			stop = end;
	int			start;
	int			keyword;
	char	   *word;

	while (stop > 0 && scanner_isspace(text[stop - 1]))
	{
		if (text[--stop] == '\n')
			return -1;
	}
	start = stop;
	while (start > 0 && (is_in_word(text[start - 1]) || text[start - 1] == '.'))
		start--;
	if (start == stop || !is_in_word(text[start]) || isdigit((unsigned char) text[start]))
		return -1;

	word = downcase_truncate_identifier(text + start, stop - start, false);
	if (strcmp(word, "zone") == 0)
		return find_time_zone(text, start);
	if (stop == end && strcmp(word, "date") != 0 && strcmp(word, "interval") != 0 &&
		strcmp(word, "timestamp") != 0 && strcmp(word, "timestamptz") != 0)
		return -1;
	keyword = ScanKeywordLookup(word, &ScanKeywords);
	if (keyword >= 0 && (ScanKeywordCategories[keyword] != COL_NAME_KEYWORD ||
						 strcmp(word, "between") == 0))
		return -1;
	return start;
}

/*
 * Find "timestamp with time" and the like at the end of the bytes; returns -1 for "AT TIME"
 */
static int
find_time_zone(const char *text, int end)
{
	int			time = find_word(text, end, "time");
	int			with = find_word(text, time, "with");
	int			start;

	if (with < 0)
		with = find_word(text, time, "without");
	start = find_word(text, with, "timestamp");
	return start >= 0 ? start : find_word(text, with, "time");
}

static bool
is_field_of_extract(const StringInfo before, const char *after)
{
	int			end = before->len;

	while (end > 0 && isspace((unsigned char) before->data[end - 1]))
		end--;
	while (isspace((unsigned char) *after))
		after++;
	return end > 0 && before->data[end - 1] == '(' &&
		find_word(before->data, end - 1, "extract") >= 0 &&
		pg_strncasecmp(after, "from", 4) == 0 && !is_in_word(after[4]);
}

/*
 * Find a word at the end of the bytes, before spaces; returns -1 if they do not end with it
 */
static int
find_word(const char *text, int end, const char *word)
{
	int			start;

	while (end > 0 && isspace((unsigned char) text[end - 1]))
		end--;
	start = end - (int) strlen(word);
	if (start < 0 || pg_strncasecmp(text + start, word, strlen(word)) != 0 ||
		(start > 0 && is_in_word(text[start - 1])))
		return -1;
	return start;
}

static bool
is_in_word(char c)
{
	return isalnum((unsigned char) c) || c == '_' || IS_HIGHBIT_SET(c);
}
