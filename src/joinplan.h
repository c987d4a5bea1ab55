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

#include "nodes/pathnodes.h"

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
	RelOptInfo *big;			/* a table, or one that stands for several (Append) */
	RelOptInfo *small;
	List	   *tables;			/* of the big side: RelOptInfo of each that is scanned */
	List	   *scans;			/* list of GjJoinScan, one for each of these */
	RestrictInfo *rinfo;		/* the clause that the indexes answer */
	GjClause	key;			/* it, as the first table's index answers it */
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
	GjClause	key;			/* the join's clause, written for this table */
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

/* custom_private of a plan: a list indexed by these */
typedef enum GjJoinPrivate
{
	GJ_JOIN_KIND,				/* Integer: GjJoinKind */
	GJ_JOIN_BIG_COLUMNS,		/* Integer: how many columns of custom_scan_tlist, from
								 * the first on, are of the big side; at least one */
	GJ_JOIN_VALUE_PROC,			/* Oid list of one: key extraction of the small side */
	GJ_JOIN_PARTITIONS,			/* where keys tell the partition of the first level: for each
								 * table an Oid list, the partitions from there down to it */
	GJ_JOIN_PRIVATE_COUNT
} GjJoinPrivate;

/* custom_exprs of a plan: a list indexed by these */
typedef enum GjJoinExprs
{
	GJ_JOIN_KEY_QUALS,			/* list of one: the clause that the indexes answer */
	GJ_JOIN_VALUE_EXPR,			/* its side of the small side */
	GJ_JOIN_QUALS,				/* list: decide whether a pair matches */
	GJ_JOIN_OTHER_QUALS,		/* list: decide which result rows, also those without a
								 * match, are returned */
	GJ_JOIN_EXPRS_COUNT
} GjJoinExprs;

/*
 * custom_plans of a plan: the small side's plan, then one GpuJoinScan for each
 * table of the big side.  That has the table's filters as its qual and the joined
 * row's big columns, in their order, as its target list; custom_private is a list
 * indexed by these, custom_exprs the indexed expression and the values of the filter plan.
 */
typedef enum GjJoinScanPrivate
{
	GJ_JOIN_SCAN_INDEX_OID,		/* Oid list of one */
	GJ_JOIN_SCAN_KEY_ATTNO,		/* Integer: heap attribute that is the key, 0: expression */
	GJ_JOIN_SCAN_INDEX_ONLY,	/* Boolean: may rows come from the index alone? */
	GJ_JOIN_SCAN_ATTNOS,		/* int list: heap attributes they then have */
	GJ_JOIN_SCAN_FILTER_PLAN,	/* the filters that entries are tested by: filterplan.h */
	GJ_JOIN_SCAN_PRIVATE_COUNT
} GjJoinScanPrivate;

/* What a join did so far, besides the scans */
typedef struct GjJoinReport
{
	const GjSmallStats *small;
	GjSmallStats workers;		/* the largest of parallel workers' small sides, once known */
	uint64		removed_above;	/* result rows that the other quals removed */
} GjJoinReport;

/* planjointables.c */
extern List *GjJoinTables(PlannerInfo *root, RelOptInfo *big);
extern bool GjJoinIsByKey(PlannerInfo *root, const GjJoinCandidate *cand);
extern List *GjJoinPartitions(PlannerInfo *root, RelOptInfo *table, RelOptInfo *big);
extern Expr *GjJoinKeyExpr(const GjJoinCandidate *cand);
extern GjJoinScan *GjJoinChooseScan(PlannerInfo *root, const GjJoinCandidate *cand,
									RelOptInfo *table);
extern void GjJoinCostScan(PlannerInfo *root, const GjJoinCandidate *cand, GjJoinScan *scan);
extern Plan *GjPlanJoinScan(PlannerInfo *root, const GjJoinCandidate *cand,
							const GjJoinScan *scan, List *columns);

/* planjoinclauses.c */
extern List *GjOrderClauses(PlannerInfo *root, List *rinfos);
extern List *GjBareClauses(List *rinfos);

/* execjoinscan.c */
extern const CustomScanMethods GjJoinScanPlanMethods;

/* explainjoin.c */
extern void GjExplainJoin(CustomScanState *node, List *ancestors, ExplainState *es,
						  const GjJoinReport *report);

#endif							/* GPUJOIN_JOINPLAN_H */
