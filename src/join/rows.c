/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  GpuJoin at work: join a small side with a big side through gpujoin indexes.
 *
 * The small side's plan is run once and its rows collected (exec/small.c).  For each
 * batch of them, and for one table of the big side after another, the batch's
 * distinct keys are searched for in the table's index, and the rows that the match
 * names are fetched in heap order.  A big row's key is looked up in the batch's hash
 * table.  Then come the big table's own filters, once a row (scan.c), then for
 * each small row of that key the other join quals.  One virtual slot holds the
 * joined row: the big table's columns are put into it once a big row, the small
 * columns once a pair, and nothing is allocated for a row.
 *
 * Why the answer is exact:
 *
 *	- The match gives at least the TIDs of all visible rows that have a key of the
 *	  batch.  Looking up the key of the fetched row tests the clause that the index
 *	  answers: two values are equal by an operator of the index's family just when
 *	  their keys are the same integer.
 *	- Each big row comes once a batch and each small row is in one batch, so that
 *	  each pair comes once.  For a semijoin that returns big rows, all rows of one
 *	  key are in one batch, so that a big row finds all its partners at once.
 *	- Whether a small row has had a match is known when its batch ends; marks are
 *	  set by the join quals alone, before the quals that remove result rows.
 *	- A row of the big side is in just one of its tables.
 *	- Filters see the big row alone and run before any join qual: security barriers
 *	  of the big side are kept.
 *
 * The joined slot points into the heap page that the big slot pins and into the
 * batch; the result is projected into a slot of its own, so that a node above may
 * materialise it without making the joined slot keep copies.
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
 * For who takes rows as arrays: go on until rows are ready that are made the short way
 * (direct.c).  False: the next row, should there be one, comes from GjExecJoin().
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
 * Do what comes before the rows of a table
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
 * Read the key of a small row; false if it is NULL
 *
 * The value is an expression over the joined row, of which it uses the small part.
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
 * Take the next batch; false if there is none left
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
 * Forget what was made of the batch's keys; no scan is under way
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
 * Begin with the next table that has to be scanned; false if there is none
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
 * Return what the next tuple makes, if that needs nothing of what follows
 */
static TupleTableSlot *
next_tuple(GjJoinState *state)
{
	GjJoinScanState *scan = state->scan;

	return takes_tuples(scan, scan->table.tuple_fill) ? GjJoinNextTuple(state, scan) : NULL;
}

/*
 * Are tuples fetched of which this fill makes result rows the short way?
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
 * After the last of the rows that are fetched: go on with what comes next
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
 * Has the current table more to give?  If not, it is done with.
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
 * The current table.  In a parallel plan each process begins with another one, so that
 * they search several indexes at a time instead of waiting for one search after the other.
 */
static int
scan_in_turn(const GjJoinState *state)
{
	return (state->current + ParallelWorkerNumber + 1) % state->nscans;
}

/*
 * Where a small row's first match is all that counts, the rest need not be seen.
 * Rows with a NULL key are never marked, so that they do not end a batch early.
 */
static bool
all_small_matched(GjJoinState *state)
{
	return (state->kind == GJ_JOIN_RIGHT_SEMI || state->kind == GJ_JOIN_RIGHT_ANTI) &&
		state->nmatched == GjSmallBatchRows(state->small);
}

/*
 * Search the current table, unless it need not be; false if there are no keys to search
 * for
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
 * The set by which tuples can be tested instead of looking up their partners, if nothing is
 * wanted of these.  It may have been forgotten, or made anew for keys of another width.
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
 * Search for those of the keys that the table may have; false if there are none
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
 * The joined slot points into the scan's heap page
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
 * Make the batch's key set, which the tables share as their indexes' keys have the
 * same width
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
 * Find the next partner of the big row that makes a result row
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
 * Join the big row with a small row.  Returns whether they match, which is marked,
 * and whether that is news: where only a first match counts, it may be not.
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
 * Find the next small row of the batch that had no match; the big part is NULL
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
