/*-------------------------------------------------------------------------
 *
 * join.h
 *	  GpuJoin: join a small side with tables through their indexes.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_JOIN_H
#define GPUJOIN_JOIN_H

#include "base/nodes.h"
#include "exec/exec.h"
#include "node/joinplan.h"

/* A collected row of the small side; its columns follow it: GjSmallRowValues() */
typedef struct GjSmallRow
{
	struct GjSmallRow *next_of_key; /* next row with the same key */
	uint32		nrows_of_key;	/* length of that chain, starting with this row */
	uint32		number:31;		/* for batch consumers: 0 in a new batch */
	uint32		matched:1;		/* for the join: false in a new batch */
	struct GjSmallRow *next;	/* next row of the batch */
} GjSmallRow;

#define GJ_SMALL_MAX_NUMBER		((uint32) PG_INT32_MAX)

/* The row's values, by column from 0, and which of them are NULL */
#define GjSmallRowValues(row)	((Datum *) ((char *) (row) + MAXALIGN(sizeof(GjSmallRow))))
#define GjSmallRowNulls(row, natts) ((bool *) (GjSmallRowValues(row) + (natts)))

/* The rows that a join needs */
typedef struct GjSmallPolicy
{
	bool		keep_null_keys; /* rows without a key, which match nothing but are returned */
	bool		one_per_key;	/* only one row of each key */
	bool		whole_keys;		/* all rows of a key in the same batch */
	double		expected;		/* the planner's estimate of the number of rows */
} GjSmallPolicy;

typedef struct GjSmallStats
{
	uint64		rows;			/* rows collected in the last run of the small side */
	uint64		batches;		/* largest number of batches in a run */
	Size		peak_memory;	/* bytes of the largest batch, without its key set */
} GjSmallStats;

/* A batch of rows */
typedef struct GjSmallBatch
{
	GjSmallRow *first;			/* first row (next) */
	uint64		nrows;
	bool		shared_keys;	/* do several rows have the same key, with its parts? */
	GjExact    *tuples;			/* the keys with their parts, or NULL if keys have no parts */
	GjExact    *entries;		/* the same as far as entries have them; may be the same table */
	bool		is_only;		/* are all rows in this batch, which is kept for a rescan? */
} GjSmallBatch;

typedef struct GjSmallSide GjSmallSide;

/*
 * State of a GpuJoinScan.  It is a separate plan node, but the join above takes its rows through
 * the functions below.  Its scan slot holds the row of the table; its expression context refers
 * to that row, and its per-tuple memory lasts as long.
 */
typedef struct GjJoinScanState
{
	GjTableScan table;			/* must be first; its rows belong to the current batch, its
									 * keys are set during a match, its target is the joined slot */
	GjKeySet   *own_keys;		/* keys of this table alone, freed with the results for them;
								 * NULL if the join's are used */
	GjRowShape *direct_shape;	/* fills the join's result slot from entries; NULL if more work
								 * is needed */
	bool		lookup;			/* are the partners of entries needed? */
	int			ncounted;		/* rows of the block counted for EXPLAIN */
	ProjectionInfo *projection; /* from the scan slot to the joined slot's big columns */
} GjJoinScanState;

/* The next step */
typedef enum GjJoinPhase
{
	GJ_PHASE_COLLECT,			/* run the small side */
	GJ_PHASE_BATCH,				/* begin a batch */
	GJ_PHASE_TABLE,				/* begin a table of the big side */
	GJ_PHASE_ROWS,				/* get a big row that has partners; on the fast path, return its
								 * pairs */
	GJ_PHASE_PAIRS,				/* return pairs of the big row */
	GJ_PHASE_UNMATCHED,			/* return the batch's small rows that had no match */
	GJ_PHASE_DONE
} GjJoinPhase;

typedef struct GjJoinDirect GjJoinDirect;

typedef struct GjJoinState
{
	CustomScanState css;		/* must be first */
	GjJoinPhase	phase;
	GjJoinKind	kind;

	/* The big side: its tables, scanned one after another */
	GjJoinScanState **scans;
	int			nscans;
	int			current;		/* number of the current table; nscans: the batch is finished */
	GjJoinScanState *scan;		/* scan of the current table, once started */
	MemoryContext context;		/* holds the keys */
	GjKeySet   *keys;			/* keys of the batch; NULL until they are built */
	List	   *partitions;		/* partitions of each table, or NIL if keys do not determine the
								 * table */
	GjKeyRouter router;
	GjKeyRoutes *routes;		/* routes of the keys, if there are partitions */
	int			nbig;			/* number of columns of the joined row that are from the big side */

	/* The small side */
	GjSmallSide *small;
	const GjSmallBatch *batch;	/* current batch */
	GjCodec		codec;			/* of the small side's values */
	GjConversion conversion;	/* of these values */
	int			value_column;	/* column of the small plan's output that has the value */
	ExprState  *list;			/* the array whose elements are the small rows; or NULL */
	int			nparts;			/* columns that are parts of the key */
	GjSmallRow *pair;			/* next partner of the big row */
	GjSmallRow *unmatched;		/* next small row to look at */
	uint64		nmatched;		/* number of marked small rows of the batch */

	/* The joined row */
	TupleTableSlot *joined;
	ExprState  *joinquals;
	ExprState  *otherquals;
	GjJoinDirect *direct;		/* for the fast path; NULL if it cannot be used */
	GjRowBatch	batch_rows;		/* result rows returned to a batch consumer */
	void		(*ask_again) (void *arg);	/* called before each search, so that a device
											 * reduces its rows; or NULL */
	void	   *ask_arg;
	GjSmallStats small_stats;
	GjSmallStats workers;		/* maximum of the parallel workers' statistics, once known */
	uint64		removed;		/* result rows removed by the other quals */
	struct GjSharedSmall *shared;	/* workers' reports in a parallel plan */
} GjJoinState;

/* join.c */
extern void GjExecJoinInit(void);

/* pairs.c */
extern TupleTableSlot *GjExecJoin(CustomScanState *node);
extern void GjJoinForgetBatch(GjJoinState *state);
extern void GjJoinDirectInit(GjJoinState *state);
extern const GjRowMethods GjJoinRowMethods;

/* bigscan.c */
extern CustomScanMethods GjJoinScanPlanMethods;

extern void GjJoinScanAttach(GjJoinScanState *scan, TupleTableSlot *joined);
extern bool GjJoinScanIsReady(const GjJoinScanState *scan);
extern void GjJoinScanMatch(GjJoinScanState *scan, const GjKeySet *keys, GjExact *tuples,
							bool all_keys, bool lookup);
extern void GjJoinScanStart(GjJoinScanState *scan, GjSmallSide *small, const GjKeySet *filter);
extern GjSmallRow *GjJoinScanNext(GjJoinScanState *scan, GjSmallSide *small);
extern void GjJoinScanForget(GjJoinScanState *scan);

/*
 * Return true if the loaded rows are entries whose partners have not been looked up, because the
 * fast path takes them
 */
static inline bool
GjJoinScanHasEntries(const GjJoinScanState *scan)
{
	const GjRowBatch *batch = GjRowsGetBatch(scan->table.rows);

	return !scan->lookup && batch->tuples == NULL && batch->next < batch->nrows;
}

/* small.c */
extern GjSmallSide *GjSmallCreate(MemoryContext parent, TupleDesc columns, GjSmallPolicy policy,
								  Size memory_limit, GjSmallStats *stats);
extern void GjSmallSetParts(GjSmallSide *side, List *columns, const GjExactPart *parts,
							GjCodec *rest, GjConversion conversion, bool code_is_hash,
							bool tests_hashes);
extern void GjSmallRun(GjSmallSide *side, GjJoinState *state);
extern const GjSmallBatch *GjSmallNextBatch(GjSmallSide *side);
extern void GjSmallRewind(GjSmallSide *side);
extern void GjSmallReset(GjSmallSide *side);
extern void GjSmallFree(GjSmallSide *side);
extern GjSmallRow *GjSmallLookup(GjSmallSide *side, int64 key, const Datum *parts);
extern int	GjSmallLookupRows(void *arg, const GjRowKeys *keys, uint16 *rows, void **partners);
extern void GjSmallAddKeys(GjSmallSide *side, GjKeySet *keys);

#endif							/* GPUJOIN_JOIN_H */
