/*-------------------------------------------------------------------------
 *
 * reduced.c
 *	  Groups and aggregates that a device has computed for a part of the rows.
 *
 * Before GpuAgg reads its child, it asks it to have a device reduce the rows (exec/reduction.c,
 * match/reduce.c).  The device returns a state of each aggregate for each group; these are merged
 * into the groups, and the rows that the device has left are read and added as usual.  So GpuAgg's
 * groups are complete, whatever part of the rows the device could reduce.  A join may search
 * several times, for batches of small rows or in several tables.  Then it asks for a request before
 * each search, in the middle of reading, and the device's groups are merged at once (reduce_again).
 *
 * Only exact integers are reduced, whose order does not matter: counts, sums, averages, minima and
 * maxima of columns of the index, and the number of distinct values of a single column, or of keys
 * that are uuids, each of which is a group.  Floats, numerics, FILTER, computed arguments and
 * columns of a join's small side as arguments are left to the CPU.
 * In a join the small side's columns can form groups, as each key's group is combined with the
 * key's partners (join/pairs.c).
 *
 * SELECT count(*) FROM (SELECT DISTINCT ...) needs only the number of groups, and count(DISTINCT)
 * only the number of values.  If no row is left for the CPU, the device sends no group or value,
 * but their number (GjAggReduce).  If rows are left, values are sent as bits, if they can be, and
 * only those groups that the rows may belong to, if there are many; the device may not be asked for
 * the keys of fresh rows at all (match/reduce.c).
 *
 * A device computes modulo 2^64 where PostgreSQL's state has 64 bits.  Sums of int8 come as two
 * sums, of the lower halves of the values, which are unsigned, and of the upper ones, which are
 * signed.
 *
 * The device's groups are merged only if there is memory for all of them; otherwise they are
 * discarded, and nothing is reduced.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "base/settings.h"
#include "agg.h"

/* The word of an element that has the number of rows */
#define ROWS_WORD				2

/* The words of an aggregate in an element: numbers of aggregates of the device */
typedef struct Source
{
	int			count;			/* number of values; -1: of rows */
	int			value;			/* -1: none */
} Source;

struct GjAggReducer
{
	int			naggs;
	Source	   *sources;		/* of each aggregate */
	GjReader   *reader;			/* of the rows to reduce */
	GjGroups   *groups;
	GjReduceRequest wanted;		/* with columns of the batch, from 0 */
	GjReduceRequest *request;	/* the same with columns of the child, of the current search */
	GjCombined	combined;		/* answers to be merged together */
	MemoryContext memory;		/* for requests; set by the first search of several at once */
	uint64	   *spare;			/* memory for the elements of another answer, or NULL */
	Size		spare_room;
	int			nat_once;		/* number of searches under way */
	int			nparts;			/* of the child */
	int			next_part;		/* first one that has not been asked for */
	bool		only_count;
	uint64		ncounted;		/* number of groups that have only been counted */

	/* The states of a batch of the answer that is being merged, for each aggregate */
	GjAggStates *states;
	uint64	   *counts;
	uint64	   *low;
	int64	   *high;
};

static bool reduced_add_column(GjReduceRequest *request, int ncolumns, const GjAggSpec *spec);
static bool add_aggregate(GjAggReducer *reducer, const GjAggSpec *spec, Source *source);
static int	reduced_add(GjReduceRequest *request, gjd_aggregate_kind kind, int column);
static void prepare_states(GjAggReducer *reducer);
static void reduced_reduce(GjAggReducer *reducer, int part, bool only_count);
static void add_answer(GjAggReducer *reducer);
static void end_requests(GjAggReducer *reducer);
static void merge_combined(GjAggReducer *reducer);
static void drop_request(GjAggReducer *reducer, GjReduceRequest *request);
static void reduce_ahead(void *arg);
static void reduce_again(void *arg);
static bool reduced_fits(void *arg, double ngroups);
static void add_count(GjAggReducer *reducer);
static void reduced_add_keys(GjAggReducer *reducer);
static bool add_bits(const GjReduction *reduction, GjGroups *groups);
static void add_values(const GjAggReducer *reducer);
static int	get_values(const GjReduction *reduction, uint64 i, int64 *values);
static void reduced_merge(GjAggReducer *reducer);
static void reduced_read_states(GjAggReducer *reducer);
static void read_values(GjAggReducer *reducer, int i, int at, bool is_wide);

/*
 * Return true if a device's columns may lack values.  (Those of a small side's rows are not the
 * device's.)
 */
static inline bool
has_strays(GjStrayKind kind)
{
	return kind != GJ_STRAY_NONE && kind < GJ_STRAY_TYPED;
}

/*
 * Prepare to have aggregates reduced, over a batch whose first ncolumns columns come from the
 * child.  Returns NULL if no device can compute them.
 */
GjAggReducer *
GjAggReducerCreate(int ncolumns, int ngroupings, const GjGroupSpec *groupings, int naggs,
				   const GjAggSpec *aggs, double expected)
{
	GjAggReducer *reducer = palloc0(sizeof(GjAggReducer));
	GjReduceRequest *request = &reducer->wanted;

	reducer->naggs = naggs;
	request->only_groups = true;
	request->expected = expected;
	reducer->sources = palloc0_array(Source, naggs);
	if (ngroupings > lengthof(request->groups))
		return NULL;
	for (int i = 0; i < ngroupings; i++)
	{
		if (groupings[i].column >= ncolumns || has_strays(groupings[i].stray_kind))
			return NULL;
		request->groups[request->ngroups++] = groupings[i].column;
	}
	for (int i = 0; i < naggs; i++)
	{
		request->only_groups &= aggs[i].kind == GJ_AGG_ONE_ROW;
		if (aggs[i].kind == GJ_AGG_ONE_ROW && !reduced_add_column(request, ncolumns, &aggs[i]))
			return NULL;
	}
	if (naggs == 1 && ngroupings == 0 &&
		(aggs[0].kind == GJ_AGG_COUNT_DISTINCT || aggs[0].kind == GJ_AGG_COUNT_PAIRS) &&
		aggs[0].filter < 0 && aggs[0].column < ncolumns && aggs[0].stray_kind == GJ_STRAY_NONE)
	{
		request->distinct = true;
		request->groups[request->ngroups++] = aggs[0].column;
		if (aggs[0].kind == GJ_AGG_COUNT_PAIRS)
			request->groups[request->ngroups++] = aggs[0].column + 1;
		return reducer;
	}
	for (int i = 0; i < naggs; i++)
	{
		if (aggs[i].filter >= 0 || aggs[i].column >= ncolumns ||
			has_strays(aggs[i].stray_kind) ||
			!add_aggregate(reducer, &aggs[i], &reducer->sources[i]))
			return NULL;
	}
	return reducer;
}

/*
 * Have the device group by a column of one row, too: then each of its groups has the values of some
 * row.  Returns false if it cannot.
 */
static bool
reduced_add_column(GjReduceRequest *request, int ncolumns, const GjAggSpec *spec)
{
	if (request->ngroups == lengthof(request->groups) || spec->column >= ncolumns ||
		spec->type == GJ_VALUE_FLOAT4 || spec->type == GJ_VALUE_FLOAT8)
		return false;
	request->groups[request->ngroups++] = spec->column;
	return true;
}

/*
 * Have the device compute an aggregate.  Returns false if it cannot.
 */
static bool
add_aggregate(GjAggReducer *reducer, const GjAggSpec *spec, Source *source)
{
	GjReduceRequest *request = &reducer->wanted;
	bool		is_float = spec->type == GJ_VALUE_FLOAT4 || spec->type == GJ_VALUE_FLOAT8;

	*source = (Source) {-1, -1};
	if (spec->kind == GJ_AGG_COUNT_ROWS || spec->kind == GJ_AGG_ONE_ROW)
		return true;
	source->count = reduced_add(request, GJD_COUNT_VALUES, spec->column);
	switch (spec->kind)
	{
		case GJ_AGG_COUNT:
			return source->count >= 0;
		case GJ_AGG_SUM:
		case GJ_AGG_AVG:
			source->value = reduced_add(request, GJD_SUM, spec->column);
			break;
		case GJ_AGG_MIN:
		case GJ_AGG_BOOL_AND:
			source->value = reduced_add(request, GJD_MIN, spec->column);
			break;
		case GJ_AGG_MAX:
		case GJ_AGG_BOOL_OR:
			source->value = reduced_add(request, GJD_MAX, spec->column);
			break;
		default:
			return false;
	}
	/* a device compares signed values */
	return source->count >= 0 && source->value >= 0 && !is_float && spec->type != GJ_VALUE_OID;
}

/*
 * Return the number of an aggregate of the device, or -1 if there are too many
 */
static int
reduced_add(GjReduceRequest *request, gjd_aggregate_kind kind, int column)
{
	for (int i = 0; i < request->naggs; i++)
	{
		if (request->aggs[i].kind == kind && request->aggs[i].column == column)
			return i;
	}
	if (request->naggs == GJD_MAX_AGGREGATES)
		return -1;
	request->aggs[request->naggs] = (gjd_aggregate) {.kind = kind,.column = column};
	return request->naggs++;
}

/*
 * Allocate the states of a batch, for one answer
 */
static void
prepare_states(GjAggReducer *reducer)
{
	MemoryContext context = reducer->request->context;
	Size		bytes = Max(reducer->naggs, 1) * GJ_BATCH_ROWS * sizeof(uint64);

	reducer->states = MemoryContextAllocZero(context, reducer->naggs * sizeof(GjAggStates));
	reducer->counts = MemoryContextAlloc(context, bytes);
	reducer->low = MemoryContextAlloc(context, bytes);
	reducer->high = MemoryContextAlloc(context, bytes);
	for (int i = 0; i < reducer->naggs; i++)
	{
		reducer->states[i].counts = reducer->counts + i * GJ_BATCH_ROWS;
		reducer->states[i].low = reducer->low + i * GJ_BATCH_ROWS;
		reducer->states[i].high = reducer->high + i * GJ_BATCH_ROWS;
	}
}

/*
 * Have a device reduce the rows that the reader is going to read, and add its groups to these,
 * which must have been begun.  If that is not possible, the reader will read all rows.
 *
 * Returns the number of groups that have only been counted, which is not zero only if the caller
 * says that it needs no more of them.  No other group, and no row that is left, is equal to one of
 * these.
 */
uint64
GjAggReduce(GjAggReducer *reducer, GjReader *reader, GjGroups *groups, bool only_count)
{
	int			nparts = GjReaderParts(reader);

	reducer->reader = reader;
	reducer->groups = groups;
	reducer->nparts = nparts;
	reducer->next_part = 0;
	/* parts may have equal groups */
	reducer->only_count = nparts == 1 && (only_count || reducer->wanted.distinct);
	reducer->ncounted = 0;
	reducer->wanted.fits = reduced_fits;
	reducer->wanted.arg = reducer;
	reducer->wanted.again = nparts == 1 ? reduce_again : NULL;
	while (reducer->next_part < nparts)
		reduced_reduce(reducer, reducer->next_part++, reducer->only_count);
	return reducer->ncounted;
}

/*
 * Have the rows of a part reduced, or those of the next search of the node, and merge the groups.
 *
 * While the device works, the next part or search is prepared, and its request is made, too, and so
 * on: so all requests are made before the answer to the first one is awaited, and devices work side
 * by side.  The last one's answer comes first.  Answers with the same keys are added up, and merged
 * when no request is under way (combine.c).
 */
static void
reduced_reduce(GjAggReducer *reducer, int part, bool only_count)
{
	GjReduceRequest *before = reducer->request;
	MemoryContext context;
	GjReduceRequest *request;

	if (reducer->nat_once == 0)
		reducer->memory = CurrentMemoryContext;
	context = AllocSetContextCreate(reducer->memory, "gpujoin reduction", ALLOCSET_DEFAULT_SIZES);
	request = MemoryContextAlloc(context, sizeof(GjReduceRequest));
	*request = reducer->wanted;
	request->part = part;
	request->only_count = only_count;
	request->context = context;
	request->reduction.context = reducer->memory;
	request->reduction.meanwhile = reduce_ahead;
	request->reduction.arg = reducer;
	reducer->request = request;
	reducer->nat_once++;
	if (GjReaderReduce(reducer->reader, request))
		add_answer(reducer);
	if (reducer->combined.request != request)
		drop_request(reducer, request);
	reducer->nat_once--;
	if (reducer->nat_once == 0 && reducer->next_part >= reducer->nparts)
		end_requests(reducer);
	reducer->request = before;
}

static void
add_answer(GjAggReducer *reducer)
{
	GjReduceRequest *request = reducer->request;
	const GjReduction *reduction = &request->reduction;

	if (GjCombineMay(request))
	{
		if (reducer->combined.request == NULL)
		{
			reducer->combined = (GjCombined) {.request = request};
			return;
		}
		if (GjCombineAdd(&reducer->combined, request))
			return;
	}
	request->rows = MemoryContextAlloc(request->context, sizeof(GjStateRows));
	GjReaderTurnTo(reducer->reader, request->part);
	if (!request->distinct)
	{
		if (request->only_count)
			reducer->ncounted += reduction->ngroups - reduction->nelements;
		reduced_merge(reducer);
	}
	else if (reduction->only_counted)
		add_count(reducer);
	else if (request->ngroups > 1)
		reduced_add_keys(reducer);
	else if (!add_bits(reduction, reducer->groups))
		add_values(reducer);
}

/*
 * Merge the answers that have been added up, and free all memory, as no request is under way
 */
static void
end_requests(GjAggReducer *reducer)
{
	if (reducer->combined.request != NULL)
		merge_combined(reducer);
	if (reducer->spare != NULL)
		pfree(reducer->spare);
	reducer->spare = NULL;
}

static void
merge_combined(GjAggReducer *reducer)
{
	GjReduceRequest *request = reducer->combined.request;

	request->rows = MemoryContextAlloc(request->context, sizeof(GjStateRows));
	GjReaderTurnTo(reducer->reader, request->part);
	reducer->request = request;
	reduced_merge(reducer);
	reducer->combined.request = NULL;
	drop_request(reducer, request);
}

/*
 * Forget a request, but keep the memory of its answer for another one: after it has been given back
 * to the kernel, its pages would have to be cleared again
 */
static void
drop_request(GjAggReducer *reducer, GjReduceRequest *request)
{
	GjReduction *reduction = &request->reduction;

	if (reducer->spare == NULL)
	{
		reducer->spare = reduction->words;
		reducer->spare_room = reduction->room;
	}
	else if (reduction->words != NULL)
		pfree(reduction->words);
	MemoryContextDelete(request->context);
}

/*
 * Begin the next search of those that are made at once, while a device works on the current one.
 * Afterwards the current answer may use the memory of those that have come meanwhile.
 */
static void
reduce_ahead(void *arg)
{
	GjAggReducer *reducer = arg;
	GjReduceRequest *request = reducer->request;
	GjReduction *reduction = &request->reduction;
	MemoryContext old = MemoryContextSwitchTo(reducer->memory);

	if (GjServiceMayAskMore() && !stack_is_too_deep())
	{
		if (request->ahead != NULL)
			request->ahead(request->ahead_arg);
		else if (reducer->next_part < reducer->nparts)
			reduced_reduce(reducer, reducer->next_part++, reducer->only_count);
	}
	if (reduction->words == NULL && reducer->spare != NULL)
	{
		reduction->words = reducer->spare;
		reduction->room = reducer->spare_room;
		reducer->spare = NULL;
	}
	MemoryContextSwitchTo(old);
}

/*
 * Have the rows of the next search of a node that makes several reduced, while its rows are being
 * read.  Two of them may have equal groups, as each has the rows of other keys, or of another
 * table.
 */
static void
reduce_again(void *arg)
{
	reduced_reduce(arg, GJ_NEXT_SEARCH, false);
}

/*
 * Return true if there is room for the groups of the current request, and of the answers that have
 * been added up, which become groups later.  If this one will be added to them, it has groups of
 * the same keys and partners; that is supposed as long as there is no answer.
 */
static bool
reduced_fits(void *arg, double ngroups)
{
	GjAggReducer *reducer = arg;
	const GjReduceRequest *request = reducer->request;
	const GjReduceRequest *kept = reducer->combined.request;
	uint64		nelements = request->reduction.nelements;

	if (kept != NULL && nelements > 0)
	{
		if (GjCombineCan(&reducer->combined, request))
			ngroups = GjReduceMostGroups(request, nelements + kept->reduction.nelements);
		else
			ngroups += GjReduceMostGroups(kept, kept->reduction.nelements);
	}
	return GjGroupsReserve(reducer->groups, (uint64) ngroups);
}

/*
 * Set the only aggregate to the number of distinct values: no other row has any
 */
static void
add_count(GjAggReducer *reducer)
{
	GjBatch		batch = {.nrows = 1};

	prepare_states(reducer);
	reducer->counts[0] = reducer->request->reduction.ngroups;
	GjGroupsMerge(reducer->groups, &batch, reducer->states);
}

/*
 * Add the distinct keys that a device has found
 */
static void
reduced_add_keys(GjAggReducer *reducer)
{
	const GjBatch *batch;

	while ((batch = GjReaderNextStates(reducer->reader, reducer->request)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		GjGroupsAdd(reducer->groups, batch);
	}
}

/*
 * Add the distinct values that a device has found, all at once.  Returns false, and adds nothing,
 * if they are not bits, or too many.
 */
static bool
add_bits(const GjReduction *reduction, GjGroups *groups)
{
	return reduction->asked.grouping == GJD_DISTINCT &&
		GjGroupsAddBits(groups, reduction->asked.least, reduction->words, reduction->nelements);
}

/*
 * Add the distinct values that a device has found, one by one
 */
static void
add_values(const GjAggReducer *reducer)
{
	const GjReduction *reduction = &reducer->request->reduction;
	int			column = reducer->wanted.groups[0];
	GjBatchColumn *columns = palloc0_array(GjBatchColumn, column + 1);
	int64	   *values = palloc_array(int64, GJ_BATCH_ROWS);
	GjBatch		batch = {.columns = columns};

	columns[column] = (GjBatchColumn) {
		.values = (const char *) values,.width = sizeof(int64)
	};
	for (uint64 i = 0; i < reduction->nelements; i++)
	{
		batch.nrows += get_values(reduction, i, values + batch.nrows);
		if (batch.nrows > GJ_BATCH_ROWS - 64 || i == reduction->nelements - 1)
		{
			CHECK_FOR_INTERRUPTS();
			GjGroupsAdd(reducer->groups, &batch);
			batch.nrows = 0;
		}
	}
	pfree(values);
	pfree(columns);
}

/*
 * Get the values, at most 64, that an element stands for: a word of a bitmap, or a group of one
 * column
 */
static int
get_values(const GjReduction *reduction, uint64 i, int64 *values)
{
	const uint64 *words = reduction->words + i * reduction->element_words;
	int			n = 0;

	if (reduction->asked.grouping == GJD_DISTINCT)
	{
		for (uint64 bits = words[0]; bits != 0; bits &= bits - 1)
			values[n++] = reduction->asked.least + i * 64 + pg_rightmost_one_pos64(bits);
	}
	else if (words[1] == 0)
		values[n++] = (int64) words[0];
	return n;
}

/*
 * Merge the groups that a device has made
 */
static void
reduced_merge(GjAggReducer *reducer)
{
	const GjBatch *batch;

	prepare_states(reducer);
	while ((batch = GjReaderNextStates(reducer->reader, reducer->request)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		reduced_read_states(reducer);
		GjGroupsMerge(reducer->groups, batch, reducer->states);
	}
}

/*
 * Read the states of all aggregates for the current rows
 */
static void
reduced_read_states(GjAggReducer *reducer)
{
	const GjReduceRequest *request = reducer->request;
	const GjStateRows *rows = request->rows;

	for (int i = 0; i < reducer->naggs; i++)
	{
		Source		source = reducer->sources[i];
		int			at = source.count < 0 ? ROWS_WORD : request->words[source.count];
		uint64	   *counts = reducer->counts + i * GJ_BATCH_ROWS;

		for (int row = 0; row < rows->n; row++)
			counts[row] = rows->elements[row][at];
		if (source.value >= 0)
			read_values(reducer, i, request->words[source.value],
						request->words[source.value + 1] - request->words[source.value] > 1);
	}
}

/*
 * Read the sums, minima or maxima of aggregate number i.  A sum in two words is put together from
 * that of the lower halves of the values and that of the upper ones.
 */
static void
read_values(GjAggReducer *reducer, int i, int at, bool is_wide)
{
	const GjStateRows *rows = reducer->request->rows;
	uint64	   *low = reducer->low + i * GJ_BATCH_ROWS;
	int64	   *high = reducer->high + i * GJ_BATCH_ROWS;

	for (int row = 0; row < rows->n; row++)
	{
		const uint64 *element = rows->elements[row];

		low[row] = element[at];
		high[row] = (int64) element[at] < 0 ? -1 : 0;
		if (is_wide)
		{
			int64		upper = (int64) element[at + 1];

			low[row] += (uint64) upper << 32;
			high[row] = (upper >> 32) + (low[row] < element[at]);
		}
	}
}
