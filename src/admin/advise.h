/*-------------------------------------------------------------------------
 *
 * advise.h
 *	  What the parts of gpujoin_advise() share: the function, and where statements come
 *	  from.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ADMIN_ADVISE_H
#define GPUJOIN_ADMIN_ADVISE_H

#include "nodes/pg_list.h"

#include "plan/plan.h"

/* A statement that was run */
typedef struct GjStatement
{
	Oid			user;			/* who ran it; invalid: it is the caller's, and only a text */
	int64		queryid;
	int64		calls;
	double		time;			/* ms, of all calls */
	double		share;			/* of the time of all statements of this database */
	char	   *text;
	List	   *advice;			/* of GjAdvice */
	const char *failure;		/* why it could not be planned; NULL: it was */
} GjStatement;

/* advisestatements.c */
extern List *GjReadStatements(int *hidden);

/* advisetext.c */
extern char *GjStatementText(const char *text);

/* adviseplan.c */
typedef enum GjAdviseResult
{
	GJ_ADVISE_OK,
	GJ_ADVISE_NO_READER,		/* the statement is none that is looked at */
	GJ_ADVISE_FAILED			/* it could not be planned */
} GjAdviseResult;

extern GjAdviseResult GjAdviseStatement(GjStatement *statement);
extern Cost GjStatementCost(const GjStatement *statement, const GjNewIndex *index, Cost known,
							int64 *size);

#endif							/* GPUJOIN_ADMIN_ADVISE_H */
