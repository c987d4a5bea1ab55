/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  Many rows at a time: from the columns of a data page, and into them.
 *
 * A fold takes each row out of a delta's page and puts it into a run's.  Row by row that is a
 * call, a switch and a bit for each value; column by column it is a loop that copies.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "pages.h"

static int	list_used(Page page, const GjIndexInfo *info, uint16 *slots);
static void to_rows(char *rows, const GjIndexInfo *info, int offset, const char *values,
					int width, const uint16 *slots, int n);
static void from_rows(char *values, int width, const char *const *rows, int offset, int n);
static bool any_null(const GjIndexInfo *info, const char *const *rows, int n);

/*
 * Make rows of a data page's entries, one behind the other; returns how many
 */
int
GjDataGetRows(Page page, const GjIndexInfo *info, char *rows)
{
	uint16		slots[GJ_MAX_SLOTS];
	int			n = list_used(page, info, slots);
	int			null_bytes = info->row_width - info->row_nulls_offset;

	if (n == 0)
		return 0;
	to_rows(rows, info, 0, GjDataKeys(page, info), info->key_width, slots, n);
	to_rows(rows, info, info->key_width, (char *) GjDataTids(page, info),
			sizeof(ItemPointerData), slots, n);
	for (int i = 0; null_bytes > 0 && i < n; i++)
		memset(rows + i * info->row_width + info->row_nulls_offset, 0, null_bytes);
	for (int column = 0; column < info->nincluded; column++)
	{
		const GjIncludedColumn *included = &info->included[column];
		const uint32 *nulls = GjDataNulls(page, included);
		uint32		any = 0;

		to_rows(rows, info, included->row_offset, GjDataValues(page, included),
				included->width, slots, n);
		for (int word = 0; word < info->words; word++)
			any |= nulls[word];
		for (int i = 0; any != 0 && i < n; i++)
		{
			if (nulls[slots[i] / GJ_SLOTS_PER_WORD] & GjSlotBit(slots[i]))
				rows[i * info->row_width + info->row_nulls_offset + column / 8] |=
					1 << (column % 8);
		}
	}
	return n;
}

static int
list_used(Page page, const GjIndexInfo *info, uint16 *slots)
{
	const uint32 *used = GjDataUsed(page, info);
	int			n = 0;

	for (int word = 0; word < info->words; word++)
	{
		for (uint32 left = used[word]; left != 0; left &= left - 1)
			slots[n++] = word * GJ_SLOTS_PER_WORD + pg_rightmost_one_pos32(left);
	}
	return n;
}

/* Of a constant size, so that each copy is a load and a store */
#define COPY_TO_ROWS(size) \
	for (int i = 0; i < n; i++) \
		memcpy(rows + i * row_width + offset, values + slots[i] * (size), (size))

static void
to_rows(char *rows, const GjIndexInfo *info, int offset, const char *values, int width,
		const uint16 *slots, int n)
{
	Size		row_width = info->row_width;

	switch (width)
	{
		case 1:
			COPY_TO_ROWS(1);
			break;
		case 2:
			COPY_TO_ROWS(2);
			break;
		case 4:
			COPY_TO_ROWS(4);
			break;
		case sizeof(ItemPointerData):
			COPY_TO_ROWS(sizeof(ItemPointerData));
			break;
		default:
			COPY_TO_ROWS(8);
			break;
	}
}

/*
 * Put rows into an empty data page; they are in the order of (key, TID) and fit
 */
void
GjDataPutRows(Page page, const GjIndexInfo *info, const char *const *rows, int n)
{
	GjPageOpaque opaque = GjPageGetOpaque(page);
	uint32	   *used = GjDataUsed(page, info);

	Assert(opaque->used == 0 && n > 0 && n <= info->slots);
	from_rows(GjDataKeys(page, info), info->key_width, rows, 0, n);
	from_rows((char *) GjDataTids(page, info), sizeof(ItemPointerData), rows, info->key_width, n);
	for (int column = 0; column < info->nincluded; column++)
		from_rows(GjDataValues(page, &info->included[column]), info->included[column].width,
				  rows, info->included[column].row_offset, n);
	if (any_null(info, rows, n))
	{
		for (int column = 0; column < info->nincluded; column++)
		{
			uint32	   *nulls = GjDataNulls(page, &info->included[column]);

			for (int i = 0; i < n; i++)
			{
				if (rows[i][info->row_nulls_offset + column / 8] & (1 << (column % 8)))
					nulls[i / GJ_SLOTS_PER_WORD] |= GjSlotBit(i);
			}
		}
	}
	for (int i = 0; i < n; i++)
		used[i / GJ_SLOTS_PER_WORD] |= GjSlotBit(i);
	opaque->used = n;
	opaque->min_key = GjDataGetKey(page, info, 0);
	opaque->max_key = GjDataGetKey(page, info, n - 1);
}

#define COPY_FROM_ROWS(size) \
	for (int i = 0; i < n; i++) \
		memcpy(values + i * (size), rows[i] + offset, (size))

static void
from_rows(char *values, int width, const char *const *rows, int offset, int n)
{
	switch (width)
	{
		case 1:
			COPY_FROM_ROWS(1);
			break;
		case 2:
			COPY_FROM_ROWS(2);
			break;
		case 4:
			COPY_FROM_ROWS(4);
			break;
		case sizeof(ItemPointerData):
			COPY_FROM_ROWS(sizeof(ItemPointerData));
			break;
		default:
			COPY_FROM_ROWS(8);
			break;
	}
}

static bool
any_null(const GjIndexInfo *info, const char *const *rows, int n)
{
	int			nbytes = info->row_width - info->row_nulls_offset;
	char		any = 0;

	for (int i = 0; i < n; i++)
	{
		for (int byte = 0; byte < nbytes; byte++)
			any |= rows[i][info->row_nulls_offset + byte];
	}
	return any != 0;
}
