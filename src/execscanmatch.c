/*-------------------------------------------------------------------------
 *
 * execscanmatch.c
 *	  What a GpuScan asks its index: for which keys, and with how much memory.
 *
 * The values of the key conditions are evaluated once, into a set.  Scans of other
 * partitions that ask for the same keys share it, and each takes the part that its
 * table can have (execkeyshare.c).  Within EvalPlanQual, where params get other values
 * without a word, a scan makes a set of its own.
 *
 * Where entries will do, they are asked for, else TIDs: of all entries, or of those that pass
 * the filters that an entry can be tested by.  In a parallel plan it may be another process
 * that searches (execparallel.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"

#include "am.h"
#include "execscan.h"
#include "gpujoin.h"

static const GjKeySet *share_keys(GjScanState *scan);
static Size search_memory(GjScanState *scan);
static GjTidSet *search_tids(CustomScanState *node, Size limit);

/*
 * Make the set of keys, from this scan's own values or with the others of the query
 */
void
GjScanMakeKeys(GjScanState *scan)
{
	instr_time	start;
	instr_time	end;

	INSTR_TIME_SET_CURRENT(start);
	if (scan->css.ss.ps.state->es_epq_active != NULL)
		scan->keys = GjKeyProgramRun(scan->program, scan->css.ss.ps.ps_ExprContext,
									 scan->context, GjIndexKeyWidth(scan->index));
	else
		scan->keys = share_keys(scan);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_ACCUM_DIFF(scan->stats.set_elapsed, end, start);
}

static const GjKeySet *
share_keys(GjScanState *scan)
{
	CustomScan *plan = (CustomScan *) scan->css.ss.ps.plan;
	GjKeyRequest request = {
		.key_plan = GjScanGetPrivate(plan, GJ_SCAN_KEY_PLAN),
		.values = (List *) GjScanGetExpr(plan, GJ_SCAN_VALUES),
		.program = scan->program,
		.econtext = scan->css.ss.ps.ps_ExprContext,
		.key_width = GjIndexKeyWidth(scan->index),
	};

	GjKeysTake(&scan->key_user, scan->css.ss.ps.state, &request);
	return GjKeysPart(&scan->key_user, GjScanGetPrivate(plan, GJ_SCAN_PARTITIONS), scan->context);
}

/*
 * Begin to search for the keys.  Returns the TIDs that were found; NULL if the index-only
 * answer has begun instead.
 */
GjTidSet *
GjScanMatch(GjScanState *scan)
{
	Size		memory = search_memory(scan);

	GjEntryFilterReset(scan->entry_filter);
	if (scan->index_only != NULL && !scan->keys->nulls &&
		GjIndexOnlyIsPossible(scan->index_only))
		return GjShareEntries(&scan->css, scan->index_only, scan->keys, scan->row_fill->columns,
							  scan->context, memory, true, search_tids);
	return GjShareMatch(&scan->css, scan->context, memory, true, search_tids);
}

/*
 * What the keys leave of the memory
 */
static Size
search_memory(GjScanState *scan)
{
	Size		limit = GjWorkMemory();
	Size		used = GjKeySetMemory(scan->keys);

	return used < limit / 2 ? limit - used : limit / 2;
}

/*
 * Find the TIDs of the keys
 */
static GjTidSet *
search_tids(CustomScanState *node, Size limit)
{
	GjScanState *scan = (GjScanState *) node;
	Relation	heap = node->ss.ss_currentRelation;
	Snapshot	snapshot = node->ss.ps.state->es_snapshot;
	GjTidSet   *tids;

	if (scan->entry_filter != NULL && !scan->unfiltered && !scan->keys->nulls)
		tids = GjExecMatchFiltered(heap, scan->index, snapshot, scan->keys, scan->entry_filter,
								   scan->context, limit, &scan->stats);
	else
	{
		tids = GjTidSetCreate(scan->context, limit);
		if (scan->keys->nulls)
			GjExecMatchAll(heap, snapshot, tids, &scan->stats);
		else
			GjExecMatch(heap, scan->index, snapshot, scan->keys, tids, &scan->stats);
	}
	if (scan->index_only != NULL)
		GjIndexOnlyGetStats(scan->index_only)->heap_fetches += GjTidSetCount(tids);
	return tids;
}
