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

/* Slots of a page: those listed, or, if listed is NULL, adjacent ones from the first one on */
typedef struct Slots
{
	const uint16 *listed;
	int			first;
	int			n;
} Slots;

static bool take_new_tids(GjEntrySet *set, int n);

/*
 * Pack the TIDs of slots
 *
 * This function and the next three are compiled twice, for listed and for adjacent slots, so they
 * must be inlined.
 */
static pg_attribute_always_inline void
pack_tids(Page page, const GjIndexInfo *info, Slots slots, uint64 *to)
{
	if (GjDataIsNarrow(page) && slots.listed != NULL)
		GjNarrowGatherTids(page, slots.listed, slots.n, to);
	else if (GjDataIsNarrow(page))
		GjNarrowCopyTids(page, slots.first, slots.n, to);
	else
	{
		const ItemPointerData *tids = GjDataTids(page, info);

		for (int i = 0; i < slots.n; i++)
			to[i] = GjPackTid(&tids[slots.listed != NULL ? slots.listed[i] : slots.first + i]);
	}
}

/*
 * Take the values of slots from a column's array, which is `plain` on a plain page
 */
static pg_attribute_always_inline void
take_slot_values(Page page, int number, const char *plain, int width, Slots slots, char *to)
{
	if (GjDataIsNarrow(page) && slots.listed != NULL)
		GjNarrowGather(page, number, width, slots.listed, slots.n, to);
	else if (GjDataIsNarrow(page))
		GjNarrowCopy(page, number, width, slots.first, slots.n, to);
	else if (slots.listed != NULL)
		GjGather(to, plain, width, slots.listed, slots.n);
	else if (slots.n == 1 && width == sizeof(int64))	/* most often; it takes no call */
		memcpy(to, plain + slots.first * sizeof(int64), sizeof(int64));
	else
		memcpy(to, plain + slots.first * width, slots.n * width);
}

/*
 * Append the null flags of slots, given the column's bitmap, or NULL.  If no bit is set where they
 * are, omit the flags, unless the column had NULLs before.
 */
static pg_attribute_always_inline void
take_nulls(GjEntrySet *set, GjEntryColumn *column, uint64 at, const uint32 *from, int words,
		   Slots slots)
{
	int			word = slots.listed != NULL ? 0 : slots.first / GJ_SLOTS_PER_WORD;
	int			end = slots.listed != NULL ? words :
		(slots.first + slots.n - 1) / GJ_SLOTS_PER_WORD + 1;
	uint32		any = 0;
	uint8	   *to;

	for (; from != NULL && word < end; word++)
		any |= from[word];
	if (any == 0 && !column->has_nulls)
		return;

	to = GjEntrySetNulls(set, column, at) + at;
	if (any == 0)
	{
		memset(to, 0, slots.n);
		return;
	}
	for (int i = 0; i < slots.n; i++)
	{
		int			slot = slots.listed != NULL ? slots.listed[i] : slots.first + i;

		to[i] = (from[slot / GJ_SLOTS_PER_WORD] >> (slot % GJ_SLOTS_PER_WORD)) & 1;
	}
}

/*
 * Take the entries in slots of a page
 */
static pg_attribute_always_inline bool
take_slots(GjEntrySet *set, Page page, const GjIndexInfo *info, Slots slots)
{
	uint64		at = set->nentries;

	if (!GjEntrySetReserve(set, slots.n))
		return true;
	pack_tids(page, info, slots, set->tids + at);
	if (!take_new_tids(set, slots.n))
		return false;
	if (set->keys.width != 0)
		take_slot_values(page, GJ_KEY_COLUMN, GjDataKeys(page, info), info->key_width, slots,
						 set->keys.values + at * info->key_width);
	for (int i = 0; i < set->nincluded; i++)
	{
		GjEntryColumn *column = &set->included[i];

		if (column->width == 0)
			continue;
		take_slot_values(page, GJ_FIRST_INCLUDED + i, GjDataValues(page, &info->included[i]),
						 column->width, slots, column->values + at * column->width);
		if (GjColumnMayHaveNulls(info, i, column))
			take_nulls(set, column, at, GjDataFindNulls(page, info, i), GjDataWords(page, info),
					   slots);
	}
	return true;
}

/*
 * Add the hits of a locked data page.  Returns false, and leaves the set unusable, if a TID cannot
 * be a heap tuple's.
 */
bool
GjEntrySetAddHits(GjEntrySet *set, Page page, const GjIndexInfo *info, const uint16 *slots, int n)
{
	return take_slots(set, page, info, (Slots) {.listed = slots,.n = n});
}

/*
 * Add n adjacent entries of a locked data page, all of them in use.  Returns false like
 * GjEntrySetAddHits().
 */
bool
GjEntrySetAddSlots(GjEntrySet *set, Page page, const GjIndexInfo *info, int first, int n)
{
	return take_slots(set, page, info, (Slots) {.first = first,.n = n});
}

/*
 * Get the TIDs of adjacent slots
 */
void
GjPagePackTids(Page page, const GjIndexInfo *info, int first, int n, uint64 *to)
{
	pack_tids(page, info, (Slots) {.first = first,.n = n}, to);
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
	bool		possible = GjCheckPackedTids(tids, n, &highest);

	GjEntrySetTook(set, n, highest);
	return possible;
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
