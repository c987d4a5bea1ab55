/*-------------------------------------------------------------------------
 *
 * search.c
 *	  The CPU's answer to "which entries have a key of this set?", taken from the
 *	  index pages in shared buffers.
 *
 * No page is locked while another one is read, and insertions go on meanwhile.
 * That no entry is missed follows from the order of reading:
 *
 *	  1. the tail pages of all lanes,
 *	  2. then the length of the index (GjIndexGetLength: an error if it has lost its end),
 *	  3. then all data pages up to this length.
 *
 * An entry that the caller's snapshot may see was in the index before the search
 * began.  It is on a tail page or on a data page; it moves once at most, from tail
 * to data, and never again (GjTailFlush).  This move is one WAL record and takes
 * place while both pages are locked exclusively.  If it comes after step 1 has
 * locked the tail, the entry is seen on the tail.  If it comes before, the data
 * page had the entry when the tail was unlocked; it was part of the index then, so
 * step 2 counts it and step 3 reads it, with the entry, which stays where it is
 * until a vacuum removes it as dead to everybody.  On a standby the same holds:
 * redo changes the two pages of the record while it holds the locks of both.
 *
 * An entry may be seen twice, on the tail and on the data page.  The TID set, or the
 * entry set, delivers it once.
 *
 * A data page is matched in place under its share lock, for half a microsecond:
 * copying it first would take longer.  The next page is pinned meanwhile, not
 * locked, and its keys are fetched into the cache: a quarter of the time.  Where the
 * index lies in consecutive buffers, the buffer table is not asked (base/buffers.c).  From
 * disk, reading is sequential, which the operating system's read-ahead serves;
 * asking the buffer manager to prefetch would cost an index in memory a lookup per
 * page for nothing.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "base/buffers.h"
#include "base/prefetch.h"
#include "pages/pages.h"
#include "parts.h"

/*
 * Looking for the set's keys in the range of a page costs some 30 ns, a twentieth
 * of matching the page.  It is done where no more keys than this are expected
 * there, if they are spread evenly.
 */
#define GJ_SEARCH_SPARSE_KEYS	16

static bool search_data_page(Relation index, Buffer buffer, const GjIndexInfo *info,
							 const GjKeySet *keys, GjMatchTarget target,
							 GjMatchStats *stats);
static bool add_hits(GjMatchTarget target, Page page, const GjIndexInfo *info,
					 const uint32 *hits, uint32 nhits);
static bool page_may_match(GjPageOpaque opaque, const GjKeySet *keys);

/*
 * Have the keys of a page on their way from memory.  Needs a pin only: addresses
 * depend on the index, not on what is on the page.  Inline, since gcc drops calls of
 * a function that only prefetches: it takes it for one without effect.
 */
static pg_attribute_always_inline void
prefetch_keys(Page page, const GjIndexInfo *info)
{
	GjPrefetch(GjDataUsed(page, info));
	GjPrefetchRange(GjDataKeys(page, info), info->slots * info->key_width);
}

/*
 * Step 1: read all tail pages
 *
 * The hits are kept apart, and added last: they are few, and all that can have been met on a
 * data page, too.
 *
 * All functions here take and release one share lock after another; the caller has the
 * index open with at least AccessShareLock, its snapshot taken, and a set that wants a key.
 */
void
GjSearchTails(Relation index, const GjIndexInfo *info, const GjKeySet *keys, GjTailHits *hits,
			  GjMatchStats *stats)
{
	int			max_rows = BLCKSZ / info->row_width;

	for (int lane = 0; lane < info->nlanes; lane++)
	{
		Buffer		buffer = ReadBuffer(index, GJ_FIRST_TAIL_BLOCK + lane);
		Page		page = BufferGetPage(buffer);
		int			nrows;

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		GjPageCheck(index, buffer, GJ_PAGE_TAIL);
		nrows = GjPageGetOpaque(page)->used;
		for (int row = 0; row < nrows; row++)
		{
			ItemPointerData tid;
			int64		key = GjTailGetRow(page, info, row, &tid);

			if (!GjKeySetContains(keys, key))
				continue;
			if (!GjTidIsPossible(&tid))
				GjReportCorruption(index, BufferGetBlockNumber(buffer),
								   "An entry has an impossible TID.");
			if (hits->rows == NULL)
				hits->rows = palloc(info->nlanes * max_rows * info->row_width);
			memcpy(hits->rows + hits->nrows++ * info->row_width, GjTailRow(page, info, row),
				   info->row_width);
		}
		stats->pages++;
		stats->entries += nrows;
		UnlockReleaseBuffer(buffer);
	}
}

/*
 * Steps 2 and 3: read all data pages that there are
 */
void
GjSearchData(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
			 GjMatchTarget target, GjMatchStats *stats)
{
	BlockNumber end = GjIndexGetLength(index);

	(void) GjSearchBlocks(index, info, keys, info->first_data, end, end - info->first_data,
						  target, stats);
}

/*
 * Search the data pages from start to before end
 *
 * They are part of total pages that are searched for one answer.  If it is for a piece of
 * a result, stop when that has no room for another page's entries.  Returns the first block
 * that was not searched.
 */
BlockNumber
GjSearchBlocks(Relation index, const GjIndexInfo *info, const GjKeySet *keys,
			   BlockNumber start, BlockNumber end, BlockNumber total, GjMatchTarget target,
			   GjMatchStats *stats)
{
	BufferAccessStrategy strategy = NULL;
	Buffer		next = InvalidBuffer;
	Buffer		found = InvalidBuffer;	/* where the next block but one probably is */
	bool		matching = true;
	BlockNumber block;
	GjGuess		guess;

	/* As scans of a heap do: a big one must not drive all else out of shared buffers */
	if (!RelationUsesLocalBuffers(index) && total > NBuffers / 4)
		strategy = GetAccessStrategy(BAS_BULKREAD);

	GjGuessStart(&guess, index, strategy);
	if (start < end)
		next = GjGuessRead(&guess, start, InvalidBuffer);

	for (block = start; block < end; block++)
	{
		Buffer		buffer = next;
		Page		page = BufferGetPage(buffer);

		CHECK_FOR_INTERRUPTS();
		if (target.entries != NULL && !GjEntrySetHasRoom(target.entries, info->slots))
		{
			ReleaseBuffer(buffer);
			break;
		}
		if (block + 1 < end)
		{
			next = GjGuessRead(&guess, block + 1, found);
			found = GjGuessFind(&guess, block + 2);
			if (matching)
				prefetch_keys(BufferGetPage(next), info);
		}

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		if (!GjPageIsUnused(page))
		{
			GjPageCheck(index, buffer, GJ_PAGE_DATA);
			matching = search_data_page(index, buffer, info, keys, target, stats);
		}
		stats->pages++;
		UnlockReleaseBuffer(buffer);
	}

	if (strategy != NULL)
		FreeAccessStrategy(strategy);
	return block;
}

/*
 * Get the TID of a tail hit, packed
 */
uint64
GjTailHitTid(const GjTailHits *hits, const GjIndexInfo *info, int i)
{
	ItemPointerData tid;

	(void) GjRowGetKey(info, hits->rows + i * info->row_width, &tid);
	return GjPackTid(&tid);
}

/*
 * Prepare to look for the TIDs of tail hits, in the current memory context
 */
GjFewTids *
GjTailHitsTids(const GjTailHits *hits, const GjIndexInfo *info)
{
	uint64	   *tids = palloc(hits->nrows * sizeof(uint64));
	GjFewTids  *few;

	for (int i = 0; i < hits->nrows; i++)
		tids[i] = GjTailHitTid(hits, info, i);
	few = GjFewTidsCreate(CurrentMemoryContext, tids, hits->nrows);
	pfree(tids);
	return few;
}

/*
 * Add what was found on the tail pages
 */
void
GjTailHitsAdd(GjTailHits *hits, const GjIndexInfo *info, GjMatchTarget target,
			  GjMatchStats *stats)
{
	for (int i = 0; i < hits->nrows; i++)
	{
		const char *row = hits->rows + i * info->row_width;
		ItemPointerData tid;

		(void) GjRowGetKey(info, row, &tid);
		if (target.tids != NULL)
			GjTidSetAddOne(target.tids, &tid);
		else
			GjEntrySetAddRow(target.entries, info, row);
	}
	stats->tids += hits->nrows;
	if (hits->rows != NULL)
		pfree(hits->rows);
	hits->rows = NULL;
	hits->nrows = 0;
}

/* Match one checked and locked data page; false if a look at its bounds was enough */
static bool
search_data_page(Relation index, Buffer buffer, const GjIndexInfo *info, const GjKeySet *keys,
				 GjMatchTarget target, GjMatchStats *stats)
{
	Page		page = BufferGetPage(buffer);
	GjPageOpaque opaque = GjPageGetOpaque(page);
	uint32		hits[GJ_MAX_WORDS];
	uint32		nhits;

	stats->entries += opaque->used;
	if (opaque->used == 0 || !page_may_match(opaque, keys))
	{
		stats->pages_skipped++;
		return false;
	}

	nhits = GjKernelMatch(keys, GjDataKeys(page, info), GjDataUsed(page, info), info->words,
						  hits);
	if (nhits > 0 && !add_hits(target, page, info, hits, nhits))
		GjReportCorruption(index, BufferGetBlockNumber(buffer), "An entry has an impossible TID.");
	stats->tids += nhits;
	return true;
}

static bool
add_hits(GjMatchTarget target, Page page, const GjIndexInfo *info, const uint32 *hits,
		 uint32 nhits)
{
	if (target.tids != NULL)
		return GjTidSetAdd(target.tids, GjDataTids(page, info), hits, info->words);
	return GjEntrySetAddPage(target.entries, page, info, hits, nhits);
}

/* Is there a key of the set between the page's bounds?  Sometimes true when not. */
static bool
page_may_match(GjPageOpaque opaque, const GjKeySet *keys)
{
	uint64		page_span = (uint64) opaque->max_key - (uint64) opaque->min_key;
	uint64		mean_gap;
	uint64		position;

	if (keys->complement)
		return true;
	mean_gap = ((uint64) keys->max_key - (uint64) keys->min_key) / keys->nkeys;
	if (opaque->max_key < keys->min_key || opaque->min_key > keys->max_key)
		return false;
	if (page_span / GJ_SEARCH_SPARSE_KEYS > mean_gap)
		return true;
	position = GjKeySetLowerBound(keys, opaque->min_key);
	return position < keys->nkeys && keys->keys[position] <= opaque->max_key;
}
