/*-------------------------------------------------------------------------
 *
 * direct.c
 *	  Groups by one column whose values are close together: an array instead of a hash table.
 *
 * Typical columns are years, states and dense identifiers.  The value minus the lowest one is the
 * index of the group number.  The array grows with the range of values, until that is too wide
 * for the number of rows; then the groups move to the hash table for good.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groupparts.h"

#define GJ_DIRECT_FIRST			((uint64) 1024)

/* Rows whose groups are looked up with a single branch, if all have one */
#define GJ_KNOWN_ROWS			8

static bool find_range(const GjInputColumn *column, int nrows, int64 *low, int64 *high);
static void move_to(GjGroupTable *table, int64 low, uint64 span);
static uint32 add_group(GjGroupTable *table, int64 value, bool isnull);

/*
 * Replace the array by slots
 */
void
GjDirectEnd(GjGroupTable *table)
{
	Assert(table->phase == GJ_TABLE_DIRECT);
	table->direct_span = 0;
	GjRegionFree(&table->direct);
	GjTableMakeSlots(table, GjTableSlots(table->capacity));
}

/*
 * Extend the array to cover the values of the batch.  Returns false if it would have to be longer
 * than max_span.
 */
bool
GjDirectCover(GjGroupTable *table, const GjInput *input, uint64 max_span)
{
	const GjInputColumn *column = &input->columns[table->columns[0].input];
	int64		low;
	int64		high;
	uint64		needed;
	uint64		span = GJ_DIRECT_FIRST;
	bool		grows_down = false;

	Assert(table->phase == GJ_TABLE_DIRECT);
	if (!find_range(column, input->nrows, &low, &high))
		return true;
	if (table->direct_span > 0)
	{
		int64		covered_high = table->direct_low + (int64) (table->direct_span - 1);

		if (low >= table->direct_low && high <= covered_high)
			return true;
		grows_down = low < table->direct_low;
		low = Min(low, table->direct_low);
		high = Max(high, covered_high);
	}

	/* range minus 1, because the range itself may not fit */
	needed = (uint64) high - (uint64) low;
	if (needed >= max_span)
		return false;
	while (span <= needed)
		span *= 2;

	/* put the spare room on the side where the range grows, within the limits of the type */
	if (grows_down)
		low -= (int64) Min(span - 1 - needed, (uint64) low - (uint64) PG_INT64_MIN);
	else
		low = Min(low, PG_INT64_MAX - (int64) (span - 1));
	move_to(table, low, span);
	return true;
}

#define FIND_RANGE(type) \
	do { \
		const type *values = (const type *) column->values; \
		type		lowest = values[first]; \
		type		highest = values[first]; \
		for (int i = first; i < nrows; i++) \
		{ \
			bool		isnull = column->nulls != NULL && column->nulls[i]; \
			type		value = values[isnull ? first : i]; \
			lowest = Min(lowest, value); \
			highest = Max(highest, value); \
		} \
		*low = (int64) lowest; \
		*high = (int64) highest; \
	} while (0)

/*
 * Find the range of the values.  Returns false if all are NULL.
 */
static bool
find_range(const GjInputColumn *column, int nrows, int64 *low, int64 *high)
{
	int			first = 0;

	while (first < nrows && column->nulls != NULL && column->nulls[first])
		first++;
	if (first == nrows)
		return false;

	switch (column->type)
	{
		case GJ_VALUE_BOOL:
			FIND_RANGE(uint8);
			break;
		case GJ_VALUE_INT2:
			FIND_RANGE(int16);
			break;
		case GJ_VALUE_INT4:
			FIND_RANGE(int32);
			break;
		case GJ_VALUE_OID:
			FIND_RANGE(uint32);
			break;
		default:
			FIND_RANGE(int64);
			break;
	}
	return true;
}

static void
move_to(GjGroupTable *table, int64 low, uint64 span)
{
	GjRegion	old = table->direct;

	GjRegionAllocate(&table->direct, table->context, span * sizeof(uint32));
	memset(table->direct.start, 0, table->direct.size);
	if (table->direct_span > 0)
		memcpy((uint32 *) table->direct.start + ((uint64) table->direct_low - (uint64) low),
			   old.start, table->direct_span * sizeof(uint32));
	GjRegionFree(&old);
	table->direct_low = low;
	table->direct_span = span;
}

static pg_attribute_always_inline int64
direct_value_at(const char *values, int row, const GjValueType type)
{
	switch (type)
	{
		case GJ_VALUE_BOOL:
			return ((const uint8 *) values)[row];
		case GJ_VALUE_INT2:
			return ((const int16 *) values)[row];
		case GJ_VALUE_INT4:
			return ((const int32 *) values)[row];
		case GJ_VALUE_OID:
			return ((const uint32 *) values)[row];
		default:
			return ((const int64 *) values)[row];
	}
}

/*
 * Find the groups of rows without NULLs, several at a time, as long as each value is covered and
 * has a group.  Test both in the same loop; computing the batch's range first would need another
 * pass.  Returns the first of several rows of which at least one failed the test.
 */
static pg_attribute_always_inline int
find_known(const GjGroupTable *table, const char *values, int row, int nrows, uint32 *numbers,
		   const GjValueType type)
{
	const uint32 *direct = (const uint32 *) table->direct.start;
	const uint64 low = (uint64) table->direct_low;
	const uint64 span = table->direct_span;

	for (; row + GJ_KNOWN_ROWS <= nrows; row += GJ_KNOWN_ROWS)
	{
		uint32		all = 0;

		for (int i = 0; i < GJ_KNOWN_ROWS; i++)
		{
			uint64		at = (uint64) direct_value_at(values, row + i, type) - low;
			uint32		number;

			if (unlikely(at >= span))
				return row;
			number = direct[at] - 1;
			numbers[row + i] = number;
			all |= number;
		}
		/* a value without a group gives all bits set */
		if (unlikely(all > GJ_MAX_GROUPS))
			break;
	}
	return row;
}

/*
 * Find the group of a row, or create it.  Returns false if its value is not covered or there is
 * no room.
 */
static pg_attribute_always_inline bool
find_one(GjGroupTable *table, const GjInputColumn *column, int row, uint32 *number,
		 const GjValueType type)
{
	bool		isnull = column->nulls != NULL && column->nulls[row];
	int64		value = direct_value_at(column->values, row, type);
	uint64		at = (uint64) value - (uint64) table->direct_low;
	uint32	   *slot = &table->direct_null;

	if (!isnull && at >= table->direct_span)
		return false;
	if (!isnull)
		slot = (uint32 *) table->direct.start + at;
	if (unlikely(*slot == 0))
	{
		if (table->ngroups >= table->capacity)
			return false;
		*slot = add_group(table, value, isnull) + 1;
	}
	*number = *slot - 1;
	return true;
}

static pg_attribute_always_inline int
direct_find(GjGroupTable *table, const GjInputColumn *column, int row, int nrows, uint32 *numbers,
			const GjValueType type)
{
	while (row < nrows)
	{
		int			end = nrows;

		if (column->nulls == NULL)
		{
			row = find_known(table, column->values, row, nrows, numbers, type);
			end = Min(row + GJ_KNOWN_ROWS, nrows);
		}
		for (; row < end; row++)
		{
			if (!find_one(table, column, row, &numbers[row], type))
				return row;
		}
	}
	return row;
}

/*
 * Find the groups of rows, like GjTableFind(), but also stop at a row whose value is not covered
 */
int
GjDirectFind(GjGroupTable *table, const GjInput *input, int row, uint32 *numbers)
{
	const GjInputColumn *column = &input->columns[table->columns[0].input];

	Assert(table->phase == GJ_TABLE_DIRECT);
	switch (column->type)
	{
		case GJ_VALUE_BOOL:
			return direct_find(table, column, row, input->nrows, numbers, GJ_VALUE_BOOL);
		case GJ_VALUE_INT2:
			return direct_find(table, column, row, input->nrows, numbers, GJ_VALUE_INT2);
		case GJ_VALUE_INT4:
			return direct_find(table, column, row, input->nrows, numbers, GJ_VALUE_INT4);
		case GJ_VALUE_OID:
			return direct_find(table, column, row, input->nrows, numbers, GJ_VALUE_OID);
		default:
			return direct_find(table, column, row, input->nrows, numbers, GJ_VALUE_INT8);
	}
}

/*
 * Look up the groups of the rows, whether their values are covered or not, like GjTableLookUp()
 */
int
GjDirectLookUp(const GjGroupTable *table, const GjInput *input, uint16 *rows, uint32 *numbers,
			   uint16 *missed)
{
	const GjInputColumn *column = &input->columns[table->columns[0].input];
	const uint32 *direct = (const uint32 *) table->direct.start;
	int			nfound = 0;
	int			nmissed = 0;

	Assert(table->phase == GJ_TABLE_DIRECT);
	for (int row = 0; row < input->nrows; row++)
	{
		bool		isnull = column->nulls != NULL && column->nulls[row];
		uint64		at = (uint64) direct_value_at(column->values, row, column->type) -
			(uint64) table->direct_low;
		uint32		slot = isnull ? table->direct_null : at < table->direct_span ? direct[at] : 0;

		rows[nfound] = row;
		numbers[nfound] = slot - 1;
		nfound += slot != 0;
		missed[nmissed] = row;
		nmissed += slot == 0;
	}
	return nmissed;
}

/*
 * Create a group, with the record that packing would have made
 */
static uint32
add_group(GjGroupTable *table, int64 value, bool isnull)
{
	uint64		record[2] = {(uint64) value};

	if (isnull)
	{
		GjTableTakeNulls(table);
		record[0] = 0;
		record[table->null_bit / GJ_WORD_BITS] = (uint64) 1 << (table->null_bit % GJ_WORD_BITS);
	}
	else if (table->columns[0].width < sizeof(uint64))
		record[0] &= ((uint64) 1 << (table->columns[0].width * BITS_PER_BYTE)) - 1;
	table->ngroups++;
	memcpy((uint64 *) table->records.start + (Size) table->ngroups * table->nwords, record,
		   table->nwords * sizeof(uint64));
	return table->ngroups - 1;
}
