/*-------------------------------------------------------------------------
 *
 * joincost.c
 *	  What a GpuJoin costs: its small side, the scans of its tables, the pairs.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/selfuncs.h"

#include "base/gpujoin.h"
#include "joinpath.h"

/* Bytes that a collected row takes besides its columns */
#define SMALL_ROW_OVERHEAD		80

static double cost_collect(const GjJoinCandidate *cand, Cost *cost);
static Selectivity key_selectivity(PlannerInfo *root, const GjJoinCandidate *cand);
static void cost_scan(PlannerInfo *root, const GjJoinCandidate *cand, GjJoinScan *scan);
static void cost_way(PlannerInfo *root, const GjJoinCandidate *cand, GjJoinScan *scan);

/*
 * Estimate the cost of the join:
 *
 *	  small side		its path, then what a hash join charges to build its table;
 *						where it exceeds the memory limit, a sort besides
 *	  batches			each searches the index anew: a match a batch
 *	  big rows			GjCostSearch, over all tables and batches
 *	  pairs				the join quals on each pair with equal keys
 *	  result			cpu_tuple_cost and the target list
 *
 * All rows of a cursor share the cost of the small side and of the match (cost.c).
 *
 * In a parallel plan each process collects the small side; what is done for each big row,
 * pair and result row is divided.
 */
void
GjJoinCost(PlannerInfo *root, GjJoinCandidate *cand, Cost *startup, Cost *run)
{
	PathTarget *target = cand->joinrel->reltarget;
	double		divisor = GjParallelDivisor(cand->workers);
	double		pairs;
	QualCost	joinquals;
	ListCell   *lc;

	cand->selectivity = key_selectivity(root, cand);
	cand->nkeys = estimate_num_groups(root, list_make1(cand->key.value),
									  cand->small->rows, NULL, NULL);
	cand->nbatches = cost_collect(cand, startup);
	cand->by_key = GjJoinIsByKey(root, cand);
	*run = 0.0;

	/* No row comes before the first table has been searched; the others come later */
	foreach(lc, cand->scans)
	{
		GjJoinScan *scan = lfirst(lc);

		cost_scan(root, cand, scan);
		if (lc == list_head(cand->scans))
			*startup += scan->startup;
		else
			*run += scan->startup;
		*run += scan->run;
	}

	pairs = clamp_row_est(cand->big->rows * cand->small->rows * cand->selectivity);
	cost_qual_eval(&joinquals, list_difference_ptr(cand->restrictlist,
												   list_make1(cand->rinfo)), root);
	*startup += joinquals.startup + target->cost.startup;
	*run += pairs / divisor * (joinquals.per_tuple + cpu_operator_cost) +
		cand->joinrel->rows / divisor * (cpu_tuple_cost + target->cost.per_tuple);
	if (GjIsForCursor(root))
	{
		*run += *startup - cand->small_path->startup_cost;
		*startup = cand->small_path->startup_cost;
	}
}

/*
 * Estimate what share of all pairs has equal keys, whatever the join's type makes
 * of them.
 */
static Selectivity
key_selectivity(PlannerInfo *root, const GjJoinCandidate *cand)
{
	SpecialJoinInfo sjinfo;

	memset(&sjinfo, 0, sizeof(sjinfo));
	sjinfo.type = T_SpecialJoinInfo;
	sjinfo.min_lefthand = sjinfo.syn_lefthand = cand->small->relids;
	sjinfo.min_righthand = sjinfo.syn_righthand = cand->big->relids;
	sjinfo.jointype = JOIN_INNER;

	return clauselist_selectivity(root, list_make1(cand->rinfo), 0, JOIN_INNER, &sjinfo);
}

/*
 * Estimate the cost of the small side; returns into how many batches it will fall
 */
static double
cost_collect(const GjJoinCandidate *cand, Cost *cost)
{
	double		rows = cand->small->rows;
	double		bytes = rows * (MAXALIGN(cand->small->reltarget->width) + SMALL_ROW_OVERHEAD);
	double		nbatches = ceil(bytes / GjWorkMemory());

	*cost = cand->small_path->total_cost +
		rows * (cpu_operator_cost + cpu_tuple_cost);
	if (nbatches > 1.0)
		*cost += 2.0 * rows * log2(Max(rows, 2.0)) * cpu_operator_cost +
			2.0 * bytes / BLCKSZ * seq_page_cost;
	return Max(nbatches, 1.0);
}

/*
 * Estimate what a scan costs over all batches, and how many rows it yields; of two ways to
 * scan, the cheaper one stays
 */
static void
cost_scan(PlannerInfo *root, const GjJoinCandidate *cand, GjJoinScan *scan)
{
	GjJoinScan	this;

	cost_way(root, cand, scan);
	if (scan->other == NULL)
		return;
	cost_way(root, cand, scan->other);
	if (scan->other->startup + scan->other->run >= scan->startup + scan->run)
		return;

	/* both stay known: a parallel plan chooses anew */
	this = *scan;
	*scan = *this.other;
	scan->other = palloc(sizeof(GjJoinScan));
	*scan->other = this;
}

/*
 * Estimate one way to scan
 *
 * Matches are taken to be spread evenly over the big side's rows.  Where the key tells the
 * partition, a table is not searched if none of the keys is its own; n of them hit
 * one of p tables with probability 1 - (1 - 1/p)^n.
 */
static void
cost_way(PlannerInfo *root, const GjJoinCandidate *cand, GjJoinScan *scan)
{
	RelOptInfo *table = scan->table;
	double		share = Min(1.0, cand->nkeys * cand->selectivity);
	GjCostInput input = {.rel = table,.index = scan->index,.nkeys = cand->nkeys,
		.nmatches = Min(table->tuples * share, scan->index->tuples),
		.quals = table->baserestrictcost,.workers = cand->workers,
	.index_only = scan->index_only};
	double		searched = cand->by_key ?
		1.0 - pow(1.0 - 1.0 / list_length(cand->tables), cand->nkeys) : 1.0;

	input.filtered = GjFilterShare(root, table, scan->index, table->baserestrictinfo,
								   &input.filter_cost);
	scan->nmatches = input.nmatches;
	scan->filtered = input.filtered;
	input.searched = searched;
	GjCostSearch(root, &input, &scan->startup, &scan->run);
	scan->run += searched * (cand->nbatches - 1.0) *
		GjCostMatch(scan->index, cand->nkeys / cand->nbatches,
					input.nmatches / cand->nbatches);
	scan->rows = clamp_row_est(table->rows * share / GjParallelDivisor(cand->workers));
}
