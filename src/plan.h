/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  What the planner's side and the executor's side agree on: which clauses
 *	  an index answers, what a plan carries, what it costs.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PLAN_H
#define GPUJOIN_PLAN_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

#include "keyplan.h"

/*
 * A clause "key = value" or "key = ANY(array)" that a gpujoin index answers.  The
 * other side is free of the index's relation and not volatile; for a join clause
 * it speaks of the small side, for a scan clause it is constant during a scan.
 */
typedef struct GjClause
{
	RestrictInfo *rinfo;
	Expr	   *key_expr;		/* the index's side, as the clause has it */
	Expr	   *value_expr;		/* the other side: a value, or an array */
	bool		is_array;
	Oid			opno;			/* the equality, with the key on the left */
	Oid			value_type;		/* of a value, or of the array's elements, as the
								 * operator takes it */
	Oid			key_proc;		/* key extraction for value_type */
} GjClause;

/* planmatch.c: recognising */
extern bool GjRelationEligible(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);
extern bool GjRelationSearchable(RelOptInfo *rel, RangeTblEntry *rte);
extern bool GjIndexIsOurs(const IndexOptInfo *index);
extern bool GjIndexEligible(IndexOptInfo *index);
extern bool GjClauseMatches(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
							RestrictInfo *rinfo, GjClause *clause);

/*
 * A condition on the key, folded into sources of keys.  Planner's memory; no Node.
 */
typedef struct GjSource
{
	GjSourceKind kind;
	GjConversion conversion;
	Expr	   *value;			/* a value, an array, or for GJ_SOURCE_NULL a boolean */
	Oid			opno;			/* the comparison, with the key on the left */
	Oid			cast;			/* of the key by a function, or invalid */
	Oid			value_type;		/* of the value, or of the array's elements */
	Oid			key_proc;		/* GJ_CONVERT_PROC: key extraction */
} GjSource;

typedef struct GjKeyNode
{
	GjKeyStep	step;
	List	   *operands;		/* GJ_STEP_AND, GJ_STEP_OR: list of GjKeyNode */
	GjSource	source;			/* GJ_STEP_SOURCE */
} GjKeyNode;

typedef struct GjKeyCondition
{
	RestrictInfo *rinfo;
	GjKeyNode  *node;
	bool		exact;			/* else the clause is to be tested on each row besides */
} GjKeyCondition;

/* planfold.c: clauses to conditions on the key */
extern GjKeyCondition *GjFoldClause(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
									RestrictInfo *rinfo);

/* planfoldtree.c: the tree, and the plan made of it */
extern GjKeyNode *GjMakeSource(const GjSource *source);
extern GjKeyNode *GjMakeAnd(List *operands);
extern GjKeyNode *GjMakeOr(List *operands);
extern List *GjMakeKeyPlan(List *conditions, List **values);

/* planpartition.c: through which partitions one comes to a table */
extern List *GjFindPartitions(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
							  double *share);
extern bool GjIndexKeepsValues(const IndexOptInfo *index);
extern Var *GjOnlyPartitionKey(const RelOptInfo *rel);

/* planindexonly.c: can the heap be left out? */
extern bool GjIndexOnlyCovers(RelOptInfo *rel, IndexOptInfo *index, List *filters,
							  List **attnos);
extern bool GjIndexOnlyHas(IndexOptInfo *index, Index varno, List *exprs, List **attnos);

/* plan/filter.c: which filters can be tested on entries? */
extern List *GjFilterClauses(RelOptInfo *rel, const IndexOptInfo *index, List *rinfos);
extern List *GjMakeFilterPlan(const IndexOptInfo *index, Index varno, List *quals,
							  List **values);
extern Selectivity GjFilterShare(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
								 List *rinfos);

/* plancost.c: the formulas */
typedef struct GjCostInput
{
	RelOptInfo *rel;			/* the big table */
	IndexOptInfo *index;
	double		nkeys;			/* distinct keys expected */
	double		key_share;		/* of which the table is searched for this part; 0: all */
	double		nmatches;		/* TIDs expected */
	Selectivity filtered;		/* the share of them that filters of entries drop */
	bool		complement;		/* the keys are those of no list: the CPU has to search */
	QualCost	quals;			/* evaluated on each fetched tuple */
	bool		index_only;		/* all-visible pages need not be read */
	int			workers;		/* that share the fetch, besides the leader */
} GjCostInput;

extern Cost GjCostMatch(const IndexOptInfo *index, double nkeys, double nmatches);
extern Cost GjCostBitmap(const IndexOptInfo *index, double nkeys, double nmatches);
extern void GjCostSearch(PlannerInfo *root, const GjCostInput *input,
						 Cost *startup, Cost *run);
extern void GjCostSearchBy(PlannerInfo *root, const GjCostInput *input, bool device,
						   Cost *startup, Cost *run);
extern double GjHeapPages(const RelOptInfo *rel, double nmatches);
extern double GjParallelDivisor(int workers);
extern int	GjCountWorkers(const GjCostInput *input);

/* planrows.c: how many keys a scan's conditions bring, and what share of the rows they take */
extern Selectivity GjEstimateConditions(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
										List *conditions, double *nkeys);
extern bool GjSourceIsUnknown(const GjSource *source);
extern bool GjNodeIsComplement(GjKeyNode *node);
extern double GjKeyCorrelation(PlannerInfo *root, IndexOptInfo *index);

/* planbitmap.c: which indexes core need not make bitmap scans of */
extern void GjHideFromChains(PlannerInfo *root, RelOptInfo *rel);

/* planmirror.c: which indexes a device holds, as far as is known */
extern void GjNoteMirrors(RelOptInfo *rel);
extern bool GjIndexIsResident(Oid index_oid);

/*
 * custom_private of a GpuScan path: a list indexed by these.  A path is never
 * copied, so planner nodes may be in it.
 */
typedef enum GjScanPathPrivate
{
	GJ_SCAN_PATH_INDEX,			/* IndexOptInfo */
	GJ_SCAN_PATH_CLAUSES,		/* list of RestrictInfo: what the index answers */
	GJ_SCAN_PATH_CONDITIONS,	/* list of GjKeyCondition, no Node: the same, folded */
	GJ_SCAN_PATH_INDEX_ONLY,	/* Boolean: may rows come from the index alone? */
	GJ_SCAN_PATH_ATTNOS,		/* int list: attributes they then have */
	GJ_SCAN_PATH_COUNT
} GjScanPathPrivate;

/*
 * custom_private of a GpuScan plan: a list indexed by these.  Expressions are
 * never here (setrefs.c would not see them) but in custom_exprs.
 */
typedef enum GjScanPrivate
{
	GJ_SCAN_INDEX_OID,			/* Oid list of one */
	GJ_SCAN_KEY_PLAN,			/* the conditions on the key: keyplan.h */
	GJ_SCAN_KEY_ATTNO,			/* Integer: heap attribute that is the key, 0: expression */
	GJ_SCAN_INDEX_ONLY,			/* Boolean: may rows come from the index alone? */
	GJ_SCAN_ATTNOS,				/* int list: heap attributes they then have */
	GJ_SCAN_PARTITIONS,			/* Oid list: partitioned tables, from the top down, invalid if
								 * the key does not divide them, each followed by the
								 * partition that the table is or belongs to */
	GJ_SCAN_FILTER_PLAN,		/* the filters that entries are tested by: filterplan.h */
	GJ_SCAN_PRIVATE_COUNT
} GjScanPrivate;

/* custom_exprs of a GpuScan plan: a list indexed by these */
typedef enum GjScanExprs
{
	GJ_SCAN_VALUES,				/* list: the values of the key plan's sources */
	GJ_SCAN_KEY,				/* the key, as the index has it */
	GJ_SCAN_FILTER_VALUES,		/* list: the values of the filter plan */
	GJ_SCAN_EXPRS_COUNT
} GjScanExprs;

/* planscan.c, planjoin.c: the bodies of the two path list hooks */
extern void GjAddScanPaths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte);
extern void GjAddJoinPaths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
						   RelOptInfo *innerrel, JoinType jointype,
						   JoinPathExtraData *extra);

/* plansubquery.c: the same for a subquery */
extern void GjAddSubqueryPaths(PlannerInfo *root, RelOptInfo *rel);

/*
 * planhooks.c: GjAddPath is add_path for our paths, GjAddPartialPath add_partial_path
 * for those of which each process gives a share.  They set the costs, which under
 * gpujoin.force is not what they are, and make room under it, since add_path would free
 * a path of ours that costs more than another.
 */
extern void GjAddPath(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, Cost startup,
					  Cost run);
extern void GjAddPartialPath(RelOptInfo *rel, CustomPath *path, Cost startup, Cost run);
extern bool GjPathIsOurs(const Path *path);

/* execscan.c, execjoin.c: what CreateCustomScanState points to */
extern const CustomScanMethods GjScanPlanMethods;
extern const CustomScanMethods GjJoinPlanMethods;

/* planscan.c, planjoin.c: to tell our paths from others */
extern const CustomPathMethods GjScanPathMethods;
extern const CustomPathMethods GjJoinPathMethods;

#endif							/* GPUJOIN_PLAN_H */
