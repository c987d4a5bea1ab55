/*-------------------------------------------------------------------------
 *
 * aggstate.c
 *	  States of an aggregate for all groups: initialization, updates by batches of rows, the loops
 *	  over the rows, and final and partial results.
 *
 * The loops do not handle NULLs and filters: if these exclude rows, the remaining rows are
 * gathered first.  Many aggregates have the same argument, so the selection is kept from one
 * aggregate to the next.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/tupmacs.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/float.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "base/compat.h"
#include "base/numeric.h"
#include "groupparts.h"

/* Additions of floats between checks for interrupts */
#define GJ_UNINTERRUPTED		(1 << 20)

static void init_agg(GjAgg *agg, MemoryContext context, GjSpillFile *file, bool is_grouped,
					 Size sort_memory);
static void choose_state(GjAgg *agg);
static void choose_result(GjAgg *agg);
static Size state_size(GjAggKind kind, GjValueType type);
static void set_limit(GjAgg *agg);
static void take_first(GjAgg *agg, const GjInput *input, const GjRuns *runs,
					   const uint32 *numbers, uint32 nsettled, uint32 capacity);
static bool add_runs(GjAgg *agg, const GjInput *input, const GjRuns *runs);
static void spread_runs(GjRuns *runs, uint32 *numbers);
static void select_input(GjAgg *agg, const GjInput *input, const uint32 *numbers,
						 GjSelection **selections, GjAggInput *selected);
static void select_rows(GjSelection *selection, const GjInput *input, const uint32 *numbers);
static void begin_seen(GjAgg *agg, uint32 nsettled, uint32 capacity);
static void merge_sum(const GjAgg *agg, void *state, const GjAggStates *from, int i,
					  uint32 weight);
static void add_times(GjWideSum *sum, uint64 low, int64 high, uint32 weight);
static void merge_limits(GjAgg *agg, const GjAggStates *from, int n, const uint32 *numbers);
static void count_rows(void *states, const GjAggInput *input);
static GjAggUpdate find_loop(GjAggKind kind, GjValueType type);
static void read_states(GjValueType type, const char *states, int n, int stride, Datum *values);
static Datum final_result(const GjAgg *agg, uint32 group, bool *isnull);
static Datum partial_result(const GjAgg *agg, uint32 group, bool *isnull);
static Datum final_average(const GjAgg *agg, const void *state, bool *isnull);
static Datum float_state(const GjFloatAverage *average);
static Datum int_state(const GjIntAverage *average);
static Datum wide_state(const GjWideAverage *average);

/*
 * Initialize aggregates, whose specifications and input columns are set
 */
void
GjAggsInit(GjAgg *aggs, int naggs, MemoryContext context, GjSpillFile *file, bool is_grouped,
		   Size sort_memory)
{
	for (int i = 0; i < naggs; i++)
		init_agg(&aggs[i], context, file, is_grouped, sort_memory);
}

static void
init_agg(GjAgg *agg, MemoryContext context, GjSpillFile *file, bool is_grouped, Size sort_memory)
{
	agg->context = context;
	choose_state(agg);
	if (agg->spec.kind == GJ_AGG_COUNT_DISTINCT || agg->spec.kind == GJ_AGG_COUNT_PAIRS)
		agg->distinct = GjDistinctCreate(context, file, is_grouped, GjValueWidth(agg->spec.type),
										 agg->spec.kind == GJ_AGG_COUNT_PAIRS);
	choose_result(agg);
	/* the values of one row are keys */
	if (agg->spec.stray_kind != GJ_STRAY_NONE && agg->spec.kind != GJ_AGG_COUNT &&
		agg->spec.kind != GJ_AGG_ONE_ROW)
		agg->stray_sums = GjStraySumsCreate(context, sort_memory);
}

/*
 * Return the type whose states and loops an aggregate has
 */
static inline GjValueType
type_of_states(GjValueType type)
{
	return type == GJ_VALUE_NUMERIC ? GJ_VALUE_INT8 : type;
}

static inline bool
is_float(GjValueType type)
{
	return type == GJ_VALUE_FLOAT4 || type == GJ_VALUE_FLOAT8;
}

static void
choose_state(GjAgg *agg)
{
	GjAggKind	kind = agg->spec.kind;
	GjValueType type = type_of_states(agg->spec.type);

	agg->state_size = state_size(kind, type);
	switch (kind)
	{
		case GJ_AGG_COUNT_ROWS:
		case GJ_AGG_COUNT:
			agg->update = count_rows;
			return;
		case GJ_AGG_COUNT_DISTINCT:
			if (is_float(type))
				break;
			return;
		case GJ_AGG_COUNT_PAIRS:
			return;
		case GJ_AGG_ONE_ROW:
			agg->may_be_null = true;
			return;
		case GJ_AGG_AVG:
			break;
		case GJ_AGG_FORM:
			*(int32 *) agg->initial = -1;
			break;
		case GJ_AGG_SUM:
			agg->may_be_null = true;
			/* adding to -0 changes no number, not even -0 */
			if (type == GJ_VALUE_FLOAT4)
				*(float4 *) agg->initial = -0.0f;
			else if (type == GJ_VALUE_FLOAT8)
				*(float8 *) agg->initial = -0.0;
			break;
		case GJ_AGG_MIN:
		case GJ_AGG_MAX:
		case GJ_AGG_MIN_PAIR:
		case GJ_AGG_MAX_PAIR:
			agg->may_be_null = true;
			set_limit(agg);
			break;
		case GJ_AGG_BOOL_AND:
		case GJ_AGG_BOOL_OR:
			agg->may_be_null = true;
			agg->initial[0] = (kind == GJ_AGG_BOOL_AND);
			break;
	}
	agg->update = find_loop(kind, type);
	if (agg->update == NULL)
		elog(ERROR, "no aggregate of kind %d for values of type %d", (int) kind, (int) type);
}

static Size
state_size(GjAggKind kind, GjValueType type)
{
	switch (kind)
	{
		case GJ_AGG_SUM:
			if (type == GJ_VALUE_FLOAT4)
				return sizeof(float4);
			return type == GJ_VALUE_INT8 ? sizeof(GjWideSum) : sizeof(int64);
		case GJ_AGG_AVG:
			if (type == GJ_VALUE_FLOAT4 || type == GJ_VALUE_FLOAT8)
				return sizeof(GjFloatAverage);
			return type == GJ_VALUE_INT8 ? sizeof(GjWideAverage) : sizeof(GjIntAverage);
		case GJ_AGG_MIN:
		case GJ_AGG_MAX:
		case GJ_AGG_BOOL_AND:
		case GJ_AGG_BOOL_OR:
		case GJ_AGG_FORM:
		case GJ_AGG_ONE_ROW:
			return GjValueWidth(type);
		case GJ_AGG_MIN_PAIR:
		case GJ_AGG_MAX_PAIR:
			return sizeof(GjWordPair);
		default:
			return sizeof(int64);
	}
}

/*
 * Set the initial state: for min() a value that every value replaces or equals, likewise for
 * max()
 */
static void
set_limit(GjAgg *agg)
{
	bool		is_min = agg->spec.kind == GJ_AGG_MIN || agg->spec.kind == GJ_AGG_MIN_PAIR;

	switch (type_of_states(agg->spec.type))
	{
		case GJ_VALUE_INT2:
			*(int16 *) agg->initial = is_min ? PG_INT16_MAX : PG_INT16_MIN;
			break;
		case GJ_VALUE_INT4:
			*(int32 *) agg->initial = is_min ? PG_INT32_MAX : PG_INT32_MIN;
			break;
		case GJ_VALUE_INT8:
			*(int64 *) agg->initial = is_min ? PG_INT64_MAX : PG_INT64_MIN;
			if (agg->second >= 0)
				((GjWordPair *) agg->initial)->second = *(int64 *) agg->initial;
			break;
		case GJ_VALUE_OID:
			*(uint32 *) agg->initial = is_min ? PG_UINT32_MAX : 0;
			break;
		case GJ_VALUE_FLOAT4:
			*(float4 *) agg->initial = is_min ? get_float4_nan() : -get_float4_infinity();
			break;
		case GJ_VALUE_FLOAT8:
			*(float8 *) agg->initial = is_min ? get_float8_nan() : -get_float8_infinity();
			break;
		default:
			break;
	}
}

/*
 * Determine whether the result is the state itself, and whether states can be merged.  Sums of
 * floats cannot: merged sums would differ from the sum that PostgreSQL computes row by row.
 */
static void
choose_result(GjAgg *agg)
{
	GjAggKind	kind = agg->spec.kind;
	GjValueType type = agg->spec.type;
	bool		is_sum = kind == GJ_AGG_SUM || kind == GJ_AGG_AVG;

	agg->is_state = kind != GJ_AGG_AVG && kind != GJ_AGG_MIN_PAIR && kind != GJ_AGG_MAX_PAIR &&
		(kind != GJ_AGG_SUM || type != GJ_VALUE_INT8);
	agg->may_merge = is_sum ? !is_float(type) : agg->distinct == NULL && agg->is_state;
	if (type == GJ_VALUE_NUMERIC && kind != GJ_AGG_COUNT)
		agg->is_state = kind == GJ_AGG_COUNT_DISTINCT;
	switch (kind)
	{
		case GJ_AGG_COUNT_ROWS:
		case GJ_AGG_COUNT:
		case GJ_AGG_COUNT_DISTINCT:
		case GJ_AGG_COUNT_PAIRS:
			agg->state_type = GJ_VALUE_INT8;
			break;
		case GJ_AGG_SUM:
			agg->state_type = is_float(type) ? type : GJ_VALUE_INT8;
			break;
		default:
			agg->state_type = type;
			break;
	}
}

/*
 * Allocate the states of `capacity` groups without initializing them.  Without a key there is one
 * group, which may have no rows.
 */
void
GjAggAllocate(GjAgg *agg, uint32 capacity, bool is_grouped)
{
	GjRegionFree(&agg->states);
	GjRegionFree(&agg->seen);
	agg->keeps_seen = false;
	GjRegionAllocate(&agg->states, agg->context, capacity * agg->state_size);
	if (agg->may_be_null && !is_grouped)
		begin_seen(agg, 0, capacity);
	GjAggForget(agg);
}

/*
 * Forget what is known of groups beside their states
 */
void
GjAggForget(GjAgg *agg)
{
	if (agg->distinct != NULL)
		GjDistinctClear(agg->distinct);
	if (agg->stray_sums != NULL)
		GjStraySumsClear(agg->stray_sums);
}

/*
 * Return true if there are values that the aggregate's loops must not see
 */
static inline bool
may_have_strays(const GjAgg *agg)
{
	return agg->stray_sums != NULL && GjStraysExist(agg->spec.strays);
}

/*
 * Add the rows of a batch. numbers[] holds their groups, all of which have states; it is NULL if
 * there is only one group.  If the batch has runs, numbers[] is filled in only when it is needed.
 * The first nsettled groups had rows before this batch.
 */
void
GjAggAdd(GjAgg *agg, const GjInput *input, GjRuns *runs, uint32 *numbers, uint32 nsettled,
		 uint32 capacity, GjSelection **selection)
{
	GjAggInput	selected;

	if (agg->spec.kind == GJ_AGG_ONE_ROW)
	{
		take_first(agg, input, runs, numbers, nsettled, capacity);
		return;
	}
	if (runs->nruns > 0)
	{
		if (add_runs(agg, input, runs))
			return;
		spread_runs(runs, numbers);
	}
	select_input(agg, input, numbers, selection, &selected);
	if (may_have_strays(agg))
		GjStraySumsTake(agg->stray_sums, &agg->spec, &selected);
	if (agg->may_be_null && !agg->keeps_seen && selected.nrows < input->nrows)
		begin_seen(agg, nsettled, capacity);
	if (agg->keeps_seen)
	{
		uint8	   *seen = (uint8 *) agg->seen.start;

		if (selected.groups == NULL)
			seen[0] |= (selected.nrows > 0);
		else
		{
			for (int i = 0; i < selected.nrows; i++)
				seen[selected.groups[i]] = 1;
		}
	}

	if (selected.nrows == 0)
		return;
	if (agg->distinct != NULL)
		GjDistinctAdd(agg->distinct, &selected, (int64 *) agg->states.start);
	else
		agg->update(agg->states.start, &selected);
}

/*
 * Take the values of the first row of each group that had none before this batch.  All columns of
 * this kind take those of the same row, NULLs as well.
 */
static void
take_first(GjAgg *agg, const GjInput *input, const GjRuns *runs, const uint32 *numbers,
		   uint32 nsettled, uint32 capacity)
{
	const GjInputColumn *column = &input->columns[agg->argument];
	bool		in_runs = runs != NULL && runs->nruns > 0;

	if (column->nulls != NULL && !agg->keeps_seen)
		begin_seen(agg, nsettled, capacity);
	/* backwards, so that the first row stays */
	for (int i = in_runs ? runs->nruns : input->nrows; i-- > 0;)
	{
		int			row = in_runs ? runs->starts[i] : i;
		uint32		group = in_runs ? runs->groups[i] : numbers[i];

		if (group < nsettled)
			continue;
		memcpy(agg->states.start + group * agg->state_size, column->values + row * column->width,
			   column->width);
		if (agg->keeps_seen)
			agg->seen.start[group] = column->nulls == NULL || column->nulls[row] == 0;
	}
}

/*
 * Add the rows of a batch, one run at a time.  Returns false, and does nothing, if the rows must
 * be processed one by one.
 */
static bool
add_runs(GjAgg *agg, const GjInput *input, const GjRuns *runs)
{
	const GjInputColumn *argument = agg->argument < 0 ? NULL : &input->columns[agg->argument];
	const GjInputColumn *second = agg->second < 0 ? NULL : &input->columns[agg->second];
	GjAggInput	rows = {0};

	if (agg->distinct != NULL || agg->filter >= 0 || agg->keeps_seen || may_have_strays(agg) ||
		(argument != NULL && argument->nulls != NULL))
		return false;
	for (int run = 0; run < runs->nruns; run++)
	{
		int			first = runs->starts[run];

		rows.nrows = runs->starts[run + 1] - first;
		if (argument != NULL)
			rows.values = argument->values + first * argument->width;
		if (second != NULL)
			rows.seconds = second->values + first * second->width;
		if (input->weights != NULL)
			rows.weights = input->weights + first;
		agg->update(agg->states.start + runs->groups[run] * agg->state_size, &rows);
	}
	return true;
}

/*
 * Assign each row of the batch the number of its run's group
 */
static void
spread_runs(GjRuns *runs, uint32 *numbers)
{
	if (runs->is_spread)
		return;
	for (int run = 0; run < runs->nruns; run++)
	{
		uint32		group = runs->groups[run];

		for (int row = runs->starts[run]; row < runs->starts[run + 1]; row++)
			numbers[row] = group;
	}
	runs->is_spread = true;
}

/*
 * Start recording which groups have had a value.  All groups that had rows before have had one.
 */
static void
begin_seen(GjAgg *agg, uint32 nsettled, uint32 capacity)
{
	GjRegionAllocate(&agg->seen, agg->context, capacity);
	memset(agg->seen.start, 1, nsettled);
	memset(agg->seen.start + nsettled, 0, capacity - nsettled);
	agg->keeps_seen = true;
}

/*
 * Add states that were made elsewhere to those of their groups, whose numbers are as in GjAggAdd()
 */
void
GjAggMerge(GjAgg *agg, const GjInput *input, const GjAggStates *from, const GjBatch *batch,
		   const uint32 *numbers, uint32 nsettled, uint32 capacity)
{
	int			n = batch->nrows;
	bool		has_values = true;

	if (agg->spec.kind == GJ_AGG_ONE_ROW)
	{
		take_first(agg, input, NULL, numbers, nsettled, capacity);
		return;
	}
	for (int i = 0; agg->may_be_null && i < n; i++)
		has_values &= from->counts[i] > 0;
	if (!has_values && !agg->keeps_seen)
		begin_seen(agg, nsettled, capacity);
	for (int i = 0; agg->keeps_seen && i < n; i++)
		agg->seen.start[numbers == NULL ? 0 : numbers[i]] |= from->counts[i] > 0;

	if (agg->spec.kind >= GJ_AGG_MIN)
		merge_limits(agg, from, n, numbers);
	else
	{
		for (int i = 0; i < n; i++)
			merge_sum(agg, agg->states.start +
					  (numbers == NULL ? 0 : numbers[i]) * agg->state_size,
					  from, i, batch->weights == NULL ? 1 : batch->weights[i]);
	}
}

/*
 * Merge state number i of a count or a sum
 */
static void
merge_sum(const GjAgg *agg, void *state, const GjAggStates *from, int i, uint32 weight)
{
	bool		is_wide = agg->spec.type == GJ_VALUE_INT8;
	uint64		count = from->counts[i] * weight;

	switch (agg->spec.kind)
	{
		case GJ_AGG_COUNT_ROWS:
		case GJ_AGG_COUNT:
		case GJ_AGG_COUNT_DISTINCT:
			*(uint64 *) state += count;
			break;
		case GJ_AGG_SUM:
			if (is_wide)
				add_times(state, from->low[i], from->high[i], weight);
			else
				*(uint64 *) state += from->low[i] * weight;
			break;
		case GJ_AGG_AVG:
			if (is_wide)
			{
				add_times(&((GjWideAverage *) state)->sum, from->low[i], from->high[i], weight);
				((GjWideAverage *) state)->count += count;
			}
			else
			{
				((GjIntAverage *) state)->sum += from->low[i] * weight;
				((GjIntAverage *) state)->count += count;
			}
			break;
		default:
			elog(ERROR, "states of aggregate kind %d cannot be merged", (int) agg->spec.kind);
	}
}

/*
 * Add the multiple of a 128-bit number, modulo 2^128
 */
static void
add_times(GjWideSum *sum, uint64 low, int64 high, uint32 weight)
{
	uint64		lower = (low & PG_UINT32_MAX) * weight;
	uint64		upper = (low >> 32) * weight + (lower >> 32);

	GjAddWide(sum, upper << 32 | (lower & PG_UINT32_MAX),
			  (int64) ((uint64) high * weight + (upper >> 32)));
}

/*
 * Merge the states of min(), max() and of booleans, which have the form of values
 */
static void
merge_limits(GjAgg *agg, const GjAggStates *from, int n, const uint32 *numbers)
{
	uint64		values[GJ_BATCH_ROWS];
	uint32		groups[GJ_BATCH_ROWS];
	GjAggInput	input = {.groups = numbers == NULL ? NULL : groups,.values = values};

	for (int i = 0; i < n; i++)
	{
		if (from->counts[i] == 0)
			continue;
		store_att_byval((char *) values + input.nrows * agg->state_size, (Datum) from->low[i],
						agg->state_size);
		groups[input.nrows++] = numbers == NULL ? 0 : numbers[i];
	}
	agg->update(agg->states.start, &input);
}

/*
 * Select the rows that count for an aggregate
 */
static void
select_input(GjAgg *agg, const GjInput *input, const uint32 *numbers, GjSelection **selections,
			 GjAggInput *selected)
{
	GjSelection *selection = *selections;
	const GjInputColumn *argument = agg->argument < 0 ? NULL : &input->columns[agg->argument];
	const GjInputColumn *second = agg->second < 0 ? NULL : &input->columns[agg->second];
	const GjInputColumn *filter = agg->filter < 0 ? NULL : &input->columns[agg->filter];
	const GjInputColumn *nullable = argument != NULL && argument->nulls != NULL ? argument : NULL;

	selected->nrows = input->nrows;
	selected->groups = numbers;
	selected->values = argument != NULL ? argument->values : NULL;
	selected->seconds = second != NULL ? second->values : NULL;
	selected->weights = input->weights;
	if (filter == NULL && nullable == NULL)
		return;

	if (selection == NULL)
	{
		*selections = selection = MemoryContextAlloc(agg->context, sizeof(GjSelection));
		selection->nrows = -1;
	}
	if (selection->nrows < 0 || selection->argument != nullable || selection->filter != filter)
	{
		selection->argument = nullable;
		selection->filter = filter;
		select_rows(selection, input, numbers);
	}
	if (selection->nrows == input->nrows)
		return;
	selected->nrows = selection->nrows;
	if (numbers != NULL)
		selected->groups = selection->groups;
	if (input->weights != NULL)
		selected->weights = selection->weights;
	if (argument != NULL)
	{
		GjGather((char *) selection->values, argument->values, argument->width, selection->rows,
				 selection->nrows);
		selected->values = selection->values;
	}
	if (second != NULL)
	{
		GjGather((char *) selection->seconds, second->values, second->width, selection->rows,
				 selection->nrows);
		selected->seconds = selection->seconds;
	}
}

/*
 * Select the rows that pass the filter and whose argument is not NULL
 */
static void
select_rows(GjSelection *selection, const GjInput *input, const uint32 *numbers)
{
	const uint8 *nulls = selection->argument != NULL ? selection->argument->nulls : NULL;
	uint8		passes[GJ_BATCH_ROWS];
	int			n = 0;

	if (selection->filter != NULL)
	{
		const uint8 *filter = (const uint8 *) selection->filter->values;
		const uint8 *filter_nulls = selection->filter->nulls;

		for (int i = 0; i < input->nrows; i++)
			passes[i] = filter[i] != 0;
		for (int i = 0; filter_nulls != NULL && i < input->nrows; i++)
			passes[i] &= filter_nulls[i] == 0;
	}
	else
		memset(passes, 1, input->nrows);
	for (int i = 0; nulls != NULL && i < input->nrows; i++)
		passes[i] &= nulls[i] == 0;

	for (int i = 0; i < input->nrows; i++)
	{
		selection->rows[n] = i;
		n += passes[i];
	}
	selection->nrows = n;
	if (n == input->nrows)
		return;
	if (numbers != NULL)
		GjGather(selection->groups, numbers, sizeof(uint32), selection->rows, n);
	if (input->weights != NULL)
		GjGather(selection->weights, input->weights, sizeof(uint32), selection->rows, n);
}

/*-------------------------------------------------------------------------
 * Loops over integers and booleans
 *
 * In PostgreSQL, sum() and avg() of int2 and int4 have a 64-bit state that silently wraps around;
 * those of int8 are exact, so here they use 128 bits.  Without groups a loop is a plain reduction
 * that the compiler can vectorize.
 *-------------------------------------------------------------------------
 */

#define GJ_LOOP_PASTE(name, suffix)		name##_##suffix
#define GJ_LOOP_NAME(name, suffix)		GJ_LOOP_PASTE(name, suffix)
#define GJ_LOOP(name)					GJ_LOOP_NAME(name, GJ_SUFFIX)

#define GJ_VALUE		int16
#define GJ_SUFFIX		int2
#include "intloops.h"
#define GJ_VALUE		int32
#define GJ_SUFFIX		int4
#include "intloops.h"

#define GJ_YIELDS_TO_MIN(state, value)	((value) < (state))
#define GJ_YIELDS_TO_MAX(state, value)	((value) > (state))
#define GJ_VALUE		int16
#define GJ_SUFFIX		int2
#include "minmaxloops.h"
#define GJ_VALUE		int32
#define GJ_SUFFIX		int4
#include "minmaxloops.h"
#define GJ_VALUE		int64
#define GJ_SUFFIX		int8
#include "minmaxloops.h"
#define GJ_VALUE		uint32
#define GJ_SUFFIX		oid
#include "minmaxloops.h"

/* Count rows: count(*), or count(c) if the input has only the rows whose c is not NULL */
static void
count_rows(void *states, const GjAggInput *input)
{
	int64	   *counts = states;
	const uint32 *groups = input->groups;
	const uint32 *weights = input->weights;
	int			nrows = input->nrows;

	if (groups == NULL)
		counts[0] += GjTotalWeight(input->weights, input->nrows);
	else if (weights == NULL)
	{
		for (int i = 0; i < nrows; i++)
			counts[groups[i]]++;
	}
	else
	{
		for (int i = 0; i < nrows; i++)
			counts[groups[i]] += weights[i];
	}
}

static inline void
add_int8(GjWideSum *sum, int64 value)
{
	GjAddWide(sum, (uint64) value, -(int64) (value < 0));
}

/* Add value * weight as an upper and a lower half, each of which fits in 64 bits */
static inline void
add_int8_times(GjWideSum *sum, int64 value, uint32 weight)
{
	int64		upper = (value >> 32) * (int64) weight;
	uint64		lower = (uint64) (uint32) value * weight;

	GjAddWide(sum, (uint64) upper << 32, upper >> 32);
	GjAddWide(sum, lower, 0);
}

static inline void
add_all_int8(GjWideSum *sum, const GjAggInput *input)
{
	const int64 *values = input->values;
	int			nrows = input->nrows;
	int64		upper = 0;
	uint64		lower = 0;

	if (input->weights != NULL)
	{
		for (int i = 0; i < nrows; i++)
			add_int8_times(sum, values[i], input->weights[i]);
		return;
	}
	/* A batch has too few rows for the halves to overflow */
	for (int i = 0; i < nrows; i++)
	{
		upper += values[i] >> 32;
		lower += (uint32) values[i];
	}
	GjAddWide(sum, (uint64) upper << 32, upper >> 32);
	GjAddWide(sum, lower, 0);
}

static void
sum_int8(void *states, const GjAggInput *input)
{
	GjWideSum  *sums = states;
	const int64 *values = input->values;
	const uint32 *groups = input->groups;
	const uint32 *weights = input->weights;
	int			nrows = input->nrows;

	if (groups == NULL)
		add_all_int8(&sums[0], input);
	else if (weights == NULL)
	{
		for (int i = 0; i < nrows; i++)
			add_int8(&sums[groups[i]], values[i]);
	}
	else
	{
		for (int i = 0; i < nrows; i++)
			add_int8_times(&sums[groups[i]], values[i], weights[i]);
	}
}

static void
average_int8(void *states, const GjAggInput *input)
{
	GjWideAverage *averages = states;
	const int64 *values = input->values;
	const uint32 *groups = input->groups;
	const uint32 *weights = input->weights;
	int			nrows = input->nrows;

	if (groups == NULL)
	{
		add_all_int8(&averages[0].sum, input);
		averages[0].count += GjTotalWeight(input->weights, input->nrows);
	}
	else if (weights == NULL)
	{
		for (int i = 0; i < nrows; i++)
		{
			add_int8(&averages[groups[i]].sum, values[i]);
			averages[groups[i]].count++;
		}
	}
	else
	{
		for (int i = 0; i < nrows; i++)
		{
			add_int8_times(&averages[groups[i]].sum, values[i], weights[i]);
			averages[groups[i]].count += weights[i];
		}
	}
}

/* Return true if a is below b, which have words of texts or uuids */
static inline bool
is_below(GjWordPair a, GjWordPair b)
{
	return a.first < b.first || (a.first == b.first && a.second < b.second);
}

static void
min_pair(void *states, const GjAggInput *input)
{
	for (int i = 0; i < input->nrows; i++)
	{
		GjWordPair *least = (GjWordPair *) states + (input->groups == NULL ? 0 : input->groups[i]);
		GjWordPair	value = {((const int64 *) input->values)[i],
			((const int64 *) input->seconds)[i]};

		if (is_below(value, *least))
			*least = value;
	}
}

static void
max_pair(void *states, const GjAggInput *input)
{
	for (int i = 0; i < input->nrows; i++)
	{
		GjWordPair *greatest = (GjWordPair *) states +
			(input->groups == NULL ? 0 : input->groups[i]);
		GjWordPair	value = {((const int64 *) input->values)[i],
			((const int64 *) input->seconds)[i]};

		if (is_below(*greatest, value))
			*greatest = value;
	}
}

static void
bool_and(void *states, const GjAggInput *input)
{
	uint8	   *all = states;
	const uint8 *values = input->values;

	for (int i = 0; i < input->nrows; i++)
		all[input->groups == NULL ? 0 : input->groups[i]] &= values[i];
}

static void
bool_or(void *states, const GjAggInput *input)
{
	uint8	   *any = states;
	const uint8 *values = input->values;

	for (int i = 0; i < input->nrows; i++)
		any[input->groups == NULL ? 0 : input->groups[i]] |= values[i];
}

/*-------------------------------------------------------------------------
 * Loops over floats
 *
 * Each step is PostgreSQL's own, in the order of the rows, so that sums are the same to the last
 * bit, and errors are the same.  A row that stands for several is added that many times.
 *-------------------------------------------------------------------------
 */

/*
 * Additions since the last check for interrupts.  A batch has only 1024 rows, but each of them may
 * stand for any number of rows, so it is additions that are counted, across rows and batches.
 */
static uint64 nadditions = 0;

/*
 * Count additions, and check for interrupts from time to time
 */
static inline void
count_additions(uint32 n)
{
	nadditions += n;
	if (nadditions < GJ_UNINTERRUPTED)
		return;
	nadditions = 0;
	CHECK_FOR_INTERRUPTS();
}

/*
 * Perform a step of float8_accum().  The average needs the sum of squares only because its
 * overflow is an error.
 */
static inline GjFloatAverage
accumulate(GjFloatAverage average, float8 value)
{
	float8		n = average.n + 1.0;
	float8		sx = average.sx + value;
	float8		sxx = average.sxx;

	if (average.n > 0.0)
	{
		float8		deviation = value * n - sx;

		sxx += deviation * deviation / (n * average.n);
		if (unlikely(isinf(sx) || isinf(sxx)))
		{
			if (!isinf(average.sx) && !isinf(value))
				float_overflow_error();
			sxx = get_float8_nan();
		}
	}
	else if (isnan(value) || isinf(value))
		sxx = get_float8_nan();
	return (GjFloatAverage) {n, sx, sxx};
}

static void
accumulate_times(GjFloatAverage *average, float8 value, uint32 weight)
{
	while (weight > 0)
	{
		uint32		n = Min(weight, GJ_UNINTERRUPTED);

		for (uint32 i = 0; i < n; i++)
			*average = accumulate(*average, value);
		count_additions(n);
		weight -= n;
	}
}

#define GJ_VALUE		float4
#define GJ_SUFFIX		float4
#define GJ_PLUS			float4_pl
#include "floatloops.h"
#define GJ_VALUE		float8
#define GJ_SUFFIX		float8
#define GJ_PLUS			float8_pl
#include "floatloops.h"

/*
 * NaN is the greatest value.  Of two equal values, such as 0 and -0, the later one is kept.  The
 * first comparison nearly always decides, so usually no other is made.
 */
#undef GJ_YIELDS_TO_MIN
#undef GJ_YIELDS_TO_MAX
#define GJ_YIELDS_TO_MIN(state, value) \
	(!((state) < (value)) && (!isnan(value) || isnan(state)))
#define GJ_YIELDS_TO_MAX(state, value) \
	(!((state) > (value)) && (!isnan(state) || isnan(value)))
#define GJ_VALUE		float4
#define GJ_SUFFIX		float4
#include "minmaxloops.h"
#define GJ_VALUE		float8
#define GJ_SUFFIX		float8
#include "minmaxloops.h"

/*
 * Return the loop of an aggregate other than a count, or NULL if it is not supported
 */
static GjAggUpdate
find_loop(GjAggKind kind, GjValueType type)
{
	static const struct
	{
		GjAggKind	kind;
		GjValueType type;
		GjAggUpdate update;
	}			updates[] = {
		{GJ_AGG_SUM, GJ_VALUE_INT2, sum_int2},
		{GJ_AGG_SUM, GJ_VALUE_INT4, sum_int4},
		{GJ_AGG_SUM, GJ_VALUE_INT8, sum_int8},
		{GJ_AGG_SUM, GJ_VALUE_FLOAT4, sum_float4},
		{GJ_AGG_SUM, GJ_VALUE_FLOAT8, sum_float8},
		{GJ_AGG_AVG, GJ_VALUE_INT2, average_int2},
		{GJ_AGG_AVG, GJ_VALUE_INT4, average_int4},
		{GJ_AGG_AVG, GJ_VALUE_INT8, average_int8},
		{GJ_AGG_AVG, GJ_VALUE_FLOAT4, average_float4},
		{GJ_AGG_AVG, GJ_VALUE_FLOAT8, average_float8},
		{GJ_AGG_MIN, GJ_VALUE_INT2, min_int2},
		{GJ_AGG_MIN, GJ_VALUE_INT4, min_int4},
		{GJ_AGG_MIN, GJ_VALUE_INT8, min_int8},
		{GJ_AGG_MIN, GJ_VALUE_OID, min_oid},
		{GJ_AGG_MIN, GJ_VALUE_FLOAT4, min_float4},
		{GJ_AGG_MIN, GJ_VALUE_FLOAT8, min_float8},
		{GJ_AGG_MAX, GJ_VALUE_INT2, max_int2},
		{GJ_AGG_MAX, GJ_VALUE_INT4, max_int4},
		{GJ_AGG_MAX, GJ_VALUE_INT8, max_int8},
		{GJ_AGG_MAX, GJ_VALUE_OID, max_oid},
		{GJ_AGG_MAX, GJ_VALUE_FLOAT4, max_float4},
		{GJ_AGG_MAX, GJ_VALUE_FLOAT8, max_float8},
		{GJ_AGG_BOOL_AND, GJ_VALUE_BOOL, bool_and},
		{GJ_AGG_BOOL_OR, GJ_VALUE_BOOL, bool_or},
		{GJ_AGG_FORM, GJ_VALUE_INT4, max_int4},
		{GJ_AGG_MIN_PAIR, GJ_VALUE_INT8, min_pair},
		{GJ_AGG_MAX_PAIR, GJ_VALUE_INT8, max_pair}
	};

	for (int i = 0; i < lengthof(updates); i++)
	{
		if (updates[i].kind == kind && updates[i].type == type)
			return updates[i].update;
	}
	return NULL;
}

/*-------------------------------------------------------------------------
 * Final values
 *
 * Numeric results are computed by PostgreSQL's own functions.
 *-------------------------------------------------------------------------
 */

/*
 * Get the results of n groups whose states are the results, storing one every `stride` values
 */
void
GjAggRead(const GjAgg *agg, uint32 first, int n, int stride, Datum *values, bool *isnull)
{
	const uint8 *seen = agg->may_be_null && agg->keeps_seen ?
		(const uint8 *) agg->seen.start + first : NULL;

	Assert(agg->is_state);
	read_states(agg->state_type, agg->states.start + first * agg->state_size, n, stride, values);
	for (int i = 0; i < n; i++)
		isnull[i * stride] = seen != NULL && !seen[i];
}

#define READ(type, get_datum) \
	for (int i = 0; i < n; i++) \
		values[i * stride] = get_datum(((const type *) states)[i])

static void
read_states(GjValueType type, const char *states, int n, int stride, Datum *values)
{
	switch (type)
	{
		case GJ_VALUE_BOOL:
			READ(uint8, BoolGetDatum);
			break;
		case GJ_VALUE_INT2:
			READ(int16, Int16GetDatum);
			break;
		case GJ_VALUE_INT4:
			READ(int32, Int32GetDatum);
			break;
		case GJ_VALUE_OID:
			READ(Oid, ObjectIdGetDatum);
			break;
		case GJ_VALUE_INT8:
			READ(int64, Int64GetDatum);
			break;
		case GJ_VALUE_FLOAT4:
			READ(float4, Float4GetDatum);
			break;
		case GJ_VALUE_FLOAT8:
			READ(float8, Float8GetDatum);
			break;
		case GJ_VALUE_NUMERIC:
			elog(ERROR, "a word is not a result");
	}
}

/*
 * Return the result of a group: the final one, or the state for a parallel plan
 */
Datum
GjAggResult(const GjAgg *agg, uint32 group, bool is_partial, bool *isnull)
{
	return (is_partial ? partial_result : final_result) (agg, group, isnull);
}

static Datum
final_result(const GjAgg *agg, uint32 group, bool *isnull)
{
	const void *state = agg->states.start + group * agg->state_size;
	Datum		value;

	if (agg->is_state)
	{
		GjAggRead(agg, group, 1, 1, &value, isnull);
		return *isnull ? (Datum) 0 : value;
	}
	if (agg->spec.type == GJ_VALUE_NUMERIC)
		return GjNumericResult(agg, group, isnull);
	if (agg->spec.kind == GJ_AGG_MIN_PAIR || agg->spec.kind == GJ_AGG_MAX_PAIR)
		return GjTextResult(agg, group, isnull);
	if (agg->spec.kind == GJ_AGG_AVG)
		return final_average(agg, state, isnull);
	*isnull = agg->may_be_null && agg->keeps_seen && !agg->seen.start[group];
	return *isnull ? (Datum) 0 : GjWideNumeric(*(const GjWideSum *) state);
}

static Datum
final_average(const GjAgg *agg, const void *state, bool *isnull)
{
	Datum		sum;
	int64		count;

	if (is_float(agg->spec.type))
	{
		const GjFloatAverage *average = state;

		*isnull = average->n == 0.0;
		return *isnull ? (Datum) 0 : Float8GetDatum(average->sx / average->n);
	}

	if (agg->spec.type == GJ_VALUE_INT8)
		count = ((const GjWideAverage *) state)->count;
	else
		count = ((const GjIntAverage *) state)->count;
	*isnull = count == 0;
	if (*isnull)
		return (Datum) 0;

	if (agg->spec.type == GJ_VALUE_INT8)
		sum = GjWideNumeric(((const GjWideAverage *) state)->sum);
	else
		sum = NumericGetDatum(int64_to_numeric((int64) ((const GjIntAverage *) state)->sum));
	return DirectFunctionCall2(numeric_div, sum, NumericGetDatum(int64_to_numeric(count)));
}

/*
 * Build a numeric from 128 bits: nearly always from the lower 64, otherwise from three pieces
 */
Datum
GjWideNumeric(GjWideSum sum)
{
	Datum		shift;
	Datum		result;

	if (sum.high == -(int64) ((int64) sum.low < 0))
		return NumericGetDatum(int64_to_numeric((int64) sum.low));

	shift = NumericGetDatum(int64_to_numeric((int64) 1 << 32));
	result = NumericGetDatum(int64_to_numeric(sum.high));
	result = DirectFunctionCall2(numeric_mul, result, shift);
	result = DirectFunctionCall2(numeric_add, result,
								 NumericGetDatum(int64_to_numeric((int64) (sum.low >> 32))));
	result = DirectFunctionCall2(numeric_mul, result, shift);
	return DirectFunctionCall2(numeric_add, result,
							   NumericGetDatum(int64_to_numeric((int64) (uint32) sum.low)));
}

/*-------------------------------------------------------------------------
 * Partial states
 *
 * Above Gather, PostgreSQL's own node combines states and finishes them.  So a state has the
 * format of PostgreSQL's transition functions: the result itself (counts, sums in 64 bits and of
 * floats, min, max and booleans), an array (avg of int2, int4 and floats), or the output of
 * int8_avg_serialize() or numeric_avg_serialize() (sum and avg of int8 and numeric).  PostgreSQL
 * shares one state between sum() and avg() of these if they have the same argument, so both have
 * the state of avg(), with the number of values.
 *-------------------------------------------------------------------------
 */

/*
 * Return the state of a group
 */
static Datum
partial_result(const GjAgg *agg, uint32 group, bool *isnull)
{
	const void *state = agg->states.start + group * agg->state_size;

	if (agg->spec.kind != GJ_AGG_AVG)
		return final_result(agg, group, isnull);

	/* not NULL even if there were no values */
	*isnull = false;
	switch (agg->spec.type)
	{
		case GJ_VALUE_FLOAT4:
		case GJ_VALUE_FLOAT8:
			return float_state(state);
		case GJ_VALUE_INT8:
			return wide_state(state);
		case GJ_VALUE_NUMERIC:
			return GjNumericState(agg, group);
		default:
			return int_state(state);
	}
}

static Datum
float_state(const GjFloatAverage *average)
{
	Datum		values[] = {
		Float8GetDatum(average->n), Float8GetDatum(average->sx), Float8GetDatum(average->sxx)
	};

	return PointerGetDatum(construct_array(values, lengthof(values), FLOAT8OID, sizeof(float8),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

static Datum
int_state(const GjIntAverage *average)
{
	Datum		values[] = {
		Int64GetDatum(average->count), Int64GetDatum((int64) average->sum)
	};

	return PointerGetDatum(construct_array(values, lengthof(values), INT8OID, sizeof(int64),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

static Datum
wide_state(const GjWideAverage *average)
{
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendint64(&buf, average->count);
	if (GJ_INT8_SUM_IS_BINARY)
	{
		pq_sendint64(&buf, average->sum.high);
		pq_sendint64(&buf, average->sum.low);
	}
	else
		GjSendNumeric(&buf, GjWideNumeric(average->sum));
	return PointerGetDatum(pq_endtypsend(&buf));
}

/*
 * Append the sum of a serialized state to a buffer, and return its scale
 */
int
GjSendNumeric(StringInfo buf, Datum value)
{
	GjNumericParts parts;

	GjNumericRead((const struct varlena *) DatumGetPointer(value), &parts);
	pq_sendint32(buf, parts.ndigits);
	pq_sendint32(buf, parts.weight);
	pq_sendint32(buf, parts.is_negative ? 0x4000 : 0);	/* the sign */
	pq_sendint32(buf, parts.display_scale);
	for (int i = 0; i < parts.ndigits; i++)
	{
		int16		digit;

		memcpy(&digit, parts.digits + i * sizeof(digit), sizeof(digit));
		pq_sendint16(buf, digit);
	}
	return parts.display_scale;
}
