/*-------------------------------------------------------------------------
 *
 * groups.h
 *	  Groups of rows and their aggregates, fed with batches of columns.
 *
 * Life: create; begin; add batches; finish; then ask for the groups, one after another.  What
 * there is no memory for is written to a temporary file, and makes more passes: after the last
 * group, GjGroupsNextPass() makes those of the next part of the rows.  Each group is whole.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_GROUPS_H
#define GPUJOIN_GROUPS_H

#include "node/aggplan.h"
#include "sets/sets.h"

typedef struct GjAggSpec
{
	GjAggKind	kind;
	GjValueType type;			/* of the argument */
	int			column;			/* of the batch, which is the argument; -1: none */
	int			filter;			/* column of the batch, a bool: only where it is true; -1: none */
} GjAggSpec;

/* A column by which rows are grouped: equal is what has equal bits.  NULLs are one group. */
typedef struct GjGroupSpec
{
	GjValueType type;			/* not a float */
	int			column;			/* of the batch */
} GjGroupSpec;

/* Of all that has been done since the groups were created */
typedef struct GjGroupsStats
{
	uint64		rows;			/* rows that the groups stand for */
	uint64		groups;			/* delivered */
	uint64		passes;
	Size		peak_memory;	/* bytes */
	uint64		disk_size;		/* bytes, the most that there were at a time */
} GjGroupsStats;

typedef struct GjGroups GjGroups;

extern uint16 GjValueWidth(GjValueType type);

/*
 * Create a set of groups.  Without ngroupings there is one group, which is there without any
 * row, too.  memory_limit: bytes, for the groups and for the sets behind count(DISTINCT); what
 * any set of groups begins with may exceed it: room for 1024 groups, 4096 distinct values, a
 * batch, and four blocks of a file.  All memory is below parent.  The specs are copied; one
 * column has one type in all of them.
 *
 * is_partial: the aggregates' values are states, for a parallel plan (aggstate.c), which
 * count(DISTINCT) has not.  Groups need not be whole then, and so nothing need be spilled: before
 * each batch, make room for it; where there is none, take what groups there are, and begin again.
 */
extern GjGroups *GjGroupsCreate(MemoryContext parent, Size memory_limit, bool is_partial,
								int ngroupings, const GjGroupSpec *groupings,
								int naggs, const GjAggSpec *aggs);

/* Say how many groups there will be, as far as is known; it need not be true */
extern void GjGroupsExpect(GjGroups *groups, double ngroups);

/*
 * Have at most so many groups in a pass, at least those that any set begins with; there is a
 * limit in any case.  Rows of more groups are spilled.
 */
extern void GjGroupsLimit(GjGroups *groups, uint32 most);

/* Begin, also for the first time: forget all groups and passes */
extern void GjGroupsBegin(GjGroups *groups);

/* Make room for a batch whose rows make a group each; false: there is no memory for that */
extern bool GjGroupsMakeRoom(GjGroups *groups);

/* Add the rows of a batch.  May raise an error that PostgreSQL's transition function raises. */
extern void GjGroupsAdd(GjGroups *groups, const GjBatch *batch);

/* All rows have been added */
extern void GjGroupsFinish(GjGroups *groups);

/*
 * Get the next group, about in the order in which they were first seen: values and isnull
 * have the groupings' columns, then the aggregates.  They may be changed, and are the caller's
 * until the next call.
 * Results that are passed by reference are allocated in CurrentMemoryContext.  False: there are
 * no more in this pass.
 */
extern bool GjGroupsNext(GjGroups *groups, Datum **values, bool **isnull);

/*
 * The same for who wants some columns of some groups: how many there are in this pass; a value
 * of the one that many ahead of the next one; and go on behind so many.
 */
extern uint64 GjGroupsRemaining(GjGroups *groups);
extern Datum GjGroupsValue(const GjGroups *groups, uint64 ahead, int column, bool *isnull);
extern void GjGroupsSkip(GjGroups *groups, uint64 n);

/* After the last group of a pass: make the groups of the next one.  False: there is none. */
extern bool GjGroupsNextPass(GjGroups *groups);

/* Deliver the groups of this pass from the first one on again; only if there was one pass */
extern bool GjGroupsRewind(GjGroups *groups);

extern const GjGroupsStats *GjGroupsGetStats(const GjGroups *groups);
extern void GjGroupsFree(GjGroups *groups);

#endif							/* GPUJOIN_GROUPS_H */
