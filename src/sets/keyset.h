/*-------------------------------------------------------------------------
 *
 * keyset.h
 *	  The small set: distinct keys as int64, sorted, with a structure that tells the CPU whether
 *	  a key is listed; or intervals of keys.
 *
 * Every integer value is a legal key; NULL is never listed.  A value that the index cannot store
 * (out of range for a 4-byte key) is dropped when it is added, because it matches no entry.
 *
 * The wanted keys are the listed ones or, without any listed key, those in the intervals.  Rows
 * with a NULL key are wanted if the nulls flag is set, whatever keys are; the index has no entries
 * for such rows.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_KEYSET_H
#define GPUJOIN_SETS_KEYSET_H

#include "nodes/memnodes.h"

#include "exact.h"

/* How membership is tested */
typedef enum GjProbeKind
{
	GJ_PROBE_EMPTY,				/* no keys */
	GJ_PROBE_LIST,				/* few enough keys to compare with each */
	GJ_PROBE_BITMAP,			/* narrow span: one bit per value, exact */
	GJ_PROBE_HASH,				/* wide span: a bit filter, then a table with open addressing */
	GJ_PROBE_INTERVALS			/* no listed keys: compare with the ends of intervals */
} GjProbeKind;

/* The keys from low to high, which is not below low */
typedef struct GjInterval
{
	int64		low;
	int64		high;
} GjInterval;

typedef struct GjKeySet GjKeySet;

/* Others use the functions below for the listed keys, and read the other fields */
struct GjKeySet
{
	MemoryContext context;		/* owns all memory below */
	int			key_width;		/* of the index: 4 or 8 */
	int64	   *listed;			/* the listed keys: distinct, ascending, once finished */
	uint64		nlisted;
	uint64		capacity;
	GjProbeKind probe;
	int64		min_key;		/* smallest and largest key */
	int64		max_key;
	GjInterval *intervals;		/* of wanted keys: ascending and apart, once finished */
	uint64		nintervals;		/* if this is not 0, then no key is listed */
	uint64		interval_capacity;
	GjKeySet   *excluded;		/* list of all other keys, if it tells whether a key is in an
								 * interval; or NULL */
	bool		nulls;			/* true if rows with a NULL key are wanted, too */
	GjExact    *exact;			/* rows with a listed key must also be in this table, unless it
								 * is NULL, as it is for intervals */
	GjExact    *entry_exact;	/* the table for entries, if they have only some parts of the
								 * other one's; NULL if it is the same table */
	bool		spread;			/* do upper bits tell most keys apart, as those of hashes do?  A
								 * guess: if they do not, sorting takes longer, and is right */
	bool		narrowed;		/* may the table have elements whose codes are not listed? */
	uint64		elsewhere;		/* number of keys not listed because only other tables can have
								 * them */

	/*
	 * GJ_PROBE_BITMAP: key k is bit k - min_key of bitmap.  bitmap_limit is max_key - min_key +
	 * 1; that bit exists and is clear, so kernels test it for all keys outside the span, without
	 * a branch.  While the bitmap is NULL, it has yet to be built.
	 */
	uint32	   *bitmap;
	uint32		bitmap_limit;

	/*
	 * GJ_PROBE_HASH: the filter has 1 << (32 - filter_shift) bits, and each key sets one.  The
	 * table uses open addressing and is at most half full.  No integer is reserved, so an empty
	 * cell holds min_key, which is compared separately before the table is probed.  Without a
	 * table (for keys chosen to collide), the list is searched.  While the filter is NULL, both
	 * have yet to be built.
	 */
	uint32	   *filter;
	uint32		filter_shift;
	uint64		table_cells;
	int64	   *table;
};

/*
 * Listed keys with their rests, as a device compares them with entries (GJD_CAN_PROVE_RESTS): pairs
 * of code and rest, distinct and ascending.  Several may have the same code.
 */
typedef struct GjProofs
{
	uint64		n;
	int64	   *codes;
	int64	   *rests;
	uint32		column;			/* column of the index that has the rests of entries */
	Size		memory;			/* size of the list in bytes */
} GjProofs;

/*
 * Return true if the wanted keys are the listed ones, however many.  Only such a set can be asked
 * of a device, divided, or looked up in filters.
 */
static inline bool
GjKeySetIsList(const GjKeySet *set)
{
	return set->nintervals == 0;
}

/* Return the number of listed keys */
static inline uint64
GjKeySetCount(const GjKeySet *set)
{
	return set->nlisted;
}

/* Return true if no key is wanted */
static inline bool
GjKeySetIsEmpty(const GjKeySet *set)
{
	return GjKeySetIsList(set) && set->nlisted == 0;
}

/* Return the listed keys, in ascending order in a finished set */
static inline const int64 *
GjKeySetKeys(const GjKeySet *set)
{
	return set->listed;
}

static inline int64
GjKeySetAt(const GjKeySet *set, uint64 i)
{
	return set->listed[i];
}

/*
 * Return the number of listed keys: of keys with rests, if there are proofs, which may be NULL
 */
static inline uint64
GjCountListed(const GjKeySet *keys, const GjProofs *proofs)
{
	return proofs != NULL ? proofs->n : GjKeySetCount(keys);
}

/*
 * Return how much of a memory limit is left for a match when its keys have taken their part.  It is
 * at least half: a match with many keys is not to be done without memory.
 */
static inline Size
GjMemoryLeft(Size limit, Size used)
{
	return used < limit / 2 ? limit - used : limit / 2;
}

/* keyset.c */
extern GjKeySet *GjKeySetCreate(MemoryContext parent, int key_width);
extern void GjKeySetGrow(GjKeySet *set);
extern void GjKeySetReserve(GjKeySet *set, uint64 nkeys);
extern void GjKeySetFinish(GjKeySet *set);
extern void GjKeySetRestart(GjKeySet *set);
extern void GjKeySetBuild(const GjKeySet *set);
extern GjKeySet *GjKeySetPart(MemoryContext parent, const GjKeySet *whole, const int64 *keys,
							  uint64 nkeys);
extern uint64 GjKeySetLowerBoundIn(const GjKeySet *set, uint64 low, uint64 high, int64 key);
extern bool GjKeySetSeek(const GjKeySet *set, uint64 *at, int64 key, int64 *wanted);
extern Size GjKeySetMemory(const GjKeySet *set);
extern void GjKeySetFree(GjKeySet *set);
extern GjProofs *GjProofsCreate(MemoryContext context, const GjKeySet *keys,
								const GjExact *exact, uint32 column);

/*
 * Intersection and union; all arguments must be finished sets.  A set with an exact table may only
 * be united with one without keys.  Of an intersection one operand may have a table, which the
 * result takes.
 */
extern void GjKeySetIntersect(GjKeySet *set, GjKeySet *other);
extern void GjKeySetUnite(GjKeySet *set, const GjKeySet *other);
extern GjKeySet *GjKeySetSlice(MemoryContext parent, const GjKeySet *set, uint64 first,
							   uint64 n);

/*
 * intervals.c: sets of intervals
 */
extern void GjKeySetAddInterval(GjKeySet *set, int64 low, int64 high);
extern void GjKeySetExclude(GjKeySet *set);
extern GjKeySet *GjKeySetBetween(MemoryContext parent, const GjKeySet *set, int64 low,
								 int64 high);
extern void GjIntervalsFinish(GjKeySet *set);
extern bool GjIntervalsSeek(const GjKeySet *set, uint64 *at, int64 key, int64 *wanted);
extern bool GjIntervalsSeekBack(const GjKeySet *set, int64 key, int64 *wanted);
extern bool GjIntervalsContain(const GjKeySet *set, int64 key);

/*
 * kernels.c: for each of n_words * 32 keys (int32 or int64, by key_width), set the bit in hits[]
 * if the key is wanted and its bit in used[] is set.  Returns true if any bit is set.  ahead
 * points to the same number of keys that will be tested next; NULL if they are not known.
 */
extern bool GjKernelMatch(const GjKeySet *set, const void *keys, const uint32 *used,
						  int n_words, uint32 *hits, const void *ahead);
extern const char *GjKernelName(void);
extern uint64 GjKernelListKeys(void);

/* For tests: "avx512", "avx2", "portable", or NULL for the best; returns false if not supported */
extern bool GjKernelSelect(const char *name);

/*
 * Return false if what looks up the keys of a finished set has yet to be built
 */
static inline bool
GjKeySetIsBuilt(const GjKeySet *set)
{
	return set->probe == GJ_PROBE_BITMAP ? set->bitmap != NULL :
		set->probe != GJ_PROBE_HASH || set->filter != NULL;
}

/*
 * Build what looks keys up, unless it is there: to be called before a page is locked
 */
static inline void
GjKeySetPrepare(const GjKeySet *set)
{
	if (unlikely(!GjKeySetIsBuilt(set)))
		GjKeySetBuild(set);
}

/* Add a key to a set that is not finished */
static inline void
GjKeySetAdd(GjKeySet *set, int64 key)
{
	if (set->key_width == sizeof(int32) && key != (int32) key)
		return;
	if (set->nlisted == set->capacity)
		GjKeySetGrow(set);
	set->listed[set->nlisted++] = key;
}

/*
 * Return the position of the first key that is not less than the given one, in a finished set;
 * nkeys if there is no such key
 */
static inline uint64
GjKeySetLowerBound(const GjKeySet *set, int64 key)
{
	return GjKeySetLowerBoundIn(set, 0, set->nlisted, key);
}

/*
 * Filter hash.  It is 32 bits wide, so that a kernel can compute it in 32-bit lanes for both
 * widths; the upper bits of a product are mixed best.
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

/* First cell of the search for a key; there are fewer than 2^32 cells */
#define GJ_TABLE_FACTOR			UINT64CONST(0x9E3779B97F4A7C15)

static inline uint64
GjTableStart(const GjKeySet *set, int64 key)
{
	uint64		hash = (uint64) key;

	hash ^= hash >> 32;
	hash *= GJ_TABLE_FACTOR;
	return ((hash >> 32) * set->table_cells) >> 32;
}

/* Return true if the key is listed: exact answer for GJ_PROBE_HASH */
static inline bool
GjTableContains(const GjKeySet *set, int64 key)
{
	uint64		cell;

	if (key == set->min_key)
		return true;
	if (set->table == NULL)
	{
		uint64		position = GjKeySetLowerBound(set, key);

		return position < set->nlisted && set->listed[position] == key;
	}
	for (cell = GjTableStart(set, key);; cell = (cell + 1 == set->table_cells) ? 0 : cell + 1)
	{
		if (set->table[cell] == key)
			return true;
		if (set->table[cell] == set->min_key)
			return false;
	}
}

/* Return true if the key is wanted.  For single keys; use GjKernelMatch() for a page of keys. */
static inline bool
GjKeySetContains(const GjKeySet *set, int64 key)
{
	uint64		offset = (uint64) key - (uint64) set->min_key;
	uint64		i;

	GjKeySetPrepare(set);
	switch (set->probe)
	{
		case GJ_PROBE_EMPTY:
			break;
		case GJ_PROBE_LIST:
			for (i = 0; i < set->nlisted; i++)
			{
				if (set->listed[i] == key)
					return true;
			}
			break;
		case GJ_PROBE_BITMAP:
			return offset < set->bitmap_limit &&
				((set->bitmap[offset / 32] >> (offset % 32)) & 1);
		case GJ_PROBE_HASH:
			return GjFilterContains(set, key) && GjTableContains(set, key);
		case GJ_PROBE_INTERVALS:
			return GjIntervalsContain(set, key);
	}
	return false;
}

#endif							/* GPUJOIN_SETS_KEYSET_H */
