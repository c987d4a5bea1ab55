/*-------------------------------------------------------------------------
 *
 * advise.h
 *	  Planning statements for gpujoin_advise() and gpujoin_explain_choice(): which new
 *	  indexes would pay, and what a query would cost with them.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ADVISE_H
#define GPUJOIN_ADVISE_H

#include "nodes/parsenodes.h"

#include "plan/plan.h"

/* Costs of a query with and without a new index */
typedef struct GjAdvice
{
	GjNewIndex	index;
	Cost		cost_now;		/* of the query, without the index */
	Cost		cost_with;		/* of the query, with it; 0: not estimated */
	Oid			replaces;		/* an index of ours with the same key, or invalid */
	const char *refused;		/* why the index would not pay, or NULL */
	const char *assumed;		/* the basis of the costs, or NULL */
} GjAdvice;

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

typedef enum GjAdviseResult
{
	GJ_ADVISE_OK,
	GJ_ADVISE_NOT_PLANNED,		/* a statement that the planner does not handle */
	GJ_ADVISE_FAILED			/* planning failed */
} GjAdviseResult;

/* statement.c */
extern GjAdviseResult GjAdviseStatement(GjStatement *statement);
extern Cost GjStatementCost(const GjStatement *statement, const GjNewIndex *index, Cost known,
							int64 *size);

/* price.c */
extern List *GjAdviseQuery(const Query *query, const char *text);
extern Cost GjPriceIndex(const Query *query, const char *text, GjNewIndex *index);
extern GjTrial *GjTrialStart(const Query *query, const char *text);

#endif							/* GPUJOIN_ADVISE_H */
