/*-------------------------------------------------------------------------
 *
 * keyset.c
 *	  Building a key set: sort the keys, drop duplicates, choose the probe method; and combining
 *	  key sets.
 *
 * The probe method is chosen by the cache level that its structure will occupy while millions
 * of index keys are tested, measured in bits of memory per key of the set:
 *
 *	  list		up to 8 keys, with AVX-512 up to 16.  Comparing sixteen index keys with a
 *				constant takes two instructions; a gather of sixteen words takes as long as
 *				25 of them on a Zen 4.
 *	  bitmap	one bit for each value of the span.  It is exact, so there is no second test.
 *				It is the best choice while it fits in a level of cache that the filter and
 *				the table of a hashed set (about 200 bits per key together) would exceed:
 *				always up to 32 kB (L1); up to 512 kB (half of a common L2) even if quite
 *				sparse; above that only if it is not much larger than the hashed set.  It is
 *				never larger than 32 MB.
 *	  hash		otherwise.  The filter has at least 128 bits per key if it takes at most
 *				1 MB that way, else 32, and finally 16.  It is large because a gather from
 *				L2 is hardly slower than one from L1, but each false positive costs a
 *				mispredicted branch in the table lookup, as much as rejecting thirty keys.
 *
 * The structure of few keys is built when a key is looked up first: a search of runs with few keys
 * a page looks up none (match/readpages.c), and clearing a bitmap may take as long as the search.
 *
 * Invariants: key - min_key is computed in uint64, where it is correct for any two int64 values.
 * The structures contain every listed key, because the kernels' answer is final: a key lost
 * here is a row missing from the result.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/radix.h"
#include "keyset.h"

/* Bitmap: number of bits that is always allowed, and limits if sparse and if dense */
#define GJ_BITMAP_SMALL			((uint64) 1 << 18)
#define GJ_BITMAP_MEDIUM		((uint64) 1 << 22)
#define GJ_BITMAP_LARGE			((uint64) 1 << 28)
#define GJ_BITMAP_MEDIUM_SPREAD	2048
#define GJ_BITMAP_LARGE_SPREAD	256

/* Filter: log2 of its size: minimum, and maxima with 128 and with 32 bits per key */
#define GJ_FILTER_MIN_BITS		10
#define GJ_FILTER_SPARSE_BITS	23
#define GJ_FILTER_MEDIUM_BITS	25
#define GJ_FILTER_MAX_BITS		28

/*
 * In a half full table with a good hash, the longest run is a few times log2(cells).  A longer
 * one means that the keys were chosen to collide; then we do without the table.
 */
#define GJ_TABLE_MAX_RUN		512

/* Maximum number of bytes per key that a probe takes: a table of 16 with a filter of 32 */
#define GJ_PROBE_MAX_BYTES		48

/* Bitmaps and filters of small sets may take more bytes per key, but no more than this in total */
#define GJ_PROBE_MIN_BYTES		(GJ_BITMAP_MEDIUM / 8)

/* Up to this number of keys, the structure is built on first use; it takes milliseconds */
#define GJ_LATE_KEYS			((uint64) 1 << 17)

/* The table's cells are counted in 32 bits */
#define GJ_KEYSET_MAX_KEYS		((uint64) 1 << 30)
#define GJ_KEYSET_MIN_CAPACITY	64

/* Size of a bitmap: a bit for each value of the span, and a clear bit after the last one */
#define BITMAP_BYTES(set)		((Size) ((set)->bitmap_limit / 32 + 1) * sizeof(uint32))

/* Number of keys between checks for interrupts */
#define GJ_KEYS_PER_CHECK		((uint64) 1 << 16)

/* Maps the order of int64 to that of uint64 */
#define GJ_SIGN_BIT				((uint64) 1 << 63)

static uint64 order_pairs(const GjKeySet *keys, const GjExactPair *listed, uint32 n,
						  GjExactPair *ordered, uint64 *words, uint64 *scratch);
static bool sort_with_pairs(GjKeySet *set);
static void sort_keys(GjKeySet *set);
static bool keys_ascend(const GjKeySet *set);
static GjProbeKind choose_probe(const GjKeySet *set);
static void build_bitmap(GjKeySet *set);
static uint32 choose_filter_bits(uint64 nkeys);
static void build_filter(GjKeySet *set);
static void build_table(GjKeySet *set);
static void *alloc_huge(GjKeySet *set, Size size);
static void free_probe(GjKeySet *set);
static void keep_keys(GjKeySet *set, const GjKeySet *other);
static void take_within(GjKeySet *set, const GjKeySet *other);
static void intersect_intervals(GjKeySet *set, const GjKeySet *other);

/*
 * Create an empty set in a memory context of its own below parent.
 */
GjKeySet *
GjKeySetCreate(MemoryContext parent, int key_width)
{
	MemoryContext context;
	GjKeySet   *set;

	Assert(key_width == sizeof(int32) || key_width == sizeof(int64));

	context = AllocSetContextCreate(parent, "gpujoin key set", ALLOCSET_SMALL_SIZES);
	set = MemoryContextAllocZero(context, sizeof(GjKeySet));
	set->context = context;
	set->key_width = key_width;
	set->probe = GJ_PROBE_EMPTY;
	return set;
}

/*
 * Make room for more keys: the uncommon path of GjKeySetAdd()
 */
void
GjKeySetGrow(GjKeySet *set)
{
	CHECK_FOR_INTERRUPTS();

	if (set->capacity >= GJ_KEYSET_MAX_KEYS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a gpujoin key set cannot have more than " UINT64_FORMAT " keys",
						GJ_KEYSET_MAX_KEYS)));

	GjKeySetReserve(set, GJ_KEYSET_MIN_CAPACITY);
}

/*
 * Make room for a number of further keys, so that they are not copied while the array grows.  Fewer
 * may be added.
 */
void
GjKeySetReserve(GjKeySet *set, uint64 nkeys)
{
	if (set->nlisted + nkeys <= set->capacity)
		return;
	set->capacity = Min(Max(set->nlisted + nkeys, set->capacity * 2), GJ_KEYSET_MAX_KEYS);
	set->listed = set->listed == NULL ? alloc_huge(set, set->capacity * sizeof(int64)) :
		repalloc_huge(set->listed, set->capacity * sizeof(int64));
}

/*
 * Sort the keys, drop duplicates, build the probe structure.  No key may be added later.  If there
 * are intervals, the keys become some, too.
 */
void
GjKeySetFinish(GjKeySet *set)
{
	free_probe(set);
	if (set->nlisted > 0 && !keys_ascend(set) && !sort_with_pairs(set))
		sort_keys(set);
	if (set->nintervals > 0)
		GjIntervalsFinish(set);
	if (set->nlisted == 0)
		return;
	set->min_key = set->listed[0];
	set->max_key = set->listed[set->nlisted - 1];

	set->probe = choose_probe(set);
	if (set->probe == GJ_PROBE_BITMAP)
		set->bitmap_limit = (uint32) ((uint64) set->max_key - (uint64) set->min_key) + 1;
	if (set->nlisted > GJ_LATE_KEYS)
		GjKeySetPrepare(set);
}

/*
 * Remove the listed keys of a finished set, to which others are added then
 */
void
GjKeySetRestart(GjKeySet *set)
{
	free_probe(set);
	set->nlisted = 0;
}

/*
 * Build the bitmap, or the filter and the table, of a set that still lacks them
 */
void
GjKeySetBuild(const GjKeySet *set)
{
	GjKeySet   *to = unconstify(GjKeySet *, set);

	if (set->probe == GJ_PROBE_BITMAP)
		build_bitmap(to);
	else
	{
		build_table(to);
		build_filter(to);
	}
}

/*
 * Create a finished set of some of the keys of another one, given in ascending order, for a
 * table that has none of its other keys.  The exact table is not copied, so the whole must outlive
 * the part.
 */
GjKeySet *
GjKeySetPart(MemoryContext parent, const GjKeySet *whole, const int64 *keys, uint64 nkeys)
{
	GjKeySet   *part = GjKeySetCreate(parent, whole->key_width);

	if (nkeys > 0)
	{
		part->listed = alloc_huge(part, nkeys * sizeof(int64));
		memcpy(part->listed, keys, nkeys * sizeof(int64));
	}
	part->nlisted = nkeys;
	part->capacity = nkeys;
	part->nulls = whole->nulls;
	part->exact = whole->exact;
	part->entry_exact = whole->entry_exact;
	part->narrowed = true;
	part->elsewhere = whole->nlisted - nkeys;
	GjKeySetFinish(part);
	return part;
}

/*
 * Likewise among the keys from position low to before high; returns high if there is no such key
 */
uint64
GjKeySetLowerBoundIn(const GjKeySet *set, uint64 low, uint64 high, int64 key)
{
	while (low < high)
	{
		uint64		middle = low + (high - low) / 2;

		if (set->listed[middle] < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Find the first wanted key that is not below this one, in a finished set; returns false if there
 * is none
 *
 * Searches from position *at on, with increasing steps.  *at becomes the position of that key, or
 * the number of listed keys; of intervals, it is the position of the one that has the key.
 */
bool
GjKeySetSeek(const GjKeySet *set, uint64 *at, int64 key, int64 *wanted)
{
	uint64		low = *at;
	uint64		step = 1;

	if (set->nintervals > 0)
		return GjIntervalsSeek(set, at, key, wanted);
	while (low + step < set->nlisted && set->listed[low + step] < key)
	{
		low += step;
		step *= 2;
	}
	*at = GjKeySetLowerBoundIn(set, low, Min(low + step, set->nlisted), key);
	if (*at == set->nlisted)
		return false;
	*wanted = set->listed[*at];
	return true;
}

/*
 * Return the size of a finished set in bytes; for a set that is not finished, or that lacks what
 * looks keys up, an upper bound of its final size
 */
Size
GjKeySetMemory(const GjKeySet *set)
{
	Size		allocated = MemoryContextMemAllocated(set->context, true);

	if (set->probe == GJ_PROBE_EMPTY)
		return sizeof(GjKeySet) + set->capacity * sizeof(int64) +
			Max(set->nlisted * GJ_PROBE_MAX_BYTES, GJ_PROBE_MIN_BYTES);
	if (GjKeySetIsBuilt(set))
		return allocated;
	return allocated + (set->probe == GJ_PROBE_BITMAP ? BITMAP_BYTES(set) :
						set->nlisted * GJ_PROBE_MAX_BYTES);
}

/*
 * Free the set and all its memory
 */
void
GjKeySetFree(GjKeySet *set)
{
	MemoryContextDelete(set->context);
}

#define ST_SORT sort_pairs
#define ST_ELEMENT_TYPE GjExactPair
#define ST_COMPARE(a, b) GjComparePairs(a, b)
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/*
 * List the keys of a finished set with their rests, which are the only part of the table's
 * elements.  Elements whose code the set does not list are left out.
 *
 * A device that has this list, in place of the codes alone, finds exactly the entries whose code
 * and rest are listed, which proves their keys.  If the code of any element is a hash, returns
 * NULL: no rest proves that key, and the entries with its code have to be looked up by their
 * values.  An entry whose code is a hash has the code of no key that has a rest, so the device does
 * not find it.
 */
GjProofs *
GjProofsCreate(MemoryContext context, const GjKeySet *keys, const GjExact *exact, uint32 column)
{
	uint32		nlisted;
	const GjExactPair *listed = GjExactPairs(exact, &nlisted);
	Size		room = (Size) nlisted + 1;
	const GjExactPair *pairs = listed;
	GjExactPair *ordered = NULL;
	GjProofs   *proofs;
	uint64		n = nlisted;

	if (listed == NULL)
		return NULL;
	proofs = MemoryContextAlloc(context, sizeof(GjProofs));
	*proofs = (GjProofs) {.column = column,.memory = room * 2 * sizeof(int64)};
	proofs->codes = MemoryContextAllocHuge(context, room * sizeof(int64));
	proofs->rests = MemoryContextAllocHuge(context, room * sizeof(int64));
	if (keys->narrowed || !GjPairsAscend(listed, nlisted))
	{
		pairs = ordered = MemoryContextAllocHuge(context, room * sizeof(GjExactPair));
		n = order_pairs(keys, listed, nlisted, ordered, (uint64 *) proofs->codes,
						(uint64 *) proofs->rests);
	}
	for (uint64 i = 0; i < n; i++)
	{
		if (i > 0 && GjComparePairs(&pairs[i - 1], &pairs[i]) == 0)
			continue;
		proofs->codes[proofs->n] = pairs[i].code;
		proofs->rests[proofs->n++] = pairs[i].rest;
	}
	if (ordered != NULL)
		pfree(ordered);
	return proofs;
}

/*
 * Copy those of n pairs whose code the set lists, in ascending order, and return their number.
 * Most codes are spread, so their upper bits are sorted, together with the numbers of the pairs.
 */
static uint64
order_pairs(const GjKeySet *keys, const GjExactPair *listed, uint32 n, GjExactPair *ordered,
			uint64 *words, uint64 *scratch)
{
	int			number_bits = pg_leftmost_one_pos32(n | 1) + 1;
	uint64		numbers = (UINT64CONST(1) << number_bits) - 1;
	uint64		nordered = 0;

	for (uint32 i = 0; i < n; i++)
	{
		if (i % GJ_KEYS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		words[nordered] = (((uint64) listed[i].code ^ GJ_SIGN_BIT) & ~numbers) | i;
		nordered += !keys->narrowed || GjKeySetContains(keys, listed[i].code);
	}
	words = radix_sort_spread(words, scratch, nordered, number_bits);
	for (uint64 i = 0; i < nordered; i++)
	{
		if (i % GJ_KEYS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		ordered[i] = listed[words[i] & numbers];
	}

	for (uint64 i = 0, end; i < nordered; i = end)
	{
		for (end = i + 1; end < nordered && ((words[i] ^ words[end]) & ~numbers) == 0; end++);
		if (end > i + 1)
			sort_pairs(ordered + i, end - i);
	}
	return nordered;
}

/*
 * Sort the table's pairs, and thus the listed keys, and remove duplicates of keys.  Returns false
 * if the keys, in the order in which they were added, are not the codes of the pairs.
 */
static bool
sort_with_pairs(GjKeySet *set)
{
	uint32		n = 0;
	GjExactPair *listed = set->exact == NULL ? NULL : GjExactListed(set->exact, &n);
	GjExactPair *ordered;
	uint64	   *scratch;
	uint64		distinct = 0;

	if (listed == NULL || n != set->nlisted || set->narrowed)
		return false;
	for (uint32 i = 0; i < n; i++)
	{
		if (listed[i].code != set->listed[i])
			return false;
	}
	ordered = alloc_huge(set, n * sizeof(GjExactPair));
	scratch = alloc_huge(set, n * sizeof(uint64));
	(void) order_pairs(set, listed, n, ordered, (uint64 *) set->listed, scratch);
	for (uint32 i = 0; i < n; i++)
	{
		listed[i] = ordered[i];
		if (distinct == 0 || ordered[i].code != set->listed[distinct - 1])
			set->listed[distinct++] = ordered[i].code;
	}
	set->nlisted = distinct;
	pfree(ordered);
	pfree(scratch);
	return true;
}

/* Sort the listed keys and remove duplicates */
static void
sort_keys(GjKeySet *set)
{
	uint64	   *values = (uint64 *) set->listed;
	uint64	   *scratch = alloc_huge(set, set->nlisted * sizeof(uint64));
	uint64	   *sorted;
	uint64		distinct = 0;

	for (uint64 i = 0; i < set->nlisted; i++)
		values[i] ^= GJ_SIGN_BIT;

	sorted = set->spread ? radix_sort_spread(values, scratch, set->nlisted, 0) :
		radix_sort(values, scratch, set->nlisted);
	for (uint64 i = 0; i < set->nlisted; i++)
	{
		uint64		value = sorted[i] ^ GJ_SIGN_BIT;

		if (distinct == 0 || value != values[distinct - 1])
			values[distinct++] = value;
	}
	set->nlisted = distinct;
	pfree(scratch);
}

/* Return true if the keys are strictly ascending, as those of a sorted array are */
static bool
keys_ascend(const GjKeySet *set)
{
	for (uint64 i = 1; i < set->nlisted; i++)
	{
		if (set->listed[i - 1] >= set->listed[i])
			return false;
	}
	return true;
}

/* Choose the probe method as the head of this file explains */
static GjProbeKind
choose_probe(const GjKeySet *set)
{
	uint64		span = (uint64) set->max_key - (uint64) set->min_key;

	if (set->nlisted <= GjKernelListKeys())
		return GJ_PROBE_LIST;
	if (span < GJ_BITMAP_SMALL)
		return GJ_PROBE_BITMAP;
	if (span < GJ_BITMAP_MEDIUM && span / GJ_BITMAP_MEDIUM_SPREAD < set->nlisted)
		return GJ_PROBE_BITMAP;
	if (span < GJ_BITMAP_LARGE && span / GJ_BITMAP_LARGE_SPREAD < set->nlisted)
		return GJ_PROBE_BITMAP;
	return GJ_PROBE_HASH;
}

/* Build the bitmap; the set has it when it is complete, as this may be interrupted */
static void
build_bitmap(GjKeySet *set)
{
	uint32	   *bitmap = alloc_huge(set, BITMAP_BYTES(set));

	memset(bitmap, 0, BITMAP_BYTES(set));

	for (uint64 i = 0; i < set->nlisted; i++)
	{
		uint64		offset = (uint64) set->listed[i] - (uint64) set->min_key;

		if (i % GJ_KEYS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		bitmap[offset / 32] |= (uint32) 1 << (offset % 32);
	}
	set->bitmap = bitmap;
}

/* Choose log2 of the filter's size as the head of this file explains */
static uint32
choose_filter_bits(uint64 nkeys)
{
	uint32		bits = GJ_FILTER_MIN_BITS;

	while (bits < GJ_FILTER_SPARSE_BITS && ((uint64) 1 << bits) < nkeys * 128)
		bits++;
	while (bits < GJ_FILTER_MEDIUM_BITS && ((uint64) 1 << bits) < nkeys * 32)
		bits++;
	while (bits < GJ_FILTER_MAX_BITS && ((uint64) 1 << bits) < nkeys * 16)
		bits++;
	return bits;
}

/* Build the filter: set a bit at each key's hash.  A set with a filter is complete. */
static void
build_filter(GjKeySet *set)
{
	uint32		bits = choose_filter_bits(set->nlisted);
	Size		size = ((Size) 1 << bits) / 8;
	uint32	   *filter = alloc_huge(set, size);

	set->filter_shift = 32 - bits;
	memset(filter, 0, size);

	for (uint64 i = 0; i < set->nlisted; i++)
	{
		uint32		index = GjFilterIndex(set, set->listed[i]);

		if (i % GJ_KEYS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		filter[index / 32] |= (uint32) 1 << (index % 32);
	}
	set->filter = filter;
}

/* Enter all keys but the smallest, which marks empty cells, at or after the cell of their hash */
static void
build_table(GjKeySet *set)
{
	set->table_cells = set->nlisted * 2;
	set->table = alloc_huge(set, set->table_cells * sizeof(int64));
	for (uint64 cell = 0; cell < set->table_cells; cell++)
		set->table[cell] = set->min_key;

	for (uint64 i = 1; i < set->nlisted; i++)
	{
		uint64		cell = GjTableStart(set, set->listed[i]);
		int			run = 0;

		if (i % GJ_KEYS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		while (set->table[cell] != set->min_key)
		{
			if (++run > GJ_TABLE_MAX_RUN)
			{
				pfree(set->table);
				set->table = NULL;
				return;
			}
			if (++cell == set->table_cells)
				cell = 0;
		}
		set->table[cell] = set->listed[i];
	}
}

/* Allocate in the set's context, possibly more than 1 GB */
static void *
alloc_huge(GjKeySet *set, Size size)
{
	return MemoryContextAllocHuge(set->context, size);
}

/* Undo GjKeySetFinish(), except for the order of the keys */
static void
free_probe(GjKeySet *set)
{
	if (set->bitmap != NULL)
		pfree(set->bitmap);
	if (set->filter != NULL)
		pfree(set->filter);
	if (set->table != NULL)
		pfree(set->table);
	set->bitmap = NULL;
	set->filter = NULL;
	set->table = NULL;
	set->probe = GJ_PROBE_EMPTY;
}

/*-------------------------------------------------------------------------
 * Combinations of sets
 *
 * Intersection and union of key sets; parts of lists.
 *
 * An intersection with a list is a list, a union with intervals is intervals.  NULL keys are no
 * part of any of these: they are wanted by both, or by one.
 *-------------------------------------------------------------------------
 */

/*
 * Reduce the set to the keys that both sets want
 */
void
GjKeySetIntersect(GjKeySet *set, GjKeySet *other)
{
	Assert(set->exact == NULL || other->exact == NULL);
	if (other->exact != NULL)
	{
		set->exact = other->exact;
		GjExactMove(set->exact, set->context);
		other->exact = NULL;
		set->entry_exact = other->entry_exact;
		if (set->entry_exact != NULL)
			GjExactMove(set->entry_exact, set->context);
		other->entry_exact = NULL;
	}
	set->narrowed = true;
	set->nulls = set->nulls && other->nulls;

	if (GjKeySetIsList(set))
		keep_keys(set, other);
	else if (GjKeySetIsList(other))
		take_within(set, other);
	else
		intersect_intervals(set, other);
}

/*
 * Extend the set to the keys that at least one of the sets wants.  The list of excluded keys, which
 * is looked up faster than many intervals, is copied if only one of the sets wants any key.
 */
void
GjKeySetUnite(GjKeySet *set, const GjKeySet *other)
{
	GjKeySet   *excluded = NULL;

	Assert(other->exact == NULL && (set->exact == NULL || GjKeySetIsEmpty(other)));
	set->nulls = set->nulls || other->nulls;

	if (GjKeySetIsEmpty(other))
		return;
	if (GjKeySetIsEmpty(set) && other->excluded != NULL)
		excluded = GjKeySetPart(set->context, other->excluded, other->excluded->listed,
								other->excluded->nlisted);
	for (uint64 i = 0; i < other->nlisted; i++)
		GjKeySetAdd(set, other->listed[i]);
	for (uint64 i = 0; i < other->nintervals; i++)
		GjKeySetAddInterval(set, other->intervals[i].low, other->intervals[i].high);
	set->excluded = excluded;
	GjKeySetFinish(set);
}

/*
 * Create a finished set of n of a list's keys, starting at first.  The keys are not copied, so
 * the list must outlive the new set.
 */
GjKeySet *
GjKeySetSlice(MemoryContext parent, const GjKeySet *set, uint64 first, uint64 n)
{
	GjKeySet   *slice = GjKeySetCreate(parent, set->key_width);

	Assert(GjKeySetIsList(set) && first + n <= set->nlisted);
	slice->listed = set->listed + first;
	slice->nlisted = slice->capacity = n;
	GjKeySetFinish(slice);
	return slice;
}

/*
 * Keep the listed keys that other wants
 */
static void
keep_keys(GjKeySet *set, const GjKeySet *other)
{
	uint64		kept = 0;

	for (uint64 i = 0; i < set->nlisted; i++)
	{
		if (i % GJ_KEYS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (GjKeySetContains(other, set->listed[i]))
			set->listed[kept++] = set->listed[i];
	}
	if (kept < set->nlisted)
	{
		set->nlisted = kept;
		GjKeySetFinish(set);
	}
}

/*
 * Replace the set, which has intervals, by the keys in these that other lists
 */
static void
take_within(GjKeySet *set, const GjKeySet *other)
{
	Assert(set->nlisted == 0);
	for (uint64 i = 0; i < other->nlisted; i++)
	{
		if (i % GJ_KEYS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (GjIntervalsContain(set, other->listed[i]))
			GjKeySetAdd(set, other->listed[i]);
	}
	set->nintervals = 0;
	set->excluded = NULL;
	GjKeySetFinish(set);
}

/*
 * Keep what is in intervals of both sets
 */
static void
intersect_intervals(GjKeySet *set, const GjKeySet *other)
{
	GjInterval *own = set->intervals;
	uint64		n = set->nintervals;

	set->intervals = NULL;
	set->nintervals = set->interval_capacity = 0;
	set->excluded = NULL;
	for (uint64 i = 0, j = 0; i < n && j < other->nintervals;)
	{
		const GjInterval *with = &other->intervals[j];

		if ((i + j) % GJ_KEYS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		GjKeySetAddInterval(set, Max(own[i].low, with->low), Min(own[i].high, with->high));
		if (own[i].high < with->high)
			i++;
		else
			j++;
	}
	pfree(own);
	GjKeySetFinish(set);
}
