/*-------------------------------------------------------------------------
 *
 * lag.c
 *	  What a mirror lacks: the pages that have changed since it was brought up to date.
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

	lag->unknown = journal->floor > mirror->sequence;
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
