/*-------------------------------------------------------------------------
 *
 * topselftest.c
 *	  Test of the first entries of an order (sets/top.c) against sorting all of them.
 *
 * Entries are random, from a fixed seed, with few values of each column, so that there are many
 * ties, and with critical values: the ends of integers, infinities, NaNs, 0 and -0, NULLs.  Some
 * occur twice, like an entry that is found in two places.  They are compared by PostgreSQL's own
 * comparison functions.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/tupmacs.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/memutils.h"
#include "utils/sortsupport.h"
#include "utils/typcache.h"

#include "sets/sets.h"

#define MAX_COLUMNS				4
#define MAX_ENTRIES				9000
#define ROUNDS					60
#define MAX_SETS				5

typedef struct TestEntry
{
	Datum		values[MAX_COLUMNS];
	bool		isnull[MAX_COLUMNS];
	uint64		tid;
} TestEntry;

typedef struct TestOrder
{
	int			first;			/* the first sort column: the key, or one with NULLs */
	int			ncolumns;
	Oid			types[MAX_COLUMNS];
	GjSortColumn columns[MAX_COLUMNS];
	FmgrInfo	compare[MAX_COLUMNS];
} TestOrder;

static const Oid types[] = {INT4OID, INT8OID, INT2OID, FLOAT4OID, FLOAT8OID, BOOLOID, OIDOID,
TIMESTAMPTZOID, DATEOID};

PG_FUNCTION_INFO_V1(gpujoin_top_selftest);

static void
make_order(TestOrder *order, GjEntryWidths *widths, pg_prng_state *prng)
{
	order->first = pg_prng_bool(prng);
	order->ncolumns = order->first + 1 + pg_prng_uint64(prng) % (MAX_COLUMNS - order->first);
	widths->nincluded = MAX_COLUMNS - 1;
	for (int i = 0; i < MAX_COLUMNS; i++)
	{
		/* the key is an integer */
		Oid			type = types[pg_prng_uint64(prng) % (i == 0 ? 3 : lengthof(types))];
		GjSortColumn *column = &order->columns[i];
		TypeCacheEntry *cache = lookup_type_cache(type, TYPECACHE_CMP_PROC_FINFO);

		order->types[i] = type;
		order->compare[i] = cache->cmp_proc_finfo;
		if (!GjTypeSorts(type, &column->kind))
			elog(ERROR, "type %u is said not to sort", type);
		column->column = i;
		column->width = cache->typlen;
		column->descending = pg_prng_bool(prng);
		column->nulls_first = pg_prng_bool(prng);
		if (i == 0)
			widths->key = cache->typlen == sizeof(int64) ? sizeof(int64) : sizeof(int32);
		else
			widths->included[i - 1] = cache->typlen;
	}
}

/*
 * Values may ascend with the number of their entry; then none of them is very high or low
 */
static Datum
make_value(Oid type, int rise, pg_prng_state *prng)
{
	static const double floats[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-30, -1.5};
	int			pick = rise > 0 ? 8 + pg_prng_uint64(prng) % 8 : pg_prng_uint64(prng) % 16;
	int64		small = (int64) (pg_prng_uint64(prng) % 20) - 10 + rise;

	switch (type)
	{
		case FLOAT4OID:
			return Float4GetDatum(pick < 8 ? (float4) floats[pick] : (float4) small / 4);
		case FLOAT8OID:
			return Float8GetDatum(pick < 8 ? floats[pick] : (float8) small / 4);
		case BOOLOID:
			return BoolGetDatum(pick & 1);
		case OIDOID:
			return ObjectIdGetDatum(pick == 0 ? PG_UINT32_MAX : (Oid) (small + 10));
		case INT2OID:
			return Int16GetDatum(pick == 0 ? PG_INT16_MIN : pick == 1 ? PG_INT16_MAX : small);
		case INT4OID:
		case DATEOID:
			return Int32GetDatum(pick == 0 ? PG_INT32_MIN : pick == 1 ? PG_INT32_MAX : small);
		default:
			return Int64GetDatum(pick == 0 ? PG_INT64_MIN : pick == 1 ? PG_INT64_MAX : small);
	}
}

static int
compare_entries(const void *a, const void *b, void *arg)
{
	const TestEntry *left = a;
	const TestEntry *right = b;
	TestOrder  *order = arg;

	for (int i = order->first; i < order->ncolumns; i++)
	{
		const GjSortColumn *column = &order->columns[i];
		int			result;

		if (left->isnull[i] || right->isnull[i])
		{
			if (left->isnull[i] != right->isnull[i])
				return left->isnull[i] == column->nulls_first ? -1 : 1;
			continue;
		}
		result = DatumGetInt32(FunctionCall2(&order->compare[i], left->values[i],
											 right->values[i]));
		if (result != 0)
			return column->descending ? (result < 0 ? 1 : -1) : result;
	}
	return left->tid < right->tid ? -1 : left->tid > right->tid;
}

/*
 * Convert entries to the arrays of a set
 */
static GjEntrySet *
make_set(const TestEntry *entries, int n, const GjEntryWidths *widths)
{
	GjEntrySet *set = palloc0(sizeof(GjEntrySet));

	set->nentries = n;
	set->tids = palloc((n + 1) * sizeof(uint64));
	set->nincluded = widths->nincluded;
	for (int c = 0; c < MAX_COLUMNS; c++)
	{
		GjEntryColumn *column = c == 0 ? &set->keys : &set->included[c - 1];

		column->width = c == 0 ? widths->key : widths->included[c - 1];
		column->values = palloc0((n + 1) * column->width);
		column->nulls = c == 0 ? NULL : palloc0(n + 1);
		for (int i = 0; i < n; i++)
		{
			set->tids[i] = entries[i].tid;
			if (entries[i].isnull[c])
				column->nulls[i] = column->has_nulls = true;
			else
				store_att_byval(column->values + i * column->width, entries[i].values[c],
								column->width);
		}
	}
	return set;
}

/*
 * Add all entries, divided into some sets, which are made the first time
 */
static void
add_sets(GjTop *top, const TestEntry *entries, int n, const GjEntryWidths *widths,
		 GjEntrySet **sets, int nsets)
{
	for (int s = 0; s < nsets; s++)
	{
		int			from = (int64) n * s / nsets;
		int			size = (int64) n * (s + 1) / nsets - from;
		GjEntrySet *set;
		uint16		rows[GJ_BATCH_ROWS];

		if (sets[s] == NULL)
			sets[s] = make_set(entries + from, size, widths);
		set = sets[s];
		for (int first = 0; first < size; first += GJ_BATCH_ROWS)
		{
			int			m = Min(size - first, GJ_BATCH_ROWS);
			int			half = m / 2;

			/* half of them as rows named in a list */
			for (int i = 0; i < m - half; i++)
				rows[i] = half + i;
			GjTopAdd(top, set, first, half, NULL, 0);
			GjTopAdd(top, set, first, m, rows, m - half);
		}
	}
}

/*
 * Return true if entry i of the top is this one, with its columns
 */
static bool
is_same(const GjTop *top, uint64 i, const TestEntry *entry, int first)
{
	const GjEntrySet *rows = GjTopRows(top);
	uint64		row = GjTopRow(top, i);
	const GjEntryColumn *kept = &rows->included[0];

	if (GjTopTid(top, i) != entry->tid ||
		!GjTopIsSame(top, i, entry->values + first, entry->isnull + first))
		return false;
	if (kept->nulls[row] != entry->isnull[1])
		return false;
	return entry->isnull[1] || fetch_att(kept->values + row * kept->width, true, kept->width) ==
		fetch_att((char *) &entry->values[1], true, kept->width);
}

static int64
run_round(pg_prng_state *prng)
{
	TestOrder	order;
	GjEntryWidths widths;
	TestEntry  *entries = palloc0(MAX_ENTRIES * sizeof(TestEntry));
	int			n = pg_prng_uint64(prng) % MAX_ENTRIES;
	int			nsorted = 0;
	int			seen = 0;
	bool		rises = pg_prng_bool(prng);
	uint64		wanted = 1 + pg_prng_uint64(prng) % (pg_prng_bool(prng) ? 50 : 3000);
	GjTop	   *top;
	TestEntry  *sorted;
	GjEntrySet *sets[MAX_SETS + 1][MAX_SETS] = {{NULL}};	/* by their number */

	make_order(&order, &widths, prng);
	for (int i = 0; i < n; i++)
	{
		if (i > 0 && pg_prng_uint64(prng) % 10 == 0)
		{
			entries[i] = entries[pg_prng_uint64(prng) % i];
			continue;
		}
		entries[i].tid = (uint64) i * 7919 % (1 << 20);	/* unique to this entry */
		for (int c = 0; c < MAX_COLUMNS; c++)
		{
			entries[i].isnull[c] = c > 0 && pg_prng_uint64(prng) % 8 == 0;
			entries[i].values[c] = entries[i].isnull[c] ? (Datum) 0 :
				make_value(order.types[c], rises ? 1 + i / 64 : 0, prng);
		}
	}
	sorted = palloc((n + 1) * sizeof(TestEntry));
	memcpy(sorted, entries, n * sizeof(TestEntry));
	qsort_arg(sorted, n, sizeof(TestEntry), compare_entries, &order);
	for (int i = 0; i < n; i++)
	{
		if (nsorted == 0 || compare_entries(&sorted[nsorted - 1], &sorted[i], &order) != 0)
			sorted[nsorted++] = sorted[i];
	}

	top = GjTopCreate(CurrentMemoryContext, order.columns + order.first,
					  order.ncolumns - order.first, &widths, 2);
	for (;;)
	{
		int			nsets = 1 + pg_prng_uint64(prng) % MAX_SETS;

		GjTopStart(top, wanted, seen > 0, wanted % 2 == 0);
		add_sets(top, entries, n, &widths, sets[nsets], nsets);
		GjTopFinish(top);
		for (uint64 i = 0; i < GjTopCount(top); i++)
		{
			if (seen == nsorted || !is_same(top, i, &sorted[seen], order.first))
				elog(ERROR, "entry %d of %d is wrong, with %d wanted at first", seen, nsorted,
					 (int) wanted);
			seen++;
		}
		if (GjTopCount(top) < wanted)
			break;
	}
	if (seen != nsorted)
		elog(ERROR, "%d entries of %d came", seen, nsorted);
	return seen;
}

Datum
gpujoin_top_selftest(PG_FUNCTION_ARGS)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "top selftest",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	pg_prng_state prng;
	int64		compared = 0;

	pg_prng_seed(&prng, 12);
	for (int i = 0; i < ROUNDS; i++)
	{
		CHECK_FOR_INTERRUPTS();
		compared += run_round(&prng);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	PG_RETURN_INT64(compared);
}
