/*-------------------------------------------------------------------------
 *
 * words.c
 *	  Entries as single words, and sorting these.
 *
 * An entry without INCLUDE columns is a key and a TID.  If the smallest key is subtracted, and
 * the TID gets no more bits than the blocks of the table need, both usually fit into a word of
 * 64 bits: the key in the upper bits, the TID below it.  Then words sort like entries, a radix
 * sort moves only the entries themselves, and two entries are compared in one step.  Folds use
 * this if they can (am/foldsource.c); layout.c and sort.c handle everything else.
 *
 * Words are sorted in parts, by their upper bits: a word is added to its part as it arrives, and
 * a part is sorted when it is needed, in the processor's cache.  So the memory of all words is
 * accessed only once: for a fold, whose memory the kernel has to allocate first, that is a
 * considerable part of the time.
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

/* Larger offsets do not occur: base/tid.h knows which TIDs are possible */
#define OFFSET_BITS				(MaxHeapTuplesPerPage < 512 ? 9 : 12)

StaticAssertDecl(MaxHeapTuplesPerPage < 1 << 12, "offsets fit their bits");

/* Approximate number of words in a part, and log2 of the maximum number of parts */
#define PART_WORDS				1024
#define MAX_PART_BITS			11

/* Number of words of a part that are stored contiguously */
#define BLOCK_WORDS				64

/* Words with the same upper bits */
typedef struct WordPart
{
	uint32		first;			/* first block; GjWordSort.next links the others */
	uint64		end;			/* position after the last word; 0 if the part is empty */
} WordPart;

struct GjWordSort
{
	GjWordForm	form;
	int			shift;			/* the bits of a word above this are its part's number */
	int			nparts;
	int			at;				/* next part to be sorted */
	uint64	   *words;			/* blocks, in the order in which they were allocated to parts */
	uint32	   *next;			/* for each block, the part's next block */
	uint32		nblocks;
	uint64	   *scratch;		/* memory in which a part is sorted, in two halves */
	uint64		room;			/* capacity of each half, in words */
	WordPart	parts[1 << MAX_PART_BITS];
};

static void add_block(GjWordSort *sort, WordPart *part);
static uint64 gather_part(GjWordSort *sort, const WordPart *part);
static uint64 *sort_words(const GjWordForm *form, uint64 *words, uint64 *scratch, uint64 n);
static pg_attribute_always_inline uint64 get_words(const GjWordForm *form, const char *keys,
												   int width, const ItemPointerData *tids,
												   const uint32 *used, int nwords,
												   uint64 *words);

/*
 * Find the form of words for keys of a range and TIDs below a block; returns false if they do
 * not fit
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
 * Get the entries of a data page as words; returns their number, or -1 if one of them does not
 * have the form, or if there are more than room
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
 * Build the word of a slot, and set bits in excess if the entry does not have the form
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
	GjWordForm	local = *form;	/* a local copy, which the writes below cannot alias */
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
 * Start sorting up to n words; this takes three times the memory of the words
 */
GjWordSort *
GjWordSortBegin(const GjWordForm *form, uint64 n)
{
	GjWordSort *sort = palloc0(sizeof(GjWordSort));
	int			key_bits = form->range == 0 ? 0 : pg_leftmost_one_pos64(form->range) + 1;
	int			part_bits = 1;
	uint64		nblocks;

	while (part_bits < MAX_PART_BITS && n >> part_bits > PART_WORDS)
		part_bits++;
	sort->form = *form;
	sort->nparts = 1 << part_bits;
	sort->shift = key_bits + form->tid_bits - part_bits;
	nblocks = n / BLOCK_WORDS + sort->nparts;
	sort->words = MemoryContextAllocHuge(CurrentMemoryContext,
										 nblocks * BLOCK_WORDS * sizeof(uint64));
	sort->next = MemoryContextAllocHuge(CurrentMemoryContext, nblocks * sizeof(uint32));
	return sort;
}

/*
 * Add words, which must have the form
 */
void
GjWordSortAdd(GjWordSort *sort, const uint64 *words, int n)
{
	for (int i = 0; i < n; i++)
	{
		WordPart   *part = &sort->parts[words[i] >> sort->shift];

		if (part->end % BLOCK_WORDS == 0)
			add_block(sort, part);
		sort->words[part->end++] = words[i];
	}
}

/*
 * Add a block to a part.  For block 0 this leaves end at 0, as if the part were empty, but the
 * caller adds a word at once.
 */
static void
add_block(GjWordSort *sort, WordPart *part)
{
	uint32		block = sort->nblocks++;

	if (part->end == 0)
		part->first = block;
	else
		sort->next[part->end / BLOCK_WORDS - 1] = block;
	part->end = (uint64) block * BLOCK_WORDS;
}

/*
 * Get the next words in order, valid until the next call; returns their number, 0 at the end
 */
uint64
GjWordSortNext(GjWordSort *sort, const uint64 **words)
{
	while (sort->at < sort->nparts)
	{
		const WordPart *part = &sort->parts[sort->at++];
		uint64		n;

		if (part->end == 0)
			continue;
		n = gather_part(sort, part);
		*words = sort_words(&sort->form, sort->scratch, sort->scratch + sort->room, n);
		return n;
	}
	return 0;
}

/*
 * Copy the words of a part, which must not be empty, to the memory for sorting; returns their
 * number
 */
static uint64
gather_part(GjWordSort *sort, const WordPart *part)
{
	uint32		last = (part->end - 1) / BLOCK_WORDS;
	uint64		rest = part->end - (uint64) last * BLOCK_WORDS;
	uint32		block;
	uint64		n = 0;

	for (block = part->first; block != last; block = sort->next[block])
		n += BLOCK_WORDS;
	if (n + rest > sort->room)
	{
		if (sort->scratch != NULL)
			pfree(sort->scratch);
		sort->room = n + rest;
		sort->scratch = MemoryContextAllocHuge(CurrentMemoryContext,
											   sort->room * 2 * sizeof(uint64));
	}

	n = 0;
	for (block = part->first; block != last; block = sort->next[block])
	{
		memcpy(sort->scratch + n, sort->words + (uint64) block * BLOCK_WORDS,
			   BLOCK_WORDS * sizeof(uint64));
		n += BLOCK_WORDS;
	}
	memcpy(sort->scratch + n, sort->words + (uint64) last * BLOCK_WORDS, rest * sizeof(uint64));
	return n + rest;
}

/*
 * Sort words, using scratch of the same length; returns the array that has the result
 */
static uint64 *
sort_words(const GjWordForm *form, uint64 *words, uint64 *scratch, uint64 n)
{
	uint64		tids = ((uint64) 1 << form->tid_bits) - 1;
	bool		ascend = true;

	/* rows inserted by one session arrive in the order of their TIDs */
	for (uint64 i = 1; i < n && ascend; i++)
		ascend = (words[i - 1] & tids) <= (words[i] & tids);
	return radix_sort_above(words, scratch, n, ascend ? form->tid_bits : 0);
}

void
GjWordSortEnd(GjWordSort *sort)
{
	if (sort->scratch != NULL)
		pfree(sort->scratch);
	pfree(sort->next);
	pfree(sort->words);
	pfree(sort);
}

/*
 * Put ascending words, which must fit, into an empty data page
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
