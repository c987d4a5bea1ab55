/*-------------------------------------------------------------------------
 *
 * entryselftest.c
 *	  Test of entry sets filled in any order: each TID must be in the set once, with its own
 *	  values, and must go to exactly one process when the set is shared.
 *
 * A TID's values can be computed from it, which exposes an entry whose columns were moved only in
 * part.  Everything is random, from a fixed seed.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "utils/dsa.h"
#include "utils/memutils.h"

#include "sets/sets.h"

#define ROUNDS					60
#define MAX_TIDS				20000
#define BLOCK_TIDS				5
#define BLOCK_GAP				7
#define HEAP_BLOCKS				(MAX_TIDS / BLOCK_TIDS * BLOCK_GAP)
#define NINCLUDED				4
#define PART_ENTRIES			3000
#define MEMORY					((Size) 16 * 1024 * 1024)

PG_FUNCTION_INFO_V1(gpujoin_entries_selftest);

static uint64
make_tid(uint64 number)
{
	return (number / BLOCK_TIDS * BLOCK_GAP) << 16 | (number % BLOCK_TIDS + 1);
}

static uint64
tid_number(uint64 tid)
{
	return GjPackedBlock(tid) / BLOCK_GAP * BLOCK_TIDS + GjPackedOffset(tid) - 1;
}

static uint64
make_value(uint64 tid, int column)
{
	return hash_bytes_uint32_extended((uint32) tid_number(tid), column);
}

/* One column in four has no NULLs, the others have few */
static bool
make_null(uint64 tid, int column)
{
	return column % 4 != 1 && make_value(tid, column + 100) % 500 == 0;
}

/*
 * Add entries of these TIDs, a part at a time, as a device delivers them
 */
static void
add_entries(GjEntrySet *set, const uint64 *tids, uint64 n)
{
	for (uint64 first = 0; first < n; first += PART_ENTRIES)
	{
		uint64		part = Min(n - first, PART_ENTRIES);
		GjEntryArrays arrays = {.tids = tids + first};
		char	   *keys = palloc(part * sizeof(uint64));

		for (uint64 i = 0; i < part; i++)
		{
			uint64		key = make_value(tids[first + i], 0);

			memcpy(keys + i * set->keys.width, &key, set->keys.width);
		}
		arrays.keys = keys;
		for (int c = 0; c < set->nincluded; c++)
		{
			char	   *values = palloc(part * sizeof(uint64));
			uint8	   *nulls = palloc(part);

			for (uint64 i = 0; i < part; i++)
			{
				uint64		value = make_value(tids[first + i], c + 1);

				memcpy(values + i * set->included[c].width, &value, set->included[c].width);
				nulls[i] = make_null(tids[first + i], c + 1);
			}
			arrays.values[c] = values;
			arrays.nulls[c] = nulls;
		}
		if (!GjEntrySetAddArrays(set, &arrays, part))
			elog(ERROR, "the set refuses entries");
	}
}

static void
check_column(const GjEntryColumn *column, uint64 tid, uint64 i, int number)
{
	uint64		value = make_value(tid, number);
	bool		isnull = column->has_nulls && column->nulls[i];

	if (column->width == 0)
		return;
	if (memcmp(column->values + i * column->width, &value, column->width) != 0)
		elog(ERROR, "column %d of an entry has another entry's value", number);
	if (isnull != (number > 0 && make_null(tid, number)))
		elog(ERROR, "column %d of an entry is taken for NULL, or is not", number);
}

/*
 * Check the entries' values, and count how often each TID is there
 */
static void
count_entries(const GjEntrySet *set, uint8 *counts)
{
	for (uint64 i = 0; i < set->nentries; i++)
	{
		uint64		tid = set->tids[i];

		if (tid > set->highest)
			elog(ERROR, "an entry has a higher TID than the set knows of");
		counts[tid_number(tid)]++;
		check_column(&set->keys, tid, i, 0);
		for (int c = 0; c < set->nincluded; c++)
			check_column(&set->included[c], tid, i, c + 1);
	}
}

static void
check_set(const GjEntrySet *set, const bool *wanted)
{
	uint8	   *counts = palloc0(MAX_TIDS);

	count_entries(set, counts);
	for (uint64 i = 0; i < MAX_TIDS; i++)
	{
		if (counts[i] != (wanted[i] ? 1 : 0))
			elog(ERROR, "TID number " UINT64_FORMAT " is there %d times instead of %d", i,
				 counts[i], wanted[i]);
	}
	pfree(counts);
}

/*
 * Share the set, and take all steps: each entry must be in one, and all entries of a block in the
 * same
 */
static void
check_share(const GjEntrySet *set, const bool *wanted, dsa_area *area, int nprocesses)
{
	GjSharedEntries shared;
	GjEntrySet	view = *set;
	uint8	   *counts = palloc0(MAX_TIDS);
	int		   *owners = palloc0(HEAP_BLOCKS * sizeof(int));
	int			step = 0;

	GjEntrySetShareInit(&shared);
	GjEntrySetShare(&shared, area, set, nprocesses);
	while (GjEntrySetTakeShared(&shared, area, &view))
	{
		step++;
		count_entries(&view, counts);
		for (uint64 i = 0; i < view.nentries; i++)
		{
			int		   *owner = &owners[GjPackedBlock(view.tids[i])];

			if (*owner != 0 && *owner != step)
				elog(ERROR, "block %u comes in two steps", GjPackedBlock(view.tids[i]));
			*owner = step;
		}
	}
	for (uint64 i = 0; i < MAX_TIDS; i++)
	{
		if (counts[i] != (wanted[i] ? 1 : 0))
			elog(ERROR, "TID number " UINT64_FORMAT " is shared %d times", i, counts[i]);
	}
	GjEntrySetUnshare(&shared, area);
	pfree(counts);
	pfree(owners);
}

/*
 * Drop some of the TIDs, and some that are not in the set
 */
static void
check_drop(GjEntrySet *set, bool *wanted, pg_prng_state *prng)
{
	uint64		tids[100];
	uint64		nwanted = 0;
	uint64		ndropped = 0;
	uint64	   *places = MemoryContextAllocHuge(CurrentMemoryContext,
												Max(set->nentries, 1) * sizeof(uint64));
	GjFewTids  *few;

	for (int i = 0; i < lengthof(tids); i++)
	{
		uint64		number = pg_prng_uint64(prng) % MAX_TIDS;

		tids[i] = make_tid(number);
		nwanted += wanted[number];
		wanted[number] = false;
	}
	few = GjFewTidsCreate(CurrentMemoryContext, tids, lengthof(tids));
	for (int i = 0; i < lengthof(tids); i++)
	{
		int64		at = GjFewTidsFind(few, tids[i]);

		if (at < 0 || at > i || tids[at] != tids[i])
			elog(ERROR, "a TID is not found among few");
	}
	for (uint64 i = 0; i < set->nentries; i++)
	{
		if (GjFewTidsFind(few, set->tids[i]) >= 0)
			places[ndropped++] = i;
	}
	if (ndropped != nwanted)
		elog(ERROR, "not all, or too many entries were found among few");
	GjEntrySetDropPlaces(set, places, ndropped);
	GjFewTidsFree(few);
	pfree(places);
	check_set(set, wanted);
}

static GjEntrySet *
make_set(pg_prng_state *prng, Size memory)
{
	static const uint16 widths_there_are[] = {1, 2, 4, 8};
	GjEntryWidths widths = {.key = pg_prng_bool(prng) ? 4 : 8,.nincluded = NINCLUDED};

	for (int i = 0; i < NINCLUDED; i++)
		widths.included[i] = widths_there_are[pg_prng_uint64(prng) % lengthof(widths_there_are)];
	return GjEntrySetCreate(CurrentMemoryContext, memory, &widths, pg_prng_bool(prng),
							(uint32) pg_prng_uint64(prng) & ((1 << NINCLUDED) - 1));
}

static int64
run_round(pg_prng_state *prng, dsa_area *area, int round)
{
	uint64	   *tids = palloc(2 * MAX_TIDS * sizeof(uint64));
	bool	   *wanted = palloc0(MAX_TIDS);
	uint64		nbulk = round % 7 == 0 ? 0 : pg_prng_uint64(prng) % MAX_TIDS;
	uint64		nothers = round % 5 == 0 ? 0 : pg_prng_uint64(prng) % (round % 3 == 0 ? 9000 : 60);
	bool		ordered = round % 4 == 0;
	GjEntrySet *set = make_set(prng, MEMORY);

	for (uint64 i = 0; i < MAX_TIDS; i++)
		tids[i] = make_tid(i);
	for (uint64 i = MAX_TIDS - 1; i > 0 && !ordered; i--)
	{
		uint64		j = pg_prng_uint64(prng) % (i + 1);
		uint64		tid = tids[i];

		tids[i] = tids[j];
		tids[j] = tid;
	}
	for (uint64 i = 0; i < nothers; i++)
		tids[nbulk + i] = make_tid(pg_prng_uint64(prng) % MAX_TIDS);
	for (uint64 i = 0; i < nbulk + nothers; i++)
		wanted[tid_number(tids[i])] = true;

	add_entries(set, tids, nbulk);
	if (round % 2 == 0)
		GjEntrySetEndBulk(set);
	add_entries(set, tids + nbulk, nothers);
	GjEntrySetFinish(set);
	check_set(set, wanted);
	if (round % 2 == 0 && nbulk > 0 &&
		memcmp(set->tids, tids, nbulk * sizeof(uint64)) != 0)
		elog(ERROR, "the bulk's entries have moved");
	check_share(set, wanted, area, 1 + round % 4);
	check_drop(set, wanted, prng);
	GjEntrySetFree(set);
	return nbulk + nothers;
}

/*
 * Check that a set gives up if it lacks the memory to find duplicates
 */
static void
check_memory(pg_prng_state *prng)
{
	GjEntrySet *set = make_set(prng, 100000);
	uint64	   *tids = palloc(MAX_TIDS * sizeof(uint64));
	uint64		n = GjEntrySetCapacity(set);

	for (uint64 i = 0; i < n; i++)
		tids[i] = make_tid(i / 2);
	add_entries(set, tids, n);
	if (set->gave_up || set->nentries != n)
		elog(ERROR, "entries that fit in memory are not there");
	GjEntrySetFinish(set);
	if (!set->gave_up || set->nentries != 0)
		elog(ERROR, "a set was sorted without the memory for it");
	GjEntrySetFree(set);
}

/*
 * Compare sets of entries with the entries added; returns their number
 */
Datum
gpujoin_entries_selftest(PG_FUNCTION_ARGS)
{
	pg_prng_state prng;
	dsa_area   *area = dsa_create(LWTRANCHE_PARALLEL_QUERY_DSA);
	int64		nentries = 0;

	pg_prng_seed(&prng, 20260813);
	for (int round = 0; round < ROUNDS; round++)
	{
		MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "entries selftest",
													  ALLOCSET_DEFAULT_SIZES);
		MemoryContext old = MemoryContextSwitchTo(context);

		CHECK_FOR_INTERRUPTS();
		nentries += run_round(&prng, area, round);
		check_memory(&prng);
		MemoryContextSwitchTo(old);
		MemoryContextDelete(context);
	}
	dsa_detach(area);
	PG_RETURN_INT64(nentries);
}
