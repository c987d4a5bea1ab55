/*-------------------------------------------------------------------------
 *
 * groups.h
 *	  Groups of rows and their aggregates, fed with batches of columns.
 *
 * Call sequence: create; begin; add batches; finish; then fetch the groups one by one.  Rows of
 * groups that do not fit in memory are written to a temporary file and need further passes: after
 * the last group, GjGroupsNextPass() builds the groups of the next part of those rows.  No group
 * is ever split between passes.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_GROUPS_H
#define GPUJOIN_GROUPS_H

#include "node/aggplan.h"
#include "sets/sets.h"

/* Values that have no word: strays.c */
typedef struct GjStrays GjStrays;

typedef enum GjStrayKind
{
	GJ_STRAY_NONE,				/* each value has a word */
	GJ_STRAY_NUMERIC,
	GJ_STRAY_TEXT,
	GJ_STRAY_BPCHAR,			/* compared without trailing blanks */
	GJ_STRAY_TYPED				/* compared by functions of its type: see GjStraysAddType(), which
								 * returns this kind, or a higher one for each further type */
} GjStrayKind;

typedef enum GjStrayUse
{
	GJ_STRAY_ARGUMENT,
	GJ_STRAY_KEY,
	GJ_STRAY_KEPT_KEY			/* without regard to the room for keys */
} GjStrayUse;

/* Room for a value that is made of two words */
#define GJ_RESTORED_BYTES		128

/* Make a value of two words */
typedef void (*GjRestore) (int64 first, int64 second, char *buffer);

typedef struct GjAggSpec
{
	GjAggKind	kind;
	GjValueType type;			/* type of the argument */
	int			column;			/* batch column that is the argument; -1: none */
	int			filter;			/* boolean batch column; rows count only where it is true; -1:
								 * none */
	uint8		display_scale;	/* of a numeric argument: base/numeric.c */
	uint8		stored_scale;
	GjStrayKind stray_kind;		/* values without a word that the argument may have */
	GjStrays   *strays;			/* values that codes in the column stand for */
	GjRestore	restore;		/* of an argument of two words: makes a value of them */
} GjAggSpec;

/* A grouping column.  Values are equal if their bits are.  All NULLs form one group. */
typedef struct GjGroupSpec
{
	GjValueType type;			/* must not be a float type, nor numeric */
	int			column;			/* column of the batch */
	GjStrayKind stray_kind;		/* values without a word that it may have */
	GjStrays   *strays;
} GjGroupSpec;

/* Statistics since the groups were created */
typedef struct GjGroupsStats
{
	uint64		rows;			/* rows added, weights included */
	uint64		groups;			/* groups delivered */
	uint64		passes;
	uint64		reseeds;		/* number of times that a table got another seed */
	Size		peak_memory;	/* in bytes */
	uint64		disk_size;		/* peak size on disk, in bytes */
} GjGroupsStats;

typedef struct GjGroups GjGroups;

/* Return the number of bytes of a value */
static inline uint16
GjValueWidth(GjValueType type)
{
	switch (type)
	{
		case GJ_VALUE_BOOL:
			return 1;
		case GJ_VALUE_INT2:
			return 2;
		case GJ_VALUE_INT4:
		case GJ_VALUE_OID:
		case GJ_VALUE_FLOAT4:
			return 4;
		case GJ_VALUE_INT8:
		case GJ_VALUE_FLOAT8:
		case GJ_VALUE_NUMERIC:
			return 8;
	}
	elog(ERROR, "unrecognized value type: %d", (int) type);
}

/*
 * Values without a word.  The code of a key, a value that forms groups, is the same for equal
 * values and valid as long as the groups of this pass, unless there is no memory for it: then it is
 * a code like that of an argument, which is valid until the next batch.
 */
extern GjStrays *GjStraysCreate(MemoryContext parent);
extern GjStrayKind GjStraysAddType(GjStrays *strays, Oid type, Oid collation, bool by_image);
extern int64 GjStraysAdd(GjStrays *strays, GjStrayKind kind, Datum value, GjStrayUse use);
extern int64 GjStraysWord(GjStrays *strays, Datum value, int display_scale, int stored_scale);
extern int64 GjStraysKeyPart(GjStrays *strays, Datum value, int display_scale, int stored_scale,
							 GjColumnPart part);

/* Codes, which are below all words but GJ_ABSENT, and those of a batch, counted from there */
#define GJ_STRAY_CODE			(PG_INT64_MIN + 2)
#define GJ_STRAY_BATCH_CODES	(UINT64CONST(1) << 47)

/* Return true if a code is valid as long as the groups */
static inline bool
GjStraysKept(int64 code)
{
	return (uint64) code - (uint64) GJ_STRAY_CODE < GJ_STRAY_BATCH_CODES;
}

/*
 * Return how many more rows the batch should have, because of the memory that its values take, by
 * the mean size of those so far; 0 if it should end.  GjStraysNextBatch() begins a batch.
 */
extern int	GjStraysNextBatch(GjStrays *strays);
extern int	GjStraysBatchRows(const GjStrays *strays);

/* Return the value of a code, or of words */
extern Datum GjStraysText(const GjStrays *strays, int64 first, int64 second, GjRestore restore,
						  char *buffer);
extern Datum GjStraysNumeric(const GjStrays *strays, int64 word, int display_scale,
							 int stored_scale, int scale);

/*
 * Create a set of groups.  If ngroupings is 0 there is one group, which exists even without rows.
 * memory_limit is in bytes and covers the groups, the keys among the strays, and the sets of
 * count(DISTINCT).  The initial allocations of any set of groups may exceed it: room for 1024
 * groups, 4096 distinct values, a batch, and four blocks of a file.  All memory is allocated below
 * parent.  The specs are copied; a column must have the same type in all of them.
 *
 * If is_partial, the aggregates' values are transition states for a parallel plan (aggstate.c);
 * count(DISTINCT) has no such state.  Groups may then be delivered in several pieces, so nothing
 * need be spilled: before each batch, the caller makes room for it; if that fails, it fetches the
 * groups collected so far and begins again.
 */
extern GjGroups *GjGroupsCreate(MemoryContext parent, Size memory_limit, bool is_partial,
								int ngroupings, const GjGroupSpec *groupings,
								int naggs, const GjAggSpec *aggs);

/* Set the estimated number of groups.  The estimate may be wrong. */
extern void GjGroupsExpect(GjGroups *groups, double ngroups);

/*
 * Limit a pass to this many groups, but not to fewer than the initial allocation holds.  There is
 * an upper limit in any case.  Rows of more groups are spilled.
 */
extern void GjGroupsLimit(GjGroups *groups, uint32 most);

/* Begin, the first time or again: forget all groups and passes */
extern void GjGroupsBegin(GjGroups *groups);

/*
 * Make room for a batch in which every row forms a new group.  Returns false if there is not
 * enough memory.
 */
extern bool GjGroupsMakeRoom(GjGroups *groups);

/* Add the rows of a batch.  May raise any error that PostgreSQL's transition function raises. */
extern void GjGroupsAdd(GjGroups *groups, const GjBatch *batch);

/*
 * The states of an aggregate for the rows of a batch, each of which stands for any number of rows.
 * A COUNT_ROWS counts the rows themselves.
 */
typedef struct GjAggStates
{
	const uint64 *counts;		/* number of values that are not NULL */
	const uint64 *low;			/* sum of the values, or the least or the greatest of them */
	const int64 *high;			/* sums of int8: upper half of the 128 bits */
} GjAggStates;

/*
 * Make room for this many groups, all of which can then be merged.  Returns false if there is not
 * enough memory, or if rows have been spilled.
 */
extern bool GjGroupsReserve(GjGroups *groups, uint64 ngroups);

/*
 * Add rows whose aggregates have been computed already, after room has been made for them.  The
 * batch has the columns of the groups, and those of one row; states has an element for each
 * aggregate.  The rows that a row stands for count as often as its weight says.  Not for
 * count(DISTINCT), nor for sums of floats.
 */
extern void GjGroupsMerge(GjGroups *groups, const GjBatch *batch, const GjAggStates *states);

/*
 * Add values that are given as bits: bit b of word w stands for low + 64 w + b.  The only aggregate
 * is count(DISTINCT), without groups.  Returns false, and adds nothing, if the bits would take too
 * much memory: then the values have to be added as rows.
 */
extern bool GjGroupsAddBits(GjGroups *groups, int64 low, const uint64 *words, uint64 nwords);

/* Finish adding rows */
extern void GjGroupsFinish(GjGroups *groups);

/*
 * Get the next group, roughly in order of first appearance: values and isnull hold the grouping
 * columns, then the aggregates.  The caller may modify both arrays until the next call.
 * By-reference results are allocated in CurrentMemoryContext.  Returns 0 if this pass has no more
 * groups; otherwise the number of groups whose arrays follow each other, this one's being the
 * first.  The caller may take the others with GjGroupsSkip().
 */
extern int	GjGroupsNext(GjGroups *groups, Datum **values, bool **isnull);

/*
 * Column-wise access: return the number of groups left in this pass; return a column of the group
 * `ahead` positions after the next one; skip n groups.
 */
extern uint64 GjGroupsRemaining(GjGroups *groups);
extern Datum GjGroupsValue(const GjGroups *groups, uint64 ahead, int column, bool *isnull);
extern void GjGroupsSkip(GjGroups *groups, uint64 n);

/*
 * After the last group of a pass, build the groups of the next one.  Returns false if no pass is
 * left.
 */
extern bool GjGroupsNextPass(GjGroups *groups);

/*
 * Deliver the groups of this pass again from the first one.  Possible only if there was one pass.
 */
extern bool GjGroupsRewind(GjGroups *groups);

extern const GjGroupsStats *GjGroupsGetStats(const GjGroups *groups);
extern void GjGroupsFree(GjGroups *groups);

#endif							/* GPUJOIN_GROUPS_H */
