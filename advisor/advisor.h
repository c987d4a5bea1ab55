/*-------------------------------------------------------------------------
 *
 * advisor.h
 *	  Planning statements as if they had other indexes: which new ones would pay.
 *
 * This library uses PostgreSQL, the headers of gpujoin for types and constants, and of its
 * functions and variables only what advise/advise.h lists, by way of the border.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ADVISOR_H
#define GPUJOIN_ADVISOR_H

#include "nodes/bitmapset.h"
#include "nodes/params.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

#include "advise/advise.h"

/* An index that does not exist, with which a query can be planned */
typedef struct GjNewIndex
{
	Oid			table;			/* if partitioned, each partition has such an index */
	AttrNumber	key;
	Bitmapset  *included;		/* numbers of the INCLUDE columns */
} GjNewIndex;

/* A query that is planned several times */
typedef struct GjTrial
{
	const Query *query;
	const char *text;
	ParamListInfo params;		/* values for arrays of unknown length only */
} GjTrial;

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

/* propose.c: the library of gpujoin */
extern const GjBorder *gj;

/* statement.c */
extern GjAdviseResult GjAdviseStatement(GjStatement *statement);
extern Cost GjStatementCost(const GjStatement *statement, const GjNewIndex *index, Cost known,
							int64 *size);

/* price.c */
extern List *GjAdviseQuery(const Query *query, const char *text);
extern Cost GjPriceIndex(const Query *query, const char *text, GjNewIndex *index);
extern GjTrial *GjTrialStart(const Query *query, const char *text);
extern void GjTrialNote(PlannerInfo *root, RelOptInfo *rel);

/* newindex.c: planning a query as if it had other indexes (GjNewIndex) */
extern PlannedStmt *GjNewIndexPlan(const GjTrial *trial, const List *indexes);
extern int64 GjNewIndexSize(const GjNewIndex *index);
extern bool GjNewIndexFits(const GjNewIndex *index);
extern Oid	GjNewIndexClass(Oid table, AttrNumber attno);

#endif							/* GPUJOIN_ADVISOR_H */
