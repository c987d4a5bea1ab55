/*-------------------------------------------------------------------------
 *
 * top.h
 *	  The first entries in an order, for ORDER BY ... LIMIT.
 *
 * Life cycle: create; start with the wanted number; add entries in any order (little more than
 * the wanted number are kept); finish.  Then GjTopCount() entries are available, in order, each
 * once.  Start again, if necessary for the entries after the last one; or keep only the last
 * entry, to tell which rows come after it.
 *
 * The order is total: the sort columns, then the TID.
 *
 * An entry that lacks a value of a sort column must not be added.  Its row is a *stray*: keep the
 * strays of all entries after the first start, and add them to each selection.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_SETS_TOP_H
#define GPUJOIN_SETS_TOP_H

#include "entryset.h"

/* How values of a type are compared */
typedef enum GjSortKind
{
	GJ_SORT_SIGNED,
	GJ_SORT_UUID,				/* two words, each like GJ_SORT_SIGNED */
	GJ_SORT_NUMERIC,			/* a word, like GJ_SORT_SIGNED, or none */
	GJ_SORT_UNSIGNED,
	GJ_SORT_FLOAT
} GjSortKind;

typedef struct GjSortColumn
{
	int			column;			/* index column, from 0: the key, then INCLUDE columns */
	GjSortKind	kind;
	uint16		width;			/* bytes of the type, or of a word; the index column may be wider */
	int			second;			/* index column with the second words of uuids */
	uint8		stored_scale;	/* of numerics: base/numeric.h */
	bool		descending;
	bool		nulls_first;
} GjSortColumn;

typedef struct GjTop GjTop;

extern bool GjTypeSorts(Oid type, GjSortKind *kind);
extern GjTop *GjTopCreate(MemoryContext parent, const GjSortColumn *columns, int ncolumns,
						  const GjEntryWidths *widths, uint64 kept);
extern Size GjTopEntryBytes(int nwords, Size kept);
extern uint64 GjTopMaxWanted(Size entry_bytes, Size limit);
extern Size GjTopSlotBytes(const GjTop *top);
extern void GjTopStart(GjTop *top, uint64 wanted, bool after_last, bool few);
extern void GjTopAdd(GjTop *top, const GjEntrySet *set, uint64 first, int n, const uint16 *rows,
					 int nrows);
extern void GjTopAddRow(GjTop *top, const Datum *values, const bool *isnull, uint64 tid);
extern bool GjTopKeepStray(GjTop *top, const Datum *values, const bool *isnull, uint64 tid,
						   Size limit);
extern void GjTopAddStrays(GjTop *top);
extern void GjTopFinish(GjTop *top);
extern uint64 GjTopCount(const GjTop *top);
extern uint64 GjTopDoubles(const GjTop *top);
extern uint64 GjTopTid(const GjTop *top, uint64 i);
extern uint64 GjTopRow(const GjTop *top, uint64 i);
extern const GjEntrySet *GjTopRows(const GjTop *top);
extern bool GjTopIsSame(const GjTop *top, uint64 i, const Datum *values, const bool *isnull);
extern void GjTopLeaveLast(GjTop *top);
extern int	GjTopCompareLast(const GjTop *top, const Datum *values, const bool *isnull);
extern uint64 GjTopLastTid(const GjTop *top);
extern void GjTopReset(GjTop *top);

/* Length of each batch, and the decision to sort the rest instead */
typedef struct GjTopBatches
{
	uint64		wanted;			/* length of the current batch */
	uint64		most;			/* number of entries that fit in memory */
	int			nbatches;
	double		delivered;		/* total length of the previous batches */
	double		spent;			/* total cost of the previous batches */
} GjTopBatches;

extern void GjTopBatchesStart(GjTopBatches *batches, uint64 bound, uint64 most);
extern bool GjTopBatchesNext(GjTopBatches *batches, uint64 n, double select, double searched,
							 double matched, bool from_heap);

#endif							/* GPUJOIN_SETS_TOP_H */
