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
 *	0			the group's value: the key, or that of the column; 0 if all rows are one group
 *	1			1 if the value is NULL, otherwise 0
 *	2			number of rows
 *	3 ...		the words of each aggregate (gjd_aggregate_words), in order
 *
 * Groups without rows are not delivered, but for that of GJD_ONE_GROUP. Their order is undefined.
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
#define GJD_GROUP_WORDS 3					   /* before the first aggregate */

/* How rows are grouped */
typedef enum gjd_grouping
{
	GJD_ONE_GROUP = 0,
	GJD_BY_KEY,	  /* a group for each key of the set */
	GJD_BY_VALUE, /* a group for each value of the column between least and least + span - 1, and
				   * one for NULL; other rows go to the rest */
	GJD_DISTINCT  /* no groups, but a bit for each value of that span; NULLs are only counted. The
				   * elements of the result are words of the bitmap, value least + 64 w + b is bit b
				   * of word w */
} gjd_grouping;

typedef enum gjd_aggregate_kind
{
	GJD_COUNT_VALUES = 0, /* one word: number of values that are not NULL */
	GJD_SUM, /* of up to four bytes: one word; of eight: two, the sum of the low halves, which are
			  * unsigned, and that of the high halves, which are signed; exact up to 2^31 rows */
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
} gjd_reduction;

/* State of a reduction, beside the match's own, whose items are the rest */
typedef struct gjd_reduced
{
	uint32_t struct_size;
	uint32_t element_bytes; /* of the result: a group, or a word of GJD_DISTINCT */
	uint64_t rows;			/* that were reduced */
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

/* Returns the number of words of an element of the result. */
static inline uint32_t
gjd_element_words(const gjd_reduction *reduction, const gjd_shape *shape)
{
	uint32_t words = GJD_GROUP_WORDS;

	if (reduction->grouping == GJD_DISTINCT)
		return 1;
	for (uint32_t i = 0; i < reduction->n_aggregates; i++)
		words += gjd_aggregate_words(&reduction->aggregates[i], shape);
	return words;
}

/* Returns the capability that a reduction needs. */
static inline uint64_t
gjd_reduction_capability(const gjd_reduction *reduction)
{
	return reduction->grouping == GJD_BY_VALUE ? GJD_CAN_GROUP_BY_VALUE
		   : reduction->grouping == GJD_DISTINCT ? GJD_CAN_DISTINCT
												 : GJD_CAN_REDUCE;
}

/* Returns true if the parameters are valid for columns of this shape. */
static inline bool
gjd_reduction_is_valid(const gjd_reduction *reduction, const gjd_shape *shape)
{
	bool by_span = reduction->grouping == GJD_BY_VALUE || reduction->grouping == GJD_DISTINCT;
	uint64_t most = reduction->grouping == GJD_DISTINCT ? GJD_MAX_DISTINCT : GJD_MAX_GROUPS;

	if (reduction->grouping > GJD_DISTINCT || reduction->n_aggregates > GJD_MAX_AGGREGATES ||
		(reduction->grouping == GJD_DISTINCT && reduction->n_aggregates > 0) ||
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
	return !by_span || (reduction->column <= shape->n_carried && reduction->span > 0 &&
						reduction->span <= most &&
						(reduction->grouping == GJD_BY_VALUE || reduction->span % 64 == 0));
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
