/*-------------------------------------------------------------------------
 *
 * visiblemap.c
 *	  The visibility map, asked for many TIDs in any order.
 *
 * A page of the map is about 256 MB of the heap.  Entries come in the order of their keys, and so
 * from all over the heap: to look for the page of each would take longer than all else that is done
 * with an entry.  So a page is copied when it is first asked for, and then a look at the map is a
 * look at an array: a million take a millisecond or two.  The copies of all pages lie one behind
 * the other, so that a block's bits are where its number says.  They take 1/32768 of the heap's
 * size; where that is too much, pages are pinned, a few at a time.
 *
 * Most often all of the heap is all-visible, perhaps but for its end.  Then it is enough to know
 * which TID is the highest one of a set, and nothing is done for an entry.
 *
 * Few TIDs are not worth a copy.
 *
 * The map is read without a lock, as PostgreSQL's index-only scans read it.  When it may be read,
 * and how old a copy may be, is said in entryvisible.c.  Nothing is pinned between calls.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/tid.h"
#include "sets/sets.h"
#include "visiblemap.h"

/* The format of the visibility map, which visibilitymap.c keeps to itself */
#define BYTES_PER_PAGE			(BLCKSZ - MAXALIGN(SizeOfPageHeaderData))
#define BLOCKS_PER_BYTE			(BITS_PER_BYTE / BITS_PER_HEAPBLOCK)
#define BLOCKS_PER_PAGE			((BlockNumber) (BYTES_PER_PAGE * BLOCKS_PER_BYTE))

StaticAssertDecl(BITS_PER_HEAPBLOCK == 2 && VISIBILITYMAP_ALL_VISIBLE == 1,
				 "the visibility map has another format");

/* The bits of a byte that say so of its blocks */
#define ALL_VISIBLE_BITS		0x55

/* Blocks that are close together */
#define MAX_TOGETHER			4096

/* So few pages are copied at once */
#define FEW_PAGES				8

/* For so many TIDs at a time pages are copied */
#define MIN_COPY_TIDS			64

/* Pages that are pinned at a time: at the place that their number says */
#define PINNED_PAGES			8

struct GjVisibleMap
{
	MemoryContext context;
	Relation	heap;
	Size		limit;

	/* Pages that are copied; bytes is NULL: there are no copies */
	uint8	   *bytes;
	bool	   *copied;
	BlockNumber npages;
	BlockNumber ncopied;
	uint64		nvisible;		/* the first so many blocks are all-visible; known once all pages
								 * are copied, 0 before */
	bool		too_large;		/* for the limit */
	uint64		nreads;
};

/* Pages that are pinned; bytes is NULL: none is */
typedef struct Pins
{
	Relation	heap;
	BlockNumber pages[PINNED_PAGES];
	Buffer		buffers[PINNED_PAGES];
	const uint8 *bytes[PINNED_PAGES];
} Pins;

static bool make_room(GjVisibleMap *map);
static bool are_visible_first(const GjVisibleMap *map, const uint64 *tids, int n);
static bool are_visible_together(GjVisibleMap *map, const uint64 *tids, int n);
static void copy_pages(GjVisibleMap *map, const uint64 *tids, int n);
static void copy_page(GjVisibleMap *map, BlockNumber page);
static void count_visible(GjVisibleMap *map);
static int	sort_by_copies(const GjVisibleMap *map, const uint64 *tids, int n, uint16 *rows,
						   uint64 *rest, int *nrest);
static int	sort_by_pins(Relation heap, const uint64 *tids, int n, uint16 *rows, uint64 *rest,
						 int *nrest);
static void begin(Pins *pins, Relation heap);
static bool is_visible(Pins *pins, BlockNumber block);
static bool pin(Pins *pins, BlockNumber page);
static void end(Pins *pins);

/*
 * Do bytes of the map say of a block, counted from their first one, that it is all-visible?
 */
static inline bool
is_set(const uint8 *bytes, uint64 block)
{
	return (bytes[block / BLOCKS_PER_BYTE] >> block % BLOCKS_PER_BYTE * BITS_PER_HEAPBLOCK &
			VISIBILITYMAP_ALL_VISIBLE) != 0;
}

GjVisibleMap *
GjVisibleMapCreate(MemoryContext context, Relation heap, Size limit)
{
	GjVisibleMap *map = MemoryContextAllocZero(context, sizeof(GjVisibleMap));

	map->context = context;
	map->heap = heap;
	map->limit = limit;
	return map;
}

int
GjVisibleMapSort(GjVisibleMap *map, const uint64 *tids, int n, uint64 highest, uint16 *rows,
				 uint64 *rest, int *nrest)
{
	if (n < MIN_COPY_TIDS || !make_room(map))
	{
		map->nreads++;
		return sort_by_pins(map->heap, tids, n, rows, rest, nrest);
	}
	if (GjPackedBlock(highest) < map->nvisible || are_visible_first(map, tids, n) ||
		are_visible_together(map, tids, n))
	{
		for (int i = 0; i < n; i++)
			rows[i] = i;
		*nrest = 0;
		return n;
	}
	if (map->ncopied < map->npages)
		copy_pages(map, tids, n);
	return sort_by_copies(map, tids, n, rows, rest, nrest);
}

void
GjVisibleMapForget(GjVisibleMap *map)
{
	if (map->bytes != NULL)
	{
		pfree(map->bytes);
		pfree(map->copied);
	}
	map->bytes = NULL;
	map->nvisible = 0;
	map->too_large = false;
}

uint64
GjVisibleMapReads(const GjVisibleMap *map)
{
	return map->nreads;
}

/* Copies -------------------------------------------------------------------------- */

/*
 * Make room for copies of all pages; false: there is not so much
 */
static bool
make_room(GjVisibleMap *map)
{
	BlockNumber nblocks;

	if (map->bytes != NULL || map->too_large)
		return map->bytes != NULL;

	nblocks = RelationGetNumberOfBlocks(map->heap);
	map->npages = (nblocks + BLOCKS_PER_PAGE - 1) / BLOCKS_PER_PAGE;
	map->ncopied = 0;
	map->nvisible = 0;
	map->too_large = (Size) map->npages * BYTES_PER_PAGE > map->limit;
	if (map->too_large)
		return false;
	map->bytes = MemoryContextAllocHuge(map->context, (Size) map->npages * BYTES_PER_PAGE);
	map->copied = MemoryContextAllocZero(map->context, map->npages * sizeof(bool));
	for (BlockNumber page = 0; page < map->npages && map->npages <= FEW_PAGES; page++)
		copy_page(map, page);
	return true;
}

/*
 * Where some of the set's blocks at the heap's end are not all-visible, all of these may be
 */
static bool
are_visible_first(const GjVisibleMap *map, const uint64 *tids, int n)
{
	uint64		last = 0;

	if (map->nvisible == 0)
		return false;
	(void) GjCheckPackedTids(tids, n, &last);
	return GjPackedBlock(last) < map->nvisible;
}

/*
 * Where entries do come in heap order, a chunk's are close together, and most often all blocks
 * there are all-visible.  May say no where they are.
 */
static bool
are_visible_together(GjVisibleMap *map, const uint64 *tids, int n)
{
	uint64		differing = 0;
	uint64		first;
	uint64		end;
	BlockNumber page;
	uint8		bits = ALL_VISIBLE_BITS;

	/* blocks that have the upper bits in common, of which there may be more than are asked for */
	for (int i = 1; i < n; i++)
		differing |= tids[i] ^ tids[0];
	differing >>= 16;
	if (differing >= MAX_TOGETHER)
		return false;
	end = pg_nextpower2_64(Max(differing + 1, BLOCKS_PER_BYTE));
	first = GjPackedBlock(tids[0]) & ~(end - 1);
	end += first;
	page = first / BLOCKS_PER_PAGE;
	if (page >= map->npages || page != (end - 1) / BLOCKS_PER_PAGE)
		return false;
	if (!map->copied[page])
		copy_page(map, page);
	for (uint64 i = first / BLOCKS_PER_BYTE; i < end / BLOCKS_PER_BYTE; i++)
		bits &= map->bytes[i];
	return bits == ALL_VISIBLE_BITS;
}

/*
 * Copy the pages that these TIDs need
 */
static void
copy_pages(GjVisibleMap *map, const uint64 *tids, int n)
{
	for (int i = 0; i < n; i++)
	{
		BlockNumber page = GjPackedBlock(tids[i]) / BLOCKS_PER_PAGE;

		if (page < map->npages && !map->copied[page])
			copy_page(map, page);
	}
}

static void
copy_page(GjVisibleMap *map, BlockNumber page)
{
	uint8	   *to = map->bytes + (Size) page * BYTES_PER_PAGE;
	Buffer		buffer = InvalidBuffer;

	(void) visibilitymap_get_status(map->heap, page * BLOCKS_PER_PAGE, &buffer);
	if (BufferIsValid(buffer))
	{
		memcpy(to, PageGetContents(BufferGetPage(buffer)), BYTES_PER_PAGE);
		ReleaseBuffer(buffer);
	}
	else
		memset(to, 0, BYTES_PER_PAGE);
	map->nreads++;
	map->copied[page] = true;
	if (++map->ncopied == map->npages)
		count_visible(map);
}

static void
count_visible(GjVisibleMap *map)
{
	Size		nbytes = (Size) map->npages * BYTES_PER_PAGE;
	Size		at = 0;
	uint64		all;
	uint64		bits;

	StaticAssertStmt(BYTES_PER_PAGE % sizeof(uint64) == 0, "a page of the map is whole words");
	memset(&all, ALL_VISIBLE_BITS, sizeof(all));
	for (; at < nbytes; at += sizeof(uint64))
	{
		memcpy(&bits, map->bytes + at, sizeof(bits));
		if ((bits & all) != all)
			break;
	}
	/* The heap may end within a byte */
	map->nvisible = (uint64) at * BLOCKS_PER_BYTE;
	while (map->nvisible < (uint64) nbytes * BLOCKS_PER_BYTE &&
		   is_set(map->bytes, map->nvisible))
		map->nvisible++;
}

static int
sort_by_copies(const GjVisibleMap *map, const uint64 *tids, int n, uint16 *rows, uint64 *rest,
			   int *nrest)
{
	const uint8 *bytes = map->bytes;
	const uint64 nblocks = (uint64) map->npages * BLOCKS_PER_PAGE;
	int			nrows = 0;
	int			nothers = 0;

	for (int i = 0; i < n; i++)
	{
		uint64		block = GjPackedBlock(tids[i]);
		bool		visible = block < nblocks && is_set(bytes, block);

		rows[nrows] = i;
		nrows += visible;
		rest[nothers] = tids[i];
		nothers += !visible;
	}
	*nrest = nothers;
	return nrows;
}

/* Pins ---------------------------------------------------------------------------- */

static int
sort_by_pins(Relation heap, const uint64 *tids, int n, uint16 *rows, uint64 *rest, int *nrest)
{
	int			nrows = 0;
	int			nothers = 0;
	Pins		pins;

	begin(&pins, heap);
	for (int i = 0; i < n; i++)
	{
		if (is_visible(&pins, GjPackedBlock(tids[i])))
			rows[nrows++] = i;
		else
			rest[nothers++] = tids[i];
	}
	end(&pins);
	*nrest = nothers;
	return nrows;
}

int
GjVisibleMapTest(Relation heap, const uint64 *tids, int n, bool *visible)
{
	int			nvisible = 0;
	Pins		pins;

	begin(&pins, heap);
	for (int i = 0; i < n; i++)
	{
		visible[i] = is_visible(&pins, GjPackedBlock(tids[i]));
		nvisible += visible[i];
	}
	end(&pins);
	return nvisible;
}

static void
begin(Pins *pins, Relation heap)
{
	pins->heap = heap;
	for (int i = 0; i < PINNED_PAGES; i++)
	{
		pins->buffers[i] = InvalidBuffer;
		pins->bytes[i] = NULL;
	}
}

static inline bool
is_visible(Pins *pins, BlockNumber block)
{
	BlockNumber page = block / BLOCKS_PER_PAGE;
	BlockNumber at = block % BLOCKS_PER_PAGE;
	int			place = page % PINNED_PAGES;

	if ((pins->bytes[place] == NULL || pins->pages[place] != page) && !pin(pins, page))
		return false;
	return is_set(pins->bytes[place], at);
}

/*
 * Pin a page in the place of another one; false: there is none, and its blocks are not
 * all-visible
 */
static bool
pin(Pins *pins, BlockNumber page)
{
	int			place = page % PINNED_PAGES;
	Buffer	   *buffer = &pins->buffers[place];

	(void) visibilitymap_get_status(pins->heap, page * BLOCKS_PER_PAGE, buffer);
	pins->pages[place] = page;
	pins->bytes[place] = BufferIsValid(*buffer) ?
		(const uint8 *) PageGetContents(BufferGetPage(*buffer)) : NULL;
	return pins->bytes[place] != NULL;
}

static void
end(Pins *pins)
{
	for (int i = 0; i < PINNED_PAGES; i++)
	{
		if (BufferIsValid(pins->buffers[i]))
			ReleaseBuffer(pins->buffers[i]);
	}
}
