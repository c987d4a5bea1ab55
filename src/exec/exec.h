/*-------------------------------------------------------------------------
 *
 * exec.h
 *	  GpuScan, and the scan of a table that GpuJoin uses, too; EXPLAIN.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_H
#define GPUJOIN_EXEC_H

#include "access/genam.h"
#include "access/parallel.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "utils/tuplesort.h"

#include "base/compat.h"
#include "match/match.h"
#include "node/scanplan.h"
#include "rows/rows.h"
#include "service/service.h"

/*
 * A table that is scanned by its index: what the states of GpuScan and GpuJoinScan begin with
 *
 * The struct is not opaque, because a node's state must be one allocation that begins with it.
 */
typedef struct GjTableScan
{
	CustomScanState css;		/* must be first */
	Relation	index;			/* NULL if the query is only explained */
	GjKeyReader key_reader;
	MemoryContext context;		/* for results of matches */
	const GjKeySet *keys;		/* keys to search for */
	GjRows	   *rows;			/* rows that the match has found */
	TupleTableSlot *heap_slot;	/* for fetched tuples: the scan slot, unless row_shape is set */

	/* Shapes, each NULL if a row needs more work than copying columns */
	GjRowShape *row_shape;		/* from entries to the scan slot; set if the plan is index-only */
	GjRowShape *target_shape;	/* from entries to a slot of the target list */
	GjRowShape *tuple_shape;	/* from tuples to the result slot */
	GjRowShape *array_shape;	/* from tuples to arrays of the result's columns */

	GjMatchStats stats;
	GjSearchMemo *memo;			/* of the searches; NULL if there is only one */
	GjReduction *reduction;		/* a reduction to be made with the next match, or NULL */

	/* The test of entries, before they become rows or TIDs */
	GjEntryFilter *entry_filter;	/* NULL if entries are not tested */
	const GjEntryTest *test;	/* entry_filter in the form that a stream takes, or NULL */
	bool		filter_is_all;	/* true if an entry that passes satisfies all quals of the plan */
	bool		all_tids;		/* true to search TIDs of all entries nevertheless */

	/* The work with the index, to be added to its usage counters: see "Counting" in tablescan.c */
	Oid			counted_index;	/* InvalidOid once the work has been added */
	bool		used;			/* true if this process has requested a match */
	GjIndexUse	moved;			/* to be added to the work in the statistics, modulo 2^64 */
	MemoryContextCallback at_end;

	/* The part in a parallel plan */
	struct GjSharedMatch *shared;	/* in the plan's shared memory; NULL if it is not parallel */
	GjShare		share;			/* this process's part of the match */
	void		(*forget) (CustomScanState *node);	/* drops the TIDs and all results
													 * that depend on them */
} GjTableScan;

/* tablescan.c */
extern void GjCountGroups(PlanState *node, uint64 ngroups);
extern void GjTableScanInitSlots(GjTableScan *table);
extern void GjTableScanInitQual(GjTableScan *table);
extern void GjTableScanOpen(GjTableScan *table, bool to_target,
							void (*forget) (CustomScanState *node));
extern void GjTableScanCheckRests(const GjTableScan *table, bool expected);
extern GjEntryRequest GjTableScanRequest(GjTableScan *table, Size limit);
extern GjSearchMemo *GjTableScanMemo(GjTableScan *table);
extern void GjTableScanRefilter(GjTableScan *table);
extern void GjTableScanStop(GjTableScan *table);
extern void GjTableScanEnd(GjTableScan *table);
extern void GjParallelMatch(GjTableScan *table, uint64 columns, Size limit, bool can_share);

/* Methods of a parallel-aware node */
extern Size GjParallelEstimate(CustomScanState *node, ParallelContext *pcxt);
extern void GjParallelInit(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void GjParallelReset(CustomScanState *node, ParallelContext *pcxt, void *shared);
extern void GjParallelAttach(CustomScanState *node, shm_toc *toc, void *shared);
extern void GjParallelShutdown(CustomScanState *node);

/*
 * Open the index for a scan of the table at scanrelid
 *
 * The executor locks tables, not indexes.  In the mode of the table's own lock, an index lock
 * cannot conflict unless the table's lock has conflicted already.
 */
static inline Relation
GjOpenIndex(EState *estate, Index scanrelid, Oid index_oid)
{
	return index_open(index_oid, exec_rt_fetch(scanrelid, estate)->rellockmode);
}

/*
 * Return one of the lists in the plan's private data
 */
static inline List *
GjTableScanGetPrivate(const GjTableScan *table, int item)
{
	const CustomScan *plan = (const CustomScan *) table->css.ss.ps.plan;

	Assert(list_length(plan->custom_private) >= GJ_TABLE_PRIVATE_COUNT);
	return (List *) list_nth(plan->custom_private, item);
}

/*
 * Return one of the plan's expressions, or a list of expressions
 */
static inline Node *
GjTableScanGetExpr(const GjTableScan *table, int item)
{
	const CustomScan *plan = (const CustomScan *) table->css.ss.ps.plan;

	Assert(list_length(plan->custom_exprs) >= GJ_TABLE_EXPRS_COUNT);
	return list_nth(plan->custom_exprs, item);
}

/*
 * Groups of rows that a device has made: an element of the answer to a reduction for each row here.
 * A row of a join may have a partner, or a weight, the number of its partners.
 */
typedef struct GjStateRows
{
	int			n;
	const uint64 *elements[GJ_BATCH_ROWS];
	uint32		weights[GJ_BATCH_ROWS];
	bool		has_partners;
	int			partner_natts;	/* number of columns of a partner */
	void	   *partners[GJ_BATCH_ROWS];
} GjStateRows;

/* In place of the number of a part: the next search of part 0, whose node makes several */
#define GJ_NEXT_SEARCH			(-1)

/* In place of a word of an element: a part of the key, which has a rest */
#define GJ_KEY_WORD				(-1)

/* A request to reduce the rows of a node: GjRowMethods */
typedef struct GjReduceRequest
{
	/* The wanted result.  Columns are those of the node's result, from 0 */
	bool		distinct;		/* true for the distinct values of a column, or of a key of two
								 * words, with no aggregates */
	bool		only_groups;	/* true if not even the number of a group's rows is wanted */
	bool		only_count;		/* true if the number of groups suffices; groups may be returned
								 * nevertheless */
	bool		by_partner;		/* true if groups also depend on the rows' partners */
	double		expected;		/* estimated number of groups */
	int			ngroups;
	int			groups[GJD_MAX_GROUP_COLUMNS];	/* columns by which rows are grouped */
	int			part;			/* for the reader: part to be asked, or GJ_NEXT_SEARCH */
	int			ncolumns;		/* for the reader: columns of its batches that are groups */
	int			columns[GJD_MAX_GROUP_COLUMNS];
	int			naggs;
	gjd_aggregate aggs[GJD_MAX_AGGREGATES];
	bool		(*fits) (void *arg, double ngroups);	/* does the caller have room for ngroups? */
	void		(*again) (void *arg);	/* asks the node again, before one of its searches */
	void	   *arg;
	MemoryContext context;		/* for the groups */

	/* Set by the node, if it makes several searches: prepares the next one, and calls "again" */
	void		(*ahead) (void *arg);
	void	   *ahead_arg;

	/* For the node that is asked */
	bool		by_key;			/* true if rows of different keys must be in different groups */
	uint32		most_partners;	/* maximum number of partners of a key; 0 if they do not matter */
	uint64		npartners;		/* by_partner: number of all small rows that may be partners */
	GjReduction reduction;
	int			group_words[GJD_MAX_GROUP_COLUMNS]; /* for each column of the groups: the word of an
													 * element that has it, or GJ_KEY_WORD, */
	int			group_bits[GJD_MAX_GROUP_COLUMNS];	/* and the bit of the second word that is set
													 * if it is NULL */
	int			words[GJD_MAX_AGGREGATES + 1];	/* first word of each aggregate in an element, and
												 * the number of all words */
	uint64		next;			/* next element */
	void	   *partner;		/* next partner of the element before it, or NULL */

	GjStateRows *rows;			/* filled by next_states(); none at the end */
} GjReduceRequest;

/*
 * Return the number of the part whose rows a request is about
 */
static inline int
GjRequestPart(int part)
{
	return part == GJ_NEXT_SEARCH ? 0 : part;
}

/* reduction.c */
extern bool GjReduceProve(const GjTableScan *table, const GjExact *exact,
						  GjReduceRequest *request);
extern bool GjReducePrepare(const GjTableScan *table, const GjRowShape *shape,
							GjReduceRequest *request);
extern double GjReduceMostGroups(const GjReduceRequest *request, uint64 nelements);
extern void GjReduceNext(GjReduceRequest *request);
extern int64 GjReduceKey(const GjReduceRequest *request, const uint64 *element, int64 *rest);

/*
 * Return the value that one of the device's current groups has in a column of the groups, which may
 * be a part of a uuid
 */
static inline Datum
GjReduceValue(const GjReduceRequest *request, int group, int row, int part, bool *isnull)
{
	const uint64 *element = request->rows->elements[row];
	int			word = request->group_words[group];
	int64		rest;
	int64		code;

	*isnull = (element[1] >> request->group_bits[group] & 1) != 0;
	if (word != GJ_KEY_WORD)
		return (Datum) element[word];
	code = GjReduceKey(request, element, &rest);
	return Int64GetDatum(GjWordOfPair(code, rest, part));
}

/* Statistics of ORDER BY ... LIMIT */
typedef struct GjOrderedStats
{
	uint64		batches;
	uint64		slices;			/* slices of the keys that were searched */
	uint64		rows;			/* entries that were kept in order, in all batches */
	uint64		limit;			/* if a device sent only the first entries: the number that was
								 * requested; otherwise 0 */
	uint64		repeats;		/* number of times that they were too few, and all were requested */
	uint64		sorts;			/* number of times that the rows after the last batch were sorted */
	uint64		sorted;			/* number of rows in these sorts */
	TuplesortInstrumentation sort;	/* method and memory of the last sort */
} GjOrderedStats;

/* Facts about a scan of a table for EXPLAIN, in addition to those in its GjTableScan */
typedef struct GjTableReport
{
	List	   *key_quals;		/* clauses that the index answers; NIL in a join's scan */
	List	   *order;			/* GJ_SCAN_ORDER, or NIL */
	List	   *sort_columns;	/* expressions of the order */
	const GjOrderedStats *ordered;	/* NULL if no search was made */
} GjTableReport;

/* Facts about a join */
typedef struct GjJoinReport
{
	const char *join_type;
	List	   *key_quals;		/* clause that the indexes answer */
	List	   *joinquals;		/* conditions for a pair to match */
	List	   *otherquals;		/* conditions for a result row to be returned */
	uint64		removed;		/* result rows removed by otherquals */
	uint64		small_rows;
	uint64		batches;		/* batches of the small side */
	Size		peak_memory;	/* bytes of the largest batch */
} GjJoinReport;

/* Facts about groups and aggregates */
typedef struct GjAggReport
{
	List	   *group_keys;		/* expressions, or NIL */
	bool		is_partial;
	bool		has_counters;	/* has the node been started?  Without it, the rest is not set */
	uint64		groups;
	uint64		batches;
	uint64		array_rows;		/* rows read as arrays */
	uint64		slot_rows;		/* rows read one by one */
	uint64		passes;
	uint64		flushes;		/* times that partial groups were returned before all rows were
								 * read */
	Size		peak_memory;	/* in bytes */
	uint64		disk_size;		/* in bytes */
} GjAggReport;

/* explain.c */
extern void GjExplainTable(GjTableScan *table, List *ancestors, ExplainState *es,
						   const GjTableReport *report);
extern void GjExplainJoin(CustomScanState *node, List *ancestors, ExplainState *es,
						  const GjJoinReport *report);
extern void GjExplainAgg(CustomScanState *node, List *ancestors, ExplainState *es,
						 const GjAggReport *report);

/* scan.c */
extern void GjExecScanInit(void);

/*-------------------------------------------------------------------------
 * The state of a running GpuScan, for scan.c, ordered.c and sorter.c only
 *-------------------------------------------------------------------------
 */

/* The times at which a cursor's position may be used: see "Cursors" in scan.c */
typedef enum GjCursor
{
	GJ_CURSOR_NONE,				/* never */
	GJ_CURSOR_RESTS,			/* while the query rests, between two FETCHes */
	GJ_CURSOR_RUNS				/* also while it runs */
} GjCursor;

typedef struct GjOrdered GjOrdered;

typedef struct GjScanState
{
	GjTableScan table;			/* must be first */
	GjKeyProgram *program;		/* conditions on the key */
	const GjRowShape *direct;	/* from entries of the current batch to the result slot; or NULL */
	bool		fills_slots;	/* may result slots be filled from tuples, as far as is known? */
	bool		knows_arrays;	/* has the table's array_shape been determined? */
	GjOrdered  *ordered;		/* NULL if rows are returned in any order */
	GjOrderedStats order_stats;
	GjCursor	cursor;
} GjScanState;

/* scan.c */
extern void GjScanPrepare(GjScanState *scan);
extern Size GjScanMemory(const GjScanState *scan);
extern bool GjScanWants(GjScanState *scan, TupleTableSlot *slot);
extern void GjScanStart(GjScanState *scan);
extern TupleTableSlot *GjScanNext(GjScanState *scan);
extern void GjNoteEntry(ScanState *node, GjCursor cursor, uint64 tid);

/* sorter.c */
typedef struct GjSorter GjSorter;

extern GjSorter *GjSorterCreate(const GjScanState *scan, const GjSortColumn *columns,
								const AttrNumber *attnos, int ncolumns);
extern void GjSorterBegin(GjSorter *sorter);
extern void GjSorterPut(GjSorter *sorter, TupleTableSlot *slot);
extern void GjSorterFinish(GjSorter *sorter, TuplesortInstrumentation *stats);
extern TupleTableSlot *GjSorterNext(GjScanState *scan, GjSorter *sorter);
extern void GjSorterEnd(GjSorter *sorter);

/* ordered.c */
extern GjOrdered *GjOrderedCreate(GjScanState *scan);
extern TupleTableSlot *GjOrderedNext(GjScanState *scan, ExecScanRecheckMtd recheck);
extern void GjOrderedRestart(GjScanState *scan);
extern void GjOrderedReset(GjOrdered *ordered);

/*
 * Record the position of the row for WHERE CURRENT OF, which looks for it in the scan slot.  The
 * slot must not appear empty, even if the row is in another one.  Its values are not used, and it
 * remains ready for the values of entries.
 */
static inline void
GjNotePlace(ScanState *node, const ItemPointerData *tid)
{
	TupleTableSlot *slot = node->ss_ScanTupleSlot;

	if (TTS_IS_VIRTUAL(slot))
		GjReadySlot(slot);
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_tid = *tid;
}

/*
 * Record that the position of the row is not known: WHERE CURRENT OF gets an error instead of the
 * impression that there is no row.
 */
static inline void
GjNoteNoPlace(ScanState *node)
{
	ItemPointerData nowhere;

	ItemPointerSetInvalid(&nowhere);
	GjNotePlace(node, &nowhere);
}

#endif							/* GPUJOIN_EXEC_H */
