/*-------------------------------------------------------------------------
 *
 * read.c
 *	  Reading and checking the pages of a gpujoin index.
 *
 * Nothing read from disk is trusted: offsets and counts that later code uses as
 * array bounds are checked here, once a page, so that a damaged page becomes an
 * error that names it, not a crash.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "pages.h"

static void fill_info(GjMetaPage meta, GjIndexInfo *info);
static void fill_state(Relation index, GjMetaPage meta, GjIndexState *state);
static BlockNumber get_open_block(Relation index, GjMetaPage meta, int lane);
static void check_version(Relation index, Page page);
static void check_contents(Relation index, Buffer buffer);
static void copy_journal(Relation index, Page page, GjIndexJournal *journal);
static BlockNumber check_length(Relation index, BlockNumber min_blocks);

/*
 * Get what never changes in the metapage
 *
 * The first call for an index also checks its length, so that one which is too short is found
 * out here, and not by reading a journal or a tail page that is not there.
 */
void
GjIndexGetInfo(Relation index, GjIndexInfo *info)
{
	if (index->rd_amcache == NULL)
	{
		Buffer		metabuf = ReadBuffer(index, GJ_META_BLOCK);
		BlockNumber min_blocks;

		LockBuffer(metabuf, BUFFER_LOCK_SHARE);
		GjMetaCheck(index, metabuf);
		fill_info(GjPageGetMeta(BufferGetPage(metabuf)), info);
		min_blocks = GjPageGetMeta(BufferGetPage(metabuf))->min_blocks;
		UnlockReleaseBuffer(metabuf);
		(void) check_length(index, min_blocks);

		index->rd_amcache = MemoryContextAlloc(index->rd_indexcxt, sizeof(GjIndexInfo));
		memcpy(index->rd_amcache, info, sizeof(GjIndexInfo));
	}
	else
		memcpy(info, index->rd_amcache, sizeof(GjIndexInfo));
}

/*
 * Read what changes in the metapage, all of it at one moment
 */
void
GjIndexGetState(Relation index, GjIndexState *state)
{
	Buffer		metabuf = ReadBuffer(index, GJ_META_BLOCK);

	LockBuffer(metabuf, BUFFER_LOCK_SHARE);
	GjMetaCheck(index, metabuf);
	fill_state(index, GjPageGetMeta(BufferGetPage(metabuf)), state);
	UnlockReleaseBuffer(metabuf);
}

/*
 * Read the state, then the journal
 *
 * One page after the other: on a standby, replay locks both in an order of its own,
 * so nobody may wait for one while holding the other.  The order makes up for it.
 * Each change up to the state's sequence was entered before the journal is read;
 * what has left the ring by then is at or below the floor, which is read last.
 */
void
GjIndexGetJournal(Relation index, GjIndexJournal *journal)
{
	GjIndexState last;
	Buffer		buffer;

	GjIndexGetState(index, &journal->state);

	buffer = ReadBuffer(index, GJ_JOURNAL_BLOCK);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	GjPageCheck(index, buffer, GJ_PAGE_JOURNAL);
	copy_journal(index, BufferGetPage(buffer), journal);
	UnlockReleaseBuffer(buffer);

	GjIndexGetState(index, &last);
	journal->floor = last.journal_floor;
}

/*
 * Get the number of blocks of an index, or find that it has lost some
 *
 * Whoever reads, or adds to, what all data pages together hold asks this function for how
 * many there are: the file alone would say whatever is left of it.
 */
BlockNumber
GjIndexGetLength(Relation index)
{
	GjIndexState state;

	GjIndexGetState(index, &state);
	return check_length(index, state.min_blocks);
}

/*
 * Get the data page that a lane has open, or InvalidBlockNumber, and of which delta it is
 *
 * Good for as long as the caller holds the lane's tail exclusively.  Whoever adds a block
 * comes here before.  An index that is too short is not to be made longer: blocks that lack
 * would become new ones, and nobody could tell any more.
 */
BlockNumber
GjLaneGetOpenBlock(Relation index, int lane, uint32 *run)
{
	Buffer		metabuf = ReadBuffer(index, GJ_META_BLOCK);
	BlockNumber min_blocks;
	BlockNumber block;

	LockBuffer(metabuf, BUFFER_LOCK_SHARE);
	GjPageCheck(index, metabuf, GJ_PAGE_META);
	block = get_open_block(index, GjPageGetMeta(BufferGetPage(metabuf)), lane);
	*run = GjPageGetMeta(BufferGetPage(metabuf))->lanes[lane].run;
	min_blocks = GjPageGetMeta(BufferGetPage(metabuf))->min_blocks;
	UnlockReleaseBuffer(metabuf);
	(void) check_length(index, min_blocks);
	return block;
}

/*
 * Check a locked metapage, contents included
 */
void
GjMetaCheck(Relation index, Buffer metabuf)
{
	GjMetaPage	meta;
	GjLayout	layout;

	check_version(index, BufferGetPage(metabuf));
	GjPageCheck(index, metabuf, GJ_PAGE_META);
	meta = GjPageGetMeta(BufferGetPage(metabuf));
	if (meta->magic != GJ_MAGIC)
		GjReportCorruption(index, GJ_META_BLOCK, "The metapage has a wrong magic number.");

	if (!GjLayoutMake(RelationGetDescr(index), &layout) ||
		meta->nlanes < GJ_MIN_LANES || meta->nlanes > GJ_MAX_LANES ||
		meta->first_data != (BlockNumber) GJ_FIRST_TAIL_BLOCK + meta->nlanes ||
		meta->min_blocks < meta->first_data || meta->min_blocks > MaxBlockNumber ||
		meta->journal_blocks != 1 || meta->journal_start != GJ_JOURNAL_BLOCK ||
		meta->journal_next >= GJ_JOURNAL_ENTRIES || meta->journal_used > GJ_JOURNAL_ENTRIES ||
		meta->slots != layout.slots || meta->used_offset != layout.used_offset ||
		meta->ncolumns != layout.ncolumns ||
		memcmp(meta->columns, layout.columns, layout.ncolumns * sizeof(GjColumnDesc)) != 0 ||
		meta->tail_rows == 0 ||
		MAXALIGN(SizeOfPageHeaderData) + meta->tail_rows * layout.row_width >
		BLCKSZ - sizeof(GjPageOpaqueData))
		GjReportCorruption(index, GJ_META_BLOCK,
						   "The metapage's description of the pages is damaged.");
}

/*
 * Report a metapage of another format version, all of which have the same magic number and page id,
 * but not the same special space otherwise
 */
static void
check_version(Relation index, Page page)
{
	GjMetaPage	meta = GjPageGetMeta(page);

	if (PageIsNew(page) || PageGetSpecialSize(page) != sizeof(GjPageOpaqueData) ||
		GjPageGetOpaque(page)->page_id != GJ_PAGE_ID || meta->magic != GJ_MAGIC ||
		meta->version == GJ_FORMAT_VERSION)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("index \"%s\" has format version %u, which this library does not know",
					RelationGetRelationName(index), meta->version),
			 errdetail("The library reads and writes format version %d.", GJ_FORMAT_VERSION),
			 errhint(meta->version < GJ_FORMAT_VERSION ? "REINDEX the index." :
					 "Update the library, or REINDEX the index.")));
}

/*
 * Check a locked page of an expected kind
 */
void
GjPageCheck(Relation index, Buffer buffer, GjPageKind kind)
{
	GjPageKind	found = GjPageCheckKind(index, buffer);

	if (found != kind)
		GjReportCorruption(index, BufferGetBlockNumber(buffer),
						   psprintf("The page is of kind %d where kind %d is expected.",
									found, kind));
}

/*
 * Check a locked page of any kind, and return the kind
 */
GjPageKind
GjPageCheckKind(Relation index, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	GjPageOpaque opaque;

	if (PageIsNew(page))
		GjReportCorruption(index, BufferGetBlockNumber(buffer), "The page is all zeroes.");
	if (PageGetSpecialSize(page) != sizeof(GjPageOpaqueData) ||
		PageGetPageSize(page) != BLCKSZ)
		GjReportCorruption(index, BufferGetBlockNumber(buffer),
						   "The page has a special space of the wrong size.");

	opaque = GjPageGetOpaque(page);
	if (opaque->page_id != GJ_PAGE_ID)
		GjReportCorruption(index, BufferGetBlockNumber(buffer),
						   "The page is not one of a gpujoin index.");
	check_contents(index, buffer);
	return opaque->kind;
}

/*
 * Is this an all-zero page?  A crash between extending the index and opening the
 * new page leaves one; it holds nothing.
 */
bool
GjPageIsUnused(Page page)
{
	return PageIsNew(page);
}

/*
 * Get a row of a tail page
 */
int64
GjTailGetRow(Page page, const GjIndexInfo *info, int row, ItemPointer tid)
{
	return GjRowGetKey(info, GjTailRow(page, info, row), tid);
}

/*
 * Check the count of a page, and whether it is of a run or delta as far as it should be
 *
 * The count of a tail page, a directory page or a list page is checked against what the page can
 * hold, so that it may bound a loop; that of a data page roughly, since nothing but sums is made
 * of it.
 */
static void
check_contents(Relation index, Buffer buffer)
{
	GjPageOpaque opaque = GjPageGetOpaque(BufferGetPage(buffer));
	int			room = BLCKSZ - MAXALIGN(SizeOfPageHeaderData) - sizeof(GjPageOpaqueData);
	int			most = room / (GjIndexKeyWidth(index) + (int) sizeof(ItemPointerData));

	if (opaque->kind == GJ_PAGE_TAIL)
		most = room / GjRowWidth(RelationGetDescr(index));
	else if (opaque->kind == GJ_PAGE_DIRECTORY)
		most = GJ_DIRECTORY_FANOUT;
	else if (opaque->kind == GJ_PAGE_LIST)
		most = GJ_LIST_BLOCKS;
	if (opaque->used > most)
		GjReportCorruption(index, BufferGetBlockNumber(buffer),
						   "The page claims more entries than fit.");
	if ((opaque->run != 0) !=
		(opaque->kind >= GJ_PAGE_DATA && opaque->kind <= GJ_PAGE_LIST))
		GjReportCorruption(index, BufferGetBlockNumber(buffer),
						   psprintf("The page, of kind %d, is of run %u.", opaque->kind,
									opaque->run));
}

static void
fill_info(GjMetaPage meta, GjIndexInfo *info)
{
	memset(info, 0, sizeof(*info));
	info->build_id = meta->build_id;
	info->first_data = meta->first_data;
	GjLayoutDescribe(meta, info);
	info->tail_rows = meta->tail_rows;
	info->nlanes = meta->nlanes;
	info->hashed = (meta->flags & GJ_META_HASHED_KEYS) != 0;
}

static void
fill_state(Relation index, GjMetaPage meta, GjIndexState *state)
{
	GjListsCheck(index, meta);
	state->build_id = meta->build_id;
	state->sequence = meta->sequence;
	state->vacuum_epoch = meta->vacuum_epoch;
	state->journal_floor = meta->journal_floor;
	state->list_version = meta->list_version;
	state->next_run = meta->next_run;
	state->fold_run = meta->fold_run;
	state->nruns = meta->nruns;
	memcpy(state->runs, meta->runs, meta->nruns * sizeof(GjRun));
	state->deltas[0] = meta->delta;
	state->deltas[1] = meta->previous;
	state->min_blocks = meta->min_blocks;
	state->nopen = 0;
	for (int lane = 0; lane < meta->nlanes; lane++)
	{
		BlockNumber block = get_open_block(index, meta, lane);

		if (BlockNumberIsValid(block))
			state->open_blocks[state->nopen++] = block;
	}
}

/*
 * Return the block that a lane has open, after a check of its number: if it were not a data
 * page, the caller might wait for ever, for a tail that it has locked itself
 */
static BlockNumber
get_open_block(Relation index, GjMetaPage meta, int lane)
{
	BlockNumber block = meta->lanes[lane].open_block;

	if (BlockNumberIsValid(block) &&
		(block < meta->first_data || block >= meta->min_blocks))
		GjReportCorruption(index, GJ_META_BLOCK,
						   "A lane has a block open that is not a data page.");
	if (BlockNumberIsValid(block) && meta->lanes[lane].run != meta->delta.run &&
		(meta->previous.run == 0 || meta->lanes[lane].run != meta->previous.run))
		GjReportCorruption(index, GJ_META_BLOCK,
						   "A lane has a page open that is of no delta.");
	return block;
}

/*
 * Copy the entries in use; the number of a change is never 0
 */
static void
copy_journal(Relation index, Page page, GjIndexJournal *journal)
{
	const GjJournalEntry *ring = GjPageGetJournal(page);
	BlockNumber nblocks = check_length(index, journal->state.min_blocks);

	journal->nentries = 0;
	for (int i = 0; i < GJ_JOURNAL_ENTRIES; i++)
	{
		if (ring[i].sequence == 0)
			continue;
		if (ring[i].start > ring[i].end || ring[i].end > nblocks)
			GjReportCorruption(index, GJ_JOURNAL_BLOCK,
							   "A journal entry names blocks that do not exist.");
		journal->entries[journal->nentries++] = ring[i];
	}
}

/*
 * Get the number of blocks in the file; an error if the metapage was seen to count more
 *
 * No reader misses a page that it does not know of, so without this a file that has lost
 * its end (to a file system, or an incomplete copy) would give wrong answers in silence.
 *
 * The metapage counts up to the last page that has ever been in use: as many as there
 * are after a build, raised by the record that puts a page into use (GjLaneSwitch, GjListAdd), or
 * that publishes a run.  It is
 * a lower bound.  The file may well be longer, by blocks that were added for a lane but not
 * put into use, or not yet; and it may never be shorter:
 *
 * a. A block is added to the file before the record is made that counts it, and an index is
 *	  never cut while somebody has a lock on it.  So the rule: first the count, then the
 *	  length.  The other way round a page put into use in between would be missed by the
 *	  length, but not by the count.
 * b. Replay makes the page that the record puts into use from the image in it, and with
 *	  it the block, if need be, while it has the metapage locked.  So a standby's readers see
 *	  the count behind the block, too, as everybody does after a crash: the metapage is not
 *	  written before the record is, and once a checkpoint has made the record unnecessary,
 *	  the block has been written as well.  What a crash can take is a block that no record
 *	  has counted.
 * c. A build counts when all pages are in the file; nobody sees the index before they
 *	  are logged, or synchronised where that spares the WAL.  An unlogged index is reset to
 *	  its init fork, which counts its own pages.
 */
static BlockNumber
check_length(Relation index, BlockNumber min_blocks)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);

	if (nblocks < min_blocks)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" is too short", RelationGetRelationName(index)),
				 errdetail("Its file has %u blocks, but the metapage counts %u.",
						   nblocks, min_blocks),
				 errhint("Please REINDEX it.")));
	return nblocks;
}

/*
 * Raise the error for a damaged block
 */
void
GjReportCorruption(Relation index, BlockNumber block, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" is corrupted at block %u",
					RelationGetRelationName(index), block),
			 errdetail_internal("%s", detail),
			 errhint("Please REINDEX it.")));
}
