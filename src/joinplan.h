/*-------------------------------------------------------------------------
 *
 * joinplan.h
 *	  What the parts of GpuJoin agree on: what a path is made of, what a plan
 *	  carries to the executor, what that reports to EXPLAIN.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_JOINPLAN_H
#define GPUJOIN_JOINPLAN_H

#include "exec.h"
#include "plan.h"
#include "smallside.h"

/*
 * What is returned.  "Right" as in EXPLAIN of a hash join: the side that was
 * collected, here the small one, is the one whose rows are kept.
 */
typedef enum GjJoinKind
{
	GJ_JOIN_INNER,				/* each pair that matches */
	GJ_JOIN_SEMI,				/* each big row that has a match, once */
	GJ_JOIN_RIGHT_SEMI,			/* each small row that has a match, once */
	GJ_JOIN_RIGHT,				/* each pair, and each small row without a match */
	GJ_JOIN_RIGHT_ANTI			/* each small row without a match */
} GjJoinKind;

/* Are small rows returned that have no match, those with a NULL key included? */
#define GjJoinKeepsUnmatched(kind) \
	((kind) == GJ_JOIN_RIGHT || (kind) == GJ_JOIN_RIGHT_ANTI)

/* Must it be known which small rows have had a match? */
#define GjJoinMarksSmall(kind) \
	((kind) == GJ_JOIN_RIGHT_SEMI || GjJoinKeepsUnmatched(kind))

/* What a path is made of */
typedef struct GjJoinCandidate
{
	RelOptInfo *joinrel;
	RelOptInfo *big;
	RelOptInfo *small;
	IndexOptInfo *index;
	GjClause	key;
	GjJoinKind	kind;
	List	   *restrictlist;	/* all clauses of the join */
} GjJoinCandidate;

/* custom_private of a path: a list indexed by these; a path is never copied */
typedef enum GjJoinPathPrivate
{
	GJ_JOIN_PATH_BIG,				/* RelOptInfo */
	GJ_JOIN_PATH_INDEX,			/* IndexOptInfo */
	GJ_JOIN_PATH_KEY,				/* RestrictInfo that the index answers */
	GJ_JOIN_PATH_RESTRICTLIST,		/* all clauses of the join, that one included */
	GJ_JOIN_PATH_KIND,				/* Integer: GjJoinKind */
	GJ_JOIN_PATH_COUNT
} GjJoinPathPrivate;

/* custom_private of a plan: a list indexed by these */
typedef enum GjJoinPrivate
{
	GJ_JOIN_INDEX_OID,			/* Oid list of one */
	GJ_JOIN_KIND,				/* Integer: GjJoinKind */
	GJ_JOIN_BIG_COLUMNS,		/* Integer: how many columns of custom_scan_tlist, from
								 * the first on, are of the big table; at least one */
	GJ_JOIN_KEY_ATTNO,			/* Integer: heap attribute that is the key, 0: expression */
	GJ_JOIN_VALUE_PROC,			/* Oid list of one: key extraction of the small side */
	GJ_JOIN_PRIVATE_COUNT
} GjJoinPrivate;

/*
 * custom_exprs of a plan: a list indexed by these.  The filters of the big table
 * are the plan's qual.
 */
typedef enum GjJoinExprs
{
	GJ_JOIN_KEY_QUALS,			/* list of one: the clause that the index answers */
	GJ_JOIN_KEY_EXPR,			/* its side of the big table */
	GJ_JOIN_VALUE_EXPR,			/* its side of the small side */
	GJ_JOIN_QUALS,				/* list: decide whether a pair matches */
	GJ_JOIN_OTHER_QUALS,		/* list: decide which result rows, also those without a
								 * match, are returned */
	GJ_JOIN_EXPRS_COUNT
} GjJoinExprs;

/* What a join did so far */
typedef struct GjJoinReport
{
	GjMatchStats match;
	const GjFetchStats *fetch;
	const GjSmallStats *small;
	uint64		removed_above;	/* result rows that the other quals removed */
} GjJoinReport;

/* planjoin.c */
extern bool GjJoinClauseMatches(PlannerInfo *root, GjJoinCandidate *cand, RestrictInfo *rinfo);

/* explainjoin.c */
extern void GjExplainJoin(CustomScanState *node, List *ancestors, ExplainState *es,
						  const GjJoinReport *report);

#endif							/* GPUJOIN_JOINPLAN_H */
