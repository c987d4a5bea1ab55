/*-------------------------------------------------------------------------
 *
 * groupparts.h
 *	  Inside of a set of groups: its parts, and what its files use of each other.
 *
 * The way of a batch: its columns are taken as wide as their types (input.c); each row
 * gets the number of its group (hash.c, direct.c); then one
 * aggregate after the other runs over the numbers and its argument (aggstate.c, with the loops
 * of aggloops.c, and distinct.c).  Numbers are given about in the order in which
 * groups are first seen, so the states of an aggregate are an array by number.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_GROUPS_GROUPPARTS_H
#define GPUJOIN_GROUPS_GROUPPARTS_H

#include "base/region.h"
#include "groups.h"
#include "spill.h"

/* A table is of this size at first, and may be so whatever the limit of memory is */
#define GJ_GROUPS_FIRST			((uint32) 256)
#define GJ_GROUPS_FLOOR			((uint32) 1024)
#define GJ_DISTINCT_FLOOR		((uint64) 4096)

/* Slots that are filled before the next look for an interrupt */
#define GJ_UNINTERRUPTED_SLOTS	(256 * 1024)

/* With more the rows are spilled */
#define GJ_MAX_GROUPS			(PG_UINT32_MAX / 2)

/* A column of the batch, as wide as its type */
typedef struct GjInputColumn
{
	int			column;			/* of the batch */
	GjValueType type;
	uint16		width;
	bool		is_argument;	/* or a filter: still wanted when rows have their groups */
	const char *values;
	const uint8 *nulls;			/* NULL: no row's is */
	char	   *own_values;		/* room for a batch, once something has to be changed */
	uint8	   *own_nulls;
	Size		offset;			/* in a record of a row */
} GjInputColumn;

typedef struct GjInput
{
	MemoryContext context;
	int			nrows;
	const uint32 *weights;		/* NULL: all one */
	uint32	   *own_weights;
	int			ncolumns;
	GjInputColumn *columns;

	/* Records of rows on disk */
	Size		row_size;
	Size		weight_offset;
	Size		nulls_offset;
} GjInput;

extern int	GjInputAddColumn(GjInput *input, int column, GjValueType type, bool is_argument);
extern void GjInputTake(GjInput *input, const GjBatch *batch);
extern uint64 GjInputWeight(const GjInput *input);
extern void GjInputSelect(GjInput *input, const uint16 *rows, int nrows);
extern void GjGatherValues(char *to, const char *from, uint16 width, const uint16 *rows,
						   int nrows);

extern Size GjRowsLayOut(GjInput *input);
extern void GjRowsPut(const GjInput *input, const uint16 *rows, int n, char *records);
extern void GjRowsTake(GjInput *input, const char *records, int n);

/* Where a column of the key is in the record of a group */
typedef struct GjKeyColumn
{
	int			input;			/* number of the GjInputColumn */
	GjValueType type;
	uint16		width;
	int			word;
	int			shift;			/* up from the lowest bit of the word */
	bool		ascends;		/* from row to row, so far */
	int64		highest;		/* then: the last value */
} GjKeyColumn;

#define GJ_WORD_BITS			64

typedef struct GjGroupSlot
{
	uint32		tag;			/* of the hash */
	uint32		group;			/* its number and one; 0: the slot is free */
} GjGroupSlot;

/*
 * Numbers of groups by their keys.  A record has the values of a group's key, the wide ones
 * first, and a bit for each that is NULL; what is left of its last word is zero.
 */
typedef struct GjGroupTable
{
	MemoryContext context;
	int			ncolumns;
	GjKeyColumn *columns;
	int			data_words;		/* the values */
	int			nwords;			/* and, once there was a NULL, its bits */
	int			null_bit;		/* number of the first of them; -1: there are none yet */

	uint32		ngroups;
	uint32		capacity;
	GjRegion	records;		/* behind one that nobody asks for, of free slots */
	GjRegion	slots;			/* none while the table is direct */
	uint64		nslots;			/* a power of two */
	bool		are_new;		/* have most of the last rows made a group? */

	/* The aggregates, whose states are numbered as records are */
	int			naggs;
	struct GjAgg *aggs;
	uint32		nstarted;		/* so many have begun */

	/* Rows that wait, each as if it were a group: defer.c */
	bool		may_defer;
	bool		defers;			/* rows wait now, and there are tags instead of slots */
	bool		is_tried;		/* has it been found out whether that is worth it? */
	uint32		ndeferred;		/* whose records are behind the groups' */

	/* Rows that come in the order of a column: hash.c */
	const GjKeyColumn *ordered_by;	/* NULL: none, and the slots are of all groups */
	uint64		run_value;		/* its value of late */
	uint32		run_first;		/* the first group that has it */
	uint64		run_slots;		/* so many slots there are then: for such groups */

	/* Instead of slots, of a single column: numbers and one by the value, less the lowest */
	bool		is_direct;
	GjRegion	direct;
	int64		direct_low;
	uint64		direct_span;
	uint32		direct_null;

	/* Of the batch */
	bool		is_packed;		/* are these there? */
	uint64	   *batch_records;
	int			batch_words;	/* room in them */
	uint64	   *batch_hashes;
} GjGroupTable;

/* hash.c */
extern void GjTableInit(GjGroupTable *table, MemoryContext context, int ncolumns);
extern void GjTableLayOut(GjGroupTable *table);
extern void GjTableTakeNulls(GjGroupTable *table);
extern void GjTablePack(GjGroupTable *table, const GjInput *input);
extern void GjTableRead(const GjGroupTable *table, uint32 first, int n, int stride,
						Datum *values, bool *isnull);
extern Datum GjTableValue(const GjGroupTable *table, uint32 group, int column, bool *isnull);
extern void GjTableReset(GjGroupTable *table);
extern void GjTableClear(GjGroupTable *table);
extern int	GjTableFind(GjGroupTable *table, int row, int nrows, uint32 *numbers);
extern int	GjTableLookUp(const GjGroupTable *table, int nrows, uint16 *rows, uint32 *numbers,
						  uint16 *missed);
extern uint32 GjTableAppend(GjGroupTable *table, const uint64 *record);
extern uint64 GjTableSlots(uint32 capacity);
extern void GjTableGrow(GjGroupTable *table, uint32 capacity, uint64 nslots);
extern void GjTableMakeSlots(GjGroupTable *table, uint64 nslots);

static inline uint64 *
GjTableRecord(const GjGroupTable *table, uint32 group)
{
	return (uint64 *) table->records.start + ((Size) group + 1) * table->nwords;
}

/* Records of groups, and of rows that wait */
static inline uint32
GjTableRecords(const GjGroupTable *table)
{
	return table->ngroups + table->ndeferred;
}

/* Words of NULL bits that each record will get once there is a NULL */
static inline int
GjTableNullWords(const GjGroupTable *table)
{
	return table->null_bit >= 0 ? 0 : (table->ncolumns + GJ_WORD_BITS - 1) / GJ_WORD_BITS;
}

/* Bytes of so many records, and of one before the first */
static inline Size
GjRecordsSize(const GjGroupTable *table, uint32 capacity)
{
	return ((Size) capacity + 1) * table->nwords * sizeof(uint64);
}

/* Mix the bits of a word into a hash; a hash is to be finished by GjHashFinish() */
static inline uint64
GjHashStep(uint64 hash, uint64 word)
{
	hash = (hash ^ word) * UINT64CONST(0x9E3779B97F4A7C15);
	return hash ^ (hash >> 29);
}

static inline uint64
GjHashFinish(uint64 hash)
{
	hash *= UINT64CONST(0xBF58476D1CE4E5B9);
	return hash ^ (hash >> 32);
}

/*
 * Hash a record.  A word of NULL bits that are all unset changes nothing, so that records
 * keep their hash when they get one.
 */
static pg_attribute_always_inline uint64
GjHashRecord(const uint64 *record, int data_words, int nwords)
{
	uint64		hash = 0;

	for (int word = 0; word < data_words; word++)
		hash = GjHashStep(hash, record[word]);
	for (int word = data_words; word < nwords; word++)
		hash = record[word] != 0 ? GjHashStep(hash, record[word] + word) : hash;
	return GjHashFinish(hash);
}

/* Rows of a batch with the same key that stand side by side */
typedef struct GjRuns
{
	int			nruns;			/* 0: there are too many, and rows are looked at one by one */
	uint16	   *starts;			/* the first row of each, and the end of the last one */
	uint32	   *groups;			/* the number of its group */
	GjInput		heads;			/* first rows: columns of the key */
	bool		is_spread;		/* has each row been given its number? */
} GjRuns;

extern void GjRunsInit(GjRuns *runs, MemoryContext context, const GjInput *input);
extern bool GjRunsFind(GjRuns *runs, const GjGroupTable *table, const GjInput *input);
extern void GjRunsSpread(GjRuns *runs, uint32 *numbers);

extern bool GjTableShouldDefer(const GjGroupTable *table, uint64 nslots);
extern void GjTableMakeTags(GjGroupTable *table, uint64 nslots);
extern bool GjTableDefer(GjGroupTable *table, int row, int nrows, uint32 *numbers);
extern bool GjTableTrySettling(GjGroupTable *table);
extern bool GjTableSettle(GjGroupTable *table);
extern void GjTableEndDeferring(GjGroupTable *table);

/* What is in the place of the slots while rows wait: first of all, a tag for each record */
static inline uint32 *
GjTableTags(const GjGroupTable *table)
{
	Assert(table->defers);
	return (uint32 *) table->slots.start;
}

extern void GjOrderEnd(GjGroupTable *table);

extern void GjDirectBegin(GjGroupTable *table);
extern bool GjDirectCover(GjGroupTable *table, const GjInput *input, uint64 max_span);
extern int	GjDirectFind(GjGroupTable *table, const GjInput *input, int row, uint32 *numbers);
extern int	GjDirectLookUp(const GjGroupTable *table, const GjInput *input, uint16 *rows,
						   uint32 *numbers, uint16 *missed);
extern void GjDirectEnd(GjGroupTable *table);

/*
 * The values that groups have had.  A narrow entry is one word: the number of the group
 * and one in its upper half and a value of up to four bytes in the lower one, or, without
 * groups, the value.  A wide one has two words.  A word of zeros (the second one of a wide
 * entry) is a free slot; without groups, a value of zero is remembered apart.
 */
typedef struct GjDistinct
{
	MemoryContext context;
	bool		is_grouped;
	bool		is_wide;
	uint16		width;			/* of the values */
	bool		has_zero;
	bool		has_bits;		/* instead of slots: distinct.c */
	GjRegion	bits;
	int64		bits_low;		/* the value of the first one */
	uint64		nbits;
	GjRegion	slots;
	uint64		nslots;			/* a power of two */
	uint64		nused;
	uint64	   *batch_entries;
	uint64	   *batch_hashes;

	Size		room;			/* bytes that it may take */
	bool		is_full;		/* it takes no more entries: others are spilled */
	GjSpill    *spill;
} GjDistinct;

#define GJ_DISTINCT_ROWS		256 /* are entered at once */
#define GJ_DISTINCT_PARTS		16	/* at most, are spilled */

typedef struct GjAggInput
{
	int			nrows;
	const uint32 *groups;		/* numbers; NULL: all rows belong to group 0 */
	const void *values;
	const uint32 *weights;		/* NULL: all one */
} GjAggInput;

extern GjDistinct *GjDistinctCreate(MemoryContext context, GjSpillFile *file, bool is_grouped,
									uint16 width);
extern void GjDistinctClear(GjDistinct *set);
extern void GjDistinctMakeRoom(GjDistinct *set, int nrows, Size room);
extern void GjDistinctAdd(GjDistinct *set, const GjAggInput *input, int64 *counts);
extern Size GjDistinctMemory(const GjDistinct *set);

/* distinct.c */
extern void GjDistinctFinish(GjDistinct *set, Size room, int64 *counts);

typedef void (*GjAggUpdate) (void *states, const GjAggInput *input);

/* min() and max() at once */
typedef void (*GjAggUpdateBoth) (void *min_states, void *max_states, const GjAggInput *input);

/* A sum of 128 bits */
typedef struct GjWideSum
{
	uint64		low;
	int64		high;
} GjWideSum;

static inline void
GjAddWide(GjWideSum *sum, uint64 low, int64 high)
{
	sum->low += low;
	sum->high += high + (sum->low < low);
}

/* avg() of int2 and int4; sum and count wrap around as PostgreSQL's do */
typedef struct GjIntAverage
{
	uint64		sum;
	int64		count;
} GjIntAverage;

typedef struct GjWideAverage
{
	GjWideSum	sum;
	int64		count;
} GjWideAverage;

/* avg() of floats: what float8_accum() keeps */
typedef struct GjFloatAverage
{
	float8		n;
	float8		sx;
	float8		sxx;
} GjFloatAverage;

extern void GjCountRows(void *states, const GjAggInput *input);
extern GjAggUpdate GjIntUpdate(GjAggKind kind, GjValueType type);
extern GjAggUpdateBoth GjIntMinMax(GjValueType type);
extern GjAggUpdate GjFloatUpdate(GjAggKind kind, GjValueType type);
extern GjAggUpdateBoth GjFloatMinMax(GjValueType type);

/* No state is larger */
#define GJ_MAX_STATE			sizeof(GjFloatAverage)

typedef struct GjAgg
{
	GjAggSpec	spec;
	int			argument;		/* number of the GjInputColumn, or -1 */
	int			filter;
	GjAggUpdate update;
	Size		state_size;
	char		initial[GJ_MAX_STATE];
	GjRegion	states;
	GjDistinct *distinct;		/* of count(DISTINCT) */

	/* Of min() and max() of the same rows, in groups: the other one */
	struct GjAgg *twin;
	GjAggUpdateBoth update_both;

	/*
	 * A byte a group: has it had a value?  Kept only since the first batch in which not
	 * each row has one; the groups from before have.
	 */
	bool		may_be_null;
	bool		keeps_seen;
	GjRegion	seen;
} GjAgg;

/* Rows of a batch that an argument's NULLs and a filter leave */
typedef struct GjSelection
{
	const GjInputColumn *argument;	/* whose NULLs */
	const GjInputColumn *filter;
	int			nrows;			/* -1: this is of another batch */
	uint16	   *rows;
	uint32	   *groups;
	uint32	   *weights;
	char	   *values;
} GjSelection;

extern void GjAggInit(GjAgg *agg, MemoryContext context, GjSpillFile *file,
					  const GjAggSpec *spec, bool is_grouped, GjInput *input);
extern void GjAggFindTwins(GjAgg *aggs, int naggs);
extern void GjAggAllocate(GjAgg *agg, MemoryContext context, uint32 capacity, bool is_grouped);
extern void GjAggGrow(GjAgg *agg, MemoryContext context, uint32 nstarted, uint32 capacity);
extern void GjAggStart(GjAgg *agg, uint32 first, uint32 end);
extern Size GjAggGroupSize(const GjAgg *agg);
extern Size GjAggMemory(const GjAgg *agg);
extern bool GjAggAddRuns(GjAgg *agg, const GjInput *input, const GjRuns *runs);
extern void GjSelectionInit(GjSelection *selection, MemoryContext context);
extern void GjAggAdd(GjAgg *agg, MemoryContext context, const GjInput *input,
					 const uint32 *numbers, uint32 nsettled, uint32 capacity,
					 GjSelection *selection);

extern bool GjAggMayMerge(const GjAgg *agg);
extern void GjAggMerge(GjAgg *agg, const uint32 *from, const uint32 *to, int n);
extern void GjAggMove(GjAgg *agg, uint32 from, uint32 to, uint32 n);

extern bool GjAggIsState(const GjAgg *agg, GjValueType *type);
extern void GjAggRead(const GjAgg *agg, uint32 first, int n, int stride, Datum *values,
					  bool *isnull);
extern Datum GjAggFinal(const GjAgg *agg, uint32 group, bool *isnull);

extern Datum GjAggPartial(const GjAgg *agg, uint32 group, bool *isnull);

#endif							/* GPUJOIN_GROUPS_GROUPPARTS_H */
