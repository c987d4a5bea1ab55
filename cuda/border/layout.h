/*
 * layout.h
 *	  Layout of a column in its extents, and the accepted values of parameters. Plain C,
 *	  shared by both libraries, so that they run out of memory at the same page and reject the
 *	  same parameters.
 */
#ifndef GPUJOIN_LAYOUT_H
#define GPUJOIN_LAYOUT_H

#include <string.h>

#include "gpujoin_device.h"

/* Lengths of the first version of structures that have grown since */
#define LAYOUT_COLUMN_PARAMS offsetof(gjd_column_params, nullable)
#define LAYOUT_KEYSET_PARAMS offsetof(gjd_keyset_params, rests)
#define LAYOUT_MATCH_PARAMS offsetof(gjd_match_params, want)
#define LAYOUT_REDUCTION offsetof(gjd_reduction, n_columns)

/*
 * Offsets of the arrays of carried columns in an extent with the given number of rows: after the
 * validity bits come the bitmaps of NULLs, then the values.
 */
static inline uint64_t
layout_nulls_at(const gjd_shape *shape, uint64_t rows, uint32_t c)
{
	return rows * (shape->key_bytes + 6) + rows / 8 * (1 + gjd_nullable_before(shape, c));
}

static inline uint64_t
layout_carried_at(const gjd_shape *shape, uint64_t rows, uint32_t c)
{
	return layout_nulls_at(shape, rows, shape->n_carried) + rows * gjd_carried_before(shape, c);
}

/* Then come the smallest and the greatest key of each strip of each page. */
static inline uint64_t
layout_bounds_at(const gjd_shape *shape, uint64_t rows)
{
	return layout_carried_at(shape, rows, shape->n_carried);
}

/* Returns the part that columns may take of a budget of whole extents. */
static inline uint64_t
layout_columns_limit(uint64_t budget, uint64_t scratch_reserve)
{
	uint64_t reserve = scratch_reserve;

	if (reserve == 0)
	{
		reserve = budget / 16;
		if (reserve < ((uint64_t) 64 << 20))
			reserve = (uint64_t) 64 << 20;
		if (reserve > ((uint64_t) 4 << 30))
			reserve = (uint64_t) 4 << 30;
	}
	if (reserve >= budget)
		return 0;
	return (budget - reserve) / GJD_EXTENT_BYTES * GJD_EXTENT_BYTES;
}

/*
 * Copies parameters into a structure of this version, which may be longer than the caller's;
 * missing members become zero. least is the length of the first version. Returns false if the
 * caller's structure is even shorter.
 */
static inline bool
layout_take_params(void *to, uint32_t bytes, const void *from, uint32_t least)
{
	uint32_t given;

	if (from == NULL)
		return false;
	memcpy(&given, from, sizeof(given));
	if (given < least)
		return false;
	memset(to, 0, bytes);
	memcpy(to, from, given < bytes ? given : bytes);
	return true;
}

/* Gets the shape that parameters describe; returns false if it is invalid. */
static inline bool
layout_take_shape(gjd_shape *shape, const gjd_column_params *params)
{
	shape->key_bytes = params->key_bytes;
	shape->slots = params->slots;
	shape->n_carried = params->n_carried;
	shape->nullable = params->nullable;
	memcpy(shape->carried_bytes, params->carried_bytes, sizeof(shape->carried_bytes));
	return gjd_shape_is_valid(shape);
}

/* Returns true if a key set can be made with these parameters. */
static inline bool
layout_keyset_is_valid(const gjd_keyset_params *params)
{
	return (params->key_bytes == 8 || (params->key_bytes == 4 && params->rests == NULL)) &&
		   (params->count == 0 || params->keys != NULL) && params->count <= (uint64_t) 1 << 31;
}

/*
 * Returns true if a column of this shape can answer a match with these parameters. The caller's
 * structure of a reduction may be of another version, so a copy of it is passed separately; NULL if
 * nothing is reduced.
 */
static inline bool
layout_match_is_valid(const gjd_match_params *params, const gjd_reduction *reduction,
					  const gjd_shape *shape)
{
	bool limited = params->top.limit > 0;

	if (reduction != NULL && (params->what != GJD_ENTRIES || params->any_order == 0 || limited ||
							  !gjd_reduction_is_valid(reduction, shape)))
		return false;
	if (limited && params->what != GJD_ENTRIES && params->what != GJD_TIDS)
		return false;
	return gjd_rest_is_valid(params->rest_column, shape) &&
		   gjd_top_is_valid(&params->top, shape) && (int) params->what >= GJD_COUNT &&
		   params->what <= GJD_ENTRIES &&
		   (params->what != GJD_ENTRIES ||
			(uint64_t) params->want.columns >> shape->n_carried == 0) &&
		   gjd_filter_is_valid(&params->filter, shape);
}

#endif
