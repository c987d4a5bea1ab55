/*-------------------------------------------------------------------------
 *
 * narrowselftest.c
 *	  Test of narrow pages (pages/narrow.c): a page must return the entries that it was made of.
 *
 * Entries are random, from a fixed seed.  Each column differs in a number of bits of its own, from
 * 0 up to all, around a base that may be negative or at an end of the type; so the widths and their
 * borders are met, as are columns without values, NULLs at borders, absent values, one entry, TIDs
 * of one block, of all blocks, and of the first and the last one.  A page takes entries as a writer
 * gives them, word by word.
 *
 * Some pages have entries that differ in few bits of their TIDs only; these have the largest number
 * of slots.  Descriptions are then damaged: each must be refused, or be read within the page.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fmgr.h"
#include "miscadmin.h"

#include "base/numeric.h"
#include "pages/pages.h"

#define ROUNDS		1000
#define DAMAGES		10

PG_FUNCTION_INFO_V1(gpujoin_narrow_selftest);

static const int widths[] = {1, 2, 4, 8, 8};

typedef struct TestColumn
{
	int			bits;			/* in which values differ */
	int64		base;
	int			null_percent;
	bool		some_absent;
} TestColumn;

static pg_prng_state prng;

static uint64
random_below(uint64 n)
{
	return pg_prng_uint64(&prng) % n;
}

static void
choose_column(TestColumn *column, int width, bool constant)
{
	int64		ends[] = {0, -1, 1, PG_INT64_MIN, PG_INT64_MAX, 20000101, -128, 32767};
	uint64		word = pg_prng_uint64(&prng);

	column->bits = constant ? 0 : random_below(width * 8 + 1);
	column->base = random_below(2) == 0 ? ends[random_below(lengthof(ends))] : (int64) word;
	column->null_percent = constant || random_below(3) != 0 ? 0 : random_below(2) == 0 ? 100 : 10;
	column->some_absent = !constant && width == 8 && random_below(8) == 0;
}

static int64
choose_value(const TestColumn *column)
{
	uint64		mask = column->bits == 64 ? PG_UINT64_MAX :
		(UINT64CONST(1) << column->bits) - 1;
	uint64		word = pg_prng_uint64(&prng);

	/* often at one of the ends */
	if (word % 8 < 2)
		word = word % 8 == 0 ? 0 : PG_UINT64_MAX;
	if (column->some_absent && random_below(50) == 0)
		return GJ_ABSENT;
	return (int64) ((uint64) column->base + (word & mask));
}

static void
put(char *values, int width, int slot, int64 value)
{
	switch (width)
	{
		case 1:
			((int8 *) values)[slot] = (int8) value;
			break;
		case 2:
			((int16 *) values)[slot] = (int16) value;
			break;
		case 4:
			((int32 *) values)[slot] = (int32) value;
			break;
		default:
			((int64 *) values)[slot] = value;
			break;
	}
}

static void
fill_image(Page image, const GjIndexInfo *wide, int n)
{
	TestColumn	column;
	bool		constant = random_below(8) == 0;
	uint64		nblocks = constant ? 1 : random_below(UINT64CONST(1) << random_below(32)) + 1;
	BlockNumber first = random_below(MaxBlockNumber - nblocks + 2);
	bool		at_ends = !constant && random_below(8) == 0;
	int			most = !constant && random_below(2) == 0 ? MaxHeapTuplesPerPage :
		1 + random_below(16);

	GjWideInit(image, wide, 7);
	choose_column(&column, wide->key_width, constant);
	column.some_absent = false;
	for (int i = 0; i < n; i++)
	{
		BlockNumber block = first + random_below(nblocks);

		put(GjDataKeys(image, wide), wide->key_width, i, choose_value(&column));
		if (at_ends)
			block = random_below(2) == 0 ? 0 : MaxBlockNumber;
		ItemPointerSet(&GjDataTids(image, wide)[i], block, 1 + random_below(most));
	}
	for (int c = 0; c < wide->nincluded; c++)
	{
		const GjIncludedColumn *included = &wide->included[c];

		choose_column(&column, included->width, constant);
		for (int i = 0; i < n; i++)
		{
			bool		is_null = random_below(100) < column.null_percent;

			if (is_null)
				GjDataNulls(image, included)[i / GJ_SLOTS_PER_WORD] |= GjSlotBit(i);
			put(GjDataValues(image, included), included->width, i,
				is_null ? 0 : choose_value(&column));
		}
	}
	for (int i = 0; i < n; i++)
		GjDataUsed(image, wide)[i / GJ_SLOTS_PER_WORD] |= GjSlotBit(i);
	GjPageGetOpaque(image)->used = n;
}

static void
compare(const char *what, const void *a, const void *b, Size size)
{
	if (memcmp(a, b, size) != 0)
		elog(ERROR, "a narrow page returns other %s", what);
}

static void
compare_images(Page a, Page b, const GjIndexInfo *wide, int n)
{
	int			words = (n + GJ_SLOTS_PER_WORD - 1) / GJ_SLOTS_PER_WORD;
	uint32		used[GJ_MAX_SLOTS / GJ_SLOTS_PER_WORD] = {0};

	for (int i = 0; i < n; i++)
		used[i / GJ_SLOTS_PER_WORD] |= GjSlotBit(i);
	compare("keys", GjDataKeys(a, wide), GjDataKeys(b, wide), n * wide->key_width);
	compare("TIDs", GjDataTids(a, wide), GjDataTids(b, wide), n * sizeof(ItemPointerData));
	compare("used bits", used, GjDataUsed(b, wide), words * sizeof(uint32));
	for (int i = 0; i < wide->nincluded; i++)
	{
		const GjIncludedColumn *column = &wide->included[i];
		const uint32 *nulls = GjDataNulls(a, column);
		const uint32 *others = GjDataNulls(b, column);

		compare("values", GjDataValues(a, column), GjDataValues(b, column), n * column->width);
		for (int slot = 0; slot < n; slot++)
		{
			if ((nulls[slot / GJ_SLOTS_PER_WORD] ^ others[slot / GJ_SLOTS_PER_WORD]) &
				GjSlotBit(slot))
				elog(ERROR, "a narrow page returns other NULLs");
		}
	}
}

/* Compare what a column returns for adjacent slots, and for some slots */
static void
compare_column(Page page, int number, int width, const char *expected, int first, int n,
			   const uint16 *slots, int nslots)
{
	int64		values[GJ_MAX_SLOTS];

	GjNarrowCopy(page, number, width, first, n, (char *) values);
	compare("adjacent values", expected + first * width, values, n * width);
	GjNarrowGather(page, number, width, slots, nslots, (char *) values);
	for (int i = 0; i < nslots; i++)
		compare("gathered values", expected + slots[i] * width, (char *) values + i * width, width);
}

/* Compare what readers get that do not widen the page */
static void
compare_parts(Page page, const GjIndexInfo *info, Page image, const GjIndexInfo *wide, int n)
{
	int			first = random_below(n);
	int			some = 1 + random_below(n - first);
	int			nslots = 0;
	uint16		slots[GJ_MAX_SLOTS];
	uint64		tids[GJ_MAX_SLOTS];
	int64		keys[GJ_MAX_SLOTS];
	BlockNumber blocks[GJ_MAX_SLOTS];
	OffsetNumber offsets[GJ_MAX_SLOTS];

	GjNarrowSplitTids(page, blocks, offsets);
	for (int i = 0; i < n; i++)
	{
		GjPlace		place = GjDataGetPlace(page, info, i);
		GjPlace		expected = GjDataGetPlace(image, wide, i);

		if (place.key != expected.key || place.tid != expected.tid)
			elog(ERROR, "a narrow page returns another place");
		if (expected.tid != ((uint64) blocks[i] << 16 | offsets[i]))
			elog(ERROR, "a narrow page returns another block or offset number");
		if (random_below(3) == 0)
			slots[nslots++] = i;
	}
	compare("keys", GjDataKeys(image, wide), GjDataGetKeys(page, info, keys), n * info->key_width);
	GjNarrowCopyTids(page, first, some, tids);
	for (int i = 0; i < some; i++)
	{
		if (tids[i] != GjPackTid(&GjDataTids(image, wide)[first + i]))
			elog(ERROR, "a narrow page returns other adjacent TIDs");
	}
	GjNarrowGatherTids(page, slots, nslots, tids);
	for (int i = 0; i < nslots; i++)
	{
		if (tids[i] != GjPackTid(&GjDataTids(image, wide)[slots[i]]))
			elog(ERROR, "a narrow page returns other gathered TIDs");
	}
	compare_column(page, GJ_KEY_COLUMN, info->key_width, GjDataKeys(image, wide), first, some,
				   slots, nslots);
	for (int i = 0; i < info->nincluded; i++)
		compare_column(page, GJ_FIRST_INCLUDED + i, info->included[i].width,
					   GjDataValues(image, &wide->included[i]), first, some, slots, nslots);
}

/* Find how many entries fit, like a writer */
static int
find_fit(Page image, const GjIndexInfo *wide, int n, GjFrame *frame)
{
	int			fit = 0;

	GjFrameInit(frame);
	while (fit < n)
	{
		int			more = Min(n - fit, GJ_SLOTS_PER_WORD);
		GjFrame		next;

		GjFrameInit(&next);
		GjFrameAdd(&next, image, wide, fit, more);
		GjFrameUnite(&next, frame, GJ_FIRST_INCLUDED + wide->nincluded);
		if (!GjFrameFits(&next, wide, fit + more))
			break;
		*frame = next;
		fit += more;
	}
	return fit;
}

static void
damage(Page page, const GjIndexInfo *info, Page image, const GjIndexInfo *wide)
{
	PGAlignedBlock damaged;

	for (int i = 0; i < DAMAGES; i++)
	{
		int			at = random_below((GJ_FIRST_INCLUDED + info->nincluded) *
									  sizeof(GjNarrowColumn));

		memcpy(damaged.data, page, BLCKSZ);
		PageGetContents((Page) damaged.data)[at] ^= 1 << random_below(8);
		if (GjNarrowCheck((Page) damaged.data, info))
			GjNarrowWiden((Page) damaged.data, image, wide);
	}
}

/*
 * Returns the number of entries that were compared
 */
Datum
gpujoin_narrow_selftest(PG_FUNCTION_ARGS)
{
	int64		compared = 0;
	char	   *images[2];
	int			most = 0;

	pg_prng_seed(&prng, 17);
	for (int i = 0; i < lengthof(images); i++)
		images[i] = palloc(GJ_MAX_SLOTS * (14 + 30 * 8) + BLCKSZ);
	for (int round = 0; round < ROUNDS; round++)
	{
		GjIndexInfo info = {0};
		GjIndexInfo wide;
		GjFrame		frame;
		PGAlignedBlock page;
		int			n = random_below(4) == 0 ? 1 + random_below(70) : GJ_MAX_SLOTS;
		int			fit;

		CHECK_FOR_INTERRUPTS();
		info.key_width = random_below(2) == 0 ? 4 : 8;
		info.nincluded = random_below(lengthof(widths) + 1);
		for (int i = 0; i < info.nincluded; i++)
			info.included[i].width = widths[random_below(lengthof(widths))];
		GjWideLayout(&info, GJ_MAX_SLOTS, &wide);
		fill_image((Page) images[0], &wide, n);
		fit = find_fit((Page) images[0], &wide, n, &frame);
		if (fit == 0)
			elog(ERROR, "no entry fits on a page");
		memset(page.data, 0x5A, BLCKSZ);
		GjNarrowMake((Page) page.data, &frame, (Page) images[0], &wide, fit);
		if (!GjNarrowCheck((Page) page.data, &info))
			elog(ERROR, "a narrow page is refused");
		GjNarrowWiden((Page) page.data, (Page) images[1], &wide);
		compare_images((Page) images[0], (Page) images[1], &wide, fit);
		compare_parts((Page) page.data, &info, (Page) images[0], &wide, fit);
		if (GjPageGetOpaque((Page) images[1])->used != fit ||
			GjPageGetOpaque((Page) images[1])->run != 7)
			elog(ERROR, "a narrow page returns another count");
		damage((Page) page.data, &info, (Page) images[1], &wide);
		compared += fit;
		most = Max(most, fit);
	}
	if (most != GJ_MAX_SLOTS)
		elog(ERROR, "no page had the largest number of slots");
	PG_RETURN_INT64(compared);
}
