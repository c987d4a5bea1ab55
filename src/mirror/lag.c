/*-------------------------------------------------------------------------
 *
 * lag.c
 *	  What a mirror lacks: the pages that have changed since it was brought up to date.
 *
 * The metapage's sequence counts changes to data pages; each change draws the next number and
 * leaves it on the page as its change counter, which never goes back, also when the page is
 * used anew.  Three things tell what has changed since a sequence number S:
 *
 *	- the metapage lists the pages that lanes have open: these change all the time;
 *	- the journal, a ring in a block of its own, has the ranges of blocks that were opened
 *	  for insertion or lost entries, each with a sequence number; neighbours share an entry,
 *	  which then carries the later number;
 *	- if the ring has lost entries with numbers above S (journal_floor says up to which number
 *	  it has), the pages' change counters do.
 *
 * So a copy taken at S lacks the pages that were open at S and the ranges with numbers above S.
 * A change and its journal entry are one WAL record: had the entry been made before, a copy
 * could be taken in between and would never learn of the change.  A flush to an open page needs
 * no entry; closing a page needs none either, since it was open at S or was opened after S.
 *
 * All this is so as long as the lists of runs and deltas are those that the copy was taken by.  A
 * fold frees pages and publishes others, which have numbers that were drawn long before: then the
 * copy has to be taken again by all pages, too (push.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "mirror.h"

static void add_range(GjMirrorLag *lag, BlockNumber start, BlockNumber end);
static int	compare_ranges(const void *a, const void *b);

/*
 * List the blocks that a mirror lacks
 *
 * The journal was read after the tail pages, or by whoever synchronises: step 5 of the
 * proof, or the pages that changed between two sequence numbers.
 */
void
GjMirrorGetLag(Relation index, const GjIndexInfo *info, const GjMirror *mirror,
			   const GjIndexJournal *journal, GjMirrorLag *lag)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);
	int			nranges;

	lag->unknown = journal->floor > mirror->sequence ||
		journal->state.list_version != mirror->list_version;
	lag->nranges = 0;
	lag->blocks = 0;

	for (int i = 0; i < mirror->nopen; i++)
		add_range(lag, mirror->open_blocks[i], mirror->open_blocks[i] + 1);
	for (int i = 0; i < journal->nentries; i++)
	{
		const GjJournalEntry *entry = &journal->entries[i];

		if (entry->sequence <= mirror->sequence)
			continue;
		if (entry->start < info->first_data || entry->end <= entry->start ||
			entry->end > nblocks)
			GjReportCorruption(index, GJ_JOURNAL_BLOCK,
							   "A journal entry names blocks that do not exist.");
		add_range(lag, entry->start, entry->end);
	}

	/* join what overlaps or touches */
	qsort(lag->ranges, lag->nranges, sizeof(GjBlockRange), compare_ranges);
	nranges = lag->nranges;
	lag->nranges = 0;
	for (int i = 0; i < nranges; i++)
	{
		GjBlockRange *last = lag->nranges > 0 ? &lag->ranges[lag->nranges - 1] : NULL;

		if (last != NULL && lag->ranges[i].start <= last->end)
			last->end = Max(last->end, lag->ranges[i].end);
		else
			lag->ranges[lag->nranges++] = lag->ranges[i];
	}
	for (int i = 0; i < lag->nranges; i++)
		lag->blocks += lag->ranges[i].end - lag->ranges[i].start;
}

static void
add_range(GjMirrorLag *lag, BlockNumber start, BlockNumber end)
{
	lag->ranges[lag->nranges].start = start;
	lag->ranges[lag->nranges].end = end;
	lag->nranges++;
}

static int
compare_ranges(const void *a, const void *b)
{
	const GjBlockRange *left = a;
	const GjBlockRange *right = b;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return 0;
}
