/*-------------------------------------------------------------------------
 *
 * narrow.c
 *	  Pages of runs on which each column has a base and a width of its own.
 *
 * A narrow page has a description of the TIDs and of each column, GjNarrowColumn, behind its
 * header; then the arrays of offsets, in the order of the columns, each from a multiple of 8 on;
 * the bitmap of used slots; and the bitmap of NULLs of each column that has any on the page.  The
 * number of slots is a multiple of 32.
 *
 * A value is its column's base, the least value on the page, and an unsigned offset.  Both are
 * integers of 64 bits, to which values are extended with their sign: the bits of -1 and 1 would be
 * far from each other.  Their difference always fits 64 bits without a sign, and adding it to the
 * base, modulo 2^64, returns the value.  So widening is exact for all values.  A NULL takes no part
 * in that: its offset is 0, and it is read as zero bytes, as everywhere (layout.c).
 *
 * A TID's offset is (block - base) << shift | offset number.  These compare like TIDs if all have
 * the same shift, as they do on a page.
 *
 * Offsets are stored in little-endian order.  One of any width is read by a load of 8 bytes and a
 * mask; behind each array there are at least the 32 bytes of the special space.
 *
 * A plain image has full arrays of many slots, where a writer collects entries and a reader gets
 * them.  It looks like a plain page, but has more than BLCKSZ bytes.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "port/pg_bswap.h"

#include "pages.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* First byte behind the arrays and bitmaps of a page, at most */
#define ROOM_END		(BLCKSZ - (int) MAXALIGN(sizeof(GjPageOpaqueData)))

#define MOST_SHIFT		12

/* Of runs with fewer pages, mirrors are loaded again without effort */
#define FEW_PAGES		64

/* Where a mirror has room for the largest page everywhere, this part of it may be unused */
#define UNUSED_PART		12

/* A page has at most this many times as many slots as a plain one: then its image fits the shared
 * memory of a request, whatever the settings are.  If the run's pages cannot be foretold, it has at
 * most half of these. */
#define MOST_PLAIN_PAGES	4

#ifdef WORDS_BIGENDIAN
#define LITTLE_ENDIAN_64(value)	pg_bswap64(value)
#else
#define LITTLE_ENDIAN_64(value)	(value)
#endif

/*
 * Store the offset in a slot of an array.  This also clears up to 8 bytes behind it, so arrays must
 * be filled in the order of their addresses.
 */
static pg_attribute_always_inline void
store_offset(char *array, int width, int slot, uint64 value)
{
	value = LITTLE_ENDIAN_64(value);
	memcpy(array + slot * width, &value, sizeof(value));
}

/* Return the number of bytes that offsets up to this one need */
static int
find_width(uint64 range)
{
	int			bytes = range == 0 ? 0 : pg_leftmost_one_pos64(range) / BITS_PER_BYTE + 1;

	return bytes == 7 ? 8 : bytes;
}

/* Describe a plain image of an index: like a plain page, but with a number of slots */
void
GjWideLayout(const GjIndexInfo *info, int slots, GjIndexInfo *wide)
{
	uint32		offset = MAXALIGN(SizeOfPageHeaderData) + MAXALIGN(sizeof(GjPageOpaqueData));
	uint32		bitmap = slots / GJ_SLOTS_PER_WORD * sizeof(uint32);

	Assert(slots % GJ_SLOTS_PER_WORD == 0);
	*wide = *info;
	wide->plain_slots = slots;
	wide->plain_words = slots / GJ_SLOTS_PER_WORD;
	wide->keys_offset = offset;
	offset += slots * info->key_width;
	wide->tids_offset = offset;
	offset += slots * sizeof(ItemPointerData);
	for (int i = 0; i < info->nincluded; i++)
	{
		wide->included[i].offset = offset;
		offset += slots * info->included[i].width;
	}
	wide->used_offset = offset;
	offset += bitmap;
	for (int i = 0; i < info->nincluded; i++)
	{
		wide->included[i].nulls_offset = offset;
		offset += bitmap;
	}
	wide->arrays_end = offset;
}

/* Make an empty plain image.  Its arrays have arbitrary bytes. */
void
GjWideInit(Page image, const GjIndexInfo *wide, uint32 run)
{
	PageHeader	header = (PageHeader) image;

	memset(image, 0, wide->keys_offset);
	memset(image + wide->used_offset, 0, wide->arrays_end - wide->used_offset);
	header->pd_special = MAXALIGN(SizeOfPageHeaderData);
	GjPageGetOpaque(image)->kind = GJ_PAGE_DATA;
	GjPageGetOpaque(image)->run = run;
	GjPageGetOpaque(image)->page_id = GJ_PAGE_ID;
}

static void
shift(char *values, int width, int n, int left)
{
	memmove(values, values + n * width, left * width);
}

/* n is a number of whole words if any are left */
static void
shift_bits(uint32 *bits, int n, int left)
{
	int			from = n / GJ_SLOTS_PER_WORD;
	int			words = (left + GJ_SLOTS_PER_WORD - 1) / GJ_SLOTS_PER_WORD;

	if (left > 0)
		memmove(bits, bits + from, words * sizeof(uint32));
	memset(bits + words, 0, (GJ_MAX_SLOTS / GJ_SLOTS_PER_WORD - words) * sizeof(uint32));
}

/* Remove the first n entries of a plain image, and keep the others */
void
GjWideShift(Page image, const GjIndexInfo *wide, int n, int left)
{
	shift(GjDataKeys(image, wide), wide->key_width, n, left);
	shift((char *) GjDataTids(image, wide), sizeof(ItemPointerData), n, left);
	for (int i = 0; i < wide->nincluded; i++)
	{
		shift(GjDataValues(image, &wide->included[i]), wide->included[i].width, n, left);
		shift_bits(GjDataNulls(image, &wide->included[i]), n, left);
	}
	shift_bits(GjDataUsed(image, wide), n, left);
	GjPageGetOpaque(image)->used = left;
	if (left > 0)
		GjPageGetOpaque(image)->min_key = GjDataGetKey(image, wide, 0);
}

/* What the entries of a page have in common ------------------------------------------- */

void
GjFrameInit(GjFrame *frame)
{
	memset(frame, 0, sizeof(*frame));
	frame->low_block = MaxBlockNumber;
	for (int i = 0; i < GJ_MAX_COLUMNS; i++)
	{
		frame->low[i] = PG_INT64_MAX;
		frame->high[i] = PG_INT64_MIN;
	}
}

#define FIND_BOUNDS(type) \
	for (int i = first; i < first + n; i++) \
	{ \
		int64		value = ((const type *) values)[i]; \
 \
		if (nulls != NULL && (nulls[i / GJ_SLOTS_PER_WORD] & GjSlotBit(i)) != 0) \
			continue; \
		low = Min(low, value); \
		high = Max(high, value); \
	}

/* Inlined, so that no loop over values without NULLs tests for them */
static pg_attribute_always_inline void
find_bounds(GjFrame *frame, int column, const char *values, int width, const uint32 *nulls,
			int first, int n)
{
	int64		low = frame->low[column];
	int64		high = frame->high[column];

	switch (width)
	{
		case 1:
			FIND_BOUNDS(int8);
			break;
		case 2:
			FIND_BOUNDS(int16);
			break;
		case 4:
			FIND_BOUNDS(int32);
			break;
		default:
			FIND_BOUNDS(int64);
			break;
	}
	frame->low[column] = low;
	frame->high[column] = high;
}

static void
add_bounds(GjFrame *frame, int column, const char *values, int width, const uint32 *nulls,
		   int first, int n)
{
	bool		any = false;

	for (int i = first; nulls != NULL && i < first + n; i += GJ_SLOTS_PER_WORD)
		any |= nulls[i / GJ_SLOTS_PER_WORD] != 0;
	frame->nulls[column] |= any;
	if (any)
		find_bounds(frame, column, values, width, nulls, first, n);
	else
		find_bounds(frame, column, values, width, NULL, first, n);
}

/*
 * Add entries of a plain image.  They must begin a word of the bitmaps, and unused slots behind
 * them in their last word have no bits there.
 */
void
GjFrameAdd(GjFrame *frame, Page image, const GjIndexInfo *wide, int first, int n)
{
	const ItemPointerData *tids = GjDataTids(image, wide);

	Assert(first % GJ_SLOTS_PER_WORD == 0);
	add_bounds(frame, GJ_KEY_COLUMN, GjDataKeys(image, wide), wide->key_width, NULL, first, n);
	for (int i = first; i < first + n; i++)
	{
		BlockNumber block = ItemPointerGetBlockNumberNoCheck(&tids[i]);

		frame->low_block = Min(frame->low_block, block);
		frame->high_block = Max(frame->high_block, block);
		frame->offsets |= ItemPointerGetOffsetNumberNoCheck(&tids[i]);
	}
	for (int i = 0; i < wide->nincluded; i++)
	{
		const GjIncludedColumn *column = &wide->included[i];

		add_bounds(frame, GJ_FIRST_INCLUDED + i, GjDataValues(image, column), column->width,
				   GjDataNulls(image, column), first, n);
	}
}

/* Add what other entries have in common */
void
GjFrameUnite(GjFrame *frame, const GjFrame *other, int ncolumns)
{
	for (int i = 0; i < ncolumns; i++)
	{
		frame->low[i] = Min(frame->low[i], other->low[i]);
		frame->high[i] = Max(frame->high[i], other->high[i]);
		frame->nulls[i] |= other->nulls[i];
	}
	frame->low_block = Min(frame->low_block, other->low_block);
	frame->high_block = Max(frame->high_block, other->high_block);
	frame->offsets |= other->offsets;
}

/* Return the offset of the keys, which is the same on all narrow pages of an index */
static inline int
keys_start(int ncolumns)
{
	return MAXALIGN(MAXALIGN(SizeOfPageHeaderData) + ncolumns * sizeof(GjNarrowColumn));
}

/*
 * Find the places of arrays and bitmaps, from widths, slots and whether there are NULLs
 * (nulls_offset is not 0); returns the end of the last one
 */
static int
arrange(GjNarrowColumn *columns, int ncolumns)
{
	int			slots = columns[GJ_TID_COLUMN].slots;
	int			bitmap = slots / GJ_SLOTS_PER_WORD * sizeof(uint32);
	int			offset = keys_start(ncolumns);

	for (int i = 0; i < ncolumns; i++)
	{
		columns[i].offset = offset;
		offset = TYPEALIGN(sizeof(uint64), offset + slots * columns[i].width);
		if (offset > ROOM_END)
			return offset;
	}
	columns[GJ_KEY_COLUMN].nulls_offset = offset;
	offset += bitmap;
	for (int i = GJ_FIRST_INCLUDED; i < ncolumns; i++)
	{
		if (columns[i].nulls_offset == 0)
			continue;
		columns[i].nulls_offset = offset;
		offset += bitmap;
	}
	return offset;
}

static int
describe_page(const GjFrame *frame, int ncolumns, int slots, GjNarrowColumn *columns)
{
	GjNarrowColumn *tids = &columns[GJ_TID_COLUMN];

	memset(columns, 0, ncolumns * sizeof(GjNarrowColumn));
	for (int i = 0; i < ncolumns; i++)
	{
		/* a column may have NULLs only */
		if (i == GJ_TID_COLUMN || frame->low[i] > frame->high[i])
			continue;
		columns[i].base = frame->low[i];
		columns[i].width = find_width((uint64) frame->high[i] - (uint64) frame->low[i]);
	}
	for (int i = GJ_FIRST_INCLUDED; i < ncolumns; i++)
		columns[i].nulls_offset = frame->nulls[i];
	tids->slots = slots;
	tids->base = frame->low_block;
	tids->shift = frame->offsets == 0 ? 0 : pg_leftmost_one_pos32(frame->offsets) + 1;
	tids->width = find_width(((uint64) (frame->high_block - frame->low_block) << tids->shift) +
							 ((UINT64CONST(1) << tids->shift) - 1));
	return arrange(columns, ncolumns);
}

/*
 * Return true if a page of the index has room for a word of slots, whatever the values are
 */
bool
GjNarrowIsPossible(const GjIndexInfo *info)
{
	GjNarrowColumn columns[GJ_MAX_COLUMNS] = {{0}};

	columns[GJ_KEY_COLUMN].width = info->key_width;
	columns[GJ_TID_COLUMN].width = sizeof(ItemPointerData);
	columns[GJ_TID_COLUMN].slots = GJ_SLOTS_PER_WORD;
	for (int i = 0; i < info->nincluded; i++)
	{
		columns[GJ_FIRST_INCLUDED + i].width = info->included[i].width;
		columns[GJ_FIRST_INCLUDED + i].nulls_offset = 1;
	}
	return arrange(columns, GJ_FIRST_INCLUDED + info->nincluded) <= ROOM_END;
}

/* Return true if a page has room for n entries, in whole words of slots */
bool
GjFrameFits(const GjFrame *frame, const GjIndexInfo *info, int n)
{
	GjNarrowColumn columns[GJ_MAX_COLUMNS];
	int			slots = TYPEALIGN(GJ_SLOTS_PER_WORD, n);

	return slots <= GJ_MAX_SLOTS &&
		describe_page(frame, GJ_FIRST_INCLUDED + info->nincluded, slots, columns) <= ROOM_END;
}

/* Return a possible number of slots, near this one */
static int
round_slots(const GjIndexInfo *info, double slots)
{
	int			most = Min(MOST_PLAIN_PAGES * info->plain_slots, GJ_MAX_SLOTS);

	return TYPEALIGN_DOWN(GJ_SLOTS_PER_WORD, (int) Min(Max(slots, info->plain_slots), most));
}

/*
 * Return the number of slots that pages of a new run may have: as many as the index's largest run
 * has if that stays, so that a mirror with room for these need not be loaded again; if it is one of
 * those that are merged into the new one, its mean, and a little more.  Of plain, few or no pages,
 * little is known.
 */
int
GjRunsRoom(const GjIndexInfo *info, const GjIndexState *state, const bool *merged)
{
	int			largest = 0;
	const GjRun *run;

	for (int i = 1; i < state->nruns; i++)
	{
		if (state->runs[i].data_pages > state->runs[largest].data_pages)
			largest = i;
	}
	run = &state->runs[largest];
	if (state->nruns == 0 || run->data_pages < FEW_PAGES ||
		(merged[largest] && run->most_slots == 0))
		return round_slots(info, MOST_PLAIN_PAGES / 2 * info->plain_slots);
	if (!merged[largest])
		return round_slots(info, run->most_slots);
	return round_slots(info, GjRunPageEntries(run) * (UNUSED_PART + 1) / UNUSED_PART);
}

/*
 * Return the number of slots that pages may have if a part of them was measured: pages[i] have i
 * words of slots.  If each gets so many, and the larger ones are cut, the unused slots are not more
 * than that part.
 */
int
GjMeasuredRoom(const GjIndexInfo *info, const uint64 *pages)
{
	int			words = GJ_MAX_SLOTS / GJ_SLOTS_PER_WORD;
	uint64		used = 0;

	for (int i = 1; i <= GJ_MAX_SLOTS / GJ_SLOTS_PER_WORD; i++)
		used += pages[i] * i;
	for (; words > 1; words--)
	{
		uint64		all = 0;

		for (int i = 1; i <= GJ_MAX_SLOTS / GJ_SLOTS_PER_WORD; i++)
			all += pages[i] * Max(i, words);
		if (all <= used + used / UNUSED_PART)
			break;
	}
	return round_slots(info, words * GJ_SLOTS_PER_WORD);
}

/* From a plain image to a page, and back ---------------------------------------------- */

#define STORE_VALUES(type) \
	for (int i = 0; i < n; i++) \
	{ \
		int64		value = ((const type *) values)[i]; \
		bool		is_null = nulls != NULL && \
			(nulls[i / GJ_SLOTS_PER_WORD] & GjSlotBit(i)) != 0; \
 \
		store_offset(array, column->width, i, \
					 is_null ? 0 : (uint64) value - (uint64) column->base); \
	}

/* Inlined like find_bounds() */
static pg_attribute_always_inline void
store_values(Page page, const GjNarrowColumn *column, const char *values, int width,
			 const uint32 *nulls, int n)
{
	char	   *array = (char *) page + column->offset;

	switch (width)
	{
		case 1:
			STORE_VALUES(int8);
			break;
		case 2:
			STORE_VALUES(int16);
			break;
		case 4:
			STORE_VALUES(int32);
			break;
		default:
			STORE_VALUES(int64);
			break;
	}
}

static void
store_column(Page page, const GjNarrowColumn *column, const char *values, int width,
			 const uint32 *nulls, int n)
{
	if (nulls != NULL)
		store_values(page, column, values, width, nulls, n);
	else
		store_values(page, column, values, width, NULL, n);
}

/*
 * Make a page of the first n entries of a plain image, which are all in use and ascend; the frame
 * must be theirs, and they must fit
 */
void
GjNarrowMake(Page page, const GjFrame *frame, Page image, const GjIndexInfo *wide, int n)
{
	int			ncolumns = GJ_FIRST_INCLUDED + wide->nincluded;
	GjNarrowColumn *columns = GjPageGetNarrow(page);
	const GjNarrowColumn *of_tids = &columns[GJ_TID_COLUMN];
	const ItemPointerData *tids = GjDataTids(image, wide);
	int			slots = TYPEALIGN(GJ_SLOTS_PER_WORD, n);
	int			bitmap = slots / GJ_SLOTS_PER_WORD * sizeof(uint32);
	GjPageOpaque opaque;
	uint32	   *used;
	int			end;

	GjPageInit(page, GJ_PAGE_NARROW, GjPageGetOpaque(image)->run);
	end = describe_page(frame, ncolumns, slots, columns);
	Assert(n > 0 && end <= ROOM_END);
	((PageHeader) page)->pd_lower = end;
	store_column(page, &columns[GJ_KEY_COLUMN], GjDataKeys(image, wide), wide->key_width, NULL, n);
	for (int i = 0; i < n; i++)
		store_offset((char *) page + of_tids->offset, of_tids->width, i,
					 (uint64) (ItemPointerGetBlockNumberNoCheck(&tids[i]) -
							   (BlockNumber) of_tids->base) << of_tids->shift |
					 ItemPointerGetOffsetNumberNoCheck(&tids[i]));
	for (int i = 0; i < wide->nincluded; i++)
	{
		const GjNarrowColumn *column = &columns[GJ_FIRST_INCLUDED + i];
		const uint32 *nulls = GjDataNulls(image, &wide->included[i]);

		store_column(page, column, GjDataValues(image, &wide->included[i]),
					 wide->included[i].width, column->nulls_offset == 0 ? NULL : nulls, n);
	}
	/* stores have cleared what is behind an array; special space and bitmaps come last */
	opaque = GjPageGetOpaque(page);
	*opaque = *GjPageGetOpaque(image);
	opaque->kind = GJ_PAGE_NARROW;
	opaque->used = n;
	opaque->min_key = GjDataGetKey(image, wide, 0);
	opaque->max_key = GjDataGetKey(image, wide, n - 1);
	used = GjDataUsed(page, wide);
	memset(used, 0, bitmap);
	for (int i = 0; i < n; i++)
		used[i / GJ_SLOTS_PER_WORD] |= GjSlotBit(i);
	for (int i = 0; i < wide->nincluded; i++)
	{
		if (columns[GJ_FIRST_INCLUDED + i].nulls_offset != 0)
			memcpy((char *) page + columns[GJ_FIRST_INCLUDED + i].nulls_offset,
				   GjDataNulls(image, &wide->included[i]), bitmap);
	}
}

/* Return true if a value of this many bytes can be the base of a column */
static inline bool
is_of_width(int64 base, int width)
{
	int			unused = (sizeof(int64) - width) * BITS_PER_BYTE;

	return (int64) ((uint64) base << unused) >> unused == base;
}

/*
 * Return what is wrong with the description of a page, or NULL if it can be that of a page of this
 * index.  If so, no function here reads or writes outside of the page, whatever its arrays contain.
 */
static const char *
find_fault(Page page, const GjIndexInfo *info)
{
	int			ncolumns = GJ_FIRST_INCLUDED + info->nincluded;
	const GjNarrowColumn *found = GjPageGetNarrow(page);
	GjNarrowColumn columns[GJ_MAX_COLUMNS];
	const GjNarrowColumn *tids = &found[GJ_TID_COLUMN];
	int			end;

	if (tids->slots == 0 || tids->slots % GJ_SLOTS_PER_WORD != 0 || tids->slots > GJ_MAX_SLOTS)
		return "A narrow page has an impossible number of slots.";
	if (GjPageGetOpaque(page)->used > tids->slots)
		return "A narrow page has more entries than slots.";
	if (tids->shift > MOST_SHIFT || tids->base < 0 || tids->base > MaxBlockNumber ||
		tids->nulls_offset != 0)
		return "The TIDs of a narrow page are described in an impossible way.";
	memcpy(columns, found, ncolumns * sizeof(GjNarrowColumn));
	for (int i = 0; i < ncolumns; i++)
	{
		int			most = i == GJ_KEY_COLUMN ? info->key_width :
			i == GJ_TID_COLUMN ? 6 : info->included[i - GJ_FIRST_INCLUDED].width;

		if (columns[i].width > most || columns[i].width == 7)
			return "A column of a narrow page has an impossible width.";
		if (!is_of_width(columns[i].base, most))
			return "A column of a narrow page has an impossible base.";
	}
	end = arrange(columns, ncolumns);
	if (end > ROOM_END)
		return "The arrays of a narrow page need more than the page.";
	if (memcmp(columns, found, ncolumns * sizeof(GjNarrowColumn)) != 0)
		return "An array of a narrow page is not where it must be.";
	if (end != ((PageHeader) page)->pd_lower)
		return "The arrays of a narrow page do not end where its header says.";
	return NULL;
}

/* Report a page whose description is damaged */
void
GjNarrowDemand(Relation index, BlockNumber block, Page page, const GjIndexInfo *info)
{
	const char *fault = GjDataIsNarrow(page) ? find_fault(page, info) : NULL;

	if (unlikely(fault != NULL))
		GjReportCorruption(index, block, fault);
}

/* Report a page of a delta that is not plain */
void
GjPlainDemand(Relation index, BlockNumber block, Page page)
{
	if (unlikely(GjDataIsNarrow(page)))
		GjReportCorruption(index, block, "The page of a delta is like one of a run.");
}

/*
 * Return true if a page's description is that of a page of this index
 */
bool
GjNarrowCheck(Page page, const GjIndexInfo *info)
{
	return find_fault(page, info) == NULL;
}

/* Offsets --------------------------------------------------------------------------- */

/* From this number on, values are widened by vector instructions */
#define FEW_VALUES		32

/* The number of values that are widened at a time where something else is made of them */
#define PIECE			256

#define WIDEN_FEW(type) \
	for (int i = 0; i < n; i++, array += width) \
		((type *) values)[i] = (type) (base + (GjNarrowLoad(array, sizeof(uint64), 0) & mask))

static pg_attribute_always_inline void
widen_few(const char *array, int width, uint64 base, int n, int full_width, char *values)
{
	uint64		mask = GjNarrowMask(width);

	switch (full_width)
	{
		case 1:
			WIDEN_FEW(int8);
			break;
		case 2:
			WIDEN_FEW(int16);
			break;
		case 4:
			WIDEN_FEW(int32);
			break;
		default:
			WIDEN_FEW(int64);
			break;
	}
}

#if defined(__x86_64__) && defined(__GNUC__)
#define TARGET_AVX2 __attribute__((target("avx2")))

/*
 * Widen 32 bytes of values at a time, but not the last ones if they are fewer; returns the number
 * of values.  This reads up to 16 bytes behind the array.
 */
TARGET_AVX2 static pg_attribute_always_inline int
widen_most(const char *array, int width, uint64 base, int n, int full_width, char *values)
{
	int			at_once = 32 / full_width;
	const char *upper = array + at_once / 2 * width;
	__m256i		bases = full_width == 1 ? _mm256_set1_epi8((char) base) :
		full_width == 2 ? _mm256_set1_epi16((short) base) :
		full_width == 4 ? _mm256_set1_epi32((int) base) : _mm256_set1_epi64x((long long) base);
	uint8		control[16];
	__m256i		spread;

	/* for each byte of a half, the byte to take, or zero */
	for (int i = 0; i < 16; i++)
		control[i] = i % full_width < width ? i / full_width * width + i % full_width : 0x80;
	spread = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) control));
	for (int left = n / at_once; left > 0; left--)
	{
		__m128i		lower_half = _mm_loadu_si128((const __m128i *) array);
		__m128i		upper_half = _mm_loadu_si128((const __m128i *) upper);
		__m256i		packed = _mm256_inserti128_si256(_mm256_castsi128_si256(lower_half),
													 upper_half, 1);
		__m256i		offsets = _mm256_shuffle_epi8(packed, spread);
		__m256i		sums = full_width == 1 ? _mm256_add_epi8(offsets, bases) :
			full_width == 2 ? _mm256_add_epi16(offsets, bases) :
			full_width == 4 ? _mm256_add_epi32(offsets, bases) : _mm256_add_epi64(offsets, bases);

		_mm256_storeu_si256((__m256i *) values, sums);
		array += at_once * width;
		upper += at_once * width;
		values += sizeof(__m256i);
	}
	return n / at_once * at_once;
}

TARGET_AVX2 static pg_noinline void
widen_many(const char *array, int width, uint64 base, int n, int full_width, char *values)
{
	int			done;

	switch (full_width)
	{
		case 1:
			done = widen_most(array, width, base, n, 1, values);
			break;
		case 2:
			done = widen_most(array, width, base, n, 2, values);
			break;
		case 4:
			done = widen_most(array, width, base, n, 4, values);
			break;
		default:
			done = widen_most(array, width, base, n, 8, values);
			break;
	}
	widen_few(array + done * width, width, base, n - done, full_width,
			  values + done * full_width);
}
#endif

/*
 * Widen adjacent offsets, of at most the width of the values
 */
static inline void
widen(const char *array, int width, uint64 base, int n, int full_width, void *values)
{
	Assert(width <= full_width);
#ifdef TARGET_AVX2
	if (n >= FEW_VALUES && __builtin_cpu_supports("avx2"))
	{
		widen_many(array, width, base, n, full_width, values);
		return;
	}
#endif
	widen_few(array, width, base, n, full_width, values);
}

/* Get the values of adjacent slots of a column, without regard to NULLs */
static void
load_column(Page page, const GjNarrowColumn *column, int first, int n, int full_width,
			void *values)
{
	widen((const char *) page + column->offset + first * column->width, column->width,
		  (uint64) column->base, n, full_width, values);
}

/*
 * Get the TIDs of n adjacent slots, packed
 */
void
GjNarrowCopyTids(Page page, int first, int n, uint64 *tids)
{
	const GjNarrowColumn column = GjPageGetNarrow(page)[GJ_TID_COLUMN];

	if (n == 1)
	{
		tids[0] = GjNarrowTid(&column, GjNarrowGet(page, &column, first));
		return;
	}
	widen((const char *) page + column.offset + first * column.width, column.width, 0, n,
		  sizeof(uint64), tids);
	for (int i = 0; i < n; i++)
		tids[i] = GjNarrowTid(&column, tids[i]);
}

static void
load_tids(Page page, ItemPointerData *tids)
{
	int			slots = GjPageGetNarrow(page)[GJ_TID_COLUMN].slots;
	uint64		packed[PIECE];

	for (int first = 0; first < slots; first += PIECE)
	{
		int			n = Min(PIECE, slots - first);

		GjNarrowCopyTids(page, first, n, packed);
		for (int i = 0; i < n; i++)
			ItemPointerSet(&tids[first + i], (BlockNumber) (packed[i] >> 16),
						   (OffsetNumber) packed[i]);
	}
}

#define SPLIT_TIDS(type) \
	do \
	{ \
		type		stored[PIECE]; \
 \
		widen((const char *) page + column->offset + first * column->width, column->width, 0, n, \
			  sizeof(type), stored); \
		for (int i = 0; i < n; i++) \
		{ \
			blocks[first + i] = (BlockNumber) column->base + (BlockNumber) (stored[i] >> shift); \
			offsets[first + i] = (OffsetNumber) stored[i] & mask; \
		} \
	} while (0)

/*
 * Get the blocks and the offset numbers of the TIDs of all slots
 */
void
GjNarrowSplitTids(Page page, BlockNumber *blocks, OffsetNumber *offsets)
{
	const GjNarrowColumn *column = &GjPageGetNarrow(page)[GJ_TID_COLUMN];
	int			shift = column->shift;
	OffsetNumber mask = (1 << shift) - 1;

	for (int first = 0; first < column->slots; first += PIECE)
	{
		int			n = Min(PIECE, column->slots - first);

		if (column->width <= sizeof(uint32))
			SPLIT_TIDS(uint32);
		else
			SPLIT_TIDS(uint64);
	}
}

/* Clear the values that are NULL */
static void
clear_nulls(const uint32 *nulls, int words, int width, char *values)
{
	for (int word = 0; word < words; word++)
	{
		for (uint32 left = nulls[word]; left != 0; left &= left - 1)
			memset(values + (word * GJ_SLOTS_PER_WORD + pg_rightmost_one_pos32(left)) * width, 0,
				   width);
	}
}

/*
 * Make a plain image of a page that was checked.  The image has at least the page's slots.
 */
void
GjNarrowWiden(Page page, Page image, const GjIndexInfo *wide)
{
	const GjNarrowColumn *columns = GjPageGetNarrow(page);
	int			slots = columns[GJ_TID_COLUMN].slots;
	int			words = slots / GJ_SLOTS_PER_WORD;

	GjWideInit(image, wide, 0);
	*GjPageGetOpaque(image) = *GjPageGetOpaque(page);
	GjPageGetOpaque(image)->kind = GJ_PAGE_DATA;
	load_column(page, &columns[GJ_KEY_COLUMN], 0, slots, wide->key_width,
				GjDataKeys(image, wide));
	load_tids(page, GjDataTids(image, wide));
	memcpy(GjDataUsed(image, wide), GjDataUsed(page, wide), words * sizeof(uint32));
	for (int i = 0; i < wide->nincluded; i++)
	{
		const GjIncludedColumn *included = &wide->included[i];
		const GjNarrowColumn *column = &columns[GJ_FIRST_INCLUDED + i];
		const uint32 *nulls = GjNarrowNulls(page, GJ_FIRST_INCLUDED + i);

		load_column(page, column, 0, slots, included->width, GjDataValues(image, included));
		if (nulls == NULL)
			continue;
		memcpy(GjDataNulls(image, included), nulls, words * sizeof(uint32));
		clear_nulls(nulls, words, included->width, GjDataValues(image, included));
	}
}

/* Values of some slots ---------------------------------------------------------------- */

/*
 * Return the keys of all slots of a page of any kind, as they are on a plain one: there, or in
 * memory for as many as a page can have
 */
const char *
GjDataGetKeys(Page page, const GjIndexInfo *info, int64 *widened)
{
	if (!GjDataIsNarrow(page))
		return GjDataKeys(page, info);
	load_column(page, &GjPageGetNarrow(page)[GJ_KEY_COLUMN], 0, GjDataSlots(page, info),
				info->key_width, widened);
	return (const char *) widened;
}

/*
 * Get the TIDs of n slots
 */
void
GjNarrowGatherTids(Page page, const uint16 *slots, int n, uint64 *tids)
{
	const GjNarrowColumn *column = &GjPageGetNarrow(page)[GJ_TID_COLUMN];

	for (int i = 0; i < n; i++)
		tids[i] = GjNarrowTid(column, GjNarrowGet(page, column, slots[i]));
}

/* Clear the i-th value if it is NULL */
static inline void
clear_null(const uint32 *nulls, int slot, char *values, int width, int i)
{
	if (nulls[slot / GJ_SLOTS_PER_WORD] & GjSlotBit(slot))
		memset(values + i * width, 0, width);
}

/*
 * Get the keys, or the values of an INCLUDE column, of n adjacent slots
 */
void
GjNarrowCopy(Page page, int number, int width, int first, int n, char *values)
{
	const GjNarrowColumn *column = &GjPageGetNarrow(page)[number];
	const uint32 *nulls = GjNarrowNulls(page, number);
	load_column(page, column, first, n, width, values);
	for (int i = 0; nulls != NULL && i < n; i++)
		clear_null(nulls, first + i, values, width, i);
}

#define GATHER_VALUES(type) \
	for (int i = 0; i < n; i++) \
		((type *) values)[i] = (type) (base + GjNarrowGet(page, column, slots[i]))

/*
 * Get them of n slots
 */
void
GjNarrowGather(Page page, int number, int width, const uint16 *slots, int n, char *values)
{
	const GjNarrowColumn *column = &GjPageGetNarrow(page)[number];
	const uint32 *nulls = GjNarrowNulls(page, number);
	uint64		base = (uint64) column->base;

	switch (width)
	{
		case 1:
			GATHER_VALUES(int8);
			break;
		case 2:
			GATHER_VALUES(int16);
			break;
		case 4:
			GATHER_VALUES(int32);
			break;
		default:
			GATHER_VALUES(int64);
			break;
	}
	for (int i = 0; nulls != NULL && i < n; i++)
		clear_null(nulls, slots[i], values, width, i);
}

/* Readers ----------------------------------------------------------------------------- */

/*
 * Prepare for reading pages of an index; the memory for images is allocated when it is needed, in
 * the current context
 */
GjWide *
GjWideCreate(const GjIndexInfo *info)
{
	GjWide	   *wide = palloc0(sizeof(GjWide));

	wide->context = CurrentMemoryContext;
	GjWideLayout(info, GJ_MAX_SLOTS, &wide->info);
	return wide;
}

/*
 * Allocate an empty image
 */
Page
GjWideAlloc(const GjIndexInfo *wide, MemoryContext context)
{
	Page		image = MemoryContextAlloc(context, wide->arrays_end + sizeof(uint64));

	GjWideInit(image, wide, 0);
	return image;
}

/*
 * Return a locked data page as a plain one, and its layout in *info: the page itself, or an image
 * that is valid until the next call
 */
Page
GjDataOpen(Relation index, BlockNumber block, Page page, const GjIndexInfo **info, GjWide *wide)
{
	if (!GjDataIsNarrow(page))
		return page;
	GjNarrowDemand(index, block, page, *info);
	if (wide->image == NULL)
		wide->image = GjWideAlloc(&wide->info, wide->context);
	GjNarrowWiden(page, wide->image, &wide->info);
	wide->info.plain_slots = GjDataSlots(page, *info);
	wide->info.plain_words = GjDataWords(page, *info);
	*info = &wide->info;
	return wide->image;
}

/*
 * Copy a locked data page of any kind to an image
 */
void
GjDataCopy(Relation index, BlockNumber block, Page page, const GjIndexInfo *info, Page image,
		   const GjIndexInfo *wide)
{
	int			slots = info->plain_slots;
	Size		bitmap = info->plain_words * sizeof(uint32);

	if (GjDataIsNarrow(page))
	{
		GjNarrowDemand(index, block, page, info);
		GjNarrowWiden(page, image, wide);
		return;
	}
	GjWideInit(image, wide, 0);
	*GjPageGetOpaque(image) = *GjPageGetOpaque(page);
	memcpy(GjDataKeys(image, wide), GjDataKeys(page, info), slots * info->key_width);
	memcpy(GjDataTids(image, wide), GjDataTids(page, info), slots * sizeof(ItemPointerData));
	memcpy(GjDataUsed(image, wide), GjDataUsed(page, info), bitmap);
	for (int i = 0; i < info->nincluded; i++)
	{
		const GjIncludedColumn *from = &info->included[i];
		const GjIncludedColumn *to = &wide->included[i];

		memcpy(GjDataValues(image, to), GjDataValues(page, from), slots * from->width);
		memcpy(GjDataNulls(image, to), GjDataNulls(page, from), bitmap);
	}
}
