/*-------------------------------------------------------------------------
 *
 * create.c
 *	  Empty pages, and the pages of an index that nobody else can see yet.
 *
 * The fork of a new index is filled without WAL and logged as a whole at the end: until the
 * transaction commits, it is nobody else's.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "pages.h"

/* What a page has beside its header and its special space */
#define PAGE_ROOM \
	((int) (BLCKSZ - MAXALIGN(SizeOfPageHeaderData) - sizeof(GjPageOpaqueData)))

static void init_meta(Page page, const GjLayout *layout, uint64 build_id, int nlanes, bool hashed);

/*
 * Make an empty page of some kind, for a run or delta if it is one from first_data on
 *
 * The caller sets the change counter, which must not go back where the page was in use before.
 */
void
GjPageInit(Page page, GjPageKind kind, uint32 run)
{
	GjPageOpaque opaque;

	PageInit(page, BLCKSZ, sizeof(GjPageOpaqueData));
	opaque = GjPageGetOpaque(page);
	opaque->kind = kind;
	opaque->run = run;
	opaque->page_id = GJ_PAGE_ID;
}

/*
 * Make an empty data page: its arrays count as used space, for the sake of WAL
 */
void
GjDataInit(Page page, const GjIndexInfo *info, uint32 run)
{
	GjPageInit(page, GJ_PAGE_DATA, run);
	((PageHeader) page)->pd_lower = info->arrays_end;
}

/*
 * Make an empty list page of a delta, behind another one, if there is any
 */
void
GjListInit(Page page, uint32 run, BlockNumber previous)
{
	GjPageInit(page, GJ_PAGE_LIST, run);
	GjPageGetList(page)->previous = previous;
	((PageHeader) page)->pd_lower = GjListEnd(page) - (char *) page;
}

/*
 * Make the metapage of an empty index
 */
static void
init_meta(Page page, const GjLayout *layout, uint64 build_id, int nlanes, bool hashed)
{
	GjMetaPage	meta;

	GjPageInit(page, GJ_PAGE_META, 0);
	meta = GjPageGetMeta(page);
	memset(meta, 0, offsetof(GjMetaPageData, lanes));

	meta->magic = GJ_MAGIC;
	meta->version = GJ_FORMAT_VERSION;
	meta->build_id = build_id;
	meta->sequence = 1;			/* the build itself is the first change */
	meta->list_version = 1;		/* 0 is none's */
	meta->journal_floor = 1;
	meta->journal_start = GJ_JOURNAL_BLOCK;
	meta->journal_blocks = 1;
	meta->first_data = GJ_FIRST_TAIL_BLOCK + nlanes;
	meta->min_blocks = meta->first_data;
	meta->flags = hashed ? GJ_META_HASHED_KEYS : 0;
	meta->slots = layout->slots;
	meta->used_offset = layout->used_offset;
	meta->ncolumns = layout->ncolumns;
	memcpy(meta->columns, layout->columns, sizeof(meta->columns));
	meta->tail_rows = Min(GJ_TAIL_ROWS, PAGE_ROOM / layout->row_width);
	meta->nlanes = nlanes;
	meta->next_run = 2;
	meta->delta.run = 1;
	meta->delta.head = InvalidBlockNumber;
	meta->previous.head = InvalidBlockNumber;
	for (int lane = 0; lane < nlanes; lane++)
		meta->lanes[lane].open_block = InvalidBlockNumber;

	((PageHeader) page)->pd_lower = (char *) &meta->lanes[nlanes] - (char *) page;
}

/*
 * Write the fixed part of an empty index into a new fork, without WAL
 */
void
GjIndexInitFork(Relation index, ForkNumber fork, uint64 build_id, int nlanes, bool hashed)
{
	GjLayout	layout;

	GjCheckIncluded(index);
	(void) GjLayoutMake(RelationGetDescr(index), &layout);
	for (BlockNumber block = 0; block < GJ_FIRST_TAIL_BLOCK + nlanes; block++)
	{
		PGAlignedBlock image;
		Page		page = (Page) image.data;

		if (block == GJ_META_BLOCK)
			init_meta(page, &layout, build_id, nlanes, hashed);
		else if (block == GJ_JOURNAL_BLOCK)
		{
			GjPageInit(page, GJ_PAGE_JOURNAL, 0);
			memset(PageGetContents(page), 0, GJ_JOURNAL_ENTRIES * sizeof(GjJournalEntry));
			((PageHeader) page)->pd_lower =
				(char *) (GjPageGetJournal(page) + GJ_JOURNAL_ENTRIES) - (char *) page;
		}
		else
		{
			GjPageInit(page, GJ_PAGE_TAIL, 0);
			((PageHeader) page)->pd_lower = (char *) PageGetContents(page) - (char *) page;
		}
		GjIndexAddPage(index, fork, page);
	}
}

/*
 * Append a finished page to a fork that nobody else can see yet, without WAL
 */
void
GjIndexAddPage(Relation index, ForkNumber fork, Page image)
{
	Buffer		buffer = ReadBufferExtended(index, fork, P_NEW, RBM_NORMAL, NULL);

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	START_CRIT_SECTION();
	memcpy(BufferGetPage(buffer), image, BLCKSZ);
	MarkBufferDirty(buffer);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);
}

/*
 * Note in the metapage what an index has that was filled without WAL: a run, or what was put
 * into its delta, and how long it is
 */
void
GjIndexNoteBuilt(Relation index, const GjRun *run, const GjDelta *delta)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);
	Buffer		metabuf = ReadBuffer(index, GJ_META_BLOCK);
	GjMetaPage	meta;

	LockBuffer(metabuf, BUFFER_LOCK_EXCLUSIVE);
	GjPageCheck(index, metabuf, GJ_PAGE_META);
	meta = GjPageGetMeta(BufferGetPage(metabuf));
	START_CRIT_SECTION();
	if (run != NULL)
	{
		meta->runs[meta->nruns++] = *run;
		meta->next_run = Max(meta->next_run, run->run + 1);
	}
	if (delta != NULL)
		meta->delta = *delta;
	meta->min_blocks = nblocks;
	MarkBufferDirty(metabuf);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(metabuf);
}

/*
 * Log all pages of a fork that was filled without WAL
 */
void
GjIndexLogFork(Relation index, ForkNumber fork)
{
	log_newpage_range(index, fork, 0, RelationGetNumberOfBlocksInFork(index, fork), true);
}
