/*-------------------------------------------------------------------------
 *
 * filter.h
 *	  Which entries of an index pass a scan's filters, decided on their columns.
 *
 * Life: made from the plan when the node begins; reset with each (re)scan, when params may have
 * other values; then run on entries, as many times as there are some.  What they are compared
 * with is evaluated before a match that tests entries, or when the first ones come.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_EXEC_FILTER_H
#define GPUJOIN_EXEC_FILTER_H

#include "nodes/execnodes.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "match/match.h"

typedef struct GjEntryFilter GjEntryFilter;

/* filter.c */
extern GjEntryFilter *GjEntryFilterInit(List *plan, List *values, PlanState *parent);
extern void GjEntryFilterReset(GjEntryFilter *filter);
extern uint64 GjEntryFilterColumns(const GjEntryFilter *filter);	/* bits as in GjFill */
extern Bitmapset *GjEntryFilterParams(const GjEntryFilter *filter);
extern int	GjEntryFilterRun(GjEntryFilter *filter, const GjBatchColumn *columns, int n,
							 uint16 *rows);
extern void GjEntryFilterTest(GjEntryFilter *filter, GjEntrySet *set);

/* filteredmatch.c */
extern int	GjFilterEntries(GjEntryFilter *filter, const GjEntrySet *set, uint64 first, int n,
							uint16 *rows);
extern GjTidSet *GjExecMatchFiltered(Relation heap, Relation index, Snapshot snapshot,
									 const GjKeySet *keys, GjEntryFilter *filter,
									 MemoryContext parent, Size limit, GjMatchStats *stats);

#endif							/* GPUJOIN_EXEC_FILTER_H */
