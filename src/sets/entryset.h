/*-------------------------------------------------------------------------
 *
 * entryset.h
 *	  Matching entries stored by column: TIDs and, if requested, keys and INCLUDE columns, each
 *	  in its own array.
 *
 * Life cycle: create the set; add entries in any order; finish it.  After that, tids[] has
 * nentries distinct TIDs, beside the requested arrays, in the order in which the entries
 * arrived.  Or the set gave up, and is empty, because the entries did not fit in memory.  Or, if
 * the entries may be outdated, it has only a plain TID set (GjEntrySetPlain).  A set can be
 * cleared and used again.
 *
 * A caller that has entries with distinct TIDs, such as those of the data pages, adds them first
 * and then calls GjEntrySetEndBulk().  Then only entries added later are checked for duplicates.
 *
 * A piecewise set takes pieces of the CPU's results, which are distinct: it is cleared, and
 * filled while there is room.  It never gives up and never has a plain TID set.
 *
 * The arrays are allocated in the set's own memory context.  One region holds all of them except
 * the NULL flags, which are allocated when the first NULL arrives.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_ENTRYSET_H
#define GPUJOIN_SETS_ENTRYSET_H

#include "cuda/border/gpujoin_reduction.h"
#include "base/region.h"
#include "base/settings.h"
#include "batch.h"
#include "keyset.h"
#include "tidset.h"

/* The key's bit in a list of an index's columns; INCLUDE columns have the bits above it */
#define GJ_ENTRY_KEY			UINT64CONST(1)

/* An array; element i belongs to TID i */
typedef struct GjEntryColumn
{
	uint16		width;			/* bytes per value; 0 if the column is not requested */
	char	   *values;
	bool		has_nulls;		/* true if values can be NULL */
	uint8	   *nulls;			/* one flag per entry; valid only if has_nulls */
} GjEntryColumn;

/* Entries as a device delivers them; arrays of columns that are not requested are ignored */
typedef struct GjEntryArrays
{
	const uint64 *tids;
	const char *keys;
	const char *values[GJ_MAX_INCLUDED];
	const uint8 *nulls[GJ_MAX_INCLUDED];
} GjEntryArrays;

/*
 * A test of n entries, at most GJ_BATCH_ROWS, by columns[], with the keys first.  It stores the
 * positions of entries that pass in rows, in ascending order, and returns their number.  It may
 * be called while a device is answering a request, so it must not send one itself.
 */
typedef int (*GjEntryTester) (void *arg, const GjBatchColumn *columns, int n, uint16 *rows);

/*
 * Size of a piece of the CPU's results: small enough for the processor's cache, and larger than
 * the entries of any page
 */
#define GJ_PIECE_BYTES(limit) \
	Max(Min(limit, (Size) 1024 * 1024), (Size) 64 * 1024)

/* Number of bytes in each column of an index */
typedef struct GjEntryWidths
{
	uint16		key;
	uint16		nincluded;
	uint16		included[GJ_MAX_INCLUDED];
} GjEntryWidths;

typedef struct GjEntrySet
{
	/* Requested columns: set by GjEntrySetCreate() */
	GjEntryColumn keys;			/* width as in the index: 4 or 8 */
	int			nincluded;
	GjEntryColumn included[GJ_MAX_INCLUDED];	/* as in GjEntryWidths */

	/* The entries */
	uint64	   *tids;			/* block << 16 | offset; NULL: see GjEntrySetPlain() */
	uint64		nentries;
	uint64		highest;		/* upper bound of the TIDs */
	bool		gave_up;		/* true if the entries did not fit in memory; the set is empty
								 * then */
	uint64		ndropped;		/* number of further entries that failed the test */

	/* Private to entryset.c */
	MemoryContext context;
	Size		memory_limit;
	Size		entry_bytes;	/* bytes per entry, in all arrays together */
	GjRegion	region;			/* memory of the arrays */
	uint64		capacity;
	uint64		nbulk;			/* number of leading entries that have distinct TIDs */
	bool		piecewise;
	GjTidSet   *plain;

	/* Test of entries that arrive as arrays */
	GjEntryTester test;			/* NULL if entries are not tested, or no longer */
	void	   *test_arg;
	uint64		tested_columns;
	struct GjEntryCopy *copies;
	uint64		ntested;
	uint64		expected;		/* estimated number of entries still to arrive */

	/* The part of the test that a device can evaluate before it sends entries */
	gjd_filter	filter;
	uint64		filter_parts;	/* identifies that part, for EXPLAIN */
	GjProofs   *proofs;			/* all keys of the match with their rests, or NULL */

	/*
	 * The first entries in an order, if a device need not send others.  The set has all entries
	 * that fewer than ncomplete of its entries come before, by the column of the order.
	 */
	gjd_top		top;			/* limit 0: all are wanted */
	bool		limited;		/* true if the device may have left out entries */
	uint64		ncomplete;
	uint64		nbehind;		/* number of entries that the device did not send */
} GjEntrySet;

/* A test of entries that a match can apply */
typedef struct GjEntryTest
{
	GjEntryTester run;
	void		(*attach) (void *arg, GjEntrySet *set);	/* have the set test entries that arrive,
														 * if possible */
	void	   *arg;			/* of both */
	uint64		columns;		/* columns that it reads; bit 0 is the key */
	uint64		words;			/* those of them that an entry may lack: then the test is true */
	uint64		parts;			/* all parts of the test, as in GjEntrySetFilter(); 0: too many, or
								 * it looks up more than the rests of keys */
	bool		varies;			/* true if a rescan may give it other values to compare with */
	bool		proves;			/* has an entry that passes a listed key, if its code is no hash? */
} GjEntryTest;

extern GjEntrySet *GjEntrySetCreate(MemoryContext parent, Size memory_limit,
									const GjEntryWidths *widths, bool keys, uint32 included);
extern bool GjEntrySetTurnPiecewise(GjEntrySet *set, Size memory_limit);
extern GjEntrySet *GjEntrySetCreatePiecewise(MemoryContext parent, Size memory_limit,
											 const GjEntrySet *whole);
extern GjEntrySet *GjEntrySetCreateKeyed(MemoryContext parent, Size memory_limit,
										 const GjEntrySet *piece, uint16 key_width);
extern void GjEntrySetKeepTids(GjEntrySet *set);
extern bool GjEntrySetReserve(GjEntrySet *set, uint64 n);
extern void GjEntrySetExpect(GjEntrySet *set, uint64 n);
extern bool GjEntrySetAddArrays(GjEntrySet *set, const GjEntryArrays *arrays, uint64 n);
extern void GjEntrySetAddRange(GjEntrySet *set, const GjEntrySet *from, uint64 first, uint64 n);
extern void GjEntrySetClear(GjEntrySet *set);
extern void GjEntrySetFree(GjEntrySet *set);
extern void GjEntrySetFinish(GjEntrySet *set);
extern uint64 GjEntrySetCount(const GjEntrySet *set);
extern void GjEntrySetPrefetch(const GjEntrySet *set, uint64 first, uint64 n);
extern GjTidSet *GjEntrySetTakePlain(GjEntrySet *set, MemoryContext parent);
extern uint8 *GjEntrySetNulls(GjEntrySet *set, GjEntryColumn *column, uint64 n);

/*
 * A small collection of TIDs to look up among many.  Duplicates are allowed; Find() returns the
 * first position of a TID in the array, or -1 if it is not there.
 */
typedef struct GjFewTids GjFewTids;

extern GjFewTids *GjFewTidsCreate(MemoryContext context, const uint64 *tids, uint64 n);
extern int64 GjFewTidsFind(const GjFewTids *few, uint64 tid);
extern void GjFewTidsFree(GjFewTids *few);

/*
 * A temporary file for entries that do not fit in memory.  Sets with the same columns are written
 * in sequence, and then read back once, in the same order.
 */
typedef struct GjEntrySpill GjEntrySpill;

extern GjEntrySpill *GjEntrySpillBegin(MemoryContext context);
extern void GjEntrySpillWrite(GjEntrySpill *spill, GjEntrySet *set);
extern bool GjEntrySpillRead(GjEntrySpill *spill, GjEntrySet *set);
extern void GjEntrySpillEnd(GjEntrySpill *spill);

/* Tests of entries, and removal of duplicates */
extern int	GjEntryTestRun(const GjEntryTest *test, const GjEntrySet *set, uint64 first, int n,
						   uint16 *rows);
extern void GjEntrySetTest(GjEntrySet *set, GjEntryTester test, void *arg, uint64 columns);
extern void GjEntrySetDropPlaces(GjEntrySet *set, const uint64 *places, uint64 n);

/* Return the number of entries that fit in the memory limit */
static inline uint64
GjEntrySetCapacity(const GjEntrySet *set)
{
	return Min(set->memory_limit / set->entry_bytes, PG_UINT32_MAX);
}

/* The part of a test that is true if an entry has the rest of a listed key with its code */
#define GJ_TEST_OF_RESTS		(UINT64CONST(1) << 63)

/* Set the part of the test that a device can evaluate; parts identifies it for EXPLAIN */
static inline void
GjEntrySetFilter(GjEntrySet *set, const gjd_filter *filter, uint64 parts)
{
	set->filter = *filter;
	set->filter_parts = parts;
}

/* Return true if the set has arrays besides TIDs */
static inline bool
GjEntrySetHasColumns(const GjEntrySet *set)
{
	return set->entry_bytes > sizeof(uint64);
}

/* Return the number of distinct entries found, including those that failed the test */
static inline uint64
GjEntrySetFound(const GjEntrySet *set)
{
	return GjEntrySetCount(set) + set->ndropped + set->nbehind;
}

/* Note that n entries have been dropped that count for ncomplete */
static inline void
GjEntrySetLost(GjEntrySet *set, uint64 n)
{
	set->ncomplete -= Min(set->ncomplete, n);
}

/* Return the TID set, if the set has only that */
static inline GjTidSet *
GjEntrySetPlain(GjEntrySet *set)
{
	return set->plain;
}

/*
 * Have a device send all entries, and of codes alone, because some keys are asked for at a time, or
 * the first entries would not be enough
 */
static inline void
GjEntrySetForgetTop(GjEntrySet *set)
{
	set->top.limit = 0;
	set->proofs = NULL;
	set->filter_parts &= ~GJ_TEST_OF_RESTS;
}

/* Mark the entries added so far as having distinct TIDs */
static inline void
GjEntrySetEndBulk(GjEntrySet *set)
{
	set->nbulk = set->nentries;
}

/* Count n entries that the caller has appended to the arrays, after GjEntrySetReserve() */
static inline void
GjEntrySetTook(GjEntrySet *set, uint64 n, uint64 highest)
{
	set->nentries += n;
	set->highest = Max(set->highest, highest);
}

#endif							/* GPUJOIN_SETS_ENTRYSET_H */
