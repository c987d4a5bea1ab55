/*-------------------------------------------------------------------------
 *
 * words.c
 *	  Entries as single words, and these in order.
 *
 * An entry without INCLUDE columns is a key and a TID.  Less the smallest key, and with no more
 * bits than the blocks of the table need, both fit a word of 64 bits as a rule: the key above, the
 * TID below it.  Then the order of words is that of entries, a radix sort moves nothing but the
 * entries themselves, and two of them are compared at once.  A fold does so where it can
 * (am/foldwords.c); rows.c and sort.c take everything else.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "port/pg_bitutils.h"

#include "base/radix.h"
#include "base/tid.h"
#include "pages.h"

/* No offset needs more: base/tid.h knows which TIDs are possible */
#define OFFSET_BITS				(MaxHeapTuplesPerPage < 512 ? 9 : 12)

StaticAssertDecl(MaxHeapTuplesPerPage < 1 << 12, "offsets fit their bits");

static pg_attribute_always_inline uint64 get_words(const GjWordForm *form, const char *keys,
												   int width, const ItemPointerData *tids,
												   const uint32 *used, int nwords,
												   uint64 *words);

/*
 * Find the form of words for keys of a range and TIDs below a block; false: they do not fit
 */
bool
GjWordFormFind(GjWordForm *form, int64 min_key, int64 max_key, BlockNumber nblocks)
{
	uint64		range = (uint64) max_key - (uint64) min_key;
	int			key_bits = range == 0 ? 0 : pg_leftmost_one_pos64(range) + 1;
	int			block_bits = Min(64 - OFFSET_BITS - key_bits, 32);

	if (block_bits <= 0 || (uint64) nblocks > (uint64) 1 << block_bits)
		return false;
	form->min_key = min_key;
	form->range = range;
	form->tid_bits = block_bits + OFFSET_BITS;
	return true;
}

/*
 * Get the entries of a data page as words; returns how many, or -1 if one of them is not of the
 * form, or there are more than room
 */
int
GjDataGetWords(Page page, const GjIndexInfo *info, const GjWordForm *form, uint64 *words,
			   uint64 room)
{
	const char *keys = GjDataKeys(page, info);
	const ItemPointerData *tids = GjDataTids(page, info);
	const uint32 *used = GjDataUsed(page, info);
	int			n = 0;
	uint64		excess;

	for (int word = 0; word < info->words; word++)
		n += pg_popcount32(used[word]);
	if (n > room)
		return -1;
	excess = info->key_width == sizeof(int32) ?
		get_words(form, keys, sizeof(int32), tids, used, info->words, words) :
		get_words(form, keys, sizeof(int64), tids, used, info->words, words);
	return excess == 0 ? n : -1;
}

/*
 * Make the word of a slot, and set bits in excess if the entry is not of the form
 */
static pg_attribute_always_inline uint64
make_word(const GjWordForm *form, const char *keys, int width, const ItemPointerData *tids,
		  int slot, uint64 *excess)
{
	int64		key = width == sizeof(int32) ? ((const int32 *) keys)[slot] :
		((const int64 *) keys)[slot];
	uint64		above = (uint64) key - (uint64) form->min_key;
	uint64		offset = tids[slot].ip_posid;
	uint64		tid = (GjPackTid(&tids[slot]) >> 16) << OFFSET_BITS | offset;

	*excess |= (uint64) (above > form->range) | offset >> OFFSET_BITS | tid >> form->tid_bits;
	return above << form->tid_bits | tid;
}

static pg_attribute_always_inline uint64
get_words(const GjWordForm *form, const char *keys, int width, const ItemPointerData *tids,
		  const uint32 *used, int nwords, uint64 *words)
{
	GjWordForm	local = *form;	/* nothing that is written could change it */
	uint64		excess = 0;

	for (int word = 0; word < nwords; word++)
	{
		int			first = word * GJ_SLOTS_PER_WORD;

		if (used[word] == ~(uint32) 0)
		{
			for (int i = 0; i < GJ_SLOTS_PER_WORD; i++)
				*words++ = make_word(&local, keys, width, tids, first + i, &excess);
			continue;
		}
		for (uint32 left = used[word]; left != 0; left &= left - 1)
			*words++ = make_word(&local, keys, width, tids,
								 first + pg_rightmost_one_pos32(left), &excess);
	}
	return excess;
}

/*
 * Sort words; scratch is as long, and the function returns which of both has the result
 */
uint64 *
GjWordsSort(const GjWordForm *form, uint64 *words, uint64 *scratch, uint64 n)
{
	uint64		tids = ((uint64) 1 << form->tid_bits) - 1;
	bool		ascend = true;

	/* rows that one session has inserted come in the order of their TIDs */
	for (uint64 i = 1; i < n && ascend; i++)
		ascend = (words[i - 1] & tids) <= (words[i] & tids);
	return radix_sort_above(words, scratch, n, ascend ? form->tid_bits : 0);
}

/*
 * Put words that ascend into an empty data page; they fit
 */
void
GjDataPutWords(Page page, const GjIndexInfo *info, const GjWordForm *form, const uint64 *words,
			   int n)
{
	GjPageOpaque opaque = GjPageGetOpaque(page);
	char	   *keys = GjDataKeys(page, info);
	ItemPointerData *tids = GjDataTids(page, info);
	uint32	   *used = GjDataUsed(page, info);
	int			tid_bits = form->tid_bits;
	uint64		tid_mask = ((uint64) 1 << tid_bits) - 1;

	Assert(opaque->used == 0 && n > 0 && n <= info->slots);
	if (info->key_width == sizeof(int32))
	{
		for (int i = 0; i < n; i++)
			((int32 *) keys)[i] = (int32) ((words[i] >> tid_bits) + (uint64) form->min_key);
	}
	else
	{
		for (int i = 0; i < n; i++)
			((int64 *) keys)[i] = (int64) ((words[i] >> tid_bits) + (uint64) form->min_key);
	}
	for (int i = 0; i < n; i++)
	{
		uint64		tid = words[i] & tid_mask;

		ItemPointerSet(&tids[i], tid >> OFFSET_BITS, tid & ((1 << OFFSET_BITS) - 1));
	}
	memset(used, 0xFF, n / GJ_SLOTS_PER_WORD * sizeof(uint32));
	if (n % GJ_SLOTS_PER_WORD != 0)
		used[n / GJ_SLOTS_PER_WORD] = GjSlotBit(n) - 1;
	opaque->used = n;
	opaque->min_key = GjDataGetKey(page, info, 0);
	opaque->max_key = GjDataGetKey(page, info, n - 1);
}
