/*-------------------------------------------------------------------------
 *
 * filteredmatch.c
 *	  Dropping entries by what their columns say, before the visibility map or the heap is
 *	  looked at.
 *
 * For index-only answers, each chunk of entries is filtered when its turn comes
 * (indexonly.c).  For scans that need the heap a match of entries is made instead of one of
 * TIDs, and the TIDs of what passes become the set that is fetched.
 *
 * Claim: no row is lost.  Let R be a row that the snapshot sees, with a key of the set, such
 * that all quals are TRUE for it, and let T be the TID of its HOT chain's root.  An entry with T
 * that was made for R has R's values: an update of an indexed column is no HOT update, and
 * INCLUDE columns count as indexed.  So it passes; what has to be shown is that no other entry
 * with T can stand in its place, and be dropped.
 *
 * a. The match finds R's own entry: match.h.  Were each entry filtered as it is found, that
 *	  would be all, since an entry left over from an earlier owner of T would be dropped by
 *	  itself.
 * b. But a set may keep one of the entries that have the same TID, any one (sets/entryset.c), and
 *	  only then is it filtered.  So let e be an entry with T, of another row R'.  Sets that are
 *	  filtered are certain: what is in them was in the index at or after the moment at which
 *	  the vacuum epoch was read first, E, or was in a mirror whose epoch is E, and no bulk
 *	  deletion that removed it had finished when that mirror was made (match/device.c).
 *	  If R' had T before R: T became free only after a bulk deletion had removed e and
 *	  raised the epoch, and only then was R inserted.  Either that was before E was read, and
 *	  e could not be found, neither in a page nor in a mirror of epoch E; or R was
 *	  inserted after E was read, and so after the snapshot was taken, which does not see it.
 *	  If R' has T after R: R was dead to everybody then, so our snapshot does not see it.
 *	  Hence two different entries with T are of rows that the snapshot does not see, neither
 *	  of them, and it does not matter which one stays, or whether it passes.
 *	  (A device's entries are tested as they come, GjEntryFilterTest(), and only among those that
 *	  passed are others looked for.  Of two that are one entry both pass, or neither.)
 * c. An answer that is not certain (GjMatchStats.outdated) comes as TIDs without columns.
 *	  Nothing is filtered: they all go to the heap, as without a filter.
 * d. The CPU's pieces, and those of a divided answer, are each certain by the same epoch E.
 *	  That the epoch may move meanwhile does not matter: b. never asks for it.
 *
 * So this needs neither the visibility map nor a second look at the epoch.  Each row that is
 * visible has an entry of its own, and that one says what the row's values are.
 *
 * Claim: no row is given that should not be.  What passes is fetched under the snapshot, its
 * key is rechecked, and all quals are tested on the tuple, as without a filter; so, too, on a
 * row that EvalPlanQual puts in the place of another.  A set that became lossy does no harm
 * either.  In an index-only answer an entry that is a row (match/visible.c) has the row's
 * values, and what it passed need not be tested again.
 *
 * Serializable transactions: the match locks the whole index.  Who changes a row so that it
 * would pass makes a new entry, and conflicts with that.  A row that was dropped has not been
 * read, as it would not have been with an index on the filter's columns.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "rows/rows.h"
#include "search.h"

/* The memory for a match is divided between the entries and the TIDs of those that pass */
#define ENTRIES_SHARE			2

/* A match that is made */
typedef struct FilteredMatch
{
	Relation	index;
	GjEntryFilter *filter;
	MemoryContext context;		/* of the entries */
	GjEntryMatch match;
	GjEntrySet *whole;
	GjTidSet   *tids;			/* of those that pass */
	GjMatchStats *stats;
} FilteredMatch;

static void take_answer(FilteredMatch *fm, MemoryContext parent);
static void take_pieces(FilteredMatch *fm);
static void take_passing(FilteredMatch *fm, const GjEntrySet *set);

/*
 * List those of n entries from first on that pass, counted from there; at most GJ_BATCH_ROWS
 */
int
GjFilterEntries(GjEntryFilter *filter, const GjEntrySet *set, uint64 first, int n,
				uint16 *rows)
{
	GjBatchColumn columns[1 + GJ_MAX_INCLUDED];

	for (int i = 0; i <= set->nincluded; i++)
	{
		const GjEntryColumn *column = i == 0 ? &set->keys : &set->included[i - 1];

		columns[i].width = column->width;
		columns[i].values = column->values + first * column->width;
		columns[i].nulls = column->has_nulls ? column->nulls + first : NULL;
	}
	return GjEntryFilterRun(filter, columns, n, rows);
}

/*
 * Find the TIDs of the keys whose entries pass a filter, and of those of which it cannot be
 * told.  The set is finished, and lives below parent.
 */
GjTidSet *
GjExecMatchFiltered(Relation heap, Relation index, Snapshot snapshot, const GjKeySet *keys,
					GjEntryFilter *filter, MemoryContext parent, Size limit,
					GjMatchStats *stats)
{
	FilteredMatch fm = {.index = index,.filter = filter,.stats = stats};
	MemoryContext old;

	if (!GjIndexIsComplete(index, snapshot))
	{
		fm.tids = GjTidSetCreate(parent, limit);
		GjExecMatch(heap, index, snapshot, keys, fm.tids, stats);
		return fm.tids;
	}

	fm.context = AllocSetContextCreate(parent, "gpujoin filtered match", ALLOCSET_DEFAULT_SIZES);
	fm.tids = GjTidSetCreate(parent, limit - limit / ENTRIES_SHARE);
	fm.whole = GjExecCreateEntries(index, fm.context, limit / ENTRIES_SHARE,
								   GjEntryFilterColumns(filter));
	GjEntryFilterTest(filter, fm.whole);
	old = MemoryContextSwitchTo(fm.context);
	GjExecMatchEntries(&fm.match, index, snapshot, keys, fm.whole, stats);
	if (fm.match.phase == GJ_ENTRIES_AT_ONCE)
		take_answer(&fm, parent);
	else
		take_pieces(&fm);
	MemoryContextSwitchTo(old);
	GjEntryMatchEnd(&fm.match);
	MemoryContextDelete(fm.context);
	return fm.tids;
}

/*
 * A device has answered at once.  What is outdated is taken as it is.
 */
static void
take_answer(FilteredMatch *fm, MemoryContext parent)
{
	pgstat_count_index_tuples(fm->index, GjEntrySetFound(fm->whole));
	if (GjEntrySetPlain(fm->whole) != NULL)
	{
		GjTidSetFree(fm->tids);
		fm->tids = GjEntrySetTakePlain(fm->whole, parent);
		return;
	}
	take_passing(fm, fm->whole);
	GjTidSetFinish(fm->tids);
}

/*
 * A device answers for some keys after others, the CPU finds what is left
 */
static void
take_pieces(FilteredMatch *fm)
{
	GjEntrySet *piece;

	while (fm->match.phase == GJ_ENTRIES_ASK &&
		   GjEntryMatchAsk(&fm->match, fm->whole, fm->stats))
	{
		pgstat_count_index_tuples(fm->index, GjEntrySetFound(fm->whole));
		take_passing(fm, fm->whole);
	}
	piece = GjEntrySetCreatePiecewise(fm->context, GJ_PIECE_BYTES(fm->whole->memory_limit),
									  fm->whole);
	GjEntrySetFree(fm->whole);
	while (GjEntryMatchNext(&fm->match, piece, fm->stats))
	{
		pgstat_count_index_tuples(fm->index, piece->nentries);
		take_passing(fm, piece);
	}
	GjTidSetFinish(fm->tids);
}

static void
take_passing(FilteredMatch *fm, const GjEntrySet *set)
{
	uint64		passing[GJ_BATCH_ROWS];
	uint16		rows[GJ_BATCH_ROWS];

	for (uint64 first = 0; first < set->nentries; first += GJ_BATCH_ROWS)
	{
		int			n = (int) Min(set->nentries - first, GJ_BATCH_ROWS);
		int			npassed = GjFilterEntries(fm->filter, set, first, n, rows);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < npassed; i++)
			passing[i] = set->tids[first + rows[i]];
		fm->stats->filtered += n - npassed;
		if (!GjTidSetAddPacked(fm->tids, passing, npassed))
			elog(ERROR, "an entry of index \"%s\" has an impossible TID",
				 RelationGetRelationName(fm->index));
	}
}
