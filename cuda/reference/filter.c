/*
 * filter.c
 *	  Filters in the reference library: a slot's values, tested one condition after another.
 */
#include "reference.h"

#include <string.h>

static int64_t
read_value(const char *value, uint32_t bytes)
{
	int8_t narrow;
	int16_t small;
	int32_t half;
	int64_t full;

	switch (bytes)
	{
		case 1:
			memcpy(&narrow, value, sizeof(narrow));
			return narrow;
		case 2:
			memcpy(&small, value, sizeof(small));
			return small;
		case 4:
			memcpy(&half, value, sizeof(half));
			return half;
		default:
			memcpy(&full, value, sizeof(full));
			return full;
	}
}

bool
is_null(const gjd_shape *shape, const char *image, uint32_t slot, uint32_t c)
{
	uint32_t word;

	if ((shape->nullable >> c & 1) == 0)
		return false;
	memcpy(&word, image + gjd_image_nulls_at(shape, c) + slot / 32 * 4, sizeof(word));
	return word >> slot % 32 & 1;
}

/* Returns the value of a column, 0 being the key, and carried column c being c + 1. */
int64_t
value_at(const gjd_shape *shape, const char *image, uint32_t slot, uint32_t column)
{
	uint32_t bytes = gjd_column_bytes(shape, column);

	if (column > 0)
		image += gjd_image_carried_at(shape, column - 1);
	return read_value(image + (size_t) slot * bytes, bytes);
}

/* Returns true if that column's value stands for one that did not fit into the index. */
bool
is_marked(const gjd_shape *shape, uint32_t marked, const char *image, uint32_t slot,
		  uint32_t column)
{
	if (column == 0 || (marked >> (column - 1) & 1) == 0 ||
		is_null(shape, image, slot, column - 1))
		return false;
	return value_at(shape, image, slot, column) ==
		   INT64_MIN >> (64 - 8 * shape->carried_bytes[column - 1]);
}

static bool
holds(const gjd_shape *shape, const gjd_condition *condition, const char *image, uint32_t slot)
{
	bool null = condition->column > 0 && is_null(shape, image, slot, condition->column - 1);
	int64_t value = value_at(shape, image, slot, condition->column);

	switch (condition->test)
	{
		case GJD_BETWEEN:
			return !null && value >= condition->low && value <= condition->high;
		case GJD_OUTSIDE:
			return !null && (value < condition->low || value > condition->high);
		case GJD_IS_NULL:
			return null;
		default:
			return !null;
	}
}

/* Returns true if a slot of a page passes all conditions; marked values pass those on them. */
bool
passes(const gjd_filter *filter, const gjd_shape *shape, uint32_t marked, const char *image,
	   uint32_t slot)
{
	for (uint32_t i = 0; i < filter->n; i++)
		if (!is_marked(shape, marked, image, slot, filter->conditions[i].column) &&
			!holds(shape, &filter->conditions[i], image, slot))
			return false;
	return true;
}
