/*-------------------------------------------------------------------------
 *
 * execjoinentries.c
 *	  Rows of a GpuJoinScan that come from index entries.
 *
 * A chunk of them is made ready at a time (execindexonly.c), and their keys are looked up
 * all at once.  Then each is put into the joined slot by itself; or, if the join can do
 * without that, straight into the result (execjoindirect.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"

#include "execjoinscan.h"
#include "joinplan.h"

static uint64 wanted_columns(const GjJoinScanState *scan);
static void find_partners(GjJoinScanState *scan, GjSmallSide *small, GjIndexOnlyChunk *chunk);

/*
 * Prepare.  Entries can go into the scan slot and, where no filter needs the row there, since
 * all were tested on the entry, and nothing is computed, straight into the joined slot.
 */
void
GjJoinEntriesInit(GjJoinScanState *scan)
{
	CustomScan *plan = (CustomScan *) scan->css.ss.ps.plan;

	scan->index_only = GjIndexOnlyCreate(&scan->css.ss, scan->index);
	GjIndexOnlyFilter(scan->index_only, scan->entry_filter);
	scan->share.index_only = GjIndexOnlyGetStats(scan->index_only);
	scan->row_fill = GjEntryFillRow(scan->index, &plan->scan,
									list_nth(plan->custom_private, GJ_JOIN_SCAN_ATTNOS));
	GjIndexOnlyFeed(scan->index_only, scan->row_fill);
	if (scan->filter_is_all)
		scan->joined_fill = GjEntryFillTarget(scan->row_fill, plan->scan.plan.targetlist,
											  plan->scan.scanrelid);
	if (scan->joined_fill != NULL)
		GjIndexOnlyFeed(scan->index_only, scan->joined_fill);
	scan->partners = palloc0_array(GjSmallRow *, GJ_CHUNK_ENTRIES);
}

/*
 * Begin a match for scan->keys, or take part in one that another process has begun.
 * all_keys: there is no other batch.  lookup: a row's partners are asked for; else the join
 * knows that there is one.  search finds TIDs, if entries will not do.
 */
void
GjJoinEntriesMatch(GjJoinScanState *scan, Size limit, bool all_keys, bool lookup,
				   GjMatchFunction search)
{
	scan->lookup = lookup;
	scan->tids = GjShareEntries(&scan->css, scan->index_only, scan->keys, wanted_columns(scan),
								scan->context, limit, all_keys, search);
}

static uint64
wanted_columns(const GjJoinScanState *scan)
{
	const GjEntryFill *fill = scan->direct_fill != NULL ? scan->direct_fill :
		scan->joined_fill != NULL ? scan->joined_fill : scan->row_fill;

	return fill->columns | GjEntryFilterColumns(scan->entry_filter) |
		(scan->lookup ? GJ_ENTRY_KEY : 0);
}

/*
 * The next row that the heap need not be asked for
 */
GjSmallRow *
GjJoinEntriesNext(GjJoinScanState *scan, GjSmallSide *small)
{
	PlanState  *ps = &scan->css.ss.ps;
	GjIndexOnlyChunk *chunk = GjIndexOnlyGetChunk(scan->index_only);

	while (chunk->next < chunk->nrows || GjJoinEntriesLoad(scan, small))
	{
		GjSmallRow *partners = scan->partners[chunk->next];
		uint64		entry = chunk->first + chunk->rows[chunk->next++];

		if (scan->joined_fill != NULL)
		{
			GjEntryFillSlot(scan->joined_fill, entry, scan->projection->pi_state.resultslot);
			return partners;
		}
		GjEntryFillSlot(scan->row_fill, entry, scan->css.ss.ss_ScanTupleSlot);
		ResetExprContext(ps->ps_ExprContext);
		ps->ps_ExprContext->ecxt_scantuple = scan->css.ss.ss_ScanTupleSlot;
		if (scan->filter_is_all || ExecQual(ps->qual, ps->ps_ExprContext))
		{
			ExecProject(scan->projection);
			return partners;
		}
		InstrCountFiltered1(ps, 1);
	}
	return NULL;
}

/*
 * Are entries the next rows?  They come before those that the heap is asked for.
 */
bool
GjJoinHasEntries(const GjJoinScanState *scan)
{
	return GjIndexOnlyIsStarted(scan->index_only) && !scan->fetching;
}

/*
 * Make the next entries that are rows ready, with their partners if these are asked for;
 * false if there are no more
 */
bool
GjJoinEntriesLoad(GjJoinScanState *scan, GjSmallSide *small)
{
	GjIndexOnlyChunk *chunk = GjIndexOnlyGetChunk(scan->index_only);

	while (GjIndexOnlyLoad(scan->index_only))
	{
		if (scan->lookup)
			find_partners(scan, small, chunk);
		if (chunk->nrows > 0)
			return true;
	}
	return false;
}

/*
 * Look up the keys of a chunk's rows, and drop those without partners, should there be any
 */
static void
find_partners(GjJoinScanState *scan, GjSmallSide *small, GjIndexOnlyChunk *chunk)
{
	int64		keys[GJ_CHUNK_ENTRIES];
	int			nrows = 0;

	GjIndexOnlyKeys(scan->index_only, keys);
	GjSmallLookupMany(small, keys, chunk->nrows, scan->partners);
	for (int i = 0; i < chunk->nrows; i++)
	{
		if (scan->partners[i] == NULL)
			continue;
		chunk->rows[nrows] = chunk->rows[i];
		scan->partners[nrows++] = scan->partners[i];
	}
	chunk->nrows = nrows;
}
