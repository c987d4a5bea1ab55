/*-------------------------------------------------------------------------
 *
 * agg.h
 *	  Planning of GpuAgg: which aggregates and groups it computes, over which paths.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PLAN_AGG_H
#define GPUJOIN_PLAN_AGG_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

#include "node/aggplan.h"

/* aggquery.c: the paths that we offered for a relation */
extern void GjOfferNote(const CustomPath *path);
extern CustomPath *GjOfferFind(const RelOptInfo *rel, bool is_partial);

/* What a GpuAgg computes.  Planner's memory; no Node. */
typedef struct GjAggQuery
{
	List	   *groupings;		/* Expr: what rows are grouped by */
	List	   *aggregates;		/* Aggref, each once */
	List	   *having;			/* clauses, implicitly ANDed */
	bool		is_distinct;	/* SELECT DISTINCT */
	bool		is_partial;		/* the aggregates are states, for a node above Gather */
	double		ngroups;		/* estimate, before HAVING */
	List	   *coded;			/* Var: those of groupings for whose values numbers are taken */
	const char *refused;		/* why it cannot be done; NULL: it can */
} GjAggQuery;

/* custom_private of a path: a list indexed by these; a path is never copied */
typedef enum GjAggPathPrivate
{
	GJ_AGG_PATH_QUERY,			/* GjAggQuery, no Node */
	GJ_AGG_PATH_COUNT
} GjAggPathPrivate;

/* aggquery.c: reading the query */
extern void GjAggReadGroups(PlannerInfo *root, RelOptInfo *grouped, List *having,
							GjAggQuery *query);
extern void GjAggReadDistinct(PlannerInfo *root, PathTarget *target, GjAggQuery *query);
extern bool GjAggTakesFrom(const GjAggQuery *query, const PathTarget *target);
extern bool GjValueTypeOf(Oid type, GjValueType *value_type);
extern bool GjAggregateOf(const Aggref *aggref, GjAggKind *kind);
extern Expr *GjAggregateArgument(const Aggref *aggref);
extern bool GjAggEncodes(const GjAggQuery *query, const Path *child);

/* aggpath.c: the paths */
extern void GjAddUpperPaths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
							RelOptInfo *output, void *extra);
extern Path *GjPathWithTarget(PlannerInfo *root, Path *path, PathTarget *target);

/* distinct.c: SELECT DISTINCT of rows that are distinct anyway */
extern Path *GjFindDistinctPath(PlannerInfo *root, RelOptInfo *input);

/* aggpath.c: the plan */
extern const CustomPathMethods GjAggPathMethods;
extern const CustomPathMethods GjPartialAggPathMethods;

#endif							/* GPUJOIN_PLAN_AGG_H */
