/*-------------------------------------------------------------------------
 *
 * sortselftest.c
 *	  Test of the sorter of rows (pages/sort.c): it must return the rows that it was given, in
 *	  order.
 *
 * Rows are random, from a fixed seed, with keys of few and of all values, TIDs that ascend and
 * that do not, equal rows, and much less memory than they need.  The output must ascend, and must
 * have the same number of rows with the same sum of hashes.  Begun again, rows are passed over.
 *
 * gpujoin_sort_timing() returns the processor time per row in nanoseconds.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/resource.h>
#include <sys/time.h>

#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"

#include "base/tid.h"
#include "pages/pages.h"

#define PAYLOAD					5	/* bytes of INCLUDE columns in a row */

PG_FUNCTION_INFO_V1(gpujoin_sort_selftest);
PG_FUNCTION_INFO_V1(gpujoin_sort_timing);

typedef struct TestRows
{
	GjIndexInfo info;
	pg_prng_state prng;
	int			key_bits;		/* number of bits in which keys differ */
	bool		heap_order;
	uint64		n;
} TestRows;

static void
describe(TestRows *rows, int key_width, int payload)
{
	memset(rows, 0, sizeof(*rows));
	rows->info.key_width = key_width;
	rows->info.row_width = key_width + sizeof(ItemPointerData) + payload;
	pg_prng_seed(&rows->prng, 13);
}

static void
make_row(TestRows *rows, char *row)
{
	int			shift = (rows->info.key_width == sizeof(int32) ? 32 : 64) - rows->key_bits;
	uint64		word = pg_prng_uint64(&rows->prng);
	uint64		place = rows->heap_order ? rows->n / 3 : pg_prng_uint64(&rows->prng) % 100000000;
	ItemPointerData tid;

	ItemPointerSet(&tid, place / 200, place % 200 + 1);
	if (rows->info.key_width == sizeof(int32))
	{
		int32		key = rows->key_bits == 0 ? -7 : (int32) word >> shift;

		memcpy(row, &key, sizeof(key));
	}
	else
	{
		int64		key = rows->key_bits == 0 ? -7 : (int64) word >> shift;

		memcpy(row, &key, sizeof(key));
	}
	memcpy(row + rows->info.key_width, &tid, sizeof(tid));
	for (int i = rows->info.key_width + sizeof(tid); i < rows->info.row_width; i++)
		row[i] = (char) (word >> (i % 4 * 8));
	rows->n++;
}

static uint64
hash_of(const TestRows *rows, const char *row)
{
	return hash_bytes_extended((const unsigned char *) row, rows->info.row_width, 0);
}

static GjPlace
place_of(const TestRows *rows, const char *row)
{
	ItemPointerData tid;
	GjPlace		place;

	place.key = GjRowGetKey(&rows->info, row, &tid);
	place.tid = GjPackTid(&tid);
	return place;
}

/*
 * Check that the row after some that are passed over is as far behind as it should be
 */
static void
check_skips(const TestRows *rows, GjRowSort *sort, const GjPlace *places, uint64 n)
{
	uint64		skip = 1;
	uint64		at = 0;
	const char *sorted;

	GjRowSortRewind(sort);
	while ((sorted = GjRowSortNext(sort)) != NULL)
	{
		GjPlace		place = place_of(rows, sorted);

		if (at >= n || place.key != places[at].key || place.tid != places[at].tid)
			elog(ERROR, "another row follows: %d bits, " UINT64_FORMAT " rows, row " UINT64_FORMAT,
				 rows->key_bits, n, at);
		at++;
		if (at % 3 == 0)
			at += GjRowSortSkip(sort, skip, 1000);
		skip = skip * 7 % (n / 10 + 2);
	}
	if (at != n)
		elog(ERROR, "other rows are left: %d bits, " UINT64_FORMAT " rows, row " UINT64_FORMAT,
			 rows->key_bits, n, at);
}

/*
 * Sort n rows and check the result
 */
static void
check_sort(TestRows *rows, uint64 n, Size memory)
{
	GjRowSort  *sort = GjRowSortBegin(&rows->info, memory);
	char		row[GJ_MAX_ROW_WIDTH];
	const char *sorted;
	uint64		sum = 0;
	uint64		count = 0;
	GjPlace    *places = palloc((n + 1) * sizeof(GjPlace));
	GjPlace		last = {PG_INT64_MIN, 0};

	rows->n = 0;
	for (uint64 i = 0; i < n; i++)
	{
		make_row(rows, row);
		sum += hash_of(rows, row);
		GjRowSortAdd(sort, row);
	}
	GjRowSortPerform(sort);
	while ((sorted = GjRowSortNext(sort)) != NULL)
	{
		GjPlace		place = place_of(rows, sorted);

		if (GjPlaceIsBefore(&place, &last))
			elog(ERROR, "rows are not in order: %d bits, %llu rows, %zu bytes, row " UINT64_FORMAT,
				 rows->key_bits, (unsigned long long) n, memory, count);
		last = place;
		places[Min(count, n)] = place;
		sum -= hash_of(rows, sorted);
		count++;
	}
	if (count != n || sum != 0)
		elog(ERROR, "other rows came out: %d bits, %llu rows, %zu bytes",
			 rows->key_bits, (unsigned long long) n, memory);
	check_skips(rows, sort, places, n);
	pfree(places);
	GjRowSortEnd(sort);
}

Datum
gpujoin_sort_selftest(PG_FUNCTION_ARGS)
{
	static const uint64 sizes[] = {0, 1, 2, 63, 64, 65, 1000, 20000};
	static const Size memories[] = {0, 10000, 100000, 10000000};
	static const int bits[] = {0, 1, 7, 20, 32, 50, 64};
	int64		sorts = 0;

	for (int wide = 0; wide < 2; wide++)
		for (int b = 0; b < lengthof(bits); b++)
			for (int s = 0; s < lengthof(sizes); s++)
				for (int m = 0; m < lengthof(memories); m++)
					for (int order = 0; order < 2; order++)
					{
						TestRows	rows;

						if (!wide && bits[b] > 32)
							continue;
						CHECK_FOR_INTERRUPTS();
						describe(&rows, wide ? sizeof(int64) : sizeof(int32), s % 2 * PAYLOAD);
						rows.key_bits = bits[b];
						rows.heap_order = order;
						check_sort(&rows, sizes[s], memories[m]);
						sorts++;
					}
	PG_RETURN_INT64(sorts);
}

static double
cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
		(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/*
 * gpujoin_sort_timing(rows, memory in kB, key width, bits of the keys, heap order)
 */
Datum
gpujoin_sort_timing(PG_FUNCTION_ARGS)
{
	uint64		n = PG_GETARG_INT64(0);
	Size		memory = (Size) PG_GETARG_INT32(1) * 1024;
	TestRows	rows;
	GjRowSort  *sort;
	double		start;
	char	   *made;

	describe(&rows, PG_GETARG_INT32(2), 0);
	rows.key_bits = PG_GETARG_INT32(3);
	rows.heap_order = PG_GETARG_BOOL(4);
	made = MemoryContextAllocHuge(CurrentMemoryContext, Max(n, 1) * rows.info.row_width);
	for (uint64 i = 0; i < n; i++)
		make_row(&rows, made + i * rows.info.row_width);

	start = cpu_seconds();
	sort = GjRowSortBegin(&rows.info, memory);
	for (uint64 i = 0; i < n; i++)
		GjRowSortAdd(sort, made + i * rows.info.row_width);
	GjRowSortPerform(sort);
	while (GjRowSortNext(sort) != NULL)
		;
	GjRowSortEnd(sort);
	PG_RETURN_FLOAT8((cpu_seconds() - start) * 1e9 / Max(n, 1));
}
