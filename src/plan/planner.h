/*-------------------------------------------------------------------------
 *
 * planner.h
 *	  Declarations shared by the planner's files: the conditions that an index answers,
 *	  the contents of paths, and costs.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PLAN_PLANNER_H
#define GPUJOIN_PLAN_PLANNER_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"

#include "node/aggplan.h"
#include "node/joinplan.h"
#include "plan.h"

/* Cost factor of gpujoin.force: our paths keep their order and precede all others */
#define GJ_FORCED_COST_SCALE	1.0e-6

/* "column operator value", or with an array: column = ANY (array), column <> ALL (array) */
typedef struct GjComparison
{
	void	   *column;			/* the side that the reader accepts as a column, with its casts */
	Expr	   *value;			/* the other side */
	Oid			opno;			/* with the column on the left */
	Oid			collation;
	bool		is_turned;		/* is the column on the right? */
	bool		is_array;
	bool		is_any;			/* of an array: ANY, not ALL */
} GjComparison;

/*
 * A condition on the key, folded into sources of keys.  Lives in the planner's memory; not a Node.
 */
typedef struct GjTuples
{
	GjComparison key;			/* the key's part of the clause: key = ANY (array) */
	bool		key_is_part;	/* do the following lists begin with the key? */
	List	   *columns;		/* the columns that are compared, below any RelabelType */
	List	   *operators;		/* OIDs, with the column on the left */
	List	   *collations;		/* OIDs */
	List	   *arrays;			/* their values */
	bool		is_product;		/* all combinations of elements, not equal positions? */
	double		nkeys;			/* number of different keys; 0: that of the key's array */
} GjTuples;

typedef struct GjSource
{
	GjSourceKind kind;
	GjConversion conversion;
	Expr	   *value;			/* a value, an array, or for GJ_SOURCE_NULL a boolean or NULL */
	Oid			opno;			/* comparison operator, with the key on the left */
	Oid			cast;			/* function that casts the key, or its output function if it is
								 * cast to text; or InvalidOid */
	Oid			value_type;		/* type of the value, or of the array's elements */
	const GjTuples *tuples;		/* GJ_SOURCE_TUPLES, GJ_SOURCE_PRODUCT: value is the key's array */
} GjSource;

typedef struct GjKeyNode
{
	GjStep		step;			/* AND, OR or SOURCE */
	List	   *operands;		/* GJ_STEP_AND, GJ_STEP_OR: list of GjKeyNode */
	GjSource	source;			/* GJ_STEP_SOURCE */
} GjKeyNode;

typedef struct GjKeyCondition
{
	RestrictInfo *rinfo;
	GjKeyNode  *node;
	bool		exact;			/* if not, the clause must also be tested on each row */
	const GjTuples *tuples;		/* columns of the tuples, or NULL if the clause lists keys only */
} GjKeyCondition;

/* Input of the cost formulas for one search */
typedef struct GjCostInput
{
	RelOptInfo *rel;			/* the big table */
	IndexOptInfo *index;
	double		nkeys;			/* expected number of distinct keys */
	double		key_share;		/* fraction of them that this table is searched for; 0: all */
	double		searched;		/* probability that the table is searched; 0: certain */
	double		nmatches;		/* expected number of TIDs, */
	double		nulls;			/* and of those that have a NULL key */
	Selectivity filtered;		/* fraction of them that filters of entries remove */
	Cost		filter_cost;	/* cost of these filters for each entry */
	double		per_row;		/* number of the remaining entries for each result row */
	bool		sliced;			/* are slices of the keys searched, in their order? */
	double		per_key;		/* then: number of entries of one key */
	bool		all;			/* true for keys not in a list: all runs are read */
	bool		unlisted;		/* true for those, and for ranges: only the CPU can search */
	bool		again;			/* the cost of one more search, for few keys, which the query around
								 * it wants for each of its rows */
	QualCost	quals;			/* evaluated on each fetched tuple */
	bool		index_only;		/* true if all-visible pages need not be read, */
	double		lacking;		/* except for this fraction of the TIDs */
	double		strays;			/* fraction of the TIDs that are fetched to sort them */
	int			workers;		/* number of workers sharing the fetch, without the leader */
	Path	   *guessed;		/* PostgreSQL's path, if its cost rests on a guess (guess.c) */
} GjCostInput;

/* Elements of an array of unknown length: PostgreSQL's assumption, ours for few distinct values */
#define GJ_FEWEST_ASSUMED_KEYS	10.0

/*
 * Indexes into the custom_private list of a GpuScan path.  A path is never copied, so the list may
 * contain planner nodes.
 */
typedef enum GjScanPathPrivate
{
	GJ_SCAN_PATH_INDEX,			/* IndexOptInfo */
	GJ_SCAN_PATH_CLAUSES,		/* list of RestrictInfo that the index answers */
	GJ_SCAN_PATH_CONDITIONS,	/* the same, folded: list of GjKeyCondition, not Nodes */
	GJ_SCAN_PATH_INDEX_ONLY,	/* Boolean: may rows come from the index alone? */
	GJ_SCAN_PATH_ATTNOS,		/* int list: attributes that such rows have */
	GJ_SCAN_PATH_ORDER,			/* like GJ_SCAN_ORDER in the plan */
	GJ_SCAN_PATH_BOUND,			/* Integer: like GJ_SCAN_BOUND */
	GJ_SCAN_PATH_CHARGED,		/* Integer: number of rows charged, see GjCostReturned(), but not
								 * those of entries that lack a value */
	GJ_SCAN_PATH_EXCESS,		/* Integer: like GJ_SCAN_EXCESS */
	GJ_SCAN_PATH_COUNT
} GjScanPathPrivate;

/* The only item of a GpuJoin path's custom_private; not a Node */
typedef struct GjJoinCandidate
{
	RelOptInfo *joinrel;
	RelOptInfo *big;			/* a table, or the parent of several (Append) */
	RelOptInfo *small;
	List	   *tables;			/* RelOptInfo of each scanned table of the big side */
	List	   *scans;			/* GjJoinScan of each of these tables */
	RestrictInfo *rinfo;		/* clause that the indexes answer */
	GjSource	key;			/* that clause, as the first table's index answers it */
	List	   *parts;			/* RestrictInfo: further equalities, which the look-up tests, too */
	GjJoinKind	kind;
	List	   *restrictlist;	/* all clauses of the join */
	bool		by_key;			/* true if the big side is partitioned by the key alone */
	Path	   *small_path;
	Expr	   *value;			/* the key's value, as a column of the small side, */
	bool		is_computed;	/* or an expression for which small_path has a column */
	int			workers;		/* number of workers sharing the big side, without the leader */
	double		nkeys;			/* estimated number of distinct keys of the small side */
	double		nbatches;		/* number of batches of the small side */
	Selectivity selectivity;	/* fraction of all pairs that have equal keys */
	double		ntuples;		/* estimated number of distinct keys with their parts */
	Selectivity tuple_selectivity;	/* fraction of all pairs that have equal ones */
} GjJoinCandidate;

/* The scan of one table of the big side */
typedef struct GjJoinScan
{
	RelOptInfo *table;
	IndexOptInfo *index;
	GjSource	key;			/* the join's clause, translated for this table */
	bool		index_only;		/* true if the index has all columns that are needed, */
	double		lacking;		/* but for this fraction of its entries only some values */
	struct GjJoinScan *other;	/* alternative with another index, or NULL; one of the two
								 * indexes is bigger and has all columns */
	GjTuples   *tuples;			/* the join's parts, as columns of this table; or NULL */
	List	   *entry_parts;	/* the columns of the index that entries are tested by, or NIL:
								 * GJ_FILTER_PLAN_PARTS */
	double		nmatches;		/* expected number of TIDs */
	List	   *filters;		/* RestrictInfo: clauses that entries can be tested by */
	Selectivity filtered;		/* fraction of the TIDs that these remove */
	double		rows;			/* expected number of rows after the filters, in a process */
	Cost		startup;
	Cost		run;
} GjJoinScan;

/* Computations of a GpuAgg: the only item of its path's custom_private; not a Node */
typedef struct GjAggQuery
{
	List	   *groupings;		/* Expr: grouping expressions */
	List	   *others;			/* Var: other columns outside of aggregates, which have values of
								 * one row of each group */
	List	   *aggregates;		/* Aggref, without duplicates */
	List	   *having;			/* clauses, implicitly ANDed */
	bool		is_distinct;	/* SELECT DISTINCT */
	bool		is_partial;		/* the aggregates are states, for a node above Gather */
	double		ngroups;		/* estimate, before HAVING */
	List	   *coded;			/* Var: columns whose values are replaced by numbers */
	const char *refused;		/* reason why we cannot compute this, or NULL */
} GjAggQuery;

/*
 * hooks.c: our versions of add_path() and add_partial_path().  They set the path's costs, which
 * gpujoin.force scales down.  Under gpujoin.force they first remove the other paths, since
 * add_path() would free a path of ours that costs more than another.
 */
extern void GjAddPath(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, Cost startup,
					  Cost run);
extern void GjAddPartialPath(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, Cost startup,
							 Cost run, Cost alone, double unit);
extern bool GjPathIsOurs(const Path *path);
extern void GjOfferNote(const CustomPath *path);
extern CustomPath *GjOfferFind(const RelOptInfo *rel, bool is_partial);

/* eligible.c: tables and indexes that gpujoin can use */
extern bool GjIsUserTable(const RangeTblEntry *rte);
extern const char *GjRefuseTable(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte,
								 int min_rows);
extern bool GjIndexIsOurs(const IndexOptInfo *index);
extern const char *GjRefuseIndex(const IndexOptInfo *index);
extern bool GjIndexKeepsValues(const IndexOptInfo *index);
extern bool GjIndexIsHashed(const IndexOptInfo *index);
extern Oid	GjIndexRestProc(const IndexOptInfo *index);
extern bool GjIsOlderThanSnapshots(TransactionId xid);
extern bool GjColumnIsNeverNull(Oid relid, AttrNumber attno);
extern bool GjFindInParent(PlannerInfo *root, Index *relid, AttrNumber *attno);
extern AttrNumber GjColumnOfParent(PlannerInfo *root, const RelOptInfo *parent,
								   const RelOptInfo *rel, AttrNumber attno);
extern List *GjFindPartitions(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
							  double *share);

/* conditions.c: conditions on the key */
extern GjKeyCondition *GjFoldClause(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
									RestrictInfo *rinfo, const char **refused);
extern bool GjFoldJoinClause(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
							 RestrictInfo *rinfo, Relids small, GjSource *key,
							 const char **refused);
extern bool GjHashIsHarmless(Oid function);
extern GjKeyNode *GjMakeWholeNode(bool nulls);
extern bool GjIndexIsHarmless(const IndexOptInfo *index);
extern Node *GjReadCast(Node *expr, Oid *cast);
extern bool GjMayFail(Node *node, void *root);

/* keyclause.c: conditions in plans */
extern List *GjMakeKeyPlan(List *conditions, const IndexOptInfo *index, Expr **condition);
extern Expr *GjSourceClause(const GjSource *source, Expr *key);
extern Expr *GjMakeArray(Oid type, List *values);

/* comparison.c: comparisons, and ranges of keys */
extern bool GjReadComparison(Node *clause, bool (*is_column) (void *reader, Node *expr),
							 void *reader, GjComparison *comparison);
extern bool GjFindOperator(Oid opno, Oid *left, Oid *right, GjFilterOperator *operator);
extern bool GjFindRange(const IndexOptInfo *index, Oid opno, GjSource *source, const char **why);

/* whole.c: all keys of an index */
extern bool GjIsOnlyTable(PlannerInfo *root, const RelOptInfo *rel);
extern bool GjWantsGroups(PlannerInfo *root);
extern List *GjFoldWhole(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
						 const char **refused);
extern bool GjIsWhole(List *conditions);
extern bool GjPathIsForGroups(const CustomPath *path);

/* tuples.c: lists of tuples */
extern List *GjFindTuples(RelOptInfo *rel, IndexOptInfo *index, RestrictInfo *rinfo);

/* entryfilter.c: what index entries decide without the heap */
extern bool GjFilterTakesAll(RelOptInfo *rel, const IndexOptInfo *index, List *rinfos);
extern Selectivity GjFilterShare(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *index,
								 List *rinfos, double *lacking, List **clauses,
								 Cost *per_entry);
extern List *GjFilterParts(const IndexOptInfo *index, const GjTuples *tuples);
extern void GjChargeParts(PlannerInfo *root, GjCostInput *input, const GjTuples *tuples,
						  Selectivity share);
extern bool GjIndexOnlyCovers(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *index,
							  List *filters, bool has_images, List **attnos);
extern bool GjIndexOnlyHas(IndexOptInfo *index, Index varno, List *exprs, List **attnos);
extern void GjPlanTable(CustomScan *scan, IndexOptInfo *index, List *quals, List *parts,
						bool index_only, List *attnos);

/* cost.c: the formulas */
extern void GjNoteIndexes(RelOptInfo *rel);
extern bool GjIndexIsResident(const IndexOptInfo *index);
extern bool GjIndexHasNulls(const IndexOptInfo *index);
extern Cost GjCostLeastMatch(bool again);
extern Cost GjCostMatch(const IndexOptInfo *index, double nkeys, double nmatches, bool again);
extern void GjCostSearch(PlannerInfo *root, const GjCostInput *input,
						 Cost *startup, Cost *run);
extern void GjCostOrdered(PlannerInfo *root, const GjCostInput *input, double bound,
						  Size entry_bytes, Cost *startup, Cost *run);
extern double GjCostReturned(const GjCostInput *input);
extern double GjParallelDivisor(int workers);
extern int	GjCountWorkers(const GjCostInput *input);
extern Cost GjCostWorkers(PlannerInfo *root, const RelOptInfo *rel, int workers, double unit,
						  Cost alone, Cost divided);
extern double GjCostUnit(const RelOptInfo *rel, bool index_only);

/* same.c: clauses and relations that each process of a parallel plan may evaluate for itself */
extern bool GjRowsAreSameEverywhere(PlannerInfo *root, const RelOptInfo *rel);
extern bool GjValuesAreSameEverywhere(PlannerInfo *root, List *rinfos);

/* generic.c: what a generic plan costs */
extern double GjGenericExcess(PlannerInfo *root, const GjCostInput *input, List *conditions,
							  Cost cost);
extern void GjGenericPrice(PlannedStmt *planned);

/* scanpath.c: GpuScan */
extern bool GjScanPathHasList(const CustomPath *path);
extern const CustomPathMethods GjScanPathMethods;
extern void GjAddScanPaths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte);
extern List *GjScanPathFilters(const CustomPath *path);

/* keyshare.c: how many keys conditions have, and which share of the rows */
extern Selectivity GjEstimateConditions(PlannerInfo *root, IndexOptInfo *index, List *conditions,
										double *nkeys, Selectivity *nulls);
extern Selectivity GjKeyShare(PlannerInfo *root, IndexOptInfo *index);
extern bool GjSourceIsUnknown(const GjSource *source);

/* guess.c: arrays of unknown length */
extern Path *GjKeepIndexPath(const RelOptInfo *rel);
extern bool GjRestsOnGuess(Path *path, List *conditions);
extern bool GjUndercut(CustomPath *ours, Cost cost, const Path *guessed, double nkeys);
extern void GjUndercutSorted(PlannerInfo *root, CustomPath *ours, Path *guessed, double nkeys);
extern void GjUndercutLoop(PlannerInfo *root, RelOptInfo *joinrel);
extern Path *GjCheapestOther(const RelOptInfo *rel);

/* joinpath.c, joinplan.c: GpuJoin */
extern const CustomPathMethods GjJoinPathMethods;
extern void GjAddJoinPaths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
						   RelOptInfo *innerrel, JoinType jointype,
						   JoinPathExtraData *extra);
extern Cost GjJoinCostOf(PlannerInfo *root, const GjJoinCandidate *cand, double rows);
extern RestrictInfo *GjJoinClauseOf(PlannerInfo *root, RestrictInfo *rinfo, RelOptInfo *table,
									RelOptInfo *big);
extern List *GjBareClauses(List *rinfos);
extern bool GjClauseJoinsSides(const GjJoinCandidate *cand, RestrictInfo *rinfo);
extern Node *GjMatchColumns(Node *node, List *columns);

/* joinpart.c: the parts of a join's key: a Var of the big side, equal to a value of the small */
extern List *GjFindJoinParts(PlannerInfo *root, const GjJoinCandidate *cand);
extern bool GjReadJoinPart(const GjJoinCandidate *cand, RestrictInfo *rinfo, GjComparison *part);
extern void GjFindJoinTuples(PlannerInfo *root, const GjJoinCandidate *cand, GjJoinScan *scan);
extern void GjFindJoinValue(GjJoinCandidate *cand);
extern Path *GjJoinSmallPath(PlannerInfo *root, const GjJoinCandidate *cand, Path *path);

/* aggquery.c: the computations of a GpuAgg, and its plan */
extern const CustomPathMethods GjAggPathMethods;
extern const CustomPathMethods GjPartialAggPathMethods;
extern PathTarget *GjAggReadQuery(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
								  RelOptInfo *output, void *extra, GjAggQuery *query);
extern const char *GjAggRefuseInput(PlannerInfo *root, GjAggQuery *query, Path *child);
extern Expr *GjAggregateArgument(const Aggref *aggref);

/* rewrite.c: changes of queries before they are planned */
extern void GjRewriteInit(void);

/* liststats.c */
extern void GjListStatsInit(void);

/* words.c: numeric columns of an index; scales[] has the two of base/numeric.h */
extern bool GjNumericScales(PlannerInfo *root, Path *path, const Var *column, int *scales);
extern bool GjTextHasWords(PlannerInfo *root, Path *path, const Var *column);
extern bool GjColumnHasWords(const IndexOptInfo *index, int column, bool is_bpchar);

/* If more entries than these lack values, rows are read from the table at once */
#define GJ_MOST_LACKING			0.5
extern double GjWordsLacking(PlannerInfo *root, const RelOptInfo *rel, const IndexOptInfo *index,
							 List *attnos);

/* aggpath.c, distinctpath.c: GpuAgg, and SELECT DISTINCT of rows that are distinct */
extern void GjAggShowCost(const GjAggQuery *query, Path *path, Plan *plan);
extern void GjAddUpperPaths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
							RelOptInfo *output, void *extra);
extern bool GjAddDistinctPath(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output);

/*
 * choice.c: notes for gpujoin_explain_choice().  All of these functions may be called at any time;
 * they do nothing unless notes are taken.
 */
extern bool GjChoiceIsNoted(void);
extern List *GjChoiceSwap(List *other);
extern const char *GjChoiceNoCondition(PlannerInfo *root, IndexOptInfo *index);
extern void GjChoiceRefused(Oid relation, Oid index, const char *reason);
extern void GjChoiceJoinRefused(PlannerInfo *root, RelOptInfo *big, RelOptInfo *small,
								List *restrictlist, const char *refused);
extern const char *GjChoiceFormat(const char *format,...) pg_attribute_printf(1, 2);
extern void GjChoiceOffered(PlannerInfo *root, RelOptInfo *rel, CustomPath *path);
extern void GjChoiceTaken(CustomPath *path);
extern void GjChoicePlanned(PlannedStmt *statement, ParamListInfo params);
extern void GjChoiceAggregate(const char *node, Path *input, const Path *path,
							  const RelOptInfo *output, const char *refused);
extern bool GjChoiceHasKey(RestrictInfo *rinfo, IndexOptInfo *index);
extern const char *GjChoiceSay(PlannerInfo *root, RestrictInfo *rinfo, IndexOptInfo *index,
							   const char *what);

/*
 * Return true if the query is a cursor's and the client is assumed to fetch all rows
 *
 * Of the queries without LIMIT, PostgreSQL plans only those of cursors for a fraction of the rows.
 */
static inline bool
GjIsForCursor(const PlannerInfo *root)
{
	return root->parent_root == NULL && root->parse->limitCount == NULL &&
		root->tuple_fraction >= DEFAULT_CURSOR_TUPLE_FRACTION && root->tuple_fraction < 1.0;
}

/*
 * Return true if a clause that is tested first would see rows that a security barrier hides
 */
static inline bool
GjPassesBarrier(const RestrictInfo *rinfo, const RelOptInfo *rel)
{
	return rinfo->security_level > rel->baserestrict_min_security;
}

/*
 * Return true if an expression has the same value for each row of the query, so that it can be
 * evaluated before a scan
 *
 * Subplans are excluded: they would have to be initialized where no row is available.  Uncorrelated
 * ones have become parameters, and run when the scan starts, as for a btree scan.
 */
static inline bool
GjIsSameForRows(Node *value)
{
	return IsA(value, Const) || IsA(value, Param) ||
		(!contain_var_clause(value) && !contain_subplans(value) &&
		 !contain_volatile_functions(value));
}

/*
 * Return the key's side of the candidate's clause, over the big side
 */
static inline Expr *
GjJoinKeyExpr(const GjJoinCandidate *cand)
{
	List	   *args = castNode(OpExpr, cand->rinfo->clause)->args;

	return bms_equal(cand->rinfo->left_relids, cand->big->relids) ? linitial(args)
		: lsecond(args);
}

/*
 * List the clauses that the look-up in the table of small rows tests
 */
static inline List *
GjJoinTested(const GjJoinCandidate *cand)
{
	return list_union_ptr(list_make1(cand->rinfo), cand->parts);
}

/*
 * Make a path return these columns, as each path of ours can
 */
static inline Path *
GjPathWithTarget(PlannerInfo *root, Path *path, PathTarget *target)
{
	if (equal(path->pathtarget->exprs, target->exprs))
	{
		path->pathtarget = target;
		return path;
	}
	return (Path *) create_projection_path(root, path->parent, path, target);
}

/*
 * Return the column that partitions a table by itself; NULL if there is no such column
 */
static inline Var *
GjOnlyPartitionKey(const RelOptInfo *rel)
{
	Node	   *key;

	if (rel->part_scheme == NULL || rel->part_scheme->partnatts != 1 ||
		list_length(rel->partexprs[0]) != 1)
		return NULL;
	key = linitial(rel->partexprs[0]);
	return IsA(key, Var) ? (Var *) key : NULL;
}

#endif							/* GPUJOIN_PLAN_PLANNER_H */
