/*-------------------------------------------------------------------------
 *
 * propose.c
 *	  gpujoin_propose(): propose indexes that would pay, for the statements in
 *	  pg_stat_statements or for one query.
 *
 * price.c makes one proposal for each table of a statement.  Proposals with the same key
 * become one index, with the INCLUDE columns of all, and its costs are estimated again: a
 * wider index costs a little more to read.
 *
 * Proposals are sorted by the time that they would save, assuming that a statement's time falls
 * in proportion to its cost.  Indexes that would not pay come last, with the reason.
 *
 * This is also the library's entry.  It works with the gpujoin of its own version only: both use
 * the same structs of the planner and of the index's format.  A server that has preloaded gpujoin
 * keeps the old one until it is restarted, whatever is installed.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

#include "advisor.h"
#include "base/compat.h"
#include "base/settings.h"

PG_MODULE_MAGIC;

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
	const char *opclass;		/* of the key, quoted; NULL if it is the default */
	const char *included[GJ_MAX_INCLUDED];
	int			n;
} Names;

PG_FUNCTION_INFO_V1(gpujoin_propose);
PG_FUNCTION_INFO_V1(gpujoin_propose_query);

const GjBorder *gj = NULL;

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

void		_PG_init(void);

static ReturnSetInfo *start_rows(FunctionCallInfo fcinfo, int ncolumns);
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
static List *read_statements(int *hidden);

/*
 * Find gpujoin, which PostgreSQL loads now if it has not yet
 */
void
_PG_init(void)
{
	GjBorderFunction find = (GjBorderFunction)
		load_external_function(GJ_LIBRARY, GJ_BORDER, false, NULL);
	const GjBorder *found = find != NULL ? find() : NULL;

	if (found == NULL || strcmp(found->version, GJ_VERSION) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("gpujoin_advisor %s needs gpujoin %s", GJ_VERSION, GJ_VERSION),
				 found == NULL ? errdetail("The library of gpujoin in use is an older one.") :
				 errdetail("The library of gpujoin in use is version %s.", found->version),
				 errhint("Install both in the same version, and restart the server if it "
						 "preloads gpujoin.")));
	gj = found;
}

/*
 * gpujoin_propose(): propose indexes for the statements of pg_stat_statements
 */
Datum
gpujoin_propose(PG_FUNCTION_ARGS)
{
	int			hidden;
	int			failed = 0;
	ReturnSetInfo *rsinfo = start_rows(fcinfo, ALL_COLUMNS);
	List	   *statements;
	ListCell   *lc;

	statements = read_statements(&hidden);
	foreach(lc, statements)
	{
		CHECK_FOR_INTERRUPTS();
		failed += GjAdviseStatement(lfirst(lc)) == GJ_ADVISE_FAILED;
	}
	note_statements(hidden, failed);
	foreach(lc, collect_proposals(statements))
		report(lfirst(lc), rsinfo, 0);
	report_failures(statements, rsinfo);
	return (Datum) 0;
}

/*
 * gpujoin_propose(query): propose indexes for one query, with $1 for unknown values
 */
Datum
gpujoin_propose_query(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = start_rows(fcinfo, ALL_COLUMNS - STATEMENT_COLUMNS);
	GjStatement *statement = palloc0(sizeof(GjStatement));
	ListCell   *lc;

	statement->text = text_to_cstring(PG_GETARG_TEXT_PP(0));
	statement->calls = 1;
	statement->time = 1.0;
	(void) GjAdviseStatement(statement);
	foreach(lc, collect_proposals(list_make1(statement)))
		report(lfirst(lc), rsinfo, STATEMENT_COLUMNS);
	return (Datum) 0;
}

/*
 * Start to return rows.  The function that was called may be that of another extension, by the old
 * name, or be of another version than this library.
 */
static ReturnSetInfo *
start_rows(FunctionCallInfo fcinfo, int ncolumns)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts != ncolumns)
		elog(ERROR, "%s() has another number of columns", get_func_name(fcinfo->flinfo->fn_oid));
	return rsinfo;
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
	GjNewIndex	all = proposal->index;

	all.included = bms_union(proposal->index.included, advice->index.included);
	use->statement = statement;
	use->advice = advice;
	proposal->uses = lappend(proposal->uses, use);
	if (GjNewIndexFits(&all))
		proposal->index = all;
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
	Oid			opclass;

	names->table = get_rel_name(index->table);
	names->schema = get_namespace_name(get_rel_namespace(index->table));
	names->key = get_column(index->table, index->key);
	if (names->table == NULL || names->schema == NULL || names->key == NULL)
		return NULL;
	opclass = GjNewIndexClass(index->table, index->key);
	if (OidIsValid(opclass) &&
		opclass != GetDefaultOpClass(get_atttype(index->table, index->key),
									 get_index_am_oid(GJ_NAME, false)))
		names->opclass = generate_opclass_name(opclass);
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
	appendStringInfo(&command, "CREATE INDEX ON %s USING %s (%s%s%s)",
					 quote_qualified_identifier(names->schema, names->table), GJ_NAME,
					 quote_identifier(names->key), names->opclass != NULL ? " " : "",
					 names->opclass != NULL ? names->opclass : "");
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
 * Read the statements that pg_stat_statements has counted in this database.
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
				 errhint("Install it, or ask for a single query: gpujoin_propose('SELECT ...').")));

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
