/*-------------------------------------------------------------------------
 *
 * advise.c
 *	  gpujoin_advise(): propose indexes that would pay, for the statements in
 *	  pg_stat_statements or for one query.
 *
 * plan/advise.c makes one proposal for each table of a statement.  Proposals with the same key
 * become one index, with the INCLUDE columns of all, and its costs are estimated again: a
 * wider index costs a little more to read.
 *
 * Proposals are sorted by the time that they would save, assuming that a statement's time falls
 * in proportion to its cost.  Indexes that would not pay come last, with the reason.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "common/keywords.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "parser/scansup.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/gpujoin.h"
#include "advise.h"

/* Maximum number of bytes shown of a statement */
#define SHOWN_BYTES				300

/* Result columns that only executed statements have */
#define STATEMENT_COLUMNS		5
#define ALL_COLUMNS				(STATEMENT_COLUMNS + 8)

/* A statement that would use an index */
typedef struct Use
{
	GjStatement *statement;
	GjAdvice   *advice;
} Use;

/* A row of the result */
typedef struct Proposal
{
	GjNewIndex	index;
	const char *refused;
	Oid			replaces;
	const char *assumed;
	List	   *uses;			/* sorted by time, descending */
	int64		calls;
	double		share;
	Cost		cost_now;		/* average cost of a call */
	Cost		cost_with;
	double		saved;			/* ms, or for a query its share */
	int64		size;
} Proposal;

/* Names of an index's table and columns */
typedef struct Names
{
	const char *schema;
	const char *table;
	const char *key;
	const char *included[GJ_MAX_INCLUDED];
	int			n;
} Names;

PG_FUNCTION_INFO_V1(gpujoin_advise);
PG_FUNCTION_INFO_V1(gpujoin_advise_query);

#define EXTENSION		"pg_stat_statements"

/* Columns of the query below */
enum
{
	COLUMN_USER = 1,
	COLUMN_QUERYID,
	COLUMN_CALLS,
	COLUMN_TIME,
	COLUMN_ALL_TIME,
	COLUMN_STATEMENTS,
	COLUMN_TEXT
};

/* The text that replaces the other constants of a list */
#define SQUASHED				" /*, ... */"

static List *collect_proposals(List *statements);
static void note_statements(int hidden, int failed);
static void report_failures(List *statements, ReturnSetInfo *rsinfo);
static List *add_advice(List *proposals, GjStatement *statement, GjAdvice *advice);
static void use_advice(Proposal *proposal, GjStatement *statement, GjAdvice *advice);
static void sum_up(Proposal *proposal);
static bool is_superseded(const Proposal *proposal, const List *proposals);
static int	compare(const ListCell *a, const ListCell *b);
static void report(const Proposal *proposal, ReturnSetInfo *rsinfo, int skipped);
static Names *get_names(const GjNewIndex *index);
static const char *get_column(Oid table, AttrNumber attno);
static Datum shorten(const char *text);
static char *make_command(const Names *names);
static Datum make_array(const Names *names);
static Datum make_note(const Proposal *proposal, bool *isnull);
static char *make_query(void);
static GjStatement *read_row(int i, MemoryContext context);
static Datum get(int i, int column, bool *isnull);
static bool may_plan(const GjStatement *statement);
static char *unsquash(const char *text);
static bool list_to_array(StringInfo text);
static char *cast_literals(const char *text);
static const char *add_cast(StringInfo text, int start, const char *param, int length);
static int	find_type(const char *text, int end);
static int	find_time_zone(const char *text, int end);
static bool is_field_of_extract(const StringInfo before, const char *after);
static int	find_word(const char *text, int end, const char *word);
static bool is_in_word(char c);
static List *read_statements(int *hidden);

/*
 * gpujoin_advise(): propose indexes for the statements of pg_stat_statements
 */
Datum
gpujoin_advise(PG_FUNCTION_ARGS)
{
	int			hidden;
	int			failed = 0;
	List	   *statements;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	statements = read_statements(&hidden);
	foreach(lc, statements)
	{
		CHECK_FOR_INTERRUPTS();
		failed += GjAdviseStatement(lfirst(lc)) == GJ_ADVISE_FAILED;
	}
	note_statements(hidden, failed);
	foreach(lc, collect_proposals(statements))
		report(lfirst(lc), (ReturnSetInfo *) fcinfo->resultinfo, 0);
	report_failures(statements, (ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}

/*
 * gpujoin_advise(query): propose indexes for one query, with $1 for unknown values
 */
Datum
gpujoin_advise_query(PG_FUNCTION_ARGS)
{
	GjStatement *statement = palloc0(sizeof(GjStatement));
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	statement->text = text_to_cstring(PG_GETARG_TEXT_PP(0));
	statement->calls = 1;
	statement->time = 1.0;
	(void) GjAdviseStatement(statement);
	foreach(lc, collect_proposals(list_make1(statement)))
		report(lfirst(lc), (ReturnSetInfo *) fcinfo->resultinfo, STATEMENT_COLUMNS);
	return (Datum) 0;
}

static void
note_statements(int hidden, int failed)
{
	if (hidden > 0)
		ereport(NOTICE,
				(errmsg_plural("%d statement of another role was left out",
							   "%d statements of other roles were left out", hidden, hidden),
				 errhint("A statement is planned for members of the role that ran it.")));
	if (failed > 0)
		ereport(NOTICE,
				(errmsg_plural("%d statement could not be planned",
							   "%d statements could not be planned", failed, failed),
				 errdetail("The rows without a relation name them, and say why.")));
}

/*
 * Report the statements that could not be planned, with the reasons
 */
static void
report_failures(List *statements, ReturnSetInfo *rsinfo)
{
	ListCell   *lc;

	foreach(lc, statements)
	{
		const GjStatement *statement = lfirst(lc);
		Datum		values[ALL_COLUMNS] = {0};
		bool		nulls[ALL_COLUMNS];

		if (statement->failure == NULL)
			continue;
		memset(nulls, true, sizeof(nulls));
		memset(nulls, false, STATEMENT_COLUMNS);
		values[0] = Int64GetDatum(statement->queryid);
		values[1] = Int64GetDatum(1);
		values[2] = Int64GetDatum(statement->calls);
		values[3] = Float8GetDatum(statement->share);
		values[4] = shorten(statement->text);
		values[12] = CStringGetTextDatum(psprintf("the statement could not be planned: %s",
												  statement->failure));
		nulls[12] = false;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

/*
 * Turn the advice for all statements into proposals, the best first
 */
static List *
collect_proposals(List *statements)
{
	List	   *proposals = NIL;
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, statements)
	{
		GjStatement *statement = lfirst(lc);
		ListCell   *lc2;

		foreach(lc2, statement->advice)
			proposals = add_advice(proposals, statement, lfirst(lc2));
	}
	foreach(lc, proposals)
	{
		Proposal   *proposal = lfirst(lc);

		if (proposal->refused != NULL && is_superseded(proposal, proposals))
			continue;
		sum_up(proposal);
		result = lappend(result, proposal);
	}
	list_sort(result, compare);
	return result;
}

/*
 * Add advice to the proposal for the same key, or create one
 */
static List *
add_advice(List *proposals, GjStatement *statement, GjAdvice *advice)
{
	Proposal   *proposal;
	ListCell   *lc;

	foreach(lc, proposals)
	{
		proposal = lfirst(lc);
		if (proposal->index.table == advice->index.table &&
			proposal->index.key == advice->index.key &&
			(proposal->refused == NULL) == (advice->refused == NULL))
		{
			use_advice(proposal, statement, advice);
			return proposals;
		}
	}
	proposal = palloc0(sizeof(Proposal));
	proposal->index = advice->index;
	proposal->refused = advice->refused;
	proposal->replaces = advice->replaces;
	proposal->assumed = advice->assumed;
	use_advice(proposal, statement, advice);
	return lappend(proposals, proposal);
}

/*
 * Add a statement to a proposal.  If its INCLUDE columns do not fit any more, they are omitted, and
 * this statement, which took less time than those before, reads them from the heap.
 */
static void
use_advice(Proposal *proposal, GjStatement *statement, GjAdvice *advice)
{
	Use		   *use = palloc(sizeof(Use));
	Bitmapset  *all = bms_union(proposal->index.included, advice->index.included);

	use->statement = statement;
	use->advice = advice;
	proposal->uses = lappend(proposal->uses, use);
	if (bms_num_members(all) <= GJ_MAX_INCLUDED)
		proposal->index.included = all;
}

/*
 * Sum up the benefit of an index, now that its columns are known
 */
static void
sum_up(Proposal *proposal)
{
	double		weight = 0.0;
	ListCell   *lc;

	foreach(lc, proposal->uses)
	{
		Use		   *use = lfirst(lc);
		GjAdvice   *advice = use->advice;
		double		calls = Max((double) use->statement->calls, 1.0);
		Cost		with = advice->cost_with;

		if (proposal->refused == NULL &&
			(proposal->size == 0 ||
			 !bms_equal(advice->index.included, proposal->index.included)))
			with = GjStatementCost(use->statement, &proposal->index, with, &proposal->size);

		weight += calls;
		proposal->calls += use->statement->calls;
		proposal->share += use->statement->share;
		proposal->cost_now += calls * advice->cost_now;
		proposal->cost_with += calls * with;
		proposal->saved += use->statement->time * (1.0 - with / Max(advice->cost_now, 1e-9));
	}
	proposal->cost_now /= weight;
	proposal->cost_with /= weight;
}

/*
 * Return true if an index is proposed for the same key, even if not for all statements
 */
static bool
is_superseded(const Proposal *proposal, const List *proposals)
{
	ListCell   *lc;

	foreach(lc, proposals)
	{
		const Proposal *other = lfirst(lc);

		if (other->refused == NULL && other->index.table == proposal->index.table &&
			other->index.key == proposal->index.key)
			return true;
	}
	return false;
}

/*
 * Compare proposals: indexes that would not pay come last, ordered by their statements' time
 */
static int
compare(const ListCell *a, const ListCell *b)
{
	const Proposal *left = lfirst(a);
	const Proposal *right = lfirst(b);
	double		first = left->refused ? left->share : left->saved;
	double		second = right->refused ? right->share : right->saved;

	if ((left->refused == NULL) != (right->refused == NULL))
		return left->refused == NULL ? -1 : 1;
	return first > second ? -1 : first < second ? 1 : 0;
}

/*
 * Return a proposal as a row, unless its table or a column no longer exists: the tables have been
 * unlocked since the proposal was made
 */
static void
report(const Proposal *proposal, ReturnSetInfo *rsinfo, int skipped)
{
	const GjStatement *statement = ((Use *) linitial(proposal->uses))->statement;
	const Names *names = get_names(&proposal->index);
	Datum		values[ALL_COLUMNS];
	bool		nulls[ALL_COLUMNS] = {0};
	bool		pays = proposal->refused == NULL;

	if (names == NULL)
		return;
	values[0] = Int64GetDatum(statement->queryid);
	values[1] = Int64GetDatum(list_length(proposal->uses));
	values[2] = Int64GetDatum(proposal->calls);
	values[3] = Float8GetDatum(Min(proposal->share, 1.0));
	values[4] = shorten(statement->text);
	values[5] = ObjectIdGetDatum(proposal->index.table);
	values[6] = DirectFunctionCall1(namein, CStringGetDatum(names->key));
	values[7] = make_array(names);
	nulls[7] = !pays || names->n == 0;
	values[8] = CStringGetTextDatum(make_command(names));
	nulls[8] = !pays;
	values[9] = Float8GetDatum(proposal->cost_now);
	values[10] = Float8GetDatum(proposal->cost_with);
	nulls[10] = proposal->cost_with == 0.0;
	values[11] = Int64GetDatum(proposal->size);
	nulls[11] = !pays || proposal->size == 0;
	values[12] = make_note(proposal, &nulls[12]);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values + skipped, nulls + skipped);
}

/*
 * Look up the names of a table and of an index's columns; returns NULL if one no longer exists
 */
static Names *
get_names(const GjNewIndex *index)
{
	Names	   *names = palloc0(sizeof(Names));
	int			attno = -1;

	names->table = get_rel_name(index->table);
	names->schema = get_namespace_name(get_rel_namespace(index->table));
	names->key = get_column(index->table, index->key);
	if (names->table == NULL || names->schema == NULL || names->key == NULL)
		return NULL;
	while ((attno = bms_next_member(index->included, attno)) >= 0)
	{
		names->included[names->n] = get_column(index->table, attno);
		if (names->included[names->n++] == NULL)
			return NULL;
	}
	return names;
}

static const char *
get_column(Oid table, AttrNumber attno)
{
	HeapTuple	tuple = SearchSysCacheAttNum(table, attno);
	const char *name;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	name = pstrdup(NameStr(((Form_pg_attribute) GETSTRUCT(tuple))->attname));
	ReleaseSysCache(tuple);
	return name;
}

static Datum
shorten(const char *text)
{
	int			length = strlen(text);

	if (length <= SHOWN_BYTES)
		return CStringGetTextDatum(text);
	return CStringGetTextDatum(psprintf("%.*s...", pg_mbcliplen(text, length, SHOWN_BYTES),
										text));
}

static char *
make_command(const Names *names)
{
	StringInfoData command;

	initStringInfo(&command);
	appendStringInfo(&command, "CREATE INDEX ON %s USING %s (%s)",
					 quote_qualified_identifier(names->schema, names->table), GJ_NAME,
					 quote_identifier(names->key));
	for (int i = 0; i < names->n; i++)
		appendStringInfo(&command, "%s%s", i == 0 ? " INCLUDE (" : ", ",
						 quote_identifier(names->included[i]));
	if (names->n > 0)
		appendStringInfoChar(&command, ')');
	return command.data;
}

static Datum
make_array(const Names *names)
{
	Datum		columns[GJ_MAX_INCLUDED];

	for (int i = 0; i < names->n; i++)
		columns[i] = DirectFunctionCall1(namein, CStringGetDatum(names->included[i]));
	return PointerGetDatum(construct_array(columns, names->n, NAMEOID, NAMEDATALEN, false,
										   TYPALIGN_CHAR));
}

/*
 * Describe why no index is proposed, which one the new one would replace, and the basis of the
 * costs
 */
static Datum
make_note(const Proposal *proposal, bool *isnull)
{
	const char *replaced = OidIsValid(proposal->replaces) ?
		get_rel_name(proposal->replaces) : NULL;
	StringInfoData note;

	initStringInfo(&note);
	if (proposal->refused != NULL)
		appendStringInfoString(&note, proposal->refused);
	else if (replaced != NULL)
		appendStringInfo(&note, "replaces index %s, which lacks columns in INCLUDE: "
						 "%.1f times as fast by cost", quote_identifier(replaced),
						 proposal->cost_now / Max(proposal->cost_with, 1e-9));
	if (proposal->assumed != NULL)
		appendStringInfo(&note, "%s%s", note.len > 0 ? ", " : "", proposal->assumed);
	*isnull = note.len == 0;
	return note.len == 0 ? (Datum) 0 : CStringGetTextDatum(note.data);
}

/*-------------------------------------------------------------------------
 * Statements
 *
 * The statements that pg_stat_statements has counted in this database.
 *
 * The view pg_stat_statements decides which texts users see: their own, or all of them
 * with pg_read_all_stats.  Planning a statement needs more rights than reading it, as the
 * planner runs functions that their authors have declared IMMUTABLE, and names are looked up
 * by a search_path.  So a statement is planned as the role that ran it, and only for a caller
 * that could become this role anyway.  Then the statements of a role cannot make others do
 * more than the role could have done itself.
 *-------------------------------------------------------------------------
 */

/*
 * List the statements that may be planned, by time, descending; counts the others in hidden
 */
static List *
read_statements(int *hidden)
{
	MemoryContext context = CurrentMemoryContext;
	List	   *result = NIL;
	char	   *query;

	*hidden = 0;
	if (!OidIsValid(get_extension_oid(EXTENSION, true)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"%s\" is not installed in this database", EXTENSION),
				 errhint("Install it, or ask for a single query: gpujoin_advise('SELECT ...').")));

	SPI_connect();
	query = make_query();
	if (SPI_execute(query, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read %s", EXTENSION);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		GjStatement *statement = read_row(i, context);
		bool		isnull;

		if (statement == NULL || !may_plan(statement))
			*hidden += DatumGetInt64(get(i, COLUMN_STATEMENTS, &isnull));
		else
		{
			MemoryContext old = MemoryContextSwitchTo(context);

			result = lappend(result, statement);
			MemoryContextSwitchTo(old);
		}
	}
	SPI_finish();
	return result;
}

/*
 * The extension may be in any schema.  Operators are PostgreSQL's own, whatever search_path says.
 *
 * With pg_stat_statements.track = all, a statement may have two rows: as a client sent it, and as a
 * function ran it.  We treat them as one statement; if the caller must not see queryid, each row
 * counts separately.  The time of a function's statements is also in the time of the statement that
 * called it, so the total time is that of the statements that clients sent.
 */
static char *
make_query(void)
{
	Oid			schema;
	bool		isnull;
	bool		nests;

	if (SPI_execute("SELECT extnamespace FROM pg_catalog.pg_extension "
					"WHERE extname OPERATOR(pg_catalog.=) '" EXTENSION "'",
					true, 1) != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "could not find the schema of %s", EXTENSION);
	schema = DatumGetObjectId(get(0, 1, &isnull));
	/* the extension may have an old version, for example after pg_upgrade */
	nests = get_attnum(get_relname_relid(EXTENSION, schema), "toplevel") > 0;
	return psprintf("SELECT userid, queryid, pg_catalog.sum(calls)::pg_catalog.int8, "
					"pg_catalog.sum(total_exec_time), "
					"pg_catalog.sum(pg_catalog.sum(total_exec_time) FILTER (WHERE %s)) OVER (), "
					"CASE WHEN queryid IS NULL THEN pg_catalog.count(*) ELSE 1 END, "
					"pg_catalog.min(query) "
					"FROM %s." EXTENSION " WHERE dbid OPERATOR(pg_catalog.=) %u "
					"GROUP BY userid, queryid ORDER BY 4 DESC",
					nests ? "toplevel" : "true", quote_identifier(get_namespace_name(schema)),
					MyDatabaseId);
}

/*
 * Build a statement from a row; returns NULL if we cannot use its text
 */
static GjStatement *
read_row(int i, MemoryContext context)
{
	GjStatement *statement = MemoryContextAllocZero(context, sizeof(GjStatement));
	bool		isnull;
	double		all_time;
	Datum		value;

	statement->user = DatumGetObjectId(get(i, COLUMN_USER, &isnull));
	statement->queryid = DatumGetInt64(get(i, COLUMN_QUERYID, &isnull));
	if (isnull)
		return NULL;
	statement->calls = DatumGetInt64(get(i, COLUMN_CALLS, &isnull));
	statement->time = DatumGetFloat8(get(i, COLUMN_TIME, &isnull));
	all_time = DatumGetFloat8(get(i, COLUMN_ALL_TIME, &isnull));
	statement->share = all_time > 0.0 ? Min(statement->time / all_time, 1.0) : 0.0;
	value = get(i, COLUMN_TEXT, &isnull);
	if (isnull)
		return NULL;
	statement->text = MemoryContextStrdup(context, TextDatumGetCString(value));
	return statement;
}

static Datum
get(int i, int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, column, isnull);
}

static bool
may_plan(const GjStatement *statement)
{
	return SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(statement->user)) &&
		GjMayBecome(statement->user);
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
 * Return a text that can be parsed
 */
char *
GjStatementText(const char *text)
{
	return cast_literals(unsquash(text));
}

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
 * in between, "date$1" might be a name, but hardly is.
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
