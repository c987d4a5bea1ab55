/*-------------------------------------------------------------------------
 *
 * entryset.h
 *	  The matching entries with what is in them: TIDs, and where wanted keys and
 *	  INCLUDE columns, each as an array.
 *
 * Life: create; a match adds entries in any order; finish; then tids[] has nentries TIDs, each
 * once, with the wanted arrays beside it, in the order in which they came; or it gave up, and
 * there is nothing, because the entries did not fit in memory; or, if what was found may be
 * outdated, there is only a plain TID set (GjEntrySetPlain).  It can be cleared and used again.
 *
 * Who adds entries that are distinct among themselves, as the data pages' are, adds them first
 * and then says so: GjEntrySetEndBulk().  Then only what comes later is looked for among all.
 *
 * Or it is for pieces of what the CPU finds, which are distinct: cleared, and filled while there
 * is room.  It neither gives up nor has a plain TID set.
 *
 * Arrays are allocated in the set's own memory context: one region has them all, but those that
 * say what is NULL, which are made when the first NULL comes.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_ENTRYSET_H
#define GPUJOIN_SETS_ENTRYSET_H

#include "cuda/border/gpujoin_shapes.h"
#include "base/region.h"
#include "base/gpujoin.h"
#include "batch.h"
#include "fewtids.h"
#include "tidset.h"

/* One array; element i belongs to TID i */
typedef struct GjEntryColumn
{
	uint16		width;			/* bytes a value; 0: the column is not wanted */
	char	   *values;
	bool		has_nulls;		/* may any entry's be NULL? */
	uint8	   *nulls;			/* a byte an entry: is it?  Only if has_nulls */
} GjEntryColumn;

/* Entries as a device delivers them; arrays of columns that are not wanted are not looked at */
typedef struct GjEntryArrays
{
	const uint64 *tids;
	const char *keys;
	const char *values[GJ_MAX_INCLUDED];
	const uint8 *nulls[GJ_MAX_INCLUDED];
} GjEntryArrays;

/*
 * A test of n entries, at most GJ_BATCH_ROWS, by columns[], keys first: lists those that pass in
 * rows, in ascending order, and returns how many they are.  It may be called while a device is
 * answering, and so must not ask one itself.
 */
typedef int (*GjEntryTest) (void *arg, const GjBatchColumn *columns, int n, uint16 *rows);

/*
 * A piece of what the CPU finds: small enough for the processor's cache, and more than the
 * entries of any page take
 */
#define GJ_PIECE_BYTES(limit) \
	Max(Min(limit, (Size) 1024 * 1024), (Size) 64 * 1024)

/* Bytes that the columns of an index have */
typedef struct GjEntryWidths
{
	uint16		key;
	uint16		nincluded;
	uint16		included[GJ_MAX_INCLUDED];
} GjEntryWidths;

typedef struct GjEntrySet
{
	/* What was asked for: set by GjEntrySetCreate() */
	GjEntryColumn keys;			/* as wide as in the index: 4 or 8 */
	int			nincluded;
	GjEntryColumn included[GJ_MAX_INCLUDED];	/* as in GjEntryWidths */

	/* The entries */
	uint64	   *tids;			/* block << 16 | offset; NULL: see GjEntrySetPlain() */
	uint64		nentries;
	uint64		highest;		/* no TID is higher */
	bool		gave_up;		/* they are more than fit in memory: none is here */
	uint64		ndropped;		/* so many more came, but did not pass the test */

	/* Private to entryset.c */
	MemoryContext context;
	Size		memory_limit;
	Size		entry_bytes;	/* of an entry, in all arrays */
	GjRegion	region;			/* where they are */
	uint64		capacity;
	uint64		nbulk;			/* the first so many have distinct TIDs */
	bool		piecewise;
	GjTidSet   *plain;

	/* A test of what comes as arrays: entryset.c */
	GjEntryTest test;			/* NULL: none, or no more */
	void	   *test_arg;
	uint64		tested_columns;
	struct GjEntryCopy *copies;
	uint64		ntested;
	uint64		expected;		/* entries that will come, it is said */

	/* The part of the test that a device can make, before it sends anything */
	gjd_filter	filter;
	uint64		filter_parts;	/* which part that is, for EXPLAIN */
} GjEntrySet;

extern GjEntrySet *GjEntrySetCreate(MemoryContext parent, Size memory_limit,
									const GjEntryWidths *widths, bool keys, uint32 included);
extern GjEntrySet *GjEntrySetCreatePiecewise(MemoryContext parent, Size memory_limit,
											 const GjEntrySet *whole);
extern GjEntrySet *GjEntrySetCreateKeyed(MemoryContext parent, Size memory_limit,
										 const GjEntrySet *piece, uint16 key_width);
extern bool GjEntrySetHasColumns(const GjEntrySet *set);
extern void GjEntrySetKeepTids(GjEntrySet *set);
extern uint64 GjEntrySetCapacity(const GjEntrySet *set);
extern bool GjEntrySetReserve(GjEntrySet *set, uint64 n);
extern void GjEntrySetExpect(GjEntrySet *set, uint64 n);
extern bool GjEntrySetAddArrays(GjEntrySet *set, const GjEntryArrays *arrays, uint64 n);
extern void GjEntrySetAddRange(GjEntrySet *set, const GjEntrySet *from, uint64 first, uint64 n);
extern void GjEntrySetTook(GjEntrySet *set, uint64 n, uint64 highest);
extern void GjEntrySetClear(GjEntrySet *set);
extern void GjEntrySetFree(GjEntrySet *set);
extern void GjEntrySetEndBulk(GjEntrySet *set);
extern void GjEntrySetFinish(GjEntrySet *set);
extern uint64 GjEntrySetCount(const GjEntrySet *set);
extern uint64 GjEntrySetFound(const GjEntrySet *set);
extern void GjEntrySetPrefetch(const GjEntrySet *set, uint64 first, uint64 n);
extern GjTidSet *GjEntrySetPlain(GjEntrySet *set);
extern GjTidSet *GjEntrySetTakePlain(GjEntrySet *set, MemoryContext parent);
extern uint8 *GjEntrySetNulls(GjEntrySet *set, GjEntryColumn *column, uint64 n);

/* entryset.c */
extern void GjEntrySetTest(GjEntrySet *set, GjEntryTest test, void *arg, uint64 columns);
extern void GjEntrySetFilter(GjEntrySet *set, const gjd_filter *filter, uint64 parts);
extern uint64 GjEntrySetDrop(GjEntrySet *set, const GjFewTids *few);
extern void GjEntrySetDropPlaces(GjEntrySet *set, const uint64 *places, uint64 n);

#endif							/* GPUJOIN_SETS_ENTRYSET_H */
