/*-------------------------------------------------------------------------
 *
 * smallkeys.h
 *	  The hash table of a small side: from a key to the first row that has it.
 *
 * Included by small.c alone.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_SMALLKEYS_H
#define GPUJOIN_EXEC_SMALLKEYS_H

#include "base/prefetch.h"
#include "small.h"

/* Every integer is a legal key, so cells have a status */
typedef struct KeyCell
{
	int64		key;
	GjSmallRow *first;
	char		status;
} KeyCell;

/*
 * Spread a key over the 32 bits that the table masks; keys that differ only in
 * their upper bits must not collide (a Fibonacci multiplication alone would let
 * them), so the upper half is folded in twice.
 */
static inline uint32
GjSmallKeyHash(int64 key)
{
	uint64		h = (uint64) key;

	h ^= h >> 32;
	h *= UINT64CONST(0x9E3779B97F4A7C15);
	h ^= h >> 32;
	h *= UINT64CONST(0xD6E8FEB86659FD93);
	return (uint32) (h >> 32);
}

#define SH_PREFIX keytable
#define SH_ELEMENT_TYPE KeyCell
#define SH_KEY_TYPE int64
#define SH_KEY key
#define SH_HASH_KEY(tb, key) GjSmallKeyHash(key)
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/*
 * Have the cell where a key's search begins on its way from memory
 */
static inline void
GjSmallKeysPrefetch(const keytable_hash *table, uint32 hash)
{
	GjPrefetch(&table->data[hash & table->sizemask]);
}

#endif							/* GPUJOIN_EXEC_SMALLKEYS_H */
