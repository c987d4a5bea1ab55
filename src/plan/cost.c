/*-------------------------------------------------------------------------
 *
 * cost.c
 *	  The cost of a search and of the heap fetch after it, in the planner's units
 *	  (one page read in sequence = seq_page_cost).
 *
 *	  K  keys of the set, E  index entries, D  index entries including deleted ones,
 *	  M  matching TIDs, N  rows of the table,
 *	  P  pages of runs, U  other index pages, T  heap pages, F  heap pages fetched,
 *	  C  correlation of the key with the rows' positions, from ANALYZE
 *
 *	  set	 =	4 K cpu_operator_cost				collect, sort, drop duplicates
 *	  match	 =	set + M gpujoin.tid_cost			hand over and order the matches
 *			  + (on the CPU)
 *				gpujoin.setup_cost
 *			  + U seq_page_cost						read the unordered pages
 *			  + Q run_cost							read the pages of runs that may match
 *			  + D (U + Q) / (U + P) gpujoin.search_cost		look up entries in the set
 *			  + (or on a device)
 *				gpujoin.device_setup_cost			a request's latency
 *			  + E gpujoin.device_search_cost
 *	  bitmap =	match + M cpu_tuple_cost			put the matches into a TIDBitmap
 *	  heap	 =	pages + M (cpu_tuple_cost + 2 cpu_operator_cost + quals)
 *	  filter =	M (gpujoin.tid_cost + tests)		test each entry by the filters of entries
 *	  tests  =	2.2e-5 for each byte of a column and each comparison; a look-up in a list of more
 *				than eight values costs as much as 64 bytes; a look-up of a tuple 0.007, and
 *				0.003 for each of its columns
 *
 *	  Q		 =	2 P V / (2 P + V), at most P, for each run; P for keys that are not in a list
 *	  V		 =	K, or P M / E if that is more		as PostgreSQL counts a btree's leaves
 *	  page_cost = random_page_cost - (random_page_cost - seq_page_cost) sqrt(Q / P)
 *	  run_cost = cached + (page_cost - cached) L / (Q / P)
 *	  cached =	50 cpu_operator_cost
 *	  L		 =	the minimum of Q / P over all runs, which is that of the longest
 *
 *	  pages	 =	scattered + C^2 (clustered - scattered)
 *	  scattered	= F page_cost
 *	  clustered	= random_page_cost + (T M / N - 1) seq_page_cost
 *	  F			= 2 T M / (2 T + M), at most T (Mackert and Lohman)
 *	  page_cost = random_page_cost - (random_page_cost - seq_page_cost) sqrt(F / T)
 *
 * Each key leads to a page of each run, whether or not the run has the key.  So a page of a short
 * run is read more often than one of a long run, and is more likely to be cached.  PostgreSQL
 * charges the upper pages of a btree 50 operators each for the same reason.  We charge a page of a
 * run as read as often as a page of the longest run, and as cached for the other visits.  So an
 * index does not cost an additional random page per key for each run that updates leave behind.
 * In an index of a million entries, a fifth of them updated, 300 keys read 562 pages of three runs;
 * with the heap that took 1.5 ms, and 3.0 ms with a btree.
 *
 * Of a table that is partitioned by the key, each of n partitions is charged for K / n keys, so
 * that keys which are collected once for all partitions are charged once.  M is PostgreSQL's
 * estimate for that partition: its own scans are charged for as many rows.
 *
 * No tuple is returned before the match is done.  But index-only answers of the CPU come in pieces
 * of some 50,000 entries.  The search for the other entries is part of the run cost, so that a
 * LIMIT may save it.
 *
 *	  startup =	set + (match - set) / 4
 *			  = set									for a cursor
 *
 * The rest of match is part of the run cost, too.  A LIMIT compares the start-up cost with a part
 * of a sequential scan, whose unit takes four times as long (see below).  For a cursor, PostgreSQL
 * assumes that the client fetches a fraction of the rows, cursor_tuple_fraction, by default a
 * tenth.  But most clients fetch all of them, and would wait for a sequential scan (160 ms for
 * 436,000 of 2.4 M rows) instead of a GpuScan (50 ms), while a tenth of either takes equally long.
 * So all rows of a cursor share the cost of the match, unless cursor_tuple_fraction is below its
 * default.
 *
 * If filters can be tested on entries, the match returns entries, and each of them is charged for
 * the test.  In heap and in F, M is then the number of entries that PostgreSQL expects to pass.
 *
 * A range counts as a key: of each run it reads the pages at its ends and those of its matches.
 *
 * The costs of a device are used if the index has a mirror when the plan is made, and the set is a
 * list of more than a few keys.  The scan decides when it starts whether the device or the CPU
 * searches; a plan whose mirror has disappeared is correct, but costs more.
 *
 * If the index has all columns that are needed, F is only the fraction of pages that are not
 * all-visible, as for PostgreSQL's index-only scans, and only the keys of their rows are rechecked.
 *
 * The heap part is the same as for PostgreSQL's own scans, including the effect of the rows'
 * positions, so that the comparison is fair.  2 cpu_operator_cost is the recheck of the key, as
 * much as PostgreSQL charges to look up a value in a hashed constant array.  Cached pages are
 * charged like others, as for its own scans.
 *
 * The settings are calibrated accordingly.  There are two possible scales: a sequential scan in
 * memory takes 2.6 us a unit of cost, a btree search (5.3 us a key, estimated at 8 units) takes
 * 0.66.  The choice between indexes for few keys is the closer one, and a wrong choice is more
 * expensive there, so the costs are on the scale of the btree search:
 *
 *						measured								units
 *	  CPU search		25 ms for 20 M entries, 25,000 pages	38,000	29,000 charged
 *	  device, latency	66 us with the set and the plan node	100
 *	  device, search	5.5 ps an entry							8e-6	1e-5 charged
 *	  a TID				1.3 to 5 ns								0.002 to 0.0075
 *
 * Each term of a filter is tested on each entry, a column at a time: a pair of 4-byte integers
 * takes 0.45 ns, a pair of 8-byte integers 0.9.  Long filters compete with plans that need a scan,
 * or an expression's evaluation, for each of their terms, so their costs are on the scale of a
 * scan.
 *
 * Sets of many keys compete with scans.  So the cost of a key of the set, 15 to 25 ns for a radix
 * sort and for building the look-up structures, is on the scale of a scan.
 *
 * An index-only answer of a device takes as many requests as it needs pieces to fit in memory, and
 * one more, which shows that the whole does not fit.
 *
 * A scan that returns rows in order fetches them one by one, each from another page:
 *
 *	  ordered =	match + M cpu_operator_cost + 2 B log2(B) cpu_operator_cost		(B: first batch)
 *			  + rows of batches (random_page_cost + cpu_tuple_cost + 2 cpu_operator_cost + quals)
 *			  + further batches (match + M cpu_operator_cost)
 *			  + (if more rows are needed) match, heap and a sort of the others
 *
 * In the order of the key (exec/ordered.c), match and M are those of a slice.  The first one has
 * twice as many entries as rows are wanted, each further one four times those of the one before.
 * Heap pages that have several rows are charged as PostgreSQL charges them to an index scan.
 *
 * A scan whose keys depend on a row of the query around it, as in a correlated subquery or LATERAL,
 * is rescanned for each such row.  PostgreSQL charges the subquery's whole cost each time.  So the
 * scan's cost is that of a rescan, for which nothing is opened, and metapage and unordered pages
 * have just been read; the first search costs setup_cost once more, which we leave out:
 *
 *	  again	 =	set + gpujoin.setup_cost / 10
 *			  + U cached + Q run_cost + ...			as above, on the CPU, for few keys
 *	  scattered	= page_cost (1 + 2/5 (F - 1))
 *
 * The heap's pages after the first one are prefetched together.  With 2 M rows in memory, a
 * rescan for 1, 5 and 50 rows in random order took 6, 9.5 and 59 us, and with a btree, which
 * fetches them one by one, 2.9, 12 and 133 us: 1.1 us a row against 2.6.  So a btree is chosen for
 * one or two rows, our index for more, and for index-only answers from some hundred rows on
 * (test/bench/results/2026-11-28-rescans.md).  Other scans fetch their rows in the same way; but
 * they are compared with scans for as many keys, which are costed as above.
 *
 * PostgreSQL's own index scans in nested loops are charged likewise, for loop_count searches: the
 * pages of runs that these read together, divided among them, as for a btree.
 *
 * In a parallel plan one process does the match.  But all processes share a match of entries, on
 * the CPU or, if the keys are divided (match/divide.c), with some requests of each process to the
 * device.  The work for each tuple is divided, but reading pages is not, as for PostgreSQL's own
 * parallel scans.
 *
 * A parallel plan is charged for each of its workers, in addition to the cost of a Gather node:
 *
 *	  W		 =	workers
 *	  unit	 =	the time that a unit of the path's cost takes, in units of a Gather node
 *	  workers = parallel_setup_cost ((W + 1) / unit - 1)
 *
 * So workers pay off if unit times the cost that they save exceeds (W + 1) parallel_setup_cost.
 * The pages that a search reads are charged to each process in full, so only processor time can be
 * saved; random_page_cost, which counts cached pages as reads, makes no plan parallel.
 *
 * The unit is 1 for a path that fetches rows.  Starting workers and waiting for their end took
 * 2.6 us a unit, at parallel_setup_cost per worker, in ms:
 *
 *	  workers			1		2		4		8
 *	  2 processors		5.1		8.2		13.2
 *	  16 processors								10		(above a ninth of one process's time)
 *
 * It is 1/6 for an index-only answer including the aggregate or join above it: 3 M rows of a join
 * took 13.6 ms to count (31,000 units) and 56 ms to return (91,000 units), 0.4 to 0.6 us a unit.
 *
 * The tables of an Append share one set of workers.  Each is charged for a part, in proportion to
 * its rows.  But PostgreSQL's Parallel Append compares each table's partial path with the path for
 * one process.  If the latter is cheaper, one process scans the whole table, and PostgreSQL divides
 * all of the table's cost among the workers, including its pages.  In this way two workers, which
 * took 8 ms to start, were used for twelve partitions that took 1.5 ms in one process.  We
 * therefore keep a table's partial path cheaper than its path for one process:
 *
 *	  saved	 =	the cost in one process - the cost in each of W + 1
 *	  charge =	Min(the table's part of workers, saved (1 - unit / (W + 1)))
 *
 * The second is less if workers do not pay off.  The rest of saved, added up over all tables, is
 * then less than parallel_setup_cost, so that PostgreSQL does not choose the Gather node.
 *
 * A bitmap index scan passes the matches on through a hash table, which was measured at 40 ns a
 * TID, as much as a sequential scan takes for a tuple; our own nodes take 5 ns.  Without that
 * difference, parallel bitmap heap scans would look cheaper than GpuScan where they take twice its
 * time.
 *
 * For 20 M rows and a column that also has a btree, the results are: with a mirror, our index is
 * chosen from about 70 keys on, without a mirror from 7,000 on.  Without a btree, our index, which
 * has a fifth of the table's pages and no tuples to deform, is cheaper than the sequential scan
 * until about three quarters of the rows match.
 *
 * "make no-regret" looks for choices that are not the best.  Three kinds remain, in which the
 * planner lacks the information:
 *
 *	- keys that no row has: PostgreSQL expects rows for each, and overestimates a btree and
 *	  underestimates a LIMIT above a sequential scan;
 *	- parallel plans of some 10 to 20 ms of work: the time that workers take to start depends
 *	  on the machine, and can be set as parallel_setup_cost;
 *	- conditions that nearly all rows satisfy: both plans read all of the table, and are
 *	  charged the same for a row, although GpuScan takes half as long as a sequential scan.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "access/genam.h"
#include "catalog/pg_statistic.h"
#include "executor/nodeHash.h"
#include "match/match.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "port/pg_bitutils.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"

#include "base/compat.h"
#include "base/settings.h"
#include "mirror/mirror.h"
#include "node/scanplan.h"
#include "pages/pages.h"
#include "planner.h"

/* Fraction of its time that a leader spends on each worker, as PostgreSQL assumes */
#define LEADER_LOSS				0.3

/* Cost of a key of the set in operators; keys are radix-sorted */
#define SET_OPERATIONS			4.0

/* Time that a unit of a match takes, in units of a sequential scan */
#define MATCH_UNIT				0.25

/* Cost of a cached page in operators, as for the upper pages of a btree */
#define CACHED_PAGE_OPERATIONS	50.0

/* Fraction of the set-up cost that each further search of a scan costs */
#define AGAIN_SETUP				0.1

/* Cost of a heap page of a rescan after the first one, in pages */
#define AGAIN_PAGE				0.4

/* Each slice of the keys has about this many times the entries of the one before */
#define SLICE_GROWTH			4.0

/*
 * Number of batches after which the others cost as much as a sort, which takes their place once
 * they cost a part of it (sets/top.c): planning does not take longer for a larger table
 */
#define MAX_COSTED_BATCHES		100

/* Number of entries in the first piece of an index-only answer */
#define FIRST_ENTRIES			50000.0

/* Time that a unit of an index-only answer takes, in units of a Gather node */
#define INDEX_ONLY_UNIT			(1.0 / 6.0)

/* Minimum fraction of its cost that a table of an Append saves in a parallel plan */
#define LEAST_SAVED				1.0e-4

/* Costs of the parts of an ordered scan */
typedef struct OrderedCosts
{
	uint64		bound;			/* number of entries in the first batch, memory permitting */
	uint64		most;			/* number of entries that fit in memory */
	double		searched;		/* number of index entries that the CPU searches for a batch */
	double		matched;		/* number of entries that match and pass the filters */
	Cost		match;			/* first search */
	Cost		select;			/* selection among all matches */
	Cost		again;			/* selection of a further batch */
	Cost		fetch;			/* fetch of a single row */
	Cost		scan;			/* scan of all rows, unordered */
	Cost		sort;			/* sort of these rows */
} OrderedCosts;

/* Pages and entries of an index, as far as known */
typedef struct IndexPages
{
	double		entries;		/* number of entries, including deleted ones */
	double		unsorted;		/* pages of tails and deltas, all of which a search reads */
	int			nruns;
	double		runs[GJ_MAX_RUNS];	/* pages of each run */
	double		null_pages;		/* pages of the other part, that of NULL keys; 0 if there is none */
	double		null_entries;
} IndexPages;

#define FEW_INDEXES				16

typedef struct IndexNote
{
	Oid			index;			/* hash key */
	bool		resident;
	bool		counted;		/* true once the following has been determined */
	IndexPages	pages;
} IndexNote;

static bool is_slow_to_recheck(Expr *clause);
static HTAB *notes = NULL;

static Cost cost_match(const IndexOptInfo *index, double nkeys, double nmatches, bool all,
					   bool device, double divisor, double loops);
static Cost cost_reading(const IndexOptInfo *index, double nkeys, double nmatches, bool all,
						 double loops, double *npages, double *nentries);
static double part_of_run(double pages, double visits);
static bool is_by_device(const GjCostInput *input);
static bool asks_device(const IndexOptInfo *index, double nkeys);
static Cost cost_entries(const GjCostInput *input, double nkeys, double nmatches, bool device,
						 int workers);
static double count_keyed(const GjCostInput *input, double nmatches);
static Cost cost_nulls(const GjCostInput *input);
static double share_of_heap(const GjCostInput *input);
static Cost cost_set(double nkeys);
static int	count_append_workers(PlannerInfo *root, const RelOptInfo *rel, const RelOptInfo *top,
								 int workers);
static double count_heap_pages(const RelOptInfo *rel, double nmatches);
static Cost cost_heap_pages(PlannerInfo *root, const GjCostInput *input, double nmatches);
static void cost_ordered_parts(PlannerInfo *root, const GjCostInput *input, double nmatches,
							   OrderedCosts *costs);
static Cost cost_ordered_run(PlannerInfo *root, const GjCostInput *input,
							 const OrderedCosts *costs, double taken, double all);
static Cost save_pages(PlannerInfo *root, const GjCostInput *input, double taken);
static Cost cost_slice(const GjCostInput *input, double wanted, bool again);
static Cost cost_slices(PlannerInfo *root, const GjCostInput *input, const OrderedCosts *costs,
						double all);
static double share_taken(PlannerInfo *root, const RelOptInfo *rel);
static double key_correlation(PlannerInfo *root, IndexOptInfo *index);
static IndexNote *find_note(Oid index_oid);
static bool would_be_resident(const IndexOptInfo *index);
static void count_pages(Relation index, IndexPages *pages);
static void count_nulls(Relation index, GjIndexInfo *info, IndexPages *pages);
static const IndexPages *get_pages(const IndexOptInfo *index);

/*
 * Return a lower bound of the cost of a match, whatever the index is
 */
Cost
GjCostLeastMatch(bool again)
{
	return Min(gj_setup_cost * (again ? AGAIN_SETUP : 1.0), gj_device_setup_cost);
}

/*
 * Return the cost of a match; again is true for one more search of a scan, for few keys
 */
Cost
GjCostMatch(const IndexOptInfo *index, double nkeys, double nmatches, bool again)
{
	return cost_match(index, nkeys, nmatches, false, !again && asks_device(index, nkeys), 1.0,
					  again ? 1.0 : 0.0);
}

/*
 * Return the cost of a match by a device or on the CPU, divided among divisor processes
 *
 * loops is 0 for the only search of a scan, otherwise the number of searches that find each other's
 * pages in memory, as far as we know.
 */
static Cost
cost_match(const IndexOptInfo *index, double nkeys, double nmatches, bool all, bool device,
		   double divisor, double loops)
{
	Cost		cost = cost_set(nkeys);
	Cost		reading;
	double		npages;
	double		nentries;

	if (device)
		return cost + nmatches * gj_tid_cost / divisor + GjRequestCost(index->tuples);

	reading = cost_reading(index, nkeys, nmatches, all, loops, &npages, &nentries);
	return cost + gj_setup_cost * (loops > 0.0 ? AGAIN_SETUP : 1.0) + reading +
		(nmatches * gj_tid_cost + nentries * gj_search_cost) / divisor;
}

/*
 * Return the cost of reading the index for nkeys keys and nmatches matches, or all of it
 *
 * *npages becomes the number of pages read, *nentries the number of their entries, including
 * deleted ones.
 */
static Cost
cost_reading(const IndexOptInfo *index, double nkeys, double nmatches, bool all, double loops,
			 double *npages, double *nentries)
{
	const IndexPages *pages = get_pages(index);
	double		cached_page = CACHED_PAGE_OPERATIONS * cpu_operator_cost;
	double		times = Max(loops, 1.0);
	double		total = pages->unsorted;
	double		parts[GJ_MAX_RUNS];
	double		together[GJ_MAX_RUNS];	/* of all searches */
	double		least = 1.0;
	double		random_page;
	double		seq_page;
	Cost		cost;

	get_tablespace_page_costs(index->reltablespace, &random_page, &seq_page);
	for (int i = 0; i < pages->nruns; i++)
	{
		double		run = Max(pages->runs[i], 1.0);
		double		visits = Max(Max(nkeys, 1.0), run * nmatches / Max(index->tuples, 1.0));

		parts[i] = all ? 1.0 : part_of_run(run, visits);
		together[i] = all ? 1.0 : part_of_run(run, visits * times);
		least = Min(least, together[i]);
	}

	*npages = pages->unsorted;
	cost = pages->unsorted * (loops > 0.0 ? cached_page : seq_page);
	for (int i = 0; i < pages->nruns; i++)
	{
		double		run = Max(pages->runs[i], 1.0);
		Cost		page = random_page - (random_page - seq_page) * sqrt(together[i]);

		total += run;
		*npages += run * parts[i];
		cost += run * (parts[i] * cached_page + least / times * (page - cached_page));
	}
	*nentries = *npages / Max(total, 1.0) * pages->entries;
	return cost;
}

/*
 * Return the fraction of a run's pages that this many visits lead to
 */
static double
part_of_run(double pages, double visits)
{
	return Min(2.0 * visits / (2.0 * pages + visits), 1.0);
}

/*
 * Return the cost of a match of entries, which this many workers share
 */
static Cost
cost_entries(const GjCostInput *input, double nkeys, double nmatches, bool device, int workers)
{
	IndexOptInfo *index = input->index;
	double		divisor = GjParallelDivisor(workers);
	double		bytes = nmatches * sizeof(uint64) * (index->ncolumns + 1);
	double		pieces = ceil(bytes / get_hash_memory_limit());
	double		nranges = 0.0;
	Cost		nulls = cost_nulls(input);

	nmatches = count_keyed(input, nmatches);
	if (!device)
		return nulls + cost_match(index, nkeys, nmatches, input->all, false, divisor,
								  input->again ? 1.0 : 0.0);

	if (workers > 0 && input->rel->allvisfrac >= 1.0 - GJ_MAX_HEAP_PART)
		nranges = GjCountRanges(nkeys, nmatches, index->tuples, workers + 1);
	if (nranges > 0.0)
		return nulls + cost_match(index, nkeys, nmatches, false, true, divisor, 0.0) +
			Max(nranges, pieces / divisor) * GjRequestCost(index->tuples);
	return nulls + cost_match(index, nkeys, nmatches, false, true, 1.0, 0.0) +
		(pieces > 1.0 ? pieces : 0.0) * GjRequestCost(index->tuples);
}

/*
 * Return how many of the matches have a key
 */
static double
count_keyed(const GjCostInput *input, double nmatches)
{
	return Max(nmatches - input->nulls, 0.0);
}

/*
 * Return the cost of finding the rows with a NULL key, if they are wanted: one process reads all of
 * their pages
 */
static Cost
cost_nulls(const GjCostInput *input)
{
	const IndexPages *pages = get_pages(input->index);
	double		seq_page;

	if (input->nulls <= 0.0)
		return 0.0;
	get_tablespace_page_costs(input->index->reltablespace, NULL, &seq_page);
	return pages->null_pages * seq_page + pages->null_entries * gj_search_cost +
		input->nulls * gj_tid_cost;
}

static Cost
cost_set(double nkeys)
{
	return Max(nkeys, 1.0) * SET_OPERATIONS * cpu_operator_cost;
}

/*
 * Return the share of the TIDs whose rows are read from the heap
 */
static double
share_of_heap(const GjCostInput *input)
{
	return input->index_only ? 1.0 - input->rel->allvisfrac * (1.0 - input->lacking) : 1.0;
}

/*
 * Return true if a device is expected to search
 */
static bool
is_by_device(const GjCostInput *input)
{
	return !input->unlisted && !input->again && asks_device(input->index, input->nkeys);
}

/*
 * Return true if a scan that searches once for a list of keys asks a device (match/device.c)
 */
static bool
asks_device(const IndexOptInfo *index, double nkeys)
{
	const IndexPages *pages;

	if (!GjIndexIsResident(index))
		return false;
	pages = get_pages(index);
	return gj_force || !GjAreFewKeys(nkeys, pages->nruns, pages->unsorted);
}

/*
 * Estimate the cost of a match and of fetching the matching rows
 */
void
GjCostSearch(PlannerInfo *root, const GjCostInput *input, Cost *startup, Cost *run)
{
	bool		device = is_by_device(input);
	double		nmatches = clamp_row_est(input->nmatches);
	double		nkeys = input->key_share > 0.0 ? input->nkeys * input->key_share : input->nkeys;
	double		npassing = clamp_row_est(nmatches * (1.0 - input->filtered));
	double		heap_share = share_of_heap(input);
	Cost		per_tuple = cpu_tuple_cost + heap_share * 2.0 * cpu_operator_cost +
		input->quals.per_tuple;
	Cost		match = input->index_only || input->filtered > 0.0 ?
		cost_entries(input, nkeys, nmatches, device, input->index_only ? input->workers : 0) :
		cost_match(input->index, nkeys, count_keyed(input, nmatches), input->all, device,
				   1.0, input->again ? 1.0 : 0.0) + cost_nulls(input);
	Cost		set = cost_set(nkeys);
	Cost		first;

	if (input->filtered > 0.0)
		match += nmatches * (gj_tid_cost + input->filter_cost);
	if (input->searched > 0.0)
		match *= input->searched;
	first = Max(match - set, 0.0) * (GjIsForCursor(root) ? 0.0 : MATCH_UNIT);
	if (input->index_only && !device && nmatches > FIRST_ENTRIES)
		first *= FIRST_ENTRIES / nmatches;
	first = Min(set + first, match);
	*startup = first + input->quals.startup;
	*run = match - first + GjCostReturned(input) * per_tuple;
	if (heap_share > 0.0)
		*run += heap_share * cost_heap_pages(root, input, npassing);
}

/*
 * Return the number of rows for which each process is charged
 *
 * For an array of unknown length, this is more than the path's row count, which is PostgreSQL's
 * estimate, so that it agrees with the row counts of the nodes above.
 */
double
GjCostReturned(const GjCostInput *input)
{
	double		nmatches = clamp_row_est(input->nmatches);

	return clamp_row_est(nmatches * (1.0 - input->filtered)) / GjParallelDivisor(input->workers);
}

/*
 * Estimate the cost of a match, of sorting the matches, and of fetching row by row
 *
 * The whole match comes before the first row.  If more rows are fetched than the bound allows for,
 * further batches follow, for each of which the CPU searches again, and then a sort of the rest
 * (sets/top.c).  A LIMIT counts a fraction of the run cost, as if each row cost the same.  So the
 * run cost is chosen so that this fraction is right for the expected number of rows.  But it is
 * never less than the cost of all rows, because a join may fetch more of them.
 */
void
GjCostOrdered(PlannerInfo *root, const GjCostInput *input, double bound, Size entry_bytes,
			  Cost *startup, Cost *run)
{
	OrderedCosts costs = {.bound = (uint64) bound * (input->sliced ? GJ_SLICE_SPARE : 1)};
	double		nmatches = clamp_row_est(input->nmatches);
	double		npassing = clamp_row_est(nmatches * (1.0 - input->filtered));
	double		entries = Min(input->rel->rows * input->per_row, npassing);
	double		share = Max(share_taken(root, input->rel), 1.0 / Max(entries, 1.0));
	double		limit = get_hash_memory_limit();

	/* the memory for one batch, as the executor will compute it */
	costs.most = GjTopMaxWanted(entry_bytes, (Size) (Max(limit - input->nkeys * sizeof(int64),
														 limit / 2.0) / GJ_ORDER_MEMORY_PART));
	costs.matched = npassing;
	cost_ordered_parts(root, input, nmatches, &costs);
	*startup = (input->sliced ? cost_slice(input, costs.bound, false) :
				costs.match + costs.select) + input->quals.startup +
		2.0 * cpu_operator_cost * bound * log(Max(bound, 2.0)) / M_LN2;
	if (input->sliced && root->parse->limitCount != NULL && root->limit_tuples <= 0.0)
		*run = cost_slices(root, input, &costs, entries);
	else
		*run = Max(cost_ordered_run(root, input, &costs, share * entries, entries) / share,
				   cost_ordered_run(root, input, &costs, entries, entries));
}

/*
 * Return the cost of all rows, slice by slice.  If the value of LIMIT is not known, PostgreSQL
 * charges a tenth of it, as for its own index scans; usually fewer rows are wanted, and otherwise
 * the scan soon sorts the others.
 */
static Cost
cost_slices(PlannerInfo *root, const GjCostInput *input, const OrderedCosts *costs, double all)
{
	double		wanted = Min((double) costs->bound, (double) costs->most);
	double		covered = wanted;
	Cost		cost = all * costs->fetch - save_pages(root, input, all);

	for (; covered < all && wanted < costs->most; covered += wanted)
	{
		wanted = Min(wanted * SLICE_GROWTH, (double) costs->most);
		cost += cost_slice(input, wanted, true);
	}
	if (covered < all)
		cost += ceil((all - covered) / wanted) * cost_slice(input, wanted, true);
	return cost;
}

/*
 * Compute the costs of the parts of an ordered scan
 */
static void
cost_ordered_parts(PlannerInfo *root, const GjCostInput *input, double nmatches,
				   OrderedCosts *costs)
{
	bool		device = is_by_device(input);
	double		nkeys = input->key_share > 0.0 ? input->nkeys * input->key_share : input->nkeys;
	double		heap_share = share_of_heap(input);
	double		random_page;
	double		npages;
	double		nentries;
	Cost		startup;
	Cost		run;

	get_tablespace_page_costs(input->rel->reltablespace, &random_page, NULL);
	costs->match = cost_entries(input, nkeys, nmatches, device, 0);
	if (input->filtered > 0.0)
		costs->match += nmatches * (gj_tid_cost + input->filter_cost);
	costs->select = nmatches * cpu_operator_cost +
		costs->matched * input->strays * (random_page + cpu_tuple_cost);
	costs->again = nmatches * cpu_operator_cost + (device ? 0.0 : costs->match);
	(void) cost_reading(input->index, nkeys, count_keyed(input, nmatches), input->all, 0.0,
						&npages, &nentries);
	costs->searched = device ? 0.0 : nentries;

	costs->fetch = cpu_tuple_cost + input->quals.per_tuple +
		heap_share * (random_page + 2.0 * cpu_operator_cost);

	GjCostSearch(root, input, &startup, &run);
	costs->scan = startup + run;
	costs->sort = GjCostSort(root, input->rel->rows, input->rel->reltarget->width);
}

/*
 * Return the cost of finding the entries of a slice that has this many after filters, and those of
 * at least one key; again is true for all but the first one
 */
static Cost
cost_slice(const GjCostInput *input, double wanted, bool again)
{
	double		nmatches = Min(clamp_row_est(input->nmatches),
							   Max(wanted / Max(1.0 - input->filtered, DBL_EPSILON),
								   input->per_key));
	Cost		cost = cost_match(input->index, 1.0, nmatches, false, false, 1.0,
								  again || input->again ? 1.0 : 0.0) + nmatches * cpu_operator_cost;

	if (input->filtered > 0.0)
		cost += nmatches * (gj_tid_cost + input->filter_cost);
	return cost;
}

/*
 * Return the cost of the pages that need not be read again, of those that rows in the order of the
 * key are on, as PostgreSQL estimates it for an index scan
 */
static Cost
save_pages(PlannerInfo *root, const GjCostInput *input, double taken)
{
	const RelOptInfo *rel = input->rel;
	double		correlation = key_correlation(root, input->index);
	double		random_page;
	double		seq_page;
	Cost		scattered;
	Cost		clustered;

	get_tablespace_page_costs(rel->reltablespace, &random_page, &seq_page);
	scattered = random_page * Min(taken, index_pages_fetched(taken, rel->pages,
															 input->index->pages, root));
	clustered = random_page +
		Max(ceil(rel->pages * taken / Max(rel->tuples, 1.0)) - 1.0, 0.0) * seq_page;
	clustered = scattered + correlation * correlation * (Min(clustered, scattered) - scattered);
	return share_of_heap(input) * Max(taken * random_page - clustered, 0.0);
}

/*
 * Return the cost, without that of the match, of fetching this many of the entries that lead to
 * the rows that PostgreSQL expects
 */
static Cost
cost_ordered_run(PlannerInfo *root, const GjCostInput *input, const OrderedCosts *costs,
				 double taken, double all)
{
	GjTopBatches batches;
	double		covered;
	Cost		cost = 0.0;

	GjTopBatchesStart(&batches, costs->bound, costs->most);
	covered = batches.wanted;
	while (covered < taken && batches.nbatches < MAX_COSTED_BATCHES &&
		   GjTopBatchesNext(&batches, batches.wanted, input->sliced ? 2.0 * batches.wanted :
							costs->searched + costs->matched, costs->searched, costs->matched,
							!input->index_only))
	{
		cost += input->sliced ? cost_slice(input, batches.wanted, true) : costs->again;
		covered += batches.wanted;
	}
	cost += Min(taken, covered) * costs->fetch;
	if (input->sliced)
		cost -= save_pages(root, input, Min(taken, covered));
	if (covered < taken)
		cost += costs->scan + costs->sort * (1.0 - covered / all);
	return cost;
}

/*
 * Estimate the fraction of a table's rows that are fetched in order
 *
 * For a joined table, PostgreSQL only says how many rows of the join are wanted.
 */
static double
share_taken(PlannerInfo *root, const RelOptInfo *rel)
{
	double		rows = root->limit_tuples > 0.0 ? root->limit_tuples : root->tuple_fraction;

	if (root->limit_tuples <= 0.0 && root->tuple_fraction < 1.0)
		return root->tuple_fraction;
	return Min(rows / Max(rel->rows, 1.0), 1.0);
}

/*
 * Return the number of processes among which the work of a node is divided
 *
 * The leader does its share in the time that reading the workers' rows leaves it.
 */
double
GjParallelDivisor(int workers)
{
	double		leader = Max(1.0 - LEADER_LOSS * workers, 0.0);

	if (workers == 0)
		return 1.0;
	return workers + (parallel_leader_participation ? leader : 0.0);
}

/*
 * Return the number of workers that can be used: for the heap's pages, or for the index's if the
 * answer may be index-only
 */
int
GjCountWorkers(const GjCostInput *input)
{
	RelOptInfo *rel = input->rel;
	double		heap_pages = count_heap_pages(rel, input->nmatches * (1.0 - input->filtered));
	double		index_pages;
	double		index_entries;
	int			workers;

	if (input->index_only)
		heap_pages *= share_of_heap(input);
	workers = compute_parallel_worker(rel, heap_pages, -1, max_parallel_workers_per_gather);
	if (input->index_only)
	{
		(void) cost_reading(input->index, input->nkeys, input->nmatches, input->all, 0.0,
							&index_pages, &index_entries);
		workers = Max(workers, compute_parallel_worker(rel, -1, index_pages,
													   max_parallel_workers_per_gather));
	}
	return workers;
}

/*
 * Return the cost of starting workers, without the cost of a Gather node
 *
 * divided is the cost of a path with this number of workers, alone the cost of the same path for
 * one process, and unit the time that a unit of both takes, in units of a Gather node.
 */
Cost
GjCostWorkers(PlannerInfo *root, const RelOptInfo *rel, int workers, double unit, Cost alone,
			  Cost divided)
{
	const RelOptInfo *top;
	double		times;
	Cost		saved = alone - divided;
	Cost		cost;

	if (!IS_OTHER_REL(rel))
		return parallel_setup_cost * ((workers + 1) / unit - 1.0);

	top = IS_SIMPLE_REL(rel) ?
		find_base_rel(root, bms_singleton_member(rel->top_parent_relids)) :
		find_join_rel(root, rel->top_parent_relids);
	times = (count_append_workers(root, rel, top, workers) + 1) / unit;
	cost = parallel_setup_cost * (times - 1.0) * rel->rows / Max(top->rows, rel->rows);
	return Min(cost, saved - Max(saved / times, alone * LEAST_SAVED));
}

/*
 * Return the number of workers that PostgreSQL plans for an Append, given the number for one child
 */
static int
count_append_workers(PlannerInfo *root, const RelOptInfo *rel, const RelOptInfo *top,
					 int workers)
{
	const RelOptInfo *parent = top;
	int			nchildren;

	if (!enable_parallel_append)
		return workers;
	if (IS_SIMPLE_REL(rel))
		parent = root->simple_rel_array[root->append_rel_array[rel->relid]->parent_relid];
	nchildren = bms_num_members(parent->live_parts);
	if (nchildren == 0)
		nchildren = list_length(root->append_rel_list);
	workers = Max(workers, pg_leftmost_one_pos32(Max(nchildren, 1)) + 1);
	return Min(workers, max_parallel_workers_per_gather);
}

/*
 * Return the time that a unit of a table's cost takes, in units of a Gather node
 */
double
GjCostUnit(const RelOptInfo *rel, bool index_only)
{
	return index_only ? 1.0 - rel->allvisfrac * (1.0 - INDEX_ONLY_UNIT) : 1.0;
}

/*
 * Return the number of heap pages that contain matches, if these are in random order
 */
static double
count_heap_pages(const RelOptInfo *rel, double nmatches)
{
	double		total = Max(rel->pages, 1.0);
	double		fetched = 2.0 * total * nmatches / (2.0 * total + nmatches);

	return fetched >= total ? total : ceil(fetched);
}

static Cost
cost_heap_pages(PlannerInfo *root, const GjCostInput *input, double nmatches)
{
	RelOptInfo *rel = input->rel;
	double		total = Max(rel->pages, 1.0);
	double		correlation = key_correlation(root, input->index);
	double		random_page;
	double		seq_page;
	double		fetched;
	Cost		scattered;
	Cost		clustered;

	get_tablespace_page_costs(rel->reltablespace, &random_page, &seq_page);

	fetched = count_heap_pages(rel, nmatches);
	scattered = (input->again ? 1.0 + AGAIN_PAGE * Max(fetched - 1.0, 0.0) : fetched) *
		(random_page - (random_page - seq_page) * sqrt(fetched / total));
	clustered = random_page +
		Max(ceil(total * nmatches / Max(rel->tuples, 1.0)) - 1.0, 0.0) * seq_page;
	return scattered + correlation * correlation * (Min(clustered, scattered) - scattered);
}

/*
 * Return the correlation of the key with the rows' positions, from ANALYZE
 */
static double
key_correlation(PlannerInfo *root, IndexOptInfo *index)
{
	TargetEntry *column = linitial_node(TargetEntry, index->indextlist);
	VariableStatData variable;
	AttStatsSlot slot;
	double		correlation = 0.0;

	examine_variable(root, (Node *) column->expr, 0, &variable);
	if (HeapTupleIsValid(variable.statsTuple) &&
		get_attstatsslot(&slot, variable.statsTuple, STATISTIC_KIND_CORRELATION, InvalidOid,
						 ATTSTATSSLOT_NUMBERS))
	{
		if (slot.nnumbers == 1)
			correlation = slot.numbers[0];
		free_attstatsslot(&slot);
	}
	ReleaseVariableStats(variable);
	return correlation;
}

/*
 * amcostestimate: estimate a bitmap index scan, or a plain one
 */
void
gjcostestimate(PlannerInfo *root, IndexPath *path, double loop_count,
			   Cost *startup, Cost *total, Selectivity *selectivity,
			   double *correlation, double *pages)
{
	IndexOptInfo *index = path->indexinfo;
	List	   *quals = NIL;
	double		nkeys = 1.0;
	ListCell   *lc;

	*startup = *total = *selectivity = *correlation = 0.0;
	*pages = index->pages;
	if (!index->amhasgettuple && !index->amhasgetbitmap)
		return;					/* PostgreSQL makes no use of the path: plan/hooks.c */
	foreach(lc, path->indexclauses)
	{
		IndexClause *clause = lfirst_node(IndexClause, lc);
		ScalarArrayOpExpr *any;

		quals = lappend(quals, clause->rinfo);
		if (GjIndexIsHashed(index) && is_slow_to_recheck(clause->rinfo->clause))
			*startup = *total = disable_cost;

		/* PostgreSQL 18 turns an OR of the query into an array for the index */
		any = (ScalarArrayOpExpr *) linitial_node(RestrictInfo, clause->indexquals)->clause;
		if (IsA(any, ScalarArrayOpExpr))
			nkeys = GjEstimateArrayLength(root, lsecond(any->args));
	}

	*selectivity = clauselist_selectivity(root, quals, index->rel->relid, JOIN_INNER, NULL);

	/* the bitmap, or the list of TIDs, is complete only after the search */
	*startup += cost_match(index, nkeys, *selectivity * index->rel->tuples, false,
						   loop_count <= 1.0 && asks_device(index, nkeys), 1.0,
						   loop_count > 1.0 ? loop_count : 0.0) +
		*selectivity * index->rel->tuples * cpu_tuple_cost;
	*total = *startup;
}

/*
 * Return true if PostgreSQL compares each row with any number of values in turn, which it does when
 * it rechecks the rows of a bitmap: it hashes only the elements of constant arrays.  The cost of
 * values that the query itself lists, in an ARRAY[] or an OR, is part of its estimates.
 */
static bool
is_slow_to_recheck(Expr *clause)
{
	ListCell   *lc;

	if (IsA(clause, ScalarArrayOpExpr))
	{
		Node	   *array = lsecond(((ScalarArrayOpExpr *) clause)->args);

		return !IsA(array, Const) && !IsA(array, ArrayExpr);
	}
	if (!IsA(clause, BoolExpr))
		return !IsA(clause, OpExpr);

	foreach(lc, ((BoolExpr *) clause)->args)
	{
		if (is_slow_to_recheck(lfirst(lc)))
			return true;
	}
	return false;
}

/*-------------------------------------------------------------------------
 * Mirrors and pages
 *
 * Properties of our indexes that the formulas use: does an index have a mirror on a device, and
 * how many of its pages are in order?
 *
 * We look up the table of mirrors once for each index and query, when the planner collects a
 * table's indexes, and the metapage when the first cost is computed, not for each of the many
 * costs of a join.  The results are kept in this process.  They are hints: of mirrors we compare
 * the file, not the contents, and everything may have changed when the plan is executed.
 *-------------------------------------------------------------------------
 */

/*
 * Look up the indexes of a table that is being planned; they are locked
 */
void
GjNoteIndexes(RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		IndexNote  *note;

		if (!GjIndexIsOurs(index))
			continue;
		note = find_note(index->indexoid);
		note->counted = false;
		note->resident = index->hypothetical && would_be_resident(index);
		if (GjMirrorTableExists() && !index->hypothetical)
		{
			Relation	rd = index_open(index->indexoid, NoLock);

			note->resident = GjMirrorIsResident(rd);
			index_close(rd, NoLock);
		}
	}
}

/*
 * Return true if an index that does not exist would be loaded once it has been built
 *
 * It would be, by the loader or by the first queries, unless other mirrors need the memory.
 */
static bool
would_be_resident(const IndexOptInfo *index)
{
	if (!GjMirrorTableExists() || !gj_auto_load || index->pages < GJ_MIN_DEVICE_BLOCKS ||
		!GjServiceReady(NULL))
		return false;
	for (int device = 0; device < GjServiceDevices(); device++)
	{
		GjServiceStatus status;

		GjServiceGetStatus(device, &status);
		if ((uint64) index->pages * BLCKSZ <= status.memory_columns_limit)
			return true;
	}
	return false;
}

static IndexNote *
find_note(Oid index_oid)
{
	static IndexNote *note = NULL;	/* the last one: entries do not move and are not removed */
	bool		found;

	if (note != NULL && note->index == index_oid)
		return note;
	if (notes == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(Oid),.entrysize = sizeof(IndexNote)};

		notes = hash_create("gpujoin indexes in plans", FEW_INDEXES, &control,
							HASH_ELEM | HASH_BLOBS);
	}
	note = hash_search(notes, &index_oid, HASH_ENTER, &found);
	if (!found)
		note->resident = note->counted = false;
	return note;
}

/*
 * Return true if a device had a mirror of the index when we last looked
 */
bool
GjIndexIsResident(const IndexOptInfo *index)
{
	return find_note(index->indexoid)->resident;
}

/*
 * Return true if an index has entries of rows with a NULL key
 */
bool
GjIndexHasNulls(const IndexOptInfo *index)
{
	return get_pages(index)->null_pages > 0.0;
}

/*
 * Return the pages of an index; for an index that does not exist, as if it had just been built
 */
static const IndexPages *
get_pages(const IndexOptInfo *index)
{
	static IndexPages built;
	IndexNote  *note;
	Relation	rd;

	if (index->hypothetical)
	{
		built = (IndexPages) {.unsorted = GJ_DEFAULT_LANES,.nruns = 1,.null_pages = 1.0};
		built.entries = index->tuples;
		built.runs[0] = Max((double) index->pages - GJ_FIRST_TAIL_BLOCK - GJ_DEFAULT_LANES, 1.0);
		return &built;
	}
	note = find_note(index->indexoid);
	if (!note->counted)
	{
		rd = index_open(index->indexoid, NoLock);
		count_pages(rd, &note->pages);
		index_close(rd, NoLock);
		note->counted = true;
	}
	return &note->pages;
}

static void
count_pages(Relation index, IndexPages *pages)
{
	GjIndexInfo info;
	GjIndexState state;

	GjIndexGetInfo(index, &info);
	GjIndexGetState(index, &state);
	pages->unsorted = info.nlanes + GjStateUnsorted(&state);
	pages->entries = (double) GjStateUnsorted(&state) * info.plain_slots;
	pages->nruns = state.nruns;
	for (int i = 0; i < state.nruns; i++)
	{
		pages->runs[i] = state.runs[i].data_pages;
		pages->entries += state.runs[i].entries;
	}
	pages->null_pages = pages->null_entries = 0.0;
	if (info.stores_nulls)
		count_nulls(index, &info, pages);
}

/*
 * Count the pages and entries of NULL keys, to which the description is turned
 */
static void
count_nulls(Relation index, GjIndexInfo *info, IndexPages *pages)
{
	GjIndexState state;

	GjInfoTurnToNulls(info);
	GjIndexGetPart(index, true, &state);
	pages->null_pages = info->nlanes + GjStateUnsorted(&state);
	pages->null_entries = (double) GjStateUnsorted(&state) * info->plain_slots;
	for (int i = 0; i < state.nruns; i++)
	{
		pages->null_pages += state.runs[i].data_pages;
		pages->null_entries += state.runs[i].entries;
	}
}
