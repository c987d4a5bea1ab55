/*-------------------------------------------------------------------------
 *
 * groupstest.h
 *	  Test of groups and aggregates: the rows of one test, and the functions that its files
 *	  share.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_TEST_GROUPSTEST_H
#define GPUJOIN_TEST_GROUPSTEST_H

#include "common/pg_prng.h"

#include "groups/groups.h"

#define MAX_COLUMNS				12
#define MAX_AGGS				10
#define MAX_ROWS				6000

/* One column of all rows */
typedef struct TestColumn
{
	GjValueType type;
	uint16		width;			/* in the batches */
	int64		ints[MAX_ROWS];
	double		floats[MAX_ROWS];
	bool		nulls[MAX_ROWS];
	bool		has_nulls;
} TestColumn;

typedef struct Test
{
	int			nrows;
	uint32	   *weights;
	int			ncolumns;
	TestColumn *columns[MAX_COLUMNS];
	int			ngroupings;
	GjGroupSpec groupings[MAX_COLUMNS];
	int			naggs;
	GjAggSpec	aggs[MAX_AGGS];
	Size		memory_limit;

	/* Rows in key order; each group's first row, then the end of the last group */
	int			order[MAX_ROWS];
	int			ngroups;
	int			firsts[MAX_ROWS + 1];
} Test;

/* groupsmake.c */
extern void GjMakeGroupsTest(Test *test, pg_prng_state *prng);
extern void GjMakeFloatTest(Test *test, pg_prng_state *prng, int number);

/* groupsexpect.c */
extern bool GjExpectAll(const Test *test);
extern Datum GjExpect(const Test *test, const GjAggSpec *agg, int group, bool *isnull);
extern bool GjIsOverflow(MemoryContext context);

/* groupsdistinct.c */
extern void GjCheckDistinctGroups(void);

/* groupsbits.c */
extern void GjCheckBits(void);

/* groupsorder.c */
extern void GjCheckOrderedGroups(void);

/* groupswait.c */
extern void GjCheckWaitingGroups(void);

/* groupstiming.c */
extern void GjTimeGroups(const char *pattern);

static inline int
random_below(pg_prng_state *prng, int n)
{
	return (int) (pg_prng_uint64(prng) % n);
}

#endif							/* GPUJOIN_TEST_GROUPSTEST_H */
