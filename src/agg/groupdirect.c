/*-------------------------------------------------------------------------
 *
 * groupdirect.c
 *	  Groups by one column whose values are close together: an array in the place of a
 *	  hash table.
 *
 * Years, states, dense identifiers: the value, less the lowest one, says where the number of
 * its group is.  The array grows with the range that is seen, until that is too wide for the
 * rows that there are; then the groups go to the hash table for good.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groupparts.h"

#define GJ_DIRECT_FIRST			((uint64) 1024)

static bool find_range(const GjInputColumn *column, int nrows, int64 *low, int64 *high);
static void move_to(GjGroupTable *table, int64 low, uint64 span);
static uint32 append(GjGroupTable *table, int64 value, bool isnull);

/*
 * Begin with an array for no value
 */
void
GjDirectBegin(GjGroupTable *table)
{
	table->is_direct = true;
	table->direct_span = 0;
	table->direct_null = 0;
	GjRegionFree(&table->direct);
	GjRegionFree(&table->slots);
	table->nslots = 0;
}

/*
 * Make slots of the array
 */
void
GjDirectEnd(GjGroupTable *table)
{
	table->is_direct = false;
	table->direct_span = 0;
	GjRegionFree(&table->direct);
	GjTableMakeSlots(table, GjTableSlots(table->capacity));
}

/*
 * See that the array covers the values of the batch; false if it would have to be longer
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

	/* One less than their number, which may not fit */
	needed = (uint64) high - (uint64) low;
	if (needed >= max_span)
		return false;
	while (span <= needed)
		span *= 2;

	/* What it is longer than needed is where it grows, within the range of the type */
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
		if (column->nulls == NULL) \
		{ \
			for (int i = first; i < nrows; i++) \
			{ \
				lowest = Min(lowest, values[i]); \
				highest = Max(highest, values[i]); \
			} \
		} \
		else \
		{ \
			for (int i = first; i < nrows; i++) \
			{ \
				type		value = column->nulls[i] ? values[first] : values[i]; \
				lowest = Min(lowest, value); \
				highest = Max(highest, value); \
			} \
		} \
		*low = (int64) lowest; \
		*high = (int64) highest; \
	} while (0)

/*
 * Find the range of the values; false if there are none but NULLs
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

#define FIND(type) \
	do { \
		const type *values = (const type *) column->values; \
		if (nulls == NULL) \
			FIND_ALL(type, false); \
		else \
			FIND_ALL(type, nulls[row] != 0); \
	} while (0)

#define FIND_ALL(type, is_null) \
	do { \
		for (; row < nrows; row++) \
		{ \
			uint32	   *slot = (is_null) ? &table->direct_null : \
				&direct[(uint64) (int64) values[row] - low]; \
			if (unlikely(*slot == 0)) \
			{ \
				if (table->ngroups >= table->capacity) \
					return row; \
				*slot = append(table, (int64) values[row], is_null) + 1; \
			} \
			numbers[row] = *slot - 1; \
		} \
	} while (0)

/*
 * Find the groups of rows, all of whose values are covered; as GjTableFind()
 */
int
GjDirectFind(GjGroupTable *table, const GjInput *input, int row, uint32 *numbers)
{
	const GjInputColumn *column = &input->columns[table->columns[0].input];
	const uint8 *nulls = column->nulls;
	uint32	   *direct = (uint32 *) table->direct.start;
	uint64		low = (uint64) table->direct_low;
	int			nrows = input->nrows;

	switch (column->type)
	{
		case GJ_VALUE_BOOL:
			FIND(uint8);
			break;
		case GJ_VALUE_INT2:
			FIND(int16);
			break;
		case GJ_VALUE_INT4:
			FIND(int32);
			break;
		case GJ_VALUE_OID:
			FIND(uint32);
			break;
		default:
			FIND(int64);
			break;
	}
	return row;
}

#define LOOK_UP(type) \
	do { \
		const type *values = (const type *) column->values; \
		for (int row = 0; row < input->nrows; row++) \
		{ \
			bool		isnull = nulls != NULL && nulls[row]; \
			uint64		at = (uint64) (int64) values[row] - low; \
			uint32		slot = isnull ? table->direct_null : \
				at < table->direct_span ? direct[at] : 0; \
			rows[nfound] = row; \
			numbers[nfound] = slot - 1; \
			nfound += slot != 0; \
			missed[nmissed] = row; \
			nmissed += slot == 0; \
		} \
	} while (0)

/*
 * Look for the groups of the rows, whether their values are covered or not; as GjTableLookUp()
 */
int
GjDirectLookUp(const GjGroupTable *table, const GjInput *input, uint16 *rows, uint32 *numbers,
			   uint16 *missed)
{
	const GjInputColumn *column = &input->columns[table->columns[0].input];
	const uint8 *nulls = column->nulls;
	const uint32 *direct = (const uint32 *) table->direct.start;
	uint64		low = (uint64) table->direct_low;
	int			nfound = 0;
	int			nmissed = 0;

	switch (column->type)
	{
		case GJ_VALUE_BOOL:
			LOOK_UP(uint8);
			break;
		case GJ_VALUE_INT2:
			LOOK_UP(int16);
			break;
		case GJ_VALUE_INT4:
			LOOK_UP(int32);
			break;
		case GJ_VALUE_OID:
			LOOK_UP(uint32);
			break;
		default:
			LOOK_UP(int64);
			break;
	}
	return nmissed;
}

/*
 * Make a group, with the record that packing would have made
 */
static uint32
append(GjGroupTable *table, int64 value, bool isnull)
{
	uint64		record[2] = {0};

	if (isnull)
	{
		GjTableTakeNulls(table);
		record[table->null_bit / GJ_WORD_BITS] = (uint64) 1 << (table->null_bit % GJ_WORD_BITS);
		return GjTableAppend(table, record);
	}
	record[0] = (uint64) value;
	if (table->columns[0].width < sizeof(uint64))
		record[0] &= ((uint64) 1 << (table->columns[0].width * BITS_PER_BYTE)) - 1;
	return GjTableAppend(table, record);
}
