/*-------------------------------------------------------------------------
 *
 * write.c
 *	  Every write to a page of a gpujoin index, and all of its WAL.
 *
 * Each function here is one change that is whole by itself: a crash between two
 * of them, or a reader between two of them, finds a correct index.  Changes go
 * through generic WAL, because a resource manager of our own would have to be
 * preloaded wherever the WAL is replayed.
 *
 * Lock order, everywhere: tail page, data page, journal, metapage; of two data
 * pages the lane's open page before the candidate.  Pages are registered for WAL in
 * the same order, because replay locks them in the order of registration, and on a
 * standby there are readers.  The lock on the candidate is only tried, never waited for,
 * since another lane may hold it while it tries ours.  Only the holder of a lane's tail lock
 * changes which data page the lane has open, so reading that from the metapage under a short
 * share lock is good until the tail is unlocked.  Nobody extends the relation while holding a
 * content lock.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "pages.h"

/* What a page has beside its header and its special space */
#define PAGE_ROOM \
	((int) (BLCKSZ - MAXALIGN(SizeOfPageHeaderData) - sizeof(GjPageOpaqueData)))

static void init_page(Page page, GjPageKind kind);
static void init_meta(Page page, const GjLayout *layout, uint64 build_id, int nlanes, bool hashed);
static void put_value(char *array, int slot, int width, const char *value);
static void widen_bounds(GjPageOpaque opaque, int64 key);
static int	find_free_slot(const uint32 *used, int words, int from);
static Buffer lock_block(Relation index, BlockNumber block, GjPageKind kind);
static void add_journal_entry(GjMetaPage meta, Page journal, GjJournalKind kind,
							  BlockNumber block);

/* Pages ---------------------------------------------------------------------- */

/*
 * Make an empty page of some kind
 *
 * The change counter of a page that was in use before must be carried over by the
 * caller.
 */
static void
init_page(Page page, GjPageKind kind)
{
	GjPageOpaque opaque;

	PageInit(page, BLCKSZ, sizeof(GjPageOpaqueData));
	opaque = GjPageGetOpaque(page);
	opaque->kind = kind;
	opaque->page_id = GJ_PAGE_ID;
}

/*
 * Make an empty data page: its arrays count as used space, for the sake of WAL
 */
void
GjDataInit(Page page, const GjIndexInfo *info)
{
	init_page(page, GJ_PAGE_DATA);
	((PageHeader) page)->pd_lower = info->arrays_end;
}

/*
 * Make the metapage of an empty index
 */
static void
init_meta(Page page, const GjLayout *layout, uint64 build_id, int nlanes, bool hashed)
{
	GjMetaPage	meta;

	init_page(page, GJ_PAGE_META);
	meta = GjPageGetMeta(page);
	memset(meta, 0, offsetof(GjMetaPageData, lanes));

	meta->magic = GJ_MAGIC;
	meta->version = GJ_FORMAT_VERSION;
	meta->build_id = build_id;
	meta->sequence = 1;			/* the build itself is the first change */
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
			init_page(page, GJ_PAGE_JOURNAL);
			memset(PageGetContents(page), 0, GJ_JOURNAL_ENTRIES * sizeof(GjJournalEntry));
			((PageHeader) page)->pd_lower =
				(char *) (GjPageGetJournal(page) + GJ_JOURNAL_ENTRIES) - (char *) page;
		}
		else
		{
			init_page(page, GJ_PAGE_TAIL);
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
 * Note in the metapage how long an index is that was filled without WAL
 */
void
GjIndexNoteLength(Relation index)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);
	Buffer		metabuf = lock_block(index, GJ_META_BLOCK, GJ_PAGE_META);

	GjPageGetMeta(BufferGetPage(metabuf))->min_blocks = nblocks;
	MarkBufferDirty(metabuf);
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

/*
 * Put a row into a free slot of a private copy of a data page
 */
void
GjDataPut(Page page, const GjIndexInfo *info, int slot, const char *row)
{
	GjPageOpaque opaque = GjPageGetOpaque(page);
	ItemPointerData tid;
	int64		key = GjRowGetKey(info, row, &tid);

	put_value(GjDataKeys(page, info), slot, info->key_width, row);
	GjDataTids(page, info)[slot] = tid;
	for (int i = 0; i < info->nincluded; i++)
	{
		const GjIncludedColumn *column = &info->included[i];
		uint32	   *nulls = &GjDataNulls(page, column)[slot / GJ_SLOTS_PER_WORD];

		put_value(GjDataValues(page, column), slot, column->width, row + column->row_offset);
		if (row[info->row_nulls_offset + i / 8] & (1 << (i % 8)))
			*nulls |= GjSlotBit(slot);
		else
			*nulls &= ~GjSlotBit(slot);
	}
	GjDataUsed(page, info)[slot / GJ_SLOTS_PER_WORD] |= GjSlotBit(slot);
	widen_bounds(opaque, key);
	opaque->used++;
}

/* Changes, one WAL record each -------------------------------------------------- */

/*
 * Add a row to a tail page
 *
 * The tail is exclusively locked and has room.
 */
void
GjTailAppend(Relation index, const GjIndexInfo *info, Buffer tail, const char *row)
{
	GenericXLogState *state = GenericXLogStart(index);
	Page		page = GenericXLogRegisterBuffer(state, tail, 0);
	GjPageOpaque opaque = GjPageGetOpaque(page);
	ItemPointerData tid;

	memcpy(GjTailRow(page, info, opaque->used), row, info->row_width);
	widen_bounds(opaque, GjRowGetKey(info, row, &tid));
	opaque->used++;
	((PageHeader) page)->pd_lower = GjTailRow(page, info, opaque->used) - (char *) page;
	GenericXLogFinish(state);
}

/*
 * Move rows of a tail page, as many as fit, to free slots of the lane's data page
 *
 * Both are exclusively locked; the data page has a free slot.  One record, so that
 * an entry is on exactly one of the two pages at any time.
 */
void
GjTailFlush(Relation index, const GjIndexInfo *info, Buffer tail, Buffer data)
{
	Buffer		metabuf = lock_block(index, GJ_META_BLOCK, GJ_PAGE_META);
	GenericXLogState *state = GenericXLogStart(index);
	Page		tailpage = GenericXLogRegisterBuffer(state, tail, 0);
	Page		datapage = GenericXLogRegisterBuffer(state, data, 0);
	GjMetaPage	meta = GjPageGetMeta(GenericXLogRegisterBuffer(state, metabuf, 0));
	GjPageOpaque from = GjPageGetOpaque(tailpage);
	int			slot = -1;
	int			row;

	for (row = 0; row < from->used; row++)
	{
		slot = find_free_slot(GjDataUsed(datapage, info), info->words, slot + 1);
		if (slot < 0)
			break;
		GjDataPut(datapage, info, slot, GjTailRow(tailpage, info, row));
	}

	if (row == 0)
		GjReportCorruption(index, BufferGetBlockNumber(data),
						   "A data page's count does not agree with its bitmap.");

	memmove(GjTailRow(tailpage, info, 0), GjTailRow(tailpage, info, row),
			(Size) (from->used - row) * info->row_width);
	from->used -= row;
	((PageHeader) tailpage)->pd_lower =
		GjTailRow(tailpage, info, from->used) - (char *) tailpage;

	GjPageGetOpaque(datapage)->change = ++meta->sequence;
	GenericXLogFinish(state);
	UnlockReleaseBuffer(metabuf);
}

/*
 * Close a lane's data page, open another one for it, and note that in the journal
 *
 * The caller holds the lane's tail and both data pages exclusively; old_data is
 * InvalidBuffer for a lane that has none yet, new_data is a page that is not open
 * and has free slots, or an all-zero one.
 */
void
GjLaneSwitch(Relation index, const GjIndexInfo *info, int lane, Buffer old_data, Buffer new_data)
{
	bool		is_new = PageIsNew(BufferGetPage(new_data));
	Buffer		journalbuf = lock_block(index, GJ_JOURNAL_BLOCK, GJ_PAGE_JOURNAL);
	Buffer		metabuf = lock_block(index, GJ_META_BLOCK, GJ_PAGE_META);
	GenericXLogState *state = GenericXLogStart(index);
	Page		page;
	Page		journal;
	GjMetaPage	meta;

	if (BufferIsValid(old_data))
	{
		page = GenericXLogRegisterBuffer(state, old_data, 0);
		GjPageGetOpaque(page)->flags &= ~GJ_PAGE_OPEN;
	}
	page = GenericXLogRegisterBuffer(state, new_data, is_new ? GENERIC_XLOG_FULL_IMAGE : 0);
	journal = GenericXLogRegisterBuffer(state, journalbuf, 0);
	meta = GjPageGetMeta(GenericXLogRegisterBuffer(state, metabuf, 0));

	meta->sequence++;
	meta->lanes[lane].open_block = BufferGetBlockNumber(new_data);
	/* the file has the block already, here and where this is replayed: read.c */
	meta->min_blocks = Max(meta->min_blocks, BufferGetBlockNumber(new_data) + 1);
	add_journal_entry(meta, journal, GJ_JOURNAL_OPENED, BufferGetBlockNumber(new_data));

	if (is_new)
		GjDataInit(page, info);
	GjPageGetOpaque(page)->flags |= GJ_PAGE_OPEN;
	GjPageGetOpaque(page)->change = meta->sequence;

	GenericXLogFinish(state);
	UnlockReleaseBuffer(metabuf);
	UnlockReleaseBuffer(journalbuf);
}

/*
 * Remove rows from an exclusively locked tail page; dead has a bit a row
 *
 * Rows close up: nobody remembers a row's place on a tail page.
 */
void
GjTailDelete(Relation index, const GjIndexInfo *info, Buffer tail, const uint32 *dead)
{
	GenericXLogState *state = GenericXLogStart(index);
	Page		page = GenericXLogRegisterBuffer(state, tail, 0);
	GjPageOpaque opaque = GjPageGetOpaque(page);
	int			kept = 0;

	for (int row = 0; row < opaque->used; row++)
	{
		if (dead[row / GJ_SLOTS_PER_WORD] & ((uint32) 1 << (row % GJ_SLOTS_PER_WORD)))
			continue;
		memmove(GjTailRow(page, info, kept), GjTailRow(page, info, row), info->row_width);
		kept++;
	}
	opaque->used = kept;
	((PageHeader) page)->pd_lower = GjTailRow(page, info, kept) - (char *) page;
	GenericXLogFinish(state);
}

/*
 * Free slots of an exclusively locked data page; dead has a bit a slot
 *
 * Sequence and journal change in the same record: had they changed earlier, a
 * mirror could read the page in between and believe that it has the deletion.
 */
void
GjDataDelete(Relation index, const GjIndexInfo *info, Buffer data, const uint32 *dead)
{
	Buffer		journalbuf = lock_block(index, GJ_JOURNAL_BLOCK, GJ_PAGE_JOURNAL);
	Buffer		metabuf = lock_block(index, GJ_META_BLOCK, GJ_PAGE_META);
	GenericXLogState *state = GenericXLogStart(index);
	Page		page = GenericXLogRegisterBuffer(state, data, 0);
	GjPageOpaque opaque = GjPageGetOpaque(page);
	uint32	   *used = GjDataUsed(page, info);
	Page		journal = GenericXLogRegisterBuffer(state, journalbuf, 0);
	GjMetaPage	meta = GjPageGetMeta(GenericXLogRegisterBuffer(state, metabuf, 0));

	opaque->used = 0;
	for (int word = 0; word < info->words; word++)
	{
		used[word] &= ~dead[word];
		opaque->used += pg_popcount32(used[word]);
	}

	opaque->change = ++meta->sequence;
	add_journal_entry(meta, journal, GJ_JOURNAL_DELETED, BufferGetBlockNumber(data));

	GenericXLogFinish(state);
	UnlockReleaseBuffer(metabuf);
	UnlockReleaseBuffer(journalbuf);
}

/*
 * Count a finished bulk deletion, whether it deleted something or not
 *
 * Index-only answers rest on this: exec/entryvisible.c.
 */
void
GjEpochRaise(Relation index)
{
	Buffer		metabuf = lock_block(index, GJ_META_BLOCK, GJ_PAGE_META);
	GenericXLogState *state = GenericXLogStart(index);

	GjPageGetMeta(GenericXLogRegisterBuffer(state, metabuf, 0))->vacuum_epoch++;
	GenericXLogFinish(state);
	UnlockReleaseBuffer(metabuf);
}

/* Helpers ------------------------------------------------------------------------ */

/*
 * Copy a value of a row into an array; a constant size makes it a plain store
 */
static void
put_value(char *array, int slot, int width, const char *value)
{
	char	   *where = array + (Size) slot * width;

	switch (width)
	{
		case 1:
			*where = *value;
			break;
		case 2:
			memcpy(where, value, 2);
			break;
		case 4:
			memcpy(where, value, 4);
			break;
		default:
			memcpy(where, value, 8);
			break;
	}
}

static void
widen_bounds(GjPageOpaque opaque, int64 key)
{
	if (opaque->used == 0)
		opaque->min_key = opaque->max_key = key;
	else if (key < opaque->min_key)
		opaque->min_key = key;
	else if (key > opaque->max_key)
		opaque->max_key = key;
}

/*
 * Return the first free slot at or behind a slot, or -1
 */
static int
find_free_slot(const uint32 *used, int words, int from)
{
	for (int word = from / GJ_SLOTS_PER_WORD; word < words; word++)
	{
		uint32		candidates = ~used[word];

		if (word == from / GJ_SLOTS_PER_WORD)
			candidates &= ~(uint32) 0 << (from % GJ_SLOTS_PER_WORD);
		if (candidates != 0)
			return word * GJ_SLOTS_PER_WORD + pg_rightmost_one_pos32(candidates);
	}
	return -1;
}

/*
 * Read and exclusively lock one of the index's fixed pages
 */
static Buffer
lock_block(Relation index, BlockNumber block, GjPageKind kind)
{
	Buffer		buffer = ReadBuffer(index, block);

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	GjPageCheck(index, buffer, kind);
	return buffer;
}

/*
 * Enter a change of one block, numbered meta->sequence, into the journal
 *
 * Neighbouring blocks that suffer the same share an entry, which then carries the
 * later number: a mirror may take a block once more than needed, never too seldom.
 */
static void
add_journal_entry(GjMetaPage meta, Page journal, GjJournalKind kind, BlockNumber block)
{
	GjJournalEntry *ring = GjPageGetJournal(journal);
	GjJournalEntry *entry;

	if (meta->journal_used > 0)
	{
		uint32		last = (meta->journal_next + GJ_JOURNAL_ENTRIES - 1) % GJ_JOURNAL_ENTRIES;

		entry = &ring[last];
		if (entry->kind == kind && block >= entry->start && block <= entry->end)
		{
			entry->end = Max(entry->end, block + 1);
			entry->sequence = meta->sequence;
			return;
		}
	}

	entry = &ring[meta->journal_next];
	if (meta->journal_used == GJ_JOURNAL_ENTRIES)
		meta->journal_floor = entry->sequence;
	else
		meta->journal_used++;
	entry->sequence = meta->sequence;
	entry->start = block;
	entry->end = block + 1;
	entry->kind = kind;
	entry->reserved = 0;
	meta->journal_next = (meta->journal_next + 1) % GJ_JOURNAL_ENTRIES;
}
