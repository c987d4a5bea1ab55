/*-------------------------------------------------------------------------
 *
 * selftest.c
 *	  Tests of all kernels, and of the TID set, against the simplest possible code.  The
 *	  regression tests call its two functions.
 *
 * A query only runs the kernels of the machine it is on, so no query can show that the others
 * agree.  Here each variant that the CPU can run is compared with membership in a sorted array.
 * Sets and pages are random, from a fixed seed, and of kinds likely to expose errors: empty, one
 * key, the ends of the integer range, spans that do not fit a signed integer, keys that collide.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "sets/sets.h"
#include "keysets.h"

#define GJ_TEST_WORDS			26
#define GJ_TEST_SLOTS			(GJ_TEST_WORDS * 32)
#define GJ_TEST_PAGES			6	/* of each set */
#define GJ_TEST_HEAP_BLOCKS		3000
#define GJ_TEST_COLLIDING_KEYS	5000

/* Keys of a test set: their number, the first one, and the maximum distance */
typedef struct TestSet
{
	int			nkeys;
	int64		base;
	uint64		spread;
} TestSet;

static const TestSet test_sets[] = {
	{0, 0, 0},
	{1, 0, 1},
	{1, PG_INT32_MIN, 1},
	{1, PG_INT32_MAX, 1},
	{1, PG_INT64_MIN, 1},
	{1, PG_INT64_MAX, 1},
	{2, PG_INT32_MAX - 1, 2},
	{8, -20, 40},
	{8, PG_INT64_MIN, PG_UINT64_MAX},
	{9, PG_INT32_MIN, 200},
	{16, -3000000, 6000000},
	{16, PG_INT64_MIN, PG_UINT64_MAX},
	{17, -30, 60},
	{17, PG_INT32_MIN, (uint64) PG_UINT32_MAX + 1},
	{9, PG_INT64_MAX - 199, 200},
	{100, -5000, 10000},
	{100, PG_INT32_MIN, (uint64) PG_UINT32_MAX + 1},
	{300, PG_INT64_MIN, PG_UINT64_MAX},
	{300, PG_INT64_MIN, (uint64) 1 << 20},
	{4000, 1, 1000000},
	{4000, -10000000, 20000000},
	{4000, (int64) 1 << 40, (uint64) 1 << 44},
	{20000, PG_INT32_MIN, (uint64) PG_UINT32_MAX + 1},
	{60000, PG_INT64_MIN, PG_UINT64_MAX},
	{200000, 0, 50000000}
};

static const char *const kernel_names[] = {"portable", "avx2", "avx512"};

static uint64 test_key_set(pg_prng_state *prng, const TestSet *test, int key_width,
						   uint64 factor);
static uint64 test_excluded(pg_prng_state *prng, const TestSet *test, const GjKeySet *listed);
static uint64 test_intervals(pg_prng_state *prng, const TestSet *test, const GjKeySet *listed);
static void test_intersection(GjKeySet *set);
static uint64 test_colliding_keys(pg_prng_state *prng);
static uint64 test_pages(pg_prng_state *prng, const TestSet *test, const GjKeySet *set);
static uint64 test_page(const GjKeySet *set, const void *keys, const uint32 *used);
static bool is_member(const GjKeySet *set, int64 key);
static int64 random_key(pg_prng_state *prng, const TestSet *test);
static int64 page_key(pg_prng_state *prng, const TestSet *test, const GjKeySet *set);
static uint64 test_tid_set(pg_prng_state *prng, int npages, double disorder, Size limit);
static void check_tid_set(GjTidSet *set, const uint64 *wanted, uint64 nwanted);
static int	compare_uint64(const void *a, const void *b);

PG_FUNCTION_INFO_V1(gpujoin_kernel_selftest);
PG_FUNCTION_INFO_V1(gpujoin_tidset_selftest);

/*
 * Compare all kernels with a plain search; returns the number of comparisons.
 */
Datum
gpujoin_kernel_selftest(PG_FUNCTION_ARGS)
{
	pg_prng_state prng;
	volatile uint64 ncompared = 0;

	pg_prng_seed(&prng, 42);

	PG_TRY();
	{
		for (int i = 0; i < lengthof(test_sets); i++)
		{
			ncompared += test_key_set(&prng, &test_sets[i], sizeof(int32), 1);
			ncompared += test_key_set(&prng, &test_sets[i], sizeof(int64), 1);
			/* Few distinct lower bits: filter and table are filled unevenly */
			ncompared += test_key_set(&prng, &test_sets[i], sizeof(int64), (uint64) 1 << 48);
		}
		ncompared += test_colliding_keys(&prng);
		GjTestKeySetCombinations(&prng, sizeof(int32));
		GjTestKeySetCombinations(&prng, sizeof(int64));
	}
	PG_FINALLY();
	{
		GjKernelSelect(NULL);
	}
	PG_END_TRY();

	PG_RETURN_INT64((int64) ncompared);
}

/*
 * Compare TID sets with a sorted array; returns the number of TIDs compared.
 */
Datum
gpujoin_tidset_selftest(PG_FUNCTION_ARGS)
{
	static const Size limits[] = {0, 1024 * 1024, 64 * 1024 * 1024};
	static const double disorders[] = {0.0, 0.01, 1.0};
	static const int npages[] = {0, 1, 3, 40, 300};
	pg_prng_state prng;
	uint64		ncompared = 0;

	pg_prng_seed(&prng, 42);
	for (int i = 0; i < lengthof(limits); i++)
		for (int j = 0; j < lengthof(disorders); j++)
			for (int k = 0; k < lengthof(npages); k++)
				ncompared += test_tid_set(&prng, npages[k], disorders[j], limits[i]);

	PG_RETURN_INT64((int64) ncompared);
}

/* Probe random pages for one random set whose keys are multiplied by factor */
static uint64
test_key_set(pg_prng_state *prng, const TestSet *test, int key_width, uint64 factor)
{
	GjKeySet   *set = GjKeySetCreate(CurrentMemoryContext, key_width);
	uint64		ncompared;

	set->spread = pg_prng_bool(prng);
	for (int i = 0; i < test->nkeys; i++)
	{
		int64		key = (int64) ((uint64) random_key(prng, test) * factor);

		GjKeySetAdd(set, key);
		if (i % 3 == 0)
			GjKeySetAdd(set, key);
	}
	GjKeySetFinish(set);

	for (uint64 i = 0; i < GjKeySetCount(set); i++)
	{
		if ((i > 0 && GjKeySetAt(set, i) <= GjKeySetAt(set, i - 1)) ||
			!GjKeySetContains(set, GjKeySetAt(set, i)))
			elog(ERROR, "key set lost or repeated key " INT64_FORMAT, GjKeySetAt(set, i));
	}

	ncompared = test_pages(prng, test, set);
	ncompared += test_excluded(prng, test, set);
	ncompared += test_intervals(prng, test, set);
	test_intersection(set);
	GjKeySetFree(set);
	return ncompared;
}

/* Probe random pages for all other keys than those of a set */
static uint64
test_excluded(pg_prng_state *prng, const TestSet *test, const GjKeySet *listed)
{
	GjKeySet   *set = GjKeySetCreate(CurrentMemoryContext, listed->key_width);
	uint64		ncompared;

	for (uint64 i = 0; i < GjKeySetCount(listed); i++)
		GjKeySetAdd(set, GjKeySetAt(listed, i));
	GjKeySetExclude(set);
	for (int i = 0; i < GJ_TEST_SLOTS; i++)
	{
		int64		key = page_key(prng, test, listed);

		if (listed->key_width == sizeof(int32))
			key = (int32) key;
		if (GjKeySetContains(set, key) == is_member(listed, key))
			elog(ERROR, "key " INT64_FORMAT " is listed and wanted, or neither", key);
	}
	ncompared = test_pages(prng, test, set);
	GjKeySetFree(set);
	return ncompared;
}

/* Probe random pages for one, for few and for many intervals between keys of a set */
static uint64
test_intervals(pg_prng_state *prng, const TestSet *test, const GjKeySet *listed)
{
	static const uint64 most[] = {1, 3, 1000};
	uint64		ncompared = 0;

	for (int i = 0; i < lengthof(most); i++)
	{
		GjKeySet   *set = GjKeySetCreate(CurrentMemoryContext, listed->key_width);
		uint64		step = Max(GjKeySetCount(listed) / (2 * most[i]), 1);

		for (uint64 k = 0; k + step < GjKeySetCount(listed) && k < 2 * most[i] * step;
			 k += 2 * step)
			GjKeySetAddInterval(set, GjKeySetAt(listed, k), GjKeySetAt(listed, k + step));
		GjKeySetFinish(set);
		ncompared += test_pages(prng, test, set);
		GjKeySetFree(set);
	}
	return ncompared;
}

/* Intersect a set with every other key of it, which must remain */
static void
test_intersection(GjKeySet *set)
{
	GjKeySet   *half = GjKeySetCreate(CurrentMemoryContext, set->key_width);

	for (uint64 i = 0; i < GjKeySetCount(set); i += 2)
		GjKeySetAdd(half, GjKeySetAt(set, i));
	GjKeySetFinish(half);
	GjKeySetIntersect(set, half);
	if (GjKeySetCount(set) != GjKeySetCount(half) || set->probe != half->probe ||
		(GjKeySetCount(set) > 0 && memcmp(GjKeySetKeys(set), GjKeySetKeys(half),
										  GjKeySetCount(set) * sizeof(int64)) != 0))
		elog(ERROR, "intersection of key sets is wrong");
	GjKeySetFree(half);
}

/* Probe random pages for keys that all belong to the same cell of the table */
static uint64
test_colliding_keys(pg_prng_state *prng)
{
	static const TestSet anything = {1, PG_INT64_MIN, PG_UINT64_MAX};
	GjKeySet   *set = GjKeySetCreate(CurrentMemoryContext, sizeof(int64));
	uint64		inverse = GJ_TABLE_FACTOR;
	uint64		ncompared;

	/* Newton's iteration doubles the number of correct bits of the inverse, starting from three */
	for (int i = 0; i < 5; i++)
		inverse *= 2 - GJ_TABLE_FACTOR * inverse;

	for (uint64 i = 0; i < GJ_TEST_COLLIDING_KEYS; i++)
	{
		uint64		mixed = i * inverse;

		GjKeySetAdd(set, (int64) (mixed ^ (mixed >> 32)));
	}
	GjKeySetFinish(set);
	GjKeySetBuild(set);
	if (GjKeySetCount(set) != GJ_TEST_COLLIDING_KEYS || set->probe != GJ_PROBE_HASH ||
		set->table != NULL)
		elog(ERROR, "colliding keys did not collide");

	ncompared = test_pages(prng, &anything, set);
	ncompared += test_excluded(prng, &anything, set);
	GjKeySetFree(set);
	return ncompared;
}

/* Probe random pages */
static uint64
test_pages(pg_prng_state *prng, const TestSet *test, const GjKeySet *set)
{
	uint64		ncompared = 0;

	for (int page = 0; page < GJ_TEST_PAGES; page++)
	{
		int64		keys8[GJ_TEST_SLOTS];
		int32		keys4[GJ_TEST_SLOTS];
		uint32		used[GJ_TEST_WORDS];

		for (int i = 0; i < GJ_TEST_SLOTS; i++)
		{
			keys8[i] = page_key(prng, test, set);
			keys4[i] = (int32) keys8[i];
		}
		for (int i = 0; i < GJ_TEST_WORDS; i++)
			used[i] = (i % 4 == 0) ? PG_UINT32_MAX : (uint32) pg_prng_uint64(prng);
		ncompared += test_page(set, (set->key_width == sizeof(int32)) ? (void *) keys4 : keys8,
							   used);
	}
	return ncompared;
}

/* Probe one page with each kernel, and each of its keys alone */
static uint64
test_page(const GjKeySet *set, const void *keys, const uint32 *used)
{
	uint32		wanted[GJ_TEST_WORDS] = {0};
	uint32		nwanted = 0;
	uint64		ncompared = 0;

	CHECK_FOR_INTERRUPTS();

	for (int i = 0; i < GJ_TEST_SLOTS; i++)
	{
		int64		key = (set->key_width == sizeof(int32)) ? ((const int32 *) keys)[i] :
			((const int64 *) keys)[i];
		bool		member = is_member(set, key);

		if (GjKeySetContains(set, key) != member)
			elog(ERROR, "single probe of key " INT64_FORMAT " is wrong", key);
		if (member && (used[i / 32] >> (i % 32)) & 1)
		{
			wanted[i / 32] |= (uint32) 1 << (i % 32);
			nwanted++;
		}
	}

	for (int i = 0; i < lengthof(kernel_names); i++)
	{
		uint32		hits[GJ_TEST_WORDS];

		if (!GjKernelSelect(kernel_names[i]))
			continue;
		memset(hits, 0x55, sizeof(hits));
		if (GjKernelMatch(set, keys, used, GJ_TEST_WORDS, hits, NULL) != (nwanted > 0) ||
			memcmp(hits, wanted, sizeof(hits)) != 0)
			elog(ERROR, "kernel \"%s\" is wrong for " UINT64_FORMAT " keys of width %d, probe %d",
				 kernel_names[i], GjKeySetCount(set), set->key_width, (int) set->probe);
		ncompared += GJ_TEST_SLOTS;
	}
	return ncompared;
}

/* Binary search in the sorted keys or intervals */
static bool
is_member(const GjKeySet *set, int64 key)
{
	bool		is_list = set->nintervals == 0;
	int64		low = 0;
	int64		high = (int64) (is_list ? GjKeySetCount(set) : set->nintervals) - 1;

	while (low <= high)
	{
		int64		middle = (low + high) / 2;

		if (key < (is_list ? GjKeySetAt(set, middle) : set->intervals[middle].low))
			high = middle - 1;
		else if (key > (is_list ? GjKeySetAt(set, middle) : set->intervals[middle].high))
			low = middle + 1;
		else
			return true;
	}
	return false;
}

static int64
random_key(pg_prng_state *prng, const TestSet *test)
{
	return (int64) ((uint64) test->base + pg_prng_uint64(prng) % test->spread);
}

/* Make a key for a page: a member, a neighbor of one, an end of a range, or any number */
static int64
page_key(pg_prng_state *prng, const TestSet *test, const GjKeySet *set)
{
	static const int64 ends[] = {0, -1, PG_INT32_MIN, PG_INT32_MAX, PG_INT64_MIN, PG_INT64_MAX};
	uint64		kind = pg_prng_uint64(prng) % 8;

	if (kind < 3 && GjKeySetCount(set) > 0)
	{
		uint64		key = (uint64) GjKeySetAt(set, pg_prng_uint64(prng) % GjKeySetCount(set));

		return (int64) (key + (kind == 2 ? pg_prng_uint64(prng) % 3 - 1 : 0));
	}
	if (kind < 3 && set->nintervals > 0)
	{
		const GjInterval *interval = &set->intervals[pg_prng_uint64(prng) % set->nintervals];
		uint64		end = (uint64) (kind == 0 ? interval->low : interval->high);

		return (int64) (end + pg_prng_uint64(prng) % 3 - 1);
	}
	if (kind == 3)
		return ends[pg_prng_uint64(prng) % lengthof(ends)];
	if (kind == 4 || test->spread == 0)
		return (int64) pg_prng_uint64(prng);
	return random_key(prng, test);
}

/* Fill a TID set from random index pages and compare its contents */
static uint64
test_tid_set(pg_prng_state *prng, int npages, double disorder, Size limit)
{
	GjTidSet   *set = GjTidSetCreate(CurrentMemoryContext, limit);
	uint64	   *wanted = palloc(((Size) npages * GJ_TEST_SLOTS + 10) * sizeof(uint64));
	uint64		nwanted = 0;
	uint64		ndistinct = 0;
	static const uint64 no_tids[] = {0, 5 << 16, (7 << 16) | (MaxHeapTuplesPerPage + 1),
		(UINT64CONST(0xFFFFFFFF) << 16) | 1, (UINT64CONST(1) << 48) | 1, PG_UINT64_MAX};

	for (int page = 0; page < npages; page++)
	{
		BlockNumber block = (BlockNumber) ((double) page / npages * GJ_TEST_HEAP_BLOCKS);
		uint64		before;
		ItemPointerData tids[GJ_TEST_SLOTS];
		uint32		hits[GJ_TEST_WORDS];

		CHECK_FOR_INTERRUPTS();
		if (pg_prng_double(prng) < disorder)
			block = pg_prng_uint64(prng) % GJ_TEST_HEAP_BLOCKS;
		for (int i = 0; i < GJ_TEST_SLOTS; i++)
			ItemPointerSet(&tids[i], block + i / 100, i % 100 + 1);
		for (int i = 0; i < GJ_TEST_WORDS; i++)
			hits[i] = (uint32) (pg_prng_uint64(prng) & pg_prng_uint64(prng));
		before = nwanted;
		for (int i = 0; i < GJ_TEST_SLOTS; i++)
		{
			if ((hits[i / 32] >> (i % 32)) & 1)
				wanted[nwanted++] = ((uint64) ItemPointerGetBlockNumber(&tids[i]) << 16) |
					ItemPointerGetOffsetNumber(&tids[i]);
		}
		/* Alternate between the orders in which the CPU's search and a device deliver them */
		if (page % 2 == 0)
			GjTidSetAdd(set, tids, hits, GJ_TEST_WORDS);
		else if (!GjTidSetAddPacked(set, wanted + before, nwanted - before))
			elog(ERROR, "TID set refuses TIDs of page %d", page);
	}
	for (int i = 0; i < 10; i++)
	{
		BlockNumber block = pg_prng_uint64(prng) % MaxBlockNumber;
		ItemPointerData tid;

		ItemPointerSet(&tid, block, 7);
		GjTidSetAddOne(set, &tid);
		wanted[nwanted++] = ((uint64) block << 16) | 7;
	}

	for (int i = 0; i < lengthof(no_tids); i++)
	{
		if (GjTidSetAddPacked(set, &no_tids[i], 1))
			elog(ERROR, "TID set takes what is no TID");
	}

	qsort(wanted, nwanted, sizeof(uint64), compare_uint64);
	for (uint64 i = 0; i < nwanted; i++)
	{
		if (ndistinct == 0 || wanted[i] != wanted[ndistinct - 1])
			wanted[ndistinct++] = wanted[i];
	}

	GjTidSetFinish(set);
	if (!GjTidSetIsLossy(set) && GjTidSetCount(set) != ndistinct)
		elog(ERROR, "TID set has " UINT64_FORMAT " TIDs instead of " UINT64_FORMAT,
			 GjTidSetCount(set), ndistinct);
	check_tid_set(set, wanted, ndistinct);
	GjTidSetRewind(set);
	check_tid_set(set, wanted, ndistinct);

	GjTidSetFree(set);
	pfree(wanted);
	return ndistinct;
}

/* Take all blocks, with a second cursor in parallel to the first, and compare */
static void
check_tid_set(GjTidSet *set, const uint64 *wanted, uint64 nwanted)
{
	GjTidBlock	out;
	BlockNumber peeked;
	uint64		done = 0;

	while (GjTidSetNextBlock(set, &out))
	{
		if (!GjTidSetPeekBlock(set, &peeked) || peeked != out.block)
			elog(ERROR, "cursors of the TID set disagree at block %u", out.block);
		if (out.lossy != (out.noffsets == 0) || (out.lossy && !GjTidSetIsLossy(set)))
			elog(ERROR, "block %u has %d offsets", out.block, out.noffsets);
		for (int i = 0; i < out.noffsets; i++)
		{
			if (done >= nwanted || wanted[done] != (((uint64) out.block << 16) | out.offsets[i]))
				elog(ERROR, "TID (%u,%u) is not expected", out.block, out.offsets[i]);
			done++;
		}
		while (out.lossy && done < nwanted && wanted[done] >> 16 == out.block)
			done++;
	}
	if (GjTidSetPeekBlock(set, &peeked) || done != nwanted)
		elog(ERROR, "TID set ends at " UINT64_FORMAT " of " UINT64_FORMAT " TIDs", done, nwanted);
}

static int
compare_uint64(const void *a, const void *b)
{
	uint64		left = *(const uint64 *) a;
	uint64		right = *(const uint64 *) b;

	return (left > right) - (left < right);
}
