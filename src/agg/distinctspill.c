/*-------------------------------------------------------------------------
 *
 * distinctspill.c
 *	  What count(DISTINCT) has no memory for.
 *
 * A set that may not grow is full: it still tells which values it has, and entries of others are
 * spilled.  When all rows have come, what the set has is counted, and can be forgotten; then one
 * part of the spilled entries after another is put into it, and counted.  An entry names its
 * group by number; so that is done while the groups are there, before they are delivered.
 *
 * Without groups, bits stay when the set is full, for they take values of their range without
 * growing: only others are spilled.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groupparts.h"

static void add_rows(GjDistinct *set, const GjAggInput *input, int64 *counts);
static void spill_entries(GjDistinct *set, const uint16 *rows, int n);
static void add_part(GjDistinct *set, Size room, int64 *counts);
static int64 *count_of(const GjDistinct *set, int row, int64 *counts);

/*
 * Add values of rows to a set that is full
 */
void
GjDistinctAddToFull(GjDistinct *set, const GjAggInput *input, int64 *counts)
{
	uint64		values[GJ_BATCH_ROWS];
	uint16		rest[GJ_BATCH_ROWS];
	GjAggInput	others = *input;

	if (set->has_bits)
	{
		others.nrows = GjBitsAddCovered(set, input, counts, rest);
		GjGatherValues((char *) values, input->values, set->width, rest, others.nrows);
		others.values = values;
	}
	add_rows(set, &others, counts);
}

static void
add_rows(GjDistinct *set, const GjAggInput *input, int64 *counts)
{
	bool		has_zero = set->is_wide || set->is_grouped;
	uint16		missed[GJ_DISTINCT_ROWS];

	for (int first = 0; first < input->nrows; first += GJ_DISTINCT_ROWS)
	{
		int			nrows = Min(GJ_DISTINCT_ROWS, input->nrows - first);
		int			nmissed = 0;

		GjDistinctMakeEntries(set, input, first, nrows);
		if (!has_zero)
			GjDistinctFindZero(set, nrows, counts);
		for (int i = 0; i < nrows; i++)
		{
			missed[nmissed] = i;
			nmissed += !GjDistinctHas(set, i) && (has_zero || set->batch_entries[i] != 0);
		}
		spill_entries(set, missed, nmissed);
	}
}

static void
spill_entries(GjDistinct *set, const uint16 *rows, int n)
{
	int			nwords = set->is_wide ? 2 : 1;
	uint64		entries[GJ_DISTINCT_ROWS * 2];
	uint64		hashes[GJ_DISTINCT_ROWS];

	if (n == 0)
		return;
	for (int i = 0; i < n; i++)
	{
		memcpy(&entries[i * nwords], &set->batch_entries[rows[i] * nwords],
			   nwords * sizeof(uint64));
		hashes[i] = set->batch_hashes[rows[i]];
	}
	GjSpillWrite(set->spill, (const char *) entries, hashes, n);
}

/*
 * Count what has been spilled, within so many bytes.  Then the set is empty.
 */
void
GjDistinctFinish(GjDistinct *set, Size room, int64 *counts)
{
	uint64		nentries;

	if (!GjSpillWaits(set->spill))
		return;
	while (GjSpillNextPart(set->spill, &nentries))
	{
		GjDistinctClear(set);
		set->has_bits = false;
		add_part(set, room, counts);
	}
	GjDistinctClear(set);
}

static void
add_part(GjDistinct *set, Size room, int64 *counts)
{
	uint16		missed[GJ_DISTINCT_ROWS];
	int			nrows;

	while ((nrows = GjSpillRead(set->spill, (char *) set->batch_entries, GJ_DISTINCT_ROWS)) > 0)
	{
		int			nmissed = 0;

		GjDistinctMakeRoom(set, nrows, room);
		GjDistinctHashEntries(set, nrows);
		for (int i = 0; i < nrows; i++)
		{
			if (!set->is_full)
				*count_of(set, i, counts) += GjDistinctEnter(set, i);
			else if (!GjDistinctHas(set, i))
				missed[nmissed++] = i;
		}
		spill_entries(set, missed, nmissed);
	}
}

/*
 * The count of an entry's group
 */
static int64 *
count_of(const GjDistinct *set, int row, int64 *counts)
{
	if (!set->is_grouped)
		return counts;
	if (set->is_wide)
		return &counts[set->batch_entries[row * 2 + 1] - 1];
	return &counts[(set->batch_entries[row] >> 32) - 1];
}
