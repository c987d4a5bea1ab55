/*-------------------------------------------------------------------------
 *
 * runwrite.c
 *	  Writing a run: data pages full of rows in order, and the directory above them.
 *
 * Pages are made in private memory, some at a time; only when they are written is it decided
 * where.  Then their blocks go into the directory a level above, whose pages are written in the
 * same way when they are full.  The root comes last.
 *
 * A build appends to a file that nobody else sees yet.  Otherwise, free pages are used, and blocks
 * are added to the file when the free space map knows no more.  The map is a hint, which others
 * have read, too: whether a page is free is decided when it is locked (lists.c).  The locks are
 * kept until the pages have been written, so they are all taken together; and none is waited
 * for, since others hold page locks while they look for a free page.  A block that was taken from
 * the map and not used is found again by the next VACUUM.
 *
 * Nobody reads the pages before the run is published.  If that does not happen, they are free.
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

/* A finished page that waits to be written */
typedef struct Waiting
{
	int			level;			/* of the directory in which it will be; 0: a data page */
	GjPlace		first;			/* its first entry or element */
} Waiting;

/* The directory page that is being filled on a level */
typedef struct Level
{
	GjDirectory *directory;		/* NULL: none yet */
	int			n;
	BlockNumber written;		/* pages of this level that have been finished */
} Level;

struct GjRunWriter
{
	Relation	index;
	GjIndexInfo info;
	uint64		change;
	bool		building;
	GjIndexState state;			/* by which free pages are known; not in a build */
	BlockNumber length;			/* the file has so many blocks, or more by now */
	bool		map_is_empty;	/* the free space map knows of no page any more */
	BlockNumber end;			/* behind the last block that was written */
	GjRun		run;
	int			slot;			/* next free one of the data page */
	GjPlace		first;			/* first entry of the data page */
	Level		levels[GJ_MAX_HEIGHT];
	int			nwaiting;		/* fewer than there is room for: the next page is made there */
	Waiting		waiting[GJ_PAGES_PER_RECORD];
	PGAlignedBlock images[GJ_PAGES_PER_RECORD];
};

static inline Page next_image(GjRunWriter *writer);
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

/*
 * Begin to write a run with a number that has been drawn; all its pages get the change counter
 */
GjRunWriter *
GjRunWriterBegin(Relation index, const GjIndexInfo *info, uint32 run, uint64 change,
				 bool building)
{
	GjRunWriter *writer = palloc0(sizeof(GjRunWriter));

	writer->index = index;
	writer->info = *info;
	writer->change = change;
	writer->building = building;
	if (building)
		writer->end = RelationGetNumberOfBlocks(index);
	else
		GjIndexGetState(index, &writer->state);
	writer->run.run = run;
	return writer;
}

/*
 * Add a row; rows come in the order of (key, TID)
 */
void
GjRunWriterAdd(GjRunWriter *writer, const char *row)
{
	if (writer->slot == 0)
	{
		ItemPointerData tid;

		writer->first.key = GjRowGetKey(&writer->info, row, &tid);
		writer->first.tid = GjPackTid(&tid);
		GjDataInit(next_image(writer), &writer->info, writer->run.run);
	}
	GjDataPut(next_image(writer), &writer->info, writer->slot, row);
	if (++writer->slot == writer->info.slots)
		finish_data(writer);
}

/*
 * Add rows that stand on a page of the same index, in slots that are all used
 */
void
GjRunWriterAddSlots(GjRunWriter *writer, Page page, int slot, int n)
{
	while (n > 0)
	{
		int			fit = Min(n, writer->info.slots - writer->slot);

		if (writer->slot == 0)
		{
			writer->first.key = GjDataGetKey(page, &writer->info, slot);
			writer->first.tid = GjPackTid(&GjDataTids(page, &writer->info)[slot]);
			GjDataInit(next_image(writer), &writer->info, writer->run.run);
		}
		GjDataCopy(next_image(writer), &writer->info, writer->slot, page, slot, fit);
		slot += fit;
		n -= fit;
		writer->slot += fit;
		if (writer->slot == writer->info.slots)
			finish_data(writer);
	}
}

/*
 * Add entries that are words: as many as a page has slots for, or at last those that are left
 */
void
GjRunWriterAddWords(GjRunWriter *writer, const GjWordForm *form, const uint64 *words, int n)
{
	Page		page = next_image(writer);

	Assert(writer->slot == 0);
	GjDataInit(page, &writer->info, writer->run.run);
	GjDataPutWords(page, &writer->info, form, words, n);
	writer->first.key = GjDataGetKey(page, &writer->info, 0);
	writer->first.tid = GjPackTid(&GjDataTids(page, &writer->info)[0]);
	writer->slot = n;
	if (n == writer->info.slots)
		finish_data(writer);
}

/*
 * Write what is left, describe the run, free the writer; returns the block behind the last one
 *
 * A run without rows has no pages and is not to be listed.
 */
BlockNumber
GjRunWriterEnd(GjRunWriter *writer, GjRun *run)
{
	BlockNumber end;

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
	pfree(writer);
	return end;
}

/* Where the next page is made */
static inline Page
next_image(GjRunWriter *writer)
{
	return (Page) writer->images[writer->nwaiting].data;
}

static void
finish_data(GjRunWriter *writer)
{
	GjPageOpaque opaque = GjPageGetOpaque(next_image(writer));

	opaque->change = writer->change;
	if (writer->run.entries == 0)
		writer->run.min_key = opaque->min_key;
	writer->run.max_key = opaque->max_key;
	writer->run.entries += opaque->used;
	writer->run.data_pages++;
	writer->slot = 0;
	wait_to_write(writer, 0, &writer->first);
}

/*
 * No data page is being made meanwhile
 */
static void
finish_directory(GjRunWriter *writer, int level)
{
	Level	   *from = &writer->levels[level];
	GjPlace		first = {from->directory->keys[0], GjPackTid(&from->directory->tids[0])};
	Page		page = next_image(writer);
	GjPageOpaque opaque;

	Assert(writer->slot == 0);
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

	/* nothing is above the root, and there are never so many blocks that there is a level more */
	if (level == GJ_MAX_HEIGHT)
		return;
	to = &writer->levels[level];

	/* a full page is finished when there is one more: it may be the root */
	if (to->n == GJ_DIRECTORY_FANOUT)
		finish_directory(writer, level);
	if (to->directory == NULL)
		to->directory = palloc0(sizeof(GjDirectory));
	directory = to->directory;
	directory->level = level;
	directory->keys[to->n] = first->key;
	directory->blocks[to->n] = block;
	ItemPointerSet(&directory->tids[to->n], GjPackedBlock(first->tid), GjPackedOffset(first->tid));
	to->n++;
}

/*
 * Have a page that has been made wait until there are enough for a record
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
 * Write the pages that wait, and enter them in the directory
 */
static void
write_waiting(GjRunWriter *writer)
{
	BlockNumber blocks[GJ_PAGES_PER_RECORD];
	Waiting		waiting[GJ_PAGES_PER_RECORD];
	int			n = writer->nwaiting;

	if (n == 0)
		return;
	GjVacuumDelayPoint();
	if (writer->building)
		append_pages(writer, blocks);
	else
		log_pages(writer, blocks);

	/* to enter them may finish pages of the directory, which wait in turn */
	memcpy(waiting, writer->waiting, sizeof(waiting));
	writer->nwaiting = 0;
	for (int i = 0; i < n; i++)
	{
		writer->end = Max(writer->end, blocks[i] + 1);
		writer->run.root = blocks[i];	/* the last one is */
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
 * Lock so many free pages exclusively
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
 * Find pages that may be free where buffers has none, and add those that there are not; they are
 * pinned, not locked
 *
 * Nobody adds blocks to the file while holding a page lock.
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

	(void) GjIndexGetLength(writer->index); /* too short a file is not to be made longer */
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
 * Only folds and deletions enter pages, and neither runs beside us: what has been used up stays so.
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
		/* after a crash the map may know blocks that the file has lost; what it has, it keeps */
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
