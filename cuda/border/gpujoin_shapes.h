/*
 * gpujoin_shapes.h
 *	  Layouts of the memory that crosses the interface: page images sent to a library, entries
 *	  returned by it; and the parameters of entries. Part of gpujoin_device.h, which includes
 *	  it.
 *
 * Nothing here calls a library; both sides compute the same offsets from the same shape.
 */
#ifndef GPUJOIN_SHAPES_H
#define GPUJOIN_SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GJD_PAGE_ALIGN 16	/* page images start at multiples of this */
#define GJD_MAX_SLOTS 65536 /* maximum number of slots of a page */
#define GJD_MAX_CARRIED 32	/* maximum number of columns carried beside the key */
#define GJD_MAX_IMAGE_BYTES ((size_t) 8 << 20)
#define GJD_ENTRY_ALIGN 64	/* arrays of entries start at multiples of this */
#define GJD_MAX_CONDITIONS 8 /* maximum number of conditions of a filter */

/* Shape of a column; all pages have the same. If n_carried is zero: keys and TIDs alone. */
typedef struct gjd_shape
{
	uint32_t key_bytes; /* 4 or 8 */
	uint32_t slots;		/* of a page; multiple of 32, at most GJD_MAX_SLOTS */
	uint32_t n_carried; /* carried columns, numbered from 0 */
	uint32_t nullable;	/* bit c: carried column c has a bitmap of NULLs */
	uint8_t carried_bytes[GJD_MAX_CARRIED]; /* width of each: 1, 2, 4 or 8 */
} gjd_shape;

/* Returns the bytes of one slot in the carried columns before c. */
static inline uint32_t
gjd_carried_before(const gjd_shape *shape, uint32_t c)
{
	uint32_t bytes = 0;

	for (uint32_t i = 0; i < c; i++)
		bytes += shape->carried_bytes[i];
	return bytes;
}

/* Returns the number of nullable columns among those before c. */
static inline uint32_t
gjd_nullable_before(const gjd_shape *shape, uint32_t c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c; i++)
		n += shape->nullable >> i & 1;
	return n;
}

static inline uint64_t
gjd_align(uint64_t bytes, uint64_t align)
{
	return (bytes + align - 1) / align * align;
}

/* ---- page images --------------------------------------------------------------------------- */

/*
 * A page image, GJD_PAGE_ALIGN aligned, holds in this order and without gaps: slots keys of the
 * column's width; slots TID blocks (uint32); slots TID offsets (uint16); slots validity bits
 * (slot s is bit s % 32 of uint32 s / 32); for each nullable carried column an equal number of
 * bits, set where the value is NULL. Padded to a multiple of GJD_PAGE_ALIGN, the carried columns
 * follow, slots values each; they need no padding to end at such a multiple. The images of one
 * call are contiguous. Numbers are in the machine's byte order. The value of a carried column in
 * a NULL's place is arbitrary, and is returned unchanged.
 */
static inline size_t
gjd_image_blocks_at(uint32_t slots, uint32_t key_bytes)
{
	return (size_t) slots * key_bytes;
}

static inline size_t
gjd_image_offsets_at(uint32_t slots, uint32_t key_bytes)
{
	return (size_t) slots * (key_bytes + 4);
}

static inline size_t
gjd_image_valid_at(uint32_t slots, uint32_t key_bytes)
{
	return (size_t) slots * (key_bytes + 6);
}

/* Returns the offset of the bitmap of NULLs of carried column c, which must be nullable. */
static inline size_t
gjd_image_nulls_at(const gjd_shape *shape, uint32_t c)
{
	return gjd_image_valid_at(shape->slots, shape->key_bytes) +
		   (size_t) shape->slots / 8 * (1 + gjd_nullable_before(shape, c));
}

/* Returns the offset of carried column c, or of the image's end if c is n_carried. */
static inline size_t
gjd_image_carried_at(const gjd_shape *shape, uint32_t c)
{
	size_t bitmaps_end = gjd_image_nulls_at(shape, shape->n_carried);

	return (size_t) gjd_align(bitmaps_end, GJD_PAGE_ALIGN) +
		   (size_t) shape->slots * gjd_carried_before(shape, c);
}

static inline size_t
gjd_shape_image_bytes(const gjd_shape *shape)
{
	return gjd_image_carried_at(shape, shape->n_carried);
}

/* The same for pages without carried columns. */
static inline size_t
gjd_image_bytes(uint32_t slots, uint32_t key_bytes)
{
	return (size_t) gjd_align(gjd_image_valid_at(slots, key_bytes) + slots / 8, GJD_PAGE_ALIGN);
}

static inline bool
gjd_shape_is_valid(const gjd_shape *shape)
{
	if ((shape->key_bytes != 4 && shape->key_bytes != 8) || shape->slots == 0 ||
		shape->slots % 32 != 0 || shape->slots > GJD_MAX_SLOTS ||
		shape->n_carried > GJD_MAX_CARRIED ||
		(uint64_t) shape->nullable >> shape->n_carried != 0)
		return false;
	for (uint32_t c = 0; c < shape->n_carried; c++)
		if (shape->carried_bytes[c] != 1 && shape->carried_bytes[c] != 2 &&
			shape->carried_bytes[c] != 4 && shape->carried_bytes[c] != 8)
			return false;
	return gjd_shape_image_bytes(shape) <= GJD_MAX_IMAGE_BYTES;
}

/*
 * A device keeps the bounds of the keys of each strip of a page: of this many rows, or fewer in the
 * last one. A search of a few keys in an ordered column reads little more than their tiles, however
 * many slots pages have.
 */
#define GJD_STRIP_ROWS 128u

static inline uint32_t
gjd_strips(uint32_t slots)
{
	return (slots + GJD_STRIP_ROWS - 1) / GJD_STRIP_ROWS;
}

/*
 * Returns the device memory that a page takes in an extent: its image without padding, and its
 * bounds.
 */
static inline uint64_t
gjd_shape_page_bytes(const gjd_shape *shape)
{
	return (uint64_t) shape->slots *
			   (shape->key_bytes + 6 + gjd_carried_before(shape, shape->n_carried)) +
		   (uint64_t) shape->slots / 8 * (1 + gjd_nullable_before(shape, shape->n_carried)) +
		   (uint64_t) gjd_strips(shape->slots) * 2 * shape->key_bytes;
}

#define GJD_EXTENT_BYTES ((uint64_t) 16 << 20) /* device memory is given to columns in these */

/*
 * An extent holds whole pages, and a multiple of this many rows: kernels divide it into whole
 * tiles, and need no code for partial ones.
 */
#define GJD_EXTENT_ROWS 4096u

/*
 * Gets the least number of pages whose rows are a multiple of that: 128, or fewer if slots, which
 * is a multiple of 32, is one of a higher power of two
 */
static inline uint32_t
gjd_shape_page_group(const gjd_shape *shape)
{
	uint32_t group = GJD_EXTENT_ROWS / 32;

	for (uint32_t slots = shape->slots; slots % 64 == 0 && group > 1; slots /= 2)
		group /= 2;
	return group;
}

/* For wide pages, an extent is a multiple of the smallest size, so that one group always fits. */
static inline uint64_t
gjd_shape_extent_bytes(const gjd_shape *shape)
{
	uint64_t group = gjd_shape_page_bytes(shape) * gjd_shape_page_group(shape);

	return (group + GJD_EXTENT_BYTES - 1) / GJD_EXTENT_BYTES * GJD_EXTENT_BYTES;
}

static inline uint32_t
gjd_shape_extent_pages(const gjd_shape *shape)
{
	uint64_t pages = gjd_shape_extent_bytes(shape) / gjd_shape_page_bytes(shape);

	return (uint32_t) (pages - pages % gjd_shape_page_group(shape));
}

/* ---- TIDs ---------------------------------------------------------------------------------- */

/* block << 16 | offset: compares as PostgreSQL orders TIDs. */
typedef uint64_t gjd_tid;

static inline gjd_tid
gjd_tid_make(uint32_t block, uint16_t offset)
{
	return (gjd_tid) block << 16 | offset;
}

/* ---- filters ------------------------------------------------------------------------------- */

/* How a value is tested. A NULL passes neither test. */
typedef enum gjd_test
{
	GJD_BETWEEN = 0, /* low <= value <= high; never true if low > high */
	GJD_OUTSIDE,	 /* value < low or value > high */
	GJD_IS_NULL,
	GJD_IS_NOT_NULL
} gjd_test;

/* Values of all widths are compared as signed integers. Only nullable columns have NULLs. */
typedef struct gjd_condition
{
	uint32_t column; /* 0: the key; otherwise carried column number column - 1 */
	uint32_t test;	 /* gjd_test */
	int64_t low, high;
} gjd_condition;

/*
 * A filter of entries whose key is in the set: the first n conditions must all hold. All zero: no
 * filter.
 */
typedef struct gjd_filter
{
	uint32_t n;
	uint32_t reserved;
	gjd_condition conditions[GJD_MAX_CONDITIONS];
} gjd_filter;

static inline bool
gjd_filter_is_valid(const gjd_filter *filter, const gjd_shape *shape)
{
	if (filter->n > GJD_MAX_CONDITIONS)
		return false;
	for (uint32_t i = 0; i < filter->n; i++)
		if (filter->conditions[i].column > shape->n_carried ||
			filter->conditions[i].test > GJD_IS_NOT_NULL)
			return false;
	return true;
}

/*
 * Returns true if a column that is named as in gjd_condition, and is not the key, may have the
 * rests of keys; 0 stands for none.
 */
static inline bool
gjd_rest_is_valid(uint32_t column, const gjd_shape *shape)
{
	return column == 0 || (column <= shape->n_carried && shape->carried_bytes[column - 1] == 8);
}

/* ---- entries ------------------------------------------------------------------------------- */

/* Columns to return of each matching entry, beside its TID. */
typedef struct gjd_want
{
	uint32_t columns; /* bit c: carried column c, with its NULLs if it is nullable */
	uint32_t keys;	  /* not 0: the key */
} gjd_want;

/*
 * Entries are delivered in columns. A part is a piece of memory with room for a given number of
 * entries. It has an array for each wanted column, with one element for each entry, in the same
 * order in each:
 *
 *	8 bytes wide TIDs (gjd_tid), always present, first of all; keys of 8 bytes; carried columns
 *	4 bytes wide keys of 4 bytes; carried columns 2 bytes wide carried columns 1 byte wide
 *	carried columns; then, for each nullable column wanted, a byte that is 1 where
 *					the value is NULL and 0 where not
 *
 * Arrays of one width are adjacent, carried columns among them in the order of their numbers.
 * Each array takes room * width bytes rounded up to GJD_ENTRY_ALIGN. If fewer entries come than
 * there is room for, the rest of each array is left unchanged: the offsets of arrays depend on
 * the room, never on the number of entries.
 */
typedef struct gjd_entry_layout
{
	uint64_t room;	   /* entries */
	uint64_t bytes;	   /* of the whole part */
	uint32_t item_bytes; /* of one entry in all arrays */
	uint32_t n_arrays;
	uint64_t keys_at;					 /* 0: not wanted */
	uint64_t column_at[GJD_MAX_CARRIED]; /* 0: not wanted */
	uint64_t nulls_at[GJD_MAX_CARRIED];	 /* 0: not wanted, or never NULL */

	/* The arrays by width, 1 << w bytes: offset of the first, and distance from each to the next */
	struct
	{
		uint64_t at, pitch;
		uint32_t arrays;
	} widths[4];
} gjd_entry_layout;

/* log2 of a width */
static inline uint32_t
gjd_width_log(uint32_t bytes)
{
	return bytes == 8 ? 3 : bytes == 4 ? 2 : bytes == 2 ? 1 : 0;
}

/* Assigns the next array of that width its place, relative to the first. */
static inline uint64_t
gjd_entry_array(gjd_entry_layout *layout, uint32_t bytes)
{
	uint32_t w = gjd_width_log(bytes);

	layout->item_bytes += bytes;
	layout->n_arrays++;
	return layout->widths[w].pitch * layout->widths[w].arrays++;
}

static inline void
gjd_entry_layout_of(const gjd_shape *shape, gjd_want want, uint64_t room, gjd_entry_layout *layout)
{
	layout->room = room;
	layout->item_bytes = layout->n_arrays = 0;
	for (uint32_t w = 0; w < 4; w++)
	{
		layout->widths[w].pitch = gjd_align(room << w, GJD_ENTRY_ALIGN);
		layout->widths[w].arrays = 0;
	}
	gjd_entry_array(layout, 8); /* TIDs */
	layout->keys_at = want.keys ? gjd_entry_array(layout, shape->key_bytes) : 0;
	for (uint32_t c = 0; c < GJD_MAX_CARRIED; c++)
	{
		layout->column_at[c] = layout->nulls_at[c] = 0;
		if (c < shape->n_carried && (want.columns >> c & 1) != 0)
			layout->column_at[c] = gjd_entry_array(layout, shape->carried_bytes[c]);
	}
	for (uint32_t c = 0; c < shape->n_carried; c++)
		if ((want.columns & shape->nullable) >> c & 1)
			layout->nulls_at[c] = gjd_entry_array(layout, 1);

	layout->bytes = 0;
	for (int w = 3; w >= 0; w--)
	{
		layout->widths[w].at = layout->bytes;
		layout->bytes += layout->widths[w].pitch * layout->widths[w].arrays;
	}
	if (want.keys)
		layout->keys_at += layout->widths[gjd_width_log(shape->key_bytes)].at;
	for (uint32_t c = 0; c < shape->n_carried; c++)
	{
		if ((want.columns >> c & 1) == 0)
			continue;
		layout->column_at[c] += layout->widths[gjd_width_log(shape->carried_bytes[c])].at;
		if (shape->nullable >> c & 1)
			layout->nulls_at[c] += layout->widths[0].at;
	}
}

/* Returns the largest room of a part that fits into the given number of bytes; 0 if none does. */
static inline uint64_t
gjd_entry_room(const gjd_shape *shape, gjd_want want, uint64_t bytes)
{
	gjd_entry_layout one;
	uint64_t padding;
	uint64_t room;

	gjd_entry_layout_of(shape, want, 1, &one);
	padding = (uint64_t) one.n_arrays * (GJD_ENTRY_ALIGN - 1);
	room = bytes > padding ? (bytes - padding) / one.item_bytes : 0;
	return room >= GJD_ENTRY_ALIGN ? room / GJD_ENTRY_ALIGN * GJD_ENTRY_ALIGN : room;
}

#ifdef __cplusplus
}
#endif

#endif /* GPUJOIN_SHAPES_H */
