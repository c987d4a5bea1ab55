/*-------------------------------------------------------------------------
 *
 * plancost.c
 *	  What a search and the heap fetch behind it cost, in the planner's units
 *	  (one page read in sequence = seq_page_cost).
 *
 *	  K  keys of the set, E  index entries, M  matching TIDs,
 *	  P  index pages, T  heap pages, F  heap pages fetched
 *
 *	  match	 =	gpujoin.setup_cost
 *			  + K log2(K) cpu_operator_cost			sort the set, drop duplicates
 *			  + P seq_page_cost						read the whole index
 *			  + E gpujoin.search_cost				look up each entry in the set
 *			  + M gpujoin.tid_cost					collect and order the matches
 *	  bitmap =	match + M cpu_tuple_cost				put the matches into a TIDBitmap
 *	  heap	 =	F page_cost
 *			  + M (cpu_tuple_cost + 2 cpu_operator_cost + quals)
 *
 *	  F			= 2 T M / (2 T + M), at most T (Mackert and Lohman)
 *	  page_cost = random_page_cost - (random_page_cost - seq_page_cost) sqrt(F / T)
 *
 * Where the index has all columns that are needed, F is only the share of pages that
 * are not all-visible, as for PostgreSQL's index-only scans, and only their rows' keys
 * are rechecked.
 *
 * The heap part is what PostgreSQL charges a bitmap heap scan, so that both are
 * compared fairly; 2 cpu_operator_cost is the recheck of the key, as much as
 * PostgreSQL charges to look up a value in a hashed constant array.  Pages count
 * whether they are cached or not, which PostgreSQL does for its own scans too.
 *
 * A bitmap index scan hands the matches over through a hash table, which was
 * measured at 40 ns a TID, as much as a sequential scan takes for a tuple; a node of
 * ours needs 5.  Without that difference, parallel bitmap heap scans look cheaper
 * than GpuScan where they take twice its time.
 *
 * What follows for 20 M rows: a small set on a column that has a btree stays with
 * the btree (it does not read P pages); without one, reading the index, a fifth
 * of the table's pages and without its tuples, beats the sequential scan until
 * about three quarters of the rows match.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/spccache.h"

#include "compat.h"
#include "gpujoin.h"
#include "plan.h"

static Cost cost_heap_pages(RelOptInfo *rel, double nmatches, double heap_share);

/*
 * The cost of one match: no tuple comes before it is done
 */
Cost
GjCostMatch(const IndexOptInfo *index, double nkeys, double nmatches)
{
	double		seq_page;
	double		keys = Max(nkeys, 1.0);

	get_tablespace_page_costs(index->reltablespace, NULL, &seq_page);

	return gj_setup_cost
		+ keys * (log2(keys) + 1.0) * cpu_operator_cost
		+ index->pages * seq_page
		+ index->tuples * gj_search_cost
		+ nmatches * gj_tid_cost;
}

/*
 * The cost of a bitmap index scan, for the access method
 */
Cost
GjCostBitmap(const IndexOptInfo *index, double nkeys, double nmatches)
{
	return GjCostMatch(index, nkeys, nmatches) + nmatches * cpu_tuple_cost;
}

/*
 * The cost of a match and of fetching what it found
 */
void
GjCostSearch(PlannerInfo *root, const GjCostInput *input, Cost *startup, Cost *run)
{
	double		nmatches = clamp_row_est(input->nmatches);
	double		heap_share = input->index_only ? 1.0 - input->rel->allvisfrac : 1.0;
	Cost		per_tuple = cpu_tuple_cost + heap_share * 2.0 * cpu_operator_cost +
		input->quals.per_tuple;

	*startup = GjCostMatch(input->index, input->nkeys, nmatches) + input->quals.startup;
	*run = cost_heap_pages(input->rel, nmatches, heap_share) + nmatches * per_tuple;
}

static Cost
cost_heap_pages(RelOptInfo *rel, double nmatches, double heap_share)
{
	double		random_page;
	double		seq_page;
	double		total = Max(rel->pages, 1.0);
	double		fetched = 2.0 * total * nmatches / (2.0 * total + nmatches);

	get_tablespace_page_costs(rel->reltablespace, &random_page, &seq_page);

	fetched = ceil(Min(fetched, total) * heap_share);
	return fetched * (random_page - (random_page - seq_page) * sqrt(fetched / total));
}
