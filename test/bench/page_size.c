/*-------------------------------------------------------------------------
 *
 * page_size.c
 *	  Compute the bytes a row of data pages that store offsets from a base of their own.
 *
 * src/README ("The next format") has the results that decided the widths.  A page gets entries
 * until the next one would not fit, as a writer of runs would do.  Of each column it has a base,
 * and offsets as wide as the largest one needs; of TIDs, the block less a base, shifted by as many
 * bits as the largest offset number has, and the offset number.  Usage:
 *
 *	  cc -O2 -o page_size test/bench/page_size.c
 *	  psql -XqAtc "COPY (SELECT key, ctid, column, ... FROM t ORDER BY key, ctid) TO STDOUT
 *		(DELIMITER '|')" | ./page_size NAME BYTES
 *
 * All columns are integers.  BYTES is what a row takes today: 10.3 with an int4 key, 14.3 with an
 * int8 one, and more with INCLUDE columns.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES	8192
#define FIXED_BYTES (24 + 32)		/* header, special space */
#define HEAD_BYTES	16				/* of each column, and of the TIDs, with the counts */
#define COLUMNS		8
#define MOST		4096			/* entries of a page */

typedef enum Widths
{
	POWERS,						/* 1, 2, 4, 8 bytes */
	TIDS_BY_BYTE,				/* and of TIDs 3, 5, 6 */
	BY_BYTE,					/* 1 to 6, 8 */
	BY_BIT,
} Widths;

static const char *const names[] = {"1,2,4,8", "TIDs 1-6", "1-6,8", "bits"};

typedef struct Entry
{
	int64_t		values[1 + COLUMNS];	/* the key, and the columns */
	uint32_t	nulls;			/* a bit for each column */
	uint32_t	block;
	int			offset;
} Entry;

/* Common to a page's entries */
typedef struct Frame
{
	int64_t		low[1 + COLUMNS];
	int64_t		high[1 + COLUMNS];
	uint32_t	nulls;
	uint32_t	low_block;
	uint32_t	high_block;
	int			offset;
	int			n;
} Frame;

static Entry *entries;
static size_t nentries;
static int	ncolumns;

static int
count_bits(uint64_t range)
{
	return range == 0 ? 0 : 64 - __builtin_clzll(range);
}

static double
find_width(Widths widths, bool is_tid, uint64_t range)
{
	int			bits = count_bits(range);
	int			bytes = (bits + 7) / 8;

	if (widths == BY_BIT)
		return bits / 8.0;
	if (widths == BY_BYTE || (widths == TIDS_BY_BYTE && is_tid))
		return bytes == 7 ? 8 : bytes;
	return bytes <= 2 ? bytes : bytes <= 4 ? 4 : 8;
}

static int
find_bytes(const Frame *frame, Widths widths)
{
	int			bitmap = (frame->n + 31) / 32 * 4;
	int			bytes = FIXED_BYTES + (2 + ncolumns) * HEAD_BYTES + bitmap;
	int			shift = count_bits(frame->offset);
	uint64_t	tids = (((uint64_t) frame->high_block - frame->low_block + 1) << shift) - 1;

	bytes += (int) (find_width(widths, true, tids) * frame->n + 7) & ~7;
	for (int i = 0; i <= ncolumns; i++)
	{
		uint64_t	range = frame->low[i] > frame->high[i] ? 0 :
			(uint64_t) frame->high[i] - (uint64_t) frame->low[i];

		bytes += (int) (find_width(widths, false, range) * frame->n + 7) & ~7;
		bytes += i > 0 && (frame->nulls & 1u << (i - 1)) ? bitmap : 0;
	}
	return bytes;
}

static void
add_entry(Frame *frame, const Entry *entry)
{
	for (int i = 0; i <= ncolumns; i++)
	{
		int64_t		value = entry->values[i];

		if (i > 0 && (entry->nulls & 1u << (i - 1)))
			continue;
		frame->low[i] = value < frame->low[i] ? value : frame->low[i];
		frame->high[i] = value > frame->high[i] ? value : frame->high[i];
	}
	frame->nulls |= entry->nulls;
	if (entry->block < frame->low_block)
		frame->low_block = entry->block;
	if (entry->block > frame->high_block)
		frame->high_block = entry->block;
	if (entry->offset > frame->offset)
		frame->offset = entry->offset;
	frame->n++;
}

static void
print_size(const char *title, Widths widths, double today)
{
	size_t		pages = 0;
	int			most = 0;
	double		bytes;

	for (size_t at = 0; at < nentries;)
	{
		Frame		frame = {.low_block = UINT32_MAX};

		for (int i = 0; i <= ncolumns; i++)
		{
			frame.low[i] = INT64_MAX;
			frame.high[i] = INT64_MIN;
		}
		while (at < nentries && frame.n < MOST)
		{
			Frame		next = frame;

			add_entry(&next, &entries[at]);
			if (find_bytes(&next, widths) > PAGE_BYTES)
				break;
			frame = next;
			at++;
		}
		most = frame.n > most ? frame.n : most;
		pages++;
	}
	bytes = (double) pages * PAGE_BYTES / nentries;
	printf("%-28s %-9s %6.2f bytes a row, %.2f of today; a page has %.0f entries, at most %d\n",
		   title, names[widths], bytes, bytes / today, (double) nentries / pages, most);
}

static bool
read_entry(Entry *entry)
{
	char		line[1024];
	char	   *at = line;

	if (fgets(line, sizeof(line), stdin) == NULL)
		return false;
	memset(entry, 0, sizeof(Entry));
	entry->values[0] = strtoll(at, &at, 10);
	entry->block = strtoul(at + 2, &at, 10);	/* after |( */
	entry->offset = strtol(at + 1, &at, 10);
	at++;
	for (ncolumns = 0; *at == '|' && ncolumns < COLUMNS; ncolumns++)
	{
		at++;
		if (*at == '|' || *at == '\n')
			entry->nulls |= 1u << ncolumns;
		else
			entry->values[1 + ncolumns] = strtoll(at, &at, 10);
	}
	return true;
}

int
main(int argc, char **argv)
{
	size_t		room = 0;

	if (argc != 3)
	{
		fprintf(stderr, "usage: page_size NAME BYTES\n");
		return 2;
	}
	do
	{
		if (nentries + 1 >= room)
		{
			room = room * 2 + 1024;
			entries = realloc(entries, room * sizeof(Entry));
			if (entries == NULL)
				return 1;
		}
	} while (read_entry(&entries[nentries]) && ++nentries > 0);
	for (Widths widths = POWERS; nentries > 0 && widths <= BY_BIT; widths++)
		print_size(argv[1], widths, atof(argv[2]));
	return 0;
}
