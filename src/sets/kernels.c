/*-------------------------------------------------------------------------
 *
 * kernels.c
 *	  Finding the members of a key set among the keys of a page: the CPU's inner loop.
 *
 * There are three kinds of test (compare with a short list, test a bit of an exact bitmap, test
 * a bit of a hash filter) and two key widths.  Each combination has a loop for AVX-512, one for
 * AVX2 and one for any machine.  The vector loops turn sixteen (eight) keys into bit numbers,
 * gather the words that hold the bits, and test all of them at once.  They do not branch, so a
 * page costs the same whatever it contains.  The set of loops is chosen once per process,
 * according to the CPU's features.  The vector loops are in kernelsx86.h.
 *
 * A filter has false positives.  The few keys that pass it are looked up in the table one by
 * one, in a second loop over the page, so that branch mispredictions there do not stall the
 * first loop.
 *
 * While the keys of a page are tested, the keys of the next page are prefetched, a cache line at
 * a time.  A processor tracks only a few outstanding lines; prefetching many at once would stall
 * it until the first ones have arrived.
 *
 * The keys in unused slots are arbitrary bytes.  They are tested like others, which is safe for
 * any value, and then masked out.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "base/prefetch.h"
#include "kernels.h"
#include "keyset.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define GJ_X86_KERNELS
#endif

/* Minimum number of table cells that makes prefetching worthwhile: 512 kB, half of an L2 cache */
#define GJ_PREFETCH_CELLS		((uint64) 1 << 16)

/* Sets the bits of members (with a filter: of possible members) whose bits are set in used[] */
typedef void (*GjKernel) (const GjKeySet *set, const void *keys, const uint32 *used,
						  int n_words, uint32 *hits, const char *ahead);

typedef struct GjKernelTable
{
	const char *name;			/* for GjKernelSelect() */
	const char *title;			/* for users */
	bool		(*available) (void);
	uint64		list_keys;		/* up to this number of keys, a list is faster than a bitmap or
								 * filter */
	GjKernel	list[2];		/* 4-byte keys, 8-byte keys */
	GjKernel	bitmap[2];
	GjKernel	filter[2];
} GjKernelTable;

static void match_listed(const GjKeySet *set, const void *keys, const uint32 *used,
						 int n_words, uint32 *hits, const char *ahead);
static const GjKernelTable *get_kernels(void);
static void verify_hits(const GjKeySet *set, const void *keys, int n_words, uint32 *hits);

/* Loops for any machine ------------------------------------------------------- */

static pg_attribute_always_inline int64
load_key(const void *keys, int width, int slot)
{
	if (width == sizeof(int32))
		return ((const int32 *) keys)[slot];
	return ((const int64 *) keys)[slot];
}

static pg_attribute_always_inline void
match_list_any(const GjKeySet *set, const void *keys, int width, const uint32 *used,
			   int n_words, uint32 *hits, const char *ahead)
{
	for (int word = 0; word < n_words; word++)
	{
		uint32		found = 0;

		prefetch_ahead(ahead, width, word);
		for (int i = 0; i < GJ_WORD_KEYS; i++)
		{
			int64		key = load_key(keys, width, word * GJ_WORD_KEYS + i);
			uint32		equal = 0;

			for (uint64 k = 0; k < set->nkeys; k++)
				equal |= (key == set->keys[k]);
			found |= equal << i;
		}
		hits[word] = found & used[word];
	}
}

static pg_attribute_always_inline void
match_bitmap_any(const GjKeySet *set, const void *keys, int width, const uint32 *used,
				 int n_words, uint32 *hits, const char *ahead)
{
	const uint32 *bitmap = set->bitmap;
	uint64		min_key = (uint64) set->min_key;
	uint64		limit = set->bitmap_limit;

	for (int word = 0; word < n_words; word++)
	{
		uint32		found = 0;

		prefetch_ahead(ahead, width, word);
		for (int i = 0; i < GJ_WORD_KEYS; i++)
		{
			uint64		bit = (uint64) load_key(keys, width, word * GJ_WORD_KEYS + i) - min_key;

			bit = Min(bit, limit);
			found |= ((bitmap[bit / 32] >> (bit % 32)) & 1) << i;
		}
		hits[word] = found & used[word];
	}
}

static pg_attribute_always_inline void
match_filter_any(const GjKeySet *set, const void *keys, int width, const uint32 *used,
				 int n_words, uint32 *hits, const char *ahead)
{
	for (int word = 0; word < n_words; word++)
	{
		uint32		found = 0;

		prefetch_ahead(ahead, width, word);
		for (int i = 0; i < GJ_WORD_KEYS; i++)
		{
			int64		key = load_key(keys, width, word * GJ_WORD_KEYS + i);

			found |= (uint32) GjFilterContains(set, key) << i;
		}
		hits[word] = found & used[word];
	}
}

GJ_DEFINE_KERNELS(match_list, _any,)
GJ_DEFINE_KERNELS(match_bitmap, _any,)
GJ_DEFINE_KERNELS(match_filter, _any,)

static bool
any_available(void)
{
	return true;
}

#ifdef GJ_X86_KERNELS
#include "kernelsx86.h"
#endif

/* Choosing the kernels --------------------------------------------------------------- */

#define GJ_KERNELS(suffix) \
	{match_list4##suffix, match_list8##suffix}, \
	{match_bitmap4##suffix, match_bitmap8##suffix}, \
	{match_filter4##suffix, match_filter8##suffix}

/* Best first; the last one is always available */
static const GjKernelTable kernel_tables[] = {
#ifdef GJ_X86_KERNELS
	{"avx512", "CPU (AVX-512)", avx512_available, 16, GJ_KERNELS(_avx512)},
	{"avx2", "CPU (AVX2)", avx2_available, 8, GJ_KERNELS(_avx2)},
#endif
	{"portable", "CPU", any_available, 8, GJ_KERNELS(_any)}
};

static const GjKernelTable *selected_kernels = NULL;

/*
 * Set the hits of the page's keys that a finished set wants, while prefetching the next page's
 * keys at ahead.  Returns true if there is at least one.
 */
bool
GjKernelMatch(const GjKeySet *set, const void *keys, const uint32 *used, int n_words,
			  uint32 *hits, const void *ahead)
{
	uint32		any = 0;

	match_listed(set, keys, used, n_words, hits, ahead != NULL ? ahead : keys);
	for (int word = 0; word < n_words; word++)
	{
		if (set->complement)
			hits[word] = used[word] & ~hits[word];
		any |= hits[word];
	}
	return any != 0;
}

/* Find the keys that the set lists */
static void
match_listed(const GjKeySet *set, const void *keys, const uint32 *used, int n_words,
			 uint32 *hits, const char *ahead)
{
	const GjKernelTable *kernels = get_kernels();
	int			width = (set->key_width == sizeof(int32)) ? 0 : 1;

	switch (set->probe)
	{
		case GJ_PROBE_EMPTY:
			memset(hits, 0, n_words * sizeof(uint32));
			break;
		case GJ_PROBE_LIST:
			kernels->list[width] (set, keys, used, n_words, hits, ahead);
			break;
		case GJ_PROBE_BITMAP:
			kernels->bitmap[width] (set, keys, used, n_words, hits, ahead);
			break;
		case GJ_PROBE_HASH:
			kernels->filter[width] (set, keys, used, n_words, hits, ahead);
			verify_hits(set, keys, n_words, hits);
			break;
	}
}

/*
 * Return the name of the kernels in use, for users
 */
const char *
GjKernelName(void)
{
	return get_kernels()->title;
}

/*
 * Return the maximum number of keys for which a set should be a list
 */
uint64
GjKernelListKeys(void)
{
	return get_kernels()->list_keys;
}

/*
 * Choose kernels by name, or the best ones if name is NULL
 */
bool
GjKernelSelect(const char *name)
{
	for (int i = 0; i < lengthof(kernel_tables); i++)
	{
		const GjKernelTable *kernels = &kernel_tables[i];

		if ((name == NULL || strcmp(name, kernels->name) == 0) && kernels->available())
		{
			selected_kernels = kernels;
			return true;
		}
	}
	return false;
}

/* The kernels in use, chosen at the first call */
static const GjKernelTable *
get_kernels(void)
{
	if (selected_kernels == NULL)
		GjKernelSelect(NULL);
	return selected_kernels;
}

/*
 * Prefetch the cells that will be looked up, so that their cache misses overlap.
 */
static pg_attribute_always_inline void
prefetch_cells(const GjKeySet *set, const void *keys, int n_words, const uint32 *hits)
{
	for (int word = 0; word < n_words; word++)
	{
		for (uint32 left = hits[word]; left != 0; left &= left - 1)
		{
			int			slot = word * GJ_WORD_KEYS + pg_rightmost_one_pos32(left);
			int64		key = load_key(keys, set->key_width, slot);

			GjPrefetch(&set->table[GjTableStart(set, key)]);
		}
	}
}

/* Clear the hits of keys that passed the filter but are not in the table */
static void
verify_hits(const GjKeySet *set, const void *keys, int n_words, uint32 *hits)
{
	int			width = set->key_width;

	if (set->table != NULL && set->table_cells > GJ_PREFETCH_CELLS)
		prefetch_cells(set, keys, n_words, hits);

	for (int word = 0; word < n_words; word++)
	{
		for (uint32 left = hits[word]; left != 0; left &= left - 1)
		{
			int			bit = pg_rightmost_one_pos32(left);

			if (!GjTableContains(set, load_key(keys, width, word * GJ_WORD_KEYS + bit)))
				hits[word] &= ~((uint32) 1 << bit);
		}
	}
}
