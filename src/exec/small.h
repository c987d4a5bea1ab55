/*-------------------------------------------------------------------------
 *
 * small.h
 *	  The small side of a GpuJoin: its rows, collected once, handed out again in
 *	  batches that fit in memory, each a hash table by key.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_SMALL_H
#define GPUJOIN_EXEC_SMALL_H

#include "access/tupdesc.h"
#include "nodes/memnodes.h"

#include "sets/sets.h"
#include "keys.h"

/* A collected row; its columns stand behind it: GjSmallRowValues(), GjSmallRowCopy() */
typedef struct GjSmallRow
{
	struct GjSmallRow *next_of_key; /* with the same key */
	uint32		nrows_of_key;	/* length of that chain, from this row on */
	uint32		number:31;		/* the caller's to set; 0 in a fresh batch */
	uint32		matched:1;		/* likewise; false in a fresh batch */
	struct GjSmallRow *next;	/* of the batch */
} GjSmallRow;

#define GJ_SMALL_MAX_NUMBER		((uint32) PG_INT32_MAX)

/* The row's values, by column from 0, and which of them are NULL */
#define GjSmallRowValues(row)	((Datum *) ((char *) (row) + MAXALIGN(sizeof(GjSmallRow))))
#define GjSmallRowNulls(row, natts) ((bool *) (GjSmallRowValues(row) + (natts)))

/* What the join needs to be kept */
typedef struct GjSmallPolicy
{
	bool		keep_null_keys; /* rows without a key match nothing, but are returned */
	bool		one_per_key;	/* rows with the same key are as good as one */
	bool		whole_keys;		/* rows with the same key must be in one batch */
} GjSmallPolicy;

typedef struct GjSmallStats
{
	uint64		rows;			/* collected, of the last run of the small side */
	uint64		batches;		/* largest number in a run */
	Size		peak_memory;	/* bytes of a batch, its key set not counted */
} GjSmallStats;

typedef struct GjSmallSide GjSmallSide;

/* small.c */
extern GjSmallSide *GjSmallCreate(MemoryContext parent, TupleDesc columns,
								  GjSmallPolicy policy, Size memory_limit);
extern void GjSmallAdd(GjSmallSide *side, const Datum *values, const bool *isnull,
					   bool key_is_null, int64 key);
extern void GjSmallFinish(GjSmallSide *side);
extern bool GjSmallNextBatch(GjSmallSide *side);
extern bool GjSmallIsOneBatch(const GjSmallSide *side);
extern void GjSmallRewind(GjSmallSide *side);
extern void GjSmallReset(GjSmallSide *side);
extern void GjSmallFree(GjSmallSide *side);
extern GjSmallRow *GjSmallLookup(GjSmallSide *side, int64 key);
extern int	GjSmallLookupRows(void *side, const GjRowKeys *keys, uint16 *rows, void **partners);
extern bool GjSmallKeysAreUnique(const GjSmallSide *side);
extern GjSmallRow *GjSmallFirst(const GjSmallSide *side);
extern uint64 GjSmallBatchRows(const GjSmallSide *side);
extern void GjSmallRowCopy(const GjSmallSide *side, const GjSmallRow *row,
						   Datum *values, bool *isnull);
extern void GjSmallAddKeys(GjSmallSide *side, GjKeySet *keys);
extern const GjSmallStats *GjSmallGetStats(const GjSmallSide *side);

#endif							/* GPUJOIN_EXEC_SMALL_H */
