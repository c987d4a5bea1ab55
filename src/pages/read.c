/*-------------------------------------------------------------------------
 *
 * read.c
 *	  Reading and checking the pages of a gpujoin index, and finding out which pages are in use.
 *
 * Nothing read from disk is trusted: offsets and counts that later code uses as array bounds are
 * checked here, once per page, so that a damaged page causes an error that names it, not a
 * crash.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/buffers.h"
#include "pages.h"

static void fill_info(GjMetaPage meta, GjIndexInfo *info);
static uint32 get_merge_run(const GjMetaPageData *meta);
static void fill_state(Relation index, GjMetaPage meta, bool of_nulls, GjIndexState *state);
static int	copy_lists(GjMetaPage meta, bool of_nulls, GjRun *runs, GjDelta *deltas);
static BlockNumber get_open_block(Relation index, GjMetaPage meta, int lane);
static void check_version(Relation index, Page page);
static void check_flags(Relation index, const GjMetaPageData *meta);
static void check_contents(Relation index, Buffer buffer);
static void copy_journal(Relation index, Page page, GjIndexJournal *journal);
static BlockNumber check_length(Relation index, BlockNumber min_blocks);
static void check_run(Relation index, const GjMetaPageData *meta, const GjRun *run);
static void check_delta(Relation index, const GjMetaPageData *meta, const GjDelta *delta);
static bool read_list(Relation index, const GjIndexState *state, const GjDelta *delta,
					  BlockNumber nblocks, BlockNumber *blocks);
static void copy_list_page(Relation index, Buffer buffer, BlockNumber first_data,
						   BlockNumber nblocks, int count, BlockNumber *blocks);
static void lists_check(Relation index, const GjMetaPageData *meta);
static int	check_null_lists(Relation index, const GjMetaPageData *meta, uint32 *numbers,
							 int count);
static void check_merge(Relation index, const GjMetaPageData *meta);
static inline void copy_info(const GjIndexInfo *from, GjIndexInfo *to);
static void describe_words(GjIndexInfo *info);
static void describe_layout(const GjMetaPageData *meta, GjIndexInfo *info);
static int	get_row_width(Relation index);

/*
 * Get the constant part of the metapage
 *
 * The first call for an index also checks its length, so that a truncated index is detected
 * here, and not by reading a journal or a tail page that does not exist.
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
		copy_info(index->rd_amcache, info);
}

/*
 * Copy the description of an index, but not that of columns which it does not have: most have few
 */
static inline void
copy_info(const GjIndexInfo *from, GjIndexInfo *to)
{
	memcpy(to, from, offsetof(GjIndexInfo, included) + from->nincluded * sizeof(GjIncludedColumn));
}

/*
 * Read the changing part of the metapage, in a consistent state, as that of the part of keys
 */
void
GjIndexGetState(Relation index, GjIndexState *state)
{
	GjIndexGetPart(index, false, state);
}

/*
 * Read the changing part of the metapage, in a consistent state, as that of one part of the index
 */
void
GjIndexGetPart(Relation index, bool of_nulls, GjIndexState *state)
{
	Buffer		metabuf = GjBufferRead(index, GJ_META_BLOCK, InvalidBuffer, NULL);

	LockBuffer(metabuf, BUFFER_LOCK_SHARE);
	GjMetaCheck(index, metabuf);
	fill_state(index, GjPageGetMeta(BufferGetPage(metabuf)), of_nulls, state);
	UnlockReleaseBuffer(metabuf);
}

/*
 * Read the counters of the metapage only, without checking its lists, in a small part of the time:
 * a search does this before and after it reads the state
 */
void
GjIndexGetCounters(Relation index, GjIndexCounters *counters)
{
	Buffer		metabuf = GjBufferRead(index, GJ_META_BLOCK, InvalidBuffer, NULL);
	GjMetaPage	meta;

	LockBuffer(metabuf, BUFFER_LOCK_SHARE);
	GjPageCheck(index, metabuf, GJ_PAGE_META);
	meta = GjPageGetMeta(BufferGetPage(metabuf));
	GjMetaCheckLanes(index, meta);
	counters->build_id = meta->build_id;
	counters->sequence = meta->sequence;
	counters->vacuum_epoch = meta->vacuum_epoch;
	counters->list_version = meta->list_version;
	counters->used_tails = GjMetaUsedTails(meta);
	UnlockReleaseBuffer(metabuf);
}

/*
 * Read the state, then the journal
 *
 * The pages are locked one at a time: on a standby, replay locks both in its own order, so a
 * reader must not wait for one while it holds the other.  The reading order makes up for it.
 * Each change up to the state's sequence was entered before the journal is read; entries that
 * have left the ring by then are at or below the floor, which is read last.
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
 * Get the number of blocks of an index; raises an error if it has lost some
 *
 * Code that reads, or extends, all data pages must get their number from this function: the
 * file's length alone would not show that blocks are missing.
 */
BlockNumber
GjIndexGetLength(Relation index)
{
	GjIndexState state;

	GjIndexGetState(index, &state);
	return check_length(index, state.min_blocks);
}

/*
 * Get the data page that a lane has open, or InvalidBlockNumber, and the delta that it belongs
 * to
 *
 * The result is valid while the caller holds the lane's tail exclusively.  Call this before
 * adding a block.  An index that is too short must not be extended: missing blocks would be
 * replaced by new ones, and the damage could not be detected any more.
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
	*run = GjMetaGetLane(GjPageGetMeta(BufferGetPage(metabuf)), lane)->run;
	min_blocks = GjPageGetMeta(BufferGetPage(metabuf))->min_blocks;
	UnlockReleaseBuffer(metabuf);
	(void) check_length(index, min_blocks);
	return block;
}

/*
 * Check a locked metapage, including its contents
 */
void
GjMetaCheck(Relation index, Buffer metabuf)
{
	GjMetaPage	meta;
	GjLayout	layout;
	uint16		flags[GJ_MAX_INCLUDED];

	check_version(index, BufferGetPage(metabuf));
	GjPageCheck(index, metabuf, GJ_PAGE_META);
	meta = GjPageGetMeta(BufferGetPage(metabuf));
	if (meta->magic != GJ_MAGIC)
		GjReportCorruption(index, GJ_META_BLOCK, "The metapage has a wrong magic number.");
	check_flags(index, meta);
	for (int i = 0; i < GJ_MAX_INCLUDED; i++)
		flags[i] = meta->columns[GJ_FIRST_INCLUDED + i].flags;

	if (!GjLayoutMake(RelationGetDescr(index), (meta->flags & GJ_META_RESTS) != 0, flags,
					  &layout) ||
		meta->nlanes < GJ_MIN_LANES || meta->nlanes > GJ_MAX_LANES ||
		(GjMetaHasNulls(meta) && meta->version < GJ_FORMAT_VERSION) ||
		meta->first_data != (BlockNumber) GJ_FIRST_TAIL_BLOCK + meta->nlanes +
		(GjMetaHasNulls(meta) ? 1 : 0) ||
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
 * Check what GjMetaGetMore() needs.  The rest is checked once for each relation that is opened, but
 * the page may be read again.
 */
void
GjMetaCheckLanes(Relation index, const GjMetaPageData *meta)
{
	if (meta->nlanes < GJ_MIN_LANES || meta->nlanes > GJ_MAX_LANES)
		GjReportCorruption(index, GJ_META_BLOCK, "The metapage's number of lanes is damaged.");
}

/*
 * Report a metapage of another format version.  All versions have the same magic number and page
 * id, but the special space may differ otherwise.
 */
static void
check_version(Relation index, Page page)
{
	GjMetaPage	meta = GjPageGetMeta(page);

	if (PageIsNew(page) || PageGetSpecialSize(page) != sizeof(GjPageOpaqueData) ||
		GjPageGetOpaque(page)->page_id != GJ_PAGE_ID || meta->magic != GJ_MAGIC ||
		(meta->version >= GJ_OLDEST_FORMAT && meta->version <= GJ_FORMAT_VERSION))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("index \"%s\" has format version %u, which this library does not know",
					RelationGetRelationName(index), meta->version),
			 errdetail("The library knows format versions %d to %d.", GJ_OLDEST_FORMAT,
					   GJ_FORMAT_VERSION),
			 errhint(meta->version < GJ_OLDEST_FORMAT ? "REINDEX the index." :
					 "Update the library, or REINDEX the index.")));
}

/*
 * Report a metapage with a flag, or a kind of column, of a later version of this library: entries
 * may have another meaning
 */
static void
check_flags(Relation index, const GjMetaPageData *meta)
{
	if ((meta->flags & ~GJ_META_FLAGS) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" has flags 0x%x, which this library does not know",
						RelationGetRelationName(index), meta->flags & ~GJ_META_FLAGS),
				 errhint("Update the library, or REINDEX the index.")));
	for (int i = 0; i < Min(meta->ncolumns, GJ_MAX_COLUMNS); i++)
	{
		GjColumnKind kind = GJ_COLUMN_KIND(meta->columns[i].flags);

		if (kind > GJ_COLUMN_LAST_KIND)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("index \"%s\" has columns of kind %d, which this library does not know",
							RelationGetRelationName(index), (int) kind),
					 errhint("Update the library, or REINDEX the index.")));
	}
}

/*
 * Check a locked page of a given kind
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
 * Check a locked page of any kind, and return its kind
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
	return opaque->kind == GJ_PAGE_NARROW ? GJ_PAGE_DATA : opaque->kind;
}

/*
 * Check the count of a page, and whether it belongs to a run or delta if it has to
 *
 * The count of a tail page, a directory page or a list page is checked against the page's
 * capacity, so that it can bound a loop.  The check for a data page is rough, since its count is
 * only added up.
 */
static void
check_contents(Relation index, Buffer buffer)
{
	GjPageOpaque opaque = GjPageGetOpaque(BufferGetPage(buffer));
	int			room = BLCKSZ - MAXALIGN(SizeOfPageHeaderData) - sizeof(GjPageOpaqueData);
	int			most;

	if (opaque->kind == GJ_PAGE_TAIL)
		most = room / get_row_width(index);
	else if (opaque->kind == GJ_PAGE_DIRECTORY)
		most = GJ_DIRECTORY_FANOUT;
	else if (opaque->kind == GJ_PAGE_LIST)
		most = GJ_LIST_BLOCKS;
	else if (opaque->kind == GJ_PAGE_NARROW)
		most = GJ_MAX_SLOTS;
	else
		most = room / (GjIndexKeyWidth(index) + (int) sizeof(ItemPointerData));
	if (opaque->used > most)
		GjReportCorruption(index, BufferGetBlockNumber(buffer),
						   "The page claims more entries than fit.");
	if ((opaque->run != 0) !=
		(opaque->kind >= GJ_PAGE_DATA && opaque->kind <= GJ_PAGE_NARROW))
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
	info->has_rests = (meta->flags & GJ_META_RESTS) != 0;
	describe_layout(meta, info);
	describe_words(info);
	info->tail_rows = meta->tail_rows;
	info->nlanes = meta->nlanes;
	info->stores_nulls = GjMetaHasNulls(meta);
	info->narrow = GjNarrowIsPossible(info);
	info->hashed = (meta->flags & GJ_META_HASHED_KEYS) != 0;
	if (meta->version > GJ_OLDEST_FORMAT)
		info->hash_identity = GjMetaGetMore(meta)->hash_identity;
}

static void
fill_state(Relation index, GjMetaPage meta, bool of_nulls, GjIndexState *state)
{
	lists_check(index, meta);
	state->build_id = meta->build_id;
	state->sequence = meta->sequence;
	state->vacuum_epoch = meta->vacuum_epoch;
	state->journal_floor = meta->journal_floor;
	state->list_version = meta->list_version;
	state->next_run = meta->next_run;
	state->fold_run = meta->fold_run;
	state->format = meta->version;
	state->used_tails = of_nulls ? PG_UINT64_MAX : GjMetaUsedTails(meta);
	if (index->rd_amcache != NULL && !of_nulls)
		((GjIndexInfo *) index->rd_amcache)->many_tails =
			pg_popcount64(state->used_tails) * 2 >= meta->nlanes;
	state->merge_run = get_merge_run(meta);
	state->merge_dead = state->merge_run == 0 ? 0 : GjMetaGetMore(meta)->merge_dead;
	state->nruns = copy_lists(meta, of_nulls, state->runs, state->deltas);
	state->nall = state->nruns + copy_lists(meta, !of_nulls, state->runs + state->nruns,
											state->other_deltas);
	state->min_blocks = meta->min_blocks;
	state->nopen = 0;
	for (int lane = of_nulls ? meta->nlanes : 0; lane < meta->nlanes + of_nulls; lane++)
	{
		BlockNumber block = get_open_block(index, meta, lane);

		if (BlockNumberIsValid(block))
			state->open_blocks[state->nopen++] = block;
	}
}

/*
 * Copy the runs and deltas of a part; returns the number of runs
 */
static int
copy_lists(GjMetaPage meta, bool of_nulls, GjRun *runs, GjDelta *deltas)
{
	if (of_nulls && !GjMetaHasNulls(meta))
	{
		memset(deltas, 0, 2 * sizeof(GjDelta));
		return 0;
	}
	deltas[0] = *GjMetaGetDelta(meta, of_nulls);
	deltas[1] = *GjMetaGetPrevious(meta, of_nulls);
	if (of_nulls)
	{
		memcpy(runs, GjMetaGetNulls(meta)->runs, GjMetaGetNulls(meta)->nruns * sizeof(GjRun));
		return GjMetaGetNulls(meta)->nruns;
	}
	for (int i = 0; i < meta->nruns; i++)
		runs[i] = *GjMetaGetRun(meta, i);
	return meta->nruns;
}

/*
 * Return the run that a merge is writing, or 0
 */
static uint32
get_merge_run(const GjMetaPageData *meta)
{
	return meta->version == GJ_OLDEST_FORMAT ? 0 : GjMetaGetMore(meta)->merge_run;
}

/*
 * Return the block that a lane has open, after checking its number: if it were not a data page,
 * the caller might wait forever for a tail that it has locked itself
 */
static BlockNumber
get_open_block(Relation index, GjMetaPage meta, int lane)
{
	const GjLane *open = GjMetaGetLane(meta, lane);
	uint32		previous = GjMetaGetPrevious(meta, lane >= meta->nlanes)->run;
	BlockNumber block = open->open_block;

	if (BlockNumberIsValid(block) &&
		(block < meta->first_data || block >= meta->min_blocks))
		GjReportCorruption(index, GJ_META_BLOCK,
						   "A lane has a block open that is not a data page.");
	if (BlockNumberIsValid(block) &&
		open->run != GjMetaGetDelta(meta, lane >= meta->nlanes)->run &&
		(previous == 0 || open->run != previous))
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
 * Get the number of blocks in the file; raises an error if the metapage counts more
 *
 * A reader cannot miss a page that it does not know of, so without this check a file that has
 * lost its end (because of a file system, or an incomplete copy) would silently give wrong
 * answers.
 *
 * The metapage counts up to the last page that has ever been in use: all pages after a build,
 * increased by the record that puts a page into use (GjLaneSwitch, GjListAdd) or that publishes
 * a run.  This is a lower bound.  The file can be longer, by blocks that were added for a lane
 * but not put into use, or not yet; but it must never be shorter:
 *
 * a. A block is added to the file before the record is made that counts it, and an index is
 *    never truncated while any process has a lock on it.  Hence the rule: read the count first,
 *    then the length.  In the opposite order, a page put into use in between would be in the
 *    count but not in the length.
 * b. Replay restores the page that the record puts into use from the image in it, and extends
 *    the file if necessary, while it holds the lock on the metapage.  So readers on a standby
 *    see the count after the block, too, as all readers do after a crash: the metapage is not
 *    written before the record is, and once a checkpoint has made the record unnecessary, the
 *    block has been written as well.  A crash can only remove a block that no record has
 *    counted.
 * c. A build counts when all pages are in the file; other processes do not see the index before
 *    its pages are logged, or synced if that replaces the WAL.  An unlogged index is reset to
 *    its init fork, which counts its own pages.
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
 * Raise an error for a damaged block
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

/*-------------------------------------------------------------------------
 * Lists of pages
 *
 * Find the pages that hold an index's entries, and detect that they no longer do.
 *
 * The metapage lists runs and deltas.  A run's pages are found by its directory, a delta's pages by
 * its list pages; and each page carries the number of the run or delta that it belongs to.  A page
 * is alive if its number is listed in the metapage, or is that of a run that is being written:
 * fold_run, or merge_run, of a merge in steps.  All others are free, and can be taken by a process
 * that needs a page. So the record of the metapage that publishes a new run also frees all pages
 * that the run replaces, at the same moment.
 *
 * Numbers are taken from next_run, and none is used twice.  Hence, for a state of the metapage
 * that was read at some time, and a page that is locked afterwards:
 *
 *	  - a page with a number that the state lists belonged to that run or delta at that time;
 *	  - a number below next_run that is not listed was dead then, and remains dead: the page is
 *		free, until a process that has locked it exclusively puts it to use;
 *	  - a number from next_run on is younger than the state.
 *
 * Readers lock one page at a time.  So a page may have been freed, and reused, since its reader
 * read the metapage.  Lemma L1 of src/README is why it suffices to check list_version again when
 * all pages have been read.  If it has changed, the reader discards its results and starts over: a
 * page that does not match its list is an error only if list_version is the same.
 *
 * Each change to a page takes a number from the metapage's sequence, and so does publishing or
 * giving up a run; the pages of a run are written with a number that is taken for them
 * beforehand.  So between the last change to a page that dies and the first change after its
 * reuse, there is always a number that belongs to no page: a copy of the index needs it
 * (mirror/load.c).
 *
 * Beginning a new delta, while the previous one has yet to be folded, frees nothing and does not
 * raise list_version.  Rows that are moved to the new one after the state was read were on tail
 * pages until then, which readers read before the metapage.
 *-------------------------------------------------------------------------
 */

/*
 * Check the runs and deltas listed in a metapage
 */
static void
lists_check(Relation index, const GjMetaPageData *meta)
{
	uint32		numbers[GJ_MAX_ALIVE];
	int			count = 0;
	int			most = meta->version == GJ_OLDEST_FORMAT ? GJ_FORMAT_2_RUNS : GJ_MAX_RUNS;

	if (meta->nruns > most || meta->next_run > GJ_MAX_RUN_NUMBER + 1 ||
		meta->list_version == 0 || meta->delta.run == 0)
		GjReportCorruption(index, GJ_META_BLOCK, "The metapage's list of runs is damaged.");

	for (int i = 0; i < meta->nruns; i++)
	{
		const GjRun *run = GjMetaGetRun(meta, i);

		check_run(index, meta, run);
		numbers[count++] = run->run;
	}
	check_delta(index, meta, &meta->delta);
	numbers[count++] = meta->delta.run;
	if (meta->previous.run != 0)
	{
		check_delta(index, meta, &meta->previous);
		numbers[count++] = meta->previous.run;
	}
	if (meta->fold_run != 0)
		numbers[count++] = meta->fold_run;
	if (get_merge_run(meta) != 0)
		numbers[count++] = get_merge_run(meta);
	check_merge(index, meta);
	if (GjMetaHasNulls(meta))
		count = check_null_lists(index, meta, numbers, count);

	for (int i = 0; i < count; i++)
	{
		bool		wrong = numbers[i] == 0 || numbers[i] >= meta->next_run;

		for (int other = 0; other < i; other++)
			wrong |= numbers[other] == numbers[i];
		if (wrong)
			GjReportCorruption(index, GJ_META_BLOCK, "A run's number is impossible.");
	}
}

/*
 * Check the runs and deltas of NULL keys, and add their numbers; returns the count of numbers
 */
static int
check_null_lists(Relation index, const GjMetaPageData *meta, uint32 *numbers, int count)
{
	const GjMetaNullData *nulls = GjMetaGetNulls(meta);

	if (nulls->nruns > GJ_MAX_NULL_RUNS)
		GjReportCorruption(index, GJ_META_BLOCK, "The metapage's list of runs is damaged.");
	for (uint32 i = 0; i < nulls->nruns; i++)
	{
		check_run(index, meta, &nulls->runs[i]);
		if (nulls->runs[i].flags != 0 || nulls->runs[i].min_key != 0 || nulls->runs[i].max_key != 0)
			GjReportCorruption(index, GJ_META_BLOCK,
							   "The metapage's description of a run is damaged.");
		numbers[count++] = nulls->runs[i].run;
	}
	check_delta(index, meta, &nulls->delta);
	numbers[count++] = nulls->delta.run;
	if (nulls->previous.run != 0)
	{
		check_delta(index, meta, &nulls->previous);
		numbers[count++] = nulls->previous.run;
	}
	return count;
}

/*
 * Check that runs are marked as sources only of a merge
 */
static void
check_merge(Relation index, const GjMetaPageData *meta)
{
	int			nsources = 0;

	for (int i = 0; i < meta->nruns; i++)
		nsources += GjRunIsSource(GjMetaGetRun(meta, i));
	if ((nsources > 0) != (get_merge_run(meta) != 0) || nsources == GJ_MAX_RUNS)
		GjReportCorruption(index, GJ_META_BLOCK,
						   "The metapage's description of a merge is damaged.");
}

static void
check_run(Relation index, const GjMetaPageData *meta, const GjRun *run)
{
	if (run->height < 1 || run->height > GJ_MAX_HEIGHT ||
		run->root < meta->first_data || run->root >= meta->min_blocks ||
		run->data_pages < 1 || run->directory_pages < run->height ||
		(uint64) run->data_pages + run->directory_pages > meta->min_blocks - meta->first_data ||
		run->most_slots > GJ_MAX_SLOTS || run->entries < 1 ||
		run->entries > (uint64) run->data_pages * Max(run->most_slots, meta->slots) ||
		run->dead > run->entries || run->min_key > run->max_key ||
		run->published > meta->sequence || (run->flags & ~GJ_RUN_SOURCE) != 0)
		GjReportCorruption(index, GJ_META_BLOCK,
						   "The metapage's description of a run is damaged.");
}

/*
 * Check a delta's page counts; all of its list pages but the last one are full
 */
static void
check_delta(Relation index, const GjMetaPageData *meta, const GjDelta *delta)
{
	uint64		most = (uint64) delta->list_pages * GJ_LIST_BLOCKS;
	bool		wrong;

	if (delta->list_pages == 0)
		wrong = delta->data_pages != 0 || BlockNumberIsValid(delta->head);
	else
		wrong = delta->data_pages > most || delta->data_pages + GJ_LIST_BLOCKS < most ||
			(uint64) delta->data_pages + delta->list_pages > meta->min_blocks - meta->first_data ||
			delta->head < meta->first_data || delta->head >= meta->min_blocks;
	if (wrong)
		GjReportCorruption(index, GJ_META_BLOCK,
						   "The metapage's description of a delta is damaged.");
}

/*
 * Determine which list a page belongs to, if it was locked after the state had been read
 *
 * The page must be all zeroes, or have been checked.
 */
GjPageOwner
GjPageGetOwner(const GjIndexState *state, Page page)
{
	uint32		run;

	if (GjPageIsUnused(page))
		return GJ_OWNER_NOBODY;

	run = GjPageGetOpaque(page)->run;
	if (run >= state->next_run)
		return GJ_OWNER_LATER;
	for (int i = 0; i < state->nall; i++)
	{
		if (state->runs[i].run == run)
			return i < state->nruns ? GJ_OWNER_RUN : GJ_OWNER_OTHER;
	}
	for (int i = 0; i < lengthof(state->deltas); i++)
	{
		if (state->deltas[i].run != 0 && state->deltas[i].run == run)
			return GJ_OWNER_DELTA;
		if (state->other_deltas[i].run != 0 && state->other_deltas[i].run == run)
			return GJ_OWNER_OTHER;
	}
	if (run == 0)
		return GJ_OWNER_NOBODY;
	if (run == state->merge_run)
		return GJ_OWNER_MERGE;
	return run == state->fold_run ? GJ_OWNER_FOLD : GJ_OWNER_NOBODY;
}

/*
 * List the numbers below next_run that are not dead, of both parts; returns their count
 */
int
GjListsGetAlive(const GjIndexState *state, uint32 *numbers)
{
	int			count = 0;

	for (int i = 0; i < state->nall; i++)
		numbers[count++] = state->runs[i].run;
	for (int i = 0; i < lengthof(state->deltas); i++)
	{
		if (state->deltas[i].run != 0)
			numbers[count++] = state->deltas[i].run;
		if (state->other_deltas[i].run != 0)
			numbers[count++] = state->other_deltas[i].run;
	}
	if (state->fold_run != 0)
		numbers[count++] = state->fold_run;
	if (state->merge_run != 0)
		numbers[count++] = state->merge_run;
	return count;
}

/*
 * Estimate the number of free pages in a file of that length.  Pages that a fold or a merge is
 * writing count as free.
 */
uint64
GjListsCountFree(const GjIndexState *state, const GjIndexInfo *info, BlockNumber length)
{
	uint64		all = length - info->first_data;
	uint64		alive = 0;

	for (int i = 0; i < state->nall; i++)
		alive += (uint64) state->runs[i].data_pages + state->runs[i].directory_pages;
	for (int i = 0; i < lengthof(state->deltas); i++)
		alive += (uint64) state->deltas[i].data_pages + state->deltas[i].list_pages +
			state->other_deltas[i].data_pages + state->other_deltas[i].list_pages;
	return all - Min(alive, all);
}

/*
 * Get the data pages of the deltas, as they were when the state was read; returns false if the
 * lists have changed since
 *
 * A result of true does not prove that they have not: callers that read the pages must check
 * again afterwards.
 */
bool
GjDeltaGetBlocks(Relation index, const GjIndexState *state, BlockNumber **blocks,
				 BlockNumber *nblocks)
{
	BlockNumber length = 0;
	uint64		count = 0;

	for (int i = 0; i < lengthof(state->deltas); i++)
	{
		if (state->deltas[i].run != 0)
			count += state->deltas[i].data_pages;
	}
	if (count > 0)
		length = check_length(index, state->min_blocks);
	*blocks = MemoryContextAllocHuge(CurrentMemoryContext, Max(count, 1) * sizeof(BlockNumber));
	*nblocks = 0;
	for (int i = 0; i < lengthof(state->deltas); i++)
	{
		const GjDelta *delta = &state->deltas[i];

		if (delta->run == 0 || delta->data_pages == 0)
			continue;
		if (!read_list(index, state, delta, length, *blocks + *nblocks))
		{
			pfree(*blocks);
			*blocks = NULL;
			*nblocks = 0;
			return false;
		}
		*nblocks += delta->data_pages;
	}
	return true;
}

/*
 * Get the list pages of a delta that is not being changed
 */
void
GjDeltaGetLists(Relation index, const GjDelta *delta, BlockNumber *blocks)
{
	BlockNumber block = delta->head;

	for (BlockNumber i = 0; i < delta->list_pages; i++)
	{
		Buffer		buffer = ReadBuffer(index, block);

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		GjPageCheck(index, buffer, GJ_PAGE_LIST);
		blocks[i] = block;
		block = GjPageGetList(BufferGetPage(buffer))->previous;
		UnlockReleaseBuffer(buffer);
	}
}

/*
 * Copy the blocks that a delta had, from its last list page back to the first
 *
 * The last list page may have got more elements since, and there may be a later one, too, which
 * the state did not have.
 */
static bool
read_list(Relation index, const GjIndexState *state, const GjDelta *delta, BlockNumber nblocks,
		  BlockNumber *blocks)
{
	BlockNumber block = delta->head;
	GjIndexInfo info;

	GjIndexGetInfo(index, &info);
	for (BlockNumber i = delta->list_pages; i-- > 0;)
	{
		BlockNumber first = i * GJ_LIST_BLOCKS;
		Buffer		buffer;
		Page		page;

		if (block < info.first_data || block >= nblocks)
			GjReportCorruption(index, GJ_META_BLOCK, "A list of data pages ends too early.");
		buffer = ReadBuffer(index, block);
		page = BufferGetPage(buffer);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		if (GjPageIsUnused(page) || GjPageCheckKind(index, buffer) != GJ_PAGE_LIST ||
			GjPageGetOpaque(page)->run != delta->run)
		{
			UnlockReleaseBuffer(buffer);
			if (GjListsMoved(index, state))
				return false;
			GjReportCorruption(index, block, "The page is not of the list that it is in.");
		}
		copy_list_page(index, buffer, info.first_data, nblocks,
					   Min(delta->data_pages - first, GJ_LIST_BLOCKS), blocks + first);
		block = GjPageGetList(page)->previous;
		UnlockReleaseBuffer(buffer);
	}
	if (BlockNumberIsValid(block))
		GjReportCorruption(index, delta->head, "A list of data pages has too many of them.");
	return true;
}

static void
copy_list_page(Relation index, Buffer buffer, BlockNumber first_data, BlockNumber nblocks,
			   int count, BlockNumber *blocks)
{
	Page		page = BufferGetPage(buffer);

	if (GjPageGetOpaque(page)->used < count)
		GjReportCorruption(index, BufferGetBlockNumber(buffer),
						   "A list has fewer data pages than the metapage counts.");
	memcpy(blocks, GjPageGetList(page)->blocks, count * sizeof(BlockNumber));
	for (int i = 0; i < count; i++)
	{
		if (blocks[i] < first_data || blocks[i] >= nblocks)
			GjReportCorruption(index, BufferGetBlockNumber(buffer),
							   "A list names a data page that does not exist.");
	}
}

/*
 * Fill in the arrays and rows as described by a checked metapage
 */
static void
describe_layout(const GjMetaPageData *meta, GjIndexInfo *info)
{
	int			row_offset;

	info->plain_slots = meta->slots;
	info->plain_words = meta->slots / GJ_SLOTS_PER_WORD;
	info->key_width = meta->columns[GJ_KEY_COLUMN].width;
	info->keys_offset = meta->columns[GJ_KEY_COLUMN].offset;
	info->tids_offset = meta->columns[GJ_TID_COLUMN].offset;
	info->used_offset = meta->used_offset;
	info->nincluded = meta->ncolumns - GJ_FIRST_INCLUDED;

	row_offset = info->key_width + sizeof(ItemPointerData);
	for (int i = 0; i < info->nincluded; i++)
	{
		const GjColumnDesc *desc = &meta->columns[GJ_FIRST_INCLUDED + i];
		GjIncludedColumn *column = &info->included[i];

		column->width = desc->width;
		column->offset = desc->offset;
		column->nulls_offset = desc->nulls_offset;
		column->row_offset = row_offset;
		column->kind = GJ_COLUMN_KIND(desc->flags);
		column->display_scale = GJ_COLUMN_DISPLAY_SCALE(desc->flags);
		column->stored_scale = GJ_COLUMN_STORED_SCALE(desc->flags);
		row_offset += desc->width;
	}
	info->row_nulls_offset = row_offset;
	info->row_width = row_offset + BITMAPLEN(info->nincluded);
	info->arrays_end = info->used_offset +
		(1 + info->nincluded) * info->plain_words * sizeof(uint32);
}

/*
 * Find the columns that the catalogs know, and the second words of those that have two
 */
static void
describe_words(GjIndexInfo *info)
{
	int			second = info->nincluded;

	while (second > 0 && info->included[second - 1].kind == GJ_COLUMN_SECOND_WORD)
		second--;
	info->nvalues = second - (info->has_rests ? 1 : 0);
	for (int i = 0; i < info->nvalues; i++)
	{
		if (GjKindIsWide(info->included[i].kind))
			info->included[i].second = ++second;
	}
}

/*
 * Return the width of a tail row; an index whose metapage we have not read has at least this one
 */
static int
get_row_width(Relation index)
{
	TupleDesc	desc = RelationGetDescr(index);
	int			width = sizeof(ItemPointerData) + BITMAPLEN(desc->natts - 1);

	if (index->rd_amcache != NULL)
		return ((const GjIndexInfo *) index->rd_amcache)->row_width;

	for (int i = 0; i < desc->natts; i++)
		width += Max(TupleDescAttr(desc, i)->attlen, 1);
	return width;
}
