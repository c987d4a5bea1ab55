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
 * according to the CPU's features.
 *
 * Each vector loop is compiled for its own instruction set, the rest of the library for the base
 * architecture: such a function must not run, or be inlined elsewhere, unless available() has
 * returned true.  Bit numbers are 32 bits wide and word numbers are at most 2^23, so it is correct
 * that gathers treat their indexes as signed.
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

#if defined(__x86_64__) && defined(__GNUC__)
#define GJ_X86_KERNELS
#include <immintrin.h>
#endif

#include "port/pg_bitutils.h"

#include "base/prefetch.h"
#include "keyset.h"

/* Number of keys per word of hits or of used slots */
#define GJ_WORD_KEYS			32

/* With more intervals, bisection is quicker than comparing many keys at a time with each */
#define GJ_FEW_INTERVALS		8

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
	GjKernel	intervals[2];	/* few of them */
} GjKernelTable;

static void kernel_match_listed(const GjKeySet *set, const void *keys, const uint32 *used,
								int n_words, uint32 *hits, const char *ahead);
static const GjKernelTable *get_kernels(void);
static void verify_hits(const GjKeySet *set, const void *keys, int n_words, uint32 *hits);
static void bisect_intervals(const GjKeySet *set, const void *keys, const uint32 *used, int n_words,
							 uint32 *hits);

/*
 * Prefetch the keys at ahead that correspond to the keys of a word.  Keys need not start at a
 * cache line boundary; if they do not, the first line is skipped.
 */
static pg_attribute_always_inline void
prefetch_ahead(const char *ahead, int width, int word)
{
	const char *keys = ahead + word * GJ_WORD_KEYS * width;

	for (int at = 0; at < GJ_WORD_KEYS * width; at += GJ_CACHE_LINE)
		GjPrefetch(keys + at + GJ_CACHE_LINE - 1);
}

/*
 * Define a kernel for each width of keys: a loop around a test of some keys, which returns their
 * bits.  The widths are constant, so that the compiler drops code for the other one, and the set
 * is copied, so that it knows that stored hits do not change it.
 */
#define GJ_DEFINE_KERNEL(test, name, width, tested, attribute) \
attribute static void \
name(const GjKeySet *set, const void *keys, const uint32 *used, int n_words, uint32 *hits, \
	 const char *ahead) \
{ \
	const GjKeySet copy = *set; \
	const char *next = keys; \
	\
	for (int word = 0; word < n_words; word++) \
	{ \
		uint32		found = 0; \
		\
		prefetch_ahead(ahead, width, word); \
		for (int i = 0; i < GJ_WORD_KEYS; i += (tested), next += (tested) * (width)) \
			found |= test(&copy, next, width) << i; \
		hits[word] = found & used[word]; \
	} \
}

#define GJ_DEFINE_KERNELS(kind, suffix, tested4, tested8, attribute) \
GJ_DEFINE_KERNEL(test_##kind##suffix, match_##kind##4##suffix, sizeof(int32), tested4, attribute) \
GJ_DEFINE_KERNEL(test_##kind##suffix, match_##kind##8##suffix, sizeof(int64), tested8, attribute)

/* Loops for any machine ------------------------------------------------------- */

static pg_attribute_always_inline int64
kernel_load_key(const void *keys, int width, int slot)
{
	if (width == sizeof(int32))
		return ((const int32 *) keys)[slot];
	return ((const int64 *) keys)[slot];
}

/* Distance between the ends of an interval */
static inline uint64
span_of(const GjInterval *interval)
{
	return (uint64) interval->high - (uint64) interval->low;
}

static pg_attribute_always_inline uint32
test_list_any(const GjKeySet *set, const void *keys, int width)
{
	int64		key = kernel_load_key(keys, width, 0);
	uint32		equal = 0;

	for (uint64 k = 0; k < set->nlisted; k++)
		equal |= (key == set->listed[k]);
	return equal;
}

static pg_attribute_always_inline uint32
test_bitmap_any(const GjKeySet *set, const void *keys, int width)
{
	uint64		bit = (uint64) kernel_load_key(keys, width, 0) - (uint64) set->min_key;

	bit = Min(bit, (uint64) set->bitmap_limit);
	return (set->bitmap[bit / 32] >> (bit % 32)) & 1;
}

static pg_attribute_always_inline uint32
test_filter_any(const GjKeySet *set, const void *keys, int width)
{
	return (uint32) GjFilterContains(set, kernel_load_key(keys, width, 0));
}

static pg_attribute_always_inline uint32
test_intervals_any(const GjKeySet *set, const void *keys, int width)
{
	uint64		key = (uint64) kernel_load_key(keys, width, 0);
	uint32		inside = 0;

	for (uint64 k = 0; k < set->nintervals; k++)
		inside |= key - (uint64) set->intervals[k].low <= span_of(&set->intervals[k]);
	return inside;
}

GJ_DEFINE_KERNELS(list, _any, 1, 1,)
GJ_DEFINE_KERNELS(bitmap, _any, 1, 1,)
GJ_DEFINE_KERNELS(filter, _any, 1, 1,)
GJ_DEFINE_KERNELS(intervals, _any, 1, 1,)

static bool
any_available(void)
{
	return true;
}

#ifdef GJ_X86_KERNELS

/* AVX2: eight keys at once ------------------------------------------------------- */

#define GJ_AVX2 __attribute__((target("avx2")))
#define GJ_AVX2_INLINE GJ_AVX2 static pg_attribute_always_inline

GJ_AVX2_INLINE __m256i
load_avx2(const void *keys, Size offset)
{
	return _mm256_loadu_si256((const __m256i *) ((const char *) keys + offset));
}

/* The lower (upper) halves of eight 64-bit lanes, in order */
#define GJ_HALVES_AVX2(a, b, select) \
	_mm256_permute4x64_epi64(_mm256_castps_si256( \
		_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), select)), 0xD8)
#define GJ_LOWER_AVX2			0x88
#define GJ_UPPER_AVX2			0xDD

/*
 * Gather the words of eight bit numbers; returns the tested bits in the lower bits of the result
 */
GJ_AVX2_INLINE uint32
test_bits_avx2(const uint32 *bits, __m256i index)
{
	__m256i		words = _mm256_i32gather_epi32((const int *) bits,
											   _mm256_srli_epi32(index, 5), 4);
	__m256i		to_sign = _mm256_andnot_si256(index, _mm256_set1_epi32(31));

	return _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_sllv_epi32(words, to_sign)));
}

/* Return the difference to min_key, or limit if that is smaller, of four 8-byte keys */
GJ_AVX2_INLINE __m256i
clamp_avx2(__m256i keys, __m256i min_key, __m256i limit)
{
	__m256i		sign = _mm256_set1_epi64x(PG_INT64_MIN);
	__m256i		index = _mm256_sub_epi64(keys, min_key);
	__m256i		above = _mm256_cmpgt_epi64(_mm256_xor_si256(index, sign),
										   _mm256_xor_si256(limit, sign));

	return _mm256_blendv_epi8(index, limit, above);
}

/* Return the lanes of a vector that are equal to a listed key, as lanes of ones */
GJ_AVX2_INLINE __m256i
compare_avx2(__m256i keys, int width, int64 listed)
{
	return (width == sizeof(int32)) ? _mm256_cmpeq_epi32(keys, _mm256_set1_epi32((int32) listed)) :
		_mm256_cmpeq_epi64(keys, _mm256_set1_epi64x(listed));
}

GJ_AVX2_INLINE uint32
bits_avx2(__m256i equal, int width)
{
	return (width == sizeof(int32)) ? _mm256_movemask_ps(_mm256_castsi256_ps(equal)) :
		_mm256_movemask_pd(_mm256_castsi256_pd(equal));
}

/* Tests four vectors at a time, so that a listed key is loaded once for all of them */
GJ_AVX2_INLINE uint32
test_list_avx2(const GjKeySet *set, const void *keys, int width)
{
	int			lanes = sizeof(__m256i) / width;
	__m256i		a = _mm256_setzero_si256();
	__m256i		b = a;
	__m256i		c = a;
	__m256i		d = a;

	for (uint64 k = 0; k < set->nlisted; k++)
	{
		int64		one = set->listed[k];

		a = _mm256_or_si256(a, compare_avx2(load_avx2(keys, 0), width, one));
		b = _mm256_or_si256(b, compare_avx2(load_avx2(keys, sizeof(a)), width, one));
		c = _mm256_or_si256(c, compare_avx2(load_avx2(keys, 2 * sizeof(a)), width, one));
		d = _mm256_or_si256(d, compare_avx2(load_avx2(keys, 3 * sizeof(a)), width, one));
	}
	return bits_avx2(a, width) | bits_avx2(b, width) << lanes |
		bits_avx2(c, width) << 2 * lanes | bits_avx2(d, width) << 3 * lanes;
}

GJ_AVX2_INLINE uint32
test_bitmap_avx2(const GjKeySet *set, const void *keys, int width)
{
	__m256i		index;

	if (width == sizeof(int32))
		index = _mm256_min_epu32(_mm256_sub_epi32(load_avx2(keys, 0),
												  _mm256_set1_epi32((int32) set->min_key)),
								 _mm256_set1_epi32((int32) set->bitmap_limit));
	else
	{
		__m256i		min_key = _mm256_set1_epi64x(set->min_key);
		__m256i		limit = _mm256_set1_epi64x(set->bitmap_limit);
		__m256i		a = clamp_avx2(load_avx2(keys, 0), min_key, limit);
		__m256i		b = clamp_avx2(load_avx2(keys, 32), min_key, limit);

		index = GJ_HALVES_AVX2(a, b, GJ_LOWER_AVX2);
	}
	return test_bits_avx2(set->bitmap, index);
}

GJ_AVX2_INLINE uint32
test_filter_avx2(const GjKeySet *set, const void *keys, int width)
{
	__m256i		low_factor = _mm256_set1_epi32((int32) GJ_FILTER_LOW);
	__m256i		high_factor = _mm256_set1_epi32((int32) GJ_FILTER_HIGH);
	__m256i		hash;

	if (width == sizeof(int32))
		hash = _mm256_mullo_epi32(load_avx2(keys, 0), low_factor);
	else
	{
		__m256i		a = load_avx2(keys, 0);
		__m256i		b = load_avx2(keys, 32);
		__m256i		low = GJ_HALVES_AVX2(a, b, GJ_LOWER_AVX2);
		__m256i		high = GJ_HALVES_AVX2(a, b, GJ_UPPER_AVX2);

		hash = _mm256_add_epi32(_mm256_mullo_epi32(low, low_factor),
								_mm256_mullo_epi32(high, high_factor));
	}
	return test_bits_avx2(set->filter,
						  _mm256_srl_epi32(hash, _mm_cvtsi32_si128(set->filter_shift)));
}

/* A key is inside if its distance to the lower end, without sign, is at most the upper end's */
GJ_AVX2_INLINE uint32
test_intervals_avx2(const GjKeySet *set, const void *keys, int width)
{
	__m256i		sign = _mm256_set1_epi64x(PG_INT64_MIN);
	__m256i		some = load_avx2(keys, 0);
	uint32		inside = 0;

	for (uint64 k = 0; k < set->nintervals; k++)
	{
		int64		low = set->intervals[k].low;
		uint64		span = span_of(&set->intervals[k]);

		if (width == sizeof(int32))
		{
			__m256i		offset = _mm256_sub_epi32(some, _mm256_set1_epi32((int32) low));
			__m256i		least = _mm256_min_epu32(offset, _mm256_set1_epi32((int32) span));

			inside |= _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(least, offset)));
		}
		else
		{
			__m256i		offset = _mm256_sub_epi64(some, _mm256_set1_epi64x(low));
			__m256i		limit = _mm256_xor_si256(_mm256_set1_epi64x(span), sign);
			__m256i		above = _mm256_cmpgt_epi64(_mm256_xor_si256(offset, sign), limit);

			inside |= ~_mm256_movemask_pd(_mm256_castsi256_pd(above)) & 0xF;
		}
	}
	return inside;
}

GJ_DEFINE_KERNELS(list, _avx2, 32, 16, GJ_AVX2)
GJ_DEFINE_KERNELS(bitmap, _avx2, 8, 8, GJ_AVX2)
GJ_DEFINE_KERNELS(filter, _avx2, 8, 8, GJ_AVX2)
GJ_DEFINE_KERNELS(intervals, _avx2, 8, 4, GJ_AVX2)

static bool
avx2_available(void)
{
	return __builtin_cpu_supports("avx2");
}

/* AVX-512: sixteen keys at once -------------------------------------------------- */

#define GJ_AVX512 __attribute__((target("avx512f")))
#define GJ_AVX512_INLINE GJ_AVX512 static pg_attribute_always_inline

GJ_AVX512_INLINE __m512i
load_avx512(const void *keys, Size offset)
{
	return _mm512_loadu_si512((const char *) keys + offset);
}

/* Return the lower halves of sixteen 64-bit lanes, in order */
GJ_AVX512_INLINE __m512i
lower_halves_avx512(__m512i a, __m512i b)
{
	return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(a)),
							  _mm512_cvtepi64_epi32(b), 1);
}

/* Gather the words of sixteen bit numbers; returns the tested bits in the result's lower bits */
GJ_AVX512_INLINE uint32
test_bits_avx512(const uint32 *bits, __m512i index)
{
	__m512i		words = _mm512_i32gather_epi32(_mm512_srli_epi32(index, 5), bits, 4);
	__m512i		bit = _mm512_rolv_epi32(_mm512_set1_epi32(1), index);

	return _mm512_test_epi32_mask(words, bit);
}

/*
 * Return the least difference, as bits, of keys to the listed keys so far (left) and to one more;
 * a lane is 0 if equal
 */
GJ_AVX512_INLINE __m512i
compare_avx512(__m512i keys, int width, int64 listed, __m512i left)
{
	if (width == sizeof(int32))
		return _mm512_min_epu32(left, _mm512_xor_si512(keys, _mm512_set1_epi32((int32) listed)));
	return _mm512_min_epu64(left, _mm512_xor_si512(keys, _mm512_set1_epi64(listed)));
}

GJ_AVX512_INLINE uint32
test_zero_avx512(__m512i left, int width)
{
	return (width == sizeof(int32)) ?
		_mm512_testn_epi32_mask(left, left) : _mm512_testn_epi64_mask(left, left);
}

/* Tests two vectors, so that a listed key is loaded once for both */
GJ_AVX512_INLINE uint32
test_list_avx512(const GjKeySet *set, const void *keys, int width)
{
	__m512i		a = load_avx512(keys, 0);
	__m512i		b = load_avx512(keys, 64);
	__m512i		left_a = _mm512_set1_epi32(-1);
	__m512i		left_b = left_a;

	for (uint64 k = 0; k < set->nlisted; k++)
	{
		left_a = compare_avx512(a, width, set->listed[k], left_a);
		left_b = compare_avx512(b, width, set->listed[k], left_b);
	}
	return test_zero_avx512(left_a, width) | test_zero_avx512(left_b, width) << (64 / width);
}

GJ_AVX512_INLINE uint32
test_bitmap_avx512(const GjKeySet *set, const void *keys, int width)
{
	__m512i		index;

	if (width == sizeof(int32))
		index = _mm512_min_epu32(_mm512_sub_epi32(load_avx512(keys, 0),
												  _mm512_set1_epi32((int32) set->min_key)),
								 _mm512_set1_epi32((int32) set->bitmap_limit));
	else
	{
		__m512i		min_key = _mm512_set1_epi64(set->min_key);
		__m512i		limit = _mm512_set1_epi64(set->bitmap_limit);
		__m512i		a = _mm512_sub_epi64(load_avx512(keys, 0), min_key);
		__m512i		b = _mm512_sub_epi64(load_avx512(keys, 64), min_key);

		index = lower_halves_avx512(_mm512_min_epu64(a, limit), _mm512_min_epu64(b, limit));
	}
	return test_bits_avx512(set->bitmap, index);
}

GJ_AVX512_INLINE uint32
test_filter_avx512(const GjKeySet *set, const void *keys, int width)
{
	__m512i		low_factor = _mm512_set1_epi32((int32) GJ_FILTER_LOW);
	__m512i		high_factor = _mm512_set1_epi32((int32) GJ_FILTER_HIGH);
	__m512i		hash;

	if (width == sizeof(int32))
		hash = _mm512_mullo_epi32(load_avx512(keys, 0), low_factor);
	else
	{
		__m512i		a = load_avx512(keys, 0);
		__m512i		b = load_avx512(keys, 64);
		__m512i		low = lower_halves_avx512(a, b);
		__m512i		high = lower_halves_avx512(_mm512_srli_epi64(a, 32),
											   _mm512_srli_epi64(b, 32));

		hash = _mm512_add_epi32(_mm512_mullo_epi32(low, low_factor),
								_mm512_mullo_epi32(high, high_factor));
	}
	return test_bits_avx512(set->filter,
							_mm512_srl_epi32(hash, _mm_cvtsi32_si128(set->filter_shift)));
}

GJ_AVX512_INLINE uint32
test_intervals_avx512(const GjKeySet *set, const void *keys, int width)
{
	__m512i		some = load_avx512(keys, 0);
	uint32		inside = 0;

	for (uint64 k = 0; k < set->nintervals; k++)
	{
		int64		low = set->intervals[k].low;
		uint64		span = span_of(&set->intervals[k]);

		inside |= (width == sizeof(int32)) ?
			_mm512_cmple_epu32_mask(_mm512_sub_epi32(some, _mm512_set1_epi32((int32) low)),
									_mm512_set1_epi32((int32) span)) :
			_mm512_cmple_epu64_mask(_mm512_sub_epi64(some, _mm512_set1_epi64(low)),
									_mm512_set1_epi64(span));
	}
	return inside;
}

GJ_DEFINE_KERNELS(list, _avx512, 32, 16, GJ_AVX512)
GJ_DEFINE_KERNELS(bitmap, _avx512, 16, 16, GJ_AVX512)
GJ_DEFINE_KERNELS(filter, _avx512, 16, 16, GJ_AVX512)
GJ_DEFINE_KERNELS(intervals, _avx512, 16, 8, GJ_AVX512)

static bool
avx512_available(void)
{
	return __builtin_cpu_supports("avx512f");
}

#endif							/* GJ_X86_KERNELS */

/* Choosing the kernels --------------------------------------------------------------- */

#define GJ_KERNELS(suffix) \
	{match_list4##suffix, match_list8##suffix}, \
	{match_bitmap4##suffix, match_bitmap8##suffix}, \
	{match_filter4##suffix, match_filter8##suffix}, \
	{match_intervals4##suffix, match_intervals8##suffix}

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

	kernel_match_listed(set->excluded != NULL ? set->excluded : set, keys, used, n_words, hits,
						ahead != NULL ? ahead : keys);
	for (int word = 0; word < n_words; word++)
	{
		if (set->excluded != NULL)
			hits[word] = used[word] & ~hits[word];
		any |= hits[word];
	}
	return any != 0;
}

/* Find the keys that the set lists, or that are in its intervals */
static void
kernel_match_listed(const GjKeySet *set, const void *keys, const uint32 *used, int n_words,
					uint32 *hits, const char *ahead)
{
	const GjKernelTable *kernels = get_kernels();
	int			width = (set->key_width == sizeof(int32)) ? 0 : 1;

	GjKeySetPrepare(set);
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
		case GJ_PROBE_INTERVALS:
			if (set->nintervals <= GJ_FEW_INTERVALS)
				kernels->intervals[width] (set, keys, used, n_words, hits, ahead);
			else
				bisect_intervals(set, keys, used, n_words, hits);
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
			int64		key = kernel_load_key(keys, set->key_width, slot);

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

			if (!GjTableContains(set, kernel_load_key(keys, width, word * GJ_WORD_KEYS + bit)))
				hits[word] &= ~((uint32) 1 << bit);
		}
	}
}

/* Look up each key in many intervals */
static void
bisect_intervals(const GjKeySet *set, const void *keys, const uint32 *used, int n_words,
				 uint32 *hits)
{
	for (int word = 0; word < n_words; word++)
	{
		uint32		found = 0;

		for (uint32 left = used[word]; left != 0; left &= left - 1)
		{
			int			bit = pg_rightmost_one_pos32(left);
			int64		key = kernel_load_key(keys, set->key_width, word * GJ_WORD_KEYS + bit);

			found |= (uint32) GjIntervalsContain(set, key) << bit;
		}
		hits[word] = found;
	}
}
