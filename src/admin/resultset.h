/*-------------------------------------------------------------------------
 *
 * resultset.h
 *	  Building the rows of set-returning functions, one value at a time.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ADMIN_RESULTSET_H
#define GPUJOIN_ADMIN_RESULTSET_H

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/compat.h"

#define MAX_COLUMNS				48

/* Values of a row, filled in order */
typedef struct Row
{
	Datum		values[MAX_COLUMNS];
	bool		nulls[MAX_COLUMNS];
	int			n;
} Row;

/*
 * Begin a set of rows of this many columns.  The function of an older version of the extension may
 * lack some of the last ones, but has at least "least" columns.
 */
static inline ReturnSetInfo *
start_rows_from(FunctionCallInfo fcinfo, int least, int ncolumns)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	if (rsinfo->setDesc->natts < least || rsinfo->setDesc->natts > ncolumns)
		elog(ERROR, "%s() has another number of columns", get_func_name(fcinfo->flinfo->fn_oid));
	return rsinfo;
}

static inline ReturnSetInfo *
start_rows(FunctionCallInfo fcinfo, int ncolumns)
{
	return start_rows_from(fcinfo, ncolumns, ncolumns);
}

static inline void
add_null(Row *row)
{
	row->nulls[row->n++] = true;
}

static inline void
add_text(Row *row, const char *value)
{
	if (value[0] == '\0')
		add_null(row);
	else
		row->values[row->n++] = CStringGetTextDatum(value);
}

static inline void
add_int(Row *row, uint64 value)
{
	row->values[row->n++] = Int64GetDatum((int64) value);
}

static inline void
add_time(Row *row, TimestampTz value)
{
	if (value == 0)
		add_null(row);
	else
		row->values[row->n++] = TimestampTzGetDatum(value);
}

static inline void
add_oid(Row *row, Oid value)
{
	if (!OidIsValid(value))
		add_null(row);
	else
		row->values[row->n++] = ObjectIdGetDatum(value);
}

static inline void
add_double(Row *row, double value)
{
	row->values[row->n++] = Float8GetDatum(value);
}

#endif							/* GPUJOIN_ADMIN_RESULTSET_H */
