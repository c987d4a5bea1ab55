/*-------------------------------------------------------------------------
 *
 * groups.h
 *	  Groups of rows and their aggregates, fed with batches of columns.
 *
 * Life: create; begin; add batches; then ask for the groups, one after another.  A set of
 * groups that outgrows its memory keeps a part of them, those whose hash has a certain
 * remainder, and forgets the others: GjGroupsNextPass() says that the same rows are to be
 * added again, for the next part.  So each group is whole, and nothing is written to disk.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_GROUPS_H
#define GPUJOIN_GROUPS_H

#include "sets/batch.h"

/* What is computed.  The results are PostgreSQL's own, in type, value, NULL and error. */
typedef enum GjAggKind
{
	GJ_AGG_COUNT_ROWS,			/* count(*) */
	GJ_AGG_COUNT,				/* count(c) */
	GJ_AGG_COUNT_DISTINCT,		/* count(DISTINCT c) */
	GJ_AGG_SUM,
	GJ_AGG_AVG,
	GJ_AGG_MIN,
	GJ_AGG_MAX,
	GJ_AGG_BOOL_AND,
	GJ_AGG_BOOL_OR
} GjAggKind;

/* How the bits of a value are to be understood; date is int4, timestamp[tz] int8 */
typedef enum GjValueType
{
	GJ_VALUE_BOOL,
	GJ_VALUE_INT2,
	GJ_VALUE_INT4,
	GJ_VALUE_INT8,
	GJ_VALUE_OID,				/* four bytes without a sign */
	GJ_VALUE_FLOAT4,
	GJ_VALUE_FLOAT8
} GjValueType;

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

typedef struct GjGroupsStats
{
	uint64		rows;			/* rows that the groups stand for, of all passes' first reading */
	uint64		groups;			/* delivered */
	uint64		passes;
	Size		peak_memory;	/* bytes */
} GjGroupsStats;

typedef struct GjGroups GjGroups;

/*
 * Create a set of groups.  Without ngroupings there is one group, which is there without any
 * row, too.  memory_limit: bytes, for the groups and for the sets behind count(DISTINCT); a
 * single group may exceed it.  All memory is below parent.  The specs are copied.
 */
extern GjGroups *GjGroupsCreate(MemoryContext parent, Size memory_limit,
								int ngroupings, const GjGroupSpec *groupings,
								int naggs, const GjAggSpec *aggs);

/* Begin anew: forget all groups and passes */
extern void GjGroupsBegin(GjGroups *groups);

/* Add the rows of a batch.  May raise an error that PostgreSQL's transition function raises. */
extern void GjGroupsAdd(GjGroups *groups, const GjBatch *batch);

/*
 * Get the next group: values and isnull have the groupings' columns, then the aggregates.
 * Results that are passed by reference are allocated in CurrentMemoryContext.  False: there are
 * no more in this pass.
 */
extern bool GjGroupsNext(GjGroups *groups, Datum *values, bool *isnull);

/*
 * After the last group of a pass: prepare for the next one, for which all rows are to be added
 * again.  False: there is none.
 */
extern bool GjGroupsNextPass(GjGroups *groups);

/* Deliver the groups of this pass from the first one on again; only if there was one pass */
extern bool GjGroupsRewind(GjGroups *groups);

extern const GjGroupsStats *GjGroupsGetStats(const GjGroups *groups);
extern void GjGroupsFree(GjGroups *groups);

#endif							/* GPUJOIN_GROUPS_H */
