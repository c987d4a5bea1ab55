/*-------------------------------------------------------------------------
 *
 * joinpath.h
 *	  Paths of GpuJoin: what the planner's files for joins use of each other.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PLAN_JOINPATH_H
#define GPUJOIN_PLAN_JOINPATH_H

#include "node/joinplan.h"
#include "planner.h"

/* What a path is made of */
typedef struct GjJoinCandidate
{
	RelOptInfo *joinrel;
	RelOptInfo *big;			/* a table, or one that stands for several (Append) */
	RelOptInfo *small;
	List	   *tables;			/* of the big side: RelOptInfo of each that is scanned */
	List	   *scans;			/* list of GjJoinScan, one for each of these */
	RestrictInfo *rinfo;		/* the clause that the indexes answer */
	GjSource	key;			/* it, as the first table's index answers it */
	GjJoinKind	kind;
	List	   *restrictlist;	/* all clauses of the join */
	bool		by_key;			/* the big side is partitioned by the key alone */
	Path	   *small_path;
	int			workers;		/* that share the big side, besides the leader */
	double		nkeys;			/* distinct keys of the small side, estimated */
	double		nbatches;		/* into which it falls */
	Selectivity selectivity;	/* share of all pairs that have equal keys */
} GjJoinCandidate;

/* How one table of the big side is scanned */
typedef struct GjJoinScan
{
	RelOptInfo *table;
	IndexOptInfo *index;
	GjSource	key;			/* the join's clause, written for this table */
	bool		index_only;		/* the index has all columns that are needed */
	struct GjJoinScan *other;	/* another way, if there are two: the one with a bigger
								 * index that has all columns, the other without */
	double		nmatches;		/* TIDs expected */
	Selectivity filtered;		/* the share of them that filters of entries drop */
	double		rows;			/* expected to pass the table's filters, in a process */
	Cost		startup;
	Cost		run;
} GjJoinScan;

/* custom_private of a path: a list indexed by these; a path is never copied */
typedef enum GjJoinPathPrivate
{
	GJ_JOIN_PATH_CANDIDATE,		/* GjJoinCandidate, no Node */
	GJ_JOIN_PATH_COUNT
} GjJoinPathPrivate;

/* jointables.c */
extern List *GjJoinTables(PlannerInfo *root, RelOptInfo *big);
extern RestrictInfo *GjJoinClauseOf(PlannerInfo *root, RestrictInfo *rinfo, RelOptInfo *table,
									RelOptInfo *big);
extern bool GjJoinIsByKey(PlannerInfo *root, const GjJoinCandidate *cand);
extern List *GjJoinPartitions(PlannerInfo *root, RelOptInfo *table, RelOptInfo *big);
extern Expr *GjJoinKeyExpr(const GjJoinCandidate *cand);
extern GjJoinScan *GjJoinChooseScan(PlannerInfo *root, const GjJoinCandidate *cand,
									RelOptInfo *table);
extern Plan *GjPlanJoinScan(PlannerInfo *root, const GjJoinCandidate *cand,
							const GjJoinScan *scan, List *columns);

/* joinpath.c */
extern List *GjOrderClauses(PlannerInfo *root, List *rinfos);
extern List *GjBareClauses(List *rinfos);

#endif							/* GPUJOIN_PLAN_JOINPATH_H */
