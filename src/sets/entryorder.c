/*-------------------------------------------------------------------------
 *
 * entryorder.c
 *	  Putting the entries of a set in heap order.
 *
 * An index fresh from its build gives entries in heap order, and so does a device; what
 * comes later (rows from tail pages, reused slots) is a rest behind an ascending prefix.
 * The rest is sorted by TID and merged; only entries from its smallest TID on move.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "base/radix.h"
#include "entryset.h"

static uint64 find_start(const GjEntrySet *set, uint64 tid);
static uint64 *sort_rest(GjEntrySet *set, int rank_bits);
static uint64 merge_orders(const GjEntrySet *set, uint64 start, const uint64 *rest,
						   int rank_bits, uint32 *order);
static void move_column(GjEntryColumn *column, uint64 start, const uint32 *order, uint64 n,
						void *scratch);
static void move_array(void *array, int width, const uint32 *order, uint64 n, void *scratch);

/* Offsets in a page are below 2048 at any block size */
#define OFFSET_BITS				11
#define TID_BITS				(32 + OFFSET_BITS)

static inline uint64
shorten_tid(uint64 tid)
{
	return (tid >> 16) << OFFSET_BITS | (tid & 0xFFFF);
}

/* Allocate bytes of any number in the set's context */
#define alloc_huge(set, bytes)	MemoryContextAllocHuge((set)->context, bytes)

/*
 * Put the entries in heap order, each TID once: merge the rest behind the ascending prefix
 * into it
 *
 * TIDs of the rest are sorted together with their rank in one integer.  A block number and
 * an offset take 43 bits, which leaves two millions of ranks.  If there are more, false is
 * returned, and the set is as it was.
 */
bool
GjEntrySetSort(GjEntrySet *set)
{
	uint64		nrest = set->nentries - set->nascending;
	int			rank_bits;
	uint64		smallest = PG_UINT64_MAX;
	uint64		start;
	uint64		n;
	uint64	   *rest;
	uint32	   *order;
	void	   *scratch;

	if (nrest == 0)
		return true;
	rank_bits = pg_leftmost_one_pos64(nrest) + 1;
	if (rank_bits + TID_BITS > 64)
		return false;
	for (uint64 i = set->nascending; i < set->nentries; i++)
		smallest = Min(smallest, set->tids[i]);

	start = find_start(set, smallest);
	rest = sort_rest(set, rank_bits);
	order = alloc_huge(set, (set->nentries - start) * sizeof(uint32));
	n = merge_orders(set, start, rest, rank_bits, order);
	pfree(rest);

	scratch = alloc_huge(set, n * sizeof(uint64));
	move_array(set->tids + start, sizeof(uint64), order, n, scratch);
	move_column(&set->keys, start, order, n, scratch);
	for (int i = 0; i < set->nincluded; i++)
		move_column(&set->included[i], start, order, n, scratch);
	pfree(scratch);
	pfree(order);
	set->nentries = set->nascending = start + n;
	return true;
}

/*
 * Keep the entries that order[] lists, in that order, of a set that has not been finished
 */
void
GjEntrySetSelect(GjEntrySet *set, const uint32 *order, uint64 n)
{
	void	   *scratch = alloc_huge(set, n * sizeof(uint64));

	move_array(set->tids, sizeof(uint64), order, n, scratch);
	move_column(&set->keys, 0, order, n, scratch);
	for (int i = 0; i < set->nincluded; i++)
		move_column(&set->included[i], 0, order, n, scratch);
	pfree(scratch);
	set->nentries = n;
	set->nascending = 0;
}

/*
 * The first entry of the prefix that does not come before a TID
 */
static uint64
find_start(const GjEntrySet *set, uint64 tid)
{
	uint64		low = 0;
	uint64		high = set->nascending;

	while (low < high)
	{
		uint64		middle = low + (high - low) / 2;

		if (set->tids[middle] < tid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Sort the rest: TID << rank_bits | rank behind the prefix
 */
static uint64 *
sort_rest(GjEntrySet *set, int rank_bits)
{
	uint64		n = set->nentries - set->nascending;
	uint64	   *rest = alloc_huge(set, n * sizeof(uint64));
	uint64	   *scratch = alloc_huge(set, n * sizeof(uint64));
	uint64	   *sorted;

	for (uint64 i = 0; i < n; i++)
		rest[i] = shorten_tid(set->tids[set->nascending + i]) << rank_bits | i;
	sorted = radix_sort_above(rest, scratch, n, rank_bits);
	pfree(sorted == rest ? scratch : rest);
	return sorted;
}

/*
 * Merge the prefix from start on and the sorted rest: where each entry of the result
 * comes from, counted from start.  Returns how many there are.
 */
static uint64
merge_orders(const GjEntrySet *set, uint64 start, const uint64 *rest, int rank_bits,
			 uint32 *order)
{
	const uint64 *tids = set->tids + start;
	const uint64 *rest_tids = set->tids + set->nascending;
	uint64		rank_mask = ((uint64) 1 << rank_bits) - 1;
	uint64		nprefix = set->nascending - start;
	uint64		nrest = set->nentries - set->nascending;
	uint64		i = 0;
	uint64		j = 0;
	uint64		n = 0;

	while (i < nprefix || j < nrest)
	{
		uint64		tid = j < nrest ? rest_tids[rest[j] & rank_mask] : PG_UINT64_MAX;
		uint64		from;

		if (i < nprefix && tids[i] <= tid)
			from = i++;
		else
			from = nprefix + (rest[j++] & rank_mask);
		if (n == 0 || tids[order[n - 1]] != tids[from])
			order[n++] = (uint32) from;
	}
	return n;
}

static void
move_column(GjEntryColumn *column, uint64 start, const uint32 *order, uint64 n, void *scratch)
{
	if (column->width == 0)
		return;
	move_array(column->values + start * column->width, column->width, order, n, scratch);
	if (column->has_nulls)
		move_array(column->nulls + start, 1, order, n, scratch);
}

#define MOVE_ARRAY(type) \
	for (uint64 i = 0; i < n; i++) \
		((type *) scratch)[i] = ((const type *) array)[order[i]]

/*
 * Rearrange an array: element i becomes what order[i] was
 */
static void
move_array(void *array, int width, const uint32 *order, uint64 n, void *scratch)
{
	CHECK_FOR_INTERRUPTS();
	switch (width)
	{
		case 1:
			MOVE_ARRAY(uint8);
			break;
		case 2:
			MOVE_ARRAY(uint16);
			break;
		case 4:
			MOVE_ARRAY(uint32);
			break;
		default:
			MOVE_ARRAY(uint64);
			break;
	}
	memcpy(array, scratch, n * width);
}
