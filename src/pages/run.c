/*-------------------------------------------------------------------------
 *
 * run.c
 *	  Reading and writing runs: finding a key in a run by its directory, and writing a run from
 *	  sorted rows.
 *
 * A run's directory is a tree that never changes: its leaves list the data pages, each with its
 * first entry.  A reader has a copy of one page of each level, so nothing is locked or pinned
 * between two steps, and a step forward, or a short seek forward, uses only the copies.
 *
 * A reader that will make only a few seeks copies single elements instead, as copying a page takes
 * longer than a search in it.  Such a copy leads to the places from its element to the next one;
 * for another place, the page is searched again.
 *
 * The run may be dropped meanwhile, and its pages reused.  Each page carries the number of its
 * run; if that has changed, the reader returns "moved", and its caller checks list_version (lemma
 * L1 of src/README).  A copy remains unchanged: it may lead the caller to a data page that does not
 * belong to the run any more, but that page's number shows it.
 *
 * Callers rely on each page beginning after the previous one: after one step forward they are
 * past the place that they were looking for.  So each step checks this.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/indexfsm.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/step.h"
#include "base/tid.h"
#include "pages.h"

typedef struct GjDirectoryCopy
{
	BlockNumber block;			/* InvalidBlockNumber if no page has been copied yet */
	int			n;				/* number of elements */
	int			at;				/* reader's current element */
	bool		has_next;		/* true if another element follows on this level */
	GjPlace		next;			/* its place */
	int64	   *keys;			/* of the elements, as in GjDirectory */
	BlockNumber *blocks;
	ItemPointerData *tids;
} GjDirectoryCopy;

/* Size of the arrays of a copy of n elements */
#define COPY_BYTES(n) \
	MAXALIGN((n) * (sizeof(int64) + sizeof(BlockNumber) + sizeof(ItemPointerData)))

/* A measurement passes over so many pages after each that it makes, */
#define UNMEASURED_PAGES		7

/* or, of large tables, over more: it makes about this number of pages */
#define MEASURED_PAGES			128

/* A finished page that has not been written yet */
typedef struct Waiting
{
	int			level;			/* directory level that will list it; 0 for a data page */
	GjPlace		first;			/* its first entry or element */
} Waiting;

/* The directory page that is being filled on a level */
typedef struct Level
{
	GjDirectory *directory;		/* NULL if none has been started */
	int			n;
	BlockNumber written;		/* number of finished pages of this level */
} Level;

struct GjRunWriter
{
	Relation	index;
	GjIndexInfo info;
	MemoryContext context;		/* for the directory */
	uint64		change;
	bool		building;
	GjIndexState state;			/* tells which pages are free; not set in a build */
	BlockNumber length;			/* lower bound of the file's length in blocks */
	bool		map_is_empty;	/* true once the free space map has no more pages */
	BlockNumber end;			/* block after the last one written */
	GjRun		run;
	int			slot;			/* next free slot of the data page */
	GjPlace		last;			/* last entry of the last finished data page */
	GjIndexInfo wide;			/* of the image where entries of narrow pages are collected */
	Page		collected;		/* NULL if pages are plain */
	GjFrame		frame;			/* of the first entries */
	int			framed;			/* number of these, whole words, which fit on a page */
	int			most_slots;		/* of a narrow page */
	bool		measuring;		/* true while pages are measured only: GjRunWriterMeasure() */
	int			measured;		/* entries of such a page; 0 until it is finished */
	Level		levels[GJ_MAX_HEIGHT];
	int			nwaiting;		/* always less than the capacity: the next page is made in the
								 * following element */
	Waiting		waiting[GJ_PAGES_PER_RECORD];
	PGAlignedBlock images[GJ_PAGES_PER_RECORD];
};

static bool covers(const GjDirectoryCopy *copy, const GjPlace *place);
static int	find_element(const GjDirectoryCopy *copy, const GjPlace *place);
static bool read_root(GjRunReader *reader, const GjPlace *place);
static bool descend(GjRunReader *reader, int level, const GjPlace *place);
static bool copy_page(GjRunReader *reader, int level, BlockNumber block, const GjPlace *first,
					  const GjPlace *place);
static Buffer lock_directory(Relation index, const GjRun *run, BlockNumber block);
static void check_blocks(Relation index, BlockNumber block, const BlockNumber *blocks, int n,
						 BlockNumber nblocks);
static bool arrive(GjRunReader *reader);
static void drop_collected(GjRunWriter *writer);
static inline Page next_image(GjRunWriter *writer);
static inline Page unfinished(GjRunWriter *writer);
static inline const GjIndexInfo *layout(const GjRunWriter *writer);
static bool add_to_frame(GjRunWriter *writer, int end);
static void finish_narrow(GjRunWriter *writer, int n);
static void note_data(GjRunWriter *writer, const GjPlace *first, GjPlace last);
static inline int find_room(GjRunWriter *writer, int n);
static inline void took_rows(GjRunWriter *writer, int n);
static void finish_data(GjRunWriter *writer);
static void finish_directory(GjRunWriter *writer, int level);
static void add_element(GjRunWriter *writer, int level, const GjPlace *first, BlockNumber block);
static void wait_to_write(GjRunWriter *writer, int level, const GjPlace *first);
static void write_waiting(GjRunWriter *writer);
static void append_pages(GjRunWriter *writer, BlockNumber *blocks);
static void log_pages(GjRunWriter *writer, BlockNumber *blocks);
static void lock_free_pages(GjRunWriter *writer, Buffer *buffers, int n);
static void find_pages(GjRunWriter *writer, Buffer *buffers, int n);
static Buffer find_page(GjRunWriter *writer);
static bool lock_if_free(GjRunWriter *writer, Buffer buffer);
static void put_entries(Page page, const GjIndexInfo *info, int slot, const Page *pages,
						const GjIndexInfo *from, const GjPageEntry *entries, int n, bool has_nulls);
static void copy_values(char *to, int slot, const Page *pages,
						const GjIncludedColumn *column, const GjPageEntry *entries, int n);
static void copy_nulls(uint32 *to, int slot, const Page *pages,
					   const GjIncludedColumn *column, const GjPageEntry *entries, int n);
static void put_words(Page page, const GjIndexInfo *info, int slot, const GjWordForm *form,
					  const uint64 *words, int n);

static const char disorder[] = "A directory is not in order.";

static inline GjPlace
element(const GjDirectoryCopy *copy, int i)
{
	GjPlace		place = {copy->keys[i], GjPackTid(&copy->tids[i])};

	return place;
}

/*
 * Start reading a run that a state of the index lists, before its first page
 *
 * If few is true, the reader copies single elements.  Its first page must then be found by a seek.
 */
void
GjRunReaderBegin(GjRunReader *reader, Relation index, const GjIndexState *state,
				 const GjRun *run, bool few)
{
	int			room = few ? 1 : GJ_DIRECTORY_FANOUT;
	char	   *arrays;

	memset(reader, 0, sizeof(*reader));
	reader->index = index;
	reader->build_id = state->build_id;
	reader->run = *run;
	reader->few = few;
	reader->nblocks = state->min_blocks;
	reader->block = InvalidBlockNumber;
	reader->levels = palloc(run->height * (sizeof(GjDirectoryCopy) + COPY_BYTES(room)));
	arrays = (char *) (reader->levels + run->height);
	for (int level = 0; level < run->height; level++)
	{
		GjDirectoryCopy *copy = &reader->levels[level];

		copy->block = InvalidBlockNumber;
		copy->keys = (int64 *) arrays;
		copy->blocks = (BlockNumber *) (copy->keys + room);
		copy->tids = (ItemPointerData *) (copy->blocks + room);
		arrays += COPY_BYTES(room);
	}
}

/*
 * Go to the first data page that can have entries at the place or after it
 *
 * Returns false if the run has none there, or has moved.
 */
bool
GjRunReaderSeek(GjRunReader *reader, const GjPlace *place)
{
	int			root = reader->run.height - 1;
	int			level = 0;

	if (place->key > reader->run.max_key)
		return false;
	while (level < root && !covers(&reader->levels[level], place))
		level++;
	if (level == root && !read_root(reader, place))
		return false;

	for (;;)
	{
		GjDirectoryCopy *copy = &reader->levels[level];

		if (!reader->few)		/* else there is one element */
			copy->at = find_element(copy, place);
		if (level == 0)
			return arrive(reader);
		if (!descend(reader, level, place))
			return false;
		level--;
	}
}

/*
 * Go to the next data page, or to the first one; returns false at the end, or if the run has
 * moved
 */
bool
GjRunReaderNext(GjRunReader *reader)
{
	int			root = reader->run.height - 1;
	int			level = 0;

	if (reader->few)
	{
		GjPlace		next = reader->next;

		Assert(BlockNumberIsValid(reader->block));
		if (!reader->has_next || !GjRunReaderSeek(reader, &next))
			return false;
		if (GjPlaceIsBefore(&reader->first, &next))
			GjReportCorruption(reader->index, reader->levels[0].block, disorder);
		return true;
	}
	if (!BlockNumberIsValid(reader->levels[root].block))
	{
		if (!read_root(reader, NULL))
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
		if (!descend(reader, level, NULL))
			return false;
		reader->levels[level - 1].at = 0;
	}
	return arrive(reader);
}

/*
 * Free the reader's memory
 */
void
GjRunReaderEnd(GjRunReader *reader)
{
	pfree(reader->levels);
	reader->levels = NULL;
}

/*
 * Get all blocks of a run, starting with those of the directory from the root down; returns
 * false if the run has moved
 */
bool
GjRunGetBlocks(Relation index, const GjRun *run, BlockNumber *blocks)
{
	uint64		all = (uint64) run->data_pages + run->directory_pages;
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);
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
		check_blocks(index, blocks[i], blocks + n, opaque->used, nblocks);
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
 * Find the page of a place, the last one that does not begin after it, or the first page; without
 * a place, the page with this number, from 0, or the last one.  Sets its number and first key.
 *
 * Directory pages are full, but for the last one of each level, so a number leads straight down.
 * The answer is a hint: returns false if the run has moved, and leaves damage to be reported by
 * those who read the run.
 */
bool
GjRunFindPage(Relation index, const GjRun *run, const GjPlace *place, uint64 *number, int64 *key)
{
	BlockNumber block = run->root;
	uint64		left = *number;
	uint64		pages = 1;		/* data pages below an element of this level */

	for (int level = 1; level < run->height; level++)
		pages *= GJ_DIRECTORY_FANOUT;
	*number = 0;
	for (int level = run->height - 1; level >= 0; level--)
	{
		Buffer		buffer = lock_directory(index, run, block);
		GjDirectoryCopy page = {.at = 0};
		GjDirectory *directory;
		int			i;

		if (!BufferIsValid(buffer))
			return false;
		directory = GjPageGetDirectory(BufferGetPage(buffer));
		page.n = GjPageGetOpaque(BufferGetPage(buffer))->used;
		page.keys = directory->keys;
		page.tids = directory->tids;
		i = place != NULL ? find_element(&page, place) : (int) Min(left / pages, page.n - 1);
		left -= Min(left, i * pages);
		*number += i * pages;
		*key = page.keys[i];
		block = directory->blocks[i];
		UnlockReleaseBuffer(buffer);
		pages /= GJ_DIRECTORY_FANOUT;
	}
	return true;
}

/*
 * Return true if the path to a place is known to lead through this copy
 */
static bool
covers(const GjDirectoryCopy *copy, const GjPlace *place)
{
	GjPlace		first;

	if (!BlockNumberIsValid(copy->block))
		return false;
	first = element(copy, 0);
	return !GjPlaceIsBefore(place, &first) &&
		!(copy->has_next && !GjPlaceIsBefore(place, &copy->next));
}

/*
 * Find the last element at or before a place, or the first one if all are after it
 */
static int
find_element(const GjDirectoryCopy *copy, const GjPlace *place)
{
	GjPlace		here = element(copy, copy->at);
	int			low = 0;
	int			high = copy->n;

	/* most seeks go forward a short way */
	if (!GjPlaceIsBefore(place, &here))
	{
		low = copy->at;
		if (low + 1 < copy->n)
		{
			here = element(copy, low + 1);
			if (GjPlaceIsBefore(place, &here))
				return low;
		}
	}
	while (high - low > 1)
	{
		int			middle = (low + high) / 2;

		here = element(copy, middle);
		if (GjPlaceIsBefore(place, &here))
			high = middle;
		else
			low = middle;
	}
	return low;
}

/*
 * Copy the root, unless its copy leads to the place already
 */
static bool
read_root(GjRunReader *reader, const GjPlace *place)
{
	int			root = reader->run.height - 1;
	GjDirectoryCopy *copy = &reader->levels[root];

	if (BlockNumberIsValid(copy->block) && (!reader->few || covers(copy, place)))
		return true;
	copy->has_next = false;
	return copy_page(reader, root, reader->run.root, NULL, place);
}

/*
 * Copy the page below a level's current element, unless it has been copied already.  The place is
 * the one that a seek looks for, and not in a copied element of that page.
 */
static bool
descend(GjRunReader *reader, int level, const GjPlace *place)
{
	GjDirectoryCopy *above = &reader->levels[level];
	GjDirectoryCopy *below = &reader->levels[level - 1];
	BlockNumber block = above->blocks[above->at];
	GjPlace		first = element(above, above->at);

	if (block == below->block && !reader->few)
		return true;
	below->has_next = above->at + 1 < above->n || above->has_next;
	if (above->at + 1 < above->n)
		below->next = element(above, above->at + 1);
	else
		below->next = above->next;
	return copy_page(reader, level - 1, block, &first, place);
}

/*
 * Copy a page that must begin where its parent says, or its element for the place if only few are
 * needed; returns false if the page does not belong to the run any more
 */
static bool
copy_page(GjRunReader *reader, int level, BlockNumber block, const GjPlace *first,
		  const GjPlace *place)
{
	GjDirectoryCopy *copy = &reader->levels[level];
	GjDirectoryCopy page = {.at = 0};
	const GjDirectory *directory = NULL;
	Buffer		buffer = InvalidBuffer;
	int			i = 0;

	copy->block = InvalidBlockNumber;
	if (reader->few)
		directory = GjDirectoryRecall(reader->index, reader->build_id, reader->run.run, block,
									  &page.n);
	if (directory == NULL)
	{
		buffer = lock_directory(reader->index, &reader->run, block);
		if (!BufferIsValid(buffer))
		{
			reader->block = block;
			reader->moved = true;
			return false;
		}
		directory = GjPageGetDirectory(BufferGetPage(buffer));
		page.n = GjPageGetOpaque(BufferGetPage(buffer))->used;
		if (reader->few)
			GjDirectoryKeep(reader->index, reader->build_id, reader->run.run, block, directory,
							page.n);
	}

	if (directory->level != level)
		GjReportCorruption(reader->index, block, "A directory page is of another level.");
	page.keys = (int64 *) directory->keys;
	page.blocks = (BlockNumber *) directory->blocks;
	page.tids = (ItemPointerData *) directory->tids;
	if (first != NULL)
	{
		GjPlace		begin = element(&page, 0);

		if (GjPlaceIsBefore(&begin, first) || GjPlaceIsBefore(first, &begin))
			GjReportCorruption(reader->index, block,
							   "A directory page does not begin where the one above it says.");
	}

	copy->n = reader->few ? 1 : page.n;
	copy->at = 0;
	if (reader->few)
		i = find_element(&page, place);
	if (i + copy->n < page.n)
	{
		copy->has_next = true;
		copy->next = element(&page, i + copy->n);
	}
	memcpy(copy->keys, page.keys + i, copy->n * sizeof(int64));
	memcpy(copy->blocks, page.blocks + i, copy->n * sizeof(BlockNumber));
	memcpy(copy->tids, page.tids + i, copy->n * sizeof(ItemPointerData));
	check_blocks(reader->index, block, copy->blocks, copy->n, reader->nblocks);
	copy->block = block;
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
	return true;
}

/*
 * Lock a page of the directory in share mode; returns InvalidBuffer if it does not belong to
 * this run
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
	return buffer;
}

/*
 * Check that blocks exist; their contents are checked when they are read
 */
static void
check_blocks(Relation index, BlockNumber block, const BlockNumber *blocks, int n,
			 BlockNumber nblocks)
{
	BlockNumber last = 0;

	for (int i = 0; i < n; i++)
		last = Max(last, blocks[i]);
	if (last >= nblocks)
		GjReportCorruption(index, block, "A directory names a page that does not exist.");
}

/*
 * Show the reader's position to the caller
 */
static bool
arrive(GjRunReader *reader)
{
	const GjDirectoryCopy *leaf = &reader->levels[0];

	reader->block = leaf->blocks[leaf->at];
	reader->first = element(leaf, leaf->at);
	reader->has_next = leaf->at + 1 < leaf->n || leaf->has_next;
	reader->next = leaf->at + 1 < leaf->n ? element(leaf, leaf->at + 1) : leaf->next;
	if (reader->has_next && !GjPlaceIsBefore(&reader->first, &reader->next))
		GjReportCorruption(reader->index, leaf->block, disorder);
	return true;
}

/*-------------------------------------------------------------------------
 * Writing a run
 *
 * Write a run: data pages full of rows in order, and the directory above them.
 *
 * Pages are made in private memory, several at a time; their blocks are chosen only when they
 * are written.  Then the blocks are entered into the directory one level above, whose pages are
 * written in the same way when they are full.  The root comes last.
 *
 * A build appends to a file that other processes do not see yet.  Otherwise, free pages are
 * used, and blocks are added to the file when the free space map has no more.  The map is a
 * hint, which other processes may have read, too: whether a page is free is decided when it is
 * locked (read.c).  The locks are kept until the pages have been written, so a record's pages
 * are all locked together; and we never wait for these locks, because other processes hold page
 * locks while they look for a free page.  A block that was taken from the map and not used is
 * found again by the next VACUUM.
 *
 * No process reads the pages before the run is published.  If that does not happen, they are free.
 *-------------------------------------------------------------------------
 */

/*
 * Start writing a run with a number that has been reserved; all its pages get the change counter
 */
GjRunWriter *
GjRunWriterBegin(Relation index, const GjIndexInfo *info, uint32 run, uint64 change,
				 bool building)
{
	GjRunWriter *writer = palloc0(sizeof(GjRunWriter));

	writer->index = index;
	writer->info = *info;
	writer->context = CurrentMemoryContext;
	writer->change = change;
	writer->building = building;
	if (building)
		writer->end = RelationGetNumberOfBlocks(index);
	else
		GjIndexGetState(index, &writer->state);
	writer->run.run = run;
	if (info->narrow && !GjPagesArePlain())
	{
		GjWideLayout(info, GJ_MAX_SLOTS, &writer->wide);
		writer->collected = GjWideAlloc(&writer->wide, writer->context);
		GjFrameInit(&writer->frame);
		writer->most_slots = GJ_MAX_SLOTS;
	}
	return writer;
}

/* Limit the slots of the run's pages by those of runs that are merged into it or stay beside it */
void
GjRunWriterBind(GjRunWriter *writer, const GjIndexState *state, const bool *merged)
{
	writer->most_slots = GjRunsRoom(&writer->info, state, merged);
}

/*
 * Limit them by the sorted rows, of which a part is made into pages that are not written
 *
 * The dense pages come first if a table has many rows with a default value, say, so the mean number
 * of slots must be known before any page is written.
 */
void
GjRunWriterMeasure(GjRunWriter *writer, GjRowSort *sort)
{
	uint64		pages[GJ_MAX_SLOTS / GJ_SLOTS_PER_WORD + 1] = {0};
	const char *row;

	if (writer->collected == NULL)
		return;
	writer->measuring = true;
	while ((row = GjRowSortNext(sort)) != NULL)
	{
		uint64		n;

		GjRunWriterAdd(writer, row);
		n = writer->measured;
		if (n == 0)
			continue;
		/* the page stands for those that its rows and the skipped ones would be on */
		pages[(n + GJ_SLOTS_PER_WORD - 1) / GJ_SLOTS_PER_WORD] += 1 +
			GjRowSortSkip(sort, n * UNMEASURED_PAGES, MEASURED_PAGES) / n;
		writer->measured = 0;
	}
	GjRowSortRewind(sort);
	writer->measuring = false;
	writer->most_slots = GjMeasuredRoom(&writer->info, pages);
	drop_collected(writer);
}

/*
 * Add a row; rows must come in the order of (key, TID)
 */
void
GjRunWriterAdd(GjRunWriter *writer, const char *row)
{
	(void) find_room(writer, 1);
	GjDataPut(unfinished(writer), layout(writer), writer->slot, row);
	took_rows(writer, 1);
}

/*
 * Add entries of pages of the same index, which have another layout
 */
void
GjRunWriterAddEntries(GjRunWriter *writer, const Page *pages, const GjIndexInfo *from,
					  const GjPageEntry *entries, int n, bool has_nulls)
{
	while (n > 0)
	{
		int			fit = find_room(writer, n);

		put_entries(unfinished(writer), layout(writer), writer->slot, pages, from, entries, fit,
					has_nulls);
		entries += fit;
		n -= fit;
		took_rows(writer, fit);
	}
}

/*
 * Copy entries of several pages, in order, to unused slots of another page; has_nulls is false if
 * no value on these pages is NULL
 */
static void
put_entries(Page page, const GjIndexInfo *info, int slot, const Page *pages,
			const GjIndexInfo *from, const GjPageEntry *entries, int n, bool has_nulls)
{
	ItemPointerData *tids = GjDataTids(page, info) + slot;

	if (info->key_width == sizeof(int32))
	{
		for (int i = 0; i < n; i++)
			((int32 *) GjDataKeys(page, info))[slot + i] = (int32) entries[i].key;
	}
	else
	{
		for (int i = 0; i < n; i++)
			((int64 *) GjDataKeys(page, info))[slot + i] = entries[i].key;
	}
	for (int i = 0; i < n; i++)
	{
		uint64		tid = GjEntryTid(entries[i].word);

		ItemPointerSet(&tids[i], GjPackedBlock(tid), GjPackedOffset(tid));
	}
	for (int i = 0; i < info->nincluded; i++)
	{
		const GjIncludedColumn *column = &info->included[i];

		copy_values(GjDataValues(page, column), slot, pages, &from->included[i], entries, n);
		if (has_nulls)
			copy_nulls(GjDataNulls(page, column), slot, pages, &from->included[i], entries, n);
	}
	GjDataTook(page, info, slot, n);
}

/* Copy a constant size, so that each copy is a load and a store */
#define COPY_VALUES(size) \
	for (int i = 0; i < n; i++) \
		memcpy(to + (slot + i) * (size), \
			   GjDataValues(pages[GjEntryPage(entries[i].word)], column) + \
			   GjEntrySlot(entries[i].word) * (size), (size))

static void
copy_values(char *to, int slot, const Page *pages, const GjIncludedColumn *column,
			const GjPageEntry *entries, int n)
{
	switch (column->width)
	{
		case 1:
			COPY_VALUES(1);
			break;
		case 2:
			COPY_VALUES(2);
			break;
		case 4:
			COPY_VALUES(4);
			break;
		default:
			COPY_VALUES(8);
			break;
	}
}

/*
 * Copy bits to a place where all are zero
 */
static void
copy_nulls(uint32 *to, int slot, const Page *pages, const GjIncludedColumn *column,
		   const GjPageEntry *entries, int n)
{
	for (int i = 0; i < n; i++)
	{
		const uint32 *nulls = GjDataNulls(pages[GjEntryPage(entries[i].word)], column);
		uint64		from = GjEntrySlot(entries[i].word);

		if (nulls[from / GJ_SLOTS_PER_WORD] & GjSlotBit(from))
			to[(slot + i) / GJ_SLOTS_PER_WORD] |= GjSlotBit(slot + i);
	}
}

/* Add entries as words */
void
GjRunWriterAddWords(GjRunWriter *writer, const GjWordForm *form, const uint64 *words, int n)
{
	while (n > 0)
	{
		int			fit = find_room(writer, n);

		put_words(unfinished(writer), layout(writer), writer->slot, form, words, fit);
		words += fit;
		n -= fit;
		took_rows(writer, fit);
	}
}

/*
 * Put ascending words into unused slots of a data page
 */
static void
put_words(Page page, const GjIndexInfo *info, int slot, const GjWordForm *form,
		  const uint64 *words, int n)
{
	char	   *keys = GjDataKeys(page, info) + slot * info->key_width;
	ItemPointerData *tids = GjDataTids(page, info) + slot;
	int			tid_bits = form->tid_bits;
	uint64		tid_mask = ((uint64) 1 << tid_bits) - 1;

	if (info->key_width == sizeof(int32))
	{
		for (int i = 0; i < n; i++)
			((int32 *) keys)[i] = (int32) ((words[i] >> tid_bits) + (uint64) form->min_key);
	}
	else
	{
		for (int i = 0; i < n; i++)
			((int64 *) keys)[i] = (int64) ((words[i] >> tid_bits) + (uint64) form->min_key);
	}
	for (int i = 0; i < n; i++)
	{
		uint64		tid = words[i] & tid_mask;

		ItemPointerSet(&tids[i], tid >> GJ_WORD_OFFSET_BITS,
					   tid & ((1 << GJ_WORD_OFFSET_BITS) - 1));
	}
	GjDataTook(page, info, slot, n);
}

/*
 * Write all finished pages, and set *last to the place of the last entry on them; discards the rows
 * of an unfinished page.  Returns false if the run has no page yet.
 *
 * Afterwards no entry is left in memory, except for the places that the directory needs.
 */
bool
GjRunWriterPause(GjRunWriter *writer, GjPlace *last)
{
	drop_collected(writer);
	while (writer->nwaiting > 0)
		write_waiting(writer);
	*last = writer->last;
	return writer->run.entries > 0;
}

/*
 * Continue with a run after a pause, in which the index may have changed and been closed; new pages
 * get this change counter
 */
void
GjRunWriterContinue(GjRunWriter *writer, Relation index, uint64 change)
{
	Assert(writer->slot == 0 && writer->nwaiting == 0);
	writer->index = index;
	writer->change = change;
	writer->map_is_empty = false;
	GjIndexGetState(index, &writer->state);
}

/*
 * Write the remaining pages, describe the run, free the writer; returns the block after the last
 * one
 *
 * A run without rows has no pages and must not be listed.
 */
BlockNumber
GjRunWriterEnd(GjRunWriter *writer, GjRun *run)
{
	BlockNumber end;

	while (writer->collected != NULL && writer->slot > 0)
		finish_narrow(writer, add_to_frame(writer, writer->slot) ? writer->slot : writer->framed);
	if (writer->slot > 0)
		finish_data(writer);
	write_waiting(writer);
	for (int level = 0; writer->run.entries > 0; level++)
	{
		bool		is_root = writer->levels[level].written == 0;

		finish_directory(writer, level);
		write_waiting(writer);
		if (is_root)
			break;
	}

	*run = writer->run;
	end = writer->end;
	for (int level = 0; level < GJ_MAX_HEIGHT; level++)
	{
		if (writer->levels[level].directory != NULL)
			pfree(writer->levels[level].directory);
	}
	if (writer->collected != NULL)
		pfree(writer->collected);
	pfree(writer);
	return end;
}

static void
drop_collected(GjRunWriter *writer)
{
	writer->slot = writer->framed = 0;
	GjFrameInit(&writer->frame);
}

/* Return the memory where the next page is made */
static inline Page
next_image(GjRunWriter *writer)
{
	return (Page) writer->images[writer->nwaiting].data;
}

/* Return the page that entries are added to, and its layout */
static inline Page
unfinished(GjRunWriter *writer)
{
	return writer->collected != NULL ? writer->collected : next_image(writer);
}

static inline const GjIndexInfo *
layout(const GjRunWriter *writer)
{
	return writer->collected != NULL ? &writer->wide : &writer->info;
}

/*
 * Begin a page, unless one is in progress; returns how many of n rows it has room for
 */
static inline int
find_room(GjRunWriter *writer, int n)
{
	if (writer->collected != NULL)
	{
		if (writer->slot == 0)
			GjWideInit(writer->collected, &writer->wide, writer->run.run);
		return Min(n, GJ_MAX_SLOTS - writer->slot);
	}
	if (writer->slot == 0)
		GjDataInit(next_image(writer), &writer->info, writer->run.run);
	return Min(n, writer->info.plain_slots - writer->slot);
}

/* Count n rows that the page in progress has got */
static inline void
took_rows(GjRunWriter *writer, int n)
{
	writer->slot += n;
	if (writer->collected == NULL)
	{
		if (writer->slot == writer->info.plain_slots)
			finish_data(writer);
		return;
	}
	while (writer->slot - writer->framed >= GJ_SLOTS_PER_WORD || writer->slot == GJ_MAX_SLOTS)
	{
		if (writer->framed == GJ_MAX_SLOTS ||
			!add_to_frame(writer, writer->framed + GJ_SLOTS_PER_WORD))
			finish_narrow(writer, writer->framed);
		else
			writer->framed += GJ_SLOTS_PER_WORD;
	}
}

/*
 * Add the entries before this slot to the frame, unless they do not fit on a page with the others
 */
static bool
add_to_frame(GjRunWriter *writer, int end)
{
	GjFrame		frame;

	GjFrameInit(&frame);
	GjFrameAdd(&frame, writer->collected, &writer->wide, writer->framed, end - writer->framed);
	GjFrameUnite(&frame, &writer->frame, GJ_FIRST_INCLUDED + writer->info.nincluded);
	if (end > writer->most_slots || !GjFrameFits(&frame, &writer->info, end))
		return false;
	writer->frame = frame;
	return true;
}

/*
 * Finish a page of the first n collected entries, and keep the others
 */
static void
finish_narrow(GjRunWriter *writer, int n)
{
	Page		image = writer->collected;
	const GjIndexInfo *wide = &writer->wide;
	int			left = writer->slot - n;
	GjPlace		first = GjDataGetPlace(image, wide, 0);

	if (n == 0)
		elog(ERROR, "no entry of index \"%s\" fits on a page",
			 RelationGetRelationName(writer->index));
	if (writer->measuring)
	{
		CHECK_FOR_INTERRUPTS();
		writer->measured = n;
		drop_collected(writer);
		return;
	}
	if (writer->frame.offsets >> GJ_WORD_OFFSET_BITS != 0)	/* readers refuse larger ones */
		GjReportCorruption(writer->index, GJ_META_BLOCK, "An entry has an impossible TID.");
	GjNarrowMake(next_image(writer), &writer->frame, image, wide, n);
	note_data(writer, &first, GjDataGetPlace(image, wide, n - 1));
	GjWideShift(image, wide, n, left);
	writer->slot = left;
	writer->framed = 0;
	GjFrameInit(&writer->frame);
}

static void
finish_data(GjRunWriter *writer)
{
	Page		page = next_image(writer);
	GjPlace		first = GjDataGetPlace(page, &writer->info, 0);
	GjPlace		last = GjDataGetPlace(page, &writer->info, writer->slot - 1);

	writer->slot = 0;
	note_data(writer, &first, last);
}

/*
 * Add the finished page to the run
 */
static void
note_data(GjRunWriter *writer, const GjPlace *first, GjPlace last)
{
	GjPageOpaque opaque = GjPageGetOpaque(next_image(writer));

	opaque->change = writer->change;
	if (writer->collected != NULL)
		writer->run.most_slots = Max(writer->run.most_slots,
									 GjPageGetNarrow(next_image(writer))[GJ_TID_COLUMN].slots);
	if (writer->run.entries == 0)
		writer->run.min_key = opaque->min_key;
	writer->run.max_key = opaque->max_key;
	writer->last = last;
	writer->run.entries += opaque->used;
	writer->run.data_pages++;
	wait_to_write(writer, 0, first);
}

/*
 * Finish the directory page of a level.  No data page may be in progress.
 */
static void
finish_directory(GjRunWriter *writer, int level)
{
	Level	   *from = &writer->levels[level];
	GjPlace		first = {from->directory->keys[0], GjPackTid(&from->directory->tids[0])};
	Page		page = next_image(writer);
	GjPageOpaque opaque;

	GjPageInit(page, GJ_PAGE_DIRECTORY, writer->run.run);
	opaque = GjPageGetOpaque(page);
	opaque->change = writer->change;
	opaque->used = from->n;
	memcpy(GjPageGetDirectory(page), from->directory, sizeof(GjDirectory));
	((PageHeader) page)->pd_lower = (char *) (GjPageGetDirectory(page) + 1) - (char *) page;

	memset(from->directory, 0, sizeof(GjDirectory));
	from->n = 0;
	from->written++;
	writer->run.directory_pages++;
	writer->run.height = Max(writer->run.height, level + 1);
	wait_to_write(writer, level + 1, &first);
}

/*
 * Enter a page that has been written into the directory, on a level
 */
static void
add_element(GjRunWriter *writer, int level, const GjPlace *first, BlockNumber block)
{
	Level	   *to;
	GjDirectory *directory;

	/* the root has no parent, and a directory of all possible blocks has fewer levels */
	if (level == GJ_MAX_HEIGHT)
		return;
	to = &writer->levels[level];

	/* finish a full page only when another element comes: it may be the root */
	if (to->n == GJ_DIRECTORY_FANOUT)
		finish_directory(writer, level);
	if (to->directory == NULL)
		to->directory = MemoryContextAllocZero(writer->context, sizeof(GjDirectory));
	directory = to->directory;
	directory->level = level;
	directory->keys[to->n] = first->key;
	directory->blocks[to->n] = block;
	ItemPointerSet(&directory->tids[to->n], GjPackedBlock(first->tid), GjPackedOffset(first->tid));
	to->n++;
}

/*
 * Queue a finished page until there are enough pages for a record
 */
static void
wait_to_write(GjRunWriter *writer, int level, const GjPlace *first)
{
	writer->waiting[writer->nwaiting].level = level;
	writer->waiting[writer->nwaiting].first = *first;
	if (++writer->nwaiting == GJ_PAGES_PER_RECORD)
		write_waiting(writer);
}

/*
 * Write the queued pages, and enter them in the directory
 */
static void
write_waiting(GjRunWriter *writer)
{
	BlockNumber blocks[GJ_PAGES_PER_RECORD];
	Waiting		waiting[GJ_PAGES_PER_RECORD];
	int			n = writer->nwaiting;

	if (n == 0)
		return;
	CHECK_FOR_INTERRUPTS();
	if (writer->building)
		append_pages(writer, blocks);
	else
		log_pages(writer, blocks);

	/* entering them may finish directory pages, which are queued in turn */
	memcpy(waiting, writer->waiting, sizeof(waiting));
	writer->nwaiting = 0;
	for (int i = 0; i < n; i++)
	{
		writer->end = Max(writer->end, blocks[i] + 1);
		writer->run.root = blocks[i];	/* the last one written is the root */
		add_element(writer, waiting[i].level, &waiting[i].first, blocks[i]);
	}
}

static void
append_pages(GjRunWriter *writer, BlockNumber *blocks)
{
	for (int i = 0; i < writer->nwaiting; i++)
	{
		blocks[i] = writer->end + i;
		GjIndexAddPage(writer->index, MAIN_FORKNUM, (Page) writer->images[i].data);
	}
}

static void
log_pages(GjRunWriter *writer, BlockNumber *blocks)
{
	Buffer		buffers[GJ_PAGES_PER_RECORD] = {InvalidBuffer};

	lock_free_pages(writer, buffers, writer->nwaiting);
	GjRunPagesWrite(writer->index, buffers, writer->images, writer->nwaiting);
	for (int i = 0; i < writer->nwaiting; i++)
	{
		blocks[i] = BufferGetBlockNumber(buffers[i]);
		UnlockReleaseBuffer(buffers[i]);
	}
}

/*
 * Lock n free pages exclusively
 */
static void
lock_free_pages(GjRunWriter *writer, Buffer *buffers, int n)
{
	int			locked = 0;

	while (locked < n)
	{
		find_pages(writer, buffers, n);
		for (locked = 0; locked < n && lock_if_free(writer, buffers[locked]); locked++)
			;
		if (locked == n)
			break;

		ReleaseBuffer(buffers[locked]);
		buffers[locked] = InvalidBuffer;
		for (int i = 0; i < locked; i++)
			LockBuffer(buffers[i], BUFFER_LOCK_UNLOCK);
	}
}

/*
 * Find pages that may be free for empty elements of buffers, adding blocks if there are not
 * enough; they are pinned, not locked
 *
 * Blocks must not be added to the file while holding a page lock.
 */
static void
find_pages(GjRunWriter *writer, Buffer *buffers, int n)
{
	Buffer		added[GJ_PAGES_PER_RECORD];
	int			missing = 0;
	int			next = 0;

	for (int i = 0; i < n; i++)
	{
		if (!BufferIsValid(buffers[i]))
			buffers[i] = find_page(writer);
		if (!BufferIsValid(buffers[i]))
			missing++;
	}
	if (missing == 0)
		return;

	(void) GjIndexGetLength(writer->index); /* a truncated file must not be extended */
	GjAddBlocks(writer->index, added, missing);
	for (int i = 0; i < n; i++)
	{
		if (!BufferIsValid(buffers[i]))
			buffers[i] = added[next++];
	}
	GjStep("added");
}

/*
 * Take a page from the free space map, if it has one that may be free; it is pinned, not locked
 *
 * Deletions and folds add pages to the map.  Those that a merge has freed are added without the
 * fold lock, and then the file may grow although the map has pages again; a fold does not look
 * twice.
 */
static Buffer
find_page(GjRunWriter *writer)
{
	BlockNumber block = InvalidBlockNumber;

	while (!writer->map_is_empty)
	{
		block = GetFreeIndexPage(writer->index);
		if (!BlockNumberIsValid(block))
		{
			writer->map_is_empty = true;
			break;
		}
		/* after a crash the map may list blocks that the file has lost; now it only grows */
		if (block >= writer->length)
			writer->length = GjIndexGetLength(writer->index);
		if (block >= writer->info.first_data && block < writer->length)
		{
			GjStep("taken");
			return ReadBuffer(writer->index, block);
		}
	}
	return InvalidBuffer;
}

static bool
lock_if_free(GjRunWriter *writer, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);

	if (!ConditionalLockBuffer(buffer))
		return false;
	if (!GjPageIsUnused(page))
		(void) GjPageCheckKind(writer->index, buffer);
	if (GjPageGetOwner(&writer->state, page) == GJ_OWNER_NOBODY)
		return true;
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return false;
}
