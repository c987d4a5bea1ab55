/*-------------------------------------------------------------------------
 *
 * takehits.c
 *	  Copying entries from the index's pages, or from rows of tails, into a set of entries.
 *
 * A page is locked, and its description has been checked.  Values of narrow pages get the width of
 * their columns on the way (pages/narrow.c).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/prefetch.h"
#include "search.h"

static bool take_new_tids(GjEntrySet *set, int n);
static void gather_tids(const ItemPointerData *tids, const uint16 *slots, int n, uint64 *to);
static void append_nulls(GjEntrySet *set, GjEntryColumn *column, uint64 at, const uint32 *from,
						 int first, int n);
static void take_nulls(GjEntrySet *set, GjEntryColumn *column, uint64 at, const uint32 *from,
					   int words, const uint16 *slots, int nslots);

/*
 * Add the hits of a locked data page.  Returns false, and leaves the set unusable, if a TID cannot
 * be a heap tuple's.
 */
bool
GjEntrySetAddHits(GjEntrySet *set, Page page, const GjIndexInfo *info, const uint16 *slots, int n)
{
	uint64		at = set->nentries;
	bool		narrow = GjDataIsNarrow(page);

	if (!GjEntrySetReserve(set, n))
		return true;

	if (narrow)
		GjNarrowGatherTids(page, slots, n, set->tids + at);
	else
		gather_tids(GjDataTids(page, info), slots, n, set->tids + at);
	if (!take_new_tids(set, n))
		return false;
	if (set->keys.width != 0 && narrow)
		GjNarrowGather(page, GJ_KEY_COLUMN, info->key_width, slots, n,
					   set->keys.values + at * info->key_width);
	else if (set->keys.width != 0)
		GjGather(set->keys.values + at * info->key_width, GjDataKeys(page, info), info->key_width,
				 slots, n);
	for (int i = 0; i < set->nincluded; i++)
	{
		GjEntryColumn *column = &set->included[i];

		if (column->width == 0)
			continue;
		if (narrow)
			GjNarrowGather(page, GJ_FIRST_INCLUDED + i, column->width, slots, n,
						   column->values + at * column->width);
		else
			GjGather(column->values + at * column->width,
					 GjDataValues(page, &info->included[i]), column->width, slots, n);
		if (GjColumnMayHaveNulls(info, i, column))
			take_nulls(set, column, at, GjDataFindNulls(page, info, i), GjDataWords(page, info),
					   slots, n);
	}
	return true;
}

/*
 * Copy n values of an array; most often it is one word, which takes no call
 */
static inline void
append_values(char *to, uint64 at, const char *from, int first, int width, int n)
{
	if (n == 1 && width == sizeof(int64))
		memcpy(to + at * sizeof(int64), from + first * sizeof(int64), sizeof(int64));
	else
		memcpy(to + at * width, from + first * width, n * width);
}

/* Get the TIDs of adjacent slots */
void
GjPagePackTids(Page page, const GjIndexInfo *info, int first, int n, uint64 *to)
{
	const ItemPointerData *tids = GjDataTids(page, info) + first;

	if (GjDataIsNarrow(page))
	{
		GjNarrowCopyTids(page, first, n, to);
		return;
	}
	for (int i = 0; i < n; i++)
		to[i] = GjPackTid(&tids[i]);
}

/*
 * Take n TIDs that were put behind those of the set, and thus entries; returns false if one cannot
 * be a heap tuple's
 */
static bool
take_new_tids(GjEntrySet *set, int n)
{
	const uint64 *tids = set->tids + set->nentries;
	uint64		highest = 0;
	bool		possible = true;

	for (int i = 0; i < n; i++)
	{
		highest = Max(highest, tids[i]);
		possible &= GjPackedIsPossible(tids[i]);
	}
	GjEntrySetTook(set, n, highest);
	return possible;
}

/*
 * Add n adjacent entries of a locked data page, all of them in use.  Returns false like
 * GjEntrySetAddHits().
 */
bool
GjEntrySetAddSlots(GjEntrySet *set, Page page, const GjIndexInfo *info, int first, int n)
{
	uint64		at = set->nentries;
	bool		narrow = GjDataIsNarrow(page);

	if (!GjEntrySetReserve(set, n))
		return true;
	GjPagePackTids(page, info, first, n, set->tids + at);
	if (!take_new_tids(set, n))
		return false;
	if (set->keys.width != 0 && narrow)
		GjNarrowCopy(page, GJ_KEY_COLUMN, info->key_width, first, n,
					 set->keys.values + at * info->key_width);
	else if (set->keys.width != 0)
		append_values(set->keys.values, at, GjDataKeys(page, info), first, info->key_width, n);
	for (int i = 0; i < set->nincluded; i++)
	{
		GjEntryColumn *column = &set->included[i];

		if (column->width == 0)
			continue;
		if (narrow)
			GjNarrowCopy(page, GJ_FIRST_INCLUDED + i, column->width, first, n,
						 column->values + at * column->width);
		else
			append_values(column->values, at, GjDataValues(page, &info->included[i]), first,
						  column->width, n);
		if (GjColumnMayHaveNulls(info, i, column))
			append_nulls(set, column, at, GjDataFindNulls(page, info, i), first, n);
	}
	return true;
}

/*
 * Append the null flags of n adjacent slots
 */
static void
append_nulls(GjEntrySet *set, GjEntryColumn *column, uint64 at, const uint32 *from, int first,
			 int n)
{
	uint32		any = 0;
	uint8	   *to;

	for (int word = first / GJ_SLOTS_PER_WORD; from != NULL &&
		 word <= (first + n - 1) / GJ_SLOTS_PER_WORD; word++)
		any |= from[word];
	if (any == 0 && !column->has_nulls)
		return;

	to = GjEntrySetNulls(set, column, at) + at;
	if (any == 0)
	{
		memset(to, 0, n);
		return;
	}
	for (int i = 0; i < n; i++)
	{
		int			slot = first + i;

		to[i] = (from[slot / GJ_SLOTS_PER_WORD] >> (slot % GJ_SLOTS_PER_WORD)) & 1;
	}
}

/*
 * Add the entry of a tail row, whose TID must be possible
 */
void
GjEntrySetAddRow(GjEntrySet *set, const GjIndexInfo *info, const char *row)
{
	ItemPointerData tid;
	uint64		at = set->nentries;

	(void) GjRowGetKey(info, row, &tid);
	if (set->plain != NULL)
		GjTidSetAddOne(set->plain, &tid);
	if (set->plain != NULL || !GjEntrySetReserve(set, 1))
		return;

	set->tids[at] = GjPackTid(&tid);
	(void) take_new_tids(set, 1);
	if (set->keys.width != 0)
		memcpy(set->keys.values + at * info->key_width, row, info->key_width);
	for (int i = 0; i < set->nincluded; i++)
	{
		GjEntryColumn *column = &set->included[i];
		uint8		null;

		if (column->width == 0)
			continue;
		memcpy(column->values + at * column->width, row + info->included[i].row_offset,
			   column->width);
		null = (row[info->row_nulls_offset + i / 8] >> (i % 8)) & 1;
		if (null || column->has_nulls)
			GjEntrySetNulls(set, column, at)[at] = null;
	}
}

static void
gather_tids(const ItemPointerData *tids, const uint16 *slots, int n, uint64 *to)
{
	for (int i = 0; i < n; i++)
		to[i] = GjPackTid(&tids[slots[i]]);
}

/*
 * Append the null flags of the slots.  If the page has no NULLs, omit the flags, unless the column
 * had NULLs before.
 */
static void
take_nulls(GjEntrySet *set, GjEntryColumn *column, uint64 at, const uint32 *from, int words,
		   const uint16 *slots, int nslots)
{
	uint32		any = 0;
	uint8	   *to;

	for (int i = 0; from != NULL && i < words; i++)
		any |= from[i];
	if (any == 0 && !column->has_nulls)
		return;

	to = GjEntrySetNulls(set, column, at) + at;
	if (any == 0)
		memset(to, 0, nslots);
	else
	{
		for (int i = 0; i < nslots; i++)
			to[i] = (from[slots[i] / GJ_SLOTS_PER_WORD] >> (slots[i] % GJ_SLOTS_PER_WORD)) & 1;
	}
}
