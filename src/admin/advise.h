/*-------------------------------------------------------------------------
 *
 * advise.h
 *	  Declarations shared by gpujoin_advise() and gpujoin_explain_choice(): reading
 *	  and planning statements.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ADMIN_ADVISE_H
#define GPUJOIN_ADMIN_ADVISE_H

#include "nodes/parsenodes.h"

#include "plan/plan.h"

/* A statement to advise on */
typedef struct GjStatement
{
	Oid			user;			/* role that ran it; invalid for a text from the caller */
	int64		queryid;
	int64		calls;
	double		time;			/* total time of all calls, in ms */
	double		share;			/* share of the time of all statements of this database */
	char	   *text;
	List	   *advice;			/* of GjAdvice */
	const char *failure;		/* why it could not be planned, or NULL */
} GjStatement;

/* advise.c */
extern char *GjStatementText(const char *text);

/* analyze.c */
#define GJ_NOT_PLANNED			ERRCODE_FEATURE_NOT_SUPPORTED

extern Query *GjAnalyze(const char *text, bool guesses, const char *caller);
extern bool GjHasParameters(const char *text);

/* adviseplan.c */
typedef enum GjAdviseResult
{
	GJ_ADVISE_OK,
	GJ_ADVISE_NOT_PLANNED,		/* a statement that the planner does not handle */
	GJ_ADVISE_FAILED			/* planning failed */
} GjAdviseResult;

extern GjAdviseResult GjAdviseStatement(GjStatement *statement);
extern Cost GjStatementCost(const GjStatement *statement, const GjNewIndex *index, Cost known,
							int64 *size);
extern void GjExplainStatement(const char *text);

#endif							/* GPUJOIN_ADMIN_ADVISE_H */
