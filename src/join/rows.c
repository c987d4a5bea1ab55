/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  Join the rows of a small side with a big side through gpujoin indexes.
 *
 * The small side's plan is run once and its rows collected (exec/small.c).  For each batch of
 * them, and for each table of the big side in turn, the table's index is searched for the batch's
 * distinct keys, and the rows found by the match are fetched in heap order.  A big row's key is
 * looked up in the batch's hash table.  Then the big table's own filters are evaluated, once per
 * row (scan.c), and then the other join quals, for each small row with that key.  One virtual
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

#include "pages/pages.h"
#include "state.h"

static void prepare(GjJoinState *state);
static void collect_small(GjJoinState *state);
static bool read_small_key(GjJoinState *state, TupleTableSlot *slot, int64 *key);
static bool start_batch(GjJoinState *state);
static bool next_table(GjJoinState *state);
static TupleTableSlot *next_tuple(GjJoinState *state);
static bool takes_tuples(const GjJoinScanState *scan, const GjFill *fill);
static bool next_big_row(GjJoinState *state);
static void leave_rows(GjJoinState *state);
static bool table_goes_on(GjJoinState *state);
static int	scan_in_turn(const GjJoinState *state);
static bool all_small_matched(GjJoinState *state);
static bool start_scan(GjJoinState *state, GjJoinScanState *scan);
static const GjKeySet *choose_filter(const GjJoinState *state, const GjJoinScanState *scan);
static bool match_own_keys(GjJoinState *state, GjJoinScanState *scan);
static void stop_scan(GjJoinState *state, GjJoinScanState *scan);
static void make_keys(GjJoinState *state, int key_width);
static void forget_keys(GjJoinState *state);
static bool next_pair(GjJoinState *state);
static bool pair_counts(GjJoinState *state, GjSmallRow *row);
static bool next_unmatched(GjJoinState *state);
static bool passes_other_quals(GjJoinState *state);
static TupleTableSlot *project_joined(GjJoinState *state);

/*
 * Return the next joined row
 */
TupleTableSlot *
GjExecJoin(CustomScanState *node)
{
	GjJoinState *state = (GjJoinState *) node;
	TupleTableSlot *slot;

	for (;;)
	{
		switch (state->phase)
		{
			case GJ_PHASE_COLLECT:
			case GJ_PHASE_BATCH:
			case GJ_PHASE_TABLE:
				prepare(state);
				break;
			case GJ_PHASE_DIRECT:
				slot = GjJoinNextDirect(state);
				if (slot != NULL)
					return slot;
				state->phase = GJ_PHASE_BIG_ROW;
				break;
			case GJ_PHASE_BIG_ROW:
				slot = next_tuple(state);
				if (slot != NULL)
					return slot;
				if (next_big_row(state))
					state->phase = GJ_PHASE_PAIRS;
				else
					leave_rows(state);
				break;
			case GJ_PHASE_PAIRS:
				if (next_pair(state))
					return project_joined(state);
				state->phase = GJ_PHASE_BIG_ROW;
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
 * For batch consumers: advance until rows are loaded that can take the fast path (direct.c).
 * Returns false if the next row, if any, comes from GjExecJoin().
 */
bool
GjJoinLoad(GjJoinState *state, GjReadyRows *ready, bool *partners)
{
	for (;;)
	{
		switch (state->phase)
		{
			case GJ_PHASE_COLLECT:
			case GJ_PHASE_BATCH:
			case GJ_PHASE_TABLE:
				prepare(state);
				break;
			case GJ_PHASE_DIRECT:
				if (GjJoinEntriesAreReady(state, ready, partners))
					return true;
				GjJoinScanFetchRest(state->direct_scan, state->small);
				state->phase = GJ_PHASE_BIG_ROW;
				break;
			case GJ_PHASE_BIG_ROW:
				if (!takes_tuples(state->scan, state->scan->table.array_fill))
					return false;
				if (GjJoinTuplesAreReady(state, ready, partners))
					return true;
				leave_rows(state);
				break;
			default:
				return false;
		}
	}
}

/*
 * Do the work that precedes the rows of a table
 */
static void
prepare(GjJoinState *state)
{
	switch (state->phase)
	{
		case GJ_PHASE_COLLECT:
			collect_small(state);
			state->phase = GJ_PHASE_BATCH;
			break;
		case GJ_PHASE_BATCH:
			state->phase = start_batch(state) ? GJ_PHASE_TABLE : GJ_PHASE_DONE;
			break;
		default:
			Assert(state->phase == GJ_PHASE_TABLE);
			if (next_table(state))
				state->phase = state->direct_scan != NULL ? GJ_PHASE_DIRECT : GJ_PHASE_BIG_ROW;
			else
				state->phase = GjJoinKeepsUnmatched(state->kind) ? GJ_PHASE_UNMATCHED
					: GJ_PHASE_BATCH;
			break;
	}
}

/*
 * Run the small side to its end
 */
static void
collect_small(GjJoinState *state)
{
	PlanState  *small_plan = linitial(state->css.custom_ps);

	for (;;)
	{
		TupleTableSlot *slot = ExecProcNode(small_plan);
		int64		key = 0;
		bool		has_key;

		if (TupIsNull(slot))
			break;
		slot_getallattrs(slot);
		has_key = read_small_key(state, slot, &key);
		GjSmallAdd(state->small, slot->tts_values, slot->tts_isnull, !has_key, key);
	}
	GjSmallFinish(state->small);
}

/*
 * Read the key of a small row.  Returns false if it is NULL.
 *
 * The value is an expression over the joined row that uses only the small part.
 */
static bool
read_small_key(GjJoinState *state, TupleTableSlot *slot, int64 *key)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	Datum		value;
	bool		isnull;

	if (state->value_column >= 0)
	{
		value = slot->tts_values[state->value_column];
		isnull = slot->tts_isnull[state->value_column];
	}
	else
	{
		int			natts = slot->tts_tupleDescriptor->natts;

		ResetExprContext(econtext);
		ExecStoreAllNullTuple(state->joined);
		memcpy(&state->joined->tts_values[state->nbig], slot->tts_values, natts * sizeof(Datum));
		memcpy(&state->joined->tts_isnull[state->nbig], slot->tts_isnull, natts * sizeof(bool));
		value = ExecEvalExprSwitchContext(state->value_expr, econtext, &isnull);
	}
	if (!isnull)
		*key = GjKeyFromDatum(&state->value_proc, value);
	return !isnull;
}

/*
 * Begin the next batch.  Returns false if no batch is left.
 */
static bool
start_batch(GjJoinState *state)
{
	if (!GjSmallNextBatch(state->small))
		return false;

	if (!GjSmallIsOneBatch(state->small))
		GjJoinForgetBatch(state);
	state->current = 0;
	state->pair = NULL;
	state->unmatched = GjSmallFirst(state->small);
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
		GjJoinScanDropTids(state->scans[i]);
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
	for (; state->current < state->nscans; state->current++)
	{
		GjJoinScanState *scan = state->scans[scan_in_turn(state)];

		if (!all_small_matched(state) && start_scan(state, scan))
		{
			state->scan = scan;
			state->direct_scan = scan->direct_fill != NULL && GjJoinHasEntries(scan) ?
				scan : NULL;
			return true;
		}
		stop_scan(state, scan);
	}
	return false;
}

/*
 * Return the result row of the next tuple, if it can take the fast path
 */
static TupleTableSlot *
next_tuple(GjJoinState *state)
{
	GjJoinScanState *scan = state->scan;

	return takes_tuples(scan, scan->table.tuple_fill) ? GjJoinNextTuple(state, scan) : NULL;
}

/*
 * Return true if the current rows are tuples that this fill turns into result rows on the fast
 * path
 */
static bool
takes_tuples(const GjJoinScanState *scan, const GjFill *fill)
{
	return fill != NULL && scan->fetching && (scan->joined || scan->table.filtered);
}

/*
 * Find the next big row of the current table that has partners
 */
static bool
next_big_row(GjJoinState *state)
{
	GjJoinScanState *scan = state->scan;

	if (all_small_matched(state))
		return false;
	state->pair = GjJoinScanNext(scan, state->small);
	if (state->pair == NULL)
		return false;
	ResetExprContext(state->css.ss.ps.ps_ExprContext);
	return true;
}

/*
 * Choose the next phase after the last of the fetched rows
 */
static void
leave_rows(GjJoinState *state)
{
	if (!table_goes_on(state))
		state->phase = GJ_PHASE_TABLE;
	else if (state->direct_scan != NULL)
		state->phase = GJ_PHASE_DIRECT;
}

/*
 * Return true if the current table has more rows.  Otherwise, finish it.
 */
static bool
table_goes_on(GjJoinState *state)
{
	GjJoinScanState *scan = state->scan;

	ExecClearTuple(state->joined);
	if (!all_small_matched(state) && GjJoinScanContinue(scan))
		return true;
	stop_scan(state, scan);
	state->current++;
	return false;
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
		state->nmatched == GjSmallBatchRows(state->small);
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
		make_keys(state, GjIndexKeyWidth(scan->table.index));
		INSTR_TIME_SET_CURRENT(end);
		INSTR_TIME_ACCUM_DIFF(scan->table.stats.set_elapsed, end, start);
		if (state->partitions == NIL)
			GjJoinScanMatch(scan, state->keys, GjSmallIsOneBatch(state->small),
							GjJoinNeedsPartners(state, scan));
		else if (!match_own_keys(state, scan))
			return false;
	}
	filter = choose_filter(state, scan);
	if (state->current == state->nscans - 1 && !GjJoinScanIsMatching(scan) && filter == NULL)
		forget_keys(state);
	GjJoinScanStart(scan, state->small, filter);
	return true;
}

/*
 * Return the key set that tuples can be tested against instead of looking up their partners, if
 * nothing is needed of the partners.  NULL if there is no such set, or it was freed, or rebuilt
 * for keys of another width.
 */
static const GjKeySet *
choose_filter(const GjJoinState *state, const GjJoinScanState *scan)
{
	const GjKeySet *keys = scan->own_keys != NULL ? scan->own_keys : state->keys;

	if (scan->table.tuple_fill == NULL || keys == NULL || GjJoinWantsPartners(state) ||
		keys->key_width != GjIndexKeyWidth(scan->table.index))
		return NULL;
	return keys;
}

/*
 * Search for the subset of the keys that the table can contain.  Returns false if it is empty.
 */
static bool
match_own_keys(GjJoinState *state, GjJoinScanState *scan)
{
	List	   *partitions = list_nth(state->partitions, scan_in_turn(state));
	const GjKeySet *own;

	if (state->keys->nkeys == 0 || GjKeyRoutesAreElsewhere(state->routes, partitions))
		return false;
	own = GjKeyRoutesTake(state->routes, partitions, state->context);
	GjJoinScanMatch(scan, own, GjSmallIsOneBatch(state->small),
					GjJoinNeedsPartners(state, scan));
	if (own != state->keys)
		scan->own_keys = unconstify(GjKeySet *, own);
	return true;
}

/*
 * Stop the scan, after clearing the joined slot, which points into the scan's heap page
 */
static void
stop_scan(GjJoinState *state, GjJoinScanState *scan)
{
	ExecClearTuple(state->joined);
	GjJoinScanStop(scan);
	if (state->nscans > 1)
		GjJoinScanDropTids(scan);
}

/*
 * Build the batch's key set.  Tables whose indexes have keys of the same width share it.
 */
static void
make_keys(GjJoinState *state, int key_width)
{
	if (state->keys != NULL && state->keys->key_width == key_width)
		return;

	forget_keys(state);
	state->keys = GjKeySetCreate(state->context, key_width);
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

	GjSmallRowCopy(state->small, row, &state->joined->tts_values[state->nbig],
				   &state->joined->tts_isnull[state->nbig]);
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
 * Find the next small row of the batch that had no match; the big columns are NULL
 */
static bool
next_unmatched(GjJoinState *state)
{
	while (state->unmatched != NULL)
	{
		GjSmallRow *row = state->unmatched;

		CHECK_FOR_INTERRUPTS();
		state->unmatched = row->next;
		if (row->matched)
			continue;

		ExecStoreAllNullTuple(state->joined);
		GjSmallRowCopy(state->small, row, &state->joined->tts_values[state->nbig],
					   &state->joined->tts_isnull[state->nbig]);
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

	state->report.removed_above++;
	return false;
}

static TupleTableSlot *
project_joined(GjJoinState *state)
{
	return ExecProject(state->css.ss.ps.ps_ProjInfo);
}
