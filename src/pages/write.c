/*-------------------------------------------------------------------------
 *
 * write.c
 *	  Writing pages of a gpujoin index, with their WAL.
 *
 * Each function here makes one change that is complete by itself: a crash or a reader between
 * two of them finds a correct index.  Changes go through generic WAL, because a custom resource
 * manager would have to be preloaded wherever the WAL is replayed.  (New pages of a run are
 * logged as full-page images: publish.c.  log_changes() makes records for the replay of generic
 * WAL without its help.)
 *
 * Lock order, everywhere: tail page, data page, list page, journal, metapage.  Pages are
 * registered for WAL in the same order, because replay locks them in the order of registration,
 * and a standby has readers.  The lock on a page that seems to be free is only tried, never
 * waited for: the free space map is a hint, so it may be any page.  Only the holder of a lane's
 * tail lock changes which data page the lane has open, so the value read from the metapage under
 * a short share lock is valid until the tail is unlocked.  The relation must not be extended
 * while holding a content lock.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "base/buffers.h"
#include "base/step.h"
#include "pages.h"

/* Rows --------------------------------------------------------------------------- */

/* Space on a page between its header and its special space */
#define PAGE_ROOM \
	((int) (BLCKSZ - MAXALIGN(SizeOfPageHeaderData) - sizeof(GjPageOpaqueData)))

/* Bytes of the head of a fragment of generic WAL */
#define FRAGMENT_HEAD			(2 * sizeof(uint16))

/*
 * A change of a page, as generic WAL has it: fragments, each an offset, a length and the new
 * bytes.  There is at most one for each array and each bitmap, and a few for fields; or, of entries
 * that are deleted, one for each second word of a bitmap.
 */
typedef struct Change
{
	Buffer		buffer;
	int			length;
	char		bytes[BLCKSZ + (2 * GJ_MAX_COLUMNS + 8) * FRAGMENT_HEAD];
} Change;

static uint64 tail_bit(Buffer tail);
static Buffer lock_if_empty(Relation index, const GjIndexInfo *info, Buffer tail);
static void put_value(char *array, int slot, int width, const char *value);
static void begin_change(Change *change, Buffer buffer);
static void change_bytes(Change *change, void *to, const void *from, int n);
static void add_bytes(Change *change, const void *from, int n);
static void log_changes(Relation index, Change **changes, int n);
static void log_slots(Change *change, const GjIndexInfo *info, int first, int last,
					  bool with_nulls);
static void widen_bounds(GjPageOpaque opaque, int64 key);
static int	find_free_slot(const uint32 *used, int words, int from);
static void open_arrays(Relation index, const GjIndexInfo *info, Buffer data);
static Buffer lock_block(Relation index, BlockNumber block, GjPageKind kind);
static int	count_cleared(Relation index, const GjIndexInfo *info, Buffer data, const uint32 *dead);
static void clear_slots(Change *change, const GjIndexInfo *info, const uint32 *dead, int ndead,
						uint64 sequence);
static GjRun *get_listed_run(GjMetaPage meta, uint32 number);
static GjJournalEntry *add_journal_entry(GjMetaPage meta, Page journal, GjJournalKind kind,
										 BlockNumber block);
static void add_list_element(GjMetaPage meta, Page list, BlockNumber block);
static int	count_tails(int nlanes);
static void init_meta(Page page, const GjLayout *layout, uint64 build_id, int nlanes,
					  uint64 hash_identity, bool has_rests);
static void list_init(Page page, uint32 run, BlockNumber previous);
static void check_included(Relation index, bool has_rests, const uint16 *flags);

/*
 * Put a row into a free slot of a data page
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
 * The tail must be exclusively locked and have room.
 *
 * This is the only change that is made for each row.  Generic WAL would copy and compare the page,
 * which is a third of the work of INSERT ... SELECT, so we make the record that its replay expects.
 * pd_lower never moves down, and tails have no bounds of keys, so the record contains the row and
 * the number of rows only.
 *
 * If the metapage says that the tail is empty, the same record takes that back: a reader that finds
 * the bit need not read the tail (match/search.c).
 */
void
GjTailAppend(Relation index, const GjIndexInfo *info, Buffer tail, const char *row)
{
	Page		page = BufferGetPage(tail);
	PageHeader	header = (PageHeader) page;
	GjPageOpaque opaque = GjPageGetOpaque(page);
	uint16		used = opaque->used + 1;
	LocationIndex lower = GjTailRow(page, info, info->tail_rows) - (char *) page;
	Buffer		metabuf = opaque->used == 0 ? lock_if_empty(index, info, tail) : InvalidBuffer;
	GjMetaMore	more;
	uint64		empty;
	Change		change;
	Change		of_meta;
	Change	   *changes[] = {&change, &of_meta};

	begin_change(&change, tail);
	START_CRIT_SECTION();
	if (header->pd_lower < lower)
	{
		/* replay clears what is behind pd_lower, too */
		memset((char *) page + header->pd_lower, 0, lower - header->pd_lower);
		change_bytes(&change, &header->pd_lower, &lower, sizeof(lower));
	}
	change_bytes(&change, GjTailRow(page, info, opaque->used), row, info->row_width);
	change_bytes(&change, &opaque->used, &used, sizeof(used));
	if (BufferIsValid(metabuf))
	{
		more = GjMetaGetMore(GjPageGetMeta(BufferGetPage(metabuf)));
		empty = more->empty_tails & ~tail_bit(tail);
		begin_change(&of_meta, metabuf);
		change_bytes(&of_meta, &more->empty_tails, &empty, sizeof(empty));
	}
	log_changes(index, changes, BufferIsValid(metabuf) ? 2 : 1);
	END_CRIT_SECTION();
	GjStep("appended");
	if (BufferIsValid(metabuf))
		UnlockReleaseBuffer(metabuf);
}

/*
 * Return the bit of a tail in the metapage
 */
static uint64
tail_bit(Buffer tail)
{
	return UINT64CONST(1) << (BufferGetBlockNumber(tail) - GJ_FIRST_TAIL_BLOCK);
}

/*
 * Lock the metapage if it says that the locked tail is empty; otherwise return InvalidBuffer
 *
 * A tail gets its first row after each flush, but its bit is set only after a fold.  So look at the
 * bit without a lock first: it changes only under the exclusive lock on the tail, which is ours.
 * The tail of NULL keys has no bit, and is always read.
 */
static Buffer
lock_if_empty(Relation index, const GjIndexInfo *info, Buffer tail)
{
	Buffer		metabuf;
	GjMetaPage	meta;

	if (info->of_nulls)
		return InvalidBuffer;
	metabuf = GjBufferRead(index, GJ_META_BLOCK, InvalidBuffer, NULL);
	meta = GjPageGetMeta(BufferGetPage(metabuf));
	GjMetaCheckLanes(index, meta);
	if (!GjMetaTracksTails(meta) || (GjMetaGetMore(meta)->empty_tails & tail_bit(tail)) == 0)
	{
		ReleaseBuffer(metabuf);
		return InvalidBuffer;
	}
	LockBuffer(metabuf, BUFFER_LOCK_EXCLUSIVE);
	GjPageCheck(index, metabuf, GJ_PAGE_META);
	return metabuf;
}

static void
begin_change(Change *change, Buffer buffer)
{
	change->buffer = buffer;
	change->length = 0;
}

/*
 * Change bytes of a page, and add them to the change
 *
 * Bytes at both ends that the page has already are left out.  A tail has the bytes of an earlier
 * row there, which often ends like the new one: a standby has the same.
 */
static void
change_bytes(Change *change, void *to, const void *from, int n)
{
	char	   *old = to;
	const char *new = from;

	while (n > 0 && old[n - 1] == new[n - 1])
		n--;
	for (; n > 0 && *old == *new; n--)
		old++, new++;
	memcpy(old, new, n);
	add_bytes(change, old, n);
}

/*
 * Add bytes of the page to the change
 */
static void
add_bytes(Change *change, const void *from, int n)
{
	uint16		head[2] = {(const char *) from - (char *) BufferGetPage(change->buffer), n};

	if (n == 0)
		return;
	memcpy(change->bytes + change->length, head, sizeof(head));
	memcpy(change->bytes + change->length + sizeof(head), from, n);
	change->length += sizeof(head) + n;
}

/*
 * Log changes of pages that have been made, by one record
 */
static void
log_changes(Relation index, Change **changes, int n)
{
	XLogRecPtr	end;

	for (int i = 0; i < n; i++)
		MarkBufferDirty(changes[i]->buffer);
	if (!RelationNeedsWAL(index))
		return;
	XLogBeginInsert();
	for (int i = 0; i < n; i++)
	{
		XLogRegisterBuffer(i, changes[i]->buffer, REGBUF_STANDARD);
		XLogRegisterBufData(i, changes[i]->bytes, changes[i]->length);
	}
	end = XLogInsert(RM_GENERIC_ID, 0);
	for (int i = 0; i < n; i++)
		PageSetLSN(BufferGetPage(changes[i]->buffer), end);
}

/*
 * Move rows of a tail page, as many as fit, to free slots of the lane's data page
 *
 * Both pages are exclusively locked; the data page has a free slot.  This takes one record, so
 * that an entry is on exactly one of the two pages at any time.
 *
 * Generic WAL would copy and compare three whole pages.  But only fields change that we know, and
 * the slots from the first to the last one that gets a row.
 */
void
GjTailFlush(Relation index, const GjIndexInfo *info, Buffer tail, Buffer data)
{
	Page		tailpage = BufferGetPage(tail);
	Page		datapage = BufferGetPage(data);
	GjPageOpaque from = GjPageGetOpaque(tailpage);
	GjPageOpaqueData before = *GjPageGetOpaque(datapage);
	GjPageOpaqueData after;
	const uint32 *used_bits = GjDataUsed(datapage, info);
	bool		with_nulls = GjDataHasNulls(datapage, info);
	int			first = find_free_slot(used_bits, GjDataWords(datapage, info), 0);
	int			last = first;
	int			row = 0;
	Buffer		metabuf;
	GjMetaPage	meta;
	uint64		sequence;
	uint16		used;
	Change		of_tail;
	Change		of_data;
	Change		of_meta;
	Change	   *changes[] = {&of_tail, &of_data, &of_meta};

	if (first < 0 || from->used == 0)
		GjReportCorruption(index, BufferGetBlockNumber(data),
						   "A data page's count does not agree with its bitmap.");
	open_arrays(index, info, data); /* after a crash they may not be */
	metabuf = lock_block(index, GJ_META_BLOCK, GJ_PAGE_META);
	meta = GjPageGetMeta(BufferGetPage(metabuf));
	begin_change(&of_tail, tail);
	begin_change(&of_data, data);
	begin_change(&of_meta, metabuf);

	START_CRIT_SECTION();
	for (int slot = first; slot >= 0 && row < from->used; row++)
	{
		GjDataPut(datapage, info, slot, GjTailRow(tailpage, info, row));
		last = slot;
		slot = find_free_slot(used_bits, GjDataWords(datapage, info), slot + 1);
	}
	log_slots(&of_data, info, first, last, with_nulls || GjDataHasNulls(datapage, info));
	sequence = meta->sequence + 1;
	change_bytes(&of_meta, &meta->sequence, &sequence, sizeof(sequence));
	after = *GjPageGetOpaque(datapage);
	after.change = sequence;
	*GjPageGetOpaque(datapage) = before;
	change_bytes(&of_data, GjPageGetOpaque(datapage), &after, sizeof(after));

	used = from->used - row;
	memmove(GjTailRow(tailpage, info, 0), GjTailRow(tailpage, info, row),
			(Size) used * info->row_width);
	add_bytes(&of_tail, GjTailRow(tailpage, info, 0), used * info->row_width);
	change_bytes(&of_tail, &from->used, &used, sizeof(used));
	log_changes(index, changes, lengthof(changes));
	END_CRIT_SECTION();
	GjStep("flushed");
	UnlockReleaseBuffer(metabuf);
}

/*
 * Add the slots from the first to the last one of a data page to its change
 */
static void
log_slots(Change *change, const GjIndexInfo *info, int first, int last, bool with_nulls)
{
	Page		page = BufferGetPage(change->buffer);
	int			n = last - first + 1;
	int			word = first / GJ_SLOTS_PER_WORD;
	int			bytes = (last / GJ_SLOTS_PER_WORD - word + 1) * sizeof(uint32);

	add_bytes(change, GjDataKeys(page, info) + first * info->key_width, n * info->key_width);
	add_bytes(change, GjDataTids(page, info) + first, n * sizeof(ItemPointerData));
	add_bytes(change, GjDataUsed(page, info) + word, bytes);
	for (int i = 0; i < info->nincluded; i++)
	{
		const GjIncludedColumn *column = &info->included[i];

		add_bytes(change, GjDataValues(page, column) + first * column->width, n * column->width);
		if (with_nulls)
			add_bytes(change, GjDataNulls(page, column) + word, bytes);
	}
}

/*
 * Give the lane another data page, and enter it in the delta's list and in the journal
 *
 * The caller holds exclusive locks on the lane's tail; on new_data, which is free (read.c); and
 * on list, a list page of the delta that has room.  Returns false if nothing was done, because
 * the delta has another list page by now.
 */
bool
GjLaneSwitch(Relation index, const GjIndexInfo *info, int lane, Buffer new_data, Buffer list)
{
	Buffer		journalbuf = lock_block(index, GJ_JOURNAL_BLOCK, GJ_PAGE_JOURNAL);
	Buffer		metabuf = lock_block(index, GJ_META_BLOCK, GJ_PAGE_META);
	BlockNumber block = BufferGetBlockNumber(new_data);
	bool		of_nulls = info->of_nulls;
	bool		possible = GjMetaGetDelta(GjPageGetMeta(BufferGetPage(metabuf)), of_nulls)->head ==
		BufferGetBlockNumber(list);

	if (possible)
	{
		GenericXLogState *state = GenericXLogStart(index);
		Page		page = GenericXLogRegisterBuffer(state, new_data, GENERIC_XLOG_FULL_IMAGE);
		Page		listpage = GenericXLogRegisterBuffer(state, list, 0);
		Page		journal = GenericXLogRegisterBuffer(state, journalbuf, 0);
		GjMetaPage	meta = GjPageGetMeta(GenericXLogRegisterBuffer(state, metabuf, 0));
		GjDelta    *delta = GjMetaGetDelta(meta, of_nulls);

		meta->sequence++;
		*GjMetaGetLane(meta, lane) = (GjLane) {.open_block = block, .run = delta->run};
		delta->data_pages++;
		/* the file has the block already, here and during replay: read.c */
		meta->min_blocks = Max(meta->min_blocks, block + 1);
		(void) add_journal_entry(meta, journal, GJ_JOURNAL_OPENED, block);
		add_list_element(meta, listpage, block);
		GjPageInit(page, GJ_PAGE_DATA, delta->run);
		GjPageGetOpaque(page)->change = meta->sequence;
		GenericXLogFinish(state);
		GjStep("switched");
		open_arrays(index, info, new_data);
	}
	UnlockReleaseBuffer(metabuf);
	UnlockReleaseBuffer(journalbuf);
	return possible;
}

/*
 * Make the arrays of an exclusively locked data page count as used space, unless they do already
 *
 * The record that puts an empty page into use has an image of it, without the space that is not
 * used: with the arrays it would be a tenth of the WAL that the index writes.  A change of the
 * arrays comes later, because replay clears the space that is not used.
 */
static void
open_arrays(Relation index, const GjIndexInfo *info, Buffer data)
{
	Page		page = BufferGetPage(data);
	PageHeader	header = (PageHeader) page;
	LocationIndex lower = info->arrays_end;
	Change		change;
	Change	   *changes[] = {&change};

	if (header->pd_lower != SizeOfPageHeaderData)
		return;
	begin_change(&change, data);
	START_CRIT_SECTION();
	memset((char *) page + header->pd_lower, 0, lower - header->pd_lower);
	change_bytes(&change, &header->pd_lower, &lower, sizeof(lower));
	log_changes(index, changes, lengthof(changes));
	END_CRIT_SECTION();
	GjStep("arrays opened");
}

/*
 * Make a free page, which the caller has locked exclusively, the last list page of a part's delta
 *
 * Returns false if nothing was done, because the delta has changed: another process was faster.
 * (A copy of the index need not know: it has no entries for a page that was free.)
 */
bool
GjListAdd(Relation index, bool of_nulls, Buffer new_list, const GjDelta *delta)
{
	Buffer		metabuf = lock_block(index, GJ_META_BLOCK, GJ_PAGE_META);
	const GjDelta *now = GjMetaGetDelta(GjPageGetMeta(BufferGetPage(metabuf)), of_nulls);
	BlockNumber block = BufferGetBlockNumber(new_list);
	bool		possible = now->run == delta->run && now->head == delta->head;

	if (possible)
	{
		GenericXLogState *state = GenericXLogStart(index);
		Page		page = GenericXLogRegisterBuffer(state, new_list, GENERIC_XLOG_FULL_IMAGE);
		GjMetaPage	meta = GjPageGetMeta(GenericXLogRegisterBuffer(state, metabuf, 0));

		list_init(page, delta->run, delta->head);
		GjPageGetOpaque(page)->change = ++meta->sequence;
		GjMetaGetDelta(meta, of_nulls)->head = block;
		GjMetaGetDelta(meta, of_nulls)->list_pages++;
		meta->min_blocks = Max(meta->min_blocks, block + 1);
		GenericXLogFinish(state);
		GjStep("listed");
	}
	UnlockReleaseBuffer(metabuf);
	return possible;
}

/*
 * Remove rows from an exclusively locked tail page; dead has one bit per row
 *
 * The remaining rows are moved together: no other structure refers to a row's place on a tail
 * page.
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
	GenericXLogFinish(state);
	GjStep("tail deleted");
}

/*
 * Remove entries of an exclusively locked data page; dead has one bit per slot
 *
 * The slots remain unused until the page is reused, except on a page that a lane is still
 * filling.
 *
 * Sequence and journal change in the same record: if they changed earlier, a mirror could read
 * the page in between and believe that it has the deletion.
 *
 * As in GjTailFlush(), the fields that change are known.  Generic WAL would compare three pages, a
 * fourteenth of the work of VACUUM.
 */
void
GjDataDelete(Relation index, const GjIndexInfo *info, Buffer data, const uint32 *dead)
{
	Buffer		journalbuf = lock_block(index, GJ_JOURNAL_BLOCK, GJ_PAGE_JOURNAL);
	Buffer		metabuf = lock_block(index, GJ_META_BLOCK, GJ_PAGE_META);
	GjMetaPage	meta = GjPageGetMeta(BufferGetPage(metabuf));
	int			ndead = count_cleared(index, info, data, dead);
	GjRun	   *run = get_listed_run(meta, GjPageGetOpaque(BufferGetPage(data))->run);
	GjJournalEntry *entry;
	uint64		sequence = meta->sequence + 1;
	Change		of_data;
	Change		of_journal;
	Change		of_meta;
	Change	   *changes[] = {&of_data, &of_journal, &of_meta};

	begin_change(&of_data, data);
	begin_change(&of_journal, journalbuf);
	begin_change(&of_meta, metabuf);

	START_CRIT_SECTION();
	change_bytes(&of_meta, &meta->sequence, &sequence, sizeof(sequence));
	clear_slots(&of_data, info, dead, ndead, sequence);
	if (run != NULL)
	{
		uint64		all = run->dead + ndead;

		change_bytes(&of_meta, &run->dead, &all, sizeof(all));
	}
	entry = add_journal_entry(meta, BufferGetPage(journalbuf), GJ_JOURNAL_DELETED,
							  BufferGetBlockNumber(data));
	add_bytes(&of_journal, entry, sizeof(*entry));
	add_bytes(&of_meta, &meta->journal_floor, sizeof(meta->journal_floor));
	add_bytes(&of_meta, &meta->journal_next, sizeof(meta->journal_next));
	add_bytes(&of_meta, &meta->journal_used, sizeof(meta->journal_used));
	log_changes(index, changes, lengthof(changes));
	END_CRIT_SECTION();
	GjStep("deleted");
	UnlockReleaseBuffer(metabuf);
	UnlockReleaseBuffer(journalbuf);
}

/*
 * Remove entries of an exclusively locked data page of the run that a merge is writing
 *
 * No mirror has the page, so the journal need not tell; but it may get an empty copy, which the
 * page's next version must replace.
 */
void
GjMergeDelete(Relation index, const GjIndexInfo *info, Buffer data, const uint32 *dead)
{
	Buffer		metabuf = lock_block(index, GJ_META_BLOCK, GJ_PAGE_META);
	GjMetaPage	meta = GjPageGetMeta(BufferGetPage(metabuf));
	int			ndead = count_cleared(index, info, data, dead);
	GjMetaMore	more = GjMetaGetMore(meta);
	uint64		all = more->merge_dead + ndead;
	uint64		sequence = meta->sequence + 1;
	Change		of_data;
	Change		of_meta;
	Change	   *changes[] = {&of_data, &of_meta};

	begin_change(&of_data, data);
	begin_change(&of_meta, metabuf);

	START_CRIT_SECTION();
	change_bytes(&of_meta, &meta->sequence, &sequence, sizeof(sequence));
	clear_slots(&of_data, info, dead, ndead, sequence);
	change_bytes(&of_meta, &more->merge_dead, &all, sizeof(all));
	log_changes(index, changes, lengthof(changes));
	END_CRIT_SECTION();
	GjStep("merge deleted");
	UnlockReleaseBuffer(metabuf);
}

/*
 * Count the entries that are in use among these slots of a page, after a check of the page
 */
static int
count_cleared(Relation index, const GjIndexInfo *info, Buffer data, const uint32 *dead)
{
	Page		page = BufferGetPage(data);
	const uint32 *used;
	int			ndead = 0;
	int			all = 0;

	GjNarrowDemand(index, BufferGetBlockNumber(data), page, info);
	used = GjDataUsed(page, info);
	for (int word = 0; word < GjDataWords(page, info); word++)
	{
		ndead += pg_popcount32(used[word] & dead[word]);
		all += pg_popcount32(used[word]);
	}

	/* a run must not lose more entries than it had, or the metapage would be wrong, too */
	if (all != GjPageGetOpaque(page)->used)
		GjReportCorruption(index, BufferGetBlockNumber(data),
						   "A data page's count does not agree with its bitmap.");
	return ndead;
}

/*
 * Mark slots of a page as unused, ndead of which are in use
 */
static void
clear_slots(Change *change, const GjIndexInfo *info, const uint32 *dead, int ndead,
			uint64 sequence)
{
	Page		page = BufferGetPage(change->buffer);
	GjPageOpaque opaque = GjPageGetOpaque(page);
	uint32	   *used = GjDataUsed(page, info);
	uint16		left = opaque->used - ndead;
	int			words = GjDataWords(page, info);

	/* adjacent words are one fragment */
	for (int first = 0, end; first < words; first = end + 1)
	{
		for (end = first; end < words && (used[end] & dead[end]) != 0; end++)
			used[end] &= ~dead[end];
		add_bytes(change, used + first, (end - first) * sizeof(uint32));
	}
	change_bytes(change, &opaque->used, &left, sizeof(left));
	change_bytes(change, &opaque->change, &sequence, sizeof(sequence));
}

/*
 * Return a run of either part, or NULL if none is listed under this number, as for a delta
 */
static GjRun *
get_listed_run(GjMetaPage meta, uint32 number)
{
	for (int i = 0; i < meta->nruns; i++)
	{
		if (GjMetaGetRun(meta, i)->run == number)
			return GjMetaGetRun(meta, i);
	}
	for (uint32 i = 0; GjMetaHasNulls(meta) && i < GjMetaGetNulls(meta)->nruns; i++)
	{
		if (GjMetaGetNulls(meta)->runs[i].run == number)
			return &GjMetaGetNulls(meta)->runs[i];
	}
	return NULL;
}

/*
 * Count a finished bulk deletion, even if it deleted nothing
 *
 * Index-only answers depend on this: match/visible.c.
 */
void
GjEpochRaise(Relation index)
{
	Buffer		metabuf = lock_block(index, GJ_META_BLOCK, GJ_PAGE_META);
	GenericXLogState *state = GenericXLogStart(index);

	GjPageGetMeta(GenericXLogRegisterBuffer(state, metabuf, 0))->vacuum_epoch++;
	GenericXLogFinish(state);
	GjStep("raised");
	UnlockReleaseBuffer(metabuf);
}

/* Helpers ------------------------------------------------------------------------ */

/*
 * Copy a value of a row into an array; with a constant size this is a plain store
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
 * Return the first free slot at or after a slot, or -1
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
 * Enter a change of one block, numbered meta->sequence, into the journal; returns the entry
 *
 * Adjacent blocks with the same kind of change share an entry, which then carries the later
 * number: a mirror may copy a block once more than needed, but never misses a change.
 */
static GjJournalEntry *
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
			return entry;
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
	return entry;
}

/*
 * Enter a data page into the delta's last list page, which has room
 */
static void
add_list_element(GjMetaPage meta, Page list, BlockNumber block)
{
	GjPageOpaque opaque = GjPageGetOpaque(list);

	GjPageGetList(list)->blocks[opaque->used++] = block;
	((PageHeader) list)->pd_lower = GjListEnd(list) - (char *) list;
	opaque->change = meta->sequence;
}

/*-------------------------------------------------------------------------
 * A new index
 *
 * Write empty pages, and the pages of an index that no other process can see yet.
 *
 * The fork of a new index is filled without WAL and logged as a whole at the end: until the
 * transaction commits, no other process can use it.
 *-------------------------------------------------------------------------
 */

/*
 * Initialize an empty page of some kind, for a run or delta if its block is first_data or later
 *
 * The caller sets the change counter, which must not decrease if the page was in use before.
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
 * Initialize an empty data page: its arrays count as used space, for the sake of WAL
 */
void
GjDataInit(Page page, const GjIndexInfo *info, uint32 run)
{
	GjPageInit(page, GJ_PAGE_DATA, run);
	((PageHeader) page)->pd_lower = info->arrays_end;
}

/*
 * Initialize an empty list page of a delta, after the previous one, if any
 */
static void
list_init(Page page, uint32 run, BlockNumber previous)
{
	GjPageInit(page, GJ_PAGE_LIST, run);
	GjPageGetList(page)->previous = previous;
	((PageHeader) page)->pd_lower = GjListEnd(page) - (char *) page;
}

/*
 * Return the number of tail pages of a new index: one for NULL keys, unless a test wants an index
 * as former releases have built it
 */
static int
count_tails(int nlanes)
{
	return GjPagesArePlain() ? nlanes : nlanes + 1;
}

/*
 * Initialize the metapage of an empty index
 */
static void
init_meta(Page page, const GjLayout *layout, uint64 build_id, int nlanes, uint64 hash_identity,
		  bool has_rests)
{
	GjMetaPage	meta;

	GjPageInit(page, GJ_PAGE_META, 0);
	meta = GjPageGetMeta(page);
	memset(meta, 0, offsetof(GjMetaPageData, lanes));

	meta->magic = GJ_MAGIC;
	meta->version = GJ_FORMAT_VERSION;
	meta->build_id = build_id;
	meta->sequence = 1;			/* the build itself is the first change */
	meta->list_version = 1;		/* 0 means none */
	meta->journal_floor = 1;
	meta->journal_start = GJ_JOURNAL_BLOCK;
	meta->journal_blocks = 1;
	meta->first_data = GJ_FIRST_TAIL_BLOCK + count_tails(nlanes);
	meta->min_blocks = meta->first_data;
	meta->flags = (hash_identity != 0 ? GJ_META_HASHED_KEYS : 0) |
		(has_rests ? GJ_META_RESTS : 0) |
		(count_tails(nlanes) > nlanes ? GJ_META_NULL_KEYS : 0);
	meta->slots = layout->slots;
	meta->used_offset = layout->used_offset;
	meta->ncolumns = layout->ncolumns;
	memcpy(meta->columns, layout->columns, sizeof(meta->columns));
	meta->tail_rows = Min(GJ_TAIL_ROWS, PAGE_ROOM / layout->row_width);
	meta->nlanes = nlanes;
	meta->next_run = GJ_BASE_RUN;
	meta->delta.run = GJ_FIRST_DELTA;
	meta->delta.head = InvalidBlockNumber;
	meta->previous.head = InvalidBlockNumber;
	for (int lane = 0; lane < nlanes; lane++)
		meta->lanes[lane].open_block = InvalidBlockNumber;
	memset(GjMetaGetMore(meta), 0, sizeof(GjMetaMoreData));
	GjMetaGetMore(meta)->hash_identity = hash_identity;
	GjMetaGetMore(meta)->tracks_tails = 1;
	GjMetaGetMore(meta)->empty_tails = GjMetaAllTails(meta);
	if (GjMetaHasNulls(meta))
	{
		GjMetaNull	nulls = GjMetaGetNulls(meta);

		memset(nulls, 0, sizeof(GjMetaNullData));
		nulls->lane.open_block = InvalidBlockNumber;
		nulls->delta.run = GJ_NULL_DELTA;
		nulls->delta.head = InvalidBlockNumber;
		nulls->previous.head = InvalidBlockNumber;
		meta->next_run = GJ_NULL_RUN + 1;
	}

	((PageHeader) page)->pd_lower = GjMetaEnd(meta) - (char *) page;
}

/*
 * Write the fixed pages of an empty index into a new fork, without WAL.  flags[] are those of its
 * INCLUDE columns.
 */
void
GjIndexInitFork(Relation index, ForkNumber fork, uint64 build_id, int nlanes, const uint16 *flags)
{
	bool		has_rests;
	uint64		hash_identity = GjCodecIdentity(index, &has_rests);
	GjLayout	layout;

	check_included(index, has_rests, flags);
	(void) GjLayoutMake(RelationGetDescr(index), has_rests, flags, &layout);
	for (BlockNumber block = 0; block < GJ_FIRST_TAIL_BLOCK + count_tails(nlanes); block++)
	{
		PGAlignedBlock image;
		Page		page = (Page) image.data;

		if (block == GJ_META_BLOCK)
			init_meta(page, &layout, build_id, nlanes, hash_identity, has_rests);
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
 * Append a finished page to a fork that other processes cannot see yet, without WAL
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
 * Record in the metapage the contents of an index that was filled without WAL: a run, a run of NULL
 * keys, or NULL in place of either; and its length
 */
void
GjIndexNoteBuilt(Relation index, const GjRun *run, const GjRun *null_run)
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
		*GjMetaGetRun(meta, meta->nruns++) = *run;
		meta->next_run = Max(meta->next_run, run->run + 1);
	}
	if (null_run != NULL)
		GjMetaGetNulls(meta)->runs[GjMetaGetNulls(meta)->nruns++] = *null_run;
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

/*
 * Check that the INCLUDE columns of an index can be stored; the error names one that cannot
 */
static void
check_included(Relation index, bool has_rests, const uint16 *flags)
{
	TupleDesc	desc = RelationGetDescr(index);
	GjLayout	layout;

	for (int i = 1; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		if (!GjCanInclude(attribute))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("access method \"%s\" cannot include column \"%s\" of type %s",
							GJ_NAME, NameStr(attribute->attname),
							format_type_be(attribute->atttypid)),
					 errdetail("Only text, varchar, uuid, numeric, and types of fixed width that "
							   "are passed by value, can be included: integers, floating-point "
							   "numbers, boolean, \"char\", date, timestamp, oid, enums and the "
							   "like."),
					 errhint("Leave the column out of INCLUDE; it is then read from the table.")));
	}
	if (!GjLayoutMake(desc, has_rests, flags, &layout))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index \"%s\" has too many included columns",
						RelationGetRelationName(index)),
				 errdetail("An index can include %d columns, each uuid or text counts as two, and "
						   "32 of its entries must fit on a page.",
						   GJ_MAX_INCLUDED - (has_rests ? 1 : 0)),
				 errhint("Leave some columns out of INCLUDE; they are then read from the "
						 "table.")));
}
