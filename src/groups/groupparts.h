/*-------------------------------------------------------------------------
 *
 * groupparts.h
 *	  Internals of a set of groups, shared by its source files.
 *
 * A batch is processed as follows.  Its columns are narrowed to the width of their types
 * (groups.c); each row is assigned its group number (hash.c, direct.c, defer.c); then each
 * aggregate in turn processes the numbers and its argument (aggstate.c, distinct.c).
 * Numbers are assigned roughly in the order in which groups are first seen, so the states of an
 * aggregate are an array indexed by group number.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_GROUPS_GROUPPARTS_H
#define GPUJOIN_GROUPS_GROUPPARTS_H

#include "lib/stringinfo.h"
#include "nodes/memnodes.h"
#include "storage/buffile.h"
#include "utils/logtape.h"
#include "utils/memutils.h"

#include "base/probe.h"
#include "base/region.h"
#include "groups.h"

/* Initial sizes, and sizes allowed whatever the memory limit is */
#define GJ_GROUPS_FIRST			((uint32) 256)
#define GJ_GROUPS_FLOOR			((uint32) 1024)
#define GJ_DISTINCT_FLOOR		((uint64) 4096)

/* Slots to fill between checks for interrupts */
#define GJ_UNINTERRUPTED_SLOTS	(256 * 1024)

/* Rows of more groups than this are spilled */
#define GJ_MAX_GROUPS			(PG_UINT32_MAX / 2)

/* A column of the batch, at the width of its type */
typedef struct GjInputColumn
{
	int			column;			/* column of the batch */
	GjValueType type;
	uint16		width;
	GjStrayKind strays;			/* values without a word that it may have */
	bool		is_argument;	/* is this an argument or a filter, needed after rows have their
								 * groups? */
	bool		is_key;			/* does it form groups? */
	const char *values;
	const uint8 *nulls;			/* NULL if no value is NULL */
	char	   *own_values;		/* buffer for one batch, allocated when values must first be
								 * changed */
	uint8	   *own_nulls;
	Size		offset;			/* offset in the record of a row */
} GjInputColumn;

typedef struct GjInput
{
	MemoryContext context;
	int			nrows;
	const uint32 *weights;		/* NULL if all weights are 1 */
	int			ncolumns;
	GjInputColumn *columns;
	GjStrays   *strays;			/* NULL if no column may have any */

	/* Records of rows on disk, and their layout */
	char	   *records;		/* buffer for one batch, allocated together with: */
	uint32	   *own_weights;
	Size		row_size;
	Size		weight_offset;
	Size		nulls_offset;
} GjInput;

/* Return the number of rows that nrows rows with these weights stand for */
static inline uint64
GjTotalWeight(const uint32 *weights, int nrows)
{
	uint64		total = 0;

	if (weights == NULL)
		return nrows;
	for (int i = 0; i < nrows; i++)
		total += weights[i];
	return total;
}

/* Allocate a buffer for the values of a batch that must be changed */
static inline void
GjInputMakeRoom(const GjInput *input, GjInputColumn *column)
{
	if (column->own_values == NULL)
	{
		column->own_values = MemoryContextAlloc(input->context, GJ_BATCH_ROWS * column->width);
		column->own_nulls = MemoryContextAlloc(input->context, GJ_BATCH_ROWS);
	}
}

/*-------------------------------------------------------------------------
 * spill.c
 *
 * Call sequence of a spill: write records; then, for each part, begin it, and read its records.
 * While a part is being read, some of its records may be written again, in subparts by the next
 * hash bits.  Subparts are read before the parts that have waited longer, so that there are never
 * many.
 *
 * Records of a part are read in the order in which they were written.
 *-------------------------------------------------------------------------
 */

/* Each part being written takes a block of memory */
#define GJ_SPILL_MIN_PARTS		4
#define GJ_SPILL_MAX_PARTS		64

/* Maximum number of records to write or read at a time */
#define GJ_SPILL_RECORDS		1024

/* The temporary file of any number of spills, created when there is something to write */
typedef struct GjSpillFile
{
	MemoryContext parent;
	MemoryContext context;		/* NULL until a part is to be written */
	LogicalTapeSet *tapes;		/* NULL if nothing has been written */
	uint64		size;			/* peak size, in bytes */
} GjSpillFile;

/* Remove a file that exists */
extern void GjSpillFileReset(GjSpillFile *file);

typedef struct GjSpill GjSpill;

extern GjSpill *GjSpillCreate(MemoryContext context, GjSpillFile *file, Size record_size);

/* Forget all records.  The owner of the file resets it. */
extern void GjSpillForget(GjSpill *spill);

/*
 * Prepare to write records, in about `wanted` parts, but at most `most`, the number that memory
 * allows.  Returns false if the hash has no bits left to distinguish parts.
 */
extern bool GjSpillBegin(GjSpill *spill, double wanted, int most);
extern bool GjSpillCanBegin(const GjSpill *spill);

/* Write n records and their hashes, whose upper bits select the part */
extern void GjSpillWrite(GjSpill *spill, const char *records, const uint64 *hashes, int n);

/* Finish writing before the next part is begun; frees memory */
extern void GjSpillEnd(GjSpill *spill);

/* Return true if any part has not been begun */
extern bool GjSpillWaits(const GjSpill *spill);

/*
 * Begin to read the next part, and set *nrecords to the number of its records.  Returns false if
 * no part is left.
 */
extern bool GjSpillNextPart(GjSpill *spill, uint64 *nrecords);

/* Read the next records of the part.  Returns their number, 0 at the end. */
extern int	GjSpillRead(GjSpill *spill, char *records, int most);

/* Return the peak size on disk, in bytes */
static inline uint64
GjSpillFileSize(const GjSpillFile *file)
{
	return file->tapes == NULL ? file->size :
		Max(file->size, (uint64) LogicalTapeSetBlocks(file->tapes) * BLCKSZ);
}

static inline Size
GjSpillFileMemory(const GjSpillFile *file)
{
	return file->tapes == NULL ? 0 : MemoryContextMemAllocated(file->context, true);
}

/*-------------------------------------------------------------------------
 * input.c
 *
 * Columns are added before the layout of records is determined, which gives the record size of the
 * spill.
 *-------------------------------------------------------------------------
 */
extern int	GjInputAdd(GjInput *input, int column, GjValueType type, GjStrayKind strays,
					   bool is_key);
extern void GjInputLayOut(GjInput *input);
extern void GjInputTake(GjInput *input, const GjBatch *batch, bool only_keys);
extern void GjInputSelect(GjInput *input, const uint16 *rows, int nrows);
extern void GjInputWrite(GjInput *input, GjSpill *spill, const uint16 *rows,
						 const uint64 *hashes, int n);

/* Read rows of the part that is being read.  Returns false at the end of it. */
extern bool GjInputRead(GjInput *input, GjSpill *spill);

/* Position of a key column in the record of a group */
typedef struct GjKeyColumn
{
	int			input;			/* number of the GjInputColumn */
	GjValueType type;
	uint16		width;
	int			word;
	int			shift;			/* bits above the lowest bit of the word */
	bool		ascends;		/* have values ascended from row to row so far? */
	int64		highest;		/* if so, the last value */
} GjKeyColumn;

#define GJ_WORD_BITS			64

typedef struct GjGroupSlot
{
	uint32		tag;			/* lower bits of the hash */
	uint32		group;			/* group number plus 1; 0: free slot */
} GjGroupSlot;

/*
 * How a table finds the group of a key.
 *
 *	UNMAPPED -> DIRECT			reset, with one key column
 *	UNMAPPED -> SLOTS			reset, with several
 *	DIRECT -> SLOTS				values are too far apart, or belong to spilled rows
 *	SLOTS -> ORDERED			a column has ascended since the first row
 *	ORDERED -> SLOTS			it has not, or one of its values has too many groups
 *	SLOTS -> PENDING			the table becomes large, and most rows form new groups
 *	PENDING -> SLOTS			many pending rows belonged to existing groups, or rows are spilled
 *
 * A transition to SLOTS leads on to PENDING at once if the condition for that holds.  Each phase
 * returns to UNMAPPED when the table is reset.
 */
typedef enum GjTablePhase
{
	GJ_TABLE_UNMAPPED,			/* no map: not reset yet, or without key columns */
	GJ_TABLE_DIRECT,			/* array indexed by value (direct.c) */
	GJ_TABLE_SLOTS,				/* slots of all groups */
	GJ_TABLE_ORDERED,			/* slots of the groups of the current run only */
	GJ_TABLE_PENDING			/* tags: rows are appended and looked up later (defer.c) */
} GjTablePhase;

/*
 * Map from keys to group numbers.  A record holds the values of a group's key, the widest first,
 * followed by a NULL bit for each; the unused part of its last word is zero.
 *
 * The struct is private to this folder, but not to a file: each loop over rows keeps its fields in
 * registers, and the three ways to find a group are too long for one file.
 */
typedef struct GjGroupTable
{
	GjTablePhase phase;
	MemoryContext context;
	GjSeed		seed;			/* of the hash of records */
	int			ncolumns;
	GjKeyColumn *columns;
	int			data_words;		/* words that hold the values */
	int			nwords;			/* data words, plus the words of NULL bits once a NULL has been
								 * seen */
	int			null_bit;		/* position of the first NULL bit; -1: records have none yet */

	uint32		ngroups;
	uint32		capacity;
	GjRegion	records;		/* preceded by a dummy record that free slots point to */
	GjRegion	slots;			/* empty if DIRECT; holds tags if PENDING */
	uint64		nslots;			/* a power of two */
	bool		are_new;		/* did most of the last rows form new groups? */

	/* The aggregates, whose states have the same numbers as records */
	int			naggs;
	struct GjAgg *aggs;
	uint32		nstarted;		/* number of groups whose states are initialized */

	/* Pending rows, each treated as a group of its own: defer.c */
	bool		may_defer;
	bool		is_tried;		/* has it been tested whether deferring pays off? */
	uint32		ndeferred;		/* number of pending rows; their records follow those of the
								 * groups */

	/* Rows that arrive in the order of a column: hash.c */
	const GjKeyColumn *ordered_by;	/* NULL unless ORDERED */
	uint64		run_value;		/* current value of that column */
	uint32		run_first;		/* first group with that value */
	uint64		run_slots;		/* number of slots used for the groups of the run */

	/*
	 * Alternative to slots for a single column: group number plus 1, indexed by value minus
	 * direct_low
	 */
	GjRegion	direct;
	int64		direct_low;
	uint64		direct_span;
	uint32		direct_null;

	/* The current batch */
	bool		is_packed;		/* are batch_records and batch_hashes valid? */
	uint64	   *batch_records;
	int			batch_words;	/* words per record that batch_records has room for */
	uint64	   *batch_hashes;
} GjGroupTable;

/* hash.c */
extern void GjTableInit(GjGroupTable *table, MemoryContext context, int ncolumns,
						GjKeyColumn *columns);
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
extern uint64 GjTableSlots(uint32 capacity);
extern void GjTableGrow(GjGroupTable *table, uint32 capacity, uint64 nslots);
extern void GjTableMakeSlots(GjGroupTable *table, uint64 nslots);
extern void GjTableReseed(GjGroupTable *table);
extern void GjOrderEnd(GjGroupTable *table);

static inline uint64 *
GjTableRecord(const GjGroupTable *table, uint32 group)
{
	return (uint64 *) table->records.start + ((Size) group + 1) * table->nwords;
}

/* Return the number of records: groups and pending rows */
static inline uint32
GjTableRecords(const GjGroupTable *table)
{
	return table->ngroups + table->ndeferred;
}

/* Return the number of words of NULL bits that each record will need once a NULL is seen */
static inline int
GjTableNullWords(const GjGroupTable *table)
{
	return table->null_bit >= 0 ? 0 : (table->ncolumns + GJ_WORD_BITS - 1) / GJ_WORD_BITS;
}

/* Return the size in bytes of `capacity` records and the dummy before the first */
static inline Size
GjRecordsSize(const GjGroupTable *table, uint32 capacity)
{
	return ((Size) capacity + 1) * table->nwords * sizeof(uint64);
}

/* Mix the bits of a word into a hash, which must be finished by GjHashFinish() */
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
 * Hash a record.  A word of NULL bits that are all unset does not change the hash, so records
 * keep theirs when NULL bits are added.
 */
static pg_attribute_always_inline uint64
GjHashRecord(uint64 seed, const uint64 *record, int data_words, int nwords)
{
	uint64		hash = seed;

	for (int word = 0; word < data_words; word++)
		hash = GjHashStep(hash, record[word]);
	for (int word = data_words; word < nwords; word++)
		hash = record[word] != 0 ? GjHashStep(hash, record[word] + word) : hash;
	return GjHashFinish(hash);
}

/* Runs: adjacent rows of a batch that have the same key */
typedef struct GjRuns
{
	int			nruns;			/* 0: there are too many, rows are processed one by one */
	uint16	   *starts;			/* first row of each run, and the end of the last one */
	uint32	   *groups;			/* group number of each run */
	GjInput		heads;			/* key columns of the runs' first rows */
	bool		is_spread;		/* has each row been assigned its number? */
} GjRuns;

/* Return the hash of a group's or a pending row's record */
static inline uint64
GjTableHash(const GjGroupTable *table, uint32 group)
{
	return GjHashRecord(table->seed.value, GjTableRecord(table, group), table->data_words,
						table->nwords);
}

/* defer.c */
extern void GjTableMakeTags(GjGroupTable *table, uint64 nslots);
extern void GjTableHashAgain(GjGroupTable *table);
extern bool GjTableDefer(GjGroupTable *table, int row, int nrows, uint32 *numbers);
extern bool GjTableTrySettling(GjGroupTable *table);
extern bool GjTableSettle(GjGroupTable *table);
extern void GjTableEndDeferring(GjGroupTable *table);

/* Return the tags of the records, which start the region of the slots while rows are pending */
static inline uint32 *
GjTableTags(const GjGroupTable *table)
{
	Assert(table->phase == GJ_TABLE_PENDING);
	return (uint32 *) table->slots.start;
}

/* direct.c */
extern bool GjDirectCover(GjGroupTable *table, const GjInput *input, uint64 max_span);
extern int	GjDirectFind(GjGroupTable *table, const GjInput *input, int row, uint32 *numbers);
extern int	GjDirectLookUp(const GjGroupTable *table, const GjInput *input, uint16 *rows,
						   uint32 *numbers, uint16 *missed);
extern void GjDirectEnd(GjGroupTable *table);

/* The values that count(DISTINCT) has seen: distinct.c */
typedef struct GjDistinct GjDistinct;

#define GJ_DISTINCT_PARTS		16	/* maximum number of spilled parts */

typedef struct GjAggInput
{
	int			nrows;
	const uint32 *groups;		/* group numbers; NULL if all rows belong to group 0 */
	const void *values;
	const void *seconds;		/* second words of values that have two; else NULL */
	const uint32 *weights;		/* NULL if all weights are 1 */
} GjAggInput;

extern GjDistinct *GjDistinctCreate(MemoryContext context, GjSpillFile *file, bool is_grouped,
									uint16 width, bool is_pair);
extern void GjDistinctClear(GjDistinct *set);
extern void GjDistinctMakeRoom(GjDistinct *set, int nrows, Size room);
extern void GjDistinctAdd(GjDistinct *set, const GjAggInput *input, int64 *counts);
extern bool GjDistinctAddBits(GjDistinct *set, int64 low, const uint64 *words, uint64 nwords,
							  Size room, int64 *count);
extern Size GjDistinctMemory(const GjDistinct *set);
extern int	GjDistinctReseeds(const GjDistinct *set);

/* When all rows have been added: count the spilled values */
extern void GjDistinctFinish(GjDistinct *set, Size room, int64 *counts);

/*-------------------------------------------------------------------------
 * strays.c
 *-------------------------------------------------------------------------
 */

#define GJ_MAX_STRAYS			(UINT64CONST(1) << 48)

/*
 * Return true if a word is a code.  No text has such a first word, as its first byte is not zero
 * (pages/wide.c); nor has a numeric (base/numeric.c).
 */
static inline bool
GjIsStray(int64 word)
{
	return (uint64) word - (uint64) GJ_STRAY_CODE < GJ_MAX_STRAYS;
}

/* A value that is neither compressed nor out of line */
typedef struct GjStray
{
	Datum		value;
	GjStrayKind kind;
} GjStray;

/* A type whose values are compared by its functions */
typedef struct GjStrayType
{
	Oid			collation;
	FmgrInfo	hash;			/* the extended function, which takes a seed, if there is one */
	bool		takes_seed;
	bool		by_image;		/* are only values equal that are the same? */
	FmgrInfo	equal;
	int16		length;
	bool		byval;
} GjStrayType;

typedef struct GjStrayList
{
	MemoryContext context;		/* of the values */
	GjStray    *strays;
	int32		n;
	int32		capacity;
	Size		size;			/* in bytes */
} GjStrayList;

struct GjStrays
{
	MemoryContext context;
	MemoryContext scratch;		/* for functions */
	GjSeed		seed;			/* of the hash of keys; it does not change */
	bool		exist;			/* has any been added? */
	bool		closed;			/* no further key is kept */
	Size		room;			/* for keys; a few are kept whatever it is */
	uint64		nkept;			/* values that have been copied so far */
	uint64		kept_size;		/* their size, in bytes */
	int			ntypes;
	GjStrayType *types;			/* of the kinds from GJ_STRAY_TYPED on */
	struct keytable_hash *table;	/* NULL before the first key */
	GjStrayList keys;
	GjStrayList batch;			/* arguments, and keys for which there is no room */

	/* Values of spilled rows */
	BufFile    *file;			/* NULL before the first one */
	int			fileno;			/* its end */
	off_t		offset;
};

static inline bool
GjStraysExist(const GjStrays *strays)
{
	return strays != NULL && strays->exist;
}

static inline void
GjStraysCloseFile(GjStrays *strays)
{
	if (strays == NULL || strays->file == NULL)
		return;
	BufFileClose(strays->file);
	strays->file = NULL;
}

/* The size of the file, from its end: its segments have 1 GB */
static inline uint64
GjStraysFileSize(const GjStrays *strays)
{
	return strays == NULL || !strays->file ? 0 : ((uint64) strays->fileno << 30) + strays->offset;
}

/* Forget all values, and begin to collect keys */
extern void GjStraysBegin(GjStrays *strays, Size room);

/* Return the hash of a value whose code is that of a batch; else return false */
extern bool GjStraysHash(const GjStrays *strays, int64 code, uint64 *hash);

/* Write a value, and return its place in the form of a code; read it, and return its new code */
extern int64 GjStraysWrite(GjStrays *strays, int64 code);
extern int64 GjStraysRead(GjStrays *strays, GjStrayKind kind, int64 place, bool is_key);

/* The states of an aggregate for values that have no word */
typedef struct GjStraySums GjStraySums;

extern GjStraySums *GjStraySumsCreate(MemoryContext parent, Size sort_memory);
extern void GjStraySumsClear(GjStraySums *sums);
extern Size GjStraySumsMemory(const GjStraySums *sums);
extern void GjStraySumsTake(GjStraySums *sums, const GjAggSpec *spec, GjAggInput *input);
extern void GjStraySumsCount(GjStraySums *sums, int64 *counts);

typedef void (*GjAggUpdate) (void *states, const GjAggInput *input);

/* A 128-bit sum */
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

/* avg() of int2 and int4.  Sum and count wrap around, as PostgreSQL's do. */
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

/* avg() of floats: the state of float8_accum() */
typedef struct GjFloatAverage
{
	float8		n;
	float8		sx;
	float8		sxx;
} GjFloatAverage;

/* min() and max() of texts */
typedef struct GjWordPair
{
	int64		first;
	int64		second;
} GjWordPair;

/* The largest state */
#define GJ_MAX_STATE			sizeof(GjFloatAverage)

typedef struct GjAgg
{
	GjAggSpec	spec;
	int			argument;		/* number of the GjInputColumn, or -1 */
	int			second;			/* the same of the argument's second words, or -1 */
	int			filter;
	MemoryContext context;
	GjAggUpdate update;
	bool		may_merge;		/* can states of the same group be merged? */
	bool		is_state;		/* is the result the state itself? */
	GjValueType state_type;		/* if so, its type */
	Size		state_size;
	char		initial[GJ_MAX_STATE];
	GjRegion	states;
	GjDistinct *distinct;		/* only for count(DISTINCT) */
	GjStraySums *stray_sums;	/* NULL if the argument always has a word */

	/*
	 * One byte per group, set once it has had a value.  Allocated at the first batch in which a row
	 * has none; all groups that existed before have had one.
	 */
	bool		may_be_null;
	bool		keeps_seen;
	GjRegion	seen;
} GjAgg;

/* Rows of a batch that are left after removing NULL arguments and filtered rows */
typedef struct GjSelection
{
	const GjInputColumn *argument;	/* column whose NULLs are removed, or NULL */
	const GjInputColumn *filter;
	int			nrows;			/* -1: not computed for this batch */
	uint16		rows[GJ_BATCH_ROWS];
	uint32		groups[GJ_BATCH_ROWS];
	uint32		weights[GJ_BATCH_ROWS];
	uint64		values[GJ_BATCH_ROWS];
	uint64		seconds[GJ_BATCH_ROWS]; /* second words */
} GjSelection;

extern void GjAggsInit(GjAgg *aggs, int naggs, MemoryContext context, GjSpillFile *file,
					   bool is_grouped, Size sort_memory);
extern void GjAggForget(GjAgg *agg);
extern void GjAggAllocate(GjAgg *agg, uint32 capacity, bool is_grouped);
extern void GjAggAdd(GjAgg *agg, const GjInput *input, GjRuns *runs, uint32 *numbers,
					 uint32 nsettled, uint32 capacity, GjSelection **selection);
extern void GjAggMerge(GjAgg *agg, const GjInput *input, const GjAggStates *from,
					   const GjBatch *batch, const uint32 *numbers, uint32 nsettled,
					   uint32 capacity);
extern void GjAggRead(const GjAgg *agg, uint32 first, int n, int stride, Datum *values,
					  bool *isnull);
extern Datum GjWideNumeric(GjWideSum sum);
extern Datum GjNumericResult(const GjAgg *agg, uint32 group, bool *isnull);
extern Datum GjNumericState(const GjAgg *agg, uint32 group);
extern int	GjSendNumeric(StringInfo buf, Datum value);
extern Datum GjTextResult(const GjAgg *agg, uint32 group, bool *isnull);
extern Datum GjAggResult(const GjAgg *agg, uint32 group, bool is_partial, bool *isnull);

#endif							/* GPUJOIN_GROUPS_GROUPPARTS_H */
