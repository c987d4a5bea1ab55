/*-------------------------------------------------------------------------
 *
 * advise.h
 *	  What the parts of gpujoin_advise() and gpujoin_explain_choice() share: where
 *	  statements come from, and how they are planned.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ADMIN_ADVISE_H
#define GPUJOIN_ADMIN_ADVISE_H

#include "nodes/parsenodes.h"

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
	GJ_ADVISE_NOT_PLANNED,		/* the statement is none that the planner plans */
	GJ_ADVISE_FAILED			/* it could not be planned */
} GjAdviseResult;

extern GjAdviseResult GjAdviseStatement(GjStatement *statement);
extern Cost GjStatementCost(const GjStatement *statement, const GjNewIndex *index, Cost known,
							int64 *size);
extern void GjExplainStatement(const char *text);

#endif							/* GPUJOIN_ADMIN_ADVISE_H */
