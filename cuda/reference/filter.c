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

static bool
is_null(const gjd_shape *shape, const char *image, uint32_t slot, uint32_t c)
{
	uint32_t word;

	if ((shape->nullable >> c & 1) == 0)
		return false;
	memcpy(&word, image + gjd_image_nulls_at(shape, c) + slot / 32 * 4, sizeof(word));
	return word >> slot % 32 & 1;
}

static bool
holds(const gjd_shape *shape, const gjd_condition *condition, const char *image, uint32_t slot)
{
	uint32_t bytes = shape->key_bytes;
	bool null = false;
	int64_t value;

	if (condition->column > 0)
	{
		uint32_t c = condition->column - 1;

		bytes = shape->carried_bytes[c];
		null = is_null(shape, image, slot, c);
		image += gjd_image_carried_at(shape, c);
	}
	value = read_value(image + (size_t) slot * bytes, bytes);
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

/* Returns true if a slot of a page passes all conditions. */
bool
passes(const gjd_filter *filter, const gjd_shape *shape, const char *image, uint32_t slot)
{
	for (uint32_t i = 0; i < filter->n; i++)
		if (!holds(shape, &filter->conditions[i], image, slot))
			return false;
	return true;
}
