/*-------------------------------------------------------------------------
 *
 * pagehits.c
 *	  Taking entries from the index's pages into an entry set.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "parts.h"

#define LAST_BIT				(UINT64CONST(1) << 63)

static bool pack_tids(uint64 *to, const ItemPointerData *tids, int n, uint64 *highest);
static void copy_nulls(GjEntrySet *set, GjEntryColumn *column, uint64 at, const uint32 *from,
					   int first, int n);
static bool take_tids(GjEntrySet *set, const ItemPointerData *tids, const uint16 *slots,
					  int nslots);
static void take_values(char *to, const char *from, int width, const uint16 *slots, int nslots);
static void take_nulls(GjEntrySet *set, GjEntryColumn *column, uint64 at, const uint32 *from,
					   int words, const uint16 *slots, int nslots);

/*
 * Count bits as pg_popcount64() does, but without a call by a pointer
 */
static inline int
count_bits(uint64 bits)
{
	bits -= (bits >> 1) & UINT64CONST(0x5555555555555555);
	bits = (bits & UINT64CONST(0x3333333333333333)) +
		((bits >> 2) & UINT64CONST(0x3333333333333333));
	bits = (bits + (bits >> 4)) & UINT64CONST(0x0F0F0F0F0F0F0F0F);
	return (int) ((bits * UINT64CONST(0x0101010101010101)) >> 56);
}

/*
 * Append the slots of the bits in so many words to the list
 *
 * Where the bits are is chance, and a loop that ended with the last one of a word would end where
 * no processor expects it, which takes as long as several hits.  So some are listed at a time,
 * whether there are as many or not.  What was too much is overwritten by what comes next.
 */
void
GjPageHitsList(GjPageHits *hits, int first, int words)
{
	for (int word = first; word < first + words; word += 2)
	{
		uint64		left = hits->bits[word];
		int			end;

		if (word + 1 < first + words)
			left |= (uint64) hits->bits[word + 1] << GJ_SLOTS_PER_WORD;
		end = hits->nslots + count_bits(left);
		for (int at = hits->nslots; at < end; at += GJ_HITS_SPARE)
		{
			for (int i = 0; i < GJ_HITS_SPARE; i++)
			{
				hits->slots[at + i] = word * GJ_SLOTS_PER_WORD +
					pg_rightmost_one_pos64(left | LAST_BIT);
				left &= left - 1;
			}
		}
		hits->nslots = end;
	}
}

/*
 * Add the entries of a locked data page that are hits.  False, and the set
 * is of no use any more, if a TID cannot be a heap tuple's.
 */
bool
GjEntrySetAddPage(GjEntrySet *set, Page page, const GjIndexInfo *info, const GjPageHits *hits)
{
	const uint16 *slots = hits->slots;
	uint64		at = set->nentries;
	int			n = hits->nslots;

	if (set->plain != NULL)
		return GjTidSetAdd(set->plain, GjDataTids(page, info), hits->bits, info->words);
	if (!GjEntrySetReserve(set, n))
		return true;

	if (!take_tids(set, GjDataTids(page, info), slots, n))
		return false;
	if (set->keys.width != 0)
		take_values(set->keys.values + at * info->key_width, GjDataKeys(page, info),
					info->key_width, slots, n);
	for (int i = 0; i < set->nincluded; i++)
	{
		GjEntryColumn *column = &set->included[i];

		if (column->width == 0)
			continue;
		take_values(column->values + at * column->width,
					GjDataValues(page, &info->included[i]), column->width, slots, n);
		take_nulls(set, column, at, GjDataNulls(page, &info->included[i]), info->words, slots,
				   n);
	}
	return true;
}

/*
 * Add n entries of a locked data page that stand side by side, all of them in use; false as above
 */
bool
GjEntrySetAddSlots(GjEntrySet *set, Page page, const GjIndexInfo *info, int first, int n)
{
	const ItemPointerData *tids = GjDataTids(page, info) + first;
	uint64		at = set->nentries;
	uint64		highest = 0;

	if (!GjEntrySetReserve(set, n))
		return true;
	if (!pack_tids(set->tids + at, tids, n, &highest))
		return false;
	GjEntrySetTook(set, n, highest);
	if (set->keys.width != 0)
		memcpy(set->keys.values + at * info->key_width,
			   GjDataKeys(page, info) + first * info->key_width, n * info->key_width);
	for (int i = 0; i < set->nincluded; i++)
	{
		GjEntryColumn *column = &set->included[i];

		if (column->width == 0)
			continue;
		memcpy(column->values + at * column->width,
			   GjDataValues(page, &info->included[i]) + first * column->width,
			   n * column->width);
		copy_nulls(set, column, at, GjDataNulls(page, &info->included[i]), first, n);
	}
	return true;
}

static bool
pack_tids(uint64 *to, const ItemPointerData *tids, int n, uint64 *highest)
{
	bool		possible = true;

	for (int i = 0; i < n; i++)
	{
		to[i] = GjPackTid(&tids[i]);
		*highest = Max(*highest, to[i]);
		possible &= GjTidIsPossible(&tids[i]);
	}
	return possible;
}

/*
 * Append which of n slots' values are NULL
 */
static void
copy_nulls(GjEntrySet *set, GjEntryColumn *column, uint64 at, const uint32 *from, int first,
		   int n)
{
	uint32		any = 0;
	uint8	   *to;

	for (int word = first / GJ_SLOTS_PER_WORD; word <= (first + n - 1) / GJ_SLOTS_PER_WORD; word++)
		any |= from[word];
	if (any == 0 && !column->has_nulls)
		return;

	to = GjEntrySetNulls(set, column, at) + at;
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
	uint16		slot = 0;

	(void) GjRowGetKey(info, row, &tid);
	if (set->plain != NULL)
		GjTidSetAddOne(set->plain, &tid);
	if (set->plain != NULL || !GjEntrySetReserve(set, 1))
		return;

	(void) take_tids(set, &tid, &slot, 1);
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

/*
 * Append TIDs, and with that the entries; false if one cannot be a heap tuple's
 */
static bool
take_tids(GjEntrySet *set, const ItemPointerData *tids, const uint16 *slots, int nslots)
{
	uint64	   *out = set->tids + set->nentries;
	uint64		highest = 0;
	bool		possible = true;

	for (int i = 0; i < nslots; i++)
	{
		const ItemPointerData *tid = &tids[slots[i]];

		possible &= GjTidIsPossible(tid);
		out[i] = GjPackTid(tid);
		highest = Max(highest, out[i]);
	}
	GjEntrySetTook(set, nslots, highest);
	return possible;
}

#define TAKE_VALUES(type) \
	for (int i = 0; i < nslots; i++) \
		((type *) to)[i] = ((const type *) from)[slots[i]]

static void
take_values(char *to, const char *from, int width, const uint16 *slots, int nslots)
{
	switch (width)
	{
		case 1:
			TAKE_VALUES(uint8);
			break;
		case 2:
			TAKE_VALUES(uint16);
			break;
		case 4:
			TAKE_VALUES(uint32);
			break;
		default:
			TAKE_VALUES(uint64);
			break;
	}
}

/*
 * Append which of the slots' values are NULL.  Where the page has none, it is not even said
 * so, unless there were some before.
 */
static void
take_nulls(GjEntrySet *set, GjEntryColumn *column, uint64 at, const uint32 *from, int words,
		   const uint16 *slots, int nslots)
{
	uint32		any = 0;
	uint8	   *to;

	for (int i = 0; i < words; i++)
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
