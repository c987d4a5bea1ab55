/*-------------------------------------------------------------------------
 *
 * layout.h
 *	  Where the values of an index are: on its data pages, and in rows.
 *
 * Each address on a data page, and each count of its slots, comes from here.  A page has a number
 * of slots of its own, which code that reads or changes its entries must ask for.  That of a plain
 * page (plain_slots) is for estimates, and for pages of deltas; GJ_MAX_SLOTS is for memory that any
 * page must fit.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_PAGES_LAYOUT_H
#define GPUJOIN_PAGES_LAYOUT_H

#include "port/pg_bitutils.h"
#include "port/pg_bswap.h"

#include "base/settings.h"
#include "base/tid.h"
#include "format.h"

/* Layout that follows from the types of an index's columns: see layout.c */
typedef struct GjLayout
{
	uint16		slots;
	uint16		used_offset;
	uint16		end;			/* end of the arrays: pd_lower */
	uint16		row_width;		/* of a tail row */
	uint16		ncolumns;
	GjColumnDesc columns[GJ_MAX_COLUMNS];
} GjLayout;

/* An INCLUDE column: its arrays on a data page, its value in a tail row */
typedef struct GjIncludedColumn
{
	uint16		width;			/* 1, 2, 4 or 8 */
	uint32		offset;
	uint32		nulls_offset;	/* one bit per slot, set if the value is NULL (it is 0 then) */
	uint16		row_offset;
	uint8		kind;			/* GjColumnKind */
	uint8		display_scale;	/* of numeric values */
	uint8		stored_scale;
	uint8		second;			/* if not 0: the values have second words, and this is their column,
								 * from 1 */
} GjIncludedColumn;

/*
 * The part of the metapage that does not change between two builds.  A copy is kept in
 * rd_amcache, which any relcache invalidation may free; so callers get a copy of their own.
 * Offsets are from the start of a page.
 */
typedef struct GjIndexInfo
{
	uint64		build_id;
	BlockNumber first_data;
	uint16		plain_slots;	/* entries that a page has room for whose values have their full
								 * width, as all pages of deltas are */
	uint16		plain_words;	/* number of words of its used bitmap: plain_slots / 32 */
	uint16		key_width;		/* 4 or 8 */
	uint16		row_width;		/* of a tail row */
	uint16		row_nulls_offset;	/* in a tail row: one bit per column, set if NULL */
	uint32		keys_offset;
	uint32		tids_offset;
	uint32		used_offset;
	uint32		arrays_end;
	uint16		tail_rows;
	uint16		first_lane;		/* of the part; its lanes are numbered together with all others */
	uint16		nlanes;
	bool		stores_nulls;	/* the index has a part of NULL keys */
	bool		of_nulls;		/* this is that part: see GjInfoTurnToNulls() */
	bool		many_tails;		/* a hint: at least half of the tails had rows when this process
								 * last read the metapage */
	bool		narrow;			/* new pages of runs are narrow */
	bool		hashed;			/* equal codes do not prove that keys are equal */
	bool		has_rests;		/* a hidden column, behind the values, has the keys' rests */
	uint64		hash_identity;	/* see codec.c */
	uint16		nincluded;
	uint16		nvalues;		/* of these, the first ones, which the catalogs know */
	GjIncludedColumn included[GJ_MAX_INCLUDED];
} GjIndexInfo;

/*
 * Turn the description of an index into that of its part of NULL keys
 */
static inline void
GjInfoTurnToNulls(GjIndexInfo *info)
{
	Assert(info->stores_nulls && !info->of_nulls);
	info->first_lane = info->nlanes;
	info->nlanes = 1;
	info->of_nulls = true;
	info->many_tails = true;	/* the metapage does not tell whether its tail is empty */
}

/*
 * Return the column, from 1, that has the second words of the values of a column of the index, from
 * 0; or 0 if they have one word.  A key's second word is its rest.
 */
static inline int
GjIndexSecondColumn(const GjIndexInfo *info, int column)
{
	if (column > 0)
		return info->included[column - 1].second;
	return info->has_rests ? info->nvalues + 1 : 0;
}

/* What the entries of a narrow page have in common: narrow.c */
typedef struct GjFrame
{
	int64		low[GJ_MAX_COLUMNS];	/* of the key and of INCLUDE columns */
	int64		high[GJ_MAX_COLUMNS];
	bool		nulls[GJ_MAX_COLUMNS];	/* is any value NULL? */
	BlockNumber low_block;
	BlockNumber high_block;
	uint32		offsets;		/* all offset numbers, combined by OR */
} GjFrame;

/* Data pages ------------------------------------------------------------------------ */

/* Arrays of a data page that was checked by GjPageCheck() */
#define GjDataKeys(page, info)	((char *) (page) + (info)->keys_offset)
#define GjDataTids(page, info)	((ItemPointerData *) ((char *) (page) + (info)->tids_offset))

/* Array and bitmap of an INCLUDE column */
#define GjDataValues(page, column)	((char *) (page) + (column)->offset)
#define GjDataNulls(page, column)	((uint32 *) ((char *) (page) + (column)->nulls_offset))

#define GjSlotBit(slot)			((uint32) 1 << ((slot) % GJ_SLOTS_PER_WORD))

static inline bool
GjDataIsNarrow(Page page)
{
	return GjPageGetOpaque(page)->kind == GJ_PAGE_NARROW;
}

/* The number of slots of a data page, and that of the words of its used bitmap */
static inline int
GjDataSlots(Page page, const GjIndexInfo *info)
{
	return GjDataIsNarrow(page) ? GjPageGetNarrow(page)[GJ_TID_COLUMN].slots : info->plain_slots;
}

static inline int
GjDataWords(Page page, const GjIndexInfo *info)
{
	return GjDataSlots(page, info) / GJ_SLOTS_PER_WORD;
}

static inline uint32 *
GjDataUsed(Page page, const GjIndexInfo *info)
{
	return (uint32 *) ((char *) page + (GjDataIsNarrow(page) ?
										GjPageGetNarrow(page)[GJ_KEY_COLUMN].nulls_offset :
										info->used_offset));
}

/*
 * Get what a narrow page stores in a slot of a column: an integer without a sign, little-endian,
 * to be added to the base.  A load of 8 bytes does not leave the page, whose special space comes
 * last.
 */
static pg_attribute_always_inline uint64
GjNarrowMask(int width)
{
	return width == 8 ? ~UINT64CONST(0) : (UINT64CONST(1) << (width * 8)) - 1;
}

static pg_attribute_always_inline uint64
GjNarrowLoad(const char *array, int width, int slot)
{
	uint64		value;

	memcpy(&value, array + slot * width, sizeof(value));
#ifdef WORDS_BIGENDIAN
	value = pg_bswap64(value);
#endif
	return value & GjNarrowMask(width);
}

static inline uint64
GjNarrowGet(Page page, const GjNarrowColumn *column, int slot)
{
	return GjNarrowLoad((const char *) page + column->offset, column->width, slot);
}

/* The bitmap of NULLs of a narrow page's INCLUDE column, or NULL if it has none */
static inline const uint32 *
GjNarrowNulls(Page page, int number)
{
	const GjNarrowColumn *column = &GjPageGetNarrow(page)[number];

	if (number < GJ_FIRST_INCLUDED || column->nulls_offset == 0)
		return NULL;
	return (const uint32 *) ((const char *) page + column->nulls_offset);
}

/* The bitmap of NULLs of an INCLUDE column, or NULL if the page has none */
static inline const uint32 *
GjDataFindNulls(Page page, const GjIndexInfo *info, int i)
{
	return GjDataIsNarrow(page) ? GjNarrowNulls(page, GJ_FIRST_INCLUDED + i) :
		GjDataNulls(page, &info->included[i]);
}

/* The TID that a narrow page stores as such an integer, packed */
static pg_attribute_always_inline uint64
GjNarrowTid(const GjNarrowColumn *column, uint64 stored)
{
	return ((uint64) column->base + (stored >> column->shift)) << 16 |
		(stored & ((UINT64CONST(1) << column->shift) - 1));
}

/*
 * Return the mean number of entries that a run's pages had when it was published, for estimates
 */
static inline double
GjRunPageEntries(const GjRun *run)
{
	return (double) run->entries / run->data_pages;
}

/* Return true if all slots of a data page are in use.  This does not read the bitmap. */
static inline bool
GjDataIsFull(Page page, const GjIndexInfo *info)
{
	return GjPageGetOpaque(page)->used >= GjDataSlots(page, info);
}

static inline bool
GjDataIsUsed(Page page, const GjIndexInfo *info, int slot)
{
	return (GjDataUsed(page, info)[slot / GJ_SLOTS_PER_WORD] & GjSlotBit(slot)) != 0;
}

/* Count the slots of a data page that are in use */
static inline int
GjDataCount(Page page, const GjIndexInfo *info)
{
	return pg_popcount((const char *) GjDataUsed(page, info),
					   GjDataWords(page, info) * sizeof(uint32));
}

/* Return the number of slots up to the last one in use */
static inline int
GjDataEnd(Page page, const GjIndexInfo *info)
{
	const uint32 *used = GjDataUsed(page, info);
	int			words = GjDataWords(page, info);

	while (words > 0 && used[words - 1] == 0)
		words--;
	return words == 0 ? 0 :
		(words - 1) * GJ_SLOTS_PER_WORD + pg_leftmost_one_pos32(used[words - 1]) + 1;
}

/* Get the key in a slot of a data page */
static inline int64
GjDataGetKey(Page page, const GjIndexInfo *info, int slot)
{
	const GjNarrowColumn *column = &GjPageGetNarrow(page)[GJ_KEY_COLUMN];

	if (GjDataIsNarrow(page))
		return (int64) ((uint64) column->base + GjNarrowGet(page, column, slot));
	if (info->key_width == sizeof(int32))
		return ((const int32 *) GjDataKeys(page, info))[slot];
	return ((const int64 *) GjDataKeys(page, info))[slot];
}

/*
 * Mark n slots as used, and count their entries, the last ones of the page so far; keys ascend
 */
static inline void
GjDataTook(Page page, const GjIndexInfo *info, int first, int n)
{
	GjPageOpaque opaque = GjPageGetOpaque(page);
	uint32	   *used = GjDataUsed(page, info);
	int			here;

	if (opaque->used == 0)
		opaque->min_key = GjDataGetKey(page, info, first);
	opaque->max_key = GjDataGetKey(page, info, first + n - 1);
	opaque->used += n;
	for (int slot = first; n > 0; slot += here, n -= here)
	{
		here = Min(n, GJ_SLOTS_PER_WORD - slot % GJ_SLOTS_PER_WORD);
		used[slot / GJ_SLOTS_PER_WORD] |= (~(uint32) 0 >> (GJ_SLOTS_PER_WORD - here)) <<
			slot % GJ_SLOTS_PER_WORD;
	}
}

/*
 * List the slots that are in use, and return their number; there must be room for all of the page
 */
static inline int
GjDataListUsed(Page page, const GjIndexInfo *info, uint16 *slots)
{
	const uint32 *used = GjDataUsed(page, info);
	int			words = GjDataWords(page, info);
	int			n = 0;

	for (int word = 0; word < words; word++)
	{
		for (uint32 left = used[word]; left != 0; left &= left - 1)
			slots[n++] = word * GJ_SLOTS_PER_WORD + pg_rightmost_one_pos32(left);
	}
	return n;
}

/* Return true if a value on a data page is NULL */
static inline bool
GjDataHasNulls(Page page, const GjIndexInfo *info)
{
	int			words = GjDataWords(page, info);
	uint32		any = 0;

	for (int i = 0; i < info->nincluded; i++)
	{
		const uint32 *nulls = GjDataNulls(page, &info->included[i]);

		for (int word = 0; word < words; word++)
			any |= nulls[word];
	}
	return any != 0;
}

/* Get the TID in a slot, packed, and the entry's place */
static inline uint64
GjDataGetTid(Page page, const GjIndexInfo *info, int slot)
{
	const GjNarrowColumn *column = &GjPageGetNarrow(page)[GJ_TID_COLUMN];

	if (GjDataIsNarrow(page))
		return GjNarrowTid(column, GjNarrowGet(page, column, slot));
	return GjPackTid(&GjDataTids(page, info)[slot]);
}

static inline GjPlace
GjDataGetPlace(Page page, const GjIndexInfo *info, int slot)
{
	return (GjPlace) {GjDataGetKey(page, info, slot), GjDataGetTid(page, info, slot)};
}

/* Rows ------------------------------------------------------------------------------ */

/* A row on a tail page: key at its start, TID after the key; unaligned */
#define GjTailRow(page, info, i) \
	((char *) PageGetContents(page) + (Size) (i) * (info)->row_width)
#define GjTailGetRow(page, info, i, tid)	GjRowGetKey(info, GjTailRow(page, info, i), tid)

/* Get key and TID of a row */
static inline int64
GjRowGetKey(const GjIndexInfo *info, const char *row, ItemPointer tid)
{
	int32		narrow;
	int64		key;

	memcpy(tid, row + info->key_width, sizeof(ItemPointerData));
	if (info->key_width == sizeof(int32))
	{
		memcpy(&narrow, row, sizeof(narrow));
		return narrow;
	}
	memcpy(&key, row, sizeof(key));
	return key;
}

#endif							/* GPUJOIN_PAGES_LAYOUT_H */
