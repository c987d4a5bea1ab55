/*-------------------------------------------------------------------------
 *
 * keymap.h
 *	  A map from keys, any integers, to pointers.
 *
 * Open addressing; at most half of the cells are used, so that few are passed to find a key, or
 * that it is missing.  The hash is seeded, and runs of cells are bounded: base/probe.h.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_KEYMAP_H
#define GPUJOIN_SETS_KEYMAP_H

#include "nodes/memnodes.h"

#include "base/prefetch.h"
#include "base/probe.h"

/* Every integer is a valid key, so a cell is empty if it has no value */
typedef struct GjKeyCell
{
	int64		key;
	void	   *value;
} GjKeyCell;

typedef struct GjKeyMap
{
	MemoryContext context;
	GjSeed		seed;
	GjKeyCell  *cells;
	uint64		mask;			/* number of cells, a power of two, less 1 */
	uint64		nkeys;
} GjKeyMap;

extern GjKeyMap *GjKeyMapCreate(MemoryContext context, uint64 expected);

/* Return the cell of a key, which is added if it is missing: then the caller must set its value */
extern GjKeyCell *GjKeyMapAdd(GjKeyMap *map, int64 key);

/* Visit the keys, in no order: return the next cell that is not empty, from *at on, or NULL */
extern const GjKeyCell *GjKeyMapNext(const GjKeyMap *map, uint64 *at);

/*
 * Return the cell at which the search for a key begins.  Keys that differ only in their upper bits
 * must not collide, as they would after a Fibonacci multiplication alone, so the upper half is
 * folded in twice.
 */
static inline uint64
GjKeyMapStart(const GjKeyMap *map, int64 key)
{
	uint64		h = (uint64) key ^ map->seed.value;

	h ^= h >> 32;
	h *= UINT64CONST(0x9E3779B97F4A7C15);
	h ^= h >> 32;
	h *= UINT64CONST(0xD6E8FEB86659FD93);
	return (h >> 32) & map->mask;
}

static inline void
GjKeyMapPrefetch(const GjKeyMap *map, uint64 start)
{
	GjPrefetch(&map->cells[start]);
}

/*
 * Return the value of a key, whose search begins at this cell; or NULL
 */
static inline void *
GjKeyMapFindFrom(const GjKeyMap *map, int64 key, uint64 at)
{
	const GjKeyCell *cell = &map->cells[at];
	uint64		start = at;

	while (cell->value != NULL)
	{
		if (cell->key == key)
			return cell->value;
		GjProbeNote((at - start) & map->mask);
		at = (at + 1) & map->mask;
		cell = &map->cells[at];
	}
	return NULL;
}

static inline void *
GjKeyMapFind(const GjKeyMap *map, int64 key)
{
	return GjKeyMapFindFrom(map, key, GjKeyMapStart(map, key));
}

#endif							/* GPUJOIN_SETS_KEYMAP_H */
