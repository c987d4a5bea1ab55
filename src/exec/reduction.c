/*-------------------------------------------------------------------------
 *
 * reduction.c
 *	  Whether the rows of a table should be reduced on a device, and what a device is asked for.
 *
 * A node above asks for groups and aggregates of the rows before it takes the first row.  If a
 * device can probably reduce them, the search for the table's keys is made as a reduction
 * (match/reduce.c).  It may turn out to be impossible; then the search is like any other.
 *
 * A reduction is asked for only if nothing but its key and columns decides what a row counts for:
 *
 *	- the rows come from entries, and no condition is left that entries are not tested by;
 *	- equal codes are equal keys, or a device compares the rests of keys, too (GjReduceProve);
 *	- the groups and the arguments of aggregates are columns of the index, and the key is one only
 *	  if its code is its value (find_column), or a group of a uuid, whose value code and rest tell;
 *	- entries can be rows under the snapshot: visible.c;
 *	- the node is not part of a parallel plan, and EvalPlanQual supplies no row.
 *
 * Nothing is reduced where several processes share a search, and below an Append that prunes while
 * it runs: each of these would need a proof of its own.
 *
 * It takes some microseconds more than another request, and pays off if many entries need not be
 * sent.  The number of rows is estimated from the number of keys, which is known now.  Groups of
 * several columns, or of a column whose range is not known or too wide, have a hash table on the
 * device, whose room is chosen by the planner's estimate.  If there are more groups, the device
 * refuses; if the caller has no memory for them, they are discarded.  Either way the rows are read
 * as if nothing had been asked.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/settings.h"
#include "service/service.h"
#include "exec.h"

/* Room for values outside of a known range, a multiple of 64 */
#define RANGE_MARGIN			64

/* Groups of columns need at least this many rows each on average */
#define MIN_ROWS_OF_GROUP		2.0

/* Room for groups of columns, as a multiple of the estimate, and at least */
#define ROOM_FACTOR				4.0
#define MIN_ROOM				65536.0

static bool reduction_may_prove(const GjTableScan *table);
static double expect_groups(const GjTableScan *table, const GjReduceRequest *request);
static bool may_reduce(const GjTableScan *table, const GjProofs *proofs);
static double estimate_rows(const GjTableScan *table);
static HeapTuple find_statistics(const GjTableScan *table, int column);
static bool guess_range(const GjTableScan *table, int column, uint64 limit,
						gjd_reduction *asked);
static void widen_range(HeapTuple statistics, int kind, int64 *least, int64 *greatest);
static int64 value_of(Datum value, Oid type);
static bool find_column(const GjTableScan *table, const GjRowShape *shape, int at,
						uint32 *column);
static bool is_key(const GjRowShape *shape, int at);
static bool choose_groups(const GjTableScan *table, const GjRowShape *shape,
						  GjReduceRequest *request);
static bool group_by_columns(const GjTableScan *table, GjReduceRequest *request,
							 const uint32 *columns);
static void find_words(const GjTableScan *table, GjReduceRequest *request);
static bool reduction_fits(void *arg, uint64 nelements);

/*
 * Have a device prove keys by their rests, if codes alone do not prove them.  The exact table has
 * the keys and nothing else.  Returns false if there should be no reduction.
 */
bool
GjReduceProve(const GjTableScan *table, const GjExact *exact, GjReduceRequest *request)
{
	GjIndexInfo info;

	if (!GjCodecHasPairs(&table->key_reader.codec))
		return true;
	if (exact == NULL || table->keys->entry_exact != NULL || !reduction_may_prove(table))
		return false;
	GjIndexGetInfo(table->index, &info);
	request->reduction.proofs = GjProofsCreate(request->context, table->keys, exact,
											   GjIndexSecondColumn(&info, 0));
	return request->reduction.proofs != NULL;
}

/*
 * Return true if it may be worth listing the keys with their rests
 */
static bool
reduction_may_prove(const GjTableScan *table)
{
	return gj_device_aggregate && (GjServiceCapabilities() & GJD_CAN_PROVE_RESTS) != 0 &&
		estimate_rows(table) >= gj_reduce_rows;
}

/*
 * Prepare a reduction of the rows of a table, whose keys are set.  The shape turns entries into
 * rows; columns of the request are those that it has.  Weights, if any, have been set in what is
 * asked.  Returns false if there should be no reduction.
 */
bool
GjReducePrepare(const GjTableScan *table, const GjRowShape *shape, GjReduceRequest *request)
{
	GjReduction *reduction = &request->reduction;
	gjd_reduction *asked = &reduction->asked;

	reduction->limit = get_hash_memory_limit() / 2;
	reduction->nkeys = GjCountListed(table->keys, reduction->proofs);
	if (shape == NULL || !may_reduce(table, reduction->proofs) ||
		!choose_groups(table, shape, request))
		return false;
	request->next = 0;
	request->partner = NULL;
	asked->n_aggregates = request->naggs;
	for (int i = 0; i < request->naggs; i++)
	{
		asked->aggregates[i] = request->aggs[i];
		if (!find_column(table, shape, request->aggs[i].column, &asked->aggregates[i].column))
			return false;
	}
	find_words(table, request);
	if ((gjd_reduction_capability(asked) & ~GjServiceCapabilities()) != 0 ||
		(!request->only_count && !request->distinct &&
		 !request->fits(request->arg, expect_groups(table, request))))
		return false;
	/* a group of NULLs is no value */
	reduction->groups_if_needed = request->only_count &&
		(!request->distinct || asked->grouping == GJD_DISTINCT);
	reduction->fits = reduction_fits;
	reduction->fits_arg = request;
	return true;
}

/*
 * Return the number of groups for which there should be memory before a device is asked: the
 * planner's estimate, but no more than the request can produce.  Memory for more of them would be
 * cleared for nothing.
 */
static double
expect_groups(const GjTableScan *table, const GjReduceRequest *request)
{
	const GjReduction *reduction = &request->reduction;

	return Min(Min(request->expected, table->css.ss.ps.plan->plan_rows),
			   GjReduceMostGroups(request, gjd_most_elements(&reduction->asked,
															 reduction->nkeys)));
}

static bool
may_reduce(const GjTableScan *table, const GjProofs *proofs)
{
	const EState *estate = table->css.ss.ps.state;
	const GjKeySet *keys = table->keys;
	const GjCodec *codec = &table->key_reader.codec;
	bool		codes_prove = keys->exact == NULL && table->key_reader.nparts == 0 &&
		!GjCodecMayHash(codec) && !GjCodecHasPairs(codec);

	return gj_device_aggregate && table->row_shape != NULL && table->share.found == NULL &&
		estate->es_epq_active == NULL && GjKeySetIsList(keys) && !GjKeySetIsEmpty(keys) &&
		!keys->nulls && (codes_prove || proofs != NULL) &&
		GjEntriesMayBeRows(estate->es_snapshot) && GjServiceReady(NULL) &&
		estimate_rows(table) >= gj_reduce_rows;
}

/*
 * Estimate the number of entries that have the keys, from the statistics of the key column
 */
static double
estimate_rows(const GjTableScan *table)
{
	double		ntuples = Max(table->css.ss.ss_currentRelation->rd_rel->reltuples, 0.0);
	HeapTuple	tuple = find_statistics(table, 0);
	double		ndistinct = 0.0;

	if (HeapTupleIsValid(tuple))
	{
		ndistinct = ((Form_pg_statistic) GETSTRUCT(tuple))->stadistinct;
		ReleaseSysCache(tuple);
	}
	if (ndistinct < 0.0)
		ndistinct *= -ntuples;
	if (ndistinct < 1.0)
		return table->css.ss.ps.plan->plan_rows;
	return Min(ntuples, GjKeySetCount(table->keys) * (ntuples / ndistinct));
}

/*
 * Return the statistics of a column of the index, or NULL
 */
static HeapTuple
find_statistics(const GjTableScan *table, int column)
{
	AttrNumber	attno = table->index->rd_index->indkey.values[column];
	Oid			relation = RelationGetRelid(table->css.ss.ss_currentRelation);

	if (attno <= 0)
	{
		relation = RelationGetRelid(table->index);
		attno = column + 1;
	}
	return SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relation), Int16GetDatum(attno),
						   BoolGetDatum(false));
}

/*
 * Guess the range of a column's values from its statistics.  Rows with other values are delivered
 * as entries.  Returns false if too little is known, or if the range exceeds the limit.
 */
static bool
guess_range(const GjTableScan *table, int column, uint64 limit, gjd_reduction *asked)
{
	HeapTuple	tuple = find_statistics(table, column);
	int64		least = PG_INT64_MAX;
	int64		greatest = PG_INT64_MIN;
	uint64		span;

	if (!HeapTupleIsValid(tuple))
		return false;
	widen_range(tuple, STATISTIC_KIND_HISTOGRAM, &least, &greatest);
	widen_range(tuple, STATISTIC_KIND_MCV, &least, &greatest);
	ReleaseSysCache(tuple);
	span = (uint64) greatest - (uint64) least;
	if (least > greatest || span >= limit - 4 * RANGE_MARGIN)
		return false;

	/* new values are often a little greater than the known ones */
	if (least > PG_INT64_MIN + RANGE_MARGIN)
		least -= RANGE_MARGIN;
	asked->column = column;
	asked->least = least;
	asked->span = TYPEALIGN64(RANGE_MARGIN, span + 3 * RANGE_MARGIN);
	return true;
}

/*
 * Extend a range to the values that the statistics have
 */
static void
widen_range(HeapTuple statistics, int kind, int64 *least, int64 *greatest)
{
	AttStatsSlot slot;

	if (!get_attstatsslot(&slot, statistics, kind, InvalidOid, ATTSTATSSLOT_VALUES))
		return;
	for (int i = 0; i < slot.nvalues; i++)
	{
		int64		value = value_of(slot.values[i], slot.valuetype);

		*least = Min(*least, value);
		*greatest = Max(*greatest, value);
	}
	free_attstatsslot(&slot);
}

/*
 * Return a value as a device compares it
 */
static int64
value_of(Datum value, Oid type)
{
	switch (get_typlen(type))
	{
		case 1:
			return DatumGetChar(value);
		case 2:
			return DatumGetInt16(value);
		case 4:
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

/*
 * Find the column of the index from which a column of the result is filled.  Returns false if the
 * column's bits are not the value.
 */
static bool
find_column(const GjTableScan *table, const GjRowShape *shape, int at, uint32 *column)
{
	const GjShapeOutput *output = GjShapeFind(shape, at);

	if (output == NULL)
		return false;
	*column = output->column;
	return output->by_value && (output->column > 0 || table->key_reader.codec.keeps_value);
}

/*
 * Return true if a column of the result is the index's key
 */
static bool
is_key(const GjRowShape *shape, int at)
{
	const GjShapeOutput *output = GjShapeFind(shape, at);

	return output != NULL && output->column == 0;
}

/*
 * Choose how a device has to group the rows
 *
 * The two words of a uuid are two columns of the groups.  If it is the key, the device groups rows
 * by code and rest, or by the number of such a pair.  Codes and rests are one to one with uuids.
 */
static bool
choose_groups(const GjTableScan *table, const GjRowShape *shape, GjReduceRequest *request)
{
	gjd_reduction *asked = &request->reduction.asked;
	bool		has_rests = request->reduction.proofs != NULL;
	bool		only_key = has_rests || (!request->distinct && request->ngroups <= 1);
	uint32		columns[GJD_MAX_GROUP_COLUMNS];

	for (int i = 0; i < request->ngroups; i++)
	{
		request->group_words[i] = request->group_bits[i] = 0;
		columns[i] = 0;
		if (has_rests && is_key(shape, request->groups[i]))
		{
			Assert(table->key_reader.codec.kind == GJ_CODEC_UUID);
			request->group_words[i] = GJ_KEY_WORD;
		}
		else if (!find_column(table, shape, request->groups[i], &columns[i]))
			return false;
		only_key &= columns[i] == 0;
	}
	if (request->ngroups == 0 || only_key)
	{
		asked->grouping = request->ngroups > 0 || request->by_key ? GJD_BY_KEY : GJD_ONE_GROUP;
		return true;
	}
	if (request->distinct && request->ngroups > 1)
		return false;
	if (request->ngroups == 1 && !request->by_key &&
		guess_range(table, columns[0], request->distinct ? GJD_MAX_DISTINCT : GJD_MAX_GROUPS,
					asked))
	{
		asked->grouping = request->distinct ? GJD_DISTINCT : GJD_BY_VALUE;
		return true;
	}
	return group_by_columns(table, request, columns);
}

/*
 * Have a device group rows by these columns, and by the key in front, with its rest if it has one,
 * if that must distinguish them, or is a uuid that forms groups.
 *
 * If nearly each row makes a group, then groups are no less than rows, and merging them takes three
 * times as long as adding rows.  So they are not sent: returns false, unless their number may be
 * enough, together with the groups that the device's rows share with others.
 */
static bool
group_by_columns(const GjTableScan *table, GjReduceRequest *request, const uint32 *columns)
{
	gjd_reduction *asked = &request->reduction.asked;
	double		expected = Max(request->expected, 1.0) *
		(request->by_key ? GjKeySetCount(table->keys) : 1);
	double		rows = estimate_rows(table);
	const GjProofs *proofs = request->reduction.proofs;
	int			key_columns = request->by_key ? proofs != NULL ? 2 : 1 : 0;
	int			ncolumns = 0;
	bool		are_many = !gj_force && expected > rows / MIN_ROWS_OF_GROUP;

	for (int i = 0; i < request->ngroups; i++)
	{
		if (request->group_words[i] == GJ_KEY_WORD)
			key_columns = 2;
		else
			ncolumns++;
	}
	if (ncolumns + key_columns > GJD_MAX_GROUP_COLUMNS ||
		(are_many && (!request->only_count || request->distinct ||
					  (GjServiceCapabilities() & GJD_CAN_TELL_SHARED) == 0)))
		return false;
	request->reduction.are_many = are_many;
	asked->grouping = GJD_BY_COLUMNS;
	asked->n_columns = key_columns;
	if (key_columns > 0)
		asked->columns[0] = 0;
	if (key_columns > 1)
		asked->columns[1] = proofs->column;
	for (int i = 0; i < request->ngroups; i++)
	{
		uint32		n;

		if (request->group_words[i] == GJ_KEY_WORD)
			continue;
		n = asked->n_columns++;
		asked->columns[n] = columns[i];
		request->group_words[i] = n == 0 ? 0 : GJD_GROUP_WORDS + n - 1;
		request->group_bits[i] = n;
	}
	asked->room = (uint64) Min(Max(Min(expected, rows) * ROOM_FACTOR, MIN_ROOM),
							   GJD_MAX_COLUMN_GROUPS);
	return true;
}

/*
 * Find the words of each aggregate, whose number depends on the width of its column in the index
 */
static void
find_words(const GjTableScan *table, GjReduceRequest *request)
{
	const gjd_reduction *asked = &request->reduction.asked;
	GjIndexInfo info;
	gjd_shape	shape;

	GjIndexGetInfo(table->index, &info);
	GjMirrorShape(&info, info.plain_slots, &shape);
	request->words[0] = gjd_group_words(asked);
	for (uint32 i = 0; i < asked->n_aggregates; i++)
		request->words[i + 1] = request->words[i] +
			gjd_aggregate_words(&asked->aggregates[i], &shape);
}

/*
 * Return true if the caller has memory for the groups that it gets from these elements
 */
static bool
reduction_fits(void *arg, uint64 nelements)
{
	GjReduceRequest *request = arg;

	return request->distinct ||
		request->fits(request->arg, GjReduceMostGroups(request, nelements));
}

/*
 * Return the maximum number of groups that elements make with the partners of their keys.  They may
 * be those of several answers for the same keys and partners.
 *
 * Where an element has all rows of a key, a small row makes no more than one group, so that a
 * single key with many partners does not count for all keys; nor does a key that has none.
 */
double
GjReduceMostGroups(const GjReduceRequest *request, uint64 nelements)
{
	const GjReduction *reduction = &request->reduction;
	double		most = (double) nelements * Max(request->most_partners, 1);

	if (reduction->asked.grouping != GJD_BY_KEY)
		return most;
	return Min(most, (double) (request->by_partner ? request->npartners : reduction->nkeys));
}

/*
 * Return the next groups as they come from the device, for a scan whose rows have no partners
 */
void
GjReduceNext(GjReduceRequest *request)
{
	const GjReduction *reduction = &request->reduction;
	GjStateRows *rows = request->rows;

	rows->n = 0;
	rows->has_partners = false;
	while (rows->n < GJ_BATCH_ROWS && request->next < reduction->nelements)
	{
		rows->weights[rows->n] = 1;
		rows->elements[rows->n++] = reduction->words +
			request->next++ * reduction->element_words;
	}
}

/*
 * Return the code of the key whose rows a group of the device has, and its rest, which is 0 if keys
 * have none
 */
int64
GjReduceKey(const GjReduceRequest *request, const uint64 *element, int64 *rest)
{
	const GjProofs *proofs = request->reduction.proofs;

	if (proofs == NULL)
	{
		*rest = 0;
		return (int64) element[0];
	}
	if (request->reduction.asked.grouping == GJD_BY_KEY)
	{
		*rest = proofs->rests[element[0]];
		return proofs->codes[element[0]];
	}
	*rest = (int64) element[GJD_GROUP_WORDS];
	return (int64) element[0];
}
