/*-------------------------------------------------------------------------
 *
 * keyset.h
 *	  The small set: distinct keys as int64, sorted, with a structure beside
 *	  them that answers "is this key listed" on the CPU.
 *
 * Every integer value is a legal key; NULL never gets in.  A value that the
 * index cannot store (out of the range of a 4-byte key) is dropped when it is
 * added: it matches no entry.
 *
 * The keys that are wanted are those that are listed or, with the complement flag,
 * all others.  Rows with a NULL key are wanted if the set says so, whatever it
 * lists; no index entry is of such a row.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_KEYSET_H
#define GPUJOIN_SETS_KEYSET_H

#include "nodes/memnodes.h"

/* How membership is answered */
typedef enum GjProbeKind
{
	GJ_PROBE_EMPTY,				/* no key at all */
	GJ_PROBE_LIST,				/* so few that comparing with each is fastest */
	GJ_PROBE_BITMAP,			/* span narrow enough: one bit per value, exact */
	GJ_PROBE_HASH				/* wide span: bit filter, then open addressing */
} GjProbeKind;

typedef struct GjKeySet GjKeySet;

/* Everything is read-only to others; what they may want to show comes first */
struct GjKeySet
{
	MemoryContext context;		/* all below lives here */
	int			key_width;		/* of the index: 4 or 8 */
	int64	   *keys;			/* distinct, ascending, once finished */
	uint64		nkeys;
	uint64		capacity;
	GjProbeKind probe;
	int64		min_key;		/* smallest and largest key */
	int64		max_key;
	bool		complement;		/* wanted are the keys that are not listed */
	bool		nulls;			/* rows with a NULL key are wanted, too */
	uint64		elsewhere;		/* keys not listed, since only other tables can have them */

	/*
	 * GJ_PROBE_BITMAP: bit (key - min_key) of bitmap.  bitmap_limit is max_key -
	 * min_key + 1; its bit exists and is clear, so that a kernel needs no branch
	 * for keys outside the span but takes this bit for all of them.
	 */
	uint32	   *bitmap;
	uint32		bitmap_limit;

	/*
	 * GJ_PROBE_HASH: the filter has one bit a key among 1 << (32 - filter_shift).
	 * table is open addressing, half full at most.  No integer is reserved, so an
	 * empty cell holds min_key, which is itself compared before the table is
	 * probed.  Without a table (a set made to collide) keys[] is searched.
	 */
	uint32	   *filter;
	uint32		filter_shift;
	uint64		table_cells;
	int64	   *table;
};

/* keyset.c */
extern GjKeySet *GjKeySetCreate(MemoryContext parent, int key_width);
extern void GjKeySetGrow(GjKeySet *set);
extern void GjKeySetFinish(GjKeySet *set);
extern GjKeySet *GjKeySetPart(MemoryContext parent, const GjKeySet *whole, const int64 *keys,
							  uint64 nkeys);
extern uint64 GjKeySetLowerBound(const GjKeySet *set, int64 key);
extern uint64 GjKeySetLowerBoundIn(const GjKeySet *set, uint64 low, uint64 high, int64 key);
extern Size GjKeySetMemory(const GjKeySet *set);
extern void GjKeySetFree(GjKeySet *set);

/* keyset.c: what is wanted by both, or by one of them; all are finished sets */
extern void GjKeySetIntersect(GjKeySet *set, const GjKeySet *other);
extern void GjKeySetUnite(GjKeySet *set, const GjKeySet *other);
extern GjKeySet *GjKeySetSlice(MemoryContext parent, const GjKeySet *set, uint64 first,
							   uint64 n);

/*
 * kernels.c: for each of n_words * 32 keys (int32 or int64 by width), set
 * the bit in hits[] if the key is wanted and its bit in used[] is set.
 * Tells whether there are any.  As many keys at ahead will be asked for next; NULL: not known.
 */
extern bool GjKernelMatch(const GjKeySet *set, const void *keys, const uint32 *used,
						  int n_words, uint32 *hits, const void *ahead);
extern const char *GjKernelName(void);
extern uint64 GjKernelListKeys(void);

/* For tests: "avx512", "avx2", "portable", or NULL for the best; false: not on this CPU */
extern bool GjKernelSelect(const char *name);

/* Add a key, before the set is finished */
static inline void
GjKeySetAdd(GjKeySet *set, int64 key)
{
	if (set->key_width == sizeof(int32) && key != (int32) key)
		return;
	if (set->nkeys == set->capacity)
		GjKeySetGrow(set);
	set->keys[set->nkeys++] = key;
}

/*
 * Filter hash.  32 bits wide, so that a kernel computes it in 32-bit lanes for
 * both widths; the best mixed bits of a product are its upper ones.
 */
#define GJ_FILTER_LOW			0x9E3779B1U
#define GJ_FILTER_HIGH			0x85EBCA77U

static inline uint32
GjFilterIndex(const GjKeySet *set, int64 key)
{
	uint32		hash = (uint32) key * GJ_FILTER_LOW;

	if (set->key_width == sizeof(int64))
		hash += (uint32) ((uint64) key >> 32) * GJ_FILTER_HIGH;
	return hash >> set->filter_shift;
}

static inline bool
GjFilterContains(const GjKeySet *set, int64 key)
{
	uint32		index = GjFilterIndex(set, key);

	return (set->filter[index / 32] >> (index % 32)) & 1;
}

/* Cell where the search for a key begins; fewer than 2^32 cells */
#define GJ_TABLE_FACTOR			UINT64CONST(0x9E3779B97F4A7C15)

static inline uint64
GjTableStart(const GjKeySet *set, int64 key)
{
	uint64		hash = (uint64) key;

	hash ^= hash >> 32;
	hash *= GJ_TABLE_FACTOR;
	return ((hash >> 32) * set->table_cells) >> 32;
}

/* Exact answer for GJ_PROBE_HASH */
static inline bool
GjTableContains(const GjKeySet *set, int64 key)
{
	uint64		cell;

	if (key == set->min_key)
		return true;
	if (set->table == NULL)
	{
		uint64		position = GjKeySetLowerBound(set, key);

		return position < set->nkeys && set->keys[position] == key;
	}
	for (cell = GjTableStart(set, key);; cell = (cell + 1 == set->table_cells) ? 0 : cell + 1)
	{
		if (set->table[cell] == key)
			return true;
		if (set->table[cell] == set->min_key)
			return false;
	}
}

/* Is the key listed? */
static inline bool
GjKeySetLists(const GjKeySet *set, int64 key)
{
	uint64		offset = (uint64) key - (uint64) set->min_key;
	uint64		i;

	switch (set->probe)
	{
		case GJ_PROBE_EMPTY:
			break;
		case GJ_PROBE_LIST:
			for (i = 0; i < set->nkeys; i++)
			{
				if (set->keys[i] == key)
					return true;
			}
			break;
		case GJ_PROBE_BITMAP:
			return offset < set->bitmap_limit &&
				((set->bitmap[offset / 32] >> (offset % 32)) & 1);
		case GJ_PROBE_HASH:
			return GjFilterContains(set, key) && GjTableContains(set, key);
	}
	return false;
}

/* Is the key wanted?  For single keys; GjKernelMatch() takes a page of them. */
static inline bool
GjKeySetContains(const GjKeySet *set, int64 key)
{
	return GjKeySetLists(set, key) != set->complement;
}

#endif							/* GPUJOIN_SETS_KEYSET_H */
