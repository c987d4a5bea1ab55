/*-------------------------------------------------------------------------
 *
 * planner.h
 *	  What the planner's files use of each other: which clauses an index answers,
 *	  what a path carries, what it costs.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PLAN_PLANNER_H
#define GPUJOIN_PLAN_PLANNER_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

#include "node/keyplan.h"
#include "pages/pages.h"
#include "plan.h"

/* eligible.c: which tables and indexes are for us */
extern const char *GjRefuseTable(RelOptInfo *rel, const RangeTblEntry *rte, int min_rows);
extern bool GjIndexIsOurs(const IndexOptInfo *index);
extern bool GjIndexEligible(const IndexOptInfo *index);
extern const char *GjRefuseIndex(const IndexOptInfo *index);
extern bool GjIndexKeepsValues(const IndexOptInfo *index);
extern List *GjKeyPredicate(const IndexOptInfo *index);
extern Expr *GjIndexKeyExpr(const IndexOptInfo *index);

/* With gpujoin.force: keeps the order among our own paths, and puts all before any other */
#define GJ_FORCED_COST_SCALE	1.0e-6

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

/* conditions.c: clauses to conditions on the key */
extern GjKeyCondition *GjFoldClause(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
									RestrictInfo *rinfo, const char **refused);
extern bool GjFoldJoinClause(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
							 RestrictInfo *rinfo, Relids small, GjSource *key,
							 const char **refused);

/* conditions.c: the tree, and the plan made of it */
extern List *GjMakeKeyPlan(List *conditions, List **values);

/* partition.c: through which partitions one comes to a table */
extern List *GjFindPartitions(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
							  double *share);
extern Var *GjOnlyPartitionKey(const RelOptInfo *rel);

/* covers.c: can the heap be left out? */
extern bool GjIndexOnlyCovers(RelOptInfo *rel, IndexOptInfo *index, List *filters,
							  List **attnos);
extern bool GjIndexOnlyHas(IndexOptInfo *index, Index varno, List *exprs, List **attnos);

/* filter.c: which filters can be tested on entries? */
extern List *GjFilterClauses(RelOptInfo *rel, const IndexOptInfo *index, List *rinfos);
extern List *GjMakeFilterPlan(const IndexOptInfo *index, Index varno, List **quals,
							  List **filters, List **values);
extern bool GjFilterTakesAll(RelOptInfo *rel, const IndexOptInfo *index, List *rinfos);
extern Selectivity GjFilterShare(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
								 List *rinfos, Cost *per_entry);

/* cost.c: the formulas */
typedef struct GjCostInput
{
	RelOptInfo *rel;			/* the big table */
	IndexOptInfo *index;
	double		nkeys;			/* distinct keys expected */
	double		key_share;		/* of which the table is searched for this part; 0: all */
	double		searched;		/* probability that the table is searched; 0: it is */
	double		nmatches;		/* TIDs expected */
	Selectivity filtered;		/* the share of them that filters of entries drop */
	Cost		filter_cost;	/* of these filters, for each entry */
	double		per_row;		/* how many of those that are left lead to one row */
	bool		complement;		/* the keys are those of no list: the CPU has to search */
	QualCost	quals;			/* evaluated on each fetched tuple */
	bool		index_only;		/* all-visible pages need not be read */
	int			workers;		/* that share the fetch, besides the leader */
} GjCostInput;

extern Cost GjCostMatch(const IndexOptInfo *index, double nkeys, double nmatches);
extern void GjCostSearch(PlannerInfo *root, const GjCostInput *input,
						 Cost *startup, Cost *run);
extern void GjCostSearchBy(PlannerInfo *root, const GjCostInput *input, bool device,
						   Cost *startup, Cost *run);
extern void GjCostOrdered(PlannerInfo *root, const GjCostInput *input, double bound,
						  Size entry_bytes, Cost *startup, Cost *run);
extern bool GjIsForCursor(const PlannerInfo *root);
extern Cost GjCostTest(int width, double nvalues);
extern double GjCostReturned(const GjCostInput *input);
extern double GjParallelDivisor(int workers);
extern int	GjCountWorkers(const GjCostInput *input);
extern Cost GjCostWorkers(PlannerInfo *root, const RelOptInfo *rel, int workers, double unit,
						  Cost alone, Cost divided);
extern double GjCostUnit(const RelOptInfo *rel, bool index_only);

/* newindex.c: indexes that do not exist */
extern bool GjNewIndexIs(const IndexOptInfo *index);
extern void GjNewIndexAdd(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel);

/* order.c: rows in the order that a LIMIT wants */
extern List *GjOrderPathkeys(PlannerInfo *root, IndexOptInfo *index, List **order);
extern double GjOrderBound(PlannerInfo *root, double per_row);
extern double GjOrderTaken(PlannerInfo *root, const RelOptInfo *rel);
extern Size GjOrderEntryBytes(const RelOptInfo *rel, List *order, List *kept);
extern List *GjOrderColumns(IndexOptInfo *index, List *order);

/* rows.c: how many keys a scan's conditions bring, and what share of the rows they take */
extern Selectivity GjEstimateConditions(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
										List *conditions, double *nkeys);
extern bool GjSourceIsUnknown(const GjSource *source);
extern bool GjNodeIsComplement(GjKeyNode *node);
extern double GjKeyCorrelation(PlannerInfo *root, IndexOptInfo *index);

/* bitmap.c: which indexes core need not make bitmap scans of */
extern void GjHideFromChains(PlannerInfo *root, RelOptInfo *rel);

/* alternative.c */
extern Path *GjCheapestOther(const RelOptInfo *rel);

/* resident.c: which indexes a device holds, and where their pages are, as far as is known */
typedef struct GjIndexPages
{
	double		entries;		/* deleted ones included */
	double		unsorted;		/* of tails and deltas: each search reads them all */
	int			nruns;
	double		runs[GJ_MAX_RUNS];	/* of each run: it reads what may match */
} GjIndexPages;

extern void GjNoteIndexes(RelOptInfo *rel);
extern bool GjIndexIsResident(Oid index_oid);
extern const GjIndexPages *GjIndexGetPages(const IndexOptInfo *index);

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
	GJ_SCAN_PATH_ORDER,			/* as GJ_SCAN_ORDER in the plan */
	GJ_SCAN_PATH_BOUND,			/* Integer: as GJ_SCAN_BOUND */
	GJ_SCAN_PATH_CHARGED,		/* Integer: rows that are charged for, see GjCostReturned() */
	GJ_SCAN_PATH_COUNT
} GjScanPathPrivate;

/* scan.c, joinpath.c: the bodies of the two path list hooks */
extern void GjAddScanPaths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte);
extern void GjAddJoinPaths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
						   RelOptInfo *innerrel, JoinType jointype,
						   JoinPathExtraData *extra);

/* same.c: what each process of a parallel plan may run or evaluate for itself */
extern bool GjRowsAreSameEverywhere(PlannerInfo *root, const RelOptInfo *rel);
extern bool GjValuesAreSameEverywhere(PlannerInfo *root, List *rinfos);

/* subquery.c: the same as scan.c and joinpath.c for a subquery */
extern void GjAddSubqueryPaths(PlannerInfo *root, RelOptInfo *rel);

/*
 * hooks.c: GjAddPath is add_path for our paths, GjAddPartialPath add_partial_path
 * for those of which each process gives a share.  They set the costs, which under
 * gpujoin.force is not what they are, and make room under it, since add_path would free
 * a path of ours that costs more than another.
 */
extern void GjAddPath(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, Cost startup,
					  Cost run);
extern void GjAddPartialPath(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, Cost startup,
							 Cost run, Cost alone, double unit);
extern bool GjPathIsOurs(const Path *path);

/* scan.c: the clauses that a path's index leaves to be tested */
extern List *GjScanPathFilters(const CustomPath *path);

/* scan.c, joinpath.c: to tell our paths from others */
extern const CustomPathMethods GjScanPathMethods;
extern const CustomPathMethods GjJoinPathMethods;

#endif							/* GPUJOIN_PLAN_PLANNER_H */
