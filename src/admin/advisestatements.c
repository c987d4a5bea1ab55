/*-------------------------------------------------------------------------
 *
 * advisestatements.c
 *	  The statements that pg_stat_statements has counted in this database.
 *
 * Its view decides whose texts a user gets to see: his own, or with pg_read_all_stats
 * all.  To plan a statement means more than to read it, as the planner runs functions
 * that are IMMUTABLE, by their authors' word, and it must be known by which schemas their names
 * are looked up.  So a statement is planned as the role that ran it, and only for a caller
 * who might become this role anyway.  What a role has done cannot make others do more then
 * than it could have done itself.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "advise.h"
#include "base/compat.h"

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

static char *make_query(void);
static GjStatement *read_row(int i, MemoryContext context);
static Datum get(int i, int column, bool *isnull);
static bool may_plan(const GjStatement *statement);

/*
 * List the statements that may be planned, those that took most time first; counts in hidden the
 * others
 */
List *
GjReadStatements(int *hidden)
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
 * function ran it.  They are one statement; where the caller must not see queryid, each row counts
 * as one.  What a function's statements took is in the time of the statement that called it as
 * well, so the time of all statements is that of those that clients sent.
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
	/* an old version of the extension may have been kept, by pg_upgrade, say */
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
 * Make a statement of a row; NULL if its text is not for us
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
