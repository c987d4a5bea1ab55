/*-------------------------------------------------------------------------
 *
 * direct.c
 *	  GpuJoin's fast path: build result rows directly from index entries or tuples.
 *
 * If the join computes and filters nothing beyond its key, and a table's rows come from entries,
 * a result row is built from an entry and a small row, without the joined slot and a projection.
 * The small rows are looked up for a chunk of entries at once.
 *
 * Often they need not be looked up at all.  The match delivers only entries whose keys are in the
 * set, and the set contains the keys of the batch.  So an entry that is a row has a partner.  If
 * no two small rows have the same key, it has exactly one; and if neither a column of the partner
 * nor a mark on it is needed, it does not matter which one.
 *
 * For fetched tuples, the fetch has tested the keys, or looked up the partners, block by block.
 * A tuple whose columns are not at the usual offsets takes the slow path (rows.c), except for
 * batch consumers.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/rel.h"

#include "state.h"

/* A result column that is filled from a small row */
typedef struct SmallOutput
{
	AttrNumber	attno;			/* position in the result */
	int			column;			/* position in the small row */
} SmallOutput;

struct GjJoinDirect
{
	uint64		entry;			/* row whose partners state->pair points to */
	int			natts;			/* number of columns of a small row */
	int			noutputs;
	SmallOutput outputs[FLEXIBLE_ARRAY_MEMBER];
};

/*
 * Rows that have not been taken with their partners yet: entries of a chunk, or tuples of a block
 */
typedef struct Waiting
{
	int		   *next;
	int			nrows;
	const uint16 *numbers;		/* entry numbers, relative to first; NULL for tuples */
	uint64		first;
	void	  **partners;		/* GjSmallRow */
} Waiting;

static bool is_plain(const GjJoinState *state, TargetEntry *target);
static List *split_target(GjJoinState *state, GjJoinDirect *direct);
static void init_tuples(GjJoinScanState *scan, List *big);
static bool next_entry(GjJoinState *state, GjJoinScanState *scan);
static bool load_entries(GjJoinState *state, GjJoinScanState *scan);
static Waiting find_waiting(GjJoinState *state);
static inline void take_row(GjJoinState *state, const Waiting *waiting);
static inline uint16 row_number(const Waiting *waiting, int row);
static inline void add_partner(GjJoinState *state, GjSmallRow *row, TupleTableSlot *slot);
static inline void take_partner(GjJoinState *state);
static inline uint32 take_partners(GjJoinState *state);
static bool load_tuples(GjJoinScanState *scan);
static inline void count_rows(GjJoinScanState *scan, int n);
static void fill_small(const GjJoinDirect *direct, const GjSmallRow *row, TupleTableSlot *slot);

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
		if (!is_plain(state, lfirst_node(TargetEntry, lc)))
			return;
	}

	state->direct = palloc0(offsetof(GjJoinDirect, outputs) +
							list_length(target) * sizeof(SmallOutput));
	state->direct->natts = state->joined->tts_tupleDescriptor->natts - state->nbig;
	big = split_target(state, state->direct);
	for (int i = 0; i < state->nscans; i++)
	{
		GjJoinScanState *scan = state->scans[i];

		init_tuples(scan, big);
		if (scan->table.target_fill == NULL)
			continue;
		scan->direct_fill = GjFillTarget(scan->table.target_fill, big, INDEX_VAR);
		if (scan->direct_fill != NULL)
			GjIndexOnlyFeed(scan->table.index_only, scan->direct_fill);
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
	scan->table.tuple_fill = GjFillTarget(GjFillTupleRow(desc, tlist, scanrelid, false), big,
										  INDEX_VAR);
	scan->table.array_fill = GjFillTarget(GjFillTupleRow(desc, tlist, scanrelid, true), big,
										  INDEX_VAR);
}

/*
 * Return true if the target is a column of the joined row
 */
static bool
is_plain(const GjJoinState *state, TargetEntry *target)
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
bool
GjJoinNeedsPartners(const GjJoinState *state, const GjJoinScanState *scan)
{
	return scan->direct_fill == NULL || GjJoinWantsPartners(state);
}

/*
 * The same for rows that take the fast path
 */
bool
GjJoinWantsPartners(const GjJoinState *state)
{
	return state->direct->noutputs > 0 || GjJoinMarksSmall(state->kind) ||
		!GjSmallKeysAreUnique(state->small);
}

/*
 * Return the next result row that is built from an entry, or NULL if no entry is left
 */
TupleTableSlot *
GjJoinNextDirect(GjJoinState *state)
{
	TupleTableSlot *slot = state->css.ss.ps.ps_ResultTupleSlot;
	GjJoinScanState *scan = state->direct_scan;
	GjJoinDirect *direct = state->direct;

	if (state->pair == NULL && !next_entry(state, scan))
		return NULL;

	GjFillFromEntry(scan->direct_fill, direct->entry, slot);
	if (scan->lookup)
		add_partner(state, state->pair, slot);
	return slot;
}

/*
 * Advance to the next entry and its partners
 */
static bool
next_entry(GjJoinState *state, GjJoinScanState *scan)
{
	GjIndexOnlyChunk *chunk = GjIndexOnlyGetChunk(scan->table.index_only);

	if (chunk->next >= chunk->nrows)
	{
		if (!load_entries(state, scan))
			return false;
		GjIndexOnlyPrefetch(scan->table.index_only);
	}
	if (scan->lookup)
		state->pair = scan->partners[chunk->next];
	state->direct->entry = chunk->first + chunk->rows[chunk->next++];
	return true;
}

/*
 * Load the next entries; for EXPLAIN, the scan returns them as rows
 */
static bool
load_entries(GjJoinState *state, GjJoinScanState *scan)
{
	Instrumentation *instrument = scan->table.css.ss.ps.instrument;
	bool		loaded;

	if (instrument != NULL)
		InstrStartNode(instrument);
	loaded = GjJoinEntriesLoad(scan, state->small);
	if (instrument != NULL)
		InstrStopNode(instrument, loaded ? GjIndexOnlyGetChunk(scan->table.index_only)->nrows : 0);
	return loaded;
}

/* As arrays ------------------------------------------------------------------------- */

/*
 * Return true if there are entries that form result rows
 */
bool
GjJoinEntriesAreReady(GjJoinState *state, GjReadyRows *ready, bool *partners)
{
	GjJoinScanState *scan = state->direct_scan;
	GjIndexOnlyChunk *chunk = GjIndexOnlyGetChunk(scan->table.index_only);

	*ready = (GjReadyRows) {.fill = scan->direct_fill,.chunk = chunk};
	*partners = scan->lookup;
	return state->pair != NULL || chunk->next < chunk->nrows || load_entries(state, scan);
}

/*
 * Return true if there are tuples that form result rows
 */
bool
GjJoinTuplesAreReady(GjJoinState *state, GjReadyRows *ready, bool *partners)
{
	GjJoinScanState *scan = state->scan;

	*ready = (GjReadyRows) {
		.fill = scan->table.array_fill,.block = scan->block,
		.desc = RelationGetDescr(scan->table.css.ss.ss_currentRelation)
	};
	*partners = scan->joined;
	return state->pair != NULL || scan->block->next < scan->block->ntuples ||
		load_tuples(scan);
}

/*
 * Return true if some pairs of an entry or a tuple have been taken, but not all
 */
bool
GjJoinIsInPairs(const GjJoinState *state)
{
	return state->pair != NULL;
}

/*
 * Return the column of the small row, from 0, that is this attribute of the result, or -1 if it
 * belongs to the big side or there is no fast path
 */
int
GjJoinSmallColumn(const GjJoinState *state, AttrNumber attno)
{
	for (int i = 0; state->direct != NULL && i < state->direct->noutputs; i++)
	{
		if (state->direct->outputs[i].attno == attno)
			return state->direct->outputs[i].column;
	}
	return -1;
}

/*
 * Return the number of columns of a small row
 */
int
GjJoinSmallColumns(const GjJoinState *state)
{
	return state->direct->natts;
}

/*
 * Take at most `most` tuples of the block, each of which is a row
 */
int
GjJoinTakeTuples(GjJoinState *state, uint16 *rows, int most)
{
	GjFetchBlock *block = state->scan->block;
	int			n = 0;

	while (n < most && block->next < block->ntuples)
		rows[n++] = (uint16) block->next++;
	count_rows(state->scan, n);
	return n;
}

/*
 * Take at most `most` pairs of the chunk's entries or the block's tuples, and their partners.
 * Entries are numbered as in rows[] of the chunk, tuples from 0.
 */
int
GjJoinTakePairs(GjJoinState *state, uint16 *rows, GjSmallRow **partners, int most)
{
	Waiting		waiting = find_waiting(state);
	int			n = 0;

	while (n < most && (state->pair != NULL || *waiting.next < waiting.nrows))
	{
		if (state->pair == NULL)
			take_row(state, &waiting);
		rows[n] = row_number(&waiting, *waiting.next - 1);
		partners[n++] = state->pair;
		take_partner(state);
	}
	return n;
}

/*
 * Take at most `most` of them, each with the number of its partners.  Must not be called while
 * only some of the pairs of a row have been taken.
 */
int
GjJoinTakeWeights(GjJoinState *state, uint16 *rows, uint32 *weights, int most)
{
	Waiting		waiting = find_waiting(state);
	int			n = 0;

	Assert(state->pair == NULL);
	while (n < most && *waiting.next < waiting.nrows)
	{
		take_row(state, &waiting);
		weights[n] = take_partners(state);
		rows[n++] = row_number(&waiting, *waiting.next - 1);
	}
	return n;
}

static Waiting
find_waiting(GjJoinState *state)
{
	GjIndexOnlyChunk *chunk;

	if (state->phase != GJ_PHASE_DIRECT)
		return (Waiting) {
			.next = &state->scan->block->next,.nrows = state->scan->block->ntuples,
			.partners = state->scan->block->partners
		};
	chunk = GjIndexOnlyGetChunk(state->direct_scan->table.index_only);
	return (Waiting) {
		.next = &chunk->next,.nrows = chunk->nrows,.numbers = chunk->rows,.first = chunk->first,
		.partners = state->direct_scan->partners
	};
}

/*
 * Advance to the next row and its first partner
 */
static inline void
take_row(GjJoinState *state, const Waiting *waiting)
{
	int			row = (*waiting->next)++;

	state->pair = waiting->partners[row];
	if (waiting->numbers != NULL)
		state->direct->entry = waiting->first + waiting->numbers[row];
	else
		count_rows(state->scan, 1);
}

static inline uint16
row_number(const Waiting *waiting, int row)
{
	return waiting->numbers != NULL ? waiting->numbers[row] : (uint16) row;
}

/* Tuples ---------------------------------------------------------------------------- */

/*
 * Return the next result row that is built from a fetched tuple.  Returns NULL if the next tuple,
 * if any, has to take the slow path.
 */
TupleTableSlot *
GjJoinNextTuple(GjJoinState *state, GjJoinScanState *scan)
{
	TupleTableSlot *slot = state->css.ss.ps.ps_ResultTupleSlot;
	GjFetchBlock *block = scan->block;
	GjSmallRow *row = state->pair;

	if (row == NULL)
	{
		if (block->next >= block->ntuples && !load_tuples(scan))
			return NULL;
		if (!GjFillFits(scan->table.tuple_fill, block->tuples[block->next].t_data))
			return NULL;
		if (scan->joined)
			row = block->partners[block->next];
		block->next++;
		count_rows(scan, 1);
	}

	GjFillFromTuple(scan->table.tuple_fill, block->tuples[block->next - 1].t_data, slot);
	if (row != NULL)
		add_partner(state, row, slot);
	return slot;
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
 * Fetch the next block; for EXPLAIN, the time counts for the scan
 */
static bool
load_tuples(GjJoinScanState *scan)
{
	Instrumentation *instrument = scan->table.css.ss.ps.instrument;
	bool		loaded;

	if (instrument == NULL)
		return GjFetchLoad(scan->table.fetch);
	InstrStartNode(instrument);
	loaded = GjFetchLoad(scan->table.fetch);
	InstrStopNode(instrument, 0.0);
	return loaded;
}

/*
 * For EXPLAIN, count rows as returned by the scan
 */
static inline void
count_rows(GjJoinScanState *scan, int n)
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
