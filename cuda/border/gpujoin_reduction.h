/*
 * gpujoin_reduction.h
 *	  Reductions: rows that are added up where the column is, and the first rows of an order. Part
 *	  of gpujoin_device.h, which includes it.
 *
 * A reduction is a match with two results, made from one state of the column: groups, into which
 * it has reduced rows, and the rest, which is delivered as entries like that of any match. Each
 * row that matches and passes the filter is in one of the two, unless its page is left out. A row
 * is reduced only if the caller's copy of the visibility map says that all rows of its heap block
 * are visible. The library leaves out the pages that the caller names, and those whose copy has a
 * higher version than the caller's bound, which it lists. The caller must search all of these. So
 * the groups contain no row twice, and only rows that are known to be visible:
 * test/model/reduce.c.
 *
 * All results are exact integers that do not depend on the order of rows. An element of the result
 * is a group, in words of 64 bits:
 *
 *	0			the group's value: the key; if keys have rests, the number of key and rest in the
 *				set, from 0; or the value of the (first) column; 0 if it is NULL, and if all rows
 *				are one group
 *	1			1 if the value is NULL, otherwise 0; GJD_BY_COLUMNS: bit i is set if the value of
 *				columns[i] is NULL
 *	2			number of rows, each counted as often as the weight of its key says
 *	3 ...		GJD_BY_COLUMNS: the values of the other columns, in order, 0 for a NULL; then the
 *				words of each aggregate (gjd_aggregate_words), in order
 *
 * Groups without rows are not delivered, but for that of GJD_ONE_GROUP. Their order is undefined.
 *
 * GJD_BY_COLUMNS has room for a number of groups that the caller chooses. If and only if the rows
 * that would be reduced have more groups, match_poll() returns GJD_TOO_MANY, from the first time
 * that it would not return GJD_PENDING; nothing has been delivered then, and match_end() is the
 * only valid call.
 *
 * A caller that needs the number of groups, and has to add the rest to them, can set only_shared:
 * then a group of GJD_BY_COLUMNS is an element of the result only if a row of the rest has the same
 * values in the columns. All groups are counted.
 *
 * Where a small side repeats keys, a row is in the join once for each repetition. Keys may have
 * weights for that: a row counts as often as its key's weight says, in numbers of rows and values
 * and in sums. Rows of the rest do not: the caller joins them itself.
 */
#ifndef GPUJOIN_REDUCTION_H
#define GPUJOIN_REDUCTION_H

#include "gpujoin_shapes.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GJD_MAX_AGGREGATES 8
#define GJD_MAX_GROUPS ((uint64_t) 4 << 20)	   /* of GJD_BY_VALUE */
#define GJD_MAX_DISTINCT ((uint64_t) 64 << 20) /* span of GJD_DISTINCT */
#define GJD_MAX_LEFT_OUT 4096				   /* pages named by the caller */
#define GJD_MAX_NEWER 256					   /* pages left out because of the bound */
#define GJD_MAX_COLUMN_GROUPS ((uint64_t) 16 << 20) /* of GJD_BY_COLUMNS */
#define GJD_MAX_GROUP_COLUMNS 8				   /* of GJD_BY_COLUMNS */
#define GJD_GROUP_WORDS 3					   /* before other columns and aggregates */

/* How rows are grouped */
typedef enum gjd_grouping
{
	GJD_ONE_GROUP = 0,
	GJD_BY_KEY,	  /* a group for each key of the set */
	GJD_BY_VALUE, /* a group for each value of the column between least and least + span - 1, and
				   * one for NULL; other rows go to the rest */
	GJD_DISTINCT, /* no groups, but a bit for each value of that span; NULLs are only counted. The
				   * elements of the result are words of the bitmap, value least + 64 w + b is bit b
				   * of word w */
	GJD_BY_COLUMNS /* a group for each combination of values of some columns, NULLs being equal;
					* without aggregates, the distinct rows */
} gjd_grouping;

typedef enum gjd_aggregate_kind
{
	GJD_COUNT_VALUES = 0, /* one word: number of values that are not NULL */
	GJD_SUM, /* of up to four bytes: one word; of eight: two, the sum of the low halves, which are
			  * unsigned, and that of the high halves, which are signed; exact if the group's number
			  * of rows is at most 2^31 */
	GJD_MIN, /* one word; INT64_MAX if all values are NULL */
	GJD_MAX	 /* one word; INT64_MIN if all values are NULL */
} gjd_aggregate_kind;

typedef struct gjd_aggregate
{
	uint32_t kind;	 /* gjd_aggregate_kind */
	uint32_t column; /* 0: the key; otherwise carried column number column - 1 */
} gjd_aggregate;

/* match_begin() copies all memory that the members point to. */
typedef struct gjd_reduction
{
	uint32_t struct_size;
	uint32_t grouping; /* gjd_grouping */
	uint32_t column;   /* GJD_BY_VALUE, GJD_DISTINCT: as in gjd_aggregate */
	uint32_t n_aggregates; /* 0 for GJD_DISTINCT */
	gjd_aggregate aggregates[GJD_MAX_AGGREGATES];
	int64_t least;
	uint64_t span; /* a multiple of 64 for GJD_DISTINCT */

	/*
	 * Bit c: in carried column c the least value of its width stands for one that did not fit into
	 * the index. A row that has one passes all conditions on that column, and goes to the rest.
	 */
	uint32_t marked;

	/* Pages to leave out, ascending; and the highest version of a copy that is not left out. */
	uint32_t n_left_out;
	const uint32_t *left_out;
	uint64_t bound;

	/*
	 * All heap blocks below visible_below, a multiple of four, are all-visible. The map has two
	 * bits for each of the next ones; the lower one is set if the block is. Others are not.
	 */
	uint64_t visible_below;
	const uint8_t *map;
	uint64_t map_bytes;

	/* Optional: destination of the first groups, under the rules of a match's first_buffer */
	void *first_groups;
	uint64_t first_capacity; /* in elements */

	/*
	 * GJD_BY_COLUMNS: the columns, each as in gjd_aggregate, and the room for groups, on which the
	 * memory depends.
	 */
	uint32_t n_columns;
	uint32_t columns[GJD_MAX_GROUP_COLUMNS];
	uint32_t only_shared; /* groups without a row of the rest are only counted */
	uint64_t room;

	/*
	 * For each key of the set, in the order of the set: its weight, at least 1. n_keys must be the
	 * set's own count (gjd_keyset_info). Without weights, each is 1.
	 */
	uint64_t n_keys;
	const uint32_t *weights; /* not for GJD_DISTINCT */
} gjd_reduction;

/* State of a reduction, beside the match's own, whose items are the rest */
typedef struct gjd_reduced
{
	uint32_t struct_size;
	uint32_t element_bytes; /* of the result: a group, or a word of GJD_DISTINCT */
	uint64_t rows;			/* that were reduced, without their weights */
	uint64_t nulls;			/* GJD_DISTINCT: of them, rows whose value is NULL */
	uint64_t groups;		/* with rows; GJD_DISTINCT: distinct values that are not NULL */
	uint64_t elements;		/* of the whole result */
	uint64_t begun, delivered; /* as in gjd_match_state */
	uint32_t n_newer;
	uint32_t newer[GJD_MAX_NEWER]; /* pages left out because of the bound */
} gjd_reduced;

/*
 * The first rows of an order. A match with a limit delivers a part of the rows that match and
 * pass the filter: at least all those that are among the first "limit" of them by this column,
 * together with all that have an equal value. How many more is not defined.
 */
typedef struct gjd_top
{
	uint64_t limit;	 /* 0: all rows */
	uint32_t column; /* as in gjd_aggregate */
	uint32_t order;	 /* GJD_DESCENDING, GJD_NULLS_FIRST */
} gjd_top;

#define GJD_DESCENDING 1u
#define GJD_NULLS_FIRST 2u

/* Capabilities of a library */
#define GJD_CAN_TOP ((uint64_t) 1)
#define GJD_CAN_REDUCE ((uint64_t) 2)		 /* GJD_ONE_GROUP, GJD_BY_KEY */
#define GJD_CAN_GROUP_BY_VALUE ((uint64_t) 4)
#define GJD_CAN_DISTINCT ((uint64_t) 8)
#define GJD_CAN_GROUP_BY_COLUMNS ((uint64_t) 16)
#define GJD_CAN_WEIGH ((uint64_t) 64) /* weights, in any grouping that allows them */
#define GJD_CAN_TELL_SHARED ((uint64_t) 128) /* only_shared */
#define GJD_CAN_PROVE_RESTS ((uint64_t) 256) /* key sets with rests, in matches of any kind */
#define GJD_CAN_BATCH ((uint64_t) 512)		 /* batch_begin(), batch_end() */

/* Returns the width of a column that is named as in gjd_aggregate. */
static inline uint32_t
gjd_column_bytes(const gjd_shape *shape, uint32_t column)
{
	return column == 0 ? shape->key_bytes : shape->carried_bytes[column - 1];
}

/* Returns true if a column that is named as in gjd_aggregate may contain NULLs. */
static inline bool
gjd_column_is_nullable(const gjd_shape *shape, uint32_t column)
{
	return column > 0 && (shape->nullable >> (column - 1) & 1) != 0;
}

static inline uint32_t
gjd_aggregate_words(const gjd_aggregate *aggregate, const gjd_shape *shape)
{
	return aggregate->kind == GJD_SUM && gjd_column_bytes(shape, aggregate->column) == 8 ? 2 : 1;
}

/* Returns the number of words of an element before those of the first aggregate. */
static inline uint32_t
gjd_group_words(const gjd_reduction *reduction)
{
	return reduction->grouping == GJD_BY_COLUMNS ? GJD_GROUP_WORDS + reduction->n_columns - 1
												 : GJD_GROUP_WORDS;
}

/* Returns the number of words of an element of the result. */
static inline uint32_t
gjd_element_words(const gjd_reduction *reduction, const gjd_shape *shape)
{
	uint32_t words = gjd_group_words(reduction);

	if (reduction->grouping == GJD_DISTINCT)
		return 1;
	for (uint32_t i = 0; i < reduction->n_aggregates; i++)
		words += gjd_aggregate_words(&reduction->aggregates[i], shape);
	return words;
}

/* Returns the maximum number of elements of a valid reduction's result, given the set's count. */
static inline uint64_t
gjd_most_elements(const gjd_reduction *reduction, uint64_t keys)
{
	switch (reduction->grouping)
	{
		case GJD_BY_KEY:
			return keys;
		case GJD_BY_VALUE:
			return reduction->span + 1;
		case GJD_DISTINCT:
			return reduction->span / 64;
		case GJD_BY_COLUMNS:
			return reduction->room;
		default:
			return 1;
	}
}

/* Returns the capabilities that a reduction needs, all of them. */
static inline uint64_t
gjd_reduction_capability(const gjd_reduction *reduction)
{
	uint64_t needed = reduction->weights != NULL ? GJD_CAN_WEIGH : 0;

	if (reduction->only_shared)
		needed |= GJD_CAN_TELL_SHARED;
	switch (reduction->grouping)
	{
		case GJD_BY_VALUE:
			return needed | GJD_CAN_GROUP_BY_VALUE;
		case GJD_DISTINCT:
			return needed | GJD_CAN_DISTINCT;
		case GJD_BY_COLUMNS:
			return needed | GJD_CAN_GROUP_BY_COLUMNS;
		default:
			return needed | GJD_CAN_REDUCE;
	}
}

/* Returns true if the way of grouping is valid for columns of this shape. */
static inline bool
gjd_grouping_is_valid(const gjd_reduction *reduction, const gjd_shape *shape)
{
	switch (reduction->grouping)
	{
		case GJD_ONE_GROUP:
		case GJD_BY_KEY:
			return true;
		case GJD_BY_VALUE:
			return reduction->column <= shape->n_carried && reduction->span > 0 &&
				   reduction->span <= GJD_MAX_GROUPS;
		case GJD_DISTINCT:
			return reduction->column <= shape->n_carried && reduction->span > 0 &&
				   reduction->span <= GJD_MAX_DISTINCT && reduction->span % 64 == 0 &&
				   reduction->n_aggregates == 0 && reduction->weights == NULL;
		case GJD_BY_COLUMNS:
			if (reduction->n_columns == 0 || reduction->n_columns > GJD_MAX_GROUP_COLUMNS ||
				reduction->room == 0 || reduction->room > GJD_MAX_COLUMN_GROUPS)
				return false;
			for (uint32_t i = 0; i < reduction->n_columns; i++)
				if (reduction->columns[i] > shape->n_carried)
					return false;
			return true;
		default:
			return false;
	}
}

/*
 * Returns true if the parameters are valid for columns of this shape. The library tests the values
 * in weights, after it has copied them (gjd_weights_are_valid).
 */
static inline bool
gjd_reduction_is_valid(const gjd_reduction *reduction, const gjd_shape *shape)
{
	if (reduction->n_aggregates > GJD_MAX_AGGREGATES || !gjd_grouping_is_valid(reduction, shape) ||
		(reduction->only_shared && reduction->grouping != GJD_BY_COLUMNS) ||
		(uint64_t) reduction->marked >> shape->n_carried != 0 ||
		reduction->n_left_out > GJD_MAX_LEFT_OUT ||
		(reduction->n_left_out > 0 && reduction->left_out == NULL) ||
		reduction->visible_below % 4 != 0 || (reduction->map_bytes > 0 && reduction->map == NULL) ||
		reduction->visible_below >> 32 != 0 || reduction->map_bytes >> 30 != 0)
		return false;
	for (uint32_t i = 0; i < reduction->n_aggregates; i++)
		if (reduction->aggregates[i].kind > GJD_MAX ||
			reduction->aggregates[i].column > shape->n_carried)
			return false;
	for (uint32_t i = 1; i < reduction->n_left_out; i++)
		if (reduction->left_out[i] <= reduction->left_out[i - 1])
			return false;
	return true;
}

/* Returns true if a reduction has no weights, or one for each key of a set with this count. */
static inline bool
gjd_keys_are_covered(const gjd_reduction *reduction, uint64_t keys)
{
	return reduction->weights == NULL || reduction->n_keys == keys;
}

/* Returns true if the copied weights, which may be NULL, are valid. */
static inline bool
gjd_weights_are_valid(const gjd_reduction *reduction, const uint32_t *weights)
{
	bool valid = true;

	for (uint64_t i = 0; i < reduction->n_keys && weights != NULL; i++)
		valid &= weights[i] > 0;
	return valid;
}

static inline bool
gjd_top_is_valid(const gjd_top *top, const gjd_shape *shape)
{
	return top->limit == 0 || (top->column <= shape->n_carried &&
							   (top->order & ~(GJD_DESCENDING | GJD_NULLS_FIRST)) == 0);
}

#ifdef __cplusplus
}
#endif

#endif /* GPUJOIN_REDUCTION_H */
