/*-------------------------------------------------------------------------
 *
 * keymap.c
 *	  A map from keys to pointers: adding keys (keymap.h).
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "keymap.h"

#define MIN_CELLS				64
#define MAX_CELLS				(UINT64CONST(1) << 32)

/* Cells to fill between checks for interrupts */
#define UNINTERRUPTED_CELLS		(256 * 1024)

static void make_cells(GjKeyMap *map, uint64 ncells);
static GjKeyCell *find_cell(GjKeyMap *map, int64 key);

/*
 * Create a map that has room for this number of keys at first
 */
GjKeyMap *
GjKeyMapCreate(MemoryContext context, uint64 expected)
{
	GjKeyMap   *map = MemoryContextAllocZero(context, sizeof(GjKeyMap));

	map->context = context;
	map->seed = GjSeedCreate();
	make_cells(map, pg_nextpower2_64(Max(2 * Min(expected, MAX_CELLS / 2), MIN_CELLS)));
	return map;
}

GjKeyCell *
GjKeyMapAdd(GjKeyMap *map, int64 key)
{
	GjKeyCell  *cell;

	if (map->seed.is_bad)
	{
		GjSeedReplace(&map->seed);
		make_cells(map, map->mask + 1);
	}
	cell = find_cell(map, key);
	if (cell->value != NULL)
		return cell;
	if ((map->nkeys + 1) * 2 > map->mask + 1)
	{
		if (map->mask + 1 == MAX_CELLS)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("a batch of small rows cannot have more than " UINT64_FORMAT " keys",
							MAX_CELLS / 2)));
		make_cells(map, (map->mask + 1) * 2);
		cell = find_cell(map, key);
	}
	cell->key = key;
	map->nkeys++;
	return cell;
}

/*
 * Allocate the cells, and enter the keys that there are
 */
static void
make_cells(GjKeyMap *map, uint64 ncells)
{
	GjKeyCell  *old = map->cells;
	uint64		nold = old == NULL ? 0 : map->mask + 1;

	map->cells = MemoryContextAllocExtended(map->context, ncells * sizeof(GjKeyCell),
											MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	map->mask = ncells - 1;
	for (uint64 i = 0; i < nold; i++)
	{
		if (i % UNINTERRUPTED_CELLS == 0)
			CHECK_FOR_INTERRUPTS();
		if (old[i].value != NULL)
			*find_cell(map, old[i].key) = old[i];
	}
	if (old != NULL)
		pfree(old);
}

/*
 * Return the cell of a key, or an empty one where it can be added
 */
static GjKeyCell *
find_cell(GjKeyMap *map, int64 key)
{
	uint64		start = GjKeyMapStart(map, key);
	uint64		at = start;

	while (map->cells[at].value != NULL && map->cells[at].key != key)
	{
		GjSeedNote(&map->seed, (at - start) & map->mask);
		at = (at + 1) & map->mask;
	}
	return &map->cells[at];
}

const GjKeyCell *
GjKeyMapNext(const GjKeyMap *map, uint64 *at)
{
	for (; *at <= map->mask; ++*at)
	{
		if (map->cells[*at].value != NULL)
			return &map->cells[(*at)++];
	}
	return NULL;
}
