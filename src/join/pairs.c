/*-------------------------------------------------------------------------
 *
 * pairs.c
 *	  Join the rows of a small side with a big side through gpujoin indexes.
 *
 * The small side's plan is run once and its rows collected (small.c).  For each batch of
 * them, and for each table of the big side in turn, the table's index is searched for the batch's
 * distinct keys, and the rows found by the match are fetched in heap order.  A big row's key is
 * looked up in the batch's hash table.  Then the big table's own filters are evaluated, once per
 * row (bigscan.c), and then the other join quals, for each small row with that key.  One virtual
 * slot holds the joined row: the big table's columns are stored in it once per big row, the small
 * columns once per pair, and nothing is allocated for a row.
 *
 * Why the answer is exact:
 *
 *	- The match returns at least the TIDs of all visible rows that have a key of the
 *	  batch.  Looking up the key of the fetched row tests the clause that the index
 *	  answers: two values are equal by an operator of the index's family if and only if
 *	  their keys are the same integer.
 *	- Each big row is seen once per batch and each small row is in one batch, so
 *	  each pair is seen once.  For a semijoin that returns big rows, all rows of one
 *	  key are in one batch, so that a big row finds all its partners at once.
 *	- When its batch ends, it is known whether a small row has had a match; only the
 *	  join quals set marks, before the quals that remove result rows.
 *	- A row of the big side is in exactly one of its tables.
 *	- Filters see the big row alone and run before any join qual, so that security
 *	  barriers of the big side are respected.
 *
 * The joined slot points into the heap page that the big slot pins and into the batch; the result
 * is projected into a separate slot, so that a node above can materialize it without forcing the
 * joined slot to copy its data.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "pages/pages.h"
#include "join.h"

/* A result column that is filled from a small row */
typedef struct SmallOutput
{
	AttrNumber	attno;			/* position in the result */
	int			column;			/* position in the small row */
} SmallOutput;

struct GjJoinDirect
{
	int			natts;			/* number of columns of a small row */

	/* Arrays of the rows for batch consumers */
	uint16		rows[GJ_BATCH_ROWS];
	void	   *partners[GJ_BATCH_ROWS];
	uint32		weights[GJ_BATCH_ROWS];

	int			noutputs;
	SmallOutput outputs[FLEXIBLE_ARRAY_MEMBER];
};

static void pairs_prepare(GjJoinState *state);
static bool start_batch(GjJoinState *state);
static bool next_table(GjJoinState *state);
static bool next_big_row(GjJoinState *state);
static void leave_table(GjJoinState *state);
static int	scan_in_turn(const GjJoinState *state);
static bool all_small_matched(GjJoinState *state);
static bool start_scan(GjJoinState *state, GjJoinScanState *scan);
static const GjKeySet *choose_filter(const GjJoinState *state, const GjJoinScanState *scan);
static bool choose_keys(GjJoinState *state, GjJoinScanState *scan);
static const GjKeySet *keys_of(const GjJoinState *state, const GjJoinScanState *scan);
static void stop_scan(GjJoinState *state, GjJoinScanState *scan);
static void pairs_make_keys(GjJoinState *state, int key_width);
static void forget_keys(GjJoinState *state);
static bool next_pair(GjJoinState *state);
static bool pair_counts(GjJoinState *state, GjSmallRow *row);
static inline void copy_small(GjJoinState *state, const GjSmallRow *row);
static bool next_unmatched(GjJoinState *state);
static bool passes_other_quals(GjJoinState *state);
static TupleTableSlot *project_joined(GjJoinState *state);
static bool pairs_are_plain(const GjJoinState *state, TargetEntry *target);
static List *split_target(GjJoinState *state, GjJoinDirect *direct);
static void init_tuples(GjJoinScanState *scan, List *big);
static int	partner_column(const PlanState *node, int at);
static GjRowBatch *pairs_next_batch(PlanState *node, bool want_partners);
static bool pairs_reduce(PlanState *node, GjReduceRequest *request);
static void pairs_next_states(PlanState *node, GjReduceRequest *request);
static void search_ahead(void *arg);
static bool reduce_table(GjJoinState *state, GjJoinScanState *scan, GjReduceRequest *request);
static bool weigh_keys(GjJoinState *state, const GjTableScan *table, GjReduceRequest *request);
static GjSmallRow *find_small(GjJoinState *state, int64 code, int64 rest);
static uint32 most_partners(const GjJoinState *state);
static void add_states(GjJoinState *state, GjReduceRequest *request, const uint64 *element);
static GjRowBatch *make_rows(GjJoinState *state, GjRowBatch *table, bool want_partners);
static inline bool counts_partners(const GjJoinState *state);
static int	take_pairs(GjJoinState *state, GjRowBatch *table);
static int	pairs_take_weights(GjJoinState *state, GjRowBatch *table);
static inline void take_row(GjJoinState *state, GjRowBatch *batch);
static inline void add_partner(GjJoinState *state, GjSmallRow *row, TupleTableSlot *slot);
static inline void take_partner(GjJoinState *state);
static inline uint32 take_partners(GjJoinState *state);
static inline void pairs_count_rows(GjJoinScanState *scan, int n);
static bool pairs_load_rows(GjJoinScanState *scan, bool by_row);
static void fill_small(const GjJoinDirect *direct, const GjSmallRow *row, TupleTableSlot *slot);
static bool needs_partners(const GjJoinState *state, const GjJoinScanState *scan);
static bool wants_partners(const GjJoinState *state);
static TupleTableSlot *next_direct(GjJoinState *state);
static inline bool take_direct(GjJoinState *state, GjRowBatch *batch);

/*
 * Return the next joined row
 */
TupleTableSlot *
GjExecJoin(CustomScanState *node)
{
	GjJoinState *state = (GjJoinState *) node;
	TupleTableSlot *slot;

	Assert(state->batch_rows.next == state->batch_rows.nrows);
	for (;;)
	{
		switch (state->phase)
		{
			case GJ_PHASE_COLLECT:
			case GJ_PHASE_BATCH:
			case GJ_PHASE_TABLE:
				pairs_prepare(state);
				break;
			case GJ_PHASE_ROWS:
				slot = next_direct(state);
				if (slot != NULL)
					return slot;
				if (next_big_row(state))
					state->phase = GJ_PHASE_PAIRS;
				else if (state->direct == NULL || !GjJoinScanHasEntries(state->scan))
					leave_table(state);
				break;
			case GJ_PHASE_PAIRS:
				if (next_pair(state))
					return project_joined(state);
				state->phase = GJ_PHASE_ROWS;
				break;
			case GJ_PHASE_UNMATCHED:
				if (next_unmatched(state))
					return project_joined(state);
				state->phase = GJ_PHASE_BATCH;
				break;
			case GJ_PHASE_DONE:
				return ExecClearTuple(node->ss.ps.ps_ResultTupleSlot);
		}
	}
}

/*
 * Do the work that precedes the rows of a table
 */
static void
pairs_prepare(GjJoinState *state)
{
	switch (state->phase)
	{
		case GJ_PHASE_COLLECT:
			GjSmallRun(state->small, state);
			state->phase = GJ_PHASE_BATCH;
			break;
		case GJ_PHASE_BATCH:
			state->phase = start_batch(state) ? GJ_PHASE_TABLE : GJ_PHASE_DONE;
			break;
		default:
			Assert(state->phase == GJ_PHASE_TABLE);
			if (next_table(state))
				state->phase = GJ_PHASE_ROWS;
			else
				state->phase = GjJoinKeepsUnmatched(state->kind) ? GJ_PHASE_UNMATCHED
					: GJ_PHASE_BATCH;
			break;
	}
}

/*
 * Begin the next batch.  Returns false if no batch is left.
 */
static bool
start_batch(GjJoinState *state)
{
	Assert(state->phase == GJ_PHASE_BATCH);
	state->batch = GjSmallNextBatch(state->small);
	if (state->batch == NULL)
		return false;

	if (!state->batch->is_only)
		GjJoinForgetBatch(state);
	state->current = 0;
	state->pair = NULL;
	state->unmatched = state->batch->first;
	state->nmatched = 0;
	return true;
}

/*
 * Forget the results for the batch's keys; no scan may be active
 */
void
GjJoinForgetBatch(GjJoinState *state)
{
	for (int i = 0; i < state->nscans; i++)
		GjJoinScanForget(state->scans[i]);
	forget_keys(state);
}

static void
forget_keys(GjJoinState *state)
{
	if (state->keys != NULL)
		GjKeySetFree(state->keys);
	if (state->routes != NULL)
		GjKeyRoutesFree(state->routes);
	state->keys = NULL;
	state->routes = NULL;
}

/*
 * Start the next table that has to be scanned.  Returns false if no table is left.
 */
static bool
next_table(GjJoinState *state)
{
	Assert(state->phase == GJ_PHASE_TABLE);
	for (; state->current < state->nscans; state->current++)
	{
		GjJoinScanState *scan = state->scans[scan_in_turn(state)];

		state->scan = scan;
		if (!all_small_matched(state) && start_scan(state, scan))
			return true;
		stop_scan(state, scan);
	}
	return false;
}

/*
 * Find the next big row of the current table that has partners
 */
static bool
next_big_row(GjJoinState *state)
{
	GjJoinScanState *scan = state->scan;

	Assert(state->phase == GJ_PHASE_ROWS);
	if (all_small_matched(state))
		return false;
	state->pair = GjJoinScanNext(scan, state->small);
	if (state->pair == NULL)
		return false;
	ResetExprContext(state->css.ss.ps.ps_ExprContext);
	return true;
}

/*
 * Finish the current table after its last row
 */
static void
leave_table(GjJoinState *state)
{
	Assert(state->phase == GJ_PHASE_ROWS);
	stop_scan(state, state->scan);
	state->current++;
	state->phase = GJ_PHASE_TABLE;
}

/*
 * Return the current table.  In a parallel plan each process begins with a different one, so that
 * they search several indexes at the same time instead of waiting for one search after another.
 */
static int
scan_in_turn(const GjJoinState *state)
{
	return (state->current + ParallelWorkerNumber + 1) % state->nscans;
}

/*
 * Return true if the rest of the batch can be skipped, because only a small row's first match
 * counts and all rows have one.  Rows with a NULL key are never marked, so they do not end a
 * batch early.
 */
static bool
all_small_matched(GjJoinState *state)
{
	return (state->kind == GJ_JOIN_RIGHT_SEMI || state->kind == GJ_JOIN_RIGHT_ANTI) &&
		state->nmatched == state->batch->nrows;
}

/*
 * Search the current table, unless it has been searched already.  Returns false if there are no
 * keys to search for.
 */
static bool
start_scan(GjJoinState *state, GjJoinScanState *scan)
{
	const GjKeySet *filter;

	if (!GjJoinScanIsReady(scan))
	{
		instr_time	start;
		instr_time	end;

		INSTR_TIME_SET_CURRENT(start);
		pairs_make_keys(state, GjIndexKeyWidth(scan->table.index));
		INSTR_TIME_SET_CURRENT(end);
		INSTR_TIME_ACCUM_DIFF(scan->table.stats.set_elapsed, end, start);
		if (scan->own_keys == NULL && !choose_keys(state, scan))
			return false;
		if (state->ask_again != NULL)
			state->ask_again(state->ask_arg);
		if (!GjJoinScanIsReady(scan))
			GjJoinScanMatch(scan, keys_of(state, scan), state->batch->entries,
							state->batch->is_only, needs_partners(state, scan));
	}
	/* while entries are returned, the match still needs the keys */
	filter = choose_filter(state, scan);
	if (state->current == state->nscans - 1 && filter == NULL &&
		!GjRowsHasEntries(scan->table.rows))
		forget_keys(state);
	GjJoinScanStart(scan, state->small, filter);
	return true;
}

/*
 * Return the key set that tuples can be tested against instead of looking up their partners, if
 * nothing is needed of the partners.  Returns NULL if no such set exists, or it was freed, or
 * rebuilt for keys of another width.
 */
static const GjKeySet *
choose_filter(const GjJoinState *state, const GjJoinScanState *scan)
{
	const GjKeySet *keys = keys_of(state, scan);

	if (scan->table.tuple_shape == NULL || keys == NULL || wants_partners(state) ||
		keys->key_width != GjIndexKeyWidth(scan->table.index))
		return NULL;
	return keys;
}

/*
 * Find the subset of the batch's keys that the table can contain.  Returns false if it is empty.
 */
static bool
choose_keys(GjJoinState *state, GjJoinScanState *scan)
{
	List	   *partitions;
	const GjKeySet *own;

	if (state->partitions == NIL)
		return true;
	partitions = list_nth(state->partitions, scan_in_turn(state));
	if (GjKeySetCount(state->keys) == 0 || GjKeyRoutesAreElsewhere(state->routes, partitions))
		return false;
	own = GjKeyRoutesTake(state->routes, partitions, state->context);
	if (own != state->keys)
		scan->own_keys = unconstify(GjKeySet *, own);
	return true;
}

static const GjKeySet *
keys_of(const GjJoinState *state, const GjJoinScanState *scan)
{
	return scan->own_keys != NULL ? scan->own_keys : state->keys;
}

/*
 * Stop the scan, after clearing the joined slot, which points into the scan's heap page
 */
static void
stop_scan(GjJoinState *state, GjJoinScanState *scan)
{
	ExecClearTuple(state->joined);
	GjTableScanStop(&scan->table);
	if (state->nscans > 1)
		GjJoinScanForget(scan);
}

/*
 * Build the batch's key set.  Tables whose indexes have keys of the same width share it.
 */
static void
pairs_make_keys(GjJoinState *state, int key_width)
{
	if (state->keys != NULL && state->keys->key_width == key_width)
		return;

	forget_keys(state);
	state->keys = GjKeySetCreate(state->context, key_width);
	state->keys->spread = GjCodecMayHash(&state->codec) || GjCodecHasPairs(&state->codec);
	GjSmallAddKeys(state->small, state->keys);
	GjKeySetFinish(state->keys);
	if (state->partitions != NIL)
		state->routes = GjKeyRoutesCreate(&state->router, state->context, state->keys);
}

/*
 * Find the next partner of the big row that forms a result row
 */
static bool
next_pair(GjJoinState *state)
{
	Assert(state->phase == GJ_PHASE_PAIRS);
	while (state->pair != NULL)
	{
		GjSmallRow *row = state->pair;

		CHECK_FOR_INTERRUPTS();
		state->pair = row->next_of_key;
		if (!pair_counts(state, row))
			continue;
		if (state->kind == GJ_JOIN_SEMI)
			state->pair = NULL;
		if (state->kind != GJ_JOIN_RIGHT_ANTI && passes_other_quals(state))
			return true;
	}
	return false;
}

/*
 * Join the big row with a small row.  Returns true if they match and the pair counts: if only the
 * first match of a small row counts, later ones do not.  Marks the small row.
 */
static bool
pair_counts(GjJoinState *state, GjSmallRow *row)
{
	PlanState  *ps = &state->css.ss.ps;

	if (row->matched && state->kind != GJ_JOIN_RIGHT)
		return false;

	copy_small(state, row);
	ResetExprContext(ps->ps_ExprContext);
	if (!ExecQual(state->joinquals, ps->ps_ExprContext))
	{
		InstrCountFiltered2(ps, 1);
		return false;
	}

	if (GjJoinMarksSmall(state->kind) && !row->matched)
	{
		row->matched = true;
		state->nmatched++;
	}
	return true;
}

/*
 * Copy a small row's columns into the joined row; they point into the batch
 */
static inline void
copy_small(GjJoinState *state, const GjSmallRow *row)
{
	TupleTableSlot *joined = state->joined;
	int			natts = joined->tts_tupleDescriptor->natts - state->nbig;

	memcpy(&joined->tts_values[state->nbig], GjSmallRowValues(row), natts * sizeof(Datum));
	memcpy(&joined->tts_isnull[state->nbig], GjSmallRowNulls(row, natts), natts * sizeof(bool));
}

/*
 * Find the next small row of the batch that had no match; the big columns are NULL
 */
static bool
next_unmatched(GjJoinState *state)
{
	Assert(state->phase == GJ_PHASE_UNMATCHED);
	while (state->unmatched != NULL)
	{
		GjSmallRow *row = state->unmatched;

		CHECK_FOR_INTERRUPTS();
		state->unmatched = row->next;
		if (row->matched)
			continue;

		ExecStoreAllNullTuple(state->joined);
		copy_small(state, row);
		ResetExprContext(state->css.ss.ps.ps_ExprContext);
		if (passes_other_quals(state))
			return true;
	}
	return false;
}

static bool
passes_other_quals(GjJoinState *state)
{
	if (ExecQual(state->otherquals, state->css.ss.ps.ps_ExprContext))
		return true;

	state->removed++;
	return false;
}

static TupleTableSlot *
project_joined(GjJoinState *state)
{
	return ExecProject(state->css.ss.ps.ps_ProjInfo);
}

/*-------------------------------------------------------------------------
 * The fast path
 *
 * If the join computes and filters nothing beyond its key, a result row is built from a table's
 * entry or tuple and a small row, without the joined slot and a projection.  The small rows are
 * looked up for a chunk of entries, or the tuples of a block, at once.
 *
 * Often they need not be looked up at all.  The match delivers only entries whose keys are in the
 * set, and the set contains the keys of the batch.  So an entry that is a row has a partner.  If
 * no two small rows have the same key, it has exactly one; and if neither a column of the partner
 * nor a mark on it is needed, it does not matter which one.
 *
 * Tuples whose key is an expression, and those whose columns are not at the usual offsets, take the
 * slow path; batch consumers get the latter nevertheless.
 *-------------------------------------------------------------------------
 */

/*
 * Prepare the fast path for the tables that can use it
 *
 * Semijoins and antijoins that return small rows cannot, because they stop as soon as possible,
 * and count.
 */
void
GjJoinDirectInit(GjJoinState *state)
{
	List	   *target = state->css.ss.ps.plan->targetlist;
	List	   *big;
	ListCell   *lc;

	if (state->joinquals != NULL || state->otherquals != NULL ||
		state->kind == GJ_JOIN_RIGHT_SEMI || state->kind == GJ_JOIN_RIGHT_ANTI)
		return;
	foreach(lc, target)
	{
		if (!pairs_are_plain(state, lfirst_node(TargetEntry, lc)))
			return;
	}

	state->direct = palloc(offsetof(GjJoinDirect, outputs) +
						   list_length(target) * sizeof(SmallOutput));
	state->direct->noutputs = 0;
	state->direct->natts = state->joined->tts_tupleDescriptor->natts - state->nbig;
	big = split_target(state, state->direct);
	for (int i = 0; i < state->nscans; i++)
	{
		GjJoinScanState *scan = state->scans[i];

		init_tuples(scan, big);
		if (scan->table.target_shape == NULL)
			continue;
		scan->direct_shape = GjShapeOfTarget(scan->table.target_shape, big, INDEX_VAR);
		if (scan->direct_shape != NULL)
			GjRowsFeed(scan->table.rows, scan->direct_shape);
	}
}

/*
 * Prepare the fast path for the table's tuples: no filter, and columns that have the same offset
 * in most tuples
 */
static void
init_tuples(GjJoinScanState *scan, List *big)
{
	ScanState  *ss = &scan->table.css.ss;
	TupleDesc	desc = RelationGetDescr(ss->ss_currentRelation);
	List	   *tlist = ss->ps.plan->targetlist;
	Index		scanrelid = ((Scan *) ss->ps.plan)->scanrelid;

	if (ss->ps.qual != NULL)
		return;
	scan->table.tuple_shape = GjShapeOfTarget(GjShapeOfTuples(desc, tlist, scanrelid, false), big,
											  INDEX_VAR);
	scan->table.array_shape = GjShapeOfTarget(GjShapeOfTuples(desc, tlist, scanrelid, true), big,
											  INDEX_VAR);
}

/*
 * Return true if the target is a column of the joined row
 */
static bool
pairs_are_plain(const GjJoinState *state, TargetEntry *target)
{
	Var		   *var = (Var *) target->expr;

	return IsA(var, Var) && var->varno == INDEX_VAR && var->varattno > 0;
}

/*
 * Record the result's columns that come from the small side, and return a list of the others
 */
static List *
split_target(GjJoinState *state, GjJoinDirect *direct)
{
	List	   *big = NIL;
	ListCell   *lc;

	foreach(lc, state->css.ss.ps.plan->targetlist)
	{
		TargetEntry *target = lfirst_node(TargetEntry, lc);
		int			column = ((Var *) target->expr)->varattno - 1;

		if (column < state->nbig)
			big = lappend(big, target);
		else
			direct->outputs[direct->noutputs++] =
				(SmallOutput) {target->resno, column - state->nbig};
	}
	return big;
}

/*
 * Return true if partners must be looked up in the current batch, assuming that this scan's
 * entries take the fast path if they can
 */
static bool
needs_partners(const GjJoinState *state, const GjJoinScanState *scan)
{
	return scan->direct_shape == NULL || wants_partners(state);
}

/*
 * Do the same for rows that take the fast path
 */
static bool
wants_partners(const GjJoinState *state)
{
	return state->direct->noutputs > 0 || GjJoinMarksSmall(state->kind) ||
		state->batch->shared_keys || state->nparts > 0;
}

/*
 * Return the next result row on the fast path.  Returns NULL if the next row, if any, cannot take
 * it.
 */
static TupleTableSlot *
next_direct(GjJoinState *state)
{
	TupleTableSlot *slot = state->css.ss.ps.ps_ResultTupleSlot;
	GjJoinScanState *scan = state->scan;
	GjRowBatch *batch = GjRowsGetBatch(scan->table.rows);
	int			row;

	Assert(state->phase == GJ_PHASE_ROWS);
	if (state->pair == NULL && !take_direct(state, batch))
		return NULL;
	row = batch->next - 1;
	if (batch->tuples == NULL)
		GjFillFromEntry(scan->direct_shape, GjRowEntry(batch, row), slot);
	else
		GjFillFromTuple(scan->table.tuple_shape, GjRowTuple(batch, row)->t_data, slot);
	if (state->pair != NULL)
		add_partner(state, state->pair, slot);
	return slot;
}

/*
 * Advance to the next row and its partners.  Returns false at the end, or if the row cannot
 * take the fast path.
 */
static inline bool
take_direct(GjJoinState *state, GjRowBatch *batch)
{
	GjJoinScanState *scan = state->scan;

	if (batch->next >= batch->nrows && (state->direct == NULL || !pairs_load_rows(scan, true)))
		return false;
	if (batch->tuples == NULL)
	{
		if (scan->direct_shape == NULL)
			return false;
	}
	else
	{
		if (scan->table.tuple_shape == NULL || !batch->rechecked ||
			!GjShapeFits(scan->table.tuple_shape, GjRowTuple(batch, batch->next)->t_data))
			return false;
		pairs_count_rows(scan, 1);
	}
	if (batch->partners != NULL)
		state->pair = batch->partners[batch->next];
	batch->next++;
	return true;
}

/*
 * Load the next rows.  For EXPLAIN, the scan returns entries for the fast path as rows; tuples and
 * other entries are counted when they are taken.
 */
static bool
pairs_load_rows(GjJoinScanState *scan, bool by_row)
{
	GjInstrumentation *instrument = scan->table.css.ss.ps.instrument;
	GjRowBatch *batch;

	if (instrument != NULL)
		InstrStartNode(instrument);
	batch = GjRowsNext(scan->table.rows, by_row);
	scan->ncounted = 0;
	if (instrument != NULL)
		InstrStopNode(instrument, batch != NULL && batch->tuples == NULL &&
					  scan->direct_shape != NULL ? batch->nrows : 0);
	return batch != NULL;
}

/*-------------------------------------------------------------------------
 * Batches of rows
 *
 * If each entry or tuple is a row, batch consumers get the table's own batch.  Otherwise, pairs
 * are rows; if no column of the partners is wanted, an entry or tuple stands for all of its
 * pairs, with their number as weight.
 *-------------------------------------------------------------------------
 */

const GjRowMethods GjJoinRowMethods = {
	.partner_column = partner_column,
	.next_batch = pairs_next_batch,
	.reduce = pairs_reduce,
	.next_states = pairs_next_states,
};

/*
 * Method of GjRowMethods
 */
static int
partner_column(const PlanState *node, int at)
{
	const GjJoinDirect *direct = ((const GjJoinState *) node)->direct;

	for (int i = 0; direct != NULL && i < direct->noutputs; i++)
	{
		if (direct->outputs[i].attno == at + 1)
			return direct->outputs[i].column;
	}
	return -1;
}

/*
 * Method of GjRowMethods: advance until rows are loaded that can take the fast path
 */
static GjRowBatch *
pairs_next_batch(PlanState *node, bool want_partners)
{
	GjJoinState *state = (GjJoinState *) castNode(CustomScanState, node);
	GjRowBatch *batch = &state->batch_rows;

	if (batch->next < batch->nrows)
		return batch;
	for (;;)
	{
		while (state->phase < GJ_PHASE_ROWS)
			pairs_prepare(state);
		if (state->phase != GJ_PHASE_ROWS || state->direct == NULL)
			return NULL;
		batch = GjRowsGetBatch(state->scan->table.rows);
		if (state->pair != NULL || batch->next < batch->nrows ||
			pairs_load_rows(state->scan, state->scan->direct_shape == NULL))
			break;
		if (!GjRowsIsOpen(state->scan->table.rows))
			return NULL;		/* EvalPlanQual supplies the row */
		leave_table(state);
	}
	batch->is_last = false;		/* the next small rows may have more */
	batch->shape = batch->tuples == NULL ? state->scan->direct_shape :
		state->scan->table.array_shape;
	return batch->shape != NULL && batch->rechecked ? make_rows(state, batch, want_partners) : NULL;
}

/*
 * Return the result rows of a table's batch.  If some pairs of a row have been returned, return its
 * other pairs first.
 */
static GjRowBatch *
make_rows(GjJoinState *state, GjRowBatch *table, bool want_partners)
{
	GjRowBatch *batch = &state->batch_rows;

	if (table->partners == NULL)
	{
		if (table->tuples != NULL)
		{
			pairs_count_rows(state->scan, table->nrows - Max(table->next, state->scan->ncounted));
			state->scan->ncounted = table->nrows;
		}
		return table;
	}
	*batch = *table;
	batch->partner_natts = state->direct->natts;
	if (state->pair == NULL && !counts_partners(state))
	{
		/* each row has one result row, and its partner is the first one, if the row has any */
		if (table->tuples != NULL)
			pairs_count_rows(state->scan, table->nrows - table->next);
		table->next = table->nrows;
		return batch;
	}
	batch->next = 0;
	batch->rows = state->direct->rows;
	batch->partners = NULL;
	if (state->pair != NULL || want_partners)
	{
		batch->nrows = take_pairs(state, table);
		batch->partners = state->direct->partners;
	}
	else
	{
		batch->nrows = pairs_take_weights(state, table);
		batch->weights = state->direct->weights;
	}
	return batch;
}

/*
 * Return true if a row may have several partners that count, or if they must be marked
 */
static inline bool
counts_partners(const GjJoinState *state)
{
	return GjJoinMarksSmall(state->kind) ||
		(state->batch->shared_keys && state->kind != GJ_JOIN_SEMI);
}

/*
 * Take the next pairs of the table's rows with their partners, and return their number
 */
static int
take_pairs(GjJoinState *state, GjRowBatch *table)
{
	GjJoinDirect *direct = state->direct;
	int			n = 0;

	while (n < GJ_BATCH_ROWS && (state->pair != NULL || table->next < table->nrows))
	{
		if (state->pair == NULL)
			take_row(state, table);
		direct->rows[n] = table->rows[table->next - 1];
		direct->partners[n++] = state->pair;
		take_partner(state);
	}
	return n;
}

/*
 * Take the next rows of the table with the number of their partners, and return the number of
 * rows
 */
static int
pairs_take_weights(GjJoinState *state, GjRowBatch *table)
{
	GjJoinDirect *direct = state->direct;
	int			n = 0;

	Assert(state->pair == NULL);
	while (n < GJ_BATCH_ROWS && table->next < table->nrows)
	{
		take_row(state, table);
		direct->weights[n] = take_partners(state);
		direct->rows[n++] = table->rows[table->next - 1];
	}
	return n;
}

/*
 * Advance to the next row and its first partner
 */
static inline void
take_row(GjJoinState *state, GjRowBatch *batch)
{
	int			row = batch->next++;

	state->pair = batch->partners[row];
	if (batch->tuples != NULL)
		pairs_count_rows(state->scan, 1);
}

/*-------------------------------------------------------------------------
 * Reductions
 *
 * A device makes groups of the rows of the big side.  If a row's partners decide to which groups
 * its pairs belong, rows of different keys are in different groups, and each group is then
 * combined with each partner of its key.  So the device need not know the small side.  If only the
 * number of a key's partners matters, it is the weight of the key's rows.
 *-------------------------------------------------------------------------
 */

/*
 * Method of GjRowMethods: run the small side, and search for its keys.  If there are several
 * batches, or tables, this is called again for each search (start_scan).
 */
static bool
pairs_reduce(PlanState *node, GjReduceRequest *request)
{
	GjJoinState *state = (GjJoinState *) castNode(CustomScanState, node);
	GjJoinScanState *scan;

	if (state->direct == NULL || state->nparts > (GjCodecHasPairs(&state->codec) ? 1 : 0) ||
		state->scans[0]->table.share.found != NULL ||
		(state->kind != GJ_JOIN_INNER && state->kind != GJ_JOIN_SEMI))
		return false;
	while (state->phase == GJ_PHASE_COLLECT || state->phase == GJ_PHASE_BATCH)
		pairs_prepare(state);
	if (state->phase != GJ_PHASE_TABLE)
		return false;
	if (state->ask_again == NULL &&
		(state->nscans > 1 || state->partitions != NIL || !state->batch->is_only))
	{
		state->ask_again = request->again;
		state->ask_arg = request->arg;
		return false;
	}

	scan = state->ask_again == NULL ? state->scans[0] : state->scan;
	if (scan->direct_shape == NULL || GjJoinScanIsReady(scan))
		return false;
	pairs_make_keys(state, GjIndexKeyWidth(scan->table.index));
	request->ahead = state->ask_again != NULL ? search_ahead : NULL;
	request->ahead_arg = state;
	return reduce_table(state, scan, request);
}

/*
 * Ask for the reduction of the next table that has any of the batch's keys, while a device works
 * for the current one.  The keys must stay as they are: a search may need them to the end.
 */
static void
search_ahead(void *arg)
{
	GjJoinState *state = arg;
	GjJoinScanState *before = state->scan;
	int			current = state->current;

	while (++state->current < state->nscans)
	{
		GjJoinScanState *scan = state->scans[scan_in_turn(state)];

		if (GjIndexKeyWidth(scan->table.index) != state->keys->key_width)
			break;
		if (GjJoinScanIsReady(scan) || scan->own_keys != NULL || !choose_keys(state, scan))
			continue;
		state->scan = scan;
		state->ask_again(state->ask_arg);
		break;
	}
	state->scan = before;
	state->current = current;
}

/*
 * Have a device reduce the rows of a table that have the batch's keys
 */
static bool
reduce_table(GjJoinState *state, GjJoinScanState *scan, GjReduceRequest *request)
{
	GjTableScan *table = &scan->table;
	bool		shared = state->batch->shared_keys && state->kind != GJ_JOIN_SEMI;
	bool		prepared;

	table->keys = keys_of(state, scan);
	if (!GjReduceProve(table, state->batch->tuples, request))
	{
		table->keys = NULL;
		return false;
	}
	request->by_key = request->by_partner ||
		(shared && !request->distinct && !request->only_groups &&
		 !weigh_keys(state, table, request));
	request->most_partners = request->by_partner && shared ? most_partners(state) : 1;
	request->npartners = state->batch->nrows;
	prepared = GjReducePrepare(table, scan->direct_shape, request);
	table->keys = NULL;
	if (!prepared)
		return false;
	table->reduction = &request->reduction;
	GjJoinScanMatch(scan, keys_of(state, scan), state->batch->tuples,
					state->batch->is_only, needs_partners(state, scan));
	table->reduction = NULL;
	return GjRowsAreReduced(table->rows);
}

/*
 * Have the rows of each key count as often as the key has partners.  Returns false if a device
 * cannot do so, or if the groups might have too many rows for sums to be exact.
 */
static bool
weigh_keys(GjJoinState *state, const GjTableScan *table, GjReduceRequest *request)
{
	const GjKeySet *keys = table->keys;
	const GjProofs *proofs = request->reduction.proofs;
	uint64		n = GjCountListed(keys, proofs);
	gjd_reduction *asked = &request->reduction.asked;
	double		entries = table->index->rd_rel->reltuples;
	uint32	   *weights;

	if ((GjServiceCapabilities() & GJD_CAN_WEIGH) == 0 ||
		entries * most_partners(state) > PG_INT32_MAX)
		return false;
	weights = MemoryContextAllocHuge(request->context, n * sizeof(uint32));
	for (uint64 i = 0; i < n; i++)
		weights[i] = (proofs == NULL ? find_small(state, GjKeySetAt(keys, i), 0) :
					  find_small(state, proofs->codes[i], proofs->rests[i]))->nrows_of_key;
	asked->weights = weights;
	asked->n_keys = n;
	return true;
}

/*
 * Return the first small row of a key, given its code, and its rest if keys have any
 */
static GjSmallRow *
find_small(GjJoinState *state, int64 code, int64 rest)
{
	Datum		part = Int64GetDatum(rest);

	return GjSmallLookup(state->small, code, &part);
}

static uint32
most_partners(const GjJoinState *state)
{
	uint32		most = 1;

	for (const GjSmallRow *row = state->batch->first; row != NULL; row = row->next)
		most = Max(most, row->nrows_of_key);
	return most;
}

/*
 * Method of GjRowMethods
 */
static void
pairs_next_states(PlanState *node, GjReduceRequest *request)
{
	GjJoinState *state = (GjJoinState *) castNode(CustomScanState, node);
	const GjReduction *reduction = &request->reduction;

	if (!request->by_key)
	{
		GjReduceNext(request);
		return;
	}
	request->rows->n = 0;
	request->rows->has_partners = request->by_partner;
	request->rows->partner_natts = state->direct->natts;
	while (request->rows->n < GJ_BATCH_ROWS &&
		   (request->partner != NULL || request->next < reduction->nelements))
	{
		if (request->partner == NULL)
			request->next++;
		add_states(state, request, reduction->words +
				   (request->next - 1) * reduction->element_words);
	}
}

/*
 * Add the groups that a group of one key makes with the key's partners, as many as there is room
 * for
 */
static void
add_states(GjJoinState *state, GjReduceRequest *request, const uint64 *element)
{
	GjStateRows *rows = request->rows;
	GjSmallRow *partner = request->partner;
	int64		rest;
	int64		code = GjReduceKey(request, element, &rest);

	if (partner == NULL)
		partner = find_small(state, code, rest);
	if (partner == NULL)
		elog(ERROR, "a device has reduced rows of a key that it was not asked for");
	if (!rows->has_partners)
	{
		rows->weights[rows->n] = partner->nrows_of_key;
		rows->elements[rows->n++] = element;
		return;
	}
	for (; partner != NULL && rows->n < GJ_BATCH_ROWS; partner = partner->next_of_key)
	{
		rows->partners[rows->n] = partner;
		rows->weights[rows->n] = 1;
		rows->elements[rows->n++] = element;
	}
	request->partner = partner;
}

/*
 * Add a small row to the tuple's result row; the next one of the same key follows
 */
static inline void
add_partner(GjJoinState *state, GjSmallRow *row, TupleTableSlot *slot)
{
	state->pair = row;
	take_partner(state);
	fill_small(state->direct, row, slot);
}

/*
 * Advance from state->pair to the next partner
 */
static inline void
take_partner(GjJoinState *state)
{
	GjSmallRow *row = state->pair;

	state->pair = state->kind == GJ_JOIN_SEMI ? NULL : row->next_of_key;
	if (GjJoinMarksSmall(state->kind))
		row->matched = true;
}

/*
 * Take all partners of the row at once, and return their number.  Partners of one key are always
 * marked together: if the first one is marked, so are the others.
 */
static inline uint32
take_partners(GjJoinState *state)
{
	GjSmallRow *first = state->pair;

	state->pair = NULL;
	if (first == NULL)
		return 0;
	if (GjJoinMarksSmall(state->kind))
	{
		for (GjSmallRow *row = first; row != NULL && !row->matched; row = row->next_of_key)
			row->matched = true;
	}
	return state->kind == GJ_JOIN_SEMI ? 1 : first->nrows_of_key;
}

/*
 * For EXPLAIN, count rows as returned by the scan
 */
static inline void
pairs_count_rows(GjJoinScanState *scan, int n)
{
	if (unlikely(scan->table.css.ss.ps.instrument != NULL))
		scan->table.css.ss.ps.instrument->tuplecount += n;
}

static void
fill_small(const GjJoinDirect *direct, const GjSmallRow *row, TupleTableSlot *slot)
{
	const Datum *values = GjSmallRowValues(row);
	const bool *nulls = GjSmallRowNulls(row, direct->natts);

	for (int i = 0; i < direct->noutputs; i++)
	{
		int			at = direct->outputs[i].attno - 1;
		int			column = direct->outputs[i].column;

		slot->tts_values[at] = values[column];
		slot->tts_isnull[at] = nulls[column];
	}
}
