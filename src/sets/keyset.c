/*-------------------------------------------------------------------------
 *
 * keyset.c
 *	  Building a key set: sort, drop duplicates, choose how to probe.
 *
 * The probe is chosen by where its structure will live while millions of keys
 * run past it, in bits of memory per key of the set:
 *
 *	  list		up to 8 keys, with AVX-512 up to 16.  Comparing sixteen index keys with one
 *				constant is two instructions; a gather of sixteen words takes as long as
 *				25 of them on a Zen 4.
 *	  bitmap	of the span.  Exact, so nothing needs a second look.  It wins as
 *				long as it fits a level of cache that the filter and the table of
 *				a hashed set (about 200 bits a key together) would leave: always
 *				up to 32 kB (L1); up to 512 kB (half of a common L2), however
 *				sparse within reason; above that only if it is hardly larger than
 *				the hashed set.  Never beyond 32 MB.
 *	  hash		otherwise.  A filter of 128 bits a key or more, as long as this is
 *				1 MB at most, then 32 and at last 16.  It is generous because a
 *				gather from L2 costs hardly more than from L1, but each stranger
 *				that it lets through to the table costs a mispredicted branch, as
 *				much as thirty keys that it stops.
 *
 * What must hold: key - min_key is computed in uint64, where it is right for any
 * two int64 values.  The structures hold every key of keys[], for the kernels'
 * answer is final: a key lost here is a row missing in the result.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/radix.h"
#include "keyset.h"

/* Bitmap: bits that are always, sparsely, densely allowed, and how sparsely */
#define GJ_BITMAP_SMALL			((uint64) 1 << 18)
#define GJ_BITMAP_MEDIUM		((uint64) 1 << 22)
#define GJ_BITMAP_LARGE			((uint64) 1 << 28)
#define GJ_BITMAP_MEDIUM_SPREAD	2048
#define GJ_BITMAP_LARGE_SPREAD	256

/* Filter: log2 of its bits, at least, with 128 and with 32 bits a key, at most */
#define GJ_FILTER_MIN_BITS		10
#define GJ_FILTER_SPARSE_BITS	23
#define GJ_FILTER_MEDIUM_BITS	25
#define GJ_FILTER_MAX_BITS		28

/*
 * A half full table with a fair hash has no run much longer than a few times
 * log2(cells).  A longer one means keys made to collide: then better no table.
 */
#define GJ_TABLE_MAX_RUN		512

/* Bytes a key that a probe takes at most: a table of 16 with a filter of 32 */
#define GJ_PROBE_MAX_BYTES		48

/* A small set's bitmap or filter has more, but not more than this in all */
#define GJ_PROBE_MIN_BYTES		(GJ_BITMAP_MEDIUM / 8)

/* The table's cells are counted in 32 bits */
#define GJ_KEYSET_MAX_KEYS		((uint64) 1 << 30)
#define GJ_KEYSET_MIN_CAPACITY	64

/* Keys between two looks at interrupts */
#define GJ_KEYS_PER_CHECK		((uint64) 1 << 16)

/* Order of int64 as order of uint64 */
#define GJ_SIGN_BIT				((uint64) 1 << 63)

static void sort_keys(GjKeySet *set);
static bool keys_ascend(const GjKeySet *set);
static GjProbeKind choose_probe(const GjKeySet *set);
static void build_bitmap(GjKeySet *set);
static uint32 choose_filter_bits(uint64 nkeys);
static void build_filter(GjKeySet *set);
static void build_table(GjKeySet *set);
static void *alloc_huge(GjKeySet *set, Size size);
static void free_probe(GjKeySet *set);
static void keep_keys(GjKeySet *set, const GjKeySet *other, bool wanted);
static void take_keys(GjKeySet *set, const GjKeySet *other);
static void merge_keys(GjKeySet *set, const GjKeySet *other);

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
 * Make room for more keys: the rare part of GjKeySetAdd().
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

	if (set->capacity == 0)
	{
		set->capacity = GJ_KEYSET_MIN_CAPACITY;
		set->keys = alloc_huge(set, set->capacity * sizeof(int64));
	}
	else
	{
		set->capacity *= 2;
		set->keys = repalloc_huge(set->keys, set->capacity * sizeof(int64));
	}
}

/*
 * Sort the keys, drop duplicates, build the probe.  No key may be added later.
 */
void
GjKeySetFinish(GjKeySet *set)
{
	free_probe(set);
	if (set->nkeys == 0)
		return;

	if (!keys_ascend(set))
		sort_keys(set);
	set->min_key = set->keys[0];
	set->max_key = set->keys[set->nkeys - 1];

	set->probe = choose_probe(set);
	if (set->probe == GJ_PROBE_BITMAP)
		build_bitmap(set);
	else if (set->probe == GJ_PROBE_HASH)
	{
		build_filter(set);
		build_table(set);
	}
}

/*
 * Make a finished set of some of the keys of another, in ascending order, for a table that
 * has none of the others.  If the complement is wanted, it is that of what is left.
 */
GjKeySet *
GjKeySetPart(MemoryContext parent, const GjKeySet *whole, const int64 *keys, uint64 nkeys)
{
	GjKeySet   *part = GjKeySetCreate(parent, whole->key_width);

	if (nkeys > 0)
	{
		part->keys = alloc_huge(part, nkeys * sizeof(int64));
		memcpy(part->keys, keys, nkeys * sizeof(int64));
	}
	part->nkeys = nkeys;
	part->capacity = nkeys;
	part->complement = whole->complement;
	part->nulls = whole->nulls;
	part->elsewhere = whole->nkeys - nkeys;
	GjKeySetFinish(part);
	return part;
}

/*
 * Position of the first key that is not smaller than the given one, in a finished
 * set; nkeys if there is none.
 */
uint64
GjKeySetLowerBound(const GjKeySet *set, int64 key)
{
	return GjKeySetLowerBoundIn(set, 0, set->nkeys, key);
}

/*
 * The same among the keys from low to before high; high if there is none
 */
uint64
GjKeySetLowerBoundIn(const GjKeySet *set, uint64 low, uint64 high, int64 key)
{
	while (low < high)
	{
		uint64		middle = low + (high - low) / 2;

		if (set->keys[middle] < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Bytes that a finished set takes; of a set that is still collected, an upper
 * bound of what it will take once finished.
 */
Size
GjKeySetMemory(const GjKeySet *set)
{
	if (set->probe == GJ_PROBE_EMPTY)
		return sizeof(GjKeySet) + set->capacity * sizeof(int64) +
			Max(set->nkeys * GJ_PROBE_MAX_BYTES, GJ_PROBE_MIN_BYTES);
	return MemoryContextMemAllocated(set->context, true);
}

/*
 * Free the set with all it has.
 */
void
GjKeySetFree(GjKeySet *set)
{
	MemoryContextDelete(set->context);
}

/* Sort keys[] and leave each value once */
static void
sort_keys(GjKeySet *set)
{
	uint64	   *values = (uint64 *) set->keys;
	uint64	   *scratch = alloc_huge(set, set->nkeys * sizeof(uint64));
	uint64	   *sorted;
	uint64		distinct = 0;

	for (uint64 i = 0; i < set->nkeys; i++)
		values[i] ^= GJ_SIGN_BIT;

	sorted = radix_sort(values, scratch, set->nkeys);
	for (uint64 i = 0; i < set->nkeys; i++)
	{
		uint64		value = sorted[i] ^ GJ_SIGN_BIT;

		if (distinct == 0 || value != values[distinct - 1])
			values[distinct++] = value;
	}
	set->nkeys = distinct;
	pfree(scratch);
}

/* Are the keys strictly ascending, as those of a sorted array are? */
static bool
keys_ascend(const GjKeySet *set)
{
	for (uint64 i = 1; i < set->nkeys; i++)
	{
		if (set->keys[i - 1] >= set->keys[i])
			return false;
	}
	return true;
}

/* Choose as the head of this file explains */
static GjProbeKind
choose_probe(const GjKeySet *set)
{
	uint64		span = (uint64) set->max_key - (uint64) set->min_key;

	if (set->nkeys <= GjKernelListKeys())
		return GJ_PROBE_LIST;
	if (span < GJ_BITMAP_SMALL)
		return GJ_PROBE_BITMAP;
	if (span < GJ_BITMAP_MEDIUM && span / GJ_BITMAP_MEDIUM_SPREAD < set->nkeys)
		return GJ_PROBE_BITMAP;
	if (span < GJ_BITMAP_LARGE && span / GJ_BITMAP_LARGE_SPREAD < set->nkeys)
		return GJ_PROBE_BITMAP;
	return GJ_PROBE_HASH;
}

/* One bit for each value of the span, and the clear one behind it */
static void
build_bitmap(GjKeySet *set)
{
	uint64		span = (uint64) set->max_key - (uint64) set->min_key;
	Size		size;

	set->bitmap_limit = (uint32) span + 1;
	size = (Size) (set->bitmap_limit / 32 + 1) * sizeof(uint32);
	set->bitmap = alloc_huge(set, size);
	memset(set->bitmap, 0, size);

	for (uint64 i = 0; i < set->nkeys; i++)
	{
		uint64		offset = (uint64) set->keys[i] - (uint64) set->min_key;

		if (i % GJ_KEYS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		set->bitmap[offset / 32] |= (uint32) 1 << (offset % 32);
	}
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

/* One bit for each key at its hash */
static void
build_filter(GjKeySet *set)
{
	uint32		bits = choose_filter_bits(set->nkeys);
	Size		size = ((Size) 1 << bits) / 8;

	set->filter_shift = 32 - bits;
	set->filter = alloc_huge(set, size);
	memset(set->filter, 0, size);

	for (uint64 i = 0; i < set->nkeys; i++)
	{
		uint32		index = GjFilterIndex(set, set->keys[i]);

		if (i % GJ_KEYS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		set->filter[index / 32] |= (uint32) 1 << (index % 32);
	}
}

/* Every key but the smallest, which marks the empty cells, at or behind its hash */
static void
build_table(GjKeySet *set)
{
	set->table_cells = set->nkeys * 2;
	set->table = alloc_huge(set, set->table_cells * sizeof(int64));
	for (uint64 cell = 0; cell < set->table_cells; cell++)
		set->table[cell] = set->min_key;

	for (uint64 i = 1; i < set->nkeys; i++)
	{
		uint64		cell = GjTableStart(set, set->keys[i]);
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
		set->table[cell] = set->keys[i];
	}
}

/* Allocate in the set's context, beyond 1 GB if need be */
static void *
alloc_huge(GjKeySet *set, Size size)
{
	return MemoryContextAllocHuge(set->context, size);
}

/* Undo GjKeySetFinish(), but for the order of the keys */
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
 * Intersection and union of key sets, complements included; parts of lists.
 *
 * With A and B for the listed keys and ' for "all others":
 *
 *	  A and B	=  A without what B does not list		keep_keys
 *	  A and B'	=  A without what B lists				keep_keys
 *	  A' and B	=  B without what A lists				take_keys
 *	  A' and B'	=  (A and all that B lists)'			merge_keys
 *
 *	  A' or B'	=  (A without what B does not list)'	keep_keys
 *	  A' or B	=  (A without what B lists)'			keep_keys
 *	  A or B'	=  (B without what A lists)'			take_keys
 *	  A or B	=  A and all that B lists				merge_keys
 *
 * NULL keys are no part of any of these: they are wanted by both, or by one.
 *-------------------------------------------------------------------------
 */

/*
 * Want what both want
 */
void
GjKeySetIntersect(GjKeySet *set, const GjKeySet *other)
{
	set->nulls = set->nulls && other->nulls;

	if (!set->complement)
		keep_keys(set, other, true);
	else if (other->complement)
		merge_keys(set, other);
	else
		take_keys(set, other);
}

/*
 * Want what one of them wants
 */
void
GjKeySetUnite(GjKeySet *set, const GjKeySet *other)
{
	set->nulls = set->nulls || other->nulls;

	if (set->complement)
		keep_keys(set, other, false);
	else if (!other->complement)
		merge_keys(set, other);
	else
		take_keys(set, other);
}

/*
 * A finished set of n of a list's keys, from the first one on, which are not copied: the
 * list must live as long
 */
GjKeySet *
GjKeySetSlice(MemoryContext parent, const GjKeySet *set, uint64 first, uint64 n)
{
	GjKeySet   *slice = GjKeySetCreate(parent, set->key_width);

	Assert(!set->complement && first + n <= set->nkeys);
	slice->keys = set->keys + first;
	slice->nkeys = slice->capacity = n;
	GjKeySetFinish(slice);
	return slice;
}

/*
 * Keep those listed keys that other wants, or those that it does not
 */
static void
keep_keys(GjKeySet *set, const GjKeySet *other, bool wanted)
{
	uint64		kept = 0;

	for (uint64 i = 0; i < set->nkeys; i++)
	{
		if (i % GJ_KEYS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (GjKeySetContains(other, set->keys[i]) == wanted)
			set->keys[kept++] = set->keys[i];
	}
	if (kept < set->nkeys)
	{
		set->nkeys = kept;
		GjKeySetFinish(set);
	}
}

/*
 * List what other lists and set does not; what was a complement is none then, and
 * the other way round
 */
static void
take_keys(GjKeySet *set, const GjKeySet *other)
{
	uint64		capacity = Max(other->nkeys, 1);
	int64	   *keys = MemoryContextAllocHuge(set->context, capacity * sizeof(int64));
	uint64		taken = 0;

	for (uint64 i = 0; i < other->nkeys; i++)
	{
		if (i % GJ_KEYS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		if (!GjKeySetLists(set, other->keys[i]))
			keys[taken++] = other->keys[i];
	}
	if (set->keys != NULL)
		pfree(set->keys);
	set->keys = keys;
	set->nkeys = taken;
	set->capacity = capacity;
	set->complement = !set->complement;
	GjKeySetFinish(set);
}

/*
 * List also what other lists
 */
static void
merge_keys(GjKeySet *set, const GjKeySet *other)
{
	if (other->nkeys == 0)
		return;
	for (uint64 i = 0; i < other->nkeys; i++)
		GjKeySetAdd(set, other->keys[i]);
	GjKeySetFinish(set);
}
