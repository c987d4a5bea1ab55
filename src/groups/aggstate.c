/*-------------------------------------------------------------------------
 *
 * aggstate.c
 *	  States of an aggregate for all groups: initialization, updates by batches of rows, merging
 *	  of pending rows, and final and partial results.
 *
 * The loops know neither NULLs nor filters: if these exclude rows, the remaining rows are copied
 * together first.  Many aggregates have the same argument, so the selection is kept from one
 * aggregate to the next.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "libpq/pqformat.h"
#include "utils/array.h"
#include "utils/float.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "groupparts.h"

/*
 * Parts of a numeric as aggregates send it: digits of base 10000, highest first, no decimal point
 */
#define DIGIT_BASE				10000
#define MAX_DIGITS				10	/* of a 128-bit value */
#define SIGN_POSITIVE			0x0000
#define SIGN_NEGATIVE			0x4000

static void choose_state(GjAgg *agg);
static Size state_size(GjAggKind kind, GjValueType type);
static void set_limit(GjAgg *agg);
static void select_input(GjAgg *agg, const GjInput *input, const uint32 *numbers,
						 GjSelection *selection, GjAggInput *selected);
static void select_rows(GjSelection *selection, const GjInput *input, const uint32 *numbers);
static void begin_seen(GjAgg *agg, MemoryContext context, uint32 nsettled, uint32 capacity);
static void merge_values(GjAgg *agg, const uint32 *from, const uint32 *to, int n);
static void read_states(GjValueType type, const char *states, int n, int stride, Datum *values);
static Datum final_average(const GjAgg *agg, const void *state, bool *isnull);
static Datum wide_numeric(GjWideSum sum);
static Datum float_state(const GjFloatAverage *average);
static Datum int_state(const GjIntAverage *average);
static Datum wide_state(const GjWideAverage *average);
static void write_sum(StringInfo buf, GjWideSum sum);
static int	take_digits(GjWideSum sum, int16 *digits);

/*
 * Initialize an aggregate from its specification.  Registers the columns that it needs in
 * input.
 */
void
GjAggInit(GjAgg *agg, MemoryContext context, GjSpillFile *file, const GjAggSpec *spec,
		  bool is_grouped, GjInput *input)
{
	memset(agg, 0, sizeof(GjAgg));
	agg->spec = *spec;
	agg->argument = agg->filter = -1;
	if (spec->kind != GJ_AGG_COUNT_ROWS)
		agg->argument = GjInputAddColumn(input, spec->column, spec->type, true);
	if (spec->filter >= 0)
		agg->filter = GjInputAddColumn(input, spec->filter, GJ_VALUE_BOOL, true);
	choose_state(agg);
	if (spec->kind == GJ_AGG_COUNT_DISTINCT)
		agg->distinct = GjDistinctCreate(context, file, is_grouped, GjValueWidth(spec->type));
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
	GjValueType type = agg->spec.type;

	agg->state_size = state_size(kind, type);
	switch (kind)
	{
		case GJ_AGG_COUNT_ROWS:
		case GJ_AGG_COUNT:
			agg->update = GjCountRows;
			return;
		case GJ_AGG_COUNT_DISTINCT:
			if (is_float(type))
				break;
			return;
		case GJ_AGG_AVG:
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
			agg->may_be_null = true;
			set_limit(agg);
			break;
		case GJ_AGG_BOOL_AND:
		case GJ_AGG_BOOL_OR:
			agg->may_be_null = true;
			agg->initial[0] = (kind == GJ_AGG_BOOL_AND);
			break;
	}
	agg->update = is_float(type) ? GjFloatUpdate(kind, type) : GjIntUpdate(kind, type);
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
			return GjValueWidth(type);
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
	bool		is_min = agg->spec.kind == GJ_AGG_MIN;

	switch (agg->spec.type)
	{
		case GJ_VALUE_INT2:
			*(int16 *) agg->initial = is_min ? PG_INT16_MAX : PG_INT16_MIN;
			break;
		case GJ_VALUE_INT4:
			*(int32 *) agg->initial = is_min ? PG_INT32_MAX : PG_INT32_MIN;
			break;
		case GJ_VALUE_INT8:
			*(int64 *) agg->initial = is_min ? PG_INT64_MAX : PG_INT64_MIN;
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
		case GJ_VALUE_BOOL:
			break;
	}
}

/*
 * Find pairs of grouped min() and max() that can be updated together
 */
void
GjAggFindTwins(GjAgg *aggs, int naggs)
{
	for (int i = 0; i < naggs; i++)
	{
		GjAgg	   *min = &aggs[i];

		if (min->spec.kind != GJ_AGG_MIN || min->twin != NULL)
			continue;
		min->update_both = is_float(min->spec.type) ? GjFloatMinMax(min->spec.type) :
			GjIntMinMax(min->spec.type);
		for (int j = 0; j < naggs && min->update_both != NULL && min->twin == NULL; j++)
		{
			GjAgg	   *max = &aggs[j];

			if (max->spec.kind != GJ_AGG_MAX || max->twin != NULL ||
				max->argument != min->argument || max->filter != min->filter)
				continue;
			min->twin = max;
			max->twin = min;
		}
	}
}

/*
 * Allocate the states of `capacity` groups without initializing them.  Without a key there is one
 * group, which may have no rows.
 */
void
GjAggAllocate(GjAgg *agg, MemoryContext context, uint32 capacity, bool is_grouped)
{
	GjRegionFree(&agg->states);
	GjRegionFree(&agg->seen);
	agg->keeps_seen = false;
	GjRegionAllocate(&agg->states, context, capacity * agg->state_size);
	if (agg->may_be_null && !is_grouped)
		begin_seen(agg, context, 0, capacity);
	if (agg->distinct != NULL)
	{
		GjSpillForget(agg->distinct->spill);
		GjDistinctClear(agg->distinct);
	}
}

void
GjAggGrow(GjAgg *agg, MemoryContext context, uint32 nstarted, uint32 capacity)
{
	GjRegionGrow(&agg->states, context, nstarted * agg->state_size, capacity * agg->state_size);
	if (agg->keeps_seen)
		GjRegionGrow(&agg->seen, context, nstarted, capacity);
}

/*
 * Initialize the states of groups from first up to, but not including, end
 */
void
GjAggStart(GjAgg *agg, uint32 first, uint32 end)
{
	static const char zero[GJ_MAX_STATE] = {0};
	char	   *state = agg->states.start + first * agg->state_size;

	if (first == end)
		return;
	if (memcmp(agg->initial, zero, sizeof(zero)) == 0)
		memset(state, 0, (end - first) * agg->state_size);
	else
	{
		for (uint32 group = first; group < end; group++, state += agg->state_size)
			memcpy(state, agg->initial, agg->state_size);
	}
	if (agg->keeps_seen)
		memset(agg->seen.start + first, 0, end - first);
}

/* Return the bytes that each group takes, without its distinct values */
Size
GjAggGroupSize(const GjAgg *agg)
{
	return agg->state_size + (agg->may_be_null ? 1 : 0);
}

/*
 * Return the bytes that all groups take, without distinct values, but including the "seen" bytes
 * that will be needed once a row has no value
 */
Size
GjAggMemory(const GjAgg *agg)
{
	Size		seen = agg->may_be_null ? agg->states.size / agg->state_size : 0;

	return agg->states.size + Max(seen, agg->seen.size);
}

void
GjSelectionInit(GjSelection *selection, MemoryContext context)
{
	selection->nrows = -1;
	selection->rows = MemoryContextAlloc(context, GJ_BATCH_ROWS * sizeof(uint16));
	selection->groups = MemoryContextAlloc(context, GJ_BATCH_ROWS * sizeof(uint32));
	selection->weights = MemoryContextAlloc(context, GJ_BATCH_ROWS * sizeof(uint32));
	selection->values = MemoryContextAlloc(context, GJ_BATCH_ROWS * sizeof(uint64));
}

/*
 * Add the rows of a batch. numbers[] holds their groups, all of which have states; it is NULL if
 * there is only one group.  The first nsettled groups had rows before this batch.
 */
void
GjAggAdd(GjAgg *agg, MemoryContext context, const GjInput *input, const uint32 *numbers,
		 uint32 nsettled, uint32 capacity, GjSelection *selection)
{
	GjAggInput	selected;

	select_input(agg, input, numbers, selection, &selected);
	if (agg->may_be_null && !agg->keeps_seen && selected.nrows < input->nrows)
		begin_seen(agg, context, nsettled, capacity);
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
	else if (agg->twin == NULL)
		agg->update(agg->states.start, &selected);
	else if (agg->update_both != NULL)	/* a max() is updated with its twin */
		agg->update_both(agg->states.start, agg->twin->states.start, &selected);
}

/*
 * Add the rows of a batch, one run at a time.  Returns false, and does nothing, if the rows must
 * be processed one by one.
 */
bool
GjAggAddRuns(GjAgg *agg, const GjInput *input, const GjRuns *runs)
{
	const GjInputColumn *argument = agg->argument < 0 ? NULL : &input->columns[agg->argument];
	GjAggInput	rows = {0};

	if (agg->distinct != NULL || agg->filter >= 0 || agg->keeps_seen ||
		(argument != NULL && argument->nulls != NULL))
		return false;
	for (int run = 0; run < runs->nruns; run++)
	{
		int			first = runs->starts[run];

		rows.nrows = runs->starts[run + 1] - first;
		if (argument != NULL)
			rows.values = argument->values + first * argument->width;
		if (input->weights != NULL)
			rows.weights = input->weights + first;
		agg->update(agg->states.start + runs->groups[run] * agg->state_size, &rows);
	}
	return true;
}

/*
 * Start recording which groups have had a value.  All groups that had rows before have had one.
 */
static void
begin_seen(GjAgg *agg, MemoryContext context, uint32 nsettled, uint32 capacity)
{
	GjRegionAllocate(&agg->seen, context, capacity);
	memset(agg->seen.start, 1, nsettled);
	memset(agg->seen.start + nsettled, 0, capacity - nsettled);
	agg->keeps_seen = true;
}

/*
 * Select the rows that count for an aggregate
 */
static void
select_input(GjAgg *agg, const GjInput *input, const uint32 *numbers, GjSelection *selection,
			 GjAggInput *selected)
{
	const GjInputColumn *argument = agg->argument < 0 ? NULL : &input->columns[agg->argument];
	const GjInputColumn *filter = agg->filter < 0 ? NULL : &input->columns[agg->filter];
	const GjInputColumn *nullable = argument != NULL && argument->nulls != NULL ? argument : NULL;

	selected->nrows = input->nrows;
	selected->groups = numbers;
	selected->values = argument != NULL ? argument->values : NULL;
	selected->weights = input->weights;
	if (filter == NULL && nullable == NULL)
		return;

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
		GjGather(selection->values, argument->values, argument->width, selection->rows,
				 selection->nrows);
		selected->values = selection->values;
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
 * Merging states
 *
 * States of rows that have waited (defer.c): they are added to those of their groups.
 *
 * Such a state is of one row, or of some that stood side by side, and comes behind all rows that
 * the group's state has.  That of min(), max() and booleans looks like a value, and is added
 * like one.  Sums of floats are left out: added to each other, they would not be what PostgreSQL
 * gives for the rows in their order.
 *-------------------------------------------------------------------------
 */

bool
GjAggMayMerge(const GjAgg *agg)
{
	bool		is_float = agg->spec.type == GJ_VALUE_FLOAT4 || agg->spec.type == GJ_VALUE_FLOAT8;

	if (agg->spec.kind == GJ_AGG_SUM || agg->spec.kind == GJ_AGG_AVG)
		return !is_float;
	return agg->spec.kind != GJ_AGG_COUNT_DISTINCT;
}

/* Add one member of states to another's */
#define ADD(type, member) \
	do { \
		for (int i = 0; i < n; i++) \
			((type *) states)[to[i]] member += ((type *) states)[from[i]] member; \
	} while (0)

/* The same for a member that is a 128-bit sum */
#define ADD_WIDE(type, member) \
	do { \
		for (int i = 0; i < n; i++) \
			GjAddWide(&((type *) states)[to[i]] member, ((type *) states)[from[i]] member.low, \
					  ((type *) states)[from[i]] member.high); \
	} while (0)

/*
 * Merge the states of some rows into those of their groups, in order
 */
void
GjAggMerge(GjAgg *agg, const uint32 *from, const uint32 *to, int n)
{
	void	   *states = agg->states.start;
	bool		is_wide = agg->spec.type == GJ_VALUE_INT8;

	switch (agg->spec.kind)
	{
		case GJ_AGG_COUNT_ROWS:
		case GJ_AGG_COUNT:
			ADD(uint64,);
			break;
		case GJ_AGG_SUM:
			if (is_wide)
				ADD_WIDE(GjWideSum,);
			else
				ADD(uint64,);
			break;
		case GJ_AGG_AVG:
			if (is_wide)
			{
				ADD_WIDE(GjWideAverage, .sum);
				ADD(GjWideAverage, .count);
			}
			else
			{
				ADD(GjIntAverage, .sum);
				ADD(GjIntAverage, .count);
			}
			break;
		default:
			merge_values(agg, from, to, n);
			break;
	}
	for (int i = 0; agg->keeps_seen && i < n; i++)
		agg->seen.start[to[i]] |= agg->seen.start[from[i]];
}

/*
 * Merge states as if they were values.  A state that has seen no value must be skipped, because
 * it might replace a value that it equals.
 */
static void
merge_values(GjAgg *agg, const uint32 *from, const uint32 *to, int n)
{
	uint64		values[GJ_BATCH_ROWS];
	uint32		groups[GJ_BATCH_ROWS];
	GjAggInput	input = {.groups = groups,.values = values};

	Assert(n <= GJ_BATCH_ROWS && agg->state_size <= sizeof(uint64));
	for (int i = 0; i < n; i++)
	{
		if (agg->keeps_seen && !agg->seen.start[from[i]])
			continue;
		memcpy((char *) values + input.nrows * agg->state_size,
			   agg->states.start + from[i] * agg->state_size, agg->state_size);
		groups[input.nrows++] = to[i];
	}
	agg->update(agg->states.start, &input);
}

/*
 * Move n states to lower positions, overwriting states that are no longer needed
 */
void
GjAggMove(GjAgg *agg, uint32 from, uint32 to, uint32 n)
{
	memmove(agg->states.start + to * agg->state_size, agg->states.start + from * agg->state_size,
			n * agg->state_size);
	if (agg->keeps_seen)
		memmove(agg->seen.start + to, agg->seen.start + from, n);
}

/*-------------------------------------------------------------------------
 * Final values
 *
 * Results of aggregates from their states, by PostgreSQL's own arithmetic of numerics.
 *-------------------------------------------------------------------------
 */

/*
 * Return true if the result is the state itself.  If so, *type is set to its type.
 */
bool
GjAggIsState(const GjAgg *agg, GjValueType *type)
{
	bool		is_float = agg->spec.type == GJ_VALUE_FLOAT4 || agg->spec.type == GJ_VALUE_FLOAT8;

	switch (agg->spec.kind)
	{
		case GJ_AGG_COUNT_ROWS:
		case GJ_AGG_COUNT:
		case GJ_AGG_COUNT_DISTINCT:
			*type = GJ_VALUE_INT8;
			return true;
		case GJ_AGG_SUM:
			*type = is_float ? agg->spec.type : GJ_VALUE_INT8;
			return agg->spec.type != GJ_VALUE_INT8;
		case GJ_AGG_AVG:
			return false;
		default:
			*type = agg->spec.type;
			return true;
	}
}

/*
 * Get the results of n groups whose states are the results, storing one every `stride` values
 */
void
GjAggRead(const GjAgg *agg, uint32 first, int n, int stride, Datum *values, bool *isnull)
{
	const uint8 *seen = agg->may_be_null && agg->keeps_seen ?
		(const uint8 *) agg->seen.start + first : NULL;
	GjValueType type;

	if (!GjAggIsState(agg, &type))
		elog(ERROR, "results of aggregate %d are no states", (int) agg->spec.kind);
	read_states(type, agg->states.start + first * agg->state_size, n, stride, values);
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
	}
}

/*
 * Return the result of a group
 */
Datum
GjAggFinal(const GjAgg *agg, uint32 group, bool *isnull)
{
	const void *state = agg->states.start + group * agg->state_size;
	GjValueType type;
	Datum		value;

	if (GjAggIsState(agg, &type))
	{
		GjAggRead(agg, group, 1, 1, &value, isnull);
		return *isnull ? (Datum) 0 : value;
	}
	if (agg->spec.kind == GJ_AGG_AVG)
		return final_average(agg, state, isnull);
	*isnull = agg->may_be_null && agg->keeps_seen && !agg->seen.start[group];
	return *isnull ? (Datum) 0 : wide_numeric(*(const GjWideSum *) state);
}

static Datum
final_average(const GjAgg *agg, const void *state, bool *isnull)
{
	Datum		sum;
	int64		count;

	if (agg->spec.type == GJ_VALUE_FLOAT4 || agg->spec.type == GJ_VALUE_FLOAT8)
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
		sum = wide_numeric(((const GjWideAverage *) state)->sum);
	else
		sum = NumericGetDatum(int64_to_numeric((int64) ((const GjIntAverage *) state)->sum));
	return DirectFunctionCall2(numeric_div, sum, NumericGetDatum(int64_to_numeric(count)));
}

/*
 * Build a numeric from 128 bits: nearly always from the lower 64, otherwise from three pieces
 */
static Datum
wide_numeric(GjWideSum sum)
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
 * States of aggregates as another process of a parallel plan combines them.
 *
 * Above Gather PostgreSQL's own node combines states and finishes them.  So a state is what its
 * transition function keeps: the result itself (counts, sums in 64 bits and of floats, min, max
 * and booleans), an array (avg of int2, int4 and floats), or, of sum() and avg() of int8, what
 * int8_avg_serialize() writes.  PostgreSQL takes one state for both of these if they have the
 * same argument, so both are avg()'s, with the number of values.
 *-------------------------------------------------------------------------
 */

/*
 * Return the state of a group
 */
Datum
GjAggPartial(const GjAgg *agg, uint32 group, bool *isnull)
{
	const void *state = agg->states.start + group * agg->state_size;

	if (agg->spec.kind != GJ_AGG_AVG)
		return GjAggFinal(agg, group, isnull);

	/* not NULL even if there were no values */
	*isnull = false;
	switch (agg->spec.type)
	{
		case GJ_VALUE_FLOAT4:
		case GJ_VALUE_FLOAT8:
			return float_state(state);
		case GJ_VALUE_INT8:
			return wide_state(state);
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
	write_sum(&buf, average->sum);
	return PointerGetDatum(pq_endtypsend(&buf));
}

static void
write_sum(StringInfo buf, GjWideSum sum)
{
	int16		digits[MAX_DIGITS];
	bool		is_negative = sum.high < 0;
	int			n;

	if (is_negative)
	{
		sum.high = (int64) (~(uint64) sum.high + (sum.low == 0));
		sum.low = -sum.low;
	}
	n = take_digits(sum, digits);
	pq_sendint32(buf, n);
	pq_sendint32(buf, Max(n - 1, 0));	/* weight of the highest digit */
	pq_sendint32(buf, is_negative ? SIGN_NEGATIVE : SIGN_POSITIVE);
	pq_sendint32(buf, 0);		/* digits after the decimal point */
	while (n > 0)
		pq_sendint16(buf, digits[--n]);
}

/*
 * Split an unsigned 128-bit value into digits, lowest first
 */
static int
take_digits(GjWideSum sum, int16 *digits)
{
	uint32		pieces[] = {
		(uint64) sum.high >> 32, (uint32) sum.high, sum.low >> 32, (uint32) sum.low
	};
	int			n = 0;

	while ((pieces[0] | pieces[1] | pieces[2] | pieces[3]) != 0)
	{
		uint64		rest = 0;

		for (int i = 0; i < lengthof(pieces); i++)
		{
			rest = rest << 32 | pieces[i];
			pieces[i] = rest / DIGIT_BASE;
			rest %= DIGIT_BASE;
		}
		digits[n++] = (int16) rest;
	}
	return n;
}
