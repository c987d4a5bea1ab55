/*-------------------------------------------------------------------------
 *
 * directory.c
 *	  Where in a run a key is.
 *
 * A run's directory is a tree that never changes: its leaves name the data pages, each with its
 * first entry.  A reader has a copy of one page of each level, so nothing is locked or pinned
 * between two steps, and a step forward, or a seek that goes forward a little, finds what it needs
 * in the copy.
 *
 * The run may be dropped meanwhile, and its pages put to another use.  A page tells whose it is;
 * where that is not the run, the reader says "moved", and its caller looks at list_version.  A
 * copy stays what it was: it may send the caller to a data page that is the run's no more, which
 * that page tells in turn.
 *
 * Callers rely on it that each page begins behind the one before: with one step forward they are
 * behind the place that they were looking for.  So a step looks at it.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/tid.h"
#include "pages.h"

typedef struct GjDirectoryCopy
{
	BlockNumber block;			/* InvalidBlockNumber: no page has been copied yet */
	int			n;				/* elements */
	int			at;				/* where the reader is */
	bool		has_next;		/* is there a page behind it on its level? */
	GjPlace		next;			/* where that begins */
	GjDirectory directory;
} GjDirectoryCopy;

static bool covers(const GjDirectoryCopy *copy, const GjPlace *place);
static int	find_element(const GjDirectoryCopy *copy, const GjPlace *place);
static bool read_root(GjRunReader *reader);
static bool descend(GjRunReader *reader, int level);
static bool copy_page(GjRunReader *reader, int level, BlockNumber block, const GjPlace *first);
static Buffer lock_directory(Relation index, const GjRun *run, BlockNumber block);
static void check_blocks(Relation index, BlockNumber block, const GjDirectory *directory, int n);
static bool arrive(GjRunReader *reader);

static inline GjPlace
element(const GjDirectoryCopy *copy, int i)
{
	GjPlace		place = {copy->directory.keys[i], GjPackTid(&copy->directory.tids[i])};

	return place;
}

static inline bool
precedes(const GjPlace *a, const GjPlace *b)
{
	return a->key < b->key || (a->key == b->key && a->tid < b->tid);
}

/*
 * Begin to read a run of a state of the index; the reader is before its first page
 */
void
GjRunReaderBegin(GjRunReader *reader, Relation index, const GjRun *run)
{
	memset(reader, 0, sizeof(*reader));
	reader->index = index;
	reader->run = *run;
	reader->block = InvalidBlockNumber;
	reader->levels = palloc(run->height * sizeof(GjDirectoryCopy));
	for (int level = 0; level < run->height; level++)
		reader->levels[level].block = InvalidBlockNumber;
}

/*
 * Go to the first data page that can have the place or what is behind it
 *
 * False: the run has nothing there, or it has moved.
 */
bool
GjRunReaderSeek(GjRunReader *reader, const GjPlace *place)
{
	int			root = reader->run.height - 1;
	int			level = 0;

	if (place->key > reader->run.max_key || !read_root(reader))
		return false;
	while (level < root && !covers(&reader->levels[level], place))
		level++;

	for (;;)
	{
		GjDirectoryCopy *copy = &reader->levels[level];

		copy->at = find_element(copy, place);
		if (level == 0)
			return arrive(reader);
		if (!descend(reader, level))
			return false;
		level--;
	}
}

/*
 * Go to the next data page, or to the first one; false: there is none, or the run has moved
 */
bool
GjRunReaderNext(GjRunReader *reader)
{
	int			root = reader->run.height - 1;
	int			level = 0;

	if (!BlockNumberIsValid(reader->levels[root].block))
	{
		if (!read_root(reader))
			return false;
		level = root;
	}
	else
	{
		while (level <= root && reader->levels[level].at + 1 == reader->levels[level].n)
			level++;
		if (level > root)
			return false;
		reader->levels[level].at++;
	}
	for (; level > 0; level--)
	{
		if (!descend(reader, level))
			return false;
		reader->levels[level - 1].at = 0;
	}
	return arrive(reader);
}

/*
 * Free what the reader has
 */
void
GjRunReaderEnd(GjRunReader *reader)
{
	pfree(reader->levels);
	reader->levels = NULL;
}

/*
 * Get all blocks of a run, those of the directory first, from the root down; false if it has moved
 */
bool
GjRunGetBlocks(Relation index, const GjRun *run, BlockNumber *blocks)
{
	uint64		all = (uint64) run->data_pages + run->directory_pages;
	uint64		n = 1;

	blocks[0] = run->root;
	for (BlockNumber i = 0; i < run->directory_pages; i++)
	{
		Buffer		buffer = lock_directory(index, run, blocks[i]);
		GjPageOpaque opaque;

		if (!BufferIsValid(buffer))
			return false;
		opaque = GjPageGetOpaque(BufferGetPage(buffer));
		if (n + opaque->used > all)
			GjReportCorruption(index, blocks[i], "A run has more pages than the metapage counts.");
		memcpy(blocks + n, GjPageGetDirectory(BufferGetPage(buffer))->blocks,
			   opaque->used * sizeof(BlockNumber));
		n += opaque->used;
		UnlockReleaseBuffer(buffer);
		if (i + 1 == n)
			break;
	}
	if (n != all)
		GjReportCorruption(index, run->root, "A run has fewer pages than the metapage counts.");
	return true;
}

/*
 * Is the way to a place known to lead through this copy?
 */
static bool
covers(const GjDirectoryCopy *copy, const GjPlace *place)
{
	GjPlace		first;

	if (!BlockNumberIsValid(copy->block))
		return false;
	first = element(copy, 0);
	return !precedes(place, &first) && !(copy->has_next && !precedes(place, &copy->next));
}

/*
 * Find the last element at or before a place, or the first one if all are behind it
 */
static int
find_element(const GjDirectoryCopy *copy, const GjPlace *place)
{
	GjPlace		here = element(copy, copy->at);
	int			low = 0;
	int			high = copy->n;

	/* most go forward, and not far */
	if (!precedes(place, &here))
	{
		low = copy->at;
		if (low + 1 < copy->n)
		{
			here = element(copy, low + 1);
			if (precedes(place, &here))
				return low;
		}
	}
	while (high - low > 1)
	{
		int			middle = (low + high) / 2;

		here = element(copy, middle);
		if (precedes(place, &here))
			high = middle;
		else
			low = middle;
	}
	return low;
}

static bool
read_root(GjRunReader *reader)
{
	int			root = reader->run.height - 1;

	if (BlockNumberIsValid(reader->levels[root].block))
		return true;
	reader->levels[root].has_next = false;
	return copy_page(reader, root, reader->run.root, NULL);
}

/*
 * Copy the page below the element at which a level stands, unless it is there already
 */
static bool
descend(GjRunReader *reader, int level)
{
	GjDirectoryCopy *above = &reader->levels[level];
	GjDirectoryCopy *below = &reader->levels[level - 1];
	BlockNumber block = above->directory.blocks[above->at];
	GjPlace		first = element(above, above->at);

	if (block == below->block)
		return true;
	below->has_next = above->at + 1 < above->n || above->has_next;
	if (above->at + 1 < above->n)
		below->next = element(above, above->at + 1);
	else
		below->next = above->next;
	return copy_page(reader, level - 1, block, &first);
}

/*
 * Copy a page that begins where the one above it says; false if it is not of the run any more
 */
static bool
copy_page(GjRunReader *reader, int level, BlockNumber block, const GjPlace *first)
{
	GjDirectoryCopy *copy = &reader->levels[level];
	Buffer		buffer = lock_directory(reader->index, &reader->run, block);
	GjDirectory *directory;
	int			n;

	copy->block = InvalidBlockNumber;
	if (!BufferIsValid(buffer))
	{
		reader->block = block;
		reader->moved = true;
		return false;
	}

	directory = GjPageGetDirectory(BufferGetPage(buffer));
	n = GjPageGetOpaque(BufferGetPage(buffer))->used;
	if (directory->level != level)
		GjReportCorruption(reader->index, block, "A directory page is of another level.");
	memcpy(copy->directory.keys, directory->keys, n * sizeof(int64));
	memcpy(copy->directory.blocks, directory->blocks, n * sizeof(BlockNumber));
	memcpy(copy->directory.tids, directory->tids, n * sizeof(ItemPointerData));
	copy->n = n;
	copy->at = 0;
	copy->block = block;
	UnlockReleaseBuffer(buffer);
	if (first != NULL)
	{
		GjPlace		begin = element(copy, 0);

		if (precedes(&begin, first) || precedes(first, &begin))
			GjReportCorruption(reader->index, block,
							   "A directory page does not begin where the one above it says.");
	}
	return true;
}

/*
 * Lock a page of the directory in share mode; InvalidBuffer if it is not one of this run
 */
static Buffer
lock_directory(Relation index, const GjRun *run, BlockNumber block)
{
	Buffer		buffer = ReadBuffer(index, block);
	Page		page = BufferGetPage(buffer);
	GjPageOpaque opaque;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (GjPageIsUnused(page) || GjPageCheckKind(index, buffer) != GJ_PAGE_DIRECTORY ||
		GjPageGetOpaque(page)->run != run->run)
	{
		UnlockReleaseBuffer(buffer);
		return InvalidBuffer;
	}
	opaque = GjPageGetOpaque(page);
	if (opaque->used < 1 || opaque->used > GJ_DIRECTORY_FANOUT)
		GjReportCorruption(index, block, "A directory page has an impossible number of elements.");
	check_blocks(index, block, GjPageGetDirectory(page), opaque->used);
	return buffer;
}

/*
 * Check that blocks exist: what is on them they say themselves
 */
static void
check_blocks(Relation index, BlockNumber block, const GjDirectory *directory, int n)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);
	BlockNumber last = 0;

	for (int i = 0; i < n; i++)
		last = Max(last, directory->blocks[i]);
	if (last >= nblocks)
		GjReportCorruption(index, block, "A directory names a page that does not exist.");
}

/*
 * Tell the caller where the reader is
 */
static bool
arrive(GjRunReader *reader)
{
	const GjDirectoryCopy *leaf = &reader->levels[0];

	reader->block = leaf->directory.blocks[leaf->at];
	reader->first = element(leaf, leaf->at);
	reader->has_next = leaf->at + 1 < leaf->n || leaf->has_next;
	reader->next = leaf->at + 1 < leaf->n ? element(leaf, leaf->at + 1) : leaf->next;
	if (reader->has_next && !precedes(&reader->first, &reader->next))
		GjReportCorruption(reader->index, leaf->block, "A directory is not in order.");
	return true;
}
